"""The weaver: real threads, one baton, and a seed that says at which opcode it is passed on.

Only the thread that has the baton runs. At each opcode of the modules under test a counter goes down; at zero the
thread may be laid aside, for a few opcodes or for thousands, and another one goes on. So any interleaving can come that
a GIL allows, and soon: blind stress switches each 5 ms, and misses a window of three opcodes for a year.

Locks, events, threads and time are woven too (see `stand_ins`): who waits gives the baton away, and time moves on only
while it is read, or when everybody waits. When everybody waits and nothing is due, that is a hang, and it is known at
once, without a deadline. The same seed weaves the same threads, on the same Python, once its code is warm.
"""

from __future__ import annotations

import os
import sys
import threading
from _thread import allocate_lock
from collections import deque
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from random import Random
from types import FrameType, SimpleNamespace
from typing import Any

START_US = 1_700_000_000_000_000
GAPS = (2, 8, 30, 120)
"""Opcodes between two choices, on average: one of these by seed. Few choices far apart find what many would undo."""
LONGEST_ASIDE = 12
"""Powers of two: for how many opcodes a thread may be laid aside."""
STEP_LIMIT = 2_000_000
"""Opcodes after which a program is taken for endless."""
PATIENCE_S = 60.0
"""Real seconds for a whole run: only a defect of the weaver itself takes so long."""


class Tangle(AssertionError):
    """A run that went wrong: nobody can go on, or there is no end."""


class Abandoned(BaseException):
    """Thrown into every thread of a run that went wrong, so that it ends."""


