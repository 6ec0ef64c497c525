"""What makes two runs the same run: the plan, its digest, and how a harness is told from another of its name."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from verifiers.envs.whole import Whole
from verifiers.rollout.run import Work
from verifiers.session import Harness


def plan_of(env: Whole, work: Work, *, split: str = "eval", shuffle: bool = False) -> dict[str, Any]:
    """What two runs must have in common to be the same run; how many examples and rollouts may differ."""
    loaded = getattr(env, "loaded", None)
    described = work.model.describe()
    return {
        "env": env.env_id or type(env).__name__,
        "env_digest": getattr(loaded, "digest", ""),
        "env_args": env.env_args,
        "split": split,
        "shuffle": shuffle,
        "model": described,
        "harness": work.harness.name,
        "harness_options": _options(work.harness),
        "sandbox": work.sandbox if isinstance(work.sandbox, str) else type(work.sandbox).__name__,
        "sampling": dict(work.sampling),
        "limits": {name: getattr(work.limits, name) for name in work.limits.__slots__},
        "seed": work.seed,
        **({"keep_tokens": True} if work.keep_tokens else {}),
        **({"text_tool_calls": True} if getattr(env, "text_tool_calls", False) else {}),
    }


def plan_digest(plan: Mapping[str, Any]) -> str:
    """16 hex digits over a plan."""
    packed = msgspec.json.encode(plan, enc_hook=repr, order="sorted")
    return hashlib.blake2b(packed, digest_size=8).hexdigest()


def _options(harness: Harness) -> dict[str, Any]:
    """What a harness says of itself; of one that did not come along, also what it is made of, as it may say nothing."""
    describe = getattr(harness, "describe", None)
    said = {} if describe is None else {key: value for key, value in describe().items() if key != "name"}
    kind = type(harness)
    if kind.__module__.startswith("verifiers."):
        return said
    plain = {
        key: value
        for key, value in getattr(harness, "__dict__", {}).items()
        if value is None or isinstance(value, str | int | float)
    }
    return {**plain, **said, "class": f"{kind.__module__}:{kind.__qualname__}", "code": _code_digest(kind)}


def _code_digest(kind: type) -> str:
    """16 hex digits over the file that defines a class; '' if there is none."""
    try:
        source = Path(inspect.getfile(kind)).read_bytes()
    except (TypeError, OSError):  # defined in a shell or a notebook
        return ""
    return hashlib.blake2b(source, digest_size=8).hexdigest()
