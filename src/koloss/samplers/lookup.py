"""One lookup: the engine for a loss family and an action set."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from koloss._arrays import as_float, as_int, to_numpy
from koloss.actions import ActionSet, Ball, Box, Points, PositiveBall
from koloss.kernels import (
    KernelLoss,
    Linear,
    LinearLoss,
    Loss,
    PosynomialLoss,
    Quadratic,
    QuadraticLoss,
)
from koloss.samplers.box import separable_box
from koloss.samplers.categorical import categorical
from koloss.samplers.hit_and_run import hit_and_run
from koloss.samplers.langevin import langevin
from koloss.samplers.quadratic_ball import quadratic_ball

Engine = Callable[[Any, Any, float, int, Any], Any]


def sample(
    loss: Loss, actions: ActionSet, learning_rate: float, size: int, *, rng: Any = None
) -> Any:
    """Draws from the density ∝ exp(-learning_rate · loss) on the actions: small losses are likely.

    Exact on points, for linear and quadratic losses on the ball, and for linear losses on a box; by Markov
    chains elsewhere, whose own functions (`hit_and_run`, `langevin`) say how well they mixed.

    Parameters
    ----------
    loss : Loss
    actions : ActionSet
    learning_rate : float
        η ≥ 0.
    size : int
    rng : seed or Generator, optional

    Returns
    -------
    array of shape (size, d)

    Raises
    ------
    TypeError
        Where there is no engine for the pair; it lists those there are.

    Examples
    --------
    >>> import koloss as kl
    >>> loss = kl.LinearLoss([1.0, 0.0])
    >>> x = sample(loss, kl.Ball(2), 20.0, 1000, rng=0)
    >>> bool(loss(x).mean() < -0.9)
    True
    """
    eta = as_float("learning_rate", learning_rate, minimum=0.0)
    size, rng = as_int("size", size, minimum=1), np.random.default_rng(rng)
    for (family, kind), engine in ENGINES.items():
        if isinstance(loss, family) and isinstance(actions, kind):
            if loss.dimension != actions.dimension:
                raise ValueError(
                    f"`loss` must have the dimension of the actions, {actions.dimension}, got {loss.dimension}"
                )
            return engine(loss, actions, eta, size, rng)
    pairs = ", ".join(f"{family.__name__} on {kind.__name__}" for family, kind in ENGINES)
    raise TypeError(
        f"no sampler for {type(loss).__name__} on {type(actions).__name__}; there are: {pairs}"
    )


def _points(loss: Loss, actions: Points, eta: float, size: int, rng: Any) -> Any:
    return actions._take(categorical(-eta * to_numpy(loss(actions.X)), size, rng=rng))


def _linear_ball(loss: LinearLoss, actions: Ball, eta: float, size: int, rng: Any) -> Any:
    d = actions.dimension
    vector = -eta * to_numpy(loss.vector)
    return quadratic_ball(np.zeros((d, d)), vector, size, radius=actions.radius, rng=rng)


def _quadratic_ball(loss: QuadraticLoss, actions: Ball, eta: float, size: int, rng: Any) -> Any:
    matrix, vector = -eta * to_numpy(loss.matrix), -eta * to_numpy(loss.vector)
    return quadratic_ball(matrix, vector, size, radius=actions.radius, rng=rng)


def _linear_box(loss: LinearLoss, actions: Box, eta: float, size: int, rng: Any) -> Any:
    slope = -eta * to_numpy(loss.vector)
    return separable_box(0 * slope, slope, actions.lower, actions.upper, size, rng=rng)


def _hit_and_run(loss: Loss, actions: Any, eta: float, size: int, rng: Any) -> Any:
    return hit_and_run(loss, actions, size, learning_rate=eta, rng=rng).points


def _langevin(loss: KernelLoss, actions: Any, eta: float, size: int, rng: Any) -> Any:
    return langevin(loss, actions, size, learning_rate=eta, rng=rng).points


ENGINES: dict[tuple[Any, Any], Engine] = {
    (Loss, Points): _points,
    (LinearLoss, Ball): _linear_ball,
    (QuadraticLoss, Ball): _quadratic_ball,
    (LinearLoss, Box): _linear_box,
    (QuadraticLoss, Box): _hit_and_run,
    (KernelLoss, Ball): _langevin,
    (KernelLoss, Box): _langevin,
    (PosynomialLoss, Box): _hit_and_run,
    (Loss, PositiveBall): _hit_and_run,
}


def moments_for(kernel: Any, actions: ActionSet) -> Any:
    """What gives normaliser and moments of exp(-η·loss) over the actions, for every loss of the kernel; None where nothing does."""
    if isinstance(actions, Ball) and type(kernel) in (Linear, Quadratic):
        from koloss.samplers.quadratic_moments import quadratic_moments

        return quadratic_moments
    return None
