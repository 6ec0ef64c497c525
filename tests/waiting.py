"""Waits for what a test looks at: no longer than needed, and however slow the machine is for a while.

The one rule: a test passes as soon as what it waits for is so, and only a fault lets it wait to the end.
"""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable

LIMIT_S = 120.0
"""Far beyond what anything here takes, and short enough for the test to say itself what never came."""


async def until(condition: Callable[[], bool | Awaitable[bool]], *, limit_s: float = LIMIT_S) -> bool:
    """Whether the condition holds, now or by the limit; it may be awaitable."""
    ends = time.monotonic() + limit_s
    while True:
        holds = condition()
        if await holds if inspect.isawaitable(holds) else holds:
            return True
        if time.monotonic() >= ends:
            return False
        await asyncio.sleep(0.02)


def blocked_until(condition: Callable[[], bool], *, limit_s: float = LIMIT_S) -> bool:
    """`until` for tests without a loop."""
    ends = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() >= ends:
            return False
        time.sleep(0.05)
    return True
