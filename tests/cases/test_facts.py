"""Every case is accounted for: it has a test that bears its id, or is pending with a reason, or both with the part."""

from __future__ import annotations

import pytest

from tests.cases.facts import Pending, account_faults, bug_cases, ids_tested, pending_cases


def test_every_bug_case_is_a_test_or_pending() -> None:
    """A case that nobody remembers is a bug that we ship."""
    assert account_faults({case["id"] for case in bug_cases()}, ids_tested(), pending_cases()) == []


def test_ids_of_the_facts_are_unique() -> None:
    """Else one of two would count for both."""
    ids = [case["id"] for case in bug_cases()]
    assert len(ids) == len(set(ids)) == 61


WHOLE = Pending("BUG-002", "no store", "stores")
PART = Pending("BUG-001", "no store", "stores", "restart")


@pytest.mark.parametrize(
    ("known", "tested", "pending", "fault"),
    [
        ({"BUG-001"}, set(), [], "neither a test nor pending"),
        ({"BUG-001"}, {"BUG-001"}, [WHOLE], "BUG-002 is no case"),
        ({"BUG-001"}, {"BUG-001", "BUG-999"}, [], "BUG-999 is no case"),
        ({"BUG-001", "BUG-002"}, {"BUG-001", "BUG-002"}, [WHOLE], "say which part"),
        ({"BUG-001"}, set(), [PART], "not a part"),
        ({"BUG-001"}, {"BUG-001"}, [PART, PART], "pending twice"),
        ({"BUG-002"}, set(), [Pending("BUG-002", "", "stores")], "without a reason"),
    ],
)
def test_a_fault_in_the_account_is_reported(
    known: set[str], tested: set[str], pending: list[Pending], fault: str
) -> None:
    """An account that is never wrong is not kept."""
    faults = account_faults(known, tested, pending)
    assert len(faults) == 1
    assert fault in faults[0]


def test_a_right_account_has_no_faults() -> None:
    """Tested, tested in part, and pending."""
    assert account_faults({"BUG-001", "BUG-002", "BUG-003"}, {"BUG-001", "BUG-003"}, [WHOLE, PART]) == []
