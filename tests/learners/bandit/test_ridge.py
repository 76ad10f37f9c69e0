"""The ridge: bias and bonus by enumeration, the bound by another computation, what it is compared with."""

from __future__ import annotations

import math

import numpy as np
import pytest

import koloss as kl
from koloss.guarantees import bandit
from koloss.guarantees.bandit import BanditProblem, Ridge
from koloss.learners.bandit import tuning
from tests.support import inside

POINTS = kl.Points(np.random.default_rng(8).random((24, 2)))
KERNELS = {
    "gaussian": kl.Gaussian(0.4),
    "matern": kl.Matern(1.5, 0.5),
    "rough": kl.Matern(0.5, 0.4),
}


def make(kernel="gaussian", **settings):
    settings = {"horizon": 2000, "loss_range": (0, 1), "batch": 1, "rng": 1} | settings
    return kl.BanditExpWeights(POINTS, KERNELS[kernel], **settings)


def gram(kernel):
    X = POINTS.X
    return np.asarray(KERNELS[kernel](X, X))


def far_from_the_start(learner, rng):
    """A law that the learner could have after some rounds."""
    exp2 = inside.exp2(learner)
    exp2.theta += rng.normal(size=exp2.theta.shape) * rng.choice([1.0, 10.0, 100.0])
    return exp2.next_law()


def mean_estimate(learner, law, losses):
    """E x(a) of every action, by enumeration of the action that is drawn."""
    engine, centred = learner.engine, losses - learner.engine.center
    total = sum(law.p[a] * engine.estimate(law, a, centred[a]) for a in range(len(law.p)))
    return engine.features @ total


def in_the_ball(kernel, norm, rng, direction=None):
    """Losses of a norm modulo constants: random ones, or those of a direction K⁻¹-wise."""
    K = gram(kernel)
    c = rng.normal(size=len(K)) if direction is None else direction
    c = c / math.sqrt(c @ K @ c)
    return norm * (K @ c)


@pytest.mark.parametrize("penalty", [1e-3, 1e-1, 1.0])
@pytest.mark.parametrize("kernel", KERNELS)
def test_the_bias_is_at_most_the_bonus(kernel, penalty, rng):
    learner = make(kernel, ridge=penalty, loss_norm=0.7)
    engine = learner.engine
    assert engine.problem.ridge.penalty == penalty
    for _ in range(20):
        law = far_from_the_start(learner, rng)
        losses = in_the_ball(kernel, 0.7, rng) + rng.normal()
        error = np.abs(mean_estimate(learner, law, losses) - (losses - engine.center))
        assert np.all(error <= law.bonus + engine.problem.epsilon + 1e-9)


@pytest.mark.parametrize("kernel", ["matern", "rough"])
def test_a_loss_of_the_ball_attains_the_bonus(kernel, rng):
    # ΛA⁻¹φ(a) as a function has the worst bias at a (remark a of Lemma F1.2); all features are kept.
    learner = make(kernel, ridge=0.1, loss_norm=1.0, rank=len(POINTS))
    law, K, a = far_from_the_start(learner, rng), gram(kernel), 5
    losses_of = np.linalg.cholesky(K + 1e-10 * np.eye(len(K)))  # columns: an orthonormal basis
    errors = [mean_estimate(learner, law, f + learner.engine.center)[a] - f[a] for f in losses_of.T]
    worst = np.linalg.norm(errors)  # over all coefficients of norm one, with a constant free
    free = mean_estimate(learner, law, np.full(len(K), 1.0 + learner.engine.center))[a] - 1.0
    assert abs(free) < 1e-7
    assert worst == pytest.approx(law.bonus[a], rel=1e-4)


@pytest.mark.parametrize("penalty", [1e-2, 1.0])
def test_the_bias_of_the_hull_is_at_most_the_bonus(penalty, rng):
    learner = make(ridge=penalty, loss_class="rank-one", loss_norm=0.5)
    engine, K = learner.engine, gram("gaussian")
    for _ in range(20):
        law = far_from_the_start(learner, rng)
        c = rng.normal(size=len(K)) * rng.integers(0, 2, size=len(K))
        losses = 0.5 * K @ (c / max(np.abs(c).sum(), 1e-12))
        error = np.abs(mean_estimate(learner, law, losses) - (losses - engine.center))
        assert np.all(error <= law.bonus + engine.problem.epsilon + 1e-9)


def test_with_a_constant_the_mean_estimate_is_the_loss_heard(rng):
    # F3, Lemma 0 (ii): p·x is the centred loss, on every path.
    learner = make(ridge=0.05)
    engine = learner.engine
    for _ in range(10):
        law = far_from_the_start(learner, rng)
        for a, loss in zip(rng.integers(len(law.p), size=5), rng.random(5), strict=True):
            x = engine.features @ engine.estimate(law, int(a), loss)
            assert law.p @ x == pytest.approx(loss, rel=1e-9)


@pytest.mark.parametrize("bonus", [True, False])
def test_one_estimate_moves_a_log_weight_by_at_most_kappa(bonus, rng):
    learner = make(ridge=0.01, bonus=bonus)
    eta, kappa = learner.rates.learning_rate, learner.rates.kappa
    for _ in range(10):
        law = far_from_the_start(learner, rng)
        for a in range(len(law.p)):
            x = learner.engine.features @ learner.engine.estimate(law, a, 0.5)
            lowest = np.minimum(x, -x) - (law.bonus if bonus else 0.0)
            assert eta * -lowest.min() <= kappa * (1 + 1e-9)


# The bound.


