"""Exactness of draws from exp(x'Bx + b'x) on the ball.

In one to three dimensions: Kolmogorov-Smirnov tests of projections against quadrature, for every envelope. In more:
identities that hold for this density alone (integration by parts with a field that vanishes on the boundary). That
long Markov chains leave the draws as they are is tested with hit-and-run. The level of all tests together is 10⁻⁵, split
evenly; seeds are fixed. Negative controls: the paper's own sampler, and envelopes with a factor left out.
"""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest
from scipy import stats

from koloss.samplers.envelopes import (
    Angular,
    Sphere,
    Split,
    Tilted,
    cluster,
    log_mean,
    log_mean_slope,
    von_mises_fisher,
)
from koloss.samplers.quadratic_ball import QuadraticBall, quadratic_ball
from tests.support.densities import FAMILIES, hostile
from tests.support.statistics import agrees, by_law, by_laws, by_mean, differs

SIZE = 10_000


def families(d):
    """B in its eigenbasis and b, by name."""
    rng = np.random.default_rng(d)
    b = rng.normal(size=d)
    across = np.append(0.0, b[1:]) if d > 1 else np.zeros(1)
    falling = np.linspace(8.0, -6.0, d)
    repeated = np.where(np.arange(d) < 2, 9.0, -4.0)
    return {
        "B = 0": (np.zeros(d), 3 * b),
        "b = 0": (falling, np.zeros(d)),
        "both zero": (np.zeros(d), np.zeros(d)),
        "definite": (falling + 7, b),
        "negative": (falling - 9, 4 * b),
        "indefinite": (3 * falling, 5 * b),
        "hard case": (4 * falling, 10 * across),
        "near the hard case": (4 * falling, 10 * across + 0.5 * np.eye(d)[0]),
        "interior mode": (-np.full(d, 30.0), 25 * b / np.linalg.norm(b)),
        "repeated top": (repeated, 3 * b),
        "repeated top, b outside": (repeated, 6 * np.where(np.arange(d) < 2, 0.0, b)),
        "large": (60 * falling, 200 * b),
    }


def sphere_of(values, linear):
    """The padded density on the sphere, eigenvalues in decreasing order, and where each coordinate went."""
    values, linear = np.append(values, [0.0, 0.0]), np.append(linear, [0.0, 0.0])
    order = np.argsort(-values, kind="stable")
    return Sphere(values[order], linear[order]), order


def envelopes(values, linear):
    """Every envelope there is for a density."""
    sphere, order = sphere_of(values, linear)
    fitted = {"angular": Angular.fit(sphere)}
    for name, around in (("zero", 0.0), ("top", sphere.values[0])):
        inside = cluster(sphere.values, around)
        if 2 <= inside.sum() < sphere.p:
            fitted[f"tilted, {name}"] = Tilted.fit(sphere, inside)
    if sphere.values[0] > 0 and cluster(sphere.values, sphere.values[0]).sum() == 1:
        fitted["split"] = Split.fit(sphere)
    return fitted, order


def draw(envelope, order, size, rng):
    """Draws from one envelope, in the coordinates of the ball."""
    x = envelope.propose(size, rng)
    while len(x) < size:
        x = np.concatenate([x, envelope.propose(size, rng)])
    x = x[:size]
    plain = np.empty_like(x)
    plain[:, order] = x
    return plain[:, :-2]


