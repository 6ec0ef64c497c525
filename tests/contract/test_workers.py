"""The worker pool: limits that hold, waiting that costs nothing, and no process that outlives its owner."""

import asyncio
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from verifiers.errors import GoldError, ScorerError
from verifiers.rubrics.threads import Clock
from verifiers.rubrics.workers import JobLimitError, WorkerPool, core_count, shared_pool
from waiting import blocked_until

HERE = Path(__file__).parent
PATH = os.pathsep.join(map(str, (HERE, HERE.parent, HERE.parents[1] / "src")))


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> Iterator[WorkerPool]:
    monkeypatch.setenv("PYTHONPATH", PATH)
    made = WorkerPool(memory_mb=1024)
    yield made
    made.close()


# What workers run; they find it by this module's name.


def add(a: int, b: int) -> int:
    return a + b


def spin(seconds: float) -> float:
    began = time.process_time()
    while time.process_time() - began < seconds:
        pass
    return seconds


def hold_the_lock() -> int:
    """One long call into C, which no signal handler and no other thread interrupts."""
    return len(str(7 ** (10**8)))


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def fill_memory() -> int:
    return len([b"x" * (1 << 20) for _ in range(4096)])


def fail() -> None:
    raise GoldError("no reference")


class Sealed(Exception):
    def __reduce__(self) -> str:
        raise TypeError("not for others")


def fail_sealed() -> None:
    raise Sealed("inside")


def chatter() -> str:
    print("noise")
    sys.stdout.flush()
    os.write(1, b"more noise")
    return "said"


def parent() -> int:
    return os.getppid()


def test_results_and_exceptions_come_back(pool: WorkerPool) -> None:
    assert pool.submit(add, 2, 3, limit_s=60.0).result() == 5
    assert pool.submit(chatter, limit_s=60.0).result() == "said"
    with pytest.raises(GoldError, match="no reference"):
        pool.submit(fail, limit_s=60.0).result()
    with pytest.raises(ScorerError, match="inside"):
        pool.submit(fail_sealed, limit_s=60.0).result()
    assert pool.submit(parent, limit_s=60.0).result() == os.getpid()


@pytest.mark.parametrize(
    "hostile", [lambda p: p.submit(spin, 1e9, limit_s=0.3), lambda p: p.submit(hold_the_lock, limit_s=0.3)]
)
def test_a_job_over_its_limit_is_killed(pool: WorkerPool, hostile: object) -> None:
    pool.submit(add, 1, 1, limit_s=60.0).result()
    began = time.monotonic()
    with pytest.raises(JobLimitError):
        hostile(pool).result()  # pyright: ignore

    assert time.monotonic() - began < 100.0
    assert pool.submit(add, 1, 1, limit_s=60.0).result() == 2


def test_memory_is_a_limit_too(pool: WorkerPool) -> None:
    with pytest.raises(JobLimitError, match="memory"):
        pool.submit(fill_memory, limit_s=120.0).result()


def test_a_dead_worker_is_a_fault_after_one_more_try(pool: WorkerPool) -> None:
    with pytest.raises(ScorerError, match="died"):
        pool.submit(die, limit_s=60.0).result()
    assert pool.submit(add, 1, 1, limit_s=60.0).result() == 2


def test_hostile_jobs_delay_no_other(pool: WorkerPool) -> None:
    hostile = [pool.submit(spin, 1e9, limit_s=3.0) for _ in range(4)]
    time.sleep(1.0)
    began = time.monotonic()

    assert pool.submit(add, 1, 1, limit_s=60.0).result() == 2
    waited = time.monotonic() - began
    for job in hostile:
        with pytest.raises(JobLimitError):
            job.result()
    assert waited < (time.monotonic() - began) / 2  # of the time that they hold the cores


def test_no_more_processes_compute_than_there_are_cores(pool: WorkerPool) -> None:
    """Every job gets its whole limit, however long it waits for a turn: together they take longer than it."""
    count = 20 * core_count()
    jobs = [pool.submit(spin, 0.1, limit_s=1.5) for _ in range(count)]

    assert [job.result() for job in jobs] == [0.1] * count
    assert WorkerPool(64).size == core_count()


