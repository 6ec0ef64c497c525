"""SandboxEnv: every rollout has a box of its own, and the model a `bash` tool in it.

Boxes come from `verifiers.sandboxes`: on this machine unless another backend is named, without a network unless asked.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypedDict, cast

from verifiers.decorators import cleanup, stop, teardown
from verifiers.envs.sandbox_client import SandboxClient, SandboxRequest
from verifiers.envs.stateful_tool_env import StatefulToolEnv
from verifiers.errors import ConfigError, Fault, FaultKind, SandboxExecError, SandboxLimitError, boundary
from verifiers.messages import Messages
from verifiers.rubrics.monitor import SandboxMonitorRubric
from verifiers.sandboxes import Backend, Sandbox
from verifiers.session import Harness
from verifiers.state import State
from verifiers.task import Task
from verifiers.tools.shell import shown

AdvancedConfigs = dict[str, Any]
"""Settings of a vendor's cloud in packages written for it; not used."""


CreateSandboxRequest = SandboxRequest


class SandboxState(TypedDict):
    """`state["sandbox_state"]`: what happened in the box so far."""

    ready: bool
    ready_wait_time: float
    """Seconds until the box was there."""
    command_execution_times: list[float]
    """Seconds each command took."""


class SandboxEnv(StatefulToolEnv):
    """A shell in a box. Override `post_rollout` to look at the box before it is removed; scoring comes after."""

    def __init__(
        self,
        sandbox_name: str = "sandbox-env",
        docker_image: str | None = None,
        start_command: str = "tail -f /dev/null",
        cpu_cores: float | None = None,
        memory_gb: float = 2,
        disk_size_gb: float = 5,
        gpu_count: int = 0,
        timeout_minutes: float = 60,
        timeout_per_command_seconds: float = 30,
        environment_vars: Mapping[str, str] | None = None,
        team_id: str | None = None,
        advanced_configs: AdvancedConfigs | None = None,
        labels: list[str] | None = None,
        *,
        backend: str | Backend | None = None,
        network: str = "none",
        allow: Sequence[str] = (),
        pids: int = 512,
        max_output: int = 64 * 1024,
        stop_errors: list[type[Exception]] | None = None,
        sandbox_client_max_workers: int | None = None,
        **options: Any,
    ) -> None:
        """
        Args:
            docker_image: image by its name with the backend; None: the backend's default.
            start_command: run in the background of each fresh box; the usual one, which only waits, is left out.
            cpu_cores: bound on processor use; None: none. Refused where the backend cannot enforce it.
            timeout_minutes: life of a box, from when a rollout gets it.
            timeout_per_command_seconds: of each `bash` call; the model reads that it ran out.
            backend: a sandbox backend or its name; None: the run's, which is `local` unless it says otherwise.
            network: none, full, or allowlist: what `allow` lists, see `SandboxSpec.allow`.
            max_output: bytes of stdout and of stderr the model is shown.
            team_id, advanced_configs, labels, sandbox_client_max_workers: of vendors' clouds; taken and not used.
        """
        if gpu_count:
            raise ConfigError(f"gpu_count={gpu_count}: sandboxes have no GPUs here")
        super().__init__(stop_errors=stop_errors, **options)
        self.sandbox_name, self.start_command = sandbox_name, start_command
        self.timeout_per_command_seconds, self.max_output = timeout_per_command_seconds, max_output
        self.sandbox_client = SandboxClient(backend)
        self.sandbox_request = SandboxRequest(
            name=sandbox_name,
            docker_image=docker_image,
            start_command=start_command,
            cpu_cores=cpu_cores,
            memory_gb=memory_gb,
            disk_size_gb=disk_size_gb,
            timeout_minutes=timeout_minutes,
            environment_vars=dict(environment_vars or {}),
            network=network,
            allow=tuple(allow),
            pids=pids,
        )
        self.active_sandboxes: set[str] = set()
        self.add_rubric(SandboxMonitorRubric(parser=self.rubric.parser))
        self.add_tool(self.bash, args_to_skip=["sandbox_id", "sandbox_state", "working_dir"])

    def makes_sandbox(self, task: Task) -> bool:
        return True

    def backend_for(self, task: Task) -> str | Backend | None:
        return self.sandbox_client.backend

    def refuse(self, harness: Harness) -> str | None:
        if getattr(harness, "shapes_sandbox", False):
            return f"it makes its boxes itself, and {harness.name!r} is not installed in them"
        return super().refuse(harness)

    # -- hooks, overridable

    def get_sandbox_request(self, state: State) -> SandboxRequest:
        """The box for this rollout; override for boxes that differ by task."""
        return self.sandbox_request.model_copy()

    async def post_sandbox_setup(self, state: State) -> None:
        """Prepare the fresh box: files, packages, services."""

    # -- the box

    def with_retry(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """`function` as it is: a rollout whose box breaks is started again as a whole."""
        return function

    async def setup_state(self, state: State, **keywords: Any) -> State:
        state = await super().setup_state(state, **keywords)
        began = time.perf_counter()
        made = await self.sandbox_client.create(self.get_sandbox_request(state))
        state["sandbox_id"] = made.id
        self.active_sandboxes.add(made.id)
        waited = time.perf_counter() - began
        state["sandbox_state"] = SandboxState(ready=True, ready_wait_time=waited, command_execution_times=[])
        if state.session is not None:
            state.session.sandbox = self.sandbox_client.box(made.id)
        await self.post_sandbox_setup(state)
        return state

    def box(self, state: State) -> Sandbox:
        """The box of this rollout, for `read`, `write`, `upload`, `exec`."""
        return self.sandbox_client.box(state["sandbox_id"])

    async def bash(
        self, command: str, sandbox_id: str, sandbox_state: SandboxState, working_dir: str | None = None
    ) -> str:
        """Run a command in the sandbox's shell and return its output.

        Args:
            command: the shell command to run
        """
        box = self.sandbox_client.box(sandbox_id)
        try:
            result = await box.exec(
                ["/bin/sh", "-c", command],
                cwd=working_dir,
                timeout_s=self.timeout_per_command_seconds,
                max_output=self.max_output,
            )
        except SandboxLimitError as error:
            cast(dict[str, Any], sandbox_state)["limit"] = str(error)
            return f"Error: {error}"
        except SandboxExecError as error:  # the model can have removed the folder, or the shell
            return f"Error: {error}"
        sandbox_state["command_execution_times"].append(result.duration_s)
        return shown(result, self.timeout_per_command_seconds)

    def update_tool_args(
        self, tool_name: str, tool_args: dict[str, Any], messages: Messages, state: State, **keywords: Any
    ) -> dict[str, Any]:
        """`bash` gets the box of this rollout; tools of subclasses are theirs to fill in."""
        if tool_name != "bash":
            return tool_args
        hidden = {"sandbox_id": state["sandbox_id"], "sandbox_state": state["sandbox_state"]}
        return {**tool_args, **hidden, "working_dir": state.get("working_dir")}

    @stop
    async def sandbox_limit_reached(self, state: State) -> bool:
        """The model broke its own box: the state reached is scored."""
        return "limit" in (state.get("sandbox_state") or {})

    @cleanup(priority=-100)
    async def destroy_sandbox(self, state: State | str) -> None:
        """Remove a rollout's box, named by its state or its id; one that is gone already is fine."""
        sandbox_id = state if isinstance(state, str) else state.get("sandbox_id")
        if sandbox_id is not None:
            self.active_sandboxes.discard(sandbox_id)
            await self.sandbox_client.delete(sandbox_id)

    async def bulk_delete_sandboxes(self, global_ids: list[str]) -> None:
        """Remove these boxes; what goes wrong is logged, and they then count as active still."""
        faults: list[Fault] = []
        with boundary("release", FaultKind.SANDBOX, faults.append):
            await self.sandbox_client.bulk_delete(global_ids)
            self.active_sandboxes.difference_update(global_ids)
            self.logger.debug(f"Bulk deleted sandboxes: {global_ids}")
        for fault in faults:
            self.logger.error(f"Failed to bulk delete sandboxes {global_ids}: {fault.error}")

    async def _wait_for_sandbox_ready(self, sandbox_state: SandboxState, sandbox_id: str) -> None:
        """Boxes are ready when they have an id; packages that replace `setup_state` wait all the same."""
        await self.sandbox_client.wait_for_creation(sandbox_id)
        sandbox_state["ready"] = True

    @teardown
    async def teardown_sandboxes(self) -> None:
        for sandbox_id in list(self.active_sandboxes):
            await self.destroy_sandbox(sandbox_id)
