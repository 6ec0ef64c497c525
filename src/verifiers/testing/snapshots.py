"""What every sandbox backend must hold whose boxes take snapshots, for pytest: subclass as `SandboxConformance`.

Needs a POSIX shell and coreutils in the box, as the other suite does.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, ClassVar

import pytest

from verifiers.errors import ConfigError, SandboxLostError, SandboxStartError
from verifiers.sandboxes import Backend, Sandbox, SandboxSpec, SnapshotBackend, fork_sandbox, get_backend, start_sandbox
from verifiers.sandboxes.owner import RUN

LISTING = r"""
list() {
  for f in "$1"/* "$1"/.[!.]*; do
    if [ -h "$f" ]; then echo "$f -> $(readlink "$f")"
    elif [ -e "$f" ]; then stat -c '%n %F %a %h %u %g %Y' "$f"; fi
    if [ -d "$f" ] && [ ! -h "$f" ]; then list "$f"; elif [ -f "$f" ]; then cat "$f"; fi
  done
}
list .
"""
"""What is below the working folder: paths, types, modes, links, owners, times of files and their contents."""


class SnapshotConformance:
    """Snapshots and forks, as `verifiers.sandboxes.base` and `fork_sandbox` promise."""

    backend: ClassVar[str | Backend] = "local"
    spec: ClassVar[SandboxSpec] = SandboxSpec(memory_mb=256, disk_mb=64, pids=64, env={"GIVEN": "to all"})

    @property
    def engine(self) -> Any:
        return get_backend(self.backend) if isinstance(self.backend, str) else self.backend

    @pytest.fixture
    async def box(self) -> AsyncIterator[Sandbox]:
        async with start_sandbox(self.backend, self.spec) as box:
            yield box

    async def own_boxes(self) -> set[str]:
        """Ids of the boxes this process has started; others may start and end theirs meanwhile."""
        return {info.id for info in await self.engine.ls() if info.run == RUN}

    @asynccontextmanager
    async def copied(self, box: Sandbox) -> AsyncIterator[Sandbox]:
        async with fork_sandbox(box, backend=self.engine) as copy:
            yield copy

    async def test_the_backend_removes_what_it_makes(self, box: Sandbox) -> None:
        name = await box.snapshot()
        spec = replace(self.spec, image=name, rootfs=None)
        async with start_sandbox(self.backend, spec) as copy:
            assert (await copy.exec("echo $GIVEN; pwd")).stdout == f"to all\n{self.spec.workdir}\n"

        assert isinstance(self.engine, SnapshotBackend)
        await self.engine.remove_snapshot(name)
        await self.engine.remove_snapshot(name)
        with pytest.raises(SandboxStartError):
            async with start_sandbox(self.backend, spec):
                pass

    async def test_files_are_all_there_and_as_they_were(self, box: Sandbox) -> None:
        made = await box.exec(
            "umask 022; mkdir -p deep/er empty; echo text >deep/er/file; ln deep/er/file deep/hard; "
            "ln -s er/file deep/link; ln -s /no/where dangling; printf '#!/bin/sh\\necho ran' >run; chmod 4751 run; "
            "mkfifo pipe; chmod 1777 empty; touch -d '2001-02-03 04:05:06' deep/er/file pipe; "
            "touch \"odd name\n$(printf '\\351')\" .hidden; chmod 500 deep; "
            " truncate -s 5000000 sparse; echo end >>sparse; echo outside >/tmp/outside"
        )
        assert made.ok, made.stderr
        before = (await box.exec(LISTING, max_output=1 << 24)).stdout
        async with self.copied(box) as copy:
            assert (await copy.exec(LISTING, max_output=1 << 24)).stdout == before
            assert (await copy.exec("cat /tmp/outside; ./run")).stdout == "outside\nran\n"
            assert await copy.read("sparse") == bytes(5_000_000) + b"end\n"

    async def test_what_was_removed_or_replaced_is_so_in_copies_of_copies(self, box: Sandbox) -> None:
        await box.exec(
            "mkdir -p kept gone replaced/inner turned; touch kept/a kept/b gone/x replaced/inner/old turned/x f"
        )
        async with self.copied(box) as child:
            await child.exec(
                "rm -r gone kept/a replaced turned f; mkdir -p replaced/inner f; touch replaced/inner/new f/in; "
                "ln -s kept turned"
            )
            wanted = (await child.exec("ls -R .; cat turned/b && echo through")).stdout
            async with self.copied(child) as grandchild:
                assert (await grandchild.exec("ls -R .; cat turned/b && echo through")).stdout == wanted
                await grandchild.exec(
                    "rm turned; mkdir -p gone turned; touch gone/again turned/y; rm -r f; echo file >f"
                )
                wanted = (await grandchild.exec("ls -R .; cat f")).stdout
                async with self.copied(grandchild) as last:
                    assert (await last.exec("ls -R .; cat f")).stdout == wanted

        assert "old" not in wanted
        assert wanted.split("./gone:")[1].split()[0] == "again"

    async def test_what_an_image_had_can_be_removed_and_replaced(self, box: Sandbox) -> None:
        """Needs a file the box's user may remove outside the working folder; a box without any passes."""
        script = "for d in /etc /opt /var /usr/share; do ls -A $d | sort | head -50; done; cat /etc/issue"
        await box.exec(
            "rm -rf /etc/issue /opt/* /var/cache; mkdir /var/cache && touch /var/cache/only; echo x >>/etc/motd"
        )
        wanted = (await box.exec(script)).stdout
        async with self.copied(box) as copy:
            assert (await copy.exec(script)).stdout == wanted

    async def test_original_and_copies_go_their_own_ways(self, box: Sandbox) -> None:
        await box.exec("echo start >state; sleep 7911 >/dev/null 2>&1 &")
        async with fork_sandbox(box, count=3, backend=self.engine) as copies:
            await box.write("state", "original")

            sleepers = "cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -c 'sleep 7[9]11'"

            async def turn(number: int) -> str:
                await copies[number].exec(f"echo {number} >>state; touch only-{number}")
                return (await copies[number].exec(f"cat state; ls only-*; {sleepers}")).stdout

            assert await asyncio.gather(*map(turn, range(3))) == [f"start\n{n}\nonly-{n}\n0\n" for n in range(3)]
            assert len({copy.id for copy in copies} | {box.id}) == 4
        assert await box.read("state") == b"original"
        assert (await box.exec("echo still; ls only-*")).stdout == "still\n"

    async def test_copies_outlive_the_original(self) -> None:
        async with start_sandbox(self.backend, self.spec) as box:
            await box.write("state", "kept")
            forking = fork_sandbox(box, backend=self.engine)
            copy = await forking.__aenter__()
            await box.stop()
        assert await copy.read("state") == b"kept"
        with pytest.raises(SandboxLostError):
            await box.snapshot()
        await forking.__aexit__(None, None, None)

    async def test_a_fork_that_fails_leaves_nothing(self, box: Sandbox) -> None:
        with pytest.raises(ConfigError):
            fork_sandbox(box, count=0, backend=self.engine)
        before = await self.own_boxes()
        with pytest.raises(ZeroDivisionError):
            async with fork_sandbox(box, count=2, backend=self.engine) as copies:
                assert 1 / len(copies[2:])
        context = self.copied(box)
        forking = asyncio.ensure_future(context.__aenter__())
        await asyncio.sleep(0.01)
        forking.cancel()
        await asyncio.wait([forking])
        if not forking.cancelled():  # it was there before the request to give it up
            await context.__aexit__(None, None, None)

        assert await self.own_boxes() == before

    async def test_a_box_goes_on_while_it_is_copied(self, box: Sandbox) -> None:
        """Whatever changes meanwhile: the copy is a copy of something, and the box is none the worse."""
        churn = "mkdir -p d; echo $i >d/f; mv d e$((i%3)) 2>/dev/null; rm -rf d e$(((i+1)%3))"
        running = await box.spawn(f"i=0; while :; do i=$((i+1)); {churn}; done")
        await box.exec("echo steady >steady")
        for _ in range(3):
            async with self.copied(box) as copy:
                assert await copy.read("steady") == b"steady\n"
        assert running.exit_code is None
        await running.kill()
