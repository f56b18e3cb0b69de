"""From what a task file says to a scheduler that does it, and from one file to the next."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tickless.commands.command import Command
from tickless.control.subject import Subject
from tickless.errors import PayloadError, TicklessError
from tickless.observe import Observer
from tickless.observe.text import error_line
from tickless.pools import Pool
from tickless.scheduler import Scheduler
from tickless.states import DEFAULT_POOL
from tickless.stores.sql.address import parse
from tickless.taskfile.read import read
from tickless.taskfile.values import FileError, FlowDef, Problem, PythonCall, TaskDef, TaskFile, part_id

PREFIX = "task:"
"""Before the name of a task, as the name of its work in a store: no function has such a name."""
if TYPE_CHECKING:
    from tickless.commands.children import Children
    from tickless.commands.kept import Outputs
    from tickless.commands.lines import Lines

DEFAULT_SLOTS = 1_000
"""Commands cost no thread of ours; cron starts as many as there are."""
Work = Callable[..., Any]


class FileWorks:
    """What the rows of a store call the works of a task file: by the names of its tasks. Asked by any thread."""

    names_no_tasks = True

    def __init__(self) -> None:
        self._by_name: dict[str, Work] = {}
        self._names: dict[int, str] = {}

    def put(self, works: Mapping[str, Work]) -> None:
        """These from now on; a run that goes on keeps what it has."""
        self._names = {id(work): PREFIX + name for name, work in works.items()}
        self._by_name = {PREFIX + name: work for name, work in works.items()}

    def add(self, works: Mapping[str, Work]) -> None:
        """These as well, for as long as both files count."""
        self._names |= {id(work): PREFIX + name for name, work in works.items()}
        self._by_name |= {PREFIX + name: work for name, work in works.items()}

    def resolve(self, name: str) -> Work:
        work = self._by_name.get(name)
        if work is None:
            raise PayloadError(
                f"the task file has no task {name.removeprefix(PREFIX)!r} any more; put it back, or cancel it"
            )
        return work

    def name_of(self, work: Work) -> str:
        name = self._names.get(id(work))
        if name is None:
            raise PayloadError(f"work={work!r}: is of no task of the task file")
        return name


@dataclass
class Program:
    """A task file with the scheduler that does it."""

    file: TaskFile
    scheduler: Scheduler
    works: FileWorks
    children: dict[str, Children] = field(default_factory=dict)
    outputs: Outputs | None = None

    @property
    def subject(self) -> Subject:
        return Subject(self.scheduler, outputs=self.outputs, descriptions=descriptions_of(self.file))


def descriptions_of(file: TaskFile) -> dict[str, str]:
    return {task.name: task.description for task in file.tasks if task.description}


def program_of(
    file: TaskFile,
    *,
    observers: Iterable[Observer],
    lines: Lines,
    tell: Callable[[str], object],
    store: bool = True,
) -> Program:
    """The scheduler of the file, with nothing in it yet, and not started. Raises what `Scheduler` raises.

    `tell`: of a disk that takes no output. `store`: False keeps tasks in memory whatever the file says.
    """
    from tickless.commands.children import Children  # whoever only looks at a file starts no process
    from tickless.commands.kept import Outputs

    works = FileWorks()
    url = store_of(file) if store else None
    outputs = Outputs(folder=None if url is None else output_folder(url), tell=tell)
    children = {
        name: Children(slots, outputs=outputs, lines=lines)
        for name, slots in {DEFAULT_POOL: DEFAULT_SLOTS, **file.pools}.items()
    }
    pools = {
        name: Pool(children[name], slots=slots) for name, slots in {DEFAULT_POOL: DEFAULT_SLOTS, **file.pools}.items()
    }
    kept: dict[str, Any] = {} if url is None else {"store": url, "works": works}
    scheduler = Scheduler(pools=pools, limits=file.limits, observers=observers, **kept)
    return Program(file, scheduler, works, children, outputs)


def sketch_of(file: TaskFile) -> Program:
    """As `program_of`, to be looked at only: it keeps tasks in memory, and nothing of it could run."""
    pools = {name: Pool(_NoPool(), slots=slots) for name, slots in {DEFAULT_POOL: DEFAULT_SLOTS, **file.pools}.items()}
    return Program(file, Scheduler(pools=pools, limits=file.limits, observers=[]), FileWorks())


class _NoPool(Executor):
    """Takes nothing."""


def store_of(file: TaskFile) -> str | None:
    """The address of its store, from the folder of the file on."""
    if file.store is None:
        return None
    path = parse(file.store)
    base = Path(os.path.abspath(file.path)).parent
    return f"sqlite:///{base / path}"


def output_folder(url: str) -> Path:
    """Where the output of commands is kept, beside the store."""
    path = parse(url)
    return path.with_name(f"{path.name}-output")


def works_of(file: TaskFile) -> dict[str, Work]:
    """What each task and each `on_failure` calls, by name. Imports modules. Raises FileError."""
    works: dict[str, Work] = {}
    problems: list[Problem] = []
    folder = str(Path(os.path.abspath(file.path)).parent)
    for task in file.tasks:
        for key, said in ((task.name, task.work), (handler_name(task), task.on_failure)):
            if said is None:
                continue
            try:
                works[key] = _work(said, folder)
            except _Unfit as error:
                place = f"{task.place}.{'python' if said is task.work else 'on_failure'}"
                problems.append(Problem(place, str(error)))
    if problems:
        raise FileError(file.path, tuple(problems))
    return works


def handler_name(task: TaskDef) -> str:
    return f"{task.name}.on_failure"


class _Unfit(Exception):
    """A Python function that cannot be had; the message says why."""


def _work(said: Command | PythonCall, folder: str) -> Work:
    if isinstance(said, Command):
        return said
    from tickless.commands.python import PythonWork

    return PythonWork(_function(said.target, folder), said.args, dict(said.kwargs))


def _function(target: str, folder: str) -> Work:
    """The function that `module:name` names; the folder of the task file is looked into first."""
    if folder not in sys.path:
        sys.path.insert(0, folder)
    module, _, name = target.partition(":")
    try:
        found: Any = importlib.import_module(module)
    except Exception as error:  # noqa: BLE001 - a module may raise anything; it is told
        raise _Unfit(f"module {module} cannot be imported: {error_line(error)}") from None
    except SystemExit:
        raise _Unfit(f"module {module} called sys.exit while it was imported") from None
    for part in name.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            raise _Unfit(f"module {module} has no {name!r}") from None
    if not callable(found):
        raise _Unfit(f"{target} is a {type(found).__name__}, and nothing to call")
    work: Work = found
    return work


def enter(program: Program, works: Mapping[str, Work], parts: Iterable[TaskDef | FlowDef]) -> None:
    """Schedule these parts of the file, or update those that are there. Raises FileError, which names the place."""
    for part in parts:
        try:
            if isinstance(part, FlowDef):
                _enter_flow(program.scheduler, works, part)
            else:
                _enter_task(program.scheduler, works, part)
        except TicklessError as error:
            place = part.tasks[0].place if isinstance(part, FlowDef) else part.place
            raise FileError(program.file.path, (Problem(place, str(error)),)) from error


def _enter_task(scheduler: Scheduler, works: Mapping[str, Work], task: TaskDef) -> None:
    options = dict(task.options)
    if task.on_failure is not None:
        options["on_failure"] = works[handler_name(task)]
    scheduler.schedule(works[task.name], task.when, id=task.name, name=task.name, exists="update", **options)


def _enter_flow(scheduler: Scheduler, works: Mapping[str, Work], part: FlowDef) -> None:
    with scheduler.flow(part.id, part.when, exists="update", **part.options) as flow:
        for task in part.tasks:
            options = dict(task.options)
            if task.on_failure is not None:
                options["on_failure"] = works[handler_name(task)]
            flow.task(works[task.name], name=task.name, after_tasks=task.after_tasks, **options)


def check(file: TaskFile) -> dict[str, Work]:
    """Everything that can be wrong with the file and that only a scheduler finds out. Gives its works.

    Raises FileError. Nothing is run.
    """
    works = works_of(file)
    scratch = sketch_of(file)
    problems: list[Problem] = []
    for part in file.parts:
        try:
            enter(scratch, works, [part])
        except FileError as error:
            problems += error.problems
    scratch.scheduler.close()
    if problems:
        raise FileError(file.path, tuple(problems))
    return works


def fill(program: Program, works: Mapping[str, Work]) -> list[str]:
    """Schedule all of the file. Gives the ids of what the store has and the file has not, which is cancelled."""
    gone = _gone(program)
    program.works.put(works)
    enter(program, works, program.file.parts)
    return gone


def _gone(program: Program) -> list[str]:
    """Cancel what an earlier version of the file has left in the store. Gives the ids."""
    scheduler = program.scheduler
    if scheduler._durable is None:
        return []
    there = {part_id(part) for part in program.file.parts}
    gone = [
        info.id
        for info in scheduler.tasks()
        if info.state.after and info.id.partition("@")[0] not in there and _is_ours(scheduler, info.id)
    ]
    for id in gone:
        scheduler.cancel(id)
    return gone + _leave_rounds(scheduler, program.file)


def _leave_rounds(scheduler: Scheduler, file: TaskFile) -> list[str]:
    """Cancel, in the rounds that go on, what the flows of the file have no more: they would wait for it for ever.

    Gives the ids.
    """
    flows = {part.id: {task.name for task in part.tasks} for part in file.parts if isinstance(part, FlowDef)}
    gone = []
    for info in scheduler.tasks():
        round_id, slash, name = info.id.partition("/")
        name = name.partition("/")[0]  # behind it, what is done when it has failed: `root@.../leaf/on_failure`
        if slash and info.state.after and name not in flows.get(round_id.partition("@")[0], {name}):
            gone.append(info.id)
    for id in gone:
        scheduler.cancel(id)
    return gone


def _is_ours(scheduler: Scheduler, id: str) -> bool:
    """Whether the row was written by a task file, and not by a program that shares the store."""
    work: Any = scheduler._record_of(id)._work
    assert scheduler._durable is not None
    is_flow = scheduler.get(id).is_flow
    names: list[str] = scheduler._durable.store.transactions.read(lambda: work.works if is_flow else [work.name])
    return all(name.startswith(PREFIX) for name in names)


def looked_at(path: Path) -> tuple[TaskFile, Subject]:
    """A file that nobody runs, and what is known of it: what its store has, or else what it says. Raises FileError."""
    file = read(path)
    url = store_of(file)
    if url is not None and parse(url).exists():
        from tickless.commands.kept import Outputs
        from tickless.strangers import open_store

        outputs = Outputs(folder=output_folder(url))
        return file, Subject(open_store(url), outputs=outputs, descriptions=descriptions_of(file))
    works = check(file)
    program = sketch_of(file)
    enter(program, works, file.parts)
    return file, program.subject


def swap(program: Program, file: TaskFile) -> None:
    """Put another file in the place of the one that is done, all or nothing: what is unchanged is left alone.

    Raises FileError; then nothing has changed.
    """
    problems = [
        Problem(name, "cannot be changed while it runs; start it anew")
        for name in ("pools", "limits", "store")
        if getattr(file, name) != getattr(program.file, name)
    ]
    before = {part_id(part): part for part in program.file.parts}
    for part in file.parts:
        there = before.get(part_id(part))
        if there is not None and type(there) is not type(part):
            said = "a flow" if isinstance(there, FlowDef) else "a task"
            place = part.tasks[0].place if isinstance(part, FlowDef) else part.place
            problems.append(Problem(place, f"is {said} so far, and cannot become another while it runs; start it anew"))
    if problems:
        raise FileError(file.path, tuple(problems))
    works = check(file)
    now = {part_id(part) for part in file.parts}
    program.works.add(works)
    enter(program, works, [part for part in file.parts if before.get(part_id(part)) != part])
    for id in before:
        if id not in now:
            program.scheduler.cancel(id)
    _leave_rounds(program.scheduler, file)
    program.works.put(works)
    program.file = file
