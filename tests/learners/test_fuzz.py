"""Learners whose settings, actions and kernels are at the ends of their ranges: refused by name, or played with finite numbers."""

from __future__ import annotations

import itertools
import math
import re
import tracemalloc
from typing import Any, NamedTuple

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import assume, given

import koloss as kl
from koloss.errors import NetTooLarge, NotPositiveDefinite
from tests.support.fuzz import fuzzed
from tests.support.strategies import (
    LEARNERS,
    action_sets,
    ends_well,
    kernel_of,
    kernels,
    known,
    learners,
    plain_games,
    point_sets,
    shown,
)

pytestmark = pytest.mark.filterwarnings("ignore::koloss.errors.KolossWarning")


def live(call: Any, actions: Any, kernel: Any) -> Any:
    """Make a learner, play five rounds with it, ask it all that it knows, and make it again from its state."""
    learner = call.make(actions, kernel, rng=np.random.default_rng(1))
    for t in range(5):
        decision = learner.ask()
        learner.tell(decision, loss_of(learner, decision, t))
    learner.ask(3)
    seen = [decision.action, learner.recommend()]
    if isinstance(actions, kl.Points):
        p = np.asarray(learner.distribution)
        assert math.isclose(float(p.sum()), 1.0, rel_tol=1e-9)
        assert p.min() >= 0
    assert not re.search(r"\bnan\b", str(learner.diagnostics))
    again = type(learner).from_state(learner.state())
    assert np.array_equal(again.ask().action, learner.ask().action)
    return [seen, learner.guarantee(), learner.guarantee(rounds=10**9)]


def loss_of(learner: Any, decision: Any, t: int) -> Any:
    """The least loss, the largest or one in the middle, of those that the learner knows to be possible."""
    if learner.feedback != "full":
        stated = learner.settings.loss_range
        low, high = (-1e-9, 1e9) if stated == "learn" else (0.0, 0.0) if stated is None else stated
        return (low, high, low + (high - low) / 2)[t % 3]
    game = learner.game
    if game.is_finite and t % 2:
        values = np.linspace(0.0, game.width, len(game.points)) * (1 - 1e-12)
        return values + game.low if game.low is not None else values
    return game.kernel.bump(decision.action, game.norm * (1 - 1e-12))


@fuzzed(few=40, cases=3_000)
@given(learners(), plain_games(), st.integers(0, 9))
def test_settings(call, game, auto):
    actions, kernel = game
    if auto == 9 and "Bandit" in call.name:
        kernel = "auto"
    ends_well(live, call, actions, kernel)


@fuzzed(few=25, cases=1_800)
@given(learners(most=0), st.data())
def test_actions_and_kernels(call, data):
    places = data.draw(action_sets())
    parts = data.draw(kernels(places))
    ends_well(lambda: live(call, places.make(), kernel_of(parts)))


ahead = st.integers(0, 15).map(lambda k: 10**k)


@fuzzed(few=5, cases=150)
@given(st.sampled_from(LEARNERS), plain_games(), ahead, st.lists(ahead, min_size=2, max_size=3))
def test_bounds_far_ahead_do_not_fall(name, game, horizon, rounds):
    settings = {"loss_range": (-1.0, 2.0)} if "Bandit" in name else {}

    def bounds():
        learner = getattr(kl, name)(*game, horizon=horizon, rng=1, **settings)
        found = [learner.guarantee(rounds=n) for n in sorted(rounds)]
        assert all(a.total <= b.total * (1 + 1e-9) for a, b in itertools.pairwise(found))
        return found

    ends_well(bounds)


# Nets.

MAKERS = {
    "net": lambda actions, spacing: actions.net(spacing),
    "exact_features": lambda a, s: kl.exact_features(kl.Quadratic(), a, spacing=s),
    "pivoted_cholesky": lambda a, s: kl.pivoted_cholesky(kl.Gaussian(1.0), a, rank=50, spacing=s),
    "kernel_pca": lambda a, s: kl.kernel_pca(kl.Gaussian(1.0), a, spacing=s),
    "a learner": lambda a, s: kl.BanditExpWeights(a, kl.Gaussian(1.0), horizon=100, spacing=s),
}
SETS = {
    "ball": lambda d: kl.Ball(d, 2.0),
    "positive ball": lambda d: kl.PositiveBall(d, 4.0),
    "positive ball away from zero": lambda d: kl.PositiveBall(d, 4.0, 0.1 / d),
    "box": lambda d: kl.Box([0.0] * d, [1.0] * d),
}


@fuzzed(few=8, cases=240)
@given(
    st.sampled_from(list(MAKERS)),
    st.sampled_from(list(SETS)),
    st.sampled_from([1, 2, 3, 4, 5, 6, 8, 10, 12, 20, 50]),
    st.floats(8.2, 12),
)
def test_nets_are_refused_before_they_are_laid(make, actions, d, power):
    """So fine that a unit cube has 10^power points: too many for the limit, and refused within 200 MB."""
    tracemalloc.start()
    try:
        with pytest.raises(NetTooLarge):
            MAKERS[make](SETS[actions](d), 10.0 ** (-power / d))
        assert tracemalloc.get_traced_memory()[1] < 200e6
    finally:
        tracemalloc.stop()


