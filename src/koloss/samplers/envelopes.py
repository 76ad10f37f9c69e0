"""Envelopes of exp(Σ λ_i x_i² + β_i x_i) on the sphere, under which `quadratic_ball` rejects.

- *angular* (theory E1): symmetrise x → -x, bound log cosh by a tangent and the rest by an angular central Gaussian;
- *tilted* (theory E2, and its extension to whole eigenspaces): leave out an eigenspace of dimension k ≥ 2. Its
  coordinates are √w times a direction, where w = 1 - |y|² for the others, y. Averaged over directions the density
  of y is at most a Gaussian; the direction is then von Mises-Fisher;
- *split* (theory E3): the same for a simple top eigenvalue, k = 1, where w^(-1/2) has a pole: the Gaussian where
  w is large, an angular envelope where it is small.

Every envelope is exact, whatever its parameters; they are chosen to make its mass small, and the masses, which
are in closed form relative to the same unknown constant, choose between the envelopes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special
from scipy.optimize import minimize_scalar

CLUSTER = 1e-10
"""Eigenvalues closer than this, relative to the largest, are one eigenspace; the rest is rejected exactly."""


@dataclass(frozen=True)
class Sphere:
    """exp(Σ λ_i x_i² + β_i x_i) on the unit sphere of ℝ^p, eigenvalues in decreasing order."""

    values: Any  # λ
    linear: Any  # β

    @property
    def p(self) -> int:
        return len(self.values)

    def bent(self, t: float) -> Any:
        """Q = diag(λ) + tββ'."""
        return np.diag(self.values) + t * np.outer(self.linear, self.linear)


def _log_cosh(u: Any) -> Any:
    u = np.abs(u)
    return u + np.log1p(np.exp(-2 * u)) - math.log(2)


# The angular envelope.


@dataclass(frozen=True)
class Angular:
    """Envelope E1 of a Fisher-Bingham density, symmetrised.

    log cosh u ≤ t u² + c(t) with equality at u₀, and with Q = diag(λ) + tββ' and y = x'(Λ - Q)x,
    -y ≤ -(p/2) log(2y/p) - p/2: an angular central Gaussian with matrix Λ - Q.
    """

    sphere: Sphere
    tangent: float  # u₀
    shift: float  # Λ
    values: Any  # eigenvalues of Q
    axes: Any
    log_mass: float
    name: str = "angular"

    @classmethod
    def fit(cls, sphere: Sphere, start: float | None = None) -> Angular:
        """The tangent and the shift of least mass: a convex problem in one variable, the other in closed form."""
        size = float(np.linalg.norm(sphere.linear))
        if size == 0:
            return cls._at(sphere, 0.0)

        def mass(log_u: float) -> float:
            t, c = _tangent(math.exp(log_u))
            return c + _angular_mass(np.linalg.eigvalsh(sphere.bent(t)))[0]

        top = math.log(size) + 1e-9
        low = math.log(min(size, 1.0) * 1e-3)
        if start is not None and low < math.log(max(start, 1e-300)) < top:
            near = math.log(start)
            low, top = max(low, near - 0.5), min(top, near + 0.5)
        # The mass is off by the linear part times the square of the error.
        options = {"xatol": min(1e-3, 1 / math.sqrt(size))}
        least = minimize_scalar(mass, bounds=(low, top), method="bounded", options=options)
        return cls._at(sphere, math.exp(float(least.x)))

    @classmethod
    def _at(cls, sphere: Sphere, u: float) -> Angular:
        t, c = _tangent(u)
        values, axes = np.linalg.eigh(sphere.bent(t))
        mass, shift = _angular_mass(values)
        return cls(sphere, u, shift, values, axes, c + mass)

    def sample(self, count: int, rng: Any) -> tuple[Any, Any]:
        """Points of the envelope, and the logarithms of their acceptance probabilities."""
        p, t, c = self.sphere.p, *_tangent(self.tangent)
        z = rng.standard_normal((count, p)) / np.sqrt(2 * (self.shift - self.values))
        z /= np.linalg.norm(z, axis=1, keepdims=True)
        y = z**2 @ (self.shift - self.values)
        x = z @ self.axes.T
        u = x @ self.sphere.linear
        log_ratio = _log_cosh(u) - t * u * u - c + p / 2 * np.log(2 * y / p) + p / 2 - y
        return x, log_ratio

    def propose(self, count: int, rng: Any) -> Any:
        """Exact draws: what is accepted of so many proposals."""
        x, log_ratio = self.sample(count, rng)
        return self.flip(x[np.log(rng.random(count)) < log_ratio], rng)

    def flip(self, x: Any, rng: Any) -> Any:
        """Undo the symmetrisation: x or -x with their own probabilities."""
        minus = rng.random(len(x)) < special.expit(-2 * (x @ self.sphere.linear))
        return np.where(minus[:, None], -x, x)


