"""The door of the durable store: what comes in is written down as text first, and what it names is loaded."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from types import FunctionType
from typing import Any

from tickless.core.record import NOT_SET, TaskRecord, number_of
from tickless.errors import DependencyError, DuplicateId, PayloadError, ScheduleError, shown
from tickless.instants import Instant
from tickless.rules import is_ours
from tickless.states import State
from tickless.stores.payloads import encode
from tickless.stores.registered import Works
from tickless.stores.sql import looking
from tickless.stores.sql.calls import StoredCall, output_form, pack
from tickless.stores.sql.claims import MOST_RESULT
from tickless.stores.sql.plans import StoredPlan, stored
from tickless.stores.sql.rows import GIVES_RESULT, Loaded
from tickless.stores.sql.session import ASK, Session

Taken = tuple[TaskRecord, TaskRecord]
"""A task whose result another takes, and that other."""


class Door:
    """`pack` is called without the lock, since to write an argument is foreign code; `prepare` in a transaction."""

    def __init__(self, session: Session, works: Works, keep_finished: int) -> None:
        self._session = session
        self._works = works
        self._keep_finished = keep_finished

    def pack(self, task: TaskRecord) -> list[Taken]:
        """Have the task hold what is stored of it. Gives whose outputs are among its arguments.

        Raises PayloadError, naming the argument, and ScheduleError for a rule of the user's own.
        """
        parents: list[Taken] = []
        near: set[int] = set()

        def form(value: Any) -> dict[str, Any] | None:
            parts = getattr(type(value), "stored_parts", None)
            if parts is None:
                return self.kept_form(value)
            parent, path, defaults = parts(value)
            whose = f"{parent.id} ({parent._name})"
            if not near:
                near.update(map(id, _near(task)))
            if id(value) not in near:
                raise PayloadError(
                    f"{shown(value)} deep inside the arguments: outputs are found directly among them, or one level "
                    "down in a list, tuple or dict; put the rest together in the work"
                )
            if parent._value is not NOT_SET and parent._run is not None and parent._run.state is State.SUCCEEDED:
                # It has ended here, and may be forgotten before the child runs.
                return output_form(parent._seq, path, whose, (parent._value,))
            parents.append((parent, task))
            said = output_form(parent._seq, path, whose)
            for default in defaults:
                said["default"] = encode(default, "the default of an output", self.kept_form)
            return said

        if hasattr(task._work, "drafts"):
            plan: Any = task._work
            task._work, task._args = stored(self._session.rows, plan, self.kept_form), ()
        kept_outputs = task._args is None and task._more is not None and task._more.outputs
        if type(task._work) is not StoredPlan:
            pack(self._works, task, form)
        more = task._more
        for rule in (task._rule, None if more is None else more.when):
            if rule is not None and not is_ours(rule):
                raise ScheduleError(
                    f"when={shown(rule)}: a rule of your own cannot be stored; use those of tickless, "
                    "or keep the task in memory"
                )
        if more is not None:
            more.outputs = kept_outputs or bool(parents)
        return parents

    def pack_many(self, tasks: Sequence[TaskRecord]) -> list[Taken]:
        """The same for a batch. Plain calls of one function are one, so that its name is asked for once."""
        calls: dict[FunctionType, StoredCall] = {}
        outputs: list[Taken] = []
        for task in tasks:
            work = task._work
            if (
                type(work) is not FunctionType
                or task._args
                or task._kwargs
                or task._more is not None
                or task._rule is not None
            ):
                outputs += self.pack(task)
                continue
            call = calls.get(work)
            if call is None:
                call = calls[work] = StoredCall(self._works, self._works.name_of(work), None)
            task._work, task._args, task._kwargs = call, (), None
        return outputs

    def kept_form(self, value: Any) -> dict[str, Any] | None:
        """The form of a value that has none of its own: in tests only."""
        form_of = getattr(self._works, "form_of", None)
        return None if form_of is None else form_of(value)

    def prepare(self, tasks: Sequence[TaskRecord], outputs: Sequence[Taken], now: Instant) -> None:
        """Load what the new tasks name: those of the same id, and parents; and see what is due before them."""
        session = self._session
        ids = [task._id for task in tasks if task._id is not None]
        parents = [parent for task in tasks for parent in task._parents]
        ids += [parent for parent in parents if isinstance(parent, str)]
        if parents:
            session.load_many([one._seq for one in parents if not isinstance(one, str) and one._seq > 0])
        if ids:
            self._load_ids(ids)
        for parent, child in outputs:
            self._wants_result(parent, child)
        for task in tasks:
            if type(task._work) is StoredPlan and task._work.form is not None:
                session.db.execute(ASK.put_plan, (task._work.args, task._work.form))
        if any(task._due is None or task._due <= now for task in tasks):
            session.see_head()

    def _load_ids(self, ids: Sequence[str]) -> None:
        """Load the tasks of these ids; one that has ended and is not listed any more makes room for the new one."""
        session, named = self._session, self._session.machine.registry.named
        wanted = [id for id in ids if id not in named]
        session.flush()
        session.load_many(looking.numbers_in(wanted))
        found = session.select("WHERE id IN (SELECT value FROM json_each(?)) AND listed = 1", (json.dumps(wanted),))
        for id, why in session.db.execute(ASK.unusable_among, (json.dumps(wanted),)).fetchall():
            found += self._use_again(id, why)
        for loaded in found:
            if not looking.is_listed(session, loaded, self._keep_finished):
                self._session.db.execute(ASK.drop_task, (loaded.task._seq,))
                session.loaded.pop(loaded.task._seq)
                named.pop(loaded.task._id or "", None)

    def _use_again(self, id: str, why: str) -> list[Loaded]:
        """A task that has the id of a new one cannot be used: maybe only its work, and that is about to be replaced."""
        session, found = self._session, list[Loaded]()
        if session.unread is None:
            session.db.execute(ASK.try_one_again, (id,))
            found = session.select("WHERE id = ? AND listed = 1", (id,))
        if not found:
            raise DuplicateId(
                f"id {shown(id)}: the row of the task that has it cannot be used ({why}); mend it and call "
                "try_again(), or choose another id"
            )
        return found

    def _wants_result(self, parent: TaskRecord, child: TaskRecord) -> None:
        """Have the parent's result kept until that child has ended. Raises PayloadError where it cannot be."""
        loaded = self._session.load(parent._seq)
        if loaded is None:
            return
        loaded.kin |= GIVES_RESULT
        if parent._seq in self._session.machine.registry.live:
            return
        self._session.new_links.setdefault(parent._seq, []).append(child)
        if loaded.value is not None or parent._run is None or parent._run.state is not State.SUCCEEDED:
            return  # an error is no result
        if parent._value is NOT_SET:
            raise DependencyError(
                f"the output of task {parent.id} ({parent._name}) is not there: it had ended before anybody asked; "
                "keep results with Scheduler(results=True), or schedule both before the parent is due"
            )
        loaded.value = encode(parent._value, f"the result of task {parent.id}", self.kept_form, MOST_RESULT)

    def load_ancestors(self, task: TaskRecord) -> None:
        """Load all that the task's parents wait for, and so on."""
        todo = [parent._seq for parent in task._parents if not isinstance(parent, str)]
        while todo:
            self._session.load_many(todo)
            found = [self._session.loaded.get(seq) for seq in todo]
            todo = [
                number_of(key) for one in found if one is not None and one.ended is None for key in one.task._parents
            ]


def _near(task: TaskRecord) -> Iterator[object]:
    """The arguments, and what is in lists, tuples and dicts that are arguments: so deep an output is looked for."""
    for value in (*(task._args or ()), *(task._kwargs or {}).values()):
        yield value
        if type(value) is list or type(value) is tuple:
            yield from value
        elif type(value) is dict:
            yield from value.values()
