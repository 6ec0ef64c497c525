"""Asynchronous GRPO: our rollout worker and TRL's real trainer, on a CPU.

Two things of the trainer exist on GPUs only and are replaced: its attention kernel, by the same function in plain
torch, and its look-up of the GPU's peak speed.
"""

from __future__ import annotations

import asyncio
import itertools
import queue
import time

import pytest

from verifiers.envs.singleturn_env import SingleTurnEnv
from verifiers.models.token_model import Sampled
from verifiers.renderers.chatml import ChatML
from verifiers.rubrics.rubric import Rubric
from verifiers.training import trl as vf_trl
from verifiers.training.rows import rows
from verifiers.training.tiny import byte_tokenizer, tiny_model
from verifiers.training.trl.workers import WorkerError
from waiting import blocked_until

NEEDS = "pip install torch==2.13.0 && pip install 'verifiers[train]'"
torch = pytest.importorskip("torch", reason=NEEDS)
pytest.importorskip("trl", reason=NEEDS)
pytestmark = [
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.timeout(900),
]


def digits(completion) -> float:
    return sum(letter.isascii() and letter.isdigit() for letter in completion[-1]["content"] or "") / 8


def env_of_digits() -> SingleTurnEnv:
    return SingleTurnEnv(dataset=[{"question": f"n{i}", "answer": ""} for i in range(16)], rubric=Rubric([digits]))


class PlainAttention:
    """Attention over packed sequences, as the kernel defines it: the last query sees the last key."""

    @staticmethod
    def flash_attn_varlen_func(q, k, v, starts_q, starts_k, most_q, most_k, softmax_scale=None, **_):
        made, repeat = torch.empty_like(q), q.shape[1] // k.shape[1]
        for at in range(len(starts_q) - 1):
            mine, theirs = slice(starts_q[at], starts_q[at + 1]), slice(starts_k[at], starts_k[at + 1])
            keys, values = (x[theirs].repeat_interleave(repeat, 1).transpose(0, 1) for x in (k, v))
            queries = q[mine].transpose(0, 1)
            n, m = queries.shape[1], keys.shape[1]
            mask = torch.ones(n, m, dtype=torch.bool).tril(m - n)
            attention = torch.nn.functional.scaled_dot_product_attention
            made[mine] = attention(queries, keys, values, attn_mask=mask, scale=softmax_scale).transpose(0, 1)
        return made


def test_reward_rises_with_rollouts_beside_training(tmp_path, monkeypatch):
    from trl.experimental.async_grpo import AsyncGRPOConfig, AsyncGRPOTrainer, async_grpo_trainer, packing

    monkeypatch.setattr(packing, "_flash_attn", lambda: PlainAttention)
    monkeypatch.setattr(async_grpo_trainer, "get_peak_flops_per_device", lambda *_: None)
    monkeypatch.setenv("TRL_EXPERIMENTAL_SILENCE", "1")
    torch.set_num_threads(2)
    env, tokenizer = env_of_digits(), byte_tokenizer()
    model = tiny_model(tokenizer)
    model.save_pretrained(tmp_path / "model")
    args = AsyncGRPOConfig(
        output_dir=str(tmp_path / "out"),
        per_device_train_batch_size=32,
        num_generations=8,
        max_completion_length=8,
        max_steps=60,
        learning_rate=1.5e-2,
        lr_scheduler_type="constant",
        logging_steps=1,
        report_to=[],
        save_strategy="no",
        use_cpu=True,
        bf16=False,
        temperature=1.0,
        disable_tqdm=True,
        token_budget=0,
        weight_sync_steps=1,
        max_staleness=2,
        gradient_checkpointing=False,
    )
    policy, records = vf_trl.LocalPolicy(model), []
    worker = vf_trl.rollout_worker(
        env,
        policy.engine(tokenizer),
        ChatML(tokenizer),
        args,
        groups_at_once=4,
        queue_size=32,
        keep_flat=True,
        on_record=records.append,
    )
    trainer = AsyncGRPOTrainer(
        model=str(tmp_path / "model"),
        args=args,
        train_dataset=vf_trl.dataset(env),
        processing_class=tokenizer,
        rollout_worker=worker,
        weight_transfer=policy,
    )
    trainer.train()

    history = [entry for entry in trainer.state.log_history if "reward" in entry]
    assert history[0]["reward"] < 0.12
    assert history[-1]["reward"] > 0.9
    assert 0 < max(entry["sample/staleness_max"] for entry in history) <= 2
    made = [row for record in records if record.error is None for row in rows(record)]
    versions = [span.version for row in made for span in row.versions]
    assert versions[0] == 1, "the trainer sends its weights before the first rollout"
    assert versions[-1] > 40


class Slow:
    """An engine that answers some requests at once and leaves the others hanging."""

    name = "slow"

    def __init__(self) -> None:
        self.asked = 0

    async def sample(self, prompt_ids, sampling, stop_ids) -> Sampled:
        self.asked += 1
        if self.asked % 3 == 0:
            await asyncio.sleep(3600)
        return Sampled([*b"12", *stop_ids[:1]], [-0.1] * 3, "stop")

    def describe(self):
        return {"model": self.name, "kind": "test"}

    async def close(self) -> None: ...


def test_every_rollout_that_was_begun_ends_in_one_record_when_the_worker_stops():
    records = []
    engine = Slow()
    tokenizer = ChatML(byte_tokenizer())
    worker = vf_trl.RolloutWorker(
        env_of_digits(), engine, tokenizer, num_generations=4, groups_at_once=3, on_record=records.append
    )
    worker.start()
    assert blocked_until(lambda: engine.asked >= 12)
    worker.check_health(60)
    started = time.monotonic()
    worker.stop()

    assert time.monotonic() - started < 100
    ended = [(record.example_id, record.rollout_id) for record in records]
    assert len(ended) == len(set(ended)) == 12
    kinds = [str(record.error.kind) for record in records if record.error is not None]
    assert kinds
    assert set(kinds) == {"cancelled"}


def test_a_worker_that_died_says_so():
    class Broken(Slow):
        async def sample(self, prompt_ids, sampling, stop_ids):
            return Sampled([*b"1"], None, "stop")  # no logprobs

    counted = itertools.count()

    def uneven(completion) -> float:
        return float(next(counted) % 2)

    env = SingleTurnEnv(dataset=[{"question": "q", "answer": ""}], rubric=Rubric([uneven]))
    worker = vf_trl.RolloutWorker(env, Broken(), ChatML(byte_tokenizer()), num_generations=2)
    worker.start()
    assert blocked_until(lambda: worker._error is not None)
    with pytest.raises(WorkerError, match="no logprobs"):
        worker.check_health(60)
    worker.stop()
    with pytest.raises(queue.Empty):
        worker.rollout_buffer.get_nowait()
