"""A pool of processes: what crosses the border, what does not, and what happens when a process dies."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.faults.world import PATIENCE_S
from tests.pools import works
from tickless import OutputGone, Pool, Reason, Scheduler, State, Task, TaskRejected, after, every

SPAWN = multiprocessing.get_context("spawn")
"""A process that is forked from one with threads may hang, whatever we do."""


@pytest.fixture(scope="module")
def processes() -> Iterator[ProcessPoolExecutor]:
    with ProcessPoolExecutor(2, SPAWN) as executor:
        yield executor


@pytest.fixture
def scheduler(processes: ProcessPoolExecutor) -> Iterator[Scheduler]:
    with Scheduler(Pool(processes, slots=2), observers=[]) as scheduler:
        yield scheduler


def test_works_run_in_other_processes_and_their_values_come_back(scheduler: Scheduler) -> None:
    first = scheduler.schedule(works.add, args=(1, 2))
    second = scheduler.schedule(works.add, args=(first.output,), kwargs={"other": 10})
    assert second.result(PATIENCE_S) == 13
    assert scheduler.schedule(works.process_id).result(PATIENCE_S) != os.getpid()
    tasks = [scheduler.schedule(works.add, args=(n, n)) for n in range(100)]
    assert [task.result(PATIENCE_S) for task in tasks] == [2 * n for n in range(100)]


def test_current_run_gives_the_ids_over_there(scheduler: Scheduler) -> None:
    """And a stop flag that nobody can set: `if current_run().stop_requested` must not raise there."""
    task = scheduler.schedule(works.ids, id="far")
    task_id, due, stopped = task.result(PATIENCE_S)
    run = task.last_run
    assert run is not None
    assert (task_id, due, stopped) == ("far", run.due, False)


def test_current_run_gives_the_attempt_and_a_log_over_there(scheduler: Scheduler) -> None:
    """Whatever a body may ask here it may ask there too."""
    assert scheduler.schedule(works.attempt_over_there).result(PATIENCE_S) == (1, False, "tickless.run")


def test_what_is_raised_over_there_is_the_tasks_own_error(scheduler: Scheduler) -> None:
    task = scheduler.schedule(works.fail_over_there)
    with pytest.raises(ValueError, match="over there"):
        task.result(PATIENCE_S)
    exits = scheduler.schedule(works.exit_over_there)
    with pytest.raises(SystemExit):
        exits.result(PATIENCE_S)
    assert (task.reason, exits.state) == (None, State.FAILED)


def test_the_traceback_of_over_there_is_not_followed_by_frames_of_ours(scheduler: Scheduler) -> None:
    """The standard library gives it as text. What raised it once more on this side says nothing about the error."""
    task = scheduler.schedule(works.fail_over_there)
    with pytest.raises(ValueError, match="over there") as caught:
        task.result(PATIENCE_S)
    assert [entry.name for entry in caught.traceback][1:] == ["result"]
    assert "in fail_over_there" in str(caught.value.__cause__)


UNPICKLABLE: dict[str, dict[str, Any]] = {
    "work": {"work": lambda: None},
    "argument": {"work": works.add, "args": (lambda: None, 1)},
    "result": {"work": works.unpicklable_result},
}


@pytest.mark.parametrize("what", UNPICKLABLE)
def test_what_cannot_cross_fails_its_own_run_and_no_other(scheduler: Scheduler, what: str) -> None:
    task = scheduler.schedule(**UNPICKLABLE[what])
    assert task.wait(PATIENCE_S)
    assert task.state is State.FAILED
    with pytest.raises(Exception, match=r"pickle|local object"):
        task.result()
    assert scheduler.schedule(works.add, args=(1, 1)).result(PATIENCE_S) == 2


def is_rejected(task: Task[Any]) -> None:
    assert task.wait(PATIENCE_S)
    assert (task.state, task.reason) == (State.FAILED, Reason.REJECTED)
    with pytest.raises(TaskRejected, match="the pool did not take the run: BrokenProcessPool"):
        task.result()


@pytest.mark.parametrize("killer", [works.die, works.unpicklable_error])
def test_a_process_that_dies_breaks_its_pool_and_not_the_scheduler(killer: Any) -> None:
    """In life: the kernel kills a worker that eats all the memory, and the pool is of no use any more.

    An exception that cannot be made again on our side breaks the pool, too: the standard library's own weakness.
    """
    with ProcessPoolExecutor(1, SPAWN) as pool, Scheduler(Pool(pool, slots=1), observers=[]) as scheduler:
        beat = scheduler.schedule(works.process_id, every(hours=1))
        for task in (scheduler.schedule(killer), scheduler.schedule(works.process_id)):
            is_rejected(task)
        assert beat.state is State.PENDING
        assert not scheduler.wait(0)
    assert beat.reason is Reason.CLOSED


@pytest.mark.parametrize("durable", [False, True], ids=["memory", "sqlite"])
def test_outputs_and_parts_are_filled_in_on_this_side(
    processes: ProcessPoolExecutor, tmp_path: Path, durable: bool
) -> None:
    """What crosses is the value. Where there is none the work is not called: that is the run's failure, in words."""
    store = f"sqlite:///{tmp_path / 'tasks.db'}" if durable else None
    with Scheduler(Pool(processes, slots=2), observers=[], store=store) as scheduler:
        table = scheduler.schedule(works.table, after(0.01))
        broken = scheduler.schedule(works.fail_over_there, after(0.01))
        total = scheduler.schedule(works.add, args=(table.output["rows"][0],), kwargs={"other": table.output["n"]})
        either = scheduler.schedule(
            works.add, args=(broken.output["n"].or_else(40), table.output["n"].or_else(0)), run_if="all_done"
        )
        missing = scheduler.schedule(works.add, args=(1, table.output["none"]))
        assert (total.result(PATIENCE_S), either.result(PATIENCE_S)) == (3, 42)
        with pytest.raises(OutputGone, match=r"(?m)has no part \['none'\]: it is a dict with 'rows', 'n'$"):
            missing.result(PATIENCE_S)
