"""Where the player may move: finite sets, balls and boxes, and nets that cover them."""

from koloss.actions.ball import Ball
from koloss.actions.base import ActionSet
from koloss.actions.box import Box
from koloss.actions.points import Points

__all__ = ["ActionSet", "Ball", "Box", "Points"]
