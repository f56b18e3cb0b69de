"""What was declared: refused at once, or in the store from the start on.

The invariants: what is refused has changed nothing; a start that fails leaves nothing behind and may be tried again.
"""

from __future__ import annotations

import functools
import importlib
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.declaring import Make, advance, in_memory_and_on_sqlite, maker, module, still
from tests.stores.sql.house import House, note, told
from tickless import (
    DuplicateId,
    PayloadError,
    RuleError,
    ScheduleError,
    Scheduler,
    SchedulerClosed,
    State,
    StoreDown,
    Task,
    every,
)
from tickless.declared import declare
from tickless.drafts import draft
from tickless.errors import PoolError
from tickless.testing import FakeClock, InlinePool, ManualPool

HERE = f"{__name__}:"
BEAT = """
@scheduler.every(minutes=5)
def beat(): return "first"
"""


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


@pytest.fixture
def scheduler() -> Iterator[Scheduler]:
    yield from still()


@pytest.fixture
def make(kept: str, house: House) -> Make:
    return maker(kept, house)


# What is refused at the decoration


def decorators(scheduler: Scheduler) -> dict[str, tuple[type[Exception], str, Callable[[], Any]]]:
    past = datetime(2000, 1, 1, tzinfo=UTC)
    bad: Any = scheduler
    return {
        "option": (TypeError, "every() got an unexpected keyword argument 'retries'; did you mean 'retry'",
                   lambda: bad.every(minutes=5, retries=3)),
        "of a call": (TypeError, "'id'; say it of one call: f.options(id=...)", lambda: bad.task(id="x")),
        "arguments": (TypeError, "'args'; arguments are given to schedule", lambda: bad.task(args=(1,))),
        "exists": (TypeError, "'exists'; say it of one call", lambda: bad.cron("0 1 * * *", exists="keep")),
        "value": (ScheduleError, "retry=3: needs a Retry", lambda: bad.task(retry=3)),
        "policy": (ScheduleError, "max_running=2", lambda: bad.every(minutes=5, max_running=2)),
        "one-shot": (ScheduleError, "give a recurring rule", lambda: bad.task(overlap="queue")),
        "pool": (ScheduleError, "pool='x': no pool has this name", lambda: bad.task(pool="x")),
        "name": (ScheduleError, "name=''", lambda: bad.task(name="")),
        "id": (ScheduleError, "id '#1'", lambda: bad.every(minutes=5, id="#1")),
        "interval": (RuleError, "at least 1 ms", lambda: bad.every(minutes=0)),
        "no interval": (RuleError, "every(", lambda: bad.every()),
        "mixed": (RuleError, "choose one", lambda: bad.every(minutes=5, days=1)),
        "cron": (RuleError, "'61 * * * *'", lambda: bad.cron("61 * * * *")),
        "zone": (RuleError, "Mars", lambda: bad.cron("0 1 * * *", tz="Mars/Base")),
        "never": (RuleError, "never fires", lambda: bad.every(minutes=5, until=past)),
        "jitter": (ScheduleError, "jitter=300", lambda: bad.every(minutes=5, jitter=300)),
        "too many": (ScheduleError, "it cannot be called so: too many", lambda: bad.every(minutes=5, args=(1, 2, 3))),
        "kwargs": (ScheduleError, "it cannot be called so: got an unexpected",
                   lambda: bad.every(minutes=5, kwargs={"y": 1})),
    }  # fmt: skip


@in_memory_and_on_sqlite
@pytest.mark.parametrize("case", decorators(Scheduler(InlinePool())))
def test_what_cannot_be_is_refused_at_the_decoration_with_function_and_place(case: str, make: Make) -> None:
    """Else the program starts, and the mistake waits for the night. Nothing is left of it, so it can be put right."""
    scheduler = make()
    kind, why, decorator = decorators(scheduler)[case]

    def work(x: int = 1) -> None: ...

    with pytest.raises(kind) as caught:
        decorator()(work)
    line = work.__code__.co_firstlineno
    assert str(caught.value).startswith(f"{work.__qualname__} ({__file__}:{line}): ")
    assert why in str(caught.value)
    assert (scheduler._declared.named, scheduler._declared.listed, scheduler._declared.waiting) == ({}, {}, [])
    scheduler.every(minutes=5)(work)
    with scheduler:
        assert len(scheduler.tasks()) == 1


def test_a_function_that_needs_arguments_is_refused_without_them(scheduler: Scheduler) -> None:
    """Each of its fires would fail."""

    def work(x: int) -> None:
        told.append(x)

    with pytest.raises(ScheduleError, match=r"missing a required argument: 'x'; give args= and kwargs="):
        scheduler.every(minutes=5)(work)
    scheduler.every(minutes=5, kwargs={"x": 3})(work)
    scheduler.start()
    advance(scheduler, 300)
    assert told == [3]


