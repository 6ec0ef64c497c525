"""The embedded model through the command: the same seed gives the same numbers, at any concurrency."""

import json
from pathlib import Path
from typing import Any

import pytest

import needs
from e2e.commands import vf_eval

pytestmark = [needs.LOCAL_MODEL, pytest.mark.timeout(900)]  # four runs of a model on the processor


def measured(folder: Path, *options: str) -> dict[str, Any]:
    """Reward and text of every rollout, and what was said about the run."""
    folder.mkdir()
    arguments = ["arithmetic", "-n", "4", "-r", "2", "-t", "48", "--json", *options]
    done = vf_eval(*arguments, cwd=folder, timeout_s=550)
    assert done.returncode == 0, done.stderr
    run_dir = folder / json.loads(done.stdout.splitlines()[-1])["run_dir"]
    rows = [json.loads(line) for line in (run_dir / "results.jsonl").read_text().splitlines()]
    texts = {(row["example_id"], row["rollout_id"]): (row["reward"], row["completion"][-1]["content"]) for row in rows}
    return {"said": done.stderr, "rollouts": texts}


def test_the_same_seed_gives_the_same_rollouts_at_any_concurrency(tmp_path: Path):
    first = measured(tmp_path / "a", "--seed", "11", "-c", "4")
    again = measured(tmp_path / "b", "--seed", "11", "-c", "4")
    alone = measured(tmp_path / "c", "--seed", "11", "-c", "1")
    other = measured(tmp_path / "d", "--seed", "12", "-c", "4")

    assert "as no endpoint is configured" in first["said"]
    assert len(first["rollouts"]) == 8
    assert first["rollouts"] == again["rollouts"] == alone["rollouts"]
    assert first["rollouts"] != other["rollouts"]
