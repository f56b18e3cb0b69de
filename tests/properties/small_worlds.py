"""Every small world: up to three tasks, each way in which they may wait for one another, each order of the verbs.

Not a sample: what can go wrong with three tasks and five verbs after they were scheduled, goes wrong here. A world that
was reached before by other verbs is not entered again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product

from tests.properties.oracle import Shadow
from tests.properties.whens import S, When
from tests.properties.world import World
from tickless.states import RunIf
from tickless.stores import Store
from tickless.stores.memory import MemoryStore

Link = tuple[int, int]
Verb = tuple[str, int]
Draft = tuple[When, str, tuple[int, ...]]
"""When, run_if, and which of the tasks before it are its parents."""

VERBS = 5
RUN_IFS = tuple(str(run_if) for run_if in RunIf)
SHAPES: tuple[tuple[Link, ...], ...] = (
    (),  # three strangers
    ((0, 1),),  # one child and a stranger
    ((0, 1), (0, 2)),  # two children of one
    ((0, 2), (1, 2)),  # one child of two
    ((0, 1), (1, 2)),  # a chain
    ((0, 1), (0, 2), (1, 2)),  # a child and its child, which waits for both
)
"""All there are of three tasks, but for the names of the tasks."""


def drafts_of(shape: tuple[Link, ...]) -> Iterator[tuple[Draft, ...]]:
    """The shape with each `run_if` for each child."""
    parents = [tuple(parent for parent, child in shape if child == task) for task in range(3)]
    choices = [RUN_IFS if parents[task] else RUN_IFS[:1] for task in range(3)]
    for run_ifs in product(*choices):
        yield tuple((When(), run_ifs[task], parents[task]) for task in range(3))


def timed_drafts() -> Iterator[tuple[Draft, ...]]:
    """Schedules with one another, and with a child that has one too."""
    every, sliding, later = When("every", S), When("sliding", S), When("after", S)
    first = RUN_IFS[0]
    yield (every, first, ()), (later, first, ())
    yield (sliding, first, ()), (every, first, ())
    for run_if in RUN_IFS:
        yield (later, first, ()), (every, run_if, (0,))
        yield (When(), first, ()), (later, run_if, (0,))


def verbs_of(world: World) -> list[Verb]:
    """What may happen next, and may matter."""
    shadows = world.oracle.shadows
    verbs: list[Verb] = [("cancel", n) for n, shadow in enumerate(shadows) if shadow.place != "ended"]
    for n, shadow in enumerate(shadows):
        if shadow.place == "running":
            verbs += [("succeeds", n), ("fails", n)]
    if world.oracle.at_place("ready"):
        verbs += [("take", 0), ("reject", 0)]
    if world.oracle.at_place("timeline"):
        verbs += [("pass", S), ("pass", S * 5 // 2)]
    return verbs


def play(world: World, verb: Verb) -> None:
    name, number = verb
    if name == "take":
        world.take()
    elif name == "reject":
        world.reject()
    elif name == "cancel":
        world.cancel(world.oracle.shadows[number])
    elif name == "pass":
        world.pass_time(number)
        world.due()
    else:
        world.finish(world.oracle.shadows[number], name)


def schedule(world: World, drafts: tuple[Draft, ...]) -> World:
    shadows: list[Shadow] = []
    for when, run_if, parents in drafts:
        shadows.append(Shadow(when, parents=[shadows[parent] for parent in parents], run_if=run_if))
        world.add(shadows[-1])
    return world


def signature(world: World) -> tuple[object, ...]:
    """Two worlds of one signature have one future."""
    return world.now, *(
        (s.place, s.state, s.reason, s.due, s.unfinished, tuple(s.ends), s.asked_to_stop, s.fated, tuple(s.history))
        for s in world.oracle.shadows
    )


def explore(
    drafts: tuple[Draft, ...],
    make_store: Callable[[], Store],
    verbs_each: int,
    make_world: Callable[[Callable[[], Store]], World] = World,
) -> int:
    """Play every order of so many verbs, each step checked; gives how many steps that took."""
    frontier: list[tuple[tuple[Verb, ...], list[Verb]]] = [((), verbs_of(schedule(make_world(make_store), drafts)))]
    seen: set[tuple[object, ...]] = set()
    steps = 0
    for _ in range(verbs_each):
        reached: list[tuple[tuple[Verb, ...], list[Verb]]] = []
        for path, verbs in frontier:
            for verb in verbs:
                world = replayed(drafts, path, make_store, make_world)
                play(world, verb)
                steps += 1
                if (mark := signature(world)) not in seen:
                    seen.add(mark)
                    reached.append(((*path, verb), verbs_of(world)))
        frontier = reached
    return steps


def replayed(
    drafts: tuple[Draft, ...],
    path: tuple[Verb, ...],
    make_store: Callable[[], Store],
    make_world: Callable[[Callable[[], Store]], World],
) -> World:
    """The world after the verbs of `path`, which were checked when they were played first."""
    world = make_world(make_store)
    with world.unchecked():
        schedule(world, drafts)
        for verb in path:
            play(world, verb)
    return world


def all_small_worlds(make_store: Callable[[], Store] = MemoryStore, verbs_each: int = VERBS) -> int:
    """Explore them all; raises AssertionError when a promise is broken. Gives how many steps that took."""
    worlds = [drafts for shape in SHAPES for drafts in drafts_of(shape)] + list(timed_drafts())
    return sum(explore(drafts, make_store, verbs_each) for drafts in worlds)
