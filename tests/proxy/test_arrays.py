"""Proxies over array libraries: the kind given is the kind given back, and NumPy's numbers in it."""

from __future__ import annotations

import array_api_compat
import numpy as np
import pytest
from numpy.testing import assert_allclose

import koloss as kl
from koloss.core.arrays import to_numpy

X = np.random.default_rng(3).uniform(-1, 1, size=(30, 2))
Y = np.random.default_rng(4).uniform(-1, 1, size=(9, 2))
WEIGHTS = np.random.default_rng(5).dirichlet(np.ones(30))

BUILDS = {
    "kernel_pca": lambda a: kl.kernel_pca(kl.Gaussian(0.6), a, rank=6),
    "kernel_pca tolerance": lambda a: kl.kernel_pca(kl.Gaussian(0.6), a, tolerance=1e-2),
    "kernel_pca samples": lambda a: kl.kernel_pca(kl.Gaussian(0.6), a, rank=4, samples=25, rng=1),
    "kernel_pca measure": lambda a: kl.kernel_pca(kl.Gaussian(0.6), a, rank=4, measure=WEIGHTS),
    "kernel_pca sampled measure": lambda a: kl.kernel_pca(
        kl.Matern(1.5, 1.0), a, rank=4, measure=WEIGHTS, samples=20, rng=2
    ),
    "pivoted_cholesky": lambda a: kl.pivoted_cholesky(kl.Matern(0.5, 0.5), a, rank=8),
    "pivoted_cholesky default": lambda a: kl.pivoted_cholesky(kl.Gaussian(0.6), a),
    "mercer_features gaussian": lambda a: kl.mercer_features(kl.Gaussian(0.8), a, rank=10),
    "mercer_features periodic": lambda a: kl.mercer_features(kl.Periodic(1.0), a, tolerance=1e-2),
    "exact_features": lambda a: kl.exact_features(kl.Quadratic(), a),
}


def belongs(array, xp, dtype):
    return array_api_compat.array_namespace(array) is xp and array.dtype == dtype


@pytest.mark.parametrize("build", BUILDS.values(), ids=BUILDS)
@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_same_kind_and_same_numbers(xp, build, precision):
    dtype = getattr(xp, precision)
    proxy = build(kl.Points(xp.asarray(X, dtype=dtype)))
    reference = build(kl.Points(X))
    assert proxy.rank == reference.rank
    new = proxy(xp.asarray(Y, dtype=dtype))
    for array in (proxy.features, proxy.residual, proxy.eigenvalues, new):
        assert belongs(array, xp, dtype)
    close = {"rtol": 0, "atol": 1e-9 if precision == "float64" else 1e-3}
    features, out = to_numpy(proxy.features).astype(float), to_numpy(new).astype(float)
    assert_allclose(features @ features.T, reference.features @ reference.features.T, **close)
    assert_allclose(out @ features.T, reference(Y) @ reference.features.T, **close)
    assert_allclose(to_numpy(proxy.eigenvalues), reference.eigenvalues, **close)
    assert_allclose(proxy.residual_curve, reference.residual_curve, **close)


@pytest.mark.parametrize("build", BUILDS.values(), ids=BUILDS)
@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_certificate_holds_for_what_is_handed_out(xp, build, precision):
    # Recomputed in double precision from the very numbers, single or double, that were given and returned.
    dtype = getattr(xp, precision)
    points = xp.asarray(X, dtype=dtype)
    proxy = build(kl.Points(points))
    features = to_numpy(proxy.features).astype(float)
    gram = proxy.kernel(to_numpy(points).astype(float))
    error = np.abs(gram - features @ features.T).max()
    room = max(100, 10 * proxy.rank) * float(xp.finfo(dtype).eps) * gram.max()
    assert error <= proxy.epsilon <= error + room
    if proxy.rank < 8:  # features that are short of a hundredth exceed it
        assert np.abs(gram - 0.98 * features @ features.T).max() > proxy.epsilon


@pytest.mark.parametrize("build", BUILDS.values(), ids=BUILDS)
def test_methods(xp, build):
    proxy, reference = build(kl.Points(xp.asarray(X))), build(kl.Points(X))
    new = xp.asarray(Y)
    assert belongs(proxy.residual_at(new), xp, xp.float64)
    assert_allclose(to_numpy(proxy.residual_at(new)), reference.residual_at(Y), rtol=0, atol=1e-9)
    assert proxy.epsilon_against(new) == pytest.approx(reference.epsilon_against(Y), abs=1e-9)
    part = proxy.truncate(3)
    assert belongs(part.features, xp, xp.float64)
    assert belongs(part.eigenvalues, xp, xp.float64)
    mu = reference.truncate(3).eigenvalues
    assert_allclose(to_numpy(part.eigenvalues), mu, rtol=0, atol=1e-9)


def test_dense_kernel_pca(xp, monkeypatch):
    import importlib

    module = importlib.import_module("koloss.proxy.kernel_pca")
    monkeypatch.setattr(module, "SMOOTH_RANK", 2)
    points = np.random.default_rng(0).uniform(size=(60, 2))
    kernel = kl.Matern(0.5, 0.5)
    proxy = kl.kernel_pca(kernel, kl.Points(xp.asarray(points)), rank=8)
    assert belongs(proxy.features, xp, xp.float64)
    mu = np.linalg.eigvalsh(kernel(points) / 60)[::-1][:8]
    assert_allclose(to_numpy(proxy.eigenvalues), mu, rtol=1e-9)
    features = to_numpy(proxy.features)
    assert np.abs(kernel(points) - features @ features.T).max() <= proxy.epsilon
    assert_allclose(to_numpy(proxy(xp.asarray(points))), features, rtol=0, atol=1e-12)


def test_eigendecay(xp):
    decay = kl.eigendecay(kl.Gaussian(0.6), kl.Points(xp.asarray(X)), measure=xp.asarray(WEIGHTS))
    reference = kl.eigendecay(kl.Gaussian(0.6), kl.Points(X), measure=WEIGHTS)
    assert isinstance(decay.eigenvalues, np.ndarray)
    assert_allclose(decay.eigenvalues[:10], reference.eigenvalues[:10], rtol=1e-9)
    assert decay.best.rate == pytest.approx(reference.best.rate, rel=1e-2)


def test_mercer_center_and_scale_may_be_arrays(xp):
    options = {"center": [0.1, 0.2], "scale": [1.0, 2.0]}
    arrays = {name: xp.asarray(v, dtype=xp.float64) for name, v in options.items()}
    proxy = kl.mercer_features(kl.Gaussian(0.8), kl.Points(xp.asarray(X)), rank=5, **arrays)
    reference = kl.mercer_features(kl.Gaussian(0.8), kl.Points(X), rank=5, **options)
    assert_allclose(to_numpy(proxy.features), reference.features, rtol=0, atol=1e-12)
