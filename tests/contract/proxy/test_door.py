"""What a program's calls mean for its rollout: turns, side calls, retries, branches, limits, verdicts, faults."""

import asyncio
import json

import httpx
import pytest

from verifiers.errors import ModelError, OverlongPromptError, SandboxLostError
from verifiers.messages import AssistantMessage, ToolCall
from verifiers.models.failures import http_failure
from verifiers.models.scripted import ScriptedModel
from verifiers.proxy import door
from verifiers.proxy.options import Deny, Rewrite
from verifiers.session import Limits
from verifiers.state import read_turns
from waiting import until

TOOL = {"type": "function", "function": {"name": "bash", "description": "", "parameters": {"type": "object"}}}


def user(text):
    return {"role": "user", "content": text}


def system(text):
    return {"role": "system", "content": text}


def call(command, call_id="call_1"):
    return AssistantMessage(None, tool_calls=[ToolCall(call_id, "bash", json.dumps({"command": command}))])


def posts(served, path="/v1/chat/completions", **options):
    headers = {"Authorization": f"Bearer {served.door.secret}"}
    client = httpx.AsyncClient(base_url=served.door.url, headers=headers, timeout=120, **options)

    async def post(*messages, tools=(TOOL,), headers=None, **fields):
        body = {"model": "gpt-x", "messages": list(messages), "tools": list(tools), **fields}
        return await client.post(path, json=body, headers=headers)

    return client, post


async def streamed(served, path):
    """The pieces of one streamed answer, as they come."""
    headers = {"Authorization": f"Bearer {served.door.secret}"}
    body = {"model": "m", "stream": True, "messages": [user("go")], "input": "go", "max_tokens": 5}
    async with (
        httpx.AsyncClient(base_url=served.door.url, headers=headers, timeout=120) as client,
        client.stream("POST", path, json=body) as answer,
    ):
        async for piece in answer.aiter_text():
            yield piece


async def test_a_rollout_of_tool_calls_is_one_chain_of_turns(serve):
    async with serve([call("ls"), "done"]) as served:
        client, post = posts(served)
        async with client:
            first = (await post(system("s"), user("go"))).json()["choices"][0]["message"]
            told = [system("s"), user("go"), first, {"role": "tool", "tool_call_id": "call_1", "content": "a.txt"}]
            await post(*told)

        calls = served.session.recorder.calls
        assert [(c.prompt.kept, len(c.prompt.added)) for c in calls] == [(0, 2), (3, 1)]
        trajectory = served.session.state["trajectory"]
        assert [step["completion"][0].text for step in trajectory] == ["", "done"]
        assert trajectory[1]["prompt"][2] is trajectory[0]["completion"][0]
        assert [message.role for message in served.door.completion()] == ["assistant", "tool", "assistant"]
        assert [turn.call for turn in read_turns(served.session.state, served.session.recorder)] == [0, 1]


async def test_reasoning_that_a_program_drops_is_gone_from_the_next_prompt_only(serve):
    reply = AssistantMessage("4", reasoning_content="two and two")
    async with serve([reply, "5"]) as served:
        client, post = posts(served)
        async with client:
            await post(user("2+2?"))
            await post(user("2+2?"), {"role": "assistant", "content": "4"}, user("sure?"))
        first, second = served.session.state["trajectory"]

        assert first["completion"][0].reasoning_content == "two and two"
        assert second["prompt"][1].reasoning_content is None


async def test_retries_join_the_call_in_flight(serve):
    async with serve(["once"], latency_s=0.5) as served:
        client, post = posts(served)
        async with client:
            with pytest.raises(httpx.ReadTimeout):
                await client.post(
                    "/v1/chat/completions",
                    json={"model": "gpt-x", "messages": [user("go")], "tools": [TOOL]},
                    timeout=httpx.Timeout(60, read=0.2),
                )
            again = await post(user("go"))
            assert again.json()["choices"][0]["message"]["content"] == "once"
            assert served.model.calls == 1
            await post(user("go"))  # its reply arrived, so this asks for another sample
        assert (served.model.calls, served.door.calls) == (2, 2)


