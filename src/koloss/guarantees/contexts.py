r"""Rounds that come with a context: which bound holds, for the regret against the best mapping from contexts to actions.

Notation: C contexts with shares μ_c, K actions, m features of pairs (c, a), a design with reach R and cost γ (Lemma F6.2). Given
these, Theorem F6 is the bound without contexts (`bandit`, Theorem F1) in which G/R is replaced by γ: there are K^C mappings,
but only log K appears, because estimates and regret split over contexts. So the numbers are those of a `BanditProblem`, with
`leverage` = γR, and what this module adds is in words: what must be true of the contexts.

    contexts                             player                     bound
    independent, shares known            one learner on pairs       `independent` (F6)
    in any order                         one learner per context    `separate` (F6.7, 1)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from koloss.guarantees import bandit
from koloss.guarantees.bandit import BanditProblem, Rates, anytime_rate, psi
from koloss.guarantees.base import Assumption, Guarantee

DRAWN = "contexts are drawn independently, each round anew, with the shares as given"
"""What Theorem F6 assumes of contexts, ..."""

BEFORE = "a round's losses are fixed before its context is drawn"
"""... and of losses, that must not know the context to come."""

MAPPING = "the regret is against the best mapping from contexts to actions"
"""What the regret is, in a note."""

LATE = "when losses are heard does not depend on contexts not yet heard of"
"""What bounds for late losses assume beside."""

HEARD = "whether a loss is heard does not depend on the context"
"""And where some are never heard."""


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

    Examples
    --------
    >>> game = BanditProblem(6000, 24, 24.0, 0.5, 0.0, math.log(25))
    >>> rates = tune(game)
    >>> found, played = with_design(game, rates.learning_rate, cost=0.04, largest=300.0)
    >>> round(sum(found.terms(played.learning_rate, played.kappa).values()))
    900
    """
    found = replace(problem, leverage=cost * largest)
    return found, Rates(eta, min(1.0, cost), found.rise(eta, cost))


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
    if promise.terms.get("delay"):
        assumed.append(Assumption(LATE))
    if promise.terms.get("unheard"):
        assumed.append(Assumption(HEARD))
    notes = (MAPPING, *promise.notes)
    return replace(promise, statement=statement, assumptions=tuple(assumed), notes=notes)


# One learner per context, any order of contexts (F6.7, 1).


def separate(
    games: Sequence[BanditProblem], kappas: Sequence[float], n: int, trivial: float
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
    powers: dict[str, list[tuple[float, list[float]]]] = {}
    for game, kappa in zip(games, kappas, strict=True):
        for name, parts in _powers(game, kappa).items():
            entry = powers.setdefault(name, [(power, []) for power, _ in parts])
            for (_, values), (_, value) in zip(entry, parts, strict=True):
                values.append(value)
    terms = {
        name: sum(_worst(values, power) * n**power for power, values in entry)
        for name, entry in powers.items()
    }
    return Guarantee("Theorem F6.7 (one learner per context)", n, terms, trivial, notes=(MAPPING,))


def _worst(values: Sequence[float], power: float) -> float:
    """max Σ_c v_c x_c^power over x ≥ 0, Σ x = 1."""
    if power >= 1:
        return max(values)
    dual = 1 / (1 - power)
    return float(math.fsum(v**dual for v in values) ** (1 / dual))


def _powers(game: BanditProblem, kappa: float) -> dict[str, list[tuple[float, float]]]:
    """The terms of Theorem B4 as sums of powers of the rounds: (power, factor)."""
    if game.log_prior == 0:
        return {"exploration": [(0.5, 0.0)], "variance": [(0.5, 0.0)], "prior": [(0.5, 0.0)]}
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
