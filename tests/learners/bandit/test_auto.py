"""`kernel="auto"`: which bandwidths it takes, what they cost together, and that the bound holds for losses of each."""

from __future__ import annotations

import math

import numpy as np
import pytest

import koloss as kl
from koloss.kernels.algebra import Scaled, Sum
from koloss.learners.bandit.auto import MOST
from tests.learners.bandit.hostile import Losses, game

X = np.random.default_rng(4).random((40, 2)) * [3.0, 0.5]
LINE = np.linspace(0, 1, 12)[:, None]


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


@pytest.mark.slow
@pytest.mark.parametrize("horizon", [3000, 100_000, None])
def test_bandwidths_are_halved_while_one_alone_has_half_the_trivial_bound(horizon):
    points = kl.Points(X)
    found = parts(make(points, horizon=horizon).settings.kernel)
    ranges = np.ptp(X, axis=0)
    weights = np.array([w for w, _ in found])
    np.testing.assert_allclose(
        weights, 4.0 ** -np.arange(len(found)) / sum(4.0 ** -np.arange(len(found)))
    )
    for j, (_, kernel) in enumerate(found):
        np.testing.assert_allclose(kernel.bandwidth, ranges / 2 ** (j + 1))

    def useful(j):
        promise = make(points, 1.0 * kl.Gaussian(ranges / 2 ** (j + 1)), horizon=horizon).guarantee(
            rounds=horizon or 10_000
        )
        return promise.total < promise.trivial / 2

    assert all(useful(j) for j in range(1, len(found)))
    narrowest = found[-1][1](X)
    unrelated = np.max(narrowest - np.eye(len(X))) < 0.05
    assert unrelated or not useful(len(found))


def test_more_rounds_more_bandwidths():
    counts = [
        len(parts(make(kl.Points(LINE), horizon=n).settings.kernel)) for n in (100, 1000, 4000)
    ]
    assert counts == sorted(counts)
    assert counts[0] < counts[-1]


def test_coordinates_that_do_not_vary():
    plain = parts(make(kl.Points(LINE)).settings.kernel)
    with_constant = np.column_stack([LINE, np.full(len(LINE), 1e7), np.zeros(len(LINE))])
    learner = make(kl.Points(with_constant))
    found = parts(learner.settings.kernel)
    assert [w for w, _ in found] == [w for w, _ in plain]
    assert [k.bandwidth[0] for _, k in found] == [k.bandwidth[0] for _, k in plain]
    np.testing.assert_allclose(
        learner.settings.kernel(with_constant), make(kl.Points(LINE)).settings.kernel(LINE)
    )
    again = make(kl.Points(LINE))
    assert [learner.ask().index for _ in range(20)] == [again.ask().index for _ in range(20)]


@pytest.mark.parametrize("rows", [[[2.0, -3.0]], [[0.0, 0.0]] * 3], ids=["one", "equal"])
def test_nothing_to_tell_apart(rows):
    learner = make(kl.Points(rows))
    assert isinstance(learner.settings.kernel, kl.Gaussian)
    learner.tell(learner.ask(), 0.5)
    assert np.isfinite(learner.guarantee().total)


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


@pytest.mark.parametrize(
    "settings, message",
    [
        (
            {"loss_class": "rank-one"},
            "`kernel` must not be 'auto' where `loss_class` is 'rank-one'",
        ),
        ({"tuning": "paper"}, "`kernel` must not be 'auto' where `tuning` is 'paper'"),
        (
            {"proxy": "exact_features"},
            "`kernel` must not be 'auto' where `proxy` is 'exact_features'",
        ),
        ({"kernel": "Auto"}, "`kernel` must be a Kernel, or .*, got 'Auto'"),
        ({"horizon": 0}, "`horizon` must be at least 1, got 0"),
    ],
)
def test_what_makes_no_sense_is_refused(settings, message):
    with pytest.raises((TypeError, ValueError), match=message):
        make(kl.Points(LINE), **{"kernel": "auto"} | settings)


def test_a_ready_proxy_has_its_kernel():
    points = kl.Points(LINE)
    proxy = kl.pivoted_cholesky(kl.Gaussian(0.3), points, rank=5)
    with pytest.raises(ValueError, match="`kernel` must be that of the `proxy`, got 'auto'"):
        make(points, proxy=proxy)


