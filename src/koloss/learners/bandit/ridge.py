"""The penalty of the bandit learner, chosen by its bound (theory F1): how strong, and on which features.

All features that a refresh can afford are kept, but for those that hardly change the bound. The constant and a head of k
leading ones are estimated without a penalty, the others with the penalty λ. Small penalties leave many features to learn, large ones a bias that the bonus has to pay for; a penalty
far above all eigenvalues is truncation after the head, and none at all is the estimator without a ridge.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from koloss.core.arrays import to_numpy
from koloss.core.snapshot import kept
from koloss.designs import Design
from koloss.designs.ridge import (
    Certificates,
    Dimensions,
    Leverage,
    RidgeDesign,
    ridge_design,
)
from koloss.guarantees import bandit
from koloss.guarantees.anytime import Level, anytime_terms
from koloss.guarantees.bandit import BanditProblem, Rates, Ridge
from koloss.learners.bandit.shares import Shares, design_within
from koloss.learners.bandit.tuning import choose_design, is_exact
from koloss.proxy import Proxy

Floats = NDArray[np.float64]

FINALISTS = 3
"""Heads whose dimensions are certified closely before one is chosen; the residual curve alone picks them."""

SLACK = 0.01
"""Share of the bound for which features are left out."""

STEPS = 2
"""Steps towards the law that certifies a dimension."""

NEAR = (1.0, 16.0, 0.25)
"""Where the dimensions of the chosen head are certified closely, in units of the best penalty λ: there, at λ/γ of the design, and
below for the spread."""

HOPELESS = 8
"""Bounds above so many times n L, where 2 n L is what anybody can lose, no certificate will make worth having."""

TRUNCATION = 4.0**12
"""A penalty of so many times sup K(a, a) is as good as truncation after the head (theory F1, Corollary T)."""


@dataclass(frozen=True)
class LossClass:
    """What is known of the losses: ⟨Φ(a), w⟩ up to a constant, with w in a ball or in the hull of ±W Φ(y)."""

    hull: bool
    norm: float  # W
    played: Floats  # largest r_j on the points in play after j = 0, 1, ... features
    anywhere: Floats  # and on all actions, where y may lie
    exact: bool = False  # whether all features together miss nothing

    def error(self, rank: int) -> float:
        """ε of the first features alone: the largest |⟨Φ_⊥(a), w⟩| (theory B1)."""
        if self.exact and rank == len(self.played) - 1:
            return 0.0
        return self.norm * math.sqrt(
            self.played[rank] * (self.anywhere[rank] if self.hull else 1.0)
        )

    def bias(self, head: int, penalty: Any) -> Any:
        """b: the largest (θ'Λθ)^½."""
        square = penalty * (self.anywhere[head] if self.hull else 1.0)
        return self.norm * (np.sqrt(square) if np.ndim(square) else math.sqrt(square))


def loss_class(proxy: Proxy, hull: bool, norm: float) -> LossClass:
    """The class of losses in the features of a proxy."""
    return LossClass(hull, norm, proxy.point_curve, proxy.residual_curve, is_exact(proxy))


@dataclass(frozen=True)
class Choice:
    """A head, a penalty, and the game they make."""

    rank: int  # features of the kernel that are kept
    head: int  # k, those without a penalty
    penalty: float
    problem: BanditProblem
    rates: Rates
    bound: float


SHARES_EXPLORED = 2.0 ** -np.arange(0.0, 24.0)
"""γ at which a curve of explorations is computed; between them it is interpolated."""


def exploration_curve(largest: Floats) -> Callable[[Any], Any]:
    """γ as a function of the largest leverage allowed, nearly, from the largest leverages at `SHARES_EXPLORED`.

    A second axis of `largest` has several games, and then the function takes one leverage for each.
    """
    log_caps, log_shares = np.maximum.accumulate(np.log(largest), axis=0), np.log(SHARES_EXPLORED)

    def exploration(cap: Any) -> Any:
        log_cap = np.log(cap)
        if log_caps.ndim == 1:
            within = np.interp(log_cap, log_caps, log_shares)
        else:
            games = np.arange(log_caps.shape[1])
            k = np.clip(np.sum(log_caps <= log_cap, axis=0), 1, len(log_shares) - 1)
            low, high = log_caps[k - 1, games], log_caps[k, games]
            share = np.clip((log_cap - low) / np.maximum(high - low, 1e-300), 0.0, 1.0)
            within = log_shares[k - 1] + share * (log_shares[k] - log_shares[k - 1])
        return np.exp(np.where(log_cap < log_caps[0], log_caps[0] - log_cap, within))

    return exploration


def choose_ridge(
    features: Floats,
    losses: LossClass,
    game: BanditProblem,
    penalty: float | None,
    shares: Floats | None = None,
) -> Choice | None:
    """The head and the penalty with the least bound, or the head alone where the penalty is given.

    `features` are orthonormal coordinates in the RKHS, nested, without the constant; `game` has the numbers that do not depend
    on the penalty. Where they are those of pairs, `shares` is the law of contexts (theory F6). None where there is nothing to choose.
    """
    if game.log_prior == 0:
        return None
    penalties = penalty_grid(losses, game) if penalty is None else [penalty]
    sizes = _head_sizes(losses, features.shape[1])
    heads = [Head(features, k, losses, game, penalties[-1], shares) for k in sizes]
    bounds = [head.best(penalties)[0] for head in heads]
    if penalty is None and min(bounds) > HOPELESS * game.loss_bound * game.rounds:
        return None
    ranked = [heads[k] for k in np.argsort(bounds, kind="stable")[:FINALISTS]]
    if not losses.hull:
        # A norm ball is nearly always played best without a head; the residual curve would not show that.
        ranked = [heads[0], *(head for head in ranked if head.size > 0)][:FINALISTS]
    law: Floats | None = None
    choices: list[Choice] = []
    for head in ranked:
        law = head.certify(head.best(penalties)[1], law)  # their best laws are much alike
        done: set[float] = set()
        for _ in NEAR:  # each certificate may move the best penalty
            best = head.best(penalties)[1]
            at = next(factor * best for factor in NEAR if factor * best not in done)
            head.certify(at)
            done.add(at)
        choices.append(head.choice(head.best(penalties)[1]))
    return min(choices, key=lambda choice: choice.bound)


def with_penalty(
    game: BanditProblem, certificates: Certificates, penalty: Any, bias: Any, head_error: float
) -> BanditProblem:
    """The game with a penalty, for an optimal design."""
    free, excess = certificates.free, certificates.excess(penalty)
    spread = certificates.spread(penalty)
    ridge = Ridge(penalty, free, free + excess, spread, bias, head_error)
    return replace(game, leverage=1.001 * (free + excess), ridge=ridge)


def tuned_with(problem: BanditProblem, leverage: Leverage, b: int) -> tuple[Rates, float]:
    """Rates for a design of this leverage in epochs of at most b rounds, and the largest leverage that they allow."""
    tuned = bandit.tune(problem, exploration_curve(leverage.at(SHARES_EXPLORED)), b)
    cap = problem.largest_leverage(tuned.learning_rate, tuned.kappa)
    return replace(tuned, exploration=leverage.exploration(cap)), float(cap)


def choose_ridge_design(
    features: Floats,
    columns: Floats,
    cap: float,
    design: str | Design,
    shares: Shares | None = None,
) -> RidgeDesign:
    """Where to explore: the log-det design, or the one asked for with as much exploration as the cap takes."""
    if isinstance(design, str) and design == "john":
        best = ridge_design(features, columns, cap)
        if shares is None or shares.contains(best.weights):
            return best
        penalty = columns / math.sqrt(best.exploration)
        weights = design_within(shares, features, penalty, best.weights, improve=True)
    else:
        chosen = choose_design(features, design, shares).weights
        weights = np.asarray(to_numpy(chosen), dtype=float)
    largest = Leverage(features, weights, columns)
    gamma = largest.exploration(cap)
    return RidgeDesign(weights, gamma, largest(gamma) if math.isfinite(gamma) else cap)


def _head_sizes(losses: LossClass, rank: int) -> Iterator[int]:
    """Heads worth a try: none, and from there on in steps of a fourth; never what rounding alone tells apart."""
    k = 0
    while k < rank and losses.played[k] > 1e-8 * losses.played[0]:
        yield k
        k = k + 1 if k < 4 else math.ceil(1.25 * k)


def penalty_grid(losses: LossClass, game: BanditProblem) -> list[float]:
    """From truncation down to well below the penalty that balances bias and variance."""
    top = float(losses.played[0])
    levels = math.ceil(math.log(max(top / balance(losses, game), 1.0), 4)) + 5
    return [top * TRUNCATION, *(top * 4.0**-j for j in range(-1, levels))]


def balance(losses: LossClass, game: BanditProblem) -> float:
    """λ_n = (L/W)² log N / n, of Corollary N."""
    scale = losses.norm * (math.sqrt(losses.played[0]) if losses.hull else 1.0)
    return float((game.loss_bound / scale) ** 2 * game.log_prior / game.rounds)


class Head:
    """Features without a penalty: the constant, where it is one, and the first k."""

    def __init__(
        self,
        features: Floats,
        size: int,
        losses: LossClass,
        game: BanditProblem,
        unit: float,
        shares: Floats | None = None,
    ) -> None:
        self.size, self.losses = size, losses
        rank, constant = features.shape[1], int(game.constant)
        ones = np.ones((len(features), constant))
        head, tail = np.column_stack([ones, features[:, :size]]), features[:, size:]
        self.dimensions = Dimensions(head, tail, losses.played[size:], unit=unit, shares=shares)
        # Exploration may dwell on rare contexts: what it costs is told by the laws with any shares.
        self.explored = self.dimensions
        if shares is not None:
            self.explored = Dimensions(head, tail, losses.played[size:], unit=unit)
        self.game = replace(game, rank=rank + constant, epsilon=losses.error(rank))

    def certify(self, penalty: float, law: Floats | None = None) -> Floats:
        """Certificates of the dimensions near this penalty, by a law some steps from the one given or the last one."""
        if self.explored is not self.dimensions:
            self.explored.improve(penalty, None, STEPS)
        return self.dimensions.improve(penalty, law, STEPS)

    def problem(self, penalty: Any) -> BanditProblem:
        """The game with this penalty, or several, by the certificates there are."""
        bias, error = self.losses.bias(self.size, penalty), self.losses.error(self.size)
        return with_penalty(self.game, self.dimensions.certificates, penalty, bias, error)

    def exploration(self, penalty: Any) -> Callable[[Any], Any]:
        """γ for log-det designs: γ = d*(Λ/γ)/ḡ² (Lemma F1.5)."""
        known, explored = self.dimensions.certificates, self.explored.certificates
        shares = SHARES_EXPLORED[:, None] if np.ndim(penalty) else SHARES_EXPLORED
        excess = explored.excess(penalty / shares)
        if explored is not known:
            excess = np.minimum(excess, known.excess(penalty))  # Lemma F6.2
        return exploration_curve((known.free + excess) / shares)

    def best(self, penalties: list[float]) -> tuple[float, float]:
        """The least bound, nearly, and its penalty."""
        bounds = self._bounds(np.array(penalties))
        least = int(np.argmin(bounds))
        return float(bounds[least]), penalties[least]

    def _bounds(self, penalties: Floats) -> Floats:
        """The bounds at a usual κ and nearly the best rate, close enough to choose by."""
        problem, explore = self.problem(penalties), self.exploration(penalties)
        kappa, E, L, leverage = 2.0, problem.estimate_bound, problem.loss_bound, problem.leverage
        moments = problem.second_moment
        if problem.hindsight:
            kappa, moments = 1.6, moments + problem.dimension * L**2
        kappa /= 1 + problem.delay
        for _ in range(3):
            constant = 2 * L * E * leverage / kappa + bandit.psi(kappa) * moments
            eta = np.sqrt(problem.log_comparator / (constant * problem.rounds))
            cap = problem.largest_leverage(eta, kappa)
            gamma = explore(cap)
            leverage = gamma * cap
        with np.errstate(over="ignore"):
            total: Floats = sum(problem.terms(eta, kappa, gamma=gamma).values())
        return total

    def choice(self, penalty: float) -> Choice:
        """The game with this penalty, and the rates that minimise its bound."""
        problem = self.problem(penalty)
        rates = bandit.tune(problem, self.exploration(penalty))
        eta, gamma, kappa = rates.learning_rate, rates.exploration, rates.kappa
        bound = sum(problem.terms(eta, kappa, gamma=gamma).values())
        rank = self._enough(problem, bound / problem.rounds)
        kept = replace(problem, rank=rank + int(problem.constant), epsilon=self.losses.error(rank))
        return Choice(rank, self.size, penalty, kept, rates, bound)

    def _enough(self, problem: BanditProblem, per_round: float) -> int:
        """The fewest features whose residual costs a hundredth of the bound more than that of all."""
        losses, most = self.losses, len(self.losses.played) - 1
        allowed = losses.error(most) + SLACK * per_round / (2 + math.sqrt(problem.dimension))
        errors = (losses.error(rank) for rank in range(max(self.size, 1), most + 1))
        return next(max(self.size, 1) + k for k, error in enumerate(errors) if error <= allowed)


# Without a horizon the penalty falls with time (theory F1.8).


@kept
@dataclass(frozen=True, kw_only=True, eq=False)
class Schedule:
    """Penalties λ_j = λ_0 4^(-j), each for the rounds in which it is below `start`/t, but not below a fourth of it (theory F1.8)."""

    penalty: float  # λ_0
    start: float
    bias: float  # b/√λ
    head_error: float
    certificates: Certificates

    def level(self, t: int) -> int:
        """j in round t."""
        return max(0, math.ceil(math.log(self.penalty * t / self.start, 4) - 1e-12))

    def first_round(self, level: int) -> int:
        """The round in which a level begins."""
        t = max(1, math.floor(self.start / self.penalty * 4.0 ** (level - 1)))
        while self.level(t) < level:
            t += 1 + (t >> 40)  # where numbers were forged, one more is nothing
        return t

    def problem(self, game: BanditProblem, kappa: float, level: int) -> BanditProblem:
        """The game at a level; its rates are not above those of the levels before."""
        floor = 0.0
        for j in range(self.level(1), level + 1):
            at = self.penalty * 4.0**-j
            b = self.bias * math.sqrt(at)
            problem = with_penalty(game, self.certificates, at, b, self.head_error)
            problem = replace(problem, floor=floor)
            floor = bandit.anytime_constant(problem, kappa) * problem.estimate_bound**2
        return problem

    def levels(self, game: BanditProblem, kappa: float, n: int) -> list[Level]:
        """All levels of n rounds."""
        numbers = range(self.level(1), self.level(n) + 1)
        return [(self.first_round(j), self.problem(game, kappa, j)) for j in numbers]


def choose_schedule(
    features: Floats, losses: LossClass, game: BanditProblem, penalty: float | None
) -> tuple[Schedule, float, float] | None:
    """A schedule without a head, its κ, and its bound after `game.rounds` rounds; a penalty that is given stays."""
    if game.log_prior == 0:
        return None
    penalties = penalty_grid(losses, replace(game, rounds=100 * game.rounds))[2:]
    starts = [balance(losses, game) * game.rounds * 4.0**j for j in range(-4, 3)]
    if penalty is not None:
        penalties, starts = [penalty], [1e150]
    head = Head(features, 0, losses, game, penalties[-1])
    for at in penalties[::2]:
        head.certify(at)
    more = game.hindsight or game.learned
    kappas = (0.75, 1.0, 1.25, 1.5, 1.75) if more else (1.25, 1.5, 1.75, 2.0)
    found = []
    for kappa, start in product(kappas, starts):
        schedule = Schedule(
            penalty=penalties[0],
            start=start,
            bias=losses.bias(0, 1.0),
            head_error=losses.error(0),
            certificates=head.dimensions.certificates,
        )
        levels = schedule.levels(head.game, kappa, game.rounds)
        bound = sum(anytime_terms(levels, kappa, game.rounds).values())
        found.append((schedule, kappa, bound))
    return min(found, key=lambda one: one[2])
