"""Images of the local backend: every format unpacks to the same root; boxes write to it, chown, switch users on it."""

import asyncio
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest

from verifiers.cli import image as command
from verifiers.errors import ConfigError, SandboxExecError, SandboxStartError
from verifiers.sandboxes import SandboxSpec, start_sandbox
from verifiers.sandboxes.local.images import ImageStore, digest_of
from verifiers.testing.sandboxes import SandboxConformance
from verifiers.testing.snapshots import SnapshotConformance

PROGRAMS = [
    "sh",
    "cat",
    "ls",
    "id",
    "tr",
    "mkdir",
    "mkfifo",
    "ln",
    "sleep",
    "head",
    "wc",
    "env",
    "chown",
    "chmod",
    "touch",
    "rm",
    "mv",
    "yes",
    "true",
    "printf",
    "setsid",
    "stat",
    "truncate",
    "readlink",
    "sort",
    "grep",
]
PYTHON = (
    Path("/usr/bin/python3.11").resolve()
    if os.path.exists("/usr/bin/python3.11")
    else Path("/usr/bin/python3").resolve()
)


def make_root(folder: Path) -> Path:
    """A small root: this machine's shell, coreutils and Python, with the libraries they need."""
    root = folder / "root"
    for name in ("usr/bin", "usr/lib", "etc", "tmp", "root", "home/alice"):
        (root / name).mkdir(parents=True)
    (root / "tmp").chmod(0o1777)
    (root / "bin").symlink_to("usr/bin")
    programs = [Path(found) for name in PROGRAMS if (found := shutil.which(name, path="/usr/bin:/bin"))]
    libraries = set[str]()
    for program in [*programs, PYTHON]:
        shutil.copy(program.resolve(), root / "usr/bin" / program.name)
        said = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
        libraries |= {word for line in said.splitlines() for word in line.split() if word.startswith("/")}
    for library in libraries:
        target = root / library.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(Path(library).resolve(), target)
    (root / "usr/bin/python3").symlink_to(PYTHON.name)
    version = PYTHON.name
    ignore = shutil.ignore_patterns(
        "test", "__pycache__", "site-packages", "dist-packages", "config-*", "idlelib", "lib2to3"
    )
    shutil.copytree(f"/usr/lib/{version}", root / "usr/lib" / version, ignore=ignore, symlinks=False)
    (root / "etc/passwd").write_text("root:x:0:0::/root:/bin/sh\nalice:x:1234:1234::/home/alice:/bin/sh\n")
    (root / "etc/group").write_text("root:x:0:\nalice:x:1234:\nstaff:x:50:alice\n")
    if os.geteuid() == 0:
        os.chown(root / "home/alice", 1234, 1234)
    return root


