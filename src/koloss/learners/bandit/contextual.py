"""The bandit learner with contexts: who plays, what is proved of that (theory F6.10), and what an operator sees."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from koloss.guarantees import Guarantee, contexts, promises
from koloss.guarantees.base import Note, clause, note
from koloss.learners.bandit.apart import Apart
from koloss.learners.bandit.contexts import PairsEngine
from koloss.learners.bandit.coordinates import without_units
from koloss.learners.bandit.diagnostics import BanditDiagnostics, diagnose
from koloss.learners.bandit.exp2 import prove
from koloss.learners.bandit.pairs import engines_apart, in_context, pairs_engine
from koloss.learners.bandit.realised import estimated_regret
from koloss.learners.bandit.settings import BanditSettings
from koloss.learners.bandit.setup import engine_for, plays_ball
from koloss.learners.bandit.shared import Alone, SharedExp2
from koloss.learners.bandit.tuning import choose_batch
from koloss.learners.ledger import Ledger

Player: TypeAlias = Alone | SharedExp2 | Apart


def rows_of(settings: BanditSettings, context: Any, count: int | None = None) -> Any:
    """Row of a context, or those of several."""
    contexts = settings.contexts
    assert contexts is not None
    return contexts.find(context) if count is None else contexts.find_all(context, count)


def player_for(settings: BanditSettings) -> Player:
    """Whoever plays a game with contexts."""
    manner = settings.manner
    if not (manner == "alone" and plays_ball(in_context(settings, 0))):
        settings = without_units(settings)
    if manner == "apart":
        return Apart(engines_apart(settings), settings.horizon)
    if manner == "alone":
        plain = in_context(settings, 0)
        engine = engine_for(plain)
        batch = choose_batch(plain, engine.problem, engine.rows)
        return Alone(engine, horizon=settings.horizon, batch=batch)
    engine = pairs_engine(settings)
    batch = choose_batch(settings, engine.problem, engine.rows)
    return SharedExp2(engine, horizon=settings.horizon, batch=batch)


# What is proved.


def prove_with_contexts(
    player: Player, settings: BanditSettings, rounds: int, ledger: Ledger[Any]
) -> Guarantee:
    """The statement for what is played (theory F6.10)."""
    played = player.played(ledger.longest_wait, ledger.unheard)
    if isinstance(player, Apart):
        return _apart(player, rounds, settings.horizon, played)
    engine, horizon = player.engine, settings.horizon
    if isinstance(player, Alone):
        return prove(engine, player.rates, player.batch, rounds, horizon, played, player.range)
    assert isinstance(engine, PairsEngine)
    if engine.problem.log_prior == 0:
        return promises.one_action(rounds)
    promise = prove(engine, player.rates, player.batch, rounds, horizon, played, player.range)
    promise = contexts.independent(promise, len(player.seen))
    if played.late and not 0 < played.longest_delay <= engine.problem.delay:
        return _doubted(promise, note("contexts too late"))
    return promise


def _doubted(promise: Guarantee, why: Note) -> Guarantee:
    return replace(promise, proved=False, remarks=(*promise.remarks, why))


def _apart(player: Apart, rounds: int, horizon: int | None, played: promises.Played) -> Guarantee:
    """One learner per context, in any order (theory F6.7, 1), with fixed rates where there is a horizon (theory F6.11)."""
    first = max((exp2.engine for exp2 in player), key=lambda engine: engine.rates.exploration)
    if first.problem.log_prior == 0:
        return promises.one_action(rounds)
    # The words, and what a loss that is not heard or a net costs, are those of the learners; the numbers add up.
    horizon = None if player.is_anytime else horizon
    words = prove(first, first.rates, 1, rounds, horizon, played, player.range)
    if horizon is not None and (played.late or played.at_once):
        words = _doubted(words, note("contexts one by one"))
    games = [exp2.engine.problem for exp2 in player]
    kappas = [exp2.rates.kappa for exp2 in player]
    rates = None if horizon is None else [exp2.rates.learning_rate for exp2 in player]
    promise = contexts.separate(games, kappas, rounds, words.trivial, rates)
    net = max(exp2.engine.comparator(rounds, 1.0)[1]["net"] for exp2 in player)
    terms = {**promise.terms, "unheard": words.terms["unheard"], "net": net}
    assumed = (*promise.assumptions, *words.assumptions, clause("any order"))
    return replace(
        promise,
        terms=terms,
        assumptions=assumed,
        remarks=(*promise.remarks, *words.remarks),
        proved=words.proved,
        goal=words.goal,
    )


# What is seen.


def diagnose_with_contexts(player: Player, outstanding: int) -> BanditDiagnostics:
    """What is going on, in all contexts."""
    if isinstance(player, Alone):
        return replace(diagnose(player, outstanding), contexts=np.array([player.made]))
    seen, engine = player.seen, player.engine
    if isinstance(player, Apart):
        laws = np.array([exp2.outlook() for exp2 in player])
        each, drift, reach = player.each, 0.0, 0.0
        eta, gamma = max(exp2.rates_now() for exp2 in player)
        epochs, late = player.turns, sum(exp2.late for exp2 in each)
        share = seen / max(seen.sum(), 1)
    else:
        laws, epoch = player.outlook(), player.epoch
        eta, gamma = player.rates_now() if epoch is None else (epoch.eta, epoch.gamma)
        drift = 0.0
        if epoch is not None:
            drift = epoch.anchor_drift if epoch.over else player.drift(epoch)
        reach = 0.0 if epoch is None else float(np.max(engine.leverages(epoch.law)))
        epochs, late, share = player.epochs, player.late, player.engine.law_of_contexts
    logs = np.log(np.where(laws > 0, laws, 1.0))
    return BanditDiagnostics(
        epoch=epochs,
        rounds=int(seen.sum()),
        heard=sum(exp2.heard for exp2 in player) if isinstance(player, Apart) else player.heard,
        outstanding=outstanding,
        late=late,
        learning_rate=eta,
        exploration=gamma,
        drift=drift,
        entropy=float(-np.sum(share[:, None] * laws * logs)),
        max_leverage=reach,
        estimated_losses=engine.sign * player.values(),
        estimated_regret=estimated_regret(player.each) if isinstance(player, Apart) else None,
        told="rewards" if engine.sign < 0 else "losses",
        contexts=seen,
    )
