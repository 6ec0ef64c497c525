"""`vf-train CONFIG`: train a model in environments, with an evaluation before and after."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from verifiers.cli.ending import Say, ended, json_alone
from verifiers.cli.parsing import OneLineParser, command_parser

PROG = "vf-train"
EXAMPLES = """\
vf-train train.toml --dry-run     check the file and print what would be done
vf-train train.toml
vf-train train.toml --resume      go on from the latest checkpoint"""


def parser() -> OneLineParser:
    made = command_parser(PROG, "Train a model in environments.", EXAMPLES)
    made.add_argument("config", type=Path, help="a TOML file; docs/training.md describes it")
    made.add_argument("--dry-run", action="store_true", help="print the plan and stop")
    made.add_argument("--resume", action="store_true", help="continue from the latest checkpoint")
    made.add_argument("--json", action="store_true", help="print the comparison as one JSON object")
    return made


def _train(arguments: argparse.Namespace) -> None:
    with json_alone(arguments.json) as say:
        _trained(arguments, say)


def _trained(arguments: argparse.Namespace, say: Say) -> None:
    from verifiers.training.plan import lines, read_plan, table

    plan = read_plan(arguments.config)
    if arguments.dry_run:
        print("\n".join(lines(plan)))
        return
    from verifiers.training.train import report_lines, train

    report = train(plan, resume=arguments.resume, say=lambda text: print(text, file=sys.stderr))
    if arguments.json:
        say(report_lines(report))
        return
    if report.tasks:
        print(table(report.tasks))
    print(f"trained in {report.seconds:.0f} s; weights in {report.output_dir / 'model'}")


def main(argv: Sequence[str] | None = None) -> int:
    """The exit status."""
    return ended(PROG, parser, _train, argv)


if __name__ == "__main__":
    sys.exit(main())
