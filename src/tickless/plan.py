"""The work of a flow: what its rounds are made of, and what stands for a round's parameters among the arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, final

from tickless.core.record import More, TaskRecord
from tickless.core.rounds import OPENS, Opens, copied_run, work_of_rounds
from tickless.core.special import Special, special_of
from tickless.instants import datetime_of
from tickless.output import replaced
from tickless.task import Task

if TYPE_CHECKING:
    from tickless.scheduler import Scheduler


@final
class Param:
    """Stands for a parameter of the round, or its due, among the arguments of a task of a flow."""

    __slots__ = ("name",)

    def __init__(self, name: str | None) -> None:
        self.name = name
        """None: the instant that the round was planned for."""

    def stored_param(self) -> str | None:
        """For a store that keeps arguments as text: its name."""
        return self.name

    def __repr__(self) -> str:
        return "flow.due" if self.name is None else f"flow.param({self.name!r})"


@final
class FlowPlan:
    """The work of a flow: what its rounds are made of. Never changed once the flow is scheduled."""

    __slots__ = ("__name__", "drafts", "filled", "owner", "params")

    def __init__(self, name: str, owner: Scheduler, params: Mapping[str, Any]) -> None:
        self.__name__ = name
        self.owner = owner
        self.params = params
        self.drafts: list[Task[Any]] = []
        """One of each task, parents before their children."""
        self.filled: set[TaskRecord] = set()
        """Those among whose arguments there is something to be replaced."""

    def __call__(self) -> Opens:
        return OPENS

    @property
    def steps(self) -> list[tuple[str, tuple[str, ...]]]:
        """The names of its tasks, each with those of its parents."""
        return [(model._name, tuple(parent._name for parent in model._parents)) for model in self.drafts]

    def tickless_parts(self) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
        """For who calls it in another process."""
        return work_of_rounds, (), {}

    def tasks(self, one: TaskRecord, old: Mapping[str, TaskRecord]) -> list[TaskRecord]:
        """See `core.rounds.Plan`."""
        round = special_of(one).round
        assert round is not None
        values: dict[str | None, Any] = {None: None if round.due is None else datetime_of(round.due)}
        values.update(round.params)
        made: dict[TaskRecord, TaskRecord] = {}

        def param(one: Any) -> Any:
            return values[one.name] if type(one) is Param else one

        def fill(value: Any) -> Any:
            given = replaced(value, param, Param)
            return replaced(given, lambda output: output.of(made[output._task], param))

        for model in self.drafts:
            parents = tuple(made[parent] for parent in model._parents)
            id, before = f"{round.id}/{model._name}", old.get(model._name)
            more = _more_of(model, one._seq)
            if before is not None and all(parent._run is not None for parent in parents):
                made[model] = _copy(model, before, id, parents, more, self.owner)
                continue
            args, kwargs = model._args, model._kwargs
            if model in self.filled:
                args = tuple(map(fill, args or ()))
                kwargs = {key: fill(value) for key, value in (kwargs or {}).items()} or None
            made[model] = Task(
                model._work,
                args,
                kwargs,
                id,
                model._name,
                model._priority,
                None,
                None,
                False,
                more,
                parents,
                self.owner,
            )
        return list(made.values())


def _more_of(model: TaskRecord, number: int) -> More:
    more, given = More(), model._more
    more.round = number
    if given is not None:
        more.run_if, more.outputs = given.run_if, given.outputs
        if given.special is not None:
            more.special = Special(given.special.policy)
    return more


def _copy(
    model: TaskRecord, before: TaskRecord, id: str, parents: tuple[TaskRecord, ...], more: More, owner: Any
) -> TaskRecord:
    """A task that counts as having run: it did, in another round."""
    task: Task[Any] = Task(None, None, None, id, model._name, model._priority, None, None, False, more, parents, owner)
    task._run, task._value = copied_run(task, before), before._value
    return task
