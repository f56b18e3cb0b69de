"""Who is who: live tasks, names, and the finished ones that stay listed for a while. Called under the store's lock."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Never

from tickless.core import graph
from tickless.core.record import TaskRecord, ended, number_of, own_run, state_of, without_value
from tickless.core.special import is_round, is_unlisted, numbers_of, round_of, rounds_of, special_in, special_of
from tickless.errors import DependencyError, DuplicateId, UnknownTask, shown
from tickless.instants import Instant
from tickless.states import State

SLACK = 256
"""How many finished tasks may pile up beyond the limit before a worker asks for a trim."""
NOBODY: Mapping[str, TaskRecord] = {}


class Registry:
    """`live` and `finished` may be read, and a plain task retired, without the lock: single atomic steps."""

    __slots__ = ("_asides", "finished", "flows", "keep", "live", "named", "trim_above")

    def __init__(self, keep: int) -> None:
        self.keep = keep
        self.trim_above = keep + SLACK
        self.live: dict[int, TaskRecord] = {}
        self.named: dict[str, TaskRecord] = {}
        self.finished: deque[TaskRecord] = deque()
        self._asides: dict[int, deque[TaskRecord]] = {}
        """Task -> its runs beside the plan, in their order."""
        self.flows: dict[int, TaskRecord] = {}
        """The flows, while they are listed: see `core.rounds`."""

    def admit(self, task: TaskRecord) -> None:
        """Check a task before anything changes, and turn the ids of parents into parents.

        Raises DuplicateId, or DependencyError for a parent that is unknown, the task itself, or recurring.
        """
        if len(self.finished) > self.keep:
            self.trim()
        if task._id is not None and task._id in self.named:
            _refuse_duplicate(task._id)
        if task._parents:
            self.check_parents(task)

    def admit_many(self, tasks: Sequence[TaskRecord]) -> None:
        """As `admit` for each. They may name one another as parents, and not in a circle."""
        self.trim()
        batch: dict[str, TaskRecord] = {}
        for task in tasks:
            if task._id is not None:
                if task._id in batch or task._id in self.named:
                    _refuse_duplicate(task._id)
                batch[task._id] = task
        for task in tasks:
            if task._parents:
                self.check_parents(task, batch)
        if batch:
            graph.check_acyclic(tasks)

    def check_parents(self, task: TaskRecord, batch: Mapping[str, TaskRecord] = NOBODY) -> None:
        """Turn the ids of the task's parents into parents, each once. Raises DependencyError."""
        by_id = False
        for parent in task._parents:
            if isinstance(parent, str):
                by_id = True
            elif parent._rule is not None or (parent._more is not None and parent._more.recurring):
                self._refuse_recurring(task, parent)
        if by_id:
            found = [self._parent(task, parent, batch) for parent in task._parents]
            # By number: one that has ended may be there twice, as itself and as its twin. A batch has no numbers yet.
            task._parents = tuple({one._seq if one._seq > 0 else one: one for one in found}.values())

    def _parent(self, task: TaskRecord, parent: TaskRecord | str, batch: Mapping[str, TaskRecord]) -> TaskRecord:
        if not isinstance(parent, str):
            return parent
        who = shown(task._id or task._name)
        if parent == task._id:
            raise DependencyError(f"after_tasks of {who}: a task cannot wait for itself; take it out")
        found = batch.get(parent)
        try:
            found = found or self.find(parent)
        except UnknownTask as error:
            raise DependencyError(f"after_tasks of {who}: {error}") from None
        if found._rule is not None or (found._more is not None and found._more.recurring):
            self._refuse_recurring(task, found)
        return found

    def _refuse_recurring(self, task: TaskRecord, parent: TaskRecord) -> None:
        if not ended(parent):
            raise DependencyError(
                f"after_tasks of {shown(task._id or task._name)}: {shown(parent._id or parent._name)} is recurring, "
                "and which of its runs would count is not said; repeat the whole chain as a Flow, or schedule the "
                "child from inside it"
            )

    @property
    def overfull(self) -> bool:
        return len(self.finished) > self.trim_above

    def trim(self) -> None:
        """Forget the oldest finished tasks beyond the limit; their ids are free again."""
        finished = self.finished
        while len(finished) > self.keep:
            task = finished.popleft()
            self.forget(task)
            if task._more is not None:
                for run in task._more.history or ():
                    if run is not task._run:
                        del run.task
            flow = self.flows.pop(task._seq, None)
            for one in () if flow is None else rounds_of(flow):
                self.forget_round(one)

    def forget(self, task: TaskRecord) -> None:
        """Its id is free again."""
        if task._id is not None and self.named.get(task._id) is task:
            del self.named[task._id]
        if task._run is not None and task._run.task is not None:
            del task._run.task  # they must not keep each other alive until some collection of garbage

    def forget_round(self, one: TaskRecord) -> None:
        """A round of a flow that is not kept, and its tasks."""
        for task in round_of(one).tasks:
            self.forget(task)

    def busy_with(self, task: TaskRecord) -> set[int]:
        """The numbers of the task, and of those that live as long: what it is an occurrence of, and its round."""
        number = None if task._more is None else task._more.round
        one = None if number is None else self.live_round(number)
        return numbers_of(task) | (set() if one is None else numbers_of(one))

    def tried_again(self, flow: TaskRecord) -> set[str | None]:
        """The ids of the rounds that one which waits, or has not ended, tries again: it needs what they gave."""
        special = special_of(flow)
        waits = () if special.asked is None else (special.asked.retry_of,)
        return {*waits, *(round_of(one).retry_of for one in special.crew or () if is_round(one))} - {None}

    # What a store that keeps rows does another way

    def put_aside(self, task: TaskRecord) -> None:
        """A task has ended that is not listed among the finished: an occurrence, a handler, or a task of a round."""

    def trim_rounds(self, flow: TaskRecord, keep: int) -> None:
        """Forget the oldest rounds beyond those that are kept; what goes on is not counted, nor what is tried again."""
        again = self.tried_again(flow)
        over = [one for one in rounds_of(flow) if ended(one) and round_of(one).id not in again]
        for one in over[: max(0, len(over) - keep)]:
            rounds = special_of(flow).rounds
            assert rounds is not None
            rounds.remove(one)
            self.forget_round(one)

    def put_aside_last(self, chief: TaskRecord, one: TaskRecord) -> None:
        """A run beside the plan of a task has come, behind all others."""
        self._asides.setdefault(chief._seq, deque()).append(one)

    def first_aside(self, chief: TaskRecord) -> TaskRecord | None:
        """The oldest of them that has not ended."""
        mine = self._asides.get(chief._seq)
        while mine and ended(mine[0]):
            mine.popleft()
        if not mine:
            self._asides.pop(chief._seq, None)
            return None
        return mine[0]

    def live_asides(self, chief: TaskRecord) -> list[TaskRecord]:
        """Those that have not ended, for the last time: they are about to be cancelled with their task."""
        return [one for one in self._asides.pop(chief._seq, ()) if not ended(one)]

    def aside_ids(self, chief: TaskRecord, ids: Sequence[str]) -> list[str]:
        """Those of the ids that listed tasks, or rounds of the flow, have."""
        return [*self.taken(ids), *(round_of(one).id for one in rounds_of(chief))]

    def past(self, chief: TaskRecord) -> list[tuple[Instant | None, State | None]]:
        """The fires of a task that have come, as far as is known, and what became of each; None: nothing yet."""
        special, history = special_of(chief), None if chief._more is None else chief._more.history
        own = [one for one in self.finished if (of := special_in(one)) is not None and of.chief is chief]
        ones = [*(special.crew or ()), *self._asides.get(chief._seq, ()), *own]
        past: list[tuple[Instant | None, State | None]] = [(run.due, run.state) for run in history or ()]
        runs = [(one, one._run) for one in (chief, *ones) if one._run is not None]
        past += [(own.due, own.state) for own in (own_run(one, run) for one, run in runs)]
        return past + [(round_of(one).due, state_of(one)) for one in rounds_of(chief)]

    def live_round(self, number: int) -> TaskRecord | None:
        """The round of that number, while it goes on."""
        return self.live.get(number)

    def find_round(self, flow: TaskRecord, id: str) -> TaskRecord | None:
        """The round of that id, if it is kept."""
        return next((one for one in rounds_of(flow) if round_of(one).id == id), None)

    def tasks_of(self, one: TaskRecord) -> list[TaskRecord]:
        """The tasks of a round, parents before their children."""
        return round_of(one).tasks

    def taken(self, ids: Sequence[str]) -> list[str]:
        """Those of the ids that listed tasks have."""
        return [id for id in ids if id in self.named]

    def twin(self, task: TaskRecord) -> TaskRecord:
        """What is listed of a task that has ended with a value: whatever leads to it from here leads to the twin.

        Without the lock for a task that was given no id, and has no parent that lives.
        """
        twin = without_value(task)
        for key in task._parents if task._waiting else ():
            parent = self.live.get(number_of(key))
            kin = None if parent is None else parent._children
            if kin is not None and task in kin:
                kin[kin.index(task)] = twin
        if task._id is not None and self.named.get(task._id) is task:
            self.named[task._id] = twin
        return twin

    def find(self, id: str) -> TaskRecord:
        """The task of that id, live or listed. O(1), but for finished tasks without a given id: O(keep_finished)."""
        task = self.named.get(id)
        if task is not None:
            return task
        if id[:1] == "#" and len(id) < 20 and id[1:].isdecimal():
            seq = int(id[1:])
            task = self.live.get(seq)
            if task is not None and task._id is None:
                return task
            for task in list(self.finished):  # a copy: workers append to it without the lock
                if task._seq == seq and task._id is None:
                    return task
        raise UnknownTask(
            f"no task has the id {shown(id)}; it never had one, or it ended and was forgotten "
            f"(keep_finished={self.keep})"
        )

    def listing(self) -> list[TaskRecord]:
        """All tasks that are listed, in the order of scheduling, each once: one that just ends may be in both."""
        self.trim()
        of_rounds = [task for flow in self.flows.values() for one in rounds_of(flow) for task in self.tasks_of(one)]
        listed = [*of_rounds, *self.live.values(), *self.finished]
        by_number = {task._seq: task for task in listed if not is_unlisted(task)}
        return [by_number[number] for number in sorted(by_number)]


def _refuse_duplicate(id: str) -> Never:
    raise DuplicateId(
        f"id {shown(id)}: a task of that id is listed already; choose another id, "
        'or say exists="keep" or exists="update"'
    )
