"""The socket of a running scheduler: what is asked over it is answered as in the scheduler's own process."""

from __future__ import annotations

import errno
import os
import socket
import stat
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from tickless import Scheduler, Stopped, current_run, every
from tickless.control import wire
from tickless.control.broadcast import Broadcast
from tickless.control.client import ask, follow, is_answered
from tickless.control.questions import ANSWERS, answer
from tickless.control.refusals import Code, Refusal
from tickless.control.server import Server
from tickless.control.subject import Subject
from tickless.instants import Instant
from tickless.records import Event, EventKind

pytestmark = pytest.mark.skipif(not hasattr(socket, "AF_UNIX"), reason="a socket of Unix")
FAR_S = 3600.0


class Stage:
    """A scheduler that runs, with a socket."""

    def __init__(self, path: Path) -> None:
        self.events = Broadcast()
        self.scheduler = Scheduler(observers=[self.events])
        self.subject = Subject(self.scheduler, runs_here=True, events=self.events)
        self.path = path
        self.gate = threading.Event()
        self.scheduler.schedule(self.gate.wait, every(seconds=FAR_S), id="beat", tags=["slow"])
        self.scheduler.schedule(_fail, every(seconds=FAR_S), id="broken")
        with self.scheduler.flow("etl", every(seconds=FAR_S)) as flow:
            flow.task(print, name="extract")
            flow.task(_fail, name="load", after_tasks=["extract"])
        self.server = Server(path, self.subject, lambda: {"kind": "socket", "where": "here", "pid": os.getpid()})
        self.scheduler.start()

    def ask(self, question: str, **given: Any) -> dict[str, Any]:
        return ask(self.path, question, given, 60)

    def close(self) -> None:
        self.gate.set()
        self.scheduler.close(cancel=True)
        self.events.close()
        self.server.close()


def _fail() -> None:
    raise OSError("no disk")


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    it = Stage(tmp_path / "s")
    try:
        yield it
    finally:
        it.close()


@pytest.mark.parametrize(
    ("question", "given"),
    [
        ("tasks", {}),
        ("tasks", {"states": ["pending"], "tag": "slow", "recurring": True}),
        ("task", {"id": "beat"}),
        ("task", {"id": "etl"}),
        ("runs", {}),
        ("runs", {"id": "beat", "limit": 3, "failed": True}),
        ("backfill", {"id": "beat", "start": "2020-01-01T00:00:00Z", "end": "2020-01-02T00:00:00Z", "dry_run": True}),
        ("graph", {}),
        ("graph", {"id": "etl"}),
        ("health", {}),
    ],
)
def test_the_answer_over_the_socket_is_that_of_the_process_itself(
    stage: Stage, question: str, given: dict[str, Any]
) -> None:
    """In life: the command line shows something else than the program sees."""
    over = stage.ask(question, **given)
    source, version = over.pop("source"), over.pop("v")
    assert (source, version) == ({"kind": "socket", "where": "here", "pid": os.getpid()}, 1)
    assert over == answer(stage.subject, question, given)


def test_each_change_by_the_socket_is_made(stage: Stage) -> None:
    assert stage.ask("pause", ids=["beat"], reason="moving")["changed"] == [{"id": "beat", "count": 1}]
    assert stage.scheduler.get("beat").pause_reason == "moving"
    assert stage.ask("tasks", states=["paused"])["tasks"][0]["id"] == "beat"
    assert stage.ask("resume", ids=["beat"])["changed"] == [{"id": "beat", "count": 1}]
    assert stage.ask("pause", ids=[], tag="slow")["changed"] == [{"tag": "slow", "count": 1}]
    assert stage.ask("resume", ids=[], tag="slow")["changed"] == [{"tag": "slow", "count": 1}]
    assert stage.ask("pause", ids=[], all=True)["changed"] == [{"all": True, "count": 3}]
    assert stage.ask("resume", ids=[], all=True)["changed"] == [{"all": True, "count": 3}]
    assert stage.ask("cancel", ids=["beat", "etl"])["changed"] == [
        {"id": "beat", "answer": "cancelled"},
        {"id": "etl", "answer": "cancelled"},
    ]
    assert stage.scheduler.get("beat").state == "cancelled"


def test_run_now_waits_for_the_end_when_it_is_asked_to(stage: Stage) -> None:
    """In life: a deployment script runs a migration by hand, and goes on before it has failed."""
    run = stage.ask("run_now", id="broken", wait=0)["run"]
    assert (run["state"], run["error"]) == ("failed", "OSError: no disk")
    tried = stage.ask("retry", id="broken")["run"]
    assert tried["task"] == "broken"
    with pytest.raises(Refusal, match=r"has not ended within 0\.01 s; it goes on") as caught:
        stage.ask("run_now", id="beat", wait=0.01)
    assert caught.value.code is Code.TIMED_OUT


