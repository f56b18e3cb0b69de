"""The options of `schedule`, said once: `schedule`, `Call` and `update` take them from here.

And the door of those that make a policy: what is no value, and what contradicts another setting, is refused by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from difflib import get_close_matches
from inspect import Parameter, Signature, signature
from typing import TYPE_CHECKING, Any, Literal, Never, Protocol, TypedDict

from tickless.checks import counted, one_of, plain_text, text
from tickless.core.record import More
from tickless.core.special import NO_POLICY, Special
from tickless.errors import RuleError, ScheduleError, shown
from tickless.instants import SECOND_US, span_us
from tickless.limits import every_of
from tickless.policies import Policy, Retry
from tickless.records import Run
from tickless.rules import Rule
from tickless.states import DEFAULT_POOL, CatchUp, Delivery, Exists, Overlap
from tickless.works import name_of

if TYPE_CHECKING:
    from tickless.task import Task

OnTimeout = Literal["keep", "release"]
"""What a run that timed out does with its task: keep it busy until its code returns, or let go at once."""


class PolicyOptions(TypedDict, total=False):
    """What becomes of a task when reality disagrees with the plan. Times are seconds or a timedelta."""

    overlap: Overlap
    max_running: int | None
    grace: float | timedelta | None
    catch_up: CatchUp
    max_catch_up: int | None
    retry: Retry | None
    timeout: float | timedelta | None
    on_timeout: OnTimeout
    pause_after_failures: int | None
    on_failure: Callable[[Run], object] | None
    pool: str | None
    limit: str | None
    tags: Iterable[str]
    delivery: Delivery


class LimitOptions(TypedDict, total=False):
    """What limits a rule, and spreads its fires."""

    start: datetime | None
    until: datetime | None
    max_runs: int | None
    jitter: float | timedelta | None


class ArgumentOptions(TypedDict, total=False):
    """What the work is called with."""

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any] | None


class TaskOptions(PolicyOptions, LimitOptions, total=False):
    """All that may be said of a task but for its work, its arguments and its rule."""

    id: str | None
    name: str | None
    after_tasks: Iterable[Task[Any] | str]
    run_if: str
    priority: int


class CallOptions(ArgumentOptions, TaskOptions, total=False):
    """The fields of `Call` after `work` and `when`."""


class Options(CallOptions, total=False):
    """Every keyword of `schedule`. A dict, since an empty one costs a fifth of what two dozen defaults do."""

    exists: Exists


class Changes(PolicyOptions, total=False):
    """Every keyword of `update`."""

    work: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any] | None
    name: str | None
    priority: int


POLICY_DEFAULTS: dict[str, Any] = {
    "overlap": "skip",
    "max_running": None,
    "grace": None,
    "catch_up": "latest",
    "max_catch_up": None,
    "retry": None,
    "timeout": None,
    "on_timeout": "keep",
    "pause_after_failures": None,
    "on_failure": None,
    "pool": None,
    "limit": None,
    "tags": (),
    "delivery": "at_least_once",
}
"""Option -> what it is when nothing is said, in the order of `Call`."""
SHORTEST_US = 1_000
"""The shortest grace or timeout: 1 ms."""
_OVERLAPS = ("skip", "queue", "allow", "replace")
CATCH_UPS = ("latest", "all", "none")
_ON_TIMEOUTS = ("keep", "release")
_DELIVERIES = ("at_least_once", "at_most_once")


_EXISTS = ("error", "keep", "update")


class Owner(Protocol):
    """The scheduler, as seen from its doors: what it has that options may name."""

    @property
    def _pools(self) -> Mapping[str, object]: ...

    @property
    def _limits(self) -> Mapping[str, object]: ...


def policy_of(
    owner: Owner, when: Rule | None, recurring: bool, given: Mapping[str, Any], jitter_us: int
) -> Policy | None:
    """The policy that the options and the jitter make; None when all of it is at its default.

    Raises ScheduleError for what is no value, or contradicts another setting or the rule.
    """
    said = given.get("max_catch_up") is not None
    return merged(Policy(jitter_us), fields_of(owner, given), when, recurring, said_max_catch_up=said)


def merged(
    before: Policy, fields: Mapping[str, Any], when: Rule | None, recurring: bool, *, said_max_catch_up: bool
) -> Policy | None:
    """The policy with some of its fields changed, checked as a whole; None when all of it is at its default."""
    policy = before._replace(**fields)
    _check_settings(policy, said_max_catch_up=said_max_catch_up)
    check(policy, when, recurring)
    return None if all(map(_is_same, policy, NO_POLICY)) else policy


def put_policy(more: More | None, policy: Policy | None) -> More | None:
    """`more` with the policy, made where there is one."""
    if policy is None and (more is None or more.special is None):
        return more
    more = more or More()
    more.special = None if policy is None else Special(policy)
    return more


def policy_in(more: More | None) -> Policy:
    return NO_POLICY if more is None or more.special is None else more.special.policy


def _is_same(one: object, other: object) -> bool:
    """By identity for what is no plain value of ours: `==` of a handler is foreign code."""
    return one is other or (type(one) is type(other) and type(one) in (str, int, tuple) and one == other)


def fields_of(owner: Owner, given: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of `Policy` that the options say, each checked by itself."""
    fields: dict[str, Any] = {}
    for name, value in given.items():
        if name == "overlap":
            fields[name] = one_of(name, value, _OVERLAPS)
        elif name == "catch_up":
            fields[name] = one_of(name, value, CATCH_UPS)
        elif name in ("max_running", "pause_after_failures"):
            fields[name] = None if value is None else counted(name, value)
        elif name == "max_catch_up":
            fields[name] = NO_POLICY.max_catch_up if value is None else counted(name, value)
        elif name in ("grace", "timeout"):
            fields[f"{name}_us"] = None if value is None else _span(name, value)
        elif name == "on_timeout":
            fields["releases"] = one_of(name, value, _ON_TIMEOUTS) == "release"
        elif name == "delivery":
            fields["at_most_once"] = one_of(name, value, _DELIVERIES) == "at_most_once"
        elif name == "retry":
            fields[name] = None if value is None else _retry(value)
        elif name == "on_failure":
            if value is not None:
                name_of(value, name)
            fields[name] = value
        elif name == "pool":
            fields[name] = DEFAULT_POOL if value is None else _known(name, value, owner._pools)
        elif name == "limit":
            fields[name] = None if value is None else _known(name, value, owner._limits)
        else:
            fields[name] = _tags(value)
    return fields


