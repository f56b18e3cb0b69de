"""A scheduler's durable store: opened from its address, with a clock of its boot and a thread that renews leases."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from threading import Lock, Thread
from typing import Any

from tickless.bell import Bell
from tickless.clocks import SystemClock, boot_id, elapsed_us
from tickless.errors import PayloadError, ScheduleError, StoreError
from tickless.instants import SECOND_US, Clock, DrivenClock, Instant
from tickless.options import Options, policy_in
from tickless.places import Keeps, Place
from tickless.policies import Limit
from tickless.pools import Pool
from tickless.rules import Rule
from tickless.stores.registered import Works
from tickless.stores.sql import looking
from tickless.stores.sql.address import parse
from tickless.stores.sql.batches import update_all
from tickless.stores.sql.sqlite import Database
from tickless.stores.sql.store import MOST_GROUP, SqlStore
from tickless.task import Task


class Durable:
    """What a scheduler with a store has besides."""

    def __init__(
        self,
        place: Place,
        owner: object,
        keeps: Keeps,
        pools: Mapping[str, Pool],
        limits: Iterable[Limit],
        clock: Clock | None,
    ) -> None:
        works = place.works
        self.works: Works = works if hasattr(works, "resolve") else Works(works, place.aliases)
        self.stands_in: bool = getattr(self.works, "stands_in", False)
        """Whether its works are none of this program's: see `tickless.strangers`."""
        database = Database(parse(place.url), place.durability, as_it_is=self.stands_in)
        try:
            self.store = SqlStore(
                database,
                works=self.works,
                record=Task,
                owner=owner,
                **keeps._asdict(),
                pools={name: pool.slots for name, pool in pools.items()},
                limits=limits,
                most_group=1 if isinstance(clock, DrivenClock) else MOST_GROUP,  # in tests one at a time, as in memory
                lease_us=place.lease_us,
                results=place.results,
                keep_for_us=place.keep_for_us,
            )
            self.clock = clock_of(self.store) if clock is None else clock
        except BaseException:
            database.close()
            raise
        self._renewer: Renewer | None = None

    def check_start(self) -> None:
        """Raises ScheduleError for who only looks in: what is in the file is not its to run."""
        if self.stands_in:
            raise ScheduleError(
                f"{self.store.db.path}: was opened by open_store(), without the works of its tasks, and cannot be "
                "started; start a Scheduler(store=...) in the program that has them"
            )

    def start(self, ring: Callable[[], None] | None, tell: Callable[[str], None]) -> None:
        """The scheduler begins. `ring` has it turn; None where a driven clock does. `tell`: of a trouble."""
        self.store.transactions.ring = ring
        self.store.transactions.is_driven = ring is None
        strangers = self._strangers()
        if strangers:
            said = ", ".join(strangers)
            tell(
                f"{self.store.db.path}: has recurring tasks whose work this program does not have: {said}; "
                "give works= or aliases=, or cancel them"
            )
        if ring is not None and self._renewer is None:
            self._renewer = Renewer(self.store, self.clock)
            self._renewer.start()

    def _strangers(self) -> list[str]:
        """The works of recurring tasks in the file that this program does not have: dropped, or never there."""
        session, read = self.store.session, self.store.transactions.read
        names: list[str] = read(lambda: looking.works_of_recurring(session))
        return [name for name in names if not self._has(name)]

    def _has(self, name: str) -> bool:
        try:
            self.works.resolve(name)
        except PayloadError:
            return False
        return True

    def leave(self) -> None:
        """Nothing runs here any more."""
        if self._renewer is not None:
            self._renewer.stop()
        self.store.leave()

    def with_defaults(self, work: object, when: Rule | None, options: Options) -> Options:
        """A recurring task without an id has that of its work, and one that is there is updated: a program that starts
        again schedules the same tasks again.
        """
        if when is None or not getattr(when, "recurring", False) or getattr(self.works, "names_no_tasks", False):
            return options
        said: Options = {"exists": "update", **options}
        if said.get("id") is None:
            said["id"] = self.works.name_of(work)  # type: ignore[arg-type]  # what is no work is refused there
        return said

    @contextmanager
    def declaring(self, work: Callable[..., Any], name: str, instead_of: Callable[..., Any] | None) -> Iterator[None]:
        """Have rows call the work that, unless what is done inside raises. The file is not touched.

        Raises PayloadError when the name is another's.
        """
        declaring = getattr(self.works, "declaring", None)
        with nullcontext() if declaring is None else declaring(work, name, instead_of):
            yield

    def check(self, task: Task[Any]) -> None:
        """Raises PayloadError where the task could not be stored. The file is not touched."""
        handler = policy_in(task._more).on_failure
        if handler is not None:
            self.works.name_of(handler)
        self.store._pack(task)

    def update_all(self, tasks: Sequence[Task[Any]], now: Instant) -> None:
        """Enter each task, or update the one of its id: all or nothing."""
        update_all(self.store, tasks, now)


def clock_of(store: SqlStore) -> SystemClock:
    """The clock that all processes of this boot share on this file."""
    return SystemClock(store.base_of(boot_id(), elapsed_us(), SystemClock().wall()))


class Renewer:
    """The thread that renews leases: it sleeps for as long as nothing runs here, whatever the pool does."""

    def __init__(self, store: SqlStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._bell = Bell()
        self._asleep = False
        self._stopped = False
        self._starting = Lock()
        self._thread: Thread | None = None

    def start(self) -> None:
        """Begin. The thread is started with the first run."""
        self._store.claims.claimed = self._claimed

    def _claimed(self) -> None:
        if self._thread is None:
            self._begin()
        elif self._asleep:
            self._bell.ring()

    def _begin(self) -> None:
        with self._starting:  # several workers may come at once
            if self._thread is None and not self._stopped:
                thread = Thread(target=self._loop, name="tickless-leases", daemon=True)
                thread.start()
                self._thread = thread

    def _loop(self) -> None:
        period_s = self._store.lease_us / 3 / SECOND_US
        while not self._stopped:
            self._asleep = True  # store, then look: who claims looks at this afterwards
            if not self._store.claims.any():
                self._bell.wait(None)
            self._asleep = False
            if self._is_over():
                return
            self._bell.wait(period_s)
            if self._store.claims.any() and not self._is_over():
                try:
                    self._store.renew(self._clock.now())
                except StoreError:
                    continue  # the dispatcher says so; until the lease is over it may be tried again

    def _is_over(self) -> bool:
        return self._stopped

    def stop(self) -> None:
        """No more renewals."""
        with self._starting:
            self._stopped = True
        self._bell.ring()
        if self._thread is not None:
            self._thread.join()
