"""The runs of this process: taken in groups, begun without a transaction, ended with the next one. And those of others.

A run is this process's while its row has this process's number and the token with which it was taken: the fence. What
is written for any other token is refused, whoever says it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tickless.core import attempts
from tickless.core.record import RunRecord, TaskRecord
from tickless.core.special import is_open_round, policy_of, special_in
from tickless.core.stopping import ask_to_stop, is_to_stop, set_stop
from tickless.errors import PayloadError, shown
from tickless.instants import Instant
from tickless.records import EventKind, Outcome
from tickless.states import DEFAULT_POOL, Reason, State
from tickless.stores.payloads import encode
from tickless.stores.sql import failpoints, rescue
from tickless.stores.sql.calls import StoredCall
from tickless.stores.sql.rows import GIVES_RESULT, Loaded
from tickless.stores.sql.session import ASK, Session
from tickless.stores.sql.zombies import Zombies

if TYPE_CHECKING:
    from tickless.stores.sql.company import Company

FLUSH_US = 10_000
"""A run's end is committed so soon, whatever else goes on."""
STUCK_US = 50_000
"""For so long what was taken ahead waits behind runs that turn out to be long; then others may have it."""
GROUP_US = 20_000
"""For about so long the runs last that are taken at once: one that waits here is not to be had for other processes."""
MOST_RESULT = 1 << 20
"""How many bytes of a result are kept for the children that take it."""
SLEPT = Outcome(State.FAILED, None, Reason.CRASHED)
"""Why a run does not begin whose lease has ended before it did: this process has stood still."""
Said = tuple[RunRecord, Outcome, Instant, TaskRecord | None]
"""What a worker has to say: how a run ended, and when; and whose it was then, which one that is undone may change."""


