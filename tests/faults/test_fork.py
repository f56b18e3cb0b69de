"""A forked child has none of the scheduler's threads: every call there says so, and the parent does not notice.

In life: gunicorn forks its workers after the module with the scheduler was imported.
"""

from __future__ import annotations

import os

import pytest

from tests.faults.processes import quiet

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")

FORK = """
import signal, time, traceback
signal.alarm(50)                                    # a child that hangs is killed, and the parent sees its status

def in_child(body):
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        signal.alarm(20)
        try:
            body()
            sys.stdout.flush()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

def refusals(scheduler, task):
    calls = {
        "schedule": lambda: scheduler.schedule(print),
        "schedule_many": lambda: scheduler.schedule_many([Call(print)]),
        "schedule_many of none": lambda: scheduler.schedule_many([]),
        "cancel": lambda: scheduler.cancel("x"), "get": lambda: scheduler.get("x"), "tasks": scheduler.tasks,
        "runs": lambda: scheduler.runs("x"), "start": scheduler.start, "run": scheduler.run, "wait": scheduler.wait,
        "close": scheduler.close, "with": scheduler.__enter__,
        "task.state": lambda: task.state, "task.reason": lambda: task.reason, "task.info": lambda: task.info,
        "task.next_fire": lambda: task.next_fire, "task.last_run": lambda: task.last_run, "task.runs": task.runs,
        "task.cancel": task.cancel, "task.wait": task.wait, "task.result": task.result,
        "task()": lambda: scheduler.task(refusals), "every": lambda: scheduler.every(seconds=1)(refusals),
        "task.parents": lambda: task.parents, "task.children": lambda: task.children,
    }
    silent = []
    for name, call in calls.items():
        try:
            call()
        except ForkedScheduler as error:
            assert "make a new one in the child" in str(error)
        else:
            silent.append(name)
    return silent
"""


def test_every_call_in_a_forked_child_raises_and_the_parent_goes_on() -> None:
    """A call that did not raise would wait for a thread that is not there."""
    lines = quiet(
        FORK
        + """
with Scheduler() as scheduler:
    task = scheduler.schedule(print, after(3600), id="x")
    code = in_child(lambda: print("silent:", refusals(scheduler, task)))
    print("child", code)
    print("parent", task.state, scheduler.schedule(lambda: 5).result(20))
"""
    )
    assert lines == ["silent: []", "child 0", "parent pending 5"]


@pytest.mark.parametrize("when", ["new", "closed"])
def test_a_scheduler_that_was_not_running_is_refused_in_the_child_too(when: str) -> None:
    """Its locks may have been held by a thread of the parent: nobody can know."""
    lines = quiet(
        FORK
        + f"""
scheduler = Scheduler()
task = scheduler.schedule(print, after(3600), id="x")
if {when!r} == "closed":
    scheduler.close()
print("child", in_child(lambda: print("silent:", refusals(scheduler, task))))
scheduler.close()
"""
    )
    assert lines == ["silent: []", "child 0"]


def test_a_fork_while_other_threads_sit_in_schedule_neither_hangs_nor_hurts() -> None:
    """The child inherits a lock that is held by nobody: it may not touch it."""
    lines = quiet(
        FORK
        + """
scheduler = Scheduler(observers=[])
scheduler.start()
task = scheduler.schedule(print, after(3600), id="x")
stop, counts = threading.Event(), []
def hammer():
    count = 0
    while not stop.is_set():
        scheduler.schedule(int)
        scheduler.schedule(int, after(1000)).cancel()
        count += 1
    counts.append(count)
threads = [threading.Thread(target=hammer) for _ in range(3)]
for thread in threads:
    thread.start()
codes = [in_child(lambda: refusals(scheduler, task) and os._exit(3)) for _ in range(20)]
stop.set()
for thread in threads:
    thread.join()
print(set(codes), len(counts), scheduler.schedule(lambda: 5).result(20))
task.cancel()
print(scheduler.wait(20), scheduler.close())
"""
    )
    assert lines == ["{0} 3 5", "True []"]


@pytest.mark.parametrize("end", ["pass", "sys.exit(0)", "del scheduler, task"])
def test_a_child_that_ends_as_programs_do_is_quiet_and_quick(end: str) -> None:
    """Exit hooks run in the child: they may not wait for threads of the parent, nor close what is the parent's."""
    lines = quiet(
        FORK
        + f"""
scheduler = Scheduler()
scheduler.start()
task = scheduler.schedule(print, every(hours=1), id="x")
scheduler.schedule(int).wait()
pid = os.fork()
if pid == 0:
    signal.alarm(20)
    {end}
else:
    print("child", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    print("parent", task.state, scheduler.schedule(lambda: 5).result(20))
    scheduler.close()
"""
    )
    assert lines == ["child 0", "parent pending 5"]


def test_a_with_block_that_is_left_in_the_child_does_not_raise() -> None:
    """The error of the body is what should be seen, and without one nothing."""
    lines = quiet(
        FORK
        + """
class Mine(Exception): pass
try:
    with Scheduler() as scheduler:
        pid = os.fork()
        if pid == 0:
            signal.alarm(20)
            raise Mine
        print("child", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        print("parent", scheduler.schedule(lambda: 5).result(20))
except Mine:
    os._exit(7)
"""
    )
    assert lines == ["child 7", "parent 5"]


def test_a_new_scheduler_in_the_child_works_and_so_does_one_in_its_child() -> None:
    lines = quiet(
        FORK
        + """
def child():
    with Scheduler() as own:
        print("child", own.schedule(lambda: 6).result(20))
        print("grandchild", in_child(lambda: print("silent:", refusals(own, own_task(own)))))
def own_task(own):
    return tasks[0]
tasks = []
with Scheduler() as scheduler:
    tasks.append(scheduler.schedule(print, after(3600), id="x"))
    print("status", in_child(child))
    print("parent", scheduler.schedule(lambda: 5).result(20))
"""
    )
    assert lines == ["child 6", "silent: []", "grandchild 0", "status 0", "parent 5"]


def test_a_task_may_fork() -> None:
    """The child is inside of a run whose scheduler is not there: what it returns goes nowhere, so it must exit."""
    lines = quiet(
        FORK
        + """
with Scheduler() as scheduler:
    other = scheduler.schedule(print, after(3600), id="x")
    body = lambda: print("silent:", refusals(scheduler, other))
    print("status", scheduler.schedule(in_child, args=(body,)).result(30))
"""
    )
    assert lines == ["silent: []", "status 0"]


def test_a_fork_with_an_observer_that_prints_says_nothing_twice() -> None:
    """What was queued for the observer in the parent is the parent's to tell."""
    lines = quiet(
        FORK
        + """
class Told:
    kinds = frozenset(EventKind)
    def observe(self, events):
        for event in events:
            if event.kind is EventKind.SUCCEEDED:
                os.write(1, f"{event.task_id}\\n".encode())
scheduler = Scheduler(observers=[Told()])
scheduler.start()
for n in range(20):
    scheduler.schedule(int, id=f"t{n}")
    assert in_child(lambda: None) == 0
scheduler.wait(20)
scheduler.close()
"""
    )
    assert sorted(lines) == sorted(f"t{n}" for n in range(20))
