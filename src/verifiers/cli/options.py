"""The options of `vf-eval`, as one list: the command line, the TOML file and shell completion are all made from it.

Nothing heavy is imported here: `vf-eval --help` and completion run on this module and argparse alone.
"""

from __future__ import annotations

import argparse
from typing import Any, NamedTuple

from verifiers.cli.parsing import OneLineParser, add_version


class Option(NamedTuple):
    """One option. Its key in a TOML file is `name`, its long flag the same with hyphens."""

    name: str
    short: str = ""
    type: Any = str
    """`bool` makes a switch."""
    metavar: str | None = None
    help: str = ""
    group: str = ""
    in_file: bool = True
    many: bool = False
    """Whether it may be given several times (in a file: as a list); each combination is measured."""
    complete: str = ""
    """What a shell offers as its value: `file`, `dir`, `env`, `sandbox`, or words."""

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")


_MODEL, _SIZE, _LIMIT, _OUT = "model", "tasks and rollouts", "limits of one rollout", "run and output"

OPTIONS = (
    Option("model", "-m", str, "NAME", "model to measure; 'local' is the embedded one, 'local:FILE.gguf' any other"
           " file, or a name of the endpoint file (default: local); several times: one run each", _MODEL, many=True,
           complete="local"),
    Option("api_base_url", "-b", str, "URL", "base address of an OpenAI-compatible server", _MODEL),
    Option("api_key_var", "-k", str, "VAR", "variable that holds the key (default: a well-known server's usual one)",
           _MODEL),
    Option("endpoints", "-e", str, "FILE", "TOML file of named endpoints (default: ./endpoints.toml if it is there)",
           _MODEL, complete="file"),
    Option("temperature", "-T", float, "X", "sampling temperature", _MODEL),
    Option("max_tokens", "-t", int, "N", "most tokens of one reply", _MODEL),
    Option("sampling_args", "-S", "json", "JSON", "further sampling arguments, sent as they are", _MODEL),
    Option("env_args", "-a", "json", "JSON", "arguments of the environment's load_environment", _SIZE),
    Option("num_examples", "-n", int, "N", "how many tasks; -1 is all (default: 20)", _SIZE),
    Option("rollouts_per_example", "-r", int, "N", "rollouts of each task (default: 3)", _SIZE),
    Option("harness", "", str, "NAME", "program the model runs in: chat, bash, oracle, noop, an agent program,"
           " module:NAME, file.py:NAME or 'command:LINE' (default: the environment's)", _MODEL, many=True,
           complete="chat bash oracle noop mini-swe-agent codex claude-code opencode pi"),
    Option("harness_args", "", "json", "JSON", "options of the harness", _MODEL),
    Option("sandbox", "", str, "NAME", "backend of boxes, for tasks or harnesses that need one (default: local)",
           _MODEL, complete="sandbox"),
    Option("split", "", str, "NAME", "tasks to take: eval or train (default: eval)", _SIZE, complete="eval train"),
    Option("seed", "", int, "N", "seed of sampling and shuffling", _SIZE),
    Option("shuffle", "", bool, None, "take tasks in random order", _SIZE),
    Option("max_turns", "", int, "N", "most turns", _LIMIT),
    Option("max_total_tokens", "", int, "N", "most sampled tokens", _LIMIT),
    Option("max_cost", "", float, "USD", "most money, where the endpoint tells the cost", _LIMIT),
    Option("max_run_cost", "", float, "USD", "most money of the whole run; it can be continued with more", _OUT),
    Option("timeout", "", float, "SECONDS", "most time for the model and its world together", _LIMIT),
    Option("max_concurrent", "-c", int, "N", "rollouts at one time (default: 32; local: 4)", _OUT),
    Option("max_unscored", "", float, "SHARE", "exit 3 if more rollouts than this share are unscored (default: 0.1)",
           _OUT),
    Option("output_dir", "-o", str, "DIR", "folder that run folders are put in (default: outputs/evals)", _OUT,
           complete="dir"),
    Option("keep_tokens", "", bool, None, "keep the token ids that the model gives, for vf-export --format rows",
           _OUT),
    Option("rescore", "", str, "RUN", "judge the rollouts of this run folder again, with no call of the model", _OUT,
           in_file=False, complete="dir"),
    Option("fresh", "", bool, None, "start anew instead of continuing an unfinished run", _OUT),
    Option("config", "", str, "FILE", "TOML file with these options as keys; the command line wins", _OUT,
           in_file=False, complete="file"),
    Option("dry_run", "", bool, None, "check everything, print the plan and one prompt, and stop", _OUT, in_file=False),
    Option("json", "", bool, None, "print the result as one JSON object on the last line", _OUT,
           in_file=False),
    Option("verbose", "-v", bool, None, "more output; whole tracebacks", _OUT, in_file=False),
    Option("completion", "", str, "SHELL", "print a completion script for bash, zsh or fish and stop", _OUT,
           in_file=False, complete="bash zsh fish"),
)  # fmt: skip

EPILOG = """\
examples:
  vf-eval arithmetic                          20 tasks, 3 rollouts of each
  vf-eval ./my_env.py -m NAME -b http://127.0.0.1:8000/v1 -n 100 -r 1
  vf-eval bash-tasks --harness oracle         no model: its own answers

exit status: 0 the run completed; 2 wrong input; 3 too many rollouts unscored;
  130 interrupted; 1 a bug of this program
repeating the command of an unfinished run continues it"""


def parser() -> OneLineParser:
    """The command line of `vf-eval`; options that are not given are absent from what it returns."""
    made = OneLineParser(
        prog="vf-eval",
        description="Measure a model in an environment.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        argument_default=argparse.SUPPRESS,
        allow_abbrev=False,
    )
    made.add_argument("env", nargs="?", help="environment: an id, a module path, a .py file or a folder")
    groups = {name: made.add_argument_group(name) for name in (_MODEL, _SIZE, _LIMIT, _OUT)}
    for option in OPTIONS:
        flags = [option.short, option.flag] if option.short else [option.flag]
        if option.type is bool:
            groups[option.group].add_argument(*flags, dest=option.name, action="store_true", help=option.help)
        else:
            kind = str if option.type == "json" else option.type
            action = "append" if option.many else "store"
            groups[option.group].add_argument(
                *flags, dest=option.name, type=kind, metavar=option.metavar, help=option.help, action=action
            )
    add_version(groups[_OUT])
    made.add_argument("-s", "--save-results", action="store_true", help=argparse.SUPPRESS)  # everything is saved
    return made


def given(arguments: argparse.Namespace) -> dict[str, Any]:
    """The options that the command line names, by their keys."""
    values = dict(vars(arguments))
    values.pop("save_results", None)
    for option in OPTIONS:
        if option.many and len(values.get(option.name) or ()) == 1:
            values[option.name] = values[option.name][0]
    return values
