"""Completion scripts of all commands, made from their parsers: `vf-eval --completion bash`."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, cast

from verifiers.cli import export, image, init, options, sandbox, train
from verifiers.envs.loading import stock_names

SHELLS = ("bash", "zsh", "fish")
PARSERS = {
    "vf-eval": options.parser,
    "vf-export": export.parser,
    "vf-image": image.parser,
    "vf-init": init.parser,
    "vf-sandbox": sandbox.parser,
    "vf-train": train.parser,
}
FILES, FOLDERS = "<files>", "<folders>"

_BASH = """\
{function}() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} part="" one
  for one in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    case "$one" in {parts}) part=$one; break ;; esac
  done
  COMPREPLY=()
  case "$part $before" in
{values}
  esac
  case "$part $word" in
{flags}
  esac
  case "$part" in
{words}
  esac
}}
complete -o filenames -F {function} {program}
"""


class Flag(NamedTuple):
    names: list[str]
    offer: str | None
    """Words its value may be, `FILES`, `FOLDERS`, '' for any text; None: it takes no value."""
    help: str


class Command(NamedTuple):
    """A program, or one of its subcommands."""

    name: str
    """'' for the program itself."""
    flags: list[Flag]
    words: str
    """What a plain word may be, beside files."""
    files: bool


def script(shell: str) -> str:
    """The script for one of `SHELLS`, to be sourced."""
    programs = {program: list(_commands(parser())) for program, parser in PARSERS.items()}
    if shell == "fish":
        return "".join(_fish(program, commands) for program, commands in programs.items())
    head = "autoload -Uz bashcompinit && bashcompinit\n" if shell == "zsh" else ""  # zsh's own bridge
    return head + "".join(_bash(program, commands) for program, commands in programs.items())


def _commands(parser: argparse.ArgumentParser, name: str = "") -> Iterator[Command]:
    flags: list[Flag] = []
    words: list[str] = []
    files = False
    for action in parser._actions:  # the only place where argparse tells what it was given
        choices = cast(object, action.choices)
        if isinstance(choices, dict):  # of subcommands
            subparsers = cast(dict[str, argparse.ArgumentParser], choices)
            words += subparsers
            for inner, subparser in subparsers.items():
                yield from _commands(subparser, inner)
        elif action.help == argparse.SUPPRESS:
            continue
        elif action.option_strings:
            offer = None if action.nargs == 0 else _offer(parser.prog.split()[0], action)
            flags.append(Flag(list(action.option_strings), offer, action.help or ""))
        elif action.choices:
            words += action.choices
        else:
            words += stock_names() if action.dest == "env" else []
            files = True
    yield Command(name, flags, " ".join(words), files)


def _offer(program: str, action: argparse.Action) -> str:
    if program == "vf-eval":
        known = {option.name: option.complete for option in options.OPTIONS}
        offer = known.get(action.dest, "")
        return {"env": " ".join(stock_names()), "file": FILES, "dir": FOLDERS}.get(offer, offer)
    if action.choices:
        return " ".join(action.choices)
    if action.metavar == "DIR":
        return FOLDERS
    return FILES if action.type is Path else ""


def _bash(program: str, commands: list[Command]) -> str:
    inner = [command.name for command in commands if command.name]
    values: list[str] = []
    flags: list[str] = []
    words: list[str] = []
    for command in commands:
        for flag in command.flags:
            if flag.offer is not None:
                patterns = "|".join(f'"{command.name} {name}"' for name in flag.names)
                values.append(f'    {patterns}) COMPREPLY=($({_compgen(flag.offer)} -- "$word")); return ;;')
        names = " ".join(name for flag in command.flags for name in flag.names)
        flags.append(f'    "{command.name} -"*) COMPREPLY=($({_compgen(names)} -- "$word")); return ;;')
        more = ' $(compgen -f -- "$word")' if command.files else ""
        words.append(f'    "{command.name}") COMPREPLY=($({_compgen(command.words)} -- "$word"){more}) ;;')
    return _BASH.format(
        function="_" + program.replace("-", "_"),
        program=program,
        parts="|".join(inner) or "''",
        values="\n".join(values),
        flags="\n".join(flags),
        words="\n".join(words),
    )


def _compgen(offer: str) -> str:
    return {FILES: "compgen -f", FOLDERS: "compgen -d"}.get(offer, f'compgen -W "{offer}"')


def _fish(program: str, commands: list[Command]) -> str:
    inner = " ".join(command.name for command in commands if command.name)
    lines: list[str] = []
    for command in commands:
        at = f"__fish_seen_subcommand_from {command.name}" if command.name else ""
        if not command.name:
            at = f"not __fish_seen_subcommand_from {inner}" if inner else ""
        where = f"complete -c {program}" + (f" -n '{at}'" if at else "")
        if command.words:
            lines.append(f"{where}{'' if command.files else ' -f'} -a '{command.words}'")
        for flag in command.flags:
            spelled = "".join(f" -{'l' if name.startswith('--') else 's'} {name.lstrip('-')}" for name in flag.names)
            value = "" if flag.offer is None else " -r" if flag.offer in (FILES, FOLDERS) else f" -x -a '{flag.offer}'"
            text = flag.help.replace("\\", "\\\\").replace("'", "\\'").replace("%%", "%")
            lines.append(f"{where}{spelled}{value} -d '{text}'")
    return "\n".join(lines) + "\n"
