"""How a rubric's functions get their arguments: by name, resolved once for each function."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from verifiers.errors import ScorerError

_SINGULAR = ("prompt", "completion", "answer", "state", "task", "info")
_PLURAL = {f"{name}s": name for name in _SINGULAR}
_VARIADIC = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)


def function_name(function: Any) -> str:
    """The name a function has in metrics."""
    name = getattr(function, "__name__", None)
    if name is None and hasattr(function, "func"):  # functools.partial
        name = function_name(function.func)
    return name or type(function).__name__


@dataclass(frozen=True)
class Function:
    """A reward function and what it wants."""

    call: Callable[..., Any]
    name: str
    is_async: bool
    is_group: bool
    """It takes plural arguments and returns one value for each rollout of a group."""
    wants: tuple[str, ...]
    required: frozenset[str]
    takes_all: bool

    @classmethod
    def of(cls, call: Callable[..., Any]) -> Function:
        try:
            parameters = inspect.signature(call).parameters
        except (TypeError, ValueError):
            parameters = cast(Mapping[str, inspect.Parameter], {})
        named = [p for p in parameters.values() if p.kind not in _VARIADIC]
        wants = tuple(p.name for p in named)
        required = frozenset(p.name for p in named if p.default is inspect.Parameter.empty)
        return cls(
            call,
            function_name(call),
            _is_async(call),
            any(name in _PLURAL for name in wants),
            wants,
            required,
            any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values()),
        )

    def named(self, name: str) -> Function:
        return replace(self, name=name)

    @property
    def offered(self) -> tuple[str, ...]:
        """The names it can ask for in any rubric."""
        return tuple(_PLURAL) if self.is_group else _SINGULAR

    @property
    def sees_state(self) -> bool:
        """Whether it is given the state itself, and so may write into it."""
        return self.takes_all or not {"state", "states"}.isdisjoint(self.wants)

    def unknown(self, known: Container[str]) -> list[str]:
        """The parameters without a default that are not `known`, in their order."""
        return [name for name in self.wants if name in self.required and name not in known]

    def arguments(self, state: Mapping[str, Any], objects: Mapping[str, Any]) -> dict[str, Any]:
        """Arguments for one rollout.

        Raises:
            ScorerError: a parameter without default is neither a known name, an object nor a key of `state`.
        """
        row: Mapping[str, Any] = getattr(state, "row", None) or {}
        if self.takes_all:
            given = {**row, **{name: _read(state, name) for name in _SINGULAR}, **objects}
            return given | {name: state[name] for name in self.required if name not in given and name in state}
        found: dict[str, Any] = {}
        for name in self.wants:
            if name in objects:
                found[name] = objects[name]
            elif name in _SINGULAR:
                found[name] = _read(state, name)
            elif name in row:
                found[name] = row[name]
            elif name in self.required:
                if name not in state:
                    has = ", ".join([*_SINGULAR, *objects, *row])
                    raise ScorerError(f"{self.name} wants {name!r}; a reward function can have: {has}")
                found[name] = state[name]
        return found

    def group_arguments(self, states: Sequence[Mapping[str, Any]], objects: Mapping[str, Any]) -> dict[str, Any]:
        """Arguments for a group: lists in the order of `states`."""
        lists = {many: [_read(state, one) for state in states] for many, one in _PLURAL.items()}
        if self.takes_all:
            return lists | dict(objects)
        found: dict[str, Any] = {}
        for name in self.wants:
            if name in objects:
                found[name] = objects[name]
            elif name in lists:
                found[name] = lists[name]
            elif name in self.required:
                raise ScorerError(f"{self.name} wants {name!r}, which is no argument of a group reward function")
        return found


def _read(state: Mapping[str, Any], name: str) -> Any:
    if name == "state":
        return state
    value = state.get(name)
    if value is None:
        return {"answer": "", "task": "default", "info": {}}.get(name)
    return value


def _is_async(call: Any) -> bool:
    while hasattr(call, "func") and not inspect.ismethod(call):
        call = call.func
    return inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(getattr(call, "__call__", None))  # noqa: B004


def number(value: Any, *, name: str) -> float | None:
    """A finite float; None stays None.

    Raises:
        ScorerError: `value` is no number, or not finite.
    """
    if value is None:
        return None
    try:
        result = float(value)
    except (TypeError, ValueError):
        raise ScorerError(f"{name} returned {value!r:.200}, which is not a number") from None
    if not math.isfinite(result):
        raise ScorerError(f"{name} returned {result}, which is not finite")
    return result
