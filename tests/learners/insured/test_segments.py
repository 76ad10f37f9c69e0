"""Estimates that contexts share, by enumeration: what is watched and what was handed over, with jumps as the theory says."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import koloss as kl
from koloss.learners.insured.in_turn import InTurn, Own, OwnRows
from koloss.learners.insured.segments import Footing, OneByOne, Rows, Together


def instance(seed):
    """Features, a law of contexts, and an exploration in which the last context explores always, at a discount."""
    rng = np.random.default_rng(seed)
    C, K = int(rng.integers(2, 5)), int(rng.integers(2, 5))
    m = int(rng.integers(2, C * K + 1))
    features = rng.standard_normal((C, K, m)) * rng.uniform(0.3, 3, size=(C, 1, 1))
    law = rng.dirichlet(np.full(C, rng.choice([0.5, 5.0]))) * 0.98 + 0.02 / C
    weights = rng.dirichlet(np.ones(K), size=C)
    rates = rng.uniform(0.05, 0.6, size=C)
    discounts, exploits = np.ones(C), np.full(C, True)
    if seed % 2:
        rates[-1], discounts[-1], exploits[-1] = 1.0, 0.3, False
    return rng, Footing.of(features, law, weights, rates, discounts, exploits)


def outcomes(footing, rng):
    """Every outcome of a round with its probability: context, action, whether explored; the policy plays any law."""
    C, K = footing.shape
    policy = rng.dirichlet(np.full(K, 0.3), size=C)
    for c, a in itertools.product(range(C), range(K)):
        mu, g = footing.law[c], footing.rates[c]
        yield mu * g * footing.weights[c, a], c, a, True
        yield mu * (1 - g) * policy[c, a], c, a, False


def mean(footing, rng, losses, predict, law=None):
    """Mean of the estimates of all pairs, with a prediction that may depend on the context where it must not."""
    total = np.zeros(footing.shape)
    for p, c, a, explored in outcomes(footing, rng):
        share = p if law is None else p * law[c] / footing.law[c]
        total += share * footing.estimate(predict(c), c, a, explored, losses[c, a])
    return total


@pytest.mark.parametrize("seed", range(40))
def test_what_is_watched_is_estimated_without_bias(seed):
    rng, footing = instance(seed)
    m = footing.features.shape[2]
    losses, M = (footing.features @ rng.standard_normal(m) for _ in range(2))
    size = np.abs(losses).max()
    assert np.allclose(mean(footing, rng, losses, lambda c: M), losses, atol=1e-9 * size)


@pytest.mark.parametrize("seed", range(12))
def test_a_prediction_that_has_seen_the_context_is_biased(seed):
    rng, footing = instance(seed)
    m = footing.features.shape[2]
    losses = footing.features @ rng.standard_normal(m)
    seen = [footing.features @ rng.standard_normal(m) for _ in footing.law]
    got = mean(footing, rng, losses, lambda c: seen[c])
    assert np.abs(got - losses).max() > 0.01 * np.abs(losses).max()


@pytest.mark.parametrize("seed", range(12))
def test_another_law_of_contexts_is_biased(seed):
    rng, footing = instance(seed)
    losses = footing.features @ rng.standard_normal(footing.features.shape[2])
    other = np.roll(footing.law, 1) * 0.5 + 0.5 / len(footing.law)
    if np.abs(other - footing.law).max() < 0.05:
        other = rng.dirichlet(np.full(len(other), 0.3))
    got = mean(footing, rng, losses, lambda c: np.zeros(footing.shape), other)
    assert np.abs(got - losses).max() > 0.01 * np.abs(losses).max()


def handed_over_sets(footing):
    contexts = np.flatnonzero(footing.exploits)
    for size in range(1, len(contexts) + 1):
        yield from (list(c) for c in itertools.combinations(contexts, size))


@pytest.mark.parametrize("seed", range(16))
@pytest.mark.parametrize("epsilon", [0.0, 0.1])
def test_rows_learn_without_bias_whoever_was_handed_over(seed, epsilon):
    """Of all rows; with an error of the features each has the bonus ε √(φ'A⁻¹φ) beside, in every round."""
    rng, footing = instance(seed)
    C, K = footing.shape
    losses = footing.features @ rng.standard_normal(footing.features.shape[2])
    for handed in handed_over_sets(footing):
        rows = Rows(footing, 0.7, epsilon)
        rows.hand_over(handed)
        rows.sums[handed] = rng.standard_normal((len(handed), K))
        before, q, got = rows.sums.copy(), rows.law(slice(None)), np.zeros((C, K))
        awake = np.isin(range(C), handed)
        A = np.zeros((footing.features.shape[2],) * 2)
        for c, a in itertools.product(range(C), range(K)):
            mu, g, phi = footing.law[c], footing.rates[c], footing.features[c, a]
            played = g * footing.weights[c, a] + (1 - g) * q[c, a] * awake[c]
            A += mu * footing.discounts[c] * played * np.outer(phi, phi)
            chances = [(True, g * footing.weights[c, a]), (False, (1 - g) * q[c, a])]
            if not awake[c]:
                chances = [(True, g * footing.weights[c, a]), (False, (1 - g) / K)]
            for explored, p in chances:
                rows.sums = before.copy()
                observed = rows.observe([c], [~a if explored else a])
                rows.learn(observed, c, a, explored, losses[c, a])
                got += mu * p * (rows.sums - before)
        leverages = np.einsum(
            "cai,ij,caj->ca", footing.features, np.linalg.inv(A), footing.features
        )
        wanted = losses - epsilon * np.sqrt(leverages)
        size = np.abs(wanted).max()
        assert np.allclose(got[handed], wanted[handed], atol=1e-9 * size)
        assert not got[~awake].any()


def hostile(rng, footing, theta):
    """Losses in [-1/2, 1/2] of the class."""
    losses = footing.features @ theta
    return losses / (2 * np.abs(losses).max())


def rounds(footing, rng, count):
    """Rounds of hostile games: losses that punish the most likely action, predictions as bad as they may be."""
    C, K = footing.shape
    for _ in range(count):
        losses = hostile(rng, footing, rng.standard_normal(footing.features.shape[2]))
        M = -losses if rng.random() < 0.7 else np.zeros((C, K))
        c = int(rng.choice(C, p=footing.law))
        explored = bool(rng.random() < footing.rates[c])
        a = int(rng.choice(K, p=footing.weights[c])) if explored else int(losses[c].argmax())
        yield c, a, explored, float(losses[c, a]), M


def largest_jump(watch, rng, most):
    """Over a hostile game, in units of what the theory allows."""
    largest = 0.0
    for one in rounds(watch.footing, rng, 200):
        before = watch.used
        watch.learn(*one)
        largest = max(largest, float(np.max((watch.used - before) @ most)))
    return largest


def test_jumps_of_one_account_per_context():
    """At most (1 + μ)/2 + μR, and not far from it somewhere."""
    jumps = []
    for seed in range(16):
        rng, footing = instance(seed)
        leverages = np.einsum("cai,cai->ca", footing.features, footing.features).max(axis=1)
        own = leverages[footing.exploits].max()
        R = np.sqrt(own * (footing.discounts**2 * leverages).max())
        watch = OneByOne(footing, np.full(len(footing.law), np.inf))
        most = 0.5 * (1 + footing.law) + footing.law * R
        jumps.append(largest_jump(watch, rng, np.diag(footing.exploits / most)))
    assert 0.7 < max(jumps) <= 1 + 1e-12


def test_jumps_of_one_account_for_all():
    """Lemma 2' with h = min M."""
    jumps = []
    for seed in range(16):
        rng, other = instance(2 * seed)
        footing = Footing.of(other.features, other.law, other.weights, 0.2, 1.0)
        roots = np.sqrt(np.einsum("cai,cai->ca", footing.features, footing.features).max(axis=1))
        J = roots.max() * float(footing.law @ roots)
        watch = Together(footing, np.inf)
        jumps.append(largest_jump(watch, rng, np.full(len(footing.law), 1 / (1 + J))))
    assert 0.5 < max(jumps) <= 1 + 1e-12


def test_the_account_for_all_has_the_mean_without_h():
    """By enumeration: E of one step is E y - Σ μ min S, whatever h is."""
    rng, other = instance(4)
    footing = Footing.of(other.features, other.law, other.weights, 0.3, 1.0)
    C = len(footing.law)
    losses = hostile(rng, footing, rng.standard_normal(footing.features.shape[2]))
    M = 0.5 * hostile(rng, footing, rng.standard_normal(footing.features.shape[2]))
    paid, plain = np.zeros(C), 0.0
    for p, c, a, explored in outcomes(footing, np.random.default_rng(0)):
        watch = Together(footing, np.inf)
        watch.learn(c, a, explored, losses[c, a], M)
        paid += p * watch.paid
        plain += p * losses[c, a]
    assert paid.sum() == pytest.approx(plain)


def designed(features):
    design = kl.john_design(features)
    white = np.asfortranarray(kl.whiten(features, design).features)
    return Own(white, np.array(design.weights))


def own_features(seed):
    rng = np.random.default_rng(seed)
    K = int(rng.integers(3, 6))
    owns = [designed(rng.standard_normal((K, int(rng.integers(1, K + 1))))) for _ in range(3)]
    return rng, owns


@pytest.mark.parametrize("seed", range(12))
def test_in_turn_estimates_inside_the_context(seed):
    """Unbiased given the context, for a prediction that has seen it and is in no span; jumps of δB at most."""
    rng, owns = own_features(seed)
    K = len(owns[0].weights)
    for c, own in enumerate(owns):
        losses = own.features @ rng.standard_normal(own.rank)
        losses /= 2 * np.abs(losses).max()
        policy, M = rng.dirichlet(np.ones(K)), rng.uniform(-0.5, 0.5, (3, K))
        got, largest = np.zeros(K), 0.0
        for a, explored in itertools.product(range(K), (True, False)):
            watch = InTurn(owns, 40.0, np.inf)
            g = watch.rate(c)
            p = g * own.weights[a] if explored else (1 - g) * policy[a]
            watch.learn(c, a, explored, losses[a], M)
            got += p * watch.total[c]
            assert not np.delete(watch.total, c, axis=0).any()
            largest = max(largest, watch.used.sum())
        assert np.allclose(got, losses, atol=1e-9)
        assert largest <= 1 + 40.0


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("epsilon", [0.0, 0.1])
def test_learners_apart_learn_without_bias(seed, epsilon):
    rng, owns = own_features(seed)
    K = len(owns[0].weights)
    for c, own in enumerate(owns):
        losses = own.features @ rng.standard_normal(own.rank)
        apart = OwnRows(owns, epsilon)
        apart.hand_over(range(3))
        apart.made[c] = 3000
        apart.sums[c] = rng.standard_normal(K)
        before, made, g, q = apart.sums.copy(), apart.made.copy(), apart.rate(c), apart.law(c)
        p = g * own.weights + (1 - g) * q
        got = np.zeros(K)
        for a in range(K):
            apart.sums, apart.made = before.copy(), made.copy()
            apart.learn(apart.observe([c], [a]), c, a, False, losses[a])
            got += p[a] * (apart.sums - before)[c]
        sigma = (own.features.T * p) @ own.features
        s = np.sqrt(np.einsum("ai,ij,aj->a", own.features, np.linalg.inv(sigma), own.features))
        assert 0 < g < 1
        assert np.allclose(got, (1 - g) * (losses - epsilon * s), atol=1e-9)