def _span(what: str, value: Any) -> int:
    kind = type(value)  # looked at first: `isinstance` would ask a foreign object who it is
    if kind is bool or not issubclass(kind, int | float | timedelta):
        raise ScheduleError(f"{what}={shown(value)}: needs seconds, or a timedelta; None for no {what}")
    try:
        us = span_us(value, what)
    except RuleError as error:
        raise ScheduleError(str(error)) from None
    if us < SHORTEST_US:
        raise ScheduleError(
            f"{what}={shown(value)}: needs seconds, or a timedelta, of at least 1 ms; None for no {what}"
        )
    return us


def _retry(value: object) -> Retry:
    if type(value) is not Retry:
        hint = f"Retry({value})" if type(value) is int else "Retry(3)"
        raise ScheduleError(f"retry={shown(value)}: needs a Retry, e.g. retry={hint}; the first try is counted")
    return value


def _known(what: str, value: object, known: Mapping[str, object]) -> str:
    name = plain_text(value)
    if name is None or name not in known:
        there = ", ".join(map(shown, known)) or "none"
        raise ScheduleError(
            f"{what}={shown(value)}: no {what} has this name; there is {there}. Name it in Scheduler({what}s=...)"
        )
    return name


def _tags(value: Iterable[str]) -> tuple[str, ...]:
    if plain_text(value) is not None:
        raise ScheduleError(f"tags={shown(value)}: needs several, so put it in a list: [{shown(value)}]")
    try:
        tags = list(value)
    except TypeError:
        raise ScheduleError(f"tags={shown(value)}: needs texts, in a list") from None
    return tuple(dict.fromkeys(text("tags", tag) for tag in tags))


def _about_fires(policy: Policy) -> list[str]:
    """The settings about fires that come too early or too late, as they were said."""
    settings = []
    if policy.overlap != "skip":
        settings.append(f'overlap="{policy.overlap}"')
    if policy.catch_up != "latest":
        settings.append(f'catch_up="{policy.catch_up}"')
    return settings


