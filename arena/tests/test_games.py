"""Games of the arena: what they promise about their losses, and what they are made of by a second computation."""

from __future__ import annotations

import math
import pickle
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.optimize import linprog

import koloss as kl
from arena import data
from arena.games import games
from koloss.games.adversaries import Replay
from tests.support.statistics import agrees, by_errors, by_share, differs

# Regret of uniform play as it was reported, a mean of two games with sampled actions; here it is the expectation.
UNIFORM = {"stationary": 735, "drift": 387, "switch": 306, "noisy": 277, "abrupt": 271, "alternating": 199,
           "half": 315, "predictive": 722, "lure": 1672}  # fmt: skip
ALL = {
    name: game for name, game in games().items() if game.contexts is None
}  # test_contexts has the others
FOLDER = Path(data.__file__).parent / "recorded"
KIND = [name for name, game in ALL.items() if game.weather == "kind"]
HOSTILE = [name for name, game in ALL.items() if game.weather == "hostile"]
WATCHING = [name for name in HOSTILE if name != "candy-cane"]  # which cares for what was played


def player(game, p=None):
    """All that a game may look at: anything else is an AttributeError."""
    N = len(game.points)
    law = np.full(N, 1 / N) if p is None else p
    return SimpleNamespace(peek=lambda rng, count=64: (game.points, law))


def mass(game, i):
    return player(game, np.eye(len(game.points))[i])


