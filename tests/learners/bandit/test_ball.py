"""Algorithm 1 on a ball: its covariance and estimates by quadrature, the design, the bound, settings of a net.

Regret is compared as in `test_no_game`: with bounds on expectations, which are far from tight.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import koloss as kl
from koloss.designs.sphere import sphere_design
from koloss.guarantees import bandit
from koloss.guarantees.anytime import anytime_terms
from koloss.learners.bandit.ball import SHRINKS
from koloss.oracles.trust_region import minimize_quadratic_ball
from koloss.samplers.quadratic_moments import turn_features
from tests.support import inside
from tests.support.clauses import clause_of
from tests.support.statistics import agrees, by_mean, by_share, differs

KINDS = [
    (kl.Quadratic(), None),
    (kl.Quadratic(), (-3.0, 5.0)),
    (kl.Linear(), None),
    (kl.Linear(), (-3.0, 5.0)),
]


def make(d=2, kernel=None, radius=1.0, **settings):
    settings = {"horizon": 2000, "rng": 0} | settings
    return kl.BanditExpWeights(kl.Ball(d, radius), kernel or kl.Quadratic(), **settings)


def move(learner, scale, seed=0):
    """Put the learner somewhere far from its first distribution."""
    theta = np.random.default_rng(seed).normal(size=learner.rank)
    inside.exp2(learner).theta = scale / learner.rates.learning_rate * theta
    return learner


def ball_rule(d):
    """Quadrature over the unit ball: weights sum to one."""
    x, w = np.polynomial.legendre.leggauss(120)
    if d == 1:
        return x[:, None], w / 2
    r, angle = (x + 1) / 2, np.arange(120) * 2 * math.pi / 120
    circle = np.column_stack([np.cos(angle), np.sin(angle)])
    return (r[:, None, None] * circle).reshape(-1, 2), np.repeat(r * w, 120) / 120


def sphere_rule(d):
    if d == 1:
        return np.array([[1.0], [-1.0]]), np.full(2, 0.5)
    angle = np.arange(24) * 2 * math.pi / 24
    return np.column_stack([np.cos(angle), np.sin(angle)]), np.full(24, 1 / 24)


def mixture_rule(learner):
    """Quadrature for p = (1 - γ)q + γπ from the coefficients of θ alone; q by normalising over the ball."""
    engine, d = learner.engine, learner.engine.dimension
    eta, gamma = learner.rates.learning_rate, learner.rates.exploration
    U, w = ball_rule(d)
    log_q = -eta * (engine.features(U) @ inside.exp2(learner).theta)
    q = w * np.exp(log_q - log_q.max())
    S, v = sphere_rule(d)
    zero = 1 / learner.rank if engine.quadratic and engine.intercept else 0.0
    return (
        np.concatenate([U, S, np.zeros((1, d))]),
        np.concatenate([(1 - gamma) * q / q.sum(), gamma * (1 - zero) * v, [gamma * zero]]),
    )


# The design.


@pytest.mark.parametrize("quadratic", [True, False])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("d", [1, 2, 5, 20])
def test_design_has_leverage_m_and_no_more(d, quadratic, intercept, rng):
    sigma, zero = sphere_design(d, quadratic, intercept)
    kernel = kl.Quadratic() if quadratic else kl.Linear()
    m = kernel.feature_dimension(d) + intercept
    assert sigma.shape == (m, m)

    def leverage(U):
        phi = kernel.features(U)
        phi = np.column_stack([phi, np.ones(len(U))]) if intercept else phi
        return np.einsum("ij,ij->i", phi, np.linalg.solve(sigma, phi.T).T)

    U = rng.normal(size=(300, d))
    U /= np.linalg.norm(U, axis=1, keepdims=True)
    np.testing.assert_allclose(leverage(U), m, rtol=1e-10)
    inside = U * rng.random((300, 1))
    assert leverage(inside).max() <= m * (1 + 1e-10)
    if zero:
        assert zero == pytest.approx(2 / ((d + 1) * (d + 2)))
        assert leverage(np.zeros((1, d)))[0] == pytest.approx(m)


@pytest.mark.parametrize("kernel, interval", KINDS)
def test_design_is_what_is_drawn_when_exploring(kernel, interval):
    learner = make(3, kernel, loss_range=interval, exploration_rate=1.0)
    U = learner.ask(40_000).action
    norms = np.linalg.norm(U, axis=1)
    assert np.all((np.abs(norms - 1) < 1e-12) | (norms == 0))
    phi = learner.engine.features(U)
    sigma, _ = sphere_design(3, isinstance(kernel, kl.Quadratic), interval is not None)
    rng = np.random.default_rng(0)
    directions = rng.normal(size=(20, phi.shape[1]))
    moments = np.sum((directions @ sigma) * directions, axis=1)
    assert agrees(by_mean((phi @ directions.T) ** 2, moments))
    assert differs(by_mean((phi @ directions.T) ** 2, 1.1 * moments))


# Covariance and estimates.


@pytest.mark.parametrize("radius", [1.0, 2.5])
@pytest.mark.parametrize("scale", [0.0, 1.0, 10.0])
@pytest.mark.parametrize("kernel, interval", KINDS)
@pytest.mark.parametrize("d", [1, 2])
def test_estimate_is_unbiased_by_quadrature(d, kernel, interval, scale, radius, rng):
    learner = move(make(d, kernel, radius, loss_range=interval), scale)
    engine, law = learner.engine, inside.exp2(learner).next_law()
    U, p = mixture_rule(learner)
    # Every loss of the family, and a constant where there is one: E ŵ'φ is that loss again.
    A, b, c = rng.normal(size=(d, d)), rng.normal(size=d), rng.normal() if interval else 0.0
    A = A + A.T if isinstance(kernel, kl.Quadratic) else 0 * A
    X = radius * U
    losses = np.sum((X @ A) * X, axis=1) + X @ b + c
    theta = engine.estimate(law, U, p * losses)
    np.testing.assert_allclose(
        engine.values_at(theta, 1.0, X), losses, atol=1e-9 * np.abs(losses).max()
    )


@pytest.mark.parametrize("kernel, interval", KINDS)
def test_estimate_is_unbiased_by_draws(kernel, interval, rng):
    learner = move(make(6, kernel, loss_range=interval), 3.0)
    engine, law = learner.engine, inside.exp2(learner).next_law()
    U = engine.draw(law, 20_000, np.random.default_rng(0)).action
    w = rng.normal(size=learner.rank)
    losses = engine.features(U) @ w
    directions = rng.normal(size=(20, len(w)))

    def unbiased(law):
        # direction'Σ⁻¹φ(u): the estimate for the "losses" direction'φ, one solve per direction
        turned = np.array([engine.estimate(law, u, 1.0) for u in U[:2]])
        rows = engine.features(U @ law.frame)
        estimates = np.linalg.solve(np.tril(law.factor), rows.T)
        estimates = np.linalg.solve(np.tril(law.factor).T, estimates).T
        estimates = turn_features(estimates, law.frame, quadratic=engine.quadratic)
        np.testing.assert_allclose(estimates[:2], turned, rtol=1e-7, atol=1e-9)
        values = losses[:, None] * (estimates @ directions.T)
        return by_mean(values, directions @ w)

    assert agrees(unbiased(law))
    other = inside.exp2(move(make(6, kernel, loss_range=interval), 3.0, seed=9))
    assert differs(unbiased(other.next_law()))  # negative control: the wrong covariance


@pytest.mark.slow
@pytest.mark.parametrize("kernel, interval", KINDS)
@pytest.mark.parametrize("d", [1, 2])
def test_batch_of_one_is_the_textbook_algorithm_step_by_step(d, kernel, interval, rng):
    # One covariance and one solve per round, by quadrature, on the actions that the learner has drawn.
    learner = make(d, kernel, loss_range=interval, batch=1, horizon=300)
    engine, theta = learner.engine, np.zeros(learner.rank)
    for _ in range(30):
        decision = learner.ask()
        U, p = mixture_rule(learner)
        phi = engine.features(U)
        sigma = phi.T @ (p[:, None] * phi)
        loss = float(rng.uniform(engine.low, engine.high))
        row = engine.features(decision.action)
        theta = theta + np.linalg.solve(sigma, row) * (loss - engine.center)
        learner.tell(decision, loss)
        np.testing.assert_allclose(inside.exp2(learner).theta, theta, rtol=1e-8, atol=1e-8)
    assert learner.diagnostics.epoch == 30


def test_actions_are_drawn_from_the_mixture():
    learner = move(make(2, radius=2.0), 3.0)
    batch = learner.ask(40_000)
    gamma = learner.rates.exploration
    on_sphere = np.abs(np.linalg.norm(batch.action, axis=1) - 2) < 1e-9
    assert agrees(by_share(on_sphere.sum(), len(batch), gamma))
    U, p = mixture_rule(learner)
    phi, drawn = learner.engine.features(U), learner.engine.features(batch.action / 2)
    varies = drawn.std(axis=0) > 0  # all but the constant
    assert agrees(by_mean(drawn[:, varies], (p @ phi)[varies]))
    assert np.all(learner.actions.contains(batch.action))


def test_late_estimate_uses_the_covariance_of_its_own_epoch():
    learner = make(3, batch=1, loss_bound=50.0)
    first = learner.ask()
    kept = learner.ledger.current
    for _ in range(60):
        other = learner.ask()
        learner.tell(other, 50.0 if other.action[0] < 0.3 else -50.0)
    learner.ask()
    before = inside.exp2(learner).theta.copy()
    expected = learner.engine.estimate(kept.law, first.action, 7.0)
    wrong = learner.engine.estimate(learner.ledger.current.law, first.action, 7.0)
    learner.tell(first, 7.0)
    np.testing.assert_allclose(inside.exp2(learner).theta - before, expected, rtol=1e-9)
    assert np.max(np.abs(wrong - expected)) > 0.1 * np.max(np.abs(expected))
    assert kept.law.ahead is kept.law.matrix is kept.gain is None  # only what late losses need
    assert learner.diagnostics.late == 1


# Epochs.


@pytest.mark.parametrize("kernel, interval", KINDS)
def test_drift_ends_an_epoch_no_later_than_the_exact_test(kernel, interval, rng):
    learner = make(3, kernel, loss_range=interval, batch=400, horizon=4000)
    engine = learner.engine
    U = rng.normal(size=(2000, 3))
    U /= np.maximum(np.linalg.norm(U, axis=1, keepdims=True), 1) * np.sqrt(rng.random((2000, 1)))
    U /= np.maximum(np.linalg.norm(U, axis=1, keepdims=True), 1)
    axis = np.linspace(-1, 1, 34)[1::2]
    cells = np.stack(np.meshgrid(axis, axis, axis), axis=-1).reshape(-1, 3)
    cells = cells[np.sum(cells**2, axis=1) <= 1]  # all of one volume
    phi, means, ended, largest = engine.features(U), engine.features(cells), 0, 0.0
    most = bandit.most_drift(400)
    for _ in range(600):
        decision = learner.ask()
        epoch = learner.ledger.current
        gain, B, b = epoch.gain, epoch.law.matrix, epoch.law.vector
        loss = engine.high if decision.action[0] > 0 else engine.low
        learner.tell(decision, loss)
        gain = gain + engine.estimate(epoch.law, decision.action, loss - engine.center)
        q = np.exp(np.sum((cells @ B) * cells, axis=1) + cells @ b)
        rise = epoch.eta * float(q @ (means @ gain) / q.sum() - np.min(phi @ gain))
        if epoch.over:
            assert epoch.anchor_drift > most
            assert rise <= 1.05 * epoch.anchor_drift <= 1.05 * (most + 2 * learner.rates.kappa)
            ended, largest = ended + 1, max(largest, rise)
        else:
            np.testing.assert_allclose(epoch.gain, gain, atol=1e-9)
            assert rise <= 1.05 * most  # cells are not points
    assert ended > 3
    assert largest > most


def test_estimates_never_exceed_kappa(rng):
    for kernel, interval in KINDS:
        learner = make(4, kernel, loss_range=interval, horizon=100_000)
        engine, rates = learner.engine, learner.rates
        U = rng.normal(size=(50, 4))
        U /= np.linalg.norm(U, axis=1, keepdims=True)
        phi = engine.features(np.concatenate([U, 0.5 * U, 0 * U[:1]]))
        for scale in (0.0, 1.0, 30.0, 1e3):
            law = inside.exp2(move(learner, scale)).next_law()
            for u in np.concatenate([U, 0 * U[:1]]):
                change = engine.estimate(law, u, engine.problem.loss_bound)
                largest = np.max(np.abs(phi @ change)) * rates.learning_rate
                assert largest <= rates.kappa * (1 + 1e-9)


# The bound.


def game(kind, d, n, seed, linear):
    """Losses x'Ax + b'x of norm one, round by round."""
    rng = np.random.default_rng([seed, d])
    A, b = rng.normal(size=(n, d, d)), rng.normal(size=(n, d))
    B, c = rng.normal(size=(2, d, d)), rng.normal(size=(2, d))
    if kind == "biased":
        A, b = A + 2 * B[0], b + 2 * c[0]
    elif kind == "switching":
        turn = np.arange(n) // (n // 4) % 2
        A, b = B[turn], c[turn]
    A = 0 * A if linear else A + np.swapaxes(A, 1, 2)
    size = np.sqrt(np.sum(A**2, axis=(1, 2)) + np.sum(b**2, axis=1))
    return A / size[:, None, None], b / size[:, None]


def regret(learner, A, b, count=None):
    """Regret after a game of single decisions, or of batches."""
    paid = 0.0
    for t in range(0, len(A), count or 1):
        batch = learner.ask(count)
        X, end = np.atleast_2d(batch.action), t + (count or 1)
        losses = np.einsum("ti,tij,tj->t", X, A[t:end], X) + np.einsum("ti,ti->t", X, b[t:end])
        learner.tell(batch, losses)
        paid += float(losses.sum())
    return paid - minimize_quadratic_ball(A.sum(axis=0), b.sum(axis=0)).value


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["random", "biased", "switching"])
@pytest.mark.parametrize("d", [1, 2, 5])
@pytest.mark.parametrize("linear", [False, True])
def test_regret_is_within_the_bound(kind, d, linear):
    kernel = kl.Linear() if linear else kl.Quadratic()
    for n, settings, count in ((60, {}, None), (200, {}, 20), (400, {"loss_range": (-2, 2)}, 40)):
        learner = make(d, kernel, loss_norm=1.0, horizon=n, **settings)
        suffered = regret(learner, *game(kind, d, n, 0, linear), count)
        promise = learner.guarantee()
        assert suffered <= sum(promise.terms.values())
        assert promise.valid
        assert promise.details == ("ball",)


@pytest.mark.slow
def test_a_long_game_has_a_bound_that_says_something():
    n = 4000
    right, wrong = (make(1, kl.Linear(), horizon=n, loss_norm=1.0, rng=1) for _ in range(2))
    small = regret(right, np.zeros((n, 1, 1)), np.ones((n, 1)), 10)
    promise = right.guarantee()
    assert promise.valid
    assert not promise.is_trivial
    assert small < sum(promise.terms.values())
    paid = 0.0
    for _ in range(n // 10):  # negative control: rewards for losses
        batch = wrong.ask(10)
        wrong.tell(batch, -batch.action[:, 0])
        paid += batch.action.sum()
    assert paid + n > sum(wrong.guarantee().terms.values())


def test_anytime_rates_fall_and_their_sum_is_what_the_proof_needs():
    learner = make(3, horizon=None)
    engine, kappa, times = learner.engine, learner.rates.kappa, np.arange(1, 3000)
    etas = np.array([bandit.anytime_rate(engine.problem_at(t), kappa, t) for t in times])
    assert np.all(np.diff(etas) < 0)
    c = bandit.anytime_constant(engine.problem, kappa)
    most = np.sqrt(2 * 3 * np.log(times + 1) * times / c) / engine.problem.loss_bound
    assert np.all(np.cumsum(etas) <= most)


@pytest.mark.parametrize("n", [1, 2, 3, 7, 50, 1000, 4096])
@pytest.mark.parametrize("settings", [{}, {"loss_range": (0, 1)}], ids=str)
def test_anytime_terms_are_at_least_the_sums_over_all_rounds(n, settings):
    """Of the rates that are played, round by round; a misfit is charged by roots of leverages, which η_t bounds from below."""
    learner, misfit = make(3, horizon=None, **settings), 0.05
    problem, kappa = learner.engine.problem, learner.rates.kappa
    etas, shares = np.array([learner.engine.rates_at(t) for t in range(1, n + 1)]).T
    reach, L = np.sqrt(kappa / (etas * problem.loss_bound)), problem.loss_bound
    # With a constant among the features the chance that estimates explore takes the place of 3 (theory F8).
    each = 1 + np.sqrt(shares) + reach if problem.constant else 3 + reach
    sums = {
        "exploration": 2 * L * shares.sum(),
        "variance": bandit.psi(kappa) * L**2 * problem.rank * etas.sum(),
        "bias": misfit * each.sum(),
    }
    terms = learner.guarantee(rounds=n, misfit=misfit).terms
    for name, total in sums.items():
        assert terms[name] >= total * (1 - 1e-12)
        if n >= 50:
            assert terms[name] <= 1.12 * total
    # Negative control: with the logarithm of the last round in all of them the misfit is charged too little.
    if n >= 50:
        once = anytime_terms([(1, replace(learner.engine.problem_at(n), misfit=misfit))], kappa, n)
        assert once["bias"] < sums["bias"]


@pytest.mark.parametrize("n", [2, 10, 1000, 10**5, 10**8])
@pytest.mark.parametrize("d", [1, 2, 5, 20])
def test_bound_is_at_most_the_theorys(d, n):
    G = 3.0
    learner = make(d, loss_norm=G, horizon=n, batch=1)
    known = 2.897 * G * d * math.sqrt((d + 3) * n * math.log(n)) + 2 * math.sqrt(5) * G
    promise = learner.guarantee()
    assert sum(promise.terms.values()) <= known
    assert promise.trivial == pytest.approx(2 * math.sqrt(2) * G * n)
    assert (promise.theorems, promise.details) == (("A3",), ("ball",))


@pytest.mark.slow
@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize("radius", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("kernel", [kl.Quadratic(), kl.Linear()], ids=repr)
def test_excess_of_the_neighbourhood(d, radius, kernel, rng):
    """E ℓ on a(1 - δ) + δ·ball minus ℓ(a), by quadrature, for losses of norm one and for losses in an interval."""
    U, w = ball_rule(d)
    deltas = np.array([1e-4, 0.01, 0.1, 0.3, 0.5])
    normed = make(d, kernel, radius, loss_norm=1.0, loss_bound=1e9).engine.excess(deltas)
    attained = np.zeros(len(deltas))
    for a in [np.zeros(d), *(radius * u for u in sphere_rule(d)[0][:3]), *(U[::400] * radius)]:
        for k, delta in enumerate(deltas):
            X = (1 - delta) * a + delta * radius * U
            gap = np.linalg.norm(w @ kernel.features(X) - kernel.features(a[None])[0])
            assert gap <= normed[k] * (1 + 1e-9)
            attained[k] = max(attained[k], gap)
    np.testing.assert_allclose(attained, normed, rtol=1e-9)  # it is the best such bound
    interval = make(d, kernel, radius, loss_range=(0, 1)).engine
    for _ in range(40):
        A, b = rng.normal(size=(d, d)), rng.normal(size=d) * rng.choice([0.1, 1.0, 10.0])
        A = A + A.T if isinstance(kernel, kl.Quadratic) else 0 * A
        low = minimize_quadratic_ball(A, b, radius=radius)
        high = -minimize_quadratic_ball(-A, -b, radius=radius).value
        free = replace(interval, low=low.value, high=high).excess(deltas)
        for k, delta in enumerate(deltas):
            X = (1 - delta) * low.point + delta * radius * U
            mean = w @ (np.sum((X @ A) * X, axis=1) + X @ b)
            assert mean - low.value <= free[k] + 1e-9 * (high - low.value)


def test_neighbourhood_is_the_best_of_all_and_needs_no_norm_where_none_is_promised():
    learner = make(3, horizon=10_000, batch=1)
    eta, terms = learner.rates.learning_rate, learner.guarantee().terms
    totals = 3 * np.log(1 / SHRINKS) / eta + 10_000 * learner.engine.excess(SHRINKS)
    assert terms["prior"] + terms["neighbourhood"] == pytest.approx(totals.min())
    assert clause_of(learner.guarantee(), "form and norm").numbers["square"] == pytest.approx(
        2
    )  # 𝒢²
    free = make(3, horizon=10_000, loss_range=(0, 1))
    assert np.isinf(free.engine.norm)
    assert clause_of(free.guarantee(), "form").text == "every loss is x'Ax + b'x + c"
    linear = make(3, kl.Linear(), horizon=10_000, loss_range=(0, 1), loss_norm=0.7)
    assert linear.engine.norm == 0.7
    text = clause_of(linear.guarantee(), "form and norm").text
    assert text == "every loss is b'x + c with |b|² at most 0.49"


def test_default_bound_is_that_of_the_kernel():
    assert make(2, radius=2.0).engine.high == pytest.approx(20.0)  # 𝒢² = 2⁴ + 2²
    assert make(2, kl.Linear(), radius=0.5).engine.high == pytest.approx(0.5)
    assert make(2, loss_norm=3.0).engine.high == pytest.approx(3 * math.sqrt(2))


# What it knows.


def test_density_of_the_weights():
    learner = move(make(2, radius=1.7), 3.0)
    for _ in range(2):  # before and within an epoch
        U, w = ball_rule(2)
        density = np.exp(learner.log_density(1.7 * U))
        assert math.pi * 1.7**2 * (w @ density) == pytest.approx(1, rel=1e-10)
        eta = learner.rates.learning_rate
        score = -eta * (learner.engine.features(U) @ inside.exp2(learner).theta)
        np.testing.assert_allclose(
            learner.log_density(1.7 * U) - learner.log_density(0 * U[:1]), score, atol=1e-9
        )
        volume = w @ (density * np.log(density)) * math.pi * 1.7**2
        entropy = -volume - math.log(math.pi * 1.7**2)
        assert learner.diagnostics.entropy == pytest.approx(entropy, rel=1e-9)
        learner.ask()
    assert learner.log_density([[1.3, 1.3]])[0] == -np.inf


def test_recommend_is_the_minimum_of_the_estimate(rng):
    for kernel, interval in KINDS:
        learner = make(3, kernel, radius=2.0, loss_range=interval)
        batch = learner.ask(50)
        learner.tell(batch, rng.uniform(-1, 1, size=50))
        best = learner.recommend()
        assert best.index is None
        assert learner.actions.contains(best.action[None])[0]
        assert best.loss == pytest.approx(learner.estimated_loss(best.action[None])[0])
        X = learner.actions.sample(3000, rng=0)
        X = np.concatenate([X, 2 * X / np.linalg.norm(X, axis=1, keepdims=True)])
        assert best.loss <= learner.estimated_loss(X).min() + 1e-9


# Settings.


NET = kl.exact_features(kl.Quadratic(), kl.Ball(2), spacing=0.4)
NEED_A_NET = {
    "rank": 5,
    "proxy": NET,
    "design": "uniform",
    "prior": np.full(len(NET.points), 1 / len(NET.points)),
    "tuning": "paper",
    "bonus": True,
    "covariance": "sampled",
}


@pytest.mark.parametrize("name", NEED_A_NET)
@pytest.mark.parametrize("kernel", [kl.Quadratic(), kl.Linear()], ids=repr)
def test_settings_of_a_net_need_spacing(name, kernel):
    value = NEED_A_NET[name]
    if name == "proxy" and isinstance(kernel, kl.Linear):
        value = "exact_features"
    with pytest.raises(ValueError, match=f"`{name}` must be .*; give `spacing` to play a net"):
        make(2, kernel, **{name: value})
    if name != "rank" or isinstance(kernel, kl.Quadratic):
        net = make(2, kernel, spacing=0.4, **{name: value})
        assert len(net.engine.points) == len(NET.points)


def test_exploration_below_rounding_is_refused():
    learner = move(make(2, exploration_rate=1e-30), 1e12)
    with pytest.raises(ArithmeticError, match="`exploration_rate` must leave the covariance"):
        learner.ask()


def test_extremes_neither_overflow_nor_vanish():
    learner = make(3, horizon=10**7, loss_bound=1.0)
    for _ in range(20):
        batch = learner.ask(20_000)
        learner.tell(batch, np.where(batch.action[:, 0] > 0.9, -1.0, 1.0))
    assert np.all(np.isfinite(inside.exp2(learner).theta))
    move(learner, 1e6)
    batch = learner.ask(10)
    learner.tell(batch, np.zeros(10))
    assert np.all(learner.actions.contains(batch.action))