def _tangent(u: float) -> tuple[float, float]:
    """t and c of the tangent log cosh u ≤ t u² + c at u."""
    if u < 1e-4:
        return 0.5 - u * u / 6, u**4 / 12
    t = math.tanh(u) / (2 * u)
    return t, float(_log_cosh(u)) - t * u * u


def _angular_mass(q: Any) -> tuple[float, float]:
    """Least log-mass of the angular part, and its shift Λ: Σ 1/(2(Λ - q_i)) = 1."""
    p, top = len(q), float(np.max(q))
    gaps = top - q

    s = 0.5  # Newton from the left on a convex, decreasing function: it never overshoots
    for _ in range(50):
        inverse = 1 / (s + gaps)
        excess = 0.5 * float(np.sum(inverse)) - 1
        if excess <= 1e-12:
            break
        s += excess / (0.5 * float(np.dot(inverse, inverse)))
    shift = top + s
    mass = shift - p / 2 + p / 2 * math.log(p / 2) - 0.5 * float(np.sum(np.log(s + gaps)))
    return mass, shift


# Envelopes that leave an eigenspace out.


def log_mean(k: int, r: Any) -> Any:
    """log of the mean of exp(r ω·e) over directions ω of S^(k-1)."""
    r = np.asarray(r, dtype=float)
    if k == 1:
        return _log_cosh(r)
    small = r * r < 1e-3 * k
    safe = np.where(small, 1.0, r)
    nu = k / 2 - 1
    with np.errstate(divide="ignore"):
        direct = math.lgamma(k / 2) + nu * np.log(2 / safe) + np.log(special.ive(nu, safe)) + safe
    series = r * r / (2 * k) - r**4 / (4 * k * k * (k + 2))
    return np.where(small | ~np.isfinite(direct), series, direct)


def log_mean_slope(k: int, size: float, w: float) -> float:
    """Derivative of log_mean(size √w) in w."""
    r = size * math.sqrt(w)
    if r * r < 1e-3 * k:
        return size * size / (2 * k) * (1 - r * r / (k * (k + 2)))
    ratio = math.tanh(r) if k == 1 else float(special.ive(k / 2, r) / special.ive(k / 2 - 1, r))
    return size * ratio / (2 * math.sqrt(w))


