"""A scheduler that runs in a process of its own, for commands to look at; and what they say held against the schema."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

from tests.cli.command import COMMAND, PATIENCE_S, wait_for

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = ROOT / "src" / "tickless" / "cli" / "documents.schema.json"


@cache
def validator() -> Draft202012Validator:
    schema = json.loads(SCHEMA.read_text("utf-8"))
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def checked(text: str) -> dict[str, Any]:
    """The document, once it fits the schema of its kind."""
    document: dict[str, Any] = json.loads(text)
    schema = validator().schema
    names = {
        part["properties"]["kind"]["const"]: name
        for name, part in schema["$defs"].items()
        if "const" in part.get("properties", {}).get("kind", {})
    }
    of_kind = {"$ref": f"#/$defs/{names[document['kind']]}", "$defs": schema["$defs"]}
    Draft202012Validator(of_kind).validate(document)  # by its kind, so that the message is about that
    return document


class Stage:
    """A folder with files of its own, a place for sockets, and commands that are called there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {
            **{
                name: value for name, value in os.environ.items() if not name.startswith(("TICKLESS", "XDG", "COLUMNS"))
            },
            "TICKLESS_RUNTIME_DIR": str(folder / "run"),
            "TZ": "UTC",
            "NO_COLOR": "1",
        }

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        return path

    def call(self, *arguments: str, given: str | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*COMMAND, *arguments],
            input=given,
            stdin=subprocess.DEVNULL if given is None else None,
            capture_output=True,
            encoding="utf-8",
            errors="surrogateescape",
            timeout=PATIENCE_S,
            check=False,
            cwd=self.folder,
            env=self.environment,
        )

    def done(self, *arguments: str, code: int = 0) -> str:
        """What it said on standard output; the exit code is that, and standard error is empty where all went well."""
        result = self.call(*arguments)
        assert result.returncode == code, (result.stdout, result.stderr)
        assert "Traceback" not in result.stderr
        if code == 0:
            assert result.stderr == ""
        return result.stdout

    def json(self, *arguments: str, code: int = 0) -> dict[str, Any]:
        return checked(self.done(*arguments, "--json", code=code))

    def refused(self, *arguments: str, code: int) -> str:
        """The message on standard error; nothing is on standard output. With --json it is the same, as a document."""
        plain, as_json = self.call(*arguments), self.call(*arguments, "--json")
        assert (plain.returncode, plain.stdout) == (code, ""), plain
        assert (as_json.returncode, as_json.stdout) == (code, ""), as_json
        error = checked(as_json.stderr)["error"]
        assert error["code"] == code
        assert "Traceback" not in plain.stderr
        assert plain.stderr.startswith("tickless: ")
        return str(error["message"])

    @contextmanager
    def running(self, target: str, *more: str) -> Iterator[subprocess.Popen[str]]:
        """`tickless run` of that, reachable by the commands."""
        pipe = subprocess.PIPE
        with subprocess.Popen(
            [*COMMAND, "run", target, *more],
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            encoding="utf-8",
            errors="replace",
            cwd=self.folder,
            env=self.environment,
            bufsize=1,
        ) as process:
            try:
                yield process
            finally:  # gracefully, or its commands would be nobody's
                if process.poll() is None:
                    process.terminate()
                    try:
                        process.communicate(timeout=PATIENCE_S)
                    except subprocess.TimeoutExpired:
                        process.kill()


def stop(process: subprocess.Popen[str], number: int) -> tuple[int, str, str]:
    """Send it the signal; how it ended, and what it had still to say."""
    process.send_signal(number)
    out, err = process.communicate(timeout=PATIENCE_S)
    return process.returncode, out, err


__all__ = ["ROOT", "SCHEMA", "Stage", "checked", "stop", "validator", "wait_for"]
