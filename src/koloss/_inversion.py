"""Inversion of cumulative sums for many uniform numbers at once: the same indices as by one search each, and sooner."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

CELLS = 2**16
"""Cells of equal length that [0, 1) is divided into: uniform numbers are put in order by them, in time linear in their number."""

IN_ORDER = 256
"""Uniform numbers from which on it pays to put them in order: searches of neighbours look at the same memory."""

FEW_SUMS = 64
"""Cumulative sums that are searched faster than anything is put in order."""

FROM_TABLE = (CELLS // 8, CELLS // 4)
"""Most cumulative sums, and fewest uniform numbers, for a table: then it is made in no time, and most cells have one answer."""


def invert(sums: Floats, uniform: Floats) -> NDArray[np.int64]:
    """How many of the sums are at most u, for every u in [0, 1): what `sums.searchsorted(uniform, side="right")` gives.

    Parameters
    ----------
    sums : array of shape (N,)
        Cumulative sums of probabilities, in order, between 0 and 1.
    uniform : array of shape (n,)

    Examples
    --------
    >>> invert(np.array([0.25, 0.5, 1.0]), np.array([0.7, 0.2, 0.5])).tolist()
    [2, 0, 2]
    """
    most, fewest = FROM_TABLE
    table = len(sums) <= most and len(uniform) >= fewest
    if not table and (len(uniform) < IN_ORDER or len(sums) < FEW_SUMS):
        return sums.searchsorted(uniform, side="right")
    # Products with a power of two are exact, so that a number is in the cell that its product names.
    cells = (uniform * CELLS).astype(np.uint16)
    return _from_table(sums, uniform, cells) if table else _in_order(sums, uniform, cells)


def _in_order(sums: Floats, uniform: Floats, cells: Any) -> NDArray[np.int64]:
    """Searches cell by cell."""
    order = cells.argsort(kind="stable")  # of whole numbers of 16 bits: by their digits
    index = np.empty(len(uniform), dtype=np.int64)
    index[order] = sums.searchsorted(uniform[order], side="right")
    return index


def _from_table(sums: Floats, uniform: Floats, cells: Any) -> NDArray[np.int64]:
    """The answer of every cell in which no sum lies, and searches in the others."""
    # A sum is at most k / CELLS just if its product with CELLS, rounded up, is at most k.
    counts = np.bincount(np.ceil(sums * CELLS).astype(np.int64), minlength=CELLS + 1)
    at_most = counts.cumsum()
    index: NDArray[np.int64] = at_most.take(cells)
    (several,) = np.nonzero(counts[1:].astype(bool).take(cells))
    index[several] = sums.searchsorted(uniform.take(several), side="right")
    return index
