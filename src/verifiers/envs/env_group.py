"""EnvGroup: several environments as one; each task is run and judged by the environment it comes from."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from verifiers.envs.environment import Environment
from verifiers.errors import ConfigError, nearest
from verifiers.rubrics.rubric import Rubric
from verifiers.sandboxes.base import Backend, SandboxSpec
from verifiers.session import Harness, Prompt, Session
from verifiers.state import State
from verifiers.task import Task
from verifiers.tasks.source import TaskSource


class EnvGroup(Environment):
    """Tasks of all members, one member after the other, with `task` naming the member."""

    def __init__(self, envs: Sequence[Environment], env_names: Sequence[str] | None = None, **options: Any) -> None:
        """
        Args:
            env_names: unique, one for each environment; None: `env_0`, `env_1`, ...

        Raises:
            ValueError: no environments, or names that do not fit them.
        """
        if not envs:
            raise ValueError("EnvGroup requires at least one environment")
        names = list(env_names) if env_names is not None else [f"env_{index}" for index in range(len(envs))]
        if len(names) != len(envs):
            raise ValueError(f"Number of env_names must match number of envs: got {len(names)} for {len(envs)}")
        if len(set(names)) != len(names):
            raise ValueError(f"environment names must be unique, got {names}")
        self.envs, self.env_names = list(envs), names
        self.env_map: dict[str, Environment] = dict(zip(names, self.envs, strict=True))
        super().__init__(rubric=options.pop("rubric", None) or EnvGroupRubric(self.env_map), **options)
        names_of_harnesses = {env.default_harness for env in envs}
        self.default_harness = names_of_harnesses.pop() if len(names_of_harnesses) == 1 else "chat"

    def _brings_tasks(self) -> bool:
        return True

    def get_env_for_task(self, task: Any) -> Environment:
        """The member a task name belongs to; tasks of a group within a group are called `outer/inner`.

        Raises:
            ConfigError: no member has this name.
        """
        return _member_of(self.env_map, task)

    get_env_for_name = get_env_for_task

    def tasks(self, split: Literal["train", "eval"] = "eval") -> TaskSource:
        if split not in self._tasks:
            self._tasks[split] = _GroupSource(self, split)
        return self._tasks[split]

    def task_of(self, row: Any, index: int = 0) -> Task:
        name = _route_of(row)
        task = self.get_env_for_task(name).task_of(row, index)
        return _named(task, name, task.example_id)

    def rubric_for(self, task: Task) -> Rubric:
        return self.get_env_for_task(task.task).rubric_for(task)

    def _member(self, session: Session) -> Environment:
        return self.get_env_for_task(session.task.task)

    def refuse(self, harness: Harness) -> str | None:
        return next((reason for env in self.envs if (reason := env.refuse(harness)) is not None), None)

    def check_rubric(self, columns: Collection[str] | None, harness: Harness) -> None:
        if self.score_rollouts:
            for env in self.envs:
                env.check_rubric(columns, harness)

    def makes_sandbox(self, task: Task) -> bool:
        return self.get_env_for_task(task.task).makes_sandbox(task)

    def backend_for(self, task: Task) -> str | Backend | None:
        return self.get_env_for_task(task.task).backend_for(task)

    def sandbox_for(self, task: Task) -> SandboxSpec | None:
        return self.get_env_for_task(task.task).sandbox_for(task)

    async def setup(self, session: Session) -> None:
        member = self._member(session)
        session.world = member  # type: ignore[attr-defined] - from here on the member's own hooks find its session
        await member.setup(session)

    async def respond(self, session: Session) -> Prompt | None:
        return await self._member(session).respond(session)

    async def take_turn(self, session: Session, messages: Prompt) -> None:
        await self._member(session).take_turn(session, messages)

    async def drive(self, session: Session, harness: Harness) -> None:
        await self._member(session).drive(session, harness)

    async def finish(self, session: Session) -> None:
        await self._member(session).finish(session)

    async def release(self, session: Session) -> None:
        await self._member(session).release(session)

    async def rollout(
        self, input: Any, client: Any, model: str = "", sampling_args: Mapping[str, Any] | None = None, **_: Any
    ) -> State:
        name = input.task if isinstance(input, Task) else _route_of(input)
        return await self.get_env_for_task(name).rollout(input, client, model, sampling_args)

    @property
    def dataset(self) -> Any:
        return self.get_dataset() if any(env.has_tasks("train") for env in self.envs) else None

    @dataset.setter
    def dataset(self, source: Any) -> None:
        raise ConfigError("the tasks of a group are its members'; change those of a member")

    @property
    def eval_dataset(self) -> Any:
        return self.get_eval_dataset() if any(env.has_tasks("eval") for env in self.envs) else None

    @eval_dataset.setter
    def eval_dataset(self, source: Any) -> None:
        raise ConfigError("the tasks of a group are its members'; change those of a member")

    def has_tasks(self, split: Literal["train", "eval"]) -> bool:
        return any(env.has_tasks(split) for env in self.envs)

    async def teardown(self) -> None:
        for env in self.envs:
            await env.teardown()


class _GroupSource(TaskSource):
    """Rows of the members' tasks, renumbered; `task` is the member's name."""

    def __init__(self, group: EnvGroup, split: Literal["train", "eval"]) -> None:
        self._group = group
        self._split: Literal["train", "eval"] = split
        super().__init__(self._merged, _AsIs())  # type: ignore[arg-type]

    def _merged(self) -> list[Task]:
        merged: list[Task] = []
        for name, env in self._group.env_map.items():
            members = env.tasks(self._split)
            for task in members.select(-1 if members.is_sized else 1000):
                number = len(merged)
                inner = f"{name}/{task.task}" if isinstance(env, EnvGroup) else name
                merged.append(_named(task, inner, number, {**task.columns, "src_id": task.example_id}))
        return merged


def _route_of(row: Mapping[str, Any]) -> Any:
    """The member's name in a row or a state: `task`, or `info["env_id"]`."""
    info = row.get("info")
    route = info.get("env_id") if isinstance(info, Mapping) else None
    return row.get("task") if route is None else route


