"""The command line of every command: one-line errors that name the nearest choice, and help that ends in examples.

Only argparse is loaded.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Sequence
from textwrap import indent
from typing import Any, NoReturn, cast


class OneLineParser(argparse.ArgumentParser):
    """A parser whose errors are one line that names the nearest valid choice."""

    def error(self, message: str) -> NoReturn:
        see = f"; see {self.prog} --help" if "required" in message else ""
        self.exit(2, f"{self.prog}: error: {message}{see}\n")

    def parse_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: None = None
    ) -> argparse.Namespace:
        """The arguments; exits with status 2 if any of them is not understood."""
        known, unknown = self.parse_known_args(args)
        if unknown:
            from verifiers.errors import nearest

            wrong = unknown[0]
            tail = nearest(wrong.partition("=")[0], [*self.flags()]) if wrong.startswith("--") else ""
            self.error(f"unknown argument {wrong!r}{tail or f'; see {self.prog} --help'}")
        return known

    def flags(self) -> Iterator[str]:
        """The long ones, of its subcommands too."""
        for action in self._actions:
            yield from (flag for flag in action.option_strings if flag.startswith("--"))
            for inner in self.inner(action).values():
                yield from inner.flags()

    @staticmethod
    def inner(action: argparse.Action) -> dict[str, OneLineParser]:
        """The parsers of the subcommands that `action` chooses from, by name."""
        choices = cast(object, action.choices)
        return cast(dict[str, OneLineParser], choices) if isinstance(choices, dict) else {}

    def _check_value(self, action: argparse.Action, value: Any) -> None:  # the only place that words a wrong choice
        if action.choices is not None and value not in action.choices:
            from verifiers.errors import nearest

            raise argparse.ArgumentError(action, f"unknown {value!r}{nearest(str(value), [*map(str, action.choices)])}")


def count(text: str) -> int:
    """A whole number from 1 on."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} must be at least 1")
    return number


def number(text: str) -> float:
    """A number that can be compared with."""
    found = float(text)
    if not math.isfinite(found):
        raise argparse.ArgumentTypeError(f"{text!r} is no number to compare with")
    return found


class _Version(argparse.Action):
    """Prints the version and ends; it is looked up only then."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        from verifiers import __version__

        print(__version__)
        parser.exit()


def add_version(parser: Any) -> None:
    """To a parser, or a group of its options."""
    text = "print the version of this library and stop"
    parser.add_argument("--version", action=_Version, nargs=0, default=argparse.SUPPRESS, help=text)


def command_parser(prog: str, description: str, examples: str, *, exits: str = "") -> OneLineParser:
    """The parser of a command as all of them look: examples and exit statuses at the end, `-v` among the options."""
    made = OneLineParser(
        prog=prog,
        description=description,
        epilog=f"examples:\n{indent(examples, '  ')}\n\nexit status: 0 done; 2 wrong input; {exits}130 interrupted; "
        "1 a bug of this program",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add_verbose(made)
    add_version(made)
    return made


def subcommand(commands: Any, name: str, text: str) -> OneLineParser:
    """A new one of a command, described by `text`. `commands` is what `add_subparsers` gave."""
    made: OneLineParser = commands.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
    made.allow_abbrev = False
    add_verbose(made)
    return made


def add_verbose(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-v", "--verbose", action="store_true", default=argparse.SUPPRESS, help="more output; whole tracebacks"
    )
