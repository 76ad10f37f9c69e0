"""Draws on an interval against quadrature, and on a box against truncated exponentials and normals."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from koloss.samplers import separable_box
from koloss.samplers.box import quadratic_interval
from tests.support.densities import interval_distribution
from tests.support.statistics import agrees, by_errors, by_law, differs

ON_UNIT = [  # curvature and slope, on [-1, 1]
    *((0.0, 3.0), (-1.0, 0.3), (-0.3, 0.1), (-0.05, 2.0), (-50.0, 10.0), (-50.0, 120.0)),
    *((-50.0, -99.0), (-50.0, 1000.0), (-1e8, 0.0), (-1e8, 1e8), (-1e8, 2e8), (-1e8, 2.0002e8)),
    *((-1e8, 1e10), (1.0, 0.3), (1e-9, -0.2), (20.0, 0.5), (20.0, 39.0), (20.0, -60.0)),
    *((1e8, 0.3), (1e8, -0.3)),
]
CASES = [  # curvature, slope, lower, upper
    *((*pair, -1.0, 1.0) for pair in ON_UNIT),
    *((0.0, 0.0, -1.0, 2.0), (0.0, -1e8, 0.0, 1.0), (0.0, 1e-12, 0.0, 1.0)),
    *((-1e8, 2e8 * 3e-5, 0.0, 1e-4), (-1e8, 0.0, 0.3, 0.7), (1e4, 0.4, -1e-4, 1e-4)),
    *((1e8, 2e8, -1.0, 0.5), (1e8, -5e9, -1.0, 0.5)),
]


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=str)
def test_draws_on_an_interval_are_exact(case):
    c, b, lower, upper = case

    def log_density(t):  # measured from the higher end: the reference keeps its digits too
        end = upper if c * (upper**2 - lower**2) + b * (upper - lower) > 0 else lower
        return (t - end) * (c * (t + end) + b)

    mode = [m for m in ([-b / (2 * c)] if c else []) if lower < m < upper]
    reference = interval_distribution(log_density, lower, upper, mode)
    t = quadratic_interval(np.full(40_000, c), b, lower, upper, rng=7)
    assert np.all((lower <= t) & (t <= upper))
    assert agrees(by_law(t, reference))
    # Negative control: squeezed by six percent towards the lower end.
    assert differs(by_law(lower + (t - lower) * 0.94, reference))


def test_mixed_cases_in_one_call_and_repeatable():
    c, b, lower, upper = np.array(CASES).T
    first = quadratic_interval(c, b, lower, upper, rng=0)
    assert np.array_equal(first, quadratic_interval(c, b, lower, upper, rng=0))
    assert np.all((first >= lower) & (first <= upper))


@pytest.mark.parametrize("c", [-1e300, -1e-300, 0.0, 1e-300, 1e300])
@pytest.mark.parametrize("b", [-1e300, 0.0, 1e-300, 1e300])
def test_extreme_numbers(c, b):
    t = quadratic_interval(np.full(100, c), b, -1.0, 1.0, rng=0)
    assert np.all(np.abs(t) <= 1)


def test_an_interval_of_length_zero():
    assert quadratic_interval([1e8, 0.0, -3.0], 1.0, 0.25, 0.25).tolist() == [0.25] * 3


def test_bad_intervals():
    with pytest.raises(ValueError, match="`curvature` must be finite"):
        quadratic_interval(np.nan, 0.0, 0.0, 1.0)
    with pytest.raises(TypeError, match="`upper` must hold real numbers, got dtype complex"):
        separable_box([1.0, 1.0], 0.0, 0.0, 1j, 3)
    with pytest.raises(ValueError, match="`lower` must not exceed `upper`, got 1 > 0 at 0"):
        quadratic_interval(0.0, 0.0, 1.0, 0.0)
    with pytest.raises(ValueError, match="overflow"):
        quadratic_interval(1e300, 0.0, 0.0, 1e10)


# Boxes.


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
    with pytest.raises(ValueError, match="`slope` must be finite"):
        separable_box([0.0], [np.nan], [0.0], [1.0], 3)
