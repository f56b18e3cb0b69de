"""Records and their rows: `encode` and `decode` are each other's inverse. The words of the JSON in `more` are here.

What few tasks have is left out of the row of all others: `more` is NULL for a task without parents, policy or limits.
"""

from __future__ import annotations

import json
import sys
from collections import deque
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from tickless.core.ready import ReadyQueue
from tickless.core.record import CANCELLED_RUN, QUEUED, SEQ_BITS, SEQ_MASK, Key, More, RunRecord, TaskRecord
from tickless.core.special import NO_POLICY, RunExtra, Special
from tickless.errors import PayloadError, shown
from tickless.policies import Policy
from tickless.rules import Rule, from_json, to_json
from tickless.states import RunIf, State
from tickless.stores.registered import Works
from tickless.stores.sql.calls import StoredCall
from tickless.stores.sql.plans import FLOW, Mark, StoredPlan
from tickless.stores.sql.specials import REASONS, extra_form, extra_of, special_form, special_of
from tickless.values import Retry

COLUMNS = (
    "seq", "id", "name", "work", "args", "priority", "pool", "policy", "rule", "due", "wall", "ended", "listed", "at",
    "lane", "turn", "waiting", "seen", "chief", "round", "kin", "state", "reason", "run_due", "run_at", "started",
    "finished", "error", "owner", "token", "lease", "stop", "value", "more", "trouble",
)  # fmt: skip
"""The columns of `tasks`, in the order of every row here."""
AT = {name: place for place, name in enumerate(COLUMNS)}
HAS_CHILDREN, GIVES_RESULT, WAITS, AWAITED, ZOMBIE_PERMIT, ASIDE = 1, 2, 4, 8, 16, 32
"""The bits of `kin`."""
Row = tuple[Any, ...]
STATES = {str(state): state for state in State}
_RUN_IFS = {str(run_if): run_if for run_if in RunIf}
_write = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


class Loaded:
    """A record that was loaded, and what the machine does not know of it."""

    __slots__ = ("chief", "ended", "is_plain", "kin", "lease", "owner", "row", "task", "token", "turn", "value")

    def __init__(self, task: TaskRecord) -> None:
        self.task = task
        self.row: Row | None = None
        """As it was last read or written; None: it has none yet."""
        self.is_plain = False
        """Whether that is the row of a plain task, which waits for its time or runs: see `plain.py`."""
        self.ended: int | None = None
        self.turn: int | None = None
        self.chief: int | None = None
        self.kin = 0
        self.owner: int | None = None
        self.token = 0
        self.lease: int | None = None
        self.value: str | None = None


@lru_cache(maxsize=4096)
def _text_of(rule: Any) -> str:
    return _write(to_json(rule))


def rule_text(rule: Rule) -> str:
    """A bound rule as it is stored. Raises RuleError for one that is not ours."""
    return _text_of(rule)  # type: ignore[arg-type]  # a rule is a frozen value


@lru_cache(maxsize=4096)
def rule_of(text: str) -> Rule:
    return from_json(json.loads(text))


def key_form(key: Key) -> int | list[Any]:
    return key if isinstance(key, int) else list(key)


def _key_of(form: Any) -> Key:
    return form if isinstance(form, int) else (form[0], form[1])


