"""The interpreter ends, and nobody closed the scheduler: no hang, no traceback of ours, no new fires.

In life: a script ends, or fails, or somebody presses Ctrl-C; what the terminal shows then should be theirs alone.
"""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from tests.faults.processes import HEADER, PATIENCE_S, program, quiet

MAKERS = {
    "own pool": "scheduler = Scheduler(observers=[])",
    "given pool": "pool = ThreadPoolExecutor(2); scheduler = Scheduler(pool, observers=[])",
    "one by one": "pool = ThreadPoolExecutor(2)\nclass Threads:\n    submit = staticmethod(pool.submit)\n"
    "scheduler = Scheduler(Pool(Threads(), slots=2), observers=[])",
    "observed": "class Seen:\n    kinds = frozenset(EventKind)\n    def observe(self, events): pass\n"
    "scheduler = Scheduler(observers=[Seen()])",
}
BODIES = {
    "nothing": "",
    "never started": "scheduler.schedule(print, after(3600))",
    "idle": "scheduler.start()",
    "pending": "scheduler.start(); scheduler.schedule(print, after(3600))",
    "just scheduled": "scheduler.start()\nfor _ in range(100): scheduler.schedule(int)",
    "flood": "scheduler.start()\nscheduler.schedule_many([Call(int) for _ in range(20_000)])",
    "recurring": "scheduler.start(); scheduler.schedule(int, every(seconds=0.001)); scheduler.schedule(int).wait()",
    "many recurring": "scheduler.start()\nfor n in range(200): scheduler.schedule(int, every(seconds=0.001))",
    "waited": "scheduler.start(); scheduler.schedule(int); scheduler.wait()",
    "chain": "scheduler.start()\nfirst = scheduler.schedule(int)\nfor n in range(1000):\n"
    "    first = scheduler.schedule(int, after_tasks=[first])",
    "a global handle": "scheduler.start(); task = scheduler.schedule(lambda: 5); task.result()",
    "failures": "scheduler.start()\nfor _ in range(100): scheduler.schedule(lambda: 1 // 0)",
    "a user's thread schedules": "scheduler.start()\nimport itertools\ndef more():\n    try:\n"
    "        for _ in itertools.count(): scheduler.schedule(int)\n    except TicklessError: pass\n"
    "threading.Thread(target=more, daemon=True).start()",
    "a user's thread waits": "scheduler.start(); scheduler.schedule(int, every(hours=1))\n"
    "threading.Thread(target=scheduler.wait).start()",
    "self-rescheduling": "scheduler.start()\ndef again():\n    try: scheduler.schedule(again)\n"
    "    except SchedulerClosed: pass\nagain()",
    "closed in atexit": "import atexit; atexit.register(scheduler.close)\nscheduler.start()\n"
    "scheduler.schedule(int, every(hours=1))",
    "a cycle of garbage": "scheduler.start(); scheduler.schedule(lambda: scheduler, after(3600)); scheduler = None",
    "an output held": "scheduler.start(); a = scheduler.schedule(list); b = scheduler.schedule(len, args=(a.output,))",
}


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("body", BODIES)
def test_a_program_that_forgets_to_close_ends_with_0_and_says_nothing(body: str, maker: str) -> None:
    assert quiet(f"{MAKERS[maker]}\n{BODIES[body]}") == []


PRINTING = """
scheduler = Scheduler(observers=[])                 # the default one would tell of each fire that overlapped
scheduler.start()
scheduler.schedule(print, every(seconds=0.001), args=("beat",))
gate = threading.Event()
scheduler.schedule(gate.set, every(seconds=0.003))
gate.wait(20)
"""


@pytest.mark.parametrize("attempt", range(20))
def test_a_task_that_prints_each_millisecond_never_prints_into_the_end_of_the_interpreter(attempt: int) -> None:
    """A daemon thread that writes while the streams are torn down aborts the process: "could not acquire lock"."""
    assert set(quiet(PRINTING)) == {"beat"}


