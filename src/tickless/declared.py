"""What was declared to a scheduler: who has which name and which id, and what enters the store at the start.

A module that is executed again, by `importlib.reload` or as a cell of a notebook, declares again what it declared
before, and that takes the place of the former. All else that gives a name or an id twice is a clash.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from threading import RLock
from types import CodeType, FrameType, FunctionType
from typing import TYPE_CHECKING, Any

from tickless.errors import DuplicateId, RuleError, ScheduleError, SchedulerClosed, TicklessError, UnknownTask, shown
from tickless.instants import Instant

if TYPE_CHECKING:
    from tickless.scheduler import Scheduler
    from tickless.task import Task


@dataclass(frozen=True, eq=False, slots=True)
class Origin:
    """Where something is declared."""

    function: FunctionType
    execution: CodeType | None
    """The code of the module that is being executed; None: its functions are called, and no more."""

    def __str__(self) -> str:
        code = self.function.__code__
        return f"{self.function.__qualname__} ({code.co_filename}:{code.co_firstlineno})"

    def follows(self, former: Origin) -> bool:
        """Whether the module was executed again after it had declared the former."""
        mine, other = self.function, former.function
        return (
            None not in (self.execution, former.execution)
            and self.execution is not former.execution
            and mine.__module__ == other.__module__
            and (mine.__globals__ is other.__globals__ or mine.__code__.co_filename == other.__code__.co_filename)
        )


def origin_of(function: FunctionType) -> Origin:
    """Where that function is declared now. O(depth of the stack)."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name == "<module>" and frame.f_globals is function.__globals__:
            return Origin(function, frame.f_code)
        frame = frame.f_back
    return Origin(function, None)


@contextmanager
def told_where(origin: Origin) -> Iterator[None]:
    """Have what is refused inside say of which function, and where that stands."""
    try:
        yield
    except (TicklessError, TypeError) as error:
        if str(error).startswith(f"{origin}: "):
            raise
        kind = RuleError if isinstance(error, RuleError) else type(error)
        raise kind(f"{origin}: {error}") from error


@dataclass(frozen=True, eq=False, slots=True)
class Declaration:
    """What enters the store at the start, under an id of its own.

    Either `draft`, and it is entered together with all others that have one; or `enter`, which is called after them.
    """

    id: str
    origin: Origin
    draft: Callable[[Instant], Task[Any]] | None = None
    enter: Callable[[], object] | None = None


