"""Algorithm 1: estimates by enumeration, the textbook algorithm step by step, late feedback, the traps."""

from __future__ import annotations

import math

import numpy as np
import pytest

import koloss as kl
from koloss.guarantees import bandit
from tests.support import inside

SQUARE = kl.Points(np.random.default_rng(3).random((40, 2)))


PLAIN = {"ridge": 0, "bonus": False, "loss_class": "rank-one"}


def make(actions=SQUARE, kernel=None, **settings):
    settings = {"horizon": 500, "loss_range": (0, 1), "rng": 0} | PLAIN | settings
    return kl.BanditExpWeights(actions, kernel or kl.Gaussian(0.4), **settings)


def play(learner, losses):
    """Play a table of losses, one row per round; the losses paid."""
    paid = []
    for row in losses:
        decision = learner.ask()
        paid.append(float(row[decision.index]))
        learner.tell(decision, paid[-1])
    return np.asarray(paid)


def next_estimates(learner):
    """Σ⁻¹φ(a) for every action a, by the law of the next decision, and that law's probabilities."""
    engine, law = learner.engine, inside.exp2(learner).next_law()
    return np.stack([engine.estimate(law, a, 1.0) for a in range(len(law.p))]), law.p


@pytest.mark.parametrize("rank", [3, 8])
def test_estimate_is_unbiased_by_enumeration(rank, rng):
    learner = make(rank=rank)
    inside.exp2(learner).theta += rng.normal(size=rank + 1) * 30  # far from the first distribution
    directions, p = next_estimates(learner)
    w = rng.normal(size=rank + 1)
    losses = learner.engine.features @ w
    np.testing.assert_allclose((p * losses) @ directions, w, rtol=1e-8)


def test_misspecified_estimate_is_the_projection(rng):
    # E ŵ is the L²(p)-projection of any loss on the features (theory B3, Lemma).
    learner = make(rank=5)
    directions, p = next_estimates(learner)
    losses = rng.normal(size=40)
    root = np.sqrt(p)[:, None]
    expected = np.linalg.lstsq(root * learner.engine.features, root[:, 0] * losses, rcond=None)[0]
    np.testing.assert_allclose((p * losses) @ directions, expected, rtol=1e-7)


@pytest.mark.filterwarnings("ignore::koloss.errors.KolossWarning")
def test_late_estimate_uses_the_covariance_of_its_own_epoch(rng):
    w = rng.normal(size=6)
    learner = make(rank=5, batch=1, loss_range=(-100, 100), loss_norm=1.0)
    exp2, p, losses = inside.exp2(learner), learner.distribution, learner.engine.features @ w
    first = learner.ask()
    epoch = learner.ledger.current
    for _ in range(40):  # the distribution moves on
        other = learner.ask()
        learner.tell(other, 100.0 if other.action[0] < 0.5 else -100.0)
    learner.ask()
    assert epoch.over

    def change(call):
        before = exp2.theta.copy()
        call()
        return exp2.theta - before

    # Every action that the first epoch may have drawn, told now.
    late = [change(lambda a=a: exp2.learn(epoch, [a], [losses[a]])) for a in range(40)]
    np.testing.assert_allclose(p @ late, w, rtol=1e-7)
    told = change(lambda: learner.tell(first, float(losses[first.index])))
    np.testing.assert_allclose(told, late[first.index], rtol=1e-7, atol=1e-9)
    law = learner.ledger.current.law  # negative control: the covariance of today
    wrong = p @ [learner.engine.estimate(law, a, losses[a]) for a in range(40)]
    assert np.max(np.abs(wrong - w)) > 0.1 * np.max(np.abs(w))


