"""Memory, process and CPU limits of boxes by cgroups of version 2, where this user may make them.

Below the folder that lets us: `<name>/keeper` for a keeper that gave up root, `<name>/<box>` for each box. A process
may only move between cgroups whose common ancestor it may write to, so that keeper is put there by whoever may.

Entering a cgroup waits for the kernel, often longer than all else that starting a box takes; a box is born in its own.
"""

import contextlib
import os
import time

from verifiers.sandboxes.local.keeper.cgroups import LIMITS
from verifiers.sandboxes.local.keeper.delegated import is_machines, make_room, own_folders, processes_in, reachable
from verifiers.sandboxes.local.keeper.kernel import fork_into


class UnifiedCgroups:
    """As `Cgroups`, in one hierarchy."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.folders: dict[str, int] = {}
        """Controller -> the folder of all boxes, the same for each controller that is enabled in it."""
        self.parent = self.folder = -1
        self.born_inside = True
        folders = own_folders()
        if not folders:
            return
        available = _controllers(f"{folders[-1]}/cgroup.controllers")
        self.needed = available & {"memory"} or available
        if not self.needed:
            return
        near = reachable(folders)
        alone = _is_alone(near[0])
        for folder, crowded in [(near[0], True)] * alone + [(path, False) for path in near] + [(near[0], True)]:
            if self._settle(folder, folders, crowded):
                return

    def _settle(self, place: str, folders: list[str], crowded: bool) -> bool:
        """Make the folder of all boxes in `place`; whether it has the controllers."""
        if not os.access(f"{place}/cgroup.procs", os.W_OK):
            return False
        try:
            self.parent = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
            os.mkdir(self.name, dir_fd=self.parent)
            self.folder = os.open(self.name, os.O_RDONLY | os.O_DIRECTORY, dir_fd=self.parent)
            if crowded:
                make_room(place)
            for path in reversed(folders[folders.index(place) :]):
                _enable(path)
            offered = _controllers(f"{place}/{self.name}/cgroup.controllers")
            if self.needed <= offered:
                _enable(f"{place}/{self.name}")
                os.mkdir("keeper", dir_fd=self.folder)
                self.folders = dict.fromkeys(offered, self.folder)
                return True
        except OSError:
            pass  # not here
        self.remove_all()
        return False

    def give_to(self, uid: int) -> None:
        for name in (".", "cgroup.procs", "cgroup.subtree_control", "keeper", "keeper/cgroup.procs"):
            if self.folders:
                os.chown(name, uid, uid, dir_fd=self.folder)

    def take(self, pid: int) -> None:
        """Put the keeper where it can move boxes from."""
        if self.folders:
            self._write("keeper/cgroup.procs", str(pid))

    def make(self, box: str, limits: dict[str, float]) -> None:
        wanted = self._wanted(limits)
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

    def _wanted(self, limits: dict[str, float]) -> list[str]:
        return [controller for controller in self.folders if limits[LIMITS[controller]]]

    def fork(self, box: str, limits: dict[str, float]) -> int:
        """As `os.fork`, but the child is in the cgroup made for `box`, or has yet to `enter` it."""
        if not self.born_inside or not self._wanted(limits):
            return os.fork()
        folder = os.open(box, os.O_RDONLY | os.O_DIRECTORY, dir_fd=self.folder)
        try:
            return fork_into(folder)
        finally:
            os.close(folder)

    def enter(self, box: str, limits: dict[str, float]) -> None:
        if self._wanted(limits) and not self.born_inside:
            self._write(f"{box}/cgroup.procs", "0")

    def freeze(self, box: str) -> bool:
        """Stop all processes of `box` where they are; returns once they are, or after a second. False: it cannot."""
        try:
            self._write(f"{box}/cgroup.freeze", "1")
        except OSError:  # it has no limits and so no cgroup, or has ended
            return False
        with contextlib.suppress(OSError):
            for _ in range(200):
                if "frozen 1" in self._read(f"{box}/cgroup.events"):
                    break
                time.sleep(0.005)
        return True

    def thaw(self, box: str) -> None:
        with contextlib.suppress(OSError):
            self._write(f"{box}/cgroup.freeze", "0")

    def was_out_of_memory(self, box: str) -> bool:
        if "memory" not in self.folders:
            return False
        with contextlib.suppress(OSError):
            counts = dict(line.split() for line in self._read(f"{box}/memory.events").splitlines())
            return "0" not in (counts.get("oom", "0"), counts.get("oom_kill", "0"))  # `oom`: for its own limit
        return False

    def remove(self, box: str) -> None:
        if self.folders:
            with contextlib.suppress(OSError):
                os.rmdir(box, dir_fd=self.folder)

    def remove_all(self) -> None:
        if self.folder >= 0:
            for box in os.listdir(self.folder):
                with contextlib.suppress(OSError):  # not a cgroup but one of its files
                    os.rmdir(box, dir_fd=self.folder)
            os.close(self.folder)
        if self.parent >= 0:
            with contextlib.suppress(OSError):
                os.rmdir(self.name, dir_fd=self.parent)
            os.close(self.parent)
        self.parent = self.folder = -1

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


def _controllers(file: str) -> set[str]:
    with open(file) as text:
        return set(text.read().split()) & set(LIMITS)


def _enable(folder: str) -> None:
    """Hand the controllers on from `folder` to its children, as far as it has them and this user may.

    Not where processes are: some controllers could be, but would make all below it fit for threads only.
    """
    with contextlib.suppress(OSError):
        if is_machines(folder) or not processes_in(folder):
            for controller in _controllers(f"{folder}/cgroup.controllers"):
                with contextlib.suppress(OSError), open(f"{folder}/cgroup.subtree_control", "w") as file:
                    file.write(f"+{controller}")


def _is_alone(folder: str) -> bool:
    """Whether this process is all there is in its cgroup, as in a scope made for it."""
    try:
        return processes_in(folder) == [os.getpid()]
    except OSError:
        return False


def works(cgroups: UnifiedCgroups) -> bool:
    """Whether a child can be had in a box's cgroup; what may be done where differs between set-ups."""
    if not cgroups.folders:
        return False
    if _trial(cgroups):
        return True
    cgroups.born_inside = False  # before Linux 5.7, or a filter of system calls
    return _trial(cgroups)


def _trial(cgroups: UnifiedCgroups) -> bool:
    limits = {"memory_mb": 64.0, "pids": 16.0, "cpus": 1.0}
    try:
        cgroups.make("trial", limits)
        pid = cgroups.fork("trial", limits)
    except OSError:
        cgroups.remove("trial")
        return False
    if pid == 0:
        try:
            cgroups.enter("trial", limits)
            os._exit(0)
        finally:
            os._exit(1)
    _, status = os.waitpid(pid, 0)
    cgroups.remove("trial")
    return status == 0
