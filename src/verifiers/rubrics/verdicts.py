"""Verdicts in what a judge wrote: which item of a closed menu it decided for.

The rules: only a declared verdict counts (JSON, a marker like `GRADE: C`, a tag, a box, `[[2]]`, a reply or last line
that is nothing else); the last one wins; one that is off the menu is no verdict and never falls back to an earlier
one; reasoning, and what the judge quotes, is not searched. A code block at the end may be the verdict or a quotation:
where the text before it decides otherwise, neither counts. No verdict is None: never the worst grade.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, cast

from verifiers.parsers.json_text import JSONSpan, json_spans
from verifiers.parsers.markup import braced, undecorated, visible_characters, without_fences
from verifiers.parsers.thinking import split_message, visible_text

PRIMARY = ("grade", "verdict")
"""Markers that are a verdict wherever they stand."""
_SECONDARY = ("rating", "score", "judgement", "judgment", "decision", "label", "conclusion", "result", "classification")
_OF_WORDS = ("answer", "correct", "is_correct", "equivalent", "match")
"""Markers of menus of words (yes/no); with a menu of letters they would be a quoted answer."""
_KEYS = (*PRIMARY, *_SECONDARY, "winner", "choice", "correct", "is_correct", "passed", "pass", "answer", "value")
_TRUE = ("yes", "true", "correct", "pass", "passed", "1")
_FALSE = ("no", "false", "incorrect", "fail", "failed", "0")
_SPELLED = {"c": ("correct",), "i": ("incorrect",), "p": ("partial", "partially correct", "partially")}
"""Words that judges write for the letters C, I and P."""
_QUOTED = re.compile(r"\"[^\"\n]*\"|“[^”\n]*”|«[^»\n]*»|(?<![`])`[^`\n]+`(?!`)|(?<![\w'])'[^'\n]*'(?![\w'])")
_BOX = re.compile(r"\\boxed\s*(?=\{)")
_SCALE_END = re.compile(r"[ \t]*(?:/|out[ \t]+of)[ \t]*(\d+(?:\.\d+)?)(?![\w.])", re.IGNORECASE)
_NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?(?![\w%]|\.\d|[ \t]*[-–][ \t]*\d)")
_OPEN = re.compile(r"[(\[\"'“‘<«: \t]*")
_ENDS = re.compile(r"[)\]\"'”’>»]*[ \t]*(?:$|[.!?](?!\.|\d)|[,;:](?!\d)|\(|[-–—](?!\w)|\[)")
_SECOND_THOUGHT = re.compile(r"[)\]\"'”’>»]*[ \t]*(?:/|\||,?[ \t]*(?:or|and)(?![A-Za-z]))[ \t]*", re.IGNORECASE)
_SENTENCE = re.compile(r"[ \t]+(?!(?:because|since|as|due|for|given|but|and|with|where|which)(?![A-Za-z]))[a-z]")
"""What makes a capital I or A the first word of a sentence: `GRADE: I think it is C`."""
_PAYLOAD = 200
_MAX_CANDIDATES = 500
_MAX_REPLY = 50_000


@dataclass(frozen=True)
class _Menu:
    by_key: Mapping[str, str]
    item: re.Pattern[str]
    shaped: re.Pattern[str] | None
    """Anything of the shape of the items, where they are all bracketed alike: `[[...]]`."""
    primary: re.Pattern[str]
    secondary: re.Pattern[str]
    tag: re.Pattern[str]
    words: bool
    top: float | None
    """The end of the scale, where all items are numbers: `7/10` is then 7."""


class _Candidate(NamedTuple):
    position: int
    choice: str | None
    """None: a verdict that is off the menu."""


class _Named(NamedTuple):
    position: int
    pairs: Sequence[tuple[str, Any]]
    """Criterion and what is said of it."""


def parse_verdict(reply: Any, choices: Sequence[str], *, markers: Sequence[str] = PRIMARY) -> str | None:
    """The item of `choices` that `reply` decides for, spelled as in `choices`; None if it decides for none.

    Args:
        reply: what the judge wrote: text, or a message (its reasoning field is not searched).
        markers: words before a colon that declare the verdict, as the judge was told to write it.
    """
    text = _text(reply)
    if not text or not choices:
        return None
    menu = _menu(tuple(choices), tuple(markers))
    last = _decided(text, menu)
    plain = without_fences(text)
    if last is None or not _is_blanked(plain, text, last.position):
        return None if last is None else last.choice
    outside = _decided(plain, menu, declared_only=True)
    return last.choice if outside is None or outside.choice == last.choice else None


def _decided(text: str, menu: _Menu, *, declared_only: bool = False) -> _Candidate | None:
    """The last verdict in a text.

    Args:
        declared_only: markers that may as well be a part of a sentence do not count.
    """
    spans = json_spans(text)
    prose = _without_quotes(_blanked(text, [(span.start, span.end) for span in spans]), menu)
    found = [candidate for span in spans if (candidate := _in_json(span, menu)) is not None]
    found += _declared(prose, menu, declared_only=declared_only)
    if not found:
        found = [candidate for candidate in (_lead(prose, menu),) if candidate is not None]
    last_line = _last_line(prose, menu)
    if last_line is not None:
        found.append(last_line)
    return max(found, key=lambda candidate: candidate.position) if found else None


def parse_verdicts(reply: Any, criteria: Sequence[str], choices: Sequence[str]) -> dict[str, str] | None:
    """A verdict for every criterion; None unless each has exactly one that is on the menu.

    Reads the last `{"verdicts": [{"name": ..., "verdict": ...}]}`, an object with the criteria as keys, or lines
    `criterion: verdict`.
    """
    text = _text(reply)
    menu = _menu(tuple(choices), PRIMARY)
    last, plain = _all_named(text, criteria), without_fences(text)
    verdicts = _one_each(last.pairs, criteria, menu)
    if not _is_blanked(plain, text, last.position):
        return verdicts
    outside = _all_named(plain, criteria)
    return verdicts if not outside.pairs or _one_each(outside.pairs, criteria, menu) == verdicts else None


def _all_named(text: str, criteria: Sequence[str]) -> _Named:
    """What the last object that names criteria says of them; without one, what lines do."""
    for span in reversed(json_spans(text)):
        pairs = _named_verdicts(span.value, criteria)
        if pairs is not None:
            return _Named(span.start, pairs)
    wanted = {name.casefold(): name for name in criteria}
    last, start, found = 0, 0, list[tuple[str, Any]]()
    for line in text.splitlines(keepends=True):
        name, _, value = undecorated(line).lstrip("-•0123456789. \t").partition(":")
        key = name.strip().casefold()
        if key in wanted:
            last = start
            found.append((wanted[key], value))
        start += len(line)
    return _Named(last, found)


def _one_each(pairs: Sequence[tuple[str, Any]], criteria: Sequence[str], menu: _Menu) -> dict[str, str] | None:
    result: dict[str, str] = {}
    for name, value in pairs:
        choice = _value(value, menu)
        if choice is None or result.setdefault(name, choice) != choice:
            return None
    return {name: result[name] for name in criteria} if result.keys() == set(criteria) else None


def parse_score(
    reply: Any, low: float, high: float, *, markers: Sequence[str] = ("score", "rating", "grade")
) -> float | None:
    """The number from `low` to `high` that `reply` declares; None for none, or one that is off the scale.

    `7/10` and `7 out of 10` are read where the scale ends at 10; ranges (`7-8`) are no score.
    """
    text = _text(reply)
    last = _scored(text, high, markers)
    plain = without_fences(text)
    if last is not None and _is_blanked(plain, text, last[0]):
        outside = _scored(plain, high, markers, declared_only=True)
        if outside is not None and outside[1] != last[1]:
            return None
    number = None if last is None else last[1]
    return number if number is not None and low <= number <= high else None


def _scored(
    text: str, high: float, markers: Sequence[str], *, declared_only: bool = False
) -> tuple[int, float | None] | None:
    """Where the last score stands, and the number; None if it is none."""
    found: list[tuple[int, float | None]] = []
    spans = json_spans(text)
    for span in spans:
        value = _keyed(span.value)
        if value is not None:
            read = float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
            found.append((span.start, _number(str(value), high) if read is None else read))
    menu = _menu(("[[0]]",), tuple(markers))
    prose = _without_quotes(_blanked(text, [(span.start, span.end) for span in spans]), menu)
    for position, payload in _payloads(prose, menu, declared_only=declared_only):
        found.append((position, _number(payload, high)))
    last = prose.rstrip().rpartition("\n")
    bare = undecorated(last[2]).strip("[]() .")
    if _is_number(bare):
        found.append((len(last[0]), _number(bare, high)))
    return max(found, key=lambda item: item[0]) if found else None


def _is_blanked(plain: str, text: str, position: int) -> bool:
    """Whether what stands at `position` is in a code block, which `plain` has blanks for."""
    while position < len(text) and text[position].isspace():
        position += 1
    return position < len(text) and plain[position] != text[position]


def _text(reply: Any) -> str:
    """What counts of a reply: its end, should it be endless."""
    if not isinstance(reply, str):
        reply = split_message(reply).answer
    text = visible_characters(visible_text(reply)).strip()
    return text if len(text) <= _MAX_REPLY else text[-_MAX_REPLY:].partition("\n")[2]


def _named_verdicts(value: Any, criteria: Sequence[str]) -> list[tuple[str, Any]] | None:
    if not isinstance(value, dict):
        return None
    fields = cast(dict[str, Any], value)
    items = fields.get("verdicts")
    if isinstance(items, list):
        entries = [cast(dict[str, Any], item) for item in cast(list[Any], items) if isinstance(item, dict)]
        return [(str(entry.get("name", entry.get("criterion"))), _keyed(entry)) for entry in entries]
    if isinstance(items, dict):
        fields = cast(dict[str, Any], items)
    if not any(name in fields for name in criteria):
        return None
    named = [(name, fields[name]) for name in criteria if name in fields]
    return [(name, _keyed(item) if isinstance(item, dict) else item) for name, item in named]


@lru_cache(maxsize=256)
def _menu(choices: tuple[str, ...], markers: tuple[str, ...]) -> _Menu:
    by_key = {" ".join(choice.casefold().split()): choice for choice in choices}
    if {"c", "i"} <= by_key.keys() <= {"c", "i", "p"}:
        by_key.update({word: by_key[key] for key, spelled in _SPELLED.items() if key in by_key for word in spelled})
    items = "|".join(re.escape(key).replace(r"\ ", r"\s+") for key in sorted(by_key, key=len, reverse=True))
    words = all(len(choice) > 1 and choice[0].isalpha() for choice in choices)
    shaped = all(re.fullmatch(r"\[\[.*\]\]", choice) for choice in choices)
    others = [*_SECONDARY, *(_OF_WORDS if words else ())]
    names = "|".join(re.escape(marker) for marker in (*markers, *others))
    return _Menu(
        by_key=by_key,
        item=re.compile(rf"(?:{items})(?![\w+%]|['’]\w|-\w|\.\d)", re.IGNORECASE),
        shaped=re.compile(r"\[\[[^\[\]\n]{0,80}\]\]") if shaped else None,
        primary=_marker(markers),
        secondary=_marker([name for name in others if name not in markers]),
        tag=re.compile(rf"<(?P<name>{names}|answer)>(?P<inside>[^<]{{0,{_PAYLOAD}}})</(?P=name)>", re.IGNORECASE),
        words=words,
        top=max(map(float, choices)) if all(_NUMBER.fullmatch(choice) for choice in choices) else None,
    )


def _marker(names: Sequence[str]) -> re.Pattern[str]:
    alternatives = "|".join(re.escape(name) for name in names) or r"(?!)"
    return re.compile(
        rf"(?<![\w\"'“‘\-])(?:{alternatives})(?![A-Za-z0-9])[ \t*_`\])]{{0,8}}"
        r"(?:(?P<colon>[:=]|[-–—](?=[ \t]|[*\[])|→|->)|(?:is|would be)(?![A-Za-z])[ \t]*:?|(?=[ \t]+\S{1,40}[ \t]*$))",
        re.IGNORECASE | re.MULTILINE,
    )


def _blanked(text: str, spans: Sequence[tuple[int, int]]) -> str:
    """The text with the spans replaced by blanks, so that positions stay."""
    parts: list[str] = []
    done = 0
    for start, end in spans:
        parts += [text[done:start], " " * (end - start)]
        done = end
    return "".join([*parts, text[done:]])


def _without_quotes(text: str, menu: _Menu) -> str:
    """Quotations that hold more than an item of the menu are blanked, unless they are a whole line."""
    lines: list[str] = []
    for line in text.split("\n"):
        if line.lstrip(" \t").startswith(">"):
            lines.append(" " * len(line))
            continue
        bare = line.strip(" \t*_.")
        spans = [
            match.span()
            for match in _QUOTED.finditer(line)
            if match[0] != bare and (len(match[0]) > _PAYLOAD or _value(match[0][1:-1], menu) is None)
        ]
        lines.append(_blanked(line, spans))
    return "\n".join(lines)


def _in_json(span: JSONSpan, menu: _Menu) -> _Candidate | None:
    value: Any = span.value
    items = cast(dict[str, Any], value).get("verdicts") if isinstance(value, dict) else None
    if isinstance(items, list):
        entries = cast(list[Any], items)
        value = entries[0] if len(entries) == 1 else None  # several criteria are no single verdict
        return _Candidate(span.start, _value(_keyed(value), menu))
    keyed = _keyed(value)
    return None if keyed is None else _Candidate(span.start, _value(keyed, menu))


def _keyed(value: Any) -> Any:
    """What an object says under the first key that means a verdict."""
    if not isinstance(value, dict):
        return None
    fields = {str(key).lower(): item for key, item in cast(dict[Any, Any], value).items()}
    return next((fields[key] for key in _KEYS if fields.get(key) is not None), None)


def _value(value: Any, menu: _Menu) -> str | None:
    """A value that is nothing but an item of the menu."""
    if isinstance(value, bool):
        return next((menu.by_key[word] for word in (_TRUE if value else _FALSE) if word in menu.by_key), None)
    if isinstance(value, int | float):
        value = str(int(value)) if float(value).is_integer() else str(value)
    if not isinstance(value, str):
        return None
    key = " ".join(undecorated(value).casefold().split())
    spellings = (key, key.lstrip("\"'([ ").rstrip(".,;:!\"')] "), f"[[{key}]]")
    return next((menu.by_key[spelling] for spelling in spellings if spelling in menu.by_key), None)


def _declared(text: str, menu: _Menu, *, declared_only: bool) -> list[_Candidate]:
    found: list[_Candidate] = []
    if menu.shaped is not None:
        found += [_Candidate(match.start(), _value(match[0], menu)) for match in menu.shaped.finditer(text)]
    for position, payload in _payloads(text, menu, declared_only=declared_only):
        found.append(_Candidate(position, _read(payload, menu)))
    return found


def _payloads(text: str, menu: _Menu, *, declared_only: bool = False) -> Iterator[tuple[int, str]]:
    """What stands behind markers, in tags and in boxes. Weaker markers count only where there is none of those."""
    any_strong = False
    for match in list(menu.primary.finditer(text))[-_MAX_CANDIDATES:]:
        payload = _after(text, match.end())
        if match["colon"] or _read(payload, menu) is not None:
            any_strong = True
            yield match.start(), payload
    for match in menu.tag.finditer(text):
        any_strong = True
        yield match.start(), undecorated(match["inside"])
    for match in list(_BOX.finditer(text))[-_MAX_CANDIDATES:]:
        inside = braced(text, match.end())
        if inside is not None:
            any_strong = True
            yield match.start(), undecorated(inside[:_PAYLOAD])
    if any_strong or declared_only:
        return
    for match in list(menu.secondary.finditer(text))[-_MAX_CANDIDATES:]:
        payload = _after(text, match.end())
        if match["colon"] or _read(payload, menu) is not None:
            yield match.start(), payload


def _after(text: str, position: int) -> str:
    """The rest of the line, or the next line if nothing is left of this one."""
    for line in text[position : position + _PAYLOAD].splitlines():
        payload = undecorated(line)
        if payload:
            return payload
    return ""


def _read(payload: str, menu: _Menu) -> str | None:
    """The item a payload starts with; None if it starts with another word, or goes on to a second item."""
    whole = _value(payload, menu)
    if whole is not None:
        return whole
    if menu.shaped is not None:
        shaped = menu.shaped.match(payload)
        return _value(shaped[0], menu) if shaped else None
    match = menu.item.match(payload, _end(_OPEN, payload, 0))
    if match is None:
        return None
    end = match.end()
    scale = _SCALE_END.match(payload, end)
    if scale is not None and menu.top is not None and float(scale[1]) == menu.top:
        return _value(match[0], menu)
    thought = _SECOND_THOUGHT.match(payload, end)
    if thought is not None and menu.item.match(payload, thought.end()):
        return None
    if match[0] in ("I", "A") and _SENTENCE.match(payload, end):
        return None
    return _value(match[0], menu) if _ENDS.match(payload, end) or not menu.words else None


def _lead(text: str, menu: _Menu) -> _Candidate | None:
    """A reply that starts with its verdict: `Yes. The values agree.`, or `C` on a line of its own."""
    first = undecorated(text.lstrip()[:_PAYLOAD].partition("\n")[0])
    match = menu.item.match(first)
    if match is None or _SECOND_THOUGHT.match(first, match.end()):
        return None
    rest = first[match.end() :]
    follows = r"[ \t]*(?:$|[.](?!\.)|[:;!,]|[-–—](?!\w))" if menu.words else r"[ \t]*(?:$|[.:)](?!\.))"
    return _Candidate(0, _value(match[0], menu)) if re.match(follows, rest) else None


def _last_line(text: str, menu: _Menu) -> _Candidate | None:
    """A last line that is nothing but its verdict."""
    stripped = text.rstrip()
    start = stripped.rfind("\n") + 1
    line = stripped[start:]
    choice = _value(line, menu) if len(line) <= _PAYLOAD else None
    return None if choice is None else _Candidate(start, choice)


def _number(payload: str, high: float) -> float | None:
    payload = undecorated(payload).lstrip("([\"' ")
    match = _NUMBER.match(payload)
    if match is None:
        return None
    scale = _SCALE_END.match(payload, match.end())
    if scale is not None and float(scale[1]) != high:
        return None
    return float(match[0])


def _is_number(text: str) -> bool:
    match = _NUMBER.match(text)
    return match is not None and (match.end() == len(text) or _SCALE_END.fullmatch(text, match.end()) is not None)


def _end(pattern: re.Pattern[str], text: str, position: int) -> int:
    match = pattern.match(text, position)
    return match.end() if match else position
