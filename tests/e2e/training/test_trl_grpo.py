"""A tiny model trained for real through TRL's GRPO routes, on a CPU."""

from __future__ import annotations

import json
import random

import pytest

from verifiers.envs.multiturn_env import MultiTurnEnv
from verifiers.envs.singleturn_env import SingleTurnEnv
from verifiers.envs.tool_env import ToolEnv
from verifiers.messages import UserMessage
from verifiers.models.token_model import Sampled
from verifiers.renderers.chatml import Qwen3
from verifiers.rubrics.rubric import Rubric
from verifiers.testing.renderers import QWEN
from verifiers.training import trl as vf_trl
from verifiers.training.rows import rows
from verifiers.training.tiny import byte_tokenizer, tiny_model
from verifiers.training.torch_engine import TorchEngine

NEEDS = "pip install torch==2.13.0 && pip install 'verifiers[train]'"
torch = pytest.importorskip("torch", reason=NEEDS)
trl = pytest.importorskip("trl", reason=NEEDS)
pytestmark = [
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.timeout(900),
]


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    monkeypatch.setenv("TRL_EXPERIMENTAL_SILENCE", "1")
    torch.set_num_threads(2)


def digits(completion) -> float:
    """Share of 8 characters that are digits: a random model of 259 tokens begins at about 0.04."""
    return sum(letter.isascii() and letter.isdigit() for letter in completion[-1]["content"] or "") / 8


def config(folder, **changes):
    fields = {
        "output_dir": str(folder),
        "per_device_train_batch_size": 32,
        "num_generations": 8,
        "max_completion_length": 8,
        "learning_rate": 1e-2,
        "lr_scheduler_type": "constant",
        "logging_steps": 1,
        "report_to": [],
        "save_strategy": "no",
        "use_cpu": True,
        "bf16": False,
        "gradient_checkpointing": False,
        "temperature": 1.0,
        "disable_tqdm": True,
        "seed": 0,
        **changes,
    }
    return trl.GRPOConfig(**fields)


def rewards_of(trainer) -> list[float]:
    return [entry["reward"] for entry in trainer.state.log_history if "reward" in entry]


@pytest.mark.parametrize("route", ["reward_funcs", "rollout_func"])
def test_reward_rises_from_nothing_to_nearly_all(route, tmp_path):
    env = SingleTurnEnv(dataset=[{"question": f"n{i}", "answer": ""} for i in range(16)], rubric=Rubric([digits]))
    tokenizer = byte_tokenizer()
    more = {"rollout_func": vf_trl.rollout_func(env)} if route == "rollout_func" else {}
    trainer = trl.GRPOTrainer(
        model=tiny_model(tokenizer),
        reward_funcs=vf_trl.reward_funcs(env),
        args=config(tmp_path, max_steps=24),
        train_dataset=vf_trl.dataset(env),
        processing_class=tokenizer,
        **more,
    )
    trainer.train()

    rewards = rewards_of(trainer)
    assert rewards[0] < 0.12
    assert rewards[-1] > 0.9
    assert any("digits" in name for name in trainer.state.log_history[0])


class Recorded(TorchEngine):
    """The policy's own weights, which begin each rollout with a tool call: a random model would never make one."""

    sampled: list[list[int]]

    def calls_first(self, renderer, dice):
        self.renderer, self.dice, self.sampled = renderer, dice, []
        return self

    async def sample(self, prompt_ids, sampling, stop_ids):
        if "<tool_response>" in self.renderer.tokenizer.decode(prompt_ids):
            made = await super().sample(prompt_ids, {**sampling, "max_tokens": 6}, stop_ids)
        else:
            tokenizer = self.renderer.tokenizer
            call = json.dumps({"name": "lookup", "arguments": {"n": self.dice.randrange(100)}})
            ids = [
                tokenizer.controls["<tool_call>"],
                *tokenizer.encode(f"\n{call}\n"),
                tokenizer.controls["</tool_call>"],
                *stop_ids[:1],
            ]
            made = Sampled(ids, [-0.1] * len(ids), "stop", 0)
        self.sampled.append(made.ids)
        return made


