"""Algorithm 4 of the paper: follow the regularised leader in the RKHS.

In each round the player draws an action from a distribution with mean

    X_t = argmin { η Σ_{s<t} ⟨w_s, Y⟩ + ‖Y‖² : Y in the convex hull of the features },

which is the projection of -(η/2) Σ_{s<t} w_s onto the hull, and is then told the loss w_t. Losses, never rewards:
smaller is better.

The paper has it for its proofs, as intractable in general. It is tractable, and to rounding, on points, for quadratics
on the ball and for linear losses on convex sets; elsewhere there is an error that says so. Departures:

- η = 2ϱ/(G√n) with the corrected constants of theory A4: R_n ≤ ϱG√n, an eighth of the paper's term in ηn.
- A projection comes with a certified gap h, and its mean is within √h of the leader; the guarantee adds G√h per round.
- Late losses are used in the order in which they come; each costs at most ηG²/2 for every other one heard before it.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from koloss.actions import ActionSet
from koloss.core.snapshot import kept
from koloss.guarantees import Guarantee, leader, paper
from koloss.kernels import Kernel, Loss
from koloss.learners.base import refuse_extras
from koloss.learners.full.learner import (
    FullDiagnostics,
    FullInformation,
    drawn,
)
from koloss.learners.full.settings import LeaderSettings
from koloss.learners.ledger import Drawn
from koloss.learners.sharing import locked
from koloss.oracles import projection_for
from koloss.oracles.hull import Hull, Projection

SHARE = 1e-3
"""Of the bound, that approximate projections may add."""


@kept
class FollowTheRegularizedLeader(FullInformation[LeaderSettings]):
    """Follow the regularised leader with full information (Algorithm 4).

    Parameters
    ----------
    actions : ActionSet
        Points, a `Space`, of which `points()` are played; a ball, with `Quadratic` or `Linear`; a box or a positive ball, with `Linear`.
    kernel, horizon, loss_norm, delay, learning_rate, rng
        As for `ExpWeights`; the horizon is needed.
    tuning : "sharp" or "paper"
        η = 2𝒢/(G√n), or 1/√n, which minimises the bound that the paper prints.
    tolerance : float, optional
        Gap that a projection on points may have; by default so small that it adds a thousandth to the bound.

    Examples
    --------
    >>> import numpy as np
    >>> import koloss as kl
    >>> points = kl.Points(np.linspace(0, 1, 50)[:, None])
    >>> learner = kl.FollowTheRegularizedLeader(points, kl.Gaussian(0.2), horizon=500, rng=0)
    >>> for t in range(500):
    ...     decision = learner.ask()
    ...     learner.tell(decision, kl.KernelLoss(kl.Gaussian(0.2), [[0.7]], [-1.0]))
    >>> bool(abs(learner.ask().action[0] - 0.7) < 0.05), learner.guarantee().total < 24
    (True, True)
    """

    settings_type = LeaderSettings

    settings: LeaderSettings
    problem: leader.LeaderProblem
    _hull: Hull
    _eta: float
    _tolerance: float
    _last: Projection | None  # where the leader was at the last draw
    _tracking: float = 0.0
    _leader = None  # where it is, once somebody asks

    def __init__(
        self,
        actions: ActionSet,
        kernel: Kernel,
        *,
        horizon: int,
        loss_norm: float | None = None,
        tuning: Literal["sharp", "paper"] = "sharp",
        delay: int = 0,
        learning_rate: float | None = None,
        tolerance: float | None = None,
        rng: Any = None,
    ) -> None:
        settings, game = self._start(locals())
        n = settings.horizon
        self._hull = projection_for(game.kernel, game.actions)
        self.problem = leader.LeaderProblem(n, game.norm, game.radius or 1.0, game.diameter or 1.0)
        tuned = self.problem.leader_rate(settings.delay)
        tuned = paper.leader_rate(n) if settings.tuning == "paper" else tuned
        self._eta = settings.learning_rate or tuned
        self._tolerance = (SHARE * self.problem.reach) ** 2 / n  # n G √h ≤ a share of ϱ G √n
        if settings.tolerance is not None:
            self._tolerance = settings.tolerance
        self._last = None

    # Algorithm 4.

    def _project(self) -> Projection:
        """The leader: the projection of -(η/2) Σ w_s onto the hull."""
        if self._leader is None:
            if self._total is None:
                target = 0.0 * self.game.kernel.embed(np.zeros(self.game.actions.dimension))
            else:
                target = -self._eta / 2 * self._total
            self._leader = self._hull.project(target, self._tolerance, self._last)
        return self._leader

    def _draw(self, count: int | None, context: Any, allowed: Any) -> tuple[None, Drawn]:
        refuse_extras(context, allowed)
        X = self._last = self._project()
        size = count or 1
        self._tracking += size * math.sqrt(X.gap)
        sums = np.cumsum(X.weights)
        k = (sums / sums[-1]).searchsorted(self._rng.random(size), side="right")
        if X.index is None:
            return drawn(count, X.atoms[k])
        return drawn(count, X.atoms[k], X.index[k], X.weights[k])

    def _learn_from(self, loss: Any, delay: int) -> None:
        moved = delay * self._eta * self.game.norm / 2
        self._delay_cost += self.game.norm * min(moved, self.game.diameter)
        self._add(loss)
        self._leader = None

    # What it knows.

    @property
    @locked
    def mean(self) -> Loss:
        """X, the mean action as an element of the RKHS."""
        mean: Loss = self.game.kernel.embed(*self.mixture)
        return mean

    @property
    @locked
    def mixture(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The actions that may be played next, and their probabilities."""
        X = self._project()
        return X.atoms.copy(), X.weights.copy()

    @property
    @locked
    def distribution(self) -> NDArray[np.float64]:
        if not self.game.is_finite:
            return super().distribution
        X = self._project()
        p = np.zeros(len(self.game.points))
        p[X.index] = X.weights
        return p

    def _peek(self, rng: np.random.Generator, count: int) -> tuple[NDArray[Any], NDArray[Any]]:
        return self.mixture

    @property
    @locked
    def diagnostics(self) -> FullDiagnostics:
        X = self._project()
        return self._diagnosed(self._eta, atoms=len(X.weights), gap=X.gap)

    # The bound.

    def _proved(self, rounds: int) -> Guarantee:
        game, played = self.game, self._played()
        size = self._eta / 2 * rounds * game.norm * game.radius
        rest = math.sqrt(self._hull.largest_gap(self._tolerance, size))
        return leader.proved(
            self.problem,
            self._eta,
            rounds,
            width=game.width,
            played=played,
            tracking=self._tracking + max(rounds - played.made, 0) * rest,
            delay=self.settings.delay,
            delay_cost=self._delay_cost,
            eigenvalue=game.eigenvalue,
        )

    def _printed(self, rounds: int) -> Guarantee | None:
        if self.settings.tuning != "paper":
            return None
        proved, game = self._proved(rounds), self.game
        return paper.regularised_leader(proved, self._eta, norm=game.norm, radius=game.radius)