def test_what_failed_of_a_flow_is_tried_again_by_the_flow_or_by_the_round(stage: Stage) -> None:
    failed = stage.ask("run_now", id="etl", wait=0)["run"]
    assert failed["state"] == "failed"
    page = stage.ask("task", id="etl")
    assert [task["state"] for task in page["round"]["tasks"]] == ["succeeded", "failed"]
    assert "extract" in page["tree"]
    assert stage.ask("task", id=page["round"]["round"])["round"]["round"] == page["round"]["round"]
    assert stage.ask("task", id="etl/load")["task"]["id"] == f"{page['round']['round']}/load"
    again = stage.ask("retry", id="etl")["run"]
    assert again["task"] == "etl"


@pytest.mark.parametrize(
    ("question", "given", "code", "words"),
    [
        ("task", {"id": "beta"}, Code.UNKNOWN, "did you mean 'beat'?"),
        ("task", {"id": "x/y"}, Code.UNKNOWN, "no task has the id 'x/y'"),
        ("retry", {"id": "beat"}, Code.REFUSED, "it has not run yet"),
        ("retry", {"id": "etl"}, Code.REFUSED, "none of the rounds that are kept has failed"),
        ("pause", {"ids": []}, Code.USAGE, "name tasks, or a tag"),
        ("pause", {"ids": ["beat"], "until": "2020-01-01T00:00:00Z"}, Code.REFUSED, "give a time to come"),
        ("logs", {"id": "beat"}, Code.REFUSED, "no output is kept here"),
        ("fly", {}, Code.USAGE, "cannot be asked"),
        ("task", {"name": "beat"}, Code.USAGE, "unexpected keyword argument"),
        ("cancel", {"ids": ["beat", "nobody"]}, Code.UNKNOWN, "nobody"),
    ],
)
def test_a_refusal_comes_over_the_socket_with_its_code(
    stage: Stage, question: str, given: dict[str, Any], code: Code, words: str
) -> None:
    with pytest.raises(Refusal) as caught:
        stage.ask(question, **given)
    assert caught.value.code is code
    assert words in str(caught.value)
    assert stage.scheduler.get("beat").state == "pending", "nothing was half done"


def test_events_come_as_they_happen_and_end_with_the_scheduler(stage: Stage) -> None:
    stream = follow(stage.path, 0)
    assert next(stream)["source"]["pid"] == os.getpid()
    stage.ask("run_now", id="broken")
    assert [next(stream)["event"] for _ in range(2)] == ["started", "failed"]
    assert [event["event"] for event in stage.ask("events")["events"]][-2:] == ["started", "failed"]
    stage.close()
    assert {event["event"] for event in stream} == {"cancelled"}


def test_a_follower_that_goes_is_let_go_at_once(stage: Stage) -> None:
    """In life: nothing happens until the night, and each `events --follow | head` leaves a thread and a descriptor."""
    stream = follow(stage.path, 0)
    next(stream)
    answering = {thread for thread in threading.enumerate() if thread.name.startswith("tickless-answer")}
    assert answering
    stream.close()  # type: ignore[attr-defined]  # a generator
    for thread in answering:
        thread.join(60)
    assert [thread.name for thread in answering if thread.is_alive()] == []


def test_an_event_that_comes_while_the_past_is_told_comes_once(tmp_path: Path) -> None:
    """In life: a program counts the failures of a night, and counts some of them twice."""
    events = Broadcast()

    def where() -> dict[str, Any]:  # asked for between the beginning of listening and the first event
        events.observe([Event(EventKind.PAUSED, Instant(2))])
        return {}

    events.observe([Event(EventKind.PAUSED, Instant(1))])
    server = Server(tmp_path / "s", Subject(Scheduler(), events=events), where)
    stream = follow(tmp_path / "s", 10)
    next(stream)
    events.close()
    assert [event["at"][-4:] for event in stream] == ["001Z", "002Z"]
    server.close()


