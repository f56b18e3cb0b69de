"""Each condition of the claims, ends and renewals, taken out: a scenario that is not about it passes, and one fails.

A condition that no scenario misses is either not needed, and then it is in `EQUIVALENT` with the reason, or not tested.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import FunctionType, ModuleType
from typing import Any

import pytest

from tests.planted.mutants import _functions
from tests.simulation.fleet import Fleet
from tests.stores.sql import scenarios as of
from tests.stores.sql import scenarios_of_leases as leases
from tests.stores.sql.lab import Lab
from tickless.stores.sql import claims, company, rescue, session, store, transactions, writing
from tickless.stores.sql.statements import load

ASK = load("queries.sql")
ANYTHING = "? IS NOT 'x'"
"""In place of a condition with an argument: true of whatever is given."""


@dataclass(frozen=True)
class Query:
    """`old`, in the query of that name, becomes `new`."""

    name: str
    old: str
    new: str

    def __str__(self) -> str:
        return f"{self.name} without {self.old.removeprefix('AND ').removesuffix(' AND')}"

    @contextmanager
    def planted(self) -> Iterator[None]:
        right = ASK[self.name]
        assert self.old in right, f"{self.name}: {self.old!r} is not in it; plant the bug anew"
        vars(ASK)[self.name] = right.replace(self.old, self.new)
        try:
            yield
        finally:
            vars(ASK)[self.name] = right


@dataclass(frozen=True)
class Lines:
    """Pieces of a module's functions, each of which becomes another, all at once."""

    what: str
    modules: tuple[ModuleType, ...]
    pieces: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        return self.what

    @contextmanager
    def planted(self) -> Iterator[None]:
        """The library without the condition. Raises AssertionError when a piece is not there to be taken out."""
        missing = {old for old, _ in self.pieces}
        with ExitStack() as after:
            for owner, name, function in [each for module in self.modules for each in _functions(module)]:
                source = wrong = inspect.getsource(function)
                for old, new in self.pieces:
                    missing -= {old} if old in source else set()
                    wrong = wrong.replace(old, new)
                if wrong != source:
                    after.callback(setattr, owner, name, function)
                    setattr(owner, name, self._made(function, wrong))
            assert not missing, f"{self.what}: {missing} is not there; plant the bug anew"
            yield

    def _made(self, function: FunctionType, source: str) -> FunctionType:
        if source[0] == " ":
            source = f"if True:\n{source}"
        names: dict[str, Any] = {}
        code = compile(f"from __future__ import annotations\n{source}", f"<planted: {self.what}>", "exec")
        exec(code, dict(function.__globals__), names)  # our own source with a condition less
        broken = names[function.__name__]
        return FunctionType(broken.__code__, function.__globals__, function.__name__, function.__defaults__)


def line(what: str, module: ModuleType, old: str, new: str) -> Lines:
    return Lines(what, (module,), ((old, new),))


def both(one: Lines, other: Lines) -> Lines:
    """Conditions that stand in for one another: only without either something breaks."""
    modules = tuple(dict.fromkeys(one.modules + other.modules))
    return Lines(f"{one} and {other}", modules, one.pieces + other.pieces)


HELPERS = {leases.lost, leases.retaken}
ALL: list[Callable[[Lab], None]] = [
    one
    for module in (leases, of)
    for one in vars(module).values()
    if isinstance(one, FunctionType) and one.__module__ == module.__name__ and one not in HELPERS
]
TAKE = "WHERE lane = ? AND trouble IS NULL ORDER BY priority DESC, turn LIMIT ?"
SILENT = "owner IS NOT NULL AND owner <> ? AND lease <= ? AND trouble IS NULL"
IS_OWN = "owner == self.company.number and self._tokens.get(seq) == token"
OF_DEAD = line("recover of any owner", rescue, '"WHERE owner = ? AND trouble', f'"WHERE {ANYTHING} AND trouble')
OF_ANY = line("crash of any owner", rescue, "if loaded.owner != number:", "if False:")
NOT_ME = line("silent without owner <> me", rescue, SILENT, SILENT.replace("owner <> ?", ANYTHING))
NOT_ME_LAST = line("silent without the second owner <> me", rescue, "owner != company.number and lease", "lease")
OVER = line("silent without lease <= now", rescue, SILENT, SILENT.replace("lease <= ?", ANYTHING))
OVER_TOO = line("silent without the second lease <= now", rescue, " and lease <= now", "")
HALF = line(
    "what was read by half counts", session, "self.shared.stale = True  # until", "self.shared.stale = False  # until"
)
HALF_TOO = line(
    "a look that failed", transactions, "self._session.shared.stale = True  # it may be", "pass  # it may be"
)

