"""Regret in hindsight: the bonus on variance by enumeration, the bound by a second computation, and the games that need it.

Games have fixed seeds. Where a bound holds with a probability, the chance of a false alarm is stated; a bound in expectation is
compared with games whose regret is a fraction of it. The negative control is the learner without the bonus, which the stalker breaks.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

import koloss as kl
from koloss.guarantees.anytime import anytime_terms
from koloss.guarantees.bandit import BanditProblem, anytime_kappa, anytime_rate, tune
from koloss.learners.bandit import tuning
from tests.support import inside
from tests.support.clauses import remarks

LINE = kl.Points(np.linspace(0, 1, 20)[:, None])
ROUNDS = 500


def make(**settings):
    said = {"horizon": ROUNDS, "loss_range": (0, 1), "batch": 1, "regret": "hindsight", "rng": 0}
    return kl.BanditExpWeights(LINE, kl.Gaussian(0.4), **said | settings)


def make_arms(count=3, **settings):
    said = {"horizon": ROUNDS, "loss_range": (-1, 1), "batch": 1, "regret": "hindsight", "rng": 0}
    return kl.BanditExpWeights(
        kl.Points(np.eye(count)), kl.Linear(), **said | {"loss_class": "any"} | settings
    )


def psi(x):
    return (math.exp(x) - 1 - x) / x**2


# The bonus.


def test_the_estimates_of_no_action_exceed_their_mean_by_more_than_the_bonus():
    # E exp(λ(y - mean) - λν s²) ≤ 1 for every action, over random laws, losses and penalties; every coin is enumerated.
    rng = np.random.default_rng(0)
    largest, without = 0.0, 0.0
    for _ in range(2000):
        N, m = int(rng.integers(2, 9)), int(rng.integers(1, 5))
        Phi = np.column_stack([np.ones(N), rng.normal(size=(N, m))])
        penalty = np.diag([0.0, *(rng.choice([0.0, 1e-3, 0.1, 10.0]) * np.ones(m))])
        gamma = 10.0 ** rng.uniform(-3, 0)
        p = (1 - gamma) * rng.dirichlet(np.full(N, 0.3)) + gamma / N
        sigma = Phi.T @ (p[:, None] * Phi)
        inverse = np.linalg.pinv(sigma + penalty)
        k = Phi @ inverse @ Phi.T
        s2 = np.einsum("ij,jk,ik->i", Phi @ inverse, sigma, Phi @ inverse)
        L = 10.0 ** rng.uniform(-2, 2)
        eta = rng.uniform(0.05, 2) / (L * np.diag(k).max())
        nu = psi(eta * L * np.diag(k).max()) * eta * L**2
        loss = rng.choice([-L, L, 0.3 * L], size=N)
        y = k * loss  # y[a, c]: estimate of a where c is played
        mean = y @ p
        for rate in (eta, (1 - gamma) * eta):
            excess = np.exp(rate * (y - mean[:, None])) @ p
            largest = max(largest, float(np.max(excess * np.exp(-rate * nu * s2))))
            without = max(without, float(np.max(excess)))
    assert largest <= 1 + 1e-9
    assert without > 1.05


def test_what_clipping_costs_in_one_round():
    # With a constant: p·y is the loss heard; clipping moves means by at most Γ E o, and that of exploration by √G E o.
    rng, ratios = np.random.default_rng(2), []
    for _ in range(1000):
        N, m = int(rng.integers(2, 9)), int(rng.integers(1, 4))
        Phi = np.column_stack([np.ones(N), rng.normal(size=(N, m))])
        penalty = np.diag([0.0, *np.full(m, 10.0 ** rng.uniform(-3, 1))])
        gamma, design = 10.0 ** rng.uniform(-2, 0), rng.dirichlet(np.ones(N))
        p = (1 - gamma) * rng.dirichlet(np.full(N, 0.3)) + gamma * design
        k = Phi @ np.linalg.inv(Phi.T @ (p[:, None] * Phi) + penalty) @ Phi.T
        G = (
            gamma
            * np.diag(
                Phi @ np.linalg.inv(gamma * Phi.T @ (design[:, None] * Phi) + penalty) @ Phi.T
            ).max()
        )
        loss, h = rng.standard_cauchy(size=N), rng.uniform(0.1, 2)
        np.testing.assert_allclose(p @ (k * loss), loss, rtol=1e-6, atol=1e-9)
        over = loss - np.clip(loss, -h, h)
        mean = p @ np.abs(over)
        if mean == 0:
            continue
        moved = (k * over) @ p
        ratios.append(
            (
                np.abs(moved).max() / (G / gamma * mean),
                gamma * abs(design @ moved) / (math.sqrt(G) * mean),
            )
        )
    largest = np.max(ratios, axis=0)
    assert np.all(largest <= 1 + 1e-6)
    assert np.all(largest > 0.3)  # neither is idle


@pytest.mark.parametrize("settings", [{}, {"ridge": 0}, {"ridge": 0, "rank": 3}, {"horizon": None}])
def test_bonuses_in_play_against_their_definition(settings):
    learner = make(**settings)
    for t in range(30):
        learner.tell(learner.ask(), (t % 5) / 4)
    learner.ask()
    exp2, engine = inside.exp2(learner), learner.engine
    epoch, problem = exp2.epoch, exp2.engine.problem
    Phi, p = engine.features, epoch.law.p
    sigma = Phi.T @ (p[:, None] * Phi)
    penalty = 0 * sigma if engine.columns is None else engine.columns @ engine.columns.T
    rows = Phi @ np.linalg.inv(sigma + penalty)
    s2, e2 = np.sum(rows @ sigma * rows, axis=1), np.sum(rows @ penalty * rows, axis=1)
    nu = psi(learner.rates.kappa) * epoch.eta * 0.25
    expected = nu * s2
    if problem.bonus:
        expected = expected + problem.bias * np.sqrt(e2) + problem.epsilon * np.sqrt(s2)
    np.testing.assert_allclose(epoch.law.bonus, expected, rtol=1e-6)
    # No estimate raises a log-weight by more than κ.
    k = rows @ Phi.T
    assert epoch.eta * float(np.max(0.5 * np.abs(k) + expected[:, None])) <= learner.rates.kappa


def test_arms_have_the_same_bonus_as_indicators():
    learners = [make_arms(4), make_arms(4, loss_class="general")]
    for t in range(200):
        decisions = [learner.ask() for learner in learners]
        laws = [inside.exp2(learner).epoch.law for learner in learners]
        np.testing.assert_allclose(laws[0].p, laws[1].p, rtol=1e-4)
        np.testing.assert_allclose(laws[0].bonus, laws[1].bonus, rtol=1e-4)
        for learner, decision in zip(learners, decisions, strict=True):
            learner.tell(decision, math.sin(t + decision.index))


def test_a_learned_range_clips_what_is_new_and_scales_the_bonus():
    learner = make(loss_range="learn")
    for loss in (1.0, 3.0):
        learner.tell(learner.ask(), loss)
    exp2 = inside.exp2(learner)
    theta, credit = exp2.theta.copy(), exp2.credit.copy()
    decision = learner.ask()
    law, eta, p = exp2.epoch.law, exp2.epoch.eta, exp2.epoch.law.p
    learner.tell(decision, 100.0)
    expected = learner.engine.estimate(law, decision.index, 1.0)  # as a loss of 3, less 2
    np.testing.assert_allclose(exp2.theta - theta, expected)
    assert (exp2.range.heard_low, exp2.range.heard_high) == (1.0, 100.0)
    # ν = ψηh² with h = 1 here, and a bias of at most b, ε in units of the range of 2
    problem, engine = exp2.engine.problem, learner.engine
    sigma = engine.features.T @ (p[:, None] * engine.features)
    penalty = engine.columns @ engine.columns.T
    rows = engine.features @ np.linalg.inv(sigma + penalty)
    s2, e2 = (np.sum(rows @ M * rows, axis=1) for M in (sigma, penalty))
    bonus = psi(learner.rates.kappa) * eta * s2
    bonus += 2 * (problem.bias * np.sqrt(e2) + problem.epsilon * np.sqrt(s2))
    np.testing.assert_allclose(exp2.credit - credit, bonus, rtol=1e-6)


# The bound.


GAME = BanditProblem(
    rounds=100_000, rank=20, leverage=20.0, loss_bound=0.5, epsilon=0.0, log_prior=math.log(500),
    constant=True, hindsight=True,
)  # fmt: skip


@pytest.mark.parametrize("kappa", [0.7, 1.594, 2.5])
@pytest.mark.parametrize("u", [1e-4, 1e-3, 0.01])
def test_bound_against_theorem_f7(u, kappa):
    # The theorem's own η and γ = Du/κ, which leave a little room in η(L + ν)Γ ≤ κ; the library uses it.
    n, m, D, L, log_N = 100_000, 20, 20.0, 0.5, math.log(500)
    eta = u / (L * (1 + psi(kappa) * u))
    nu, gamma = psi(kappa) * eta * L**2, D * u / kappa
    theorem = 2 * L * gamma * n + 2 * log_N / eta + nu * m * n
    theorem += psi(kappa) * eta * (L + nu * math.sqrt(kappa / u)) ** 2 * m * n
    ours = sum(GAME.terms(eta, kappa).values())
    assert 0.97 * theorem <= ours <= theorem
    R = GAME.largest_leverage(eta, kappa)
    assert eta * (L + nu) * R == pytest.approx(kappa)


def test_leading_constant():
    game = BanditProblem(10**13, 20, 20.0, 0.5, 0.0, math.log(500), constant=True, hindsight=True)
    rates = tune(game)
    bound = sum(game.terms(rates.learning_rate, rates.kappa).values())
    assert rates.kappa == pytest.approx(1.594, abs=0.01)
    assert bound / math.sqrt(20 * 1e13 * math.log(500)) == pytest.approx(2.485, abs=2e-3)


def test_terms_of_longer_epochs():
    eta, kappa, m, L = 0.002, 1.5, 20, 0.5
    nu, R = psi(kappa) * eta * L**2, kappa / eta / (L + psi(kappa) * eta * L**2)
    side = nu * math.sqrt(R * m)
    drift = GAME.variance(eta, kappa, 6, whole=False)
    grow, phi, U = math.exp(0.2) - math.expm1(0.2) / 6, math.expm1(0.2) / 0.2, L + side
    expected = psi(kappa) * (L * math.sqrt(m) + side) ** 2 * grow
    expected += phi * U * (L * math.sqrt(m * 2.5) + U * 2.5)
    assert drift == pytest.approx(expected)
    whole = GAME.variance(eta, kappa, 6, whole=True)
    S, largest = L * math.sqrt(m) + side, L * math.sqrt(R) + nu * R
    M = 6 * (eta * (L + nu * R) + psi(kappa) * (eta * largest) ** 2)
    step = L + side + psi(kappa) * eta * largest * S
    assert whole == pytest.approx(psi(kappa) * S**2 + psi(M) * 6 * step**2)


def test_whole_epochs_by_enumeration():
    # E log q·e^(-ηX') ≤ -η q·E X' + η² b V/(1 - γ), all triples of actions enumerated, for random laws and losses.
    rng, ratios, b, L = np.random.default_rng(1), [], 3, 0.5
    for _ in range(40):
        N, m = 4, 3
        Phi = np.column_stack([np.ones(N), rng.normal(size=(N, m - 1))])
        gamma, q = rng.uniform(0.05, 0.5), rng.dirichlet(np.full(N, 0.5))
        p = (1 - gamma) * q + gamma / N
        k = Phi @ np.linalg.inv(Phi.T @ (p[:, None] * Phi)) @ Phi.T
        kappa, R = rng.uniform(0.3, 2), float(np.diag(k).max())
        # η(L + ν)R = κ
        square = psi(kappa) * L**2 * R
        eta = 2 * kappa / (L * R + math.sqrt((L * R) ** 2 + 4 * square * kappa))
        nu = psi(kappa) * eta * L**2
        game = BanditProblem(100, m, gamma * R, L, 0.0, 1.0, constant=True, hindsight=True)
        assert game.largest_leverage(eta, kappa) == pytest.approx(R)
        losses = rng.choice([-L, L], size=(b, N))
        steps = [k * loss - nu * np.diag(k)[:, None] for loss in losses]  # [a, c]
        left = 0.0
        for actions in np.ndindex(*(N,) * b):
            X = sum(step[:, c] for step, c in zip(steps, actions, strict=True))
            left += math.prod(p[c] for c in actions) * math.log(q @ np.exp(-eta * X))
        left += eta * sum(q @ (step @ p) for step in steps)
        right = eta**2 * b * game.variance(eta, kappa, b, whole=True) / (1 - gamma)
        ratios.append(left / right)
    assert 0.05 < max(ratios) <= 1


@pytest.mark.parametrize("learned", [False, True])
@pytest.mark.parametrize("n", [50, 5000])
def test_bound_without_a_horizon_against_sums_over_rounds(n, learned):
    game = BanditProblem(
        n, 6, 6.0, 0.5, 0.0, math.log(40), constant=True, hindsight=True, learned=learned
    )
    kappa = anytime_kappa(game)
    m, L, log_N, total, last = 6, 0.5, math.log(40), 0.0, math.inf
    for t in range(1, n + 1):
        eta = anytime_rate(game, kappa, t)
        assert eta <= last
        nu, last = psi(kappa) * eta * L**2, eta
        R = kappa / (eta * (L + nu))
        total += 2 * L * m / R + nu * m + psi(kappa) * eta * (L + nu * math.sqrt(R)) ** 2 * m
    total += 2 * log_N / last
    if learned:
        total += 2 * L * (R + math.sqrt(6.0) + 2)
    ours = sum(anytime_terms([(1, game)], kappa, n).values())
    assert total <= ours <= 1.2 * total if n == 50 else total <= ours <= 1.02 * total


def test_hindsight_costs_more_than_the_pseudo_regret_and_not_twice_as_much():
    for settings in ({}, {"horizon": None}, {"loss_range": "learn"}, {"batch": 4}):
        wise = make(**settings).guarantee(rounds=ROUNDS)
        plain = make(**settings, regret="pseudo").guarantee(rounds=ROUNDS)
        assert 1 < sum(wise.terms.values()) / sum(plain.terms.values()) < 2
        assert (wise.regret, plain.regret) == ("hindsight", "pseudo")
        assert "hindsight" in wise.terms
        assert "hindsight" not in plain.terms


def test_a_bound_with_a_probability():
    learner = make_arms(5, horizon=20_000)
    promise = learner.guarantee(confidence=0.95)
    eta, kappa = learner.rates.learning_rate, learner.rates.kappa
    n, x, nu = 20_000, math.log(60), psi(kappa) * eta
    R = kappa / (eta * (1 + nu))
    gamma = 5 / R
    G = 5 * n + math.sqrt(2 * 5 * R * n * x) + R * x / 3
    total = 2 * gamma * n + (2 * math.log(5) + x) / eta + nu * 5 * n
    total += psi(kappa) * eta * (math.sqrt(G) + nu * math.sqrt(R * 5 * n)) ** 2
    total += math.sqrt(2 * gamma * n * x) + 2 / 3 * math.sqrt(5) * x
    assert promise.total == pytest.approx(total)
    assert promise.confidence == 0.95
    assert "H_20000 ≤" in str(promise)
    assert "with probability 0.95" in str(promise)
    assert "regret in hindsight with probability 0.95" in inside.html(promise)
    assert learner.guarantee(confidence=0.999).total > total > learner.guarantee().total
    wide = learner.guarantee(confidence=0.95, misfit=0.01)
    assert wide.terms["bias"] > 0


@pytest.mark.parametrize(
    "settings, value, message",
    [
        ({}, 1.0, "`confidence` must be below 1, got 1"),
        ({}, 0.0, "`confidence` must be positive"),
        ({"regret": "pseudo"}, 0.9, "left out without `regret` of 'hindsight', got 0.9"),
        ({"horizon": None}, 0.9, "left out without a horizon"),
        ({"loss_range": "learn"}, 0.9, "left out without a stated interval"),
        ({"loss_range": None, "loss_bound": 1.0}, 0.9, "left out without a stated interval"),
        ({"batch": 3}, 0.9, "left out without epochs of one round"),
    ],
)
def test_probabilities_for_which_nothing_is_proved(settings, value, message):
    with pytest.raises(ValueError, match=message):
        make(**settings).guarantee(confidence=value)


def test_what_is_not_proved_says_so(monkeypatch):
    assert make(batch=1, loss_range="learn").guarantee().proved
    longer = make(batch=3, loss_range="learn").guarantee()
    assert not longer.proved
    assert "hindsight range" in remarks(longer)
    learner = make(batch=3, outside="widen")
    assert learner.guarantee().proved
    learner.tell(learner.ask(), 1.5)
    assert not learner.guarantee().proved
    assert "hindsight outside" in remarks(learner.guarantee())
    learner = make()
    learner.tell(learner.ask(5), [0.5] * 5)
    assert learner.guarantee().valid  # whole epochs are covered
    assert learner.guarantee().theorems == ("B3w",)
    learner = make()
    first = learner.ask()
    for _ in range(3):
        learner.tell(learner.ask(), 0.5)
    learner.tell(first, 0.5)
    assert not learner.guarantee().proved
    assert "hindsight late" in remarks(learner.guarantee())
    monkeypatch.setattr(tuning, "SMALL_REFRESH", 0)  # where a refresh is never cheap
    for settings in ({"loss_range": "learn"}, {"horizon": None}, {"outside": "widen"}):
        assert make(batch="auto", **settings).batch == 1
    assert make(batch="auto").batch > 1


# Rates.


def test_rates_of_ones_own():
    learner = make(learning_rate=0.02, exploration_rate=0.2, ridge=0)
    eta, gamma, kappa = 0.02, 0.2, learner.rates.kappa
    problem = learner.engine.problem
    R = problem.leverage / gamma
    nu = psi(kappa) * eta * 0.25
    assert kappa == pytest.approx(eta * ((0.5 + nu) * R + problem.largest_bonus(math.sqrt(R))))
    assert learner.rates.exploration == gamma
    assert learner.guarantee().valid


# Games.


def stalked(regret, seed, rounds, arms):
    learner = make_arms(arms, horizon=rounds, regret=regret, rng=seed)
    eta, gamma = learner.rates.learning_rate, learner.rates.exploration
    stalker = kl.games.Stalker(rounds, learning_rate=eta, exploration_rate=gamma)
    trace = kl.play(learner, stalker, rounds)
    return float(trace.regret[-1]), learner


@pytest.mark.slow
def test_the_stalker_breaks_the_learner_without_the_bonus_and_no_other():
    # False alarms: the bound of each game fails with a probability of at most 10⁻⁷, so either with 2·10⁻⁷. Regrets without the
    # bonus differ much (0.6 to 2.6 times the promise); those with it are within 1 % of each other, so two are enough.
    rounds = 10_000
    plain = [stalked("pseudo", seed, rounds, 5) for seed in range(4)]
    promised = plain[0][1].guarantee().total
    assert (
        np.mean([value for value, _ in plain]) > 1.2 * promised
    )  # its promise is of the pseudo-regret
    wise = [stalked("hindsight", seed, rounds, 5) for seed in range(2)]
    for value, learner in wise:
        assert value <= learner.guarantee(confidence=1 - 1e-7).total
    assert np.mean([value for value, _ in wise]) < 0.4 * wise[0][1].guarantee().total
    assert np.mean([value for value, _ in wise]) < 0.6 * promised
