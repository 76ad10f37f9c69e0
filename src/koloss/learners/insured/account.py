"""The account of a policy: what its rounds have cost against every action, as far as losses were heard (theory F5).

Losses are in units of their range, y in [-1/2, 1/2]. When the loss of a round is opened, x(a) being its unbiased estimate of the
loss of every action, it is entered with a weight 0 ≤ w ≤ 1 that is fixed before anybody looks at it,

    e(a) = y - w x(a) + (1 - w)/2,        Λ(a) = Σ e(a),

so that w = 0 skips it: the least possible loss stands in for that of the action. With O the rounds drawn and not yet entered,

    E regret of the policy's rounds ≤ E[Λ(a) + O] + ε Σ w (1 + √leverage).

An entry raises Λ(a) by at most 1 + w κ(a), where κ(a) ≥ |k(a, b)| for all b. So, with a budget D and an overdraft C, rounds are
drawn only while Λ + O + 1 ≤ D + C and Λ + 1 ≤ D, and an entry has the largest weight with which it ends within both. Then
Λ + O ≤ D + min(C, O - 1) on every path, whatever is late, comes in bursts, or is never told (Theorem F5.4).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from koloss.learners.reading import Reader

Floats = NDArray[np.float64]

ROUNDING = 1e-9
"""By how much sums may be off."""


class Account:
    """Λ of every action, and how many rounds are open."""

    def __init__(self, actions: int) -> None:
        self.total: Floats = np.zeros(actions)  # Λ
        self.variance: Floats = np.zeros(actions)  # Σ of squared steps of Λ beside the predictions
        self.outstanding = 0  # O

    @property
    def used(self) -> float:
        """The largest Λ(a): the estimated regret."""
        return float(self.total.max())

    def room(self, budget: float) -> Floats:
        """What one more entry may add to every Λ(a) beside 1."""
        return budget - 1 - self.total

    def may_draw(self, budget: float, overdraft: float, count: int = 1) -> bool:
        """Whether so many more rounds may be drawn at once."""
        used = self.used
        return used + 1 <= budget and used + self.outstanding + count <= budget + overdraft

    def deviations(self, budget: float) -> float:
        """By how many deviations of its noise the account of some action is below the budget, at least."""
        doubt = np.sqrt(self.variance)
        with np.errstate(divide="ignore"):
            return float(np.min(self.room(budget) / doubt))

    def draw(self, count: int = 1) -> None:
        """So many rounds are drawn."""
        self.outstanding += count

    def weight(self, reach: Floats, budget: float, overdraft: float) -> float:
        """The largest weight of a round, opened next, whose estimates reach at most so far: known without its outcome."""
        # Where Λ > D - 1 only 0 fits, if a constant is a feature: every action is reached.
        limit = min(budget, budget + overdraft - (self.outstanding - 1))
        room = limit - 1 - self.total
        if room.min() <= 0:
            return 0.0
        return float(np.min(room / np.maximum(reach, room)))  # 1 where the reach is within the room

    def enter(
        self, y: float, estimate: Floats | None, weight: float, step: Floats | None = None
    ) -> None:
        """Enter a loss with its estimates and their weight; one that is skipped needs none.

        `step` is what the estimates have beside the prediction: noise, mostly.
        """
        if estimate is None or weight == 0:
            self.total += y + 0.5
        else:
            self.total += y + (1 - weight) / 2 - weight * estimate
        if step is not None:
            self.variance += np.square(weight * step)
        self.outstanding -= 1

    def holds(self, budget: float, overdraft: float) -> bool:
        """Whether the promise is kept."""
        return self.used + self.outstanding <= budget + overdraft + ROUNDING * max(1.0, abs(budget))

    def rescale(self, factor: float) -> None:
        """All that was heard in another unit."""
        self.total *= factor
        self.variance *= factor**2

    def copy(self) -> Account:
        """The account as it is now."""
        account = Account(len(self.total))
        account.total, account.variance = self.total.copy(), self.variance.copy()
        account.outstanding = self.outstanding
        return account

    def to_dict(self) -> dict[str, Any]:
        """Plain data for a snapshot."""
        sums = {"total": self.total.copy(), "variance": self.variance.copy()}
        return {**sums, "outstanding": self.outstanding}

    @classmethod
    def from_dict(cls, data: Reader, actions: int) -> Account:
        """The account in a snapshot."""
        account = cls(actions)
        account.total = data.array("total", (actions,))
        account.variance = data.array("variance", (actions,), 0)
        account.outstanding = data.count("outstanding")
        return account
