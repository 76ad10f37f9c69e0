"""Policies that can be insured: confidence bounds, Thompson sampling, and the user's own."""

from __future__ import annotations

import abc
import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol

import numpy as np

from koloss.core.snapshot import FORMS, Described, kept, seal
from koloss.errors import PolicyError
from koloss.learners.insured.exploration import lowest, smallest
from koloss.learners.insured.forecast import Place
from koloss.learners.insured.pending import Pending

ALONE = Place(context=0, contexts=1, actions=0)
"""Where there is no other context."""

TIE = 1e-7
"""Scores that differ by less than this share of the largest deviation are equal."""

DRAWS = 256
"""Draws from which the law of Thompson sampling is estimated for those who ask for it."""


class Policy(Protocol):
    """What an object needs to be insured: it proposes actions, and is told losses.

    While in play it hears the losses of all actions, of its own and of those explored. Three more methods are used where it has
    them: `state()`, a snapshot that is plain data, and `restore(state)`; and `offered(mask)`, which is told which actions there are
    whenever some are added or withdrawn: it may propose those alone. With contexts all but the snapshots have one more argument, the
    context: `propose(context)`, `hear(index, loss, context)`, `offered(mask, context)`.

    Examples
    --------
    >>> class Stubborn:
    ...     def propose(self):
    ...         return 0
    ...
    ...     def hear(self, index, loss):
    ...         pass
    >>> import koloss as kl
    >>> points, settings = (
    ...     kl.Points([[0.0], [1.0]]),
    ...     {"horizon": 900, "loss_range": (0, 1), "rng": 0},
    ... )
    >>> kl.InsuredBandit(points, kl.Gaussian(0.5), policy=Stubborn(), **settings).ask().index
    0
    """

    def propose(self) -> Any:
        """The row of the action it would play, or an array of N probabilities."""

    def hear(self, index: int, loss: float) -> Any:
        """Hear the loss of the action in row `index`."""


class BuiltIn(abc.ABC):
    """A policy of the library's, with a width that it may use."""

    usual: ClassVar[float] = (
        2.0  # deviations of "ucb" on arms and markets with noise of all sizes; fewer get stuck
    )

    width: float
    place: Place  # where it is asked

    def __init__(self, width: float | Literal["auto"] = "auto", place: Place = ALONE) -> None:
        self.width, self.place = self.usual if width == "auto" else width, place

    def propose(self, forecast: Pending, offered: Any, rng: Any) -> Any:
        """The row of an action, or a law from which the learner draws one; `offered` are those there are, None where all are."""
        return self.place.proposed(self._choose(forecast, self.place.offered(offered), rng))

    def law(self, forecast: Pending, offered: Any) -> Any:
        """What it will propose; a policy with a coin has a law of its own."""
        return self.place.proposed(self._law(forecast, self.place.offered(offered)))

    def offer(self, *told: Any) -> None:  # noqa: B027  for what a policy of the user's is told
        """It goes by the forecast, and need not be told."""

    announce = forget = keep = offer

    @abc.abstractmethod
    def _choose(self, forecast: Pending, offered: Any, rng: Any) -> Any:
        """What it proposes among all pairs of a context and an action."""

    def _law(self, forecast: Pending, offered: Any) -> Any:
        """What it will propose among all pairs."""
        return self._choose(forecast, offered, None)


@kept
class Ucb(BuiltIn):
    """The action with the smallest lower confidence bound, mean less `width` deviations (losses: smaller is better)."""

    def _choose(self, forecast: Pending, offered: Any, rng: Any) -> Any:
        if forecast.is_blind:
            return forecast.most_wanting(offered)
        score = forecast.deviation
        score *= -self.width
        tie = -TIE * smallest(score)
        score += forecast.mean
        best = lowest(score, offered)
        close = score <= score.item(best) + tie  # of equal ones the first, whatever rounding says
        if offered is not None:
            close &= offered
        return int(close.argmax())


@kept
class Thompson(BuiltIn):
    """The best action of a draw from the posterior, its deviation times `width`; a round is conditional on the draw."""

    usual = 1.0

    def _choose(self, forecast: Pending, offered: Any, rng: Any) -> Any:
        if forecast.is_blind:
            return forecast.most_wanting(offered)
        return lowest(forecast.sample(rng, self.width), offered)

    def _law(self, forecast: Pending, offered: Any) -> Any:
        """The law of the choice, estimated by draws from a generator of their own."""
        if forecast.is_blind:
            return np.eye(len(forecast.features))[forecast.most_wanting(offered)]
        drawn = forecast.sample(np.random.default_rng(0), self.width, DRAWS)
        if offered is not None:
            drawn[~offered] = np.inf
        best = drawn.argmin(axis=0)
        return np.bincount(best, minlength=len(forecast.features)) / DRAWS


BUILT_IN: dict[str, type[BuiltIn]] = {"ucb": Ucb, "thompson": Thompson}
"""The library's policies, by name."""


@dataclass(frozen=True)
class OwnState:
    """A policy's own state, which is written and read as it is."""

    state: Any


FORMS["own"] = (OwnState, lambda own: own.state, OwnState)