async def test_the_loop_runs_on_and_a_cancelled_call_never_runs(pool: WorkerPool) -> None:
    busy = [asyncio.create_task(pool.run(spin, 0.5, limit_s=60.0)) for _ in range(2 * core_count())]
    ticks = 0
    while not all(task.done() for task in busy):
        await asyncio.sleep(0.01)
        ticks += 1
    assert ticks > 10
    waiting = asyncio.create_task(pool.run(spin, 1e9, limit_s=1e9))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_waiting_for_a_turn_is_off_the_clock_of_the_stage(pool: WorkerPool) -> None:
    before = [asyncio.create_task(pool.run(spin, 0.18, limit_s=30.0)) for _ in range(16 * core_count())]
    await asyncio.sleep(0)
    began = time.monotonic()

    async with Clock(2.0, "scoring"):
        assert await pool.run(add, 1, 1, limit_s=60.0) == 2

    assert time.monotonic() - began > 2.0
    await asyncio.gather(*before)


def test_any_thread_may_ask(pool: WorkerPool) -> None:
    results: list[int] = []
    threads = [
        threading.Thread(target=lambda n=n: results.append(pool.submit(add, n, 1, limit_s=60.0).result()))
        for n in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(results) == list(range(1, 9))


def test_closing_ends_what_is_left(pool: WorkerPool) -> None:
    jobs = [pool.submit(spin, 1e9, limit_s=1e9) for _ in range(4)]
    time.sleep(0.5)
    pool.close()

    for job in jobs:
        with pytest.raises(ScorerError):
            job.result(timeout=120)
    with pytest.raises(ScorerError, match="closed"):
        pool.submit(add, 1, 1, limit_s=1.0)


OWNER = """
    import os, sys, time
    sys.path[:0] = {paths!r}
    from test_workers import spin, parent, add
    from verifiers.rubrics.workers import WorkerPool, shared_pool
    pool = shared_pool()
    pool.submit(add, 1, 1, limit_s=60.0).result()
    {body}
"""


def run_owner(body: str) -> subprocess.Popen[str]:
    source = textwrap.dedent(OWNER).format(paths=PATH.split(os.pathsep), body=body)
    environment = {**os.environ, "PYTHONPATH": PATH}
    return subprocess.Popen([sys.executable, "-c", source], stdout=subprocess.PIPE, text=True, env=environment)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_for_end(pid: int) -> bool:
    return blocked_until(lambda: not alive(pid))


def test_workers_die_with_an_owner_that_is_killed() -> None:
    """Idle, computing and stopped ones."""
    body = (
        "jobs = [pool.submit(spin, 1e9, limit_s=1e9) for _ in range(4)]; time.sleep(1.5); "
        "print(*(w.process.pid for w in pool._all), flush=True); time.sleep(600)"
    )
    with run_owner(body) as owner:
        assert owner.stdout is not None
        workers = [int(pid) for pid in owner.stdout.readline().split()]
        assert workers
        assert all(alive(pid) for pid in workers)
        owner.kill()
    assert all(wait_for_end(pid) for pid in workers)


def test_an_owner_with_busy_workers_can_exit() -> None:
    with run_owner("job = pool.submit(spin, 1e9, limit_s=1e9); time.sleep(0.5); print(pool._lanes and 1)") as owner:
        assert owner.wait(timeout=200) == 0


def test_a_forked_child_has_a_pool_of_its_own() -> None:
    body = (
        "pid = os.fork();\n"
        "    if pid == 0:\n"
        "        ok = shared_pool() is not pool and shared_pool().submit(add, 2, 2, limit_s=60.0).result() == 4\n"
        "        os._exit(0 if ok else 1)\n"
        "    status = os.waitpid(pid, 0)[1]\n"
        "    print(status, pool.submit(add, 3, 3, limit_s=60.0).result(), flush=True)"
    ).replace("\n    ", "\n")
    with run_owner(body) as owner:
        assert owner.communicate(timeout=200)[0].split() == ["0", "6"]


def test_the_shared_pool_is_one() -> None:
    assert shared_pool() is shared_pool()
    assert pickle.loads(pickle.dumps(JobLimitError("x"))).args == ("x",)
