"""What must hold of any story, said from the promises and not from the machine. `broken(story)` names what does not.

The time a body's code takes is known from the call itself, so that zombies are seen; the pauses are told from the verbs
alone; grids are counted by hand. One pass over the events, and then a look at each task.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterator

from tests.simulation.fires import Byhand, fire_faults
from tests.simulation.play import START_US, Called, Story
from tests.simulation.programs import Draft
from tickless import Event, EventKind, Retry
from tickless.instants import SECOND_US
from tickless.policies import jitter_of

ENDS = frozenset({EventKind.SUCCEEDED, EventKind.FAILED, EventKind.SKIPPED, EventKind.CANCELLED})
FOREVER = 1 << 62


def us(seconds: float | None) -> int:
    return 0 if seconds is None else round(seconds * SECOND_US)


class Blurred(Exception):
    """A fire and a run by hand of one due go on side by side, and the events cannot tell which is which."""


class Pauses:
    """Which tasks are paused, from the verbs that were called and from failures in a row."""

    def __init__(self, story: Story) -> None:
        self.tags = {draft.id: tuple(draft.options.get("tags", ())) for draft in story.program.drafts}
        self._acts = deque(act for act in story.acts if act.verb.name in ("pause", "resume") and act.refused is None)
        self._until: dict[tuple[str | None, str | None], int] = {}

    def before(self, seen: int) -> None:
        """Take in the verbs that were called before the event of that number."""
        while self._acts and self._acts[0].seen <= seen:
            act = self._acts.popleft()
            scope = (act.verb.task, act.verb.tag)
            if act.verb.name == "resume":
                self._until.pop(scope, None)
            else:
                self._until[scope] = FOREVER if act.verb.argument is None else act.at + us(act.verb.argument)

    def by_itself(self, task: str) -> None:
        """It has failed too often."""
        self._until[task, None] = FOREVER

    def own(self, task: str) -> int:
        """Until when its own pause holds it; 0 where there is none."""
        return self._until.get((task, None), 0)

    def hold(self, task: str, at: int) -> bool:
        scopes = ((task, None), (None, None), *((None, tag) for tag in self.tags[task]))
        return any(self._until.get(scope, 0) > at for scope in scopes)


class Watched:
    """What is known of one task while the events go by."""

    def __init__(self, draft: Draft, calls: list[Called]) -> None:
        self.draft = draft
        self.calls = deque(calls)
        self.busy: dict[int | None, None] = {}
        """The occurrences from READY to their end."""
        self.open: dict[int | None, Called] = {}
        """Those whose run goes on."""
        self.zombies: list[tuple[int, int | None]] = []
        """(when their code ends, due) of those that timed out, and keep the task busy."""
        self.retries: dict[int | None, list[Event]] = defaultdict(list)
        self.failures = 0
        self.is_cancelled = False
        self.stretches: list[tuple[int, int, int | None]] = []
        """(from, to, due): how long each occurrence kept it busy."""
        self.since: dict[int | None, int] = {}

    def going(self, at: int) -> int:
        """How many keep it busy."""
        return len(self.busy) + sum(end > at and due not in self.busy for end, due in self.zombies)


class Held:
    """A limit, as its name says it."""

    def __init__(self, running: int | None, starts: int | None, per: float | None) -> None:
        self.running = running
        self.starts = starts if starts is not None else running
        self.per = None if per is None else us(per)
        self.open: dict[tuple[str, int | None], None] = {}
        self.zombies: list[int] = []
        self.newest: deque[int] = deque(maxlen=self.starts)


class Checker:
    """One pass over a story."""

    def __init__(self, story: Story) -> None:
        self.story = story
        self.pauses = Pauses(story)
        calls: dict[str, list[Called]] = defaultdict(list)
        for called in story.calls:
            calls[called.task].append(called)
        self.tasks = {draft.id: Watched(draft, calls[draft.id]) for draft in story.program.drafts}
        self.limits = {limit.name: Held(limit.running, limit.starts, limit.per) for limit in story.program.limits}  # type: ignore[arg-type]
        self.by_hand = Byhand(story)
        self.cancels = deque(act for act in story.acts if act.verb.name == "cancel" and act.refused is None)

    def faults(self) -> Iterator[str]:
        """What is broken, as far as the events can tell it."""
        try:
            yield from self._faults()
        except Blurred:
            return

    def _faults(self) -> Iterator[str]:
        for number, event in enumerate(self.story.events):
            while self.cancels and self.cancels[0].seen <= number:
                self.tasks[self.cancels.popleft().verb.task or ""].is_cancelled = True
            watched = self.tasks.get(event.task_id or "")
            if watched is None:
                continue
            self.pauses.before(number)
            for fault in self._of(event, watched, number):
                yield f"{event.task_id}: {fault}\n  at event {number}: {shown(event)}"
        for watched in self.tasks.values():
            yield from self._at_the_end(watched)
            going = [(watched.since[due], FOREVER, due) for due in watched.busy]
            for fault in fire_faults(self.story, watched.draft, [*watched.stretches, *going], self.by_hand):
                yield f"{watched.draft.id}: {fault}"
        yield from handler_faults(self.story)

    def _of(self, event: Event, watched: Watched, number: int) -> Iterator[str]:
        kind, due = event.kind, event.due_us
        if kind is EventKind.READY:
            yield from self._ready(event, watched)
        elif kind is EventKind.STARTED:
            yield from self._started(event, watched)
        elif kind is EventKind.RETRY:
            yield from self._attempt_ended(event, watched)
            watched.retries[due].append(event)
        elif kind is EventKind.SKIPPED and (due in watched.open or event.reason == "overlap"):
            return  # a fire that never was ready; or, of one due, the other of a fire and a run by hand
        elif kind in ENDS:
            if due in watched.open:
                yield from self._attempt_ended(event, watched)
            if event.count == 1 and due in watched.busy:
                del watched.busy[due]
                end = max([event.at_us, *(end for end, of in watched.zombies if of == due)])
                watched.stretches.append((watched.since.pop(due), end, due))
                watched.retries.pop(due, None)
            yield from self._counted(event, watched, number)

    def _ready(self, event: Event, watched: Watched) -> Iterator[str]:
        due, at = event.due_us, event.at_us
        if due in watched.busy and due in self.by_hand.extra[watched.draft.id] and watched.draft.overlap == "allow":
            raise Blurred
        for moved in [one for one in watched.busy if one not in watched.open and self._is_moved(watched, one, at)]:
            del watched.busy[moved], watched.since[moved]
        if due not in watched.busy:
            watched.since[due] = at
        watched.busy[due] = None
        yield from self._overlap(watched, at)
        retries = watched.retries.get(due)
        if retries and due not in watched.open:
            yield from self._in_time(retries[-1], event, watched)

    def _is_moved(self, watched: Watched, due: int | None, at: int) -> bool:
        """Whether the only fire of a task was ready, and was given another time by a reschedule."""
        if watched.draft.rule[0] not in ("at", "after", "now"):
            return False
        return any(
            act.verb.name == "reschedule" and act.verb.task == watched.draft.id and act.refused is None
            and watched.since[due] <= act.at <= at
            for act in self.story.acts
        )  # fmt: skip

    def _overlap(self, watched: Watched, at: int) -> Iterator[str]:
        most = 1 if watched.draft.overlap != "allow" else watched.draft.options.get("max_running")
        if most is not None and watched.going(at) > most:
            yield f"overlap: {watched.going(at)} keep it busy, of at most {most}: {[*watched.busy]} {watched.zombies}"

    def _in_time(self, retry: Event, ready: Event, watched: Watched) -> Iterator[str]:
        """The delay of the retry has passed."""
        policy: Retry = watched.draft.options["retry"]
        wait = policy.delay_us * policy.factor ** (retry.count - 1)
        least, most = (int(min(policy.max_delay_us, one)) for one in (wait, wait + policy.jitter_us))
        if ready.at_us < retry.at_us + least and not self.by_hand.retried(watched.draft.id, retry.at_us, ready.at_us):
            yield f"a retry is ready {ready.at_us - retry.at_us} us after its failure, and waits for at least {least}"
        held_until = max([retry.at_us + most, *(end for end, _ in watched.zombies)])
        if (
            ready.at_us > held_until
            and not self.story.acts
            and not self.story.late
            and not watched.draft.options.get("pause_after_failures")
        ):
            yield f"a retry is ready {ready.at_us - retry.at_us} us after its failure, and waits for at most {most}"

    def _started(self, event: Event, watched: Watched) -> Iterator[str]:
        draft, due, at = watched.draft, event.due_us, event.at_us
        called = watched.calls.popleft()
        by_hand = self.by_hand.has(draft.id, due, at)
        if (called.due, called.at) != (due, at):
            yield f"the body saw due {called.due} at {called.at}"
        retries = watched.retries.get(due, [])
        if called.attempt != len(retries) + 1:
            yield f"the body is told attempt {called.attempt}, after {len(retries)} retries"
        if due in watched.open:
            yield "an occurrence started twice"
        yield from self._times(watched, called, by_hand)
        if due not in watched.busy:
            yield "it started and was not ready"
        if not by_hand and self.pauses.hold(draft.id, at):
            yield "it started while it is paused"
        watched.open[due] = called
        yield from self._overlap(watched, at)
        yield from self._take_permit(watched, due, at)

    def _times(self, watched: Watched, called: Called, by_hand: bool) -> Iterator[str]:
        draft, due, at = watched.draft, called.due, called.at
        assert due is not None
        if self.story.stepped and draft.rule[0] == "epoch":
            return  # the wall clock may have been set since it was ready
        jitter = us(draft.options.get("jitter"))
        put_off = due if by_hand or not jitter else due + jitter_of(draft.id, due, jitter)  # type: ignore[arg-type]
        if at < put_off:
            yield f"P6: it started {put_off - at} us before it was due, its jitter included"
        grace = draft.options.get("grace")
        if grace is not None and called.attempt == 1 and not by_hand and at > put_off + us(grace):
            yield f"it started {at - put_off} us late, and its grace is {us(grace)}"

    def _take_permit(self, watched: Watched, due: int | None, at: int) -> Iterator[str]:
        name = watched.draft.options.get("limit")
        if name is None:
            return
        limit = self.limits[name]
        limit.open[watched.draft.id, due] = None
        limit.zombies = [end for end in limit.zombies if end > at]
        if limit.running is not None and len(limit.open) + len(limit.zombies) > limit.running:
            yield f"limit {name}: {len(limit.open)} run and {len(limit.zombies)} zombies, of at most {limit.running}"
        if limit.per is not None:
            if len(limit.newest) == limit.starts and limit.newest[0] > at - limit.per:
                yield f"limit {name}: a start more than {limit.starts} in {limit.per} us: {list(limit.newest)}, {at}"
            limit.newest.append(at)

    def _attempt_ended(self, event: Event, watched: Watched) -> Iterator[str]:
        draft, due, at = watched.draft, event.due_us, event.at_us
        called = watched.open.pop(due, None)
        if called is None:
            yield "an attempt ended that had not begun"
            return
        limit = self.limits.get(draft.options.get("limit", ""))
        if limit is not None:
            limit.open.pop((draft.id, due), None)
        timeout = draft.options.get("timeout")
        if event.reason == "timed_out":
            if timeout is None or at != called.at + us(timeout) or called.end < at:
                yield f"it timed out {at - called.at} us after its start, of {timeout} s; its code takes {called.span}"
            if draft.options.get("on_timeout", "keep") == "keep":
                watched.zombies.append((called.end, due))
                if limit is not None:
                    limit.zombies.append(called.end)
        elif at != called.end:
            yield f"it ended at {at}, and its code at {called.end}"
        elif timeout is not None and called.span > us(timeout):
            yield f"it ran for {called.span} us and did not time out"
        elif (called.error is None) != (event.kind is EventKind.SUCCEEDED):
            yield f"its code raised {called.error}"
        yield from self._tries(event, watched, called)

    def _tries(self, event: Event, watched: Watched, called: Called) -> Iterator[str]:
        retry: Retry | None = watched.draft.options.get("retry")
        if event.kind is EventKind.RETRY:
            if retry is None or called.attempt >= retry.attempts:
                yield f"attempt {called.attempt} is tried again, and there is {retry}"
            if event.count != called.attempt:
                yield f"attempt {called.attempt} is told as {event.count}"
        elif event.kind is EventKind.FAILED and retry is not None and called.attempt < retry.attempts:
            name = "TimeoutError" if event.reason == "timed_out" else called.error
            given_up = name in [error.__name__ for error in retry.give_up_on]
            # A KeyError is a LookupError, and TimeoutError an OSError: nobody gives up on those here.
            if not given_up and watched.draft.overlap != "replace" and not watched.is_cancelled:
                yield f"it failed for good at attempt {called.attempt} of {retry.attempts}"

    def _counted(self, event: Event, watched: Watched, number: int) -> Iterator[str]:
        """Failures in a row."""
        most = watched.draft.options.get("pause_after_failures")
        if event.kind is EventKind.SUCCEEDED:
            watched.failures = 0
        if event.kind is not EventKind.FAILED or most is None:
            return
        watched.failures += 1
        if watched.failures < most:
            return
        watched.failures = 0
        if watched.is_cancelled:
            return
        own = self.pauses.own(watched.draft.id) >= event.at_us
        told = [one for one in self.story.events[number : number + 4] if one.kind is EventKind.PAUSED]
        if any(one.task_id == watched.draft.id for one in told):
            self.pauses.by_itself(watched.draft.id)
        elif not own:
            yield f"{most} failures in a row, and no pause"

    def _at_the_end(self, watched: Watched) -> Iterator[str]:
        draft, ended = watched.draft, self.story.ended_us
        timeout = draft.options.get("timeout")
        for due, called in watched.open.items():
            over = called.at + min(called.span, FOREVER if timeout is None else us(timeout))
            if over <= ended:
                yield f"{draft.id}: the run of {due} was to end at {over}, and goes on"
        if watched.calls:
            yield f"{draft.id}: {len(watched.calls)} calls more than starts"
        info = self.story.infos.get(draft.id)
        if info is None:
            return
        if self.pauses_at_end(draft) != info.paused and not info.state.terminal:
            yield f"{draft.id}: paused is told as {info.paused}"
        yield from self._waits_for_something(watched)

    def pauses_at_end(self, draft: Draft) -> bool:
        self.pauses.before(len(self.story.events))
        return self.pauses.hold(draft.id, self.story.ended_us)

    def _waits_for_something(self, watched: Watched) -> Iterator[str]:
        """Nothing is forgotten: what has not ended waits for a time to come, a slot, a permit, a parent or a resume."""
        draft, ended = watched.draft, self.story.ended_us
        info = self.story.infos[draft.id]
        if info.state.terminal or info.paused or watched.open or (self.story.stepped and draft.rule[0] == "epoch"):
            return
        if info.state == "ready" and not self.story.late:
            pool = draft.options.get("pool", "default")
            slots = self.story.program.pools.get(pool, self.story.program.slots)
            if self.occupied(pool) < slots and not self.exhausted(draft.options.get("limit")):
                yield f"{draft.id}: it is ready, a slot is free, and it does not start"
        elif info.state == "pending" and not any(end > ended for end, _ in watched.zombies):
            parents = [self.story.infos[parent].state.terminal for parent in draft.options.get("after_tasks", ())]
            times = [t for t in (info.next_fire_us, info.retry_at_us) if t is not None]
            if all(parents) and not (times and max(times) + us(draft.options.get("jitter")) > ended):
                yield f"{draft.id}: it is pending, and waits for nothing: {info}"

    def occupied(self, pool: str) -> int:
        """How many bodies are inside that pool at the end; operators and handlers take no time."""
        ended = self.story.ended_us
        drafts = {draft.id for draft in self.story.program.drafts if draft.options.get("pool", "default") == pool}
        return sum(called.end > ended for called in self.story.calls if called.task in drafts)

    def exhausted(self, name: str | None) -> bool:
        if name is None:
            return False
        sharers = [draft.id for draft in self.story.program.drafts if draft.options.get("limit") == name]
        if sum(run.state == "ready" for id in sharers for run in self.story.runs.get(id, ())) > 1:
            return True  # another one may have the permit reserved, and wait for a slot of its pool
        limit, ended = self.limits[name], self.story.ended_us
        full = limit.running is not None and len(limit.open) + sum(e > ended for e in limit.zombies) >= limit.running
        return full or (
            limit.per is not None and len(limit.newest) == limit.starts and limit.newest[0] > ended - limit.per
        )


def handler_faults(story: Story) -> Iterator[str]:
    """Each failure for good is told to the handler once, with its own facts."""
    wanted = {draft.id for draft in story.program.drafts if "on_failure" in draft.options}
    failed = Counter((e.task_id, e.due_us) for e in story.events if e.kind is EventKind.FAILED and e.task_id in wanted)
    told = Counter((run.task_id, run.due_us) for run in story.handled)
    if told - failed:
        yield f"handlers were told {told - failed}, which did not fail"
    lost = failed - told
    waiting = sum(called.end > story.ended_us for called in story.calls)
    if lost and not waiting and not story.late:
        yield f"handlers were never told of {lost}"


def shown(event: Event) -> str:
    due = None if event.due_us is None else (event.due_us - START_US) / SECOND_US
    told = [event.reason, event.error, f"x{event.count}" if event.count > 1 else None]
    more = " ".join(str(one) for one in told if one)
    return f"{(event.at_us - START_US) / SECOND_US:>9.3f} {event.task_id} {event.kind.value} due {due} {more}"
