"""The statistics of tests themselves: each finds what is wrong, and lets pass what is right, as often as it says."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from tests.support.statistics import (
    LEVEL,
    agrees,
    by_counts,
    by_errors,
    by_excess,
    by_law,
    by_laws,
    by_mean,
    by_share,
    differs,
)

P = np.array([0.4, 0.3, 0.2, 0.1])
NEAR = np.array([0.03, -0.03, 0.0, 0.0])


def right_and_wrong(rng):
    """For each test a p-value of what is true, and one of what is not, by little."""
    counts = rng.multinomial(20_000, P)
    x, y = rng.standard_normal(20_000), rng.standard_normal(20_000)
    heads = rng.binomial(20_000, 0.3)
    wide = rng.standard_normal((20_000, 3))
    return {
        "counts": (by_counts(counts, P), by_counts(counts, P + NEAR)),
        "equal counts": (by_counts(rng.multinomial(20_000, [0.25] * 4)), by_counts(counts)),
        "a law": (by_law(x, "norm"), by_law(x + 0.06, "norm")),
        "two laws": (by_laws(x, y), by_laws(x, 1.1 * y)),
        "a mean": (by_mean(x, 0.0), by_mean(x, 0.06)),
        "means": (by_mean(wide, [0, 0, 0]), by_mean(wide, [0, 0.06, 0])),
        "an excess": (by_excess(x, 0.0), by_excess(x, -0.06)),
        "a share": (by_share(heads, 20_000, 0.3), by_share(heads, 20_000, 0.32)),
        "errors": (by_errors(x.mean() * math.sqrt(len(x))), by_errors(6.0)),
    }


NAMES = list(right_and_wrong(np.random.default_rng(0)))


@pytest.mark.parametrize("name", NAMES)
def test_what_is_right_agrees_and_what_is_wrong_differs(name):
    right, wrong = right_and_wrong(np.random.default_rng(1))[name]
    assert agrees(right)
    assert not differs(right)
    assert differs(wrong)
    assert not agrees(wrong)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_p_value_is_below_a_tenth_in_a_tenth_of_all_cases(name):
    """Of 400 cases, by an exact binomial test: no more often, and hardly less often, than a p-value promises."""
    rng = np.random.default_rng(2)
    cases = [right_and_wrong_quickly(rng, name) for _ in range(400)]
    assert agrees(by_share(sum(p < 0.1 for p in cases), 400, 0.1))
    assert differs(by_share(sum(p < 0.3 for p in cases), 400, 0.1))  # control


def right_and_wrong_quickly(rng, name):
    x, y = rng.standard_normal(500), rng.standard_normal(500)
    return {
        "counts": lambda: by_counts(rng.multinomial(500, P), P),
        "equal counts": lambda: by_counts(rng.multinomial(500, [0.25] * 4)),
        "a law": lambda: by_law(x, "norm"),
        "two laws": lambda: by_laws(x, y),
        "a mean": lambda: by_mean(x, 0.0),
        "means": lambda: by_mean(x.reshape(-1, 5), np.zeros(5))[0],
        "an excess": lambda: by_excess(x, 0.0),
        "a share": lambda: by_share(rng.binomial(500, 0.3), 500, 0.3),
        "errors": lambda: by_errors(x[0]),
    }[name]()


def test_many_comparisons_count():
    assert agrees(2 * LEVEL)
    assert agrees([2.1 * LEVEL, 1.0])
    assert agrees(0.6 * LEVEL, among=2)
    assert differs(0.4 * LEVEL, among=2)
    assert not differs([0.6 * LEVEL, 1.0])
    assert differs([0.4 * LEVEL, 1.0])
    with pytest.raises(AssertionError, match="must be a comparison"):
        agrees([])
    with pytest.raises(AssertionError, match="must be a number"):
        differs(math.nan)


def test_errors_are_those_of_the_normal_law():
    assert by_errors([4.8916, -4.8916]) == pytest.approx(LEVEL, rel=1e-3)


def test_a_share_is_judged_exactly():
    law = stats.binom(10, 0.5)
    tail = law.cdf(1) + law.sf(8)
    assert by_share(1, 10, 0.5) == pytest.approx(tail)
    assert by_share([1, 5], 10, [0.5, 0.5]).tolist() == pytest.approx([tail, 1.0])


def test_cells_in_which_little_is_expected_are_put_together():
    weights = np.array([0.9, 0.0999, 5e-5, 5e-5, 0.0])
    assert by_counts([900, 98, 1, 1, 0], weights) > 0.1
    assert differs(by_counts([800, 160, 20, 20, 0], weights))
    assert by_counts([900, 99, 0, 0, 1], weights) == 0.0  # which cannot be
