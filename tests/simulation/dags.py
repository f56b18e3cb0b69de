"""Random DAGs, played act by act beside the model of `tests/properties/flow_model.py`; all is compared after each act.

`python -m tests.simulation.dags SEED` plays one again and writes down its acts.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, cast

from tests.properties.flow_model import LIVE, Node, Part, Round
from tests.properties.world import OUTCOMES
from tickless import DependencyError, Retry, Rule, Scheduler, Task, TicklessError, after, every
from tickless.core.invariants import check
from tickless.flow import Flow, FlowTask
from tickless.records import Outcome, TaskInfo
from tickless.states import RunIf, State
from tickless.testing import FakeClock, ManualPool
from tickless.worker import Worker

S = 1_000_000
LARGEST = 200
RUN_IFS = [str(run_if) for run_if in RunIf]


@dataclass(frozen=True)
class Dag:
    """A definition, and what becomes of it. `acts`: before the n-th step, cancel this task; "*" is the whole round."""

    seed: int
    nodes: tuple[Node, ...]
    slots: int = 1
    acts: Mapping[int, str] = field(default_factory=dict)
    hurry: float = 0.7
    """How often a run is started, where one may end as well."""

    def __str__(self) -> str:
        lines = [f"seed {self.seed}: {self.slots} slots, hurry {self.hurry:.2f}, acts {dict(self.acts)}"]
        return "\n  ".join(lines + [str(node) for node in self.nodes])


def drawn(seed: int) -> Dag:
    """The DAG of that number: most are small, one in two hundred has `LARGEST` tasks."""
    rng = Random(f"dag {seed}")
    size = LARGEST if seed % 200 == 99 else rng.choice((3, 5, 8, 12, 20))
    most, near = rng.choice((1, 2, 4)), rng.choice((2, 5, size))
    fails, stops, plain = rng.choice((0.0, 0.1, 0.4)), rng.choice((0.0, 0.0, 0.1)), rng.random()
    nodes: list[Node] = []
    for number in range(size):
        there = [node.name for node in nodes[-near:]]
        parents = rng.sample(there, min(len(there), rng.randint(0 if rng.random() < 0.3 else 1, most)))
        ends = rng.choices(("fails", "stops", "succeeds"), (fails, stops, 1 - fails - stops), k=rng.randint(1, 3))
        nodes.append(
            Node(
                f"n{number}",
                tuple(parents),
                rng.choice(RUN_IFS) if parents and rng.random() > plain / 2 else RUN_IFS[0],
                attempts=rng.choice((1, 1, 2, 3)),
                delay=rng.choice((0, 1, 5)),
                priority=rng.choice((0, 0, 0, 1)) if size < LARGEST else 0,  # every 64th take is a lower one's turn
                ends=tuple(ends),
                spans=tuple(rng.randint(0, 3) for _ in range(2)),
            )
        )
    acts = {rng.randrange(2 * size): rng.choice(nodes).name for _ in range(rng.choice((0, 0, 1, 3)))}
    if rng.random() < 0.15:
        acts[rng.randrange(2 * size)] = "*"
    return Dag(seed, that_can_hold(nodes), rng.choice((1, 2, 4, 16)), acts, rng.choice((0.3, 0.7, 1.0)))


def that_can_hold(nodes: Iterable[Node]) -> tuple[Node, ...]:
    """The same, without the conditions that a flow is refused for. `test_flow_conditions.py` is about those."""
    nodes = list(nodes)
    while True:
        try:
            defined(Scheduler(ManualPool(), clock=FakeClock(), observers=[]), "dag", after(1), nodes, str)
        except DependencyError as error:
            (place,) = [place for place, node in enumerate(nodes) if f"{node.name!r} can never run" in str(error)]
            nodes[place] = replace(nodes[place], run_if="all_done")
        else:
            return tuple(nodes)


class Built:
    """A round as the library knows it."""

    tasks: dict[str, Task[Any]]

    def cancel(self) -> None:
        """Cancel all of it."""
        raise NotImplementedError

    def state(self) -> str | None:
        """The round's own; None where nobody keeps one."""
        raise NotImplementedError


class Plain(Built):
    """The same tasks without a flow: what a round must do to them is a matter of parents alone."""

    def __init__(self, scheduler: Scheduler, nodes: Iterable[Node], work: Callable[..., str]) -> None:
        self.tasks = {}
        for node in nodes:
            parents = [self.tasks[name] for name in node.parents]
            inputs = [parent.output.or_else("nothing") for parent in parents]
            self.tasks[node.name] = scheduler.schedule(work, args=(node.name, *inputs), **options_of(node, parents))

    def cancel(self) -> None:
        for task in reversed(self.tasks.values()):  # the last first: no condition lets one go in between
            task.cancel()

    def state(self) -> None:
        return None


