"""What callers of `evaluate` and `generate` are told while a run goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from verifiers.envs.outputs import Output, metadata_of, output_of
from verifiers.messages import as_messages, thaw
from verifiers.results.record import Record
from verifiers.rollout.run import Work
from verifiers.task import Task

OnStart: TypeAlias = Callable[[list[dict[str, Any]], list[Any]], Any]
"""Given a row for each rollout, and the rows of those that are still to be run, an example's together."""
OnProgress: TypeAlias = Callable[[list[Output], list[Output], Mapping[str, Any]], Any]
"""Given all outputs so far, those that were just finished, and the metadata that sums all of them up."""


@dataclass
class Callbacks:
    """The caller's functions, each called in the event loop's thread; what they raise ends the run."""

    on_start: OnStart | None = None
    on_progress: OnProgress | Sequence[OnProgress] | None = None
    on_log: Callable[[str], Any] | None = None
    on_record: Callable[[Record], Any] | None = None
    outputs: list[Output] = field(default_factory=list[Output])
    """What `on_progress` has been told of."""

    def started(self, work: Work, tasks: Sequence[Task], done: Callable[[Task, int], bool] | None = None) -> None:
        """Before the first rollout; not at all where every one is done."""
        if self.on_start is None:
            return
        left: list[list[dict[str, Any]]] = []
        for task in tasks:
            open_ones = [n for n in range(work.rollouts_per_example) if done is None or not done(task, n)]
            if open_ones and work.rubric_of(task).scores_groups:
                open_ones = list(range(work.rollouts_per_example))
            if open_ones:
                left.append([_row_of(task) for _ in open_ones])
        if left:
            self.on_start([_row_of(task) for _ in range(work.rollouts_per_example) for task in tasks], left)

    def kept(self, records: Iterator[Record]) -> None:
        """What an earlier session of this run had finished."""
        if self.on_progress is not None:
            self.outputs += [output_of(record) for record in records if record.reward is not None]

    def finished(self, work: Work, records: Sequence[Record]) -> None:
        """After these were finished together."""
        for record in records if self.on_record is not None else ():
            self.on_record(record)  # pyright: ignore[reportOptionalCall]
        if self.on_progress is not None:
            self.progressed([output_of(record) for record in records], lambda outputs: metadata_of(outputs, work))

    def progressed(self, new: list[Output], metadata_of: Callable[[list[Output]], Mapping[str, Any]]) -> None:
        """After these outputs were finished together."""
        if self.on_progress is None:
            return
        self.outputs += new
        count = len(self.outputs)
        metadata = Later(lambda: metadata_of(self.outputs[:count]))
        for callback in [self.on_progress] if callable(self.on_progress) else self.on_progress:
            callback(self.outputs, new, metadata)

    def log(self, line: str) -> None:
        if self.on_log is not None:
            self.on_log(line)


class Later(dict[str, Any]):
    """A dict that is computed when it is first looked at: most callbacks count and never look."""

    def __init__(self, make: Callable[[], Mapping[str, Any]]) -> None:
        super().__init__()
        self._make: Callable[[], Mapping[str, Any]] | None = make

    def _made(self) -> dict[str, Any]:
        if self._make is not None:
            make, self._make = self._make, None
            self.update(make())
        return self

    def __getitem__(self, key: str) -> Any:
        return dict.__getitem__(self._made(), key)

    def __contains__(self, key: object) -> bool:
        return dict.__contains__(self._made(), key)

    def __iter__(self) -> Iterator[str]:
        return dict.__iter__(self._made())

    def __len__(self) -> int:
        return dict.__len__(self._made())

    def __repr__(self) -> str:
        return dict.__repr__(self._made())

    def get(self, key: str, default: Any = None) -> Any:
        return dict.get(self._made(), key, default)

    def keys(self) -> Any:
        return dict.keys(self._made())

    def items(self) -> Any:
        return dict.items(self._made())

    def values(self) -> Any:
        return dict.values(self._made())


def _row_of(task: Task) -> dict[str, Any]:
    prompt = task.prompt if isinstance(task.prompt, str) else as_messages(thaw(task.prompt))
    row = {**task.columns, "answer": task.answer, "info": task.info, "task": task.task}
    return {**thaw(row), "example_id": task.example_id, "prompt": prompt}
