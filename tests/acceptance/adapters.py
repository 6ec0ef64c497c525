"""One function per area of cases.jsonl: maps a case's `input` onto the public API and returns what the case expects.

`None` stands for "no answer" or "cannot be scored". Imports stay inside the functions, so that one area can run alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

MATH_OPTIONS = ("percent", "positive", "rel_tol", "abs_tol", "timeout_seconds")
NUMBER_OPTIONS = ("percent", "decimal", "rel_tol", "abs_tol")


def _in_thread(call: Callable[[], Any]) -> Any:
    """The result of `call`, run in a thread that is not the main one; what it raises is raised here."""
    box: list[Any] = []
    thread = threading.Thread(target=lambda: box.append(call()))
    thread.start()
    thread.join()
    return box[0]


def math_extract(input: dict[str, Any]) -> object:
    from verifiers import extract_boxed_answer

    return extract_boxed_answer(input["text"], strict=input.get("strict", False)) or None


def math_verify(input: dict[str, Any]) -> object:
    from verifiers import GoldError
    from verifiers import math_verify as verify

    options = {name: input[name] for name in MATH_OPTIONS if name in input}

    def score() -> float | None:
        try:
            return verify(input["completion"], input["gold"], **options)
        except GoldError:
            return None

    if "concurrent_rollouts" in input:
        return asyncio.run(_stall(input["completion"], input["gold"], input["concurrent_rollouts"]))
    if "called_from" in input:
        return _in_thread(score)
    return score()


def _queued_s() -> float:
    """How long this thread has waited for a processor so far: that is the machine's doing, not what the loop runs."""
    try:
        return int(Path("/proc/thread-self/schedstat").read_text().split()[1]) / 1e9
    except OSError:
        return 0.0


async def _stall(completion: str, gold: str, rollouts: int) -> dict[str, float]:
    """The longest time the loop did not run while `rollouts` answers were verified at once."""
    from verifiers import math_verify_async

    stall, last, running = 0.0, time.perf_counter() - _queued_s(), True

    async def watch() -> None:
        nonlocal stall, last
        while running:
            await asyncio.sleep(0.005)
            now = time.perf_counter() - _queued_s()
            stall, last = max(stall, now - last - 0.005), now

    watcher = asyncio.create_task(watch())
    # Each rollout's answer differs a little, so that the cache does not do the work.
    await asyncio.gather(*(math_verify_async(completion + " " * n, gold) for n in range(rollouts)))
    running = False
    await watcher
    return {"event_loop_max_stall_s": stall}


def numeric_match(input: dict[str, Any]) -> object:
    from verifiers import GoldError
    from verifiers import numeric_match as match

    options = {name: input[name] for name in NUMBER_OPTIONS if name in input}
    try:
        return match(input["completion"], input["gold"], **options)
    except GoldError:
        return None


def cost_reward(input: dict[str, Any]) -> object:
    from verifiers import Price, Usage, cosine_scaled, cost_discounted, repetition, soft_overlong

    name = input["fn"]
    if name == "soft_overlong":
        return soft_overlong(input["len"], max_len=input["max_len"], cache=input["cache"])
    if name == "cosine_scaled":
        return cosine_scaled(input["len"], correct=input["correct"], max_len=input["max_len"])
    if name == "repetition":
        return repetition(input["ids"], n=input["n"], max_penalty=input["max_penalty"])
    if name == "routed":
        pairs = zip(input["correct"], input["cost_usd"], strict=True)
        rewards = [cost_discounted(right, usd, weight=input["lambda"]) for right, usd in pairs]
        assert len(set(rewards)) == len(rewards)
        return {"order": sorted(range(len(rewards)), key=lambda n: -rewards[n])}
    if name == "cost":
        price, usage = input["price"], input["usage"]
        rate = Price(price["in"], price["out"], price.get("cached_in"), price.get("unit", "per_mtok"))
        return rate.cost_usd(Usage(**usage))
    if name == "budget":
        return asyncio.run(_budgeted(input))
    raise KeyError(name)


