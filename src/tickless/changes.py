"""The door of `reschedule`, `update`, `pause` and their like: what is said of tasks that are listed already.

A change is made to a copy of the task, which its store has made and will take: see `stores.Store.settings`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from tickless import policies
from tickless.checks import text
from tickless.core.record import TaskRecord, more_of
from tickless.core.special import is_flow
from tickless.drafts import args_of, kwargs_of, planned, refuse_priority
from tickless.errors import DependencyError, RuleError, ScheduleError, shown
from tickless.instants import Clock, Instant, instant_of
from tickless.limits import check_jitter
from tickless.options import (
    POLICY_DEFAULTS,
    Changes,
    Owner,
    check,
    check_names,
    fields_of,
    is_about_recurring,
    merged,
    policy_in,
    put_policy,
)
from tickless.output import outputs_in
from tickless.policies import Pause
from tickless.records import Run
from tickless.rules import Rule, Window
from tickless.stores import Store
from tickless.works import name_of

CHANGES = tuple(Changes.__annotations__)
_AGAIN = 'it belongs to the schedule, so schedule the task again with its id and exists="update"'
_ELSEWHERE = {
    "when": "a rule is changed by reschedule()",
    **dict.fromkeys(("id", "after_tasks", "run_if", "start", "until", "max_runs", "jitter", "exists"), _AGAIN),
}


def is_waiting(copy: TaskRecord) -> bool:
    """Whether the task waits for parents: then alone it has no time, and no bound rule that could give it one."""
    return copy._due is None and copy._rule is None


def rule_of(copy: TaskRecord) -> tuple[Rule | None, bool]:
    """The task's rule, bound or waiting to be, and whether it recurs. A one-shot has none once it is bound."""
    more = copy._more
    if more is not None and is_waiting(copy):
        return more.when, more.recurring
    return copy._rule, copy._rule is not None


def reschedule(copy: TaskRecord, when: Rule, clock: Clock, now: Instant) -> None:
    """Give the task another rule, bound now. `start` and `until` stay, where the new rule recurs; so does all else.

    Raises RuleError for what is no rule or never fires, ScheduleError where it contradicts a setting of the task.
    """
    before, _ = rule_of(copy)
    rule, due, wall, recurring = planned(when, clock, now)
    if rule is None and is_flow(copy):
        raise RuleError(
            f"when={shown(when)}: fires once, and flow {copy.id} recurs; give a recurring rule, "
            "or have a round by hand: run_now()"
        )
    if type(before) is Window and recurring:
        when = Window(when, before.first, before.last)
        rule, due, wall, recurring = planned(when, clock, now)
    policy = policy_in(copy._more)
    check(policy, when, recurring)
    if policy.jitter_us:
        check_jitter(when, policy.jitter_us)
    copy._wall = wall
    if is_waiting(copy):
        more = more_of(copy)
        more.when, more.recurring = when, recurring
        return
    copy._rule, copy._due = rule, due
    if copy._more is not None:
        copy._more.when, copy._more.recurring = None, False


