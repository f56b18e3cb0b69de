"""Where a command looks: a running scheduler, an app, a task file, or a store."""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from tickless.cli.settings import PLACES, Settings, settings
from tickless.control import paths
from tickless.control.client import PATIENCE_S, ask, is_answered
from tickless.control.documents import Document
from tickless.control.refusals import Code, Refusal, refusal_of
from tickless.control.subject import Subject
from tickless.errors import TicklessError

DEFAULT_FILE = "tasks.toml"


class Source(Protocol):
    """What can be asked."""

    @property
    def header(self) -> Document:
        """What it is: `kind`, `where`, and of a scheduler that runs its `pid`."""

    def ask(self, question: str, timeout_s: float | None = PATIENCE_S, /, **given: Any) -> Document:
        """The answer, with the header as its `source`. Raises Refusal."""


@dataclass
class Remote:
    """A scheduler that runs in another process."""

    path: Path
    header: Document

    def ask(self, question: str, timeout_s: float | None = PATIENCE_S, /, **given: Any) -> Document:
        answer = ask(self.path, question, given, timeout_s)
        answer["source"] = {**self.header, **answer["source"]}
        return answer


@dataclass
class Local:
    """A scheduler in this process, which is not started."""

    subject: Subject
    header: Document

    @property
    def lasts(self) -> bool:
        """Whether what is changed here is there for others, and later."""
        return self.subject.scheduler._durable is not None

    def ask(self, question: str, timeout_s: float | None = PATIENCE_S, /, **given: Any) -> Document:
        from tickless.control.questions import answer  # a remote one answers by itself

        try:
            return {"source": self.header, **answer(self.subject, question, given)}
        except TicklessError as error:
            raise refusal_of(error) from None


def source_of(said: Settings) -> Source:
    """Where the command is to look. Raises Refusal.

    With --json standard output is for the document: what a module prints while it is imported goes to standard error.
    """
    with redirect_stdout(sys.stderr) if said.json else nullcontext():
        return _source_of(said)


def _source_of(said: Settings) -> Source:
    given = [name for name in PLACES if getattr(said, name) is not None]
    if len(given) > 1:
        raise Refusal(Code.USAGE, "usage", f"--{given[0]} and --{given[1]}: say one place to look at")
    if said.socket is not None:
        return _remote(Path(said.socket))
    if said.app is not None:
        return _app(said.app)
    if said.store is not None:
        return _store(said.store)
    if said.file is not None:
        return _file(said.file)
    return _found()


def source_to_change(said: Settings, source: Source | None = None) -> Source:
    """Where the command is to change something. Raises Refusal where that would be lost at once."""
    source = source_of(said) if source is None else source
    if isinstance(source, Local) and not source.lasts:
        raise Refusal(
            Code.REFUSED,
            "not_running",
            f"{source.header['where']}: no scheduler runs it, and it has no store, so that nothing would come of it; "
            f"start it: tickless run {source.header['where']}",
        )
    return source


def file_said() -> str | None:
    """The task file that was named, or else the one of this folder."""
    return settings().file or (DEFAULT_FILE if os.path.isfile(DEFAULT_FILE) else None)


def _found() -> Source:
    """Nothing was said: the task file of this folder, or the one scheduler that runs."""
    if os.path.isfile(DEFAULT_FILE):
        return _file(DEFAULT_FILE)
    running = [path for path in paths.sockets() if is_answered(path)]
    if len(running) == 1:
        return _remote(running[0])
    if running:
        several = ", ".join(map(str, running))
        raise Refusal(Code.USAGE, "usage", f"several schedulers of yours run; say which: --socket, one of {several}")
    raise Refusal(
        Code.UNREACHABLE,
        "unreachable",
        f"no scheduler of yours runs, and there is no {DEFAULT_FILE} here; say where to look: --app, --file, --store "
        "or --socket",
    )


def _remote(path: Path, where: str | None = None) -> Source:
    return Remote(path, {"kind": "socket", "where": where or str(path)})


def running_of(target: str) -> Source | None:
    """The scheduler that runs this file, if one does."""
    path = paths.socket_of(target)
    return _remote(path, target) if is_answered(path) else None


def _app(target: str) -> Source:
    running = running_of(target)
    if running is not None:
        return running
    from tickless.cli.load import app_of

    return Local(Subject(app_of(target)), {"kind": "app", "where": target})


def _store(url: str) -> Source:
    from tickless.strangers import open_store

    subject = Subject(open_store(url))
    return Local(subject, {"kind": "store", "where": url})


def _file(target: str) -> Source:
    """The scheduler that runs the file, or else its store, or else what it says."""
    running = running_of(target)
    if running is not None:
        return running
    if target.endswith(".py") or (not os.path.exists(target) and target.rpartition(":")[1]):
        return _app(target)
    from tickless.taskfile.build import looked_at

    file, subject = looked_at(Path(target))
    return Local(subject, {"kind": "file", "where": target, "tz": file.timezone})
