"""Where tasks come from: datasets, lists, JSONL files, functions that make any of these, generators.

Lazy: rows are read when they are asked for. A source without an end can be used as long as a bound is given.
"""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from verifiers.errors import ConfigError
from verifiers.task import Task
from verifiers.tasks.rows import RowReader


class TaskSource:
    """Tasks of one split."""

    def __init__(self, source: Any, reader: RowReader) -> None:
        """
        Args:
            source: a `datasets.Dataset`, a sequence or iterable of dicts, the path of a JSONL file, or a function
                without arguments that returns one of these (called at first use).
        """
        self._source, self._reader = source, reader
        self._rows: Any = None
        self._seen: list[Mapping[str, Any]] = []

    @property
    def rows(self) -> Any:
        """The rows as they came, built at first use."""
        if self._rows is None:
            self._rows = _opened(self._source)
        return self._rows

    def __len__(self) -> int:
        """Number of tasks.

        Raises:
            TypeError: the source does not know its end.
        """
        return len(self.rows)

    @property
    def is_sized(self) -> bool:
        return hasattr(self.rows, "__len__")

    def columns(self) -> frozenset[str] | None:
        """Names that any row has, of rows that were opened already; None: not known."""
        rows = self._rows
        named = getattr(rows, "column_names", None)
        if isinstance(named, list):
            return frozenset(cast(list[str], named))
        if not isinstance(rows, Sequence):
            return None
        found: set[str] = set()
        for row in cast(Sequence[Any], rows):
            found.update(row.columns if isinstance(row, Task) else row if isinstance(row, Mapping) else ())
        return frozenset(found)

    def __iter__(self) -> Iterator[Task]:
        return self.select()

    def select(self, n: int = -1, *, shuffle: bool = False, seed: int | None = None) -> Iterator[Task]:
        """The first `n` tasks, or `n` drawn without replacement.

        Args:
            n: how many; -1 (or None) for all; more than there are gives all.
            seed: of the shuffle; None: 0, so that the same command always sees the same tasks.

        Raises:
            ConfigError: no bound on a source without an end, or shuffling one; a task id that comes twice.
        """
        bound = None if n is None or n < 0 else n
        if not self.is_sized:
            if shuffle:
                raise ConfigError("tasks made one by one cannot be shuffled; give the environment a seed instead")
            if bound is None:
                raise ConfigError("these tasks have no end: say how many with num_examples (-n)")
            return self._unique(itertools.islice(self._generated(), bound))
        order: Iterable[int] = range(len(self.rows))
        if shuffle:
            order = random.Random(seed or 0).sample(range(len(self.rows)), len(self.rows))
        chosen = itertools.islice(order, bound)
        return self._unique((index, self.rows[index]) for index in chosen)

    def _generated(self) -> Iterator[tuple[int, Mapping[str, Any]]]:
        yield from enumerate(self._seen)
        fresh = self.rows if isinstance(self.rows, Iterator) else iter(self.rows)
        once = fresh is self.rows
        for index, row in enumerate(fresh, start=len(self._seen) if once else 0):
            if once:
                self._seen.append(row)  # an iterator can be read one time only; a second run sees the same rows
            elif index < len(self._seen):
                continue
            yield index, row

    def _unique(self, rows: Iterable[tuple[int, Mapping[str, Any]]]) -> Iterator[Task]:
        seen: set[Any] = set()
        for index, row in rows:
            task = self._reader.task_of(row, index)
            if task.example_id in seen:
                raise ConfigError(f"example_id {task.example_id!r} comes twice; ids must be unique within a split")
            seen.add(task.example_id)
            yield task


def _opened(source: Any) -> Any:
    if isinstance(source, Callable):
        source = cast(Callable[[], Any], source)()
    if isinstance(source, str | Path):
        return read_jsonl(Path(source))
    if isinstance(source, Mapping):
        raise ConfigError(f"a split is needed, got several: {', '.join(map(str, cast(Mapping[Any, Any], source)))}")
    if not isinstance(source, Iterable):
        raise ConfigError(f"tasks must be rows (a dataset, a list of dicts, a JSONL path); got {source!r:.100}")
    if isinstance(source, Sequence) or (hasattr(source, "__getitem__") and hasattr(source, "__len__")):
        return source
    return cast(Any, source)


def read_jsonl(path: Path) -> list[dict[str, Any]]:
    """Rows of a JSONL file.

    Raises:
        ConfigError: the file is missing, or a line is no JSON object; the message names the line.
    """
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except OSError as error:
        raise ConfigError(f"cannot read tasks from {str(path)!r}: {error.strerror}") from None
    rows: list[dict[str, Any]] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            raise ConfigError(f"{path}:{number}: not JSON: {error}") from None
        if not isinstance(row, dict):
            raise ConfigError(f"{path}:{number}: a task must be an object, got {line[:80]!r}")
        rows.append(cast(dict[str, Any], row))
    return rows