def projection_cdf(values, linear, direction, fine=1):
    """Distribution function of direction·x, by Gauss-Legendre quadrature over the slices of the ball."""
    d = len(values)
    # Dense at the ends, where large densities sit.
    grid = -np.cos(np.linspace(0, math.pi, 200 * fine + 1 if d == 3 else 1001))
    basis = np.linalg.svd(direction[None, :])[2]
    basis[0] = direction
    nodes, weights = np.polynomial.legendre.leggauss(60)
    if d == 1:
        offsets, area = np.zeros((1, 0)), np.ones(1)
    elif d == 2:
        offsets, area = nodes[:, None], weights
    else:
        nodes, weights = np.polynomial.legendre.leggauss(50 * fine)
        count = 100 * fine
        radius, angle = (nodes + 1) / 2, np.arange(count) * 2 * math.pi / count
        circle = np.cos(angle), np.sin(angle)
        offsets = np.stack([np.outer(radius, side).ravel() for side in circle], axis=1)
        area = np.repeat(weights / 2 * radius, count) * 2 * math.pi / count
    half = np.sqrt(np.maximum(1 - grid**2, 0.0))
    # At t along the direction and h·o across it, the log density is t²M₀₀ + tl₀ + h(t·cross + along) + h²·across.
    M, slopes = basis * values @ basis.T, basis @ linear
    cross, along = 2 * offsets @ M[1:, 0], offsets @ slopes[1:]
    across = np.sum(offsets @ M[1:, 1:] * offsets, axis=1)
    density, peaks = np.empty(len(grid)), np.empty(len(grid))
    for k, (t, h) in enumerate(zip(grid, half, strict=True)):
        logs = h * (t * cross + along) + h**2 * across
        peaks[k] = logs.max()
        density[k] = np.exp(logs - peaks[k]) @ area * h ** (d - 1)
    peaks += grid**2 * M[0, 0] + grid * slopes[0]
    density *= np.exp(peaks - peaks.max())
    cumulative = np.append(0.0, np.cumsum((density[1:] + density[:-1]) / 2 * np.diff(grid)))
    return lambda t: np.interp(t, grid, cumulative / cumulative[-1])


def directions(d):
    directions = [np.eye(d)[0]]
    if d > 1:
        directions += [np.eye(d)[-1], np.ones(d) / math.sqrt(d)]
    return directions


@pytest.mark.slow
@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("family", families(2))
def test_every_envelope_against_quadrature(d, family, rng):
    values, linear = families(d)[family]
    fitted, order = envelopes(values, linear)
    fine = 2 if family == "large" else 1  # otherwise off by 1e-3 at most, of 2e-2 that are seen
    tests = [(u, projection_cdf(values, linear, u, fine)) for u in directions(d)]
    for name, envelope in fitted.items():
        x = draw(envelope, order, SIZE, rng)
        assert np.all(np.sum(x**2, axis=1) <= 1 + 1e-12)
        for u, cdf in tests:
            assert agrees(by_law(x @ u, cdf)), (name, u)


def by_parts(x, values, linear):
    """z-scores of E[(1 - |x|²)(div v + v·∇log f) - 2x·v] = 0 for v = e_i, x and x_i x."""
    inside, gradient = 1 - np.sum(x**2, axis=1), 2 * x * values + linear
    terms = [inside * gradient[:, i] - 2 * x[:, i] for i in range(x.shape[1])]
    radial = np.sum(x * gradient, axis=1)
    squares = 1 - inside
    terms.append(inside * (x.shape[1] + radial) - 2 * squares)
    terms += [
        inside * (x[:, i] * (x.shape[1] + 1 + radial)) - 2 * x[:, i] * squares
        for i in range(x.shape[1])
    ]
    return by_mean(np.stack(terms, axis=1), 0.0)


@pytest.mark.slow
@pytest.mark.parametrize("d", [10, 30])
@pytest.mark.parametrize("family", families(2))
def test_integration_by_parts_in_many_dimensions(d, family, rng):
    values, linear = families(d)[family]
    fitted, order = envelopes(values, linear)
    for name, envelope in fitted.items():
        if math.exp(min(fitted[k].log_mass for k in fitted) - envelope.log_mass) < 1e-3:
            continue  # too many rejections to test
        x = draw(envelope, order, SIZE, rng)
        assert agrees(by_parts(x, values, linear)), name


def test_integration_by_parts_notices_a_wrong_density(rng):
    values, linear = families(10)["indefinite"]
    fitted, order = envelopes(values, linear)
    x = draw(fitted["angular"], order, SIZE, rng)
    assert differs(by_parts(x, values, 1.5 * linear))


def paper_sampler(lam, b, size, rng):
    """The sampler of the paper's lemma in one dimension, as printed."""
    c = b / (2 * lam)
    low, high = max(c - 1, 0.0) ** 2 if c >= 0 else 0.0, (1 + c) ** 2
    u = rng.random(size)
    beta = np.log(np.exp(lam * low) + u * (np.exp(lam * high) - np.exp(lam * low))) / lam
    return rng.choice([-1.0, 1.0], size=size) * (np.sqrt(beta) - c)


