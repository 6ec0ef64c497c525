"""Extended attributes of files in images, boxes and their copies: users' are kept, and none that does anything."""

import errno
import io
import os
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from verifiers.sandboxes import Sandbox, SandboxSpec, fork_sandbox, start_sandbox
from verifiers.sandboxes.local import LocalBackend

SMALL = SandboxSpec(memory_mb=128, disk_mb=16, pids=32)
SET = "import os, sys; os.setxattr(sys.argv[1], sys.argv[2], bytes.fromhex(sys.argv[3]))"
LIST = """
import os, sys
for path in sys.argv[1:]:
    found = {name: os.getxattr(path, name).hex() for name in os.listxattr(path) if name != "user.overlay.opaque"}
    print(path, sorted(found.items()))
"""


@pytest.fixture
async def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A backend with a cache of its own."""
    try:
        os.setxattr(tmp_path, "user.a", b"1")
    except OSError as error:
        if error.errno != errno.ENOTSUP:
            raise
        pytest.skip("the file system of temporary files has no extended attributes of users")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    engine = LocalBackend()
    yield engine
    await engine.close()


async def attributes(box: Sandbox, *paths: str) -> str:
    done = await box.exec(["python3", "-c", LIST, *paths])
    assert done.ok, done.stderr
    return done.stdout


async def give(box: Sandbox, path: str, name: str, value: bytes) -> None:
    done = await box.exec(["python3", "-c", SET, path, name, value.hex()])
    if "Errno 95" in done.stderr:
        pytest.skip("tmpfs of this kernel has no extended attributes of users; it has since Linux 6.6")
    assert done.ok, done.stderr


async def test_copies_of_copies_keep_users_attributes(engine: LocalBackend):
    async with start_sandbox(engine, SMALL) as box:
        await box.exec("mkdir -p folder/inner; touch folder/file read-only; chmod 600 read-only")
        for path, name, value in (
            ("folder", "user.note", b"of a folder"),
            ("folder/file", "user.note", b"bytes \0\xff\n"),
            ("folder/file", "user.empty", b""),
            ("folder/file", "user.large", b"x" * 2000),
            ("read-only", "user.note", b"1"),
            ("folder/inner", "user.overlay.opaque", b"y"),
        ):
            await give(box, path, name, value)
        await box.exec("chmod 400 read-only; chmod 500 folder")
        paths = ("folder", "folder/file", "read-only", "folder/inner")
        wanted = await attributes(box, *paths)
        assert "6f66206120666f6c646572" in wanted
        async with fork_sandbox(box, backend=engine) as child:
            assert await attributes(child, *paths) == wanted
            await child.exec("chmod 700 folder")
            await child.exec(["python3", "-c", "import os; os.removexattr('folder', 'user.note')"])
            await give(child, "folder/file", "user.note", b"changed")
            wanted = await attributes(child, *paths)
            async with fork_sandbox(child, backend=engine) as grandchild:
                assert await attributes(grandchild, *paths) == wanted
    assert "folder []\n" in wanted


async def test_more_than_a_file_system_takes_is_left_out(engine: LocalBackend):
    async with start_sandbox(engine, SMALL) as box:
        await box.exec("echo content >large; echo content >small")
        await give(box, "large", "user.large", b"x" * 30_000)
        await give(box, "small", "user.note", b"1")
        async with fork_sandbox(box, backend=engine) as copy:
            assert await attributes(copy, "large", "small") == "large []\nsmall [('user.note', '31')]\n"
            assert await copy.read("large") == b"content\n"


def image_tar(folder: Path) -> Path:
    """A tar with attributes of all kinds, those that would make an overlay show what lies elsewhere among them."""
    path = folder / "image.tar"
    odd = {
        "user.note": "bytes \udcff",
        "user.overlay.redirect": "/secret",
        "user.overlay.opaque": "y",
        "trusted.overlay.redirect": "/secret",
        "trusted.note": "1",
        "security.capability": "1",
    }
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as archive:
        for name, kind in (("file", tarfile.REGTYPE), ("folder", tarfile.DIRTYPE)):
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = kind, 0o755
            entry.pax_headers = {f"SCHILY.xattr.{key}": value for key, value in odd.items()}
            archive.addfile(entry, io.BytesIO() if kind == tarfile.REGTYPE else None)
    return path


@pytest.mark.parametrize("kind", ["tar", "folder"])
async def test_images_keep_users_attributes_and_no_others(engine: LocalBackend, tmp_path: Path, kind: str):
    if kind == "tar":
        source = image_tar(tmp_path)
    else:
        source = tmp_path / "root"
        (source / "folder").mkdir(parents=True)
        (source / "file").write_text("")
        for path in (source / "folder", source / "file"):
            os.setxattr(path, "user.note", b"bytes \xff")
            os.setxattr(path, "user.overlay.redirect", b"/secret")
            if os.geteuid() == 0:
                os.setxattr(path, "trusted.note", b"1")
    async with start_sandbox(engine, replace(SMALL, rootfs=source)):
        (root,) = (tmp_path / "cache" / "verifiers" / "images").glob("*/root")
    for path in (root / "file", root / "folder"):
        assert {name: os.getxattr(path, name) for name in os.listxattr(path)} == {"user.note": b"bytes \xff"}
