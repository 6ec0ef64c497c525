"""What callers of `evaluate` and `generate` are told while a run goes on."""

import json

import pytest

import verifiers as vf
from verifiers.envs.callbacks import Callbacks
from verifiers.errors import ConfigError, ModelError
from verifiers.harnesses.chat import ChatHarness
from verifiers.rollout.run import Work

ROWS = [{"question": f"q{number}", "answer": str(number), "level": {"deep": number}} for number in range(3)]


def right(completion, answer):
    return float(completion[-1]["content"] == answer)


def together(completions):
    return [1.0] * len(completions)


class Told:
    """Keeps what it is told."""

    def __init__(self):
        self.starts, self.steps, self.lines = [], [], []

    def start(self, inputs, left):
        self.starts.append((inputs, left))

    def progress(self, outputs, new, metadata):
        self.steps.append((len(outputs), [output["example_id"] for output in new], metadata))

    @property
    def keywords(self):
        return {"on_start": self.start, "on_progress": self.progress, "on_log": self.lines.append}


def env(function=right):
    return vf.SingleTurnEnv(dataset=ROWS, rubric=vf.Rubric([function]))


async def test_the_start_names_every_rollout_and_those_to_be_run():
    told = Told()
    await env().evaluate(vf.ScriptedModel(["1"]), rollouts_per_example=2, max_concurrent=1, **told.keywords)
    ((inputs, left),) = told.starts

    assert [row["example_id"] for row in inputs] == [0, 1, 2, 0, 1, 2]
    assert [[row["example_id"] for row in rows] for rows in left] == [[0, 0], [1, 1], [2, 2]]
    assert inputs[1]["prompt"] == [{"role": "user", "content": "q1"}]
    assert (inputs[1]["question"], inputs[1]["answer"]) == ("q1", "1")
    assert told.lines == []


async def test_progress_has_everything_so_far_what_is_new_and_the_sums():
    told = Told()
    await env().evaluate(vf.ScriptedModel(["1"]), max_concurrent=1, **told.keywords)

    assert [(count, new) for count, new, _ in told.steps] == [(1, [0]), (2, [1]), (3, [2])]
    averages = [metadata["avg_reward"] for _, _, metadata in told.steps]
    assert averages == [0.0, 0.5, pytest.approx(1 / 3)]
    metadata = told.steps[-1][2]
    assert isinstance(metadata, dict)
    assert json.loads(json.dumps(metadata)) == dict(metadata) == {**metadata}
    assert (metadata["n_scored"], metadata.get("nothing"), "model" in metadata) == (3, None, True)


async def test_an_unscored_rollout_is_progress_without_a_reward():
    told = Told()
    await env().evaluate(vf.ScriptedModel([ModelError("down")]), num_examples=1, **told.keywords)

    ((count, new, metadata),) = told.steps
    assert (count, new, metadata["avg_reward"], metadata["n_unscored"]) == (1, [0], None, 1)


async def test_a_group_that_is_judged_together_is_one_step():
    told = Told()
    await env(together).evaluate(vf.ScriptedModel(["x"]), rollouts_per_example=2, max_concurrent=1, **told.keywords)

    assert [(count, new) for count, new, _ in told.steps] == [(2, [0, 0]), (4, [1, 1]), (6, [2, 2])]


async def test_several_callbacks_and_generate():
    first, second = Told(), Told()
    both = [first.progress, second.progress]
    await env().generate([ROWS[0], ROWS[2]], vf.ScriptedModel(["x"]), on_progress=both, on_start=first.start)

    assert len(first.steps) == len(second.steps) == 2
    assert [len(rows) for rows in first.starts[0]] == [2, 2]


async def test_a_continued_run_tells_of_what_is_left(tmp_path):
    interrupted, told, done = Told(), Told(), Told()
    replies = iter(["0", "0", ModelError("down"), ModelError("down"), "1", "2"])
    model = vf.ScriptedModel(lambda *_: next(replies))
    asked = {"results_path": tmp_path / "run", "max_concurrent": 1}
    await env().evaluate(model, **asked, **interrupted.keywords)
    results = await env().evaluate(model, **asked, **told.keywords)
    ((inputs, left),) = told.starts

    assert [count for count, _, _ in interrupted.steps] == [1, 2, 3]
    assert len(inputs) == 3
    assert [[row["example_id"] for row in rows] for rows in left] == [[2]]
    assert [(count, new) for count, new, _ in told.steps] == [(3, [2])]
    assert told.steps[-1][2]["n_unscored"] == 1
    assert len(results["outputs"]) == 3
    assert [str(tmp_path / "run") in line for line in told.lines] == [True] * 3
    assert "2 finished rollouts are kept" in told.lines[0]

    await env().evaluate(model, **asked, **done.keywords)
    assert [len(left) for _, left in done.starts] == [1]


async def test_nothing_starts_where_everything_is_finished():
    told, world = Told(), env()
    work = Work(world, world.rubric_for, vf.ScriptedModel(["x"]), ChatHarness(), rollouts_per_example=2)
    tasks = list(world.tasks().select())
    Callbacks(on_start=told.start).started(work, tasks, lambda task, number: True)
    assert told.starts == []

    Callbacks(on_start=told.start).started(work, tasks, lambda task, number: (task.example_id, number) != (1, 1))
    assert [len(rows) for rows in told.starts[0]] == [6, 1]


async def test_rows_that_a_callback_changes_are_its_own():
    def spoil(inputs, left):
        for row in inputs:
            row["level"]["deep"] = None
            row["prompt"].clear()

    def deep(level):
        return float(level["deep"])

    results = await env(deep).evaluate(vf.ScriptedModel(["x"]), on_start=spoil)
    assert results["reward"] == [0.0, 1.0, 2.0]


async def test_what_a_callback_raises_ends_the_run():
    def fall(outputs, new, metadata):
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        await env().evaluate(vf.ScriptedModel(["x"]), on_progress=fall)


async def test_a_misspelt_callback_is_refused():
    with pytest.raises(ConfigError, match="did you mean 'on_progress'"):
        await env().evaluate(vf.ScriptedModel(["x"]), on_progres=print)
