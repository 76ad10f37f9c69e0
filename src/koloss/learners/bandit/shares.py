r"""Shares of traffic: laws in which groups of actions have at least and at most so much.

With disjoint groups G_i of the actions,

    Π = {p : l_i ≤ p(G_i) ≤ u_i for all i}

is the set of laws that may be played. Actions in no group make one more, with the limits 0 and 1, so that the groups are a
partition. Then three problems have closed forms, in which only the masses w_i of the groups have to be found:

- max r·v over r in Π: the best action of each group, and masses by a fractional knapsack;
- min KL(p‖q) over p in Π: p = w_i q/q(G_i) on G_i with w_i = q(G_i) c clipped to [l_i, u_i], c such that they add up to 1;
- the law in Π with most of a proposal: the same, where a group that the proposal leaves out is played by its best action.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from koloss.actions import Points
from koloss.core.arrays import as_float, as_int, shown, to_numpy
from koloss.core.snapshot import Rows, Vector, kept
from koloss.designs import Design
from koloss.designs.base import certify, covariance, leverages, orthonormal

Floats = NDArray[np.float64]
Limits = Mapping[Any, tuple[float, float]]

LEAST = 1e-6
"""Every action must be allowed this share: estimates have to be made of all."""

STEPS = 60
"""Most multiplicative steps towards a design."""

NEAR = 0.01
"""Gap at which they end."""

SPREAD = 0.01
"""Part of a design that is made uniform first, so that no group is left out."""

NEGLIGIBLE = 1e-200
"""A group with less of a proposal is left out by it."""

ROUNDING = 1e-12
"""By how much sums of shares may be off."""


class Top(NamedTuple):
    """A law that is largest for a linear function: one action in each group."""

    rows: NDArray[np.intp]
    masses: Floats


@kept
@dataclass(frozen=True, eq=False)
class Shares:
    """The laws Π of N actions.

    Examples
    --------
    >>> shares = Shares.of({0: (0.2, 1), (2, 3): (0, 0.3)}, 4)
    >>> shares.project(np.log([0.1, 0.1, 0.4, 0.4])).round(4).tolist()
    [0.35, 0.35, 0.15, 0.15]
    >>> shares.best(np.array([0.0, 1.0, 5.0, 2.0]))
    2.0
    """

    group: Rows  # (N,): the number of the group that an action is in
    low: Vector  # l, one for each group
    high: Vector  # u

    def __post_init__(self) -> None:
        order = np.argsort(self.group, kind="stable")
        sizes = np.bincount(self.group, minlength=len(self.low))
        object.__setattr__(self, "_order", order)
        object.__setattr__(self, "_sizes", sizes)
        object.__setattr__(self, "_starts", np.cumsum(sizes) - sizes)

    def _restored(self) -> None:
        self.__post_init__()

    @classmethod
    def of(cls, limits: Limits, count: int) -> Shares:
        """From shares as `as_shares` gives them, of so many actions."""
        group = np.full(count, len(limits))
        for number, key in enumerate(limits):
            group[list(_rows(key))] = number
        pairs = list(limits.values())
        if (group == len(limits)).any():
            pairs.append((0.0, 1.0))
        low, high = np.array(pairs, dtype=float).T
        return cls(group, low, high)

    @property
    def reachable(self) -> Floats:
        """Of every group, the largest share that one of its actions can have."""
        most: Floats = np.minimum(self.high, 1 - (self.low.sum() - self.low))
        return most

    def among(self, awake: NDArray[np.bool_]) -> Shares:
        """The laws of those that are awake alone: groups that could not be all of a law may exceed their limits, in proportion.

        Examples
        --------
        >>> shares = Shares.of({0: (0.2, 0.5), (1, 2): (0, 0.3)}, 5)
        >>> shares.among(np.array([True, True, False, False, False])).high.round(3).tolist()
        [0.625, 0.375]
        """
        present, group = np.unique(self.group[awake], return_inverse=True)
        low, high = self.low[present], self.high[present]
        return Shares(group, low, high / min(1.0, float(high.sum())))

    def contains(self, law: Floats) -> bool:
        """Whether a law is in Π, up to rounding."""
        masses = np.bincount(self.group, law, minlength=len(self.low))
        return bool(np.all((masses >= self.low - ROUNDING) & (masses <= self.high + ROUNDING)))

    # The largest.

    def top(self, values: Floats) -> Top:
        """The law in Π for which r·values is largest."""
        rows = np.lexsort((-values, self.group))[self._starts]  # type: ignore[attr-defined]
        return Top(rows, self._filled(self.low, values[rows]))

    def best(self, values: Floats) -> float:
        """The largest r·values."""
        rows, masses = self.top(values)
        return float(masses @ values[rows])

    def _filled(self, masses: Floats, values: Floats, may: Any = None) -> Floats:
        """What is missing to 1 goes to the groups of largest value, or to those that may have it."""
        filled, high = masses.tolist(), self.high.tolist()
        left = 1 - sum(filled)
        for i in (-values).argsort(kind="stable").tolist():
            if left <= 0:
                break
            if may is None or may[i]:
                more = min(high[i] - filled[i], left)
                filled[i] += more
                left -= more
        return np.array(filled)

    # The nearest.

    def project(self, log_weights: Floats) -> Floats:
        """The law in Π nearest to q ∝ exp(log_weights) in KL(·‖q); weights may be zero where the groups that have some can do."""
        logs = log_weights[self._order]  # type: ignore[attr-defined]
        tops = np.maximum.reduceat(logs, self._starts)  # type: ignore[attr-defined]
        empty = tops == -np.inf
        tops[empty] = 0.0
        q = np.exp(logs - np.repeat(tops, self._sizes))  # type: ignore[attr-defined]
        sums = np.add.reduceat(q, self._starts)  # type: ignore[attr-defined]
        sums[empty] = 1.0
        masses = self._masses(np.where(empty, -np.inf, tops + np.log(sums)))
        law: Floats = np.empty_like(q)
        law[self._order] = q * np.repeat(masses / sums, self._sizes)  # type: ignore[attr-defined]
        return law

    def admit(self, proposal: Any, values: Floats) -> Floats:
        """The law in Π for the action or the law that a policy proposes.

        That is the projection, its limit where the proposal leaves groups out: they have no more than they must, as long as the
        others can have the rest, and it is the action of largest value that has it.
        """
        if isinstance(proposal, int):
            law = np.zeros(len(self.group))
            law[proposal] = 1.0
        else:
            law = proposal / proposal.sum()
        sums = np.bincount(self.group, law, minlength=len(self.low))
        if np.all((sums >= self.low) & (sums <= self.high)):
            return law
        empty = sums < NEGLIGIBLE
        law[empty[self.group]], sums[empty] = 0.0, 1.0
        masses = self._masses(np.where(empty, -np.inf, np.log(sums)))
        if empty.any():
            rows = self.top(values).rows
            masses = self._filled(masses, values[rows], empty)
            law[rows[empty]] = 1.0
        return law * (masses / sums)[self.group]

    def _masses(self, logs: Floats) -> Floats:
        """w = exp(logs + λ), clipped to [l, u], with λ such that they add up to 1, or to as much as is allowed where logs are -∞."""
        low, high, there = self.low, self.high, logs > -np.inf
        goal = 1 - float(low[~there].sum())
        with np.errstate(divide="ignore", invalid="ignore"):
            rises, ends = np.log(low) - logs, np.log(high) - logs  # where w leaves l, and reaches u

        def at(shift: float) -> Floats:
            w = np.where(there, np.minimum(logs + shift, np.log(high)), -np.inf)
            return np.maximum(np.exp(w), low)

        steps = np.unique(np.concatenate([rises[there], ends[there]]))
        steps = steps[np.isfinite(steps)]
        first, last = 0, len(steps)  # the first step at which the sum is large enough
        while first < last:
            middle = (first + last) // 2
            if at(steps[middle])[there].sum() < goal:
                first = middle + 1
            else:
                last = middle
        if first == len(steps):
            return np.where(there, high, low)
        before = steps[first - 1] if first else -np.inf
        free = there & (rises <= before) & (ends >= steps[first])
        if not free.any():
            return at(steps[first])
        rest = goal - float(at(steps[first])[there & ~free].sum())
        top = logs[free].max()
        shift = np.log(max(rest, 1e-300)) - top - np.log(np.exp(logs[free] - top).sum())
        masses = at(steps[first])
        masses[free] = np.clip(np.exp(logs[free] + shift), low[free], high[free])
        return masses


def _rows(key: Any) -> Iterable[Any]:
    return key if isinstance(key, Iterable) and not isinstance(key, (str, bytes)) else (key,)


def as_shares(limits: Any, actions: Any) -> dict[Any, tuple[float, float]] | None:
    """Checked `shares`: a row or a tuple of rows, and the limits of each; None where there are none."""
    if not isinstance(limits, Mapping):
        raise TypeError(f"`shares` must be {{row or rows: (low, high)}}, got {shown(limits)}")
    if not limits:
        return None
    if not isinstance(actions, Points):
        raise ValueError(f"`shares` must be of finitely many actions, Points, got {actions!r}")
    checked: dict[Any, tuple[float, float]] = {}
    taken: set[int] = set()
    for key, pair in limits.items():
        rows = tuple(as_int("shares", row, minimum=0) for row in _rows(key))
        if not rows:
            raise ValueError("`shares` must be of groups with an action, got an empty group")
        for row in rows:
            if row >= len(actions):
                raise ValueError(f"`shares` must be of rows up to {len(actions) - 1}, got {row}")
            if row in taken:
                raise ValueError(f"`shares` must be of groups that do not overlap, got {row} twice")
            taken.add(row)
        checked[rows if isinstance(key, Iterable) else rows[0]] = _pair(pair)
    shares, every = Shares.of(checked, len(actions)), len(taken) == len(actions)
    least, most = float(shares.low.sum()), float(shares.high.sum())
    if least > 1 + ROUNDING:
        raise ValueError(f"`shares` must have lower limits of at most 1 in all, got {least:.6g}")
    if every and most < 1 - ROUNDING:
        raise ValueError(
            f"`shares` of all actions must have upper limits of at least 1 in all, got {most:.6g}"
        )
    if shares.reachable.min() < LEAST:
        least, few = float(shares.reachable.min()), shares.group == shares.reachable.argmin()
        raise ValueError(
            f"`shares` must leave every action a share of at least {LEAST:g}, got {least:.6g} for {shown(np.flatnonzero(few).tolist())}"
        )
    return checked


def _pair(pair: Any) -> tuple[float, float]:
    if isinstance(pair, (str, bytes)) or not isinstance(pair, Iterable):
        raise TypeError(f"`shares` must be pairs (low, high), got {shown(pair)}")
    ends = list(pair)
    if len(ends) != 2:
        raise ValueError(f"`shares` must be pairs (low, high), got {shown(pair)}")
    low = 0.0 if ends[0] is None else as_float("shares", ends[0])
    high = 1.0 if ends[1] is None else as_float("shares", ends[1])
    if not 0 <= low <= high <= 1:
        raise ValueError(
            f"`shares` must be pairs (low, high) with 0 ≤ low ≤ high ≤ 1, got {shown(pair)}"
        )
    return low, high


# Where to explore.


def design_within(
    shares: Shares, features: Floats, columns: Floats, weights: Floats, *, improve: bool
) -> Floats:
    """The design `weights`, brought into Π, and improved there.

    It should have a small largest leverage φ'(Σ(π) + Λ)⁻¹φ, Λ = columns columns'. Steps π ∝ π · leverage, each projected onto Π,
    lead to the largest determinant, where the mean leverage is no larger under any law in Π.
    """
    N = len(features)
    if shares.contains(weights):
        return weights
    pi = shares.project(np.log((1 - SPREAD) * weights + SPREAD / N))
    if not improve:
        return pi
    Z, _ = orthonormal(np.vstack([features, columns.T]))
    rows, penalty = Z[:N], Z[N:].T @ Z[N:]
    best, least = pi, np.inf
    for _ in range(STEPS):
        g = leverages(rows, covariance(rows, pi) + penalty)
        if g.max() < least:
            best, least = pi, float(g.max())
        if shares.best(g) <= (1 + NEAR) * float(pi @ g):
            break
        pi = shares.project(np.log(np.maximum(pi, 1e-300)) + np.log(np.maximum(g, 1e-300)))
    return best


def shared_design(features: Any, design: Design, shares: Shares, *, improve: bool) -> Design:
    """A design within the shares, with its own leverage."""
    rows, weights = to_numpy(features).astype(float), to_numpy(design.weights).astype(float)
    inside = design_within(shares, rows, np.empty((rows.shape[1], 0)), weights, improve=improve)
    if inside is weights:
        return design
    Z, _ = orthonormal(rows)
    return certify(Z, inside, f"{design.method} within shares", rows)
