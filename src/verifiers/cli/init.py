"""`vf-init NAME`: a new environment package that installs and evaluates at once."""

from __future__ import annotations

import argparse
import keyword
import re
import sys
from pathlib import Path

from verifiers.cli.options import OneLineParser
from verifiers.errors import ConfigError

_NAME, _MODULE = "my-env", "my_env"
"""What the template calls itself; it is a working package."""


def parser() -> OneLineParser:
    made = OneLineParser(prog="vf-init", description="Make a new environment package.", allow_abbrev=False)
    made.add_argument("name", help="its name, such as my-env")
    made.add_argument("-p", "--path", default="environments", metavar="DIR", help="where to (default: environments)")
    return made


def main(argv: list[str] | None = None) -> int:
    """The exit status: 0 it was made, 2 it could not be."""
    asked: argparse.Namespace = parser().parse_all(sys.argv[1:] if argv is None else argv)
    try:
        folder = create(asked.name, Path(asked.path))
    except (ConfigError, OSError) as error:
        print(f"vf-init: error: {error}", file=sys.stderr)
        return 2
    print(f"made {folder}; next:\n  python -m pip install -e {folder}\n  vf-eval {folder.name.replace('_', '-')}")
    return 0


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
    for source in sorted(path for path in template.rglob("*") if path.is_file() and path.suffix != ".pyc"):
        target = folder / str(source.relative_to(template)).replace(_MODULE, module)
        target.parent.mkdir(parents=True, exist_ok=True)
        text = source.read_text(encoding="utf-8")
        target.write_text(text.replace(_MODULE, module).replace(_NAME, name), encoding="utf-8")
    return folder


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
