"""Names in answers: functions, constants, units, number words, and the words of "no answer exists".

For the parser. The one rule: what is not listed here is a variable or prose, never a guess.
"""

from __future__ import annotations

from fractions import Fraction

FUNCTIONS = {
    "sin", "cos", "tan", "cot", "sec", "csc", "sinh", "cosh", "tanh", "coth", "sech", "csch", "arcsin", "arccos",
    "arctan",
    "arccot", "arcsec", "arccsc", "asin", "acos", "atan", "arcsinh", "arccosh", "arctanh", "asinh", "acosh", "atanh",
    "log",
    "ln", "lg", "exp", "sqrt", "abs", "max", "min", "gcd", "lcm", "floor", "ceil", "sgn", "det", "arg", "deg", "dim",
    "ker", "sup", "inf", "Re", "Im", "erf", "cbrt", "factorial", "binomial", "tg", "ctg", "arctg",
}  # fmt: skip
ALIASES = {
    "asin": "arcsin", "acos": "arccos", "atan": "arctan", "tg": "tan", "ctg": "cot", "arctg": "arctan",
    "asinh": "arcsinh", "acosh": "arccosh", "atanh": "arctanh", "binomial": "binom",
}  # fmt: skip
GREEK = {
    "alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa", "lambda", "mu", "nu", "xi",
    "rho", "sigma", "tau", "upsilon", "phi", "chi", "psi", "omega",
}  # fmt: skip
INFINITY = {"infty", "infinity", "oo"}

