"""Settings that are refused, each with the argument and the rule that its error names: one table for all learners."""

from __future__ import annotations

import numpy as np
import pytest

import koloss as kl
from tests.support.cases import DISC, GAUSSIAN, LINEAR, MONOMIALS, POINTS, QUADRATIC, SHARES

BANDIT, INSURED, WEIGHTS = kl.BanditExpWeights, kl.InsuredBandit, kl.ExpWeights
GRADIENT, LEADER = kl.ConditionalGradient, kl.FollowTheRegularizedLeader
RANGE = {"loss_range": (0, 1)}
FIVE, LINE = kl.Points(np.linspace(0, 1, 5)[:, None]), kl.Points(np.linspace(0, 1, 12)[:, None])
PLACES, TWO = [[0.0], [0.3], [0.6], [1.0]], kl.Contexts([1, 2])
SEGMENTS = kl.Contexts(PLACES, [0.9, 0.07, 0.02, 0.01])
STOCK = kl.Contexts(PLACES, [0.25] * 4, allowed=np.tril(np.ones((4, 5)), 1) == 1)
BOX = kl.Box([0.0] * 4, [1.0, 2.0, 1.0, 1.0])
SPACE = kl.Space(rate=kl.Float(1e-4, 1, log=True), threads=kl.Int(1, 20), share=kl.Float(-1, 1))
LEFT, NAN, KERNEL = kl.LinearLoss([1.0, 0.0]), float("nan"), kl.Gaussian(0.5)
SHARED = {"contexts": SEGMENTS, "context_kernel": KERNEL}
PROXY = kl.pivoted_cholesky(GAUSSIAN, kl.Points(np.random.default_rng(1).random((10, 2))), rank=3)

LEARNERS = {
    "bandit": (BANDIT, POINTS, GAUSSIAN, RANGE),
    "ball": (BANDIT, DISC, QUADRATIC, RANGE),
    "auto": (BANDIT, LINE, "auto", RANGE),
    "contexts": (BANDIT, FIVE, KERNEL, RANGE | SHARED),
    "stock": (BANDIT, FIVE, KERNEL, RANGE | SHARED | {"contexts": STOCK}),
    "insured": (INSURED, POINTS, GAUSSIAN, RANGE),
    "growing": (INSURED, BOX, "auto", RANGE | {"grow": 64}),
    "weights": (WEIGHTS, POINTS, GAUSSIAN, {}),
    "weights, disc": (WEIGHTS, DISC, GAUSSIAN, {}),
    "weights, learned": (WEIGHTS, POINTS, GAUSSIAN, {"horizon": None, "loss_range": "learn"}),
    "gradient": (GRADIENT, kl.Points(np.eye(2)), LINEAR, {}),
    "gradient, ball": (GRADIENT, DISC, LINEAR, {}),
    "leader": (LEADER, DISC, QUADRATIC, {}),
}
ALL, ALIKE, GRADIENTS = tuple(LEARNERS), ("bandit", "ball"), ("gradient", "gradient, ball")
LEARN, WISE, SOME = {"loss_range": "learn"}, {"regret": "hindsight"}, {"shares": SHARES}


class Half:
    """A policy that does not listen."""

    def propose(self):
        return 0


class Whole(Half):
    def hear(self, index, loss):
        pass


