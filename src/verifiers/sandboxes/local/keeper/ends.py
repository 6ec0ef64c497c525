"""What a box's first process has open, and the runner's ends of it."""

import fcntl
import os
import socket
from collections.abc import Sequence
from typing import NamedTuple


class Ends(NamedTuple):
    near: list[int]
    """The runner's: the agent's socket, what it complains, further pipes."""
    far: list[int]
    """The box's; none is a number that a box uses."""

    def numbered(self, opened: Sequence[int], last: Sequence[int] = ()) -> list[int]:
        """What is to be descriptor 0, 1, 2 and so on: the socket twice, complaints, what is opened, pipes, `last`."""
        line, words, *pipes = self.far
        return [line, line, words, *opened, *pipes, *last]

    def spawn(self, argv: list[str], opened: Sequence[str], last: int) -> int:
        """The pid of a process that runs `argv` with these; of the files `opened` one for each."""
        fds = [high(os.open(path, os.O_RDONLY)) for path in opened]
        fds += [last_fd := high(os.dup(last))]
        try:
            wanted = self.numbered(fds[:-1], [last_fd])
            actions = [(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in enumerate(wanted)]
            return os.posix_spawn(argv[0], argv, {}, file_actions=actions)
        finally:
            self.close(fds)

    @staticmethod
    def close(fds: Sequence[int]) -> None:
        for fd in fds:
            os.close(fd)


def make_ends(pipes: int) -> Ends:
    """A socket, a pipe for complaints and further `pipes`, all from the box."""
    ours, theirs = socket.socketpair()
    pairs = [(ours.detach(), theirs.detach()), *(os.pipe() for _ in range(1 + pipes))]
    return Ends([near for near, _ in pairs], [high(far) for _, far in pairs])


def high(fd: int) -> int:
    """The same file under a number that is out of the way of what a box's are to be."""
    try:
        return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 64)
    finally:
        os.close(fd)
