"""Learners whose decisions are recorded and drawn again by others, and what they are asked."""

from __future__ import annotations

from typing import Any

import numpy as np

import koloss as kl

POINTS = kl.Points(np.linspace(0, 1, 7)[:, None])
SEGMENTS = ["new", "old", "gone"]
ALL = {"horizon": 400, "loss_range": (0, 1), "rng": 0}


def bandit(**settings: Any) -> Any:
    return kl.BanditExpWeights(POINTS, kl.Gaussian(0.3), **{**ALL, **settings})


def insured(**settings: Any) -> Any:
    return kl.InsuredBandit(POINTS, kl.Gaussian(0.3), **{**ALL, **settings})


LEARNERS = {
    "bandit": bandit,
    "bandit, held": lambda: bandit(hold=3),
    "bandit, any": lambda: bandit(loss_class="any"),
    "bandit, shares": lambda: bandit(shares={0: (0.1, 0.4)}),
    "bandit, no horizon": lambda: bandit(horizon=None),
    "ball": lambda: kl.BanditExpWeights(kl.Ball(2), kl.Quadratic(), **ALL),
    "apart": lambda: bandit(contexts=kl.Contexts(SEGMENTS)),
    "shared": lambda: bandit(contexts=kl.Contexts(SEGMENTS, weights=[0.5, 0.3, 0.2])),
    "insured": insured,
    "insured, segments": lambda: insured(
        contexts=kl.Contexts(SEGMENTS, weights=[0.5, 0.3, 0.2]), trigger=0.05, premium=0.05
    ),
    "insured, apart": lambda: insured(contexts=kl.Contexts(SEGMENTS)),
    "insured, robust": lambda: insured(trigger=0.01, premium=0.01),
    "insured, growing": lambda: kl.InsuredBandit(
        kl.Box([0, 0], [1, 1]), kl.Gaussian(0.3), grow=64, **ALL
    ),
}
"""Learners whose laws do not depend on coins: what is drawn does."""


def context_of(learner: Any, k: int) -> Any:
    contexts = getattr(learner.settings, "contexts", None)
    if contexts is None:
        return None
    return SEGMENTS[k % 3]


def allowed_of(name: str, k: int) -> Any:
    masked = name in ("bandit", "insured", "insured, robust", "bandit, any")
    return [0, 2, 5] if masked and k % 4 == 3 else None
