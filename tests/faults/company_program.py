"""The processes of `test_store_processes.py`: each has a scheduler on the same file, and does what it is told.

What bodies do is in the ledger, as for `crash_program.py`. A body that is to wait says so, and waits for `let`.
"""

from __future__ import annotations

import gc
import os
import random
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any

from tests.faults.crash_program import Here, note, told, work
from tests.faults.zygote import Talk
from tickless import Call, CancelledError, ForkedScheduler, Rule, Scheduler, TicklessError, after, current_run, every
from tickless.clocks import elapsed_us

PATIENCE_S = 30
gates: dict[str, Event] = defaultdict(Event)
_saying = Lock()


def say(**what: Any) -> None:
    with _saying:
        Here.talk.say(what)


def hold(name: str) -> str:
    """Says that it has begun, waits until it is let go, or asked to stop, and says what it knows then."""
    note("start")
    run = current_run()
    say(began=name, attempt=run.attempt, at_us=elapsed_us())
    while not gates[name].wait(0.01) and not run.stop_requested:
        pass
    note("end")
    say(left=name, stopped=bool(run.stop_requested), lost=run.lease_lost)
    return f"held in {os.getpid()}"


def hold_until_lost(name: str) -> None:
    """Waits for the loss of its lease, which nobody rings for; a run that has not lost it ends when it is let go."""
    note("start")
    run = current_run()
    say(began=name, attempt=run.attempt, at_us=elapsed_us())
    deadline = time.monotonic() + PATIENCE_S
    while not run.lease_lost and not gates[name].wait(0.01) and time.monotonic() < deadline:
        pass
    note("end")
    say(left=name, lost=run.lease_lost)


def fail() -> None:
    note("start")
    raise OSError("no such luck")


def count_one(number: int) -> None:
    """One of very many: a short line, with one call."""
    os.write(Here.ledger, b"%d %d\n" % (number, os.getpid()))


WORKS: dict[str, Callable[..., Any]] = {one.__name__: one for one in (work, hold, hold_until_lost, fail)}
RULES: dict[str, Callable[[float], Rule]] = {
    "after": lambda seconds: after(seconds),
    "every": lambda seconds: every(seconds=seconds),
}


class Server:
    """Answers what it is asked."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler

    def schedule(self, work: str, when: list[Any] | None = None, **options: Any) -> str:
        rule = None if when is None else RULES[when[0]](when[1])
        return self.scheduler.schedule(WORKS[work], rule, **options).id

    def cancel(self, id: str) -> str:
        return self.scheduler.cancel(id).name

    def pause(self, id: str) -> int:
        return self.scheduler.pause(id)

    def resume(self, id: str) -> int:
        return self.scheduler.resume(id)

    def told(self) -> dict[str, Any]:
        return told(self.scheduler)

    def wait(self) -> bool:
        return self.scheduler.wait(PATIENCE_S)

    def result(self, id: str) -> Any:
        """Of a task that another process may run."""
        task = self.scheduler._record_of(id)
        try:
            return task.result(PATIENCE_S)  # type: ignore[attr-defined]  # it is a Task
        except (TicklessError, CancelledError, TimeoutError) as error:
            return f"{type(error).__name__}: {error}"

    def let(self, gate: str) -> None:
        gates[gate].set()

    def close(self) -> None:
        self.scheduler.close()


def enter(talk: Talk, folder: str) -> str:
    """What every process does first. Gives the address of the store."""
    Here.talk = talk
    Here.ledger = os.open(Path(folder) / "ledger", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    return f"sqlite:///{folder}/tasks.db"


def serve(
    talk: Talk, *, folder: str, start: bool = True, slots: int = 2, lease: float = 30, results: bool = False
) -> None:
    """Do what is asked for: [name of a method, keyword arguments]."""
    store = enter(talk, folder)
    with ThreadPoolExecutor(slots) as pool:
        Here.scheduler = Scheduler(pool, store=store, lease=lease, observers=[], results=results)
        server = Server(Here.scheduler)
        if start:
            Here.scheduler.start()
        say(ready=os.getpid())
        while True:
            try:
                name, options = talk.hear()
            except EOFError:
                break
            say(answer=getattr(server, name)(**options))
            if name == "close":
                break


def race(talk: Talk, *, folder: str, slots: int = 2) -> None:
    """Run what is there, until nothing is."""
    store = enter(talk, folder)
    with ThreadPoolExecutor(slots) as pool, Scheduler(pool, store=store, observers=[]) as scheduler:
        say(done=scheduler.wait(PATIENCE_S))


def schedule_numbers(talk: Talk, *, folder: str, count: int) -> None:
    scheduler = Scheduler(store=enter(talk, folder), observers=[])
    scheduler.schedule_many(Call(count_one, args=(number,)) for number in range(count))
    scheduler.close()


def race_beats(talk: Talk, *, folder: str, count: int) -> None:
    """What four web workers do that have the same definitions."""
    store = enter(talk, folder)
    scheduler = Scheduler(store=store, slots=2, observers=[])
    say(ready=True)
    talk.hear()
    scheduler.schedule(work, every(seconds=0.003), id="beat", max_runs=count, exists="keep")
    with scheduler:
        say(done=scheduler.wait(PATIENCE_S))


def run_to_the_end(talk: Talk, *, folder: str) -> None:
    """A program whose main thread is in `run()`, as most are."""
    store = enter(talk, folder)
    with ThreadPoolExecutor(1) as pool:
        Here.scheduler = Scheduler(pool, store=store, observers=[])
        Here.scheduler.schedule(hold, args=("x",), id="x", exists="keep")
        Thread(target=let_what_is_said, args=(talk,), daemon=True).start()
        try:
            say(done=Here.scheduler.run())
        except KeyboardInterrupt:
            sys.exit(130)


def let_what_is_said(talk: Talk) -> None:
    with suppress(EOFError):
        while True:
            gates[talk.hear()].set()


def is_refused(call: Callable[[], object]) -> bool:
    try:
        call()
    except ForkedScheduler:
        return True
    return False


def fork_often(talk: Talk, *, folder: str) -> None:
    """Fork while other threads sit in `schedule`. Each child is refused the parent's scheduler, and makes its own."""
    store = enter(talk, folder)
    scheduler = Scheduler(store=store, slots=2, observers=[])
    scheduler.start()
    task = scheduler.schedule(work, after(3600), id="there")
    stop = Event()

    def schedule_on() -> None:
        while not stop.is_set():
            scheduler.schedule(work, after(3600)).cancel()

    threads = [Thread(target=schedule_on) for _ in range(2)]
    for thread in threads:
        thread.start()

    def child() -> int:
        calls = (lambda: scheduler.schedule(work), scheduler.tasks, task.cancel, lambda: task.state, scheduler.close)
        if not all(map(is_refused, calls)):
            return 3
        with Scheduler(store=store, slots=1, observers=[]) as own:
            return 0 if own.schedule(after_fork).wait(PATIENCE_S) and own.get("there") else 4

    codes = [status_of(child) for _ in range(8)]
    stop.set()
    for thread in threads:
        thread.join()
    say(codes=codes, result=scheduler.schedule(work).wait(PATIENCE_S), state=task.state)
    task.cancel()
    scheduler.close()


