"""Folders of images: what an image says about running it, whose its files are, and how a whole tree goes."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from verifiers.sandboxes.local.keeper import FIRST_ID, ID_COUNT


@dataclass(frozen=True)
class Settings:
    """What an image says about running it."""

    env: dict[str, str] = field(default_factory=dict[str, str])
    user: str = ""


def _owner(uid: int, gid: int) -> tuple[int, int]:
    """The ids on disk of a file that is `uid`'s in the image."""
    if os.geteuid() != 0:
        return -1, -1
    return FIRST_ID + min(uid, ID_COUNT - 1), FIRST_ID + min(gid, ID_COUNT - 1)


def give(path: str | Path, uid: int, gid: int) -> None:
    """Make `path`, not what it links to, `uid`'s in the image."""
    if os.geteuid() == 0:
        os.lchown(path, *_owner(uid, gid))


def remove_tree(path: Path) -> None:
    """Also folders nobody may write to, which images have."""

    def make_writable(function: Callable[..., object], name: str, _: object) -> None:
        os.chmod(os.path.dirname(name), 0o700)
        function(name)

    shutil.rmtree(path, onerror=make_writable)