def some_rounds(game):
    return [0, 1, 2, game.rounds // 2 - 1, game.rounds // 2, game.rounds - 2, game.rounds - 1]


def regret_of_uniform_play(game, seed=0):
    adversary, uniform = game.make(seed), player(game)
    losses = np.stack([adversary(t, uniform) for t in range(game.rounds)])
    return losses.mean(axis=1).sum() - losses.sum(axis=0).min()


def bump(game, i):
    """K(·, x_i), scaled so that the highest bump of the game has height 1."""
    heights = game.kernel(game.points, game.points[i : i + 1])[:, 0]
    return heights / np.max(game.kernel.diag(game.points))


def test_families():
    assert list(games("reported")) == list(UNIFORM)
    families = ("reported", "held-out", "data", "field", "peers", "contexts")
    assert list(games()) == [name for family in families for name in games(family)]
    for family in families:
        assert {game.family for game in games(family).values()} == {family}
    assert sum(len(games(family)) for family in families) == len(games())
    held_out = games("held-out").values()
    assert len(held_out) >= 10
    assert sum(game.weather == "hostile" for game in held_out) >= 4
    assert {game.points.shape[1] for game in held_out} == {1, 2, 3, 5}
    assert all(60 <= len(game.points) <= 1000 for game in held_out)
    assert all(1000 <= game.rounds <= 20_000 for game in held_out)
    assert sum(game.rounds == 20_000 for game in held_out) <= 3
    assert len({type(game.kernel) for game in held_out}) >= 4


def test_bad_family():
    with pytest.raises(ValueError, match="'field', 'peers', 'contexts', got 'hidden'"):
        games("hidden")


def test_games_are_made_once_and_cannot_be_changed():
    assert games()["drift"] is games("reported")["drift"]
    games().clear()
    assert games()
    with pytest.raises(ValueError, match="read-only"):
        games()["drift"].points[0] = 0


@pytest.mark.parametrize("name", ALL)
def test_a_game_says_what_it_is(name):
    game = ALL[name]
    assert game.name == name
    assert name == name.lower()
    assert " " not in name
    assert game.summary.endswith(".")
    assert bool(game.source) == (game.family in ("data", "peers"))
    assert bool(game.home) == (game.family == "peers")
    assert game.points.ndim == 2
    assert np.isfinite(game.points).all()
    assert len(np.unique(game.points, axis=0)) == len(game.points)


@pytest.mark.parametrize("name", ALL)
def test_losses(name):
    """Shape and range; fresh arrays, so that nobody can spoil a game by changing one."""
    game = ALL[name]
    adversary, someone = game.make(0), player(game)
    for t in [*range(500), *range(game.rounds - 100, game.rounds)]:
        loss = adversary(t, someone)
        assert loss.shape == (len(game.points),)
        assert loss.dtype == float
        low, high = game.loss_range
        assert loss.min() >= low
        assert loss.max() <= high
        flat = game.family == "data" or name == "layouts" or (name == "echo-2d" and t < 20)
        assert flat or np.ptp(loss) > 0
    if game.family != "data":
        loss[:] = 1e6
        assert game.make(0)(t, someone).max() <= high


@pytest.mark.parametrize("name", KIND)
def test_kind_losses_are_the_same_whatever_the_player(name):
    """And in whatever order they are asked for, which the loop of the library relies upon."""
    game = ALL[name]
    one, two, three = game.make(5), game.make(5), game.make(5)
    assert one.oblivious
    rounds = some_rounds(game)
    for t in rounds:
        last = len(game.points) - 1
        np.testing.assert_array_equal(one(t, mass(game, 1)), two(t, mass(game, last)))
    for t in reversed(rounds):
        np.testing.assert_array_equal(three(t), two(t))


@pytest.mark.parametrize("name", KIND)
def test_seeds_make_a_difference_where_a_game_is_random(name):
    game = ALL[name]
    same = all(np.array_equal(game.make(1)(t), game.make(2)(t)) for t in some_rounds(game))
    assert same == (name in ("stationary", "switch", "alternating") or game.family == "data")


@pytest.mark.parametrize("name", WATCHING)
def test_hostile_losses_depend_on_the_player(name):
    game = ALL[name]
    one, two, again = game.make(5), game.make(5), game.make(5)
    assert not one.oblivious
    different = 0
    for t in some_rounds(game) * (50 if name == "ambush" else 5):  # which waits for 250 rounds
        first, second = one(t, mass(game, 0)), two(t, mass(game, 7))
        different += not np.array_equal(first, second)
        np.testing.assert_array_equal(first, again(t, mass(game, 0)))
    assert different >= 5


@pytest.mark.parametrize("name", WATCHING)
def test_hostile_games_need_a_player_of_theirs(name):
    game = ALL[name]
    t = game.rounds - 1
    with pytest.raises(ValueError, match="`player` must be a learner"):
        game.make(0)(t)
    with pytest.raises(ValueError, match=r"over \d+ points, got shape \(2,\)"):
        game.make(0)(t, player(game, np.full(2, 0.5)))


@pytest.mark.parametrize("name", ["stationary", "bernoulli-3d", "lure-patient", "trap-2d", "compressor"])  # fmt: skip
def test_games_travel_to_other_processes(name):
    game = ALL[name]
    there = pickle.loads(pickle.dumps(game))
    for t in some_rounds(game):
        np.testing.assert_array_equal(game.make(1)(t, player(game)), there.make(1)(t, player(game)))


# The reported family.


@pytest.mark.parametrize("name", UNIFORM)
def test_uniform_play_has_about_the_reported_regret(name):
    game = ALL[name]
    assert game.rounds == 2000
    assert game.points.shape == (400, 2)
    assert np.linalg.norm(game.points, axis=1).max() <= 1
    assert game.kernel == kl.Gaussian(0.5)
    close = 0.25 if name in ("predictive", "lure") else 0.12  # ties are broken in our own way
    assert regret_of_uniform_play(game) == pytest.approx(UNIFORM[name], rel=close)


@pytest.mark.slow
@pytest.mark.parametrize("name", UNIFORM)
def test_reported_losses_are_a_constant_and_bumps(name):
    """The smallest Σ|c| of all ways to write the loss as b + Σ c_i K(·, x_i), by a linear program."""
    game = ALL[name]
    someone = player(game, np.random.default_rng(1).dirichlet(np.ones(400)))
    loss = game.make(3)(1300, someone)
    assert fit(game, loss) < 1e-6
    assert smallest_sum(game, loss) <= (0.5 if game.weather == "kind" else 1.0) + 1e-4


def test_the_two_fits_can_tell():
    game = ALL["stationary"]
    rough = np.random.default_rng(0).random(400)
    assert fit(game, rough) > 0.1
    twice = 0.5 - 0.8 * bump(game, 5) + 0.8 * bump(game, 9)
    assert fit(game, twice) < 1e-6
    assert smallest_sum(game, twice) > 0.6


def fit(game, loss):
    A = np.column_stack([np.ones(len(loss)), game.kernel(game.points)])
    return np.abs(A @ np.linalg.lstsq(A, loss, rcond=1e-12)[0] - loss).max()


def smallest_sum(game, loss, slack=1e-5):
    K = game.kernel(game.points)
    A = np.column_stack([K, -K, np.ones(len(K)), -np.ones(len(K))])
    cost = np.append(np.ones(2 * len(K)), [0, 0])
    program = linprog(cost, np.vstack([A, -A]), np.append(loss + slack, slack - loss))
    assert program.success
    return program.fun


def test_stationary_switch_and_abrupt_by_hand():
    game = ALL["stationary"]
    loss = game.make(0)(17)
    y = int(np.argmin(loss))
    np.testing.assert_allclose(loss, 0.5 - 0.5 * bump(game, y), atol=1e-15)
    assert np.linalg.norm(game.points[y] - [0.85, 0]) < 0.1
    dips = [int(np.argmin(ALL["switch"].make(0)(t))) for t in (0, 499, 500, 999, 1000, 1999)]
    assert dips[0] == dips[1] != dips[2] == dips[3] != dips[4] != dips[5]
    adversary = ALL["abrupt"].make(0)
    dips = [int(np.argmin(adversary(t))) for t in range(2000)]
    assert set(dips[:1000]) == {dips[0]}
    assert set(dips[1000:]) == {dips[-1]} != {dips[0]}
    levels = {round(float(adversary(t).min()), 9) for t in range(100)}
    assert levels == {0.01, 0.11}


def test_noisy_by_hand():
    """Means of 2000 rounds are those by hand, if signs are fair."""
    game, adversary = ALL["noisy"], ALL["noisy"].make(4)
    mean = np.mean([adversary(t) for t in range(2000)], axis=0)
    places = [np.argmin(np.sum((game.points - [x, 0]) ** 2, axis=1)) for x in (0.6, -0.6)]
    expected = 0.5 + 0.15 * bump(game, places[0]) - 0.15 * bump(game, places[1])
    for t in range(20):  # what is left of a round: ±0.2, and a bump whose top is ±0.1
        left = [np.abs(adversary(t) - expected - sign * 0.2).max() for sign in (-1, 1)]
        assert min(left) == pytest.approx(0.1)
    error = math.hypot(0.2, 0.1) / math.sqrt(2000)  # at the most
    assert agrees(by_errors((mean - expected) / error))
    assert differs(by_errors((mean - expected[::-1]) / error))


def test_drift_moves_slowly_and_alternating_at_once():
    drift = ALL["drift"].make(0)
    # Two random bumps are 0.2 apart at most; the dip itself is 0.3/0.5-Lipschitz in its place, and covers 13 stops.
    steps = [np.abs(drift(t + 1) - drift(t)).max() for t in range(1999)]
    assert max(steps) <= 0.2 + 0.6 * 0.3 * 12 / 1999  # stops are less than 0.3 apart
    ends = [np.mean([drift(t) for t in when], axis=0) for when in (range(60), range(1940, 2000))]
    places = [ALL["drift"].points[np.argmin(mean)] for mean in ends]
    assert np.linalg.norm(places[0] - places[1]) == pytest.approx(0.7, abs=0.25)
    two = ALL["alternating"].make(0)
    np.testing.assert_array_equal(two(0), two(2))
    assert np.abs(two(0) - two(1)).max() > 0.2


# Hostile games.


@pytest.mark.parametrize("name", ["predictive", "predictive-3d", "predictive-polynomial"])
def test_predictive_bumps_stand_where_the_player_is_likeliest(name):
    game = ALL[name]
    adversary, rng = game.make(0), np.random.default_rng(0)
    for t in range(20):
        p = rng.dirichlet(np.ones(len(game.points)))
        loss = adversary(t, player(game, p))
        np.testing.assert_allclose(loss, bump(game, np.argmax(p)), atol=1e-14)
    np.testing.assert_allclose(adversary(20, player(game)), bump(game, 0), atol=1e-14)  # ties


@pytest.mark.parametrize("name, patience", [("lure", 1), ("lure-patient", 25)])
def test_lures_stand_where_the_player_is_least_likely(name, patience):
    game, rng = ALL[name], np.random.default_rng(0)
    adversary, place = game.make(0), None
    for t in range(60):
        p = rng.dirichlet(np.ones(len(game.points)))
        if t % patience == 0:
            place = int(np.argmin(p))
        loss = adversary(t, player(game, p))
        np.testing.assert_allclose(loss, 1 - bump(game, place), atol=1e-14)


@pytest.mark.parametrize("name, start", [("half", 1000), ("trap-2d", 8000)])
def test_traps_are_kind_until_they_are_not(name, start):
    game = ALL[name]
    adversary = game.make(2)
    before = [adversary(start - 1, mass(game, i)) for i in (3, 7)]
    np.testing.assert_array_equal(*before)
    for i in (3, 7):
        np.testing.assert_allclose(adversary(start, mass(game, i)), bump(game, i), atol=1e-14)


def test_turncoat_turns_on_what_the_player_did_of_late():
    game = ALL["turncoat-1d"]
    adversary = game.make(0)
    for t in range(100):
        assert np.argmax(adversary(t, mass(game, 3))) == 3
    # A mean that forgets in 100 rounds: 1 - 0.99^100 is the weight of place 3, the other overtakes when
    # 1 - 0.99^s > 0.99^s (1 - 0.99^100).
    turn = next(s for s in range(1, 200) if 1 - 0.99**s > 0.99**s * (1 - 0.99**100))
    places = [int(np.argmax(adversary(100 + s, mass(game, 90)))) for s in range(turn)]
    assert places == [3] * (turn - 1) + [90]


def test_echo_answers_after_20_rounds():
    game = ALL["echo-2d"]
    adversary, rng = game.make(0), np.random.default_rng(0)
    places = rng.integers(200, size=80)
    for t, place in enumerate(places):
        loss = adversary(t, mass(game, place))
        expected = np.full(200, 0.5) if t < 20 else bump(game, places[t - 20])
        np.testing.assert_allclose(loss, expected, atol=1e-14)


# Held-out kind games.


def test_bernoulli_losses_have_the_means_of_a_landscape():
    game = ALL["bernoulli-3d"]
    adversary = game.make(1)
    losses = np.stack([adversary(t) for t in range(3000)])
    assert set(np.unique(losses)) == {0.0, 1.0}
    mean = adversary.mean(0)
    assert agrees(by_share(losses.sum(axis=0), 3000, mean))
    assert differs(by_share(losses.sum(axis=0), 3000, mean[::-1]))
    # Another seed has other coins: where the landscapes are far apart the losses would differ anyway, so where not.
    other = game.make(2)
    alike = np.abs(other.mean(0) - mean) < 0.02
    assert np.mean([adversary(t)[alike] != other(t)[alike] for t in range(50)]) > 0.2
    # Actions are independent: neighbours in the list are not correlated (the mean of 499 pairs).
    centred = losses - mean
    together = np.mean(centred[:, 1:] * centred[:, :-1])
    assert agrees(by_errors(together / (0.25 / math.sqrt(3000 * 499))))


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in games("held-out") if n in KIND and n != "bernoulli-3d"])  # fmt: skip
def test_held_out_losses_are_in_the_span(name):
    game = ALL[name]
    for t in some_rounds(game):
        assert fit(game, game.make(1)(t)) < 1e-6


