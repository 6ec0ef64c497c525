"""`vf-image` and `vf-sandbox` as a user types them."""

import json

import pytest

from verifiers.cli import image, sandbox
from verifiers.sandboxes import SandboxSpec, start_sandbox


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_images_are_added_listed_and_removed(tmp_path, capsys):
    (tmp_path / "root" / "etc").mkdir(parents=True)
    (tmp_path / "root" / "etc" / "motd").write_text("hello")

    assert image.main(["add", str(tmp_path / "root"), "--name", "tiny:1", "--env", "A=b", "--user", "x"]) == 0
    assert image.main(["ls"]) == 0
    listed = capsys.readouterr().out.splitlines()
    assert listed[-1].split()[-2:] == ["d", "tiny:1"]
    assert image.main(["rm", "tiny:1"]) == 0
    assert image.main(["prune"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "removed 0 images, 0 MB"


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["rm", "nothing"], "no image 'nothing'"),
        (["add", "/no/such/path"], "does not exist"),
        (["add", "/etc/passwd"], "neither a folder nor a tar"),
        (["add", "/etc", "--env", "WRONG"], "is not NAME=VALUE"),
    ],
)
def test_wrong_use_of_images_is_one_line(argv, said, capsys):
    assert image.main(argv) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


async def test_boxes_of_this_process_are_listed_as_owned(capsys):
    async with start_sandbox("unsafe-local", SandboxSpec()) as box:
        boxes = await sandbox._boxes("ls", ["unsafe-local"], all_must_work=True)
        sandbox._show(boxes, as_json=True)
        shown = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert [each["owner_alive"] for each in shown if each["id"] == box.id] == [True]
        sandbox._show(boxes, as_json=False)
        assert "owner alive" in capsys.readouterr().out


def test_an_unknown_backend_is_one_line(capsys):
    assert sandbox.main(["ls", "--backend", "locl"]) == 2
    assert "did you mean 'local'" in capsys.readouterr().err
