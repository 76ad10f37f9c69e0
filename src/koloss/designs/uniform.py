"""The uniform distribution as exploration design."""

from __future__ import annotations

from koloss.core.arrays import Array, namespace
from koloss.core.linalg import SHARE
from koloss.designs.base import Design, Rows, as_features, certify, coordinates, orthonormal


def uniform_design(features: Array) -> Design:
    """Uniform distribution on all actions, with the leverage it has; features of shape (N, m), or a Proxy.

    Examples
    --------
    >>> import numpy as np
    >>> import koloss as kl
    >>> kl.uniform_design(np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])).max_leverage.__round__(6)
    3.0
    """
    features = as_features(features)
    N, many = features.shape[0], features.shape[0] > SHARE
    Z = Rows(features, coordinates(features)) if many else orthonormal(features)[0]
    weights = namespace(features).ones_like(features[:, 0]) / N
    return certify(Z, weights, "uniform", features)