def by_hand(problem, eta, kappa, gamma, n):
    """Theorem F1, written out once more."""
    r, L, eps = problem.ridge, problem.loss_bound, problem.epsilon
    b, d, e = r.bias, r.dimension, r.spread
    chi, chi_error = (math.sqrt(gamma), 1 + math.sqrt(gamma)) if problem.constant else (1, 3)
    free = np.linspace(0, e, 20_001)  # S² by search in place of its closed form
    S2 = np.max(((L + eps) * np.sqrt(d - free) + b * np.sqrt(free)) ** 2)
    bracket = b * (math.sqrt(e) + chi * min(0.5, math.sqrt(e))) + eps * (chi_error + math.sqrt(d))
    psi = (math.exp(kappa) - 1 - kappa) / kappa**2
    return 2 * L * gamma * n + psi * eta * S2 * n + problem.log_prior / eta + n * bracket


@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("spread", [0.1, 2.0, 8.0])
def test_terms_are_those_of_the_theorem(constant, spread):
    ridge = Ridge(0.01, 1, 9.0, spread, bias=0.2, head_error=0.5)
    game = BanditProblem(
        5000,
        30,
        9.0,
        loss_bound=0.5,
        epsilon=0.01,
        log_prior=4.0,
        bonus=True,
        constant=constant,
        ridge=ridge,
    )
    eta, kappa = 0.01, 1.7
    gamma = game.exploration(eta, kappa)
    total = sum(game.terms(eta, kappa).values())
    assert total == pytest.approx(by_hand(game, eta, kappa, gamma, 5000), rel=1e-6)
    g = math.sqrt(game.largest_leverage(eta, kappa))
    least = min(math.hypot(0.2, 0.01) * g, 0.5 * (1 + g) + 0.01 * g)
    assert eta * (0.5 * g**2 + least) == pytest.approx(kappa)
    assert game.rise(eta, gamma) == pytest.approx(kappa)


@pytest.mark.parametrize("loss_class", ["rank-one", "general"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_the_bound_is_never_above_that_without_a_ridge(kernel, loss_class):
    said = {"loss_class": loss_class, "loss_norm": 1.0}
    for horizon in (500, 5000):
        chosen = make(kernel, horizon=horizon, **said).guarantee().total
        for bonus in (False, True):
            plain = make(kernel, horizon=horizon, ridge=0, bonus=bonus, **said).guarantee().total
            assert chosen <= plain * (1 + 1e-9)


def test_features_that_nobody_asked_for_are_affordable(monkeypatch):
    points, rough, room = (
        kl.Points(np.linspace(0, 1, 120)[:, None]),
        kl.Matern(0.5, 0.1),
        120 * 20**2,
    )
    settings = {"horizon": 10**6, "loss_range": (0, 1)}
    at_will = kl.BanditExpWeights(points, rough, **settings)
    assert at_will.rank > 40
    monkeypatch.setattr(tuning, "REFRESH", room)
    for ridge in ("auto", 0, 1e-3):
        learner = kl.BanditExpWeights(points, rough, ridge=ridge, **settings)
        assert learner.rank <= 20 + 1  # the constant
        assert learner.guarantee().valid
        assert learner.guarantee().total >= at_will.guarantee().total
    asked = kl.BanditExpWeights(points, rough, rank=60, ridge=1e-3, **settings)
    assert asked.rank > 40


def test_a_strong_penalty_is_truncation_with_the_exact_bonus():
    # Corollary T, at k = 4: 2.897 (L + ε_k) √(k₀ n log N) + (1 + √γ) ε_k n.
    n, k = 20_000, 4
    proxy = kl.pivoted_cholesky(KERNELS["gaussian"], POINTS, rank=4)
    error = math.sqrt(proxy.point_curve[4])
    ridge = Ridge(4.0**12, k + 1, k + 1 + 1e-6, proxy.point_curve[4] / 4.0**12, 4.0**6, error)
    game = BanditProblem(
        n, 20, 1.0 * (k + 1), 0.5, 0.0, math.log(24), bonus=True, constant=True, ridge=ridge
    )
    rates = bandit.tune(game)
    total = sum(game.terms(rates.learning_rate, rates.kappa).values())
    main = 2.897 * (0.5 + error) * math.sqrt((k + 1) * n * math.log(24))
    assert total <= main + (1 + math.sqrt(rates.exploration)) * error * n


# Without a horizon.


def test_the_penalty_falls_and_the_rates_never_rise():
    learner = make(horizon=None)
    exp2, rates, levels = inside.exp2(learner), [], []
    for t in range(1, 4000, 7):
        exp2.made = t - 1
        rates.append(exp2.rates_now())
        levels.append(exp2.engine.level)
    eta, gamma = np.transpose(rates)
    assert np.all(np.diff(eta) <= 0)
    assert levels == sorted(levels)
    assert len(set(levels)) > 3
    assert np.all(gamma <= 1)


def test_a_level_keeps_its_promise(rng):
    # At the exploration of any round of a level no leverage exceeds what η and κ allow.
    learner = make(horizon=None)
    exp2 = inside.exp2(learner)
    for t in (1, 40, 300, 5000, 80_000):
        exp2.made = t - 1
        eta, gamma = exp2.rates_now()
        if gamma == 1:
            continue
        engine = exp2.engine
        cap = engine.problem.largest_leverage(eta, learner.rates.kappa)
        law = engine.law(
            exp2.theta + 50 * rng.normal(size=exp2.theta.shape), exp2.credit, eta, gamma, rng
        )
        assert engine.leverages(law).max() <= cap * (1 + 1e-6)


# Settings.


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_penalty_given_is_kept(kernel):
    learner = make(kernel, ridge=0.02)
    assert learner.engine.problem.ridge.penalty == 0.02
    assert learner.guarantee().theorems == ("F1",)
    assert learner.guarantee().details == ("ridge, bonuses",)
    assert make(kernel, ridge=0.02, horizon=None).engine.problem.ridge.penalty == 0.02
