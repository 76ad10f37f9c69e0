"""What the bandit learner can be asked where it plays a whole ball."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from koloss.learners.bandit.exp2 import Epoch, Exp2
from koloss.learners.bandit.points import PointsEngine
from koloss.learners.bandit.settings import BanditSettings
from koloss.learners.base import Learner
from koloss.learners.sharing import locked

if TYPE_CHECKING:
    from koloss.learners.bandit.ball import BallEngine

Floats = NDArray[np.float64]


class OnBall(Learner[BanditSettings, Epoch]):
    """A learner that knows densities in the place of probabilities, if its actions are a ball."""

    _exp2: Exp2 | Any

    @locked
    def log_density(self, X: Any) -> Floats:
        """Logarithm of the density on a ball of the exponential weights q in the next `ask()`; -∞ outside the ball.

        The next action is drawn from q with probability 1 - γ, and otherwise from the sphere (or at 0), where it has
        no density.

        Parameters
        ----------
        X : array of shape (n, d)

        Examples
        --------
        >>> import koloss as kl
        >>> learner = kl.BanditExpWeights(kl.Ball(2), kl.Quadratic(), horizon=100, rng=0)
        >>> log_density = learner.log_density([[0.5, 0.5], [1.0, 1.0]])
        >>> log_density.round(6).tolist()  # -log π: uniform on the disc
        [-1.14473, -inf]
        """
        return self._ball("log_density").log_density(self._exp2.next_law(), X)

    @locked
    def estimated_loss(self, X: Any) -> Floats:
        """Estimated mean loss on a ball of some actions, the rows of X."""
        engine, exp2 = self._ball("estimated_loss"), self._exp2
        values = engine.values_at(exp2.theta, max(exp2.mass, 1.0), X) + exp2.mean_center
        return engine.sign * values

    def _ball(self, name: str) -> BallEngine:
        from koloss.learners.bandit.ball import BallEngine

        engine = self._exp2.engine
        if not isinstance(engine, BallEngine):
            raise AttributeError(f"`{name}` is for a ball; a finite set has `distribution`")
        return engine

    def _peek(self, rng: np.random.Generator, count: int) -> tuple[NDArray[Any], NDArray[Any]]:
        engine = self._exp2.engine
        if isinstance(engine, PointsEngine):
            return super()._peek(rng, count)
        exp2, ball = self._exp2, self._ball("peek")
        eta, gamma = exp2.rates_now()
        law = ball.law(exp2.theta, None, eta, gamma, rng)
        return ball.copy().draw(law, count, rng).action, np.full(count, 1 / count)

    def _drop_ahead(self) -> None:
        epoch = self._exp2.epoch
        if epoch is not None and not isinstance(self._exp2.engine, PointsEngine):
            epoch.law.ahead = None