async def _budgeted(input: dict[str, Any]) -> dict[str, Any]:
    """What a run of far more calls than its cap allows spends, and how it ends."""
    from verifiers import AssistantMessage, Response, Rubric, ScriptedModel, SingleTurnEnv, Usage
    from verifiers.envs.plan import plan_of
    from verifiers.envs.saving import run_saved
    from verifiers.harnesses.chat import ChatHarness
    from verifiers.results.metadata import read_metadata
    from verifiers.rollout.budget import Budget
    from verifiers.rollout.run import Work

    async def reply(messages: Any, tools: Any, sampling: Any) -> Any:
        await asyncio.sleep(0)
        return Response(AssistantMessage("a"), usage=Usage(1, 1, cost_usd=input["per_call_usd"]))

    calls = int(3 * input["cap_usd"] / input["per_call_usd"])
    env = SingleTurnEnv(dataset=[{"question": str(n)} for n in range(calls)], rubric=Rubric([lambda completion: 1.0]))
    budget = Budget(input["cap_usd"])
    work = Work(env, env.rubric_for, ScriptedModel(reply), ChatHarness(), concurrency=input["workers"], budget=budget)
    with tempfile.TemporaryDirectory() as folder:
        saved = await run_saved(env, work, env.tasks().select(), plan=plan_of(env, work), root=Path(folder))
        resumable = read_metadata(saved.run_dir)["status"] == "interrupted"
    status = "budget_reached" if saved.stopped is not None else "completed"
    return {"max_spent_usd": budget.spent_usd, "status": status, "resumable": resumable}


def choice(input: dict[str, Any]) -> object:
    from verifiers import parse_choice

    return parse_choice(input["completion"], input["options"], multiple=input.get("multiple", False))


def think_parse(input: dict[str, Any]) -> object:
    from verifiers import split_message

    return split_message(input, prefilled=input.get("think_prefilled", False))._asdict()


def xml_parse(input: dict[str, Any]) -> object:
    from verifiers import XMLParser

    fields = [field if isinstance(field, str) else tuple(field) for field in input["fields"]]
    return vars(XMLParser(fields).parse(input["text"], last=input.get("which", "last") == "last"))


def code_extract(input: dict[str, Any]) -> object:
    from verifiers import extract_code

    return extract_code(input["text"], input.get("lang"), which=input.get("which", "last"))


def judge_parse(input: dict[str, Any]) -> object:
    from verifiers import parse_verdict

    return parse_verdict(input["text"], input["choices"])


def message(input: dict[str, Any]) -> object:
    from verifiers import parse_verdict
    from verifiers.messages import as_message
    from verifiers.models.dialects import chat

    if "judge_message" in input:
        score = parse_verdict(input["judge_message"], input.get("choices", ["A", "B"]))
        return {"score": score, "error": "no_verdict" if score is None else None}
    if "stop_reason" in input:
        body = {"choices": [{"message": {"content": "x"}, "finish_reason": input["stop_reason"]}]}
        response = chat.response(body)
        return {"finish_reason": response.finish_reason, "is_truncated": response.is_truncated}
    if "history" in input:
        strict = input["endpoint"].startswith("strict")
        sent = [chat.wire_message(as_message(item), strict=strict) for item in input["history"]]
        return {"sent_keys": sorted({key for item in sent for key in item})}
    return {"text": "".join(as_message(item).text for item in input["messages"])}


def tool_args(input: dict[str, Any]) -> object:
    from verifiers import ToolArgumentsError, parse_arguments

    fields = input.get("schema")
    parameters = fields and {"type": "object", "properties": {name: {"type": kind} for name, kind in fields.items()}}
    try:
        return {"args": parse_arguments(input["arguments"], parameters)}
    except ToolArgumentsError as error:
        return {"error": error.code}


def tool_calls_text(input: dict[str, Any]) -> object:
    from verifiers import parse_tool_calls

    found = parse_tool_calls(input["text"]).calls
    return [{"error": c.error} if c.error else {"name": c.name, "arguments": c.arguments} for c in found]


