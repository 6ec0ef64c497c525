"""Sending what a box has written, while all others go on: a child walks its layer and writes to a pipe.

The stream is lines of JSON, one for each thing found, a folder before what is in it; after a file's line come lines
that say `data` with an offset and a length, each followed by that many bytes: holes of sparse files are not sent. The
last line says `over`.
"""

import contextlib
import json
import os
import signal
import stat
from collections.abc import Callable

from verifiers.sandboxes.local.keeper.attributes import attributes_of
from verifiers.sandboxes.local.keeper.kernel import die_with_parent
from verifiers.sandboxes.local.keeper.standing import Standstill

DEEPEST = 200
"""Levels of folders: each holds a descriptor here, and whoever removes the copy one more."""
LONGEST = 3000
"""Bytes of a path, so that one below another folder is still a path to the kernel."""
PIECE = 1 << 20
OPAQUE = "user.overlay.opaque"


class Refused(Exception):
    """The box has made something that is not copied."""


class Copy:
    """One walk over the folder `top`, which becomes this process's root: no link in it leads out."""

    def __init__(self, top: str, pipe: int) -> None:
        self.pipe = open(pipe, "wb", buffering=PIECE)  # noqa: SIM115 - open until this process ends
        self.linked: dict[int, str] = {}
        os.chroot(top)
        os.chdir("/")

    def say(self, **line: object) -> None:
        self.pipe.write(json.dumps(line).encode() + b"\n")

    def run(self) -> None:
        self.describe("", os.lstat("/"))
        waiting = [os.scandir("/")]
        while waiting:
            entry = next(waiting[-1], None)
            if entry is None:
                waiting.pop().close()
                continue
            try:
                found = entry.stat(follow_symlinks=False)
                self.describe(entry.path[1:], found)
                if stat.S_ISDIR(found.st_mode):
                    if len(waiting) == DEEPEST:
                        raise Refused(f"more than {DEEPEST} folders in each other")
                    waiting.append(os.scandir(entry.path))
            except (FileNotFoundError, NotADirectoryError):
                continue  # the box did not come to rest, and has removed or replaced it
        self.say(over=True)
        self.pipe.close()

    def describe(self, path: str, found: os.stat_result) -> None:
        if len(os.fsencode(path)) > LONGEST:
            raise Refused(f"a path of more than {LONGEST} bytes")
        mode = found.st_mode
        line = {"path": path, "mode": mode, "uid": found.st_uid, "gid": found.st_gid, "time": found.st_mtime_ns}
        if stat.S_ISREG(mode):
            self.send_file(path, found, line)
        elif stat.S_ISDIR(mode):
            self.say(**line, opaque=is_opaque(f"/{path}"), **told(attributes_of(f"/{path}")))
        elif stat.S_ISLNK(mode):
            self.say(**line, link=os.readlink(f"/{path}"))
        elif stat.S_ISFIFO(mode) or (stat.S_ISCHR(mode) and found.st_rdev == 0):  # the latter: a whiteout
            self.say(**line)

    def send_file(self, path: str, found: os.stat_result, line: dict[str, object]) -> None:
        if found.st_nlink > 1 and found.st_ino in self.linked:
            self.say(path=path, hard=self.linked[found.st_ino])
            return
        try:
            file = os.open(f"/{path}", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            return  # removed or replaced meanwhile
        try:
            if os.fstat(file).st_ino == found.st_ino:
                if found.st_nlink > 1:
                    self.linked[found.st_ino] = path
                self.say(**line, size=found.st_size, **told(attributes_of(file)))
                self.send_content(file, found.st_size)
        finally:
            os.close(file)

    def send_content(self, file: int, size: int) -> None:
        at = 0
        while at < size:
            try:
                at = os.lseek(file, at, os.SEEK_DATA)
                end = min(os.lseek(file, at, os.SEEK_HOLE), size)
            except OSError:
                return  # no data up to its end
            while at < end:
                data = os.pread(file, min(PIECE, end - at), at)
                if not data:
                    return
                self.say(data=at, length=len(data))
                self.pipe.write(data)
                at += len(data)


def told(attributes: dict[str, bytes]) -> dict[str, object]:
    """What a line says of extended attributes."""
    return {"attributes": {name: value.hex() for name, value in attributes.items()}} if attributes else {}


def is_opaque(path: str) -> bool:
    """Whether an overlay shows nothing of what lies below the folder."""
    with contextlib.suppress(OSError):  # a kernel whose tmpfs has no such attributes
        return OPAQUE in os.listxattr(path, follow_symlinks=False)
    return False


def send_copy(top: str, pipe: int, frozen: Callable[[], bool], process: int) -> None:
    """In a child of the keeper: write all below `top` to `pipe` while the box stands still. Never returns.

    Args:
        frozen: whether the box stands still now, until the keeper thaws it; else what is below `process` is stopped.
    """
    try:
        die_with_parent(signal.SIGKILL)
        if not frozen():
            stop_and_send(top, pipe, Standstill(process))
        else:
            send(top, pipe)
    finally:
        os._exit(0)


def stop_and_send(top: str, pipe: int, standstill: Standstill) -> None:
    """The copy is another process's: whatever ends that, its reader's hanging up included, the box goes on."""
    try:
        with contextlib.suppress(OSError):  # an old kernel, or no rights: the box goes on while it is copied
            standstill.begin()
        sender = os.fork()
        if sender == 0:
            die_with_parent(signal.SIGKILL)
            send(top, pipe)
        os.waitpid(sender, 0)
    finally:
        standstill.end()


def send(top: str, pipe: int) -> None:
    """Never returns."""
    try:
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        copy = Copy(top, pipe)
        try:
            copy.run()
        except (OSError, Refused) as error:
            copy.say(error=str(error), refused=isinstance(error, Refused))
            copy.pipe.close()
    finally:
        os._exit(0)
