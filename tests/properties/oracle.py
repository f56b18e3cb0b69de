"""What must be true of a store after each verb: the text of the design, played slowly, with lists and no heap.

It is written from the promises and the meaning in words (states, dependencies, overlap, misfire, cancel, order), and
shares no code with the machine: not its decisions, not its rules' arithmetic, not its table of moves.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any, Literal

from tests.properties.whens import Fires, When
from tickless.states import Reason, State

Place = Literal["new", "timeline", "waiting", "ready", "running", "ended"]
STEP_US = 250_000
REPEAT_US = 3 * 3600 * 1_000_000
SEVERITY = ("failed", "cancelled", "neutral")
DOOM = {"failed": Reason.PARENT_FAILED, "cancelled": Reason.PARENT_CANCELLED, "neutral": Reason.PARENT_SKIPPED}


@dataclass(frozen=True)
class Fire:
    """One line of a task's history: a run, or the one record of several fires that did not run."""

    due: int | None
    state: State
    reason: Reason | None = None
    count: int = 1
    last_due: int | None = None


@dataclass(eq=False)
class Shadow:
    """A task as the oracle sees it."""

    when: When
    id: str | None = None
    priority: int = 0
    parents: list[Shadow] = field(default_factory=list)
    run_if: str = "all_succeeded"
    number: int = -1
    place: Place = "new"
    state: State = State.PENDING
    reason: Reason | None = None
    recurring: bool = False
    wall: bool = False
    fires: Fires | None = None
    due: int | None = None
    """Planned, on the clock that drives it."""
    at: int | None = None
    """Where that lies in the timeline, which is elapsed time."""
    placed_now: bool = False
    """Placed by this very verb: what is due at once may be ready at once, or at the next turn."""
    order: tuple[int, int, int] = (0, 0, 0)
    children: list[Shadow] = field(default_factory=list)
    ends: list[str] = field(default_factory=list)
    """How the parents that have ended did so."""
    unfinished: int = 0
    history: list[Fire] = field(default_factory=list)
    asked_to_stop: bool = False
    since: int | None = None
    """To what the wall clock was set back by hours while it was busy: its fires count from there."""
    last_end: tuple[State, Reason | None] | None = None
    fated: tuple[State, Reason] | None = None
    """How a task that runs will end, whatever its run does."""
    update: Shadow | None = None
    record: Any = None
    run: Any = None


def verdict(run_if: str, ends: list[str], unfinished: int) -> Literal["wait", "run"] | Reason:
    """The sentence of the design about `run_if`, one clause a line. `ends` may hold the same end several times."""
    if run_if == "all_succeeded":  # decided at the last, doomed by the first that is not SUCCEEDED
        bad = [end for end in ends if end != "succeeded"]
        return doom(bad) if bad else "wait" if unfinished else "run"
    if run_if == "all_done":  # at the last
        return "wait" if unfinished else "run"
    if run_if == "any_succeeded":  # at the first such
        return "run" if "succeeded" in ends else "wait" if unfinished else doom(ends)
    if run_if == "any_failed":  # at the first such
        return "run" if "failed" in ends else "wait" if unfinished else Reason.RUN_IF
    assert run_if == "none_failed"  # at the last, doomed by the first failed
    return Reason.PARENT_FAILED if "failed" in ends else "wait" if unfinished else "run"


def doom(ends: list[str]) -> Reason:
    return DOOM[next(kind for kind in SEVERITY if kind in ends)]


def kind_of(state: State, reason: Reason | None) -> str:
    """failed = FAILED or SKIPPED (parent_failed); cancelled likewise; other skips are neutral."""
    if state is State.SUCCEEDED:
        return "succeeded"
    if state is State.FAILED or (state is State.SKIPPED and reason is Reason.PARENT_FAILED):
        return "failed"
    if state is State.CANCELLED or (state is State.SKIPPED and reason is Reason.PARENT_CANCELLED):
        return "cancelled"
    return "neutral"