NUMBER_WORDS = {
    word: value
    for value, word in enumerate(
        [
            "zero",
            "one",
            "two",
            "three",
            "four",
            "five",
            "six",
            "seven",
            "eight",
            "nine",
            "ten",
            "eleven",
            "twelve",
            "thirteen",
            "fourteen",
            "fifteen",
            "sixteen",
            "seventeen",
            "eighteen",
            "nineteen",
            "twenty",
        ]
    )
} | {f"{tens}ty": 10 * value for value, tens in enumerate(["thir", "for", "fif", "six", "seven", "eigh", "nine"], 3)}
SCALES = {"hundred": 10**2, "thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
PERCENT = {"percent", "pct", "percentage", "percents"}

_LENGTH, _MASS, _TIME, _VOLUME, _MONEY, _ANGLE = "length", "mass", "time", "volume", "usd", "angle"
UNITS: dict[str, tuple[str, Fraction]] = {
    name: (dimension, Fraction(factor))
    for dimension, table in {
        _LENGTH: {
            "mm": "1/1000", "millimeter": "1/1000", "millimetre": "1/1000", "cm": "1/100", "centimeter": "1/100",
            "centimetre": "1/100", "dm": "1/10", "m": "1", "meter": "1", "metre": "1", "km": "1000",
            "kilometer": "1000",
            "kilometre": "1000", "in": "0.0254", "inch": "0.0254", "inche": "0.0254", "ft": "0.3048", "foot": "0.3048",
            "feet": "0.3048", "yd": "0.9144", "yard": "0.9144", "mi": "1609.344", "mile": "1609.344",
            "nm": "1/1000000000",
        },
        _MASS: {
            "mg": "1/1000", "milligram": "1/1000", "g": "1", "gram": "1", "kg": "1000", "kilogram": "1000",
            "ton": "1000000", "tonne": "1000000", "lb": "453.59237", "pound": "453.59237", "oz": "28.349523125",
            "ounce": "28.349523125",
        },
        _TIME: {
            "ms": "1/1000", "s": "1", "sec": "1", "second": "1", "min": "60", "minute": "60", "h": "3600",
            "hr": "3600",
            "hour": "3600", "day": "86400", "week": "604800",
        },
        _VOLUME: {
            "ml": "1", "mL": "1", "milliliter": "1", "millilitre": "1", "l": "1000", "L": "1000", "liter": "1000",
            "litre": "1000", "gallon": "3785.411784",
        },
        _MONEY: {"$": "1", "dollar": "1", "usd": "1", "cent": "1/100", "¢": "1/100"},
        "eur": {"€": "1", "euro": "1", "eur": "1"},
        "gbp": {"£": "1"},
        "yen": {"¥": "1", "yen": "1", "yuan": "1"},
        "inr": {"₹": "1", "rupee": "1"},
        _ANGLE: {"degree": "1", "°": "1", "deg": "1"},
        "am": {"am": "1"},
        "pm": {"pm": "1"},
        "mph": {"mph": "1"},
        "speed": {"kmh": "1", "kmph": "1"},
        "force": {"N": "1"}, "energy": {"J": "1", "kJ": "1000", "joule": "1"}, "power": {"W": "1", "kW": "1000",
        "watt": "1"},
        "voltage": {"V": "1", "volt": "1"}, "frequency": {"Hz": "1", "kHz": "1000", "MHz": "1000000"},
        "pressure": {"Pa": "1", "kPa": "1000"}, "temperature": {"K": "1"}, "amount": {"mol": "1"},
    }.items()
    for name, factor in table.items()
}  # fmt: skip
"""Unit name -> dimension and size in that dimension's own unit. Names outside the table describe,
they do not convert."""
VAGUE = frozenset(
    (
        *("", "a", "an", "the", "of", "per", "in", "and", "all", "other", "/", "*", "total", "altogether", "together"),
        *(
            "exactly",
            "approximately",
            "approx",
            "about",
            "roughly",
            "rounded",
            "exact",
            "only",
            "square",
            "sq",
            "cubic",
        ),
        *("unit", "way", "possibility", "combination", "arrangement", "permutation", "outcome", "case", "choice"),
        *("option", "solution", "value", "number", "item", "piece", "time", "different", "distinct", "possible"),
    )
)
"""Words behind a value, in the singular, that do not say what is counted."""
PLURALS = {
    "people": "person", "children": "child", "men": "man", "women": "woman", "feet": "foot", "mice": "mouse",
    "geese": "goose", "teeth": "tooth", "dice": "die", "vertices": "vertex", "indices": "index", "halves": "half",
    "knives": "knife", "wolves": "wolf", "lives": "life", "loaves": "loaf", "leaves": "leaf",
}  # fmt: skip
GLUED_UNITS = {
    "mm",
    "cm",
    "km",
    "kg",
    "mg",
    "ml",
    "mL",
    "lb",
    "ft",
    "mph",
    "kmh",
    "Hz",
    "kHz",
    "kJ",
    "kPa",
    "kW",
    "mol",
}
"""Units that are read as such without a space or `\\text` before them, e.g. in `12cm`."""

CONNECTING = {
    "for", "the", "all", "any", "not", "are", "was", "were", "has", "have", "yes", "see", "but", "can", "its", "via",
    "out", "with", "where", "when", "otherwise", "whose", "such", "that", "then", "than", "from", "which", "if", "is",
    "at", "of", "on",
}  # fmt: skip
"""Words that join statements; no expression goes on behind them."""
NOTHING = {
    "no solution": "no solution", "no solutions": "no solution", "none": "no solution",
    "no real solution": "no solution",
    "no real solutions": "no solution", "does not exist": "does not exist", "dne": "does not exist",
    "no such": "does not exist", "all real numbers": "all real numbers", "all reals": "all real numbers",
    "infinitely many": "infinitely many", "infinitely many solutions": "infinitely many", "undefined": "undefined",
    "empty set": "empty set", "the empty set": "empty set", "indeterminate": "indeterminate", "divergent": "diverges",
    "diverges": "diverges", "converges": "converges", "convergent": "converges", "impossible": "impossible",
    "not possible": "impossible", "not enough information": "not enough information",
    "cannot be determined": "cannot be determined", "increasing": "increasing", "decreasing": "decreasing",
    "neither even nor odd": "neither", "neither": "neither",
}  # fmt: skip
"""Whole-answer phrases, and the phrase each counts as."""
NOT_A_NUMBER = {
    "nan",
    "null",
    "n/a",
    "na",
    "nil",
    "undefined value",
    "unknown",
    "todo",
    "tbd",
    "-",
    "?",
    "proof",
    "omitted",
    "varies",
}
"""What stands where a reference answer is missing."""


def is_known_word(word: str) -> bool:
    """Whether a word has a mathematical meaning of its own."""
    lower = word.lower()
    known = word in FUNCTIONS or word in GREEK or word in UNITS or lower.removesuffix("s") in UNITS
    return known or lower in INFINITY | PERCENT | set(NUMBER_WORDS) | set(SCALES) or word in ("pi", "and", "or", "mod")


def is_prose(word: str) -> bool:
    """A run of letters that is neither a product of variables nor a name: four letters or more."""
    if len(word) < 4 or word.lower() in NUMBER_WORDS or word.lower() in INFINITY:
        return False
    return not (word in FUNCTIONS | GREEK or any(word.startswith(f) and len(word) - len(f) <= 2 for f in FUNCTIONS))


def unit_name(word: str) -> str | None:
    for name in (word, word.lower(), word.lower().removesuffix("s")):
        if name in UNITS:
            return name
    return None
