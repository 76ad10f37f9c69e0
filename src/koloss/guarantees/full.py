r"""Exponential weights with full information: the bound, and the learning rate that makes it small.

Notation: n rounds, losses of range at most ρ in each round, learning rate η, prior p₁. For every δ in (0, 1]

    R_n ≤ ηρ²n/8 + log(1/p₁(A_δ))/η + n·e(δ),

where A_δ = (1 - δ)a* + δA is a copy of the actions shrunk towards the best one, and e(δ) bounds how much worse
than a* an action of A_δ can be in a round: G·ω(δD) for losses of norm G, ω the modulus of the feature map and D
the diameter, or δρ for convex losses. With the uniform prior, log(1/p₁(A_δ)) = d log(1/δ); on a finite set
A_δ is {a*}, e = 0, and log(1/p₁) is log N (theory A2). A loss that is heard after |I| others costs ηρ²|I|/4.

The theory pages have the proofs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from koloss.guarantees import promises
from koloss.guarantees.base import Clause, Guarantee, Mark, clause, note

Excess = Callable[[float], float]
"""e(δ): how much worse than the best action those of A_δ can be, per round."""


@dataclass(frozen=True)
class FullProblem:
    """The numbers of a game that its bound depends on."""

    rounds: int  # n
    width: float  # ρ, the largest range of a loss
    log_prior: float  # max log(1/prior); on a compact set how far the log density of a prior varies
    dimension: int = 0  # d of a compact set; zero for a finite one
    delay: int = 0  # at most so many other losses are heard between a decision and its own

    @property
    def is_trivial(self) -> bool:
        """Whether all actions are equally good in every round."""
        return self.width == 0 or (self.dimension == 0 and self.log_prior == 0)

    def complexity(self, delta: float) -> float:
        """log(1/p₁(A_δ)), or an upper bound."""
        return self.log_prior + (self.dimension * math.log(1 / delta) if self.dimension else 0.0)

    def terms(self, eta: float | None, delta: float, excess: Excess, n: int) -> dict[str, float]:
        """The terms of the bound after n rounds with a fixed learning rate, or with the rates η_t, by name."""
        if eta is None:
            E = self.complexity(1 / (n + 1))
            step = self.width * math.sqrt(E * n) / 2  # ρ²/8 Σ η_t, Σ t^(-1/2) ≤ 2√n
            prior = _ratio(self.complexity(delta), self.anytime_rate(n)) if E > 0 else 0.0
        else:
            step = eta * self.width**2 * n / 8
            prior = _ratio(self.complexity(delta), eta)
        return {
            "variance": step,
            "prior": prior,
            "shrink": n * excess(delta) if self.dimension else 0.0,
            "delay": 0.0 if eta is None else 2 * self.delay * step,
        }

    def anytime_rate(self, t: int) -> float:
        """η_t = (2/ρ) √(E_t/t), E_t = log(1/prior) + d log(t + 1)."""
        E = self.complexity(1 / (t + 1))
        return 2 / self.width * math.sqrt(E / t) if E > 0 else 1.0

    def best_terms(self, eta: float | None, excess: Excess, n: int) -> dict[str, float]:
        """The terms at the best δ; without a rate, those of the rates η_t."""
        bound = partial(self.terms, eta, excess=excess, n=n)
        return bound(best_shrink(lambda delta: sum(bound(delta).values()), self.dimension))

    def late_rate(self, eta: float | None, t: int) -> float:
        """What a loss costs for every other one heard before it, since the t-th (theory A2d)."""
        if eta is not None:
            return eta * self.width**2 / 4
        return 0.0 if self.is_trivial else 3 * self.anytime_rate(t) * self.width**2 / 8


def _ratio(complexity: float, eta: float) -> float:
    if complexity == 0:
        return 0.0
    return complexity / eta if eta > 0 else math.inf


def best_shrink(bound: Callable[[float], float], dimension: int) -> float:
    """The δ in (0, 1] that minimises a bound; 1 on a finite set, where there is none to choose."""
    import numpy as np
    from scipy.optimize import minimize_scalar

    if dimension == 0:
        return 1.0
    grid = np.linspace(-60.0, 0.0, 121)  # of log δ: the bound need not be convex in it
    k = int(np.argmin([bound(math.exp(x)) for x in grid]))
    low, high = grid[max(k - 1, 0)], grid[min(k + 1, 120)]
    best = minimize_scalar(lambda x: bound(math.exp(x)), bounds=(low, high), method="bounded")
    return math.exp(min(float(best.x) if best.fun <= bound(math.exp(grid[k])) else grid[k], 0.0))


def tune(problem: FullProblem, excess: Excess) -> float:
    """Learning rate that minimises the bound: η = √(8E / ((1 + 2·delay) n)) / ρ with E = log(1/p₁(A_δ)).

    Examples
    --------
    >>> game = FullProblem(10_000, width=1.0, log_prior=math.log(1000))
    >>> eta = tune(game, lambda delta: 0.0)
    >>> bound = sum(game.terms(eta, 1.0, lambda delta: 0.0, 10_000).values())
    >>> round(bound, 3), round(math.sqrt(10_000 * math.log(1000) / 2), 3)
    (185.846, 185.846)
    """
    n = problem.rounds

    def rate(delta: float) -> float:
        steps = (1 + 2 * problem.delay) * n
        return math.sqrt(8 * problem.complexity(delta) / steps) / problem.width

    def bound(delta: float) -> float:
        eta = rate(delta)
        if eta == 0:
            return n * excess(delta) if problem.dimension else 0.0
        return sum(problem.terms(eta, delta, excess, n).values())

    return rate(best_shrink(bound, problem.dimension)) or 1.0


# The bound in words.


@dataclass(frozen=True)
class Played(promises.Played):
    """What has happened in a game; losses are late where others came between their decision and them."""

    def assumptions(
        self, n: int, *, norm: float, horizon: int | None, delay: int = 0
    ) -> list[Clause]:
        """What every bound with full information assumes."""
        needed = [clause("coin"), clause("norm of losses", self.seen(n), norm=norm)]
        if horizon is not None:
            needed.append(clause("rounds", max(self.made, n) <= horizon, horizon=horizon))
        if n > self.heard:  # what late losses have cost so far is a term of its own
            needed.append(clause("told after", delay=delay) if delay else clause("told before"))
        return needed

    def seen(self, n: int) -> Mark:
        """The mark of what every loss is checked for as it is told: of n rounds all, some or none."""
        return None if self.heard == 0 else True if self.heard >= n else "so far"

    def promise(
        self,
        theorem: str,
        n: int,
        terms: Mapping[str, float],
        width: float,
        assumptions: Sequence[Clause],
    ) -> Guarantee:
        """A bound in hindsight, for losses of a range of at most `width`, with what was not received."""
        late = (note("late in full", count=self.late),) if self.late else ()
        terms = {**terms, "unheard": width * self.unheard}
        return Guarantee(
            (theorem,), n, terms, width * n, tuple(assumptions), remarks=late, regret="hindsight"
        )


@dataclass(frozen=True)
class Compression:
    """What keeping sums of kernel expansions short costs."""

    error: float = 0.0  # of the cumulative loss, made so far
    allowance: float = 0.0  # error that each loss to come may add, with a horizon
    share: float = 0.0  # of the bound that may be spent, without one
    done: int = 0  # losses whose error is made

    def cost(self, base: float, horizon: int | None, n: int) -> float:
        """Twice the error of the cumulative loss: made, and still allowed."""
        rest = self.share * base
        if horizon is not None:
            rest = 2 * self.allowance * max(n - self.done, 0)
        return float(2 * self.error + rest)


def exp_weights(
    problem: FullProblem,
    excess: Excess,
    n: int,
    *,
    eta: float | None,  # None for the rates η_t, without a horizon
    norm: float,  # largest RKHS norm of a loss
    horizon: int | None,
    played: Played,
    delay_cost: float,  # what late losses have cost
    compression: Compression,
    finite: bool,  # points: then nothing is needed of the norm
    promised: bool,  # the range of losses on a compact set was promised beside their norm
    exact: bool,  # draws follow the density without a Markov chain in between
    heard_width: float | None = None,  # largest range of a loss so far, where ρ is learned
) -> Guarantee:
    """The bound for Algorithm 2 after n rounds.

    It holds on every path for the mean losses of the laws played, against all actions at once: in expectation it bounds the
    regret in hindsight, for adversaries that react to past actions, too.
    """
    width = problem.width
    if problem.is_trivial:
        return equally_good(n)
    terms = problem.best_terms(eta, excess, n)
    base = sum(terms.values())
    if not problem.delay or played.longest_delay > problem.delay:
        terms["delay"] = max(terms["delay"], delay_cost)
    terms["compression"] = compression.cost(min(base, width * n), horizon, n)
    assumptions = played.assumptions(n, norm=norm, horizon=horizon, delay=problem.delay)
    if finite:  # nothing is needed of the norm
        assumptions[1] = clause("width", played.seen(n), width=width)
    elif promised:
        assumptions.append(clause("width", width=width))
    if not exact:
        assumptions.append(clause("mixed"))
    if horizon is None:
        theorem = "A2iii" if finite else "A2iii compact"
    else:
        theorem = "A2i" if finite else "A2ii"
    promise = played.promise(theorem, n, terms, width, assumptions)
    return promise if heard_width is None else _range_learned(promise, heard_width, played)


def _range_learned(promise: Guarantee, heard: float, played: Played) -> Guarantee:
    """A bound with ρ = 1 as one in units of ρ, the largest range of a loss: what is new costs its size, once (theory F3)."""
    doubts = (note("range late"),) if played.late else ()
    return replace(
        promise,
        details=("learned",),
        terms={**promise.terms, "range": 1.0, "delay": 0.0},
        assumptions=tuple(one for one in promise.assumptions if one.key != "width"),
        proved=not doubts,
        remarks=(*promise.remarks, *doubts, note("range in a round", heard=f"{heard:.6g}")),
        unit="ρ",
        seen=heard or None,
    )


def equally_good(n: int) -> Guarantee:
    """Of games in which there is nothing to lose."""
    return Guarantee(("equal",), n, {"regret": 0.0}, 0.0, regret="hindsight")
