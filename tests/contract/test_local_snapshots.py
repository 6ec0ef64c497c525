"""Snapshots of local boxes beyond the contract: what they hold, who may remove them, and boxes that fight back."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from verifiers.cli import image as command
from verifiers.errors import ConfigError, SandboxLimitError, SandboxPolicyError, SandboxStartError
from verifiers.sandboxes import SandboxSpec, fork_sandbox, start_sandbox
from verifiers.sandboxes.local import LocalBackend, layers
from verifiers.sandboxes.local.images import ImageStore
from verifiers.sandboxes.local.keeper.unified import UnifiedCgroups
from waiting import blocked_until

SMALL = SandboxSpec(memory_mb=128, disk_mb=16, pids=32)


@pytest.fixture
async def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A backend with a cache of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    engine = LocalBackend()
    yield engine
    await engine.close()


async def test_a_box_without_an_image_is_itself_again(engine: LocalBackend):
    """This machine's /usr and the box's own /etc are shown in copies too, and nothing of them is in the snapshot."""
    look = (
        "id -un; ls /etc | md5sum; ls /usr; ls -ld /usr /etc /home/user /tmp | cut -d' ' -f1; touch /usr/x /etc/x; pwd"
    )
    async with start_sandbox(engine, SMALL) as box:
        await box.exec("echo mine >/home/user/f; echo shared >/dev/shm/f")
        wanted = await box.exec(look)
        name = await box.snapshot()
        async with start_sandbox(engine, replace(SMALL, image=name)) as copy:
            got = await copy.exec(look)
            assert (got.stdout, got.stderr) == (wanted.stdout, wanted.stderr)
            assert (await copy.exec("cat /home/user/f; ls /dev/shm")).stdout == "mine\n"
    store = ImageStore()
    root = store.root(store.all()[0])
    assert os.listdir(root / "usr") == os.listdir(root / "etc") == []


async def test_a_first_command_can_be_followed_by_a_snapshot(engine: LocalBackend):
    """A box that is still a shell is copied as it is, and stays one."""
    async with start_sandbox(engine, SMALL) as box:
        async with fork_sandbox(box, backend=engine) as copy:
            assert (await copy.exec("echo begun")).stdout == "begun\n"
        assert (await box.exec("cat /proc/1/comm")).stdout == (".box-sh\n" if os.geteuid() == 0 else "python3\n")


async def test_what_is_in_use_stays(engine: LocalBackend, capsys: pytest.CaptureFixture[str]):
    other = LocalBackend()
    async with start_sandbox(engine, SMALL) as box:
        name = await box.snapshot()
        async with start_sandbox(other, replace(SMALL, image=name)):
            with pytest.raises(SandboxPolicyError, match="in use"):
                await engine.remove_snapshot(name)
            with pytest.raises(SandboxPolicyError, match="in use by"):
                await other.remove_snapshot(name)
            assert command.main(["rm", name]) == 2
            assert command.main(["prune", "--older-than-days", "0"]) == 0
            said = capsys.readouterr()
            assert "in use by a running process" in said.err
            assert said.out.endswith("1 older one in use\n")
        await other.close()
        await engine.remove_snapshot(name)
    assert ImageStore().all() == []


async def test_an_image_below_a_snapshot_stays(engine: LocalBackend, tmp_path: Path):
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "f").write_text("of the image")
    async with start_sandbox(engine, replace(SMALL, rootfs=tmp_path / "root")) as box:
        await box.write("/g", "of the box")
        name = await box.snapshot()
    await engine.close()
    store = ImageStore()
    below = next(image for image in store.all() if not image.snapshot_of)

    with pytest.raises(ConfigError, match="lies below"):
        store.remove(below)
    assert store.prune(keep=lambda image: bool(image.snapshot_of)) == []
    async with start_sandbox(engine, replace(SMALL, image=name)) as box:
        assert (await box.read("/f"), await box.read("/g")) == (b"of the image", b"of the box")
    await engine.close()
    assert {image.digest for image in store.prune(keep=lambda image: False)} == {below.digest, name.split(":")[1]}


RUNNER = """
import asyncio
from verifiers.sandboxes import SandboxSpec
from verifiers.sandboxes.local import LocalBackend

