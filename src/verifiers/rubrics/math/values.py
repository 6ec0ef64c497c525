"""Whether two single values are equal: exact, in their units, within a tolerance, or numerically.

For comparisons. The one rule: equal means equal - a tolerance is the caller's to ask for, and what cannot be computed
is not equal.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from .exact import NoValue, TooBig, exact
from .nodes import Node, number
from .units import measure

QUICK_BITS = 2048
DEEP_BITS = 1 << 22


class NeedsNumerics(Exception):
    """The pair has variables, irrational or huge values: more than the quick budget allows."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What is accepted beyond exact equality. Each default is the strict choice."""

    percent_lenient: bool = False
    """`28` for `28%`, too."""
    positive: bool = True
    """Variables stand for positive numbers, so that `sqrt(1/n)` is `1/sqrt(n)`."""
    rel_tol: float = 0.0
    abs_tol: float = 0.0


class Values:
    """Comparisons of values by the given rules; `deep` allows what takes more than fractions."""

    def __init__(self, rules: Rules, deep: bool) -> None:
        self.rules = rules
        self.deep = deep

    def scalars(self, gold: Node, answer: Node) -> bool:
        if "text" in (gold.op, answer.op) or "ellipsis" in (gold.op, answer.op):
            return gold == answer
        first, second = measure(gold), measure(answer)
        if first.dimensions and second.dimensions:
            if first.dimensions != second.dimensions:
                return False
            if first.factor != second.factor:
                return self._values(
                    Node("mul", (first.value, number(first.factor))), Node("mul", (second.value, number(second.factor)))
                )
        if first.contradicts(second):
            return False
        if self._values(first.value, second.value):
            return True
        if [first.dimensions, second.dimensions].count((("angle", 1),)) == 1:
            return self._radians(first.value, second.value, gold_in_degrees=first.dimensions is not None)
        return False

    def _radians(self, gold: Node, answer: Node, *, gold_in_degrees: bool) -> bool:
        degrees, other = (gold, answer) if gold_in_degrees else (answer, gold)
        if not any(node.op == "symbol" and node.name == "pi" for node in other.walk()):
            return False
        return self._values(Node("div", (Node("mul", (degrees, Node("symbol", name="pi"))), number(180))), other)

    def _values(self, gold: Node, answer: Node) -> bool:
        if gold.op == answer.op == "percent":
            return self._values(gold.args[0], answer.args[0])
        if self.rules.percent_lenient and "percent" in (gold.op, answer.op):
            face = [node.args[0] if node.op == "percent" else node for node in (gold, answer)]
            if self._values(face[0], face[1]):
                return True
        try:
            first, second = self.exact(gold), self.exact(answer)
        except NoValue:
            return False
        except TooBig:
            if self.deep:
                return False
            raise NeedsNumerics from None
        if first is not None and second is not None:
            return first == second or self._within(first, second)
        if not self.deep:
            raise NeedsNumerics
        from .numeric import equal

        rules = self.rules
        return equal(gold, answer, positive=rules.positive, rel_tol=rules.rel_tol, abs_tol=rules.abs_tol)

    def _within(self, gold: Fraction, answer: Fraction) -> bool:
        allowed = max(abs(gold) * Fraction(self.rules.rel_tol), Fraction(self.rules.abs_tol))
        return abs(gold - answer) <= allowed

    def exact(self, node: Node) -> Fraction | None:
        if not self.deep and sum(1 for _ in node.walk()) > 60:
            raise NeedsNumerics
        return exact(node, DEEP_BITS if self.deep else QUICK_BITS)
