"""Effective sample size and R-hat against theory, and against ArviZ where it is installed."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.signal import lfilter

from koloss.samplers.diagnostics import effective_size, r_hat


def autoregressive(phi, chains, n, seed):
    """Stationary chains x_t = φ x_{t-1} + noise."""
    rng = np.random.default_rng(seed)
    noise = rng.standard_normal((chains, n))
    noise[:, 0] /= np.sqrt(1 - phi**2)
    return lfilter([1.0], [1.0, -phi], noise, axis=1)


@pytest.mark.parametrize("phi", [-0.3, 0.0, 0.5, 0.9])
def test_effective_size_of_autoregressive_chains(phi):
    # The estimate scatters by 3 percent at this length (measured), by 5.5 for φ = 0.9: the tolerance is beyond
    # five deviations, a false alarm below 1e-6.
    tolerance = 0.3 if phi == 0.9 else 0.2
    x = autoregressive(phi, 8, 8000, seed=1)
    exact = x.size * (1 - phi) / (1 + phi)
    assert effective_size(x) == pytest.approx(exact, rel=tolerance)
    # Negative control: the same formula for a slightly stickier chain.
    sticky = phi + 0.15 if phi < 0.8 else 0.95
    x = autoregressive(sticky, 8, 8000, seed=1)
    assert effective_size(x) != pytest.approx(exact, rel=tolerance)


def test_r_hat_of_chains_that_agree_and_do_not():
    x = np.random.default_rng(0).standard_normal((4, 2000))
    assert 0.999 < r_hat(x) < 1.005
    assert r_hat(x + np.array([[0.0], [0.0], [0.0], [1.0]])) > 1.05  # location
    assert r_hat(x * np.array([[1.0], [1.0], [1.0], [4.0]])) > 1.05  # scale
    assert r_hat(x + np.linspace(0, 3, 2000)) > 1.05  # drift, seen by splitting


def test_r_hat_matches_the_formula():
    from scipy.special import ndtri

    x = np.random.default_rng(1).permutation(80.0 * np.arange(80)).reshape(4, 20)
    z = ndtri((x / 80 + 1 - 3 / 8) / 80.25)  # x holds its own ranks
    halves = np.concatenate([z[:, :10], z[:, 10:]])
    within, between = halves.var(axis=1, ddof=1).mean(), 10 * halves.mean(axis=1).var(ddof=1)
    assert r_hat(x) >= np.sqrt((9 / 10 * within + between / 10) / within) * (1 - 1e-12)


def test_monotone_transformations_change_nothing():
    x = autoregressive(0.5, 4, 500, seed=2)
    assert effective_size(np.exp(3 * x)) == pytest.approx(effective_size(x), rel=1e-12)
    assert effective_size(-x) == pytest.approx(effective_size(x), rel=1e-9)
    assert r_hat(5 - 2 * x) == pytest.approx(r_hat(x), rel=1e-9)


def test_coordinates_one_by_one():
    x = np.random.default_rng(3).standard_normal((4, 101, 3))
    assert effective_size(x).shape == r_hat(x).shape == (3,)
    assert effective_size(x)[1] == effective_size(x[:, :, 1])
    assert r_hat(x)[2] == r_hat(x[:, :, 2])


@pytest.mark.parametrize("chains", [1, 2, 5])
@pytest.mark.parametrize("n", [4, 5, 6, 7, 20])
def test_short_chains_have_finite_values(chains, n):
    x = np.random.default_rng(4).standard_normal((chains, n))
    assert 0 < effective_size(x) <= x.size * np.log10(x.size) * (1 + 1e-12)
    assert 0 < r_hat(x) < 100


def test_constant_chains():
    assert r_hat(np.ones((3, 10))) == 1.0
    assert effective_size(np.ones((3, 10))) == 1.0
    stuck = np.repeat(np.arange(3.0)[:, None], 10, axis=1)
    assert r_hat(stuck) == np.inf
    assert 0 < effective_size(stuck) < 10
    one_moves = stuck.copy()
    one_moves[0] = np.random.default_rng(0).standard_normal(10)
    assert np.isfinite(r_hat(one_moves))
    assert np.isfinite(effective_size(one_moves))


@pytest.mark.parametrize("statistic", [r_hat, effective_size])
def test_bad_input(statistic):
    with pytest.raises(ValueError, match="`draws` must be 2-D or 3-D, got ndim=1"):
        statistic(np.ones(10))
    with pytest.raises(ValueError, match="4 draws or more"):
        statistic(np.ones((2, 3)))
    with pytest.raises(ValueError, match="`draws` must be finite"):
        statistic(np.full((2, 10), np.nan))


@pytest.mark.filterwarnings("ignore")  # what ArviZ warns of at its import is not ours
@pytest.mark.parametrize("n", [20, 50, 51, 1000])
@pytest.mark.parametrize("phi", [-0.5, 0.0, 0.9])
def test_against_arviz(phi, n):
    arviz = pytest.importorskip("arviz_stats.base").array_stats
    x = autoregressive(phi, 4, n, seed=n)
    assert r_hat(x) == pytest.approx(float(arviz.rhat(x, chain_axis=0, draw_axis=1)), rel=1e-9)
    ess = float(arviz.ess(x, chain_axis=0, draw_axis=1, method="bulk"))
    assert effective_size(x) == pytest.approx(ess, rel=1e-9)
