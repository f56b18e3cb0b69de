"""A process that works on a durable store dies at any point, by SIGKILL, and is started anew: nothing is lost.

In life: the kernel is out of memory, somebody pulls the plug, a deploy does not wait.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.faults import crash_program
from tests.faults.crash_checks import Story, check_file, check_kinds, ledger_of
from tests.faults.crash_program import DELIVERIES
from tests.faults.lives import Zygote
from tickless.stores.sql import failpoints

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL, and no fork, here")
AT_ONCE = 4
"""So many walkers go at a time."""
RENEWALS = ("renew.before", "renew.after")
SAME_ON_DISK = ("begin.before", "begin.after", "work.after", "told.after")
"""Where the file is as it is at "write.after", not committed, or at "commit.after": there two of three are left out."""
STRIDE = 1 if os.environ.get("CRASH_WALK") == "all" else 3


@pytest.fixture(scope="module")
def zygote() -> Iterator[Zygote]:
    zygote = Zygote("tests.faults.crash_program")
    yield zygote
    zygote.close()


class Walk:
    """Programs that die and are started anew, each in a folder of its own."""

    def __init__(self, zygote: Zygote, folder: Path, program: str = "all") -> None:
        self._zygote = zygote
        self._folder = folder
        self._program = program

    def folder(self, name: object) -> Path:
        folder = self._folder / str(name)
        folder.mkdir(exist_ok=True)
        return folder

    def dies(self, folder: Path, point: str, nth: int) -> bool:
        """Whether the program died at the n-th time that it came by the point; else it came to its end."""
        with self.begin(folder, point=point, nth=nth) as life:
            code: int = life.wait()
        assert code in (0, -signal.SIGKILL)
        return code != 0

    def ends(self, folder: Path) -> dict[str, Any]:
        """The program is started anew, and comes to its end. What the store says then."""
        with self.begin(folder) as life:
            said: dict[str, Any] = life.hear()
            assert life.wait() == 0
        assert said["done"], f"not all tasks have ended: {said['tasks']}"
        return said

    def begin(self, folder: Path, **armed: Any) -> Any:
        return self._zygote.life(
            crash_program.life, folder=str(folder), program=self._program, deliveries=list(DELIVERIES), **armed
        )

    def until_it_is_not_reached(self, point: str, first: int = 1, stride: int | None = None) -> list[Story]:
        """For the 1st, 2nd, 3rd ... time, or every so many. The stories of those that died."""
        numbers = count(first, stride or (STRIDE if point in SAME_ON_DISK else 1))
        stories: list[Story] = []

        def walk() -> None:
            for nth in numbers:
                folder = self.folder(f"{point}-{nth}")
                died = self.dies(folder, point, nth)
                story = self.told(folder, f"{point} for the {nth}. time")
                if not died:
                    assert story.is_spotless()
                    return
                stories.append(story)

        with ThreadPoolExecutor(AT_ONCE) as walkers:
            for walker in [walkers.submit(walk) for _ in range(AT_ONCE)]:
                walker.result()
        return stories

    def told(self, folder: Path, where: str) -> Story:
        """Start it anew, and see whether all is well."""
        try:
            story = Story(ledger_of(folder), self.ends(folder)["tasks"])
            story = Story(ledger_of(folder), story.tasks)
            story.check()
            if self._program == "all":
                check_kinds(story)
            check_file(folder / "tasks.db", story)
        except BaseException as error:
            error.add_note(f"died at {where}")
            raise
        return story


@pytest.mark.parametrize("point", [point for point in failpoints.POINTS if point not in RENEWALS])
def test_BUG_066_a_process_that_is_killed_at_any_point_loses_nothing(
    point: str, zygote: Zygote, tmp_path: Path
) -> None:
    """Between the claim and the next fire, between the end and its record: what was in flight is told, and runs again
    if it may, and nothing else does.
    """
    stories = Walk(zygote, tmp_path).until_it_is_not_reached(point)
    assert len(stories) > {"join.after": 0, "recover.after": 0, "take.after": 4}.get(point, 7)
    if point in ("start.before", "finish.before", "finish.after"):
        assert all(story.crashed() for story in stories), "a run was this process's, and nobody noticed"


@pytest.mark.parametrize("point", RENEWALS)
def test_BUG_070_a_process_that_is_killed_as_it_renews_its_leases_loses_nothing(
    point: str, zygote: Zygote, tmp_path: Path
) -> None:
    """A run that outlasts its lease's third, and another process that has just heard that its owner lives."""
    stories = Walk(zygote, tmp_path, "stays").until_it_is_not_reached(point)
    assert stories
    for story in stories:
        assert sorted(story.crashed()) == ["least_once:stay", "most_once:stay"]


@pytest.mark.parametrize("point", [point for point in failpoints.POINTS if point not in RENEWALS])
def test_the_process_that_takes_care_of_the_dead_is_killed_at_any_point_too(
    point: str, zygote: Zygote, tmp_path: Path
) -> None:
    """The second life finds runs in flight and dies in the middle of it, for the 1st to 4th time: the third goes on."""
    walk = Walk(zygote, tmp_path)

    def three_lives(nth: int) -> bool:
        folder = walk.folder(nth)
        assert walk.dies(folder, "finish.before", 4)
        died = walk.dies(folder, point, nth)
        story = walk.told(folder, f"finish.before for the 4. time, and then at {point} for the {nth}. time")
        assert story.crashed()
        return died

    with ThreadPoolExecutor(AT_ONCE) as walkers:
        died = list(walkers.map(three_lives, range(1, 5)))
    assert died[0]


def test_an_orphan_runs_again_within_a_second_of_the_restart(zygote: Zygote, tmp_path: Path) -> None:
    """The lock of a dead process is free at once: nobody waits for its lease, or for a timeout."""
    walk = Walk(zygote, tmp_path)
    folder = walk.folder("orphans")
    assert walk.dies(folder, "finish.before", 3)
    before = len(ledger_of(folder))
    began_us = walk.ends(folder)["began_us"]
    again = [line for line in ledger_of(folder)[before:] if line["what"] == "start" and line["attempt"] == 2]
    assert 0 <= again[0]["at_us"] - began_us < 1_000_000


def test_BUG_054_a_task_that_kills_its_process_begins_three_times_and_no_more(zygote: Zygote, tmp_path: Path) -> None:
    """A supervisor that starts the process anew each time would do so for ever, and no other task would come to run."""
    walk = Walk(zygote, tmp_path, "poison")
    folder = walk.folder("poison")
    codes = []
    for _ in range(10):
        with walk.begin(folder) as life:
            codes.append(life.wait())
            if codes[-1] == 0:
                said = life.hear()
                break
    else:
        pytest.fail(f"it goes on for ever: {codes}")
    lines = ledger_of(folder)
    story = Story(lines, said["tasks"])
    for id in ("poison", "poison with a retry"):
        attempts = [line["attempt"] for line in lines if (line["task"], line["what"]) == (id, "start")]
        (run,) = said["tasks"][id]["runs"]
        assert (run["state"], run["reason"], run["attempt"]) == ("failed", "crashed", 3)
        assert run["failed"] == [[1, "crashed"], [2, "crashed"]]
        assert attempts == sorted(set(attempts))
    assert said["tasks"]["neighbour"]["state"] == "succeeded"
    check_file(folder / "tasks.db", story)
