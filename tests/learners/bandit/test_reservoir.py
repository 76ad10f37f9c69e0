"""Contexts from a Space of continuously many: who stands for whom, features at new places, late losses, snapshots, regret."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chi2

import koloss as kl
from koloss.errors import SnapshotError
from koloss.learners.bandit import reservoir
from tests.learners.forging import forged

WEATHER = kl.Space(temperature=kl.Float(-10, 30), hour=kl.Float(0, 24))
HEAT = kl.Points(np.linspace(0, 1, 7)[:, None])


def learner_of(size=16, horizon=2000, contexts=None, **settings):
    contexts = kl.Contexts(WEATHER, reservoir=size) if contexts is None else contexts
    said = {"horizon": horizon, "loss_range": (0, 1), "contexts": contexts, "rng": 0}
    return kl.BanditExpWeights(HEAT, kl.Gaussian(0.3), **said | settings)


def wanted(x):
    """What is best at a temperature and an hour, from 0 to 1."""
    return 0.5 + 0.35 * np.sin(2 * np.pi * x[1]) + 0.3 * (x[0] - 0.5)


def play(learner, rounds, seed=1, tell=True):
    coins, places = np.random.default_rng(seed), []
    for _ in range(rounds):
        places.append(coins.random(2))
        decision = learner.ask(context=places[-1])
        if tell:
            learner.tell(
                decision, float(min(1, 4 * (decision.action[0] - wanted(places[-1])) ** 2))
            )
    return np.array(places)


def test_params_and_coordinates_are_the_same_context():
    first, second = learner_of(), learner_of()
    for hour in (0.0, 6.0, 23.5):
        left = first.ask(context={"temperature": 20, "hour": hour})
        right = second.ask(context=[0.75, hour / 24])
        assert (left.index, left.probability) == (right.index, right.probability)
    batch = first.ask(2, context=[{"temperature": 0, "hour": 1}, [0.5, 0.5]])
    first.tell(batch, [0.1, 0.2])
    assert first.recommend([0.5, 0.5]).action.shape == (1,)
    assert first.diagnostics.contexts.sum() == 5


def test_a_context_is_played_as_the_nearest_member():
    learner = learner_of()
    play(learner, 100)
    members = learner._player.members
    for x in np.random.default_rng(5).random((20, 2)):
        c = np.argmin(
            np.sum((members - x) ** 2, axis=1)
        )  # the same by a Gaussian kernel of one bandwidth
        assert learner._player.nearest(x) == c
        np.testing.assert_array_equal(
            learner.distribution_for(x), learner.distribution_for(members[c])
        )
    x = np.array([0.3, 0.9])
    law, decision = learner.distribution_for(x), learner.ask(context=x)
    assert decision.probability == law[decision.index]


def test_contexts_that_join_are_the_farthest_seen():
    learner = learner_of(size=12, batch=1)
    first = learner._player.members
    assert len(first) == 6
    seen = play(learner, 7)  # the next round is the eighth: the number has doubled
    members, player = list(first), learner._player.ahead()
    assert len(learner._player.members) == 6  # to look changes nothing
    for _ in range(3):  # half of six
        gaps = [min(np.sum((x - c) ** 2) for c in members) for x in seen]
        members.append(seen[int(np.argmax(gaps))])
    np.testing.assert_array_equal(player.members, members)
    assert player.engine.shape == (9, 7)
    cells = [int(np.argmin(np.sum((x - np.array(members)) ** 2, axis=1))) for x in seen]
    np.testing.assert_array_equal(player.counts, np.bincount(cells, minlength=9))
    x, before = [0.2, 0.8], learner.state()["digest"]
    law, _ = learner.distribution_for(x), learner.diagnostics
    assert learner.state()["digest"] == before
    decision = learner.ask(context=x)
    assert decision.probability == law[decision.index]
    np.testing.assert_array_equal(learner._player.members, members)
    play(learner, 200)
    assert len(learner._player.members) == 12
    assert len(learner._player.sample) == 0  # nobody else can join
    assert learner._player.counts.sum() == pytest.approx(208)


def test_the_same_context_again_and_again_joins_once():
    learner = learner_of(size=12)
    for _ in range(70):
        learner.tell(learner.ask(context=[0.123, 0.456]), 0.5)
    assert len(learner._player.members) == 7


@pytest.mark.parametrize("proxy", [None, "kernel_pca"])
def test_features_at_new_places_are_those_of_the_same_functions(proxy):
    """By interpolation at the places that greedy pivoting would choose, or at all of them."""
    learner = learner_of(loss_range=None, loss_bound=1.0, rank=9, proxy=proxy)
    player, K = learner._player, len(HEAT)
    new = np.random.default_rng(2).random((3, 2))
    kernel = kl.Mixed(WEATHER)

    def gram(C, D):
        return np.kron(np.asarray(kernel(C, D)), np.asarray(kl.Gaussian(0.3)(HEAT.X, HEAT.X)))

    G = gram(player.members, player.members)
    pivots, left = list(range(len(G))), G.copy()
    if proxy is None:
        pivots = []
        for _ in range(9):
            pivots.append(int(np.argmax(np.diag(left))))
            column = left[:, pivots[-1]] / np.sqrt(left[pivots[-1], pivots[-1]])
            left = left - np.outer(column, column)
    coefficients = np.linalg.lstsq(
        G[:, pivots], learner.engine.features, rcond=1e-13 if proxy else None
    )[0]
    expected = gram(new, player.members)[:, pivots] @ coefficients
    lifted = player._lifted(new)
    assert lifted.shape == (3 * K, 9)
    size = np.abs(expected).max()
    np.testing.assert_allclose(lifted, expected, atol=size * (1e-8 if proxy is None else 1e-3))
    assert np.abs(lifted - expected[::-1]).max() > 0.1 * size


@pytest.mark.parametrize("kernel", [None, "pairs"])
def test_features_of_the_first_members_are_lifted_to_themselves(kernel):
    of_pairs = kl.Gaussian((0.5, 0.5, 0.3)) if kernel else kl.Gaussian(0.3)
    said = {"horizon": 500, "loss_range": (0, 1), "context_kernel": kernel, "rng": 0}
    learner = kl.BanditExpWeights(
        HEAT, of_pairs, contexts=kl.Contexts(WEATHER, reservoir=16), **said
    )
    features = learner.engine.features
    again = learner._player._lifted(learner._player.members)
    np.testing.assert_allclose(again, features, atol=1e-8 * np.abs(features).max())
    play(learner, 40)
    assert len(learner._player.members) > 8


@pytest.mark.slow
def test_every_context_seen_is_in_the_sample_alike(monkeypatch):
    """Chi-square of how often each of 24 contexts is among 8 kept; false alarm 10⁻⁴. Who always replaces is found out."""
    monkeypatch.setattr(reservoir, "SAMPLE", 2)
    learner, rng, games = learner_of(size=4), np.random.default_rng(3), 1500
    player = learner._player

    class Always:
        def integers(self, high):
            return rng.integers(8)

    def statistic(coins):
        times = np.zeros(24)
        for _ in range(games):
            player.sample = np.zeros((0, 2))
            for k in range(24):
                player.made = k + 1
                player._remember(np.array([float(k), 0.0]), coins)
            times[player.sample[:, 0].astype(int)] += 1
        p = 8 / 24
        return np.sum((times - games * p) ** 2) / (games * p * (1 - p)) * 23 / 24

    limit = chi2.ppf(1 - 1e-4, 23)
    assert statistic(rng) < limit
    assert statistic(Always()) > limit


@pytest.mark.parametrize("horizon", [2000, None])
def test_late_losses_find_their_pairs_after_others_have_joined(horizon):
    learner = learner_of(size=12, horizon=horizon, batch="auto")
    play(learner, 5)
    late, x = learner.ask(context=[0.9, 0.1]), np.array([0.9, 0.1])
    player = learner._player
    epoch = player.epoch
    factor, c = np.tril(epoch.law.factor), player.nearest(x)
    row = learner.engine.features[c * len(HEAT) + late.index]
    A = factor @ factor.T
    step = np.linalg.solve(A, row) * epoch.law.discounts[c] * (0.9 - 0.5)
    play(learner, 60, tell=False)
    assert len(player.members) > 6
    before = player.theta.copy()
    learner.tell(late, 0.9)
    np.testing.assert_allclose(player.theta - before, step, rtol=1e-8, atol=1e-12)


SAVED = {
    "horizon": {},
    "anytime": {"horizon": None},
    "held back": {"hold": 5},
    "rewards": {"goal": "maximize"},
    "a kernel of one's own": {"context_kernel": kl.Matern(1.5, 0.5)},
}


@pytest.mark.slow
@pytest.mark.parametrize("rounds", [5, 60])
@pytest.mark.parametrize("name", SAVED)
def test_snapshots_go_on_exactly(name, rounds):
    learner = learner_of(**SAVED[name])
    play(learner, rounds)
    waiting = [learner.ask(context=[0.1, 0.2]), learner.ask(3, context=np.eye(3)[:, :2])]
    waiting += [learner.ask(context=[0.1, 0.7]) for _ in range(20)]
    again = kl.BanditExpWeights.from_state(learner.state())
    assert repr(again) == repr(learner)
    for one in (learner, again):
        for decision in reversed(waiting):
            one.tell(decision, np.full(np.shape(decision.id), 0.4))
        play(one, 40)
    assert learner.state()["digest"] == again.state()["digest"]
    assert str(learner.diagnostics) == str(again.diagnostics)


@pytest.mark.parametrize(
    "path, value, message",
    [
        ("learner.exp2.members", np.zeros((3, 2)), "as many as the reservoir can hold"),
        ("learner.exp2.members", np.full((14, 2), 7.0), "must hold numbers from -1 to 1"),
        ("learner.exp2.counts", np.zeros(2), "must have shape"),
        ("learner.exp2.sample", np.zeros((1, 2)), "must have shape"),
        ("learner.exp2.theta", np.zeros((14, 2)), "must have shape"),
        ("learner.engine.manner", "known", "must be one of 'counted'"),
    ],
)
def test_what_was_changed_and_sealed_again_is_refused(path, value, message):
    learner = learner_of()
    play(learner, 40)
    learner.ask(context=[0.1, 0.2])
    with pytest.raises(SnapshotError, match=message):
        kl.BanditExpWeights.from_state(forged(learner.state(), path, value))


@pytest.mark.parametrize(
    "asked, message",
    [
        ({}, "`context` must be given"),
        ({"context": {"temperature": 50, "hour": 1}}, "`context` must be a point of the space"),
        ({"context": [0.5, np.nan]}, "`context` must be finite"),
        ({"context": [0.5]}, "must be params or 2 coordinates"),
        ({"context": 3}, "must be params or 2 coordinates"),
        ({"count": 2, "context": [[0.1, 0.2]]}, "`context` must be a sequence of 2"),
        ({"count": 2, "context": [[0.1, 0.2], [0.1, 2.0]]}, "must be a point of the encoded space"),
    ],
)
def test_bad_contexts_change_nothing(asked, message):
    learner = learner_of()
    play(learner, 10)
    before = learner.state()["digest"]
    with pytest.raises(ValueError, match=message):
        learner.ask(**asked)
    assert learner.state()["digest"] == before


def test_nothing_is_proved_and_the_rest_is_refused():
    promise = learner_of().guarantee()
    assert not promise.proved
    assert promise.statement == "No bound"
    assert "the nearest of 8 that stand for all others" in str(promise)
    contexts = kl.Contexts(WEATHER)
    with pytest.raises(ValueError, match="`order` must be 'independent' or left out where any"):
        learner_of(order="any")
    with pytest.raises(ValueError, match="`bonus` must be 'auto' or False with several contexts"):
        learner_of(bonus=True)
    with pytest.raises(ValueError, match="`contexts` must be finitely many where a policy is"):
        kl.InsuredBandit(HEAT, kl.Gaussian(0.3), horizon=100, loss_range=(0, 1), contexts=contexts)


def test_mixed_contexts_and_a_net_of_actions():
    visitor = kl.Space(
        device=kl.Choice(["phone", "tablet", "desk"]),
        age=kl.Float(18, 90),
        plan=kl.Float(1, 100, log=True, when={"device": "desk"}),
    )
    learner = kl.BanditExpWeights(
        kl.Box([0], [1]), kl.Gaussian(0.5), horizon=300, loss_range=(0, 1),
        contexts=kl.Contexts(visitor, reservoir=8), spacing=0.25, rng=0,
    )  # fmt: skip
    for params in visitor.decode(visitor.sample(40, rng=1)):
        learner.tell(learner.ask(context=params), 0.5)
    assert learner.recommend({"device": "phone", "age": 30}).action.shape == (1,)


def regret(seed, rounds=2000, contexts=True, shuffled=False, **settings):
    """Mean regret against the best action for each weather."""
    coins, total = np.random.default_rng(seed), 0.0
    given = {"contexts": kl.Contexts(WEATHER, reservoir=32)} if contexts else {}
    learner = kl.BanditExpWeights(
        HEAT, kl.Gaussian(0.3), horizon=rounds, loss_range=(0, 1), rng=seed, **given | settings
    )
    for _ in range(rounds):
        x = coins.random(2)
        losses = np.minimum(1, 4 * (HEAT.X[:, 0] - wanted(x)) ** 2)
        shown = coins.random(2) if shuffled else x
        decision = learner.ask(context=shown) if contexts else learner.ask()
        learner.tell(decision, float(coins.random() < losses[decision.index]))
        total += losses[decision.index] - losses.min()
    return total / rounds


@pytest.mark.slow
def test_regret_is_well_below_that_without_contexts():
    """In each of two fixed games it is below 0.75 of that; where the contexts are those of other rounds it is above."""
    for seed in range(2):
        assert regret(seed) < 0.75 * regret(seed, contexts=False)
    assert regret(0, shuffled=True) > regret(0, contexts=False)


@pytest.mark.slow
def test_contexts_that_join_help_where_contexts_are_in_a_corner(monkeypatch):
    """A fixed game on a short line: below 0.8 of the regret of eight members that are spread over the space."""

    def game():
        coins, total = np.random.default_rng(0), 0.0
        learner = learner_of(horizon=3000, context_kernel=kl.Gaussian(0.15), rank=40)
        for _ in range(3000):
            u = coins.random()
            losses = np.minimum(1, 4 * (HEAT.X[:, 0] - 0.5 - 0.4 * np.sin(2 * np.pi * u)) ** 2)
            decision = learner.ask(context=[0.3 + 0.2 * u, 0.4 + 0.2 * u])
            learner.tell(decision, float(coins.random() < losses[decision.index]))
            total += losses[decision.index] - losses.min()
        return total

    joined = game()
    monkeypatch.setattr(reservoir.ReservoirExp2, "_join", lambda self, first: None)
    assert joined < 0.8 * game()
