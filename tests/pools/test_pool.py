"""The door for pools: what is no executor, and one whose slots nobody knows, are refused with the way out."""

from __future__ import annotations

from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from typing import Any

import pytest

from tests.pools.executors import Eager
from tickless import Pool, PoolError, Scheduler
from tickless.testing import InlinePool, ManualPool


@pytest.mark.parametrize("make", [Eager, lambda: ProcessPoolExecutor(1)], ids=["an executor", "processes"])
def test_an_executor_without_known_slots_is_refused_and_told_how_to_wrap_it(make: Any) -> None:
    """How many runs it may have at a time is the user's to say: too many would queue where nobody can cancel them."""
    executor = make()
    for refused in (lambda: Pool(executor), lambda: Scheduler(executor)):
        with pytest.raises(PoolError, match=r"Wrap it: Pool\(executor, slots=8\)") as caught:
            refused()
        assert type(executor).__name__ in str(caught.value)
    assert Pool(executor, slots=3).slots == 3
    executor.shutdown()


@pytest.mark.parametrize("wrong", [5, "threads", object(), ThreadPoolExecutor, None])
def test_what_is_no_executor_is_refused(wrong: Any) -> None:
    """The class instead of an object is the likely slip. (None is a pool of our own, for the scheduler only.)"""
    with pytest.raises(PoolError, match=r"needs a concurrent\.futures\.Executor|slots|Wrap it"):
        Pool(wrong)
    if wrong is not None:
        with pytest.raises(PoolError):
            Scheduler(wrong)


@pytest.mark.parametrize("wrong", [0, -1, 1.0, True, "2", 2.5])
def test_slots_that_are_no_whole_number_of_at_least_1_are_refused(wrong: Any) -> None:
    with ThreadPoolExecutor(1) as threads:
        for refused in (
            lambda: Pool(threads, slots=wrong),
            lambda: Scheduler(threads, slots=wrong),
            lambda: Scheduler(Pool(threads), slots=wrong),
            lambda: Scheduler(slots=wrong),
        ):
            with pytest.raises((PoolError, ValueError, TypeError)) as caught:
                refused()
            assert isinstance(caught.value, PoolError), f"slots={wrong!r} came out as {caught.value!r}"
            assert f"slots={wrong!r}" in str(caught.value)
    with pytest.raises(PoolError):
        ManualPool(wrong)


def test_a_thread_pool_knows_its_slots_and_slots_may_be_fewer() -> None:
    with ThreadPoolExecutor(7) as threads:
        assert Pool(threads).slots == 7
        assert Pool(threads, slots=2).slots == 2
        assert Pool(threads).drained
    assert not Pool(Eager(), slots=2).drained
    assert Pool(InlinePool()).slots == 1
    assert Pool(ManualPool(5)).slots == 5


def test_a_pool_shows_what_it_is() -> None:
    assert repr(Pool(Eager(), slots=2)) == "Pool(Eager, slots=2)"


def test_an_executor_of_ducks_is_enough() -> None:
    """What has a `submit` that gives futures: no base class to inherit."""

    class Duck:
        submit = staticmethod(Eager().submit)

    duck: Executor = Duck()  # type: ignore[assignment]
    with Scheduler(Pool(duck, slots=1), observers=[]) as scheduler:
        assert scheduler.schedule(lambda: 5).result(10) == 5
