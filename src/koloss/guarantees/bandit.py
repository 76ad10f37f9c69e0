r"""Exponential weights under bandit feedback: the bound, and the parameters that make it small.

Notation: n rounds, |ℓ_t(a)| ≤ L, m features with error ε, a design with largest leverage G = (1 + τ)m,
learning rate η, ψ(M) = (e^M - 1 - M)/M². With the exploration

    γ = η L G / κ

one estimated loss moves a log-weight by at most κ, and φ'Σ⁻¹φ ≤ R = G/γ. Then

    R_n ≤ 2γLn + η V n + log(1/prior)/η + ε n (3 + √R),

where the variance V depends on how the rounds are grouped:

- epochs of one round (theory A3): V = ψ(κ) L² m;
- epochs of at most b rounds that end once η(q·X - X(a)) > h for an action, with X the sum of their estimates (theory B3′):
  V = ψ(κ) L² m E + φ L² (√(m(b - 1)/2) + (b - 1)/2), E = e^h - (e^h - 1)/b, φ = (e^h - 1)/h; where every action is a feature of
  its own, V = ψ(κ) L² m E + φ L² (b - 1) if that is less;
- whole epochs, b actions drawn at once (theory B3w): V = ψ(κ) L² m + ψ(M) L² b (1 + ψ(κ) √(ηLκm))²
  with M = bη(L̃ + ψ(κ)κL), L̃ = L + ε + ε√R.

Rates and the numbers of a ridge may be arrays, where many are compared: then all is computed elementwise.

The theory pages have the proofs and the variants: bonuses, sampled covariance, anytime, late feedback.

For the regret in hindsight (theory F7), where the best action is chosen after the game, every action gets the bonus
ν φ'A⁻¹ΣA⁻¹φ for the variance of its estimate, ν = ψ(κ)ηL², and the bound gains log(1/prior)/η + νmn.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

FINEST = 1e-6
"""Step to which the logarithms of rates are tuned; the bound is flat there, and has twice as many digits."""


def most_drift(b: int) -> float:
    """h: an epoch of at most b single rounds ends once η(q·X - X(a)) is above it for an action.

    The bound is flat in h. Epochs of up to 4 rounds rarely drift by a tenth; of longer ones that would end half.
    """
    return 0.1 if b <= 4 else 0.2


def _either(of_numbers: Callable[..., Any], of_arrays: Callable[..., Any]) -> Callable[..., Any]:
    """A function of numbers that takes arrays, too."""

    def function(*x: Any) -> Any:
        arrays = isinstance(x[0], np.ndarray) or isinstance(x[-1], np.ndarray)
        return of_arrays(*x) if arrays else of_numbers(*x)

    return function


_sqrt, _exp = _either(math.sqrt, np.sqrt), _either(math.exp, np.exp)
_hypot, _min, _max = _either(math.hypot, np.hypot), _either(min, np.minimum), _either(max, np.maximum)  # fmt: skip


def psi(M: Any) -> Any:
    """ψ(M) = (e^M - 1 - M)/M²: e^(-x) ≤ 1 - x + ψ(M)x² for all x ≥ -M.

    Examples
    --------
    >>> round(psi(1.0), 4), round(psi(2.0), 4), psi(0.0)
    (0.7183, 1.0973, 0.5)
    """
    if isinstance(M, np.ndarray):
        large = np.clip(M, 1e-3, 500.0)
        value = np.where(M < 1e-3, 0.5 + M / 6 + M * M / 24, (np.expm1(large) - large) / large**2)
        return np.where(M > 500, math.inf, value)
    if M > 500:
        return math.inf
    return 0.5 + M / 6 + M * M / 24 if M < 1e-3 else (math.expm1(M) - M) / (M * M)


@dataclass(frozen=True)
class Ridge:
    """A penalty λ on all features but a head, and what it makes of their number (theory F1)."""

    penalty: float  # λ
    free: int  # k₀: features of the head, the constant among them
    dimension: float  # d*: at most so many features can be learned from one round
    spread: float  # e*: d* - e* of them without bias
    bias: float  # b: the estimate of an action is off by at most b e(a)
    head_error: float  # ε_k: what a proxy of the head alone would miss; b √e* is never more


@dataclass(frozen=True)
class BanditProblem:
    """The numbers of a game that its bound depends on."""

    rounds: int  # n
    rank: int  # m
    leverage: float  # G, the design's largest leverage: (1 + τ)m, or that of Σ(π) + Λ/γ
    loss_bound: float  # L
    epsilon: float  # ε
    log_prior: float  # max_a log(1/prior(a)); log N for the uniform prior
    bonus: bool = False  # whether actions get one for the error they may have (theory B2, F1)
    shrink: float = 0.0  # s of a sampled covariance: (1 - s)Σ ⪯ Σ̂ ⪯ (1 + s)Σ (theory A4)
    delay: int = 0  # d: most other losses heard between an action and its loss (theory B3)
    # Whether the constant is a feature without penalty: then p·x is the loss heard (F3, Lemma 0).
    constant: bool = False
    ridge: Ridge | None = None
    floor: float = 0.0  # of the constant of the rates without a horizon: that of penalties before
    stretch: float = 1.0  # how often the norm that was played for the losses may have (theory F2)
    misfit: float = 0.0  # ζ: how far losses may be from the class (theory F8)
    learned: bool = False  # whether the range is learned; then 2L is a unit, and the norm in units of it (theory F3)
    hindsight: bool = False  # whether the best action is chosen after the game (theory F7)
    arms: bool = False  # whether every action is a feature of its own, without bonuses (theory F8)
    lost: int = 0  # features left out: double precision does not tell them apart from others

    @property
    def dimension(self) -> Any:
        """d*, the number of features without a penalty."""
        return self.ridge.dimension if self.ridge else self.rank

    @property
    def bias(self) -> Any:
        """b, zero without a penalty."""
        return self.ridge.bias if self.ridge else 0.0

    @property
    def root_spread(self) -> Any:
        """√e*, zero without a penalty."""
        return _sqrt(self.ridge.spread) if self.ridge else 0.0

    @property
    def estimate_bound(self) -> Any:
        """L, with bonuses L + min(b, 2ε_k) + ε: an estimated loss is at most this times ḡ²."""
        if not self.bonus:
            return self.loss_bound
        largest = _min(self.ridge.bias, 2 * self.ridge.head_error) if self.ridge else 0.0
        return self.loss_bound + largest + self.epsilon

    def in_units(self, unit: float) -> BanditProblem:
        """The same game with losses in other units."""
        scaled: dict[str, Any] = {
            name: getattr(self, name) / unit for name in ("loss_bound", "epsilon", "misfit")
        }
        if self.ridge is not None:
            bias, error = self.ridge.bias / unit, self.ridge.head_error / unit
            scaled["ridge"] = replace(self.ridge, bias=bias, head_error=error)
        return replace(self, **scaled)

    @property
    def log_comparator(self) -> float:
        """What is divided by η in the bound: log(1/prior), in hindsight twice."""
        return 2 * self.log_prior if self.hindsight else self.log_prior

    # One estimate: x'(a) = x(a) - β(a) - ν s(a)², |x| ≤ L ḡ², β = b e(a) + ε s(a) ≤ β̄ where there is a bonus.

    def variance_bonus(self, eta: Any, kappa: Any) -> Any:
        """ν: in hindsight the estimate of an action gets ν times its variance with losses of ±1 as a bonus."""
        return psi(kappa) * eta * self.loss_bound**2 if self.hindsight else 0.0

    def largest_bonus(self, g: Any) -> Any:
        """β̄ where φ'A⁻¹φ ≤ g²: the smaller of √(b² + ε²) g and ε_k(1 + g) + ε g."""
        if not self.bonus:
            return 0.0
        quick = _hypot(self.bias, self.epsilon) * g
        if self.ridge is None:
            return quick
        return _min(quick, self.ridge.head_error * (1 + g) + self.epsilon * g)

    def largest_leverage(self, eta: Any, kappa: Any) -> Any:
        """ḡ² ≥ φ'A⁻¹φ, the largest with η((L + ν)ḡ² + β̄) ≤ κ."""
        L, room = self.loss_bound, kappa * (1 - self.shrink) / eta
        L += self.variance_bonus(eta, kappa)
        if not self.bonus:
            return room / L
        # (L + ν) g² + slope g + offset = room, for either form of β̄.
        slope = _hypot(self.bias, self.epsilon)
        root = 2 * room / (slope + _sqrt(slope**2 + 4 * L * room))
        if self.ridge is not None:
            error = self.ridge.head_error
            slope, left = error + self.epsilon, _max(room - error, 0.0)
            root = _max(root, 2 * left / (slope + _sqrt(slope**2 + 4 * L * left)))
        return root**2

    def rise(self, eta: float, gamma: float) -> float:
        """κ: how far one estimate can raise a log-weight at this exploration."""
        R = self.leverage / gamma
        largest: float = self.loss_bound * R + self.largest_bonus(math.sqrt(R))
        own = eta * largest / (1 - self.shrink)
        if not self.hindsight:
            return own
        kappa, last = own, 0.0
        while kappa - last > 1e-12 * kappa:  # ν grows with κ, and κ with ν
            kappa, last = own + eta * self.variance_bonus(eta, kappa) * R, kappa
            if kappa > 50:
                raise ValueError(
                    f"`exploration_rate` must be larger for a bonus on variance at this learning rate, got {gamma:.6g}"
                )
        return kappa

    def exploration(self, eta: Any, kappa: Any) -> Any:
        """γ, the share of rounds that explore; above 1 where the horizon is too short for a bound."""
        return self.leverage / self.largest_leverage(eta, kappa)

    def mean_bound(self, eta: Any, kappa: Any) -> Any:
        """L̃ ≥ |E x'(a)|."""
        L, eps, s = self.loss_bound, self.epsilon * self.stretch, self.shrink
        g = _sqrt(self.largest_leverage(eta, kappa))
        if self.bonus:
            error = (1 + self.stretch) * self.largest_bonus(g)
        else:
            error = _hypot(self.bias * self.stretch, eps) * g
        error += self.variance_bonus(eta, kappa) * g**2
        return (L + eps + error + self.misfit * (1 + g) + s * L * g) / (1 - s)

    # One round.

    @property
    def second_moment(self) -> Any:
        """S² ≥ (1 - γ) E q·(x - β)²."""
        L, d, b = self.loss_bound, self.dimension, self.bias
        if not self.bonus:
            return L**2 * d
        L, e = L + self.epsilon, self.root_spread**2
        apart = (L * _sqrt(_max(d - e, 0.0)) + b * _sqrt(e)) ** 2
        together = (L**2 + b**2) * d
        if isinstance(d, np.ndarray):
            return np.where(e * (L**2 + b**2) <= b**2 * d, apart, together)
        return apart if e * (L**2 + b**2) <= b**2 * d else together

    @property
    def drift(self) -> Any:
        """U ≥ √(1 - γ) (q·(E x - β)²)^½."""
        if not self.bonus:
            return self.loss_bound
        return self.loss_bound + self.bias * self.root_spread + self.epsilon * _sqrt(self.dimension)

    def variance(self, eta: Any, kappa: Any, b: int, *, whole: bool) -> Any:
        """V: what one round adds to the bound, over η; b rounds make an epoch."""
        L, d, s = self.loss_bound, self.dimension, self.shrink
        g, nu = _sqrt(self.largest_leverage(eta, kappa)), self.variance_bonus(eta, kappa)
        spread, root = nu * g * _sqrt(d), _sqrt(self.second_moment)  # (q·(ν s²)²)^½ at most
        own = psi(kappa) * (self.second_moment + spread * (2 * root + spread))
        if b == 1:
            value = own
        elif whole:
            largest = L * g + self.largest_bonus(g) + nu * g**2  # its square bounds E x'²
            square = psi(kappa) * (eta * largest / (1 - s)) ** 2
            M = b * (eta * self.mean_bound(eta, kappa) + square)
            side = self.drift + spread + psi(kappa) * eta * largest / (1 - s) * (root + spread)
            value = own + psi(M) * b * side**2
        else:
            h, U = most_drift(b), self.drift + spread
            phi = math.expm1(h) / h
            moved = U * (L * _sqrt(d * (b - 1) / 2) + U * (b - 1) / 2)
            if self.arms and not self.hindsight:
                moved = _min(moved, L**2 * (b - 1))
            value = own * (math.exp(h) - math.expm1(h) / b) + phi * moved
        return value / (1 - s) ** 2

    def bracket(self, root_gamma: Any, g: Any, n: Any = 1.0) -> Any:
        """What the errors of estimates cost: of the features, of the penalty, of losses that are not in the class.

        In n rounds, where `root_gamma` and `g` are the sums of √γ and ḡ over them.
        """
        near = self.constant and self.shrink == 0
        chi, chi_error = (root_gamma, n + root_gamma) if near else (n, 3 * n)
        b, eps, own = self.bias, self.epsilon, chi * _min(0.5, self.root_spread)
        wide_b, wide_eps = b * self.stretch, eps * self.stretch
        cost = wide_b * own + wide_eps * chi_error + self.misfit * (chi_error + g)
        if not self.bonus:
            return cost + (wide_b + wide_eps) * g
        paid = n * (b * self.root_spread + eps * _sqrt(self.dimension))
        # Until the range has been heard, a bonus in units of it may be too small (Theorem F3.3).
        sure = (0.0, 0.0) if self.learned else (b, eps)
        return cost + paid + (_max(wide_b - sure[0], 0.0) + _max(wide_eps - sure[1], 0.0)) * g

    def terms(
        self,
        eta: Any,
        kappa: Any,
        *,
        rounds: int | None = None,
        gamma: Any = None,
        b: int = 1,
        whole: bool = False,
        failure: float = 0.0,
    ) -> dict[str, Any]:
        """The terms of the bound after so many rounds (all, by default), by name."""
        n = self.rounds if rounds is None else rounds
        L, s, d = self.loss_bound, self.shrink, self.delay
        g = _sqrt(self.largest_leverage(eta, kappa))
        gamma = self.leverage / g**2 if gamma is None else gamma
        variance, delay = eta * self.variance(eta, kappa, b, whole=whole) * n, 0.0
        if d > 0:
            # Theorem B3-delay, its drift condition met surely: ϱ = κ d.
            grow = _exp(_min(2 * kappa * d, 600.0)) / _max(1 - gamma, 1e-300)
            mean = self.mean_bound(eta, kappa)
            variance *= grow
            second = _exp(_min(2 * kappa, 600.0)) * grow * mean * eta
            second = second * (self.second_moment / (1 - s) ** 2)
            delay = eta * n * d * (mean**2 + second)
        terms = {
            "exploration": 2 * _min(gamma, 1e300) * L * n,
            "variance": variance,
            "prior": self.log_prior / eta,
            "bias": n * self.bracket(_sqrt(_min(gamma, 1.0)), g) / (1 - s),
            "delay": delay,
            "sampling": s / (1 - s) * L * n * (1 + g) + 2 * L * n * failure if s > 0 else 0.0,
            "range": self.range_cost(g, b if whole else 1),
        }
        if self.hindsight:  # the union over all actions, and the bonuses of those that are played
            paid = self.variance_bonus(eta, kappa) * self.dimension * n
            terms["hindsight"] = self.log_prior / eta + paid
        return terms

    def range_cost(self, g: Any, b: int = 1) -> Any:
        """What losses outside of all that was heard before cost: each loss only by as much as it is (Theorem F3.1)."""
        return 2 * self.loss_bound * b * (self.excess_cost(g) + 1) if self.learned else 0.0

    def excess_cost(self, g: Any) -> Any:
        """What a loss costs for each unit by which it is outside, where the interval widens then.

        In hindsight one outside is taken as the end that it is beyond before the interval widens (Theorem F7.2).
        """
        return g**2 + _sqrt(self.leverage) + 1 if self.hindsight else g**2 + g


