"""The one loop: any learner against any adversary, under both kinds of feedback."""

from __future__ import annotations

import heapq
import math
import operator
import reprlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from koloss.actions import ActionSet, Points
from koloss.core.arrays import as_int, to_numpy
from koloss.games.adversaries import Adversary, Shown
from koloss.games.trace import Ended, Trace
from koloss.kernels import Loss
from koloss.learners import Learner

CHUNK = 256
"""Rounds that are looked at together."""

POOL = 1024
"""Points of a compact set that are compared with each other where no oracle proves its minimum."""


def play(
    learner: Learner[Any, Any],
    adversary: Adversary,
    rounds: int,
    *,
    batch: int = 1,
    delay: Any = 0,
    contexts: Any = None,
    checkpoints: int = 50,
    limit: float = math.inf,
    failures: Literal["raise", "keep"] = "raise",
    progress: Callable[[int, int], Any] | None = None,
    facts: dict[str, object] | None = None,
) -> Trace:
    """Play a game.

    In every round the adversary chooses first, then the player throws its coin.

    Parameters
    ----------
    learner : Learner
        Told the loss of its action (bandit feedback), or the whole loss.
    adversary : Adversary
    rounds : int
    batch : int
        Decisions that are asked for and told at once; one epoch of the bandit learner. More than one needs an
        oblivious adversary.
    delay : int, or array of shape (rounds,)
        Rounds after which a loss is told; one for each round, -1 where it never is. What is due after the end is told
        then. Several need a batch of 1.
    contexts : sequence of length `rounds`, optional
        For a learner with contexts, on points: what it is asked with in each round, the row of a context, its coordinates, label
        or params. The losses of a round are those in its context. Regret is then against the best mapping from contexts to actions:
        of contexts that come once each, against the best action of every round.
    checkpoints : int
        About how many rounds to compute the guarantee and the best action of all rounds so far at: half of them evenly
        spaced in the logarithm, half of them evenly over the second half of the game; the last round is among them.
    limit : float
        Seconds after which no further round is played.
    failures : "raise" or "keep"
        An error of the learner or the adversary is raised, or ends the game: its trace has the rounds that were played, and
        says what happened.
    progress : callable, optional
        Called with the rounds done and the number of rounds.
    facts : dict, optional
        To be kept in the trace.

    Examples
    --------
    >>> import koloss as kl
    >>> actions, kernel = kl.Ball(2), kl.Quadratic()
    >>> learner = kl.ExpWeights(actions, kernel=kernel, horizon=200, rng=np.random.default_rng(0))
    >>> trace = kl.play(learner, kl.games.Random(kernel, actions, rng=1), 200)
    >>> trace.regret.shape, trace.certificate, bool(trace.regret[-1] < trace.bound[-1])
    ((200,), 'dual', True)
    """
    if not isinstance(adversary, Adversary):
        raise TypeError(f"`adversary` must be an Adversary, got {type(adversary).__name__}")
    rounds = as_int("rounds", rounds, minimum=1)
    batch = as_int("batch", batch, minimum=1)
    delays = _delays(delay, rounds, batch)
    if batch > 1 and not adversary.oblivious:
        raise ValueError(f"`batch` must be 1 against {adversary!r}, which looks at the player")
    seen = None if contexts is None else _seen(contexts, rounds)
    at = milestones(rounds, as_int("checkpoints", checkpoints, minimum=1), batch)
    game = _InPlay(learner, adversary, rounds, batch, delays, seen)
    ended: Ended = "done"
    message, where = "", "before the first round"
    begin = time.perf_counter()
    try:
        for t in range(0, rounds, batch):
            done = min(t + batch, rounds)
            where = f"in round {t + 1:,} of {rounds:,}"
            game.step(t, done - t)
            if done == at[len(game.lowest)] < rounds:
                game.mark()
            if progress is not None:
                progress(done, rounds)
            if done < rounds and time.perf_counter() - begin > limit:
                where = f"after round {done:,} of {rounds:,}"
                ended, message = "stopped", f"stopped {where} by the time limit of {limit:g} s"
                break
        else:
            where = "after the last round"
            game.end()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # even an exit: other games go on
        if failures == "raise":
            raise
        ended, message = "failed", f"failed {where}: {type(error).__name__}: {error}"
    return game.trace(at, ended, message, facts or {})


