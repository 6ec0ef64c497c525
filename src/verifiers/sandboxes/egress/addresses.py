"""Addresses: one form for each, and which of them no host name and no wide network may lead to.

The ranges are those of the IANA special-purpose registries (RFC 6890 and its updates), multicast, and what clouds use
for the metadata of a machine outside of them.
"""

from __future__ import annotations

import socket
from functools import cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import NamedTuple, TypeAlias

Address: TypeAlias = IPv4Address | IPv6Address
Network: TypeAlias = IPv4Network | IPv6Network

RANGES = {
    "loopback": "127.0.0.0/8 ::1/128",
    "link-local": "169.254.0.0/16 fe80::/10",
    "private": "10.0.0.0/8 172.16.0.0/12 192.168.0.0/16 fc00::/7 fec0::/10",
    "shared": "100.64.0.0/10",
    "multicast": "224.0.0.0/4 ff00::/8",
    "unspecified": "0.0.0.0/8 ::/128",
    "reserved": "192.0.0.0/24 198.18.0.0/15 240.0.0.0/4 64:ff9b:1::/48 100::/64 5f00::/16",
    "for documentation": "192.0.2.0/24 198.51.100.0/24 203.0.113.0/24 2001:db8::/32 3fff::/20",
    "for tunnels": "192.88.99.0/24 ::/96 2001::/23 2002::/16",
    "the metadata service of a cloud": "168.63.129.16/32",
}
NAT64 = IPv6Network("64:ff9b::/96")
"""Its last four bytes are the IPv4 address that is reached."""
GLOBAL_UNICAST = IPv6Network("2000::/3")


class Special(NamedTuple):
    """A range whose addresses are reached only when the list names them, or a network within the range."""

    network: Network
    kind: str


@cache
def _ranges() -> list[Special]:
    return [Special(ip_network(text), kind) for kind, texts in RANGES.items() for text in texts.split()]


def canonical(address: Address) -> Address:
    """The IPv4 address that an IPv4-mapped one stands for; others as they are."""
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return address if mapped is None else mapped


def special(address: Address) -> Special | None:
    """The special range that `address` is in, itself if it is this machine's own; None for the public rest."""
    if not address.is_loopback and is_own(address):
        return Special(ip_network(address), "this machine's own")
    for found in _ranges():
        if found.network.version == address.version and address in found.network:
            return found
    if isinstance(address, IPv6Address) and address not in GLOBAL_UNICAST and address not in NAT64:
        return Special(IPv6Network(address), "reserved")
    return None


def translated(address: Address) -> IPv4Address | None:
    """The IPv4 address that a network's translator reaches for `address`."""
    return IPv4Address(int(address) & 0xFFFFFFFF) if isinstance(address, IPv6Address) and address in NAT64 else None


def is_own(address: Address) -> bool:
    """Whether `address` is one of this machine's interfaces': it alone is reached from itself. Sends nothing."""
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((str(address), 9))
            return ip_address(probe.getsockname()[0]) == address
    except OSError:
        return False  # no way there at all
