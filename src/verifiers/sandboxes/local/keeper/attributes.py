"""Extended attributes that copies of files keep: those of users, which mean nothing to the kernel.

Never `trusted.` and `user.overlay.`, by which an image could tell an overlay to show what lies elsewhere. Nor
`security.`: boxes gain no rights by starting a program, so capabilities of files have no effect in one.
"""

import contextlib
import os

ATTRIBUTES_SIZE = 4000
"""Bytes of all names and values of a file that are kept: about what ext4 has room for."""


def is_kept(name: str) -> bool:
    return name.startswith("user.") and not name.startswith("user.overlay.")


def attributes_of(place: "str | int") -> dict[str, bytes]:
    """Those of the file, not of what it links to, or behind the descriptor; none if they are larger than is kept."""
    found: dict[str, bytes] = {}
    link = {} if isinstance(place, int) else {"follow_symlinks": False}
    with contextlib.suppress(OSError):  # a file system without any, or the file is gone
        for name in filter(is_kept, os.listxattr(place, **link)):
            found[name] = os.getxattr(place, name, **link)
    return found if size_of(found) <= ATTRIBUTES_SIZE else {}


def size_of(attributes: dict[str, bytes]) -> int:
    return sum(len(os.fsencode(name)) + len(value) for name, value in attributes.items())


def set_attributes(place: "str | int", attributes: dict[str, bytes]) -> None:
    """As far as the file system there takes them; `place` is no link and may be written to."""
    if size_of(attributes) > ATTRIBUTES_SIZE:
        return
    for name, value in attributes.items():
        if is_kept(name):
            with contextlib.suppress(OSError):
                os.setxattr(place, name, value)
