"""Several processes work on one file: each run is one process's, and what one changes the others hear of.

In life: four web workers, a command line beside them, one that is frozen and comes back.
"""

from __future__ import annotations

import signal
import sqlite3
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.faults import company_program as program
from tests.faults.crash_checks import ledger_of
from tests.faults.lives import Life, Zygote

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there are no such locks, and no fork, here")
PROCESSES = 4


@pytest.fixture(scope="module")
def zygote() -> Iterator[Zygote]:
    zygote = Zygote("tests.faults.company_program")
    yield zygote
    zygote.close()


class Company:
    """Processes on one file."""

    def __init__(self, zygote: Zygote, folder: Path, stack: ExitStack) -> None:
        self.folder = folder
        self._zygote, self._stack = zygote, stack

    def begin(self, work: Any, **options: Any) -> Life:
        return self._stack.enter_context(self._zygote.life(work, folder=str(self.folder), **options))

    def member(self, **options: Any) -> Member:
        return Member(self.begin(program.serve, **options))

    def starts(self, id: str) -> list[int]:
        """The attempts that bodies have begun."""
        lines = ledger_of(self.folder)
        return [line["attempt"] for line in lines if (line["task"], line["what"]) == (id, "start")]


class Member:
    """A process that serves: what it is asked, it answers; in between it says what its bodies do."""

    def __init__(self, life: Life) -> None:
        self.life = life
        self._heard: list[dict[str, Any]] = []
        self.hear("ready")

    def hear(self, key: str) -> dict[str, Any]:
        """The first that it says with that key. What else it said is kept."""
        for said in self._heard:
            if key in said:
                self._heard.remove(said)
                return said
        while True:
            said = self.life.hear()
            if key in said:
                return said  # type: ignore[no-any-return]  # it is JSON
            self._heard.append(said)

    def ask(self, name: str, **options: Any) -> Any:
        self.life.say([name, options])
        return self.hear("answer")["answer"]

    def end(self) -> None:
        self.ask("close")
        assert self.life.wait() == 0


@pytest.fixture
def company(zygote: Zygote, tmp_path: Path) -> Iterator[Company]:
    with ExitStack() as stack:
        yield Company(zygote, tmp_path, stack)


# Each run is one process's


def test_BUG_041_four_processes_race_over_thousands_of_tasks_and_each_runs_once(company: Company) -> None:
    """The mail is sent four times: guards against overlap in memory do not help, as they are per process."""
    count = 10_000
    assert company.begin(program.schedule_numbers, count=count).wait() == 0
    racers = [company.begin(program.race) for _ in range(PROCESSES)]
    assert [racer.hear() for racer in racers] == [{"done": True}] * PROCESSES
    assert [racer.wait() for racer in racers] == [0] * PROCESSES
    lines = [line.split() for line in (company.folder / "ledger").read_text("ascii").splitlines()]
    times = Counter(number for number, _ in lines)
    assert (len(times), set(times.values())) == (count, {1})
    assert len({pid for _, pid in lines}) > 1, "nobody raced"


def test_BUG_041_four_processes_with_the_same_definitions_run_each_fire_once(company: Company) -> None:
    """The reloader's parent and child each start a scheduler with the same tasks."""
    count = 200
    racers = [company.begin(program.race_beats, count=count) for _ in range(PROCESSES)]
    for racer in racers:
        racer.hear()
    for racer in racers:
        racer.say("go")
    assert [racer.hear() for racer in racers] == [{"done": True}] * PROCESSES
    assert [racer.wait() for racer in racers] == [0] * PROCESSES
    starts = Counter(line["due"] for line in ledger_of(company.folder) if line["what"] == "start")
    assert (len(starts), set(starts.values())) == (count, {1})


def test_processes_that_schedule_cancel_and_pause_beside_a_running_one_are_answered_what_is_so(
    company: Company,
) -> None:
    """A task that was CANCELLED never runs, and any other runs once, whatever was asked of it meanwhile; but for what
    the runner had taken and not begun: that is ASKED to stop, and is cancelled before it begins."""
    never, once = ("cancelled", 0), ("succeeded", 1)
    expected = {"CANCELLED": (never,), "ASKED": (never, once)}
    runner = company.member()
    hammers = [company.begin(program.hammer, seed=seed, count=60) for seed in range(PROCESSES - 1)]
    said = [hammer.hear() for hammer in hammers]
    assert [hammer.wait() for hammer in hammers] == [0] * len(hammers)
    assert runner.ask("wait")
    states = {id: task["state"] for id, task in runner.ask("told").items()}
    starts = Counter(line["task"] for line in ledger_of(company.folder) if line["what"] == "start")
    seen = Counter[str]()
    for one in said:
        for id in one["mine"]:
            answer = one["answers"].get(id)
            seen[str(answer)] += 1
            assert (states[id], starts[id]) in expected.get(answer, (once,)), f"{id}: cancel said {answer}"
    assert seen["CANCELLED"] > 5
    assert seen["None"] > 50
    runner.end()