KILLED: list[tuple[Query | Lines, Callable[[Lab], None]]] = [
    # renew
    (Query("renew", "seq = ? AND", f"{ANYTHING} AND"), leases.one_of_two_runs_is_lost_and_the_other_is_not),
    (Query("renew", "owner = ?", ANYTHING), leases.whoever_is_silent_loses_the_run_and_is_told),
    (
        line("a renewal that was not committed counts", claims, "self._renewed[seq] =", "self._leases[seq] ="),
        leases.a_renewal_that_fails_is_none,
    ),
    (
        line("a renewal is not known here", claims, "self._leases |= self._renewed", "pass"),
        leases.a_renewed_run_that_waits_begins,
    ),
    # the fence: is_mine
    (
        line("is_mine without the owner", claims, IS_OWN, "self._tokens.get(seq) == token"),
        leases.what_a_lost_run_says_changes_nothing,
    ),
    (
        line("is_mine without the owner, at most once", claims, IS_OWN, "self._tokens.get(seq) == token"),
        leases.at_most_once_has_failed_whatever_is_said_later,
    ),
    (
        line("is_mine without the run", claims, " and self._session.own_runs.get(seq) is run\n", "\n"),
        leases.what_is_said_of_an_older_run_of_the_same_process_changes_nothing,
    ),
    (
        line(
            "finish without is_mine",
            claims,
            "if loaded is None or not self.is_mine(loaded, run):\n            if task",
            "if loaded is None:\n            if task",
        ),
        leases.what_a_lost_run_says_changes_nothing,
    ),
    (
        line("let_go without is_mine", claims, " or not self.is_mine(one, run):", ":"),
        leases.whoever_cancels_what_it_has_lost_leaves_it_to_its_owner,
    ),
    (
        line(
            "give_back without is_mine",
            claims,
            "if loaded is not None and self.is_mine(loaded, run):\n                    self._give_back",
            "if loaded is not None:\n                    self._give_back",
        ),
        leases.whoever_closes_gives_back_what_is_its_own,
    ),
    (
        line(
            "stop without is_mine",
            claims,
            "if loaded is not None and self.is_mine(loaded, run):\n                ask_to_stop",
            "if loaded is not None:\n                ask_to_stop",
        ),
        leases.whoever_stops_its_runs_stops_none_of_another,
    ),
    (
        line("take_in without is_own", session, "not self.is_own(seq, row[OWNER], row[TOKEN])", "False"),
        leases.what_a_lost_run_knows_of_attempts_is_not_written,
    ),
    # between take and begin: hindrance
    (
        line("hindrance without the stop", claims, "if is_to_stop(run):", "if False:"),
        leases.a_run_that_was_cancelled_does_not_begin,
    ),
    (
        line("hindrance without the lease", claims, "self._leases.get(seq, 0) <= now or ", ""),
        leases.a_run_whose_lease_is_over_does_not_begin,
    ),
    (
        line("hindrance without the run", claims, " or self._session.own_runs.get(seq) is not run:", ":"),
        leases.a_run_that_was_taken_once_more_begins_once,
    ),
    (
        line("who has slept fails its run", store, "if hindrance is SLEPT or isinstance", "if isinstance"),
        leases.a_run_that_waited_while_its_process_slept_is_ready_again,
    ),
    # recover
    (Query("claimants", " WHERE owner IS NOT NULL", ""), of.the_run_of_a_dead_process_begins_again),
    (
        line("recover without lives", rescue, "if number in dead or not company.lives(number):", "if True:"),
        of.of_three_only_the_dead_one_is_robbed,
    ),
    (
        line(
            "recover without those who left",
            rescue,
            "if number in dead or not company.lives(number):",
            "if number in dead:",
        ),
        of.the_run_of_one_who_left_no_name_begins_again,
    ),
    (both(OF_DEAD, OF_ANY), of.of_three_only_the_dead_one_is_robbed),
    (both(NOT_ME, NOT_ME_LAST), leases.a_process_does_not_rob_itself),
    (both(OVER, OVER_TOO), leases.a_run_within_its_lease_is_left_alone),
    (Query("leave", "number = ?", ANYTHING), of.of_three_only_the_dead_one_is_robbed),
    (
        line("recover of nobody who is silent", rescue, SILENT, "0 AND " + SILENT),
        leases.whoever_is_silent_loses_the_run_and_is_told,
    ),
    (
        line("a dead zombie keeps its permit", rescue, "if loaded.kin & ZOMBIE_PERMIT and", "if False and"),
        of.a_dead_zombie_gives_its_permit_back,
    ),
    (
        line("a zombie has a lease", claims, "one.lease = None  # it is nobody", "pass  # it is nobody"),
        of.a_zombie_is_its_process_s_for_as_long_as_that_lives,
    ),
    (
        line(
            "a recovery is lost with a transaction",
            transactions,
            "self.rung = claims.rescue.is_due = True  # what",
            "pass  # what",
        ),
        of.a_recovery_that_failed_is_done_again,
    ),
    # when to wake
    (Query("first_lease", "owner <> ?", ANYTHING), leases.nobody_wakes_for_a_lease_of_its_own),
    (Query("first_lease", "AND trouble IS NULL", ""), leases.a_row_that_is_set_aside_wakes_nobody),
    (
        line(
            "a lease of nobody",
            transactions,
            "self._lease_at = FOREVER\n        if",
            "if",
        ),
        leases.whoever_is_alone_again_wakes_for_nobody,
    ),
    (Query("head", "at IS NOT NULL AND", ""), of.what_has_no_time_hides_no_time),
    (Query("head", "AND trouble IS NULL", ""), of.a_time_of_a_row_that_is_set_aside_wakes_nobody),
    # take
    (
        line("take without the lane", claims, f'"{TAKE}"', f'"{TAKE.replace("lane = ?", ANYTHING)}"'),
        of.each_pool_gets_its_own,
    ),
    (
        line("a bad row hides the others", claims, "while not found and", "while False and"),
        of.one_bad_row_is_set_aside_and_no_other,
    ),
    (
        line("take without trouble", claims, f'"{TAKE}"', f'"{TAKE.replace(" AND trouble IS NULL", "")}"'),
        of.a_row_that_is_set_aside_is_passed_by,
    ),
    (Query("ready", "lane = ?", ANYTHING), of.each_pool_gets_its_own),
    (Query("ready", "AND trouble IS NULL", ""), of.a_row_that_is_set_aside_is_passed_by),
    (Query("lower_priority", "priority < ?", ANYTHING), of.what_is_lower_comes_into_view_once),
    (Query("set_aside", "seq = ?", ANYTHING), of.one_bad_row_is_set_aside_and_no_other),
    (
        line("what is given back has no permit", claims, ".reserved += 1", ".reserved += 0"),
        of.what_is_given_back_reserves_its_permit,
    ),
    (
        line("what waited is kept as waiting", writing, "one.kin = row[KIN]", "pass"),
        of.a_child_that_runs_here_is_not_let_go_once_more,
    ),
    # telling
    (Query("to_stop", "stop = 1", "stop = 0"), of.a_cancel_reaches_the_process_that_runs_it),
    (Query("ended_among", " AND ended IS NULL", ""), of.who_waits_is_told_of_an_end_elsewhere),
    (Query("ended_among", "seq = one.value AND", ""), of.who_waits_is_told_of_an_end_elsewhere),
    (Query("ended_among", "seq = one.value", "seq = value"), of.who_waits_is_not_told_of_the_end_of_another),
    (
        line("a look that failed", transactions, "self._unseen = True", "self._unseen = False"),
        of.who_waits_is_told_though_the_first_look_failed,
    ),
    (
        line(
            "any queue that was looked at",
            transactions,
            'for lane in session.filled if lane.startswith("pool:")',
            "for lane in session.lanes | claims.ready.keys()",
        ),
        of.two_who_have_nothing_to_do_do_not_ring_each_other,
    ),
    (
        line("nobody is told what is ready", transactions, "self._tell_others(is_ready or", "self._tell_others("),
        of.what_is_ready_is_told_to_the_others,
    ),
    # undone
    (
        line("a timeout is not undone", claims, "self._zombies.undo()", "None"),
        of.a_timeout_that_was_not_written_comes_again,
    ),
    (both(HALF, HALF_TOO), of.a_look_that_failed_in_the_middle_is_made_again),
]
"""The condition that is taken out -> the scenario that misses it."""

