"""Units behind values.

For comparisons. The one rule: a unit that is missing or unknown on one side describes the value; two known units must
measure the same thing, and are converted; of two unknown ones, one may say more than the other, but not another thing.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import NamedTuple

from .nodes import Node
from .words import PLURALS, UNITS, VAGUE


class Measure(NamedTuple):
    value: Node
    dimensions: tuple[tuple[str, int], ...] | None
    """What the unit measures, e.g. (("length", 1), ("time", -1)); None without a known unit."""
    factor: Fraction
    things: frozenset[str] = frozenset()
    """What an unknown unit says is counted, word by word: `3 ripe apples`."""

    def contradicts(self, other: Measure) -> bool:
        """Whether the two count different things."""
        return not (self.things <= other.things or other.things <= self.things)


def measure(node: Node) -> Measure:
    """The value of `node` without its unit, and the unit."""
    if node.op == "quantity":
        dimensions, factor = _unit(node.name)
        return Measure(node.args[0], dimensions, factor, _things(node) if dimensions is None else frozenset())
    if node.op == "neg":
        inner = measure(node.args[0])
        return inner._replace(value=Node("neg", (inner.value,)))
    return Measure(node, None, Fraction(1))


def _unit(name: str) -> tuple[tuple[tuple[str, int], ...] | None, Fraction]:
    if name in ("degreeC", "degreeF"):
        return ((name, 1),), Fraction(1)
    exponents: dict[str, int] = {}
    factor, sign, power = Fraction(1), 1, 1
    for part in name.replace(".", "").split():
        if part in ("/", "per"):
            sign = -1
        elif part == "*":
            continue
        elif part in ("square", "sq", "squared", "cubic", "cubed"):
            power = 2 if part[0] == "s" else 3
            if part in ("squared", "cubed"):
                return None, Fraction(1)
        else:
            base, _, exponent = part.partition("^")
            known = _known(base)
            if known is None:
                return None, Fraction(1)
            times = sign * power * (int(exponent) if re.fullmatch(r"-?\d", exponent) else 1)
            exponents[known[0]] = exponents.get(known[0], 0) + times
            factor *= known[1] ** times
            power = 1
    dimensions = tuple(sorted((key, value) for key, value in exponents.items() if value))
    return (dimensions or None), factor


def _things(node: Node) -> frozenset[str]:
    names: list[str] = []
    while node.op == "quantity":
        names.append(node.name)
        node = node.args[0]
    words = {_singular(word.strip(".,").lower()) for word in " ".join(names).split()}
    return frozenset(words - VAGUE)


def _singular(word: str) -> str:
    if word in PLURALS:
        return PLURALS[word]
    if word.endswith("ies") and len(word) > 4:
        return f"{word[:-3]}y"
    if word.endswith(("ses", "xes", "zes", "ches", "shes")):
        return word[:-2]
    return word.removesuffix("s") if not word.endswith("ss") else word


def _known(name: str) -> tuple[str, Fraction] | None:
    for form in (name, name.lower(), name.lower().removesuffix("s")):
        if form in UNITS:
            return UNITS[form]
    return None
