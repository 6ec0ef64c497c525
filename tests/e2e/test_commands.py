"""What all commands have in common: how they end, what they print where, and what they do about what is missing."""

import json
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

import verifiers
from e2e.commands import command, environment, vf_eval
from e2e.loopback import serve

COMMANDS = ["eval", "export", "image", "init", "sandbox", "train"]
BROKEN = {
    "raises": "raise RuntimeError('no licence here')",
    "exits": "import sys; sys.exit(3)",
    "shapeless": "class Backend:\n    pass",
    "absent": "",
}


def run(name: str, *arguments: str, cwd: Path, paths: tuple[Path, ...] = (), **variables: str):
    env = environment(*paths, **variables)
    return subprocess.run(command(name, *arguments), cwd=cwd, env=env, capture_output=True, text=True, timeout=250)


def packages(folder: Path) -> Path:
    """Installed packages that each name a backend which cannot be had."""
    for name, code in BROKEN.items():
        (folder / f"{name}_boxes.py").write_text(code)
        info = folder / f"{name}_boxes-2.1.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}-boxes\nVersion: 2.1\n")
        (info / "entry_points.txt").write_text(f"[verifiers.sandboxes]\n{name} = {name}_boxes:Backend\n")
    return folder


@pytest.mark.parametrize("name", COMMANDS)
def test_help_is_short_and_ends_in_examples_and_exit_statuses(name: str, tmp_path: Path):
    done = run(name, "--help", cwd=tmp_path, COLUMNS="80")

    assert done.returncode == 0, done.stderr
    assert f"examples:\n  vf-{name} " in done.stdout
    assert "exit status: 0" in done.stdout
    assert max(map(len, done.stdout.splitlines())) < 80
    assert "\x1b" not in done.stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_a_wrong_flag_is_one_line_with_the_near_one(name: str, tmp_path: Path):
    done = run(name, *(["ls"] if name in ("image", "sandbox") else ["x"]), "--verbos", cwd=tmp_path)

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"vf-{name}: error: unknown argument '--verbos'; did you mean '--verbose'?\n"


@pytest.mark.parametrize("name", ["export", "image", "init", "sandbox", "train"])
def test_no_argument_at_all_says_where_help_is(name: str, tmp_path: Path):
    done = run(name, cwd=tmp_path)

    assert done.returncode == 2
    assert done.stderr.endswith(f"; see vf-{name} --help\n")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("asked", [["image", "ls"], ["init", "new"], ["eval", "--completion", "bash"]])
def test_a_full_disk_behind_stdout_is_one_line(asked: list[str], tmp_path: Path):
    with open("/dev/full", "w") as full:
        env = environment(XDG_CACHE_HOME=str(tmp_path), PYTHONUNBUFFERED="")
        done = subprocess.run(command(*asked), cwd=tmp_path, env=env, stdout=full, stderr=subprocess.PIPE, text=True)

    assert done.returncode == 2, done.stderr
    assert done.stderr == f"vf-{asked[0]}: error: No space left on device\n"


def test_a_name_that_the_terminal_cannot_show_stops_nothing(tmp_path: Path):
    (tmp_path / "root").mkdir()
    own = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "PYTHONIOENCODING": "ascii"}
    added = run("image", "add", "root", "--name", "übung", cwd=tmp_path, **own)
    listed = run("image", "ls", cwd=tmp_path, **own)

    assert (added.returncode, listed.returncode) == (0, 0), added.stderr + listed.stderr
    assert "\\xfcbung" in listed.stdout


