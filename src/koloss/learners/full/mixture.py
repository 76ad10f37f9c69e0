"""A distribution that mixes in one atom after the other, drawn from in logarithmic time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

NEGLIGIBLE = 2.0**-54
"""Atoms whose weights together are below rounding are dropped."""

LARGE = 2.0**500
"""Sum of the u beyond which they are scaled down."""


@dataclass
class Mixture:
    """D ← (1 - γ)D + γδ_v, over and over.

    The weight of atom i is u_i/Σu with u growing instead of the others shrinking, so that one step changes one
    number; the cumulative sums of u, which never change either, are what a draw searches.

    Examples
    --------
    >>> import numpy as np
    >>> mixture = Mixture.of(np.array([[0.0]]))
    >>> mixture.mix(0.5, np.array([1.0]))
    >>> mixture.mix(0.5, np.array([2.0]))
    >>> mixture.atoms[:, 0].tolist(), mixture.weights.tolist()
    ([0.0, 1.0, 2.0], [0.25, 0.25, 0.5])
    """

    rows: Any  # atoms, with room for more
    sums: Any  # cumulative sums of u, of the same length
    size: int

    @classmethod
    def of(cls, atoms: Any) -> Mixture:
        """One atom, in a row of its own."""
        return cls(np.array(atoms), np.ones(1), 1)

    @property
    def atoms(self) -> Any:
        """The atoms, oldest first."""
        return self.rows[: self.size]

    @property
    def weights(self) -> Any:
        """Their probabilities."""
        u = np.diff(self.sums[: self.size], prepend=0.0)
        return u / u.sum()

    def mix(self, gamma: float, atom: Any) -> None:
        """Take a share γ of all weights and give it to a new atom."""
        if gamma >= 1:
            self.rows, self.sums, self.size = np.array(atom)[None], np.ones(1), 1
            return
        if self.size == len(self.rows) or self.sums[self.size - 1] > LARGE:
            self._make_room()
        total = self.sums[self.size - 1]
        self.rows[self.size] = atom
        self.sums[self.size] = total + gamma / (1 - gamma) * total
        self.size += 1

    def draw(self, uniform: Any) -> Any:
        """Positions of atoms, for uniform numbers in [0, 1)."""
        sums = self.sums[: self.size]
        return np.minimum(sums.searchsorted(uniform * sums[-1], side="right"), self.size - 1)

    def _make_room(self) -> None:
        """Drop old atoms that no longer count, scale, and double the room."""
        sums = self.sums[: self.size]
        first = int(sums.searchsorted(NEGLIGIBLE * sums[-1], side="right"))
        first = min(first, self.size - 1)
        before = sums[first - 1] if first else 0.0
        kept = (sums[first:] - before) / (sums[-1] - before)
        room = max(2 * len(kept), 64)
        rows = np.empty((room, *self.rows.shape[1:]), dtype=self.rows.dtype)
        rows[: len(kept)] = self.rows[first : self.size]
        self.rows, self.sums, self.size = rows, np.empty(room), len(kept)
        self.sums[: self.size] = kept

    def to_dict(self) -> dict[str, Any]:
        """Plain data for a snapshot."""
        return {
            "rows": self.atoms.copy(),
            "sums": self.sums[: self.size].copy(),
            "room": len(self.rows),
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Mixture:
        """The mixture in a snapshot."""
        atoms, sums = np.asarray(data["rows"]), np.asarray(data["sums"])
        rows = np.empty((data["room"], *atoms.shape[1:]), dtype=atoms.dtype)
        rows[: len(atoms)] = atoms
        found = cls(rows, np.empty(data["room"]), len(atoms))
        found.sums[: len(atoms)] = sums
        return found
