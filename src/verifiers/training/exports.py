"""A finished run as training data: SFT, DPO and KTO examples, or rows of token ids; as JSONL, Parquet or a dataset.

The one rule: what is trained on is what the policy said and nothing else. Examples of messages therefore end in one
assistant message; where ids were recorded, rows carry a mask.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

import msgspec

from verifiers.errors import ConfigError, nearest
from verifiers.messages import as_tool_call, thaw
from verifiers.renderers.calls import tool_json
from verifiers.results.record import Record
from verifiers.training.rows import TrainRow, check, rows

FORMATS = ("sft", "dpo", "kto", "rows")
TARGETS = ("jsonl", "parquet", "datasets")
Example = dict[str, Any]


def has_tokens(record: Record) -> bool:
    """Whether every call of the policy has its ids."""
    calls = [call for call in record.trace.calls if call.role == "policy" and call.reply is not None]
    return bool(calls) and all(call.tokens is not None for call in calls)


def sft(records: Iterable[Record], *, tokens: bool | None = None) -> Iterator[Example]:
    """Supervised examples.

    With ids: `input_ids` and `completion_mask`, one example a row. Without: one example for each assistant message, as
    `prompt` and a `completion` of that one message, so that TRL's completion-only loss is exact for any template.

    Args:
        tokens: None: ids where a record has them.
    """
    for record in records:
        if tokens or (tokens is None and has_tokens(record)):
            for row in rows(record):
                yield {"input_ids": row.ids, "completion_mask": list(map(int, check(row).mask)), **_source(record)}
        else:
            yield from _turns(record)


def _turns(record: Record) -> Iterator[Example]:
    if isinstance(record.prompt, str) or isinstance(record.completion, str):
        yield {"prompt": record.prompt, "completion": record.completion, **_source(record)}
        return
    messages = [*record.prompt, *record.completion]
    for at in range(len(record.prompt), len(messages)):
        if messages[at]["role"] == "assistant":
            yield _example(record, messages[:at], completion=[messages[at]])


def dpo(records: Iterable[Record], *, min_gap: float = 0.0, pairs_per_task: int = 1) -> Iterator[Example]:
    """Preference pairs of one task: the best against the worst rollouts, at the first message in which they differ.

    Each side is one assistant message after the same history, so no text of the environment is trained on.

    Args:
        min_gap: pairs whose rewards differ by no more than this are left out.
    """
    for members in _by_task(records).values():
        ranked = sorted(members, key=lambda record: record.reward or 0.0)
        made = 0
        for worse, better in zip(ranked, reversed(ranked), strict=True):
            gap = (better.reward or 0.0) - (worse.reward or 0.0)
            pair = _fork(better, worse) if gap > min_gap and made < pairs_per_task else None
            if pair is not None:
                made += 1
                yield {**pair, "gap": gap}


def _fork(better: Record, worse: Record) -> Example | None:
    if isinstance(better.prompt, str) or isinstance(worse.prompt, str):
        if better.prompt != worse.prompt or better.completion == worse.completion:
            return None
        return {"prompt": better.prompt, "chosen": better.completion, "rejected": worse.completion, **_source(better)}
    left = [*better.prompt, *cast(Sequence[Any], better.completion)]
    right = [*worse.prompt, *cast(Sequence[Any], worse.completion)]
    for at in range(min(len(left), len(right))):
        if left[at] == right[at]:
            continue
        if at == 0 or left[at]["role"] != "assistant" or right[at]["role"] != "assistant":
            return None  # the environment itself answered differently: nothing the policy said sets them apart
        return _example(better, left[:at], chosen=[left[at]], rejected=[right[at]])
    return None


def kto(records: Iterable[Record], *, threshold: float = 0.5) -> Iterator[Example]:
    """Labelled examples: the last assistant message after all before it; `label` is whether the reward reaches
    `threshold`."""
    for record in records:
        label = (record.reward or 0.0) >= threshold
        turns = list(_turns(record))
        if turns:
            yield {**turns[-1], "label": label}


def token_rows(records: Iterable[Record]) -> Iterator[Example]:
    """Every training row with all it says (`TrainRow`)."""
    for record in records:
        for row in rows(record):
            yield cast(Example, msgspec.to_builtins(check(row)))


def read_row(example: Mapping[str, Any]) -> TrainRow:
    """The row that `token_rows` wrote."""
    return msgspec.convert(example, TrainRow)


def _by_task(records: Iterable[Record]) -> dict[int | str, list[Record]]:
    groups: dict[int | str, list[Record]] = {}
    for record in records:
        if record.reward is not None and record.error is None:
            groups.setdefault(record.example_id, []).append(record)
    return groups


def _source(record: Record) -> Example:
    return {"reward": record.reward, "example_id": str(record.example_id), "rollout_id": record.rollout_id}


def _example(record: Record, prompt: Sequence[Any], **sides: Sequence[Any]) -> Example:
    example: Example = {"prompt": [_plain(message) for message in prompt]}
    example |= {name: [_plain(message) for message in messages] for name, messages in sides.items()}
    offered = next((call.tools for call in record.trace.calls if call.role == "policy"), None)
    if offered is not None:
        example["tools"] = [json.loads(tool_json(cast(Any, tool))) for tool in record.trace.tools[offered]]
    return {**example, **_source(record)}


def _plain(message: Mapping[str, Any]) -> dict[str, Any]:
    """A message as trainers expect it: nested tool calls, arguments as values where they are JSON."""
    plain = {name: value for name, value in thaw(dict(message)).items() if value is not None}
    calls = plain.pop("tool_calls", None)
    plain.setdefault("content", "")
    if calls:
        plain["tool_calls"] = [_call(call) for call in calls]
    return plain


def _call(raw: Any) -> dict[str, Any]:
    call = as_tool_call(raw)
    try:
        arguments = json.loads(call["arguments"] or "{}")
    except ValueError:
        arguments = call["arguments"]
    return {"id": call["id"], "type": "function", "function": {"name": call["name"], "arguments": arguments}}


def examples_of(records: Iterable[Record], form: str, **options: Any) -> Iterator[Example]:
    """Examples in one of `FORMATS`.

    Raises:
        ConfigError: another format.
    """
    makers: Mapping[str, Callable[..., Iterator[Example]]] = {"sft": sft, "dpo": dpo, "kto": kto, "rows": token_rows}
    if form not in makers:
        raise ConfigError(f"unknown format {form!r}{nearest(form, list(makers))}")
    return makers[form](records, **options)


def write_lines(examples: Iterable[Example], file: BinaryIO) -> int:
    """Write examples as JSON lines; how many there were."""
    count = 0
    for example in examples:
        file.write(msgspec.json.encode(example, enc_hook=repr) + b"\n")
        count += 1
    return count


def write(examples: Iterable[Example], path: Path, target: str = "jsonl") -> int:
    """Write examples; how many there were.

    In Parquet and datasets tools and tool calls' arguments are JSON text: their columns have no common type.

    Raises:
        ConfigError: another target, or there is nothing to write.
    """
    if target not in TARGETS:
        raise ConfigError(f"unknown target {target!r}{nearest(target, TARGETS)}")
    if target == "jsonl":
        with _whole(path) as part, part.open("wb") as file:
            return write_lines(examples, file)
    from datasets import Dataset, disable_progress_bars

    if not sys.stderr.isatty():
        disable_progress_bars()
    listed = [_flat(example) for example in examples]
    if not listed:
        raise ConfigError("no rollout of this run was selected; nothing is written")
    made = Dataset.from_list(listed)
    if target == "datasets":
        made.save_to_disk(path)
        return len(listed)
    with _whole(path) as part:
        made.to_parquet(part)
    return len(listed)


@contextmanager
def _whole(path: Path) -> Generator[Path]:
    """Where to write what `path` holds once all of it is written; pipes and devices are written as they are."""
    if path.exists() and not path.is_file():
        yield path
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    target = path.resolve()  # a link stays one
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        yield part
        os.replace(part, target)
    finally:
        part.unlink(missing_ok=True)


def _flat(example: Example) -> Example:
    flat = dict(example)
    if "tools" in flat:
        flat["tools"] = json.dumps(flat["tools"], ensure_ascii=False)
    for name in ("prompt", "completion", "chosen", "rejected"):
        if isinstance(flat.get(name), list):
            flat[name] = [_flat_message(message) for message in flat[name]]
    return flat


def _flat_message(message: Mapping[str, Any]) -> dict[str, Any]:
    flat = dict(message)
    for call in flat.get("tool_calls") or ():
        arguments = call["function"]["arguments"]
        if not isinstance(arguments, str):
            call["function"]["arguments"] = json.dumps(arguments, ensure_ascii=False)
    return flat
