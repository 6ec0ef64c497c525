"""A cgroup for an ordinary user's keeper, made by the user's own systemd.

Whoever logs in gets a systemd of their own that may hand on memory, processes and CPU time, but their shells are
outside of what it owns, and only systemd may move a process across. So it is asked for a scope around the keeper.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import NamedTuple

from verifiers.sandboxes.local.keeper.delegated import SCOPE, has_memory_limit, own_folders


class Ahead(NamedTuple):
    """What goes before a command line to run it elsewhere, and its environment."""

    argv: list[str]
    env: dict[str, str]


NOTHING = Ahead([], {})


def command(name: str) -> Ahead | None:
    """What runs a command in a scope of its own; None where there is none to be had.

    None also where it would lead out of a cgroup that somebody else decided on: a batch job's, a container's, a
    service's, or one with a memory limit.
    """
    user = os.geteuid()
    program, runtime = shutil.which("systemd-run"), Path(f"/run/user/{user}")
    if user == 0 or program is None or not (runtime / "systemd" / "private").exists():
        return None
    own = within_login(own_folders(), user)
    if not own or any(has_memory_limit(folder) for folder in own):
        return None
    unit = ["--user", "--scope", "--quiet", "--collect", f"--unit={SCOPE}{name}"]
    said = ["--description=Sandboxes of verifiers", "--property=Delegate=yes"]
    return Ahead([program, *unit, *said, "--"], {"XDG_RUNTIME_DIR": str(runtime)})


def within_login(folders: list[str], user: int) -> list[str]:
    """Of a process's own cgroup folder and those above it, the ones that are below its user's slice."""
    top = f"/user.slice/user-{user}.slice"
    return [folder for folder in folders if f"{top}/" in folder]
