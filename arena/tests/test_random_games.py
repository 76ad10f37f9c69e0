"""Random games: what their settings do, by a second computation, and runs of them."""

from __future__ import annotations

import math
import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from types import SimpleNamespace

import numpy as np
import pytest

import koloss as kl
from arena import games, play_run, players, run
from arena.random_games import RandomGame, random_game
from tests.support.runs import contents
from tests.support.statistics import agrees, by_errors, differs

OTHER = {
    "seed": 1, "rounds": 90, "dimension": 3, "actions": 30, "kernel": "matern-1/2", "length": 0.4, "bumps": 1, "noise": 0.2,
    "drift": "abrupt", "delay": "fixed", "late_by": 3, "hostility": 0.5, "onset": 0.5, "stretch": 2.0,
}  # fmt: skip
"""Another value of every setting."""


def law(game, p):
    """All that an adversary may look at."""
    return SimpleNamespace(peek=lambda rng, count=64: (game.points, p))


def mass(game, i):
    return law(game, np.eye(len(game.points))[i])


def table(game, player=None, seed=5):
    """All losses of a game against a player whose law stays the same."""
    adversary = game.make(seed)
    return np.stack([adversary(t, player) for t in range(game.rounds)])


def landscapes(losses):
    """Losses without what all actions of a round have in common."""
    return losses - losses.mean(axis=1, keepdims=True)


def numbers_of(rounds):
    """What is to be seen of a game: points, kernel, losses against a player that is sure of action 2, delays."""
    game = random_game(rounds)
    delays = None if game.delays is None else game.delays(5, game.rounds).tolist()
    seen = game.points, table(game, mass(game, 2))
    return repr(game.kernel), delays, *(part.tobytes() for part in seen)


# The game.


def test_a_game_is_a_function_of_its_settings():
    assert set(OTHER) == {field.name for field in fields(RandomGame)}
    assert numbers_of(OTHER) == numbers_of(OTHER)
    assert numbers_of({}) == numbers_of({field.name: field.default for field in fields(RandomGame)})
    clone = pickle.loads(pickle.dumps(random_game(OTHER)))
    assert table(clone, mass(clone, 2)).tobytes() == numbers_of(OTHER)[-1]


@pytest.mark.parametrize("name", OTHER)
def test_every_setting_changes_the_game(name):
    """Where the others let it: an onset needs hostility, and how late losses are needs a delay."""
    base = {"rounds": 100}
    base |= {"late_by": {"delay": "geometric"}, "onset": {"hostility": 0.5}}.get(name, {})
    assert numbers_of(base | {name: OTHER[name]}) != numbers_of(base)


def test_losses_by_a_second_computation():
    """Bumps of the true kernel: a landscape is a dip of 0.15 at a point, and as much at others, of either sign."""
    game = random_game({"noise": 0.1, "bumps": 2, "length": 0.3, "stretch": 4.0, "dimension": 3})
    losses, X = table(game), game.points
    sigma = 0.3 * math.sqrt(3)
    bumps = np.exp(-((X[:, None] - X[None]) ** 2).sum(axis=2) / (2 * sigma**2))
    assert game.kernel == kl.Gaussian(4 * sigma)
    coins = losses - losses.mean(axis=0)
    assert len(np.unique(losses.round(9), axis=0)) == 2  # up and down
    np.testing.assert_allclose(np.ptp(losses, axis=0), 0.2)
    assert abs(coins.mean()) < 1e-9
    middle = losses.min(axis=0) + 0.1 - 0.5
    c = np.linalg.lstsq(bumps, middle, rcond=1e-9)[0]
    np.testing.assert_allclose(bumps @ c, middle, atol=1e-7)
    found = [
        (i, j, sign)
        for i in range(len(X))
        for j in range(len(X))
        for sign in (-1, 1)
        if np.allclose(-0.15 * bumps[i] + sign * 0.15 * bumps[j], middle, atol=1e-9)
    ]
    assert found


def test_drift():
    still, slow, abrupt = (
        landscapes(table(random_game({"drift": drift, "rounds": 300})))
        for drift in ("none", "slow", "abrupt")
    )
    assert len(np.unique(still.round(9), axis=0)) == 1
    assert len(np.unique(abrupt.round(9), axis=0)) == 4
    assert np.any(np.diff(abrupt, axis=0).round(9), axis=1).sum() == 3  # changed three times
    steps = np.diff(slow, axis=0)
    assert np.abs(steps).max() < 0.02  # never by much,
    bends = np.abs(np.diff(steps, axis=0)).max(axis=1) > 1e-9
    assert 2 <= bends.sum() <= 4  # on straight lines between four landscapes,
    assert np.abs(slow[-1] - slow[0]).max() > 0.1  # and far in the end


@pytest.mark.parametrize("strength", [0.3, 1.0])
def test_hostility_is_a_bump_where_the_player_is_likeliest(strength):
    game = random_game({"hostility": strength, "onset": 0.5, "rounds": 60, "kernel": "matern-3/2"})
    kind = table(random_game({"rounds": 60, "kernel": "matern-3/2"}))
    p = np.random.default_rng(0).dirichlet(np.ones(len(game.points)))
    losses, z = table(game, law(game, p)), np.linalg.norm(game.points - game.points[p.argmax()], axis=1)  # fmt: skip
    z *= math.sqrt(3) / (0.2 * math.sqrt(2))
    np.testing.assert_array_equal(losses[:30], kind[:30])
    np.testing.assert_allclose(losses[30:], (1 - strength) * kind[30:] + strength * (1 + z) * np.exp(-z))  # fmt: skip
    assert (game.weather, random_game({}).weather) == ("hostile", "kind")


