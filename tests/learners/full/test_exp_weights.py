"""Algorithm 2, step by step against its definition, and its distributions against second computations."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

import koloss as kl
from koloss.errors import LossOutOfBounds
from tests.support.hostile import game
from tests.support.statistics import agrees, by_counts, by_law, differs

POINTS = kl.Points(np.random.default_rng(5).random((40, 2)))


def make(actions, kernel, horizon, **settings):
    return kl.ExpWeights(actions, kernel, horizon=horizon, **{"rng": 0} | settings)


def bump(rng, kernel, dimension=2, scale=1.0):
    return kl.KernelLoss(kernel, scale * rng.normal(size=(1, dimension)), [rng.choice([-1.0, 1.0])])


def random_quadratic(rng, d, norm=1.0):
    A, b = rng.normal(size=(d, d)), rng.normal(size=d)
    A = A + A.T
    size = math.sqrt(np.sum(A**2) + b @ b) / norm
    return kl.QuadraticLoss(A / size, b / size)


# Finite sets.


def test_finite_set_is_the_textbook_algorithm_step_by_step():
    """p_{t+1}(a) ∝ p_t(a) exp(-η ℓ_t(a)), as the box has it, multiplied out."""
    rng, kernel = np.random.default_rng(0), kl.Gaussian(0.4)
    learner = make(POINTS, kernel, 50, rng=1)
    p = np.full(40, 1 / 40)
    for _ in range(50):
        np.testing.assert_allclose(learner.distribution, p, rtol=1e-9)
        decision, loss = learner.ask(), bump(rng, kernel)
        assert decision.probability == pytest.approx(p[decision.index])
        learner.tell(decision, loss)
        p = p * np.exp(-learner.learning_rate * loss(POINTS.X))
        p /= p.sum()
    eta = math.sqrt(8 * math.log(40) / 50) / learner.game.width
    assert learner.learning_rate == pytest.approx(eta)


def test_draws_follow_the_distribution():
    learner = make(POINTS, kl.Gaussian(0.4), 9, rng=1)
    for k in range(6):
        learner.tell(learner.ask(), bump(np.random.default_rng(k), kl.Gaussian(0.4)))
    index = learner.ask(20_000).index
    counts = np.bincount(index, minlength=40)
    expected = 20_000 * learner.distribution
    assert agrees(by_counts(counts, expected))
    assert differs(by_counts(counts, np.full(40, 500.0)))  # negative control


def test_weights_survive_losses_that_would_overflow():
    learner = make(POINTS, kl.Linear(), 200, loss_range=(-1e6, 1e6), learning_rate=1.0)
    for _ in range(200):
        learner.tell(learner.ask(), kl.LinearLoss([5e5, 0.0]))
    assert np.all(np.isfinite(learner.distribution))
    assert learner.ask().index == np.argmin(POINTS.X[:, 0])


def test_prior_moves_the_first_distribution_and_the_bound():
    prior = np.arange(1.0, 41.0)
    prior /= prior.sum()
    learner = make(POINTS, kl.Gaussian(0.4), 100, prior=prior)
    np.testing.assert_allclose(learner.distribution, prior)
    expected = learner.game.width * math.sqrt(50 * math.log(1 / prior[0]))
    assert learner.guarantee().total == pytest.approx(expected)


def test_range_is_what_counts_on_points():
    learner = make(POINTS, kl.Gaussian(0.4), 9, loss_range=(0, 1))
    learner.tell(learner.ask(), np.linspace(0, 1, 40))
    with pytest.raises(LossOutOfBounds, match=r"must be in \[0, 1\], got \[-0.5, 0.5\]"):
        learner.tell(learner.ask(), np.linspace(-0.5, 0.5, 40))
    default = make(POINTS, kl.Gaussian(0.4), 9)
    default.tell(default.ask(), 1e3 + np.linspace(-0.5, 0.5, 40))  # a constant costs nothing
    with pytest.raises(LossOutOfBounds, match="range of at most"):
        default.tell(default.ask(), np.linspace(-5, 5, 40))


def test_one_action_and_equal_actions():
    for points in ([[0.5, 0.5]], [[0.5, 0.5]] * 3):
        learner = make(kl.Points(points), kl.Gaussian(1.0), 5)
        learner.tell(learner.ask(), bump(np.random.default_rng(0), kl.Gaussian(1.0)))
        assert learner.guarantee().total == 0


# Compact sets: the distribution in play against a fine net.


def on_net(learner, spacing):
    net = learner.game.actions.net(spacing).X
    log_p = learner.log_density(net)
    p = np.exp(log_p - log_p.max())
    return net, p / p.sum()


def in_directions(draws, net, p, count=4):
    """Of several projections of draws against the law on a net."""
    found = []
    for angle in np.linspace(0, math.pi, count, endpoint=False):
        u = np.asarray([math.cos(angle), math.sin(angle)])
        order = np.argsort(net @ u)
        values, cdf = (net @ u)[order], np.cumsum(p[order])
        found.append(by_law(draws @ u, lambda x, v=values, c=cdf: np.interp(x, v, c)))
    return found


def test_quadratics_on_the_ball_follow_the_exact_density():
    learner = make(kl.Ball(2, 1.5), kl.Quadratic(), 30, rng=2)
    rng = np.random.default_rng(3)
    for _ in range(25):
        learner.tell(learner.ask(), random_quadratic(rng, 2, norm=learner.game.norm))
    net, p = on_net(learner, 0.01)
    draws = learner.ask(3000).action
    assert agrees(in_directions(draws, net, p))
    assert differs(in_directions(draws, net, np.full(len(net), 1 / len(net))))


@pytest.mark.slow
@pytest.mark.parametrize("box", [False, True], ids=["disc", "square"])
def test_gaussian_losses_by_particles_agree_with_a_fine_net(box):
    """Independent runs, one draw each: 150 populations after 40 rounds against the density on a net."""
    actions = kl.Box([-2, -2], [2, 2]) if box else kl.Ball(2, 2.0)
    kernel, draws = kl.Gaussian(0.6), []
    losses = [bump(np.random.default_rng(k), kernel) for k in range(40)]
    for seed in range(150):
        learner = make(actions, kernel, 40, particles=64, learning_rate=1.0, rng=seed)
        for k in range(0, 40, 8):  # as a program that hears several losses at once
            decisions = learner.ask(8)
            learner.tell(decisions, losses[k : k + 8])
        draws.append(learner.ask().action)
    net, p = on_net(learner, 0.04)
    assert agrees(in_directions(np.asarray(draws), net, p))
    flat = np.full(len(net), 1 / len(net))
    assert differs(in_directions(np.asarray(draws), net, flat))


@pytest.mark.slow
def test_particles_follow_over_a_long_game():
    """After 300 rounds of one population its cloud, of 2,000, still has the net's mean and spread."""
    kernel = kl.Gaussian(1.0)
    learner = make(kl.Ball(2, 3.0), kernel, 300, particles=2000, learning_rate=0.3)
    rng = np.random.default_rng(1)
    for _ in range(300):
        learner.tell(learner.ask(), bump(rng, kernel, scale=1.5))
    learner.ask()
    net, p = on_net(learner, 0.03)
    cloud, w = learner.peek(np.random.default_rng(0), 20_000)
    mean = p @ net
    spread = math.sqrt(p @ np.sum((net - mean) ** 2, axis=1))
    assert np.linalg.norm(w @ cloud - mean) < 0.15 * spread
    assert math.sqrt(w @ np.sum((cloud - mean) ** 2, axis=1)) == pytest.approx(spread, rel=0.1)


