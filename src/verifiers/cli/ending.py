"""How every command ends: its exit status, one line on stderr that says why, and stdout for its result alone.

Exit status: 0 done, 2 wrong input or a place that cannot be used, 130 interrupted, 1 a bug or a closed pipe.
"""

from __future__ import annotations

import argparse
import io
import json
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, redirect_stdout
from typing import Any, TypeAlias, cast

Say: TypeAlias = Callable[[Any], None]
"""Takes what a program is to read."""


def ended(
    program: str,
    parser: Callable[[], argparse.ArgumentParser],
    run: Callable[[argparse.Namespace], int | None],
    argv: Sequence[str] | None,
) -> int:
    """The exit status of a command: what `run` returns, 0 for None, or what its exception means.

    Args:
        parser: makes the one of the command line; `-v` among its options shows whole tracebacks.
        argv: the command line; None: this process's.
    """
    verbose = False
    try:
        out = cast(object, sys.stdout)
        if isinstance(out, io.TextIOWrapper):
            out.reconfigure(errors="backslashreplace")  # a name that the terminal cannot show stops nothing
        arguments = parser().parse_args(argv)
        verbose = "verbose" in arguments
        status = run(arguments) or 0
        print(end="", flush=True)  # a full disk is to be noticed here, not by the interpreter's last breath
    except KeyboardInterrupt as stop:
        print(f"{program}: {stop}" if str(stop) else f"{program}: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output has seen enough
        sys.stdout = None  # type: ignore[assignment]
        return 1
    except Exception as error:  # noqa: BLE001
        return _failed(program, error, verbose=verbose)
    return status


@contextmanager
def json_alone(asked: bool) -> Generator[Say]:
    """Gives what prints an object as one line of JSON; meanwhile whatever else is printed goes to stderr.

    Unless it is `asked` for, nothing is printed as JSON, and all else stays where it goes.
    """
    if not asked:
        yield lambda _: None
        return
    out = sys.stdout
    with redirect_stdout(sys.stderr):
        yield lambda found: print(json.dumps(found), file=out, flush=True)


def _failed(program: str, error: Exception, *, verbose: bool) -> int:
    from verifiers.errors import VerifiersError

    if verbose:
        import traceback

        traceback.print_exception(error)
    text = " ".join(str(error).split())
    if isinstance(error, VerifiersError):
        print(f"{program}: error: {text}", file=sys.stderr)
        return 2
    if isinstance(error, OSError) and error.strerror:
        place = error.filename2 or error.filename  # of a copy, where to
        what = f"cannot use {place!r}: " if place else ""
        print(f"{program}: error: {what}{error.strerror}", file=sys.stderr)
        if error.filename is None:
            _drop_unwritten()
        return 2
    hint = "" if verbose else " (run again with -v for the traceback)"
    print(f"{program}: error: {type(error).__name__}: {text}{hint}", file=sys.stderr)
    return 1


def _drop_unwritten() -> None:
    """What stdout still holds cannot be written; the interpreter would try again at its end, and say so."""
    try:
        sys.stdout.flush()
    except OSError:
        sys.stdout = None  # type: ignore[assignment]
