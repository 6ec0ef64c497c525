"""The proxy that this machine's own environment names: which requests go there, and how it is asked.

`HTTPS_PROXY` is for tunnels, `HTTP_PROXY` for plain HTTP, `ALL_PROXY` for what neither names; `NO_PROXY` says what is
reached without. The rules are those of `urllib.request`, with networks in `NO_PROXY` besides. What is only this
machine's or its link's is never asked of a proxy, where the same address is somebody else.

The proxy's address is for this machine's log, its credentials are for it alone: neither is ever told to a box.
"""

from __future__ import annotations

import asyncio
import base64
import re
import ssl
import urllib.parse
import urllib.request
from dataclasses import dataclass, field
from functools import cache
from ipaddress import ip_network
from typing import Literal

import h11

from verifiers.sandboxes.egress.addresses import Address, special

MAX_HEAD = 1 << 16
"""Bytes of the proxy's answer."""
DEFAULT_PORTS = {"http": 80, "https": 443}
NEAR = ("loopback", "link-local", "unspecified", "this machine's own")
"""Kinds of addresses that mean another place when somebody else connects to them."""


class ProxyError(Exception):
    """The proxy leads nowhere: why, in words for the box, and more in words for this machine's log."""

    def __init__(self, text: str, for_log: str) -> None:
        super().__init__(text)
        self.for_log = for_log


@dataclass(frozen=True)
class OuterProxy:
    """A proxy of this machine's environment."""

    scheme: str
    host: str
    port: int
    authorization: bytes = field(default=b"", repr=False)
    """What `Proxy-Authorization` says; empty: nothing."""

    @property
    def shown(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        """What it is told with each request."""
        return [(b"Proxy-Authorization", self.authorization)] if self.authorization else []

    def failed(self, text: str) -> ProxyError:
        return ProxyError(f"the proxy of this machine {text}", self.shown)

    async def open_tunnel(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, target: str) -> None:
        """CONNECT to `target`: what the connection to the proxy carries from then on is the tunnel's.

        Raises:
            ProxyError: it answers anything but 2xx.
        """
        client = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEAD)
        request = h11.Request(method="CONNECT", target=target, headers=[(b"Host", target.encode()), *self.headers])
        writer.write(client.send(request) or b"")
        while True:
            try:
                client.receive_data(await reader.readuntil(b"\r\n\r\n"))
                answer = client.next_event()
            except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, h11.RemoteProtocolError):
                raise self.failed("gave no valid answer") from None
            if isinstance(answer, h11.Response):
                break
        if not 200 <= answer.status_code < 300:
            raise self.refused(answer)

    def refused(self, answer: h11.Response) -> ProxyError:
        if answer.status_code == 407:
            return self.failed("wants credentials, or others than this machine's environment has (407)")
        reason = re.sub("[^ -~]", "?", answer.reason.decode("latin-1"))[:200]
        return self.failed(f"answered {answer.status_code} {reason}".rstrip())

    @property
    def trust(self) -> ssl.SSLContext | None:
        """What the certificate of an `https://` proxy is checked by; None: it has none."""
        return _trust() if self.scheme == "https" else None


@cache
def _trust() -> ssl.SSLContext:
    return ssl.create_default_context()


def outer_proxy(host: str | Address, port: int, kind: Literal["http", "https"]) -> OuterProxy | None:
    """What a connection to `host` goes through; None: nothing.

    Args:
        kind: `http` for a plain request, `https` for a tunnel.

    Raises:
        ProxyError: the environment names one that cannot be used.
    """
    found = urllib.request.getproxies()
    name = kind if found.get(kind) else "all"
    if not found.get(name) or _is_near(host) or _is_bypassed(host, port, found.get("no", "")):
        return None
    return _parsed(found[name], f"{name.upper()}_PROXY")


def _is_near(host: str | Address) -> bool:
    if isinstance(host, str):
        return host == "localhost" or host.endswith(".localhost")  # RFC 6761
    found = special(host)
    return found is not None and found.kind in NEAR


def _is_bypassed(host: str | Address, port: int, no_proxy: str) -> bool:
    if urllib.request.proxy_bypass(f"{host}:{port}"):
        return True
    return not isinstance(host, str) and any(_is_in(host, entry.strip()) for entry in no_proxy.split(","))


def _is_in(address: Address, entry: str) -> bool:
    try:
        return address in ip_network(entry.strip("[]"), strict=False)
    except ValueError:  # it is a name
        return False


def _parsed(url: str, variable: str) -> OuterProxy:
    """Nothing of `url` is in the errors: it may hold credentials wherever it is cut."""
    try:
        parts = urllib.parse.urlsplit(url if "://" in url else f"http://{url}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = parts = None
    if parts is None or not host:
        raise ProxyError("the proxy of this machine cannot be used", f"{variable} is no URL of a proxy")
    if parts.scheme not in DEFAULT_PORTS:
        raise ProxyError(
            "the proxy of this machine cannot be used",
            f"{variable} names one by {parts.scheme}://; this library speaks to http:// and https:// proxies",
        )
    authorization = b""
    if parts.username is not None:
        user, password = (urllib.parse.unquote(text or "") for text in (parts.username, parts.password))
        authorization = b"Basic " + base64.b64encode(f"{user}:{password}".encode())
    return OuterProxy(parts.scheme, host, DEFAULT_PORTS[parts.scheme] if port is None else port, authorization)
