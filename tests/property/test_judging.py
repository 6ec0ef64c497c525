"""Judges: no reply raises, a verdict is on the menu, and no text leaves its fence."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from linear import assert_linear
from verifiers.rubrics.judging import DEFAULT_JUDGE_PROMPT, fenced, fill, is_answers_doing
from verifiers.rubrics.verdicts import parse_score, parse_verdict, parse_verdicts

MENUS = (["C", "P", "I"], ["no", "yes"], ["[[0]]", "[[1]]", "[[2]]"], [str(number) for number in range(11)])
PIECES = (
    "GRADE: ", "Verdict: ", "grade", "score: ", "C", "I", "yes", "no", "[[2]]", "7", "/10", "\n", " ", ". ", "`",
    "'", '"',
    "> ", "<think>", "</think>", '{"verdict": "', '"}', "{", "}", "<verdict>", "</verdict>", "\\boxed{", "**",
    "\u200b",
)  # fmt: skip
TEXT = st.text() | st.lists(st.sampled_from(PIECES), max_size=20).map("".join)
QUIET = st.text(alphabet="abxz ,.\n").filter(lambda text: "<" not in text)


@given(TEXT)
def test_a_verdict_is_on_the_menu_and_stays(text: str):
    for menu in MENUS:
        verdict = parse_verdict(text, menu)
        assert verdict is None or verdict in menu
        assert verdict is None or parse_verdict(verdict, menu) == verdict
        named = parse_verdicts(text, ["a", "b"], menu)
        assert named is None or (named.keys() == {"a", "b"} and set(named.values()) <= set(menu))
    score = parse_score(text, 0, 10)
    assert score is None or 0 <= score <= 10
    is_answers_doing(text, text)


@given(QUIET, st.sampled_from(["C", "P", "I"]))
def test_a_declared_grade_is_read_behind_any_reasoning(prose: str, grade: str):
    for form in ("GRADE: {}", "**GRADE:** {}", "Grade: ({}).", "<grade>{}</grade>", '{{"verdict": "{}"}}'):
        assert parse_verdict(f"<think>GRADE: I</think>{prose}\n\n{form.format(grade)}", ["C", "P", "I"]) == grade


@given(st.text() | st.lists(st.sampled_from(["`", "```", "~~~", "\n", "a", "{", "}"]), max_size=30).map("".join))
def test_no_text_leaves_its_fence(text: str):
    filled = fill(DEFAULT_JUDGE_PROMPT, {"question": "q", "answer": "a", "response": text})
    _, _, rest = filled.partition("Response:\n")
    fence, _, rest = rest.partition("\n")
    assert rest.startswith(f"{text}\n{fence}\n")
    assert fence not in text
    assert rest.removeprefix(f"{text}\n{fence}\n").strip().startswith("Is the response correct?")
    mark = fenced(text).partition("\n")[0]
    assert mark not in text


@pytest.mark.parametrize("piece", [*PIECES, '{"', "GRADE: C ", "'GRADE: C' x "])
def test_a_hostile_megabyte_is_read_in_linear_time(piece: str):
    text = piece * (1_000_000 // len(piece))

    def read(text: str) -> None:
        for menu in MENUS:
            parse_verdict(text, menu)
        parse_score(text, 0, 10)
        fill(DEFAULT_JUDGE_PROMPT, {"question": text, "answer": text, "response": text})

    assert_linear(read, text, enough_s=6.0)
