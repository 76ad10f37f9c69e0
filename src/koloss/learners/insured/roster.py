"""How policies explore some of the actions: those on offer, those of a request (theory F5, Section 8)."""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

from koloss.core.snapshot import kept
from koloss.learners.bandit.points import PointsEngine
from koloss.learners.bandit.subsets import subset_of
from koloss.learners.insured.exploration import Exploration

Bools = NDArray[np.bool_]

MASKED = 2**52
"""Least number of an exploration among some of the actions."""

MASKS_KEPT = 16
"""Explorations among some of the actions that are kept for when they are asked for again."""


def explore(
    engine: PointsEngine, offered: Bools, number: int, era: int, among: Bools | None = None
) -> Exploration:
    """How to explore the actions that are offered: their own design, in coordinates of the space that they span."""
    subset = subset_of(engine, offered).engine
    return Exploration(number, subset.features, subset.weights, era=era, among=among)


@kept
class Masks:
    """How policies explored of late in requests among some of the actions."""

    _made: dict[int, Exploration]  # rounds that wait share them, after a snapshot as before

    def __init__(self) -> None:
        self._made = {}

    def find(self, mask: Bools, engine: PointsEngine, era: int) -> Exploration:
        """One that was made in this era, or a new one."""
        # Numbered by what it is, so that a learner that has kept it and one that makes it again agree.
        digest = hashlib.sha256(b"%d " % era + mask.tobytes()).digest()
        number = MASKED + int.from_bytes(digest[:6], "big")
        found = self._made.get(number)
        if found is None:
            found = explore(engine, mask, number, era, mask)
            if len(self._made) >= MASKS_KEPT:
                self._made.clear()
            self._made[number] = found
        return found
