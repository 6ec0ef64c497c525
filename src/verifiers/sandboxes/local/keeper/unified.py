"""Memory, process and CPU limits of boxes by cgroups of version 2, where this user may make them.

Below the hierarchy's root: `<name>/keeper` for the keeper, `<name>/<box>` for each box. A process may only move between
cgroups whose common ancestor it may write to, so the keeper is moved into the first by whoever has the right.
"""

import contextlib
import os
import time

from verifiers.sandboxes.local.keeper.cgroups import LIMITS

UNIFIED = "/sys/fs/cgroup"


class UnifiedCgroups:
    """As `Cgroups`, in one hierarchy."""

    def __init__(self, name: str, root: str = UNIFIED) -> None:
        self.name = name
        self.folders: dict[str, int] = {}
        """Controller -> the folder of all boxes, the same for each controller that is enabled in it."""
        with contextlib.suppress(OSError):
            self.parent = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
            os.mkdir(name, dir_fd=self.parent)
            self.folder = os.open(name, os.O_RDONLY | os.O_DIRECTORY, dir_fd=self.parent)
            os.mkdir("keeper", dir_fd=self.folder)
            for controller in set(self._read("cgroup.controllers").split()) & set(LIMITS):
                with contextlib.suppress(OSError):
                    self._write("cgroup.subtree_control", f"+{controller}")
                    self.folders[controller] = self.folder
            if not self.folders:
                self.remove_all()

    def give_to(self, uid: int) -> None:
        for name in (".", "cgroup.procs", "cgroup.subtree_control", "keeper", "keeper/cgroup.procs"):
            if self.folders:
                os.chown(name, uid, uid, dir_fd=self.folder)

    def take(self, pid: int) -> None:
        """Put the keeper where it can move boxes from."""
        if self.folders:
            self._write("keeper/cgroup.procs", str(pid))

    def make(self, box: str, limits: dict[str, float]) -> None:
        wanted = [controller for controller in self.folders if limits[LIMITS[controller]]]
        if wanted:
            os.mkdir(box, dir_fd=self.folder)
        for controller in wanted:
            if controller == "memory":
                self._write(f"{box}/memory.max", str(int(limits["memory_mb"] * 1048576)))
                with contextlib.suppress(OSError):  # there only with swap
                    self._write(f"{box}/memory.swap.max", "0")
            elif controller == "pids":
                self._write(f"{box}/pids.max", str(int(limits["pids"])))
            else:
                self._write(f"{box}/cpu.max", f"{int(limits['cpus'] * 100_000)} 100000")

    def enter(self, box: str, limits: dict[str, float]) -> None:
        if any(limits[LIMITS[controller]] for controller in self.folders):
            self._write(f"{box}/cgroup.procs", "0")

    def freeze(self, box: str) -> None:
        """Stop all processes of `box` where they are; returns once they are, or after a second."""
        with contextlib.suppress(OSError):  # it has no limits and so no cgroup, or has ended
            self._write(f"{box}/cgroup.freeze", "1")
            for _ in range(200):
                if "frozen 1" in self._read(f"{box}/cgroup.events"):
                    return
                time.sleep(0.005)

    def thaw(self, box: str) -> None:
        with contextlib.suppress(OSError):
            self._write(f"{box}/cgroup.freeze", "0")

    def was_out_of_memory(self, box: str) -> bool:
        if "memory" not in self.folders:
            return False
        with contextlib.suppress(OSError):
            counts = dict(line.split() for line in self._read(f"{box}/memory.events").splitlines())
            return counts.get("oom_kill", "0") != "0"
        return False

    def remove(self, box: str) -> None:
        if self.folders:
            with contextlib.suppress(OSError):
                os.rmdir(box, dir_fd=self.folder)

    def remove_all(self) -> None:
        if not hasattr(self, "folder"):
            return
        for box in os.listdir(self.folder):
            with contextlib.suppress(OSError):  # not a cgroup but one of its files
                os.rmdir(box, dir_fd=self.folder)
        with contextlib.suppress(OSError):
            os.rmdir(self.name, dir_fd=self.parent)

    def _write(self, path: str, value: str) -> None:
        fd = os.open(path, os.O_WRONLY, dir_fd=self.folder)
        try:
            os.write(fd, value.encode())
        finally:
            os.close(fd)

    def _read(self, path: str) -> str:
        fd = os.open(path, os.O_RDONLY, dir_fd=self.folder)
        try:
            return os.read(fd, 1 << 16).decode()
        finally:
            os.close(fd)


def works(cgroups: UnifiedCgroups) -> bool:
    """Whether a child can be put into a box's cgroup; what may be written where differs between set-ups."""
    if not cgroups.folders:
        return False
    limits = {"memory_mb": 64.0, "pids": 16.0, "cpus": 1.0}
    try:
        cgroups.make("trial", limits)
    except OSError:
        cgroups.remove("trial")
        return False
    pid = os.fork()
    if pid == 0:
        try:
            cgroups.enter("trial", limits)
            os._exit(0)
        finally:
            os._exit(1)
    _, status = os.waitpid(pid, 0)
    cgroups.remove("trial")
    return status == 0
