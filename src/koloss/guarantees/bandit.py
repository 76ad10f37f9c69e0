r"""Exponential weights under bandit feedback: the bound, and the parameters that make it small.

Notation: n rounds, |ℓ_t(a)| ≤ L, m features with error ε, a design with largest leverage G = (1 + τ)m,
learning rate η, ψ(M) = (e^M - 1 - M)/M². With the exploration

    γ = η L G / κ

one estimated loss moves a log-weight by at most κ, and φ'Σ⁻¹φ ≤ R = G/γ. Then

    R_n ≤ 2γLn + η V n + log(1/prior)/η + ε n (3 + √R),

where the variance V depends on how the rounds are grouped:

- epochs of one round (theory A3): V = ψ(κ) L² m;
- epochs of at most b rounds that end once a log-weight has risen by more than h (theory B3):
  V = ψ(κ + h) L² (√m + √b)²;
- whole epochs, b actions drawn at once (theory B3w): V = ψ(κ) L² m + ψ(M) L² b (1 + ψ(κ) √(ηLκm))²
  with M = bη(L̃ + ψ(κ)κL), L̃ = L + ε + ε√R.

The theory pages have the proofs and the variants: bonuses, sampled covariance, anytime, late feedback.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import starmap
from typing import Any

from koloss.guarantees.base import Assumption, Guarantee, semidefinite

DRIFT = 0.5
"""h: how far a log-weight may rise within an epoch of single rounds before it ends."""


def psi(M: float) -> float:
    """ψ(M) = (e^M - 1 - M)/M²: e^(-x) ≤ 1 - x + ψ(M)x² for all x ≥ -M.

    Examples
    --------
    >>> round(psi(1.0), 4), round(psi(2.0), 4), psi(0.0)
    (0.7183, 1.0973, 0.5)
    """
    if M > 500:
        return math.inf
    return 0.5 + M / 6 + M * M / 24 if M < 1e-3 else (math.expm1(M) - M) / (M * M)


@dataclass(frozen=True)
class BanditProblem:
    """The numbers of a game that its bound depends on."""

    rounds: int  # n
    rank: int  # m
    leverage: float  # G = (1 + τ)m, the design's largest leverage
    loss_bound: float  # L
    epsilon: float  # ε
    log_prior: float  # max_a log(1/prior(a)); log N for the uniform prior
    bonus: bool = False  # whether actions get one for the error they may have (theory B2)
    shrink: float = 0.0  # s of a sampled covariance: (1 - s)Σ ⪯ Σ̂ ⪯ (1 + s)Σ (theory A4)
    delay: int = 0  # d: most other losses heard between an action and its loss (theory B3)

    @property
    def estimate_bound(self) -> float:
        """L, or L + ε with bonuses: an estimated loss is at most this times R."""
        return self.loss_bound + self.epsilon if self.bonus else self.loss_bound

    def exploration(self, eta: float, kappa: float) -> float:
        """γ, the share of rounds that explore; above 1 where the horizon is too short for a bound."""
        return eta * self.estimate_bound * self.leverage / (kappa * (1 - self.shrink))

    def largest_leverage(self, eta: float, kappa: float) -> float:
        """R = G/γ ≥ φ'Σ⁻¹φ."""
        return kappa * (1 - self.shrink) / (eta * self.estimate_bound)

    def mean_bound(self, eta: float, kappa: float) -> float:
        """L̃ = L + ε + ε√R ≥ |E x_t(a)|, with the bonus where there is one."""
        root = math.sqrt(self.largest_leverage(eta, kappa))
        error = self.epsilon * (1 + (2 if self.bonus else 1) * root)
        return (self.loss_bound + error) / (1 - self.shrink)

    def variance(self, eta: float, kappa: float, b: int, *, whole: bool) -> float:
        """V: what one round adds to the bound, over η."""
        L, m, bound = self.loss_bound, self.rank, self.estimate_bound
        own = psi(kappa) * bound**2 * m
        if b == 1:
            value = own
        elif whole:
            M = b * (eta * self.mean_bound(eta, kappa) + psi(kappa) * kappa * eta * bound)
            root = math.sqrt(self.largest_leverage(eta, kappa) * m)
            side = L + psi(kappa) * eta * bound**2 * root
            if self.bonus:
                side += self.epsilon * math.sqrt(m)
            value = own + psi(M) * b * side**2
        else:
            side = L * (math.sqrt(m) + math.sqrt(b))
            if self.bonus:
                side += self.epsilon * math.sqrt(b * m)
            value = psi(kappa + DRIFT) * side**2
        return value / (1 - self.shrink) ** 2

    def terms(
        self,
        eta: float,
        kappa: float,
        *,
        rounds: int | None = None,
        b: int = 1,
        whole: bool = False,
        failure: float = 0.0,
    ) -> dict[str, float]:
        """The terms of the bound after so many rounds (all, by default), by name."""
        n = self.rounds if rounds is None else rounds
        L, eps, s, d = self.loss_bound, self.epsilon, self.shrink, self.delay
        gamma, root = self.exploration(eta, kappa), math.sqrt(self.largest_leverage(eta, kappa))
        bias = 3 + (math.sqrt(self.rank) if self.bonus else root)
        variance, delay = eta * self.variance(eta, kappa, b, whole=whole) * n, 0.0
        if d > 0:
            # Theorem B3-delay, its drift condition met surely: ϱ = κ d.
            grow = math.exp(min(2 * kappa * d, 600.0)) / max(1 - gamma, 1e-300)
            mean = self.mean_bound(eta, kappa)
            variance *= grow
            second = math.exp(min(2 * kappa, 600.0)) * grow * mean * L * eta * L * self.rank
            delay = eta * n * d * (mean**2 + second)
        return {
            "exploration": 2 * gamma * L * n,
            "variance": variance,
            "prior": self.log_prior / eta,
            "bias": eps * n * bias / (1 - s),
            "delay": delay,
            "sampling": s / (1 - s) * L * n * (1 + root) + 2 * L * n * failure if s > 0 else 0.0,
        }


