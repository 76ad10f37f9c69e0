"""Kernels from the tables of a TOML file."""

from __future__ import annotations

from typing import Any

from koloss.actions import Space
from koloss.core.toml import Keys, Source, pointing
from koloss.kernels.base import Kernel


def read_kernel(
    data: Any, keys: Keys, source: Source, *, space: Space | None = None
) -> Kernel | str:
    """The kernel of a table; a word stands for one that the learner chooses, and "Mixed" is of the space that it is used on."""
    if isinstance(data, str):
        return data
    given = data if isinstance(data, dict) else {}
    with pointing(source, keys, given):
        if space is not None and str(given.get("kind")).lower() == "mixed":
            data = {"space": space, **given}
        return Kernel.from_dict(data)
