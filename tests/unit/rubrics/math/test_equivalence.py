"""Which answers are equal to which references: the table behind docs/scoring.md."""

import pytest

from verifiers.errors import GoldError
from verifiers.rubrics.math.answers import read
from verifiers.rubrics.math.compare import agree
from verifiers.rubrics.math.gold import gold_answer
from verifiers.rubrics.math.values import Rules

EQUAL = [
    # numbers
    ("42", "42.0"), (r"\frac{3}{4}", "0.75"), ("3/4", "0.75"), (r"\dfrac34", "0.75"), ("11 5/6", "71/6"),
    (r"-2\frac{1}{2}", "-2.5"), ("2½", "5/2"), ("8,000", "8000"), (r"8{,}000", "8000"), (r"8\,000", "8000"),
    ("8 000", "8000"), (r"\$9{,}500", "9500"), ("$9{,}500", "9500"), ("1,234,567.5", "1234567.5"), (r"5\times10^{3}",
    "5000"),
    ("5e3", "5000"), (r"5 \cdot 10^{-3}", "0.005"), ("−5", "-5"), ("４２", "42"), (r"0.\overline{3}", r"\frac13"),
    (r"0.\overline{142857}", "1/7"), (r"\frac{2^{2005}}{2^{2004}}", "2"), ("3.5 million", "3500000"), ("seven", "7"),
    (r"\text{13}", "13"), ("42.", "42"), ("**42**", "42"), (r"\sqrt{16}", "4"), (r"\sqrt[3]{-8}", "-2"), (r"5!",
    "120"),
    (r"\binom{5}{2}", "10"), (r"\left| -5 \right|", "5"), (r"\lfloor 2.7 \rfloor", "2"), (r"8^{1/3}", "2"), ("+5",
    "5"),
    (r"\displaystyle \frac{1}{2}", "0.5"), ("1/2006!", r"\frac{1}{2006!}"), (r"2 \cdot 3", "6"), ("10-2", "8"),
    # percent, units, money, angles
    (r"28\%", "28 percent"), (r"28\%", "0.28"), (r"12\text{ cm}", "12"), ("12cm", "12"), ("12", r"12\text{ cm}"),
    (r"15\mbox{ cm}^2", r"15\text{ cm}^2"), (r"1.2\text{ m}", r"120\text{ cm}"), ("5 m", "5"), ("60 miles per hour",
    "60"),
    (r"90^\circ", "90"), (r"90^{\circ}", r"\frac{\pi}{2}"), ("90°", "90 degrees"), (r"50\text{ cents}", r"\$0.50"),
    ("3 apples", "3 apples"), ("3 Apples", r"3\text{ apple}"), ("3 ripe apples", "3 apples"),
    ("3 apples", "3 ripe apples"),
    ("10 ways", "10 combinations"), ("5 people", "5 persons"), ("4 churches", "4 church"), ("2 berries", "2 berry"),
    ("12 square units", "12 units"), ("5 apples in total", "5 apples"), ("7 children", "7 child"),
    ("3 classes", "3 class"),
    (r"6\text{ apples per day}", "6 apples"), ("5 (approximately)", "5 people"),
    ("3 apples, 2 oranges", "2 oranges, 3 apples"), ("3 apples", "3 cm"), ("3", "3 oranges"),
    ("12 apples", "12"), ("12 square units", "12"), ("€5", "5"), ("5 m/s", "5"), (r"3\ \mathrm{km/h}", "3"),
    # symbols
    (r"\sqrt{2}+\sqrt{5}", r"\sqrt 5 + \sqrt 2"), (r"\frac{1}{\sqrt{2}}", r"\frac{\sqrt{2}}{2}"), ("2x(x+1)",
    "2x^2+2x"),
    (r"\frac{x}{7}+\frac{2}{7}", r"\frac{x+2}{7}"), (r"\sec^2(y)", r"\tan^2(y)+1"), (r"\sin 2x", r"2\sin x\cos x"),
    (r"2 \sin b \cos a", r"\sin(a+b)-\sin(a-b)"), (r"\frac94\pi", r"\frac{9\pi}{4}"), ("1/sqrt(n)", r"\sqrt{1/n}"),
    (r"1+\frac{1}{\mathrm{e}}", r"\frac{e+1}{e}"), (r"e^{i\pi}", "-1"), ("x**2", "x^2"), ("sqrt(3)/3",
    r"\frac{\sqrt{3}}{3}"),
    (r"\log_2 8", "3"), (r"\ln e^2", "2"), (r"x^{-1}", r"\frac1x"), ("ab", "ba"), (r"\alpha\beta", r"\beta \alpha"),
    (r"b ^ { 2 } - 9 a ^ { 2 }", "b^2-9a^2"), (r"(n-2) 2^{n}+1", r"2^n(n-2)+1"), (r"(x-2)^{5/3}",
    r"(x-2)\sqrt[3]{x-2}^2"),
    (r"\sum_{k=1}^{10} k", "55"), (r"F_{k} F_{n-1}", r"F_{n-1} F_k"), (r"\infty", "infinity"), (r"x^{10}", "x^10"),
    (r"\frac{\mathrm{gb}}{f}", r"\frac{bg}{f}"), ("αβ", r"\beta\alpha"), ("x²", "x^2"), (r"\cot^{-1} 1",
    r"\frac{\pi}{4}"),
    # assignments, equations, inequalities, intervals
    ("x=5", "5"), ("5", "x = 5"), ("x = 5", "x=5"), ("a + b = 5", "5"), ("2 + 3 = 5", "5"), ("y = 2x+1", "2x+1"),
    ("f(x) = x^2", "x^2"), (r"\pi \approx 3.14", r"\pi"), (r"k = \frac13 \approx 0.33", "1/3"), ("= 5", "5"),
    ("2x+4y-3=0", r"y=-\frac12 x + \frac34"), ("-34x-45y+20z-100=0", "34x+45y-20z+100=0"), ("x>3", r"(3,\infty)"),
    (r"3 < x \le 5", "(3,5]"), (r"x \in (3,5]", "(3,5]"), ("3<x", "x>3"), (r"x<1 \text{ or } x>2",
    r"(-\infty,1)\cup(2,\infty)"),
    (r"x \ne 2", r"(-\infty,2)\cup(2,\infty)"), (r"\mathbb{R}\setminus\{2\}", r"(-\infty,2)\cup(2,\infty)"),
    (r"(2,\infty)\cup(-\infty,1)", r"(-\infty,1)\cup(2,\infty)"), ("all real numbers", r"(-\infty,\infty)"),
    (r"\{x \mid -2 \le x < 1\}", "[-2,1)"), (r"(-\infty,1]\cup(1,2)", r"(-\infty,2)"), (r"[0, \tfrac12)", "[0,0.5)"),
    (r"D = (0, 1)", "(0,1)"), (r"x \geq \frac{1}{2}", "x>=0.5"), (r"\{-1\} \cup [0,7)", r"[0,7)\cup\{-1\}"),
    # lists, tuples, sets, plus-minus, matrices
    ("1, 2", "2, 1"), (r"1 \text{ and } 2", "1,2"), ("1 or 2", "2,1"), ("n=1, 2, 3", "1,2,3"), ("x=1 or x=2",
    "x = 2, 1"),
    (r"\{2,1\}", r"\{1,2\}"), (r"\{1,1,2\}", r"\{1,2\}"), ("1,2", r"\{2,1\}"), ("(1,2)", "1,2"), (r"(1,\frac92)",
    "(1,4.5)"),
    (r"\left( 3, \frac{\pi}{2} \right)", r"(3, \frac{\pi}{2})"), (r"\pm 2021", "2021, -2021"), (r"1\pm\sqrt{19}",
     r"1-\sqrt{19}, 1+\sqrt{19}"), (r"\{1\pm\sqrt{5},-2\}", r"-2, 1+\sqrt5, 1-\sqrt5"), (r"x = \pm 3", "3, -3"),
    (r"\begin{pmatrix}1\\2\end{pmatrix}", "(1,2)"), (r"\begin{pmatrix}1&2\\3&4\end{pmatrix}",
     r"\begin{bmatrix}1&2\\3&\frac82\end{bmatrix}"), ("x=1, y=2", "y=2, x=1"), (r"\emptyset", r"\{\}"),
     (r"\langle 1,2 \rangle",
     "(1,2)"), ("1, 2, 3, \\ldots, n", r"1,2,3,\dots,n"), ("[1, 2, 3]", "1,2,3"), (r"\{5\}", "5"), ("19, 46, and 82",
     r"19, 46, \text{ and } 82"), ("100,200", "100, 200"), ("x = 1 \\quad \\text{or} \\quad x = 2", "1,2"),
    (r"A = \pi r^2 = 9\pi", r"9\pi"), (r"\sin 30^\circ", "1/2"), (r"30^\circ + 60^\circ", r"90^\circ"), ("a<b", "b>a"),
    (r"\cos(\frac{\pi}{3})", r"\cos 60^\circ"), ("0<x<y", "y>x>0"), ("2x = 2y + 4", "x - y = 2"),
    ("f(2) = 5", "5"), ("x^2 + y^2 = 25", "25"), (r"\angle ABC = 60^\circ", "60"),
    ("f(x) = (x+1)^2 = x^2+2x+1", "(x+1)^2"),
    (r"x = 1 \quad y = 2", "x=1, y=2"), (r"5 \quad \text{cm}", "5"),
    (r"5\text{ (approximately)}", "5"), ("5 (cm)", "5"), (r"\frac34\text{ of the cake}", "3/4"),
    (r"\text{Option A}", "A"),
    ("|x|<3", "-3<x<3"), (r"|x-2| \le 3", "[-1,5]"), ("|x+1|>2", r"(-\infty,-3)\cup(1,\infty)"), (r"3\colon 2", "3/2"),
    (r"\{1,2\}\cup\{3\}", r"\{3,2,1\}"), ("2^{100}", "1267650600228229401496703205376"), (r"+\infty", r"\infty"),
    (r"\frac{1+i\sqrt3}{2}", r"e^{i\pi/3}"), (r"\binom{n}{2}", r"\frac{n(n-1)}{2}"), (r"n!", "n(n-1)!"), ("5个", "5"),
    (r"\frac{1}{-2}", "-0.5"), (r"\tan^{-1} 2", "arctan(2)"), (r"(x-1)(x+2)=0", "x^2+x-2=0"),
    (r"5\,\text{dollars}", r"\$5.00"),
    (r"\text{(A) } 5", "A"), (r"\mathbf{B}", "B"), ("1.5 \\text{ million}", "1500000"), (r"\sqrt{3}i", r"i\sqrt 3"),
    (r"\frac{1}{2}\begin{pmatrix}2&4\\6&8\end{pmatrix}", r"\begin{pmatrix}1&2\\3&4\end{pmatrix}"),
    (r"\begin{pmatrix}1&2\\3&4\end{pmatrix}+\begin{pmatrix}1&0\\0&1\end{pmatrix}",
     r"\begin{pmatrix}2&2\\3&5\end{pmatrix}"),
    (r"\begin{pmatrix}1&2\\3&4\end{pmatrix}\begin{pmatrix}1\\1\end{pmatrix}", r"\begin{pmatrix}3\\7\end{pmatrix}"),
    (r"\begin{pmatrix}1&2\end{pmatrix}^T", r"\begin{pmatrix}1\\2\end{pmatrix}"), ("x>1, x<3", "(1,3)"),
    ("factorial(5)", "120"),
    (r"\frac13<x \wedge x<7", r"\frac13<x<7"), (r"x\ge -2, x\ne 3", r"[-2,3)\cup(3,\infty)"),
    (r"(1,5)\cap[2,8]", "[2,5)"),
    ("(1,000, 2)", "(1000,2)"), (r"\{1,000; 2\}", r"\{2, 1000\}"), ("(1,200)", "(1, 200)"),
    (r"\text{The answer is 5}", "5"), ("6.02 x 10^23", "6.02e23"), (r"x=1\\y=2", "(1,2)"), (r"3\ \&\ 4", "3,4"),
    (r"12\frac{\text{m}}{\text{s}}", r"12\text{ m/s}"), (r"72\,\frac{\mathrm{km}}{\mathrm{h}}", r"20\text{ m/s}"),
    ("E: the fifth one", "E"), ("2^3 = 8", "8"), ("8", "2^3 = 8"), ("v = at", "v = ta"), (r"\log 0.01=-2", "-2"),
    ("{1, 3}", r"\{3,1\}"), ("{-2021, 2021}", r"\pm 2021"), ("x=1, y=2", "(1,2)"), ("x_1=3, x_2=2", "2, 3"),
    ("x != 5", r"x \neq 5"), ("5! = 120", "120"), ("5!=120", "120"), ("-x > -1", "x < 1"), (r"-x \ge -1", r"x \le 1"),
    ("2x + 2y < 4", "x + y < 2"), ("-x-y > -2", "x + y < 2"),
    (r"\frac{NO}{BO}=\frac{1}{\sqrt{6}}", r"\frac{1}{\sqrt{6}}"),
    ("S_1:S=7:32", "7:32"), ("|AB|=1", "1"),
    # ratios, residues, bases, words
    ("1:2", "2:4"), ("1:2", "1/2"), ("12:00", "12:00"), (r"3 \pmod 7", r"10 \pmod{7}"), ("52_8", "52_{8}"),
    (r"x\equiv 3\pmod 7",
     r"3 \pmod 7"), (r"\text{(B)}", "B"), ("B", r"\textbf{(B)}"), (r"\text{Tuesday}", "tuesday"), (r"(B)\ 42", "B"),
    (r"\textbf{(B)}\ 42", "42"), (r"\text{no solution}", "No solutions"), ("yes", "Yes"), ("The answer is 42", "42"),
    (r"\text{June 20}", "June 20"), ("\\\\frac{1}{2}", "1/2"), ("\frac{1}{2}", "1/2"), (r"2n\pi, n\in\mathbb{Z}",
    r"2\pi n"),
]  # fmt: skip

