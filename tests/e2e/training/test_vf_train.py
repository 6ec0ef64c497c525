"""`vf-train` for real: before and after, adapters, a checkpoint continued, SFT on what was sampled, DPO pairs."""

from __future__ import annotations

import json

import pytest

from verifiers.cli.train import main
from verifiers.results.read import read_records
from verifiers.training.exports import examples_of
from verifiers.training.plan import read_plan
from verifiers.training.train import train

NEEDS = "pip install torch==2.13.0 && pip install 'verifiers[train]'"
torch = pytest.importorskip("torch", reason=NEEDS)
trl = pytest.importorskip("trl", reason=NEEDS)
pytestmark = [
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.timeout(900),
]
ENVIRONMENT = '''
import verifiers as vf

def digits(completion) -> float:
    """Share of 8 characters that are digits."""
    return sum(letter.isascii() and letter.isdigit() for letter in completion[-1]["content"] or "") / 8

def load_environment():
    rows = [{"question": f"n{n}", "answer": ""} for n in range(8)]
    return vf.SingleTurnEnv(dataset=rows, rubric=vf.Rubric([digits]))
'''
CONFIG = """
[model]
name = "tiny"
{model}
[env]
id = "{folder}/digits_env.py"
[trainer]
kind = "{kind}"
output_dir = "{folder}/{out}"
[trainer.args]
max_steps = {steps}
per_device_train_batch_size = 32
learning_rate = {rate}
lr_scheduler_type = "constant"
gradient_checkpointing = false
disable_tqdm = true
save_steps = 4
seed = 0
{args}
[evaluation]
rollouts_per_example = 4
max_tokens = 8
{more}
"""
GRPO = "num_generations = 8\nmax_completion_length = 8"


@pytest.fixture
def config(tmp_path, monkeypatch):
    monkeypatch.setenv("TRL_EXPERIMENTAL_SILENCE", "1")
    torch.set_num_threads(2)
    (tmp_path / "digits_env.py").write_text(ENVIRONMENT)

    def write(name="c", *, out="out", kind="grpo", steps=18, rate=1.5e-2, args=GRPO, model="", more=""):
        path = tmp_path / f"{name}.toml"
        fields = {"folder": tmp_path, "out": out, "kind": kind, "steps": steps, "rate": rate}
        path.write_text(CONFIG.format(**fields, args=args, model=model, more=more))
        return path

    return write


def mean(tasks, side) -> float:
    return sum(getattr(task, side) for task in tasks) / len(tasks)


def test_grpo_then_sft_and_dpo_on_its_evaluation(config, tmp_path, capsys):
    report = train(read_plan(config()), say=print)
    assert mean(report.tasks, "before") < 0.15
    assert mean(report.tasks, "after") > 0.9
    logged = [json.loads(line) for line in (tmp_path / "out" / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in logged if "reward" in line] == list(range(1, 19))

    run = tmp_path / "out" / "eval-after"
    more = f'[sft]\nrun = "{run}"\nmin_reward = 0.9\nkeep_truncated = true'
    learned = train(read_plan(config("s", out="sft", kind="sft", steps=30, rate=1e-2, args="", more=more)), say=print)
    assert mean(learned.tasks, "after") > 0.5, "it learned from the ids of the trained model's answers"

    pairs = list(examples_of([*read_records(tmp_path / "out" / "eval-before"), *read_records(run)], "dpo"))
    assert pairs
    assert all([message["role"] for message in pair["chosen"]] == ["assistant"] for pair in pairs)
    from datasets import Dataset

    from verifiers.training.tiny import byte_tokenizer, tiny_model

    keep = ("prompt", "chosen", "rejected")
    args = trl.DPOConfig(
        output_dir=str(tmp_path / "dpo"), max_steps=1, report_to=[], use_cpu=True, bf16=False, save_strategy="no"
    )
    trainer = trl.DPOTrainer(
        model=tiny_model(byte_tokenizer()),
        ref_model=tiny_model(byte_tokenizer()),
        args=args,
        processing_class=byte_tokenizer(),
        train_dataset=Dataset.from_list([{name: pair[name] for name in keep} for pair in pairs]),
    )
    trainer.train()
    assert trainer.state.global_step == 1


def test_adapters_and_a_run_continued_from_its_checkpoint(config, tmp_path, capsys):
    lora = "[model.lora]\nr = 8\n"
    path = config(steps=4, model=lora)
    assert main([str(path), "--json"]) == 0
    assert (tmp_path / "out" / "checkpoint-4").is_dir()
    assert (tmp_path / "out" / "model" / "adapter_config.json").is_file()

    capsys.readouterr()
    assert main([str(config(steps=6, model=lora)), "--resume"]) == 0
    said = capsys.readouterr()
    assert "training from checkpoint-4" in said.err
    assert "mean of 8" in said.out
    steps = [json.loads(line)["step"] for line in (tmp_path / "out" / "metrics.jsonl").read_text().splitlines()]
    assert [step for step in steps if step > 4][:2] == [5, 6]


def test_tasks_outside_the_difficulty_band_are_skipped(config, capsys):
    path = config(steps=1, more="[difficulty]\nrollouts = 4\nlow = 0.95\n")
    assert main([str(path)]) == 2
    assert "no training task is in the difficulty band" in capsys.readouterr().err


def test_an_unknown_trainer_argument_is_named(config, capsys):
    assert main([str(config(args=GRPO + "\nnum_generation = 3"))]) == 2
    assert "did you mean 'num_generations'" in capsys.readouterr().err
