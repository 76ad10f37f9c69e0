"""Normaliser and moments of exp(x'Bx + b'x) on the ball: quadrature, closed forms, exact identities, exact draws.

The level of the statistical tests together is 10⁻⁵, split evenly; seeds are fixed. Negative control: the moments of a
slightly different density.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import special

import koloss as kl
from koloss.samplers import quadratic_ball, quadratic_moments
from koloss.samplers.quadratic_moments import turn_features
from tests.support.densities import FAMILIES, hostile
from tests.support.statistics import agrees, by_mean, differs

MOMENTS = quadratic_moments(np.eye(2), [0.0, 0.0])
SCALES = [1e-8, 1e-2, 1.0, 30.0, 1e3, 1e6]


def density(family, d, s, seed=0):
    return hostile(family, d, s, np.random.default_rng([seed, d]))


def features(X):
    return np.column_stack([kl.Quadratic().features(X), np.ones(len(X))])


def panels(edges, nodes=30):
    """Composite Gauss-Legendre rule."""
    x, w = np.polynomial.legendre.leggauss(nodes)
    half = np.diff(edges)[:, None] / 2
    return (edges[:-1, None] + half * (x + 1)).ravel(), (half * w).ravel()


def quadrature(B, b):
    """Log normaliser and E φφ' in one to three dimensions; weights sum to the mean over the ball."""
    d = len(b)
    if d == 1:  # panels that shrink towards both ends and the mode
        mode = float(np.clip(-b[0] / (2 * B[0, 0]), -1, 1)) if B[0, 0] else 0.0
        steps = np.append(0.0, np.geomspace(1e-8, 2, 120))
        edges = np.concatenate([c + side * steps for c in (-1.0, 1.0, mode) for side in (-1, 1)])
        x, w = panels(np.unique(edges[np.abs(edges) <= 1]))
        X, w = x[:, None], w / 2
    else:
        r, w_r = panels(np.array([0.0, 0.5, 0.8, 0.95, 1.0]), 12)
        count = 100
        angle = np.arange(count) * 2 * math.pi / count
        circle = np.column_stack([np.cos(angle), np.sin(angle)])
        if d == 2:
            X = (r[:, None, None] * circle).reshape(-1, 2)
            w = np.repeat(2 * r * w_r, count) / count
        else:
            z, w_z = np.polynomial.legendre.leggauss(48)
            flat = np.sqrt(1 - z**2)[:, None, None] * circle
            S = np.concatenate([flat, np.broadcast_to(z[:, None, None], (48, count, 1))], axis=2)
            X = (r[:, None, None, None] * S).reshape(-1, 3)
            w = np.kron(3 * r**2 * w_r, np.repeat(w_z / 2, count) / count)
    logs = np.sum((X @ B) * X, axis=1) + X @ b
    top = logs.max()
    f = w * np.exp(logs - top)
    phi = features(X)
    return top + math.log(f.sum()), phi.T @ (f[:, None] * phi) / f.sum()


def error(computed, exact):
    """Largest error of E φφ', relative to the sizes of the features."""
    size = np.sqrt(np.diag(exact))
    return np.max(np.abs(computed - exact) / np.outer(size, size))


@pytest.mark.parametrize("s", SCALES)
@pytest.mark.parametrize("family", FAMILIES)
def test_one_dimension_against_quadrature(family, s):
    B, b = density(family, 1, s)
    log_z, exact = quadrature(B, b)
    moments = quadratic_moments(B, b)
    assert moments.log_normalizer == pytest.approx(log_z, rel=1e-13, abs=1e-13)
    # Rounding of B and b alone changes the density by s times the unit roundoff.
    assert error(moments.features(intercept=True), exact) < 1e-13 + 1e-15 * s + 1e-14


@pytest.mark.slow
@pytest.mark.parametrize("s", [1e-3, 30.0])
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("d", [2, 3])
def test_two_and_three_dimensions_against_quadrature(d, family, s):
    B, b = density(family, d, s)
    log_z, exact = quadrature(B, b)
    moments = quadratic_moments(B, b)
    assert moments.log_normalizer == pytest.approx(log_z, rel=1e-10, abs=1e-10)
    assert error(moments.features(intercept=True), exact) < 1e-10
    n = d * (d + 1) // 2
    np.testing.assert_allclose(moments.mean, exact[n : n + d, -1], atol=1e-11)
    np.testing.assert_allclose(moments.second, exact[n : n + d, n : n + d], atol=1e-11)


def test_a_wrong_density_is_noticed_by_the_quadrature():
    B, b = density("random", 2, 30.0)
    _, exact = quadrature(B, b)
    assert error(quadratic_moments(B, b * (1 + 1e-7)).features(intercept=True), exact) > 1e-10


