"""Actions that are added and withdrawn in the middle of a game (theory F5, Section 8).

All actions that may ever be offered are known from the beginning, with their features; a *roster* says which are offered now. An
*era* lasts from one change to the next. What was drawn in an era says nothing of actions that were not offered in it.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from koloss.actions import ActionSet
from koloss.core.arrays import to_numpy
from koloss.designs import Design, whiten
from koloss.guarantees.bandit import late_cost
from koloss.guarantees.base import Guarantee, clause, note
from koloss.learners.bandit.points import PointsEngine
from koloss.learners.bandit.tuning import choose_design
from koloss.learners.insured.exploration import Exploration
from koloss.learners.params import rows_of
from koloss.learners.reading import Reader, plain

Bools = NDArray[np.bool_]
Rows = NDArray[np.int64]

MASKED = 2**52
"""Least number of an exploration among some of the actions."""

MASKS_KEPT = 16
"""Explorations among some of the actions that are kept for when they are asked for again."""

NOBODY: Rows = np.zeros(0, dtype=np.int64)
"""No rows."""


def as_rows(name: str, rows: Any, count: int, actions: ActionSet | None = None) -> Rows:
    """One row or several of so many actions, none twice; of a `Space` their params will do."""
    named = None if actions is None else rows_of(name, rows, actions)
    try:
        given = np.asarray(rows if named is None else named)
        if given.size == 0:
            given = given.astype(np.int64)
        if given.ndim > 1 or given.dtype.kind not in "iu":
            raise TypeError
    except (TypeError, ValueError):
        raise TypeError(f"`{name}` must be a row or a sequence of rows, got {rows!r}") from None
    given = np.atleast_1d(given)
    outside = (given < 0) | (given >= count)
    if outside.any():
        raise ValueError(f"`{name}` must be rows from 0 to {count - 1}, got {given[outside][0]}")
    if len(np.unique(given)) < len(given):
        raise ValueError(f"`{name}` must not repeat a row, got {rows!r}")
    return given.astype(np.int64)


class Roster:
    """Which actions are offered, and how that has changed."""

    def __init__(self, actions: int) -> None:
        self.offered: Bools = np.ones(actions, dtype=bool)
        self.met: Bools = np.ones(actions, dtype=bool)  # offered at some time
        self.era = 0  # changes so far
        self.returned = 0  # actions that were added again
        self.price = 1.0  # largest exploration of the robust learner over what it is tuned to

    def without(self, rows: Rows) -> Bools:
        """Those that are left when some are withdrawn."""
        gone = rows[~self.offered[rows]]
        if len(gone):
            raise ValueError(
                f"`rows` must be available to be withdrawn, got {gone[0]}, which is not"
            )
        left = self.offered.copy()
        left[rows] = False
        if not left.any():
            raise ValueError(f"`rows` must leave an action, got all {len(rows)} that are available")
        return left

    def including(self, rows: Rows) -> Bools:
        """Those that there are when some are added."""
        there = rows[self.offered[rows]]
        if len(there):
            raise ValueError(
                f"`rows` must not be available yet to be added, got {there[0]}, which is"
            )
        more = self.offered.copy()
        more[rows] = True
        return more

    def among(self, mask: Bools | None) -> Bools | None:
        """Which of the actions on offer may be chosen in a request; None where all of these may."""
        if mask is None or (mask | ~self.offered).all():
            return None
        mask = mask & self.offered
        if not mask.any():
            raise ValueError("`allowed` must leave an action that is available, got none")
        return mask

    def offer(self, offered: Bools, added: Rows) -> None:
        """A new era begins."""
        self.offered, self.era = offered, self.era + 1
        self.returned += int(self.met[added].sum())
        self.met = self.met | offered

    def promise(self, robust: Guarantee, engine: PointsEngine, revived: int) -> Guarantee:
        """The robust learner's bound where actions have come and gone; `revived` losses came after one was added again."""
        if self.era == 0:
            return robust
        terms, N, rates = dict(robust.terms), len(self.offered), engine.rates
        factors = {"exploration": self.price}
        if self.returned:  # each is one more to be compared with
            factors["prior"] = math.log(N + self.returned) / math.log(N)
        for name, factor in factors.items():
            if name in terms:
                terms[name] *= factor
        if revived and engine.problem.delay and rates.learning_rate:  # else they count as late
            terms["delay"] += revived * late_cost(engine.problem, rates.learning_rate, rates.kappa)
        assumptions = (*robust.assumptions, clause("offered"))
        remarks = (*robust.remarks, note("offered"))
        return replace(robust, terms=terms, assumptions=assumptions, remarks=remarks)

    # Snapshots.

    _KEPT: ClassVar = ("offered", "met", "era", "returned", "price")

    def to_dict(self) -> dict[str, Any] | None:
        """Plain data for a snapshot; None as long as nothing has changed."""
        return plain(self, *self._KEPT) if self.era else None

    @classmethod
    def from_dict(cls, data: Reader, actions: int) -> Roster:
        """The roster in a snapshot."""
        roster = cls(actions)
        data.fill(roster, *cls._KEPT)
        if not (roster.offered.any() and roster.era):
            data.refuse("offered", "must hold an action, of an era after the first", roster.era)
        return roster


def explore(
    engine: PointsEngine,
    offered: Bools,
    design: str | Design,
    number: int,
    era: int,
    among: Bools | None = None,
) -> Exploration:
    """How to explore the actions that are offered: their own design, in coordinates of the space that they span."""
    rows = engine.features[offered]
    chosen = choose_design(rows, "john" if isinstance(design, Design) else design)
    white = whiten(rows, chosen).features
    features = np.zeros((len(offered), white.shape[1]), order="F")
    weights = np.zeros(len(offered))
    features[offered], weights[offered] = white, to_numpy(chosen.weights)
    return Exploration(number, features, weights, era=era, among=among)


class Masks:
    """How policies explored of late in requests among some of the actions."""

    def __init__(self) -> None:
        self._made: dict[bytes, Exploration] = {}

    def find(
        self, mask: Bools, engine: PointsEngine, design: str | Design, era: int
    ) -> Exploration:
        """One that was made in this era, or a new one."""
        key = mask.tobytes()
        found = self._made.get(key)
        if found is None or found.era != era:
            # Numbered by what it is, so that a learner that has kept it and one that makes it again agree.
            digest = hashlib.sha256(b"%d " % era + key).digest()
            number = MASKED + int.from_bytes(digest[:6], "big")
            found = explore(engine, mask, design, number, era, mask)
            if len(self._made) >= MASKS_KEPT:
                self._made.clear()
            self._made[key] = found
        return found
