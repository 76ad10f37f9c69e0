"""The peers at home: objectives by hand and against the packages themselves, rules of the contests, regret in their units."""

from __future__ import annotations

import itertools
import math
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import arena
import koloss as kl
from arena import PlayerSpec, home, play_run
from arena.games import games
from arena.tests.test_field import Diary
from tests.support.statistics import agrees, by_errors, by_mean, by_share, differs

HOME = games("peers")
OBJECTIVES = {
    "garland": (home.garland, "Garland", "Garland"),
    "double-sine": (home.double_sine, "DoubleSine", "DoubleSine"),
    "difficult": (home.difficult, "DifficultFunc", "DifficultFunc"),
    "himmelblau": (home.himmelblau, "Himmelblau", "Himmelblau_Normalized"),
    "ackley": (home.ackley, "Ackley", "Ackley_Normalized"),
    "rastrigin": (home.rastrigin, "Rastrigin", "Rastrigin_Normalized"),
}


# Objectives.


@pytest.mark.parametrize("name", OBJECTIVES)
def test_objectives_are_those_of_the_package(name):
    function, module, kind = OBJECTIVES[name]
    theirs = getattr(pytest.importorskip(f"PyXAB.synthetic_obj.{module}"), kind)()
    X = HOME[name].points
    rng = np.random.default_rng(0)
    anywhere = rng.uniform(X.min(axis=0), X.max(axis=0), (500, X.shape[1]))
    middle = np.full((1, X.shape[1]), (X.min() + X.max()) / 2)
    for points in (X, anywhere, middle):
        np.testing.assert_allclose(
            function(points), [theirs.f(list(x)) for x in points], atol=1e-12
        )


def at(function, *x):
    return float(function(np.array([x], dtype=float))[0])


def test_objectives_by_hand():
    assert at(home.garland, 0.5) == pytest.approx(0.25 * (4 - math.sqrt(abs(math.sin(30)))))
    # Where log2 u is whole the sine is zero: half way between the envelopes -u^a and -u^b.
    a, b = -math.log2(0.3), -math.log2(0.8)
    for k in (0, 1, 5):
        u = 2.0**-k
        assert at(home.double_sine, 0.5 + u / 2) == pytest.approx(-(u**a + u**b) / 2)
    assert at(home.double_sine, 0.5) == at(home.difficult, 0.5) == 0
    y = math.exp(-1.2)  # log y = -1.2 has the fractional part 0.8
    assert at(home.difficult, 0.5 + y) == pytest.approx(-(y**2))
    y = math.exp(-1.8)
    assert at(home.difficult, 0.5 - y) == pytest.approx(-math.sqrt(y))
    for x, y in ((3.0, 2.0), (3.584428, -1.848126)):  # two of its four peaks
        assert at(home.himmelblau, x, y) == pytest.approx(0, abs=1e-9)
    assert at(home.himmelblau, 0.0, 0.0) == pytest.approx(-170 / 890)
    assert at(home.ackley, 0.0, 0.0) == pytest.approx(0, abs=1e-12)
    assert at(home.rastrigin, 0.0, 0.0) == 0
    assert at(home.rastrigin, 0.5, 0.5) == pytest.approx(-40.5 / 40)
    assert at(home.rastrigin, 1.0, 0.0) == pytest.approx(-1 / 40)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_noise_is_common_to_all_actions(name):
    """So that the regret is that of the means: by a second computation of both."""
    game, diary = HOME[name], []
    adversary = game.make(3)
    mean = OBJECTIVES[name][0](game.points)
    noise = np.array([adversary(t) + mean for t in range(300)])
    assert np.ptp(noise, axis=1).max() < 1e-12
    assert np.abs(noise).max() <= 0.1
    assert noise[:, 0].std() == pytest.approx(0.1 / math.sqrt(3), rel=0.15)
    run = play_run(game, PlayerSpec("d", "d", partial(Diary, diary=diary), needs=()), rounds=300)
    played = np.arange(300) % len(mean)
    assert run.regret == pytest.approx(300 * mean.max() - mean[played].sum())


def test_cells_do_not_hold_the_best_point():
    for name in ("double-sine", "difficult", "ackley", "rastrigin"):
        points = HOME[name].points
        assert len(points) == 256
        assert np.abs(points - points.mean(axis=0)).min() > 1e-3  # which is in the middle
        assert -HOME[name].make(0)(0).min() < 0.1  # with noise


# Arms.


def test_layouts_are_drawn_from_what_was_logged():
    """Means of 2,000 draws are those of the log."""
    adversary = HOME["layouts"].make(0)
    losses = np.array([adversary(t) for t in range(2000)])
    for arm, logged in enumerate(([10, 17, 22, 4, 8, 9, 7, 10], [9, 0, 7, 20, 50, 5, 12])):
        assert set(np.unique(-losses[:, arm])) == set(logged)
        error = np.std(logged) / math.sqrt(2000)
        own, others = -losses[:, arm].mean(), -losses[:, 1 - arm].mean()
        assert agrees(by_errors((own - np.mean(logged)) / error))
        assert differs(by_errors((others - np.mean(logged)) / error))
    assert agrees(by_errors(np.corrcoef(losses.T)[0, 1] * math.sqrt(2000)))


