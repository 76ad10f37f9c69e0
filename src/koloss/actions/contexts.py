"""What is known of a round before an action is chosen: segments of customers, weekdays, hours."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from koloss.actions.points import Points
from koloss.actions.space import Space
from koloss.actions.space_points import ENUMERATED, SpacePoints, all_rows
from koloss.core.arrays import LARGEST, as_distribution, as_points, shown, to_numpy
from koloss.core.plain import Plain

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]
Bools = NDArray[np.bool_]

SAME = 1e-9
"""Coordinates that differ by less, in units of their column, are those of the same context."""

NAMED = 8
"""So many labels are named where a context is none of them."""


class Contexts(Plain):
    """What may be known of a round before an action is chosen: one of finitely many contexts.

    Parameters
    ----------
    X : array of shape (C, d), Points, Space, or sequence of C labels
        Coordinates, one context per row; or labels, text or whole numbers. Labels that differ are equally far apart. Of a Space
        all combinations, up to 1,024, or those of `space.points([...])`: a context is given by its params then. Numbers that
        may be anything have to be cut into a list of cells.
    weights : array of shape (C,), optional
        How often each context comes: the law that contexts are drawn from, positive, with the sum 1. None: it is not known.
    allowed : array of shape (C, K), optional
        Which of K actions may be chosen in which context, as truth values: what is in stock, who may see an offer.

    Examples
    --------
    >>> import koloss as kl
    >>> segments = kl.Contexts(["private", "business"], weights=[0.9, 0.1])
    >>> len(segments), segments.find("business")
    (2, 1)
    >>> kl.Contexts([[0.0], [0.5], [1.0]]).find([0.5])
    1
    >>> segments.find("public")
    Traceback (most recent call last):
        ...
    ValueError: `context` must be one of 'private', 'business', got 'public'
    >>> visits = kl.Contexts(kl.Space(device=kl.Choice(["phone", "desk"]), day=kl.Int(0, 6)))
    >>> len(visits), visits.find({"device": "phone", "day": 2})
    (14, 2)
    """

    def __init__(self, X: Any, weights: Any = None, *, allowed: Any = None) -> None:
        if isinstance(X, Space):
            X = _listed(X)
        self.points: SpacePoints | None = X if isinstance(X, SpacePoints) else None  # with params
        self.labels = _labels(X)
        if self.labels is not None:
            self._rows: dict[Any, int] = {label: c for c, label in enumerate(self.labels)}
            if len(self._rows) < len(self.labels):
                twice = next(b for c, b in enumerate(self.labels) if self._rows[b] != c)
                raise ValueError(f"`X` must not repeat a label, got {twice!r} twice")
            self.X: Floats = np.eye(len(self.labels))
        else:
            points = X.X if isinstance(X, Points) else as_points("X", X, largest=LARGEST)
            self.X = np.array(to_numpy(points), dtype=float)
            self._scale = np.maximum(np.abs(self.X).max(axis=0), 1e-300)
            self._check_distinct()
        self.X.flags.writeable = False
        self.weights: Floats | None = None
        if weights is not None:
            self.weights = _positive(weights, len(self.X))
        self.allowed: Bools | None = None if allowed is None else self._as_masks(allowed)

    def _check_distinct(self) -> None:
        order = np.lexsort(self.X.T)
        near = np.abs(np.diff(self.X[order], axis=0)) <= SAME * self._scale
        if near.all(axis=1).any():
            k = int(np.argmax(near.all(axis=1)))
            raise ValueError(f"`X` must not repeat a context, got {self.X[order[k]]} twice")

    def _as_masks(self, allowed: Any) -> Bools:
        """Truth values, of which each context has one that is true."""
        try:
            masks = np.array(allowed)
        except (TypeError, ValueError):  # ragged
            masks = np.empty(0)
        truths = masks.dtype.kind == "b" or (masks.size > 0 and np.isin(masks, (0, 1)).all())
        if masks.ndim != 2 or len(masks) != len(self.X) or not truths:
            rule = f"must be truth values of shape ({len(self.X)}, actions)"
            raise ValueError(f"`allowed` {rule}, got {shown(allowed)}")
        masks = masks.astype(bool)
        if not masks.any(axis=1).all():
            c = int(np.argmin(masks.any(axis=1)))
            rule = "must leave an action in every context"
            raise ValueError(f"`allowed` {rule}, got none in row {c}")
        masks.flags.writeable = False
        return masks

    def parts(self) -> dict[str, Any]:
        X = self.labels or self.points or self.X
        parts = {"X": X, "weights": self.weights}
        return parts if self.allowed is None else {**parts, "allowed": self.allowed.astype(int)}

    def __len__(self) -> int:
        return len(self.X)

    @property
    def dimension(self) -> int:
        """Number of coordinates."""
        return int(self.X.shape[1])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Contexts):
            return NotImplemented
        same = self.labels == other.labels and np.array_equal(self.X, other.X)
        same = same and self.points == other.points
        pairs = (self.weights, other.weights), (self.allowed, other.allowed)
        return same and all(
            mine is theirs if mine is None or theirs is None else np.array_equal(mine, theirs)
            for mine, theirs in pairs
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        few = len(self) <= NAMED
        what = f"{len(self)} in dimension {self.dimension}"
        if few:
            what = repr(self.X.tolist() if self.labels is None else list(self.labels))
        if self.points is not None:
            what = repr(self.points)
        if self.weights is not None:
            what += f", weights={self.weights.tolist() if few else '...'}"
        if self.allowed is not None:
            what += f", allowed={self.allowed.astype(int).tolist() if few else '...'}"
        return f"Contexts({what})"

    def slots(self, K: int) -> Rows | None:
        """An action for each of K in every context: itself where it is allowed, otherwise one that is, each of these in turn.

        None where all are allowed. So every context has K actions, some of them more than once, and whatever is proved for K
        actions holds as it stands.
        """
        if self.allowed is None or self.allowed.all():
            return None
        slots = np.tile(np.arange(K), (len(self), 1))
        for row, allowed in zip(slots, self.allowed, strict=True):
            row[~allowed] = np.resize(np.flatnonzero(allowed), K - allowed.sum())
        return slots

    # Which one it is.

    def find(self, context: Any) -> int:
        """Row of a context: of its label where there are labels; otherwise its row or its coordinates are given."""
        if context is None:
            raise ValueError("`context` must be given: this learner has contexts")
        if self.labels is not None:
            return self._find_label(context)
        if self.points is not None and isinstance(context, Mapping):
            try:
                return self.points.find(context)
            except (TypeError, ValueError) as error:
                rule = f"must be one of the {len(self)} contexts"
                raise ValueError(f"`context` {rule}, got {shown(context)}: {error}") from error
        if isinstance(context, (int, np.integer)) and not isinstance(context, bool):
            if not 0 <= context < len(self):
                rule = f"must be a row from 0 to {len(self) - 1}, or coordinates"
                raise ValueError(f"`context` {rule}, got {context}")
            return int(context)
        return self._find_point(context)

    def _find_label(self, context: Any) -> int:
        try:
            if isinstance(context, (bool, np.bool_)):  # which is equal to 0 or 1
                raise TypeError
            return self._rows[context]
        except (KeyError, TypeError):
            assert self.labels is not None
            known = ", ".join(map(repr, self.labels[:NAMED]))
            more = "" if len(self) <= NAMED else f", ... ({len(self)} in all)"
            rule = f"must be one of {known}{more}"
            raise ValueError(f"`context` {rule}, got {shown(context)}") from None

    def _find_point(self, context: Any) -> int:
        x = self._coordinates(context)
        same = (np.abs(self.X - x) <= SAME * self._scale).all(axis=1)
        if not same.any():
            raise ValueError(f"`context` must be one of the {len(self)} contexts, got {x}")
        return int(np.argmax(same))

    def _coordinates(self, context: Any) -> Floats:
        d = self.dimension
        try:
            if isinstance(context, (Mapping, np.ma.MaskedArray)):
                raise TypeError
            given = np.asarray(context)
            if given.dtype.kind not in "iufO":  # text, flags and complex numbers are none
                raise TypeError
            x = given.astype(float)
        except (OverflowError, TypeError, ValueError):
            rule = f"must be a row or {d} coordinates"
            raise ValueError(f"`context` {rule}, got {shown(context)}") from None
        if x.shape != (d,) and not (x.ndim == 0 and d == 1):
            rule = f"must be a row or {d} coordinates"
            raise ValueError(f"`context` {rule}, got an array of shape {x.shape}")
        if not np.isfinite(x).all():
            raise ValueError(f"`context` must be finite, got {x}")
        return x.reshape(d)

    def find_all(self, contexts: Any, count: int) -> Rows:
        """Rows of the contexts of so many decisions, one each."""
        self._check_count(contexts, count)
        rows = np.asarray(contexts) if isinstance(contexts, np.ndarray) else None
        if rows is not None and self.labels is None and rows.ndim == 1 and rows.dtype.kind in "iu":
            if not 0 <= rows.min() <= rows.max() < len(self):
                rule = f"must be rows from 0 to {len(self) - 1}, or coordinates"
                raise ValueError(f"`context` {rule}, got {shown(contexts)}")
            return rows.astype(np.int64)
        return np.array([self.find(_item(one)) for one in contexts], dtype=np.int64)

    def _check_count(self, contexts: Any, count: int) -> None:
        if contexts is None:
            raise ValueError("`context` must be given: this learner has contexts")
        sized = isinstance(contexts, Sequence) and not isinstance(contexts, (str, bytes))
        if isinstance(contexts, np.ndarray):
            sized = contexts.ndim > 0
        if not sized or len(contexts) != count:
            got = f"{len(contexts)}" if sized else shown(contexts)
            rule = f"must be a sequence of {count}, one for each decision"
            raise ValueError(f"`context` {rule}, got {got}")


def _listed(space: Space) -> SpacePoints:
    """All combinations of a space, where they are few."""
    few = None if all_rows(space, ENUMERATED) is None else space.points()
    if few is None or few.covering_radius > 0:
        rule = "must be labels, rows of coordinates, or a Space of at most 1,024 combinations"
        advice = "cut numbers into a list of cells, or play without contexts"
        raise ValueError(f"`X` {rule}, got {space!r}: {advice}")
    return few


def _item(value: Any) -> Any:
    """A NumPy scalar as Python's."""
    return value.item() if isinstance(value, np.generic) else value


