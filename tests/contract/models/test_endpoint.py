"""EndpointModel against real servers on loopback: retries, limits, overload, refusals, secrets."""

import asyncio
import contextlib
import json
import socket
import time
from collections.abc import Awaitable, Callable
from email.utils import formatdate
from typing import Any

import pytest
from aiohttp import web

from verifiers.errors import Cause, ConfigError, EmptyModelResponseError, ModelError, OverlongPromptError
from verifiers.messages import Tool, UserMessage
from verifiers.models import Endpoint, EndpointModel, transport
from verifiers.models.retry import RetryPolicy
from verifiers.models.transport import CallLimits
from waiting import until

HI = [UserMessage("hi")]
QUICK = CallLimits(timeout_s=60, retry=RetryPolicy(attempts=4, first_s=0.01, longest_s=0.05))
KEY = "sk-verysecret-123456"


def completion(text: str = "ok", **extra: Any) -> dict[str, Any]:
    message = {"role": "assistant", "content": text}
    return {
        "id": "c1",
        "object": "chat.completion",
        "created": 7,
        "model": "m-1",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5},
        **extra,
    }


Answer = Callable[[int, web.Request], Awaitable[web.StreamResponse]]


def always(status: int, body: Any, **headers: str) -> Answer:
    async def answer(number: int, request: web.Request) -> web.Response:
        return web.json_response(body, status=status, headers=headers)

    return answer


def then_ok(failures: list[web.Response | Callable[[web.Request], Awaitable[web.StreamResponse]]]) -> Answer:
    async def answer(number: int, request: web.Request) -> web.StreamResponse:
        if number >= len(failures):
            return web.json_response(completion())
        failure = failures[number]
        return failure if isinstance(failure, web.Response) else await failure(request)

    return answer


async def test_a_call_says_what_it_was_told_to_and_brings_everything_back(serve: Any):
    async with serve(always(200, completion(system_fingerprint="fp"))) as served:
        model = served.model(headers={"X-Team": "blue"})
        response = await model.generate(
            HI,
            tools=[Tool("f", "does", {"type": "object"})],
            sampling={"temperature": 0.5, "extra_headers": {"X-R": "1"}},
        )
        await model.close()

    assert response.message == {"role": "assistant", "content": "ok"}
    assert (response.usage.total_tokens, response.attempts, response.model) == (5, 1, "m-1")
    assert response.extras == {"system_fingerprint": "fp"}
    assert served.bodies[0]["tools"][0]["function"]["name"] == "f"
    sent = served.headers[0]
    assert (sent["Authorization"], sent["X-Team"], sent["X-R"]) == (f"Bearer {KEY}", "blue", "1")


async def test_three_refusals_for_load_then_an_answer_are_four_attempts_of_one_call(serve: Any):
    busy = [web.json_response({"error": {"message": "slow down"}}, status=429) for _ in range(3)]
    async with serve(then_ok([*busy])) as served:
        model = served.model()
        response = await model.generate(HI)
        await model.close()

    assert (response.attempts, len(served.bodies), response.message.text) == (4, 4, "ok")
    assert served.bodies[0] == served.bodies[3]


@pytest.mark.parametrize("status", [408, 409, 500, 502, 503, 504, 529])
async def test_passing_troubles_are_retried(serve: Any, status: int):
    async with serve(then_ok([web.Response(status=status, text="<html>busy</html>")])) as served:
        model = served.model()
        assert (await model.generate(HI)).attempts == 2
        await model.close()


@pytest.mark.parametrize(
    "headers",
    [
        {"Retry-After": "1"},
        {"Retry-After": "0.3"},
        {"retry-after-ms": "300"},
        {"Retry-After": "date"},
    ],
    ids=["seconds", "fraction", "milliseconds", "date"],
)
async def test_the_server_says_when_to_come_back(serve: Any, headers: dict[str, str]):
    async def busy(request: web.Request) -> web.Response:
        dated = {"Retry-After": formatdate(time.time() + 2, usegmt=True)}  # 1 to 2 seconds: dates have no fractions
        return web.Response(status=429, headers=dated if headers.get("Retry-After") == "date" else headers)

    async with serve(then_ok([busy])) as served:
        model = served.model()
        await model.generate(HI)
        await model.close()

    wished_s = {"1": 1.0, "date": 0.5}.get(headers.get("Retry-After", ""), 0.3)
    assert wished_s - 0.01 <= served.times[1] - served.times[0] < 60


