"""Forecasts against Gaussian processes by Gram matrices, evidence by normal densities, the choice between them, long runs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import integrate, stats

import koloss as kl
from koloss.learners.insured.bandwidths import (
    CONSTANT,
    DOUBT,
    PRECAUTION,
    Priors,
    forecast_space,
    narrower,
)
from koloss.learners.insured.forecast import (
    HANDICAP,
    MARGIN,
    MEMORY,
    NOISES,
    TAILS,
    UNUSUAL,
    USUAL,
    Forecaster,
    forecaster_for,
)
from koloss.learners.insured.regression import FADED, GUESSED, UNIFORM, Regression
from tests.support import inside
from tests.support.statistics import LEVEL

X = np.random.default_rng(2).random((25, 2))
FEATURES = kl.kernel_pca(kl.Gaussian(0.6), kl.Points(X), rank=9).features
GRAM = FEATURES @ FEATURES.T


def stream(rounds, seed=0, noise=0.1):
    """Actions and losses."""
    rng = np.random.default_rng(seed)
    index = rng.integers(len(X), size=rounds)
    return index, np.sin(5 * X[index, 0]) / 2 + noise * rng.normal(size=rounds)


def feed(forecaster, index, losses, *, look=False):
    """Tell it all this; looked at in every round, deviations come from increments."""
    for i, y in zip(index.tolist(), losses.tolist(), strict=True):
        if look:
            _ = forecaster.deviation
        forecaster.update(i, y)
    return forecaster


def regression(index, losses, discount, ridge, *, prior=1.0, gram=GRAM):
    """Mean and covariance on all actions: kernel prior / `prior`, noise ridge / discount^k of a loss heard k rounds ago."""
    k = np.arange(len(index), 0, -1)
    K = gram / prior
    C = K[np.ix_(index, index)] + np.diag(ridge * discount**-k)
    cross = K[:, index]
    return cross @ np.linalg.solve(C, losses), K - cross @ np.linalg.solve(C, cross.T)


# One regression.


@pytest.mark.parametrize("rounds", [1, 7, 80])
@pytest.mark.parametrize("ridge", [0.05, 0.5])
def test_without_a_discount_it_is_the_gaussian_process(rounds, ridge):
    index, losses = stream(rounds)
    one = feed(Regression(FEATURES, ridge=ridge), index, losses)
    mean, covariance = regression(index, losses, 1.0, ridge)
    np.testing.assert_allclose(one.mean, mean, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(
        FEATURES @ one.covariance @ FEATURES.T, covariance, rtol=1e-7, atol=1e-10
    )
    np.testing.assert_allclose(one.deviation**2, np.diag(covariance), rtol=1e-6, atol=1e-10)
    watched = feed(Regression(FEATURES, ridge=ridge), index, losses, look=True)
    np.testing.assert_allclose(watched.deviation, one.deviation, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("discount", [1.0, 0.95])
def test_another_prior_and_noise_are_as_if_they_had_been_there_from_the_start(discount):
    index, losses = stream(60, seed=3)
    root = np.asfortranarray(np.random.default_rng(1).normal(size=(9, 9)))
    one = feed(Regression(FEATURES, discount=discount), index, losses)
    one.fit(root, 0.3)
    seen = index, losses, discount, 0.3
    mean, covariance = regression(*seen, gram=FEATURES @ root @ root.T @ FEATURES.T)
    np.testing.assert_allclose(one.mean, mean, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(one.deviation**2, np.diag(covariance), rtol=1e-6, atol=1e-9)
    assert np.abs(regression(*seen)[0] - mean).max() > 1e-2  # negative control: the prior matters


@pytest.mark.parametrize("discount", [0.98, 0.9, 0.55])
def test_discounted_losses_and_the_prior_between_and_at_refreshes(discount):
    # The prior's precision fades with the data, and is put back whole once it has lost a factor of FADED.
    index, losses = stream(120, seed=1)
    one = Regression(FEATURES, discount=discount, ridge=0.05)
    precision, refreshes, naive_is_off = 1.0, 0, 0.0
    for t in range(120):
        one.update(int(index[t]), float(losses[t]))
        precision *= discount
        if 1 / precision > FADED:
            precision, refreshes = 1.0, refreshes + 1
        assert one.scale == pytest.approx(1 / precision)
        seen = index[: t + 1], losses[: t + 1], discount, 0.05
        mean, covariance = regression(*seen, prior=precision)
        np.testing.assert_allclose(one.mean, mean, rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(one.deviation**2, np.diag(covariance), rtol=1e-6, atol=1e-9)
        # y'(K/prior + Λ)⁻¹y of the whole weighted sample is the misfit, by steps of rank one
        weights = discount ** np.arange(t + 1, 0, -1)
        C = GRAM[np.ix_(seen[0], seen[0])] / precision + np.diag(0.05 / weights)
        assert one.misfit == pytest.approx(seen[1] @ np.linalg.solve(C, seen[1]), rel=1e-6)
        naive_is_off = max(naive_is_off, float(np.abs(mean - regression(*seen)[0]).max()))
    assert refreshes >= 3
    assert naive_is_off > 1e-3  # negative control: whether the prior has faded can be told


def test_the_evidence_is_the_marginal_likelihood():
    # Normal densities with covariance s²(K + λI), integrated over s² by quadrature, against the closed form: one constant apart.
    # The guess is an inverse gamma law of s²; the constant in the losses takes one of them, as if they were one fewer.
    rounds, (index, losses) = 12, stream(12, seed=5)
    one = feed(Regression(FEATURES), index, losses)
    root = np.asfortranarray(np.diag(np.linspace(0.5, 2, 9)))
    K = (FEATURES @ root @ root.T @ FEATURES.T)[np.ix_(index, index)]

    def by_quadrature(ridge):
        C = K + ridge * np.eye(rounds)
        misfit, size = losses @ np.linalg.solve(C, losses), np.linalg.slogdet(C)[1]
        guess = GUESSED * UNIFORM / (1 + ridge)

        def density(log_s2):
            power = -0.5 * (GUESSED + rounds - 1) * log_s2 - 0.5 * size
            return math.exp(power - 0.5 * (guess + misfit) * math.exp(-log_s2))

        return math.log(integrate.quad(density, -15, 15, limit=300, epsabs=0)[0])

    ridges = NOISES[4::2]
    differences = one.evidence(root, ridges) - [by_quadrature(r) for r in ridges]
    np.testing.assert_allclose(differences, differences[0], rtol=1e-5)
    assert np.ptp(one.evidence(root, ridges)) > 1  # negative control


# Bandwidth, noise and scale.


def engine_of(kernel, points, **settings):
    learner = kl.InsuredBandit(
        kl.Points(points), kernel, horizon=500, loss_range=(0, 1), rng=0, **settings
    )
    return learner.engine


LINE = np.linspace(0, 1, 40)[:, None]
ENGINE = engine_of(kl.Gaussian(0.1), LINE)


def drawn(bandwidth, noise, rounds, seed=0, height=0.1):
    """Losses of a function drawn from a Gaussian process, at random actions."""
    rng = np.random.default_rng(seed)
    K = kl.Gaussian(bandwidth)(LINE, LINE) + 1e-9 * np.eye(40)
    f = height * np.linalg.cholesky(K) @ rng.normal(size=40)
    index = rng.integers(40, size=rounds)
    return index, f[index] + noise * rng.normal(size=rounds)


@pytest.mark.parametrize("bandwidth", [0.05, 0.1, 0.2])
@pytest.mark.parametrize("noise", [0.003, 0.05])
def test_bandwidth_and_noise_have_the_largest_evidence(bandwidth, noise):
    # Once more by normal densities on the Gram matrices of all bandwidths.
    index, losses = drawn(bandwidth, noise, 150, seed=int(1000 * bandwidth))
    forecaster = Forecaster(ENGINE.features, Priors.of(kl.Gaussian(0.1), ENGINE), discounts=(1.0,))
    feed(forecaster, index, losses)
    inside.refit(forecaster, 0)
    support = np.flatnonzero(ENGINE.weights)
    project = ENGINE.features @ (ENGINE.features[support] * ENGINE.weights[support, None]).T
    guess, scores = GUESSED * np.ptp(losses) ** 2 / 12, {}
    for step in range(-3, 3):
        K = kl.Gaussian(0.1 * 2.0**step)(LINE[support], LINE[support]) + CONSTANT
        K = project @ K @ project.T  # onto the span of the features
        for ridge in NOISES.tolist():
            C = K[np.ix_(index, index)] + ridge * np.eye(len(index))
            misfit = losses @ np.linalg.solve(C, losses) + guess / (1 + ridge)
            score = -0.5 * np.linalg.slogdet(C)[1] - 0.5 * (GUESSED + 149) * math.log(misfit)
            odds = DOUBT * abs(step) + UNUSUAL * abs(math.log10(ridge / USUAL))
            scores[step, ridge] = score - odds
    best, _ = max(scores, key=scores.__getitem__)
    most = max(scores[best, ridge] for ridge in NOISES)
    least = min(ridge for ridge in NOISES if scores[best, ridge] >= most - MARGIN)
    assert forecaster.keys == [(best,)]
    assert forecaster.regression.ridge == least
    assert forecaster.chosen.bandwidth == (2.0**best,)
    assert abs(0.1 * 2.0**best / bandwidth - 1) < 0.6  # and that is the truth, or a step beside it
    if noise > 0.01:  # less is not told from what is outside of the span
        assert forecaster.chosen.noise == pytest.approx(noise, rel=0.3)
    assert forecaster.chosen.noise < noise + 0.01


def test_coordinates_have_bandwidths_of_their_own():
    points = np.random.default_rng(0).random((150, 2))
    engine = engine_of(kl.Gaussian(0.3), points)
    forecaster = Forecaster(engine.features, Priors.of(kl.Gaussian(0.3), engine), discounts=(1.0,))
    rng = np.random.default_rng(1)
    index = rng.integers(150, size=500)
    losses = 0.3 * np.sin(9 * points[index, 0]) + 0.02 * rng.normal(size=500)
    feed(forecaster, index, losses)
    short, long = forecaster.chosen.bandwidth
    assert short <= 1
    assert long == 4


def test_the_noise_of_coins_and_of_nothing():
    rng = np.random.default_rng(3)
    coins = Forecaster(np.eye(4))
    exact = Forecaster(np.eye(4))
    probability = np.array([0.5, 0.45, 0.55, 0.4])
    for i in rng.integers(4, size=2000).tolist():
        coins.update(i, float(rng.random() < probability[i]) - 0.5)
        exact.update(i, probability[i] - 0.5)
    assert coins.noise == pytest.approx(0.25, rel=0.05)
    assert exact.noise < 1e-5
    assert coins.noise == coins.ridge
    np.testing.assert_allclose(coins.mean, probability - 0.5, atol=0.06)


@pytest.mark.parametrize("factor", [1e-6, 1e-3, 1e6])
def test_the_scale_follows_the_losses(factor):
    # Signals of any size are found, whatever the range is.
    index, losses = drawn(0.1, 0.02, 400, seed=8)
    priors = Priors.of(kl.Gaussian(0.1), ENGINE)
    one = feed(Forecaster(ENGINE.features, priors), index, losses)
    other = feed(Forecaster(ENGINE.features, priors), index, losses * factor)
    assert one.keys == other.keys
    assert one.regression.ridge == other.regression.ridge
    np.testing.assert_allclose(other.mean, one.mean * factor, rtol=1e-6, atol=1e-9 * factor)
    np.testing.assert_allclose(other.deviation, one.deviation * factor, rtol=1e-6)
    assert other.chosen.noise == pytest.approx(0.02 * factor, rel=0.1)


def test_predictions_are_in_the_span_of_the_features():
    # Whatever the bandwidth: x(a) is unbiased only then.
    index, losses = drawn(0.05, 0.02, 300, seed=2)
    forecaster = Forecaster(ENGINE.features, Priors.of(kl.Gaussian(0.1), ENGINE))
    feed(forecaster, index, losses)
    assert forecaster.chosen.bandwidth < (1.0,)
    for values in (forecaster.mean, forecaster.sample(np.random.default_rng(0))):
        inside = ENGINE.features @ np.linalg.lstsq(ENGINE.features, values, rcond=None)[0]
        np.testing.assert_allclose(values, inside, atol=1e-9)


WIDE = np.linspace(0, 1, 120)[:, None]


def test_with_auto_forecasts_are_richer_than_what_is_insured():
    # The priors are those of the kernels, narrow or wide; what the watch is told is the projection under the design.
    learner = kl.InsuredBandit(kl.Points(WIDE), "auto", horizon=1000, loss_range=(0, 1), rng=0)
    engine, kernel = learner.engine, learner.settings.kernel
    features, priors = forecast_space(kernel, engine, narrower(kernel, engine))
    m = engine.features.shape[1]
    assert features.shape[1] > 2 * m
    np.testing.assert_array_equal(features[:, :m], engine.features)
    for step, allowed in ((-5, 0.1), (-3, 0.02), (0, 1e-4)):
        half = features @ priors.root((step,))
        K = kl.Gaussian(0.5 * 2.0**step)(WIDE, WIDE) + CONSTANT
        np.testing.assert_allclose(half @ half.T, K, atol=allowed)
    forecaster = forecaster_for(kernel, engine)
    index = np.random.default_rng(0).integers(120, size=200)
    peak = 0.3 - 0.7 * np.exp(-(((WIDE[:, 0] - WIDE[77, 0]) / 0.02) ** 2))
    feed(forecaster, index, peak[index])
    assert forecaster.mean.argmin() == 77
    mean, pi, Phi = forecaster.mean, engine.weights, engine.features
    np.testing.assert_allclose(forecaster.inside, Phi @ (Phi.T @ (pi * mean)), atol=1e-8)
    # Negative control: the peak is not in their span.
    assert np.abs(forecaster.inside - mean).max() > 0.1


@pytest.mark.slow
def test_who_forgets_begins_with_the_bandwidth_of_all_losses():
    # The world changes at a few actions that are played again and again: noisy losses of these few say nothing of a bandwidth.
    learner = kl.InsuredBandit(kl.Points(WIDE), "auto", horizon=1000, loss_range=(0, 1), rng=0)
    forecaster = forecaster_for(learner.settings.kernel, learner.engine)
    rng, smooth = np.random.default_rng(1), 0.3 * np.cos(4 * WIDE[:, 0])
    index = np.concatenate([rng.integers(120, size=300), rng.choice([57, 60, 66], 120)])
    losses = smooth[index] + 0.3 * (np.arange(420) >= 300) + 0.2 * rng.normal(size=420)
    feed(forecaster, index, losses)
    inside.refit(forecaster, 0)
    inside.refit(forecaster, 1)
    (long,), (short,) = forecaster.keys
    first, discount = forecaster.priors.start[0], forecaster.regressions[1].discount
    weights = discount ** np.arange(420.0, 0, -1)
    count, guess, found = weights.sum(), GUESSED * np.ptp(losses) ** 2 / 12, {}
    for step in range(first, 3):
        half = forecaster.features[index] @ forecaster.priors.root((step,))
        found[step] = -math.inf
        for ridge in NOISES.tolist():
            C = half @ half.T + np.diag(ridge / weights)
            misfit = losses @ np.linalg.solve(C, losses) + guess / (1 + ridge)
            size = np.linalg.slogdet(C)[1] - np.log(ridge / weights).sum() + count * math.log(ridge)
            score = -0.5 * size - 0.5 * (GUESSED + count - 1) * math.log(misfit)
            score -= UNUSUAL * abs(math.log10(ridge / USUAL))
            found[step] = max(found[step], score)
    assert short == max(found, key=lambda step: found[step] - PRECAUTION * abs(step - long))
    assert max(found, key=lambda step: found[step] - PRECAUTION * (step - first)) == first
    assert short - first >= 3  # which is where it would be without the others


# The choice between regressions.


def test_noise_that_differs_between_actions_is_no_reason_to_forget():
    # Half of the actions are noisier, and after a while only the others are heard of: the mean has not changed.
    rng = np.random.default_rng(12)
    index = np.concatenate([rng.integers(12, size=300), 12 + rng.integers(13, size=300)])
    losses = np.where(index < 12, 0.4, 0.04) * rng.normal(size=600)
    forecaster = Forecaster(FEATURES, discounts=(1.0, 0.98))
    trusted = []
    for i, y in zip(index.tolist(), losses.tolist(), strict=True):
        forecaster.update(i, y)
        trusted.append(forecaster.trusted)
    assert np.mean(trusted[300:]) < 0.1


def test_the_likeliest_of_late_is_trusted():
    # Student's log-densities at the smaller of the predicted variances, forgotten at MEMORY, with a handicap for every place
    # in the list.
    index, losses = stream(200, seed=4)
    losses[100:] += 0.4  # a change: the one that forgets does better for a while
    together = Forecaster(FEATURES, discounts=(1.0, 0.9))
    apart = [Forecaster(FEATURES, discounts=(d,)) for d in (1.0, 0.9)]
    scores, trusted = np.zeros(2), []
    for i, y in zip(index.tolist(), losses.tolist(), strict=True):
        for k, one in enumerate(apart):
            one.due = [together.due[k]]  # looked at at the same times
        spread = math.sqrt(min(one.deviation[i] ** 2 + one.noise for one in apart))
        errors = np.array([y - one.mean[i] for one in apart])
        # the density of TAILS degrees of freedom, without its constant
        densities = stats.t.logpdf(errors / spread, TAILS) - stats.t.logpdf(0, TAILS)
        scores = MEMORY * scores + densities
        for one in (together, *apart):
            one.update(i, y)
        np.testing.assert_allclose(together.scores, scores, rtol=1e-6, atol=1e-8)
        assert together.trusted == np.argmax(scores - HANDICAP * np.arange(2))
        trusted.append(together.trusted)
        np.testing.assert_allclose(
            together.mean, apart[together.trusted].mean, rtol=1e-7, atol=1e-10
        )
    assert set(trusted[60:100]) == {0}
    assert 1 in trusted[100:130]


def test_samples_have_the_posterior_law():
    index, losses = stream(12, seed=5)
    forecaster = feed(Forecaster(FEATURES, discounts=(0.97,)), index, losses)
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


@pytest.mark.slow
@pytest.mark.parametrize("discount", [1.0, 0.98, 0.9])
def test_long_runs_stay_accurate(discount):
    # 20,000 rank-one steps against normal equations made afresh.
    n, ridge = 20_000, 0.05
    index, losses = stream(n, seed=7)
    index[5000:15_000] = index[5000:15_000] % 3  # most actions unheard of for long
    one = Regression(FEATURES, discount=discount, ridge=ridge)
    _ = one.deviation
    feed(one, index, losses)
    weight = discount ** np.arange(n, 0, -1)
    Phi = FEATURES[index]
    precision = np.eye(9) / one.scale + Phi.T @ (weight[:, None] * Phi) / ridge
    mean = np.linalg.solve(precision, Phi.T @ (weight * losses) / ridge)
    np.testing.assert_allclose(one.mean, FEATURES @ mean, rtol=1e-7, atol=1e-9)
    variance = np.einsum("ij,ij->i", FEATURES, np.linalg.solve(precision, FEATURES.T).T)
    np.testing.assert_allclose(one.deviation, np.sqrt(variance), rtol=1e-5)
    covariance = one.covariance
    np.testing.assert_allclose(covariance, covariance.T)
    assert np.linalg.eigvalsh(covariance).min() > 0
