"""Which file system a file lies on. Linux only: elsewhere nothing is known, and nothing is refused."""

from __future__ import annotations

import os
import re
from pathlib import Path

MOUNTS = Path("/proc/self/mountinfo")
NETWORK = frozenset(
    {"9p", "afs", "ceph", "cifs", "coda", "davfs", "glusterfs", "lustre", "ncpfs", "nfs", "nfs4", "smb3", "smbfs"}
    | {"beegfs", "gpfs", "orangefs", "pvfs2"}
    | {f"fuse.{kind}" for kind in ("ceph", "davfs", "gcsfuse", "glusterfs", "rclone", "s3fs", "sshfs", "smbnetfs")}
)
"""File systems whose files may be open on several machines, which share no memory."""
_ESCAPED = re.compile(r"\\([0-7]{3})")


def file_system_of(folder: str, mounts: str) -> str | None:
    """The type of the file system that `folder`, an absolute path without links, lies on; None when it is not listed.

    `mounts` is the text of mountinfo. Of two mounts on one point the later one is what is seen.
    """
    found, length = None, -1
    for line in mounts.splitlines():
        fields, _, rest = line.partition(" - ")
        parts = fields.split(" ")
        if len(parts) < 5 or not rest:
            continue
        point = _ESCAPED.sub(lambda match: chr(int(match[1], 8)), parts[4])
        is_over = folder == point or folder.startswith(point.rstrip("/") + "/")
        if is_over and len(point) >= length:
            found, length = rest.split(" ")[0], len(point)
    return found


def network_file_system(folder: str) -> str | None:
    """The type of the network file system that the folder lies on; None when it lies on none, or nothing is known."""
    try:
        mounts = MOUNTS.read_text("utf-8", errors="surrogateescape")
    except OSError:
        return None
    kind = file_system_of(os.path.realpath(folder), mounts)
    return kind if kind in NETWORK else None
