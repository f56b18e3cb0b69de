"""The zombies of this process: runs that timed out, and whose code goes on. What is known of them is in no row."""

from __future__ import annotations

import json

from tickless.core.record import RunRecord
from tickless.core.special import special_in
from tickless.records import Outcome
from tickless.states import State
from tickless.stores.sql.rows import ZOMBIE_PERMIT, Loaded
from tickless.stores.sql.session import ASK, Session
from tickless.stores.sql.specials import extra_form


class Zombies:
    """Called in a transaction. `session.zombies` holds them by their tasks."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._came_back: list[tuple[RunRecord, list[int]]] = []
        """Those that have returned in this transaction, and by whose numbers they were found."""

    def settle(self, run: RunRecord, outcome: Outcome, loaded: Loaded | None, number: int | None) -> None:
        """One has returned. `number`: this process's."""
        session = self._session
        assert run.extra is not None
        if loaded is None and hasattr(run, "task"):
            del run.task  # its task is forgotten
        if getattr(run.extra, "permit", None) is not None:
            session.read_limit(run.extra.permit or "")
        session.machine.settle(run, outcome)
        seqs = [seq for seq, one in session.zombies.items() if one is run]
        self._came_back.append((run, seqs))
        for seq in seqs:
            del session.zombies[seq]
        if loaded is not None:
            special, now = special_in(loaded.task), loaded.task._run
            goes_on = now is not None and now.state is State.RUNNING  # another try does
            if loaded.owner == number and not goes_on and (special is None or not special.zombies):
                loaded.owner = None
            loaded.kin &= ~ZOMBIE_PERMIT
            session.db.execute(ASK.note_late, (json.dumps(extra_form(run.extra)), loaded.task._seq, run.started))

    def keep(self, number: int | None) -> None:
        """Whose zombie goes on here is this process's, and so is the permit that it keeps."""
        loaded = self._session.loaded
        for run in self._session.zombies.values():
            keeper = loaded.get(run.task._seq) if hasattr(run, "task") else None  # its chief, where it had one
            if keeper is not None and keeper.ended is None and keeper.owner is None:
                keeper.owner = number
            if keeper is not None and getattr(run.extra, "permit", None) is not None:
                keeper.kin |= ZOMBIE_PERMIT

    def committed(self) -> None:
        self._came_back.clear()

    def undo(self) -> None:
        """What the records of runs say of timeouts is not in their rows: nothing of it has happened."""
        session, machine = self._session, self._session.machine
        for run, seqs in self._came_back:
            assert run.extra is not None
            run.extra.zombie, run.extra.late = True, None
            machine.pools[run.extra.pool].zombies += 1
            session.zombies |= dict.fromkeys(seqs, run)
        self._came_back.clear()
        for seq, run in session.own_runs.items():
            extra = run.extra
            if extra is None or extra.time_out is not None or not hasattr(extra, "deadline"):
                continue
            if extra.zombie:
                machine.pools[extra.pool].zombies -= 1
            extra.zombie, extra.late = False, None
            if session.zombies.get(seq) is run:
                del session.zombies[seq]
            extra.watch(run, extra.seq, extra.deadline, machine.time_out)
            machine.timeline.arm(extra, extra.deadline)