async def test_a_reply_nobody_got_waits_for_the_retry(serve):
    async with serve(["once"], latency_s=0.4) as served:
        client, post = posts(served)
        body = {"model": "gpt-x", "messages": [user("go")], "tools": [TOOL]}
        async with client:
            with pytest.raises(httpx.ReadTimeout):
                await client.post("/v1/chat/completions", json=body, timeout=httpx.Timeout(60, read=0.2))
            await asyncio.sleep(0.5)
            await post(user("go"), stream=True)
            assert served.model.calls == 1


async def test_a_declared_retry_gets_the_delivered_reply_again(serve):
    async with serve(["once"]) as served:
        client, post = posts(served)
        async with client:
            await post(user("go"))
            await post(user("go"), headers={"x-stainless-retry-count": "1"})
        assert served.model.calls == 1


async def test_a_failed_call_is_made_again_and_is_one_turn(serve):
    async with serve([ModelError("down"), "up"], order="call") as served:
        client, post = posts(served)
        async with client:
            failed = await post(user("go"))
            assert (failed.status_code, failed.headers["x-should-retry"]) == (502, "true")
            assert isinstance(served.door.fault, ModelError)
            assert (await post(user("go"))).status_code == 200
        assert served.door.fault is None
        assert len(served.session.state["trajectory"]) == 1
        assert [c.error for c in served.session.recorder.calls] == ["ModelError: down", None]


@pytest.mark.parametrize("title_first", [True, False])
async def test_title_requests_beside_the_first_turn_are_side_calls(serve, title_first, monkeypatch):
    monkeypatch.setattr(door, "TITLE_WAIT_S", 60)
    async with serve("reply") as served:
        client, post = posts(served)

        async def title():
            await asyncio.sleep(0 if title_first else 0.02)
            await post(system("write a title"), user("go"), tools=())

        async def turn():
            await asyncio.sleep(0.02 if title_first else 0)
            await post(system("be good"), user("go"))

        async with client:
            await asyncio.gather(title(), turn())
        assert sorted(served.roles) == ["policy", "side"]
        assert [step["prompt"][0].text for step in served.session.state["trajectory"]] == ["be good"]
        assert served.session.recorder.usage.completion_tokens == 2


async def test_a_program_without_tools_takes_turns(serve):
    async with serve(["a", "b"]) as served:
        client, post = posts(served)
        async with client:
            await post(user("go"), tools=())
            await post(user("go"), {"role": "assistant", "content": "a"}, user("on"), tools=())
        assert served.roles == ["policy", "policy"]


async def test_a_summary_of_the_conversation_is_a_turn_of_the_policy(serve):
    async with serve(["a", "summary"]) as served:
        client, post = posts(served)
        async with client:
            await post(system("s"), user("go"))
            await post(system("s"), user("go"), {"role": "assistant", "content": "a"}, user("summarise"), tools=())
        assert served.roles == ["policy", "policy"]


async def test_helper_models_are_side_calls_and_other_models_may_answer(serve):
    cheap = ScriptedModel("cheap", name="cheap")
    async with serve("main", models={"*-mini": cheap}) as served:
        client, post = posts(served)
        async with client:
            await post(user("go"))
            await post(user("is this dangerous?"), model="claude-haiku-9")
            mini = await post(user("name it"), model="gpt-x-mini")
        assert served.roles == ["policy", "side", "side"]
        assert (mini.json()["choices"][0]["message"]["content"], mini.json()["model"]) == ("cheap", "gpt-x-mini")


async def test_the_main_model_may_be_called_like_a_helper(serve):
    async with serve("main", model="claude-haiku-9") as served:
        client, post = posts(served)
        async with client:
            await post(user("go"), model="claude-haiku-9")
        assert served.roles == ["policy"]


async def test_other_agents_have_a_name_and_rewritten_histories_have_not(serve):
    async with serve("r") as served:
        client, post = posts(served)
        reply = {"role": "assistant", "content": "r"}
        async with client:
            await post(system("main"), user("go"))
            await post(system("helper"), user("look"))
            await post(system("helper"), user("look"), reply, user("closer"))
            await post(system("helper"), user("find"))
            await post(system("main"), user("go"), reply, user("on"))
            await post(system("main"), user("so far: much. go on"))
        turns = read_turns(served.session.state, served.session.recorder)
        assert [turn.agent for turn in turns] == ["", "agent-1", "agent-1", "agent-2", "", ""]
        assert [m.text for m in served.door.completion()] == ["r", "on", "r", "so far: much. go on", "r"]


