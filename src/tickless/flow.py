"""Flows: recurring programs of tasks. `Flow` and `FlowTask` define them, `Round` is what each fire makes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from graphlib import CycleError, TopologicalSorter
from types import FunctionType, MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any, Generic, TypeVar, Unpack, final

from tickless.checks import plain_text, text
from tickless.conditions import check_conditions
from tickless.core.record import TaskRecord
from tickless.core.rounds import check_param
from tickless.core.special import Asked, special_of
from tickless.declared import check_open, declare
from tickless.drafts import draft
from tickless.errors import DependencyError, FlowError, UnknownTask, shown
from tickless.instants import instant_of
from tickless.options import ArgumentOptions, LimitOptions, OnTimeout, check_names, exists_of
from tickless.output import Output, outputs_in, replaced
from tickless.plan import FlowPlan, Param
from tickless.records import Run, TaskInfo
from tickless.round import Round
from tickless.rules import After, Rule
from tickless.states import Cancelled, CatchUp, Delivery, Exists, Overlap, State
from tickless.task import Task
from tickless.values import Retry

if TYPE_CHECKING:
    from tickless.scheduler import Scheduler

T = TypeVar("T")
NOW = After(0)


class FlowOptions(LimitOptions, total=False):
    """Every keyword of `Scheduler.flow` after the rule. As those of `schedule`; they are about its rounds."""

    params: Mapping[str, Any] | None
    overlap: Overlap
    max_running: int | None
    grace: float | timedelta | None
    catch_up: CatchUp
    max_catch_up: int | None
    timeout: float | timedelta | None
    pause_after_failures: int | None
    on_failure: Callable[[Run], object] | None
    pool: str | None
    limit: str | None
    priority: int
    tags: Iterable[str]
    exists: Exists


class FlowTaskOptions(ArgumentOptions, total=False):
    """Every keyword of `Flow.task`. As those of `schedule`."""

    name: str | None
    after_tasks: Iterable[FlowTask[Any] | str]
    run_if: str
    priority: int
    retry: Retry | None
    timeout: float | timedelta | None
    on_timeout: OnTimeout
    on_failure: Callable[[Run], object] | None
    pool: str | None
    limit: str | None
    tags: Iterable[str]
    delivery: Delivery


_FLOW, _TASK = FlowOptions.__annotations__, FlowTaskOptions.__annotations__
_OF_TASKS = dict.fromkeys(_TASK.keys() - _FLOW, "it is said of a task of the flow: flow.task(...)")
_OF_FLOWS = dict.fromkeys({"when", *_FLOW} - _TASK.keys(), "it is said of the flow: scheduler.flow(...)")


@final
class FlowTask(Generic[T]):
    """One task of a flow's definition: each round has a fresh task of that name."""

    __slots__ = ("_draft", "_flow")

    def __init__(self, flow: Flow, draft: Task[T]) -> None:
        self._flow = flow
        self._draft = draft

    @property
    def name(self) -> str:
        return self._draft._name

    @property
    def output(self) -> Output[T]:
        """Stands for the result, as an argument of another task of the same flow."""
        return Output(self._draft)

    def __repr__(self) -> str:
        return f"<FlowTask {self._flow.id}/{self.name}>"