class Claims:
    """`pools`: how many slots each has. Called under the store's lock, but for `take`, `finish` and what they say."""

    def __init__(
        self,
        session: Session,
        pools: Mapping[str, int],
        most_group: int,
        lease_us: int,
        keep: Callable[[Any], Any],
        results: bool,
    ) -> None:
        self._session = session
        self._machine = session.machine
        session.is_own = self._is_own
        self._slots = dict(pools)
        """Pool -> how many runs it may have; none where it takes nothing any more."""
        self._most_group = most_group
        self._keep = keep
        """The form of a result that has none: in tests only."""
        self._results = results
        """Whether results are kept that no child takes."""
        self.lease_us = lease_us
        self.rescue = rescue.Rescue(session, self)
        self.claimed: Callable[[], None] | None = None
        """Called when this process has runs, so that somebody renews their leases."""
        self.company: Company
        self.is_closed = False
        self.finished: deque[Said] = deque()
        """What workers have said, and nobody has written."""
        self.flush_at: int | None = None
        """When it must be."""
        self.ready: dict[str, int] = {}
        """Queue -> how many runs stand in it, as far as was counted."""
        self._tokens: dict[int, int] = {}
        """Task -> the token with which this process runs it."""
        self._local: dict[str, deque[RunRecord]] = {name: deque() for name in pools}
        """Pool -> runs that were taken, and wait for a worker of this process."""
        self._group = dict.fromkeys(pools, 1)
        self._taken_at: dict[str, int] = dict.fromkeys(pools, 0)
        self._leases: dict[int, int] = {}
        """Task -> until when this process may be silent of it."""
        self._given: list[tuple[str, RunRecord]] = []
        """What this transaction gives back."""
        self._renewed: dict[int, int] = {}
        """Task -> until when this process may be silent of it, once this transaction is committed."""
        self._zombies = Zombies(session)
        self._taken: list[tuple[str, RunRecord]] = []
        """What this transaction has taken: no worker may have it before the commit."""
        self.stuck_us = STUCK_US
        self.begun_at = 0
        """When a worker of this process began a run."""
        self._look_at = 0
        self._waits = False
        """Whether it was found that those that are due can wait until then."""
        self._left = 0
        """How many of those that were taken ahead were left when that was last looked at."""
        self.more = False
        """Whether more is due that only waits for its turn."""
        self._returned: dict[int, None] = {}
        """The tasks whose runs go on here no more, once this transaction is committed."""
        self._texts: dict[RunRecord, str | PayloadError] = {}
        """Results that were made texts before the lock was asked for."""
        self._losses: set[RunRecord] = set()
        """Runs that go on here, and are another's now."""

    # Taking

    @property
    def pools(self) -> Iterable[str]:
        return self._local

    def local(self, pool: str) -> deque[RunRecord]:
        return self._local[pool]

    def may_have(self, pool: str) -> int:
        """How many runs are there for that pool, as far as is known without a question."""
        if self.is_closed or not self._slots[pool]:
            return 0
        count = len(self._local[pool]) + self.ready.get(f"pool:{pool}", 0)
        return count + self._most_group if self.more and pool == DEFAULT_POOL else count

    def has_room(self, pool: str) -> bool:
        """Whether runs may be taken ahead for a worker of this process that is free."""
        if self._most_group == 1:
            return False
        self.let_go()
        own_runs = self._session.own_runs.items()
        return self._slots[pool] > sum(
            policy_of(run.task).pool == pool for seq, run in own_runs if seq not in self._returned
        )

    def shut(self, pool: str, run: RunRecord | None) -> None:
        """That pool takes nothing any more, nor this run, which was taken for it: it is to be given back."""
        self._slots[pool] = 0
        if run is not None:
            self._local[pool].append(run)

    @property
    def stuck_at(self) -> int | None:
        """When what was taken ahead is given back, if no worker begins any of it until then. None: nothing waits."""
        return self.begun_at + self.stuck_us if any(self._local.values()) else None

    @property
    def served_until(self) -> int:
        """Until when workers are at those that are due: they will take the next ones themselves, so nobody else need
        look. Not for longer than a moment: a worker may be busy for hours.
        """
        return self._look_at if self._local[DEFAULT_POOL] or self._waits else 0

    def can_wait(self, now: Instant) -> bool:
        """Whether workers have begun some of what was taken ahead, and only such are due as they take next: then these
        need not be written down as ready before. Asked in a transaction.
        """
        left, before = len(self._local[DEFAULT_POOL]), self._left
        self._left = left
        self._waits = self.more and left < before and not self._is_apart_due(now)
        if self._waits:
            self._look_at = now + FLUSH_US
        return self._waits

    def _is_apart_due(self, now: Instant) -> bool:
        return self._session.db.execute(ASK.apart_due, (now,)).fetchone() is not None

    def take(self, pool: str, now: Instant) -> int:
        """Take as many runs as there is room for, now RUNNING; in a transaction. Gives how many."""
        machine, session, lane = self._machine, self._session, f"pool:{pool}"
        if any(of == pool for of, _ in self._taken):  # another worker's request came first
            return len(self._taken)
        room = self._room(pool, now)
        self.let_go()  # before it is written: else each row of what has ended is written twice
        session.flush()
        queue = machine.pools[pool].queue
        found = []
        if self.ready.get(lane, 1):
            ready = "WHERE lane = ? AND trouble IS NULL ORDER BY priority DESC, turn LIMIT ?"
            found, bad = session.select(ready, (lane, room)), 0
            while not found and bad < session.bad:  # those that were found cannot be used, and are set aside now
                bad, found = session.bad, session.select(ready, (lane, room))
        if found:
            session.see_lower(lane, found[-1].task._priority)
            session.put_in_order(queue)
        elif pool == DEFAULT_POOL and not queue.claims:
            self.surface(now, room)
        if not queue.claims:
            self.ready[lane] = 0
            return 0
        started = now if now > machine.seen else machine.seen
        taken, held = 0, []
        while taken < room:
            task = queue.take()
            if task is None:
                break
            if rescue.has_crashed(task) and any(rescue.has_crashed(run.task) for run in session.own_runs.values()):
                held.append(task)
                continue
            run = self._start(task, started)
            if run is not None:
                taken += 1
                self._taken.append((pool, run))
        for task in held:
            queue.push(task)
        if held and not taken:
            self.ready[lane] = 0  # until the other one has ended
        return taken

    def surface(self, now: Instant, room: int) -> None:
        """Make ready as many of those that are due as are taken at once, where they are all alike: first come, first
        served. So a flood is not written down twice.
        """
        session = self._session
        self.more = False
        if self._most_group == 1 or self._is_apart_due(now):
            return
        found = session.select_due(now, room)
        self._machine.surface(now, Instant(now + self._machine.offset), room)
        self.more = found >= room

    def _room(self, pool: str, now: Instant) -> int:
        """As many as there are free slots; or as will have begun in some 20 ms, judging by the last group."""
        before, lasted = self._group[pool], max(1, now - self._taken_at[pool])
        free = max(1, self._slots[pool] - len(self._session.own_runs))
        self._group[pool] = room = min(max(free, min(before * GROUP_US // lasted, before * 2)), self._most_group)
        self._taken_at[pool] = now
        if pool == DEFAULT_POOL:
            self._look_at, self._waits = now + FLUSH_US, False
        return room

    def _start(self, task: TaskRecord, started: Instant) -> RunRecord | None:
        """The run of a task that was taken from its queue; None when it is too late for it."""
        machine, session = self._machine, self._session
        loaded, special = session.adopt(task), special_in(task)
        run: RunRecord | None
        if special is not None and (special.asks_at_start or special.attempts or special.by_hand):
            run = attempts.begin(machine, task, special, started)
            if run is None:
                return None
        else:
            run = RunRecord(task, task._due, State.RUNNING)
            run.started = started
            if task._wall:
                run.at = task._at
            task._run = run
        loaded.owner, loaded.token, loaded.lease = self.company.number, loaded.token + 1, started + self.lease_us
        self._returned.pop(task._seq, None)  # it has ended in this transaction, and begins again
        session.own_runs[task._seq] = run
        self._tokens[task._seq] = loaded.token
        self._leases[task._seq] = loaded.lease
        if task._more is not None and task._more.outputs and type(task._work) is StoredCall:
            task._work.ends, task._work.found = session.ends_of(task), None  # not as at the attempt before
        if machine.post_started is not None:
            machine.post_started(EventKind.STARTED, started, task, run.due)
        return run

    def hindrance(self, run: RunRecord, now: Instant) -> Outcome | PayloadError | None:
        """Why a run that was taken does not begin: it has ended so; or it cannot be called. None: it begins.

        Outside the lock: to look its work up is foreign code.
        """
        if is_to_stop(run):
            return Outcome(State.CANCELLED, None, Reason.CANCELLED)
        seq = run.task._seq
        if self._leases.get(seq, 0) <= now or self._session.own_runs.get(seq) is not run:
            return SLEPT  # it may be another's by now, or has been taken here once more
        call = run.task._work
        if type(call) is StoredCall and call.found is None:
            try:
                call.find(call.ends)
            except PayloadError as problem:
                return problem
            except Exception as problem:  # noqa: BLE001 - a class of the user's did not take what was stored of it
                return PayloadError(f"its arguments cannot be made: {shown(problem)}")
        return None

    def time_from(self, run: RunRecord, now: Instant) -> None:
        """Its timeout counts from now."""
        extra, timeout_us = run.extra, policy_of(run.task).timeout_us
        if extra is not None and extra.time_out is not None and timeout_us is not None:
            extra.deadline = Instant(now + timeout_us)
            self._machine.timeline.arm(extra, extra.deadline)

    def put_back(self, run: RunRecord, why: str | None) -> None:
        """A run that was taken does not begin: it is ready again; `why`: its row says why nobody takes it."""
        loaded = self._session.load(run.task._seq)
        if loaded is None or not self.is_mine(loaded, run):
            if self._session.own_runs.get(run.task._seq) is run:
                self._returned[run.task._seq] = None
            return
        self._give_back(loaded)
        self.let_go()
        self._session.flush()
        if why is not None:
            self._session.set_aside(loaded.task._seq, why)

    def give_back_all(self) -> None:
        """What was taken and has not begun is ready again."""
        for pool, local in self._local.items():
            while local:
                run = local.popleft()
                self._given.append((pool, run))
                loaded = self._session.load(run.task._seq)
                if loaded is not None and self.is_mine(loaded, run):
                    self._give_back(loaded)

    def _give_back(self, loaded: Loaded) -> None:
        task, machine = loaded.task, self._machine
        run, special = task._run, special_in(task)
        if run is not None and run.extra is not None and run.extra.time_out is not None:
            attempts.unwatch(machine, run.extra)
        queue = machine.pools[policy_of(task).pool].queue
        if special is not None:
            special.queue = None if queue is machine.ready else queue
            if special.permit:
                machine.limits[special.policy.limit or ""].reserved += 1
        queue.push(task)

    # Ending

    def finish(self, run: RunRecord, outcome: Outcome, now: Instant) -> bool:
        """A worker says how its run ended. True when that is to be written at once: nothing else will soon."""
        task = getattr(run, "task", None)
        pool = DEFAULT_POOL if task is None else policy_of(task).pool
        kept = None if task is None else self._session.kept.get(task._seq)
        is_wanted = self._results or (kept is not None and kept.kin & GIVES_RESULT)
        if is_wanted and outcome.state is State.SUCCEEDED:
            self._texts[run] = self._text(run, outcome)
        failpoints.reach("finish.before")
        self.finished.append((run, outcome, now, task))
        failpoints.reach("finish.after")
        if self._local[pool]:
            if self.flush_at is None:
                self.flush_at = now + FLUSH_US
                self._machine.signs.earlier = self._machine.signs.stirred = True
            return now >= self.flush_at
        return not self.may_have(pool)

    def _text(self, run: RunRecord, outcome: Outcome) -> str | PayloadError:
        try:
            return encode(outcome.value, f"the result of task {run.task.id}", self._keep, MOST_RESULT)
        except PayloadError as problem:
            return problem

    def take_said(self) -> list[Said]:
        """What workers have said until now."""
        said = []
        while self.finished:
            said.append(self.finished.popleft())
        return said

    def settle(self, said: Iterable[Said]) -> None:
        """Have the machine know of it."""
        for run, outcome, at, task in said:
            self._settle(run, outcome, at, task)

    def _settle(self, run: RunRecord, outcome: Outcome, at: Instant, task: TaskRecord | None) -> None:
        session, machine = self._session, self._machine
        if task is None or (run.extra is not None and run.extra.zombie):
            task = getattr(run, "task", None)  # that of a zombie may be its chief's by now
        elif session.own_runs.get(task._seq) is run:
            run.task = task
        loaded = None if task is None else session.load(task._seq)
        if run.extra is not None:
            run.extra.returned = at
        if run.extra is not None and run.extra.zombie:
            self._zombies.settle(run, outcome, loaded, self.company.number)
            return
        if loaded is None or not self.is_mine(loaded, run):
            if task is not None and session.own_runs.get(task._seq) is run:
                self._returned[task._seq] = None
            self._losses.discard(run)
            return  # its lease was lost: what it says changes nothing
        if run.extra is None:
            run.finished = at
        is_taken = loaded.kin & GIVES_RESULT
        if (is_taken or self._results) and outcome.state is State.SUCCEEDED:
            text = self._texts.get(run) or self._text(run, outcome)
            if not isinstance(text, PayloadError):
                loaded.value = text
            elif is_taken:
                outcome = Outcome(State.FAILED, text, None, f"PayloadError: {text}")
        machine.settle(run, outcome)

    def let_go(self) -> None:
        """What has ended does not go on here any more; a zombie of it may."""
        loaded, own_runs = self._session.loaded, self._session.own_runs
        if not own_runs:
            return
        for seq in loaded.keys() & own_runs.keys():
            run, one = own_runs[seq], loaded[seq]
            if is_open_round(one.task) and one.ended is None and self.is_mine(one, run):
                self._returned[seq] = None  # it goes on in nobody's hands
                one.owner = one.lease = None
                continue
            if (run.state is State.RUNNING and one.task._run is run) or not self.is_mine(one, run):
                continue
            self._returned[seq] = None
            if run.extra is not None and any(one.reason is Reason.CRASHED for one in run.extra.attempts):
                self._session.lanes.update(self._session.rows.lanes.values())  # another of its kind may go now
            if run.extra is not None and run.extra.zombie:
                self._session.zombies[seq] = run
                one.lease = None  # it is nobody else's while this process lives, however long its code goes on
            else:
                one.owner = one.lease = None
        self._zombies.keep(self.company.number)

    def committed(self) -> list[int]:
        """It is written. Gives the tasks whose runs go on here no more."""
        returned, self._returned = list(self._returned), {}
        self._leases |= self._renewed
        self._renewed.clear()
        self._zombies.committed()
        self._given.clear()
        for seq in returned:
            run = self._session.own_runs.pop(seq, None)
            self._tokens.pop(seq, None)
            self._leases.pop(seq, None)
            if run is not None:
                self._texts.pop(run, None)
        for pool, run in self._taken:
            self._local[pool].append(run)
        if self._taken:
            self.begun_at = max(self.begun_at, self._taken_at[self._taken[-1][0]])
            self._taken.clear()
            self._left = len(self._local[DEFAULT_POOL])
            if self.claimed is not None:
                self.claimed()
            failpoints.reach("take.after")
        if not self.finished:
            self.flush_at = None
        return returned

    def undo(self, said: Sequence[Said]) -> None:
        """It was not written: what workers have said is to be said again, and what was taken was not."""
        self.finished.extendleft(reversed(said))
        if said:
            self.flush_at = said[0][2]  # which is past: whoever looks next says it again
        self._returned.clear()
        self._renewed.clear()
        for _, run in self._taken:
            self._session.own_runs.pop(run.task._seq, None)
            self._tokens.pop(run.task._seq, None)
            self._leases.pop(run.task._seq, None)
        self._taken.clear()
        while self._given:
            pool, run = self._given.pop()
            self._local[pool].appendleft(run)
        self._zombies.undo()

    def is_mine(self, loaded: Loaded, run: RunRecord) -> bool:
        """The fence: this process runs it, and nobody has taken it since."""
        seq = loaded.task._seq
        return self._is_own(seq, loaded.owner, loaded.token) and self._session.own_runs.get(seq) is run

    def _is_own(self, seq: int, owner: int | None, token: int) -> bool:
        return owner == self.company.number and self._tokens.get(seq) == token

    def ask_all_to_stop(self) -> None:
        for seq, run in list(self._session.own_runs.items()):
            loaded = self._session.load(seq)
            if loaded is not None and self.is_mine(loaded, run):
                ask_to_stop(self._machine, loaded.task)
            else:
                set_stop(run)  # its row is another's

    # Leases, and the runs of dead processes

    def going_on(self) -> list[TaskRecord]:
        """The tasks whose code runs here."""
        said = {one[0] for one in self.finished} | {run for local in self._local.values() for run in local}
        return [run.task for run in self._session.own_runs.values() if run not in said]

    def any(self) -> bool:
        """Whether any run is this process's."""
        return bool(self._tokens)

    def is_lost(self, run: RunRecord) -> bool:
        return run in self._losses

    def renew(self, now: Instant) -> None:
        """This process lives: its runs are its own for another lease. Those that are not any more are told so."""
        session = self._session
        self.company.hold_on()
        for seq, token in list(self._tokens.items()):
            run = session.own_runs.get(seq)
            args = (now + self.lease_us, seq, self.company.number, token)
            if not session.db.execute(ASK.renew, args).rowcount and run is not None:
                self._returned[seq] = None
                self._losses.add(run)
                if run.extra is not None and run.extra.time_out is not None:
                    attempts.unwatch(self._machine, run.extra)
            else:
                self._renewed[seq] = args[0]
        session.kept.clear()