@dataclass(eq=False, slots=True)
class Declarations:
    """Those of one scheduler. Who declares holds the lock meanwhile."""

    named: dict[str, tuple[Origin, Any]] = field(default_factory=dict)
    """Name -> where it is declared, and the function that bears it."""
    listed: dict[str, Origin] = field(default_factory=dict)
    """Id -> where it is declared."""
    waiting: list[Declaration] = field(default_factory=list)
    """What has not entered yet, in order."""
    entered: set[str] = field(default_factory=set)
    """Ids that have entered."""
    lock: RLock = field(default_factory=RLock)
    """One start, or one declaration, at a time. Nothing else waits for it."""

    def check_name(self, name: str, origin: Origin) -> Any:
        """The function that has the name: the same one, declared twice, or that of a former execution; None: nobody.

        Raises ScheduleError for another's.
        """
        if name not in self.named:
            return None
        former, bearer = self.named[name]
        if origin.function is not former.function and not origin.follows(former):
            raise ScheduleError(f"the name {shown(name)} is declared already, by {former}; give one of them name=")
        return bearer

    def add(self, scheduler: Scheduler, origin: Origin, name: tuple[str, Any] | None, one: Declaration | None) -> None:
        """Give a name, with who bears it, away; have a declaration enter at the start, at once when that has been.

        What the former bearer of the name has waiting does not enter any more. Raises DuplicateId for an id that is
        another's, and what `enter` raises; then nothing has changed.
        """
        if one is not None:
            former = self.listed.get(one.id)
            if former is not None and not origin.follows(former):
                raise DuplicateId(f"the id {shown(one.id)} is declared already, by {former}; give one of them id=")
        before = dict(self.named), dict(self.listed)
        gone = [waits for waits in self.waiting if self._makes_room(waits, origin, name, one)]
        self.waiting = [waits for waits in self.waiting if waits not in gone]
        if name is not None:
            self.named[name[0]] = origin, name[1]
        if one is None:
            return
        self.listed[one.id] = origin
        self.waiting.append(one)
        try:
            if scheduler.phase == "running":  # it waits, then one looks: `start` does the opposite
                self.enter(scheduler)
        except BaseException:
            self.named, self.listed = before
            self.waiting = [*gone, *(waits for waits in self.waiting if waits is not one)]
            raise

    def _makes_room(
        self, waits: Declaration, origin: Origin, name: tuple[str, Any] | None, one: Declaration | None
    ) -> bool:
        if one is not None and waits.id == one.id:
            return True
        if name is None or name[0] not in self.named:
            return False
        former = self.named[name[0]][0].function
        return former is waits.origin.function and former is not origin.function

    def enter(self, scheduler: Scheduler) -> None:
        """Enter what waits: drafts all or nothing, then the others one after another. What has entered waits no more.

        Who calls looks afterwards, without the lock: what is due may run in a pool that runs it at once.
        """
        with self.lock:
            drafted = [one for one in self.waiting if one.draft is not None]
            if drafted:
                self._enter_drafts(scheduler, drafted)
                self.waiting = [one for one in self.waiting if one.draft is None]
            while self.waiting:
                one = self.waiting[0]
                if one.enter is not None:
                    with told_where(one.origin):
                        one.enter()
                with suppress(ValueError):  # it may have been declared anew by what was called
                    self.waiting.remove(one)

    def _enter_drafts(self, scheduler: Scheduler, drafted: list[Declaration]) -> None:
        now = scheduler._now()
        tasks: list[Task[Any]] = []
        again: list[Task[Any]] = []
        for one in drafted:
            assert one.draft is not None
            with told_where(one.origin):
                if scheduler._durable is None and one.id not in self.entered:
                    _check_unlisted(scheduler, one.id)
                (again if one.id in self.entered else tasks).append(one.draft(now))
        if scheduler._durable is not None:
            scheduler._durable.update_all([*tasks, *again], now)
        else:
            scheduler._store.add_many(tasks, now)
            for task in again:
                scheduler._store.add_or("update", task, now)
        self.entered.update(one.id for one in drafted)


def _check_unlisted(scheduler: Scheduler, id: str) -> None:
    with suppress(UnknownTask):
        scheduler._store.find(id)
        raise DuplicateId(f"the id {shown(id)} is that of a task that was scheduled before; give one of them another")


def declare(scheduler: Scheduler, function: FunctionType, id: str, enter: Callable[[], object]) -> None:
    """Have `enter` called at the start of the scheduler, at once when that has been; what it raises says `function`.

    Raises DuplicateId, which names both places, when the id is declared elsewhere; SchedulerClosed, ForkedScheduler.
    """
    check_open(scheduler)
    origin = origin_of(function)
    with told_where(origin), scheduler._declared.lock:
        scheduler._declared.add(scheduler, origin, None, Declaration(id, origin, enter=enter))
    look(scheduler)


def look(scheduler: Scheduler) -> None:
    """Have done what a declaration after the start makes due. Without the lock."""
    if scheduler.phase == "running":
        scheduler._look()


def check_open(scheduler: Scheduler) -> None:
    """Raises SchedulerClosed, or ForkedScheduler."""
    scheduler._check_fork()
    if scheduler.phase in ("closing", "closed"):
        raise SchedulerClosed("the scheduler is closed, and closing is final; declare to one that is not")
