"""Grading what a program left in its box: checks that run in a box it never touched, judged outside of it.

A check is a command and what it must print or exit with. The comparison is made here, so nothing that runs in a box
writes a reward. Files of the tests enter a box only when nothing of the program runs any more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

from verifiers.errors import ConfigError, SandboxExecError, SandboxLimitError, ScorerError
from verifiers.sandboxes import Sandbox
from verifiers.sandboxes.artifacts import Artifacts, restore
from verifiers.task import Task

CHECK_TIMEOUT_S = 30.0
TESTS = "/tests"
"""Where test files are staged."""
UNLINK = f"""for link; do case $(readlink -f "$link") in / | {TESTS} | {TESTS}/*) rm -f "$link" ;; esac; done"""
"""Removes those of its arguments that lead to the test files: a link to an expected output would equal it."""


class Check(NamedTuple):
    """One command and what it must come to."""

    run: str
    """A shell line, run in the task's folder."""
    stdout: str | None = None
    """What it must print, apart from white space at the end of lines and of the text; None: anything."""
    exit_code: int = 0
    timeout_s: float = CHECK_TIMEOUT_S
    """A check that takes longer has failed."""


class Checked(NamedTuple):
    check: Check
    passed: bool
    why: str
    """What was wrong; '' if it passed."""


def checks_of(task: Task) -> list[Check]:
    """The column `checks` of a task.

    Raises:
        ConfigError: there are none, or one that is none.
    """
    listed: Any = task.columns.get("checks")
    if not isinstance(listed, Sequence) or isinstance(listed, str) or not listed:
        raise ConfigError(
            f"task {task.example_id!r} has no checks: a list of objects with 'run', 'stdout', 'exit_code'"
        )
    found: list[Check] = []
    for each in cast(Sequence[Any], listed):
        said = {key: value for key, value in cast(Mapping[str, Any], each).items() if value is not None}
        if "run" not in said or said.keys() - set(Check._fields):
            raise ConfigError(f"task {task.example_id!r}: a check has 'run', 'stdout', 'exit_code', not {each!r}")
        found.append(Check(**said))
    return found


async def graded(box: Sandbox, task: Task, artifacts: Artifacts | None) -> list[Checked]:
    """Every check of the task, in a box where nothing of the program runs: artifacts first, then the tests, then the
    checks.

    A check may run what the program wrote. So whatever it leaves running is ended before the next one, and the tests
    are staged anew.
    """
    checks = checks_of(task)
    tests = {name: text for name, text in (task.columns.get("tests") or {}).items() if text is not None}
    try:
        if artifacts is not None:
            await restore(artifacts, box)
        await _stage(box, tests, artifacts)
    except (SandboxLimitError, OSError) as error:  # what the program left leaves no room for the tests
        return [Checked(check, False, str(error)) for check in checks]
    except SandboxExecError as error:
        if artifacts is not None:
            raise
        return [Checked(check, False, str(error)) for check in checks]
    since_s = float((await box.read("/proc/uptime")).split()[0])
    found: list[Checked] = []
    for check in checks:
        try:
            if found:
                await box.end_processes(since_s=since_s)
                await _stage(box, tests, artifacts)
            found.append(await _checked(box, check))
        except (SandboxLimitError, OSError) as error:
            found.append(Checked(check, False, str(error)))
        except SandboxExecError as error:
            if artifacts is not None and not found:
                raise  # nothing of the program's has run here
            found.append(Checked(check, False, str(error)))
    return found


async def _stage(box: Sandbox, tests: Mapping[str, Any], artifacts: Artifacts | None) -> None:
    if not (await box.exec(["rm", "-rf", TESTS])).ok:
        raise SandboxLimitError(f"what the program left at {TESTS} cannot be removed")
    for name, text in tests.items():
        await box.write(f"{TESTS}/{name}", text)
    if tests and artifacts is not None and artifacts.paths:
        await box.exec(["find", *artifacts.paths, "-type", "l", "-exec", "/bin/sh", "-c", UNLINK, "sh", "{}", "+"])


async def _checked(box: Sandbox, check: Check) -> Checked:
    result = await box.exec(check.run, timeout_s=check.timeout_s)
    if result.timed_out:
        return Checked(check, False, f"took longer than {check.timeout_s:g} s")
    if result.exit_code != check.exit_code:
        tail = (result.stderr or result.stdout).strip()[-300:]
        return Checked(check, False, f"exit code {result.exit_code}, not {check.exit_code}: {tail}")
    if check.stdout is not None and _trimmed(result.stdout) != _trimmed(check.stdout):
        return Checked(check, False, f"printed {result.stdout[:300]!r}")
    return Checked(check, True, "")


def _trimmed(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


def verdicts(state: Mapping[str, Any]) -> list[dict[str, Any]]:
    """
    Raises:
        ScorerError: the rollout was not graded.
    """
    found = state.get("checked")
    if not isinstance(found, list) or not found:
        raise ScorerError("the rollout has not been graded: its box is gone, or it never had one")
    return cast(list[dict[str, Any]], found)
