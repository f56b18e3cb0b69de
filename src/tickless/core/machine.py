"""The machine in memory: what every verb does to timeline, wait set, ready queue and records. Pure.

Time is an argument. It knows no lock: `stores/memory.py` calls it under one. A task that is scheduled and not running
is in exactly one place (P1): in the timeline by its entry, in `waiting`, in `ready`, or in `questions`, which counts as
timeline.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from heapq import heappush
from typing import Any

from tickless import policies
from tickless.core import graph, history, update
from tickless.core.questions import Questions, consult
from tickless.core.ready import ReadyQueue
from tickless.core.record import (
    NOT_SET,
    SEQ_BITS,
    SEQ_MASK,
    RunRecord,
    Signs,
    TaskRecord,
    Waiter,
    due_of,
    holdings,
    is_apart,
    key_of,
    more_of,
    move,
    run_if_of,
)
from tickless.core.registry import Registry
from tickless.core.timeline import Timeline
from tickless.instants import Instant
from tickless.policies import Plan, Verdict
from tickless.records import EventKind, Outcome
from tickless.rules import Rule
from tickless.states import TERMINAL, Reason, State

FOREVER = Instant(1 << 100)
AWAKE = Instant(-FOREVER)
KINDS = {state: EventKind(state.value) for state in TERMINAL}

Post = Callable[..., None]


class Machine:
    """One per store. Every method is called under the store's lock, but for `conclude` and `retire` of a plain task."""

    def __init__(self, keep_finished: int, keep_runs: int) -> None:
        self.timeline = Timeline()
        self.ready = ReadyQueue()
        self.registry = Registry(keep_finished)
        self.keep_runs = keep_runs
        self.waiting: set[TaskRecord] = set()
        """The wait set: tasks with unfinished parents."""
        self.questions = Questions()
        """Tasks whose custom rule is asked, outside the lock, when they fire next."""
        self.trash: deque[object] = deque()
        """What ended tasks let go of. Dropped once the lock is free, since a finalizer is foreign code."""
        self.to_stop: set[TaskRecord] = set()
        """Tasks that a worker has taken whose run was not there yet when it was asked to stop: see `ask_to_stop`."""
        self.idle_waiters: list[Waiter] = []
        self.seq = 0
        """The number of the task that came last."""
        self.is_open = False
        """True once started: what is due at once becomes ready at once, without a turn of the dispatcher."""
        self.signs = Signs()
        self.wake_at = AWAKE
        self.seen = AWAKE
        """The latest instant that anything became ready at."""
        self.offset = 0
        """wall - now, as it was when it was last looked at."""
        self.listen(None, frozenset())

    def listen(self, post: Post | None, wants: frozenset[EventKind]) -> None:
        """An event that nobody wants is never built: one test for None on the hot path."""
        self.post_end = {state: post if kind in wants else None for state, kind in KINDS.items()}
        self._post_succeeded = self.post_end[State.SUCCEEDED]
        self.post_cancelled = self.post_end[State.CANCELLED]
        self._post_scheduled = post if EventKind.SCHEDULED in wants else None
        self._post_ready = post if EventKind.READY in wants else None
        self.post_started = post if EventKind.STARTED in wants else None

    def enter(self, task: TaskRecord, now: Instant) -> None:
        """Take a new task in: give it its number, and put it where it belongs."""
        seq = self.seq = self.seq + 1
        task._seq = seq
        self.registry.live[seq] = task
        if task._id is not None:
            self.registry.named[task._id] = task
        if self._post_scheduled is not None:
            self._post_scheduled(EventKind.SCHEDULED, now, task, task._due)
        due = task._due
        if due is None or task._wall or task._more is not None:
            self.settle_in(task, now)
        elif due > now:
            timeline = self.timeline  # its `push`, written out: this is the path of a million inserts
            task._due = None
            task._entry = entry = due << SEQ_BITS | seq
            heappush(timeline.heap, entry)
            timeline.live += 1
            if due < self.wake_at:
                self._wake_for(due)
        else:
            self.place(task, due, now)

    def settle_in(self, task: TaskRecord, now: Instant) -> None:
        """Put a new task where it belongs: the wait set, the ready queue or the timeline."""
        if not task._parents:
            self.place(task, now if task._due is None else task._due, now)
            return
        graph.link(task)
        self.waiting.add(task)
        if task._waiting and not task._seen:
            return  # nobody has ended yet, so nothing is decided
        verdict = policies.on_parent(run_if_of(task), task._seen, task._waiting)
        if verdict is not policies.WAIT:
            doomed: list[TaskRecord] = []
            self._decide(task, verdict, now, doomed)
            if doomed:
                self.end(task, now)

    def enter_many(self, tasks: Sequence[TaskRecord], now: Instant) -> None:
        """As `enter` for each, but one heapify, and links only once all are there: any may be another's parent."""
        live, named, post, seq = self.registry.live, self.registry.named, self._post_scheduled, self.seq
        entries: list[int] = []
        others: list[TaskRecord] = []
        for task in tasks:
            seq += 1
            task._seq = seq
            live[seq] = task
            if task._id is not None:
                named[task._id] = task
            if post is not None:
                post(EventKind.SCHEDULED, now, task, task._due)
            due = task._due
            if due is not None and due > now and not task._wall and task._more is None:
                task._due = None
                task._entry = entry = due << SEQ_BITS | seq
                entries.append(entry)
            else:
                others.append(task)
        self.seq = seq
        for task in others:
            self.settle_in(task, now)
        if entries:
            self.timeline.extend(entries)
            first = Instant(min(entries) >> SEQ_BITS)
            if first < self.wake_at:
                self._wake_for(first)

    def place(self, task: TaskRecord, due: Instant, now: Instant) -> None:
        """Give the task its time: in the timeline, or ready when its time has come and nothing is due before it."""
        if is_apart(task):
            task._due = due
            # Never ready at once: only `surface`, which is told the wall time exactly, may say that it has come.
            at = self.instant_of(task, due)
        else:
            task._due = None
            at = due
            if at <= now and self.is_open and self.timeline.would_be_first(at, task._seq):
                self._make_ready(task, due, now)
                return
        task._entry = self.timeline.push(at, task._seq)
        if at < self.wake_at:
            self._wake_for(at)

    def instant_of(self, task: TaskRecord, due: Instant) -> Instant:
        """When a planned fire is to run, in `Clock.now()`, its jitter included."""
        at = due - self.offset if task._wall else due
        return Instant(at + _jitter(task, due))

    def _wake_for(self, at: Instant) -> None:
        """The sleeper must be woken for this entry, and for no later one: it looks at all there is (P7)."""
        self.wake_at = at
        self.signs.earlier = self.signs.stirred = True

    def _make_ready(self, task: TaskRecord, due: Instant, now: Instant) -> None:
        task._due = due
        if is_apart(task):
            task._at = self.instant_of(task, due)
        self.ready.push(task)
        self.signs.stirred = True
        if now > self.seen:
            self.seen = now
        if self._post_ready is not None:
            self._post_ready(EventKind.READY, now, task, due)

    def surface(self, now: Instant, wall: Instant, limit: int) -> bool:
        """Make ready what is due, in order. True when the batch was full, so that more may be due."""
        timeline, live, push, post = self.timeline, self.registry.live, self.ready.push, self._post_ready
        entries = timeline.pop_due(now, limit)
        find = live.get
        if entries and now > self.seen:  # before anything is ready: a worker that takes it looks at this
            self.seen = now
        for entry in entries:
            task = find(entry & SEQ_MASK)
            if task is None or task._entry != entry:
                continue  # an orphan
            task._entry = None
            timeline.live -= 1
            due: Instant = entry >> SEQ_BITS  # type: ignore[assignment]  # Instant() would cost 60 ns
            rule = task._rule
            more = task._more
            apart = task._wall or (more is not None and more.jitter_us)
            if apart or (rule is not None and not policies.runs_now(rule, due, now)):
                self._surface_one(task, task._due if apart else due, now, wall)
                continue
            task._due = due  # `_make_ready`, written out: a flood comes this way
            push(task)
            if post is not None:
                post(EventKind.READY, now, task, due)
        if entries:
            self.signs.stirred = True
        timeline.prune(live)
        return len(entries) >= limit

    def _surface_one(self, task: TaskRecord, due: Instant | None, now: Instant, wall: Instant) -> None:
        """An entry came up whose time may not have come (slewing made it early), or whose rule must be asked."""
        assert due is not None
        jitter = _jitter(task, due)
        reading = Instant((wall if task._wall else now) - jitter)  # what has come, had this fire not been put off
        if task._wall and due > reading:
            self.offset = wall - now
            self.place(task, due, now)
            return
        rule = task._rule
        if rule is None:
            self._make_ready(task, due, now)
        else:
            task._due = due  # it has no entry now
            # A rule that raises cannot tell a later fire. This one was planned, and runs; the error comes with the next
            planned = Plan(due)
            consult(self, task, rule, lambda: policies.on_due(rule, due, reading), self._on_due, now, planned)

    def _on_due(self, task: TaskRecord, plan: Plan, now: Instant) -> None:
        if plan.skipped is not None:
            history.note_skipped(self, task, plan.skipped, now)
        assert plan.due is not None
        if plan.due != task._due and self.instant_of(task, plan.due) > now:
            self.place(task, plan.due, now)  # it has come by the plan, and its own jitter puts it off
        else:
            self._make_ready(task, plan.due, now)

    def conclude(self, run: RunRecord, task: TaskRecord, outcome: Outcome) -> None:
        """Store how a run ended: the value first, since the state tells readers that it is there."""
        if task._rule is None and (task._more is None or task._more.end is None):
            task._value = outcome.value
        state = outcome.state
        if state is State.SUCCEEDED:
            move(run, state)
            post = self._post_succeeded
        else:
            run.error = outcome.error
            move(run, state, outcome.reason)
            post = self.post_end[state]
        if post is not None:
            post(KINDS[state], run.finished, task, run.due, outcome.reason, outcome.error, outcome.traceback)

    def discard(self, task: TaskRecord) -> None:
        """Keep all that the task holds until the lock is free, should it let go of it before."""
        self.trash.append(holdings(task))

    def retire(self, task: TaskRecord) -> None:
        """The task has ended: let go of what only a live one needs, and list it among the finished.

        Under the lock the caller keeps what it lets go of until the lock is free.
        """
        task._work = task._args = task._kwargs = task._rule = None
        registry = self.registry
        if task._seq in registry.live:
            # Listed first: whoever looks for it meanwhile finds it in one of the two.
            registry.finished.append(task if task._value is None or task._value is NOT_SET else registry.twin(task))
            registry.live.pop(task._seq, None)

    def settle(self, run: RunRecord, outcome: Outcome | None) -> None:
        """A run has ended: store how (None: that was done), and re-arm or end its task."""
        task = run.task
        now = run.finished
        assert now is not None
        if now > self.seen:
            self.seen = now
        if outcome is not None:
            self.conclude(run, task, outcome)
        rule, more = task._rule, task._more
        if more is not None and more.history is not None:
            more.history.append(run)
        elif rule is not None:
            history.remember(self, task, run)
        if rule is None:
            self.end(task, now)
            return
        due = run.due
        assert due is not None
        value = None if outcome is None else outcome.value
        if more is not None and more.runs_left is not None:
            more.runs_left -= 1
            if more.runs_left < 1 and more.update is None:
                more.end = (run.state, Reason.MAX_RUNS)
                task._value = value
                self.end(task, now)
                return
        if more is not None and more.update is not None:
            first = update.become(self, task, more.update)
            more.update = None
            if first is not None:  # another rule from now on: what it would have fired since is what this run missed
                self._ask_next(task, task._rule, Instant(first - 1), now, value)
                return
        jitter_us = 0 if more is None else more.jitter_us
        finished = Instant(now + self.offset) if task._wall else now
        following = policies.next_on_grid(rule, due, finished, jitter_us)
        if following is None:
            self._ask_next(task, rule, due, now, value)
        else:
            self.place(task, following, now)

    def _ask_next(self, task: TaskRecord, rule: Rule | None, due: Instant, now: Instant, value: Any) -> None:
        """Ask a recurring task's rule for the fire after `due`; `value` is its result should there be none."""
        assert rule is not None
        finished = Instant(now + self.offset) if task._wall else now
        jitter_us = 0 if task._more is None else task._more.jitter_us
        task._due = None  # while it is asked it has no next fire

        def planned(task: TaskRecord, plan: Plan, now: Instant) -> None:
            self.on_planned(task, plan, now, value)

        consult(self, task, rule, lambda: policies.after_run(rule, due, finished, jitter_us), planned, now)

    def on_planned(self, task: TaskRecord, plan: Plan, now: Instant, value: Any = None) -> None:
        """A recurring task knows its next fire: place it; without one it has ended as its last run did."""
        if plan.skipped is not None:
            history.note_skipped(self, task, plan.skipped, now)
        if plan.rule is not None:
            task._rule = plan.rule
        if plan.due is not None:
            self.place(task, plan.due, now)
            return
        if task._run is None:
            self.discard(task)
            self.end_unrun(task, State.SKIPPED, Reason.NO_NEXT_FIRE, now)
            return
        more_of(task).end = (task._run.state, Reason.NO_NEXT_FIRE)
        task._value = value
        self.end(task, now)

    def end(self, task: TaskRecord, now: Instant) -> None:
        """The task is terminal: its children are released or doomed, theirs too, by work list, never by recursion.

        What the task itself held is the caller's to keep until the lock is free.
        """
        todo = [task]
        for parent in todo:
            if parent is not task:
                self.discard(parent)
            self.retire(parent)
            more = parent._more
            if more is not None:
                more.when = None
                if more.update is not None:
                    self.trash.append(more.update)
                    more.update = None
                if more.waiters is not None:
                    for waiter in more.waiters:
                        waiter.ring()
                    more.waiters = None
            if parent._children:
                self._tell_children(parent, parent._children, now, todo)
        self.tidy()

    def tidy(self) -> None:
        """After an end: forget who is too many, and wake who waits for the last."""
        registry = self.registry
        if len(registry.finished) > registry.trim_above:
            registry.trim()
        if not registry.live:
            self.wake_idle()

    def _tell_children(self, parent: TaskRecord, kin: list[Any], now: Instant, todo: list[TaskRecord]) -> None:
        """Count the parent down in each child, and release or doom those that this decides."""
        end, waiting = graph.end_of(parent), self.waiting
        for place, child in enumerate(kin):
            kin[place] = child._seq if child._id is None else key_of(child)  # what has ended keeps no kin
            child._waiting -= 1  # exactly once a parent, whether or not the child was decided before (P4)
            child._seen |= end
            if child in waiting:
                if child._more is None and child._seen == policies.SUCCEEDED:  # the commonest: all is well
                    verdict = policies.WAIT if child._waiting else policies.RUN
                else:
                    verdict = policies.on_parent(run_if_of(child), child._seen, child._waiting)
                if verdict is not policies.WAIT:
                    self._decide(child, verdict, now, todo)

    def _decide(self, child: TaskRecord, verdict: Verdict, now: Instant, todo: list[TaskRecord]) -> None:
        """Do with a waiting child what its parents' ends say. A doomed one joins `todo`: its own children come next."""
        if verdict.skip is not None:
            self._unrun(child, State.SKIPPED, verdict.skip, now)
            todo.append(child)
            return
        self.waiting.discard(child)
        if child._more is not None and child._more.when is not None:
            self._bind(child, child._more.when, now)
        elif self.is_open:
            self._make_ready(child, now, now)
        else:
            self.place(child, now, now)

    def _bind(self, child: TaskRecord, rule: Rule, now: Instant) -> None:
        """A child's parents have let go: its rule counts from here, on the wall as it was when last looked at."""
        reading = Instant(now + self.offset) if child._wall else now
        consult(self, child, rule, lambda: policies.on_bind(rule, reading), self._on_bound, now)

    def _on_bound(self, task: TaskRecord, plan: Plan, now: Instant) -> None:
        """A child's rule was bound, its parents having let go."""
        assert task._more is not None
        if task._more.recurring:
            task._rule = plan.rule
        self.on_planned(task, Plan(plan.due), now)

    def _unrun(self, task: TaskRecord, state: State, reason: Reason, now: Instant, error: str | None = None) -> None:
        """End the task's plan without a run of its own: one record says so."""
        run = RunRecord(task, due_of(task), state)
        if task._entry is not None:
            self.unplace(task)
        else:
            self.waiting.discard(task)
            self.questions.drop(task)
        run.finished = now
        run.error = error
        run.reason = reason
        if task._rule is not None or task._more is not None:
            history.remember(self, task, run)
        task._run = run
        task._rule = None
        post = self.post_end[state]
        if post is not None:
            post(KINDS[state], now, task, run.due, reason, error)

    def end_unrun(
        self,
        task: TaskRecord,
        state: State,
        reason: Reason,
        now: Instant,
        error: str | None = None,
        value: Any = None,
    ) -> None:
        if value is not None:
            task._value = value
        self._unrun(task, state, reason, now, error)
        self.end(task, now)

    def unplace(self, task: TaskRecord) -> None:
        if task._entry is not None:
            task._entry = None
            timeline = self.timeline
            timeline.live -= 1
            timeline.prune(self.registry.live)

    def wake_idle(self) -> None:
        """No task lives: release those who wait for that."""
        waiters, self.idle_waiters = self.idle_waiters, []
        for waiter in waiters:
            waiter.ring()


def _jitter(task: TaskRecord, due: Instant) -> int:
    more = task._more
    if more is None or not more.jitter_us:
        return 0
    return policies.jitter_of(task.id, due, more.jitter_us)
