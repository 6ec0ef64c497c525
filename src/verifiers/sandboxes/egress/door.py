"""One box's way out: what its programs are told about it, and how each of their connections is served."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from contextlib import suppress
from ipaddress import ip_address
from typing import Literal

from verifiers.sandboxes.egress.allow import AllowList
from verifiers.sandboxes.egress.carrying import Program, Upstream
from verifiers.sandboxes.egress.lookups import Lookups
from verifiers.sandboxes.egress.outer import ProxyError
from verifiers.sandboxes.egress.reach import RefusedHost, reach
from verifiers.sandboxes.egress.socks import VERSION, serve_socks
from verifiers.sandboxes.relay import Connection

log = logging.getLogger("verifiers.sandboxes")
PORT = 13128
"""Of the box's loopback. A fixed one, as programs learn it from their environment before anything runs."""
MAX_CONNECTIONS = 256
"""Of one box at a time; more are hung up on."""
DIRECT = dict.fromkeys(("NO_PROXY", "no_proxy"), "localhost,127.0.0.1,::1")
"""For programs that need the box's own loopback, by address, whatever the list says of it."""
MAX_WARNINGS = 20
"""Hosts that one box's refusals are logged for."""


def proxy_environment(entries: Iterable[str]) -> dict[str, str]:
    """What programs look at to find their proxy.

    ALL_PROXY names HTTP as well: clients without SOCKS refuse to start on a `socks5h://`. The box's own loopback is
    reached directly, unless `entries` names one of this machine: then it is what that address means.
    """
    allow = AllowList(entries)
    mine = ["localhost", *(own for own in ("127.0.0.1", "::1") if not allow.opens(ip_address(own)))]
    url = f"http://127.0.0.1:{PORT}"
    found = {"HTTP_PROXY": url, "HTTPS_PROXY": url, "ALL_PROXY": url, "NO_PROXY": ",".join(mine)}
    return {**found, **{name.lower(): value for name, value in found.items()}}


class Door:
    """Serves the connections of one box."""

    def __init__(self, box: str, entries: Iterable[str]) -> None:
        self.box, self.allow = box, AllowList(entries)
        self.open = 0
        self._lookups = Lookups()
        self._warned: set[str] = set()

    async def serve(self, connection: Connection) -> None:
        """One connection, to its end; SOCKS5 or HTTP by its first byte."""
        if self.open >= MAX_CONNECTIONS:
            self._warn(f"more than {MAX_CONNECTIONS} connections at a time")
            return
        self.open += 1
        try:
            with suppress(OSError):  # someone hung up: there is nobody to tell
                await self._serve(connection)
                connection.release()
        except ProxyError as error:
            self._warn(f"{error} ({error.for_log})")
            connection.release()
        finally:
            self.open -= 1

    async def _serve(self, connection: Connection) -> None:
        program = Program(connection)
        first = await program.read()
        program.put_back(first)
        if first[:1] == bytes([VERSION]):
            await serve_socks(program, self._reach)
        else:
            from verifiers.sandboxes.egress.forward import serve_http  # its parser is of no use to other boxes

            await serve_http(program, self._reach)

    async def _reach(self, host: str, port: int, kind: Literal["http", "https"]) -> Upstream:
        try:
            return await reach(self.allow, host, port, kind, self._lookups)
        except RefusedHost as error:
            self._warn(str(error))
            raise

    def _warn(self, text: str) -> None:
        if text in self._warned or len(self._warned) > MAX_WARNINGS:
            return
        self._warned.add(text)
        if len(self._warned) <= MAX_WARNINGS:
            log.warning("sandbox %s: %s", self.box, text)
        else:
            log.warning("sandbox %s: further refusals are not told", self.box)
