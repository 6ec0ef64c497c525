"""`vf-export RUN`: a finished run as training data."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from verifiers.cli.ending import ended
from verifiers.cli.parsing import OneLineParser, command_parser, count, number
from verifiers.errors import ConfigError

if TYPE_CHECKING:
    from verifiers.results.record import Record

PROG = "vf-export"
EXAMPLES = """\
vf-export outputs/evals/ENV--MODEL/RUN --min-reward 1  what went right
vf-export RUN --format dpo -o - | head                 preference pairs
vf-export RUN --format rows --to parquet               token ids"""
STDOUT = "-"
_SUFFIX = {"jsonl": ".jsonl", "parquet": ".parquet", "datasets": ""}


def parser() -> OneLineParser:
    from verifiers.training.exports import FORMATS, TARGETS

    made = command_parser(PROG, "Write a finished run as training data.", EXAMPLES)
    made.add_argument("run", help="a run folder, or a results.jsonl")
    made.add_argument("--format", default="sft", choices=FORMATS, help="default: sft")
    made.add_argument("-o", "--output", type=Path, help="file or folder to write, - for stdout (default: in RUN)")
    made.add_argument("--to", default="jsonl", choices=TARGETS, help="default: jsonl")
    choice = made.add_argument_group("which rollouts; unscored ones are never exported")
    choice.add_argument("--min-reward", type=number, metavar="X", help="leave out rollouts below it")
    choice.add_argument("--max-reward", type=number, metavar="X", help="leave out rollouts above it")
    choice.add_argument("--best-of", type=count, metavar="K", help="the K best of each task")
    choice.add_argument("--max-per-task", type=count, metavar="N", help="at most N of each task")
    choice.add_argument("--max-total", type=count, metavar="N", help="at most N in all")
    choice.add_argument("--keep-duplicates", action="store_true", help="keep rollouts of a task that say the same")
    choice.add_argument("--keep-truncated", action="store_true", help="keep rollouts that were cut off")
    form = made.add_argument_group("of one format")
    form.add_argument("--messages", action="store_true", help="sft: messages, also where token ids were recorded")
    form.add_argument("--min-gap", type=number, default=0.0, metavar="X", help="dpo: rewards must differ by more")
    form.add_argument("--pairs-per-task", type=count, default=1, metavar="N", help="dpo: at most N pairs (default: 1)")
    form.add_argument(
        "--threshold", type=number, default=0.5, metavar="X", help="kto: reward of a good one (default: 0.5)"
    )
    return made


def _export(arguments: argparse.Namespace) -> None:
    from verifiers.results.read import read_records
    from verifiers.training.exports import examples_of, write, write_lines
    from verifiers.training.select import Selection, select

    selection = Selection(
        min_reward=arguments.min_reward,
        max_reward=arguments.max_reward,
        truncated=arguments.keep_truncated,
        dedupe=not arguments.keep_duplicates,
        best_of=arguments.best_of,
        max_per_task=arguments.max_per_task,
        max_total=arguments.max_total,
    )
    source = read_records(arguments.run)
    records = list(source)
    chosen = select(records, selection)
    options: dict[str, dict[str, Any]] = {
        "sft": {"tokens": False if arguments.messages else None},
        "dpo": {"min_gap": arguments.min_gap, "pairs_per_task": arguments.pairs_per_task},
        "kto": {"threshold": arguments.threshold},
        "rows": {},
    }
    examples = list(examples_of(chosen, arguments.format, **options[arguments.format]))
    if not examples:
        raise ConfigError(f"nothing to write: {_why_nothing(arguments.format, records, chosen)}")
    of = f"from {len(chosen)} of {len(records)} rollouts"
    if str(arguments.output) == STDOUT:
        if arguments.to != "jsonl":
            raise ConfigError(f"only --to jsonl can go to stdout, not {arguments.to}")
        written = write_lines(examples, sys.stdout.buffer)
        print(f"{written} examples {of}", file=sys.stderr)
        return
    path = arguments.output or _default(Path(arguments.run), arguments.format, arguments.to)
    written = write(examples, path, arguments.to)
    print(f"{written} examples {of}: {path}")


def _why_nothing(form: str, records: Sequence[Record], chosen: Sequence[Record]) -> str:
    scored = sum(1 for record in records if record.error is None and record.reward is not None)
    if chosen and form == "dpo":
        return f"no task among {len(chosen)} rollouts has two whose rewards differ enough (see --min-gap)"
    cut = sum(1 for record in records if record.is_truncated)
    also = f"; {cut} were cut off (see --keep-truncated)" if cut else ""
    return f"of {len(records)} rollouts {scored} are scored and {len(chosen)} of those fit what was asked for{also}"


def _default(run: Path, form: str, target: str) -> Path:
    return (run if run.is_dir() else run.parent) / f"{form}{_SUFFIX[target]}"


def main(argv: Sequence[str] | None = None) -> int:
    """The exit status: 2 also if there is nothing to write."""
    return ended(PROG, parser, _export, argv)


if __name__ == "__main__":
    sys.exit(main())