def is_about_recurring(policy: Policy) -> bool:
    """Whether only a recurring task can have this policy."""
    return bool(_about_fires(policy)) or policy.pause_after_failures is not None


def check(policy: Policy, when: Rule | None, recurring: bool) -> None:
    """Refuse what contradicts the rule. Raises ScheduleError, which names both and the way out."""
    settings = _about_fires(policy)
    grid = every_of(when)
    if settings and grid is not None and grid.sliding:
        raise ScheduleError(
            f"{', '.join(settings)}: is about fires that come while a run goes on, or are missed, and {grid!r} "
            "measures from the finish of each run, so that none are; leave one of them out"
        )
    if policy.pause_after_failures is not None:
        settings.append(f"pause_after_failures={policy.pause_after_failures}")
    if settings and not recurring:
        raise ScheduleError(
            f"{', '.join(settings)}: is about a rule that fires again and again, and when={shown(when)} fires once; "
            "give a recurring rule, or leave it out"
        )
    if grid is None:
        return
    if policy.catch_up == "all" and policy.grace_us is not None and policy.grace_us < grid.interval_us:
        raise ScheduleError(
            f'catch_up="all": runs several missed fires, and grace={policy.grace_us / SECOND_US:g} is below the '
            f'interval of {grid!r}, so that at most one is new enough; give a longer grace, or catch_up="latest"'
        )


def _check_settings(policy: Policy, *, said_max_catch_up: bool) -> None:
    """Refuse what contradicts itself. `said_max_catch_up`: it was given, be it at its default."""
    if policy.max_running is not None and policy.overlap != "allow":
        raise ScheduleError(
            f'max_running={policy.max_running}: is about overlap="allow", and overlap="{policy.overlap}" has one run '
            "at a time; change one of them"
        )
    if policy.catch_up != "all" and (said_max_catch_up or policy.max_catch_up != NO_POLICY.max_catch_up):
        raise ScheduleError(
            f'max_catch_up={policy.max_catch_up}: is about catch_up="all", and catch_up="{policy.catch_up}" runs one '
            "missed fire at most; change one of them"
        )
    if policy.releases and policy.timeout_us is None:
        raise ScheduleError('on_timeout="release": says what a timeout does, and there is none; give timeout=')


def exists_of(exists: Exists, id: str | None) -> Exists | None:
    """What to do when the id is listed; None for the default, an error. Raises ScheduleError."""
    if type(exists) is not str or exists not in _EXISTS:
        raise ScheduleError(f"exists={shown(exists)}: needs one of {', '.join(_EXISTS)}")
    if exists == "error":
        return None
    if id is None:
        raise ScheduleError(f"exists={shown(exists)}: is about an id, and none was given; say id=")
    return exists


def check_names(verb: str, given: Iterable[str], known: Iterable[str], elsewhere: Mapping[str, str]) -> None:
    """Raises TypeError for a keyword that the verb does not have, as Python does, and offers the nearest.

    `elsewhere`: keywords of other verbs, and where to say them.
    """
    for name in given:
        if name not in known:
            refuse_name(verb, name, known, elsewhere)


def refuse_name(verb: str, name: str, known: Iterable[str], elsewhere: Mapping[str, str]) -> Never:
    """Raise the TypeError of `check_names`."""
    message = f"{verb}() got an unexpected keyword argument {shown(name)}"
    if name in elsewhere:
        raise TypeError(f"{message}; {elsewhere[name]}")
    near = get_close_matches(name, list(known), n=1)
    raise TypeError(f"{message}; did you mean {near[0]!r}?" if near else message)


def signature_with(function: Callable[..., object], options: type, defaults: Mapping[str, Any]) -> Signature:
    """The signature of a function that takes `**options`, with every one of them as the keyword that it is.

    For `help()`, and for what completes while one types in a live session.
    """
    plain = signature(function)
    own = [part for part in plain.parameters.values() if part.kind is not Parameter.VAR_KEYWORD]
    texts = {name: getattr(kind, "__forward_arg__", kind) for name, kind in options.__annotations__.items()}
    said = [
        Parameter(name, Parameter.KEYWORD_ONLY, default=defaults[name], annotation=texts[name]) for name in defaults
    ]
    return plain.replace(parameters=[*own, *said])