def test_more_connections_than_there_is_room_for_are_told_so(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """In life: a script that hangs takes a descriptor a minute, until no command can be started any more."""
    monkeypatch.setattr("tickless.control.server.MOST_CONNECTIONS", 2)
    followers = [follow(stage.path, 0) for _ in range(2)]
    for one in followers:
        next(one)
    with pytest.raises(Refusal, match="ask again when some have ended") as caught:
        stage.ask("health")
    assert caught.value.code is Code.UNREACHABLE


def test_who_says_nothing_is_let_go(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tickless.control.server.SILENCE_S", 0.001)
    with closing(socket.socket(socket.AF_UNIX)) as silent:
        silent.settimeout(60)
        silent.connect(str(stage.path))
        assert silent.recv(1) == b""


def test_without_a_free_descriptor_it_does_not_try_again_and_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In life: a thousand commands run, somebody calls `ls`, and one core is busy with nothing until they end."""
    listener = _Exhausted(socket.AF_UNIX)
    listener.bind(str(tmp_path / "s"))
    listener.listen()
    monkeypatch.setattr("tickless.control.server._bound", lambda path: listener)
    monkeypatch.setattr("tickless.control.server.PAUSE_S", FAR_S)
    server = Server(tmp_path / "s", Subject(Scheduler()), dict)
    server._closed = _Heard(listener.heard)
    listener.gate.set()
    assert listener.heard.get(timeout=60) == "waits"
    server.close()  # wakes it, and it ends


class _Exhausted(socket.socket):
    """A listener of a process that has no descriptor left when it is first asked, once the gate is open."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.gate, self.heard = threading.Event(), SimpleQueue[str]()

    def accept(self) -> Any:
        if self.gate.is_set():
            self.heard.put("tries again")
            return super().accept()
        self.gate.wait()
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


class _Heard(threading.Event):
    """Tells that somebody waits."""

    def __init__(self, heard: SimpleQueue[str]) -> None:
        super().__init__()
        self._heard = heard

    def wait(self, timeout: float | None = None) -> bool:
        self._heard.put("waits")
        return super().wait(timeout)


def test_the_socket_is_for_its_user_alone(stage: Stage) -> None:
    """In life: any user of the machine cancels the backups of root."""
    assert stat.S_IMODE(stage.path.stat().st_mode) == 0o600


def test_BUG_041_a_second_scheduler_of_the_same_file_is_refused(stage: Stage) -> None:
    """In life: two of them do every task twice, and commands reach one of them by chance."""
    with pytest.raises(Refusal, match="runs already") as caught:
        Server(stage.path, stage.subject, dict)
    assert caught.value.code is Code.REFUSED
    assert stage.ask("health")["healthy"]


def test_a_socket_that_a_dead_one_has_left_is_replaced(tmp_path: Path) -> None:
    """In life: after a kill -9 the scheduler is never reachable again."""
    path = tmp_path / "s"
    with closing(socket.socket(socket.AF_UNIX)) as dead:
        dead.bind(str(path))
    assert not is_answered(path)
    stage = Stage(path)
    assert is_answered(path)
    stage.close()
    assert not path.exists()


def test_a_file_that_is_no_socket_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "s"
    path.write_text("mine")
    with pytest.raises(Refusal, match="is there, and no socket"):
        Server(path, Subject(Scheduler()), dict)
    assert path.read_text() == "mine"


def test_nonsense_ends_its_own_connection_only(stage: Stage) -> None:
    for line in (
        b"\xff\xfe\n",
        b"[]\n",
        b"{}\n",
        b'{"v":1,"ask":3,"with":{}}\n',
        b"x" * (wire.LONGEST_QUESTION + 70_000),
    ):
        with closing(socket.socket(socket.AF_UNIX)) as connection:
            connection.connect(str(stage.path))
            try:
                connection.sendall(line)
                connection.shutdown(socket.SHUT_WR)
                list(wire.lines(connection))
            except OSError:  # it was cut off while we spoke
                pass
    assert stage.ask("health")["healthy"]


@pytest.mark.parametrize("question", ["task", "graph", "logs", "run_now", "cancel"])
@pytest.mark.parametrize("id", [None, 5, [], {}, ["beat"], {"id": "beat"}])
def test_values_that_fit_no_question_are_answered(stage: Stage, question: str, id: Any) -> None:
    """In life: the thread that answers dies with a traceback in the middle of the log, and who asked waits."""
    if question == "graph" and id is None:
        return  # of all tasks
    with pytest.raises(Refusal, match=r"Error|no output"):
        stage.ask(question, **({"ids": [id]} if question == "cancel" else {"id": id}))


def test_brackets_without_end_are_no_document() -> None:
    with pytest.raises(ValueError, match="too deeply"):
        wire.read(b"[" * 100_000)


@pytest.mark.parametrize("name", ["gone", "dead"])
def test_who_cannot_be_reached_is_told_so(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    if name == "dead":
        with closing(socket.socket(socket.AF_UNIX)) as dead:
            dead.bind(str(path))
    with pytest.raises(Refusal, match="no scheduler can be reached there") as caught:
        ask(path, "tasks", {})
    assert caught.value.code is Code.UNREACHABLE


def test_a_run_that_was_waited_for_is_told_when_it_is_stopped(tmp_path: Path) -> None:
    """Its end is CANCELLED, which is an end as well."""
    events, started = Broadcast(), threading.Event()
    scheduler = Scheduler(observers=[events])

    def until_stopped() -> None:
        started.set()
        current_run().stop_requested.wait()
        raise Stopped

    scheduler.schedule(until_stopped, every(seconds=FAR_S), id="polite")
    subject = Subject(scheduler, runs_here=True, events=events)
    with scheduler:
        ends: list[Any] = []
        waiting = threading.Thread(target=lambda: ends.append(answer(subject, "run_now", {"id": "polite", "wait": 0})))
        waiting.start()
        assert started.wait(60)
        scheduler.cancel("polite")
        waiting.join(60)
    assert [end["run"]["state"] for end in ends] == ["cancelled"]


def test_every_question_has_a_test_here() -> None:
    source = Path(__file__).read_text("utf-8")
    assert [name for name in ANSWERS if f'"{name}"' not in source] == []
