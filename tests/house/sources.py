"""The repository as the house tests see it: paths, module names, syntax trees."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SRC = ROOT / "src"
PYTHON_DIRECTORIES = ("src", "tests", "examples", "benchmarks")
LEFT_BY_TOOLS = frozenset({"__pycache__", "build", "dist"})


@dataclass(frozen=True)
class Source:
    """One Python file. `module` is dotted (`tickless.core.timeline`); of a package's __init__, the package."""

    module: str
    text: str
    is_package: bool = False

    @property
    def tree(self) -> ast.Module:
        return _parsed(self.text)


@cache
def _parsed(text: str) -> ast.Module:
    return ast.parse(text)


def source_of(path: Path, base: Path) -> Source:
    """The file at `path`, whose module name is counted from `base`."""
    parts = list(path.relative_to(base).with_suffix("").parts)
    is_package = parts[-1] == "__init__"
    return Source(".".join(parts[:-1] if is_package else parts), path.read_text("utf-8"), is_package)


@cache
def library() -> tuple[Source, ...]:
    """Every module of the library."""
    return tuple(source_of(path, SRC) for path in sorted(SRC.rglob("*.py")))


@cache
def all_python(*directories: str) -> tuple[Source, ...]:
    """Every Python file of the repository, or of the given top directories; modules are named from the root."""
    return tuple(
        source_of(path, ROOT)
        for directory in directories or PYTHON_DIRECTORIES
        for path in sorted((ROOT / directory).rglob("*.py"))
    )


def all_files(directory: Path = ROOT) -> Iterator[Path]:
    """Every file of the repository. What tools leave behind is not ours to judge: see .gitignore."""
    for path in sorted(directory.iterdir()):
        if path.is_symlink():
            continue
        if path.is_dir():
            hidden = path.name.startswith(".") and path.name not in {".ci", ".github"}
            if not hidden and path.name not in LEFT_BY_TOOLS:
                yield from all_files(path)
        elif path.name != ".git" and path.suffix != ".pyc":  # .git is a file in a worktree
            yield path


def functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Every function and method, nested ones too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node
