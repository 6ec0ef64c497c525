"""Several models in several harnesses: one run folder each, one table at the end."""

from __future__ import annotations

from collections.abc import Sequence

from verifiers.cli.ending import Say
from verifiers.cli.measure import checked_harness, load_asked, measure
from verifiers.cli.settings import EvalSettings
from verifiers.cli.table import print_whole
from verifiers.envs.saving import SavedRun
from verifiers.errors import ConfigError
from verifiers.evals.matrix import COLUMNS, Cell, Line, cells, line_of, rows


def measure_all(asked: EvalSettings, command: Sequence[str], say: Say) -> int:
    """The exit status of a matrix: that of its cells, the worst of them. One cell is no matrix.

    Args:
        say: takes the result of each cell, and of the whole.

    Raises:
        ConfigError: a cell cannot work; none was started.
    """
    found = cells(asked.models, asked.harnesses)
    listed = [name for name in Cell._fields if isinstance(getattr(asked, name), list)]  # what is not stays unset
    alone = [asked.model_copy(update={name: getattr(cell, name) for name in listed}) for cell in found]
    if len(alone) == 1:
        return measure(alone[0], command, say)
    if asked.rescore is not None:
        raise ConfigError("--rescore judges one run: name one model and one harness")
    env = load_asked(asked)
    for cell in alone:
        checked_harness(cell, env)
    status, lines = 0, list[Line]()
    for number, cell in enumerate(alone, 1):
        harness = checked_harness(cell, env).name
        print(f"\n[{number} of {len(alone)}] {cell.one_model or 'default model'} in {harness}", flush=True)
        saved: list[SavedRun] = []
        status = max(status, measure(cell, command, say, saved))
        lines += [line_of(one.summary, harness) for one in saved]
    if lines:
        _print_comparison(lines)
    say({"env": asked.env, "cells": [line.to_json() for line in lines]})
    return status


def _print_comparison(lines: Sequence[Line]) -> None:
    from rich.markup import escape
    from rich.table import Table

    table = Table(title="comparison", title_justify="left")
    for name in COLUMNS:
        table.add_column(name, overflow="fold")
    for row in rows(lines):
        table.add_row(*map(escape, row))
    print_whole(table)
