"""What is said of tasks that are listed already: refused at the door, or made of a copy of the task.

A draft is as good a copy as a store's: what the store does with it is in test_policy_verbs.py.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.faults.world import World, fail
from tests.test_drafts import furnished, still_works, unchanged, work
from tests.test_drafts_foreign import Hostile
from tickless import Rule, RuleError, ScheduleError, Task, TicklessError, UnknownTask, after, at, cron, every
from tickless.changes import Update, is_waiting, pause_of, reschedule
from tickless.drafts import draft
from tickless.instants import SECOND_US, instant_of
from tickless.options import policy_in
from tickless.policies import Pause, Policy
from tickless.rules import Every, Window

TEN = every(minutes=10)


class Copies:
    """Copies of tasks of a scheduler whose clock stands still."""

    def __init__(self) -> None:
        self.world = World(start=False)
        self.clock = self.world.clock
        self.now = self.clock.now()
        self.parent = self.world.scheduler.schedule(work, after(99))

    def of(self, when: Rule | None = TEN, **options: Any) -> Task[Any]:
        return draft(self.world.scheduler, self.clock, self.now, work, when, **options)

    def rescheduled(self, copy: Task[Any], when: Rule) -> Task[Any]:
        self.clock.advance(1)
        reschedule(copy, when, self.clock, self.clock.now())
        return copy

    def updated(self, copy: Task[Any], **changes: Any) -> Task[Any]:
        Update(self.world.scheduler, changes).make(copy)
        return copy

    def later(self, seconds: float) -> int:
        return self.now + round(seconds * SECOND_US)


# Refused at the door


REFUSED: list[tuple[str, tuple[Any, ...], dict[str, Any], type[Exception], list[str]]] = [
    ("pause", ("later",), {"tag": "night"}, ScheduleError, ["pause('later', tag='night')", "not both"]),
    ("resume", ("later",), {"tag": "night"}, ScheduleError, ["resume('later', tag='night')"]),
    ("reschedule", ("later", TEN), {"tag": "night"}, ScheduleError, ["reschedule('later', tag='night')"]),
    ("update", ("later",), {"tag": "night", "priority": 1}, ScheduleError, ["update('later', tag='night')"]),
    ("run_now", ("later",), {"tag": "night"}, ScheduleError, ["run_now('later', tag='night')"]),
    ("pause", (), {"tag": ""}, ScheduleError, ["tag=''", "at least one character"]),
    ("pause", (), {"tag": ["a"]}, ScheduleError, ["tag=['a']", "needs a text"]),
    ("pause", ("nobody",), {}, UnknownTask, ["'nobody'"]),
    ("pause", (5,), {}, UnknownTask, ["5", "neither a task nor an id"]),
    ("pause", ("later",), {"reason": ""}, ScheduleError, ["reason=''", "at least one character"]),
    ("pause", ("later",), {"reason": 5}, ScheduleError, ["reason=5", "needs a text"]),
    ("pause", ("later",), {"until": datetime(2030, 1, 1)}, RuleError, ["until", "naive"]),  # noqa: DTZ001
    ("pause", ("later",), {"until": 5}, RuleError, ["until", "5"]),
    ("pause", ("later",), {"until": datetime(2000, 1, 1, tzinfo=UTC)}, ScheduleError, ["until=", "has been"]),
    ("resume", ("later",), {"catch_up": "some"}, ScheduleError, ["catch_up='some'", "latest, all, none"]),
    ("resume", ("later",), {"catch_up": None}, ScheduleError, ["catch_up=None"]),
    ("reschedule", ("later",), {}, ScheduleError, ["needs a rule", "run_now()"]),
    ("update", ("later",), {}, ScheduleError, ["nothing is to change", "work, "]),
    ("update", ("later",), {"when": TEN}, TypeError, ["update() got", "'when'", "reschedule()"]),
    ("update", ("later",), {"jitter": 5}, TypeError, ["update() got", "'jitter'", 'exists="update"']),
    ("update", ("later",), {"until": None}, TypeError, ["update() got", "'until'", 'exists="update"']),
    ("update", ("later",), {"time_out": 5}, TypeError, ["update() got", "did you mean 'timeout'?"]),
    ("update", ("later",), {"zzz": 5}, TypeError, ["update() got", "'zzz'"]),
    ("update", ("later",), {"work": 5}, ScheduleError, ["work=5", "something to call"]),
    ("update", ("later",), {"args": 5}, ScheduleError, ["args=5", "args=(5,)"]),
    ("update", ("later",), {"kwargs": [1]}, ScheduleError, ["kwargs=[1]", "dict"]),
    ("update", ("later",), {"name": ""}, ScheduleError, ["name=''"]),
    ("update", ("later",), {"priority": True}, ScheduleError, ["priority=True", "whole number"]),
    ("update", ("later",), {"pool": "cpu"}, ScheduleError, ["pool='cpu'", "'default'"]),
    ("update", ("later",), {"tags": "a"}, ScheduleError, ["tags='a'", "['a']"]),
    ("update", ("later",), {"overlap": None}, ScheduleError, ["overlap=None", "queue"]),
]


@pytest.mark.parametrize(
    ("verb", "args", "options", "error", "words"), REFUSED, ids=[f"{row[0]}-{row[1:3]!s:.40}" for row in REFUSED]
)
def test_what_cannot_be_said_is_refused_and_nothing_changes(
    verb: str, args: tuple[Any, ...], options: dict[str, Any], error: type[Exception], words: list[str]
) -> None:
    """In life: a slip of the operator pauses everything, or nothing."""
    world = furnished()
    with unchanged(world), pytest.raises(error) as caught:
        getattr(world.scheduler, verb)(*args, **options)
    assert [word for word in words if word not in str(caught.value)] == []
    still_works(world)


def test_an_output_among_new_arguments_is_refused() -> None:
    """It would make a parent, after the task has perhaps run already."""
    world = furnished()
    parent = world.scheduler.schedule(work, after(5))
    for changes in ({"args": (parent.output,)}, {"kwargs": {"a": [parent.output]}}):
        with unchanged(world), pytest.raises(TicklessError, match="parents stay as they are"):
            world.scheduler.update("later", **changes)


def test_a_pause_holds_plain_texts_and_instants() -> None:
    clock = World().clock
    end = datetime(2100, 1, 1, tzinfo=UTC)
    pause = pause_of(Hostile("migration"), end, clock)
    assert pause == Pause("migration", instant_of(end, "end"))
    assert type(pause.reason) is str
    assert pause_of(None, None, clock) == Pause()
    with pytest.raises(ScheduleError, match="has been"):
        pause_of(None, datetime.fromtimestamp(clock.wall() / SECOND_US, UTC), clock)


# Another rule


def test_a_rule_counts_from_the_reschedule() -> None:
    copies = Copies()
    copy = copies.rescheduled(copies.of(), every(minutes=5))
    assert (copy._due, copy._wall) == (copies.later(301), False)
    assert isinstance(copy._rule, Every)
    assert copy._rule.next_after(copies.later(301)) == copies.later(601)  # type: ignore[arg-type]


def test_a_one_shot_becomes_recurring_and_the_other_way_round() -> None:
    copies = Copies()
    copy = copies.rescheduled(copies.of(after(5)), cron("0 * * * *"))
    assert copy._rule is not None
    assert copy._wall
    copy = copies.rescheduled(copy, after(7))
    assert (copy._rule, copy._due, copy._wall) == (None, copies.clock.now() + 7 * SECOND_US, False)


def test_a_task_that_waits_for_parents_keeps_waiting_and_its_rule_is_not_bound() -> None:
    copies = Copies()
    for before in (None, after(5), TEN):
        copy = copies.of(before, after_tasks=[copies.parent])
        assert is_waiting(copy)
        copies.rescheduled(copy, cron("0 * * * *"))
        assert copy._more is not None
        assert (copy._rule, copy._due, copy._wall) == (None, None, True)
        assert (copy._more.when, copy._more.recurring) == (cron("0 * * * *"), True)


def test_start_and_until_stay_where_the_new_rule_recurs() -> None:
    """They belong to the schedule: a season does not end because the interval was changed in it."""
    copies = Copies()
    first = datetime.fromtimestamp(copies.now / SECOND_US, UTC) + timedelta(hours=1)
    copy = copies.rescheduled(copies.of(TEN, start=first, until=first + timedelta(hours=1)), every(minutes=30))
    assert type(copy._rule) is Window
    assert copy._due == copies.later(3_600)
    assert copy._rule.next_after(copies.later(3_600 + 3_600)) is None  # type: ignore[arg-type]
    copy = copies.rescheduled(copy, after(5))
    assert (copy._rule, copy._due) == (None, copies.clock.now() + 5 * SECOND_US)
    waiting = copies.of(TEN, until=first, after_tasks=[copies.parent])
    copies.rescheduled(waiting, every(minutes=30))
    assert waiting._more is not None
    assert repr(waiting._more.when).startswith("every(seconds=1800), until=")


def test_policy_and_jitter_stay_and_are_checked_against_the_new_rule() -> None:
    copies = Copies()
    copy = copies.of(overlap="queue", timeout=5, max_runs=7)
    copies.rescheduled(copy, every(minutes=5))
    assert copy._more is not None
    assert copy._more.runs_left == 7
    assert policy_in(copy._more) == Policy(overlap="queue", timeout_us=5 * SECOND_US)
    for wrong, words in ((after(5), "fires once"), (every(minutes=5, sliding=True), "sliding=True")):
        with pytest.raises(ScheduleError, match=f'overlap="queue".*{words}'):
            copies.rescheduled(copy, wrong)
    with pytest.raises(ScheduleError, match="jitter=30: is as long as the interval"):
        copies.rescheduled(copies.of(jitter=30), every(seconds=30))
    with pytest.raises(RuleError, match=r"when=5: needs a rule"):
        copies.rescheduled(copy, 5)  # type: ignore[arg-type]
    with pytest.raises(RuleError, match="naive"):
        copies.rescheduled(copy, at(datetime(2030, 1, 1)))  # noqa: DTZ001


# Other settings


def test_what_is_not_said_stays() -> None:
    copies = Copies()
    copy = copies.of(args=(1,), kwargs={"a": 1}, name="mine", priority=3, overlap="queue", timeout=5, jitter=2)
    before = copy._rule, copy._due
    copies.updated(copy, grace=7)
    assert (copy._work, copy._args, copy._kwargs, copy._name, copy._priority) == (work, (1,), {"a": 1}, "mine", 3)
    assert (copy._rule, copy._due) == before
    expected = Policy(overlap="queue", timeout_us=5 * SECOND_US, grace_us=7 * SECOND_US, jitter_us=2 * SECOND_US)
    assert policy_in(copy._more) == expected
    copies.updated(copy, args=[2], kwargs=None, name="other", priority=-1, timeout=None, overlap="skip", grace=None)
    assert (copy._args, copy._kwargs, copy._name, copy._priority) == ((2,), None, "other", -1)
    assert policy_in(copy._more) == Policy(jitter_us=2 * SECOND_US)


def test_a_first_setting_makes_a_policy() -> None:
    copies = Copies()
    copy = copies.updated(copies.of(None), tags=["a", "a", Hostile("b")])
    assert copy._more is not None
    assert copy._more.special
    assert policy_in(copy._more) == Policy(tags=("a", "b"))


def test_a_task_that_is_named_after_its_work_is_so_after_an_update() -> None:
    copies = Copies()
    assert copies.updated(copies.of(), work=fail)._name == "fail"
    assert copies.updated(copies.of(name="mine"), work=fail)._name == "mine"
    assert copies.updated(copies.of(name="mine"), work=fail, name=None)._name == "fail"
    assert copies.updated(copies.of(name="mine"), name=None)._name == "work"


def test_contradictions_are_looked_for_in_the_whole_and_against_the_rule() -> None:
    copies = Copies()
    contradictions: list[tuple[Task[Any], dict[str, Any], str]] = [
        (copies.of(overlap="allow", max_running=3), {"overlap": "queue"}, 'max_running=3.*overlap="queue"'),
        (copies.of(catch_up="all", max_catch_up=3), {"catch_up": "none"}, 'max_catch_up=3.*catch_up="none"'),
        (copies.of(), {"max_catch_up": 100}, 'max_catch_up=100.*catch_up="latest"'),
        (copies.of(timeout=5, on_timeout="release"), {"timeout": None}, 'on_timeout="release"'),
        (copies.of(catch_up="all"), {"grace": 5}, r"grace=5.*every\(seconds=600\)"),
        (copies.of(after(5)), {"overlap": "queue"}, 'overlap="queue".*fires once'),
        (copies.of(None, after_tasks=[copies.parent]), {"catch_up": "all"}, 'catch_up="all".*fires once'),
        (copies.of(every(minutes=1, sliding=True)), {"overlap": "allow"}, 'overlap="allow".*sliding=True'),
    ]
    for copy, changes, words in contradictions:
        with pytest.raises(ScheduleError, match=words):
            copies.updated(copy, **changes)
    copy = copies.of(TEN, after_tasks=[copies.parent])
    assert policy_in(copies.updated(copy, overlap="queue")._more).overlap == "queue"


def test_the_last_run_of_a_recurring_task_contradicts_nothing() -> None:
    """Its rule has no more fires, and is gone: that does not make a one-shot of it."""
    copies = Copies()
    copy = copies.of(overlap="queue")
    copy._rule = None
    assert policy_in(copies.updated(copy, timeout=5)._more).timeout_us == 5 * SECOND_US


def test_tags_that_can_be_read_once_are_those_of_each_task() -> None:
    """An update of many tasks is checked once, for all of them."""
    copies = Copies()
    update = Update(copies.world.scheduler, {"tags": (tag for tag in "ab")})
    for copy in (copies.of(), copies.of()):
        update.make(copy)
        assert policy_in(copy._more).tags == ("a", "b")
