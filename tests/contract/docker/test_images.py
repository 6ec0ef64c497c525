"""Images that are built and imported, and snapshots: each made once, named by what is in it, removed when due."""

import asyncio
import os
from dataclasses import replace
from pathlib import Path

import pytest

import needs
from verifiers.errors import (
    SandboxPolicyError,
    SandboxStartError,
)
from verifiers.sandboxes import SandboxSpec, start_sandbox
from verifiers.sandboxes.docker.images import tree_digest
from verifiers.sandboxes.docker.spec import LABEL, LABEL_OWNER, LABEL_SNAPSHOT
from verifiers.sandboxes.owner import RUN

pytestmark = needs.DOCKER
ENGINE = needs.docker_backend()
IMAGE = needs.DOCKER_IMAGE
SMALL = SandboxSpec(memory_mb=256, pids=64, disk_mb=64)


async def test_a_dockerfile_is_built_once(tmp_path: Path):
    marker = os.urandom(8).hex()
    (tmp_path / "Dockerfile").write_text(f"FROM {IMAGE}\nCOPY f /f\nRUN head -c 16 /dev/urandom | od -x >/{marker}\n")
    (tmp_path / "f").write_text("in the context")
    spec = replace(SMALL, image=f"build:{tmp_path}")

    async def look() -> str:
        async with start_sandbox(ENGINE, spec) as box:
            return (await box.exec(f"cat /f /{marker}")).stdout

    first, again = await asyncio.gather(look(), look())
    names = [f"verifiers-build:{tree_digest(tmp_path)}"]
    assert first.startswith("in the context")
    assert again == first
    (tmp_path / "f").write_text("changed")
    assert (await look()).startswith("changed")
    names.append(f"verifiers-build:{tree_digest(tmp_path)}")
    for name in names:
        await ENGINE.remove_snapshot(name)


async def test_what_does_not_build_says_why(tmp_path: Path):
    with pytest.raises(SandboxStartError, match="no file named Dockerfile"):
        await ENGINE.start(replace(SMALL, image=f"build:{tmp_path}"))
    (tmp_path / "Dockerfile").write_text(f"FROM {IMAGE}\nRUN echo the-reason; exit 9\n")
    with pytest.raises(SandboxStartError, match="the-reason"):
        await ENGINE.start(replace(SMALL, image=f"build:{tmp_path}"))
    with pytest.raises(SandboxStartError, match="no-such-image-here"):
        await ENGINE.start(replace(SMALL, image="no-such-image-here:v1"))


async def test_a_rootfs_and_a_snapshot_become_images(tmp_path: Path):
    root = tmp_path / "root"
    root.mkdir()
    (root / "f").write_text("from the folder")
    (root / "of-this-test").write_bytes(os.urandom(8))
    for _ in range(2):
        async with start_sandbox(ENGINE, replace(SMALL, rootfs=root)) as box:
            assert await box.read("/f") == b"from the folder"
    imported = f"verifiers-rootfs:{tree_digest(root)}"
    async with start_sandbox(ENGINE, SMALL) as box:
        await box.write("state", "kept")
        name = await box.snapshot()
    async with start_sandbox(ENGINE, replace(SMALL, image=name)) as box:
        assert await box.read("state") == b"kept"
    for tag in (name, imported):
        await ENGINE.remove_snapshot(tag)


async def snapshots() -> set[str]:
    """Those of this process."""
    query = {"filters": {"reference": ["verifiers-snapshot"], "label": [f"{LABEL}run={RUN}"]}}
    found = await ENGINE.engine.call("GET", "/images/json", query=query)
    return {tag for each in found for tag in each["RepoTags"] or []}


async def test_what_a_dead_process_meant_for_itself_is_removed():
    """Its temporary snapshot, but not the one it took to keep, nor a living process's."""
    body = {"Labels": {LABEL_OWNER: "1.1.another-boot", LABEL_SNAPSHOT: "temporary"}}
    tag = f"{os.getpid()}-left"
    async with start_sandbox(ENGINE, SMALL) as box:
        mine = await box.snapshot(temporary=True)
        query = {"container": box.id, "repo": "verifiers-snapshot"}
        await ENGINE.engine.call("POST", "/commit", query={**query, "tag": tag}, body=body)
        body["Labels"][LABEL_SNAPSHOT] = "kept"
        await ENGINE.engine.call("POST", "/commit", query={**query, "tag": f"{tag}-kept"}, body=body)
    await ENGINE.prune()
    left = await snapshots()
    for name in (mine, f"verifiers-snapshot:{tag}-kept"):
        await ENGINE.remove_snapshot(name)

    assert {mine, f"verifiers-snapshot:{tag}-kept"} <= left
    assert f"verifiers-snapshot:{tag}" not in left


async def test_a_snapshot_in_use_is_not_removed_and_a_cancelled_one_is_not_left():
    before = await snapshots()
    async with start_sandbox(ENGINE, SMALL) as box:
        name = await box.snapshot()
        async with start_sandbox(ENGINE, replace(SMALL, image=name)):
            with pytest.raises(SandboxPolicyError, match="cannot be removed"):
                await ENGINE.remove_snapshot(name)
        await ENGINE.remove_snapshot(name)
        taking = asyncio.ensure_future(box.snapshot())
        await asyncio.sleep(0.02)
        taking.cancel()
        await asyncio.wait([taking])
        if not taking.cancelled():
            await ENGINE.remove_snapshot(taking.result())
    assert await snapshots() - before == set()
