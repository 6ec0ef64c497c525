"""Honest and hostile maths answers in one run: right scores, no stall, no waiting charged to anybody."""

import asyncio
import time
from typing import Any

from verifiers import ScriptedModel, SingleTurnEnv
from verifiers.rubrics.math_rubric import MathRubric

HOSTILE = r"\boxed{\sum_{k=1}^{1999} \sum_{j=1}^{1999} \frac{k!}{j^k}}"
TOWER = r"\boxed{9^{9^{9^{9}}}}"
HONEST = r"\boxed{\frac{\sqrt{8}}{2}}"
WRONG = r"\boxed{\sqrt{3}}"
LIMIT_S = 2.0


async def test_hostile_answers_score_zero_and_hold_up_nobody() -> None:
    replies = [HONEST, WRONG, HOSTILE, TOWER] * 4
    rows = [{"question": f"{n}", "answer": r"\sqrt{2}"} for n in range(16)]
    env = SingleTurnEnv(dataset=rows, rubric=MathRubric(timeout_seconds=LIMIT_S))

    def reply(messages: Any, tools: Any, sampling: Any) -> str:
        number = int(messages[-1]["content"])
        return replies[number] + " " * number  # no answer comes from the cache

    stall, last, running = 0.0, time.perf_counter(), True

    async def watch() -> None:
        nonlocal stall, last
        while running:
            await asyncio.sleep(0.005)
            now = time.perf_counter()
            stall, last = max(stall, now - last - 0.005), now

    watcher = asyncio.create_task(watch())
    records = (await env.evaluate(ScriptedModel(reply), max_concurrent=16)).records
    running = False
    await watcher

    assert [record.reward for record in sorted(records, key=lambda r: int(r.example_id))] == [1.0, 0.0, 0.0, 0.0] * 4
    assert stall < LIMIT_S, "the loop stood still for as long as one hostile answer takes"