class OfAFlow(Built):
    """A round of a flow that has just been opened."""

    def __init__(self, scheduler: Scheduler, nodes: Iterable[Node], work: Callable[..., str]) -> None:
        self.scheduler = scheduler
        self.flow = defined(scheduler, "dag", every(days=1_000), nodes, work)
        self.flow.run_now()
        self._opened()

    def _opened(self) -> None:
        self.round = self.flow.rounds()[-1]
        open_round(self.scheduler)
        self.tasks = self.round.tasks

    def cancel(self) -> None:
        self.round.cancel()

    def state(self) -> str:
        return str(self.flow.runs(1)[-1].state.value)

    def try_again(self) -> None:
        """From here on it is the round that tries again what has failed."""
        self.round.retry_failed()
        self._opened()


def defined(
    scheduler: Scheduler, id: str, when: Rule | None, nodes: Iterable[Node], work: Callable[..., str], **options: Any
) -> Flow:
    """The definition as a flow."""
    with scheduler.flow(id, when, **options) as flow:
        made: dict[str, FlowTask[Any]] = {}
        for node in nodes:
            parents = [made[name] for name in node.parents]
            inputs = [parent.output.or_else("nothing") for parent in parents]
            made[node.name] = flow.task(work, args=(node.name, *inputs), **options_of(node, parents))
    return flow


def open_round(scheduler: Scheduler) -> None:
    """A worker comes to a round, and opens it."""
    store, now = scheduler._store, scheduler._now()
    worker = Worker(store, scheduler._clock, scheduler._look)
    run = worker.take()
    assert run is not None, "no round is ready"
    store.finish(run, worker.outcome(run), now)
    scheduler._look()


def options_of(node: Node, parents: list[Any]) -> dict[str, Any]:
    options: dict[str, Any] = {"name": node.name, "priority": node.priority}
    if parents:
        options |= {"after_tasks": parents, "run_if": node.run_if}
    if node.attempts > 1:
        options["retry"] = Retry(node.attempts, delay=node.delay, factor=1.0)
    return options


Build = type[Plain] | type[OfAFlow]


class Twin:
    """One round of the library, and its model. `word` is in whatever its works return: no other round's has it."""

    def __init__(self, nodes: Iterable[Node], word: str = "", copied: Mapping[str, str] | None = None) -> None:
        self.values: dict[str, str] = dict(copied or {})
        """name -> what the task's work returned, of those that have succeeded."""
        self.model = Round(nodes, self.values)
        self.word = word
        self.final: set[str] = set()
        """Those that were seen to have ended as they should."""

    def work(self, name: str, *inputs: str) -> str:
        """What each task does."""
        part = self.model.parts[name]
        expected = tuple(self.values.get(parent, "nothing") for parent in part.node.parents)
        assert inputs == expected, f"{name} was given {inputs}, not {expected}"
        return f"{self.word}{name}#{part.tries}"

    def begin(self, name: str, run: Any, worker: Worker) -> Outcome:
        """A worker has taken a run of this task, and calls its work. Gives what will be told of its end."""
        first = self.model.next_to_run()
        assert name in first, f"{name} starts, and not one of {first}"
        self.model.start(name)
        with worker.context() as (set_run, seat):
            set_run(run)
            seat[0] = run
            outcome = worker.outcome(run)
        if outcome.state is not State.SUCCEEDED:
            assert isinstance(outcome.value, BaseException)
            raise outcome.value
        part = self.model.parts[name]
        how = last_of(part.node.ends, part.tries)
        return outcome if how == "succeeds" else OUTCOMES[how]

    def end(self, name: str, now: int, outcome: Outcome) -> None:
        how = next((how for how, one in OUTCOMES.items() if one is outcome), "succeeds")
        if how == "succeeds":
            self.values[name] = outcome.value
        self.model.end(name, now, how)

    def compare(self, tasks: Mapping[str, Task[Any]]) -> None:
        for name, part in self.model.parts.items():
            if name not in self.final:
                self._compare(name, part, tasks[name].info)

    def _compare(self, name: str, part: Part, info: TaskInfo) -> None:
        state, reason = str(info.state.value), None if info.reason is None else str(info.reason.value)
        assert state == part.state, f"{name} is {state} ({reason}), not {part.state} ({part.reason})"
        if part.state not in LIVE:
            assert reason == part.reason, f"{name} is {state} by {reason}, not by {part.reason}"
            self.final.add(name)


