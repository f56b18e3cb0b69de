"""Nothing in the repository names a place that exists on one machine only, or the host of a package registry.

Why: a path of somebody's home works for them alone, and a registry's host takes from the reader the choice of a mirror.
"""

from __future__ import annotations

import re
import threading
from pathlib import Path

import pytest

from tests.house.sources import ROOT, all_files
from tests.house.threads import leaked_threads

# Spelled so that this file does not name them either.
REGISTRIES = ["py" + "pi.org", "python" + "hosted.org", "npm" + "js.", "ana" + "conda.org", "cra" + "tes.io"]
PLACES = re.compile(
    "|".join(
        [
            *(re.escape(host) for host in REGISTRIES),
            r"(?<![\w.])/(?:home|Users)/\w+",
            r"(?<![\w.])/ro" + r"ot/\w+",
            r"\b[A-Z]:\\Users\\\w+",
            r"\bfile:///\w+",
        ]
    )
)


def places_in(text: str, checkout: Path) -> list[str]:
    """`line: what` of each place named; `checkout` is where this very tree lies."""
    # A checkout at /src or so would be found in every path: two parts are the least that identify a place.
    own = str(checkout) if len(checkout.parts) > 2 else None
    faults = []
    for number, line in enumerate(text.splitlines(), start=1):
        found = [match.group() for match in PLACES.finditer(line)]
        if own and re.search(rf"{re.escape(own)}(?![\w-])", line):
            found.append(own)
        faults += [f"{number}: {place}" for place in found]
    return faults


def test_no_file_names_a_registry_or_a_place_of_one_machine() -> None:
    """Whoever clones it has another home, and may have another registry."""
    faults = []
    for path in all_files():
        try:
            text = path.read_text("utf-8")
        except UnicodeDecodeError:
            continue  # not a text
        faults += [f"{path.relative_to(ROOT)}:{place}" for place in places_in(text, ROOT)]
    assert faults == []


@pytest.mark.parametrize(
    "line",
    [
        "pip install --index-url https://" + REGISTRIES[0] + "/simple tickless",
        "see https://files." + REGISTRIES[1] + "/packages",
        "cd /ho" + "me/someone/tickless",
        "cd '/Us" + "ers/someone/tickless'",
        "HOME=/ro" + "ot/x",
        "cd C:" + "\\Users\\someone",
        "find-links = file://" + "/opt/wheels",
        "cd /srv/checkouts/tickless && make",
    ],
)
def test_a_place_is_reported(line: str) -> None:
    """In a text of any kind, and with its line."""
    assert [fault[:3] for fault in places_in(f"first\n{line}\n", Path("/srv/checkouts/tickless"))] == ["2: "]


@pytest.mark.parametrize("line", ["src/home/x", "https://example.org/home/x", "/srv/checkouts/tickless-docs", "~/x"])
def test_a_relative_path_and_a_page_are_free(line: str) -> None:
    """A rule that forbids too much gets switched off."""
    assert places_in(line, Path("/srv/checkouts/tickless")) == []


def test_a_thread_of_ours_that_is_left_running_is_reported() -> None:
    """What the fixture in tests/conftest.py is made of: one of ours counts, another's and an older one do not."""
    gate = threading.Event()
    threads = [threading.Thread(target=gate.wait, args=(30,), name=name) for name in ("tickless-a", "tickless-b", "c")]
    threads[0].start()
    before = frozenset(threading.enumerate())
    for thread in threads[1:]:
        thread.start()
    try:
        assert leaked_threads(before, grace_s=0.01) == ["tickless-b"]
    finally:
        gate.set()
        for thread in threads:
            thread.join()
    assert leaked_threads(before) == []