def test_changes_and_seasons():
    changes = ALL["changes-2d"].make(0)
    shapes = [changes(t) - changes(t).mean() for t in range(4000)]
    jumps = [t for t in range(1, 4000) if np.abs(shapes[t] - shapes[t - 1]).max() > 1e-9]
    assert jumps == [700, 1000, 2300, 3600]
    seasonal = ALL["seasonal-1d"].make(0)
    year = [np.mean([seasonal(t + 250 * k) for k in range(12)], axis=0) for t in (0, 125)]
    assert np.abs(year[0] - year[1]).max() > 0.1  # noise of a mean: 0.1 / √12 = 0.03


# Real data.


def test_prices_by_hand():
    prices = np.array([0.0, 0.2, 0.5, 1.0])
    losses = data.pricing_losses(prices)
    with np.load(FOLDER / "flights.npz") as file:
        flights = file["departures"]
    assert flights.shape == (365, 24)
    assert losses.shape == (365 * 19, 4)

    def earned(count, price):
        return price * min(40, 8 * count * math.exp(-3 * price))

    grid = np.linspace(0, 1, 20_001)
    best = max(earned(int(flights.max()), price) for price in grid)
    rng = np.random.default_rng(0)
    for day, hour in zip(rng.integers(365, size=30), rng.integers(5, 24, size=30), strict=True):
        expected = [1 - earned(int(flights[day, hour]), price) / best for price in prices]
        np.testing.assert_allclose(losses[19 * day + hour - 5], expected, atol=1e-4)