async def test_a_wish_for_a_very_long_pause_is_an_error_that_names_it(serve: Any):
    async with serve(always(429, {"error": "quota"}, **{"Retry-After": "86400"})) as served:
        model = served.model()
        with pytest.raises(ModelError, match="pause of 86400 s"):
            await model.generate(HI)
        await model.close()
    assert len(served.bodies) == 1


async def test_an_endpoint_that_always_fails_is_given_up_and_may_be_tried_by_another_rollout(serve: Any):
    async with serve(always(503, {"error": {"message": "no capacity"}})) as served:
        model = served.model()
        with pytest.raises(ModelError, match=r"no capacity.*gave up after 4 attempts") as caught:
            await model.generate(HI)
        await model.close()
    assert (caught.value.retryable, caught.value.cause) == (True, Cause.INFRASTRUCTURE)
    assert len(served.bodies) == 4


@pytest.mark.parametrize(
    ("status", "advice"), [(401, "check the key"), (403, "may use this model"), (404, "check the model name")]
)
async def test_refusals_are_not_repeated_and_say_what_to_check(serve: Any, status: int, advice: str):
    async with serve(always(status, {"error": {"message": f"bad key {KEY}"}})) as served:
        model = served.model()
        with pytest.raises(ModelError, match=advice) as caught:
            await model.generate(HI)
        await model.close()
    assert len(served.bodies) == 1
    assert not caught.value.retryable
    assert KEY not in str(caught.value)
    assert "***" in str(caught.value)


async def test_an_empty_account_is_not_asked_again(serve: Any):
    refusal = {"error": {"message": "You exceeded your current quota", "code": "insufficient_quota"}}
    async with serve(always(429, refusal)) as served:
        model = served.model()
        with pytest.raises(ModelError, match="credit"):
            await model.generate(HI)
        await model.close()
    assert len(served.bodies) == 1


async def test_a_prompt_beyond_the_context_is_its_own_error(serve: Any):
    said = {"error": {"message": "This model's maximum context length is 4096 tokens. However, you requested 5000"}}
    async with serve(always(400, said)) as served:
        model = served.model()
        with pytest.raises(OverlongPromptError, match="4096"):
            await model.generate(HI)
        with pytest.raises(ModelError, match="more than the whole context"):
            await model.generate(HI, sampling={"max_tokens": 4096})
        await model.close()
    assert len(served.bodies) == 2


async def reset(request: web.Request) -> web.StreamResponse:
    request.transport.abort()
    return web.Response()


async def half(request: web.Request) -> web.StreamResponse:
    answer = web.StreamResponse(headers={"Content-Length": "1000"})
    await answer.prepare(request)
    await answer.write(b'{"id": ')
    request.transport.close()
    return answer


@pytest.mark.parametrize(
    "trouble",
    [
        reset,
        half,
        web.Response(text="{not json"),
        web.Response(text=""),
        web.json_response({"choices": []}),
        web.json_response({"nothing": 1}),
        web.json_response({"error": {"message": "upstream died", "code": 502}}),
        web.json_response(completion() | {"choices": [{"index": 0, "finish_reason": "stop"}]}),
        web.json_response(
            completion()
            | {"choices": [{"index": 0, "message": {"role": "assistant", "content": "par"}, "finish_reason": "abort"}]}
        ),
    ],
    ids=["reset", "half", "no-json", "empty", "no-choice", "no-choices", "error-in-200", "no-message", "aborted"],
)
async def test_broken_answers_are_failed_attempts(serve: Any, trouble: Any):
    async with serve(then_ok([trouble])) as served:
        model = served.model()
        response = await model.generate(HI)
        await model.close()
    assert (response.attempts, response.message.text) == (2, "ok")


