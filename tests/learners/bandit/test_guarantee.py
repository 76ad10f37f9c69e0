"""What the guarantee says of itself: statements, terms, assumptions."""

from __future__ import annotations

import math

import numpy as np
import pytest

import koloss as kl
from koloss.guarantees import bandit

POINTS = kl.Points(np.random.default_rng(0).random((60, 2)))


PLAIN = {"ridge": 0, "bonus": False, "loss_class": "rank-one"}


def make(**settings):
    settings = {"horizon": 5000, "rng": 0} | PLAIN | settings
    return kl.BanditExpWeights(POINTS, kl.Gaussian(0.5), **settings)


def hold(promise):
    return {assumption.text: assumption.holds for assumption in promise.assumptions}


def test_terms_by_name():
    promise = make(batch=1).guarantee()
    assert {"exploration", "variance", "prior", "bias", "delay"} <= set(promise.terms)
    assert promise.statement == "Theorem A3"
    assert promise.total == pytest.approx(sum(promise.terms.values()))
    assert promise.valid
    assert "R_5000 ≤" in str(promise)


def test_statement_follows_the_play():
    learner = make(batch=5)
    assert learner.guarantee().statement == "Theorem B3 (epochs ended by drift)"
    learner.tell(learner.ask(20), np.zeros(20))
    promise = learner.guarantee()
    assert promise.statement == "Theorem B3w (whole epochs)"
    assert "the losses of a whole epoch do not depend on the actions drawn in it" in hold(promise)
    assert make(batch=5, bonus=True).guarantee().statement.endswith("with bonuses (B2)")
    assert (
        make(covariance="sampled").guarantee().statement.endswith("with a sampled covariance (A4)")
    )


def test_loss_range_halves_the_range():
    plain = make(batch=1, rank=10, loss_norm=1.0)
    centred = make(batch=1, rank=10, loss_range=(0, 1), loss_norm=1.0)
    assert centred.engine.problem.loss_bound == 0.5
    assert centred.rank == 11
    assert centred.guarantee().total < plain.guarantee().total


def test_constant_already_in_the_span_adds_no_rank():
    kernel = kl.Polynomial(2)
    learner = kl.BanditExpWeights(POINTS, kernel, horizon=100, loss_range=(0, 1), ridge=0)
    assert learner.rank == kernel.feature_dimension(2)


def test_rank_minimises_the_bound():
    auto = make(batch=1)
    best = auto.rank
    totals = {
        rank: sum(make(batch=1, rank=rank).guarantee().terms.values())
        for rank in (best - 2, best, best + 2)
    }
    assert totals[best] <= min(totals.values()) * 1.001


def test_rank_is_found_behind_a_plateau():
    # A narrow kernel has large residuals until nearly all points are used; the bound is best at the end.
    line = kl.Points(np.linspace(0, 1, 41)[:, None])
    learner = kl.BanditExpWeights(line, kl.Gaussian(0.02), horizon=20_000, rng=0)
    assert learner.rank == 41
    assert learner.guarantee().informative


def test_general_adversary_pays_the_square_root():
    one, general = make(rank=8), make(rank=8, loss_class="general", loss_norm=2.0)
    assert general.epsilon == pytest.approx(2 * math.sqrt(one.epsilon))
    assert general.engine.problem.loss_bound == pytest.approx(2.0)


def test_default_bound_lets_unit_losses_through():
    # Points inside the unit ball, |w| = 1: the loss may exceed sup K(a, a) but not its root.
    points = kl.Points([[0.5, 0.0], [0.0, 0.8]])
    learner = kl.BanditExpWeights(points, kl.Linear(), horizon=100, rng=0)
    assert learner.engine.problem.loss_bound == pytest.approx(0.8)
    large = kl.BanditExpWeights(
        kl.Points([[2.0, 0.0], [0.0, 3.0]]), kl.Linear(), horizon=100, rng=0
    )
    assert large.engine.problem.loss_bound == pytest.approx(9.0)


def test_prior_enters_through_its_smallest_weight():
    prior = np.arange(1, 61) / 1830
    learner = make(batch=1, prior=prior)
    eta = learner.rates.learning_rate
    assert learner.guarantee().terms["prior"] == pytest.approx(math.log(1830) / eta)


def test_late_and_unheard_losses_are_charged():
    learner = make(batch=2)
    decisions = [learner.ask() for _ in range(6)]
    assert learner.guarantee().terms["unheard"] == pytest.approx(6 * 2 * 1.0)
    learner.tell(decisions[0], 0.5)
    promise = learner.guarantee()
    assert promise.terms["unheard"] == pytest.approx(5 * 2 * 1.0)
    cost = bandit.late_cost(
        learner.engine.problem, learner.rates.learning_rate, learner.rates.kappa
    )
    assert promise.terms["delay"] == pytest.approx(cost)
    assert "1 losses came after their epoch (Theorem B3l)" in promise.notes
    assert promise.valid


def test_more_rounds_than_the_horizon_fail():
    learner = make(horizon=10)
    for _ in range(11):
        learner.tell(learner.ask(), 0.0)
    assert not learner.guarantee().valid
    assert hold(learner.guarantee())["at most 10 rounds"] is False


