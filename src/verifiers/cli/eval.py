"""`vf-eval ENV`: measure a model in an environment. Exit status: 0 completed, 2 wrong input, 3 too much unscored,
130 interrupted, 1 a bug.

Only argument parsing is loaded before it is known what is asked.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from verifiers.cli.ending import ended, json_alone
from verifiers.cli.options import given, parser

PROG = "vf-eval"


def main(argv: Sequence[str] | None = None) -> int:
    """The exit status of one command."""
    command = sys.argv[1:] if argv is None else argv
    return ended(PROG, parser, lambda arguments: _run(arguments, command), argv)


def _run(arguments: argparse.Namespace, command: Sequence[str]) -> int:
    values = given(arguments)
    if "completion" in values:
        return _print_completion(values["completion"])
    from verifiers.cli.matrix import measure_all
    from verifiers.cli.settings import settings

    asked = settings(values)
    with json_alone(asked.as_json) as say:
        return measure_all(asked, [PROG, *command], say)


def _print_completion(shell: str) -> int:
    from verifiers.cli.completion import SHELLS, script
    from verifiers.errors import ConfigError, nearest

    if shell not in SHELLS:
        raise ConfigError(f"no completion for {shell!r}{nearest(shell, SHELLS)}")
    print(script(shell), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
