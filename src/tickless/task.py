"""`Task`, the handle that `schedule` gives: what a user holds of a task."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Generic, Never, TypeVar, Unpack, final

from tickless.core.record import NOT_SET, TaskRecord
from tickless.errors import CancelledError, OutputGone, StoreError, TaskSkipped
from tickless.explain import Seen, add_story, full_name, look_in, story
from tickless.output import Output
from tickless.records import Run, TaskInfo
from tickless.rules import Rule
from tickless.states import Cancelled, CatchUp, Reason, State

if TYPE_CHECKING:
    from tickless.options import Changes
    from tickless.scheduler import Scheduler

T = TypeVar("T")


@final
class Task(TaskRecord, Generic[T]):
    """One scheduled task. Every property asks the scheduler anew; `info` is a snapshot of all of them.

    The task's output lives as long as a handle of it, or a child that waits for it. A handle answers after the
    scheduler has forgotten the task, and after it is closed.
    """

    __slots__ = ()

    def __copy__(self) -> Task[T]:
        """Itself: it is the task, and not a description of it."""
        return self

    def __deepcopy__(self, memo: object) -> Task[T]:
        return self

    def __reduce__(self) -> Never:
        raise TypeError(f"{self!r} belongs to this process and cannot be pickled; pass its id, or its info")

    if TYPE_CHECKING:
        _owner: Scheduler

    @property
    def info(self) -> TaskInfo:
        """All there is to know, as one snapshot. Costs a few microseconds."""
        return self._owner.get(self)

    @property
    def state(self) -> State:
        """RUNNING if a run runs, else READY, else PENDING; once the task has ended, how."""
        return self.info.state

    @property
    def reason(self) -> Reason | None:
        """What the state alone does not tell, e.g. "parent_failed"."""
        return self.info.reason

    @property
    def next_fire(self) -> datetime | None:
        """The planned instant of the next fire, aware UTC.

        None while it waits for parents, while a run goes on (the next is found at its end), or when there are no more.
        """
        return self.info.next_fire

    @property
    def last_run(self) -> Run | None:
        """The run that goes on, or the last one that ended; None before the first."""
        return self.info.last_run

    @property
    def parents(self) -> tuple[str, ...]:
        """The ids of the tasks that it waits for, or waited for."""
        return self.info.parents

    @property
    def children(self) -> tuple[str, ...]:
        """The ids of the tasks that wait for it, or waited when it ended."""
        return self.info.children

    @property
    def output(self) -> Output[T]:
        """Stands for the result, as an argument of a child: `schedule(save, args=(load.output,))`."""
        return Output(self)

    def runs(self, limit: int | None = None) -> list[Run]:
        """The newest runs that are kept (`keep_runs`), at most `limit`, oldest first; skipped fires are among them."""
        return self._owner.runs(self, limit)

    def cancel(self) -> Cancelled:
        """See `Scheduler.cancel`."""
        return self._owner._cancel(self)

    def pause(self, reason: str | None = None, until: datetime | None = None) -> bool:
        """Hold this task until `resume`. True unless it was held already. See `Scheduler.pause`."""
        return self._owner.pause(self, reason=reason, until=until) > 0

    def resume(self, catch_up: CatchUp = "none") -> bool:
        """End this task's own pause. True when nothing holds it any more. See `Scheduler.resume`."""
        return self._owner.resume(self, catch_up=catch_up) > 0

    def reschedule(self, when: Rule) -> None:
        """Give it another rule, which counts from now. See `Scheduler.reschedule`."""
        self._owner.reschedule(self, when)

    def update(self, **changes: Unpack[Changes]) -> None:
        """Change it from its next run on. See `Scheduler.update`."""
        self._owner.update(self, **changes)

    def run_now(self) -> Run:
        """Have it run now, beside its schedule. See `Scheduler.run_now`."""
        return self._owner.run_now(self)

    @property
    def skipped_now(self) -> int:
        """How many fires have come so far while a run goes on, or while it is paused, and will be skipped.

        Counted from its rule at each look, in O(log n) of them or better. 0 when neither is so.
        """
        return self._owner._skipped_now(self)

    def wait(self, timeout: float | None = None) -> bool:
        """Sleep until the task has ended: True; or for `timeout` real seconds: False.

        From inside a task it blocks that task's worker. Raises NotStarted when the scheduler was never started.
        """
        return self._owner._wait_for(self, timeout)

    def result(self, timeout: float | None = None) -> T:
        """What the work returned; of a recurring task what its last run did. Sleeps until the task has ended.

        Raises what the work raised, the very object; CancelledError; TaskSkipped, with its reason; TaskRejected when no
        pool took it; TaskTimedOut when it ran for too long; TimeoutError after `timeout` real seconds; OutputGone for a
        handle that was made after the task had ended. Each tells the story: attempts, parents and their errors, times
        in UTC; what the work raised has it as a note (PEP 678).
        """
        if not self.wait(timeout):
            info = self.info
            raise TimeoutError(
                self._story(info, f"task {full_name(info)} has not ended within {timeout} s; it is {info.state}")
            )
        info = self.info
        if info.state is State.CANCELLED:
            raise CancelledError(self._story(info))
        if info.state is State.SKIPPED:
            raise TaskSkipped(self._story(info), str(info.reason))
        value = self._value
        if value is NOT_SET:
            value = self._value = self._owner._store.result_of(self)
        if value is NOT_SET:
            head = (
                f"the output of task {full_name(info)}, which {info.state}, was let go: nobody held a handle of "
                "it when it ended; keep what schedule() returns"
            )
            raise OutputGone(self._story(info, head))
        if info.state is not State.FAILED:
            result: T = value
            return result
        add_story(value, info, self._story(info))
        asked = id(self._owner), self._seq
        _take_back(value, asked)
        try:
            raise value
        finally:
            del self, value  # the traceback holds this frame, and so they would hold each other

    def _story(self, info: TaskInfo, head: str | None = None) -> str:
        """See `tickless.explain`. A store that does not answer is no reason not to raise what there is to raise."""
        down = self._owner._dispatcher.pools_down
        look, pool_down = look_in(self._owner._store, down), down.get(info.pool)
        try:
            text = story(Seen(info, self._parents, pool_down), look, head)
        except StoreError:
            text = story(Seen(info, (), pool_down), look, head)
        self._owner._look()
        return text

    def __repr__(self) -> str:
        return f"<Task {self.id} {self.name}>"


def _take_back(error: BaseException, asked: tuple[int, int]) -> None:
    """Have the traceback begin where the work's own did: the last `result()` of that task put its callers before it."""
    rest = entry = error.__traceback__
    while entry is not None:
        frame = entry.tb_frame
        if frame.f_code is _RESULT and frame.f_locals.get("asked") == asked:
            rest = entry.tb_next
        entry = entry.tb_next
    BaseException.with_traceback(error, rest)


_RESULT = Task.result.__code__