def test_linear_losses_on_a_box_are_drawn_exactly():
    """Truncated exponentials, coordinate by coordinate."""
    learner = make(kl.Box([0, -1], [1, 3]), kl.Linear(), 50)
    for _ in range(30):
        learner.tell(learner.ask(), kl.LinearLoss([0.6, -0.3]))
    draws, eta = learner.ask(4000).action, learner.learning_rate
    for i, (w, low, high) in enumerate([(0.6, 0, 1), (-0.3, -1, 3)]):
        rate = 30 * eta * w
        cdf = lambda x, r=rate, a=low, b=high: np.expm1(-r * (x - a)) / math.expm1(-r * (b - a))  # noqa: E731
        assert agrees(by_law(draws[:, i], cdf), among=2)
        wrong = stats.kstest(draws[:, i], lambda x, r=rate, a=low, b=high: (x - a) / (b - a))
        assert differs(wrong.pvalue, among=2)


def test_prior_on_a_compact_set():
    """exp(-prior) is the first density; the bound pays for how far it varies."""
    prior = kl.QuadraticLoss(np.diag([5.0, 0.0]), [2.0, 0.0])
    learner = make(kl.Ball(2), kl.Quadratic(), 100, prior=prior)
    net, p = on_net(learner, 0.01)
    np.testing.assert_allclose(p, np.exp(-prior(net)) / np.exp(-prior(net)).sum())
    assert agrees(in_directions(learner.ask(2000).action, net, p))
    uniform = make(kl.Ball(2), kl.Quadratic(), 100)
    spread = float(np.ptp(prior(net)))
    assert learner.problem.log_prior >= spread
    assert learner.guarantee().total > uniform.guarantee().total


# Late losses, compression, recommendations, settings.