async def test_sampling_of_the_run_wins_and_what_lost_is_kept(serve):
    asked = {"temperature": 0.1, "top_p": 0.5, "max_completion_tokens": 7, "store": False, "user": "u"}
    got = {}

    def reply(messages, tools, sampling):
        got.update(sampling)
        return "r"

    async with serve(reply, run_sampling={"temperature": 1.0, "seed": 3}) as served:
        client, post = posts(served)
        async with client:
            await post(user("go"), **asked)
        assert got == {"temperature": 1.0, "seed": 3, "top_p": 0.5, "max_tokens": 7}
        assert served.session.recorder.calls[0].sampling == {"top_p": 0.5, "max_tokens": 7}
        assert served.session.state["trajectory"][0]["extras"] == {"overruled": {"temperature": 0.1}}


async def test_sampling_of_the_program_may_win_but_not_against_the_harness(serve):
    got = {}

    def reply(messages, tools, sampling):
        got.update(sampling)
        return "r"

    options = {"sampling_of": "program", "sampling": {"max_tokens": 5}}
    async with serve(reply, run_sampling={"temperature": 1.0}, **options) as served:
        client, post = posts(served)
        async with client:
            await post(user("go"), temperature=0.1, max_tokens=7)
        assert got == {"temperature": 0.1, "max_tokens": 5}


async def test_several_replies_at_once_are_refused(serve):
    async with serve("r") as served:
        client, post = posts(served)
        async with client:
            refused = await post(user("go"), n=2)
        assert (refused.status_code, served.model.calls) == (400, 0)


@pytest.mark.parametrize(("path", "status"), [("/v1/chat/completions", 404), ("/v1/messages", 400)])
async def test_a_limit_stops_the_rollout_once_and_for_all(serve, path, status):
    async with serve("r", limits=Limits(max_turns=1)) as served:
        client, post = posts(served, path)
        async with client:
            assert (await post(user("go"), tools=())).status_code == 200
            assert not served.door.stopped.is_set()
            refused = await post(user("more"), tools=())
            also = await post(user("even more"), tools=())
        assert (refused.status_code, also.status_code) == (status, status)
        assert "max_turns_reached" in refused.json()["error"]["message"]
        assert refused.headers["x-should-retry"] == "false"
        assert served.door.stopped.is_set()
        assert (served.door.condition, served.door.calls) == ("max_turns_reached", 1)


async def test_a_stopped_rollout_may_answer_with_a_last_message(serve):
    async with serve("r", limits=Limits(max_turns=0), stop_text="The end.") as served:
        client, post = posts(served)
        async with client:
            last = await post(user("go"))
        assert last.json()["choices"][0]["message"]["content"] == "The end."
        assert served.door.condition == "max_turns_reached"
        assert served.session.recorder.calls == []


async def test_a_stop_condition_is_asked_before_each_call(serve):
    conditions = iter([None, "solved"])

    async def should_stop():
        return next(conditions)

    async with serve("r", should_stop=should_stop) as served:
        client, post = posts(served)
        async with client:
            assert (await post(user("go"))).status_code == 200
            assert (await post(user("on"))).status_code == 404
        assert (served.door.condition, served.model.calls) == ("solved", 1)


async def test_a_full_context_is_told_and_may_be_cured(serve):
    async with serve([OverlongPromptError("8192 tokens"), "short"], order="call") as served:
        client, post = posts(served)
        async with client:
            full = await post(user("long"))
            assert (full.status_code, full.json()["error"]["code"]) == (400, "context_length_exceeded")
            assert (served.door.condition, served.door.stopped.is_set()) == ("prompt_too_long", False)
            assert (await post(user("short"))).status_code == 200
        assert (served.door.condition, served.door.fault) == (None, None)


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("/v1/chat/completions", {"type": "authentication_error", "param": None, "code": "provider_error"}),
        ("/v1/messages", {"type": "authentication_error"}),
    ],
)
async def test_errors_of_the_endpoint_pass_through_in_the_programs_dialect(serve, path, error):
    refused = http_failure(401, b'{"error": {"message": "bad key"}}', where="model 'm'").error
    async with serve(refused) as served:
        client, post = posts(served, path)
        async with client:
            answer = await post(user("go"), tools=())
        said = answer.json()["error"]
        assert "bad key" in said.pop("message")
        assert (answer.status_code, answer.headers["x-should-retry"], said) == (401, "false", error)
        assert isinstance(served.door.fault, ModelError)


