"""The dead, queues, bells, and transactions that fail: what processes on one file owe each other."""

from __future__ import annotations

from contextlib import suppress

from tests.simulation.fleet import down
from tests.stores.sql.lab import LEASE, Lab
from tickless.errors import StoreDown
from tickless.instants import SECOND_US
from tickless.records import SUCCESS
from tickless.rules import after
from tickless.testing.drafts import Bell, later

# The dead


def the_run_of_a_dead_process_begins_again(lab: Lab) -> None:
    a, b = lab.two()
    lab.add(a, "later", after(60))
    lab.add(a, "t")
    lab.take(a, 0)
    a.die()
    lab.turn(b, 1)
    lab.says("t", state="ready", owner=None)
    lab.says("later", state=None)
    run = lab.take(b, 1)
    assert run.extra is not None
    assert [one.number for one in run.extra.attempts] == [1]


def the_run_of_one_who_left_no_name_begins_again(lab: Lab) -> None:
    a, _ = lab.two()
    lab.add(a, "t")
    lab.take(a, 0)
    lab.fleet.eye.execute("DELETE FROM owners WHERE number = ?", (a.number,))
    a.die()
    c = lab.process()
    lab.turn(c, 1)
    lab.says("t", state="ready", owner=None)


def of_three_only_the_dead_one_is_robbed(lab: Lab) -> None:
    a, b = lab.two()
    c = lab.process()
    lab.add(a, "t")
    lab.take(a, 0)
    lab.add(b, "u")
    lab.take(b, 0)
    a.die()
    lab.turn(c, 1)
    lab.says("t", state="ready", owner=None)
    lab.says("u", state="running", owner=b.number)
    numbers = {number for (number,) in lab.fleet.eye.execute("SELECT number FROM owners")}
    assert numbers == {b.number, c.number}


def a_dead_zombie_gives_its_permit_back(lab: Lab) -> None:
    a, b = lab.two()
    lab.add(a, "t", limit="db", timeout_us=SECOND_US)
    lab.add(a, "u", limit="db")
    lab.take(a, 0)
    lab.turn(a, 2)
    lab.says("t", state="failed", owner=a.number, lease=None)
    lab.says("u", lane="limit:db")
    a.die()
    lab.turn(b, 3)
    lab.says("t", owner=None)
    lab.says("u", lane="pool:default")


def a_zombie_is_its_process_s_for_as_long_as_that_lives(lab: Lab) -> None:
    a, b = lab.two()
    lab.add(a, "t", timeout_us=SECOND_US)
    lab.take(a, 0)
    lab.turn(a, 2)
    lab.turn(b, 3 * LEASE)
    b.line.rung = True
    lab.turn(b, 3 * LEASE)
    lab.says("t", state="failed", owner=a.number)


def a_recovery_that_failed_is_done_again(lab: Lab) -> None:
    a, b = lab.two()
    lab.add(a, "t")
    lab.take(a, 0)
    b.line.rung = True
    lab.turn(b, 0)
    a.die()
    b.hear()
    b.wire.arm(4, down)
    with suppress(StoreDown):
        b.store.due(later(1), later(1))
    lab.turn(b, 1)
    lab.says("t", state="ready", owner=None)


# Queues


def each_pool_gets_its_own(lab: Lab) -> None:
    a, _ = lab.two()
    lab.add(a, "t", pool="cpu")
    lab.add(a, "u")
    lab.turn(a, 0)
    assert (a.store.ready_runs("cpu"), a.store.ready_runs()) == (1, 1)
    run = lab.take(a, 0)
    assert run.task.id == "u"
    assert lab.take(a, 0, "cpu").task.id == "t"


def a_row_that_is_set_aside_is_passed_by(lab: Lab) -> None:
    a, b = lab.two()
    lab.add(a, "t")
    lab.add(a, "u")
    lab.set_aside("t")
    b.line.rung = True
    lab.turn(b, 0)
    assert b.store.ready_runs() == 1
    assert lab.take(b, 0).task.id == "u"
    assert b.store.ready_runs() == 0, "it would be asked for over and over"


def a_time_of_a_row_that_is_set_aside_wakes_nobody(lab: Lab) -> None:
    a, _ = lab.two()
    lab.add(a, "t", after(5))
    lab.add(a, "u", after(9))
    lab.set_aside("t")
    lab.turn(a, 6)
    a.line.rung = True
    lab.turn(a, 6)
    assert a.store.next_wake() == later(9)


def what_has_no_time_hides_no_time(lab: Lab) -> None:
    a, _ = lab.two()
    parent = lab.add(a, "t", after(5))
    lab.add(a, "u", parents=(parent,))
    assert a.store.next_wake() == later(5)


def what_is_lower_comes_into_view_once(lab: Lab) -> None:
    a, _ = lab.two()
    for number in range(3):
        lab.add(a, f"t{number}", priority=number)
    a.wire.arm(400, lambda: AssertionError("it never ends"))
    assert [lab.take(a, 0).task.id for _ in range(3)] == ["t2", "t1", "t0"]
    a.wire.countdown = 0


