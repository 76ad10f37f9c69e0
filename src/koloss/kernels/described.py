"""Kernels from the tables of a TOML file, and from a line of text."""

from __future__ import annotations

import json
import re
from typing import Any

from koloss.actions import Space
from koloss.core.toml import Keys, Source, pointing
from koloss.kernels.base import Kernel

DEFAULTS: dict[str, dict[str, float]] = {
    "gaussian": {"bandwidth": 0.3},
    "matern": {"smoothness": 2.5, "lengthscale": 0.3},
    "periodic": {"lengthscale": 0.5, "period": 1.0},
    "polynomial": {"degree": 3, "offset": 1.0},
}
"""Parameters that a line of text may leave out."""


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


def kernel_of_text(text: str) -> Kernel:
    """The kernel of a line of text: its name, and after a colon its parameters.

    Examples
    --------
    >>> kernel_of_text("polynomial:degree=2, offset=0")
    Polynomial(degree=2, offset=0.0)
    >>> kernel_of_text("gaussian:bandwidth=[0.5, 2]")
    Gaussian(bandwidth=(0.5, 2.0))
    """
    name, _, rest = text.partition(":")
    parameters = dict(DEFAULTS.get(name.lower(), {}))
    for part in re.split(r",(?=\s*\w+\s*=)", rest):
        key, equals, value = (word.strip() for word in part.partition("="))
        if part and not (key and equals and value):
            raise ValueError(f"`kind` must be like gaussian:bandwidth=0.3, got {part!r} in it")
        if part:
            parameters[key] = _value(value)
    try:
        return Kernel.from_dict({"kind": name} | parameters)
    except ValueError as error:
        raise ValueError(re.sub(r", in \w+$", "", str(error))) from error


def _value(text: str) -> Any:
    """A number, a list of numbers, or a word."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
