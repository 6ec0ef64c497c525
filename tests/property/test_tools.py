"""Whatever a model writes as a tool call ends in arguments or in a typed error, in linear time."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from linear import assert_linear
from verifiers.tools import ToolArgumentsError, parse_arguments, parse_tool_calls
from verifiers.tools.text_calls import _CLOSED_BY  # pyright: ignore[reportPrivateUsage]

SCALAR = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
JSON = st.recursive(SCALAR, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=12)
KIND = st.sampled_from(["integer", "number", "boolean", "string", "array", "object", "null"])
PIECES = [
    *_CLOSED_BY,
    *filter(None, _CLOSED_BY.values()),
    '{"name": "f"',
    ', "arguments": ',
    "{",
    "}",
    "f>",
    "[ARGS]",
    ";",
]
TEXT = st.text() | st.lists(st.sampled_from(PIECES), max_size=16).map("".join)


@given(TEXT)
def test_no_text_raises(text: str):
    found = parse_tool_calls(text)
    assert all((call.error is None) == (call.complaint == "") for call in found.calls)
    with suppress(ToolArgumentsError):
        parse_arguments(text)


@given(JSON, KIND)
def test_a_coerced_value_is_of_its_type_and_stays_as_it_is(value: Any, kind: str):
    parameters = {"properties": {"x": {"type": kind}}, "required": ["x"]}
    try:
        result = parse_arguments({"x": value}, parameters)
    except ToolArgumentsError:
        return
    again = parse_arguments(json.dumps(result), parameters)
    assert again == result
    assert type(again["x"]) is type(result["x"])


@given(st.dictionaries(st.text(), JSON))
def test_calls_round_trip(arguments: dict[str, Any]):
    text = f"<tool_call>{json.dumps({'name': 'f', 'arguments': arguments})}</tool_call>"
    assume(text.count("<") == 2)  # a tag of reasoning among the arguments could as well be a tag around them
    (call,) = parse_tool_calls(f"<think>{text}</think>{text}").calls
    assert parse_arguments(call.to_tool_call("1").arguments) == arguments


@pytest.mark.parametrize("piece", [*PIECES, "<tool_call></tool_call>", "[TOOL_CALLS]f{}", "<function=f><parameter=x>"])
def test_a_hostile_megabyte_is_read_in_linear_time(piece: str):
    text = piece * (1_000_000 // len(piece))
    for form in ("{}", "<tool_call>{}</tool_call>"):
        assert_linear(lambda text, form=form: parse_tool_calls(form.format(text)), text, enough_s=3.0)
