"""`Round`, the handle of one fire of a flow."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, final

from tickless.core.record import TaskRecord
from tickless.core.special import Asked
from tickless.errors import ScheduleError, UnknownTask, shown
from tickless.records import Run
from tickless.round_info import RoundInfo
from tickless.states import Cancelled, Reason, State
from tickless.task import Task

if TYPE_CHECKING:
    from tickless.scheduler import Scheduler


@final
class Round:
    """One round of a flow, as a handle: every property asks anew."""

    __slots__ = ("_record", "_scheduler", "id")

    def __init__(self, scheduler: Scheduler, record: TaskRecord, id: str) -> None:
        self._scheduler = scheduler
        self._record = record
        self.id = id
        """The flow's, "@", and the fire; of one that was asked for by hand "+" and a number besides."""

    @property
    def info(self) -> RoundInfo:
        """All there is to know, as one snapshot. Costs O(its tasks)."""
        info = self._scheduler._store.round_info(self._record)
        self._scheduler._look()
        return info

    @property
    def flow_id(self) -> str:
        return self.info.flow_id

    @property
    def due(self) -> datetime | None:
        """The fire that it is of, aware UTC."""
        return self.info.due

    @property
    def state(self) -> State:
        """READY until a worker has opened it; RUNNING until all its tasks have ended; then how that was."""
        return self.info.state

    @property
    def reason(self) -> Reason | None:
        return self.info.reason

    @property
    def params(self) -> Mapping[str, Any]:
        return self.info.params

    @property
    def retry_of(self) -> str | None:
        """The id of the round whose failed tasks this one tries again."""
        return self.info.retry_of

    @property
    def tasks(self) -> dict[str, Task[Any]]:
        """Its tasks by their names, parents before their children; none until it was opened."""
        found = self._scheduler._store.round_tasks(self._record)
        self._scheduler._look()
        return {task._name: task for task in found if isinstance(task, Task)}  # as all that the store has

    def __getitem__(self, name: str) -> Task[Any]:
        """The task of that name. Raises UnknownTask."""
        tasks = self.tasks
        if name not in tasks:
            known = ", ".join(tasks) or "none yet"
            raise UnknownTask(f"round {self.id}: it has no task {shown(name)}; there is {known}")
        return tasks[name]

    def cancel(self) -> Cancelled:
        """Nothing of it starts any more, conditions such as "any_failed" included; what runs is asked to stop."""
        return self._scheduler._cancel(self._record)

    def retry_failed(self) -> Run:
        """Have a new round now that copies what succeeded, with its outputs, and runs the rest. Gives its run.

        It has this round's definition, params and due. Raises ScheduleError while this one goes on, and where nothing
        is to be tried again.
        """
        info = self.info
        if info.state.after:
            raise ScheduleError(f"round {self.id}: it goes on ({info.state}); wait for its end, or cancel it")
        if info.state is State.SUCCEEDED:
            raise ScheduleError(f"round {self.id}: nothing of it failed; a fresh round is run_now() of the flow")
        flow = self._scheduler._record_of(info.flow_id)
        if all(one.id != self.id for one in self._scheduler.rounds(info.flow_id)):
            raise ScheduleError(
                f"round {self.id}: it is not kept any more, nor what its tasks returned; keep more of them "
                "(keep_rounds), or have a fresh round: run_now() of the flow"
            )
        return self._scheduler._run_round(flow, Asked({}, retry_of=self.id))

    def wait(self, timeout: float | None = None) -> bool:
        """Sleep until it has ended: True; or for `timeout` real seconds: False."""
        return self._scheduler._wait_for(self._record, timeout)

    def __str__(self) -> str:
        return self.info.tree()

    def __repr__(self) -> str:
        return f"<Round {self.id}>"
