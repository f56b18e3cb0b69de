"""Every program under many seeds: with and without the lock in take and finish, one slot and two, both hands.

Longer, as after a change in core/, stores/, pools/, worker.py, dispatcher.py or bell.py:
WEAVE_TIMES=50 .venv/bin/python -m pytest -q tests/races
"""

from __future__ import annotations

import threading

import pytest

from tests.races.flows import ABOUT_FLOWS
from tests.races.loom import first_fault, seeds, weave
from tests.races.programs import ABOUT_POLICIES, PROGRAMS, Program, anything, linking, settling
from tests.races.weaver import START_US, Tangle, Weaver, stand_ins

SEEDS = 75
"""All of the races of `planted.py` but one are found by these: that one needs 365."""
SOME_SEEDS = 20
"""For the programs about policies and flows, nearly all of which is done under the lock."""
BY_NAME = [pytest.param(program, id=program.__name__) for program in (*PROGRAMS, *ABOUT_POLICIES, *ABOUT_FLOWS)]


@pytest.mark.parametrize("held", [False, True], ids=["plain", "held"])
@pytest.mark.parametrize("slots", [1, 2])
@pytest.mark.parametrize("program", BY_NAME)
def test_no_interleaving_breaks_a_promise(
    program: Program, slots: int, held: bool, request: pytest.FixtureRequest
) -> None:
    """A task that hangs, or runs twice, once in a million: on the one machine where nobody can look. "held" is the
    way without a GIL, where every take and finish goes under the lock."""
    count = SEEDS if program in PROGRAMS else SOME_SEEDS
    fault = first_fault(program, seeds(count), slots=slots, held=held, test=request.node.nodeid)
    assert fault is None, fault


@pytest.mark.parametrize("slots", [1, 2])
@pytest.mark.parametrize("program", [pytest.param(program, id=program.__name__) for program in (settling, anything)])
def test_no_interleaving_breaks_one_submit_per_run(
    program: Program, slots: int, request: pytest.FixtureRequest
) -> None:
    """An executor that is not drained: its callbacks end the runs, and have the dispatcher submit the next."""
    fault = first_fault(program, seeds(SEEDS), slots=slots, drained=False, test=request.node.nodeid)
    assert fault is None, fault


@pytest.mark.parametrize("seed", range(5))
def test_a_seed_weaves_the_same_threads_again(seed: int) -> None:
    """A failure that cannot be repeated is a rumour."""
    for _ in range(3):  # CPython 3.12 and later count other opcodes while code is not warm yet
        weave(anything, seed, slots=2)
    assert weave(anything, seed, slots=2) == weave(anything, seed, slots=2)


def test_seeds_differ() -> None:
    """A weaver that always takes the same way would pass every test, too."""
    assert len({weave(linking, seed, slots=1) for seed in range(10)}) > 5


# The weaver itself


def test_threads_that_wait_for_one_another_are_found_at_once() -> None:
    """The hang that a deadline would find after a minute, or never."""
    weaver = Weaver(0, ())
    first, second = (stand_ins(weaver)[threading.Lock]() for _ in range(2))

    def main() -> None:
        first.acquire()

        def other() -> None:
            with second:
                first.acquire()

        join = weaver.spawn("other", other)
        weaver.block(second.locked)
        second.acquire()
        join()

    with pytest.raises(Tangle, match="nobody can go on"):
        weaver.run(main)
    assert "other stands where it waits at" in weaver.tell()


def test_time_moves_only_when_everybody_waits() -> None:
    """A wait of a year takes no time; who waits for less goes on first."""
    weaver = Weaver(0, ())
    order: list[tuple[str, int]] = []

    def sleep_for(name: str, us: int) -> None:
        weaver.block(lambda: False, us)
        order.append((name, weaver.now_us - START_US))

    def main() -> None:
        join = weaver.spawn("long", lambda: sleep_for("long", 10**13))
        sleep_for("short", 10)
        join()

    weaver.run(main)
    assert order == [("short", 10), ("long", 10**13)]


def test_what_a_thread_raises_fails_the_run() -> None:
    """An exception in a worker is a fault, and not a line on stderr."""
    weaver = Weaver(0, ())

    def broken() -> None:
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        weaver.run(lambda: weaver.spawn("broken", broken)())
