"""Forgetting: runs, and tasks that have ended, beyond what is kept. In small batches, when nothing is due."""

from __future__ import annotations

from tickless.instants import Instant
from tickless.stores.sql.forgetting import drop_rounds, drop_tasks
from tickless.stores.sql.looking import oldest_kept
from tickless.stores.sql.session import ASK, Session

SLACK = 256
"""So many rows may pile up beyond what is kept before a batch goes."""
BATCH = 500


class Pruner:
    """`keep_for_us`: how long what has ended is kept, at most; None: for ever."""

    def __init__(self, session: Session, keep_finished: int, keep_runs: int, keep_for_us: int | None) -> None:
        self._session = session
        self._keep_finished = keep_finished
        self._keep_runs = keep_runs
        self._keep_for_us = keep_for_us
        self._is_more = False

    def is_due(self) -> bool:
        """Whether a batch is worth a transaction."""
        return self._is_more or self._session.written > SLACK

    def prune(self, wall: Instant) -> None:
        """Forget one batch; in a transaction."""
        session, db = self._session, self._session.db
        session.written = 0
        first_kept = oldest_kept(session, self._keep_finished)
        before = -(1 << 62) if self._keep_for_us is None else wall - self._keep_for_us
        gone = [seq for (seq,) in db.execute(ASK.forgotten, (first_kept, before, BATCH)).fetchall()]
        grown, session.grown = session.grown, set()
        rounds = [row for seq in grown for row in db.execute(ASK.old_rounds, (seq, before)).fetchall()]
        drop_rounds(db, [seq for (seq,) in rounds])
        drop_tasks(db, gone)
        db.executemany(ASK.trim_runs, [(seq, seq, self._keep_runs) for seq in grown])
        old = db.execute(ASK.drop_old_runs, (before, BATCH)).rowcount if self._keep_for_us is not None else 0
        self._is_more = len(gone) >= BATCH or old >= BATCH
