"""`vf-eval ENV`: measure a model in an environment. Exit status: 0 completed, 2 wrong input, 3 too much unscored,
130 interrupted, 1 a bug.

Only argument parsing is loaded before it is known what is asked.
"""

from __future__ import annotations

import sys
from typing import Any

from verifiers.cli.ending import ended, json_alone
from verifiers.cli.options import given

PROG = "vf-eval"


def main(argv: list[str] | None = None) -> int:
    """The exit status of one command."""
    arguments = sys.argv[1:] if argv is None else argv
    values = given(arguments)

    def run() -> int:
        if "completion" in values:
            return _print_completion(values["completion"])
        return _evaluate(values, arguments)

    return ended(PROG, run, verbose="verbose" in values)


def _evaluate(values: dict[str, Any], arguments: list[str]) -> int:
    from verifiers.cli.matrix import measure_all
    from verifiers.cli.settings import settings

    asked = settings(values)
    with json_alone(asked.as_json) as say:
        return measure_all(asked, [PROG, *arguments], say)


def _print_completion(shell: str) -> int:
    from verifiers.cli.completion import SHELLS, script
    from verifiers.errors import ConfigError, nearest

    if shell not in SHELLS:
        raise ConfigError(f"no completion for {shell!r}{nearest(shell, SHELLS)}")
    print(script(shell), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