def stop(input: dict[str, Any]) -> object:
    from verifiers.errors import OverlongPromptError
    from verifiers.messages import AssistantMessage, Response
    from verifiers.parsers.thinking import has_marker

    if "agent" in input:
        return {"stopped": has_marker(input["agent"], input.get("marker", "###STOP###"))}
    script: list[Any] = ["go on"]
    case = input.get("case", "")
    if "finish_reason=length" in case:
        turn, turns = (int(word) for word in case.split() if word.isdigit())
        script = ["go on"] * turns
        script[turn - 1] = Response(AssistantMessage("cut o"), finish_reason="length")
        script[-1] = "done"
    elif "context length exceeded" in case:
        script = ["go on", OverlongPromptError("answered 400: context length exceeded")]
    record, moves = asyncio.run(_played(script, max_turns=input.get("max_turns", 4)))
    return {
        "is_truncated": record.is_truncated,
        "error": record.error and record.error.kind,
        "reward": "scored" if case and record.reward is not None else record.reward,
        "final_move_applied": moves == len(record.trace.turns),
        "termination_reason": record.stop_reason,
        "sub_rewards": "computed" if {"solved", "moves_made"} <= record.metrics.keys() else None,
    }


async def _played(script: list[Any], max_turns: int) -> tuple[Any, int]:
    """The record of a game that nobody solves, and how many of the model's moves the world took."""
    from verifiers import MultiTurnEnv, Rubric, ScriptedModel
    from verifiers import stop as stop_condition

    class Game(MultiTurnEnv):
        moves = 0

        async def env_response(self, messages: Any, state: Any, **_: Any) -> Any:
            type(self).moves += 1
            return [{"role": "user", "content": "your move"}]

        @stop_condition
        async def said_done(self, state: Any) -> bool:
            return bool(state["trajectory"]) and state["trajectory"][-1]["completion"][0].content == "done"

    def solved(state: Any) -> float:
        return 0.0

    def moves_made(state: Any) -> float:
        return float(len(state["trajectory"]))

    rubric = Rubric([solved, moves_made], weights=[1.0, 0.0])
    env = Game(dataset=[{"question": "play"}], rubric=rubric, max_turns=max_turns)
    results = await env.evaluate(ScriptedModel(script))
    return results.records[0], Game.moves


def io(input: dict[str, Any]) -> object:
    if "command" in input:
        return asyncio.run(_command(input["command"], input.get("timeout", 60)))
    with tempfile.TemporaryDirectory() as folder:
        if "file" in input:
            return _objects(Path(folder) / "rows.jsonl", input["file"])
        text = json.loads(input["json"])["t"] if "json" in input else _unescaped(input["write_text"])
        record = _record(completion=[{"role": "assistant", "content": text}])
        back = _stored(Path(folder), record).completion[0]["content"]
    same = back == text or ("\ufffd" in back and text.encode("utf-8", "replace").decode().split("?")[0] in back)
    return {"text": back, "roundtrip": "no exception; replaced or escaped" if same else f"changed to {back!r}"}


def _unescaped(text: str) -> str:
    return re.sub(r"\\u([0-9a-fA-F]{4})", lambda found: chr(int(found.group(1), 16)), text)


def _record(**fields: Any) -> Any:
    from verifiers import Record, Trace

    known = {"example_id": 0, "rollout_id": 0, "prompt": [], "completion": [], "reward": 1.0, "metrics": {}}
    record = Record(**{**known, "trace": Trace(), **fields})
    if isinstance(record.completion, list):
        record.trace = Trace(messages=[*record.completion], completion=len(record.completion))
    return record


def _stored(folder: Path, record: Any) -> Any:
    """The record as it is read back from a run folder."""
    from verifiers.results.read import read_records
    from verifiers.results.store import RunStore

    with RunStore.create(folder, {"env": "e", "model": "m"}) as store:
        store.append([record])
        store.close()
    return next(iter(read_records(store.folder)))


def _objects(path: Path, content: str) -> dict[str, Any]:
    import logging

    from verifiers.results.read import Objects

    said: list[logging.LogRecord] = []
    listener = logging.Handler(logging.WARNING)
    listener.emit = said.append  # type: ignore[method-assign]
    logging.getLogger("verifiers").addHandler(listener)
    path.write_text(content, "utf-8")
    try:
        objects = Objects(path)
        return {"rows": len(list(objects)), "skipped": objects.skipped, "warned": bool(said)}
    finally:
        logging.getLogger("verifiers").removeHandler(listener)