def test_a_tool_environment_trains_on_what_was_sampled_and_on_nothing_else(tmp_path):
    """200 rollouts of two turns with a tool: their trained ids are the sampled ones, id by id."""

    async def lookup(n: int) -> str:
        """Look a number up.

        Args:
            n: which one.
        """
        return f"entry {n}: größer ☃ {'x' * (n % 7)}"

    env = ToolEnv(
        tools=[lookup],
        dataset=[{"question": f"q{i}", "answer": ""} for i in range(25)],
        rubric=Rubric([digits]),
        max_turns=3,
    )
    tokenizer = byte_tokenizer(QWEN)
    renderer = Qwen3(tokenizer, enable_thinking=False)
    engines: list[Recorded] = []
    records = []

    def engine(trainer):
        own = vf_trl.engine_of(trainer)
        own.__class__ = Recorded
        engines.append(own.calls_first(renderer, random.Random(7)))
        return own

    seen: list[dict] = []

    class Watched(trl.GRPOTrainer):
        def _generate_and_score_completions(self, inputs):
            made = super()._generate_and_score_completions(inputs)
            seen.append({name: value.clone() for name, value in made.items() if torch.is_tensor(value)})
            return made

    trainer = Watched(
        model=tiny_model(tokenizer),
        reward_funcs=vf_trl.reward_funcs(env),
        args=config(tmp_path, max_steps=1, per_device_train_batch_size=200, max_completion_length=400),
        train_dataset=vf_trl.dataset(env),
        processing_class=tokenizer,
        rollout_func=vf_trl.rollout_func(env, renderer=renderer, engine=engine, on_records=records.extend),
    )
    trainer.train()

    (batch,) = seen
    loss_mask = (batch["completion_mask"] * batch["tool_mask"]).bool()
    assert loss_mask.shape[0] == len(records) == 200
    trained = [ids[mask].tolist() for ids, mask in zip(batch["completion_ids"], loss_mask, strict=True)]
    sampled = [[n for call in record.trace.calls for n in call.tokens.sampled] for record in records]
    assert trained == sampled
    assert sorted(n for call in engines[0].sampled for n in call) == sorted(n for ids in sampled for n in ids)
    assert all(len(record.trace.calls) >= 2 for record in records), "a tool call, then an answer"
    for record, mask in zip(records, loss_mask, strict=True):
        (row,) = rows(record)
        expected = row.mask[row.prompt_length :]
        assert mask.tolist()[: len(expected)] == expected
        assert not mask[len(expected) :].any()
        given = [n for n, mine in zip(row.ids[row.prompt_length :], expected, strict=True) if not mine]
        assert "größer" in renderer.tokenizer.decode(given), "the tool's result is in the row, and not trained on"


def test_rollouts_without_a_verdict_stay_out_of_the_group(tmp_path):
    """A scorer that breaks on half of a group: its rollouts get no advantage, and the baseline is the others'."""
    turns = iter(range(10_000))

    def shaky(completion) -> float:
        number = next(turns)
        if number % 2:
            raise RuntimeError("no verdict")
        return float(number % 4 == 0)

    class Again(MultiTurnEnv):
        async def env_response(self, messages, state, **_):
            return [UserMessage("again")]

    env = Again(dataset=[{"question": "q", "answer": ""}], rubric=Rubric([shaky]), max_turns=2)
    tokenizer = byte_tokenizer()
    seen: list = []

    class Watched(trl.GRPOTrainer):
        def _generate_and_score_completions(self, inputs):
            made = super()._generate_and_score_completions(inputs)
            seen.append((made["advantages"].tolist(), [row["vf_reward"] for row in inputs]))
            return made

    trainer = Watched(
        model=tiny_model(tokenizer),
        reward_funcs=vf_trl.reward_funcs(env),
        args=config(tmp_path, max_steps=1, per_device_train_batch_size=8, max_completion_length=40),
        train_dataset=vf_trl.dataset(env),
        processing_class=tokenizer,
        rollout_func=vf_trl.rollout_func(env, sampling={"max_tokens": 5}),
    )
    trainer.train()

    advantages, rewards = seen[0]
    assert rewards.count(None) == 4
    assert [advantage == 0.0 for advantage in advantages] == [reward is None for reward in rewards]
