"""Play a program, and write down what everybody saw: the events, the calls of bodies, the verbs and their answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random
from typing import Any, NamedTuple

from tests.simulation.programs import Draft, Program, Verb
from tickless import Event, Rule, Run, Scheduler, TaskInfo, TicklessError, after, at, current_run, every, simulate
from tickless.core.invariants import check
from tickless.instants import SECOND_US, instant_of
from tickless.simulation import START

START_US = instant_of(START, "start")
ERRORS: tuple[type[Exception], ...] = (ValueError, KeyError, OSError)
MAX_RUNS = 20_000


@dataclass(slots=True)
class Called:
    """A body was called: its code goes on for `span` from `at`, whatever the scheduler believes."""

    task: str
    due: int | None
    attempt: int
    at: int
    seen: int
    """How many events there had been."""
    error: str | None
    span: int = 0

    @property
    def end(self) -> int:
        return self.at + self.span


class Acted(NamedTuple):
    """A verb was called; `seen` events had been before it, and `after` when it returned."""

    verb: Verb
    at: int
    seen: int
    after: int
    refused: str | None
    run: Run | None


@dataclass
class Story:
    """What was seen."""

    program: Program
    events: tuple[Event, ...] = ()
    calls: list[Called] = field(default_factory=list)
    acts: list[Acted] = field(default_factory=list)
    handled: list[Run] = field(default_factory=list)
    """What handlers (`on_failure`) were given."""
    ended_us: int = 0
    late: bool = False
    """Whether nobody came in time: see `late`."""
    stepped: bool = False
    """Whether the wall clock was set."""
    infos: dict[str, TaskInfo] = field(default_factory=dict)
    runs: dict[str, list[Run]] = field(default_factory=dict)


def rule_of(kind: str, span: float) -> Rule | None:
    if kind == "now":
        return None
    if kind == "after":
        return after(span)
    if kind == "at":
        return at(START + timedelta(seconds=span))
    if kind == "epoch":
        return every(seconds=span, anchor="epoch")
    return every(seconds=span, sliding=kind == "sliding")


class Player:
    """Schedules the program, and is what its bodies do. `here` tells how many events there were; `now` the time."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.story = Story(program)
        self.rng = Random(f"play {program.seed}")
        self._drafts = {draft.id: draft for draft in program.drafts}
        self._counts: dict[str, int] = {}
        self._scheduler: Scheduler
        self.here: Callable[[], int]

    def schedule(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        facts: Any = scheduler._journal
        self.here = lambda: len(facts.facts) // len(Event._fields)
        for draft in self.program.drafts:
            if not draft.scheduled_at:
                self._enter(draft)
            else:
                self._operate(draft.scheduled_at, Verb("schedule", draft.id))
        for verb in self.program.verbs:
            self._operate(verb.at, verb)

    def _operate(self, when: float, verb: Verb) -> None:
        self._scheduler.schedule(lambda: self.act(verb), after(when), name="operator", priority=10)

    def _enter(self, draft: Draft) -> None:
        options = dict(draft.options)
        if "on_failure" in options:
            options["on_failure"] = self.story.handled.append
        self._scheduler.schedule(lambda: self.body(draft), rule_of(*draft.rule), id=draft.id, **options)

    def body(self, draft: Draft) -> None:
        run, scheduler = current_run(), self._scheduler
        due = None if run.due is None else instant_of(run.due, "due")
        error = self.rng.choice(ERRORS) if self.rng.random() < draft.fails else None
        name = None if error is None else error.__name__
        self.story.calls.append(Called(draft.id, due, run.attempt, scheduler._now(), self.here(), name))
        self.act_in_body(draft)
        if error is not None:
            raise error("drawn")

    def act_in_body(self, draft: Draft) -> None:
        """Do what this call of the body is to do."""
        count = self._counts[draft.id] = self._counts.get(draft.id, 0) + 1
        for number, verb in draft.acts:
            if number == count:
                self.act(verb)

    def span_of(self, draft: Draft) -> Callable[[Random], float]:
        def span(_: Random) -> float:
            seconds = self.rng.choice(draft.spans)
            called = next(called for called in reversed(self.story.calls) if called.task == draft.id)
            called.span = round(seconds * SECOND_US)
            return seconds

        return span

    def act(self, verb: Verb) -> None:
        now, seen = self._scheduler._now(), self.here()
        place, refused, run = len(self.story.acts), None, None
        self.story.acts.append(Acted(verb, now, seen, seen, None, None))
        try:
            run = self._do(verb)
        except TicklessError as error:
            refused = str(error)
        self.story.acts[place] = Acted(verb, now, seen, self.here(), refused, run)
        if self.rng.random() < 0.3:
            check(self._scheduler._store)  # a body is called between two verbs: all is quiet then

    def _do(self, verb: Verb) -> Run | None:
        scheduler, task = self._scheduler, verb.task
        if verb.name == "schedule":
            self._enter(self._drafts[task or ""])
        elif verb.name == "pause":
            until = None
            if verb.argument is not None:
                until = START + timedelta(microseconds=scheduler._clock.wall() - START_US, seconds=verb.argument)
            scheduler.pause(task if task is not None else ..., tag=verb.tag, until=until)
        elif verb.name == "resume":
            scheduler.resume(task if task is not None else ..., tag=verb.tag, catch_up=verb.argument)
        elif verb.name == "reschedule":
            scheduler.reschedule(task if task is not None else ..., rule_of(*verb.argument))
        elif verb.name == "cancel":
            scheduler.cancel(task or "")
        else:
            return scheduler.run_now(task or "")
        return None

    def look(self) -> None:
        """Everything that the scheduler tells at the end."""
        scheduler, story = self._scheduler, self.story
        check(scheduler._store)
        story.infos = {info.id: info for info in scheduler.tasks()}
        story.runs = {id: scheduler.runs(id) for id in story.infos}


def play(program: Program) -> Story:
    """The story of the program. Raises AssertionError when the machine's own invariants do not hold at its end."""
    player = Player(program)
    trace = simulate(
        player.schedule,
        seed=program.seed,
        slots=program.slots,
        pools=program.pools,
        limits=program.limits,
        durations={draft.id: player.span_of(draft) for draft in program.drafts},
        until=program.until,
        limit=MAX_RUNS,
    )
    player.story.events = trace.events
    player.story.ended_us = trace.ended_us
    for event in trace.events:
        assert event.kind.value != "trouble", event
    player.look()
    return player.story