EQUIVALENT: dict[str, Query | Lines] = {
    "a process knows one token a task, and no row of its own number has another": Query("renew", "token = ?", ANYTHING),
    "likewise, and the run itself is compared": line(
        "is_mine without the token", claims, IS_OWN, "owner == self.company.number"
    ),
    "who is not among the others is asked for by its lock": line(
        "recover without dead", rescue, "if number in dead or not", "if not"
    ),
    "its own lock is held": line("lives without me", company, "number == self.number or ", ""),
    "owner <> ? is true of no NULL": Query("first_lease", "owner IS NOT NULL AND", ""),
    "what is loaded is looked at again: owner": OF_DEAD,
    "nothing else was loaded: owner": OF_ANY,
    "what is loaded is looked at again: not me": NOT_ME,
    "nothing else was loaded: not me": NOT_ME_LAST,
    "what is loaded is looked at again: lease": OVER,
    "nothing else was loaded: lease": OVER_TOO,
    "owner <> ? is true of no NULL, in the silent": line(
        "silent without owner", rescue, SILENT, SILENT.replace("owner IS NOT NULL AND ", "")
    ),
    "no record is made of a row that is set aside: silent": line(
        "silent without trouble", rescue, SILENT, SILENT.replace(" AND trouble IS NULL", "")
    ),
    "no record is made of a row that is set aside: dead": line(
        "recover without trouble", rescue, '"WHERE owner = ? AND trouble IS NULL"', '"WHERE owner = ?"'
    ),
    "it loads more than it needs, and a flag is set only of a run whose row says so": Query(
        "to_stop", "owner = ? AND", f"{ANYTHING} AND"
    ),
    "likewise: rows that nobody stops": Query("to_stop", "AND stop = 1", ""),
    "what it finds is loaded by the lane": Query("lower_priority", "lane = ? AND", f"{ANYTHING} AND"),
    "what it finds is loaded where it is of use": Query("lower_priority", "AND trouble IS NULL", ""),
}
"""Why nothing is different without it -> the condition. All scenarios pass; a new one that fails belongs above."""


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    fleet = Fleet(tmp_path_factory.mktemp("predicates"))
    yield fleet
    fleet.close()


