"""`vf-image`: the unpacked images of the local sandbox backend."""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from verifiers.errors import ConfigError, VerifiersError
from verifiers.sandboxes.local.images import Image, ImageStore

DAY_S = 86400.0
ENGINE = "docker:"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="vf-image", description="Images of the local sandbox backend.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("ls", help="list them")
    add = commands.add_parser("add", help="unpack an image and give it a name")
    add.add_argument("source", help="a root folder, a tar of one, an OCI layout (folder or tar), or docker:NAME")
    add.add_argument("--name", default="", help="what SandboxSpec(image=...) calls it")
    add.add_argument("--env", action="append", default=[], metavar="NAME=VALUE", help="part of its environment")
    add.add_argument("--user", default="", help="whom commands run as in it")
    remove = commands.add_parser("rm", help="remove one")
    remove.add_argument("name", help="its name or digest")
    prune = commands.add_parser("prune", help="remove old ones, and what interrupted unpacking left")
    prune.add_argument("--older-than-days", type=float, default=30.0, metavar="N", help="default 30")
    return parser


def _list(images: Sequence[Image]) -> str:
    rows = [("DIGEST", "SIZE", "AGE", "NAME")]
    for image in images:
        age = f"{(time.time() - image.created) / DAY_S:.1f} d"
        rows.append((image.digest, f"{image.size / 1e6:.0f} MB", age, image.name))
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    return "\n".join(
        "  ".join([*(text.ljust(width) for text, width in zip(row, widths, strict=False)), row[3]]) for row in rows
    )


def _env(entries: Sequence[str]) -> dict[str, str]:
    for entry in entries:
        if "=" not in entry:
            raise ConfigError(f"--env {entry!r} is not NAME=VALUE")
    return dict(entry.split("=", 1) for entry in entries)


def _add(store: ImageStore, arguments: argparse.Namespace) -> Image:
    if arguments.source.startswith(ENGINE):
        from verifiers.sandboxes.local.export import add_from_engine

        return asyncio.run(add_from_engine(store, arguments.source.removeprefix(ENGINE), name=arguments.name))
    return store.add(Path(arguments.source), name=arguments.name, env=_env(arguments.env), user=arguments.user)


def _run(arguments: argparse.Namespace) -> None:
    store = ImageStore()
    if arguments.command == "ls":
        print(_list(store.all()))
    elif arguments.command == "add":
        print(_list([_add(store, arguments)]))
    elif arguments.command == "rm":
        image = store.find(arguments.name)
        if image is None:
            raise ConfigError(f"no image {arguments.name!r}; vf-image ls lists them")
        store.remove(image)
        print(f"removed {image.digest} {image.name}")
    else:
        oldest = time.time() - arguments.older_than_days * DAY_S
        removed = store.prune(keep=lambda image: image.created >= oldest)
        print(f"removed {len(removed)} images, {sum(image.size for image in removed) / 1e6:.0f} MB")


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 0, or 2 with one line on stderr."""
    arguments = _parser().parse_args(argv)
    try:
        _run(arguments)
    except (VerifiersError, OSError) as error:
        print(f"vf-image: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
