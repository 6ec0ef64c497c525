"""Boxes by id, with the calls that packages written for a vendor's sandbox service make."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import NamedTuple

from pydantic import Field

from verifiers.config import Config
from verifiers.errors import SandboxError, SandboxLostError
from verifiers.rollout.provision import boxes_here
from verifiers.sandboxes import Backend, ExecResult, Sandbox, SandboxSpec
from verifiers.sandboxes.registry import stop_box

WAITING = "tail -f /dev/null"
"""The start command of boxes that need one to stay; ours do not."""


class SandboxRequest(Config):
    """What a box is asked for with."""

    name: str = ""
    docker_image: str | None = None
    start_command: str = WAITING
    cpu_cores: float | None = None
    memory_gb: float = 2
    disk_size_gb: float = 5
    timeout_minutes: float | None = 60
    environment_vars: dict[str, str] | None = Field(default_factory=dict[str, str])
    network: str = "none"
    allow: tuple[str, ...] = ()
    pids: int = 512

    def spec(self) -> SandboxSpec:
        return SandboxSpec(
            image=self.docker_image,
            cpus=self.cpu_cores,
            memory_mb=max(1, round(self.memory_gb * 1024)),
            disk_mb=max(1, round(self.disk_size_gb * 1024)),
            pids=self.pids,
            env=self.environment_vars or {},
            network=self.network,  # pyright: ignore[reportArgumentType] - checked by the spec
            allow=self.allow,
            timeout_s=None if self.timeout_minutes is None else self.timeout_minutes * 60,
        )


class CommandResponse(NamedTuple):
    stdout: str
    stderr: str
    exit_code: int


class Created(NamedTuple):
    id: str
    name: str = ""
    status: str = "RUNNING"


class BackgroundJob(NamedTuple):
    """A command that was started and not waited for."""

    sandbox_id: str
    job_id: str


class BackgroundJobStatus(Config):
    """What became of one; without output until it is over."""

    completed: bool
    exit_code: int | None = None
    stdout: str = ""
    stderr: str = ""


class CommandTimeoutError(SandboxError):
    """A command did not end within its time; it was killed."""


class SandboxClient:
    """The boxes of one environment, from the pool of the run they are asked for in."""

    def __init__(self, backend: str | Backend | None = None) -> None:
        """
        Args:
            backend: a sandbox backend or its name; None: the run's.
        """
        self.backend = backend
        self.boxes: dict[str, Sandbox] = {}
        self._jobs: dict[BackgroundJob, asyncio.Task[ExecResult]] = {}

    def box(self, sandbox_id: str) -> Sandbox:
        """Raises `SandboxLostError` if it was removed or never made here."""
        if sandbox_id not in self.boxes:
            raise SandboxLostError(f"there is no sandbox {sandbox_id!r} any more")
        return self.boxes[sandbox_id]

    async def create(self, request: SandboxRequest) -> Created:
        """A running box."""
        box = await boxes_here().start(request.spec(), self.backend)
        self.boxes[box.id] = box
        if request.start_command and request.start_command != WAITING:
            try:
                await box.exec(f"{request.start_command} >/dev/null 2>&1 &")
            except BaseException:
                await self.delete(box.id)
                raise
        return Created(box.id, request.name)

    async def get(self, sandbox_id: str) -> Created:
        return Created(self.box(sandbox_id).id)

    async def wait_for_creation(self, sandbox_id: str, **_: object) -> None:
        """At once: boxes are running when they have an id."""
        self.box(sandbox_id)

    async def execute_command(
        self,
        sandbox_id: str,
        command: str,
        working_dir: str | None = None,
        env: dict[str, str] | None = None,
        timeout: float | None = None,
        **_: object,
    ) -> CommandResponse:
        """Run a shell line.

        Raises:
            CommandTimeoutError: `timeout` seconds were not enough.
        """
        result = await self.box(sandbox_id).exec(command, cwd=working_dir, env=env, timeout_s=timeout)
        if result.timed_out:
            raise CommandTimeoutError(f"the command did not end within {timeout} s: {command[:200]}")
        return CommandResponse(result.stdout, result.stderr, result.exit_code)

    async def start_background_job(
        self,
        sandbox_id: str,
        command: str,
        working_dir: str | None = None,
        env: dict[str, str] | None = None,
        **_: object,
    ) -> BackgroundJob:
        """Start a shell line; it ends with its box at the latest."""
        running = asyncio.ensure_future(self.box(sandbox_id).exec(command, cwd=working_dir, env=env))
        running.add_done_callback(lambda one: one.cancelled() or one.exception())  # nobody need ask what became of it
        job = BackgroundJob(sandbox_id, f"job-{id(running):x}")
        self._jobs[job] = running
        return job

    async def get_background_job(self, sandbox_id: str, job: BackgroundJob, **_: object) -> BackgroundJobStatus:
        """Raises as a command does if it could not be run or lost its box."""
        if job not in self._jobs:
            raise SandboxLostError(f"there is no background job {job!r} any more")
        if not self._jobs[job].done():
            return BackgroundJobStatus(completed=False)
        result = self._jobs[job].result()
        return BackgroundJobStatus(
            completed=True, exit_code=result.exit_code, stdout=result.stdout, stderr=result.stderr
        )

    async def run_background_job(
        self, sandbox_id: str, command: str, timeout: float | None = None, working_dir: str | None = None, **_: object
    ) -> CommandResponse:
        """The same as `execute_command`, which here runs as long as it is told."""
        return await self.execute_command(sandbox_id, command, working_dir=working_dir, timeout=timeout)

    async def upload_file(self, sandbox_id: str, file_path: str, local_file_path: str | Path, **_: object) -> None:
        await self.box(sandbox_id).upload(local_file_path, file_path)

    async def upload_bytes(self, sandbox_id: str, file_path: str, file_bytes: bytes, *_: object, **__: object) -> None:
        await self.box(sandbox_id).write(file_path, file_bytes)

    async def download_file(self, sandbox_id: str, file_path: str, local_file_path: str | Path, **_: object) -> None:
        await self.box(sandbox_id).download(file_path, local_file_path)

    async def read_file(self, sandbox_id: str, file_path: str, **_: object) -> str:
        return (await self.box(sandbox_id).read(file_path)).decode("utf-8", "replace")

    async def delete(self, sandbox_id: str) -> None:
        """Remove a box; nothing if it is gone."""
        box = self.boxes.pop(sandbox_id, None)
        self._jobs = {job: running for job, running in self._jobs.items() if job.sandbox_id != sandbox_id}
        if box is not None:
            await stop_box(box)

    async def bulk_delete(self, sandbox_ids: list[str], **_: object) -> None:
        for sandbox_id in sandbox_ids:
            await self.delete(sandbox_id)
