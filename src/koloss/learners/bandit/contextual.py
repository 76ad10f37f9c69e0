"""The bandit learner with contexts: who plays, what is proved of that (theory F6.10), and what an operator sees."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from koloss.guarantees import Assumption, Guarantee, contexts, periods, promises
from koloss.learners.bandit.apart import Apart, Turn
from koloss.learners.bandit.contexts import PairsEngine
from koloss.learners.bandit.counted import CountedEngine, CountedExp2, counted_player
from koloss.learners.bandit.diagnostics import BanditDiagnostics, diagnose
from koloss.learners.bandit.exp2 import prove
from koloss.learners.bandit.pairs import engines_apart, in_context, pairs_engine
from koloss.learners.bandit.points import PointsEngine
from koloss.learners.bandit.reservoir import ReservoirExp2, load_reservoir, reservoir_player
from koloss.learners.bandit.settings import BanditSettings
from koloss.learners.bandit.setup import engine_for
from koloss.learners.bandit.shared import Alone, SharedExp2
from koloss.learners.bandit.tuning import choose_batch
from koloss.learners.ledger import Ledger
from koloss.learners.reading import Reader

Player: TypeAlias = Alone | SharedExp2 | Apart

COUNTED = (
    "the law of contexts is not known: it is counted, and nothing is proved for what is played then"
)
RESERVOIR = (
    "every context is played as the nearest of {} that stand for all others, among them a sample of those seen: "
    "nothing is proved of that, and the regret against mappings that differ in between is not counted"
)
WEIGHTS = "`weights` of the contexts, `order` of 'any', or `bonus` of True, would give a bound"
SINGLE = "Theorem F6.5 is proved for actions asked for one by one, whose losses are told before the next is asked for"
LATE = "losses that came after their epoch are covered only up to a `delay` that was declared"
DEAR = "a design was found that explores for more than the rates have allowed for"
ANY_ORDER = "a context may depend on all that was played before, not on the coin of its round"


def rows_of(settings: BanditSettings, context: Any, count: int | None = None) -> Any:
    """Row of a context, or those of several; coordinates where any point of a Space may come."""
    contexts = settings.contexts
    assert contexts is not None
    if contexts.space is not None:
        return contexts.place(context) if count is None else contexts.place_all(context, count)
    return contexts.find(context) if count is None else contexts.find_all(context, count)


def player_for(settings: BanditSettings) -> Player:
    """Whoever plays a game with contexts."""
    manner = settings.manner
    if manner == "apart":
        return Apart(engines_apart(settings))
    if manner == "alone":
        plain = in_context(settings, 0)
        engine = engine_for(plain)
        batch = choose_batch(plain, engine.problem)
        return Alone(engine, engine.rates, horizon=settings.horizon, batch=batch)
    if manner == "reservoir":
        return reservoir_player(settings)
    if manner == "paid":
        return counted_player(settings)
    engine = pairs_engine(settings)
    assert settings.contexts is not None
    batch = settings.contexts.period or choose_batch(settings, engine.problem)
    return SharedExp2(engine, engine.rates, horizon=settings.horizon, batch=batch)


# What is proved.


def prove_with_contexts(
    player: Player, settings: BanditSettings, rounds: int, ledger: Ledger[Any]
) -> Guarantee:
    """The statement for what is played (theory F6.10)."""
    played = player.played(ledger.longest_delay, ledger.unheard)
    if isinstance(player, Apart):
        return _apart(player, rounds, played)
    engine, horizon = player.engine, settings.horizon
    if isinstance(player, Alone):
        return prove(engine, player.rates, player.batch, rounds, horizon, played, player.range)
    assert isinstance(engine, PairsEngine)
    if engine.problem.log_prior == 0:
        return promises.one_action(rounds)
    if engine.manner == "counted":
        if isinstance(player, ReservoirExp2):
            return _nothing(engine, rounds, RESERVOIR.format(len(player.members)), COUNTED)
        return _nothing(engine, rounds, COUNTED, WEIGHTS)
    if engine.manner == "paid":
        return _counted(player, settings, rounds, played)
    if engine.manner == "in turn":
        return _in_turn(player, settings, rounds, played)
    promise = prove(engine, player.rates, player.batch, rounds, horizon, played, player.range)
    promise = contexts.independent(promise, len(player.seen))
    if engine.dear:
        promise = _doubted(promise, DEAR)
    if played.late and not 0 < played.longest_delay <= engine.problem.delay:
        return _doubted(promise, LATE)
    return promise


def _doubted(promise: Guarantee, why: str) -> Guarantee:
    return replace(promise, proved=False, notes=(*promise.notes, why))


def _nothing(engine: PairsEngine, rounds: int, *notes: str) -> Guarantee:
    trivial = (engine.high - engine.low) * rounds
    return Guarantee("No bound", rounds, {"all": trivial}, trivial, proved=False, notes=notes)


def _counted(
    player: SharedExp2, settings: BanditSettings, rounds: int, played: promises.Played
) -> Guarantee:
    """Shares that are counted, and a bonus that pays for that (theory F6.5)."""
    engine, rates = player.engine, player.rates
    # The words, and what a loss that is not heard or a net costs, are those of known shares.
    words = prove(engine, rates, 1, rounds, settings.horizon, played, player.range)
    assumed = tuple(a for a in words.assumptions if not a.text.startswith("exploration"))
    if played.unheard:
        assumed = (*assumed, Assumption(contexts.HEARD))
    promise = contexts.unknown_law(
        engine.problem,
        rates.learning_rate,
        rates.kappa,
        rounds,
        contexts=len(player.seen),
        width=engine.high - engine.low,
        assumptions=assumed,
    )
    beside = {name: words.terms[name] for name in ("unheard", "net")}
    promise = replace(promise, terms={**promise.terms, **beside})
    if engine.dear:
        promise = _doubted(promise, DEAR)
    if played.late or played.at_once:
        promise = _doubted(promise, SINGLE)
    return promise.of_rewards() if engine.sign < 0 else promise


def _in_turn(
    player: SharedExp2, settings: BanditSettings, rounds: int, played: promises.Played
) -> Guarantee:
    """Whole periods with one law each (theory F6.7, 2)."""
    engine, e, known = player.engine, player.batch, settings.contexts
    assert known is not None
    whole = replace(
        played, made=max(played.made, 1), at_once=max(played.made, 1), longest_at_once=e
    )
    promise = prove(engine, player.rates, e, rounds, settings.horizon, whole, player.range)
    width = engine.high - engine.low
    kept = False if player.is_broken else None
    promise = periods.in_turn(promise, len(known), e, known.variation, width, whole=kept)
    return _doubted(promise, LATE) if played.late else promise


def _apart(player: Apart, rounds: int, played: promises.Played) -> Guarantee:
    """One learner per context, in any order (theory F6.7, 1)."""
    first = player.engine
    if first.problem.log_prior == 0:
        return promises.one_action(rounds)
    # The words, and what a loss that is not heard or a net costs, are those of the learners; the numbers add up.
    words = prove(first, first.rates, 1, rounds, None, played, player.range)
    games = [exp2.engine.problem for exp2 in player]
    kappas = [exp2.rates.kappa for exp2 in player]
    promise = contexts.separate(games, kappas, rounds, words.trivial)
    net = max(exp2.engine.comparator(rounds, 1.0)[1]["net"] for exp2 in player)
    terms = {**promise.terms, "unheard": words.terms["unheard"], "net": net}
    assumed = (*promise.assumptions, *words.assumptions, Assumption(ANY_ORDER))
    notes = (*promise.notes, *words.notes)
    return replace(promise, terms=terms, assumptions=assumed, notes=notes, proved=words.proved)


# What is seen.


def diagnose_with_contexts(player: Player, outstanding: int) -> BanditDiagnostics:
    """What is going on, in all contexts."""
    if isinstance(player, Alone):
        return replace(diagnose(player, outstanding), contexts=np.array([player.made]))
    if isinstance(player, SharedExp2):
        player = player.ahead()
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
        told="rewards" if engine.sign < 0 else "losses",
        contexts=seen,
    )


# Snapshots.


def save_player(player: Player) -> dict[str, Any]:
    """Plain data for a snapshot."""
    if isinstance(player, Apart):
        engines = [engine.to_dict() for engine in player.engines()]
        return {"kind": "apart", "engine": {"each": engines}, "exp2": player.to_dict()}
    return {"kind": "shared", "engine": player.engine.to_dict(), "exp2": player.to_dict()}


def load_player(data: Reader, settings: BanditSettings) -> SharedExp2 | Apart:
    """The player in a snapshot, where several contexts share or are apart."""
    apart = settings.manner == "apart"
    data.word("kind", ("apart",) if apart else ("shared",))
    if settings.manner == "reservoir":
        return load_reservoir(data, settings)
    if settings.manner == "paid":
        counted = CountedEngine.from_dict(data.part("engine"), settings)
        return CountedExp2.from_dict(counted, data.part("exp2"), settings.horizon)
    if not apart:
        engine = PairsEngine.from_dict(data.part("engine"), settings)
        return SharedExp2.from_dict(engine, data.part("exp2"), settings.horizon)
    assert settings.contexts is not None
    parts = data.part("engine").parts("each")
    plain = in_context(settings, 0, horizon=None, ridge=0.0)
    from koloss.learners.bandit.arms import ArmsEngine

    kind = ArmsEngine if settings.loss_class == "any" else PointsEngine
    engines = [kind.from_dict(part, plain) for part in parts]
    return Apart.from_dict(engines, data.part("exp2"), len(settings.contexts))


def check_player(player: Player, ledger: Ledger[Any], data: Reader) -> None:
    """Refuse a ledger that does not belong to its player."""
    K = len(player.engine.actions) if isinstance(player.engine, PointsEngine) else 0
    several = not isinstance(player, Alone)
    for entry in ledger:
        c = entry.key // K if several else 0
        if entry.context != c:
            data.refuse("ledger.contexts", "must be those of the pairs", entry.context)
        if isinstance(player, ReservoirExp2) and not player.knew(entry.law, c):
            data.refuse("ledger.contexts", "must be of their time", c)
        if isinstance(entry.law, Turn) and c not in entry.law.epochs:
            data.refuse("ledger.laws", "must have an epoch for each context", entry.law.number)
    if isinstance(player, Apart):
        player.link(entry.law for entry in ledger)