@dataclass(frozen=True)
class Tilted:
    """Envelope that leaves out an eigenspace of dimension k: Gaussian in the other coordinates y.

    With w = 1 - |y|², the density of y is w^((k-2)/2) exp(λ_E w + y'B'y + b'y) mean(|β_E|√w) at most, where
    `mean` is over directions in the eigenspace. Its logarithm and that of w are concave in w: both are bounded
    by their tangents at w₀, and e^(δw) ≥ 1 raises the curvature where that is not enough. For k = 1 the power of
    w has a pole; it is bounded on w ≥ w₁ only.
    """

    sphere: Sphere
    inside: Any  # mask of the eigenspace
    point: float  # w₀
    curvature: float  # Λ
    extra: float  # δ
    log_mass: float
    name: str = "tilted"

    @classmethod
    def fit(cls, sphere: Sphere, inside: Any) -> Tilted:
        """The tangent point of least mass."""

        def mass(log_w: float) -> float:
            return cls._at(sphere, inside, math.exp(log_w)).log_mass

        least = minimize_scalar(
            mass, bounds=(-25.0, 0.0), method="bounded", options={"xatol": 1e-3}
        )
        return cls._at(sphere, inside, math.exp(float(least.x)))

    @classmethod
    def _at(cls, sphere: Sphere, inside: Any, w: float) -> Tilted:
        k, size, top = _eigenspace(sphere, inside)
        values, linear = sphere.values[~inside], sphere.linear[~inside]
        base = top + log_mean_slope(k, size, w) + (max(k - 2, 0) / (2 * w))

        # Where E|y|² > 1 at the least curvature, raise it until E|y|² = 1: Newton from the left again, starting
        # where the largest term alone is at least 1.
        largest = int(np.argmax(values))
        first = 0.5 * abs(float(linear[largest]))
        alone = float(values[largest]) + 0.25 + math.sqrt(0.25 * 0.25 + first * first)
        curvature = max(base, alone)
        if base > values[largest] and _spread(values, linear, base)[0] <= 1:
            curvature = base
        else:
            for _ in range(100):
                spread, slope = _spread(values, linear, curvature)
                if spread <= 1 + 1e-12:
                    break
                curvature += (spread - 1) / slope
        gap = curvature - values
        constant = float(log_mean(k, size * math.sqrt(w))) - log_mean_slope(k, size, w) * w
        if k > 2:
            constant += (k - 2) / 2 * (math.log(w) - 1)
        p = sphere.p
        log_norm = (p - k) / 2 * math.log(math.pi) + math.lgamma(k / 2) - math.lgamma(p / 2)
        log_mass = (
            constant
            + curvature
            + 0.25 * float(np.sum(linear**2 / gap))
            + (p - k) / 2 * math.log(math.pi)
            - 0.5 * float(np.sum(np.log(gap)))
            - log_norm
        )
        return cls(sphere, inside, w, curvature, curvature - base, log_mass)

    def sample(self, count: int, rng: Any) -> tuple[Any, Any, Any]:
        """y and w of the envelope, and the logarithms of their acceptance probabilities (-inf outside)."""
        k, size, _ = _eigenspace(self.sphere, self.inside)
        gap = self.curvature - self.sphere.values[~self.inside]
        linear = self.sphere.linear[~self.inside]
        y = 0.5 * linear / gap + rng.standard_normal((count, len(gap))) / np.sqrt(2 * gap)
        w = 1 - np.sum(y * y, axis=1)
        safe = np.where(w > 0, w, 1.0)
        slope = log_mean_slope(k, size, self.point)
        log_ratio = log_mean(k, size * np.sqrt(safe)) - log_mean(k, size * math.sqrt(self.point))
        log_ratio = log_ratio - slope * (safe - self.point) - self.extra * safe
        if k > 2:
            relative = safe / self.point
            log_ratio = log_ratio + (k - 2) / 2 * (np.log(relative) - relative + 1)
        return y, w, np.where(w > 0, log_ratio, -np.inf)

    def complete(self, y: Any, w: Any, rng: Any) -> Any:
        """Points of the sphere: a direction in the eigenspace for each y; exact also where it is only nearly one."""
        _, size, top = _eigenspace(self.sphere, self.inside)
        x = np.empty((len(y), self.sphere.p))
        x[:, ~self.inside] = y
        mean = self.sphere.linear[self.inside]
        directions = von_mises_fisher(mean / size if size > 0 else mean, size * np.sqrt(w), rng)
        x[:, self.inside] = np.sqrt(w)[:, None] * directions
        spread = (x[:, self.inside] ** 2) @ (self.sphere.values[self.inside] - top)
        return x[np.log(rng.random(len(x))) < spread] if np.any(spread < 0) else x

    def propose(self, count: int, rng: Any) -> Any:
        """Exact draws: what is accepted of so many proposals."""
        y, w, log_ratio = self.sample(count, rng)
        keep = np.log(rng.random(count)) < log_ratio
        return self.complete(y[keep], w[keep], rng)


def _spread(values: Any, linear: Any, curvature: float) -> tuple[float, float]:
    """E|y|² under a Gaussian envelope, and minus its derivative in the curvature."""
    inverse = 1 / (curvature - values)
    mean = 0.5 * linear * inverse
    slope = float(np.dot(inverse, 0.5 * inverse + 2 * mean * mean))
    return float(0.5 * np.sum(inverse) + np.dot(mean, mean)), slope


def _eigenspace(sphere: Sphere, inside: Any) -> tuple[int, float, float]:
    """Dimension, length of the linear part, and largest eigenvalue of an eigenspace."""
    size = float(np.linalg.norm(sphere.linear[inside]))
    return int(inside.sum()), size, float(sphere.values[inside].max())


def cluster(values: Any, around: float) -> Any:
    """Mask of the eigenvalues that are as good as equal to one."""
    return np.abs(values - around) <= CLUSTER * max(1.0, float(np.max(np.abs(values))))


def tilted_envelopes(sphere: Sphere) -> list[Tilted]:
    """Envelopes without the eigenspace of zero (the padding), and without the top one where it is not simple."""
    masks = [cluster(sphere.values, around) for around in {0.0, float(sphere.values[0])}]
    return [Tilted.fit(sphere, inside) for inside in masks if 2 <= inside.sum() < sphere.p]