def test_negative_control_the_papers_sampler_fails(rng):
    for lam, b in ((1.0, 0.0), (1.0, 1.0)):
        cdf = projection_cdf(np.array([lam]), np.array([b]), np.ones(1))
        assert differs(by_law(paper_sampler(lam, b, SIZE, rng), cdf))
        ours = quadratic_ball([[lam]], [b], SIZE, rng=rng)[:, 0]
        assert agrees(by_law(ours, cdf))


def test_negative_control_a_factor_left_out_fails(rng):
    # Any border and push are valid; without the push's factor in the acceptance the draws are wrong.
    values, linear = np.array([1.5, -1.0]), np.array([0.3, 0.5])
    sphere, order = sphere_of(values, linear)
    inside = cluster(sphere.values, sphere.values[0])
    pushed = Sphere(np.where(inside, sphere.values - 8.0, sphere.values), sphere.linear)
    tilted, angular = Tilted.fit(sphere, inside), Angular.fit(pushed)
    low, high = tilted.log_mass - 0.5 * math.log(0.4), angular.log_mass + 8.0 * 0.4
    weight = 1 / (1 + math.exp(high - low))
    tests = [(u, projection_cdf(values, linear, u)) for u in directions(2)]
    smallest = {}
    for push in (8.0, 0.0):
        split = Split(tilted, angular, 0.4, push, weight, float(np.logaddexp(low, high)))
        x = draw(split, order, SIZE, rng)
        smallest[push] = min(by_law(x @ u, cdf) for u, cdf in tests)
    assert agrees(smallest[8.0])
    assert differs(smallest[0.0])


def test_rotations_reflections_and_radii(rng):
    values, linear = families(5)["indefinite"]
    turn, _ = np.linalg.qr(rng.normal(size=(5, 5)))
    turn[0] = -turn[0]
    plain = quadratic_ball(np.diag(values), linear, SIZE, rng=1)
    turned = quadratic_ball(turn @ np.diag(values) @ turn.T, turn @ linear, SIZE, rng=2) @ turn
    mirrored = -quadratic_ball(np.diag(values), -linear, SIZE, rng=3)
    larger = quadratic_ball(np.diag(values) / 9, linear / 3, SIZE, radius=3.0, rng=4) / 3
    for i in range(5):
        for other in (turned, mirrored, larger):
            assert agrees(by_laws(plain[:, i], other[:, i]))
    assert np.all(np.sum(larger**2, axis=1) <= 1 + 1e-12)


@pytest.mark.parametrize("s", [1e3, 1e6])
@pytest.mark.parametrize("d", [2, 10, 50])
@pytest.mark.parametrize("family", FAMILIES)
def test_acceptance_stays_above_a_twentieth(family, d, s):
    B, b = hostile(family, d, s, np.random.default_rng([0, d]))
    assert QuadraticBall().draw(B, b, 400, rng=0).acceptance >= 0.05


@pytest.mark.parametrize("d", [1, 2, 10])
def test_a_long_linear_part(d):
    """Draws are within a few 1/|b| of the boundary; beyond all precision they are refused, not sought for ever."""
    b = np.append(1e11, np.zeros(d - 1))
    draws = QuadraticBall().draw(-np.eye(d), b, 200, rng=1)
    assert draws.acceptance > 0.05
    assert np.all(np.linalg.norm(draws.points, axis=1) <= 1 + 1e-12)
    assert np.all(1 - draws.points[:, 0] < 1e-9)


def test_a_density_too_narrow_to_draw_from(monkeypatch):
    monkeypatch.setattr(sys.modules[QuadraticBall.__module__], "FUTILE", 10_000)
    for size in (1e15, 1e40):
        with pytest.raises(ValueError, match=r"`matrix`.* `vector`.* must be"):
            quadratic_ball([[1.0]], [size], 5, rng=1)


def test_an_envelope_that_is_given_up_when_all_is_drawn():
    """A few draws are found just when the first envelope proves poor: there is nothing left to propose."""
    for seed in range(20):
        B, b = hostile("near hard", 2, 1e3, np.random.default_rng([seed, 2]))
        draws = QuadraticBall().draw(B, b, 20, rng=seed)
        assert draws.points.shape == (20, 2)
        assert 0 < draws.acceptance <= 1


