"""Images of a container engine in local boxes: exported once, noticed when their name is given to another image.

`eval "$(.ci/docker-up)"` starts an engine of its own. CI fails without one, it does not skip.
"""

import asyncio
import os
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from verifiers.cli import image as command
from verifiers.errors import SandboxStartError
from verifiers.sandboxes import SandboxSpec, start_sandbox
from verifiers.sandboxes.docker import snapshots
from verifiers.sandboxes.docker.engine import Engine, engine_address
from verifiers.sandboxes.docker.spec import LABEL
from verifiers.sandboxes.local import LocalBackend
from verifiers.sandboxes.local.export import add_from_engine
from verifiers.sandboxes.local.images import Image, ImageStore
from verifiers.sandboxes.owner import RUN

IMAGE = os.environ.get("VF_TEST_DOCKER_IMAGE", "verifiers-test:bookworm")
SMALL = SandboxSpec(memory_mb=256, disk_mb=32, pids=64)
OF_THIS_RUN = f"verifiers-test={RUN}"
DOCKERFILE = f"""\
FROM {IMAGE}
LABEL {OF_THIS_RUN}
RUN echo 'worker:x:1234:1234::/home/worker:/bin/sh' >>/etc/passwd && mkdir -m 755 /home/worker \\
 && chown 1234:1234 /home/worker && echo first >/version && rm -rf /usr/share/doc && chmod 1777 /tmp
COPY given /given
ENV GREETING="from the image" PATH=/opt/own/bin:/usr/bin:/bin
USER worker
"""

pytestmark = pytest.mark.skipif(
    "VF_TEST_DOCKER_IMAGE" not in os.environ and "VERIFIERS_CI" not in os.environ,
    reason='needs a container engine with the test image: eval "$(.ci/docker-up)"',
)


@pytest.fixture(scope="module", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory):
    """One for all tests here: unpacking an image takes seconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture
async def local() -> AsyncIterator[LocalBackend]:
    backend = LocalBackend()
    yield backend
    await backend.close()


@pytest.fixture
async def context(tmp_path: Path) -> AsyncIterator[Path]:
    """A folder with a Dockerfile; what was built of it is removed from the engine again."""
    (tmp_path / "Dockerfile").write_text(DOCKERFILE)
    (tmp_path / "given").write_text("in the context")
    (tmp_path / "of-this-test").write_bytes(os.urandom(8))
    yield tmp_path
    for name in await images():
        await snapshots.remove(engine(), name)


def engine() -> Engine:
    return Engine(engine_address())


async def images() -> set[str]:
    """What builds of this run left in the engine: tags, and the ids of what was built only in part."""
    found = await engine().call("GET", "/images/json", query={"filters": {"label": [OF_THIS_RUN]}})
    tags = {each["Id"]: set(each["RepoTags"] or ()) - {"<none>:<none>"} for each in found}
    return {name for id, named in tags.items() for name in named or {id}}


async def containers() -> list[str]:
    """Those of this run: exported ones, and a build's."""
    marks = (OF_THIS_RUN, f"{LABEL}run={RUN}")
    queries = [{"all": True, "filters": {"label": [mark]}} for mark in marks]
    return [each["Id"] for query in queries for each in await engine().call("GET", "/containers/json", query=query)]


async def test_an_engine_s_image_is_exported_once(local: LocalBackend):
    spec = replace(SMALL, image=IMAGE)
    boxes = await asyncio.gather(*(local.start(spec) for _ in range(3)))
    said = [await box.exec("cat /etc/debian_version; python3 -c 'print(6 * 7)'; stat -c %a /tmp") for box in boxes]
    await asyncio.gather(*(box.stop() for box in boxes))

    assert len({result.stdout for result in said}) == 1
    assert said[0].stdout.split()[1:] == ["42", "1777"]
    stored = [image for image in ImageStore().all() if image.name == IMAGE]
    assert len(stored) == 1
    assert (await add_from_engine(ImageStore(), IMAGE)).created == stored[0].created


