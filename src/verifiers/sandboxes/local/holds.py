"""Which images are in use: a shared lock on a file in each, held by every process whose boxes lie on it.

The kernel drops a dead process's locks, so nothing is in use for ever.
"""

from __future__ import annotations

import fcntl
import os
import secrets
from pathlib import Path

LOCK = "lock"
REMOVED = ".removed-"


def hold(folder: Path) -> int:
    """A descriptor that holds the image in `folder` until it is closed; `FileNotFoundError` if it is gone."""
    number = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(number, fcntl.LOCK_SH)
        if os.fstat(number).st_ino != os.stat(folder / LOCK).st_ino:  # taken away meanwhile, and made anew
            raise FileNotFoundError(f"{folder} was removed")
    except BaseException:
        os.close(number)
        raise
    return number


def take_away(folder: Path) -> Path | None:
    """Move an image nobody holds to where nobody finds it, for its removal; None if somebody holds it."""
    number = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        gone = folder.with_name(f"{REMOVED}{folder.name}-{secrets.token_hex(4)}")
        os.rename(folder, gone)
    except BlockingIOError:
        return None
    finally:
        os.close(number)
    return gone
