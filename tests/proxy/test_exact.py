"""Exact features: the same Gram matrix in as few coordinates as the actions span, and all of them on compact sets."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import koloss as kl
from koloss.errors import NetTooLarge, NoFiniteFeatures

LINE = np.linspace(-1, 2, 30)[:, None] * [[0.3, -1.0, 2.0]]
SHIFTED = LINE + np.array([[1.0, 1.0, 0.0]])


@pytest.mark.parametrize(
    "kernel, X, rank",
    [
        pytest.param(kl.Linear(), LINE, 1, id="line through the origin"),
        pytest.param(kl.Linear(), SHIFTED, 2, id="line beside the origin"),
        pytest.param(kl.Quadratic(), LINE, 2, id="quadratic: t and t²"),
        pytest.param(kl.Quadratic(), SHIFTED, 3, id="quadratic beside the origin: 1, t, t²"),
        pytest.param(kl.Polynomial(3), LINE, 4, id="polynomial: 1, t, t², t³"),
        pytest.param(kl.Polynomial(3), SHIFTED, 4, id="polynomial does not see the shift"),
        pytest.param(kl.Linear() + kl.Linear(), LINE, 1, id="sum with itself"),
        pytest.param(kl.Quadratic(), np.repeat(LINE[:2], 5, axis=0), 2, id="duplicates"),
        pytest.param(kl.Linear(), np.diag([1e-6, 1.0, 1e6]), 3, id="badly scaled"),
        pytest.param(kl.Posynomial([[1, 0], [0, 1], [-1, 2]]), LINE[20:, ::2], 1, id="one degree"),
    ],
)
def test_reduced_to_what_the_actions_span(kernel, X, rank):
    proxy = kl.exact_features(kernel, kl.Points(X))
    gram = kernel(X)
    assert proxy.rank == rank
    assert_allclose(proxy.features @ proxy.features.T, gram, rtol=0, atol=1e-14 * gram.max())
    assert proxy.epsilon <= 1e-12 * gram.diagonal().max()


@pytest.mark.parametrize("kernel", [kl.Linear(), kl.Quadratic(), kl.Polynomial(3), kl.Polynomial(5)])  # fmt: skip
def test_full_rank_is_exact_everywhere(rng, kernel):
    X, Y = rng.normal(size=(200, 3)), 2 * rng.normal(size=(40, 3))
    proxy = kl.exact_features(kernel, kl.Points(X))
    assert proxy.rank == kernel.feature_dimension(3)
    scale = kernel.diag(Y).max()
    assert_allclose(proxy(Y) @ proxy(Y).T, kernel(Y), rtol=0, atol=1e-13 * scale)
    assert_allclose(proxy(Y) @ proxy.features.T, kernel(Y, X), rtol=0, atol=1e-13 * scale)


def test_coordinates_are_the_principal_axes(rng):
    X = rng.normal(size=(60, 2))
    proxy = kl.exact_features(kl.Quadratic(), kl.Points(X))
    mu = np.linalg.eigvalsh(kl.Quadratic()(X) / 60)[::-1][:5]
    assert_allclose(proxy.eigenvalues, mu, rtol=1e-10)
    assert_allclose(proxy.features.T @ proxy.features / 60, np.diag(mu), rtol=0, atol=1e-12)
    pca = kl.kernel_pca(kl.Quadratic(), kl.Points(X), rank=3)
    assert_allclose(np.abs(pca.features), np.abs(proxy.truncate(3).features), rtol=0, atol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize(
    "kernel, actions, spacing",
    [
        (kl.Quadratic(), kl.Ball(3, 2.0), 1.5),  # a coarse net is enough
        (kl.Polynomial(5), kl.Ball(3), 1.0),
        (kl.Polynomial(5), kl.Box([0.0, 1.0, 2.0], [1.0, 1.0, 3.0]), 1.0),
    ],
    ids=repr,
)
def test_all_features_are_kept_on_a_compact_set(kernel, actions, spacing):
    proxy = kl.exact_features(kernel, actions, spacing=spacing)
    assert proxy.rank == kernel.feature_dimension(3)
    assert proxy.epsilon <= 1e-11 * max(kernel.bound(actions), 1)
    X = actions.sample(2000, rng=0)
    assert_allclose(proxy(X) @ proxy(X).T, kernel(X), rtol=1e-9, atol=1e-11)
    assert np.abs(kernel(X) - proxy(X) @ proxy(X).T).max() <= proxy.epsilon


def test_compact_set_whose_net_spans_less_keeps_all_features():
    # A flat box spans one direction of two; a net could miss one just as well, so nothing is left out.
    box = kl.Box([-1, 0], [1, 0])
    proxy = kl.exact_features(kl.Linear(), box, spacing=0.01)
    assert proxy.rank == 2
    assert proxy.residual_at(box.sample(500, 0)).max() <= proxy.epsilon < 1e-13


def test_kernels_without_finite_features():
    with pytest.raises(NoFiniteFeatures, match="no finite feature map; build one with kernel_pca"):
        kl.exact_features(kl.Gaussian(1.0), kl.Points(LINE))


def test_too_many_features_are_refused_before_they_are_formed():
    with pytest.raises(
        NetTooLarge, match=r"`actions` must need at most .* bytes, got .* features or more each"
    ):
        kl.exact_features(kl.Polynomial(20), kl.Points(np.ones((10, 30))))
