"""Whoever plays the bandit learner's game, in a snapshot: a ball or points, with contexts or without."""

from __future__ import annotations

from typing import Any

import numpy as np

from koloss.learners.bandit.apart import Apart
from koloss.learners.bandit.arms import ArmsEngine
from koloss.learners.bandit.contextual import Player, check_player, load_player, save_player
from koloss.learners.bandit.engine import Engine
from koloss.learners.bandit.exp2 import Epoch, Exp2
from koloss.learners.bandit.pairs import in_context
from koloss.learners.bandit.placing import restored
from koloss.learners.bandit.points import PointsEngine
from koloss.learners.bandit.sampled import SampledEngine
from koloss.learners.bandit.settings import BanditSettings
from koloss.learners.bandit.setup import plays_ball
from koloss.learners.bandit.shared import Alone, SharedExp2
from koloss.learners.bandit.subsets import Roster
from koloss.learners.ledger import Ledger
from koloss.learners.reading import Reader


def save(exp2: Exp2 | Player, roster: Roster) -> dict[str, Any]:
    """Plain data for a snapshot."""
    if isinstance(exp2, (SharedExp2, Apart)):
        return save_player(exp2)
    offered = {"offered": roster.offered.astype(np.int64)} if roster.changes else {}
    return {"engine": exp2.engine.to_dict(), "exp2": exp2.to_dict(), **offered}


def load_roster(data: Reader, exp2: Exp2) -> Roster:
    """The actions on offer."""
    rows = exp2.engine.rows
    roster = Roster(rows or 0)
    if rows is not None and data.has_key("offered"):
        roster.offer(data.flags("offered", rows))
        if not roster.offered.any():
            data.refuse("offered", "must hold an action", [])
    return roster


def load(data: Reader, settings: BanditSettings) -> Exp2 | Player:
    """Whoever plays the game of a snapshot with these settings."""
    if settings.contexts is None:
        return _load_alone(Exp2, data, settings)
    if settings.manner != "alone":
        return load_player(data, settings)
    return _load_alone(Alone, data, in_context(settings, 0))


def _load_alone(kind_of: type[Exp2], data: Reader, settings: BanditSettings) -> Exp2:
    part = data.part("engine")
    engine: Engine
    if plays_ball(settings):
        from koloss.learners.bandit.ball import BallEngine

        engine = BallEngine.from_dict(part, settings)
    else:
        made: type[PointsEngine] = PointsEngine
        if settings.loss_class == "any":
            made = ArmsEngine
        elif settings.covariance == "sampled":
            made = SampledEngine
        engine = restored(made.from_dict(part, settings), part)
    return kind_of.from_dict(engine, data.part("exp2"), settings.horizon)


def check(exp2: Exp2, player: Player | None, ledger: Ledger[Any], data: Reader) -> None:
    """Refuse a state that does not belong to its ledger, or with which the next decision could not be made."""
    if player is not None:
        check_player(player, ledger, data)
    if not isinstance(player, Apart):
        exp2.epoch = ledger.current if isinstance(ledger.current, Epoch) else None
    check_awake(data, ledger)
    exp2.check(data)


def check_awake(data: Reader, ledger: Ledger[Any]) -> None:
    """Refuse decisions for actions that were asleep."""
    for entry in ledger:
        awake = getattr(entry.law, "awake", None)
        if awake is not None and not awake[entry.key]:
            data.refuse("ledger.keys", "must be rows that could be drawn", entry.key)
