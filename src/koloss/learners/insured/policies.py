"""Policies that can be insured: confidence bounds, Thompson sampling, optimistic exponential weights, and the user's own."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np

from koloss.errors import PolicyError
from koloss.learners.insured.forecast import Forecaster
from koloss.learners.snapshots import seal

DRAWS = 256
"""Draws from which the law of Thompson sampling is estimated for those who ask for it."""


class Policy(Protocol):
    """What an object needs to be insured: it proposes actions, and is told losses.

    While in play it hears the losses of all actions, of its own and of those explored. Two more methods are used where it has
    them: `state()`, a snapshot that is plain data, and `restore(state)`.

    Examples
    --------
    >>> class Stubborn:
    ...     def propose(self):
    ...         return 0
    ...
    ...     def hear(self, index, loss):
    ...         pass
    >>> import koloss as kl
    >>> kl.InsuredBandit(
    ...     kl.Points([[0.0], [1.0]]),
    ...     kl.Gaussian(0.5),
    ...     horizon=900,
    ...     loss_range=(0, 1),
    ...     policy=Stubborn(),
    ...     rng=0,
    ... ).ask().index
    0
    """

    def propose(self) -> Any:
        """The row of the action it would play, or an array of N probabilities."""

    def hear(self, index: int, loss: float) -> Any:
        """Hear the loss of the action in row `index`."""


class Watching(Protocol):
    """What a policy may see of the stage that watches it."""

    total: Any  # estimated losses of every action, summed
    noise: float  # Σ of squared residuals of the predictions
    first: Any  # the first exploration, with the features


class Ucb:
    """The action with the smallest lower confidence bound, mean less `width` deviations (losses: smaller is better)."""

    def __init__(self, width: float) -> None:
        self.width = width

    def propose(self, forecaster: Forecaster, stage: Watching, rng: Any) -> Any:
        """The row of the action."""
        score = forecaster.deviation
        score *= -self.width
        score += forecaster.mean
        return int(score.argmin())

    def law(self, forecaster: Forecaster, stage: Watching) -> Any:
        """What it will propose: it has no coin."""
        return self.propose(forecaster, stage, None)


class Thompson:
    """The best action of a draw from the posterior, its deviation times `width`."""

    def __init__(self, width: float) -> None:
        self.width = width

    def propose(self, forecaster: Forecaster, stage: Watching, rng: Any) -> Any:
        """The row of the action; the round is then conditional on the draw."""
        return int(forecaster.sample(rng, self.width).argmin())

    def law(self, forecaster: Forecaster, stage: Watching) -> Any:
        """The law of the choice, estimated by draws from a generator of their own."""
        best = forecaster.sample(np.random.default_rng(0), self.width, DRAWS).argmin(axis=0)
        return np.bincount(best, minlength=len(forecaster.features)) / DRAWS


class Optimistic:
    """Exponential weights on the stage's own estimates and the prediction of the round to come (optimistic EXP2).

    Its learning rate follows the residuals: η = √(log N / (m(1 + Σ residual²))). Nothing is proved of it alone.
    """

    def propose(self, forecaster: Forecaster, stage: Watching, rng: Any) -> Any:
        """The law itself: its actions are drawn by the learner."""
        N, m = stage.first.features.shape
        eta = math.sqrt(math.log(max(N, 2)) / (m * (1 + stage.noise)))
        score = -eta * (stage.total + forecaster.mean)
        q = np.exp(score - score.max())
        return q / q.sum()

    def law(self, forecaster: Forecaster, stage: Watching) -> Any:
        """What it will propose."""
        return self.propose(forecaster, stage, None)


class Missing:
    """Stands in for a policy that was not given back to a snapshot; keeps its state."""

    def __init__(self, kept: Any) -> None:
        self.kept = kept

    def state(self) -> Any:
        """What the policy's state was."""
        return self.kept

    def propose(self) -> Any:
        """Fails: there is nobody to ask."""
        raise LookupError("from_state(state, policy=...) was not given the policy")

    def hear(self, index: int, loss: float) -> Any:
        """Fails likewise."""
        self.propose()


