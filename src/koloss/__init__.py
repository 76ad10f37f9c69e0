"""Koloss makes repeated choices, learns from what each one cost, and tells you in advance how far it can fall behind the best fixed choice.

Values are losses, of which smaller ones are better, unless a learner or a study is given `goal="maximize"`.
"""

from typing import TYPE_CHECKING

from koloss._version import __version__
from koloss.actions import (
    ActionSet,
    Ball,
    Box,
    Choice,
    Contexts,
    Float,
    Int,
    Ordinal,
    Points,
    PositiveBall,
    Space,
    SpacePoints,
)
from koloss.designs import Design, barycentric_spanner, john_design, uniform_design, whiten
from koloss.guarantees import Clause, Guarantee
from koloss.kernels import (
    Gaussian,
    Kernel,
    KernelLike,
    KernelLoss,
    Linear,
    LinearLoss,
    Loss,
    Matern,
    Mixed,
    Periodic,
    Polynomial,
    Posynomial,
    PosynomialLoss,
    Quadratic,
    QuadraticLoss,
    Scales,
    White,
    estimate_scales,
)
from koloss.learners import (
    BanditExpWeights,
    Decision,
    Decisions,
    Learner,
    Recommendation,
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

_LAZY = {
    "aio": "koloss.studies.aio",
    "errors": "koloss.errors",
    "experiments": "koloss.experiments",
    "games": "koloss.games",
    "oracles": "koloss.oracles",
    "report": "koloss.report",
    "samplers": "koloss.samplers",
    "studies": "koloss.studies",
}
"""Parts that are imported when they are first used."""

_FROM_GAMES = ("Trace", "play", "replicate")

_FROM_LEARNERS = (
    "ConditionalGradient",
    "ExpWeights",
    "FollowTheRegularizedLeader",
    "InsuredBandit",
    "Policy",
)

if TYPE_CHECKING:
    from koloss import errors, experiments, games, oracles, report, samplers, studies
    from koloss.games.play import play
    from koloss.games.replicate import replicate
    from koloss.games.trace import Trace
    from koloss.learners import (
        ConditionalGradient,
        ExpWeights,
        FollowTheRegularizedLeader,
        InsuredBandit,
        Policy,
    )
    from koloss.studies import Study, aio
else:

    def __getattr__(name):
        import importlib

        if name in _LAZY:
            return importlib.import_module(_LAZY[name])
        if name == "Study":
            return importlib.import_module("koloss.studies").Study
        if name in _FROM_LEARNERS:
            globals()[name] = value = getattr(importlib.import_module("koloss.learners"), name)
            return value
        if name in _FROM_GAMES:
            return getattr(importlib.import_module("koloss.games"), name)
        raise AttributeError(f"module 'koloss' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__doc__", "__file__", "__name__", "__path__"]


__all__ = [
    "ActionSet",
    "Ball",
    "BanditExpWeights",
    "Box",
    "Choice",
    "Clause",
    "ConditionalGradient",
    "Contexts",
    "Decision",
    "Decisions",
    "Design",
    "Eigendecay",
    "ExpWeights",
    "Float",
    "FollowTheRegularizedLeader",
    "Gaussian",
    "Guarantee",
    "InsuredBandit",
    "Int",
    "Kernel",
    "KernelLike",
    "KernelLoss",
    "Learner",
    "Linear",
    "LinearLoss",
    "Loss",
    "Matern",
    "Mixed",
    "Ordinal",
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
    "Recommendation",
    "Scales",
    "Space",
    "SpacePoints",
    "Study",
    "Trace",
    "White",
    "__version__",
    "aio",
    "barycentric_spanner",
    "eigendecay",
    "errors",
    "estimate_scales",
    "exact_features",
    "experiments",
    "games",
    "john_design",
    "kernel_pca",
    "load_state",
    "mercer_features",
    "oracles",
    "pivoted_cholesky",
    "play",
    "replicate",
    "report",
    "samplers",
    "save_state",
    "studies",
    "uniform_design",
    "whiten",
]
