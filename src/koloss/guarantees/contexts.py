r"""Rounds that come with a context: which bound holds, for the regret against the best mapping from contexts to actions.

Notation: C contexts with shares μ_c, K actions, m features of pairs (c, a), a design with reach R and cost γ (Lemma F6.2). Given
these, Theorem F6 is the bound without contexts (`bandit`, Theorem F1) in which G/R is replaced by γ: there are K^C mappings,
but only log K appears, because estimates and regret split over contexts. So the numbers are those of a `BanditProblem` with
`leverage` = γR, and what is left to say is what must be true of the contexts.

    contexts                             player                                  bound
    independent, shares known            one learner on pairs                    `independent` (F6), `anytime_terms` (F6.4)
                                         each context with a rate of its own     `own_rates` (F6b)
    independent, shares not known        one learner on pairs, shares counted    `unknown_law` (F6.5)
    in any order                         one learner per context                 `separate` (F6.7, 1)
    in turn, or shuffled, whole periods  one learner on pairs                    `periods` (F6.7, 2 and 3)

One learner on pairs has no bound where contexts come in any order: its regret may be linear. `insured_contexts` has the bounds of
policies under watch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
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


# One learner on pairs (Theorem F6).


def tune(problem: BanditProblem, exploration: Callable[[Any], Any] | None = None) -> Rates:
    """η and κ that minimise the bound; `exploration` is the cost γ of a design as a function of its reach R, G/R unless told otherwise.

    The problem is that of the pairs: `rank` and `leverage` of their features, `log_prior` = log K.

    Examples
    --------
    >>> game = BanditProblem(6000, 24, 24.0, 0.5, 0.0, math.log(25))
    >>> rates = tune(game)
    >>> round(rates.kappa, 3), round(sum(game.terms(rates.learning_rate, rates.kappa).values()))
    (2.0, 986)
    """
    return bandit.tune(problem, exploration)


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
    >>> rates = tune(game)
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


def chosen_after(promise: Guarantee, problem: BanditProblem, shares: Sequence[float]) -> Guarantee:
    """The bound against the mapping that is best for the contexts that were drawn, if losses do not react (F6.0).

    A comparator that knows them can fit their chance deviations from the shares: Σ_c of Bernstein's bound on the largest.
    """
    n, L, log_K = promise.rounds, problem.loss_bound, problem.log_prior
    if len(shares) == 1:
        return promise
    deviation = math.fsum(math.sqrt(share * (1 - share)) for share in shares)
    cost = L * (deviation * math.sqrt(2 * n * log_K) + len(shares) * log_K / 3)
    reacts = Assumption("losses do not depend on the player's actions or contexts", oblivious=True)
    note = "the regret is against the mapping that is best for the contexts that were drawn"
    return replace(
        promise,
        terms={**promise.terms, "contexts": cost},
        assumptions=(*promise.assumptions, reacts),
        notes=tuple(note if one == MAPPING else one for one in promise.notes),
    )


def own_rates(
    problem: BanditProblem, eta: float, cost: float, largest: float, inflation: float, n: int
) -> dict[str, float]:
    """The terms of Theorem F6b: all contexts explore at the rate γ = `cost`, and context c learns at the rate η w_c.

    `even_design` has, for γ, R = `largest`/γ and Λ = `inflation`. Without a ridge.
    """
    if problem.ridge is not None:
        raise ValueError("`problem` must have no ridge for rates of each context, got one")
    L, b, d = problem.loss_bound, problem.epsilon, problem.dimension
    if not problem.bonus:
        raise ValueError("`problem` must have bonuses for rates of each context, got none")
    kappa = eta * (L * largest + b * math.sqrt(largest))
    # Λ = 1 only where no context is discounted; then the average of estimates is as in Theorem F6.
    near = problem.bracket(math.sqrt(min(cost, 1.0)), math.sqrt(largest))
    bias = near if inflation == 1 else 2 * b + b * math.sqrt(inflation) * (1 + math.sqrt(d))
    return {
        "exploration": 2 * cost * L * n,
        "variance": psi(kappa) * eta * problem.second_moment * n,
        "prior": inflation * problem.log_prior / eta,
        "bias": bias * n,
    }


# Without a horizon (F6.4).


Block = tuple[int, BanditProblem, float, float]
"""A first round, the game from then on, and the cost γ and reach R of the design that is played."""


def anytime_terms(blocks: Sequence[Block], kappa: float, n: int) -> dict[str, float]:
    """The terms after n rounds without a horizon, where designs are kept for a while: rates are `bandit.anytime_rate`.

    Each block has a game of its own, whose penalty may be smaller than before; but rates must not rise. Where γ = 1 everybody
    explores, and nothing is estimated.
    """
    total = {"exploration": 0.0, "variance": 0.0, "prior": 0.0, "bias": 0.0}
    ends = [first - 1 for first, *_ in blocks[1:]] + [n]
    played = [(b, min(end, n)) for b, end in zip(blocks, ends, strict=True) if b[0] <= n]
    largest, before = 0.0, math.inf
    for (first, game, cost, R), _ in played:  # κ is what the designs that were found make it
        eta = anytime_rate(game, kappa, first)
        if eta > before * (1 + 1e-12):
            raise ValueError(f"`blocks` must have rates that do not rise, got one at {first}")
        before = eta
        if cost < 1:
            largest = max(largest, eta * (game.loss_bound * R + game.largest_bonus(math.sqrt(R))))
    for (first, game, cost, R), last in played:
        count, a = last - first + 1, anytime_rate(game, kappa, 1)
        rates = 2 * a * (math.sqrt(last) - math.sqrt(first - 1))
        total["exploration"] += 2 * game.loss_bound * cost * count
        total["prior"] = game.log_prior * math.sqrt(last) / a
        if cost >= 1:
            continue
        total["variance"] += psi(largest) * game.second_moment * rates
        total["bias"] += game.bracket(math.sqrt(cost) * count, math.sqrt(R) * count, count)
    return total


# The law of contexts is not known (F6.5).


def deviations(contexts: int, n: int) -> tuple[Floats, Floats]:
    """χ̄_t and ζ_t of the rounds 1, ..., n: how far counted shares may be from the true ones, (N_c + 5ι)/(N + 5Cι), N = t - 1."""
    if contexts == 1:
        return np.zeros(n), np.ones(n)
    count = contexts * math.log(2 * contexts * n**2)  # Cι
    with np.errstate(divide="ignore"):
        ratio = count / np.arange(float(n))
    return 4.11 * np.sqrt(ratio) + 5.3 * ratio, 1.12 * (1 + 5 * ratio)


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

    Rounds in which R_t = κ/(η(L + b_t)) is below 1, or that would cost more than 2L, are not learned from.

    Examples
    --------
    >>> game = BanditProblem(10**6, 4, 4.0, 0.5, 0.0, math.log(100), bonus=True)
    >>> bound = unknown_law(game, 0.0012, 2.0, 10**6, contexts=3, width=1.0)
    >>> bound.informative, round(bound.total / 10**5, 1)
    (True, 1.3)
    """
    if not problem.bonus:
        raise ValueError("`problem` must have bonuses where the law is not known, got none")
    L, d, eps = problem.loss_bound, problem.dimension, problem.epsilon
    chi, zeta = deviations(contexts, n)
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        b = math.hypot(problem.bias, eps) + L * chi
        R = kappa / (eta * (L + b))
        gamma = problem.leverage / R
        parts = {
            "exploration": width * gamma,
            "law": width * chi * np.sqrt(gamma),
            "variance": psi(kappa) * eta * (zeta * (L + b)) ** 2 * d,
            "bias": 2 * eps + b * np.sqrt(zeta) * (1 + math.sqrt(d)),
        }
        each = np.nan_to_num(sum(parts.values()), nan=np.inf)
    learned = (R >= 1) & (gamma <= 1) & (each <= 2 * L)
    terms = {name: float(np.sum(value[learned])) for name, value in parts.items()}
    terms["prior"] = problem.log_prior / eta
    terms["not learned"] = 2 * L * (n - int(np.sum(learned)) + (contexts > 1))
    assumed = (*assumptions, Assumption(UNKNOWN), Assumption(BEFORE))
    statement = "Theorem F6.5 (shares of contexts counted)"
    return Guarantee(statement, n, terms, width * n, assumed, notes=(MAPPING,))