class Rows:
    """What encoding and decoding need to know of their store."""

    def __init__(self, works: Works, make: type[TaskRecord], owner: object, keep_runs: int) -> None:
        self.works = works
        self.make = make
        """The class of records: that of the handles that users hold."""
        self.owner = owner
        self.keep_runs = keep_runs
        self.lanes: dict[ReadyQueue, str] = {}
        """The queue -> its name in the column `lane`."""
        self._policies: dict[str, Policy] = {}
        self.calls: dict[str, StoredCall] = {}
        """Work -> its call without arguments, which those share that are loaded in one transaction."""
        self.ask: Callable[[str, tuple[Any, ...]], Any]
        """Puts a question to the file."""
        self.value_of: Callable[[TaskRecord], str | None]
        """The result of a task that is loaded, as it is stored."""
        self.marks: dict[TaskRecord, Mark] = {}
        """What the rows of new tasks of rounds have besides."""

    def blank(self, seq: int) -> TaskRecord:
        """A record to be decoded into."""
        task = self.make(None, (), None, None, "", 0, None, None, False, None, (), self.owner)
        task._seq = seq
        return task

    def plain(self, seq: int, name: str, work: str) -> TaskRecord:
        """The record of a plain task that has no place in time yet."""
        call = self._call(work)
        task = self.make(call, (), None, None, name, 0, None, None, False, None, (), self.owner)
        task._seq = seq
        return task

    # Out

    def encode(self, loaded: Loaded, *, waits: bool, named: bool) -> Row:
        """The row of the record as it is now. `waits`: it is in the wait set; `named`: found by its id."""
        task = loaded.task
        more, run, work, entry = task._more, task._run, task._work, task._entry
        special = None if more is None else more.special
        name = args = None
        if work is not None:
            assert isinstance(work, StoredCall | StoredPlan)  # all that enters is packed at the door
            name, args = work.name, work.args
        policy = NO_POLICY if special is None else special.policy
        lane = stop = None
        if run is None:
            life: tuple[Any, ...] = (None,) * 7
        elif run is QUEUED:
            lane = self._lane(special)
            life = ("ready", None, task._due, task._at, None, None, None)
        elif run is CANCELLED_RUN:
            life = ("cancelled", "cancelled", task._due, task._due, None, task._at, None)
        else:
            life = (
                str(run.state),
                run.reason and str(run.reason),
                run.due,
                run.at,
                run.started,
                run.finished,
                run.error,
            )
            stop = run.stop is True or (run.stop is not None and run.stop.is_set())
        extra = None if run is None else run.extra
        kin = loaded.kin & ~WAITS | (WAITS if waits else 0) | (ASIDE if special is not None and special.aside else 0)
        return (
            task._seq, task._id, task._name, name, args, task._priority, policy.pool,
            None if policy is NO_POLICY else self.policy_text(policy),
            None if task._rule is None else rule_text(task._rule), task._due, int(task._wall), loaded.ended,
            0 if special is not None and special.unlisted else 1 if named else 2,
            None if entry is None else entry >> SEQ_BITS,
            lane, None if lane is None else loaded.turn, task._waiting, task._seen, loaded.chief,
            None if more is None else more.round, kin, *life,
            loaded.owner, loaded.token, loaded.lease, int(bool(stop)), loaded.value,
            None if more is None and extra is None and not task._parents else self._more_text(task, more, extra), None,
        )  # fmt: skip

    def _lane(self, special: Special | None) -> str:
        return "pool:default" if special is None or special.queue is None else self.lanes[special.queue]

    def policy_text(self, policy: Policy) -> str | None:
        if policy == NO_POLICY:
            return None
        form = {key: value for key, value in policy._asdict().items() if value != NO_POLICY._asdict()[key]}
        if policy.retry is not None:
            form["retry"] = _retry_form(policy.retry)
        if policy.on_failure is not None:
            handler = policy.on_failure
            form["on_failure"] = handler.name if type(handler) is StoredCall else self.works.name_of(handler)
        return _write(form)

    def _more_text(self, task: TaskRecord, more: More | None, extra: RunExtra | None) -> str | None:
        form: dict[str, Any] = {}
        if task._parents:
            form["parents"] = [key_form(one if isinstance(one, int | tuple) else _key(one)) for one in task._parents]
        if more is not None:
            self._put_more(form, more)
        if extra is not None:
            told = extra_form(extra)
            if told:
                form["run"] = told
        return _write(form)

    def _put_more(self, form: dict[str, Any], more: More) -> None:
        if more.run_if is not RunIf.ALL_SUCCEEDED:
            form["run_if"] = str(more.run_if)
        if more.runs_left is not None:
            form["runs_left"] = more.runs_left
        if more.when is not None:
            form["when"] = to_json(more.when)
        if more.recurring:
            form["recurring"] = True
        if more.outputs:
            form["outputs"] = True
        if more.update is not None:
            form["update"] = self._draft_form(more.update)
        if more.end is not None:
            form["end"] = [str(more.end[0]), more.end[1] and str(more.end[1])]
        if more.history is not None:
            form["history"] = True
        if more.special is not None:
            form["special"] = special_form(more.special)

    def _draft_form(self, task: TaskRecord) -> dict[str, Any]:
        """A task that another is to become."""
        call, more = task._work, task._more
        assert type(call) is StoredCall
        form: dict[str, Any] = {
            "work": call.name, "args": call.args, "name": task._name, "priority": task._priority, "due": task._due,
            "wall": task._wall, "id": task._id, "rule": None if task._rule is None else to_json(task._rule),
        }  # fmt: skip
        if more is not None:
            if more.special is not None:
                form["policy"] = self.policy_text(more.special.policy)
            inner: dict[str, Any] = {}
            self._put_more(inner, more)
            form["more"] = inner
        return form

    # In

    def decode(
        self, row: Row, task: TaskRecord, run: RunRecord | None = None, zombie: RunRecord | None = None
    ) -> Loaded:
        """Fill the record from its row. `run`: its run's own record, where this process has it; `zombie`: likewise.

        Raises PayloadError, saying why, for a row that cannot be used: then the record must not be.
        """
        (
            seq, task._id, name, work, args, priority, _, policy, rule, due, wall, ended, listed, at,
            _, turn, waiting, seen, chief, round, kin, state, _, run_due, run_at, _, finished,
            _, owner, token, lease, _, value, more, _,
        ) = row  # fmt: skip
        try:
            form = json.loads(more) if more is not None else None
            task._rule = None if rule is None else rule_of(rule)
            of_policy = None if policy is None else self.policy_of(policy)
            task._more = self._more_of(form, of_policy, listed) if form is not None or policy is not None else None
            if round is not None:
                task._more = task._more or More()
                task._more.round = round
            task._seq, task._name, task._priority, task._due = seq, name, priority, due
            task._wall, task._waiting, task._seen = bool(wall), waiting, seen
            task._work = None if work is None else self._call_of(task, work, args)
            task._args, task._kwargs = (), None
            task._parents = tuple(map(_key_of, form["parents"])) if form is not None and "parents" in form else ()
            task._children = None
            task._entry = None if at is None else at << SEQ_BITS | (seq & SEQ_MASK)
            task._at = run_at if state != "cancelled" else finished
            extra = form.get("run") if form is not None else None
            if state is None:
                task._run = None
            elif state == "ready":
                task._run = QUEUED
            else:
                task._run = run or RunRecord(task, run_due, STATES[state])
                self._fill_run(task._run, row, extra)
                task._run.task = task
            special = None if task._more is None else task._more.special
            if special is not None:
                told = {} if form is None else form.get("special", {})
                if told.get("zombie"):
                    special.zombie = zombie or _stand_in(task)
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as problem:
            raise PayloadError(
                f"the row of task #{seq} cannot be read: {type(problem).__name__}: {problem}"
            ) from problem
        loaded = Loaded(task)
        loaded.row, loaded.ended, loaded.turn, loaded.chief, loaded.kin = row, ended, turn, chief, kin
        loaded.owner, loaded.token, loaded.lease, loaded.value = owner, token, lease, value
        return loaded

    def _fill_run(self, run: RunRecord, row: Row, extra: Mapping[str, Any] | None) -> None:
        run.due, run.state = row[AT["run_due"]], STATES[row[AT["state"]]]
        reason = row[AT["reason"]]
        run.reason = None if reason is None else REASONS[reason]
        run.at, started, run.finished, run.error = (row[AT[key]] for key in ("run_at", "started", "finished", "error"))
        if run.started is None or started is None or run.started < started:  # else it has begun since it was taken
            run.started = started
        if row[AT["stop"]]:
            if run.stop is None:
                run.stop = True
            elif run.stop is not True:
                run.stop.set()
        if extra is not None and run.extra is None:
            run.extra = extra_of(extra)

    def _call_of(self, task: TaskRecord, name: str, args: str | None) -> StoredCall | StoredPlan:
        """The call that the record has already, if it is this one: a worker may be inside of it."""
        if name == FLOW:
            return StoredPlan(self, args or "")
        there = task._work
        if type(there) is StoredCall and there.name == name and there.args == args:
            may_be_old = args is None and there.found is not None and task._run is None
            if not may_be_old:  # else another that shares it may have found the function long ago
                return there
        return StoredCall(self.works, name, args) if args is not None else self._call(name)

    def _call(self, name: str) -> StoredCall:
        call = self.calls.get(name)
        if call is None:
            call = self.calls[name] = StoredCall(self.works, name, None)
        return call

    def policy_of(self, text: str) -> Policy:
        policy = self._policies.get(text)
        if policy is not None:
            return policy
        form = json.loads(text)
        unknown = form.keys() - set(Policy._fields)
        if unknown:
            raise PayloadError(f"its policy has {shown(sorted(unknown))}, which this version of tickless does not know")
        whole = True
        if "retry" in form:
            form["retry"], whole = _retry_of(form["retry"])
        if "tags" in form:
            form["tags"] = tuple(form["tags"])
        if "on_failure" in form:
            form["on_failure"] = StoredCall(self.works, form["on_failure"], None)
        policy = Policy(**form)
        if whole:
            if len(self._policies) > 1000:
                self._policies.clear()
            self._policies[text] = policy
        return policy

    def _more_of(self, form: Mapping[str, Any] | None, policy: Policy | None, listed: int) -> More | None:
        form = {} if form is None else form
        if policy is None and form.keys() <= {"parents", "run"}:
            return None
        more = More()
        if "run_if" in form:
            more.run_if = _RUN_IFS[form["run_if"]]
        more.runs_left = form.get("runs_left")
        if "when" in form:
            more.when = from_json(form["when"])
        more.recurring, more.outputs = form.get("recurring", False), form.get("outputs", False)
        if "update" in form:
            more.update = self._draft_of(form["update"])
        if "end" in form:
            state, reason = form["end"]
            more.end = STATES[state], None if reason is None else REASONS[reason]
        if "history" in form:
            more.history = deque(maxlen=self.keep_runs)
        if policy is not None or "special" in form:
            more.special = special_of(self, form.get("special", {}), policy or NO_POLICY)
            more.special.unlisted = not listed
        return more

    def _draft_of(self, form: Mapping[str, Any]) -> TaskRecord:
        call = StoredCall(self.works, form["work"], form["args"])
        rule = None if form["rule"] is None else from_json(form["rule"])
        policy = self.policy_of(form["policy"]) if form.get("policy") is not None else None
        more = self._more_of(form["more"], policy, 1) if "more" in form else None
        return self.make(
            call, (), None, form["id"], form["name"], form["priority"], rule, form["due"], form["wall"], more, (),
            self.owner,
        )  # fmt: skip


