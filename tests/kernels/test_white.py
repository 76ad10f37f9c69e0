"""The white kernel, alone and as a nugget, on points and refused elsewhere."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import koloss as kl
from koloss.errors import NetTooLarge

X = np.random.default_rng(2).random((50, 2))
DOUBLED = np.concatenate([X, X[:20], [[0.0, 0.5]], [[-0.0, 0.5]]])  # 51 different points
NUGGET = kl.Gaussian(0.4) + 0.01 * kl.White()
BUILDS = {
    "cholesky": kl.pivoted_cholesky,
    "pca": kl.kernel_pca,
}


def test_equal_points_are_one_action():
    gram = kl.White()(DOUBLED)
    expected = [[float(tuple(x) == tuple(y)) for y in DOUBLED.tolist()] for x in DOUBLED.tolist()]
    assert_array_equal(gram, expected)
    assert gram[-1, -2] == 1.0  # -0.0 is 0.0
    assert kl.White()(X + 1e-16, X).sum() < 50  # and nothing else is equal but what is


@pytest.mark.parametrize("construct", BUILDS.values(), ids=BUILDS)
@pytest.mark.parametrize("kernel", [kl.White(), NUGGET, NUGGET * kl.Polynomial(1)], ids=repr)
def test_proxies_are_certified_and_exact_at_full_rank(construct, kernel):
    gram = kernel(DOUBLED)
    for rank in (1, 7, 30, 51):
        proxy = construct(kernel, kl.Points(DOUBLED), rank=rank)
        error = np.abs(gram - proxy.features @ proxy.features.T).max()
        assert error <= proxy.epsilon
        # A nugget is missed by its own size wherever an action is left out.
        assert proxy.epsilon >= (0.0 if rank == 51 else 0.009)
        assert_allclose(proxy(DOUBLED), proxy.features, atol=1e-7)
    assert proxy.epsilon < 1e-12 * kernel.bound(kl.Points(DOUBLED)) * 1e3
    with pytest.raises(kl.errors.RankUnreachable, match="at most 51"):
        construct(kernel, kl.Points(DOUBLED), rank=52)


def test_exact_features_are_indicators_of_the_different_points():
    proxy = kl.exact_features(kl.White(), kl.Points(DOUBLED))
    assert proxy.rank == 51
    assert_allclose(proxy.features @ proxy.features.T, kl.White()(DOUBLED), atol=1e-12)
    # Between the points Φ is orthogonal to all of them.
    assert_array_equal(proxy([[7.0, 7.0]]), np.zeros((1, 51)))
    assert proxy.residual_at([[7.0, 7.0]])[0] == pytest.approx(1.0)
    both = kl.exact_features(kl.Linear() + 0.25 * kl.White(), kl.Points(DOUBLED))
    assert both.rank == 51
    gram = DOUBLED @ DOUBLED.T + 0.25 * kl.White()(DOUBLED)
    assert_allclose(both.features @ both.features.T, gram, atol=1e-12)
    product = kl.exact_features(kl.Linear() * kl.White(), kl.Points(X))
    assert_allclose(product.features @ product.features.T, np.diag((X**2).sum(axis=1)), atol=1e-12)
    with pytest.raises(kl.errors.NoFiniteFeatures):
        kl.exact_features(NUGGET, kl.Points(X))


def test_exact_features_keep_to_their_limit():
    size = 50 * 50 * 8
    assert kl.exact_features(kl.White(), kl.Points(X), max_bytes=size).rank == 50
    with pytest.raises(NetTooLarge, match="`kernel` must need at most 19999 bytes, got 50 points"):
        kl.exact_features(kl.White(), kl.Points(X), max_bytes=size - 1)


def test_every_function_is_in_the_space_and_its_norm_is_that_of_the_split(rng):
    # ‖f‖² = f'(K + νI)⁻¹f = min over f = u + z of ‖u‖² + |z|²/ν, at z = ν(K + νI)⁻¹f
    f, nu = rng.standard_normal(50), 0.01
    K = kl.Gaussian(0.4)(X)
    loss = kl.KernelLoss(NUGGET, X, np.linalg.solve(K + nu * np.eye(50), f))
    assert_allclose(loss(X), f, atol=1e-9)
    z = nu * np.linalg.solve(K + nu * np.eye(50), f)
    u = np.linalg.solve(K + nu * np.eye(50), f)  # coefficients of f - z in the smooth part
    assert_allclose(K @ u, f - z, atol=1e-9)
    assert loss.norm() ** 2 == pytest.approx(u @ K @ u + z @ z / nu, rel=1e-9)
    # A spike of norm W has height W√ν beyond the smooth part, as the docstring says.
    spike = kl.White().bump(X[3], 2.0)
    assert_allclose(spike(X), 2.0 * np.eye(50)[3])
    assert (nu * kl.White()).bump(X[3], 2.0)(X).max() == pytest.approx(2 * math.sqrt(nu))


@pytest.mark.parametrize("kernel", [kl.White(), NUGGET, 2.0 * (kl.Linear() * kl.White())], ids=repr)
@pytest.mark.parametrize(
    "actions", [kl.Box([0, 0], [1, 1]), kl.Ball(2), kl.PositiveBall(2)], ids=repr
)
def test_compact_sets_are_refused_with_the_reason(kernel, actions):
    uses = [
        kernel.bound,
        kernel.lipschitz,
        lambda a: kernel.modulus(0.1, a),
        lambda a: kl.pivoted_cholesky(kernel, a),
        lambda a: kl.pivoted_cholesky(kernel, a, spacing=0.5),
        lambda a: kl.kernel_pca(kernel, a, rank=2),
        lambda a: kl.exact_features(kernel, a),
        lambda a: kl.eigendecay(kernel, a),
        lambda a: kl.BanditExpWeights(a, kernel, horizon=10),
        lambda a: kl.BanditExpWeights(a, kernel, horizon=10, spacing=0.5),
    ]
    for use in uses:
        with pytest.raises(
            ValueError, match=r"`actions` must be Points, since White\(\) has no limit"
        ):
            use(actions)
    assert kl.pivoted_cholesky(kernel, actions.net(0.5)).rank > 1  # whoever lays the net means it


def test_has_no_gradient():
    with pytest.raises(TypeError, match=r"White\(\) has no gradient"):
        NUGGET.gradient(X, X)


def test_a_learner_with_a_nugget_finds_a_spike():
    # The best action is better by a spike that the Gaussian kernel alone cannot see.
    points = kl.Points(np.linspace(0, 1, 21)[:, None])
    losses = 0.6 + 0.0 * points.X[:, 0]
    losses[13] = 0.1
    kernel = kl.Gaussian(0.3) + kl.White()
    learner = kl.BanditExpWeights(points, kernel, horizon=3000, loss_range=(0, 1), rng=0)
    for _ in range(3000):
        decision = learner.ask()
        learner.tell(decision, losses[decision.index])
    assert learner.recommend().index == 13
    assert learner.rank >= 21
