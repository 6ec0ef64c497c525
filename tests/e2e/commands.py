"""Runs the commands as a user's shell would: separate processes, real files, real signals."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


def environment(*paths: Path, **variables: str) -> dict[str, str]:
    """The variables of a process that imports this checkout, and `paths` before it; no keys of the caller's."""
    own = {name: value for name, value in os.environ.items() if not name.endswith(("_API_KEY", "_BASE_URL"))}
    search = os.pathsep.join(map(str, (*paths, ROOT / "src")))
    return {**own, "PYTHONPATH": search, "PYTHONUNBUFFERED": "1", "COLUMNS": "120", **variables}


def command(name: str, *arguments: str) -> list[str]:
    return [sys.executable, "-m", f"verifiers.cli.{name}", *arguments]


def vf_eval(
    *arguments: str, cwd: Path, paths: tuple[Path, ...] = (), timeout_s: float = 250, **variables: str
) -> subprocess.CompletedProcess[str]:
    """A finished `vf-eval`."""
    return subprocess.run(
        command("eval", *arguments),
        cwd=cwd,
        env=environment(*paths, **variables),
        capture_output=True,
        text=True,
        timeout=timeout_s,
    )


def start(*arguments: str, cwd: Path, **variables: str) -> subprocess.Popen[str]:
    """A running `vf-eval`, in a process group of its own."""
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(
        command("eval", *arguments), cwd=cwd, env=environment(**variables), start_new_session=True, **pipes
    )
