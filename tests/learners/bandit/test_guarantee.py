"""What the guarantee says of itself: statements, terms, assumptions."""

from __future__ import annotations

import math

import numpy as np
import pytest

import koloss as kl
from koloss.guarantees import bandit
from tests.support import inside
from tests.support.clauses import marks, remarks

POINTS = kl.Points(np.random.default_rng(0).random((60, 2)))


PLAIN = {"ridge": 0, "bonus": False, "loss_class": "rank-one"}


def make(**settings):
    settings = {"horizon": 5000, "rng": 0} | PLAIN | settings
    return kl.BanditExpWeights(POINTS, kl.Gaussian(0.5), **settings)


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
    assert not learner.guarantee().is_trivial


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
    rates = learner.rates
    cost = bandit.late_cost(learner.engine.problem, rates.learning_rate, rates.kappa, 2)
    assert promise.terms["delay"] == pytest.approx(cost)
    assert remarks(promise)["late"] == {"count": 1}
    assert marks(promise)["unopened"] is marks(promise)["missing"] is None
    assert promise.valid


SETTINGS = (
    {},
    {"ridge": 0, "bonus": False},
    {"ridge": 0, "bonus": True, "rank": 5},
    {"loss_class": "any"},
    {"regret": "hindsight"},
)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("T", [3, 9])
def test_the_bound_of_epochs_ended_by_drift_once_more(T, settings):
    """From η, κ, L, G, N and the numbers of the ridge alone."""
    n, line = 3000, kl.Points(np.linspace(0, 1, 25)[:, None])
    said = {"horizon": n, "loss_range": (0, 2), "batch": T, "rng": 0} | settings
    learner = kl.BanditExpWeights(line, kl.Gaussian(0.2), **said)
    problem, eta, kappa = (
        learner.engine.problem,
        learner.rates.learning_rate,
        learner.rates.kappa,
    )
    ridge, L, eps = problem.ridge, 1.0, problem.epsilon
    d = ridge.dimension if ridge else problem.rank
    b, e = (ridge.bias, ridge.spread) if ridge else (0.0, 0.0)
    psi = (math.exp(kappa) - 1 - kappa) / kappa**2
    nu = psi * eta * L**2 if settings.get("regret") else 0.0

    def bonus(g):
        if not problem.bonus:
            return 0.0
        quick = math.hypot(b, eps) * g
        return min(quick, ridge.head_error * (1 + g) + eps * g) if ridge else quick

    low, high = 0.0, 1e6
    for _ in range(200):
        g = (low + high) / 2
        low, high = (g, high) if eta * ((L + nu) * g * g + bonus(g)) <= kappa else (low, g)
    S2, U = L**2 * d, L
    if problem.bonus:
        S2 = ((L + eps) ** 2 + b**2) * d
        if e * ((L + eps) ** 2 + b**2) <= b**2 * d:
            S2 = ((L + eps) * math.sqrt(d - e) + b * math.sqrt(e)) ** 2
        U = L + b * math.sqrt(e) + eps * math.sqrt(d)
    S2, U = (math.sqrt(S2) + nu * g * math.sqrt(d)) ** 2, U + nu * g * math.sqrt(d)
    h = 0.1 if T <= 4 else 0.2
    grow, phi = math.exp(h) - (math.exp(h) - 1) / T, (math.exp(h) - 1) / h
    moved = U * (L * math.sqrt(d * (T - 1) / 2) + U * (T - 1) / 2)
    if settings.get("loss_class"):
        moved = L**2 * (T - 1)
    gamma = problem.leverage / g**2
    assert learner.rates.exploration == pytest.approx(gamma, rel=1e-6)
    terms = learner.guarantee().terms
    assert terms["variance"] == pytest.approx(eta * n * (psi * S2 * grow + phi * moved), rel=1e-6)
    assert terms["exploration"] == pytest.approx(2 * gamma * L * n, rel=1e-6)
    assert terms["prior"] == pytest.approx(math.log(25) / eta)
    assert learner.guarantee().statement.startswith("Theorem B3′ (epochs ended by drift)")


def test_epochs_have_one_round_where_a_refresh_is_cheap():
    line = kl.Points(np.linspace(0, 1, 40)[:, None])
    said = {"horizon": 4000, "loss_range": (0, 1), "rng": 0}
    small = kl.BanditExpWeights(line, kl.Gaussian(0.25), **said)
    assert small.batch == 1
    assert sum(small.guarantee().terms.values()) <= 560
    many = kl.Points(np.linspace(0, 1, 4000)[:, None])
    large = kl.BanditExpWeights(many, kl.Gaussian(0.1), **said)
    assert large.batch == math.ceil(large.dimension / 4) > 1
    assert kl.BanditExpWeights(line, kl.White(), loss_class="any", **said).batch == 1


def test_a_late_loss_counts_in_the_drift_of_the_epoch_in_which_it_is_heard():
    learner = make(batch=3, horizon=1000, bonus=True, rank=4)
    late, first = learner.ask(), inside.exp2(learner).epoch
    for _ in range(3):
        learner.ask()
    exp2, epoch = inside.exp2(learner), inside.exp2(learner).epoch
    assert first.over
    assert (epoch.draws, exp2.drift(epoch)) == (1, 0.0)
    p, pi, gamma = epoch.law.p, learner.engine.weights, epoch.gamma
    learner.tell(late, 0.1)
    X = learner.engine.features @ exp2.theta - exp2.credit
    exact = epoch.eta * ((p @ X - gamma * pi @ X) / (1 - gamma) - X.min())
    drift = epoch.anchor_drift if epoch.over else exp2.drift(epoch)
    # Its bonuses are of another law, and count by the largest.
    assert 0 < exact <= drift <= exact + epoch.eta * 2 * first.law.bonus.max()
    assert epoch.over == (drift > bandit.most_drift(3))
    assert learner.diagnostics.late == 1


def test_more_rounds_than_the_horizon_fail():
    learner = make(horizon=10)
    for _ in range(11):
        learner.tell(learner.ask(), 0.0)
    assert not learner.guarantee().valid
    assert marks(learner.guarantee())["rounds"] is False


def test_what_is_not_proved_without_a_horizon():
    single, longer = (make(horizon=None, batch=b).guarantee(rounds=500) for b in (1, 4))
    assert single.valid
    assert longer.valid
    assert longer.statement.startswith("Theorem B4 (anytime), epochs ended by drift (B3′)")
    assert longer.total > single.total
    learner = make(horizon=None, batch=4)
    learner.tell(learner.ask(3), np.zeros(3))
    promise = learner.guarantee()
    assert not promise.valid
    assert "not proved" in str(promise)
    assert not make(horizon=None, batch=4, loss_range="learn").guarantee().proved
    assert not make(horizon=None, batch=4, loss_range=(0, 1), regret="hindsight").guarantee().proved
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
    assert proved.theorems == ("A3",)
    assert learner.batch == 1


def test_paper_tuning_with_polynomial_decay_and_with_finite_features():
    line = kl.Points(np.linspace(0, 1, 200)[:, None])
    learner = kl.BanditExpWeights(line, kl.Matern(1.5, 0.5), horizon=20_000, tuning="paper", rng=0)
    assert learner.guarantee().theorems == ("12 polynomial",)
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
    assert exact.guarantee().theorems == ("10",)
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
