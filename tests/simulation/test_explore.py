"""Ten thousand small programs, each played whole, and every promise looked at on what came of it.

A seed that fails: `python -m tests.simulation.explore SEED` shows its program, its events and its fault; `--shrink`
takes out what the fault does not need. EXPLORE_TIMES=10 plays ten times as many: `make fuzz`.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from itertools import combinations

import pytest

from tests.planted.mutants import Mutant
from tests.simulation.explore import explore, first_fault, program_of
from tests.simulation.late import FIRST, late_drawn, play_late
from tests.simulation.play import Story, play
from tests.simulation.programs import Draft, drawn
from tickless import policies, values
from tickless.core import attempts, by_hand, crew, machine, pauses, permits
from tickless.states import RunIf

TIMES = int(os.environ.get("EXPLORE_TIMES", "1"))
SEEDS, LATE, CHUNK = 8_000 * TIMES, 2_000 * TIMES, 500
"""The bugs below are found within 270 of the first, or within 50 of the late ones."""
CHUNKS = [*range(0, SEEDS, CHUNK), *range(FIRST, FIRST + LATE, CHUNK)]


@pytest.mark.parametrize("first", CHUNKS)
def test_every_promise_holds_in_every_program(first: int) -> None:
    """What nobody thought of: a retry of a zombie whose task is paused while its limit is full."""
    for seed in range(first, first + CHUNK):
        explore(seed)


@pytest.mark.parametrize("seed", range(0, 8_000, 80))
def test_the_same_program_gives_the_same_trace(seed: int) -> None:
    """P10: else none of the others could be looked at again."""
    assert seen(play(drawn(seed))) == seen(play(drawn(seed)))
    assert seen(play_late(late_drawn(seed))) == seen(play_late(late_drawn(seed)))


def seen(story: Story) -> tuple[object, ...]:
    return story.events, story.infos, story.runs, [(act.seen, act.refused) for act in story.acts]


# That it looks everywhere


def values_of(draft: Draft) -> Iterator[str]:
    """The policies of a task, by the words that one would search for."""
    options = draft.options
    yield f"rule {draft.rule[0]}"
    if draft.recurring:
        yield f"overlap {draft.overlap}"
        yield f"catch_up {options.get('catch_up', 'latest')}"
    for name in ("grace", "jitter", "retry", "pause_after_failures", "on_failure", "limit", "pool", "tags", "max_runs"):
        if name in options:
            yield name
    if "timeout" in options:
        is_longer = max(draft.spans) > options["timeout"]
        yield f"timeout {options.get('on_timeout', 'keep')} {'reached' if is_longer else 'not reached'}"
    if "after_tasks" in options:
        yield f"run_if {options['run_if']}"


def pairs(seeds: range) -> Counter[tuple[str, str]]:
    """(value, value) -> how many programs have a task with both."""
    count: Counter[tuple[str, str]] = Counter()
    for seed in seeds:
        found: set[tuple[str, str]] = set()
        for draft in drawn(seed).drafts:
            values = sorted(values_of(draft))
            found.update(combinations(values, 2), ((value, value) for value in values))
        count.update(found)
    return count


def test_every_value_of_every_policy_occurs_with_every_other() -> None:
    """What is not drawn is not tested. Rules that fire once have no overlap, and that is all that is left out."""
    count = pairs(range(2_000))
    wanted = [f"overlap {word}" for word in ("skip", "queue", "allow", "replace")]
    wanted += [f"catch_up {word}" for word in ("latest", "all", "none")]
    wanted += [f"timeout {how} {met}" for how in ("keep", "release") for met in ("reached", "not reached")]
    wanted += [f"run_if {run_if}" for run_if in RunIf]
    wanted += ["grace", "jitter", "retry", "pause_after_failures", "on_failure", "limit", "pool", "tags", "max_runs"]
    missing = []
    for one, other in combinations(sorted(wanted), 2):
        is_either = one.split()[0] == other.split()[0]  # one task has one of them
        if not is_either and not count[one, other]:
            missing.append((one, other))
    assert missing == []


def test_everything_that_can_happen_to_a_fire_happens() -> None:
    """A program in which nothing goes wrong proves little."""
    happened: Counter[str] = Counter()
    for seed in range(400):
        for story in (play(drawn(seed)), play_late(late_drawn(seed))):
            happened.update({f"{event.kind.value} {event.reason or ''}".strip() for event in story.events})
            happened.update({act.verb.name + (" refused" if act.refused else "") for act in story.acts})
    reasons = ("overlap", "coalesced", "misfire", "paused", "replaced", "parent_failed", "parent_cancelled", "run_if")
    wanted = {f"skipped {reason}" for reason in reasons} | {"failed timed_out", "retry", "retry timed_out"}
    wanted |= {"cancelled cancelled", "cancelled replaced", "paused", "resumed", "run_now refused", "reschedule"}
    assert {what for what in wanted if happened[what] < 3} == set()


# That it sees what it looks at

PLANTED = [
    Mutant("a limit's first waiter arms no alarm", permits, "at is not None and at > now:", "False:"),
    Mutant("a window that is too short", values, "now - per_us)", "now - per_us // 2)"),
    Mutant("a pause after failures holds nobody", attempts, "pauses.hold(machine, [subject], now)", "pass"),
    Mutant("a retry comes at once", policies, "Instant(now + retry_delay_us(retry, attempt, key, due))", "now"),
    Mutant("attempts are not reset", attempts, "        special.attempts = ()\n", "        pass\n"),
    Mutant("one attempt too many", policies, "attempt >= retry.attempts", "attempt > retry.attempts"),
    Mutant(
        "grace is not looked at when it starts", attempts, "is not None and first_try and", "is not None and False and"
    ),
    Mutant("a zombie does not keep its task busy", crew, "special.zombies += 1", "pass"),
    Mutant("a zombie gives its permit back", attempts, "if special.permit and policy.releases:", "if special.permit:"),
    Mutant("one run too many goes on", policies, "busy < policy.max_running", "busy <= policy.max_running"),
    Mutant(
        "a paused task is not held",
        pauses,
        "            machine.unplace(one)\n",
        "            special_of(one).hold = None\n",
    ),
    Mutant("a fire that came before run_now is lost", by_hand, "special.since = Instant(planned - 1)", "pass"),
    Mutant("a zombie is not waited for", machine, "special_of(task).hold = Hold.ZOMBIE\n", "keeps_busy(run)\n"),
]


@pytest.mark.parametrize("mutant", PLANTED, ids=lambda mutant: mutant.what)
def test_a_planted_bug_is_found(mutant: Mutant) -> None:
    """A checker that says nothing of all programs may have nothing to say."""
    with mutant.planted():
        assert any(first_fault(program_of(seed))[0] for seed in (*range(600), *range(FIRST, FIRST + 300)))
