"""Regret bounds and the parameter choices they imply, as pure functions."""

from koloss.guarantees.base import Assumption, Guarantee

__all__ = ["Assumption", "Guarantee"]
