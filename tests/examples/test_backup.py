"""examples/backup: a crontab's worth of real work, by the command, and its files checked by another way."""

from __future__ import annotations

import gzip
import hashlib
import io
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from tickless.taskfile.read import read

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "backup"
NEEDED = ("sh", "tar", "gzip", "sha256sum")

pytestmark = pytest.mark.skipif(any(shutil.which(one) is None for one in NEEDED), reason=f"needs {', '.join(NEEDED)}")


def backup(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tickless", "run-now", "-f", "tasks.toml", "dump"],
        cwd=folder,
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copytree(EXAMPLE, tmp_path / "backup", ignore=shutil.ignore_patterns("out"))
    return tmp_path / "backup"


def test_the_archive_is_whole_and_its_sum_is_right(folder: Path) -> None:
    done = backup(folder)
    packed = (folder / "out" / "data.tar.gz").read_bytes()
    assert (folder / "out" / "SHA256SUMS").read_text().split() == [hashlib.sha256(packed).hexdigest(), "data.tar.gz"]
    with tarfile.open(fileobj=io.BytesIO(gzip.decompress(packed))) as archive:
        found = {member.name: archive.extractfile(member) for member in archive if member.isfile()}
        for path in (EXAMPLE / "data").iterdir():
            file = found.pop(f"data/{path.name}")
            assert file is not None
            assert file.read() == path.read_bytes()
    assert found == {}
    assert "data.tar.gz: OK" in done.stdout


def test_the_step_that_fails_is_tried_again_and_told_and_the_rest_is_tidied(folder: Path) -> None:
    """In life: a disk is not mounted, everybody believes in the backup, and the big file stays for ever."""
    done = backup(folder)
    assert done.returncode == 1
    alerts = (folder / "out" / "alerts").read_text().splitlines()
    assert len(alerts) == 1, "once, after the last attempt"
    assert alerts[0].startswith("dump@")
    assert alerts[0].endswith("/offsite: CommandFailed: exit code 75: offsite is not mounted")
    assert done.stderr.count("attempt 1, and again") == 1
    assert not (folder / "out" / "data.tar").exists()


def test_with_the_disk_all_is_well(folder: Path) -> None:
    (folder / "offsite").mkdir()
    done = backup(folder)
    assert done.returncode == 0
    assert (folder / "offsite" / "data.tar.gz").read_bytes() == (folder / "out" / "data.tar.gz").read_bytes()
    assert not (folder / "out" / "alerts").exists()


def test_it_is_one_flow_and_one_task_that_stands_alone() -> None:
    file = read(EXAMPLE / "tasks.toml")
    assert [getattr(part, "id", None) or getattr(part, "name", None) for part in file.parts] == ["dump", "report"]
    assert file.warnings == ()