def test_a_player_that_is_sure_of_itself_pays_for_all_of_the_hostility():
    """GP-UCB, whose law is one action: a loss of 1 in every round. In a kind game it does not."""
    game = random_game({"hostility": 1.0, "rounds": 50})
    assert play_run(game, players()["gp-ucb"]).loss == pytest.approx(50)
    assert play_run(random_game({"rounds": 50}), players()["gp-ucb"]).loss < 30


def test_losses_stay_in_their_range():
    rng = np.random.default_rng(0)
    for seed in range(30):
        kernel, drift = rng.choice(["gaussian", "matern-1/2"]), rng.choice(["none", "slow", "abrupt"])  # fmt: skip
        about = {"seed": seed, "noise": 0.2, "bumps": int(rng.integers(1, 9)), "kernel": str(kernel), "drift": str(drift)}  # fmt: skip
        game = random_game({**about, "rounds": 50, "hostility": float(rng.random())})
        losses = table(game, mass(game, seed))
        assert 0 <= losses.min() < losses.max() <= 1


def test_delays():
    n, mean = 100_000, 20
    fixed = random_game({"delay": "fixed", "late_by": mean}).delays(3, n)
    assert set(fixed.tolist()) == {mean}
    drawn = random_game({"delay": "geometric", "late_by": mean}).delays(3, n)
    error = math.sqrt(mean * (mean + 1) / n)
    assert agrees(by_errors((drawn.mean() - mean) / error))
    assert drawn.min() == 0
    assert differs(by_errors(((drawn + 1).mean() - mean) / error))  # negative control: from 1 on
    assert random_game({"delay": "none", "late_by": mean}).delays is None


@pytest.mark.parametrize(
    "settings, problem",
    [
        ({"noise": 0.3}, "`noise` must be from 0 to 0.2, got 0.3"),
        ({"hostility": -0.1}, "`hostility` must be from 0 to 1, got -0.1"),
        ({"onset": math.nan}, "`onset` must be finite, got nan"),
        ({"length": 0}, "`length` must be from 0.001 to 1000, got 0"),
        ({"drift": "fast"}, "`drift` must be one of 'none', 'slow', 'abrupt', got 'fast'"),
        ({"kernel": {"kind": "Gaussian"}}, "`kernel` must be one of 'gaussian', 'matern-5/2'"),
        ({"actions": 1}, "`actions` must be at least 2, got 1"),
        ({"rounds": 3}, "`rounds` must be at least 4, got 3"),
        ({"stray": 0.1}, "`settings` must be among seed, rounds, .* in random, got 'stray'"),
    ],
)
def test_bad_values_are_refused(settings, problem):
    with pytest.raises(ValueError, match=problem):
        random_game(settings)


def test_whole_numbers_are_whole():
    with pytest.raises(TypeError, match=r"`dimension` must be an integer, got 2\.5"):
        random_game({"dimension": 2.5})


def test_no_game_of_the_arena():
    """Its tables are over games that somebody chose."""
    assert random_game({}).name not in games()


# Runs of them.

FEW = [
    {"seed": 5, "rounds": 40},
    {"seed": 6, "rounds": 40, "drift": "abrupt", "hostility": 1.0},
    {"seed": 7, "rounds": 40, "delay": "geometric", "late_by": 3},
]


def several():
    return [random_game(settings, name=f"game {settings['seed']}") for settings in FEW]


def test_kind_games_are_the_same_for_all_players(tmp_path):
    with ThreadPoolExecutor(1) as pool:
        size = {"out": tmp_path, "runs": 1, "executor": pool}
        results = run(several(), ["insured", "exp3", "uniform"], **size)
        assert {one.status for one in results.runs} == {"done"}
        kind = {(one.game, one.best_loss) for one in results.runs if one.game != "game 6"}
        assert len(kind) == len({best for _, best in kind}) == 2  # and another for each seed
        told = []
        run(several(), ["insured", "exp3", "uniform"], progress=told.append, **size)
    assert [one.done for one in told] == [9]  # nothing is played twice


def test_a_run_is_that_game(tmp_path):
    """Played in a loop of the test's own, with the seeds that a job of this name has."""
    for game, settings in zip(several()[:2], FEW, strict=False):
        spec, found = players()["exp3"], play_run(game, players()["exp3"])
        again = random_game(settings)
        player, adversary = spec.make(again, found.seeds[0]), again.make(found.seeds[1])
        paid, total = 0.0, np.zeros(len(again.points))
        for t in range(40):
            losses = adversary(t, player)
            decision = player.ask()
            player.tell(decision, losses[decision.index])
            paid, total = paid + losses[decision.index], total + losses
        assert found.loss == pytest.approx(paid)
        assert found.regret == pytest.approx(paid - total.min())


@pytest.mark.slow
def test_one_and_two_processes_give_the_same(tmp_path):
    for jobs in (1, 2):
        run(several(), ["exp3", "uniform"], out=tmp_path / str(jobs), runs=1, jobs=jobs)
    assert contents(tmp_path / "1") == contents(tmp_path / "2")
