"""Why the system would not start a command, and what a person can do about it."""

from __future__ import annotations

import errno
import os
import shutil

from tickless.commands.command import Command
from tickless.errors import shown
from tickless.observe.text import printable

_SHORT = {
    errno.EMFILE: "too many files are open; raise `ulimit -n`, or give the pool fewer slots",
    errno.ENFILE: "the machine has too many files open; give the pool fewer slots",
    errno.EAGAIN: "there are too many processes; raise `ulimit -u`, or give the pool fewer slots",
    errno.ENOMEM: "there is no memory left; give the pool fewer slots, or the machine more",
    errno.E2BIG: "its arguments and its environment are too long for the system; put them into a file, or on stdin",
    errno.ENOSPC: "there is no room for its standard input; make some, or give it less",
}


def why_not(command: Command, error: Exception) -> str:
    """One line: the thing, the value and the way out."""
    program = command.arguments[0]
    name = printable(program)
    if not isinstance(error, OSError):
        return f"cannot be started: {printable(str(error))}: {name}; take that out of its text, arguments or env"
    if error.errno in _SHORT:
        return f"cannot be started: {_SHORT[error.errno]}"
    said = error.strerror or str(error)
    if command.cwd is not None and error.filename == command.cwd and not _is_entered(command.cwd):
        return f"cannot be started: cwd={shown(command.cwd)}: {said.lower()}; make the folder, or give another"
    if isinstance(error, FileNotFoundError):
        if _is_there(program, command):
            return (
                f"cannot be started: {name} is there, and the interpreter in its first line (#!) is not; correct that"
            )
        return f"cannot be started: no program {name} is found; give its whole path, or PATH in env"
    if error.errno == errno.ENOEXEC:
        return f"cannot be started: {name} is no program; begin it with a line such as #!/bin/sh"
    if isinstance(error, PermissionError) and error.filename is None and command.user is not None:
        return f"cannot be started: user {printable(command.user)}: {said.lower()}; run as root, or leave it out"
    if isinstance(error, PermissionError):
        return f"cannot be started: {name} may not be executed: {said.lower()}; chmod +x it, or give another"
    return f"cannot be started: {name}: {said.lower()}; give another program"


def _is_entered(folder: str) -> bool:
    return os.path.isdir(folder) and os.access(folder, os.X_OK)


def _is_there(program: str, command: Command) -> bool:
    path = dict(command.env).get("PATH", os.environ.get("PATH"))
    if os.sep in program:
        return os.path.exists(os.path.join(command.cwd or "", program))
    return shutil.which(program, path=path) is not None