@pytest.mark.parametrize("d", [1, 2, 3, 8, 40])
def test_closed_form_for_a_multiple_of_the_identity(d):
    # Mean of exp(c|x|²): the Kummer function M(d/2, d/2 + 1, c).
    for c in (-50.0, -1.0, 0.0, 1.0, 50.0):
        moments = quadratic_moments(c * np.eye(d), np.zeros(d))
        a = d / 2
        exact = special.hyp1f1(a, a + 1, c)
        assert math.exp(moments.log_normalizer) == pytest.approx(exact, rel=1e-11)
        square = a / (a + 1) * special.hyp1f1(a + 1, a + 2, c) / exact  # E|x|²
        np.testing.assert_allclose(moments.second, square / d * np.eye(d), atol=1e-12)
        np.testing.assert_allclose(moments.mean, 0, atol=1e-13)
        fourth = a / (a + 2) * special.hyp1f1(a + 2, a + 3, c) / exact  # E|x|⁴
        computed = moments.features(basis="eigen")[:d, :d]
        expected = fourth / (d * (d + 2)) * (np.ones((d, d)) + 2 * np.eye(d))
        np.testing.assert_allclose(computed, expected, rtol=1e-10, atol=1e-14)


def residuals(B, b, radius=1.0, moments=None):
    """Integration by parts with (r² - |x|²)v for v = e_i and v = x_i e_j: moments up to the fourth, relative."""
    moments, d = moments or quadratic_moments(B, b, radius=radius), len(b)
    M, mean, second = moments.features(), moments.mean, moments.second
    n = d * (d + 1) // 2
    table = np.zeros((d, d), dtype=int)
    i, j = (np.concatenate([np.arange(d), k]) for k in np.triu_indices(d, k=1))
    table[i, j] = table[j, i] = np.arange(n)
    factor = np.where(np.eye(d, dtype=bool), 1.0, math.sqrt(2))
    third = M[:d, n:].sum(axis=0)  # E|x|² x
    fourth = M[:d].sum(axis=0)[table] / factor  # E|x|² xx'
    r2 = radius**2
    slope = 2 * B @ (r2 * mean - third) + b * (r2 - np.trace(second))
    first = slope - 2 * mean
    second_order = (
        (r2 - np.trace(second)) * np.eye(d)
        + 2 * (r2 * second - fourth) @ B
        + np.outer(r2 * mean - third, b)
        - 2 * second
    )
    scale = 1 + r2 * np.abs(B).max() + radius * np.abs(b).max()
    return np.abs(first).max() / (radius * scale), np.abs(second_order).max() / (r2 * scale)


@pytest.mark.parametrize("s", SCALES)
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("d", [1, 2, 5, 20])
def test_integration_by_parts_at_all_scales(d, family, s):
    B, b = density(family, d, s)
    assert max(residuals(B, b)) < 1e-14 * d
    assert max(residuals(B / 9, b / 3, radius=3.0)) < 1e-14 * d


def test_integration_by_parts_in_many_dimensions():
    for family in FAMILIES:
        B, b = density(family, 40, 1e3)
        assert max(residuals(B, b)) < 1e-12
        wrong = quadratic_moments(B, 1.001 * b)  # negative control
        assert max(residuals(B, b, moments=wrong)) > 1e-7


@pytest.mark.parametrize("s", [*SCALES, 1e30])
@pytest.mark.parametrize("family", FAMILIES)
def test_moments_are_those_of_a_law_on_the_ball(family, s):
    for d in (2, 7, 15):
        B, b = density(family, d, s)
        moments = quadratic_moments(B, b)
        assert math.isfinite(moments.log_normalizer)
        assert 0 < np.trace(moments.second) <= 1 + 1e-12
        M = moments.features(intercept=True, basis="eigen")
        assert np.linalg.eigvalsh(M).min() > -1e-13
        # E|x|² and E|x|⁴ between those of a point and the bounds of the ball
        assert np.trace(M[:d, :d]) <= 1 + 1e-12
        top = np.linalg.eigvalsh(B)[-1]
        assert moments.log_normalizer <= max(top, 0) + np.linalg.norm(b) + 1e-12