@final
class Flow:
    """A program of tasks that recurs as one. Define it in a `with` block, or with a function that it decorates.

    It is scheduled when the block ends without an error; an error in it schedules nothing. Each fire makes a round:
    fresh tasks, whose states and outputs are that round's own.
    """

    def __init__(self, scheduler: Scheduler, id: str, when: Rule | None, options: FlowOptions) -> None:
        self._scheduler = scheduler
        self.id = text("id", id)
        given: dict[str, Any] = dict(options)
        check_names("flow", given, _FLOW, _OF_TASKS)
        params = given.pop("params", None)
        self._params = _params(params)
        self._exists: Exists | None = given.pop("exists", None)
        if self._exists is not None:
            exists_of(self._exists, self.id)
        self._when = NOW if when is None else when
        self._options = given
        self._plan = FlowPlan(self.id, scheduler, MappingProxyType(self._params))
        self._tasks: dict[str, FlowTask[Any]] = {}
        self._task: Task[Any] | None = None
        self._make()  # so that what cannot be is refused here, and not at the end of the block

    # What `draft` asks of whose tasks they are

    @property
    def _pools(self) -> Mapping[str, object]:
        return self._scheduler._pools

    @property
    def _limits(self) -> Mapping[str, object]:
        return self._scheduler._limits

    # Defining

    def task(self, work: Callable[..., T], **options: Unpack[FlowTaskOptions]) -> FlowTask[T]:
        """Add a task. Its name is that of the function unless `name` says another; parents are tasks of this flow.

        `after_tasks`: what was returned for others, or their names, which may come later. A task whose `output` is
        among the arguments is a parent, too. Raises ScheduleError and DependencyError as `schedule` does, FlowError
        for a name that is there and for a flow that is scheduled already.
        """
        if self._task is not None:
            raise FlowError(f"flow {self.id}: it is scheduled, and its definition stands; make it anew with its id")
        given: dict[str, Any] = dict(options)
        check_names("task", given, _TASK, _OF_FLOWS)
        parents = given.pop("after_tasks", ())
        for key in ("pool", "priority"):
            if key in self._options:
                given.setdefault(key, self._options[key])
        scheduler = self._scheduler
        now = scheduler._now()
        self._check_outputs(work, given.get("args"), given.get("kwargs"))
        self._check_limit(work, given.get("limit"))
        model: Task[T] = draft(self, scheduler._clock, now, work, None, **given, after_tasks=self._parents_of(parents))
        params = self._params_in([*(model._args or ()), *(model._kwargs or {}).values()])
        there = self._tasks.get(model._name)
        if there is not None:
            raise FlowError(
                f"flow {self.id}: two tasks have the name {shown(model._name)}, {shown(there._draft._work)} and "
                f"{shown(work)}; give one of them another: name=..."
            )
        if params or (model._more is not None and model._more.outputs):
            self._plan.filled.add(model)
        task = self._tasks[model._name] = FlowTask(self, model)
        return task

    def param(self, name: str) -> Any:
        """Stands for a parameter of the round, as an argument, or in a list, tuple or dict that is one.

        Raises FlowError for one that the flow does not have.
        """
        check_param(self.id, plain_text(name) or name, self._params)
        return Param(name)

    @property
    def due(self) -> Any:
        """Stands for the instant that the round was planned for (aware UTC), as an argument."""
        return Param(None)

    @property
    def task_names(self) -> tuple[str, ...]:
        """The names of its tasks, in the order of definition."""
        return tuple(self._tasks)

    def __call__(self, define: Callable[[Flow], object]) -> Flow:
        """As a decorator: `define(flow)` is called at once, and what it defines is scheduled at the start."""
        if type(define) is not FunctionType:
            raise FlowError(f"flow {self.id}: {shown(define)} is no function, which could be called with the flow")
        check_open(self._scheduler)
        define(self)
        self._check()
        declare(self._scheduler, define, self.id, self._enter)
        return self

    def __enter__(self) -> Flow:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if kind is None:
            self._enter()

    def _parents_of(self, given: Any) -> list[Any]:
        if isinstance(given, FlowTask | str):
            raise DependencyError(f"after_tasks={shown(given)}: needs several, so put it in a list: [{shown(given)}]")
        try:
            several = list(given)
        except TypeError:
            raise DependencyError(f"after_tasks={shown(given)}: needs tasks of the flow, in a list") from None
        for one in several:
            if isinstance(one, TaskRecord):
                raise DependencyError(
                    f"flow {self.id}: after_tasks: {shown(one)} is no task of the flow; give those of flow.task(...)"
                )
            if type(one) is FlowTask and one._flow is not self:
                raise DependencyError(
                    f"after_tasks: {shown(one)} is a task of another flow, and its rounds are not those of {self.id}"
                )
        return [one._draft if type(one) is FlowTask else one for one in several]

    def _check_outputs(self, work: object, args: object, kwargs: object) -> None:
        """Raises DependencyError for an output among the arguments that no task of this flow has."""
        values = (*(args if type(args) is tuple else ()), *(kwargs.values() if type(kwargs) is dict else ()))
        for output in outputs_in(values, None):
            mine = self._tasks.get(output._task._name)
            if mine is None or mine._draft is not output._task:
                raise DependencyError(
                    f"flow {self.id}: {shown(output)} among the arguments of {shown(work)} is of no task of the flow; "
                    "take an output of one that flow.task(...) has given, or a parameter"
                )

    def _check_limit(self, work: object, limit: object) -> None:
        """Raises FlowError for the limit that the round itself holds until this task has ended."""
        name = self._options.get("limit")
        if name is not None and plain_text(limit) == name and self._scheduler._limits[name].running is not None:
            raise FlowError(
                f"flow {self.id}: limit={shown(limit)} of {shown(work)}: its round holds a permit of that limit until "
                "its last task has ended, so they would wait for each other; say it of the flow or of its tasks"
            )

    def _params_in(self, values: Sequence[Any]) -> list[Param]:
        """Those among the arguments. Raises FlowError for one that another flow has."""
        found: list[Param] = []
        for value in values:
            replaced(value, found.append, Param)
        for output in outputs_in(tuple(values), None):
            if type(output._default) is Param:
                found.append(output._default)
        for param in found:
            if param.name is not None:
                check_param(self.id, param.name, self._params)
        return found

    def _make(self) -> Task[Any]:
        """The draft of the task that the flow is."""
        scheduler, when = self._scheduler, self._when
        now = scheduler._now()
        task: Task[Any] = draft(scheduler, scheduler._clock, now, self._plan, when, id=self.id, **self._options)
        if task._rule is None:
            task._rule = when.bound(scheduler._clock.wall() if task._wall else now)  # its one fire makes a round, too
        special = special_of(task)
        special.rounds, special.crew = deque(), []
        special.set_policy(special.policy)  # which sees now that its occurrences have records of their own
        return task

    def _enter(self) -> None:
        if self._task is not None:
            raise FlowError(f"flow {self.id}: it is scheduled already; make it anew with its id")
        self._check()
        scheduler, said = self._scheduler, self._exists
        if said is None and scheduler._durable is not None:
            said = "update"
        exists = None if said is None else exists_of(said, self.id)
        task, now = self._make(), scheduler._now()
        there: Any = task
        if exists is None:
            scheduler._add(task, now)
        else:
            there = scheduler._store.add_or(exists, task, now)
        self._task = there
        scheduler._look()

    def _check(self) -> None:
        """What only the whole definition shows."""
        if not self._tasks:
            raise FlowError(f"flow {self.id}: it has no tasks; add them in its block: flow.task(f)")
        models = {task._draft: task._draft for task in self._tasks.values()}
        for task in self._tasks.values():
            parents = task._draft._parents
            found = [self._named(task, parent) if isinstance(parent, str) else parent for parent in parents]
            task._draft._parents = tuple(dict.fromkeys(found))
        ordered = list(models)
        seen: set[TaskRecord] = set()
        for model in ordered:
            if not seen.issuperset(model._parents):
                break
            seen.add(model)
        else:
            self._plan.drafts = ordered
            check_conditions(self.id, ordered)
            return
        try:
            order = list(TopologicalSorter({model: model._parents for model in ordered}).static_order())
        except CycleError as error:
            path = [one._name for one in reversed(error.args[1])]
            raise DependencyError(
                f"flow {self.id}: {' -> '.join(path)} is a cycle, so none of them could ever start; "
                "take one of these dependencies out"
            ) from None
        self._plan.drafts = [models[model] for model in order]
        check_conditions(self.id, self._plan.drafts)

    def _named(self, task: FlowTask[Any], parent: str) -> TaskRecord:
        found = self._tasks.get(parent)
        if found is None:
            known = ", ".join(name for name in self._tasks if name != task.name)
            raise DependencyError(
                f"flow {self.id}: after_tasks of {shown(task.name)}: no task of the flow has the name {shown(parent)}; "
                f"there is {known or 'no other'}"
            )
        if found is task:
            raise DependencyError(f"flow {self.id}: {shown(task.name)} cannot wait for itself; take it out")
        return found._draft

    # Once it is scheduled

    @property
    def _handle(self) -> Task[Any]:
        if self._task is None:
            raise FlowError(f"flow {self.id}: it is not scheduled yet; that happens at the end of its block")
        return self._task

    @property
    def info(self) -> TaskInfo:
        """All there is to know of the flow as a task, as one snapshot."""
        return self._handle.info

    @property
    def state(self) -> State:
        """RUNNING while a round goes on, else READY, else PENDING; once it has ended, as its last round."""
        return self._handle.state

    @property
    def next_fire(self) -> datetime | None:
        """The planned instant of the next round, aware UTC. See `Task.next_fire`."""
        return self._handle.next_fire

    def runs(self, limit: int | None = None) -> list[Run]:
        """The newest runs, one a round, oldest first; skipped fires are among them. See `Task.runs`."""
        return self._handle.runs(limit)

    def rounds(self, limit: int | None = None) -> list[Round]:
        """The newest rounds that are kept (`keep_rounds`), at most `limit`, oldest first."""
        return self._scheduler.rounds(self._handle, limit)

    def round(self, which: str | Run | datetime) -> Round:
        """The round of that id, that run's, or the newest of that instant's fire. Raises UnknownTask."""
        of_run = which.due_us if isinstance(which, Run) else None
        id = plain_text(which)
        due = instant_of(which, "round") if isinstance(which, datetime) else None
        for one in reversed(self.rounds()):
            of = one._record._due
            if one.id == id or (of is not None and of == of_run) or (due is not None and due in (one.info.due_us, of)):
                return one
        there = ", ".join(one.id for one in self.rounds()) or "none"
        raise UnknownTask(f"flow {self.id}: no round {shown(which)} is kept; there is {there}")

    def run_now(self, params: Mapping[str, Any] | None = None) -> Run:
        """Have a round now, beside the schedule and under its `overlap`; `params` instead of the flow's own.

        Gives its run: ready, waiting or skipped. Raises FlowError for a parameter that the flow does not have, and what
        `Task.run_now` raises.
        """
        return self._scheduler._run_round(self._handle, Asked(_params(params)))

    def pause(self, reason: str | None = None, until: datetime | None = None) -> bool:
        """Have no more rounds begin until `resume`; those that go on do. See `Scheduler.pause`."""
        return self._handle.pause(reason, until)

    def resume(self, catch_up: CatchUp = "none") -> bool:
        """See `Scheduler.resume`."""
        return self._handle.resume(catch_up)

    def reschedule(self, when: Rule) -> None:
        """Give it another rule, which counts from now. See `Scheduler.reschedule`."""
        self._handle.reschedule(when)

    def cancel(self) -> Cancelled:
        """No more rounds; of those that go on nothing starts any more, and what runs is asked to stop."""
        return self._handle.cancel()

    def wait(self, timeout: float | None = None) -> bool:
        """Sleep until the flow has ended: True; or for `timeout` real seconds: False."""
        return self._handle.wait(timeout)

    def __repr__(self) -> str:
        return f"<Flow {self.id} of {len(self._tasks)} tasks>"


def _params(given: Mapping[str, Any] | None) -> dict[str, Any]:
    """The parameters as a dict of our own. Raises FlowError for what is none."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise FlowError(f"params={shown(given)}: needs a dict of names and values")
    return {text("params", name): value for name, value in given.items()}
