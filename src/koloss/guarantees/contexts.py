r"""Rounds that come with a context: which bound holds, for the regret against the best mapping from contexts to actions.

Notation: C contexts with shares μ_c, K actions, m features of pairs (c, a), a design with reach R and cost γ (Lemma F6.2). Given
these, Theorem F6 is the bound without contexts (`bandit`, Theorem F1) in which G/R is replaced by γ: there are K^C mappings,
but only log K appears, because estimates and regret split over contexts. So the numbers are those of a `BanditProblem` with
`leverage` = γR, and what is left to say is what must be true of the contexts.

    contexts                             player                                  bound
    independent, shares known            one learner on pairs                    `independent` (F6)
    in any order                         one learner per context                 `separate` (F6.7, 1)

One learner on pairs has no bound where contexts come in any order: its regret may be linear. `added` puts together the bounds of one
learner per context as they stand, for policies under watch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from koloss.guarantees.bandit import BanditProblem, Rates, anytime_constant, anytime_rate, psi
from koloss.guarantees.base import Guarantee, clause, note

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
    >>> from koloss.guarantees.bandit import tune
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
    single = promise.theorems[0] in ("A3", "F1")
    theorems = ("F6",) if single else ("F6", *promise.theorems)
    keys, late = {one.key for one in promise.assumptions}, bool(promise.terms.get("delay"))
    needed = {
        "drawn": True,
        "before": True,
        "whole contexts": "whole" in keys,
        "late contexts": late,
        "missing contexts": promise.terms.get("unheard"),
    }
    unproved = {
        "contexts hindsight": promise.regret == "hindsight",
        "contexts range": promise.unit,
        "contexts sampled": promise.terms.get("sampling"),
    }
    assumed = [clause(key) for key, is_so in needed.items() if is_so]
    doubts = [note(key) for key, is_so in unproved.items() if is_so]
    notes = [note("contexts late")] if late else []
    return replace(
        promise,
        theorems=theorems,
        comparator="mapping",
        assumptions=(*promise.assumptions, *assumed),
        proved=promise.proved and not doubts,
        remarks=(*promise.remarks, *notes, *doubts),
    )


# One learner per context, any order of contexts (F6.7, 1).


def horizons(games: Sequence[BanditProblem], kappas: Sequence[float], n: int) -> list[int]:
    """For how many rounds each context's rates are tuned, of n in all: then a round costs as much in each (theory F6.11).

    Of like contexts each has the same share. Where rounds cost c_c η, the share is in proportion to c_c log K_c.
    """
    shares = [
        anytime_constant(game, kappa) * game.estimate_bound**2 * game.log_prior
        for game, kappa in zip(games, kappas, strict=True)
    ]
    total = math.fsum(shares)
    return [max(1, round(n * share / total)) if total else n for share in shares]


def separate(
    games: Sequence[BanditProblem],
    kappas: Sequence[float],
    n: int,
    trivial: float,
    rates: Sequence[float] | None = None,
    batch: int = 1,
) -> Guarantee:
    """One learner per context, whatever the order of the contexts.

    With fixed rates the bound of context c is log K_c/η_c + r_c n_c, and Σ r_c n_c ≤ n max_c r_c: no split of the rounds costs more. With
    anytime rates over its own rounds it grows like √n_c, and adds up to that of Cauchy and Schwarz, Σ_c α_c √n_c ≤ √(n Σ α_c²).

    Parameters
    ----------
    games : sequence of BanditProblem
        Of each context, with its own features.
    kappas : sequence of float
    n : int
        Rounds, of all contexts together.
    trivial : float
        What no player can exceed: n times the width of the losses' range.
    rates : sequence of float, optional
        η_c, where they are fixed.
    batch : int, default 1
        Most rounds of an epoch in a context, at such rates.

    Examples
    --------
    >>> week = [BanditProblem(1, 4, 4.0, 0.5, 0.0, math.log(10)) for _ in range(7)]
    >>> unit = 0.5 * (10_000 * math.log(10) * 28) ** 0.5
    >>> bound = separate(week, [2.0] * 7, 10_000, 10_000.0)
    >>> round(bound.total / unit, 3)
    4.096
    >>> rates = [(math.log(10) / ((1 + psi(2.0)) * 4 * 10_000 / 7)) ** 0.5 / 0.5] * 7
    >>> round(separate(week, [2.0] * 7, 10_000, 10_000.0, rates).total / unit, 3)
    2.896
    """
    chosen = [k for k, game in enumerate(games) if game.log_prior > 0]  # others cost nothing
    terms: dict[str, float] = {}
    if rates is None:
        each = [_powers(games[k], kappas[k]) for k in chosen]
        for name in ("exploration", "variance", "prior", "bias"):
            parts = zip(*(powers[name] for powers in each), strict=True)
            terms[name] = math.fsum(
                _spread([value for _, value in part], part[0][0], n) for part in parts
            )
    else:
        rounds = [_round(games[k], rates[k], kappas[k], batch) for k in chosen]
        nothing = dict.fromkeys(PER_ROUND[:3], 0.0)
        dearest = max(rounds, key=lambda one: math.fsum(one.values()), default=nothing)
        terms = {name: n * value for name, value in dearest.items()}
        terms["prior"] = math.fsum(games[k].log_prior / rates[k] for k in chosen)
        if "hindsight" in terms:  # the union over all actions, once more
            terms["hindsight"] += terms["prior"]
    theorem = "F6.7" if rates is None else "F6.11"
    return Guarantee((theorem,), n, terms, trivial, comparator="mapping")


EACH, PER_ROUND = ("prior", "unheard"), ("exploration", "variance", "bias", "delay", "sampling")
"""Terms of a bound that are due in every context, and those that are due in every round."""


def added(each: Sequence[Guarantee], anytime: Guarantee | None, *, late: bool) -> Guarantee:
    """The bounds of one learner per context together, each for all n rounds, which may come in any order of the contexts.

    Every round costs at most what one costs in the dearest context; what is due in every context adds up, and a range that is learned
    in all contexts at once is due once. Without a horizon the numbers are those of `separate`.
    """
    dearest = max(each, key=lambda one: math.fsum(one.terms.get(name, 0.0) for name in PER_ROUND))
    if dearest.trivial == 0:  # there is nothing to choose
        return dearest
    once = "B3-delay" in dearest.theorems
    terms = dict(dearest.terms)
    for name in terms:
        values = [one.terms.get(name, 0.0) for one in each]
        if name in EACH or (name == "delay" and not once):
            terms[name] = math.fsum(values)
        elif name not in PER_ROUND:
            terms[name] = max(values)
    theorem = "F6.11"
    if anytime is not None:
        theorem, terms = "F6.7", {**terms, **anytime.terms}
    single = dearest.theorems[0] in ("A3", "F1", "B4")
    return replace(
        dearest,
        theorems=(theorem,) if single else (theorem, *dearest.theorems),
        terms=terms,
        comparator="mapping",
        assumptions=(*dearest.assumptions, clause("late order" if late else "any order")),
    )


def _round(game: BanditProblem, eta: float, kappa: float, batch: int) -> dict[str, float]:
    """What one round costs at fixed rates, by name."""
    names = ["exploration", "variance", "bias"]
    names += ["delay"] * (game.delay > 0) + ["sampling"] * (game.shrink > 0)
    terms = game.terms(eta, kappa, rounds=1, b=batch)
    costs = {name: float(terms[name]) for name in names}
    if game.hindsight:
        costs["hindsight"] = float(terms["hindsight"] - game.log_prior / eta)
    return costs


def _spread(values: Sequence[float], power: float, n: int) -> float:
    """The largest that Σ_c v_c n_c^power can be for n_c that add up to n: by Hölder's inequality."""
    if power >= 1:
        return float(max(values) * n**power)
    dual = 1 / (1 - power)
    return float(math.fsum(v**dual for v in values) ** (1 / dual) * n**power)


def _powers(game: BanditProblem, kappa: float) -> dict[str, list[tuple[float, float]]]:
    """The terms of Theorem B4 as sums of powers of the rounds: (power, factor)."""
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