@pytest.mark.parametrize("horizon", [200, None])
@pytest.mark.parametrize("delay", [0, 1, 7])
def test_late_losses_stay_within_the_bound(horizon, delay):
    """The bound is pathwise in p_t·ℓ_t: no randomness in the comparison."""
    rng, points = np.random.default_rng(delay), kl.Points(np.eye(8))
    learner = make(points, kl.Linear(), horizon, loss_range=(0, 1), delay=delay if horizon else 0)

    def losses(t, p):
        loss = (rng.random(8) < 0.5) * 1.0
        loss[t // 50] = 0.0 if t % 3 else 1.0
        return loss

    regret, promise = game(learner, losses, 200, late=delay).regrets.max(), learner.guarantee()
    assert regret <= promise.total
    assert promise.valid
    assert (promise.terms["delay"] > 0) == (delay > 0)
    assert learner.diagnostics.late == (200 - 1 if delay else 0)


def test_late_losses_without_tuning_are_charged_as_they_come():
    learner = make(POINTS, kl.Gaussian(0.4), 100)
    rng = np.random.default_rng(0)
    first = learner.ask()
    for _ in range(5):
        learner.tell(learner.ask(), bump(rng, kl.Gaussian(0.4)))
    assert learner.guarantee().terms["delay"] == 0
    learner.tell(first, bump(rng, kl.Gaussian(0.4)))
    expected = 5 * learner.learning_rate * learner.game.width**2 / 4
    assert learner.guarantee().terms["delay"] == pytest.approx(expected)
    assert "came after others" in str(learner.guarantee())


def test_compression_keeps_the_density_and_is_charged():
    kernel = kl.Gaussian(1.0)
    settings = {"kernel": kernel, "horizon": 400, "particles": 16, "rng": 0}
    short = kl.ExpWeights(kl.Ball(2), **settings)
    long = kl.ExpWeights(kl.Ball(2), compression=0.0, **settings)
    rng = np.random.default_rng(0)
    for _ in range(400):
        loss = bump(rng, kernel)
        for learner in (short, long):
            learner.tell(learner.ask(), loss)
    facts = short.diagnostics.sampling
    allowed = kl.ExpWeights(kl.Ball(2), **settings).guarantee().terms["compression"] / 2
    assert facts["centers"] < 300
    assert long.diagnostics.sampling["centers"] == 400
    X = kl.Ball(2).net(0.1).X
    error = np.max(np.abs(short.log_density(X) - long.log_density(X))) / short.learning_rate
    assert error <= facts["compression_error"] + 1e-9
    assert 0 < facts["compression_error"] <= allowed
    promise = short.guarantee()
    assert long.guarantee().terms["compression"] == 0
    assert 2 * facts["compression_error"] <= promise.terms["compression"]
    assert promise.terms["compression"] <= 0.011 * long.guarantee().total


def test_recommendation_is_the_best_action_so_far():
    rng = np.random.default_rng(0)
    losses = [random_quadratic(rng, 2) for _ in range(20)]
    learner = make(kl.Ball(2), kl.Quadratic(), 20)
    assert kl.Ball(2).contains(learner.recommend().action[None])[0]
    for loss in losses:
        learner.tell(learner.ask(), loss)
    net = kl.Ball(2).net(0.01).X
    best, advice = sum(loss(net) for loss in losses).min() / 20, learner.recommend()
    assert advice.loss <= best + 1e-9
    assert advice.loss == pytest.approx(best, abs=1e-3)
    assert advice.certificate == "dual"
    points = make(POINTS, kl.Quadratic(), 20)
    for loss in losses:
        points.tell(points.ask(), loss)
    assert points.recommend().index == np.argmin(sum(loss(POINTS.X) for loss in losses))


def test_expansion_of_a_quadratic_kernel_is_a_quadratic_loss():
    learner = make(kl.Ball(2), kl.Quadratic(), 9)
    loss = kl.KernelLoss(kl.Quadratic(), [[0.5, 0.1], [0.0, 0.3]], [1.0, -0.5])
    learner.tell(learner.ask(), loss)
    X = kl.Ball(2).sample(5, 0)
    np.testing.assert_allclose(learner.log_density(X), -learner.learning_rate * loss(X))


def test_sides_of_length_zero_do_not_count():
    flat = make(kl.Box([0, 2], [1, 2]), kl.Linear(), 100)
    line = make(kl.Box([0], [1]), kl.Linear(), 100, loss_norm=flat.game.norm)
    assert flat.guarantee().total == pytest.approx(line.guarantee().total)
    assert flat.ask().action[1] == 2


def test_points_have_no_density():
    with pytest.raises(TypeError, match="`log_density` is for compact sets"):
        make(POINTS, kl.Quadratic(), 9).log_density(POINTS.X)
