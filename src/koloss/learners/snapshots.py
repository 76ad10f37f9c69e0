"""Snapshots: a learner's state as plain data, sealed by a digest, and files that hold it."""

from __future__ import annotations

import errno
import hashlib
import io
import json
import math
import os
import re
import stat
import uuid
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
from numpy.lib import format as npy

from koloss.core.files import clear_parts, locked, naming, replacing
from koloss.errors import SnapshotError, SnapshotInUse
from koloss.learners.reading import shown

FORMAT = 5
"""Format of the snapshots that are written here; no other is read."""

ARRAY = "__array__"
"""Key of a reference to an array in the JSON part of a file."""

# Seals.


def seal(kind: str, state: Mapping[str, Any]) -> dict[str, Any]:
    """A snapshot: the state with its kind, format and digest."""
    sealed = {"kind": kind, "version": FORMAT, **state}
    return {**sealed, "digest": _digest(sealed)}


def unseal(kind: str, snapshot: Any) -> dict[str, Any]:
    """The state in a snapshot, after kind, format and digest have been checked."""
    if not isinstance(snapshot, Mapping) or "kind" not in snapshot or "version" not in snapshot:
        raise SnapshotError(f"`state` must be a snapshot of {kind}, got {type(snapshot).__name__}")
    version = snapshot["version"]
    if type(version) is not int or version != FORMAT:
        newer = ": it needs a newer koloss" if type(version) is int and version > FORMAT else ""
        raise SnapshotError(f"`state` must be of format {FORMAT}, got {shown(version)}{newer}")
    theirs = snapshot["kind"]
    if not isinstance(theirs, str) or theirs != kind:
        named = isinstance(theirs, str) and theirs.isidentifier()
        got = theirs if named else shown(theirs)
        raise SnapshotError(f"`state` must be a snapshot of {kind}, got one of {got}")
    state = {name: value for name, value in snapshot.items() if name != "digest"}
    try:
        intact = str(snapshot.get("digest")) == _digest(state)
    except (TypeError, ValueError, RecursionError) as error:
        raise SnapshotError(f"`state` must be plain data, got some that is not: {error}") from error
    if not intact:
        raise SnapshotError(
            "`state` must be intact, got a snapshot whose digest does not match: it is damaged"
        )
    del state["kind"], state["version"]
    return state


