"""Where a family of losses meets an action set: who draws from exp(-potential) there."""

from __future__ import annotations

import abc
from typing import Any, Literal

import numpy as np

from koloss.actions import ActionSet, Ball, Box, Points, PositiveBall
from koloss.core.arrays import as_count, as_float, take, to_numpy, within_floats
from koloss.core.random import as_generator
from koloss.core.snapshot import kept
from koloss.kernels import (
    KernelLoss,
    Linear,
    LinearLoss,
    Loss,
    PosynomialLoss,
    Quadratic,
    QuadraticLoss,
)
from koloss.kernels.lookup import check_dimension, engine_for, engine_of
from koloss.samplers.base import Sampler
from koloss.samplers.box import separable_box
from koloss.samplers.categorical import categorical
from koloss.samplers.chains import as_actions
from koloss.samplers.hit_and_run import hit_and_run
from koloss.samplers.langevin import langevin
from koloss.samplers.particles import Particles
from koloss.samplers.quadratic_ball import QuadraticBall
from koloss.samplers.quadratic_moments import quadratic_moments


@kept
class OnPoints(Sampler):
    """Rows of a finite set by their probabilities."""

    method = "categorical"
    actions: Points

    def __init__(self, points: Points) -> None:
        self.actions = points

    def follow(self, potential: Any, rng: np.random.Generator | None = None) -> None:
        p = np.exp(potential.min() - potential)
        p /= p.sum()
        sums = np.cumsum(p)
        self.p, self._sums = p, sums / sums[-1]

    def draw(self, size: int, rng: np.random.Generator) -> Any:
        return self._sums.searchsorted(rng.random(size), side="right")


class _OfForm(Sampler):
    """Losses x'Bx + b'x, with exact draws for given B and b."""

    actions: Any
    _form = None

    def __init__(self, actions: Any) -> None:
        self.actions = actions

    def follow(self, potential: Any, rng: np.random.Generator | None = None) -> None:
        self._form = None if potential is None else potential.quadratic_form()

    def draw(self, size: int, rng: np.random.Generator) -> Any:
        if self._form is None:
            return self.actions.sample(size, rng)
        matrix, vector = self._form
        return self._draw(matrix, vector, size, rng)

    @abc.abstractmethod
    def _draw(self, matrix: Any, vector: Any, size: int, rng: np.random.Generator) -> Any: ...


@kept
class OnBall(_OfForm):
    """Linear and quadratic losses on the ball: exact draws by rejection (theory B6)."""

    method = "quadratic_ball"
    sampler: QuadraticBall
    acceptance: float = 1.0

    def __init__(self, ball: Ball) -> None:
        super().__init__(ball)
        self.sampler = QuadraticBall()

    def _draw(self, matrix: Any, vector: Any, size: int, rng: np.random.Generator) -> Any:
        draws = self.sampler.draw(-matrix, -vector, size, radius=self.actions.radius, rng=rng)
        self.acceptance = draws.acceptance
        return draws.points

    def facts(self) -> dict[str, Any]:
        return {"acceptance": self.acceptance}


@kept
class OnBox(_OfForm):
    """Losses whose coordinates are independent on a box: exact draws, one coordinate at a time."""

    method = "separable_box"

    def _draw(self, matrix: Any, vector: Any, size: int, rng: np.random.Generator) -> Any:
        curvature, box = -np.diagonal(matrix), self.actions
        return separable_box(curvature, -vector, box.lower, box.upper, size, rng=rng)


ENGINES: dict[tuple[Any, Any], Any] = {
    (Loss, Points): OnPoints,
    (LinearLoss, Ball): OnBall,
    (QuadraticLoss, Ball): OnBall,
    (LinearLoss, Box): OnBox,
    (QuadraticLoss, Box): hit_and_run,
    (KernelLoss, Ball): langevin,
    (KernelLoss, Box): langevin,
    (PosynomialLoss, Box): hit_and_run,
    (Loss, PositiveBall): hit_and_run,
}
"""For a family of losses on a kind of set, a sampler whose draws are exact, or the Markov chains for one loss."""


@within_floats("`loss`, `actions` and `learning_rate`")
def sample(
    loss: Loss, actions: ActionSet, learning_rate: float, size: int, *, rng: Any = None
) -> Any:
    """Draws from the density ∝ exp(-learning_rate · loss) on the actions: small losses are likely.

    Exact on points, for linear and quadratic losses on the ball, and for linear losses on a box; by Markov
    chains elsewhere, whose own functions (`hit_and_run`, `langevin`) say how well they mixed. The draws are an array of
    shape (size, d). A TypeError says where there is no engine for the pair, and lists those there are.

    Examples
    --------
    >>> import koloss as kl
    >>> loss = kl.LinearLoss([1.0, 0.0])
    >>> x = sample(loss, kl.Ball(2), 20.0, 1000, rng=0)
    >>> bool(loss(x).mean() < -0.9)
    True
    """
    eta = as_float("learning_rate", learning_rate, minimum=0.0)
    size, rng = as_count("size", size), as_generator(rng)
    engine = engine_for("sampler", ENGINES, loss, actions)
    check_dimension(loss, actions)
    if isinstance(actions, Points):
        logs = -eta * to_numpy(loss(actions.X))
        return take(actions.X, categorical(logs, size, rng=rng))
    if not isinstance(engine, type):
        return engine(loss, actions, size, learning_rate=eta, rng=rng).points
    sampler = engine(actions)
    sampler.follow(eta * loss)
    return sampler.draw(size, rng)


def sampler_for(
    kernel: Any,
    actions: ActionSet,
    *,
    particles: int = 256,
    move: Literal["hit-and-run", "diffusion"] = "hit-and-run",
) -> Sampler:
    """The sampler for sums of a kernel's losses on an action set.

    Exact on points, for linear and quadratic losses on the ball, and where the coordinates of a box are independent;
    elsewhere a population of this many particles, moved by Markov chains.

    Examples
    --------
    >>> import numpy as np
    >>> import koloss as kl
    >>> rng, sampler = np.random.default_rng(0), sampler_for(kl.Linear(), kl.Box([0.0], [1.0]))
    >>> sampler.follow(kl.LinearLoss([50.0]), rng)
    >>> sampler.method, round(float(sampler.draw(1000, rng).mean()), 2)
    ('separable_box', 0.02)
    """
    family = getattr(kernel, "loss_family", KernelLoss)
    engine = engine_of(ENGINES, family, actions)
    if isinstance(actions, Box) and actions.dimension == 1 and family is QuadraticLoss:
        engine = OnBox  # a single coordinate is independent of others
    if isinstance(engine, type):
        exact: Sampler = engine(actions)
        return exact
    return Particles(as_actions(actions), particles, move=move)


def moments_for(kernel: Any, actions: ActionSet) -> Any:
    """What gives normaliser and moments of exp(-η·loss) over the actions, for every loss of the kernel; None where nothing does."""
    exact = isinstance(actions, Ball) and type(kernel) in (Linear, Quadratic)
    return quadratic_moments if exact else None
