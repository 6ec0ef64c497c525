"""Completion as a user's shell does it: the script is sourced, and asked what a line may go on with."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from e2e.commands import command, environment, vf_eval
from verifiers.sandboxes.local.images import ImageStore

ODD = "odd $(touch pwned) ü"
OTHERS = [shell for shell in ("zsh", "fish") if shutil.which(shell)]
"""Beside bash, which is everywhere. Where one is missing, installing it makes these tests cover it."""
CALL = {
    "bash": "source ../script.$0; COMP_LINE=$1 COMP_POINT=${#1}; _$2; printf '%s\\n' \"${COMPREPLY[@]}\"",
    "zsh": "source ../script.$0; COMP_LINE=$1 COMP_POINT=${#1}; emulate sh -c '_'$2; print -rl -- $COMPREPLY",
    "fish": "source ../script.fish; complete -C $argv[1]",
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a file, a folder, images in a cache, and `vf-image` on the search path."""
    place = tmp_path_factory.mktemp("completion")
    (place / "bin").mkdir()
    (place / "files" / "folder").mkdir(parents=True)
    (place / "files" / "file.tar").touch()
    program = place / "bin" / "vf-image"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m verifiers.cli.image "$@"\n')
    program.chmod(0o755)
    store = ImageStore(place / "cache" / "verifiers" / "images")
    for shell in ("bash", *OTHERS):
        (place / f"script.{shell}").write_text(vf_eval("--completion", shell, cwd=place).stdout)
    for name in ("tiny:1", "other", ODD):
        root = place / "roots" / str(len(name))
        root.mkdir(parents=True)
        store.add(root, name=name)
    return place


def completed(shell: str, line: str, place: Path) -> list[str]:
    """What the shell offers, without what it says of each."""
    path = f"{place / 'bin'}{os.pathsep}{os.environ['PATH']}"
    env = environment(PATH=path, XDG_CACHE_HOME=str(place / "cache"), HOME=str(place), LC_ALL="C.UTF-8")
    before = ["fish", "-N", "-c"] if shell == "fish" else [shell, *(["-f"] if shell == "zsh" else []), "-c"]
    program = line.split()[0].replace("-", "_")
    arguments = [line] if shell == "fish" else [shell, line, program]
    done = subprocess.run(
        [*before, CALL[shell], *arguments], cwd=place / "files", env=env, capture_output=True, text=True, timeout=250
    )
    assert not done.stderr, done.stderr
    return [offer.split("\t")[0] for offer in done.stdout.splitlines() if offer]


@pytest.mark.parametrize("shell", ["bash", *OTHERS])
@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("vf-eval arith", ["arithmetic"]),
        ("vf-eval arithmetic --harness co", ["codex"]),
        ("vf-eval arithmetic --sandbox unsafe", ["unsafe-local"]),
        ("vf-image pru", ["prune"]),
        ("vf-image ls --j", ["--json"]),
        ("vf-image rm ti", ["tiny:1"]),
        ("vf-image rm tiny:1 oth", ["other"]),
        ("vf-image rm f", []),
        ("vf-image add f", ["file.tar", "folder"]),
        ("vf-image build f", ["folder"]),
        ("vf-init f", []),
        ("vf-sandbox ls --backend mo", ["modal"]),
        ("vf-sandbox p", ["prune"]),
        ("vf-export run --to p", ["parquet"]),
        ("vf-train --res", ["--resume"]),
    ],
)
def test_each_shell_completes_every_command(shell: str, line: str, offered: list[str], place: Path):
    assert sorted(each.rstrip("/") for each in completed(shell, line, place)) == offered


def test_bash_completes_after_what_it_takes_for_the_end_of_a_word(place: Path):
    """It splits words at = and :, and puts only what follows in their place."""
    assert completed("bash", "vf-image rm tiny:", place) == ["1"]
    assert completed("bash", "vf-sandbox ls --backend=mo", place) == ["modal"]


@pytest.mark.parametrize("shell", ["bash", *OTHERS])
def test_names_of_images_are_never_run(shell: str, place: Path):
    (offer,) = completed(shell, "vf-image rm od", place)
    if shell != "fish":  # which quotes what it puts into the line itself
        typed = subprocess.run(["bash", "-c", f"printf %s {offer}"], cwd=place, capture_output=True, text=True)
        offer = typed.stdout

    assert offer == ODD
    assert not [*place.rglob("pwned")]


def test_names_of_images_need_no_engine(tmp_path: Path):
    """An engine that takes calls and never answers would be waited for."""
    asked = [*command("image", "ls", "--names")]
    env = environment(DOCKER_HOST="tcp://192.0.2.1:9", XDG_CACHE_HOME=str(tmp_path))
    done = subprocess.run(asked, env=env, capture_output=True, text=True, timeout=120)

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
