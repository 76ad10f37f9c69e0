"""Snapshots: a learner's state as plain data, sealed by a digest, and files that hold it."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from koloss.errors import SnapshotError

FORMAT = 2
"""Form of the snapshots written here; those of format 1 are of another form and are refused."""


def seal(kind: str, state: Mapping[str, Any]) -> dict[str, Any]:
    """A snapshot: the state with its kind, format and digest."""
    sealed = {"kind": kind, "version": FORMAT, **state}
    return {**sealed, "digest": _digest(sealed)}


def unseal(kind: str, snapshot: Any) -> dict[str, Any]:
    """The state in a snapshot, after its kind, format and digest have been checked."""
    if not isinstance(snapshot, Mapping) or "kind" not in snapshot or "version" not in snapshot:
        raise SnapshotError(f"`state` must be a snapshot of {kind}, got {type(snapshot).__name__}")
    version = snapshot["version"]
    if version == 1:
        raise SnapshotError(
            "`state` must be of format 2, got a snapshot of format 1, from a version of koloss "
            "before the first release"
        )
    if version != FORMAT:
        raise SnapshotError(
            f"`state` must be of format {FORMAT}, got {version!r}: it needs a newer koloss"
        )
    if snapshot["kind"] != kind:
        raise SnapshotError(f"`state` must be a snapshot of {kind}, got one of {snapshot['kind']}")
    state = {name: value for name, value in snapshot.items() if name != "digest"}
    if snapshot.get("digest") != _digest(state):
        raise SnapshotError(
            "`state` must be intact, got a snapshot whose digest does not match: it is damaged"
        )
    return state


def save_state(path: str | os.PathLike[str], state: Mapping[str, Any]) -> None:
    """Write a snapshot to one .npz file (arrays, and everything else as JSON); never half a file.

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
    path = Path(path)
    arrays: dict[str, Any] = {}
    plain = _split(dict(state), arrays)
    text = np.frombuffer(json.dumps(plain).encode(), dtype=np.uint8)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            np.savez(file, json=text, **arrays)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def load_state(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read a snapshot that `save_state` has written."""
    try:
        with open(path, "rb") as raw, np.load(raw, allow_pickle=False) as file:
            plain = json.loads(file["json"].tobytes())
            state: dict[str, Any] = _join(plain, file)
            return state
    except FileNotFoundError:
        raise
    except Exception as error:  # whatever a damaged file makes of itself
        raise SnapshotError(
            f"`path` must be a snapshot written by save_state, got {path}: {error}"
        ) from error


def _split(value: Any, arrays: dict[str, Any]) -> Any:
    """JSON data with each array replaced by a reference to `arrays`."""
    if isinstance(value, np.ndarray):
        key = f"array{len(arrays)}"
        arrays[key] = value
        return {"__array__": key}
    if isinstance(value, dict):
        return {k: _split(value[k], arrays) for k in sorted(value)}
    if isinstance(value, (list, tuple)):
        return [_split(v, arrays) for v in value]
    return value


def _join(value: Any, arrays: Mapping[str, Any]) -> Any:
    if isinstance(value, dict):
        if set(value) == {"__array__"}:
            return arrays[value["__array__"]]
        return {k: _join(v, arrays) for k, v in value.items()}
    return [_join(v, arrays) for v in value] if isinstance(value, list) else value


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
