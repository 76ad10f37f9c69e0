"""The one loop: any learner against any adversary, under both kinds of feedback."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from inspect import signature
from itertools import pairwise
from multiprocessing import active_children, get_context
from typing import Any

import numpy as np

from koloss._arrays import as_int, to_numpy
from koloss.actions import ActionSet, Points
from koloss.games.adversaries import Adversary
from koloss.games.trace import Replicates, Trace
from koloss.kernels import KernelLoss, LinearLoss, Loss, PosynomialLoss, QuadraticLoss
from koloss.learners.full.learner import FullInformation

CHUNK = 256
"""Rounds that an oblivious adversary is asked for in advance."""

POOL = 1024
"""Points of a compact set that are compared with each other where no oracle proves its minimum."""

Progress = Callable[[int, int], Any]
"""Called with the rounds done and their number."""


def play(
    learner: Any,
    adversary: Adversary,
    rounds: int,
    *,
    batch: int = 1,
    delay: int = 0,
    checkpoints: int = 50,
    progress: Progress | None = None,
    facts: dict[str, Any] | None = None,
) -> Trace:
    """Play a game.

    Parameters
    ----------
    learner : learner
        With `ask` and `tell`: told the loss of its action (bandit feedback), or the whole loss.
    adversary : Adversary
    rounds : int
    batch : int
        Decisions that are asked for and told at once; one epoch of the bandit learner. More than one needs an
        oblivious adversary.
    delay : int
        Rounds after which a loss is told.
    checkpoints : int
        About how many rounds to compute the guarantee and the best action of all rounds so far at: half of them evenly
        spaced in the logarithm, half of them evenly over the second half of the game; the last round is among them.
    progress : callable, optional
        Called with the rounds done and the number of rounds.
    facts : dict, optional
        To be kept in the trace.

    Returns
    -------
    Trace

    Examples
    --------
    >>> import koloss as kl
    >>> actions, kernel = kl.Ball(2), kl.Quadratic()
    >>> learner = kl.ExpWeights(actions, kernel=kernel, horizon=200, rng=0)
    >>> trace = kl.play(learner, kl.games.Random(kernel, actions, rng=1), 200)
    >>> trace.regret.shape, trace.certificate, bool(trace.regret[-1] < trace.bound[-1])
    ((200,), 'dual', True)
    """
    if not isinstance(adversary, Adversary):
        raise TypeError(f"`adversary` must be an Adversary, got {type(adversary).__name__}")
    rounds = as_int("rounds", rounds, minimum=1)
    batch, delay = as_int("batch", batch, minimum=1), as_int("delay", delay, minimum=0)
    if batch > 1 and not adversary.oblivious:
        raise ValueError(f"`batch` must be 1 against {adversary!r}, which looks at the player")
    at = milestones(rounds, as_int("checkpoints", checkpoints, minimum=1), batch)
    game = _Game(learner, adversary, rounds, batch, delay)
    promised: list[
        float
    ] = []  # what the learner promised at a checkpoint, knowing what it had heard by then
    for t in range(0, rounds, batch):
        game.step(t, min(batch, rounds - t))
        done = min(t + batch, rounds)
        if done == at[len(promised)] < rounds:
            promised.append(proved(learner, done).total)
            game.mark()
        if progress is not None:
            progress(done, rounds)
    game.tell_rest()
    promise = proved(learner, rounds)
    promised.append(promise.total)
    best, certificate, saved, lowest = game.comparator(at)
    losses = np.concatenate(game.losses)
    return Trace(
        actions=np.concatenate(game.actions),
        losses=losses,
        regret=np.cumsum(losses - saved),
        bound=np.asarray(promised)[np.searchsorted(at, np.arange(1, rounds + 1))],
        checkpoints=at,
        running=np.cumsum(losses)[at - 1] - lowest,
        uniform=np.cumsum(game.uniform())[at - 1] - lowest,
        best=best,
        certificate=certificate,
        valid=bool(promise.valid),
        seconds=game.seconds,
        index=np.concatenate(game.index) if game.index else None,
        probability=np.concatenate(game.probability) if game.probability else None,
        facts={
            "learner": type(learner).__name__,
            "adversary": repr(adversary),
            "guarantee": str(promise),
            **(facts or {}),
        },
    )


class _Game:
    """The state of a game in play."""

    def __init__(self, learner: Any, adversary: Any, rounds: int, batch: int, delay: int) -> None:
        self.learner, self.adversary = learner, adversary
        self.rounds, self.batch, self.delay = rounds, batch, delay
        self.full = isinstance(learner, FullInformation)
        actions = learner.actions
        self.set: ActionSet = actions if isinstance(actions, ActionSet) else Points(actions)
        self.X = to_numpy(self.set.X) if isinstance(self.set, Points) else None
        self.total: Any = None if self.X is None else np.zeros(len(self.X))
        self.told: list[Any] = []  # all losses, as they were told
        self.ahead: dict[int, Any] = {}
        self.waiting: list[tuple[int, Any, Any]] = []
        self.actions: list[Any] = []
        self.losses: list[Any] = []
        self.index: list[Any] = []
        self.probability: list[Any] = []
        self.lowest: list[float] = []  # on points: smallest totals at the checkpoints
        self.means: list[Any] = []  # on points: mean losses
        self.seconds = 0.0

    def mark(self) -> None:
        """Remember the smallest total loss of a point."""
        if self.total is not None:
            self.lowest.append(float(np.min(self.total)))

    def choose(self, t: int, count: int) -> tuple[list[Any], Any]:
        """The losses of some rounds, and on points the table of their values."""
        if not self.adversary.oblivious:
            losses = [self.adversary(t, self.learner)]
            return losses, None if self.X is None else evaluate(losses, self.X)
        if t not in self.ahead:
            self.ahead.clear()
            stop = min(t + max(CHUNK // self.batch, 1) * self.batch, self.rounds)
            chosen = [self.adversary(s) for s in range(t, stop)]
            table = None if self.X is None else evaluate(chosen, self.X)
            for s in range(t, stop):
                self.ahead[s] = (chosen[s - t], None if table is None else table[s - t])
        pairs = [self.ahead[s] for s in range(t, t + count)]
        return [p[0] for p in pairs], None if self.X is None else np.stack([p[1] for p in pairs])

    def step(self, t: int, count: int) -> None:
        """Rounds t to t + count - 1."""
        losses, table = self.choose(t, count)
        begin = time.perf_counter()
        decisions = self.learner.ask(count if self.batch > 1 else None)
        self.seconds += time.perf_counter() - begin
        action = np.atleast_2d(to_numpy(decisions.action))
        self.actions.append(action)
        if table is not None:
            index = np.atleast_1d(decisions.index)
            paid = table[np.arange(count), index]
            self.total += table.sum(axis=0)
            self.means.append(table.mean(axis=1))
            self.index.append(index)
            self.probability.append(np.atleast_1d(decisions.probability))
        else:
            paid = np.diagonal(evaluate(losses, action)).copy()
        self.losses.append(paid)
        self.told.extend(losses)
        news: Any = losses if self.full else paid
        self.waiting.append((t, decisions, news if self.batch > 1 else news[0]))
        while self.waiting and self.waiting[0][0] + self.delay <= t:
            self._tell()

    def _tell(self) -> None:
        _, decisions, news = self.waiting.pop(0)
        begin = time.perf_counter()
        self.learner.tell(decisions, news if self.full or self.batch > 1 else float(news))
        self.seconds += time.perf_counter() - begin

    def tell_rest(self) -> None:
        """Losses that are still to be told when the game ends."""
        while self.waiting:
            self._tell()

    def comparator(self, at: Any) -> tuple[Any, str, Any, Any]:
        """The best fixed action, why it is the best, its loss in every round, and the smallest totals so far.

        The last are, for every round of `at`, the smallest sum of losses that a single action has had by then.
        """
        if self.X is not None:
            i = int(np.argmin(self.total))
            best, certificate = self.X[i].copy(), "exhaustive"
            saved = self._values(best[None], 0, self.rounds, i)[:, 0]
            return best, certificate, saved, np.append(self.lowest, np.sum(saved))
        from koloss.oracles import minimize
        from koloss.oracles.multistart import multistart

        found = minimize(total(self.told), self.set, rng=0)
        best, certificate = found.point, found.certificate
        pool = None  # without a certificate: many points, those played among them, for the search to start from
        if certificate == "local only":
            played = np.unique(np.concatenate(self.actions), axis=0)[:POOL]
            pool = np.concatenate([best[None], played, self.set.sample(POOL, 0)])
            sums = np.zeros(len(pool))
        lowest: list[float] = []
        so_far: Any = None
        for begin, end in zip([0, *at[:-1]], at, strict=True):
            part = total(self.told[begin:end])
            so_far = part if so_far is None else so_far + part
            if pool is None:
                minimum = minimize(so_far, self.set, rng=0)
            else:
                sums += self._values(pool, begin, end).sum(axis=0)
                starts = pool[np.argsort(sums)[:2]]
                minimum = multistart(so_far, self.set, starts=starts, steps=8)
            lowest.append(minimum.value)
        if pool is not None and minimum.value < found.value:
            best = minimum.point
        saved = self._values(best[None], 0, self.rounds)[:, 0]
        return best, certificate, saved, np.append(lowest[:-1], np.sum(saved))

    def uniform(self) -> Any:
        """What playing uniformly at random would have cost in every round, on average."""
        if self.means:
            return np.concatenate(self.means)
        crowd, cuts = self.set.sample(POOL, 0), [*range(0, self.rounds, CHUNK), self.rounds]
        return np.concatenate([self._values(crowd, s, e).mean(axis=1) for s, e in pairwise(cuts)])

    def _values(self, X: Any, begin: int, end: int, index: int | None = None) -> Any:
        """Losses of some rounds at some points, an array of shape (rounds, points)."""
        cuts = [*range(begin, end, CHUNK), end]
        pairs = pairwise(cuts)
        return np.concatenate([evaluate(self.told[s:e], X, index=index) for s, e in pairs])


def total(losses: list[Loss]) -> Loss:
    """Sum of losses of one family, in one step."""
    first = losses[0]
    if isinstance(first, KernelLoss):
        centers = np.concatenate([to_numpy(loss.centers) for loss in losses])  # type: ignore[attr-defined]
        weights = np.concatenate([to_numpy(loss.coefficients) for loss in losses])  # type: ignore[attr-defined]
        centers, where = np.unique(centers, axis=0, return_inverse=True)
        return KernelLoss(first.kernel, centers, np.bincount(where.ravel(), weights))
    if isinstance(first, QuadraticLoss):
        return QuadraticLoss(
            np.sum([to_numpy(loss.matrix) for loss in losses], axis=0),  # type: ignore[attr-defined]
            np.sum([to_numpy(loss.vector) for loss in losses], axis=0),  # type: ignore[attr-defined]
        )
    return sum(losses[1:], first)


def evaluate(losses: list[Any], X: Any, *, index: int | None = None) -> Any:
    """Values of several losses of one family at several points, an array of shape (losses, points).

    Arrays of losses on points stand for themselves (`index` says which of them X is).
    """
    first = losses[0]
    kinds = {type(loss) for loss in losses}
    if not isinstance(first, Loss):
        rows = np.stack([np.asarray(loss, dtype=float) for loss in losses])
        return rows if index is None else rows[:, index : index + 1]
    if kinds == {LinearLoss}:
        return np.stack([to_numpy(loss.vector) for loss in losses]) @ X.T
    if kinds == {QuadraticLoss}:
        A = np.stack([to_numpy(loss.matrix) for loss in losses])
        b = np.stack([to_numpy(loss.vector) for loss in losses])
        squares = (X[:, :, None] * X[:, None, :]).reshape(len(X), -1)
        return A.reshape(len(A), -1) @ squares.T + b @ X.T
    if kinds == {PosynomialLoss} and all(loss.kernel == first.kernel for loss in losses[1:]):
        return (
            np.stack([to_numpy(loss.coefficients) for loss in losses])
            @ to_numpy(first.kernel.features(X)).T
        )
    if isinstance(first, KernelLoss) and all(
        isinstance(loss, KernelLoss) and loss.kernel == first.kernel for loss in losses
    ):
        sizes = [len(loss.coefficients) for loss in losses]
        gram = to_numpy(
            first.kernel(np.concatenate([to_numpy(loss.centers) for loss in losses]), X)
        )
        weighted = np.concatenate([to_numpy(loss.coefficients) for loss in losses])[:, None] * gram
        if all(size == 1 for size in sizes):
            return weighted
        return np.add.reduceat(weighted, np.cumsum([0, *sizes[:-1]]), axis=0)
    return np.stack([to_numpy(loss(X)) for loss in losses])


def proved(learner: Any, rounds: int | None) -> Any:
    """What is proved of a learner; with the paper's tuning that is not what the paper prints."""
    paper = "printed" in signature(learner.guarantee).parameters
    return learner.guarantee(rounds=rounds, **({"printed": False} if paper else {}))


