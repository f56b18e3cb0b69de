"""The documentation is tested as the code is: its examples run, its links lead somewhere, its tables are drawn.

What is drawn from the source stands between two marks in the page. To draw it anew after the source has changed:

    python tests/test_docs.py
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

from tests.cli.reference import commands_reference
from tickless.states import MOVES, Reason, State

ROOT = Path(__file__).resolve().parents[1]
LIBRARY = ROOT / "src" / "tickless"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
DECISIONS = sorted((ROOT / "docs" / "adr").glob("*.md"))
"""Superseded, never edited: so their links must lead somewhere, but the names in them may be history."""

pages = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)


# What is run


def blocks(page: Path) -> list[tuple[int, str]]:
    """(line, text) of each Python block of the page. What is not to be run is marked as another language."""
    text = page.read_text("utf-8")
    found = re.finditer(r"^```python\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)
    return [(text.count("\n", 0, match.start(1)) + 1, match.group(1)) for match in found]


def is_test(block: str) -> bool:
    """True for a block that a reader would put into a test file: it has a test, or inherits a suite."""
    return re.search(r"^(def test_|class Test)", block, flags=re.MULTILINE) is not None


@pages
def test_every_example_of_a_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In life: the first thing that a newcomer copies raises. The blocks of one page are one program, in order."""
    monkeypatch.chdir(tmp_path)
    module = ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", module)  # dataclasses and pickle look there for what a block defines
    for line, block in blocks(page):
        if not is_test(block):
            code = compile("\n" * (line - 1) + block, str(page), "exec")  # so that a traceback shows the page's line
            exec(code, module.__dict__)


@pages
def test_every_test_of_a_page_passes(page: Path, tmp_path: Path) -> None:
    """They are run as a user would: in files of their own, by pytest, with the plugin that is installed with us."""
    tests = [(line, block) for line, block in blocks(page) if is_test(block)]
    for line, block in tests:
        (tmp_path / f"test_{page.stem}_{line}.py").write_text(block, "utf-8")
    if tests:
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, encoding="utf-8", timeout=120, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


# What is linked and named


@pytest.mark.parametrize("page", [*PAGES, *DECISIONS], ids=lambda page: page.stem)
def test_every_link_leads_somewhere(page: Path) -> None:
    """A page that was moved, a heading that was renamed."""
    faults = []
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text("utf-8")):
        if target.startswith("https://"):
            continue
        file, _, heading = target.partition("#")
        there = (page.parent / file).resolve() if file else page
        if not there.exists() or (heading and heading not in headings(there)):
            faults.append(target)
    assert faults == []


def headings(page: Path) -> set[str]:
    """The anchors that a page's headings have: lower case, spaces as hyphens, no other signs."""
    lines = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", line).strip().lower().replace(" ", "-") for line in lines}


@pages
def test_every_file_and_every_name_that_a_page_speaks_of_exists(page: Path) -> None:
    """A walk through the code with names that are gone is worse than none: the reader looks for them.

    Seen are `file.py`, `file.py::name`, `file.py::Class.name`, `Class.name` where Class is one of ours, and imports.
    """
    faults = []
    for span in spans(page):
        file, _, name = span.partition("::")
        if re.fullmatch(r"[\w./]+\.(py|md|toml)", file):
            there = found(file)
            if there is None or (name and not names_in(there).issuperset(name.split("."))):
                faults.append(span)
        elif re.fullmatch(r"[A-Z]\w+\.\w+", span):
            owner, member = span.split(".")
            if owner in classes() and member not in classes()[owner]:
                faults.append(span)
        elif match := re.fullmatch(r"from (tickless[\w.]*) import (\w+)", span):
            there = found(match.group(1).replace(".", "/").replace("tickless/", "", 1) + ".py")
            if there is None or match.group(2) not in names_in(there):
                faults.append(span)
    assert faults == []


def spans(page: Path) -> list[str]:
    """The code spans of a page, its blocks left out."""
    text = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    return re.findall(r"`([^`\n]+)`", text)


def found(file: str) -> Path | None:
    """The file, named from the root, from docs/, from the example of a task file, or from the library's own."""
    candidates = (base / file for base in (ROOT, ROOT / "docs", LIBRARY, ROOT / "examples" / "backup"))
    return next((path for path in candidates if path.is_file()), None)


@cache
def names_in(path: Path) -> frozenset[str]:
    """Every name that the file gives to something."""
    return frozenset(_given(ast.parse(path.read_text("utf-8"))))


