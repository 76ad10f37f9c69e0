"""Koloss: repeated decisions against an adversary whose losses live in a reproducing kernel Hilbert space.

Losses, never rewards: smaller is better everywhere in this package.
"""

import importlib
from typing import Any

from koloss.actions import ActionSet, Ball, Box, Points, PositiveBall
from koloss.designs import Design, barycentric_spanner, john_design, uniform_design, whiten
from koloss.guarantees import Assumption, Guarantee
from koloss.kernels import (
    Gaussian,
    Kernel,
    KernelLike,
    KernelLoss,
    Linear,
    LinearLoss,
    Loss,
    Matern,
    Periodic,
    Polynomial,
    Posynomial,
    PosynomialLoss,
    Quadratic,
    QuadraticLoss,
)
from koloss.learners import (
    BanditExpWeights,
    ConditionalGradient,
    Decision,
    Decisions,
    ExpWeights,
    FollowTheRegularizedLeader,
    InsuredBandit,
    Policy,
    load_state,
    save_state,
)
from koloss.proxy import (
    Eigendecay,
    Proxy,
    eigendecay,
    exact_features,
    kernel_pca,
    mercer_features,
    pivoted_cholesky,
)

__version__ = "0.1.0"

_LAZY = ("arena", "experiments", "games", "oracles", "report", "samplers")
"""Parts that are imported when they are first used."""

_FROM_GAMES = ("Trace", "play", "replicate")


def __getattr__(name: str) -> Any:
    if name == "arena":
        return importlib.import_module("koloss.report.arena")
    if name in _LAZY:
        return importlib.import_module(f"koloss.{name}")
    if name in _FROM_GAMES:
        return getattr(importlib.import_module("koloss.games"), name)
    raise AttributeError(f"module 'koloss' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY, *_FROM_GAMES})


__all__ = [
    "ActionSet",
    "Assumption",
    "Ball",
    "BanditExpWeights",
    "Box",
    "ConditionalGradient",
    "Decision",
    "Decisions",
    "Design",
    "Eigendecay",
    "ExpWeights",
    "FollowTheRegularizedLeader",
    "Gaussian",
    "Guarantee",
    "InsuredBandit",
    "Kernel",
    "KernelLike",
    "KernelLoss",
    "Linear",
    "LinearLoss",
    "Loss",
    "Matern",
    "Periodic",
    "Points",
    "Policy",
    "Polynomial",
    "PositiveBall",
    "Posynomial",
    "PosynomialLoss",
    "Proxy",
    "Quadratic",
    "QuadraticLoss",
    "barycentric_spanner",
    "eigendecay",
    "exact_features",
    "john_design",
    "kernel_pca",
    "load_state",
    "mercer_features",
    "pivoted_cholesky",
    "save_state",
    "uniform_design",
    "whiten",
]
