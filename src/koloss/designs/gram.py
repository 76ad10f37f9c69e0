"""Leverages from Gram matrices alone, without features (the paper's Lemma GtoS, with the factor it misses)."""

from __future__ import annotations

from koloss.core.arrays import Array, as_points, namespace
from koloss.core.threads import single, threads_for


def leverage_from_gram(gram: Array, left: Array, right: Array) -> Array:
    """φ(x)'Σ̂⁻¹φ(y) of a sample covariance, from kernel values: r A_x'(K†)²A_y.

    For r sample points x_1, ..., x_r with Σ̂ = (1/r) Σ_i φ(x_i)φ(x_i)' of full rank, K = (φ(x_i)'φ(x_j))_ij
    and A_x = (φ(x)'φ(x_1), ..., φ(x)'φ(x_r)). The paper's lemma has no factor r, which is right for neither
    K nor K/r (for the latter it is 1/r).

    Parameters
    ----------
    gram : array of shape (r, r)
        K.
    left, right : arrays of shape (p, r) and (q, r)
        Rows A_x and A_y.

    Examples
    --------
    >>> import numpy as np
    >>> sample, points = np.random.default_rng(0).normal(size=(30, 3)), np.eye(3)
    >>> direct = points @ np.linalg.inv(sample.T @ sample / 30) @ points.T
    >>> leverage = leverage_from_gram(sample @ sample.T, points @ sample.T, points @ sample.T)
    >>> bool(np.allclose(leverage, direct))
    True
    """
    gram = as_points("gram", gram)
    xp, r = namespace(gram), gram.shape[0]
    if gram.shape[1] != r:
        raise ValueError(f"`gram` must be square, got shape {tuple(gram.shape)}")
    left, right = as_points("left", left, dimension=r), as_points("right", right, dimension=r)
    rows = max(r, left.shape[0], right.shape[0])
    with single:  # the products within a decomposition are small ones
        inverse = xp.linalg.pinv(gram)
    with threads_for(rows * r * r):
        return r * (left @ inverse) @ (right @ inverse).T
