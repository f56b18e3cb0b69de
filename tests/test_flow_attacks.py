"""Flows under attack: what a user might do that the definition, the rounds and their handles are not made for."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from itertools import count
from typing import Any

import pytest

from tests.flow_bench import MINUTE, Place, fail, note, states, told
from tickless import (
    Cancelled,
    DependencyError,
    FlowError,
    Limit,
    Reason,
    Retry,
    ScheduleError,
    State,
    UnknownTask,
    cron,
    every,
)
from tickless.instants import Instant
from tickless.round_info import RoundInfo, RoundTask
from tickless.states import RunIf


@pytest.fixture
def place() -> Iterator[Place]:
    made = Place()
    yield made
    made.pool.run_all()
    made.check()
    made.scheduler.close()


# Clocks and ids


@pytest.mark.parametrize("hours", [5, -2])
def test_a_round_of_the_wall_clock_starts_its_tasks_though_that_clock_was_set(place: Place, hours: int) -> None:
    """Its due is an instant of the wall clock; its tasks live on the other, and would start hours late."""
    place.scheduler.start()
    place.clock.step_wall(timedelta(hours=hours))
    flow = place.chain(note, note, when=cron("0 * * * *"))
    place.advance(60 * MINUTE)
    place.step(3)
    assert states(flow) == ["succeeded"]
    assert flow.rounds()[0].tasks["0"].runs()[0].started_us == place.clock.now()


@pytest.mark.parametrize("back", [0, -5])
def test_what_waits_keeps_its_instant_when_the_rule_is_of_another_clock(place: Place, back: int) -> None:
    """Its due would be hours to come on the other clock, and so would be those of its tasks.

    It has come, so it is not to come again where the wall clock was set back meanwhile.
    """
    place.scheduler.start()
    place.clock.step_wall(timedelta(hours=5))
    flow = place.chain(note, when=cron("* * * * *"), overlap="queue", params={"x": 0})
    place.advance(MINUTE)
    place.step()
    run = flow.run_now({"x": 1})
    assert run.state is State.PENDING
    place.clock.step_wall(timedelta(hours=back))
    flow.reschedule(every(seconds=900))
    place.step(3)
    assert states(flow) == ["succeeded", "succeeded"]
    newest = flow.rounds()[1]
    assert newest.params == {"x": 1}
    assert newest.info.due_us == newest.info.started_us == place.clock.now()


def test_the_tasks_of_a_round_with_jitter_are_not_late_by_it(place: Place) -> None:
    flow = place.chain(note, jitter=20)
    place.advance(2 * MINUTE)
    place.step(2)
    run = flow.rounds()[0].tasks["0"].runs()[0]
    assert run.lateness_us == flow.runs()[0].lateness_us


def test_a_flow_made_anew_in_the_same_instant_has_rounds_with_ids_of_their_own(place: Place) -> None:
    """The rounds of the one before are still listed, and so are their tasks."""
    rounds = []
    for _ in range(3):
        flow = place.chain(note, when=every(seconds=MINUTE), exists="update", max_runs=1, start=None)
        flow.run_now()
        place.step(2)
        assert states(flow) == ["succeeded"]
        rounds += flow.rounds()
    ids = [one.id for one in rounds]
    assert len(set(ids)) == 3

    for _ in range(3):
        with place.scheduler.flow("once", exists="update") as flow:
            flow.task(note)
        place.step(2)
        assert states(flow) == ["succeeded"]
    assert len({one.task_id for task in place.scheduler.tasks() for one in place.scheduler.runs(task.id)}) == 8


def test_a_round_by_hand_that_has_waited_has_a_number_too(place: Place) -> None:
    flow = place.chain(note, overlap="queue")
    place.advance(MINUTE)
    place.step()
    place.advance(5)
    run = flow.run_now()
    assert run.state is State.PENDING
    place.step(3)
    assert [one.id.partition("+")[:2] for one in flow.rounds()] == [
        ("f@2024-01-01T00:01:00Z", ""),
        ("f@2024-01-01T00:01:05Z", "+"),
    ]
    assert flow.round(run).id == flow.rounds()[1].id


# Arguments


def test_a_parameter_is_a_default_of_an_output_too(place: Place) -> None:
    """Else the work is called with what stands for the parameter."""
    with place.scheduler.flow("f", every(seconds=MINUTE), params={"x": 1}) as flow:
        broken = flow.task(fail)
        options: Any = {"run_if": "all_done"}
        flow.task(note, args=(broken.output.or_else(flow.param("x")),), **options)
        flow.task(note, args=([broken.output["rows"].or_else(flow.due)],), name="in a list", **options)
    place.scheduler.start()
    flow.run_now({"x": 7})
    place.step(4)
    assert told[1:] == [7, [flow.rounds()[0].due]]


def test_a_default_that_is_no_parameter_of_the_flow_is_refused(place: Place) -> None:
    with place.scheduler.flow("g", params={"x": 1}) as another:
        another.task(note)
    with pytest.raises(FlowError, match="no parameter 'x'"), place.scheduler.flow("f") as flow:
        broken = flow.task(fail)
        flow.task(note, name="note", args=(broken.output.or_else(another.param("x")),), run_if="all_done")


def test_an_output_of_none_of_its_tasks_is_refused_as_what_it_is(place: Place) -> None:
    """Not as one of another scheduler, which it is not."""
    plain = place.scheduler.schedule(note, every(seconds=MINUTE), id="plain")
    with place.scheduler.flow("g") as another:
        theirs = another.task(note)
    with place.scheduler.flow("f") as flow:
        flow.task(note)
        for output in (plain.output, theirs.output["rows"]):
            with pytest.raises(DependencyError, match=r"flow f: .* is of no task of the flow"):
                flow.task(fail, kwargs={"rows": [output]})
        with pytest.raises(DependencyError, match=r"plain.* is no task of the flow"):
            flow.task(fail, after_tasks=[plain])  # type: ignore[list-item]  # that is what is tried


# Options


@pytest.mark.parametrize("option", ["retry", "args", "kwargs", "name", "after_tasks", "run_if", "on_timeout"])
def test_what_is_said_of_tasks_is_refused_for_a_flow_with_the_place(place: Place, option: str) -> None:
    given: Any = {option: None}
    with pytest.raises(TypeError, match=f"{option}'; it is said of a task of the flow"):
        place.scheduler.flow("f", every(seconds=MINUTE), **given)


@pytest.mark.parametrize("option", ["when", "exists", "params", "pause_after_failures", "catch_up", "until"])
def test_what_is_said_of_flows_is_refused_for_a_task_with_the_place(place: Place, option: str) -> None:
    given: Any = {option: None}
    with pytest.raises(TypeError, match=f"{option}'; it is said of the flow"), place.scheduler.flow("f") as flow:
        flow.task(note, **given)


def test_an_unknown_exists_is_refused_before_the_block(place: Place) -> None:
    given: Any = {"exists": "replace"}
    with pytest.raises(ScheduleError, match="exists='replace': needs one of"):
        place.scheduler.flow("f", **given)


def test_a_task_may_not_wait_for_the_limit_that_its_own_round_holds() -> None:
    """The round gives its permit back when its tasks have ended, so they would wait for ever."""
    place = Place(limits=[Limit("one", 1), Limit("slow", starts=9, per=1)])
    with pytest.raises(FlowError, match=r"limit='one'.*holds"), place.scheduler.flow("f", limit="one") as flow:
        flow.task(note, limit="one")
    with place.scheduler.flow("f", limit="slow") as flow:  # a rate lets its next start pass in time
        flow.task(note, limit="slow")
    place.scheduler.start()
    place.step(2)
    assert states(flow) == ["succeeded"]
    place.scheduler.close()


def test_a_round_that_goes_on_does_not_let_its_tasks_recur(place: Place) -> None:
    """It would have no end any more."""
    flow = place.chain(note)
    place.advance(MINUTE)
    place.step()
    task = flow.rounds()[0]["0"]
    with pytest.raises(ScheduleError, match="task of a round"):
        task.reschedule(every(seconds=1))
    another = place.scheduler.schedule(note, every(seconds=900), id=task.id, exists="update")
    assert another is not task
    place.check()
    assert task.state is State.CANCELLED
    assert states(flow) == ["cancelled"]


class _Foreign:
    """Like nothing, and loud about it."""

    def __eq__(self, other: object) -> bool:
        raise AssertionError("asked")

    __hash__ = None  # type: ignore[assignment]  # that is what is tried


# Handles


@pytest.mark.parametrize("what", [None, 3, [], _Foreign(), "x"])
def test_what_names_nothing_is_refused_and_not_asked(place: Place, what: Any) -> None:
    flow = place.chain(note)
    place.advance(MINUTE)
    place.step(2)
    with pytest.raises(UnknownTask, match=r"no round .* is kept; there is f@2024"):
        flow.round(what)
    with pytest.raises(UnknownTask, match="it has no task 'x'; there is 0"):
        flow.rounds()[0]["x"]
    with pytest.raises(FlowError, match="it has no parameter"):
        flow.param(what)


def test_a_round_that_a_worker_is_about_to_open_tells_why_it_does_not() -> None:
    """Stopped after a worker took it, and before it has its tasks: it gets none."""
    expected = {"cancel": Reason.CANCELLED, "flow": Reason.CANCELLED, "replace": Reason.REPLACED}
    for act, reason in expected.items():
        place = Place()
        flow = place.chain(note, overlap="replace")
        place.advance(MINUTE)
        (one,) = flow.rounds()
        store, worker = place.scheduler._store, place.scheduler._workers[0]
        run = store.take(place.clock.now())
        assert run is not None
        if act == "replace":
            place.advance(MINUTE)
        else:
            assert (one.cancel() if act == "cancel" else flow.cancel()) is Cancelled.ASKED
        store.finish(run, worker.outcome(run), place.clock.now())
        place.check()
        assert (one.state, one.reason, one.tasks) == (State.CANCELLED, reason, {})
        place.scheduler.close()


def test_the_round_of_a_run_is_its_own_and_not_one_that_tries_it_again(place: Place) -> None:
    flow = place.chain(fail)
    place.advance(MINUTE)
    place.step(2)
    first = flow.runs()[-1]
    place.advance(5)
    again = flow.rounds()[0].retry_failed()
    place.step(2)
    assert [flow.round(run).id for run in (first, again)] == [one.id for one in flow.rounds()]
    due = flow.rounds()[0].due
    assert due is not None
    assert flow.round(due).id == flow.rounds()[1].id


def test_a_flow_that_was_kept_has_its_own_parameters(place: Place) -> None:
    """`exists="keep"`: what was defined now is not what goes on, and is asked no more."""
    place.chain(note, params={"x": 1})
    with place.scheduler.flow("f", every(seconds=MINUTE), params={"y": 1}, exists="keep") as flow:
        flow.task(note, args=(flow.param("y"),))
    assert flow.run_now({"x": 2}).state is State.READY
    place.step(2)
    assert flow.rounds()[0].params == {"x": 2}
    with pytest.raises(FlowError, match="no parameter 'y', but 'x'"):
        flow.run_now({"y": 2})


def test_a_round_is_not_tried_again_under_a_task_that_took_its_flows_id(place: Place) -> None:
    flow = place.chain(fail)
    place.advance(MINUTE)
    place.step(2)
    (one,) = flow.rounds()
    place.chain(note, exists="keep")
    place.scheduler.schedule(note, every(seconds=MINUTE), id="f", exists="update")
    with pytest.raises(ScheduleError, match="not kept"):
        one.retry_failed()
    with place.scheduler.flow("f", every(seconds=MINUTE), exists="update") as flow:
        flow.task(note)
    with pytest.raises(ScheduleError, match="not kept"):
        one.retry_failed()
    assert str(one).startswith("f@2024-01-01T00:01:00Z failed")


def test_a_round_is_kept_while_another_that_tries_it_again_waits() -> None:
    place = Place(keep_rounds=1)
    flow = place.chain(fail, overlap="queue")
    place.advance(MINUTE)
    place.step(2)
    (one,) = flow.rounds()
    place.advance(MINUTE)
    place.step()
    assert one.retry_failed().state is State.PENDING
    place.step()
    assert place.scheduler.rounds("f")[-1].retry_of == one.id
    place.step(2)
    assert [(now.retry_of, now.state) for now in flow.rounds()] == [(one.id, "failed")]
    assert flow.rounds()[0].info.error == "TaskFailed: 1 of 1 tasks failed: 0 (ValueError: broken)"
    place.scheduler.close()


def test_a_round_of_which_nothing_is_kept_is_not_tried_again() -> None:
    place = Place(keep_rounds=0)
    flow = place.chain(fail)
    place.advance(MINUTE)
    (one,) = flow.rounds()
    place.step(2)
    assert flow.rounds() == []
    assert one.state is State.FAILED
    with pytest.raises(ScheduleError, match="not kept"):
        one.retry_failed()
    place.scheduler.close()


def test_what_a_retry_has_copied_is_copied_by_the_next_one(place: Place) -> None:
    """A retry of a retry, after an update: each has the definition of the first."""
    flow = place.chain(note, fail, note)
    place.advance(MINUTE)
    place.step(3)
    with place.scheduler.flow("f", every(seconds=MINUTE), exists="update") as new:
        new.task(note, name="new")
    for _ in range(2):
        place.advance(5)
        flow.rounds()[-1].retry_failed()
        place.step(2)
    assert told == [0, 1, 1, 1]
    for again in flow.rounds()[1:]:
        kinds = {name: (task.state, task.reason) for name, task in again.tasks.items()}
        assert kinds["0"] == (State.SUCCEEDED, Reason.COPIED)
        assert (kinds["1"][0], kinds["2"][0]) == (State.FAILED, State.SKIPPED)
    assert [one.retry_of for one in flow.rounds()] == [None, flow.rounds()[0].id, flow.rounds()[1].id]
    assert {one.due for one in flow.rounds()} == {flow.rounds()[0].due}


def test_a_condition_is_decided_again_by_a_retry(place: Place) -> None:
    """What cleaned up after a failure does not stay cleaned up when that has succeeded."""
    broken = [True]

    def work() -> None:
        if broken:
            raise ValueError("broken")

    with place.scheduler.flow("f", every(seconds=MINUTE)) as flow:
        once = flow.task(note, args=("once",), name="once")
        load = flow.task(work, name="load", after_tasks=[once])
        flow.task(note, args=("clean",), name="clean", after_tasks=[once, load], run_if="any_failed")
        flow.task(note, args=("tell",), name="tell", after_tasks=[load])
    place.scheduler.start()
    place.advance(MINUTE)
    place.step(4)
    assert told == ["once", "clean"]
    broken.clear()
    flow.rounds()[0].retry_failed()
    place.step(3)
    assert told == ["once", "clean", "tell"]
    assert flow.rounds()[1].tasks["clean"].reason is Reason.RUN_IF
    assert states(flow) == ["failed", "succeeded"]


def test_what_is_kept_of_rounds_does_not_grow() -> None:
    """Ids are free again, handles answer still, and the store has no more than `keep_rounds` of them."""
    place = Place(keep_rounds=2, keep_finished=0, keep_runs=1)
    flow = place.chain(note, note)
    place.advance(MINUTE)
    (first,) = flow.rounds()
    place.step(3)
    before = first["0"]
    sizes = []
    for _ in range(8):
        place.advance(MINUTE)
        place.step(3)
        registry = place.scheduler._store.machine.registry
        sizes.append((len(registry.named), len(registry.live), len(flow.rounds()), len(place.scheduler.tasks())))
    assert set(sizes[2:]) == {(5, 1, 2, 5)}
    assert (before.state, before.result()) == (State.SUCCEEDED, 0)
    assert first.state is State.SUCCEEDED
    assert "succeeded" in str(first)
    assert place.scheduler.schedule(note, id=before.id).id == before.id
    place.scheduler.close()


def test_a_retry_is_no_option_of_a_flow_by_update_either(place: Place) -> None:
    """It would be taken, and never looked at."""
    place.chain(note)
    for given in ({"retry": Retry(2)}, {"delivery": "at_most_once"}):
        options: Any = given
        with pytest.raises(ScheduleError, match="is said of a task of the flow"):
            place.scheduler.update("f", **options)


# What is shown


def _task(name: str, start: int | None, end: int | None, *parents: str, reason: Reason | None = None) -> RoundTask:
    at = None if start is None else Instant(start)
    until = None if end is None else Instant(end)
    state = State.PENDING if until is None else State.SKIPPED if at is None else State.SUCCEEDED
    return RoundTask(name, f"f@x/{name}", state, reason, at, until, None, 1, parents, RunIf.ALL_SUCCEEDED)


def _round(*tasks: RoundTask) -> RoundInfo:
    return RoundInfo("f@x", "f", Instant(0), State.SUCCEEDED, None, None, Instant(0), Instant(9), {}, None, tasks)


@pytest.mark.parametrize(
    ("us", "text"),
    [
        (0, "0 ms"),
        (999_499, "999 ms"),
        (999_500, "1 s"),
        (999_999, "1 s"),
        (59_949_999, "59.9 s"),
        (60_000_000, "1 min 0 s"),
        (3_599_999_999, "59 min 59 s"),
        (3_600_000_000, "1 h 0 min"),
    ],
)
def test_a_duration_is_written_as_one(us: int, text: str) -> None:
    """No `1e+03 ms`."""
    assert _round(_task("a", 0, us)).tree().splitlines()[1].endswith(f" 00:00:00 {text}")


def test_the_critical_path_is_of_what_ran_in_this_round() -> None:
    """What was copied took its time in another one, and nobody waited for it here."""
    info = _round(
        _task("copied", -500, -100, reason=Reason.COPIED),
        _task("skipped", None, 3),
        _task("short", 0, 2, "copied"),
        _task("long", 0, 5, "copied", "skipped"),
        _task("end", 5, 9, "short", "long"),
        _task("waits", None, None, "end"),
    )
    assert info.critical_path == ("long", "end")


def test_a_name_with_lines_does_not_break_the_tree() -> None:
    info = _round(_task("a\nb", 0, 1), _task("c\x1b[31m", 1, 2, "a\nb"), _task("d", 2, 3, "a\nb", "c\x1b[31m"))
    lines = info.tree().splitlines()
    assert len(lines) == 5
    assert all(line.isprintable() for line in lines)
    assert r"a\nb" in lines[1]


def test_a_comparison_tells_what_ended_otherwise_and_what_is_missing() -> None:
    before = _round(_task("same", 0, 1), _task("gone", 1, 2), _task("now", 1, None), _task("skips", 1, 2))
    after = _round(_task("same", 0, 5), _task("new", 1, 2), _task("now", 1, 4), _task("skips", None, 2))
    changes = after.compare(before)
    assert [(one.name, one.before, one.now) for one in changes] == [
        ("new", None, State.SUCCEEDED),
        ("now", State.PENDING, State.SUCCEEDED),
        ("skips", State.SUCCEEDED, State.SKIPPED),
        ("gone", State.SUCCEEDED, None),
    ]


def test_the_tree_of_a_round_that_was_not_opened_has_one_line(place: Place) -> None:
    flow = place.chain(*[note for _, _ in zip(count(), range(3), strict=False)])
    place.advance(MINUTE)
    assert str(flow.rounds()[0]) == "f@2024-01-01T00:01:00Z ready"
