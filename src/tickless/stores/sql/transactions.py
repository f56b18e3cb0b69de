"""Group commit: whoever has the lock does what all have asked for meanwhile, in one transaction; and what follows it.

After a commit, and under the lock still: events are posted, waiters rung, other processes told, and it is looked at
when this one must wake. Nobody's code is called here but what cannot wait: `Waiter.ring` and `Journal.post`.
"""

from __future__ import annotations

import json
import os
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Lock
from typing import Any

from tickless.core.machine import FOREVER, Post
from tickless.core.record import IllegalMove, RunRecord, Waiter
from tickless.errors import PayloadError, StoreDown, StoreError, TicklessError, shown
from tickless.instants import Instant
from tickless.stores.sql import failpoints
from tickless.stores.sql.claims import Claims
from tickless.stores.sql.company import Company
from tickless.stores.sql.session import ASK, Session

LONGEST_BEFORE_FORK_S = 10.0
COUNTED = 128
"""So far the runs that are ready are counted."""


class _Request:
    """One verb, to be done in a transaction."""

    __slots__ = ("body", "done", "error", "only_adds", "result")

    def __init__(self, body: Callable[[], Any], only_adds: bool) -> None:
        self.body = body
        self.only_adds = only_adds
        """Whether it changes no row that was there, unless it loads that."""
        self.result: Any = None
        self.error: BaseException | None = None
        self.done = False

    def refuse(self, error: BaseException) -> None:
        if not self.done:
            self.error, self.done = error, True


