"""What a flow is made of, as it is stored: the work and the arguments of each task as text, once for all its rounds.

A task's arguments name outputs by the place of the parent among its parents (-1 is the first), so that the text is
the same in every round. Only where a parameter stands among them is it written anew for a round.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, final

from tickless.core.record import More, TaskRecord
from tickless.core.rounds import OPENS, Opens, copied_run, work_of_rounds
from tickless.core.special import Special, policy_of, round_of
from tickless.errors import PayloadError
from tickless.instants import datetime_of
from tickless.states import RunIf
from tickless.stores.payloads import encode, encode_call
from tickless.stores.sql.calls import StoredCall, output_form
from tickless.stores.sql.statements import load as load_statements

if TYPE_CHECKING:
    from tickless.stores.sql.rows import Rows

ASK = load_statements("queries.sql")
FLOW = "tickless:flow"
"""What the column `work` says of a flow: no function has this name. `args` is then the digest of a plan."""
VERSION = 1
_write = json.JSONEncoder(separators=(",", ":"), ensure_ascii=True).encode


class Plan(Protocol):
    """The definition of a flow, as it comes to the door."""

    params: Mapping[str, Any]
    drafts: Sequence[Any]
    filled: set[Any]


class Mark(NamedTuple):
    """What the row of a task of a round has that its record has not."""

    gives: bool
    """Whether another takes its result."""
    value: str | None = None
    """Its result, where it is a copy."""


@final
class StoredPlan:
    """See `core.rounds.Plan`. Read from its table when a round is opened, and not before."""

    __slots__ = ("__name__", "args", "form", "name", "rows")

    def __init__(self, rows: Rows, digest: str, form: str | None = None) -> None:
        self.rows = rows
        self.name = FLOW
        self.args = digest
        self.form = form
        """What is to be written, of one that has just come to the door."""
        self.__name__ = "flow"

    def __call__(self) -> Opens:
        return OPENS

    def tickless_parts(self) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
        """For who calls it in another process."""
        return work_of_rounds, (), {}

    def _read(self) -> dict[str, Any]:
        if self.form is None:
            row = self.rows.ask(ASK.plan, (self.args,)).fetchone()
            if row is None:
                raise PayloadError(f"the definition of the flow ({self.args}) is not in the store")
            self.form = str(row[0])
        form: dict[str, Any] = json.loads(self.form)
        if form.get("v") != VERSION:
            raise PayloadError(
                f"the definition of the flow is of the format {form.get('v')}, and this version of tickless reads "
                f"{VERSION}: upgrade it"
            )
        return form

    @property
    def params(self) -> Mapping[str, Any]:
        """As they are stored."""
        params: dict[str, Any] = self._read()["params"]
        return params

    @property
    def works(self) -> list[str]:
        """The names of the works of its tasks."""
        return [task[1] for task in self._read()["tasks"]]

    @property
    def steps(self) -> list[tuple[str, tuple[str, ...]]]:
        """The names of its tasks, each with those of its parents."""
        tasks = self._read()["tasks"]
        return [(task[0], tuple(tasks[place][0] for place in task[6])) for task in tasks]

    def tasks(self, one: TaskRecord, old: Mapping[str, TaskRecord]) -> list[TaskRecord]:
        """See `core.rounds.Plan`."""
        round, rows, made = round_of(one), self.rows, list[TaskRecord]()
        values: dict[str | None, Any] = {None: None if round.due is None else _form(datetime_of(round.due), "due")}
        values.update(round.params)
        for name, work, args, priority, run_if, policy, places, outputs, filled, gives in self._read()["tasks"]:
            parents = tuple(made[place] for place in places)
            more, id, before = More(), f"{round.id}/{name}", old.get(name)
            more.round, more.run_if, more.outputs = one._seq, RunIf(run_if), outputs
            if policy is not None:
                more.special = Special(rows.policy_of(policy))
            if before is not None and all(parent._run is not None for parent in parents):
                task = rows.make(
                    None, None, None, id, name, priority, None, before._due, False, more, parents, rows.owner
                )
                task._run = copied_run(task, before)
                rows.marks[task] = Mark(gives, rows.value_of(before))
            else:
                text = json.dumps(_replaced(json.loads(args), values)) if filled else args
                call = StoredCall(rows.works, work, text)
                task = rows.make(call, (), None, id, name, priority, None, None, False, more, parents, rows.owner)
                if gives:
                    rows.marks[task] = Mark(gives)
            made.append(task)
        return made


def _replaced(form: Any, values: Mapping[str | None, Any]) -> Any:
    """The arguments with the parameters of a round in their places."""
    if type(form) is list:
        return [_replaced(item, values) for item in form]
    if type(form) is dict:
        if form.get("$") == "param":
            return values[form["name"]]
        if form.get("$") in ("output", "part") and "default" in form:  # which is a text of its own
            form = {**form, "default": json.dumps(_replaced(json.loads(form["default"]), values))}
        return {key: _replaced(item, values) for key, item in form.items()}
    return form


def _form(value: Any, what: str, special: Any = None) -> Any:
    """A value as it stands in the JSON of others."""
    return json.loads(encode(value, what, special))


def params_form(params: Mapping[str, Any], special: Any) -> dict[str, Any]:
    """Parameters of a round as they are stored. Foreign code: without the lock. Raises PayloadError."""
    return {name: _form(value, f"params[{name!r}]", special) for name, value in params.items()}


def stored(rows: Rows, plan: Plan, special: Callable[[Any], dict[str, Any] | None]) -> StoredPlan:
    """The plan as it is stored. `special`: the form of a value that has none of its own.

    Foreign code, so without the lock. Raises PayloadError, naming the task and its argument.
    """
    places = {model: place for place, model in enumerate(plan.drafts)}
    giving: set[Any] = set()
    tasks: list[list[Any]] = []
    for model in plan.drafts:
        text, params = _args(model, giving, special)
        policy = policy_of(model)
        run_if = RunIf.ALL_SUCCEEDED if model._more is None else model._more.run_if
        outputs = model._more is not None and model._more.outputs
        tasks.append(
            [
                model._name, _name(rows, model), text, model._priority, str(run_if),
                rows.policy_text(policy), [places[parent] for parent in model._parents], outputs, params,
            ]
        )  # fmt: skip
    for model, task in zip(plan.drafts, tasks, strict=True):
        task.append(model in giving)
    form = _write({"v": VERSION, "params": params_form(plan.params, special), "tasks": tasks})
    return StoredPlan(rows, blake2b(form.encode(), digest_size=16).hexdigest(), form)


def _name(rows: Rows, model: Any) -> str:
    try:
        return rows.works.name_of(model._work)
    except PayloadError as error:
        raise PayloadError(f"task {model._name} of the flow: {error}") from None


def _args(model: Any, giving: set[Any], special: Callable[[Any], dict[str, Any] | None]) -> tuple[str | None, bool]:
    """The arguments of a task as text, and whether there are parameters among them."""
    params = False

    def form(value: Any) -> dict[str, Any] | None:
        nonlocal params
        param = getattr(type(value), "stored_param", None)
        if param is not None:
            params = True
            return {"$": "param", "name": param(value)}
        parts = getattr(type(value), "stored_parts", None)
        if parts is None:
            return special(value)
        parent, path, defaults = parts(value)
        giving.add(parent)
        said = output_form(-1 - model._parents.index(parent), path, parent._name)
        for default in defaults:
            said["default"] = encode(default, "the default of an output", form)
        return said

    try:
        return encode_call(model._args or (), model._kwargs or {}, form), params
    except PayloadError as error:
        raise PayloadError(f"task {model._name} of the flow: {error}") from None