@dataclass(frozen=True)
class Rates:
    """Parameters of the play: η, γ and κ."""

    learning_rate: float
    exploration: float
    kappa: float


def tune(problem: BanditProblem) -> Rates:
    """Learning rate and κ that minimise the bound for epochs of one round.

    Longer epochs keep this pace, so that the play stays that of the algorithm without epochs.

    Examples
    --------
    >>> game = BanditProblem(10_000, 10, 10.0, loss_bound=1.0, epsilon=0.0, log_prior=5.0)
    >>> rates = tune(game)
    >>> bound = sum(game.terms(rates.learning_rate, rates.kappa).values())
    >>> round(rates.kappa, 3), round(bound / (10 * 1e4 * 5) ** 0.5, 3)
    (2.0, 2.896)
    """
    from scipy.optimize import minimize_scalar

    if problem.log_prior == 0:  # a single action: nothing to learn
        return Rates(1.0, 1.0, 1.0)
    scale = 0.5 * math.log(problem.log_prior / (problem.rank * problem.rounds))
    scale -= math.log(problem.estimate_bound)

    def least(function: Any, low: float, high: float, tolerance: float) -> tuple[float, float]:
        options = {"xatol": tolerance}

        def capped(x: float) -> float:  # of two infinite values their difference would be taken
            return min(float(function(x)), 1e9)

        best = minimize_scalar(capped, bounds=(low, high), method="bounded", options=options)
        return float(best.fun), float(best.x)

    def best_rate(log_kappa: float) -> tuple[float, float]:
        def log_bound(x: float) -> float:
            return math.log(sum(problem.terms(math.exp(x), math.exp(log_kappa)).values()))

        return least(log_bound, scale - 12, scale + 6, 1e-9)

    smallest = math.log(0.01 / (1 + problem.delay))
    _, log_kappa = least(lambda x: best_rate(x)[0], smallest, math.log(4.0), 1e-7)
    kappa, eta = math.exp(log_kappa), math.exp(best_rate(log_kappa)[1])
    return Rates(eta, min(1.0, problem.exploration(eta, kappa)), kappa)