@pytest.mark.slow
def test_a_warm_start_changes_nothing_but_the_search(rng):
    sampler = QuadraticBall()
    values, linear = families(3)["indefinite"]
    for k in range(40):
        sampler.draw(np.diag(values * k / 40), linear * k / 40, 1, rng=k)
    x = sampler.draw(np.diag(values), linear, SIZE, rng=5).points
    for u in directions(3):
        assert agrees(by_law(x @ u, projection_cdf(values, linear, u)))


@pytest.mark.parametrize("k", [1, 2, 3, 10])
def test_mean_over_directions(k):
    for r in (1e-6, 0.01, 0.5, 3.0, 40.0):
        if k == 1:
            exact = math.log(math.cosh(r))
        else:
            t, w = np.polynomial.legendre.leggauss(400)
            angle = (t + 1) * math.pi / 2
            weight = w * np.sin(angle) ** (k - 2)
            exact = math.log(weight @ np.exp(r * (np.cos(angle) - 1)) / weight.sum()) + r
        assert float(log_mean(k, r)) == pytest.approx(exact, rel=1e-8, abs=1e-13)
        above, below = (log_mean(k, r * math.sqrt(0.5 + h)) for h in (1e-5, -1e-5))
        slope = (above - below) / 2e-5
        assert log_mean_slope(k, r, 0.5) == pytest.approx(float(slope), rel=1e-5, abs=1e-9)


@pytest.mark.parametrize("k", [2, 3, 7])
def test_von_mises_fisher(k, rng):
    mean = np.eye(k)[-1]
    for concentration in (0.0, 2.0, 300.0):
        x = von_mises_fisher(mean, np.full(SIZE, concentration), rng)
        np.testing.assert_allclose(np.sum(x**2, axis=1), 1)
        t = np.linspace(-1, 1, 200_001)[1:-1]
        density = np.exp(concentration * (t - 1)) * (1 - t**2) ** ((k - 3) / 2)
        cdf = np.cumsum(density) / density.sum()
        if k == 2:  # the arcsine pole is integrated better in the angle
            angle = np.arccos(np.clip(x[:, -1], -1, 1))
            a = np.linspace(0, math.pi, 20_001)
            d = np.exp(concentration * (np.cos(a) - 1))
            cdf = np.cumsum(d) / d.sum()
            test = stats.kstest(angle, lambda v, a=a, c=cdf: np.interp(v, a, c))
        else:
            test = stats.kstest(x[:, -1], lambda v, t=t, c=cdf: np.interp(v, t, c))
        assert agrees(test.pvalue)


def test_masses_are_those_of_the_envelopes(rng):
    # acceptance = Z / mass, with Z = E exp(log density) over the uniform sphere, by plain Monte Carlo.
    values, linear = families(2)["definite"]
    sphere, _ = sphere_of(values, linear)
    x = rng.standard_normal((200_000, 4))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    f = np.exp(x**2 @ sphere.values + x @ sphere.linear)
    Z, error = f.mean(), f.std() / math.sqrt(len(f))
    for envelope in envelopes(values, linear)[0].values():
        rate = len(envelope.propose(200_000, rng)) / 200_000
        assert rate * math.exp(envelope.log_mass) == pytest.approx(Z, abs=8 * error + 0.02 * Z)


@pytest.mark.parametrize(
    "given, message",
    [
        (([[1.0, 0.0]], [0.0], 1), "`matrix` must be square"),
        (([[1.0, 1.0], [0.0, 1.0]], [0.0, 0.0], 1), "`matrix` must be symmetric"),
        ((np.eye(2), [0.0], 1), "`vector` must have length 2"),
        ((np.eye(2), [0.0, np.nan], 1), "`vector` must be finite"),
        ((np.eye(2), [0.0, 0.0], 0), "`size` must be at least 1"),
    ],
)
def test_bad_input(given, message):
    with pytest.raises(ValueError, match=message):
        quadratic_ball(*given)
    with pytest.raises(ValueError, match="`radius` must be positive"):
        quadratic_ball(np.eye(2), [0.0, 0.0], 1, radius=0)
