"""What is said to be different is there."""

from __future__ import annotations

from tests.house.sources import ROOT
from tests.stores.sql.differences import DIFFERENCES, MODULES


def test_every_difference_is_a_test_that_runs_on_sqlite() -> None:
    """A test that got another name would fail; one whose module is not listed was never run."""
    for name in DIFFERENCES:
        module, _, test = name.partition("::")
        assert module in MODULES, f"{module} does not run on SQLite"
        text = (ROOT / "tests" / module).read_text(encoding="utf-8")
        assert f"def {test.partition('[')[0]}(" in text, f"{name} is not there"


def test_every_module_that_runs_on_sqlite_is_there() -> None:
    assert [module for module in MODULES if not (ROOT / "tests" / module).exists()] == []
