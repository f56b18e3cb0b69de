"""What Python tasks print while standard output carries JSON lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.stage import Stage, checked

SAY = """
import sys
print("imported")
def say():
    print("one", 2, "ä")
    sys.stdout.write("no end")
    print("beside", file=sys.stderr)
"""
APP = """
import tickless
scheduler = tickless.Scheduler()
scheduler.schedule(say, id="say")
"""


@pytest.mark.parametrize("words", [("run", "say.toml"), ("run-now", "say", "-f", "say.toml"), ("run", "app.py")])
def test_each_line_of_standard_output_is_a_document(tmp_path: Path, words: tuple[str, ...]) -> None:
    """In life: `tickless run --json | jq` ends at the first print of the first task."""
    stage = Stage(tmp_path)
    stage.write("say.py", SAY)
    stage.write("app.py", SAY + APP)
    stage.write("say.toml", '[tasks.say]\npython = "say:say"\n')
    done = stage.call(*words, "--json")
    assert (done.returncode, done.stderr) == (0, "beside\n" if words[0] == "run" else "imported\nbeside\n")
    documents = [checked(line) for line in done.stdout.splitlines()]
    lines = [(one["task"], one["line"]) for one in documents if one["kind"] == "output"]
    assert lines == [("say", "one 2 ä"), ("say", "no end")]
    run = next(one["run"] for one in documents if one["kind"] == "event")
    assert {one["run"] for one in documents if one["kind"] == "output"} == {run}
    if words[0] == "run":
        assert next(one["message"] for one in documents if one["kind"] == "note") == "imported"


@pytest.mark.parametrize("words", [("ls", "-f", "say.toml"), ("ls", "--app", "app.py"), ("doctor", "-f", "say.toml")])
def test_what_is_printed_at_the_import_is_no_part_of_the_document(tmp_path: Path, words: tuple[str, ...]) -> None:
    stage = Stage(tmp_path)
    stage.write("say.py", SAY)
    stage.write("app.py", SAY + APP)
    stage.write("say.toml", '[tasks.say]\npython = "say:say"\n')
    done = stage.call(*words, "--json")
    checked(done.stdout)
    assert done.stderr == "imported\n"
