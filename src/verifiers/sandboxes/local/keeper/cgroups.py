"""Memory, process and CPU limits of boxes by cgroups of version 1, where this user may make them."""

import contextlib
import os

LIMITS = {"memory": "memory_mb", "pids": "pids", "cpu": "cpus"}
"""Controller -> the limit of a box that needs it. Entering a cgroup may wait for the kernel, so only what is needed."""

NEARLY = 4 << 20
"""How far below its limit what fills a cgroup may stay: the kernel charges ahead, and up to a huge page at once."""
TRACES = 64 << 10
"""Bytes that a memory cgroup may have charged and still count as empty: a sixteenth of the least that limits one."""


def own_cgroups() -> dict[str, str]:
    """Controller -> this process's cgroup folder, of version 1 hierarchies mounted at the usual place."""
    found = {}
    with open("/proc/self/cgroup") as file:
        for line in file:
            _, names, path = line.rstrip("\n").split(":", 2)
            for name in names.split(","):
                if name in LIMITS:
                    found[name] = f"/sys/fs/cgroup/{names}{path}".rstrip("/")
    return found


class Cgroups:
    """One folder per controller for all boxes of a keeper, and one below it per box.

    Held open by descriptor: the keeper's mount namespace has something else at their paths.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.parents: dict[str, int] = {}
        self.folders: dict[str, int] = {}
        for controller, path in own_cgroups().items():
            with contextlib.suppress(OSError):
                parent = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
                os.mkdir(name, dir_fd=parent)
                self.parents[controller] = parent
                self.folders[controller] = os.open(name, os.O_RDONLY | os.O_DIRECTORY, dir_fd=parent)

    def give_to(self, uid: int) -> None:
        for folder in self.folders.values():
            os.fchown(folder, uid, uid)

    def take(self, pid: int) -> None:
        """Nothing: in version 1 a process may move from wherever it is."""

    def make(self, box: str, limits: dict[str, float]) -> None:
        """Cgroups for `box`, of the controllers its `limits` need: `memory_mb`, `pids`, `cpus`; 0 for no limit."""
        for controller, folder in self.folders.items():
            if not limits[LIMITS[controller]]:
                continue
            os.mkdir(box, dir_fd=folder)
            if controller == "memory":
                self.limit_memory(box, limits["memory_mb"])
            elif controller == "pids":
                self._write(controller, box, "pids.max", int(limits["pids"]))
            else:
                self._write(controller, box, "cpu.cfs_quota_us", int(limits["cpus"] * 100_000))

    def limit_memory(self, box: str, memory_mb: float) -> None:
        amount = int(memory_mb * 1048576)
        self._write("memory", box, "memory.limit_in_bytes", amount)
        with contextlib.suppress(OSError):  # there only with swap accounting
            self._write("memory", box, "memory.memsw.limit_in_bytes", amount)
        self._write("memory", box, "memory.max_usage_in_bytes", 0)  # may be another box's, which had the cgroup before

    def rename(self, box: str, name: str) -> None:
        """Of the memory cgroup alone."""
        folder = self.folders["memory"]
        os.rename(box, name, src_dir_fd=folder, dst_dir_fd=folder)

    def lift_memory(self, box: str) -> None:
        """No limit any more."""
        with contextlib.suppress(OSError):
            self._write("memory", box, "memory.memsw.limit_in_bytes", -1)
        self._write("memory", box, "memory.limit_in_bytes", -1)

    def is_unmarked(self, box: str) -> bool:
        """Whether its memory cgroup is as good as a new one: nobody in it, nothing charged, nobody killed for it.

        What the kernel frees late, mount and network namespaces foremost, is charged for some time after the end.
        """
        used = int(self._read("memory", box, "memory.usage_in_bytes"))
        return used <= TRACES and not self._read("memory", box, "cgroup.procs") and not self._lost_a_process(box)

    def _write(self, controller: str, box: str, name: str, value: int) -> None:
        fd = os.open(f"{box}/{name}", os.O_WRONLY, dir_fd=self.folders[controller])
        try:
            os.write(fd, str(value).encode())
        finally:
            os.close(fd)

    def _read(self, controller: str, box: str, name: str) -> str:
        fd = os.open(f"{box}/{name}", os.O_RDONLY, dir_fd=self.folders[controller])
        try:
            return os.read(fd, 4096).decode()
        finally:
            os.close(fd)

    def fork(self, box: str, limits: dict[str, float]) -> int:
        """`os.fork`: the child has yet to `enter`."""
        return os.fork()

    def enter(self, box: str, limits: dict[str, float]) -> None:
        """Put the calling process into the cgroups made for `box`."""
        for controller in self.folders:
            if limits[LIMITS[controller]]:
                self._write(controller, box, "cgroup.procs", 0)

    def bring(self, box: str, pid: int) -> None:
        """Put process `pid` into the memory cgroup of `box`."""
        self._write("memory", box, "cgroup.procs", pid)

    def freeze(self, box: str) -> bool:
        """False: in version 1 each process would have to be moved, and other users' may not be."""
        return False

    def thaw(self, box: str) -> None:
        """Nothing was frozen."""

    def was_out_of_memory(self, box: str) -> bool:
        """Whether the kernel killed a process of `box` for its own memory limit: a lower one around all boxes, as a
        batch job's, is nobody's fault in it."""
        if "memory" not in self.folders or not self._lost_a_process(box):
            return False
        limit, most = (int(self._read("memory", box, f"memory.{name}_in_bytes")) for name in ("limit", "max_usage"))
        return most > limit - NEARLY

    def _lost_a_process(self, box: str) -> bool:
        counts = dict(line.split() for line in self._read("memory", box, "memory.oom_control").splitlines())
        return counts.get("oom_kill", "0") != "0"

    def remove(self, box: str) -> None:
        for folder in self.folders.values():
            with contextlib.suppress(OSError):
                os.rmdir(box, dir_fd=folder)

    def remove_all(self) -> None:
        for controller, folder in self.folders.items():
            for box in os.listdir(folder):
                with contextlib.suppress(OSError):  # not a cgroup but one of its files
                    os.rmdir(box, dir_fd=folder)
            with contextlib.suppress(OSError):
                os.rmdir(self.name, dir_fd=self.parents[controller])