async def _command(command: str, timeout_s: float) -> dict[str, Any]:
    from verifiers.sandboxes import SandboxSpec, start_sandbox

    cap = 100_000
    async with start_sandbox("local", SandboxSpec()) as box:
        result = await box.exec(command, timeout_s=timeout_s, max_output=cap)
        name = command.split()[0]
        alive = await box.exec(f"for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline; echo; done | grep '^{command}'")
    kept = len(result.stdout.encode())
    return {
        "max_captured_bytes": "<= configured cap" if kept <= cap else f"{kept} > {cap}",
        "terminates": not result.timed_out,
        "process_alive_after": name in alive.stdout,
    }


def error_policy(input: dict[str, Any]) -> object:
    if "group_rewards" in input:
        return _advantages(input)
    if "rollouts" in input or "samples" in input:
        return _means(input)
    if "metric_values" in input:
        records = [_record(rollout_id=n, metrics={"m": value}) for n, value in enumerate(input["metric_values"])]
        return {"mean": _summary(records).metrics.get("m")}
    if "verifier_results" in input:
        return _checked(input["verifier_results"])
    if "scoring" in input:
        return asyncio.run(_broken_scoring())
    if "score_calls" in input:
        return asyncio.run(_queued(input))
    if "step" in input:
        return _empty_batch()
    return _graded(input)


def _advantages(input: dict[str, Any]) -> dict[str, Any]:
    from verifiers.training.advantages import group_advantages

    method = "dr_grpo" if input.get("scale") == "none" else "grpo"
    group = group_advantages(input["group_rewards"], input.get("trainable_tokens"), method=method)
    return {"advantages": group.advantages, "masked": group.masked, "group": group.kind}


def _summary(records: list[Any], **options: Any) -> Any:
    from verifiers.results.summary import Summary

    summary = Summary(**options)
    for record in records:
        summary.add(record)
    return summary


def _means(input: dict[str, Any]) -> dict[str, Any]:
    """A mean over rollouts, some of which broke; a score written for a broken one counts where that is asked for."""
    from verifiers import Unscored
    from verifiers.errors import FaultKind

    records: list[Any] = []
    for n, item in enumerate(input["rollouts"] if "rollouts" in input else input["samples"]):
        fields = item if isinstance(item, dict) else {"reward": item}
        error, scored = fields.get("error"), fields.get("scored", fields.get("reward"))
        fault = Unscored(FaultKind.SANDBOX, "drive", str(error)) if error else None
        if fault is not None and scored is not None:
            fault.partial = {"r": scored}
        reward = None if fault is not None else scored
        records.append(_record(rollout_id=n, reward=reward, error=fault, weights={"r": 1.0}))
    summary = _summary(records, score_errors=input.get("policy") == "score_errors")
    share = summary.n_unscored / summary.n if summary.n else None
    mean = summary.reward
    counts = {"n_scored": summary.n_scored, "n_error": summary.n_unscored, "error_rate": share, "n": summary.n_scored}
    return {"mean": mean, "accuracy": mean, **counts}


def _checked(results: list[bool]) -> dict[str, Any]:
    from verifiers.errors import ScorerError
    from verifiers.rubrics.reward_file import all_passed

    try:
        return {"reward": all_passed(results), "error": None}
    except ScorerError as error:
        return {"reward": None, "error": str(error).split(":")[0]}


async def _broken_scoring() -> dict[str, Any]:
    from verifiers import Rubric, ScriptedModel, SingleTurnEnv
    from verifiers.envs.plan import plan_of
    from verifiers.envs.saving import run_saved
    from verifiers.harnesses.chat import ChatHarness
    from verifiers.rollout.run import Work

    def broken(completion: Any) -> float:
        raise ValueError("for every instance")

    env = SingleTurnEnv(dataset=[{"question": "q"}, {"question": "r"}], rubric=Rubric([broken]))
    work = Work(env, env.rubric_for, ScriptedModel(["a"]), ChatHarness())
    with tempfile.TemporaryDirectory() as folder:
        saved = await run_saved(env, work, env.tasks().select(), plan=plan_of(env, work), root=Path(folder))
    summary = saved.summary
    code = "zero" if saved.is_complete else "nonzero"
    return {"mean": summary.reward, "n_scored": summary.n_scored, "exit_code": code}


