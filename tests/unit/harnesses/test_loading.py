"""From a name to a harness, and what a description of a program turns into."""

from pathlib import Path

import pytest

import verifiers as vf
from verifiers.errors import ConfigError
from verifiers.harnesses.agents import PROGRAMS
from verifiers.harnesses.installs import folder_of
from verifiers.harnesses.loading import harness_names, load_harness
from verifiers.harnesses.program import VALUES, filled

OWN = """
class Own:
    name = "own"

    def __init__(self, twice=False):
        self.twice = twice

    async def run(self, session):
        pass


ready = Own(twice=True)


def make(**options):
    return Own(**options)
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(OWN)
    return path


@pytest.mark.parametrize("name", harness_names())
def test_every_name_is_a_harness_that_says_what_it_is(name: str):
    harness = load_harness(name)

    assert harness.name == name
    assert harness.describe()["name"] == name
    assert name == "chat" or harness.describe()["version"]


def test_own_ones_come_from_a_file_or_a_module(file: Path):
    assert not load_harness(f"{file}:Own").twice
    assert load_harness(f"{file}:Own", twice=True).twice
    assert load_harness(f"{file}:make", twice=True).twice
    assert load_harness(f"{file}:ready").twice
    assert isinstance(load_harness("verifiers.harnesses.chat:ChatHarness"), vf.ChatHarness)
    chat = vf.ChatHarness()
    assert load_harness(chat) is chat


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("bsh", {}, "did you mean 'bash'"),
        ("bash", {"max_turn": 3}, "did you mean 'max_turns'"),
        ("codex", {"grace": 3}, "did you mean 'grace_s'"),
        ("missing.py:Own", {}, "no file"),
        ("no_such_module_here:Own", {}, "No module"),
        ("verifiers.harnesses.chat:Chat", {}, "has no 'Chat'"),
    ],
)
def test_what_does_not_exist_is_said_in_one_line(name: str, options: dict[str, int], said: str):
    with pytest.raises(ConfigError, match=said):
        load_harness(name, **options)


def test_a_command_line_may_hold_anything_but_what_stands_for_values():
    harness = load_harness("command:awk '{print $1}' {home}/x: y", max_time_s=5)

    assert harness.name == "command"
    assert harness.describe()["version"] == "awk '{print $1}' {home}/x: y"
    values = dict.fromkeys(VALUES, "<{prompt}>")
    assert filled("{home} {print $1} {prompt}", values) == "<{prompt}> {print $1} <{prompt}>"


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_are_pinned(name: str):
    program = PROGRAMS[name]

    assert program.install is not None
    assert all(package.endswith(program.version) for package in program.install.packages)
    assert folder_of(program).name.startswith(f"{name}-{program.version}-")


def test_a_group_of_one_kind_keeps_its_default():
    tasks = vf.load_environment("terminal-tasks")

    assert vf.EnvGroup([tasks, tasks]).default_harness == "bash"
    assert vf.EnvGroup([tasks, vf.load_environment("arithmetic")]).default_harness == "chat"


def test_what_a_program_finds_in_its_environment_is_part_of_what_it_is_and_keys_are_not():
    def described(**variables: str):
        return load_harness("command:true", env=variables).describe()

    assert described(EFFORT="high") != described(EFFORT="low")
    assert described(TEAM_API_KEY="abc-1") == described(TEAM_API_KEY="abc-2")
    assert "abc-1" not in str(described(TEAM_API_KEY="abc-1"))