DIFFERENT = [
    ("2 2/3", "2"), ("2 2/3", "3"), ("4 10/3", "10"), ("4 10/3", "10/3"), ("8,000", "8"), ("8,000", "0"), ("0.3333",
    r"\frac13"),
    ("3.14", r"\pi"), (r"\frac{1}{2006!}", r"\frac{1}{2004!}"), (r"\frac{1}{2^{98}}", r"\frac{1}{2^{99}}"),
    (r"\frac{2^{2005}+1}{3 \cdot 2^{2006}}", r"\frac{1}{3 \cdot 2^{2006}}"), ("2^{1000000}+1", "2^{1000000}"),
    (r"9^{9^{9^{9}}}", "1"), ("28", r"28\%"), (r"28\%", "28"), ("NaN", "0"), ("null", "0"), ("undefined", "0"),
    (r"\infty", "0"), ("-", "0"), ("5", "-5"), ("1 2", "2"), ("12", "1"), ("5 4.6", "5"), (r"12\text{ cm}",
    r"12\text{ m}"),
    (r"12\text{ cm}", r"12\text{ kg}"), (r"\$5", "€5"), (r"90^\circ", r"\frac{\pi}{3}"), ("1 + 1 = 3", "3"),
    ("x = 3 = 5", "5"),
    (r"1 - \frac{1}{\mathrm{e}}", r"1 + \frac{1}{\mathrm{e}}"), ("x", "|x|"), ("-x", "|x|"), ("x", "y"), ("x+1", "x"),
    (r"4\sqrt(2)", "4"), ("x^2+y^2=25", "x^2+y^2=5"), ("25", "x^2+y^2=25"), ("3x-y+13=0", "3x+4y+14=0"), ("x=5",
    "y=5"),
    ("n=1, 2, 3", "n=2, 3, 4"), ("(2,1)", "(1,2)"), ("(3, \\frac{2\\pi}{3})", r"(3, \frac{\pi}{2})"), ("1,2", "1"),
    ("1", "1,2"),
    ("[1,2]", "(1,2)"), ("[0,1)", "[0,9)"), ("[0,1)", "1"), ("x>3", "x<3"), ("x>3", r"x\ge 3"), ("D = (0, 1)",
    "D = (0, 1.5)"),
    (r"\pm 2021", "2021"), ("2021", r"\pm 2021"), ("19, 46, and 82", "21, 36, and 82"), ("1,1", "1"), ("1, 2, 2",
    "1, 1, 2"),
    (r"t=\frac{\ln 18}{0.2}=10\ln 18", r"t=10\ln 18"), ("2^3 = 9", "2^3 = 8"), (r"\log 0.8=-2", r"\log 0.01=-2"),
    ("x=e^{e^{10}}", "x=e^{e^{3}}"), ("J: 4, S: 16", "J: 4, S: 14"), ("f(x) = x^2 for x > 0", "f(x) = x^3 for x > 0"),
    (r"\text{rises for } x < -1", r"\text{rises for } x < 1"),
    (r"\text{rises for } x < 1", r"\text{rises for } x > 1"),
    (r"5\text{ (or 6)}", "5"), (r"-\infty", r"\infty"), ("|x|<3", "x<3"), ("|x|>3", "-3<x<3"), ("23", "2,3"),
    ("2,3", "23"),
    ("10^{-30}", "0"), (r"\frac{\pi}{4}", "0.785"), (r"5 \text{ or } 6", "5"), ("[1,2]", "[1,2)"),
    (r"\text{Option A}", "B"),
    (r"2\begin{pmatrix}1&2\end{pmatrix}", "(1,2)"), ("x>1 or x<3", "(1,3)"), (r"x \ge -2", r"x\ge -2, x\ne 3"),
    ("x = 7 = 11", "11"), (r"y=\frac{c}{x+c} \quad y=-1", r"y=\frac{c}{x-c} \quad y=-1"),
    ("240/(x-2) - 240/x = 10", "10"), ("y_1 = x\ny_2 = 2x", "y_1 = 3x\ny_2 = 2x"),
    ("y_3>y_3>y_1", "y_3>y_2>y_1"), ("a<b", "b<a"), ("t>3", "x>3"), (r"\sin 30", "1/2"),
    ("x=1, y=2", "(2,1)"), ("x=1, y=2", "x=2, y=1"), ("-x-y < -2", "x + y < 2"), ("x + y < 3", "x + y < 2"),
    ("12:00", "1:00"), ("1:2:3:\\ldots", "1:4:9:\\ldots"), (r"1, 2, \ldots, n", r"1, 3, 5, \ldots, 2n-1"),
    ("3:00 p.m.", "3:00 a.m."),
    (r"F_n = \sum_{k=0}^{n-1} F_k F_{n-k-1}", r"F_n = \sum_{k=0}^{n-2} F_k F_{n-k-2}"), ("f(x) = 0",
    r"\forall x>0, f(x) = 0"),
    (r"\prod_{k=1}^n 2k", r"2\prod_{k=1}^n k"), (r"\int_0^1 x\,dx", r"\int_0^2 x\,dx"), ("52_8", "52_7"), ("A", "B"),
    ("b", "B"),
    (r"\text{(B)}", "A"), ("42", "B"), (r"\text{east}", r"\text{seat}"), ("no", "on"), ("Tuesday", "Thursday"),
    (r"\text{A or B}", "A"),
    (r"3 \pmod 7", r"4 \pmod 7"), (r"\begin{pmatrix}1\\2\end{pmatrix}", "(2,1)"), ("", "0"), (r"\frac{1}{2", "1"),
    ("x=", "0"),
    ("3 apples", "3 oranges"), (r"3\text{ apples}", r"3\text{ oranges}"), ("3 ripe apples", "3 green apples"),
    ("3 apples, 2 oranges", "3 oranges, 2 apples"), ("5 cats", "5 dogs"),
    ("x = 3 apples", "3 oranges"), (r"\frac{1}{2}\text{ cups}", r"0.5\text{ spoons}"), ("3 apples", "4 apples"),
    ("the answer could be 5 or 6", "5"), (r"5 \text{ or maybe } 6", "5"), ("5abc", "5"), ("2x", "2"), ("1e400000",
    "1"),
    (r"\sin(10^{10^{8}})", "0"), (r"\sqrt{x^2}", "-x"), (r"\{1,2\}", r"\{1,2,3\}"), ("(1,2,3)", "(1,2)"), (r"x \ne 2",
    "2"),
    ("3/0", "0"), ("0/0", "0"), ("1/0", r"\infty"), ("x<1 or x>2", "1<x<2"), ("10", "10!"), ("2^x", "x^2"), ("-2^2",
    "4"),
    ("1 000 000", "1"), ("1.5", "15"), ("1,5", "1.5"), (r"20^\circ \text{C}", r"20^\circ \text{F}"),
]  # fmt: skip

