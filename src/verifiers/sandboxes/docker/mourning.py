"""Starts the process that removes what the engine is still making when this one is killed; see `mourner.py`."""

from __future__ import annotations

import atexit
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from verifiers.sandboxes.docker.engine import EngineAddress
from verifiers.sandboxes.docker.spec import LABEL_OWNER
from verifiers.sandboxes.owner import current_owner

PROGRAM = Path(__file__).with_name("mourner.py")
_mourners: dict[tuple[int, EngineAddress], int] = {}
"""(this process, an engine) -> the mourner's pid."""
_being_made: dict[int, int] = {}
"""This process -> how many containers it is having made."""


@contextmanager
def mourned(address: EngineAddress) -> Iterator[None]:
    """While a container is made: if this process is killed meanwhile, the container is removed all the same."""
    me = os.getpid()
    if (me, address) not in _mourners:
        _mourners[me, address] = _start(address)
    _being_made[me] = _being_made.get(me, 0) + 1
    try:
        yield
    finally:
        _being_made[me] -= 1


def _start(address: EngineAddress) -> int:
    place = address.path or f"{address.host}:{address.port}"
    owner = current_owner()
    argv = [sys.executable, "-I", "-S", str(PROGRAM), str(owner.pid), place, f"{LABEL_OWNER}={owner}"]
    nothing = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in range(3)]
    pid = os.posix_spawn(sys.executable, argv, {}, file_actions=nothing, setsid=True)
    atexit.register(_dismiss, owner.pid, pid)
    return pid


def _dismiss(owner: int, pid: int) -> None:
    """Nothing is being made: nobody need stay."""
    if os.getpid() == owner and not _being_made.get(owner):
        with suppress(ProcessLookupError, ChildProcessError):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