def test_bad_prices():
    with pytest.raises(ValueError, match="`prices` must not be negative, got -1"):
        data.pricing_losses([0.5, -1.0])


def test_best_price_moves_with_the_flights():
    losses = data.pricing_losses(np.linspace(0, 1, 101))
    fixed, moving = losses.sum(axis=0).min(), losses.min(axis=1).sum()
    assert moving < 0.95 * fixed
    assert 0 <= losses.min() < 0.01


def test_compressions_by_hand():
    with np.load(FOLDER / "compressions.npz") as file:
        ticks, grains = file["ticks"].astype(int), file["grains"].astype(int)
    losses = data.compression_losses()
    assert losses.shape == ticks.shape == grains.shape == (ALL["compressor"].rounds, 63)
    for t, i in ((0, 0), (700, 31), (1499, 62)):
        milliseconds = ticks[t, i] / 100 + 1000 * 16 * grains[t, i] / 5_000_000
        assert losses[t, i] == pytest.approx(min(milliseconds / 10, 1))
    assert np.mean(losses == 1) < 0.01
    settings = data.compressor_settings()
    level, window = 1 + 8 * settings[:, 0], 9 + 6 * settings[:, 1]
    np.testing.assert_allclose(7 * (level - 1) + window - 9, np.arange(63), atol=1e-9)
    # A longer look back makes smaller output: the order of the settings is that of the records.
    assert grains.mean(axis=0)[level == 1][-1] < grains.mean(axis=0)[level == 1][0]


@pytest.mark.parametrize("name", ["airport-prices", "compressor"])
def test_data_games_replay_the_records(name):
    game = ALL[name]
    table = data.compression_losses() if name == "compressor" else data.pricing_losses(game.points[:, 0])  # fmt: skip
    adversary = game.make(0)
    assert isinstance(adversary, Replay)
    np.testing.assert_array_equal(adversary.table, table)
    assert len(table) == game.rounds


def test_shipped_files_are_small():
    sizes = {file.name: file.stat().st_size for file in FOLDER.glob("*.npz")}
    assert set(sizes) == {"flights.npz", "compressions.npz", "delays.npz"}
    assert max(sizes.values()) < 200_000
