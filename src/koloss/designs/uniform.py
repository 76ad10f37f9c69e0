"""The uniform distribution as exploration design."""

from __future__ import annotations

from koloss._arrays import Array, namespace
from koloss.designs.base import Design, as_features, certify, orthonormal


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
    Z, _ = orthonormal(features)
    weights = namespace(Z).ones_like(Z[:, 0]) / Z.shape[0]
    return certify(Z, weights, "uniform", features)
