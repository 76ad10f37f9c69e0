"""`sum` works on kernels and losses, as a cumulative loss wants it."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import koloss as kl


def test_sum_of_losses():
    losses = [kl.LinearLoss([1.0, k]) for k in range(4)]
    assert sum(losses) == kl.LinearLoss([4.0, 6.0])
    with pytest.raises(TypeError):
        1 + losses[0]


def test_sum_of_kernels():
    total = sum([kl.Linear(), kl.Gaussian(1.0), kl.Quadratic()])
    X = np.array([[1.0], [2.0]])
    assert_allclose(total(X), kl.Linear()(X) + kl.Gaussian(1.0)(X) + kl.Quadratic()(X))
    with pytest.raises(TypeError):
        1 + kl.Linear()
