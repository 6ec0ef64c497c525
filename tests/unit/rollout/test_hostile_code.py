"""What code of environments and rubrics may do to a run: any of it is that rollout's fault, never a missing rollout."""

import asyncio
import contextlib
import sys
from typing import Any

import pytest

from verifiers.envs.multiturn_env import MultiTurnEnv
from verifiers.envs.singleturn_env import SingleTurnEnv
from verifiers.envs.tool_env import ToolEnv
from verifiers.errors import ConfigError
from verifiers.messages import AssistantMessage, ToolCall
from verifiers.models.scripted import ScriptedModel
from verifiers.rollout.run import CancelledByTaskError
from verifiers.rubrics.rubric import Rubric
from verifiers.session import Limits
from verifiers.task import Task

ROWS = [{"question": "q0"}, {"question": "q1"}]


class Talk(MultiTurnEnv):
    """A world whose answer is what `reply` does."""

    def __init__(self, reply: Any) -> None:
        super().__init__(dataset=ROWS, rubric=Rubric([lambda completion: 1.0]), max_turns=2)
        self.reply = reply

    async def env_response(self, messages, state, **keywords):
        return await self.reply(state)


async def cancelled(state):
    """What awaiting a cancelled task raises."""
    raise asyncio.CancelledError


async def exits(state):
    sys.exit(0)


@pytest.mark.parametrize("reply", [cancelled, exits])
@pytest.mark.parametrize("concurrency", [1, 4])
async def test_worlds_that_cancel_or_exit_are_unscored(reply, concurrency):
    results = await Talk(reply).evaluate(ScriptedModel(["a"]), max_concurrent=concurrency)

    faults = [record.error and (record.error.kind, record.error.error_type) for record in results.records]
    assert faults == [("environment", "CancelledError" if reply is cancelled else "SystemExit")] * 2
    assert results["reward"] == [None, None]


def leaves(completion):
    sys.exit(0)


async def leaves_later(completion):
    sys.exit(0)


def drops(completion):
    raise asyncio.CancelledError


async def drops_later(completion):
    raise asyncio.CancelledError


@pytest.mark.parametrize("function", [leaves, leaves_later, drops, drops_later])
async def test_reward_functions_that_cancel_or_exit_are_unscored(function):
    env = SingleTurnEnv(dataset=ROWS, rubric=Rubric([function]))

    results = await env.evaluate(ScriptedModel(["a"]), max_concurrent=1)

    assert [record.error and record.error.where for record in results.records] == [f"score:{function.__name__}"] * 2


async def test_a_cancelled_run_is_cancelled():
    async def waits(state):
        await asyncio.sleep(60)

    run = asyncio.create_task(Talk(waits).evaluate(ScriptedModel(["a"])))
    await asyncio.sleep(0.05)
    run.cancel()

    with pytest.raises(asyncio.CancelledError):
        await run


async def test_a_world_that_cancels_its_own_task_ends_the_run_with_the_reason():
    async def cancels(state):
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(1)

    with pytest.raises(CancelledByTaskError, match="rollouts are missing"):
        await Talk(cancels).evaluate(ScriptedModel(["a"]), max_concurrent=1)


async def test_a_world_that_swallows_its_timeout_gets_no_further_turn():
    async def swallows(state):
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(600)
        return [{"role": "user", "content": "go"}]

    run = Talk(swallows).evaluate(ScriptedModel(["a"]), limits=Limits(timeout_s=0.1))
    results = await asyncio.wait_for(run, 120)

    assert [record.stop_reason for record in results.records] == ["timeout", "timeout"]
    assert results["reward"] == [1.0, 1.0]


async def test_a_misspelt_keyword_is_refused_and_a_known_foreign_one_is_not():
    env = SingleTurnEnv(dataset=ROWS, rubric=Rubric([lambda completion: 1.0]))

    with pytest.raises(ConfigError, match="did you mean 'rollouts_per_example'"):
        await env.evaluate(ScriptedModel(["a"]), rollout_per_example=4)
    results = await env.evaluate(ScriptedModel(["a"]), interleave_scoring=False)

    assert results["reward"] == [1.0, 1.0]


def test_rows_must_be_dicts():
    with pytest.raises(ConfigError, match="row 1 must be a dict"):
        list(SingleTurnEnv(dataset=[{"question": "q"}, 5]).tasks().select())


async def test_a_world_without_end_can_be_interrupted():
    class Endless(Talk):
        async def is_completed(self, state, **keywords):
            return False

    async def goes_on(state):
        return [{"role": "user", "content": "go"}]

    with pytest.raises(TimeoutError):
        await asyncio.wait_for(Endless(goes_on).evaluate(ScriptedModel(["a"])), 0.2)


@pytest.mark.parametrize(("key", "value"), [("trajectory", 5), ("completion", [1]), ("prompt", {"a": 1})])
async def test_a_state_that_cannot_be_read_is_unscored(key, value):
    class Spoils(Talk):
        async def render_completion(self, state):
            await super().render_completion(state)
            if state["example_id"] == 0:
                state[key] = value

    async def goes_on(state):
        return [{"role": "user", "content": "go"}]

    results = await Spoils(goes_on).evaluate(ScriptedModel(["a"]))

    assert [record.error and record.error.where for record in results.records] == ["record", None]
    assert results["reward"] == [None, 1.0]


async def test_any_value_can_be_a_state_column():
    ring: list[Any] = []
    ring.append(ring)

    async def keeps(state):
        state["ring"], state["keys"] = ring, {(1, 2): "a", None: "b"}
        return [{"role": "user", "content": "go"}]

    results = await Talk(keeps).evaluate(ScriptedModel(["a"]), state_columns=["ring", "keys"])

    assert results["reward"] == [1.0, 1.0]


@pytest.mark.parametrize("value", ["a\ud800b", {1: "a", (1, 2): "b"}, {"deep": {None: {1, 2}}}, object()])
def test_every_row_has_a_digest(value):
    def digest(answer: Any) -> str:
        return Task(0, "q", answer).digest()

    assert digest(value) == digest(value) != digest("other")


def test_a_digest_holds_no_addresses():
    class Thing:
        pass

    assert Task(0, "q", Thing()).digest() == Task(0, "q", Thing()).digest()


async def test_lone_surrogates_in_a_tools_result_are_no_fault():
    def echo(text: str) -> str:
        """Says it again."""
        return text

    call = ToolCall(id="c", name="echo", arguments='{"text": "a\\ud800"}')
    env = ToolEnv(tools=[echo], dataset=ROWS, rubric=Rubric([lambda completion: 1.0]), max_turns=3)

    results = await env.evaluate(ScriptedModel([AssistantMessage(None, tool_calls=[call]), "done"]))

    assert [record.error for record in results.records] == [None, None]
    assert results["reward"] == [1.0, 1.0]
