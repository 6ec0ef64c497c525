"""The keeper's life: make its namespaces, give up root, then serve the runner until it hangs up."""

import contextlib
import gc
import json
import os
import select
import shutil
import signal
import socket
import sys
import traceback
from typing import Any

from verifiers.sandboxes.local.keeper.boxes import Boxes
from verifiers.sandboxes.local.keeper.cgroups import Cgroups, own_cgroups
from verifiers.sandboxes.local.keeper.ends import Ends
from verifiers.sandboxes.local.keeper.kernel import (
    CLONE_NEWNS,
    CLONE_NEWPID,
    CLONE_NEWUSER,
    MS_BIND,
    MS_PRIVATE,
    MS_REC,
    die_with_parent,
    mount,
    pivot_root,
    unmount,
    unshare,
)
from verifiers.sandboxes.local.keeper.unified import UnifiedCgroups, works


def make_root(setup: dict[str, Any]) -> None:
    """A root of what boxes are shown of this machine and the keeper's own place, and nothing else.

    Bubblewrap reads the list of all mounts once for each of its own: here they are few, whatever this machine has.
    """
    top = setup["place"]
    mount("none", "/", "", MS_REC | MS_PRIVATE)
    mount("keeper", top, "tmpfs", 0, "size=64m,mode=755")
    for name in ("tmp", "old"):
        os.mkdir(f"{top}/{name}")
    for folder in setup["shown"]:
        os.makedirs(f"{top}{folder}", exist_ok=True)
        mount(folder, f"{top}{folder}", "", MS_BIND | MS_REC)
    for name, target in setup["root_links"].items():
        os.symlink(target, f"{top}/{name}")
    make_place(setup, f"{top}{setup['place']}")
    pivot_root(top, f"{top}/old")
    os.chdir("/")
    unmount("/old")
    os.rmdir("/old")


def make_place(setup: dict[str, Any], place: str) -> None:
    """A folder with what boxes are shown: files written here, and others of this machine bound into it."""
    for name in setup["folders"]:
        os.makedirs(f"{place}/{name}", exist_ok=True)
    for name, text in setup["files"].items():
        os.makedirs(os.path.dirname(f"{place}/{name}"), exist_ok=True)
        with open(f"{place}/{name}", "wb") as file:
            file.write(text.encode("latin-1"))
    for name, target in setup["links"].items():
        os.makedirs(os.path.dirname(f"{place}/{name}"), exist_ok=True)
        os.symlink(target, f"{place}/{name}")
    for source, name in setup["copies"]:
        os.makedirs(os.path.dirname(f"{place}/{name}"), exist_ok=True)
        with contextlib.suppress(OSError), open(source, "rb") as original, open(f"{place}/{name}", "wb") as file:
            file.write(original.read())
    for source, name in setup["programs"]:
        shutil.copyfile(source, f"{place}/{name}")
        os.chmod(f"{place}/{name}", 0o711)
    for source, name in setup["binds"]:
        os.makedirs(f"{place}/{name}", exist_ok=True)
        mount(source, f"{place}/{name}", "", MS_BIND | MS_REC)
    os.makedirs(f"{place}/boxes")


def own_proc() -> None:
    """Show this pid namespace's processes; the part outside keeps seeing the machine's."""
    unshare(CLONE_NEWNS)
    mount("proc", "/proc", "proc")


def write_map(pid: int, first: int, count: int) -> None:
    for name in ("uid_map", "gid_map"):
        with open(f"/proc/{pid}/{name}", "w") as file:
            file.write(f"0 {first if name == 'uid_map' or count > 1 else os.getegid()} {count}")


def enter_as_root(setup: dict[str, Any], cgroups: Cgroups | UnifiedCgroups, control: socket.socket) -> None:
    """Root: the map covers many ids, so boxes can have several users. Root itself is in neither box nor keeper."""
    unshare(CLONE_NEWNS | CLONE_NEWPID)
    make_root(setup)
    first = setup["ids"][0]
    os.chown(f"{setup['place']}/boxes", first, first)
    cgroups.give_to(first)
    ready, tell_ready = os.pipe()
    go, tell_go = os.pipe()
    pid = os.fork()
    if pid:
        os.close(tell_ready)
        if os.read(ready, 1):  # else it may have no namespaces, says so and ends
            write_map(pid, *setup["ids"])
            cgroups.take(pid)
            os.write(tell_go, b"g")
        stay_outside(pid, cgroups, control)
    die_with_parent(signal.SIGKILL)
    own_proc()
    unshare(CLONE_NEWUSER | CLONE_NEWNS)
    os.write(tell_ready, b"r")
    os.read(go, 1)
    os.setgroups([])
    os.setresgid(0, 0, 0)
    os.setresuid(0, 0, 0)
    die_with_parent(signal.SIGKILL)  # changing ids has cleared it


