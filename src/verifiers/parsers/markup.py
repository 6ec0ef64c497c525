"""Decoration around a short answer - markdown, LaTeX, invisible characters - and how it is taken off."""

from __future__ import annotations

import re
import unicodedata

_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff]"
)
_LATEX_WRAPPER = re.compile(
    r"\\(?:text(?:bf|it|rm|sf|tt|normal)?|math(?:rm|bf|it|sf|bb|cal|tt)|boxed|fbox|bf|rm|emph|operatorname|displaystyle"
    r"|underline|bold(?:symbol)?|large|Large|huge)(?![A-Za-z])\*?"
)
_LATEX_SPACE = re.compile(r"\\(?:quad|qquad|[ ,;:!])|~")
_FENCE = re.compile(r"[ \t]*(?P<mark>`{3,}|~{3,})(?P<info>[^`]*)")
_ONE_LINE = re.compile(r"[ \t]*(`{3,}|~{3,}).+\1[ \t]*")
_DECORATION = re.compile(r"[*`${}]|\\[()\[\]]|(?<![A-Za-z0-9])_+|_+(?![A-Za-z0-9])")


def visible_characters(text: str) -> str:
    """`text` without invisible characters, full-width and other compatibility forms made plain (NFKC).

    Two replies that look alike read alike.
    """
    if text.isascii():
        return text
    return _INVISIBLE.sub("", unicodedata.normalize("NFKC", text))


def undecorated(text: str) -> str:
    """`text` without markdown emphasis, code ticks, dollars and LaTeX wrappers; brackets and quotes stay."""
    if "\\" in text:
        text = _LATEX_SPACE.sub(" ", _LATEX_WRAPPER.sub("", text))
    return _DECORATION.sub("", text).strip()


def braced(text: str, start: int, limit: int = 2_000) -> str | None:
    """What stands between the brace at `text[start]` and its partner, at most `limit` characters on; else None."""
    depth = 0
    index = start
    end = min(len(text), start + limit)
    while index < end:
        character = text[index]
        if character == "\\":
            index += 1
        elif character == "{":
            depth += 1
        elif character == "}":
            depth -= 1
            if depth == 0:
                return text[start + 1 : index]
        index += 1
    return None


def without_fences(text: str) -> str:
    """`text` with everything in fenced code blocks, fences included, as blanks; positions and lines stay.

    An unclosed block reaches to the end.
    """
    lines: list[str] = []
    mark = ""
    for line in text.split("\n"):
        fence = _FENCE.fullmatch(line)
        inside = bool(mark) or _ONE_LINE.fullmatch(line) is not None
        if fence is not None and not mark:
            mark = fence["mark"]
        elif fence is not None and fence["mark"].startswith(mark) and not fence["info"].strip():
            mark = ""
        lines.append(" " * len(line) if inside or mark else line)
    return "\n".join(lines)
