"""Features of other libraries than NumPy, and of single precision: the same learners, the same seeds, the same games."""

from __future__ import annotations

import array_api_compat
import numpy as np
import pytest

import koloss as kl
from koloss.core.arrays import is_single, to_numpy
from koloss.core.snapshot import seal, unseal
from koloss.errors import SnapshotError
from koloss.learners.bandit.device import DeviceEngine

X = np.random.default_rng(3).random((200, 2))
GAMES = {
    "ridge": {},
    "plain": {"ridge": 0, "bonus": False},
    "bonus": {"ridge": 0, "bonus": True},
    "hindsight": {"regret": "hindsight"},
    "anytime": {"horizon": None},
    "learned": {"loss_range": "learn"},
    "shares": {"shares": {0: (0.1, 1.0)}},
    "sampled": {"covariance": "sampled"},
    "delay": {"delay": 3},
}


@pytest.fixture(params=["float64", "float32"])
def place(request, xp):
    """Points in another library or type than NumPy's float64, and how far laws may be from those of that."""
    if xp.__name__.endswith("numpy") and request.param == "float64":
        pytest.skip("the game that others are compared with")
    single = request.param == "float32"
    kind = getattr(xp, request.param)
    points = xp.asarray(X.astype(np.float32) if single else X, dtype=kind)
    if array_api_compat.is_torch_array(points) and xp.cuda.is_available():
        points = points.cuda()
    return kl.Points(points), kl.Points(to_numpy(points).astype(float)), 1e-5 if single else 1e-12


def learner(actions, kind=kl.BanditExpWeights, **settings):
    said = {"horizon": 3000, "loss_range": (0, 1), "rng": 5} | settings
    return kind(actions, kl.Gaussian(0.4), **said)


def losses(decisions, t):
    x = np.atleast_2d(decisions.action)
    values = 0.5 + 0.5 * np.sin(3 * x[:, 0] + t / 10) * x[:, 1]
    return values if np.ndim(decisions.id) else float(values[0])


def play(player, rounds, count=None, first=0):
    rows = []
    for t in range(first, first + rounds):
        decisions = player.ask(count)
        player.tell(decisions, losses(decisions, t))
        rows.append(decisions.index)
    return np.array(rows)


@pytest.mark.parametrize(
    "name, count",
    [*((name, None) for name in GAMES), ("ridge", 30), ("learned", 30)],
)
def test_the_game_is_the_same_anywhere(place, name, count):
    there, here, apart = place
    one, other = learner(there, **GAMES[name]), learner(here, **GAMES[name])
    assert np.array_equal(play(one, 8, count), play(other, 8, count))
    assert np.allclose(one.distribution, other.distribution, rtol=apart, atol=apart)
    assert one.recommend().index == other.recommend().index
    assert one.guarantee().total == pytest.approx(other.guarantee().total, rel=1e-3)


@pytest.mark.parametrize("name", ["ridge", "plain", "hindsight"])
def test_a_snapshot_goes_on_where_it_was(place, name):
    there, _, _ = place
    one = learner(there, **GAMES[name])
    play(one, 5)
    waiting = one.ask(20)
    other = kl.BanditExpWeights.from_state(one.state())
    assert type(other.engine) is type(one.engine)
    if isinstance(one.engine, DeviceEngine):
        assert other.engine.features.place == one.engine.features.place
    for player in (one, other):
        player.tell(waiting.id, losses(waiting, 5))
    assert np.array_equal(play(one, 10), play(other, 10))
    assert np.array_equal(one.distribution, other.distribution)


def test_late_losses_parts_of_batches_and_single_ones(place):
    there, here, apart = place
    laws = []
    for points in (there, here):
        player = learner(points)
        batch, single = player.ask(20), player.ask()
        player.ask(5)
        player.tell([batch[3], batch[1]], [0.3, 0.9])  # in another order
        player.tell(single, 0.2)
        player.tell(batch[7:9], [0.1, 0.4])
        play(player, 25)
        player.tell(batch[0], 0.7)
        laws.append(player.distribution)
    assert np.allclose(*laws, rtol=10 * apart, atol=apart)


