"""Names of studies."""

from __future__ import annotations

import re

from koloss.errors import StudyNotFound

_NAME = re.compile(r"[A-Za-z0-9._-]{1,100}")


def check_name(name: str) -> str:
    """A name that a study may have: it fits into a path, an address and a line of a shell.

    Examples
    --------
    >>> check_name("prices-2026.eu")
    'prices-2026.eu'
    """
    if not isinstance(name, str):
        raise TypeError(f"`name` must be a string, got {type(name).__name__}")
    if not _NAME.fullmatch(name) or name in (".", ".."):
        shown = name if len(name) <= 120 else f"{name[:120]}..."
        raise ValueError(
            "`name` must have 1 to 100 characters, each a letter from a to z, a digit or one of "
            f"'._-', and not be '.' or '..', got {shown!r}"
        )
    return name


def check_findable(name: str) -> str:
    """A name that is looked for: where no study may have it, there is none, and no store has to be asked."""
    try:
        return check_name(name)
    except ValueError:
        raise StudyNotFound(
            f"there is no study {name[:120]!r}, and none can be called so"
        ) from None
