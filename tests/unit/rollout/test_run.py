"""The engine: outcomes, limits, groups, retries, cancellation; with scripted models and real environments."""

import asyncio
import gc
import weakref

import pytest

from verifiers.decorators import cleanup, stop
from verifiers.envs.multiturn_env import MultiTurnEnv
from verifiers.envs.singleturn_env import SingleTurnEnv
from verifiers.errors import InfraError, ModelError, OverlongPromptError, SandboxStartError
from verifiers.models.scripted import ScriptedModel
from verifiers.rubrics.rubric import Rubric
from verifiers.session import Limits
from waiting import until


def exact(completion, answer):
    return float(completion[-1]["content"] == answer)


def rows(n: int):
    return [{"question": f"q{index}", "answer": str(index)} for index in range(n)]


class Talk(MultiTurnEnv):
    """Answers `go` for ever; counts what the engine does to it."""

    def __init__(self, n: int = 1, **options):
        options.setdefault("rubric", Rubric([lambda state: 1.0]))
        super().__init__(dataset=rows(n), **options)
        self.cleaned: list[int] = []
        self.alive = self.most_alive = 0

    async def setup_state(self, state):
        self.alive += 1
        self.most_alive = max(self.alive, self.most_alive)
        return await super().setup_state(state)

    async def env_response(self, messages, state, **keywords):
        return [{"role": "user", "content": "go"}]

    @cleanup
    async def clean(self, state):
        self.alive -= 1
        self.cleaned.append(state["example_id"])


async def test_every_pair_runs_once_and_is_in_order():
    env = SingleTurnEnv(dataset=rows(3), rubric=Rubric([exact]))
    results = await env.evaluate(ScriptedModel(["1"]), rollouts_per_example=2, max_concurrent=4)

    pairs = [(output["example_id"], output["rollout_id"]) for output in results["outputs"]]
    assert pairs == [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1)]
    assert results["reward"] == [0.0, 0.0, 1.0, 1.0, 0.0, 0.0]
    assert results["metadata"]["avg_reward"] == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    ("error", "kind"),
    [(ModelError("down"), "provider"), (InfraError("x"), "provisioning"), (ValueError("x"), "environment")],
)
async def test_faults_are_unscored_and_leave_the_mean(error, kind):
    env = SingleTurnEnv(dataset=rows(2), rubric=Rubric([lambda completion: 1.0]))
    model = ScriptedModel(lambda messages, tools, sampling: error if "q0" in messages[-1]["content"] else "hi")
    results = await env.evaluate(model, max_retries=0)

    assert results["reward"] == [None, 1.0]
    assert results["outputs"][0]["error"]["kind"] == kind
    assert results["metadata"]["avg_reward"] == 1.0
    assert results["metadata"]["n_unscored"] == 1


async def test_when_nothing_is_scored_the_mean_is_nothing():
    def broken(completion):
        raise ValueError("for every instance")

    results = await SingleTurnEnv(dataset=rows(2), rubric=Rubric([broken])).evaluate(ScriptedModel(["x"]))

    assert results["metadata"]["avg_reward"] is None
    assert results["outputs"][0]["error"]["where"] == "score:broken"


async def test_an_errored_rollout_keeps_partial_values():
    class Breaks(Talk):
        async def env_response(self, messages, state, **keywords):
            raise RuntimeError("the world ended")

    results = await Breaks(rubric=Rubric([lambda completion: len(completion)])).evaluate(ScriptedModel(["a"]))
    (record,) = results.records

    assert record.reward is None
    assert record.error.partial["<lambda>"] == 1.0
    assert record.stop_reason == "error"
    assert [m["content"] for m in record.completion] == ["a"]


@pytest.mark.parametrize(
    ("limits", "options", "reason", "turns"),
    [
        (Limits(), {"max_turns": 3}, "max_turns", 3),
        (Limits(max_turns=2), {}, "max_turns", 2),
        (Limits(max_tokens=4), {}, "max_tokens", 4),
        (Limits(), {"max_turns": -1, "stop_at": 5}, "condition:enough", 5),
    ],
)
async def test_limits_of_the_task_end_it_and_the_state_reached_is_scored(limits, options, reason, turns):
    stop_at = options.pop("stop_at", 10**9)

    class Stops(Talk):
        @stop
        async def enough(self, state):
            return len(state["trajectory"]) >= stop_at

    results = await Stops(**options).evaluate(ScriptedModel(["a"]), limits=limits)
    (record,) = results.records

    assert (record.stop_reason, record.reward) == (reason, 1.0)
    assert len(record.trace.calls) == turns