@dataclass(frozen=True)
class Split:
    """Envelope E3 for a simple top eigenvalue: tilted where w = x₁² ≥ w₁, angular where it is less."""

    tilted: Tilted
    angular: Angular
    border: float  # w₁
    push: float  # δ
    weight: float  # of the tilted part
    log_mass: float
    name: str = "split"

    @classmethod
    def fit(cls, sphere: Sphere) -> Any:
        """Border and push of least mass on a grid; any values are valid."""
        inside = cluster(sphere.values, float(sphere.values[0]))
        if inside.sum() != 1:
            return Tilted.fit(sphere, inside) if inside.sum() < sphere.p else Angular.fit(sphere)
        tilted = Tilted.fit(sphere, inside)
        size = float(np.linalg.norm(sphere.linear))
        reach = 2 * (sphere.values[0] - sphere.values[-1] + size + 1)
        pushes = np.append(0.0, np.geomspace(0.5, reach, 14))
        angulars: list[Angular] = []
        for push in pushes:  # each starts where the one before ended
            start = angulars[-1].tangent if angulars else None
            pushed = np.where(
                inside, sphere.values - float(push), sphere.values
            )  # exp(-push · x₁²)
            angulars.append(Angular.fit(Sphere(pushed, sphere.linear), start))
        masses = np.array([a.log_mass for a in angulars])
        borders = np.geomspace(1e-9, 1.0, 80)
        low = tilted.log_mass - 0.5 * np.log(borders)
        high = np.min(masses + np.outer(borders, pushes), axis=1)
        total = np.logaddexp(low, high)
        best = int(np.argmin(total))
        border = float(borders[best])
        chosen = int(np.argmin(masses + border * pushes))
        push, weight = float(pushes[chosen]), math.exp(low[best] - total[best])
        return cls(tilted, angulars[chosen], border, push, weight, float(total[best]))

    def propose(self, count: int, rng: Any) -> Any:
        """Exact draws: what is accepted of so many proposals of the mixture."""
        first = int(rng.binomial(count, self.weight))
        y, w, log_ratio = self.tilted.sample(first, rng)
        safe = np.where(w > 0, w, 1.0)
        log_ratio = log_ratio + 0.5 * np.log(self.border / safe)
        log_ratio = np.where(w >= self.border, log_ratio, -np.inf)
        keep = np.log(rng.random(first)) < log_ratio
        outer = self.tilted.complete(y[keep], w[keep], rng)
        x, log_ratio = self.angular.sample(count - first, rng)
        w = x[:, self.tilted.inside][:, 0] ** 2
        log_ratio = np.where(w < self.border, log_ratio - self.push * (self.border - w), -np.inf)
        inner = self.angular.flip(x[np.log(rng.random(count - first)) < log_ratio], rng)
        return rng.permutation(np.concatenate([outer, inner]), axis=0)


def von_mises_fisher(mean: Any, concentration: Any, rng: Any) -> Any:
    """Directions of S^(k-1), one for each concentration, by Wood's rejection; a sign for k = 1."""
    k, n = len(mean), len(concentration)
    if k == 1:
        side = np.where(rng.random(n) < special.expit(2 * concentration), 1.0, -1.0)
        return (side * (np.sign(mean[0]) or 1.0))[:, None]
    b = (k - 1) / (2 * concentration + np.sqrt(4 * concentration**2 + (k - 1) ** 2))
    x0 = (1 - b) / (1 + b)
    c = concentration * x0 + (k - 1) * np.log1p(-(x0**2))
    along, open_ = np.empty(n), np.arange(n)
    while len(open_):
        z = rng.beta((k - 1) / 2, (k - 1) / 2, size=len(open_))
        bb = b[open_]
        t = (1 - (1 + bb) * z) / (1 - (1 - bb) * z)
        log_ratio = concentration[open_] * t + (k - 1) * np.log1p(-x0[open_] * t) - c[open_]
        keep = np.log(rng.random(len(open_))) < log_ratio
        along[open_[keep]] = t[keep]
        open_ = open_[~keep]
    across = rng.standard_normal((n, k))
    axis = mean if np.any(mean) else np.eye(k)[0]
    across -= np.outer(across @ axis, axis)
    across /= np.linalg.norm(across, axis=1, keepdims=True)
    return along[:, None] * axis + np.sqrt(np.maximum(1 - along**2, 0.0))[:, None] * across
