"""The contract of all learners: ask, tell, and what stands between the two.

    decision = learner.ask()            a law is made or kept, an action drawn from it, and the decision entered in the ledger
    learner.tell(decision, loss)        found in the ledger, read, then learned from: nothing can fail in between

*Settings* are what the user said. The *ledger* has the decisions that wait for their losses, each with the law that it was
drawn from, so that a loss can come at any time and in any order. A learner adds how it draws (`_draw`), how it reads a loss
(`_read`), what it makes of one (`_learn`) and what is proved (`_proved`). Its state is what is annotated in its class.

Losses, never rewards: smaller is better.
"""

from __future__ import annotations

import abc
import math
import reprlib
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import (
    Any,
    ClassVar,
    Generic,
    Literal,
    Self,
    TypeVar,
    overload,
)

import numpy as np
from numpy.typing import NDArray

from koloss.actions import SpacePoints
from koloss.core import text
from koloss.core.arrays import as_int, as_points, to_numpy
from koloss.core.random import LEARNERS, as_generator
from koloss.core.snapshot import Cached, fill, seal, state_of, unseal
from koloss.errors import ForkedLearner, NoDistribution, PolicyError
from koloss.guarantees import Guarantee
from koloss.learners.ledger import Decision, Decisions, Drawn, Ledger, Told, new_mark
from koloss.learners.params import as_allowed, as_indices, rows_of
from koloss.learners.settings import Settings
from koloss.learners.sharing import Forks, Suspicious, locked
from koloss.learners.waiting import Batch, Entry, L

MOST_DECISIONS = 10_000_000
"""Most decisions of one call of `ask`."""

MOST_COORDINATES = 100_000_000
"""Most coordinates of their actions."""

FEWEST_WHOLE, MOST_WHOLE, WHOLE_NUMBERS = 16, 512, 2**20
"""Laws that are kept whole after they are over: so many, as far as their matrices have no more numbers than these."""


@dataclass(frozen=True)
class Recommendation:
    """The best action so far."""

    index: int | None  # its row in a finite set
    action: NDArray[np.float64]
    loss: float  # its mean so far: estimated under bandit feedback, exact with full information
    certificate: str  # of its being the best: "estimated", "exhaustive", "dual" or "local only"
    params: dict[str, Any] | None = None  # the action by names, where actions are those of a Space


def refuse_extras(context: Any, allowed: Any) -> None:
    """Refuse what a learner without contexts, of which all actions are allowed, has no use for."""
    if context is not None:
        raise ValueError("`context` must be left out by a learner without `contexts`")
    if allowed is not None:
        raise ValueError("`allowed` must be left out: this learner chooses among all actions")


def _is_same(key: Any, other: Any) -> bool:
    return key == other if type(key) is int else np.array_equal(key, other)


S = TypeVar("S", bound=Settings)
# The learner.


