"""Where cgroups of version 2 may be made, from what the kernel says on machines and in containers of several kinds."""

import pytest

from verifiers.sandboxes.local.keeper import source
from verifiers.sandboxes.local.keeper.delegated import folders_upward
from verifiers.sandboxes.local.scope import within_login

DEBIAN = """\
24 1 254:0 / / rw,noatime shared:1 - ext4 /dev/vda rw
30 23 0:26 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate
31 23 0:27 / /sys/fs/pstore rw,nosuid,nodev,noexec,relatime shared:10 - pstore pstore rw
"""
DOCKER_PRIVATE = "731 730 0:26 / /sys/fs/cgroup ro,nosuid,nodev,noexec,relatime - cgroup2 cgroup rw,nsdelegate\n"
DOCKER_OF_THE_HOST = """\
731 730 0:26 /../../../system.slice/docker-4f.scope /sys/fs/cgroup rw,relatime - cgroup2 cgroup rw,nsdelegate
"""
BOUND = "731 730 0:26 /docker/4f /sys/fs/cgroup rw,nosuid,relatime - cgroup2 cgroup rw,nsdelegate\n"
HYBRID = """\
32 31 0:29 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
"""
ODD = "30 23 0:26 / /mnt/a\\040b\\134c rw - cgroup2 cgroup2 rw\n"
VERSION_1 = "32 31 0:29 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
TOP = "/sys/fs/cgroup"
LOGIN = f"{TOP}/user.slice/user-1000.slice"


@pytest.mark.parametrize(
    ("cgroup", "mounts", "folders"),
    [
        (
            "0::/user.slice/user-1000.slice/session-9.scope\n",
            DEBIAN,
            [f"{LOGIN}/session-9.scope", LOGIN, f"{TOP}/user.slice", TOP],
        ),
        ("0::/system.slice/job.service\n", DEBIAN, [f"{TOP}/system.slice/job.service", f"{TOP}/system.slice", TOP]),
        ("0::/\n", DEBIAN, [TOP]),
        ("0::/\n", DOCKER_PRIVATE, [TOP]),
        ("0::/../../user.slice/session-2.scope\n", DOCKER_PRIVATE, [TOP]),
        ("0::/\n", DOCKER_OF_THE_HOST, [TOP]),
        ("0::/docker/4f/init\n", BOUND, [f"{TOP}/init", TOP]),
        ("0::/docker/4f\n", BOUND, [TOP]),
        ("0::/docker/4fe\n", BOUND, [TOP]),
        ("4:memory:/a\n0::/a\n", HYBRID, [f"{TOP}/unified/a", f"{TOP}/unified"]),
        ("0::/a\n", ODD, ["/mnt/a b\\c/a", "/mnt/a b\\c"]),
        ("4:memory:/a\n", VERSION_1, []),
        ("4:memory:/a\n0::/a\n", VERSION_1, []),
        ("4:memory:/a\n", HYBRID, []),
    ],
)
def test_the_own_cgroup_comes_first_and_what_is_not_mounted_never(cgroup: str, mounts: str, folders: list[str]):
    assert folders_upward(cgroup, mounts) == folders


@pytest.mark.parametrize(
    ("cgroup", "user", "count"),
    [
        ("0::/user.slice/user-1000.slice/session-9.scope\n", 1000, 1),
        ("0::/user.slice/user-1000.slice/user@1000.service/app.slice/a.scope\n", 1000, 3),
        ("0::/user.slice/user-1000.slice/session-9.scope\n", 100, 0),
        ("0::/user.slice/user-0.slice/session-9.scope\n", 1000, 0),
        ("0::/system.slice/job.service\n", 1000, 0),
        ("0::/system.slice/slurmstepd.scope/job_7/step_0/user/task_0\n", 1000, 0),
        ("0::/\n", 1000, 0),
    ],
)
def test_only_what_belongs_to_a_login_may_leave_its_cgroup(cgroup: str, user: int, count: int):
    assert len(within_login(folders_upward(cgroup, DEBIAN), user)) == count


def test_the_keepers_program_has_nothing_that_systemd_would_expand():
    """Some versions of `systemd-run` replace `$` and what follows in the command line of a scope."""
    assert "$" not in source()
