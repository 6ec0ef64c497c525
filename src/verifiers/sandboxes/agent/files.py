"""Files in and out. Reading follows links inside the box only; writing replaces what is there, never writes into it."""

# Sent into boxes and run by whatever Python is there: written without types to stay small.
# pyright: basic

import _stat as stat
import errno
import posix

from verifiers.sandboxes.agent.io import CHUNK, WINDOW, Refused, channels, fail, send, shown

OPEN_READ = posix.O_RDONLY | posix.O_NONBLOCK | posix.O_NOCTTY | posix.O_CLOEXEC
file_owner = []  # [uid, gid] for what is written, empty: the agent's own


class Outgoing:
    """Frames of a generator, sent as far as the host has granted."""

    def __init__(self, channel, frames):
        self.channel, self.frames, self.credit = channel, frames, WINDOW
        channels[channel] = self
        self.pump()

    def pump(self):
        try:
            while self.credit > 0:
                kind, data = next(self.frames)
                send(self.channel, kind, data)
                self.credit -= len(data)
        except StopIteration:
            channels.pop(self.channel, None)
            send(self.channel, b"F")
        except (OSError, Refused) as error:
            fail(self.channel, error)

    def grant(self, count, stream):
        self.credit += count
        self.pump()

    def close(self):
        channels.pop(self.channel, None)
        self.frames.close()


def file_frames(path, limit, flags=0):
    """A regular file's size, then its bytes; at most `limit` of them."""
    fd = posix.open(path, OPEN_READ | flags)
    try:
        found = posix.fstat(fd)
        if stat.S_ISDIR(found.st_mode):
            raise OSError(errno.EISDIR, posix.strerror(errno.EISDIR))
        if not stat.S_ISREG(found.st_mode):
            raise Refused(f"{shown(path)} is a {kind_of(found.st_mode)}, not a file")
        left = limit
        if limit >= 0 and found.st_size > left:
            raise too_large(path, limit)
        yield b"S", b"%d %d" % (found.st_mode & 0o777, found.st_size)
        while True:
            data = posix.read(fd, CHUNK)
            if not data:
                return
            if limit >= 0 and len(data) > left:
                raise too_large(path, limit)
            left -= len(data)
            yield b"D", data
    finally:
        posix.close(fd)


def too_large(path, limit):
    return Refused(f"{shown(path)} has more than the {limit} bytes that are left of max_bytes")


def tree_frames(path, limit):
    """Every entry below `path`, folders before what is in them: its kind, mode and path, then a file's bytes."""
    top = posix.stat(path)
    if not stat.S_ISDIR(top.st_mode):
        yield b"N", b"f\0%d\0\0" % (top.st_mode & 0o777)
        yield from file_frames(path, limit)
        return
    yield b"N", b"d\0%d\0\0" % (top.st_mode & 0o777)
    waiting, left = [b""], limit
    while waiting:
        folder = waiting.pop()
        for name in sorted(posix.listdir(path + b"/" + folder)):
            inner = folder + b"/" + name if folder else name
            full = path + b"/" + inner
            mode = posix.lstat(full).st_mode
            if stat.S_ISDIR(mode):
                waiting.append(inner)
                yield b"N", b"d\0%d\0%b\0" % (mode & 0o777, inner)
            elif stat.S_ISLNK(mode):
                yield b"N", b"l\0%d\0%b\0%b" % (mode & 0o777, inner, posix.readlink(full))
            elif stat.S_ISREG(mode):
                yield b"N", b"f\0%d\0%b\0" % (mode & 0o777, inner)
                for kind, data in file_frames(full, left, posix.O_NOFOLLOW):
                    left -= len(data) if kind == b"D" and limit >= 0 else 0
                    yield kind, data
            else:
                raise Refused(f"{shown(full)} is a {kind_of(mode)}, which is not copied")


