"""Environment: tasks, world and rubric. The base of all environments, and the engine's way into their hooks.

Subclasses override what they need of the hooks; each is called in the order of `session.World`.
"""

from __future__ import annotations

import inspect
import json
import logging
import random
from abc import ABC
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import Any, Literal, cast

from verifiers.decorators import marked, marks
from verifiers.envs.arguments import check_reward_arguments
from verifiers.envs.datasets import dataset_of
from verifiers.envs.direct import Direct
from verifiers.envs.evaluation import Evaluation
from verifiers.envs.overrides import call_named, model_response
from verifiers.errors import ConfigError
from verifiers.messages import Response, Tool, as_messages, as_tool
from verifiers.models.base import Model
from verifiers.models.config import resolve_client, turn_of
from verifiers.models.rotating import rotating
from verifiers.parsers.parser import Parser
from verifiers.parsers.reply import reference_reply
from verifiers.rollout.timing import RolloutTiming, timed
from verifiers.rubrics.rubric import Rubric
from verifiers.rubrics.rubric_group import RubricGroup
from verifiers.sandboxes.base import Backend, SandboxSpec
from verifiers.session import Harness, Prompt, Session
from verifiers.state import State
from verifiers.task import Task
from verifiers.tasks.needs import as_spec, spec_of
from verifiers.tasks.rows import RowReader
from verifiers.tasks.source import TaskSource
from verifiers.trace import stop_reason

MessageType = Literal["chat", "completion"]


