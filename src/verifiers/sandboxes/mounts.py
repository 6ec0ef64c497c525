"""Where folders must lie that local boxes can be shown, and what boxes without mounts say to one."""

from __future__ import annotations

from pathlib import Path

from verifiers.errors import SandboxPolicyError
from verifiers.places import cache_folder
from verifiers.sandboxes.base import SandboxSpec


def mount_folder() -> Path:
    """This user's folder of programs for boxes. Follows XDG_CACHE_HOME."""
    return cache_folder("programs")


def below(folder: Path | str) -> Path:
    """`folder` relative to `mount_folder()`.

    Raises:
        SandboxPolicyError: it lies elsewhere, also by way of a link.
    """
    path, top = Path(folder).resolve(), mount_folder().resolve()
    if path != top and top in path.parents:
        return path.relative_to(top)
    raise SandboxPolicyError(f"local boxes can be shown folders below {top} only, not {path}")


def refuse(spec: SandboxSpec, backend: str) -> None:
    """
    Raises:
        SandboxPolicyError: the spec has mounts, which `backend` cannot give.
    """
    if spec.mounts:
        raise SandboxPolicyError(
            f"sandbox backend {backend!r} cannot show folders of this machine ({', '.join(spec.mounts)}); use 'local' "
            "or 'docker', or an image that has the program"
        )