async def test_denied_calls_reach_the_model_and_not_the_program(serve):
    seen = []

    def reply(messages, tools, sampling):
        seen.append([message.get("content") for message in messages])
        turn = sum(message["role"] == "assistant" for message in messages)
        return [call("rm -rf /", "call_0"), call("ls"), "done"][turn]

    def intercept(tool_call):
        return Deny("rm is not allowed") if "rm" in tool_call.arguments else None

    async with serve(reply, intercept=intercept) as served:
        client, post = posts(served)
        async with client:
            got = (await post(user("clean"))).json()["choices"][0]["message"]
            assert [c["id"] for c in got["tool_calls"]] == ["call_1"]
            await post(user("clean"), got, {"role": "tool", "tool_call_id": "call_1", "content": "a"})
        assert seen[1] == ["clean", None, "rm is not allowed"]
        assert seen[2] == ["clean", None, "rm is not allowed", None, "a"]
        assert [c.prompt.kept for c in served.session.recorder.calls] == [0, 2, 4]
        assert served.door.calls == 3


async def test_of_several_calls_only_the_denied_are_held_back(serve):
    both = AssistantMessage("x", tool_calls=[*call("rm", "call_0").tool_calls, *call("ls").tool_calls])

    async def intercept(tool_call):
        return Deny("no") if "rm" in tool_call.arguments else None

    async with serve([both, "done"], intercept=intercept) as served:
        client, post = posts(served)
        async with client:
            got = (await post(user("go"))).json()["choices"][0]["message"]
            await post(user("go"), got, {"role": "tool", "tool_call_id": "call_1", "content": "a"})
        prompt = served.session.state["trajectory"][1]["prompt"]
        assert [c["id"] for c in got["tool_calls"]] == ["call_1"]
        assert [message.get("tool_call_id") for message in prompt] == [None, None, "call_0", "call_1"]
        assert len(prompt[1].tool_calls) == 2


async def test_rewritten_calls_are_the_programs_and_the_model_keeps_its_own(serve):
    def intercept(tool_call):
        return Rewrite(ToolCall(tool_call.id, "bash", '{"command": "timeout 9 ls"}'))

    async with serve([call("ls"), "done"], intercept=intercept) as served:
        client, post = posts(served)
        async with client:
            got = (await post(user("go"))).json()["choices"][0]["message"]
            assert got["tool_calls"][0]["function"]["arguments"] == '{"command": "timeout 9 ls"}'
            await post(user("go"), got, {"role": "tool", "tool_call_id": "call_1", "content": "a"})
        assert served.session.state["trajectory"][1]["prompt"][1].tool_calls[0].arguments == '{"command": "ls"}'


async def test_a_model_that_only_asks_for_what_is_denied_ends(serve):
    async with serve(call("rm"), intercept=lambda _: Deny("no")) as served:
        client, post = posts(served)
        async with client:
            got = (await post(user("go"))).json()["choices"][0]
        assert (got["finish_reason"], got["message"].get("tool_calls")) == ("stop", None)
        assert served.door.calls == 9


async def test_broken_environment_code_is_a_fault_and_ends_the_rollout(serve):
    async def should_stop():
        raise KeyError("oops")

    async with serve("r", should_stop=should_stop) as served:
        client, post = posts(served)
        async with client:
            assert (await post(user("go"))).status_code == 500
            assert (await post(user("go"))).status_code == 404
        assert isinstance(served.door.fault, KeyError)
        assert served.door.condition == "has_error"


async def test_a_lost_box_behind_a_model_call_is_a_fault(serve):
    async with serve(SandboxLostError("gone")) as served:
        client, post = posts(served)
        async with client:
            await post(user("go"))
        assert served.door.stopped.is_set()
        assert isinstance(served.door.fault, SandboxLostError)


