"""`vf-eval` against a server on the loopback interface: numbers, files, exit statuses, signals."""

import json
import os
import re
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from e2e.commands import command, environment, start, vf_eval
from e2e.loopback import Answer, Loopback, serve
from waiting import blocked_until


def solve(body: dict[str, Any]) -> Answer:
    """The right answer to an arithmetic task, whatever the words around it."""
    numbers = re.findall(r"\d+", body["messages"][-1]["content"])
    return f"It is {sum(map(int, numbers))}."


STEPS = {"add": "add", "subtract": "subtract", "multipl": "multiply"}


def endpoint(server: Loopback, out: Path) -> list[str]:
    return ["-m", "mock", "-b", server.url, "-o", str(out)]


def run_folder(out: Path) -> Path:
    (folder,) = out.glob("*/*/metadata.json")
    return folder.parent


def result_rows(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run_folder(out) / "results.jsonl").read_text().splitlines()]


def test_a_run_prints_a_table_and_one_object(tmp_path: Path):
    with serve(solve) as server:
        done = vf_eval("arithmetic", *endpoint(server, tmp_path / "out"), "--json", cwd=tmp_path)
    result = json.loads(done.stdout)

    assert done.returncode == 0, done.stderr
    assert (result["n"], result["n_scored"], result["reward"]) == (60, 60, 1.0)
    assert set(result) == {
        *("run_dir", "env", "model", "n", "n_scored", "n_unscored", "unscored_by_kind", "reward", "reward_se"),
        *("reward_ci95", "metrics", "tokens", "wall_s", "stopped"),
        *("env_version", "harness", "harness_version", "sandbox", "seed", "rollouts_per_example", "verifiers_version"),
    }
    measured_with = [result[key] for key in ("harness", "sandbox", "seed", "rollouts_per_example", "stopped")]
    assert measured_with == ["chat", "local", None, 3, None]
    assert result["verifiers_version"]
    assert (result["env"], result["model"], result["tokens"]["total"]) == ("arithmetic", "mock", 60 * 12)
    assert result["run_dir"] in done.stderr
    assert Path(tmp_path, result["run_dir"]).is_dir()
    assert "model: mock at http://127.0.0.1" in done.stderr
    assert "95% interval" in done.stderr
    assert 'env = "arithmetic"' in (run_folder(tmp_path / "out") / "config.toml").read_text()
    assert len(server.requests) == 60


def test_options_reach_the_endpoint(tmp_path: Path):
    with serve(solve) as server:
        options = ["-n", "2", "-r", "1", "-T", "0.5", "-t", "77", "-S", '{"top_p": 0.9}', "--seed", "3"]
        done = vf_eval("arithmetic", *endpoint(server, tmp_path / "out"), *options, cwd=tmp_path)
    sent = server.requests[0]

    assert done.returncode == 0, done.stderr
    assert (sent["temperature"], sent["max_tokens"], sent["top_p"], sent["model"]) == (0.5, 77, 0.9, "mock")
    assert len({body["seed"] for body in server.requests}) == 2


def test_a_killed_run_is_continued_by_repeating_its_command(tmp_path: Path):
    out = tmp_path / "out"
    with serve(solve, latency_s=0.05) as server:
        arguments = ["arithmetic", *endpoint(server, out), "-k", "MY_KEY", "-n", "50", "-r", "4", "-c", "4"]
        arguments += ["-T", "1", "--seed", "7"]
        process = start(*arguments, cwd=tmp_path, MY_KEY="killed")
        assert blocked_until(lambda: len(server.requests) >= 80)
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        finished = {(row["example_id"], row["rollout_id"]) for row in whole_rows(out)}
        done = vf_eval(*arguments, cwd=tmp_path, MY_KEY="going on")
        # by key, not by time: what the killed one had sent may be read after its end
        again = [seed_key(body) for body, key in zip(server.requests, server.keys, strict=True) if key == "going on"]
    pairs = [(row["example_id"], row["rollout_id"]) for row in result_rows(out)]

    assert 0 < len(finished) < 200
    assert done.returncode == 0, done.stderr
    assert len(pairs) == len(set(pairs)) == 200
    assert len(again) == 200 - len(finished), "nothing finished is generated again"
    assert f"{len(finished)} finished rollouts are kept" in done.stdout
    seeds = {(row["example_id"], row["rollout_id"]): row["seed"] for row in result_rows(out)}
    assert Counter(again) == Counter(seed for pair, seed in seeds.items() if pair not in finished)


