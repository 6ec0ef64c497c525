"""What the command line, the TOML file and the defaults come to."""

import json
import re
import shlex
import tomllib
from pathlib import Path

import pytest

from verifiers.cli.completion import SHELLS, script
from verifiers.cli.options import OPTIONS, given, parser
from verifiers.cli.settings import EvalSettings, as_toml, settings
from verifiers.errors import ConfigError


def asked(*argv: str) -> EvalSettings:
    return settings(given(parser().parse_args(list(argv))))


def test_every_option_is_a_setting_and_the_other_way_round():
    named = {option.name for option in OPTIONS} - {"config", "completion", "json"}

    assert named | {"env", "as_json"} == set(EvalSettings.model_fields)


def test_the_widely_known_flags():
    line = shlex.split("arithmetic -m gpt -b http://h/v1 -k KEY -n 5 -r 2 -c 8 -T 0.5 -t 99 -o out -v -s")
    got = asked(*line, "-a", '{"digits": 2}', "-S", '{"top_p": 0.9}')

    assert (got.env, got.env_args, got.model) == ("arithmetic", {"digits": 2}, "gpt")
    assert (got.api_base_url, got.api_key_var) == ("http://h/v1", "KEY")
    assert (got.num_examples, got.rollouts_per_example, got.concurrency(local=False)) == (5, 2, 8)
    assert got.sampling(local=False) == {"top_p": 0.9, "temperature": 0.5, "max_tokens": 99}
    assert (got.output_dir, got.verbose) == ("out", True)


def test_the_embedded_model_gets_a_seed_and_an_end():
    got = asked("arithmetic")

    assert (got.model, got.num_examples, got.rollouts_per_example) == (None, 20, 3)
    assert (got.base_seed(local=True), got.base_seed(local=False)) == (0, None)
    assert (got.sampling(local=True), got.sampling(local=False)) == ({"max_tokens": 256}, {})
    assert asked("arithmetic", "-t", "9", "--seed", "5").sampling(local=True) == {"max_tokens": 9}


def test_the_command_line_wins_over_the_file(tmp_path: Path):
    file = tmp_path / "run.toml"
    file.write_text('env = "arithmetic"\nnum-examples = 7\nseed = 3\n[env_args]\ndigits = 2\n')
    got = asked("--config", str(file), "-n", "9")

    assert (got.env, got.num_examples, got.seed, got.env_args) == ("arithmetic", 9, 3, {"digits": 2})


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        ([], "name an environment"),
        (["x", "-a", "{digits: 2}"], "--env-args is not JSON"),
        (["x", "-a", "[1]"], "must be a JSON object"),
        (["x", "-n", "0"], "num_examples = 0.*-1 takes all"),
        (["x", "-r", "0"], "rollouts_per_example = 0.*greater than or equal to 1"),
        (["x", "--split", "test"], "split = 'test'.*'eval' or 'train'"),
        (["--config", "/nowhere.toml"], "cannot read"),
    ],
)
def test_wrong_values_are_one_line(argv: list[str], said: str):
    with pytest.raises(ConfigError) as error:
        asked(*argv)

    assert re.search(said, str(error.value))
    assert "\n" not in str(error.value)


def test_the_file_a_run_keeps_asks_for_the_same(tmp_path: Path):
    deep = {"deep": {"none": None, "text": 'a "b" \\ \N{GRINNING FACE} \n'}}
    first = asked("x", "-m", "gpt", "-a", json.dumps(deep), "-T", "0.5", "--shuffle", "-n", "-1")
    file = tmp_path / "config.toml"
    file.write_text(as_toml(first))

    assert asked("--config", str(file)) == first
    assert first.env_args == deep


def test_the_file_a_run_keeps_holds_no_key(tmp_path: Path):
    assert "secret-value" not in as_toml(asked("x", "-a", '{"judge_api_key": "secret-value"}'))


def test_a_misspelt_key_of_the_file_names_the_right_one(tmp_path: Path):
    file = tmp_path / "run.toml"
    file.write_text('env = "arithmetic"\nnum_example = 7\n')
    with pytest.raises(ConfigError, match="unknown key 'num_example'; did you mean 'num_examples'"):
        asked("--config", str(file))


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["x", "--num-example", "3"], "did you mean '--num-examples'?"),
        (["x", "-n", "three"], "invalid int value: 'three'"),
        (["x", "y"], "unknown argument 'y'"),
    ],
)
def test_wrong_options_exit_2_with_one_line(argv: list[str], said: str, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as stopped:
        parser().parse_args(argv)
    printed = capsys.readouterr().err

    assert stopped.value.code == 2
    assert said in printed
    assert printed.count("\n") == 1


@pytest.mark.parametrize("shell", SHELLS)
def test_completion_offers_every_flag_and_every_stock_environment(shell: str):
    text = script(shell)

    for flag in [*(option.flag for option in OPTIONS), "--older-than-days", "--backend", "--min-reward", "--resume"]:
        assert (f"-l {flag[2:]}" if shell == "fish" else flag) in text
    assert "word-game" in text
    assert "==SUPPRESS==" not in text


def test_both_commands_are_installed_under_their_names():
    root = Path(__file__).resolve().parents[3]
    scripts = tomllib.loads((root / "pyproject.toml").read_text())["project"]["scripts"]

    assert scripts["vf-eval"] == "verifiers.cli.eval:main"
    assert scripts["vf-init"] == "verifiers.cli.init:main"
