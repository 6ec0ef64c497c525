"""`vf-train CONFIG`: train a model in environments, with an evaluation before and after."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from verifiers.cli.options import OneLineParser
from verifiers.errors import VerifiersError

PROG = "vf-train"


def parser() -> OneLineParser:
    made = OneLineParser(prog=PROG, description="Train a model in environments.")
    made.add_argument("config", type=Path, help="a TOML file; docs/training.md describes it")
    made.add_argument("--dry-run", action="store_true", help="print the plan and stop")
    made.add_argument("--resume", action="store_true", help="continue from the latest checkpoint")
    made.add_argument("--json", action="store_true", help="print the comparison as JSON")
    return made


def _train(arguments: argparse.Namespace) -> None:
    from verifiers.training.plan import lines, read_plan, table

    plan = read_plan(arguments.config)
    if arguments.dry_run:
        print("\n".join(lines(plan)))
        return
    from verifiers.training.train import report_lines, train

    report = train(plan, resume=arguments.resume, say=lambda text: print(text, file=sys.stderr))
    if arguments.json:
        print(json.dumps(report_lines(report)))
        return
    if report.tasks:
        print(table(report.tasks))
    print(f"trained in {report.seconds:.0f} s; weights in {report.output_dir / 'model'}")


def main(argv: list[str] | None = None) -> int:
    """0: trained; 2: wrong input; 130: interrupted; 1: a bug."""
    arguments = parser().parse_args(argv)
    try:
        _train(arguments)
    except KeyboardInterrupt:
        return 130
    except VerifiersError as error:
        print(f"{PROG}: error: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
