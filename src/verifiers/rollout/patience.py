"""When a run gives up on an endpoint: none of its calls was ever answered, and rollout after rollout says so.

The one rule: a single answer, or failures of different kinds, and the run goes on to its end.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from verifiers.errors import ModelError, VerifiersError
from verifiers.trace import Role

FEW = 3
"""Rollouts that must agree before a refusal that no repetition cures ends a run."""

Target: TypeAlias = tuple[Role, str]
"""Who is asked: in which role, under which name."""


class EndpointGivenUpError(VerifiersError):
    """A run ended early because no call of one of its models was ever answered."""


class Patience:
    """What the calls of one run came to, whoever makes them."""

    def __init__(self, concurrency: int) -> None:
        """`concurrency`: rollouts at one time; so many must fail, after all attempts, where waiting may help."""
        self._round = max(FEW, concurrency)
        self._answered: set[Target] = set()
        self._failed: dict[Target, dict[str, int]] = {}
        self._any_scored = False

    def answered(self, target: Target) -> None:
        """Note a call that was answered: this endpoint works."""
        self._answered.add(target)

    def ended(self, unanswered: Mapping[Target, VerifiersError], *, scored: bool) -> None:
        """Note the end of a rollout.

        Args:
            unanswered: of each model whose last call failed, how.

        Raises:
            EndpointGivenUpError: it is one too many.
        """
        self._any_scored = self._any_scored or scored
        for target, error in unanswered.items():
            if target in self._answered:
                continue
            kinds = self._failed.setdefault(target, {})
            kind = _kind(error)
            kinds[kind] = kinds.get(kind, 0) + 1
            works_without = self._any_scored and target[0] != "policy"
            if len(kinds) == 1 and kinds[kind] >= self._allowed(error) and not works_without:
                raise EndpointGivenUpError(_said(target, error, kinds[kind]))

    def _allowed(self, error: VerifiersError) -> int:
        return self._round if error.retryable else FEW


def _kind(error: VerifiersError) -> str:
    """What rollouts agree on. Whatever may pass is one kind: an endpoint that is down says so in many ways."""
    if error.retryable:
        return "may pass"
    status = error.status if isinstance(error, ModelError) else None
    return str(error) if status is None else f"status {status}"


def _said(target: Target, error: VerifiersError, rollouts: int) -> str:
    asked = "the model" if target[0] == "policy" else f"{target[1]!r} (as {target[0]})"
    advice = "; check that the server is up and that this is its address" if error.retryable else ""
    return f"gave up after {rollouts} rollouts in which {asked} answered no call: {error}{advice}"
