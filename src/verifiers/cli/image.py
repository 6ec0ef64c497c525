"""`vf-image`: the unpacked images of the local sandbox backend, snapshots of its boxes among them."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from verifiers.cli.columns import columns
from verifiers.cli.ending import ended
from verifiers.cli.parsing import OneLineParser, command_parser, subcommand

if TYPE_CHECKING:
    from verifiers.sandboxes.local.images import Image, ImageStore

PROG = "vf-image"
DAY_S = 86400.0
EXAMPLES = """\
vf-image build ./my-task --name my-task   from the Dockerfile in ./my-task
vf-image add docker:python:3.12-slim      as the container engine has it
vf-image add rootfs.tar --name tiny       or a root folder, or an OCI layout
vf-image ls
vf-image rm tiny
vf-image prune --older-than-days 30"""


def parser() -> OneLineParser:
    made = command_parser(PROG, "Images of the local sandbox backend, snapshots of boxes among them.", EXAMPLES)
    commands = made.add_subparsers(dest="command", required=True)
    listing = subcommand(commands, "ls", "list them, snapshots of boxes among them")
    form = listing.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="one JSON object a line, sizes in bytes")
    form.add_argument("--names", action="store_true", help="their names only, one a line")
    add = subcommand(commands, "add", "unpack an image and give it a name")
    add.add_argument("source", help="a root folder, a tar of one, an OCI layout (folder or tar), or docker:NAME")
    add.add_argument("--env", action="append", default=[], metavar="NAME=VALUE", help="part of its environment")
    add.add_argument("--user", default="", help="whom commands run as in it")
    build = subcommand(commands, "build", "build a folder's Dockerfile with the container engine, and unpack it")
    build.add_argument("folder", type=Path, metavar="DIR", help="where the Dockerfile and what it copies are")
    for making, otherwise in ((add, "its source"), (build, "build:DIR")):
        making.add_argument("--name", default="", help=f"what SandboxSpec(image=...) calls it (default: {otherwise})")
        making.add_argument("--json", action="store_true", help="print it as one JSON object")
    remove = subcommand(
        commands, "rm", "remove those that no running box and no snapshot needs; of one with several names, the name"
    )
    remove.add_argument("name", nargs="+", metavar="IMAGE", help="its name or digest")
    prune = subcommand(commands, "prune", "remove old ones, and what dead processes left")
    prune.add_argument("--older-than-days", type=float, default=30.0, metavar="N", help="default: 30")
    return made


def size_text(size: float) -> str:
    """Bytes in three digits and a unit, as file managers write them."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 999.5 or unit == "GB":
            break
        size /= 1000
    return f"{size:.1f} {unit}" if size < 9.95 and unit != "bytes" else f"{size:.0f} {unit}"


def age_text(age_s: float) -> str:
    for unit, length_s in (("day", DAY_S), ("hour", 3600.0), ("minute", 60.0)):
        if age_s >= length_s:
            return counted(int(age_s / length_s), unit)
    return "just now"


def _kind(image: Image) -> str:
    if not image.snapshot_of:
        return "image"
    return "temporary" if image.owner else "snapshot"


def _show(images: Sequence[Image], *, as_json: bool = False) -> None:
    if as_json:
        for image in images:
            print(json.dumps(asdict(image)))
        return
    rows: list[tuple[str, ...]] = []
    for image in images:
        age = age_text(time.time() - image.created)
        rows.append((image.digest, size_text(image.size), age, _kind(image), ", ".join(image.names) or "-"))
    print(columns(("DIGEST", "SIZE", "AGE", "KIND", "NAME"), rows))


def _env(entries: Sequence[str]) -> dict[str, str]:
    from verifiers.errors import ConfigError

    for entry in entries:
        if entry.find("=") < 1:
            raise ConfigError(f"--env {entry!r} is not NAME=VALUE")
    return dict(entry.split("=", 1) for entry in entries)


def _add(store: ImageStore, arguments: argparse.Namespace) -> Image:
    import asyncio

    from verifiers.errors import ConfigError
    from verifiers.sandboxes.local import export

    if arguments.source in ("", export.FROM_ENGINE):
        raise ConfigError(f"{arguments.source!r} names no image; give a folder, a tar file or {export.FROM_ENGINE}NAME")
    if not arguments.source.startswith(export.FROM_ENGINE):
        return store.add(Path(arguments.source), name=arguments.name, env=_env(arguments.env), user=arguments.user)
    if arguments.env or arguments.user:
        raise ConfigError("an engine's image has its own environment and user; --env and --user are for other sources")
    reference = arguments.source.removeprefix(export.FROM_ENGINE)
    return asyncio.run(export.add_from_engine(store, reference, name=arguments.name))


def _build(store: ImageStore, arguments: argparse.Namespace) -> Image:
    import asyncio

    from verifiers.sandboxes.local import export

    return asyncio.run(export.build(store, arguments.folder, name=arguments.name))


def _waiting(what: str, make: Callable[[], Image]) -> Image:
    """What `make` makes, which can take minutes; a terminal shows that it goes on."""
    if not sys.stderr.isatty():
        return make()
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    shown = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*shown, console=Console(stderr=True), transient=True) as progress:
        progress.add_task(escape(what), total=None)
        return make()


def _remove(store: ImageStore, name: str) -> str:
    from verifiers.errors import ConfigError, nearest

    image = store.find(name)
    if image is None:
        known = [each for image in store.all() for each in image.names]
        close = nearest(name, known)
        raise ConfigError(f"no image {name!r}{close if 'did you mean' in close else '; vf-image ls lists them'}")
    if name in image.names and len(image.names) > 1:
        left = store.forget(image, name)
        return f"removed the name {name}; {image.digest} is still {', '.join(left.names)}"
    store.remove(image)
    return f"removed {image.digest} {', '.join(image.names)}".rstrip()


def _prune(store: ImageStore, older_than_days: float) -> str:
    from verifiers.errors import ConfigError

    if not older_than_days >= 0:
        raise ConfigError(f"--older-than-days {older_than_days:g} must be at least 0")
    oldest = time.time() - older_than_days * DAY_S
    removed = store.prune(keep=lambda image: image.created >= oldest)
    left = [image for image in store.all() if image.created < oldest]
    freed = size_text(sum(image.size for image in removed))
    used = f"; {counted(len(left), 'older one')} in use" if left else ""
    return f"removed {counted(len(removed), 'image')}, {freed}{used}"


def counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _run(arguments: argparse.Namespace) -> None:
    from verifiers.errors import ConfigError
    from verifiers.sandboxes.local.images import ImageStore

    if arguments.command in ("add", "build") and not arguments.name.isprintable():
        raise ConfigError(f"--name {arguments.name!r} has characters that cannot be shown")
    store = ImageStore()
    if arguments.command == "ls" and arguments.names:
        for name in dict.fromkeys(name for image in store.all() for name in image.names):
            print(name)
    elif arguments.command == "ls":
        _show(store.all(), as_json=arguments.json)
    elif arguments.command == "add":
        made = _waiting(f"unpacking {arguments.source}", lambda: _add(store, arguments))
        _show([made], as_json=arguments.json)
    elif arguments.command == "build":
        made = _waiting(f"building {arguments.folder}", lambda: _build(store, arguments))
        _show([made], as_json=arguments.json)
    elif arguments.command == "rm":
        for name in arguments.name:
            print(_remove(store, name))
    else:
        print(_prune(store, arguments.older_than_days))


def main(argv: Sequence[str] | None = None) -> int:
    """The exit status."""
    return ended(PROG, parser, _run, argv)


if __name__ == "__main__":
    sys.exit(main())
