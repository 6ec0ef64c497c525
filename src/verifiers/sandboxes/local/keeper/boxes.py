"""Starting and ending one box: its bounded tmpfs, its limits, and the bubblewrap process that makes the rest."""

import contextlib
import os
from collections.abc import Callable
from functools import partial
from typing import Any

from verifiers.sandboxes.local.keeper.cgroups import Cgroups
from verifiers.sandboxes.local.keeper.copying import send_copy
from verifiers.sandboxes.local.keeper.ends import Ends, high, make_ends
from verifiers.sandboxes.local.keeper.kernel import (
    CLONE_NEWUSER,
    MS_NODEV,
    MS_NOSUID,
    be_dumpable,
    mount,
    unmount,
    unshare,
)
from verifiers.sandboxes.local.keeper.seats import Seats, limit
from verifiers.sandboxes.local.keeper.standing import let_go
from verifiers.sandboxes.local.keeper.unified import UnifiedCgroups

SIGKILL = 9
NOBODYS_ID = 1
"""One of the keeper's ids that boxes of one user do not have."""


def shifted(fork: Callable[[], int]) -> int:
    """As `fork`, but the child has a user namespace with all of the keeper's ids, and so several users."""
    ready, tell_ready = os.pipe()
    go, tell_go = os.pipe()
    pid = fork()
    if pid == 0:
        try:
            unshare(CLONE_NEWUSER)
            be_dumpable()  # else the keeper may not write the map
            os.write(tell_ready, b"r")
            os.read(go, 1)
            os.setgroups([])
        except OSError:
            os._exit(126)
        return 0
    os.close(tell_ready)
    try:
        os.read(ready, 1)
        for name in ("uid_map", "gid_map"):
            with open(f"/proc/{pid}/{name}", "w") as file:
                file.write("0 0 65536")
    finally:
        os.write(tell_go, b"g")
        for fd in (ready, go, tell_go):
            os.close(fd)
    return pid


class Boxes:
    """The boxes of this keeper: bubblewrap's pid -> the box's id and back."""

    def __init__(self, place: str, cgroups: Cgroups | UnifiedCgroups) -> None:
        self.place, self.cgroups = place, cgroups
        self.seats = Seats(cgroups)
        self.by_pid: dict[int, str] = {}
        self.by_id: dict[str, int] = {}
        self.copying: dict[int, str] = {}
        """Pid of what sends a copy of a box's files -> the box."""

    def start(self, request: dict[str, Any]) -> list[int]:
        """Start a box; the runner's ends of what its first process has open."""
        box = request["id"]
        folder = f"{self.place}/boxes/{box}"
        self.make_disk(folder, request)
        try:
            seat = self.seats.take(request)
            pid, near = (seat.pid, seat.near) if seat is not None else self.fork(request)
        except OSError:
            self.remove(box)
            raise
        self.by_pid[pid], self.by_id[box] = box, pid
        return near

    def fork(self, request: dict[str, Any]) -> tuple[int, list[int]]:
        """As `start`, where no process waits to become the box: its pid, and those ends."""
        ends = make_ends(request["pipes"])
        try:
            self.cgroups.make(request["id"], request["limits"])
            fork = partial(self.cgroups.fork, request["id"], request["limits"])
            pid = shifted(fork) if request["shifted"] else fork()
        except OSError:
            ends.close([*ends.near, *ends.far])
            raise
        if pid == 0:
            self.become(request, ends)
        ends.close(ends.far)
        return pid, ends.near

    def make_disk(self, folder: str, request: dict[str, Any]) -> None:
        """Everything the box may write is on one tmpfs of the size asked for."""
        os.mkdir(folder)
        size = int(request["limits"]["disk_mb"] * 1048576)
        mount("box", folder, "tmpfs", MS_NOSUID | MS_NODEV, f"size={size},nr_inodes={max(size // 2048, 4096)},mode=755")
        for name, mode in request["folders"]:
            os.mkdir(f"{folder}/{name}", mode)
            os.chmod(f"{folder}/{name}", mode)
        for name, target in request["links"]:
            os.symlink(target, f"{folder}/{name}")
        for name in request["kept"]:
            os.chown(f"{folder}/{name}", NOBODYS_ID, NOBODYS_ID, follow_symlinks=False)

    def become(self, request: dict[str, Any], ends: Ends) -> None:
        """In the child: limits, descriptors, then bubblewrap. Never returns."""
        try:
            os.dup2(ends.far[1], 2)
            self.seats.let_go()
            self.cgroups.enter(request["id"], request["limits"])
            wanted = ends.numbered([high(os.open(path, os.O_RDONLY)) for path in request["open"]])
            for number, fd in enumerate(wanted):
                os.dup2(fd, number)
            os.closerange(len(wanted), 4096)
            for name, value in request["rlimits"].items():
                limit(0, name, value)
            argv = [request["program"], *request["options"], "--", *request["command"]]
            os.execve(argv[0], argv, request["env"])
        except OSError as error:
            os.write(2, f"{error}\n".encode())
        finally:
            os._exit(126)

    def copy(self, box: str, folder: str, pipe: int) -> None:
        """Begin to send what is in `folder` on the box's disk to `pipe`.

        It is closed at the end, when the box may be copied again: the end of one copy sets the box in motion.
        """
        if box not in self.by_id:
            return
        pid = os.fork()
        if pid == 0:
            self.seats.let_go()
            top = f"{self.place}/boxes/{box}/{folder}"
            send_copy(top, pipe, lambda: self.cgroups.freeze(box), self.by_id[box])
        self.copying[pid] = box

    def kill(self, box: str) -> None:
        """End `box`: its first process, so that bubblewrap outlives all of them; else bubblewrap itself."""
        pid = self.by_id.get(box)
        if pid is None:
            return
        with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{pid}/children") as file:
            for child in file.read().split():
                os.kill(int(child), SIGKILL)
                return
        os.kill(pid, SIGKILL)

    def reap(self) -> list[dict[str, Any]]:
        """What became of boxes that ended since the last call, after all they held is freed."""
        ended: list[dict[str, Any]] = []
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return ended
            if pid == 0:
                return ended
            copied = self.copying.pop(pid, None)
            if copied is not None and copied not in self.copying.values():
                self.cgroups.thaw(copied)
                if os.WIFSIGNALED(status) and copied in self.by_id:  # it has set nothing in motion
                    let_go(self.by_id[copied])
            box = self.by_pid.pop(pid, None)
            if box is not None:
                del self.by_id[box]
                code = os.waitstatus_to_exitcode(status)
                ended.append({"exit": box, "code": code, "out_of_memory": self.cgroups.was_out_of_memory(box)})
                self.seats.leave(box)
                self.remove(box)
            else:
                self.seats.forget(pid)

    def remove(self, box: str) -> None:
        folder = f"{self.place}/boxes/{box}"
        with contextlib.suppress(OSError):
            unmount(folder)
        with contextlib.suppress(OSError):
            os.rmdir(folder)
        self.cgroups.remove(box)
