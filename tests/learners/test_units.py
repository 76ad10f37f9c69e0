"""Units: what is told in others, with the range and the norm in the same, is played alike; and rewards in place of losses."""

from __future__ import annotations

import numpy as np
import pytest

import koloss as kl
from tests.support import inside

X = np.random.default_rng(6).random((25, 2))
RANGE, NORM = np.array([0.0, 1.0]), 1.5
BANDITS = {
    "ridge": (kl.BanditExpWeights, {}),
    "single rounds": (kl.BanditExpWeights, {"batch": 1}),
    "no ridge": (kl.BanditExpWeights, {"ridge": 0}),
    "hull": (kl.BanditExpWeights, {"loss_class": "rank-one"}),
    "any": (kl.BanditExpWeights, {"loss_class": "any"}),
    "anytime": (kl.BanditExpWeights, {"horizon": None}),
    "hindsight": (kl.BanditExpWeights, {"regret": "hindsight"}),
    "learned": (kl.BanditExpWeights, {"loss_range": "learn"}),
    "learned, anytime": (kl.BanditExpWeights, {"loss_range": "learn", "horizon": None}),
    "held": (kl.BanditExpWeights, {"hold": 3}),
    "insured": (kl.InsuredBandit, {}),
    "insured, held": (kl.InsuredBandit, {"hold": 3}),
    "insured, learned": (kl.InsuredBandit, {"loss_range": "learn"}),
}
"""Learners on points that are told one number."""

rng = np.random.default_rng(0)
VALUES, MATRICES = rng.random((12, 20)), rng.normal(size=(12, 2, 2)) / 4
VECTORS, CENTRES = rng.normal(size=(12, 2)) / 5, rng.random((12, 2))
POINTS, BALL, BOX = kl.Points(rng.random((20, 2))), kl.Ball(2), kl.Box([0, 0], [1, 1])


def table(t, scale, shift, _):
    return scale * VALUES[t] + shift


def quadratic(t, scale, _, __):
    return scale * kl.QuadraticLoss(MATRICES[t] + MATRICES[t].T, VECTORS[t])


def convex(t, scale, _, __):
    return scale * kl.QuadraticLoss(MATRICES[t] @ MATRICES[t].T, VECTORS[t])


def bump(t, scale, _, __):
    return scale * kl.Gaussian(0.3).bump(CENTRES[t], 1.0)


def heard(t, scale, shift, x):
    return scale * float(x @ MATRICES[t] @ x) + shift


def smooth(t, scale, shift, x):
    return scale * float((x[0] - 0.3) ** 2 + 0.3 * ((7 * t) % 11) / 11) + shift


def norm(scale, _):
    return {"loss_norm": 4 * scale}


def interval(scale, shift):
    return {"loss_range": (shift - scale, shift + 2 * scale)}


def learned(_, __):
    return {"loss_range": "learn"}


OTHERS = {
    "exp weights, points": (kl.ExpWeights, POINTS, kl.Gaussian(0.3), table, interval),
    "exp weights, learned": (kl.ExpWeights, POINTS, kl.Gaussian(0.3), table, learned),
    "exp weights, points, norm": (kl.ExpWeights, POINTS, kl.Gaussian(0.3), table, norm),
    "exp weights, ball": (kl.ExpWeights, BALL, kl.Quadratic(), quadratic, norm),
    "exp weights, particles": (kl.ExpWeights, BOX, kl.Gaussian(0.3), bump, norm),
    "conditional gradient": (kl.ConditionalGradient, BALL, kl.Quadratic(), convex, norm),
    "leader": (kl.FollowTheRegularizedLeader, BALL, kl.Quadratic(), convex, norm),
    "bandit, ball": (kl.BanditExpWeights, BALL, kl.Quadratic(), heard, interval),
}
# A law on a ball that one loss has made is symmetric, and rounding decides on the sign of its axes: here epochs that begin with it have two rounds.
SEEDS = {"bandit, ball": 5}


def make(name, *, scale=1.0, shift=0.0, kernel=None, points=X, norm=NORM, **settings):
    """A learner that is told losses in these units, and so much of them."""
    if name in OTHERS:
        kind, actions, kernel, _, units = OTHERS[name]
        seed = SEEDS.get(name, 3)
        return kind(actions, kernel, horizon=200, rng=seed, **units(scale, shift))
    kind, said = BANDITS[name]
    low, high = scale * RANGE + shift
    said = {"horizon": 800, "loss_range": (low, high), "rng": np.random.default_rng(3)} | said
    if norm is not None and said.get("loss_class") != "any":
        said["loss_norm"] = norm * (1.0 if said["loss_range"] == "learn" else scale)
    return kind(kl.Points(points), kernel or kl.Gaussian(0.4), **said | settings)


def play(name, learner, scale=1.0, shift=0.0):
    """Actions, those of a net by their rows; probabilities; and the guarantee in units of the losses."""
    played, probability = [], []
    for t in range(70 if name in BANDITS else len(VALUES)):
        decision = learner.ask()
        place = decision.action if name in OTHERS else X[decision.index]
        loss = OTHERS[name][3] if name in OTHERS else smooth
        learner.tell(decision, loss(t, scale, shift, place))
        played.append(np.array(place))
        probability.append(decision.probability or 1.0)
    promise = learner.guarantee(rounds=800 if name in BANDITS else None)
    return np.array(played), np.array(probability), promise.total / (1 if promise.unit else scale)


