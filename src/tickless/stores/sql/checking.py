"""The promises as assertions over the rows of a file: what `core.invariants` says of records, said of SQL.

It reads everything and changes nothing. To be called when no verb goes on in this process; other processes may be at
work, since it looks at one snapshot. `P1`, `P3`, ... are the promises of docs/invariants.md; what has no number there
is bookkeeping that they rest on.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

from tickless.core.record import number_of
from tickless.policies import WAIT, kind_of_end, on_parent
from tickless.states import DEFAULT_POOL, MOVES, Reason, RunIf, State
from tickless.stores.sql.rows import ASIDE, AWAITED, COLUMNS, GIVES_RESULT, HAS_CHILDREN, WAITS, ZOMBIE_PERMIT
from tickless.stores.sql.store import SqlStore

_PLACES_OF_A_RUN = {"ready": ("queue",), "running": ("running",), "pending": ("timeline", "held")}
"""Where a task is whose run is in that state. Pending: it waits for its next attempt, or is paused."""


def check(store: SqlStore) -> None:
    """Raise AssertionError, with the row, when a promise is broken. O(all rows)."""
    with store.transactions.lock:
        store.db.execute("BEGIN")
        try:
            file = _File(store)
            file.check()
            _check_process(store, file)
        finally:
            store.db.rollback()


class _Row:
    """A row of `tasks`, with what is packed in its columns."""

    def __init__(self, values: Iterable[Any]) -> None:
        self.columns = dict(zip(COLUMNS, values, strict=True))
        self.more: dict[str, Any] = json.loads(self.columns["more"] or "{}")
        self.special: dict[str, Any] = self.more.get("special", {})
        self.policy: dict[str, Any] = json.loads(self.columns["policy"] or "{}")
        self.parents = list(map(number_of, self.more.get("parents", ())))
        self.tags: tuple[str, ...] = tuple(self.policy.get("tags", ()))
        self.limit: str | None = self.policy.get("limit")

    def __getitem__(self, column: str) -> Any:
        return self.columns[column]

    @property
    def lives(self) -> bool:
        return self["ended"] is None

    @property
    def waits(self) -> bool:
        return bool(self["kin"] & WAITS)

    @property
    def round(self) -> dict[str, Any]:
        """What it is besides an occurrence, where it is a round."""
        round: dict[str, Any] = self.special.get("round", {})
        return round

    @property
    def is_open(self) -> bool:
        """Whether it is a round that has its tasks, and goes on in nobody's hands."""
        return self.lives and bool(self.round.get("opened"))

    @property
    def zombies(self) -> bool:
        """Whether code of a run of it that has timed out goes on."""
        return bool(self.special.get("zombies") or self.special.get("zombie") or self.special.get("hold") == "zombie")

    @property
    def end(self) -> tuple[State, Reason | None]:
        """How it ended: its own end if it has one, else that of its last run."""
        state, reason = self.more.get("end") or (self["state"], self["reason"])
        return State(state), None if reason is None else Reason(reason)

    def places(self) -> list[str]:
        """Every place that the task is in."""
        where = {
            "timeline": self["at"] is not None,
            "wait set": self.waits,
            "queue": self["lane"] is not None,
            "running": self["state"] == "running",
            "held": "hold" in self.special,
        }
        return [place for place, there in where.items() if there]

    def require(self, holds: object, what: str) -> None:
        if not holds:
            told = {name: value for name, value in self.columns.items() if value not in (None, 0)}
            raise AssertionError(f"{what}\n  task #{self['seq']}: {told}")


