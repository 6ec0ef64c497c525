"""Bubblewraps that wait, already in a memory cgroup of their own, for what makes them the next boxes.

Entering a cgroup waits for the kernel, often longer than all else that starting a box takes; here it waits while nobody
does. They are spawned, not forked: a fork copies the keeper's page tables and then each page that is written.
Needs cgroups of version 1, which can be renamed to the box they become.

The cgroups of boxes that ended are taken again, once nothing is left in them. The kernel keeps removed ones for as long
as anything is charged to them, and all that it does with cgroups takes longer the more there are.
"""

import contextlib
import os
import resource
import socket
from collections import deque
from typing import Any, NamedTuple

from verifiers.sandboxes.local.keeper.cgroups import Cgroups
from verifiers.sandboxes.local.keeper.ends import Ends, make_ends

MOST = 8
"""So many of a kind wait at most."""
KEPT = 32
"""So many cgroups of boxes that ended at most."""
OLDEST = 4
"""So many of these are looked at for one that is empty."""
ROOM = {"memory_mb": 1e6, "pids": 0.0, "cpus": 0.0}


class Kind(NamedTuple):
    """What is settled before the box is known."""

    program: str
    command: tuple[str, ...]
    """What bubblewrap runs in the box."""
    opened: tuple[str, ...]
    pipes: int


class Seat(NamedTuple):
    pid: int
    cgroup: str
    options: int
    """Where bubblewrap reads its options from, separated by NUL."""
    near: list[int]

    @property
    def word(self) -> bytes:
        """What the porter is told, and says once it is done; a pid alone may be another's by then."""
        return f"{self.pid} {self.cgroup}".encode()


class Seats:
    """The waiting processes, of each kind that was asked for."""

    def __init__(self, cgroups: object) -> None:
        self.cgroups = cgroups if isinstance(cgroups, Cgroups) and "memory" in cgroups.folders else None
        self.ready: dict[Kind, deque[Seat]] = {}
        self.wanted: dict[Kind, int] = {}
        self.made = 0
        self.left: deque[str] = deque()
        """Memory cgroups of boxes that ended, oldest first."""
        self.entered: set[bytes] = set()
        """The words of those that are in their cgroup."""
        self.porter = start_porter(self.cgroups) if self.cgroups else None

    @property
    def lacking(self) -> Kind | None:
        """A kind of which too few wait."""
        return next((kind for kind, ready in self.ready.items() if len(ready) < self.wanted[kind]), None)

    def add(self, kind: Kind) -> None:
        assert self.cgroups is not None
        assert self.porter is not None
        cgroup = self._free_cgroup(self.cgroups)
        ends = make_ends(kind.pipes)
        options, told = os.pipe()
        number = 3 + len(kind.opened) + kind.pipes
        argv = [kind.program, "--args", str(number), "--", *kind.command]
        try:
            pid = ends.spawn(argv, kind.opened, options)
        except OSError:
            ends.close(ends.near)
            os.close(told)
            raise
        finally:
            ends.close([*ends.far, options])
        seat = Seat(pid, cgroup, told, ends.near)
        self.ready[kind].append(seat)
        self.porter.send(seat.word)

    def take(self, request: dict[str, Any]) -> Seat | None:
        """The waiting process that has become the box; None if none waits or this box cannot be one of them."""
        limits = request["limits"]
        if self.cgroups is None or request["shifted"] or limits["pids"] or limits["cpus"]:
            return None
        kind = Kind(request["program"], tuple(request["command"]), tuple(request["open"]), request["pipes"])
        seat = self._entered(self.ready.setdefault(kind, deque()))
        if seat is None:
            self.wanted[kind] = min(self.wanted.get(kind, 0) + 2, MOST)
            return None
        words = [*(word for pair in request["env"].items() for word in ("--setenv", *pair)), *request["options"]]
        try:
            with open(seat.options, "wb") as options:
                self.cgroups.limit_memory(seat.cgroup, limits["memory_mb"])
                self.cgroups.rename(seat.cgroup, request["id"])
                for name, value in request["rlimits"].items():
                    limit(seat.pid, name, value)
                options.write(b"".join(word.encode("utf-8", "surrogateescape") + b"\0" for word in words))
        except OSError:
            Ends.close(seat.near)
            raise
        return seat

    def _entered(self, ready: deque[Seat]) -> Seat | None:
        """One that has entered its cgroup, without waiting for it."""
        assert self.porter is not None
        with contextlib.suppress(BlockingIOError):
            while said := self.porter.recv(256, socket.MSG_DONTWAIT):
                self.entered.add(said)
        for seat in ready:
            if seat.word in self.entered:
                self.entered.discard(seat.word)
                ready.remove(seat)
                return seat
        return None

    def forget(self, pid: int) -> None:
        """A process of the keeper's has ended; it may be one that waited."""
        for ready in self.ready.values():
            for seat in [seat for seat in ready if seat.pid == pid]:
                ready.remove(seat)
                Ends.close([seat.options, *seat.near])
                self.left.append(seat.cgroup)
                self.entered.discard(seat.word)

    def let_go(self) -> None:
        """In a forked child: its copies would keep those that are told their options waiting for more."""
        for ready in self.ready.values():
            Ends.close([seat.options for seat in ready])

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


def limit(pid: int, name: str, value: int) -> None:
    """Limit what process `pid` may use of `name`, as far as the limit it has allows."""
    number = getattr(resource, f"RLIMIT_{name}")
    hard = resource.prlimit(pid, number)[1]
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.prlimit(pid, number, (value, value))


def start_porter(cgroups: Cgroups) -> socket.socket:
    """A child that takes processes into cgroups, so that the keeper does not wait: says what it is told, once done."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if os.fork() == 0:
        try:
            ours.close()
            while said := theirs.recv(256):
                pid, cgroup = said.decode().split()
                with contextlib.suppress(OSError):
                    cgroups.bring(cgroup, int(pid))
                    theirs.send(said)
        finally:
            os._exit(0)
    theirs.close()
    return ours
