"""The fires of each task: every point of its grid is run, or in exactly one record; and children wait for parents."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from tests.simulation.play import START_US, Story
from tests.simulation.programs import Draft
from tickless import Event, EventKind
from tickless.instants import SECOND_US

ENDS = frozenset({EventKind.SUCCEEDED, EventKind.FAILED, EventKind.SKIPPED, EventKind.CANCELLED})
Stretch = tuple[int, int, int | None]


class Byhand:
    """What `run_now` has answered."""

    def __init__(self, story: Story) -> None:
        self.extra: dict[str, Counter[int]] = defaultdict(Counter)
        """Task -> the dues of the runs that it got beside its schedule."""
        self._named: dict[tuple[str, int | None], list[int]] = defaultdict(list)
        self._asked: dict[str, list[int]] = defaultdict(list)
        for act in story.acts:
            if act.run is None:
                continue
            task, due = act.verb.task or "", act.run.due_us
            self._asked[task].append(act.at)
            self._named[task, due].append(act.at)
            if due == act.at:
                self.extra[task][due] += 1

    def has(self, task: str, due: int | None, at: int) -> bool:
        """Whether the run of that due was asked for by hand."""
        return any(asked <= at for asked in self._named.get((task, due), ()))

    def retried(self, task: str, since: int, at: int) -> bool:
        """Whether a retry was asked for in that time."""
        return any(since <= asked <= at for asked in self._asked.get(task, ()))


class Grid:
    """The points of a rule that was bound at `start`."""

    def __init__(self, kind: str, interval: float, start: int) -> None:
        self.start = start
        self.step = round(interval * SECOND_US)
        self.base = start if kind == "every" else 0

    def __contains__(self, at: int) -> bool:
        return at > self.start and (at - self.base) % self.step == 0

    def after(self, at: int) -> int:
        at = max(at, self.start)
        return at + self.step - (at - self.base) % self.step

    def points(self, until: int) -> Iterator[int]:
        return iter(range(self.after(self.start), until + 1, self.step))


def grids_of(story: Story, draft: Draft, events: list[Event]) -> list[Grid]:
    """Its grid from when it was scheduled or let go by its parents, and from each reschedule on."""
    start: int | None = START_US
    if draft.options.get("after_tasks"):
        start = released_at(story, draft)
    elif draft.scheduled_at:
        start = next((act.at for act in story.acts if act.verb.name == "schedule" and act.verb.task == draft.id), None)
    if start is None:
        return []
    grids, rule = [Grid(*draft.rule, start)], draft.rule
    for act in story.acts:
        if act.verb.name == "reschedule" and act.verb.task == draft.id and act.refused is None:
            kind, interval = act.verb.argument
            if (kind, interval) == rule:
                continue  # the same rule goes on as it did
            rule = kind, interval
            if act.at < start:
                grids[0] = Grid(kind, interval, start)
            else:
                grids.append(Grid(kind, interval, act.at))
    return grids


def fire_faults(story: Story, draft: Draft, stretches: list[Stretch], by_hand: Byhand) -> Iterator[str]:
    events = [event for event in story.events if event.task_id == draft.id]
    yield from family_faults(story, draft, events)
    if draft.rule[0] in ("every", "epoch"):
        yield from grid_faults(story, draft, events, stretches, by_hand)
    elif not draft.recurring:
        ends = [event for event in events if event.kind in ENDS]
        info = story.infos.get(draft.id)
        if len(ends) > 1:
            yield f"a task that fires once has {len(ends)} ends"
        if info is not None and info.state.terminal != bool(ends):
            yield f"it is {info.state}, and has {len(ends)} ends"


def covered_by(event: Event, grids: list[Grid]) -> list[int]:
    """The dues that a record stands for."""
    due = event.due_us
    assert due is not None
    dues: list[int] = [due]
    grid = next((grid for grid in reversed(grids) if grid.start < due), grids[0])
    while len(dues) < event.count:
        dues.append(grid.after(dues[-1]))
    return dues


def grid_faults(
    story: Story, draft: Draft, events: list[Event], stretches: list[Stretch], by_hand: Byhand
) -> Iterator[str]:
    grids = grids_of(story, draft, events)
    is_moved = story.stepped and draft.rule[0] == "epoch"
    if not grids or (is_moved and (draft.scheduled_at or "after_tasks" in draft.options)):
        return  # or nobody knows what the wall clock said when its grid began
    extra = by_hand.extra[draft.id]
    covered: Counter[int] = Counter()
    for event in events:
        if event.kind in ENDS and event.due_us is not None:
            if event.count > 1 and event.reason == "replaced" and event.due_us in extra:
                return  # the first of them is a run by hand, or a fire of the same due: the record does not tell
            dues = covered_by(event, grids)
            covered.update(dues)
            if event.kind is EventKind.SKIPPED and event.reason == "overlap" and not held_catch_up(story, draft):
                yield from overlap_faults(draft, dues, stretches, extra, event, is_moved)
    live = [run for run in story.runs.get(draft.id, ()) if not run.state.terminal and run.due_us is not None]
    covered.update(run.due_us for run in live if run.due_us is not None)
    on_grid: set[int] = set()
    told = [due for due in covered if covered[due] > extra[due] and any(due in grid for grid in grids)]
    last = max(told, default=0)
    info = story.infos.get(draft.id)
    if info is None:
        return
    if info.next_fire_us is not None and not info.paused:
        last = max(last, info.next_fire_us - 1)
    may_wait = 1 if draft.overlap in ("queue", "replace") and len(grids) > 1 else 0
    for grid, following in zip(grids, [*grids[1:], None], strict=True):
        until = last if following is None else min(last, following.start)
        settled = last if following is None else following.start - 1
        if following is not None and "max_runs" in draft.options:  # those that it would not let run are no fires
            settled = max((due for due in told if due < following.start), default=0)
        for point in grid.points(until):
            on_grid.add(point)
            least = 1 if point <= settled else 0
            if not covered[point] and may_wait:
                may_wait -= 1
                continue
            if not least <= covered[point] <= 1 + extra[point]:
                yield f"the fire {at(point)} has {covered[point]} records, of {grids_shown(grids)}"
    for due, count in covered.items():
        if (
            due not in on_grid
            and not 1 <= count <= extra[due]
            and not (due > last or any(due == g.start for g in grids))
        ):
            yield f"due {at(due)} has {count} records, is no fire, and was asked for {extra[due]} times"
    waiting = 0 if draft.overlap == "skip" else 1
    lost = [due for due, count in extra.items() if not covered[due] and due not in on_grid and count]
    if len(lost) > waiting:
        yield f"what run_now asked for at {[at(due) for due in lost]} has no record"


def held_catch_up(story: Story, draft: Draft) -> bool:
    """Whether a pause may have held a catch-up, which is in the way for as long as it lasts."""
    verbs = [(act.verb.name, act.verb.argument) for act in story.acts if act.refused is None]
    if draft.options.get("catch_up") == "all" and draft.options.get("pause_after_failures"):
        return story.late
    return ("resume", "all") in verbs and sum(name == "pause" for name, _ in verbs) > 1


def overlap_faults(
    draft: Draft, dues: list[int], stretches: list[Stretch], extra: Counter[int], event: Event, is_moved: bool
) -> Iterator[str]:
    """Fires are skipped for an overlap when something was in the way, and only then."""
    if draft.options.get("jitter") or is_moved or extra:
        return  # what was asked for by hand is in the way as well, be it at once or when its turn comes
    for due in dues:
        busy = [(begin, end) for begin, end, of in stretches if begin <= due < end and of != due]
        if not busy:
            yield f"the fire {at(due)} was skipped for an overlap with nothing"


def at(instant: int | None) -> str:
    return "None" if instant is None else f"{(instant - START_US) / SECOND_US:g}"


def grids_shown(grids: list[Grid]) -> str:
    return ", ".join(f"every {grid.step / SECOND_US:g} from {at(grid.start)}" for grid in grids)


# Parents


def kinds_of(story: Story, parents: list[str], until: int) -> list[tuple[int, str]]:
    """(number of the event, kind) of each parent's end, in order."""
    found = []
    for number, event in enumerate(story.events[:until]):
        if event.kind in ENDS and event.task_id in parents:
            kind = str(event.kind.value)
            if kind == "skipped":
                kind = {"parent_failed": "failed", "parent_cancelled": "cancelled"}.get(str(event.reason), "neutral")
            found.append((number, kind))
    return found