def _key(parent: Any) -> Key:
    return parent._seq if parent._id is None else (parent._seq, parent._id)


def _stand_in(task: TaskRecord) -> RunRecord:
    """A zombie of another process."""
    run = RunRecord(task, task._due, State.FAILED)
    run.extra = RunExtra()
    run.extra.zombie, run.extra.keeps = True, True
    return run


def _retry_form(retry: Retry) -> dict[str, Any]:
    form: dict[str, Any] = {"attempts": retry.attempts, "factor": retry.factor}
    form |= {key: getattr(retry, key) for key in ("delay_us", "max_delay_us", "jitter_us")}
    for key, usual in (("on", (Exception,)), ("give_up_on", ())):
        classes = getattr(retry, key)
        if classes != usual:
            form[key] = [
                getattr(one, "tickless_name", None) or f"{one.__module__}:{one.__qualname__}" for one in classes
            ]
    return form


def _retry_of(form: Mapping[str, Any]) -> tuple[Retry, bool]:
    """The policy, and whether all its classes are here: one of a module that was not imported stands for none yet."""
    found: dict[str, Any] = {}
    whole = True
    for key in ("on", "give_up_on"):
        if key in form:
            classes = tuple(map(_class_of, form[key]))
            whole = whole and not any(hasattr(one, "tickless_name") for one in classes)
            found[key] = classes
    seconds: dict[str, Any] = {key: form[f"{key}_us"] / 1_000_000 for key in ("delay", "max_delay", "jitter")}
    return Retry(form["attempts"], factor=form["factor"], **seconds, **found), whole


def _class_of(name: str) -> type[BaseException]:
    module, _, path = name.partition(":")
    found: Any = sys.modules.get(module)
    for part in path.split("."):
        found = getattr(found, part, None)
    if isinstance(found, type) and issubclass(found, BaseException):
        return found
    return type(path, (BaseException,), {"tickless_name": name})


def run_row(seq: int, run: RunRecord) -> tuple[Any, ...]:
    """A run that has ended, for the table `runs`."""
    extra = None if run.extra is None else extra_form(run.extra)
    return (
        seq, run.due, run.at, str(run.state), run.reason and str(run.reason), run.started, run.finished, run.error,
        json.dumps(extra) if extra else None,
    )  # fmt: skip


def run_of_row(task: TaskRecord, row: Row) -> RunRecord:
    """The same back."""
    _, due, at, state, reason, started, finished, error, extra = row
    run = RunRecord(task, due, STATES[state])
    run.at, run.started, run.finished, run.error = at, started, finished, error
    run.reason = None if reason is None else REASONS[reason]
    run.extra = None if extra is None else extra_of(json.loads(extra))
    return run
