"""Verdicts: declared ones count, the last one wins, and none is none."""

import pytest

from verifiers.messages import AssistantMessage
from verifiers.rubrics.verdicts import parse_score, parse_verdict, parse_verdicts

CPI = ["C", "P", "I"]
YES_NO = ["no", "yes"]
RATINGS = ["[[0]]", "[[1]]", "[[2]]"]
ABC = ["A", "B", "C"]
TEN = [str(number) for number in range(11)]


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("GRADE: C", "C"),
        ("grade: c", "C"),
        ("**GRADE: C**", "C"),
        ("**GRADE:** C", "C"),
        ("## GRADE\nC", "C"),
        ("GRADE:\n\nC", "C"),
        ("GRADE: $C$", "C"),
        ("GRADE: \\boxed{C}", "C"),
        ("GRADE - C", "C"),
        ("GRADE C", "C"),
        ("GRADE:\u200bC", "C"),
        ("ＧＲＡＤＥ： Ｃ", "C"),
        ("GRADE: C (Correct)", "C"),
        ("GRADE: Correct", "C"),
        ("GRADE: INCORRECT", "I"),
        ("GRADE: Partially correct", "P"),
        ("the grade is C.", "C"),
        ("C", "C"),
        ("C. The values agree.", "C"),
        ("The values agree.\n\nC", "C"),
        ("GRADE: I ... on reflection\nGRADE: C", "C"),
        ("GRADE: I think it is C", None),
        ("Grade: I am not sure", None),
        ("GRADE: I because the sign is wrong", "I"),
        ("GRADE: C. There is no reason to downgrade: insufficient grounds.", "C"),
        ("The submission says 'GRADE: C'. GRADE: I", "I"),
        ("GRADE: I\nThe submission says 'GRADE: C'.", "I"),
        ("> GRADE: C\nGRADE: I", "I"),
        ("GRADE: I\n> GRADE: C", "I"),
        ("<think>GRADE: C</think>GRADE: I", "I"),
        ("<think>GRADE: C", None),
        ("A correct answer would be GRADE: C ... GRADE: Z", None),
        ("GRADE: pending. Partial credit (C) was considered.", None),
        ("GRADE: C. The student's grade: good work overall", None),
        ("GRADE: CI", None),
        ("GRADE: C/I", None),
        ("GRADE: C or I", None),
        ("GRADE: D", None),
        ("GRID: C", None),
        ("Answer: C", None),
        ("I think so", None),
        ("I, for one, agree.", None),
        ("", None),
    ],
)
def test_letters(reply: str, expected: str | None):
    assert parse_verdict(reply, CPI) == expected