def textbook(learner, losses, uniforms):
    """Algorithm 1 as its box reads, one covariance and one solve per round, N weights."""
    engine, eta, gamma = learner.engine, learner.rates.learning_rate, learner.rates.exploration
    Phi, weights = engine.features, np.exp(engine.log_prior)
    chosen, thetas, theta = [], [], np.zeros(Phi.shape[1])
    for t, u in enumerate(uniforms):
        p = (1 - gamma) * weights / weights.sum() + gamma * engine.weights
        index = int(np.searchsorted(np.cumsum(p) / p.sum(), u, side="right"))
        sigma = sum(p[a] * np.outer(Phi[a], Phi[a]) for a in range(len(Phi)))
        estimate = np.linalg.solve(sigma, Phi[index]) * (losses[t, index] - engine.center)
        weights = weights * np.exp(-eta * (Phi @ estimate))
        theta = theta + estimate
        chosen.append(index)
        thetas.append(theta)
    return chosen, np.asarray(thetas)


@pytest.mark.parametrize("prior", [None, "skew"])
def test_batch_of_one_is_the_textbook_algorithm_step_by_step(prior, rng):
    losses = rng.random((120, 40))
    prior = None if prior is None else np.arange(1, 41) / 820
    learner = make(batch=1, rank=7, rng=np.random.default_rng(11), prior=prior)
    chosen, thetas = textbook(learner, losses, np.random.default_rng(11).random(120))
    for t in range(120):
        decision = learner.ask()
        assert decision.index == chosen[t]
        learner.tell(decision, float(losses[t, decision.index]))
        np.testing.assert_allclose(inside.exp2(learner).theta, thetas[t], rtol=1e-7, atol=1e-7)


def weights_of(learner, epoch):
    """q, from the sums at the beginning of an epoch."""
    exp2, engine = inside.exp2(learner), learner.engine
    sums = engine.features @ (exp2.theta - epoch.gain)
    if exp2.credit is not None:
        sums = sums - exp2.credit + epoch.heard * epoch.law.bonus
    q = np.exp(-epoch.eta * (sums - sums.min()))
    return q / q.sum()


@pytest.mark.parametrize("bonus", [False, True])
def test_drift_ends_an_epoch_no_later_than_the_exact_test(bonus):
    learner = make(batch=1000, horizon=3000, rank=4, bonus=bonus)
    epochs = 0
    for _ in range(1500):
        decision = learner.ask()
        epoch = learner.ledger.current
        learner.tell(decision, 1.0 if decision.index % 2 else 0.0)
        if epoch.over:
            assert 0.2 < epoch.anchor_drift <= 0.2 + 2 * learner.rates.kappa + 1e-9
            epochs += 1
            continue
        X = learner.engine.features @ epoch.gain
        if bonus:
            X = X - epoch.heard * epoch.law.bonus
        q = weights_of(learner, epoch)
        moved = q * np.exp(-epoch.eta * X)
        assert epoch.eta * (q @ X - X.min()) <= 0.2 + 1e-12  # an epoch that goes on has not drifted
        assert (
            np.log(moved / moved.sum() / q).max() <= 0.2 + 1e-12
        )  # so that no weight has risen more
    assert epochs > 5


# The three traps of theory A3.


def test_trap_first_distribution_must_be_uniform():
    # (.7, .7) is the best action but no contact point: starting from the design it is never played.
    actions = np.array([[1, 0], [-1, 0], [0, 1], [0, -1], [0.7, 0.7]])
    losses = np.tile(actions @ (-np.ones(2) / math.sqrt(2)), (4000, 1))
    learner = kl.BanditExpWeights(kl.Points(actions), kl.Linear(), horizon=4000, batch=1, rng=1)
    assert learner.engine.weights[4] == 0
    regret = play(learner, losses).sum() - 4000 * losses[0, 4]
    assert regret < 0.15 * 4000

    trapped = kl.BanditExpWeights(kl.Points(actions), kl.Linear(), horizon=4000, batch=1, rng=1)
    with np.errstate(divide="ignore"):
        object.__setattr__(trapped.engine, "log_prior", np.log(trapped.engine.weights))
    trapped_regret = play(trapped, losses).sum() - 4000 * losses[0, 4]
    assert trapped_regret >= 0.2828 * 4000 * (1 - 1e-3)


