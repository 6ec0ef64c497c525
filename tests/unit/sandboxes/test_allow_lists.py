"""What entries mean, what is refused as one, and what a program is told about its proxy."""

import pytest

from verifiers.errors import ConfigError, SandboxPolicyError
from verifiers.sandboxes import SandboxSpec
from verifiers.sandboxes.egress.allow import AllowList, host_of
from verifiers.sandboxes.egress.door import PORT, proxy_environment
from verifiers.sandboxes.modal.backend import create_options


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("", "no host name"),
        ("https://host.example", "leave out the scheme"),
        ("host.example/simple", "does not appear to be"),
        ("10.0.0.0/33", "does not appear to be"),
        ("10.0.0.0/8/8", "does not appear to be"),
        ("py pi.org", "no host name"),
        (" host.example", "no host name"),
        ("host.example:http", "a port is a number"),
        ("host.example:0", "a port is a number"),
        ("host.example:65536", "a port is a number"),
        ("host.example:٣", "a port is a number"),
        ("host.example:", "a port is a number"),
        ("[::1]x", "after the bracket"),
        ("[::1", "IPv6"),
        ("fe80::1%eth0", "zone"),
        ("*.10.0.0.1", "no subdomains"),
        ("*.", "no host name"),
        ("a.*.org", "no host name"),
        ("**", "no host name"),
        ("127.1", "four decimal numbers"),
        ("0x7f.0.0.1", "four decimal numbers"),
        ("2130706433", "four decimal numbers"),
        ("::ffff:10.0.0.0/104", "IPv4 network"),
        ("user@host.example", "no host name"),
        ("-a.org", "no host name"),
        ("a..org", "no host name"),
        ("a" * 64 + ".org", "no host name"),
        ("host.example\r\n", "no host name"),
    ],
)
def test_an_entry_that_means_nothing_is_a_config_error(entry: str, said: str):
    with pytest.raises(ConfigError, match=said) as caught:
        SandboxSpec(network="allowlist", allow=("host.example", entry))
    assert repr(entry) in str(caught.value)
    assert "a host name, '*.' and a domain" in str(caught.value)


def test_a_text_is_no_list():
    with pytest.raises(ConfigError, match="not one text"):
        SandboxSpec(network="allowlist", allow="host.example")  # pyright: ignore[reportArgumentType]


def test_no_entry_lets_nothing_through():
    spec = SandboxSpec(network="allowlist")

    assert str(AllowList(spec.allow)) == "nothing"
    assert not AllowList(spec.allow).has_name("localhost", 80)


def test_names_of_other_scripts_are_what_they_are_on_the_wire():
    allow = AllowList(["Bücher.example", "straße.example", "*.例え.テスト"])

    assert allow.has_name("xn--bcher-kva.example", 443)
    assert allow.has_name("xn--strae-oqa.example", 443)
    assert not allow.has_name("strasse.example", 443)
    assert allow.has_name("a.xn--r8jz45g.xn--zckzah", 443)
    assert host_of("BÜCHER.example.") == "xn--bcher-kva.example"


@pytest.mark.parametrize("written", ["10.0.0.1", "::ffff:10.0.0.1", "[::FFFF:a00:1]"])
def test_an_address_is_the_same_in_every_form(written: str):
    address = host_of(written)

    assert str(address) == "10.0.0.1"
    assert AllowList([written]).refusal(address, 80, listed=False) is None  # pyright: ignore[reportArgumentType]
    assert AllowList(["10.0.0.0/8"]).refusal(address, 80, listed=False) is None  # pyright: ignore[reportArgumentType]


def test_a_long_list_is_shown_in_part():
    shown = str(AllowList(f"h{number}.example" for number in range(30)))

    assert shown.endswith("h19.example and 10 more")


def test_programs_find_the_proxy_and_their_own_loopback():
    url = f"http://127.0.0.1:{PORT}"
    found = proxy_environment(["host.example", "0.0.0.0/0"])

    assert found["HTTPS_PROXY"] == found["https_proxy"] == found["ALL_PROXY"] == found["http_proxy"] == url
    assert found["NO_PROXY"] == found["no_proxy"] == "localhost,127.0.0.1,::1"
    assert proxy_environment(["127.0.0.1:8000"])["NO_PROXY"] == "localhost,::1"
    assert proxy_environment(["127.0.0.0/8", "::1"])["NO_PROXY"] == "localhost"


def test_modal_knows_no_ports():
    with pytest.raises(SandboxPolicyError, match="no ports"):
        create_options(SandboxSpec(network="allowlist", allow=("host.example:443",)))
