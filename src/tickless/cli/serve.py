"""`tickless run` of a task file or a crontab: a process in the foreground, fit for a container."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from difflib import get_close_matches
from pathlib import Path

from tickless.cli.loop import Reloading, sleep_until_end
from tickless.cli.telling import failures, log_of, quiet_logger, served, stop, told
from tickless.cli.voice import Voice
from tickless.cli.watch import Watch
from tickless.clocks import SystemClock
from tickless.commands.lines import Lines
from tickless.control.broadcast import Broadcast
from tickless.control.documents import Document
from tickless.control.refusals import Code, Refusal
from tickless.control.subject import Subject
from tickless.errors import TicklessError
from tickless.observe import Observer
from tickless.records import Run
from tickless.taskfile.build import (
    Program,
    check,
    descriptions_of,
    enter,
    fill,
    program_of,
    swap,
)
from tickless.taskfile.difference import Change, difference
from tickless.taskfile.read import read
from tickless.taskfile.values import ABOUT_FIRES, FlowDef, TaskDef, TaskFile, part_id
from tickless.waits import deadline_of

LAST_WAIT_S = 2.0
"""How long what was killed may take to be gone."""


class Server:
    """One task file, being done."""

    def __init__(self, path: Path, voice: Voice, stop_after_s: float) -> None:
        self.path = path
        self.voice = voice
        self.stop_after_s = stop_after_s
        self.lines = Lines(voice.stream, as_json=voice.as_json)
        self.log = log_of(voice)
        self.events = Broadcast()
        file = read(path)
        self._works = check(file)
        observers: list[Observer] = [self.log, self.events]
        self.program = program_of(file, observers=observers, lines=self.lines, tell=self._tell_trouble)
        self.subject = Subject(
            self.program.scheduler,
            runs_here=True,
            outputs=self.program.outputs,
            events=self.events,
            descriptions=descriptions_of(file),
        )
        self.failed_reload: str | None = None
        self.left: list[Run] = []
        """What could not be ended."""

    def about(self) -> Document:
        """What is said of it beside each answer."""
        return {"file": str(self.path), "tz": self.program.file.timezone, "reload_error": self.failed_reload}

    def fill(self) -> None:
        """Schedule what the file says: once it is known that nobody else does it. Then what a person wants to know."""
        gone = fill(self.program, self._works)
        self._greet()
        for id in gone:
            self.voice.say(f"{id}: is not in the file any more, and was cancelled", "warning")

    def _greet(self) -> None:
        file = self.program.file
        first = min(
            (info for info in self.program.scheduler.tasks() if info.next_fire_us is not None),
            key=lambda info: info.next_fire_us or 0,
            default=None,
        )
        then = "" if first is None or first.next_fire is None else f"; next is {first.id}, {_local(first.next_fire)}"
        self.voice.say(f"{self.path}: {_count(len(file.tasks), 'task')}{then}")
        for warning in file.warnings:
            self.voice.say(f"{self.path}: {warning}", "warning")

    def _tell_trouble(self, line: str) -> None:
        self.voice.say(line, "error")

    def reload(self) -> None:
        """Read the file again: an error keeps what is, and is told."""
        try:
            file = read(self.path)
            changes = difference(self.program.file, file)
            if not changes:
                if self.failed_reload is not None:
                    self.voice.say(f"{self.path}: is as it was before the error", "warning")
                    self.failed_reload = None
                return
            swap(self.program, file)
        except (TicklessError, OSError) as error:
            self.failed_reload = str(error)
            for line in str(error).split("\n"):
                self.voice.say(line, "error")
            self.voice.say(f"{self.path}: was not taken; what was there goes on", "error")
            return
        self.failed_reload = None
        self.subject.descriptions = descriptions_of(file)
        _tell_changes(self.path, changes, self.voice)

    def end(self, number: int | None) -> None:
        """Nothing new starts; what runs may end, is asked to, and is killed."""
        if number is not None:
            stop(self.program.scheduler, number, self.voice)
        self.left = _wound_down(self.program, self.lines, self.voice, None if number is None else self.stop_after_s)


def _wound_down(program: Program, lines: Lines, voice: Voice, stop_after_s: float | None) -> list[Run]:
    """What was asked to stop may do so for so long, and is killed then. Gives what goes on all the same.

    None: what runs may end.
    """
    left = program.scheduler.close(timeout=stop_after_s)
    if left:
        some = ", ".join(run.task_id for run in left[:3]) + (", ..." if len(left) > 3 else "")
        voice.say(f"{stop_after_s:g} s are over: killed: {some}", "warning")
        _kill_all(program)
        left = program.scheduler.close(timeout=LAST_WAIT_S)
    for children in program.children.values():
        children.shutdown(wait=not left)
    lines.close()
    return left


def _kill_all(program: Program) -> None:
    for children in program.children.values():
        children.kill_all()


def _ended(code: int, left: list[Run], voice: Voice) -> int:
    """The exit code; where Python code does not stop, whose threads would hold the process for ever, its end."""
    if left:
        voice.say(f"ended with {', '.join(run.task_id for run in left)} still going on", "error")
        sys.stdout.flush()
        os._exit(code)
    return code


def run_file(path: Path, voice: Voice, place: Path | None, stop_after_s: float) -> int:
    """The whole of it. Gives the exit code. Raises FileError, and what `Scheduler` raises."""
    server = Server(path, voice, stop_after_s)
    quiet_logger()
    begun = SystemClock().now()
    watch = Watch(path)
    try:
        with served(place, server.subject, str(path), voice, server.about):
            before = failures(server.program.scheduler)
            server.fill()
            came = sleep_until_end(
                server.program.scheduler,
                server.end,
                Reloading(watch, server.reload),
                lambda: _kill_all(server.program),
            )
            server.events.close()
    finally:
        watch.close()
    code = told(server.program.scheduler, server.log, voice, begun, came, before)
    return _ended(code, server.left, voice)


def run_part(path: Path, task: str, voice: Voice, timeout_s: float | None, stop_after_s: float) -> int:
    """One task of the file, or one flow, here and now: its rule is left out, its output shown. Gives the exit code."""
    file = read(path)
    part = _part(file, task)
    works = check(file)
    lines, log = Lines(voice.stream, as_json=voice.as_json), log_of(voice)
    program = program_of(file, observers=[log], lines=lines, tell=voice.say, store=False)
    quiet_logger()
    begun = SystemClock().now()
    enter(program, works, [_now(part)])

    late, left = False, []

    def end(number: int | None) -> None:
        nonlocal late, left
        scheduler = program.scheduler
        if number is not None:
            stop(scheduler, number, voice)
        elif any(info.state.after for info in scheduler.tasks()):
            late = True
            voice.say(f"{task}: has not ended within {timeout_s:g} s, and is stopped", "error")
            scheduler.close(timeout=0, cancel=True)
        left = _wound_down(program, lines, voice, stop_after_s if late or number is not None else None)

    came = sleep_until_end(program.scheduler, end, at_last=lambda: _kill_all(program), deadline=deadline_of(timeout_s))
    code = told(program.scheduler, log, voice, begun, came)
    return _ended(Code.TIMED_OUT if late else code, left, voice)


def _part(file: TaskFile, task: str) -> TaskDef | FlowDef:
    for part in file.parts:
        if part_id(part) == task:
            return part
        if isinstance(part, FlowDef) and any(one.name == task for one in part.tasks):
            raise Refusal(
                Code.REFUSED, "in_flow", f"{task}: is a task of the flow {part.id}; run that: run-now {part.id}"
            )
    near = get_close_matches(task, [part_id(part) for part in file.parts], n=1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    raise Refusal(Code.UNKNOWN, "unknown", f"{file.path}: no task named {task!r}{hint}")


def _now(part: TaskDef | FlowDef) -> TaskDef | FlowDef:
    """The same without its rule, and without what is about a rule."""
    return replace(
        part,
        when=None,
        options={key: part.options[key] for key in part.options if key not in ABOUT_FIRES},
    )


def _tell_changes(path: Path, changes: Sequence[Change], voice: Voice) -> None:
    voice.say(f"{path}: was read again: {_count(len(changes), 'change')}", "warning")
    for change in changes:
        details = f" ({', '.join(change.details)})" if change.details else ""
        voice.say(f"  {change.kind:<8} {change.name}{details}", "warning")


def _count(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def _local(when: datetime) -> str:
    return f"{when.astimezone():%Y-%m-%d %H:%M:%S %z}"
