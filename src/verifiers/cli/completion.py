"""Completion scripts of all commands, made from their parsers: `vf-eval --completion bash`."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, cast

from verifiers.cli import export, image, init, options, sandbox, train
from verifiers.envs.loading import stock_names
from verifiers.sandboxes.registry import backend_names

SHELLS = ("bash", "zsh", "fish")
PARSERS = {
    "vf-eval": options.parser,
    "vf-export": export.parser,
    "vf-image": image.parser,
    "vf-init": init.parser,
    "vf-sandbox": sandbox.parser,
    "vf-train": train.parser,
}
FILES, FOLDERS, IMAGES = "<files>", "<folders>", "<images>"
PLACES = {
    ("vf-eval", "env"): FILES,
    ("vf-export", "run"): FILES,
    ("vf-image", "source"): FILES,
    ("vf-image", "name"): IMAGES,
}
"""What a plain word of a command is, where its parser does not tell."""
NAMES = "vf-image ls --names 2>/dev/null"
"""Of images: read when they are asked for, from this machine's folder of them, without any engine."""

# The line is taken apart here because bash splits words at : and = too, and completes only what follows.
_COMMON = """\
_vf_offer() {
  local one head=${word%"${word##*:}"}
  [[ ${COMP_WORDBREAKS-} == *:* ]] || head=""
  [[ ${COMP_WORDBREAKS-} == *=* ]] && flag=""
  while IFS= read -r one; do
    [[ $one == "$word"* ]] || continue
    one=$(printf %q "$one")
    COMPREPLY+=("$flag${one#"$head"}")
  done
}
_vf_files() {
  local IFS=$'\\n'
  compopt -o "$1" 2>/dev/null || COMPREPLY+=($(compgen "$2" -- "$word"))
}
"""
_BASH = """\
{function}() {{
  local line=${{COMP_LINE:0:$COMP_POINT}} word before="" part="" flag="" one
  word=${{line##*[[:space:]]}}
  for one in ${{line%"$word"}}; do
    before=$one
    case "$part $one" in {parts}) part=$one ;; esac
  done
  case "$word" in --*=*) before=${{word%%=*}} flag=${{word%%=*}}= word=${{word#*=}} ;; esac
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
complete -F {function} {program}
"""


class Flag(NamedTuple):
    names: list[str]
    offer: str | None
    """Words its value may be, `FILES`, `FOLDERS`, `IMAGES`, '' for any text; None: it takes no value."""
    help: str


class Command(NamedTuple):
    """A program, or one of its subcommands."""

    name: str
    """'' for the program itself."""
    flags: list[Flag]
    words: str
    """What a plain word may be, beside `places`."""
    places: str
    """`FILES`, `FOLDERS` or `IMAGES`, if a plain word is one of them; else ''."""


def script(shell: str) -> str:
    """The script for one of `SHELLS`, to be sourced."""
    programs = {program: list(_commands(program, parser())) for program, parser in PARSERS.items()}
    if shell == "fish":
        return "".join(_fish(program, commands) for program, commands in programs.items())
    head = ""
    if shell == "zsh":  # its own bridge to bash's completion
        head = (
            "(( $+functions[compdef] )) || { autoload -Uz compinit && compinit -i }\n"
            "autoload -Uz bashcompinit && bashcompinit\n"
        )
    return head + _COMMON + "".join(_bash(program, commands) for program, commands in programs.items())


def _commands(program: str, parser: argparse.ArgumentParser, name: str = "") -> Iterator[Command]:
    flags: list[Flag] = []
    words: list[str] = []
    places = ""
    for action in parser._actions:  # the only place where argparse tells what it was given
        choices = cast(object, action.choices)
        if isinstance(choices, dict):  # of subcommands
            subparsers = cast(dict[str, argparse.ArgumentParser], choices)
            words += subparsers
            for inner, subparser in subparsers.items():
                yield from _commands(program, subparser, inner)
        elif action.help == argparse.SUPPRESS:
            continue
        elif action.option_strings:
            offer = None if action.nargs == 0 else _offer(program, action)
            flags.append(Flag(list(action.option_strings), offer, action.help or ""))
        elif action.choices:
            words += action.choices
        else:
            words += stock_names() if action.dest == "env" else []
            places = PLACES.get((program, action.dest)) or _offer(program, action)
    yield Command(name, flags, " ".join(words), places)


def _offer(program: str, action: argparse.Action) -> str:
    if program == "vf-eval":
        known = {option.name: option.complete for option in options.OPTIONS}
        offer = known.get(action.dest, "")
        words = {"env": stock_names(), "sandbox": backend_names()}
        return {"file": FILES, "dir": FOLDERS}.get(offer) or " ".join(words.get(offer, [offer]))
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
                values.append(f"    {patterns}) {_reply(flag.offer)}; return ;;")
        names = " ".join(name for flag in command.flags for name in flag.names)
        flags.append(f'    "{command.name} -"*) {_reply(names)}; return ;;')
        offered = _reply(command.words or command.places)
        if command.words and command.places:
            offered += f"; ((${{#COMPREPLY[@]}})) || {_reply(command.places)}"
        words.append(f'    "{command.name}") {offered} ;;')
    return _BASH.format(
        function="_" + program.replace("-", "_"),
        program=program,
        parts="|".join(f'" {name}"' for name in inner) or "''",
        values="\n".join(values),
        flags="\n".join(flags),
        words="\n".join(words),
    )


def _reply(offer: str) -> str:
    places = {
        FILES: "_vf_files default -f",
        FOLDERS: "_vf_files dirnames -d",
        IMAGES: f"_vf_offer < <({NAMES})",
        "": ":",
    }
    return places.get(offer) or f"_vf_offer < <(printf '%s\\n' {offer})"


def _fish(program: str, commands: list[Command]) -> str:
    inner = " ".join(command.name for command in commands if command.name)
    lines: list[str] = []
    for command in commands:
        at = f"__fish_seen_subcommand_from {command.name}" if command.name else ""
        if not command.name:
            at = f"not __fish_seen_subcommand_from {inner}" if inner else ""
        where = f"complete -c {program}" + (f" -n '{at}'" if at else "")
        lines.append(f"{where}{'' if command.places == FILES else ' -f'}{_fish_words(command.words)}")
        if command.places not in ("", FILES):
            lines.append(f"{where} -f{_fish_words(command.places)}")
        for flag in command.flags:
            spelled = "".join(f" -{'l' if name.startswith('--') else 's'} {name.lstrip('-')}" for name in flag.names)
            value = "" if flag.offer is None else " -r -F" if flag.offer == FILES else f" -x{_fish_words(flag.offer)}"
            text = flag.help.replace("\\", "\\\\").replace("'", "\\'").replace("%%", "%")
            lines.append(f"{where}{spelled}{value} -d '{text}'")
    return "\n".join(lines) + "\n"


def _fish_words(offer: str) -> str:
    words = {FOLDERS: "(__fish_complete_directories)", IMAGES: f"({NAMES})"}.get(offer, offer)
    return f" -a '{words}'" if words else ""
