"""The spec refuses contradictions; the registry and the owner mark say what is wrong."""

import dataclasses
import os
from importlib.metadata import EntryPoint

import pytest

from verifiers.errors import ConfigError, SandboxStartError
from verifiers.sandboxes import SandboxSpec, backend_names, get_backend, registry
from verifiers.sandboxes.owner import Owner, current_owner
from verifiers.sandboxes.registry import usable_backend


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"image": "a", "rootfs": "/b"}, "not both"),
        ({"workdir": "relative"}, "absolute"),
        ({"network": "some"}, "none, allowlist, full"),
        ({"allow": ("example.org",)}, "network='allowlist'"),
        ({"memory_mb": 0}, "whole number from 16"),
        ({"timeout_s": 0}, "above 0"),
        ({"env": {"A=B": "c"}}, "'='"),
        ({"env": {"A": "c\0"}}, "NUL"),
        ({"setup": "true"}, "list of shell lines"),
        ({"memory_mb": "512"}, "whole number"),
        ({"memory_mb": 512.5}, "whole number"),
        ({"cpus": float("nan")}, "number of at least"),
        ({"cpus": "1"}, "number of at least"),
        ({"timeout_s": float("inf")}, "None means no limit"),
        ({"workdir": "/a/../b"}, "without '..'"),
        ({"rootfs": ""}, "names nothing"),
        ({"user": ""}, "None means the default"),
        ({"user": 0}, "must be a name"),
        ({"env": {"A": None}}, "must be text, not NoneType"),
        ({"network": "allowlist", "allow": [1]}, "must be text"),
        ({"network": "allowlist", "allow": None}, "tuple of entries"),
    ],
)
def test_a_spec_that_contradicts_itself_is_refused(fields, said):
    with pytest.raises(ConfigError, match=said):
        SandboxSpec(**fields)


@pytest.mark.parametrize(
    ("name", "allowed", "odd"),
    [
        ("pids", "from 8 to 4194304: a box's own are some of them", (0, 1, 7, 1 << 40, True, 8.0, "64")),
        ("memory_mb", "from 16 to 1073741824: a box's agent takes some 6", (0, 1, 15, 1 << 40, True)),
        ("disk_mb", "from 1 to 1073741824", (0, -1, 1 << 40)),
        ("cpus", "at least 0.01", (0, 0.001, -1, float("nan"), float("inf"), True, "1")),
        ("timeout_s", "above 0", (0, -1.0, float("nan"), float("inf"), False)),
    ],
)
def test_a_limit_no_box_can_have_is_refused_with_what_it_can(name, allowed, odd):
    for value in odd:
        with pytest.raises(ConfigError, match=allowed) as caught:
            SandboxSpec(**{name: value})
        assert f"{name}={value!r}" in str(caught.value)


def test_an_unknown_backend_names_the_near_one():
    with pytest.raises(ConfigError, match="did you mean 'docker'"):
        get_backend("dokcer")
    assert {"local", "docker", "modal", "unsafe-local"} <= set(backend_names())


def test_a_backend_whose_package_is_broken_is_named(monkeypatch):
    point = EntryPoint("broken", "no_such_package:Backend", registry.ENTRY_POINT_GROUP)
    monkeypatch.setattr(registry, "_entry_points", lambda: {"broken": point})
    with pytest.raises(ConfigError, match=r"'broken' of .* \(entry point no_such_package:Backend\).*: No module named"):
        get_backend("broken")


def test_an_owner_survives_its_text_form_and_knows_the_dead():
    me = current_owner()

    assert Owner.parse(str(me)) == me
    assert me.alive
    assert not dataclasses.replace(me, start=me.start + 1).alive
    assert not dataclasses.replace(me, boot="other").alive
    assert not dataclasses.replace(me, pid=2**22 + 1).alive
    assert Owner.parse("nonsense") is None
    assert me.pid == os.getpid()


class Broken:
    """A backend that cannot work here."""

    async def probe(self):
        return "the reason"


async def test_a_broken_backend_falls_back_to_isolation_only():
    """`unsafe-local` is never taken unasked: when the stand-in is broken as well, starting fails and says both why."""
    asked = []

    def find(name):
        asked.append(name)
        return Broken()

    with pytest.raises(SandboxStartError, match=r"no isolation available.*the reason.*neither: the reason"):
        await usable_backend("local", find=find)
    with pytest.raises(SandboxStartError, match=r"'modal' does not work here: the reason"):
        await usable_backend("modal", find=find)
    assert asked == ["local", "docker", "modal"]
