"""What draws from exp(-potential) while the potential changes."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from typing import Any

import numpy as np


class Sampler(abc.ABC):
    """Draws from exp(-potential) on one action set; the potential changes, and what helped with the last one is kept.

    A potential is a loss, or None for zero; on a finite set it is the array of its values. A sampler has a state, no
    generator.
    """

    method: str
    exact = True  # whether draws follow the density without a Markov chain in between

    @abc.abstractmethod
    def follow(self, potential: Any, rng: np.random.Generator) -> None:
        """Go over to another density."""

    @abc.abstractmethod
    def draw(self, size: int, rng: np.random.Generator) -> Any:
        """Actions; rows of the set where it is finite."""

    def facts(self) -> dict[str, Any]:
        """What an operator may want to see."""
        return {}

    def to_dict(self) -> dict[str, Any]:
        """What it remembers beside the potential, as plain data."""
        return {}

    def load(self, data: Mapping[str, Any]) -> None:
        """Take such data back."""
        expected = set(self.to_dict())
        if set(data) != expected:
            raise ValueError(f"a sampler must have {expected or 'no state'}, got {data!r}")

    def followed(self) -> tuple[Any, Any] | None:
        """The potential of the last density and points drawn from it, where these are remembered."""
        return None