class _File:
    """All rows, as they are in one snapshot."""

    def __init__(self, store: SqlStore) -> None:
        ask = store.db.execute
        self.ask = ask
        self.pools = store.machine.pools
        self.tasks = {row[0]: _Row(row) for row in ask(f"SELECT {', '.join(COLUMNS)} FROM tasks ORDER BY seq")}
        self.live = {seq: row for seq, row in self.tasks.items() if row.lives}
        self.links = set(ask("SELECT parent, child FROM links").fetchall())
        self.pauses = dict(ask("SELECT scope, until FROM pauses").fetchall())
        self.alarms = dict(ask("SELECT name, at FROM alarms").fetchall())
        self.owners = {number for (number,) in ask("SELECT number FROM owners")}
        self.seq, self.turn, self.counted = ask("SELECT seq, turn, live FROM facts").fetchone()
        self.crews: defaultdict[int, list[_Row]] = defaultdict(list)
        for row in self.live.values():
            if row["chief"] is not None and not row["kin"] & ASIDE:
                self.crews[row["chief"]].append(row)
        self.rounds: defaultdict[int, list[_Row]] = defaultdict(list)
        for row in self.tasks.values():
            if row["round"] is not None:
                self.rounds[row["round"]].append(row)

    def check(self) -> None:
        for row in self.tasks.values():
            if row.lives:
                self._check_live(row)
            else:
                self._check_ended(row)
            self._check_owner(row)
            self._check_round(row)
        self._check_counters()
        self._check_links()
        self._check_limits()
        self._check_alarms()
        self._check_tags()
        self._check_runs()

    # Rows

    def _check_live(self, row: _Row) -> None:
        places, state = row.places(), row["state"]
        row.require(len(places) == 1, f"P1: a live task is in exactly one place, and this one in {places or 'none'}")
        right = _PLACES_OF_A_RUN.get(state or "")
        agrees = places[0] not in ("queue", "running") if right is None else places[0] in right
        row.require(agrees, f"P3: {places[0]}, but its run is {state}")
        row.require(row["work"] is not None or row.is_open, "a live task has lost its work")
        row.require(row["trouble"] is None or row["state"] != "running", "it is set aside, and runs")
        if state == "running":
            row.require(row["started"] is not None, "a run goes on that never started")
            early = not row["wall"] and row["run_due"] is not None and row["started"] < row["run_due"]
            row.require(not early, "P6: it started before it was due")
        row.require(row["run_due"] is not None or state != "ready", "it is ready, and its run has no due")
        self._check_lane(row)
        if not row.is_open:
            self._check_waiting(row)
        self._check_held(row)
        self._check_crew(row)

    def _check_lane(self, row: _Row) -> None:
        """P1: who is ready stands in a queue that is looked at, with a place of its own."""
        kind, _, name = (row["lane"] or "").partition(":")
        if not kind:
            return
        row.require(row["turn"] is not None, "it is ready, and has no place in its queue")
        row.require(abs(row["turn"]) <= self.turn, f"its turn is above the counter, {self.turn}")
        permit = row.special.get("permit", False)
        if kind == "limit":
            row.require(name == row.limit, "it stands in the queue of another limit")
            row.require(not permit, "it has its permit, and waits for it")
        else:
            row.require(kind == "pool" and name == row.policy.get("pool", DEFAULT_POOL), "it stands in another queue")
            row.require(name == row["pool"], "the column `pool` names another pool than the policy")
            row.require(permit or row.limit is None, "it went past its limit without a permit")

    def _check_waiting(self, row: _Row) -> None:
        """P4, from the child's side."""
        row.require(row.parents or not row.waits, "P4: it waits, and has no parents")
        unfinished = [parent for parent in row.parents if parent in self.live]
        row.require(row["waiting"] == len(unfinished), f"P4: counts {row['waiting']} of {len(unfinished)} parents")
        listed = [self.tasks[parent] for parent in row.parents if parent in self.tasks and parent not in self.live]
        seen = 0
        for parent in listed:
            seen |= kind_of_end(*parent.end)
        all_known = len(unfinished) + len(listed) == len(row.parents)
        right = row["seen"] == seen if all_known else row["seen"] & seen == seen
        row.require(right, f"P4: has seen {row['seen']:04b} of {seen:04b}")
        if row.waits:
            run_if = RunIf(row.more.get("run_if", RunIf.ALL_SUCCEEDED))
            row.require(on_parent(run_if, row["seen"], len(unfinished)) == WAIT, "P4: it waits for nothing")
        for number in unfinished:
            row.require(
                (number, row["seq"]) in self.links, f"P4: #{number} will not count it down: they are not linked"
            )

    def _pause_holds(self, row: _Row) -> bool:
        if row["listed"] == 0:
            chief = self.tasks.get(row["chief"])
            return chief is not None and self._pause_holds(chief)
        scopes = ("all", *(f"tag:{tag}" for tag in row.tags))
        return "pause" in row.special or any(scope in self.pauses for scope in scopes)

    def _check_held(self, row: _Row) -> None:
        hold, paused = row.special.get("hold"), self._pause_holds(row)
        row.require(paused or hold not in ("fire", "ready", "retry"), f"it is held ({hold}), and not paused")
        free = row["at"] is not None or row["lane"] is not None
        row.require(not (paused and free) or row.special.get("by_hand"), "it is paused, and not held")
        if hold == "busy":
            row.require(self.crews[row["seq"]] or row.zombies, "P1: it is held for its occurrences, and has none")

    def _check_crew(self, row: _Row) -> None:
        if row["kin"] & ASIDE:
            row.require(row["chief"] in self.tasks, "it is a run beside the plan of a task that was forgotten")
            if row.special.get("hold") == "turn":
                row.require(self.tasks[row["chief"]].special.get("asides"), "it waits for a turn that nobody gives")
        elif row["chief"] is not None:
            chief = self.live.get(row["chief"])
            row.require(chief is not None, "an occurrence goes on, and its task has ended")
            row.require(chief is None or chief.special.get("crew"), "its task knows nothing of its occurrences")
            row.require(row["listed"] == 0, "an occurrence is listed")

    def _check_round(self, row: _Row) -> None:
        """P4 of a round, which counts its tasks as a child counts its parents."""
        if row["round"] is not None:
            row.require(row["round"] in self.tasks, "it is a task of a round that was forgotten")
        if not row.round:
            return
        (plans,) = self.ask("SELECT count(*) FROM plans WHERE digest = ?", (row.round["plan"],)).fetchone()
        row.require(plans == 1, "a round is made of what is not in the file")
        tasks = self.rounds[row["seq"]]
        row.require(row.round["opened"] or not tasks, "a round has tasks, and was not opened")
        living = [task for task in tasks if task.lives]
        if row.is_open:
            row.require(row["state"] == "running", "an open round does not run")
            row.require(row["waiting"] == len(living) > 0, f"P4: counts {row['waiting']} of {len(living)} tasks")
        row.require(row.lives or not living, f"a round has ended, and {len(living)} of its tasks live")
        seen = 0
        for task in tasks:
            if not task.lives and task["reason"] != "copied":
                seen |= kind_of_end(*task.end)
        row.require(row["seen"] == seen, f"P4: has seen {row['seen']:04b} of {seen:04b}")

    def _check_ended(self, row: _Row) -> None:
        row.require(not row.places(), f"P1: a terminal task is still in {row.places()}")
        row.require(row["rule"] is None, "P3: a terminal task still has a rule, so it may fire")
        row.require(row["work"] is None and row["args"] is None, "a terminal task keeps its work or its arguments")
        row.require(
            row["state"] is not None and not MOVES[State(row["state"])], "P5: it has ended, and its run has not"
        )
        row.require(not MOVES[row.end[0]], "P5: it has ended, and is not terminal")
        row.require(0 < row["ended"] <= self.turn, f"its place among the ended is above the counter, {self.turn}")
        row.require(
            row["listed"] != 0 or row.round, "an occurrence, or a handler, has ended, and its row is still there"
        )
        row.require(not self.crews[row["seq"]], "P5: it has ended, and its occurrences go on")

    def _check_owner(self, row: _Row) -> None:
        """Who is said to run it runs it: else its row is taken from nobody, at the death of somebody."""
        runs = row["state"] == "running" and row.lives
        if row.is_open:
            row.require(row["owner"] is None, "a round that has its tasks is somebody's")
        elif runs:
            row.require(row["owner"] is not None, "it runs, and nobody runs it")
            row.require(row["lease"] is not None and row["token"] > 0, "it runs without a lease, or a token")
        if row["owner"] is not None:
            row.require(row["owner"] in self.owners, "its owner is not known")

    # What is shared

    def _check_counters(self) -> None:
        _require(self.counted == len(self.live), f"facts.live is {self.counted}, and {len(self.live)} tasks live")
        highest = max(self.tasks, default=0)
        _require(highest <= self.seq, f"facts.seq is {self.seq}, and there is a task #{highest}")
        ends = Counter(row["ended"] for row in self.tasks.values() if not row.lives)
        _require(all(count == 1 for count in ends.values()), "two tasks have one place among those that have ended")
        places = Counter((row["lane"], row["turn"]) for row in self.live.values() if row["lane"] is not None)
        twice = [place for place, count in places.items() if count > 1]
        _require(not twice, f"two stand in one place of a queue: {twice}")
        for row in self.live.values():
            found = (
                row["id"] is None
                or row["listed"] in (0, 1)
                or any(other["id"] == row["id"] and other["listed"] == 1 for other in self.tasks.values())
            )
            row.require(found, "it is live, and its id finds nobody")

    def _check_links(self) -> None:
        for parent, child in self.links:
            there = self.live.get(parent)
            if there is not None:
                there.require(there["kin"] & HAS_CHILDREN, f"P4: it does not know that #{child} waits for it")
        known = HAS_CHILDREN | GIVES_RESULT | WAITS | AWAITED | ZOMBIE_PERMIT | ASIDE
        for row in self.tasks.values():
            row.require(not row["kin"] & ~known, "`kin` has bits that nobody knows")

    def _check_limits(self) -> None:
        for name, running, held, reserved in self.ask("SELECT name, running, held, reserved FROM limits"):
            holders = [row for row in self.live.values() if row.special.get("permit") and row.limit == name]
            ready = sum(row["lane"] is not None for row in holders)
            _require(held >= len(holders), f"limit {name}: {len(holders)} hold a permit, and {held} are counted")
            extra = any(row["owner"] is not None and row["state"] != "running" for row in self.tasks.values())
            extra = extra or any(row.zombies for row in self.live.values())
            _require(held == len(holders) or extra, f"limit {name}: {held} are counted, and {len(holders)} hold one")
            _require(reserved == ready, f"limit {name}: {ready} are reserved, and {reserved} counted")
            _require(running is None or held <= running, f"limit {name}: {held} permits of {running}")
            stuck = any(row["lane"] == f"limit:{name}" for row in self.live.values())
            idle = stuck and running is not None and held == 0 and f"limit:{name}" not in self.alarms
            _require(not idle, f"limit {name}: somebody waits for a permit, and nobody will ever give one back")

    def _check_alarms(self) -> None:
        """What has a place in time and is no task is there once, and wakes for what is so."""
        limits = {name for (name,) in self.ask("SELECT name FROM limits")}
        expected = {f"pause:{scope}" for scope, until in self.pauses.items() if until is not None}
        for seq, row in self.live.items():
            pause = row.special.get("pause")
            if pause is not None and pause[1] is not None:
                expected.add(f"pause:task:{seq}")
        there = {name for name in self.alarms if name.startswith("pause:")}
        gone = {name for name in there - expected if _is_of_the_ended(name, self.live)}
        _require(
            there - gone == expected, f"pauses that end by themselves: {sorted(expected)}, alarms: {sorted(there)}"
        )
        for name in self.alarms.keys() - there:
            kind, _, of = name.partition(":")
            if kind == "round":
                _require(
                    int(of) in self.live and self.live[int(of)].is_open, f"alarm {name} is of no round that goes on"
                )
            else:
                _require(kind == "limit" and of in limits, f"alarm {name} is about nothing")

    def _check_tags(self) -> None:
        right = {(tag, seq) for seq, row in self.live.items() if row["listed"] for tag in row.tags}
        there = set(self.ask("SELECT tag, seq FROM tags").fetchall())
        _require(there == right, f"tags: too many {sorted(there - right)}, missing {sorted(right - there)}")

    def _check_runs(self) -> None:
        for task, state, started, finished in self.ask("SELECT task, state, started, finished FROM runs"):
            row = self.tasks.get(task)
            if row is None:
                continue  # it was forgotten, and they are swept later
            row.require(not MOVES[State(state)], "P5: a run in the history goes on")
            row.require(finished is not None, "a run has ended at no time")
            row.require(started is None or finished >= started, "a run has ended before it started")


