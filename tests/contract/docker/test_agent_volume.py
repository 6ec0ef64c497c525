"""The volume that boxes run their agent on: there when a box starts, gone when no version needs it any more."""

from datetime import timedelta

import needs
from verifiers.sandboxes import SandboxSpec, start_sandbox
from verifiers.sandboxes.docker.agent import FILLED_AT, PREFIX, Volume
from verifiers.sandboxes.docker.backend import DockerBackend
from verifiers.sandboxes.docker.spec import labels, volume_mount
from verifiers.sandboxes.owner import RUN

pytestmark = needs.DOCKER
ENGINE = needs.docker_backend()
IMAGE = needs.DOCKER_IMAGE
SMALL = SandboxSpec(memory_mb=256, pids=64, disk_mb=64)


async def volumes() -> set[str]:
    return {each["Name"] for each in (await ENGINE.engine.call("GET", "/volumes"))["Volumes"]}


async def test_a_box_starts_although_somebody_has_removed_the_volume():
    """The engine puts an empty one in its place without a word."""
    removed = f"{PREFIX}removed-{RUN}"
    backend = DockerBackend(default_image=IMAGE)
    backend.agents._known = Volume(removed, "yesterday")
    async with start_sandbox(backend, SMALL) as box:
        assert (await box.exec("echo here")).stdout == "here\n"
        used = await backend.agents.get("")
    await ENGINE.engine.call("DELETE", f"/volumes/{removed}")

    assert used.name != removed
    assert used.name in await volumes()


async def test_volumes_of_other_versions_go_when_no_container_has_them():
    idle, held, foreign = f"{PREFIX}idle-{RUN}", f"{PREFIX}held-{RUN}", f"of-somebody-{RUN}"
    for name in (idle, held, foreign):
        await ENGINE.engine.call("POST", "/volumes/create", body={"Name": name})
    body = {
        "Image": IMAGE,
        "Cmd": ["true"],
        "Labels": labels(),
        "HostConfig": {"Mounts": [volume_mount(held, FILLED_AT, read_only=True)]},
    }
    container = (await ENGINE.engine.call("POST", "/containers/create", body=body))["Id"]
    async with start_sandbox(ENGINE, SMALL) as box:
        own = (await ENGINE.agents.get("")).name
        await ENGINE.prune()
        young = await volumes()
    await DockerBackend(default_image=IMAGE).agents.prune(older_than=timedelta(0))
    left = await volumes()
    async with start_sandbox(ENGINE, SMALL) as box:
        assert (await box.exec("echo here")).stdout == "here\n"
    await ENGINE.engine.call("DELETE", f"/containers/{container}")
    for name in (held, foreign):
        await ENGINE.engine.call("DELETE", f"/volumes/{name}")

    assert {idle, held, foreign, own} <= young
    assert {held, foreign, own} <= left
    assert idle not in left
