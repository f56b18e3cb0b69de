"""A cluster of processes on one file, played on a virtual clock: `python -m tests.simulation.cluster SEED` plays one.

A program is a list of steps, each for one place in the cluster: its process adds tasks, looks for what is due, takes
runs and says how they ended; it is closed, killed, frozen beyond its lease; a statement of it fails, or is its last.
After each step all rows are looked at; at the end every process goes on until nothing is left to do, driven by what the
store says of when to wake and by rings alone. `N..M` plays all of those; `--shrink` leaves out what is not needed.
"""

from __future__ import annotations

import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

from tests.simulation.cluster_ledger import grid_faults, ledger_faults, records_of
from tests.simulation.cluster_programs import Program, Step, draft_of, drawn
from tests.simulation.cluster_rows import Look, Row, owner_faults, places, row_faults, row_of
from tests.simulation.fleet import LEASE_US, POOLS, Bells, Down, Fleet, Killed, Process, Start, down
from tickless.core.record import TaskRecord
from tickless.errors import StoreDown, TicklessError
from tickless.instants import SECOND_US, Instant
from tickless.policies import Pause
from tickless.records import SUCCESS, Outcome
from tickless.states import DEFAULT_POOL, CatchUp, State
from tickless.stores.sql import failpoints
from tickless.testing.drafts import NOON_US, Bell
from tickless.testing.keepsakes import Keepsakes