def test_partial_credit_that_is_not_offered_is_no_verdict():
    assert parse_verdict("GRADE: P", ["C", "I"]) is None


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("yes", "yes"),
        ("Yes.", "yes"),
        ("**Yes**", "yes"),
        ('"yes"', "yes"),
        ("`yes`", "yes"),
        ("Yes, the values agree.", "yes"),
        ("No, the answer differs.", "no"),
        ("Verdict: yes", "yes"),
        ('The verdict is "yes".', "yes"),
        ("Answer: yes", "yes"),
        ("correct: no", "no"),
        ("<verdict>yes</verdict>", "yes"),
        ("The values agree.\n\nyes", "yes"),
        ("Result: The response is right.\n\nyes", "yes"),
        ('{"verdict": "Yes"}', "yes"),
        ('```json\n{"reasoning": "x", "verdict": "no"}\n```', "no"),
        ('Some thoughts.\n```json\n{"verdict": "no"}\n```', "no"),
        ('verdict: no\n```json\n{"verdict": "no"}\n```', "no"),
        ('verdict: no\n```json\n{"verdict": "yes"}\n```', None),
        ("verdict: no. It says:\n```\nverdict: yes\n```", None),
        ("verdict: no. It says:\n```\nyes\n```", "no"),
        ('verdict: no. It says:\n```{"verdict": "yes"}```', None),
        ("verdict: no. It says:\n~~~~\n```\nverdict: yes\n~~~~", None),
        ("verdict: no. It says:\n```\nverdict: yes", None),
        ('{"verdict": "no"}\n```json\n{"verdict": "yes"}\n```', None),
        ("No, it is wrong. It says:\n```\nverdict: yes\n```", None),
        ("It says:\n```\nverdict: yes\n```\nverdict: no", "no"),
        ('```json\n{"verdict": "yes"}\n```\nverdict: no', "no"),
        ("```\nverdict: yes\n```\nOn reflection:\n```\nverdict: no\n```", "no"),
        ('The reference answer is no.\n```json\n{"verdict": "yes"}\n```', "yes"),
        ('verdict: maybe\n```json\n{"verdict": "yes"}\n```', None),
        ('{"correct": true}', "yes"),
        ('[{"verdicts": [{"name": "a", "verdict": "yes"}]}]', "yes"),
        ('{"verdict": "yes"} On reflection: {"verdict": "no"}', "no"),
        ('The answer holds {"verdict": "yes"}. Verdict: no', "no"),
        ('The answer says "GRADE: yes". Verdict: no', "no"),
        ('Verdict: no. The candidate wrote "Verdict: yes".', "no"),
        ('{"reasoning": "It says {\\"verdict\\": \\"yes\\"}", "verdict": "no"}', "no"),
        ('{"verdicts": [{"name": "a", "verdict": "yes"}, {"name": "b", "verdict": "no"}]}', None),
        ('{"verdict": "maybe"}', None),
        ('{"verdict": "yes"', None),
        ('{"verdicts": [{"name": "a", "verdict": "yes"}', None),
        ("No reason to doubt.", None),
        ("no... maybe", None),
        ("yes and no", None),
        ("yes/no", None),
        ("maybe", None),
        ("It is yes because", None),
        ("<think>yes</think>", None),
    ],
)
def test_words(reply: str, expected: str | None):
    assert parse_verdict(reply, YES_NO) == expected


@pytest.mark.parametrize(
    ("reply", "choices", "expected"),
    [
        ("Rating: [[2]]", RATINGS, "[[2]]"),
        ("Rating: 2", RATINGS, "[[2]]"),
        ("[[1]] is for partial answers. Verdict: [[2]]", RATINGS, "[[2]]"),
        ("[[0]] because the candidate said 'The rating is: [[2]]'", RATINGS, "[[0]]"),
        ("[[2]] [[5]]", RATINGS, None),
        ("[[3]]", RATINGS, None),
        ("A: CORRECT", ABC, "A"),
        ("Grade: A", ABC, "A"),
        ("A good answer.", ABC, None),
        ("Score: 7/10", TEN, "7"),
        ("Rating: 7.5", TEN, None),
        ("Correct.", ["incorrect", "correct"], "correct"),
        ("Incorrect.", ["incorrect", "correct"], "incorrect"),
        ("not correct", ["incorrect", "correct"], None),
        ("x", [], None),
    ],
)
def test_other_menus(reply: str, choices: list[str], expected: str | None):
    assert parse_verdict(reply, choices) == expected


def test_a_verdict_in_the_reasoning_field_is_none():
    assert parse_verdict(AssistantMessage(None, reasoning_content="A"), ABC) is None
    assert parse_verdict({"content": None, "reasoning": "A"}, ABC) is None
    assert parse_verdict(AssistantMessage("B", reasoning_content="A"), ABC) == "B"


def test_markers_of_your_own():
    assert parse_verdict("Mark: C", CPI, markers=["mark"]) == "C"
    assert parse_verdict("Mark: C", CPI) is None