def test_short_horizon_is_trivial_and_says_so():
    promise = make(horizon=3).guarantee()
    assert promise.total == promise.trivial == 6.0
    assert not promise.informative


def test_anytime_with_batches_is_not_proved():
    assert make(horizon=None, batch=1).guarantee().valid
    promise = make(horizon=None, batch=4).guarantee()
    assert not promise.valid
    assert not promise.proved
    assert "not proved" in str(promise)
    learner = make(horizon=None, batch=1)
    first, second = learner.ask(), learner.ask()
    learner.tell(second, 0.1)
    learner.tell(first, 0.1)
    assert not learner.guarantee().proved


def test_paper_tuning_by_hand():
    learner = kl.BanditExpWeights(POINTS, kl.Gaussian(0.5), horizon=5000, tuning="paper", rng=0)
    decay = kl.eigendecay(kl.Gaussian(0.5), POINTS)
    eps = math.log(60) / 10_000
    m = decay.effective_dimension(eps)
    B2 = decay.eigenfunction_bound**2
    C, beta = decay.exponential.constant, decay.exponential.rate
    assert decay.profile == "exponential"
    assert m == math.ceil(math.log(4 * C * B2 / (beta * eps)) / beta)
    m = min(m, len(decay.eigenvalues))
    eta = math.sqrt(eps / (10 * m))
    assert learner.rank == m
    assert learner.rates.learning_rate == pytest.approx(eta)
    assert learner.rates.exploration == pytest.approx(4 * eta * m)
    promise = learner.guarantee()
    inside = math.log(40 * C * B2 * 5000 / (beta * math.log(60)))
    assert promise.terms["regret"] == pytest.approx(
        math.sqrt(320 * math.log(60) / beta * inside * 5000)
    )
    assert not promise.valid  # it rests on a false lemma, and says so
    proved = learner.guarantee(printed=False)
    assert proved.valid
    assert proved.statement == "Theorem A3"
    assert learner.batch == 1


def test_paper_tuning_with_polynomial_decay_and_with_finite_features():
    line = kl.Points(np.linspace(0, 1, 200)[:, None])
    learner = kl.BanditExpWeights(line, kl.Matern(1.5, 0.5), horizon=20_000, tuning="paper", rng=0)
    assert "polynomial" in learner.guarantee().statement
    decay = kl.eigendecay(kl.Matern(1.5, 0.5), line)
    beta, C, B2 = decay.polynomial.rate, decay.polynomial.constant, decay.eigenfunction_bound**2
    expected = (
        math.sqrt(160)
        * (2 ** (beta + 2) * C * B2 / (beta - 1)) ** (1 / (2 * (beta - 1)))
        * math.log(200) ** ((beta - 2) / (2 * (beta - 1)))
        * 20_000 ** (beta / (2 * (beta - 1)))
    )
    assert learner.guarantee().terms["regret"] == pytest.approx(expected)
    exact = kl.BanditExpWeights(POINTS, kl.Linear(), horizon=20_000, tuning="paper", rng=0)
    assert "Theorem 10" in exact.guarantee().statement
    eta, gamma = exact.rates.learning_rate, exact.rates.exploration
    G2 = float(np.max(np.sum(POINTS.X**2, axis=1)))
    assert gamma == pytest.approx(4 * eta * G2**2 * 2)
    total = 4 * gamma * G2 * 20_000 + (math.e - 2) * G2**2 * eta * 2 * 20_000 + math.log(60) / eta
    assert exact.guarantee().terms["regret"] == pytest.approx(total)


def test_given_rates_are_taken_as_they_are():
    learner = make(batch=1, learning_rate=0.01, exploration_rate=0.2)
    rates, problem = learner.rates, learner.engine.problem
    assert (rates.learning_rate, rates.exploration) == (0.01, 0.2)
    assert problem.exploration(0.01, rates.kappa) == pytest.approx(0.2)
    assert learner.guarantee().terms["exploration"] == pytest.approx(2 * 0.2 * 5000)


def test_sampled_covariance_is_within_its_stated_error():
    # (1 - s)Σ ⪯ Σ̂ ⪯ (1 + s)Σ fails with probability at most 1/horizon² per epoch, by matrix Chernoff.
    learner = make(covariance="sampled", sample_error=0.3, rank=5)
    engine, rates = learner.engine, (learner.rates.learning_rate, learner.rates.exploration)
    for seed in range(5):
        rng = np.random.default_rng(seed)
        law = engine.law(rng.normal(size=5) * 50 * seed, None, *rates, rng)
        sigma = engine.features.T @ (law.p[:, None] * engine.features)
        factor = np.tril(law.factor)
        root = np.linalg.inv(np.linalg.cholesky(sigma))
        ratios = np.linalg.eigvalsh(root @ factor @ factor.T @ root.T)
        assert 0.7 <= ratios.min() <= ratios.max() <= 1.3
        assert not np.allclose(ratios, 1.0, atol=1e-6)  # it is a sample, not the covariance itself


def test_printed_needs_the_papers_tuning():
    with pytest.raises(ValueError, match="`printed` must be left out"):
        make().guarantee(printed=True)
