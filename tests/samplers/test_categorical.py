"""Draws from weights given as logarithms."""

from __future__ import annotations

import numpy as np
import pytest

from koloss.samplers.categorical import categorical, systematic
from tests.support.statistics import LEVEL, agrees, by_counts, differs

INF = float("inf")


@pytest.mark.parametrize("shift", [0.0, 1e5, -1e5, 1e15])
def test_frequencies_at_any_scale(shift):
    logs = np.log([0.1, 0.2, 0.3, 0.4]) if shift < 1e10 else np.array([0.0, 1.0, -1.0, 2.0])
    p = np.exp(logs) / np.exp(logs).sum()
    counts = np.bincount(categorical(logs + shift, 100_000, rng=1), minlength=4)
    assert agrees(by_counts(counts, 100_000 * p))
    # Negative control: the weights in the wrong order.
    assert differs(by_counts(counts, 100_000 * p[::-1]))


def test_against_inversion_by_hand():
    logs = np.random.default_rng(0).normal(size=50) * 5
    drawn = categorical(logs, 1000, rng=np.random.default_rng(3))
    p = np.exp(logs - logs.max())
    p /= p.sum()
    uniform = np.random.default_rng(3).random(1000)
    by_hand = [next(i for i in range(50) if p[: i + 1].sum() > u) for u in uniform]
    assert drawn.tolist() == by_hand


def test_weights_of_zero_are_never_drawn():
    logs = [-INF, 0.0, -INF, 0.0, -INF]
    assert set(categorical(logs, 10_000, rng=0).tolist()) == {1, 3}
    assert set(categorical([1e308, -1e308], 100, rng=0).tolist()) == {0}
    assert categorical([-1e300], 5, rng=0).tolist() == [0] * 5


@pytest.mark.parametrize("draw", [categorical, systematic])
@pytest.mark.parametrize(
    "logs, message",
    [
        ([0.0, float("nan")], r"`log_weights` must be finite or -inf, got nan at 1"),
        ([INF, 0.0], r"`log_weights` must be finite or -inf, got inf at 0"),
        ([-INF, -INF], r"must not all be -inf"),
        ([], r"must not be empty"),
        ([[0.0]], r"must be 1-D, got ndim=2"),
    ],
)
def test_bad_weights(draw, logs, message):
    with pytest.raises(ValueError, match=message):
        draw(logs, 1)


def test_bad_types():
    with pytest.raises(TypeError, match="`log_weights` must be an array of real numbers"):
        categorical(["a"], 1)
    with pytest.raises(TypeError, match="`log_weights` must be an array of real numbers"):
        categorical([1j], 1)
    with pytest.raises(ValueError, match="`size` must be at least 0, got -1"):
        categorical([0.0], -1)


def test_size_zero_and_seeds():
    assert categorical([0.0], 0, rng=0).shape == (0,)
    logs = np.arange(10.0)
    for make in (int, np.random.default_rng):
        first, second = (categorical(logs, 20, rng=make(5)).tolist() for _ in range(2))
        assert first == second


def test_systematic_counts_are_within_one_and_right_on_average():
    p = np.random.default_rng(0).dirichlet(np.ones(30))
    counts = np.stack(
        [np.bincount(systematic(np.log(p), 100, rng=i), minlength=30) for i in range(500)]
    )
    assert np.all(np.abs(counts - 100 * p) < 1)
    # Each count is one of two neighbours: Hoeffding over 30 means at the level.
    radius = np.sqrt(np.log(2 * 30 / LEVEL) / (2 * 500))
    assert np.all(np.abs(counts.mean(axis=0) - 100 * p) < radius)