def test_trap_centring_the_features_biases_the_estimate():
    # Φ ∈ {1, 2}, w = 1: centred features make the learner settle at p(2) = 1/3, regret n/3.
    n, actions = 6000, np.array([[1.0], [2.0]])
    losses = np.tile(actions[:, 0], (n, 1))
    learner = kl.BanditExpWeights(
        kl.Points(actions), kl.Linear(), horizon=n, loss_bound=2.0, batch=1, rng=0
    )
    assert play(learner, losses).sum() - n < 0.1 * n

    trapped = kl.BanditExpWeights(
        kl.Points(actions), kl.Linear(), horizon=n, loss_bound=2.0, batch=1, rng=0
    )
    centred = actions - 1.5
    object.__setattr__(
        trapped.engine, "features", np.ascontiguousarray(centred / np.abs(centred).max())
    )
    regret = play(trapped, losses).sum() - n
    assert abs(regret / n - 1 / 3) < 0.05


def test_trap_a_constant_needs_its_feature():
    # Losses in [0, 1] shifted by their mid-range without the constant feature: the centring bug again.
    n, actions = 6000, np.array([[1.0], [2.0]])
    losses = np.tile(actions[:, 0] / 2, (n, 1))
    points = kl.Points(actions)
    learner = kl.BanditExpWeights(points, kl.Linear(), horizon=n, loss_range=(0, 1), batch=1, rng=0)
    assert learner.engine.features.shape[1] == 2
    assert play(learner, losses).sum() - n / 2 < 0.1 * n

    trapped = kl.BanditExpWeights(points, kl.Linear(), horizon=n, loss_bound=1.0, batch=1, rng=0)
    object.__setattr__(trapped.engine, "center", 0.75)
    assert play(trapped, losses).sum() - n / 2 > 0.12 * n


# What it knows.


def test_duplicates_count_together():
    actions = kl.Points([[0.0], [1.0], [1.0]])
    learner = kl.BanditExpWeights(actions, kl.Gaussian(0.5), horizon=100, rng=0)
    p = learner.distribution
    np.testing.assert_allclose(learner.probability([[1.0]]), p[1] + p[2])


def test_diagnostics_by_hand():
    learner = make(batch=10)
    decisions = [learner.ask() for _ in range(3)]
    learner.tell(decisions[1], 1.0)
    seen = learner.diagnostics
    assert (seen.rounds, seen.heard, seen.outstanding, seen.late, seen.epoch) == (3, 1, 2, 0, 1)
    Phi, p = learner.engine.features, learner.ledger.current.law.p
    g = np.einsum("ij,jk,ik->i", Phi, np.linalg.inv(Phi.T @ (p[:, None] * Phi)), Phi)
    np.testing.assert_allclose(seen.max_leverage, g.max())
    p = learner.distribution
    np.testing.assert_allclose(seen.entropy, -np.sum(p * np.log(p)))


# Extremes.


