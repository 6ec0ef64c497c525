"""Images of an engine that are snapshots of boxes, and their removal."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Mapping
from typing import Any

from verifiers.errors import SandboxError, SandboxPolicyError
from verifiers.sandboxes.base import SNAPSHOT
from verifiers.sandboxes.docker.engine import Engine, EngineError
from verifiers.sandboxes.docker.spec import LABEL, LABEL_SNAPSHOT, labels
from verifiers.sandboxes.marks import owner_alive

COMMIT_TIMEOUT_S = 600.0
PATIENCE_S = 5.0
"""How long an engine may take to forget a container it has been told to remove."""
RETRIED = (409, 500)
"""A container still has the image; another caller is just removing it, which Docker 20.10 calls an error of its own."""


async def commit(engine: Engine, container: str, *, env: Mapping[str, str], temporary: bool) -> str:
    """The name of a new image with a container's files; `env` is what the image has and the container went without."""
    name = f"{SNAPSHOT}:{secrets.token_hex(8)}"
    repo, tag = name.split(":")
    marked = {**labels(), LABEL_SNAPSHOT: "temporary" if temporary else "kept"}
    config = {"Labels": marked, "Env": [f"{variable}={value}" for variable, value in env.items()]}
    query = {"container": container, "repo": repo, "tag": tag}
    version = await engine.call("GET", "/version")
    if any("Podman" in part["Name"] for part in version.get("Components") or []):  # which reads no body here
        changes = [f"LABEL {label}={text}" for label, text in marked.items()]
        query["changes"] = "\n".join(changes + [f"ENV {entry}" for entry in config["Env"]])
    await engine.call("POST", "/commit", query=query, body=config, timeout_s=COMMIT_TIMEOUT_S)
    return name


async def remove(engine: Engine, name: str) -> None:
    """Remove the snapshot `name`; one that is gone is no error, one in use a `SandboxPolicyError`."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            await engine.call("DELETE", f"/images/{name}")
            return
        except EngineError as error:
            if error.status == 404:
                return
            if error.status not in RETRIED or time.monotonic() > deadline:
                raise SandboxPolicyError(f"snapshot {name!r} cannot be removed: {error}") from error
        await asyncio.sleep(0.2)


async def prune(engine: Engine) -> None:
    """Remove the temporary snapshots of dead owners, apart from those that a container still uses."""
    query = {"filters": {"label": [f"{LABEL_SNAPSHOT}=temporary"]}}
    for image in await engine.call("GET", "/images/json", query=query):
        if not _owner_alive(image):
            for tag in image.get("RepoTags") or [image["Id"]]:
                if tag.startswith((f"{SNAPSHOT}:", "sha256:")):
                    await _try_to_remove(engine, tag)


async def _try_to_remove(engine: Engine, name: str) -> None:
    try:
        await engine.call("DELETE", f"/images/{name}")
    except EngineError as error:
        if error.status not in (404, 409):
            raise SandboxError(f"snapshot {name!r} cannot be removed: {error}") from error


def _owner_alive(image: Mapping[str, Any]) -> bool:
    given: Mapping[str, str] = image.get("Labels") or {}
    found = {name.removeprefix(LABEL): text for name, text in given.items()}
    return owner_alive(found, running=False, now=time.time())
