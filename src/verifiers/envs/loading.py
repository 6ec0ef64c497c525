"""`load_environment(id, **args)`: from a path, an installed package, an entry point, or the stock environments.

What was found, where, and in which version stays on the environment as `loaded`, so that it can be shown and recorded.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from verifiers.envs.swallowed import warn_of_swallowed
from verifiers.errors import ConfigError, nearest

if TYPE_CHECKING:
    from verifiers.envs.environment import Environment

TEXT_CALLS = "text_tool_calls"
"""An argument of every environment with tools: how the model calls them is the endpoint's matter, not the task's."""
ENTRY_POINTS = "verifiers.environments"
_STOCK = Path(__file__).parent / "stock"


@dataclass(frozen=True)
class Loaded:
    """Where an environment came from."""

    id: str
    kind: str
    """`path`, `package`, `entry point` or `stock`."""
    origin: str
    """The file its `load_environment` is in."""
    version: str | None
    digest: str
    """16 hex digits over the Python files of its module or package."""

    def __str__(self) -> str:
        version = f" {self.version}" if self.version else ""
        return f"{self.id}{version} ({self.kind}: {self.origin})"


def load_environment(env_id: str, **env_args: Any) -> Environment:
    """The environment `env_id`, made by its `load_environment(**env_args)`.

    Args:
        env_id: a folder or file; else the name of an installed package or module (`my-env` and `my_env` are the same,
            `owner/my-env` is `my-env`); else an entry point of the group `verifiers.environments`; else a stock one.

    Raises:
        ConfigError: nothing of that name, it does not import, or it does not take these arguments.
    """
    module, kind, version = _find(env_id)
    make = getattr(module, "load_environment", None) if isinstance(module, ModuleType) else module
    if make is None:
        raise ConfigError(f"{env_id!r} ({getattr(module, '__file__', module)}) has no function load_environment")
    as_text = env_args.get(TEXT_CALLS)
    taken = _taken(make, env_args)
    check_arguments(env_id, make, taken)
    env = make(**taken)
    if inspect.isawaitable(env):
        env = _awaited(env)
    if env is None:
        raise ConfigError(f"load_environment of {env_id!r} returned None; it must return the environment")
    if as_text is not None:
        _call_as_text(env_id, env, as_text)
    file = inspect.getsourcefile(make) or ""
    name = _plain_name(env_id)
    if file and kind != "stock":
        warn_of_swallowed(name, Path(file))
    env.loaded = Loaded(name, kind, file, version, _digest(Path(file)) if file else "")
    if hasattr(env, "env_id"):
        env.env_id = env.env_id or name
        env.env_args = env.env_args or dict(env_args)
    return env


def _taken(make: Callable[..., Any], args: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments without those that the library sees to where `make` knows nothing of them."""
    if TEXT_CALLS in inspect.signature(make).parameters:
        return dict(args)
    return {name: value for name, value in args.items() if name != TEXT_CALLS}


def _call_as_text(env_id: str, env: Any, wanted: Any) -> None:
    """
    Raises:
        ConfigError: `wanted` is neither true nor false, or there are no tools that could be called as text.
    """
    if not isinstance(wanted, bool):
        raise ConfigError(f"{TEXT_CALLS} is true or false; got {wanted!r}")
    able: list[Any] = []
    members: list[Any] = [env]
    for member in members:
        members += getattr(member, "envs", ())
        able += [member] if hasattr(member, f"set_{TEXT_CALLS}") else []
    if not able:
        raise ConfigError(f"environment {env_id!r} has no tools, so {TEXT_CALLS} means nothing to it")
    for one in able:
        getattr(one, f"set_{TEXT_CALLS}")(wanted)


