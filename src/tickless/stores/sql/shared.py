"""What belongs to the whole file and not to a task: counters, pauses, limits, alarms.

Read again when others have committed; written where it has changed.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tickless.core import attempts
from tickless.core.pauses import PauseEnd, Scope
from tickless.core.permits import LimitState
from tickless.core.record import SEQ_BITS, RunRecord, TaskRecord
from tickless.core.rounds import RoundEnd
from tickless.core.special import RunExtra, special_in
from tickless.instants import Instant
from tickless.policies import Limit, Pause
from tickless.stores.sql.rows import Loaded
from tickless.stores.sql.statements import load as load_statements
from tickless.values import MOST

if TYPE_CHECKING:
    from tickless.stores.sql.session import Session

ASK = load_statements("queries.sql")
LOCAL = 1 << 39
"""The numbers of alarms that this process makes for itself begin here: tasks never get so far."""


class Shared:
    """As it was last read or written, beside the machine's own state, so that only what changed is written."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._numbers = LOCAL
        self.stale = True
        self.turn = 0
        self.boot: str | None = None
        self.base: int | None = None
        self.live = 0
        """How many listed tasks have not ended."""
        self._facts: tuple[int, int, int, int] = (0, 0, 0, 0)
        self._pauses: dict[str | None, Pause] = {}
        self._alarms: dict[str, int] = {}
        self._limits: dict[str, tuple[Any, ...]] = {}
        for state in session.machine.limits.values():
            state.seq = self._number()

    def _number(self) -> int:
        self._numbers += 1
        return self._numbers

    def next_turn(self) -> int:
        self.turn += 1
        return self.turn

    def base_of(self, boot: str, elapsed_us: int, wall: Instant) -> int:
        """What `Clock.now()` counts from in this boot. The first process of a boot says it.

        It says it such that the wall clock is as far from `now()` as it was before the boot: what counts elapsed time
        goes by the wall over the time that nobody could count.
        """
        if self.boot != boot or self.base is None:
            self.boot, self.base = boot, wall - self._session.machine.offset - elapsed_us
            self._session.db.execute(ASK.put_boot, (boot, self.base))
        return self.base

    # In

    def read(self) -> None:
        """Others have committed: what they say holds."""
        session = self._session
        machine, db = session.machine, session.db
        seq, turn, live, offset, self.boot, self.base = db.execute(ASK.facts).fetchone()
        self._facts = seq, turn, live, offset
        machine.seq, self.turn, self.live, machine.offset = self._facts
        machine.pauses.clear()
        for name, reason, until in db.execute(ASK.pauses).fetchall():
            machine.pauses[None if name == "all" else name[4:]] = Pause(reason, until)
        self._pauses = dict(machine.pauses)
        for row in db.execute(ASK.limits).fetchall():
            self._read_limit(row)
        self._read_alarms()

    def _read_limit(self, row: tuple[Any, ...]) -> None:
        name, running, most_starts, per_us, held, reserved, starts = row
        machine = self._session.machine
        state = machine.limits.get(name)
        if state is None:  # this process was told nothing of it
            per = None if per_us is None else per_us / 1_000_000
            limit = Limit(name, running if running is not None or most_starts is not None else MOST, most_starts, per)
            state = machine.limits[name] = LimitState(machine, limit)
            state.seq = self._number()
            self._session.rows.lanes[state.queue] = f"limit:{name}"
        state.held, state.reserved = held, reserved
        state.starts = deque(map(Instant, json.loads(starts)), maxlen=state.limit.most_starts)
        self._limits[name] = row

    def limit_from_row(self, name: str) -> LimitState:
        """A limit that a row names, and nobody has said what it is: it lets everybody go."""
        self._read_limit((name, MOST, None, None, 0, 0, "[]"))
        return self._session.machine.limits[name]

    def _read_alarms(self) -> None:
        machine = self._session.machine
        for end in machine.pause_ends.values():
            machine.timeline.disarm(end)
        for state in machine.limits.values():
            machine.timeline.disarm(state)
        for round_end in machine.round_ends.values():
            machine.timeline.disarm(round_end)
        machine.pause_ends.clear()
        machine.round_ends.clear()
        self._alarms = dict(self._session.db.execute(ASK.alarms).fetchall())
        for name, at in self._alarms.items():
            kind, _, of = name.partition(":")
            if kind == "limit":
                machine.timeline.arm(self._session.limit(of), Instant(at))
            elif kind == "round":
                self._arm_round_end(int(of), Instant(at))
            else:
                self._arm_pause_end(of, Instant(at))

    def _arm_round_end(self, number: int, at: Instant) -> None:
        machine = self._session.machine
        before = machine.seq
        end = machine.round_ends[number] = RoundEnd(machine, number)
        machine.seq = before
        end.seq = self._number()
        machine.timeline.arm(end, at)

    def _arm_pause_end(self, of: str, at: Instant) -> None:
        machine = self._session.machine
        scope: Scope = None
        if of.startswith("task:"):
            loaded = self._session.load(int(of[5:]))
            special = None if loaded is None else special_in(loaded.task)
            if loaded is None or special is None:
                return
            scope, pause = loaded.task, special.pause
        else:
            scope = None if of == "all" else of[4:]
            pause = machine.pauses.get(scope)
        if pause is not None and pause.until is not None:
            before = machine.seq
            end = machine.pause_ends[scope] = PauseEnd(machine, scope, pause.until)
            machine.seq = before
            end.seq = self._number()
            machine.timeline.arm(end, at)

    def alarm_times(self) -> list[int]:
        return list(self._alarms.values())

    def load_scope(self, scope: Scope) -> None:
        """Load a task, those of a tag, or all."""
        session = self._session
        session.flush()
        if isinstance(scope, TaskRecord):
            session.load(scope._seq)
        elif scope is None:
            session.select("WHERE ended IS NULL AND trouble IS NULL ORDER BY seq")
        else:
            tagged = "seq IN (SELECT seq FROM tags WHERE tag = ?)"
            session.select(f"WHERE {tagged} AND ended IS NULL AND trouble IS NULL ORDER BY seq", (scope,))

    def load_alarms(self, now: Instant, is_mine: Callable[[Loaded, RunRecord], bool]) -> None:
        """Of the alarms that are to ring: what they are about."""
        machine, session = self._session.machine, self._session
        for alarm in list(machine.timeline.alarms.values()):
            if isinstance(alarm, RunExtra):
                if alarm.run is not None and alarm.deadline <= now:
                    loaded = session.load(alarm.run.task._seq)
                    if loaded is None or not is_mine(loaded, alarm.run):
                        attempts.unwatch(machine, alarm)
            elif isinstance(alarm, PauseEnd):
                if alarm.is_due(now):
                    self.load_scope(alarm.scope)
            elif isinstance(alarm, RoundEnd):
                if alarm.is_due(now):
                    session.load(alarm.round)
            elif isinstance(alarm, LimitState):
                session.read_limit(alarm.limit.name)

    # Out

    def write(self) -> None:
        """Write what has changed."""
        machine, db = self._session.machine, self._session.db
        if machine.pauses != self._pauses:
            for scope in self._pauses.keys() - machine.pauses.keys():
                db.execute(ASK.drop_pause, (_name(scope),))
            for scope, pause in machine.pauses.items():
                if self._pauses.get(scope) != pause:
                    db.execute(ASK.put_pause, (_name(scope), *pause))
            self._pauses = dict(machine.pauses)
        for name, state in machine.limits.items():
            limit = state.limit
            starts = json.dumps(list(state.starts))
            row = (name, limit.running, limit.most_starts, limit.per_us, state.held, state.reserved, starts)
            if self._limits.get(name) != row:
                db.execute(ASK.put_limit, row)
                self._limits[name] = row
        if machine.pause_ends or machine.round_ends or machine.limits or self._alarms:
            self._write_alarms()
        facts = machine.seq, self.turn, self.live, machine.offset
        if facts != self._facts:
            db.execute(ASK.put_facts, facts)
            self._facts = facts

    def _write_alarms(self) -> None:
        machine, db = self._session.machine, self._session.db
        now = {
            f"pause:{_name(scope)}": end._entry >> SEQ_BITS
            for scope, end in machine.pause_ends.items()
            if end._entry is not None
        }
        now |= {f"limit:{name}": at._entry >> SEQ_BITS for name, at in machine.limits.items() if at._entry is not None}
        ends = machine.round_ends.items()
        now |= {f"round:{number}": end._entry >> SEQ_BITS for number, end in ends if end._entry is not None}
        if now == self._alarms:
            return
        for name in self._alarms.keys() - now.keys():
            db.execute(ASK.drop_alarm, (name,))
        for name, at in now.items():
            if self._alarms.get(name) != at:
                db.execute(ASK.put_alarm, (name, at))
        self._alarms = now


def _name(scope: Scope) -> str:
    if isinstance(scope, TaskRecord):
        return f"task:{scope._seq}"
    return "all" if scope is None else f"tag:{scope}"
