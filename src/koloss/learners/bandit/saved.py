"""Whoever plays the bandit learner's game, in a snapshot: a ball or points, with contexts or without."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from koloss.learners.bandit.apart import Apart
from koloss.learners.bandit.arms import ArmsEngine
from koloss.learners.bandit.contextual import Player, check_player, load_player, save_player
from koloss.learners.bandit.exp2 import Epoch, Exp2
from koloss.learners.bandit.masks import check_rows
from koloss.learners.bandit.pairs import in_context
from koloss.learners.bandit.placing import restored
from koloss.learners.bandit.points import PointsEngine
from koloss.learners.bandit.settings import BanditSettings
from koloss.learners.bandit.setup import plays_ball
from koloss.learners.bandit.shared import Alone, SharedExp2
from koloss.learners.ledger import Ledger
from koloss.learners.reading import Reader

if TYPE_CHECKING:
    from koloss.learners.bandit.ball import BallEngine

    Engine: TypeAlias = PointsEngine | BallEngine


def save(exp2: Exp2 | Player) -> dict[str, Any]:
    """Plain data for a snapshot."""
    if isinstance(exp2, (SharedExp2, Apart)):
        return save_player(exp2)
    engine = exp2.engine
    kind = "points" if isinstance(engine, PointsEngine) else "ball"
    if isinstance(engine, ArmsEngine):
        kind = "arms"
    return {"kind": kind, "engine": engine.to_dict(), "exp2": exp2.to_dict()}


def load(data: Reader, settings: BanditSettings) -> Exp2 | Player:
    """Whoever plays the game of a snapshot with these settings."""
    if settings.contexts is None:
        return _load_alone(Exp2, data, settings)
    if settings.manner != "alone":
        return load_player(data, settings)
    return _load_alone(Alone, data, in_context(settings, 0))


def _load_alone(kind_of: type[Exp2], data: Reader, settings: BanditSettings) -> Exp2:
    kind = data.word("kind", ("points", "arms", "ball"))
    if (kind == "arms") != (settings.loss_class == "any"):
        data.refuse("kind", "must be that of the losses", kind)
    if (kind == "ball") != plays_ball(settings):
        data.refuse("kind", "must be that of the actions", kind)
    engine: Engine
    if kind in ("points", "arms"):
        made = PointsEngine if kind == "points" else ArmsEngine
        part = data.part("engine")
        engine = restored(made.from_dict(part, settings), part)
    else:
        from koloss.learners.bandit.ball import BallEngine

        engine = BallEngine.from_dict(data.part("engine"), settings)
    return kind_of.from_dict(engine, data.part("exp2"), settings.horizon)


def check(
    exp2: Exp2, player: Player | None, settings: BanditSettings, ledger: Ledger[Any], data: Reader
) -> None:
    """Refuse a state that does not belong to its ledger, or with which the next decision could not be made."""
    if player is not None:
        check_player(player, ledger, data)
    if not isinstance(player, Apart):
        exp2.epoch = ledger.current if isinstance(ledger.current, Epoch) else None
    check_rows(data, ledger)
    own = settings.horizon if isinstance(player, Apart) else exp2.horizon
    if (exp2.made, exp2.heard, own) != (ledger.made, ledger.heard, settings.horizon):
        data.refuse(
            "learner.exp2", "must have the counts of the ledger", [exp2.made, exp2.heard, own]
        )
    exp2.check(data)
