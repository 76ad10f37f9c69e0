r"""Rounds that come with a context: which bound holds, for the regret against the best mapping from contexts to actions.

Notation: C contexts with shares μ_c, K actions, m features of pairs (c, a), a design with reach R and cost γ (Lemma F6.2). Given
these, Theorem F6 is the bound without contexts (`bandit`, Theorem F1) in which G/R is replaced by γ: there are K^C mappings,
but only log K appears, because estimates and regret split over contexts. So the numbers are those of a `BanditProblem` with
`leverage` = γR, and what is left to say is what must be true of the contexts.

    contexts                             player                                  bound
    independent, shares known            one learner on pairs                    `independent` (F6)
    independent, shares not known        one learner on pairs, shares counted    `unknown_law` (F6.5)
    in any order                         one learner per context                 `separate` (F6.7, 1)
    in turn, whole periods               one learner on pairs                    `periods` (F6.7, 2)

One learner on pairs has no bound where contexts come in any order: its regret may be linear. `insured_contexts` has the bounds of
policies under watch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from koloss.guarantees import bandit
from koloss.guarantees.bandit import BanditProblem, Rates, anytime_rate, psi
from koloss.guarantees.base import Assumption, Guarantee
from koloss.guarantees.promises import WHOLE

Floats = NDArray[np.float64]

DRAWN = "contexts are drawn independently, each round anew, with the shares as given"
"""What Theorem F6 assumes of contexts, ..."""

UNKNOWN = "contexts are drawn independently, each round anew, with the same shares"
"""... and Theorem F6.5, which does not know the shares."""

BEFORE = "a round's losses are fixed before its context is drawn"
"""What both assume of losses, which must not know the context to come."""

MAPPING = "the regret is against the best mapping from contexts to actions"
"""What the regret is, in a note."""

LATE = "when losses are heard does not depend on contexts not yet heard of"
"""What bounds for late losses assume beside."""

HEARD = "whether a loss is heard does not depend on the context"
"""And where some are never heard."""

WHOLE_EPOCHS = "the losses of a whole epoch do not depend on the contexts drawn in it"
"""What whole epochs need beside."""

BLOCKS = 1 / (2 * (math.sqrt(2) - 1))
"""How much more is explored if the design of round 2^j is kept until 2^(j + 1)."""

ROOTS = (0.75 / (2**0.75 - 1)) ** 2
"""And how much more exploration in every round would have the same Σ √γ, which a free constant makes the bound depend on."""

LOOKED_AT = 4000
"""Rounds at which rates for counted shares are compared."""


# One learner on pairs (Theorem F6).


def reach(problem: BanditProblem, rates: Rates) -> float:
    """R that a design for these rates is to have: the largest with η(LR + β̄) ≤ κ."""
    return float(problem.largest_leverage(rates.learning_rate, rates.kappa))


def with_design(
    problem: BanditProblem, eta: float, cost: float, largest: float
) -> tuple[BanditProblem, Rates]:
    """The game with the cost γ and the reach R of a design that was found, and its rates: κ is what R makes it.

    Where γ = 1 everybody explores always, R says nothing, and the bound is trivial.

    Examples
    --------
    >>> game = BanditProblem(6000, 24, 24.0, 0.5, 0.0, math.log(25))
    >>> rates = bandit.tune(game)
    >>> found, played = with_design(game, rates.learning_rate, cost=0.04, largest=300.0)
    >>> round(sum(found.terms(played.learning_rate, played.kappa).values()))
    900
    """
    if cost >= 1:
        kappa = 2.0
        trivial = replace(problem, leverage=float(problem.largest_leverage(eta, kappa)))
        return trivial, Rates(eta, 1.0, kappa)
    found = replace(problem, leverage=cost * largest)
    return found, Rates(eta, cost, found.rise(eta, cost))


def independent(promise: Guarantee, contexts: int) -> Guarantee:
    """Theorem F6: a bound for the game on pairs (`promises.fixed` or `anytime`), as one for contexts that are drawn.

    With one context it is the bound without.
    """
    if contexts == 1:
        return promise
    statement = promise.statement
    for single in ("Theorem A3", "Theorem F1"):
        statement = statement.replace(single, "Theorem F6")
    if "F6" not in statement:
        statement = f"Theorem F6 over {statement}"
    assumed = [*promise.assumptions, Assumption(DRAWN), Assumption(BEFORE)]
    if any(one.text == WHOLE for one in promise.assumptions):
        assumed.append(Assumption(WHOLE_EPOCHS, oblivious=True))
    if promise.terms.get("delay"):
        assumed.append(Assumption(LATE))
    if promise.terms.get("unheard"):
        assumed.append(Assumption(HEARD))
    notes, doubts = [MAPPING, *promise.notes], []
    if promise.terms.get("delay"):
        notes.append(
            "late losses are covered where the conditions of that theorem hold in every context"
        )
    if promise.regret == "hindsight":
        doubts.append("with contexts the regret in hindsight is not covered")
    if promise.unit:
        doubts.append("with contexts a learned range is not covered")
    if promise.terms.get("sampling"):
        doubts.append("with contexts a sampled covariance is not covered")
    return replace(
        promise,
        statement=statement,
        assumptions=tuple(assumed),
        proved=promise.proved and not doubts,
        notes=(*notes, *doubts),
    )


# The law of contexts is not known (F6.5).


@dataclass(frozen=True)
class Counting:
    """Theorem F6.5 round by round: what counted shares cost once N contexts have been seen. N may be an array.

    Shares are μ̂_c = (N_c + 5ι)/(N + 5Cι), ι = log(2Cn²). Unless some count strays farther than Bernstein's inequality allows, μ ≤ ζμ̂ and
    χ ≤ χ̄ for χ² = Σ_c (μ_c - μ̂_c)²/μ̂_c, and estimates are off by at most b_t √(φ'A⁻¹φ), b_t = √(b² + ε²) + Lχ̄.
    """

    problem: BanditProblem
    learning_rate: float  # η
    kappa: float  # κ
    contexts: int  # C
    width: float  # ρ, of the losses' range

    @property
    def prior(self) -> float:
        """5ι: what is added to the count of every context."""
        return 5 * math.log(2 * self.contexts * self.problem.rounds**2)

    def deviations(self, N: Any) -> tuple[Floats, Floats]:
        """χ̄ and ζ: how far counted shares may be from the true ones."""
        N = np.asarray(N, dtype=float)
        if self.contexts == 1:
            return np.zeros_like(N), np.ones_like(N)
        with np.errstate(divide="ignore"):
            ratio = self.contexts * self.prior / 5 / N  # Cι/N
        return 4.11 * np.sqrt(ratio) + 5.3 * ratio, 1.12 * (1 + 5 * ratio)

    def error(self, N: Any) -> Floats:
        """b_t: the bonus is b_t √(φ'A⁻¹φ)."""
        known = math.hypot(self.problem.bias, self.problem.epsilon)
        error: Floats = known + self.problem.loss_bound * self.deviations(N)[0]
        return error

    def reach(self, N: Any) -> Floats:
        """R_t = κ/(η(L + b_t)), which the design of the round is for; its cost is at most G/R_t."""
        reach: Floats = self.kappa / (
            self.learning_rate * (self.problem.loss_bound + self.error(N))
        )
        return reach

    def parts(self, N: Any) -> dict[str, Floats]:
        """What a round costs that is learned from."""
        problem, L = self.problem, self.problem.loss_bound
        (chi, zeta), b, d = self.deviations(N), self.error(N), problem.dimension
        with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
            gamma = problem.leverage / self.reach(N)
            variance = psi(self.kappa) * self.learning_rate * (zeta * (L + b)) ** 2 * d
            return {
                "exploration": self.width * gamma,
                "law": self.width * chi * np.sqrt(gamma),
                "variance": variance,
                "bias": 2 * problem.epsilon + b * np.sqrt(zeta) * (1 + math.sqrt(d)),
            }

    def learns(self, N: Any) -> Any:
        """Whether a round is learned from: R_t ≥ 1, and it costs no more than 2L, which every round costs at most."""
        each, R = sum(self.parts(N).values()), self.reach(N)
        cheap = np.nan_to_num(each, nan=np.inf) <= 2 * self.problem.loss_bound
        return (R >= 1) & (self.problem.leverage <= R) & cheap


def unknown_law(
    problem: BanditProblem,
    eta: float,
    kappa: float,
    n: int,
    *,
    contexts: int,
    width: float,
    assumptions: tuple[Assumption, ...] = (),
) -> Guarantee:
    """Theorem F6.5: shares of finitely many contexts are counted, and the bonus b_t = √(b² + ε²) + Lχ̄_t pays for their error.

    The game is for `problem.rounds`, of which n are played. Rounds in which R_t = κ/(η(L + b_t)) is below 1, or that would cost more than
    2L, are not learned from.

    Examples
    --------
    >>> game = BanditProblem(10**6, 4, 4.0, 0.5, 0.0, math.log(100), bonus=True)
    >>> bound = unknown_law(game, 0.0012, 2.0, 10**6, contexts=3, width=1.0)
    >>> bound.informative, round(bound.total / 10**5, 1)
    (True, 1.3)
    """
    if not problem.bonus:
        raise ValueError("`problem` must have bonuses where the law is not known, got none")
    counting, L = Counting(problem, eta, kappa, contexts, width), problem.loss_bound
    N = np.arange(float(n))
    learned = counting.learns(N)
    terms = {name: float(np.sum(each[learned])) for name, each in counting.parts(N).items()}
    terms["prior"] = problem.log_prior / eta
    # Some count strays in the first n rounds with probability n/rounds², and n rounds may be lost then.
    strayed = (contexts > 1) * max(1.0, n / problem.rounds) ** 2
    terms["not learned"] = 2 * L * (n - int(np.sum(learned)) + strayed)
    assumed = (*assumptions, Assumption(UNKNOWN), Assumption(BEFORE))
    statement = "Theorem F6.5 (shares of contexts counted)"
    return Guarantee(statement, n, terms, width * n, assumed, notes=(MAPPING,))


def tune_unknown_law(problem: BanditProblem, contexts: int) -> Rates:
    """η that minimises the bound where the law is not known, at κ = 2; exploration is that of the last round."""
    from scipy.optimize import minimize_scalar

    near, n, L = bandit.tune(problem), problem.rounds, problem.loss_bound
    # Of many rounds some stand for those near them: rates need not be the very best.
    ends = np.unique(np.round(np.geomspace(1, n, LOOKED_AT)))
    N, count = ends - 1, np.diff(ends, prepend=0.0)

    def total(x: float) -> float:
        counting = Counting(problem, math.exp(x), 2.0, contexts, 2 * L)
        each = np.where(counting.learns(N), sum(counting.parts(N).values()), 2 * L)
        return float(count @ each) + problem.log_prior / math.exp(x)

    x = math.log(near.learning_rate)
    grid = x + np.linspace(-4.0, 2.0, 25)
    best = grid[int(np.argmin([total(one) for one in grid]))]
    found = minimize_scalar(total, bounds=(best - 0.25, best + 0.25), method="bounded")
    eta = math.exp(found.x if found.fun <= total(best) else best)
    R = float(Counting(problem, eta, 2.0, contexts, 2 * L).reach(n - 1))
    return Rates(eta, min(1.0, problem.leverage / R), 2.0)


# One learner per context, any order of contexts (F6.7, 1).


def separate(
    games: Sequence[BanditProblem],
    kappas: Sequence[float],
    n: int,
    trivial: float,
) -> Guarantee:
    """One learner per context, each with anytime rates over its own rounds, whatever the order of the contexts.

    A bound that grows like √n_c adds up to that of Cauchy and Schwarz, Σ_c α_c √n_c ≤ √(n Σ α_c²).

    Parameters
    ----------
    games : sequence of BanditProblem
        Of each context, with its own features.
    kappas : sequence of float
    n : int
        Rounds, of all contexts together.
    trivial : float
        What no player can exceed: n times the width of the losses' range.

    Examples
    --------
    >>> week = [BanditProblem(1, 4, 4.0, 0.5, 0.0, math.log(10)) for _ in range(7)]
    >>> bound = separate(week, [2.0] * 7, 10_000, 10_000.0)
    >>> round(bound.total / (0.5 * (10_000 * math.log(10) * 28) ** 0.5), 3)
    4.096
    """
    each = [_powers(game, kappa) for game, kappa in zip(games, kappas, strict=True)]
    terms: dict[str, float] = {}
    for name in ("exploration", "variance", "prior", "bias"):
        parts = zip(*(powers[name] for powers in each), strict=True)
        terms[name] = math.fsum(
            _spread([value for _, value in part], part[0][0], n) for part in parts
        )
    statement = "Theorem F6.7 (one learner per context)"
    return Guarantee(statement, n, terms, trivial, notes=(MAPPING,))


def _spread(values: Sequence[float], power: float, n: int) -> float:
    """The largest that Σ_c v_c n_c^power can be for n_c that add up to n: by Hölder's inequality."""
    if power >= 1:
        return float(max(values) * n**power)
    dual = 1 / (1 - power)
    return float(math.fsum(v**dual for v in values) ** (1 / dual) * n**power)


def _powers(game: BanditProblem, kappa: float) -> dict[str, list[tuple[float, float]]]:
    """The terms of Theorem B4 as sums of powers of the rounds: (power, factor)."""
    if game.log_prior == 0:
        nothing = [(0.5, 0.0)]
        bias = [(1.0, 0.0), (0.75, 0.0), (1.25, 0.0), (0.25, 0.0)]
        return {"exploration": nothing, "variance": nothing, "prior": nothing, "bias": bias}
    a = anytime_rate(game, kappa, 1)  # η_t = a/√t
    share = game.leverage * game.estimate_bound / kappa
    root = 4 / 3 * math.sqrt(share * a)
    g = math.sqrt(kappa / (a * game.loss_bound))
    return {
        "exploration": [(0.5, 4 * game.loss_bound * share * a)],
        "variance": [(0.5, 2 * psi(kappa) * game.second_moment * a)],
        "prior": [(0.5, game.log_prior / a)],
        "bias": [
            (1.0, game.bracket(0.0, 0.0, 1.0)),
            (0.75, game.bracket(root, 0.0, 0.0)),
            (1.25, game.bracket(0.0, 0.8 * g, 0.0)),
            (0.25, game.bracket(0.0, g, 0.0)),
        ],
    }
