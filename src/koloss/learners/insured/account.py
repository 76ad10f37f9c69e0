"""The account of a policy: what its rounds have cost against every action, as far as losses were heard (theory F5).

Losses are in units of their range, y in [-1/2, 1/2]. When the loss of a round is opened, x(a) being its unbiased estimate of the
loss of every action, it is entered with a weight 0 ≤ w ≤ 1 that is fixed before anybody looks at it,

    e(a) = y - w x(a) + (1 - w)/2,        Λ(a) = Σ e(a),

so that w = 0 skips it: the least possible loss stands in for that of the action. With O the rounds drawn and not yet entered,

    E regret of the policy's rounds ≤ E[Λ(a) + O] + ε Σ w (1 + √leverage).

An entry raises Λ(a) by at most 1 + w κ(a), where κ(a) ≥ |k(a, b)| for all b. So, with a budget D and an overdraft C, rounds are
drawn only while Λ + O + 1 ≤ D + C and Λ + 1 ≤ D, and an entry has the largest weight with which it ends within both. Then
Λ + O ≤ D + min(C, O - 1) on every path, whatever is late, comes in bursts, or is never told (Theorem F5.4).

Where there are shares of traffic, all of this is asked of the laws r within them and not of single actions, Λ(r) = Σ r(a)Λ(a).

Where actions come and go (`offer`), an action has Λ(a) = 0 when it is added, and rounds drawn before that do not count for it, in
O(a) as little as when they are entered. What is withdrawn is not looked at. There are no shares then.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from koloss.core.snapshot import Extended, Rows, Vector, kept
from koloss.guarantees import insured
from koloss.learners.bandit.loss_range import LossRange
from koloss.learners.bandit.points import PointsEngine
from koloss.learners.bandit.shares import Shares
from koloss.learners.bandit.subsets import Bools
from koloss.learners.insured.exploration import Floats, largest, lowest, smallest

ROUNDING = 1e-9
"""By how much sums may be off."""


@kept
class Account:
    """Λ of every action, and how many rounds are open."""

    shares: Shares | None  # the laws that regret is against; None: all actions
    total: Vector  # Λ
    variance: Vector  # Σ of squared steps of Λ beside the predictions
    outstanding: int = 0  # O
    offered: Bools | None = None  # None as long as all actions are
    born: Rows  # era in which each was added
    before: Rows  # open rounds drawn before that

    def __init__(self, actions: int, shares: Shares | None = None) -> None:
        self.shares = shares
        self.total, self.variance = np.zeros(actions), np.zeros(actions)
        self.born, self.before = np.zeros((2, actions), dtype=np.int64)

    @property
    def there(self) -> Any:
        """The actions that are offered, to index by."""
        return slice(None) if self.offered is None else self.offered

    @property
    def used(self) -> float:
        """The largest Λ: the estimated regret."""
        return self.largest(self.total)

    @property
    def reserved(self) -> float:
        """The largest Λ(a) + O(a)."""
        if self.offered is None:
            return self.used + self.outstanding
        return self.largest(self.total - self.before) + self.outstanding

    def largest(self, values: Floats) -> float:
        """The largest of values of all actions that are offered, or of their means under the laws within the shares."""
        if self.shares is not None:
            return self.shares.best(values)
        return largest(values if self.offered is None else values[self.offered])

    def room(self, budget: float) -> Floats:
        """What one more entry may add to every Λ(a) beside 1; where an action is not offered, no less than elsewhere."""
        room = budget - 1 - self.total
        if self.offered is not None:
            room[~self.offered] = room[self.offered].max()
        return room

    def may_draw(self, budget: float, overdraft: float, count: int = 1) -> bool:
        """Whether so many more rounds may be drawn at once."""
        used = self.used
        if used + 1 > budget:
            return False
        reserved = used + self.outstanding if self.offered is None else self.reserved
        return reserved + count <= budget + overdraft

    @property
    def deviation(self) -> float:
        """That of the noise in the largest Λ; of a law's at most the mean of those of its actions."""
        if self.shares is None:
            return math.sqrt(float(self.variance[lowest(-self.total, self.offered)]))
        rows, masses = self.shares.top(self.total)
        return float(masses @ np.sqrt(self.variance[rows]))

    def deviations(self, budget: float) -> float:
        """By how many deviations of its noise the account of some action is below the budget, at least."""
        doubt = np.sqrt(self.variance)
        if self.shares is not None:
            return (budget - 1 - self.used) / max(self.deviation, 1e-300)
        with np.errstate(divide="ignore"):
            return float(np.min((self.room(budget) / doubt)[self.there]))

    def draw(self, count: int = 1) -> None:
        """So many rounds are drawn."""
        self.outstanding += count

    def offer(self, offered: Bools, added: Any, era: int) -> None:
        """From this era on these actions are offered, some of them anew."""
        self.offered = offered
        self.total[added] = self.variance[added] = 0.0
        self.born[added], self.before[added] = era, self.outstanding

    def counted(self, era: int) -> Any:
        """The actions that rounds of an era count for."""
        return self.there if self.offered is None else self.offered & (self.born <= era)

    def weight(self, reach: Floats, budget: float, overdraft: float, era: int = 0) -> float:
        """The largest weight of a round, opened next, whose estimates reach at most so far: known without its outcome."""
        # Where Λ > D - 1 only 0 fits, if a constant is a feature: every action is reached.
        limit: Any = min(budget, budget + overdraft - (self.outstanding - 1))
        if self.shares is not None:
            return self._farthest(self.shares, reach, limit - 1, 1.0)
        room = limit - 1 - self.total
        if self.offered is not None:
            counted = self.counted(era)
            if not counted.any():
                return 1.0
            limit = np.minimum(budget, budget + overdraft - (self.outstanding - self.before - 1))
            room, reach = (limit - 1 - self.total)[counted], reach[counted]
        if smallest(room) <= 0:
            return 0.0
        return smallest(room / np.maximum(reach, room))  # 1 where the reach is within the room

    def rate(self, reach: Floats, budget: float) -> float:
        """The least γ with which an entry that reaches `reach`/γ ends within the budget; may be above 1."""
        if self.shares is not None:
            farthest = self._farthest(self.shares, reach, budget - 1, np.inf)
            return 1 / farthest if farthest > 0 else float("inf")
        room = self.room(budget)
        return largest(reach / room) if smallest(room) > 0 else float("inf")

    def _farthest(self, shares: Shares, reach: Floats, limit: float, most: float) -> float:
        """The largest s ≤ most with Λ(r) + s Σ r(a) reach(a) ≤ limit for all laws r within the shares.

        The left side is convex in s: Newton's steps from above end at the root, after as many as there are laws on the way.
        """
        if self.used >= limit:
            return 0.0
        s, values = most, reach if most == np.inf else self.total + most * reach
        while True:
            rows, masses = shares.top(values)
            root = (limit - float(masses @ self.total[rows])) / float(masses @ reach[rows])
            if not root < s * (1 - 1e-14):
                return s
            s, values = root, self.total + root * reach

    def enter(
        self,
        y: float,
        estimate: Floats | None,
        weight: float,
        step: Floats | None = None,
        era: int = 0,
        among: Bools | None = None,
    ) -> None:
        """Enter a loss of an era with its estimates and their weight; one that is skipped needs none.

        `step` is what the estimates have beside the prediction: noise, mostly. A request `among` some actions counts for those alone.
        """
        rise: Any = y + 0.5
        if estimate is not None and weight != 0:
            rise = y + (1 - weight) / 2 - weight * estimate
        squares = None if step is None else np.square(weight * step)
        self.outstanding -= 1
        if self.offered is None and among is None:  # all actions
            self.total += rise
            if squares is not None:
                self.variance += squares
            return
        counted = self.counted(era)
        if among is not None:
            counted = among if self.offered is None else counted & among
        self.total[counted] += rise if isinstance(rise, float) else rise[counted]
        if squares is not None:
            self.variance[counted] += squares[counted]
        if self.offered is not None:
            self.before[self.born > era] -= 1

    def holds(self, budget: float, overdraft: float) -> bool:
        """Whether the promise is kept."""
        return self.reserved <= budget + overdraft + ROUNDING * max(1.0, abs(budget))

    def rescale(self, factor: float) -> None:
        """All that was heard in another unit."""
        self.total *= factor
        self.variance *= factor**2


