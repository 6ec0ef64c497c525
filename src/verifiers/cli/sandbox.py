"""`vf-sandbox`: the boxes of this machine and account, and the removal of those whose owner is gone."""

from __future__ import annotations

import argparse
import errno
import json
import os
import sys
from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, NamedTuple

from verifiers.cli.columns import columns
from verifiers.cli.ending import ended
from verifiers.cli.parsing import OneLineParser, command_parser

if TYPE_CHECKING:
    from verifiers.errors import Fault
    from verifiers.sandboxes.base import BoxInfo

PROG = "vf-sandbox"
ELSEWHERE = frozenset({"modal"})
"""Backends whose boxes are on no machine of the user's: asked only by name. All others are, installed ones included."""
ANSWER_TIMEOUT_S = 60.0
EXAMPLES = """\
vf-sandbox ls                     your boxes on this machine
vf-sandbox prune                  remove those whose process is gone
vf-sandbox ls --backend modal     those that are elsewhere, too
vf-sandbox ls --json | jq .id"""


def parser() -> OneLineParser:
    from verifiers.sandboxes.registry import backend_names

    made = command_parser(PROG, "List or remove sandboxes that this library started.", EXAMPLES)
    made.add_argument("command", choices=("ls", "prune"), help="list all, or remove those whose owner is gone")
    made.add_argument(
        "--backend",
        action="append",
        choices=backend_names(),
        metavar="NAME",
        help=f"only {', '.join(backend_names())}; several times: these (default: all of this machine)",
    )
    made.add_argument("--json", action="store_true", help="one JSON object a line")
    return made


class Found(NamedTuple):
    """What the backends answered."""

    boxes: list[BoxInfo]
    faults: dict[str, Fault]
    """By backend, of those that could not be asked."""


async def _found(command: str, names: Sequence[str]) -> Found:
    import asyncio

    from verifiers.errors import FaultKind, boundary

    found = Found([], {})
    for name in names:

        def note(fault: Fault, name: str = name) -> None:
            found.faults[name] = fault

        with boundary(command, FaultKind.SANDBOX, note):
            found.boxes.extend(await asyncio.wait_for(_asked(name, command), ANSWER_TIMEOUT_S))
    return found


def _asked(name: str, command: str) -> Coroutine[None, None, list[BoxInfo]]:
    from verifiers.sandboxes.registry import get_backend

    backend = get_backend(name)
    return backend.ls() if command == "ls" else backend.prune()


def _is_absent(fault: Fault) -> bool:
    """Whether there is just no container engine on this machine, and so nothing to say of it."""
    cause = fault.error.__cause__ if fault.error is not None else None
    nobody = isinstance(cause, OSError) and cause.errno in (errno.ENOENT, errno.ECONNREFUSED)
    return nobody and "DOCKER_HOST" not in os.environ


def _said(name: str, fault: Fault) -> str:
    from verifiers.errors import VerifiersError

    text = str(fault.error) if isinstance(fault.error, VerifiersError) else fault.message
    if isinstance(fault.error, TimeoutError):
        text = f"no answer in {ANSWER_TIMEOUT_S:.0f} s"
    return f"{PROG}: {name} is passed over: {' '.join(text.split())}"


def _show(boxes: Sequence[BoxInfo], *, as_json: bool) -> None:
    if as_json:
        for box in boxes:
            print(json.dumps(box._asdict()))
    else:
        rows = [
            (box.backend, box.id, box.state, box.run or "-", "alive" if box.owner_alive else "gone") for box in boxes
        ]
        print(columns(("BACKEND", "ID", "STATE", "RUN", "OWNER"), rows))


def _run(arguments: argparse.Namespace) -> int:
    import asyncio

    from verifiers.errors import SandboxError
    from verifiers.sandboxes.registry import backend_names

    named = list(dict.fromkeys(arguments.backend or ()))
    names = named or [name for name in backend_names() if name not in ELSEWHERE]
    found = asyncio.run(_found(arguments.command, names))
    for name, fault in found.faults.items():
        if named or "verbose" in arguments or arguments.command == "prune" or not _is_absent(fault):
            print(_said(name, fault), file=sys.stderr)
        if "verbose" in arguments and not isinstance(fault.error, SandboxError):
            print(fault.trace, end="", file=sys.stderr)
    if found.boxes or arguments.command == "ls":
        _show(found.boxes, as_json=arguments.json)
    if arguments.command == "prune" and not arguments.json:
        print(f"removed {len(found.boxes)}")
    return 2 if named and found.faults else 0


def main(argv: Sequence[str] | None = None) -> int:
    """The exit status: 2 if a backend that was named cannot be asked."""
    return ended(PROG, parser, _run, argv)


if __name__ == "__main__":
    sys.exit(main())