class UserPolicy:
    """A policy of the user's; whatever it does wrong becomes a `PolicyError`."""

    def __init__(self, policy: Policy, count: int, next_proposal: Any = None) -> None:
        self.policy, self.count = policy, count
        self._next = next_proposal  # one that has been looked at and not played

    def propose(self, forecaster: Forecaster, stage: Watching, rng: Any) -> Any:
        """Its proposal, checked; the one that `law` has seen where there is one."""
        proposal = self.law(forecaster, stage)
        self._next = None
        return proposal

    def law(self, forecaster: Forecaster, stage: Watching) -> Any:
        """Its next proposal, which is kept for the next round."""
        if self._next is None:
            self._next = self._checked(self._call("propose", self.policy.propose))
        return self._next

    def hear(self, index: int, loss: float) -> None:
        """Tell the policy a loss."""
        self._call("hear", lambda: self.policy.hear(index, loss))

    def state(self) -> dict[str, Any]:
        """What a snapshot keeps: the policy's own state where it has one, and a proposal that was looked at."""
        own = None
        if hasattr(self.policy, "state"):
            own = copy.deepcopy(self._call("state", self.policy.state))
            self._call("state", lambda: seal("policy", {"own": own}))  # plain data can be sealed
        return {"own": own, "next": self._next}

    @classmethod
    def restored(cls, policy: Any, count: int, kept: Mapping[str, Any]) -> UserPolicy:
        """The policy of a snapshot, in the object given for it."""
        proposal = kept["next"]
        if isinstance(proposal, np.ndarray):
            proposal = np.array(proposal)
        restored = cls(Missing(kept["own"]) if policy is None else policy, count, proposal)
        if kept["own"] is not None and callable(getattr(policy, "restore", None)):
            restored._call("restore", lambda: policy.restore(kept["own"]))
        return restored

    def _call(self, method: str, function: Callable[[], Any]) -> Any:
        try:
            return function()
        except Exception as error:  # whatever it is, it is the policy's
            name = type(self.policy).__name__
            raise PolicyError(
                f"the policy's {method}() failed: {name} raised {type(error).__name__}: {error}"
            ) from error

    def _checked(self, proposal: Any) -> Any:
        rule = f"must be a row from 0 to {self.count - 1} or {self.count} probabilities"
        if isinstance(proposal, (bool, np.bool_, str, bytes)) or proposal is None:
            raise PolicyError(f"what the policy proposes {rule}, got {proposal!r}")
        try:
            array = np.asarray(proposal)
            if array.dtype.kind not in "iufO":
                raise TypeError(array.dtype)
            is_row = array.ndim == 0 and float(array) == int(array)
        except (TypeError, ValueError, OverflowError):
            raise PolicyError(f"what the policy proposes {rule}, got {proposal!r}") from None
        if array.ndim == 0:
            if not is_row or not 0 <= int(array) < self.count:
                raise PolicyError(f"what the policy proposes {rule}, got {proposal!r}")
            return int(array)
        if array.shape != (self.count,):
            raise PolicyError(f"what the policy proposes {rule}, got shape {array.shape}")
        try:
            law = array.astype(float)
        except (TypeError, ValueError, OverflowError):
            raise PolicyError(f"what the policy proposes {rule}, got {proposal!r}") from None
        total = float(law.sum())
        if not (np.all(law >= 0) and abs(total - 1) <= 1e-6):  # NaN fails, too
            raise PolicyError(
                f"probabilities that the policy proposes must be at least 0 and add up to 1, got a smallest of "
                f"{law.min():.6g} and a sum of {total:.6g}"
            )
        return law / total


BuiltIn = Ucb | Thompson | Optimistic

BUILT_IN: dict[str, Callable[[float], BuiltIn]] = {
    "ucb": Ucb,
    "thompson": Thompson,
    "optimistic": lambda _: Optimistic(),
}
"""The library's policies, by name; each is made from the width."""
