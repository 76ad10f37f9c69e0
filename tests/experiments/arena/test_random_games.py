"""Random games: what their settings do, by a second computation, and how a sweep plays them."""

from __future__ import annotations

import math
import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import koloss as kl
from koloss import experiments
from koloss.experiments import SpecError, load_sweep, parse_sweep
from koloss.experiments.arena import games, play_run, players
from koloss.experiments.arena.random_games import RandomGame, random_game, seeds_at
from koloss.experiments.arena.settings import known_games, with_settings
from tests.support.statistics import agrees, by_errors, differs

EXAMPLE = Path(__file__).parents[3] / "examples" / "random_games.toml"

OTHER = {
    "seed": 1, "rounds": 90, "dimension": 3, "actions": 30, "kernel": "matern-1/2", "length": 0.4, "bumps": 1, "noise": 0.2,
    "drift": "abrupt", "delay": "fixed", "late_by": 3, "hostility": 0.5, "onset": 0.5, "stretch": 2.0,
}  # fmt: skip
"""Another value of every setting."""

SPEC = """\
[sweep]
games = ["random"]
players = ["insured", "exp3", "uniform"]
method = "random"
points = 3

[settings]
game.seed = {low = 0, high = 1000}
game.rounds = [40]
game.drift = ["none", "abrupt"]
game.hostility = [0.0, 1.0]
game.delay = ["geometric"]
game.late_by = {low = 1, high = 4}
"""


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


def test_other_seeds_are_other_luck():
    first, second = seeds_at({"seed": 1}, 10, 20), seeds_at({"seed": 2}, 10, 20)
    assert len({*first, *second}) == 4
    assert seeds_at({"seed": 1}, 10, 20) == first
    assert seeds_at({}, 10) == seeds_at({"seed": 0}, 10)


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
    assert set(known_games()) - set(games()) == {"random"}
    assert with_settings(known_games()["random"], {"seed": 4}).points.shape == (60, 2)


# A sweep of them.


def go(text, out, **settings):
    with ThreadPoolExecutor(1) as pool:
        spec = parse_sweep(text, name="random")
        found = experiments.sweep(spec, out=out, runs=1, **{"executor": pool, **settings})
    return found, found.path.read_bytes()


def test_a_sweep_has_a_column_for_each_setting_and_the_same_game_for_all_players(tmp_path):
    found, _ = go(SPEC, tmp_path)
    assert len(found.rows) == 9
    names = [f"game.{name}" for name in ("seed", "rounds", "drift", "hostility", "delay", "late_by")]  # fmt: skip
    assert found.columns[: len(names) + 1] == ["point", *names]
    kind = [row for row in found.rows if not row["game.hostility"]]
    assert 0 < len(kind) < 9
    by_point = {}
    for row in kind:
        by_point.setdefault(row["point"], set()).add(row["best_loss"])
    assert all(len(best) == 1 for best in by_point.values())
    assert len(set.union(*by_point.values())) == len(by_point)  # and another for each seed
    late = [row["status"] for row in found.rows]
    assert late == ["done"] * 9


def test_a_row_is_that_game(tmp_path):
    """Played in a loop of the test's own, with the seeds that a job of this name has."""
    found, _ = go(SPEC.replace('["geometric"]', '["none"]'), tmp_path)
    from koloss.experiments.arena.play import job_of
    from koloss.games.store import seeds_of

    for row in (row for row in found.rows if row["player"] == "exp3"):
        settings = {n.removeprefix("game."): v for n, v in row.items() if n.startswith("game.")}
        game, spec = random_game(settings), players()["exp3"]
        job = job_of(game, spec, 0, rounds=40, seed=0, limit=math.inf)
        mine, theirs = seeds_at(settings, *seeds_of(job))
        player, adversary = spec.make(game, mine), game.make(theirs)
        paid, total = 0.0, np.zeros(len(game.points))
        for t in range(40):
            losses = adversary(t, player)
            decision = player.ask()
            player.tell(decision, losses[decision.index])
            paid, total = paid + losses[decision.index], total + losses
        assert row["loss"] == pytest.approx(paid)
        assert row["regret"] == pytest.approx(paid - total.min())


@pytest.mark.slow
def test_one_and_two_processes_give_the_same_table(tmp_path):
    assert go(SPEC, tmp_path / "one")[1] == go(SPEC, tmp_path / "two", executor=None, jobs=2)[1]


def test_a_mistake_in_a_sweep_is_told_with_its_line(tmp_path):
    for old, new, problem in (
        ("[0.0, 1.0]", "[0.0, 1.5]", "line 11: settings.game.hostility: `hostility` must be from"),
        ("game.drift", "game.drfit", "`settings` must be among seed"),
    ):
        with pytest.raises(SpecError) as error:
            go(SPEC.replace(old, new), tmp_path / "out")
        assert problem in str(error.value)
        assert not (tmp_path / "out").exists()


def test_the_example_draws_what_it_says():
    """False alarm of the shares: 1,000 draws are off by 0.08 with probability below 1e-5 (Hoeffding)."""
    spec = load_sweep(EXAMPLE)
    points = [point.settings for point in spec.points(0)]
    assert len(points) == 1000
    for point in points[:50]:
        random_game({name.removeprefix("game."): value for name, value in point.items()})
    assert abs(np.mean([p["game.hostility"] == 0 for p in points]) - 1 / 2) < 0.08
    assert abs(np.mean([p["game.drift"] == "none" for p in points]) - 1 / 2) < 0.08
    assert abs(np.mean([p["game.stretch"] == 1 for p in points]) - 3 / 7) < 0.08
    assert len({p["game.seed"] for p in points}) == 1000
    assert set(spec.players) <= set(players())
