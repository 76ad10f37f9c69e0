"""Where a family of losses meets an action set: who minimises there, and who projects."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from koloss.actions import ActionSet, Ball, Box, Points, PositiveBall
from koloss.core.arrays import as_points, to_numpy, within_floats
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
from koloss.oracles.base import Minimum, minimize_points
from koloss.oracles.convex import is_convex, minimize_convex_quadratic, minimize_linear
from koloss.oracles.geometric_program import GeometricProgram
from koloss.oracles.hull import BallHull, ConvexHull, Hull, PointsHull
from koloss.oracles.multistart import multistart
from koloss.oracles.trust_region import minimize_quadratic_ball

Engine = Callable[..., Minimum]


@within_floats("`loss` and `actions`")
def minimize(
    loss: Loss, actions: ActionSet, *, starts: Any = None, near: Any = None, rng: Any = None
) -> Minimum:
    """Action of smallest loss, with its certificate. Smaller is better.

    Proved on points, for linear losses, for quadratic losses on the ball and convex ones elsewhere, and for posynomials
    with non-negative coefficients; `certificate` says so, and `gap` how far the value can be above the minimum. Other
    pairs are searched from many starts: "local only". A TypeError says where there is no oracle for the pair, and lists
    those there are.

    Parameters
    ----------
    starts : int or array of shape (n, d), optional
        For the search: how many starts at most, or the starts themselves.
    near : array of shape (d,), optional
        A guess, such as the answer for a similar loss: it only makes geometric programs quicker. By default the first
        of given starts.
    rng : seed or Generator, optional
        For the search.

    Examples
    --------
    >>> import koloss as kl
    >>> best = minimize(kl.LinearLoss([3.0, 4.0]), kl.Ball(2))
    >>> best.point.round(9).tolist(), round(best.value, 9), best.certificate
    ([-0.6, -0.8], -5.0, 'dual')
    """
    engine = engine_for("oracle", ENGINES, loss, actions)
    if not isinstance(actions, Points):
        # An expansion in a linear, quadratic or posynomial kernel is a loss of that family.
        special = loss.own_form()
        better = engine_of(ENGINES, type(special), actions)
        if better is not None:
            loss, engine = special, better
    check_dimension(loss, actions)
    best: Minimum = engine(loss, actions, starts=starts, near=near, rng=rng)
    return best


def _quadratic_ball(loss: QuadraticLoss, actions: Ball, **_: Any) -> Minimum:
    matrix, vector = to_numpy(loss.matrix), to_numpy(loss.vector)
    return minimize_quadratic_ball(matrix, vector, radius=actions.radius)


def _quadratic(loss: QuadraticLoss, actions: Any, **search: Any) -> Minimum:
    if is_convex(loss):
        return minimize_convex_quadratic(loss, actions)
    return _search(loss, actions, **search)


def _posynomial(
    loss: PosynomialLoss, actions: Any, *, starts: Any, near: Any, **search: Any
) -> Minimum:
    if not loss.is_posynomial or min(actions.lower) < 0:
        return multistart(loss, actions, starts=starts, **search)
    if near is None and starts is not None and not isinstance(starts, (int, np.integer)):
        near = as_points("starts", starts, dimension=actions.dimension)[0, ...]
    return _program(loss.kernel, actions).minimize(loss.coefficients, start=near)


@lru_cache(maxsize=8)
def _program(kernel: Any, actions: Any) -> GeometricProgram:
    """Set up once, solved again in every round of a game."""
    return GeometricProgram(kernel, actions)


def _search(loss: Loss, actions: Any, *, starts: Any, rng: Any, **_: Any) -> Minimum:
    return multistart(loss, actions, starts=starts, rng=rng)


ENGINES: dict[tuple[Any, Any], Engine] = {
    (Loss, Points): minimize_points,
    (LinearLoss, Ball): minimize_linear,
    (LinearLoss, Box): minimize_linear,
    (LinearLoss, PositiveBall): minimize_linear,
    (QuadraticLoss, Ball): _quadratic_ball,
    (QuadraticLoss, Box): _quadratic,
    (QuadraticLoss, PositiveBall): _quadratic,
    (PosynomialLoss, Box): _posynomial,
    (PosynomialLoss, PositiveBall): _posynomial,
    (KernelLoss, Ball): _search,
    (KernelLoss, Box): _search,
    (KernelLoss, PositiveBall): _search,
}


def projection_for(kernel: Any, actions: ActionSet) -> Hull:
    """The convex hull of the features of an action set, onto which one can project; TypeError where none is tractable."""
    if isinstance(actions, Points):
        return PointsHull(kernel, actions)
    if isinstance(kernel, Linear):
        return ConvexHull(actions)
    if isinstance(kernel, Quadratic) and isinstance(actions, Ball):
        return BallHull(actions.dimension, actions.radius)
    raise TypeError(
        f"no tractable projection onto the hull of the features of {kernel!r} on {actions!r}: there are any kernel on "
        "Points, Quadratic on a Ball and Linear on convex sets; use actions.net(spacing) for points, or "
        "ConditionalGradient, which needs no projection"
    )
