"""The runs of processes that died, or were silent for longer than their leases: they begin again, or have failed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tickless.core import attempts, permits
from tickless.core.record import TaskRecord
from tickless.core.special import policy_of, special_in
from tickless.instants import Instant
from tickless.states import Reason, State
from tickless.stores.sql import failpoints
from tickless.stores.sql.rows import ZOMBIE_PERMIT, Loaded
from tickless.stores.sql.session import ASK, Session

if TYPE_CHECKING:
    from tickless.stores.sql.claims import Claims


class Rescue:
    """Called in a transaction, by one process at a time: so each run is rescued once."""

    def __init__(self, session: Session, claims: Claims) -> None:
        self._session = session
        self._claims = claims
        self._suspects: dict[int, tuple[int, Instant]] = {}
        """Task -> the token of a run whose lease is over, and since when that was seen."""
        self.patience_us = claims.lease_us // 2
        """For so long one whose lease is over is watched."""
        self.look_again_at: Instant | None = None
        """When the runs whose lease is over are looked at again."""
        self.is_due = True
        """Whether the dead are to be looked for though nobody has rung: at the start."""

    def recover(self, now: Instant) -> None:
        """Take care of the runs of those that died, or were silent for longer than their leases."""
        session, company = self._session, self._claims.company
        self.is_due = False
        dead = set(company.dead())
        for (number,) in session.db.execute(ASK.claimants).fetchall():
            if number in dead or not company.lives(number):
                dead.add(number)
                for loaded in session.select("WHERE owner = ? AND trouble IS NULL", (number,)):
                    self._crash(loaded, number, now)
        self.look_again_at = None
        silent = "WHERE owner IS NOT NULL AND owner <> ? AND lease <= ? AND trouble IS NULL"
        for loaded in session.select(silent, (company.number, now)):
            owner, lease = loaded.owner, loaded.lease  # as they are now, and not when they were asked for
            is_over = owner != company.number and lease is not None and lease <= now
            if owner is not None and is_over and self._has_been_silent(loaded, now):
                self._crash(loaded, owner, now)
        if self.look_again_at is None:
            self._suspects.clear()
        for number in dead:
            company.bury(number)
        failpoints.reach("recover.after")

    def _has_been_silent(self, loaded: Loaded, now: Instant) -> bool:
        """Whether the lease is over, and has been for a while of this process: all of a machine sleep when it does."""
        seq = loaded.task._seq
        token, since = self._suspects.get(seq, (0, now))
        if token != loaded.token:
            self._suspects[seq] = loaded.token, now
            since = now
        if now - since >= self.patience_us:
            return True
        at = since + self.patience_us
        self.look_again_at = Instant(min(at, self.look_again_at or at))
        return False

    def _crash(self, loaded: Loaded, number: int, now: Instant) -> None:
        task = loaded.task
        if loaded.owner != number:
            return
        loaded.owner = loaded.lease = None
        limit = policy_of(task).limit
        if loaded.kin & ZOMBIE_PERMIT and limit is not None:
            loaded.kin &= ~ZOMBIE_PERMIT
            self._session.read_limit(limit)
            permits.release(self._session.machine, self._session.machine.limits[limit], now)
        run = task._run
        if run is not None and run.state is State.RUNNING:
            attempts.crash(self._session.machine, task, now)
        elif special_in(task) is not None:
            attempts.bury(self._session.machine, task, now)


def has_crashed(task: TaskRecord) -> bool:
    """Whether a process has died of it, maybe: of those a process runs one at a time, so that they cannot be taken for
    one another, and no neighbour of one that kills its process has failed with it.
    """
    special = special_in(task)
    return special is not None and any(one.reason is Reason.CRASHED for one in special.attempts)
