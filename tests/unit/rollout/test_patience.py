"""When a run gives up on an endpoint, and when it does not."""

import itertools

import pytest

from verifiers.envs.singleturn_env import SingleTurnEnv
from verifiers.errors import ConfigError, ModelError
from verifiers.harnesses.chat import ChatHarness
from verifiers.models.failures import fatal
from verifiers.models.scripted import ScriptedModel
from verifiers.rollout.patience import EndpointGivenUpError, Patience
from verifiers.rollout.run import Work, run
from verifiers.rubrics.judge_rubric import JudgeRubric
from verifiers.rubrics.rubric import Rubric

REFUSED = "model 'm' at http://host/v1 answered 401: no such key; check the key"


def env(n: int = 40, rubric: Rubric | None = None) -> SingleTurnEnv:
    return SingleTurnEnv(dataset=[{"question": f"q{i}"} for i in range(n)], rubric=rubric or Rubric([one]))


def one(completion):
    return 1.0


async def records_of(replies, *, concurrency: int = 1, rubric: Rubric | None = None, rollouts: int = 1):
    """The records that were emitted, and what ended the run; None: its own end."""
    world, records, end = env(rubric=rubric), [], None
    model = ScriptedModel(replies)
    work = Work(
        world,
        world.rubric_for,
        model,
        ChatHarness(),
        rollouts_per_example=rollouts,
        concurrency=concurrency,
        patience=Patience(concurrency),
    )
    try:
        await run(work, world.tasks().select(), records.extend)
    except EndpointGivenUpError as error:
        end = str(error)
    return records, end


def each_in_turn(*answers):
    """One answer for each call, the last one for ever."""
    turn = itertools.chain(answers, itertools.repeat(answers[-1]))
    return lambda messages, tools, sampling: next(turn)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 301])
async def test_a_refusal_that_nothing_cures_ends_the_run_after_three_rollouts(status):
    records, end = await records_of(lambda *_: fatal(REFUSED, status))

    assert [record.error.kind for record in records] == ["provider"] * 3
    assert all(record.reward is None for record in records)
    assert end == f"gave up after 3 rollouts in which the model answered no call: {REFUSED}"


async def test_one_answer_keeps_the_run_going_to_its_end():
    no = fatal(REFUSED, 401)
    records, end = await records_of(each_in_turn(no, no, "yes", no))

    assert end is None
    assert [record.reward for record in records] == [None, None, 1.0] + [None] * 37


async def test_failures_that_differ_keep_the_run_going():
    records, end = await records_of(each_in_turn(fatal("no key", 401), fatal("no model", 404)))

    assert (end, len(records)) == (None, 40)


async def test_where_waiting_may_help_a_whole_round_must_fail():
    records, end = await records_of(lambda *_: ModelError("cannot be reached: Connection refused"), concurrency=8)

    assert 8 <= len(records) < 16  # of the others under way, some may end in the same moment; none begins
    assert end is not None
    assert end.startswith("gave up after 8 rollouts")
    assert end.endswith("Connection refused; check that the server is up and that this is its address")


async def test_an_endpoint_that_is_down_may_say_so_in_many_ways():
    records, end = await records_of(each_in_turn(ModelError("502"), ModelError("refused"), ModelError("no JSON")))

    assert len(records) == 3
    assert end is not None


async def test_a_group_is_written_whole_before_the_run_ends():
    def same(completions):
        return [1.0] * len(completions)

    records, end = await records_of(lambda *_: fatal(REFUSED, 401), rubric=Rubric([same]), rollouts=4)

    assert [(record.example_id, record.rollout_id) for record in records] == [(0, 0), (0, 1), (0, 2), (0, 3)]
    assert end is not None


async def test_faults_of_others_are_not_the_endpoints():
    def broken(completion):
        raise ValueError("for every instance")

    records, end = await records_of(["x"], rubric=Rubric([broken]))

    assert (end, len(records)) == (None, 40)


async def test_a_judge_that_never_answers_ends_the_run_too():
    judge = ScriptedModel(lambda *_: fatal("model 'j' answered 401; check the key", 401), name="j")
    rubric = JudgeRubric(judge_client=judge, judge_model="j")

    async def judged(judge, prompt, completion, answer, state):
        return float("yes" in await judge(prompt, completion, answer, state))

    rubric.add_reward_func(judged)
    records, end = await records_of(["x"], rubric=rubric)

    assert len(records) == 3
    assert end is not None
    assert end.startswith("gave up after 3 rollouts in which 'j' (as judge) answered no call: model 'j' answered 401")


async def test_a_judge_that_a_rubric_does_without_is_no_reason_to_stop():
    judge = ScriptedModel(lambda *_: fatal("no", 401), name="j")
    rubric = JudgeRubric(judge_client=judge, judge_model="j")

    async def otherwise(judge, prompt, completion, answer, state):
        try:
            return float("yes" in await judge(prompt, completion, answer, state))
        except Exception:  # a rubric of somebody's, with a fallback of its own
            return 0.5

    rubric.add_reward_func(otherwise)
    records, end = await records_of(["x"], rubric=rubric)

    assert (end, [record.reward for record in records]) == (None, [0.5] * 40)


async def test_a_missing_key_of_a_client_ends_the_run_as_well():
    records, end = await records_of(lambda *_: ConfigError("set SOME_KEY"))

    assert (len(records), end) == (3, "gave up after 3 rollouts in which the model answered no call: set SOME_KEY")


async def test_evaluate_raises_and_keeps_what_it_saved(tmp_path):
    model = ScriptedModel(lambda *_: fatal(REFUSED, 401))
    with pytest.raises(EndpointGivenUpError, match=r"answered 401: no such key; check the key$"):
        await env().evaluate(model, max_concurrent=1)
    with pytest.raises(EndpointGivenUpError, match="what is finished is kept"):
        await env().evaluate(model, max_concurrent=1, results_path=tmp_path / "run")

    results = await env(5).evaluate(ScriptedModel(["x"]), results_path=tmp_path / "other")
    assert results["reward"] == [1.0] * 5
    assert len((tmp_path / "run" / "results.jsonl").read_text().splitlines()) == 3
