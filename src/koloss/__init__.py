"""Koloss: repeated decisions against an adversary whose losses live in a reproducing kernel Hilbert space.

Losses, never rewards: smaller is better everywhere in this package.
"""

from koloss.actions import ActionSet, Ball, Box, Points
from koloss.designs import Design, barycentric_spanner, john_design, uniform_design, whiten
from koloss.kernels import (
    Gaussian,
    Kernel,
    KernelLike,
    Linear,
    Matern,
    Periodic,
    Polynomial,
    Posynomial,
    Quadratic,
)
from koloss.losses import KernelLoss, LinearLoss, Loss, PosynomialLoss, QuadraticLoss
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

__all__ = [
    "ActionSet",
    "Ball",
    "Box",
    "Design",
    "Eigendecay",
    "Gaussian",
    "Kernel",
    "KernelLike",
    "KernelLoss",
    "Linear",
    "LinearLoss",
    "Loss",
    "Matern",
    "Periodic",
    "Points",
    "Polynomial",
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
    "mercer_features",
    "pivoted_cholesky",
    "uniform_design",
    "whiten",
]
