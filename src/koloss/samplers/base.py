"""What draws from exp(-potential) while the potential changes."""

from __future__ import annotations

import abc
from typing import Any

import numpy as np


class Sampler(abc.ABC):
    """Draws from exp(-potential) on one action set; the potential changes, and what helped with the last one is kept.

    A potential is a loss, or None for zero; on a finite set it is the array of its values. A sampler has a state, no
    generator.
    """

    method: str
    exact = True  # whether draws follow the density without a Markov chain in between
    stale = True  # whether another density is to be followed before the next draw

    @abc.abstractmethod
    def follow(self, potential: Any, rng: np.random.Generator) -> None:
        """Go over to another density."""

    @abc.abstractmethod
    def draw(self, size: int, rng: np.random.Generator) -> Any:
        """Actions; rows of the set where it is finite."""

    def facts(self) -> dict[str, Any]:
        """What an operator may want to see."""
        return {}
