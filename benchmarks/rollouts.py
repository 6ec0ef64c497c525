"""CPU time of one whole rollout - tasks, engine, call, trace, three reward functions, row on disk - and of a bare call.

    python benchmarks/rollouts.py [--rollouts 2000] [--concurrency 64]

Prints one JSON object. `rollout_over_call` compares across machines: how many bare aiohttp calls one rollout costs.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import tempfile
import time
from pathlib import Path

import model_client

from verifiers import Endpoint, EndpointModel, Rubric, SingleTurnEnv
from verifiers.envs.plan import plan_of
from verifiers.envs.saving import run_saved
from verifiers.harnesses.chat import ChatHarness
from verifiers.rollout.run import Work


def exact(completion, answer) -> float:
    return float(completion[-1]["content"] == answer)


def length(completion) -> float:
    return float(len(completion[-1]["content"]))


def asked(prompt, state) -> float:
    return float(bool(prompt and state["trajectory"]))


async def rollouts(url: str, count: int, concurrency: int) -> float:
    """Milliseconds of CPU for one rollout."""
    tasks = [{"question": f"What is {n}+1?", "answer": str(n + 1)} for n in range(count)]
    env = SingleTurnEnv(dataset=tasks, rubric=Rubric([exact, length, asked]))
    model = EndpointModel(Endpoint("m", url))
    work = Work(env, env.rubric_for, model, ChatHarness(), concurrency=concurrency)
    with tempfile.TemporaryDirectory() as folder:
        start = time.process_time()
        saved = await run_saved(env, work, env.tasks().select(), plan=plan_of(env, work), root=Path(folder))
        spent = time.process_time() - start
    await model.close()
    assert saved.summary.n_scored == count
    return spent / count * 1e3


async def measure(url: str, count: int, concurrency: int, rounds: int) -> dict[str, float]:
    await rollouts(url, 50, 8)  # imports and connections
    gc.collect()
    gc.freeze()
    pairs = [
        (await rollouts(url, count, concurrency), await model_client.bare(url, count, concurrency))
        for _ in range(rounds)
    ]
    whole, call = (min(column) for column in zip(*pairs, strict=True))
    return {
        "rollout_ms": round(whole, 4),
        "bare_aiohttp_call_ms": round(call, 4),
        "rollout_over_call": round(whole / call, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rollouts", type=int, default=2000)
    parser.add_argument("--concurrency", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    server, url = model_client.start(1)
    try:
        print(json.dumps(asyncio.run(measure(url, options.rollouts, options.concurrency, options.rounds))))
    finally:
        server.kill()
        server.wait()


if __name__ == "__main__":
    main()