def after_fork() -> None:
    """What a child runs; another process of the file may run it as well."""
    note("start")


def status_of(body: Callable[[], int]) -> int:
    """How a forked child ends that does this."""
    pid = os.fork()
    if pid == 0:
        signal.alarm(PATIENCE_S)
        code = 5
        try:
            code = body()
        except BaseException:  # noqa: BLE001 - shown, and told by the exit code
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def fork_and_be_outlived(talk: Talk, *, folder: str) -> None:
    """The parent closes its store while the child works on its own, made after the fork."""
    store = enter(talk, folder)
    scheduler = Scheduler(store=store, observers=[])
    scheduler.schedule(work, after(3600), id="parent's")
    (heard, tell), (told, say_it) = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        signal.alarm(PATIENCE_S)
        own = Scheduler(store=store, observers=[])
        own.schedule(work, after(3600), id="child's first")
        os.write(tell, b"1")
        os.read(told, 1)
        own.schedule(work, after(3600), id="child's second")
        own.close()
        os._exit(0)
    os.read(heard, 1)
    scheduler.close()
    del scheduler  # and with it its connection
    gc.collect()
    os.write(say_it, b"1")
    say(code=os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


def hammer(talk: Talk, *, folder: str, seed: int, count: int) -> None:
    """Schedule, cancel, pause and ask at random beside a process that runs all that. Says what it was answered."""
    scheduler = Scheduler(store=enter(talk, folder), observers=[])
    draw, mine, answers = random.Random(seed), [], {}
    for number in range(count):
        id = f"{seed}-{number}"
        scheduler.schedule(work, after(draw.choice([0, 0.005, 0.03])), id=id, tags=[f"of {seed}"])
        mine.append(id)
        other = draw.choice(mine)
        match draw.randrange(8):
            case 0 | 1 if other not in answers:
                answers[other] = scheduler.cancel(other).name
            case 2:
                scheduler.pause(other)
            case 3:
                scheduler.pause(tag=f"of {seed}")
                scheduler.resume(tag=f"of {seed}")
            case 4:
                scheduler.resume(other)
            case 5:
                assert id in {info.id for info in scheduler.tasks()}
            case 6:
                scheduler.get(other)
                scheduler.runs(other)
                scheduler.pools()
    for id in mine:
        scheduler.resume(id)
    say(answers=answers, mine=mine)
    scheduler.close()