def whole_rows(out: Path) -> list[dict[str, Any]]:
    """The rows of a run that may still be written to: the last line may be half a row."""
    lines = (run_folder(out) / "results.jsonl").read_bytes().split(b"\n")[:-1]
    return [json.loads(line) for line in lines]


def seed_key(body: dict[str, Any]) -> int:
    return body["seed"]


def test_a_finished_run_is_never_touched_again(tmp_path: Path):
    out = tmp_path / "out"
    with serve(solve) as server:
        arguments = ["arithmetic", *endpoint(server, out), "-n", "3"]
        assert vf_eval(*arguments, cwd=tmp_path).returncode == 0
        first = run_folder(out)
        before = {path: path.read_bytes() for path in first.rglob("*") if path.is_file()}
        assert vf_eval(*arguments, cwd=tmp_path).returncode == 0

    assert {path: path.read_bytes() for path in before} == before
    assert len(list(out.glob("*/*/metadata.json"))) == 2


def test_ctrl_c_keeps_what_is_finished_and_says_how_to_continue(tmp_path: Path):
    out = tmp_path / "out"
    with serve(solve, latency_s=0.1) as server:
        arguments = ["arithmetic", *endpoint(server, out), "-n", "50", "-c", "2"]
        process = start(*arguments, cwd=tmp_path)
        assert blocked_until(lambda: len(server.requests) >= 10)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=200)
    rows = result_rows(out)
    metadata = json.loads((run_folder(out) / "metadata.json").read_text())

    assert process.returncode == 130
    assert "repeat the command to continue" in errors
    assert str(run_folder(out)) in errors
    assert "Traceback" not in errors
    assert rows
    assert metadata["status"] == "interrupted"


def test_an_endpoint_that_always_fails_leaves_everything_unscored(tmp_path: Path):
    with serve(lambda body: (500, {"Retry-After": "0"}, {"error": {"message": "out of order"}})) as server:
        out = endpoint(server, tmp_path / "out")
        done = vf_eval("arithmetic", *out, "-n", "2", "-r", "1", "--json", cwd=tmp_path, timeout_s=200)
    result = json.loads(done.stdout.splitlines()[-1])

    assert done.returncode == 3, done.stderr
    assert (result["n_scored"], result["n_unscored"], result["reward"]) == (0, 2, None)
    assert result["unscored_by_kind"] == {"provider": 2}
    assert "nothing could be scored" in done.stderr
    assert "out of order" in done.stderr


def test_a_wrong_key_ends_the_run_at_once_and_the_right_one_continues_it(tmp_path: Path):
    key = "sk-wrong-key-1234567890"

    def refuse(body: dict[str, Any]) -> Answer:
        return 401, {}, {"error": {"message": f"no such key: {key}"}}

    with serve(refuse) as server:
        arguments = [
            "arithmetic",
            *endpoint(server, tmp_path / "out"),
            "-k",
            "MY_KEY",
            "-n",
            "50",
            "-r",
            "4",
            "-c",
            "2",
        ]
        done = vf_eval(*arguments, cwd=tmp_path, MY_KEY=key)
        asked, rows = len(server.requests), result_rows(tmp_path / "out")
        server.answer = solve
        again = vf_eval(*arguments, cwd=tmp_path, MY_KEY=key)
    last = done.stderr.splitlines()[-1]

    assert done.returncode == 3
    assert asked <= 4
    assert [row["reward"] for row in rows] == [None] * len(rows)
    assert "gave up after 3 rollouts in which the model answered no call" in last
    assert f"model 'mock' at {server.url} answered 401: no such key: ***; check the key" in last
    assert "repeat the command to continue" in last
    assert key not in done.stdout + done.stderr
    assert again.returncode == 0, again.stderr
    assert len({(row["example_id"], row["rollout_id"]) for row in result_rows(tmp_path / "out")}) == 200


