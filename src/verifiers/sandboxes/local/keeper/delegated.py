"""Where this process may make cgroups of version 2: in its own cgroup, else in the nearest one above that lets it.

A cgroup with processes of its own hands no controllers on (the kernel's "no internal processes" rule), so the own one
serves only after its processes were moved into a leaf. Never above a cgroup with a memory limit: boxes obey it too.
"""

import os

LEAF = "init"
"""Where the processes of a cgroup that gets children go; container engines in containers use this name as well."""
SCOPE = "verifiers-"
"""How scopes are named that systemd was asked for: theirs is what is in them."""


def own_folders() -> list[str]:
    """`folders_upward` of the calling process."""
    with open("/proc/self/cgroup") as cgroup, open("/proc/self/mountinfo") as mountinfo:
        return folders_upward(cgroup.read(), mountinfo.read())


def folders_upward(cgroup: str, mountinfo: str) -> list[str]:
    """The folder of this process's cgroup, then those above it, as far as they are mounted; [] without version 2.

    Args:
        cgroup: text of `/proc/self/cgroup`.
        mountinfo: text of `/proc/self/mountinfo`.
    """
    own = next((line[3:] for line in cgroup.splitlines() if line.startswith("0::")), None)
    found = _mounted(mountinfo)
    if own is None or found is None:
        return []
    root, top = found
    inside = root == "/" or own == root or own.startswith(f"{root}/")
    if not inside or own.startswith("/.."):  # seen from another cgroup namespace
        return [top]
    parts = [part for part in own[len(root.rstrip("/")) :].split("/") if part]
    return ["/".join([top, *parts[:count]]) for count in range(len(parts), -1, -1)]


def _mounted(mountinfo: str) -> tuple[str, str] | None:
    """(which cgroup, where) of the first mount of version 2. Format: proc_pid_mountinfo(5)."""
    for line in mountinfo.splitlines():
        fields, _, rest = line.partition(" - ")
        if rest.startswith("cgroup2 "):
            root, place = fields.split(" ")[3:5]
            return unescaped(root), unescaped(place)
    return None


def unescaped(path: str) -> str:
    for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        path = path.replace(code, character)
    return path


def has_memory_limit(folder: str) -> bool:
    try:
        with open(f"{folder}/memory.max") as file:
            return file.read().strip() != "max"
    except OSError:  # the hierarchy's root has no such file
        return False


def reachable(folders: list[str]) -> list[str]:
    """Of `folders_upward`, those at and below the first with a memory limit."""
    for count, folder in enumerate(folders, start=1):
        if has_memory_limit(folder):
            return folders[:count]
    return folders


def is_machines(folder: str) -> bool:
    """Whether it is the hierarchy's root, which may hand controllers on whatever is in it."""
    return not os.path.exists(f"{folder}/cgroup.type")


def is_delegated(folder: str) -> bool:
    """Whether its unit of systemd, if any, leaves it to its processes.

    Another is stopped as a whole once anything in it ran out of memory (`OOMPolicy=`), so a box could end the run.
    """
    if not os.path.isdir("/run/systemd/system") or os.path.basename(folder).startswith(SCOPE):
        return True
    for name in ("user.delegate", "trusted.delegate"):
        try:
            if os.getxattr(folder, name) == b"1":
                return True
        except OSError:
            continue
    return False


def processes_in(folder: str) -> list[int]:
    with open(f"{folder}/cgroup.procs") as file:
        return [int(line) for line in file]


def make_room(folder: str) -> None:
    """Move the processes of `folder` into a leaf below it, so that it can hand controllers on.

    Raises:
        OSError: not allowed, or some of them belong to another user or another pid namespace.
    """
    if is_machines(folder):
        raise PermissionError(f"{folder} is the whole machine's")
    if not is_delegated(folder):
        raise PermissionError(f"{folder} belongs to systemd")
    user = os.geteuid()
    for pid in processes_in(folder):
        if pid == 0 or user not in (0, os.stat(f"/proc/{pid}").st_uid):
            raise PermissionError(f"{folder} has processes of others")
    leaf = f"{folder}/{LEAF}"
    os.makedirs(leaf, exist_ok=True)
    for _ in range(8):  # they may fork meanwhile
        waiting = processes_in(folder)
        if not waiting:
            return
        for pid in waiting:
            try:
                with open(f"{leaf}/cgroup.procs", "w") as file:
                    file.write(str(pid))
            except ProcessLookupError:
                continue
