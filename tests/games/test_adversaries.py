"""Adversaries: what they promise to play, and that it stays within the norm."""

from __future__ import annotations

import math

import numpy as np
import pytest

import koloss as kl
from koloss.errors import LossOutOfBounds
from koloss.games.adversaries import Shown
from tests.support.statistics import agrees, by_mean, differs

POINTS = kl.Points(np.random.default_rng(0).random((12, 2)))
MONOMIALS = kl.Posynomial([[1, 0], [-1, 2]])
SPACES = [
    (kl.Linear(), kl.Ball(2)),
    (kl.Quadratic(), kl.Ball(2)),
    (kl.Gaussian(0.5), POINTS),
    (kl.Gaussian(0.5), kl.Ball(2)),
    (kl.Polynomial(2), POINTS),
    (MONOMIALS, kl.Box([0.5, 0.5], [1, 1])),
]
OBLIVIOUS = [getattr(kl.games, name) for name in ("Random", "Biased", "Drifting", "Switching", "Alternating")]  # fmt: skip


@pytest.mark.parametrize("kernel, actions", SPACES, ids=repr)
@pytest.mark.parametrize("kind", OBLIVIOUS)
def test_norms_and_seeds(kind, kernel, actions):
    one, two = (kind(kernel, actions, norm=0.7, rng=3) for _ in range(2))
    for t in range(30):
        loss = one(t)
        assert loss.norm() <= 0.7 * (1 + 1e-9)
        assert loss == two(t)
        if kernel is MONOMIALS:
            assert loss.is_posynomial
    assert one.oblivious


@pytest.mark.parametrize("kind", OBLIVIOUS[:1] + OBLIVIOUS[2:])
def test_full_norm_is_used(kind):
    adversary = kind(kl.Quadratic(), kl.Ball(2), rng=0)
    assert np.mean([adversary(t).norm() for t in range(20)]) == pytest.approx(1)


def test_biased_has_a_mean():
    mean = kl.LinearLoss([1.0, 0.0])
    adversary = kl.games.Biased(kl.Linear(), kl.Ball(2), mean=mean, bias=1, noise=3, rng=0)
    vectors = [adversary(t).vector for t in range(4000)]
    assert agrees(by_mean(vectors, [0.25, 0.0]))
    assert differs(by_mean(vectors, [0.25, 0.1]))


def test_switching_alternating_and_drifting():
    switching = kl.games.Switching(kl.Linear(), kl.Ball(2), length=5, rng=0)
    assert all(switching(t) == switching(0) for t in range(5))
    assert switching(5) != switching(4)
    alternating = kl.games.Alternating(kl.Linear(), kl.Ball(2), rng=0)
    assert alternating(0) == alternating(2) == -alternating(1)
    drifting = kl.games.Drifting(kl.Linear(), kl.Ball(2), period=100, rng=0)
    angle = drifting(0).vector @ drifting(25).vector
    assert angle == pytest.approx(0, abs=1e-12)
    steps = [np.linalg.norm(drifting(t + 1).vector - drifting(t).vector) for t in range(100)]
    np.testing.assert_allclose(steps, 2 * np.sin(np.pi / 100))


def test_rank_one():
    points = [[0.0, 0.1], [0.2, 0.3]]
    adversary = kl.games.RankOne(kl.Gaussian(0.5), kl.Ball(2), points=points, sign=-1)
    X = kl.Ball(2).sample(5, 0)
    np.testing.assert_allclose(adversary(3)(X), -kl.Gaussian(0.5)(X, [[0.2, 0.3]])[:, 0])


def test_predictive_puts_the_loss_where_the_player_is():
    player = kl.ExpWeights(POINTS, kernel=kl.Gaussian(0.1), horizon=50, learning_rate=5.0, rng=0)
    adversary = kl.games.Predictive(kl.Gaussian(0.1), POINTS)
    assert not adversary.oblivious
    for t in range(20):
        p = player.distribution
        loss = adversary(t, player)
        assert np.argmax(loss(POINTS.X)) == np.argmax(p)
        player.tell(player.ask(), loss)
    with pytest.raises(ValueError, match="`player` must be a learner"):
        adversary(0)


LEARNERS = [kl.ExpWeights, kl.ConditionalGradient, kl.FollowTheRegularizedLeader, kl.BanditExpWeights]  # fmt: skip


@pytest.mark.parametrize("kind", LEARNERS)
def test_looking_changes_nothing(kind):
    player, twin = (kind(kl.Ball(2), kernel=kl.Quadratic(), horizon=50, rng=0) for _ in range(2))
    random = kl.games.Random(kl.Quadratic(), kl.Ball(2), rng=1)
    for t in range(4):
        before = player.state()["digest"]
        X, p = Shown(player).peek(np.random.default_rng(0))
        kl.games.Predictive(kl.Quadratic(), kl.Ball(2), rng=0)(t, player)
        assert player.state()["digest"] == before
        assert np.all(kl.Ball(2).contains(X))
        assert p.sum() == pytest.approx(1)
        assert player.state()["learner"]["_rng"] == twin.state()["learner"]["_rng"]
        loss = random(t)
        mine, theirs = player.ask(), twin.ask()
        np.testing.assert_array_equal(mine.action, theirs.action)
        told = loss if player.feedback == "full" else float(loss(mine.action[None])[0])
        player.tell(mine, told)
        twin.tell(theirs, told)