def one_bad_row_is_set_aside_and_no_other(lab: Lab) -> None:
    a, _ = lab.two()
    lab.add(a, "t")
    lab.add(a, "u")
    lab.fleet.eye.execute("UPDATE tasks SET more = 'no JSON' WHERE id = 't'")
    assert lab.take(a, 0).task.id == "u"
    assert [*a.store.unusable()] == ["t"]


# Telling each other


def a_cancel_reaches_the_process_that_runs_it(lab: Lab) -> None:
    a, b = lab.two()
    lab.add(a, "t")
    run = lab.take(a, 0)
    b.store.cancel(b.store.find("t"), later(1))
    assert a.line.rung
    lab.turn(a, 1)
    assert run.stop, "nobody told it"


def who_waits_is_told_of_an_end_elsewhere(lab: Lab) -> None:
    a, b = lab.two()
    lab.add(a, "other", after(60))
    task, bell = lab.add(a, "t"), Bell()
    assert a.store.await_end(task, bell)
    lab.turn(b, 0)
    lab.finish(b, lab.take(b, 0), 1)
    a.hear()
    assert bell.rings == 1


def who_waits_is_not_told_of_the_end_of_another(lab: Lab) -> None:
    a, b = lab.two()
    task, bell = lab.add(a, "t", after(60)), Bell()
    assert a.store.await_end(task, bell)
    assert a.store.await_end(lab.add(a, "u"), Bell())
    lab.turn(b, 0)
    lab.finish(b, lab.take(b, 0), 1)
    a.hear()
    assert bell.rings == 0


def who_waits_is_told_though_the_first_look_failed(lab: Lab) -> None:
    a, b = lab.two()
    task, bell = lab.add(a, "t"), Bell()
    assert a.store.await_end(task, bell)
    lab.turn(b, 0)
    lab.finish(b, lab.take(b, 0), 1)
    a.wire.arm(1, down)
    a.hear()
    lab.turn(a, 1)
    assert bell.rings == 1


def what_is_ready_is_told_to_the_others(lab: Lab) -> None:
    a, b = lab.two()
    a.hear()
    b.hear()
    lab.add(a, "t")
    assert b.line.rung, "its workers may be free"


def two_who_have_nothing_to_do_do_not_ring_each_other(lab: Lab) -> None:
    a, b = lab.two()
    for id in ("t", "u"):
        lab.add(a, id, limit="db")
    lab.add(a, "v")
    lab.turn(b, 0)
    a.line.rung = b.line.rung = False
    a.store.transactions.rung = b.store.transactions.rung = True
    for process, other in ((a, b), (b, a)):
        lab.turn(process, 0)
        assert not other.line.rung, "each ring is answered by another"


# What a transaction that failed leaves behind


def a_timeout_that_was_not_written_comes_again(lab: Lab) -> None:
    a, _ = lab.two()
    lab.add(a, "t", timeout_us=SECOND_US)
    run = lab.take(a, 0)
    a.wire.arm_commit()
    with suppress(StoreDown):
        a.store.due(later(2), later(2))
    lab.says("t", state="running")
    lab.turn(a, 2)
    lab.says("t", state="failed", reason="timed_out")
    lab.finish(a, run, 3)
    lab.says("t", state="failed", owner=None)


def a_look_that_failed_in_the_middle_is_made_again(lab: Lab) -> None:
    a, b = lab.two()
    for statements in range(1, 12):
        lab.add(b, f"t{statements}", after(60))
        a.wire.arm(statements, down)
        with suppress(StoreDown):
            a.store.find(f"t{statements}")
        a.wire.countdown = 0
        lab.add(a, f"u{statements}", after(60))
    live = lab.fleet.eye.execute("SELECT live FROM facts").fetchone()[0]
    assert live == 22, f"{live} are said to live"


def what_is_given_back_reserves_its_permit(lab: Lab) -> None:
    a, _ = lab.two()
    lab.group(a, 0, "t", "u", limit="api")
    a.store.close(later(0))
    lab.says("u", state="ready")
    limit = dict(lab.fleet.eye.execute("SELECT held, reserved FROM limits WHERE name = 'api'").fetchone())
    assert limit == {"held": 2, "reserved": 1}


def a_child_that_runs_here_is_not_let_go_once_more(lab: Lab) -> None:
    a, _ = lab.two()
    parents = lab.add(a, "p", priority=2), lab.add(a, "q", priority=1)
    lab.add(a, "t", parents=parents, run_if="any_succeeded")
    lab.add(a, "z", priority=-1)
    first, second = lab.take(a, 0), lab.take(a, 0)
    a.store.claims.finish(first, SUCCESS, later(1))  # settled by the take that follows, in one transaction
    child = lab.take(a, 1)
    assert child.task.id == "t"
    lab.finish(a, second, 2)
    lab.says("t", state="running", owner=a.number, lane=None, kin=lab.row("t")["kin"] & ~4)
