"""`Children`: an executor whose works are commands. One thread starts them, reads, stops and reaps all of them."""

from __future__ import annotations

import heapq
import os
import selectors
import signal
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any

from tickless.clocks import SystemClock
from tickless.commands.child import LAST_BYTES, Child, started
from tickless.commands.command import Command, CommandFailed, base_environment, ending_of, here
from tickless.commands.kept import Output, Outputs
from tickless.commands.lines import Lines, Source, Splitter
from tickless.control.documents import run_name
from tickless.errors import OUR_FRAMES, Stopped
from tickless.instants import SECOND_US, Instant, datetime_of, instant_of
from tickless.observe.text import printable
from tickless.records import Run
from tickless.worker import current_run

STARTS_A_PASS = 16
"""How many are started before the others are looked at again."""


class Children(Executor):
    """Give it to a scheduler as `Pool(Children(slots), slots=slots)`; its works are `Command` and `PythonWork`.

    `submit` never waits for a start: that is for the thread, which sleeps while nothing happens. What a work returns is
    its result, unless that is a Future, whose result then is.
    """

    def __init__(self, slots: int, *, outputs: Outputs | None = None, lines: Lines | None = None) -> None:
        self._slots = slots
        self._outputs = outputs
        self._lines = lines
        self._clock = SystemClock()
        self._environment = base_environment()
        self._lock = threading.Lock()
        self._asked: deque[Callable[[], None]] = deque()
        """What the thread is to do, in order."""
        self._asleep = False
        self._closed = False
        self._thread: threading.Thread | None = None
        self._python: ThreadPoolExecutor | None = None
        self._selector = selectors.DefaultSelector()
        self._ear, self._mouth = os.pipe()
        os.set_blocking(self._ear, False)
        os.set_blocking(self._mouth, False)
        self._selector.register(self._ear, selectors.EVENT_READ, self._hear)
        self._going: dict[Child, _Going] = {}
        self._alarms: list[tuple[Instant, int, Child]] = []
        """When a group that was asked to stop is killed."""
        self._numbers = 0

    # Any thread

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        with self._lock:
            if self._closed:
                raise RuntimeError("this pool of commands is shut down")
            if self._thread is None:
                self._thread = threading.Thread(target=self._loop, name="tickless-children", daemon=True)
                self._thread.start()
        self._ask(partial(self._work, future, fn, args, kwargs))
        return future

    def _ask(self, what: Callable[[], None]) -> None:
        self._asked.append(what)  # store, then look: the thread looks once more after it has said that it sleeps
        if self._asleep:
            self._asleep = False
            with suppress(BlockingIOError, OSError):  # full of rings, or closed
                os.write(self._mouth, b"\0")

    def kill_all(self) -> None:
        """SIGKILL to every group. Takes no lock: for signal handlers, too."""
        for child in list(self._going):
            child.signal_group(signal.SIGKILL)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """No new works; what runs goes on to its end, and with `wait` that is waited for."""
        with self._lock:
            self._closed = True
            thread = self._thread
        if self._python is not None:
            self._python.shutdown(wait=wait, cancel_futures=cancel_futures)
        if thread is None:
            self._close()
            return
        self._ask(lambda: None)
        if wait and thread is not threading.current_thread():
            thread.join()

    # The thread

    def _loop(self) -> None:
        here.set(self)
        while True:
            self._begin_some()
            self._ring_alarms()
            if self._closed and not self._going and not self._asked:
                break
            timeout = self._timeout()
            self._asleep = timeout != 0
            if self._asked:
                self._asleep, timeout = False, 0.0
            ready = self._selector.select(timeout)
            self._asleep = False
            for key, _ in ready:
                key.data()
        self._close()

    def _close(self) -> None:
        self._selector.close()
        for number in (self._ear, self._mouth):
            with suppress(OSError):
                os.close(number)

    def _timeout(self) -> float | None:
        if self._asked:
            return 0.0
        if not self._alarms:
            return None
        return max(0.0, (self._alarms[0][0] - self._clock.now()) / SECOND_US)

    def _hear(self) -> None:
        with suppress(BlockingIOError):
            os.read(self._ear, 4096)

    def _begin_some(self) -> None:
        for _ in range(STARTS_A_PASS):
            if not self._asked:
                return
            self._asked.popleft()()

    def _work(self, future: Future[Any], fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if not future.set_running_or_notify_cancel():
            return
        try:
            found = fn(*args, **kwargs)
        except BaseException as error:  # noqa: BLE001 - the run's, not ours
            future.set_exception(error)
            return
        if isinstance(found, Future):
            found.add_done_callback(partial(_follow, future))
        else:
            future.set_result(found)

    # What works ask of the thread that calls them: see `command.Place`

    def begin_call(self, call: Callable[[], Any]) -> Future[Any]:
        if self._python is None:
            self._python = ThreadPoolExecutor(self._slots, thread_name_prefix="tickless-python")
        return self._python.submit(call)

    def begin(self, command: Command, failed: Run | None) -> Future[None]:
        run = current_run()
        due_us = None if run.due is None else instant_of(run.due, "due")
        source = Source(run.task_id, run_name(run.task_id, due_us), run.attempt)
        child = Child(command, {**self._environment, **dict(command.env), **_facts(source, run.due, failed)})
        output = None
        if self._outputs is not None:
            output = self._outputs.begin(run.task_id, source.run, run.due, run.attempt)
            output.started = datetime_of(self._clock.now())
        self._going[child] = _Going(child, source, output)
        self._selector.register(child.pipe, selectors.EVENT_READ, partial(self._read, child))
        self._watch_end(child)
        run.stop_requested.call(partial(self._ask, partial(self._stop, child)))
        return child.future

    def _watch_end(self, child: Child) -> None:
        assert child.pid is not None
        if hasattr(os, "pidfd_open"):
            going = self._going[child]
            going.pidfd = os.pidfd_open(child.pid)
            self._selector.register(going.pidfd, selectors.EVENT_READ, partial(self._left, child))
            return

        def wait() -> None:
            child.wait_beside()
            self._ask(partial(self._left, child))

        threading.Thread(target=wait, name="tickless-child", daemon=True).start()

    def _read(self, child: Child) -> None:
        """One chunk, so that a child that prints without end does not hold up the others."""
        number, data = child.pipe, child.read()
        if data is None:
            self._selector.unregister(number)
            going = self._going.get(child)
            if going is not None and going.has_left:
                self._end(child)
        elif data:
            self._took(self._going[child], data)

    def _took(self, going: _Going, data: bytes) -> None:
        if going.output is not None:
            going.output.add(data)
        going.note_last(data)
        if self._lines is not None:
            now = self._clock.now()
            self._lines.show(now, going.source, going.splitter.feed(data, now))

    def _stop(self, child: Child) -> None:
        """SIGTERM now, and SIGKILL when its time is up."""
        if child not in self._going or child.stopped:
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
            going = self._going.get(child)
            if going is not None and going.has_left:
                self._end(child)

    def _left(self, child: Child) -> None:
        """The process itself has ended. Of one that was stopped the others of its group have their time to end, too."""
        going = self._going[child]
        going.has_left = True
        if going.pidfd is not None:
            self._selector.unregister(going.pidfd)
            os.close(going.pidfd)
            going.pidfd = None
        if child.stopped and child.pipe >= 0 and self._has_time(child):
            return  # until they have closed the pipe, or their time is up
        self._end(child)

    def _has_time(self, child: Child) -> bool:
        now = self._clock.now()
        return any(one is child and at > now for at, _, one in self._alarms)

    def _end(self, child: Child) -> None:
        going = self._going[child]
        self._read_rest(child, going)
        code = child.reap()
        del self._going[child]
        failed = ending_of(code, child.command)
        ending = failed or ("succeeded" if not code else f"succeeded with exit code {code}")
        if self._lines is not None:
            self._lines.show(self._clock.now(), going.source, going.splitter.end())
        if self._outputs is not None and going.output is not None:
            going.output.ended = datetime_of(self._clock.now())
            self._outputs.end(going.output, "stopped" if child.stopped else ending)
        if child.stopped:
            child.future.set_exception(Stopped(f"stopped: {ending}"))
        elif failed is None:
            child.future.set_result(None)
        else:
            last = printable(going.last.decode("utf-8", "replace").strip(), 200)
            child.future.set_exception(CommandFailed(f"{failed}: {last}" if last else failed))

    def _read_rest(self, child: Child, going: _Going) -> None:
        """What is in the pipe still. A daemon may hold it open, and is not waited for."""
        if child.pipe < 0:
            return
        number, left = child.pipe, LAST_BYTES
        while left > 0 and (data := child.read()):
            self._took(going, data)
            left -= len(data)
        self._selector.unregister(number)
        child.close_pipe()


class _Going:
    """What is known of a child while it goes on."""

    __slots__ = ("child", "has_left", "last", "output", "pidfd", "source", "splitter")

    def __init__(self, child: Child, source: Source, output: Output | None) -> None:
        self.child = child
        self.source = source
        self.output = output
        self.splitter = Splitter()
        self.pidfd: int | None = None
        self.has_left = False
        """Whether the process itself has ended."""
        self.last = b""
        """The last line that was not empty, as far as it is known."""

    def note_last(self, data: bytes) -> None:
        end = (self.last + data)[-1_000:] if len(data) < 1_000 else data[-1_000:]
        lines = [line for line in end.split(b"\n") if line.strip()]
        self.last = lines[-1] + (b"\n" if data.endswith(b"\n") else b"") if lines else b""


# The error of a command that cannot be started says all: our frames above it would only hide that.
OUR_FRAMES.update(one.__code__ for one in (Command.__call__, Children.begin, Child.__init__, started))


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


def _facts(source: Source, due: Any, failed: Run | None) -> dict[str, str]:
    """What a command is told of its run."""
    facts = {
        "TICKLESS_TASK": source.task,
        "TICKLESS_RUN": source.run,
        "TICKLESS_ATTEMPT": str(source.attempt),
        "TICKLESS_DUE": "" if due is None else due.isoformat().replace("+00:00", "Z"),
    }
    if failed is not None:
        facts |= {
            "TICKLESS_FAILED_TASK": failed.task_id,
            "TICKLESS_FAILED_RUN": run_name(failed.task_id, failed.due_us),
            "TICKLESS_FAILED_REASON": "" if failed.reason is None else str(failed.reason),
            "TICKLESS_FAILED_ERROR": (failed.error or "").replace("\0", ""),
            "TICKLESS_FAILED_ATTEMPT": str(failed.attempt),
        }
    return facts
