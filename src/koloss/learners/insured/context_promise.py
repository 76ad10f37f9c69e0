"""What is promised of an insured learner with contexts, given the game so far."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from koloss.guarantees import Guarantee, insured_contexts, promises
from koloss.guarantees.base import Note, clause, note
from koloss.guarantees.contexts import separate, with_design
from koloss.learners.bandit.exp2 import prove
from koloss.learners.insured.in_turn import KAPPA, OwnRows
from koloss.learners.insured.per_context import PerContext
from koloss.learners.insured.plans import Plan
from koloss.learners.insured.segments import OneByOne

if TYPE_CHECKING:
    from koloss.learners.insured.state import InsuredState


def prove_segments(learner: InsuredState, rounds: int) -> Guarantee:
    """Theorem F6.6c, F6.6 or F6.7 (4), whichever is played, for so many rounds."""
    game, ledger, settings = learner._game, learner.ledger, learner.settings
    assert game is not None
    play, rho, horizon = game.play, game.width, game.plan.numbers.rounds
    if play.shape[1] == 1:
        return promises.one_action(rounds)
    promise = bound(game.plan, play, rounds)
    played = promises.Played(made=ledger.made, heard=ledger.heard)
    words = prove(game.engine, game.engine.rates, 1, rounds, None, played)
    within = max(ledger.made, rounds) <= horizon
    assumed = [*words.assumptions, clause("rounds", within, horizon=horizon)]
    if settings.ordered == "independent":
        assumed += [clause("drawn"), clause("before"), clause("unmoved")]
    else:
        assumed.append(clause("any order"))
    doubts = _doubts(learner)
    if ledger.made < rounds and not doubts:
        assumed.append(clause("at once"))
    notes = [note("alarm", alarm=one.describe(game.shown(one.context))) for one in play.passed]
    if play.early:
        notes.append(note("early"))
    promise = replace(
        promise,
        terms={name: rho * value for name, value in promise.terms.items()},
        trivial=rho * rounds,
        assumptions=tuple(assumed),
        proved=not doubts,
        remarks=(*notes, *doubts),
    )
    return promise.of_rewards() if game.sign < 0 else promise


def bound(plan: Plan, play: PerContext, n: int) -> Guarantee:
    """The bound for n rounds in units of the range; budgets are those of the horizon."""
    numbers, games = plan.numbers, plan.games
    longer = math.sqrt(numbers.rounds / n)  # B of the horizon over that of n rounds
    trigger, premium = numbers.trigger * longer, numbers.premium * longer
    if numbers.kind == "in any order":
        assert isinstance(plan.robust, OwnRows)
        etas = plan.robust.etas
        last = separate(games, [KAPPA] * len(games), n, float(n), etas)
        if plan.short:
            return last
        return insured_contexts.in_any_order(
            games, last, trigger=trigger, premium=premium, anytime=etas is None
        )
    found, rates = with_design(games[0], numbers.learning_rate, numbers.cost, numbers.largest)
    terms = found.terms(rates.learning_rate, rates.kappa, rounds=n)
    last = Guarantee(("F6",), n, terms, float(n), comparator="mapping")
    if plan.short:
        return last
    if numbers.kind == "together":
        return insured_contexts.together(
            games[0], last, trigger=trigger, premium=premium, jump=numbers.jump, spread=numbers.spread
        )  # fmt: skip
    watch = play.watch
    assert isinstance(watch, OneByOne)
    law, budgets = watch.footing.law, watch.budgets / numbers.scale * longer
    times = enumerate(play.chances.tolist())
    again = [(float(law[c]), float(budgets[c])) for c, count in times for _ in range(count)]
    return insured_contexts.one_by_one(
        games[0],
        last,
        budget=trigger,
        exploiting=numbers.exploiting,
        largest=numbers.largest,
        largest_exploiting=numbers.largest_exploiting,
        explored=numbers.explored,
        chances=again,
    )


def _doubts(learner: InsuredState) -> list[Note]:
    """What has happened in this game that nothing is proved of."""
    game, ledger = learner._game, learner.ledger
    assert game is not None
    doubts = []
    if game.play.at_once:
        doubts.append(note("contexts at once", count=game.play.at_once))
    late = game.play.late + max(len(ledger) - 1, 0)
    if late and not game.play.at_once:
        doubts.append(note("contexts after", count=late))
    if ledger.forgotten:
        doubts.append(note("contexts missing", count=ledger.forgotten))
    return doubts
