"""Policies that are asked for a context: the library's see pairs of a context and an action, yours sees the context."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from koloss.core.snapshot import kept
from koloss.errors import PolicyError
from koloss.learners.insured.policies import UserPolicy


class PolicyWithContexts(Protocol):
    """What an object needs to be insured where there are contexts.

    It is asked once for every decision, for the context at hand, as long as it plays there, and hears all losses.
    """

    def propose(self, context: Any) -> Any:
        """The row of the action it would play in this context, or an array of K probabilities."""

    def hear(self, index: int, loss: float, context: Any) -> Any:
        """Hear the loss of the action in row `index`, played in this context."""


@kept
class ContextPolicy(UserPolicy):
    """A policy of the user's that is asked for contexts; whatever it does wrong becomes a `PolicyError`."""

    _kept: dict[int, Any]  # proposals that were looked at and not played

    def __init__(self, policy: Any, count: int, shown: Callable[[int], Any]) -> None:
        super().__init__(policy, count)
        self.shown = shown  # a context as the policy sees it, by its row
        self._kept = {}

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