def late_cost(problem: BanditProblem, eta: float, kappa: float) -> float:
    """What one loss heard after its epoch costs at most: 4L̃ + ψ(κ)κL (theory B3l)."""
    return 4 * problem.mean_bound(eta, kappa) + psi(kappa) * kappa * problem.estimate_bound


def anytime_constant(problem: BanditProblem, kappa: float) -> float:
    """c m = 2G/κ + ψ(κ)m, the constant of the anytime rates (theory B4)."""
    return 2 * problem.leverage / kappa + psi(kappa) * problem.rank


def anytime_kappa(problem: BanditProblem) -> float:
    """The κ that minimises c."""
    from scipy.optimize import minimize_scalar

    def constant(kappa: float) -> float:
        return anytime_constant(problem, kappa)

    return float(minimize_scalar(constant, bounds=(0.05, 10.0), method="bounded").x)


def anytime_rate(problem: BanditProblem, kappa: float, t: int) -> float:
    """η_t = √(log(1/prior) / (2 c m t)) / L."""
    cm = anytime_constant(problem, kappa)
    return math.sqrt(problem.log_prior / (2 * cm * t)) / problem.estimate_bound


def anytime_terms(problem: BanditProblem, kappa: float, n: int) -> dict[str, float]:
    """The terms of the anytime bound after n rounds (theory B4)."""
    cm, L, eps = anytime_constant(problem, kappa), problem.estimate_bound, problem.epsilon
    main = math.sqrt(2) * L * math.sqrt(cm * n * problem.log_prior)
    share = 2 * problem.leverage / kappa / cm
    if problem.bonus:
        bias = (3 + math.sqrt(problem.rank)) * eps * n
    else:
        growth = (2 * cm / problem.log_prior) ** 0.25 * (0.8 * n**1.25 + n**0.25)
        bias = 3 * eps * n + eps * math.sqrt(kappa) * growth
    variance = (1 - share) * main
    return {"exploration": share * main, "variance": variance, "prior": main, "bias": bias}


def sample_count(problem: BanditProblem, eta: float, kappa: float, failure: float) -> int:
    """Draws that give (1 - s)Σ ⪯ Σ̂ ⪯ (1 + s)Σ with probability 1 - failure (matrix Chernoff, theory A4)."""
    R = problem.largest_leverage(eta, kappa)
    return math.ceil(3 * R / problem.shrink**2 * math.log(2 * problem.rank / failure))


def with_rank(problem: BanditProblem, rank: int, epsilon: float) -> BanditProblem:
    """The same game with other features, for an optimal design."""
    return replace(problem, rank=rank, leverage=1.001 * rank, epsilon=epsilon)


# The bounds in words.


@dataclass(frozen=True)
class Played:
    """What has been seen of a game."""

    made: int = 0  # decisions
    late: int = 0  # losses heard after their epoch
    longest_delay: int = 0  # most losses heard between a decision and its own
    unheard: int = 0  # losses not heard
    at_once: int = 0  # decisions of epochs whose actions were drawn at once
    longest_at_once: int = 0  # most of these in one epoch


@dataclass(frozen=True)
class Game:
    """What is assumed of the losses, and where they live."""

    low: float
    high: float
    losses: str  # what else is assumed of them
    place: str = ""  # added to the name of a statement
    sampled: bool = False  # whether the covariance is sampled
    eigenvalue: float = (
        0.0  # of the kernel, below zero where it was seen not to be positive semidefinite
    )


HEARD = "whether a loss is heard does not depend on the loss"
"""What a bound assumes where some are not."""

Comparator = tuple[float, Mapping[str, float]]
"""log(1/prior) of what the player is compared with, and by name what that costs beside."""


def one_action(n: int) -> Guarantee:
    """Nothing can be lost where there is nothing to choose."""
    return Guarantee("One action", n, {"regret": 0.0}, 0.0)


