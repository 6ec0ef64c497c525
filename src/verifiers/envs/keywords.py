"""Keywords that a method takes for compatibility and does nothing with; a misspelt one of its own is none of those."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from verifiers.errors import ConfigError

_WITHOUT_EFFECT = frozenset(
    [
        "max_concurrent_generation",
        "max_concurrent_scoring",
        "interleave_scoring",
        "independent_scoring",
        "score_rollouts",
        "use_tqdm",
        "save_every",
        "save_to_hf_hub",
        "hf_hub_dataset_name",
    ]
)
_log = logging.getLogger(__name__)


def check_keywords(given: Iterable[str], method_and_own: Sequence[str]) -> None:
    """Refuse what is one of the method's own keywords misspelt: it would measure something else than was asked for.

    Raises:
        ConfigError: with the name that was meant.
    """
    method, *own = method_and_own
    for name in sorted(set(given) - _WITHOUT_EFFECT - set(own)):
        close = get_close_matches(name, own, n=1, cutoff=0.75)
        if close:
            raise ConfigError(f"{method}() takes no {name!r}; did you mean {close[0]!r}?")
        _log.warning("%s() takes no %r: it has no effect", method, name)
