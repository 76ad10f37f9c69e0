"""Minimise a loss over an action set: a point, its value, and how much smaller anything else can be."""

from koloss.oracles.base import Minimum
from koloss.oracles.geometric_program import GeometricProgram
from koloss.oracles.lookup import minimize, projection_for
from koloss.oracles.trust_region import minimize_quadratic_ball

__all__ = ["GeometricProgram", "Minimum", "minimize", "minimize_quadratic_ball", "projection_for"]
