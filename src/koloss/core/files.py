"""Files that are replaced whole: whoever reads one finds all of the former contents or all of the new. Locks."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import secrets
import stat
import sys
import time
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

PRIVATE = 0o600
"""Mode of files that hold what users of a service have said or done: for their owner alone."""


@contextmanager
def replacing(path: str | os.PathLike[str], *, private: bool = False) -> Iterator[IO[bytes]]:
    """A file to write to, which takes the place of `path` at the end; where anything fails, `path` stays as it was.

    What is written is on the disk before it is called `path`, and so is the name afterwards. A link is followed. Any number
    of processes may write to one path: the last one to end has it. A `private` file is for its owner alone, unless it
    replaces one with other rights.

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
            mode = 0o666
            if private:
                mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else PRIVATE
            with open(part, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
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


@contextmanager
def locked(
    path: str | os.PathLike[str], *, wait: float | None = None, remove: bool = False
) -> Iterator[int]:
    """One thread of one process at a time has the lock on a file, which is made where it is missing; its descriptor.

    The lock ends with its process, whatever ends that, so no lock is ever left behind. A fork does not have its parent's.

    Parameters
    ----------
    path : path
        Of a file that is there for the lock alone.
    wait : float, optional
        Seconds to wait. By default there is no limit, and those who wait get the lock in their order.
    remove : bool
        Remove the file at the end.

    Raises
    ------
    BlockingIOError
        Where another has the lock, and the time is over.
    OSError
        As the operating system says, also where the path is no ordinary file, or its file system knows no locks.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, locked(f"{folder}/lock"):
    ...     with locked(f"{folder}/lock", wait=0):
    ...         pass
    Traceback (most recent call last):
        ...
    BlockingIOError: ...
    """
    until = None if wait is None else time.monotonic() + wait
    while True:
        with naming(path):
            descriptor = _open_lock(path)
        _held.add(descriptor)
        try:
            with naming(path):
                _lock(descriptor, until)
            with contextlib.suppress(FileNotFoundError):
                # Where somebody has removed the file meanwhile, others wait at another one.
                if os.path.samestat(os.fstat(descriptor), os.stat(path)):
                    try:
                        yield descriptor
                        return
                    finally:
                        if remove:  # where an open file cannot be removed it stays
                            with contextlib.suppress(OSError):
                                os.unlink(path)
        finally:
            if descriptor in _held:  # a fork has let go of it
                try:
                    _held.discard(descriptor)
                    _unlock(descriptor)
                finally:  # even where an interrupt comes just now
                    os.close(descriptor)


_held: set[int] = set()
"""Descriptors of this process's locks."""


def _let_go() -> None:
    """In a fork: its parent has these locks, and should not keep them after its death because a child has a copy."""
    while _held:
        with contextlib.suppress(OSError):
            os.close(_held.pop())


if hasattr(os, "register_at_fork"):  # where there are forks
    os.register_at_fork(after_in_child=_let_go)


def _open_lock(path: str | os.PathLike[str]) -> int:
    # Without O_CREAT, which Linux refuses for a file of another user in a folder like /tmp. A pipe would be waited at.
    flags = os.O_RDWR | getattr(os, "O_NONBLOCK", 0)
    while True:
        try:
            try:
                descriptor = os.open(path, flags)
            except PermissionError:
                descriptor = os.open(path, flags & ~os.O_RDWR | os.O_RDONLY)
        except FileNotFoundError:
            with contextlib.suppress(FileExistsError):
                return os.open(path, flags | os.O_CREAT | os.O_EXCL, PRIVATE)
            if os.path.islink(path):
                raise
            continue
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise OSError(errno.EINVAL, "not an ordinary file", os.fspath(path))
        return descriptor


def _lock(descriptor: int, until: float | None) -> None:
    """Lock an open file; where another has it, wait in line, or until a time and then raise a BlockingIOError."""
    pause = 1e-3
    while True:
        try:
            if sys.platform == "win32":
                os.lseek(descriptor, 1 << 20, os.SEEK_SET)  # beyond what is written
                msvcrt.locking(descriptor, msvcrt.LK_LOCK if until is None else msvcrt.LK_NBLCK, 1)
            else:
                fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if until is None else fcntl.LOCK_NB))
            return
        except (BlockingIOError, PermissionError) as error:
            if until is None or time.monotonic() + pause > until:
                raise BlockingIOError(errno.EAGAIN, "another has the lock") from error
        time.sleep(pause)
        pause = min(2 * pause, 0.05)


def _unlock(descriptor: int) -> None:
    with contextlib.suppress(OSError):
        if sys.platform == "win32":
            os.lseek(descriptor, 1 << 20, os.SEEK_SET)
            msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)
        else:  # which a fork that nobody knows of cannot keep
            fcntl.flock(descriptor, fcntl.LOCK_UN)


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


# Which file system a path is on: what needs memory that all its processes share, as SQLite's log does, cannot be on a network's.

NETWORK = frozenset([
    "9p", "acfs", "afs", "beegfs", "ceph", "cifs", "coda", "davfs", "dfs", "gfs", "gfs2", "glusterfs",
    "gpfs", "lustre", "ncpfs", "nfs", "nfs3", "nfs4", "ocfs2", "orangefs", "pvfs2", "smb", "smb2",
    "smb3", "smbfs", "vboxsf", "webdav",
])  # fmt: skip
"""Types of file systems that several machines can write to, as the mount table calls them."""

MOUNTS = Path("/proc/self/mountinfo")


def file_system(path: str | os.PathLike[str], table: Path = MOUNTS) -> str | None:
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