def test_json_stands_alone_on_stdout_whatever_else_prints(tmp_path: Path):
    (tmp_path / "chatty.py").write_text(
        "import verifiers as vf\nprint('loading')\n"
        "def judge(completion):\n    print('judging')\n    return 1.0\n"
        "def load_environment():\n    print('making')\n"
        "    return vf.SingleTurnEnv(dataset=[{'question': 'q'}], rubric=vf.Rubric(funcs=[judge]))\n"
    )
    with serve("x") as server:
        done = vf_eval("./chatty.py", "-m", "m", "-b", server.url, "--json", cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["reward"] == 1.0
    assert {"loading", "making", "judging"} <= {*done.stderr.splitlines()}


def test_a_broken_backend_package_is_one_line_and_the_others_work(tmp_path: Path):
    paths = (packages(tmp_path),)
    for asked in (["ls"], ["prune"]):
        done = run("sandbox", *asked, cwd=tmp_path, paths=paths)

        assert done.returncode == 0, done.stderr
        lines = [line for line in done.stderr.splitlines() if "boxes 2.1" in line]
        assert len(lines) == len(BROKEN), done.stderr
        for name, line in zip(sorted(BROKEN), lines, strict=True):
            at = f"sandbox backend '{name}' of {name}-boxes 2.1 (entry point {name}_boxes:Backend)"
            assert line.startswith(f"vf-sandbox: {name} is passed over: {at} ")
        assert "no licence here" in done.stderr
        assert "is no backend: it has no probe, no start, no ls, no prune, no close" in done.stderr
        assert "Traceback" not in done.stderr
    named = run("sandbox", "ls", "--backend", "raises", "--backend", "unsafe-local", cwd=tmp_path, paths=paths)
    assert named.returncode == 2
    assert named.stderr.count("\n") == 1
    told = run("sandbox", "ls", "--backend", "raises", "-v", cwd=tmp_path, paths=paths)
    assert "raise RuntimeError('no licence here')" in told.stderr


def test_an_evaluation_refuses_a_broken_backend_before_it_begins(tmp_path: Path):
    paths = (packages(tmp_path),)
    done = vf_eval("bash-tasks", "--harness", "oracle", "--sandbox", "raises", cwd=tmp_path, paths=paths)

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert "of raises-boxes 2.1 (entry point raises_boxes:Backend) cannot be loaded: RuntimeError" in done.stderr
    assert not (tmp_path / "outputs").exists()


def test_no_engine_is_nothing_to_speak_of_until_it_is_asked_for(tmp_path: Path):
    code = (
        "import sys\nfrom verifiers.sandboxes.docker import engine\n"
        f"engine.SOCKETS = ('{tmp_path}/none',)\n"
        "from verifiers.cli.sandbox import main\nsys.exit(main())"
    )
    env = environment(XDG_RUNTIME_DIR=str(tmp_path), XDG_CACHE_HOME=str(tmp_path))
    env.pop("DOCKER_HOST", None)

    def ls(*arguments: str) -> subprocess.CompletedProcess[str]:
        asked = [sys.executable, "-c", code, *arguments]
        return subprocess.run(asked, env=env, capture_output=True, text=True, timeout=250)

    quiet, told, named, pruned = ls("ls"), ls("ls", "-v"), ls("ls", "--backend", "docker"), ls("prune")

    assert (quiet.returncode, quiet.stderr) == (0, "")
    for done, status in ((told, 0), (named, 2), (pruned, 0)):
        assert done.returncode == status
        assert done.stderr.startswith("vf-sandbox: docker is passed over: the container engine at")
        assert done.stderr.count("\n") == 1


def test_boxes_that_cannot_be_had_are_refused_before_the_run(tmp_path: Path):
    env = {"DOCKER_HOST": f"unix://{tmp_path}/none"}
    done = vf_eval("bash-tasks", "--harness", "oracle", "--sandbox", "docker", cwd=tmp_path, **env)

    assert done.returncode == 2
    assert "'docker' does not work here" in done.stderr
    assert "DOCKER_HOST" in done.stderr
    assert not (tmp_path / "outputs").exists()


def test_what_no_repetition_cures_is_not_said_to_be_cured_by_it(tmp_path: Path):
    (tmp_path / "absent.py").write_text(
        "import verifiers as vf\ndef load_environment():\n"
        "    return vf.SandboxEnv(dataset=[{'question': 'q'}] * 3, docker_image='no:such',"
        " rubric=vf.Rubric(funcs=[lambda: 1.0]))\n"
    )
    env = {"DOCKER_HOST": f"unix://{tmp_path}/none", "XDG_CACHE_HOME": str(tmp_path / "cache")}
    done = vf_eval("./absent.py", "--harness", "noop", "-r", "1", cwd=tmp_path, **env)

    assert done.returncode == 3, done.stderr
    last = done.stderr.splitlines()[-1]
    assert (
        "repeating the command helps only once this is put right: SandboxImageError: no local image 'no:such'" in last
    )
    assert "vf-image add SOURCE --name no:such" in last


def test_what_may_pass_is_worth_a_repetition(tmp_path: Path):
    (tmp_path / "judged.py").write_text(
        "import verifiers as vf\nfrom verifiers.errors import JudgeError\n"
        "def judge(completion):\n    raise JudgeError('busy')\n"
        "def load_environment():\n"
        "    return vf.SingleTurnEnv(dataset=[{'question': 'q'}], rubric=vf.Rubric(funcs=[judge]))\n"
    )
    with serve("x") as server:
        done = vf_eval("./judged.py", "-m", "m", "-b", server.url, cwd=tmp_path)

    assert done.returncode == 3
    assert done.stderr.splitlines()[-1].endswith("repeating the command tries these again")


def unpacking(cache: Path) -> bool:
    """Whether a file of an image is there already, and the image is not."""
    with suppress(FileNotFoundError):  # it is whole now
        return bool([*cache.glob(".unpack-*/root/*")])
    return False


def test_an_interrupted_unpacking_leaves_nothing_half_made(tmp_path: Path):
    root = tmp_path / "root"
    for number in range(100):
        (root / str(number)).mkdir(parents=True)
        for each in range(100):
            (root / str(number) / str(each)).write_text("x")
    cache = tmp_path / "cache" / "verifiers" / "images"
    env = environment(XDG_CACHE_HOME=str(tmp_path / "cache"))
    for attempt in range(20):  # until it is interrupted in the middle: it may be quicker than whoever looks
        asked = command("image", "add", str(root), "--name", f"big-{attempt}")
        running = subprocess.Popen(asked, env=env, stderr=subprocess.PIPE, text=True)
        while not unpacking(cache) and running.poll() is None:
            time.sleep(0.005)
        running.send_signal(signal.SIGINT)
        said = running.communicate(timeout=250)[1]
        if running.returncode != 0:
            break
        shutil.rmtree(cache)

    assert (running.returncode, said) == (130, "vf-image: interrupted\n")
    assert not [path for path in cache.iterdir() if not path.name.startswith(".lock-")]


def test_a_full_cache_is_named(tmp_path: Path):
    """What `shutil.copyfile` raises on a full disk, which no test can have without being root."""
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "file").write_bytes(b"x" * 4096)
    code = (
        "import errno, os, sys\n"
        "from verifiers.sandboxes.local import unpack\n"
        "def full(source, target, **_):\n"
        "    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), source, None, target)\n"
        "unpack.shutil.copyfile = full\n"
        "from verifiers.cli.image import main\nsys.exit(main())"
    )
    env = environment(XDG_CACHE_HOME=str(tmp_path / "cache"))
    asked = [sys.executable, "-c", code, "add", "root"]
    done = subprocess.run(asked, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=250)

    images = tmp_path / "cache" / "verifiers" / "images"
    assert (done.returncode, done.stderr) == (2, f"vf-image: error: cannot use '{images}': No space left on device\n")
    assert not [*images.glob(".unpack-*")]