@pytest.fixture(scope="session")
def root(tmp_path_factory) -> Path:
    return make_root(tmp_path_factory.mktemp("image"))


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory):
    """Images of these tests stay out of the user's cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


def make_tar(root: Path, path: Path) -> Path:
    with tarfile.open(path, "w") as archive:
        archive.add(root, arcname=".")
    return path


def make_oci(root: Path, folder: Path) -> Path:
    """A layout of two layers: the root with a file too many, then its removal."""
    blobs = folder / "blobs" / "sha256"
    blobs.mkdir(parents=True)

    def blob(data: bytes) -> dict[str, object]:
        digest = sha256(data).hexdigest()
        (blobs / digest).write_bytes(data)
        return {"digest": f"sha256:{digest}", "size": len(data), "mediaType": "x"}

    base, top = io.BytesIO(), io.BytesIO()
    with tarfile.open(fileobj=base, mode="w:gz") as archive:
        archive.add(root, arcname=".")
        for name in ("etc/unwanted", "var/old/a", "var/old/b"):
            archive.addfile(tarfile.TarInfo(name))
    with tarfile.open(fileobj=top, mode="w:gz") as archive:
        for name in ("etc/.wh.unwanted", "var/old/.wh..wh..opq", "var/old/c"):
            archive.addfile(tarfile.TarInfo(name))
    config = {"config": {"Env": ["GREETING=from the image", "PATH=/usr/bin:/bin"], "User": "alice"}}
    manifest = {"config": blob(json.dumps(config).encode()), "layers": [blob(base.getvalue()), blob(top.getvalue())]}
    index = {"manifests": [blob(json.dumps(manifest).encode())]}
    (folder / "index.json").write_text(json.dumps(index))
    (folder / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    return folder


async def test_a_folder_a_tar_and_an_oci_layout_run(root: Path, tmp_path: Path):
    for source in (root, make_tar(root, tmp_path / "root.tar"), make_oci(root, tmp_path / "oci")):
        async with start_sandbox("local", SandboxSpec(rootfs=source)) as box:
            result = await box.exec("cat /etc/passwd; ls /etc /var/old 2>/dev/null; echo $GREETING; id -un")
            assert "alice:x:1234" in result.stdout
            assert "unwanted" not in result.stdout
            if source.name == "oci":
                assert result.stdout.split()[-6:] == ["/var/old:", "c", "from", "the", "image", _user("alice")]
            assert (await box.exec("python3 -c 'import json; print(json.dumps(1))'")).stdout == "1\n"


def _user(name: str) -> str:
    return name if os.geteuid() == 0 else "root"


async def test_boxes_write_over_an_image_without_changing_it(root: Path):
    async with (
        start_sandbox("local", SandboxSpec(rootfs=root)) as box,
        start_sandbox("local", SandboxSpec(rootfs=root)) as other,
    ):
        await box.exec("echo changed >/etc/passwd; rm /etc/group; echo new >/etc/new; chmod 700 /usr/bin/cat")
        assert "alice" in (await other.exec("cat /etc/passwd /etc/group; ls /etc")).stdout
        assert "new" not in (await other.exec("ls /etc")).stdout
        assert (await box.exec("ls /etc")).stdout.split() == ["new", "passwd"]


@pytest.mark.skipif(os.geteuid() != 0, reason="several users in a box need root; run the tests as root")
async def test_root_of_a_box_is_root_of_its_files_only(root: Path):
    async with start_sandbox("local", SandboxSpec(rootfs=root)) as box:
        script = "id -u; touch f; chown alice:staff f; stat -c %U:%G f; stat -c %U /home/alice /etc/passwd"
        assert (await box.exec(script)).stdout.split() == ["0", "alice:staff", "alice", "root"]
        mine = await box.exec(
            "id -u; id -G; touch ~/x && echo wrote; touch /etc/x || echo refused",
            user="alice",
            env={"HOME": "/home/alice"},
        )
        assert mine.stdout.split() == ["1234", "1234", "50", "wrote", "refused"]
        assert (await box.exec("id -u; id -g", user="4321:99")).stdout == "4321\n99\n"
        with pytest.raises(SandboxExecError, match="no such group"):
            await box.exec("id", user="alice:nosuch")
        assert (await box.exec("echo x >/proc/sys/vm/drop_caches")).exit_code != 0
        await box.exec("rm /etc/passwd; mkfifo /etc/passwd")
        with pytest.raises(SandboxExecError, match="no such user"):
            await asyncio.wait_for(box.exec("id", user="alice"), 60)
    async with start_sandbox("local", SandboxSpec(rootfs=root, user="alice", files={"given": "x"})) as box:
        assert (await box.exec("id -un; stat -c %U given .; echo y >>given && cat given")).stdout.split() == [
            "alice",
            "alice",
            "alice",
            "xy",
        ]


async def test_images_are_made_once_and_found_by_name(root: Path, tmp_path: Path):
    store = ImageStore(tmp_path / "images")
    tar = make_tar(root, tmp_path / "root.tar")
    first, second = await asyncio.gather(*(asyncio.to_thread(store.add, tar, name="mine:1") for _ in range(2)))

    assert first == second == store.find("mine:1") == store.find(first.digest[:8])
    assert [image.digest for image in store.all()] == [digest_of(tar)]
    assert store.prune(keep=lambda image: False) == [first]
    assert store.all() == []
    assert not list((tmp_path / "images").glob("*/"))


def test_a_further_name_takes_none_away(root: Path, tmp_path: Path):
    store = ImageStore(tmp_path / "images")
    tar = make_tar(root, tmp_path / "root.tar")
    store.add(tar, name="mine:1")
    image = store.add(tar, name="mine:2")

    assert store.find("mine:1") == store.find("mine:2") == store.add(tar) == image
    assert image.names == ["mine:2", "mine:1"]
    other = store.add(tar, name="mine:2", env={"A": "1"})
    assert (other.env["A"], other.digest != image.digest) == ("1", True), "other settings are another image"
    assert [each.names for each in store.all()] == [["mine:1"], ["mine:2"]]


def test_removing_one_of_several_names_leaves_the_image(root: Path, tmp_path: Path, monkeypatch, capsys):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    tar = make_tar(root, tmp_path / "root.tar")
    for name in ("mine:1", "mine:2"):
        assert command.main(["add", str(tar), "--name", name]) == 0
    assert capsys.readouterr().out.endswith("  mine:2, mine:1\n")

    assert command.main(["rm", "mine:2"]) == 0
    assert "is still mine:1" in capsys.readouterr().out
    assert [image.names for image in ImageStore().all()] == [["mine:1"]]
    assert command.main(["rm", "mine:1"]) == 0
    assert ImageStore().all() == []


def test_what_is_no_image_is_refused(tmp_path: Path):
    (tmp_path / "text").write_text("no tar")
    with pytest.raises(ConfigError, match="neither a folder nor a tar"):
        ImageStore(tmp_path / "images").add(tmp_path / "text")
    with pytest.raises(ConfigError, match="does not exist"):
        ImageStore(tmp_path / "images").add(tmp_path / "missing")
    assert not list((tmp_path / "images").glob("*/"))


@pytest.mark.parametrize("kind", ["dotdot", "absolute", "through a link", "hard link"])
def test_a_hostile_tar_stays_in_its_root(tmp_path: Path, kind: str):
    (tmp_path / "victim").write_text("untouched")
    path = tmp_path / "evil.tar"
    with tarfile.open(path, "w") as archive:
        if kind == "through a link":
            link = tarfile.TarInfo("out")
            link.type, link.linkname = tarfile.SYMTYPE, str(tmp_path)
            archive.addfile(link)
        name = {
            "dotdot": "../../victim",
            "absolute": str(tmp_path / "victim"),
            "through a link": "out/victim",
            "hard link": "h",
        }[kind]
        entry = tarfile.TarInfo(name)
        if kind == "hard link":
            entry.type, entry.linkname = tarfile.LNKTYPE, "../../victim"
            archive.addfile(entry)
        else:
            entry.size = 4
            archive.addfile(entry, io.BytesIO(b"evil"))
    with suppress(ConfigError, tarfile.TarError, OSError):  # refused, or unpacked to somewhere harmless
        ImageStore(tmp_path / "images").add(path)
    assert (tmp_path / "victim").read_text() == "untouched"
    assert (tmp_path / "victim").stat().st_nlink == 1


def test_modes_and_times_of_an_image_are_kept(tmp_path: Path):
    with tarfile.open(tmp_path / "image.tar", "w") as archive:
        for name, mode, kind in (("tmp", 0o1777, tarfile.DIRTYPE), ("su", 0o4755, tarfile.REGTYPE), ("a/b/f", 0, b"0")):
            entry = tarfile.TarInfo(name)
            entry.mode, entry.type, entry.mtime = mode, kind, 981173106
            archive.addfile(entry)
    store = ImageStore(tmp_path / "images")
    root = store.root(store.add(tmp_path / "image.tar"))

    modes = [oct((root / name).stat().st_mode & 0o7777) for name in ("tmp", "su", "a", "a/b", "a/b/f")]
    own = "0o4755" if os.geteuid() == 0 else "0o755"  # a setuid program would be this user's own
    assert modes == ["0o1777", own, "0o755", "0o755", "0o644"]
    assert [(root / name).stat().st_mtime for name in ("tmp", "su", "a/b/f")] == [981173106] * 3


@pytest.mark.parametrize(
    "entries",
    [
        [("a", "dir", ""), ("a/b", "dir", ""), ("a", "link", "$OUTSIDE"), ("x", "file", "")],
        [("a", "link", "$OUTSIDE"), ("a/.wh.b", "file", "")],
        [("a", "link", "$OUTSIDE"), ("a/.wh..wh..opq", "file", "")],
        [(".wh...", "file", "")],
        [("a", "dir", ""), ("a/.wh...", "file", "")],
        [(".", "file", "")],
        [("h", "hard", "$OUTSIDE/b")],
        [("a", "link", "$OUTSIDE"), ("h", "hard", "a/b/f")],
        [("a", "link", "$OUTSIDE"), ("a/b", "dir", "")],
        [("a", "link", "$OUTSIDE"), ("a/b/f", "file", "")],
    ],
)
def test_nothing_outside_an_image_is_touched(tmp_path: Path, entries: list[tuple[str, str, str]]):
    """Removed, given to others, or opened to others: whatever a tar says, and in whatever order."""
    outside = tmp_path / "outside"
    (outside / "b").mkdir(parents=True, mode=0o700)
    (outside / "b" / "f").write_text("untouched")
    kinds = {"dir": tarfile.DIRTYPE, "link": tarfile.SYMTYPE, "file": tarfile.REGTYPE, "hard": tarfile.LNKTYPE}
    with tarfile.open(tmp_path / "evil.tar", "w") as archive:
        for name, kind, target in entries:
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode, entry.uid = kinds[kind], 0o777, 7
            entry.linkname = target.replace("$OUTSIDE", str(outside))
            archive.addfile(entry)

    def look() -> list[tuple[int, int, int]]:
        found = [path.lstat() for path in (outside, outside / "b", outside / "b" / "f")]
        return [(each.st_mode, each.st_uid, each.st_nlink) for each in found]

    before = look()
    with suppress(ConfigError):
        ImageStore(tmp_path / "images").add(tmp_path / "evil.tar")
    assert look() == before
    assert (outside / "b" / "f").read_text() == "untouched"


@pytest.mark.parametrize("where", ["index", "manifest", "config", "layer", "link"])
def test_a_layout_shows_no_file_of_this_machine(root: Path, tmp_path: Path, where: str):
    (tmp_path / "secret.json").write_text('{"config": {"Env": ["SECRET=of this machine"]}, "layers": []}')
    layout = make_oci(root, tmp_path / "oci")
    blobs = layout / "blobs" / "sha256"
    index = json.loads((layout / "index.json").read_text())
    manifest = json.loads((blobs / index["manifests"][0]["digest"].removeprefix("sha256:")).read_text())
    away = "sha256:../../../secret.json"
    if where == "index":
        index["manifests"][0]["digest"] = away
        (layout / "index.json").write_text(json.dumps(index))
    elif where == "link":
        config = blobs / manifest["config"]["digest"].removeprefix("sha256:")
        config.unlink()
        config.symlink_to(tmp_path / "secret.json")
    elif where in ("config", "layer"):
        (manifest["config"] if where == "config" else manifest["layers"][0])["digest"] = away
        (blobs / "changed").write_text(json.dumps(manifest))
        index["manifests"][0]["digest"] = "sha256:changed"
        (layout / "index.json").write_text(json.dumps(index))
    else:
        (layout / "index.json").unlink()
        (layout / "oci-layout").unlink()
        (layout / "manifest.json").write_text(json.dumps([{"Layers": [], "Config": "../secret.json"}]))
        make_tar(layout, tmp_path / "saved.tar")
        layout = tmp_path / "saved.tar"
    with pytest.raises(ConfigError, match="has no file"):
        ImageStore(tmp_path / "images").add(layout)


async def test_an_image_nobody_has_says_how_to_add_it():
    with pytest.raises(SandboxStartError, match="vf-image add"):
        async with start_sandbox("local", SandboxSpec(image="no/such:image")):
            pass


class TestImageConformance(SandboxConformance):
    """The whole contract on an unpacked image instead of this machine's toolchain."""

    @pytest.fixture(autouse=True)
    def on_image(self, root: Path, monkeypatch):
        monkeypatch.setattr(type(self), "spec", replace(SandboxConformance.spec, rootfs=root))