async def main():
    box = await LocalBackend().start(SandboxSpec(memory_mb=128, disk_mb=16))
    print(await box.snapshot(temporary=True), await box.snapshot(), flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


async def test_what_a_dead_process_meant_for_itself_is_pruned(engine: LocalBackend):
    environment = {**os.environ, "PYTHONPATH": "src"}
    runner = await asyncio.create_subprocess_exec(sys.executable, "-c", RUNNER, stdout=subprocess.PIPE, env=environment)
    assert runner.stdout is not None
    temporary, kept = (await asyncio.wait_for(runner.stdout.readline(), 200)).decode().split()
    await engine.prune()
    assert {image.name for image in ImageStore().all()} == {temporary, kept}
    runner.kill()
    await runner.wait()
    await engine.prune()
    assert {image.name for image in ImageStore().all()} == {kept}


async def test_a_snapshot_nobody_has_says_so(engine: LocalBackend):
    with pytest.raises(SandboxStartError, match="no snapshot 'verifiers-snapshot:0000"):
        await engine.start(replace(SMALL, image="verifiers-snapshot:0000000000000000"))


@pytest.mark.parametrize(
    "script",
    [
        "truncate -s 8000000000000000000 big",
        "i=0; while [ $i -lt 300 ]; do mkdir d && cd d; i=$((i+1)); done",
    ],
)
async def test_what_cannot_be_kept_is_the_boxs_fault(engine: LocalBackend, script: str):
    async with start_sandbox(engine, SMALL) as box:
        await box.exec(script)
        with pytest.raises(SandboxLimitError):
            await box.snapshot()
        assert (await box.exec("echo still")).stdout == "still\n"
    assert [path.name for path in ImageStore().folder.glob("*") if not path.name.startswith(".lock")] == []


async def test_a_copy_is_no_larger_than_its_box(engine: LocalBackend):
    """Holes stay holes, and what is on this machine's disk is what was on the box's."""
    async with start_sandbox(engine, SMALL) as box:
        await box.exec("truncate -s 4000000000 sparse; head -c 3000000 /dev/urandom >data; ln data again")
        name = await box.snapshot()
        wanted = (await box.exec("md5sum data again; stat -c %h data; stat -c %s sparse")).stdout
        image = ImageStore().find(name)
        assert image is not None
        assert 3_000_000 <= image.size < 8_000_000
        async with start_sandbox(engine, replace(SMALL, image=name)) as copy:
            assert (await copy.exec("md5sum data again; stat -c %h data; stat -c %s sparse")).stdout == wanted


async def test_links_out_of_a_box_are_only_links_in_its_copy(engine: LocalBackend, tmp_path: Path):
    """A box that keeps replacing folders by links, while it is copied, gets nothing of this machine."""
    (tmp_path / "victim").write_text("secret of this machine")
    churn = f"while :; do mkdir x 2>/dev/null && touch x/victim; rm -rf x; ln -s {tmp_path} x; rm x; done"
    async with start_sandbox(engine, SMALL) as box:
        running = await box.spawn(churn)
        for _ in range(20):
            name = await box.snapshot()
            store = ImageStore()
            image = store.find(name)
            assert image is not None
            place = store.root(image) / "workspace" / "x"
            assert place.is_symlink() or not (place / "victim").exists() or (place / "victim").read_text() == ""
            await engine.remove_snapshot(name)
        await running.kill()
    assert (tmp_path / "victim").read_text() == "secret of this machine"


def _all_of(pipe: int) -> bytes:
    with open(pipe, "rb") as stream:
        return stream.read()


async def test_other_boxes_do_not_wait_for_a_copy(engine: LocalBackend):
    """Here it cannot get on, because nobody reads it."""
    async with start_sandbox(engine, SMALL) as large:
        await large.exec("head -c 8000000 /dev/zero | tr '\\0' x >data")
        ours, theirs = os.pipe()
        await (await engine.keeper()).copy(large.id, "root", theirs)
        os.close(theirs)
        async with start_sandbox(engine, SMALL) as box:
            assert (await box.exec("echo here")).stdout == "here\n"
        sent = await asyncio.to_thread(_all_of, ours)
        assert (await large.exec("echo there")).stdout == "there\n"
    assert sent.count(b"x") >= 8_000_000
    assert sent.endswith(b'{"over": true}\n')


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a cgroup hierarchy; run the tests as root")
def test_a_box_with_a_cgroup_of_version_2_stands_still(tmp_path: Path):
    """What the keeper's child does before it copies; boxes of version 1 are stopped by signals."""
    subprocess.run(["mount", "-t", "cgroup2", "none", tmp_path], check=True)
    cgroups = UnifiedCgroups.__new__(UnifiedCgroups)  # its controllers may all be version 1's, and are not needed
    cgroups.name, cgroups.folders = f"vf-test-{os.getpid()}", {}
    (tmp_path / cgroups.name / "box").mkdir(parents=True)
    cgroups.parent = os.open(tmp_path, os.O_RDONLY)
    cgroups.folder = os.open(tmp_path / cgroups.name, os.O_RDONLY)
    sleeper = subprocess.Popen(["sleep", "600"])
    try:
        events = tmp_path / cgroups.name / "box" / "cgroup.events"
        (events.parent / "cgroup.procs").write_text(str(sleeper.pid))
        assert cgroups.freeze("box")
        assert blocked_until(lambda: "frozen 1" in events.read_text())
        cgroups.thaw("box")
        assert blocked_until(lambda: "frozen 0" in events.read_text())
        assert not cgroups.freeze("ended")
        cgroups.thaw("ended")
    finally:
        sleeper.kill()
        sleeper.wait()
        os.rmdir(events.parent)
        cgroups.remove_all()
        subprocess.run(["umount", tmp_path], check=True)


async def test_more_links_than_this_machines_file_system_takes_are_the_boxs_limit(engine: LocalBackend):
    code = "import os; open('o', 'w').close(); [os.link('o', f'{n}') for n in range(65_500)]"
    async with start_sandbox(engine, replace(SMALL, disk_mb=256)) as box:
        assert (await box.exec(["python3", "-c", code], timeout_s=200)).ok
        with suppress(SandboxLimitError):  # not every file system has such a bound
            await engine.remove_snapshot(await box.snapshot())


async def test_many_copies_at_once_lie_over_the_same_image(engine: LocalBackend, tmp_path: Path):
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "f").write_text("of the image")
    async with start_sandbox(engine, replace(SMALL, rootfs=tmp_path / "root")) as box:
        names = await asyncio.gather(*(box.snapshot() for _ in range(8)))
        async with start_sandbox(engine, replace(SMALL, image=names[0])) as child:
            names += await asyncio.gather(*(child.snapshot() for _ in range(8)))
    assert len({image.base for image in ImageStore().all() if image.snapshot_of}) == 1
    async with start_sandbox(engine, replace(SMALL, image=names[-1])) as box:
        assert await box.read("/f") == b"of the image"