def play(fleet: Fleet, scenario: Callable[[Lab], None]) -> None:
    lab = Lab(fleet)
    try:
        scenario(lab)
    finally:
        lab.end()


@pytest.mark.parametrize("scenario", ALL, ids=lambda scenario: scenario.__name__)
def test_a_scenario_goes_as_it_should(fleet: Fleet, scenario: Callable[[Lab], None]) -> None:
    """Two processes on one file, and what each must not do to the other."""
    play(fleet, scenario)


@pytest.mark.parametrize(("mutant", "scenario"), KILLED, ids=str)
def test_a_scenario_misses_the_condition(fleet: Fleet, mutant: Query | Lines, scenario: Callable[[Lab], None]) -> None:
    """A condition that nothing misses may be taken out by the next who makes the query quicker.

    The store itself may notice before the scenario does, so any exception will do.
    """
    with mutant.planted(), pytest.raises(Exception):
        play(fleet, scenario)
    play(fleet, scenario)


@pytest.mark.parametrize("mutant", EQUIVALENT.values(), ids=str)
def test_nothing_misses_what_is_said_not_to_be_needed(fleet: Fleet, mutant: Query | Lines) -> None:
    """What is in that list since no scenario was found for it would be a hole with a label."""
    with mutant.planted():
        for scenario in ALL:
            play(fleet, scenario)


def test_every_scenario_is_missed_by_something_or_about_the_whole() -> None:
    """A scenario that no mutant fails may prove nothing."""
    used = {scenario for _, scenario in KILLED}
    about_the_whole = {leases.whoever_renews_keeps_the_run}
    assert set(ALL) - used == about_the_whole
