"""What a pool saves a rollout: from its start to the end of its first command, in real rollouts of `SandboxEnv`.

    python benchmarks/sandbox_env.py [--backend local|docker] [--image NAME] [--rollouts 40] [--concurrency 4]

Each rollout works for `--work-s` seconds after its first command, as one that waits for a model does. The same rollouts
run with a pool that keeps boxes and with one that keeps none. Prints milliseconds: median and 90th percentile.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from typing import Any

import verifiers as vf
from verifiers.rollout import provision


class TimedEnv(vf.SandboxEnv):
    """Runs one command in each fresh box and notes when it was done."""

    def __init__(self, work_s: float, **options: Any) -> None:
        super().__init__(eval_dataset=lambda: [{"question": "", "answer": ""}], memory_gb=0.25, **options)
        self.work_s, self.took_ms = work_s, list[float]()

    async def setup_state(self, state: vf.State, **keywords: Any) -> vf.State:
        began = time.perf_counter()
        state = await super().setup_state(state, **keywords)
        assert (await self.box(state).exec("echo first")).stdout == "first\n"
        self.took_ms.append((time.perf_counter() - began) * 1000)
        await asyncio.sleep(self.work_s)
        return state


async def measured(arguments: argparse.Namespace, ahead: int) -> list[float]:
    provision.AHEAD = ahead
    env = TimedEnv(arguments.work_s, backend=arguments.backend, docker_image=arguments.image, disk_size_gb=0.0625)
    results = await env.evaluate(
        vf.ScriptedModel(["done"]),
        num_examples=1,
        rollouts_per_example=arguments.rollouts,
        max_concurrent=arguments.concurrency,
    )
    assert [record.error for record in results.records] == [None] * arguments.rollouts
    return env.took_ms


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--backend", default="local")
    parser.add_argument("--image")
    parser.add_argument("--rollouts", type=int, default=40)
    parser.add_argument("--concurrency", type=int, default=4)
    parser.add_argument("--work-s", type=float, default=0.5)
    arguments = parser.parse_args()
    for name, ahead in (("without a pool", 0), ("with a pool", provision.AHEAD)):
        took = sorted(asyncio.run(measured(arguments, ahead)))
        later = took[: len(took) - arguments.concurrency]
        print(
            f"{arguments.backend:8} {name:15} median {statistics.median(took):7.1f} ms, "
            f"90th percentile {took[int(len(took) * 0.9)]:7.1f} ms, without the slowest "
            f"{arguments.concurrency}: at most {later[-1]:.1f} ms"
        )


main()
