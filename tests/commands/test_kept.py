"""What is kept of outputs: how much, of how many runs, in memory and in files."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.commands.world import FOREVER, end_of, fifo, shell
from tickless import State
from tickless.commands import kept
from tickless.commands.files import place_of
from tickless.commands.kept import HEAD, SLACK, TAIL, KeptOutput, Outputs, base_of
from tickless.instants import Instant

NOON = datetime(2026, 12, 1, 12, tzinfo=UTC)


def printed(outputs: Outputs, number: int, *pieces: bytes, task: str = "dump", end: bool = True) -> KeptOutput:
    """A run of the task that began `number` seconds after noon."""
    began = NOON + timedelta(seconds=number)
    output = outputs.begin(task, f"{task}@{number}", began, 1)
    output.started = began
    for piece in pieces:
        outputs.add(output, piece)
    if end:
        outputs.end(output, "succeeded", 0, Instant(0))
    return output


@pytest.mark.parametrize("piece", [1, 1_000, 65_536, 10_000_000])
def test_the_beginning_and_the_end_are_kept_and_what_is_between_is_counted(piece: int) -> None:
    """However it comes: byte by byte it may take no more memory than in one piece."""
    data = b"".join(b"%07d\n" % n for n in range(65_536 if piece == 1 else 125_000))
    output = KeptOutput("t", "r", None, 1)
    for at in range(0, len(data), piece):
        output.add(data[at : at + piece])
        assert output.weight <= HEAD + TAIL + SLACK + kept.OVERHEAD + (piece if piece > SLACK else 0)
    left_out = len(data) - HEAD - TAIL
    assert output.data == data[:HEAD] + f"\n... {left_out:,} bytes left out ...\n".encode() + data[-TAIL:]
    assert output.size == len(data)


def test_what_fits_is_kept_whole() -> None:
    data = os.urandom(HEAD + TAIL)
    output = KeptOutput("t", "r", None, 1)
    output.add(data)
    assert output.data == data


def test_the_newest_runs_of_each_task_are_kept() -> None:
    """A task of every second must not push out that of every night."""
    outputs = Outputs(keep_runs=3)
    printed(outputs, 0, b"night", task="night")
    for number in range(10):
        printed(outputs, number, b"x")
    assert [one.run for one in outputs.of("dump")] == ["dump@7", "dump@8", "dump@9"]
    assert [one.text for one in outputs.of("night")] == ["night"]
    assert outputs.of("other") == []


def test_what_runs_is_kept_however_many_run() -> None:
    """The one that hangs is the one that is looked at."""
    outputs = Outputs(keep_runs=2)
    hangs = printed(outputs, 0, b"hangs", end=False)
    for number in range(1, 5):
        printed(outputs, number)
    assert [one.run for one in outputs.of("dump")] == ["dump@0", "dump@4"]
    outputs.end(hangs, "succeeded", 0, Instant(0))
    assert len(outputs.of("dump")) == 2


def test_memory_is_bounded_for_all_tasks_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty runs of each of ten thousand tasks are fifty gigabytes."""
    monkeypatch.setattr(kept, "MOST_BYTES", 10_000)
    outputs = Outputs()
    for number in range(100):
        printed(outputs, number, b"x" * 1_000, task=f"t{number}")
    left = [number for number in range(100) if outputs.of(f"t{number}")]
    assert left == [96, 97, 98, 99]
    assert len(outputs._by_task) == len(outputs._ended) == 4
    assert outputs._weight <= 10_000


def test_a_task_of_a_flow_is_one_task_whichever_round_it_is_of() -> None:
    """Each round's tasks have ids of their own."""
    assert base_of("etl@2026-12-01T02:30:00Z/load") == "etl/load"
    assert base_of("mail@home") == "mail@home"
    outputs = Outputs()
    for number in range(3):
        id = f"etl@2026-12-0{number + 1}T02:30:00Z/load"
        outputs.end(outputs.begin(id, id, None, 1), "succeeded", 0, Instant(0))
    assert len(outputs.of("etl/load")) == 3
    assert [one.run for one in outputs.of("etl@2026-12-02T02:30:00Z/load")] == ["etl@2026-12-02T02:30:00Z/load"]


def test_it_can_be_read_while_it_runs(tmp_path: Path) -> None:
    with shell() as sh, fifo(tmp_path) as up:
        task = sh.start(f"echo so far; echo up > {up.path}; exec {FOREVER}")
        up.word()
        assert sh.printed("echo fine") == "fine\n"  # the loop has been round
        output = sh.output(task)
        assert (output.text, output.ended, output.ending, output.code) == ("so far\n", None, None, None)
        task.cancel()
        end_of(task)
        assert output.ended is not None


# In files


