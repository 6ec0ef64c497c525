"""What a harness has to know about an agent program: where it comes from, how it is told things, how it is started.

A description is data. In its texts `{name}` stands for a value of the rollout: see `VALUES`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

VALUES = {
    "prompt": "the task, as text; the system message before it where the program takes none",
    "system_prompt": "the task's system message",
    "model": "the name of the model, as the program is told",
    "url": "http://127.0.0.1:PORT of the model server inside the box, without /v1",
    "secret": "the key the model server takes",
    "home": "the home folder of the box's user",
    "workdir": "the folder of the task",
    "program": "the folder the program is installed in, read-only",
    "python": "what runs the next in the box, with -I -S: python3, or a path",
    "mcp_script": "path of the script that serves the environment's tools over MCP",
    "mcp_socket": "that script's first argument; the second is the secret",
}
"""What a description may name in braces, and what it stands for."""

_FIELD = re.compile(r"\{(" + "|".join(VALUES) + r")\}")


@dataclass(frozen=True, kw_only=True)
class Install:
    """How a program is installed, once, into a folder that boxes are shown."""

    kind: Literal["npm", "pip"]
    packages: Sequence[str]
    """With their versions: `name@1.2.3` for npm, `name==1.2.3` for pip."""


@dataclass(frozen=True, kw_only=True)
class Tools:
    """How a program is told where the environment's tools are, beyond what it is told anyway."""

    files: Mapping[str, str] = field(default_factory=dict[str, str])
    """Appended to the file of the same path where the program has one."""
    arguments: Sequence[str] = ()
    """Put before the last argument of the command line."""
    replace: Mapping[str, str] = field(default_factory=dict[str, str])
    """Text in the program's files -> what stands there instead."""


@dataclass(frozen=True, kw_only=True)
class Program:
    """One agent program."""

    name: str
    version: str = ""
    install: Install | None = None
    """None: the box has it."""
    command: Sequence[str]
    """Its command line; found by the box's PATH, to which the installed programs' folders are added."""
    stdin: str = ""
    system_prompt: Sequence[str] = ()
    """Arguments put before the last one if the task has a system message; (): that is put before the prompt."""
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    """Written before it starts."""
    tools: Tools | None = None
    """None: it cannot be given tools of an environment."""
    toolless_is_side: bool | None = None
    """Whether its calls without tools that continue no conversation are side calls; None: after one with tools."""
    faulty_exits: Mapping[int, str] = field(default_factory=lambda: {126: "cannot be run", 127: "is not there"})
    """Exit codes that say it did not run, whatever else happened -> in words."""


def filled(text: str, values: Mapping[str, str]) -> str:
    """`text` with what it names in braces; other braces stay."""
    return _FIELD.sub(lambda found: values[found.group(1)], text)