def test_lure_is_good_where_the_player_is_not():
    player = kl.ExpWeights(POINTS, kernel=kl.Gaussian(0.1), horizon=50, learning_rate=2.0, rng=0)
    adversary = kl.games.Lure(kl.Gaussian(0.1), POINTS, patience=1)
    player.tell(player.ask(), kl.KernelLoss(kl.Gaussian(0.1), POINTS.X[3:4], [1.0]))
    p = player.distribution
    assert np.argmin(adversary(0, player)(POINTS.X)) == np.argmin(p)
    with pytest.raises(TypeError, match="`actions` must be Points for a lure"):
        kl.games.Lure(kl.Gaussian(0.1), kl.Ball(2))


class Law:
    """A player that says what it is told."""

    def __init__(self, *weights, exploration=0.01):
        q = np.array(weights) / sum(weights)
        self.distribution = (1 - exploration) * q + exploration / len(q)


def test_stalker_is_good_where_only_exploration_plays():
    stalker = kl.games.Stalker(2000, learning_rate=0.01, exploration_rate=0.01, loss_range=(0, 4))
    hidden = math.exp(-1 + math.log(0.01))  # of the first arm's weight
    law = Law(1.0, 0.9 * hidden, 1.1 * hidden, 1.0)
    assert not stalker.oblivious
    np.testing.assert_allclose(stalker(0, law), [2.0, 0.0, 4.0, 4.0])
    # At the end arms are let in: good until they weigh a third, then like the first, even if they fall back.
    last = 2000 - 1.2 * (1 + math.log(100)) / (0.01 * 2)
    t = math.ceil(last)
    np.testing.assert_allclose(stalker(t - 1, law), [2.0, 0.0, 4.0, 4.0])
    np.testing.assert_allclose(stalker(t, law), [2.0, 0.0, 0.0, 2.0])
    law = Law(1.0, 0.36, 0.37, 1e-9)
    np.testing.assert_allclose(stalker(t + 1, law), [2.0, 0.0, 2.0, 2.0])
    np.testing.assert_allclose(stalker(0, law), [2.0, 4.0, 4.0, 0.0])  # a new game
    np.testing.assert_allclose(stalker(t, law), [2.0, 0.0, 2.0, 0.0])


def test_stalker_refuses():
    with pytest.raises(ValueError, match="`exploration_rate` must be at most 1, got 2"):
        kl.games.Stalker(10, learning_rate=1.0, exploration_rate=2.0)
    with pytest.raises(ValueError, match="`learning_rate` must be positive"):
        kl.games.Stalker(10, learning_rate=0.0, exploration_rate=0.1)
    with pytest.raises(ValueError, match="`player` must be a learner"):
        kl.games.Stalker(10, learning_rate=1.0, exploration_rate=0.1)(0)


def test_replay_from_files(tmp_path):
    table = np.arange(6.0).reshape(2, 3)
    np.save(tmp_path / "t.npy", table)
    np.savetxt(tmp_path / "t.csv", table, delimiter=",")
    for name in ("t.npy", "t.csv"):
        np.testing.assert_array_equal(kl.games.Replay(tmp_path / name)(3), table[1])
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    parquet.write_table(pa.table({f"c{i}": table[:, i] for i in range(3)}), tmp_path / "t.parquet")
    np.testing.assert_array_equal(kl.games.Replay(tmp_path / "t.parquet").table, table)


def too_large(t, player):
    return kl.LinearLoss([3.0])


def test_bad_input(tmp_path):
    with pytest.raises(LossOutOfBounds, match="entries of at most 1, got 5"):
        kl.games.Replay([[5.0]], bound=1.0)
    with pytest.raises(ValueError, match=r"must be a .npy, .csv or .parquet file, got t.txt"):
        kl.games.Replay(tmp_path / "t.txt")
    with pytest.raises(LossOutOfBounds, match="round 4 must have norm at most 1, got 3"):
        kl.games.Function(too_large, norm=1.0)(4)
    with pytest.raises(TypeError, match="`function` must be callable"):
        kl.games.Function(3)
    with pytest.raises(TypeError, match="`kernel` must be a Kernel"):
        kl.games.Random("linear", kl.Ball(2))
    with pytest.raises(ValueError, match="`bias` and `noise` must not both be zero"):
        kl.games.Biased(kl.Linear(), kl.Ball(2), bias=0, noise=0)
    with pytest.raises(ValueError, match="`norm` must be positive"):
        kl.games.Random(kl.Linear(), kl.Ball(2), norm=0)
