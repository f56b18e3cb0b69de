"""The same programs where nobody comes in time: the machine sleeps, the pool is slow, the wall clock is set.

`simulate` misses nothing. Here the clock jumps over fires, runs start when the test says so, and bodies take their time
by moving the clock themselves. Their numbers begin at FIRST.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from tests.simulation.fires import Byhand, Grid, at, covered_by, grids_of
from tests.simulation.play import Called, Player, Story
from tests.simulation.programs import Draft, Program, drawn, drawn_verb
from tests.simulation.promises import us
from tickless import Event, EventKind, Scheduler, current_run
from tickless.instants import SECOND_US, instant_of
from tickless.simulation import Trace, _Recorder
from tickless.testing import FakeClock, ManualPool

Step = tuple[str, Any]
ON_TIME_S = 1.0
FIRST = 1_000_000
"""Numbers of late programs begin here, so that one number says which kind it is."""


@dataclass(frozen=True)
class Late:
    """A program, and what happens around it, in order."""

    program: Program
    steps: tuple[Step, ...]

    def __str__(self) -> str:
        return f"Late({self.program}, steps=(\n" + "".join(f"    {step},\n" for step in self.steps) + "))"


def late_drawn(seed: int) -> Late:
    """The program of that number: always the same."""
    program, rng = drawn(seed), Random(f"late {seed}")
    sets_the_wall = rng.random() < 0.3
    drafts = tuple(_calm(draft, sets_the_wall) for draft in program.drafts)
    steps = [_step(rng, drafts, sets_the_wall) for _ in range(rng.randint(8, 30))]
    return Late(replace(program, drafts=drafts, verbs=()), tuple(steps))


def _calm(draft: Draft, sets_the_wall: bool) -> Draft:
    """No pause that ends by itself, and with a wall clock that jumps no verb that would mix the two clocks' dues."""
    acts = tuple((number, replace(verb, argument=None)) for number, verb in draft.acts if verb.name == "pause")
    acts += tuple((number, verb) for number, verb in draft.acts if verb.name in ("resume", "cancel"))
    rule = ("every", draft.rule[1]) if sets_the_wall and draft.rule[0] == "at" else draft.rule
    if rule != draft.rule:
        return replace(draft, rule=("after", draft.rule[1]), acts=acts)
    return replace(draft, acts=acts)


def _step(rng: Random, drafts: tuple[Draft, ...], sets_the_wall: bool) -> Step:
    kind = rng.choice(("advance", "advance", "suspend", "run", "run", "run all", "run all", "verb", "wall"))
    if kind == "wall" and sets_the_wall:
        return kind, rng.choice((-3600.0, -2.0, 0.1, 3.0, 600.0))
    if kind == "verb":
        verb = drawn_verb(rng, list(drafts), 0.0)
        on_wall = any(draft.id == verb.task and draft.rule[0] == "epoch" for draft in drafts)
        if verb.name == "pause":
            verb = replace(verb, argument=None)
        if not (sets_the_wall and on_wall and verb.name in ("run_now", "reschedule")):
            return kind, verb
    if kind == "run":
        return kind, rng.randint(1, 3)
    if kind == "run all":
        return kind, None
    return (
        ("suspend", round(rng.uniform(0, 30), 1))
        if kind == "suspend"
        else ("advance", rng.choice((0.5, 1.0, 2.0, 5.0, 7.5)))
    )


