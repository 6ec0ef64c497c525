"""Which processes a command has started, and killing them all. Linux /proc, no help from the processes needed."""

# Sent into boxes and run by whatever Python is there: written without types to stay small.
# pyright: basic

import posix
import time

my_pid = posix.getpid()
children = {}  # pid -> Command that runs
ended = set()  # session ids of commands that ended: their background children are no other command's orphans
reapers = {my_pid}  # whose children are orphans; 1 too where it is the box's own


def note_ended(session):
    ended.add(session)
    if len(ended) > 4096:
        ended.intersection_update([entry[1] for entry in process_table().values()])


def process_table(without=b"ZX"):
    """pid -> (parent, session, start time in ticks) of every process in sight that is in none of these states."""
    table = {}
    for name in posix.listdir(b"/proc"):
        if not name.isdigit():
            continue
        try:
            fd = posix.open(b"/proc/%b/stat" % name, posix.O_RDONLY | posix.O_CLOEXEC)
            try:
                fields = posix.read(fd, 4096).rpartition(b")")[2].split()
            finally:
                posix.close(fd)
        except OSError:
            continue
        if fields and fields[0] not in without:
            table[int(name)] = (int(fields[1]), int(fields[3]), int(fields[19]))
    return table


def members(root, began, table):
    """What command `root` started: descendants, its session, and orphans begun since that are no other command's."""
    found = set()
    for pid, (parent, session, start) in table.items():
        is_orphan = parent in reapers and pid not in children and session not in children and session not in ended
        if pid not in (1, my_pid) and (pid == root or session == root or (is_orphan and start >= began)):
            found.add(pid)
    grew = True
    while grew:
        more = {pid for pid, entry in table.items() if entry[0] in found and pid not in found and pid not in children}
        found |= more
        grew = bool(more)
    return found


def descendants(root, table):
    found, grew = {root}, True
    while grew:
        more = {pid for pid, entry in table.items() if entry[0] in found and pid not in found}
        found |= more
        grew = bool(more)
    return found - {root}


def kill_tree(root):
    """End a command and all it started."""
    table = process_table()
    began = table[root][2] if root in table else 1 << 62
    stop_and_kill(lambda table: members(root, began, table))
    signal_to(root, 9)


def kill_below(root):
    """End what `root` started, and so let it see the end of it, even if it was stopped."""
    table = process_table()
    began = table[root][2] if root in table else 1 << 62
    stop_and_kill(lambda table: members(root, began, table) - {root})
    signal_to(root, 18)


def kill_all():
    """End everything below the agent, which adopts orphans."""
    stop_and_kill(lambda table: descendants(my_pid, table))


def kill_others(since, reap):
    """End all that was started through the agent, `since` (in ticks after boot): what is below it, and orphans.

    Until it is gone it counts against the box's limit of processes, so what comes next could not start all it needs.
    """
    table = process_table()
    began = table[my_pid][2] if my_pid in table else 1 << 62
    killed = stop_and_kill(lambda table: {pid for pid in started_after(began, table) if table[pid][2] >= since})
    patience = time.monotonic() + 5
    while killed and time.monotonic() < patience:
        reap()
        there = process_table(without=b"")
        # a dead one stays for as long as its parent wants: only those are waited for that others take care of
        killed = {pid for pid in killed & there.keys() if there[pid][0] in reapers | killed}
        if killed:
            time.sleep(0.002)


def started_after(began, table):
    found = descendants(my_pid, table)
    for pid, (parent, _, start) in table.items():
        if parent in reapers and start > began and pid not in (1, my_pid):
            found |= {pid} | descendants(pid, table)
    return found - {1, my_pid}


def stop_and_kill(find):
    """Stop everything first, so that nothing can fork away, then kill it: the pids of what it was."""
    table = process_table()
    stopped, quiet = set(), 0
    rounds = 0
    while quiet < 2 and rounds < 500:
        rounds += 1
        fresh = find(table) - stopped
        for pid in fresh:
            signal_to(pid, 19)
        stopped |= fresh
        quiet = 0 if fresh else quiet + 1
        table = process_table()
    for pid in stopped:
        signal_to(pid, 9)
    return stopped


def signal_to(pid, signal):
    try:  # noqa: SIM105 - contextlib takes milliseconds to import
        posix.kill(pid, signal)
    except OSError:
        pass
