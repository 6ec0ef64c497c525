"""An allow list: what its entries mean, and what it says about a host and a port.

An entry is a host name, `*.` and a domain (its subdomains, not itself), `*` (every name), an address or a network in
CIDR form, each for every port or, with `:port`, for one. A name is reached only through an entry for names, an address
only through one for addresses: looking up names nobody listed would be a way out by itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network

from verifiers.errors import ConfigError
from verifiers.sandboxes.egress.addresses import Address, Network, canonical, special, translated

FORMS = "a host name, '*.' and a domain, an address, or a network like 10.1.2.0/24, each with ':port' or without"
LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
"""A last label that C libraries take for a part of an IPv4 address (`127.1`, `0x7f.1`, `2130706433`)."""
SHOWN = 20
"""How many entries a refusal shows."""


def host_of(text: str) -> str | Address:
    """A host as someone wrote it, in its one spelling: an address, or a name in lower case and ASCII without last dot.

    Raises:
        ValueError: it is neither, with the reason.
    """
    bare = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    if "%" in bare:
        raise ValueError("no zone is taken")
    try:
        return canonical(IPv6Address(bare)) if ":" in bare or bare != text else IPv4Address(bare)
    except ValueError as error:
        if ":" in bare or bare != text:
            raise ValueError(f"no IPv6 address: {error}") from None
    return _name(text)


def _name(text: str) -> str:
    if not text.isascii():
        import idna  # names of other scripts are rare

        text = idna.encode(text, uts46=True).decode()  # its error is a ValueError
    name = text.lower().removesuffix(".")
    labels = name.split(".")
    if len(name) > 253 or not all(LABEL.fullmatch(label) for label in labels):
        raise ValueError("no host name")
    if NUMBER.fullmatch(labels[-1]):
        raise ValueError("no address in its usual form of four decimal numbers")
    return name


def split_port(text: str) -> tuple[str, int | None]:
    """`host[:port]` in two; an IPv6 address with a port is in brackets."""
    if text.startswith("["):
        host, bracket, rest = text.partition("]")
        host += bracket
        if rest and not rest.startswith(":"):
            raise ValueError("text after the bracket")
        colon, port = rest[:1], rest[1:]
    elif text.count(":") > 1:
        return text, None
    else:
        host, colon, port = text.partition(":")
    if not colon:
        return host, None
    if not (re.fullmatch("[0-9]{1,5}", port) and 0 < int(port) < 65536):
        raise ValueError("a port is a number from 1 to 65535")
    return host, int(port)


@dataclass(frozen=True)
class _Entry:
    port: int | None
    name: str = ""
    """A host name; `.domain` for its subdomains, `.` for every name."""
    network: Network | None = None

    def has_name(self, name: str, port: int) -> bool:
        if self.port not in (None, port) or not self.name:
            return False
        return self.name == "." or (name.endswith(self.name) if self.name.startswith(".") else name == self.name)

    def has_address(self, address: Address, port: int) -> bool:
        return (
            self.network is not None
            and self.port in (None, port)
            and self.network.version == address.version
            and address in self.network
        )


def _entry(text: str) -> _Entry:
    """What one entry means; `ValueError` with the reason if nothing."""
    if "//" in text:
        raise ValueError("it is a URL; leave out the scheme and the path")
    host, port = split_port(text)
    if "/" in host:
        network = ip_network(host.strip("[]"), strict=False)
        if isinstance(network, IPv6Network) and network.network_address.ipv4_mapped is not None:
            raise ValueError("write it as an IPv4 network")
        return _Entry(port, network=network)
    if host == "*":
        return _Entry(port, ".")
    suffix = host.startswith("*.")
    found = host_of(host.removeprefix("*."))
    if isinstance(found, str):
        return _Entry(port, f".{found}" if suffix else found)
    if suffix:
        raise ValueError("an address has no subdomains")
    return _Entry(port, network=ip_network(found))


class AllowList:
    """The hosts a box may reach. Empty: none.

    Raises:
        ConfigError: an entry that means nothing.
    """

    def __init__(self, entries: Iterable[str]) -> None:
        if isinstance(entries, str) or not isinstance(entries, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigError(f"allow={entries!r} must be a tuple of entries, not one text")
        self.texts = tuple(entries)
        for text in self.texts:
            if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise ConfigError(f"allow entry {text!r} must be text")
        self._entries = [self._parsed(text) for text in self.texts]

    @staticmethod
    def _parsed(text: str) -> _Entry:
        try:
            return _entry(text)
        except ValueError as error:
            raise ConfigError(f"allow entry {text!r}: {error}; an entry is {FORMS}") from None

    @property
    def has_ports(self) -> bool:
        return any(entry.port is not None for entry in self._entries)

    def has_name(self, name: str, port: int) -> bool:
        return any(entry.has_name(name, port) for entry in self._entries)

    def spells_out(self, name: str, port: int) -> bool:
        """Whether an entry has `name` or a domain it is in, so that whoever wrote the list knows whose name it is."""
        return any(entry.name != "." and entry.has_name(name, port) for entry in self._entries)

    def opens(self, address: Address) -> bool:
        """Whether an entry lets something reach `address`, which is of a special range, at some port."""
        found = special(address)
        return found is not None and any(_within(entry.network, found.network) for entry in self._entries)

    def refusal(self, address: Address, port: int, *, listed: bool) -> str | None:
        """Why `address` may not be connected to, in words, '' if no entry covers it; None: it may.

        An entry covers an address of a special range only if all of it lies in that range: `0.0.0.0/0` is the public
        internet and no more, and a name that leads to such an address is not enough either.

        Args:
            listed: whether it is what a listed name resolved to; else it needs an entry of its own.
        """
        inner = translated(address)
        if inner is not None and (said := self.refusal(inner, port, listed=True)) is not None:
            return said
        found = special(address)
        entries = [entry.network for entry in self._entries if entry.has_address(address, port)]
        if found is None:
            return None if listed or entries else ""
        if any(_within(network, found.network) for network in entries):
            return None
        return f"{address} is {found.kind}, which needs an entry of its own" if listed or entries else ""

    def __str__(self) -> str:
        shown = ", ".join(self.texts[:SHOWN]) or "nothing"
        return f"{shown} and {len(self.texts) - SHOWN} more" if len(self.texts) > SHOWN else shown


def _within(network: Network | None, outer: Network) -> bool:
    if isinstance(network, IPv6Network):
        return isinstance(outer, IPv6Network) and network.subnet_of(outer)
    return isinstance(network, IPv4Network) and isinstance(outer, IPv4Network) and network.subnet_of(outer)
