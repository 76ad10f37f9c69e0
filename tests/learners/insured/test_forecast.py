"""Forecasts against Gaussian-process regression by Gram matrices, the choice between them, long runs."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import koloss as kl
from koloss.learners.insured.forecast import FADED, HANDICAP, MEMORY, Forecaster
from koloss.learners.reading import Reader
from tests.learners.insured.games import LEVEL

X = np.random.default_rng(2).random((25, 2))
FEATURES = kl.kernel_pca(kl.Gaussian(0.6), kl.Points(X), rank=9).features
GRAM = FEATURES @ FEATURES.T


def stream(rounds, seed=0):
    """Actions and losses."""
    rng = np.random.default_rng(seed)
    index = rng.integers(len(X), size=rounds)
    return index, np.sin(5 * X[index, 0]) / 2 + 0.1 * rng.normal(size=rounds)


def fed(index, losses, *, look=False, **settings):
    """A forecaster that has heard all this; looked at in every round, deviations come from increments."""
    forecaster = Forecaster(FEATURES, **settings)
    for i, y in zip(index.tolist(), losses.tolist(), strict=True):
        if look:
            _ = forecaster.deviation
        forecaster.update(i, y)
    return forecaster


def regression(index, losses, discount, ridge, *, prior=1.0):
    """Mean and covariance on all actions: kernel prior / `prior`, noise ridge / discount^k of a loss heard k rounds ago."""
    k = np.arange(len(index), 0, -1)
    K = GRAM / prior
    C = K[np.ix_(index, index)] + np.diag(ridge * discount**-k)
    cross = K[:, index]
    return cross @ np.linalg.solve(C, losses), K - cross @ np.linalg.solve(C, cross.T)


@pytest.mark.parametrize("rounds", [1, 7, 80])
@pytest.mark.parametrize("ridge", [0.05, 0.5])
def test_without_a_discount_it_is_the_gaussian_process(rounds, ridge):
    index, losses = stream(rounds)
    forecaster = fed(index, losses, discounts=(1.0,), ridge=ridge)
    mean, covariance = regression(index, losses, 1.0, ridge)
    np.testing.assert_allclose(forecaster.mean, mean, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(
        FEATURES @ forecaster.covariance @ FEATURES.T, covariance, rtol=1e-7, atol=1e-10
    )
    np.testing.assert_allclose(forecaster.deviation**2, np.diag(covariance), rtol=1e-6, atol=1e-10)
    watched = fed(index, losses, look=True, discounts=(1.0,), ridge=ridge)
    np.testing.assert_allclose(watched.deviation, forecaster.deviation, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("discount", [0.98, 0.9, 0.55])
def test_discounted_losses_and_the_prior_between_and_at_refreshes(discount):
    # The prior's precision fades with the data, and is put back whole once it has lost a factor of FADED.
    index, losses = stream(120, seed=1)
    forecaster = Forecaster(FEATURES, discounts=(discount,), ridge=0.05)
    precision, refreshes, naive_is_off = 1.0, 0, 0.0
    for t in range(120):
        forecaster.update(int(index[t]), float(losses[t]))
        precision *= discount
        if 1 / precision > FADED:
            precision, refreshes = 1.0, refreshes + 1
        assert forecaster.scale[0] == pytest.approx(1 / precision)
        seen = index[: t + 1], losses[: t + 1], discount, 0.05
        mean, covariance = regression(*seen, prior=precision)
        np.testing.assert_allclose(forecaster.mean, mean, rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(
            forecaster.deviation**2, np.diag(covariance), rtol=1e-6, atol=1e-9
        )
        naive_is_off = max(naive_is_off, float(np.abs(mean - regression(*seen)[0]).max()))
    assert refreshes >= 3
    assert naive_is_off > 1e-3  # negative control: whether the prior has faded can be told


def test_the_prior_never_fades_for_good():
    # Without refreshes an action unheard of for long would have a deviation without end.
    forecaster = Forecaster(np.eye(2), discounts=(0.9,), ridge=0.05)
    for _ in range(300):
        forecaster.update(0, 0.3)
    assert 1 <= forecaster.deviation[1] <= np.sqrt(FADED) * (1 + 1e-12)
    assert forecaster.mean[1] == 0


def test_several_regressions_do_not_disturb_each_other():
    # And who is trusted: squared one-step errors, forgotten at MEMORY, times HANDICAP for every place in the list.
    index, losses = stream(200, seed=4)
    losses[100:] += 0.4  # a change: those that forget do better for a while
    terms = ((1.0, 0.05), (1.0, 0.5), (0.98, 0.05), (0.8, 0.05))
    discounts, ridges = zip(*terms, strict=True)
    together = Forecaster(FEATURES, discounts=discounts, ridge=ridges)
    apart = [Forecaster(FEATURES, discounts=(d,), ridge=r) for d, r in terms]
    errors, trusted = np.zeros(4), []
    for i, y in zip(index.tolist(), losses.tolist(), strict=True):
        _ = together.deviation
        errors = MEMORY * errors + (y - np.array([one.mean[i] for one in apart])) ** 2
        for one in (together, *apart):
            one.update(i, y)
        np.testing.assert_allclose(together.errors, errors, rtol=1e-7)
        assert together.trusted == np.argmin(errors * HANDICAP ** np.arange(4))
        trusted.append(together.trusted)
        chosen = apart[together.trusted]
        np.testing.assert_allclose(together.mean, chosen.mean, rtol=1e-8, atol=1e-11)
        np.testing.assert_allclose(together.deviation, chosen.deviation, rtol=1e-7, atol=1e-9)
    for mean, one in zip(together.means, apart, strict=True):
        np.testing.assert_allclose(mean, one.means[0], rtol=1e-12)
    assert trusted[99] < 2
    assert max(trusted[100:130]) > 1


def test_before_anything_is_heard_it_is_the_prior():
    forecaster = Forecaster(FEATURES)
    np.testing.assert_array_equal(forecaster.mean, np.zeros(25))
    np.testing.assert_allclose(forecaster.deviation**2, np.diag(GRAM), rtol=1e-12)
    assert forecaster.trusted == 0


def test_samples_have_the_posterior_law():
    index, losses = stream(12, seed=5)
    forecaster = fed(index, losses, discounts=(0.97,), ridge=0.05)
    scale, count = 0.6, 4000
    rng = np.random.default_rng(6)
    draws = np.stack([forecaster.sample(rng, scale) for _ in range(count)])

    def statistic(deviation):
        """Of whitened draws in feature space: squared norms are chi-squared, so is their sum."""
        whitened = np.linalg.solve(
            deviation * np.linalg.cholesky(forecaster.covariance),
            np.linalg.lstsq(FEATURES, (draws - forecaster.mean).T, rcond=None)[0],
        )
        return float(np.sum(whitened**2)), whitened

    total, whitened = statistic(scale)
    low, high = stats.chi2(9 * count).ppf([LEVEL / 4, 1 - LEVEL / 4])
    assert low < total < high
    # its mean, and that its coordinates are uncorrelated: 9 + 36 normal comparisons
    z = stats.norm.isf(LEVEL / 4 / 45)
    assert np.abs(whitened.mean(axis=1)).max() < z / np.sqrt(count)
    off = (whitened @ whitened.T / count)[np.triu_indices(9, 1)]
    assert np.abs(off).max() < 1.1 * z / np.sqrt(count)
    assert not low < statistic(scale * 1.05)[0] < high  # negative control


def test_the_same_seed_draws_the_same_sample():
    forecaster = Forecaster(FEATURES)
    first, second = (forecaster.sample(np.random.default_rng(3)) for _ in range(2))
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("discount", [1.0, 0.98, 0.9])
def test_long_runs_stay_accurate(discount):
    # 20,000 rank-one steps against normal equations made afresh.
    n, ridge = 20_000, 0.05
    index, losses = stream(n, seed=7)
    index[5000:15_000] = index[5000:15_000] % 3  # most actions unheard of for long
    forecaster = Forecaster(FEATURES, discounts=(discount,), ridge=ridge)
    _ = forecaster.deviation
    for i, y in zip(index.tolist(), losses.tolist(), strict=True):
        forecaster.update(i, y)
    weight = discount ** np.arange(n, 0, -1)
    Phi = FEATURES[index]
    precision = np.eye(9) / forecaster.scale[0] + Phi.T @ (weight[:, None] * Phi) / ridge
    mean = np.linalg.solve(precision, Phi.T @ (weight * losses) / ridge)
    np.testing.assert_allclose(forecaster.mean, FEATURES @ mean, rtol=1e-7, atol=1e-9)
    variance = np.einsum("ij,ij->i", FEATURES, np.linalg.solve(precision, FEATURES.T).T)
    np.testing.assert_allclose(forecaster.deviation, np.sqrt(variance), rtol=1e-5)
    covariance = forecaster.covariance
    np.testing.assert_allclose(covariance, covariance.T)
    assert np.linalg.eigvalsh(covariance).min() > 0


def test_what_was_handed_out_is_not_changed_later():
    # Rounds keep the prediction they were made with.
    forecaster = Forecaster(FEATURES, discounts=(1.0, 0.9))
    index, losses = stream(60, seed=8)
    kept = []
    for i, y in zip(index, losses, strict=True):
        mean, deviation = forecaster.mean, forecaster.deviation
        kept.append((mean, mean.copy(), deviation, deviation.copy()))
        forecaster.update(int(i), float(y))
    for mean, mean_then, deviation, deviation_then in kept:
        np.testing.assert_array_equal(mean, mean_then)
        np.testing.assert_array_equal(deviation, deviation_then)


def test_snapshots_go_on_exactly():
    index, losses = stream(160, seed=9)
    one = Forecaster(FEATURES, discounts=(1.0, 0.95, 0.8), ridge=(0.05, 0.1, 0.05))
    both = [one]
    for t in range(160):
        if t == 77:
            two = Forecaster.from_state(np.asfortranarray(FEATURES), Reader(one.state()))
            both.append(two)
        for forecaster in both:
            forecaster.update(int(index[t]), float(losses[t]))
            if t % 3 == 0:
                _ = forecaster.deviation
    np.testing.assert_array_equal(one.mean, two.mean)
    np.testing.assert_array_equal(one.deviation, two.deviation)
    assert one.trusted == two.trusted
    assert one.scale == two.scale


def test_a_snapshot_is_a_copy():
    forecaster = Forecaster(FEATURES)
    state = forecaster.state()
    kept = [C.copy() for C in state["covariances"]]
    forecaster.update(3, 0.5)
    for C, then in zip(state["covariances"], kept, strict=True):
        np.testing.assert_array_equal(C, then)
