"""The definition of a flow: what it may say, and how everything else is refused when it is said."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from itertools import product
from random import Random
from typing import Any

import pytest

from tickless import (
    DependencyError,
    DuplicateId,
    Flow,
    FlowError,
    Retry,
    RuleError,
    ScheduleError,
    Scheduler,
    State,
    after,
    every,
)
from tickless.conditions import check_conditions
from tickless.core.invariants import check
from tickless.core.record import More, TaskRecord
from tickless.policies import FAILED, NEUTRAL, RUN, SUCCEEDED, WAIT, on_parent
from tickless.states import RunIf
from tickless.testing import FakeClock, InlinePool


def work(*given: Any) -> Any:
    return given[0] if given else None


def other(*given: Any) -> Any:
    return work(*given)


@pytest.fixture
def scheduler() -> Iterator[Scheduler]:
    made = Scheduler(InlinePool(), clock=FakeClock(), observers=[])
    yield made
    check(made._store)
    made.close()


def test_a_cycle_is_refused_with_its_path(scheduler: Scheduler) -> None:
    """Each before the one that it waits for, as for `schedule_many`."""
    with pytest.raises(DependencyError, match="flow f: a -> c -> b -> a is a cycle"), scheduler.flow("f") as flow:
        flow.task(work, name="a", after_tasks=["c"])
        flow.task(work, name="b", after_tasks=["a"])
        flow.task(work, name="c", after_tasks=["b"])
    assert scheduler.tasks() == []


def test_parents_by_name_may_come_later_and_stand_before_their_children(scheduler: Scheduler) -> None:
    with scheduler.flow("f") as flow:
        flow.task(work, name="last", after_tasks=["first", "middle"])
        flow.task(work, name="middle", after_tasks=["first"])
        flow.task(work, name="first")
    scheduler.start()
    assert [task.name for task in flow.rounds()[0].info.tasks] == ["first", "middle", "last"]


class _Odd:
    """A parent of no kind."""


@pytest.mark.parametrize(
    ("parents", "message"),
    [
        (["b"], "no task of the flow has the name 'b'; there is no other"),
        (["a"], "'a' cannot wait for itself"),
        ("a", "needs several, so put it in a list"),
        (7, "needs tasks of the flow, in a list"),
        ([_Odd()], "is neither a task nor an id"),
    ],
)
def test_what_is_no_parent_is_refused(scheduler: Scheduler, parents: Any, message: str) -> None:
    with pytest.raises(DependencyError, match=message), scheduler.flow("f") as flow:
        flow.task(work, name="a", after_tasks=parents)


def test_tasks_and_outputs_of_others_are_refused(scheduler: Scheduler) -> None:
    """A task of another flow has rounds of its own; one of the scheduler has none."""
    plain = scheduler.schedule(work, after(60))
    with scheduler.flow("g") as another:
        theirs = another.task(work)
    with scheduler.flow("f") as flow:
        mine = flow.task(work)
        for parent in (theirs, plain):
            with pytest.raises(DependencyError):
                flow.task(other, after_tasks=[parent])  # type: ignore[list-item]  # that is what is tried
            with pytest.raises(DependencyError):
                flow.task(other, args=(parent.output,))
    with pytest.raises(DependencyError):
        scheduler.schedule(work, args=(mine.output,))
    with pytest.raises(DependencyError):
        scheduler.schedule(work, after_tasks=[mine])  # type: ignore[list-item]  # that is what is tried
    assert flow.task_names == ("work",)


def test_a_name_twice_names_both(scheduler: Scheduler) -> None:
    both = r"two tasks have the name 'work', .*work.* and .*other"
    with pytest.raises(FlowError, match=both), scheduler.flow("f") as flow:
        flow.task(work)
        flow.task(other, name="work")
    with scheduler.flow("f") as flow:  # nothing of the first is there
        flow.task(work)


def test_a_flow_without_tasks_is_refused(scheduler: Scheduler) -> None:
    with pytest.raises(FlowError, match="flow f: it has no tasks"), scheduler.flow("f"):
        pass


def test_an_error_in_the_block_schedules_nothing(scheduler: Scheduler) -> None:
    with pytest.raises(ZeroDivisionError), scheduler.flow("f") as flow:
        flow.task(work)
        1 / 0  # noqa: B018 - it is what happens to a user
    assert scheduler.tasks() == []


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"retry": Retry(3)}, TypeError, "said of a task of the flow"),
        ({"on_timeout": "release"}, TypeError, "said of a task of the flow"),
        ({"delivery": "at_most_once"}, TypeError, "said of a task of the flow"),
        ({"timeuot": 3}, TypeError, "did you mean 'timeout'"),
        ({"params": 3}, FlowError, "needs a dict of names and values"),
        ({"params": {"": 3}}, ScheduleError, "params"),
        ({"pool": "db"}, ScheduleError, "no pool has this name"),
        ({"timeout": -1}, ScheduleError, "timeout"),
        ({"max_running": 2}, ScheduleError, "max_running"),
    ],
)
def test_what_a_flow_cannot_have_is_refused_before_its_block(
    scheduler: Scheduler, given: dict[str, Any], error: type[Exception], message: str
) -> None:
    entered: list[Flow] = []
    with pytest.raises(error, match=message), scheduler.flow("f", every(hours=1), **given) as flow:
        entered.append(flow)
    assert entered == []


def test_a_rule_that_never_fires_and_no_rule_are_refused(scheduler: Scheduler) -> None:
    with pytest.raises(RuleError):
        scheduler.flow("f", "every hour")  # type: ignore[arg-type]  # that is what is tried
    with pytest.raises(ScheduleError):
        scheduler.flow("")
    with pytest.raises(ScheduleError):
        scheduler.flow("#7")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"when": every(hours=1)}, "said of the flow"),
        ({"overlap": "queue"}, "said of the flow"),
        ({"id": "x"}, "unexpected keyword argument"),
        ({"retyr": None}, "did you mean 'retry'"),
    ],
)
def test_what_a_task_of_a_flow_cannot_have_is_refused(
    scheduler: Scheduler, given: dict[str, Any], message: str
) -> None:
    with scheduler.flow("f") as flow:
        flow.task(work)
        with pytest.raises(TypeError, match=message):
            flow.task(other, **given)


def test_parameters_that_the_flow_does_not_have_are_refused(scheduler: Scheduler) -> None:
    with scheduler.flow("f", params={"day": 1}) as flow:
        with pytest.raises(FlowError, match="no parameter 'dya', but 'day'"):
            flow.param("dya")
        flow.task(work, args=([flow.param("day"), flow.due],))
    with pytest.raises(FlowError):
        flow.run_now({"dya": 2})
    with pytest.raises(FlowError, match="no parameter"), scheduler.flow("g") as another:
        another.task(work, args=(flow.param("day"),))


def test_a_flow_that_is_scheduled_stands(scheduler: Scheduler) -> None:
    with scheduler.flow("f", every(hours=1)) as flow:
        with pytest.raises(FlowError, match="not scheduled yet"):
            flow.rounds()
        flow.task(work)
    with pytest.raises(FlowError, match="it is scheduled"):
        flow.task(other)
    with pytest.raises(FlowError, match="scheduled already"), flow:
        pass
    with pytest.raises(DuplicateId), scheduler.flow("f", every(hours=1)) as again:
        again.task(work)
    with pytest.raises(RuleError, match="fires once"):
        flow.reschedule(after(3))
    with pytest.raises(ScheduleError, match="has its definition for a work"):
        scheduler.update("f", work=work)


def test_as_a_decorator_it_enters_at_the_start(scheduler: Scheduler) -> None:
    @scheduler.flow("f", every(seconds=1))
    def made(flow: Flow) -> None:
        flow.task(work)

    assert isinstance(made, Flow)
    assert scheduler.tasks() == []
    scheduler.start()
    assert made.next_fire is not None

    @scheduler.flow("g")
    def late(flow: Flow) -> None:
        flow.task(work)

    assert late.rounds()[0].state is State.SUCCEEDED
    with pytest.raises(DuplicateId, match="test_flow"):

        @scheduler.flow("f")
        def another(flow: Flow) -> None:
            flow.task(work)

    with pytest.raises(FlowError, match="is no function"):
        scheduler.flow("h")(3)  # type: ignore[arg-type]  # that is what is tried


def test_options_may_be_spans_and_the_pool_and_priority_are_those_of_the_tasks() -> None:
    with Scheduler(pools={"default": InlinePool(), "db": InlinePool()}, clock=FakeClock(), observers=[]) as scheduler:
        with scheduler.flow("f", timeout=timedelta(minutes=1), pool="db", priority=3) as flow:
            flow.task(work)
            flow.task(other, pool="default", priority=1)
        one, two = (task.info for task in flow.rounds()[0].tasks.values())
        assert (one.pool, one.priority) == ("db", 3)
        assert (two.pool, two.priority) == ("default", 1)


# Conditions that can never hold


@pytest.mark.parametrize(
    ("definition", "holds"),
    [
        ([("a", [], None), ("b", ["a"], "any_failed"), ("c", ["a", "b"], None)], False),
        ([("a", [], None), ("b", ["a"], "any_failed"), ("c", ["a", "b"], "any_succeeded")], True),
        ([("a", [], None), ("b", ["a"], None), ("c", ["a"], "any_failed"), ("d", ["b", "c"], None)], False),
        ([("a", [], None), ("b", ["a"], "any_failed"), ("c", ["b"], "any_failed"), ("d", ["c", "a"], None)], False),
        ([("a", [], None), ("b", ["a"], None), ("c", ["b"], "any_failed"), ("d", ["c", "a"], None)], True),
        ([("a", [], None), ("b", ["a"], "any_failed"), ("c", ["a"], "none_failed"), ("d", ["b", "c"], None)], False),
        ([("a", [], None), ("b", ["a"], "any_failed"), ("c", ["a", "b"], "none_failed")], True),
        ([("a", [], None), ("b", [], None), ("c", ["a", "b"], "any_failed"), ("d", ["a", "b", "c"], None)], False),
        ([("a", [], None), ("b", [], None), ("c", ["a", "b"], "any_failed"), ("d", ["a", "c"], None)], True),
        ([("a", [], None), ("b", ["a"], "any_failed"), ("c", ["a", "b"], "all_done")], True),
    ],
)
def test_a_condition_that_can_never_hold_is_refused(
    scheduler: Scheduler, definition: list[tuple[str, list[str], str | None]], holds: bool
) -> None:
    def define() -> None:
        with scheduler.flow("f") as flow:
            for name, parents, run_if in definition:
                flow.task(work, name=name, after_tasks=parents, run_if=run_if or "all_succeeded")

    if holds:
        define()
    else:
        with pytest.raises(DependencyError, match=r"can never run: .* would have to fail and not to fail"):
            define()


def _can_run(tasks: list[TaskRecord]) -> set[TaskRecord]:
    """By trying every outcome of every task: those that run in one of them. Their ends decide as the machine has it."""
    ran: set[TaskRecord] = set()
    for outcomes in product((SUCCEEDED, FAILED), repeat=len(tasks)):
        ends: dict[TaskRecord, int] = {}
        for task, outcome in zip(tasks, outcomes, strict=True):
            seen = 0
            for parent in task._parents:
                seen |= ends[parent]
            run_if = RunIf.ALL_SUCCEEDED if task._more is None else task._more.run_if
            verdict = on_parent(run_if, seen, 0) if task._parents else RUN
            assert verdict is not WAIT
            if verdict.run:
                ran.add(task)
                ends[task] = outcome
            else:
                ends[task] = FAILED if verdict.skip is not None and verdict.skip == "parent_failed" else NEUTRAL
    return ran


def _record(parents: tuple[TaskRecord, ...], run_if: RunIf) -> TaskRecord:
    more = More()
    more.run_if = run_if
    return TaskRecord(None, (), None, None, f"task{len(parents)}", 0, None, None, False, more, parents)


@pytest.mark.parametrize("seed", range(40))
def test_what_is_refused_can_indeed_never_run_and_all_else_can(seed: int) -> None:
    """No false alarm: in 50 small definitions a seed, whatever is refused has a task that no outcome lets run.

    And so small a definition is seen through: what is accepted has none.
    """
    random = Random(seed)
    for _ in range(50):
        tasks: list[TaskRecord] = []
        for _ in range(random.randint(2, 6)):
            parents = tuple(random.sample(tasks, min(len(tasks), random.randint(0, 3))))
            run_if = random.choice(list(RunIf)) if parents else RunIf.ALL_SUCCEEDED
            tasks.append(_record(parents, run_if))
        try:
            check_conditions("f", tasks)
        except DependencyError:
            assert len(_can_run(tasks)) < len(tasks)
        else:
            assert len(_can_run(tasks)) == len(tasks)
