"""Draw from exp(-η·loss) on an action set: exactly where that is possible, by Markov chains elsewhere."""

from koloss.samplers.base import Sampler
from koloss.samplers.box import separable_box
from koloss.samplers.categorical import categorical
from koloss.samplers.chains import Draws
from koloss.samplers.diagnostics import effective_size, r_hat
from koloss.samplers.hit_and_run import hit_and_run
from koloss.samplers.langevin import langevin
from koloss.samplers.lookup import sample, sampler_for
from koloss.samplers.particles import Particles
from koloss.samplers.quadratic_ball import ExactDraws, QuadraticBall, quadratic_ball
from koloss.samplers.quadratic_moments import QuadraticMoments, quadratic_moments

__all__ = [
    "Draws",
    "ExactDraws",
    "Particles",
    "QuadraticBall",
    "QuadraticMoments",
    "Sampler",
    "categorical",
    "effective_size",
    "hit_and_run",
    "langevin",
    "quadratic_ball",
    "quadratic_moments",
    "r_hat",
    "sample",
    "sampler_for",
    "separable_box",
]