async def test_running_out_of_time_is_a_stop_reason_too():
    async def slow(messages, tools, sampling):
        await asyncio.sleep(200)

    (record,) = (await Talk().evaluate(ScriptedModel(slow), limits=Limits(timeout_s=0.05))).records

    assert (record.stop_reason, record.reward, record.error) == ("timeout", 1.0, None)


async def test_a_prompt_that_no_longer_fits_is_truncated_not_an_error():
    replies = ["a", OverlongPromptError("too long")]
    (record,) = (await Talk().evaluate(ScriptedModel(replies))).records

    assert (record.stop_reason, record.is_truncated, record.error, record.reward) == ("context", True, None, 1.0)
    assert [m["content"] for m in record.completion] == ["a"]


async def test_the_last_word_of_the_environment_is_in_the_completion():
    class Game(Talk):
        async def env_response(self, messages, state, **keywords):
            state["final_env_response"] = [{"role": "user", "content": "you won"}]
            return []

    (record,) = (await Game().evaluate(ScriptedModel(["move"]))).records

    assert [m["content"] for m in record.completion] == ["move", "you won"]
    assert record.stop_reason == "done"


async def test_groups_are_judged_together_even_with_one_worker():
    def best(completions, answers):
        return [float(len(c[-1]["content"]) == max(len(d[-1]["content"]) for d in completions)) for c in completions]

    lengths = iter(["a", "aaa", "aa"] * 2)
    env = SingleTurnEnv(dataset=rows(2), rubric=Rubric([best]))
    model = ScriptedModel(lambda messages, tools, sampling: next(lengths))
    results = await env.evaluate(model, rollouts_per_example=3, max_concurrent=1)

    assert results["reward"] == [0.0, 1.0, 0.0, 0.0, 1.0, 0.0]


async def test_a_member_with_a_fault_leaves_its_group():
    def count(completions):
        return [float(len(completions))] * len(completions)

    replies = iter(["a", ModelError("down"), "b"])
    env = SingleTurnEnv(dataset=rows(1), rubric=Rubric([count]))
    results = await env.evaluate(
        ScriptedModel(lambda messages, tools, sampling: next(replies)), rollouts_per_example=3, max_concurrent=1
    )

    assert results["reward"] == [2.0, None, 2.0]


async def test_the_bound_is_global():
    env = Talk(8, max_turns=2)

    async def reply(messages, tools, sampling):
        await asyncio.sleep(0.002)
        return "a"

    await env.evaluate(ScriptedModel(reply), rollouts_per_example=8, max_concurrent=4)

    assert env.most_alive == 4
    assert env.alive == 0


async def test_infrastructure_faults_are_tried_again_and_leave_no_trace():
    attempts = []

    class Flaky(Talk):
        async def setup_state(self, state):
            attempts.append(1)
            if len(attempts) < 3:
                raise SandboxStartError("no room")
            return await super().setup_state(state)

    (record,) = (await Flaky(max_turns=1).evaluate(ScriptedModel(["a"]))).records

    assert (record.reward, record.attempt, len(record.trace.calls)) == (1.0, 3, 1)


async def test_cancelling_a_run_cleans_every_rollout_up():
    started = asyncio.Event()

    async def hang(messages, tools, sampling):
        started.set()
        await asyncio.sleep(60)

    env = Talk(4)
    run = asyncio.create_task(env.evaluate(ScriptedModel(hang), max_concurrent=4))
    await started.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run

    assert sorted(env.cleaned) == [0, 1, 2, 3]


