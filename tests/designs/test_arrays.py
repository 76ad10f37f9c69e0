"""Designs over array libraries: the kind given is the kind given back, and the certificate is for that."""

from __future__ import annotations

import array_api_compat
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import koloss as kl
from koloss.core.arrays import to_numpy
from tests.support.designs import leverages

X = np.random.default_rng(1).normal(size=(60, 4))
DEFICIENT = X[:, :2] @ np.array([[1.0, 2.0, 0.5], [0.0, 1.0, -1.0]])
DESIGNS = {
    "john": kl.john_design,
    "john, tight": lambda f: kl.john_design(f, tolerance=1e-6),
    "spanner": lambda f: kl.barycentric_spanner(f, approximation=1.2),
    "uniform": kl.uniform_design,
}


def belongs(array, xp, dtype):
    return array_api_compat.array_namespace(array) is xp and array.dtype == dtype


def largest_leverage(features, weights):
    """In double precision, from the very weights that were handed out."""
    return leverages(to_numpy(features), to_numpy(weights)).max()


@pytest.mark.parametrize("choose", DESIGNS.values(), ids=DESIGNS)
@pytest.mark.parametrize("data", [X, DEFICIENT], ids=["full rank", "deficient"])
def test_same_kind_and_same_numbers(xp, choose, data):
    design, reference = choose(xp.asarray(data)), choose(data)
    assert belongs(design.weights, xp, xp.float64)
    assert isinstance(design.max_leverage, float)
    assert design.rank == reference.rank
    assert_allclose(to_numpy(design.weights), reference.weights, rtol=0, atol=1e-6)
    assert design.max_leverage == pytest.approx(reference.max_leverage, rel=1e-6)
    assert_array_equal(design.support, reference.support)


@pytest.mark.parametrize("choose", DESIGNS.values(), ids=DESIGNS)
def test_single_precision(xp, choose):
    features = xp.asarray(X, dtype=xp.float32)
    design = choose(features)
    assert belongs(design.weights, xp, xp.float32)
    assert float(xp.sum(design.weights)) == pytest.approx(1, abs=1e-6)
    largest = largest_leverage(features, design.weights)
    assert design.max_leverage == pytest.approx(largest, rel=1e-9)


@pytest.mark.parametrize("precision", ["float64", "float32"])
@pytest.mark.parametrize("tolerance", [1e-2, 1e-3, 1e-6])
def test_tolerance_holds_for_the_weights_as_returned(xp, precision, tolerance):
    features = xp.asarray(X, dtype=getattr(xp, precision))
    design = kl.john_design(features, tolerance=tolerance)
    assert largest_leverage(features, design.weights) <= (1 + tolerance) * 4 * (1 + 1e-9)


@pytest.mark.parametrize("precision", ["float64", "float32"])
@pytest.mark.parametrize("data", [X, DEFICIENT], ids=["full rank", "deficient"])
def test_whiten(xp, precision, data):
    dtype = getattr(xp, precision)
    # Deficient in single precision too: halves and doubles are exact there.
    features = xp.asarray(data.astype(np.float32), dtype=dtype)
    design = kl.uniform_design(features)
    white = kl.whiten(features, design)
    assert belongs(white.features, xp, dtype)
    assert belongs(white.transform, xp, dtype)
    accuracy = 1e-12 if precision == "float64" else 1e-5
    phi = to_numpy(white.features).astype(float)
    assert_allclose(phi.T @ phi / 60, np.eye(white.features.shape[1]), rtol=0, atol=accuracy)
    by_weights = kl.whiten(features, np.full(60, 1 / 60))
    assert_allclose(to_numpy(by_weights.features), phi, rtol=0, atol=100 * accuracy)


def test_proxies_lead_to_designs_of_their_kind(xp):
    points = np.random.default_rng(2).uniform(size=(50, 2))
    proxy = kl.pivoted_cholesky(kl.Gaussian(0.4), kl.Points(xp.asarray(points)), tolerance=1e-2)
    design = kl.john_design(proxy)
    assert belongs(design.weights, xp, xp.float64)
    assert belongs(kl.whiten(proxy, design).features, xp, xp.float64)
    assert largest_leverage(proxy.features, design.weights) <= 1.001 * proxy.rank * (1 + 1e-6)


@pytest.mark.parametrize("kind", [list, np.int64], ids=["lists", "integers"])
def test_lists_and_integers_become_double(kind):
    rows = [[1, 0], [0, 2], [1, 1]]
    design = kl.john_design(rows if kind is list else np.array(rows, dtype=kind))
    assert design.weights.dtype == np.float64
    assert design.gap <= 1e-3


def test_features_are_left_alone():
    features = X.copy()
    features.flags.writeable = False
    for choose in DESIGNS.values():
        choose(features)
    kl.whiten(features, kl.uniform_design(features))
    assert_array_equal(features, X)
