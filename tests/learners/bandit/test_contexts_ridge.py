"""A ridge with contexts (theory F6.1 to F6.3): the bias of estimates by enumeration, dimensions, and the choice by the bound."""

from __future__ import annotations

import math
from dataclasses import asdict, replace

import numpy as np
import pytest
from scipy.optimize import minimize

import koloss as kl
from koloss.learners.bandit.context_search import pairs_engine, total
from koloss.learners.bandit.settings import BanditSettings
from tests.learners.bandit.test_contexts import (
    LAWS,
    PRICES,
    learner_of,
    play,
    segments,
    told,
)
from tests.support import inside


def pairs_gram(learner):
    """The kernel on all pairs, from its definition."""
    X = np.column_stack([np.repeat(learner.settings.contexts.X, 5, axis=0), np.tile(PRICES.X, (4, 1))])  # fmt: skip
    square = (X[:, None, 0] - X[None, :, 0]) ** 2 / 0.5**2
    square += (X[:, None, 1] - X[None, :, 1]) ** 2 / 0.5**2
    return np.exp(-square / 2)


def worst_losses(learner, z):
    """Losses in the class that aim at the estimate of pair z, as far as a ridge alone biases it; they are centred."""
    engine, law = learner.engine, learner.ledger.current.law
    A = law.factor @ law.factor.T
    aim = engine.columns @ engine.columns.T @ np.linalg.solve(A, engine.features[z])
    # The function of the RKHS whose tail does the most harm, of the norm that is stated.
    gram = pairs_gram(learner) + 1e-12 * np.eye(20)
    values = (
        engine.features @ np.linalg.lstsq(engine.columns @ engine.columns.T, aim, rcond=1e-9)[0]
    )
    norm = math.sqrt(values @ np.linalg.solve(gram, values))
    values = values * min(engine.norm / norm, 0.5 / np.abs(values).max())
    return values.reshape(engine.shape)


def random_losses(learner, rng):
    """Of the norm that is stated, or of the range where that is smaller; they are centred."""
    gram, weights = pairs_gram(learner), rng.normal(size=20) * rng.random(20) ** 4
    values = gram @ weights
    values *= min(learner.engine.norm / math.sqrt(weights @ values), 0.5 / np.abs(values).max())
    return values.reshape(learner.engine.shape)


def mean_estimate(learner, losses, law):
    """E x of every pair, if contexts come by this law, through the learner itself; losses are centred."""
    engine, K, before = learner.engine, len(learner.actions), inside.exp2(learner).theta
    p, mean = learner.ledger.current.law.p, np.zeros_like(before)
    for c in range(len(law)):
        for a in range(K):
            loss = float(losses[c, a] + engine.center)
            after = inside.exp2(told(learner, c * K + a, loss)).theta
            mean += law[c] * p[c, a] * (after - before)
    return (engine.features @ mean).reshape(losses.shape)


def bias_and_forms(learner, losses, law):
    """E x - ℓ of every pair through the learner itself; and P, s², e² by dense algebra."""
    engine, K = learner.engine, len(learner.actions)
    p, w = learner.ledger.current.law.p, engine.capped.discounts
    bias = mean_estimate(learner, losses, law) - losses
    P = ((w * law)[:, None] * p).ravel()
    Phi, penalty = engine.features, engine.columns @ engine.columns.T
    inverse = np.linalg.inv((Phi.T * P) @ Phi + penalty)
    g2 = np.einsum("ij,jk,ik->i", Phi, inverse, Phi)
    e2 = np.einsum("ij,jk,ik->i", Phi, inverse @ penalty @ inverse, Phi)
    assert len(P) == len(law) * K
    return bias.ravel(), P, g2, e2


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("ridge", [1e-3, 0.1])
def test_the_bias_of_a_ridge_is_within_what_the_bonus_pays_for(law, ridge):
    """Facts 1 and 2 of F6.1 and their form with a head (F1.2, F1.3), for every pair."""
    learner = learner_of(segments(law), ridge=ridge, bonus=False)
    play(learner, 30)
    learner.ask(context=0)
    problem, engine, mu = learner.engine.problem, learner.engine, np.array(LAWS[law])
    b, epsilon, rng = problem.ridge.bias, problem.epsilon, np.random.default_rng(5)
    games = [worst_losses(learner, z) for z in (0, 7, 19)] + [random_losses(learner, rng)]
    worst = 0.0
    for losses in games:
        bias, P, g2, e2 = bias_and_forms(learner, losses, mu)
        s = np.sqrt(np.maximum(g2 - e2, 0.0))
        allowed = b * np.sqrt(e2) + epsilon * s + epsilon
        assert np.all(np.abs(bias) <= allowed * (1 + 1e-6) + 1e-9)
        assert np.all(allowed <= math.hypot(b, epsilon) * np.sqrt(g2) * (1 + 1e-9) + epsilon)
        worst = max(worst, float(np.max(np.abs(bias) / allowed)))
        # Averaged, over any measure below P: the ends are where it is P or nothing.
        average = max(abs(P[bias > 0] @ bias[bias > 0]), abs(P[bias < 0] @ bias[bias < 0]))
        some = 0.5 if problem.root_spread > 0.5 else problem.root_spread
        assert average <= b * some + 2 * epsilon + 1e-9
        if problem.constant:  # the constant is free: what is heard is right on average
            assert abs(P @ bias) <= 1e-9
        assert P @ g2 <= problem.ridge.dimension * (1 + 1e-9)
        assert P @ e2 <= problem.ridge.spread * (1 + 1e-9)
    assert worst > (0.5 if ridge < 0.01 else 0.25)
    paying = replace(engine, problem=replace(problem, bonus=True))
    bonus = paying._bonus(learner.ledger.current.law, 0.0)
    np.testing.assert_allclose(bonus, b * np.sqrt(e2) + epsilon * s, rtol=1e-5)
    # Negative control: with another law of contexts the free constant is not estimated right.
    other = np.roll(mu, 1) if law != "even" else np.array(LAWS["skew"])
    wrong = mean_estimate(learner, losses, other) - losses
    assert abs(P @ wrong.ravel()) > 1e-3


