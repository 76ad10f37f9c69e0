"""What can be said to the bandit learner: rules, ready proxies and designs."""

from __future__ import annotations

import numpy as np
import pytest

import koloss as kl
from tests.support.cases import POINTS, SHARES, bandit, bandit_on_ball, insured

LEARN, WISE, SHARED = {"loss_range": "learn"}, {"regret": "hindsight"}, {"shares": SHARES}
BAD = {  # on points and on a ball alike
    "horizon": ({"horizon": 0}, "`horizon` must be at least 1, got 0"),
    "horizon text": ({"horizon": "long"}, "`horizon` must be an integer, got 'long'"),
    "tuning": ({"tuning": "best"}, "`tuning` must be one of 'sharp', 'paper', got 'best'"),
    "proxy": ({"proxy": "magic"}, "`proxy` must be one of"),
    "rank": ({"rank": 0}, "`rank` must be at least 1"),
    "design": ({"design": "greedy"}, "`design` must be one of"),
    "batch": ({"batch": 0}, "`batch` must be at least 1"),
    "covariance": ({"covariance": "guess"}, "`covariance` must be one of"),
    "sample error": ({"sample_error": 1.0}, "`sample_error` must be below 1"),
    "bonus": ({"bonus": "yes"}, "`bonus` must be True, False or .auto."),
    "bonus, sampled": ({"bonus": True, "covariance": "sampled"}, "`bonus` must be left out"),
    "goal": ({"goal": "up"}, "`goal` must be one of"),
    "loss class": ({"loss_class": "evil"}, "`loss_class` must be one of"),
    "range": ({"loss_range": (1, 0)}, "`loss_range` must be"),
    "range NaN": ({"loss_range": (0, float("nan"))}, "`loss_range` must be finite"),
    "bound": ({"loss_range": None, "loss_bound": -1}, "`loss_bound` must be positive"),
    "both": ({"loss_bound": 1.0}, "`loss_bound` or `loss_range`, not both"),
    "norm": ({"loss_norm": 0.0}, "`loss_norm` must be positive"),
    "delay": ({"delay": -1}, "`delay` must be at least 0"),
    "delay and batch": ({"delay": 2, "batch": 3}, "`batch` must be 1"),
    "rate": ({"learning_rate": 0.0}, "`learning_rate` must be positive"),
    "exploration rate": ({"exploration_rate": 1.5}, "`exploration_rate` must be at most 1"),
    "anytime rate": ({"horizon": None, "learning_rate": 0.1}, "must be left out without a horizon"),
    "paper anytime": (
        {"tuning": "paper", "horizon": None},
        "`tuning` of 'paper' must have a horizon",
    ),
}
BAD_ON_POINTS = {
    "rank too large": ({"rank": 31}, "`rank` must be at most"),
    "prior length": ({"prior": np.ones(3) / 3}, "`prior` must have length 30"),
    "prior zero": ({"prior": np.eye(30)[0]}, "`prior` must be positive everywhere"),
    "prior sum": ({"prior": np.ones(30)}, "`prior` must sum to 1"),
    "spacing": ({"spacing": 0.1}, "`spacing` must be left out for a finite set"),
    "range text": ({"loss_range": "guess"}, "`loss_range` must be .low, high. or 'learn'"),
    "outside, learned": ({**LEARN, "outside": "clip"}, "`outside` must be 'raise' unless"),
    "outside": ({"outside": "keep"}, "`outside` must be one of 'raise', 'clip', 'widen', got 'keep'"),
    "bound, learned": ({**LEARN, "loss_bound": 1.0}, "give `loss_bound` or `loss_range`"),
    "paper, learned": ({**LEARN, "tuning": "paper"}, "`loss_range` must be an interval"),
    "regret": ({"regret": "both"}, "`regret` must be one of 'pseudo', 'hindsight', got 'both'"),
    "paper, hindsight": ({**WISE, "tuning": "paper"}, "`tuning` must be 'sharp' where `regret` is 'hindsight', got 'paper'"),
    "sampled, hindsight": ({**WISE, "covariance": "sampled"}, "`covariance` must be 'exact' where `regret` is 'hindsight'"),
    "delay, hindsight": ({**WISE, "delay": 2}, "`delay` must be 0 where `regret` is 'hindsight', got 2"),
    "little exploration": ({**WISE, "exploration_rate": 1e-4}, "`exploration_rate` must be larger for a bonus on variance"),
    "shares, hindsight": ({**SHARED, **WISE}, "`regret` must be 'pseudo' where there are `shares`"),
    "shares, paper": ({**SHARED, "tuning": "paper", "loss_range": None}, "`tuning` must be 'sharp' where there are"),
    "shares, ridge": ({**SHARED, "horizon": None, "ridge": 0.1}, "`ridge` must be 0 where there are `shares` and no horizon, got 0.1"),
} | {
    f"ridge {value}": ({"ridge": value}, "`ridge` must be")
    for value in (-1.0, float("nan"), "none", True, None)
}  # fmt: skip


@pytest.mark.parametrize("name", BAD | BAD_ON_POINTS)
def test_bad_settings(name):
    settings, message = (BAD | BAD_ON_POINTS)[name]
    for case in (bandit, bandit_on_ball) if name in BAD else (bandit,):
        with pytest.raises((TypeError, ValueError), match=message):
            case(**settings).make()


def test_regret_in_hindsight_is_of_points_without_a_policy():
    with pytest.raises(ValueError, match="`regret` must be 'pseudo' where a whole ball is played"):
        bandit_on_ball(**WISE).make()
    with pytest.raises(
        ValueError, match="`regret` must be 'pseudo' with a policy, got 'hindsight'"
    ):
        insured(**WISE).make()


def test_foreign_proxy_and_design_are_refused():
    other = kl.Points(np.random.default_rng(1).random((10, 2)))
    with pytest.raises(ValueError, match="`proxy` must be one of the actions"):
        bandit(proxy=kl.pivoted_cholesky(kl.Gaussian(0.4), other, rank=3)).make()
    with pytest.raises(ValueError, match="`design` must weigh 30 actions"):
        bandit(design=kl.uniform_design(np.eye(3))).make()


def test_ready_proxy_and_design_are_used():
    proxy = kl.kernel_pca(kl.Gaussian(0.4), POINTS, rank=6)
    learner = bandit(proxy=proxy, rank=6, design=kl.uniform_design(proxy), loss_range=None).make()
    np.testing.assert_allclose(learner.engine.weights, 1 / 30)
    assert learner.rank == 6
    assert learner.engine.proxy == "kernel PCA"
