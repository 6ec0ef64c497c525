"""No parser raises on any text, what it extracts is extracted from it again, and hostile text costs linear time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from linear import assert_linear
from verifiers.messages import AssistantMessage
from verifiers.parsers import MaybeThinkParser, Parser, ThinkParser, XMLParser
from verifiers.parsers.choice import parse_choice
from verifiers.parsers.code import extract_code
from verifiers.parsers.json_text import extract_json
from verifiers.parsers.thinking import split_message, split_reasoning, visible_text

PIECES = (
    "<think>", "</think>", "<answer>", "</answer>", "<note>", "ANSWER: ", "answer is ", "\\boxed{", "}", "{", '"',
    "```", "```python", "\n", " ", "A", "B", ", ", "(", ")", "**", "`", "$", "\\text{", '{"a":1}', "x = 1", "[", "]",
    "\u200b", "\ud800",
)  # fmt: skip
TEXT = st.one_of(st.text(), st.lists(st.sampled_from(PIECES), max_size=24).map("".join))
XML = XMLParser(["reasoning", ("code", "answer"), "note"])
PARSERS = (Parser(), ThinkParser(), MaybeThinkParser(), XML, XMLParser(["think", "answer"]))


@given(TEXT)
def test_nothing_raises(text: str):
    for parser in PARSERS:
        parser.parse(text)
        parser.parse_answer([AssistantMessage(text, reasoning_content=text)])
        assert 0.0 <= parser.get_format_reward_func()(completion=[AssistantMessage(text)]) <= 1.0
    parse_choice(text, "ABCD")
    parse_choice(text, "ABCD", multiple=True)
    extract_code(text, "python")
    extract_json(text, arrays=True)
    split_message({"content": text, "reasoning": text})


@given(TEXT)
def test_what_was_extracted_stays(text: str):
    choice = parse_choice(text, "ABCD")
    assert choice is None or parse_choice(choice, "ABCD") == choice

    several = parse_choice(text, "ABCD", multiple=True)
    assert several is None or parse_choice(", ".join(several), "ABCD", multiple=True) == several

    answer = MaybeThinkParser().parse(text)
    assert MaybeThinkParser().parse(answer) == answer


@given(TEXT)
def test_a_reply_is_all_there(text: str):
    reply = split_reasoning(text)
    assert text.endswith(reply.answer)
    assert reply.complete or reply.answer == visible_text(text) == ""


@given(st.text(alphabet="xyz <>&\n.", min_size=1).map(str.strip).filter(bool), st.text(alphabet="xyz <>&\n."))
def test_format_is_read_back(answer: str, note: str):
    text = XML.format(reasoning="r", code=answer, note=note)
    assert XML.parse(text).code == answer
    assert XML.parse_answer(f"<think><answer>LETTER</answer></think>{text}") == answer


@given(TEXT.filter(lambda text: "`" not in text and "think" not in text.lower()), st.sampled_from("ABCD"))
def test_a_declared_choice_is_found_behind_any_reasoning(reasoning: str, label: str):
    for form in ("ANSWER: {}", "**Answer: {}**", "The answer is ({}).", "ANSWER: $\\boxed{{\\text{{{}}}}}$", "({})"):
        text = f"<think>{reasoning}</think>{form.format(label)}"
        assert parse_choice(text, "ABCD") == label


@pytest.mark.parametrize("piece", [*PIECES, '{"', '{"a":', '{"a":"x', "[1,", "answer:", "<think></think>", "A, "])
def test_a_hostile_megabyte_is_read_in_linear_time(piece: str):
    text = piece * (1_000_000 // len(piece))
    for read in (XML.parse, split_reasoning, extract_code, extract_json, lambda text: parse_choice(text, "ABCD")):
        assert_linear(read, text, enough_s=3.0)
