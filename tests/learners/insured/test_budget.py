"""The budget on every path, alarms, and the bound in the worst case."""

from __future__ import annotations

import functools
import itertools
import math

import numpy as np
import pytest

import koloss as kl
from koloss.learners.insured.account import Account
from koloss.learners.insured.exploration import Exploration
from koloss.learners.insured.watched import Watched
from tests.learners.insured.games import POLICIES, Always, Calls, make, play
from tests.learners.insured.inside import resumed
from tests.learners.insured.test_every_path import Watcher
from tests.support.copies import fresh_copy
from tests.support.dips import dip
from tests.support.hostile import game

# The budget on every path.


SETTINGS = {
    "ucb": {},
    "thompson": {"policy": "thompson"},
    "anytime": {"horizon": None},
    "low rank": {"rank": 5},
    "uniform": {"design": "uniform"},
    "spanner": {"design": "spanner"},
    "thrifty": {"trigger": 0.2, "premium": 0.3},
    "short": {"horizon": 60},
}
WAYS = {
    "at once": ("none", None),
    "late": ("fixed", None),
    "shuffled": ("geometric", None),
    "batches": ("none", 5),
    "batches, shuffled": ("geometric", 4),
}
"""When losses are told, and how many decisions are made at once."""


@functools.cache
def made(name):
    return make(**{"loss_range": (-1, 3)} | SETTINGS[name])


@pytest.mark.slow
@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", SETTINGS)
def test_policies_never_use_more_than_was_promised(name, way):
    delay, count = WAYS[way]
    watcher = Watcher(fresh_copy(made(name), 0))
    assert watcher.play("worst", delay, count, rounds=80) >= -1e-9


@pytest.mark.usefixtures("patient")
def test_negative_control_too_small_a_reach_exceeds_the_budget(monkeypatch):
    right = Exploration.about

    def wrong(self, choice):
        beside, reach = right(self, choice)
        return beside, reach / 10

    monkeypatch.setattr(Exploration, "about", wrong)
    learner = make(kernel=kl.Polynomial(2), horizon=200)
    watchers = [Watcher(fresh_copy(learner, seed), limited=False) for seed in range(5)]
    assert min(watcher.play("worst", "none") for watcher in watchers) < -1


# Alarms.


@functools.cache
def fresh(name):
    """A snapshot of a learner for a game, so that its design is made once."""
    game = dip(name)
    points = kl.Points(np.asarray(game.points, dtype=float))
    return make(points, game.kernel, horizon=game.rounds).state()


def played(name, seed, rounds=None):
    """The learner after a game, and its regret."""
    place, learner = dip(name), resumed(fresh(name), seed)
    adversary = place.make(seed)
    losses = lambda t, p: adversary(t, learner)  # noqa: E731
    return learner, game(learner, losses, rounds or place.rounds).in_hindsight


@pytest.mark.slow
@pytest.mark.parametrize("name", ["stationary", "switch", "abrupt"])
def test_no_alarm_in_kind_weather(name):
    # A learner that gives a false alarm in a third of such games would pass all three in one case of 38.
    for seed in range(3):
        learner, _ = played(name, seed)
        assert learner.alarms == [], seed
        assert learner.diagnostics.playing == "ucb"


@pytest.mark.slow
def test_a_predicting_adversary_is_found_out():
    for seed in range(4):
        learner, regret = played("predictive", seed, 700)
        first = learner.alarms[0]
        assert first.round < 600
        assert first.reason in ("evidence", "budget")
        # It may have had another chance, which it has used up again or not.
        policies = [alarm.policy for alarm in learner.alarms]
        assert policies == [("ucb", "robust")[k % 2] for k in range(len(policies))]
        assert regret <= learner.guarantee(rounds=700).total
        assert regret < 300  # four fifths of 700 for GP-UCB alone


@pytest.mark.slow
def test_a_terrible_policy_is_stopped(request):
    # Always the worst of four unrelated actions; the bound is informative here.
    arms, losses = kl.Points(np.eye(4)), np.array([0.0, 0.5, 0.5, 1.0])
    stopped = {True: [], False: []}
    for early, seed in itertools.product(stopped, range(2)):
        if not early:
            request.getfixturevalue("patient")
        settings = {"horizon": 3000, "policy": Always(3), "batch": 1}
        learner = make(arms, kl.Linear(), rng=seed, **settings)
        regret = losses[play(learner, lambda t: losses, 3000)].sum()
        (alarm,) = learner.alarms
        assert alarm.policy == "own"
        assert alarm.reason == ("evidence" if early else "budget")
        assert regret <= learner.guarantee().total
        assert regret < 1000  # negative control: without insurance it would have been 3,000
        assert not learner.guarantee().is_trivial
        stopped[early].append(alarm.round)
    assert all(a < b for a, b in zip(stopped[True], stopped[False], strict=True))