def fixed(
    problem: BanditProblem,
    rates: Rates,
    n: int,
    horizon: int,
    batch: int,
    comparator: Comparator,
    game: Game,
    played: Played,
) -> Guarantee:
    """Theorems A3, B2, B3 and B3w: rates fixed for a horizon."""
    log_prior, beside = comparator
    problem = replace(problem, log_prior=log_prior)
    eta, kappa = rates.learning_rate, rates.kappa
    failure = 1.0 / horizon if game.sampled else 0.0

    def terms_of(b: int, whole: bool) -> dict[str, float]:
        return problem.terms(eta, kappa, rounds=n, failure=failure, b=b, whole=whole)

    kinds = []  # of epochs, with the statement that covers each
    if played.at_once < played.made or played.made == 0:
        drift = "Theorem B3 (epochs ended by drift)" if batch > 1 else "Theorem A3"
        kinds.append((drift, terms_of(batch, False)))
    if played.at_once > 0:
        kinds.append(("Theorem B3w (whole epochs)", terms_of(played.longest_at_once, True)))
    statement, terms = max(kinds, key=lambda kind: sum(kind[1].values()))
    late = played.late
    if problem.delay > 0 and played.longest_delay <= problem.delay and not played.at_once:
        statement, late = "Theorem B3-delay", 0
    if late:
        terms["delay"] += late * late_cost(problem, eta, kappa)
    terms["unheard"] = 2 * problem.loss_bound * played.unheard
    terms |= beside
    statement += game.place
    if problem.bonus:
        statement += " with bonuses (B2)"
    if game.sampled:
        statement += " with a sampled covariance (A4)"
    exploration = problem.exploration(eta, kappa)
    needed: dict[str, bool | None] = {
        f"at most {horizon} rounds": max(played.made, n) <= horizon,
        f"exploration {exploration:.3g} is at most 1": exploration <= 1 + 1e-12,
    }
    if played.at_once:
        needed["the losses of a whole epoch do not depend on the actions drawn in it"] = None
    if late:
        needed["neither losses nor when they are heard depend on actions not yet heard of"] = None
    if problem.delay > 0:
        text = f"at most {problem.delay} other losses are heard before that of an action"
        needed[text] = played.longest_delay <= problem.delay
        needed["losses do not depend on the player's actions"] = None
    if played.unheard:
        needed[HEARD] = None
    assumptions = (*_common(game, played), *starmap(Assumption, needed.items()))
    notes = (f"{late} losses came after their epoch (Theorem B3l)",) if late else ()
    trivial = (game.high - game.low) * n
    return Guarantee(statement, n, terms, trivial, assumptions, notes=notes)


def anytime(
    problem: BanditProblem,
    rates: Rates,
    n: int,
    batch: int,
    comparator: Comparator,
    game: Game,
    played: Played,
) -> Guarantee:
    """Theorem B4: rates that need no horizon."""
    log_prior, beside = comparator
    terms = anytime_terms(problem, rates.kappa, n)
    terms["prior"] = log_prior / anytime_rate(problem, rates.kappa, n)
    terms["unheard"] = 2 * problem.loss_bound * played.unheard
    terms |= beside
    notes = []
    if batch > 1 or played.at_once:
        notes.append("Theorem B4 is proved for epochs of one round (batch=1); here they are longer")
    if played.late:
        late = f"{played.late} losses came after their epoch"
        notes.append(f"{late}, which Theorem B4 does not cover")
    if game.sampled:
        notes.append("Theorem B4 is proved for the exact covariance")
    statement, trivial = f"Theorem B4 (anytime){game.place}", (game.high - game.low) * n
    assumptions = _common(game, played)
    if played.unheard:
        assumptions += (Assumption(HEARD),)
    return Guarantee(statement, n, terms, trivial, assumptions, not notes, tuple(notes))


def _common(game: Game, played: Played) -> tuple[Assumption, ...]:
    """What every bound here assumes."""
    in_range = f"every loss is in [{game.low:.6g}, {game.high:.6g}]"
    coin = "a round's loss does not depend on the coin that draws its action"
    heard = True if played.made else None
    common = Assumption(in_range, heard), Assumption(game.losses), Assumption(coin)
    return (*common, *semidefinite(game.eigenvalue))
