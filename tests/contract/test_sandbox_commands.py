"""`vf-image` and `vf-sandbox` as a user types them."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from verifiers.cli import image, sandbox
from verifiers.sandboxes import SandboxSpec, start_sandbox
from verifiers.sandboxes.local import LocalBackend, images
from verifiers.sandboxes.local.images import ImageStore


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_images_are_added_listed_and_removed(tmp_path, capsys):
    (tmp_path / "root" / "etc").mkdir(parents=True)
    (tmp_path / "root" / "etc" / "motd").write_text("hello")

    assert image.main(["add", str(tmp_path / "root"), "--name", "tiny:1", "--env", "A=b", "--user", "x"]) == 0
    assert image.main(["ls"]) == 0
    listed = capsys.readouterr().out.splitlines()
    assert listed[-1].split()[-4:] == ["just", "now", "image", "tiny:1"]
    assert image.main(["ls", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["name"], shown["user"], shown["env"]["A"]) == ("tiny:1", "x", "b")
    assert image.main(["add", str(tmp_path / "root" / "etc"), "--name", "tiny:1"]) == 0
    assert image.main(["ls"]) == 0
    assert [line.split()[-1] for line in capsys.readouterr().out.splitlines()[-2:]] == ["-", "tiny:1"]
    assert image.main(["rm", "tiny:1"]) == 0
    assert image.main(["prune"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "removed 0 images, 0 bytes"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["add", "/dev/zero"], "neither a folder nor a file"),
        (["add", "/etc", "--env", "=b"], "not NAME=VALUE"),
        (["prune", "--older-than-days", "-1"], "at least 0"),
        (["prune", "--older-than-days", "nan"], "at least 0"),
    ],
)
def test_what_cannot_be_meant_is_said(arguments, said, capsys):
    assert image.main(arguments) == 2
    assert said in capsys.readouterr().err


def test_an_image_that_two_remove_at_once_is_gone(tmp_path):
    (tmp_path / "root").mkdir()
    store = ImageStore()
    made = store.add(tmp_path / "root", name="one")
    store.remove(made)
    store.remove(made)
    assert store.all() == []


@pytest.mark.parametrize("damage", ["", "{", "[]", "{}", None])
def test_a_damaged_image_is_made_again_or_pruned(tmp_path, capsys, damage):
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "f").write_text("content")
    for repair in (["add", str(tmp_path / "root"), "--name", "one"], ["prune"]):
        assert image.main(["add", str(tmp_path / "root"), "--name", "one"]) == 0
        (written,) = (tmp_path / "cache" / "verifiers" / "images").glob("*/image.json")
        written.unlink()
        if damage is not None:
            written.write_text(damage)
        capsys.readouterr()
        assert image.main(["ls"]) == 0
        assert "one" not in capsys.readouterr().out
        assert image.main(repair) == 0
        assert written.parent.exists() == (repair[0] == "add")
        if written.parent.exists():
            assert (written.parent / "root" / "f").read_text() == "content"


@pytest.mark.parametrize(
    ("size", "said"),
    [(0, "0 bytes"), (999, "999 bytes"), (1000, "1.0 kB"), (149e6, "149 MB"), (9.96e6, "10 MB"), (2.5e12, "2500 GB")],
)
def test_sizes_are_said_in_three_digits(size, said):
    assert image.size_text(size) == said


@pytest.mark.parametrize(("age_s", "said"), [(59, "just now"), (60, "1 minute"), (7300, "2 hours"), (9e5, "10 days")])
def test_ages_are_said_in_words(age_s, said):
    assert image.age_text(age_s) == said


def test_building_without_an_engine_says_what_to_start(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    (tmp_path / "Dockerfile").write_text("FROM scratch\n")
    for argv in (["build", str(tmp_path)], ["add", "docker:some:image"]):
        assert image.main(argv) == 2
        said = capsys.readouterr().err
        assert "install and start Docker or Podman, or name its socket in DOCKER_HOST" in said
        assert said.count("\n") == 1


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["rm", "nothing"], "no image 'nothing'"),
        (["add", ""], "'' names no image"),
        (["add", "docker:"], "'docker:' names no image"),
        (["add", "/etc", "--name", "two\nlines"], "characters that cannot be shown"),
        (["add", "/no/such/path"], "does not exist"),
        (["add", "/etc/passwd"], "neither a folder nor a tar"),
        (["add", "/etc", "--env", "WRONG"], "is not NAME=VALUE"),
        (["add", "docker:x", "--user", "y"], "has its own environment"),
        (["build", "/no/such/path"], "does not exist"),
    ],
)
def test_wrong_use_of_images_is_one_line(argv, said, capsys):
    assert image.main(argv) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


async def test_boxes_of_this_process_are_listed_as_owned(capsys):
    async with start_sandbox("unsafe-local", SandboxSpec()) as box:
        boxes = (await sandbox._found("ls", ["unsafe-local"])).boxes
        sandbox._show(boxes, as_json=True)
        shown = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert [each["owner_alive"] for each in shown if each["id"] == box.id] == [True]
        sandbox._show(boxes, as_json=False)
        assert any(line.split()[1::3] == [box.id, "alive"] for line in capsys.readouterr().out.splitlines())


def test_an_unknown_backend_is_one_line(capsys):
    with pytest.raises(SystemExit, match="2"):
        sandbox.main(["ls", "--backend", "locl"])
    said = capsys.readouterr().err
    assert "unknown 'locl'; did you mean 'local'?" in said
    assert said.count("\n") == 1


@pytest.mark.parametrize(("command", "called"), [(image, images.ImageStore), (sandbox, LocalBackend)])
def test_an_interrupted_command_is_one_line(command, called, monkeypatch, capsys):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(called, "all" if command is image else "ls", interrupted)
    assert command.main(["ls"]) == 130
    assert capsys.readouterr().err.endswith(": interrupted\n")


def test_several_images_are_removed_at_once_and_the_near_name_is_said(tmp_path, capsys):
    for number in (1, 2):
        (tmp_path / "root" / str(number)).mkdir(parents=True)
        assert image.main(["add", str(tmp_path / "root"), "--name", f"tiny:{number}"]) == 0
    capsys.readouterr()
    assert image.main(["ls", "--names"]) == 0
    assert capsys.readouterr().out == "tiny:1\ntiny:2\n"
    assert image.main(["rm", "tiny:"]) == 2
    assert "did you mean 'tiny:" in capsys.readouterr().err
    assert image.main(["rm", "tiny:1", "tiny:2"]) == 0
    assert [line.split()[-1] for line in capsys.readouterr().out.splitlines()] == ["tiny:1", "tiny:2"]


def test_an_image_that_was_added_is_one_object(tmp_path, capsys):
    (tmp_path / "root").mkdir()
    assert image.main(["add", str(tmp_path / "root"), "--name", "one", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["name"] == "one"


def test_no_name_is_lost_when_many_are_given_at_once(tmp_path):
    (tmp_path / "root").mkdir()
    store = ImageStore()
    made = store.add(tmp_path / "root")
    names = [f"name-{number}" for number in range(40)]
    with ThreadPoolExecutor(8) as pool:
        [*pool.map(lambda name: store.name(made, name), names)]
    assert sorted(store.all()[0].names) == sorted(names)


def test_a_listing_obeys_no_name(tmp_path, capsys):
    odd = tmp_path / "two\nlines\x1b[31m"
    odd.mkdir()
    ImageStore().add(odd)
    assert image.main(["ls"]) == 0
    listed = capsys.readouterr().out
    assert listed.count("\n") == 2
    assert "two\\nlines\\x1b[31m" in listed
