"""`metadata.json`: what produced a run's numbers, and how far the run came."""

from __future__ import annotations

import os
import re
import secrets
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, cast

import msgspec

from verifiers.errors import ConfigError
from verifiers.results.lines import check_schema
from verifiers.results.lock import is_locked
from verifiers.results.plain import encode
from verifiers.results.secrets import scrubbed
from verifiers.trace import SCHEMA_VERSION

Status = Literal["started", "interrupted", "completed"]
"""`started` also means: died without a word. Everything but `completed` can be continued."""

FILE = "metadata.json"
ROWS = "results.jsonl"


def run_folder(root: Path, env: str, model: str, run_id: str | None = None, *, harness: str = "") -> Path:
    """`root/<env>--<model>/<run-id>`; a fresh, sortable run id is made where none is given.

    Args:
        harness: added to the name: `<env>--<model>--<harness>`.
    """
    if run_id is None:
        run_id = f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"
    return root / "--".join(_slug(name) for name in (env, model, *([harness] if harness else []))) / run_id


def _slug(name: str) -> str:
    return re.sub(r"[^\w.+-]+", "-", name.replace("/", "--")).strip("-.") or "unnamed"


def fresh(metadata: Mapping[str, Any], run_id: str) -> dict[str, Any]:
    """The metadata of a run that begins now."""
    own = {"schema": SCHEMA_VERSION, "run_id": run_id, "status": "started", "created": time.time()}
    return {**own, **cast(dict[str, Any], scrubbed(dict(metadata)))}


def read_metadata(folder: Path) -> dict[str, Any]:
    """The metadata of a run folder.

    Raises:
        ConfigError: there is none, it is not JSON, or a newer version wrote it.
    """
    path = folder / FILE
    try:
        metadata = msgspec.json.decode(path.read_bytes())
    except FileNotFoundError:
        raise ConfigError(f"{str(folder)!r} is not a run folder: it has no {FILE}") from None
    except msgspec.DecodeError as error:
        raise ConfigError(f"{path} is not JSON: {error}") from None
    if not isinstance(metadata, dict):
        raise ConfigError(f"{path} holds {type(metadata).__name__}; expected an object")
    metadata = cast(dict[str, Any], metadata)
    found = metadata.get("schema")
    check_schema(found if isinstance(found, int) else 0, path)
    return metadata


def pinned(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """What a run's numbers were measured with, beside its environment and model; None: the run does not say."""
    plan = cast(Mapping[str, Any], metadata.get("plan") or {})
    options = cast(Mapping[str, Any], plan.get("harness_options") or {})
    return {
        "env_version": metadata.get("env_version"),
        "harness": plan.get("harness"),
        "harness_version": options.get("version") or None,
        "sandbox": plan.get("sandbox"),
        "seed": plan.get("seed"),
        "rollouts_per_example": metadata.get("rollouts_per_example"),
        "verifiers_version": metadata.get("verifiers_version"),
    }


def write_metadata(folder: Path, metadata: Mapping[str, Any]) -> None:
    """Write the whole file or leave the old one."""
    text = msgspec.json.format(encode({**metadata, "updated": time.time()}), indent=2)
    part = folder / f".{FILE}.{os.getpid()}"
    with part.open("wb") as file:
        file.write(text + b"\n")
        file.flush()
        os.fsync(file.fileno())
    part.replace(folder / FILE)


def run_folders(root: Path) -> Iterator[Path]:
    """Every run folder at or under `root` (at most two levels down, as runs are laid out)."""
    for pattern in (FILE, f"*/{FILE}", f"*/*/{FILE}"):
        for path in root.glob(pattern):
            yield path.parent


def find_unfinished(root: Path, plan_digest: str) -> Path | None:
    """The newest run of the same plan that was not completed and that nobody is writing; None: there is none.

    The plan digest is what the run's metadata holds as `plan_digest`.
    """
    found: list[tuple[float, Path]] = []
    for folder in run_folders(root):
        try:
            metadata = read_metadata(folder)
        except ConfigError:
            continue  # not ours, or a newer version's: not a run this one can continue
        if metadata.get("plan_digest") == plan_digest and metadata.get("status") != "completed":
            found.append((float(metadata.get("created") or 0.0), folder))
    for _, folder in sorted(found, reverse=True):
        if not is_locked(folder):
            return folder
    return None
