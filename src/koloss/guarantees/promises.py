"""Exponential weights under bandit feedback: which bound holds for a game as it was played, and what it assumes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from koloss.guarantees.bandit import BanditProblem, Level, Rates, anytime_terms, late_cost
from koloss.guarantees.base import Assumption, Guarantee, semidefinite


@dataclass(frozen=True)
class Played:
    """What has been seen of a game."""

    made: int = 0  # decisions
    heard: int = 0  # losses
    late: int = 0  # losses heard after their epoch
    longest_delay: int = 0  # most losses heard between a decision and its own
    unheard: int = 0  # losses not heard
    at_once: int = 0  # decisions of epochs whose actions were drawn at once
    longest_at_once: int = 0  # most of these in one epoch
    outside: bool = False  # whether a loss was outside of the interval stated


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
    rounded: str = ""  # what has to be assumed of rounding


OBLIVIOUS = "losses do not depend on the player's actions"
"""What a bound assumes where losses come after others."""

WHOLE = "the losses of a whole epoch do not depend on the actions drawn in it"
"""What Theorem B3w assumes."""

ONE_BY_ONE = "actions to come are asked for one by one"
"""What a bound assumes of `ask` while none were drawn at once."""

LATE = "neither losses nor when they are heard depend on actions not yet heard of"
"""What Theorem B3l assumes, ..."""

LATE_IN_EPOCHS = "nor do losses of an epoch depend on late actions heard of during it"
"""... and where epochs are whole, too."""

IN_TIME = "at most {} other losses are heard before that of an action"
"""What `delay` promises."""

HEARD = "whether a loss is heard does not depend on the loss"
"""What a bound assumes where some are not."""

Comparator = tuple[float, Mapping[str, float]]
"""log(1/prior) of what the player is compared with, and by name what that costs beside."""


def one_action(n: int) -> Guarantee:
    """Nothing can be lost where there is nothing to choose."""
    return Guarantee("One action", n, {"regret": 0.0}, 0.0, regret="hindsight")


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
        single = "Theorem F1" if problem.ridge else "Theorem A3"
        drift = "Theorem B3 (epochs ended by drift)" if batch > 1 else single
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
    statement += _manner(problem, "Theorem F1" in statement)
    if game.sampled:
        statement += " with a sampled covariance (A4)"
    exploration = problem.exploration(eta, kappa)
    needed = [
        Assumption(f"at most {horizon} rounds", max(played.made, n) <= horizon),
        Assumption(f"exploration {exploration:.3g} is at most 1", exploration <= 1 + 1e-12),
    ]
    if played.at_once:
        needed.append(Assumption(WHOLE, oblivious=True))
        if played.made < n:
            text = f"no later epoch is longer than {played.longest_at_once} rounds"
            if played.at_once == played.made:
                text = f"actions to come are drawn in whole epochs of at most {played.longest_at_once} rounds"
            needed.append(Assumption(text))
    elif played.made < n:
        needed.append(Assumption(ONE_BY_ONE))
    if late:
        needed.append(Assumption(LATE, oblivious=True))
        if played.at_once:
            needed.append(Assumption(LATE_IN_EPOCHS, oblivious=True))
    if problem.delay > 0:
        kept = played.longest_delay <= problem.delay
        needed.append(Assumption(IN_TIME.format(problem.delay), kept))
        needed.append(Assumption(OBLIVIOUS, oblivious=True))
    if played.unheard:
        needed.append(Assumption(HEARD))
    assumptions = (*_common(game, played), *needed)
    notes = [f"{late} losses came after their epoch (Theorem B3l)"] if late else []
    doubts = _hindsight_doubts(problem, batch, played)
    trivial, notes = (game.high - game.low) * n, [*notes, *doubts]
    promise = Guarantee(statement, n, terms, trivial, assumptions, not doubts, tuple(notes))
    return replace(promise, regret=problem.regret)


def _hindsight_doubts(problem: BanditProblem, batch: int, played: Played) -> list[str]:
    """What Theorem F7.1 is not proved for, of what is proved for the pseudo-regret."""
    if not problem.hindsight:
        return []
    doubts = []
    if (problem.learned or played.outside) and (batch > 1 or played.at_once):
        losses = "a learned range is" if problem.learned else "losses outside are"
        doubts.append(f"in hindsight {losses} covered for epochs of one round (batch=1)")
    if played.late:
        doubts.append("in hindsight losses that come after their epoch are not covered")
    return doubts


def _manner(problem: BanditProblem, named: bool = False) -> str:
    """What is added to the name of a statement: how estimates are made, and which regret it bounds."""
    way = ""
    if problem.ridge is not None:
        way = " with a ridge" + (" and bonuses" if problem.bonus else "")
        way += "" if named else " (F1)"
    elif problem.bonus:
        way = " with bonuses (B2)"
    return f"{way}, in hindsight (F7)" if problem.hindsight else way


def anytime(
    levels: Sequence[Level],
    rates: Rates,
    n: int,
    batch: int,
    comparator: Comparator,
    game: Game,
    played: Played,
) -> Guarantee:
    """Theorem B4: rates that need no horizon."""
    (log_prior, beside), (_, problem) = comparator, levels[-1]
    terms = anytime_terms(levels, rates.kappa, n)
    terms["prior"] *= log_prior / problem.log_prior
    terms["unheard"] = 2 * problem.loss_bound * played.unheard
    terms |= beside
    notes = []
    if batch > 1 or played.at_once:
        notes.append("Theorem B4 is proved for epochs of one round (batch=1); here they are longer")
    if played.late:
        late = f"{played.late} losses came after their epoch"
        notes.append(f"{late}, which Theorem B4 does not cover")
    elif problem.delay:
        notes.append("Theorem B4 does not cover losses that come late")
    if game.sampled:
        notes.append("Theorem B4 is proved for the exact covariance")
    statement = f"Theorem B4 (anytime){game.place}{_manner(problem)}"
    trivial = (game.high - game.low) * n
    assumptions = _common(game, played)
    if played.unheard:
        assumptions += (Assumption(HEARD),)
    promise = Guarantee(statement, n, terms, trivial, assumptions, not notes, tuple(notes))
    return replace(promise, regret=problem.regret)


# Losses that are not where they were said to be (theory F3).


def in_units_of_the_range(
    promise: Guarantee, problem: BanditProblem, played: Played, heard: str, listened: int
) -> Guarantee:
    """A bound for a range that is learned: a multiple of ρ. Every decision that was only listened to costs one."""
    told = f"ρ is the largest minus the smallest loss over all actions and rounds; heard so far: {heard}"
    free = Assumption("the constant is a feature without a penalty", True)
    notes = [*promise.notes, told]
    if problem.delay or played.late:
        notes.append("losses that come late are not covered where the range is learned")
    more = 2 * problem.loss_bound * max(listened - 1, 0)
    return replace(
        promise,
        statement=f"{promise.statement}, the range learned (F3)",
        terms={**promise.terms, "range": promise.terms.get("range", 0.0) + more},
        assumptions=(free, *promise.assumptions[1:]),
        proved=promise.proved and not (problem.delay or played.late),
        notes=tuple(notes),
        unit="ρ",
    )


def widened(
    promise: Guarantee, problem: BanditProblem, R: float, factor: float, longest: int
) -> Guarantee:
    """A bound after the interval of the losses has widened: the terms by a factor, and each step once in every round of an epoch."""
    fixed = ("bias", "net", "neighbourhood")
    terms = {k: v if k in fixed else v * factor for k, v in promise.terms.items()}
    growth = 2 * problem.loss_bound * (factor - 1)
    terms["range"] = growth * problem.excess_cost(math.sqrt(R)) * max(longest, 1)
    return replace(promise, terms=terms)


def outside(
    promise: Guarantee, problem: BanditProblem, rule: str, beyond: float, squares: float, *, R: float, n: int
) -> Guarantee:  # fmt: skip
    """A bound that prices what was heard outside: in expectation, by the sums of distances and their squares."""
    if rule == "clip":
        cost = beyond + (1 + math.sqrt(R)) * math.sqrt(n * squares)
        cost = min(cost, (R + math.sqrt(problem.leverage) + 1) * beyond)
    else:
        cost = beyond * problem.excess_cost(math.sqrt(R), kept=True)
    note = f"losses outside count by their distance, {beyond:.6g} in all so far"
    first, *rest = promise.assumptions
    first = replace(first, text=f"{first.text}, or is counted as outside", holds=True)
    terms = {**promise.terms, "outside": cost}
    assumed, notes = (first, *rest), (*promise.notes, note)
    return replace(promise, terms=terms, trivial=math.inf, assumptions=assumed, notes=notes)


# Shares of traffic (theory F5.8).


def within_shares(promise: Guarantee, largest: float, delay: int) -> Guarantee:
    """A bound against all laws within shares, as one against every action: `largest` is the share that each can have.

    The best law within them, with that share of the best action, costs no more than the rest of the range in a round.
    """
    inside = min(sum(promise.terms.values()), promise.trivial)
    unit = f" {promise.unit}" if promise.unit else ""
    known = f"against the best law within the shares the bound is {inside:.4g}{unit}"
    notes = [f"{known}; 'shares' is what they may cost against one action"]
    if delay:
        notes.append("Theorem B3-delay is not proved for laws that are projected onto shares")
    return replace(
        promise,
        terms={**promise.terms, "shares": promise.trivial * (1 - largest)},
        proved=promise.proved and not delay,
        notes=(*notes, *promise.notes),
    )


# Requests among some of the actions.

MASKS = (
    "masks: {} decisions were made among the actions allowed then, for which no bound is proved; against an action that was not "
    "always allowed, only rounds in which it was can count. Masks that come by a known law are contexts, which have a bound"
)


def masked(promise: Guarantee, made: int) -> Guarantee:
    """The same where so many decisions were made among some of the actions."""
    return replace(promise, proved=False, notes=(*promise.notes, MASKS.format(made)))


def _common(game: Game, played: Played) -> tuple[Assumption, ...]:
    """What every bound here assumes."""
    in_range = f"every loss is in [{game.low:.6g}, {game.high:.6g}]"
    coin = "a round's loss does not depend on the coin that draws its action"
    heard = True if played.heard else None
    known = (Assumption(game.losses),) if game.losses else ()
    common = Assumption(in_range, heard), *known, Assumption(coin)
    rounded = (Assumption(game.rounded),) if game.rounded else ()
    return (*common, *rounded, *semidefinite(game.eigenvalue))
