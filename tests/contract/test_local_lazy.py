"""A local box is a shell until it needs the agent; nobody can tell from its answers."""

import asyncio
import os
from dataclasses import replace

import pytest

from verifiers.errors import SandboxExecError, SandboxStartError
from verifiers.sandboxes import SandboxSpec, start_sandbox
from verifiers.sandboxes.local import LocalBackend
from verifiers.sandboxes.local.shell import line_for

SPEC = SandboxSpec(memory_mb=128, disk_mb=32, pids=32, env={"GIVEN": 'it\'s "here" $HOME'})
FIRST = "cat /proc/1/comm"

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="boxes are lazy only when started as root")


async def test_the_first_command_needs_no_agent_and_the_second_gets_one():
    async with start_sandbox("local", SPEC) as box:
        assert (await box.exec(FIRST)).stdout == ".box-sh\n"
        assert (await box.exec(FIRST)).stdout == "ld.so\n"


async def test_the_second_request_does_not_wait_for_the_first():
    async with start_sandbox("local", SPEC) as box:
        first = asyncio.ensure_future(box.exec("while [ ! -e go ]; do sleep 0.02; done; echo went; exit 7"))
        await asyncio.sleep(0.2)
        assert (await box.exec("echo second")).stdout == "second\n"
        await box.write("go", "")
        result = await asyncio.wait_for(first, 120)

    assert (result.exit_code, result.stdout) == (7, "went\n")


@pytest.mark.parametrize(
    "script",
    [
        "echo out; echo err >&2; exit 3",
        "kill -9 $$",
        "kill -INT $$; echo not killed",
        "trap 'echo caught' INT; kill -INT $$; echo after",
        "printf '%s' \"$GIVEN\"; pwd; echo $0 $#",
        "ulimit -p 2>/dev/null || ulimit -u; ulimit -c; id -u",
        "cat; readlink /proc/self/fd/0; ls /proc/self/fd | wc -w",
        "no-such-program",
        "env | sort",
        "ls /proc/1/fd; cat /proc/1/maps; cat /proc/1/environ",
        "for i in 1 2 3; do (sleep 30 >/dev/null 2>&1 &); done; echo quick",
    ],
)
async def test_both_say_the_same(script: str):
    async with start_sandbox("local", SPEC) as lazy, start_sandbox("local", SPEC) as eager:
        await eager.write("x", "")
        await eager.exec("rm x")
        first, other = await lazy.exec(script), await eager.exec(script)

    assert (first.exit_code, first.stdout, first.stderr) == (other.exit_code, other.stdout, other.stderr)


async def test_a_command_that_kills_everything_ends_itself_only():
    async with start_sandbox("local", SPEC) as box:
        result = await asyncio.wait_for(box.exec("kill -9 -1; sleep 0.3; echo survived"), 120)
        assert result.exit_code in (0, 137)
        assert (await box.exec("echo here")).stdout == "here\n"


@pytest.mark.parametrize("script", ["kill -STOP $PPID; sleep 300", "kill -STOP $PPID", "kill -STOP -1"])
async def test_a_command_that_stops_who_waits_for_it_still_ends_in_time(script: str):
    async with start_sandbox("local", SPEC) as box:
        result = await asyncio.wait_for(box.exec(script, timeout_s=1), 20)
        assert result.timed_out
        assert (await box.exec("echo here")).stdout == "here\n"


async def test_a_first_command_that_spoils_the_working_folder_spoils_no_more():
    async with start_sandbox("local", SPEC) as box:
        await box.exec("cd /; rm -rf /workspace; ln -s workspace /workspace")
        with pytest.raises(SandboxExecError):
            await box.exec("echo there")
        assert (await box.exec("echo here", cwd="/")).stdout == "here\n"


@pytest.mark.parametrize("workdir", ["/usr/nowhere", "/etc/nowhere", "//proc/nowhere", "/dev/nowhere"])
async def test_a_working_folder_that_cannot_be_made_is_told_at_the_start(workdir: str):
    with pytest.raises(SandboxStartError):
        async with start_sandbox("local", replace(SPEC, workdir=workdir)):
            pass


async def test_what_it_leaves_running_goes_on_and_its_output_is_dropped():
    async with start_sandbox("local", SPEC) as box:
        await box.exec("(while :; do echo noise; sleep 0.01; done) & echo front")
        await asyncio.sleep(0.3)
        assert (await box.exec("echo clean")).stdout == "clean\n"
        assert "noise" in (await box.exec("cat /proc/[0-9]*/cmdline | tr '\\0' ' '")).stdout


def test_what_the_shell_cannot_do_is_left_to_the_agent():
    assert line_for("echo one\necho two", "/", {}) is None
    assert line_for(["relative"], "/", {}) is None
    assert line_for([], "/", {}) is None
    assert line_for(["/bin/echo", "a\0b"], "/", {}) is None
    assert line_for("x" * 5000, "/", {}) is None
    assert line_for(["/bin/echo", "\udcff"], "/", {}) is None
    assert line_for(["/bin/echo", "it's"], "/", {"A": "b c"}) is not None


async def test_an_eager_backend_starts_the_agent_at_once():
    backend = LocalBackend()
    backend.lazy = False
    try:
        async with start_sandbox(backend, SPEC) as box:
            assert (await box.exec(FIRST)).stdout == "ld.so\n"
    finally:
        await backend.close()
