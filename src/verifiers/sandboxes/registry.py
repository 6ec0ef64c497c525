"""`start_sandbox`: from a backend's name and a spec to a ready box; the registry of backends and the fallback rule.

The rule: the backend asked for is probed once; only `local` has a stand-in (`docker`), which isolates as well, and
taking it is said aloud. Nothing ever falls back to less isolation.
"""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from weakref import WeakSet

from verifiers.errors import (
    ConfigError,
    Fault,
    FaultKind,
    SandboxError,
    SandboxExecError,
    SandboxStartError,
    boundary,
    nearest,
)
from verifiers.sandboxes.base import Backend, Sandbox, SandboxSpec

log = logging.getLogger("verifiers.sandboxes")

BACKENDS = {
    "local": "verifiers.sandboxes.local:LocalBackend",
    "unsafe-local": "verifiers.sandboxes.unsafe:UnsafeLocalBackend",
    "docker": "verifiers.sandboxes.docker:DockerBackend",
    "modal": "verifiers.sandboxes.modal:ModalBackend",
}
"""Name -> `module:class`, imported when first asked for."""

FALLBACK = {"local": "docker"}
ENTRY_POINT_GROUP = "verifiers.sandboxes"
STOP_TIMEOUT_S = 30.0
PRUNE_TIMEOUT_S = 60.0
_DUTIES = ("probe", "start", "ls", "prune", "close")
_pruned: WeakSet[Backend] = WeakSet()


@cache
def _entry_points() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=ENTRY_POINT_GROUP)}


def backend_names() -> list[str]:
    """Every name `start_sandbox` takes, installed packages' included."""
    return sorted({*BACKENDS, *_entry_points()})


@cache
def get_backend(name: str) -> Backend:
    """The one instance of backend `name` in this process; `ConfigError` if there is none, or it cannot be loaded."""
    if name in BACKENDS:
        module, _, attribute = BACKENDS[name].partition(":")
        return getattr(import_module(module), attribute)()
    if name in _entry_points():
        return _installed(_entry_points()[name])
    raise ConfigError(f"unknown sandbox backend {name!r}{nearest(name, backend_names())}")


def _installed(point: EntryPoint) -> Backend:
    """The backend of an installed package; `ConfigError` in one line for whatever its code raises, or is not."""
    owner = f"{point.dist.name} {point.dist.version}" if point.dist else "an installed package"
    whose = f"sandbox backend {point.name!r} of {owner} (entry point {point.value})"
    faults: list[Fault] = []
    with boundary("load", FaultKind.PROVISIONING, faults.append):
        made = point.load()()
        absent = [name for name in _DUTIES if not callable(getattr(made, name, None))]
        if absent:
            raise ConfigError(f"{whose} is no backend: it has no {', no '.join(absent)}")
        return made
    error = faults[0].error
    if isinstance(error, ConfigError):
        raise error
    raise ConfigError(f"{whose} cannot be loaded: {faults[0].message}") from error


async def usable_backend(name: str, *, find: Callable[[str], Backend] = get_backend) -> Backend:
    """Backend `name` if it works here, else its stand-in; `SandboxStartError` with the reasons if neither does."""
    backend = find(name)
    reason = await backend.probe()
    if reason is None:
        return backend
    if name not in FALLBACK:
        raise SandboxStartError(f"sandbox backend {name!r} does not work here: {reason}")
    other = FALLBACK[name]
    stand_in = find(other)
    other_reason = await stand_in.probe()
    if other_reason is not None:
        raise SandboxStartError(
            f"no isolation available: {name!r} does not work here: {reason}; and {other!r} neither: {other_reason}. "
            "To run code on this machine with no isolation at all, ask for 'unsafe-local' by name."
        )
    _warn_once(f"sandbox backend {name!r} does not work here ({reason}); using {other!r} instead")
    return stand_in


@cache
def _warn_once(message: str) -> None:
    log.warning(message)


@asynccontextmanager
async def start_sandbox(backend: str | Backend = "local", spec: SandboxSpec | None = None) -> AsyncIterator[Sandbox]:
    """A ready box (files in, setup run), stopped when the block is left, cancelled or not.

    Raises:
        ConfigError: no such backend, or a spec that contradicts itself.
        SandboxStartError: it could not be started, or setup failed.
        SandboxPolicyError: the backend cannot enforce what the spec asks for.
    """
    box = await start_box(backend, spec or SandboxSpec())
    try:
        yield box
    finally:
        await stop_box(box)


async def start_box(backend: str | Backend, spec: SandboxSpec) -> Sandbox:
    """A ready box whose caller must stop it with `stop_box`; `start_sandbox` is the safe form."""
    engine = await usable_backend(backend) if isinstance(backend, str) else backend
    await _prune_once(engine)
    box = await engine.start(spec)
    try:
        await _prepare(box, spec)
    except BaseException:
        await stop_box(box)
        raise
    return box


async def stop_box(box: Sandbox) -> None:
    """Stop `box` even while this task is being cancelled; waits at most `STOP_TIMEOUT_S`."""
    stopping = asyncio.ensure_future(box.stop())
    try:
        await asyncio.wait_for(asyncio.shield(stopping), STOP_TIMEOUT_S)
    except TimeoutError:
        log.error("sandbox %s was not stopped within %s s; the next run's prune removes it", box.id, STOP_TIMEOUT_S)
    except asyncio.CancelledError:
        await asyncio.wait([stopping], timeout=STOP_TIMEOUT_S)
        raise


async def _prune_once(backend: Backend) -> None:
    """Before a process starts its first box: remove what dead processes left."""
    if backend in _pruned:
        return
    _pruned.add(backend)
    try:
        removed = await asyncio.wait_for(backend.prune(), PRUNE_TIMEOUT_S)
    except (SandboxError, OSError) as error:  # time-outs too, and what root has left in this user's cache
        log.warning("boxes of dead processes could not be removed: %s", error)
        return
    if removed:
        log.warning("removed %d boxes whose processes are gone", len(removed))


async def _prepare(box: Sandbox, spec: SandboxSpec) -> None:
    for path, content in spec.files.items():
        try:
            if isinstance(content, Path):
                await box.upload(content, path)
            else:
                await box.write(path, content)
        except OSError as error:
            full = f"; disk_mb={spec.disk_mb} is too little" if error.errno in (errno.ENOSPC, errno.EFBIG) else ""
            said = f"{error.strerror or error}{full}"
            raise SandboxStartError(f"file {path[:200]!r} could not be put into the box: {said}") from error
    for line in spec.setup:
        try:
            result = await box.exec(line)
        except SandboxExecError as error:
            raise SandboxStartError(f"setup line {line!r} could not be run: {error}") from error
        if not result.ok:
            tail = (result.stderr or result.stdout)[-2000:]
            raise SandboxStartError(f"setup line {line!r} exited with {result.exit_code}: {tail}")