async def _queued(input: dict[str, Any]) -> dict[str, Any]:
    from verifiers.rubrics.workers import JobLimitError, WorkerPool

    pool = WorkerPool(input["workers"])
    limit_s = input["scoring_timeout"]
    try:
        calls = (pool.run(time.sleep, input["each_seconds"], limit_s=limit_s) for _ in range(input["score_calls"]))
        results = await asyncio.gather(*calls, return_exceptions=True)
    finally:
        pool.close()
    return {"timeouts": sum(isinstance(result, JobLimitError | TimeoutError) for result in results)}


def _empty_batch() -> dict[str, Any]:
    """Training rows of two groups: one whose rewards are all equal, one without a reward."""
    from verifiers.training.advantages import EmptyBatchError, assign
    from verifiers.training.rows import TrainRow

    def row(group: str, rollout: int, reward: float | None) -> TrainRow:
        return TrainRow(ids=[1, 2], mask=[0, 1], reward=reward, group_id=group, example_id=group, rollout_id=rollout)

    try:
        assign([row("a", 0, 1.0), row("a", 1, 1.0), row("b", 0, None), row("b", 1, None)])
    except EmptyBatchError as error:
        return {"error": "empty_batch", "reasons": {reason: "n" for reason, count in error.reasons.items() if count}}
    return {"error": None}


def _graded(input: dict[str, Any]) -> dict[str, Any]:
    """A program's run and its verifier's, told in words, as a verdict."""
    from verifiers.rubrics.reward_file import verdict

    said, agent = str(input.get("verifier", "")), str(input.get("agent", "completed"))
    text: str | None = None
    if found := re.search(r"reward (-?[\d.]+|nan|inf|-inf)", said):
        text = found.group(1)
    elif "reward_file" in input and "earlier" not in str(input["reward_file"]):
        text = str(input["reward_file"])
    ends = {"timeout": "timeout", "timed out": "timeout", "crash": "crashed", "error": "crashed", "exit": "crashed"}
    verifier = next((end for word, end in ends.items() if word in said), "completed")
    if "not run" in said or "never" in said:
        verifier = "not_run"
    ended = next((end for word, end in ends.items() if word in agent), "completed")
    low, high = input.get("range", (0.0, 1.0))
    return verdict(ended, verifier, text, low=low, high=high)._asdict()  # type: ignore[arg-type]


def token_identity(input: dict[str, Any]) -> object:
    from verifiers.training.rows import RowError, TrainRow, check

    try:
        check(TrainRow(ids=input["completion_ids"], mask=[bool(one) for one in input["tool_mask"]], reward=None))
    except RowError as error:
        return {"error": error.code}
    return {"error": None}


def run(input: dict[str, Any]) -> object:
    if "columns" in input:
        return _routed(input)
    if "reward_input" in input:
        return _as_trl_gives_it(input["reward_input"])
    return asyncio.run(_run(input))


def _routed(input: dict[str, Any]) -> dict[str, Any]:
    """Whether a prompt still leads to its task after TRL dropped every column it does not know."""
    from verifiers.training.trl import dataset
    from verifiers.training.trl.routes import Router

    env = _env(3)
    rows = dataset(env)
    if input.get("remove_unused_columns"):
        rows = rows.select_columns(["prompt"])
    found = [Router(env, "train")(prompt).example_id for prompt in rows["prompt"]]
    return {f"{column}_kept": found == [0, 1, 2] for column in input["columns"]}


def _as_trl_gives_it(form: str) -> dict[str, Any]:
    """The completion a reward function gets for a reply that TRL hands on as text, or as messages."""
    from verifiers.training.trl import dataset, reward_funcs

    seen: list[Any] = []

    def keep(completion: Any) -> float:
        seen.append([dict(message) for message in completion])
        return 1.0

    env = _env(1, keep)
    (reward,) = reward_funcs(env)
    reply: Any = [{"role": "assistant", "content": "x"}] if form == "conversational" else "x"
    reward(prompts=[dataset(env)[0]["prompt"]], completions=[reply])
    return {"completion": seen[0]}