# What one changes the others hear of


def test_a_process_that_only_schedules_wakes_the_one_that_runs(company: Company) -> None:
    """It slept with nothing to do, or until something later: nobody polls, so a lost ring is a task that never runs."""
    runner = company.member()
    for number in range(3):
        caller = company.member(start=False)
        assert caller.ask("schedule", work="hold", args=[f"now {number}"]) == f"#{2 * number + 1}"
        assert runner.hear("began")["began"] == f"now {number}"
        caller.ask("schedule", work="work", when=["after", 3600])  # from now on the runner sleeps until then
        caller.end()
        runner.ask("let", gate=f"now {number}")
        runner.hear("left")
    runner.end()


def test_a_cancel_in_another_process_sets_the_stop_flag_of_a_running_body(company: Company) -> None:
    """Whoever cancels is mostly not the process that runs."""
    runner = company.member()
    caller = company.member(start=False)
    id = caller.ask("schedule", work="hold", args=["x"])
    runner.hear("began")
    assert caller.ask("cancel", id=id) == "ASKED"
    assert runner.hear("left")["stopped"]
    assert caller.ask("schedule", work="hold", args=["y"]) != id
    assert runner.hear("began")["began"] == "y"
    runner.ask("let", gate="y")
    assert not runner.hear("left")["stopped"]
    runner.end()


def test_a_pause_in_another_process_holds_and_its_end_there_goes_on(company: Company) -> None:
    """The runner has the task's time in its own memory."""
    runner = company.member()
    caller = company.member(start=False)
    id = caller.ask("schedule", work="work", when=["after", 0.05])
    assert caller.ask("pause", id=id) == 1
    other = caller.ask("schedule", work="hold", when=["after", 0.1], args=["later"])
    runner.hear("began")
    assert company.starts(id) == []
    assert caller.ask("resume", id=id) == 1
    assert runner.ask("let", gate="later") is None
    assert runner.ask("wait")
    assert (company.starts(id), company.starts(other)) == ([1], [1])
    runner.end()


def test_the_result_of_a_task_is_waited_for_in_another_process(company: Company) -> None:
    """Its own one slot is taken, so the other process runs it."""
    waiter = company.member(slots=1, results=True)
    waiter.ask("schedule", work="hold", args=["busy"])
    waiter.hear("began")
    runner = company.member(results=True)
    ids = [waiter.ask("schedule", work="hold", args=["x"]), waiter.ask("schedule", work="fail", when=["after", 0.05])]
    runner.hear("began")
    waiter.life.say(["result", {"id": ids[0]}])
    caller = company.member(start=False)  # what it says rings the waiter, whose task has not ended
    other = caller.ask("schedule", work="work")
    caller.ask("result", id=other)
    runner.ask("let", gate="x")
    assert waiter.hear("answer")["answer"] == f"held in {runner.life.pid}"
    failure = waiter.ask("result", id=ids[1])
    assert failure.startswith("TaskFailed: ")
    assert "OSError: no such luck" in failure
    waiter.ask("let", gate="busy")
    waiter.end()
    runner.end()


# Death, and what looks like it


def test_BUG_070_who_is_killed_is_replaced_at_once_and_not_when_its_lease_ends(company: Company) -> None:
    """Its lock is free and its connection ends, and that is a ring: 30 s of lease have nothing to do with it."""
    first = company.member()
    id = first.ask("schedule", work="hold", args=["x"])
    began = first.hear("began")
    second = company.member()
    first.life.kill()
    again = second.hear("began")
    assert (began["attempt"], again["attempt"]) == (1, 2)
    assert again["at_us"] - began["at_us"] < 10_000_000
    second.ask("let", gate="x")
    assert second.ask("wait")
    (run,) = second.ask("told")[id]["runs"]
    assert (run["state"], run["failed"]) == ("succeeded", [[1, "crashed"]])
    assert company.starts(id) == [1, 2]
    second.end()


def test_BUG_070_a_run_that_outlasts_its_lease_is_not_started_again(company: Company) -> None:
    """Its leases are renewed while it goes on, whatever its pool does."""
    first = company.member(lease=1, slots=1)
    id = first.ask("schedule", work="hold", args=["x"])
    first.hear("began")
    second = company.member(lease=1)
    # Three leases later, by a task of the other process's own: the first one's only slot is taken.
    second.ask("schedule", work="hold", when=["after", 3], args=["three leases later"])
    second.hear("began")
    first.ask("let", gate="x")
    assert not first.hear("left")["lost"]
    second.ask("let", gate="three leases later")
    assert second.ask("wait")
    assert company.starts(id) == [1]
    first.end()
    second.end()


