"""Where the player may move: finite sets, balls, boxes and positive parts of balls, and nets that cover them."""

from koloss.actions.ball import Ball
from koloss.actions.base import ActionSet
from koloss.actions.box import Box
from koloss.actions.contexts import Contexts
from koloss.actions.points import Points
from koloss.actions.positive_ball import PositiveBall

__all__ = ["ActionSet", "Ball", "Box", "Contexts", "Points", "PositiveBall"]