@kept
class UserPolicy:
    """A policy of the user's, asked for one context where there are several; whatever it does wrong becomes a `PolicyError`."""

    count: int
    context: tuple[Any, ...] = ()  # that it is asked for, as it was given, where there are any
    _next: Any = None  # a proposal that has been looked at and not played
    _offered: Any = None
    _own: OwnState | None = None  # the policy's own state, as it was when it was last asked

    def __init__(self, policy: Any, count: int, context: tuple[Any, ...] = ()) -> None:
        self.policy, self.count, self.context = policy, count, context

    def propose(self, forecast: Pending, offered: Any, rng: Any) -> Any:
        """Its proposal, checked; the one that `law` has seen where there is one."""
        proposal = self.law(forecast, offered)
        self._next = None
        return proposal

    def law(self, forecast: Pending, offered: Any) -> Any:
        """Its next proposal, which is kept for the next round."""
        if self._next is None:
            given = self._call("propose", lambda: self.policy.propose(*self.context))
            proposal = self._checked(given)
            absent = self._absent(proposal)
            if absent is not None:
                raise PolicyError(
                    f"what the policy proposes must be offered, got row {absent}, which is not available"
                )
            self._next = proposal
        return self._next

    def hear(self, index: int, loss: float) -> None:
        """Tell the policy a loss."""
        self._call("hear", lambda: self.policy.hear(index, loss, *self.context))

    def announce(self, offered: Any) -> None:
        """Tell the policy which actions there will be."""
        told: Any = getattr(self.policy, "offered", None)
        if callable(told):
            self._call("offered", lambda: told(offered.copy(), *self.context))

    def offer(self, offered: Any) -> None:
        """These are the actions from now on; a proposal that was kept is made anew if it has others."""
        self._offered = offered
        if self._next is not None and self._absent(self._next) is not None:
            self._next = None

    def _absent(self, proposal: Any) -> int | None:
        """A row in a proposal that is not offered."""
        if self._offered is None:
            return None
        rows = [proposal] if isinstance(proposal, int) else np.flatnonzero(proposal)
        return next((int(row) for row in rows if not self._offered[row]), None)

    def forget(self) -> None:
        """Ask for a proposal anew."""
        self._next = None

    def keep(self) -> None:
        """Ask the policy for its own state, where it has one."""
        if hasattr(self.policy, "state"):
            own = copy.deepcopy(self._call("state", self.policy.state))
            self._call("state", lambda: seal("policy", {"own": own}))  # plain data can be sealed
            self._own = None if own is None else OwnState(own)

    def _restored(self) -> None:
        self.policy = None  # until it is given

    def give(self, policy: Any) -> None:
        """The policy of a snapshot, in the object given for it."""
        own, self.policy = self._own, policy
        if own is not None and callable(getattr(policy, "restore", None)):
            self._call("restore", lambda: policy.restore(own.state))
        if self._offered is not None:
            self.announce(self._offered)

    def _call(self, method: str, function: Callable[[], Any]) -> Any:
        try:
            if self.policy is None:
                raise LookupError("from_state(state, policy=...) was not given the policy")
            return function()
        except Exception as error:  # whatever it is, it is the policy's
            name = type(self.policy).__name__
            raise PolicyError(
                f"the policy's {method}() failed: {name} raised {type(error).__name__}: {error}"
            ) from error

    def _checked(self, proposal: Any) -> Any:
        got, law = None, None
        try:
            if isinstance(proposal, (bool, np.bool_, str, bytes)) or proposal is None:
                raise TypeError
            array = np.asarray(proposal)
            if array.dtype.kind not in "iufO":
                raise TypeError
            if array.ndim == 0 and array == int(array) and 0 <= int(array) < self.count:
                return int(array)
            if array.ndim and array.shape != (self.count,):
                got = f"shape {array.shape}"
            elif array.ndim:
                law = array.astype(float)
        except (TypeError, ValueError, OverflowError):
            pass
        if law is None:
            rule = f"must be a row from 0 to {self.count - 1} or {self.count} probabilities"
            raise PolicyError(f"what the policy proposes {rule}, got {got or repr(proposal)}")
        total = float(law.sum())
        if not (np.all(law >= 0) and abs(total - 1) <= 1e-6):  # NaN fails, too
            raise PolicyError(
                f"probabilities that the policy proposes must be at least 0 and add up to 1, got a smallest of "
                f"{law.min():.6g} and a sum of {total:.6g}"
            )
        return law / total


def check_policy(policy: Any) -> None:
    """A policy of the user's has two methods."""
    for method in ("propose", "hear"):
        if not callable(getattr(policy, method, None)):
            raise TypeError(
                f"`policy` must be {', '.join(map(repr, BUILT_IN))} or have methods propose() and "
                f"hear(index, loss), got {type(policy).__name__} without {method}"
            )


def check_named(policy: Any) -> None:
    """A policy is the library's, by name, or the user's; of a snapshot a description will do."""
    if not isinstance(policy, (str, Described)):
        check_policy(policy)
    elif isinstance(policy, str) and policy not in BUILT_IN:
        names = ", ".join(map(repr, BUILT_IN))
        raise ValueError(f"`policy` must be one of {names} or an object, got {policy!r}")


def check_given(name: str, policy: Any) -> None:
    """Refuse what was given for the policy of a snapshot, unless it is an object for one of the user's."""
    if name == "own" and policy is not None:
        check_policy(policy)
    if name != "own" and policy is not None and policy != name:
        raise ValueError(f"`policy` must be left out for the library's {name!r}, got {policy!r}")
