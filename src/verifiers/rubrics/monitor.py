"""Metrics every environment of a kind reports by itself."""

from __future__ import annotations

from collections import Counter
from typing import Any

from verifiers.rubrics.rubric import Rubric
from verifiers.state import State


class MultiTurnMonitorRubric(Rubric):
    """`num_turns`: steps of the trajectory."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.add_metric(self.num_turns)

    async def num_turns(self, state: State) -> float:
        return float(len(state.get("trajectory") or ()))


class ToolMonitorRubric(Rubric):
    """`total_tool_calls`, and `<tool>_calls` for each tool offered."""

    def __init__(self, tool_names: list[str] | None = None, **options: Any) -> None:
        super().__init__(**options)
        self.add_metric(self.total_tool_calls)
        self.tool_names: list[str] = []
        for name in tool_names or []:
            self.add_tool_metric(name)

    async def total_tool_calls(self, state: State) -> float:
        return float(sum(_calls(state).values()))

    def add_tool_metric(self, name: str) -> None:
        async def calls(state: State) -> float:
            return float(_calls(state)[name])

        calls.__name__ = f"{name}_calls"
        self.add_metric(calls)
        self.tool_names.append(name)

    def remove_tool_metric(self, name: str) -> None:
        for index, function in enumerate(self.funcs):
            if getattr(function, "__name__", "") == f"{name}_calls":
                del self.funcs[index], self.weights[index]
                self.tool_names.remove(name)
                return


class SandboxMonitorRubric(Rubric):
    """`sandbox_ready_wait_time` and the mean `sandbox_command_execution_time`, in seconds."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.add_metric(self.sandbox_ready_wait_time)
        self.add_metric(self.sandbox_command_execution_time)

    async def sandbox_ready_wait_time(self, state: State) -> float:
        return float((state.get("sandbox_state") or {}).get("ready_wait_time") or 0.0)

    async def sandbox_command_execution_time(self, state: State) -> float:
        times = (state.get("sandbox_state") or {}).get("command_execution_times") or []
        return sum(times) / len(times) if times else 0.0


class PythonMonitorRubric(Rubric):
    """`python_ready_wait_time`: seconds until a rollout's Python session was there."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.add_metric(self.python_ready_wait_time)

    async def python_ready_wait_time(self, state: State) -> float:
        return float((state.get("python_state") or {}).get("ready_wait_time") or 0.0)


def _calls(state: State) -> Counter[str]:
    completion = state.get("completion") or []
    if isinstance(completion, str):
        return Counter()
    return Counter(call["name"] for message in completion for call in message.get("tool_calls") or ())
