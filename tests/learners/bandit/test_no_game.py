"""No game exceeds the bound that is printed, whatever the settings; and games that do where a learner is broken, or losses are of no class.

Seeds are fixed. The bounds are on expectations and far from tight, so the regret of a game stays below them except with a
probability that is negligible beside 10⁻⁶.
"""

from __future__ import annotations

import functools

import numpy as np
import pytest

import koloss as kl
from tests.support.copies import fresh_copy
from tests.support.hostile import HOSTILE, Losses, game, regret_of

X = np.linspace(0, 1, 20)
KERNEL, ROUNDS = kl.Gaussian(0.4), 400
SETTINGS = {
    "one round": {"batch": 1},
    "drift": {"batch": 8},
    "drift, range": {"batch": "auto", "loss_range": (0, 1)},
    "bonus": {"batch": 1, "bonus": True, "rank": 4},
    "bonus, drift": {"batch": 6, "bonus": True, "rank": 4},
    "low rank": {"batch": 1, "rank": 3},
    "spanner": {"batch": 1, "design": "spanner"},
    "uniform": {"batch": 1, "design": "uniform"},
    "kernel pca": {"batch": 1, "proxy": "kernel_pca"},
    "sampled": {"batch": 4, "covariance": "sampled", "sample_error": 0.3},
    "anytime": {"batch": 1, "horizon": None},
    "paper": {"tuning": "paper"},
    "general": {"batch": 1, "loss_class": "general"},
} | {
    f"hindsight, {name}": {"loss_range": (0, 1), "batch": 1, "regret": "hindsight"} | settings
    for name, settings in {
        "ridge": {},
        "no ridge": {"ridge": 0},
        "drift": {"batch": "auto"},
        "arms": {"loss_class": "any"},
        "anytime": {"horizon": None},
        "learned": {"loss_range": "learn"},
        "learned, anytime": {"loss_range": "learn", "horizon": None},
        "widen": {"loss_range": (0.0, 0.5), "outside": "widen"},
    }.items()
}
ANYWHERE = np.random.default_rng(1).random(ROUNDS)
GAMES = {  # a bump, or a dip, and where it is
    "random": lambda t, p: (1, ANYWHERE[t]),
    "fixed": lambda t, p: (-1, 0.3),
    "switching": lambda t, p: (-1, 0.2 if t // 60 % 2 else 0.8),
    "alternating": lambda t, p: (1, 0.2 if t % 2 else 0.8),
    "predictive": lambda t, p: (1, X[int(np.argmax(p))]),
    "lure": lambda t, p: (-1, X[int(np.argmin(p))]),
    "hidden": lambda t, p: (-1 if p[:6].sum() < 0.05 else 1, 0.1),
}


@functools.cache
def made(name):
    said = {"horizon": ROUNDS, "rng": 0} | SETTINGS[name]
    return kl.BanditExpWeights(kl.Points(X[:, None]), KERNEL, **said)


@pytest.mark.slow
@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("adversary", GAMES)
def test_bound_holds_over_settings(name, adversary):
    learner = fresh_copy(made(name), 0)
    has_constant = learner.settings.loss_range is not None

    def losses(t, p):
        sign, place = GAMES[adversary](t, p)
        loss = sign * np.exp(-((X - place) ** 2) / (2 * 0.4**2))
        return loss + 1 if sign < 0 and has_constant else loss

    played = game(learner, losses, ROUNDS)
    promise = learner.guarantee(rounds=ROUNDS, printed=False if name == "paper" else None)
    assert promise.valid
    suffered = played.in_hindsight if promise.regret == "hindsight" else played.regrets.max()
    assert suffered <= sum(promise.terms.values()) * (played.width if promise.unit else 1.0)


@pytest.mark.parametrize("count", [None, 4, 20])
def test_hostile_game_comes_near_the_bound_but_not_over(count):
    # N = m orthogonal arms and losses ±L: theory.md's tightest case (ratio 0.83 at κ = 1).
    arms, losses = kl.Points(np.eye(12)), np.ones(12)
    losses[5] = -1.0
    ratios = []
    for seed in range(2):
        learner = kl.BanditExpWeights(arms, kl.Linear(), horizon=ROUNDS, batch=1, rng=seed)
        played = game(learner, lambda t, p: losses, ROUNDS, count=count)
        ratios.append(played.in_hindsight / sum(learner.guarantee().terms.values()))
    assert 0.1 < np.mean(ratios) < 1


def test_negative_control_a_broken_learner_exceeds_the_bound():
    # Feeding rewards as losses: the learner runs to the worst action and the check above must notice.
    learner = kl.BanditExpWeights(kl.Points(np.eye(2)), kl.Linear(), horizon=20_000, rng=0)
    played = game(learner, lambda t, p: np.array([1.0, -1.0]), 20_000, count=100)
    assert played.total.max() - played.paid > sum(learner.guarantee().terms.values())


def test_exact_kernel_gives_the_classical_bound():
    points = kl.Points(np.random.default_rng(2).normal(size=(50, 3)))
    learner = kl.BanditExpWeights(points, kl.Linear(), horizon=10_000, loss_bound=1.0, batch=1)
    promise = learner.guarantee()
    assert learner.epsilon == 0
    assert promise.terms["bias"] == 0
    assert promise.total == pytest.approx(2.897 * np.sqrt(3 * 10_000 * np.log(50)), rel=2e-3)
    assert promise.valid


# Losses of a class that are chosen by what the player knows, among them some that aim at the ridge's bias.

PLANE = np.random.default_rng(11).random((20, 2))
KERNELS = {
    "gaussian": kl.Gaussian(0.4),
    "matern": kl.Matern(1.5, 0.5),
    "rough": kl.Matern(0.5, 0.4),
}


def regret_and_promise(learner, losses, name, rounds=300, seed=0):
    regret = regret_of(learner, losses, name, rounds, np.random.default_rng(seed))
    promise = learner.guarantee()
    assert promise.valid
    return regret, promise.total


def make(points, kernel, hull, **settings):
    said = {"horizon": 300, "loss_range": (0, 1), "loss_norm": 1.0, "batch": 1, "rng": 3}
    said["loss_class"] = "rank-one" if hull else "general"
    return kl.BanditExpWeights(kl.Points(points), kernel, **said | settings)


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{"ridge": "auto"}, {"ridge": 0.01}, {"ridge": 1.0}, {"horizon": None}], ids=str)  # fmt: skip
@pytest.mark.parametrize("hull", [False, True], ids=["ball", "hull"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_no_hostile_game_exceeds_the_bound(kernel, hull, settings):
    losses = Losses(KERNELS[kernel], PLANE, 1.0, hull)
    built = make(PLANE, KERNELS[kernel], hull, **settings)
    for seed, name in enumerate(HOSTILE):
        regret, bound = regret_and_promise(fresh_copy(built), losses, name, seed=seed)
        assert regret <= bound


@pytest.mark.slow
@pytest.mark.parametrize("name", ["hiding", "still"])
def test_losses_outside_the_class_exceed_it(name):
    # Negative control: a bandwidth wider than the set, and losses of a tenth of it.
    line = np.linspace(0, 1, 40)[:, None]
    learner = make(line, kl.Gaussian(1.6), False, horizon=4000, rng=0)
    losses = Losses(kl.Gaussian(0.1), line, 1.0, True)
    regret, bound = regret_and_promise(learner, losses, name, 4000)
    assert regret > 2 * bound
