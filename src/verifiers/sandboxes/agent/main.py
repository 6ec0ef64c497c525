"""The agent's main loop: reads the host's frames and serves them until the host hangs up."""

# Sent into boxes and run by whatever Python is there: written without types to stay small.
# pyright: basic

import posix
import sys

from verifiers.sandboxes.agent.commands import (
    Exec,
    Spawned,
    base_env,
    default_ids,
    expire,
    my_uid,
    reap,
    user_ids,
    wake,
)
from verifiers.sandboxes.agent.files import (
    Incoming,
    Outgoing,
    file_frames,
    file_owner,
    make_folders,
    tree_frames,
)
from verifiers.sandboxes.agent.io import READ, Refused, channels, fail, on_ready, poll, send, shown
from verifiers.sandboxes.agent.processes import kill_all, kill_below, kill_others, my_pid, reapers
from verifiers.sandboxes.agent.relays import connect, listen_at, listen_on

default = {"cwd": b"/"}


def hello(channel, fields):
    """The box's settings, once: who reaps, where and as whom commands run, how many, whether some ran already, what is
    in their environment."""
    if fields[0] == b"1":
        reapers.add(1)
    default["cwd"] = fields[1]
    if fields[3]:
        import resource

        resource.setrlimit(resource.RLIMIT_NPROC, (int(fields[3]), int(fields[3])))
    for entry in fields[5:]:
        name, _, value = entry.partition(b"=")
        base_env[name] = value
    if fields[2]:  # looked up now: later the box's user file may say something else
        ids = user_ids(fields[2])
        default_ids.extend(ids)
        if ids[0] != my_uid:
            file_owner.extend(ids[:2])
    try:
        make_folders(fields[1])
    except OSError as error:
        if fields[4] == b"0":  # else it was there, and what it is now is what they made of it
            raise OSError(error.errno, f"its working folder {shown(fields[1])}: {error.strerror}") from None
    hide_from_debuggers()
    send(channel, b"H", b"%d %d %d" % (my_pid, my_uid, sys.version_info[1]))


def hide_from_debuggers():
    """Adopt orphans; close /proc/<agent>/mem to commands of the same user. A lean Python, without `_ctypes`, cannot."""
    try:
        import _ctypes

        itself = _ctypes.dlopen(None, 0)  # pyright: ignore[reportArgumentType]
        prctl = _ctypes.dlsym(itself, "prctl")
        _ctypes.call_function(prctl, (36, 1, 0, 0, 0))  # PR_SET_CHILD_SUBREAPER
        _ctypes.call_function(prctl, (4, 0, 0, 0, 0))  # PR_SET_DUMPABLE
    except (ImportError, OSError, AttributeError):
        pass


def run_command(channel, fields, streaming):
    """`fields`: has stdin, timeout in ms, output limit, cwd, user, how many of the rest are argv, argv, environment."""
    count = int(fields[5]) + 6
    argv, env = fields[6:count], base_env
    if len(fields) > count:
        env = dict(base_env)
        for entry in fields[count:]:
            name, _, value = entry.partition(b"=")
            env[name] = value
    has_stdin = fields[0] == b"1"
    command = Spawned(channel, has_stdin) if streaming else Exec(channel, has_stdin, int(fields[2]))
    cwd = absolute(fields[3]) if fields[3] else default["cwd"]
    command.run(argv, env, cwd, fields[4], int(fields[1]) / 1000)


def absolute(path):
    return path if path[:1] == b"/" else default["cwd"] + b"/" + path


def serve(channel, kind, data):
    if kind == b"x" or kind == b"s":
        run_command(channel, data.split(b"\0"), kind == b"s")
    elif kind == b"H":
        hello(channel, data.split(b"\0"))
    elif kind == b"R" or kind == b"T":
        limit, path = data.split(b"\0")
        frames = file_frames if kind == b"R" else tree_frames
        Outgoing(channel, frames(absolute(path), int(limit)))
    elif kind == b"U":
        Incoming(channel, absolute(data))
    elif kind == b"C":
        connect(channel, int(data))
    elif kind == b"L":
        listen_at(channel, absolute(data))
    elif kind == b"l":
        listen_on(channel, int(data))
    elif kind == b"k":
        kill_below(int(data))
    elif kind == b"Z":
        kill_others(int(data or 0), lambda: reap(0))
        send(channel, b"Z")
    elif channel in channels:
        talk(channels[channel], kind, data)


def talk(one, kind, data):
    """A frame for something under way; what has ended meanwhile no longer listens."""
    if kind == b"D":
        one.data(data)
    elif kind == b"E":
        one.end()
    elif kind == b"W":
        one.grant(int(data[1:]), data[:1])
    elif kind == b"N":
        one.entry(*data.split(b"\0"))
    elif kind == b"K":
        one.kill(int(data))
    elif kind == b"Q":
        one.close()


class Inbox:
    """Cuts the host's bytes into frames; the host hanging up ends the agent, and with it the box."""

    def __init__(self):
        self.waiting = bytearray()

    def ready(self, events):
        data = posix.read(0, 1 << 18)
        if not data:
            if my_pid != 1:  # as process 1 the kernel does it
                kill_all()
            posix._exit(0)
        self.waiting += data
        start = 0
        while len(self.waiting) >= start + 9:
            body = start + 9
            end = body + int.from_bytes(self.waiting[start : start + 4], "big")
            if len(self.waiting) < end:
                break
            channel = int.from_bytes(self.waiting[start + 4 : start + 8], "big")
            self.handle(channel, bytes(self.waiting[start + 8 : body]), bytes(self.waiting[body:end]))
            start = end
        del self.waiting[:start]

    def handle(self, channel, kind, data):
        try:
            serve(channel, kind, data)
        except (OSError, Refused, ValueError, OverflowError, TypeError) as error:
            fail(channel, error)


def main():
    on_ready[0] = Inbox().ready
    poll.register(0, READ)
    wake(reap)
    while True:
        wait = expire()
        for fd, events in poll.poll(wait):
            function = on_ready.get(fd)
            if function:
                function(events)


main()
