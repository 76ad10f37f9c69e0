"""Where the features of a game are, once it is prepared: on the host or on a device, in double precision or in single.

Single precision. φ̃ = φ + e are features like any others. A loss θ'φ + r with |r| ≤ ε is θ'φ̃ + r - θ'e, so that their error is
ε̃ = ε + max |e| max |θ|, and from θ'(Σ(π) + Λ/γ)θ ≤ (L + ε)² + b²/γ follows what |θ| can be.
"""

from __future__ import annotations

import math
from dataclasses import fields, replace

import numpy as np

from koloss.actions import Points
from koloss.core import linalg
from koloss.core.arrays import Array, is_single, namespace, to_numpy
from koloss.core.device import DeviceFeatures, on_device
from koloss.learners.bandit.device import DeviceEngine
from koloss.learners.bandit.points import PointsEngine


def on_host(actions: Points) -> Points:
    """The same actions in double precision on the host, where every game is prepared: so it is the same game."""
    radius, widths = actions.covering_radius, actions.covering_widths
    X = to_numpy(actions.X).astype(np.float64)
    return Points(X, covering_radius=radius, covering_widths=widths)


def placed(engine: PointsEngine, like: Array) -> PointsEngine:
    """The engine with features of the library, on the device and of the floating type of an array."""
    if type(engine) is not PointsEngine:
        return engine
    if is_single(like):
        engine = in_single(engine)
    if isinstance(like, np.ndarray):
        return engine
    xp = namespace(like)
    kind = xp.float32 if is_single(like) else xp.float64
    return _with(engine, on_device(engine.features, xp, like.device, kind))


def _with(engine: PointsEngine, array: Array) -> DeviceEngine:
    values = {field.name: getattr(engine, field.name) for field in fields(engine)}
    return DeviceEngine(**{**values, "features": DeviceFeatures(array)})


def in_single(engine: PointsEngine) -> PointsEngine:
    """The same game with features in single precision; what that may cost is in its ε, and in its leverage."""
    features, problem, rates = engine.features, engine.problem, engine.rates
    rounded = np.empty(features.shape, dtype=np.float32, order="F")
    off = longest = 0.0
    for block in linalg.blocks(features):
        rounded[block] = features[block]
        error = features[block] - rounded[block]
        off = max(off, math.sqrt(float(np.max(np.einsum("ij,ij->i", error, error)))))
        longest = max(longest, float(np.max(np.sum(features[block] ** 2, axis=1))))
    gamma = rates.exploration or 1.0
    support = np.flatnonzero(engine.weights)
    explored = features[support]
    A = explored.T @ (engine.weights[support, None] * explored)
    if engine.columns is not None:
        A = A + engine.columns @ engine.columns.T / gamma
    least = float(np.linalg.eigvalsh(A)[0])
    size = math.sqrt(((problem.loss_bound + problem.epsilon) ** 2 + problem.bias**2 / gamma) / least)  # fmt: skip
    # |Σ̃ - Σ| ≤ 2 |e| |φ| + |e|², so that leverages are larger by this at most.
    moved = (2 * off * math.sqrt(longest) + off**2) / least
    if moved > 0.5:
        rule = "must be in double precision: single precision does not tell their features apart"
        raise ValueError(f"`actions` {rule}, got leverages that may be off by {moved:.3g}")
    wider = (1 + off / math.sqrt(longest)) ** 2 / (1 - moved)
    problem = replace(
        problem, epsilon=problem.epsilon + off * size, leverage=problem.leverage * wider
    )
    if engine.rates.learning_rate:
        rates = replace(rates, kappa=problem.rise(rates.learning_rate, rates.exploration))
    return replace(engine, features=rounded, problem=problem, rates=rates)  # type: ignore[arg-type]
