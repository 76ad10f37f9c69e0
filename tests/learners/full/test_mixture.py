"""The growing mixture against D ← (1 - γ)D + γδ, written out."""

from __future__ import annotations

import numpy as np
import pytest

import koloss as kl
from koloss.learners.full import mixture as module
from koloss.learners.full.mixture import NEGLIGIBLE, Mixture
from tests.support import inside
from tests.support.statistics import agrees, by_counts, differs

STEPS = {
    "constant": np.full(400, 0.03),
    "falling": np.minimum(1, 2 / np.sqrt(np.arange(1, 401))),
    "tiny": np.full(400, 1e-9),
    "large": np.full(400, 0.99),
    "almost one": np.full(400, 1 - 1e-12),
    "random": np.random.default_rng(0).random(400) ** 4,
    "small, then large": np.repeat([1e-3, 0.999], 200),
}


def naive(steps):
    """Weights of the atoms 0, 1, 2, ... after all steps."""
    weights = np.ones(1)
    for gamma in steps:
        weights = np.append((1 - gamma) * weights, gamma)
    return weights


def mixed(steps, atom=lambda i: np.array([float(i)])):
    mixture = Mixture.of(atom(0)[None])
    for i, gamma in enumerate(steps):
        mixture.mix(gamma, atom(i + 1))
    return mixture


@pytest.mark.parametrize("name", STEPS)
def test_weights_are_those_of_the_recursion(name):
    mixture, expected = mixed(STEPS[name]), naive(STEPS[name])
    weights = np.zeros(len(expected))
    weights[mixture.atoms[:, 0].astype(int)] = mixture.weights
    np.testing.assert_allclose(weights, expected, rtol=1e-9, atol=1e-15)
    assert mixture.weights.sum() == pytest.approx(1, abs=1e-14)
    assert np.all(np.isfinite(mixture.weights))


def test_atoms_keep_their_order_and_their_kind():
    points = mixed(np.full(5, 0.5), lambda i: np.array([i, -i], dtype=float))
    np.testing.assert_array_equal(points.atoms[:, 0], np.arange(6))
    np.testing.assert_array_equal(points.atoms[:, 1], -np.arange(6.0))
    rows = Mixture.of(np.asarray([7]))
    rows.mix(0.5, 3)
    assert rows.atoms.tolist() == [7, 3]
    assert rows.atoms.dtype.kind == "i"


def test_draws_follow_the_weights():
    mixture = mixed(STEPS["falling"][:60])
    drawn = mixture.draw(np.random.default_rng(1).random(50_000))
    counts = np.bincount(drawn, minlength=mixture.size)
    assert agrees(by_counts(counts, 50_000 * mixture.weights))
    wrong = mixed(np.minimum(1, 2.2 / np.sqrt(np.arange(1, 61)))).weights
    assert differs(by_counts(counts, 50_000 * wrong))  # negative control


def test_extreme_uniforms_stay_inside():
    mixture = mixed(STEPS["constant"])
    first, last = mixture.draw(np.array([0.0, 1 - 2.0**-53]))
    assert (first, last) == (0, mixture.size - 1)


def test_old_atoms_are_dropped_once_they_weigh_nothing():
    gamma = 0.05
    mixture, sizes = Mixture.of(np.zeros((1, 1))), []
    for i in range(5000):
        mixture.mix(gamma, np.array([float(i)]))
        sizes.append(mixture.size)
    counted = np.log(NEGLIGIBLE) / np.log(1 - gamma)  # atoms above rounding
    assert max(sizes) <= 2 * counted + 64
    oldest = int(mixture.atoms[0, 0])
    assert (1 - gamma) ** (5000 - 1 - oldest) > 1e-40
    # What is left has the weights it had, to the last digits.
    kept = naive(np.full(mixture.size - 1, gamma))
    kept[0] = gamma * (1 - gamma) ** (mixture.size - 1)
    np.testing.assert_allclose(mixture.weights, kept / kept.sum(), rtol=1e-10, atol=1e-16)


def test_nothing_is_dropped_that_counts():
    mixture = mixed(np.full(3000, 1e-3))
    assert mixture.size == 3001
    assert mixture.weights[0] == pytest.approx(0.999**3000, rel=1e-9)


def test_a_step_of_size_one_leaves_one_atom():
    mixture = mixed(np.full(10, 0.5))
    mixture.mix(1.0, np.array([9.0]))
    assert mixture.atoms.tolist() == [[9.0]]
    assert mixture.weights.tolist() == [1.0]
    mixture.mix(0.25, np.array([10.0]))
    np.testing.assert_allclose(mixture.weights, [0.75, 0.25], rtol=1e-15)


@pytest.mark.parametrize("kept", [0, 90, module.KEPT])
def test_columns_that_are_kept_change_nothing(kept, monkeypatch):
    """Room for none, for three, and for all: the mean is that of the mixture, to the last bit the same."""
    points, kernel = kl.Points(np.random.default_rng(0).random((30, 2))), kl.Gaussian(0.3)
    games = []
    for room in (kept, module.KEPT):
        monkeypatch.setattr(module, "KEPT", room)
        learner = kl.ConditionalGradient(points, kernel, horizon=60, rng=0)
        for t in range(60):
            place = np.random.default_rng(t).random((1, 2))
            learner.tell(learner.ask(), kl.KernelLoss(kernel, place, [(-1.0) ** t]))
            held = inside.columns(inside.running_mean(learner))
            assert len(held) <= max(room // 30, 1)
        games.append(learner)
    first, second = games
    np.testing.assert_array_equal(inside.running_mean(first).mean, inside.running_mean(second).mean)
    gram = kernel(points.X, points.X)
    np.testing.assert_allclose(
        inside.running_mean(first).mean, gram @ first.distribution, atol=1e-12
    )
    assert len(inside.columns(inside.running_mean(second))) > 3
