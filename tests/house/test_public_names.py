"""Every public name says what it is where it is defined, and is mentioned in the README or in docs/.

Why: a name that nobody explains is one that every user explains to themselves, each otherwise.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import NewType

import tickless
from tests.house.sources import ROOT, Source, library

DOORS = ("Scheduler", "Task", "Pool")
"""Classes whose every public method is a promise to users, and so has a docstring of its own."""


def undocumented(names: Mapping[str, object]) -> list[str]:
    """The names whose object has no docstring of its own: an inherited or generated one explains something else."""
    return [name for name, thing in names.items() if not _own_docstring(thing)]


def _own_docstring(thing: object) -> str:
    if isinstance(thing, type):
        text = vars(thing).get("__doc__") or ""
        generated = text.startswith(f"{thing.__name__}(")  # what dataclass and NamedTuple write
        return "" if generated else str(text)
    if isinstance(thing, ModuleType) or inspect.isroutine(thing) or isinstance(thing, property):
        return inspect.getdoc(thing) or ""
    if isinstance(thing, NewType):
        return str(vars(thing).get("__doc__") or "")
    return ""


def public_members(owner: type) -> dict[str, object]:
    """Methods and properties that the class itself defines, as `Owner.name`."""
    return {
        f"{owner.__name__}.{name}": getattr(member, "__func__", member)
        for name, member in vars(owner).items()
        if not name.startswith("_") and (callable(member) or isinstance(member, property | classmethod | staticmethod))
    }


def unmentioned(names: Iterable[str], markdown: str) -> list[str]:
    """The names that stand in no code of the text, be it a block or a span: "at" alone is a word of every sentence."""
    code = re.findall(r"^```.*?^```|`[^`\n]+`", markdown, flags=re.DOTALL | re.MULTILINE)
    words = set(re.findall(r"\w+", " ".join(code)))
    return [name for name in names if name not in words]


def exported(source: Source) -> tuple[set[str], set[str]]:
    """(the names in __all__, the public names that the module binds), both read from the source."""
    listed: set[str] = set()
    bound: set[str] = set()
    for node in _statements(source.tree):
        if isinstance(node, ast.ImportFrom) and node.module != "__future__":
            bound |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            bound |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            bound.add(node.name)
        elif isinstance(node, ast.Assign):
            targets = {target.id for target in node.targets if isinstance(target, ast.Name)}
            if "__all__" in targets:
                listed |= set(ast.literal_eval(node.value))
            bound |= targets
    return listed, {name for name in bound if not name.startswith("_")}


def _statements(tree: ast.Module) -> Iterator[ast.stmt]:
    """Those of the module, and those that only a type checker sees."""
    for node in tree.body:
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            yield from node.body
        else:
            yield node


def prose() -> str:
    """All that a user may read before the source."""
    files: list[Path] = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return "\n".join(path.read_text("utf-8") for path in files)


def public_names() -> dict[str, object]:
    return {name: getattr(tickless, name) for name in tickless.__all__ if not name.startswith("_")}


def test_the_package_gives_its_public_names_and_nothing_else() -> None:
    """What can be imported will be imported, and is then a promise."""
    root = next(source for source in library() if source.module == "tickless")
    listed, bound = exported(root)
    assert listed - bound == set()
    assert bound - listed == set()


def test_each_public_name_is_where_a_type_checker_is_told_that_it_is() -> None:
    """In life: the editor offers a name that cannot be imported, or another thing of the same name."""
    root = next(source for source in library() if source.module == "tickless")
    told = {
        alias.name: node.module
        for node in _statements(root.tree)
        if isinstance(node, ast.ImportFrom) and node.module != "__future__"
        for alias in node.names
    }
    assert told == tickless._HOMES
    for name, module in told.items():
        assert getattr(tickless, name) is getattr(importlib.import_module(str(module)), name)


def test_every_public_name_has_a_docstring_of_its_own() -> None:
    """`help(tickless.every)` is read before any page."""
    assert undocumented(public_names()) == []


def test_every_method_of_a_door_has_a_docstring() -> None:
    """Units, edges and errors have no other place where a user finds them while typing."""
    for door in DOORS:
        assert undocumented(public_members(getattr(tickless, door))) == []


def test_every_public_name_is_mentioned_in_the_docs() -> None:
    """Else it can be found by those only who know that it exists."""
    assert unmentioned(public_names(), prose()) == []


def test_a_name_without_a_docstring_of_its_own_is_reported() -> None:
    """Inherited and generated texts do not count."""
    from dataclasses import dataclass
    from typing import NamedTuple

    class Base:
        """The base."""

    class Heir(Base):
        pass

    @dataclass
    class Generated:
        x: int

    class Pair(NamedTuple):
        x: int

    def bare() -> None: ...

    def told() -> None:
        """What it gives."""

    things = {"Base": Base, "Heir": Heir, "Generated": Generated, "Pair": Pair, "bare": bare, "told": told}
    assert undocumented(things) == ["Heir", "Generated", "Pair", "bare"]


def test_a_method_without_a_docstring_is_reported() -> None:
    """Properties and class methods are methods to the one who reads."""

    class Door:
        """A door."""

        def told(self) -> None:
            """Told."""

        def silent(self) -> None: ...

        @property
        def state(self) -> int:
            return 1

        @classmethod
        def made(cls) -> None: ...

        def _inner(self) -> None: ...

    assert undocumented(public_members(Door)) == ["Door.silent", "Door.state", "Door.made"]


def test_a_name_that_stands_in_no_text_is_reported() -> None:
    """Part of a longer word is no mention, nor is a word of a sentence."""
    text = "Look at `TaskInfo` and `every(seconds=1)`.\n```python\nafter(1)\n```\n"
    assert unmentioned(["Task", "every", "at", "after"], text) == ["Task", "at"]


def test_a_name_that_is_given_and_not_listed_is_reported() -> None:
    """And one that is listed and not given."""
    text = "from a import B, C as _c\nimport os\n__all__ = ['B', 'D']"
    assert exported(Source("tickless", text, is_package=True)) == ({"B", "D"}, {"B", "os"})