class Beside:
    """A round and its model, alone. Runs are taken from the store, and given back when the test says so."""

    def __init__(
        self,
        nodes: Iterable[Node],
        build: Build,
        scheduler: Scheduler | None = None,
        check: Callable[[Any], None] = check,
    ) -> None:
        self.check = check
        self.clock = FakeClock() if scheduler is None else cast(FakeClock, scheduler._clock)
        self.scheduler = scheduler or Scheduler(ManualPool(1), clock=self.clock, observers=[])
        self.scheduler.start()
        self.zero = self.clock.now()
        self.worker = Worker(self.scheduler._store, self.clock, self.scheduler._look)
        self.going: dict[str, tuple[Any, Outcome, int]] = {}
        """name -> its run, what its work came to, and when that will be told."""
        self.twin = Twin(nodes)
        self.model = self.twin.model
        self.models = [self.model]
        """Of the round, and of the one that tried it again."""
        nodes = [part.node for part in self.model.parts.values()]
        self.built = build(self.scheduler, nodes, lambda *given: self.twin.work(*given))
        self.names = {task.id: name for name, task in self.built.tasks.items()}
        self.story: list[str] = []
        self.audit()

    def now(self) -> int:
        return (self.clock.now() - self.zero) // S

    # Acts

    def start(self) -> str | None:
        """A worker comes."""
        run = self.worker.take()
        if run is None:
            assert not self.model.at("ready"), f"{self.model.at('ready')} are ready, and nobody gets them"
            return None
        name = self.names[run.task.id]
        outcome, part = self.twin.begin(name, run, self.worker), self.model.parts[name]
        self.going[name] = run, outcome, self.now() + last_of(part.node.spans, part.tries)
        self.done(f"start {name}")
        return name

    def end(self, name: str) -> None:
        run, outcome, _ = self.going.pop(name)
        self.scheduler._store.finish(run, outcome, self.clock.now())
        self.scheduler._look()
        self.twin.end(name, self.now(), outcome)
        self.done(f"{name} has {outcome.state}")

    def cancel(self, name: str) -> None:
        answer, expected = str(self.built.tasks[name].cancel().value), self.model.cancel(name)
        assert answer == expected, f"cancel of {name}: {answer}, not {expected}"
        self.done(f"cancel {name}: {answer}")

    def cancel_all(self) -> None:
        self.built.cancel()
        self.model.cancel_all()
        self.done("cancel all")

    def pass_until(self, at: int) -> None:
        while (retry := self.model.next_retry()) is not None and retry <= at:
            self.model.time_is(retry)
        if at > self.now():
            self.clock.advance(at - self.now())
            self.done(f"it is {at}")

    def try_again(self) -> None:
        """Another round, which copies what has succeeded."""
        assert isinstance(self.built, OfAFlow)
        nodes = [part.node for part in self.model.parts.values()]
        self.built.try_again()
        self.twin = Twin(nodes, "again ", those_to_copy(nodes, self.twin.values))
        self.model = self.twin.model
        self.models.append(self.model)
        self.names = {task.id: name for name, task in self.built.tasks.items()}
        self.done("try again")

    # Comparing

    def done(self, what: str) -> None:
        self.story.append(f"{self.now():>4} {what}")
        self.audit()

    def audit(self) -> None:
        self.check(self.scheduler._store)
        self.twin.compare(self.built.tasks)
        state = self.built.state()
        assert state in (None, self.model.state), f"the round is {state}, not {self.model.state}"

    def finish(self) -> None:
        """All has ended: nobody has anything to do, and what had ended has not changed since."""
        assert self.start() is None
        self.twin.final.clear()
        self.audit()


def those_to_copy(nodes: Iterable[Node], values: Mapping[str, str]) -> dict[str, str]:
    """What has succeeded, and comes after nothing that runs again."""
    copied: dict[str, str] = {}
    for node in nodes:
        if node.name in values and copied.keys() >= set(node.parents):
            copied[node.name] = values[node.name]
    return copied


def last_of(values: tuple[Any, ...], tries: int) -> Any:
    return values[min(tries, len(values)) - 1]


def play(dag: Dag, build: Build | Callable[[], Beside]) -> Beside:
    """The round to its end. Raises AssertionError, with all that is needed to see it again."""
    rng, step, beside = Random(f"play {dag.seed}"), 0, None
    try:
        beside = Beside(dag.nodes, build) if isinstance(build, type) else build()
        while beside.model.state == "running":
            if step in dag.acts:
                act = dag.acts[step]
                beside.cancel_all() if act == "*" else beside.cancel(act)
            else:
                step_on(beside, dag, rng)
            step += 1
        beside.finish()
        if isinstance(beside.built, OfAFlow) and beside.model.state != "succeeded" and len(dag.nodes) < LARGEST:
            beside.try_again()
            while beside.model.state == "running":
                step_on(beside, dag, rng)
            beside.finish()
    except (AssertionError, TicklessError) as error:
        acts = "\n  ".join(beside.story[-30:]) if beside else ""
        error.add_note(f"{dag}\n  {acts}\npython -m tests.simulation.dags {dag.seed}")
        raise
    return beside


def step_on(beside: Beside, dag: Dag, rng: Random) -> None:
    going, model = beside.going, beside.model
    if model.at("ready") and len(going) < dag.slots and (not going or rng.random() < dag.hurry):
        beside.start()
    elif going:
        at = min(at for _, _, at in going.values())
        beside.pass_until(max(at, beside.now()))
        beside.end(rng.choice([name for name, (_, _, end) in going.items() if end == at]))
    else:
        retry = model.next_retry()
        assert retry is not None, f"nothing goes on, and {model.at(*LIVE)} have not ended"
        beside.pass_until(retry)


if __name__ == "__main__":
    sys.stdout.write("\n".join(["", *play(drawn(int(sys.argv[1])), OfAFlow).story, ""]))
