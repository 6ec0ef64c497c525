"""Layers out of a stream: what a box could make its keeper say, and what is on the disk after it."""

import io
import json
import os
import stat
from pathlib import Path

import pytest

from verifiers.errors import SandboxError, SandboxLimitError, SandboxLostError
from verifiers.sandboxes.local.layers import OPAQUE, Layer, can_hold_layers

OVER = {"over": True}


def folder(path: str, **more: object) -> dict[str, object]:
    return {"path": path, "mode": stat.S_IFDIR | 0o755, "uid": 0, "gid": 0, "time": 0, "opaque": False, **more}


def file(path: str, content: str = "") -> list[object]:
    line = {"path": path, "mode": stat.S_IFREG | 0o644, "uid": 0, "gid": 0, "time": 0, "size": len(content)}
    return [line, {"data": 0, "length": len(content)}, content]


def link(path: str, target: str) -> dict[str, object]:
    return {"path": path, "mode": stat.S_IFLNK | 0o777, "uid": 0, "gid": 0, "time": 0, "link": target}


def gone(path: str) -> dict[str, object]:
    return {"path": path, "mode": stat.S_IFCHR, "uid": 0, "gid": 0, "time": 0}


def flat(lines: list[object]) -> list[object]:
    return [each for line in lines for each in (line if isinstance(line, list) else [line])]


def receive(root: Path, *lines: object, base: Path | None = None, start: Path | None = None, size: int = 1000) -> None:
    root.mkdir()
    layer = Layer(root, base, max_bytes=size, max_entries=50)
    if start is not None:
        layer.start_from(start)
    data = b"".join(
        each.encode() if isinstance(each, str) else json.dumps(each).encode() + b"\n" for each in flat(list(lines))
    )
    layer.receive(io.BytesIO(data), box="one")


def listing(root: Path) -> dict[str, str]:
    """Path -> content, target of a link, `gone`, or for a folder whether it is opaque."""
    found = {}
    for path in sorted(root.rglob("*")):
        mode = path.lstat().st_mode
        name = str(path.relative_to(root))
        if stat.S_ISDIR(mode):
            found[name] = "opaque" if OPAQUE in os.listxattr(path) else "folder"
        elif stat.S_ISCHR(mode):
            found[name] = "gone"
        else:
            found[name] = os.readlink(path) if stat.S_ISLNK(mode) else path.read_text()
    return found


@pytest.mark.parametrize(
    "lines",
    [
        [link("a", "$OUTSIDE"), *file("a/f", "evil")],
        [folder("a"), *file("a/f", "x"), link("a", "$OUTSIDE"), *file("a/g", "evil")],
        [link("f", "$OUTSIDE/f"), *file("f", "evil")],
        [link("a", "$OUTSIDE"), folder("a"), gone("a/f")],
        [{"path": "h", "hard": "$OUTSIDE/f"}],
        [link("a", "$OUTSIDE"), {"path": "h", "hard": "a/f"}],
        [link("a", "$OUTSIDE/f"), {"path": "h", "hard": "a"}, *file("h", "evil")],
    ],
)
def test_links_lead_nowhere(tmp_path: Path, lines: list[object]):
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o700)
    (outside / "f").write_text("untouched")
    text = json.loads(json.dumps(lines).replace("$OUTSIDE", str(outside)))
    receive(tmp_path / "root", folder(""), *text, OVER)

    assert listing(outside) == {"f": "untouched"}
    assert (outside / "f").stat().st_nlink == 1
    assert stat.S_IMODE(outside.stat().st_mode) == 0o700


@pytest.mark.parametrize("path", ["../x", "a/../../x", "/x", "a//x", "./x", "a\0b", "x" * 3001, "a/" * 201 + "x"])
def test_paths_that_are_none_are_refused(tmp_path: Path, path: str):
    with pytest.raises(SandboxLimitError, match="not copied"):
        receive(tmp_path / "root", folder(""), file(path), OVER)


