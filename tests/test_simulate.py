"""A program on the virtual clock: same seed, same trace, and a year takes a second."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest

from tests.faults.world import fail
from tickless import (
    Call,
    Event,
    EventKind,
    Limit,
    PoolError,
    Reason,
    RuleError,
    ScheduleError,
    Scheduler,
    State,
    Trace,
    after,
    at,
    current_run,
    every,
    simulate,
)
from tickless.instants import SECOND_US
from tickless.simulation import START

START_US = int(START.timestamp()) * SECOND_US


def nothing() -> None: ...


def second(us: int | None) -> float | None:
    return None if us is None else (us - START_US) / SECOND_US


def moments(trace: Trace, kind: EventKind = EventKind.STARTED) -> list[tuple[str | None, float | None]]:
    """(task id, second) of each event of a kind."""
    return [(event.task_id, second(event.at_us)) for event in trace.of(kind)]


def busy(scheduler: Scheduler) -> None:
    """A program with something of everything."""
    for n in range(30):
        scheduler.schedule(nothing, after(n % 4), id=f"t{n}", priority=n % 2)
    beat = scheduler.schedule(nothing, every(seconds=1), id="beat")
    bad = scheduler.schedule(fail, after(2), id="bad")
    scheduler.schedule(nothing, after_tasks=[bad], id="doomed")
    scheduler.schedule(nothing, after_tasks=["t1", "t2"], id="joined")
    scheduler.schedule(beat.cancel, after(9), id="end")


DURATIONS: dict[str, Any] = {f"t{n}": lambda rng: rng.random() * 3 for n in range(0, 30, 3)} | {"beat": 0.4}


# Same seed, same trace


@pytest.mark.parametrize("slots", [1, 2, 7])
def test_the_same_seed_gives_the_same_trace(slots: int) -> None:
    """P10: a failure found at night can be looked at in the morning."""
    one, two = (simulate(busy, seed=5, slots=slots, durations=DURATIONS) for _ in range(2))
    assert one == two
    assert len(one.events) > 100


def test_another_seed_may_give_another_trace_and_the_same_tasks_end() -> None:
    traces = [simulate(busy, seed=seed, slots=3, durations=DURATIONS) for seed in range(5)]
    assert len({trace.events for trace in traces}) > 1
    assert len({tuple((info.id, info.state) for info in trace.tasks) for trace in traces}) == 1


def test_ends_at_one_instant_come_in_an_order_of_the_seeds() -> None:
    """In life it is the machine that decides: a program must not count on it."""

    def program(scheduler: Scheduler) -> None:
        for n in range(4):
            scheduler.schedule(nothing, id=f"t{n}")

    orders = set()
    for seed in range(30):
        trace = simulate(program, seed=seed, slots=4, durations={f"t{n}": 1 for n in range(4)})
        assert {moment for _, moment in moments(trace, EventKind.SUCCEEDED)} == {1}
        orders.add(tuple(event.task_id for event in trace.of(EventKind.SUCCEEDED)))
    assert len(orders) > 5


def test_no_thread_is_started_and_no_time_passes() -> None:
    before = threading.active_count()
    threads: set[int] = set()

    def program(scheduler: Scheduler) -> None:
        scheduler.schedule(lambda: threads.add(threading.get_ident()), every(hours=1), id="beat")

    trace = simulate(program, until=timedelta(days=365))
    assert len(moments(trace)) == 365 * 24
    assert threads == {threading.get_ident()}
    assert threading.active_count() == before


# Time


def test_bodies_take_no_time_or_what_durations_says_by_id_or_by_name() -> None:
    def program(scheduler: Scheduler) -> None:
        scheduler.schedule(nothing, id="by id")
        scheduler.schedule(nothing, name="by name")
        scheduler.schedule(nothing, id="drawn")
        scheduler.schedule(nothing, id="at once")

    durations: dict[str, Any] = {"by id": 2, "by name": timedelta(seconds=3), "drawn": lambda rng: 5.0}
    trace = simulate(program, durations=durations)
    spans = {}
    for info in trace.tasks:
        run = info.last_run
        assert run is not None
        assert run.started_us is not None
        assert run.finished_us is not None
        spans[info.name if info.id.startswith("#") else info.id] = (run.finished_us - run.started_us) / SECOND_US
    assert spans == {"by id": 2, "by name": 3, "drawn": 5, "at once": 0}
    assert second(trace.ended_us) == 10


@pytest.mark.parametrize(("slots", "end"), [(1, 10), (2, 5), (3, 4), (10, 1)])
def test_at_most_slots_runs_go_on_at_a_time(slots: int, end: float) -> None:
    def program(scheduler: Scheduler) -> None:
        for n in range(10):
            scheduler.schedule(nothing, id=f"t{n}", name="work")

    trace = simulate(program, slots=slots, durations={"work": 1})
    assert second(trace.ended_us) == end
    going = most = 0
    for event in trace.events:
        going += (event.kind is EventKind.STARTED) - (event.kind is EventKind.SUCCEEDED)
        most = max(most, going)
    assert most == slots


def test_a_fire_that_meets_its_own_run_is_skipped() -> None:
    def program(scheduler: Scheduler) -> None:
        scheduler.schedule(nothing, every(seconds=1), id="beat")

    trace = simulate(program, durations={"beat": 2.5}, until=10)
    assert [moment for _, moment in moments(trace)] == [1, 4, 7, 10]
    skips = trace.of(EventKind.SKIPPED)
    assert [(event.reason, event.count) for event in skips] == [(Reason.OVERLAP, 2)] * 3


def test_until_ends_it_there_and_all_that_is_due_by_then_has_run() -> None:
    def program(scheduler: Scheduler) -> None:
        scheduler.schedule(nothing, every(seconds=1), id="beat")
        scheduler.schedule(nothing, after(100), id="later")

    trace = simulate(program, until=3)
    assert moments(trace) == [("beat", 1), ("beat", 2), ("beat", 3)]
    assert second(trace.ended_us) == 3
    assert {info.id: info.state for info in trace.tasks} == {"beat": State.PENDING, "later": State.PENDING}
    assert simulate(program, until=timedelta(seconds=3)) == trace


def test_it_starts_where_it_is_told_to() -> None:
    start = datetime(2030, 6, 1, 12, tzinfo=UTC)

    def program(scheduler: Scheduler) -> None:
        scheduler.schedule(nothing, at(datetime(2030, 6, 1, 13, tzinfo=UTC)), id="x")

    trace = simulate(program, start=start)
    assert trace.of(EventKind.STARTED)[0].at == datetime(2030, 6, 1, 13, tzinfo=UTC)


def test_it_ends_when_every_task_is_terminal() -> None:
    trace = simulate(busy)
    assert all(info.state.terminal for info in trace.tasks)
    assert second(trace.ended_us) == 9
    empty = simulate(lambda scheduler: None)
    assert (len(empty.events), len(empty.tasks), second(empty.ended_us)) == (0, 0, 0)


# The program and its tasks


def test_tasks_may_use_the_scheduler_and_current_run() -> None:
    def program(scheduler: Scheduler) -> None:
        def body() -> None:
            scheduler.schedule(nothing, after(5), id=f"made by {current_run().task_id}")

        scheduler.schedule(body, after(1), id="x")

    trace = simulate(program)
    assert moments(trace) == [("x", 1), ("made by x", 6)]


def test_outputs_and_failures_work_as_in_life() -> None:
    def program(scheduler: Scheduler) -> None:
        one = scheduler.schedule(lambda: 5, id="one")
        scheduler.schedule(lambda x: 1 // (x - 5), args=(one.output,), id="two")
        scheduler.schedule(nothing, after_tasks=["two"], id="three")

    trace = simulate(program, durations={"one": 1, "two": 1})
    assert [info.state for info in trace.tasks] == [State.SUCCEEDED, State.FAILED, State.SKIPPED]
    assert trace.of(EventKind.FAILED)[0].error == "ZeroDivisionError: integer division or modulo by zero"


def test_the_trace_has_every_event_of_every_task_in_order() -> None:
    trace = simulate(busy, slots=2, durations=DURATIONS)
    times = [event.at_us for event in trace.events]
    assert times == sorted(times)
    by_task: dict[str | None, list[Event]] = {}
    for event in trace.events:
        by_task.setdefault(event.task_id, []).append(event)
    for task_id in ("t1", "t3", "joined"):
        assert [event.kind.value for event in by_task[task_id]] == ["scheduled", "ready", "started", "succeeded"]
    assert [event.kind.value for event in by_task["doomed"]] == ["scheduled", "skipped"]
    assert len(trace.tasks) == 35


def test_a_chain_and_a_fan_of_ten_thousand_are_no_recursion() -> None:
    def program(scheduler: Scheduler) -> None:
        last = scheduler.schedule(nothing, id="c0")
        for n in range(1, 5_000):
            last = scheduler.schedule(nothing, after_tasks=[last], id=f"c{n}")
        scheduler.schedule_many([Call(nothing, after(1)) for _ in range(5_000)])

    for slots in (1, 3):
        trace = simulate(program, slots=slots)
        assert len(trace.of(EventKind.SUCCEEDED)) == 10_000


# What cannot be


@pytest.mark.parametrize("wrong", [-1, float("nan"), float("inf"), True, "5", timedelta(seconds=-1), None, [1]])
def test_a_duration_that_is_none_is_refused_with_whose_it_is(wrong: Any) -> None:
    for durations in ({"x": wrong}, {"x": lambda rng: wrong}):
        with pytest.raises((ScheduleError, RuleError), match=r"durations=\{'x'"):
            simulate(lambda scheduler: scheduler.schedule(nothing, id="x"), durations=durations)


class Unshowable:
    def __repr__(self) -> str:
        raise RuntimeError("no repr")


UNSHOWABLE: Any = Unshowable()


@pytest.mark.parametrize("wrong", [5, "x", 0, [], [("x", 1)], UNSHOWABLE, {5: 1}, {None: 1}, {UNSHOWABLE: 1}])
def test_durations_that_are_no_dict_of_names_are_refused(wrong: Any) -> None:
    """In life: durations=5 for "each takes 5 s" is an AttributeError, and a task as key is silently never found."""
    with pytest.raises(ScheduleError, match=r"simulate\(durations=.*ids or names"):
        simulate(busy, durations=wrong)


def test_a_duration_that_cannot_be_shown_is_refused_all_the_same() -> None:
    for wrong in ({"x": UNSHOWABLE}, {"x" * 1_000_000: -1}, {"x": -(10**5000)}):
        with pytest.raises((ScheduleError, RuleError), match="durations") as caught:
            simulate(lambda scheduler: scheduler.schedule(nothing, id="x"), durations=wrong)
        assert len(str(caught.value)) < 1_000


@pytest.mark.parametrize("wrong", ["x", float("nan"), float("inf"), True, 0, -1, None, 1.5, UNSHOWABLE])
def test_a_limit_that_is_no_number_of_runs_is_refused(wrong: Any) -> None:
    """In life: nan is never reached, and the simulation of an endless program never ends."""
    with pytest.raises(ScheduleError, match=r"simulate\(limit=.*whole number"):
        simulate(busy, limit=wrong)


@pytest.mark.parametrize("wrong", ["x", 1.5, True, None, [1], UNSHOWABLE])
def test_a_seed_that_is_no_whole_number_is_refused(wrong: Any) -> None:
    """In life: seed=None draws from the system, and no trace comes twice."""
    with pytest.raises(ScheduleError, match=r"simulate\(seed=.*whole number"):
        simulate(busy, seed=wrong)


@pytest.mark.parametrize("wrong", [5, None, Scheduler, UNSHOWABLE], ids=["5", "None", "class", "unshowable"])
def test_a_program_that_takes_no_scheduler_is_refused(wrong: Any) -> None:
    if wrong is Scheduler:
        wrong = Scheduler(observers=[])
        wrong.close()
    with pytest.raises(ScheduleError, match=r"needs a function of a scheduler"):
        simulate(wrong)


@pytest.mark.parametrize("wrong", [-1, -1e-6, timedelta(seconds=-1)])
def test_an_until_before_the_start_is_refused(wrong: Any) -> None:
    """In life: a trace that ends before it begins."""
    with pytest.raises(ScheduleError, match=r"until=.*ends before it starts"):
        simulate(busy, until=wrong)


def test_an_until_past_the_calendar_is_refused() -> None:
    with pytest.raises(RuleError, match=r"until=.*year 9999"):
        simulate(busy, until=timedelta(days=365 * 8_000))


def test_an_until_of_nothing_runs_what_is_due_at_the_start() -> None:
    trace = simulate(lambda scheduler: scheduler.schedule(nothing, id="x"), until=0)
    assert moments(trace) == [("x", 0)]


@pytest.mark.parametrize("wrong", [float("nan"), "5", True, timedelta.max])
def test_an_until_that_is_no_time_is_refused(wrong: Any) -> None:
    with pytest.raises(RuleError, match="until"):
        simulate(busy, until=wrong)


def test_a_naive_start_is_refused() -> None:
    with pytest.raises(RuleError, match=r"start=.*naive"):
        simulate(busy, start=datetime(2030, 1, 1))  # noqa: DTZ001  # being naive is what it is for


@pytest.mark.parametrize("wrong", [0, -1, 1.5, True, "2", None, UNSHOWABLE])
def test_slots_that_are_none_are_refused(wrong: Any) -> None:
    with pytest.raises(PoolError, match=r"slots=.*whole number"):
        simulate(busy, slots=wrong)


def test_a_program_without_an_end_is_stopped_after_so_many_runs() -> None:
    """An endless task without `until`, and tasks that schedule one another at one instant."""

    def endless(scheduler: Scheduler) -> None:
        scheduler.schedule(nothing, every(seconds=1))

    def circle(scheduler: Scheduler) -> None:
        def again() -> None:
            scheduler.schedule(again)

        again()

    for program in (endless, circle):
        with pytest.raises(ScheduleError, match=r"1000 runs and no end; say until="):
            simulate(program, limit=1_000)


def test_a_program_that_raises_raises_out_of_it() -> None:
    def program(scheduler: Scheduler) -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        simulate(program)


def test_a_program_may_start_and_close_its_scheduler_itself() -> None:
    """As it would in life: `with scheduler:` is what programs do."""

    def program(scheduler: Scheduler) -> None:
        scheduler.schedule(nothing, after(1), id="x")
        scheduler.schedule(scheduler.close, after(2), id="closes")
        scheduler.schedule(nothing, after(3), id="never")
        scheduler.start()

    trace = simulate(program)
    assert moments(trace) == [("x", 1), ("closes", 2)]
    assert {info.id: info.state.value for info in trace.tasks} == {
        "x": "succeeded",
        "closes": "succeeded",
        "never": "cancelled",
    }


@pytest.mark.parametrize("seed", range(20))
def test_a_random_draw_comes_from_the_seed_alone(seed: int) -> None:
    def program(scheduler: Scheduler) -> None:
        for n in range(10):
            scheduler.schedule(nothing, after(n), id=f"t{n}", name="work")

    def draw(rng: Random) -> float:
        return rng.expovariate(1)

    traces = [simulate(program, seed=seed, slots=2, durations={"work": draw}) for _ in range(2)]
    assert traces[0] == traces[1]


# Pools and limits


def test_further_pools_have_slots_of_their_own_and_limits_are_the_schedulers() -> None:
    def program(scheduler: Scheduler) -> None:
        for n in range(4):
            scheduler.schedule(nothing, id=f"t{n}", name="work")
            scheduler.schedule(nothing, id=f"c{n}", name="work", pool="cpu")
            scheduler.schedule(nothing, id=f"l{n}", name="work", pool="cpu", limit="db", priority=-1)

    limits = [Limit("db", running=1)]
    trace = simulate(program, slots=1, pools={"cpu": 2}, limits=limits, durations={"work": 1})
    started = dict(moments(trace))
    assert [started[f"t{n}"] for n in range(4)] == [0, 1, 2, 3]
    assert [started[f"c{n}"] for n in range(4)] == [0, 0, 1, 1]
    assert [started[f"l{n}"] for n in range(4)] == [2, 3, 4, 5]
    assert simulate(program, slots=1, pools={"cpu": 2}, limits=limits, durations={"work": 1}) == trace


@pytest.mark.parametrize("wrong", [5, "cpu", ["cpu"], {"default": 2}, {"cpu": 0}, {"": 1}, {5: 1}, UNSHOWABLE])
def test_pools_that_are_no_dict_of_names_and_slots_are_refused(wrong: Any) -> None:
    with pytest.raises((ScheduleError, PoolError), match=r"pools=|slots="):
        simulate(busy, pools=wrong)