def enter_as_user(setup: dict[str, Any], cgroups: Cgroups | UnifiedCgroups, control: socket.socket) -> None:
    """Anyone else: one id, this user's own, under another number inside."""
    uid, gid = os.geteuid(), os.getegid()
    unshare(CLONE_NEWUSER | CLONE_NEWNS | (CLONE_NEWPID if setup["pid_namespace"] else 0))
    with open("/proc/self/setgroups", "w") as file:
        file.write("deny")
    for name, number in (("uid_map", uid), ("gid_map", gid)):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(f"0 {number} 1")
    make_root(setup)
    pid = os.fork()
    if pid:
        stay_outside(pid, cgroups, control)
    die_with_parent(signal.SIGKILL)
    if setup["pid_namespace"]:
        own_proc()


def stay_outside(pid: int, cgroups: Cgroups | UnifiedCgroups, control: socket.socket) -> None:
    """The part that keeps its rights: waits for the keeper proper and removes its cgroups. Never returns."""
    control.close()
    _, status = os.waitpid(pid, 0)
    cgroups.remove_all()
    os._exit(os.waitstatus_to_exitcode(status) & 127)


def serve(control: socket.socket, boxes: Boxes) -> None:
    wake, tell = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(tell, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    poll = select.poll()
    poll.register(control, select.POLLIN)
    poll.register(wake, select.POLLIN)
    while True:
        ready = poll.poll(0 if boxes.seats.lacking else None)
        for fd, _ in ready:
            if fd == wake:
                with contextlib.suppress(BlockingIOError):
                    os.read(wake, 4096)
                for end in boxes.reap():
                    control.send(json.dumps(end).encode())
            else:
                message, fds, _, _ = socket.recv_fds(control, 1 << 20, 8)
                if not message:
                    return
                handle(control, boxes, json.loads(message), fds)
        lacking = boxes.seats.lacking
        if lacking:  # one at a time, so that nobody waits for all; but always, as a start without one costs more
            try:
                boxes.seats.add(lacking)
            except OSError:
                boxes.seats.wanted[lacking] = 0  # until one is asked for again


def handle(control: socket.socket, boxes: Boxes, request: dict[str, Any], fds: list[int]) -> None:
    try:
        if "kill" in request:
            boxes.kill(request["kill"])
        elif "copy" in request:
            boxes.copy(request["copy"], request["folder"], fds[0])
        else:
            near = boxes.start(request)
            socket.send_fds(control, [json.dumps({"started": request["id"]}).encode()], near)
            Ends.close(near)
    except (OSError, ValueError, TypeError, OverflowError) as error:  # one odd request must not end all boxes
        control.send(json.dumps({"failed": request.get("id"), "error": str(error)}).encode())
    finally:
        for fd in fds:
            os.close(fd)


def main() -> None:
    control = socket.socket(fileno=int(sys.argv[1]))
    control.set_inheritable(False)
    with os.fdopen(int(sys.argv[2])) as file:
        setup = json.load(file)
    os.dup2(int(sys.argv[3]), 2)
    os.close(int(sys.argv[3]))
    os.umask(0o022)  # what is made here is for the users of boxes
    cgroups = Cgroups(setup["name"]) if own_cgroups() else UnifiedCgroups(setup["name"])
    is_root = os.geteuid() == 0
    try:
        (enter_as_root if is_root else enter_as_user)(setup, cgroups, control)
        if isinstance(cgroups, UnifiedCgroups) and not works(cgroups):
            cgroups.folders.clear()
        boxes = Boxes(setup["place"], cgroups)
        gc.freeze()  # what is there now is never garbage, and stays shared with what is forked
        ready = {"ready": True, "ids": setup["ids"][1] if is_root else 1, "cgroups": sorted(cgroups.folders)}
        control.send(json.dumps(ready).encode())
        serve(control, boxes)
    except OSError as error:
        with contextlib.suppress(OSError):
            where = traceback.extract_tb(error.__traceback__)[-1].name
            control.send(json.dumps({"ready": False, "error": f"{error} (in {where})"}).encode())
        cgroups.remove_all()
        os._exit(1)
    os._exit(0)


main()
