"""Losses that the learner was not made for: of another norm, a little outside the class, or in no class at all."""

from __future__ import annotations

import math

import numpy as np
import pytest

import koloss as kl

X = np.linspace(0, 1, 25)[:, None]
KERNEL = kl.Gaussian(0.3)


def make(**settings):
    said = {"horizon": 5000, "loss_range": (0, 1), "loss_norm": 1.0, "batch": 1, "rng": 0}
    return kl.BanditExpWeights(kl.Points(X), KERNEL, **said | settings)


def bracket(learner, stretch=1.0, misfit=0.0):
    """What a round pays for errors, as the theory pages print it."""
    problem, rates = learner.engine.problem, learner.rates
    b, eps, d, e = problem.bias, problem.epsilon, problem.dimension, problem.ridge.spread
    root, g = math.sqrt(rates.exploration), math.sqrt(problem.leverage / rates.exploration)
    wide, missed = b * stretch, eps * stretch
    cost = b * math.sqrt(e) + wide * root * min(0.5, math.sqrt(e)) + max(wide - b, 0) * g
    cost += eps * math.sqrt(d) + missed * (1 + root) + max(missed - eps, 0) * g
    return cost + misfit * (1 + root + g)


@pytest.mark.parametrize("norm, misfit", [(0.5, 0.0), (3.0, 0.0), (1.0, 0.02), (2.0, 0.01)])
def test_bias_for_other_losses_by_hand(norm, misfit):
    learner = make(ridge=1e-3)
    promise = learner.guarantee(loss_norm=norm, misfit=misfit)
    assert promise.terms["bias"] == pytest.approx(5000 * bracket(learner, norm, misfit), rel=1e-6)
    same = learner.guarantee().terms
    assert all(promise.terms[name] == same[name] for name in ("exploration", "variance", "prior"))


@pytest.mark.parametrize("norm", [1.0, 4.0])
def test_errors_of_other_losses_are_those_that_are_paid_for(norm, rng):
    # By enumeration: the bias of an estimate is at most W'/W times the bonus, and ζ s(a) for a misfit of ζ.
    learner, zeta = make(ridge=1e-2), 0.05
    engine = learner.engine
    law = engine.law(3 * rng.normal(size=engine.problem.rank), None, 1.0, 0.1, None)
    A = engine.features.T @ (law.p[:, None] * engine.features) + engine.columns @ engine.columns.T
    k = engine.features @ np.linalg.solve(A, engine.features.T)  # φ(a)'A⁻¹φ(b)
    s = np.sqrt(k**2 @ law.p)
    for _ in range(20):
        c = rng.normal(size=len(X))
        f = KERNEL(X, X) @ c
        f *= norm / math.sqrt(c @ f)
        z = zeta * rng.choice([-1.0, 1.0], size=len(X))
        error = np.abs(k @ (law.p * (f + z)) - f)
        assert np.all(error <= norm * law.bonus + zeta * s + 1e-6)
    worst = zeta * k[0] / s[0]  # of mean square ζ² under p: no smaller price would do
    assert k[0] @ (law.p * worst) == pytest.approx(zeta * s[0])


def test_any_losses_are_learned_arm_by_arm(rng):
    N, n = len(X), 5000
    learner = make(loss_class="any", loss_norm=None)
    promise = learner.guarantee()
    assert promise.total == pytest.approx(1.4485 * math.sqrt(N * n * math.log(N)), rel=1e-3)
    eta, gamma = learner.rates.learning_rate, learner.rates.exploration
    sums = np.zeros(N)
    for _ in range(50):  # EXP3, written out
        q = np.exp(-eta * (sums - sums.min()))
        p = (1 - gamma) * q / q.sum() + gamma / N
        np.testing.assert_allclose(learner.distribution, p, rtol=1e-9)
        decision, loss = learner.ask(), rng.random()
        learner.tell(decision, loss)
        sums[decision.index] += (loss - 0.5) / p[decision.index]


def test_any_losses_have_no_norm():
    with pytest.raises(
        ValueError, match="`loss_norm` must be left out where `loss_class` is 'any'"
    ):
        make(loss_class="any", loss_norm=None).guarantee(loss_norm=1.0)