@pytest.mark.parametrize(
    ("end", "code", "last"),
    [
        ("sys.exit(0)", 0, ""),
        ("sys.exit(3)", 3, ""),
        ("sys.exit('so long')", 1, "so long"),
        ("raise SystemExit", 0, ""),
        ("raise KeyError('mine')", 1, "KeyError: 'mine'"),
        ("raise KeyboardInterrupt", -signal.SIGINT, "KeyboardInterrupt"),
        ("threading.Thread(target=lambda: 1 // 0).start()", 0, "ZeroDivisionError: integer division or modulo by zero"),
    ],
)
def test_the_end_that_the_program_chose_is_the_one_that_is_seen(end: str, code: int, last: str) -> None:
    """Its exit code, its traceback and no other."""
    done = program(PRINTING + end)
    assert done.returncode == code
    lines = done.stderr.splitlines()
    assert (lines[-1] if lines else "") == last
    assert done.stderr.count("Traceback") == ("Error" in last or "Interrupt" in last)
    assert "tickless" not in done.stderr


def test_what_runs_at_the_end_may_finish_and_what_waits_does_not_start() -> None:
    """As with a thread pool: a run is not cut in half. Its children are not begun."""
    lines = quiet(
        """
        scheduler = Scheduler()
        scheduler.start()
        entered = threading.Event()
        def slow():
            entered.set()
            print(later.wait(20), later.reason)        # which it is told of when the main thread has left the program
            print("finished")
        later = scheduler.schedule(print, after(3600))
        task = scheduler.schedule(slow)
        scheduler.schedule(print, args=("child",), after_tasks=[task])
        scheduler.schedule(print, after(0.001), args=("later",), after_tasks=[task])
        entered.wait(20)
        """
    )
    assert lines == ["True closed", "finished"]


def test_a_failure_just_before_the_end_is_still_logged() -> None:
    """The default observer has its own thread: it gets a second to say the last words."""
    done = program(
        """
        import logging
        logging.basicConfig(format="%(message)s")
        scheduler = Scheduler()
        scheduler.start()
        scheduler.schedule(lambda: 1 // 0, id="bad").wait()
        """
    )
    assert done.returncode == 0
    assert "bad" in done.stderr
    assert done.stderr.count("ZeroDivisionError") >= 1


def test_an_observer_that_hangs_does_not_hold_up_the_end() -> None:
    lines = quiet(
        """
        class Hangs:
            kinds = frozenset(EventKind)
            def observe(self, events):
                threading.Event().wait()
        scheduler = Scheduler(observers=[Hangs()])
        scheduler.start()
        scheduler.schedule(int).wait()
        print("end")
        """
    )
    assert lines == ["end"]


@pytest.mark.parametrize("place", ["main", "task"])
def test_os_exit_ends_at_once(place: str) -> None:
    body = "os._exit(4)" if place == "main" else "scheduler.schedule(os._exit, args=(4,)); threading.Event().wait(30)"
    done = program(f"scheduler = Scheduler()\nscheduler.start()\n{body}")
    assert (done.returncode, done.stderr) == (4, "")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals")
def test_run_ends_on_a_signal_without_a_traceback_of_ours(number: signal.Signals) -> None:
    """The program of a service: `scheduler.run()` as its last line."""
    code = HEADER + (
        "scheduler = Scheduler(observers=[])\nscheduler.schedule(lambda: print('up', flush=True))\n"
        "scheduler.schedule(int, every(seconds=0.001))\nprint(scheduler.run())\n"
    )
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", code], stdout=pipe, stderr=pipe, encoding="utf-8") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        process.send_signal(number)
        out, err = process.communicate(timeout=PATIENCE_S)
    if number is signal.SIGTERM:
        assert (process.returncode, out, err) == (0, "False\n", "")
    else:
        assert (process.returncode, out) == (-signal.SIGINT, "")
        assert err.count("Traceback") == 1
        assert err.splitlines()[-1] == "KeyboardInterrupt"