class Learner(abc.ABC, Generic[S, L]):
    """Chooses again and again, and is told what each choice cost, or what every choice would have.

    Threads may share a learner: each call is atomic.
    """

    feedback: ClassVar[Literal["bandit", "full"]]
    settings_type: ClassVar[type[Settings]]

    settings: S
    ledger: Ledger[L]
    _rng: np.random.Generator
    _hold: int = 0  # decisions that have to be made after one before its loss is used
    _params: Cached = None  # of every action, where they are those of a Space
    _recorded: Cached = ()  # while decisions are replayed: what was kept of their actions
    _suspected: Cached = False  # whether it was made from a snapshot
    rank: int | None = None  # number of features, where there are any
    epsilon: float | None = None  # error of the features, where there are any

    def _begin(self, settings: S, rng: Any) -> None:
        """A new game."""
        self.settings, self.ledger = settings, Ledger()
        self._name_actions()
        self._hold = getattr(settings, "hold", 0)
        self._rng = as_generator(rng, LEARNERS)
        self._settle_here()

    @property
    @locked
    def params(self) -> list[dict[str, Any]] | None:
        """Of every action in play, where they are those of a Space."""
        params: list[dict[str, Any]] | None = self._params
        return params

    def _name_actions(self) -> None:
        """Decisions have params where actions are those of a Space."""
        actions = self.settings.actions
        if isinstance(actions, SpacePoints):
            contexts = getattr(self.settings, "contexts", None)
            self._params = actions.params
            self.ledger.name(actions, None if contexts is None else contexts.slots(len(actions)))

    def _settle_here(self) -> None:
        """Belong to this process."""
        lock = threading.RLock()
        self._lock, self._home = Suspicious(lock) if self._suspected else lock, Forks.count

    # What a learner adds.

    @property
    @abc.abstractmethod
    def actions(self) -> Any:
        """Those in play: an array of shape (N, d) on a finite set, otherwise the set."""

    @abc.abstractmethod
    def _draw(self, count: int | None, context: Any, allowed: Any) -> tuple[L | None, Drawn]:
        """The law of the next decisions, and actions drawn from it; enters nothing.

        Whoever has no use for a context or for a choice among the actions refuses it (`refuse_extras`).
        """

    def _drop_ahead(self) -> None:
        """Drop what was drawn for decisions to come, where anything was."""

    @abc.abstractmethod
    def _read(self, entries: Sequence[Entry[L]], loss: Any) -> Sequence[Any]:
        """Losses in the form that is learned from, one per entry, or an error; changes nothing."""

    def _limits(self) -> tuple[float, float]:
        """The interval of what `_read` gives where losses are numbers."""
        return -math.inf, math.inf

    @property
    @locked
    def limits(self) -> tuple[float, float]:
        """The interval of what `tell` takes, where losses (or with `goal="maximize"` rewards) are numbers."""
        low, high = self._limits()
        return (-high, -low) if getattr(self.settings, "goal", None) == "maximize" else (low, high)

    def _admit(self, entry: Entry[L], loss: Any) -> None:
        """A last chance to refuse a loss that is learned from alone: where others are told of it, who may fail."""

    @abc.abstractmethod
    def _learn(self, law: L | None, entries: Sequence[Entry[L]], losses: Sequence[Any]) -> None:
        """Learn from losses of one law; must not fail. The ledger has settled the entries."""

    @abc.abstractmethod
    def _proved(self, rounds: int) -> Guarantee:
        """What is proved for so many rounds."""

    def _printed(self, rounds: int) -> Guarantee | None:
        """What the paper prints for the same parameters; None where these are not the paper's."""
        return None

    @abc.abstractmethod
    def recommend(self) -> Recommendation:
        """The best action so far."""

    @property
    @abc.abstractmethod
    def diagnostics(self) -> Any:
        """What an operator may want to see: a frozen dataclass, as text a short report."""

    def _condensed(self, law: L, keys: Sequence[Any]) -> Sequence[Any] | None:
        """What the late losses of single decisions of a law need, for each; None where the law takes less room."""
        return None

    # Ask and tell.

    @overload
    def ask(self, count: None = None, *, context: Any = None, allowed: Any = None) -> Decision: ...

    @overload
    def ask(self, count: int, *, context: Any = None, allowed: Any = None) -> Decisions: ...

    def ask(
        self, count: int | None = None, *, context: Any = None, allowed: Any = None
    ) -> Decision | Decisions:
        """Draw an action, or `count` of them from one law; at most 10⁷, and 10⁸ coordinates.

        Parameters
        ----------
        count : int, optional
        context : optional
            What is known of the round, for learners with `contexts`; one for each of `count` decisions.
        allowed : optional
            Which actions may be chosen this time, for learners that can do with a part of theirs: a truth value for each, or the
            rows of some, or their params. The law is restricted to them, and nothing is proved of such rounds.

        Raises
        ------
        PolicyError
            Where a policy of your own fails: then no decision has been made.
        ForkedLearner
            In a fork of the process that it was made in, before `reseed`.
        """
        if self._home != Forks.count:
            raise self._forked()
        if count is not None:
            count = self._as_count(count)
        with self._lock:
            if self._hold:
                self._use_due()  # what a policy has failed to hear
            law, drawn = self._draw(count, context, allowed)
            ledger = self.ledger
            number = ledger.heard if law is None else law.number
            keys, params = drawn.keys, self._params
            if params is not None and keys[0] is None:  # told by params, it has to be found
                keys = (drawn.index,) if count is None else drawn.index.tolist()
            opened = len(ledger.opened)
            first = ledger.enter(law, keys, drawn.contexts)
            if len(ledger.opened) > max(opened, FEWEST_WHOLE):  # one more
                room = min(MOST_WHOLE, WHOLE_NUMBERS // (self.rank or 1) ** 2)
                ledger.condense(max(FEWEST_WHOLE, room), self._condensed)
            if self._hold:
                with suppress(PolicyError):  # the decision has been made
                    self._use_due()
        _, action, index, p, _ = drawn
        if count is None:
            if params is None:
                return Decision(first, action, index, p, number, ledger.mark)
            return Decision(first, action, index, p, number, ledger.mark, dict(params[index]))
        ids, numbers = np.arange(first, first + count), np.empty(count, dtype=np.int64)
        numbers.fill(number)
        return Decisions(ids, action, index, p, numbers, ledger.mark, params)

    def replay(
        self,
        keys: Sequence[Any],
        count: int | None = None,
        *,
        context: Any = None,
        allowed: Any = None,
    ) -> Decision | Decisions:
        """Ask as it was asked before, and take the decisions that were recorded for those made: what would have been drawn.

        Parameters
        ----------
        keys : sequence
            What the ledger kept of each action (`Entry.key`).
        count, context, allowed : optional
            As they were given to `ask`.
        """
        with self._lock:
            self._recorded = keys
            try:
                drawn = self.ask(count, context=context, allowed=allowed)
            finally:
                self._recorded = ()
            first = self.ledger.made - len(keys)
            entries = [self.ledger.entry(i) for i in range(first, self.ledger.made)]
            if not all(_is_same(e.key, key) for e, key in zip(entries, keys, strict=True)):
                self.ledger.correct(first, keys)
            return drawn

    def _as_count(self, count: Any) -> int:
        """Number of decisions, if they can be made at once."""
        most = min(MOST_DECISIONS, MOST_COORDINATES // self.settings.actions.dimension)
        number = as_int("count", count, minimum=1)
        if number > most:
            raise ValueError(f"`count` must be at most {most}, got {reprlib.repr(number)}")
        return number

    def tell(self, decision: Told, loss: Any) -> None:
        """Learn from the loss of a decision, or the losses of several, in any order and at any time.

        Parameters
        ----------
        decision : Decision, Decisions, id, params, or a sequence of these
            Params, of actions that are those of a `Space`, mean the oldest decision for this action that waits for its loss.
        loss : float, array, Loss, or a sequence of losses
            Smaller is better. Bandit feedback: what the action cost, one number per decision. Full information: the whole
            function, one per decision; on a finite set it may be the array of the losses of all points.

        Raises
        ------
        UnknownDecision
            Told already, never made, or made by another learner.
        LossOutOfBounds
            Outside what was promised.
        PolicyError
            Where a policy of your own fails to hear it. That loss, and those after it, have not been told then.
        ForkedLearner
            In a fork of the process that it was made in, before `reseed`.
        """
        if self._home != Forks.count:
            raise self._forked()
        if type(loss) is not float and isinstance(loss, Iterator):
            loss = list(loss)  # anybody's code, which is not to run while entries are held
        with self._lock:
            entries = self.ledger.find(decision)
            losses = self._read(entries, loss)
            if self._hold:
                self._keep(entries, losses)
                return
            whole, law = type(entries) is Batch, None  # `isinstance` is slow for sequences
            if entries:
                law = entries.law if type(entries) is Batch else entries[0].law
            # Nothing can fail from here on, but for what `_admit` is for.
            if law is not None and law.together and (whole or all(e.law is law for e in entries)):
                self.ledger.settle(entries)
                self._learn(law, entries, losses)
                return
            for entry, one in zip(entries, losses, strict=True):
                self._admit(entry, one)
                self.ledger.settle((entry,))
                self._learn(entry.law, (entry,), (one,))

    def _keep(self, entries: Sequence[Entry[L]], losses: Sequence[Any]) -> None:
        """Hold losses back until enough further decisions have been made."""
        self.ledger.keep(entries, losses)
        try:
            self._use_due()
        except PolicyError:
            self.ledger.hand_back(entries)
            raise

    def _use_due(self) -> None:
        """Learn from losses that were held back long enough, in the order of their decisions."""
        while (due := self.ledger.due(self._hold)) is not None:
            entry, loss = due
            self._admit(entry, loss)
            self.ledger.settle((entry,))
            self._learn(entry.law, (entry,), (loss,))

    def forget(self, ids: Told | None = None, *, before: int | None = None) -> int:
        """Wait no more for the losses of some decisions, or of all with an id below `before`; how many were outstanding.

        A guarantee counts them as losses that were never heard.
        """
        if self._home != Forks.count:
            raise self._forked()
        with self._lock:
            return self.ledger.forget(ids, before=before)

    # Copies.

    def reseed(self, rng: Any = None) -> None:
        """Go on as a learner of its own: with other coins, and with decisions that no copy of it takes for its own.

        A copy, be it of a fork, a pickle or a snapshot, has the coins of the original and makes the same decisions. After
        `reseed` it has its own. Decisions that wait for their losses still do and can be told by their ids; told as
        decisions they are refused, as those of the learner that made them.

        Parameters
        ----------
        rng : seed or Generator, optional
            Where the coins come from; by default nobody has them but this learner. A policy of your own keeps its coins.

        Raises
        ------
        ForkedLearner
            Where another thread was changing the learner when the process was forked: what it left is not to be used.

        Examples
        --------
        >>> import copy
        >>> import koloss as kl
        >>> first = kl.BanditExpWeights(
        ...     kl.Points([[0.0], [1.0]]), kl.Gaussian(0.5), horizon=100, rng=0
        ... )
        >>> second = copy.deepcopy(first)
        >>> first.ask(20).index.tolist() == second.ask(20).index.tolist()
        True
        >>> second.reseed(1)
        >>> first.ask(20).index.tolist() == second.ask(20).index.tolist()
        False
        """
        coins = as_generator(rng, LEARNERS)
        self._take_lock()
        try:
            self._drop_ahead()
            self._rng, self.ledger.mark, self._home = coins, new_mark(), Forks.count
        finally:
            self._lock.release()

    def _take_lock(self) -> None:
        """Take the lock, which nobody gives back in a fork where another thread had it."""
        if not self._lock.acquire(blocking=self._home == Forks.count):
            raise ForkedLearner(
                "another thread was changing this learner when the process was forked: "
                "make one in this process, or from a snapshot"
            )

    def _forked(self) -> ForkedLearner:
        return ForkedLearner(
            "this process is a fork of the one that this learner was made in and shares its coins and its ledger: "
            "reseed() makes it a learner of its own"
        )

    # What it knows.

    @property
    def distribution(self) -> NDArray[np.float64]:
        """Probability of every action of a finite set in the next `ask()`."""
        raise NoDistribution(
            "`distribution` is for finite sets; a compact one has `log_density` or `mixture`"
        )

    @locked
    def probability(self, actions: Any) -> NDArray[np.float64]:
        """Probability of some actions in the next `ask()`: rows of coordinates, indices, or params.

        Equal points count together.
        """
        p, points = self.distribution, self.actions
        named = rows_of("actions", actions, self._named_points)
        rows = as_indices(actions if named is None else named, len(p))
        if rows is not None:
            chosen: NDArray[np.float64] = p[rows]
            return chosen
        X = to_numpy(as_points("actions", actions, dimension=points.shape[1]))
        same = np.all(np.isclose(X[:, None, :], points[None], rtol=1e-12, atol=1e-12), axis=2)
        if not same.any(axis=1).all():
            first = X[np.argmin(same.any(axis=1))]
            raise ValueError(f"`actions` must be actions in play, got {first}")
        together: NDArray[np.float64] = same @ p
        return together

    @locked
    def peek(self, rng: np.random.Generator, count: int = 64) -> tuple[NDArray[Any], NDArray[Any]]:
        """Next actions and their weights, for those who may know the law but not the coin; changes nothing.

        All actions of a finite set; elsewhere `count` draws with the random numbers of `rng`.
        """
        if not isinstance(rng, np.random.Generator):
            raise TypeError(f"`rng` must be a Generator, got {type(rng).__name__}")
        return self._peek(rng, self._as_count(count))

    def _peek(self, rng: np.random.Generator, count: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """Next actions and their weights."""
        return self.actions, self.distribution

    def _allowed(self, allowed: Any) -> NDArray[np.bool_] | None:
        """Which actions may be chosen in a request; None where all may."""
        actions = self.actions
        if not isinstance(actions, np.ndarray):
            raise ValueError(f"`allowed` must be left out where {actions!r} is played as a whole")
        return as_allowed(allowed, self._named_points, len(actions))

    @property
    def _named_points(self) -> Any:
        """The actions, where they have params: those that have entered by now among them."""
        points = self.ledger.points
        return self.settings.actions if points is None else points

    def _named(self, best: Recommendation) -> Recommendation:
        """With its params, where there are any."""
        if self._params is None or best.index is None:
            return best
        return replace(best, params=dict(self._params[best.index]))

    @locked
    def guarantee(self, *, rounds: int | None = None, printed: bool | None = None) -> Guarantee:
        """The regret bound, term by term.

        Parameters
        ----------
        rounds : int, optional
            After so many rounds; by default the horizon, or the rounds played where there is none.
        printed : bool, optional
            With the paper's tuning: the bound as the paper prints it (the default), or what is proved for the same
            parameters.
        """
        n = self.settings.horizon or max(self.ledger.made, 1)
        if rounds is not None:
            n = as_int("rounds", rounds, minimum=1)
        if printed is not False:
            theirs = self._printed(n)
            if theirs is not None:
                return theirs
            if printed:
                raise ValueError("`printed` must be left out unless the tuning is the paper's")
        return self._beside_random(self._proved(n))

    def _beside_random(self, promise: Guarantee) -> Guarantee:
        """A bound with what playing at random would lose in as many rounds, by the learner's own estimates."""
        if self.ledger.heard == 0:
            return promise
        learner: Any = self
        seen = learner.diagnostics
        values = getattr(seen, "estimated_losses", None)
        if values is None or values.shape[-1] == 1 or promise.comparator == "mapping law":
            return promise
        if promise.unit and not promise.seen:  # estimates are in a unit that is not known yet
            return promise
        losses = -values if promise.goal == "maximize" else values
        best = losses.min(axis=-1)
        if promise.comparator == "law":
            best = -learner.engine.shares.best(-losses)
        gaps, counts = np.abs(losses.mean(axis=-1) - best), None
        if gaps.ndim:  # with contexts: as often as each has come
            counts = np.broadcast_to(seen.contexts, gaps.shape)
        lost = promise.rounds * float(np.average(gaps, weights=counts))
        most = promise.trivial * ((promise.seen or math.inf) if promise.unit else 1.0)
        return replace(promise, random=min(lost, most))  # estimates may leave the range

    def __repr__(self) -> str:
        return self.settings.describe(type(self).__name__)

    @locked
    def _repr_html_(self) -> str:
        told = "rewards" if getattr(self.settings, "goal", None) == "maximize" else "losses"
        facts = {
            "kernel": repr(self.settings.kernel),
            "actions": repr(self.settings.actions),
            "horizon": f"{self.settings.horizon:,} rounds" if self.settings.horizon else "none",
            "decisions": f"{self.ledger.made:,} made, the {told} of {self.ledger.heard:,} heard",
        }
        if self.rank is not None:
            facts["features"] = f"{self.rank:,}, error at most {self.epsilon or 0:.3g}"
        promise = text.Safe(self.guarantee()._repr_html_())
        return text.card(type(self).__name__, text.facts_table(facts), promise)

    # Snapshots.

    def state(self) -> dict[str, Any]:
        """A snapshot: plain data, with the settings, the ledger, the generator's state, and all that was learned.

        It is a cache and a convenience, for the version of Koloss that wrote it and those that read its format: what is to last is a
        study's log. "learner" has what is annotated in the class, by name: objects as {class: attributes}, lists as they are, and
        {"tuple": ...}, {"dict": pairs}, {"plain": ...} of kernels, sets and losses, {"rng": ...}, {"same": n} for the n-th thing
        written, which is the same, and {"described": ...} in the place of what has no plain data. "identity" tells learners apart:
        copies and snapshots share it until `reseed`.
        """
        with self._lock:
            data = {"identity": self.ledger.mark, "learner": state_of(self)}
            return seal(type(self).__name__, data)

    @classmethod
    def from_state(cls, state: Any) -> Self:
        """The learner of a snapshot, which goes on exactly where it was taken.

        Raises
        ------
        SnapshotError
            Where the snapshot is damaged, of another kind, or of another format. One that was changed and sealed again may also make
            a learner that plays oddly, or whose calls raise this error.
        """
        data = unseal(cls.__name__, state)
        cls._know_all()
        learner: Self = fill(cls.__new__(cls), data.get("learner"))
        return learner

    @classmethod
    def _know_all(cls) -> None:
        """Load what is loaded late elsewhere, so that its classes are known."""

    def _restored(self) -> None:
        self._suspected = True
        self._settle_here()
        self._name_actions()

    def __getstate__(self) -> dict[str, Any]:
        """Everything but what belongs to this process."""
        state = self.__dict__.copy()
        del state["_lock"], state["_home"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._settle_here()