def test_what_cannot_be_stored_is_refused_at_the_decoration(house: House) -> None:
    scheduler = house.make()

    def work(*x: object) -> None: ...

    for options in ({"args": (object(),)}, {"on_failure": lambda run: None}):
        with pytest.raises(PayloadError, match=r"work \(.*test_declared"):
            scheduler.every(minutes=5, **options)(work)
    with pytest.raises(PayloadError, match=r"a lambda has no name"):
        scheduler.task(on_failure=lambda run: None)(work)
    assert scheduler._durable is not None
    with pytest.raises(PayloadError):
        scheduler._durable.works.resolve(f"{HERE}{work.__qualname__}")
    scheduler.close()


def test_a_decorator_without_its_brackets_says_so(scheduler: Scheduler) -> None:
    """It would take the function for the interval, and declare nothing."""
    bare: Any = scheduler
    with pytest.raises(ScheduleError, match=r"say when, e\.g\. @scheduler\.every\(minutes=5\)"):
        bare.every(note)
    with pytest.raises(ScheduleError, match=r"say when, e\.g\. @scheduler\.cron\(\"30 2"):
        bare.cron(note)


def test_a_closed_scheduler_takes_no_declarations(scheduler: Scheduler) -> None:
    @scheduler.every(minutes=5)
    def before() -> None: ...

    scheduler.close()
    for decorator in (scheduler.task(), scheduler.every(minutes=5), scheduler.cron("0 1 * * *")):
        with pytest.raises(SchedulerClosed, match="declare to one that is not"):
            decorator(note)
    assert before() is None
    with pytest.raises(SchedulerClosed):
        before.schedule()
    with pytest.raises(SchedulerClosed):
        scheduler.start()
    assert scheduler.tasks() == []


# A start that fails


