"""Hit-and-run: the chord, and the density left invariant.

Statistical tests have the level of `tests.support.statistics`.
"""

from __future__ import annotations

import numpy as np
import pytest

import koloss as kl
from koloss.samplers.chains import as_target
from koloss.samplers.hit_and_run import Move, chord, hit_and_run
from koloss.samplers.quadratic_ball import quadratic_ball
from tests.support.densities import interval_distribution
from tests.support.statistics import agrees, by_law, by_laws, differs

# Chords.


@pytest.mark.parametrize(
    "actions",
    [
        *(kl.Ball(1), kl.Ball(3, 2.0)),
        *(kl.Box([-1.0, 0.0], [1.0, 5.0]), kl.Box([0, 0, 1], [1, 2, 1])),
        *(kl.PositiveBall(1, 2.0, 0.5), kl.PositiveBall(2, 1.0, [0.2, 0.05])),
        kl.PositiveBall(4, 3.0, [0.0, 1.0, 0.5, 2.0]),
    ],
    ids=repr,
)
def test_chords_end_on_the_boundary(actions, rng):
    X = actions.sample(500, rng)
    V = rng.standard_normal(X.shape)
    if isinstance(actions, kl.Box):
        V[:, np.asarray(actions.lower) == np.asarray(actions.upper)] = 0
    if not isinstance(actions, kl.Ball) and actions.dimension > 1:
        V[: len(V) // 4, 0] = 0
    V = V / np.linalg.norm(V, axis=1, keepdims=True)
    lower, upper = chord(actions, X, V)
    assert np.all((lower <= 0) & (upper >= 0))
    room = 1e-9 * actions.diameter()
    for t, outwards in ((lower, -room), (upper, room)):
        assert np.all(actions.contains(X + (t - np.sign(outwards) * room)[:, None] * V))
        far = 30 if isinstance(actions, kl.PositiveBall) else 3
        assert not np.any(actions.contains(X + (t + far * outwards)[:, None] * V))


# The density stays what it is.


DISC, SQUARE = kl.Ball(2), kl.Box([-1.0, 0.0], [1.0, 3.0])
SADDLE = kl.QuadraticLoss([[-2.0, 0.5], [0.5, 1.5]], [0.3, -1.0])
BUMPS = kl.KernelLoss(kl.Gaussian(0.4), [[0.7, 0.2], [-0.5, -0.5], [0.0, 1.0]], [-2.0, -1.5, 1.0])


@pytest.mark.parametrize("actions", [DISC, SQUARE], ids=repr)
@pytest.mark.parametrize("loss", [SADDLE, BUMPS], ids=["quadratic", "slice"])
def test_exact_draws_stay_exact(loss, actions, rng, exact_draws, fits):
    target = as_target(loss, 1.0, 2)
    top = target(actions.net(0.02).X).max() + 0.2
    X = exact_draws(target.log_density, actions, 10_000, rng, top)
    assert agrees(fits(X, actions, target.log_density))
    move = Move(target, actions)
    for _ in range(5):
        X = move(X, rng)
    assert np.all(actions.contains(X))
    assert agrees(fits(X, actions, target.log_density))


QUARTER = kl.PositiveBall(2, 1.0, [0.2, 0.05])
POSYNOMIAL = kl.PosynomialLoss(kl.Posynomial([[1, -1], [-0.5, 2]]), [0.3, 0.5])


def agreement(X, Y):
    """Smallest p-value of two-sample Kolmogorov-Smirnov tests over some directions."""
    return min(by_laws(X @ u, Y @ u) for u in ([1.0, 0.0], [0.0, 1.0], [0.7, -0.7]))


@pytest.mark.slow
@pytest.mark.parametrize("loss", [kl.LinearLoss([1.0, -0.5]), SADDLE, BUMPS, POSYNOMIAL], ids=repr)
def test_exact_draws_on_a_positive_ball_stay_exact(loss, rng, exact_draws):
    target = as_target(loss, 3.0, 2)
    top = target(QUARTER.net(0.01).X).max() + 0.5
    X, Y = (exact_draws(target.log_density, QUARTER, 10_000, rng, top) for _ in range(2))
    move = Move(target, QUARTER)
    for _ in range(5):
        X = move(X, rng)
    assert np.all(QUARTER.contains(X))
    assert agrees(agreement(X, Y))
    flat = Move(as_target(lambda x: np.zeros(len(x)), None, 2), QUARTER)  # negative control
    for _ in range(5):
        X = flat(X, rng)
    assert differs(agreement(X, Y))


def test_negative_controls_of_invariance(rng, exact_draws, fits):
    target = as_target(SADDLE, 1.0, 2)
    X = exact_draws(target.log_density, DISC, 10_000, rng, target(DISC.net(0.02).X).max() + 0.2)
    B, b = target.quadratic
    half = Move(as_target((B, b / 2), None, 2), DISC)  # the slope of another density
    flat = Move(as_target(lambda Y: np.zeros(len(Y)), None, 2), DISC)  # the chord alone
    for wrong in (half, flat):
        Y = X
        for _ in range(5):
            Y = wrong(Y, rng)
        assert differs(fits(Y, DISC, target.log_density))


@pytest.mark.parametrize("as_quadratic", [True, False])
def test_one_dimension(as_quadratic, rng, exact_draws):
    segment = kl.Ball(1, 2.0)

    def log_density(t):
        return 1.3 * t**2 - 0.4 * t

    target = ([[1.3]], [-0.4]) if as_quadratic else (lambda X: log_density(X[:, 0]))
    goal = as_target(target, None, 1)
    X = exact_draws(goal.log_density, segment, 10_000, rng, 6.1)
    move = Move(goal, segment)
    for _ in range(4):
        X = move(X, rng)
    reference = interval_distribution(log_density, -2.0, 2.0)
    assert agrees(by_law(X[:, 0], reference))
    assert differs(by_law(-X[:, 0], reference))  # negative control: reflected


@pytest.mark.parametrize("loss", [SADDLE, BUMPS], ids=["quadratic", "slice"])
def test_from_a_point_to_the_density(loss, fits):
    # Every draw from a chain of its own, all begun at one point: independent, and far from the density at first.
    options = {"learning_rate": 2.0, "chains": 8000, "start": np.zeros((8000, 2)), "rng": 3}
    draws = hit_and_run(loss, DISC, 8000, steps=1, warmup=60, **options)
    assert agrees(fits(draws.points, DISC, lambda X: -2.0 * loss(X)))
    early = hit_and_run(loss, DISC, 8000, steps=1, warmup=0, **options)
    assert differs(fits(early.points, DISC, lambda X: -2.0 * loss(X)))  # negative control


def test_narrow_density_of_a_huge_quadratic(rng):
    # exp(-1e8 (x'n)² + ...) in three dimensions: the ball cut to a disc 1e-4 thick, askew to the axes.
    Q = np.linalg.qr(rng.standard_normal((3, 3)))[0]
    B = Q @ np.diag([-1e8, 2.0, 0.0]) @ Q.T
    draws = hit_and_run(((B + B.T) / 2, np.zeros(3)), kl.Ball(3), 4000, chains=40, rng=0)
    Y = draws.points @ Q
    assert np.std(Y[:, 0]) == pytest.approx(np.sqrt(0.5e-8), rel=0.1)
    assert agrees(by_laws(Y[:, 1], -Y[:, 1]))
    assert draws.r_hat.max() < 1.05


@pytest.mark.slow
@pytest.mark.parametrize("d, scale", [(2, 20.0), (6, 1000.0), (20, 30.0)])
def test_leaves_the_draws_of_the_exact_sampler_as_they_are(d, scale, rng):
    B, b = scale * rng.standard_normal((d, d)), scale * rng.standard_normal(d)
    B = (B + B.T) / 2
    X, Y = quadratic_ball(B, b, 2000, rng=1), quadratic_ball(B, b, 2000, rng=2)
    options = {"chains": 2000, "steps": 1, "warmup": 100, "start": X, "rng": 3}
    moved = hit_and_run((B, b), kl.Ball(d), 2000, **options).points
    assert np.all(np.any(moved != X, axis=1))
    top = np.linalg.eigh(B)[1]
    for x, y in zip((moved @ top).T, (Y @ top).T, strict=True):
        assert agrees(by_laws(x, y))
    other = hit_and_run((B, b / 2), kl.Ball(d), 2000, **options).points  # negative control
    assert differs(min(by_laws(x, y) for x, y in zip(other.T, Y.T, strict=True)))


# What comes back, and what is refused.


def test_shapes_seeds_and_diagnostics():
    draws = hit_and_run(BUMPS, DISC, 1001, chains=10, warmup=50, steps=2, rng=4)
    assert draws.points.shape == (1001, 2)
    assert draws.chains.shape == (10, 101, 2)
    assert np.array_equal(draws.points[:10], draws.chains[:, 0])
    assert draws.effective_size.shape == draws.r_hat.shape == (2,)
    assert draws.acceptance == 1.0
    again = hit_and_run(BUMPS, DISC, 1001, chains=10, warmup=50, steps=2, rng=4)
    assert np.array_equal(draws.points, again.points)
    few = hit_and_run(BUMPS, DISC, 20, chains=10, rng=4)
    assert few.effective_size is None
    assert few.r_hat is None


def test_sides_of_length_zero_stay():
    thin = kl.Box([0.0, 1.0], [1.0, 1.0])
    draws = hit_and_run(BUMPS, thin, 400, chains=20, rng=0)
    assert np.all(draws.points[:, 1] == 1.0)
    assert np.all(np.isfinite(draws.r_hat))
    for target in (BUMPS, SADDLE, POSYNOMIAL):
        for point in (kl.Box([1.0, 1.0], [1.0, 1.0]), kl.PositiveBall(2, 1.0, [0.6, 0.8])):
            assert np.all(hit_and_run(target, point, 40, chains=4, rng=0).points == point.lower)


def test_densities_that_vanish_somewhere():
    def half(X):
        return np.where(X[:, 0] > 0, 0.0, -np.inf)

    assert np.all(hit_and_run(half, DISC, 500, rng=0).points[:, 0] > 0)


NOWHERE, PAIR = lambda X: np.full(len(X), -np.inf), (np.eye(2), np.zeros(2))
CENTRE = {"start": [[0.0, 0.0]], "chains": 1}


@pytest.mark.parametrize(
    "target, actions, settings, message",
    [
        (SADDLE, kl.Points([[0.0, 0.0]]), {}, "`actions` must be a Ball.* got Points; use `cat"),
        (SADDLE, kl.Ball(3), {}, "`target` must have dimension 3, got 2"),
        (PAIR, kl.Ball(3), {}, "`target` must have dimension 3, got 2"),
        (3.0, DISC, {}, "`target` must be a Loss, a pair"),
        (PAIR, DISC, {"learning_rate": 1.0}, "`learning_rate` must be left out"),
        (SADDLE, DISC, {"learning_rate": -1.0}, "`learning_rate` must be at least 0"),
        (SADDLE, DISC, {"start": [[0, 0]]}, "`start` must have one row per chain, 64, got 1"),
        (SADDLE, DISC, {"start": [[0.0, 2.0]], "chains": 1}, "`start` must lie in Ball"),
        (SADDLE, QUARTER, {"start": [[0.0, 0.5]], "chains": 1}, "`start` must lie in PositiveBall"),
        (SADDLE, DISC, {"size": 0}, "`size` must be at least 1, got 0"),
        (lambda X: X[:, 0] * np.nan, DISC, {}, "`target` must be finite or -inf, got nan at"),
        (lambda X: X, DISC, {}, "`target` must give one value per row"),
        (NOWHERE, DISC, {}, "`target` is -inf at all"),
        (NOWHERE, DISC, CENTRE, "`start` must have positive density"),
    ],
)
def test_bad_input(target, actions, settings, message):
    wrong_type = isinstance(target, float) or isinstance(actions, kl.Points)
    with pytest.raises(TypeError if wrong_type else ValueError, match=message):
        hit_and_run(target, actions, **{"size": 1} | settings)
