"""Whether reward functions can have the arguments they ask for, before anything is generated.

The one rule: only what is certain is refused. Environments may put into a state whatever they like, and functions may
ask for it, so a name is refused where nobody's code could put it there, or where it is a likely misspelling that no
code of the environment ever mentions.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from verifiers.envs.whole import Whole
from verifiers.errors import ConfigError, nearest
from verifiers.rubrics.calling import Function
from verifiers.rubrics.rubric import Rubric
from verifiers.rubrics.rubric_group import RubricGroup
from verifiers.session import Harness

LIKELY = 0.82
"""Similarity from which a name passes for a misspelling of another (`difflib`, 0..1)."""
OF_THE_ENGINE = frozenset(
    (
        *("example_id", "client", "model", "sampling_args", "trajectory", "trajectory_id", "is_completed"),
        *("is_truncated", "stop_condition", "reward", "metrics", "error", "final_env_response", "tool_defs", "timing"),
        *("usage", "usage_tracker", "timed_out", "prompt_too_long", "sandbox", "sandbox_id", "sandbox_state"),
        *("python_state", "artifacts", "checks", "checked", "limit", "unusable", "verdict", "judge_response"),
        *("judge_score", "math_verify_score", "src_id", "text_tools", "no_programs"),
    )
)
"""What this library itself puts into the state of a rollout, in one environment or another."""


def check_reward_arguments(env: Whole, columns: Collection[str] | None, harness: Harness) -> None:
    """
    Args:
        columns: of the tasks; None: not known.

    Raises:
        ConfigError: a reward function asks for something that it cannot have.
    """
    for rubric in _rubrics(env.rubric):
        if _calls_otherwise(rubric):
            continue
        for function, weight in zip(rubric.functions(), rubric.get_reward_weights(), strict=False):
            allowed = _allowed(function, rubric, columns or ())
            for name in function.unknown(allowed) if weight else ():
                if _is_certain(name, function, env, columns, harness, allowed):
                    raise ConfigError(
                        f"reward function {function.name!r} asks for {name!r}, which nothing gives it"
                        f"{_meant(name, allowed)} It can have: {', '.join(allowed)}"
                    )


def _rubrics(rubric: Rubric) -> Iterator[Rubric]:
    if isinstance(rubric, RubricGroup) and not _calls_otherwise(rubric):
        for member in rubric.rubrics:
            yield from _rubrics(member)
    else:
        yield rubric


def _calls_otherwise(rubric: Rubric) -> bool:
    """Whether its functions are called by code of the user's, with arguments of its own."""
    names = {name for kind in type(rubric).__mro__ if not _is_ours(kind) for name in vars(kind)} | set(vars(rubric))
    return any(name in ("score_rollout", "score_group", "functions") or "call" in name for name in names)


def _allowed(function: Function, rubric: Rubric, columns: Collection[str]) -> list[str]:
    return list(
        dict.fromkeys([*function.offered, *rubric.class_objects, *(() if function.is_group else sorted(columns))])
    )


def _is_certain(
    name: str,
    function: Function,
    env: Whole,
    columns: Collection[str] | None,
    harness: Harness,
    allowed: Collection[str],
) -> bool:
    if function.is_group:
        return True  # these are given lists and class objects, whatever is in the states
    if name in OF_THE_ENGINE:
        return False
    code = _foreign_code(env, function, harness)
    if not code and columns is not None:
        return True
    likely = get_close_matches(name, allowed, n=1, cutoff=LIKELY)
    return bool(likely) and not _mentions({*code, _file_of(function.call)}, name)


def _foreign_code(env: Whole, asking: Function, harness: Harness) -> set[Path | None]:
    """The files of everybody who can write into a state here, this library apart; None: one without a file."""
    rubrics = list(_rubrics(env.rubric))
    kinds = {kind for one in (env, harness, *rubrics) for kind in type(one).__mro__}
    calls = [value for name, value in vars(env).items() if callable(value) and hasattr(type(env), name)]
    calls += [
        function.call
        for rubric in rubrics
        for function in rubric.functions()
        if function.call is not asking.call and function.sees_state
    ]
    found = {file for kind in kinds if not _is_ours(kind) for file in _files_of_class(kind)}
    return found | {_file_of(call) for call in calls if not _is_ours(call)}


def _is_ours(thing: Any) -> bool:
    module = getattr(thing, "__module__", None) or type(thing).__module__
    return module.partition(".")[0] in ("verifiers", "builtins", "typing", "abc")


def _files_of_class(kind: type) -> set[Path | None]:
    members = [getattr(member, "fget", member) for member in vars(kind).values()]
    return {_file_of(member) for member in members if callable(getattr(member, "__func__", member))}


def _file_of(call: Any) -> Path | None:
    """Where a function is defined; None: in no file that can be read."""
    function = getattr(call, "func", call)  # of functools.partial
    function = getattr(function, "__func__", function)
    code = getattr(function, "__code__", None) or getattr(type(function).__call__, "__code__", None)
    file = None if code is None else Path(code.co_filename)
    return file if file is not None and file.is_file() else None


def _mentions(files: Collection[Path | None], name: str) -> bool:
    """Whether the packages of these files name a key or a keyword so; code that cannot be read may."""
    key = re.compile(rf"['\"]{re.escape(name)}['\"]|\b{re.escape(name)}\s*=")
    return any(
        file is None or any(key.search(source.read_text("utf-8", "replace")) for source in _package_of(file))
        for file in files
    )


def _package_of(file: Path) -> Iterable[Path]:
    root = file.parent
    if not (root / "__init__.py").exists():
        return [file]
    while (root.parent / "__init__.py").exists():
        root = root.parent
    return root.rglob("*.py")


def _meant(name: str, allowed: list[str]) -> str:
    close = get_close_matches(name, allowed, n=1, cutoff=0.6)
    return nearest(name, close) if close else "."
