"""How far a run is: a bar on a terminal, a line now and then elsewhere. Written to stderr."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Self

from verifiers.results.record import Record
from verifiers.results.summary import Summary

_PLAIN_EVERY_S = 10.0


class Progress(AbstractContextManager["Progress"]):
    """Shows progress while it is entered; give it every finished record."""

    def __init__(self, total: int | None) -> None:
        """`total` is how many rollouts the run has; None: not known."""
        self._seen = Summary()
        self._total, self._kept = total, 0
        self._bar: Any = None
        self._task: Any = None
        self._next_line_s = 0.0

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            self._bar = _bar()
            self._task = self._bar.add_task("", total=self._total)
            self._bar.start()
        self._next_line_s = time.monotonic() + _PLAIN_EVERY_S
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.stop()
        elif self._seen.n:
            self._line()

    def skip(self, kept: int) -> None:
        """Count rollouts that were finished before; their rewards are not in the running mean."""
        self._kept += kept
        if self._bar is not None:
            self._bar.update(self._task, advance=kept)

    def add(self, records: Sequence[Record]) -> None:
        for record in records:
            self._seen.add(record)
        if self._bar is not None:
            self._bar.update(self._task, advance=len(records), description=_text(self._seen))
        elif time.monotonic() >= self._next_line_s:
            self._line()

    def _line(self) -> None:
        total = "" if self._total is None else f" of {self._total}"
        print(f"{self._kept + self._seen.n}{total} rollouts, {_text(self._seen)}", file=sys.stderr, flush=True)
        self._next_line_s = time.monotonic() + _PLAIN_EVERY_S


def _text(seen: Summary) -> str:
    reward = "reward -" if seen.reward is None else f"reward {seen.reward:.3f}"
    return f"{reward}, {seen.n_unscored} unscored" if seen.n_unscored else reward


def _bar() -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    return Bar(
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("rollouts"),
        TextColumn("{task.description}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
    )