@pytest.fixture
def overlay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The cache on an overlay, as a container's own file system is one."""
    for name in ("lower", "upper", "work", "overlaid"):
        (tmp_path / name).mkdir()
    options = ",".join(f"{name}={tmp_path / name.removesuffix('dir')}" for name in ("lowerdir", "upperdir", "workdir"))
    subprocess.run(["mount", "-t", "overlay", "-o", options, "overlay", tmp_path / "overlaid"], check=True)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "overlaid"))
    yield tmp_path / "overlaid"
    subprocess.run(["umount", "--lazy", tmp_path / "overlaid"], check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts an overlay; run the tests as root")
async def test_where_layers_cannot_be_kept_a_snapshot_is_a_whole_image(
    engine: LocalBackend, overlay: Path, tmp_path: Path
):
    assert not layers.can_hold_layers(overlay)
    (tmp_path / "root" / "old").mkdir(parents=True)
    (tmp_path / "root" / "old" / "f").write_text("old")
    (tmp_path / "root" / "kept").write_text("kept")

    async with start_sandbox(engine, replace(SMALL, rootfs=tmp_path / "root")) as box:
        await box.write("/new", "new")
        first = await box.snapshot()
        async with start_sandbox(engine, replace(SMALL, image=first)) as copy:
            assert [await copy.read(path) for path in ("/new", "/kept", "/old/f")] == [b"new", b"kept", b"old"]
            await copy.write("/kept", "changed")
            second = await copy.snapshot()
    async with start_sandbox(engine, replace(SMALL, image=second)) as copy:
        assert [await copy.read(path) for path in ("/new", "/kept", "/old/f")] == [b"new", b"changed", b"old"]
    store = ImageStore()
    assert [image.base for image in store.all()] == ["", "", ""]
    for name, wanted in ((first, "kept"), (second, "changed")):
        image = store.find(name)
        assert image is not None
        assert (store.root(image) / "kept").read_text() == wanted


async def test_a_backend_without_snapshots_cannot_fork():
    async with start_sandbox("unsafe-local", SandboxSpec()) as box:
        with pytest.raises(SandboxPolicyError, match="cannot be forked"):
            fork_sandbox(box)
        with pytest.raises(SandboxPolicyError, match="takes no snapshots"):
            await box.snapshot()
