"""Exact draws from a finite distribution given by the logarithms of its weights."""

from __future__ import annotations

from typing import Any

import numpy as np

from koloss.core.arrays import as_count, to_numpy, within_floats
from koloss.core.random import as_generator


@within_floats("`log_weights`")
def categorical(log_weights: Any, size: int, *, rng: Any = None) -> Any:
    """Independent draws of indices i with probability ∝ exp(log_weights[i]), an array of shape (size,).

    The logarithms may be of any scale; -inf is a weight of zero.

    Notes
    -----
    Inverse distribution function: with c_i = Σ_{j ≤ i} exp(log_weights[j] - max log_weights) and U uniform on
    [0, 1), the index is the first i with c_i > U c_N. The largest weight is exactly one, so nothing overflows;
    a weight below 1e-308 of the largest one is never drawn, and an index of weight zero never at all.

    Examples
    --------
    >>> categorical([1e6, -float("inf"), 1e6 - 800], 3, rng=0).tolist()
    [0, 0, 0]
    """
    weights = _weights(log_weights)
    size = as_count("size", size, minimum=0)
    return _invert(weights, as_generator(rng).random(size))


def _weights(log_weights: Any) -> Any:
    """Weights relative to the largest, from logarithms that have been checked."""
    try:
        logs = np.asarray(to_numpy(log_weights) if hasattr(log_weights, "shape") else log_weights)
        if logs.dtype.kind not in "biuf":
            raise TypeError
        logs = logs.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"`log_weights` must be an array of real numbers, got {type(log_weights).__name__}"
        ) from error
    if logs.ndim != 1:
        raise ValueError(f"`log_weights` must be 1-D, got ndim={logs.ndim}")
    if len(logs) == 0:
        raise ValueError("`log_weights` must not be empty, got length 0")
    bad = np.isnan(logs) | (logs == np.inf)
    if np.any(bad):
        i = int(np.argmax(bad))
        raise ValueError(f"`log_weights` must be finite or -inf, got {logs[i]} at {i}")
    top = logs.max()
    if top == -np.inf:
        raise ValueError("`log_weights` must not all be -inf, got no index of positive weight")
    with np.errstate(under="ignore", over="ignore"):  # the difference of two floats may be -inf
        return np.exp(logs - top)


def _invert(weights: Any, uniform: Any) -> Any:
    """First index whose cumulative weight exceeds uniform · total."""
    cumulative = np.cumsum(weights)
    index = np.searchsorted(cumulative, uniform * cumulative[-1], side="right")
    # A product rounded up to the total would be beyond the last index: it belongs to the last positive weight.
    return np.minimum(index, np.flatnonzero(weights)[-1])


def systematic(log_weights: Any, size: int, *, rng: Any = None) -> Any:
    """Systematic resampling: index i is drawn ⌊size·p_i⌋ or ⌈size·p_i⌉ times, size·p_i on average; ascending.

    Examples
    --------
    >>> import numpy as np
    >>> systematic(np.log([0.5, 0.25, 0.25]), 4, rng=0).tolist()
    [0, 0, 1, 2]
    """
    weights = _weights(log_weights)
    size = as_count("size", size)
    return _invert(weights, (np.arange(size) + as_generator(rng).random()) / size)