async def test_a_folder_is_built_with_its_environment_and_user(local: LocalBackend, context: Path):
    spec = replace(SMALL, image=f"build:{context}")
    async with start_sandbox(local, spec) as box:
        result = await box.exec("cat /given /version; echo $GREETING $PATH; id -un; ls -A /usr/share/doc")
        user = "worker" if os.geteuid() == 0 else "root"
        assert result.stdout == f"in the contextfirst\nfrom the image /opt/own/bin:/usr/bin:/bin\n{user}\n"
        assert "/usr/share/doc" in result.stderr
        name = await box.snapshot()
    async with start_sandbox(local, replace(SMALL, image=name)) as copy:
        assert (await copy.exec("echo $GREETING; id -un; cat /given; touch ~/x /tmp/x")).stdout == (
            f"from the image\n{user}\nin the context"
        )
    await local.remove_snapshot(name)
    (context / "given").write_text("changed")
    async with start_sandbox(local, spec) as box:
        assert await box.read("/given") == b"changed"


async def test_a_name_of_ones_own_stays_when_the_folder_is_asked_for(context: Path):
    image = await built(context)
    backend = LocalBackend()
    try:
        for name in (f"build:{context}", "mine:1"):
            async with start_sandbox(backend, replace(SMALL, image=name)) as box:
                assert await box.read("/given") == b"in the context"
    finally:
        await backend.close()
    found = ImageStore().find("mine:1")
    assert found is not None
    assert (found.digest, found.names) == (image.digest, [f"build:{context}", "mine:1"])


async def test_a_name_given_to_another_image_is_noticed(context: Path):
    repo, tag = f"verifiers-build:own-{RUN}".split(":")

    async def look() -> bytes:
        backend = LocalBackend()  # as another process would
        try:
            async with start_sandbox(backend, replace(SMALL, image=f"{repo}:{tag}")) as box:
                return await box.read("/given")
        finally:
            await backend.close()

    async def name(image: Image) -> None:
        await engine().call("POST", f"/images/{image.engine_id}/tag", query={"repo": repo, "tag": tag})

    first = await built(context)
    await name(first)
    assert await look() == b"in the context"
    (context / "given").write_text("another")
    second = await built(context)
    assert second.digest != first.digest
    await name(second)
    assert await look() == b"another"
    await engine().call("DELETE", f"/images/{repo}:{tag}")
    assert await look() == b"another"  # what was exported stays


async def built(folder: Path) -> Image:
    assert await asyncio.to_thread(command.main, ["build", str(folder), "--name", "mine:1"]) == 0
    image = ImageStore().find("mine:1")
    assert image is not None
    return image


async def test_what_is_missing_or_does_not_build_says_so(local: LocalBackend, context: Path, capsys):
    with pytest.raises(SandboxStartError, match="docker pull no-such-image:here"):
        await local.start(replace(SMALL, image="no-such-image:here"))
    (context / "Dockerfile").write_text(f"FROM {IMAGE}\nLABEL {OF_THIS_RUN}\nRUN echo the-reason >&2; exit 9\n")
    with pytest.raises(SandboxStartError, match="the-reason"):
        await local.start(replace(SMALL, image=f"build:{context}"))
    assert await asyncio.to_thread(command.main, ["build", str(context)]) == 2
    said = capsys.readouterr().err
    assert "does not build" in said
    assert "\x1b" not in said, "the engine colours what goes to stderr"
    (context / "Dockerfile").unlink()
    with pytest.raises(SandboxStartError, match="no file named Dockerfile"):
        await local.start(replace(SMALL, image=f"build:{context}"))
    assert await containers() == []


async def test_without_an_engine_what_was_exported_still_runs(
    local: LocalBackend, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    await add_from_engine(ImageStore(), IMAGE)
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    async with start_sandbox(local, replace(SMALL, image=IMAGE)) as box:
        assert (await box.exec("echo here")).stdout == "here\n"
    with pytest.raises(SandboxStartError, match="install and start Docker"):
        await local.start(replace(SMALL, image="another:image"))
