"""A new environment package: made, tested, installed, evaluated."""

import json
import subprocess
import sys
import zipfile
from pathlib import Path

from e2e.commands import ROOT, command, environment, vf_eval
from e2e.loopback import serve


def test_a_new_package_installs_and_evaluates_at_once(tmp_path: Path):
    made = subprocess.run(
        command("init", "capital-city"), cwd=tmp_path, env=environment(), capture_output=True, text=True, check=True
    )
    folder, target = tmp_path / "environments" / "capital_city", tmp_path / "installed"
    own_test = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "tests"],
        cwd=folder,
        env=environment(folder, PYTEST_ADDOPTS="-p no:cacheprovider"),
        capture_output=True,
        text=True,
    )
    install = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(target), str(folder)]
    subprocess.run(install, check=True, capture_output=True, text=True, timeout=200)
    with serve("Paris, Tokyo or Cairo.") as server:
        options = ["-m", "mock", "-b", server.url, "--json"]
        by_name = vf_eval("capital-city", *options, cwd=target.parent, paths=(target,))
        by_path = vf_eval("./environments/capital_city", *options, cwd=tmp_path)

    assert "vf-eval capital-city" in made.stdout
    assert own_test.returncode == 0, own_test.stdout
    for done in (by_name, by_path):
        assert done.returncode == 0, done.stderr
        result = json.loads(done.stdout.splitlines()[-1])
        assert (result["env"], result["reward"], result["n"]) == ("capital-city", 1.0, 9)
    assert "capital-city 0.1.0 (package:" in by_name.stderr


def test_the_packages_own_defaults_apply_where_nobody_says_otherwise(tmp_path: Path):
    subprocess.run(command("init", "mine"), cwd=tmp_path, env=environment(), check=True, capture_output=True)
    manifest = tmp_path / "environments" / "mine" / "pyproject.toml"
    manifest.write_text(manifest.read_text().replace("rollouts_per_example = 3", "rollouts_per_example = 5"))
    with serve("Paris") as server:
        options = ["./environments/mine", "-m", "mock", "-b", server.url, "--json"]
        default = vf_eval(*options, cwd=tmp_path)
        chosen = vf_eval(*options, "-r", "1", cwd=tmp_path)
    counts = [json.loads(done.stdout.splitlines()[-1])["n"] for done in (default, chosen)]

    assert counts == [15, 3]


def test_the_wheel_brings_the_template_and_the_types(tmp_path: Path):
    build = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(tmp_path), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True, text=True, timeout=200)
    (wheel,) = tmp_path.glob("verifiers-*.whl")
    target = tmp_path / "installed"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(target)
    made = subprocess.run(
        command("init", "mine"),
        cwd=tmp_path,
        env={**environment(), "PYTHONPATH": str(target)},
        capture_output=True,
        text=True,
    )

    assert made.returncode == 0, made.stderr
    assert (tmp_path / "environments" / "mine" / "mine.py").is_file()
    assert (target / "verifiers" / "py.typed").is_file()
    assert (target / "verifiers" / "__init__.pyi").is_file()