FAILURE = Outcome(State.FAILED, ValueError("x"), None, "ValueError: x")
SPANS = (1_000, 100_000, SECOND_US, 2 * SECOND_US, 3 * SECOND_US, LEASE_US // 2, LEASE_US, LEASE_US + 1)
ROUNDS = 3_000
"""Far more than any program needs to come to rest."""
AT_ONCE = 100
"""Likewise, for what is done at one instant."""


class Player:
    """Plays one program. Raises AssertionError, with what is broken."""

    def __init__(self, fleet: Fleet, program: Program) -> None:
        self.fleet = fleet
        self.program = program
        self.now = Instant(NOON_US)
        self.bells = Bells()
        self.works = Keepsakes()
        self.processes: dict[int, Process] = {}
        self.starts: list[Start] = []
        self.ids: list[str] = []
        self.grids: dict[str, tuple[int, int]] = {}
        """Of recurring tasks that nobody paused: first fire and interval."""
        self.seen: Counter[str] = Counter()
        self.log: list[str] = []
        fleet.empty()

    # Steps

    def play(self) -> None:
        try:
            for number, step in enumerate(self.program.steps):
                self._step(number, step)
            self._come_to_rest()
            self._require(ledger_faults(self.starts, records_of(self.fleet.eye)), "at the end")
            self._look_at_grids()
        finally:
            for process in self.processes.values():
                process.die()

    def _require(self, faults: Iterator[str], where: str) -> None:
        fault = next(faults, None)
        assert fault is None, f"{where}: {fault}"

    def _step(self, number: int, step: Step) -> None:
        verb, rng = step.verb, Random(step.dice)
        where = f"step {number} ({verb} at {step.place}, {(self.now - NOON_US) / SECOND_US:g} s)"
        if verb == "advance":
            self.now = Instant(self.now + rng.choice(SPANS))
            return
        process = self.processes.get(step.place)
        if verb == "start" and process is None:
            process = self.processes[step.place] = Process(
                self.fleet.wire(), self.bells, self.works, self.program.most_group
            )
        elif process is None or (process.frozen and verb not in ("thaw", "kill")):
            return
        try:
            process.hear()
            getattr(self, f"_{verb}")(process, rng)
            self.seen[verb] += 1
        except Down:
            self.seen[f"{verb} failed"] += 1
        except Killed:
            self.seen[f"{verb} killed"] += 1
            process.die()
        except StoreDown:
            raise  # nobody has asked for that one
        except TicklessError:
            self.seen[f"{verb} refused"] += 1
        if process.gone:
            del self.processes[step.place]
        self._look(where)

    def _look(self, where: str) -> Look:
        look = Look(self.fleet.eye)
        self._require(row_faults(look, self.processes.values()), where)
        return look

    def _start(self, process: Process, rng: Random) -> None:
        """It has begun already, or goes on."""

    def _add(self, process: Process, rng: Random) -> None:
        for _ in range(rng.choice((1, 2, 3))):
            self._add_one(process, rng)

    def _add_one(self, process: Process, rng: Random) -> None:
        id = f"t{len(self.ids)}"
        parents: tuple[TaskRecord, ...] = ()
        if self.ids and rng.random() < 0.35:
            once = [name for name in self.ids if name not in self.grids]  # one that recurs is refused
            names = rng.sample(once, min(len(once), rng.choice((1, 1, 2))))
            parents = tuple(process.store.find(name) for name in names)
        task = draft_of(rng, id, parents, self.now, _handled)
        grid = None
        if task._rule is not None:
            grid = task._due, task._rule.interval_us
        process.store.add(task, self.now)
        self.ids.append(id)
        if grid is not None:
            self.grids[id] = grid

    def _due(self, process: Process, rng: Random) -> None:
        store = process.store
        store.signs.earlier = False
        looks = process.looks_for_the_dead()
        while store.due(self.now, self.now):
            pass
        process.wants_turn = False
        if looks:
            numbers = {other.number for other in self.processes.values()}
            self._require(owner_faults(Look(self.fleet.eye), numbers), f"after due of {process.number}")

    def _take(self, process: Process, rng: Random) -> None:
        pool = rng.choice((DEFAULT_POOL, DEFAULT_POOL, "cpu"))
        most = rng.choice((1, 1, 2, 3))  # those that are taken at once are taken in groups
        while most and process.has_room(pool) and not process.closing and self._take_of(process, pool):
            most -= 1

    def _take_of(self, process: Process, pool: str) -> bool:
        process.store.claims._taken_at[pool] = self.now  # runs seem to be short: so they are taken in groups
        run = process.store.take(self.now, pool)
        if run is None:
            return False
        start = process.begin(run, self.now)
        self.starts.append(start)
        self.seen["in a group"] += bool(process.store.claims.local(pool))
        row = row_of(self.fleet.eye, start.seq)
        assert not process.is_lost(start, row), f"began, and its row is another's: {start}; {row}"
        assert row is not None
        assert row["state"] == "running", f"began, and is {row['state']}: {start}"
        assert run.started is not None
        start.at = run.started
        return True

    def _finish(self, process: Process, rng: Random) -> None:
        if process.starts:
            start = rng.choice(process.starts)
            self._end(process, start, rng.choice((SUCCESS, SUCCESS, FAILURE)))

    def _end(self, process: Process, start: Start, outcome: Outcome) -> None:
        """A body has returned. What one says whose run is another's changes nothing."""
        store = process.store
        before = row_of(self.fleet.eye, start.seq)
        is_zombie = start.run.extra is not None and start.run.extra.zombie
        lost = not is_zombie and process.is_lost(start, before) and not store.claims.finished
        process.starts.remove(start)
        start.ended = str(outcome.state)
        store.finish(start.run, outcome, self.now)
        if lost:
            store.transactions.flush()
            now = row_of(self.fleet.eye, start.seq)
            self.seen["finish lost"] += 1
            assert now == before, f"its run was another's, and it has changed {_difference(before, now)}: {start}"

    def _renew(self, process: Process, rng: Random) -> None:
        before = {seq: row for seq, row in self._claims().items() if row[0] != process.number}
        mine = {start.seq: start for start in process.starts}
        lost = {seq for seq, start in mine.items() if process.is_lost(start, row_of(self.fleet.eye, seq))}
        process.store.renew(self.now)
        after = self._claims()
        for seq, row in before.items():
            if row[0] is not None:
                assert after.get(seq) == row, f"renew of {process.number} has changed another's {seq}: {row}"
        for seq in lost & {start.seq for start in process.starts}:
            is_zombie = mine[seq].run.extra is not None and mine[seq].run.extra.zombie  # type: ignore[union-attr]
            assert is_zombie or process.store.lease_lost(mine[seq].run), f"nobody told of the loss: {mine[seq]}"

    def _claims(self) -> dict[int, tuple[Any, ...]]:
        rows = self.fleet.eye.execute("SELECT seq, owner, token, lease FROM tasks").fetchall()
        return {row[0]: tuple(row)[1:] for row in rows}

    def _cancel(self, process: Process, rng: Random) -> None:
        if self.ids:
            process.store.cancel(process.store.find(rng.choice(self.ids)), self.now)

    def _scope(self, process: Process, rng: Random) -> Any:
        kind = rng.choice(("task", "task", "tag", "all"))
        if kind == "task" and self.ids:
            id = rng.choice(self.ids)
            return process.store.find(id)
        return "x" if kind == "tag" else None

    def _pause(self, process: Process, rng: Random) -> None:
        until = rng.choice((None, None, Instant(self.now + 2 * SECOND_US)))
        process.store.pause(self._scope(process, rng), Pause("drawn", until), self.now, self.now)

    def _resume(self, process: Process, rng: Random) -> None:
        catch_up: CatchUp = rng.choice(("none", "latest", "all"))
        process.store.resume(self._scope(process, rng), catch_up, self.now, self.now)

    def _close(self, process: Process, rng: Random) -> None:
        if not process.closing:
            process.closing = True
            process.store.close(self.now)

    def _leave(self, process: Process, rng: Random) -> None:
        if process.closing and not process.starts:
            process.store.leave()
            process.die()

    def _kill(self, process: Process, rng: Random) -> None:
        process.die()

    def _freeze(self, process: Process, rng: Random) -> None:
        process.frozen = True

    def _thaw(self, process: Process, rng: Random) -> None:
        process.frozen = False

    def _fail(self, process: Process, rng: Random) -> None:
        """One of its next statements fails."""
        process.wire.arm(rng.choice((1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20)), down)

    def _die(self, process: Process, rng: Random) -> None:
        """One of its next statements is its last, or it dies at a point between them."""
        if rng.random() < 0.6:
            process.wire.arm(rng.randrange(1, 20), Killed)
            return
        point = rng.choice(failpoints.POINTS)

        def reach(name: str) -> None:
            if name == point:
                failpoints.armed = None
                raise Killed

        failpoints.armed = reach
        verb = rng.choice(("take", "due", "renew", "add", "finish"))
        try:
            getattr(self, f"_{verb}")(process, rng)
        finally:
            failpoints.armed = None

    def _wait(self, process: Process, rng: Random) -> None:
        if self.ids and not process.closing:
            task, bell = process.store.find(rng.choice(self.ids)), Bell()
            if process.store.await_end(task, bell):
                process.waiters[task._seq] = bell

    # The end

    def _come_to_rest(self) -> None:
        """Everybody goes on until nothing is left to do, told by rings, signs and wake-ups alone."""
        self._heal()
        idle_since = 0
        for round_ in range(ROUNDS):
            busy = [self._turn(process) for process in list(self.processes.values())]
            self._look(f"round {round_} of the end")
            if any(busy):
                assert round_ - idle_since < AT_ONCE, f"turns for ever at {(self.now - NOON_US) / SECOND_US:g} s"
                continue
            idle_since = round_
            wakes = [at for process in self.processes.values() if (at := process.store.next_wake()) is not None]
            if not wakes:
                break
            self.now = min(wakes)
        else:
            raise AssertionError(f"does not come to rest in {ROUNDS} rounds")
        look = self._look("at rest")
        left = [f"{seq} ({row['id']}) in {places(row)}: {_short(row)}" for seq, row in look.live.items()]
        assert not left, f"nothing is left to do, and there are {left}"
        for process in self.processes.values():
            deaf = [seq for seq, bell in process.waiters.items() if not bell.rings]
            assert not deaf, f"nobody told {process.number} of the end of {deaf}"

    def _heal(self) -> None:
        """Nothing fails any more, nobody is paused, and what would go on for ever is cancelled."""
        for place, process in list(self.processes.items()):
            process.wire.countdown = 0
            process.frozen = False
            process.hear()
            if process.closing:
                for start in list(process.starts):
                    self._end(process, start, SUCCESS)
                self._leave(process, Random(0))
                del self.processes[place]
        if not self.processes:
            self.processes[0] = Process(self.fleet.wire(), self.bells, self.works, self.program.most_group)
        store = next(iter(self.processes.values())).store
        for scope in ("x", None):
            store.resume(scope, "none", self.now, self.now)
        for row in self._look("healed").live.values():
            if row["listed"]:
                task = store.find(row["id"])
                store.resume(task, "none", self.now, self.now)
                if row["form"].get("runs_left") is None and row["form"].get("recurring", row["rule"] is not None):
                    store.cancel(task, self.now)

    def _turn(self, process: Process) -> bool:
        """What its threads do now. Whether that was anything."""
        store, did = process.store, False
        process.hear()
        wake = store.next_wake()
        if process.wants_turn or (wake is not None and wake <= self.now) or store.signs.earlier:
            self._due(process, Random(0))
            did = True
        for pool in POOLS:
            while store.ready_runs(pool) and process.has_room(pool) and self._take_of(process, pool):
                did = True
        for start in list(process.starts):
            self._end(process, start, SUCCESS)
            did = True
        return did

    def _look_at_grids(self) -> None:
        records = records_of(self.fleet.eye)
        for id, (first, interval) in self.grids.items():
            mine = [record for record in records if record.id == id]
            self._require(grid_faults(id, first, interval, mine), "at the end")


def _handled(run: Any) -> None:
    """Nobody calls it: a store never does."""


def _difference(before: Row | None, after: Row | None) -> str:
    if before is None or after is None:
        return f"{before} to {after}"
    return ", ".join(f"{key} {value!r} to {after[key]!r}" for key, value in before.items() if value != after[key])


def _short(row: Row) -> str:
    told = {key: row[key] for key in ("state", "reason", "owner", "lane", "at", "waiting", "more", "policy")}
    return ", ".join(f"{key} {value}" for key, value in told.items() if value is not None)


def first_fault(fleet: Fleet, program: Program) -> tuple[str | None, Player]:
    """What is broken first, if anything."""
    player = Player(fleet, program)
    try:
        player.play()
    except AssertionError as error:
        return str(error) or "".join(traceback.format_exception(error)[-3:]), player
    except Exception as error:  # noqa: BLE001 - whatever a store lets out is a fault
        return "".join(traceback.format_exception(error)[-4:]), player
    return None, player


def explore(fleet: Fleet, seed: int) -> Counter[str]:
    """Play the program of that number. Raises AssertionError with all that is needed to see it again."""
    fault, player = first_fault(fleet, drawn(seed))
    if fault is not None:
        raise AssertionError(f"seed {seed}: {fault}\npython -m tests.simulation.cluster {seed}")
    return player.seen


def kind_of(fault: str) -> str:
    """The fault without its numbers and names."""
    words = fault.split(": ", 1)[-1].split("\n")[-1 if "Traceback" in fault else 0].split()
    return " ".join(word for word in words if not any(c.isdigit() for c in word))[:60]


def shrunk(fleet: Fleet, program: Program) -> Program:
    """The program without the steps that its fault does not need."""
    fault = first_fault(fleet, program)[0]
    assert fault is not None
    kind, size = kind_of(fault), len(program.steps) // 2
    while size:
        at = 0
        while at < len(program.steps):
            less = replace(program, steps=program.steps[:at] + program.steps[at + size :])
            found = first_fault(fleet, less)[0]
            if found is not None and kind_of(found) == kind:
                program = less
            else:
                at += size
        size //= 2
    return program


def main(arguments: list[str]) -> None:
    wanted = next(argument for argument in arguments if not argument.startswith("-"))
    with tempfile.TemporaryDirectory() as folder:
        fleet = Fleet(Path(folder))
        if ".." not in wanted:
            program = drawn(int(wanted))
            program = shrunk(fleet, program) if "--shrink" in arguments else program
            fault, player = first_fault(fleet, program)
            sys.stdout.write(f"{program}\n{dict(player.seen)}\nFAULT {fault}\n")
        else:
            _show_all(fleet, *map(int, wanted.split("..")))
        fleet.close()


def _show_all(fleet: Fleet, first: int, last: int) -> None:
    kinds: Counter[str] = Counter()
    for seed in range(first, last):
        fault, _ = first_fault(fleet, drawn(seed))
        if fault is not None:
            kinds[kind_of(fault)] += 1
            if kinds[kind_of(fault)] == 1:
                sys.stdout.write(f"{seed}: {fault}\n")
    sys.stdout.write(f"{kinds.total()} of {last - first}: {dict(kinds)}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
