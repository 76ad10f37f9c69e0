"""The penalty of the bandit learner, chosen by its bound (theory F1): how strong, and on which features.

All features are kept, up to rounding. The constant and a head of k leading ones are estimated without a penalty, the others
with the penalty λ. Small penalties leave many features to learn, large ones a bias that the bonus has to pay for; a penalty
far above all eigenvalues is truncation after the head, and none at all is the estimator without a ridge.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from koloss._arrays import to_numpy
from koloss.designs.ridge import Dimensions, Leverage, RidgeDesign, ridge_design
from koloss.guarantees import bandit
from koloss.guarantees.bandit import BanditProblem, Rates, Ridge
from koloss.learners.bandit.settings import BanditSettings
from koloss.learners.bandit.tuning import choose_design, is_exact
from koloss.proxy import Proxy

Floats = NDArray[np.float64]

FINALISTS = 3
"""Heads whose dimensions are certified closely before one is chosen; the residual curve alone picks them."""

SLACK = 0.01
"""Share of the bound for which features are left out."""

CLOSER = 4
"""Penalties for which the dimensions of the chosen head are certified."""

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
        return self.norm * math.sqrt(self.played[rank] * (self.anywhere[rank] if self.hull else 1.0))

    def bias(self, head: int, penalty: float) -> float:
        """b: the largest (θ'Λθ)^½."""
        return self.norm * math.sqrt(penalty * (self.anywhere[head] if self.hull else 1.0))


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


class _Exploration:
    """γ as a function of the largest leverage allowed, for log-det designs: γ = d*(Λ/γ)/ḡ² (Lemma F1.5)."""

    def __init__(self, dimensions: Dimensions, penalty: float) -> None:
        shares = 2.0 ** -np.arange(0.0, 24.0)
        excess = np.array([dimensions.excess(at) for at in penalty / shares])
        largest = (dimensions.free + excess) / shares
        self.log_shares, self.log_caps = np.log(shares), np.maximum.accumulate(np.log(largest))

    def __call__(self, cap: float) -> float:
        log_cap = math.log(cap)
        if log_cap < self.log_caps[0]:
            return math.exp(self.log_caps[0] - log_cap)
        return math.exp(float(np.interp(log_cap, self.log_caps, self.log_shares)))


def choose_ridge(
    features: Floats, losses: LossClass, game: BanditProblem, penalty: float | None
) -> Choice | None:
    """The head and the penalty with the least bound, or the head alone where the penalty is given.

    `features` are orthonormal coordinates in the RKHS, nested, without the constant; `game` has the numbers that do not depend
    on the penalty. None where there is nothing to choose.
    """
    if game.log_prior == 0:
        return None
    penalties = _penalties(losses, game) if penalty is None else [penalty]
    sizes = _head_sizes(losses, features.shape[1])
    heads = [_Head(features, k, losses, game, penalties[-1]) for k in sizes]
    # A norm ball is nearly always played best without a head; the residual curve would not show that.
    first = [] if losses.hull else heads[:1]
    ranked = sorted(heads[len(first) :], key=lambda head: head.best(penalties).bound)
    finalists = first + ranked[: FINALISTS - len(first)]
    for head in finalists:
        head.certify(head.best(penalties).penalty)
    head = min(finalists, key=lambda head: head.best(penalties).bound)
    done: set[float] = set()
    while len(done) < CLOSER:  # certificates are good near the penalty they were made for, and may move the best one
        best = head.best(penalties).penalty
        near = [at for at in (best, 4 * best, best / 4) if at in penalties and at not in done]
        if not near:
            break
        head.certify(near[0])
        done.add(near[0])
    return head.choice(head.best(penalties).penalty)


def choose_ridge_design(
    features: Floats, penalties: Floats, cap: float, settings: BanditSettings
) -> RidgeDesign:
    """Where to explore: the log-det design, or the one asked for with as much exploration as the cap takes."""
    if isinstance(settings.design, str) and settings.design == "john":
        return ridge_design(features, penalties, cap)
    weights = np.asarray(to_numpy(choose_design(features, settings.design).weights), dtype=float)
    gamma = Leverage(features, weights, np.diag(penalties)).exploration(cap)
    return RidgeDesign(weights, gamma, cap)


def _head_sizes(losses: LossClass, rank: int) -> Iterator[int]:
    """Heads worth a try: none, and from there on in steps of a fourth; never what rounding alone tells apart."""
    k = 0
    while k < rank and losses.played[k] > 1e-8 * losses.played[0]:
        yield k
        k = k + 1 if k < 4 else math.ceil(1.25 * k)


def _penalties(losses: LossClass, game: BanditProblem) -> list[float]:
    """From truncation down to well below the penalty that balances bias and variance."""
    top = float(losses.played[0])
    scale = losses.norm * (math.sqrt(top) if losses.hull else 1.0)
    balance = (game.loss_bound / scale) ** 2 * game.log_prior / game.rounds
    levels = math.ceil(math.log(max(top / balance, 1.0), 4)) + 5
    return [top * TRUNCATION, *(top * 4.0**-j for j in range(-1, levels))]


class _Quick(NamedTuple):
    bound: float
    penalty: float


class _Head:
    """Features without a penalty: the constant, where it is one, and the first k."""

    def __init__(
        self,
        features: Floats,
        size: int,
        losses: LossClass,
        game: BanditProblem,
        unit: float,
    ) -> None:
        self.size, self.losses = size, losses
        rank, constant = features.shape[1], int(game.constant)
        ones = np.ones((len(features), constant))
        head, tail = np.column_stack([ones, features[:, :size]]), features[:, size:]
        self.dimensions = Dimensions(head, tail, losses.played[size:], unit=unit)
        self.law: Floats | None = None
        self.game = replace(game, rank=rank + constant, epsilon=losses.error(rank))

    def certify(self, penalty: float) -> None:
        """Certificates of the dimensions near this penalty, better ones at the second call."""
        self.law = self.dimensions.improve(penalty, self.law)

    def problem(self, penalty: float) -> BanditProblem:
        """The game with this penalty, by the certificates there are."""
        free, losses = self.dimensions.free, self.losses
        excess = self.dimensions.excess(penalty)
        ridge = Ridge(
            penalty=penalty,
            free=free,
            dimension=free + excess,
            spread=min(self.dimensions.spread(penalty), excess),
            bias=losses.bias(self.size, penalty),
            head_error=losses.error(self.size),
        )
        return replace(self.game, leverage=free + excess, ridge=ridge)

    def best(self, penalties: list[float]) -> _Quick:
        """The penalty of least bound, nearly."""
        return min(_Quick(self._bound(at), at) for at in penalties)

    def _bound(self, penalty: float) -> float:
        """The bound at κ = 2 and nearly the best rate, close enough to choose by."""
        problem, explore = self.problem(penalty), _Exploration(self.dimensions, penalty)
        kappa, E, L, leverage = 2.0, problem.estimate_bound, problem.loss_bound, problem.leverage
        for _ in range(3):
            constant = 2 * L * E * leverage / kappa + bandit.psi(kappa) * problem.second_moment
            eta = math.sqrt(problem.log_prior / (constant * problem.rounds))
            cap = problem.largest_leverage(eta, kappa)
            gamma = explore(cap)
            leverage = gamma * cap
        return sum(problem.terms(eta, kappa, gamma=gamma).values())

    def choice(self, penalty: float) -> Choice:
        """The game with this penalty, and the rates that minimise its bound."""
        problem = self.problem(penalty)
        rates = bandit.tune(problem, _Exploration(self.dimensions, penalty))
        eta, gamma, kappa = rates.learning_rate, rates.exploration, rates.kappa
        bound = sum(problem.terms(eta, kappa, gamma=gamma).values())
        rank = self._enough(problem, bound / problem.rounds)
        kept = replace(
            problem, rank=rank + int(problem.constant), epsilon=self.losses.error(rank)
        )
        return Choice(rank, self.size, penalty, kept, rates, bound)

    def _enough(self, problem: BanditProblem, per_round: float) -> int:
        """The fewest features whose residual costs a hundredth of the bound more than that of all."""
        losses, most = self.losses, len(self.losses.played) - 1
        allowed = losses.error(most) + SLACK * per_round / (2 + math.sqrt(problem.dimension))
        errors = (losses.error(rank) for rank in range(max(self.size, 1), most + 1))
        return next(max(self.size, 1) + k for k, error in enumerate(errors) if error <= allowed)
