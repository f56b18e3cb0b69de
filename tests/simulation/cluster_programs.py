"""The programs of the cluster's simulation: which tasks there are, and who does what in which order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any, NamedTuple

from tickless.core.record import More, TaskRecord
from tickless.core.special import Special
from tickless.instants import SECOND_US, Instant
from tickless.policies import Policy
from tickless.rules import Rule, after, every
from tickless.states import RunIf
from tickless.testing.drafts import draft
from tickless.values import Retry

WEIGHTS = {
    "add": 16, "due": 14, "take": 20, "finish": 10, "advance": 12, "cancel": 2, "pause": 2, "resume": 3, "renew": 4,
    "close": 2, "leave": 2, "kill": 3, "freeze": 2, "thaw": 4, "fail": 5, "die": 3, "start": 4, "wait": 2,
}  # fmt: skip


class Step(NamedTuple):
    place: int
    verb: str
    dice: int


@dataclass(frozen=True)
class Program:
    seed: int
    most_group: int
    steps: tuple[Step, ...]

    def __str__(self) -> str:
        return "\n".join([f"seed {self.seed}, {self.most_group} at once", *map(str, self.steps)])


def drawn(seed: int) -> Program:
    """The program of that number."""
    rng = Random(f"cluster {seed}")
    count = rng.choice((2, 2, 3, 4))
    verbs = rng.choices([*WEIGHTS], [*WEIGHTS.values()], k=rng.choice((20, 40, 60)))
    steps = [Step(place, "start", 0) for place in range(count)]
    steps += [Step(rng.randrange(count), verb, rng.randrange(1 << 30)) for verb in verbs]
    return Program(seed, rng.choice((1, 4)), tuple(steps))


def policy_of(rng: Random, recurring: bool, handler: Callable[..., object]) -> Policy:
    fields: dict[str, Any] = {"at_most_once": rng.random() < 0.4}
    if rng.random() < 0.3:
        fields["retry"] = Retry(rng.choice((2, 3)), delay=rng.choice((0.0, 1.0, 4.0)))
    if rng.random() < 0.3:
        fields["limit"] = rng.choice(("db", "api"))
    if rng.random() < 0.2:
        fields["pool"] = "cpu"
    if rng.random() < 0.2:
        fields |= {"timeout_us": rng.choice((1, 3, 12)) * SECOND_US, "releases": rng.random() < 0.3}
    if rng.random() < 0.2:
        fields["tags"] = ("x",)
    if rng.random() < 0.1:
        fields["on_failure"] = handler
    if recurring:
        fields["overlap"] = rng.choice(("skip", "skip", "queue", "allow", "replace"))
        if fields["overlap"] == "allow":
            fields["max_running"] = rng.choice((1, 2, None))
        fields["catch_up"] = rng.choice(("latest", "latest", "all", "none"))
        if rng.random() < 0.2:
            fields["grace_us"] = rng.choice((0, 2)) * SECOND_US
    return Policy(**fields)


def draft_of(
    rng: Random, id: str, parents: tuple[TaskRecord, ...], now: Instant, handler: Callable[..., object]
) -> Any:
    """A task as `schedule` makes it. Some are plain, since those go another way through the machine."""
    if parents and rng.random() < 0.3:
        return draft(None, now, now, id, parents=parents)
    rule: Rule | None = None
    kind = rng.choice(("now", "now", "after", "every", "every"))
    if kind != "now":
        seconds = rng.choice((0.5, 1, 3, 7))
        rule = after(seconds) if kind == "after" else every(seconds=seconds)
    run_if = rng.choice([*RunIf]) if parents else RunIf.ALL_SUCCEEDED
    task = draft(rule, now, now, id, parents=parents, run_if=run_if, priority=rng.choice((0, 0, 0, 1)))
    recurring = kind == "every"
    if rng.random() < 0.75:
        task._more = task._more or More()
        task._more.special = Special(policy_of(rng, recurring, handler))
    if recurring and rng.random() < 0.6:
        task._more = task._more or More()
        task._more.runs_left = rng.choice((1, 2, 4))
    return task
