"""SandboxEnv and PythonEnv on real boxes: what the model does stays in its box, which is there for scoring hooks."""

import asyncio
import json

import pytest

import needs
import verifiers as vf
from verifiers.errors import ConfigError, SandboxLostError
from verifiers.sandboxes import get_backend
from verifiers.sandboxes.owner import RUN
from waiting import until


def call(name: str, **arguments) -> vf.AssistantMessage:
    function = {"id": "c1", "name": name, "arguments": json.dumps(arguments)}
    return vf.AssistantMessage(content="", tool_calls=[function])


class NoteEnv(vf.SandboxEnv):
    """Rewards a file the model writes; the file is read before the box goes."""

    async def post_sandbox_setup(self, state):
        await self.box(state).write("task.txt", state["answer"])

    async def post_rollout(self, state):
        result = await self.sandbox_client.execute_command(state["sandbox_id"], "cat note.txt")
        state["note"] = result.stdout.strip()


async def run(env, replies):
    (record,) = (await env.evaluate(vf.ScriptedModel(replies), num_examples=1)).records
    return record


def noted(state, answer) -> float:
    return float(state["note"] == answer)


def make(kind=NoteEnv, **options):
    rows = [{"question": "Copy the task into note.txt", "answer": "forty-two"}]
    from datasets import Dataset

    options = {"memory_gb": 0.25, "disk_size_gb": 0.05, **options}
    return kind(eval_dataset=Dataset.from_list(rows), rubric=vf.Rubric(funcs=[noted]), max_turns=6, **options)


def tool_texts(record) -> list[str]:
    return [message["content"] for message in record.completion if message["role"] == "tool"]


async def test_the_model_works_in_a_box_and_is_scored_by_what_it_left():
    env = make()
    record = await run(env, [call("bash", command="cp task.txt note.txt; ls; echo oops >&2; exit 3"), "done"])

    assert record.reward == 1.0
    assert tool_texts(record) == ["note.txt\ntask.txt\nstderr:\noops\n(exit code 3)"]
    assert not env.active_sandboxes
    assert not [box for box in await get_backend("local").ls() if box.run == RUN]


async def test_time_limits_and_missing_output_are_told():
    env = make(timeout_per_command_seconds=3, max_output=10)
    commands = ["sleep 60", "true", "yes | head -50"]
    texts = tool_texts(await run(env, [*(call("bash", command=command) for command in commands), "done"]))

    assert texts[0] == "Error: the command timed out after 3 seconds and was killed"
    assert texts[1] == "(no output)"
    assert texts[2] == "y\ny\ny\ny\ny\n(output was cut)"


async def test_hidden_arguments_are_not_the_models():
    env = make()
    (definition,) = env.tool_defs
    assert list(definition["parameters"]["properties"]) == ["command"]


def test_what_cannot_be_given_is_refused():
    with pytest.raises(ConfigError, match="no GPUs"):
        make(gpu_count=1)


class SumEnv(vf.PythonEnv):
    async def post_rollout(self, state):
        state["note"] = state["answer"]


async def test_python_keeps_its_variables_and_tells_errors():
    env = make(SumEnv)
    replies = [
        call("python", code="import math\nx = 6\nprint('set')"),
        call("python", code="y = x * 7\ny"),
        call("python", code="1/0"),
        call("python", code="raise SystemExit(3)"),
        call("python", code="input()"),
        call("python", code="y + 1"),
        "done",
    ]
    env.max_turns = 10
    record = await run(env, replies)
    texts = tool_texts(record)

    assert texts[:2] == ["set", "42"]
    assert texts[2].endswith("ZeroDivisionError: division by zero")
    assert "SystemExit: 3" in texts[3]
    assert "EOFError" in texts[4]
    assert texts[5] == "43"
    assert record.reward == 1.0


async def test_python_that_runs_too_long_is_started_anew():
    env = make(SumEnv, timeout_per_command_seconds=4)
    replies = [call("python", code="x = 1"), call("python", code="while True: pass"), call("python", code="x"), "done"]
    texts = tool_texts(await run(env, replies))

    assert texts[0] == "(no output)"
    assert "longer than 4 seconds" in texts[1]
    assert "NameError" in texts[2]


async def test_python_that_dies_or_lies_is_told_as_such():
    env = make(SumEnv)
    replies = [
        call("python", code="import os; os.write(4, b'nonsense\\n'); os._exit(3)"),
        call("python", code="'works again'"),
        "done",
    ]
    texts = tool_texts(await run(env, replies))

    assert texts[0].startswith("Error:")
    assert texts[1] == "'works again'"


class SeenEnv(NoteEnv):
    """Notes which boxes its rollouts had, and whether one of them waited for its rollout."""

    def __init__(self, **options):
        super().__init__(**options)
        self.seen, self.waited = [], []

    def ready(self, state) -> set[str]:
        pools = state.session.boxes._pools.values()
        return {box.id for pool in pools for shelf in pool._shelves.values() for box in shelf.ready}

    async def setup_state(self, state, **keywords):
        ready = self.ready(state)
        state = await super().setup_state(state, **keywords)
        self.seen.append(state["sandbox_id"])
        self.waited.append(state["sandbox_id"] in ready)
        return state

    async def post_rollout(self, state):
        await super().post_rollout(state)
        if len(self.seen) > 1:  # from the second on, the pool starts one ahead
            assert await until(lambda: bool(self.ready(state)))

    def get_sandbox_request(self, state):
        request = super().get_sandbox_request(state)
        return request.model_copy(update={"environment_vars": {"TASK": str(len(self.seen))}})


