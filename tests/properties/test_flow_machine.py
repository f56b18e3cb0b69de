"""Any order of verbs on a flow, its rounds and their tasks, beside the models: of a fire, and of a round.

The scheduler is the real one, on a clock that the test moves. A worker that comes to a round opens it; the runs of its
tasks are held, and end when the test says so.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule, run_state_machine_as_test

from tests.properties.flow_model import Node
from tests.properties.flow_policies import Asked, FlowModel, Made
from tests.properties.policy_model import HERE, Policy
from tests.properties.test_policy_machine import PolicyMachine, S, picks, several, spans
from tests.properties.world import OUTCOMES
from tests.simulation.dags import options_of
from tickless import DependencyError, Scheduler, current_run, every
from tickless.errors import ScheduleError
from tickless.flow import Flow, FlowTask
from tickless.instants import datetime_of, instant_of
from tickless.states import RunIf
from tickless.testing import FakeClock, ManualPool
from tickless.worker import Worker

ROUNDS, TASKS = "default", "tasks"
"""The pools: a worker of the one opens rounds, one of the other runs what is in them."""
NAMES = "abcde"
run_ifs = st.sampled_from([str(run_if) for run_if in RunIf])
outcomes = st.sampled_from(sorted(OUTCOMES))


@st.composite
def dags(draw: st.DrawFn) -> tuple[Node, ...]:
    nodes: list[Node] = []
    for name in NAMES[: draw(st.integers(1, 4))]:
        parents = draw(st.sets(st.sampled_from([node.name for node in nodes]), max_size=2)) if nodes else set()
        nodes.append(
            Node(
                name,
                tuple(sorted(parents)),
                draw(run_ifs) if parents else "all_succeeded",
                attempts=draw(st.sampled_from([1, 1, 2])),
                delay=draw(st.integers(0, 3)),
            )
        )
    return tuple(nodes)


@st.composite
def plans(draw: st.DrawFn) -> tuple[int, Policy]:
    """The interval in seconds, and a policy that goes with it."""
    step = draw(st.integers(1, 6))
    policy = Policy(
        overlap=draw(st.sampled_from(["skip", "queue", "allow", "replace"])),
        catch_up=draw(st.sampled_from(["latest", "latest", "all", "none"])),
        pause_after=draw(st.sampled_from([None, None, 1, 2])),
    )
    if policy.overlap == "allow":
        policy.max_running = draw(st.integers(1, 3))
        policy.catch_up = "latest" if policy.catch_up == "all" else policy.catch_up
    if policy.catch_up == "all":
        policy.max_catch_up = draw(st.sampled_from([2, 3, 100]))
        policy.pause_after = None  # what a pause makes of a chain is for `test_policy_machine`
    return step, policy


class FlowMachine(PolicyMachine):
    """One flow, `it`. What its runs, its rounds and their tasks show must be what the models show, after each verb."""

    model: FlowModel

    @initialize(plan=plans(), nodes=dags(), timeout=st.sampled_from([None, None, 2, 5]))
    def begin(self, plan: tuple[int, Policy], nodes: tuple[Node, ...], timeout: int | None) -> None:
        self.clock = FakeClock()
        self.zero = self.clock.now()
        self.scheduler = self.make_scheduler()
        step, policy = plan[0], replace(plan[1])
        self.step, self.timeout, self.overlap = step, timeout, policy.overlap
        self.scheduler.start()
        self.made: dict[str, Made] = {}
        """Task of a round -> the round."""
        self.nodes, self.flow = self.define(policy, nodes, "error")
        if policy.overlap == "skip":  # each round has a record of its own, so it is as if so many were allowed
            policy = replace(policy, overlap="allow")
        self.model = FlowModel(policy, step, self.nodes, {"who": "flow"}, timeout)
        self.steps = {step}
        self.held: list[Any] = []
        self.other: Any = None
        self.worker = Worker(self.scheduler._store, self.clock, self.scheduler._look, pool=TASKS)

    def make_scheduler(self) -> Scheduler:
        pools = {name: ManualPool(slots=50) for name in (ROUNDS, TASKS)}
        return Scheduler(pools=pools, clock=self.clock, observers=[], keep_runs=10_000, keep_rounds=10_000)

    def define(self, policy: Policy, nodes: tuple[Node, ...], exists: Any) -> tuple[tuple[Node, ...], Flow]:
        """The flow of these nodes. A condition that can never hold is refused, and is replaced by one that can."""
        options: dict[str, Any] = {"overlap": self.overlap, "catch_up": policy.catch_up, "timeout": self.timeout}
        options["max_running"] = policy.max_running if self.overlap == "allow" else None
        options["max_catch_up"] = policy.max_catch_up if policy.catch_up == "all" else None
        options["pause_after_failures"] = policy.pause_after
        try:
            with self.scheduler.flow(
                "it", every(seconds=self.step), params={"who": "flow"}, pool=ROUNDS, exists=exists, **options
            ) as flow:
                made: dict[str, FlowTask[Any]] = {}
                for node in nodes:
                    parents = [made[name] for name in node.parents]
                    inputs = [parent.output.or_else("nothing") for parent in parents]
                    args = (flow.due, {"who": flow.param("who")}, node.name, *inputs)
                    made[node.name] = flow.task(self.work, args=args, pool=TASKS, **options_of(node, parents))
        except DependencyError:
            nodes = tuple(replace(node, run_if="all_done") if node.parents else node for node in nodes)
            return self.define(policy, nodes, exists)
        return nodes, flow

    def work(self, due: Any, params: dict[str, Any], name: str, *inputs: str) -> str:
        made = self.made[current_run().task_id]
        assert (instant_of(due, "due") - self.zero) // S == made.due, f"{name} was given the due of another round"
        assert params == made.params, f"{name} was given {params}, not {made.params}"
        assert made.twin is not None
        return made.twin.work(name, *inputs)

    # Runs

    @precondition(lambda self: self.model.ready)
    @rule()
    def take(self) -> None:
        """A worker comes to a round, and opens it."""
        store, run = self.scheduler._store, self.model.take()
        taken = store.take(self.clock.now(), ROUNDS)
        self.scheduler._look()
        assert (taken is None) == (run is None), f"the store gives {taken}, the model {run}"
        if taken is None or run is None:
            return
        assert (cast(int, taken.due) - self.zero) == run.due * S
        store.finish(taken, self.worker.outcome(taken), self.clock.now())
        self.scheduler._look()
        (made,) = [made for made in self.model.rounds if made.run is run]
        self.bind()
        for task in made.handle.tasks.values():
            self.made[task.id] = made
        self.model.open(made)

    @precondition(lambda self: any(made.twin.model.at("ready") for made in self.model.open_rounds()))
    @rule(times=st.integers(1, 3))
    def start(self, times: int) -> None:
        """A worker comes to a task of a round."""
        for _ in range(times):
            run = self.worker.take()
            if run is None:
                assert not any(made.twin and made.twin.model.at("ready") for made in self.model.rounds)
                return
            made, name = self.made[run.task.id], run.task.id.rpartition("/")[2]
            assert made.twin is not None
            self.held.append((run, made, name, made.twin.begin(name, run, self.worker)))
            self.compare()

    @precondition(lambda self: self.held)
    @rule(number=picks, how=outcomes)
    def finish(self, number: int, how: str) -> None:
        run, made, name, outcome = self.held.pop(number % len(self.held))
        outcome = outcome if how == "succeeds" else OUTCOMES[how]
        self.scheduler._store.finish(run, outcome, self.clock.now())
        self.scheduler._look()
        made.twin.end(name, self.model.now, outcome)
        self.model.acted()

    @precondition(lambda self: self.model.ready or self.model.open_rounds())
    @rule(how=outcomes, rounds=st.integers(0, 1), tasks=st.integers(1, 4))
    def workers_come(self, how: str, rounds: int, tasks: int) -> None:
        for _ in range(rounds if self.model.ready else 0):
            self.take()
            self.compare()
        for _ in range(tasks):
            self.start(1)
            if self.held:
                self.finish(0, how)
                self.compare()

    @precondition(lambda self: self.model.open_rounds())
    @rule(which=picks, again=st.booleans())
    def rounds_go_on_to_their_ends(self, which: int, again: bool) -> None:
        """All runs succeed but one. `again`: what has failed is tried again at once."""
        rounds = self.model.open_rounds()
        for number in range(12):
            self.start(1)
            if self.held:
                self.finish(0, "fails" if number == which else "succeeds")
                self.compare()
        failed = [made for made in rounds if made.is_over and made.run.place == "failed"]
        if failed and again and not (self.model.caught or self.model.chain):
            self.by_hand(Asked({}, failed[0]), failed[0].handle.retry_failed, False)
            self.compare()
            if self.model.ready:
                self.take()

    # Verbs on rounds and their tasks

    @precondition(lambda self: any(not made.is_over for made in self.model.rounds))
    @rule(number=picks)
    def cancel_a_round(self, number: int) -> None:
        living = [made for made in self.model.rounds if not made.is_over and made.run.place in HERE]
        if not living or self.model.caught:
            return  # no occurrence of a plain task can be cancelled: what that makes of a catch-up is not said anywhere
        made = living[number % len(living)]
        answer = str(made.handle.cancel().value)
        if made.twin is None:
            assert answer == "cancelled"
            made.is_over = True
            self.model.drop(made.run, "cancelled", "cancelled")
            self.model.look()
            return
        made.run.stop = True
        expected = made.twin.model.cancel_all()
        assert answer in (expected, "asked"), f"cancel of {made.handle}: {answer}, not {expected}"
        self.model.acted()

    @precondition(lambda self: self.model.now > 5 and not self.model.end)
    @rule()
    def cancel(self) -> None:
        """The flow: no more rounds, and nothing more of those that go on."""
        answer, expected = str(self.flow.cancel().value), self.model.cancel()
        is_over = not self.model.open_rounds()
        assert answer == expected or (is_over and answer == "cancelled"), f"cancel of the flow: {answer}"

    @precondition(lambda self: self.model.open_rounds())
    @rule(number=picks, other=picks)
    def cancel_a_task(self, number: int, other: int) -> None:
        made = self.pick(number, self.model.open_rounds())
        assert made.twin is not None
        name = self.pick(other, list(made.twin.model.parts))
        expected = made.twin.model.cancel(name)
        assert str(made.handle[name].cancel().value) == expected
        self.model.acted()

    @precondition(lambda self: any(made.is_over for made in self.model.rounds))
    @rule(number=picks)
    def retry_failed(self, number: int) -> None:
        over = [made for made in self.model.rounds if made.is_over and made.twin is not None]
        if not over or self.model.caught or self.model.chain:
            return
        made = self.pick(number, over)
        self.by_hand(Asked({}, made), made.handle.retry_failed, made.run.place == "succeeded")

    @precondition(lambda self: not (self.model.caught or self.model.chain))
    @rule(who=st.sampled_from([None, "me", "you"]))
    def run_now(self, who: str | None) -> None:
        params = {} if who is None else {"who": who}
        self.by_hand(Asked(params), lambda: self.flow.run_now(params), False)

    def by_hand(self, asked: Asked, call: Any, refused: bool) -> None:
        if self.model.now in self.model.waiter:
            return  # two of one instant, one by hand: which of them is skipped is not said anywhere
        refused = bool(refused or self.model.run_now(asked))
        try:
            call()
        except ScheduleError:
            assert refused
        else:
            assert not refused, "it was not refused"

    @precondition(lambda self: not self.model.end)
    @rule(nodes=dags())
    def update(self, nodes: tuple[Node, ...]) -> None:
        """The same id, another definition: from the next round on."""
        self.model.nodes, self.flow = self.define(self.model.policy, nodes, "update")

    @precondition(lambda self: not self.model.end)
    @rule(until=st.one_of(st.none(), spans))
    def pause(self, until: int | None) -> None:
        super().pause(None if self.timeout else until)  # as there: which of one instant comes first decides too much

    @rule(catch_up=st.sampled_from(["none", "latest", "all"]))
    def resume(self, catch_up: Any) -> None:
        if catch_up == "all" and (self.model.policy.max_running > 1 or self.model.policy.pause_after):
            catch_up = "latest"  # when one of several catches up is for `test_policy_machine`
        super().resume(catch_up)

    def reschedule(self, n: int) -> None:
        """Not played: `test_policy_machine` does."""

    @staticmethod
    def pick(number: int, several: list[Any]) -> Any:
        return several[number % len(several)]

    # What they show

    def bind(self) -> None:
        """Rounds are listed in the order in which they were made."""
        listed = self.flow.rounds()
        assert len({one.id for one in listed}) == len(listed), f"one id for two rounds: {listed}"
        assert len(listed) == len(self.model.rounds), f"{listed}, not {len(self.model.rounds)} rounds"
        for one, made in zip(listed, self.model.rounds, strict=True):
            made.handle = made.handle or one
            assert made.handle.id == one.id

    @invariant()
    def compare(self) -> None:
        self.bind()
        super().compare()
        for made in self.model.rounds:
            self.compare_round(made)

    def compare_round(self, made: Made) -> None:
        info = made.handle.info
        state = {"held": "pending"}.get(made.run.place, made.run.place)
        assert str(info.state.value) == state, f"{made.handle.id} is {info.state}, not {state}"
        assert info.due == datetime_of(self.zero + made.due * S)  # type: ignore[arg-type]
        assert info.params == made.params, f"{made.handle.id} has {info.params}, not {made.params}"
        if made.twin is None:
            assert not info.tasks
            return
        made.twin.compare(made.handle.tasks)
        names = [task.name for task in info.tasks]
        assert sorted(names) == sorted(made.twin.model.parts)
        for task in info.tasks:
            assert all(names.index(parent) < names.index(task.name) for parent in task.parents), names
        for task in info.tasks:
            part = made.twin.model.parts[task.name]
            assert (task.parents, str(task.run_if.value)) == (part.node.parents, part.node.run_if)
            assert task.task_id == f"{info.id}/{task.name}"

    def teardown(self) -> None:
        if hasattr(self, "worker"):
            for run, _, _, outcome in self.held:
                self.scheduler._store.finish(run, outcome, self.clock.now())
            self.scheduler.close(timeout=0)


def test_a_flow_does_what_the_design_says_whatever_is_done_to_it() -> None:
    """A condition, an overlap, a cancel and an update are each easy; what two of them make of a third is forgotten."""
    run_state_machine_as_test(FlowMachine, settings=several(2))
