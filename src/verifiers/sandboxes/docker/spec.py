"""From a `SandboxSpec` to the container the engine makes: every limit and every right it does not get, in one place."""

from __future__ import annotations

import resource
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from verifiers.sandboxes import carried
from verifiers.sandboxes.base import BoxInfo, SandboxSpec
from verifiers.sandboxes.marks import marks, owner_alive

LABEL = "verifiers."
LABEL_OWNER = f"{LABEL}owner"
LABEL_SNAPSHOT = f"{LABEL}snapshot"
"""Of an image: `kept`, or `temporary` for one that is removed once its owner is gone."""
MAX_RLIMIT = 32768
READONLY = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger", "/dev"]
"""The engine's own list, and the device folder: a memory file system that no limit on writing counts."""
NETWORKS = {"none": "none", "allowlist": "none", "full": "bridge"}
"""An allow list is kept by a proxy that the agent leads to; "full" is the engine's shared bridge, since a network of
its own for each box would use up the engine's address pool at 30."""


def box_info(container: Mapping[str, Any], *, now: float) -> BoxInfo:
    """One entry of the engine's list as a `BoxInfo`."""
    labels: Mapping[str, str] = container.get("Labels") or {}
    found = {name.removeprefix(LABEL): text for name, text in labels.items() if name.startswith(LABEL)}
    state = str(container.get("State", ""))
    alive = owner_alive(found, running=state not in ("created", "exited", "dead"), now=now)
    return BoxInfo(container["Id"], "docker", state, found.get("run", ""), alive)


def labels() -> dict[str, str]:
    """What a container of this process carries, so that others know when it is dead."""
    return {f"{LABEL}{name}": text for name, text in marks().items()}


def volume_mount(volume: str, target: str, *, read_only: bool) -> dict[str, Any]:
    """For a container's `Mounts`."""
    options = {"NoCopy": True}
    return {"Type": "volume", "Source": volume, "Target": target, "ReadOnly": read_only, "VolumeOptions": options}


def container(
    spec: SandboxSpec,
    image: str,
    argv: Sequence[str],
    *,
    quota: bool,
    agent_volume: str | None = None,
    unset: Iterable[str] = (),
) -> dict[str, Any]:
    """The body of the engine's create call for a box whose first process is `argv`.

    Its stdin is bound to one connection: when the owner dies, the process reads the end of it, exits, and the engine
    removes the container.

    A box without a network is kept from the engine's network code altogether: it gets the same empty namespace in half
    the time, and Docker 20.10 can deadlock there when dozens of boxes end at once.

    Args:
        quota: whether the engine's storage can bound the container's layer.
        agent_volume: the volume shown at `carried.PLACE`, if any.
        unset: variables of the image's environment that the process starts without; the spec's it is told later.
    """
    config: dict[str, Any] = {
        "Image": image,
        "Entrypoint": list(argv),
        "Cmd": [],
        "Env": [f"{name}=" for name in unset],
        "WorkingDir": spec.workdir,
        "Labels": labels(),
        "Hostname": "sandbox",
        "NetworkDisabled": spec.network != "full",
        "AttachStdin": True,
        "AttachStdout": True,
        "AttachStderr": True,
        "OpenStdin": True,
        "StdinOnce": True,
        "StopSignal": "SIGKILL",
        "Healthcheck": {"Test": ["NONE"]},
        "HostConfig": _host_config(spec, quota=quota, agent_volume=agent_volume),
    }
    if spec.user is not None:
        config["User"] = spec.user
    return config


def _host_config(spec: SandboxSpec, *, quota: bool, agent_volume: str | None) -> dict[str, Any]:
    memory = spec.memory_mb << 20
    config: dict[str, Any] = {
        "AutoRemove": True,
        "NetworkMode": NETWORKS[spec.network],
        "IpcMode": "private",
        "CapDrop": ["ALL"],
        "SecurityOpt": ["no-new-privileges"],
        "ReadonlyPaths": READONLY,
        "PidsLimit": spec.pids,
        "Memory": memory,
        "MemorySwap": memory,
        "ShmSize": min(memory // 2, 64 << 20),
        "LogConfig": {"Type": "none"},
        "Ulimits": [
            {"Name": "core", "Soft": 0, "Hard": 0},
            *(_own_limit(name) for name in ("nofile", "nproc")),
            {"Name": "fsize", "Soft": spec.disk_mb << 20, "Hard": spec.disk_mb << 20},
        ],
    }
    if spec.mounts:
        config["Binds"] = [f"{Path(folder).resolve()}:{path}:ro" for path, folder in spec.mounts.items()]
    if agent_volume is not None:
        config["Mounts"] = [volume_mount(agent_volume, carried.PLACE, read_only=True)]
    if spec.cpus is not None:
        config["NanoCpus"] = int(spec.cpus * 1e9)
    if quota:
        config["StorageOpt"] = {"size": f"{spec.disk_mb}m"}
    return config


def _own_limit(name: str) -> dict[str, Any]:
    """At most this process's own bound: an engine in a container itself cannot give more, and Podman would try to."""
    hard = resource.getrlimit(getattr(resource, f"RLIMIT_{name.upper()}"))[1]
    bound = MAX_RLIMIT if hard == resource.RLIM_INFINITY else min(hard, MAX_RLIMIT)
    return {"Name": name, "Soft": bound, "Hard": bound}