def test_a_box_cannot_send_more_than_it_can_hold(tmp_path: Path):
    with pytest.raises(SandboxLimitError, match="while it is copied"):
        receive(tmp_path / "a", folder(""), file("f", "x" * 600), file("g", "x" * 600), OVER)
    with pytest.raises(SandboxLimitError, match="new ones all the time"):
        receive(tmp_path / "b", folder(""), *(file(str(n)) for n in range(60)), OVER)
    with pytest.raises(SandboxLimitError):
        receive(tmp_path / "c", folder(""), {**file("f")[0], "size": 1 << 62}, OVER)  # type: ignore[dict-item]


def test_an_end_that_is_none_is_told(tmp_path: Path):
    with pytest.raises(SandboxLostError):
        receive(tmp_path / "a", folder(""))
    with pytest.raises(SandboxLimitError, match="the reason"):
        receive(tmp_path / "b", {"error": "the reason", "refused": True})
    with pytest.raises(SandboxError, match="the reason"):
        receive(tmp_path / "c", {"error": "the reason", "refused": False})


def test_only_what_the_base_has_is_marked_as_gone(tmp_path: Path):
    base = tmp_path / "base"
    for name in ("kept", "cleared", "file"):
        (base / name).mkdir(parents=True)
        (base / name / "f").write_text("")
    (base / "to").symlink_to("kept")
    receive(
        tmp_path / "root",
        folder(""),
        folder("kept"),
        gone("kept/f"),
        gone("kept/never"),
        folder("cleared", opaque=True),
        gone("cleared/f"),
        file("file", "x"),
        folder("to"),
        gone("to/f"),
        gone("nowhere"),
        folder("new", opaque=True),
        OVER,
        base=base,
    )
    assert listing(tmp_path / "root") == {
        "kept": "folder",
        "kept/f": "gone",
        "cleared": "opaque",
        "file": "x",
        "to": "folder",
        "new": "folder",
    }


def test_a_layer_over_a_layer_is_one_layer(tmp_path: Path):
    base, lower, root = (tmp_path / name for name in ("base", "lower", "root"))
    for name in ("a", "b", "c", "d"):
        (base / name).mkdir(parents=True)
        (base / name / "f").write_text("base")
    receive(
        lower,
        folder(""),
        folder("a"),
        file("a/own", "lower"),
        gone("b"),
        folder("c", opaque=True),
        file("c/own", "lower"),
        file("d", "lower"),
        folder("e"),
        file("e/f", "lower"),
        OVER,
        base=base,
    )
    before = listing(lower)
    receive(
        root,
        folder(""),
        folder("a"),
        file("a/own", "root"),
        folder("b"),
        file("b/new", "root"),
        folder("c"),
        gone("c/own"),
        folder("d"),
        gone("e"),
        OVER,
        base=base,
        start=lower,
    )
    assert listing(root) == {
        "a": "folder",
        "a/own": "root",
        "b": "opaque",
        "b/new": "root",
        "c": "opaque",
        "d": "opaque",
    }
    assert listing(lower) == before


def test_modes_of_what_is_shared_between_layers_stay(tmp_path: Path):
    receive(tmp_path / "lower", folder(""), folder("a", mode=stat.S_IFDIR | 0o700), file("a/f", "lower"), OVER)
    line = {**file("a/f", "root")[0], "mode": stat.S_IFREG | 0o600}  # type: ignore[dict-item]
    receive(tmp_path / "root", folder(""), folder("a"), line, *file("a/f", "root")[1:], OVER, start=tmp_path / "lower")
    assert stat.S_IMODE((tmp_path / "lower/a").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "lower/a/f").stat().st_mode) == 0o644
    assert stat.S_IMODE((tmp_path / "root/a/f").stat().st_mode) == 0o600


def test_whether_a_folder_holds_layers_is_tried(tmp_path: Path):
    assert can_hold_layers(tmp_path)
    assert os.listdir(tmp_path) == []