def test_testbed():
    """Ten arms, standard normal means and rewards; 200 games."""
    game = HOME["testbed"]
    assert game.rounds == 1000
    made = [game.make(seed) for seed in range(200)]
    values = np.array([adversary.mean for adversary in made])
    assert values.shape == (200, 10)
    assert agrees(by_mean(values.ravel(), 0.0))
    assert agrees(by_mean(values.ravel() ** 2, 1.0))
    assert differs(by_mean((1.2 * values.ravel()) ** 2, 1.0))
    losses = np.array([made[0](t) for t in range(1000)])
    noise = (losses + values[0])[:, 4]
    assert agrees(by_mean(noise, 0.0))
    assert agrees(by_mean(noise**2, 1.0))
    assert differs(by_mean(noise, 0.2))
    far = home.Rewards(np.array([0.0, 5.0]), np.array([3.0]), 6.0)
    assert far(0).tolist() == [-3.0, -6.0]


# The contest.


def test_a_machine_gets_worse_whenever_it_is_used():
    adversary = HOME["candy-cane"].make(1)
    first = adversary.thresholds.copy()
    assert first.shape == (100,)
    assert 0 <= first.min() < 0.1 < 0.9 < first.max() <= 1
    for t, arm in enumerate([4] * 30 + [9]):
        adversary.saw(t, arm)
    expected = first.copy()
    expected[[4, 9]] *= 0.97**30, 0.97
    np.testing.assert_allclose(adversary.thresholds, expected)
    # One in `threshold` gives a cane: 4,000 rounds of all machines.
    canes = 4000 - np.sum([adversary(t) for t in range(4000)], axis=0)
    assert agrees(by_share(canes, 4000, expected))
    assert differs(by_share(canes, 4000, first))


def test_the_contest_has_rivers_rules():
    pytest.importorskip("river")
    contest = pytest.importorskip("river.bandit.envs.candy_cane").CandyCaneContest()
    _, info = contest.reset(seed=3)
    ours = HOME["candy-cane"].make(0)
    assert len(info["thresholds"]) == len(ours.thresholds)
    assert contest.n_steps == HOME["candy-cane"].rounds
    ours.thresholds = np.array(info["thresholds"])
    for t, arm in enumerate(np.random.default_rng(0).integers(100, size=200)):
        *_, info = contest.step(int(arm))
        ours.saw(t, int(arm))
    np.testing.assert_allclose(ours.thresholds, info["thresholds"])


def test_regret_of_the_contest_is_what_was_missed():
    game, diary = HOME["candy-cane"], []
    run = play_run(game, PlayerSpec("d", "d", partial(Diary, diary=diary)), 1, rounds=300)
    adversary, missed = game.make(run.seeds[1]), 0.0
    for t in range(300):
        missed += adversary(t)[t % 100]
        adversary.saw(t, t % 100)
    assert run.regret == run.loss == missed == sum(loss for *_, loss in diary)
    assert run.best is None
    assert run.curve[-1] == run.running[-1] == missed
    assert missed != sum(game.make(run.seeds[1])(t)[t % 100] for t in range(300))  # it did react


def test_packages_at_home_hear_their_own_units():
    from arena.peers import _unit

    assert _unit(HOME["testbed"], "river") == 12
    assert _unit(HOME["garland"], "PyXAB") == pytest.approx(1.2)
    assert _unit(HOME["garland"], "river") == _unit(games()["drift"], "PyXAB") == 1


@pytest.mark.filterwarnings("ignore")
def test_trees_at_home_have_the_whole_domain():
    pytest.importorskip("PyXAB")
    for name, domain in (("garland", [[0, 1]]), ("himmelblau", [[-5, 5]] * 2)):
        tree = arena.players()["pyxab-hct"].make(HOME[name], 0)._algorithm
        np.testing.assert_allclose(tree.partition.get_root().get_domain(), domain, atol=1e-12)


def test_names_of_packages_are_those_of_players():
    packages = {spec.package for spec in arena.players().values()}
    assert {game.home for game in HOME.values()} <= packages | {"mabwiser"}


def guide_class(name):
    """A class of the guide on insured learners, as it stands there."""
    guide = (Path(__file__).parents[2] / "docs" / "guide" / "insured.md").read_text("utf-8")
    lines = guide.split(f">>> class {name}:\n")[1].splitlines()
    body = itertools.takewhile(lambda line: line.startswith("..."), lines)
    space = {"np": np}
    exec("\n".join([f"class {name}:", *(line[4:] for line in body)]), space)
    return space[name]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_guides_tree_insures_vhct():
    VHCT = pytest.importorskip("PyXAB.algos.VHCT").VHCT
    X = np.linspace(0, 1, 50)[:, None]
    algorithm = VHCT(domain=[[0, 1]])
    policy = guide_class("Tree")(algorithm, X)
    learner = kl.InsuredBandit(kl.Points(X), kl.Gaussian(0.3), horizon=600, loss_range=(0, 1), policy=policy, rng=0)  # fmt: skip
    played = []
    for _ in range(600):
        decision = learner.ask()
        learner.tell(decision, min(1.0, 4 * abs(float(decision.action[0]) - 0.3)))
        played.append(float(decision.action[0]))
    assert policy.time == algorithm.iteration > 100  # it was told what it pulled, and nothing else
    assert abs(np.median(played[300:]) - 0.3) < 0.1
