"""`vf-export` on a run that was really made."""

import json

import pytest

from e2e.commands import vf_eval
from e2e.loopback import serve
from verifiers.cli.export import main
from verifiers.envs.singleturn_env import SingleTurnEnv
from verifiers.models.scripted import ScriptedModel
from verifiers.rubrics.rubric import Rubric
from verifiers.training.exports import write


@pytest.fixture
async def run(tmp_path):
    replies = iter(["good", "bad", "good", "worse"])

    def right(completion) -> float:
        return float(completion[-1]["content"] == "good")

    env = SingleTurnEnv(dataset=[{"question": f"q{n}", "answer": ""} for n in range(2)], rubric=Rubric([right]))
    model = ScriptedModel(lambda *_: next(replies))
    folder = tmp_path / "run"
    await env.evaluate(model, rollouts_per_example=2, results_path=folder, max_concurrent=1)
    return folder


async def test_each_format(run, capsys):
    assert main([str(run), "--format", "sft", "--min-reward", "1"]) == 0
    assert "2 examples from 2 of 4 rollouts" in capsys.readouterr().out
    lines = [json.loads(line) for line in (run / "sft.jsonl").read_text().splitlines()]
    assert [line["completion"][0]["content"] for line in lines] == ["good", "good"]

    assert main([str(run), "--format", "dpo", "-o", str(run / "pairs.jsonl")]) == 0
    pairs = [json.loads(line) for line in (run / "pairs.jsonl").read_text().splitlines()]
    assert [(pair["chosen"][0]["content"], pair["rejected"][0]["content"]) for pair in pairs] == [
        ("good", "bad"),
        ("good", "worse"),
    ]
    assert main([str(run), "--format", "kto"]) == 0
    assert main([str(run), "--format", "rows"]) == 2
    assert "keep_tokens" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        main([str(run), "--format", "stf"])
    assert "argument --format: unknown 'stf'; did you mean 'sft'?" in capsys.readouterr().err
    assert main([str(run / "nowhere")]) == 2


async def test_nothing_to_write_is_said_and_writes_nothing(run, capsys):
    assert main([str(run), "--min-reward", "2"]) == 2
    assert "of 4 rollouts 4 are scored and 0 of those fit" in capsys.readouterr().err
    assert main([str(run), "--format", "dpo", "--min-gap", "2"]) == 2
    assert "no task among 4 rollouts has two whose rewards differ enough" in capsys.readouterr().err
    assert not (run / "dpo.jsonl").exists()
    assert main([str(run.parent)]) == 2
    assert "is no run folder" in capsys.readouterr().err


def test_token_ids_that_an_evaluation_kept_become_rows(tmp_path, capsys):
    def reply(body):
        assert body["return_token_ids"] is True
        choice = {"index": 0, "message": {"role": "assistant", "content": "9"}, "finish_reason": "stop"}
        return (200, {}, {"choices": [{**choice, "token_ids": [7, 8]}], "prompt_token_ids": [1, 2, 3]})

    sampling = ["-S", '{"return_token_ids": true}']
    with serve(reply) as server:
        asked = ["arithmetic", "-m", "m", "-b", server.url, "-n", "1", "-r", "1", "-o", "out", "--keep-tokens"]
        done = vf_eval(*asked, *sampling, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (folder,) = (tmp_path / "out").glob("*/*")
    assert main([str(folder), "--format", "rows"]) == 0, capsys.readouterr().err
    row = json.loads((folder / "rows.jsonl").read_text())
    assert row["ids"] == [1, 2, 3, 7, 8]


async def test_stdout_takes_the_examples_alone(run, capsysbinary):
    assert main([str(run), "--min-reward", "1", "-o", "-"]) == 0
    said = capsysbinary.readouterr()
    assert [json.loads(line)["completion"][0]["content"] for line in said.out.splitlines()] == ["good", "good"]
    assert said.err == b"2 examples from 2 of 4 rollouts\n"
    assert main([str(run), "--to", "parquet", "-o", "-"]) == 2


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("--best-of=0", "0 must be at least 1"),
        ("--max-total=-1", "-1 must be at least 1"),
        ("--max-per-task=x", "invalid count value: 'x'"),
        ("--min-reward=nan", "'nan' is no number to compare with"),
    ],
)
async def test_numbers_that_choose_nothing_are_refused(run, capsys, option, said):
    with pytest.raises(SystemExit, match="2"):
        main([str(run), option])
    assert said in capsys.readouterr().err


async def test_an_export_that_breaks_leaves_what_was_there(run, tmp_path):
    path = tmp_path / "data.jsonl"
    path.write_text("old")

    def breaking():
        yield {"prompt": "x"}
        raise OSError("no room")

    with pytest.raises(OSError, match="no room"):
        write(breaking(), path)
    assert path.read_text() == "old"
    assert [each.name for each in tmp_path.glob("*data*")] == ["data.jsonl"]
