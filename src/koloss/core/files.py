"""Files that are replaced whole: whoever reads one finds all of the former contents or all of the new. Locks."""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

# Here rather than where it is used: what closes a store while the interpreter ends can import nothing any more.
if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

PARTS = ".koloss-*.part"
"""Names of files that are still being written."""


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """A file to write to, which takes the place of `path` at the end; where anything fails, `path` stays as it was.

    What is written is on the disk before it is called `path`, and so is the name afterwards. A link is followed. Any number
    of processes may write to one path: the last one to end has it.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "numbers.txt"
    ...     with replacing(path) as file:
    ...         written = file.write(b"1, 2, 3")
    ...         there = path.exists()
    ...     there, path.read_text()
    (False, '1, 2, 3')
    """
    target = Path(os.path.realpath(path))
    part = target.with_name(_parts_of(target).replace("*", secrets.token_hex(8)))
    try:
        # Not by `tempfile`, whose files are for their owner alone.
        with naming(path, part):
            with open(part, "xb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(part, target)
    except BaseException:
        with contextlib.suppress(OSError):
            part.unlink()
        raise
    sync_folder(target.parent)


@contextmanager
def naming(path: str | os.PathLike[str], part: Path | None = None) -> Iterator[None]:
    """Let an error of the system name the file that it is about: that of a full disk names none, or the `part` of it."""
    try:
        yield
    except OSError as error:
        if error.errno is not None and error.filename in (None, str(part)):
            error.filename = str(path)
            del error.filename2  # of one that is set to None the message would speak
        raise


def clear_parts(path: str | os.PathLike[str]) -> None:
    """Remove what processes have left that were killed while they wrote to this path; for whoever alone writes to it."""
    target = Path(os.path.realpath(path))
    with contextlib.suppress(OSError):
        for stray in target.parent.glob(_parts_of(target)):
            stray.unlink(missing_ok=True)


def _parts_of(target: Path) -> str:
    """Their names; not by that of the file, which may be as long as a name can be."""
    return PARTS.replace("*", f"{hashlib.sha256(target.name.encode()).hexdigest()[:16]}-*")


def lock(descriptor: int, *, wait: bool = False) -> None:
    """Lock an open file, for as long as it is open and its process lives; where another has it, wait or raise an OSError."""
    if sys.platform == "win32":
        os.lseek(descriptor, 1 << 20, os.SEEK_SET)  # beyond what is written
        msvcrt.locking(descriptor, msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1)
    else:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Replace a file by one that holds a text."""
    with replacing(path) as file:
        file.write(text.encode())


def sync_folder(folder: Path) -> None:
    """Have the names of the files in a folder on the disk."""
    # The file is in its place; a system that cannot do this for a folder (Windows, some networks) is no reason to fail.
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
