"""What users give, as JSON: contexts, choices among actions, names of requests."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from koloss.core.arrays import shown

LONGEST_REASON = 2000
"""Characters of why somebody did something."""


def as_plain(name: str, value: Any) -> Any:
    """Numbers, text, lists and mappings as JSON has them; a learner understands these like the originals."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, np.ndarray):
        return as_plain(name, value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"`{name}` must be finite, got {value}")
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)):
        return [as_plain(name, one) for one in value]
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {key: as_plain(name, one) for key, one in value.items()}
    rule = "must be numbers, text, lists and mappings by text, which the log can hold"
    raise TypeError(f"`{name}` {rule}, got {shown(value)}")


def as_choice(allowed: Any) -> Any:
    """Which actions are allowed, as rows where truth values were given."""
    plain = as_plain("allowed", allowed)
    if isinstance(plain, list) and plain and all(isinstance(one, bool) for one in plain):
        return [row for row, one in enumerate(plain) if one]
    return plain


def as_text(name: str, value: Any, longest: int = 200) -> str:
    """Text that says something."""
    if not isinstance(value, str):
        raise TypeError(f"`{name}` must be text, got {type(value).__name__}")
    if not 0 < len(value) <= longest:
        raise ValueError(f"`{name}` must have 1 to {longest} characters, got {len(value)}")
    if "\0" in value or (not value.isascii() and any("\ud800" <= one <= "\udfff" for one in value)):
        # PostgreSQL refuses the first in the middle of a transaction, of which others are part.
        rule = "must be without NUL and halves of pairs, which not every store can hold"
        raise ValueError(f"`{name}` {rule}, got {shown(value)}")
    return value


def as_key(request: Any) -> str | None:
    """The key of a request, where it has one."""
    return None if request is None else as_text("request", request)


def said_by(author: Any, reason: Any) -> dict[str, str]:
    """Who did something and why, as far as that is said."""
    texts = (("author", author, 200), ("reason", reason, LONGEST_REASON))
    return {name: as_text(name, text, longest) for name, text, longest in texts if text != ""}