def decision(run_if: str, kinds: list[str], parents: int) -> tuple[bool, int] | None:
    """(whether it runs, after how many ends); None while it waits on."""
    for count, kind in enumerate(kinds, 1):
        last = count == parents
        if run_if == "all_succeeded" and kind != "succeeded":
            return False, count
        if run_if == "none_failed" and kind == "failed":
            return False, count
        if (run_if, kind) in (("any_succeeded", "succeeded"), ("any_failed", "failed")):
            return True, count
        if last:
            return run_if in ("all_done", "all_succeeded", "none_failed"), count
    return None


def verdict_of(story: Story, draft: Draft) -> tuple[bool, int] | None:
    """(whether it runs, number of the event that decides it)."""
    parents = list(dict.fromkeys(draft.options.get("after_tasks", ())))
    ends = kinds_of(story, parents, len(story.events))
    found = decision(draft.options.get("run_if", "all_succeeded"), [kind for _, kind in ends], len(parents))
    return None if found is None else (found[0], ends[found[1] - 1][0])


def released_at(story: Story, draft: Draft) -> int | None:
    verdict = verdict_of(story, draft)
    return story.events[verdict[1]].at_us if verdict is not None and verdict[0] else None


def family_faults(story: Story, draft: Draft, events: list[Event]) -> Iterator[str]:
    if not draft.options.get("after_tasks"):
        return
    verdict = verdict_of(story, draft)
    numbers = [number for number, event in enumerate(story.events) if event.task_id == draft.id]
    begun = [n for n in numbers if story.events[n].kind in (EventKind.READY, EventKind.STARTED)]
    doomed = [n for n in numbers if story.events[n].kind is EventKind.SKIPPED and _is_doom(story.events[n])]
    cancelled = any(act.verb.name == "cancel" and act.verb.task == draft.id for act in story.acts)
    if begun and (verdict is None or not verdict[0] or begun[0] < verdict[1]):
        yield f"run_if={draft.options.get('run_if')}: it is ready at event {begun[0]}, and its parents say {verdict}"
    if doomed and (verdict is None or verdict[0] or doomed[0] < verdict[1]):
        yield f"run_if={draft.options.get('run_if')}: it is doomed at event {doomed[0]}, and its parents say {verdict}"
    if verdict is not None and not verdict[0] and not doomed and not cancelled:
        yield f"run_if={draft.options.get('run_if')}: its parents say {verdict}, and it is not doomed"


def _is_doom(event: Event) -> bool:
    return str(event.reason).startswith("parent_") or event.reason == "run_if"
