"""What a guarantee says, by the keys of its clauses and notes: tests of bounds do not depend on how sentences are put."""

from __future__ import annotations

from typing import Any

from koloss.guarantees import Clause, Guarantee
from koloss.guarantees.base import Mark


def marks(promise: Guarantee) -> dict[str, Mark]:
    """The mark of every assumption."""
    return {one.key: one.holds for one in promise.assumptions}


def remarks(promise: Guarantee) -> dict[str, dict[str, Any]]:
    """The numbers of every note."""
    return {one.key: dict(one.numbers) for one in promise.remarks}


def clause_of(promise: Guarantee, key: str) -> Clause:
    """The one assumption with this key."""
    (found,) = (one for one in promise.assumptions if one.key == key)
    return found
