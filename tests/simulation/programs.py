"""Small random programs: what is scheduled, with which policies, and what is done to it while it runs. Data only.

A program is drawn from a number, printed as it is, and cut down by taking parts out: see `explore`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from tickless import Limit, Retry
from tickless.states import RunIf

Span = tuple[float, ...]


@dataclass(frozen=True)
class Verb:
    """One call of the scheduler: at an instant, or (`at` None) in the body of a task."""

    name: str
    task: str | None = None
    tag: str | None = None
    at: float = 0.0
    argument: Any = None
    """For how many seconds a pause is, the `catch_up` of a resume, the (kind, seconds) of another rule."""


@dataclass(frozen=True)
class Draft:
    """One task."""

    id: str
    rule: tuple[str, float]
    """(every, s), (epoch, s), (sliding, s), (after, s), (at, s from the start), (now, 0)."""
    options: dict[str, Any] = field(default_factory=dict)
    spans: Span = (0.0,)
    """One of these is how long a run takes."""
    fails: float = 0.0
    """How often a run raises."""
    scheduled_at: float = 0.0
    """0: before the start."""
    acts: tuple[tuple[int, Verb], ...] = ()
    """(n, verb): what its n-th call does."""

    @property
    def recurring(self) -> bool:
        return self.rule[0] in ("every", "epoch", "sliding")

    @property
    def overlap(self) -> str:
        return str(self.options.get("overlap", "skip"))


@dataclass(frozen=True)
class Program:
    """What `play` schedules, and for how long."""

    seed: int
    until: float
    slots: int
    pools: dict[str, int]
    limits: tuple[Limit, ...]
    drafts: tuple[Draft, ...]
    verbs: tuple[Verb, ...]

    def __str__(self) -> str:
        lines = [f"Program(seed={self.seed}, until={self.until}, slots={self.slots}, pools={self.pools},"]
        lines += [f"  limits={self.limits},", "  drafts=(", *(f"    {draft}," for draft in self.drafts), "  ),"]
        return "\n".join([*lines, "  verbs=(", *(f"    {verb}," for verb in self.verbs), "  ))"])


INTERVALS = (1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 7.0)
SPANS = (0.0, 0.0, 0.0, 0.3, 0.5, 1.0, 1.0, 2.0, 2.5, 3.0, 5.5, 8.0)
RUN_IFS = tuple(str(run_if) for run_if in RunIf)
TAGS = ("x", "y")
VERBS = (*("pause",) * 3, *("resume",) * 3, *("run_now",) * 2, "cancel", "reschedule")
"""The likelier ones more often."""
LONGEST_S = 90.0


def drawn(seed: int) -> Program:
    """The program of that number: always the same."""
    rng = Random(f"program {seed}")
    until = rng.choice((30.0, 45.0, 60.0, LONGEST_S))
    limits = tuple(_limit(rng, name) for name in ("db", "web")[: rng.choice((0, 1, 1, 2))])
    pools = {"cpu": rng.choice((1, 2))} if rng.random() < 0.3 else {}
    drafts: list[Draft] = []
    for number in range(rng.randint(2, 6)):
        drafts.append(_draft(rng, f"t{number}", drafts, limits, pools, until))
    drafts = [_with_acts(rng, draft, drafts) if rng.random() < 0.2 else draft for draft in drafts]
    verbs = [drawn_verb(rng, drafts, round(rng.uniform(0, until), rng.choice((0, 1, 6)))) for _ in range(_verbs(rng))]
    verbs.sort(key=lambda verb: verb.at)
    return Program(seed, until, rng.choice((1, 1, 2, 3, 8)), pools, limits, tuple(drafts), tuple(verbs))


def _verbs(rng: Random) -> int:
    return rng.choice((0, 0, 1, 2, 3, 4, 6, 8))


def _limit(rng: Random, name: str) -> Limit:
    kind = rng.randrange(4)
    if kind == 0:
        return Limit(name, starts=rng.randint(1, 3), per=rng.choice((1.0, 2.5, 6.0)))
    if kind == 1:
        return Limit(name, running=rng.randint(1, 2), starts=rng.randint(1, 3), per=rng.choice((1.0, 2.5, 6.0)))
    if kind == 2:
        return Limit(name, running=rng.randint(1, 2), per=rng.choice((1.0, 4.0)))
    return Limit(name, running=rng.randint(1, 2))


def _draft(
    rng: Random, id: str, before: list[Draft], limits: tuple[Limit, ...], pools: dict[str, int], until: float
) -> Draft:
    kind = rng.choice(("every", "every", "every", "every", "epoch", "sliding", "after", "at", "now"))
    recurring = kind in ("every", "epoch", "sliding")
    span = 0.0 if kind == "now" else rng.choice(INTERVALS) if recurring else round(rng.uniform(0, until / 2), 1)
    options: dict[str, Any] = {}
    if kind in ("every", "epoch"):
        _overlap(rng, options, span)
    _lateness(rng, options, span, kind)
    _failure(rng, options, recurring)
    _places(rng, options, limits, pools)
    once = [draft.id for draft in before if not draft.recurring and draft.scheduled_at == 0]
    scheduled_at = 0.0
    if once and rng.random() < 0.5:
        options["after_tasks"] = rng.sample(once, min(len(once), rng.randint(1, 2)))
        options["run_if"] = rng.choice(RUN_IFS)
    elif rng.random() < 0.15:
        scheduled_at = round(rng.uniform(0, until / 2), 1)
    if recurring and rng.random() < 0.1:
        options["max_runs"] = rng.randint(1, 6)
    spans = tuple(rng.choice(SPANS) for _ in range(rng.randint(1, 3)))
    return Draft(id, (kind, span), options, spans, rng.choice((0.0, 0.0, 0.2, 0.5, 1.0)), scheduled_at)


def _overlap(rng: Random, options: dict[str, Any], interval: float) -> None:
    overlap = rng.choice(("skip", "queue", "allow", "replace"))
    if overlap != "skip" or rng.random() < 0.5:
        options["overlap"] = overlap
    if overlap == "allow" and rng.random() < 0.7:
        options["max_running"] = rng.randint(1, 3)
    catch_up = rng.choice(("latest", "latest", "all", "none"))
    if catch_up != "latest" or rng.random() < 0.3:
        options["catch_up"] = catch_up
    if catch_up == "all" and rng.random() < 0.5:
        options["max_catch_up"] = rng.randint(1, 4)


def _lateness(rng: Random, options: dict[str, Any], interval: float, kind: str) -> None:
    if rng.random() < 0.3:
        least = interval if options.get("catch_up") == "all" else 0.0
        options["grace"] = max(least, rng.choice((0.001, 0.5, 1.0, 2.0, 5.0)))
    if kind in ("every", "epoch") and rng.random() < 0.25:
        options["jitter"] = min(rng.choice((0.2, 0.5, 1.0, 3.0)), interval / 2)


def _failure(rng: Random, options: dict[str, Any], recurring: bool) -> None:
    if rng.random() < 0.45:
        options["retry"] = Retry(
            rng.randint(1, 4),
            delay=rng.choice((0.0, 0.5, 1.0, 3.0)),
            factor=rng.choice((1.0, 2.0)),
            max_delay=rng.choice((1.5, 3600.0)),
            jitter=rng.choice((0.0, 0.0, 0.7)),
            give_up_on=rng.choice(((), (), (KeyError,), (TimeoutError,))),
        )
    if rng.random() < 0.4:
        options["timeout"] = rng.choice((0.5, 1.0, 2.0, 4.0))
        if rng.random() < 0.6:
            options["on_timeout"] = rng.choice(("keep", "release"))
    if recurring and rng.random() < 0.2:
        options["pause_after_failures"] = rng.randint(1, 3)
    if rng.random() < 0.2:
        options["on_failure"] = True


def _places(rng: Random, options: dict[str, Any], limits: tuple[Limit, ...], pools: dict[str, int]) -> None:
    if limits and rng.random() < 0.6:
        options["limit"] = rng.choice(limits).name
    if pools and rng.random() < 0.5:
        options["pool"] = "cpu"
    if rng.random() < 0.4:
        options["tags"] = rng.sample(TAGS, rng.randint(1, 2))
    if rng.random() < 0.3:
        options["priority"] = rng.choice((-1, 1, 5))


def _with_acts(rng: Random, draft: Draft, drafts: list[Draft]) -> Draft:
    acts = tuple((rng.randint(1, 5), drawn_verb(rng, drafts, 0.0)) for _ in range(rng.randint(1, 2)))
    return replace(draft, acts=acts)


def drawn_verb(rng: Random, drafts: list[Draft], at: float) -> Verb:
    name = rng.choice(VERBS)
    draft, tag = rng.choice(drafts), None
    target: str | None = draft.id
    if name in ("pause", "resume") and rng.random() < 0.4:
        target, tag = None, rng.choice((None, *TAGS))
    argument: Any = None
    if name == "pause" and rng.random() < 0.5:
        argument = rng.choice((0.5, 2.0, 5.0, 12.0))
    elif name == "resume":
        argument = rng.choice(("none", "latest", "all"))
    elif name == "reschedule":
        argument = ("after", rng.choice(INTERVALS))
        if draft.recurring:
            argument = ("sliding" if draft.rule[0] == "sliding" else "every", round(rng.uniform(1, 7), 6))
    return Verb(name, target, tag, at, argument)
