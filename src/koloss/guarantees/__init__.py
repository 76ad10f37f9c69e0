"""Regret bounds and the parameter choices they imply, as pure functions."""

from koloss.guarantees.base import Clause, Guarantee

__all__ = ["Clause", "Guarantee"]
