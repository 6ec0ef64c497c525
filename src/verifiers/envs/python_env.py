"""PythonEnv: a Python session per rollout. What one call defines, later calls see."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any, TypedDict

from verifiers.decorators import cleanup
from verifiers.envs.sandbox_env import SandboxEnv, SandboxState
from verifiers.errors import SandboxExecError, SandboxLimitError, SandboxStartError
from verifiers.messages import Messages
from verifiers.rubrics.monitor import PythonMonitorRubric
from verifiers.sandboxes import Process
from verifiers.state import State

SESSION = Path(__file__).with_name("_python_session.py")
MAX_LINE = 1 << 24
"""Bytes of one answer; the session cuts its output well below."""


class PythonState(TypedDict):
    """`state["python_state"]`: how often the session ran and was started anew."""

    ready: bool
    ready_wait_time: float
    """Seconds until the first session was there."""
    execution_count: int
    restarts: int


class _SessionBroken(Exception):
    """The session is of no more use; the code did it."""


class PythonEnv(SandboxEnv):
    """A `python` tool: code runs in one interpreter, in a box; the value of a last expression is shown."""

    def __init__(
        self,
        pip_install_packages: str = "",
        max_startup_wait_seconds: float = 30,
        *,
        with_bash: bool = False,
        **options: Any,
    ) -> None:
        """
        Args:
            pip_install_packages: installed into each fresh box with pip; needs a network that reaches the index, or an
                image that has them, which is faster.
            with_bash: offer the shell tool too.
        """
        super().__init__(**{"sandbox_name": "python-env", **options})
        self.pip_install_packages, self.max_startup_wait_seconds = pip_install_packages, max_startup_wait_seconds
        self._sessions: dict[str, Process] = {}
        self.add_rubric(PythonMonitorRubric(parser=self.rubric.parser))
        self.add_tool(self.python, args_to_skip=["sandbox_id", "sandbox_state", "python_state"])
        if not with_bash:
            self.remove_tool(self.bash)

    async def post_sandbox_setup(self, state: State) -> None:
        await super().post_sandbox_setup(state)
        began = time.perf_counter()
        state["python_state"] = PythonState(ready=False, ready_wait_time=0.0, execution_count=0, restarts=0)
        box = self.box(state)
        if self.pip_install_packages:
            wait_s = max(self.max_startup_wait_seconds, 300)
            line = f"python3 -m pip install --quiet {self.pip_install_packages}"
            result = await box.exec(line, timeout_s=wait_s)
            if not result.ok:
                raise SandboxStartError(
                    f"{line!r} failed in the sandbox: {result.stderr[-500:] or result.stdout[-500:]}"
                )
        await box.write("/tmp/.session.py", SESSION.read_text())
        await self._start_session(state["sandbox_id"])
        state["python_state"].update(ready=True, ready_wait_time=time.perf_counter() - began)

    async def _start_session(self, sandbox_id: str) -> Process:
        box = self.sandbox_client.box(sandbox_id)
        try:
            process = await box.spawn(["python3", "-u", "/tmp/.session.py"])
        except SandboxExecError as error:
            raise SandboxStartError(f"the sandbox has no python3: {error}") from error
        try:
            async with asyncio.timeout(self.max_startup_wait_seconds):
                if not await process.stdout.readline():
                    said = (await process.stderr.read()).decode("utf-8", "replace")
                    raise SandboxStartError(f"the Python session did not start: {said[-500:]}")
        except TimeoutError:
            await process.kill()
            wait_s = self.max_startup_wait_seconds
            raise SandboxStartError(f"the Python session did not start within {wait_s:g} s") from None
        self._sessions[sandbox_id] = process
        return process

    async def python(self, code: str, sandbox_id: str, sandbox_state: SandboxState, python_state: PythonState) -> str:
        """Run Python code in a session that keeps its variables, and return what it prints and its last value.

        Args:
            code: the code to run
        """
        python_state["execution_count"] += 1
        process = self._sessions.get(sandbox_id)
        try:
            if process is None or process.exit_code is not None:
                python_state["restarts"] += 1
                process = await self._start_session(sandbox_id)
            return await self._ask(process, code)
        except TimeoutError:
            return await self._end(sandbox_id, f"the code ran longer than {self.timeout_per_command_seconds:g} seconds")
        except _SessionBroken as error:
            return await self._end(sandbox_id, str(error))
        except SandboxStartError as error:  # it started once: what the code did to the box keeps it from starting again
            return f"Error: {error}"
        except SandboxLimitError as error:
            sandbox_state["limit"] = str(error)  # pyright: ignore[reportGeneralTypeIssues]
            return f"Error: {error}"

    async def _ask(self, process: Process, code: str) -> str:
        async with asyncio.timeout(self.timeout_per_command_seconds):
            await process.write(json.dumps({"code": code, "limit": self.max_output}).encode() + b"\n")
            answer = b""
            while not answer.endswith(b"\n"):
                piece = await process.stdout.read(1 << 16)
                if not piece:
                    raise _SessionBroken("the Python process ended")
                answer += piece
                if len(answer) > MAX_LINE:
                    raise _SessionBroken("the code wrote into the session's own pipe")
        try:
            return str(json.loads(answer)["output"]) or "(no output)"
        except (ValueError, KeyError, TypeError) as error:
            raise _SessionBroken("the code wrote into the session's own pipe") from error

    async def _end(self, sandbox_id: str, why: str) -> str:
        """Kill the session, and what the model is told; the next call starts another."""
        process = self._sessions.pop(sandbox_id, None)
        if process is not None:
            await process.kill()
        return f"Error: {why}; the session is started anew and its variables are gone"

    def update_tool_args(
        self, tool_name: str, tool_args: dict[str, Any], messages: Messages, state: State, **keywords: Any
    ) -> dict[str, Any]:
        if tool_name != "python":
            return super().update_tool_args(tool_name, tool_args, messages, state, **keywords)
        names = ("sandbox_id", "sandbox_state", "python_state")
        return {**tool_args, **{name: state[name] for name in names}}

    @cleanup(priority=-50)
    async def forget_session(self, state: State) -> None:
        self._sessions.pop(state.get("sandbox_id") or "", None)
