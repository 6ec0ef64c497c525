"""Boxes as containers of a Docker or Podman engine: the backend, and what it says to the engine."""

from verifiers.sandboxes.docker.backend import DockerBackend

__all__ = ["DockerBackend"]