@pytest.mark.parametrize("law", LAWS)
def test_effective_dimensions_are_those_of_laws_with_the_shares(law):
    """The certified d* is at least the largest d over conditional laws by another optimiser, and not much more."""
    learner = learner_of(segments(law), ridge=1e-3)
    engine, mu = learner.engine, np.array(LAWS[law])
    C, K = engine.shape
    penalty = engine.columns @ engine.columns.T

    def dimension(x):
        p = np.exp(x.reshape(C, K) - x.reshape(C, K).max(axis=1, keepdims=True))
        P = (mu[:, None] * p / p.sum(axis=1, keepdims=True)).ravel()
        S = (engine.features.T * P) @ engine.features
        return -float(np.trace(np.linalg.solve(S + penalty, S)))

    found = -minimize(dimension, np.zeros(C * K), method="L-BFGS-B").fun
    d = engine.problem.ridge.dimension
    assert found <= d * (1 + 1e-9)
    assert d <= 1.15 * found
    assert d < engine.problem.rank - 0.5


@pytest.mark.parametrize("ridge", ["auto", 0.01])
@pytest.mark.parametrize("horizon", [200, 3000])
def test_the_choice_is_that_of_the_least_bound(ridge, horizon):
    chosen = learner_of(horizon=horizon, ridge=ridge)
    plain = learner_of(horizon=horizon, ridge=0)
    bounds = [total(one.engine.problem, one.rates) for one in (chosen, plain)]
    if ridge == "auto":
        assert bounds[0] <= bounds[1]
    else:
        assert chosen.engine.problem.ridge.penalty == 0.01
    assert plain.engine.problem.ridge is None
    assert chosen.guarantee().proved
    ridged = chosen.engine.problem.ridge is not None
    assert bool({"ridge", "ridge, bonuses"} & set(chosen.guarantee().details)) == ridged


def test_no_ridge_where_it_does_not_pay():
    """Few features without error: a penalty would only be a bias."""
    learner = kl.BanditExpWeights(
        PRICES,
        kl.Polynomial(2),
        horizon=10**5,
        loss_range=(0, 1),
        contexts=segments("even"),
        context_kernel=kl.Polynomial(2),
        rng=0,
    )
    assert learner.engine.problem.ridge is None
    assert learner.engine.columns is None


def test_pairs_of_one_context_have_the_ridge_of_actions():
    said = {"horizon": 500, "loss_range": (0, 1), "ridge": 0.01}
    settings = BanditSettings(
        actions=PRICES, kernel=kl.Gaussian(0.5), contexts=kl.Contexts([[0.0]], [1.0]), **said
    )
    pairs = pairs_engine(settings)
    plain = kl.BanditExpWeights(PRICES, kl.Gaussian(0.5), rng=0, **said).engine
    assert asdict(pairs.problem.ridge) == pytest.approx(asdict(plain.problem.ridge), abs=1e-12)
    assert pairs.problem.leverage == pytest.approx(plain.problem.leverage, rel=1e-3)
    assert pairs.rates.learning_rate == plain.rates.learning_rate
    assert pairs.rates.exploration == pytest.approx(plain.rates.exploration, rel=1e-3)
    np.testing.assert_allclose(pairs.capped.laws[0], plain.weights, atol=1e-6)
    # The same estimates, whatever the coordinates.
    law, other = pairs.law(np.zeros(pairs.problem.rank), None, 0.1, 0.0, None), None
    gamma = float(pairs.capped.shares[0])
    other = plain.law(np.zeros(plain.problem.rank), None, 0.1, gamma, None)
    for z in range(5):
        left = pairs.scores(pairs.estimate(law, z, 1.0))
        np.testing.assert_allclose(left, plain.scores(plain.estimate(other, z, 1.0)), atol=1e-6)
    np.testing.assert_allclose(law.bonus, other.bonus, atol=1e-6)
