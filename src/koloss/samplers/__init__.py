"""Draw from exp(-η·loss) on an action set."""

from koloss.samplers.quadratic_ball import Draws, QuadraticBall, quadratic_ball

__all__ = ["Draws", "QuadraticBall", "quadratic_ball"]
