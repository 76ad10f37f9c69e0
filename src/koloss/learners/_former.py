"""What learners share: decisions, the book of outstanding ones, and snapshots that are plain data."""

from __future__ import annotations

import hashlib
import json
import math
import os
import tempfile
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from koloss.errors import LossOutOfBounds, SnapshotError, UnknownDecision

SNAPSHOT_VERSION = 1


@dataclass(frozen=True, slots=True, eq=False)
class Decision:
    """One action to take, with what is needed to learn from its loss at any time later.

    Attributes
    ----------
    id : int
        Number of the decision, from 0. It is enough to `tell` by.
    action : array of shape (d,)
    index : int or None
        Row of the action in a finite set.
    probability : float or None
        Probability with which it was drawn, on a finite set.
    epoch : int
        Epoch in which it was drawn.
    learner : str
        Mark of the learner that made it.
    """

    id: int
    action: Any
    index: int | None
    probability: float | None
    epoch: int
    learner: str


@dataclass(frozen=True, slots=True, eq=False)
class Decisions:
    """Several decisions made at once, the fields of `Decision` as arrays."""

    id: Any
    action: Any
    index: Any
    probability: Any
    epoch: Any
    learner: str

    def __len__(self) -> int:
        return len(self.id)

    def __getitem__(self, k: int) -> Decision:
        return Decision(
            int(self.id[k]),
            self.action[k],
            None if self.index is None else int(self.index[k]),
            None if self.probability is None else float(self.probability[k]),
            int(self.epoch[k]),
            self.learner,
        )

    def __iter__(self) -> Iterator[Decision]:
        return (self[k] for k in range(len(self)))


def new_mark() -> str:
    """A mark by which a learner knows its own decisions again."""
    return uuid.uuid4().hex


def decision_ids(decisions: Any, mark: str) -> list[int]:
    """Ids of a decision, a batch, an id, or a sequence of any of these; foreign ones are refused."""
    if isinstance(decisions, (Decision, Decisions)):
        if decisions.learner != mark:
            raise UnknownDecision(
                "`decision` must be one of this learner's, got one of another learner"
            )
        return [decisions.id] if isinstance(decisions, Decision) else decisions.id.tolist()
    if isinstance(decisions, (bool, float, str, bytes)):
        raise TypeError(f"`decision` must be a Decision or its id, got {decisions!r}")
    if isinstance(decisions, (int, np.integer)):
        return [int(decisions)]
    try:
        items = list(decisions)
    except TypeError as error:
        raise TypeError(
            f"`decision` must be a Decision or its id, got {type(decisions).__name__}"
        ) from error
    return [i for item in items for i in decision_ids(item, mark)]


def as_losses(loss: Any, count: int) -> Any:
    """Finite losses, one for each decision."""
    if count == 1 and type(loss) is float and math.isfinite(loss):
        return (loss,)
    try:
        losses = np.asarray(loss, dtype=float)
    except (TypeError, ValueError) as error:
        raise TypeError(f"`loss` must be a number or an array of numbers, got {loss!r}") from error
    if losses.size != count or losses.ndim > 1:
        raise ValueError(
            f"`loss` must have {count} entries, one a decision, got shape {losses.shape}"
        )
    if not np.all(np.isfinite(losses)):
        raise ValueError(f"`loss` must be finite, got {loss!r}")
    return losses.reshape(-1)


def find_outstanding(book: Mapping[int, Any], ids: list[int], made: int) -> list[Any]:
    """What a book of outstanding decisions says of some, if none is unknown or repeated."""
    try:
        known = [book[i] for i in ids]
    except KeyError as error:
        i = error.args[0]
        what = "told already" if 0 <= i < made else "never made"
        message = f"`decision` must be outstanding, got {i}, which was {what}"
        raise UnknownDecision(message) from None
    if len(ids) > 1 and len(set(ids)) < len(ids):
        raise UnknownDecision("`decision` must not repeat an id, got one twice")
    return known


def check_range(losses: Any, low: float, high: float) -> None:
    """Refuse losses outside the interval that was promised, but for rounding."""
    slack = 1e-9 * (high - low)
    for value in (losses.min(), losses.max()) if len(losses) > 1 else losses:
        if not low - slack <= value <= high + slack:
            raise LossOutOfBounds(f"`loss` must be in [{low:.6g}, {high:.6g}], got {value:.6g}")


# Snapshots.


def seal(kind: str, state: dict[str, Any]) -> dict[str, Any]:
    """A snapshot: the state with its kind, version and digest."""
    sealed = {"kind": kind, "version": SNAPSHOT_VERSION, **state}
    return {**sealed, "digest": _digest(sealed)}


def unseal(kind: str, snapshot: Any) -> dict[str, Any]:
    """The state in a snapshot, after its kind, version and digest have been checked."""
    if not isinstance(snapshot, Mapping) or "kind" not in snapshot or "version" not in snapshot:
        raise SnapshotError(f"`state` must be a snapshot of {kind}, got {type(snapshot).__name__}")
    if snapshot["kind"] != kind:
        raise SnapshotError(f"`state` must be a snapshot of {kind}, got one of {snapshot['kind']}")
    version = snapshot["version"]
    if not isinstance(version, int) or version > SNAPSHOT_VERSION:
        raise SnapshotError(
            f"`state` must be of version {SNAPSHOT_VERSION} or older, got {version}: it needs a newer koloss"
        )
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
    ...     kl.save_state(pathlib.Path(folder) / "learner.npz", learner.state())
    ...     again = kl.BanditExpWeights.from_state(
    ...         kl.load_state(pathlib.Path(folder) / "learner.npz")
    ...     )
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
            found: dict[str, Any] = _join(plain, file)
            return found
    except FileNotFoundError:
        raise
    except Exception as error:  # whatever a damaged file makes of itself
        raise SnapshotError(
            f"`path` must be a snapshot written by save_state, got {path}: {error}"
        ) from error


def generator_state(rng: np.random.Generator) -> dict[str, Any]:
    """State of a generator as plain data."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {k: plain(v) for k, v in value.items()}
        return value.item() if isinstance(value, np.generic) else value

    found: dict[str, Any] = plain(rng.bit_generator.state)
    return found


def generator_of(state: Mapping[str, Any]) -> np.random.Generator:
    """The generator whose state was kept."""
    rng = np.random.Generator(getattr(np.random, state["bit_generator"])())
    rng.bit_generator.state = state
    return rng


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