@kept
@dataclass(frozen=True)
class Allowance:
    """What a policy may use of estimated regret, in units of the range."""

    share: float  # of B(n), the robust learner's scale
    premium: float  # the part of it that one loss may use where the range is learned
    unit: float  # B(1)
    horizon: int | None
    warm_up: int  # rounds played on trust where there is no horizon
    cap: Extended | None  # R, the largest leverage allowed; None: the budget of the time
    overdraft: float | None = None  # C; None: that of `insured.overdraft`
    learned: bool = False  # whether the range is learned

    def rounds(self, made: int) -> int:
        """All rounds, or those up to the next one where there is no horizon."""
        return self.horizon or max(made, self.warm_up + 1)

    def budget(self, made: int) -> float:
        """Estimated regret that may be reached once so many decisions have been made."""
        return self.share * (self.unit * math.sqrt(self.rounds(made)))

    def debt(self, made: int) -> float:
        """C: decisions that may be open beyond what the budget has room for."""
        if self.overdraft is not None:
            return self.overdraft
        return insured.overdraft(self.rounds(made))


@kept
class Units:
    """Centre and width of the range; where it is learned, those of what was heard."""

    hull: LossRange
    center: float
    width: float

    def __init__(self, engine: PointsEngine) -> None:
        self.hull = engine.loss_range()
        self.center, self.width = engine.center, engine.high - engine.low

    @property
    def learned(self) -> bool:
        """Whether the range is learned."""
        return self.hull.learned

    def hear(self, loss: float) -> float | None:
        """Learn where losses are: the first one is the centre, and the width heard is the unit of all that was heard.

        Until losses differ all are zero in any unit. The factor that brings what was heard before into a new unit, if there is one.
        """
        hull, before = self.hull, self.width
        if not hull.known:
            self.center = loss
        if not hull.hear([loss]) or hull.heard_low == hull.heard_high:
            return None
        self.width = hull.heard_high - hull.heard_low
        return before / self.width

    def inside(self, loss: float) -> float:
        """A loss in this unit."""
        return (loss - self.center) / self.width

    @property
    def heard(self) -> tuple[float, float]:
        """Where the losses heard are, in this unit."""
        hull, center = self.hull, self.center
        ends = (hull.heard_low, hull.heard_high) if hull.known else (center, center)
        return (ends[0] - center) / self.width, (ends[1] - center) / self.width