def milestones(rounds: int, count: int, step: int = 1) -> Any:
    """Rounds, multiples of the step and the last one: half evenly in the logarithm, half over the second half."""
    log = np.geomspace(1, rounds, max((count + 1) // 2, 1))
    even = np.linspace(rounds / 2, rounds, max(count // 2, 1))
    whole = np.ceil(np.concatenate([log, even, [rounds]]) / step - 1e-9).astype(int) * step
    return np.unique(np.minimum(whole, rounds))


# Many runs.


def replicate(
    make_learner: Callable[[Any], Any],
    make_adversary: Callable[[Any], Adversary],
    rounds: int,
    runs: int,
    *,
    seed: int = 0,
    executor: Executor | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
    **settings: Any,
) -> Replicates:
    """Independent runs of one game; the same seed gives the same result, whatever the number of workers.

    Parameters
    ----------
    make_learner, make_adversary : callables
        Called with a seed; of a module's top level, so that another process can find them.
    rounds, runs : int
    seed : int
        Run k has the k-th child of this seed.
    executor : concurrent.futures.Executor, optional
        A pool of processes by default.
    workers : int, optional
        Processes of that pool; as many as there are processors by default, and none for 1.
    progress : callable, optional
        Called with the runs done and the number of runs.
    **settings
        For `play`.

    Returns
    -------
    Replicates
        In the order of the runs. A run that failed is reported there, with its number; the others are kept.

    Examples
    --------
    >>> import functools
    >>> import koloss as kl
    >>> actions, kernel = kl.Points([[0.0], [1.0]]), kl.Gaussian(1.0)
    >>> found = kl.replicate(
    ...     lambda seed: kl.ExpWeights(actions, kernel=kernel, horizon=50, rng=seed),
    ...     lambda seed: kl.games.Random(kernel, actions, rng=seed),
    ...     rounds=50,
    ...     runs=4,
    ...     workers=1,
    ... )
    >>> found.regret.shape, found.failures
    ((4, 50), {})
    """
    runs = as_int("runs", runs, minimum=1)
    children = np.random.SeedSequence(as_int("seed", seed, minimum=0)).spawn(runs)
    jobs = [(make_learner, make_adversary, rounds, child, settings) for child in children]
    found: dict[int, Trace | Exception] = {}

    def note(k: int, outcome: Trace | Exception) -> None:
        found[k] = outcome
        if progress is not None:
            progress(len(found), runs)

    if executor is not None:
        _collect(executor, jobs, note)
    else:
        workers = (
            (os.cpu_count() or 1) if workers is None else as_int("workers", workers, minimum=1)
        )
        if workers == 1:
            for k, job in enumerate(jobs):
                try:
                    note(k, one_run(*job))
                except Exception as error:  # a failed run is a result
                    note(k, error)
        else:
            with worker_pool(min(workers, runs)) as pool:
                _collect(pool, jobs, note)
    done = {k: trace for k, trace in sorted(found.items()) if isinstance(trace, Trace)}
    failures = {
        k: f"{type(error).__name__}: {error}"
        for k, error in sorted(found.items())
        if isinstance(error, Exception)
    }
    return Replicates(list(done.values()), list(done), failures)


def one_run(
    make_learner: Callable[[Any], Any],
    make_adversary: Callable[[Any], Adversary],
    rounds: int,
    seed: np.random.SeedSequence,
    settings: dict[str, Any],
) -> Trace:
    """One run: the learner and the adversary have seeds of their own."""
    mine, theirs = np.random.SeedSequence(
        seed.entropy, spawn_key=seed.spawn_key, pool_size=seed.pool_size
    ).spawn(2)
    return play(make_learner(mine), make_adversary(theirs), rounds, **settings)


@contextmanager
def worker_pool(workers: int) -> Iterator[ProcessPoolExecutor]:
    """Processes with one thread each for linear algebra: the runs are what is parallel.

    An interrupt is for the process that waits for them, not for them. Where it, or an error, ends the block, they are
    ended at once.
    """
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    before = {name: os.environ.get(name) for name in threads}
    others = set(active_children())
    os.environ.update(threads)  # processes are made when they are needed, and take it from here
    pool = ProcessPoolExecutor(
        workers,
        mp_context=get_context("spawn"),
        initializer=signal.signal,
        initargs=(signal.SIGINT, signal.SIG_IGN),
    )
    try:
        yield pool
    except BaseException:
        for child in set(active_children()) - others:
            child.terminate()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _collect(executor: Executor, jobs: list[Any], note: Callable[[int, Any], None]) -> None:
    futures: dict[Future[Trace], int] = {
        executor.submit(one_run, *job): k for k, job in enumerate(jobs)
    }
    for future in as_completed(futures):
        error = future.exception()
        if error is None:
            note(futures[future], future.result())
        elif isinstance(error, Exception):
            note(futures[future], error)
        else:
            raise error