class Update:
    """The changes of one `update`, checked once for all the tasks that they are about.

    Raises TypeError for a change that there is not, ScheduleError for what is no value, or when nothing is to change.
    """

    def __init__(self, owner: Owner, changes: Mapping[str, Any]) -> None:
        check_names("update", changes, CHANGES, _ELSEWHERE)
        if not changes:
            raise ScheduleError(f"update: nothing is to change; say one of {', '.join(CHANGES)}")
        self._changes = made = dict(changes)
        if "work" in made:
            name_of(made["work"])
        if "args" in made:
            made["args"] = args_of(made["args"])
        if made.get("kwargs") is not None:
            made["kwargs"] = kwargs_of(made["kwargs"])
        if made.get("name") is not None:
            made["name"] = text("name", made["name"])
        if type(made.get("priority", 0)) is not int:
            refuse_priority(made["priority"])
        for output in outputs_in(made.get("args", ()), made.get("kwargs")):
            raise DependencyError(
                f"{shown(output)} among the arguments makes its task a parent, and parents stay as they are; "
                'schedule the task again with its id and exists="update"'
            )
        given = {name: value for name, value in made.items() if name in POLICY_DEFAULTS}
        self._fields = fields_of(owner, given)
        self._said_max_catch_up = given.get("max_catch_up") is not None

    def make(self, copy: TaskRecord) -> None:
        """Change the task. Raises ScheduleError where a setting contradicts another of its, or its rule."""
        changes, work = self._changes, copy._work
        if is_flow(copy) and not changes.keys().isdisjoint(("work", "args", "kwargs")):
            raise ScheduleError(
                f'update: flow {copy.id} has its definition for a work; define it anew with its id, and exists="update"'
            )
        for name in ("retry", "on_timeout", "delivery") if is_flow(copy) else ():
            if name in changes:
                raise ScheduleError(
                    f"update: {name} is said of a task of the flow; define flow {copy.id} anew with its id, "
                    'and exists="update"'
                )
        if "work" in changes:
            copy._work = changes["work"]
        if "name" in changes:
            copy._name = changes["name"] or name_of(changes.get("work", work))
        elif "work" in changes and work is not None and copy._name == name_of(work):
            copy._name = name_of(changes["work"])  # it was named after its work, and is so again
        copy._args = changes.get("args", copy._args)
        copy._kwargs = changes.get("kwargs", copy._kwargs)
        copy._priority = changes.get("priority", copy._priority)
        if copy._more is not None and copy._more.outputs:
            copy._more.outputs = bool(outputs_in(copy._args or (), copy._kwargs))
        if self._fields:
            before = policy_in(copy._more)
            when, recurring = rule_of(copy)
            # The last run of a recurring task may go on when its rule is gone: what was right for it still is.
            recurring = recurring or is_about_recurring(before)
            policy = merged(before, self._fields, when, recurring, said_max_catch_up=self._said_max_catch_up)
            copy._more = put_policy(copy._more, policy)


Scope = TaskRecord | str | None
"""One task, those of a tag, or all."""


def change(store: Store, verb: str, scope: Scope, make: Callable[[TaskRecord, Instant], None], now: Instant) -> int:
    """Have each task of the scope become what `make` makes of a copy of it. Gives how many did.

    All copies are made and checked before the first is taken. Of several, those that have ended, or run for the only
    time, are left out. Raises ScheduleError for a single one that has, and what `make` and the store raise.
    """
    copies: list[tuple[TaskRecord, TaskRecord]] = []
    tasks: list[TaskRecord] = [scope] if isinstance(scope, TaskRecord) else store.tagged(scope)
    for task in tasks:
        copy = store.settings(task)
        if copy is not None:
            make(copy, now)
            copies.append((task, copy))
        elif scope is task:
            raise ScheduleError(f"{verb}: task {shown(task.id)} has ended; schedule it again")
    return store.change(copies, now, leave_out=not isinstance(scope, TaskRecord))


def run_now(store: Store, scope: Scope, now: Instant) -> Run | list[Run]:
    """Have it run now. Of several, those that cannot are left out: they have ended, or wait for parents."""
    if isinstance(scope, TaskRecord):
        return store.run_now(scope, now)
    runs = []
    for task in store.tagged(scope):
        try:
            runs.append(store.run_now(task, now))
        except ScheduleError:
            continue
    return runs


def skipped_now(store: Store, task: TaskRecord, clock: Clock) -> int:
    """How many fires have come while it is busy or paused. Outside every lock: its rule may be foreign code."""
    found = store.missed(task)
    if found is None:
        return 0
    rule, after = found
    return policies.skipped_since(rule, after, clock.wall() if task._wall else clock.now())


def pause_of(reason: object, until: datetime | None, clock: Clock) -> Pause:
    """A pause as it was said. Raises ScheduleError for a reason that is no text and an end that has been."""
    said = None if reason is None else text("reason", reason)
    if until is None:
        return Pause(said)
    end = instant_of(until, "until")
    if end <= clock.wall():
        raise ScheduleError(f"until={shown(until)}: has been; give a time to come, or leave it out and call resume()")
    return Pause(said, end)