def _is_of_the_ended(alarm: str, live: dict[int, _Row]) -> bool:
    """The end of a pause of a task that has ended meanwhile rings for nobody, and is no harm."""
    seq = alarm.rpartition(":")[2]
    return alarm.startswith("pause:task:") and int(seq) not in live


def _check_process(store: SqlStore, file: _File) -> None:
    """What this process remembers between two transactions is what the rows say."""
    session, number = store.session, store.transactions.company.number
    mine = {seq for seq, row in file.live.items() if row["state"] == "running" and row["owner"] == number}
    if number is not None:
        lost = sorted(mine - session.own_runs.keys())
        _require(not lost, f"this process is said to run {lost}, and does not know")
        zombies = {getattr(run, "task", None) and run.task._seq for run in session.zombies.values()}
        for row in file.tasks.values():
            if row["owner"] == number and row["seq"] not in mine:
                row.require(row["seq"] in zombies, "it has an owner, and neither a run nor a zombie")
    if store.db.changed():
        session.shared.stale = True  # it was asked here, and will not be told again
    if not session.shared.stale:
        for seq, kept in session.kept.items():
            there = file.tasks.get(seq)
            now = None if there is None else tuple(there.columns.values())
            _require(now == kept.row, f"it remembers #{seq} as {kept.row}, and its row is {now}")
        counters = store.machine.seq, session.shared.turn, session.shared.live
        stored = file.seq, file.turn, file.counted
        _require(counters == stored, f"it counts (seq, turn, live) to {counters}, and the file to {stored}")
    _require(not session.loaded, "records stayed loaded after a transaction")
    for name in store.claims.pools:
        for run in store.claims.local(name):
            _require(run.task._seq in session.own_runs, f"pool {name}: #{run.task._seq} was taken, and is not its own")


def _require(holds: object, what: str) -> None:
    if not holds:
        raise AssertionError(what)
