"""Exact features on balls and boxes lose nothing, however coarse the net; errors are never above sup K."""

from __future__ import annotations

import numpy as np
import pytest

import koloss as kl


@pytest.mark.parametrize(
    "actions", [kl.Ball(3), kl.Box([0.0, 1.0, 2.0], [1.0, 1.0, 3.0])], ids=repr
)
def test_all_features_are_kept(actions):
    kernel = kl.Polynomial(5)
    proxy = kl.exact_features(kernel, actions, spacing=1.0)
    assert proxy.rank == kernel.feature_dimension(3)
    assert proxy.epsilon <= 1e-11 * kernel.bound(actions)
    X = actions.sample(50, rng=0)
    np.testing.assert_allclose(proxy(X) @ proxy(X).T, kernel(X), rtol=1e-9, atol=1e-11)


def test_epsilon_is_never_above_the_bound():
    proxy = kl.pivoted_cholesky(kl.Gaussian(0.05), kl.Ball(4), rank=3)
    assert proxy.epsilon == 1.0
    assert np.all(proxy.residual_curve <= 1.0)


@pytest.mark.parametrize(
    "construct",
    [kl.pivoted_cholesky, kl.kernel_pca, kl.mercer_features, kl.eigendecay, kl.exact_features],
)
def test_a_kernel_is_needed(construct):
    with pytest.raises(TypeError, match=r"`kernel` must .*'rbf'"):
        construct("rbf", kl.Ball(2))
