"""Leverages by a computation of their own."""

from __future__ import annotations

import numpy as np


def leverages(features, weights):
    """φ'Σ⁺φ of all actions by singular values of √w φ, in float64: nothing of the package is in it."""
    features, weights = np.asarray(features, dtype=float), np.asarray(weights, dtype=float)
    scaled = features / np.maximum(np.abs(features).max(axis=0), 1e-300)
    carriers = weights > 0
    weighted = np.sqrt(weights[carriers])[:, None] * scaled[carriers]
    _, sizes, axes = np.linalg.svd(weighted, full_matrices=False)
    kept = sizes > 1e-13 * sizes[0]
    return np.sum((scaled @ (axes[kept].T / sizes[kept])) ** 2, axis=1)