async def test_streams_show_life_while_there_is_no_reply(serve):
    signs = {"/v1/chat/completions": ": still working", "/v1/messages": "event: ping", "/v1/responses": "in_progress"}
    for path, sign in signs.items():
        seen = asyncio.Event()

        async def reply(messages, tools, sampling, seen=seen):
            await seen.wait()
            return "r"

        async with serve(reply, ping_s=0.1) as served:
            text = ""
            async for piece in streamed(served, path):
                text += piece
                if text.count(sign) >= 2:
                    seen.set()
            assert seen.is_set()
            assert served.door.calls == 1


async def test_a_stream_that_has_begun_ends_with_the_error(serve):
    ends = {"/v1/chat/completions": '"code"', "/v1/messages": "event: error", "/v1/responses": "response.failed"}
    for path, end in ends.items():
        begun = asyncio.Event()

        async def reply(messages, tools, sampling, begun=begun):
            await begun.wait()
            return ModelError("down")

        async with serve(reply, ping_s=0.05) as served:
            text = ""
            async for piece in streamed(served, path):
                text += piece
                begun.set()
            assert end in "".join(text.splitlines()[-3:])


async def test_closing_ends_calls_in_flight(serve):
    async with serve("r", latency_s=600) as served:
        client, post = posts(served)
        async with client:
            waiting = asyncio.ensure_future(post(user("go")))
            assert await until(lambda: served.model.calls == 1)
            await served.door.close()
            assert (await waiting).status_code == 503
    assert served.session.recorder.calls[0].error.startswith("CancelledError")


async def test_the_secret_in_the_path_and_the_unix_socket(serve):
    async with serve("r") as served:
        body = {"model": "m", "messages": [user("go")]}
        transport = httpx.AsyncHTTPTransport(uds=str(served.door.socket))
        async with httpx.AsyncClient(transport=transport) as client:
            url = served.door.url_for("http://localhost")
            assert (await client.post(f"{url}/v1/chat/completions", json=body)).status_code == 200
    assert not served.door.socket.exists()
    assert not served.door.socket.parent.exists()


async def test_failed_calls_are_no_turns_of_the_limit(serve):
    async with serve([ModelError("down"), "up", "more"], order="call", limits=Limits(max_turns=1)) as served:
        client, post = posts(served)
        async with client:
            assert [(await post(user("go"))).status_code for _ in range(3)] == [502, 200, 404]


async def test_a_call_that_ends_after_the_stop_does_not_unsay_it(serve):
    late = asyncio.Event()

    async def reply(messages, tools, sampling):
        await late.wait()
        return "late"

    async with serve(reply, limits=Limits(max_turns=1)) as served:
        client, post = posts(served)
        async with client:
            slow = asyncio.ensure_future(post(user("slow")))
            assert await until(lambda: served.model.calls == 1)
            assert (await post(user("one too many"))).status_code == 404
            late.set()
            assert (await slow).status_code == 200
        assert (served.door.condition, served.door.stopped.is_set()) == ("max_turns_reached", True)


async def test_a_request_that_the_endpoint_does_not_take_is_its_programs_doing(serve):
    refused = http_failure(400, b'{"error": {"message": "bad image"}}', where="model 'm'").error
    async with serve(["fine", refused], order="call") as served:
        client, post = posts(served)
        async with client:
            await post(user("go"))
            assert (await post(user("broken"))).status_code == 400
        assert (served.door.fault, served.door.stopped.is_set()) == (None, False)


async def test_a_title_that_failed_is_no_fault(serve):
    async with serve([ModelError("down")], toolless_is_side=True) as served:
        client, post = posts(served)
        async with client:
            assert (await post(user("title?"), tools=())).status_code == 502
        assert served.door.fault is None


async def test_a_title_that_passed_for_a_turn_is_not_the_main_agents(serve):
    async with serve("reply", toolless_is_side=False) as served:
        client, post = posts(served)
        async with client:
            await post(system("write a title"), user("title of: go"), tools=())
            await post(system("be good"), user("go"))
            await post(system("be good"), user("go"), {"role": "assistant", "content": "reply"}, user("on"))
            await post(system("write a title"), user("title of: go"), tools=())
        turns = read_turns(served.session.state, served.session.recorder)
        assert [turn.agent for turn in turns] == ["agent-1", "", "", "agent-1"]
        assert [message.text for message in served.door.completion()] == ["reply", "on", "reply"]
