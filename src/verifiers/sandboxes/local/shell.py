"""What a box's first process, a shell, is told: its script, its lines, and the descriptors it answers on."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from verifiers.sandboxes.base import Command

SCRIPT = """\
exec 2>/dev/null
ulimit -p "$1" || ulimit -u "$1"
shift
printf R
while IFS= read -r line; do
  case $line in
    P) exec "$@" 4>&- 5>&- 6>&- ;;
    *) eval "$line" ;;
  esac
done
"""
"""Arguments: how many processes, then the agent's command line. A line is `P`, or the first command as shell code."""

OUT, ERR, STATUS = 4, 5, 6
MAX_LINE = 4096
"""Bytes of a first command; the shell reads its line byte by byte."""
DROP = f"{OUT}>&- {ERR}>&- {STATUS}>&-"


def line_for(command: Command, cwd: str, env: Mapping[str, str]) -> bytes | None:
    """The shell code that runs `command` in the background and reports pid and exit code; None: the shell cannot."""
    argv = ["/bin/sh", "-c", command] if isinstance(command, str) else list(command)
    if not argv or not argv[0].startswith("/"):
        return None
    program = shlex.quote(argv[0])
    given = " ".join(shlex.quote(f"{name}={value}") for name, value in env.items())
    # a background command of a shell ignores interrupts; `env` undoes that
    streams = f"</dev/null >&{OUT} 2>&{ERR} {DROP}"
    run = f"exec /usr/bin/env --default-signal=INT,QUIT {given} {shlex.join(argv)} {streams}"
    check = f"cd {shlex.quote(cwd)} && [ -x {program} ] && [ ! -d {program} ]"
    job = f"{{ if {check}; then ({run}); echo $? >&{STATUS}; else echo N >&{STATUS}; fi; }} >/dev/null"
    try:
        line = f"{job} & echo S $! >&{STATUS}; exec {DROP}\n".encode("utf-8", "strict")
    except UnicodeEncodeError:
        return None
    return line if line.count(b"\n") == 1 and b"\0" not in line and len(line) <= MAX_LINE else None
