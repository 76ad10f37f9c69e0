"""Random generators: made at the edge, kept as plain data in snapshots."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

KINDS = ("MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64")
"""Bit generators that a snapshot may name; nothing else is looked up."""


# Streams of one seed: their numbers are the first bytes of the SHA-256 of their names, so that no child a user spawns has one.

LEARNERS = 0xDC2AE857
"""Stream of learners."""

GAMES = 0xCD7AC4C6
"""Stream of adversaries."""

DRAWS = 0x0AA2666B
"""Stream of functions that draw: samplers, `actions.sample`, proxies, starts of a search."""


def as_generator(rng: Any, stream: int = DRAWS) -> np.random.Generator:
    """A generator from whatever was given as `rng`: None, a seed, a SeedSequence, a bit generator or a generator.

    A seed is a whole number, or a sequence of them. It gives other random numbers for each stream, and none of them are those of
    `np.random.default_rng(seed)`, which are the user's own: a learner, its game and the data that it is told may all be seeded
    with 0 and are still independent. Functions that draw share one stream, so that two calls of one of them with one
    seed agree. All else is used as it is: `rng=np.random.default_rng(seed)` shares that generator with whoever else has it.

    Examples
    --------
    >>> from koloss.core.random import GAMES, LEARNERS
    >>> len(
    ...     {
    ...         g.random()
    ...         for g in (
    ...             as_generator(0, LEARNERS),
    ...             as_generator(0, GAMES),
    ...             as_generator(0),
    ...             np.random.default_rng(0),
    ...         )
    ...     }
    ... )
    4
    """
    if isinstance(rng, (bool, np.bool_)):
        raise TypeError(f"`rng` must be a seed or a Generator, got {rng!r}")
    try:
        if isinstance(rng, (int, np.integer, list, tuple, range, np.ndarray)):
            rng = np.random.SeedSequence(rng, spawn_key=(stream,))
        return np.random.default_rng(rng)
    except TypeError as error:
        raise TypeError(f"`rng` must be a seed or a Generator, got {type(rng).__name__}") from error
    except ValueError as error:
        raise ValueError(f"`rng` must be a seed of at least 0, got {rng!r}") from error


def generator_to_dict(rng: np.random.Generator) -> dict[str, Any]:
    """State of a generator as plain data."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {k: plain(v) for k, v in value.items()}
        return value.item() if isinstance(value, np.generic) else value

    state: dict[str, Any] = plain(rng.bit_generator.state)
    return state


def generator_from_dict(state: Mapping[str, Any]) -> np.random.Generator:
    """The generator whose state was kept; a state that no generator of its kind can have is refused."""
    kind = state["bit_generator"]
    if not isinstance(kind, str) or kind not in KINDS:
        raise ValueError(f"`bit_generator` must be one of {', '.join(KINDS)}, got {kind!r}")
    inner = state["state"]
    # NumPy reads beyond the end of its numbers where a position is too large.
    limits = {"MT19937": (inner, "pos", 624), "Philox": (state, "buffer_pos", 4)}
    if kind in limits:
        holder, name, most = limits[kind]
        if type(holder[name]) is not int or not 0 <= holder[name] <= most:
            raise ValueError(f"`{name}` must be from 0 to {most}, got {holder[name]!r}")
    if "inc" in inner and inner["inc"] % 2 == 0:
        raise ValueError(f"`inc` must be odd, got {inner['inc']}")
    if kind == "MT19937" and not np.any(inner["key"]):
        raise ValueError("`key` must not be zero everywhere")
    if state.get("has_uint32", 0) not in (0, 1):
        raise ValueError(f"`has_uint32` must be 0 or 1, got {state['has_uint32']!r}")
    rng = np.random.Generator(getattr(np.random, kind)())
    rng.bit_generator.state = state
    if not _same(generator_to_dict(rng), state):
        raise ValueError(f"`rng` must be the state of a {kind}, got what is not")
    return rng


def _same(a: Any, b: Any) -> bool:
    """Whether two states are equal, in the types of their parts, too."""
    if isinstance(a, dict):
        return isinstance(b, Mapping) and a.keys() == b.keys() and all(_same(a[k], b[k]) for k in a)
    if isinstance(a, np.ndarray):
        return isinstance(b, np.ndarray) and a.dtype == b.dtype and np.array_equal(a, b)
    return type(a) is type(b) and bool(a == b)


# Draws by inversion.

Floats = NDArray[np.float64]

IN_ORDER = 2048
"""Uniform numbers from which on it pays to put them in order: searches of neighbours look at the same memory."""


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
    if len(uniform) < IN_ORDER:
        return sums.searchsorted(uniform, side="right")
    order = uniform.argsort()
    index = np.empty(len(uniform), dtype=np.int64)
    index[order] = sums.searchsorted(uniform[order], side="right")
    return index