class TestImageSnapshots(SnapshotConformance):
    """Snapshots that lie over an unpacked image."""

    @pytest.fixture(autouse=True)
    def on_image(self, root: Path, monkeypatch):
        monkeypatch.setattr(type(self), "spec", replace(SnapshotConformance.spec, rootfs=root))


MAKING = """
import sys, time
from pathlib import Path
from verifiers.sandboxes.local.images import ImageStore
with ImageStore(Path(sys.argv[1])).staging() as folder:
    (folder / "half").write_text("made")
    print(folder, flush=True)
    time.sleep(600)
"""


def test_what_a_killed_process_was_making_is_removed_and_nothing_else(tmp_path: Path):
    store = ImageStore(tmp_path)
    source = str(Path(__file__).parents[2] / "src")
    argv, env = [sys.executable, "-c", MAKING, str(tmp_path)], {**os.environ, "PYTHONPATH": source}
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=env) as maker:
        assert maker.stdout is not None
        folder = Path(maker.stdout.readline().strip())
        os.utime(folder, (0, 0))
        store.prune(keep=lambda image: True)
        assert (folder / "half").read_text() == "made"

        maker.kill()
        maker.wait()
        store.prune(keep=lambda image: True)

    assert not list(tmp_path.iterdir())


def test_images_are_open_to_the_users_of_boxes_whatever_the_umask(tmp_path: Path):
    with tarfile.open(tmp_path / "image.tar", "w") as archive:
        archive.addfile(tarfile.TarInfo("a/b/file"))
    store, old = ImageStore(tmp_path / "images"), os.umask(0o077)
    try:
        root = store.root(store.add(tmp_path / "image.tar"))
    finally:
        os.umask(old)

    assert {path.stat().st_mode & 0o777 for path in (root, root / "a", root / "a" / "b")} == {0o755}
