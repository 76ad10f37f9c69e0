"""Metropolis-adjusted Langevin on balls and boxes: the paper's diffusion, corrected so that it is exact.

One step from x, for the density ∝ exp(f) on the actions, with step size h:

    y = x + h ∇f(x) + √(2h) ξ,   ξ standard normal,
    accepted with probability min(1, exp(f(y)) k(y, x) / (exp(f(x)) k(x, y))),   k(x, y) = N(y; x + h ∇f(x), 2h).

A proposal outside the actions is refused, as if exp(f) were zero there. This is the Metropolis rule for a density
on all of ℝ^d that vanishes outside, so the density is invariant up to the boundary. (Projecting the proposal
would pile up mass on the boundary. Reflecting it would be right only with the mirrored proposals in k.)

With probability `jump` a chain then chooses anew, by their densities, among its point and 16 uniform points of the
set (iterated sampling importance resampling): given all seventeen, each is the draw with probability ∝ exp(f), so
this too leaves the density invariant. It finds separated modes, which the diffusion would need exponentially
long to travel between.

The step size is shared by the chains and adapted during the warm-up only, towards the acceptance 0.574 that is
optimal in high dimension; after that it is fixed, so that the draws come from one Markov chain.

Roberts and Tweedie (1996), Exponential convergence of Langevin distributions, Bernoulli 2. Roberts and
Rosenthal (1998), Optimal scaling of discrete approximations to Langevin diffusions, JRSS B 60. Andrieu, Lee and
Vihola (2018), Uniform ergodicity of the iterated conditional SMC and geometric ergodicity of particle Gibbs
samplers, Bernoulli 24.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from koloss.actions import Ball, Box
from koloss.core.arrays import as_float, within_floats
from koloss.samplers.chains import (
    Compact,
    Draws,
    Run,
    Target,
    as_actions,
    as_target,
    free_coordinates,
)

ACCEPTANCE = 0.574
"""Acceptance that the warm-up aims at."""

CANDIDATES = 16
"""Uniform points among which a jump chooses."""


@within_floats("`target`, `actions` and `learning_rate`")
def langevin(
    target: Any,
    actions: Compact,
    size: int,
    *,
    gradient: Any = None,
    learning_rate: float | None = None,
    steps: int = 10,
    chains: int = 64,
    warmup: int = 500,
    step_size: float | None = None,
    jump: float = 0.1,
    start: Any = None,
    rng: Any = None,
) -> Draws:
    """Draws from a differentiable density on a ball or a box by Langevin proposals, many chains at once.

    Parameters
    ----------
    target, actions, size, learning_rate, steps, chains, warmup, start, rng
        As for `hit_and_run`.
    gradient : callable, optional
        Gradient of the log density, (n, d) -> (n, d); only with a callable target.
    step_size : float, optional
        h; kept as it is where it is given, else adapted during the warm-up.
    jump : float
        Probability, from 0 to 1, that a step of a chain ends with a choice among uniform points.

    Examples
    --------
    >>> import koloss as kl
    >>> loss = kl.KernelLoss(kl.Gaussian(2.0), [[4.0, 0.0], [-4.0, 0.0]], [-1.0, -1.0])
    >>> draws = langevin(loss, kl.Ball(2, 10.0), 2000, learning_rate=10.0, chains=16, rng=0)
    >>> bool((draws.points[:, 0] > 0).mean().round(1) == 0.5), bool(draws.r_hat.max() < 1.05)
    (True, True)
    """
    actions = as_actions(actions)
    goal = _with_gradient(as_target(target, learning_rate, actions.dimension), gradient, target)
    jump = as_float("jump", jump, minimum=0.0)
    if jump > 1:
        raise ValueError(f"`jump` must be at most 1, got {jump:.6g}")
    adapt = step_size is None
    if adapt and warmup == 0:
        raise ValueError("`warmup` must be positive where `step_size` is missing, got 0")
    h = first_step_size(actions) if adapt else as_float("step_size", step_size, positive=True)
    run = Run(goal, actions, (size, steps, chains, warmup), start, rng)
    move = Move(goal, actions, run.start)
    for i in range(run.warmup):
        probability = move.diffuse(h, run.rng)
        move.jump(jump, run.rng)
        if adapt:  # Robbins-Monro on log h, with steps that shrink
            h *= math.exp(2 * (i + 1) ** -0.6 * (probability - ACCEPTANCE))
    move.reset()

    def step(_: Any) -> Any:
        move.diffuse(h, run.rng)
        move.jump(jump, run.rng)
        return move.X

    draws = run.draws(move.X, step)
    draws = replace(draws, acceptance=move.acceptance, jump_acceptance=move.jump_acceptance)
    return replace(draws, step_size=h)


class Move:
    """A population X, at points of positive density, and its Langevin and uniform moves; both leave the density invariant.

    Langevin moves need the gradient of the target.
    """

    def __init__(self, target: Target, actions: Compact, X: Any) -> None:
        self.target, self.actions = target, actions
        self.free = free_coordinates(actions)
        self.X, self.values = X, target(X)
        self.slopes: Any = None if target.gradient is None else self._slopes(X)
        self.reset()

    def reset(self) -> None:
        """Forget the counts of what was accepted."""
        self._accepted, self._proposed = 0.0, 0
        self.jumps_accepted, self.jumps_proposed = 0, 0

    @property
    def acceptance(self) -> float:
        """Mean probability with which Langevin proposals were accepted."""
        return self._accepted / max(self._proposed, 1)

    @property
    def jump_acceptance(self) -> float | None:
        """Share of jumps that left their point; none without jumps."""
        return self.jumps_accepted / self.jumps_proposed if self.jumps_proposed else None

    def _slopes(self, X: Any) -> Any:
        return self.target.slopes(X) * self.free  # a side of length zero stays where it is

    def diffuse(self, h: float, rng: np.random.Generator) -> float:
        """One Langevin step of every row; returns the mean acceptance probability."""
        X, slopes = self.X, self.slopes
        noise = rng.standard_normal(X.shape) * self.free
        Y = X + h * slopes + math.sqrt(2 * h) * noise
        inside = np.flatnonzero(_inside(self.actions, Y))
        level = -rng.standard_exponential(len(X))  # log of a uniform number
        probability = 0.0
        if len(inside):
            Y = Y[inside]
            values, back = self.target(Y), self._slopes(Y)
            # log k(y, x) - log k(x, y) = |ξ|²/2 - |x - y - h ∇f(y)|² / 4h
            forward = np.sum(noise[inside] ** 2, axis=1) / 2
            backward = np.sum((X[inside] - Y - h * back) ** 2, axis=1) / (4 * h)
            ratio = values - self.values[inside] + forward - backward
            probability = float(np.sum(np.exp(np.minimum(ratio, 0.0))))
            yes = level[inside] <= ratio
            self._replace(inside[yes], Y[yes], values[yes], back[yes])
        self._accepted += probability
        self._proposed += len(X)
        return probability / len(X)

    def jump(self, share: float, rng: np.random.Generator) -> None:
        """Let each row, with probability `share`, choose anew among uniform points and itself."""
        chosen = np.flatnonzero(rng.random(len(self.X)) < share)
        if len(chosen) == 0:
            return
        Y = self.actions.sample(CANDIDATES * len(chosen), rng)
        pool = np.column_stack([self.values[chosen], self.target(Y).reshape(len(chosen), -1)])
        # The largest of log weight plus Gumbel noise is a draw by weight.
        pick = np.argmax(pool + rng.gumbel(size=pool.shape), axis=1)
        yes = np.flatnonzero(pick > 0)
        if len(yes):
            Y = Y.reshape(len(chosen), CANDIDATES, -1)[yes, pick[yes] - 1]
            slopes = None if self.slopes is None else self._slopes(Y)
            self._replace(chosen[yes], Y, pool[yes, pick[yes]], slopes)
        self.jumps_accepted += len(yes)
        self.jumps_proposed += len(chosen)

    def _replace(self, rows: Any, Y: Any, values: Any, slopes: Any) -> None:
        self.X, self.values = self.X.copy(), self.values.copy()
        self.X[rows], self.values[rows] = Y, values
        if self.slopes is not None:
            self.slopes = self.slopes.copy()
            self.slopes[rows] = slopes


def _inside(actions: Compact, Y: Any) -> Any:
    """Membership without slack: a proposal is refused or not, never moved."""
    inside = np.ones(len(Y), dtype=bool)
    if not isinstance(actions, Box):
        inside &= np.sum(Y * Y, axis=1) <= actions.radius**2
    if not isinstance(actions, Ball):
        lower, upper = np.asarray(actions.lower), np.asarray(actions.upper)
        inside &= np.all((lower <= Y) & (upper >= Y), axis=1)
    return inside


def first_step_size(actions: Compact) -> float:
    """Proposals about a tenth of the set wide; the warm-up does the rest."""
    width = actions.diameter() / math.sqrt(actions.dimension)
    return (0.1 * width) ** 2 / 2 if width > 0 else 1.0


def _with_gradient(goal: Target, gradient: Any, target: Any) -> Target:
    if gradient is not None:
        if not callable(gradient):
            raise TypeError(f"`gradient` must be callable, got {type(gradient).__name__}")
        if goal.gradient is not None:
            kind = type(target).__name__
            raise ValueError(f"`gradient` must be left out: the target, a {kind}, has its own")
        return Target(goal.log_density, gradient)
    if goal.gradient is None:
        raise ValueError("`gradient` must be given where `target` is a log density, got None")
    return goal
