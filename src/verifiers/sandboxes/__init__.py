"""Boxes that run what models write: one contract, several backends, isolation by default.

async with start_sandbox("local", SandboxSpec(memory_mb=512)) as box:
    print((await box.exec("echo hello")).stdout)
"""

from verifiers.sandboxes.base import (
    Address,
    Backend,
    BoxInfo,
    ExecResult,
    Process,
    Sandbox,
    SandboxSpec,
    SnapshotBackend,
)
from verifiers.sandboxes.forking import fork_sandbox
from verifiers.sandboxes.registry import backend_names, get_backend, start_sandbox

__all__ = [
    "Address",
    "Backend",
    "BoxInfo",
    "ExecResult",
    "Process",
    "Sandbox",
    "SandboxSpec",
    "SnapshotBackend",
    "backend_names",
    "fork_sandbox",
    "get_backend",
    "start_sandbox",
]
