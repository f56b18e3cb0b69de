"""The end of a scheduler, of its process, and of the process that it was forked from."""

from __future__ import annotations

import logging
import random
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.cases.kit import PATIENCE_S, ready
from tests.cases.scripts import process, result
from tests.pressing import press_until_it_ends
from tickless import Reason, Scheduler, SchedulerClosed, State, current_run, every
from tickless.testing import FakeClock, ManualPool

needs_signals = pytest.mark.skipif(sys.platform == "win32", reason="Windows sends no signals between processes")


def test_BUG_036_after_a_close_at_any_time_nothing_starts_runs_or_complains(caplog: pytest.LogCaptureFixture) -> None:
    """In life: a run starts after stop() has returned; or a submit into the closed pool is logged as an error."""
    rng = random.Random(36)
    with ThreadPoolExecutor(2) as pool:
        for _ in range(250):
            calls: list[int] = []
            enough = threading.Event()
            close_after = rng.randrange(4)

            def work(calls: list[int] = calls, enough: threading.Event = enough, last: int = close_after) -> None:
                calls.append(1)
                if len(calls) >= last:
                    enough.set()

            scheduler = Scheduler(pool, keep_runs=1)
            tasks = [scheduler.schedule(work, every(seconds=0.001)) for _ in range(3)]
            scheduler.start()
            if close_after:
                assert enough.wait(PATIENCE_S)
            assert scheduler.close() == []
            called = len(calls)
            assert [task.state for task in tasks if not task.state.terminal] == []
            assert ready(scheduler) == 0
            assert len(calls) == called
        assert pool.submit(int).result(PATIENCE_S) == 0, "a given pool is never closed"
    assert [record.message for record in caplog.records if record.levelno >= logging.ERROR] == []


def test_BUG_036_nothing_that_was_submitted_starts_after_the_close() -> None:
    """In life: the database is closed after stop(), and then a run begins that needs it."""
    clock, pool = FakeClock(), ManualPool(slots=2)
    called: list[int] = []
    scheduler = Scheduler(pool, clock=clock, observers=[])
    tasks = [scheduler.schedule(called.append, args=(number,)) for number in range(3)]
    scheduler.start()
    assert len(pool) == 2
    assert scheduler.close() == []
    pool.run_all()
    assert called == []
    assert [(task.state, task.reason) for task in tasks] == [(State.CANCELLED, Reason.CLOSED)] * 3
    with pytest.raises(SchedulerClosed):
        scheduler.schedule(int)
    with pytest.raises(SchedulerClosed):
        scheduler.start()


def test_BUG_036_close_with_a_timeout_returns_and_names_what_still_runs() -> None:
    """In life: one hung task, and stop() never comes back."""
    begun, go = threading.Event(), threading.Event()
    with Scheduler(slots=1, observers=[]) as scheduler:

        def block() -> None:
            begun.set()
            go.wait(PATIENCE_S)

        scheduler.schedule(block, id="blocked")
        waiting = scheduler.schedule(int, id="waiting")
        assert begun.wait(PATIENCE_S)
        left = scheduler.close(timeout=0.02)
        assert [(run.task_id, run.state) for run in left] == [("blocked", State.RUNNING)]
        assert waiting.reason is Reason.CLOSED
        go.set()
        assert scheduler.close() == []
        assert scheduler.get("blocked").state is State.SUCCEEDED


def test_BUG_037_phase_tells_where_in_its_life_the_scheduler_is() -> None:
    """In life: it answers questions, schedules nothing, and nobody can see why."""
    begun = threading.Event()
    scheduler = Scheduler(slots=1, observers=[])
    phases: list[str] = [scheduler.phase]

    def until_stopped() -> None:
        phases.append(scheduler.phase)
        begun.set()
        if current_run().stop_requested.wait(PATIENCE_S):
            phases.append(scheduler.phase)

    scheduler.schedule(until_stopped)
    scheduler.start()
    assert begun.wait(PATIENCE_S)
    scheduler.close(cancel=True)
    assert [*phases, scheduler.phase] == ["new", "running", "closing", "closed"]


BLOCKED = """
scheduler = Scheduler()
def block():
    print("started", flush=True)
    sys.stdin.readline()
    print("finished", flush=True)
scheduler.schedule(block)
far = scheduler.schedule(int, after(3600))
scheduler.schedule(print, every(seconds=0.001), args=("tick",), after_tasks=[far])
try:
    scheduler.run()
except KeyboardInterrupt:
    print(scheduler.phase, [str(info.state) for info in scheduler.tasks()], flush=True)
    raise
"""