def test_full_information_has_no_auto():
    with pytest.raises(TypeError, match=r"`kernel` must be a Kernel, or .*, got 'auto'"):
        kl.ExpWeights(kl.Points(LINE), "auto", horizon=100)


def test_any_losses_need_no_bandwidths():
    learner = make(kl.Points(LINE), loss_class="any")
    assert isinstance(learner.settings.kernel, kl.Gaussian)


@pytest.mark.parametrize("kind", [kl.BanditExpWeights, kl.InsuredBandit])
def test_it_is_kept_as_the_kernel_it_stands_for(kind):
    few = kl.Points(LINE[::2])
    learner = kind(few, "auto", horizon=1000, loss_range=(0, 1), rng=1)
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
    learner = make(kl.Points(LINE), loss_norm=3.0)
    for norm, promise in ((3.0, learner.guarantee()), (1.2, learner.guarantee(loss_norm=1.2))):
        (text,) = (a.text for a in promise.assumptions if "RKHS" in a.text)
        assert f"norm of at most {norm:.6g}, up to a constant" in text
        for weight, kernel in parts(learner.settings.kernel):
            assert f"{norm * math.sqrt(weight):.4g} at bandwidth {kernel.bandwidth[0]:.4g}" in text
    one = make(kl.Points(LINE), 0.25 * kl.Gaussian(0.3), loss_norm=3.0, ridge=0.1).guarantee()
    assert any("(norms of at most 1.5 at bandwidth 0.3)" in a.text for a in one.assumptions)


# What several kernels cost together (theory F4).


def dimension(K, p, penalty):
    """d(p; λ) = tr K̃(K̃ + λ)⁻¹ for K̃ = √p K √p."""
    root = np.sqrt(p)
    sigma = np.clip(np.linalg.eigvalsh(root[:, None] * K * root), 0, None)
    return float(np.sum(sigma / (sigma + penalty)))


def largest_dimension(K, penalty, steps=300):
    """Lower and upper bound on max_p d(p; λ), by ascent along the gradient and the gap that is left."""
    N, lower, upper = len(K), 0.0, math.inf
    p = np.full(N, 1 / N)
    for _ in range(steps):
        # ∂d/∂p_a = λ k_a'(...)..., from the resolvent of K diag(p): M = (K P + λ)⁻¹ K has d = Σ p_a M_aa.
        M = np.linalg.solve(K * p + penalty * np.eye(N), K)
        gradient = np.diag(M) - np.einsum("ab,b,ba->a", M, p, M)
        d = float(p @ np.diag(M))
        lower, upper = max(lower, d), min(upper, d + gradient.max() - p @ gradient)
        p = p * gradient
        p /= p.sum()
    return lower, upper


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


def test_largest_dimensions_add_up():
    rng = np.random.default_rng(1)
    for _ in range(12):
        weights, grams, penalty, p = random_sum(rng)
        K = sum(w * gram for w, gram in zip(weights, grams, strict=True))
        lower, upper = largest_dimension(K, penalty)
        assert dimension(K, p, penalty) <= upper
        assert upper - lower < 0.05 * upper
        lowers = [largest_dimension(g, penalty / w)[0] for w, g in zip(weights, grams, strict=True)]
        assert upper <= 1.05 * sum(lowers)


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
@pytest.mark.parametrize("name", ["hiding", "lure", "predictive", "coins"])
def test_no_game_exceeds_the_bound_at_any_bandwidth(name):
    points, norm, rounds = np.random.default_rng(11).random((20, 2)), 2.0, 600
    said = {"horizon": rounds, "loss_norm": norm, "batch": 1, "rng": 3}
    kernel = make(kl.Points(points), **said).settings.kernel
    found = parts(kernel)
    assert len(found) > 1
    for k, (weight, part) in enumerate(found):
        learner = make(kl.Points(points), kernel, **said)
        losses = Losses(part, points, norm * math.sqrt(weight), False)
        regret = game(learner, losses, name, rounds, np.random.default_rng(k))
        assert regret <= learner.guarantee().total
