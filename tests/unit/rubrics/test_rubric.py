"""Rubrics: arguments by name, weights, groups, and errors that are never a reward."""

import asyncio
import functools
import math
import threading
import time

import pytest

from verifiers.errors import FaultKind, ScorerError, StageTimeoutError
from verifiers.rubrics.rubric import Rubric
from verifiers.rubrics.rubric_group import RubricGroup
from verifiers.rubrics.threads import Clock, in_thread
from verifiers.state import State


def state_of(**items) -> State:
    state = State({"prompt": [], "completion": [{"role": "assistant", "content": "4"}], "answer": "4", **items})
    state.row = {"level": 3}
    return state


async def scored(rubric: Rubric, **items) -> State:
    state = state_of(**items)
    await rubric.score_rollout(state)
    return state


async def test_reward_is_the_weighted_sum_and_metrics_hold_each_value():
    def right(completion, answer):
        return completion[-1]["content"] == answer

    async def length(completion):
        return len(completion[-1]["content"])

    rubric = Rubric([right], [2.0])
    rubric.add_metric(length)
    state = await scored(rubric)

    assert state["reward"] == 2.0
    assert state["metrics"] == {"right": 1.0, "length": 1.0}
    assert state.weights == {"right": 2.0}


async def test_functions_get_what_they_name():
    seen = {}

    def known(prompt, completion, answer, state, task, info, parser, level, extra=7):
        seen.update(locals())
        return 1

    def everything(**kwargs):
        seen["all"] = sorted(kwargs)
        return 1

    rubric = Rubric([known, everything])
    await scored(rubric)

    assert (seen["level"], seen["extra"], seen["info"], seen["task"]) == (3, 7, {}, "default")
    assert seen["parser"] is rubric.parser
    assert seen["all"] == ["answer", "completion", "info", "level", "parser", "prompt", "state", "task"]


async def test_a_parameter_nobody_can_fill_is_a_fault_that_names_it():
    state = await scored(Rubric([lambda nonsense: 1.0]))

    assert state["reward"] is None
    assert "nonsense" in state.fault.message


async def test_functions_run_in_order_and_share_the_state():
    def first(state):
        state["seen"] = ["first"]
        return 0

    async def second(state):
        state["seen"].append("second")
        return 0

    def third(state):
        return len(state["seen"])

    assert (await scored(Rubric([first, second, third])))["reward"] == 2.0


@pytest.mark.parametrize("value", [None, "x", math.nan, math.inf, [], {}])
async def test_a_value_that_is_no_finite_number_is_no_reward(value):
    state = await scored(Rubric([lambda completion: value]))

    assert state["reward"] is None
    assert state.fault.kind is FaultKind.SCORER


async def test_a_function_that_raises_leaves_no_reward_and_names_itself():
    def broken(completion):
        raise KeyError("gold")

    def fine(completion):
        return 1.0

    state = await scored(Rubric([fine, broken]))

    assert state["reward"] is None
    assert state.fault.where == "score:broken"
    assert state["metrics"] == {"fine": 1.0, "broken": None}


async def test_a_broken_metric_costs_only_its_own_value():
    def broken(completion):
        raise KeyError("x")

    rubric = Rubric([lambda completion: 1.0])
    rubric.add_metric(broken)
    state = await scored(rubric)

    assert state["reward"] == 1.0
    assert state["metrics"]["broken"] is None


async def test_group_functions_see_the_scoreable_members():
    def rank(completions, states):
        return [float(index) for index, _ in enumerate(completions)]

    def breaks_for_b(answer):
        if answer == "b":
            raise ValueError(answer)
        return 1.0

    rubric = Rubric([breaks_for_b, rank])
    states = [state_of(answer=name) for name in "abc"]
    assert rubric.scores_groups
    await rubric.score_group(states)

    assert [state["reward"] for state in states] == [1.0, None, 2.0]


async def test_a_group_function_of_the_wrong_length_scores_nobody():
    rubric = Rubric([lambda completions: [1.0]])
    states = [state_of(), state_of()]
    await rubric.score_group(states)

    assert [state["reward"] for state in states] == [None, None]


async def test_a_plain_dict_outside_a_run_raises_instead():
    def broken(completion):
        raise ValueError("x")

    with pytest.raises(ValueError, match="x"):
        await Rubric([broken]).score_rollout({"completion": []})


async def test_partials_objects_and_names_taken_twice():
    def same(completion, value):
        return value

    class Scorer:
        def __call__(self, completion):
            return 3.0

    rubric = Rubric([functools.partial(same, value=1), functools.partial(same, value=2), Scorer()])
    state = await scored(rubric)

    assert state["metrics"] == {"same": 1.0, "same_2": 2.0, "Scorer": 3.0}
    assert state["reward"] == 6.0


def test_weights_must_fit():
    with pytest.raises(ValueError, match="Number of weights"):
        Rubric([len, max], [1.0])


async def test_rubric_groups_add_up_and_keep_both_of_equal_names():
    def score(completion):
        return 1.0

    state = await scored(RubricGroup([Rubric([score]), Rubric([score], [0.5])]))

    assert state["reward"] == 1.5
    assert state["metrics"] == {"score": 1.0, "score_2": 1.0}


async def test_sync_functions_do_not_stop_the_loop_and_time_out():
    release = threading.Event()

    def hangs(completion):
        release.wait(200)
        return 1.0

    ticks = 0

    async def tick():
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0.005)

    ticker = asyncio.create_task(tick())
    try:
        with pytest.raises(StageTimeoutError, match=r"1\.5 s"):
            async with Clock(1.5, "scoring"):
                await scored(Rubric([hangs]))
    finally:
        release.set()
        ticker.cancel()
    assert ticks > 5


async def test_waiting_for_a_thread_is_not_running():
    """Two thousand calls of 80 ms through few threads: each limit is far shorter than the queue, none runs out."""

    async def one():
        async with Clock(1.5, "scoring"):
            return await in_thread(lambda: time.sleep(0.08), name="slow")

    started = time.perf_counter()
    await asyncio.gather(*(one() for _ in range(2000)))
    assert time.perf_counter() - started > 1.5


async def test_exceptions_come_out_of_threads_as_they_are():
    def stop():
        raise ScorerError("no")

    with pytest.raises(ScorerError, match="no"):
        await in_thread(stop, name="stop")


async def test_a_metric_that_raises_is_told_once_and_not_of_broken_rollouts(caplog: pytest.LogCaptureFixture):
    def fails(completion) -> float:
        raise IndexError("no message")

    rubric = Rubric(funcs=[fails], weights=[0.0])
    broken = State(completion=[])
    broken.is_broken = True
    await rubric.score_rollout(broken)
    assert not caplog.records

    for _ in range(3):
        await rubric.score_rollout(State(completion=[]))
    assert [record.getMessage() for record in caplog.records] == ["metric fails has no value: IndexError: no message"]
