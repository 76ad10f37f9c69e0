"""What else the bandit learner says of its bound: as the paper prints it, for other losses, with a confidence."""

from __future__ import annotations

from typing import Any

from koloss.core.arrays import as_float
from koloss.guarantees import Guarantee, paper
from koloss.learners.bandit.engine import Engine
from koloss.learners.bandit.exp2 import Exp2
from koloss.learners.bandit.per_context import PerContext
from koloss.learners.bandit.settings import BanditSettings
from koloss.learners.ledger import Ledger


def printed_by(
    player: Exp2 | PerContext, settings: BanditSettings, ledger: Ledger[Any]
) -> Guarantee | None:
    """What the paper prints, with its own tuning."""
    engine = player.engine
    if settings.tuning != "paper" or engine.problem.log_prior == 0:
        return None
    played = player.played(0, ledger.unheard)
    at_once = played.late == played.at_once == played.unheard == 0 and not among_some_of(player)
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
    confidence: Any,
    player: Exp2 | PerContext,
    settings: BanditSettings,
    *,
    realised: bool = False,
) -> float:
    """A probability with which a bound in hindsight can be stated (theory F7), or an error that says why there is none."""
    value = as_float("confidence", confidence, positive=True)
    if value >= 1:
        raise ValueError(f"`confidence` must be below 1, got {value:.6g}")
    problem, played = player.engine.problem, player.played(0, 0)
    lacking = {
        "one learner for all rounds": player.counts is None,
        "`regret` of 'hindsight'": problem.hindsight,
        "a horizon": settings.horizon is not None,
        "a stated interval that holds all losses": problem.constant and not player.range.moves,
        "epochs of one round (batch=1)": realised or (player.batch == 1 and not played.at_once),
        "every loss in its epoch": not played.late,
        "all actions allowed in every round": not among_some_of(player),
    }
    for rule, met in lacking.items():
        if not met:
            raise ValueError(f"`confidence` must be left out without {rule}, got {value:.6g}")
    return value


def among_some_of(player: Exp2 | PerContext) -> bool:
    """Whether a law has been among some of the actions."""
    return any(one.totals is not None for one in player.each)
