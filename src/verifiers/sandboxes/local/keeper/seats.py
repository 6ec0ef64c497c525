"""Processes that wait, already in a memory cgroup of their own, to become the next boxes.

Entering a cgroup makes a process wait for the kernel, often longer than all else that starting a box takes; here it
waits while nobody does. Needs cgroups of version 1, which can be renamed to the box they become.

The cgroups of boxes that ended are taken again, once nothing is left in them. The kernel keeps removed ones for as long
as anything is charged to them, and all that it does with cgroups takes longer the more there are.
"""

import contextlib
import json
import os
import socket
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from verifiers.sandboxes.local.keeper.cgroups import Cgroups

FEWEST, MOST = 2, 8
KEPT = 32
"""So many cgroups of boxes that ended at most."""
OLDEST = 4
"""So many of these are looked at for one that is empty."""


ROOM = {"memory_mb": 1e6, "pids": 0.0, "cpus": 0.0}


class Seat(NamedTuple):
    pid: int
    name: str
    call: socket.socket


class Seats:
    """The waiting processes. `become` turns one into a box, in it, and never returns."""

    def __init__(self, cgroups: object, become: Callable[[dict[str, Any], list[int]], None]) -> None:
        self.cgroups = cgroups if isinstance(cgroups, Cgroups) and "memory" in cgroups.folders else None
        self.become = become
        self.ready: deque[Seat] = deque()
        self.wanted, self.made = FEWEST, 0
        self.left: deque[str] = deque()
        """Memory cgroups of boxes that ended, oldest first."""

    @property
    def lacking(self) -> bool:
        return self.cgroups is not None and len(self.ready) < self.wanted

    def add(self) -> None:
        assert self.cgroups is not None
        name = self._free_cgroup(self.cgroups)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        pid = os.fork()
        if pid == 0:
            try:
                self.cgroups.enter(name, ROOM)
                theirs.send(b"r")
                message, fds, _, _ = socket.recv_fds(theirs, 1 << 20, 8)
                if message:
                    self.become(json.loads(message), fds)
            finally:
                os._exit(126)
        theirs.close()
        self.ready.append(Seat(pid, name, ours))

    def _free_cgroup(self, cgroups: Cgroups) -> str:
        """The name of a memory cgroup that is empty and limits nothing."""
        for name in list(self.left)[:OLDEST]:
            if cgroups.is_unmarked(name):
                self.left.remove(name)
                cgroups.lift_memory(name)
                return name
        name = self._next_name()
        cgroups.make(name, ROOM)
        return name

    def _next_name(self) -> str:
        self.made += 1
        return f"seat-{self.made}"

    def leave(self, box: str) -> None:
        """`box` has ended: its memory cgroup may serve another."""
        if self.cgroups is None or self.cgroups.was_out_of_memory(box):
            return
        name = self._next_name()
        try:
            self.cgroups.rename(box, name)
        except OSError:
            return
        self.left.append(name)
        if len(self.left) > KEPT:
            self.cgroups.remove(self.left.popleft())

    def _entered(self) -> Seat | None:
        """One that has entered its cgroup, without waiting for it."""
        for seat in self.ready:
            with contextlib.suppress(BlockingIOError):
                if seat.call.recv(1, socket.MSG_DONTWAIT):
                    self.ready.remove(seat)
                    return seat
        return None

    def take(self, request: dict[str, Any], fds: list[int]) -> int | None:
        """The pid of the waiting process that becomes the box; None if none waits or this box cannot be one of them."""
        if self.cgroups is None or request["shifted"]:
            return None
        seat = self._entered()
        if seat is None:
            self.wanted = min(self.wanted + 2, MOST)
            return None
        with seat.call:
            self.cgroups.limit_memory(seat.name, request["limits"]["memory_mb"])
            self.cgroups.rename(seat.name, request["id"])
            rest = {**request["limits"], "memory_mb": 0}
            self.cgroups.make(request["id"], rest)
            socket.send_fds(seat.call, [json.dumps({**request, "limits": rest}).encode()], fds)
        return seat.pid
