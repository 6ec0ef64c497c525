"""Connections between the box and the host without a network: to a port in the box, and from a socket or port in it."""

# Sent into boxes and run by whatever Python is there: written without types to stay small.
# pyright: basic

import errno
import posix

from verifiers.sandboxes.agent.files import make_folders
from verifiers.sandboxes.agent.io import READ, WRITE, Sink, Source, channels, fail, send, unwatch, watch

accepted = [1 << 31]  # the next channel the agent itself opens; the host's are below


class Relay:
    """One open connection: the host's bytes go in, its bytes go to the host."""

    def __init__(self, channel, sock):
        self.channel, self.sock = channel, sock
        self.source = Source(sock.fileno(), channel, b"D", self.source_ended)
        self.sink = Sink(posix.dup(sock.fileno()), channel, self.sink_ended)
        self.data, self.end = self.sink.data, self.sink.end
        channels[channel] = self

    def grant(self, count, stream):
        self.source.grant(count)

    def source_ended(self, source):
        self.sock.detach()  # its descriptor is closed already
        send(self.channel, b"e", b"D")
        self.forget_if_over()

    def sink_ended(self, fd):
        import _socket

        sock = _socket.socket(fileno=fd)
        try:  # noqa: SIM105 - contextlib takes milliseconds to import
            sock.shutdown(1)
        except OSError:
            pass
        sock.close()
        if not self.sink.ending:  # whoever read is gone: the host need not go on
            send(self.channel, b"e", b"W")
        self.forget_if_over()

    def forget_if_over(self):
        if self.source.fd < 0 and self.sink.fd < 0:
            channels.pop(self.channel, None)

    def close(self):
        self.source.close()
        self.sink.close()
        channels.pop(self.channel, None)


def connect(channel, port):
    """Connect to the box's own loopback; a full backlog must not stop the agent, so without waiting."""
    import _socket

    sock = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
    sock.setblocking(False)

    def connected(events):
        unwatch(sock.fileno())
        error = sock.getsockopt(_socket.SOL_SOCKET, _socket.SO_ERROR)
        if error:
            sock.close()
            fail(channel, OSError(error, posix.strerror(error)))
        else:
            send(channel, b"P", b"0")
            Relay(channel, sock)

    error = sock.connect_ex(("127.0.0.1", port))
    if error not in (0, errno.EINPROGRESS):
        sock.close()
        raise OSError(error, posix.strerror(error))
    watch(sock.fileno(), WRITE, connected)


def listen_at(channel, path):
    """Listen on a unix socket."""
    import _socket

    folder, _, name = path.rpartition(b"/")
    make_folders(folder)
    try:  # noqa: SIM105
        posix.unlink(path)
    except FileNotFoundError:
        pass
    sock = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    posix.chdir(folder or b"/")  # a socket's address holds 107 bytes at most
    sock.bind(name)
    posix.chmod(path, 0o666)
    Listener(channel, sock)


def listen_on(channel, port):
    """Listen on a port of the box's loopback."""
    import _socket

    sock = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
    sock.bind(("127.0.0.1", port))
    Listener(channel, sock)


class Listener:
    """Every connection to `sock` becomes a channel the host answers."""

    def __init__(self, channel, sock):
        self.channel, self.sock = channel, sock
        sock.listen(128)
        watch(sock.fileno(), READ, self.ready)
        channels[channel] = self
        send(channel, b"P", b"0")

    def ready(self, events):
        import _socket

        try:
            fd, _ = self.sock._accept()  # pyright: ignore[reportAttributeAccessIssue]
        except OSError:
            return
        accepted[0] += 1
        send(self.channel, b"A", b"%d" % accepted[0])
        Relay(accepted[0], _socket.socket(fileno=fd))

    def close(self):
        unwatch(self.sock.fileno())
        self.sock.close()
        channels.pop(self.channel, None)
