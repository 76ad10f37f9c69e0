"""Kernel PCA against dense eigenvectors of the Gram matrix: the paper's Function ProxyKernel, literally."""

from __future__ import annotations

import importlib
import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import koloss as kl
from koloss.errors import RankUnreachable
from tests.support import inside

MODULE = importlib.import_module("koloss.proxy.kernel_pca")

KERNELS = {
    "gaussian": kl.Gaussian(0.5),
    "matern-1/2": kl.Matern(0.5, 0.4),
    "polynomial": kl.Polynomial(4),
}


def function_box(kernel, sample, weights, rank, X):
    """Eigenvalues, and φ(X), by the paper's box: ⟨v_j, Φ(x)⟩ with v_j = Σ_k ω_jk √w_k Φ(x_k) normalised."""
    gram = kernel(sample)
    roots = np.sqrt(weights)
    mu, omega = np.linalg.eigh(roots[:, None] * gram * roots)
    mu, omega = mu[::-1][:rank], omega[:, ::-1][:, :rank]
    C = roots[:, None] * omega
    norms = np.sqrt(np.sum(C * (gram @ C), axis=0))
    return mu, kernel(X, sample) @ C / norms


@pytest.fixture(params=["factored", "dense"])
def path(request, monkeypatch):
    """Both ways inside kernel_pca, each made sure of."""
    taken, dense = [], MODULE.dense_pca
    monkeypatch.setattr(MODULE, "dense_pca", lambda *a: taken.append(1) or dense(*a))
    if request.param == "dense":
        monkeypatch.setattr(MODULE, "greedy", inside.given_up(MODULE.greedy))
    yield request.param
    assert bool(taken) == (request.param == "dense")


@pytest.fixture
def X(rng):
    return rng.uniform(-1, 1, size=(70, 2))


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
@pytest.mark.parametrize("measure", ["uniform", "weights", "zeros"])
@pytest.mark.parametrize("rank", [1, 5, 12])
def test_agrees_with_dense_eigenvectors(path, X, rng, kernel, measure, rank):
    weights = rng.exponential(size=len(X)) if measure != "uniform" else np.ones(len(X))
    if measure == "zeros":
        weights[10:50] = 0
    weights /= weights.sum()
    options = {} if measure == "uniform" else {"measure": weights}
    proxy = kl.kernel_pca(kernel, kl.Points(X), rank=rank, **options)
    Y = rng.uniform(-1.3, 1.3, size=(20, 2))
    mu, expected = function_box(kernel, X, weights, rank, np.vstack([X, Y]))
    assert proxy.rank == rank
    assert_allclose(proxy.eigenvalues, mu, rtol=1e-9)
    # Eigenvectors have a sign (and the subspace no preferred basis): compare the proxy kernel.
    features = np.vstack([proxy.features, proxy(Y)])
    assert_allclose(features @ features.T, expected @ expected.T, rtol=0, atol=1e-9)
    assert_allclose(np.abs(features), np.abs(expected), rtol=0, atol=1e-6)


@pytest.mark.parametrize("rank", [12, None])
def test_rough_kernels_take_the_dense_path_by_themselves(rng, monkeypatch, rank):
    X = rng.uniform(size=(440, 2))
    taken, dense = [], MODULE.dense_pca
    monkeypatch.setattr(MODULE, "dense_pca", lambda *a: taken.append(1) or dense(*a))
    kernel = kl.Matern(0.5, 0.5)
    proxy = kl.kernel_pca(kernel, kl.Points(X), rank=rank)
    assert taken
    mu, _ = function_box(kernel, X, np.full(440, 1 / 440), proxy.rank, X[:1])
    assert_allclose(proxy.eigenvalues, mu, rtol=1e-9)
    error = np.abs(kernel(X) - proxy.features @ proxy.features.T).max()
    assert error <= proxy.epsilon <= error + 1e-11
    taken.clear()
    kl.kernel_pca(kl.Gaussian(0.5), kl.Points(X), rank=12)
    assert not taken


def test_few_eigenvectors_of_a_large_symmetric_set():
    # Mirror images: half of the eigenvectors are orthogonal to every symmetric start of Lanczos.
    X = np.linspace(-1, 1, 1101)[:, None]
    kernel = kl.Matern(0.5, 0.3)
    proxy = kl.kernel_pca(kernel, kl.Points(X), rank=12)
    mu = np.linalg.eigvalsh(kernel(X) / len(X))[::-1][:12]
    assert_allclose(proxy.eigenvalues, mu, rtol=1e-9)
    odd = np.abs(proxy.features + proxy.features[::-1]).max(axis=0) < 1e-6
    assert_array_equal(odd, np.arange(12) % 2 == 1)


class TestSamples:
    """The paper's own way: p draws."""

    def test_one_seed_gives_one_proxy(self, X):
        generator = np.random.default_rng(0)  # which moves on
        first, same, *others = (
            kl.kernel_pca(kl.Gaussian(0.5), kl.Points(X), rank=6, samples=40, rng=rng)
            for rng in (1, 1, 2, generator, generator)
        )
        assert_array_equal(first.features, same.features)
        for a, b in itertools.combinations([first, *others], 2):
            assert np.abs(a.eigenvalues - b.eigenvalues).max() > 1e-6

    @pytest.mark.parametrize("actions", [kl.Box([-1, -1], [1, 1]), kl.Ball(2)])
    def test_uses_p_draws(self, actions, monkeypatch):
        drawn = []
        sample = type(actions).sample
        monkeypatch.setattr(
            type(actions), "sample", lambda *a: drawn.append(sample(*a)) or drawn[-1]
        )
        kernel = kl.Gaussian(0.6)
        proxy = kl.kernel_pca(kernel, actions, rank=5, samples=33, spacing=0.2, rng=4)
        assert [d.shape for d in drawn] == [(33, 2)]
        net = proxy.points.X
        mu, expected = function_box(kernel, drawn[0], np.full(33, 1 / 33), 5, net)
        assert_allclose(proxy.eigenvalues, mu, rtol=1e-9)
        assert_allclose(proxy.features @ proxy.features.T, expected @ expected.T, rtol=0, atol=1e-9)

    def test_draws_have_the_frequencies_of_the_measure(self):
        # Points so far apart that K = I: the eigenvalues are the shares of the draws. Chi-square with 3 degrees
        # of freedom, false-alarm level 10⁻⁶ (quantile 30.7); uniform draws are the negative control.
        X, shares = 1e3 * np.arange(4.0)[:, None], np.array([0.4, 0.3, 0.2, 0.1])

        def distance(measure):
            options = {"samples": 3000, "rng": 7, "measure": measure}
            seen = kl.kernel_pca(kl.Gaussian(1.0), kl.Points(X), rank=4, **options).eigenvalues
            return 3000 * np.sum((seen - shares) ** 2 / shares)

        assert distance(shares) < 30.7 < distance(None)


def test_too_many_points_for_a_dense_gram_matrix(monkeypatch, X):
    monkeypatch.setattr(MODULE, "DENSE_LIMIT", 50)
    monkeypatch.setattr(MODULE, "SMOOTH_RANK", 3)
    with pytest.raises(RankUnreachable, match=r"`actions` must have at most 50 points .* got 70"):
        kl.kernel_pca(kl.Matern(0.5, 0.4), kl.Points(X), rank=2)