def test_another_process_reads_what_was_kept(tmp_path: Path) -> None:
    """`tickless logs --store` is another process, and this one may be gone."""
    with shell(folder=tmp_path / "out") as sh:
        assert end_of(sh.start("echo one; echo two; exit 3", id="a/b")).state is State.FAILED
    program = (
        "import sys; from pathlib import Path; from tickless.commands.kept import Outputs\n"
        "(one,) = Outputs(Path(sys.argv[1])).of('a/b')\n"
        "print(one.text, one.ending, one.code, one.size, one.attempt, one.run[:4], one.started < one.ended)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "out")], capture_output=True, text=True, check=True
    )
    assert done.stdout == "one\ntwo\n exit code 3 3 8 1 a/b@ True\n"


def test_another_process_sees_the_beginning_of_what_runs(tmp_path: Path) -> None:
    outputs = Outputs(tmp_path)
    output = printed(outputs, 0, b"so ", b"far", end=False)
    outputs.flush()
    (there,) = Outputs(tmp_path).of("dump")
    assert (there.text, there.ended, there.ending, there.size) == ("so far", None, None, 6)
    outputs.end(output, "exit code 1", 1, Instant(0))
    outputs.flush()
    (there,) = Outputs(tmp_path).of("dump")
    assert (there.ending, there.code) == ("exit code 1", 1)


def test_files_are_pruned_and_are_the_owners_alone(tmp_path: Path) -> None:
    """What a command prints may be a password."""
    outputs = Outputs(tmp_path / "out", keep_runs=2)
    for number in range(5):
        printed(outputs, number, b"x%d" % number)
        outputs.flush()
    place = place_of(tmp_path / "out", "dump")
    files = sorted(place.iterdir())
    assert [one.text for one in Outputs(tmp_path / "out").of("dump")] == ["x3", "x4"]
    assert len(files) == 2
    assert {stat.S_IMODE(one.stat().st_mode) for one in files} == {0o600}
    assert stat.S_IMODE(place.stat().st_mode) == 0o700


@pytest.mark.parametrize("id", ["../../etc/x", ".", "..", "a\nb", "\u00fc" * 300, "x" * 500, "\ud800"])
def test_any_id_has_a_folder_of_its_own(tmp_path: Path, id: str) -> None:
    """An id is a user's text, and no path."""
    outputs = Outputs(tmp_path / "out")
    printed(outputs, 0, b"here", task=id)
    printed(outputs, 0, b"there", task=f"{id}2")
    outputs.flush()
    assert [one.text for one in Outputs(tmp_path / "out").of(id)] == ["here"]
    assert place_of(tmp_path, id).parent == tmp_path
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out"]


@pytest.mark.parametrize("damage", [b"", b"{}", b"no json\nx", b'{"v": 2}\nx', b"[]\n", b"\xff\n"])
def test_a_damaged_file_is_left_out(tmp_path: Path, damage: bytes) -> None:
    outputs = Outputs(tmp_path)
    printed(outputs, 0, b"whole")
    outputs.flush()
    (place_of(tmp_path, "dump") / "20200101T000000.000000-1.log").write_bytes(damage)
    assert [one.text for one in Outputs(tmp_path).of("dump")] == ["whole"]


def test_a_folder_that_takes_nothing_is_told_of_once_and_fails_no_run(tmp_path: Path) -> None:
    """A full disk, a read-only one: once, and again when it had been well meanwhile."""
    folder, told = tmp_path / "out", list[str]()
    folder.write_text("a file is here")
    outputs = Outputs(folder, tell=told.append)
    for number in range(3):
        printed(outputs, number, b"x")
        outputs.flush()
    assert len(told) == 1
    assert str(folder) in told[0]
    assert [one.text for one in outputs.of("dump")] == ["x"] * 3
    folder.unlink()
    printed(outputs, 3)
    outputs.flush()
    assert len(Outputs(folder).of("dump")) == 1
    assert len(told) == 1


def test_who_is_told_may_raise(tmp_path: Path) -> None:
    """It is foreign code: what waits for the files must not wait for ever."""

    def tell(_: str) -> None:
        raise ValueError("broken")

    (tmp_path / "out").write_text("")
    outputs = Outputs(tmp_path / "out", tell=tell)
    printed(outputs, 0, b"x")
    outputs.flush()
    assert [one.text for one in outputs.of("dump")] == ["x"]


def test_two_schedulers_keep_their_outputs_in_one_folder(tmp_path: Path) -> None:
    """Processes on one store: each prunes, and finds files gone."""
    one, other = Outputs(tmp_path, keep_runs=3), Outputs(tmp_path, keep_runs=3)
    for number in range(6):
        printed(one if number % 2 else other, number, b"%d" % number)
        one.flush()
        other.flush()
    assert [kept.text for kept in Outputs(tmp_path, keep_runs=3).of("dump")] == ["3", "4", "5"]