@dataclass(frozen=True)
class Rates:
    """Parameters of the play: η, γ and κ."""

    learning_rate: float
    exploration: float
    kappa: float


def tune(
    problem: BanditProblem, exploration: Callable[[Any], Any] | None = None, b: int = 1
) -> Rates:
    """Learning rate and κ that minimise the bound for epochs of at most b rounds, ended by drift.

    `exploration` is γ as a function of the largest leverage allowed, G/ḡ² unless told otherwise.

    Examples
    --------
    >>> game = BanditProblem(10_000, 10, 10.0, loss_bound=1.0, epsilon=0.0, log_prior=5.0)
    >>> rates = tune(game)
    >>> bound = sum(game.terms(rates.learning_rate, rates.kappa).values())
    >>> round(rates.kappa, 3), round(bound / (10 * 1e4 * 5) ** 0.5, 3)
    (2.0, 2.896)
    """
    if problem.log_prior == 0:  # a single action: nothing to learn
        return Rates(1.0, 1.0, 1.0)
    # In units of a power of two near L: losses told in other such units are played alike, bit for bit.
    unit = math.ldexp(1.0, math.frexp(problem.loss_bound)[1])
    problem = problem.in_units(unit)
    scale = 0.5 * math.log(problem.log_prior / (problem.dimension * problem.rounds))
    scale -= math.log(problem.estimate_bound)
    smallest = math.log(0.01 / (1 + problem.delay))

    def share(eta: Any, kappa: Any) -> Any:
        return exploration(problem.largest_leverage(eta, kappa)) if exploration else None

    def bounds(x: Floats, y: Floats) -> Floats:
        eta, kappa = np.exp(x)[:, None], np.exp(y)
        with np.errstate(over="ignore", invalid="ignore"):
            terms = problem.terms(eta, kappa, gamma=share(eta, kappa), b=b)
            total: Floats = sum(terms.values())
        return np.nan_to_num(total, nan=np.inf, posinf=np.inf)

    # A coarse grid over all logarithms of η and κ, then ever finer ones around the best so far.
    x, y = np.linspace(scale - 12, scale + 6, 37), np.linspace(smallest, math.log(4.0), 25)
    step = np.array([x[1] - x[0], y[1] - y[0]])
    around = np.arange(-4.0, 5.0)
    while True:
        i, j = divmod(int(np.argmin(bounds(x, y))), len(y))
        if step.max() < FINEST:
            break
        step = step / 2
        x, y = x[i] + step[0] * around, y[j] + step[1] * around
        y = np.clip(y, smallest, math.log(4.0))
    eta, kappa = math.exp(x[i]), math.exp(y[j])
    gamma = share(eta, kappa) or problem.exploration(eta, kappa)
    return Rates(eta / unit, min(1.0, float(gamma)), kappa)


