"""What is promised of an insured learner with contexts, given the game so far."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from koloss.guarantees import Assumption, Guarantee, promises
from koloss.guarantees.bandit import psi
from koloss.guarantees.contexts import BEFORE, DRAWN, MAPPING
from koloss.guarantees.insured import AT_ONCE
from koloss.learners.bandit.exp2 import prove
from koloss.learners.insured.in_turn import InTurn
from koloss.learners.insured.per_context import PerContext
from koloss.learners.insured.plans import Numbers
from koloss.learners.insured.segments import OneByOne, Together

if TYPE_CHECKING:
    from koloss.learners.insured.insured_bandit import InsuredBandit

ANY_ORDER = "a context may depend on all that was played before, not on the coin of its round"
"""What is assumed of contexts that come in any order: next to nothing."""

UNMOVED = "contexts do not depend on what the learner would do"
"""What is assumed of whoever names them, where they are drawn."""

EVIDENCE = "stopping on evidence is a heuristic; the bound holds whenever a policy is stopped"
UNPROVED = "not covered with contexts: {}"


def prove_segments(learner: InsuredBandit, rounds: int) -> Guarantee:
    """Theorem F6.6c, F6.6 or F6.7 (4), whichever is played, for so many rounds."""
    game, ledger, settings = learner._game, learner.ledger, learner.settings
    assert game is not None
    play, numbers, rho = game.play, game.plan.numbers, game.width
    if numbers.actions == 1:
        return promises.one_action(rounds)
    terms = {k: rho * v for k, v in robust_terms(numbers, rounds).items()}
    if not game.plan.short:
        terms |= {k: rho * v for k, v in watched_terms(play, numbers, rounds).items()}
    played = promises.Played(made=ledger.made, heard=ledger.heard)
    words = prove(game.engine, game.engine.rates, 1, rounds, None, played)
    assumed = [
        *words.assumptions,  # of losses
        Assumption(f"at most {numbers.rounds} rounds", max(ledger.made, rounds) <= numbers.rounds),
    ]
    if settings.ordered == "independent":
        assumed += [Assumption(DRAWN), Assumption(BEFORE), Assumption(UNMOVED)]
    else:
        assumed.append(Assumption(ANY_ORDER))
    doubts = _doubts(learner)
    if ledger.made < rounds and not doubts:
        assumed.append(Assumption(AT_ONCE))
    notes = [MAPPING, *(one.describe(game.shown(one.context)) for one in play.passed)]
    if play.early:
        notes.append(EVIDENCE)
    notes += [UNPROVED.format(doubt) for doubt in doubts]
    statement = (
        game.plan.statement if not game.plan.short else f"{game.plan.statement} without a policy"
    )
    promise = Guarantee(
        statement, rounds, terms, rho * rounds, tuple(assumed), not doubts, tuple(notes)
    )
    return promise.of_rewards() if game.sign < 0 else promise


def robust_terms(numbers: Numbers, n: int) -> dict[str, float]:
    """What the robust learner costs in n rounds: Theorem F6, or F6.7 (1) where contexts come in any order."""
    eps, eta, m, K = numbers.epsilon, numbers.learning_rate, numbers.rank, numbers.actions
    if eta == 0:  # one learner per context, with rates that need no horizon
        robust = numbers.scale * math.sqrt(n / numbers.rounds)
        return {"robust learner": robust, "bias": eps * n * (3 + math.sqrt(numbers.largest))}
    gamma = numbers.cost
    kappa = eta * (numbers.largest / 2 + eps * math.sqrt(numbers.largest_exploiting))
    robust = gamma * n + psi(kappa) * eta * (0.5 + eps) ** 2 * m * n
    robust += (1 - gamma) * math.log(K) / eta
    return {"robust learner": robust, "bias": eps * n * (3 + math.sqrt(m))}


def watched_terms(play: PerContext, numbers: Numbers, n: int) -> dict[str, float]:
    """What the policy may cost while it is watched; the bias is the robust learner's with it."""
    eps, watch = numbers.epsilon, play.watch
    bias = robust_terms(numbers, n)["bias"]
    terms = {"budget": numbers.trigger * numbers.scale}
    if isinstance(watch, OneByOne):
        law, R = watch.footing.law, numbers.largest
        terms["jumps"] = R + (numbers.exploiting + 1) / 2
        more = watch.budgets + (1 + law) / 2 + law * R
        terms["second chances"] = float(play.chances @ more)
        reach = math.sqrt(numbers.mass * numbers.largest_exploiting)
    else:
        terms["jumps"] = numbers.premium * numbers.scale
        reach = numbers.unevenness if isinstance(watch, Together) else math.sqrt(_widest(watch))
    terms["bias"] = bias + eps * n * (1 + reach)
    return terms


def _widest(watch: InTurn) -> float:
    return max(own.leverage for own in watch.owns)


def _doubts(learner: InsuredBandit) -> list[str]:
    """What has happened in this game that nothing is proved of."""
    game, ledger = learner._game, learner.ledger
    assert game is not None
    told = "rewards" if game.sign < 0 else "losses"
    doubts = []
    if game.play.at_once:
        doubts.append(f"{game.play.at_once} decisions were made at once")
    late = game.play.late + max(len(ledger) - 1, 0)
    if late and not game.play.at_once:
        doubts.append(f"{late} {told} came, or will come, after a further decision")
    if ledger.forgotten:
        doubts.append(f"{ledger.forgotten} {told} were never told")
    return doubts
