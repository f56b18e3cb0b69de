"""Which module stands on which floor, and what an import may reach from there. CONTRIBUTING.md says why."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from tests.house.sources import Source

FLOORS: dict[str, int] = {
    # values: no I/O, no threads
    "tickless.errors": 0,
    "tickless.instants": 0,
    "tickless.states": 0,
    "tickless.records": 0,
    "tickless.round_info": 0,
    "tickless.parts": 0,
    "tickless.values": 0,
    "tickless.policies": 0,
    "tickless.rules": 0,
    # the pure machine
    "tickless.core": 1,
    # adapters, which do not know one another
    "tickless.clocks": 2,
    "tickless.stores": 2,
    "tickless.pools": 2,
    "tickless.observe": 2,
    # thin shells
    "tickless.bell": 3,
    "tickless.dispatcher": 3,
    "tickless.worker": 3,
    "tickless.output": 3,
    "tickless.lifetime": 3,
    "tickless.explain": 3,
    # doors
    "tickless.scheduler": 4,
    "tickless.task": 4,
    "tickless.drafts": 4,
    "tickless.limits": 4,
    "tickless.options": 4,
    "tickless.changes": 4,
    "tickless.checks": 4,
    "tickless.works": 4,
    "tickless.waits": 4,
    "tickless.hands": 4,
    "tickless.durable": 4,
    "tickless.places": 4,
    "tickless.strangers": 4,
    "tickless.upkeep": 4,
    "tickless.verbs": 4,
    "tickless.simulation": 4,  # what it simulates is a program of the scheduler, so it makes one
    "tickless.flow": 4,
    "tickless.plan": 4,
    "tickless.conditions": 4,
    "tickless.round": 4,
    "tickless.declared": 4,
    "tickless.decorators": 4,
    "tickless.testing": 4,
    "tickless.control": 4,
    "tickless.taskfile": 4,
    "tickless.commands": 4,
    "tickless.cli": 4,
    "tickless.__main__": 4,
    "tickless.web": 4,
    "tickless.integrations": 4,
    # the public names: only a door may ask for them
    "tickless": 4,
}
"""The module, or the package with all that is in it -> its floor. A new module gets its line here first."""

PURE = 1
"""The highest floor without clocks, randomness, threads and I/O."""
ADAPTERS = 2


@dataclass(frozen=True)
class Import:
    """One import of something of ours: `target` is a module of the library, `name` what is taken from it, if any."""

    source: str
    target: str
    name: str | None
    line: int
    runs: bool
    """False under `if TYPE_CHECKING`: a dependency for the reader, none for the machine."""

    def __str__(self) -> str:
        return f"{self.source}:{self.line} imports {self.target}" + (f" ({self.name})" if self.name else "")


def member(module: str) -> str | None:
    """The line of FLOORS that the module falls under. The root's own line stands for the root alone."""
    parts = module.split(".")
    for length in range(len(parts), 1, -1):
        if (prefix := ".".join(parts[:length])) in FLOORS:
            return prefix
    return module if module == "tickless" else None


def imports_of(source: Source, modules: Collection[str]) -> Iterator[Import]:
    """Every import of ours, wherever it is written: at the top, in a function, for types only."""
    for node, runs in _import_nodes(source.tree, runs=True):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "tickless":
                    yield Import(source.module, alias.name, None, node.lineno, runs)
        else:
            origin = _origin(source, node)
            if origin.split(".")[0] != "tickless":
                continue
            for alias in node.names:
                inner = f"{origin}.{alias.name}"
                target, name = (inner, None) if inner in modules else (origin, alias.name)
                yield Import(source.module, target, name, node.lineno, runs)


def _import_nodes(node: ast.AST, runs: bool) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child, runs
        elif isinstance(child, ast.If) and ast.unparse(child.test).endswith("TYPE_CHECKING"):
            for inner in child.body:
                yield from _import_nodes(ast.Module([inner], []), runs=False)
            for inner in child.orelse:
                yield from _import_nodes(ast.Module([inner], []), runs)
        else:
            yield from _import_nodes(child, runs)


def _origin(source: Source, node: ast.ImportFrom) -> str:
    """The module that `from ... import` names, relative ones resolved."""
    if not node.level:
        return node.module or ""
    package = source.module.split(".") if source.is_package else source.module.split(".")[:-1]
    base = package[: len(package) - (node.level - 1)]
    return ".".join([*base, *([node.module] if node.module else [])])


def floor_faults(sources: Collection[Source]) -> list[str]:
    """Modules without a floor, and imports that go up."""
    modules = {source.module for source in sources}
    faults = []
    for source in sources:
        home = member(source.module)
        if home is None:
            faults.append(f"{source.module} stands on no floor: give it a line in tests/house/floors.py")
            continue
        for imported in imports_of(source, modules):
            target = member(imported.target)
            if target is None:
                faults.append(f"{imported}, which stands on no floor")
            elif FLOORS[target] > FLOORS[home]:
                faults.append(f"{imported}: from floor {FLOORS[home]} up to floor {FLOORS[target]}")
    return faults


def adapter_faults(sources: Collection[Source]) -> list[str]:
    """Adapters that know one another by more than a Protocol in the other package's __init__."""
    modules = {source.module for source in sources}
    protocols = {(source.module, name) for source in sources for name in _protocols(source.tree)}
    faults = []
    for source in sources:
        home = member(source.module)
        if home is None or FLOORS[home] != ADAPTERS:
            continue
        for imported in imports_of(source, modules):
            target = member(imported.target)
            stranger = target is not None and target != home and FLOORS[target] == ADAPTERS
            if stranger and not (imported.target == target and (target, imported.name) in protocols):
                faults.append(f"{imported}: an adapter knows another by its package's Protocol only")
    return faults


def _protocols(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            bases = (base.value if isinstance(base, ast.Subscript) else base for base in node.bases)
            if any(ast.unparse(base).split(".")[-1] == "Protocol" for base in bases):
                yield node.name


def cycle_faults(sources: Collection[Source]) -> list[str]:
    """Modules of one floor that need one another to run. What is for types only cannot hurt at run time."""
    modules = {source.module for source in sources}
    needs = {
        source.module: sorted({i.target for i in imports_of(source, modules) if i.runs and i.target in modules})
        for source in sources
    }
    faults, done = [], set[str]()
    for start in sorted(needs):
        faults += _cycles_from(start, needs, done)
    return faults


def _cycles_from(start: str, needs: dict[str, list[str]], done: set[str]) -> list[str]:
    """Depth first; `done` are the modules already searched from an earlier start."""
    faults: list[str] = []
    path: list[str] = []

    def visit(module: str) -> None:
        if module in path:
            faults.append(" imports ".join([*path[path.index(module) :], module]))
        elif module not in done:
            path.append(module)
            for target in needs[module]:
                visit(target)
            path.pop()
            done.add(module)

    visit(start)
    return faults
