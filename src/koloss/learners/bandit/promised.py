"""What the bandit learner proves of its game without contexts, for the losses it plays for and for others."""

from __future__ import annotations

from typing import Any

from koloss.core.arrays import as_float
from koloss.guarantees import Guarantee, paper, promises
from koloss.learners.bandit.engine import Engine
from koloss.learners.bandit.exp2 import Exp2, finite, prove, within_shares
from koloss.learners.bandit.settings import BanditSettings
from koloss.learners.bandit.subsets import Bools, Totals, subset_of
from koloss.learners.ledger import Ledger


def proved_by(
    engine: Engine,
    exp2: Exp2,
    settings: BanditSettings,
    rounds: int,
    ledger: Ledger[Any],
    awake: Bools | None = None,
) -> Guarantee:
    """The statement for what is played, by the numbers of an engine: that of the game, or one for other losses; `awake` are on offer now."""
    played = exp2.played(ledger.longest_wait, ledger.unheard)
    promise = prove(engine, exp2.rates, exp2.batch, rounds, settings.horizon, played, exp2.range)
    if exp2.totals is not None or awake is not None:
        promise = among_some(promise, engine, exp2.totals, awake)
    return within_shares(promise, engine)


def among_some(
    promise: Guarantee, engine: Engine, totals: Totals | None, awake: Bools | None
) -> Guarantee:
    """The statement where not all actions are awake all the time: by what has been learned so far, and for those on offer now."""
    price, renewed, revived = 1.0, 0.0, 0
    if totals is not None:
        price, renewed, revived = totals.price, totals.renewed, totals.revived
    if awake is not None:
        price = max(price, subset_of(finite(engine), awake).price)
    numbers = {"price": price, "renewed": renewed, "revived": revived}
    return promises.among_some(promise, engine.problem, engine.rates, **numbers)


def printed_by(exp2: Exp2, settings: BanditSettings, ledger: Ledger[Any]) -> Guarantee | None:
    """What the paper prints, with its own tuning."""
    engine = exp2.engine
    if settings.tuning != "paper" or engine.problem.log_prior == 0:
        return None
    at_once = exp2.late == exp2.at_once == ledger.unheard == 0 and exp2.totals is None
    n, width = settings.horizon, engine.high - engine.low
    assert n is not None
    return paper.bandit_guarantee(engine.printed, n, width * n, at_once)


def for_other_losses(
    engine: Engine, settings: BanditSettings, loss_norm: Any, misfit: Any
) -> Engine:
    """The same play against losses of another norm (theory F2), or that miss the class (theory F8)."""
    if loss_norm is not None:
        engine = engine.for_norm(as_float("loss_norm", loss_norm, positive=True), settings)
    if misfit is not None:
        engine = engine.for_misfit(as_float("misfit", misfit, minimum=0.0))
    return engine


def checked_confidence(
    confidence: Any, exp2: Exp2, settings: BanditSettings, *, realised: bool = False
) -> float:
    """A probability with which a bound in hindsight can be stated (theory F7), or an error that says why there is none."""
    value = as_float("confidence", confidence, positive=True)
    if value >= 1:
        raise ValueError(f"`confidence` must be below 1, got {value:.6g}")
    problem = exp2.engine.problem
    lacking = {
        "`regret` of 'hindsight'": problem.hindsight,
        "a horizon": settings.horizon is not None,
        "a stated interval that holds all losses": problem.constant and not exp2.range.moves,
        "epochs of one round (batch=1)": realised or (exp2.batch == 1 and not exp2.at_once),
        "every loss in its epoch": not exp2.late,
        "all actions allowed in every round": exp2.totals is None,
    }
    for rule, met in lacking.items():
        if not met:
            raise ValueError(f"`confidence` must be left out without {rule}, got {value:.6g}")
    return value