def test_an_endpoint_that_recovers_costs_attempts_and_no_turn(tmp_path: Path):
    failures = iter([429, 429, 429])

    def busy_at_first(body: dict[str, Any]) -> Answer:
        status = next(failures, None)
        return solve(body) if status is None else (status, {"Retry-After": "0"}, {"error": {"message": "busy"}})

    with serve(busy_at_first) as server:
        out = tmp_path / "out"
        done = vf_eval("arithmetic", *endpoint(server, out), "-n", "1", "-r", "1", "--json", cwd=tmp_path)
    (row,) = result_rows(out)

    assert done.returncode == 0, done.stderr
    assert len(server.requests) == 4
    assert row["reward"] == 1.0
    assert [call["attempts"] for call in row["trace"]["calls"]] == [4]
    assert len(row["trace"]["turns"]) == 1


def test_a_share_of_unscored_rollouts_is_allowed_and_shown(tmp_path: Path):
    broken = tmp_path / "broken.py"
    broken.write_text(
        "import verifiers as vf\n"
        "def judge(completion, answer):\n"
        "    if answer == 'raise':\n"
        "        raise RuntimeError('the judge fell over')\n"
        "    return 1.0\n"
        "def load_environment():\n"
        "    rows = [{'question': str(i), 'answer': 'raise' if i == 0 else ''} for i in range(4)]\n"
        "    return vf.SingleTurnEnv(dataset=rows, rubric=vf.Rubric(funcs=[judge]))\n"
    )
    with serve("x") as server:
        arguments = [str(broken), *endpoint(server, tmp_path / "out"), "-r", "1", "--json"]
        strict = vf_eval(*arguments, cwd=tmp_path)
        lenient = vf_eval(*arguments, "--max-unscored", "0.3", cwd=tmp_path)
    results = [json.loads(done.stdout.splitlines()[-1]) for done in (strict, lenient)]

    assert (strict.returncode, lenient.returncode) == (3, 0), strict.stderr + lenient.stderr
    for result in results:
        assert (result["n_scored"], result["reward"], result["unscored_by_kind"]) == (3, 1.0, {"scorer": 1})
    assert "helps only once this is put right: RuntimeError: the judge fell over" in strict.stderr


