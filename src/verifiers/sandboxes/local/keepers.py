"""The keepers of this process: one for each event loop that has local boxes, as a keeper is heard by one loop only."""

from __future__ import annotations

import asyncio

from verifiers.sandboxes.local.images import image_folder
from verifiers.sandboxes.local.keeping import Keeper, start_keeper


class Keepers:
    """Loops may be used one after another or, in threads, at the same time."""

    def __init__(self) -> None:
        self._running: dict[asyncio.AbstractEventLoop, Keeper] = {}
        self._starting: dict[asyncio.AbstractEventLoop, asyncio.Task[Keeper]] = {}

    async def mine(self) -> Keeper:
        """The running loop's; started if there is none, or if it died."""
        loop = asyncio.get_running_loop()
        keeper = self._running.get(loop)
        if keeper is not None and keeper.usable:
            return keeper
        if loop not in self._starting:
            self._starting[loop] = asyncio.ensure_future(self._start(loop))
            self._starting[loop].add_done_callback(lambda _: self._starting.pop(loop, None))
        return await asyncio.shield(self._starting[loop])

    async def _start(self, loop: asyncio.AbstractEventLoop) -> Keeper:
        for other in list(self._running):
            if other is loop or other.is_closed():
                self._close(other)
        keeper = self._running[loop] = await start_keeper(str(image_folder()))
        return keeper

    def _close(self, loop: asyncio.AbstractEventLoop) -> None:
        keeper = self._running.pop(loop, None)  # another thread may have been faster
        if keeper is not None:
            keeper.close()

    def close(self) -> None:
        """End all of them, and with them every box."""
        for loop in list(self._running):
            self._close(loop)
