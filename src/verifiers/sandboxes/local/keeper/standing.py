"""A box that stands still: all its processes stopped by signals, where no cgroup can freeze them, and let go again.

Parents are stopped before their children and go on after them, so one that waits for a child does not find it stopped.
What the box itself has stopped is left as it is, then and later. What is traced is its tracer's to stop: a signal more
would come back when all is over.
"""

import contextlib
import os
import signal
import time

PATIENCE_S = 30.0
"""A box that does not come to rest by then is copied as it goes on; a busy machine takes long to stop anything."""
KERNEL_S = 1.0
"""So long a call in the kernel may take to end; one that goes on waits for something that stands still (vfork(2))."""
STILL, MOVING = frozenset("TtZXx"), frozenset("RS")
"""States of tasks that do nothing by themselves, and of those that a signal stops soon; proc_pid_stat(5)."""


class Standstill:
    """The processes below `top`, which itself is the keeper's business."""

    def __init__(self, top: int) -> None:
        self.top = top
        self.stopped: dict[int, int] = {}
        """Pid -> a descriptor of the process, which names no other when that has ended; in the order of stopping."""

    def begin(self) -> None:
        """Stop them all; returns once nothing moves, or is out of patience.

        Nothing moves when two looks in a row see the same processes at rest: one that runs while a look is taken shows
        in the next, under a parent that was looked at before, or has left its remains there.
        """
        began, before = time.monotonic(), None
        while (waited := time.monotonic() - began) < PATIENCE_S:
            seen = self.look()
            moving = MOVING if waited > KERNEL_S else MOVING | {"D"}
            if seen == before and not any(states & moving for states in seen.values()):
                return
            before = seen
            time.sleep(0.001)

    def look(self) -> dict[int, set[str]]:
        """The states of each process's tasks, none of what is traced; what runs is told to stop, its children once it
        has."""
        seen: dict[int, set[str]] = {}
        waiting = children(self.top)
        for pid in waiting:  # grows
            with contextlib.suppress(OSError):  # it has ended
                states = states_of(pid)
                if not states <= STILL:
                    self.stop(pid)
                seen[pid] = states
                if not states & MOVING:  # else it could still find a child stopped
                    waiting += (child for child in children(pid) if child not in seen)
        return seen

    def stop(self, pid: int) -> None:
        if pid not in self.stopped:
            self.stopped[pid] = os.pidfd_open(pid)
        signal.pidfd_send_signal(self.stopped[pid], signal.SIGSTOP)

    def end(self) -> None:
        for descriptor in reversed(self.stopped.values()):
            with contextlib.suppress(OSError):  # it was killed meanwhile
                signal.pidfd_send_signal(descriptor, signal.SIGCONT)
            os.close(descriptor)
        self.stopped.clear()


def children(pid: int) -> list[int]:
    """Of all its threads."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children") as file:
                found += map(int, file.read().split())
    return found


def states_of(pid: int) -> set[str]:
    """The states of its tasks; none if somebody traces it."""
    states: set[str] = set()
    traced = False
    for task in os.listdir(f"/proc/{pid}/task"):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{task}/status", "rb") as file:  # it may be over
            for line in file:
                if line.startswith(b"State:\t"):
                    states.add(chr(line[7]))
                elif line.startswith(b"TracerPid:\t"):
                    traced |= line != b"TracerPid:\t0\n"
    return set() if traced else states


def let_go(top: int) -> None:
    """Set everything below `top` in motion, also what the box had stopped: nobody is left who knew."""
    waiting = children(top)
    for pid in waiting:  # grows
        waiting += children(pid)
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGCONT)
