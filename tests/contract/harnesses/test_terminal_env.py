"""Tasks done in a box: what is graded is what was left, in a box the program never touched."""

import json

import pytest

import verifiers as vf
from verifiers.envs import grading
from verifiers.envs.terminal_env import TerminalEnv
from verifiers.errors import ConfigError
from verifiers.sandboxes import get_backend
from verifiers.sandboxes.owner import RUN

ROW = {
    "question": "Write the sum of numbers.txt into total.txt.",
    "files": {"numbers.txt": "1\n2\n3\n"},
    "solution": "awk '{s += $1} END {print s}' numbers.txt > total.txt",
    "checks": [{"run": "cat total.txt", "stdout": "6"}, {"run": "sh /tests/same.sh"}],
    "tests": {"same.sh": "printf '1\\n2\\n3\\n' | cmp - numbers.txt"},
}


def call(command: str) -> vf.AssistantMessage:
    return vf.AssistantMessage(
        content="", tool_calls=[{"id": "c", "name": "bash", "arguments": json.dumps({"command": command})}]
    )


def make(row=ROW, **options) -> TerminalEnv:
    return TerminalEnv(eval_dataset=[{**ROW, **row}], **options)


async def run(env, replies=("x",), **options):
    options = {"state_columns": ["checked"], **options}
    (record,) = (await env.evaluate(vf.ScriptedModel(list(replies)), **options)).records
    assert not [box for box in await get_backend("local").ls() if box.run == RUN]
    return record


async def test_the_oracle_scores_one_and_doing_nothing_zero():
    oracle, nothing = await run(make(), harness="oracle"), await run(make(), harness="noop")

    assert (oracle.reward, oracle.error, oracle.metrics["checks_passed"]) == (1.0, None, 1.0)
    assert (nothing.reward, nothing.error, nothing.metrics["checks_passed"]) == (0.0, None, 0.5)
    assert oracle.trace.calls == []


async def test_a_model_with_a_shell_is_scored_by_what_it_left():
    record = await run(make(), [call("ls; awk '{s+=$1} END{print s}' numbers.txt > total.txt"), "Done."])

    assert (record.reward, record.stop_reason) == (1.0, "done")
    assert [message["role"] for message in record.completion] == ["assistant", "tool", "assistant"]
    assert record.completion[1]["content"] == "numbers.txt"
    assert len(record.trace.calls) == len(record.trace.turns) == 2


@pytest.mark.parametrize("grader", ["separate", "shared"])
async def test_what_still_runs_is_ended_before_grading(grader):
    writer = (
        "(setsid sh -c 'while :; do echo 6 > total.txt; sleep 0.01; done' >/dev/null 2>&1 &); sleep 0.2; echo 7 > x"
    )
    late = {"checks": [{"run": "rm -f total.txt; sleep 0.3; cat total.txt", "exit_code": 1}]}
    record = await run(make(late, grader=grader), [call(writer), "Done."])

    assert record.reward == 1.0, record.columns


async def test_tests_and_solution_are_out_of_reach():
    look = "ls /tests; find / -name '*.sh' -path '*tests*same*' 2>/dev/null; env"
    plant = "mkdir -p /tests && echo exit 0 > /tests/same.sh; echo 6 > total.txt; echo 9 > numbers.txt"
    record = await run(
        make(),
        [
            call(look),
            call(plant),
            "ok",
        ],
    )

    assert "same.sh" not in record.completion[1]["content"]
    assert record.reward == 0.0
    assert [each["passed"] for each in record.columns["checked"]] == [True, False]


@pytest.mark.parametrize("grader", ["separate", "shared"])
async def test_breaking_the_own_box_scores_zero(grader):
    fills = (
        "mkfifo pipe; ln -s / root; ln -s /etc/passwd total.txt; chmod 000 numbers.txt; head -c 900M /dev/zero > big"
    )
    record = await run(make(grader=grader), [call(fills), "ok"])

    assert (record.reward, record.error) == (0.0, None), record.columns


async def test_too_much_to_carry_scores_zero():
    record = await run(make(max_artifacts_mb=1), [call("echo 6 > total.txt; head -c 3M /dev/urandom > big"), "ok"])

    assert (record.reward, record.error) == (0.0, None)
    assert "MB" in record.columns["checked"][0]["why"]


async def test_a_check_that_hangs_has_failed():
    record = await run(make({"checks": [{"run": "sleep 60", "timeout_s": 0.5}]}), ["ok"])

    assert (record.reward, record.error) == (0.0, None)


async def test_a_box_that_cannot_be_set_up_is_no_zero():
    record = await run(make({"setup": ["exit 3"]}), ["ok"], max_retries=1)

    assert record.reward is None
    assert (str(record.error.kind), record.error.where, record.attempt) == ("provisioning", "provision", 2)


@pytest.mark.parametrize("grader", ["separate", "shared"])
async def test_boxes_without_a_file_system_of_their_own_are_refused_not_scored(grader, tmp_path, monkeypatch):
    (tmp_path / "mine").touch()
    monkeypatch.setattr(grading, "TESTS", str(tmp_path))  # what is staged there would lie on this machine
    record = await run(make(grader=grader), harness="oracle", sandbox="unsafe-local")

    assert record.reward is None
    assert "'unsafe-local' has no file system for each box" in record.error.message
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


async def test_max_turns_ends_the_loop_and_the_state_is_scored():
    record = await run(make(max_turns=2), [call("echo 6 > total.txt")])

    assert (record.reward, record.stop_reason, len(record.trace.calls)) == (1.0, "max_turns", 2)


async def test_pairs_that_make_no_sense_are_refused_up_front():
    with pytest.raises(ConfigError, match=r"chat.*shell"):
        await run(make(), harness="chat")
    game = vf.load_environment("word-game")
    with pytest.raises(ConfigError, match="turn by turn"):
        await run(game, harness="bash")


@pytest.mark.parametrize("name", ["arithmetic", "reverse-text", "calculator"])
async def test_plain_environments_know_their_own_answers(name):
    env = vf.load_environment(name, num_eval_examples=3)
    right = await env.evaluate(vf.ScriptedModel(["x"]), harness="oracle")
    wrong = await env.evaluate(vf.ScriptedModel(["x"]), harness="noop")

    assert [record.reward for record in right.records] == [1.0] * 3
    assert [record.reward for record in wrong.records] == [0.0] * 3


async def test_a_single_turn_task_in_the_bash_harness_gets_a_box():
    env = vf.load_environment("arithmetic", num_eval_examples=1)
    record = await run(env, [call("echo $((20 + 3))"), "23"], harness="bash", state_columns=[])

    assert record.completion[1]["content"] == "23"
    assert record.error is None


async def test_rows_say_what_their_box_is():
    row = {"files": {"numbers.txt": "4\n"}, "sandbox": {"workdir": "/home/user/job", "env": {"WHO": "me"}}}
    env = make({**row, "checks": [{"run": "echo $WHO $PWD; cat numbers.txt", "stdout": "me /home/user/job\n4"}]})

    record = await run(env, harness="noop")
    assert (record.reward, record.error) == (1.0, None)
    with pytest.raises(ConfigError, match="memory_mb"):
        await run(make({"sandbox": {"memory": 1}}))
