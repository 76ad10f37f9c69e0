"""Where the player may move: finite sets, balls, boxes, spaces of named parameters, and nets that cover them."""

from koloss.actions.ball import Ball
from koloss.actions.base import ActionSet
from koloss.actions.box import Box
from koloss.actions.contexts import Contexts
from koloss.actions.parameters import Choice, Float, Int, Ordinal, Parameter
from koloss.actions.points import Points
from koloss.actions.positive_ball import PositiveBall
from koloss.actions.space import Space
from koloss.actions.space_points import SpacePoints

__all__ = [
    "ActionSet",
    "Ball",
    "Box",
    "Choice",
    "Contexts",
    "Float",
    "Int",
    "Ordinal",
    "Parameter",
    "Points",
    "PositiveBall",
    "Space",
    "SpacePoints",
]