def _delays(delay: Any, rounds: int, batch: int) -> Sequence[int]:
    """How late the loss of every round is told."""
    if np.ndim(delay) == 0:
        return [as_int("delay", delay, minimum=0)] * rounds
    delays = np.asarray(delay)
    if delays.shape != (rounds,) or delays.dtype.kind not in "iu":
        what = f"shape {delays.shape} of {delays.dtype}"
        raise ValueError(f"`delay` must be one whole number, or {rounds} of them, got {what}")
    if delays.min() < -1:
        raise ValueError(f"`delay` must be at least -1, which is never, got {delays.min()}")
    if batch > 1:
        raise ValueError(f"`batch` must be 1 where `delay` is one for each round, got {batch}")
    several: list[int] = delays.tolist()
    return several


def _seen(contexts: Any, rounds: int) -> tuple[Any, Any]:
    """What a learner is asked with in all rounds, and the numbers of these contexts: their rows, or in the order of coming."""
    sized = isinstance(contexts, (Sequence, np.ndarray)) and not isinstance(contexts, (str, bytes))
    if not sized or np.shape(contexts)[:1] != (rounds,):
        got = f"{len(contexts)}" if sized and np.ndim(contexts) else reprlib.repr(contexts)
        raise ValueError(f"`contexts` must be {rounds}, one for each round, got {got}")
    if not isinstance(contexts[0], (str, Mapping)):
        contexts = np.asarray(contexts)
        if contexts.dtype.kind not in "iuf" or contexts.ndim > 2:
            what = f"shape {contexts.shape} of {contexts.dtype}"
            raise ValueError(f"`contexts` must be rows, coordinates, labels or params, got {what}")
        if contexts.ndim == 1 and contexts.dtype.kind in "iu":
            if contexts.min() < 0:
                raise ValueError(f"`contexts` must be rows from 0, got {contexts.min()}")
            return contexts.tolist(), contexts
    numbers: dict[Any, int] = {}
    rows = [numbers.setdefault(_key(one), len(numbers)) for one in contexts]
    return contexts, np.array(rows)


def _key(context: Any) -> Any:
    """By which a context is known again."""
    if isinstance(context, Mapping):
        return tuple(sorted(context.items()))
    return context if isinstance(context, str) else np.asarray(context).tobytes()