def test_a_toml_file_has_the_same_keys(tmp_path: Path):
    with serve(solve) as server:
        config = tmp_path / "run.toml"
        config.write_text(
            f'env = "arithmetic"\nmodel = "mock"\napi_base_url = "{server.url}"\nnum_examples = 2\n'
            f'rollouts_per_example = 1\noutput_dir = "out"\n[env_args]\ndigits = 2\n'
        )
        done = vf_eval("--config", str(config), "--json", cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["n"] == 2


def test_a_dry_run_writes_nothing_and_asks_nothing(tmp_path: Path):
    with serve(solve) as server:
        out = tmp_path / "out"
        done = vf_eval("calculator", *endpoint(server, out), "--dry-run", cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    assert "would run: 60 rollouts" in done.stdout
    assert "tool add" in done.stdout
    assert not server.requests
    assert not out.exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["aritmetic"], "no environment 'aritmetic'; did you mean 'arithmetic'?"),
        (["arithmetic", "-a", '{"digit": 2}'], "takes no argument 'digit'; did you mean 'digits'?"),
        (["arithmetic", "-a", "{"], "--env-args is not JSON"),
        (["arithmetic", "--num-exampels", "3"], "did you mean '--num-examples'?"),
        (["arithmetic", "-m", "mock", "-b", "{url}", "-k", "NO_SUCH_KEY"], "NO_SUCH_KEY"),
        (["arithmetic", "-m", "mock", "-b", "http://127.0.0.1:9/v1"], "http://127.0.0.1:9/v1 cannot be reached"),
        (["arithmetic", "-m", "local:/nowhere.gguf"], "/nowhere.gguf"),
        (["./columns.py", "-m", "mock", "-b", "{url}"], "'question'"),
        (["./raises.py", "-m", "mock", "-b", "{url}"], "failed to load: ZeroDivisionError"),
        (["./nowhere.py"], "'./nowhere.py' does not exist"),
        (["./leaves.py"], "failed to load: SystemExit: 0"),
        (
            ["./argument.py", "-m", "mock", "-b", "{url}"],
            "'judge' asks for 'completon', which nothing gives it; did you mean",
        ),
        (["./unbuilt.py", "-m", "mock", "-b", "{url}"], "could not make its tasks: ConnectionError: no hub"),
        (["./none.py"], "returned None; it must return the environment"),
        (["arithmetic", "-m", "mock", "-b", "{url}", "-o", "none.py"], "Not a directory"),
        (["arithmetic", "-T", "-1"], "temperature = -1.0"),
        (["--config", "nowhere.toml"], "cannot read the config file"),
        (["--completion", "bsh"], "did you mean 'bash'?"),
        (["arithmetic", "-n", "9" * 20, "--harness", "oracle"], "num_examples = 9"),
        (["arithmetic", "--harness", "command:"], "harness 'command:' runs nothing"),
        (["arithmetic", "--harness", "breaks.py:X"], "'breaks.py:X' failed to load: RuntimeError: no luck"),
        ([], "name an environment"),
    ],
)
def test_wrong_input_is_one_line_and_exit_2(arguments: list[str], said: str, tmp_path: Path):
    rows = "[{'questoin': 'x', 'answer': 'y'}]"
    (tmp_path / "columns.py").write_text(
        f"import verifiers as vf\ndef load_environment():\n    return vf.SingleTurnEnv(dataset={rows})\n"
    )
    (tmp_path / "raises.py").write_text("def load_environment():\n    return 1 / 0\n")
    (tmp_path / "breaks.py").write_text("raise RuntimeError('no luck')")
    (tmp_path / "argument.py").write_text(
        "import verifiers as vf\ndef judge(completon):\n    return 1.0\n"
        "def load_environment():\n"
        "    return vf.SingleTurnEnv(dataset=[{'question': 'q'}], rubric=vf.Rubric(funcs=[judge]))\n"
    )
    (tmp_path / "leaves.py").write_text("import sys\ndef load_environment():\n    sys.exit(0)\n")
    (tmp_path / "unbuilt.py").write_text(
        "import verifiers as vf\ndef rows():\n    raise ConnectionError('no hub')\n"
        "def load_environment():\n    return vf.SingleTurnEnv(dataset=rows)\n"
    )
    (tmp_path / "none.py").write_text("def load_environment():\n    pass\n")
    with serve(solve) as server:
        done = vf_eval(*(word.replace("{url}", server.url) for word in arguments), cwd=tmp_path)

    assert done.returncode == 2, done.stdout + done.stderr
    assert said in done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    assert "Traceback" not in done.stderr


def test_verbose_shows_the_whole_traceback(tmp_path: Path):
    (tmp_path / "raises.py").write_text("def load_environment():\n    return 1 / 0\n")
    done = vf_eval("./raises.py", "-v", cwd=tmp_path)

    assert done.returncode == 2
    assert "return 1 / 0" in done.stderr


def test_the_key_goes_to_the_endpoint_and_nowhere_else(tmp_path: Path):
    key = "sk-not-a-real-key-1234567890"
    with serve(solve) as server:
        out = tmp_path / "out"
        arguments = ["arithmetic", *endpoint(server, out), "-k", "MY_KEY", "-n", "1", "-r", "1"]
        done = vf_eval(*arguments, cwd=tmp_path, MY_KEY=key)
    written = "".join(path.read_text() for path in out.rglob("*") if path.is_file())

    assert done.returncode == 0, done.stderr
    assert "MY_KEY" in written
    assert key not in written + done.stdout + done.stderr


def cpu_of(argv: list[str]) -> float:
    """CPU seconds of one process."""
    read, write = os.pipe()
    pid = os.posix_spawn(
        argv[0], argv, environment(), file_actions=[(os.POSIX_SPAWN_DUP2, write, 1), (os.POSIX_SPAWN_CLOSE, read)]
    )
    os.close(write)
    while os.read(read, 65536):
        pass
    os.close(read)
    _, status, usage = os.wait4(pid, 0)
    assert status == 0
    return usage.ru_utime + usage.ru_stime


