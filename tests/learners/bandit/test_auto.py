"""`kernel="auto"`: which bandwidths it takes, what they cost together, and that the bound holds for losses of each."""

from __future__ import annotations

import functools
import math
import operator

import numpy as np
import pytest

import koloss as kl
from koloss.kernels.algebra import Scaled, Sum
from koloss.learners.bandit.auto import MOST
from tests.support.clauses import clause_of
from tests.support.hostile import HOSTILE, Losses, regret_of

X = np.random.default_rng(4).random((40, 2)) * [3.0, 0.5]
FINE = np.linspace(0, 1, 60)[:, None]


def make(actions, kernel="auto", **settings):
    said = {"horizon": 3000, "loss_range": (0, 1), "rng": 0}
    return kl.BanditExpWeights(actions, kernel, **said | settings)


def parts(kernel):
    """Weights and Gaussian kernels of a sum."""
    if isinstance(kernel, Sum):
        return parts(kernel.left) + parts(kernel.right)
    if isinstance(kernel, Scaled):
        return [(kernel.scale, kernel.kernel)]
    return [(1.0, kernel)]


# Which bandwidths.


def gaussians(X, count):
    """The sum of so many Gaussian kernels, from the widest on, and the narrowest of them."""
    ranges, dimension = np.ptp(X, axis=0), X.shape[1]
    kernels = [kl.Gaussian(ranges / 2 ** (j + 1)) for j in range(count)]
    total = sum(2.0 ** (-j * dimension) for j in range(count))
    scaled = [2.0 ** (-j * dimension) / total * kernel for j, kernel in enumerate(kernels)]
    return functools.reduce(operator.add, scaled), kernels[-1]


def spacing(X):
    """Distance to the nearest other action, coordinates in units of their ranges: the median over the actions."""
    X = np.unique(X / np.ptp(X, axis=0), axis=0)
    distances = np.linalg.norm(X[:, None] - X, axis=2)
    np.fill_diagonal(distances, np.inf)
    return np.median(distances.min(axis=1))


def why_not(X, count, horizon):
    """The rules by which a sum of so many kernels is one too many."""
    together, narrowest = gaussians(X, count)
    n = horizon or 10_000

    def proved(kernel, **said):
        return make(kl.Points(X), kernel, horizon=horizon, **said).guarantee(rounds=n).total

    found = set()
    if 2.0**-count < spacing(X) * (1 - 1e-6):
        found.add("spacing")
    if proved(narrowest) >= n / 2:
        found.add("trivial")
    if proved(together) > proved(narrowest, loss_class="any") / 2:
        found.add("any")
    return found


