"""Running an agent program in the rollout's box, with the model and the environment's tools behind one socket.

The program reaches the model at 127.0.0.1 inside the box, carried over a unix socket: the box needs no network. What
the program calls is the rollout; how it ends decides nothing but whether it ran at all.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple, cast

from verifiers.errors import HarnessError, SandboxExecError, SandboxLimitError, SandboxStartError
from verifiers.harnesses.installs import PATHS, RUNTIME, installed
from verifiers.harnesses.program import Program, filled
from verifiers.harnesses.steps import prompt_of, sandbox_of, stop_condition
from verifiers.proxy.door import Door
from verifiers.proxy.gateway import MCP_STDIO, RELAY, gateway
from verifiers.proxy.options import DoorOptions
from verifiers.results.secrets import scrubbed
from verifiers.sandboxes.base import Process, Sandbox, SandboxSpec
from verifiers.sandboxes.carried import SCRIPT
from verifiers.sandboxes.egress.door import DIRECT
from verifiers.session import Harness, Session, StopRollout, World

PLACE = "/tmp/.verifiers"
"""Folder in the box for the socket and the scripts that go with it."""
RELAY_TIMEOUT_S = 30.0
GRACE_S = 5.0
MAX_TIME_S = 3600.0
MAX_TURNS = 200
MAX_OUTPUT = 64 << 20
KEPT_OUTPUT = 8 << 10


class Ended(NamedTuple):
    """How a program came to its end."""

    exit_code: int | None
    """None: it was ended from here."""
    why: str
    """'' by itself; else the stop condition."""
    output: str
    """The last of what it wrote."""


class ProgramHarness(Harness):
    """One agent program, as its description says."""

    needs_sandbox = True

    def __init__(
        self,
        program: Program,
        *,
        model_name: str | None = None,
        needs_model: bool = True,
        max_turns: int = MAX_TURNS,
        max_time_s: float = MAX_TIME_S,
        grace_s: float = GRACE_S,
        env: Mapping[str, str] | None = None,
    ) -> None:
        """
        Args:
            model_name: what the program is told its model is called; None: the model's own name.
            needs_model: False: ending without one model call is no fault.
            max_turns: model calls, where the run sets no limit.
            max_time_s: time, where the run sets no limit.
            grace_s: from the signal that asks it to end to the one that ends it.
            env: further environment variables of the program.
        """
        self.program, self.name, self.version = program, program.name, program.version
        self.shapes_sandbox = program.install is not None
        self.model_name, self.needs_model = model_name, needs_model
        self.max_turns, self.max_time_s, self.grace_s = max_turns, max_time_s, grace_s
        self.env = dict(env or {})

    def describe(self) -> dict[str, Any]:
        options = {"model_name": self.model_name, "needs_model": self.needs_model, "env": scrubbed(self.env)}
        limits = {"max_turns": self.max_turns, "max_time_s": self.max_time_s}
        return {**super().describe(), **options, **limits}

    def refuse(self, world: World) -> str | None:
        if getattr(world, "tool_defs", None) and self.program.tools is None:
            return f"it has tools, which {self.name} cannot be given"
        return None

    async def prepare(self) -> None:
        if self.program.install is not None:
            await asyncio.to_thread(installed, self.program)

    def fit(self, spec: SandboxSpec) -> SandboxSpec:
        if self.program.install is None:
            return spec
        return replace(spec, mounts={**spec.mounts, self._folder: installed(self.program)})

    @property
    def _folder(self) -> str:
        return f"/programs/{self.name}"

    async def run(self, session: Session) -> None:
        box, live = sandbox_of(session, self.name), cast(Any, session)
        if session.limits.max_turns is None:
            live.tighten(max_turns=self.max_turns)
        live.has_own_conversation = True
        options = DoorOptions(
            model=self._model_name(session),
            toolless_is_side=self.program.toolless_is_side,
            should_stop=lambda: stop_condition(session),
        )
        async with gateway().serve(session, options) as door:
            try:
                python = await _python(box)
                async with _relay(box, door, python) as port:
                    ended = await self._run(session, box, door, port, python)
            except SandboxLimitError as error:
                if not door.calls:
                    raise
                raise StopRollout("sandbox_limit_reached") from error  # it broke its own box: scored as it stands
            self._judge(session, door, ended)

    def _model_name(self, session: Session) -> str:
        return self.model_name or str(cast(Any, session).model.name)

    async def _run(self, session: Session, box: Sandbox, door: Door, port: int, python: str) -> Ended:
        values = {**await self._values(session, box, door, port), "python": python}
        for path, text in self._files(session).items():
            await box.write(filled(path, values), filled(text, values), mode=0o600)
        try:
            process = await box.spawn(
                [filled(word, values) for word in self._command(session)],
                env={name: filled(text, values) for name, text in self._environment(values, box.spec).items()},
            )
        except SandboxExecError as error:
            raise HarnessError(f"{self.name} could not be started in the box: {error}") from error
        live = cast(Any, session)
        began, ended = time.perf_counter(), Ended(None, "cancelled", "")
        try:
            await process.write(filled(self.program.stdin, values).encode())
            await process.close_stdin()
            ended = await _until_ended(process, door, time_s=self._time_s(session), grace_s=self.grace_s)
            return ended
        finally:
            await process.kill()
            spent_s = round(time.perf_counter() - began, 3)
            live.recorder.event(
                "program", program=self.name, exit_code=ended.exit_code, why=ended.why, output=ended.output, s=spent_s
            )

    def _time_s(self, session: Session) -> float | None:
        return self.max_time_s if session.limits.timeout_s is None else None

    def _judge(self, session: Session, door: Door, ended: Ended) -> None:
        """
        Raises:
            HarnessError: it did not run.
            StopRollout: a limit ended it; the state reached is scored.
        """
        if door.fault is not None:
            raise door.fault
        reason = self.program.faulty_exits.get(ended.exit_code or 0)
        if reason is not None and not door.calls:
            raise HarnessError(f"{self.name} {reason}: exit code {ended.exit_code}, output: {ended.output[-500:]!r}")
        if self.needs_model and not door.calls and door.condition is None:
            how = f"exit code {ended.exit_code}" if ended.exit_code is not None else ended.why
            raise HarnessError(f"{self.name} ended without one model call ({how}); output: {ended.output[-500:]!r}")
        if door.condition or ended.why:
            raise StopRollout(door.condition or ended.why)

    async def _values(self, session: Session, box: Sandbox, door: Door, port: int) -> dict[str, str]:
        messages = prompt_of(session)
        system = "\n\n".join(message.text for message in messages if message.role == "system")
        task = "\n\n".join(message.text for message in messages if message.role != "system")
        if system and not self.program.system_prompt:
            task = f"{system}\n\n{task}"
        home = (await box.exec('printf %s "$HOME"')).stdout or "/tmp"
        return {
            "prompt": task,
            "system_prompt": system,
            "model": self._model_name(session),
            "url": f"http://127.0.0.1:{port}",
            "secret": door.secret,
            "home": home,
            "workdir": box.spec.workdir,
            "program": self._folder,
            "mcp_script": f"{PLACE}/mcp.py",
            "mcp_socket": f"{PLACE}/model.sock",
        }

    def _command(self, session: Session) -> list[str]:
        program = self.program
        *before, last = program.command
        if program.system_prompt and any(message.role == "system" for message in prompt_of(session)):
            before += program.system_prompt
        if program.tools is not None and session.tools:
            before += program.tools.arguments
        return [*before, last]

    def _files(self, session: Session) -> dict[str, str]:
        files = dict(self.program.files)
        if self.program.tools is not None and session.tools:
            for old, new in self.program.tools.replace.items():
                files = {path: text.replace(old, new) for path, text in files.items()}
            for path, text in self.program.tools.files.items():
                files[path] = files.get(path, "") + text
            files[f"{PLACE}/mcp.py"] = MCP_STDIO.read_text()
        return files

    def _environment(self, values: Mapping[str, str], spec: SandboxSpec) -> dict[str, str]:
        found = ":".join(f"{self._folder}/{path}" for path in PATHS)
        path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        own = {"PATH": f"{found}:{path}:{self._folder}/{RUNTIME}"} if self.program.install is not None else {}
        place = {"HOME": values["home"], "PWD": values["workdir"]}  # some believe PWD more than the kernel
        loopback = DIRECT if spec.network == "allowlist" else {}  # the model is there, whatever the list says of it
        return {**place, "NO_COLOR": "1", "TERM": "dumb", **loopback, **own, **self.program.env, **self.env}


async def _python(box: Sandbox) -> str:
    """The box's `python3`; where it has none, a script that runs the Python which its agent runs on.

    Raises:
        SandboxStartError: it has neither.
    """
    if (await box.exec("command -v python3")).ok:
        return "python3"
    script = f"{PLACE}/python3"
    await box.write(script, SCRIPT, mode=0o755)
    if not (await box.exec([script, "-c", ""])).ok:
        raise SandboxStartError("the box has no python3, which carries a program's model calls")
    return script


@contextlib.asynccontextmanager
async def _relay(box: Sandbox, door: Door, python: str) -> AsyncIterator[int]:
    """The port at which the box's programs reach the door.

    Raises:
        SandboxStartError: the box cannot run the relay.
    """
    socket = f"{PLACE}/model.sock"
    await box.write(f"{PLACE}/relay.py", RELAY.read_text())
    await box.bind_socket(door.socket, socket)
    process = await box.spawn([python, "-I", "-S", f"{PLACE}/relay.py", socket, "0"])
    try:
        said = await asyncio.wait_for(process.stdout.readline(), RELAY_TIMEOUT_S)
        word, _, port = said.decode("ascii", "replace").partition(" ")
        if word != "ready":
            raise SandboxStartError(f"the relay in the box did not start: {said!r}")
        yield int(port)
    finally:
        await process.kill()


async def _until_ended(process: Process, door: Door, *, time_s: float | None, grace_s: float) -> Ended:
    """Wait for the end, or bring it about: when the door stops, the time is over, or it writes without end."""
    tail = _Tail(process)
    stopped = asyncio.ensure_future(door.stopped.wait())
    over = asyncio.ensure_future(process.wait())
    why = ""
    try:
        await asyncio.wait({stopped, over, tail.full}, timeout=time_s, return_when=asyncio.FIRST_COMPLETED)
        if not over.done():
            why = "program_output" if tail.full.done() and not stopped.done() else "timeout_reached"
            if stopped.done():
                why = door.condition or "has_error"
            await _end(process, over, grace_s)
        code = None if why else over.result()
        return Ended(code, why, await tail.text())
    finally:
        stopped.cancel()
        over.cancel()
        tail.cancel()


async def _end(process: Process, over: asyncio.Future[int], grace_s: float) -> None:
    """Ask it to end, then end it and all it started."""
    await process.kill(15)
    await asyncio.wait({over}, timeout=grace_s)
    if not over.done():
        await process.kill()
        await asyncio.wait({over}, timeout=grace_s)


class _Tail:
    """The last of what a process writes; reads on so that it never waits for a reader, up to a bound."""

    def __init__(self, process: Process) -> None:
        self.full: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._kept = bytearray()
        self._size = 0
        self._reading = [asyncio.ensure_future(self._read(stream)) for stream in (process.stdout, process.stderr)]

    async def _read(self, stream: asyncio.StreamReader) -> None:
        while data := await stream.read(1 << 16):
            self._kept += data
            del self._kept[:-KEPT_OUTPUT]
            self._size += len(data)
            if self._size > MAX_OUTPUT:
                if not self.full.done():
                    self.full.set_result(None)
                return

    async def text(self) -> str:
        """What is left of it, once the process is over; what its children still write is not waited for."""
        await asyncio.wait(self._reading, timeout=1.0)
        return self._kept.decode("utf-8", "replace")

    def cancel(self) -> None:
        self.full.cancel()
        for task in self._reading:
            task.cancel()
