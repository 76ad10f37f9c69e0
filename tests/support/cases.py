"""Learners to put through the contract, and a game that they play.

A new learner joins by adding cases to `LEARNERS`; the tests of the contract then run over them.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

import numpy as np

import koloss as kl
from koloss.errors import LossOutOfBounds
from tests.support.copies import fresh_copy

POINTS = kl.Points(np.random.default_rng(5).random((30, 2)))
SQUARE, DISC = kl.Box([0.5, 0.5], [1.0, 1.5]), kl.Ball(2)
MONOMIALS = kl.Posynomial([[1, 0], [-1, 2]])
SHARES = {0: (0.1, 1.0), (1, 2, 3): (0.0, 0.2)}


BUILT: dict[Any, Any] = {}
"""Cases, and learners that have not played, by case and seed."""


@dataclass(frozen=True)
class Case:
    """A learner with its settings, and `loss(action, t)`, what to tell of a decision in round t."""

    kind: type[kl.Learner]
    loss: Any
    actions: Any
    kernel: Any
    settings: dict[str, Any]
    coin: bool = True  # False where one action is played for sure in this game

    def asked(self, t, count=None):
        """What to ask with in round t: contexts in some order, where there are contexts."""
        contexts = self.settings.get("contexts")
        if contexts is None:
            return {}
        rows = [(3 * t + k * k) % len(contexts) for k in range(count or 1)]
        known = contexts.X if contexts.labels is None else contexts.labels
        found = [known[c] for c in rows]
        return {"context": found if count else found[0]}

    def build(self, rng=0):
        return self.kind(self.actions, self.kernel, rng=rng, **self.settings)

    def make(self, rng=0):
        """The same, built once for each seed and copied."""
        if not isinstance(rng, int):
            return self.build(rng)
        if (id(self), rng) not in BUILT:
            BUILT[id(self), rng] = self, self.build(rng)
        return fresh_copy(BUILT[id(self), rng][1])

    @property
    def finite(self):
        return isinstance(self.actions, kl.Points)

    @property
    def bad(self):
        """Losses that must be refused, each with the error and its message."""
        if self.kind.feedback == "bandit":
            return BAD_NUMBERS
        return bad_functions(self.loss, values=self.finite and self.kind is kl.ExpWeights)


# Bandit feedback: numbers, exact even in single precision.


def number(action, t):
    return float((np.floor(50 * action[0]) + 3 * t) % 9) / 8


BAD_NUMBERS = {
    "nan": (float("nan"), ValueError, "`loss` must be finite"),
    "infinite": (float("inf"), ValueError, "`loss` must be finite"),
    "huge": (10**400, ValueError, "`loss` must be finite"),
    "above": (1.5, LossOutOfBounds, r"`loss` must be in \[0, 1\], got 1.5"),
    "below": (-0.5, LossOutOfBounds, "got -0.5"),
    "two losses": ([0.1, 0.2], ValueError, "`loss` must have 1 entries"),
    "none": ([], ValueError, "`loss` must have 1 entries"),
    "a matrix": (np.array([[0.5]]), ValueError, "`loss` must have 1 entries"),
} | {
    str(value): (value, TypeError, "`loss` must be a number")
    for value in (
        *("much", "0.3", b"1", True, np.True_, None, 1j, {"loss": 0.5}, [[0.1], 0.2]),
        *(np.ma.masked, [np.ma.masked], np.timedelta64(1, "s"), np.datetime64("2020")),
    )
}


# Full information: functions.


def bump(action, t):
    center = np.random.default_rng(t).random((1, 2))
    return kl.KernelLoss(kl.Gaussian(0.4), center, [(-1.0) ** (t % 3)])


def linear(action, t):
    return kl.LinearLoss(np.random.default_rng(t).normal(size=2) / 5)


def quadratic(action, t):
    rng = np.random.default_rng(t)
    A, b = rng.normal(size=(2, 2)), rng.normal(size=2)
    return kl.QuadraticLoss((A + A.T) / 20, b / 10)


def posynomial(action, t):
    return kl.PosynomialLoss(MONOMIALS, np.random.default_rng(t).random(2))


HUGE = {
    linear: kl.LinearLoss([1e6, 0.0]),
    quadratic: kl.QuadraticLoss([[1e6, 0.0], [0.0, 0.0]]),
    bump: kl.KernelLoss(kl.Gaussian(0.4), [[0.0, 0.0], [1.0, 1.0]], [1e6, 0.0]),
    posynomial: kl.PosynomialLoss(MONOMIALS, [1e6, 0.0]),
}


def bad_functions(family, *, values):
    """`values`: losses may be given as arrays of their values on the points."""
    bad = {
        "too large": (HUGE[family], LossOutOfBounds, "`loss` must have"),
        "wrong dimension": (kl.LinearLoss([1.0]), ValueError, "must have dimension 2, got 1"),
    } | {
        str(value): (value, TypeError, "`loss` must be an? (Loss|array)")
        for value in ("much", b"1", True, None, 0.5)
    }
    if values:
        bad["nan"] = (np.full(30, np.nan), ValueError, "`loss` must be finite")
        bad["short"] = (np.zeros(3), ValueError, "`loss` must have length 30, got 3")
    else:
        other = quadratic if family is linear else linear
        bad["other family"] = (other(None, 0), TypeError, "`loss` must be a")
    return bad


# The learners.


def on(kind, actions, kernel, loss, *, coin=True, **settings):
    return Case(kind, loss, actions, kernel, {"horizon": 400} | settings, coin)


def on_points(kind, loss, **settings):
    return on(kind, POINTS, kl.Gaussian(0.4), loss, **settings)


def bandit(**settings):
    return on_points(kl.BanditExpWeights, number, **{"loss_range": (0, 1)} | settings)


def bandit_on_ball(**settings):
    return on(
        kl.BanditExpWeights, DISC, kl.Quadratic(), number, **{"loss_range": (0, 1)} | settings
    )


def insured(**settings):
    return on_points(kl.InsuredBandit, number, loss_range=(0, 1), **settings)


WEIGHTS, GRADIENT, LEADER = kl.ExpWeights, kl.ConditionalGradient, kl.FollowTheRegularizedLeader
LINEAR, QUADRATIC, GAUSSIAN = kl.Linear(), kl.Quadratic(), kl.Gaussian(0.4)

LEARNERS = {
    "bandit": bandit(),
    "bandit, one round": bandit(batch=1),
    "bandit, bonus": bandit(bonus=True, rank=4),
    "bandit, sampled": bandit(covariance="sampled", sample_error=0.5, rank=4),
    "bandit, anytime": bandit(horizon=None),
    "bandit, anytime, bonus": bandit(horizon=None, bonus=True, rank=4, batch=1),
    "bandit, hindsight": bandit(regret="hindsight"),
    "bandit, delay": bandit(delay=3),
    "bandit, paper": bandit(tuning="paper"),
    "bandit, shares": bandit(shares=SHARES),
    "bandit, ball": bandit_on_ball(),
    "bandit, ball, anytime": bandit_on_ball(horizon=None),
    "insured": insured(),
    "insured, thompson": insured(policy="thompson"),
    "insured, anytime": insured(horizon=None),
    "insured, delay": insured(delay=3),
    "insured, shares": insured(shares=SHARES),
    "insured, held": insured(hold=3),
    "insured, rough": insured(robust_kernel="any"),
    "insured, too short": insured(horizon=5, rank=20),
    "exp weights, points": on_points(WEIGHTS, bump),
    "exp weights, points, anytime": on_points(WEIGHTS, bump, horizon=None),
    "exp weights, points, paper": on_points(WEIGHTS, bump, tuning="paper"),
    "exp weights, ball": on(WEIGHTS, DISC, QUADRATIC, quadratic),
    "exp weights, ball, linear": on(WEIGHTS, DISC, LINEAR, linear, horizon=None),
    "exp weights, box, linear": on(WEIGHTS, SQUARE, LINEAR, linear),
    "exp weights, box": on(WEIGHTS, SQUARE, QUADRATIC, quadratic, particles=32),
    "exp weights, gaussian": on(WEIGHTS, DISC, GAUSSIAN, bump, particles=32),
    "exp weights, diffusion": on(WEIGHTS, DISC, GAUSSIAN, bump, particles=32, move="diffusion"),
    "exp weights, gaussian, anytime": on(
        WEIGHTS, SQUARE, GAUSSIAN, bump, particles=32, horizon=None
    ),
    "exp weights, posynomial": on(WEIGHTS, SQUARE, MONOMIALS, posynomial, particles=32),
    "gradient, points": on_points(GRADIENT, bump),
    "gradient, points, paper": on_points(GRADIENT, bump, tuning="paper"),
    "gradient, ball": on(GRADIENT, DISC, QUADRATIC, quadratic),
    "gradient, ball, paper": on(GRADIENT, DISC, QUADRATIC, quadratic, tuning="paper"),
    "gradient, box": on(GRADIENT, SQUARE, QUADRATIC, quadratic, coin=False),
    "gradient, gaussian": on(GRADIENT, DISC, GAUSSIAN, bump, horizon=40),
    "gradient, posynomial": on(GRADIENT, SQUARE, MONOMIALS, posynomial),
    "leader, points": on_points(LEADER, bump),
    "leader, points, paper": on_points(LEADER, bump, tuning="paper"),
    "leader, ball": on(LEADER, DISC, QUADRATIC, quadratic),
    "leader, ball, linear": on(LEADER, DISC, LINEAR, linear, delay=2, coin=False),
    "leader, box, linear": on(LEADER, SQUARE, LINEAR, linear, coin=False),
}

SEGMENTS, WEEK = kl.Contexts(["a", "b", "c"], [0.6, 0.3, 0.1]), kl.Contexts(list(range(7)))

WITH_CONTEXTS = {
    "bandit, segments": bandit(contexts=SEGMENTS),
    "bandit, segments, anytime": bandit(contexts=SEGMENTS, horizon=None),
    "bandit, weekdays": bandit(contexts=WEEK),
    "insured, segments": insured(contexts=SEGMENTS),
    "insured, weekdays": insured(contexts=WEEK),
}
"""They cannot be asked without a context: the tests that play by `play` are for them, too."""


def discovered():
    """Every learner of the library."""

    def below(kind):
        return {kind}.union(*(below(sub) for sub in kind.__subclasses__()))

    kinds = [k for k in below(kl.Learner) if k.__module__.startswith("koloss.")]
    return sorted((k for k in kinds if not inspect.isabstract(k)), key=lambda k: k.__name__)


def play(case, learner, rounds, start=0):
    """A game that mixes single, late and whole decisions; the actions played."""
    played, waiting = [], []
    for t in range(start, start + rounds):
        if t % 10 == 9:
            batch = learner.ask(4, **case.asked(t, 4))
            learner.tell(batch, [case.loss(action, t) for action in batch.action])
            played.extend(batch.action.tolist())
        decision = learner.ask(**case.asked(t))
        played.append(decision.action.tolist())
        if t % 5 == 0:
            waiting.append((decision, case.loss(decision.action, t)))
        else:
            learner.tell(decision, case.loss(decision.action, t))
        if len(waiting) > 3:
            learner.tell(*waiting.pop(0))
    return played


def same(a, b):
    """Whether two snapshots are equal to the last bit."""
    return a["digest"] == b["digest"]