A_YES, A_NO = '{"name": "a", "verdict": "yes"}', '{"name": "a", "verdict": "no"}'
B_NO = '{"name": "b", "verdict": "No"}'


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (f'{{"verdicts": [{A_YES}, {B_NO}]}}', {"a": "yes", "b": "no"}),
        ('{"verdicts": {"a": "yes", "b": "no"}}', {"a": "yes", "b": "no"}),
        ('{"b": false, "a": true}', {"a": "yes", "b": "no"}),
        ('{"a": {"reason": "r", "verdict": "yes"}, "b": {"verdict": "no"}}', {"a": "yes", "b": "no"}),
        ("a: yes\n- **b**: No", {"a": "yes", "b": "no"}),
        ('<think>{"a": "yes", "b": "yes"}</think>{"a": "no", "b": "no"}', {"a": "no", "b": "no"}),
        ('{"a": "yes", "b": "yes"} on reflection {"a": "no", "b": "yes"}', {"a": "no", "b": "yes"}),
        (f'{{"verdicts": [{A_YES}]}}', None),
        (f'{{"verdicts": [{A_YES}, {{"name": "b", "verdict": "maybe"}}]}}', None),
        (f'{{"verdicts": [{A_YES}, {A_NO}, {B_NO}]}}', None),
        ('<think>{"a": "yes", "b": "yes"}', None),
        ("", None),
    ],
)
def test_every_criterion_has_one(reply: str, expected: dict[str, str] | None):
    assert parse_verdicts(reply, ["a", "b"], YES_NO) == expected


@pytest.mark.parametrize(
    ("reply", "low", "high", "expected"),
    [
        ("7", 0, 10, 7),
        ("Score: 7/10", 0, 10, 7),
        ("7 out of 10", 0, 10, 7),
        ("**Score:** 8.5", 0, 10, 8.5),
        ("Rating: [[5]]", 1, 10, 5),
        ('{"score": 0.5}', 0, 1, 0.5),
        ("<think>Score: 3</think>Score: 4", 0, 10, 4),
        ("Score: 3\nScore: 4", 0, 10, 4),
        ("Score: 3\nScore: none", 0, 10, None),
        ("Score: 7/5", 0, 10, None),
        ("Rating: 11", 1, 10, None),
        ("Score: 7-8", 0, 10, None),
        ("Score: 85%", 0, 100, None),
        ("Score: high", 0, 10, None),
        ("I give 7 points for 3 reasons", 0, 10, None),
        ("", 0, 10, None),
    ],
)
def test_scales(reply: str, low: float, high: float, expected: float | None):
    assert parse_score(reply, low, high) == expected


def fenced(text: str) -> str:
    return f"```json\n{text}\n```"


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (fenced('{"short": "yes", "polite": "no"}'), {"short": "yes", "polite": "no"}),
        ("short: yes\npolite: no\n" + fenced('{"short": "yes", "polite": "no"}'), {"short": "yes", "polite": "no"}),
        ("short: yes\npolite: no\n" + fenced('{"short": "yes", "polite": "yes"}'), None),
        ('{"short": "no", "polite": "no"}\n' + fenced('{"short": "yes", "polite": "yes"}'), None),
        (
            fenced('{"short": "yes", "polite": "yes"}') + '\n{"short": "no", "polite": "no"}',
            {"short": "no", "polite": "no"},
        ),
        ("The tone is polite.\n" + fenced('{"short": "yes", "polite": "no"}'), {"short": "yes", "polite": "no"}),
        ("short: yes\n" + fenced('{"short": "yes", "polite": "no"}'), None),
    ],
)
def test_criteria_in_a_code_block(reply: str, expected: dict[str, str] | None):
    assert parse_verdicts(reply, ["short", "polite"], YES_NO) == expected


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (fenced('{"score": 7}'), 7),
        ("Score: 7\n" + fenced('{"score": 7}'), 7),
        ("Score: 2\n" + fenced('{"score": 9}'), None),
        (fenced('{"score": 9}') + "\nScore: 2", 2),
        ("It has 3 parts.\n" + fenced('{"score": 9}'), 9),
    ],
)
def test_scores_in_a_code_block(reply: str, expected: float | None):
    assert parse_score(reply, 0, 10) == expected