class Oracle:
    """Every task, and where it must be. One method for each verb, called with the time that the store is told."""

    def __init__(self) -> None:
        self.shadows: list[Shadow] = []
        self.named: dict[str, Shadow] = {}
        self.offset = 0
        self.is_open = False
        self.is_closed = False
        self.batch = 0

    def at_place(self, place: Place) -> list[Shadow]:
        return [shadow for shadow in self.shadows if shadow.place == place]

    def live(self) -> list[Shadow]:
        return [shadow for shadow in self.shadows if shadow.place != "ended"]

    def earliest(self) -> int | None:
        return min((shadow.at for shadow in self.at_place("timeline") if shadow.at is not None), default=None)

    # Into the store

    def bind(self, shadow: Shadow, reading: int) -> int | None:
        """Fix the schedule to an instant of its own clock; gives the first fire."""
        when = shadow.when
        shadow.recurring, shadow.wall = when.recurring, when.wall
        if when.recurring:
            shadow.fires = Fires(when, reading)
            return shadow.fires.next_after(reading)
        return {"now": reading, "after": reading + when.us, "at": when.us}[when.kind]

    def add(self, batch: list[Shadow], now: int, wall: int) -> None:
        """A whole batch: everybody is there before anybody is linked."""
        for shadow in batch:
            shadow.number = len(self.shadows)
            self.shadows.append(shadow)
            shadow.place = "waiting"
            shadow.wall = shadow.when.wall
            if shadow.id is not None:
                self.named[shadow.id] = shadow
        for shadow in batch:
            if not shadow.parents:
                self.put(shadow, self.bind(shadow, wall if shadow.when.wall else now))
                continue
            for parent in shadow.parents:
                if parent.place == "ended":
                    shadow.ends.append(kind_of(parent.state, parent.reason))
                else:
                    shadow.unfinished += 1
                    parent.children.append(shadow)
            if isinstance(decided := self.decide(shadow, now), Reason):
                self.end(shadow, State.SKIPPED, decided, now)

    def put(self, shadow: Shadow, due: int | None) -> None:
        assert due is not None
        shadow.due, shadow.place, shadow.placed_now = due, "timeline", True
        shadow.at = due - self.offset if shadow.wall else due

    def make_ready(self, shadow: Shadow, due: int, position: tuple[int, int] = (0, 0)) -> None:
        shadow.place, shadow.due, shadow.at, shadow.placed_now = "ready", due, None, False
        shadow.order, shadow.since = (self.batch, *position), None

    # Dependencies

    def decide(self, child: Shadow, now: int) -> Reason | None:
        """Release a waiting child, or say why it is doomed."""
        decided = verdict(child.run_if, child.ends, child.unfinished)
        if isinstance(decided, Reason):
            return decided
        if decided == "run":
            self.release(child, now)
        return None

    def release(self, child: Shadow, now: int) -> None:
        """The last parent let go: the rule counts from now, and what is past is due now."""
        reading = now + self.offset if child.when.wall else now
        if child.when.kind == "now":
            if self.is_open:
                self.make_ready(child, now)
            else:
                self.put(child, now)
        elif child.when.box.breaks:
            self.end(child, State.FAILED, Reason.RULE, now)
        else:
            first = self.bind(child, reading)
            if first is None:
                self.end(child, State.SKIPPED, Reason.NO_NEXT_FIRE, now)
            else:
                self.put(child, max(first, reading))

    def end(self, shadow: Shadow, state: State, reason: Reason | None, now: int, *, ran: bool = False) -> None:
        """Terminal; and so are its descendants that are doomed by it, by work list."""
        todo = deque([(shadow, state, reason, ran)])
        while todo:
            task, state, reason, ran = todo.popleft()
            if not ran:
                task.history.append(Fire(None if reason is Reason.RULE else task.due, state, reason))
            task.place, task.state, task.reason, task.at = "ended", state, reason, None
            for child in task.children:
                child.ends.append(kind_of(state, reason))
                child.unfinished -= 1
                if child.place == "waiting" and isinstance(doomed := self.decide(child, now), Reason):
                    child.place = "ended"  # decided: no other parent of this work list decides it again
                    todo.append((child, State.SKIPPED, doomed, False))

    # Time passes

    def due_now(self, now: int, wall: int) -> None:
        """Everything that is due becomes READY, in order; fires that were missed leave one record."""
        self.batch += 1
        offset = wall - now
        back = self.offset - offset
        if abs(back) > STEP_US:
            self.offset = offset
            for shadow in self.at_place("ready") + self.at_place("running"):
                if shadow.wall and shadow.recurring and back >= REPEAT_US:
                    shadow.since = wall
            for shadow in self.at_place("timeline"):
                if shadow.wall:
                    assert shadow.due is not None
                    again = shadow.recurring and back >= REPEAT_US and shadow.fires is not None
                    self.put(shadow, shadow.fires.next_after(wall) if again and shadow.fires else shadow.due)
        for shadow in sorted(self.at_place("timeline"), key=lambda task: (task.at or 0, task.number)):
            if shadow.at is not None and shadow.at <= now:
                self.surface(shadow, now, wall)

    def surface(self, shadow: Shadow, now: int, wall: int) -> None:
        reading = wall if shadow.wall else now
        assert shadow.due is not None
        assert shadow.at is not None
        if shadow.due > reading:  # the wall clock was slewed, and its time has not come
            self.offset = wall - now
            self.put(shadow, shadow.due)
            return
        position = (shadow.at, shadow.number)
        if shadow.recurring and not shadow.when.box.breaks:  # else no later fire can be told, and the planned one runs
            assert shadow.fires is not None
            missed = shadow.fires.between(shadow.due, reading)
            if missed is not None:
                fires, _, latest = missed
                before = shadow.fires.between(shadow.due, latest - 1)
                last = before[2] if before else shadow.due
                shadow.history.append(Fire(shadow.due, State.SKIPPED, Reason.COALESCED, fires, last))
                shadow.due = latest
                if shadow.wall and latest - self.offset > now:  # the wall clock was slewed by less than a step is
                    self.put(shadow, latest)
                    return
        self.make_ready(shadow, shadow.due, position)

    # A run's life

    def may_start(self, shadow: Shadow) -> bool:
        """By priority, then by the order of becoming ready; what one pass made ready, by instant, then as scheduled."""
        return shadow.place == "ready" and not any(self.comes_before(other, shadow) for other in self.at_place("ready"))

    def comes_before(self, one: Shadow, other: Shadow) -> bool:
        if one.priority != other.priority:
            return one.priority > other.priority
        if one.order[0] != other.order[0]:
            return one.order[0] < other.order[0]
        # A user's own rule is asked between two holds, so what it drives has no order among what one pass made ready.
        asked = any(task.when.kind == "own" for task in (one, other))
        return not asked and one.order < other.order

    def start(self, shadow: Shadow) -> None:
        shadow.place, shadow.asked_to_stop = "running", False

    def finish(self, shadow: Shadow, state: State, reason: Reason | None, now: int) -> None:
        """The outcome stands; then the schedule goes on, or the task ends."""
        self.batch += 1
        shadow.history.append(Fire(shadow.due, state, reason))
        shadow.last_end = state, reason
        if shadow.fated is not None:
            self.end(shadow, *shadow.fated, now, ran=True)
        elif not shadow.recurring:
            self.end(shadow, state, reason, now, ran=True)
        else:
            self.plan(shadow, now)

    def plan(self, shadow: Shadow, now: int) -> None:
        """Skip by absence: fires strictly inside the run are one record; one at its very end is no overlap."""
        since = shadow.due if shadow.since is None else shadow.since
        if shadow.update is not None:
            if self.become(shadow, shadow.update):
                since = shadow.update.due  # what the new schedule would have fired before it was there is no fire
            shadow.update = None
        assert shadow.fires is not None
        assert since is not None
        if shadow.when.box.breaks:
            self.end(shadow, State.FAILED, Reason.RULE, now)
            return
        reading = now + self.offset if shadow.wall else now
        if shadow.when.kind == "sliding":
            self.put(shadow, self.bind(shadow, reading))
            return
        if since - reading >= REPEAT_US:  # the clock was set back by hours under the run
            self.put(shadow, shadow.fires.next_after(reading))
            return
        overlapped = shadow.fires.between(since, reading - 1)
        if overlapped is not None:
            fires, first, last = overlapped
            shadow.history.append(Fire(first, State.SKIPPED, Reason.OVERLAP, fires, last))
        following = shadow.fires.next_after(max(since, reading - 1))
        if following is None:
            assert shadow.last_end is not None
            self.end(shadow, shadow.last_end[0], Reason.NO_NEXT_FIRE, now, ran=True)
        else:
            self.put(shadow, following)

    def cancel(self, shadow: Shadow, reason: Reason, now: int, *, ask: bool = True) -> str:
        """One answer of three: it never starts, it was asked, it was too late."""
        if shadow.place == "ended":
            return "too_late"
        if shadow.place == "running":
            shadow.asked_to_stop |= ask
            if shadow.recurring and shadow.fated is None:
                shadow.fated = State.CANCELLED, reason
            return "asked"
        self.end(shadow, State.CANCELLED, reason, now)
        return "cancelled"

    def close(self, now: int) -> None:
        """What waits is CANCELLED (closed) and dooms nobody: all of it is closed. What runs may end."""
        self.is_closed, self.is_open = True, False
        for shadow in self.live():
            if shadow.place == "waiting":
                shadow.place = "ready"  # so that the end of a parent does not skip it
        for shadow in self.live():
            self.cancel(shadow, Reason.CLOSED, now, ask=False)

    # Another task of the same id

    def meet(self, new: Shadow, exists: str, now: int, wall: int) -> Shadow | None:
        """What is there and stays: kept, or updated. None: the id is free now."""
        there = self.named.get(new.id or "")
        if there is None or exists == "keep":
            return there
        busy = there.place in ("ready", "running")
        once = not (there.recurring and there.fated is None and new.when.recurring)
        if there.place in ("ended", "waiting") or new.parents or (busy and once):
            self.cancel(there, Reason.REPLACED, now, ask=False)
            del self.named[there.id or ""]
            return None
        first = self.bind(new, wall if new.when.wall else now)
        new.due = None if first is None else first - 1
        if busy:
            self.note_lost(there, new, now)
            there.update = new
        elif self.become(there, new):
            self.put(there, self.bind(there, wall if there.when.wall else now))
        return there

    def note_lost(self, there: Shadow, new: Shadow, now: int) -> None:
        """The fires of the old rule that its run has overlapped are told now: the new rule knows nothing of them."""
        last = there.update or there
        if last.fires is None or last.due is None or last.when.kind == "own" or same_grid(last.when, new.when):
            return
        reading = now + self.offset if there.wall else now
        since = last.due if there.update or there.since is None else there.since
        lost = last.fires.between(since, reading - 1)
        if lost is not None:
            there.history.append(Fire(lost[1], State.SKIPPED, Reason.OVERLAP, lost[0], lost[2]))

    def become(self, there: Shadow, new: Shadow) -> bool:
        """True when the schedule changes. A grid without an anchor may start anywhere and is the same."""
        there.priority = new.priority
        if there.recurring and new.when.recurring and same_grid(there.when, new.when):
            return False
        there.when, there.recurring, there.wall, there.fires = new.when, new.recurring, new.wall, new.fires
        return True


def same_grid(one: When, other: When) -> bool:
    return one == other and one.kind in ("every", "sliding", "anchored")


def would_be_waited_for_ever(there: Shadow, new: Shadow) -> bool:
    """A task that stays and becomes recurring has no end that its children could wait for."""
    once = not (there.recurring and there.fated is None and new.when.recurring)
    stays = there.place not in ("ended", "waiting") and not new.parents
    stays = stays and not (there.place in ("ready", "running") and once)
    return stays and new.when.recurring and any(child.place == "waiting" for child in there.children)


def waited_for(shadow: Shadow) -> set[Shadow]:
    """Its parents, and all that those which have not ended wait for."""
    todo, found = list(shadow.parents), set[Shadow]()
    while todo:
        parent = todo.pop()
        if parent not in found:
            found.add(parent)
            todo.extend(parent.parents if parent.place != "ended" else [])
    return found
