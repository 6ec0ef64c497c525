"""The endpoint registry: a TOML file that gives names to models, so that a command line needs only the name.

    default = "small"

    [small]
    model = "gpt-4.1-mini"
    url = "https://api.openai.com/v1"
    key_var = "OPENAI_API_KEY"
    headers = { "X-Team" = "$TEAM" }

Also read: a list of `[[endpoint]]` tables with `endpoint_id`, `model`, `url` and `key` (a variable's name). Keys are
never in the file; the environment holds them.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from verifiers.errors import ConfigError, nearest
from verifiers.models.endpoint import Dialect
from verifiers.models.price import Price
from verifiers.places import config_folder

FILE_NAME = "endpoints.toml"
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_DIALECTS: dict[str, Dialect] = {
    "chat": "chat",
    "openai_chat_completions": "chat",
    "openai_completions": "chat",
    "responses": "responses",
    "openai_responses": "responses",
    "anthropic": "anthropic",
    "anthropic_messages": "anthropic",
}
_KEYS = ("model", "url", "key_var", "key", "headers", "strict", "endpoint_id", "type", "price")


@dataclass(frozen=True)
class Entry:
    """One named endpoint."""

    name: str
    model: str
    url: str
    key_var: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    strict: bool | None = None
    dialect: Dialect = "chat"
    price: Price | None = None


@dataclass(frozen=True)
class Registry:
    """The endpoints of one file; empty where there is no file."""

    entries: Mapping[str, Entry] = field(default_factory=dict[str, Entry])
    default: str | None = None
    source: str = ""

    def pick(self) -> Entry | None:
        """The endpoint for a command that names none; None if the file has none.

        Raises:
            ConfigError: there are several, and no `default`.
        """
        if self.default is not None:
            return self.entries[self.default]
        if len(self.entries) > 1:
            raise ConfigError(
                f"{self.source} has several endpoints and no default; name one with -m ({', '.join(self.entries)}),"
                " or write default = NAME at its top"
            )
        return next(iter(self.entries.values()), None)


def search_paths() -> list[Path]:
    """Where the registry file is looked for, in order."""
    paths = [Path(FILE_NAME), Path("configs") / FILE_NAME]
    with suppress(ConfigError):  # without a home folder there is none of the user's
        paths.append(config_folder() / FILE_NAME)
    return paths


def load_registry(path: str | Path | None = None) -> Registry:
    """The registry in `path`, else the first file of `search_paths()`, else an empty one.

    Raises:
        ConfigError: the named file is not there, or a file cannot be read as a registry.
    """
    if path is not None:
        if not Path(path).is_file():
            raise ConfigError(f"endpoint file {str(path)!r} does not exist")
        return _read(Path(path))
    found = next((candidate for candidate in search_paths() if candidate.is_file()), None)
    return Registry() if found is None else _read(found)


def _read(path: Path) -> Registry:
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not TOML: {error}") from None
    return parse_registry(document, source=str(path))


def parse_registry(document: Mapping[str, Any], *, source: str) -> Registry:
    """A registry from a parsed file.

    Raises:
        ConfigError: one line that names the entry and the key.
    """
    entries: dict[str, Entry] = {}
    for name, table in _tables(document, source):
        if name in entries:
            raise ConfigError(f"{source}: endpoint {name!r} is there twice; give each a name of its own")
        entries[name] = _entry(name, table, source)
    default = document.get("default")
    if default is not None and default not in entries:
        raise ConfigError(f"{source}: default = {default!r} is no endpoint{nearest(str(default), list(entries))}")
    return Registry(entries, default, source)


def _tables(document: Mapping[str, Any], source: str) -> list[tuple[str, dict[str, Any]]]:
    tables: list[tuple[str, dict[str, Any]]] = []
    for name, value in document.items():
        if name == "default":
            continue
        if name == "endpoint" and isinstance(value, list):
            listed = cast(list[dict[str, Any]], value)
            tables.extend((str(table.get("endpoint_id") or table.get("model") or ""), table) for table in listed)
        elif isinstance(value, dict):
            tables.append((name, cast(dict[str, Any], value)))
        else:
            raise ConfigError(f"{source}: {name} = {value!r} is no endpoint; write a table [{name}] with url and model")
    return tables


def _entry(name: str, table: dict[str, Any], source: str) -> Entry:
    where = f"{source}: [{name}]"
    for key in table:
        if key not in _KEYS:
            raise ConfigError(f"{where}: unknown key {key!r}{nearest(key, _KEYS)}")
    url, model = table.get("url"), table.get("model", name)
    if not isinstance(url, str) or not isinstance(model, str):
        raise ConfigError(f'{where} needs url = "https://host/v1" and may have model, key_var, headers, strict')
    kind = str(table.get("type", "chat"))
    if kind not in _DIALECTS:
        raise ConfigError(f"{where}: type = {kind!r} is not spoken{nearest(kind, list(_DIALECTS))}")
    key_var = table.get("key_var", table.get("key"))
    headers = table.get("headers", {})
    if not isinstance(headers, dict):
        raise ConfigError(f"{where}: headers = {headers!r} must be a table of texts")
    texts = {str(key): str(value) for key, value in cast(dict[str, Any], headers).items()}
    return Entry(
        name,
        model,
        url,
        None if not key_var else variable_name(key_var, where),
        texts,
        table.get("strict"),
        _DIALECTS[kind],
        _price(table.get("price"), where),
    )


def _price(table: Any, where: str) -> Price | None:
    if table is None:
        return None
    try:
        return Price(**{str(key): value for key, value in dict(table).items()})
    except (TypeError, ValueError):
        raise ConfigError(
            f"{where}: price = {table!r}; write price = {{ input = 1.0, output = 4.0 }} in US dollars for a million "
            f"tokens, with cached_input where cached tokens cost less"
        ) from None


def variable_name(text: Any, where: str) -> str:
    """`text` if it can be the name of an environment variable.

    Raises:
        ConfigError: it cannot, so it may be a key; it is not repeated.
    """
    if not isinstance(text, str) or not _VARIABLE.fullmatch(text):
        raise ConfigError(f"{where}: the key must be given as the name of an environment variable that holds it")
    return text


def key_from(variable: str, where: str) -> str:
    """The key that the environment holds in `variable`.

    Raises:
        ConfigError: it holds none.
    """
    key = os.environ.get(variable, "").strip()
    if not key:
        raise ConfigError(f"environment variable {variable} ({where}) is not set; put the endpoint's key there")
    return key


def expand(value: str, where: str) -> str:
    """A header's value with `$NAME` and `${NAME}` replaced from the environment.

    Raises:
        ConfigError: a named variable is not set.
    """

    def look_up(match: re.Match[str]) -> str:
        name = match[1] or match[2]
        if name not in os.environ:
            raise ConfigError(f"environment variable {name} ({where}) is not set")
        return os.environ[name]

    return re.sub(r"\$(?:\{(\w+)\}|([A-Za-z_]\w*))", look_up, value)
