"""`load_harness`: from a name, an entry point, a path or a command line to a harness."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any, cast

from verifiers.errors import ConfigError, nearest
from verifiers.harnesses.agents import PROGRAMS, command_program
from verifiers.session import Harness

ENTRY_POINTS = "verifiers.harnesses"
BUILT_IN = {
    "chat": "verifiers.harnesses.chat:ChatHarness",
    "bash": "verifiers.harnesses.bash:BashHarness",
    "oracle": "verifiers.harnesses.checks:OracleHarness",
    "noop": "verifiers.harnesses.checks:NoopHarness",
}
"""Name -> `module:class`, imported when first asked for."""
COMMAND = "command:"
"""What begins the name of a harness that is a shell line."""


def harness_names() -> list[str]:
    """Every name `load_harness` takes, installed packages' included."""
    return sorted({*BUILT_IN, *PROGRAMS, *(point.name for point in metadata.entry_points(group=ENTRY_POINTS))})


def load_harness(name: str | Harness, **options: Any) -> Harness:
    """A harness, ready to run.

    Args:
        name: a built-in or installed one, `command:` and a shell line, `module:NAME`, `file.py:NAME`, or a harness,
            which is returned.
        options: of its class or function.

    Raises:
        ConfigError: there is none of this name, or it does not take an option.
    """
    if not isinstance(name, str):
        return name
    if name in PROGRAMS or name.startswith(COMMAND):
        return _program(name, options)
    if name in BUILT_IN:
        return _made(_attribute(BUILT_IN[name]), name, options)
    for point in metadata.entry_points(group=ENTRY_POINTS):
        if point.name == name:
            return _made(point.load(), name, options)
    if ":" in name:
        return _made(_attribute(name), name, options)
    raise ConfigError(f"no harness {name!r}{nearest(name, harness_names())} (or give module:NAME, or file.py:NAME)")


def _program(name: str, options: dict[str, Any]) -> Harness:
    running = importlib.import_module("verifiers.harnesses.running")  # brings an HTTP server along
    if not name.removeprefix(COMMAND).strip():
        raise ConfigError(f"harness {name!r} runs nothing; give a line such as {COMMAND + 'my-agent --once'!r}")
    program = PROGRAMS[name] if name in PROGRAMS else command_program(name.removeprefix(COMMAND))
    _check(running.ProgramHarness, name, {"program": program, **options})
    return running.ProgramHarness(program, **options)


def _attribute(name: str) -> Any:
    place, _, attribute = name.rpartition(":")
    path = Path(place).expanduser()
    if path.suffix == ".py":
        if not path.is_file():
            raise ConfigError(f"harness {name!r}: there is no file {str(path)!r}")
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    else:
        try:
            module = importlib.import_module(place)
        except ModuleNotFoundError as error:
            raise ConfigError(f"harness {name!r}: {error}") from error
    if not hasattr(module, attribute):
        raise ConfigError(f"harness {name!r}: {place!r} has no {attribute!r}")
    return getattr(module, attribute)


def _made(found: Any, name: str, options: dict[str, Any]) -> Harness:
    """`found` itself where it is a harness already, else what it makes."""
    if inspect.isclass(found) or inspect.isroutine(found):
        _check(cast(Callable[..., Any], found), name, options)
        return cast(Any, found)(**options)
    if options:
        raise ConfigError(f"harness {name!r} takes no options")
    return found


def _check(make: Callable[..., Any], name: str, options: dict[str, Any]) -> None:
    parameters = inspect.signature(make).parameters
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return
    for option in options:
        if option not in parameters:
            raise ConfigError(f"harness {name!r} takes no option {option!r}{nearest(option, list(parameters))}")
