"""Programs around the races of a round: its last member, who cancels it, who tries it again, and a child from outside.

As in `programs.py`, each ends with `world.finish()`; `_finish` looks at every round before.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress

from tests.races.programs import TIMEOUT_US, Program
from tests.races.world import World
from tickless import ScheduleError, State, UnknownTask, current_run, every
from tickless.flow import Flow
from tickless.round import Round
from tickless.rules import Rule

Links = dict[str, tuple[str, ...]]
PAIR: Links = {"a": (), "b": ()}
HOURLY = every(hours=1)
KITE: Links = {"a": (), "b": ("a",), "c": ("a",), "d": ("b", "c")}


class Book:
    """A flow, and what the works of its rounds did: each notes itself under the id of its task."""

    def __init__(
        self, world: World, links: Links, when: Rule | None = None, fails: str = "", run_if: str = "", **options: object
    ) -> None:
        self.world, self.links, self.fails = world, links, fails
        self.ran: Counter[str] = Counter()
        self.began: dict[str, int] = {}
        self.over: dict[str, int] = {}
        self.asked: set[str] = set()
        """What was asked to stop before its work began: a worker had it when its round was cancelled."""
        self.lasts_us = 0
        """How long a work takes, if nobody asks it to stop."""
        self.heals = False
        """Whether what fails has been put right."""
        with world.scheduler.flow("f", when, **options) as flow:  # type: ignore[arg-type]
            for name, parents in links.items():
                more = {"after_tasks": parents, "run_if": run_if or "all_succeeded"} if parents else {}
                flow.task(self.work, args=(name,), name=name, **more)  # type: ignore[arg-type]
        self.flow: Flow = flow

    def work(self, name: str) -> None:
        id = current_run().task_id
        if current_run().stop_requested:
            self.asked.add(id)
        self.ran[id] += 1
        self.began[id] = self.world.threads.read_clock()
        self.world.threads.pause()
        if self.lasts_us:
            current_run().stop_requested.wait(self.lasts_us / 1e6)
        self.over[id] = self.world.threads.read_clock()
        if name in self.fails and not self.heals:
            raise ValueError(name)

    def finish(self) -> None:
        """Wait until all is quiet; then every round has ended as its tasks say, each of which ran once or never."""
        world = self.world
        world.join()
        assert world.scheduler.wait()
        for one in self.flow.rounds():
            info = one.info
            assert info.state.terminal, f"{one!r} is {info.state}"
            states = [task.state for task in info.tasks]
            assert all(state.terminal for state in states), f"{one!r} is {info.state} with {states}"
            for task in info.tasks:
                ran = int(task.state in (State.SUCCEEDED, State.FAILED) and task.reason != "copied")
                assert self.ran[task.task_id] == ran, f"{task.task_id} is {task.state}, ran {self.ran[task.task_id]}"
                for parent in task.parents if ran and task.run_if != "any_succeeded" else ():
                    of = f"{info.id}/{parent}"
                    assert of not in self.over or self.over[of] <= self.began[task.task_id], (
                        f"{task.task_id} came early"
                    )
            if info.reason != "timed_out" and states:
                worst = next((s for s in (State.FAILED, State.CANCELLED) if s in states), State.SUCCEEDED)
                is_stopped = State.CANCELLED in states and info.state is State.CANCELLED
                assert info.state is worst or is_stopped, f"{one!r} is {info.state} of {states}"
        listed = {task.id for task in world.scheduler.tasks()}
        kept = {task.task_id for one in self.flow.rounds() for task in one.info.tasks} if "f" in listed else set()
        assert {id for id in listed if "@" in id} == kept, f"tasks {listed}, and those of the rounds are {kept}"
        world.finish()

    def end(self, one: Round) -> None:
        """The same, of a flow that would go on after this round."""
        assert one.wait()
        self.flow.cancel()
        self.finish()

    def a_round(self) -> Round:
        """By hand, since a fire is made into a round by the dispatcher, some time."""
        self.flow.run_now()
        return self.flow.rounds()[-1]


def ending_together(world: World) -> None:
    """Two members end at once as the last of the round: one of them ends it, once, and who waits for it is woken."""
    world.scheduler.start()
    book = Book(world, PAIR)
    world.thread(book.flow.wait)
    assert book.flow.wait()
    (run,) = book.flow.runs()
    assert run.state is State.SUCCEEDED
    book.finish()


def spreading(world: World) -> None:
    """A kite on two workers, with a condition: the last is decided once, by whichever parent ends last."""
    book = Book(world, KITE, fails=world.rng.choice(("", "b", "bc", "a")), run_if=world.rng.choice(CONDITIONS))
    world.scheduler.start()
    book.finish()


CONDITIONS = ("all_succeeded", "all_done", "any_succeeded", "none_failed")


def late_children(world: World) -> None:
    """A child from outside is scheduled on a task of a round while that ends, and the round with it."""
    book = Book(world, PAIR, HOURLY)
    world.scheduler.start()
    one = book.a_round()
    late = []
    for _ in range(3):
        for parent in one.tasks.values():
            late.append((world.task([parent], run_if="all_succeeded"), parent.id))
        world.threads.pause()
    assert one.wait()
    for child, of in late:
        assert child.wait()
        assert (child.state, world.ran[child.name]) == (State.SUCCEEDED, 1)
        assert book.over[of] <= world.began[child.name], f"{child!r} began before {of} had ended"
    book.end(one)


def stopping_a_round(world: World) -> None:
    """A round is cancelled while its last member ends, or while a worker opens it."""
    fails, run_if = world.rng.choice(("", "a", "d")), world.rng.choice(("", "all_done"))
    book = Book(world, KITE, HOURLY, fails=fails, run_if=run_if)
    world.scheduler.start()
    one = book.a_round()
    world.thread(one.cancel)
    if world.rng.random() < 0.5:
        world.threads.pause()
        one.cancel()
    world.join()
    began = set(book.began)
    book.end(one)
    late = book.began.keys() - began
    assert late <= book.asked, f"{late - book.asked} began after the cancel had returned, and nobody asked it to stop"


def stopping_the_flow(world: World) -> None:
    """The flow is cancelled between two of its rounds, or in one."""
    book = Book(world, PAIR, every(seconds=0.001), overlap=world.rng.choice(("skip", "queue", "replace")))
    world.scheduler.start()
    world.thread(book.flow.cancel)
    for one in book.flow.rounds():
        one.cancel()
    world.join()
    book.finish()


def asking_for_rounds(world: World) -> None:
    """Rounds are asked for from two threads while one ends: each call is answered by a round, or by a skip."""
    book = Book(world, {"a": ()}, HOURLY, overlap=world.rng.choice(("skip", "queue", "replace", "allow")))
    world.scheduler.start()
    for _ in range(2):
        world.thread(book.flow.run_now)
    book.flow.run_now()
    world.join()
    world.thread(book.flow.cancel)
    book.finish()


def trying_again(world: World) -> None:
    """`retry_failed` comes while the round ends: it is refused, or copies what has succeeded and runs the rest."""
    book = Book(world, KITE, HOURLY, fails="bc", run_if=world.rng.choice(("", "all_done")))
    one = book.a_round()
    world.scheduler.start()

    def again() -> None:
        with suppress(ScheduleError):
            one.retry_failed()

    world.thread(again)
    assert one.wait()
    book.heals = True
    with suppress(ScheduleError):  # it was first, and its round goes on
        one.retry_failed()
    world.join()
    for other in book.flow.rounds():
        other.wait()
        if other.retry_of is not None:
            assert other["a"].reason == "copied"
            assert other["a"].id not in book.ran
    book.flow.cancel()
    book.finish()


def timing_out_a_round(world: World) -> None:
    """A round's time is up while its last member ends: the one or the other, and nothing starts afterwards."""
    fails, run_if = world.rng.choice(("", "a")), world.rng.choice(("", "all_done"))
    book = Book(world, KITE, HOURLY, fails=fails, run_if=run_if, timeout=TIMEOUT_US / 1e6)
    book.lasts_us = TIMEOUT_US // 3 + world.rng.randrange(-60, 20)  # of three that come one after the other
    world.scheduler.start()
    one = book.a_round()
    assert one.wait()
    assert one.state in (State.SUCCEEDED, State.FAILED), f"{one!r} is {one.state}"
    book.end(one)


def forgetting_rounds(world: World) -> None:
    """Rounds are forgotten as they end, while somebody looks at them: each is there as a whole, or not at all."""
    book = Book(world, PAIR, every(seconds=0.001), max_runs=3)

    def look() -> None:
        for one in book.flow.rounds():
            with suppress(UnknownTask):
                assert len(one.info.tasks) in (0, 2)
                assert len(one.tasks) in (0, 2)

    world.scheduler.start()
    world.thread(look)
    look()
    assert book.flow.wait()
    book.finish()


ABOUT_FLOWS: tuple[Program, ...] = (
    ending_together,
    spreading,
    late_children,
    stopping_a_round,
    stopping_the_flow,
    asking_for_rounds,
    trying_again,
    timing_out_a_round,
    forgetting_rounds,
)