SETS = {
    "prices": (np.linspace(0, 1, 40)[:, None], (20_000,)),
    "years": (2000 + np.arange(60.0)[:, None], (4000, None)),
    "uneven": (np.geomspace(1, 400, 50)[:, None], (4000,)),
    "repeated": (np.repeat(np.linspace(3, 4, 24), 12)[:, None], (20_000,)),
    "plane": (X, (3000, None)),
    "apart": (np.random.default_rng(1).random((50, 8)), (100_000,)),
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:`kernel` makes unrelated arms")
@pytest.mark.parametrize("name, horizon", [(name, n) for name, (_, ns) in SETS.items() for n in ns])
def test_bandwidths_are_halved_down_to_the_spacing_and_while_bounds_are_small(name, horizon):
    points, _ = SETS[name]
    chosen = make(kl.Points(points), horizon=horizon).settings.kernel
    count = len(parts(chosen))
    np.testing.assert_allclose(chosen(points), gaussians(points, count)[0](points), rtol=1e-9)
    for fewer in range(2, count + 1):
        assert not why_not(points, fewer, horizon)
    assert why_not(points, count + 1, horizon)


def test_the_spacing_alone_may_end_it():
    points, _ = SETS["repeated"]  # 288 actions are dear for any losses, and only 24 differ
    count = len(parts(make(kl.Points(points), horizon=20_000).settings.kernel))
    assert why_not(points, count + 1, 20_000) == {"spacing"}


def test_points_of_a_net_have_a_spacing_too():
    wide = parts(make(kl.Box([0.0], [60.0]), horizon=4000).settings.kernel)
    coarse = parts(make(kl.Box([0.0], [60.0]), spacing=12.0, horizon=4000).settings.kernel)
    assert len(wide) > len(coarse) == 1


@pytest.mark.slow
def test_coordinates_that_do_not_vary():
    again = make(kl.Points(FINE))
    plain = parts(again.settings.kernel)
    with_constant = np.column_stack([FINE, np.full(len(FINE), 1e7), np.zeros(len(FINE))])
    learner = make(kl.Points(with_constant))
    found = parts(learner.settings.kernel)
    assert [w for w, _ in found] == [w for w, _ in plain]
    assert [k.bandwidth[0] for _, k in found] == [k.bandwidth[0] for _, k in plain]
    np.testing.assert_allclose(learner.settings.kernel(with_constant), again.settings.kernel(FINE))
    assert [learner.ask().index for _ in range(20)] == [again.ask().index for _ in range(20)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "actions",
    [
        kl.Box([0.0], [40.0]),
        kl.Ball(2, 3.0),
        kl.PositiveBall(2, 1.0, 0.25),
        kl.Points([[0.0], [1e-200]]),
        kl.Points([[0.0], [9e151]]),
        kl.Points([[1.0], [1.0 + 1e-15], [2.0]]),
    ],
    ids=repr,
)
def test_all_kinds_of_sets(actions):
    learner = make(actions, horizon=300)
    found = parts(learner.settings.kernel)
    assert 1 <= len(found) <= MOST
    assert math.isclose(sum(w for w, _ in found), 1.0)
    learner.tell(learner.ask(), 0.5)
    assert learner.guarantee().valid


# What can be said beside it.


@pytest.mark.parametrize("kind", [kl.BanditExpWeights, kl.InsuredBandit])
def test_it_is_kept_as_the_kernel_it_stands_for(kind):
    learner = kind(kl.Box([0.0], [1.0]), "auto", horizon=1000, loss_range=(0, 1), rng=1)
    assert isinstance(learner.settings.kernel, Sum)
    for _ in range(10):
        decision = learner.ask()
        learner.tell(decision, float(decision.action[0]))
    again = kind.from_state(learner.state())
    read = eval(repr(learner), vars(kl))
    for other in (again, read):
        assert other.settings == learner.settings
        assert repr(other) == repr(learner)
    assert str(again.guarantee()) == str(learner.guarantee())
    assert [again.ask().index for _ in range(30)] == [learner.ask().index for _ in range(30)]


def test_the_guarantee_names_bandwidths_and_norms():
    learner = make(kl.Points(FINE), loss_norm=3.0)
    for norm, promise in ((3.0, learner.guarantee()), (1.2, learner.guarantee(loss_norm=1.2))):
        text = clause_of(promise, "norm").text
        assert f"norm of at most {norm:.6g}, up to a constant" in text
        for weight, kernel in parts(learner.settings.kernel):
            assert f"{norm * math.sqrt(weight):.4g} at bandwidth {kernel.bandwidth[0]:.4g}" in text
    one = make(kl.Points(FINE), 0.25 * kl.Gaussian(0.3), loss_norm=3.0, ridge=0.1).guarantee()
    said = clause_of(one, "norm").numbers["bandwidths"]
    assert said == " (norms of at most 1.5 at bandwidth 0.3)"


# What several kernels cost together (theory F4).


def dimension(K, p, penalty):
    """d(p; λ) = tr K̃(K̃ + λ)⁻¹ for K̃ = √p K √p."""
    root = np.sqrt(p)
    sigma = np.clip(np.linalg.eigvalsh(root[:, None] * K * root), 0, None)
    return float(np.sum(sigma / (sigma + penalty)))


def random_sum(rng):
    N, D = int(rng.integers(3, 15)), int(rng.integers(1, 4))
    points = rng.random((N, D))
    count = int(rng.integers(2, 5))
    weights = rng.dirichlet(np.ones(count))
    grams = [kl.Gaussian(0.6 / 2**j)(points) for j in range(count)]
    return weights, grams, 10.0 ** rng.uniform(-4, 0), rng.dirichlet(np.ones(N))


def test_dimensions_add_up():
    rng, wrong = np.random.default_rng(0), 0
    for _ in range(200):
        weights, grams, penalty, p = random_sum(rng)
        K = sum(w * gram for w, gram in zip(weights, grams, strict=True))
        d = dimension(K, p, penalty)
        assert (
            d
            <= sum(dimension(g, p, penalty / w) for w, g in zip(weights, grams, strict=True)) + 1e-9
        )
        wrong += d > sum(
            dimension(g, p, penalty / w**2) for w, g in zip(weights, grams, strict=True)
        )
    assert wrong > 20  # weights that count twice would not do


def test_norms_in_the_sum():
    rng, wrong = np.random.default_rng(2), 0
    for _ in range(50):
        points = rng.random((6, 2))
        weights = rng.dirichlet(np.ones(3))
        grams = [kl.Gaussian(0.4 / 2**j)(points) for j in range(3)]
        K = sum(w * gram for w, gram in zip(weights, grams, strict=True))
        for weight, gram in zip(weights, grams, strict=True):
            c = rng.normal(size=6)
            f, norm = gram @ c, math.sqrt(c @ gram @ c)
            ours = math.sqrt(f @ np.linalg.solve(K, f))
            assert ours <= norm / math.sqrt(weight) * (1 + 1e-6)
            wrong += ours > norm
    assert wrong > 20  # the weight matters


@pytest.mark.slow
@pytest.mark.parametrize("name", HOSTILE)
def test_no_game_exceeds_the_bound_at_any_bandwidth(name):
    points, norm, rounds = np.sort(np.random.default_rng(11).random((40, 1)), axis=0), 2.0, 300
    said = {"horizon": rounds, "loss_norm": norm, "batch": 1, "rng": 3}
    kernel = make(kl.Points(points), **said).settings.kernel
    found = parts(kernel)
    assert len(found) > 1
    for k, (weight, part) in enumerate(found):
        learner = make(kl.Points(points), kernel, **said)
        losses = Losses(part, points, norm * math.sqrt(weight), False)
        regret = regret_of(learner, losses, name, rounds, np.random.default_rng(k))
        assert regret <= learner.guarantee().total
