"""What `vf-eval` was asked to do: command line over TOML file over the environment's own defaults, checked."""

from __future__ import annotations

import json
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, cast

from pydantic import Field, field_validator

from verifiers.cli.options import OPTIONS, Option
from verifiers.config import Config
from verifiers.errors import ConfigError, nearest
from verifiers.results.secrets import scrubbed

CONCURRENCY = 32
LOCAL_CONCURRENCY = 4
LOCAL_MAX_TOKENS = 256
"""A small model may never stop by itself."""


class EvalSettings(Config):
    """One evaluation; the fields are the options of the command."""

    env: str = Field(min_length=1)
    env_args: dict[str, Any] = Field(default_factory=dict[str, Any])
    model: str | list[str] | None = Field(None, min_length=1)
    """None: the endpoint file's default, else the embedded model. Several are measured one after the other."""
    api_base_url: str | None = None
    api_key_var: str | None = None
    endpoints: str | None = None
    temperature: float | None = Field(None, ge=0)
    max_tokens: int | None = Field(None, ge=1)
    sampling_args: dict[str, Any] = Field(default_factory=dict[str, Any])
    harness: str | list[str] | None = Field(None, min_length=1)
    """None: the environment's default. Each model is measured in each."""
    harness_args: dict[str, Any] = Field(default_factory=dict[str, Any])
    sandbox: str = Field("local", min_length=1)
    num_examples: int = Field(20, ge=-1, le=sys.maxsize)
    rollouts_per_example: int = Field(3, ge=1)
    split: Literal["eval", "train"] = "eval"
    seed: int | None = None
    shuffle: bool = False
    max_turns: int | None = Field(None, ge=1)
    max_total_tokens: int | None = Field(None, ge=1)
    max_cost: float | None = Field(None, gt=0)
    max_run_cost: float | None = Field(None, gt=0)
    timeout: float | None = Field(None, gt=0)
    max_concurrent: int | None = Field(None, ge=1)
    max_unscored: float = Field(0.1, ge=0, le=1)
    output_dir: str = "outputs/evals"
    keep_tokens: bool = False
    rescore: str | None = None
    fresh: bool = False
    dry_run: bool = False
    as_json: bool = False
    verbose: bool = False

    @field_validator("num_examples")
    @classmethod
    def _some(cls, value: int) -> int:
        if value == 0:
            raise ValueError("0 tasks measure nothing; -1 takes all")
        return value

    @property
    def models(self) -> list[str | None]:
        return [*self.model] if isinstance(self.model, list) else [self.model]

    @property
    def harnesses(self) -> list[str | None]:
        return [*self.harness] if isinstance(self.harness, list) else [self.harness]

    @property
    def one_model(self) -> str | None:
        """Of an evaluation that is no matrix."""
        return self.models[0]

    @property
    def one_harness(self) -> str | None:
        return self.harnesses[0]

    def sampling(self, *, local: bool) -> dict[str, Any]:
        """The sampling arguments of the run; the embedded model's replies end somewhere in any case."""
        sampling = dict(self.sampling_args)
        if self.temperature is not None:
            sampling["temperature"] = self.temperature
        if self.max_tokens is not None:
            sampling["max_tokens"] = self.max_tokens
        elif local:
            sampling.setdefault("max_tokens", LOCAL_MAX_TOKENS)
        return sampling

    def concurrency(self, *, local: bool) -> int:
        return self.max_concurrent or (LOCAL_CONCURRENCY if local else CONCURRENCY)

    def base_seed(self, *, local: bool) -> int | None:
        """None: no seed is sent. The embedded model always gets one, so that its numbers repeat."""
        return 0 if self.seed is None and local else self.seed


def settings(given: Mapping[str, Any]) -> EvalSettings:
    """The settings for what the command line names.

    Raises:
        ConfigError: a value, key, file or combination is wrong.
    """
    values = dict(given)
    values["as_json"] = values.pop("json", False)
    file = values.pop("config", None)
    if file is not None:
        values = {**_from_file(Path(file)), **values}
    for option in OPTIONS:
        if option.type == "json" and isinstance(values.get(option.name), str):
            values[option.name] = _json_object(values[option.name], option.flag)
    if "env" not in values:
        from verifiers.envs.loading import stock_names

        raise ConfigError(
            "name an environment (for a first try: vf-eval arithmetic); a path, an installed package, or one of "
            + ", ".join(stock_names())
        )
    return EvalSettings.read(values, source=f"file {file!r}" if file else "options")


def as_toml(asked: EvalSettings) -> str:
    """A config file that asks for the same evaluation, without values of keys."""
    lines: list[str] = []
    for option in (Option("env"), *OPTIONS):
        value = getattr(asked, option.name, None) if option.in_file else None
        if value is None or value == {}:
            continue
        safe = scrubbed(value)
        text = json.dumps(safe, ensure_ascii=False)
        lines.append(f"{option.name} = {json.dumps(text, ensure_ascii=False) if option.type == 'json' else text}")
    return "\n".join([*lines, ""])


def _from_file(path: Path) -> dict[str, Any]:
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read the config file {str(path)!r}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"the config file {str(path)!r} is not TOML: {error}") from None
    allowed = ["env", *(option.name for option in OPTIONS if option.in_file)]
    read = {key.replace("-", "_"): value for key, value in values.items()}
    for key in read:
        if key not in allowed:
            raise ConfigError(f"the config file {str(path)!r}: unknown key {key!r}{nearest(key, allowed)}")
    return read


def _json_object(text: str, flag: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise ConfigError(f"{flag} is not JSON: {error}; got {text!r}") from None
    if not isinstance(value, dict):
        raise ConfigError(f"{flag} must be a JSON object such as '{{\"name\": 1}}'; got {text!r}")
    return cast(dict[str, Any], value)
