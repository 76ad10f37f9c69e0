"""What a set of actions makes of Algorithm 1: fixed arrays and numbers, and lines 4, 5, 7 and 8.

`points` has finitely many actions, `ball` linear and quadratic losses on a whole ball.
"""

from __future__ import annotations

import abc
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from koloss.core.snapshot import Extended, kept
from koloss.guarantees.anytime import Level
from koloss.guarantees.bandit import BanditProblem, Rates, Ridge
from koloss.guarantees.base import Clause, clause
from koloss.learners.bandit.loss_range import LossRange
from koloss.learners.ledger import Drawn

if TYPE_CHECKING:
    from koloss.learners.bandit.settings import BanditSettings

Floats = NDArray[np.float64]


for _numbers in (BanditProblem, Rates, Ridge, Clause):
    kept(_numbers)


@dataclass(frozen=True, kw_only=True, eq=False)
class Engine(abc.ABC):
    """A game that can be played."""

    problem: BanditProblem  # the numbers of the bound
    rates: Rates  # that minimise it, or those asked for
    low: float  # losses lie in [low, high], ...
    high: float
    center: float  # ... and this is subtracted before they are used
    outside: str  # what becomes of losses that are not in [low, high]
    learned: bool  # whether [low, high] is only a unit
    sign: int  # -1 where rewards are told
    norm: Extended  # W: that of losses, or Σ|c_i|; infinite where nothing is assumed of them
    losses: tuple[Clause, ...]  # what is assumed of losses
    proxy: str = "exact features"  # how the features were made
    eigenvalue: float = 0.0  # of the kernel, where one below zero was seen
    level: int = 0  # of a schedule of penalties, without a horizon
    printed: dict[str, Any] = field(default_factory=dict)  # with the paper's tuning: what it says

    place: ClassVar[tuple[str, ...]] = ()  # details of what is proved
    is_sampled: ClassVar[bool] = False  # whether Σ is estimated from draws (`sampled`)

    @property
    @abc.abstractmethod
    def actions(self) -> Any:
        """Those in play: an array, or the set."""

    @property
    @abc.abstractmethod
    def size(self) -> str:
        """How large it is, and what a round may cost."""

    @property
    @abc.abstractmethod
    def coordinates(self) -> int:
        """How many numbers a sum of estimates has."""

    @property
    def rows(self) -> int | None:
        """Number of rows of the features, where actions are finitely many."""
        return None

    @property
    def rounded(self) -> tuple[Clause, ...]:
        """What a bound assumes of rounding; nothing where sums are in double precision."""
        return ()

    # Algorithm 1.

    @abc.abstractmethod
    def law(
        self,
        theta: Floats | None,
        credit: Any,
        eta: float,
        gamma: float,
        rng: Any,
        nu: float = 0.0,
    ) -> Any:
        """p and the factor of its Σ (lines 4 and 7); `credit` is subtracted from θ'φ, ν that of a bonus on variance."""

    @abc.abstractmethod
    def draw(self, law: Any, count: int | None, rng: Any, left: int = 1) -> Drawn:
        """Actions from p (line 5), one of up to `left` that are to come."""

    @abc.abstractmethod
    def estimate(self, law: Any, keys: Any, losses: Any) -> Any:
        """Σ_s Σ⁻¹ φ(a_s) loss_s (line 8), of one action or several."""

    def no_credit(self) -> Any:
        """Bonuses of all actions, before any was given; None where there are none."""
        return None

    # The end of an epoch (theory B3′).

    @abc.abstractmethod
    def rise(self, law: Any, gamma: float, gain: Floats, mass: float) -> float:
        """Largest q·X - X(a) for the sum X of the epoch's estimates, with bonuses of total weight `mass`."""

    @abc.abstractmethod
    def reach(self, law: Any, gamma: float, moved: Floats, mass: float = 0.0) -> float:
        """Upper bound on what estimates that add up to `moved`, with bonuses of total weight `mass`, add to the largest rise."""

    # What is known.

    @abc.abstractmethod
    def best(self, theta: Floats, mass: float) -> tuple[int | None, Floats, float]:
        """Row, action and value of the smallest θ'φ(a)/mass."""

    def loss_range(self) -> LossRange:
        """Where losses lie, before any is received."""
        return LossRange(self.low, self.high, self.outside, self.learned)

    @abc.abstractmethod
    def for_norm(self, norm: float, settings: BanditSettings) -> Self:
        """The same play, against losses of another norm."""

    def for_misfit(self, misfit: float) -> Self:
        """The same play, against losses that are up to so far from the class."""
        near = clause("misfit", misfit=misfit)
        problem = replace(self.problem, misfit=misfit)
        return replace(self, problem=problem, losses=(*self.losses, near))

    # Without a horizon.

    def at(self, t: int) -> Self:
        """The engine of round t."""
        return self

    @abc.abstractmethod
    def rates_at(self, t: int) -> tuple[float, float]:
        """η and γ of round t."""

    @abc.abstractmethod
    def levels(self, n: int) -> list[Level]:
        """The games of the first n rounds."""

    @abc.abstractmethod
    def comparator(self, rounds: int, eta: float) -> tuple[float, dict[str, float]]:
        """log(1/prior) of what the player is compared with, and by name what that costs beside."""

    def settle(self, law: Any) -> None:  # noqa: B027
        """Put a law of a snapshot where the features are."""
