"""`vf-sandbox`: the boxes of this machine and account, and the removal of those whose owner is gone."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence

from verifiers.cli.options import OneLineParser
from verifiers.errors import VerifiersError
from verifiers.sandboxes.base import BoxInfo
from verifiers.sandboxes.registry import backend_names, get_backend

DEFAULT = ("local", "unsafe-local", "docker")
"""Looked at unless backends are named: those of this machine. One that does not work here is passed over."""


def parser() -> OneLineParser:
    made = OneLineParser(prog="vf-sandbox", description="Sandboxes that this library started.")
    made.add_argument("command", choices=("ls", "prune"), help="list all, or remove those whose owner is gone")
    made.add_argument("--backend", action="append", choices=backend_names(), help="all of this machine if left out")
    made.add_argument("--json", action="store_true", help="one JSON object a line")
    return made


async def _boxes(command: str, names: Sequence[str], *, all_must_work: bool) -> list[BoxInfo]:
    found: list[BoxInfo] = []
    for name in names:
        backend = get_backend(name)
        try:
            found += await (backend.ls() if command == "ls" else backend.prune())
        except VerifiersError as error:
            if all_must_work:
                raise
            print(f"vf-sandbox: {name} is passed over: {error}", file=sys.stderr)
    return found


def _show(boxes: Sequence[BoxInfo], *, as_json: bool) -> None:
    for box in boxes:
        if as_json:
            print(json.dumps(box._asdict()))
        else:
            owner = "owner alive" if box.owner_alive else "owner gone"
            print(f"{box.backend:12}  {box.id:14}  {box.state:10}  run {box.run or '-':8}  {owner}")


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 0, 2 with one line on stderr, or 130 if interrupted."""
    arguments = parser().parse_args(argv)
    names = arguments.backend or DEFAULT
    try:
        boxes = asyncio.run(_boxes(arguments.command, names, all_must_work=bool(arguments.backend)))
    except VerifiersError as error:
        print(f"vf-sandbox: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("vf-sandbox: interrupted", file=sys.stderr)
        return 130
    _show(boxes, as_json=arguments.json)
    if arguments.command == "prune" and not arguments.json:
        print(f"removed {len(boxes)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
