"""The base of every config class: pydantic, closed to unknown keys, with one-line errors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from verifiers.errors import ConfigError, nearest


class Config(BaseModel):
    """A config class lives beside the class it configures; unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", validate_assignment=True)

    @classmethod
    def read(cls, values: Mapping[str, Any], *, source: str) -> Self:
        """Validated values.

        Raises:
            ConfigError: one line that names `source`, the key, its value and what is allowed.
        """
        for key in values:
            if key not in cls.model_fields:
                raise ConfigError(f"{source}: unknown key {key!r}{nearest(key, list(cls.model_fields))}")
        try:
            return cls.model_validate(dict(values))
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            key = ".".join(str(part) for part in first["loc"])
            raise ConfigError(
                f"{source}: {key} = {first.get('input')!r}: {first['msg'].removeprefix('Value error, ')}"
            ) from None
