"""Starting commands, as which user, and what becomes of their output and end."""

# Sent into boxes and run by whatever Python is there: written without types to stay small.
# pyright: basic

import errno
import posix
import time

from verifiers.sandboxes.agent.io import READ, Kept, Sink, Source, channels, read_some, send, shown, watch
from verifiers.sandboxes.agent.processes import children, ended, kill_tree, note_ended

my_uid = posix.geteuid()
base_env = dict(posix.environ)
LONGEST_WAIT = 1 << 20  # seconds; the kernel takes no more than twice as many
deadlines = set()  # Commands with a limit on their time
default_ids = []  # uid, gid and groups of whom commands run as; empty: the agent itself
wake_read = []  # becomes readable when a child ends
null = posix.open(b"/dev/null", posix.O_RDWR | posix.O_CLOEXEC)


def find_program(name, env):
    if b"/" in name:
        if name == b"/bin/sh" and not posix.access(name, posix.X_OK):
            raise OSError(errno.ENOENT, "the image has no /bin/sh: give the command as a list of arguments")
        return name
    for folder in env.get(b"PATH", b"/usr/local/bin:/usr/bin:/bin").split(b":"):
        path = (folder or b".") + b"/" + name
        if posix.access(path, posix.X_OK):
            return path
    raise OSError(errno.ENOENT, f"no such program: {shown(name)}")


def start(argv, env, cwd, user, fds):
    posix.chdir(cwd)
    path = find_program(argv[0], env)
    ids = user_ids(user) if user else default_ids
    if ids and ids[0] != my_uid:
        return fork_as(ids, path, argv, env, fds)
    actions = [(posix.POSIX_SPAWN_DUP2, fd, number) for number, fd in enumerate(fds)]
    return posix.posix_spawn(path, argv, env, file_actions=actions, setsid=True, setsigdef=[2, 13, 25])


def start_when_possible(*request):
    """`start`; what a time-out has just killed may count against the box's limit of processes for some moments."""
    patience = time.monotonic() + 2
    while True:
        try:
            return start(*request)
        except BlockingIOError:
            if time.monotonic() > patience:
                raise
            time.sleep(0.01)
            reap(0)


def user_ids(text):
    """(uid, gid, groups) of `name`, `uid` or `uid:gid`, by the box's own passwd and group files."""
    name, _, group = text.decode("utf-8", "replace").partition(":")
    uid, gid, groups = (int(name), int(name), []) if name.isdecimal() else (None, None, [])
    wanted = int(group) if group.isdecimal() else None
    for line in lines_of(b"/etc/passwd"):
        parts = line.split(":")
        if len(parts) > 3 and name in (parts[0], parts[2]):
            uid, gid, name = int(parts[2]), int(parts[3]), parts[0]
            break
    for line in lines_of(b"/etc/group"):
        parts = line.split(":")
        if len(parts) > 3 and name in parts[3].split(","):
            groups.append(int(parts[2]))
        if group and len(parts) > 2 and group in (parts[0], parts[2]):
            wanted = int(parts[2])
    if uid is None:
        raise OSError(errno.ENOENT, f"no such user in the box: {name}")
    if group and wanted is None:
        raise OSError(errno.ENOENT, f"no such group in the box: {group}")
    gid = wanted if group else gid
    for number, kind in ((uid, b"uid"), (gid, b"gid")):
        held = [[int(part) for part in line.split()] for line in lines_of(b"/proc/self/" + kind + b"_map")]
        if held and not any(first <= (number or 0) < first + count for first, _, count in held):
            raise OSError(errno.EINVAL, f"the box has no {kind.decode()} {number}")
    return uid, gid, groups


def lines_of(path):
    try:
        fd = posix.open(path, posix.O_RDONLY | posix.O_NONBLOCK | posix.O_CLOEXEC)  # it may be a FIFO by now
    except OSError:
        return []
    try:
        return posix.read(fd, 1 << 20).decode("utf-8", "replace").splitlines()
    finally:
        posix.close(fd)


def fork_as(ids, path, argv, env, fds):
    if my_uid != 0:
        raise OSError(errno.EPERM, f"this box has one user, uid {my_uid}: others need a box started for them")
    import _signal  # pyright: ignore[reportMissingImports]

    report, tell = posix.pipe2(posix.O_CLOEXEC)
    pid = posix.fork()
    if pid == 0:
        try:
            posix.setsid()
            for number, fd in enumerate(fds):
                posix.dup2(fd, number)
            for number in (2, 13, 25):
                _signal.signal(number, _signal.SIG_DFL)
            posix.setgroups(ids[2])
            posix.setresgid(ids[1], ids[1], ids[1])
            posix.setresuid(ids[0], ids[0], ids[0])
            posix.execve(path, argv, env)
        except OSError as error:
            posix.write(tell, b"%d" % error.errno)
        finally:
            posix._exit(127)
    posix.close(tell)
    said = posix.read(report, 16)
    posix.close(report)
    if said:
        posix.waitpid(pid, 0)
        raise OSError(int(said), posix.strerror(int(said)))
    return pid


