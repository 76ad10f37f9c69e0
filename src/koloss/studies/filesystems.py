"""Which file system a path is on: SQLite's log needs memory that all its processes share, which a network cannot give."""

from __future__ import annotations

import os
import re
from pathlib import Path

NETWORK = frozenset(
    [
        "9p",
        "acfs",
        "afs",
        "beegfs",
        "ceph",
        "cifs",
        "coda",
        "davfs",
        "dfs",
        "gfs",
        "gfs2",
        "glusterfs",
        "gpfs",
        "lustre",
        "ncpfs",
        "nfs",
        "nfs3",
        "nfs4",
        "ocfs2",
        "orangefs",
        "pvfs2",
        "smb",
        "smb2",
        "smb3",
        "smbfs",
        "vboxsf",
        "webdav",
    ]
)
"""Types of file systems that several machines can write to, as the mount table calls them."""

MOUNTS = Path("/proc/self/mountinfo")


def kind_of(path: str | os.PathLike[str], table: Path = MOUNTS) -> str | None:
    """The type of the file system that a path is on, by the mount table; None where there is no such table."""
    try:
        lines = table.read_bytes().decode(errors="surrogateescape").splitlines()
    except OSError:
        return None
    place = Path(os.path.realpath(path))
    longest, kind = -1, None
    for line in lines:
        before, dash, after = line.partition(" - ")
        fields = before.split(" ")
        if not dash or len(fields) < 5:
            continue
        # Blanks and the like are written as three octal digits.
        mount = Path(re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), fields[4]))
        if place.is_relative_to(mount) and len(mount.parts) >= longest:
            longest, kind = len(mount.parts), after.split(" ")[0]  # the last mounted hides others
    return kind


def is_network(kind: str | None) -> bool:
    """Whether a type of file system is shared by machines; whatever a program serves (FUSE) counts as one, blocks apart."""
    if kind is None:
        return False
    return kind in NETWORK or kind == "fuse" or kind.startswith("fuse.")