@pytest.mark.parametrize("d", [3, 6])
def test_covariance_of_the_features_is_the_curvature_of_the_normaliser(d, rng):
    B, b = density("random", d, 3.0)
    moments = quadratic_moments(B, b)
    M = moments.features(intercept=True)
    covariance = M[:-1, :-1] - np.outer(M[:-1, -1], M[:-1, -1])
    n = d * (d + 1) // 2
    for _ in range(5):
        A, c = rng.normal(size=(d, d)), rng.normal(size=d)
        A = (A + A.T) / 2
        direction = np.concatenate([np.diag(A), math.sqrt(2) * A[np.triu_indices(d, 1)], c])
        assert len(direction) == n + d

        def value(t, A=A, c=c):
            return quadratic_moments(B + t * A, b + t * c).log_normalizer

        h = 0.02  # central differences of sixth order
        slope = [(-1 / 60, 3), (3 / 20, 2), (-3 / 4, 1)]
        slope = sum(w * (value(-k * h) - value(k * h)) for w, k in slope) / h
        curve = [(1 / 90, 3), (-3 / 20, 2), (3 / 2, 1)]
        curve = sum(w * (value(k * h) + value(-k * h)) for w, k in curve) - 49 / 18 * value(0)
        assert slope == pytest.approx(direction @ M[:-1, -1], rel=1e-6, abs=1e-7)
        assert curve / h**2 == pytest.approx(direction @ covariance @ direction, rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("d, size", [(10, 40_000), (30, 20_000)])
@pytest.mark.parametrize("family", ["random", "interior", "repeated", "near hard"])
def test_exact_draws_have_these_moments(d, size, family):
    checks = 20
    B, b = density(family, d, 30.0)
    phi = features(quadratic_ball(B, b, size, rng=d))
    directions = np.random.default_rng(1).normal(size=(checks, phi.shape[1])) / math.sqrt(d)
    values = (phi @ directions.T) ** 2

    def fit(moments):
        M = moments.features(intercept=True)
        mean = np.einsum("ki,ij,kj->k", directions, M, directions)
        return by_mean(values, mean)

    assert agrees(fit(quadratic_moments(B, b)))
    assert differs(fit(quadratic_moments(0.7 * B, 0.7 * b)))  # negative control


def test_radius_scales():
    B, b = density("random", 4, 5.0)
    wide, unit = quadratic_moments(B, b, radius=3.0), quadratic_moments(9 * B, 3 * b)
    assert wide.log_normalizer == pytest.approx(unit.log_normalizer)
    np.testing.assert_allclose(wide.mean, 3 * unit.mean, rtol=1e-12)
    np.testing.assert_allclose(wide.second, 9 * unit.second, rtol=1e-12)
    scale = np.repeat([9.0, 3.0, 1.0], [10, 4, 1])
    np.testing.assert_allclose(
        wide.features(intercept=True), np.outer(scale, scale) * unit.features(intercept=True)
    )


@pytest.mark.parametrize("d", [1, 2, 5])
def test_bases_and_parts_agree(d, rng):
    B, b = density("random", d, 8.0)
    moments = quadratic_moments(B, b)
    standard, eigen = (moments.features(intercept=True, basis=k) for k in ("standard", "eigen"))
    # The matrix of the rotation on the features, from random points: φ(x) = R φ(axes'x).
    X = rng.normal(size=(4 * len(standard), d))
    turned = np.linalg.lstsq(features(X @ moments.axes), features(X), rcond=None)[0].T
    np.testing.assert_allclose(standard, turned @ eigen @ turned.T, atol=1e-12)
    theta = rng.normal(size=len(standard))
    back = turn_features(theta, moments.axes, quadratic=True)
    np.testing.assert_allclose(features(X) @ back, features(X @ moments.axes) @ theta, atol=1e-10)
    n = d * (d + 1) // 2
    np.testing.assert_allclose(moments.features(), standard[:-1, :-1], atol=1e-14)
    linear = moments.features(quadratic=False, intercept=True)
    np.testing.assert_allclose(linear, standard[n:, n:], atol=1e-13)
    np.testing.assert_allclose(moments.features(quadratic=False), moments.second, atol=1e-13)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: quadratic_moments([[1.0, 0.0]], [0.0]), "`matrix` must be square"),
        (lambda: quadratic_moments([[1.0, 1.0], [0.0, 1.0]], [0.0, 0.0]), "must be symmetric"),
        (lambda: quadratic_moments(np.eye(2), [0.0]), "`vector` must have length 2"),
        (lambda: quadratic_moments(np.eye(2), [0.0, np.inf]), "`vector` must be finite"),
        (lambda: quadratic_moments(np.eye(2), [0.0, 0.0], radius=-1), "`radius` must be positive"),
        (lambda: quadratic_moments(1e101 * np.eye(2), [0.0, 0.0]), "at most 1e\\+100"),
        (lambda: MOMENTS.features(basis="own"), "`basis` must .*'standard', 'eigen', got 'own'"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
