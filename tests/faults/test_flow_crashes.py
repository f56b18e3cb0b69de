"""A process that works on the rounds of flows dies at any point, by SIGKILL, and is started anew.

Each round ends as if nothing had happened, or runs again what was in flight; at most once, that has failed, and what
comes after it in the round is told so.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.crash_checks import Story, check_file, ledger_of
from tests.faults.flow_checks import FlowStory
from tests.faults.lives import Zygote
from tests.faults.test_store_crashes import RENEWALS, SAME_ON_DISK, Walk
from tickless.stores.sql import failpoints

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL, and no fork, here")
STRIDE = 1 if os.environ.get("CRASH_WALK") == "all" else 4
"""Every fourth time, and at each point another fourth: nearly all of what is on the disk is there several times."""
POINTS = [point for point in failpoints.POINTS if point not in (*RENEWALS, *SAME_ON_DISK)]


class FlowWalk(Walk):
    def told(self, folder: Path, where: str) -> Story:
        try:
            said = self.ends(folder)["tasks"]
            story = FlowStory(ledger_of(folder), said)
            story.check()
            check_file(folder / "tasks.db", story)
        except BaseException as error:
            error.add_note(f"died at {where}")
            raise
        return story


@pytest.fixture(scope="module")
def zygote() -> Iterator[Zygote]:
    zygote = Zygote("tests.faults.crash_program")
    yield zygote
    zygote.close()


@pytest.mark.parametrize("point", POINTS)
def test_a_round_whose_process_is_killed_at_any_point_ends_all_the_same(
    point: str, zygote: Zygote, tmp_path: Path
) -> None:
    """In life: the nightly load was killed at its seventh table. A round is in nobody's hands, so nobody's death ends
    it, and none of its tasks is forgotten or begun twice."""
    walk, is_rare = FlowWalk(zygote, tmp_path, "flows"), point in ("join.after", "recover.after")
    stories = walk.until_it_is_not_reached(point, 1 if is_rare else 1 + POINTS.index(point) % STRIDE, STRIDE)
    assert len(stories) > {"join.after": 0, "recover.after": -1}.get(point, 2)
    if point in ("start.before", "finish.before", "finish.after"):
        assert all(story.crashed() for story in stories), "a run was this process's, and nobody noticed"


@pytest.mark.parametrize("point", ["recover.after", "write.after", "commit.after"])
def test_a_round_outlives_the_process_that_takes_care_of_the_dead(point: str, zygote: Zygote, tmp_path: Path) -> None:
    """The second life finds a round in the middle, and dies over it: the third goes on."""
    walk = FlowWalk(zygote, tmp_path, "flows")
    for nth in (1, 2, 3):
        folder = walk.folder(nth)
        assert walk.dies(folder, "finish.before", 3 + nth)
        walk.dies(folder, point, nth)
        story = walk.told(folder, f"finish.before for the {3 + nth}. time, and then at {point} for the {nth}. time")
        assert story.crashed()