class LatePlayer(Player):
    """Its bodies take their time by moving the clock."""

    def __init__(self, late: Late) -> None:
        super().__init__(late.program)
        self.clock = FakeClock()
        self.pools = {name: ManualPool(slots) for name, slots in _slots(late.program).items()}
        self.scheduler = Scheduler(
            pools=self.pools, limits=late.program.limits, clock=self.clock, observers=[], keep_finished=10_000
        )
        self.recorder = _Recorder()
        self.scheduler._tell(self.recorder)  # type: ignore[arg-type]  # as `simulate` does
        self.schedule(self.scheduler)
        self.scheduler.start()

    def body(self, draft: Draft) -> None:
        run = current_run()
        due = None if run.due is None else instant_of(run.due, "due")
        error = self.rng.choice((ValueError, KeyError, OSError)) if self.rng.random() < draft.fails else None
        began = self.clock.now()
        called = Called(draft.id, due, run.attempt, began, self.here(), None if error is None else error.__name__)
        self.story.calls.append(called)
        called.span = round(self.rng.choice(draft.spans) * SECOND_US)
        self.act_in_body(draft)
        self.clock.advance(called.span / SECOND_US)
        if error is not None:
            raise error("drawn")

    def step(self, step: Step) -> None:
        kind, argument = step
        if kind == "advance":
            self.clock.advance(argument)
        elif kind == "suspend":
            self.clock.suspend(argument)
        elif kind == "wall":
            self.clock.step_wall(argument)
            self.story.stepped = True
        elif kind == "verb":
            self.act(argument)
        else:
            self.run(argument)

    def run(self, most: int | None) -> None:
        """Run so many of what the pools hold, or all that they hold now."""
        for pool in self.pools.values():
            for _ in range(len(pool) if most is None else most):
                pool.run_next()

    def drain(self) -> None:
        """Run until nothing is held, if that ever comes: bodies that take longer than an interval always have more."""
        self.scheduler.pause()
        for _ in range(200):
            if not any(len(pool) for pool in self.pools.values()):
                break
            self.run(None)


def _slots(program: Program) -> dict[str, int]:
    return {"default": program.slots, **program.pools}


def play_late(late: Late) -> Story:
    player = LatePlayer(late)
    story = player.story
    story.late = True
    for step in late.steps:
        player.step(step)
    player.run(None)
    trace = Trace(player.recorder.facts, player.scheduler, player.clock.now())
    story.events, story.ended_us = trace.events, trace.ended_us
    for event in story.events:
        assert event.kind.value != "trouble", event
    player.look()
    return story


def lateness_faults(story: Story) -> Iterator[str]:
    """Which of the missed fires run: as many as `catch_up` says, and none that is later than `grace`."""
    by_hand = Byhand(story)
    for draft in story.program.drafts:
        events = [event for event in story.events if event.task_id == draft.id]
        is_moved = draft.rule[0] == "epoch" and story.stepped
        if draft.rule[0] in ("every", "epoch") and not draft.options.get("jitter") and not is_moved:
            grids = grids_of(story, draft, events)
            for event in events:
                if grids and event.kind is EventKind.SKIPPED and event.due_us is not None:
                    yield from _dropped(draft, event, grids, by_hand)


def _dropped(draft: Draft, event: Event, grids: list[Grid], by_hand: Byhand) -> Iterator[str]:
    now, grace = event.at_us, draft.options.get("grace")
    dues = covered_by(event, grids)
    if event.reason == "misfire":
        early = [due for due in dues if grace is None or now - due <= us(grace)]
        if early:
            yield f"{draft.id}: at {at(now)} {at(early[0])} is no misfire, its grace is {grace}"
    if event.reason != "coalesced":
        return
    if grace is not None and now - dues[0] > us(grace):
        yield f"{draft.id}: at {at(now)} {at(dues[0])} is a misfire, and told as coalesced"
    left = [p for grid in grids[-1:] for p in grid.points(now) if p > dues[-1]]
    catch_up = draft.options.get("catch_up", "latest")
    on_time = us(ON_TIME_S if grace is None else grace)
    expected = {"latest": 1, "all": draft.options.get("max_catch_up", 100)}.get(catch_up)
    if expected is None:
        expected = 1 if left and now - left[-1] <= on_time else 0
    if len(grids) == 1 and len(left) != expected:
        yield f"{draft.id}: at {at(now)} of the missed {len(left)} are left to run, and catch_up={catch_up}: {expected}"
