"""`import crontab`: a task file that does what a crontab did."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import click

from tickless.cli.page import Page
from tickless.cli.settings import settings
from tickless.control.refusals import Code, Refusal
from tickless.taskfile.crontab import read_crontab
from tickless.taskfile.write import to_toml


@click.group(name="import")
def import_() -> None:
    """Write a task file from what you have."""


@import_.command(
    epilog="""\b
examples:
  tickless import crontab > tasks.toml
  tickless import crontab /etc/crontab -o tasks.toml
  crontab -l | tickless import crontab -
"""
)
@click.argument("file", required=False)
@click.option("-o", "--output", metavar="PATH", help="Write it there, and not to standard output.")
@click.option("--user-column/--no-user-column", default=None, help="Whether lines name a user; else guessed.")
def crontab(file: str | None, output: str | None, user_column: bool | None) -> int:
    """Write a crontab as a task file: FILE, `-` for standard input, or without one that of `crontab -l`.

    Comments above a line become descriptions. What has no counterpart, such as MAILTO, is told on standard error.
    """
    path, text = _crontab(file)
    found = read_crontab(path, text, user_column=user_column)
    written = to_toml(found)
    said = settings()
    if output is not None:
        _write(Path(output), written, overwrite=said.yes)
    if said.json:
        Page().document(
            "import",
            {
                "from": str(path),
                "to": output,
                "tasks": [task.name for task in found.tasks],
                "warnings": list(found.warnings),
                "toml": written,
            },
        )
        return Code.DONE
    for warning in found.warnings:
        print(f"tickless: {path}: {warning}", file=sys.stderr)
    if output is None:
        print(written, end="")
    elif not said.quiet:
        print(f"{output}: {len(found.tasks)} tasks; tickless preview {output} shows when they fire")
    return Code.DONE


def _crontab(file: str | None) -> tuple[Path, str]:
    if file == "-":
        return Path("standard input"), sys.stdin.read()
    if file is not None:
        try:
            return Path(file), Path(file).read_text("utf-8", errors="surrogateescape")
        except OSError as error:
            raise Refusal(Code.NOT_LOADED, "file", f"{file}: cannot be read: {error.strerror}") from None
    try:
        done = subprocess.run(["crontab", "-l"], capture_output=True, encoding="utf-8", errors="replace", check=False)
    except OSError as error:
        raise Refusal(
            Code.NOT_LOADED, "file", f"crontab -l: {error.strerror}; name the file: tickless import crontab FILE"
        ) from None
    if done.returncode:
        raise Refusal(Code.NOT_LOADED, "file", f"crontab -l: {done.stderr.strip() or 'there is no crontab'}")
    return Path("crontab of this user"), done.stdout


def _write(path: Path, text: str, *, overwrite: bool) -> None:
    try:
        with open(path, "w" if overwrite else "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise Refusal(Code.REFUSED, "there", f"{path}: is there already; --yes writes over it") from None
    except OSError as error:
        raise Refusal(Code.FAILED, "system", f"{path}: cannot be written: {os.strerror(error.errno or 0)}") from None
