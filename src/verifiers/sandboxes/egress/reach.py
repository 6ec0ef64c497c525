"""From a host and port that a box asks for to an open connection, or to the reason why there is none.

A name is resolved once, here, and what is connected to is one of the addresses the list was asked about, so a name
server that changes its mind leads nowhere.
"""

from __future__ import annotations

import asyncio
import os
import socket
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from ipaddress import ip_address

from verifiers.sandboxes.egress.addresses import Address, canonical
from verifiers.sandboxes.egress.allow import AllowList, host_of
from verifiers.sandboxes.egress.carrying import Upstream
from verifiers.sandboxes.wire import CHUNK

REACH_TIMEOUT_S = 30.0
"""For looking a name up and connecting, over all its addresses."""
TRY_TIMEOUT_S = 10.0
"""For one address of several."""
LOOKUP_THREADS = 32
"""Of this process, for all boxes: name servers that do not answer must not take the threads of everything else."""
LOOKUPS = 4
"""Of one box at a time, nor those of other boxes."""


class RefusedHost(Exception):
    """The list does not let it through."""


class UnreachableHost(Exception):
    """It may be reached and cannot."""


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(LOOKUP_THREADS, thread_name_prefix="egress-lookup")


async def reach(allow: AllowList, host: str, port: int, lookups: asyncio.Semaphore) -> Upstream:
    """A connection to `host`, as a box wrote it; `lookups` bounds those of the box.

    Raises:
        ValueError: `host` is no host.
        RefusedHost: the list says no.
        UnreachableHost: no such name, nobody answers.
    """
    found = host_of(host)
    try:
        async with asyncio.timeout(REACH_TIMEOUT_S):
            addresses = await _addresses(allow, found, port, lookups)
            return await _connect_to_one(addresses, port, f"{found}:{port}")
    except TimeoutError:
        raise UnreachableHost(f"{found}:{port} did not answer in {REACH_TIMEOUT_S:.0f} s") from None


async def _addresses(allow: AllowList, host: str | Address, port: int, lookups: asyncio.Semaphore) -> list[Address]:
    """Where to connect to, every address of it allowed."""
    if not isinstance(host, str):
        reason = allow.refusal(host, port, listed=False)
        if reason is not None:
            raise _refused(allow, host, port, reason)
        return [host]
    if not allow.has_name(host, port):
        raise _refused(allow, host, port, "")
    try:
        async with lookups:
            found = await asyncio.get_running_loop().run_in_executor(_threads(), _look_up, host, port)
    except (OSError, UnicodeError) as error:
        raise UnreachableHost(f"{host} cannot be looked up: {error}") from error
    refusals = {address: allow.refusal(address, port, listed=True) for address in found}
    allowed = [address for address, reason in refusals.items() if reason is None]
    if not allowed:
        raise _refused(allow, host, port, next((reason for reason in refusals.values() if reason), "no address"))
    return allowed


def _look_up(name: str, port: int) -> list[Address]:
    entries = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)
    return [canonical(ip_address(str(entry[4][0]).partition("%")[0])) for entry in entries]


def _refused(allow: AllowList, host: str | Address, port: int, reason: str) -> RefusedHost:
    shown = f"{host}:{port}" if isinstance(host, str) or host.version == 4 else f"[{host}]:{port}"
    because = f" ({reason})" if reason else ""
    return RefusedHost(f"not in this sandbox's allow list: {shown}{because}; allowed: {allow}")


async def _connect_to_one(addresses: list[Address], port: int, called: str) -> Upstream:
    said = "nothing"
    for address in addresses:
        try:
            async with asyncio.timeout(TRY_TIMEOUT_S):
                return Upstream(*await asyncio.open_connection(str(address), port, limit=CHUNK))
        except TimeoutError:
            said = "no answer"
        except OSError as error:
            said = os.strerror(error.errno) if error.errno else str(error)
    raise UnreachableHost(f"{called} cannot be reached: {said}")
