"""Boxes whose first process is a shell until something needs the agent.

A shell starts ten times faster than Python and takes a tenth of its memory; many boxes run one command, or wait for
one. The shell starts that first command itself; whatever comes next turns it into the agent, in the same process and
over the same socket. Commands see no difference: signals, exit codes, limits and time-outs are the agent's.

The shell's binary cannot be read by the box, so the kernel keeps the box's commands out of its memory.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any

from verifiers.errors import SandboxError, SandboxLostError
from verifiers.sandboxes.base import MAX_OUTPUT, Command, ExecResult, check_env
from verifiers.sandboxes.commands import AGENT_GRACE_S, check_command, check_limits
from verifiers.sandboxes.local.shell import ERR, MAX_LINE, OUT, STATUS, line_for
from verifiers.sandboxes.local.snapshots import LocalSandbox

UNTOLD = -1
"""Stands for the exit code of a command whose waiting shell is gone."""


class FirstCommand:
    """The command the shell runs: its output as it comes, its end."""

    def __init__(self, pipes: dict[int, int], max_output: int) -> None:
        self.loop = asyncio.get_running_loop()
        self.pipes, self.limit = pipes, max_output
        self.kept: dict[int, bytearray] = {OUT: bytearray(), ERR: bytearray(), STATUS: bytearray()}
        self.truncated = False
        self.pid: asyncio.Future[int] = self.loop.create_future()
        self.end: asyncio.Future[int | None] = self.loop.create_future()
        """The exit code; None: it could not be started."""
        for number, fd in pipes.items():
            os.set_blocking(fd, False)
            self.loop.add_reader(fd, self.take, number)

    def take(self, number: int) -> bool:
        """Read what is there; whether there was anything."""
        try:
            data = os.read(self.pipes[number], 1 << 16)
        except BlockingIOError:
            return False
        if not data:
            self.loop.remove_reader(self.pipes[number])
            if number == STATUS and not self.end.done():
                self.finish(UNTOLD)
            return False
        kept = self.kept[number]
        room = MAX_LINE if number == STATUS else 0 if self.end.done() else self.limit - len(kept)
        self.truncated |= len(data) > room and number != STATUS and not self.end.done()
        kept += data[:room]
        if number == STATUS:
            self.read_status()
        return True

    def read_status(self) -> None:
        *lines, rest = bytes(self.kept[STATUS]).split(b"\n")
        self.kept[STATUS][:] = rest
        for line in lines:
            if line.startswith(b"S "):
                if not self.pid.done():  # the box may be gone already
                    self.pid.set_result(int(line[2:]))
            elif not self.end.done():
                self.finish(None if line == b"N" else int(line))

    def finish(self, code: int | None) -> None:
        """It has exited: what it wrote is in the pipes."""
        for number in (OUT, ERR):
            for _ in range(32):
                if not self.take(number):
                    break
        self.end.set_result(code)

    def received(self, kind: bytes, payload: bytes) -> None:
        """It is no channel of the agent's."""

    def broken(self, error: Exception) -> None:
        """The box is gone."""
        for future in (self.pid, self.end):
            if not future.done():
                future.set_exception(error)
                future.exception()

    def close(self) -> None:
        for fd in self.pipes.values():
            self.loop.remove_reader(fd)
            os.close(fd)
        self.pipes = {}


class LazySandbox(LocalSandbox):
    """A local box that is a shell until its second request, or a first one that a shell cannot serve."""

    def __init__(self, *, pipes: dict[int, int], meet: Callable[[bool], Awaitable[None]], **options: Any) -> None:
        """
        Args:
            pipes: this side's ends of the box's descriptors OUT, ERR and STATUS.
            meet: greets the agent, once the shell was told to become it; with whether a command ran before.
        """
        super().__init__(**options)
        self._pipes, self._meet = pipes, meet
        self._first: FirstCommand | None = None
        self._becoming: asyncio.Future[None] | None = None

    async def connected(self) -> None:
        if self._becoming is None:
            self._becoming = asyncio.ensure_future(self._become_agent())
            self._becoming.add_done_callback(lambda becoming: becoming.cancelled() or becoming.exception())
        if self._becoming.done():
            self._becoming.result()
        else:
            await asyncio.shield(self._becoming)

    async def _become_agent(self) -> None:
        if self.wire.error is None:
            self.wire.write(b"P\n")
            await self._meet(self._first is not None)

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
        check_command(command)
        check_limits(timeout_s, max_output)
        check_env(env or {})
        if self._first is None and self._becoming is None and stdin is None and user is None:
            folder = os.path.join(self.spec.workdir, cwd or "")
            line = line_for(command, folder, {**self.spec.env, **(env or {})})
            result = None if line is None else await self._run_first(line, timeout_s, max_output)
            if result is not None:
                return result
        return await super().exec(
            command, stdin=stdin, env=env, cwd=cwd, user=user, timeout_s=timeout_s, max_output=max_output
        )

    async def _run_first(self, line: bytes, timeout_s: float | None, max_output: int) -> ExecResult | None:
        """The result; None if it could not be started, which the agent explains better."""
        first = self._first = FirstCommand(self._pipes, max_output)
        self.wire.open(first)
        began, timed_out = time.monotonic(), False
        self.wire.write(line)
        try:
            await asyncio.wait_for(asyncio.shield(first.end), timeout_s)
        except TimeoutError:
            timed_out = True
            await self._kill(first)
            await asyncio.wait([first.end], timeout=AGENT_GRACE_S)
            if not first.end.done():
                raise SandboxLostError(f"sandbox {self.id}: its first command could not be ended") from None
        except asyncio.CancelledError:
            self._killing = asyncio.ensure_future(self._kill(first))
            raise
        code = await first.end
        if code is None:
            return None
        if code == UNTOLD:  # the command killed the shell that waits for it, or the box is gone
            await self.connected()
            if self.wire.error is not None:
                raise self.wire.error
            code = 137
        return ExecResult(
            exit_code=code,
            stdout=first.kept[OUT].decode("utf-8", "replace"),
            stderr=first.kept[ERR].decode("utf-8", "replace"),
            truncated=first.truncated,
            timed_out=timed_out,
            duration_s=time.monotonic() - began,
        )

    async def _kill(self, first: FirstCommand) -> None:
        with suppress(SandboxError):  # a box that is gone has no command to kill
            pid = await first.pid
            await self.connected()
            self.wire.send(0, b"k", b"%d" % pid)

    async def _shut_down(self, why: SandboxError) -> None:
        await super()._shut_down(why)
        if self._first is not None:
            self._first.close()
        else:
            for fd in self._pipes.values():
                os.close(fd)