def _positive(weights: Any, count: int) -> Floats:
    law: Floats = np.array(to_numpy(as_distribution("weights", weights, length=count)), dtype=float)
    given = np.array(to_numpy(weights) if hasattr(weights, "shape") else weights, dtype=float)
    if abs(given.sum() - 1) <= count * 1e-15:
        law = given  # to the last bit, for snapshots
    if law.min() <= 0:
        rule, k = "must be positive: leave out contexts that never come", int(law.argmin())
        raise ValueError(f"`weights` {rule}, got {law[k]:.6g} at {k}")
    law.flags.writeable = False
    return law


def _labels(X: Any) -> tuple[Any, ...] | None:
    """Labels, if that is what was given."""
    if isinstance(X, np.ndarray) and X.ndim == 1:
        X = X.tolist()
    if not isinstance(X, (list, tuple)):
        return None
    found = [_item(label) for label in X]
    if not found or not all(isinstance(label, (str, int, float)) for label in found):
        return None
    for label in found:
        if isinstance(label, (bool, float)):
            what = "not a number" if isinstance(label, float) and math.isnan(label) else repr(label)
            rule = "must be (contexts, coordinates), or labels that are text or whole numbers"
            raise ValueError(f"`X` {rule}, got {what}")
    return tuple(found)
