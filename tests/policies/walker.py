"""Walks a row of the decision table: sets its state up, has its event happen, and looks at what came of it.

All through the public door, in one thread. A run goes on for as long as its body does, and the body of each run here
is the walk itself: it takes the next steps until one says how the run ends. So what comes after `take` happens while
that run is RUNNING, and what comes after its timeout while it is a zombie.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from tests.cases.kit import Ear, seconds
from tests.policies.table import Row, Steps
from tickless import EventKind, Limit, Retry, Rule, Run, Scheduler, Stopped, Task, after, at, cron, current_run, every
from tickless.core.invariants import check
from tickless.errors import TicklessError
from tickless.states import TERMINAL, State
from tickless.testing import FakeClock, ManualPool
from tickless.testing.clock import START

LIMITS = (Limit("db", running=1), Limit("rate", starts=1, per=30))
SLOTS = 8
"""More than any row has runs at once, so that a slot is never what a row waits for."""
ERRORS: dict[str, BaseException] = {
    "fail": ValueError("broken"),
    "stop": Stopped(),
    "exit": SystemExit(3),
}
ENDS = ("succeed", *ERRORS)
DEFAULTS: dict[str, Any] = {
    "runs": [],
    "next": None,
    "retry_at": None,
    "waiting_for": None,
    "paused": False,
    "skipped_now": 0,
    "asked": False,
    "zombies": 0,
}
"""What a row need not say: it is compared all the same."""
QUIET = (EventKind.SCHEDULED, EventKind.READY, EventKind.STARTED)
"""Kinds that no row tells of: its runs do."""
ENDED = frozenset(EventKind(state.value) for state in TERMINAL)


def rule_of(text: str) -> Rule | None:
    """`every 60`, `after 60`, `at 60` (on the wall), `cron` (each minute, on the wall), or nothing."""
    kind, _, number = text.partition(" ")
    span = float(number or 0)
    rules: dict[str, Callable[[], Rule | None]] = {
        "every": lambda: every(seconds=span),
        "after": lambda: after(span),
        "at": lambda: at(START + timedelta(seconds=span)),
        "cron": lambda: cron("* * * * *", tz="UTC"),
        "": lambda: None,
    }
    return rules[kind]()


def _classes(names: str | list[str]) -> tuple[type[BaseException], ...]:
    known = {error.__name__: error for error in (ValueError, OSError, Exception, BaseException)}
    return tuple(known[name] for name in ([names] if isinstance(names, str) else names))


def _shown(number: float | None) -> str:
    return "-" if number is None else f"{number:.10g}"


def told(run: Run) -> str:
    """The run in one line: when it was due, how it stands, and what is unusual about it."""
    line = f"{_shown(seconds(run.due_us))} {run.state}"
    if run.reason is not None:
        line += f" ({run.reason})"
    if run.count > 1:
        line += f" x{run.count} to {_shown(seconds(run.last_due_us))}"
    if run.started_us is not None and run.started_us != run.due_us:
        line += f", started {_shown(seconds(run.started_us))}"
    if run.attempt > 1:
        line += f", attempt {run.attempt}"
    return line if run.late_result is None else f"{line}, late: {run.late_result}"


class Walk:
    """One row, walked once. `seen` is what came of it."""

    def __init__(self, row: Row) -> None:
        self.row = row
        self.clock, self.pool, self.ear = FakeClock(), ManualPool(SLOTS), Ear()
        self.steps: deque[str] = deque()
        self.going: list[Any] = []
        """The runs whose bodies go on, the oldest first, as they see themselves."""
        self.begun = 0
        self.handled: list[str] = []
        self.answer: Any = None
        self.told_before = 0
        self.seen: dict[str, Any] = {}
        self.fault: BaseException | None = None

    def walk(self, state: Steps, event: Steps) -> dict[str, Any]:
        self.steps += [*state, "| the event", *event]
        with Scheduler(self.pool, clock=self.clock, observers=[self.ear], limits=LIMITS) as self.scheduler:
            self.parents = [
                self.scheduler.schedule(self.body, after(60 * number), id=f"parent {number}", **self.options(policy))
                for number, policy in enumerate(self.row.parents, 1)
            ]
            self.task: Task[Any] = self.scheduler.schedule(
                self.body, rule_of(self.row.rule), id="task", after_tasks=self.parents, **self.options(self.row.policy)
            )
            self.go()
        self.pool.run_all()
        if self.fault is not None:
            raise self.fault
        return self.seen

    def options(self, policy: dict[str, Any]) -> Any:
        """The row's policy as `schedule` and `update` take it."""
        options = dict(policy)
        if "retry" in options:
            retry: dict[str, Any] = {
                name: _classes(value) if name in ("on", "give_up_on") else value
                for name, value in options["retry"].items()
            }
            options["retry"] = Retry(**retry)
        if "on_failure" in options:
            options["on_failure"] = self.on_failure
        return options

    # What runs

    def body(self) -> None:
        """The work of every task: the walk goes on in here until a step says how this run ends."""
        self.begun += 1
        me = current_run()
        self.going.append(me)
        try:
            end = self.go()
        except BaseException as fault:
            self.fault = fault  # the scheduler takes it for a failure of the task's
            self.steps.clear()
            raise
        self.going.remove(me)
        if end in ERRORS:
            raise ERRORS[end]

    def on_failure(self, run: Run) -> None:
        self.handled.append(told(run))

    # Steps

    def go(self) -> str:
        """Take steps until one ends the innermost run. When there are none left, look."""
        while self.steps:
            step = self.steps.popleft()
            if step in ENDS:
                assert self.going, f"{step}: no run goes on"
                return step
            self.do(step)
            check(self.scheduler._store)
        if not self.seen and self.fault is None:
            self.seen = self.look()
        return "succeed"

    def do(self, step: str) -> None:
        verb, _, rest = step.partition(" ")
        if verb == "|":
            self.clock.advance(0)
            self.told_before = len(self.ear.events)
        elif verb in ("wait", "sleep", "clock"):
            self.pass_time(verb, rest)
        elif verb == "take":
            self.take()
        elif verb in ("hold", "rival"):
            limit, _, priority = rest.partition(" ")
            self.scheduler.schedule(self.body, limit=limit, priority=int(priority or 0))
            if verb == "hold":
                self.take()
        else:
            self.call(verb, rest)

    def pass_time(self, verb: str, rest: str) -> None:
        word, _, number = rest.rpartition(" ")
        elapsed = seconds(self.clock.now()) or 0.0
        span = 60 - elapsed % 60 if number == "fire" else float(number)
        span -= elapsed if word == "until" else 0.0
        move = {"wait": self.clock.advance, "sleep": self.clock.suspend, "clock": self.clock.step_wall}[verb]
        move(round(span, 6))

    def take(self) -> None:
        """A worker takes what is next. It comes back when that has ended: all steps until then are taken in there."""
        begun = self.begun
        while self.pool.run_next() and self.begun == begun:
            pass

    def call(self, verb: str, rest: str) -> None:
        """A verb of the scheduler, about the task or its first parent. What it answers, or raises, is kept."""
        task = self.task
        if verb == "parent":
            task = self.parents[0]
            verb, _, rest = rest.partition(" ")
        calls: dict[str, Callable[[], Any]] = {
            "cancel": lambda: self.scheduler.cancel(task).value,
            "pause": lambda: self.pause(task, rest),
            "resume": lambda: self.resume(task, rest),
            "run_now": lambda: told(self.scheduler.run_now(task)),
            "reschedule": lambda: self.scheduler.reschedule(task, rule_of(rest)),
            "update": lambda: self.scheduler.update(task, **self.options(self.row.update)),
            "close": lambda: self.close(cancel=rest == "cancel"),
        }
        try:
            self.answer = calls[verb]()
        except TicklessError as error:
            self.answer = type(error).__name__

    def pause(self, task: Task[Any], rest: str) -> int:
        if rest in ("all", "tag"):
            return self.scheduler.pause(tag="red" if rest == "tag" else None)
        until = START + timedelta(seconds=float(rest.removeprefix("until "))) if rest else None
        return self.scheduler.pause(task, until=until)

    def resume(self, task: Task[Any], rest: str) -> int:
        if rest in ("everything", "tag"):
            return self.scheduler.resume(tag="red" if rest == "tag" else None)
        return self.scheduler.resume(task, catch_up=rest or "none")  # type: ignore[arg-type]  # the row's word

    def close(self, *, cancel: bool) -> None:
        self.scheduler.close(timeout=0, cancel=cancel)

    # Looking

    def look(self) -> dict[str, Any]:
        self.clock.advance(0)
        info, runs = self.task.info, self.task.runs()
        self.check_records(runs)
        shows_reason = not info.state.after or info.reason == "paused"
        limit = self.scheduler.limits()[self.row.policy.get("limit", "db")]
        return {
            "state": f"{info.state} ({info.reason})" if shows_reason and info.reason else str(info.state),
            "runs": [told(run) for run in sorted(runs, key=_by_due)],
            "next": seconds(info.next_fire_us),
            "retry_at": seconds(info.retry_at_us),
            "waiting_for": info.waiting_for,
            "paused": info.paused,
            "pause_reason": info.pause_reason,
            "skipped_now": self.task.skipped_now,
            "asked": any(one.stop_requested for one in self.going),
            "zombies": self.scheduler.pools()["default"].zombies,
            "limit": f"{limit.running} running, {limit.waiting} waiting",
            "answer": self.answer,
            "handled": self.handled,
            "events": self.events(),
        }

    def events(self) -> list[str]:
        """What observers were told of the task, and of what `on_failure` calls, since the event began."""
        lines = []
        for event in self.ear.events[self.told_before :]:
            if event.kind not in QUIET and event.task_id in ("task", "task/on_failure"):
                what = f"{event.kind} {event.count}" if event.kind is EventKind.RETRY else str(event.kind)
                why = event.error if event.kind is EventKind.PAUSED else event.reason  # of a pause it is a text
                what += f" ({why})" if why is not None else ""
                lines.append(what if event.task_id == "task" else f"on_failure {what}")
        return lines

    def check_records(self, runs: list[Run]) -> None:
        """Whatever the row is about: each end has one record and one event, and these say the same."""
        for run in runs:
            assert len(run.attempts) == run.attempt - 1, run
            assert [attempt.number for attempt in run.attempts] == list(range(1, run.attempt)), run
        records = [run for run in runs if run.state in TERMINAL]
        events = [event for event in self.ear.events if event.task_id == "task" and event.kind in ENDED]
        recorded = Counter((str(run.state), run.due_us, run.reason, run.count) for run in records)
        told_of = Counter((str(event.kind), event.due_us, event.reason, event.count) for event in events)
        assert recorded == told_of, "records and events do not agree"
        names = Counter(run.due_us for run in runs if run.state is not State.SKIPPED and run.due_us is not None)
        assert not names or max(names.values()) == 1, "two runs have one name"


def _by_due(run: Run) -> tuple[bool, int, int]:
    return run.due_us is None, run.due_us or 0, run.started_us or 0


def expected(outcome: dict[str, Any]) -> dict[str, Any]:
    """All that is compared: what the row says, and of the rest what is usual."""
    usual = dict(DEFAULTS)
    usual["paused"] = "(paused)" in outcome["state"]
    if outcome.get("answer") in ("ScheduleError", "DependencyError"):
        usual["answer"] = outcome["answer"]
    return usual | outcome
