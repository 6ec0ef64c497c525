"""Commands through a box's agent: the host's side of `exec` and `spawn`."""

from __future__ import annotations

import asyncio
import errno
import math
from collections.abc import Mapping
from typing import cast

from verifiers.errors import ConfigError, SandboxError, SandboxExecError, SandboxLimitError
from verifiers.sandboxes.base import Command, ExecResult, check_env
from verifiers.sandboxes.wire import WINDOW, Grants, Wire

LAST_SIGNAL = 64
AGENT_GRACE_S = 15.0
"""How long after a command's own time-out the agent may stay silent before the box counts as lost."""


def check_limits(timeout_s: float | None, max_output: int) -> None:
    """`timeout_s` may be past already, as one that somebody counts down."""
    if timeout_s is not None and not (isinstance(timeout_s, (int, float)) and timeout_s == timeout_s):  # pyright: ignore
        raise ConfigError(f"timeout_s={timeout_s!r} must be a number; None means no limit")
    if not isinstance(max_output, int) or max_output < 0:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigError(f"max_output={max_output!r} must be a whole number of at least 0")


def check_command(command: Command) -> None:
    """
    Raises:
        ConfigError: it is neither a shell line nor a list of arguments.
    """
    argv = [command] if isinstance(command, str) else command
    try:
        if isinstance(argv, bytes) or not all(isinstance(word, str) for word in argv):  # pyright: ignore
            raise TypeError
        for word in argv:
            word.encode("utf-8", "surrogateescape")
    except (TypeError, UnicodeEncodeError):
        raise ConfigError(f"command {command!r:.300} must be a shell line or a list of arguments, all text") from None


def request(
    command: Command,
    *,
    has_stdin: bool = False,
    timeout_s: float | None = None,
    max_output: int = 0,
    cwd: str | None = None,
    user: str | None = None,
    env: Mapping[str, str] | None = None,
) -> bytes:
    """The payload of an `x` or `s` frame.

    Raises:
        ConfigError: a command, a limit or an environment entry that is none.
        SandboxExecError: an argument holds a NUL byte, or there is none.
    """
    check_command(command)
    check_limits(timeout_s, max_output)
    check_env(env or {})
    argv = ["/bin/sh", "-c", command] if isinstance(command, str) else list(command)
    millis = 0 if timeout_s is None or timeout_s == math.inf else max(1, round(timeout_s * 1000))
    fields = [
        "1" if has_stdin else "0",
        str(millis),
        str(max_output),
        cwd or "",
        user or "",
        str(len(argv)),
        *argv,
        *(f"{name}={value}" for name, value in (env or {}).items()),
    ]
    text = "\0".join(fields)
    if not argv or not argv[0]:
        raise SandboxExecError("an empty command cannot be run")
    if text.count("\0") != len(fields) - 1:
        raise SandboxExecError(f"command {command!r}, its cwd, user or environment holds a NUL byte")
    return text.encode("utf-8", "surrogateescape")


class _Answer:
    """One command whose result comes as one frame."""

    def __init__(self, wire: Wire) -> None:
        self.grants = Grants(wire)
        self.future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    def received(self, kind: bytes, payload: bytes) -> None:
        if kind == b"W":
            self.grants.grant(int(payload))
        elif not self.future.done():
            self.future.set_result(payload)

    def broken(self, error: Exception) -> None:
        self.grants.wake()
        if not self.future.done():
            self.future.set_exception(error)


async def run(
    wire: Wire, payload: bytes, *, stdin: bytes | None, timeout_s: float | None, lost: SandboxError
) -> ExecResult:
    """The result of a command; cancelling it kills the command. `lost` is raised if the agent stays silent."""
    answer = _Answer(wire)
    channel = wire.open(answer)
    guard = None
    if timeout_s is not None:
        guard = asyncio.get_running_loop().call_later(timeout_s + AGENT_GRACE_S, answer.broken, lost)
    feeding = None
    try:
        wire.send(channel, b"x", payload)
        if stdin is not None:
            if len(stdin) < WINDOW:
                if stdin:
                    wire.send(channel, b"D", stdin)
                wire.send(channel, b"E")
            else:
                feeding = asyncio.ensure_future(_feed(wire, channel, answer.grants, stdin))
        return _result(await answer.future)
    except asyncio.CancelledError:
        wire.send(channel, b"K", b"9")
        raise
    except OSError as error:
        raise _not_started(error) from error
    finally:
        wire.streams.pop(channel, None)
        if guard is not None:
            guard.cancel()
        if feeding is not None:
            feeding.cancel()