def test_starting_up_is_cheap():
    """Beside what Python itself takes to start (about 12 ms), so that a slow machine is slow at both."""
    help_line = command("eval", "--help")
    python = help_line[0]
    importing, helping = [], []
    for _ in range(6):
        bare = cpu_of([python, "-c", "pass"])
        importing.append(cpu_of([python, "-c", "import verifiers"]) / bare)
        helping.append(cpu_of(help_line) / bare)

    assert min(importing) <= 6, f"import verifiers costs as much as {min(importing):.1f} starts of Python"
    assert min(helping) <= 12, f"vf-eval --help costs as much as {min(helping):.1f} starts of Python"


def test_what_an_environment_logs_is_kept_without_keys(tmp_path: Path):
    (tmp_path / "talks.py").write_text(
        "import logging\nimport os\nimport verifiers as vf\n"
        "def judge(completion):\n"
        "    logging.getLogger('verifiers.talks').warning('key %s', os.environ['MY_SECRET_KEY'])\n"
        "    return 1.0\n"
        "class Env(vf.SingleTurnEnv):\n"
        "    @vf.teardown\n"
        "    async def fall(self):\n"
        "        raise RuntimeError('teardown fell over')\n"
        "def load_environment():\n"
        "    return Env(dataset=[{'question': 'q', 'answer': ''}], rubric=vf.Rubric(funcs=[judge]))\n"
    )
    with serve("x") as server:
        out = tmp_path / "out"
        done = vf_eval("./talks.py", *endpoint(server, out), cwd=tmp_path, MY_SECRET_KEY="abcdefgh12345678")
    log = (run_folder(out) / "logs" / "vf-eval.log").read_text()

    assert done.returncode == 0, done.stderr
    for text in (log, done.stderr):
        assert "key ***" in text
        assert "teardown fell over" in text
        assert "abcdefgh12345678" not in text


def test_tools_reach_an_endpoint_that_knows_none(tmp_path: Path):
    def calculate(body: dict[str, Any]) -> Answer:
        if "tools" in body or any("tool_calls" in message for message in body["messages"]):
            return 400, {}, {"error": {"message": "tools are not supported here"}}
        *_, last = body["messages"]
        if "<tool_response>" in last["content"]:
            return "It is " + re.findall(r"-?[0-9]+", last["content"])[-1]
        first, number = re.findall(r"[0-9]+", last["content"])[:2]
        name = next(name for word, name in STEPS.items() if word in last["content"])
        return f'<tool_call>{{"name": "{name}", "arguments": {{"a": {first}, "b": {number}}}}}</tool_call>'

    with serve(calculate) as server:
        asked = ["calculator", *endpoint(server, tmp_path / "out"), "-n", "3", "-r", "1", "--json"]
        native = vf_eval(*asked, "-a", '{"steps": 1}', cwd=tmp_path)
        as_text = vf_eval(*asked, "-a", '{"steps": 1, "text_tool_calls": true}', cwd=tmp_path)
    result = json.loads(as_text.stdout.splitlines()[-1])

    assert native.returncode == 3
    assert "tools are not supported here" in native.stderr
    assert as_text.returncode == 0, as_text.stderr
    assert (result["reward"], result["metrics"]["steps_by_tool"], result["metrics"]["total_tool_calls"]) == (
        1.0,
        1.0,
        1.0,
    )


def test_fewer_tasks_than_asked_for_are_said(tmp_path: Path):
    with serve(solve) as server:
        few = vf_eval("arithmetic", *endpoint(server, tmp_path / "few"), "-n", "60", "-r", "1", cwd=tmp_path)
        enough = vf_eval("arithmetic", *endpoint(server, tmp_path / "all"), "-n", "50", "-r", "1", cwd=tmp_path)

    assert "tasks: all 50 of the split 'eval'; 60 were asked for" in few.stdout
    assert "were asked for" not in enough.stdout


