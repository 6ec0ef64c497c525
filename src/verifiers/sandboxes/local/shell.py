"""What a box's first process, a shell, is told: its script, its lines, and the descriptors it answers on."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from verifiers.sandboxes.base import Command

OUT, ERR, STATUS = 4, 5, 6
DROP = f"{OUT}>&- {ERR}>&- {STATUS}>&-"
SCRIPT = f"""\
exec 2>/dev/null
IFS= read -r pids
ulimit -p "$pids" || ulimit -u "$pids"
run() {{
  if cd "$1" && [ -x "$2" ] && [ ! -d "$2" ]; then
    shift 2
    unset OLDPWD
    (LANG=C exec /usr/bin/env --default-signal=INT,QUIT "LANG=$LANG" "$@" </dev/null >&{OUT} 2>&{ERR} {DROP})
    echo $? >&{STATUS}
  else
    echo N >&{STATUS}
  fi
}}
printf R
while IFS= read -r line; do
  case $line in
    P) exec "$@" {DROP} ;;
    *) eval "run $line" >/dev/null & echo S $! >&{STATUS}; exec {DROP} ;;
  esac
done
"""
"""Arguments: the agent's command line. The first line is how many processes there may be; another is `P`, or what `run`
is given: a folder, a program, then variables and the program with its arguments.

A background command of a shell ignores interrupts; `env` undoes that, without loading a locale for itself.
"""

MAX_LINE = 4096
"""Bytes of a first command; the shell reads its line byte by byte."""


def line_for(command: Command, cwd: str, env: Mapping[str, str]) -> bytes | None:
    """The line that runs `command` in the background and reports pid and exit code; None: the shell cannot."""
    argv = ["/bin/sh", "-c", command] if isinstance(command, str) else list(command)
    if not argv or not argv[0].startswith("/") or "=" in argv[0]:
        return None
    given = [f"{name}={value}" for name, value in env.items()]
    try:
        line = f"{shlex.join([cwd, argv[0], *given, *argv])}\n".encode("utf-8", "strict")
    except UnicodeEncodeError:
        return None
    return line if line.count(b"\n") == 1 and b"\0" not in line and len(line) <= MAX_LINE else None