@pytest.mark.parametrize("asked", [["image", "ls"], ["image", "add", "."]])
def test_no_home_folder_is_one_line_that_says_what_to_set(asked: list[str], tmp_path: Path):
    code = (
        "import pathlib, sys\n"
        "def home():\n    raise RuntimeError('Could not determine home directory.')\n"
        "pathlib.Path.home = home\n"
        f"from verifiers.cli.{asked[0]} import main\nsys.exit(main())"
    )
    env = environment()
    env.pop("XDG_CACHE_HOME", None)
    done = subprocess.run(
        [sys.executable, "-c", code, *asked[1:]], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=250
    )

    assert done.returncode == 2, done.stderr
    assert "no home folder: set HOME, or XDG_CACHE_HOME" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_first_run_without_room_for_boxes_is_refused(tmp_path: Path):
    """The cache cannot be made where a file is."""
    (tmp_path / "cache").touch()
    env = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "DOCKER_HOST": f"unix://{tmp_path}/none"}
    done = vf_eval("bash-tasks", "--harness", "oracle", cwd=tmp_path, **env)

    assert done.returncode == 2, done.stderr
    assert "local boxes need room in this user's cache folder" in done.stderr
    assert not (tmp_path / "outputs").exists()


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_says_its_version(name: str, tmp_path: Path):
    done = run(name, "--version", cwd=tmp_path)

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{verifiers.__version__}\n"