def late_cost(problem: BanditProblem, eta: float, kappa: float, b: int = 1) -> float:
    """What one loss heard after its epoch costs at most, where epochs have at most b rounds (theory B3l, F1).

    4L̃ + ψ(κ)η(Lḡ + β̄)² for the loss itself, and φηU(Lḡ + β̄) for each round of the epoch in which it is heard.
    """
    g, h = math.sqrt(problem.largest_leverage(eta, kappa)), most_drift(b)
    largest = (problem.loss_bound * g + problem.largest_bonus(g)) / (1 - problem.shrink)
    within = b * math.expm1(h) / h * eta * problem.drift / (1 - problem.shrink) * largest
    return float(4 * problem.mean_bound(eta, kappa) + psi(kappa) * eta * largest**2 + within)


# Without a horizon (theory B4, F1).


def anytime_constant(problem: BanditProblem, kappa: float) -> float:
    """c m = 2G/κ + ψ(κ)m, the constant of the anytime rates, in units of the square of the estimates' bound."""
    L, E = problem.loss_bound, problem.estimate_bound
    if not problem.bonus:
        own = 2 * problem.leverage / kappa + psi(kappa) * problem.dimension
    else:
        own = 2 * problem.leverage * (L / E) / kappa + psi(kappa) * problem.second_moment / E**2
    if problem.hindsight:
        own += psi(kappa) * problem.dimension * (L / E) ** 2
    return float(max(own, problem.floor / E**2))


