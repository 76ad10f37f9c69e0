"""Losses in other units, with the range and the norm in the same, are played alike: the learners that `bandit/test_units.py` has not."""

from __future__ import annotations

import numpy as np
import pytest

import koloss as kl

ROUNDS = 12
rng = np.random.default_rng(0)
VALUES, MATRICES = rng.random((ROUNDS, 20)), rng.normal(size=(ROUNDS, 2, 2)) / 4
VECTORS, CENTRES = rng.normal(size=(ROUNDS, 2)) / 5, rng.random((ROUNDS, 2))
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


def norm(scale, _):
    return {"loss_norm": 4 * scale}


def interval(scale, shift):
    return {"loss_range": (shift - scale, shift + 2 * scale)}


LEARNERS = {
    "exp weights, points": (kl.ExpWeights, POINTS, kl.Gaussian(0.3), table, interval),
    "exp weights, points, norm": (kl.ExpWeights, POINTS, kl.Gaussian(0.3), table, norm),
    "exp weights, ball": (kl.ExpWeights, BALL, kl.Quadratic(), quadratic, norm),
    "exp weights, particles": (kl.ExpWeights, BOX, kl.Gaussian(0.3), bump, norm),
    "conditional gradient": (kl.ConditionalGradient, BALL, kl.Quadratic(), convex, norm),
    "leader": (kl.FollowTheRegularizedLeader, BALL, kl.Quadratic(), convex, norm),
    "bandit, ball": (kl.BanditExpWeights, BALL, kl.Quadratic(), heard, interval),
}


# A law on a ball that one loss has made is symmetric, and rounding decides on the sign of its axes: here epochs that begin with it have two rounds.
SEEDS = {"bandit, ball": 5}


def play(name, scale=1.0, shift=0.0, said=None):
    """Actions, and the guarantee in units of the losses."""
    kind, actions, kernel, loss, units = LEARNERS[name]
    seed = SEEDS.get(name, 3)
    learner = kind(actions, kernel, horizon=200, rng=seed, **units(said or scale, shift))
    played = []
    for t in range(ROUNDS):
        decision = learner.ask()
        played.append(np.array(decision.action))
        learner.tell(decision, loss(t, scale, shift, decision.action))
    return np.array(played), learner.guarantee().total / scale


@pytest.mark.parametrize("name", LEARNERS)
def test_losses_in_other_units(name):
    played, bound = play(name)
    for scale in (2.0**-10, 2.0**12):  # powers of two: bit for bit
        again = play(name, scale)
        np.testing.assert_array_equal(again[0], played)
        assert again[1] == pytest.approx(bound, rel=1e-9)
    shifts = (0.0, 1000.0) if LEARNERS[name][-1] is interval else (0.0,)
    for scale, shift in ((scale, shift) for scale in (200.0, 1e-3, 3.0) for shift in shifts):
        if abs(shift) > 1e5 * scale:
            continue  # nothing but rounding would be left of the losses
        again = play(name, scale, shift)
        np.testing.assert_allclose(again[0], played, atol=1e-6)
        assert again[1] == pytest.approx(bound, rel=1e-6)


@pytest.mark.parametrize("name", LEARNERS)
def test_negative_control_what_is_said_in_other_units_matters(name):
    (played, bound), (otherwise, larger) = play(name), play(name, said=8.0)
    assert larger > 2 * bound
    if LEARNERS[name][1] is not POINTS:  # where the same few points may be drawn all the same
        assert not np.allclose(otherwise, played, atol=1e-6)
