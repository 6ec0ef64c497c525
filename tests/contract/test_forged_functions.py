"""`humaneval` against functions that want to pass without being right: whatever they try is a failure, and a score.

The test asks for a number that nothing tells, so a pass is a forgery; and an attack that left the answer unscored would
be a way to leave the mean.
"""

import asyncio
import secrets
from dataclasses import replace
from pathlib import Path

import pytest

import needs
from verifiers.envs.stock import humaneval
from verifiers.sandboxes import SandboxSpec, start_sandbox

SECRET = secrets.randbelow(10**12) + 10**12
PROBLEM = {
    "prompt": 'def secret(x: int) -> int:\n    """The number."""\n',
    "entry_point": "secret",
    "test": f"def check(candidate):\n    assert candidate(17) == {SECRET}\n",
}


def _attacks() -> dict[str, str]:
    """The functions of `forged_functions.txt` by their headings."""
    text = Path(__file__).with_name("forged_functions.txt").read_text()
    parts = dict(part.split("\n", 1) for part in text.split("\n## ")[1:])
    shared = {f" +{name}": parts.pop(name) for name in ("say", "search")}
    found = {}
    for heading, code in parts.items():
        name, plus, rest = heading.partition(" +")
        found[name] = shared[plus + rest] + code if plus else code
    return found


ATTACKS = _attacks()


@pytest.fixture(params=["local", pytest.param("docker", marks=needs.DOCKER)])
def backend(request):
    return "local" if request.param == "local" else needs.docker_backend()


async def test_no_attack_passes_and_none_goes_unscored(backend):
    free = asyncio.Semaphore(6)

    async def verdict(code: str) -> str:
        async with free:
            return await humaneval.verdict(PROBLEM, code, timeout_s=3, backend=backend)

    said = dict(zip(ATTACKS, await asyncio.gather(*map(verdict, ATTACKS.values())), strict=True))
    assert {name: text for name, text in said.items() if not text.startswith("failed: ")} == {}
    broken = ("SyntaxError", "NameError", "ImportError", "AttributeError")
    assert {name: text for name, text in said.items() if any(word in text for word in broken)} == {}


async def test_who_knows_the_number_passes(backend):
    said = await humaneval.verdict(PROBLEM, f"def secret(x):\n    return {SECRET}\n", timeout_s=120, backend=backend)

    assert said == "passed"


@pytest.fixture
def shared_folder() -> str:
    """A folder that boxes see of this machine."""
    return next(str(path) for path in sorted(Path("/usr/share").iterdir()) if path.is_dir() and any(path.iterdir()))


async def test_packages_of_this_process_are_not_in_a_box(monkeypatch: pytest.MonkeyPatch, shared_folder: str):
    """They hold environments, with their answers: `humaneval` has all solutions in its data."""
    listing = ["ls", "-A", shared_folder]
    spec = SandboxSpec(memory_mb=128, disk_mb=16)
    async with start_sandbox("local", spec) as box:
        assert (await box.exec(listing)).stdout != ""
    monkeypatch.syspath_prepend(shared_folder)
    async with start_sandbox("local", replace(spec, files={"x": "y"})) as box:
        assert (await box.exec(listing)).stdout == ""
        assert not (await box.exec(["touch", f"{shared_folder}/new"])).ok
        assert (await box.exec("python3 -c 'import json; print(json.loads(\"1\"))'; env true; cat x")).stdout == "1\ny"
