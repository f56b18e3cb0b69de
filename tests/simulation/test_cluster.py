"""Small programs for a cluster of processes on one SQLite file, 750 of them, each played whole and looked at.

A seed that fails: `python -m tests.simulation.cluster SEED` plays it again; `--shrink` takes out what the fault does
not need. Not in here: the sockets and locks themselves, two processes at the same instant, a file that is replaced,
power that fails, pruning, wall clocks that step, and values that children take.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.planted.mutants import Mutant
from tests.simulation.cluster import Player, explore, first_fault
from tests.simulation.cluster_ledger import records_of
from tests.simulation.cluster_programs import drawn
from tests.simulation.fleet import Fleet
from tickless.core import attempts
from tickless.stores.sql import claims, rescue, session, transactions, writing

SEEDS, CHUNK = 750 * int(os.environ.get("CLUSTER_TIMES", "1")), 250


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    fleet = Fleet(tmp_path_factory.mktemp("cluster"))
    yield fleet
    fleet.close()


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_every_promise_holds_in_every_program(fleet: Fleet, first: int) -> None:
    """What nobody thought of: a zombie's process that dies while the commit of another fails."""
    for seed in range(first, first + CHUNK):
        explore(fleet, seed)


def told(player: Player) -> tuple[object, ...]:
    return player.seen, [str(start) for start in player.starts], list(map(str, records_of(player.fleet.eye)))


@pytest.mark.parametrize("seed", range(0, 400, 20))
def test_the_same_program_goes_the_same_way(fleet: Fleet, seed: int) -> None:
    """P10: else no failure could be looked at again."""
    assert told(first_fault(fleet, drawn(seed))[1]) == told(first_fault(fleet, drawn(seed))[1])


def test_everything_that_can_happen_happens(fleet: Fleet) -> None:
    """A cluster in which nobody dies at the wrong moment proves little."""
    seen: Counter[str] = Counter()
    for seed in range(300):
        player = first_fault(fleet, drawn(seed))[1]
        seen += player.seen
        for record in records_of(fleet.eye):
            seen[f"{record.state} {record.reason or ''}".strip()] += 1
            seen["tried again after a crash"] += record.state == "succeeded" and bool(record.crashed)
            seen["at most once, and crashed"] += record.reason == "crashed" and not record.tries
    wanted = {f"{verb} {how}" for verb in ("add", "due", "cancel", "renew") for how in ("failed", "killed")}
    wanted |= {"finish lost", "in a group", "finish killed", "take killed", "await", "kill", "thaw"}
    wanted |= {"succeeded", "failed", "failed crashed", "failed timed_out", "skipped overlap", "skipped replaced"}
    wanted |= {"skipped misfire", "skipped paused", "skipped parent_failed", "skipped coalesced"}
    wanted |= {"tried again after a crash", "at most once, and crashed", "cancelled cancelled"}
    assert {what for what in wanted - {"await"} if not seen[what]} == set()


# That it sees what it looks at: each of these was there once, or would do the same harm. Those that need more luck are
# in tests/stores/sql/test_predicates.py, with a scenario each.

PLANTED = [
    (
        Mutant(
            "who was silent finishes all the same",
            claims,
            "if loaded is None or not self.is_mine(loaded, run):",
            "if loaded is None:",
        ),
        54,
    ),
    (Mutant("what a lost run says is written", session, "own = None  # its", "pass  # its"), 357),
    (Mutant("what is given back has no permit", claims, ".reserved += 1", ".reserved += 0"), 34),
    (Mutant("a zombie has a lease", claims, "one.lease = None  # it is nobody", "pass  # it is nobody"), 5),
    (
        Mutant(
            "those who have something ready ring each other",
            transactions,
            'for lane in session.filled if lane.startswith("pool:")',
            "for lane in claims.ready",
        ),
        28,
    ),
    (Mutant("what waited is kept as waiting", writing, "one.kin = row[KIN]", "pass"), 57),
    (Mutant("nobody looks for the dead", rescue, "dead = set(company.dead())", "return"), 2),
    (
        Mutant(
            "a crash is no attempt",
            attempts,
            "    _plan_attempt(machine, run, special, number, outcome, at, now)\n        _wait",
            "    _wait",
        ),
        2,
    ),
    (
        Mutant(
            "at most once is run again",
            attempts,
            "at = policies.after_crash(policy, number",
            "at = policies.after_crash(policy._replace(at_most_once=False), number",
        ),
        25,
    ),
    (Mutant("what was not written is forgotten", claims, "self.finished.extendleft(reversed(said))", "pass"), 279),
    (Mutant("what is closed keeps its runs", claims, "self._give_back(loaded)", "pass"), 148),
]


@pytest.mark.parametrize(("mutant", "seed"), PLANTED, ids=str)
def test_a_planted_bug_is_found(fleet: Fleet, mutant: Mutant, seed: int) -> None:
    """A checker that says nothing of all programs may have nothing to say. `seed`: the first that has found it."""
    with mutant.planted():
        assert any(first_fault(fleet, drawn(one))[0] for one in (seed, *range(500)))