def test_requests_among_some_of_the_actions(place):
    there, here, apart = place
    laws = []
    for points in (there, here):
        player, rows = learner(points), []
        for t in range(6):
            decision = player.ask(allowed=np.arange(0, 200, 3))
            player.tell(decision, losses(decision, t))
            rows += [decision.index, *play(player, 2, first=t)]
        laws.append((rows, player.distribution))
    assert laws[0][0] == laws[1][0]
    assert np.allclose(laws[0][1], laws[1][1], rtol=10 * apart, atol=apart)


@pytest.mark.parametrize("policy", ["ucb", "thompson"])
def test_the_insured_learner_plays_the_same_game(place, policy):
    there, here, _ = place
    games, promised = [], []
    for points in (there, here):
        player = learner(points, kl.InsuredBandit, policy=policy)
        promised.append(player.guarantee().total)
        rows = [*play(player, 15)]
        player.hand_over()
        rows += [*play(player, 6), *play(player, 2, 10).ravel()]
        player = kl.InsuredBandit.from_state(player.state())
        games.append([*rows, *play(player, 6)])
    if not is_single(there.X):
        assert games[0] == games[1]
    else:  # values that are equal but for rounding, and eigenvectors that turn with it, decide what a policy plays
        assert len(games[0]) == len(games[1])
    assert promised[0] == pytest.approx(promised[1], rel=1e-3)


def test_a_replicate_begins_anew():
    first = learner(kl.Points(X))
    fresh = play(learner(kl.Points(X), rng=7), 10)
    play(first, 20)
    again = first.replicate(7)
    assert again.engine is first.engine
    assert np.array_equal(play(again, 10), fresh)


# Single precision: what it costs is certified.


def as_element(engine, coefficients, centers):
    """Values of a function of the RKHS at all points."""
    return kl.Gaussian(0.4)(engine.points, centers) @ coefficients


@pytest.mark.parametrize("settings", [GAMES["plain"], GAMES["ridge"]], ids=["plain", "ridge"])
def test_epsilon_bounds_what_single_precision_misses(settings, rng):
    """Losses of the norm assumed are fitted by the rounded features up to ε, with coefficients that the proof allows."""
    single = learner(kl.Points(X.astype(np.float32)), **settings).engine
    double = learner(kl.Points(X.astype(np.float32).astype(float)), **settings).engine
    assert single.features.dtype == np.float32
    assert 0 < single.problem.epsilon - double.problem.epsilon < 1e-5 * single.problem.loss_bound
    rounded, exact = single.features.astype(float), np.asarray(double.features)
    off = np.linalg.norm(rounded - exact, axis=1).max()
    for _ in range(20):
        centers = single.points[rng.choice(200, 5)]
        c = rng.normal(size=5)
        c *= double.norm / np.sqrt(c @ kl.Gaussian(0.4)(centers, centers) @ c)
        values = as_element(double, c, centers)
        values -= (values.max() + values.min()) / 2  # a constant is a feature
        values *= min(1.0, double.problem.loss_bound / np.abs(values).max())
        theta = np.linalg.lstsq(exact, values, rcond=None)[0]
        own = np.abs(exact @ theta - values).max()
        assert np.abs(rounded @ theta - values).max() <= own + off * np.linalg.norm(theta) * 1.001
        if settings is GAMES["plain"]:  # |θ| ≤ L + ε, since E_π (θ'φ)² = |θ|²
            assert np.linalg.norm(theta) <= double.problem.loss_bound + 1.001 * own + 1e-9
    added = single.problem.epsilon - double.problem.epsilon
    assert added >= off * (double.problem.loss_bound + double.problem.epsilon) * 0.999