@cache
def classes() -> dict[str, frozenset[str]]:
    """The library's classes, and the names that each gives to something of its own."""
    trees = [ast.parse(path.read_text("utf-8")) for path in sorted(LIBRARY.rglob("*.py"))]
    every = (node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    return {node.name: frozenset(_given(node)) for node in every}


def _given(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr


# What is drawn

BEGIN, END = "<!-- drawn from {}: begin -->", "<!-- drawn: end -->"


def moves_table() -> str:
    """The table of moves, a row a state."""
    rows = [f"| from | {' | '.join(MOVES)} |", f"|---|{'---|' * len(MOVES)}"]
    for state, after in MOVES.items():
        cells = " | ".join("yes" if other in after else "" for other in MOVES)
        rows.append(f"| **{state}** | {cells} |" if after else f"| {state} (terminal) | {cells} |")
    return "\n".join(rows)


def moves_diagram() -> str:
    """The same as a picture."""
    lines = ["```mermaid", "stateDiagram-v2", "    [*] --> pending"]
    lines += [f"    {state} --> {other}" for state, after in MOVES.items() for other in after]
    lines += [f"    {state} --> [*]" for state in State if state.terminal]
    return "\n".join([*lines, "```"])


def reasons_table() -> str:
    """Every reason, and what its line in the source says of it."""
    tree = ast.parse((LIBRARY / "states.py").read_text("utf-8"))
    body = next(node.body for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Reason")
    texts: dict[str, str] = {}
    for node, following in zip(body, [*body[1:], None], strict=True):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            told = following.value if isinstance(following, ast.Expr) else None
            texts[str(node.value.value)] = str(told.value) if isinstance(told, ast.Constant) else ""
    return "\n".join(["| reason | |", "|---|---|", *(f"| `{reason}` | {texts[reason]} |" for reason in Reason)])


DRAWN: dict[str, tuple[str, Callable[[], str]]] = {
    "the table of moves": ("states.md", moves_table),
    "the table of moves, as a picture": ("states.md", moves_diagram),
    "the reasons": ("states.md", reasons_table),
    "the commands": ("cli.md", commands_reference),
}
"""What -> the page that it stands in, and who draws it."""


def drawn_anew(text: str, what: str, draw: Callable[[], str]) -> str:
    """The page with that part drawn anew. Raises ValueError when the marks are not there."""
    begin, end = BEGIN.format(what), END
    before, found_begin, rest = text.partition(begin)
    _, found_end, after = rest.partition(end)
    if not found_begin or not found_end:
        raise ValueError(f"the marks of {what!r} are not in the page: {begin}")
    return f"{before}{begin}\n\n{draw()}\n\n{end}{after}"


@pytest.mark.parametrize("what", DRAWN)
def test_what_a_page_draws_from_the_source_is_as_the_source_says(what: str) -> None:
    """A move that was added, and a picture without it: `python tests/test_docs.py` draws it anew."""
    name, draw = DRAWN[what]
    text = (ROOT / "docs" / name).read_text("utf-8")
    assert drawn_anew(text, what, draw) == text


def test_every_promise_names_a_test_that_exists() -> None:
    """A promise without a test is a wish."""
    text = (ROOT / "docs" / "invariants.md").read_text("utf-8")
    _, *pairs = re.split(r"^## (P\d+)", text, flags=re.MULTILINE)
    parts = dict(zip(pairs[::2], pairs[1::2], strict=True))
    assert list(parts) == [f"P{number}" for number in range(1, 11)]
    unproved = [promise for promise, part in parts.items() if not re.search(r"`tests/[\w/]+\.py(::\w+)?`", part)]
    assert unproved == []


def test_decisions_are_numbered_without_a_gap() -> None:
    """A number names a decision for ever: twice the same one, or one that is missing, sends a reader astray."""
    assert [path.name[:4] for path in DECISIONS] == [f"{number:04}" for number in range(1, len(DECISIONS) + 1)]


def test_every_page_is_reached_from_the_readme() -> None:
    """A page that no link leads to is read by nobody."""
    readme = (ROOT / "README.md").read_text("utf-8")
    assert [page.name for page in (ROOT / "docs").glob("*.md") if f"docs/{page.name}" not in readme] == []


if __name__ == "__main__":
    for what, (name, draw) in DRAWN.items():
        path = ROOT / "docs" / name
        path.write_text(drawn_anew(path.read_text("utf-8"), what, draw), "utf-8")