def check_arguments(env_id: str, make: Callable[..., Any], args: Mapping[str, Any]) -> None:
    """
    Raises:
        ConfigError: an argument `make` does not take, or a missing one it needs; with the nearest valid name.
    """
    parameters = inspect.signature(make).parameters.values()
    names = [p.name for p in parameters if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
    takes_all = any(p.kind is p.VAR_KEYWORD for p in parameters)
    for name in args:
        if name not in names and not takes_all:
            raise ConfigError(f"environment {env_id!r} takes no argument {name!r}{nearest(name, names)}")
    needed = [p.name for p in parameters if p.default is p.empty and p.name in names and p.name not in args]
    if needed:
        raise ConfigError(f"environment {env_id!r} needs the argument {needed[0]!r}")


def _awaited(env: Any) -> Any:
    from verifiers.envs.evaluation import run_sync

    async def wait() -> Any:
        return await env

    return run_sync(wait)


def _plain_name(env_id: str) -> str:
    path = Path(env_id)
    name = path.stem if path.suffix == ".py" else path.resolve().name if env_id in (".", "..") else path.name
    return name.replace("_", "-")


def _find(env_id: str) -> tuple[Any, str, str | None]:
    path = Path(env_id).expanduser()
    name = _plain_name(env_id).replace("-", "_")
    looks_like_path = env_id.startswith((".", "/", "~")) or path.suffix == ".py"
    if looks_like_path or _entry_file(path) is not None:
        return _from_path(path, env_id), "path", _version_at(path)
    for module_name in dict.fromkeys((env_id, name) if re.fullmatch(r"[A-Za-z_][\w.]*", env_id) else (name,)):
        if _is_installed(module_name):
            return _imported(module_name, env_id), "package", _version_of(module_name)
    for point in metadata.entry_points(group=ENTRY_POINTS):
        if point.name.replace("-", "_") == name:
            return point.load(), "entry point", point.dist.version if point.dist else None
    if (_STOCK / f"{name}.py").exists():
        return _imported(f"verifiers.envs.stock.{name}", env_id), "stock", metadata_version()
    choices = [*stock_names(), *installed_names()]
    raise ConfigError(f"no environment {env_id!r}{nearest(env_id, choices)} (or give the path of one)")


def metadata_version() -> str:
    """The version of this library."""
    from verifiers import __version__

    return __version__


def stock_names() -> list[str]:
    """Ids of the environments that ship with the library."""
    return sorted(path.stem.replace("_", "-") for path in _STOCK.glob("*.py") if not path.stem.startswith("_"))


def installed_names() -> list[str]:
    """Ids of environments that installed packages announce."""
    return sorted(point.name for point in metadata.entry_points(group=ENTRY_POINTS))


def _is_installed(name: str) -> bool:
    if not re.fullmatch(r"[A-Za-z_][\w.]*", name) or name.split(".")[0] in sys.stdlib_module_names:
        return False
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return False
    if spec is None or spec.origin is None:
        return False
    source = Path(spec.origin)
    return source.suffix == ".py" and "load_environment" in source.read_text(encoding="utf-8", errors="replace")


def _imported(module: str, env_id: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"environment {env_id!r} needs the module {error.name!r}, which is not installed; "
            f"install it, or the environment's own package with its dependencies"
        ) from error


def _entry_file(path: Path) -> Path | None:
    """The file of a folder that defines `load_environment`; None: it is no environment."""
    if path.is_file():
        return path if path.suffix == ".py" else None
    if not path.is_dir():
        return None
    name = path.resolve().name.replace("-", "_")
    roots = (path, path / "src")
    first = [root / rest for root in roots for rest in (f"{name}.py", f"{name}/__init__.py")]
    others = [file for root in roots for pattern in ("*.py", "*/__init__.py") for file in sorted(root.glob(pattern))]
    for file in [*first, *others]:
        if file.is_file() and "load_environment" in file.read_text(encoding="utf-8", errors="replace"):
            return file
    return None


def _from_path(path: Path, env_id: str) -> ModuleType:
    file = _entry_file(path)
    if file is None:
        what = "has no module with a function load_environment" if path.exists() else "does not exist"
        raise ConfigError(f"{env_id!r} {what}")
    file = file.resolve()
    root, name = file.parent, file.stem
    if file.name == "__init__.py":
        root, name = file.parent.parent, file.parent.name
    known = sys.modules.get(name)
    if known is not None and getattr(known, "__file__", None) != str(file):
        del sys.modules[name]
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
    importlib.invalidate_caches()
    return _imported(name, env_id)


def _version_at(path: Path) -> str | None:
    for folder in (path, *path.resolve().parents[:2]):
        manifest = folder / "pyproject.toml"
        if manifest.is_file():
            found = re.search(r'^version\s*=\s*"([^"]+)"', manifest.read_text(encoding="utf-8"), re.MULTILINE)
            return found.group(1) if found else None
    return None


def _version_of(module: str) -> str | None:
    top = module.split(".")[0]
    for distribution in metadata.packages_distributions().get(top, [top]):
        try:
            return metadata.version(distribution)
        except metadata.PackageNotFoundError:
            continue
    return None


def _digest(file: Path) -> str:
    is_package = file.name == "__init__.py"
    files: Iterable[Path] = sorted(file.parent.rglob("*.py")) if is_package else [file]
    digest = hashlib.blake2b(digest_size=8)
    for source in files:
        digest.update(str(source.relative_to(file.parent)).encode() + b"\0" + source.read_bytes() + b"\0")
    return digest.hexdigest()