def _member_of(env_map: Mapping[str, Environment], task: Any) -> Environment:
    parts = [task, *str(task).split("/")]
    found = next((env_map[part] for part in parts if part in env_map), None)
    if found is None:
        raise ConfigError(f"No environment found for task {task!r}{nearest(str(task), list(env_map))}")
    return found


def _named(task: Task, name: Any, example_id: Any, columns: dict[str, Any] | None = None) -> Task:
    info = {**task.info, "env_id": name}
    return replace(task, example_id=example_id, info=info, task=name, columns=columns or task.columns)


class _AsIs:
    def task_of(self, row: Task, index: int) -> Task:
        return row


class EnvGroupRubric(Rubric):
    """Judges each rollout by the rubric of its environment."""

    def __init__(self, env_map: Mapping[str, Environment]) -> None:
        super().__init__()
        self.env_map = env_map

    @property
    def all_reward_names(self) -> list[str]:
        return self.get_reward_func_names()

    def get_reward_func_names(self) -> list[str]:
        names = [name for env in self.env_map.values() for name in env.rubric.get_reward_func_names()]
        return list(dict.fromkeys(names))

    async def score_rollout(self, state: State) -> None:
        await _member_of(self.env_map, _route_of(state)).rubric.score_rollout(state)
        # who scores a group's rollouts by hand keeps one table of all names; runs ask the member's rubric itself
        state["metrics"] = dict.fromkeys(self.all_reward_names, 0.0) | (state.get("metrics") or {})

    async def score_group(self, states: Sequence[State]) -> None:
        if states:
            await _member_of(self.env_map, _route_of(states[0])).rubric.score_group(states)
