"""The process that starts, holds and ends the local boxes of one runner.

It lives in namespaces of its own and, started as root, gives root up for ids no account has. As process 1 of its pid
namespace it takes every box with it when it dies; all mounts live in its mount namespace and vanish with it. It dies
when the runner's end of its socket closes, so also when the runner was killed.

Being small and single-threaded it forks fast, and boxes do not die with a thread of the runner's. Runs as one text.
"""

from functools import cache
from pathlib import Path

from verifiers.sandboxes.onefile import one_file

PARTS = (
    "kernel",
    "cgroups",
    "delegated",
    "unified",
    "ends",
    "seats",
    "standing",
    "attributes",
    "copying",
    "boxes",
    "main",
)
FIRST_ID = 0x70000000
"""Ids of boxes on a machine where the keeper starts as root: outside what accounts, containers and services use."""
ID_COUNT = 65536
PLACE = "/sys"
"""Where the keeper's own tmpfs is, in its mount namespace only: a folder every machine has and no box is shown."""


@cache
def source() -> str:
    """The keeper's program."""
    return one_file(Path(__file__).parent, __name__, PARTS)
