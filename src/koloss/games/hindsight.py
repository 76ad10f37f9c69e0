"""What a game is compared with: the best fixed action of all its rounds, or the best mapping from contexts to actions."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from koloss.actions import ActionSet
from koloss.kernels import Loss

CHUNK = 256
"""Rounds that are looked at together."""

POOL = 1024
"""Points of a compact set that are compared with each other where no oracle proves its minimum."""


class Hindsight:
    """Losses that were told, and what would have been best."""

    set: ActionSet
    X: Any  # the points, where the set is finite
    rows: Any  # contexts of all rounds, where there are any
    total: Any  # of every point; with contexts, of every pair
    told: list[Any]  # all losses
    lowest: list[float]  # smallest totals at the checkpoints
    means: list[Any]  # on points: mean losses
    actions: list[Any]  # that were played

    def comparator(self, at: Any) -> tuple[Any, int | None, str, Any, Any]:
        """The best fixed action, its index, why it is the best, its loss in every round, and the smallest totals so far.

        The last are, for every round of `at`, the smallest sum of losses that a single action has had by then.
        """
        played = len(self.told)
        if self.rows is not None:
            return self._mapping(at)
        if self.X is not None:
            i = int(np.argmin(self.total))
            best = self.X[i].copy()
            saved = self._values(best[None], 0, played, i)[:, 0]
            lowest = np.append(self.lowest[: len(at) - 1], np.sum(saved))
            return best, i, "exhaustive", saved, lowest
        from koloss.oracles import minimize
        from koloss.oracles.multistart import multistart

        minimum = minimize(Loss.total(self.told), self.set, rng=np.random.default_rng(0))
        best, value, certificate = minimum.point, minimum.value, minimum.certificate
        pool = None  # without a certificate: many points, those played among them, for the search to start from
        if certificate == "local only":
            seen = np.unique(np.concatenate(self.actions), axis=0)[:POOL]
            pool = np.concatenate(
                [best[None], seen, self.set.sample(POOL, np.random.default_rng(0))]
            )
            sums = np.zeros(len(pool))
        lowest_so_far: list[float] = []
        so_far: Any = None
        for begin, end in zip([0, *at[:-1]], at, strict=True):
            part = Loss.total(self.told[begin:end])
            so_far = part if so_far is None else so_far + part
            if pool is None:
                minimum = minimize(so_far, self.set, rng=np.random.default_rng(0))
            else:
                sums += self._values(pool, begin, end).sum(axis=0)
                starts = pool[np.argsort(sums)[:2]]
                minimum = multistart(so_far, self.set, starts=starts, steps=8)
            lowest_so_far.append(minimum.value)
        if pool is not None and minimum.value < value:
            best = minimum.point
        saved = self._values(best[None], 0, played)[:, 0]
        return best, None, certificate, saved, np.append(lowest_so_far[:-1], np.sum(saved))

    def _mapping(self, at: Any) -> tuple[Any, None, str, Any, Any]:
        """The same for the best mapping from contexts to actions, an array of shape (C, d)."""
        best = np.argmin(self.total, axis=1)
        chosen = best[self.rows[: len(self.told)]]
        parts = []
        for s, e in pairwise([*range(0, len(chosen), CHUNK), len(chosen)]):
            parts.append(loss_table(self.told[s:e], self.X)[np.arange(e - s), chosen[s:e]])
        saved = np.concatenate(parts)
        lowest = np.append(self.lowest[: len(at) - 1], np.sum(saved))
        return self.X[best], None, "exhaustive", saved, lowest

    def uniform(self) -> Any:
        """What playing uniformly at random would have cost in every round, on average."""
        if self.means:
            return np.concatenate(self.means)
        crowd, played = self.set.sample(POOL, np.random.default_rng(0)), len(self.told)
        cuts = [*range(0, played, CHUNK), played]
        return np.concatenate([self._values(crowd, s, e).mean(axis=1) for s, e in pairwise(cuts)])

    def _values(self, X: Any, begin: int, end: int, index: int | None = None) -> Any:
        """Losses of some rounds at some points, an array of shape (rounds, points)."""
        cuts = pairwise([*range(begin, end, CHUNK), end])
        return np.concatenate([loss_table(self.told[s:e], X, index) for s, e in cuts])


def loss_table(losses: list[Any], X: Any, index: int | None = None) -> Any:
    """Values of several losses at several points, an array of shape (losses, points).

    Arrays of losses on points stand for themselves (`index` says which of them X is).
    """
    if isinstance(losses[0], Loss):
        return Loss.table(losses, X)
    rows = np.stack([np.asarray(loss, dtype=float) for loss in losses])
    return rows if index is None else rows[:, index : index + 1]
