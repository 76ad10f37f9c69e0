"""The span of finitely many features on a set of points: what a learner needs to know where no norm is assumed of losses.

Without a norm a learner depends on the span of its features alone (theory B6), so they may be replaced by any others that span the
same: here by orthonormal columns, with as little rounding as the features allow. Units of features have no say in their rank.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr

from koloss.core.arrays import to_numpy
from koloss.core.threads import single
from koloss.proxy.shares import SHARE, blocks

Floats = NDArray[np.float64]

SMALLEST = 1e-9
"""What must be left of a feature of length 1 beyond the others, for it to be told apart from them: less is mostly rounding."""

ROUNDING = 1e-13
"""What may be left of one that is a combination of others."""


class Span(NamedTuple):
    """Orthonormal columns that span the features, and the constant where it is one of them, in the last column."""

    columns: Floats  # (N, m)
    features: int  # that the kernel has
    lost: int  # of these, how many cannot be told apart from others; none where all such are combinations of them


def span_of(kernel: Any, X: Any, *, constant: bool) -> Span:
    """The span of the features of a kernel at the rows of X, and of a constant where there is one.

    Each feature is scaled to length 1, the constant is taken off, and a QR factorisation with pivots leaves out what is below
    1e-9 of that length. That limit does not depend on how large other features are.
    """
    N, size = len(X), kernel.feature_dimension(X.shape[1])
    Phi = np.empty((N, size), order="F")
    for rows in blocks(N, SHARE):
        Phi[rows] = to_numpy(kernel.features(X[rows]))
    largest = np.abs(Phi).max(axis=0)
    Phi /= np.where(largest > 0, largest, 1.0)
    lengths = np.sqrt(np.einsum("ij,ij->j", Phi, Phi))
    Phi /= np.where(lengths > 0, lengths, 1.0)
    if constant:
        for _ in range(2):  # the second removes the rounding of the first
            Phi -= Phi.mean(axis=0)
    with single:
        Q, R, _ = qr(Phi, mode="economic", pivoting=True, overwrite_a=True, check_finite=False)
    left = np.abs(np.diagonal(R))
    rank = int(np.sum(left > SMALLEST))
    small = left <= SMALLEST
    lost = int(small.sum()) if np.any(left[small] > ROUNDING) else 0  # not all of them combinations
    columns = Q[:, :rank]
    if constant:
        columns = np.column_stack([columns, np.full(N, 1 / np.sqrt(N))])
    return Span(columns, size, lost)


def largest_norm(kernel: Any, net: Any, others: Any, white: Floats, *, constant: bool) -> float:
    """Largest norm, up to a constant, of what is in the span of the features and at most 1 in absolute value on a net.

    `white` are columns that span the features on the net, with E ψψ' = I under some law on it. What is θ'ψ there has |θ|² = E (θ'ψ)²
    at most 1, and is w'Φ + c with w = Aθ for Ψ = (Φ, 1)(A; a'): its norm is at most that of A. Infinite where the features vary on
    the points of `others`, which lie between those of the net, in ways that the net does not show.
    """
    both = np.concatenate([to_numpy(net), to_numpy(others)])
    if span_of(kernel, both, constant=constant).columns.shape[1] > white.shape[1]:
        return float("inf")
    Phi = to_numpy(kernel.features(net)).astype(float)
    size = Phi.shape[1]
    if constant:
        Phi = np.column_stack([Phi, np.ones(len(Phi))])
    with single:
        A = np.linalg.lstsq(Phi, white, rcond=SMALLEST)[0][:size]
        return float(np.linalg.norm(A, 2))
