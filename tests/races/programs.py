"""Small programs, each around one race. Every one ends with `world.finish()`, which waits for quiet and checks."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from tests.races.world import World
from tickless import Reason, ScheduleError, State, Task, after, current_run, every
from tickless.options import OnTimeout

Program = Callable[[World], None]
TIMEOUT_US = 1_000


def linking(world: World) -> None:
    """A child is linked while its parent ends without the lock. Missed by both: the child waits for ever."""
    world.scheduler.start()
    parent = world.task()
    child = world.task([parent])
    world.task([child, parent])
    world.finish()


def waiting(world: World) -> None:
    """A waiter is registered while the task ends. Missed by both: it sleeps for ever."""
    world.scheduler.start()
    first = world.task()
    world.thread(lambda: first.wait())
    second = world.task()
    assert second.wait()
    assert second.state.terminal
    world.finish()


def forgetting(world: World) -> None:
    """A task is forgotten as soon as it has ended, while a child or a waiter comes: neither is forgotten with it."""
    world.scheduler.start()
    for _ in range(2):
        parent = world.task()
        world.thread(world.scheduler.tasks)
        world.thread(parent.wait)
        world.task([parent])
        world.scheduler.tasks()
    world.finish()


def idling(world: World) -> None:
    """The last task ends while another is added, and somebody begins to wait for quiet: not woken before its end."""
    world.scheduler.start()
    world.thread(world.scheduler.wait)
    for _ in range(3):
        world.task()
        last = world.task()
        world.scheduler.wait()
        state = last.state
        assert state.terminal, f"wait() returned while {last!r} was {state}"
    world.finish()


def finding(world: World) -> None:
    """Tasks end while somebody looks them up: each is live or listed, never neither, and is shown once."""
    registry = world.scheduler._store.machine.registry
    registry.keep = registry.trim_above = 10
    world.scheduler.start()
    for _ in range(3):
        number = world.task().id
        world.thread(lambda number=number: world.scheduler.get(number) and None)  # type: ignore[misc]
    ids = [task.id for task in world.scheduler.tasks()]
    assert len(set(ids)) == len(ids) == 3, f"3 tasks, shown as {ids}"
    world.finish()


def updating(world: World) -> None:
    """A one-shot ends while an update takes its id: the new one gets a life of its own, and runs."""
    world.scheduler.start()
    old = world.task(id="x")
    value = world.scheduler.schedule(object, id="y")
    new, other = (world.task(id=id, exists="update") for id in "xy")
    for task in (old, value, new, other):
        assert task.wait()
        assert task.state.terminal, f"{task!r} is {task.state}"
    assert new is old or old.state.terminal
    world.finish()


def stopping(world: World) -> None:
    """The scheduler is closed with `cancel=True` while a worker takes a task: its body is asked to stop."""
    world.scheduler.start()
    missed: list[str] = []

    def body() -> None:
        if not current_run().stop_requested.wait(3_000):
            missed.append("never asked to stop")

    world.scheduler.schedule(body)
    world.scheduler.close(cancel=True)
    assert not missed, missed
    world.finish()


def showing(world: World) -> None:
    """A task is shown while it is taken and ends: what is shown of it and of its run is of one moment."""
    registry = world.scheduler._store.machine.registry
    registry.keep = registry.trim_above = 10
    world.scheduler.start()
    task = world.task()
    for _ in range(3):
        info = task.info
        run = info.last_run
        if run is not None:
            assert info.state is run.state, f"{info.state}, and its run {run.state}"
            assert run.state.terminal == (run.finished_us is not None), f"{run.state}, finished {run.finished_us}"
            assert (run.state == "ready") == (run.started_us is None), f"{run.state}, started {run.started_us}"
    world.finish()


def settling(world: World) -> None:
    """Two parents end on two workers at once, while others hold the lock: their child is released exactly once."""
    world.scheduler.start()
    parents = [world.task(fails=world.rng.random() < 0.2) for _ in range(2)]
    middle = world.task(parents)
    world.task([middle, *parents], run_if="all_done", priority=1)
    world.thread(lambda: world.scheduler.tasks())
    world.thread(lambda: world.cancel(world.rng.choice(parents)) if world.rng.random() < 0.5 else middle.state)
    world.join()
    for task in world.tasks[-1:]:
        assert task.wait()
    world.finish()


def claiming(world: World) -> None:
    """What is ready is taken and cancelled at once, from several threads: exactly one wins, and lanes are pruned."""
    tasks = [world.task(priority=world.rng.randrange(2)) for _ in range(4)]
    world.scheduler.start()
    for _ in range(2):
        chosen = world.rng.sample(tasks, 3)
        world.thread(lambda chosen=chosen: [world.cancel(task) for task in chosen] and None)  # type: ignore[misc]
    world.finish()


def leaving(world: World) -> None:
    """The last drainer leaves while a run becomes ready. Missed by both: it is ready, and nobody comes."""
    world.scheduler.start()
    world.thread(lambda: world.task())
    world.task()
    world.task([world.task()])
    world.finish()


def handing(world: World) -> None:
    """A worker hands its finish to the dispatcher, which holds the lock and is about to sleep."""
    world.scheduler.start()
    for _ in range(2):
        parent = world.task(when=world.soon(150))
        world.task([parent])
    parent = world.task()
    world.task([world.task([parent])]).wait()
    world.finish()


def ringing(world: World) -> None:
    """An earlier entry comes while the dispatcher looks and goes to sleep: a ring between the two is not lost."""
    world.scheduler.start()
    world.task(when=world.soon(2000))
    world.thread(lambda: world.task(when=world.soon()))
    world.task(when=world.soon()).wait()
    world.finish()


def closing(world: World) -> None:
    """The scheduler is closed while runs end, children become ready and others wait."""
    parent = world.task()
    world.task([parent])
    world.task(when=world.soon())
    world.scheduler.start()
    world.thread(lambda: parent.wait())
    if world.rng.random() < 0.5:
        world.thread(lambda: world.cancel(parent))
    if world.rng.random() < 0.5:
        world.thread(world.scheduler.close)
    world.scheduler.close()
    world.finish()


def recurring(world: World) -> None:
    """A recurring task is cancelled while it fires, runs and is placed anew."""
    world.scheduler.start()
    beat = world.task(when=every(seconds=0.001))
    world.task(when=world.soon(3000)).wait()
    world.thread(lambda: world.cancel(beat))
    world.cancel(beat)
    beat.wait()
    world.finish()


def rearming(world: World) -> None:
    """A recurring task is placed anew by whoever holds the lock when its run ends; and the dispatcher hears of it."""
    world.scheduler.start()
    for _ in range(2):
        world.task(when=after(0.001))
    beat = world.task(when=every(seconds=0.001), times=2)
    world.task(when=after(0.001))
    # Nothing else is due later: a second fire that the dispatcher has not heard of never comes.
    beat.wait()
    world.finish()


def timing_out(world: World) -> None:
    """A run ends at the very moment at which its time is up: one of the two is its end, and nothing is kept of it."""
    scheduler, rng = world.scheduler, world.rng
    scheduler.start()
    on_timeout: OnTimeout = rng.choice(("keep", "release"))
    spans = [TIMEOUT_US + rng.randrange(-60, 30) for _ in range(2)]
    tasks = [
        scheduler.schedule(
            lambda us=us: current_run().stop_requested.wait(us / 1e6) and None,
            timeout=TIMEOUT_US / 1e6,
            on_timeout=on_timeout,
            limit=rng.choice((None, "one")),
        )
        for us in spans
    ]
    world.thread(scheduler.tasks)
    children = [world.task([task], run_if="all_done") for task in tasks]
    for task, child in zip(tasks, children, strict=True):
        assert task.wait()
        assert child.wait()
    while scheduler.pools()["default"].zombies:
        scheduler.schedule(int, after(0.001)).wait()
    for task in tasks:
        run, record = task.runs()[0], task._run
        assert record is not None
        assert record.extra is not None
        took_us = (record.extra.returned or 0) - (run.started_us or 0)
        late = run.state is State.FAILED
        assert run.late_result == ("returned" if late else None), f"{run.state}, and late: {run.late_result}"
        assert run.reason is (Reason.TIMED_OUT if late else None)
        assert not late or took_us >= TIMEOUT_US, f"timed out after {took_us} us"
    assert scheduler.limits()["one"].running == 0
    world.finish()


def pausing(world: World) -> None:
    """What is ready is paused while workers take it: it is held or it runs, never both; and it is there afterwards."""
    scheduler, rng = world.scheduler, world.rng
    tasks = [world.task(tags=rng.choice(((), ("t",))), priority=rng.randrange(2)) for _ in range(3)]
    scheduler.start()
    world.thread(lambda: scheduler.pause(tasks[0]))
    world.thread(lambda: scheduler.pause(tag="t"))
    world.task()
    scheduler.pause()
    begun = {task.name for task in world.tasks if task.state is not State.PENDING}
    late = world.task()
    world.join()
    assert scheduler.pause() == 0
    for task in (*tasks, late):
        assert task.name in begun or task.state is State.PENDING, f"{task!r} is {task.state}, and was held before"
    for one in (tasks[0], ...):
        scheduler.resume(one)
    scheduler.resume(tag="t")
    world.finish()


def resuming(world: World) -> None:
    """What is held is resumed, and cancelled at once: it runs, or never."""
    scheduler, rng = world.scheduler, world.rng
    scheduler.start()
    scheduler.pause()
    tasks = [world.task(when=rng.choice((None, world.soon()))) for _ in range(3)]
    beat = world.task(when=every(seconds=0.001), times=1)
    world.thread(lambda: [world.cancel(task) for task in tasks[:2]] and None)
    world.thread(lambda: scheduler.pause(tasks[2]) and None)
    world.thread(scheduler.resume)
    world.join()
    scheduler.resume(tasks[2])
    assert beat.wait()
    world.finish()


def handing_on(world: World) -> None:
    """Permits are handed on while those who wait for them, and those who have them reserved, are cancelled."""
    scheduler, rng = world.scheduler, world.rng
    scheduler.start()
    going: list[int] = []

    def alone() -> None:
        going.append(1)
        assert len(going) == 1, "two hold the one permit"
        world.threads.pause()
        going.pop()

    counted = [scheduler.schedule(alone, limit="one") for _ in range(2)]
    tasks = [world.task(limit="one", priority=rng.randrange(2)) for _ in range(3)]
    world.thread(lambda: [world.cancel(task) for task in rng.sample(tasks, 2)] and None)
    world.thread(lambda: (scheduler.pause(tasks[0]), scheduler.resume(tasks[0])))
    world.join()
    assert all(task.wait() for task in (*counted, *tasks))
    assert [task.state for task in counted] == [State.SUCCEEDED] * 2, [task.info for task in counted]
    limit = scheduler.limits()["one"]
    assert (limit.running, limit.waiting) == (0, 0), limit
    world.finish()


def asking(world: World) -> None:
    """`run_now` comes while the task surfaces, is taken, or ends: a one-shot runs once, all the same."""
    scheduler = world.scheduler
    scheduler.start()
    once = [world.task(when=world.soon()) for _ in range(2)]
    beat = world.task(when=every(seconds=0.001), times=3)

    def ask(task: Task[object]) -> None:
        with suppress(ScheduleError):  # it has ended
            assert task.run_now().task_id == task.id

    for task in (*once, beat):
        world.thread(lambda task=task: ask(task))  # type: ignore[misc]
    ask(once[0])
    assert beat.wait()
    world.finish()


def changing(world: World) -> None:
    """An update comes while the run ends: it counts from the next run on, and no run is counted twice or lost."""
    scheduler = world.scheduler
    scheduler.start()
    beat = world.task(when=every(seconds=0.001), max_runs=2)
    once = world.task(when=world.soon())

    def change(task: Task[object], priority: int) -> None:
        with suppress(ScheduleError):  # it runs for the only time, or has ended
            task.update(priority=priority)

    for task in (beat, once):
        world.thread(lambda task=task: change(task, 1))  # type: ignore[misc]
        world.thread(lambda task=task: change(task, 2))  # type: ignore[misc]
    scheduler.schedule(lambda: change(beat, 9), after(0.001)).wait()
    assert beat.wait()
    assert world.ran[beat.name] == 2, f"it ran {world.ran[beat.name]} times, of at most 2"
    world.finish()


def anything(world: World) -> None:
    """Whatever the seed says: tasks, children, cancels, waits and looks, from three threads."""
    if world.rng.random() < 0.8:
        world.scheduler.start()
    for _ in range(2):
        world.thread(lambda: _act(world, 4))
    _act(world, 4)
    world.scheduler.start()
    world.finish()


def _act(world: World, steps: int) -> None:
    rng = world.rng
    for _ in range(steps):
        tasks: list[Task[object]] = list(world.tasks)
        match rng.randrange(7):
            case 0 | 1:
                world.task(priority=rng.randrange(2), fails=rng.random() < 0.2)
            case 2 | 3:
                world.task(rng.sample(tasks, min(len(tasks), rng.randrange(3))))
            case 4:
                world.task(when=world.soon())
            case 5 if tasks:
                world.cancel(rng.choice(tasks))
            case 6 if tasks and world.scheduler.phase == "running":
                rng.choice(tasks).wait()


PROGRAMS: tuple[Program, ...] = (
    linking,
    waiting,
    forgetting,
    finding,
    updating,
    stopping,
    showing,
    idling,
    settling,
    claiming,
    leaving,
    handing,
    ringing,
    closing,
    recurring,
    rearming,
    anything,
)
ABOUT_POLICIES: tuple[Program, ...] = (
    timing_out,
    pausing,
    resuming,
    handing_on,
    asking,
    changing,
)
