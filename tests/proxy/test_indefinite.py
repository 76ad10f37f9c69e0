"""Kernels that are not positive semidefinite: noticed where a factorisation can see it, and nothing is certified then."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.spatial.distance import cdist

import koloss as kl
from koloss.errors import NotPositiveDefinite
from tests.support import inside

X = kl.Box([0, 0], [1, 1]).net(0.1).X
POINTS = kl.Points(X)

NOT_KERNELS = {
    "sigmoid": lambda X, Y: np.tanh(2 * X @ Y.T - 1),
    "another sigmoid": lambda X, Y: np.tanh(X @ Y.T + 1),
    "difference of Gaussians": lambda X, Y: (
        np.exp(-(cdist(X, Y) ** 2) / 2) - 0.5 * np.exp(-50 * cdist(X, Y) ** 2)
    ),
    "indefinite form": lambda X, Y: X @ np.diag([1.0, -1.0]) @ Y.T,
    "multiquadric": lambda X, Y: np.sqrt(1 + cdist(X, Y) ** 2),
    "disc": lambda X, Y: np.where(cdist(X, Y) < 0.5, 1.0, 0.0),
    "fourth power": lambda X, Y: np.exp(-((cdist(X, Y) / 0.4) ** 4)),
}
WITHOUT_DIAGONAL = {
    "distance": lambda X, Y: -cdist(X, Y),
    "thin plate": lambda X, Y: cdist(X, Y) ** 2 * np.log(np.maximum(cdist(X, Y), 1e-300)),
    "negative": lambda X, Y: -np.exp(-(cdist(X, Y) ** 2)),
}


class Own:
    """A kernel by its function."""

    def __init__(self, function):
        self.function = function

    def __call__(self, X, Y=None):
        return self.function(X, X if Y is None else Y)

    def diag(self, X):
        return np.array([self.function(x[None], x[None])[0, 0] for x in X])


@pytest.mark.parametrize("make", [kl.kernel_pca, kl.pivoted_cholesky])
@pytest.mark.parametrize("name", NOT_KERNELS)
@pytest.mark.parametrize("scale", [1.0, 1e-6, 1e12])
def test_proxies_record_the_eigenvalue(make, name, scale):
    def function(X, Y):
        return scale * NOT_KERNELS[name](X, Y)

    smallest = np.linalg.eigvalsh(function(X, X))[0]
    proxy = make(Own(function), POINTS)
    assert proxy.negative_eigenvalue == pytest.approx(smallest, rel=1e-6)
    assert not proxy.is_certified
    assert proxy.epsilon == math.inf
    assert proxy.truncate(1).epsilon == math.inf
    assert proxy.epsilon_against(X[:3]) == math.inf
    assert "not positive semidefinite" in repr(proxy)
    assert "not positive semidefinite" in inside.html(proxy)
    with pytest.raises(
        NotPositiveDefinite, match="`kernel` must be positive semidefinite"
    ) as caught:
        proxy.rank_for(0.1)
    assert caught.value.eigenvalue == proxy.negative_eigenvalue


@pytest.mark.parametrize("make", [kl.kernel_pca, kl.pivoted_cholesky])
@pytest.mark.parametrize("name", NOT_KERNELS)
def test_no_tolerance_is_promised(make, name):
    with pytest.raises(NotPositiveDefinite, match="`kernel` must be positive semidefinite"):
        make(Own(NOT_KERNELS[name]), POINTS, tolerance=1e-3)


@pytest.mark.parametrize("make", [kl.kernel_pca, kl.pivoted_cholesky, kl.eigendecay])
@pytest.mark.parametrize("name", WITHOUT_DIAGONAL)
def test_where_nothing_can_be_built_it_is_an_error(make, name):
    with pytest.raises(NotPositiveDefinite, match="`kernel` must be positive semidefinite"):
        make(Own(WITHOUT_DIAGONAL[name]), POINTS)


def test_there_is_no_spectrum():
    with pytest.raises(NotPositiveDefinite):
        kl.eigendecay(Own(NOT_KERNELS["sigmoid"]), POINTS)


def test_a_part_of_many_points_shows_it():
    """On more points than are looked at as a whole, the eigenvalue is that of a part: negative, and no smaller."""
    many = np.random.default_rng(0).uniform(0, 1, size=(700, 2))
    kernel = Own(NOT_KERNELS["difference of Gaussians"])
    proxy = kl.pivoted_cholesky(kernel, kl.Points(many))
    assert np.linalg.eigvalsh(kernel(many))[0] * (1 + 1e-9) <= proxy.negative_eigenvalue < -0.1


def test_the_dense_path_sees_its_own_eigenvalues():
    """A rough kernel that needs more than the columns of the factorisation: one pair in 600 points is wrong."""
    gram = np.eye(600)
    gram[0, 1] = gram[1, 0] = 1.5
    places = np.arange(600.0)[:, None]
    kernel = Own(lambda X, Y: gram[np.ix_(X[:, 0].astype(int), Y[:, 0].astype(int))])
    proxy = kl.kernel_pca(kernel, kl.Points(places[::-1]))
    assert proxy.negative_eigenvalue == pytest.approx(-0.5)


def test_what_the_columns_do_not_show_is_not_seen():
    """Pivoted Cholesky of small rank looks at few columns; the guide says so."""
    gram = np.eye(100)
    gram[98, 99] = gram[99, 98] = 1.5
    kernel = Own(lambda X, Y: gram[np.ix_(X[:, 0].astype(int), Y[:, 0].astype(int))])
    points = kl.Points(np.arange(100.0)[:, None])
    assert kl.pivoted_cholesky(kernel, points, rank=3).is_certified
    assert not kl.pivoted_cholesky(kernel, points, rank=99).is_certified


HONEST = {
    "wide Gaussian": (kl.Gaussian(100.0), X),
    "narrow Gaussian": (kl.Gaussian(1e-3), X),
    "three of each": (kl.Gaussian(0.3), np.repeat(X, 3, axis=0)),
    "equal to rounding": (kl.Gaussian(0.3), np.vstack([X, X + 1e-15])),
    "far from the origin": (kl.Polynomial(3), X + 1e4),
    "high degree": (kl.Polynomial(8, 0.5), 10 * X),
    "a line": (kl.Quadratic(), np.outer(np.linspace(-1, 1, 30), [1.0, 2.0])),
    "one point": (kl.Linear(), np.ones((1, 2))),
    "rough": (kl.Matern(0.1, 0.5), X),
    "single precision": (kl.Gaussian(1.0), X.astype(np.float32)),
    "huge": (1e70 * kl.Gaussian(0.3), X),
    "tiny": (1e-70 * kl.Gaussian(0.3), X),
}


@pytest.mark.parametrize("make", [kl.kernel_pca, kl.pivoted_cholesky])
@pytest.mark.parametrize("case", HONEST)
def test_honest_kernels_are_not_accused(make, case):
    kernel, points = HONEST[case]
    proxy = make(kernel, kl.Points(points))
    assert proxy.is_certified
    assert proxy.negative_eigenvalue == 0.0
    assert math.isfinite(proxy.epsilon)


# Learners.


@pytest.mark.parametrize("learner", [kl.BanditExpWeights, kl.InsuredBandit])
@pytest.mark.parametrize("proxy", [None, "kernel_pca"])
def test_bandit_guarantees_say_so(learner, proxy):
    kernel = Own(NOT_KERNELS["sigmoid"])
    player = learner(POINTS, kernel, horizon=50, loss_range=(0, 1), proxy=proxy)
    player.tell(player.ask(), 0.5)
    for found in (player, type(player).from_state(player.state())):
        bound = found.guarantee()
        assert not bound.valid
        assert "an eigenvalue is -" in str(bound)
        assert math.isfinite(bound.total)


def test_exponential_weights_on_points_need_nothing_of_the_kernel():
    assert kl.ExpWeights(POINTS, Own(NOT_KERNELS["sigmoid"]), horizon=50).guarantee().valid
