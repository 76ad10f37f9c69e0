"""Policies that are asked for a context: the library's see pairs of a context and an action, yours sees the context."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from koloss.errors import PolicyError
from koloss.learners.insured.policies import Missing, UserPolicy
from koloss.learners.reading import Reader


class PolicyWithContexts(Protocol):
    """What an object needs to be insured where there are contexts.

    It is asked once for every decision, for the context at hand, as long as it plays there, and hears all losses.
    """

    def propose(self, context: Any) -> Any:
        """The row of the action it would play in this context, or an array of K probabilities."""

    def hear(self, index: int, loss: float, context: Any) -> Any:
        """Hear the loss of the action in row `index`, played in this context."""


class ContextPolicy(UserPolicy):
    """A policy of the user's that is asked for contexts; whatever it does wrong becomes a `PolicyError`."""

    def __init__(
        self, policy: Any, count: int, shown: Callable[[int], Any], kept: dict[int, Any] | None = None
    ) -> None:  # fmt: skip
        super().__init__(policy, count)
        self.shown = shown  # a context as the policy sees it, by its row
        self._kept = {} if kept is None else kept  # proposals that were looked at and not played

    def propose(self, context: int) -> Any:  # type: ignore[override]
        proposal = self.look(context)
        self._kept.pop(context, None)
        return proposal

    def propose_all(self, contexts: Sequence[int | None]) -> list[Any]:
        """Proposals for several decisions, none where there is no context; if one fails, nothing has been asked."""
        kept = dict(self._kept)
        try:
            return [None if c is None else self.propose(c) for c in contexts]
        except PolicyError:
            self._kept = kept
            raise

    def look(self, context: int) -> Any:
        """Its next proposal for a context, which is kept until it is played or a loss is heard."""
        if context not in self._kept:
            shown = self.shown(context)
            given = self._call("propose", lambda: self.policy.propose(shown))  # type: ignore[call-arg]
            self._kept[context] = self._checked(given)
        return self._kept[context]

    def hear(self, index: int, loss: float, context: int) -> None:  # type: ignore[override]
        shown = self.shown(context)
        self._call("hear", lambda: self.policy.hear(index, loss, shown))  # type: ignore[call-arg]
        self._kept.clear()

    def state(self) -> dict[str, Any]:
        kept = [[context, proposal] for context, proposal in self._kept.items()]
        return {**super().state(), "next": kept}

    @classmethod
    def restored_for(
        cls, policy: Any, count: int, shown: Callable[[int], Any], data: Reader, contexts: int
    ) -> ContextPolicy:
        """The policy of a snapshot, in the object given for it."""
        own, kept = data.raw("own"), {}
        pairs = data.items("next")
        for k in range(len(pairs)):
            pair = pairs.items(str(k), 2)
            proposal: Any = pair.raw("1")
            is_law = isinstance(proposal, np.ndarray)
            proposal = pair.distribution("1", count) if is_law else pair.count("1", 0, count - 1)
            kept[pair.count("0", 0, contexts - 1)] = proposal
        restored = cls(Missing(own) if policy is None else policy, count, shown, kept)
        if own is not None and callable(getattr(policy, "restore", None)):
            restored._call("restore", lambda: policy.restore(own))
        return restored
