"""Leases and the fence: what who was silent must not do to the one that has its run."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from tests.simulation.fleet import LEASE_US, Process
from tests.stores.sql.lab import LEASE, Lab
from tickless.core.record import RunRecord
from tickless.errors import StoreDown
from tickless.states import DEFAULT_POOL
from tickless.testing.drafts import later


def lost(lab: Lab, **given: Any) -> tuple[Process, Process, RunRecord]:
    """A took a run, and was silent for longer than its lease; B has seen that, so the run is ready again."""
    a, b = lab.two()
    lab.add(a, "t", **given)
    run = lab.take(a, 0)
    lab.turn(b, LEASE + 1)
    lab.says("t", owner=None)
    return a, b, run


# The lease


def whoever_is_silent_loses_the_run_and_is_told(lab: Lab) -> None:
    a, _, run = lost(lab)
    lab.says("t", state="ready", token=1)
    a.store.renew(later(LEASE + 2))
    lab.says("t", state="ready", lease=None)
    assert a.store.lease_lost(run)


def one_of_two_runs_is_lost_and_the_other_is_not(lab: Lab) -> None:
    a, b = lab.two()
    lab.add(a, "t")
    first = lab.take(a, 0)
    lab.add(a, "u")
    second = lab.take(a, 5)
    lab.turn(b, LEASE + 1)
    a.store.renew(later(LEASE + 2))
    assert a.store.lease_lost(first), "it has a run no more, and was not told"
    assert not a.store.lease_lost(second)
    lab.says("u", owner=a.number, lease=later(LEASE + 2) + LEASE_US)


def whoever_renews_keeps_the_run(lab: Lab) -> None:
    a, b = lab.two()
    lab.add(a, "t")
    run = lab.take(a, 0)
    a.store.renew(later(LEASE - 1))
    lab.turn(b, LEASE + 1)
    lab.says("t", owner=a.number, state="running")
    lab.finish(a, run, LEASE + 2)
    lab.says("t", state="succeeded")


def a_process_does_not_rob_itself(lab: Lab) -> None:
    a, _ = lab.two()
    lab.add(a, "t")
    lab.take(a, 0)
    a.line.rung = True
    lab.turn(a, LEASE + 1)
    lab.says("t", owner=a.number, state="running")


def a_run_within_its_lease_is_left_alone(lab: Lab) -> None:
    a, b = lab.two()
    lab.add(a, "t")
    lab.take(a, 0)
    b.line.rung = True
    lab.turn(b, 1)
    lab.says("t", owner=a.number, state="running")


def nobody_wakes_for_a_lease_of_its_own(lab: Lab) -> None:
    a, b = lab.two()
    lab.add(a, "t")
    lab.take(a, 0)
    lab.turn(b, 0)
    assert a.store.next_wake() is None
    assert b.store.next_wake() == later(LEASE)


def a_row_that_is_set_aside_wakes_nobody(lab: Lab) -> None:
    a, b = lab.two()
    lab.add(a, "t")
    lab.take(a, 0)
    lab.set_aside("t")
    lab.turn(b, LEASE + 1)
    b.line.rung = True
    lab.turn(b, LEASE + 1)
    assert b.store.next_wake() is None, "it would wake at once, and for ever"


def whoever_is_alone_again_wakes_for_nobody(lab: Lab) -> None:
    a, b = lab.two()
    lab.add(a, "t", at_most_once=True)
    lab.take(a, 0)
    b.line.rung = True
    lab.turn(b, 0)
    a.die()
    lab.turn(b, 1)
    lab.says("t", state="failed", reason="crashed")
    assert b.store.next_wake() is None, "it would wake at once, and for ever"


def a_renewed_run_that_waits_begins(lab: Lab) -> None:
    a, _ = lab.two()
    lab.group(a, 0, "t", "u")
    a.store.renew(later(LEASE - 1))
    run = a.store.take(later(LEASE + 1))
    assert run is not None
    lab.says("u", state="running", token=1)


def a_renewal_that_fails_is_none(lab: Lab) -> None:
    a, b = lab.two()
    lab.group(a, 0, "t", "u")
    a.wire.arm_commit()
    with suppress(StoreDown):
        a.store.renew(later(LEASE - 1))
    lab.says("u", lease=later(LEASE))
    lab.turn(b, LEASE + 1)
    lab.says("u", owner=None)
    assert a.store.take(later(LEASE + 1)) is None, "began what was taken from it"


# The fence


def what_a_lost_run_says_changes_nothing(lab: Lab) -> None:
    a, _, run = lost(lab)
    before = lab.row("t")
    lab.finish(a, run, LEASE + 2)
    assert lab.row("t") == before


def at_most_once_has_failed_whatever_is_said_later(lab: Lab) -> None:
    a, _, run = lost(lab, at_most_once=True)
    lab.says("t", state="failed", reason="crashed")
    lab.finish(a, run, LEASE + 2)
    lab.says("t", state="failed", reason="crashed", finished=later(LEASE + 1))


def what_is_said_of_an_older_run_of_the_same_process_changes_nothing(lab: Lab) -> None:
    a, _, run = lost(lab)
    lab.turn(a, LEASE + 2)
    newer = lab.take(a, LEASE + 2)
    lab.says("t", state="running", token=2)
    lab.finish(a, run, LEASE + 3)
    lab.says("t", state="running", owner=a.number, token=2, ended=None)
    lab.finish(a, newer, LEASE + 4)
    lab.says("t", state="succeeded", finished=later(LEASE + 4))


def retaken(lab: Lab) -> tuple[Process, Process, RunRecord]:
    """B runs what A has lost."""
    a, b, run = lost(lab)
    lab.take(b, LEASE + 1)
    lab.says("t", owner=b.number, token=2)
    return a, b, run


def whoever_cancels_what_it_has_lost_leaves_it_to_its_owner(lab: Lab) -> None:
    a, b, _ = retaken(lab)
    a.store.cancel(a.store.find("t"), later(LEASE + 2))
    lab.says("t", owner=b.number, state="running", stop=1, started=later(LEASE + 1), finished=None)


def whoever_stops_its_runs_stops_none_of_another(lab: Lab) -> None:
    a, b, _ = retaken(lab)
    a.store.stop_running()
    lab.says("t", owner=b.number, stop=0)


def what_a_lost_run_knows_of_attempts_is_not_written(lab: Lab) -> None:
    """Attempt 2 is lost; attempt 3 has two before it."""
    first, a = lab.two()
    b = lab.process()
    lab.add(first, "t")
    lab.take(first, 0)
    first.die()
    lab.turn(a, 1)
    run = lab.take(a, 1)
    lab.turn(b, 1 + LEASE)
    lab.turn(b, 3 + LEASE)
    lab.take(b, 3 + LEASE)
    before = lab.row("t")
    assert before["more"].count("crashed") >= 2
    lab.finish(a, run, 4 + LEASE)
    assert lab.row("t") == before


# Between take and begin


def a_run_that_was_cancelled_does_not_begin(lab: Lab) -> None:
    a, _ = lab.two()
    lab.group(a, 0, "t", "u")
    a.store.cancel(a.store.find("u"), later(1))
    assert a.store.take(later(1)) is None
    a.store.transactions.flush()
    lab.says("u", state="cancelled", owner=None)


def a_run_whose_lease_is_over_does_not_begin(lab: Lab) -> None:
    a, b = lab.two()
    lab.group(a, 0, "t", "u")
    lab.turn(b, LEASE + 1)
    lab.take(b, LEASE + 1)
    lab.take(b, LEASE + 1)
    lab.says("u", owner=b.number)
    assert a.store.take(later(LEASE + 1)) is None, "began what another runs"


def a_run_that_waited_while_its_process_slept_is_ready_again(lab: Lab) -> None:
    a, _ = lab.two()
    lab.group(a, 0, "t", "u")
    run = a.store.take(later(LEASE + 1))
    assert run is not None, "it was given up, though nobody else has it"
    assert run.started == later(LEASE + 1)
    lab.says("u", state="running", owner=a.number, token=2)


def a_run_that_was_taken_once_more_begins_once(lab: Lab) -> None:
    """u is lost while it waits here, and taken here again; the older one is first in line."""
    a, b = lab.two()
    lab.group(a, 0, "t", "u")
    waiting = a.store.claims.local(DEFAULT_POOL)
    older = waiting.popleft()
    lab.turn(b, LEASE + 1)
    lab.turn(a, LEASE + 1)
    taken = [lab.take(a, LEASE + 1), lab.take(a, LEASE + 1)]
    waiting.appendleft(older)
    assert a.store.take(later(LEASE + 1)) is None, "the run that was lost begins"
    lab.says("u", state="running", owner=a.number, token=2)
    for run in taken:
        lab.finish(a, run, LEASE + 2)
    lab.says("u", state="succeeded")


def whoever_closes_gives_back_what_is_its_own(lab: Lab) -> None:
    a, b = lab.two()
    lab.group(a, 0, "t", "u", "v")
    lab.fleet.eye.execute("UPDATE tasks SET lease = 0 WHERE id = 'u'")
    lab.turn(b, 1)
    lab.take(b, 1)
    lab.says("u", owner=b.number, state="running")
    a.store.close(later(2))
    lab.says("u", owner=b.number, state="running")
    lab.says("v", owner=None, state="ready")
    lab.says("t", owner=a.number, state="running")
