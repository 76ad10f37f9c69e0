"""Exponential weights under bandit feedback: which bound holds for a game as it was played, and what it assumes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from koloss.guarantees.anytime import Level, anytime_terms
from koloss.guarantees.bandit import BanditProblem, Rates, late_cost, psi
from koloss.guarantees.base import (
    UNSHARED,
    Clause,
    Guarantee,
    Mark,
    Note,
    clause,
    note,
    semidefinite,
)


@dataclass(frozen=True)
class Played:
    """What has been seen of a game."""

    made: int = 0  # decisions
    heard: int = 0  # losses
    late: int = 0  # losses heard after their epoch
    longest_delay: int = 0  # most losses heard between a decision and its own, or until now
    unheard: int = 0  # losses not heard
    at_once: int = 0  # decisions of epochs whose actions were drawn at once
    longest_at_once: int = 0  # most of these in one epoch
    outside: bool = False  # whether a loss was outside of the interval stated


@dataclass(frozen=True)
class Game:
    """What is assumed of the losses, and where they live."""

    low: float
    high: float
    losses: tuple[Clause, ...] = ()  # what else is assumed of them
    place: tuple[str, ...] = ()  # details of the statement
    sampled: bool = False  # whether the covariance is sampled
    eigenvalue: float = 0.0  # of the kernel, where one below zero was seen
    rounded: tuple[Clause, ...] = ()  # what has to be assumed of rounding
    ceiling: float | None = None  # losses above, or rewards below, count as this


Comparator = tuple[float, Mapping[str, float]]
"""log(1/prior) of what the player is compared with, and by name what that costs beside."""


def one_action(n: int) -> Guarantee:
    """Nothing can be lost where there is nothing to choose."""
    return Guarantee(("one action",), n, {"regret": 0.0}, 0.0, regret="hindsight")


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
    """Theorems A3, B2, B3′ and B3w: rates fixed for a horizon."""
    log_prior, beside = comparator
    problem = replace(problem, log_prior=log_prior)
    eta, kappa = rates.learning_rate, rates.kappa
    failure = 1.0 / horizon if game.sampled else 0.0

    def terms_of(b: int, whole: bool) -> dict[str, float]:
        return problem.terms(eta, kappa, rounds=n, failure=failure, b=b, whole=whole)

    kinds = []  # of epochs, with the statement that covers each
    if played.at_once < played.made or played.made == 0:
        single = "F1" if problem.ridge else "A3"
        kinds.append(("B3" if batch > 1 else single, terms_of(batch, False)))
    if played.at_once > 0:
        kinds.append(("B3w", terms_of(played.longest_at_once, True)))
    theorem, terms = max(kinds, key=lambda kind: sum(kind[1].values()))
    late = played.late
    if problem.delay > 0 and played.longest_delay <= problem.delay and not played.at_once:
        theorem, late = "B3-delay", 0
    if late:
        terms["delay"] += late * late_cost(problem, eta, kappa, batch)
    exploration = problem.exploration(eta, kappa)
    needed = [
        clause("rounds", max(played.made, n) <= horizon, horizon=horizon),
        clause("exploration", exploration <= 1 + 1e-12, share=exploration),
    ]
    if played.at_once:
        needed.append(clause("whole"))
        if played.made < n:
            only = played.at_once == played.made
            key = "whole epochs to come" if only else "no longer epoch"
            needed.append(clause(key, longest=played.longest_at_once))
    elif played.made < n:
        needed.append(clause("one by one"))
    if late:
        needed.append(clause("unopened"))
        if played.at_once:
            needed.append(clause("late in epochs"))
    if problem.delay > 0:
        needed.append(clause("in time", in_time(problem.delay, played, n), delay=problem.delay))
        needed += [clause("oblivious"), clause("arrival")]
    # What Theorem F7.1 is not proved for, of what is proved for the pseudo-regret.
    doubts = []
    if problem.hindsight and (batch > 1 or played.at_once) and (problem.learned or played.outside):
        doubts.append(note("hindsight range" if problem.learned else "hindsight outside"))
    if problem.hindsight and played.late:
        doubts.append(note("hindsight late"))
    promise = _promise(theorem, problem, n, (terms, beside), game, played, doubts, needed)
    if late:
        promise = replace(promise, remarks=(note("late", count=late), *promise.remarks))
    return replace(promise, details=(*promise.details, "sampled")) if game.sampled else promise


def _promise(
    theorem: str,
    problem: BanditProblem,
    n: int,
    terms: tuple[Mapping[str, float], Mapping[str, float]],
    game: Game,
    played: Played,
    doubts: Sequence[Note],
    needed: Sequence[Clause] = (),
) -> Guarantee:
    """A bound and what losses cost that were not received, beside what its comparator costs, under all that it assumes, and what keeps it from being proved."""
    own, beside = terms
    missing = (clause("missing"),) if played.unheard else ()
    details = game.place  # how estimates are made, and which regret is bounded
    if problem.ridge is not None or problem.bonus:
        how = "ridge, bonuses" if problem.bonus else "ridge"
        details += ("bonuses" if problem.ridge is None else how,)
    return Guarantee(
        (theorem,),
        n,
        {**own, "unheard": 2 * problem.loss_bound * played.unheard, **beside},
        (game.high - game.low) * n,
        (*_common(game, played), *needed, *missing),
        proved=not doubts,
        remarks=tuple(doubts),
        details=(*details, "hindsight") if problem.hindsight else details,
        regret="hindsight" if problem.hindsight else "pseudo",
    )


def in_time(delay: int, played: Played, n: int) -> Mark:
    """Whether losses have come in time: for certain only once all have come."""
    if played.longest_delay > delay:
        return False
    if played.heard == 0:
        return None
    return True if played.made >= n and played.unheard == 0 else "so far"


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
    terms = anytime_terms(levels, rates.kappa, n, batch)
    terms["prior"] *= log_prior / problem.log_prior
    doubts = []
    if played.at_once:
        doubts.append(note("anytime at once"))
    elif batch > 1 and (problem.hindsight or problem.learned or played.outside):
        doubts.append(note("anytime epochs"))
    if played.late:
        doubts.append(note("anytime late", count=played.late))
    elif problem.delay:
        doubts.append(note("anytime delay"))
    if game.sampled:
        doubts.append(note("anytime sampled"))
    promise = _promise("B4", problem, n, (terms, beside), game, played, doubts)
    return replace(promise, details=("epochs", *promise.details)) if batch > 1 else promise


# Regret in hindsight with a stated probability (Theorem F7.1, second form).


def with_confidence(
    promise: Guarantee, problem: BanditProblem, rates: Rates, confidence: float
) -> Guarantee:
    """The bound in expectation made one that holds with probability `confidence`, for epochs of one round.

    Three events have a third of the rest each: that no action's estimates add up to much more than their means, that the squares
    of the leverages played add up to little more than theirs, and that exploration costs little more than its mean.
    """
    n, eta, kappa = promise.rounds, rates.learning_rate, rates.kappa
    x = math.log(3 / (1 - confidence))
    L, d, R = problem.loss_bound, problem.dimension, problem.largest_leverage(eta, kappa)
    gamma = min(problem.exploration(eta, kappa), 1.0)
    # Σ s_t(a_t)², by Freedman's inequality, and beside it what the bonuses add to the root of Σ (1 - γ) q·x'².
    squares = d * n + math.sqrt(2 * d * R * n * x) + R * x / 3
    bonuses = problem.drift - L + problem.variance_bonus(eta, kappa) * math.sqrt(R * d)
    variance = psi(kappa) * eta * (L * math.sqrt(squares) + bonuses * math.sqrt(n)) ** 2
    chance = L * math.sqrt(2 * gamma * n * x) + 2 / 3 * L * math.sqrt(problem.leverage) * x
    terms = {**promise.terms, "variance": variance, "confidence": x / eta + chance}
    return replace(promise, terms=terms, confidence=confidence)


# Losses that are not where they were said to be (theory F3).


def in_units_of_the_range(
    promise: Guarantee, problem: BanditProblem, played: Played, heard: float | None, listened: int
) -> Guarantee:
    """A bound for a range that is learned: a multiple of ρ. Every decision that was only listened to costs one."""
    notes = [note("range", heard="nothing" if heard is None else f"{heard:.6g}")]
    doubted = problem.delay > 0 or played.late > 0
    if doubted:
        notes.append(note("range late"))
    assumed = [one for one in promise.assumptions if one.key != "range"]
    more = 2 * problem.loss_bound * max(listened - 1, 0)
    return replace(
        promise,
        details=(*promise.details, "learned"),
        terms={**promise.terms, "range": promise.terms.get("range", 0.0) + more},
        assumptions=(clause("constant", True), *assumed),
        proved=promise.proved and not doubted,
        remarks=(*promise.remarks, *notes),
        unit="ρ",
        seen=heard,
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


def clipped(promise: Guarantee, ceiling: float, excess: float) -> Guarantee:
    """A bound for losses that count as a ceiling where they are above, with what it is for losses as they are (theory F3.4)."""
    any_losses = not any("ceiling" in one.numbers for one in promise.assumptions)
    ceiling_note = "clipped, any losses" if any_losses else "clipped"
    remarks = (*promise.remarks, note(ceiling_note, ceiling=ceiling, excess=excess))
    return replace(promise, remarks=remarks)


# The game that was played (theory R).


def realised(
    promise: Guarantee,
    rounds: int,
    *,
    estimate: float,
    missing: float,
    bias: float,
    excess: float = 0.0,
    within: tuple[float, float] | None = None,
    width: float = 1.0,
) -> Guarantee:
    """What bounds the regret on average, as it came out in one game of n rounds, under the assumptions of a bound for as many.

    `missing` is what losses may cost that were not received, `bias` what the error of estimates costs, `excess` what losses were
    above the ceiling as which they count. Where nobody said how large losses can be, those not received are taken to be `within`
    an interval. `width` is ρ, where that is the unit of the bound. In hindsight the largest of all estimates costs log N/η more
    (Theorem R, 6).
    """
    terms = {"estimated regret": estimate, "unheard": missing, "bias": bias, "excess": excess}
    if "net" in promise.terms:
        terms["net"] = promise.terms["net"] * (width if promise.unit else 1.0)
    if promise.regret == "hindsight":
        terms["hindsight"] = promise.terms.get("prior", 0.0)
    irrelevant = ("rounds", "exploration", "one by one", "whole epochs to come", "no longer epoch")
    assumed = [one for one in promise.assumptions if one.key not in irrelevant]
    if missing and within is not None:
        assumed.append(clause("unseen", low=within[0], high=within[1]))
    return replace(
        promise,
        theorems=("R",),
        rounds=rounds,
        details=(),
        terms=terms,
        trivial=math.inf,
        assumptions=tuple(assumed),
        remarks=(),
        unit="",
        comparator=UNSHARED.get(promise.comparator, promise.comparator),
        price=0.0,
    )


def realised_with_confidence(promise: Guarantee, log_prior: float, eta: float, confidence: float) -> Guarantee:  # fmt: skip
    """The estimate as a bound for all rounds and actions at once, with a probability, for the regret in hindsight (Theorem R, a)."""
    terms = {name: value for name, value in promise.terms.items() if name != "hindsight"}
    terms["confidence"] = (log_prior + math.log(1 / (1 - confidence))) / eta
    return replace(promise, theorems=("R(a)",), terms=terms, confidence=confidence)


# Shares of traffic (theory F5.8).


def within_shares(promise: Guarantee, largest: float, delay: int) -> Guarantee:
    """A bound against all laws within shares; against one action they may cost more: `largest` is the share that each can have.

    The best law within them, with that share of the best action, costs no more than the rest of the range in a round.
    """
    price = promise.trivial * (1 - largest)
    unit = f" {promise.unit}" if promise.unit else ""
    whole = min(sum(promise.terms.values()) + price, promise.trivial)
    notes = [note("shares", price=price, whole=whole, unit=unit)]
    if delay:
        notes.append(note("shares late"))
    return replace(
        promise,
        comparator="mapping law" if promise.comparator == "mapping" else "law",
        price=price,
        proved=promise.proved and not delay,
        remarks=(*notes, *promise.remarks),
    )


# Laws among some of the actions.


def among_some(
    promise: Guarantee,
    problem: BanditProblem,
    rates: Rates,
    *,
    price: float,
    renewed: float,
    revived: float,
) -> Guarantee:
    """A bound for all actions where some are asleep at times: against each over the rounds in which it could be chosen (theory F5, Section 8).

    `price` is the most exploration of any set of actions over that of all. An action that comes back is one more to be compared with,
    whose weight is its prior's share of all: `renewed` is the sum of these priors. `revived` losses came after an action of their round
    had come back.
    """
    terms = dict(promise.terms)
    if problem.log_prior > 0:
        terms["exploration"] *= max(price, 1.0)
        terms["prior"] *= 1 + renewed / problem.log_prior
        if revived and problem.delay and rates.learning_rate:  # else they count as late
            terms["delay"] += revived * late_cost(problem, rates.learning_rate, rates.kappa)
    hindsight = promise.regret == "hindsight"
    doubts = [note("offered hindsight")] if hindsight else []
    return replace(
        promise,
        terms=terms,
        assumptions=(*promise.assumptions, clause("offered")),
        remarks=(*promise.remarks, note("offered"), *doubts),
        comparator="awake" if promise.comparator == "action" else promise.comparator,
        proved=promise.proved and not hindsight,
    )


def masked(promise: Guarantee, made: int) -> Guarantee:
    """The same where so many decisions were made among some of the actions."""
    return replace(promise, proved=False, remarks=(*promise.remarks, note("masks", made=made)))


def _common(game: Game, played: Played) -> tuple[Clause, ...]:
    """What every bound here assumes; of the range of all losses, those received tell only so much."""
    seen: Mark = "so far" if played.heard else None
    in_range, losses = clause("range", seen, low=game.low, high=game.high), game.losses
    if game.ceiling is not None:
        end = game.low if game.ceiling == game.high else game.high
        in_range = clause("range to a ceiling", seen, end=end)
        losses = tuple(
            replace(one, numbers={**one.numbers, "ceiling": game.ceiling}) for one in losses
        )
    return in_range, *losses, clause("coin"), *game.rounded, *semidefinite(game.eigenvalue)
