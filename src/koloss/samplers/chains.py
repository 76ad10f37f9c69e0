"""What the Markov chain samplers share: the density they aim at, where chains start, what a run returns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from koloss.actions import ActionSet, Ball, Box, PositiveBall
from koloss.core.arrays import as_array, as_count, as_float, as_points, to_numpy
from koloss.core.random import as_generator
from koloss.kernels import Loss, QuadraticLoss
from koloss.samplers.categorical import categorical
from koloss.samplers.diagnostics import SHORTEST, effective_size, r_hat

Compact = Ball | Box | PositiveBall

CANDIDATES = 64
"""Uniform points per chain among which its start is chosen, by their density."""


@dataclass(frozen=True)
class Target:
    """A density on an action set, as its logarithm up to a constant."""

    log_density: Callable[[Any], Any]  # (n, d) -> (n,)
    gradient: Callable[[Any], Any] | None = None  # of the log density, (n, d) -> (n, d)
    quadratic: tuple[Any, Any] | None = None  # B and b where the log density is x'Bx + b'x

    def __call__(self, X: Any) -> Any:
        """Log density at the rows of X; -inf where the density is zero, never NaN or +inf."""
        values = np.asarray(to_numpy(self.log_density(X)), dtype=np.float64)
        if values.shape != (len(X),):
            raise ValueError(
                f"`target` must give one value per row, shape {(len(X),)}, got {values.shape}"
            )
        bad = np.isnan(values) | (values == np.inf)
        if np.any(bad):
            i = int(np.argmax(bad))
            raise ValueError(
                f"`target` must be finite or -inf, got {values[i]} at {np.asarray(X)[i].tolist()}"
            )
        return values

    def slopes(self, X: Any) -> Any:
        """Gradient of the log density at the rows of X."""
        assert self.gradient is not None
        values = np.asarray(to_numpy(self.gradient(X)), dtype=np.float64)
        if values.shape != X.shape:
            raise ValueError(f"`gradient` must have the shape {X.shape}, got {values.shape}")
        return as_array("gradient", values, ndim=2)


def as_target(target: Any, learning_rate: float | None, dimension: int) -> Target:
    """Density exp(-learning_rate · loss), exp(x'Bx + b'x) of a pair, or exp(f) of a callable f."""
    is_pair = isinstance(target, tuple) and len(target) == 2
    loss = QuadraticLoss(*target) if is_pair else target
    if isinstance(loss, Loss) and loss.dimension != dimension:
        raise ValueError(f"`target` must have dimension {dimension}, got {loss.dimension}")
    if isinstance(target, Loss):
        rate = 1.0 if learning_rate is None else learning_rate
        return _of_loss(target, as_float("learning_rate", rate, minimum=0.0))
    if not is_pair and not callable(target):
        kind = type(target).__name__
        raise TypeError(
            f"`target` must be a Loss, a pair (matrix, vector) or a log density, got {kind}"
        )
    if learning_rate is not None:
        raise ValueError("`learning_rate` must be left out where `target` is not a Loss")
    if is_pair:
        return _of_loss(loss, -1.0)
    return target if isinstance(target, Target) else Target(target)


def _of_loss(loss: Loss, eta: float) -> Target:
    form = loss.quadratic_form()
    if form is None:
        return Target(lambda X: -eta * loss(X), lambda X: -eta * loss.gradient(X))
    B, b = (-eta * part.astype(np.float64) for part in form)
    return Target(lambda X: np.sum((X @ B) * X, axis=1) + X @ b, lambda X: 2 * (X @ B) + b, (B, b))


def as_actions(actions: Any) -> Compact:
    """A ball, a box or a positive ball, or an error."""
    if not isinstance(actions, Compact):
        kind = type(actions).__name__
        hint = "; use `categorical` on finite sets" if isinstance(actions, ActionSet) else ""
        raise TypeError(f"`actions` must be a Ball, a Box or a PositiveBall, got {kind}{hint}")
    return actions


@dataclass(frozen=True)
class Draws:
    """What a run of several chains returns."""

    points: Any  # (size, d): first the draws of all chains at one time, then those at the next
    chains: Any  # (chains, draws, d): the same by chain; up to one per chain more than asked for
    effective_size: Any  # (d,): bulk effective size of all chains; None below four draws per chain
    r_hat: Any  # (d,): split R-hat; None below four draws per chain
    acceptance: float = 1.0  # of proposals after the warm-up; 1 where a sampler rejects none
    step_size: float | None = None  # of samplers that have one
    jump_acceptance: float | None = None  # share of jumps to uniform points that left their place


class Run:
    """Several chains: where they start, and how they go on; `counts` are size, steps, chains and warm-up."""

    def __init__(
        self, target: Target, actions: Compact, counts: tuple[Any, ...], start: Any, rng: Any
    ) -> None:
        self.actions, self.rng = actions, as_generator(rng)
        names = ("size", "steps", "chains")
        self.size, self.steps, chains = map(as_count, names, counts)
        self.warmup = as_count("warmup", counts[3], minimum=0)
        self.start = _start_points(target, actions, chains, start, self.rng)  # (chains, d)

    def draws(self, X: Any, step: Callable[[Any], Any]) -> Draws:
        """The draws of chains that have been warmed up, with their diagnostics."""
        count, (n, d) = -(-self.size // len(X)), X.shape
        chains = np.empty((n, count, d))
        for i in range(count):
            for _ in range(self.steps):
                X = step(X)
            chains[:, i] = X
        points = np.swapaxes(chains, 0, 1).reshape(-1, d)[: self.size]
        ess = hat = None
        if count >= SHORTEST:
            free = free_coordinates(self.actions)  # what cannot move is exact
            ess, hat = np.full(d, float(n * count)), np.ones(d)
            ess[free], hat[free] = effective_size(chains[:, :, free]), r_hat(chains[:, :, free])
        return Draws(points, chains, ess, hat)


def _start_points(
    target: Target, actions: Compact, chains: int, start: Any, rng: np.random.Generator
) -> Any:
    """Where the chains begin: as given, or uniform points chosen by their density.

    The choice puts chains into every region that uniform points find, about as often as its mass deserves.
    It does not make the start a draw from the density; the warm-up is for that.
    """
    d = actions.dimension
    if start is not None:
        X = to_numpy(as_points("start", start, dimension=d)).astype(np.float64)
        if len(X) != chains:
            raise ValueError(f"`start` must have one row per chain, {chains}, got {len(X)}")
        inside = actions.contains(X)
        if not np.all(inside):
            i = int(np.argmin(inside))
            raise ValueError(f"`start` must lie in {actions!r}, got {X[i].tolist()} at {i}")
        X = actions.project(X)
        if np.any(target(X) == -np.inf):
            raise ValueError("`start` must have positive density, got a log density of -inf")
        return X
    X = actions.sample(CANDIDATES * chains, rng)
    values = target(X)
    if np.all(values == -np.inf):
        raise ValueError(
            f"`target` is -inf at all of {len(X)} uniform points; pass a `start` of positive density"
        )
    return X[categorical(values, chains, rng=rng)]


def free_coordinates(actions: Compact) -> Any:
    """Which coordinates can move: all but sides of length zero."""
    if isinstance(actions, Ball):
        return np.ones(actions.dimension, dtype=bool)
    return np.asarray(actions.upper) > np.asarray(actions.lower)