def test_a_failing_start_leaves_nothing_in_the_file_and_may_be_tried_again(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of a program's tasks, in a file that other processes work on, would run without the other half."""
    scheduler = house.make()
    for id in ("a", "b", "c"):
        scheduler.every(minutes=5, id=id, name=id)(lambda: told.append("x"))
    monkeypatch.setattr("tickless.stores.sql.batches.update.enter_or", failing_at("b"))
    with pytest.raises(PoolError, match="the second"):
        scheduler.start()
    assert scheduler.phase == "new"
    assert scheduler.tasks() == []
    with house.start() as other:
        assert other.tasks() == []
    monkeypatch.undo()
    with scheduler:
        assert [info.id for info in scheduler.tasks()] == ["a", "b", "c"]
        house.clock.advance(300)
        assert told == ["x"] * 3


def failing_at(id: str) -> Callable[..., Any]:
    """What enters a task, and refuses that one after it has taken others."""
    from tickless.core.update import enter_or

    def enter(machine: Any, exists: Any, task: Any, now: Any) -> Any:
        if task._id == id:
            raise PoolError("the second")
        return enter_or(machine, exists, task, now)

    return enter


def test_an_outage_at_the_start_is_no_end(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    scheduler = house.make()

    @scheduler.every(minutes=5, id="a")
    def beat() -> None: ...

    def down(*_: object) -> None:
        raise StoreDown("away")

    monkeypatch.setattr("tickless.durable.update_all", down)
    with pytest.raises(StoreDown, match="away"):
        scheduler.start()
    monkeypatch.undo()
    with scheduler:
        assert scheduler.get("a").state is State.PENDING


def test_a_start_that_fails_later_does_not_declare_twice(scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch) -> None:
    """No thread to be had: what was declared is in, and the next start finds nothing to enter."""

    @scheduler.every(minutes=5, id="a")
    def beat() -> None: ...

    def no_thread() -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(scheduler._dispatcher, "start", no_thread)
    with pytest.raises(RuntimeError, match="new thread"):
        scheduler.start()
    monkeypatch.undo()
    scheduler.start()
    assert [info.id for info in scheduler.tasks()] == ["a"]


def test_a_module_loaded_again_between_two_starts_is_an_update(
    scheduler: Scheduler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first start has failed after what was declared had entered."""
    shop = module(tmp_path, scheduler, "between_of_a_test", BEAT, monkeypatch)

    def no_thread() -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(scheduler._dispatcher, "start", no_thread)
        with pytest.raises(RuntimeError, match="new thread"):
            scheduler.start()
    importlib.reload(shop)
    scheduler.start()
    assert [info.id for info in scheduler.tasks()] == ["between_of_a_test:beat"]


def test_what_is_declared_in_the_middle_of_a_start_enters(monkeypatch: pytest.MonkeyPatch) -> None:
    """By another thread, when all that was declared before has entered, and the scheduler does not run yet."""
    with Scheduler(observers=[]) as scheduler:
        assert scheduler.tasks() == []
    scheduler = Scheduler(observers=[])
    begin = scheduler._journal.start

    def late() -> None:
        begin()
        scheduler.every(hours=1, id="late", name="late")(lambda: None)

    monkeypatch.setattr(scheduler._journal, "start", late)
    with scheduler:
        assert [info.id for info in scheduler.tasks()] == ["late"]
        scheduler.cancel("late")


def test_the_lock_is_free_while_what_is_due_runs() -> None:
    """A work in a pool that runs it at once waits for a thread that declares: for ever, if the lock were held."""
    scheduler = Scheduler(InlinePool(), clock=FakeClock(), observers=[])
    free: list[bool] = []

    def look() -> None:
        thread = threading.Thread(target=lambda: free.append(scheduler._declared.lock.acquire(timeout=5)))
        thread.start()
        thread.join()

    scheduler.start()
    declare(scheduler, look, "now", lambda: scheduler._store.add(draft_of_now(scheduler, look), scheduler._now()))  # type: ignore[arg-type]  # a def is a FunctionType
    assert free == [True]
    scheduler.close()


def test_who_declares_after_the_start_has_it_looked_at(scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the dispatcher sleeps on, until somebody else rings."""
    looks: list[int] = []
    scheduler.start()
    monkeypatch.setattr(scheduler, "_look", lambda: looks.append(1))
    scheduler.every(minutes=5, name="a")(lambda: None)
    assert looks == [1]


def draft_of_now(scheduler: Scheduler, work: Callable[[], object]) -> Task[object]:
    return draft(scheduler, scheduler._clock, scheduler._now(), work, None)


def test_a_declaration_after_the_start_that_fails_is_none(scheduler: Scheduler) -> None:
    scheduler.start()
    scheduler.schedule(note, every(hours=1), id="a")

    def beat() -> None: ...

    with pytest.raises(DuplicateId, match="is that of a task") as caught:
        scheduler.every(minutes=5, id="a")(beat)
    assert str(caught.value).count(__file__) == 1
    assert (scheduler._declared.named, scheduler._declared.listed, scheduler._declared.waiting) == ({}, {}, [])
    assert scheduler.every(minutes=5, id="b")(beat).id == "b"


# What others declare


def test_the_hook_calls_at_the_start_once_and_goes_on_where_it_failed(scheduler: Scheduler) -> None:
    """What a flow's decorator needs: its place in the message, and one id with the others."""
    calls: list[str] = []

    def enter(what: str) -> None:
        calls.append(what)
        if calls.count("b") == 1 and what == "b":
            raise ScheduleError("not yet")

    def etl() -> None: ...

    scheduler.every(minutes=5, id="first", name="first")(lambda: 1)
    for id in ("a", "b", "c"):
        declare(scheduler, etl, id, functools.partial(enter, id))  # type: ignore[arg-type]  # a def is a FunctionType
    with pytest.raises(DuplicateId, match=r"the id 'b' is declared already, by .*etl"):
        scheduler.every(minutes=5, id="b", name="b")(lambda: 1)
    assert calls == []
    scheduler.every(minutes=5, id="last", name="last")(lambda: 1)
    with pytest.raises(ScheduleError, match=r"etl \(.*test_declared\.py:\d+\): not yet"):
        scheduler.start()
    scheduler.start()
    scheduler.start()
    assert calls == ["a", "b", "b", "c"]
    assert [info.id for info in scheduler.tasks()] == ["first", "last"]
    declare(scheduler, etl, "d", functools.partial(enter, "d"))  # type: ignore[arg-type]  # a def is a FunctionType
    assert calls[-1] == "d"


def test_a_thread_that_declares_while_another_starts_loses_nothing() -> None:
    """A module imported late, by a thread of a web server."""
    for _ in range(50):
        scheduler = Scheduler(ManualPool(), clock=FakeClock(), observers=[])
        ready = threading.Barrier(2)

        def late(scheduler: Scheduler = scheduler, ready: threading.Barrier = ready) -> None:
            ready.wait(10)
            for id in ("a", "b", "c"):
                scheduler.every(minutes=5, id=id, name=id)(lambda: None)

        thread = threading.Thread(target=late)
        thread.start()
        ready.wait(10)
        scheduler.start()
        thread.join()
        assert sorted(info.id for info in scheduler.tasks()) == ["a", "b", "c"]
        scheduler.close()


def test_real_threads_and_the_real_clock_run_what_is_declared_before_the_start_and_after() -> None:
    """After it, the dispatcher sleeps, and must be woken."""
    before, later = threading.Event(), threading.Event()
    scheduler = Scheduler(observers=[])

    @scheduler.every(timedelta(milliseconds=5))
    def early() -> None:
        before.set()

    with scheduler:
        assert before.wait(10)
        scheduler.cancel(early.name)
        assert scheduler.wait(10)

        @scheduler.every(timedelta(milliseconds=5))
        def late() -> None:
            later.set()

        assert later.wait(10)
        scheduler.cancel(late.name)