async def test_rollouts_get_boxes_that_were_started_ahead():
    env = make(SeenEnv)
    reply = call("bash", command="cp task.txt note.txt; echo $TASK")
    results = await env.evaluate(
        vf.ScriptedModel(lambda messages, tools, sampling: "done" if messages[-1]["role"] == "tool" else reply),
        num_examples=1,
        rollouts_per_example=6,
        max_concurrent=1,
    )

    assert [record.reward for record in results.records] == [1.0] * 6
    assert [tool_texts(record) for record in results.records] == [[str(number)] for number in range(6)]
    assert len(set(env.seen)) == 6
    assert env.waited[2:] == [True] * 4
    assert not [box for box in await get_backend("local").ls() if box.run == RUN]


async def test_the_runs_backend_is_an_environments_unless_it_names_one():
    class BackendEnv(NoteEnv):
        async def post_rollout(self, state):
            state["note"] = self.box(state).backend

    found = []
    for options in ({}, {"backend": "local"}):
        env = make(BackendEnv, **options)
        results = await env.evaluate(
            vf.ScriptedModel(["done"]), num_examples=1, sandbox="unsafe-local", state_columns=["note"]
        )
        found.append(results.outputs[0]["note"])

    assert found == ["unsafe-local", "local"]


async def test_outside_of_a_run_a_box_is_fresh():
    client = make().sandbox_client
    made = await client.create(make().sandbox_request)
    try:
        assert (await client.execute_command(made.id, "echo here")).stdout == "here\n"
    finally:
        await client.delete(made.id)


async def test_background_jobs_are_asked_for_until_they_are_over():
    env = make()
    client = env.sandbox_client
    made = await client.create(env.sandbox_request)
    env.active_sandboxes.add(made.id)
    waiting = "until [ -e go ]; do sleep 0.05; done; echo $PWD; exit 3"
    job = await client.start_background_job(made.id, waiting, working_dir="/tmp")
    assert not (await client.get_background_job(made.id, job)).completed
    await client.execute_command(made.id, "touch /tmp/go")

    async def completed() -> bool:
        return (await client.get_background_job(made.id, job)).completed

    assert await until(completed)
    status = await client.get_background_job(made.id, job)
    assert (status.exit_code, status.stdout) == (3, "/tmp\n")
    assert (await client.run_background_job(made.id, "echo done", timeout=120)).stdout == "done\n"

    lost = await client.start_background_job(made.id, "sleep 600")
    await env.bulk_delete_sandboxes([made.id])
    assert env.active_sandboxes == set()
    with pytest.raises(SandboxLostError):
        await client.get_background_job(made.id, lost)
    with pytest.raises(SandboxLostError):
        await client.get(made.id)


async def test_a_python_rollout_says_how_long_its_session_took():
    record = await run(make(SumEnv), ["done"])

    assert 0 < record.metrics["python_ready_wait_time"] < 30


@needs.DOCKER
@pytest.mark.parametrize("kind", [vf.SandboxEnv, vf.PythonEnv])
async def test_a_model_that_removes_the_programs_is_told_and_scored(kind):
    class BrokenEnv(kind):
        async def post_rollout(self, state):
            state["note"] = "nothing"

    env = make(BrokenEnv, backend=needs.docker_backend())
    line = "rm -rf /bin/* /usr/bin/* /lib64/*"
    code = f"import os; os.system('{line}'); os._exit(0)"
    first, second = call("bash", command=f"{line}; true"), call("bash", command="ls")
    if kind is vf.PythonEnv:
        first, second = call("python", code=code), call("python", code="1")
    record = await run(env, [first, second, "done"])

    assert (record.reward, record.error) == (0.0, None)
    assert tool_texts(record)[1].startswith("Error: ")


@pytest.mark.parametrize(
    "session",
    ["import time; time.sleep(300)", "import os, time\nif os.fork() == 0: os.close(1); time.sleep(300)"],
    ids=["says nothing", "leaves its complaints open"],
)
async def test_a_session_that_the_model_keeps_from_starting_is_no_hang(session: str):
    class SpoiltEnv(SumEnv):
        async def post_sandbox_setup(self, state):
            await super().post_sandbox_setup(state)
            self.max_startup_wait_seconds = 0.5

    env = make(SpoiltEnv)
    code = f"import os; open('/tmp/.session.py', 'w').write({session!r}); os._exit(0)"
    record = await asyncio.wait_for(run(env, [call("python", code=code), call("python", code="1"), "done"]), 60)

    assert (record.reward, record.error) == (1.0, None)
    assert tool_texts(record)[1] == "Error: the Python session did not start within 0.5 s"


@pytest.mark.parametrize("trick", ["kill -STOP $PPID; sleep 99", "cd /; rm -rf /workspace; ln -s workspace /workspace"])
async def test_no_first_command_ends_its_rollout_without_a_score(trick: str):
    """A box without an image starts as a shell, whose first command comes before the agent."""

    class UnseenEnv(vf.SandboxEnv):
        async def post_rollout(self, state):
            state["note"] = "nothing"

    env = make(UnseenEnv, timeout_per_command_seconds=1.0)
    asked = [call("bash", command=trick), call("bash", command="echo here"), "done"]
    record = await asyncio.wait_for(run(env, asked), 60)

    assert (record.reward, record.error) == (0.0, None)


async def test_its_boxes_reach_what_is_allowed_and_no_more():
    env = make(network="allowlist", allow=["files.example.org"])
    line = "python3 -c 'import urllib.request as u; u.urlopen(\"http://other.example.org\")'"
    (told,) = tool_texts(await run(env, [call("bash", command=line), "done"]))

    assert "HTTP Error 403: not in this sandbox's allow list: other.example.org:80" in told