class _InPlay:
    """The state of a game in play."""

    def __init__(
        self, learner: Any, adversary: Adversary, rounds: int, batch: int, delays: Sequence[int], seen: Any = None
    ) -> None:  # fmt: skip
        self.learner, self.adversary = learner, adversary
        self.rounds, self.batch, self.delays = rounds, batch, delays
        self.full = learner.feedback == "full"
        settings = getattr(learner, "settings", None)  # a player of the user's own has none
        self.rewarded = getattr(settings, "goal", None) == "maximize"
        actions = learner.actions
        self.set: ActionSet = actions if isinstance(actions, ActionSet) else Points(actions)
        self.X: Any = to_numpy(self.set.X) if isinstance(self.set, Points) else None
        if seen is not None and self.X is None:
            kind = type(self.set).__name__
            raise ValueError(f"`contexts` must be left out where the actions are no points, got {kind}")  # fmt: skip
        # What the learner is asked with in all rounds, and the numbers of their contexts; without contexts there is one.
        both: tuple[Any, Any] = seen or (None, np.zeros(rounds, dtype=int))
        self.asked, self.rows = both
        contexts = int(self.rows.max()) + 1
        self.total: Any = None if self.X is None else np.zeros((contexts, len(self.X)))
        self.told: list[Any] = []  # all losses, as they were told
        self.ahead = self.upcoming()
        self.waiting: list[tuple[int, int, Any, Any]] = []  # a heap: when due, and of which round
        self.actions: list[Any] = []
        self.losses: list[Any] = []
        self.index: list[Any] = []
        self.probability: list[Any] = []
        self.lowest: list[float] = []  # smallest totals of a point, at the checkpoints
        self.promised: list[float] = []  # by the learner at a checkpoint, from what it had heard
        self.means: list[Any] = []  # on points: mean losses
        self.extremes = (math.inf, -math.inf)  # on points: smallest and largest loss of any action
        self.promise: Any = None  # at the end
        self.seconds = 0.0

    # Playing.

    @property
    def width(self) -> float:
        """Largest minus smallest loss over all actions and rounds so far, where all were looked at."""
        return self.extremes[1] - self.extremes[0] if self.means else math.nan

    def mark(self) -> None:
        """A checkpoint: remember the smallest total loss of a point (a mapping), and what the learner promises by now."""
        lowest = math.nan if self.total is None else float(np.min(self.total, axis=-1).sum())
        self.lowest.append(lowest)
        promise = self.learner.guarantee(rounds=len(self.told), printed=False)
        self.promised.append(math.nan if promise is None else promise.in_losses(self.width).total)

    def end(self) -> None:
        """Tell the losses that still wait, and ask for the guarantee."""
        while self.waiting:
            self._tell()
        promise = self.learner.guarantee(rounds=self.rounds, printed=False)
        if promise is not None:
            promise = promise.against(oblivious=self.adversary.oblivious).in_losses(self.width)
        self.promise = promise
        self.promised.append(math.nan if promise is None else promise.total)

    def upcoming(self) -> Iterator[tuple[list[Any], Any]]:
        """The losses of each step, and on points the table of their values; an oblivious adversary is asked ahead."""
        oblivious = self.adversary.oblivious
        size = max(CHUNK // self.batch, 1) * self.batch if oblivious else 1
        for begin in range(0, self.rounds, size):
            losses = []
            for t in range(begin, min(begin + size, self.rounds)):
                context = None if self.asked is None else self.asked[t]
                shown = None if oblivious else Shown(self.learner, context)
                losses.append(self.adversary(t, shown))
            table = None if self.X is None else loss_table(losses, self.X)
            for k in range(0, len(losses), self.batch):
                part = slice(k, k + self.batch)
                yield losses[part], None if table is None else np.ascontiguousarray(table[part])

    def step(self, t: int, count: int) -> None:
        """Rounds t to t + count - 1; where anything fails, they have not been played."""
        losses, table = next(self.ahead)
        begin = time.perf_counter()
        decisions = self._ask(t, count)
        self.seconds += time.perf_counter() - begin
        if self.X is not None:
            index = np.atleast_1d(decisions.index) if self.batch > 1 else self._index(decisions)
            action, paid = self.X[index], table[np.arange(count), index]
        else:
            action = np.atleast_2d(to_numpy(decisions.action))
            paid = np.diagonal(loss_table(losses, action)).copy()
        news: Any = losses if self.full else paid
        if (delay := self.delays[t]) >= 0:
            due = (t + delay, t, decisions, news if self.batch > 1 else news[0])
            heapq.heappush(self.waiting, due)
        while self.waiting and self.waiting[0][0] <= t:
            self._tell()
        if not self.adversary.oblivious:
            self.adversary.saw(t, action[0] if self.X is None else int(index[0]))
        if table is not None:
            rows = self.rows[t : t + count]
            for c in set(rows.tolist()):
                self.total[c] += table[rows == c].sum(axis=0)
            self.means.append(table.mean(axis=1))
            low, high = self.extremes
            self.extremes = min(low, float(table.min())), max(high, float(table.max()))
            self.index.append(index)
            p = decisions.probability
            self.probability.append(np.atleast_1d(math.nan if p is None else p))
        self.actions.append(action)
        self.losses.append(paid)
        self.told.extend(losses)

    def _ask(self, t: int, count: int) -> Any:
        if self.asked is None:
            return self.learner.ask(count) if self.batch > 1 else self.learner.ask()
        if self.batch > 1:
            return self.learner.ask(count, context=self.asked[t : t + count])
        return self.learner.ask(context=self.asked[t])

    def _index(self, decision: Any) -> Any:
        try:
            index = operator.index(decision.index)
        except TypeError:
            index = -1
        if not 0 <= index < len(self.X):
            rule = f"must be a whole number from 0 to {len(self.X) - 1}"
            raise ValueError(f"`index` {rule}, got {decision.index!r}")
        return np.array([index])

    def _tell(self) -> None:
        *_, decisions, news = heapq.heappop(self.waiting)
        if self.batch == 1 and not self.full:
            news = float(news)
        elif isinstance(news, np.ndarray):
            news = news.copy()  # the losses of all actions are the game's, and stay as they are
        if self.rewarded:
            news = -news
        begin = time.perf_counter()
        self.learner.tell(decisions, news)
        self.seconds += time.perf_counter() - begin

    # What it is compared with.

    def comparator(self, at: Any) -> tuple[Any, int | None, str, Any, Any]:
        """The best fixed action, its index, why it is the best, its loss in every round, and the smallest totals so far.

        The last are, for every round of `at`, the smallest sum of losses that a single action has had by then. With contexts all of
        these are of the best mapping from contexts to actions, an array of shape (C, d).
        """
        played = len(self.told)
        if self.X is not None:
            index = np.argmin(self.total, axis=1)
            parts = []
            for s, e in pairwise([*range(0, played, CHUNK), played]):
                seen, place = np.unique(self.rows[s:e], return_inverse=True)
                table = loss_table(self.told[s:e], self.X[index[seen]], index[seen])
                parts.append(table[np.arange(e - s), place])
            saved = np.concatenate(parts)
            lowest = np.append(self.lowest[: len(at) - 1], np.sum(saved))
            if self.asked is None:
                return self.X[index[0]].copy(), int(index[0]), "exhaustive", saved, lowest
            return self.X[index], None, "exhaustive", saved, lowest
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

    def uniform(self) -> Any:
        """What playing uniformly at random would have cost in every round, on average."""
        if self.means:
            return np.concatenate(self.means)
        crowd, played = self.set.sample(POOL, np.random.default_rng(0)), len(self.told)
        cuts = pairwise([*range(0, played, CHUNK), played])
        return np.concatenate([self._values(crowd, s, e).mean(axis=1) for s, e in cuts])

    def _values(self, X: Any, begin: int, end: int) -> Any:
        """Losses of some rounds at some points, an array of shape (rounds, points)."""
        cuts = pairwise([*range(begin, end, CHUNK), end])
        return np.concatenate([loss_table(self.told[s:e], X) for s, e in cuts])

    # What it leaves.

    def trace(self, at: Any, ended: Ended, message: str, facts: dict[str, object]) -> Trace:
        """The rounds that were played."""
        names = {"learner": type(self.learner).__name__, "adversary": repr(self.adversary)}
        played, promise = len(self.told), self.promise
        if played == 0:
            return Trace.unplayed(ended, message, names | facts)
        at = np.unique(np.append(at[at < played], played))
        best, i, certificate, saved, lowest = self.comparator(at)
        losses = np.concatenate(self.losses)
        paid = np.cumsum(losses)[at - 1]
        promised = np.append(self.promised, [math.nan] * len(at))[: len(at)]
        return Trace(
            actions=np.concatenate(self.actions),
            losses=losses,
            regret=np.cumsum(losses - saved),
            bound=promised[np.searchsorted(at, np.arange(1, played + 1))],
            checkpoints=at,
            running=paid - lowest,
            uniform=np.cumsum(self.uniform())[at - 1] - lowest,
            best=best,
            certificate=certificate,
            valid=promise is not None and bool(promise.valid),
            seconds=self.seconds,
            index=np.concatenate(self.index) if self.index else None,
            probability=np.concatenate(self.probability) if self.index else None,
            paid=paid,
            best_paid=np.cumsum(saved)[at - 1],
            best_index=i,
            ended=ended,
            message=message,
            facts={
                **names,
                "guarantee": "" if promise is None else str(promise),
                "promise": None if promise is None else describe(promise),
                "rank": self.learner.rank,
                "epsilon": self.learner.epsilon,
                **facts,
            },
        )


def loss_table(losses: list[Any], X: Any, index: Any = slice(None)) -> Any:
    """Values of several losses at several points, an array of shape (losses, points).

    Arrays of losses on points stand for themselves (`index` says which of them X has).
    """
    if isinstance(losses[0], Loss):
        return Loss.table(losses, X)
    rows = np.stack([np.asarray(loss, dtype=float) for loss in losses])
    return rows[:, index]


def describe(promise: Any) -> dict[str, Any]:
    """A guarantee as plain data."""
    return {
        "statement": promise.statement,
        "regret": promise.regret,
        "confidence": promise.confidence,
        "unit": promise.unit,
        "terms": {name: float(value) for name, value in promise.terms.items() if value > 0},
        "total": float(promise.total),
        "trivial": float(promise.trivial),
        "informative": not promise.is_trivial,
        "valid": bool(promise.valid),
        "assumptions": [
            {"key": a.key, "text": a.text, "holds": a.holds} for a in promise.assumptions
        ],
        "notes": list(promise.notes),
    }


def milestones(rounds: int, count: int, step: int = 1) -> Any:
    """Rounds, multiples of the step and the last one: half evenly in the logarithm, half over the second half."""
    log = np.geomspace(1, rounds, max((count + 1) // 2, 1))
    even = np.linspace(rounds / 2, rounds, max(count // 2, 1))
    steps = np.ceil(np.concatenate([log, even, [rounds]]) / step - 1e-9).astype(int) * step
    return np.unique(np.minimum(steps, rounds))


@dataclass(frozen=True)
class Match:
    """A game that is ready to be played: what the function of a job makes."""

    learner: Any
    adversary: Adversary
    rounds: int
    settings: dict[str, Any] = field(default_factory=dict)  # for `play`
    facts: Callable[[], dict[str, Any]] = dict  # to be kept of a game that was played to the end

    def play(self, limit: float = math.inf) -> Trace:
        """Play it, and keep the checkpoints."""
        settings: dict[str, Any] = {"limit": limit, "failures": "keep", **self.settings}
        trace = play(self.learner, self.adversary, self.rounds, **settings)
        if trace.ended == "done":
            trace = replace(trace, facts=trace.facts | self.facts())
        return trace.thin()