# Kernels that are none.


class Pairs(NamedTuple):
    r: Any  # |x - y|
    t: Any  # x'y
    first: Any  # x₁y₁


INDEFINITE = {
    "tanh(2x'y - 1)": lambda p: np.tanh(2 * p.t - 1),
    "tanh(x'y + 1)": lambda p: np.tanh(p.t + 1),
    "-|x - y|": lambda p: -p.r,
    "difference of Gaussians": lambda p: np.exp(-(p.r**2) / 2) - 0.5 * np.exp(-50 * p.r**2),
    "another difference": lambda p: np.exp(-50 * p.r**2) - 0.7 * np.exp(-(p.r**2) / 2),
    "thin plate": lambda p: p.r**2 * np.log(np.maximum(p.r, 1e-300)),
    "2x₁y₁ - x'y": lambda p: 2 * p.first - p.t,
    "multiquadric": lambda p: np.sqrt(1 + p.r**2),
    "1 if |x - y| < 1/2": lambda p: np.where(p.r < 0.5, 1.0, 0.0),
    "exp(-|x - y|⁴)": lambda p: np.exp(-((p.r / 0.4) ** 4)),
    "-exp(-|x - y|²)": lambda p: -np.exp(-(p.r**2)),
}


class Own:
    """A kernel of a user's own, which is none."""

    def __init__(self, name: str, scale: float) -> None:
        self.name, self.scale = name, scale

    def __call__(self, X: Any, Y: Any = None) -> Any:
        Y = X if Y is None else Y
        distance = np.sqrt(np.sum((X[:, None] - Y[None]) ** 2, axis=2))
        return self.scale * INDEFINITE[self.name](Pairs(distance, X @ Y.T, X[:, :1] @ Y[:, :1].T))

    def diag(self, X: Any) -> Any:
        return np.array([self(x[None])[0, 0] for x in X])


class OwnKernel(kl.Kernel):
    """The same with the base class, for learners that need it."""

    def __init__(self, own: Own) -> None:
        self.own = own

    def _gram(self, X: Any, Y: Any, xp: Any) -> Any:
        return self.own(X, Y)

    def _diagonal(self, X: Any, xp: Any) -> Any:
        return self.own.diag(X)


@fuzzed(few=20, cases=600)
@given(
    st.sampled_from(list(INDEFINITE)),
    st.sampled_from(
        [*(n for n in LEARNERS if n != "ExpWeights"), "kernel_pca", "pivoted_cholesky"]
    ),
    st.floats(-6, 6),
    st.sampled_from([(8, 1), (8, 2), (40, 3), (150, 2)]),
    st.integers(0, 99),
)
def test_kernels_that_are_not_positive_semidefinite_are_noticed(name, kind, power, shape, seed):
    X = np.random.default_rng(seed).uniform(-1, 1, shape)
    kernel, points = Own(name, 10.0**power), kl.Points(X)
    gram = kernel(X)
    # Learners with features look at few columns of the Gram matrix, where few are enough for their bound.
    share = 0.3 if "Bandit" in kind else 1e-3
    assume(np.linalg.eigvalsh(gram)[0] <= -share * np.abs(gram).max())
    try:
        if kind.islower():
            proxy = getattr(kl, kind)(kernel, points)
            assert proxy.negative_eigenvalue < 0
            assert math.isinf(proxy.epsilon)
        else:
            bandit = "Bandit" in kind
            own, options = (kernel, {"loss_range": (0, 1)}) if bandit else (OwnKernel(kernel), {})
            learner = getattr(kl, kind)(points, own, horizon=1000, **options)
            assert not learner.guarantee().valid
    except NotPositiveDefinite:
        pass


@fuzzed(few=10, cases=240)
@given(
    shown(point_sets(sound=True)),
    st.one_of(
        st.floats(-2, 3).map(lambda k: kl.Gaussian(10.0**k)),
        st.builds(lambda a, k: kl.Matern(a, 10.0**k), st.floats(0.1, 20), st.floats(-2, 2)),
        st.builds(kl.Polynomial, st.integers(1, 8), st.floats(0, 2)),
        st.floats(0.1, 5).map(kl.Periodic),
        st.just(kl.Gaussian(1.0) * kl.Linear() + 1e-6 * kl.Quadratic()),
    ),
)
def test_kernels_that_are_positive_semidefinite_are_not_accused(points, kernel):
    def proxies():
        for make in (kl.kernel_pca, kl.pivoted_cholesky):
            assert make(kernel, kl.Points(*points.given)).is_certified

    ends_well(proxies)


def test_every_learner_has_settings_that_are_fuzzed():
    assert all("horizon" in known(name) for name in LEARNERS)
