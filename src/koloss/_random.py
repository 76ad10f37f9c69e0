"""Random generators: made at the edge, kept as plain data in snapshots."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

KINDS = ("MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64")
"""Bit generators that a snapshot may name; nothing else is looked up."""


def as_generator(rng: Any) -> np.random.Generator:
    """A generator from whatever was given as `rng`: None, a seed, a SeedSequence, a bit generator or a generator."""
    if isinstance(rng, (bool, np.bool_)):
        raise TypeError(f"`rng` must be a seed or a Generator, got {rng!r}")
    try:
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
    """The generator whose state was kept."""
    kind = state["bit_generator"]
    if kind not in KINDS:
        raise ValueError(f"`bit_generator` must be one of {', '.join(KINDS)}, got {kind!r}")
    rng = np.random.Generator(getattr(np.random, kind)())
    rng.bit_generator.state = state
    return rng
