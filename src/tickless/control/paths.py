"""Where the socket of a running scheduler is: in a folder of the user's own, under a name made from what it runs."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path

from tickless.control.refusals import Code, Refusal

LONGEST = 100
"""In bytes: an address has room for 107 on Linux, and for 103 on macOS."""
SUFFIX = ".sock"


def folder() -> Path:
    """The user's own folder for sockets: `$TICKLESS_RUNTIME_DIR`, `$XDG_RUNTIME_DIR/tickless`, or one in /tmp."""
    given = os.environ.get("TICKLESS_RUNTIME_DIR")
    if given:
        return Path(given)
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime and Path(runtime).is_dir():
        return Path(runtime) / "tickless"
    return Path(os.environ.get("TMPDIR") or "/tmp") / f"tickless-{os.getuid()}"


def made_folder() -> Path:
    """The folder, made where it is not there. Raises Refusal where it cannot be, is another's, or open to others."""
    path = folder()
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = path.stat()
    except OSError as error:
        raise Refusal(
            Code.UNREACHABLE,
            "socket",
            f"{path}: no folder for sockets can be made there: {error.strerror}; "
            "set TICKLESS_RUNTIME_DIR to one of your own (0700)",
        ) from None
    if found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o077:
        raise Refusal(
            Code.UNREACHABLE,
            "socket",
            f"{path}: is another user's folder, or open to others; set TICKLESS_RUNTIME_DIR to one of your own (0700)",
        )
    return path


def socket_of(target: str) -> Path:
    """Where the scheduler of that file has its socket: the same for every way to write the file's path.

    `tasks.py:night` is another than `tasks.py:day`.
    """
    file, colon, name = target.rpartition(":")
    path, name = (file, name) if colon and name.isidentifier() else (target, "")
    real = os.path.realpath(path)
    digest = blake2b(f"{real}:{name}".encode(errors="surrogateescape"), digest_size=6).hexdigest()
    stem = "".join(letter if letter.isalnum() and letter.isascii() else "-" for letter in Path(real).stem)[:24]
    return folder() / f"{stem}-{digest}{SUFFIX}"


def sockets() -> Iterator[Path]:
    """Every socket in the user's folder, answered or left behind, in the order of their names."""
    try:
        names = sorted(os.listdir(folder()))
    except OSError:
        return
    for name in names:
        if name.endswith(SUFFIX):
            yield folder() / name
