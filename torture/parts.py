"""What learners are made of, at the ends of its range: kernels, losses, action sets, proxies, designs, samplers, oracles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import koloss as kl
from torture.extremes import (
    FLOATS,
    INTS,
    MAGNITUDES,
    actions_of,
    any_actions,
    any_kernel,
    called,
    kernel_of,
    light,
    pick,
    point_sets,
    short,
    tried,
    waits,
)
from torture.trials import Cases, trial


@trial("kernels and losses: values, gradients, norms, sums", quick=30, full=250)
def kernels(rng: np.random.Generator) -> Cases:
    for _ in range(10):
        parts, X, factor = any_kernel(rng), pick(rng, point_sets(rng)), pick(rng, FLOATS)

        label = f"{short(parts)} on {short(X)} times {short(factor)}"
        yield tried(label, _values, parts, X, factor)


def _values(parts: Any, X: Any, factor: Any) -> Any:
    kernel = kernel_of(parts)
    gram, diagonal = kernel(X), kernel.diag(X)
    center = np.asarray(X, dtype=float)[0]
    loss = kernel.embed(center) * factor
    ball = kl.Ball(len(center), 2.0)
    seen = [gram, diagonal, loss(X), loss.norm(), (loss + loss - loss).norm()]
    if "Posynomial" not in parts[0]:
        seen += [kernel.bound(ball), kernel.modulus(0.5, ball)]
    return [*seen, loss.gradient(X) if parts[0] != "Matern" else 0.0]


@trial("action sets: nets, projections, samples, membership", quick=30, full=250)
def action_sets(rng: np.random.Generator) -> Cases:
    for _ in range(10):
        kinds, spacing = any_actions(rng), pick(rng, FLOATS)
        size, far = pick(rng, [v for v in INTS if not waits(v)]), float(rng.choice(MAGNITUDES))

        yield tried(
            f"{short(kinds)}, spacing {short(spacing)}, size {short(size)}, {far}",
            _places,
            kinds,
            spacing,
            size,
            far,
        )


def _places(kinds: Any, spacing: Any, size: Any, far: float) -> Any:
    actions = actions_of(kinds)
    d = actions.dimension
    low, high = actions.bounds()
    inside = actions.contains(np.full((2, d), far)), actions.contains(low[None])
    seen = [low, high, actions.diameter(), actions.norm_bound(), *inside]
    if hasattr(actions, "project"):
        seen.append(actions.project(np.full((1, d), far)))
    if d < 10**4:
        seen.append(actions.sample(size, rng=np.random.default_rng(0)))
    return [*seen, actions.net(spacing, max_bytes=10**6)]


@trial("proxies, spectra and designs", quick=12, full=150)
def proxies(rng: np.random.Generator) -> Cases:
    functions = [
        "kernel_pca",
        "pivoted_cholesky",
        "exact_features",
        "mercer_features",
        "eigendecay",
    ]
    designs = [kl.john_design, kl.barycentric_spanner, kl.uniform_design]
    for _ in range(6):
        kinds, parts, name = any_actions(rng), any_kernel(rng), pick(rng, functions)
        if rng.random() < 0.3:
            parts = ("Gaussian", float(10 ** rng.uniform(-3, 3)))
        parts = light(kinds, parts)
        options = {"rank": INTS, "tolerance": FLOATS, "samples": INTS, "spacing": FLOATS}
        options |= {"count": INTS, "scale": FLOATS, "center": FLOATS, "max_bytes": INTS}
        known = {
            "kernel_pca": ("rank", "tolerance", "samples", "spacing", "max_bytes"),
            "pivoted_cholesky": ("rank", "tolerance", "spacing", "max_bytes"),
            "exact_features": ("spacing", "max_bytes"),
            "mercer_features": ("rank", "tolerance", "scale", "center", "spacing", "max_bytes"),
            "eigendecay": ("samples", "count", "spacing"),
        }[name]
        given = {}
        if rng.random() < 0.7:
            key = pick(rng, list(known))
            given[key] = pick(rng, options[key])
        given = {k: v for k, v in given.items() if k == "max_bytes" or not waits(v)}
        design = pick(rng, designs)

        label = called(name, {"kernel": parts, "actions": kinds, **given})
        yield tried(f"{label}, {design.__name__}", _proxy, name, parts, kinds, given, design)


def _proxy(name: str, parts: Any, kinds: Any, given: dict[str, Any], design: Any) -> Any:
    made = getattr(kl, name)(kernel_of(parts), actions_of(kinds), **given)
    if not isinstance(made, kl.Proxy):
        return [made, made.describe(1, 0.1) and 0.0]
    found = design(made)
    white = kl.whiten(made, found)
    return [made, made(made.points.X[:2]), found, white.features]


@trial("designs of features that are huge, tiny or dependent", quick=20, full=150)
def designs(rng: np.random.Generator) -> Cases:
    for _ in range(8):
        features = pick(rng, point_sets(rng))
        moderate = isinstance(features, np.ndarray) and features.size > 0
        if moderate and float(np.abs(features).max()) < 1e300:
            features = features * rng.choice([1e-6, 1.0, 1e6], size=features.shape[1])
        make = pick(rng, [kl.john_design, kl.barycentric_spanner, kl.uniform_design])
        options: dict[str, Any] = {}
        if rng.random() < 0.4 and make is kl.john_design:
            key = pick(rng, ["tolerance", "max_rounds"])
            options[key] = pick(rng, FLOATS if key == "tolerance" else INTS)
        elif rng.random() < 0.4 and make is kl.barycentric_spanner:
            options["approximation"] = pick(rng, FLOATS)
        options = {k: v for k, v in options.items() if not waits(v)}

        yield tried(
            f"{make.__name__}({short(features)}, {called('', options)})",
            _design,
            make,
            features,
            options,
        )


def _design(make: Any, features: Any, options: dict[str, Any]) -> Any:
    design = make(features, **options)
    return [design, kl.whiten(features, design).features]


@trial("samplers and oracles", quick=30, full=250)
def samplers(rng: np.random.Generator) -> Cases:
    for _ in range(8):
        d = int(rng.choice([1, 2, 5]))
        size, second = pick(rng, FLOATS), pick(rng, FLOATS)
        A = rng.standard_normal((d, d))
        A, b = (A + A.T) / 2, rng.standard_normal(d)
        name = pick(rng, list(PARTS))
        count = pick(rng, [1, 2, 5, *(v for v in INTS if not waits(v))])
        which = int(rng.integers(3))

        factor = size if isinstance(size, float) and abs(size) < 1e307 else 1.0
        matrix, vector = (A * factor if which == 1 else A), (b * factor if which == 2 else b)

        label = (
            f"{name}, d {d}, size {short(size)} ({which}), second {short(second)}, {short(count)}"
        )
        yield tried(label, PARTS[name], _Part(matrix, vector, second, count, d))


class _Part(NamedTuple):
    matrix: Any
    vector: Any
    size: Any
    count: Any
    d: int

    @property
    def box(self) -> Any:
        return kl.Box([0.0] * self.d, [self.size] * self.d)

    @property
    def quadratic(self) -> Any:
        return kl.QuadraticLoss(self.matrix, self.vector)


def _chains(function: Callable[..., Any]) -> Callable[[_Part], Any]:
    def act(p: _Part) -> Any:
        short_run = {"chains": 4, "steps": 2, "warmup": 5, "rng": 1, "learning_rate": p.size}
        count = min(p.count, 50) if isinstance(p.count, int) else p.count
        return function(p.quadratic, kl.Ball(p.d), count, **short_run).points

    return act


def _minimum(loss: Any, actions: Any) -> Any:
    least = kl.oracles.minimize(loss, actions, rng=1)
    return [least.point, least.value]


def _on_the_ball(p: _Part) -> Any:
    least = kl.oracles.minimize_quadratic_ball(p.matrix, p.vector, radius=p.size)
    return [least.point, least.value]


def _posynomial(p: _Part) -> Any:
    loss = kl.PosynomialLoss(kl.Posynomial(p.matrix), np.abs(p.vector))
    return _minimum(loss, kl.PositiveBall(p.d, p.size, 0.1))


def _separable(p: _Part) -> Any:
    ends = [0.0] * p.d, [p.size] * p.d
    return kl.samplers.separable_box(np.diag(p.matrix), p.vector, *ends, p.count, rng=1)


def _sample(loss: Any, actions: Any, rate: Any, count: Any) -> Any:
    return kl.samplers.sample(loss, actions, rate, count, rng=1)


PARTS: dict[str, Callable[[_Part], Any]] = {
    "quadratic_ball": lambda p: kl.samplers.quadratic_ball(
        p.matrix, p.vector, p.count, radius=p.size, rng=1
    ),
    "quadratic_moments": lambda p: (
        kl.samplers.quadratic_moments(p.matrix, p.vector, radius=p.size).mean
    ),
    "minimize_quadratic_ball": _on_the_ball,
    "sample, linear on a box": lambda p: _sample(
        kl.LinearLoss(p.vector), kl.Box([0.0] * p.d, [1.0] * p.d), p.size, p.count
    ),
    "sample, quadratic on a ball": lambda p: _sample(
        p.quadratic, kl.Ball(p.d, p.size), 1.0, p.count
    ),
    "hit_and_run": _chains(kl.samplers.hit_and_run),
    "langevin": _chains(kl.samplers.langevin),
    "categorical": lambda p: kl.samplers.categorical(p.vector, p.count, rng=1),
    "separable_box": _separable,
    "minimize, linear on a ball": lambda p: _minimum(kl.LinearLoss(p.vector), kl.Ball(p.d, p.size)),
    "minimize, quadratic on a box": lambda p: _minimum(p.quadratic, p.box),
    "minimize, Gaussian on a ball": lambda p: _minimum(
        kl.Gaussian(p.size).embed(p.matrix, p.vector), kl.Ball(p.d)
    ),
    "minimize, posynomial": _posynomial,
}