@needs_signals
def test_BUG_037_interrupt_while_a_task_blocks_ends_the_run_and_is_raised_again() -> None:
    """In life: Ctrl-C leaves a scheduler that schedules nothing; or the program never learns of it."""
    with process(BLOCKED) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "started\n"
        program.send_signal(signal.SIGINT)
        out, err = program.communicate("go\n", timeout=PATIENCE_S)
    assert program.returncode in (130, -signal.SIGINT), err  # as Python ends on a KeyboardInterrupt
    assert out.splitlines() == ["finished", "closed ['succeeded', 'cancelled', 'cancelled']"]
    assert err.count("Traceback") == 1, "the KeyboardInterrupt that the program did not catch"


@needs_signals
def test_BUG_037_second_interrupt_ends_the_process_at_once() -> None:
    """In life: the task hangs for good, and only kill -9 helps."""
    source = BLOCKED.replace(
        "scheduler = Scheduler()",
        "class Scribe:\n"
        "    kinds = frozenset({EventKind.CANCELLED})\n"
        "    def observe(self, events):\n"
        "        print('stopping', flush=True)\n"
        "scheduler = Scheduler(observers=[Scribe()])",
    )
    with process(source) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "started\n"
        program.send_signal(signal.SIGINT)
        assert program.stdout.readline() == "stopping\n"
        assert press_until_it_ends(program, signal.SIGINT) == -signal.SIGINT


FORGOTTEN = """
number = int(sys.argv[1])
beat = threading.Event()
def work():
    print("beat", flush=True)
    beat.set()
scheduler = Scheduler(slots=2) if number % 2 else Scheduler(ThreadPoolExecutor(2))
for _ in range(3):
    scheduler.schedule(work, every(seconds=0.001))
scheduler.start()
if number % 3:
    beat.wait(30)
if number % 5 == 0:
    sys.exit(0)
"""


def test_BUG_039_process_that_forgets_to_close_ends_quietly() -> None:
    """In life: "Fatal Python error: could not acquire lock for stdout" and a core file, one exit in fifty."""
    source = "from concurrent.futures import ThreadPoolExecutor\n" + FORGOTTEN
    with ThreadPoolExecutor(4) as pool:
        ends = list(pool.map(lambda number: result(source, number), range(12)))
    # On a busy machine an interval of 1 ms is skipped now and then, and said to be so.
    assert [end for end in ends if end[0] or any(word in end[2] for word in ("Fatal", "Traceback", "rror"))] == []


FORK = """
scheduler = Scheduler(slots=1, observers=[])
task = scheduler.schedule(int, after(3600), id="x")
scheduler.start()
stop = threading.Event()
def add():
    while not stop.is_set():
        scheduler.schedule(int, after(3600)).cancel()
adders = [threading.Thread(target=add) for _ in range(2)]
for adder in adders:
    adder.start()

def in_child():
    signal.alarm(20)
    calls = [
        lambda: scheduler.schedule(int), lambda: scheduler.schedule_many([Call(int)]), lambda: scheduler.cancel("x"),
        lambda: scheduler.get("x"), lambda: scheduler.tasks(), lambda: scheduler.runs("x"), lambda: scheduler.start(),
        lambda: scheduler.run(), lambda: scheduler.wait(), lambda: scheduler.close(), lambda: task.state,
        lambda: task.cancel(), lambda: task.wait(), lambda: task.result(),
    ]
    for number, call in enumerate(calls):
        try:
            call()
        except ForkedScheduler:
            continue
        return 100 + number
    with Scheduler(slots=1, observers=[]) as own:
        return own.schedule(lambda: 7).result(15)

for _ in range(25):
    child = os.fork()
    if child == 0:
        code = 99
        try:
            code = in_child()
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    print(os.waitstatus_to_exitcode(status))
stop.set()
for adder in adders:
    adder.join()
print("parent", scheduler.schedule(lambda: "works").result(30), task.state)
scheduler.close()
"""


@pytest.mark.skipif(not hasattr(signal, "alarm"), reason="there is no fork on Windows")
def test_BUG_040_in_a_forked_child_every_call_says_so_and_none_hangs() -> None:
    """In life: the server forks its workers after the import, tasks are added there, and nothing ever runs."""
    source = "import warnings\nwarnings.simplefilter('ignore', DeprecationWarning)\n" + FORK
    code, out, err = result(source)
    assert code == 0, err
    assert out.splitlines() == ["7"] * 25 + ["parent works pending"]
    assert err == ""


def test_BUG_040_child_that_ends_as_a_process_does_leaves_the_parents_scheduler_alone() -> None:
    """In life: the child's exit hooks close the scheduler of the parent, or hang on its threads."""
    source = """
import warnings
warnings.simplefilter('ignore', DeprecationWarning)
with Scheduler(slots=1) as scheduler:
    scheduler.schedule(int).wait(30)
    child = os.fork()
    if child == 0:
        sys.exit(5)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    print(scheduler.schedule(lambda: "works", after(0.001)).result(30))
"""
    if not hasattr(signal, "alarm"):
        pytest.skip("there is no fork on Windows")
    assert result(source) == (0, "5\nworks\n", "")