def test_models_and_harnesses_make_a_matrix(tmp_path: Path):
    matrix = 'env = "terminal-tasks"\nmodel = ["one", "two"]\nharness = ["bash", "oracle"]\n'
    (tmp_path / "matrix.toml").write_text(matrix + "num_examples = 2\nrollouts_per_example = 1\n")
    with serve(lambda _: "I give up.") as server:
        done = vf_eval("--config", "matrix.toml", "-b", server.url, "-o", "out", "--json", cwd=tmp_path)
    result = json.loads(done.stdout.splitlines()[-1])

    assert done.returncode == 0, done.stderr
    lines = [(cell["model"], cell["harness"], cell["reward"]) for cell in result["cells"]]
    assert lines == [("one", "bash", 0.0), ("one", "oracle", 1.0), ("two", "bash", 0.0), ("two", "oracle", 1.0)]
    assert len({cell["run_dir"] for cell in result["cells"]}) == 4
    plan = json.loads(Path(tmp_path, result["cells"][1]["run_dir"], "metadata.json").read_text())["plan"]
    assert (plan["harness"], plan["harness_options"]["version"], plan["sandbox"]) == ("oracle", "1", "local")
    assert "comparison" in done.stderr


def test_a_pair_that_makes_no_sense_is_one_line(tmp_path: Path):
    done = vf_eval("word-game", "--harness", "chat", "--harness", "bash", cwd=tmp_path)

    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "turn by turn" in done.stderr
    assert not (tmp_path / "outputs").exists()


def test_a_harness_without_a_model_asks_for_none(tmp_path: Path):
    done = vf_eval("terminal-tasks", "--harness", "noop", "-n", "1", "-r", "1", cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    assert "model: none" in done.stdout
    for wrong, hint in (("--harness=bsh", "bash"), ("--sandbox=locl", "local")):
        refused = vf_eval("terminal-tasks", wrong, "-n", "1", cwd=tmp_path)
        assert (refused.returncode, hint in refused.stderr) == (2, True), refused.stderr


def test_numbers_of_another_program_bear_its_name(tmp_path: Path):
    with serve("no idea") as server:
        asked = ["arithmetic", *endpoint(server, tmp_path / "out"), "-n", "2", "-r", "1"]
        plain, oracle = vf_eval(*asked, cwd=tmp_path), vf_eval(*asked, "--harness", "oracle", cwd=tmp_path)

    assert "arithmetic · mock" in plain.stdout
    assert "arithmetic · mock · chat" not in plain.stdout
    assert "arithmetic · mock · oracle" in oracle.stdout
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "arithmetic--mock",
        "arithmetic--mock--oracle",
    ]


def test_an_unfinished_run_of_another_program_is_not_continued(tmp_path: Path):
    (tmp_path / "mine.py").write_text(
        "from verifiers.harnesses.chat import ChatHarness\n"
        "class Mine(ChatHarness):\n"
        "    name = 'mine'\n"
        "    def __init__(self, careful=False):\n"
        "        self.careful = careful\n"
    )
    failing = iter([True])

    def one_failure(body: dict[str, Any]) -> Answer:
        return (401, {}, {"error": {"message": "no"}}) if next(failing, None) else solve(body)

    with serve(one_failure) as server:
        asked = ["arithmetic", *endpoint(server, tmp_path / "out"), "-n", "2", "-r", "1", "-c", "1", "--json"]
        mine = [*asked, "--harness", "./mine.py:Mine"]
        careful = [*mine, "--harness-args", '{"careful": true}']
        runs = [vf_eval(*one, cwd=tmp_path) for one in (mine, careful, asked, mine)]
    results = [json.loads(done.stdout.splitlines()[-1]) for done in runs]

    assert [done.returncode for done in runs] == [3, 0, 0, 0], runs[-1].stderr
    assert [result["harness"] for result in results] == ["mine", "mine", "chat", "mine"]
    folders = [result["run_dir"] for result in results]
    assert folders[3] == folders[0], "the same program goes on where it was"
    assert len(set(folders)) == 3
