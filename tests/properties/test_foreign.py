"""No lock is held in foreign code."""

from __future__ import annotations

from tests.properties.foreign import no_lock_is_held_in_foreign_code


def test_no_lock_is_held_in_a_pool_a_rule_a_work_or_an_observer() -> None:
    """A pool that blocks in submit, or a rule that asks the scheduler, would stop everything, for ever."""
    no_lock_is_held_in_foreign_code()
