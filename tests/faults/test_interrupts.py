"""A Ctrl-C in the middle of a call: it comes out as KeyboardInterrupt, and the next call does not wait for a lock.

In life: somebody stops a notebook cell that schedules a million tasks, and then asks what was scheduled.

A signal is made to arrive before the n-th opcode of ours, for n = 1, 2, ... until a call meets none. Python looks for
signals at some opcodes only, so it comes out where a real one would.
"""

from __future__ import annotations

import contextvars
import gc
import signal
import sys
from _thread import interrupt_main
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from operator import methodcaller
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import tickless
from tickless import Call, Scheduler, after, every
from tickless.testing import FakeClock, ManualPool

HOME = Path(tickless.__file__).parent
TRACED = tuple(str(HOME / part) for part in ("core", "stores", "scheduler.py", "task.py", "worker.py", "pools"))
LIMIT = 20_000


class _Signal:
    """`arrives` has a SIGINT pending, by a look at an attribute: unlike a call, that does not look for signals."""

    send = staticmethod(interrupt_main)
    arrives = property(methodcaller("send", signal.SIGINT))


class Interrupt:
    """While inside, a SIGINT arrives before the `at`-th opcode of ours. `met` tells whether there were so many."""

    def __init__(self, at: int) -> None:
        self.left = at

    @property
    def met(self) -> bool:
        return self.left <= 0

    def __enter__(self) -> Interrupt:
        sys.settrace(self._on_call)
        return self

    def __exit__(self, *error: object) -> None:
        sys.settrace(None)

    def _on_call(self, frame: FrameType, event: str, arg: Any) -> Any:
        if not frame.f_code.co_filename.startswith(TRACED):
            return None
        frame.f_trace_lines, frame.f_trace_opcodes = False, True
        return self._on_opcode

    def _on_opcode(self, frame: FrameType, event: str, arg: Any) -> Any:
        if event == "opcode":
            self.left -= 1
            if self.left == 0:
                sys.settrace(None)
                _SIGNAL.arrives  # noqa: B018 - see there
        return self._on_opcode


_SIGNAL = _Signal()


@contextmanager
def interrupts_are_errors() -> Iterator[None]:
    """A SIGINT raises KeyboardInterrupt, whatever runs the tests has made of it. No finalizer comes in between."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        signal.signal(signal.SIGINT, before)


class Scene:
    """A scheduler with one task of each kind, a run that is ready, and nobody else who could hold its lock."""

    def __init__(self) -> None:
        self.clock, self.pool = FakeClock(), ManualPool(2)
        self.scheduler = s = Scheduler(self.pool, clock=self.clock, observers=[])
        s.start()
        s.schedule(int, id="ready")
        s.schedule(int, after(60), id="later")
        s.schedule(int, every(seconds=30), id="beat")
        s.schedule(int, after_tasks=["ready"], id="child")

    def must_go_on(self, at: int) -> None:
        """The lock is free, and every verb answers."""
        scheduler, lock = self.scheduler, self.scheduler._store.lock
        assert not lock.locked(), f"the lock is held for ever: interrupted before opcode {at}"
        for id in [info.id for info in scheduler.tasks()]:
            scheduler.get(id)
            scheduler.cancel(id)
        if scheduler.phase == "running":
            task = scheduler.schedule(int, after(1))
            assert scheduler.get(task).next_fire is not None
            assert task.cancel()
        scheduler.close(0)
        assert not lock.locked()

    def must_end(self, at: int) -> None:
        """The `with` block that the Ctrl-C leaves closes the scheduler, and that waits for whatever lives."""
        assert not self.scheduler._store.lock.locked(), f"the lock is held for ever: interrupted before opcode {at}"
        self.scheduler.close(0)
        alive = [(info.id, str(info.state)) for info in self.scheduler.tasks() if not info.state.terminal]
        assert not alive, f"close would wait for {alive} for ever: interrupted before opcode {at}"


def settle_what_was_handed_over(scene: Scene) -> None:
    """The run ends while somebody holds the lock, so its end is settled by whoever comes next."""
    with scene.scheduler._store.lock:
        scene.pool.run_next()
    scene.scheduler.tasks()


VERBS: dict[str, Callable[[Scene], object]] = {
    "schedule": lambda scene: scene.scheduler.schedule(int, after(5)),
    "schedule now": lambda scene: scene.scheduler.schedule(int),
    "schedule a child": lambda scene: scene.scheduler.schedule(int, after_tasks=["later"], id="x"),
    "keep": lambda scene: scene.scheduler.schedule(int, after(5), id="later", exists="keep"),
    "update": lambda scene: scene.scheduler.schedule(int, after(5), id="later", exists="update"),
    "schedule_many": lambda scene: scene.scheduler.schedule_many([Call(int, after(5), id="y"), Call(int)]),
    "cancel": lambda scene: scene.scheduler.cancel("later"),
    "cancel what is ready": lambda scene: scene.scheduler.cancel("ready"),
    "tasks": lambda scene: scene.scheduler.tasks(),
    "get": lambda scene: scene.scheduler.get("beat"),
    "runs": lambda scene: scene.scheduler.runs("beat"),
    "wait": lambda scene: scene.scheduler.wait(0),
    "time passes": lambda scene: scene.clock.advance(30),
    "a run": lambda scene: scene.pool.run_next(),
    "a run that is settled later": settle_what_was_handed_over,
    "close": lambda scene: scene.scheduler.close(),
}


def interrupted_everywhere(verb: str, look: Callable[[Scene, int], None]) -> None:
    """Interrupt the verb before its n-th opcode, for every n, and look at what is left of the scene each time."""
    for at in range(1, LIMIT):
        scene, interrupt = Scene(), Interrupt(at)
        try:
            with interrupt:
                VERBS[verb](scene)
        except KeyboardInterrupt:
            pass
        if not interrupt.met:
            assert at > 50, "hardly anything was traced"
            return
        look(scene, at)
    raise AssertionError("there is no end")


def in_a_context_of_its_own(verb: str, look: Callable[[Scene, int], None]) -> None:
    """A run that ended half-way would else be the current one of the tests that follow."""

    def body() -> None:
        with interrupts_are_errors():
            interrupted_everywhere(verb, look)
        gc.collect()

    contextvars.copy_context().run(body)


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_that_is_interrupted_anywhere_leaves_the_lock_free(verb: str) -> None:
    """Half an add may be lost with the Ctrl-C; a scheduler that hangs at the next call is lost for good."""
    in_a_context_of_its_own(verb, Scene.must_go_on)


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb.startswith(("schedule", "keep", "update"))])
def test_a_schedule_that_is_interrupted_anywhere_leaves_nothing_that_close_would_wait_for(verb: str) -> None:
    """A task that is READY and in no queue: the `with` block would never be left."""
    in_a_context_of_its_own(verb, Scene.must_end)
