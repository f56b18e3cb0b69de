"""The machine in memory: what every verb does to timeline, wait set, ready queue and records. Pure.

Time is an argument. It knows no lock: `stores/memory.py` calls it under one. A task that is scheduled and not running
is in exactly one place (P1): in the timeline by its entry, in `waiting`, in the queue of its pool or its limit, in
`questions`, which counts as timeline, or held (`Special.hold`).

Its methods are those of several files: see the head of the class.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from heapq import heappush
from typing import Any

from tickless import policies
from tickless.core import attempts, crew, entering, graph, history, pauses, permits, plans, rounds, update
from tickless.core.permits import LimitState
from tickless.core.questions import Questions
from tickless.core.ready import PoolState, ReadyQueue
from tickless.core.record import (
    NOT_SET,
    SEQ_BITS,
    SEQ_MASK,
    RunRecord,
    Signs,
    TaskRecord,
    Waiter,
    holdings,
    is_apart,
    is_retrying,
    key_of,
    move,
    run_if_of,
)
from tickless.core.registry import Registry
from tickless.core.special import Hold, keeps_busy, special_in, special_of
from tickless.core.timeline import Alarm, Timeline
from tickless.instants import Instant
from tickless.policies import Limit, Pause, Verdict
from tickless.records import EventKind, Outcome
from tickless.states import DEFAULT_POOL, TERMINAL, Reason, State

FOREVER = Instant(1 << 100)
AWAKE = Instant(-FOREVER)
KINDS = {state: EventKind(state.value) for state in TERMINAL}
OTHERS = (EventKind.RETRY, EventKind.PAUSED, EventKind.RESUMED)

Post = Callable[..., None]


class Machine:
    """One per store. Every method is called under the store's lock, but for `conclude` and `retire` of a plain task."""

    def __init__(
        self,
        keep_finished: int,
        keep_runs: int,
        pools: Iterable[str] = (DEFAULT_POOL,),
        limits: Iterable[Limit] = (),
        keep_rounds: int = 20,
    ) -> None:
        self.timeline = Timeline()
        self.pools = {name: PoolState() for name in pools}
        self.ready = self.pools[DEFAULT_POOL].queue
        """What is ready for the default pool."""
        self.registry = Registry(keep_finished)
        self.keep_runs = keep_runs
        self.keep_rounds = keep_rounds
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
        """The number of the task, or the alarm, that came last."""
        self.limits = {limit.name: LimitState(self, limit) for limit in limits}
        self.pauses: dict[str | None, Pause] = {}
        """The pauses of tags, and of all (None)."""
        self.pause_ends: dict[pauses.Scope, pauses.PauseEnd] = {}
        """What ends a pause by itself, by its scope."""
        self.round_ends: dict[int, rounds.RoundEnd] = {}
        """What ends a round by itself, by its number."""
        self.is_open = False
        """True once started: what is due at once becomes ready at once, without a turn of the dispatcher."""
        self.is_closed = False
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
        self.post_scheduled = post if EventKind.SCHEDULED in wants else None
        self._post_ready = post if EventKind.READY in wants else None
        self.post_started = post if EventKind.STARTED in wants else None
        self.post_other = {kind: post for kind in OTHERS if kind in wants}

    def next_seq(self) -> int:
        self.seq += 1
        return self.seq

    ask_to_stop = rounds.ask_to_stop
    begin_round = rounds.begin
    begin_aside = rounds.begin_aside
    bind = plans.bind
    enter = entering.enter
    enter_many = entering.enter_many
    note = plans.note
    on_fire = plans.on_fire
    on_planned = plans.on_planned
    rearm = plans.rearm
    time_out = attempts.time_out

    def place(self, task: TaskRecord, due: Instant, now: Instant) -> None:
        """Give the task its time: in the timeline, or ready when its time has come and nothing is due before it.

        Who is paused, or waits for a zombie, is held instead.
        """
        special = None if task._more is None else task._more.special
        if special is None and not task._wall and not self.pauses:
            timeline = self.timeline
            if due <= now and self.is_open and timeline.would_be_first(due, task._seq):
                self.make_ready(task, due, now)
                return
            task._due = None
            task._entry = entry = due << SEQ_BITS | task._seq  # `push`, written out: every recurring run comes this way
            heappush(timeline.heap, entry)
            timeline.live += 1
            if due < self.wake_at:
                self.wake_for(due)
        elif self._is_held(task, due):
            pass
        elif due == now and task._rule is None and not is_apart(task) and self._may_go(task, due):
            self.make_ready(task, due, now)  # it cannot be late
        else:
            # Not ready at once: only `surface`, which is told the wall time exactly, may say what is to be done.
            task._due = due if is_apart(task) else None
            self.place_at(task, self.instant_of(task, due))

    def _may_go(self, task: TaskRecord, due: Instant) -> bool:
        return self.is_open and self.timeline.would_be_first(due, task._seq)

    def place_at(self, task: TaskRecord, at: Instant) -> None:
        """Put the task at that instant, which may not be its due."""
        task._entry = self.timeline.push(at, task._seq)
        if at < self.wake_at:
            self.wake_for(at)

    def _is_held(self, task: TaskRecord, due: Instant) -> bool:
        special = special_in(task)
        if special is not None and special.hold in (Hold.ZOMBIE, Hold.BUSY):
            task._due = Instant(due - 1)  # the last instant that is dealt with
            return True
        if pauses.pause_of(self, task) is None:
            return False
        task._due = due
        special_of(task).hold = Hold.FIRE
        return True

    def arm(self, alarm: Alarm, at: Instant) -> None:
        self.timeline.arm(alarm, at)
        if at < self.wake_at:
            self.wake_for(at)

    def reading(self, task: TaskRecord, now: Instant) -> Instant:
        """`now` on the clock that drives the task, as far as that was looked at."""
        return Instant(now + self.offset) if task._wall else now

    def instant_of(self, task: TaskRecord, due: Instant) -> Instant:
        """When a planned fire is to run, in `Clock.now()`, its jitter included."""
        at = due - self.offset if task._wall else due
        return Instant(at + plans.jitter_in(task, due))

    def wake_for(self, at: Instant) -> None:
        """The sleeper must be woken for this entry, and for no later one: it looks at all there is (P7)."""
        self.wake_at = at
        self.signs.earlier = self.signs.stirred = True

    def make_ready(self, task: TaskRecord, due: Instant, now: Instant) -> None:
        """Its time has come: it stands in a queue from now on, unless it is paused."""
        task._due = due
        special = None if task._more is None else task._more.special
        if special is not None or task._wall or self.pauses:
            queue = self._queue_for(task, due, now)
            if queue is None:
                return
            if special is not None and special.takes_turn:
                queue.push_first(task)
            else:
                queue.push(task)
        else:
            self.ready.push(task)
        self.signs.stirred = True
        if now > self.seen:
            self.seen = now
        if self._post_ready is not None:
            self._post_ready(EventKind.READY, now, task, due)

    def _queue_for(self, task: TaskRecord, due: Instant, now: Instant) -> ReadyQueue | None:
        """Where it stands when it becomes ready; None when it is held instead, being paused."""
        special = None if task._more is None else task._more.special
        if task._wall or (special is not None and special.policy.jitter_us):
            task._at = self.instant_of(task, due)
        if special is None:
            if self.pauses and pauses.pause_of(self, task) is not None:
                pauses.hold_ready(self, task, now)
                return None
            return self.ready
        may_be_paused = self.pauses or special.pause is not None or special.chief is not None
        if may_be_paused and not special.by_hand and pauses.pause_of(self, task) is not None:
            pauses.hold_ready(self, task, now)
            return None
        special.queue = None
        return permits.queue_for(self, special, now) if special.asks_at_due else self.ready

    def surface(self, now: Instant, wall: Instant, limit: int) -> bool:
        """Make ready what is due, in order. True when more may be due: the batch was full, or an alarm rang."""
        timeline, live, push, post = self.timeline, self.registry.live, self.ready.push, self._post_ready
        entries = timeline.pop_due(now, limit)
        find, rang = live.get, False
        if entries and now > self.seen:  # before anything is ready: a worker that takes it looks at this
            self.seen = now
        for entry in entries:
            task = find(entry & SEQ_MASK)
            if task is None or task._entry != entry:
                alarm = timeline.taken_alarm(entry)
                if alarm is not None:
                    alarm.ring(now, wall)
                    rang = True
                continue  # or it was an orphan
            task._entry = None
            timeline.live -= 1
            due: Instant = entry >> SEQ_BITS  # type: ignore[assignment]  # Instant() would cost 60 ns
            rule = task._rule
            more = task._more
            special = None if more is None else more.special
            asks = special is not None and (special.asks_at_due or special.attempts)
            if asks or task._wall or (rule is not None and not policies.runs_now(rule, due, now)):
                apart = task._wall or (special is not None and special.policy.jitter_us)
                plans.surface_one(self, task, task._due if apart else due, now, wall)
                continue
            task._due = due  # `_make_ready`, written out: a flood comes this way
            push(task)
            if post is not None:
                post(EventKind.READY, now, task, due)
        if entries:
            self.signs.stirred = True
        timeline.prune(live)
        return rang or len(entries) >= limit

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
        more = task._more
        if more is not None and (more.round is not None or (more.special is not None and more.special.unlisted)):
            registry.put_aside(task)
            registry.live.pop(task._seq, None)
        elif task._seq in registry.live:
            # Listed first: whoever looks for it meanwhile finds it in one of the two.
            registry.finished.append(task if task._value is None or task._value is NOT_SET else registry.twin(task))
            registry.live.pop(task._seq, None)

    def settle(self, run: RunRecord, outcome: Outcome | None) -> None:
        """A worker has returned from a run: store how it ended (None: that was done), unless it is tried again."""
        extra, finished = run.extra, run.finished
        if extra is not None and extra.returned is not None and outcome is not None:
            finished = extra.returned
            if extra.time_out is not None:
                attempts.unwatch(self, extra)
                if finished >= extra.deadline:  # and nobody came to say so: its own thread may be all there is
                    attempts.time_out(self, run, finished)
            if extra.zombie:
                attempts.come_back(self, run, outcome, finished)
                return
            run.finished = finished
        task = run.task
        special = None if task._more is None else task._more.special
        if special is not None and outcome is not None and finished is not None:
            if special.round is not None and rounds.opens(self, run, outcome, finished):
                return
            if special.permit:
                permits.give_back(self, special, finished, started=run.started is not None)
            if outcome.state is State.FAILED and attempts.begins_again(self, run, special, outcome, finished):
                return
        self.settle_end(run, outcome)

    def settle_end(self, run: RunRecord, outcome: Outcome | None) -> None:
        """A run has ended for good: store how, and re-arm or end its task."""
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
        special = None if more is None else more.special
        if special is not None and (
            run.state is not State.SUCCEEDED or special.attempts or special.failures or special.by_hand or special.chief
        ):
            by_hand = special.by_hand
            attempts.finished(self, task, run, special, now)
        else:
            by_hand = False
        if rule is None:
            self.end(task, now)
            return
        due = run.due
        assert due is not None
        value = None if outcome is None else outcome.value
        if more is not None and more.runs_left is not None and run.state is not State.SKIPPED:
            more.runs_left -= 1
            if more.runs_left < 1 and (more.update is None or update.is_spent(more.update)):
                more.end = (run.state, Reason.MAX_RUNS)
                task._value = value
                self.end(task, now)
                return
        if run.extra is not None and keeps_busy(run):
            special_of(task).hold = Hold.ZOMBIE
            task._due, task._value = due, value
            return
        jitter_us, is_on_grid = 0, more is None or more.update is None
        if special is not None:
            jitter_us = special.policy.jitter_us
            is_on_grid = is_on_grid and special.until is special.since is special.planned is None and not by_hand
        if is_on_grid:
            finished = Instant(now + self.offset) if task._wall else now
            following = policies.next_on_grid(rule, due, finished, jitter_us)
            if following is not None:
                self.place(task, following, now)
                return
        self.rearm(task, due, now, value)

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
                special = more.special
                if special is not None:
                    special.hold = None
                    if special.pause is not None:
                        pauses.forget_end(self, parent)
                    if special.chief is not None:
                        crew.left(self, parent, now)
            if parent._children:
                self._tell_children(parent, parent._children, now, todo)
            if more is not None and more.round is not None:
                rounds.left(self, more.round, parent, now)
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
                    self.decide(child, verdict, now, todo)

    def decide(self, child: TaskRecord, verdict: Verdict, now: Instant, todo: list[TaskRecord]) -> None:
        """Do with a waiting child what its parents' ends say. A doomed one joins `todo`: its own children come next."""
        if verdict.skip is not None:
            self._unrun(child, State.SKIPPED, verdict.skip, now)
            todo.append(child)
            return
        self.waiting.discard(child)
        if child._more is not None and child._more.when is not None:
            plans.bind(self, child, child._more.when, now)
        elif self.is_open:
            self.make_ready(child, now, now)
        else:
            self.place(child, now, now)

    def _unrun(self, task: TaskRecord, state: State, reason: Reason, now: Instant, error: str | None = None) -> None:
        """End the task's plan without a run of its own: one record says so, or that of the attempts there were."""
        run = task._run if is_retrying(task) else None
        if run is None:
            run = RunRecord(task, plans.to_come(task), state)
            run.reason = reason
        else:
            move(run, state, reason)
        if task._entry is not None:
            self.unplace(task)
        else:
            self.waiting.discard(task)
            self.questions.drop(task)
        run.finished = now
        run.error = error
        if task._rule is not None or task._more is not None:
            history.remember(self, task, run)
        task._run = run
        task._rule = None
        if task._more is not None and task._more.special is not None:
            permits.give_back(self, task._more.special, now, started=False)
            attempts.finished(self, task, run, task._more.special, now)
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
