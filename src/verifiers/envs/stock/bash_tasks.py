"""Small jobs in a file system: find, count, rename, sum, sort. Does the model reach the state asked for with a shell?

Each rollout has a box of its own with generated files. The reward is 1 if every file that the task asks for is there
with the right content, and what was to go is gone; the metric `share_done` is the share of these. How the model got
there does not matter, and what it says does not count.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import NamedTuple

import verifiers as vf
from verifiers.envs.stock._rows import Row, split
from verifiers.errors import ConfigError, SandboxLimitError, SandboxPolicyError
from verifiers.sandboxes import Backend

SYSTEM_PROMPT = "You have a shell in the folder with the files. Do what is asked with it; say when you are done."
WORDS = [
    *("amber", "birch", "cedar", "delta", "ember", "flint", "grove", "heron", "inlet", "jetty"),
    *("knoll", "larch", "maple", "north", "ochre", "pearl", "quill", "river"),
]
MAX_BYTES = 1 << 20


class Job(NamedTuple):
    """What a task starts with and must end with."""

    text: str
    files: dict[str, str]
    wanted: dict[str, str | None]
    """Path -> content, whitespace at its end aside; None: nothing may be there."""
    solution: str
    """Shell lines that do it."""


def _lines(rng: random.Random, count: int) -> list[str]:
    return [" ".join(rng.choices(WORDS, k=rng.randint(3, 6))) for _ in range(count)]


def _tree(rng: random.Random, count: int, suffixes: tuple[str, ...]) -> dict[str, str]:
    """`count` files in a few folders, each of a few lines."""
    files: dict[str, str] = {}
    while len(files) < count:
        folders = "".join(f"{word}/" for word in rng.sample(WORDS, rng.randint(0, 2)))
        files[f"{folders}{rng.choice(WORDS)}{rng.randint(1, 99)}{rng.choice(suffixes)}"] = (
            "\n".join(_lines(rng, 4)) + "\n"
        )
    return files


def count_word(rng: random.Random, size: int) -> Job:
    files, word = _tree(rng, size, (".txt", ".log")), rng.choice(WORDS)
    number = sum(word in line.split() for text in files.values() for line in text.splitlines())
    text = (
        f"Count the lines in all files below this folder that hold the word {word!r}. Write the number to answer.txt."
    )
    solution = f"grep -rhw {word} . | wc -l >/tmp/answer && mv /tmp/answer answer.txt"
    return Job(text, files, {"answer.txt": str(number)}, solution)


def find_file(rng: random.Random, size: int) -> Job:
    files, token = _tree(rng, size, (".txt", ".cfg")), f"token-{rng.randrange(10**6):06d}"
    path = rng.choice(sorted(files))
    files[path] += f"key = {token}\n"
    text = f"One file below this folder holds {token!r}. Write its path, relative to this folder, to found.txt."
    solution = f"grep -rl {token} . | sed 's|^[.]/||' >/tmp/found && mv /tmp/found found.txt"
    return Job(text, files, {"found.txt": path}, solution)


def rename(rng: random.Random, size: int) -> Job:
    files = _tree(rng, size, (".txt", ".dat"))
    wanted: dict[str, str | None] = {}
    for path, content in files.items():
        if path.endswith(".txt"):
            wanted[path], wanted[path.removesuffix(".txt") + ".md"] = None, content
        else:
            wanted[path] = content
    text = "Give every file below this folder that ends in .txt the ending .md instead. Leave all others as they are."
    solution = 'find . -name \'*.txt\' | while read -r path; do mv "$path" "${path%.txt}.md"; done'
    return Job(text, files, wanted, solution)


def sum_column(rng: random.Random, size: int) -> Job:
    rows = [(rng.choice(WORDS), rng.randint(1, 500), rng.randint(1, 9)) for _ in range(size * 4)]
    word = rng.choice([row[0] for row in rows])
    table = "name,amount,boxes\n" + "".join(f"{name},{amount},{boxes}\n" for name, amount, boxes in rows)
    total = sum(amount for name, amount, _ in rows if name == word)
    text = (
        f"table.csv has columns name, amount and boxes. Write the sum of amount over all rows of {word!r} to total.txt."
    )
    solution = f"awk -F, '$1 == \"{word}\" {{sum += $2}} END {{print sum}}' table.csv >total.txt"
    return Job(text, {"table.csv": table}, {"total.txt": str(total), "table.csv": table}, solution)


def merge_lists(rng: random.Random, size: int) -> Job:
    names = [f"lists/{word}.txt" for word in rng.sample(WORDS, 3)]
    files = {name: "\n".join(rng.choices(WORDS, k=size)) + "\n" for name in names}
    every = sorted({line for text in files.values() for line in text.split()})
    text = "Merge all files in lists/ into merged.txt: every line once, in alphabetical order. Then remove lists/."
    solution = "LC_ALL=C sort -u lists/*.txt >merged.txt && rm -r lists"
    return Job(text, files, {"merged.txt": "\n".join(every), **dict.fromkeys(names)}, solution)


KINDS: dict[str, Callable[[random.Random, int], Job]] = {
    "count": count_word,
    "find": find_file,
    "rename": rename,
    "sum": sum_column,
    "merge": merge_lists,
}


class BashTasksEnv(vf.SandboxEnv):
    """Fills the box before the model comes, and looks at it before it goes."""

    async def post_sandbox_setup(self, state: vf.State) -> None:
        for path, content in state["info"]["files"]:
            await self.box(state).write(path, content)

    async def post_rollout(self, state: vf.State) -> None:
        if "sandbox_id" in state:
            checks = [await self._holds(state, path, content) for path, content in state["info"]["wanted"]]
            state["checks"] = checks

    async def _holds(self, state: vf.State, path: str, content: str | None) -> bool:
        try:
            found = await self.box(state).read(path, max_bytes=MAX_BYTES)
        except FileNotFoundError:
            return content is None
        except (OSError, SandboxPolicyError, SandboxLimitError):  # a folder, a FIFO, too much; or the box is used up
            return False
        return content is not None and found.decode("utf-8", "replace").rstrip() == content.rstrip()


def all_done(state: vf.State) -> float:
    """1 if the state asked for was reached."""
    return float(all(state["checks"]))


def share_done(state: vf.State) -> float:
    """The share of files that are as asked for."""
    return sum(state["checks"]) / len(state["checks"])


def load_environment(
    kinds: list[str] | None = None,
    size: int = 12,
    max_turns: int = 12,
    num_train_examples: int = 1000,
    num_eval_examples: int = 100,
    seed: int = 0,
    backend: str | Backend | None = None,
) -> vf.Environment:
    """Tasks of `kinds` (all of them by default) over about `size` files each.

    Args:
        backend: of the boxes; None: the run's.
    """
    unknown = set(kinds or ()) - set(KINDS)
    if unknown or size < 2:
        raise ConfigError(
            f"bash-tasks: kinds {sorted(unknown)} or size {size}; kinds are {', '.join(KINDS)}, size >= 2"
        )

    def make(rng: random.Random) -> tuple[str, Row]:
        kind = rng.choice(kinds or list(KINDS))
        job = KINDS[kind](rng, size)
        info = {"kind": kind, "files": sorted(job.files.items()), "wanted": sorted(job.wanted.items())}
        row = {"question": job.text, "answer": "", "info": info, "solution": job.solution}
        return f"{job.text}\n{job.files}", row

    rows = split(make, num_train=num_train_examples, num_eval=num_eval_examples, seed=seed, hint="raise size")
    return BashTasksEnv(
        dataset=rows.train,
        eval_dataset=rows.eval,
        system_prompt=SYSTEM_PROMPT,
        max_turns=max_turns,
        rubric=vf.Rubric(funcs=[all_done, share_done], weights=[1.0, 0.0]),
        sandbox_name="bash-tasks",
        backend=backend,
        memory_gb=0.5,
        disk_size_gb=0.125,
        timeout_per_command_seconds=20,
    )
