"""Kernels of the user's own: a dataclass derived from `Kernel`, and any object with two methods."""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.testing import assert_allclose

import koloss as kl
from koloss.errors import NoFiniteFeatures


@dataclass(frozen=True)
class Brownian(kl.Kernel):
    """K(x, y) = scale · min(x, y) on the half-line: covariance of Brownian motion."""

    scale: float = 1.0

    def _gram(self, X, Y, xp):
        return self.scale * xp.minimum(X[:, 0, None], Y[None, :, 0])

    def _diagonal(self, X, xp):
        return self.scale * X[:, 0]


class Bare:
    """Not a `Kernel` at all: the covariance of a Brownian bridge."""

    def __call__(self, X, Y=None):
        Y = X if Y is None else Y
        return np.minimum(X, Y.T) - X * Y.T

    def diag(self, X):
        return X[:, 0] - X[:, 0] ** 2


class EvenLoss(kl.Loss):
    """ℓ(a) = c a² on the line: a family of the user's own."""

    _coordinates = ("coefficient",)

    def __init__(self, coefficient):
        self.coefficient = np.asarray(coefficient, dtype=float)

    @property
    def kernel(self):
        return Even()

    @property
    def dimension(self):
        return 1

    def _evaluate(self, X):
        return self.coefficient * X[:, 0] ** 2

    def gradient(self, X):
        return 2 * self.coefficient * np.asarray(X)


@dataclass(frozen=True)
class Even(kl.Kernel):
    """K(x, y) = x²y² on the line."""

    loss_family = EvenLoss

    def _gram(self, X, Y, xp):
        return X**2 @ (Y**2).T

    def _diagonal(self, X, xp):
        return X[:, 0] ** 4

    def _embed(self, X, weights):
        return EvenLoss(weights @ X[:, 0] ** 2)


X = np.array([[0.3], [1.0], [2.5]])


def test_algebra_and_plain_data():
    kernel = 2.0 * (Brownian(3.0) + kl.Gaussian(1.0)) * kl.Linear()
    expected = 2 * (3 * np.minimum(X, X.T) + kl.Gaussian(1.0)(X)) * (X @ X.T)
    assert_allclose(kernel(X), expected)
    assert_allclose(kernel.diag(X), np.diag(expected))
    assert kl.Kernel.from_dict(json.loads(json.dumps(kernel.to_dict()))) == kernel
    assert kl.Kernel.from_dict({"kind": "Brownian"}) == Brownian(1.0)


def test_losses():
    kernel = Brownian(2.0)
    loss = kl.KernelLoss(kernel, [[1.0], [2.0]], [1.0, -0.5])
    assert_allclose(loss([[0.5], [3.0]]), [2 * (0.5 - 0.25), 2 * (1 - 1)])
    assert_allclose(loss.norm() ** 2, 2 * (1 + 0.25 * 2 - 2 * 0.5 * 1))
    assert_allclose(kernel.embed([1.5])([[1.0]]), [2.0])
    assert kl.Loss.from_dict(json.loads(json.dumps(loss.to_dict()))) == loss
    assert (loss - loss).norm() == 0.0


def test_a_family_of_losses():
    kernel, Y = Even(), X[:2]
    a, b = kernel.embed(Y, [1.0, -2.0]), kernel.bump([2.0], -3.0)
    assert type(a) is kernel.loss_family
    assert kernel.own_loss(kl.KernelLoss(kernel, Y, [1.0, -2.0])) == a
    assert_allclose(a(X), kernel(X, Y) @ [1.0, -2.0])
    assert_allclose(b(X), -3 * X[:, 0] ** 2)
    assert a.inner(b) == pytest.approx(a.coefficient * b.coefficient)
    for loss in (a + b, kl.Loss.total([a, b])):
        assert_allclose(loss(X), a(X) + b(X))
    assert_allclose(kl.Loss.table([a, b], X), [a(X), b(X)])
    assert kl.Loss.from_dict(json.loads(json.dumps((2 * a).to_dict()))) == 2 * a
    assert kl.Loss.kinds()["EvenLoss"] is EvenLoss


def test_bound_is_known_on_points_alone():
    kernel = Brownian(2.0)
    assert kernel.bound(kl.Points(X)) == 5.0
    with pytest.raises(TypeError, match=r"Brownian\(scale=2.0\) has no closed-form bound on Box"):
        kernel.bound(kl.Box([0], [1]))
    with pytest.raises(TypeError, match=r"has no closed-form bound on Box.*use actions.net"):
        (kernel + kl.Linear()).bound(kl.Box([0], [1]))


def test_what_is_not_there_is_said():
    kernel = Brownian()
    with pytest.raises(TypeError, match=r"Brownian\(scale=1.0\) has no gradient"):
        kernel.gradient(X)
    with pytest.raises(TypeError, match=r"Brownian\(scale=1.0\) has no Lipschitz constant on"):
        kernel.lipschitz(kl.Points(X))
    with pytest.raises(NoFiniteFeatures, match=r"Brownian\(scale=1.0\) has no finite feature map"):
        kernel.features(X)
    assert kernel.feature_dimension(1) is None
    with pytest.raises(ValueError, match=r"`X` must be 2-D, got ndim=1; for scalar points pass"):
        kernel([1.0, 2.0])


def test_an_abstract_kernel_cannot_be_made():
    class Half(kl.Kernel):
        def _gram(self, X, Y, xp):
            return X @ Y.T

    with pytest.raises(TypeError, match="_diagonal"):
        Half()


@pytest.mark.parametrize("construct", [kl.kernel_pca, kl.pivoted_cholesky])
def test_bare_object_is_kernel_like_and_has_a_proxy(construct):
    assert isinstance(Bare(), kl.KernelLike)
    assert isinstance(kl.Linear(), kl.KernelLike)
    assert not isinstance(np.dot, kl.KernelLike)
    actions = kl.Box([0], [1]).net(0.02)
    proxy = construct(Bare(), actions, tolerance=0.01)
    gram = Bare()(actions.X)
    error = np.abs(proxy.features @ proxy.features.T - gram).max()
    assert error == pytest.approx(proxy.epsilon)
    assert error <= proxy.epsilon <= 0.01
    assert proxy.rank < len(actions)
    assert_allclose(proxy(actions.X[7:9]), proxy.features[7:9], atol=1e-10)
