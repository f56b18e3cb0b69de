"""Any order of verbs on a task with any policy, beside a model of it; and crowds of them, whose promises must hold.

The scheduler is the real one, on a clock that the test moves. Bodies are "held": a run is taken from the store, and
given back when the test says so, which may be long after its timeout.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any, cast

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.properties.policy_model import HERE, Model, Policy, Run
from tests.properties.world import OUTCOMES
from tickless import Limit, Retry, Scheduler, Task, after, every
from tickless.core.invariants import check
from tickless.core.special import policy_of
from tickless.errors import ScheduleError
from tickless.instants import datetime_of
from tickless.states import RunIf
from tickless.testing import FakeClock, ManualPool

S = 1_000_000
run_ifs = st.sampled_from([str(run_if) for run_if in RunIf])
picks = st.integers(0, 7)
spans = st.integers(1, 5)
catch_ups = st.sampled_from(["none", "latest", "all"])


@st.composite
def plans(draw: st.DrawFn) -> tuple[int, Policy]:
    """The interval in seconds, 0 for what runs once; and a policy that goes with it."""
    step = draw(st.integers(0, 4))
    policy = Policy(
        grace=draw(st.sampled_from([None, None, 1, 3])),
        delays=(draw(st.integers(0, 4)),) * draw(st.integers(0, 2)),
        timeout=draw(st.sampled_from([None, None, 1, 3])),
        release=draw(st.booleans()),
        limited=draw(st.booleans()),
    )
    if step:
        policy.overlap = draw(st.sampled_from(["skip", "queue", "allow", "replace"]))
        policy.max_running = draw(st.integers(1, 3)) if policy.overlap == "allow" else 1
        policy.catch_up = draw(catch_ups)
        policy.max_catch_up = draw(st.sampled_from([2, 3, 100])) if policy.catch_up == "all" else 100
        policy.pause_after = draw(st.sampled_from([None, None, 1, 2]))
    if policy.catch_up == "all" and policy.grace is not None and policy.grace < step:
        policy.grace = None  # refused
    return step, policy


def several(times: int) -> settings:
    """So many times the examples of the profile, where that is the quick one: there are many policies."""
    now = settings()
    return settings(max_examples=now.max_examples * times) if now.max_examples < 1_000 else now


def options_of(policy: Policy) -> dict[str, Any]:
    """The same, as `schedule` is told it."""
    return {
        "overlap": policy.overlap,
        "max_running": policy.max_running if policy.overlap == "allow" else None,
        "grace": policy.grace,
        "catch_up": policy.catch_up,
        "max_catch_up": policy.max_catch_up if policy.catch_up == "all" else None,
        "retry": Retry(len(policy.delays) + 1, delay=policy.delays[0], factor=1.0) if policy.delays else None,
        "timeout": policy.timeout,
        "on_timeout": "release" if policy.release and policy.timeout else "keep",
        "pause_after_failures": policy.pause_after,
        "limit": "one" if policy.limited else None,
    }


class PolicyMachine(RuleBasedStateMachine):
    """One task. What the scheduler shows must be what the model shows, after each verb."""

    @initialize(plan=plans())
    def begin(self, plan: tuple[int, Policy]) -> None:
        self.clock = FakeClock()
        self.zero = self.clock.now()
        self.scheduler = self.make_scheduler()
        step, policy = plan[0], replace(plan[1])
        self.model = Model(policy, first=step or 3, step=step)
        self.steps = {step}
        self.scheduler.start()
        when = every(seconds=step) if step else after(3)
        self.task = self.scheduler.schedule(lambda: None, when, id="it", **options_of(policy))
        self.held: list[tuple[Any, Run, int]] = []
        self.other: Any = None

    def make_scheduler(self) -> Scheduler:
        return Scheduler(
            ManualPool(slots=50), clock=self.clock, limits=[Limit("one", running=1)], observers=[], keep_runs=10_000
        )

    # Time

    @rule(n=spans)
    def time_passes(self, n: int) -> None:
        for _ in range(n):
            self.clock.advance(1)
            self.model.second()
            self.compare()

    @rule(n=spans)
    def time_passes_and_nobody_looks(self, n: int) -> None:
        self.clock.suspend(n)
        for _ in range(n):
            self.model.second(looks=False)
        self.model.look()

    # Runs

    @precondition(lambda self: self.model.ready)
    @rule()
    def take(self) -> None:
        store, run, taken = self.scheduler._store, self.model.take(), None
        for _ in range(2):  # where one was too late, the next may be ready only after a look
            taken = store.take(self.clock.now())
            self.scheduler._look()
            if taken is not None:
                break
        assert (taken is None) == (run is None), f"the store gives {taken}, the model {run}"
        if taken is not None and run is not None:
            assert (cast(int, taken.due) - self.zero) == run.due * S
            self.held.append((taken, run, run.tries))

    @precondition(lambda self: self.held)
    @rule(number=picks, how=st.sampled_from(sorted(OUTCOMES)))
    def finish(self, number: int, how: str) -> None:
        taken, run, tries = self.held.pop(number % len(self.held))
        self.scheduler._store.finish(taken, OUTCOMES[how], self.clock.now())
        self.scheduler._look()
        if run.place == "running" and run.tries == tries:
            self.model.finish(run, how)
        else:
            self.model.comes_back(run)

    @precondition(lambda self: self.model.policy.limited and not self.other)
    @rule()
    def somebody_else_takes_the_permit(self) -> None:
        if not any(run.permit or run.queued for run in self.model.runs):
            self.scheduler.schedule(lambda: None, limit="one", priority=1)
            self.other = self.scheduler._store.take(self.clock.now())
            self.model.others = True

    @precondition(lambda self: self.other)
    @rule()
    def somebody_else_gives_it_back(self) -> None:
        self.scheduler._store.finish(self.other, OUTCOMES["succeeds"], self.clock.now())
        self.scheduler._look()
        self.other, self.model.others = None, False
        self.model.permit_is_free()

    # Verbs

    @precondition(lambda self: not self.model.end)
    @rule(until=st.one_of(st.none(), spans))
    def pause(self, until: int | None) -> None:
        if self.model.policy.timeout:
            until = None  # whether a timeout of the same instant comes first decides too much
        at = None if until is None else datetime_of(self.clock.wall()) + timedelta(seconds=until)
        assert self.scheduler.pause("it", until=at) == (not self.model.paused)
        self.model.pause(None if until is None else self.model.now + until)

    @rule(catch_up=catch_ups)
    def resume(self, catch_up: Any) -> None:
        ended = self.scheduler.get("it").state.terminal
        assert self.scheduler.resume("it", catch_up=catch_up) == (self.model.paused and not ended)
        self.model.resume(catch_up)

    @precondition(lambda self: not (self.model.caught or self.model.chain) or self.model.policy.overlap == "skip")
    @rule()
    def run_now(self) -> None:
        refused = self.model.run_now()
        try:
            self.scheduler.run_now("it")
        except ScheduleError:
            assert refused
        else:
            assert not refused

    @precondition(lambda self: not self.model.end)
    @rule(n=spans)
    def reschedule(self, n: int) -> None:
        if n in self.steps or (self.model.caught and self.model.policy.overlap != "skip"):
            return  # back to a rule that it has had: whether that is another one depends on when it counts from
        self.steps.add(n)
        step = n if self.model.step else 0
        grace = self.model.policy.grace
        if self.model.policy.catch_up == "all" and grace is not None and grace < step:
            return
        if not step and any(run.place in HERE and (run.place == "running" or run.tries) for run in self.model.runs):
            with pytest.raises(ScheduleError, match="for the only time"):
                self.scheduler.reschedule("it", after(n))
            return
        self.scheduler.reschedule("it", every(seconds=n) if step else after(n))
        self.model.reschedule(self.model.now + n, step)

    @precondition(lambda self: self.model.now > 5)
    @rule()
    def cancel(self) -> None:
        if not self.model.end:
            assert self.scheduler.cancel("it") == self.model.cancel()

    # What both show

    def check_promises(self) -> None:
        check(cast(Any, self.scheduler._store))

    @invariant()
    def compare(self) -> None:
        self.check_promises()
        info, model = self.scheduler.get("it"), self.model
        real = [
            (
                str(run.state),
                str(run.reason) if run.state.terminal and run.reason else None,
                (cast(int, run.due_us) - self.zero) // S,
                run.count,
                len(run.attempts),
            )
            for run in self.scheduler.runs("it")
        ]
        pending = {"held": "pending", "retry": "pending"}
        lines = [(pending.get(r.place, r.place), r.reason, r.due, r.count, r.tries) for r in model.runs]
        real, lines = sorted(real, key=str), sorted(lines, key=str)
        assert real == lines, f"at {model.now}: runs\n{real}, not\n{lines}"
        assert str(info.state) == model.state(), f"at {model.now}: {info.state}, not {model.state()}"
        assert info.paused == (model.paused and not info.state.terminal), "paused"
        fire = None if info.next_fire_us is None else (info.next_fire_us - self.zero) // S
        assert fire == model.next_fire(), f"at {model.now}: next fire {fire}, not {model.next_fire()}"
        # A worker comes to know that there is no permit at a take, or when the run becomes ready.
        surely = any(run.queued for run in model.runs)
        maybe = surely or (model.has_no_permit() and any(r.place == "ready" and not r.permit for r in model.runs))
        assert surely <= (info.waiting_for is not None) <= maybe, f"at {model.now}: waits for {info.waiting_for}"
        retries = [run.at for run in model.runs if run.place == "retry"]
        retry_at = None if info.retry_at_us is None else (info.retry_at_us - self.zero) // S
        assert retry_at == min(retries, default=None), f"at {model.now}: tries again at {retry_at}, not {retries}"

    def teardown(self) -> None:
        if hasattr(self, "other"):
            for taken, _, _ in self.held:
                self.scheduler._store.finish(taken, OUTCOMES["succeeds"], self.clock.now())
            if self.other:
                self.scheduler._store.finish(self.other, OUTCOMES["succeeds"], self.clock.now())
            self.scheduler.close(timeout=0)


TAGS = ("red", "blue")
POOLS = ("default", "other")
VERBS = ("pause", "resume", "run_now", "cancel", "again")
CHANGES: dict[str, Any] = {
    "tagged": {"tags": TAGS}, "untagged": {"tags": ()}, "limited": {"limit": "one"}, "unlimited": {"limit": None},
    "elsewhere": {"pool": "other"}, "on time": {"grace": 1}, "impatient": {"timeout": 1},
}  # fmt: skip
tags = st.one_of(st.none(), st.sampled_from(TAGS))


class CrowdMachine(RuleBasedStateMachine):
    """Many tasks that share limits, tags, pools and one another's ends. Nobody says what must come, only what holds."""

    @initialize()
    def begin(self) -> None:
        self.clock = FakeClock()
        self.scheduler = self.make_scheduler()
        self.scheduler.start()
        self.tasks: list[Task[None]] = []
        self.held: list[Any] = []
        self.starts: list[int] = []

    def make_scheduler(self) -> Scheduler:
        limits = [Limit("one", running=1), Limit("rate", starts=2, per=3)]
        pools = {name: ManualPool(slots=50) for name in POOLS}
        return Scheduler(pools=pools, limits=limits, clock=self.clock, observers=[])

    @rule(
        plan=plans(), bears=st.sets(st.sampled_from(TAGS)), pool=st.sampled_from(POOLS), priority=st.integers(-1, 1),
        limit=st.sampled_from(["one", "rate", None]), parents=st.lists(picks, max_size=2), run_if=run_ifs,
    )  # fmt: skip
    def schedule(
        self, plan: tuple[int, Policy], bears: set[str], pool: str, priority: int, limit: str | None,
        parents: list[int], run_if: str,
    ) -> None:  # fmt: skip
        step, policy = plan
        once = [task for task in self.tasks if not task.info.recurring]
        options = options_of(policy) | {"limit": limit, "tags": bears, "pool": pool, "priority": priority}
        if parents and once:
            options |= {"after_tasks": [once[number % len(once)] for number in parents], "run_if": run_if}
        when = every(seconds=step) if step else after(policy.grace or 0)
        self.tasks.append(self.scheduler.schedule(lambda: None, when, **options))

    @rule(n=spans, looks=st.booleans())
    def time_passes(self, n: int, looks: bool) -> None:
        (self.clock.advance if looks else self.clock.suspend)(n)

    @rule(hours=st.sampled_from([-4, -1, 1, 30]))
    def the_wall_clock_is_set(self, hours: int) -> None:
        self.clock.step_wall(hours * 3_600)

    @rule(pool=st.sampled_from(POOLS), times=st.integers(1, 4))
    def take(self, pool: str, times: int) -> None:
        for _ in range(times):
            taken = self.scheduler._store.take(self.clock.now(), pool)
            self.scheduler._look()
            if taken is not None:
                self.held.append(taken)
                if policy_of(taken.task).limit == "rate":
                    self.starts.append(self.clock.now())

    @precondition(lambda self: self.held)
    @rule(number=picks, how=st.sampled_from(sorted(OUTCOMES)))
    def finish(self, number: int, how: str) -> None:
        self.scheduler._store.finish(self.held.pop(number % len(self.held)), OUTCOMES[how], self.clock.now())
        self.scheduler._look()

    def give_back(self, taken: Any) -> None:
        self.scheduler._store.finish(taken, OUTCOMES["succeeds"], self.clock.now())

    @rule(tag=tags, until=st.one_of(st.none(), spans))
    def pause(self, tag: str | None, until: int | None) -> None:
        at = None if until is None else datetime_of(self.clock.wall()) + timedelta(seconds=until)
        self.scheduler.pause(tag=tag, until=at)

    @rule(tag=tags, catch_up=catch_ups)
    def resume(self, tag: str | None, catch_up: Any) -> None:
        self.scheduler.resume(tag=tag, catch_up=catch_up)

    @precondition(lambda self: self.tasks)
    @rule(number=picks, verb=st.sampled_from([*VERBS, *CHANGES]))
    def to_one(self, number: int, verb: str) -> None:
        task = self.tasks[-1 - number % len(self.tasks)]
        try:
            if verb == "again":
                task.reschedule(every(seconds=7) if task.info.recurring else after(7))
            elif verb in CHANGES:
                task.update(**CHANGES[verb])
            else:
                getattr(task, verb)()
        except ScheduleError:
            assert verb not in ("pause", "resume", "cancel")

    @rule(tag=tags)
    def run_now(self, tag: str | None) -> None:
        self.scheduler.run_now(tag=tag)

    @invariant()
    def promises_hold(self) -> None:
        if not hasattr(self, "held"):
            return
        check(cast(Any, self.scheduler._store))
        self.what_is_shown_is_so()

    def what_is_shown_is_so(self) -> None:
        running = self.scheduler._store.running()
        assert self.scheduler.limits()["one"].running <= 1
        assert not any(len([at for at in self.starts if 0 <= at - start < 3 * S]) > 2 for start in self.starts)
        assert len(running) <= len(self.held), "a run goes on, and nobody has it"
        for task in self.tasks:
            info = task.info
            assert not (info.paused and info.next_fire_us is not None), "it is paused, and would fire"
            assert not info.state.terminal or not info.paused

    def teardown(self) -> None:
        for taken in getattr(self, "held", []):
            self.give_back(taken)
        if hasattr(self, "held"):
            self.scheduler.close(timeout=0)
            assert not self.scheduler._store.live(), "all have let go, and a task lives on"


def test_a_task_with_any_policy_does_what_the_contract_says() -> None:
    """Each policy is easy alone; what a pause, a retry and a zombie make of an overlap is what gets forgotten."""
    run_state_machine_as_test(PolicyMachine, settings=several(6))


def test_a_crowd_of_tasks_keeps_the_promises() -> None:
    """What is shared is what is lost: a permit, a pause of a tag, a child whose parent is tried again."""
    run_state_machine_as_test(CrowdMachine, settings=several(3))
