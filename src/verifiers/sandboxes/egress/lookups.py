"""Looking names up for one box, in threads of its own.

The system's resolver blocks and cannot be stopped. Threads shared by all boxes would be held by one whose names are
slow to look up; here such a box waits for itself alone.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from contextlib import suppress
from ipaddress import ip_address

from verifiers.sandboxes.egress.addresses import Address, canonical

LOOKUPS = 4
"""Of one box at a time, those included whose asker has given up."""


class Lookups:
    """The lookups of one box. Belongs to one event loop."""

    def __init__(self) -> None:
        self._free = asyncio.Semaphore(LOOKUPS)

    async def find(self, name: str, port: int) -> list[Address]:
        """The addresses of `name`.

        Raises:
            OSError, UnicodeError: there are none.
        """
        await self._free.acquire()
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[list[Address]] = loop.create_future()

        def tell(found: list[Address] | Exception) -> None:
            self._free.release()
            if answer.done():
                return  # nobody waits any more
            if isinstance(found, Exception):
                answer.set_exception(found)
            else:
                answer.set_result(found)

        def look_up() -> None:
            try:
                found: list[Address] | Exception = _look_up(name, port)
            except (OSError, UnicodeError) as error:
                found = error
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(tell, found)

        try:  # a daemon: the end of the process does not wait for name servers
            threading.Thread(target=look_up, name="egress-lookup", daemon=True).start()
        except RuntimeError as error:
            self._free.release()
            raise OSError(f"no thread to look it up in: {error}") from error
        return await answer


def _look_up(name: str, port: int) -> list[Address]:
    entries = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)
    return [canonical(ip_address(str(entry[4][0]).partition("%")[0])) for entry in entries]
