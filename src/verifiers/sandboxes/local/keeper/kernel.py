"""The few system calls Python 3.11 has no name for."""

import ctypes
import os
import signal

CLONE_NEWNS = 0x00020000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_INTO_CGROUP = 0x200000000
SYS_CLONE3 = 435
MS_NOSUID, MS_NODEV, MS_BIND, MS_REC, MS_PRIVATE = 0x2, 0x4, 0x1000, 0x4000, 0x40000
MNT_DETACH = 2
PR_SET_PDEATHSIG, PR_SET_DUMPABLE = 1, 4

libc = ctypes.CDLL(None, use_errno=True)
python = ctypes.PyDLL(None, use_errno=True)
"""The same functions, called without giving up the interpreter's lock, which a forked child could not get back."""


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def unshare(flags: int) -> None:
    _check(libc.unshare(flags), f"unshare({flags:#x})")


def mount(source: str, target: str, kind: str = "", flags: int = 0, options: str = "") -> None:
    call = (source.encode(), target.encode(), kind.encode() or None, ctypes.c_ulong(flags), options.encode() or None)
    _check(libc.mount(*call), f"mount {kind or source} at {target}")


def unmount(target: str) -> None:
    _check(libc.umount2(target.encode(), MNT_DETACH), f"unmount {target}")


def pivot_root(new: str, old: str) -> None:
    _check(libc.pivot_root(new.encode(), old.encode()), f"pivot_root {new}")


def be_dumpable() -> None:
    _check(libc.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0), "prctl")


def die_with_parent(signal: int) -> None:
    _check(libc.prctl(PR_SET_PDEATHSIG, signal, 0, 0, 0), "prctl")


def fork_into(cgroup: int) -> int:
    """As `os.fork`, but the child starts in the version 2 cgroup whose folder is open as `cgroup` (Linux 5.7).

    For a process with one thread. The call and its `struct clone_args`: clone3(2).
    """
    api = ctypes.pythonapi  # keeps the interpreter's lock, which the child inherits
    arguments = (ctypes.c_uint64 * 11)(CLONE_INTO_CGROUP, 0, 0, 0, signal.SIGCHLD, 0, 0, 0, 0, 0, cgroup)
    api.PyOS_BeforeFork()
    pid = python.syscall(ctypes.c_long(SYS_CLONE3), arguments, ctypes.c_size_t(ctypes.sizeof(arguments)))
    number = ctypes.get_errno()
    if pid == 0:
        api.PyOS_AfterFork_Child()
        return 0
    api.PyOS_AfterFork_Parent()
    if pid < 0:
        raise OSError(number, f"clone3: {os.strerror(number)}")
    return pid
