"""Statistics of tests: one level for all, and whether data agree with a law or differ from it.

A function `by_...` gives the p-value of a test: the probability of data that are at least as far off, were the law true. Where it
is given several comparisons at once, it gives one for each, and `agrees` and `differs` count them (Bonferroni). A statement and its
control read alike:

    assert agrees(by_counts(counts, p))
    assert differs(by_counts(counts, p[::-1]))

`differs` is not the denial of luck but evidence: data from the law itself are called different with probability LEVEL at most, as
often as `agrees` raises a false alarm. Seeds are fixed, so that either happens always or never; `KOLOSS_SEED=7` shifts those
that are made by `seed`, of the fixture `rng` among them.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from scipy import stats

LEVEL = 1e-6
"""Probability of a false alarm, of one test."""

FEWEST = 5
"""Counts that are expected at the least in a cell of the chi-square test: rarer ones are put together."""


def seed(number: int) -> int:
    """A seed that is fixed, unless the environment variable KOLOSS_SEED shifts it."""
    return number + int(os.environ.get("KOLOSS_SEED", "0"))


def agrees(p: Any, among: int = 1) -> bool:
    """Whether p-values are no evidence against the law; `among` so many times as many comparisons as are given."""
    return bool(_together(p, among) > LEVEL)


def differs(p: Any, among: int = 1) -> bool:
    """Whether p-values are evidence against the law: what a control must show."""
    return bool(_together(p, among) < LEVEL)


def _together(p: Any, among: int) -> float:
    values = np.asarray(p, dtype=float)
    assert values.size, "there must be a comparison"
    assert not np.isnan(values).any(), "a p-value must be a number"
    return float(values.min() * values.size * among)


def by_errors(errors: Any) -> Any:
    """Of numbers that are off by so many standard errors: means of many, which are as good as normal."""
    return 2 * stats.norm.sf(np.abs(errors))


def by_mean(sample: Any, mean: Any) -> Any:
    """Of the mean of a sample against what it should be, by Student's law; of each column where there are several."""
    return np.asarray(stats.ttest_1samp(np.asarray(sample), mean, axis=0).pvalue)


def by_excess(sample: Any, most: Any) -> Any:
    """Of a mean that should be at most this: small where the sample's is larger beyond luck."""
    test = stats.ttest_1samp(np.asarray(sample), most, axis=0, alternative="greater")
    return np.asarray(test.pvalue)


def by_share(count: Any, trials: int, share: Any, alternative: str = "two-sided") -> Any:
    """Of how often something happened in independent trials, exactly; too often alone where the alternative is "greater"."""
    pairs = np.broadcast(np.asarray(count), np.asarray(share))
    values = [stats.binomtest(int(c), trials, float(s), alternative).pvalue for c, s in pairs]
    return np.array(values).reshape(pairs.shape)


def by_counts(counts: Any, weights: Any = None) -> float:
    """Of how often each of several things happened against their probabilities, or multiples of these; equal where not given."""
    counts = np.asarray(counts)
    weights = np.ones(counts.shape) if weights is None else np.asarray(weights, dtype=float)
    expected = counts.sum() * weights / weights.sum()
    if np.any(counts[expected == 0]):  # what cannot happen has
        return 0.0
    counts, expected = counts[expected > 0], expected[expected > 0]
    order = np.argsort(expected, kind="stable")
    counts, expected = counts[order], expected[order]
    sums = np.cumsum(expected)
    few = int(np.searchsorted(expected, FEWEST))
    if few:  # with as many others as it takes
        few = max(few, int(np.searchsorted(sums, FEWEST)) + 1)
        counts = np.append(counts[few:], counts[:few].sum())
        expected = np.append(expected[few:], expected[:few].sum())
    assert len(counts) > 1, "there must be two cells in which something is expected"
    return float(stats.chisquare(counts, expected * (counts.sum() / expected.sum())).pvalue)


def by_law(sample: Any, cdf: Any) -> float:
    """Of independent numbers against a continuous law (Kolmogorov and Smirnov)."""
    return float(stats.kstest(sample, cdf).pvalue)


def by_laws(sample: Any, other: Any) -> float:
    """Of two samples of independent numbers against having one law."""
    return float(stats.ks_2samp(sample, other).pvalue)
