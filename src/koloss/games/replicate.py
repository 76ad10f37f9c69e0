"""Many independent runs of one game, in many processes."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from typing import Any

import numpy as np

from koloss.core.arrays import as_int
from koloss.games.adversaries import Adversary
from koloss.games.play import play
from koloss.games.trace import Replicates, Trace
from koloss.games.workers import do_all, processes


def replicate(
    make_learner: Callable[[Any], Any],
    make_adversary: Callable[[Any], Adversary],
    rounds: int,
    runs: int,
    *,
    rng: int | np.random.SeedSequence = 0,
    executor: Executor | None = None,
    jobs: int | None = None,
    progress: Callable[[int, int], Any] | None = None,
    **settings: Any,
) -> Replicates:
    """Independent runs of one game; the same `rng` gives the same result, whatever the number of processes.

    Parameters
    ----------
    make_learner, make_adversary : callables
        Called with a seed; of a module's top level, so that another process can find them.
    rounds, runs : int
    rng : int or SeedSequence
        Run k has the k-th child of this seed.
    executor : concurrent.futures.Executor, optional
        Instead of processes of this machine; ``distributed.Client(address).get_executor()`` is one on many machines.
    jobs : int, optional
        Processes; as many as there are processors by default. With 1 the games are played in this one.
    progress : callable, optional
        Called with the runs done and the number of runs.
    **settings
        For `play`.

    Returns
    -------
    Replicates
        In the order of the runs. A run that failed, or whose process died, is reported there, with its number; the others
        are kept.

    Examples
    --------
    >>> import koloss as kl
    >>> actions, kernel = kl.Points([[0.0], [1.0]]), kl.Gaussian(1.0)
    >>> replicates = kl.replicate(
    ...     lambda seed: kl.ExpWeights(actions, kernel=kernel, horizon=50, rng=seed),
    ...     lambda seed: kl.games.Random(kernel, actions, rng=seed),
    ...     rounds=50,
    ...     runs=4,
    ...     jobs=1,
    ... )
    >>> replicates.regret.shape, replicates.failures
    ((4, 50), {})
    """
    runs = as_int("runs", runs, minimum=1)
    if not isinstance(rng, np.random.SeedSequence):
        rng = np.random.SeedSequence(as_int("rng", rng, minimum=0))
    children = rng.spawn(runs)
    one = partial(_replicate_one, make_learner, make_adversary, rounds, settings)
    outcomes: dict[int, Trace | Exception] = {}

    def report(k: int, outcome: Trace | Exception) -> None:
        outcomes[k] = outcome
        if progress is not None:
            progress(len(outcomes), runs)

    count = processes(jobs)
    if executor is None and count == 1:
        for k, child in enumerate(children):
            try:
                report(k, one(child))
            except Exception as error:  # a failed run is a result
                report(k, error)
    else:
        do_all(one, children, report, jobs=count, executor=executor)
    done = {k: trace for k, trace in sorted(outcomes.items()) if isinstance(trace, Trace)}
    failures = {
        k: f"{type(error).__name__}: {error}"
        for k, error in sorted(outcomes.items())
        if isinstance(error, Exception)
    }
    return Replicates(list(done.values()), list(done), failures)


def _replicate_one(
    make_learner: Callable[[Any], Any], make_adversary: Callable[[Any], Adversary], rounds: int, settings: Any, seed: Any
) -> Trace:  # fmt: skip
    """One run: the learner and the adversary have seeds of their own."""
    mine, theirs = np.random.SeedSequence(
        seed.entropy, spawn_key=seed.spawn_key, pool_size=seed.pool_size
    ).spawn(2)
    return play(make_learner(mine), make_adversary(theirs), rounds, **settings)