def tune_unknown_law(problem: BanditProblem, contexts: int) -> Rates:
    """η that minimises the bound where the law is not known, at κ = 2; exploration is that of the last round."""
    from scipy.optimize import minimize_scalar

    near, n, L = bandit.tune(problem), problem.rounds, problem.loss_bound

    def total(x: float) -> float:
        promise = unknown_law(problem, math.exp(x), 2.0, n, contexts=contexts, width=2 * L)
        return sum(promise.terms.values())

    x = math.log(near.learning_rate)
    grid = x + np.linspace(-4.0, 2.0, 25)
    best = grid[int(np.argmin([total(one) for one in grid]))]
    found = minimize_scalar(total, bounds=(best - 0.25, best + 0.25), method="bounded")
    eta = math.exp(found.x if found.fun <= total(best) else best)
    return Rates(eta, min(1.0, problem.leverage * eta * problem.estimate_bound / 2.0), 2.0)


# One learner per context, any order of contexts (F6.7, 1).


def separate(
    games: Sequence[BanditProblem],
    kappas: Sequence[float],
    n: int,
    trivial: float,
    *,
    counts: Sequence[int] | None = None,
    assumptions: tuple[Assumption, ...] = (),
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
    counts : sequence of int, optional
        Rounds of each context, where the schedule is known or the game is over.

    Examples
    --------
    >>> week = [BanditProblem(1, 4, 4.0, 0.5, 0.0, math.log(10)) for _ in range(7)]
    >>> bound = separate(week, [2.0] * 7, 10_000, 10_000.0)
    >>> round(bound.total / (0.5 * (10_000 * math.log(10) * 28) ** 0.5), 3)
    4.096
    """
    if counts is not None and sum(counts) != n:
        raise ValueError(f"`counts` must add up to {n} rounds, got {sum(counts)}")
    each = [_powers(game, kappa) for game, kappa in zip(games, kappas, strict=True)]
    terms: dict[str, float] = {}
    for name in ("exploration", "variance", "prior", "bias"):
        parts = zip(*(powers[name] for powers in each), strict=True)
        terms[name] = math.fsum(
            _spread([value for _, value in part], part[0][0], n, counts) for part in parts
        )
    statement = "Theorem F6.7 (one learner per context)"
    return Guarantee(statement, n, terms, trivial, assumptions, notes=(MAPPING,))


def _spread(values: Sequence[float], power: float, n: int, counts: Sequence[int] | None) -> float:
    """Σ_c v_c n_c^power, or the largest that it can be for n_c that add up to n: by Hölder's inequality."""
    if counts is not None:
        return float(math.fsum(v * k**power for v, k in zip(values, counts, strict=True)))
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
