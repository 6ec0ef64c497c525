"""What to do where the kernel allows no namespaces: the switches known to forbid them, as this machine has them set."""

from __future__ import annotations

from pathlib import Path

SWITCHES = {
    "kernel.unprivileged_userns_clone": ("0", "1"),
    "user.max_user_namespaces": ("0", "15000"),
    "kernel.apparmor_restrict_unprivileged_userns": ("1", "0"),
}
"""sysctl name -> the value that forbids them, one that allows them. The first is Debian's, the last Ubuntu's."""


def advice(folder: Path = Path("/proc/sys")) -> str:
    """The commands that would allow namespaces, as the end of a sentence; "" if no known switch forbids them."""
    set_so = [f"{name}={allows}" for name, (forbids, allows) in SWITCHES.items() if _value(folder, name) == forbids]
    return f"; as root: sysctl -w {' '.join(set_so)}" if set_so else ""


def _value(folder: Path, name: str) -> str | None:
    try:
        return (folder / name.replace(".", "/")).read_text().strip()
    except OSError:
        return None
