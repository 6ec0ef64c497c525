"""What a listing looks like: a heading, then a line for each thing, in columns."""

from __future__ import annotations

from collections.abc import Sequence


def columns(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Text in which everything of one column stands below its heading; the last column is as long as it is."""
    table = [[shown(text) for text in row] for row in (heading, *rows)]
    widths = [max(len(row[column]) for row in table) for column in range(len(heading) - 1)]
    return "\n".join(
        "  ".join([*(text.ljust(width) for text, width in zip(row, widths, strict=False)), row[-1]]).rstrip()
        for row in table
    )


def shown(text: str) -> str:
    """`text` on one line, with nothing in it that a terminal would obey."""
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)