class Command:
    """One command; how its output is read is its subclasses' matter."""

    def __init__(self, channel, has_stdin):
        self.channel, self.has_stdin = channel, has_stdin
        self.pid, self.began, self.code, self.timed_out, self.deadline = 0, 0.0, -1, False, 0.0
        self.stdin = None

    def read_from(self, out, err):
        raise NotImplementedError

    def run(self, argv, env, cwd, user, timeout_s):
        pipes = [posix.pipe2(posix.O_CLOEXEC) for _ in range(2 + self.has_stdin)]
        child_in = pipes[2][0] if self.has_stdin else null
        try:
            self.pid = start_when_possible(argv, env, cwd, user, (child_in, pipes[0][1], pipes[1][1]))
        except (OSError, ValueError):
            for fd in [fd for pair in pipes for fd in pair]:
                posix.close(fd)
            raise
        self.began = time.monotonic()
        if timeout_s:
            self.deadline = self.began + timeout_s
            deadlines.add(self)
        posix.close(pipes[0][1])
        posix.close(pipes[1][1])
        if self.has_stdin:
            posix.close(child_in)
            self.stdin = Sink(pipes[2][1], self.channel)
        self.read_from(pipes[0][0], pipes[1][0])
        ended.discard(self.pid)
        children[self.pid] = channels[self.channel] = self

    def data(self, data):
        if self.stdin:
            self.stdin.data(data)

    def end(self):
        if self.stdin:
            self.stdin.end()

    def kill(self, signal):
        if self.code >= 0:
            return
        if signal == 9:
            kill_tree(self.pid)
        else:
            posix.kill(self.pid, signal)

    def exited(self, code):
        """The command is over, whatever it left running; that may go on printing, to nobody."""
        self.code = code
        deadlines.discard(self)
        note_ended(self.pid)
        if self.stdin:
            self.stdin.waiting.clear()
            self.stdin.close()
        self.report()

    def report(self):
        raise NotImplementedError


class Exec(Command):
    """Keeps the start of its output and answers once."""

    def __init__(self, channel, has_stdin, limit):
        Command.__init__(self, channel, has_stdin)
        self.limit = limit

    def read_from(self, out, err):
        self.out, self.err = Kept(out, self.limit), Kept(err, self.limit)

    def report(self):
        channels.pop(self.channel, None)
        self.out.drain()
        self.err.drain()
        micros = int((time.monotonic() - self.began) * 1e6)
        flags = (1 if self.timed_out else 0) | (2 if self.out.truncated or self.err.truncated else 0)
        head = b"%d %d %d %d\n" % (self.code, flags, micros, self.out.size)
        send(self.channel, b"F", head, *self.out.parts, *self.err.parts)


class Spawned(Command):
    """Streams its output under the host's grants, also what is left in the pipes when it has exited."""

    def read_from(self, out, err):
        self.open = 2
        self.out = Source(out, self.channel, b"D", self.closed)
        self.err = Source(err, self.channel, b"d", self.closed)
        send(self.channel, b"P", b"%d" % self.pid)

    def grant(self, count, stream):
        (self.out if stream == b"D" else self.err).grant(count)

    def closed(self, source):
        self.open -= 1
        send(self.channel, b"e", b"D" if source is self.out else b"d")
        self.forget_if_over()

    def report(self):
        send(self.channel, b"X", b"%d" % self.code)
        self.forget_if_over()

    def forget_if_over(self):
        if self.open == 0 and self.code >= 0:
            channels.pop(self.channel, None)

    def close(self):
        """The host no longer reads."""
        channels.pop(self.channel, None)
        self.out.drop()
        self.err.drop()


def wake(function):
    """Call `function` from the loop whenever a child has ended."""
    import _signal  # pyright: ignore[reportMissingImports]

    read_end, write_end = posix.pipe2(posix.O_CLOEXEC | posix.O_NONBLOCK)
    _signal.pthread_sigmask(_signal.SIG_SETMASK, [])  # who starts the agent may hold back what tells of ends
    _signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    _signal.signal(17, lambda number, frame: None)  # SIGCHLD
    _signal.signal(2, _signal.SIG_IGN)  # as process 1 the agent is safe from all signals but those it handles
    wake_read.append(read_end)
    watch(read_end, READ, function)


def reap(events):
    while read_some(wake_read[0]):
        pass
    while True:
        try:
            pid, status = posix.waitpid(-1, posix.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        command = children.pop(pid, None)
        if command:
            command.exited(128 + (status & 127) if status & 127 else status >> 8)


def expire():
    """Kill what ran out of time; seconds until the next one, -1 for none."""
    now = time.monotonic()
    for command in [c for c in deadlines if c.deadline <= now]:
        deadlines.discard(command)
        command.timed_out = True
        kill_tree(command.pid)
    return min([min(max(c.deadline - now, 0), LONGEST_WAIT) for c in deadlines], default=-1)
