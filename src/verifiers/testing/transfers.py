"""The part of the conformance suite that is about files and trees, in and out of boxes."""

from __future__ import annotations

import asyncio
import os
import stat
from pathlib import Path

import pytest

from verifiers.errors import ConfigError, SandboxPolicyError
from verifiers.sandboxes import Sandbox

PATIENCE_S = 60.0
"""How long a test waits for what must come: on a slow machine a right backend takes long, a wrong one for ever."""


class TransferConformance:
    """What `read`, `write`, `upload` and `download` promise; part of `SandboxConformance`, which gives `box`."""

    async def test_files_keep_bytes_and_modes(self, box: Sandbox) -> None:
        data = bytes(range(256)) * 8000
        await box.write("deep/er/data.bin", data)
        await box.write("run.sh", "#!/bin/sh\necho ran\n", mode=0o755)

        assert await box.read("deep/er/data.bin") == data
        assert await box.read(f"{box.spec.workdir}/run.sh") == b"#!/bin/sh\necho ran\n"
        assert (await box.exec(["./run.sh"])).stdout == "ran\n"
        await box.write("run.sh", "#!/bin/sh\necho again\n")
        assert (await box.exec(["./run.sh"])).stdout == "again\n"
        await box.write("empty", "")
        assert await box.read("empty") == b""

    async def test_file_errors_are_the_usual_ones(self, box: Sandbox) -> None:
        with pytest.raises(FileNotFoundError):
            await box.read("nothing/here")
        with pytest.raises(IsADirectoryError):
            await box.read(".")
        with pytest.raises(IsADirectoryError):
            await box.write(".", "x")
        with pytest.raises(FileNotFoundError):
            await box.download("nothing", Path("/tmp/never"))
        with pytest.raises(FileNotFoundError):
            await box.upload("/no/such/file", "x")
        await box.write("big", b"x" * 1000)
        with pytest.raises(SandboxPolicyError):
            await box.read("big", max_bytes=999)
        assert len(await box.read("big", max_bytes=1000)) == 1000

    async def test_what_is_no_file_is_refused_without_waiting(self, box: Sandbox) -> None:
        await box.exec("mkfifo pipe; ln -s /dev/zero zero")
        for path in ("pipe", "zero", "/dev/zero"):
            with pytest.raises(SandboxPolicyError):
                await asyncio.wait_for(box.read(path), PATIENCE_S)

    async def test_writing_replaces_and_never_writes_into(self, box: Sandbox) -> None:
        """Someone in the box who prepared the path keeps the old file, not the new one."""
        await box.exec("echo old >kept; ln -s kept link; ln kept hard; mkfifo pipe")
        for path in ("link", "hard", "pipe"):
            await asyncio.wait_for(box.write(path, "new"), PATIENCE_S)
            assert await box.read(path) == b"new"

        assert await box.read("kept") == b"old\n"

    async def test_trees_go_in_and_out_unchanged(self, box: Sandbox, tmp_path: Path) -> None:
        source = tmp_path / "source"
        (source / "a" / "b").mkdir(parents=True)
        (source / "a" / "b" / "file").write_bytes(os.urandom(300_000))
        (source / "a" / "tool").write_text("#!/bin/sh\n")
        (source / "a" / "tool").chmod(0o750)
        (source / "empty").mkdir(mode=0o700)
        (source / "a" / "link").symlink_to("b/file")
        (source / "name with space\nand line").write_text("odd")

        await box.upload(source, "copy")
        await box.download("copy", tmp_path / "back")

        assert _listing(tmp_path / "back") == _listing(source)
        await box.upload(source / "a" / "tool", "single")
        await box.download("single", tmp_path / "single")
        assert stat.S_IMODE((tmp_path / "single").stat().st_mode) == 0o750

    async def test_many_files_are_sent_without_keeping_others_waiting(self, box: Sandbox, tmp_path: Path) -> None:
        for number in range(2000):
            (tmp_path / str(number)).touch()
        uploading, turns = asyncio.ensure_future(box.upload(tmp_path, "many")), 0
        while not uploading.done():
            turns += 1
            await asyncio.sleep(0)
        await uploading

        assert turns > 30
        assert (await box.exec("ls many | wc -l")).stdout.strip() == "2000"

    async def test_what_is_too_deep_does_not_come_out(self, box: Sandbox, tmp_path: Path) -> None:
        line = "mkdir deep; cd deep; i=0; while [ $i -lt 300 ]; do mkdir d; cd d; i=$((i+1)); done"
        assert (await box.exec(line)).ok
        with pytest.raises(SandboxPolicyError, match="folders in each other"):
            await box.download("deep", tmp_path / "copy")

        assert os.listdir(tmp_path) == []

    async def test_a_download_takes_no_other_place_than_a_file_s_or_a_folder_s_own(
        self, box: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        await box.exec("echo new >file; mkdir folder; echo new >folder/inner")
        (tmp_path / "here" / "results").mkdir(parents=True)
        (tmp_path / "here" / "results" / "old").write_text("of weeks")
        monkeypatch.chdir(tmp_path / "here")

        for target in (".", "", "..", tmp_path):
            with pytest.raises(ConfigError):
                await box.download("folder", target)
        with pytest.raises(IsADirectoryError):
            await box.download("file", "results")
        assert (tmp_path / "here" / "results" / "old").read_text() == "of weeks"
        await box.download("folder", "results")

        assert (os.listdir(), os.listdir("results")) == (["results"], ["inner"])

    async def test_downloads_stay_in_their_target(self, box: Sandbox, tmp_path: Path) -> None:
        (tmp_path / "victim").write_text("untouched")
        hostile = {
            "absolute": "mkdir absolute; ln -s /etc absolute/x",
            "upward": "mkdir upward; ln -s ../../victim upward/x",
            "fifo": "mkdir fifo; mkfifo fifo/x",
        }
        for name, script in hostile.items():
            await box.exec(script)
            with pytest.raises(SandboxPolicyError):
                await asyncio.wait_for(box.download(name, tmp_path / "out"), PATIENCE_S)
            assert os.listdir(tmp_path) == ["victim"]
        await box.exec(
            "mkdir big; head -c 5000 /dev/zero >big/a; head -c 5000 /dev/zero >big/b; ln big/a big/c; chmod 6755 big/a"
        )
        with pytest.raises(SandboxPolicyError):
            await box.download("big", tmp_path / "out", max_bytes=14_000)
        await box.download("big", tmp_path / "out", max_bytes=15_000)

        assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["a", "b", "c"]
        assert stat.S_IMODE((tmp_path / "out" / "a").stat().st_mode) == 0o755
        assert (tmp_path / "out" / "a").stat().st_nlink == 1
        assert (tmp_path / "victim").read_text() == "untouched"

    # -- connections ------------------------------------------------------------------------------------------


def _listing(top: Path) -> dict[str, tuple[int, str | bytes]]:
    found = {}
    for path in sorted(top.rglob("*")):
        mode = path.lstat().st_mode
        content = os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else b""
        found[str(path.relative_to(top))] = (0 if path.is_symlink() else stat.S_IMODE(mode), content)
    return found