def _not_started(error: OSError) -> SandboxError:
    if error.errno in (errno.EAGAIN, errno.ENOMEM):
        return SandboxLimitError(f"the box is at its limit of processes or memory: {error.strerror}")
    return SandboxExecError(str(error.strerror))


async def _feed(wire: Wire, channel: int, grants: Grants, stdin: bytes) -> None:
    await grants.send(channel, stdin)
    wire.send(channel, b"E")


def _result(payload: bytes) -> ExecResult:
    head, _, output = payload.partition(b"\n")
    code, flags, micros, size = (int(field) for field in head.split())
    return ExecResult(
        exit_code=code,
        stdout=output[:size].decode("utf-8", "replace"),
        stderr=output[size:].decode("utf-8", "replace"),
        truncated=bool(flags & 2),
        timed_out=bool(flags & 1),
        duration_s=micros / 1e6,
    )


class _Flow:
    """Grants the agent more of one stream as its reader makes room; what StreamReader takes for its transport."""

    def __init__(self, wire: Wire, channel: int, stream: bytes) -> None:
        self.wire, self.channel, self.stream = wire, channel, stream
        self.owed, self.paused = 0, False

    def took(self, count: int) -> None:
        self.owed += count
        if not self.paused:
            self.resume_reading()

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False
        if self.owed:
            self.wire.send(self.channel, b"W", b"%b%d" % (self.stream, self.owed))
            self.owed = 0


class AgentProcess:
    """A spawned command, as `verifiers.sandboxes.base.Process` describes."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.pid = 0
        loop = asyncio.get_running_loop()
        self.started: asyncio.Future[None] = loop.create_future()
        self._exit: asyncio.Future[int] = loop.create_future()
        self._grants = Grants(wire)
        self.channel = wire.open(self)
        self.stdout, self._out = self._stream(b"D")
        self.stderr, self._err = self._stream(b"d")
        self._open = 2

    def _stream(self, kind: bytes) -> tuple[asyncio.StreamReader, _Flow]:
        flow = _Flow(self.wire, self.channel, kind)
        reader = asyncio.StreamReader()
        reader.set_transport(cast(asyncio.Transport, flow))
        return reader, flow

    @property
    def exit_code(self) -> int | None:
        return self._exit.result() if self._exit.done() and not self._exit.exception() else None

    def received(self, kind: bytes, payload: bytes) -> None:
        if kind == b"D":
            self.stdout.feed_data(payload)
            self._out.took(len(payload))
        elif kind == b"d":
            self.stderr.feed_data(payload)
            self._err.took(len(payload))
        elif kind == b"W":
            self._grants.grant(int(payload))
        elif kind == b"P":
            self.pid = int(payload)
            if not self.started.done():
                self.started.set_result(None)
        elif kind == b"e":
            (self.stdout if payload == b"D" else self.stderr).feed_eof()
            self._open -= 1
            self._forget_if_over()
        elif kind == b"X" and not self._exit.done():
            self._exit.set_result(int(payload))
            self._grants.wake()
            self._forget_if_over()

    def _forget_if_over(self) -> None:
        if self._open == 0 and self._exit.done():
            self.wire.streams.pop(self.channel, None)

    def broken(self, error: Exception) -> None:
        for future in (self.started, self._exit):
            if not future.done():
                future.set_exception(error)
                future.exception()  # asked for by whoever waits, if anyone does
        self._grants.wake()
        for reader in (self.stdout, self.stderr):
            if not reader.at_eof():
                reader.set_exception(error)

    async def write(self, data: bytes) -> None:
        if self.wire.error is not None:
            raise self.wire.error
        if not self._exit.done():
            await self._grants.send(self.channel, data)

    async def close_stdin(self) -> None:
        self.wire.send(self.channel, b"E")

    async def kill(self, signal: int = 9) -> None:
        if not isinstance(signal, int) or not 0 <= signal <= LAST_SIGNAL:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigError(f"signal {signal!r} must be a number from 0 to {LAST_SIGNAL}")
        self.wire.send(self.channel, b"K", b"%d" % signal)

    async def wait(self) -> int:
        return await asyncio.shield(self._exit)


async def spawn(wire: Wire, payload: bytes) -> AgentProcess:
    """A started command; `SandboxExecError` if it could not be."""
    process = AgentProcess(wire)
    wire.send(process.channel, b"s", payload)
    try:
        await process.started
    except OSError as error:
        raise _not_started(error) from error
    except asyncio.CancelledError:
        wire.send(process.channel, b"K", b"9")
        raise
    return process