class Environment(Direct, Evaluation, ABC):
    """A task world.

    Rows have `prompt` (messages or text) or `question`, and may have `answer`, `info` (an object or its JSON text),
    `task`, `example_id` and any other column; other columns appear in `state`.
    """

    def __init__(
        self,
        dataset: Any = None,
        eval_dataset: Any = None,
        system_prompt: str | None = None,
        few_shot: Sequence[Mapping[str, Any]] | None = None,
        parser: Parser | None = None,
        rubric: Rubric | None = None,
        sampling_args: Mapping[str, Any] | None = None,
        message_type: MessageType = "chat",
        oai_tools: Sequence[Any] | None = None,
        tool_defs: Sequence[Any] | None = None,
        max_workers: int = 512,
        env_id: str | None = None,
        env_args: Mapping[str, Any] | None = None,
        map_kwargs: Mapping[str, Any] | None = None,
        max_seq_len: int | None = None,
        score_rollouts: bool = True,
        verifier_timeout: Literal["fault", "fail"] = "fault",
        sandbox_spec: SandboxSpec | Mapping[str, Any] | None = None,
        **extra: Any,
    ) -> None:
        """
        Args:
            dataset: training rows: a `datasets.Dataset`, a list of dicts, a JSONL path, a function that returns one
                of these, or a generator.
            eval_dataset: rows to evaluate on; None: the training rows.
            system_prompt: put before prompts that do not begin with a system message.
            few_shot: messages put before the question of rows without a `prompt`.
            parser: None: the rubric's, else `Parser()`.
            rubric: None: nothing is rewarded.
            sampling_args: defaults for every model call of the policy.
            verifier_timeout: `fail` scores 0 where the outer limit of scoring runs out, instead of unscored.
            sandbox_spec: every rollout is given such a box, as `session.sandbox` and `state["sandbox"]`; a row may
                say otherwise by the columns `image` and `files`, and `sandbox` for any other field. None: no box.
            extra: kept as attributes.

        Raises:
            ConfigError: neither `dataset` nor `eval_dataset`, or a keyword that is a likely misspelling of one.
        """
        self.logger = logging.getLogger(f"verifiers.envs.environment.{type(self).__name__}")
        self._check_keywords(extra)
        self.message_type: MessageType = message_type
        self.system_prompt = system_prompt
        self.few_shot = list(few_shot or [])
        self.rubric: Rubric = rubric if rubric is not None else Rubric(parser=parser)
        self.parser: Parser = parser if parser is not None else self.rubric.parser
        if type(self.parser) is not type(self.rubric.parser):
            self.logger.warning("The parser and rubric parser are different. This may cause unexpected behavior.")
        self.sampling_args: dict[str, Any] = dict(sampling_args or {})
        self.max_workers, self.max_seq_len, self.score_rollouts = max_workers, max_seq_len, score_rollouts
        self.env_id, self.env_args = env_id or "", dict(env_args or {})
        self.verifier_timeout = verifier_timeout
        self.sandbox_spec = None if sandbox_spec is None else as_spec(sandbox_spec)
        self.tool_defs: list[Tool] | None = None
        self._offer(tool_defs if tool_defs is not None else oai_tools)
        self.map_kwargs = dict(map_kwargs or {})
        for name, value in extra.items():
            setattr(self, name, value)
        self._sources = {"train": dataset, "eval": eval_dataset}
        self._tasks: dict[str, TaskSource] = {}
        self._datasets: dict[str, Any] = {}
        self._add_own_functions()
        if dataset is None and eval_dataset is None and not self._brings_tasks():
            raise ConfigError(f"Either dataset or eval_dataset must be provided: {type(self).__name__} has no tasks")

    def _add_own_functions(self) -> None:
        """Methods marked `@reward` and `@metric` judge next to the rubric."""
        own = [*marks(self, "reward"), *marks(self, "metric")]
        if own:
            functions, weights = [method for method, _ in own], [mark.weight for _, mark in own]
            self.add_rubric(Rubric(functions, weights, parser=self.parser))

    def _brings_tasks(self) -> bool:
        return False

    def _check_keywords(self, extra: Mapping[str, Any]) -> None:
        known = {
            name
            for kind in type(self).__mro__
            for name in inspect.signature(kind.__init__).parameters
            if issubclass(kind, Environment)
        }
        for name in extra:
            close = get_close_matches(name, known - {"self"}, n=1, cutoff=0.87)
            if close and name not in known:
                raise ConfigError(f"{type(self).__name__}: unknown keyword {name!r}; did you mean {close[0]!r}?")

    def _offer(self, tools: Sequence[Any] | None) -> None:
        self.tool_defs = None if tools is None else [as_tool(tool) for tool in tools]

    @property
    def oai_tools(self) -> list[dict[str, Any]] | None:
        """The offered tools in the nested form of chat completions."""
        if self.tool_defs is None:
            return None
        return [{"type": "function", "function": tool.model_dump()} for tool in self.tool_defs]

    @oai_tools.setter
    def oai_tools(self, tools: Sequence[Any] | None) -> None:
        self._offer(tools)

    def set_kwargs(self, **values: Any) -> None:
        """Set attributes by name; a `set_<name>` method is preferred."""
        for name, value in values.items():
            setter = getattr(self, f"set_{name}", None)
            if callable(setter):
                setter(value)
            else:
                setattr(self, name, value)

    def set_max_seq_len(self, max_seq_len: int | None) -> None:
        self.max_seq_len = max_seq_len

    def set_score_rollouts(self, score_rollouts: bool) -> None:
        self.score_rollouts = score_rollouts

    def add_rubric(self, rubric: Rubric) -> None:
        """Judge by `rubric` too; rewards add up. A group that was given stays as it is: others may use it."""
        if type(self.rubric) is RubricGroup:
            self.rubric = RubricGroup([*self.rubric.rubrics, rubric], parser=self.rubric.parser)
        else:
            self.rubric = RubricGroup([self.rubric, rubric], parser=self.rubric.parser)

    # -- tasks

    def tasks(self, split: Literal["train", "eval"] = "eval") -> TaskSource:
        """The tasks of a split; a missing one is the other."""
        source = self._sources[split]
        if source is None:
            split = "train" if split == "eval" else "eval"
            source = self._sources[split]
        if split not in self._tasks:
            self._tasks[split] = TaskSource(source, self._row_reader())
        return self._tasks[split]

    def _row_reader(self) -> RowReader:
        return RowReader(
            system_prompt=self.system_prompt,
            few_shot=self.few_shot,
            as_text=self.message_type == "completion",
        )

    def get_dataset(self, n: int = -1, seed: int | None = None) -> Any:
        """The training tasks as a `datasets.Dataset`; shuffled when a seed is given."""
        return self._dataset("train", n, seed)

    def get_eval_dataset(self, n: int = -1, seed: int | None = None) -> Any:
        """The evaluation tasks as a `datasets.Dataset`; shuffled when a seed is given."""
        return self._dataset("eval", n, seed)

    def _dataset(self, split: Literal["train", "eval"], n: int, seed: int | None) -> Any:
        if (n is not None and n > 0) or seed is not None:
            return dataset_of(self.tasks(split).select(n, shuffle=seed is not None, seed=seed))
        if split not in self._datasets:
            self._datasets[split] = dataset_of(self.tasks(split).select(-1))
        return self._datasets[split]

    @property
    def dataset(self) -> Any:
        return None if self._sources["train"] is None else self.get_dataset()

    @dataset.setter
    def dataset(self, source: Any) -> None:
        self._replace("train", source)

    @property
    def eval_dataset(self) -> Any:
        return None if self._sources["eval"] is None else self.get_eval_dataset()

    @eval_dataset.setter
    def eval_dataset(self, source: Any) -> None:
        self._replace("eval", source)

    def _replace(self, split: str, source: Any) -> None:
        self._sources[split] = source
        self._tasks.pop(split, None)
        self._datasets.pop(split, None)

    def task_of(self, row: Any, index: int = 0) -> Task:
        """The task a row is; a row that brings its prompt is taken as it is."""
        payload = _payload_of(row)
        if payload is not None:
            row = {**row, **payload, "task": payload}
        reader = self._row_reader()
        return (replace(reader, system_prompt=None) if row.get("prompt") is not None else reader).task_of(row, index)

    async def spread(self, client: Any, name: str | None) -> Model | None:
        """The model `name` at all servers of a config with several, which share its rollouts; else None."""
        several = list(getattr(client, "endpoint_configs", None) or [])
        if not several:
            return None
        return await rotating([turn_of(client, number) for number in range(len(several))], name or "", resolve_client)

    def has_tasks(self, split: Literal["train", "eval"]) -> bool:
        """Whether this environment has tasks of its own for a split."""
        return self._sources[split] is not None

    def rubric_for(self, task: Task) -> Rubric:
        """The rubric that judges a task; one without functions where `score_rollouts` is off."""
        return self.rubric if self.score_rollouts else Rubric(parser=self.parser)

    # -- hooks of a rollout, overridable

    async def init_state(
        self, input: Any, client: Any = None, model: str = "", sampling_args: Mapping[str, Any] | None = None
    ) -> State:
        """A fresh state for a row: its columns, and what the engine keeps."""
        state = input if isinstance(input, State) else State.for_task(self.task_of(input))
        state.update(
            client=client,
            model=model,
            sampling_args=dict(sampling_args or {}),
            completion=None,
            trajectory=[],
            is_completed=False,
            is_truncated=False,
            stop_condition=None,
            reward=None,
            metrics=None,
            error=None,
            final_env_response=None,
            tool_defs=self._offered_for(state),
            trajectory_id=f"{random.getrandbits(128):032x}",
            timing=RolloutTiming(),
        )
        self._get_usage_tracker(state)
        return state

    def _offered_for(self, state: State) -> list[Tool]:
        info = state.get("info")
        own = (info.get("tool_defs") or info.get("oai_tools")) if isinstance(info, Mapping) else None
        return [as_tool(tool) for tool in own] if isinstance(own, list) else list(self.tool_defs or [])

    async def setup_state(self, state: State) -> State:
        """Prepare the world of one rollout. May return another dict than it was given."""
        return state

    async def get_model_response(self, *args: Any, **keywords: Any) -> Response:
        """One model call; `(state, prompt, ...)`, or `(client, model, prompt, ...)` for a model of the environment's.

        Keywords: client, model, tool_defs or oai_tools, sampling_args, message_type.
        """
        return await model_response(self, args, keywords)

    async def rollout(
        self, input: Any, client: Any, model: str = "", sampling_args: Mapping[str, Any] | None = None, **_: Any
    ) -> State:
        """One rollout up to scoring; inside a run, the rollout that is under way."""
        from verifiers.envs.single import rollout

        return await rollout(self, input, client, model, sampling_args)

    async def post_rollout(self, state: State) -> None:
        """Look at the world once more before its cleanup handlers run."""

    async def render_completion(self, state: State) -> None:
        """Set `state["completion"]`."""

    async def should_stop(self, state: State) -> str | None:
        """The stop condition that ends a program of its own, asked before each of its calls; None: it may go on.

        How many turns a conversation has, and that a reply without a tool call ends it, are no matter of programs.
        """
        for condition in marked(self, "stop"):
            if condition.__name__ not in _OF_CONVERSATIONS and await self._render_stop(state, condition):
                return condition.__name__
        return None

    def reference(self, session: Session) -> str | None:
        """The reply that answers the task right, in the form its parser reads; None: it has no reference answer."""
        return reference_reply(self.parser, session.state.get("answer"))

    # -- session.World

    converses = False
    """Whether it answers the model in a conversation, and not with tool results only."""
    default_harness = "chat"
    """The harness its tasks are done in where nobody names one."""

    def refuse(self, harness: Harness) -> str | None:
        if getattr(harness, "needs_sandbox", False) and self.converses:
            return "it answers the model turn by turn, which a program of its own does not listen to; use 'chat'"
        return None

    def check_rubric(self, columns: Collection[str] | None, harness: Harness) -> None:
        if self.score_rollouts and type(self).rubric_for is Environment.rubric_for:
            check_reward_arguments(self, self._columns() if columns is None else columns, harness)

    def _columns(self) -> frozenset[str] | None:
        """Of the tasks that were opened already; None: not known of all of them."""
        known = [source.columns() for source in self._tasks.values()]
        return None if not known or None in known else frozenset[str]().union(*(each for each in known if each))

    def makes_sandbox(self, task: Task) -> bool:
        return False

    def backend_for(self, task: Task) -> str | Backend | None:
        """What the box that it makes for this task is of: a backend, its name, or None for the run's."""
        return None

    def sandbox_for(self, task: Task) -> SandboxSpec | None:
        return None if self.sandbox_spec is None else spec_of(self.sandbox_spec, task)

    async def setup(self, session: Session) -> None:
        live = cast(Any, session)
        merged = {**self.sampling_args, **live.sampling}
        live.sampling = merged
        live.adopt(await self.init_state(session.state, live.client, live.model.name, merged))
        if type(self).rollout is Environment.rollout:
            await self.prepare(session)

    async def prepare(self, session: Session) -> None:
        """`setup_state`, and what it decided: tools and prompt."""
        live = cast(Any, session)
        with timed(session.state, "setup"):
            live.adopt(await call_named(self.setup_state, state=session.state))
        state = session.state
        if isinstance(state.get("prompt"), list):
            state["prompt"] = as_messages(state["prompt"])
            live.recorder.freeze(state["prompt"])
        offered = state.get("tool_defs") or state.get("oai_tools")
        session.tools = [as_tool(tool) for tool in offered] if offered else None

    async def respond(self, session: Session) -> Prompt | None:
        raise NotImplementedError(f"{type(self).__name__} does not say how its world answers; subclass MultiTurnEnv")

    async def take_turn(self, session: Session, messages: Prompt) -> None:
        raise NotImplementedError(f"{type(self).__name__} does not take turns; subclass MultiTurnEnv")

    async def drive(self, session: Session, harness: Harness) -> None:
        if type(self).rollout is Environment.rollout:
            await harness.run(session)
            return
        live = cast(Any, session)
        live.harness = harness
        state = session.state
        live.adopt(await self.rollout(state, live.client, live.model.name, live.sampling))

    async def finish(self, session: Session) -> None:
        state = session.state
        if "trajectory" not in state:
            return  # setup broke before there was anything to collect
        state["is_completed"] = True
        try:
            await self.post_rollout(state)
        finally:
            await self._clean(session)

    async def _clean(self, session: Session) -> None:
        live = cast(Any, session)
        if live.is_clean:
            return
        live.is_clean = True
        await self.run_cleanup(session.state)

    async def release(self, session: Session) -> None:
        await self._clean(session)

    def stop_reason(self, condition: str | None) -> str:
        return stop_reason(condition)

    async def teardown(self) -> None:
        """Run this environment's `@teardown` methods, once, when nothing more will be run."""
        await self._teardown()
        await self.rubric.teardown()


def _payload_of(row: Any) -> dict[str, Any] | None:
    """The row that another process wrote as JSON text into `task`; None if it did not."""
    text = row.get("task") if isinstance(row, Mapping) else None
    if not isinstance(text, str) or not text.startswith("{"):
        return None
    try:
        payload = json.loads(text)
    except ValueError:
        return None
    return payload if isinstance(payload, dict) and "prompt" in payload else None


_OF_CONVERSATIONS = frozenset({"max_turns_reached", "no_tools_called", "has_final_env_response"})

DatasetBuilder = Callable[[], Any]
