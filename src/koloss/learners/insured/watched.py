"""One watched stage: a policy plays, explores a little, and its own regret is estimated without bias.

Losses are in units of their range here, y in [-1/2, 1/2]. In a round the action is drawn from p = (1 - γ)q + γπ, where q is
the policy's and π explores, and with any prediction M of the round

    x(a) = M(a) + k(a, a_t)(y - M(a_t)),   k(a, b) = φ(a)'Σ⁻¹φ(b),   Σ = E_p φφ',

is an unbiased estimate of the loss of every action a. With S the sum of all x and A that of the losses heard, A - min S
estimates the regret. One round raises it to at most

    A + 1 + max_a (max_b |k(a, b)| - S(a)),

and the share γ of exploration is the smallest that keeps this within the budget. Where that is too much, the stage ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular
from scipy.linalg.blas import dsyrk
from scipy.linalg.lapack import dpotrf, dpotrs

from koloss.guarantees.insured import CEILING

SUSPICION = 0.25
"""Share of exploration while the policy does no better than exploration itself."""

ODDS = 100.0
"""Wealth of the bets on `exploration does better than the policy` at which the stage ends early, at least ..."""

ODDS_EACH = 20.0
"""... and for every bet that has been made."""

STAKE = 0.9
"""Share of that wealth at stake whenever an action is explored."""

REDESIGN = 16
"""Losses between two looks at whether the exploration should be designed anew."""

STEPS = 4
"""Multiplicative steps towards a design in the middle of a game."""

DEAREST = 100.0
"""Largest ratio of prices."""


KEPT = 1_000_000
"""Numbers about single actions that an exploration keeps at most."""

PAIRS = 10_000_000
"""Largest number of pairs of actions that are looked at one by one; beyond, Cauchy and Schwarz have to do."""

NUMBERS = (
    "paid",
    "heard",
    "explored",
    "explored_paid",
    "noise",
    "priced",
    "designs",
)
"""Fields of a stage that a snapshot keeps as they are."""


def smallest(values: Any) -> float:
    """The minimum; by its place, which NumPy finds faster."""
    found: float = values.item(values.argmin())
    return found


def largest(values: Any) -> float:
    """The maximum, likewise."""
    found: float = values.item(values.argmax())
    return found


class Exploration:
    """Where to explore: a design π, features in which Σ(π) = I, and what one round can do to the estimates.

    Parameters
    ----------
    number : int
    features : array of shape (N, m)
        Whitened by the design.
    weights : array of shape (N,)
        π.
    """

    def __init__(self, number: int, features: Any, weights: Any) -> None:
        self.number, self.features, self.weights = number, features, weights
        self.cdf = np.cumsum(weights)
        self.cdf /= self.cdf[-1]
        self.support = np.flatnonzero(weights)
        self.leverages = np.einsum("ij,ij->i", features, features)
        self.largest = float(self.leverages.max())
        self._near: dict[int, tuple[Any, Any]] = {}
        self._pairs: Any = None

    def priced(self, number: int, prices: Any) -> Exploration:
        """The same actions, weighed so that the leverage of each is nearly in proportion to its price.

        With π the G-optimal design of φ/√price, μ ∝ π/price has φ'Σ(μ)⁻¹φ in proportion to the price where it explores: an
        action whose estimate may be off by more is explored less. A few multiplicative steps come near enough to π.
        """
        at, c = self.support, prices[self.support]
        rows = self.features[at] / np.sqrt(c)[:, None]
        w = self.weights[at]
        for _ in range(STEPS):
            root = np.linalg.cholesky(rows.T @ (w[:, None] * rows))
            white = solve_triangular(root, rows.T, lower=True, check_finite=False)
            w = w * np.einsum("ij,ij->j", white, white)
            w /= w.sum()
        weights = np.zeros_like(self.weights)
        weights[at] = w / c
        weights /= weights.sum()
        mu = weights[at]
        root = np.linalg.cholesky(self.features[at].T @ (mu[:, None] * self.features[at]))
        white = solve_triangular(root, self.features.T, lower=True, check_finite=False)
        return Exploration(number, np.asfortranarray(white.T), weights)

    def draw(self, uniform: Any) -> Any:
        """Actions by inversion of the cumulative sums."""
        return self.cdf.searchsorted(uniform, side="right")

    def reach(self, choice: int) -> Any:
        """γ max_b |k(a, b)| at most, for every action a, where the policy plays `choice` with probability 1 - γ ≥ 1/2.

        With K(a, b) = φ(a)'φ(b) and j the choice, γk(a, b) = K(a, b) - s K(a, j)K(j, b)/K(j, j) for an s between K(j, j)/(K(j, j) + 1)
        and 1, and γ|k(a, j)| ≤ |K(a, j)|/K(j, j). The pairs at s = 1, and what the rest can add.
        """
        return self._about(choice)[1]

    def beside(self, choice: int) -> Any:
        """K(a, choice) for every action a."""
        return self._about(choice)[0]

    def _about(self, choice: int) -> tuple[Any, Any]:
        """K(a, choice) and the reach; kept, as policies return to their actions."""
        found = self._near.get(choice)
        if found is None:
            W = self.features
            if len(self._near) * len(W) > KEPT:
                self._near.clear()
            if len(self.support) * len(W) > PAIRS:
                found = self._near[choice] = W @ W[choice], self.far_reach()
                return found
            if self._pairs is None:
                self._pairs = W[self.support] @ W.T
            beside = W @ W[choice]
            own = float(beside[choice])
            theirs = beside[self.support]
            pairs = np.outer(theirs / own, beside)
            np.subtract(self._pairs, pairs, out=pairs)
            reach = np.abs(pairs, out=pairs).max(axis=0)
            rest = max(largest(np.abs(theirs)) / (own + 1), 1.0) / own
            found = beside, reach + rest * np.abs(beside)
            self._near[choice] = found
        return found

    def far_reach(self) -> Any:
        """The same for any law of the policy's: |k(a, b)| ≤ √(k(a, a) k(b, b))."""
        return np.sqrt(self.leverages * self.largest)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for a snapshot."""
        return {"number": self.number, "features": self.features, "weights": self.weights}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Exploration:
        """The exploration in a snapshot."""
        features = np.array(data["features"], order="F")
        return cls(int(data["number"]), features, np.array(data["weights"]))


@dataclass(slots=True, eq=False)
class Round:
    """How the actions of a round were drawn, and what had been predicted."""

    choice: int | None  # the policy's action, or None where it gave a law
    rate: float  # γ
    exploration: Exploration
    prediction: Any  # M, within [-1/2, 1/2]
    heard: int  # losses heard by the stage before
    counted: bool = True  # whether it is within the budget, or played on trust
    law: Any = None  # q
    factor: Any = None  # Cholesky factor of Σ where it gave a law

    def estimates(self, index: int) -> Any:
        """k(a, index) for every action a."""
        W, g = self.exploration.features, self.rate
        if self.choice is None:
            found, _ = dpotrs(self.factor, W[index], lower=1)
            return W @ found
        # Sherman and Morrison: Σ = γI + (1 - γ)φ_jφ_j'.
        beside = self.exploration.beside(self.choice)
        weight = 1 / (g + (1 - g) * beside.item(self.choice))
        if index == self.choice:
            return weight * beside
        return (W @ W[index] - (1 - g) * weight * float(beside[index]) * beside) / g

    def reach(self) -> Any:
        """max_b |k(a, b)| at most, for every action a."""
        if self.choice is None:
            return self.exploration.far_reach() / self.rate
        return self.exploration.reach(self.choice) / self.rate

    def to_dict(self) -> dict[str, Any]:
        """Plain data for a snapshot."""
        found = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        return {**found, "exploration": self.exploration.number}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], places: Mapping[int, Exploration]) -> Round:
        """The round in a snapshot."""
        arrays = {k: np.array(v, order="F") for k, v in data.items() if isinstance(v, np.ndarray)}
        return cls(**{**data, **arrays, "exploration": places[data["exploration"]]})

    def distribution(self) -> Any:
        """p."""
        p = self.rate * self.exploration.weights
        if self.choice is None:
            return p + (1 - self.rate) * self.law
        p[self.choice] += 1 - self.rate
        return p


@dataclass(slots=True)
class Watch:
    """A bet that exploration does better than the policy, and how each has done of late.

    Whenever an action is explored, `STAKE` of the wealth is bet on its loss being below the mean of the policy's losses since
    the last bet; a new bet of 1 is added each time, so that a change late in the game is noticed, too (an e-detector). No loss
    is used twice: if exploration is no better than the policy, each bet is a fair one or worse.
    """

    wealth: float = 0.0
    policy_mean: float = 0.0
    explored_mean: float = 0.0
    policy_rounds: int = 0
    explored_rounds: int = 0
    bets: int = 0
    fresh_mean: float = 0.0  # of the policy's losses since the last bet
    fresh_rounds: int = 0

    @property
    def evidence(self) -> float:
        """Wealth over what ends the stage: with every bet more is asked for, lest one of many succeed by chance."""
        return self.wealth / max(ODDS, ODDS_EACH * self.bets)

    @property
    def suspicious(self) -> bool:
        """Whether the policy has done no better than exploration of late."""
        return self.explored_rounds == 0 or self.policy_mean >= self.explored_mean

    def hear(self, y: float, explored: bool) -> None:
        """Hear a loss."""
        if not explored:
            self.policy_rounds += 1
            self.policy_mean += (y - self.policy_mean) * max(1 / self.policy_rounds, 0.1)
            self.fresh_rounds += 1
            self.fresh_mean += (y - self.fresh_mean) * max(1 / self.fresh_rounds, 0.1)
            return
        if self.fresh_rounds:
            self.wealth = (self.wealth + 1) * (1 + STAKE * (self.fresh_mean - y))
            self.bets += 1
            self.fresh_rounds, self.fresh_mean = 0, 0.0
        self.explored_rounds += 1
        self.explored_mean += (y - self.explored_mean) / min(self.explored_rounds, 20)


@dataclass
class Stage:
    """The state of a watched stage.

    Attributes
    ----------
    base : array of shape (N, m)
        Features of the setup, whitened by its design.
    first : Exploration
        That of the setup.
    cap : float or None
        R: the largest leverage of any action that exploration may leave; None for the budget itself, which grows where
        there is no horizon.
    shield : bool
        Whether exploration adapts to what is known; otherwise `fixed` is its share.
    trigger : float
        Without a shield: the estimated regret that ends the stage.
    fixed : float
    """

    base: Any
    first: Exploration
    cap: float | None
    shield: bool
    trigger: float
    fixed: float
    exploration: Exploration = field(init=False)
    total: Any = field(init=False)  # S
    variance: Any = field(init=False)  # Σ of squared steps of S beside the predictions
    paid: float = 0.0  # A
    heard: int = 0
    explored: int = 0
    explored_paid: float = 0.0
    noise: float = 0.0  # Σ of squared residuals
    priced: float = 0.0  # largest gap at the last design, over the room then
    designs: int = 1
    watch: Watch = field(default_factory=Watch)

    def __post_init__(self) -> None:
        self.exploration = self.first
        self.total = np.zeros(len(self.base))
        self.variance = np.zeros(len(self.base))

    @property
    def estimated_regret(self) -> float:
        """A - min S."""
        return self.paid - smallest(self.total)

    def rate_needed(
        self, choice: int | None, budget: float, place: Exploration | None = None
    ) -> float:
        """The smallest γ that keeps the estimated regret within the budget after one more round; may be above 1."""
        if not self.shield:
            return self.fixed
        place = place or self.exploration
        room = self.total + (budget - self.paid - 1)
        if smallest(room) <= 0:
            return float("inf")
        reach = place.far_reach() if choice is None else place.reach(choice)
        return max(largest(reach / room), place.largest / self.cap_at(budget))

    def cap_at(self, budget: float) -> float:
        """R."""
        return budget if self.cap is None else self.cap

    def fits(self, played: Round, budget: float) -> bool:
        """Whether the loss of a round that was drawn for another state can be heard without leaving the budget."""
        if not (self.shield and played.counted):
            return True  # a fixed share of exploration fits any state
        return largest(played.reach() - self.total) + self.paid + 1 <= budget * (1 + 1e-12)

    def hear(self, played: Round, index: int, y: float, explored: bool) -> None:
        """Add the estimate of a round."""
        if not played.counted:
            self.watch.hear(y, explored)
            return
        residual = y - played.prediction.item(index)
        step = played.estimates(index)
        step *= residual
        self.total += played.prediction
        self.total += step
        step *= step
        self.variance += step
        self.paid += y
        self.heard += 1
        self.noise += residual * residual
        if explored:
            self.explored += 1
            self.explored_paid += y
        self.watch.hear(y, explored)

    def is_over(self) -> bool:
        """Without a shield: whether the estimated regret is above the trigger."""
        return not self.shield and self.estimated_regret > self.trigger

    def redesign(self, budget: float, *, now: bool = False) -> bool:
        """Explore anew once gaps have changed: what an action may be off by is the room left and its own gap.

        Parameters
        ----------
        budget : float
        now : bool
            Whether or not gaps have changed.

        Returns
        -------
        bool
            Whether the design has changed.
        """
        if not self.shield:
            return False
        best = smallest(self.total)
        room = budget - 1 - (self.paid - best)
        if room <= 0:
            return False
        gaps = (self.total - best) / room
        widest = largest(gaps)
        if not now and 0.6 * self.priced - 0.1 <= widest <= 1.4 * self.priced + 0.1:
            return False
        prices = np.minimum(1 + gaps, max(1.0, min(self.cap_at(budget) / room, DEAREST)))
        found = self.first.priced(self.designs + 1, prices)
        choice = int(self.total.argmin())
        costs = np.ones_like(gaps) if now else gaps
        old, new = (
            self.rate_needed(choice, budget, place) * float(costs @ place.weights)
            for place in (self.exploration, found)
        )
        self.priced = widest
        if new >= old:
            return False
        self.designs += 1
        self.exploration = found
        return True

    def trial(self, proposal: Any, prediction: Any) -> Round:
        """A round that is played on trust."""
        choice = proposal if isinstance(proposal, int) else None
        law = proposal if choice is None else None
        return Round(choice, SUSPICION, self.first, prediction, self.heard, counted=False, law=law)

    def draw_round(
        self,
        proposal: Any,
        prediction: Any,
        budget: float,
        crowded: float | None = None,
        *,
        look: bool = False,
    ) -> Round | None:
        """Prepare a round for a policy's action or law; None where it would need too much exploration.

        Parameters
        ----------
        proposal : int or array of shape (N,)
        prediction : array of shape (N,)
        budget : float
        crowded : float, optional
            Where other losses are or will be outstanding: the most that this round may add, or half of what is left, so that
            theirs will fit, too.
        look : bool
            Leave the stage as it is.
        """
        choice = proposal if isinstance(proposal, int) else None
        if crowded is not None:
            used = self.estimated_regret
            budget = used + min(budget - used, max(crowded, (budget - used) / 2))
        rate, place = self.rate_needed(choice, budget), self.exploration
        if rate > CEILING:
            before = self.exploration, self.designs, self.priced
            if self.redesign(budget, now=True):
                rate, place = self.rate_needed(choice, budget), self.exploration
            if look:
                self.exploration, self.designs, self.priced = before
            if rate > CEILING:
                return None
        if self.shield and self.watch.suspicious:
            rate = max(rate, SUSPICION)
        drawn = Round(choice, rate, place, prediction, self.heard)
        if choice is None:
            drawn.law = proposal
            root = place.features * np.sqrt((1 - rate) * proposal)[:, None]
            sigma = dsyrk(1.0, root, trans=1, lower=1)
            sigma[np.diag_indices_from(sigma)] += rate
            drawn.factor, _ = dpotrf(sigma, lower=1, overwrite_a=1)
        return drawn

    # Snapshots.

    def to_dict(self) -> dict[str, Any]:
        """Plain data for a snapshot: what changes during the stage."""
        return {
            "exploration": self.exploration.number,
            "total": self.total.copy(),
            "variance": self.variance.copy(),
            **{name: getattr(self, name) for name in NUMBERS},
            "watch": asdict(self.watch),
        }

    def load(self, data: Mapping[str, Any], places: Mapping[int, Exploration]) -> None:
        """Take back what `to_dict` gave."""
        self.exploration = places[data["exploration"]]
        self.total, self.variance = np.array(data["total"]), np.array(data["variance"])
        for name in NUMBERS:
            setattr(self, name, data[name])
        self.watch = Watch(**data["watch"])