async def test_members_that_wait_for_their_group_are_cleaned_up_too():
    stuck = asyncio.Event()
    turn = iter(["a", "b"])

    async def reply(messages, tools, sampling):
        text = next(turn, None)
        if text is None:
            stuck.set()
            await asyncio.sleep(60)
        return text

    released = []

    class Held(Talk):
        async def release(self, session):
            released.append(session.rollout_id)
            await super().release(session)

    def together(completions):
        return [1.0] * len(completions)

    env = Held(1, rubric=Rubric([together]), max_turns=1)
    run = asyncio.create_task(env.evaluate(ScriptedModel(reply), rollouts_per_example=3, max_concurrent=1))
    await stuck.wait()
    assert released == []
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run

    assert sorted(released) == [0, 1, 2]


async def test_seeds_depend_on_the_pair_alone():
    seen: dict[str, set[int]] = {}

    def reply(messages, tools, sampling):
        seen.setdefault(messages[-1]["content"], set()).add(sampling["seed"])
        return "a"

    env = SingleTurnEnv(dataset=rows(3), rubric=Rubric([exact]))
    await env.evaluate(ScriptedModel(reply), rollouts_per_example=2, seed=1, max_concurrent=1)
    first = dict(seen)
    seen.clear()
    await env.evaluate(ScriptedModel(reply), rollouts_per_example=2, seed=1, max_concurrent=6)

    assert seen == first
    assert len(set.union(*first.values())) == 6


async def test_no_seed_is_sent_unless_one_is_asked_for():
    def reply(messages, tools, sampling):
        assert "seed" not in sampling
        return "a"

    results = await SingleTurnEnv(dataset=rows(1), rubric=Rubric([exact])).evaluate(ScriptedModel(reply))
    assert results["reward"] == [0.0]


async def test_finished_rollouts_leave_memory():
    from verifiers.envs.environment import Environment
    from verifiers.harnesses.chat import ChatHarness
    from verifiers.rollout.run import Work, run

    class Big(SingleTurnEnv):
        async def setup_state(self, state):
            state["big"] = Weighty()
            alive.add(state["big"])
            return state

    class Weighty:
        pass

    alive: weakref.WeakSet = weakref.WeakSet()
    most = 0
    env: Environment = Big(dataset=rows(200), rubric=Rubric([exact]))

    def emit(records):
        nonlocal most
        most = max(most, len(alive))

    work = Work(env, env.rubric_for, ScriptedModel(["a"]), ChatHarness(), concurrency=4)
    await run(work, env.tasks().select(), emit)
    gc.collect()

    assert most < 40
    assert len(alive) == 0


async def test_functions_that_never_return_are_unscored_then_stop_the_run_by_name():
    import threading

    from verifiers.errors import HungFunctionError
    from verifiers.harnesses.chat import ChatHarness
    from verifiers.rollout.run import Work, run
    from verifiers.rollout.stages import StageLimits
    from verifiers.rubrics import threads

    release = threading.Event()

    def hangs_for_ever(completion):
        release.wait(200)
        return 1.0

    env = SingleTurnEnv(dataset=rows(100), rubric=Rubric([hangs_for_ever]))
    kinds = []
    limits = StageLimits(score_s=0.05)
    work = Work(env, env.rubric_for, ScriptedModel(["a"]), ChatHarness(), concurrency=8, stage_limits=limits)
    try:
        with pytest.raises(HungFunctionError, match="hangs_for_ever"):
            await run(work, env.tasks().select(), lambda records: kinds.extend(r.error.kind for r in records))
    finally:
        release.set()
    assert set(kinds) == {"timeout"}
    assert len(kinds) < 40
    assert await until(lambda: not threads.abandoned())


async def test_an_environment_can_choose_that_running_out_of_scoring_time_fails():
    from dataclasses import replace

    from verifiers.envs.evaluation import Evaluation
    from verifiers.rollout.run import run
    from verifiers.rollout.stages import StageLimits

    async def slow(completion):
        await asyncio.sleep(200)

    env = SingleTurnEnv(dataset=rows(1), rubric=Rubric([slow]), verifier_timeout="fail")
    work = Evaluation._work(env, ScriptedModel(["a"]), None, None, 1, 1, None, None)
    records = []
    await run(replace(work, stage_limits=StageLimits(score_s=0.05)), env.tasks().select(), records.extend)

    assert (records[0].reward, records[0].error) == (0.0, None)
