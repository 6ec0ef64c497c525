"""Where this user's files of this library lie, beside runs: caches and settings, as the XDG base directories say.

https://specifications.freedesktop.org/basedir-spec/latest/
"""

from __future__ import annotations

import os
from pathlib import Path

from verifiers.errors import ConfigError


def cache_folder(*parts: str) -> Path:
    """`parts` below the folder of what can be made or fetched again. Follows XDG_CACHE_HOME.

    Raises:
        ConfigError: neither that nor a home folder is known.
    """
    return _folder("XDG_CACHE_HOME", ".cache").joinpath(*parts)


def config_folder() -> Path:
    """The folder of settings. Follows XDG_CONFIG_HOME; raises as `cache_folder` does."""
    return _folder("XDG_CONFIG_HOME", ".config")


def _folder(variable: str, default: str) -> Path:
    named = os.environ.get(variable)
    try:
        base = Path(named).expanduser() if named else Path.home() / default
    except RuntimeError:
        raise ConfigError(f"this user has no home folder: set HOME, or {variable} to a folder to use") from None
    return base / "verifiers"
