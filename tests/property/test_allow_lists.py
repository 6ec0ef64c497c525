"""An allow list never opens more than it says, however hosts are written; entries and hosts have one spelling."""

import ipaddress
import socket

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from verifiers.errors import ConfigError
from verifiers.sandboxes import SandboxSpec
from verifiers.sandboxes.egress.addresses import NAT64, RANGES, special
from verifiers.sandboxes.egress.allow import AllowList, host_of, split_port

LABELS = st.from_regex(r"[a-z]([a-z0-9-]{0,10}[a-z0-9])?", fullmatch=True).filter(lambda label: label[2:4] != "--")
NAMES = st.lists(LABELS, min_size=2, max_size=4).map(".".join)
PORTS = st.integers(1, 65535)
ADDRESSES = st.ip_addresses()
EVERYTHING = AllowList(["*", "0.0.0.0/0", "::/0"])
NASTY = st.one_of(
    st.text(max_size=40),
    st.text(alphabet="0123456789abcdefx.:[]%@/#\\\r\n ٣１。．", max_size=40),
    st.builds(
        lambda number, form: form.format(
            number, number >> 24, number & 0xFFFFFF, (number >> 16) & 0xFF, number & 0xFFFF
        ),
        st.integers(0, 2**32 - 1),
        st.sampled_from(
            ("{0}", "{0:#x}", "{0:o}", "{1}.{2}", "{1:#x}.{2}", "{1}.{3}.{4}", "{1:#o}.{3}.{4:#x}", "{1}.{2}.")
        ),
    ),
)


def forms(name: str) -> st.SearchStrategy[str]:
    """Ways to write `name`."""
    return st.sampled_from([name, name.upper(), name.title(), f"{name}.", name.replace(".", "。")])


@given(text=NASTY)
@example(text="0x7f.1")
@example(text="2130706433")
@example(text="127.1")
@example(text="0177.0.0.1")
@example(text="127.0.0.1.")
@example(text="１２７.0.0.1")
@example(text="127。0。0。1")
@example(text="٣")
@example(text="a\r\nb")
@example(text="user@127.0.0.1")
def test_what_is_no_address_here_is_none_for_the_resolver_either(text: str):
    """Else a name that `*` lets through would be turned into an address that was never looked at."""
    try:
        host = host_of(text)
    except ValueError:
        return
    if isinstance(host, str):
        with pytest.raises(OSError):
            socket.inet_aton(host)
        assert not any(char in host for char in "\r\n\0 @/\\#%:[]")
        assert host.isascii()
        assert host_of(host) == host


@given(address=ADDRESSES, port=PORTS)
@example(address=ipaddress.ip_address("::ffff:127.0.0.1"), port=80)
@example(address=ipaddress.ip_address("64:ff9b::a9fe:a9fe"), port=80)
@example(address=ipaddress.ip_address("2002:7f00:1::"), port=80)
@example(address=ipaddress.ip_address("168.63.129.16"), port=80)
def test_wide_entries_reach_public_addresses_only(address: ipaddress.IPv4Address | ipaddress.IPv6Address, port: int):
    host = host_of(str(address))
    assert not isinstance(host, str)
    for listed in (True, False):
        allowed = EVERYTHING.refusal(host, port, listed=listed) is None
        assert not (allowed and special(host))
        if allowed:  # the standard library's own idea of it, as a second opinion
            assert host.is_global
            assert not host.is_multicast
            assert host not in NAT64 or ipaddress.IPv4Address(int(host) & 0xFFFFFFFF).is_global


@given(data=st.data(), port=PORTS)
def test_a_special_address_needs_an_entry_within_its_range(data: st.DataObject, port: int):
    ranges = [ipaddress.ip_network(text) for texts in RANGES.values() for text in texts.split()]
    network = data.draw(st.sampled_from([one for one in ranges if one not in map(ipaddress.ip_network, ("::/96",))]))
    address = data.draw(st.ip_addresses(network=network))
    assume("own" not in (special(address) or ("", ""))[1])
    wider = network.supernet(new_prefix=max(0, network.prefixlen - 1)) if network.prefixlen else network
    entry = f"[{address}]:{port}" if address.version == 6 else f"{address}:{port}"

    assert AllowList([entry]).refusal(address, port, listed=False) is None
    assert AllowList([str(network)]).refusal(address, port, listed=True) is None
    assert AllowList([entry]).refusal(address, port % 65535 + 1, listed=False) == ""
    if wider != network and not any(wider.subnet_of(one) for one in ranges if one.version == wider.version):
        assert AllowList([str(wider)]).refusal(address, port, listed=False)


@given(name=NAMES, sub=LABELS, other=NAMES, port=PORTS, data=st.data())
def test_names_match_whole_labels_in_any_spelling(name: str, sub: str, other: str, port: int, data: st.DataObject):
    assume(not other.endswith(name))
    written, entry = host_of(data.draw(forms(name))), data.draw(forms(name))
    assert written == name

    assert AllowList([entry]).has_name(name, port)
    assert AllowList([f"{entry}:{port}"]).has_name(name, port)
    assert not AllowList([f"{entry}:{port % 65535 + 1}"]).has_name(name, port)
    assert AllowList([f"*.{entry}"]).has_name(f"{sub}.{name}", port)
    for no in (other, f"{sub}{name}", f"{name}.{sub}", f"{sub}.{name}"):
        assert not AllowList([entry]).has_name(no, port) or no == name
    for no in (name, f"{sub}{name}", f"{name}.{sub}"):
        assert not AllowList([f"*.{entry}"]).has_name(no, port) or no.endswith(f".{name}")
    assert AllowList(["*"]).has_name(name, port)


@given(name=NAMES, address=ADDRESSES, port=PORTS)
def test_entries_for_names_and_for_addresses_do_not_mix(
    name: str, address: ipaddress.IPv4Address | ipaddress.IPv6Address, port: int
):
    host = host_of(str(address))
    assert not isinstance(host, str)
    assert AllowList([name, "*", f"*.{name}"]).refusal(host, port, listed=False) is not None
    assert not AllowList(["0.0.0.0/0", "::/0"]).has_name(name, port)
    assert AllowList([]).refusal(host, port, listed=False) is not None


@given(text=NASTY)
def test_any_entry_is_understood_or_refused_by_name(text: str):
    said = ""
    try:
        SandboxSpec(network="allowlist", allow=(text,))
    except ConfigError as error:
        said = str(error)
    assert said == "" or (repr(text) in said and "a host name" in said)


@given(host=st.one_of(NAMES, ADDRESSES.map(lambda one: f"[{one}]" if one.version == 6 else str(one))), port=PORTS)
def test_a_port_is_split_off(host: str, port: int):
    assert split_port(f"{host}:{port}") == (host, port)
    assert split_port(host) == (host, None)