class Transactions:
    """The one door to the session."""

    def __init__(self, session: Session, claims: Claims) -> None:
        self.lock = Lock()
        self._db = session.db
        self._session = session
        self._claims = claims
        self._signs = session.machine.signs
        self._requests: deque[_Request] = deque()
        self.company = Company(session.db, self.heard)
        claims.company = self.company
        self.ring: Callable[[], None] | None = None
        """Has the dispatcher turn: another process has changed something."""
        self.is_driven = False
        """Whether a test's clock has the dispatcher turn, and no ring."""
        self.post: Post | None = None
        self._posts: list[tuple[Any, ...]] = []
        self.waiters: dict[int, list[Waiter]] = {}
        self.idle: list[Waiter] = []
        self.rung = True
        """Others may have changed something since this was last looked at."""
        self.stops_others = False
        """Whether this transaction asks a run of another process to stop."""
        self._head: int = FOREVER
        """The earliest place in time of any task."""
        self._lease_at: int = FOREVER
        """When the first lease of another process ends."""
        self._told: int = FOREVER
        """The earliest that the others know of."""
        self.next: int = FOREVER
        """When this process has something to do, but for what its workers have to say."""
        self.wake_at: int = FOREVER
        """When it will wake."""
        self._unseen = False
        """Whether others have rung, and it was not looked at what they have ended."""
        self._had_claims = False
        self._is_gone = False
        """Whether the file was another one, or none, when it was last looked at."""
        _all.add(self)

    def before_fork(self) -> None:
        """A child that is forked within a transaction could not open the file: wait for the end of it."""
        self._db.at_rest = self.lock.acquire(timeout=LONGEST_BEFORE_FORK_S)

    def after_fork(self) -> None:
        if self._db.at_rest:
            self._db.at_rest = False
            self.lock.release()

    def rest(self) -> None:
        """Let go of the file until somebody asks something: a handle may, after the scheduler was closed."""
        with self.lock:
            self._db.close()
            self._is_gone = True

    def note_event(self, *args: Any) -> None:
        """Post an event once it is true."""
        self._posts.append(args)

    # Doing

    def ask(self, body: Callable[[], Any], *, only_adds: bool = False) -> Any:
        """Have it done in a transaction: this thread's, or that of whoever has the lock. What it raises is raised.

        A body that raises a TicklessError has changed nothing. StoreError: nothing of the whole transaction was done.
        """
        request = _Request(body, only_adds)
        try:
            self._requests.append(request)
            with self.lock:
                while not request.done:  # but for a Ctrl-C in the thread that had it, once is enough
                    if request not in self._requests:
                        self._requests.append(request)
                    self._serve()
        except BaseException:
            with suppress(ValueError):
                self._requests.remove(request)
            raise
        if request.error is not None:
            raise request.error
        return request.result

    def is_done(self, body: Callable[[], Any]) -> bool:
        """Have it done; False when it could not be, and is to be tried again."""
        try:
            self.ask(body)
        except StoreError:
            self.fail()
            return False
        return True

    def flush(self) -> None:
        """Have written what workers have said."""
        if self._claims.finished:
            self.ask(_nothing)

    def read(self, body: Callable[[], Any]) -> Any:
        """Look at rows. What workers have said before counts."""
        self.flush()
        with self.lock:
            self._look_at_file()
            self._db.execute("BEGIN")
            try:
                self._begun()
                return body()
            except UnicodeEncodeError as problem:
                raise _said(problem) from None
            except StoreError:
                self._session.shared.stale = True  # it may be that only a part of it was read
                raise
            finally:
                self._session.forget(shown=True)
                self._db.rollback()

    def _serve(self) -> None:
        """All that was asked for until now, as one transaction; where one of it has a defect, each for itself."""
        requests = []
        while self._requests:
            requests.append(self._requests.popleft())
        try:
            self._commit(requests)
        except StoreError as error:
            for request in requests:
                request.refuse(error)
        except Exception as problem:  # noqa: BLE001 - it is raised where it was asked for
            said = _said(problem)
            left = [request for request in requests if not request.done]
            if len(left) < 2:
                for request in left:
                    request.refuse(said)
                return
            for request in left:
                self._requests.append(request)
                self._serve()
        except BaseException:  # this thread's: what others asked for is done by them
            self._requests.extend(request for request in requests if not request.done)
            raise

    def _look_at_file(self) -> None:
        """What is written into a file that was removed is lost. Where another is in its place, that is opened."""
        if self._is_gone:
            self._db.reopen()
            self._session.shared.stale = True
            self._session.kept.clear()
            self.rung = self._claims.rescue.is_due = True
            self._is_gone = False
        try:
            self._db.check_file()
        except StoreDown:
            self._is_gone = True
            raise

    def _begun(self) -> None:
        if self._session.begin():
            self.company.read()
            head = self._session.head()  # whoever has committed has told the others of it
            self._head = FOREVER if head is None else head
            self._told = min(self._head, *self._session.shared.alarm_times(), FOREVER)

    def see_due(self, now: Instant) -> None:
        """Have the machine know whether anything is due, lest what becomes ready now overtake it."""
        if self._head <= now:
            self._session.see_head()

    def _commit(self, requests: Sequence[_Request]) -> None:
        session, claims, db = self._session, self._claims, self._db
        failpoints.reach("begin.before")
        said = claims.take_said()
        try:
            self._look_at_file()
            db.begin()
            failpoints.reach("begin.after")
            self._begun()
            if said:
                self.see_due(said[-1][2])
            claims.settle(said)
            if claims.is_closed:
                claims.give_back_all()
            for request in requests:
                self._run(request)
            claims.let_go()
            failpoints.reach("work.after")
            session.flush()
            self.stops_others = session.asks_others
            self._look_around(only_adds=not said and all(request.only_adds for request in requests))
            failpoints.reach("write.after")
            db.commit()
            for request in requests:
                request.done = True
            failpoints.reach("commit.after")
        except BaseException:
            claims.undo(said)
            session.forget(undone=True)
            session.shared.stale = True
            self.rung = claims.rescue.is_due = True  # what was rung for, or was to be recovered, was not done
            self._posts.clear()
            self.stops_others = False
            db.rollback()
            raise
        self._committed()
        failpoints.reach("told.after")

    def _run(self, request: _Request) -> None:
        try:
            request.result = request.body()
        except (StoreError, IllegalMove):
            raise
        except TicklessError as error:  # refused, and nothing has changed
            request.error = error

    # What follows

    def _look_around(self, *, only_adds: bool) -> None:
        """What can only be asked while the transaction lasts. `only_adds`: there are new tasks, and what they load."""
        session = self._session
        for lane in session.lanes:
            self._claims.ready[lane] = self._db.execute(ASK.ready, (lane, COUNTED)).fetchone()[0]
        if only_adds and not session.loaded and not session.bad:
            self._head = min([self._head, *(values[3] for _, values in session.fresh.values())])
        else:
            head = session.head()
            self._head = FOREVER if head is None else head
        self._lease_at = FOREVER
        if self.company.others and self.company.number is not None:
            lease = self._db.execute(ASK.first_lease, (self.company.number,)).fetchone()[0]
            self._lease_at = FOREVER if lease is None else max(lease, self._claims.rescue.look_again_at or lease)

    def _committed(self) -> None:
        session, claims = self._session, self._claims
        ends, awaited = session.ended, session.awaited
        # Not of any queue that was only looked at: two processes with something ready would ring each other for ever.
        is_ready = any(claims.ready.get(lane) for lane in session.filled if lane.startswith("pool:"))
        returned = claims.committed()
        had_claims, self._had_claims = self._had_claims, claims.any()
        session.forget()
        if self._posts:
            posts, self._posts = self._posts, []
            if self.post is not None:
                for args in posts:
                    self.post(*args)
        if claims.is_closed:  # who closes waits for what runs here, and not for tasks
            for seq in returned:
                self._wake(seq)
            self._wake_at_close()
        for task in ends:
            if task._seq in self.waiters:
                self._wake(task._seq)
        if ends and self.idle and not session.shared.live:
            self._wake_idle()
        if self._unseen:
            with suppress(StoreError):
                self._see_ends()
        if self.company.others:
            # Who knows of no lease of ours is told of the first; from then on it looks again whenever one ends.
            has_first = self._had_claims and not had_claims
            self._tell_others(is_ready or awaited or has_first or (bool(ends) and not session.shared.live))
        timeline = session.machine.timeline
        local = timeline.head({}) if timeline.alarms else None  # no task is loaded any more
        self.next = min(self._head, self._lease_at, FOREVER if local is None else local)
        if self.next < self.wake_at:
            self.wake_at = self.next  # it is told of once
            self._signs.earlier = self._signs.stirred = True

    def _wake_at_close(self) -> None:
        """Whoever waits for a task that does not run here would wait for ever: nothing starts any more."""
        own_runs = self._session.own_runs
        for seq in [seq for seq in self.waiters if seq not in own_runs]:
            self._wake(seq)
        if not own_runs:
            self._wake_idle()

    def _wake(self, seq: int) -> None:
        for waiter in self.waiters.pop(seq, ()):
            waiter.ring()

    def wake_for(self, run: RunRecord) -> None:
        """Ring those who wait for the end of this run."""
        task = getattr(run, "task", None)
        if task is not None:
            with self.lock:
                self._wake(task._seq)

    def _wake_idle(self) -> None:
        waiters, self.idle = self.idle, []
        for waiter in waiters:
            waiter.ring()

    def _tell_others(self, matters: bool) -> None:
        """Ring where the others have something to do: earlier than they know, ready, to stop, or awaited."""
        head = min(self._head, *self._session.shared.alarm_times(), FOREVER)
        if matters or self.stops_others or head < self._told:
            self.company.ring()
        self._told = head
        self.stops_others = False

    def fail(self) -> None:
        """A worker could not be served: the dispatcher is to try, since that is who backs off and says so."""
        self.rung = True
        self.next = -FOREVER
        self._claims.ready.clear()
        self._signs.earlier = self._signs.stirred = True

    def heard(self) -> None:
        """Another process has rung, or died. Called by the doorbell's own thread."""
        self.rung = True
        if self.waiters or self.idle:
            self._unseen = True
            with suppress(StoreError):  # then the next transaction looks
                self.read(self._see_ends)
        ring = self.ring
        if ring is not None:
            ring()

    def looks_unasked(self, now: Instant) -> bool:
        """Whether to look at what others have changed though nobody has rung. A test's clock stands until its turns are
        done, and whether the doorbell's thread has rung by then is chance: so, the same test has the same trace.
        """
        return self.is_driven and bool(self.company.others) and now >= self._claims.served_until

    def _see_ends(self) -> None:
        """Wake those who wait for what another process has ended."""
        for (seq,) in self._db.execute(ASK.ended_among, (json.dumps(list(self.waiters)),)).fetchall():
            self._wake(seq)
        if self.idle and not self._session.shared.live:
            self._wake_idle()
        self._unseen = False


_all: weakref.WeakSet[Transactions] = weakref.WeakSet()
_forking: list[Transactions] = []


def _before_fork() -> None:
    for one in list(_all):
        _forking.append(one)
        one.before_fork()


def _after_fork() -> None:
    while _forking:
        _forking.pop().after_fork()


# After the doorbell's hooks, which are called in turn from the last: this lock is taken first, as a commit takes them.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)


def _said(problem: Exception) -> Exception:
    """The error as its user is to see it."""
    if isinstance(problem, UnicodeEncodeError):
        return PayloadError(f"{shown(problem.object)}: has a lone surrogate, which no file can hold; leave it out")
    return problem


def _nothing() -> None:
    """Asked for the sake of what workers have said."""