# The worst case.


def colluding(t):
    """The best action for a while, then the worst one: estimates look good for long."""
    return 0 if t <= 150 else 1


WORST = {
    "fixed": lambda t, p: 1,
    "switch": lambda t, p: 0 if t < 150 else 1,
    "alternating": lambda t, p: t % 2,
    "predictive": lambda t, p: int(np.argmax(p)),
    "lure": lambda t, p: -1 - int(np.argmin(p)),
}
"""Where the loss is 1, the others being 0; of lure: where it is 0, the others being 1."""

PLAYERS = {
    **{name: lambda N, name=name: name for name in POLICIES},
    "worst": lambda N: Always(1),
    "colluding": lambda N: Calls(colluding),
    "uniform": lambda N: Always(np.ones(N) / N),
}
TERMS = {
    "default": {},
    "patient": {},
    "generous": {"trigger": 1.0, "premium": 1.0},
    "anytime": {"horizon": None},
}
CASES = [(player, "patient") for player in PLAYERS] + [
    (player, terms) for player in ("ucb", "colluding") for terms in TERMS if terms != "patient"
]
ROUNDS, SEEDS = 250, 2


def regrets_of_game(learner, place):
    """Of the decisions, against every action."""
    N = len(learner.actions)

    def losses(t, p):
        at = place(t, p)
        return np.eye(N)[at] if at >= 0 else 1 - np.eye(N)[-1 - at]

    played = game(learner, losses, ROUNDS)
    return played.paid - played.total


@functools.cache
def among_arms(player, terms, arms):
    """A snapshot of a learner, so that its design is made once."""
    settings = {"horizon": ROUNDS, "batch": 1, "policy": PLAYERS[player](arms)} | TERMS[terms]
    return make(kl.Points(np.eye(arms)), kl.Linear(), **settings).state()


def mean_regret(player, terms, game, arms):
    """Of a few games, against the best fixed action, its standard error, and the bound."""
    regrets = []
    for seed in range(SEEDS):
        learner = resumed(among_arms(player, terms, arms), seed, PLAYERS[player](arms))
        regrets.append(regrets_of_game(learner, WORST[game]))
    mean, error = np.mean(regrets, axis=0), np.std(regrets, axis=0, ddof=1) / math.sqrt(SEEDS)
    best = int(mean.argmax())
    return mean[best], error[best], learner.guarantee(rounds=ROUNDS)


@pytest.mark.slow
@pytest.mark.parametrize("arms", [2, 4])
@pytest.mark.parametrize("player, terms", CASES)
def test_bound_holds_in_the_worst_case(player, terms, arms, request):
    # Arms that have nothing in common, so that the bound is informative. It is about the regret in the mean: means of
    # 2 games. With 12 games each of 300 rounds, the largest ratio was 0.77 ± 0.03 (the worst action, a fixed loss, two arms).
    if terms != "default":
        request.getfixturevalue("patient")
    for place in WORST if terms == "patient" else ("fixed", "predictive", "lure"):
        mean, error, promise = mean_regret(player, terms, place, arms)
        assert promise.valid
        assert not promise.is_trivial or terms in ("generous", "anytime")
        assert mean <= promise.total, place
        assert error <= promise.total / 3, place


@pytest.mark.usefixtures("patient")
def test_the_worst_case_is_not_far_from_the_bound():
    mean, _, promise = mean_regret("worst", "patient", "fixed", 2)
    assert mean > 0.6 * promise.total


@pytest.mark.usefixtures("patient")
def test_negative_control_a_policy_without_insurance_exceeds_the_bound(monkeypatch):
    monkeypatch.setattr(Watched, "rate_needed", lambda *_, **__: 0.01)
    monkeypatch.setattr(Account, "may_draw", lambda *_: True)
    learner = make(kl.Points(np.eye(2)), kl.Linear(), horizon=ROUNDS, policy=Always(1))
    assert regrets_of_game(learner, WORST["fixed"]).max() > learner.guarantee().total


@pytest.mark.parametrize("horizon", [20_000, 10**7])
def test_batches_told_at_once_do_not_stop_a_policy(horizon):
    prices = np.linspace(1, 3, 30)
    for seed in range(3):
        rng = np.random.default_rng(seed)
        learner = make(kl.Points(prices[:, None]), kl.Gaussian(0.5), horizon=horizon, rng=rng)
        for _ in range(30):
            batch = learner.ask(50)
            price = batch.action[:, 0]
            sold = rng.random(50) < np.exp(-((price / 2) ** 2))
            learner.tell(batch, 1 - price * sold / 3)
        assert learner.alarms == []
        seen = learner.diagnostics
        assert (seen.playing, seen.sat_out) == ("ucb", 0)
        assert seen.skipped < 0.1 * 1500  # what is thrift, not want of room
