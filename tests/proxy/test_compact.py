"""Proxies on balls and boxes: certified on the whole set, not only on the net they are built on."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import koloss as kl
from koloss.errors import ToleranceUnreachable

SETS = {
    "interval": (kl.Box([-1], [1]), 0.05),
    "square": (kl.Box([-1, 0], [1, 1]), 0.2),
    "disc": (kl.Ball(2, 0.8), 0.2),
    "ball": (kl.Ball(3), 0.5),
    "flat box": (kl.Box([0, 0.5], [1, 0.5]), 0.1),
}
BUILDS = {
    "pca gaussian": (kl.kernel_pca, kl.Gaussian(0.5)),
    "pca matern-1/2": (kl.kernel_pca, kl.Matern(0.5, 1.0)),
    "pca sampled": (lambda *a, **k: kl.kernel_pca(*a, samples=40, rng=1, **k), kl.Matern(1.5, 0.7)),
    "cholesky gaussian": (kl.pivoted_cholesky, kl.Gaussian(0.5)),
    "cholesky matern-1/2": (kl.pivoted_cholesky, kl.Matern(0.5, 1.0)),
    "cholesky polynomial": (kl.pivoted_cholesky, kl.Polynomial(5)),
    "cholesky sum": (kl.pivoted_cholesky, 2.0 * kl.Gaussian(0.5) + kl.Quadratic()),
    "cholesky product": (kl.pivoted_cholesky, kl.Linear() * kl.Gaussian(0.7)),
    "mercer gaussian": (kl.mercer_features, kl.Gaussian(0.5)),
    "mercer periodic": (kl.mercer_features, kl.Periodic(0.9, 1.7)),
}


@pytest.mark.parametrize("actions, spacing", SETS.values(), ids=SETS)
@pytest.mark.parametrize("construct, kernel", BUILDS.values(), ids=BUILDS)
@pytest.mark.parametrize("rank", [3, None])
def test_epsilon_bounds_the_error_between_the_points_of_the_net(
    construct, kernel, actions, spacing, rank
):
    proxy = construct(kernel, actions, rank=rank, spacing=spacing)
    net = actions.net(spacing)
    assert_array_equal(proxy.points.X, net.X)
    X = actions.sample(400, 5)
    features = proxy(X)
    assert np.abs(kernel(X) - features @ features.T).max() <= proxy.epsilon
    # √ε = √(largest residual on the net) + largest ‖Φ(x) - Φ(y)‖ within the covering radius, and ε ≤ sup K
    residual = np.maximum(kernel.diag(net.X) - np.sum(proxy.features**2, axis=1), 0).max()
    step = kernel.modulus(net.covering_radius, actions)
    expected = min((math.sqrt(residual) + step) ** 2, kernel.bound(actions))
    assert proxy.epsilon == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("construct", [kl.kernel_pca, kl.pivoted_cholesky])
def test_without_the_step_the_bound_would_be_wrong(construct):
    # Every point of the net is in the span: what is missed is missed between them.
    box, kernel = kl.Box([0], [1]), kl.Matern(0.5, 0.2)
    proxy = construct(kernel, box, rank=21, spacing=0.05)
    assert proxy.residual.max() < 1e-12
    between = proxy.residual_at(box.sample(500, 0)).max()
    assert 0.1 < between <= proxy.epsilon
    h = proxy.points.covering_radius
    assert h == pytest.approx(0.025)
    assert proxy.epsilon == pytest.approx(2 - 2 * math.exp(-h / 0.2), rel=1e-5)


@pytest.mark.parametrize("construct", [kl.kernel_pca, kl.pivoted_cholesky, kl.mercer_features])
def test_tolerance_is_for_the_whole_set(construct):
    kernel, box = kl.Gaussian(0.7), kl.Box([0, 0], [1, 1])
    proxy = construct(kernel, box, tolerance=0.02, spacing=0.06)
    X = box.sample(400, 3)
    assert np.abs(kernel(X) - proxy(X) @ proxy(X).T).max() <= proxy.epsilon <= 0.02
    assert proxy.truncate(proxy.rank - 1).epsilon > 0.02
    with pytest.raises(ToleranceUnreachable, match="due to the net alone: use a smaller `spacing`"):
        construct(kernel, box, tolerance=1e-4, spacing=0.06)


class Tent:
    """K(x, y) = max(0, 1 - |x - y|) on the line, with no word about its continuity."""

    def __call__(self, X, Y=None):
        Y = X if Y is None else Y
        return np.maximum(0.0, 1 - np.abs(X[:, 0, None] - Y[None, :, 0]))

    def diag(self, X):
        return np.ones(len(X))


@pytest.mark.slow
@pytest.mark.parametrize("construct", [kl.kernel_pca, kl.pivoted_cholesky])
def test_refuses_a_kernel_without_modulus(construct):
    with pytest.raises(TypeError, match=r"`kernel` must have a method `modulus` .* use Points"):
        construct(Tent(), kl.Box([0], [1]), rank=3)


def test_a_kernel_of_the_users_own_may_bring_its_modulus():
    class Smooth(Tent):
        def modulus(self, distance, actions):
            return math.sqrt(2 * min(distance, 1.0))  # ‖Φ(x) - Φ(y)‖² = 2|x - y|

    box = kl.Box([0], [2])
    proxy = kl.pivoted_cholesky(Smooth(), box, rank=10, spacing=0.01)
    assert proxy.residual_at(box.sample(1000, 0)).max() <= proxy.epsilon


def test_a_net_given_as_points_is_certified_as_points():
    # Whoever lays the net says that the net is all there is.
    net = kl.Box([0], [1]).net(0.1)
    proxy = kl.pivoted_cholesky(kl.Gaussian(0.3), net, tolerance=1e-10)
    assert proxy.actions is net
    assert proxy.epsilon <= 1e-10
