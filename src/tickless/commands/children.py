"""`Children`: an executor whose works are commands. One thread starts them, reads, stops and reaps all of them."""

from __future__ import annotations

import heapq
import os
import selectors
import signal
import threading
import weakref
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from tickless.clocks import SystemClock
from tickless.commands.child import LAST_BYTES, Child, started
from tickless.commands.command import Command, CommandFailed, ending_of, here
from tickless.commands.facts import facts_of
from tickless.commands.going import Going
from tickless.commands.kept import Outputs
from tickless.commands.lines import Lines, Source
from tickless.control.documents import run_name
from tickless.errors import OUR_FRAMES, Stopped
from tickless.instants import SECOND_US, Instant, datetime_of, instant_of
from tickless.records import Run
from tickless.worker import current_run

STARTS_A_PASS = 32
"""How many are started before the others are looked at again."""
LONGEST_SLEEP_S = 3_600.0
"""A selector's timeout is an int of milliseconds, which a `kill_after` of a month does not fit in."""


class _Asked(NamedTuple):
    """A work that was submitted and has not begun."""

    future: Future[Any]
    fn: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


class Children(Executor):
    """Give it to a scheduler as `Pool(Children(slots), slots=slots)`; its works are `Command` and `PythonWork`.

    `submit` never waits for a start: that is for the thread, which sleeps while nothing happens. What a work returns is
    its result, unless that is a Future, whose result then is. The environment is that of this process when this was
    made. Shut it down: what runs when the interpreter ends goes on, and nobody reads what it prints.
    """

    def __init__(self, slots: int, *, outputs: Outputs | None = None, lines: Lines | None = None) -> None:
        self._slots = slots
        self._outputs = outputs
        self._lines = lines
        self._clock = SystemClock()
        self._environment = dict(os.environ)
        self._lock = threading.Lock()
        """Over what any thread puts here, and the ring. Nothing of others is called under it."""
        self._asked: deque[_Asked] = deque()
        self._told: deque[Callable[[], None]] = deque()
        """What does not wait for the starts before it: stops and ends."""
        self._asleep = False
        self._closed = False
        self._thread: threading.Thread | None = None
        self._python: ThreadPoolExecutor | None = None
        self._selector: selectors.BaseSelector
        self._ear = self._mouth = -1
        self._going: dict[Child, Going] = {}
        self._alarms: list[tuple[Instant, int, Child]] = []
        """When a group that was asked to stop is killed."""
        self._numbers = 0
        self._kills = 0

    # Any thread

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        with self._lock:
            if self._closed:
                raise RuntimeError("this pool of commands is shut down")
            if self._thread is None:
                self._open()
            self._asked.append(_Asked(future, fn, args, kwargs))
            self._ring()
        return future

    def _open(self) -> None:
        """Under the lock. Raises OSError and RuntimeError, and then all is as it was."""
        selector = selectors.DefaultSelector()
        numbers: tuple[int, ...] = ()
        try:
            self._ear, self._mouth = numbers = os.pipe()
            for number in numbers:
                os.set_blocking(number, False)
            selector.register(self._ear, selectors.EVENT_READ, self._hear)
            self._selector = selector
            thread = threading.Thread(target=self._loop, name="tickless-children", daemon=True)
            thread.start()
        except BaseException:
            for number in numbers:
                os.close(number)
            selector.close()
            raise
        self._thread = thread

    def _tell(self, what: Callable[[], None]) -> None:
        """Have the thread do it next. Also called under the lock of a store, by whoever asks a run to stop."""
        with self._lock:
            self._told.append(what)
            self._ring()

    def _ring(self) -> None:
        """Under the lock, lest the pipe is closed meanwhile and its number is another file's."""
        if self._asleep:
            self._asleep = False
            with suppress(BlockingIOError):  # full of rings
                os.write(self._mouth, b"\0")

    def kill_all(self) -> None:
        """SIGKILL to the group of every command that has begun. Takes no lock: for signal handlers, too."""
        self._kills += 1
        for child in list(self._going):
            child.signal_group(signal.SIGKILL)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """No new works; what runs goes on to its end, and with `wait` that is waited for."""
        dropped: list[_Asked] = []
        with self._lock:
            self._closed = True
            thread = self._thread
            if cancel_futures:
                dropped = list(self._asked)
                self._asked.clear()
            self._ring()
        for asked in dropped:
            asked.future.cancel()
        python = self._python
        if cancel_futures and python is not None:
            python.shutdown(wait=False, cancel_futures=True)
        if not wait or thread is None or thread is threading.current_thread():
            return
        thread.join()
        if self._python is not None:
            self._python.shutdown(wait=True)
        if self._outputs is not None:
            self._outputs.flush()

    # The thread

    def _loop(self) -> None:
        here.set(self)
        while not self._is_over():
            while self._told:
                self._told.popleft()()
            for _ in range(STARTS_A_PASS):
                try:
                    asked = self._asked.popleft()
                except IndexError:  # a shutdown may take them away at any moment
                    break
                _begin_work(*asked)
                del asked  # what nobody holds must not live while this sleeps
            self._ring_alarms()
            self._look(self._timeout())

    def _is_over(self) -> bool:
        if not self._closed or self._going:
            return False
        with self._lock:
            if self._asked or self._told:
                return False
            self._selector.close()
            os.close(self._ear)
            os.close(self._mouth)
            self._asleep = False
        if self._python is not None:
            self._python.shutdown(wait=False)
        return True

    def _timeout(self) -> float | None:
        if not self._alarms:
            return None
        return min(max(0.0, (self._alarms[0][0] - self._clock.now()) / SECOND_US), LONGEST_SLEEP_S)

    def _look(self, timeout: float | None) -> None:
        """Sleep until something happens, unless something is to be done, and see to what has happened."""
        with self._lock:
            if self._asked or self._told or (self._closed and not self._going):
                timeout = 0.0
            self._asleep = timeout != 0.0
        ready = self._selector.select(timeout)
        self._asleep = False
        for key, _ in ready:
            key.data()
        del ready

    def _hear(self) -> None:
        with suppress(BlockingIOError):
            os.read(self._ear, 4096)

    # What works ask of the thread that calls them: see `command.Place`

    def begin_call(self, call: Callable[[], Any]) -> Future[Any]:
        if self._python is None:
            self._python = ThreadPoolExecutor(self._slots, thread_name_prefix="tickless-python")
        return self._python.submit(call)

    def begin(self, command: Command, failed: Run | None) -> Future[None]:
        run = current_run()
        flag = run.stop_requested
        if flag:
            raise Stopped("stopped before it began")
        due_us = None if run.due is None else instant_of(run.due, "due")
        source = Source(run.task_id, run_name(run.task_id, due_us), run.attempt)
        kills = self._kills
        child = Child(command, {**self._environment, **dict(command.env), **facts_of(source, run.due, failed)})
        try:
            self._take_in(Going(child, source, None), run.due)
        except BaseException:  # such as no descriptor for its end: it is the run's failure, and nothing stays behind
            self._abandon(child)
            raise
        if kills != self._kills:  # it was not among those that were killed
            child.signal_group(signal.SIGKILL)
        # A kept run keeps its flag, which must not keep the child.
        flag.call(partial(self._tell, partial(self._stop, weakref.ref(child))))
        return child.future

    def _take_in(self, going: Going, due: Any) -> None:
        child, source = going.child, going.source
        if self._outputs is not None:
            going.output = self._outputs.begin(source.task, source.run, due, source.attempt)
            going.output.started = datetime_of(self._clock.now())
        self._going[child] = going
        self._selector.register(child.pipe, selectors.EVENT_READ, partial(self._guarded, child, self._read))
        self._watch_end(going)

    def _watch_end(self, going: Going) -> None:
        """By a descriptor; where the system has none, or none left, by a thread that waits."""
        child = going.child
        assert child.pid is not None
        left = partial(self._guarded, child, self._left)
        with suppress(OSError, AttributeError):  # AttributeError: macOS
            going.pidfd = os.pidfd_open(child.pid)
        if going.pidfd is not None:
            self._selector.register(going.pidfd, selectors.EVENT_READ, left)
            return

        def wait() -> None:
            child.wait_beside()
            self._tell(left)

        threading.Thread(target=wait, name="tickless-child", daemon=True).start()

    def _guarded(self, child: Child, call: Callable[[Going], None]) -> None:
        """What goes wrong with one child must not end the thread that all others need."""
        going = self._going.get(child)
        if going is None:
            return
        try:
            call(going)
        except BaseException as error:  # noqa: BLE001 - a defect of ours, or a disk: the run is told of it
            self._abandon(child)
            if not child.future.done():
                child.future.set_exception(error)

    def _abandon(self, child: Child) -> None:
        """Kill it, and let go of all that it has."""
        going = self._going.pop(child, None)
        if going is not None:
            self._forget_pidfd(going)
        self._forget_pipe(child)
        child.stopped = True  # so that its group goes with it
        if child.pid is not None:
            child.signal_group(signal.SIGKILL)
            child.reap()
        if going is not None and going.output is not None and self._outputs is not None:
            self._outputs.end(going.output, "given up", None, self._clock.now())

    def _forget_pidfd(self, going: Going) -> None:
        if going.pidfd is not None:
            with suppress(KeyError):
                self._selector.unregister(going.pidfd)
            os.close(going.pidfd)
            going.pidfd = None

    def _forget_pipe(self, child: Child) -> None:
        if child.pipe >= 0:
            with suppress(KeyError):
                self._selector.unregister(child.pipe)
            child.close_pipe()

    def _read(self, going: Going) -> None:
        """One chunk, so that a child that prints without end does not hold up the others."""
        data = going.child.read()
        if data:
            self._took(going, data)
        elif data is None:  # closed by all who had it: never to be looked at again, or it would be ready for ever
            self._forget_pipe(going.child)
            if going.has_left:
                self._end(going)

    def _took(self, going: Going, data: bytes) -> None:
        if going.output is not None and self._outputs is not None:
            self._outputs.add(going.output, data)
        going.note_last(data)
        if self._lines is not None:
            now = self._clock.now()
            self._lines.show(now, going.source, going.splitter.feed(data, now))

    def _stop(self, there: weakref.ref[Child]) -> None:
        """SIGTERM now, and SIGKILL when its time is up."""
        child = there()
        if child is None or child not in self._going or child.stopped:
            return
        child.stopped = True
        child.signal_group(signal.SIGTERM)
        self._numbers += 1
        at = Instant(self._clock.now() + child.command.kill_after_us)
        heapq.heappush(self._alarms, (at, self._numbers, child))

    def _ring_alarms(self) -> None:
        now = self._clock.now() if self._alarms else Instant(0)
        while self._alarms and (self._alarms[0][0] <= now or self._alarms[0][2] not in self._going):
            child = heapq.heappop(self._alarms)[2]
            child.signal_group(signal.SIGKILL)
            self._guarded(child, self._time_is_up)

    def _time_is_up(self, going: Going) -> None:
        if going.has_left:
            self._end(going)

    def _left(self, going: Going) -> None:
        """The process itself has ended. Of one that was stopped the others of its group have their time to end, too."""
        going.has_left = True
        self._forget_pidfd(going)
        child = going.child
        if child.stopped and child.pipe >= 0 and any(one is child for _, _, one in self._alarms):
            return  # until they have closed the pipe, or their time is up
        self._end(going)

    def _end(self, going: Going) -> None:
        child = going.child
        self._read_rest(going)
        code = child.reap()
        del self._going[child]
        failed = ending_of(code, child.command)
        ending = failed or ("succeeded" if not code else f"succeeded with exit code {code}")
        now = self._clock.now()
        if self._lines is not None:
            self._lines.show(now, going.source, going.splitter.end())
        if self._outputs is not None and going.output is not None:
            self._outputs.end(going.output, "stopped" if child.stopped else ending, code, now)
        if child.stopped:
            child.future.set_exception(Stopped(f"stopped: {ending}"))
        elif failed is None:
            child.future.set_result(None)
        else:
            last = going.last_line
            child.future.set_exception(CommandFailed(f"{failed}: {last}" if last else failed))

    def _read_rest(self, going: Going) -> None:
        """What is in the pipe still. A daemon may hold it open, and is not waited for: it has nowhere to print to."""
        child, left = going.child, LAST_BYTES
        while left > 0 and (data := child.read()):
            self._took(going, data)
            left -= len(data)
        self._forget_pipe(child)


def _begin_work(future: Future[Any], fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        found = fn(*args, **kwargs)
    except BaseException as error:  # noqa: BLE001 - the run's, not ours
        future.set_exception(error)
        del future, fn, args, kwargs  # this frame lives as long as somebody keeps the error, by the frames above it
        return
    if isinstance(found, Future):
        found.add_done_callback(partial(_follow, future))
    else:
        future.set_result(found)


def _follow(outer: Future[Any], inner: Future[Any]) -> None:
    """What came of the one is what came of the other."""
    if inner.cancelled():
        outer.set_exception(CommandFailed("it was cancelled before it began: the pool was shut down"))
        return
    error = inner.exception()
    if error is None:
        outer.set_result(inner.result())
    else:
        outer.set_exception(error)


# The error of a command that cannot be started says all: our frames above it would only hide that.
OUR_FRAMES.update(one.__code__ for one in (Command.__call__, Children.begin, Child.__init__, started))