UNUSABLE = [
    pytest.param(10**5000, id="huge"),
    "", "  ", "NaN", "null", "N/A", None, True, ["5"], "see the attached figure", "see figure", "Proof",
    "See solution manual.", r"\frac{1}{2",
    r"\boxed{5", "x + (",
    "The rocket reaches its height after 10 seconds", "answers may vary", "5 4.6", "x" * 5000, r"\boxed{}", "2 +",
    r"\text{5",
]  # fmt: skip


def verdict(answer: str, gold: object, **rules: object) -> bool:
    return agree(gold_answer(gold), read(answer), Rules(**rules), deep=True)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(("answer", "gold"), EQUAL)
def test_equal(answer: str, gold: str) -> None:
    assert verdict(answer, gold)


@pytest.mark.parametrize(("answer", "gold"), EQUAL)
def test_equality_is_symmetric_between_values(answer: str, gold: str) -> None:
    """What is equal one way is equal the other way, but for statements about a value and choices with their text."""
    one_way = (
        "a + b = 5",
        r"\text{(A) } 5",
        "f(2) = 5",
        "x^2 + y^2 = 25",
        "2 + 3 = 5",
        "5! = 120",
        r"A = \pi r^2 = 9\pi",
        "5!=120",
        r"(B)\ 42",
        r"\textbf{(B)}\ 42",
        "The answer is 42",
        "E: the fifth one",
    )
    if answer not in one_way:
        assert verdict(gold, answer)