async def test_an_answer_without_choices_keeps_its_own_type_to_the_end(serve: Any):
    async with serve(always(200, {"choices": []})) as served:
        model = served.model()
        with pytest.raises(EmptyModelResponseError):
            await model.generate(HI)
        await model.close()


async def test_a_slow_server_is_asked_twice_and_no_more(serve: Any):
    async def slow(number: int, request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(60)
        return web.Response()

    async with serve(slow) as served:
        model = served.model(limits=CallLimits(timeout_s=0.5, retry=RetryPolicy(first_s=0.01)))
        with pytest.raises(ModelError, match=r"within 0.5 s; gave up after 2"):
            await model.generate(HI)
        await model.close()
    assert len(served.times) <= 2  # fewer where a request was given up before the server had read it


async def test_nobody_listening_is_one_clear_line():
    model = EndpointModel(Endpoint("m", "http://127.0.0.1:9/v1"), limits=QUICK)
    with pytest.raises(ModelError, match=r"127.0.0.1:9/v1 cannot be reached: Connection refused; gave up after 4"):
        await model.generate(HI)
    with pytest.raises(ConfigError, match="cannot be reached: Connection refused"):
        await model.probe()
    await model.close()


async def test_a_connection_that_is_never_made_is_not_called_a_slow_answer(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(transport, "CONNECT_TIMEOUT_S", 0.2)
    with socket.socket() as deaf, contextlib.ExitStack() as waiting:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(0)
        for _ in range(3):  # fills its queue: the kernel answers nobody else
            caller = waiting.enter_context(socket.socket())
            caller.setblocking(False)
            caller.connect_ex(deaf.getsockname())
        url = f"http://127.0.0.1:{deaf.getsockname()[1]}/v1"
        model = EndpointModel(Endpoint("m", url), limits=QUICK)
        with pytest.raises(ModelError, match=r"cannot be reached: no connection within 0.2 s; gave up after 2"):
            await model.generate(HI)
        await model.close()


async def test_a_probe_passes_where_the_server_answers_and_fails_where_it_refuses_the_key(serve: Any):
    async with serve(always(404, {})) as served:
        model = served.model()
        await model.probe()
        await model.close()
    async with serve(always(401, {})) as served:
        model = served.model()
        with pytest.raises(ConfigError, match="refuses the key"):
            await model.probe()
        await model.close()


async def test_redirects_are_not_followed_with_the_key(serve: Any):
    async with serve(always(301, {}, Location="http://127.0.0.1:9/")) as served:
        model = served.model()
        with pytest.raises(ModelError, match="moved"):
            await model.generate(HI)
        await model.close()
    assert len(served.bodies) == 1


async def test_overload_lowers_the_number_of_requests_at_once_and_waiting_is_not_time_out(serve: Any):
    at_once = refused = 0

    async def crowded(number: int, request: web.Request) -> web.StreamResponse:
        nonlocal at_once, refused
        at_once += 1
        try:
            if at_once > 8:
                refused += 1
                return web.json_response({"error": "busy"}, status=429)
            await asyncio.sleep(0.2)
            return web.json_response(completion())
        finally:
            at_once -= 1

    # all take 200 / 8 * 0.2 s at the least, which is longer than a call may
    limits = CallLimits(timeout_s=4.5, retry=RetryPolicy(attempts=100, first_s=0.05, longest_s=0.4))
    async with serve(crowded) as served:
        model = served.model(limits=limits)
        responses = await asyncio.gather(*[model.generate(HI) for _ in range(200)])
        await model.close()

    assert len(responses) == 200
    # unlimited, each round of 200 would be refused but for 8: thousands of requests in all
    assert refused < 1000


async def test_hundreds_of_calls_are_in_flight_together(serve: Any):
    arrived, everybody = 0, asyncio.Event()

    async def hold(number: int, request: web.Request) -> web.StreamResponse:
        nonlocal arrived
        arrived += 1
        if arrived == 450:
            everybody.set()
        await everybody.wait()
        return web.json_response(completion())

    async with serve(hold) as served:
        model = served.model(limits=CallLimits(timeout_s=60))
        async with asyncio.timeout(60):
            responses = await asyncio.gather(*[model.generate(HI) for _ in range(450)])
        await model.close()
    assert {response.attempts for response in responses} == {1}


async def test_lone_surrogates_are_sent_and_received_as_replacement_characters(serve: Any):
    raw = json.dumps(completion("bad \udc00 end")).encode()

    async def answer(number: int, request: web.Request) -> web.Response:
        return web.Response(body=raw, content_type="application/json")

    async with serve(answer) as served:
        model = served.model()
        response = await model.generate([UserMessage("see \ud83c here \U0001f378")])
        await model.close()
    assert served.bodies[0]["messages"][0]["content"] == "see \ufffd here \U0001f378"
    assert response.message.text == "bad \ufffd end"


async def test_text_completions(serve: Any):
    body = completion() | {"choices": [{"index": 0, "text": " time", "finish_reason": "length", "logprobs": None}]}
    async with serve(always(200, body)) as served:
        model = served.model()
        response = await model.complete("once upon a", sampling={"max_tokens": 1})
        await model.close()
    assert (response.message.text, response.is_truncated) == (" time", True)
    assert served.bodies == [{"model": "m", "prompt": "once upon a", "max_tokens": 1}]


async def test_a_model_works_from_one_event_loop_after_another(serve: Any):
    async with serve(always(200, completion())) as served:
        model = served.model()

        async def ask() -> str:
            text = (await model.generate(HI)).message.text
            await model.close()
            return text

        assert await asyncio.to_thread(asyncio.run, ask()) == "ok"
        assert await asyncio.to_thread(asyncio.run, ask()) == "ok"


async def test_cancelled_calls_leave_their_slot(serve: Any):
    async def hang(number: int, request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(600 if number < 2 else 0)
        return web.json_response(completion())

    async with serve(hang) as served:
        model = served.model()
        calls = [asyncio.create_task(model.generate(HI)) for _ in range(2)]
        assert await until(lambda: len(served.times) == 2)
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        assert (await model.generate(HI)).attempts == 1
        assert model._transport._line().limiter.in_flight == 0
        await model.close()


def test_metadata_and_representation_hold_no_secret():
    endpoint = Endpoint("m", "https://user:pass1234@host:1/v1?api_key=abcdefgh", headers={"X-Key": "hidden-value"})
    model = EndpointModel(endpoint)
    shown = f"{model.describe()} {endpoint!r}"
    assert model.describe()["url"] == "https://host:1/v1"
    assert "hidden-value" not in shown


@pytest.mark.parametrize("url", ["localhost:8000/v1", "host", "", "ftp://host/v1"])
def test_addresses_need_a_scheme(url: str):
    with pytest.raises(ConfigError, match="write it like https://host/v1"):
        Endpoint("m", url)


@pytest.mark.parametrize("tail", ["", "/", "/chat/completions", "/completions", "/models"])
def test_addresses_may_be_given_with_a_route(tail: str):
    assert Endpoint("m", f"https://host/v1{tail}?version=2").url == "https://host/v1?version=2"


async def test_servers_of_other_dialects(serve: Any):
    message = {"id": "m1", "content": [{"type": "text", "text": "hi"}], "stop_reason": "end_turn", "model": "c"}
    async with serve(always(200, message)) as served:
        model = served.model(dialect="anthropic")
        assert (await model.generate(HI)).message.text == "hi"
        with pytest.raises(ConfigError, match="completes no texts"):
            await model.complete("x")
        await model.close()
    assert served.headers[0]["x-api-key"] == KEY
    assert "Authorization" not in served.headers[0]

    output = [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "ho"}]}]
    async with serve(always(200, {"id": "r1", "status": "completed", "output": output, "error": None})) as served:
        model = served.model(dialect="responses")
        assert (await model.generate(HI)).message.text == "ho"
        await model.close()
    assert served.headers[0]["Authorization"] == f"Bearer {KEY}"