BAD = [
    (ALL, {"actions": [[0.0]]}, "`actions` must be an ActionSet, got list"),
    (ALL, {"kernel": 3.0}, "`kernel` must be a Kernel, .* got float"),
    (ALL, {"horizon": 0}, "`horizon` must be at least 1, got 0"),
    (ALL, {"horizon": "long"}, "`horizon` must be an integer, got 'long'"),
    (("weights", *GRADIENTS), {"tuning": "best"}, "`tuning` must be one of 'sharp', 'paper', got 'best'"),
    # One number is told.
    (ALIKE, {"tuning": "best"}, "`tuning` must be one of 'sharp', 'paper', got 'best'"),
    (ALIKE, {"proxy": "magic"}, "`proxy` must be one of"),
    (ALIKE, {"rank": 0}, "`rank` must be at least 1"),
    (ALIKE, {"design": "greedy"}, "`design` must be one of"),
    (ALIKE, {"batch": 0}, "`batch` must be at least 1"),
    (ALIKE, {"covariance": "guess"}, "`covariance` must be one of"),
    (ALIKE, {"sample_error": 1.0}, "`sample_error` must be below 1"),
    (ALIKE, {"bonus": "yes"}, "`bonus` must be True, False or .auto."),
    (ALIKE, {"bonus": True, "covariance": "sampled"}, "`bonus` must be left out"),
    (ALIKE, {"goal": "up"}, "`goal` must be one of"),
    (ALIKE, {"loss_class": "evil"}, "`loss_class` must be one of"),
    (ALIKE, {"loss_range": (1, 0)}, "`loss_range` must be"),
    (ALIKE, {"loss_range": (0, NAN)}, "`loss_range` must be finite"),
    (ALIKE, {"loss_range": None, "loss_bound": -1}, "`loss_bound` must be positive"),
    (ALIKE, {"loss_bound": 1.0}, "`loss_bound` or `loss_range`, not both"),
    (ALIKE, {"loss_norm": 0.0}, "`loss_norm` must be positive"),
    (ALIKE, {"delay": -1}, "`delay` must be at least 0"),
    (ALIKE, {"delay": 2, "batch": 3}, "`batch` must be 1"),
    (ALIKE, {"learning_rate": 0.0}, "`learning_rate` must be positive"),
    (ALIKE, {"exploration_rate": 1.5}, "`exploration_rate` must be at most 1"),
    (ALIKE, {"horizon": None, "learning_rate": 0.1}, "must be left out without a horizon"),
    (ALIKE, {"tuning": "paper", "horizon": None}, "`tuning` of 'paper' must have a horizon"),
    ("bandit", {"rank": 31}, "`rank` must be at most"),
    ("bandit", {"prior": np.ones(3) / 3}, "`prior` must have length 30"),
    ("bandit", {"prior": np.eye(30)[0]}, "`prior` must be positive everywhere"),
    ("bandit", {"prior": np.ones(30)}, "`prior` must sum to 1"),
    ("bandit", {"spacing": 0.1}, "`spacing` must be left out for a finite set"),
    ("bandit", {"loss_range": "guess"}, "`loss_range` must be .low, high. or 'learn'"),
    ("bandit", {**LEARN, "outside": "clip"}, "`outside` must be 'raise' unless"),
    ("bandit", {"outside": "keep"}, "`outside` must be one of 'raise', 'clip', 'widen', got 'keep'"),
    ("bandit", {**LEARN, "loss_bound": 1.0}, "give `loss_bound` or `loss_range`"),
    ("bandit", {**LEARN, "tuning": "paper"}, "`loss_range` must be an interval"),
    ("bandit", {"regret": "both"}, "`regret` must be one of 'pseudo', 'hindsight', got 'both'"),
    ("bandit", {**WISE, "tuning": "paper"}, "`tuning` must be 'sharp' where `regret` is 'hindsight', got 'paper'"),
    ("bandit", {**WISE, "covariance": "sampled"}, "`covariance` must be 'exact' where `regret` is 'hindsight'"),
    ("bandit", {**WISE, "delay": 2}, "`delay` must be 0 where `regret` is 'hindsight', got 2"),
    ("bandit", {**WISE, "hold": 6}, "`hold` must be 0 where `regret` is 'hindsight', got 6"),
    ("bandit", {**WISE, "exploration_rate": 1e-4}, "`exploration_rate` must be larger for a bonus on variance"),
    ("ball", WISE, "`regret` must be 'pseudo' where a whole ball is played"),
    ("insured", WISE, "`regret` must be 'pseudo' with a policy, got 'hindsight'"),
    ("bandit", {**SOME, **WISE}, "`regret` must be 'pseudo' where there are `shares`"),
    ("bandit", {**SOME, "tuning": "paper", "loss_range": None}, "`tuning` must be 'sharp' where there are"),
    ("bandit", {**SOME, "horizon": None, "ridge": 0.1}, "`ridge` must be 0 where there are `shares` and no horizon, got 0.1"),
    *(("bandit", {"ridge": value}, "`ridge` must be") for value in (-1.0, NAN, "none", True, None)),
    ("bandit", {"proxy": PROXY}, "`proxy` must be one of the actions"),
    ("bandit", {"design": kl.uniform_design(np.eye(3))}, "`design` must weigh 30 actions"),
    *((("bandit", "insured"), {"hold": value}, "`hold` must be") for value in (-1, 1.5, "all", None, True)),
    (("bandit", "insured"), {"hold": 6, "batch": 2}, "`batch` must be 1 where `hold` is positive, got 2"),
    ("insured", {**LEARN, "hold": 6}, "`hold` must be 0 with a `loss_range` of 'learn'"),
    ("insured", {**LEARN, "delay": 2}, "`delay` must be 0 with a `loss_range` of 'learn'"),
    ("auto", {"loss_class": "rank-one"}, "`kernel` must not be 'auto' where `loss_class` is 'rank-one'"),
    ("auto", {"tuning": "paper"}, "`kernel` must not be 'auto' where `tuning` is 'paper'"),
    ("auto", {"proxy": "exact_features"}, "`kernel` must not be 'auto' where `proxy` is 'exact_features'"),
    ("auto", {"proxy": kl.pivoted_cholesky(kl.Gaussian(0.3), LINE, rank=5)}, "`kernel` must be that of the `proxy`, got 'auto'"),
    ("auto", {"kernel": "Auto"}, "`kernel` must be a Kernel, or .*, got 'Auto'"),
    # Contexts.
    ("contexts", {"contexts": None}, "`context_kernel` must be left out without `contexts`"),
    ("contexts", {"contexts": {}}, "`contexts` must be Contexts, got dict"),
    ("contexts", {"context_kernel": 0.5}, "`context_kernel` must be a Kernel"),
    ("contexts", {"prior": np.full(5, 0.2)}, "`prior` must be None where .* without `weights` each has"),
    ("contexts", {"shares": {0: (0.1, 1)}}, "`shares` must be None where .* without `weights` each has"),
    ("contexts", WISE, "`regret` must be 'pseudo' where contexts share"),
    ("contexts", {"tuning": "paper"}, "`tuning` must be 'sharp' with several contexts.*paper has no"),
    ("contexts", {"covariance": "sampled"}, "`covariance` must be 'exact' where contexts share"),
    ("contexts", LEARN, "`loss_range` must be an interval where contexts share"),
    ("contexts", {"loss_class": "any"}, "`loss_class` must be 'general' or 'rank-one' where"),
    ("contexts", {"outside": "clip"}, "`outside` must be 'raise' where contexts share"),
    ("stock", {"actions": LINE}, "`allowed` of `contexts` must have 12 columns.*got 5"),
    ("stock", {"actions": kl.Box([0], [1])}, "`actions` must be Points where `contexts` allow some"),
    # A policy.
    ("insured", {"loss_range": None}, "`loss_range` must be .*got None"),
    ("insured", {"trigger": 0.0}, "`trigger` must be positive, got 0"),
    ("insured", {"trigger": NAN}, "`trigger` must be finite, got nan"),
    ("insured", {"trigger": "much"}, "`trigger` must"),
    ("insured", {"trigger": None}, "`trigger` must be a number, got None"),
    ("insured", {"premium": -1}, "`premium` must be positive, got -1"),
    ("insured", {"width": -0.1}, "`width` must be at least 0, got -0.1"),
    ("insured", {"width": "wide"}, "`width` must be a number, got 'wide'"),
    ("insured", {"policy": "greedy"}, "`policy` must be one of 'ucb', .* got 'greedy'"),
    ("insured", {"policy": ["ucb", "thompson"]}, "`policy` must be .*got tuple without propose"),
    ("insured", {"policy": 3}, "`policy` must be .*int without propose"),
    ("insured", {"policy": None}, "`policy` must be .*NoneType without propose"),
    ("insured", {"policy": Half()}, "`policy` must be .*Half without hear"),
    ("insured", {"robust_kernel": 5}, "`robust_kernel` must be a Kernel, .* got int"),
    ("insured", {"robust_kernel": "rough"}, "`robust_kernel` must be one of 'any', 'auto'"),
    ("insured", {"absent": [30]}, "`absent` must be rows from 0 to 29, got 30"),
    ("insured", {"absent": [1, 1]}, "`absent` must not repeat a row"),
    ("insured", {"absent": range(30)}, "`absent` must leave an action, got all 30"),
    ("insured", {"absent": [1], **LEARN}, "`loss_range` must be known where actions come"),
    ("insured", {"absent": [1], **SOME}, "`shares` must be left out where actions come"),
    ("insured", {"absent": [0], "actions": kl.Box([0.0], [1.0])}, "`actions` must be Points where some come and go, got a Box"),
    # A set that grows.
    ("growing", {"grow": 8}, "`grow` must be at least 16, got 8"),
    ("growing", {"grow": "yes"}, "`grow`"),
    ("growing", {"grow": 64.5}, "`grow`"),
    ("growing", {"horizon": None}, "`horizon` must be known where the set grows, got None"),
    ("growing", LEARN, "`loss_range` must be known where the set grows"),
    ("growing", {"spacing": 0.5}, "`spacing` must be left out where the set grows, got 0.5"),
    ("growing", {"absent": [1]}, "`absent` must be left out where the set grows"),
    ("growing", {"shares": {0: (0, 0.5)}}, "`shares` must be left out where the set grows"),
    ("growing", {"ridge": 0.1}, "`ridge` must be 'auto' or 0 where the set grows, got 0.1"),
    ("growing", {"loss_class": "rank-one"}, "`loss_class` must be 'general' where the set"),
    ("growing", {"policy": Whole()}, "`policy` must be the library's where the set grows, got a Whole"),
    ("growing", {"actions": kl.Points([[0.0], [1.0]])}, "`actions` must be a Box, a Ball, or a Space"),
    ("growing", {"actions": kl.Space(threads=kl.Int(1, 8))}, "`actions` must be a Box, a Ball, or a Space"),
    ("growing", {"actions": kl.Space(SPACE.parameters, where=lambda p: p["threads"] > 1)}, "`actions` must be a Space without `where`"),
    ("growing", {"actions": SPACE.points(100)}, "`grow` must be at least 108 with these points, got 64"),
    # Functions are told.
    ("weights", {"kernel": "gaussian"}, "`kernel` must be a Kernel"),
    ("weights", {"kernel": "auto"}, "`kernel` must be a Kernel, or .*, got 'auto'"),
    ("weights", {"loss_norm": -1}, "`loss_norm` must be positive"),
    ("weights", {"loss_range": (1, 1)}, "`loss_range` must be"),
    ("weights", {"delay": -1}, "`delay` must be at least 0"),
    ("weights", {"learning_rate": 0}, "`learning_rate` must be positive"),
    ("weights", {"particles": 1}, "`particles` must be at least 2"),
    ("weights, disc", {"particles": 10**12}, "`particles` must be at most 1000000000"),
    ("weights", {"compression": -0.1}, "`compression` must be at least 0"),
    ("weights", {"horizon": None, "tuning": "paper"}, "must be left out without a horizon"),
    ("weights", {"prior": np.eye(30)[0]}, "`prior` must be positive everywhere"),
    ("weights", {"prior": LEFT}, "`prior` must be"),
    ("weights, disc", {"prior": np.ones(3)}, "`prior` must be a Loss on a compact set"),
    ("weights, disc", {"prior": LEFT}, "`loss` must be a KernelLoss"),
    ("weights, disc", LEARN, "`loss_range` of 'learn' must come with Points, got a Ball"),
    ("weights, learned", {"loss_norm": 2.0}, "`loss_norm` must be left out with a `loss_range` of 'learn', got 2.0"),
    ("weights, learned", {"learning_rate": 0.1, "horizon": 10}, "`learning_rate` must be left out"),
    ("weights, learned", {"delay": 2, "horizon": 10}, "`delay` must be left out"),
    ("weights, learned", {"tuning": "paper", "horizon": 10}, "`tuning` must be left out"),
    ("weights, learned", {"loss_range": "unknown"}, "`loss_range`"),
    (GRADIENTS, {"mixing_rate": 1.5}, "`mixing_rate` must be at most 1, got 1.5"),
    (GRADIENTS, {"mixing_rate": 0.0}, "`mixing_rate` must be positive"),
    (GRADIENTS, {"learning_rate": -1.0}, "`learning_rate` must be positive"),
    (GRADIENTS, {"first": [2.0, 0.0]}, "`first` must be an action"),
    (GRADIENTS, {"first": [0.1]}, "`first` must have 2 columns"),
    ("gradient, ball", {"kernel": kl.Posynomial([[1, 0], [0, 1]]), "first": [0.5, 0.5]}, "no oracle for PosynomialLoss on Ball"),
    ("leader", {"kernel": GAUSSIAN}, r"no tractable projection .* ConditionalGradient"),
    ("leader", {"actions": kl.Box([0, 0], [1, 1])}, r"no tractable projection .* ConditionalGradient"),
    ("leader", {"actions": kl.PositiveBall(2, lower=0.1), "kernel": MONOMIALS}, r"no tractable projection .* ConditionalGradient"),
]  # fmt: skip


@pytest.mark.parametrize("names, settings, message", BAD)
def test_bad_settings(names, settings, message):
    for name in (names,) if isinstance(names, str) else names:
        kind, actions, kernel, said = LEARNERS[name]
        given = {"actions": actions, "kernel": kernel, "horizon": 400} | said | settings
        with pytest.raises((TypeError, ValueError), match=message):
            kind(given.pop("actions"), given.pop("kernel"), **given)


def test_the_range_of_losses_must_be_given_to_an_insured_learner():
    with pytest.raises(TypeError, match="loss_range"):
        INSURED(POINTS, GAUSSIAN, horizon=100)
