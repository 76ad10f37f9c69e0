"""What learners are made of, at the ends of its range: kernels, losses, action sets, proxies, designs, samplers, oracles."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

import koloss as kl
from tests.support.fuzz import fuzzed
from tests.support.strategies import (
    FLOATS,
    INTS,
    MAGNITUDES,
    Call,
    action_sets,
    ends_well,
    few,
    floats,
    kernel_of,
    kernels,
    point_sets,
    short,
    shown,
    waits,
)

pytestmark = pytest.mark.filterwarnings("ignore::koloss.errors.KolossWarning")

MAKERS = {"john_design": {"tolerance": FLOATS, "max_rounds": INTS}, "uniform_design": {}}
MAKERS["barycentric_spanner"] = {"approximation": FLOATS}
PROXIES = {
    "kernel_pca": {"rank": INTS, "tolerance": FLOATS, "samples": INTS},
    "pivoted_cholesky": {"rank": INTS, "tolerance": FLOATS},
    "exact_features": {},
    "mercer_features": {"rank": INTS, "tolerance": FLOATS, "scale": FLOATS, "center": FLOATS},
    "eigendecay": {"samples": INTS, "count": INTS},
}


@st.composite
def calls(draw: Any, table: dict[str, dict[str, Any]], **more: Any) -> Call:
    """A function of a table, with at most one of its settings at an end of its range."""
    name = draw(st.sampled_from(list(table)))
    options = table[name] | more
    given = {}
    if options and draw(st.booleans()):
        key = draw(st.sampled_from(list(options)))
        values = [v for v in options[key] if key == "max_bytes" or not waits(v)]
        given[key] = values[draw(st.integers(0, len(values) - 1))]
    return Call(name, given)


@fuzzed(few=60, cases=2_500)
@given(kernels(), shown(point_sets()), shown(floats))
def test_kernels_and_losses(call, points, size):
    def act() -> Any:
        kernel, (X,), (factor,) = kernel_of(call), points.given, size.given
        gram, diagonal = kernel(X), kernel.diag(X)
        center = np.asarray(X, dtype=float)[0]
        loss, ball = kernel.embed(center) * factor, kl.Ball(len(center), 2.0)
        seen = [gram, diagonal, loss(X), loss.norm(), (loss + loss - loss).norm()]
        if call.name != "Posynomial":
            seen += [kernel.bound(ball), kernel.modulus(0.5, ball)]
        return [*seen, loss.gradient(X) if call.name != "Matern" else 0.0]

    ends_well(act)


@fuzzed(few=60, cases=2_500)
@given(action_sets(), shown(floats), shown(few), st.sampled_from(MAGNITUDES))
def test_action_sets(call, spacing, size, far):
    def act() -> Any:
        actions = call.make()
        d = actions.dimension
        low, high = actions.bounds()
        seen = [low, high, actions.diameter(), actions.norm_bound(), actions.contains(low[None])]
        seen.append(actions.contains(np.full((2, d), far)))
        if hasattr(actions, "project"):
            seen.append(actions.project(np.full((1, d), far)))
        if d < 10**4:
            seen.append(actions.sample(*size.given, rng=np.random.default_rng(0)))
        return [*seen, actions.net(*spacing.given, max_bytes=10**6)]

    ends_well(act)


@fuzzed(few=10, cases=700)
@given(calls(PROXIES, spacing=FLOATS, max_bytes=INTS), st.data(), st.sampled_from(list(MAKERS)))
def test_proxies_spectra_and_designs(call, data, design):
    places = data.draw(action_sets())
    parts = data.draw(kernels(places))
    options = {k: v for k, v in call.given.items() if (call.name, k) != ("eigendecay", "max_bytes")}

    def act() -> Any:
        made = getattr(kl, call.name)(kernel_of(parts), places.make(), **options)
        if not isinstance(made, kl.Proxy):
            return [made, made.describe(1, 0.1) and 0.0]
        found = getattr(kl, design)(made)
        return [made, made(made.points.X[:2]), found, kl.whiten(made, found).features]

    ends_well(act)


@fuzzed(few=40, cases=1_200)
@given(shown(point_sets()), calls(MAKERS), st.sampled_from([1.0, 1e-6, 1e6]))
def test_designs_of_features_that_are_huge_tiny_or_dependent(points, call, factor):
    (features,) = points.given
    if (
        isinstance(features, np.ndarray)
        and features.size > 0
        and float(np.abs(features).max()) < 1e300
    ):
        features = features * np.resize([1.0, factor], features.shape[1])

    def act() -> Any:
        design = call.make(features)
        return [design, kl.whiten(features, design).features]

    ends_well(act)


# Samplers and oracles.


class Part:
    """A quadratic function with a size somewhere, and how many draws are wanted of it."""

    def __init__(self, matrix: Any, vector: Any, size: Any, count: Any, d: int) -> None:
        self.matrix, self.vector, self.size, self.count, self.d = matrix, vector, size, count, d

    def __repr__(self) -> str:
        return f"{self.d} dimensions, size {short(self.size)}, {short(self.count)} draws of {short(self.matrix)}"

    @property
    def quadratic(self) -> Any:
        return kl.QuadraticLoss(self.matrix, self.vector)

    @property
    def box(self) -> Any:
        return kl.Box([0.0] * self.d, [self.size] * self.d)


@st.composite
def parts(draw: Any) -> Part:
    rng, d = np.random.default_rng(draw(st.integers(0, 9))), draw(st.sampled_from([1, 2, 5]))
    A, b = rng.standard_normal((d, d)), rng.standard_normal(d)
    size, where = draw(floats), draw(st.integers(0, 2))
    factor = size if isinstance(size, float) and abs(size) < 1e307 else 1.0
    A = (A + A.T) / 2 * (factor if where == 1 else 1.0)
    return Part(A, b * (factor if where == 2 else 1.0), draw(floats), draw(few), d)


def chains(function: Any, p: Part) -> Any:
    short_run = {"chains": 4, "steps": 2, "warmup": 5, "rng": 1, "learning_rate": p.size}
    count = min(p.count, 50) if isinstance(p.count, int) else p.count
    return function(p.quadratic, kl.Ball(p.d), count, **short_run).points


def least(loss: Any, actions: Any) -> Any:
    found = kl.oracles.minimize(loss, actions, rng=1)
    return [found.point, found.value]


def posynomial(p: Part) -> Any:
    loss = kl.PosynomialLoss(kl.Posynomial(p.matrix), np.abs(p.vector))
    return least(loss, kl.PositiveBall(p.d, p.size, 0.1))


def on_the_ball(p: Part) -> Any:
    found = kl.oracles.minimize_quadratic_ball(p.matrix, p.vector, radius=p.size)
    return [found.point, found.value]


draws = kl.samplers
FUNCTIONS: dict[str, Any] = {
    "quadratic_ball": lambda p: draws.quadratic_ball(
        p.matrix, p.vector, p.count, radius=p.size, rng=1
    ),
    "quadratic_moments": lambda p: draws.quadratic_moments(p.matrix, p.vector, radius=p.size).mean,
    "separable_box": lambda p: draws.separable_box(
        np.diag(p.matrix), p.vector, [0.0] * p.d, [p.size] * p.d, p.count, rng=1
    ),
    "categorical": lambda p: draws.categorical(p.vector, p.count, rng=1),
    "hit_and_run": lambda p: chains(draws.hit_and_run, p),
    "langevin": lambda p: chains(draws.langevin, p),
    "sample, linear on a box": lambda p: draws.sample(
        kl.LinearLoss(p.vector), kl.Box([0.0] * p.d, [1.0] * p.d), p.size, p.count, rng=1
    ),
    "sample, quadratic on a ball": lambda p: draws.sample(
        p.quadratic, kl.Ball(p.d, p.size), 1.0, p.count, rng=1
    ),
    "minimize_quadratic_ball": on_the_ball,
    "minimize, linear on a ball": lambda p: least(kl.LinearLoss(p.vector), kl.Ball(p.d, p.size)),
    "minimize, quadratic on a box": lambda p: least(p.quadratic, p.box),
    "minimize, Gaussian on a ball": lambda p: least(
        kl.Gaussian(p.size).embed(p.matrix, p.vector), kl.Ball(p.d)
    ),
    "minimize, posynomial": posynomial,
}


@pytest.mark.parametrize("name", FUNCTIONS)
@fuzzed(few=6, cases=150)
@given(parts())
def test_samplers_and_oracles(name, part):
    ends_well(FUNCTIONS[name], part)
