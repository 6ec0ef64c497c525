"""The sandbox contract: what every backend takes, gives and raises. Protocols and plain data, no code that runs boxes.

A box is asked for with a `SandboxSpec`, used through `Sandbox`, and ended by `stop()`. Whatever a command inside does,
the caller sees an `ExecResult` or one of the typed errors in `verifiers.errors`, never an engine's own exception:
`SandboxStartError`, `SandboxExecError` (could not be run), `SandboxLostError` (the box is gone), `SandboxLimitError`
(the box hit its own limit), `SandboxPolicyError` (forbidden, or the backend cannot do it).
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple, Protocol, TypeAlias, runtime_checkable

from verifiers.errors import ConfigError
from verifiers.sandboxes.egress.allow import AllowList

Command: TypeAlias = str | Sequence[str]
"""A shell line (run by the box's `sh -c`) or an argv."""

Network: TypeAlias = Literal["none", "allowlist", "full"]

SNAPSHOT = "verifiers-snapshot"
"""What the names of snapshots begin with, where they have names."""

LIMITS = {
    "memory_mb": (16, 1 << 30, ": a box's agent takes some 6"),
    "disk_mb": (1, 1 << 30, ""),
    "pids": (8, 1 << 22, ": a box's own are some of them, and a shell line takes several"),
}
"""Least and most of what every box has, and why; less was tried on `local` and `docker`, where boxes start to fail at
5 MB and 6 processes. The most is what kernels count to, and what no machine has."""
LEAST_CPUS = 0.01
"""Of the kernel: a millisecond in a tenth of a second."""

MAX_OUTPUT = 1 << 20
"""Bytes kept of each of stdout and stderr by `exec` unless told otherwise."""


def check_env(env: Mapping[str, str]) -> None:
    """
    Raises:
        ConfigError: an entry that is no environment variable.
    """
    for name, text in env.items():
        if not isinstance(name, str) or not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigError(f"environment entry {name!r}: {text!r} must be text, not {type(text).__name__}")
        if not name or "=" in name or "\0" in name + text:
            raise ConfigError(f"environment entry {name!r} has an empty name, a '=' in it, or a NUL byte")
        try:
            (name + text).encode("utf-8", "surrogateescape")
        except UnicodeEncodeError as error:
            raise ConfigError(f"environment entry {name!r} is no text: {error}") from None


@dataclass(frozen=True, kw_only=True)
class SandboxSpec:
    """What a box is made of and may use. Every backend enforces each field or refuses it with `SandboxPolicyError`."""

    image: str | None = None
    """An image the backend knows by this name; None (and no `rootfs`): the backend's default."""
    rootfs: Path | str | None = None
    """A folder or tar file on this machine that becomes the box's root; never with `image`."""
    workdir: str = "/workspace"
    """Where commands start; made when missing, writable by the box's user."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Added to the image's own environment. Nothing of this process's environment enters a box."""
    user: str | None = None
    """User name or `uid[:gid]` that commands run as; None: the backend's unprivileged or image default."""
    cpus: float | None = None
    memory_mb: int = 2048
    disk_mb: int = 2048
    """Bound of everything the box may write."""
    pids: int = 512
    network: Network = "none"
    allow: tuple[str, ...] = ()
    """What is reachable with `network="allowlist"`; empty: nothing. A host name, `*.` and a domain (its subdomains), an
    address, a network in CIDR form, each for every port or, with `:port`, for one."""
    timeout_s: float | None = None
    """Life of the box from when its user has it; then it is stopped, and calls raise `SandboxExpiredError`. None: until
    `stop()`."""
    mounts: Mapping[str, Path | str] = field(default_factory=dict)
    """Absolute path in the box -> a folder of this machine it shows, read-only: programs installed once for many boxes.
    `local` shows only what lies below `verifiers.sandboxes.mounts.mount_folder()`."""
    files: Mapping[str, bytes | str | Path] = field(default_factory=dict)
    """Path in the box (absolute or from `workdir` on) -> content, or a file or folder on this machine to copy in."""
    setup: Sequence[str] = ()
    """Shell lines run in order after `files` are in; one that fails is a `SandboxStartError`."""

    def __post_init__(self) -> None:
        if self.image is not None and self.rootfs is not None:
            raise ConfigError(f"a sandbox has an image ({self.image!r}) or a rootfs ({str(self.rootfs)!r}), not both")
        if self.rootfs is not None and not str(self.rootfs):
            raise ConfigError("rootfs='' names nothing; None means no rootfs")
        if not self.workdir.startswith("/") or ".." in self.workdir.split("/") or "\0" in self.workdir:
            raise ConfigError(f"workdir {self.workdir!r} must be absolute, without '..' and NUL bytes")
        if self.network not in ("none", "allowlist", "full"):
            raise ConfigError(f"network {self.network!r}; choose one of none, allowlist, full")
        if self.allow and self.network != "allowlist":
            raise ConfigError(f"allow={self.allow!r} needs network='allowlist', not {self.network!r}")
        AllowList(self.allow)
        if self.user is not None and not (isinstance(self.user, str) and self.user.isprintable() and self.user):  # pyright: ignore
            raise ConfigError(f"user {self.user!r} must be a name or 'uid[:gid]'; None means the default one")
        self._check_limits()
        check_env(self.env)
        self._check_contents()
        for path in self.mounts:
            if not path.startswith("/") or ".." in path.split("/") or ":" in path:
                raise ConfigError(f"mount {path!r} must be an absolute path without '..' and ':'")

    def _check_limits(self) -> None:
        for name, (least, most, why) in LIMITS.items():
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
                raise ConfigError(f"{name}={value!r} must be a whole number from {least} to {most}{why}")
        for name, least in (("cpus", LEAST_CPUS), ("timeout_s", 0)):
            value = getattr(self, name)
            if value is None:
                continue
            if (
                not isinstance(value, (int, float))
                or isinstance(value, bool)
                or not least <= value < math.inf
                or not value
            ):
                allowed = f"a number of at least {least}" if least else "a number above 0"
                raise ConfigError(f"{name}={value!r} must be {allowed}; None means no limit")

    def _check_contents(self) -> None:
        for path, content in self.files.items():
            if not isinstance(path, str) or not path or "\0" in path:  # pyright: ignore[reportUnnecessaryIsInstance]
                raise ConfigError(f"file {path!r} must be a path in the box, without NUL bytes")
            if not isinstance(content, (bytes, str, Path)):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise ConfigError(f"file {path!r} must be bytes, text or a Path, not {type(content).__name__}")
        if isinstance(self.setup, str):
            raise ConfigError("setup takes a list of shell lines, not one string")
        for line in self.setup:
            if not isinstance(line, str) or "\0" in line:  # pyright: ignore[reportUnnecessaryIsInstance]
                raise ConfigError(f"setup line {line!r} must be a shell line, without NUL bytes")


@dataclass(frozen=True)
class ExecResult:
    """How a command ended. It ran: a non-zero exit is a result, not an error."""

    exit_code: int
    """0..255; a command ended by signal N has 128 + N."""
    stdout: str
    """UTF-8, undecodable bytes replaced; at most `max_output` bytes of it, from the start."""
    stderr: str
    truncated: bool = False
    """Whether stdout or stderr had more than was kept."""
    timed_out: bool = False
    """Whether `timeout_s` ran out; the command and all it started were killed."""
    duration_s: float = 0.0

    @property
    def ok(self) -> bool:
        return self.exit_code == 0 and not self.timed_out


class Address(NamedTuple):
    """Where a port of a box is reached from this machine."""

    host: str
    port: int
    tls: bool = False

    @property
    def url(self) -> str:
        return f"http{'s' if self.tls else ''}://{self.host}:{self.port}"


class Process(Protocol):
    """A command that runs in a box while the caller does other things. It dies with its box."""

    @property
    def pid(self) -> int:
        """Its process id inside the box, 0 where the backend does not tell."""
        ...

    @property
    def stdout(self) -> asyncio.StreamReader:
        """Flow-controlled: a reader that stops reading stops the command, not this machine's memory."""
        ...

    @property
    def stderr(self) -> asyncio.StreamReader: ...

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        ...

    async def write(self, data: bytes) -> None:
        """Send `data` to its stdin; waits while the command does not read."""
        ...

    async def close_stdin(self) -> None: ...

    async def kill(self, signal: int = 9) -> None:
        """Signal it; 9 also kills everything it started. No error if it has ended."""
        ...

    async def wait(self) -> int:
        """Its exit code, once it ended. A command whose output nobody reads may never end: read it or discard it."""
        ...


@runtime_checkable
class Sandbox(Protocol):
    """One running box. Methods may be called concurrently. Paths are absolute or relative to `spec.workdir`."""

    @property
    def id(self) -> str: ...

    @property
    def backend(self) -> str: ...

    @property
    def spec(self) -> SandboxSpec: ...

    async def exec(
        self,
        command: Command,
        *,
        stdin: bytes | str | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        user: str | None = None,
        timeout_s: float | None = None,
        max_output: int = MAX_OUTPUT,
    ) -> ExecResult:
        """Run `command` and wait until it exits.

        Without `stdin` the command reads an empty one. It is over when the command itself exits: children left in the
        background keep running, and what they print later is dropped. On time-out the command and everything it
        started are killed, also what left its session.

        Raises:
            SandboxExecError: it could not be started (no such program, `cwd` or `user`).
            SandboxLostError: the box is gone.
        """
        ...

    async def spawn(
        self,
        command: Command,
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        user: str | None = None,
    ) -> Process:
        """Start `command` and return at once. Raises as `exec` does."""
        ...

    async def end_processes(self, *, since_s: float = 0.0) -> None:
        """Kill everything that runs in the box, whoever started it; files stay, and commands can be run again.

        Args:
            since_s: only what was started at this time or later, in seconds as the box's /proc/uptime tells them.
        """
        ...

    async def read(self, path: str, *, max_bytes: int | None = None) -> bytes:
        """The content of a regular file; links are followed inside the box only.

        Args:
            max_bytes: None: `spec.disk_mb`. A file with holes can be larger than that at no cost to the box.

        Raises:
            FileNotFoundError, IsADirectoryError, PermissionError: as for a local file.
            SandboxPolicyError: it is neither file nor folder (a FIFO, a device), or has more than `max_bytes`.
        """
        ...

    async def write(self, path: str, data: bytes | str, *, mode: int | None = None) -> None:
        """Create or replace a file; missing folders are made. `mode` None: 0o644, or the mode it had."""
        ...

    async def upload(self, source: Path | str, path: str) -> None:
        """Copy a file or folder of this machine to `path`; modes are kept, links stay links."""
        ...

    async def download(self, path: str, target: Path | str, *, max_bytes: int | None = None) -> None:
        """Copy a file or folder of the box to `target`, which becomes the copy: a folder that is there is replaced.

        Modes are kept without setuid, setgid and sticky bits. Never writes outside `target`, whatever the box holds.

        Args:
            max_bytes: of all contents together; None: `spec.disk_mb`, which files with holes and hard links can exceed.

        Raises:
            FileNotFoundError: nothing at `path`.
            IsADirectoryError: `path` is a file, and `target` a folder.
            SandboxPolicyError: devices, FIFOs, sockets, links that leave the tree, or more than `max_bytes`.
        """
        ...

    async def expose(self, port: int) -> Address:
        """An address on this machine (or the backend's edge) that reaches TCP `port` of the box's loopback."""
        ...

    async def bind_socket(self, source: Path | str, path: str) -> None:
        """Make this machine's unix socket `source` connectable at `path` inside the box, with or without a network."""
        ...

    async def snapshot(self, *, temporary: bool = False) -> str:
        """An image name of this backend with the box's files as they are now; `SandboxPolicyError` where it cannot.

        What is in memory is not in it: processes, `/dev/shm`, sockets. It stays until it is removed; a `temporary` one
        is removed by the backend's `prune` once this process is gone.
        """
        ...

    async def stop(self) -> None:
        """End the box and free all it held. Any number of times; never raises because the box is already gone."""
        ...


class BoxInfo(NamedTuple):
    """One box as a backend lists it, this process's or another's."""

    id: str
    backend: str
    state: str
    """`running`, `created`, `exited`, ... in the engine's words."""
    run: str
    """The run it belongs to, '' if unknown."""
    owner_alive: bool
    """False: the process that started it is gone, and `prune` removes it."""


class Backend(Protocol):
    """One way to run boxes. Made without arguments, once per process, and used from any event loop: one after another
    or, in threads, several at once. A box belongs to the loop it was started in.

    A third party's class is named by an entry point in group `verifiers.sandboxes`.
    """

    async def probe(self) -> str | None:
        """Why boxes cannot be started here and what to do about it; None: they can. Cheap when repeated."""
        ...

    async def start(self, spec: SandboxSpec) -> Sandbox:
        """A running box without `spec.files` and `spec.setup`, which the caller applies.

        Cancellation leaves nothing behind. Raises `SandboxStartError`, or `SandboxPolicyError` for what it cannot
        enforce.
        """
        ...

    async def ls(self) -> list[BoxInfo]:
        """All boxes of this backend on this machine or account that this library started, in every state."""
        ...

    async def prune(self) -> list[BoxInfo]:
        """Remove the boxes whose owner is gone, and what they held; the ones removed."""
        ...

    async def close(self) -> None:
        """Stop what this instance started and drop its connections."""
        ...


@runtime_checkable
class SnapshotBackend(Protocol):
    """What a backend has besides, whose boxes take snapshots."""

    async def remove_snapshot(self, name: str) -> None:
        """Remove what `snapshot` of one of its boxes returned. No error if it is gone.

        Raises:
            SandboxError: it cannot be removed, because a box that was started from it still runs.
        """
        ...
