"""A Modal control plane and worker on this machine, written from the protocol in `modal_proto`.

The client that talks to it is unmodified. Sandboxes run in bubblewrap, exec'd commands join their namespaces.
Both generations of the API are served.
"""

import asyncio
import base64
import contextlib
import dataclasses
import json
import os
import secrets
import shutil
import signal
import string
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import modal
import pytest
from google.protobuf.empty_pb2 import Empty
from grpclib import GRPCError, Status
from grpclib.server import Server, Stream
from modal_proto import api_pb2
from modal_proto import task_command_router_pb2 as router_pb2
from modal_proto.api_grpc import ModalClientBase
from modal_proto.task_command_router_grpc import TaskCommandRouterBase

Result = api_pb2.GenericResult
ALPHABET = string.ascii_letters + string.digits
ROOT = [
    *("--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--die-with-parent", "--clearenv"),
    *("--ro-bind", "/usr", "/usr", "--ro-bind", "/etc", "/etc", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"),
    *("--symlink", "usr/bin", "/bin", "--symlink", "usr/sbin", "/sbin"),
    *("--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64"),
]
TOKEN = ("token-id", "token-secret")


def jwt() -> str:
    claims = base64.urlsafe_b64encode(json.dumps({"exp": time.time() + 3600}).encode()).decode().rstrip("=")
    return f"e30.{claims}.none"


CHANGED = [
    "--exclude=./usr",
    "--exclude=./etc",
    "--exclude=./proc",
    "--exclude=./dev",
    "--sort=name",
    "--numeric-owner",
]


def packed(pid: int) -> bytes:
    """All files of a box that are its own, as a tar."""
    argv = ["tar", "-C", f"/proc/{pid}/root", "-c", *CHANGED, "."]
    said = subprocess.run(argv, capture_output=True, check=False)
    assert said.returncode in (0, 1), said.stderr  # 1: a file changed meanwhile
    return said.stdout


def unpacked(files: bytes, pid: int) -> None:
    argv = ["tar", "-C", f"/proc/{pid}/root", "-xp", "--numeric-owner"]
    said = subprocess.run(argv, input=files, capture_output=True, check=False)
    assert said.returncode == 0, said.stderr
    Path(f"/proc/{pid}/root/.whole").touch()


def laid_out(pid: int) -> None:
    """Wait until bubblewrap's first process has started the command: before, its root is not complete."""
    while not Path(f"/proc/{pid}/task/{pid}/children").read_text():
        time.sleep(0.005)


WAITING = 'while [ ! -e /.whole ]; do sleep 0.01; done; rm -f /.whole; exec "$@"'
"""Runs its arguments once all files are there: a program that starts meanwhile may be without its libraries."""


class Exec:
    """One process, its output kept whole so that a reader may come back to any offset."""

    def __init__(self) -> None:
        self.process: asyncio.subprocess.Process | None = None
        self.output = {1: bytearray(), 2: bytearray()}
        self.ended = {1: False, 2: False}
        self.changed = asyncio.Condition()
        self.written = 0
        self.begun = asyncio.Event()

    async def start(self, argv: list[str], **options: Any) -> None:
        try:
            self.process = await asyncio.create_subprocess_exec(
                *argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options
            )
            self.readers = [asyncio.create_task(self.keep(1)), asyncio.create_task(self.keep(2))]
        finally:
            self.begun.set()

    async def ended_whole(self) -> None:
        await self.begun.wait()  # it may be asked to end while it begins
        if self.process is not None:
            await asyncio.gather(self.process.wait(), *self.readers)
            self.process.stdin.close()

    async def keep(self, number: int) -> None:
        stream = {1: self.process.stdout, 2: self.process.stderr}[number]
        while data := await stream.read(1 << 18):
            self.output[number] += data
            await self.tell()
        self.ended[number] = True
        await self.tell()

    async def tell(self) -> None:
        async with self.changed:
            self.changed.notify_all()

    async def send(self, stream: Stream, number: int, offset: int) -> None:
        while True:
            while data := bytes(self.output[number][offset : offset + (1 << 18)]):
                await stream.send_message(router_pb2.TaskExecStdioReadResponse(data=data))
                offset += len(data)
            if self.ended[number]:
                return
            async with self.changed:
                if len(self.output[number]) == offset and not self.ended[number]:
                    await self.changed.wait()

    async def write(self, offset: int | None, data: bytes, eof: bool) -> None:
        skip = 0 if offset is None else self.written - offset
        self.process.stdin.write(data[skip:])
        self.written += len(data) - skip
        if eof:
            self.process.stdin.close()


@dataclasses.dataclass
class Box:
    id: str
    definition: api_pb2.Sandbox
    tags: dict[str, str]
    first: Exec
    task: str = ""
    inner_pid: int = 0
    execs: dict[str, Exec] = dataclasses.field(default_factory=dict)
    result: Result = dataclasses.field(default_factory=Result)
    over: asyncio.Event = dataclasses.field(default_factory=asyncio.Event)
    created: float = dataclasses.field(default_factory=time.time)


class Refusing:
    """Whatever a service does not define is UNIMPLEMENTED, as on a server that does not know a call."""

    def __getattr__(self, name: str) -> Any:
        async def unimplemented(stream: Stream) -> None:
            raise GRPCError(Status.UNIMPLEMENTED, f"{name} is not served here")

        return unimplemented


class World:
    """The state both services share."""

    def __init__(self) -> None:
        self.boxes: dict[str, Box] = {}
        self.images: dict[str, list[str]] = {}
        self.snapshots: dict[str, bytes] = {}
        """Image id -> the files of the box it was taken of."""
        self.mounts: dict[str, str] = {}
        """Image id -> the files of Modal's that it is built with, '' for none."""
        self.calls: list[str] = []
        self.router_url = ""
        self.refusing = False

    def box(self, id: str) -> Box:
        if id not in self.boxes:
            raise GRPCError(Status.NOT_FOUND, f"Sandbox {id} not found")
        return self.boxes[id]

    def of_task(self, task: str) -> Box:
        found = next((box for box in self.boxes.values() if box.task == task), None)
        if found is None or found.over.is_set():
            raise GRPCError(Status.NOT_FOUND, f"Task {task} not found")
        return found

    async def create(self, request: Any, *, version: int) -> Box:
        # The client tells tasks of the second generation by a last letter V, so those of the first never end in one.
        length, letters = (22, ALPHABET.replace("V", "")) if version == 1 else (26, ALPHABET)
        name = "".join(secrets.choice(letters) for _ in range(length))
        box = Box(f"sb-{name}", request.definition, {t.tag_name: t.tag_value for t in request.tags}, Exec())
        box.task = f"ta-{name}" + ("V" if version == 2 else "")
        read_end, write_end = os.pipe()
        files = self.snapshots.get(request.definition.image_id)
        waiting = [] if files is None else ["sh", "-c", WAITING, "sh"]
        argv = ["bwrap", *ROOT, "--info-fd", str(write_end), *waiting, *request.definition.entrypoint_args]
        await box.first.start(argv, pass_fds=[write_end], env={"PATH": os.environ["PATH"]})
        os.close(write_end)
        with os.fdopen(read_end) as info:
            box.inner_pid = json.loads(await asyncio.to_thread(info.read))["child-pid"]
        await asyncio.to_thread(laid_out, box.inner_pid)
        if files is not None:
            await asyncio.to_thread(unpacked, files, box.inner_pid)
        self.boxes[box.id] = box
        box.watch = asyncio.create_task(self.watch(box))
        return box

    async def watch(self, box: Box) -> None:
        status = Result.GENERIC_STATUS_SUCCESS
        try:
            await asyncio.wait_for(box.first.process.wait(), box.definition.timeout_secs)
        except TimeoutError:
            status = Result.GENERIC_STATUS_TIMEOUT
        await self.end(box, Result(status=status))

    async def end(self, box: Box, result: Result) -> None:
        if box.over.is_set():
            return
        box.over.set()
        box.result = result
        if box.first.process.returncode is None:
            box.first.process.send_signal(signal.SIGKILL)
        await box.first.process.wait()
        for each in (box.first, *box.execs.values()):
            await each.ended_whole()


class ControlPlane(Refusing):
    def __init__(self, world: World) -> None:
        self.world = world

    def __mapping__(self) -> Any:
        return ModalClientBase.__mapping__(self)

    async def ask(self, stream: Stream) -> Any:
        """The request, from a client that knows the token."""
        request = await stream.recv_message()
        self.world.calls.append(type(request).__name__)
        given = (stream.metadata.get("x-modal-token-id"), stream.metadata.get("x-modal-token-secret"))
        if given != TOKEN:
            raise GRPCError(Status.UNAUTHENTICATED, "Token ID is malformed")
        if self.world.refusing:
            raise GRPCError(Status.PERMISSION_DENIED, "the workspace has no budget left")
        return request

    async def ClientHello(self, stream: Stream) -> None:
        await self.ask(stream)
        await stream.send_message(api_pb2.ClientHelloResponse())

    async def AuthTokenGet(self, stream: Stream) -> None:
        await self.ask(stream)
        await stream.send_message(api_pb2.AuthTokenGetResponse(token=jwt()))

    async def AppGetOrCreate(self, stream: Stream) -> None:
        request = await self.ask(stream)
        await stream.send_message(api_pb2.AppGetOrCreateResponse(app_id=f"ap-{request.app_name}"))

    async def EnvironmentGetOrCreate(self, stream: Stream) -> None:
        await self.ask(stream)
        settings = api_pb2.EnvironmentSettings(image_builder_version="2025.06")
        metadata = api_pb2.EnvironmentMetadata(name="main", settings=settings)
        await stream.send_message(api_pb2.EnvironmentGetOrCreateResponse(environment_id="en-1", metadata=metadata))

    async def ImageGetOrCreate(self, stream: Stream) -> None:
        request = await self.ask(stream)
        commands = list(request.image.dockerfile_commands)
        id = f"im-{len(self.world.images) + 1}"
        self.world.images[id] = commands
        self.world.mounts[id] = request.image.context_mount_id
        broken = any("exit 9" in line for line in commands)
        status = Result.GENERIC_STATUS_FAILURE if broken else Result.GENERIC_STATUS_SUCCESS
        result = Result(status=status, exception="RUN exit 9" if broken else "")
        await stream.send_message(api_pb2.ImageGetOrCreateResponse(image_id=id, result=result))

    async def MountGetOrCreate(self, stream: Stream) -> None:
        """Modal's own files, by name: what a Python for other images is copied from."""
        request = await self.ask(stream)
        assert request.namespace == api_pb2.DEPLOYMENT_NAMESPACE_GLOBAL
        await stream.send_message(api_pb2.MountGetOrCreateResponse(mount_id=f"mo-{request.deployment_name}"))

    async def ImageFromId(self, stream: Stream) -> None:
        request = await self.ask(stream)
        if request.image_id not in self.world.images:
            raise GRPCError(Status.NOT_FOUND, f"Image {request.image_id} not found")
        await stream.send_message(api_pb2.ImageFromIdResponse(image_id=request.image_id))

    async def ImageDelete(self, stream: Stream) -> None:
        request = await self.ask(stream)
        if self.world.images.pop(request.image_id, None) is None:
            raise GRPCError(Status.NOT_FOUND, f"Image {request.image_id} not found")
        await stream.send_message(Empty())

    async def SandboxCreate(self, stream: Stream) -> None:
        box = await self.world.create(await self.ask(stream), version=1)
        await stream.send_message(api_pb2.SandboxCreateResponse(sandbox_id=box.id))

    async def SandboxCreateV2(self, stream: Stream) -> None:
        box = await self.world.create(await self.ask(stream), version=2)
        await stream.send_message(api_pb2.SandboxCreateV2Response(sandbox_id=box.id, task_id=box.task))

    async def SandboxGetTaskId(self, stream: Stream) -> None:
        box = self.world.box((await self.ask(stream)).sandbox_id)
        await stream.send_message(api_pb2.SandboxGetTaskIdResponse(task_id=box.task))

    SandboxGetTaskIdV2 = SandboxGetTaskId

    async def SandboxGetCommandRouterAccess(self, stream: Stream) -> None:
        await self.ask(stream)
        await stream.send_message(api_pb2.SandboxGetCommandRouterAccessResponse(jwt=jwt(), url=self.world.router_url))

    async def TaskGetCommandRouterAccess(self, stream: Stream) -> None:
        await self.ask(stream)
        await stream.send_message(api_pb2.TaskGetCommandRouterAccessResponse(jwt=jwt(), url=self.world.router_url))

    async def SandboxStdinWrite(self, stream: Stream) -> None:
        request = await self.ask(stream)
        await self.world.box(request.sandbox_id).first.write(None, request.input, request.eof)
        await stream.send_message(api_pb2.SandboxStdinWriteResponse())

    async def SandboxWait(self, stream: Stream) -> None:
        request = await self.ask(stream)
        box = self.world.box(request.sandbox_id)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(box.over.wait(), request.timeout)
        await stream.send_message(api_pb2.SandboxWaitResponse(result=box.result))

    SandboxWaitV2 = SandboxWait

    async def SandboxTerminate(self, stream: Stream) -> None:
        box = self.world.box((await self.ask(stream)).sandbox_id)
        await self.world.end(box, Result(status=Result.GENERIC_STATUS_TERMINATED))
        await stream.send_message(api_pb2.SandboxTerminateResponse(existing_result=box.result))

    SandboxTerminateV2 = SandboxTerminate

    async def SandboxGetTunnels(self, stream: Stream) -> None:
        box = self.world.box((await self.ask(stream)).sandbox_id)
        tunnels = [
            api_pb2.TunnelData(
                host=f"{box.id[3:9].lower()}-{each.port}.example.net", port=443, container_port=each.port
            )
            for each in box.definition.open_ports.ports
        ]
        await stream.send_message(api_pb2.SandboxGetTunnelsResponse(tunnels=tunnels))

    SandboxGetTunnelsV2 = SandboxGetTunnels

    async def SandboxTagsGet(self, stream: Stream) -> None:
        box = self.world.box((await self.ask(stream)).sandbox_id)
        tags = [api_pb2.SandboxTag(tag_name=name, tag_value=text) for name, text in box.tags.items()]
        await stream.send_message(api_pb2.SandboxTagsGetResponse(tags=tags))

    SandboxTagsGetV2 = SandboxTagsGet

    async def SandboxList(self, stream: Stream) -> None:
        request = await self.ask(stream)
        before = request.before_timestamp or time.time() + 1
        found = [box for box in self.world.boxes.values() if not box.over.is_set() and box.created < before]
        newest = sorted(found, key=lambda box: -box.created)[:5]
        infos = [api_pb2.SandboxInfo(id=box.id, created_at=box.created) for box in newest]
        await stream.send_message(api_pb2.SandboxListResponse(sandboxes=infos))

    SandboxListV2 = SandboxList


class Router(Refusing):
    """The worker's service: commands in a running sandbox."""

    def __init__(self, world: World) -> None:
        self.world = world

    def __mapping__(self) -> Any:
        return TaskCommandRouterBase.__mapping__(self)

    async def ask(self, stream: Stream) -> tuple[Any, Box]:
        request = await stream.recv_message()
        self.world.calls.append(type(request).__name__)
        if not str(stream.metadata.get("authorization", "")).startswith("Bearer e30."):
            raise GRPCError(Status.UNAUTHENTICATED, "no token")
        return request, self.world.of_task(request.task_id)

    def exec(self, box: Box, id: str) -> Exec:
        if id not in box.execs:
            raise GRPCError(Status.NOT_FOUND, f"Exec {id} not found")
        return box.execs[id]

    async def TaskExecStart(self, stream: Stream) -> None:
        request, box = await self.ask(stream)
        enter = ["nsenter", "-t", str(box.inner_pid), "-m", "-p", "-n", "-i", "-u", "-r", "-w", "--"]
        if request.exec_id not in box.execs:
            box.execs[request.exec_id] = started = Exec()
            await started.start([*enter, *request.command_args], env={"PATH": "/usr/bin:/bin"})
        await stream.send_message(router_pb2.TaskExecStartResponse())

    async def TaskExecStdinWrite(self, stream: Stream) -> None:
        request, box = await self.ask(stream)
        await self.exec(box, request.exec_id).write(request.offset, request.data, request.eof)
        await stream.send_message(router_pb2.TaskExecStdinWriteResponse())

    async def TaskExecStdioRead(self, stream: Stream) -> None:
        request, box = await self.ask(stream)
        number = {
            router_pb2.TASK_EXEC_STDIO_FILE_DESCRIPTOR_STDOUT: 1,
            router_pb2.TASK_EXEC_STDIO_FILE_DESCRIPTOR_STDERR: 2,
        }[request.file_descriptor]
        await self.exec(box, request.exec_id).send(stream, number, request.offset)

    async def TaskExecWait(self, stream: Stream) -> None:
        request, box = await self.ask(stream)
        code = await self.exec(box, request.exec_id).process.wait()
        ended = {"signal": -code} if code < 0 else {"code": code}
        await stream.send_message(router_pb2.TaskExecWaitResponse(**ended))

    async def SandboxStdinWriteV2(self, stream: Stream) -> None:
        request, box = await self.ask(stream)
        await box.first.write(request.offset, request.data, request.eof)
        await stream.send_message(router_pb2.SandboxStdinWriteV2Response())

    async def TaskSnapshotFilesystem(self, stream: Stream) -> None:
        _, box = await self.ask(stream)
        id = f"im-{secrets.token_hex(4)}"
        self.world.snapshots[id] = await asyncio.to_thread(packed, box.inner_pid)
        self.world.images[id] = ["snapshot"]
        await stream.send_message(router_pb2.TaskSnapshotFilesystemResponse(image_id=id))


async def serve(world: World, ready: threading.Event, over: asyncio.Event, ports: list[int]) -> None:
    servers = [Server([ControlPlane(world)]), Server([Router(world)])]
    for server in servers:
        await server.start("127.0.0.1", 0)
        ports.append(server._server.sockets[0].getsockname()[1])
    world.router_url = f"http://127.0.0.1:{ports[1]}"
    ready.set()
    await over.wait()
    for box in list(world.boxes.values()):
        await world.end(box, Result(status=Result.GENERIC_STATUS_TERMINATED))
        box.watch.cancel()
    for server in servers:
        server.close()
        await server.wait_closed()
    if others := asyncio.all_tasks() - {asyncio.current_task()}:
        await asyncio.wait(others, timeout=30)
    await asyncio.sleep(0.2)  # for connections to close


@pytest.fixture(scope="session")
def modal_world() -> Iterator[World]:
    """A served world; Modal's configuration points to it."""
    if shutil.which("bwrap") is None or os.geteuid() != 0:
        pytest.skip("needs bubblewrap (apt-get install bubblewrap) and root, who may join a sandbox's namespaces")
    ready, ports, holder = threading.Event(), [], []

    def run() -> None:
        async def main() -> None:
            over = asyncio.Event()
            holder.extend((asyncio.get_running_loop(), over, World()))
            await serve(holder[2], ready, over, ports)

        asyncio.run(main())

    thread = threading.Thread(target=run)
    thread.start()
    assert ready.wait(120)
    patch = pytest.MonkeyPatch()
    patch.setenv("MODAL_SERVER_URL", f"http://127.0.0.1:{ports[0]}")
    patch.setenv("MODAL_TOKEN_ID", TOKEN[0])
    patch.setenv("MODAL_TOKEN_SECRET", TOKEN[1])
    yield holder[2]
    modal.Client.from_env().close()
    patch.undo()
    holder[0].call_soon_threadsafe(holder[1].set)
    thread.join(120)
    assert not thread.is_alive()