def test_leverages_of_rounded_features_are_within_the_certificate():
    for settings in (GAMES["plain"], {"ridge": 0, "bonus": True}):
        engine = learner(kl.Points(X.astype(np.float32)), **settings).engine
        phi, w = engine.features.astype(float), engine.weights
        sigma = phi.T @ (w[:, None] * phi)
        leverages = np.einsum("ij,ij->i", phi @ np.linalg.inv(sigma), phi)
        assert leverages.max() <= engine.problem.leverage
        assert leverages.max() > engine.problem.leverage * (1 - 1e-4)  # not by much


def test_sums_of_single_precision_features_are_of_double_precision(rng):
    from koloss.core import linalg

    features = rng.normal(size=(5000, 7)).astype(np.float32, order="F")
    exact, p = features.astype(float), rng.dirichlet(np.ones(5000))
    factor = linalg.covariance_factor(features, p, linalg.work_space(features))
    assert np.allclose(factor, np.linalg.cholesky(exact.T @ (p[:, None] * exact)), rtol=1e-13)
    theta = rng.normal(size=7)
    assert np.allclose(linalg.product(features, theta), exact @ theta, rtol=1e-13, atol=1e-13)
    leverages = np.einsum("ij,ij->i", exact @ np.linalg.inv(factor @ factor.T), exact)
    assert np.allclose(linalg.leverages(factor, features), leverages, rtol=1e-11)
    # In single precision they would be seen to differ.
    coarse = (features.T @ (p.astype(np.float32)[:, None] * features)).astype(float)
    assert not np.allclose(factor, np.linalg.cholesky(coarse), rtol=1e-9)


@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_blocks_make_no_difference(kind, rng, monkeypatch):
    from koloss.core import linalg

    features = np.asfortranarray(rng.normal(size=(1000, 6)).astype(kind))
    p, penalty = rng.dirichlet(np.ones(1000)), np.diag(rng.random(6))
    whole = None
    for rows, limit, part in ((10_000, 10_000, 10_000), (64, 0, 10_000), (17, 0, 100)):
        monkeypatch.setattr(linalg, "WHOLE", limit)
        monkeypatch.setattr(linalg, "ROWS", rows)
        monkeypatch.setattr(linalg, "SHARE", part)
        factor = linalg.covariance_factor(features, p, linalg.work_space(features), penalty)
        found = (
            factor,
            linalg.product(features, p[:6]),
            linalg.leverages(factor, features),
            linalg.squared_lengths(features),
            *linalg.penalised_leverages(factor, features, penalty.diagonal()),
        )
        whole = whole or found
        for one, other in zip(found, whole, strict=True):
            assert np.allclose(one, other, rtol=1e-10)


# Places that are not there.


def test_a_snapshot_of_a_device_that_is_not_here_goes_on_in_numpy():
    strict = pytest.importorskip("array_api_strict")
    one = learner(kl.Points(strict.asarray(X)), ridge=0)
    play(one, 5)
    state = unseal("BanditExpWeights", one.state())
    (features,) = placed_in(state)
    assert features["library"] == "array_api_strict"
    features |= {"library": "cupy", "device": "cuda:7"}
    with pytest.warns(UserWarning, match="no cupy with a device 'cuda:7' here"):
        other = kl.BanditExpWeights.from_state(seal("BanditExpWeights", state))
    assert isinstance(other.engine.features, np.ndarray)
    assert np.array_equal(play(one, 8), play(other, 8))
    features["library"] = "os"
    with pytest.raises(SnapshotError, match="of a library that is known"):
        kl.BanditExpWeights.from_state(seal("BanditExpWeights", state))


def placed_in(data):
    """Arrays of other libraries in a snapshot."""
    if isinstance(data, list):
        return [one for part in data for one in placed_in(part)]
    if not isinstance(data, dict):
        return []
    return [data["placed"]] if "placed" in data else placed_in(list(data.values()))