def agree(one, other, rtol=1e-6):
    np.testing.assert_allclose(other[0], one[0], atol=1e-6)
    np.testing.assert_allclose(other[1], one[1], rtol=rtol)
    assert other[2] == pytest.approx(one[2], rel=rtol)


@pytest.mark.slow
@pytest.mark.parametrize("name", BANDITS | OTHERS)
def test_losses_in_other_units(name):
    plain = play(name, make(name))
    for scale in (2.0**-10, 2.0**12):  # powers of two: bit for bit
        again = play(name, make(name, scale=scale), scale)
        np.testing.assert_array_equal(again[0], plain[0])
        np.testing.assert_array_equal(again[1], plain[1])
        assert again[2] == pytest.approx(plain[2], rel=1e-9)
    moves = name in BANDITS or OTHERS[name][-1] is not norm
    for scale, shift in ((200.0, 0.0), (1e-3, 0.0), (3.0, 1000.0 * moves)):
        agree(plain, play(name, make(name, scale=scale, shift=shift), scale, shift))


@pytest.mark.parametrize("name", [name for name in OTHERS if "learned" not in name])
def test_negative_control_what_is_said_in_other_units_matters(name):
    (played, _, bound), (otherwise, _, larger) = (
        play(name, make(name, scale=said)) for said in (1.0, 8.0)
    )
    assert larger > 2 * bound
    if OTHERS[name][1] is not POINTS:  # where the same few points may be drawn all the same
        assert not np.allclose(otherwise, played, atol=1e-6)


@pytest.mark.parametrize("name", BANDITS)
def test_a_norm_that_is_not_said_follows_the_range(name):
    one, other = make(name, norm=None), make(name, scale=200.0, norm=None)
    assert one.rank == other.rank
    agree(play(name, one), play(name, other, 200.0))


@pytest.mark.slow
@pytest.mark.parametrize("norm", [None, NORM])
@pytest.mark.parametrize("name", [name for name in BANDITS if name != "any"])
def test_scaled_kernels(name, norm):
    hull = name == "hull"
    plain = play(name, make(name, norm=norm))
    for scale in (0.25, 7.0):
        said = None if norm is None else norm * scale ** (-1.0 if hull else -0.5)
        scaled = make(name, kernel=scale * kl.Gaussian(0.4), norm=said)
        agree(plain, play(name, scaled), rtol=1e-5)


@pytest.mark.parametrize("name", BANDITS)
def test_coordinates_and_bandwidths_scaled_together(name):
    plain = play(name, make(name))
    again = play(name, make(name, kernel=kl.Gaussian(0.4 * 64), points=64 * X))
    np.testing.assert_array_equal(again[0], plain[0])
    np.testing.assert_array_equal(again[1], plain[1])
    assert again[2] == plain[2]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ridge", "no ridge", "any", "anytime", "learned", "insured"])
def test_coordinates_in_units_of_their_own(name):
    few = X[:9]
    plain = play(name, make(name, kernel="auto", points=few, norm=None))
    for factors in ([2.0**10, 2.0**-7], [1000.0, 1.0], [3e-5, 7e4]):
        again = play(name, make(name, kernel="auto", points=few * factors, norm=None))
        agree(plain, again)
        if factors[0] == 2.0**10:  # powers of two: bit for bit
            assert (again[0].tolist(), again[2]) == (plain[0].tolist(), plain[2])


def test_the_optimum_is_found_in_milliseconds():
    # Latencies of 0 to 200 with nothing said of their norm: the rank was 2 once, and the optimum missed.
    line = kl.Points(np.linspace(0, 1, 41)[:, None])
    for scale in (1.0, 200.0):
        learner = kl.BanditExpWeights(
            line, kl.Gaussian(0.3), horizon=4000, loss_range=(0, scale), rng=2
        )
        for _ in range(2000):
            decision = learner.ask()
            learner.tell(decision, scale * float((decision.action[0] - 0.7) ** 2))
        assert abs(learner.recommend().action[0] - 0.7) <= 0.15
        assert learner.rank > 5


# Rewards.


@pytest.mark.parametrize("name", [name for name in BANDITS if "learned" not in name])
def test_rewards_are_losses_turned_around(name):
    lost = make(name, shift=-2.0)
    gained = make(name, loss_range=(1.0, 2.0), goal="maximize")
    for t in range(100):
        decision, other = lost.ask(), gained.ask()
        assert decision.index == other.index
        loss = -2.0 + (t % 7) / 10 + 0.3 * X[decision.index][0]
        lost.tell(decision, loss)
        gained.tell(other, -loss)
    a, b = lost.recommend(), gained.recommend()
    assert (a.index, a.loss) == (b.index, -b.loss)
    np.testing.assert_array_equal(
        lost.diagnostics.estimated_losses, -gained.diagnostics.estimated_losses
    )
    assert lost.guarantee().total == gained.guarantee().total
    assert "every reward is in [1, 2] [held so far]" in str(gained.guarantee())
    said = f"{gained.guarantee()} {gained.diagnostics} {inside.html(gained)}"
    assert "every loss" not in said
    assert "losses" not in said
    again = type(gained).from_state(gained.state())
    assert again.ask().index == gained.ask().index
    with pytest.raises(kl.errors.LossOutOfBounds, match=r"must be in \[1, 2\], got 0.5"):
        gained.tell(gained.ask(), 0.5)
