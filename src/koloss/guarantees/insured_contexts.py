r"""Policies under watch with contexts: budgets, exploration, and the bounds that follow (theory F6.6, F6.6c, F6.7, 4).

In units of ρ, the width of the losses' range, B = (1 + 2ε/ρ) √((G + ψ(2)m) n log K) is the scale of the robust learner's bound.

- Together (F6.6): one account for all contexts, a budget βB for the alarm and δB for a jump. All contexts explore at the rate
  γ = J₁/(δB - 1), with `even_design`.
- One by one (F6.6c): an account for each context that exploits, with a budget β_c B; when it is used up this context alone is
  handed over to the robust learner. The design is that of the robust learner, `capped_design`.
- In any order (F6.7, 4): accounts and robust learners inside of each context, with its own features.

Whatever the policy, the regret is at most the budgets, the jumps, the error of the features and the robust learner's bound.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from koloss.guarantees import insured
from koloss.guarantees.bandit import BanditProblem, psi
from koloss.guarantees.base import Guarantee


def scale(problem: BanditProblem, n: int) -> float:
    """B/ρ for one learner on pairs; losses are centred, ρ = 2L."""
    return insured.scale(problem, n) * (1 + problem.epsilon / problem.loss_bound)


def scale_in_any_order(games: Sequence[BanditProblem], n: int, *, anytime: bool = False) -> float:
    """B/ρ for one learner per context with Σ_c m_c features: rates of the horizon, or √2 for those without one."""
    first = games[0]
    total = math.fsum(game.leverage + psi(2.0) * game.rank for game in games)
    ratio = max(1 + game.epsilon / game.loss_bound for game in games)
    return ratio * math.sqrt((1 + anytime) * total * n * first.log_prior)


def exploration(jump: float, room: float) -> float:
    """γ at which no account jumps by more than `room`, in units of ρ: 1 + J₁/γ = room; infinite where there is none.

    `jump` is J₁ of `even_design`, or the leverage of the design of one context.

    Examples
    --------
    >>> exploration(24.0, 601.0)
    0.04
    """
    return jump / (room - 1) if room > 1 else math.inf


def together(
    problem: BanditProblem,
    last: Guarantee,
    *,
    trigger: float,
    premium: float,
    jump: float,
    spread: float,
) -> Guarantee:
    """Theorem F6.6: one account for all contexts.

    Parameters
    ----------
    problem : BanditProblem
        Of the features with which the policy is watched, on pairs.
    last : Guarantee
        Of the robust learner, for all rounds (Theorem F6).
    trigger, premium : float
        β and δ.
    jump, spread : float
        J₁ and H₁ of the even design.
    """
    n, rho = last.rounds, 2 * problem.loss_bound
    B = scale(problem, n)
    terms = {
        "budget": rho * (trigger + premium) * B,
        "bias": problem.epsilon * n * (1 + spread),
    }
    gamma = exploration(jump, premium * B)
    return _with_robust(last, terms, "F6.6", gamma)


def one_by_one(
    problem: BanditProblem,
    last: Guarantee,
    *,
    budget: float,
    exploiting: int,
    largest: float,
    largest_exploiting: float,
    explored: float,
    chances: Sequence[tuple[float, float]] = (),
) -> Guarantee:
    """Theorem F6.6c: contexts are handed over one at a time.

    Parameters
    ----------
    problem : BanditProblem
    last : Guarantee
        Of the robust learner on the same design, for all rounds (Theorem F6).
    budget : float
        β = Σ_c β_c.
    exploiting : int
        |S|, the contexts that are watched.
    largest, largest_exploiting, explored : float
        R, R_S and u(1) of the design.
    chances : sequence of (share μ_c, budget β_c)
        One for each time that a context was given back to the policy.
    """
    n, rho = last.rounds, 2 * problem.loss_bound
    B = scale(problem, n)
    again = math.fsum(beta * B + (1 + mu) / 2 + mu * largest for mu, beta in chances)
    reach = math.sqrt(explored * largest_exploiting)
    terms = {
        "budget": rho * budget * B,
        "jumps": rho * (largest + (exploiting + 1) / 2),
        "second chances": rho * again,
        "bias": problem.epsilon * n * (1 + reach),
    }
    return _with_robust(last, terms, "F6.6c", 0.0)


def in_any_order(
    games: Sequence[BanditProblem],
    last: Guarantee,
    *,
    trigger: float,
    premium: float,
    anytime: bool = False,
) -> Guarantee:
    """F6.7 (4): accounts inside of each context, whatever the order of the contexts.

    `last` is that of one learner per context (`contexts.separate`), for all rounds; `anytime` where its rates change with time.
    """
    n, rho = last.rounds, 2 * games[0].loss_bound
    B = scale_in_any_order(games, n, anytime=anytime)
    bias = max(game.epsilon * (1 + math.sqrt(game.leverage)) for game in games)
    terms = {"budget": rho * (trigger + premium) * B, "bias": bias * n}
    gamma = max(exploration(game.leverage, premium * B) for game in games)
    return _with_robust(last, terms, "F6.7 insured", gamma)


def _with_robust(last: Guarantee, terms: dict[str, float], theorem: str, gamma: float) -> Guarantee:
    """The robust learner's bound beside; nothing is promised where the budget has no room for a jump."""
    for name, value in last.terms.items():
        kind = "robust learner" if name in ("exploration", "variance", "prior") else name
        terms[kind] = terms.get(kind, 0.0) + value
    if gamma > 1:
        terms["exploration"] = last.trivial
    return replace(last, theorems=(theorem, *last.theorems), terms=terms)