def _anytime_logarithm(problem: BanditProblem, kappa: float) -> float:
    """What the anytime rates put in the place of log(1/prior)."""
    return problem.log_comparator + (2 * kappa if problem.learned else 0.0)


def anytime_kappa(problem: BanditProblem) -> float:
    """The κ that minimises c."""
    from scipy.optimize import minimize_scalar

    def constant(kappa: float) -> float:
        own = anytime_constant(problem, kappa)
        return own * _anytime_logarithm(problem, kappa) if problem.learned else own

    return float(minimize_scalar(constant, bounds=(0.05, 10.0), method="bounded").x)


def anytime_rate(problem: BanditProblem, kappa: float, t: int) -> float:
    """η_t = √(log(1/prior) / (2 c m t)) / L."""
    cm = anytime_constant(problem, kappa)
    logarithm = _anytime_logarithm(problem, kappa)
    return float(math.sqrt(logarithm / (2 * cm * t)) / problem.estimate_bound)


def fixed_rate(problem: BanditProblem, kappa: float, n: int) -> float:
    """η = √(log(1/prior) / (c m n)) / L, the best for n rounds at this κ where estimates have no bias."""
    return anytime_rate(problem, kappa, 1) * math.sqrt(2 / n)


def sample_count(problem: BanditProblem, eta: float, kappa: float, failure: float) -> int:
    """Draws that give (1 - s)Σ ⪯ Σ̂ ⪯ (1 + s)Σ with probability 1 - failure (matrix Chernoff, theory A4)."""
    R: float = problem.largest_leverage(eta, kappa)
    return math.ceil(3 * R / problem.shrink**2 * math.log(2 * problem.rank / failure))


def with_rank(problem: BanditProblem, rank: int, epsilon: float) -> BanditProblem:
    """The same game with other features, for an optimal design."""
    return replace(problem, rank=rank, leverage=1.001 * rank, epsilon=epsilon)
