"""What the insured learner fixes before the first round: its terms, its forecasts, its policies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from koloss._arrays import as_float, to_numpy
from koloss.learners.bandit.setup import Setup
from koloss.learners.insured.policies import Own, make_policy

FORECASTS = ((1.0, 0.05), (1.0, 0.5), (0.98, 0.05), (0.9, 0.05))
"""Discount and ridge of the regressions that predict losses."""


@dataclass(frozen=True)
class Insurance:
    """The terms: which policies, one after the other, and what each may cost."""

    policies: tuple[str, ...]
    triggers: tuple[float, ...]
    premiums: tuple[float, ...]
    width: float
    shield: bool
    early: bool

    @property
    def shares(self) -> tuple[float, ...]:
        """Budgets of the stages, in units of B(n)."""
        return tuple(t + p for t, p in zip(self.triggers, self.premiums, strict=True))


def one_each(name: str, value: Any, count: int) -> tuple[float, ...]:
    """A positive number for each policy."""
    several = isinstance(value, Sequence) or np.ndim(value) > 0
    values = list(value) if several and not isinstance(value, str) else [value] * count
    if len(values) != count:
        raise ValueError(f"`{name}` must have one number for each of {count} policies, got {value}")
    return tuple(as_float(name, v, positive=True) for v in values)


def prior_root(kernel: Any, setup: Setup) -> Any:
    """A matrix that takes whitened features to those of prior covariance I: of the kernel, scaled to 1, and a constant.

    With Σ(π) = I and K = ΦPΦ' on the support of π, P = Φ'ΠKΠΦ.
    """
    support = np.flatnonzero(setup.design)
    X, W = setup.points[support], setup.features[support] * setup.design[support, None]
    K = to_numpy(kernel(X, X))
    P = W.T @ (K / max(float(np.max(np.diag(K))), 1e-300) + 1) @ W
    eigenvalues, vectors = np.linalg.eigh((P + P.T) / 2)
    return vectors * np.sqrt(np.maximum(eigenvalues, 1e-12 * eigenvalues[-1]))


def restored_policies(terms: Insurance, policy: Any, saved: Sequence[Any], count: int) -> list[Any]:
    """The policies of a snapshot: the library's by name, the user's from what was given."""
    given = list(policy) if isinstance(policy, (list, tuple)) else [policy]
    if len(given) != len(terms.policies):
        given = [policy if name == "own" else None for name in terms.policies]
    for name, own in zip(terms.policies, given, strict=True):
        if name != "own" and own is not None and own != name:
            raise ValueError(f"`policy` must be left out for the library's {name!r}, got {own!r}")
    found: list[Any] = []
    for name, own, kept in zip(terms.policies, given, saved, strict=True):
        if name != "own":
            found.append(make_policy(name, terms.width, count))
            continue
        found.append(Own.restored(own, count, kept))
    return found


def as_tuple(value: Any) -> Any:
    """A list from a snapshot as the tuple that it was."""
    return tuple(value) if isinstance(value, list) else value