@pytest.mark.slow
@pytest.mark.parametrize("horizon, rounds", [(10**7, 10**7), (None, 2 * 10**6)])
def test_extremes_neither_overflow_nor_vanish(horizon, rounds):
    # Millions of rounds' worth of losses at the bound, in whole epochs: far beyond exp(-700).
    actions = kl.Points(np.linspace(0, 1, 12)[:, None])
    learner = kl.BanditExpWeights(actions, kl.Gaussian(0.3), horizon=horizon, loss_bound=1.0, rng=0)
    for _ in range(rounds // 200_000):
        batch = learner.ask(200_000)
        learner.tell(batch, np.where(batch.index == 4, -1.0, 1.0))
    assert learner.ledger.heard == rounds
    exp2 = inside.exp2(learner)
    scores = exp2.rates_now()[0] * exp2.engine.scores(exp2.theta)
    assert np.ptp(scores) > 700
    p = learner.distribution
    assert np.all(np.isfinite(p))
    np.testing.assert_allclose(p.sum(), 1, rtol=1e-12)
    assert p[4] > 0.9
    assert np.all(np.isfinite(inside.exp2(learner).theta))
    assert learner.recommend().index == 4
    np.testing.assert_allclose(learner.diagnostics.estimated_losses[4], -1.0, atol=0.1)


def test_an_arm_below_1e_300_is_played_again_when_it_is_good():
    actions = kl.Points([[0.0], [1.0]])
    learner = kl.BanditExpWeights(actions, kl.Gaussian(0.1), horizon=10_000, loss_bound=1.0, rng=0)
    gap = np.array([1.0, -1.0]) @ learner.engine.features
    inside.exp2(learner).theta = 1e6 * gap / (gap @ gap)
    score = learner.engine.features @ inside.exp2(learner).theta
    assert -learner.rates.learning_rate * (score[0] - score[1]) < -700
    q0 = learner.distribution[0]
    assert q0 <= learner.rates.exploration  # only exploration is left
    inside.exp2(learner).theta = -inside.exp2(learner).theta
    assert learner.distribution[0] > 0.9


def test_compact_set_through_a_net():
    learner = kl.BanditExpWeights(kl.Ball(2), kl.Gaussian(0.7), horizon=1000, spacing=0.2, rng=0)
    assert len(learner.actions) == len(kl.Ball(2).net(0.2))
    terms = learner.guarantee().terms
    expected = 1000 * kl.Gaussian(0.7).modulus(kl.Ball(2).net(0.2).covering_radius, kl.Ball(2))
    np.testing.assert_allclose(terms["net"], expected)
    # The player is on the net, the loss Φ(y) anywhere in the disc: |Φ(y)(a) - projection| by brute force.
    proxy = kl.pivoted_cholesky(kl.Gaussian(0.7), kl.Ball(2), spacing=0.2, rank=learner.rank)
    Y = kl.Ball(2).sample(300, rng=0)
    error = np.abs(kl.Gaussian(0.7)(proxy.points.X, Y) - proxy.features @ proxy(Y).T).max()
    assert error <= learner.epsilon
    assert learner.epsilon < 0.7 * proxy.epsilon


def test_ready_proxy_and_design_are_used():
    proxy = kl.kernel_pca(kl.Gaussian(0.4), SQUARE, rank=6)
    learner = make(proxy=proxy, rank=6, design=kl.uniform_design(proxy), loss_range=None)
    np.testing.assert_allclose(learner.engine.weights, 1 / 40)
    assert (learner.rank, learner.engine.proxy) == (6, "kernel PCA")


def test_sample_that_does_not_span_falls_back_to_the_exact_covariance(monkeypatch):
    learner = make(covariance="sampled", rank=5)
    monkeypatch.setattr(bandit, "sample_count", lambda *_: 2)
    learner.ask()
    law, features = learner.ledger.current.law, learner.engine.features
    factor = np.tril(law.factor)
    sigma = features.T @ (law.p[:, None] * features)
    np.testing.assert_allclose(factor @ factor.T, sigma, atol=1e-12)


def test_what_the_caller_does_to_a_batch_does_not_reach_the_learner():
    mine, theirs = (
        kl.BanditExpWeights(kl.Points([[0.0], [0.5], [1.0]]), kl.Gaussian(0.5), horizon=50, rng=3)
        for _ in range(2)
    )
    batch, twin = mine.ask(8), theirs.ask(8)
    batch.index[:] = 0
    batch.action[:] = 9.0
    for learner, decisions in ((mine, batch), (theirs, twin)):
        learner.tell(decisions, np.linspace(-1, 1, 8))
    np.testing.assert_array_equal(mine.distribution, theirs.distribution)
    np.testing.assert_array_equal(mine.actions, theirs.actions)
