"""What a reward function asks for is checked before anything is generated, and refused only where it is certain."""

import functools
import re
from pathlib import Path

import pytest
from datasets import Dataset

import verifiers as vf
from verifiers.envs.arguments import OF_THE_ENGINE
from verifiers.errors import ConfigError
from verifiers.harnesses.chat import ChatHarness

ROWS = [{"question": "q", "answer": "a", "level": 1}]
SOURCE = Path(vf.__file__).parent


def calls_of(env: vf.Environment) -> int:
    """Evaluates; how often the model was asked."""
    calls = 0

    def reply(messages, tools, sampling):
        nonlocal calls
        calls += 1
        return "a"

    try:
        env.evaluate_sync(vf.ScriptedModel(reply))
    finally:
        calls_of.last = calls
    return calls


def refused(env: vf.Environment) -> str:
    with pytest.raises(ConfigError) as caught:
        calls_of(env)
    assert calls_of.last == 0, "nothing was generated"
    return str(caught.value)


def single(*functions, rows=ROWS, **options):
    return vf.SingleTurnEnv(dataset=rows, rubric=vf.Rubric([*functions]), **options)


class Talk(vf.MultiTurnEnv):
    """Somebody's own environment: it puts `board` into the state, and calls the reply's length by another name."""

    def __init__(self, *functions, rows=ROWS):
        super().__init__(dataset=rows, rubric=vf.Rubric([*functions]), max_turns=1)

    async def setup_state(self, state):
        state["board"] = 3
        state["parsed"] = 4
        return state

    async def env_response(self, messages, state, **_):
        return []


def wrong(completon, answer):
    return 1.0


def test_the_error_names_function_argument_nearest_name_and_what_there_is():
    assert refused(single(wrong)) == (
        "reward function 'wrong' asks for 'completon', which nothing gives it; did you mean 'completion'?"
        " It can have: prompt, completion, answer, state, task, info, parser, level, question"
    )


def test_a_name_like_no_other_is_refused_where_nobody_could_provide_it():
    def unheard_of(completion, temperature_of_the_room):
        return 1.0

    assert "'temperature_of_the_room', which nothing gives it. It can have: " in refused(single(unheard_of))


async def test_generate_and_commands_check_too():
    with pytest.raises(ConfigError, match="'completon'"):
        await single(wrong).generate(ROWS, vf.ScriptedModel(["a"]))
    env = single(wrong)
    assert env.tasks().is_sized
    with pytest.raises(ConfigError, match="'completon'"):
        env.check_rubric(None, ChatHarness())


@pytest.mark.parametrize("rows", [ROWS, Dataset.from_list(ROWS), lambda: ROWS, lambda: iter(ROWS)])
def test_columns_are_known_wherever_tasks_come_from(rows):
    def reads(level, question, example_id, completion):
        return float(level)

    env = single(reads, rows=rows)
    assert env.evaluate_sync(vf.ScriptedModel(["a"]), num_examples=1)["reward"] == [1.0]


def test_a_column_that_only_some_rows_have_is_known():
    def reads(level):
        return float(level)

    env = single(reads, rows=[*ROWS, {"question": "r"}])
    assert env.evaluate_sync(vf.ScriptedModel(["a"]))["reward"] == [1.0, None]


def test_defaults_keywords_class_objects_and_partials_are_no_mistake():
    def with_default(completion, completon=None):
        return 1.0

    def with_keywords(completion, **everything):
        return 1.0

    def with_object(judge_of_mine):
        return judge_of_mine

    env = single(with_default, with_keywords, with_object, functools.partial(wrong, completon="x"), lambda: 1.0)
    env.rubric.add_class_object("judge_of_mine", 2.0)
    assert calls_of(env) == 1


def test_what_an_environment_may_put_into_the_state_is_not_refused():
    assert calls_of(Talk(lambda board: board, lambda parsed: parsed)) == 1

    def unheard_of(temperature_of_the_room):
        return 1.0

    assert calls_of(Talk(unheard_of)) == 1


def test_a_likely_misspelling_is_refused_in_anybodys_environment():
    def misspelt(complition):
        return 1.0

    assert "did you mean 'completion'?" in refused(Talk(misspelt))


def test_what_another_function_may_put_into_the_state_is_not_refused():
    def first(state):
        state["grade"] = 0.5
        return 1.0

    def second(grade):
        return grade

    assert single(first, second).evaluate_sync(vf.ScriptedModel(["a"]))["reward"] == [1.5]


def test_what_a_harness_may_put_into_the_state_is_not_refused():
    class Mine(ChatHarness):
        async def run(self, session):
            session.state["mine"] = 1.0
            await super().run(session)

    env = single(lambda mine: mine)
    assert env.evaluate_sync(vf.ScriptedModel(["a"]), harness=Mine())["reward"] == [1.0]


def test_an_environment_whose_hook_was_replaced_is_somebodys_own():
    env = single(lambda mine: mine)

    async def setup_state(state):
        state["mine"] = 1.0
        return state

    env.setup_state = setup_state
    assert env.evaluate_sync(vf.ScriptedModel(["a"]))["reward"] == [1.0]


def test_group_functions_have_lists_and_class_objects_only():
    def mixed(completions, answer):
        return [1.0] * len(completions)

    assert "'answer', which nothing gives it; did you mean 'answers'?" in refused(single(mixed))

    def right(completions, parser, **others):
        return [1.0] * len(completions)

    assert calls_of(single(right)) == 1


def test_every_member_of_a_group_is_checked():
    good = single(lambda completion: 1.0)
    message = refused(vf.EnvGroup([good, single(wrong)], ["good", "bad"]))
    assert "'wrong' asks for 'completon'" in message
    assert calls_of(vf.EnvGroup([good, single(lambda level, src_id: 1.0)])) == 2


def test_metrics_and_functions_that_are_never_called_are_left_alone():
    metric = single(lambda completion: 1.0)
    metric.rubric.add_metric(wrong)
    assert calls_of(metric) == 1
    assert calls_of(single(wrong, score_rollouts=False)) == 1


def test_a_rubric_that_calls_its_functions_itself_knows_what_it_gives_them():
    class Mine(vf.Rubric):
        async def score_rollout(self, state):
            state["reward"], state["metrics"] = self.funcs[0](completon="x", answer="y"), {}

    assert calls_of(vf.SingleTurnEnv(dataset=ROWS, rubric=Mine([wrong]))) == 1


def test_what_the_library_puts_into_a_state_is_known():
    written = set()
    for file in SOURCE.rglob("*.py"):
        written |= set(re.findall(r"\bstate\[\"(\w+)\"\](?:, [\w.\[\]\"]+)* = ", file.read_text()))
    written -= {"prompt", "completion", "answer", "task", "info"}

    assert written <= OF_THE_ENGINE, f"add to envs.arguments.OF_THE_ENGINE: {written - OF_THE_ENGINE}"
