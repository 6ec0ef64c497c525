"""`vf-init NAME`: a new environment package that installs and evaluates at once."""

from __future__ import annotations

import argparse
import keyword
import re
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from verifiers.cli.ending import ended
from verifiers.cli.parsing import OneLineParser, command_parser
from verifiers.errors import ConfigError

PROG = "vf-init"
EXAMPLES = """\
vf-init my-env                    makes environments/my_env
vf-init my-env -p .               makes ./my_env"""
_NAME, _MODULE = "my-env", "my_env"
"""What the template calls itself; it is a working package."""


def parser() -> OneLineParser:
    made = command_parser(PROG, "Make a new environment package that installs and evaluates at once.", EXAMPLES)
    made.add_argument("name", help="its name, such as my-env")
    made.add_argument("-p", "--path", default="environments", metavar="DIR", help="where to (default: environments)")
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """The exit status."""
    return ended(PROG, parser, _make, argv)


def _make(asked: argparse.Namespace) -> None:
    folder = create(asked.name, Path(asked.path))
    spelled = shlex.quote(str(folder))
    print(f"made {folder}; next:\n  python -m pip install -e {spelled}\n  vf-eval {folder.name.replace('_', '-')}")


def create(name: str, parent: Path) -> Path:
    """The folder of the new package, `parent/<module name>`.

    Raises:
        ConfigError: the name cannot be a package, or something is there already.
    """
    name = check_name(name)
    module = name.replace("-", "_")
    folder = parent / module
    if folder.exists():
        raise ConfigError(f"{str(folder)!r} is there already; nothing was written. Choose another name, or remove it")
    template = template_folder()
    try:
        _copy(template, folder, name, module)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return folder


def _copy(template: Path, folder: Path, name: str, module: str) -> None:
    for source in sorted(path for path in template.rglob("*") if path.is_file() and path.suffix != ".pyc"):
        target = folder / str(source.relative_to(template)).replace(_MODULE, module)
        target.parent.mkdir(parents=True, exist_ok=True)
        text = source.read_text(encoding="utf-8")
        target.write_text(text.replace(_MODULE, module).replace(_NAME, name), encoding="utf-8")


def check_name(name: str) -> str:
    """The package name in its one spelling: lower case with hyphens.

    Raises:
        ConfigError: it is not a package name, or hides a module of Python's or ours.
    """
    spelled = re.sub(r"[-_.]+", "-", name).lower()
    module = spelled.replace("-", "_")
    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", spelled) or keyword.iskeyword(module):
        raise ConfigError(f"{name!r} cannot name a package; use letters, digits and hyphens, such as 'my-env'")
    if module in sys.stdlib_module_names or module == "verifiers":
        raise ConfigError(f"a package {name!r} would hide the module {module!r}; choose another name")
    return spelled


def template_folder() -> Path:
    """The template: inside the installed package, or beside the sources of a checkout."""
    package = Path(__file__).resolve().parents[1]
    for folder in (package / "hub_template", package.parents[1] / "hub_template"):
        if (folder / "pyproject.toml").is_file():
            return folder
    raise ConfigError("the template of vf-init is missing; install verifiers again")


if __name__ == "__main__":
    sys.exit(main())
