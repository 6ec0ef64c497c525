"""Rows a caller gives to `generate`: which of them are the same example, and in which order results go back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from verifiers.envs.outputs import GenerateOutputs
from verifiers.envs.whole import Whole
from verifiers.task import Task


@dataclass(frozen=True)
class Given:
    """Rows as tasks."""

    rows: list[Any]
    tasks: list[Task]
    """Each example once."""
    repeats: int
    """How often each example was given."""
    places: list[tuple[int, int]]
    """For each row, which task it is and the how manieth of it."""

    def in_order(self, results: GenerateOutputs, rollouts: int) -> GenerateOutputs:
        """Results with one stretch of `rollouts` for each row, in the order of the rows."""
        if self.repeats == 1:
            return results
        size = self.repeats * rollouts
        order = [task * size + number * rollouts + turn for task, number in self.places for turn in range(rollouts)]
        outputs, states = results["outputs"], results["states"]
        return GenerateOutputs([outputs[i] for i in order], results["metadata"], [states[i] for i in order])


def given_inputs(env: Whole, inputs: Any) -> Given:
    """Rows from a dataset, from a dict of columns, or from dicts.

    Rows of one `example_id` with equal contents, each given equally often, are rollouts of one example. Where ids
    repeat in any other way, rows are numbered anew.
    """
    rows = _rows(inputs)
    tasks = [env.task_of(row, index) for index, row in enumerate(rows)]
    counts = Counter(task.example_id for task in tasks)
    repeats = max(counts.values(), default=1)
    if repeats == 1:
        return Given(rows, tasks, 1, [(index, 0) for index in range(len(rows))])
    first = {task.example_id: task for task in reversed(tasks)}
    even = set(counts.values()) == {repeats}
    if not even or any(task.digest() != first[task.example_id].digest() for task in tasks):
        tasks = [env.task_of({**row, "example_id": index}, index) for index, row in enumerate(rows)]
        return Given(rows, tasks, 1, [(index, 0) for index in range(len(rows))])
    number = {example_id: index for index, example_id in enumerate(counts)}
    seen: Counter[Any] = Counter()
    places: list[tuple[int, int]] = []
    for task in tasks:
        places.append((number[task.example_id], seen[task.example_id]))
        seen[task.example_id] += 1
    return Given(rows, [first[example_id] for example_id in counts], repeats, places)


def _rows(inputs: Any) -> list[Any]:
    if hasattr(inputs, "to_list"):
        return inputs.to_list()
    if isinstance(inputs, Mapping):
        columns = cast(Mapping[str, Sequence[Any]], inputs)
        count = max((len(values) for values in columns.values()), default=0)
        return [{name: values[index] for name, values in columns.items()} for index in range(count)]
    return list(inputs)
