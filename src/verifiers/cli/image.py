"""`vf-image`: the unpacked images of the local sandbox backend, snapshots of its boxes among them."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from verifiers.cli.options import OneLineParser
from verifiers.errors import ConfigError, VerifiersError
from verifiers.sandboxes.local.images import Image, ImageStore

DAY_S = 86400.0


def parser() -> OneLineParser:
    made = OneLineParser(prog="vf-image", description="Images of the local sandbox backend.")
    commands = made.add_subparsers(dest="command", required=True)
    listing = commands.add_parser("ls", help="list them, snapshots of boxes among them")
    listing.add_argument("--json", action="store_true", help="one JSON object a line, sizes in bytes")
    add = commands.add_parser("add", help="unpack an image and give it a name")
    add.add_argument("source", help="a root folder, a tar of one, an OCI layout (folder or tar), or docker:NAME")
    add.add_argument("--name", default="", help="what SandboxSpec(image=...) calls it")
    add.add_argument("--env", action="append", default=[], metavar="NAME=VALUE", help="part of its environment")
    add.add_argument("--user", default="", help="whom commands run as in it")
    build = commands.add_parser("build", help="build a folder's Dockerfile with the container engine, and unpack it")
    build.add_argument("folder", help="where the Dockerfile and what it copies are")
    build.add_argument("--name", default="", help="what SandboxSpec(image=...) calls it; else build:FOLDER does")
    remove = commands.add_parser(
        "rm", help="remove one that no running box and no snapshot needs; of one with several names, the name"
    )
    remove.add_argument("name", help="its name or digest")
    prune = commands.add_parser("prune", help="remove old ones, and what dead processes left")
    prune.add_argument("--older-than-days", type=float, default=30.0, metavar="N", help="default 30")
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
            count = int(age_s / length_s)
            return f"{count} {unit}{'' if count == 1 else 's'}"
    return "just now"


def _kind(image: Image) -> str:
    if not image.snapshot_of:
        return "image"
    return "temporary" if image.owner else "snapshot"


def _list(images: Sequence[Image]) -> str:
    rows = [("DIGEST", "SIZE", "AGE", "KIND", "NAME")]
    for image in images:
        age = age_text(time.time() - image.created)
        rows.append((image.digest, size_text(image.size), age, _kind(image), ", ".join(image.names) or "-"))
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    return "\n".join(
        "  ".join([*(text.ljust(width) for text, width in zip(row, widths, strict=False)), row[4]]) for row in rows
    )


def _env(entries: Sequence[str]) -> dict[str, str]:
    for entry in entries:
        if entry.find("=") < 1:
            raise ConfigError(f"--env {entry!r} is not NAME=VALUE")
    return dict(entry.split("=", 1) for entry in entries)


def _add(store: ImageStore, arguments: argparse.Namespace) -> Image:
    from verifiers.sandboxes.local import export

    if sys.stderr.isatty():  # either can take minutes
        what = f"building {arguments.folder}" if arguments.command == "build" else f"unpacking {arguments.source}"
        print(what, file=sys.stderr)
    if arguments.command == "build":
        return asyncio.run(export.build(store, Path(arguments.folder), name=arguments.name))
    if not arguments.source.startswith(export.FROM_ENGINE):
        return store.add(Path(arguments.source), name=arguments.name, env=_env(arguments.env), user=arguments.user)
    if arguments.env or arguments.user:
        raise ConfigError("an engine's image has its own environment and user; --env and --user are for other sources")
    reference = arguments.source.removeprefix(export.FROM_ENGINE)
    return asyncio.run(export.add_from_engine(store, reference, name=arguments.name))


def _prune(store: ImageStore, older_than_days: float) -> str:
    if not older_than_days >= 0:
        raise ConfigError(f"--older-than-days {older_than_days:g} must be at least 0")
    oldest = time.time() - older_than_days * DAY_S
    removed = store.prune(keep=lambda image: image.created >= oldest)
    left = [image for image in store.all() if image.created < oldest]
    freed = size_text(sum(image.size for image in removed))
    used = f"; {len(left)} older ones are in use" if left else ""
    return f"removed {len(removed)} images, {freed}{used}"


def _run(arguments: argparse.Namespace) -> None:
    store = ImageStore()
    if arguments.command == "ls" and arguments.json:
        for image in store.all():
            print(json.dumps(asdict(image)))
    elif arguments.command == "ls":
        print(_list(store.all()))
    elif arguments.command in ("add", "build"):
        print(_list([_add(store, arguments)]))
    elif arguments.command == "rm":
        image = store.find(arguments.name)
        if image is None:
            raise ConfigError(f"no image {arguments.name!r}; vf-image ls lists them")
        if arguments.name in image.names and len(image.names) > 1:
            left = store.forget(image, arguments.name)
            print(f"removed the name {arguments.name}; {image.digest} is still {', '.join(left.names)}")
            return
        store.remove(image)
        print(f"removed {image.digest} {', '.join(image.names)}".rstrip())
    else:
        print(_prune(store, arguments.older_than_days))


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 0, 2 with one line on stderr, or 130 if interrupted."""
    arguments = parser().parse_args(argv)
    try:
        _run(arguments)
    except (VerifiersError, OSError) as error:
        print(f"vf-image: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("vf-image: interrupted", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
