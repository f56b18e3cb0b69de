"""The machine in memory: what every verb does to timeline, wait set, ready queue and records. Pure: time is an argument.

It knows no lock: `stores/memory.py` calls it under one. A task that is scheduled and not running is in exactly one place
(P1): in the timeline by its entry, in `waiting`, in `ready`, or in `asking`, which counts as timeline.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from tickless import policies
from tickless.core import graph
from tickless.core.ready import ReadyQueue
from tickless.core.record import RunRecord, TaskRecord, Waiter, ended, more_of, move
from tickless.core.registry import Registry
from tickless.core.timeline import SEQ_BITS, SEQ_MASK, Timeline
from tickless.errors import RuleError
from tickless.instants import Instant
from tickless.policies import Plan, Skipped, Verdict
from tickless.records import EventKind, Outcome
from tickless.rules import Rule, checked_next, is_ours
from tickless.states import MOVES, Cancelled, Exists, Reason, State

REPEAT_US = 3 * 3600 * 1_000_000
"""A wall clock that is set back by less than this never fires an occurrence again."""
FOREVER = Instant(1 << 100)
AWAKE = Instant(-FOREVER)
KINDS = {state: EventKind(state.value) for state, moves in MOVES.items() if not moves}

Post = Callable[..., None]
Question = Callable[[], Plan]
Then = Callable[[TaskRecord, Plan, Instant], None]


class Machine:
    """One per store. Every method is called under the store's lock, but for `conclude` and `retire` of a plain task."""

    def __init__(self, post: Post | None, wants: frozenset[EventKind], keep_finished: int, keep_runs: int) -> None:
        self.timeline = Timeline()
        self.ready = ReadyQueue()
        self.registry = Registry(keep_finished)
        self.keep_runs = keep_runs
        self.waiting: set[TaskRecord] = set()
        """The wait set: tasks with unfinished parents."""
        self.asking: set[TaskRecord] = set()
        """Tasks whose custom rule is being asked, outside the lock, when they fire next."""
        self.asks: deque[tuple[TaskRecord, Question, Then, Instant]] = deque()
        """The questions themselves."""
        self.idle_waiters: list[Waiter] = []
        self.is_open = False
        """True once started: what is due at once becomes ready at once, without a turn of the dispatcher."""
        self.earlier = False
        """Set when the earliest entry became earlier than what the dispatcher sleeps for: ring, then clear."""
        self.wake_at = AWAKE
        self.seen = AWAKE
        """The latest instant that anything became ready at."""
        self.offset = 0
        """wall - now, as it was when it was last looked at."""
        self.listen(post, wants)

    def listen(self, post: Post | None, wants: frozenset[EventKind]) -> None:
        """An event that nobody wants is never built: one test for None on the hot path."""
        self._post_end = {state: post if kind in wants else None for state, kind in KINDS.items()}
        self.post_scheduled = post if EventKind.SCHEDULED in wants else None
        self._post_ready = post if EventKind.READY in wants else None
        self.post_started = post if EventKind.STARTED in wants else None
        self._post_succeeded = self._post_end[State.SUCCEEDED]

    def settle_in(self, task: TaskRecord, now: Instant) -> None:
        """Put a new task where it belongs: the wait set, the ready queue or the timeline."""
        more = task.more
        if more is None or not more.parents:
            self._place(task, task.due, now)
            return
        graph.link(task, more)
        self.waiting.add(task)
        self._decide(task, policies.on_parent(more.run_if, more.seen, more.waiting), now)

    def settle_in_many(self, tasks: Sequence[TaskRecord], now: Instant) -> None:
        """As `settle_in` for each, but one heapify for the plain ones."""
        entries: list[int] = []
        for task in tasks:
            due = task.due
            if task.more is None and due is not None and due > now and not task.wall:
                task.entry = (due << SEQ_BITS) | task.seq
                entries.append(task.entry)
            else:
                self.settle_in(task, now)
        if entries:
            self.timeline.extend(entries)
            if min(entries) >> SEQ_BITS < self.wake_at:
                self.earlier = True

    def settle_namesake(self, new: TaskRecord, exists: Exists, now: Instant) -> TaskRecord | None:
        """The listed task that has the id of `new` already: kept, updated in place, or (None) out of the way.

        An update leaves an unchanged rule its next fire and its history. A task that is running once, that waits for
        parents, or that has ended is not changed under its run: it makes room, and ends under its own handle.
        """
        self.registry.trim()
        there = None if new.id is None else self.registry.named.get(new.id)
        if there is None or exists == "keep":
            return there
        busy = there.run is not None and bool(MOVES[there.run.state])
        once = there.rule is None or new.rule is None
        if ended(there) or there in self.waiting or new.more is not None or (busy and once):
            if new.more is not None:
                self.registry.check_parents(new)
            self.cancel(there, now, Reason.REPLACED, ask=False)
            del self.registry.named[there.id or ""]
            return None
        if busy:
            more_of(there).update = new  # not under the run: a worker may be reading the work and its arguments
        else:
            self._become(there, new)
            if there.entry is None and there not in self.asking:
                self._place(there, new.due, now)
        return there

    def _become(self, there: TaskRecord, new: TaskRecord) -> None:
        """Update a task that no run holds; one whose rule changed gives up its place."""
        there.work, there.args, there.kwargs = new.work, new.args, new.kwargs
        there.name, there.priority = new.name, new.priority
        if there.rule is None or new.rule is None or not policies.same_rule(there.rule, new.rule):
            there.rule, there.wall = new.rule, new.wall
            self.asking.discard(there)
            self._unplace(there)

    def _place(self, task: TaskRecord, due: Instant | None, now: Instant) -> None:
        """Give the task its time: in the timeline, or ready when its time has come and nothing is due before it."""
        if due is None:
            due = now
        task.due = due
        if task.wall:
            # Never ready at once: only `due`, which is told the wall time exactly, may say that it has come.
            at = Instant(due - self.offset)
        else:
            at = due
            if at <= now and self.is_open:
                heap = self.timeline.heap
                if not heap or (at << SEQ_BITS) | task.seq < heap[0]:
                    self._make_ready(task, due, now)
                    return
        task.entry = self.timeline.push(at, task.seq)
        if at < self.wake_at:
            self.earlier = True

    def _make_ready(self, task: TaskRecord, due: Instant, now: Instant) -> None:
        run = task.run = RunRecord(task, due)
        move(run, State.READY)
        self.ready.push(run, task.priority)
        if now > self.seen:
            self.seen = now
        if self._post_ready is not None:
            self._post_ready(EventKind.READY, now, task, due)

    def surface(self, task: TaskRecord, now: Instant, wall: Instant) -> None:
        """An entry came up: its time has come, unless slewing made a wall entry early."""
        due = task.due
        assert due is not None
        reading = now
        if task.wall:
            if due > wall:
                self.offset = wall - now
                self._place(task, due, now)
                return
            reading = wall
        rule = task.rule
        if rule is None:
            self._make_ready(task, due, now)
        else:
            self._consult(task, rule, lambda: policies.on_due(rule, due, reading), self._on_due, now)

    def _on_due(self, task: TaskRecord, plan: Plan, now: Instant) -> None:
        if plan.skipped is not None:
            self._note_skipped(task, plan.skipped, now)
        assert plan.due is not None
        self._make_ready(task, plan.due, now)

    def on_step(self, offset: int, wall: Instant) -> None:
        """The wall clock was set: re-place what it drives. Set back by hours, recurring tasks plan anew from there."""
        back = self.offset - offset
        self.offset = offset
        for task in list(self.registry.live.values()):
            if not task.wall or task.entry is None:
                continue
            self._unplace(task)
            rule, due = task.rule, task.due
            assert due is not None
            now = Instant(wall - offset)
            if rule is not None and back >= REPEAT_US:
                self._consult(task, rule, lambda rule=rule: Plan(checked_next(rule, wall)), self._on_planned, now)
            else:
                self._place(task, due, now)

    def conclude(self, run: RunRecord, outcome: Outcome) -> None:
        """Store how a run ended: the value first, since the state tells readers that it is there."""
        state, value, reason, error, traceback = outcome
        task = run.task
        run.error = error
        cell = task.cell
        if cell is not None and task.rule is None:
            cell._value = value
        move(run, state, reason)
        post = self._post_succeeded if state is State.SUCCEEDED else self._post_end[state]
        if post is not None:
            post(KINDS[state], run.finished, task, run.due, reason, error, traceback)

    def retire(self, task: TaskRecord) -> None:
        """The task has ended: let go of what only a live one needs, and list it among the finished."""
        task.cell = task.work = task.args = task.kwargs = task.rule = None
        self.registry.retire(task)

    def settle(self, run: RunRecord, outcome: Outcome | None) -> None:
        task = run.task
        now = run.finished
        assert now is not None
        if now > self.seen:
            self.seen = now
        if outcome is not None:
            self.conclude(run, outcome)
        self._remember(task, run)
        if task.rule is None:
            self._end(task, now)
            return
        if task.more is not None and task.more.update is not None:
            self._become(task, task.more.update)
            task.more.update = None
        rule = task.rule
        due = run.due
        assert due is not None
        finished = Instant(now + self.offset) if task.wall else now
        value = None if outcome is None else outcome.value
        self._consult(
            task,
            rule,
            lambda: policies.after_run(rule, due, finished),
            lambda task, plan, now: self._on_planned(task, plan, now, value),
            now,
        )

    def _on_planned(self, task: TaskRecord, plan: Plan, now: Instant, value: Any = None) -> None:
        """A recurring task knows its next fire: place it; without one it has ended as its last run did."""
        if plan.skipped is not None:
            self._note_skipped(task, plan.skipped, now)
        if plan.rule is not None:
            task.rule = plan.rule
        if plan.due is not None:
            self._place(task, plan.due, now)
            return
        if task.run is None:
            self._end_unrun(task, State.SKIPPED, Reason.NO_NEXT_FIRE, now)
            return
        more_of(task).end = (task.run.state, Reason.NO_NEXT_FIRE)
        if task.cell is not None:
            task.cell._value = value
        self._end(task, now)

    def _consult(self, task: TaskRecord, rule: Rule, question: Question, then: Then, now: Instant) -> None:
        """Ask a rule: ours here and now, a user's own once the lock is free, since its code is foreign."""
        if not is_ours(rule):
            self.asking.add(task)
            self.asks.append((task, question, then, now))
            return
        try:
            plan = question()
        except RuleError as error:
            self.broken_rule(task, error, now)
        else:
            then(task, plan, now)

    def answered(self, task: TaskRecord, plan: Plan | BaseException, then: Then, now: Instant) -> None:
        """A custom rule has answered, or raised. Nothing is done if the task was cancelled or replaced meanwhile."""
        if task not in self.asking:
            return
        self.asking.discard(task)
        if isinstance(plan, BaseException):
            self.broken_rule(task, plan, now)
        else:
            then(task, plan, now)

    def broken_rule(self, task: TaskRecord, error: BaseException, now: Instant) -> None:
        """The rule raised or lied. Its own task ends, visibly; the others go on."""
        failure = RuleError(f"task {task.public_id}: its rule could not tell the next fire: {error}")
        self._end_unrun(task, State.FAILED, Reason.RULE, now, str(failure), failure)

    def _end(self, task: TaskRecord, now: Instant) -> None:
        """The task is terminal: its children are released or doomed, theirs too, by work list and never by recursion."""
        todo = deque([task])
        while todo:
            parent = todo.popleft()
            more = parent.more
            if parent.seq in self.registry.live:
                self.retire(parent)
            if more is None:
                continue
            for waiter in more.waiters:
                waiter.ring()
            more.waiters = []
            for child in more.children:
                verdict = graph.let_go(parent, child)
                if child in self.waiting:
                    self._decide(child, verdict, now, todo)
            graph.forget_links(parent)
        if not self.registry.live:
            self.wake_idle()

    def _decide(self, child: TaskRecord, verdict: Verdict, now: Instant, todo: deque[TaskRecord] | None = None) -> None:
        """Do with a waiting child what its parents' ends say. A doomed one joins `todo`, if there is such a list."""
        if verdict.skip is not None:
            self._unrun(child, State.SKIPPED, verdict.skip, now)
            if todo is None:
                self._end(child, now)
            else:
                todo.append(child)
        elif verdict.run:
            self.waiting.discard(child)
            more = child.more
            assert more is not None
            rule = more.when
            if rule is None:
                if self.is_open:
                    self._make_ready(child, now, now)
                else:
                    self._place(child, now, now)
                return
            reading = Instant(now + self.offset) if child.wall else now
            self._consult(child, rule, lambda: policies.on_bind(rule, reading), self._on_bound, now)

    def _on_bound(self, task: TaskRecord, plan: Plan, now: Instant) -> None:
        """A child's rule was bound, its parents having let go."""
        assert task.more is not None
        if task.more.recurring:
            task.rule = plan.rule
        self._on_planned(task, Plan(plan.due), now)

    def _unrun(self, task: TaskRecord, state: State, reason: Reason, now: Instant, error: str | None = None) -> None:
        """End the task's plan without a run of its own: one record says so."""
        self._unplace(task)
        self.waiting.discard(task)
        self.asking.discard(task)
        run = RunRecord(task, task.due)
        run.finished = now
        run.error = error
        move(run, state, reason)
        self._remember(task, run)
        task.run = run
        task.rule = None
        post = self._post_end[state]
        if post is not None:
            post(KINDS[state], now, task, run.due, reason, error)

    def _end_unrun(
        self,
        task: TaskRecord,
        state: State,
        reason: Reason,
        now: Instant,
        error: str | None = None,
        value: Any = None,
    ) -> None:
        if task.cell is not None and value is not None:
            task.cell._value = value
        self._unrun(task, state, reason, now, error)
        self._end(task, now)

    def _note_skipped(self, task: TaskRecord, skipped: Skipped, now: Instant) -> None:
        """One record for all the fires that did not run."""
        run = RunRecord(task, skipped.first)
        run.finished = now
        run.fires = (skipped.fires, skipped.last)
        move(run, State.SKIPPED, skipped.reason)
        self._remember(task, run)
        post = self._post_end[State.SKIPPED]
        if post is not None:
            post(EventKind.SKIPPED, now, task, run.due, skipped.reason, None, None, skipped.fires)

    def _remember(self, task: TaskRecord, run: RunRecord) -> None:
        if task.rule is None and (task.more is None or task.more.history is None):
            return  # a one-shot: its only run is `task.run`
        more = more_of(task)
        if more.history is None:
            more.history = deque(maxlen=self.keep_runs)
        more.history.append(run)

    def _unplace(self, task: TaskRecord) -> None:
        if task.entry is not None:
            task.entry = None
            self.timeline.orphan(self.lives)

    def lives(self, entry: int) -> bool:
        task = self.registry.live.get(entry & SEQ_MASK)
        return task is not None and task.entry == entry

    def cancel(self, task: TaskRecord, now: Instant, reason: Reason, *, ask: bool = True) -> Cancelled:
        """Take the task's future away; what already runs is asked to stop, or with `ask=False` left to end."""
        if ended(task):
            return Cancelled.TOO_LATE
        run = task.run
        if run is None or not MOVES[run.state]:
            self._end_unrun(task, State.CANCELLED, reason, now)
            return Cancelled.CANCELLED
        if self.ready.claim(run, task.priority):
            run.finished = now
            self.conclude(run, Outcome(State.CANCELLED, reason=reason))
            self._remember(task, run)
            if task.rule is not None:
                task.rule = None
            self._end(task, now)
            return Cancelled.CANCELLED
        if ended(task):  # a worker ended it meanwhile
            return Cancelled.TOO_LATE
        if ask:
            self.ask_to_stop(run)
        if task.rule is not None:
            self.no_more_fires(task, reason)
        return Cancelled.ASKED

    def no_more_fires(self, task: TaskRecord, reason: Reason) -> None:
        """A recurring task that runs has no more fires at once, and is CANCELLED when its run ends."""
        task.rule = None
        more = more_of(task)
        more.end = (State.CANCELLED, reason)
        if more.history is None:
            more.history = deque(maxlen=self.keep_runs)

    def ask_to_stop(self, run: RunRecord) -> None:
        if run.stop is None:
            run.stop = True
        elif run.stop is not True:
            run.stop.set()

    def wake_idle(self) -> None:
        """Called with and without the lock; each waiter is released once."""
        while self.idle_waiters:
            try:
                waiter = self.idle_waiters.pop()
            except IndexError:
                return
            waiter.ring()
