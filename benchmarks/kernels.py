"""Gram matrices against scikit-learn's, SciPy's distances, and the exponential alone."""

from __future__ import annotations

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.gaussian_process.kernels import Matern
from sklearn.metrics.pairwise import rbf_kernel

import koloss as kl
from benchmarks.tables import Table
from benchmarks.timing import cpu_race, ratio

POINTS = 2000
BANDWIDTH = 0.5


def run(full: bool = False) -> list[Table]:
    table = Table(
        f"Gram matrix of {POINTS:,} by {POINTS:,} points",
        [
            "kernel",
            "dimension",
            "million/s",
            "sklearn / koloss",
            "cdist / koloss",
            "koloss / exp",
            "error",
            "sklearn error",
        ],
        "Entries a second, then ratios of time: against scikit-learn, against SciPy's cdist and the formula, and "
        "against np.exp alone. Largest errors, against the same in long double.",
    )
    for dimension in (1, 2, 10, 50, *((500,) if full else ())):
        rng = np.random.default_rng(dimension)
        X, Y = rng.random((2, POINTS, dimension))
        _compare(table, "Gaussian", X, Y)
    _compare(table, "Matern 5/2", *np.random.default_rng(0).random((2, POINTS, 2)))
    return [table]


def _compare(table: Table, name: str, X: np.ndarray, Y: np.ndarray) -> None:
    shape = _gaussian if name == "Gaussian" else _matern
    if name == "Gaussian":
        kernel, gamma = kl.Gaussian(BANDWIDTH), 0.5 / BANDWIDTH**2
        peer = lambda: rbf_kernel(X, Y, gamma=gamma)  # noqa: E731
    else:
        kernel, other = kl.Matern(2.5, BANDWIDTH), Matern(BANDWIDTH, nu=2.5)
        peer = lambda: other(X, Y)  # noqa: E731
    exponents = -np.abs(cdist(X, Y))
    laps = cpu_race(
        {
            "koloss": lambda: kernel(X, Y),
            "scikit-learn": peer,
            "SciPy": lambda: shape(cdist(X, Y, "sqeuclidean")),
            "exp": lambda: np.exp(exponents),
        },
        repeats=9,
        budget=8.0,
    )
    exact = _exact(shape, X[:200], Y)
    ours = laps["koloss"].seconds
    table.add(
        name,
        X.shape[1],
        len(X) * len(Y) / ours / 1e6,
        ratio(laps["scikit-learn"], laps["koloss"]),
        ratio(laps["SciPy"], laps["koloss"]),
        ratio(laps["koloss"], laps["exp"]),
        float(np.max(np.abs(laps["koloss"].result[:200] - exact))),
        float(np.max(np.abs(laps["scikit-learn"].result[:200] - exact))),
    )


def _gaussian(squared):
    return np.exp(squared * (-0.5 / BANDWIDTH**2))


def _matern(squared):
    z = np.sqrt(squared) * (5**0.5 / BANDWIDTH)
    return (1 + z + z * z / 3) * np.exp(-z)


def _exact(shape, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """The kernel in long double."""
    squared = np.zeros((len(X), len(Y)), dtype=np.longdouble)
    for x, y in zip(X.T.astype(np.longdouble), Y.T.astype(np.longdouble), strict=True):
        squared += (x[:, None] - y[None, :]) ** 2
    return shape(squared)