def kind_of(mode):
    for test, name in ((stat.S_ISFIFO, "FIFO"), (stat.S_ISSOCK, "socket"), (stat.S_ISCHR, "device")):
        if test(mode):
            return name
    return "device"


class Incoming:
    """Entries the host sends, made below `root`. A file appears whole, under a new inode, when its last byte is in."""

    def __init__(self, channel, root):
        self.channel, self.root = channel, root
        self.fd, self.temporary, self.final, self.mode, self.folders = -1, b"", b"", 0o644, []
        channels[channel] = self
        make_folders(root.rpartition(b"/")[0])

    def entry(self, kind, mode, inner, target):
        self.finish_file()
        path = self.root + b"/" + inner if inner else self.root
        if kind == b"d":
            self.make_folder(path, int(mode))
        elif kind == b"l":
            remove_other_than(path, None)
            posix.symlink(target, path)
            self.own(path)
        else:
            self.begin_file(path, int(mode) if mode else None)

    def make_folder(self, path, mode):
        remove_other_than(path, stat.S_ISDIR)
        try:
            posix.mkdir(path, 0o700)
            self.own(path)
        except FileExistsError:
            pass
        self.folders.append((path, mode))

    def begin_file(self, path, mode):
        folder = path.rpartition(b"/")[0]
        try:
            found = posix.lstat(path).st_mode
        except FileNotFoundError:
            found = stat.S_IFREG | 0o644
        if stat.S_ISDIR(found):
            raise OSError(errno.EISDIR, posix.strerror(errno.EISDIR))
        if mode is None:
            mode = found & 0o777 if stat.S_ISREG(found) else 0o644
        self.temporary = folder + b"/.incoming-%d" % self.channel
        flags = posix.O_WRONLY | posix.O_CREAT | posix.O_EXCL | posix.O_NOFOLLOW | posix.O_CLOEXEC
        remove_other_than(self.temporary, None)
        self.fd = posix.open(self.temporary, flags, 0o600)
        self.final, self.mode = path, mode

    def data(self, data):
        view = memoryview(data)
        try:
            while view:
                view = view[posix.write(self.fd, view) :]
        except OSError:
            self.close()
            raise
        send(self.channel, b"W", b"%d" % len(data))

    def finish_file(self):
        if self.fd < 0:
            return
        posix.fchmod(self.fd, self.mode)
        posix.close(self.fd)
        self.fd = -1
        self.own(self.temporary)
        try:
            posix.rename(self.temporary, self.final)
        except OSError:
            posix.unlink(self.temporary)
            raise

    def own(self, path):
        if file_owner:
            posix.chown(path, file_owner[0], file_owner[1], follow_symlinks=False)

    def end(self):
        self.finish_file()
        for path, mode in reversed(self.folders):
            posix.chmod(path, mode)
        channels.pop(self.channel, None)
        send(self.channel, b"F")

    def close(self):
        channels.pop(self.channel, None)
        if self.fd >= 0:
            posix.close(self.fd)
            self.fd = -1
            posix.unlink(self.temporary)


def remove_other_than(path, test):
    """Unlink what is at `path` unless it is what `test` says; a folder is never removed."""
    try:
        mode = posix.lstat(path).st_mode
    except FileNotFoundError:
        return
    if stat.S_ISDIR(mode) and test is not stat.S_ISDIR:
        raise OSError(errno.EISDIR, posix.strerror(errno.EISDIR))
    if test is None or not test(mode):
        posix.unlink(path)


def make_folders(path):
    """`path` and its parents; links on the way are followed, inside the box."""
    missing = []
    while path and path != b"/":
        try:
            posix.stat(path)
            break
        except FileNotFoundError:
            missing.append(path)
            path = path.rpartition(b"/")[0]
    for folder in reversed(missing):
        posix.mkdir(folder, 0o755)
        if file_owner:
            posix.chown(folder, file_owner[0], file_owner[1], follow_symlinks=False)
