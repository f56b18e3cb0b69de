"""What is shown of a task with a policy, and who is told: on_failure, pause_after_failures, current_run."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import copy_context
from typing import Any

import pytest

from tests.cases.kit import PATIENCE_S, fires_skipped, seconds, sound, starts
from tests.policy_bench import LIMITS, TICK, Bench, fail, ready_again
from tickless import (
    EventKind,
    Pool,
    Reason,
    Retry,
    Run,
    Scheduler,
    State,
    Stopped,
    Task,
    after,
    current_run,
    every,
)
from tickless.testing import FakeClock, InlinePool, ManualPool

# What is shown


def test_pools_and_limits_show_what_stands_where() -> None:
    bench = Bench(pools={"cpu": (cpu := ManualPool(2))}, limits=LIMITS)
    scheduler, seen = bench.scheduler, []

    def look() -> None:
        bench.clock.advance(3)
        seen.append((scheduler.pools(), scheduler.limits()))

    scheduler.schedule(look, limit="one", timeout=2, pool="cpu")
    scheduler.schedule(look, limit="one", pool="cpu", name="second")
    third = scheduler.schedule(int, limit="one", pool="cpu")
    bench.note("d")
    before = scheduler.pools()
    assert {name: (pool.slots, pool.ready, pool.running, pool.zombies) for name, pool in before.items()} == {
        "default": (1, 1, 0, 0),
        "cpu": (2, 1, 0, 0),
    }
    assert (third.info.pool, third.info.waiting_for) == ("cpu", "one")
    cpu.run_all()
    pools, limits = seen[0]
    assert (pools["cpu"].running, pools["cpu"].zombies, limits["one"].running) == (0, 1, 1), "it keeps its permit"
    pools, limits = seen[1]
    assert (pools["cpu"].running, pools["cpu"].zombies, limits["one"].running) == (1, 0, 1)
    assert all(limit.running == limit.waiting == 0 for limit in scheduler.limits().values())
    bench.go()


def test_task_info_tells_pool_tags_retry_and_limit() -> None:
    bench = Bench(limits=LIMITS, pools={"cpu": ManualPool()})
    task = bench.scheduler.schedule(fail, retry=Retry(2, delay=9), tags=["b", "a", "b"], limit="one")
    info = task.info
    assert (info.tags, info.pool, info.waiting_for, info.retry_at_us, info.paused) == (
        ("b", "a"),
        "default",
        None,
        None,
        False,
    )
    bench.pool.run_all()
    assert (seconds(task.info.retry_at_us), task.reason, task.info.next_fire) == (9, Reason.RETRY, None)
    bench.note("x", limit="rate")
    bench.pool.run_all()
    waiter = bench.note("y", limit="rate")
    assert (waiter.state, waiter.info.waiting_for) == (State.READY, "rate")
    assert bench.scheduler.limits()["rate"].waiting == 1
    waiter.pause()
    assert (waiter.info.waiting_for, bench.scheduler.limits()["rate"].waiting) == (None, 0)
    waiter.resume()
    bench.go(30)
    assert waiter.state is State.SUCCEEDED


@pytest.mark.parametrize("then", ["ready", "paused", "cancelled"])
def test_a_second_attempt_is_shown_as_one_wherever_it_stands(then: str) -> None:
    """READY, held, cancelled before it began: its first attempt is not forgotten."""
    bench = Bench()
    task = ready_again(bench)
    if then == "paused":
        task.pause()
    elif then == "cancelled":
        task.cancel()
    run = task.last_run
    assert run is not None
    assert (run.attempt, [one.error for one in run.attempts]) == (2, ["ValueError: broken"])
    sound(bench.scheduler)


# on_failure


def test_the_handler_is_called_once_after_the_last_attempt_with_all_that_is_known() -> None:
    bench = Bench()
    got: list[Run] = []
    task = bench.scheduler.schedule(fail, retry=Retry(3, delay=1, factor=1), on_failure=got.append, id="x", timeout=60)
    bench.go()
    bench.go(1)
    assert (got, task.state) == ([], State.PENDING)
    bench.clock.advance(1)
    bench.pool.run_next()
    assert task.state is State.FAILED
    assert not bench.scheduler.wait(0), "it is waited for"
    bench.go()
    (run,) = got
    assert run == task.last_run
    assert (run.state, run.attempt, len(run.attempts), run.error) == (State.FAILED, 3, 2, "ValueError: broken")
    assert [info.id for info in bench.scheduler.tasks()] == ["x"], "it is listed nowhere"
    assert bench.scheduler.wait(0)


WAYS: dict[str, Callable[[Bench, list[Run]], Any]] = {
    "fails": lambda bench, got: bench.scheduler.schedule(fail, on_failure=got.append),
    "times out": lambda bench, got: bench.scheduler.schedule(
        bench.clock.advance, args=(5,), timeout=2, on_failure=got.append
    ),
    "exits": lambda bench, got: bench.scheduler.schedule(exit, on_failure=got.append),
    "of many": lambda bench, got: bench.scheduler.schedule(
        fail, TICK, overlap="allow", max_runs=1, on_failure=got.append
    ),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("paused", [False, True])
def test_the_handler_is_called_however_the_run_failed_and_though_all_is_paused(way: str, paused: bool) -> None:
    """The alarm rings during a repair too: whoever waits for all would wait for ever for one that is held."""
    bench, got = Bench(), list[Run]()
    task = WAYS[way](bench, got)
    bench.clock.advance(10)
    bench.pool.run_next()
    if paused:
        bench.scheduler.pause()
    bench.go(0)
    assert [run.task_id for run in got] == [task.id]
    assert bench.scheduler.wait(0)
    bench.scheduler.resume()
    assert len(got) == 1
    sound(bench.scheduler)


@pytest.mark.parametrize("end", ["succeeds", "cancelled", "skipped", "stopped"])
def test_the_handler_is_not_called_for_an_end_that_is_no_failure(end: str) -> None:
    bench, got = Bench(), list[Run]()
    tasks: list[Task[Any]] = []
    work: Callable[[], object] = int if end != "stopped" else lambda: tasks[0].cancel()
    task = bench.scheduler.schedule(work, after(1), on_failure=got.append, grace=1)
    tasks.append(task)
    if end == "cancelled":
        task.cancel()
    if end == "skipped":
        bench.clock.suspend(5)
    bench.go(5)
    assert task.state.terminal
    assert got == []


def test_a_handler_that_fails_is_an_event_and_calls_no_handler() -> None:
    bench = Bench()

    def handler(run: Run) -> None:
        bench.order.append(run)
        raise LookupError("handler")

    bench.scheduler.schedule(fail, on_failure=handler, id="x")
    bench.go(10)
    assert len(bench.order) == 1
    failures = [event for event in bench.ear.events if event.kind is EventKind.FAILED]
    assert [(event.task_id, event.error) for event in failures] == [
        ("x", "ValueError: broken"),
        ("x/on_failure", "LookupError: handler"),
    ]
    assert bench.scheduler.wait(0)


def test_a_handler_that_comes_at_close_is_told_as_skipped() -> None:
    bench, got = Bench(), list[Run]()

    def body() -> None:
        bench.scheduler.close(timeout=0)
        fail()

    task = bench.scheduler.schedule(body, on_failure=got.append, id="x", retry=Retry(3))
    bench.pool.run_all()
    assert (task.state, got) == (State.FAILED, [])
    assert [(event.task_id, event.reason) for event in bench.ear.events if event.kind is EventKind.SKIPPED] in (
        [("x/on_failure", Reason.CLOSED)],
        [],  # its journal was closed before
    )


# pause_after_failures


@pytest.mark.parametrize("overlap", ["skip", "queue", "allow", "replace"])
def test_a_task_that_fails_too_often_in_a_row_pauses_itself_whatever_its_overlap(overlap: Any) -> None:
    """Its next fire may have its place already, and others of it may be ready: they are held with it."""
    bench = Bench()
    task = bench.scheduler.schedule(fail, TICK, overlap=overlap, pause_after_failures=2)
    bench.go(100)
    info = task.info
    assert (info.paused, info.pause_reason, info.state) == (True, "2 failures in a row", State.PENDING)
    assert starts(task.runs()) == [10, 20]
    assert bench.kinds(task).count(EventKind.PAUSED) == 1
    assert task.resume()
    bench.go(35)
    assert (task.info.paused, len(starts(task.runs()))) == (True, 4), "it counts anew"


def test_those_of_an_allowed_crowd_that_are_ready_are_held_when_the_first_fails() -> None:
    bench = Bench()
    task = bench.scheduler.schedule(fail, TICK, overlap="allow", pause_after_failures=1)
    bench.clock.advance(30)
    bench.go()
    assert len(starts(task.runs())) == 1
    assert [run.reason for run in task.runs()][1:] == [Reason.PAUSED] * 2
    task.resume()
    bench.go()
    assert len(starts(task.runs())) == 2, "and again"


@pytest.mark.parametrize("between", ["success", "skip", "stop"])
def test_only_a_success_breaks_the_row(between: str) -> None:
    """What was skipped or cancelled says nothing about the work."""
    bench = Bench()

    def body() -> None:
        bench.order.append(1)
        if len(bench.order) != 2 or between == "skip":
            fail()
        if between == "stop":
            raise Stopped

    task = bench.scheduler.schedule(body, TICK, pause_after_failures=2, grace=5)
    bench.go(10)
    if between == "skip":
        bench.clock.suspend(16)
    bench.go(14 if between == "skip" else 20)
    assert fires_skipped(task, Reason.MISFIRE) == int(between == "skip")
    assert task.info.paused is (between != "success")


# current_run


def test_current_run_tells_attempt_and_logs_under_its_names(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()

    def body() -> None:
        run = current_run()
        bench.order.append((run.task_id, run.attempt, run.lease_lost, bool(run.stop_requested)))
        run.log.warning("rows: %d", 5)
        run.log.warning("100% of it", extra={"mine": 1})
        fail()

    bench.scheduler.schedule(body, id="night", retry=Retry(2, delay=1))
    bench.go(2)
    assert bench.order == [("night", 1, False, False), ("night", 2, False, False)]
    mine = [record for record in caplog.records if record.name == "tickless.run"]
    assert [record.getMessage() for record in mine] == [
        "night attempt 1: rows: 5",
        "night attempt 1: 100% of it",
        "night attempt 2: rows: 5",
        "night attempt 2: 100% of it",
    ]
    assert [(record.__dict__["task_id"], record.__dict__["attempt"]) for record in mine] == [
        *[("night", 1)] * 2,
        *[("night", 2)] * 2,
    ]
    assert {record.funcName for record in mine} == {"body"}


@pytest.mark.parametrize("settings", [{}, {"timeout": 60}, {"retry": Retry(2)}, {"overlap": "allow"}])
def test_current_run_answers_in_a_thread_that_was_started_with_a_copy_of_the_context(settings: dict[str, Any]) -> None:
    with Scheduler(slots=1, observers=[]) as scheduler:
        got: list[Any] = []

        def inner() -> None:
            run = current_run()
            got.append((run.task_id, run.attempt, run.lease_lost, bool(run.stop_requested), run.due))
            run.log.debug("here")

        def body() -> None:
            thread = threading.Thread(target=copy_context().run, args=(inner,))
            thread.start()
            thread.join()
            got.append(current_run().due)
            scheduler.cancel("x")

        task: Task[Any] = (
            scheduler.schedule(body, every(seconds=0.001), id="x", **settings)
            if "overlap" in settings
            else (scheduler.schedule(body, id="x", **settings))
        )
        assert task.wait(PATIENCE_S)
        assert got[0][:4] == ("x", 1, False, False)
        assert got[0][4] == got[1]


def test_a_run_in_another_pool_tells_its_names_too() -> None:
    """One submit per run: by a copy of what it needs, as in another process."""
    clock = FakeClock()
    got: list[Any] = []
    with Scheduler(
        pools={"default": InlinePool(), "one": Pool(_Single(), slots=1)}, clock=clock, observers=[]
    ) as scheduler:
        scheduler.schedule(lambda: got.append((current_run().task_id, current_run().attempt)), id="x", pool="one")
        clock.advance(1)
    assert got == [("x", 1)]


class _Single(InlinePool):
    """As a foreign executor: it does not say how many slots it has."""

    tickless_slots = None  # type: ignore[assignment]  # that is how it does not say
