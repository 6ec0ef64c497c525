"""`state["client"]`: an OpenAI-shaped client whose calls go through the session, and so into the trace."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from verifiers.errors import ConfigError
from verifiers.messages import Message, Response, Tool
from verifiers.models.base import Model
from verifiers.models.facade import OpenAIFacade
from verifiers.trace import Role


class Asked(Protocol):
    """The rollout that is asked: what its client needs of it."""

    model: Model
    stage: str

    async def generate(
        self,
        messages: Sequence[Message],
        tools: Sequence[Tool] | None = None,
        *,
        sampling: Mapping[str, Any] | None = None,
        role: Role = "policy",
        model: Any = None,
    ) -> Response: ...

    async def complete(self, prompt: str, *, sampling: Mapping[str, Any] | None = None) -> Response: ...


class SessionModel:
    """A model of a rollout: what it is asked is recorded, and counts for whoever asks."""

    def __init__(self, session: Asked, model: Model) -> None:
        self._ref = weakref.ref(session)  # the state holds this model: a finished rollout must not keep itself alive
        self._model = model

    @property
    def _session(self) -> Asked:
        session = self._ref()
        if session is None:
            raise ConfigError("this client belongs to a rollout that is over")
        return session

    @property
    def name(self) -> str:
        return self._model.name

    def named(self, name: str) -> SessionModel:
        """Another model of the same server; this one where the server is asked for one at a time."""
        other = getattr(self._model, "named", None)
        return self if other is None else SessionModel(self._session, other(name))

    def _role(self) -> Role:
        if self._session.stage == "score":
            return "judge"
        return "policy" if self._model is self._session.model else "environment"

    async def generate(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Tool] | None = None,
        sampling: Mapping[str, Any] | None = None,
    ) -> Response:
        return await self._session.generate(messages, tools, sampling=sampling, role=self._role(), model=self._model)

    async def complete(self, prompt: str, *, sampling: Mapping[str, Any] | None = None) -> Response:
        return await self._session.complete(prompt, sampling=sampling)

    def describe(self) -> dict[str, Any]:
        return self._model.describe()

    async def close(self) -> None:
        """Nothing: the model belongs to the run."""


class SessionClient(OpenAIFacade):
    """The client of one rollout."""

    def __init__(self, session: Asked) -> None:
        super().__init__(SessionModel(session, session.model))
        self.verifiers_model = session.model
        """The model behind it, for code that makes a session of its own from this client."""


def session_client(session: Asked) -> SessionClient:
    """The client object of a rollout."""
    return SessionClient(session)
