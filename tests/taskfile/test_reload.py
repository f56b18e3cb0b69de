"""A file in the place of another, while it is done: what did not change is not touched."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from tickless import Scheduler
from tickless.taskfile.build import FileWorks, Program, check, enter, swap
from tickless.taskfile.read import read
from tickless.taskfile.values import FileError
from tickless.testing import FakeClock, InlinePool

HOURLY = """
[tasks.a]
run = "true"
when = "0 * * * *"
[tasks.b]
run = "true"
when = "*/10 * * * *"
"""


class Stage:
    """A program on a clock that is moved by hand. Its pool starts no process, so each run fails, and is recorded."""

    def __init__(self, text: str) -> None:
        self.clock = FakeClock(datetime(2026, 12, 1, 11, 59, 59, tzinfo=UTC))
        file = read(Path("tasks.toml"), text)
        self.program = Program(file, Scheduler(InlinePool(), clock=self.clock, observers=[]), FileWorks())
        enter(self.program, check(file), file.parts)
        self.program.scheduler.start()

    def swap(self, text: str) -> None:
        swap(self.program, read(Path("tasks.toml"), text))

    def fires(self, id: str) -> list[str]:
        return [f"{run.started:%H:%M}" for run in self.program.scheduler.runs(id) if run.started]


def test_BUG_022_a_reload_a_second_before_a_fire_loses_none() -> None:
    """In life: the reload empties the heap, and swallows the minute of all others."""
    stage = Stage(HOURLY)
    stage.swap(HOURLY.replace('"true"\nwhen = "0 *', '"echo a"\nwhen = "0 *'))  # the command of `a`, not its time
    stage.clock.advance(1)
    assert (stage.fires("a"), stage.fires("b")) == (["12:00"], ["12:00"])
    stage.clock.advance(3600)
    assert stage.fires("a") == ["12:00", "13:00"]
    assert len(stage.fires("b")) == 7


def test_BUG_022_a_reload_of_the_same_file_changes_nothing() -> None:
    stage = Stage(HOURLY)
    before = stage.program.scheduler.tasks()
    stage.swap(HOURLY + "# a comment\n")
    assert stage.program.scheduler.tasks() == before


def test_BUG_022_another_time_counts_at_once() -> None:
    stage = Stage(HOURLY)
    stage.clock.advance(1)
    stage.swap(HOURLY.replace('when = "0 *', 'when = "* *'))
    stage.clock.advance(60)
    assert stage.fires("a") == ["12:00", "12:01"]
    assert stage.fires("b") == ["12:00"]


def test_what_is_gone_does_not_fire_and_may_come_back() -> None:
    stage = Stage(HOURLY)
    without = HOURLY.partition("[tasks.b]")[0]
    stage.swap(without)
    stage.clock.advance(1)
    assert stage.fires("b") == []
    assert stage.program.scheduler.get("b").state == "cancelled"
    stage.swap(HOURLY)
    stage.clock.advance(600)
    assert stage.fires("b") == ["12:10"]
    assert stage.fires("a") == ["12:00"]


def test_a_pause_and_the_history_outlive_a_change() -> None:
    stage = Stage(HOURLY)
    stage.clock.advance(1)
    stage.program.scheduler.pause("b", reason="moving")
    stage.swap(HOURLY.replace('[tasks.b]\nrun = "true"', '[tasks.b]\nrun = "echo b"'))
    assert stage.program.scheduler.get("b").pause_reason == "moving"
    assert stage.fires("b") == ["12:00"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (HOURLY + "[pools.db]\nslots = 2\n", "pools: cannot be changed while it runs"),
        (HOURLY + "[limits.api]\nrunning = 2\n", "limits: cannot be changed while it runs"),
        ('store = "sqlite:///x.db"\n' + HOURLY, "store: cannot be changed while it runs"),
        (HOURLY + '[tasks.c]\nrun = "true"\nafter_tasks = ["a"]\n', "tasks.a: is a task so far"),
        (HOURLY + '[tasks.c]\nrun = "true"\nwhen = "every 1h sliding"\noverlap = "queue"\n', "tasks.c.overlap: "),
        (HOURLY + '[tasks.c]\npython = "nomodule:f"\n', "tasks.c.python: module nomodule"),
    ],
)
def test_what_cannot_be_changes_nothing(text: str, words: str) -> None:
    """Whatever it is: the half of a reload is worse than none."""
    stage = Stage(HOURLY)
    before = stage.program.scheduler.tasks(), stage.program.file
    with pytest.raises(FileError) as caught:
        stage.swap(text)
    assert words in str(caught.value)
    assert (stage.program.scheduler.tasks(), stage.program.file) == before
    stage.clock.advance(1)
    assert stage.fires("a") == ["12:00"]


def test_all_that_a_scheduler_finds_wrong_is_told_at_once() -> None:
    text = HOURLY + "".join(
        f'[tasks.{one}1]\nrun = "true"\n[tasks.{one}2]\nrun = "true"\nafter_tasks = ["{one}1"]\nrun_if = "any_failed"\n'
        f'[tasks.{one}3]\nrun = "true"\nafter_tasks = ["{one}1", "{one}2"]\n'
        for one in "xy"
    )
    with pytest.raises(FileError) as caught:
        check(read(Path("tasks.toml"), text))
    assert [problem.place for problem in caught.value.problems] == ["tasks.x1", "tasks.y1"]


def test_a_flow_is_changed_as_a_whole_and_a_round_keeps_what_it_began_with() -> None:
    flow = HOURLY + '[tasks.c]\nrun = "true"\nafter_tasks = ["a"]\nrun_if = "all_done"\n'
    stage = Stage(flow)
    stage.clock.advance(1)
    assert [task.name for task in stage.program.scheduler.rounds("a")[-1].info.tasks] == ["a", "c"]
    stage.swap(flow + '[tasks.d]\nrun = "true"\nafter_tasks = ["a"]\n')
    stage.clock.advance(3600)
    assert [task.name for task in stage.program.scheduler.rounds("a")[-1].info.tasks] == ["a", "c", "d"]
