"""The folder of the sockets, as it is found on machines."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.stage import Stage
from tickless.control import paths
from tickless.control.refusals import Code, Refusal


@pytest.mark.parametrize("place", ["taken", "taken/below", "open"])
def test_a_folder_that_cannot_be_ours_is_refused(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "taken").touch()
    (tmp_path / "open").mkdir(mode=0o755)
    monkeypatch.setenv("TICKLESS_RUNTIME_DIR", str(tmp_path / place))
    with pytest.raises(Refusal, match="set TICKLESS_RUNTIME_DIR to one of your own") as caught:
        paths.made_folder()
    assert caught.value.code is Code.UNREACHABLE


def test_a_file_runs_where_no_folder_for_its_socket_can_be_made(tmp_path: Path) -> None:
    """In life: a container has no place to write to, and "cannot write: Read-only file system" is all that happens."""
    stage = Stage(tmp_path)
    stage.write("tasks.toml", '[tasks.a]\nrun = "echo done"\n')
    stage.environment["TICKLESS_RUNTIME_DIR"] = str(stage.write("taken", ""))
    ended = stage.call("run", "tasks.toml")
    assert ended.returncode == 0, ended.stderr
    assert "other commands cannot reach it" in ended.stderr
    assert "| done" in ended.stdout