async def _run(input: dict[str, Any]) -> dict[str, Any]:
    if "server" in input or "request" in input:
        return await _against_server(str(input.get("server", "200")))
    if "rows" in input:
        return await _infos(input["rows"])
    if "cause" in input:
        return await _killed()
    if "max_concurrent" in input:
        return {"peak_inflight": await _peak(input["groups"], input["r"], input["max_concurrent"])}
    if "cpu_bound_scores" in input:
        return await _cpu_bound(input["cpu_bound_scores"], input["cores"])
    if "task_reducer" in input:
        return _reduced(input["task_reducer"], input["cli_epochs"])
    if "stored_rollouts" in input:
        return await _rescored(input["stored_rollouts"])
    results = await _env(input["n"]).evaluate(_model(), rollouts_per_example=input["r"])
    return {"pairs": [[output["example_id"], output["rollout_id"]] for output in results["outputs"]]}


def _env(n: int, function: Callable[..., Any] | None = None) -> Any:
    from verifiers import Rubric, SingleTurnEnv

    def said_a(completion: Any) -> float:
        return float(completion[-1]["content"] == "a")

    return SingleTurnEnv(dataset=[{"question": str(row)} for row in range(n)], rubric=Rubric([function or said_a]))


def _model(reply: Any = "a") -> Any:
    from verifiers import ScriptedModel

    return ScriptedModel(reply if callable(reply) else [reply])


async def _against_server(behaviour: str) -> dict[str, Any]:
    """One rollout against a server that first fails as told: `429 x3 with Retry-After: 1, then 200`, `500 once ...`."""
    from verifiers import Endpoint, EndpointModel

    failures: list[int] = []
    for status, times in re.findall(r"(\d{3}) (?:x(\d+)|once)", behaviour):
        failures += [int(status)] * int(times or 1)
    wait = re.search(r"Retry-After: (\d+)", behaviour)
    seen: list[dict[str, Any]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
                length = re.search(r"content-length: (\d+)", head)
                seen.append(json.loads(await reader.readexactly(int(length.group(1)) if length else 0) or b"{}"))
                status = failures.pop(0) if failures else 200
                message = {"role": "assistant", "content": "a"}
                reply = {"id": "1", "choices": [{"message": message, "finish_reason": "stop"}], "usage": {}}
                body = json.dumps({**reply, "system_fingerprint": "fp_1"} if status == 200 else {"error": {}}).encode()
                late = f"Retry-After: {wait.group(1)}\r\n" if wait and status != 200 else ""
                writer.write(f"HTTP/1.1 {status} X\r\nContent-Length: {len(body)}\r\n{late}\r\n".encode() + body)
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    model = EndpointModel(Endpoint(model="m", url=f"http://127.0.0.1:{port}/v1"))
    try:
        (record,) = (await _env(1).evaluate(model, seed=1)).records
    finally:
        await model.close()
        server.close()
    (call,) = record.trace.calls
    return {
        "status": "ok" if record.reward == 1.0 else "unscored",
        "attempts": call.attempts,
        "model_turns_in_trace": len(record.trace.turns),
        "sent": [key for key in ("seed",) if key in seen[-1]],
        "recorded": [key for key in ("system_fingerprint",) if key in call.extras],
    }


async def _infos(rows: list[dict[str, Any]]) -> dict[str, Any]:
    from verifiers import Rubric, SingleTurnEnv

    env = SingleTurnEnv(dataset=[{"question": "q", **row} for row in rows], rubric=Rubric([lambda info: 1.0]))
    again = SingleTurnEnv(dataset=env.get_dataset(), rubric=Rubric([lambda info: 1.0]))
    seen = {f"row{n}_info": record.info for n, record in enumerate((await env.evaluate(_model())).records)}
    through_arrow = {f"row{n}_info": r.info for n, r in enumerate((await again.evaluate(_model())).records)}
    return seen if seen == through_arrow else {"lost": through_arrow}


async def _killed() -> dict[str, Any]:
    """A run whose process dies with half of it finished, then the same command again."""
    import os

    from verifiers.envs.plan import plan_of
    from verifiers.envs.saving import run_saved
    from verifiers.harnesses.chat import ChatHarness
    from verifiers.rollout.run import Work

    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)

        async def go(on_records: Callable[[Any], None]) -> Any:
            env = _env(10)
            work = Work(env, env.rubric_for, _model(), ChatHarness(), concurrency=2)
            plan = plan_of(env, work)
            return await run_saved(env, work, env.tasks().select(), plan=plan, root=root, on_records=on_records)

        def die(records: Any) -> None:
            seen.extend(records)
            if len(seen) == 5:
                os.kill(os.getpid(), 9)

        seen: list[Any] = []
        child = os.fork()
        if child == 0:
            asyncio.new_event_loop().run_until_complete(_fresh_loop(go, die))
            os._exit(1)
        await asyncio.to_thread(os.waitpid, child, 0)
        again: list[Any] = []
        saved = await go(again.extend)
    pairs = {(record.example_id, record.rollout_id) for record in again}
    return {
        "resumable": saved.is_complete and saved.summary.n == 10,
        "lost": "only in-flight" if len(pairs) == len(again) == 10 - saved.kept and saved.kept >= 5 else "more",
    }