@pytest.mark.parametrize("delivery", ["at_least_once", "at_most_once"])
def test_BUG_071_who_was_frozen_past_its_lease_knows_that_it_has_lost_it(company: Company, delivery: str) -> None:
    """A pause of the machine: when it goes on, what it says of its run changes nothing, and both live on."""
    first = company.member(lease=1)
    id = first.ask("schedule", work="hold_until_lost", args=["x"], delivery=delivery)
    first.hear("began")
    second = company.member(lease=1)
    first.life.signal(signal.SIGSTOP)
    if delivery == "at_least_once":
        assert second.hear("began")["attempt"] == 2
        first.life.signal(signal.SIGCONT)
    else:
        assert second.ask("wait")  # it has ended: FAILED
        first.life.signal(signal.SIGCONT)
    assert first.hear("left")["lost"]
    if delivery == "at_least_once":
        # The first one's end has been said, and the second one's run goes on all the same.
        assert first.ask("told")[id]["state"] == second.ask("told")[id]["state"] == "running"
        second.ask("let", gate="x")
        assert not second.hear("left")["lost"]
    for member in (first, second):
        assert member.ask("wait")
        (run,) = member.ask("told")[id]["runs"]
        if delivery == "at_least_once":
            assert (run["state"], run["attempt"], run["failed"]) == ("succeeded", 2, [[1, "crashed"]])
        else:
            assert (run["state"], run["reason"], run["attempt"]) == ("failed", "crashed", 1)
    second.end()
    first.ask("schedule", work="hold", args=["alone"])  # the first takes over what comes
    assert first.hear("began")["began"] == "alone"
    first.ask("let", gate="alone")
    first.hear("left")
    first.end()


def test_BUG_072_a_process_is_known_by_a_number_of_its_own(company: Company) -> None:
    """Two of one host, or the next one of the same name, would take the other's runs for theirs."""
    first, second = company.member(), company.member()
    first.ask("schedule", work="hold", args=["x"])
    with sqlite3.connect(company.folder / "tasks.db") as db:
        owners = db.execute("SELECT number, identity, host, pid FROM owners").fetchall()
    db.close()
    assert len({number for number, *_ in owners}) == len({identity for _, identity, *_ in owners}) == 2
    assert {pid for *_, pid in owners} == {first.life.pid, second.life.pid}
    assert len({host for _, _, host, _ in owners}) == 1
    for member in (first, second):
        member.ask("let", gate="x")
    first.end()
    second.end()


def owned(folder: Path) -> int:
    """How many rows are somebody's."""
    db = sqlite3.connect(folder / "tasks.db")
    try:
        return int(db.execute("SELECT count(*) FROM tasks WHERE owner IS NOT NULL").fetchone()[0])
    finally:
        db.close()


# Signals and forks


def test_BUG_037_a_signal_ends_run_once_its_body_has_returned_and_no_row_is_left_claimed(company: Company) -> None:
    """Ctrl-C, and the task is claimed by a process that is gone."""
    life = company.begin(program.run_to_the_end)
    life.hear()
    assert owned(company.folder) == 1
    life.signal(signal.SIGINT)
    life.say("x")
    assert life.wait() == 130
    assert owned(company.folder) == 0
    assert company.starts("x") == [1]


def test_BUG_037_a_second_signal_ends_the_process_at_once_and_the_next_one_goes_on(company: Company) -> None:
    """Whoever presses Ctrl-C twice means it; the run is an orphan then, and not stuck."""
    life = company.begin(program.run_to_the_end)
    life.hear()
    life.signal(signal.SIGINT)
    while life.is_there():  # the second may come before the first was taken, and then is the same one
        life.signal(signal.SIGINT)
    assert life.wait() == -signal.SIGINT
    again = company.begin(program.run_to_the_end)
    assert again.hear()["attempt"] == 2
    again.say("x")
    again.hear()
    assert again.hear() == {"done": True}
    assert owned(company.folder) == 0


def test_BUG_040_a_child_is_refused_its_parents_scheduler_and_has_one_of_its_own(company: Company) -> None:
    """gunicorn with a preloaded module. A child with the parent's connection would destroy the file, or hang."""
    life = company.begin(program.fork_often)
    assert life.hear() == {"codes": [0] * 8, "result": True, "state": "pending"}
    assert life.wait() == 0
    db = sqlite3.connect(company.folder / "tasks.db")
    assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    db.close()


def test_BUG_040_what_a_child_writes_after_its_parent_has_closed_is_there(company: Company, zygote: Zygote) -> None:
    """SQLite in the child has a copy of the parent's locks: without locks of its own its WAL is removed under it."""
    life = company.begin(program.fork_and_be_outlived)
    assert life.hear() == {"code": 0}
    assert life.wait() == 0
    reader = company.member(start=False)
    assert sorted(reader.ask("told")) == ["child's first", "child's second", "parent's"]
    reader.end()
