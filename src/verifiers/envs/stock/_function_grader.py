"""Runs inside a box: whether a function that somebody else wrote passes tests that it must not see.

Two processes. This one holds the tests and says the verdict; the kernel keeps others of the same user out of its memory
and files. The function lives in a child without the tests; arguments and results cross as literals, so neither objects
that claim to equal anything nor early exits reach the verdict.

Stdin: one JSON object `{setup, solution, name, test, cpu_s}`; `test` defines `check(function)`, `cpu_s` bounds the
function's processor time. Stdout: `begun` once the tests are ready and before the function is, then `passed`, or why
not.
"""
# pyright: basic, reportOptionalMemberAccess=false

import ast
import contextlib
import ctypes
import json
import signal
import subprocess
import sys

CHILD = """
import json, os, resource, sys
requests, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
null = os.open(os.devnull, os.O_RDWR)
os.dup2(null, 0); os.dup2(null, 1); os.dup2(null, 2)
import ast
job = json.loads(requests.readline())
resource.setrlimit(resource.RLIMIT_CPU, (job["cpu_s"], job["cpu_s"] + 1))
space = {"__name__": "solution"}
def say(kind, text):
    print(json.dumps([kind, text]), file=answers, flush=True)
try:
    exec(compile(job["solution"], "<solution>", "exec"), space)
    function = space[job["name"]]
    say("ready", "")
except BaseException as error:
    say("error", type(error).__name__ + ": " + str(error)[:500])
    os._exit(0)
for line in requests:
    try:
        say("value", repr(function(*eval(json.loads(line), {"inf": float("inf"), "nan": float("nan")}))))
    except BaseException as error:
        say("error", type(error).__name__ + ": " + str(error)[:500])
"""


class Failed(Exception):
    """The function did not do what was asked of it."""


class _Numbers(ast.NodeTransformer):
    """`inf` and `nan` are how Python writes these floats, and no literals."""

    def visit_Name(self, node):
        if node.id not in ("inf", "nan"):
            raise Failed(f"a result is no literal: {node.id}")
        return ast.copy_location(ast.Constant(float(node.id)), node)


def value_of(text):
    try:
        return ast.literal_eval(_Numbers().visit(ast.parse(text.strip(), mode="eval")))
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError) as error:
        raise Failed(f"a result is no literal: {text[:100]}") from error


class Function:
    """The function in the child, called by literals."""

    def __init__(self, solution, name, cpu_s):
        self.cpu_s = cpu_s
        self.child = subprocess.Popen(
            [sys.executable, "-I", "-c", CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.ask({"solution": solution, "name": name, "cpu_s": cpu_s}, "ready")

    def ask(self, request, wanted):
        try:
            self.child.stdin.write(json.dumps(request) + "\n")
            self.child.stdin.flush()
            kind, text = json.loads(self.child.stdout.readline(1 << 24))
        except (OSError, ValueError, TypeError) as error:
            raise Failed(self.why_ended()) from error
        if kind != wanted:
            raise Failed(str(text))
        return str(text)

    def why_ended(self):
        with contextlib.suppress(subprocess.TimeoutExpired):  # it can have closed its pipe, or written nonsense into it
            self.child.wait(1)
        if self.child.returncode == -signal.SIGXCPU:
            return f"not done within {self.cpu_s} seconds of processor time"
        return "the solution ended its process"

    def __call__(self, *args):
        return value_of(self.ask(repr(args), "value"))


def judge(job):
    space: dict = {"__name__": "tests"}
    exec(compile(job["setup"], "<setup>", "exec"), space)
    exec(compile(job["test"], "<test>", "exec"), space)
    sys.excepthook = say_why
    print("begun", flush=True)
    function = Function(job["solution"], job["name"], job["cpu_s"])
    space[job["name"]] = function  # some tests call it by its name
    space["check"](function)
    print("passed", flush=True)


def say_why(kind, error, trace):
    """From here on whatever breaks is the function's doing; a test that cannot digest a result fails as well."""
    name = {Failed: "", AssertionError: "wrong result "}.get(kind, f"{kind.__name__}: ")
    print(f"failed: {name}{str(error)[:200]}", flush=True)


def main():
    ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)  # PR_SET_DUMPABLE: no ptrace, no /proc/<pid>/mem, no /proc/<pid>/fd
    judge(json.loads(sys.stdin.read()))


main()