class Strand:
    """One thread of the run."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.go = allocate_lock()
        """Held while the strand has not the baton."""
        self.go.acquire()
        self.until: Callable[[], object] | None = None
        """What it waits for, if it waits."""
        self.deadline: int | None = None
        self.aside = 0
        """Laid aside until that many opcodes have passed, unless nobody else can go on."""
        self.at = "was to begin"


class Weaver:
    """One run. `files`: the paths of the modules at whose opcodes threads change."""

    def __init__(self, seed: int | str, files: Collection[str]) -> None:
        self._rng = Random(seed)
        self._gap = self._rng.choice(GAPS)
        self._files = frozenset(files)
        self._strands: list[Strand] = []
        self._current: Strand
        self._over = allocate_lock()
        self._over.acquire()
        self._left = 1
        self._trace_opcode = self._make_trace()
        self.now_us = START_US
        self.steps = 0
        self.failure: BaseException | None = None
        self.ended = False
        self.story: deque[str] = deque(maxlen=400)
        """Who was left where, latest last; nothing after the fault."""
        self._stand: list[str] = []

    def run(self, main: Callable[[], None]) -> None:
        """Run `main` as the first strand until every strand has ended. Raises what went wrong first."""
        with _on_one_processor():
            self._current = self._begin("main", main)
            self._current.go.release()
            if not self._over.acquire(timeout=PATIENCE_S):
                raise Tangle("the weaver itself hangs")
        self.ended = True
        if self.failure is not None:
            raise self.failure

    def spawn(self, name: str, body: Callable[[], None]) -> Callable[[], None]:
        """Start a strand from inside the run; gives the function that waits for its end."""
        strand = self._begin(name, body)
        return lambda: self.block(lambda: strand not in self._strands)

    def block(self, until: Callable[[], object], timeout_us: float | None = None) -> None:
        """Give the baton away until `until()` holds or so much time has passed. At the end of the run: do nothing."""
        if self.ended:
            return
        me = self._current
        me.until = until
        me.deadline = None if timeout_us is None else self.now_us + max(0, int(timeout_us))
        self._pass_on(me, f"waits at {_where(sys._getframe(1))}")
        me.until = me.deadline = None

    def pause(self) -> None:
        """A place where a thread may change: for code that is not traced."""
        self._choose(sys._getframe(1))

    def read_clock(self) -> int:
        self.now_us += 3
        return self.now_us

    def fail(self, error: BaseException) -> None:
        """The run went wrong: the first fault is kept, and everybody ends."""
        if self.failure is None:
            self.failure = error
            self._stand = [f"{strand.name} stands where it {strand.at}" for strand in self._strands]

    def tell(self, last: int = 40) -> str:
        """The end of the story, and where everybody stood when it went wrong."""
        return "\n".join(f"    {line}" for line in [*list(self.story)[-last:], *self._stand])

    def _note(self, line: str) -> None:
        if self.failure is None:
            self.story.append(line)

    def _begin(self, name: str, body: Callable[[], None]) -> Strand:
        strand = Strand(name)
        self._strands.append(strand)
        threading.Thread(target=self._live, args=(strand, body), name=f"woven-{name}", daemon=True).start()
        return strand

    def _live(self, strand: Strand, body: Callable[[], None]) -> None:
        strand.go.acquire()
        try:
            if self.failure is None:
                sys.settrace(self._trace_call)
                body()
        except Abandoned:
            pass
        except BaseException as error:  # noqa: BLE001 - whatever ends a thread fails the run
            self.fail(error)
        finally:
            sys.settrace(None)
            self._strands.remove(strand)
            self._hand_on(strand)

    def _hand_on(self, gone: Strand) -> None:
        """The strand has ended: somebody else goes on."""
        self._note(f"{gone.name} ends")
        following = self._next()
        if following is None:
            self._over.release()
        else:
            self._current = following
            following.go.release()

    def _pass_on(self, me: Strand, at: str) -> None:
        """Let the one go on whom the seed names; returns when that is this strand (again)."""
        if self.failure is not None:
            raise Abandoned
        me.at = at
        following = self._next()
        if following is not me and following is not None:
            self._note(f"{me.name} {at}; {following.name} goes on")
            self._current = following
            following.go.release()
            me.go.acquire()
        if self.failure is not None:
            raise Abandoned

    def _next(self) -> Strand | None:
        """Who goes on. When all wait, time moves to the first deadline; without one they wait for ever."""
        strands = self._strands
        if self.failure is None:
            while strands:
                able = [s for s in strands if s.until is None or s.until() or _is_due(s.deadline, self.now_us)]
                if able:
                    present = [strand for strand in able if strand.aside <= self.steps]
                    return self._rng.choice(present) if present else min(able, key=lambda strand: strand.aside)
                deadline = min((s.deadline for s in strands if s.deadline is not None), default=None)
                if deadline is None:
                    self.fail(Tangle("nobody can go on"))
                    break
                self.now_us = deadline
        return strands[-1] if strands else None

    def _trace_call(self, frame: FrameType, event: str, arg: Any) -> Any:
        if frame.f_code.co_filename not in self._files:
            return None
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        return self._trace_opcode

    def _make_trace(self) -> Callable[[FrameType, str, Any], Any]:
        def trace(frame: FrameType, event: str, arg: Any) -> Any:
            if event == "opcode":
                self._left -= 1
                if self._left <= 0:
                    self._choose(frame)
            return trace

        return trace

    def _choose(self, frame: FrameType) -> None:
        """The seed lays the running strand aside, or lets another one or the same go on."""
        rng = self._rng
        self._left = gap = 1 + int(rng.expovariate(1 / self._gap))
        self.steps += gap
        if self.steps > STEP_LIMIT:
            self.fail(Tangle(f"no end after {STEP_LIMIT} opcodes"))
        me = self._current
        if rng.random() < 0.5:
            me.aside = self.steps + int(2 ** rng.uniform(0, LONGEST_ASIDE))
        self._pass_on(me, f"was left at {_where(frame)}")


@contextmanager
def _on_one_processor() -> Iterator[None]:
    """Threads that begin inside share a processor. Only one of them runs at a time, and where the other processors have
    work of their own, each pass of the baton to one of those would wait for it: three times as long in all."""
    if sys.platform != "linux":
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _is_due(deadline: int | None, now_us: int) -> bool:
    return deadline is not None and deadline <= now_us


def _where(frame: FrameType | None) -> str:
    """Directory, file, line and function, the innermost outside of this file."""
    while frame is not None and frame.f_code.co_filename == __file__ and frame.f_back is not None:
        frame = frame.f_back
    if frame is None:
        return "nowhere"
    code = frame.f_code
    return f"{'/'.join(code.co_filename.split('/')[-2:])}:{frame.f_lineno} {code.co_qualname}"


class WovenLock:
    """A `threading.Lock` whose waiters give the baton away."""

    weaver: Weaver

    def __init__(self) -> None:
        self._held = False

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        weaver = self.weaver
        if self._held and blocking:
            weaver.block(lambda: not self._held, None if timeout < 0 else timeout * 1e6)
        if self._held and not weaver.ended:
            return False
        self._held = True
        return True

    def release(self) -> None:
        if not self._held:
            raise RuntimeError("release unlocked lock")
        self._held = False

    def locked(self) -> bool:
        return self._held

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class WovenEvent:
    """A `threading.Event` whose waiters give the baton away."""

    weaver: Weaver

    def __init__(self) -> None:
        self._set = False

    def is_set(self) -> bool:
        return self._set

    def set(self) -> None:
        self._set = True

    def wait(self, timeout: float | None = None) -> bool:
        if not self._set:
            self.weaver.block(self.is_set, None if timeout is None else timeout * 1e6)
        return self._set


class WovenThread:
    """A `threading.Thread` that is a strand."""

    weaver: Weaver

    def __init__(self, *, target: Callable[[], None], name: str = "thread", daemon: bool = False) -> None:
        self.name = name
        self._target = target
        self._joined: Callable[[], None] = lambda: None

    def start(self) -> None:
        self._joined = self.weaver.spawn(self.name, self._target)

    def join(self, timeout: float | None = None) -> None:
        self._joined()


def stand_ins(weaver: Weaver) -> dict[Any, Any]:
    """What of `threading` -> what takes its place while the weaver runs; the module itself is among them."""
    woven = {
        name: type(name, (kind,), {"weaver": weaver})
        for name, kind in (("Lock", WovenLock), ("Event", WovenEvent), ("Thread", WovenThread))
    }
    found = {getattr(threading, name): kind for name, kind in woven.items()}
    return {**found, threading: SimpleNamespace(**{**vars(threading), **woven})}
