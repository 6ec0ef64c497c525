"""From a host and port that a box asks for to an open connection, or to the reason why there is none.

A name is resolved once, here, and what is connected to is one of the addresses the list was asked about, so a name
server that changes its mind leads nowhere. Where this machine has a proxy (`outer.py`), a name that the list spells out
goes there as it is, because only the proxy may be able to resolve it; one that only `*` covers still goes as an
address that was asked about.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from typing import Literal

from verifiers.sandboxes.egress.addresses import Address
from verifiers.sandboxes.egress.allow import AllowList, host_of
from verifiers.sandboxes.egress.carrying import Upstream
from verifiers.sandboxes.egress.lookups import Lookups
from verifiers.sandboxes.egress.outer import OuterProxy, ProxyError, outer_proxy
from verifiers.sandboxes.wire import CHUNK

REACH_TIMEOUT_S = 30.0
"""For looking a name up and connecting, over all its addresses."""
TRY_TIMEOUT_S = 10.0
"""For one address of several."""


class RefusedHost(Exception):
    """The list does not let it through."""


class UnreachableHost(Exception):
    """It may be reached and cannot."""


async def reach(allow: AllowList, host: str, port: int, kind: Literal["http", "https"], lookups: Lookups) -> Upstream:
    """A connection to `host`, as a box wrote it, for a plain request or for a tunnel; `lookups` are the box's.

    Raises:
        ValueError: `host` is no host.
        RefusedHost: the list says no.
        UnreachableHost: no such name, nobody answers.
        ProxyError: this machine's proxy does not lead there.
    """
    found, proxy = host_of(host), None
    try:
        async with asyncio.timeout(REACH_TIMEOUT_S):
            _check(allow, found, port)
            proxy = outer_proxy(found, port, kind)
            if proxy is None or (isinstance(found, str) and not allow.spells_out(found, port)):
                addresses = await _addresses(allow, found, port, lookups)
                proxy = proxy and outer_proxy(addresses[0], port, kind)
                if proxy is None:
                    return await _connect_to_one(addresses, port)
                found, kind = addresses[0], "https"  # a plain request would tell the proxy the name
            return await _by_proxy(proxy, found, port, kind, lookups)
    except ProxyError as error:
        raise ProxyError(f"{_shown(found, port)} cannot be reached: {error}", error.for_log) from error
    except TimeoutError:
        said = f"did not answer in {REACH_TIMEOUT_S:.0f} s"
        if proxy is not None:
            raise proxy.failed(said) from None
        raise UnreachableHost(f"{_shown(found, port)} {said}") from None
    except OSError as error:
        raise UnreachableHost(f"{_shown(found, port)} cannot be reached: {error}") from error


def _check(allow: AllowList, host: str | Address, port: int) -> None:
    """What the list says of `host` as it was asked for."""
    if isinstance(host, str):
        reason = None if allow.has_name(host, port) else ""
    else:
        reason = allow.refusal(host, port, listed=False)
    if reason is not None:
        raise _refused(allow, host, port, reason)


async def _by_proxy(
    proxy: OuterProxy, host: str | Address, port: int, kind: Literal["http", "https"], lookups: Lookups
) -> Upstream:
    try:
        found = host_of(proxy.host)
        addresses = await lookups.find(found, proxy.port) if isinstance(found, str) else [found]
        upstream = await _connect_to_one(addresses, proxy.port, proxy)
    except (OSError, ValueError) as error:
        raise proxy.failed(f"cannot be reached: {getattr(error, 'strerror', None) or error}") from error
    if kind == "http":
        return upstream
    try:
        await proxy.open_tunnel(upstream.reader, upstream.writer, _shown(host, port))
    except BaseException:
        upstream.writer.transport.abort()
        raise
    return upstream._replace(proxy=None)


async def _addresses(allow: AllowList, host: str | Address, port: int, lookups: Lookups) -> list[Address]:
    """Where to connect to, every address of it allowed."""
    if not isinstance(host, str):
        return [host]
    try:
        found = await lookups.find(host, port)
    except (OSError, UnicodeError) as error:
        said = getattr(error, "strerror", None) or error
        raise UnreachableHost(f"{host} cannot be looked up: {said}") from error
    refusals = {address: allow.refusal(address, port, listed=True) for address in found}
    allowed = [address for address, reason in refusals.items() if reason is None]
    if not allowed:
        raise _refused(allow, host, port, next((reason for reason in refusals.values() if reason), "no address"))
    return allowed


def _shown(host: str | Address, port: int) -> str:
    return f"{host}:{port}" if isinstance(host, str) or host.version == 4 else f"[{host}]:{port}"


def _refused(allow: AllowList, host: str | Address, port: int, reason: str) -> RefusedHost:
    because = f" ({reason})" if reason else ""
    return RefusedHost(f"not in this sandbox's allow list: {_shown(host, port)}{because}; allowed: {allow}")


async def _connect_to_one(addresses: list[Address], port: int, proxy: OuterProxy | None = None) -> Upstream:
    """A connection to one of them, which are of `proxy` if there is one; else `ConnectionError`, with the reason."""
    said = "nothing"
    tls = {"ssl": proxy.trust, "server_hostname": proxy.host} if proxy and proxy.trust else {}
    for address in addresses:
        try:
            async with asyncio.timeout(TRY_TIMEOUT_S):
                return Upstream(*await asyncio.open_connection(str(address), port, limit=CHUNK, **tls), proxy)
        except TimeoutError:
            said = "no answer"
        except ssl.SSLError as error:  # its number is no errno
            said = str(error)
        except OSError as error:
            said = os.strerror(error.errno) if error.errno else str(error)
    raise ConnectionError(said)
