"""What dead runners left behind. Their boxes, mounts and processes died with their keepers; empty cgroups may stay."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from verifiers.sandboxes.base import BoxInfo
from verifiers.sandboxes.owner import Owner, current_owner

CGROUPS = Path("/sys/fs/cgroup")


def _groups() -> list[tuple[Path, Owner, str]]:
    found = []
    names = (
        Path(parent, name) for parent, folders, _ in os.walk(CGROUPS) for name in folders if name.startswith("vf-")
    )
    for path in names:
        owner_text, _, rest = path.name.removeprefix("vf-").rpartition("-")[0].rpartition("-")
        owner = Owner.parse(owner_text)
        if owner is not None:
            found.append((path, owner, rest))
    return found


def _folders(path: Path) -> list[Path]:
    """The cgroups below `path`; others may remove them meanwhile."""
    return [Path(parent, name) for parent, folders, _ in os.walk(path) for name in folders]


def _infos(groups: list[tuple[Path, Owner, str]]) -> list[BoxInfo]:
    boxes = {}
    for path, owner, run in groups:
        for box in _folders(path):
            if box.name == "keeper" or box.name.startswith("seat-"):
                continue  # no box, or none yet
            boxes[box.name] = BoxInfo(box.name, "local", "running" if owner.alive else "dead", run, owner.alive)
    return list(boxes.values())


def other_boxes() -> list[BoxInfo]:
    """Boxes of other processes, as far as their cgroups show them."""
    me = current_owner()
    return _infos([group for group in _groups() if group[1] != me])


def prune() -> list[BoxInfo]:
    """Remove the cgroups of dead runners."""
    dead = [group for group in _groups() if not group[1].alive]
    removed = _infos(dead)
    for path, _, _ in dead:
        for folder in [*_folders(path), path]:
            with suppress(OSError):
                os.rmdir(folder)
    return removed