def _digest(state: Mapping[str, Any]) -> str:
    """SHA-256 over the JSON part and the bytes of all arrays."""
    arrays: dict[str, Any] = {}
    plain = _split(dict(state), arrays)
    digest = hashlib.sha256(json.dumps(plain, sort_keys=True).encode())
    for key in sorted(arrays):
        array = np.ascontiguousarray(arrays[key])
        digest.update(f"{key}{array.dtype.str}{array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def _split(value: Any, arrays: dict[str, Any]) -> Any:
    """JSON data with each array replaced by a reference to `arrays`."""
    if isinstance(value, np.ndarray):
        if value.dtype.hasobject:
            raise TypeError("`state` must be plain data, got an array of objects")
        key = f"array{len(arrays)}"
        arrays[key] = value
        return {ARRAY: key}
    if isinstance(value, dict):
        if ARRAY in value or not all(isinstance(key, str) for key in value):
            rule = f"must have keys that are text, and none that is {ARRAY!r}"
            raise TypeError(f"`state` {rule}, got {shown(list(value))}")
        return {k: _split(value[k], arrays) for k in sorted(value)}
    if isinstance(value, (list, tuple)):
        return [_split(v, arrays) for v in value]
    return value


def _join(value: Any, arrays: dict[str, Any]) -> Any:
    """What `_split` has taken apart; each array is used once."""
    if isinstance(value, dict):
        if set(value) == {ARRAY}:
            return arrays.pop(value[ARRAY])
        return {k: _join(v, arrays) for k, v in value.items()}
    return [_join(v, arrays) for v in value] if isinstance(value, list) else value


# Bytes: an .npz file of arrays, and everything else as JSON.


def state_to_bytes(state: Mapping[str, Any]) -> bytes:
    """A snapshot as the bytes of a file, without a file."""
    file = io.BytesIO()
    np.savez(file, **_members(state))
    return file.getvalue()


def state_from_bytes(content: bytes) -> dict[str, Any]:
    """The snapshot that `state_to_bytes` has written; a `SnapshotError` where the bytes are something else."""
    try:
        return _assembled(_read(io.BytesIO(content), len(content)))
    except Exception as error:  # whatever damaged bytes make of themselves
        raise SnapshotError(f"`content` must be a snapshot's bytes, got others: {error}") from error


def _members(state: Mapping[str, Any], **texts: str) -> dict[str, Any]:
    """The arrays of a file: those of a snapshot, and texts."""
    arrays: dict[str, Any] = {}
    texts = {"json": json.dumps(_split(dict(state), arrays)), **texts}
    encoded = {name: np.frombuffer(text.encode(), np.uint8) for name, text in texts.items()}
    return {**encoded, **arrays}


def _assembled(arrays: dict[str, Any]) -> dict[str, Any]:
    """The snapshot of which these are the arrays and the JSON."""
    text = arrays.pop("json").tobytes()
    state: dict[str, Any] = _join(json.loads(text, object_pairs_hook=_without_twins), arrays)
    if arrays or not isinstance(state, dict):
        raise ValueError("it has arrays that belong nowhere")
    return state


# Files: each has an id of its own, new whenever it is written.


_latest: dict[str, set[str | None]] = {}
"""Ids of the file that this process last read from or wrote to a path; None for files from before there were ids."""


def save_state(
    path: str | os.PathLike[str], state: Mapping[str, Any], *, overwrite: bool = False
) -> None:
    """Write a snapshot to one .npz file (arrays, and everything else as JSON); never half a file.

    A file is replaced only by the process that has written it or loaded it last: two processes that go on from one snapshot
    make the same decisions, and each would undo what the other has saved. Of two that save at the same time, one succeeds.

    Parameters
    ----------
    path : path
    state : mapping
        What `state()` of a learner has given.
    overwrite : bool
        Replace whatever is there.

    Raises
    ------
    SnapshotInUse
        Where there is another file than the one that this process last loaded or wrote: nothing has been written.
    OSError
        As the operating system says, where the folder is missing or cannot be written to, or the disk is full: the former file
        is still there.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import koloss as kl
    >>> learner = kl.BanditExpWeights(
    ...     kl.Points([[0.0], [1.0]]), kl.Gaussian(0.5), horizon=100, rng=0
    ... )
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "learner.npz"
    ...     kl.save_state(path, learner.state())
    ...     again = kl.BanditExpWeights.from_state(kl.load_state(path))
    >>> again.ask().index == learner.ask().index
    True
    """
    if not isinstance(state, Mapping):
        raise TypeError(f"`state` must be a snapshot, got {type(state).__name__}")
    identity = uuid.uuid4().hex
    members = _members(state, id=identity)
    path = Path(os.path.realpath(path))
    with _alone(path) as alone:
        if not overwrite:
            _check_known(path)
        if alone:
            clear_parts(path)
        # Either file may be there if this is interrupted, and both are ours.
        _latest.setdefault(_key(path), set()).add(identity)
        with replacing(path, private=True) as file:
            np.savez(file, **members)
        _latest[_key(path)] = {identity}


def load_state(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read a snapshot that `save_state` has written.

    Raises
    ------
    SnapshotError
        Where the file is damaged, or is something else. Nothing is expanded that is larger than the file.
    OSError
        As the operating system says, where the file is missing (`FileNotFoundError`) or cannot be read.
    """
    refusal = f"`path` must be a snapshot written by save_state, got {path}"
    mode = os.stat(path).st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise SnapshotError(f"{refusal}: it is not a file")
    with open(path, "rb") as file:
        content = file.read()
    try:
        arrays = _read(io.BytesIO(content), len(content))
        identity = _identity(arrays.pop("id", None))
        state = _assembled(arrays)
    except Exception as error:  # whatever a damaged file makes of itself
        raise SnapshotError(f"{refusal}: {error}") from error
    _latest[_key(path)] = {identity}
    return state


MEMBER = re.compile(r"(json|id|array\d{1,9})\.npy")
"""Names of what is in a file."""


def _read(file: IO[bytes], size: int, only: str | None = None) -> dict[str, Any]:
    """Arrays of a file by name, or `only` one where it is there; none is larger than the file."""
    with zipfile.ZipFile(file) as members:
        known = members.infolist()
        names = [info.filename for info in known]
        if len(set(names)) < len(names) or not all(map(MEMBER.fullmatch, names)):
            raise ValueError(f"it has other members: {shown(names)}")
        if "json.npy" not in names:
            raise ValueError("it has no member json.npy")
        for info in known:
            stored = info.compress_type == zipfile.ZIP_STORED and not info.flag_bits & 1
            if not stored or info.file_size != info.compress_size:
                raise ValueError(f"its member {info.filename} is compressed")
        if sum(info.file_size for info in known) > size:
            raise ValueError("its members are larger than the file")
        wanted = [info for info in known if only is None or info.filename == f"{only}.npy"]
        return {info.filename[:-4]: _array(members.read(info)) for info in wanted}


def _array(content: bytes) -> Any:
    """The array of a .npy file, which must be exactly as long as its header says."""
    begin = 10 + int.from_bytes(content[8:10], "little")
    shape, order, dtype = _header(content[:begin])
    fits = math.prod(shape) * dtype.itemsize == len(content) - begin
    if dtype.hasobject or not fits or min(shape, default=0) < 0 or max(shape, default=0) > 2**40:
        raise ValueError(f"an array of {len(content)} bytes has shape {shape} and dtype {dtype}")
    return np.ndarray(shape, dtype, bytearray(content), begin, order=order)


@lru_cache(maxsize=256)
def _header(content: bytes) -> tuple[tuple[int, ...], Literal["C", "F"], Any]:
    """Shape, order and dtype of an array; those of a snapshot have few different ones."""
    file = io.BytesIO(content)
    if npy.read_magic(file) != (1, 0):
        raise ValueError("an array is of another version than 1.0")
    shape, fortran, dtype = npy.read_array_header_1_0(file)
    return shape, "F" if fortran else "C", dtype


def _without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        raise ValueError(f"a key comes twice among {shown([key for key, _ in pairs])}")
    return values


def _identity(array: Any) -> str | None:
    if array is None:
        return None
    text: str = array.tobytes().decode("ascii")
    if not re.fullmatch("[0-9a-f]{32}", text):
        raise ValueError(f"its id is {text!r}")
    return text


def _key(path: str | os.PathLike[str]) -> str:
    return os.path.normcase(os.path.realpath(path))


def _check_known(path: Path) -> None:
    """Refuse to replace a file that this process has neither loaded nor written."""
    advice = (
        "one process owns a learner; load the file and go on from there, choose another path, "
        "or give `overwrite=True` to lose what it holds"
    )
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            try:
                identity = _identity(_read(file, size, only="id").get("id"))
            except Exception as error:  # whatever else it is, it is not ours
                got = f"{path}, which is not a snapshot"
                raise SnapshotInUse(
                    f"`path` must be free or a snapshot, got {got}; {advice}"
                ) from error
    except FileNotFoundError:
        return
    known = _latest.get(_key(path))
    if known is None or identity not in known:
        got = "which another has written since" if known else "which another has written"
        rule = "must be free, or the file that this process last loaded or wrote there"
        raise SnapshotInUse(f"`path` {rule}, got {path}, {got}; {advice}")


@contextmanager
def _alone(path: Path) -> Iterator[bool]:
    """One process at a time saves to a path; whether that is certain, or its file system knows no locks."""
    with ExitStack() as stack:
        try:
            guard = path.with_name(f".{path.name}.lock")
            with naming(path, guard):
                stack.enter_context(locked(guard, remove=True))
        except OSError as error:
            if error.errno not in (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP):
                raise
            yield False
        else:
            yield True