async def _fresh_loop(go: Callable[..., Any], die: Callable[[Any], None]) -> None:
    await go(die)


async def _peak(groups: int, rollouts: int, bound: int) -> int:
    alive = peak = 0

    async def reply(messages: Any, tools: Any, sampling: Any) -> str:
        nonlocal alive, peak
        alive += 1
        peak = max(peak, alive)
        await asyncio.sleep(0.002)
        alive -= 1
        return "a"

    def together(completions: Any) -> list[float]:
        return [1.0] * len(completions)

    await _env(groups, together).evaluate(_model(reply), rollouts_per_example=rollouts, max_concurrent=bound)
    return peak


async def _cpu_bound(scores: int, cores: int) -> dict[str, Any]:
    from verifiers.rubrics.workers import JobLimitError, WorkerPool

    pool = WorkerPool(cores)
    code = "(sum(range(300000)), __import__('os').getpid())[1]"
    try:
        calls = (pool.run(eval, code, limit_s=5.0) for _ in range(scores))
        results = await asyncio.gather(*calls, return_exceptions=True)
    finally:
        pool.close()
    workers = {result for result in results if isinstance(result, int)}
    return {"peak_cpu_workers": len(workers), "timeouts": sum(isinstance(r, JobLimitError) for r in results)}


def _reduced(reducer: str, epochs: int) -> dict[str, Any]:
    """Whether a summary over `epochs` rollouts of a task still tells `pass_at_<k>`."""
    totals = _summary([_record(rollout_id=n, reward=float(n == 0)) for n in range(epochs)]).totals()
    kind, _, k = reducer.rpartition("_")
    values = {str(key): value for key, value in (totals.get(f"{kind}_k") or {}).items()}
    return {"reducer": reducer if values.get(k) is not None else None}


async def _rescored(n: int) -> dict[str, Any]:
    from verifiers.envs.plan import plan_of
    from verifiers.envs.rescoring import rescore
    from verifiers.envs.saving import run_saved
    from verifiers.harnesses.chat import ChatHarness
    from verifiers.results.read import read_records
    from verifiers.rollout.run import Work

    calls = 0

    def reply(messages: Any, tools: Any, sampling: Any) -> str:
        nonlocal calls
        calls += 1
        return "a"

    def never(completion: Any) -> float:
        return 0.0

    with tempfile.TemporaryDirectory() as folder:
        first = _env(n)
        work = Work(first, first.rubric_for, _model(reply), ChatHarness())
        saved = await run_saved(first, work, first.tasks().select(), plan=plan_of(first, work), root=Path(folder))
        before = calls
        rescored = await rescore(_env(n, never), saved.run_dir)
        old = [record.reward for record in read_records(saved.run_dir)]
        new = [json.loads(line)["reward"] for line in rescored.path.read_text().splitlines()]
    kept = old == [1.0] * n and new == [0.0] * n
    return {"model_calls": calls - before, "rescored": rescored.n, "both_versions_kept": kept}
