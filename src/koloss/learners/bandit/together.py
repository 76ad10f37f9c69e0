"""Replicates of one game that share its features, asked at once: on a device their covariances are one batched product."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from koloss.core.arrays import as_int
from koloss.learners.bandit.exp_weights import BanditExpWeights
from koloss.learners.bandit.points import PointsEngine
from koloss.learners.ledger import Decisions


def ask_together(learners: Sequence[BanditExpWeights], count: int) -> list[Decisions]:
    """`learner.ask(count)` of several learners with the same features: the same decisions, in less time on a GPU.

    Parameters
    ----------
    learners : sequence of BanditExpWeights
        On a finite set and without contexts. Those that share their features, as replicates of one do (`replicate`), are asked by
        one batched product; without a horizon they share them as long as their penalties are the same. Each is told by itself.
    count : int
        Decisions of each, two or more.

    Examples
    --------
    >>> import koloss as kl
    >>> first = kl.BanditExpWeights(
    ...     kl.Points([[0.0], [0.5], [1.0]]),
    ...     kl.Gaussian(0.5),
    ...     horizon=1000,
    ...     loss_range=(0, 1),
    ...     rng=0,
    ... )
    >>> learners = [first, *(first.replicate(rng=seed) for seed in range(1, 60))]
    >>> batches = kl.ask_together(learners, 10)
    >>> len(batches), len(batches[0])
    (60, 10)
    """
    learners, count = list(learners), as_int("count", count, minimum=2)
    _check(learners)
    with ExitStack() as locks:
        for learner in learners:
            locks.enter_context(learner._lock)
        outsets = [
            learner._exp2.outset() for learner in learners
        ]  # which may move to other engines
        shared: dict[PointsEngine, list[int]] = {}
        for k, learner in enumerate(learners):
            assert isinstance(learner.engine, PointsEngine)
            shared.setdefault(learner.engine, []).append(k)
        try:
            for engine, group in shared.items():
                rngs = [learners[k]._rng for k in group]
                laws = engine.laws([outsets[k] for k in group], rngs, count)
                for k, law in zip(group, laws, strict=True):
                    learners[k]._exp2.ready = law
            return [learner.ask(count) for learner in learners]
        finally:
            for learner in learners:
                learner._exp2.ready = None


def _check(learners: Sequence[Any]) -> None:
    """Refuse what is no learner with a law on a finite set, and a learner that is named twice."""
    for k, learner in enumerate(learners):
        if not isinstance(learner, BanditExpWeights):
            kind = type(learner).__name__
            raise TypeError(f"`learners` must be BanditExpWeights, got {kind} at {k}")
        if learner._player is not None or not isinstance(learner.engine, PointsEngine):
            rule = "must play a finite set without contexts"
            raise ValueError(f"`learners` {rule}, got {learner.settings.actions!r} at {k}")
    if len({id(learner) for learner in learners}) < len(learners):
        raise ValueError("`learners` must be different ones, got the same twice")
