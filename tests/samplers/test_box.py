"""Independent coordinates on a box, against the distribution functions of truncated exponentials and normals."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from koloss.samplers import separable_box
from tests.support.statistics import agrees, by_errors, by_law, differs


def test_each_coordinate_has_its_own_density():
    curvature, slope = np.array([0.0, -8.0, 0.0]), np.array([5.0, 4.0, 0.0])
    lower, upper = np.array([-1.0, -2.0, 3.0]), np.array([2.0, 1.0, 4.0])
    x = separable_box(curvature, slope, lower, upper, 5000, rng=1)
    assert np.all((x >= lower) & (x <= upper))

    def exponential(t):
        return np.expm1(5 * (t + 1)) / np.expm1(15)

    # exp(-8t² + 4t) is a normal around 1/4 with variance 1/16, cut to [-2, 1]
    normal = stats.truncnorm((-2 - 0.25) / 0.25, (1 - 0.25) / 0.25, loc=0.25, scale=0.25)
    for i, cdf in enumerate([exponential, normal.cdf, lambda t: t - 3]):
        assert agrees(by_law(x[:, i], cdf), among=6)
    correlations = np.corrcoef(x.T)[np.triu_indices(3, 1)]
    assert agrees(by_errors(correlations * np.sqrt(5000)))
    assert differs(by_law(x[:, 0], lambda t: (t + 1) / 3), among=6)  # negative control


def test_sides_of_length_zero_and_bad_input():
    x = separable_box([0.0, 0.0], [1.0, 1.0], [0.0, 2.0], [1.0, 2.0], 10, rng=0)
    np.testing.assert_array_equal(x[:, 1], 2.0)
    with pytest.raises(ValueError, match="`size` must be at least 1"):
        separable_box([0.0], [1.0], [0.0], [1.0], 0)
    with pytest.raises(ValueError, match="`lower` must not exceed `upper`"):
        separable_box([0.0], [1.0], [2.0], [1.0], 3)
    with pytest.raises(ValueError, match="`slope` must be finite"):
        separable_box([0.0], [np.nan], [0.0], [1.0], 3)
