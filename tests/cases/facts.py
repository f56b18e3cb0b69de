"""The facts: reports of real bugs and of real surprises with time, and which of them wait for later work."""

from __future__ import annotations

import ast
import json
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.house.sources import ROOT, all_python

DATA = ROOT / "tests" / "data"
PENDING = ROOT / "tests" / "cases_pending.toml"
TEST_OF_A_CASE = re.compile(r"BUG_(\d{3})(?=_)")


@dataclass(frozen=True)
class Pending:
    """A case, or a `part` of one, that has no test yet: why, and what work will bring it."""

    id: str
    reason: str
    later: str
    part: str | None = None


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def bug_cases() -> list[dict[str, Any]]:
    return _lines(DATA / "bug_cases.jsonl")


def time_cases() -> list[dict[str, Any]]:
    return _lines(DATA / "time_cases.jsonl")


def pending_cases() -> list[Pending]:
    """Raises TypeError for an entry with a key too many or too few."""
    return [Pending(**entry) for entry in tomllib.loads(PENDING.read_text("utf-8"))["case"]]


def ids_tested() -> set[str]:
    """The ids in the names of test functions, wherever they stand under tests/."""
    return {
        f"BUG-{number}"
        for source in all_python("tests")
        for node in ast.walk(source.tree)
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_BUG_")
        for number in TEST_OF_A_CASE.findall(node.name)
    }


def account_faults(known: set[str], tested: set[str], pending: list[Pending]) -> list[str]:
    """Cases that are neither tested nor pending, and entries that say nothing true."""
    waiting = {entry.id for entry in pending}
    faults = [f"{id} is neither a test nor pending" for id in sorted(known - tested - waiting)]
    faults += [f"{id} is no case" for id in sorted((tested | waiting) - known)]
    seen: set[tuple[str, str | None]] = set()
    for entry in pending:
        if (entry.id, entry.part) in seen:
            faults.append(f"{entry.id} is pending twice")
        seen.add((entry.id, entry.part))
        if entry.id in tested and not entry.part:
            faults.append(f"{entry.id} has a test: say which part is pending")
        if entry.id not in tested and entry.part:
            faults.append(f"{entry.id} has no test: all of it is pending, not a part")
        if not entry.reason or not entry.later:
            faults.append(f"{entry.id} is pending without a reason, or without the work that will bring it")
    return faults