@pytest.mark.parametrize(("answer", "gold"), DIFFERENT)
def test_different(answer: str, gold: str) -> None:
    assert not verdict(answer, gold)


@pytest.mark.parametrize("gold", UNUSABLE)
def test_unusable_reference(gold: object) -> None:
    """Whatever the answer, also the same text."""
    with pytest.raises(GoldError):
        verdict("5", gold)


@pytest.mark.parametrize(
    ("answer", "gold", "rules"),
    [
        ("28", r"28\%", {"percent_lenient": True}),
        ("0.3333", r"\frac13", {"abs_tol": 1e-3}),
        ("3.14", r"\pi", {"rel_tol": 1e-3}),
        (r"\sqrt{x^2}", "|x|", {"positive": False}),
    ],
)
def test_rules_that_accept_more(answer: str, gold: str, rules: dict[str, object]) -> None:
    assert verdict(answer, gold, **rules)


@pytest.mark.parametrize(
    ("answer", "gold", "rules"),
    [
        (r"\sqrt{x^2}", "x", {"positive": False}),
        ("0.33", r"\frac13", {"abs_tol": 1e-3}),
        ("3.15", r"\pi", {"rel_tol": 1e-3}),
        ("29", r"28\%", {"percent_lenient": True}),
    ],
)
def test_rules_have_limits(answer: str, gold: str, rules: dict[str, object]) -> None:
    assert not verdict(answer, gold, **rules)


@pytest.mark.parametrize("gold", [5, 5.0, "5", r"\boxed{5}", r"so $\boxed{5}$.", "2 + 3 = 5\n#### 5", "$5$", r"\(5\)"])
def test_forms_of_a_reference(gold: object) -> None:
    assert verdict("5", gold)
    assert not verdict("4", gold)
