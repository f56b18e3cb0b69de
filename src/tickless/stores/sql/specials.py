"""The words of what few tasks and runs have, as JSON in the column `more`: attempts, pauses, holds, flows, rounds."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tickless.core.special import Asked, Hold, Round, RunExtra, Special
from tickless.instants import Instant
from tickless.policies import Pause, Policy
from tickless.records import Attempt
from tickless.states import Reason
from tickless.stores.sql.plans import StoredPlan

if TYPE_CHECKING:
    from tickless.stores.sql.rows import Rows

REASONS = {str(reason): reason for reason in Reason}
_HOLDS = {hold.value: hold for hold in Hold}


def extra_form(extra: RunExtra) -> dict[str, Any]:
    """What is stored of a run beside its columns."""
    form: dict[str, Any] = {}
    if extra.attempts:
        form["tries"] = [_attempt_form(one) for one in extra.attempts]
    if extra.fires is not None:
        form["fires"] = list(extra.fires)
    if extra.late is not None:
        form["late"] = extra.late
    return form


def extra_of(form: Mapping[str, Any]) -> RunExtra:
    extra = RunExtra(tuple(map(_attempt_of, form.get("tries", ()))))
    if "fires" in form:
        count, last = form["fires"]
        extra.fires = count, Instant(last)
    extra.late = form.get("late")
    return extra


def _attempt_form(one: Attempt) -> list[Any]:
    return [one.number, one.started_us, one.finished_us, one.error, one.reason and str(one.reason)]


def _attempt_of(form: Any) -> Attempt:
    number, started, finished, error, reason = form
    return Attempt(number, Instant(started), Instant(finished), error, None if reason is None else REASONS[reason])


_PLAIN = ("retry_at", "since", "until", "planned", "waiter")
_FLAGS = ("permit", "by_hand", "takes_turn", "aside", "asides")
_COUNTS = ("failures", "zombies")


def special_form(special: Special) -> dict[str, Any]:
    form: dict[str, Any] = {key: getattr(special, key) for key in _PLAIN if getattr(special, key) is not None}
    form |= {key: getattr(special, key) for key in (*_FLAGS, *_COUNTS) if getattr(special, key)}
    if special.crew is not None:
        form["crew"] = True
    if special.rounds is not None:
        form["flow"] = True
        if special.asked is not None:
            form["asked"] = [dict(special.asked.params), special.asked.retry_of]
    if special.round is not None:
        form["round"] = _round_form(special.round)
    if special.pause is not None:
        form["pause"] = list(special.pause)
    if special.hold is not None:
        form["hold"] = special.hold.value
    if special.attempts:
        form["tries"] = [_attempt_form(one) for one in special.attempts]
    if special.zombie is not None and special.zombie.extra is not None and special.zombie.extra.zombie:
        form["zombie"] = True
    return form


def _plain_special_of(form: Mapping[str, Any], policy: Policy) -> Special:
    special = Special(policy)
    for key in (*_PLAIN, *_FLAGS, *_COUNTS):
        if key in form:
            setattr(special, key, form[key])
    if form.get("crew"):
        special.crew = []
        special.set_policy(policy)
    if "pause" in form:
        special.pause = Pause(*form["pause"])
    if "hold" in form:
        special.hold = _HOLDS[form["hold"]]
    special.attempts = tuple(map(_attempt_of, form.get("tries", ())))
    return special


def _round_form(round: Round) -> dict[str, Any]:
    return {
        "id": round.id, "due": round.due, "params": dict(round.params), "retry_of": round.retry_of,
        "opened": round.opened, "stopped": round.stopped and str(round.stopped), "plan": round.plan.args,
    }  # fmt: skip


def special_of(rows: Rows, form: Mapping[str, Any], policy: Policy) -> Special:
    special = _plain_special_of(form, policy)
    if form.get("flow"):
        special.rounds = deque()
        special.asked = Asked(*form["asked"]) if "asked" in form else None
    if "round" in form:
        told = form["round"]
        round = Round(told["id"], told["due"], told["params"], told["retry_of"], StoredPlan(rows, told["plan"]))
        round.opened = told["opened"]
        round.stopped = None if told["stopped"] is None else REASONS[told["stopped"]]
        special.round = round
    return special
