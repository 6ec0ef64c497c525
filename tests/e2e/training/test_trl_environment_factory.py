"""TRL's own tool loop over an environment's tools."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from verifiers.envs.tool_env import ToolEnv
from verifiers.errors import ConfigError
from verifiers.rubrics.rubric import Rubric
from verifiers.training import trl as vf_trl
from verifiers.training.tiny import byte_tokenizer, tiny_model

NEEDS = "pip install torch==2.13.0 && pip install 'verifiers[train]'"
torch = pytest.importorskip("torch", reason=NEEDS)
trl = pytest.importorskip("trl", reason=NEEDS)
pytestmark = [
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.timeout(900),
]

LFM = (
    *("<|im_start|>", "<|im_end|>", "<|endoftext|>", "<|startoftext|>"),
    *("<|tool_list_start|>", "<|tool_list_end|>", "<|tool_call_start|>", "<|tool_call_end|>"),
    *("<|tool_response_start|>", "<|tool_response_end|>"),
)


def add(a: int, b: int = 1) -> int:
    """Add.

    Args:
        a: one number.
        b: another.
    """
    return a + b


def digits(completion) -> float:
    return sum(letter.isascii() and letter.isdigit() for letter in completion[-1]["content"] or "") / 8


def used(completion, state) -> float:
    return float(any(message["role"] == "tool" and message["content"] == "5" for message in completion))


def tool_env(reward) -> ToolEnv:
    return ToolEnv(
        tools=[add], dataset=[{"question": f"q{n}", "answer": ""} for n in range(8)], rubric=Rubric([reward])
    )


def test_tools_are_methods_with_the_schema_trl_reads():
    from transformers.utils import get_json_schema

    env = tool_env(used)
    (row,) = list(vf_trl.dataset(env, n=1))
    world = vf_trl.environment_factory(env)()
    public = [n for n, _ in inspect.getmembers(type(world), predicate=inspect.isfunction) if not n.startswith("_")]
    assert sorted(public) == ["add", "reset"]
    schema = get_json_schema(world.add)["function"]
    assert schema["parameters"]["properties"]["a"] == {"type": "integer", "description": "one number."}
    assert schema["parameters"]["required"] == ["a"]

    assert world.reset(**row) is None
    assert world.add(2, b=3) == "5"
    assert "integer" in world.add(a="two"), "the model reads why its call failed"
    completion = [
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"type": "function", "function": {"name": "add", "arguments": {"a": 2, "b": 3}}}],
        },
        {"role": "tool", "name": "add", "content": "5"},
        {"role": "assistant", "content": "five"},
    ]
    (reward,) = vf_trl.reward_funcs(env)
    assert reward([row["prompt"]], [completion], environments=[world]) == [1.0]


def test_an_environment_without_tools_is_refused():
    from verifiers.envs.singleturn_env import SingleTurnEnv

    with pytest.raises(ConfigError, match="rollout_func"):
        vf_trl.environment_factory(SingleTurnEnv(dataset=[{"question": "q", "answer": ""}], rubric=Rubric([digits])))


def test_reward_rises_through_trl_s_tool_loop(tmp_path, monkeypatch):
    monkeypatch.setenv("TRL_EXPERIMENTAL_SILENCE", "1")
    torch.set_num_threads(2)
    env = tool_env(digits)
    template = (Path(trl.__file__).parent / "chat_templates" / "lfm2_v2.jinja").read_text()
    tokenizer = byte_tokenizer(LFM, chat_template=template)
    trainer = trl.GRPOTrainer(
        model=tiny_model(tokenizer),
        reward_funcs=vf_trl.reward_funcs(env),
        args=trl.GRPOConfig(
            output_dir=str(tmp_path),
            per_device_train_batch_size=16,
            num_generations=8,
            max_completion_length=8,
            max_steps=40,
            gradient_checkpointing=False,
            learning_rate=1.5e-2,
            lr_scheduler_type="constant",
            logging_steps=1,
            report_to=[],
            save_strategy="no",
            use_cpu=True,
            bf16=False,
            temperature=1.0,
            disable_tqdm=True,
            seed=0,
            max_tool_calling_iterations=1,
        ),
        train_dataset=vf_trl.dataset(env),
        processing_class=tokenizer,
        environment_factory=vf_trl.environment_factory(env),
    )
    trainer.train()

    rewards = [entry["reward"] for entry in trainer.state.log_history if "reward" in entry]
    assert rewards[0] < 0.15
    assert rewards[-1] > 0.9
