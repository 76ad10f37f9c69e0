"""Settings, actions and kernels at the ends of their ranges: refused by name, or played with finite numbers."""

from __future__ import annotations

import math

import numpy as np
import pytest

import koloss as kl
from koloss.errors import KolossWarning

NET = kl.Box([0, 0], [1, 1]).net(0.25)
LEARNERS = {
    "bandit": (kl.BanditExpWeights, {"loss_range": (0.0, 1.0)}),
    "insured": (kl.InsuredBandit, {"loss_range": (0.0, 1.0)}),
    "weights": (kl.ExpWeights, {}),
    "gradient": (kl.ConditionalGradient, {}),
    "leader": (kl.FollowTheRegularizedLeader, {}),
}


def make(name, actions=NET, kernel=None, **settings):
    learner, usual = LEARNERS[name]
    kernel = kl.Gaussian(0.4) if kernel is None else kernel
    return learner(actions, kernel, **{"horizon": 100, "rng": 1, **usual, **settings})


@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.parametrize("horizon", [10**16, 10**400, 10**5000], ids=["16", "400", "5000"])
def test_horizons_beyond_whole_floats_are_refused(name, horizon):
    with pytest.raises(ValueError, match=r"`horizon` must be at most 9007199254740992, got"):
        make(name, horizon=horizon)


@pytest.mark.slow
@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.parametrize("horizon", [10**6, 10**9, 10**15, 2**53])
def test_long_horizons_have_a_finite_bound(name, horizon, monkeypatch):
    from koloss.guarantees import leader

    monkeypatch.setattr(leader, "ONE_BY_ONE", 1000)  # so that the test is quick
    bound = make(name, horizon=horizon).guarantee()
    assert bound.rounds == horizon
    assert 0 < bound.total < math.inf
    assert not any(math.isnan(term) for term in bound.terms.values())


RANGES = [(-1e308, 1e308), (0.0, 1e-320), (-1e100, 1e100), (1e300, 1.0001e300), (0, 10**400)]


@pytest.mark.parametrize("name", ["bandit", "insured", "weights"])
@pytest.mark.parametrize("loss_range", RANGES)
def test_ranges_beyond_floats(name, loss_range):
    with pytest.raises((ValueError, TypeError), match="`loss_range` must"):
        make(name, loss_range=loss_range)


SIZES = [1e-320, 1e-200, 1e200, 1.7e308]
SIZED = [
    ("bandit", "loss_bound"),
    *((name, "loss_norm") for name in LEARNERS),
    *((name, "learning_rate") for name in LEARNERS if name != "insured"),
]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name, setting", SIZED)
def test_sizes_beyond_floats(name, setting, size):
    settings = {setting: size, "loss_range": None} if setting == "loss_bound" else {setting: size}
    with pytest.raises(ValueError, match=rf"`{setting}` must be between 1e-80 and 1e80, got"):
        make(name, **settings)


@pytest.mark.parametrize("size", [1e-80, 1e-30, 1e30, 1e80])
@pytest.mark.parametrize("name", LEARNERS)
def test_the_ends_of_the_range_are_played(name, size):
    settings = {"loss_range": (-size, size)} if "loss_range" in LEARNERS[name][1] else {}
    learner = make(name, loss_norm=size, **settings)
    for _ in range(5):
        decision = learner.ask()
        loss = size / 2 if settings else learner.game.kernel.bump(decision.action, size / 2)
        learner.tell(decision, loss)
    assert math.isclose(learner.distribution.sum(), 1.0, rel_tol=1e-9)
    assert 0 <= learner.guarantee().total < math.inf
    assert math.isfinite(learner.recommend().loss)


@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.parametrize("factor", [1e-60, 1e60])
def test_kernels_beyond_the_range_are_refused(name, factor):
    """(x'y)² of such points is beyond what a bound can hold; unless no norm is stated, and coordinates have no units."""
    game = kl.Points(factor * NET.X), kl.Polynomial(2, 0.0)
    norm = {"loss_norm": 1.0} if name in ("bandit", "insured") else {}
    with pytest.raises(ValueError, match=r"`kernel` must have sup K\(a, a\) between 1e-80 and 1e"):
        make(name, *game, **norm)
    if norm:
        learner = make(name, *game)
        learner.tell(learner.ask(), 0.5)
        assert learner.rank == make(name, NET, game[1]).rank


@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.parametrize(
    "points",
    [
        np.ones((1, 2)),
        np.zeros((4, 2)),
        np.repeat(NET.X, 3, axis=0),
        np.outer(np.linspace(-1, 1, 9), [1.0, 2.0]),
        1 + 1e-16 * NET.X,
        1e8 + NET.X,
        np.eye(100),
        np.linspace(0, 1, 7)[:, None],
        1e-9 * np.eye(2),
        1e6 * np.eye(2),
    ],
    ids=["one", "zeros", "thrice", "line", "equal", "far", "many axes", "one axis", "tiny", "huge"],
)
@pytest.mark.parametrize("kernel", [kl.Gaussian(0.4), kl.Linear()], ids=repr)
@pytest.mark.filterwarnings("ignore::koloss.errors.KolossWarning")
def test_degenerate_points(name, points, kernel):
    learner = make(name, kl.Points(points), kernel)
    for _ in range(3):
        decision = learner.ask()
        if "loss_range" in LEARNERS[name][1]:
            loss = 0.5
        elif name == "weights":
            loss = np.zeros(len(points))
        else:
            loss = learner.game.kernel.bump(decision.action, learner.game.norm / 2)
        learner.tell(decision, loss)
    assert math.isclose(learner.distribution.sum(), 1.0, rel_tol=1e-9)
    assert 0 <= learner.guarantee().total < math.inf
    if name in ("weights", "gradient", "leader") and len(np.unique(points, axis=0)) == 1:
        assert learner.guarantee().total == 0


@pytest.mark.parametrize("name", ["bandit", "insured"])
def test_delays_far_beyond_the_horizon_have_a_bound(name):
    box, kernel = kl.Box([0.0], [1.0]), kl.Linear()
    assert 0 < make(name, box, kernel, delay=10_000).guarantee().total < math.inf


def test_dimensions_whose_covariance_is_beyond_memory():
    with pytest.raises(
        ValueError, match=r"`actions` must have fewer dimensions for a covar.* got 10,000"
    ):
        make("bandit", kl.Ball(10_000), kl.Quadratic())


def test_a_kernel_without_a_positive_value_can_still_be_played():
    class Negative:
        """2x₁y₁ - x'y, on points with a small x₁."""

        def __call__(self, X, Y):
            return 2 * np.outer(X[:, 0], Y[:, 0]) - X @ Y.T

        def diag(self, X):
            return 2 * X[:, 0] ** 2 - np.sum(X * X, axis=1)

    X = np.random.default_rng(3).uniform(-1, 1, (8, 3)) * [0.3, 1, 1]
    with pytest.warns(KolossWarning, match="no loss .* can move along coordinate 1"):
        learner = make("insured", kl.Points(X), Negative())
    learner.tell(learner.ask(), 0.5)
    assert not learner.guarantee().valid


@pytest.mark.filterwarnings("ignore::koloss.errors.KolossWarning")
@pytest.mark.parametrize("design", ["john", "spanner", "uniform"])
def test_probabilities_of_single_precision_add_up(design):
    X = np.random.default_rng(4).uniform(-1, 1, (30, 20)).astype(np.float32)
    learner = make("bandit", kl.Points(X), kl.Matern(0.5, 0.3), design=design)
    assert learner.distribution.dtype == np.float64
    assert math.isclose(learner.distribution.sum(), 1.0, rel_tol=1e-12)
