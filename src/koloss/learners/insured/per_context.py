"""The insured learner in a world with contexts: who plays in which of them, and what is kept of a round.

A *watch* (`OneByOne`, `Together`, `InTurn`) plays the policy and estimates its regret; a *robust* learner (`Rows`, `OwnRows`) plays
where the policy was stopped. Both say how often a context explores and how; the rest of a round is the policy's, asked once, for
the context at hand, or the robust learner's. Where the policy does worse than exploration it explores more, as a policy may, until
that is plain: a context may be handed over at any time, and the bound holds. Losses are in units of their range, y in [-1/2, 1/2].
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from koloss.core.snapshot import kept
from koloss.learners.insured.bets import SUSPICION, Bets, residual_variance
from koloss.learners.insured.context_policies import ContextPolicy
from koloss.learners.insured.diagnostics import REASONS, told_after
from koloss.learners.insured.exploration import within
from koloss.learners.insured.forecast import Forecaster
from koloss.learners.insured.in_turn import InTurn, OwnRows
from koloss.learners.insured.pending import Pending
from koloss.learners.insured.policies import BuiltIn, Thompson
from koloss.learners.insured.segments import Bools, Floats, OneByOne, Rows, Together
from koloss.learners.ledger import Drawn
from koloss.learners.waiting import Entry


@kept
@dataclass(slots=True, eq=False)
class ContextRound:
    """What is kept of decisions drawn at once: what had been predicted, who played where, what the robust learner needs."""

    number: int  # from 1
    prediction: Floats  # M, (C, K), within [-1/2, 1/2]
    watched: Bools  # (C,): where the policy played
    observed: Any = None  # of the robust learner
    choice: int | None = None  # the pair that the policy chose, of a single decision
    strayed: bool = False  # whether it explored beyond what is counted, on suspicion; so may a single decision alone

    together: ClassVar[bool] = False

    def shrink(self) -> None:
        """There is no less."""


@kept
@dataclass(frozen=True)
class HandOver:
    """A context was handed over to the robust learner, or back to the policy."""

    round: int  # decisions made before it
    context: int  # its row
    reason: str  # "budget", "evidence", "operator" or "short"
    estimated_regret: float  # in the units of the losses
    budget: float
    back: bool = False  # whether the policy plays again

    def describe(self, context: Any) -> str:
        """In words, the context as it was given."""
        after = told_after(self.round)
        if self.back:
            return f"{after} the policy plays again in context {context}: {REASONS[self.reason]}"
        used = f"estimated regret {self.estimated_regret:.4g} of {self.budget:.4g}"
        return f"{after} context {context} was handed over: {REASONS[self.reason]}; {used}"


@kept
class PerContext:
    """Watch, robust learner, policy and forecast of one game."""

    watch: OneByOne | Together | InTurn
    robust: Rows | OwnRows
    policy: BuiltIn | ContextPolicy
    forecaster: Forecaster
    early: bool
    width: float
    pending: Pending
    shape: tuple[int, int]
    bets: list[Bets]
    rounds: Any
    explored: Any
    heard: Any
    paid: Floats
    chances: Any
    passed: list[HandOver]
    asks: int
    at_once: int
    noise: Floats
    late: int

    def __init__(
        self,
        watch: OneByOne | Together | InTurn,
        robust: Rows | OwnRows,
        policy: BuiltIn | ContextPolicy,
        forecaster: Forecaster,  # of all pairs
        *,
        width: float,  # of the range of the losses
    ) -> None:
        self.watch, self.robust, self.policy, self.forecaster = watch, robust, policy, forecaster
        self.early, self.width = watch.one_by_one, width
        self.pending = Pending(forecaster)
        C, _ = self.shape = watch.total.shape
        self.bets = [Bets() for _ in range(C)]
        self.rounds = np.zeros(C, dtype=np.int64)  # decisions of every context
        self.explored = np.zeros(C, dtype=np.int64)
        # Losses of the policy's rounds in every context: those that it chose, and those that were explored.
        self.heard = np.zeros((2, C), dtype=np.int64)
        self.paid = np.zeros((2, C))
        self.chances = np.zeros(C, dtype=np.int64)  # how often the policy was given another one
        self.passed = []
        self.asks = 0
        self.at_once = 0  # decisions drawn at once
        self.noise = np.zeros(C)  # Σ of squared residuals of the predictions
        self.late = 0  # losses heard after a further decision had been made

    # A round.

    def predicted(self) -> Floats:
        """M: the forecast of all pairs, brought into the interval of the losses without leaving the span of the features."""
        return within(self.forecaster.inside).reshape(self.shape)

    def side(self, context: int) -> Any:
        """Who plays in a context: the watch, for the policy, or the robust learner."""
        return self.watch if self.watch.watched[context] else self.robust

    def pairs_of(self, context: int) -> Bools:
        """Of all pairs, those of one context: what a policy of the library's is offered there."""
        C, K = self.shape
        return np.repeat(np.arange(C) == context, K)

    def draw(
        self,
        contexts: Sequence[int],
        rng: Any,
        points: Floats,
        recorded: Sequence[int] = (),
        *,
        single: bool,
    ) -> tuple[ContextRound, Drawn]:
        """Actions for decisions in these contexts, and what their losses will need.

        `recorded` are keys that will take the place of those drawn.
        """
        M, policy, watched = self.predicted(), self.policy, self.watch.watched
        proposals: list[Any] = [None] * len(contexts)
        if isinstance(policy, ContextPolicy):  # which may fail: before anything changes
            proposals = policy.propose_all([c if watched[c] else None for c in contexts])
        keys, probabilities, choice, strayed = [], [], None, False
        for k, c in enumerate(contexts):
            proposal = proposals[k]
            if isinstance(policy, BuiltIn) and watched[c]:
                proposal = self._local(policy.propose(self.pending, self.pairs_of(c), rng), c)
            key, p, strayed = self._one(c, proposal, rng.random(), single)
            keys.append(key)
            probabilities.append(p.item(key if key >= 0 else ~key))
            if single and isinstance(proposal, int):
                choice = c * self.shape[1] + proposal
                self.pending.draw(choice)
            else:
                self.pending.draw(self._spread(p, c))
        self._count(contexts, recorded or keys)
        observed = self.robust.observe(contexts, recorded or keys)
        law = ContextRound(self.asks, M, watched, observed, choice, strayed)
        rows = np.array([key if key >= 0 else ~key for key in keys])
        if single:
            row = int(rows[0])
            return law, Drawn(keys, points[row], row, probabilities[0], contexts)
        return law, Drawn(keys, points[rows], rows, np.array(probabilities), np.array(contexts))

    def _local(self, proposal: Any, context: int) -> Any:
        """A proposal of a pair, or of a law over pairs, as one of an action."""
        K = self.shape[1]
        if isinstance(proposal, int):
            return proposal - context * K
        return proposal[context * K : (context + 1) * K]

    def _spread(self, p: Floats, context: int) -> Floats:
        """A law over the actions of a context, as one over pairs."""
        whole = np.zeros(self.shape)
        whole[context] = p
        return whole.ravel()

    def mixture(self, context: int, proposal: Any) -> tuple[float, Floats, Floats]:
        """γ, what explores, and what is played otherwise."""
        side, K = self.side(context), self.shape[1]
        if side is self.robust:
            q = self.robust.law(context)
        elif isinstance(proposal, int):
            q = np.zeros(K)
            q[proposal] = 1.0
        else:
            q = proposal
        return side.rate(context), side.weights(context), q

    def strays(self, context: int) -> float:
        """Share of the policy's rounds in a context that explore, too, while it does worse than exploration there.

        They are the policy's own as far as its regret is estimated; what they tell is whether to stop it on evidence.
        """
        if not (self.early and self.watch.watched[context]):
            return 0.0
        seen = int(self.heard[:, context].sum())
        if not self.bets[context].suspects(residual_variance(float(self.noise[context]), seen)):
            return 0.0
        rate = self.watch.rate(context)
        return max(SUSPICION - rate, 0.0) / (1 - rate)

    def _one(
        self, context: int, proposal: Any, coin: float, single: bool
    ) -> tuple[int, Floats, bool]:
        """The row of an action, or ~row where it is explored and counted, by one coin; its law, and whether it strayed."""
        rate, pi, q = self.mixture(context, proposal)
        s = self.strays(context) if single else 0.0
        p = (rate + (1 - rate) * s) * pi + (1 - rate) * (1 - s) * q
        if coin < rate:
            return ~_drawn(pi, coin / rate), p, False
        coin = (coin - rate) / (1 - rate)
        if coin < s:
            return _drawn(pi, coin / s), p, True
        return _drawn(q, (coin - s) / (1 - s)), p, False

    def _count(self, contexts: Sequence[int], keys: Sequence[int]) -> None:
        self.asks += 1
        for c, key in zip(contexts, keys, strict=True):
            self.rounds[c] += 1
            self.explored[c] += key < 0
        if len(contexts) > 1:
            self.at_once += len(contexts)

    # Its loss.

    def hears(self) -> bool:
        """Whether the policy plays anywhere."""
        return bool(self.watch.watched.any())

    def learn(self, law: ContextRound, entry: Entry[Any], y: float, made: int) -> None:
        """Learn from a loss, once so many decisions have been made."""
        c, key = entry.context, entry.key
        assert c is not None
        explored, a = key < 0, key if key >= 0 else ~key
        pair = c * self.shape[1] + a
        self.forecaster.update(pair, y)
        self.pending.open(law.choice, pair, entry.heard)
        self.late += made > entry.id + 1
        self.noise[c] += (y - law.prediction.item(c, a)) ** 2
        own, tried = bool(law.watched[c]), explored or law.strayed
        if own:
            self.heard[int(tried), c] += 1
            self.paid[int(tried), c] += y
        self.robust.learn(law.observed, c, a, explored, y)
        over = self.watch.learn(c, a, explored, y, law.prediction, own)
        if over:
            self.hand_over(over, "budget", made)
        if self.early and own and self.watch.watched[c]:
            self.bets[c].add(y, tried)
            if tried and self.bets[c].evidence > 1:
                self.hand_over([c], "evidence", made)

    # Who plays.

    def hand_over(self, contexts: Sequence[int], reason: str, made: int) -> None:
        """The robust learner plays in these contexts from now on."""
        used, budgets, rho = self.watch.used, self.watch.budgets, self.width
        for c in contexts:
            if self.watch.watched[c]:
                regret, budget = float(used[c]) * rho, float(budgets[c]) * rho
                self.passed.append(HandOver(made, c, reason, regret, budget))
        self.watch.hand_over(contexts)
        self.robust.hand_over(contexts)

    def give_back(self, context: int, made: int) -> None:
        """The policy plays in a context again, with its whole budget (theory F6.6c, second chances)."""
        assert isinstance(self.watch, OneByOne)
        assert isinstance(self.robust, Rows)
        self.robust.give_back(context)
        self.watch.begin(context)
        self.bets[context] = Bets()
        self.chances[context] += 1
        budget = float(self.watch.budgets[context]) * self.width
        self.passed.append(HandOver(made, context, "operator", 0.0, budget, back=True))

    # What is known.

    def outlook(self, context: int) -> Floats:
        """Probability of every action in the next decision for a context."""
        proposal: Any = None
        if self.watch.watched[context]:
            if isinstance(self.policy, ContextPolicy):
                proposal = self.policy.look(context)
            else:
                seen = self.policy.law(self.pending.glance(), self.pairs_of(context))
                proposal = self._local(seen, context)
                if isinstance(self.policy, Thompson):
                    proposal = proposal / proposal.sum()
        _, p, _ = self._one(context, proposal, 0.5, single=True)
        return p

    def best(self, context: int) -> int:
        """The best action of a context by the estimates of who plays there."""
        if not self.watch.watched[context] and self.robust.awake[context]:
            return self.robust.best(context)
        K = self.shape[1]
        return int(self.forecaster.mean[context * K : (context + 1) * K].argmin())

    @property
    def premium_paid(self) -> float:
        """Losses of explored actions less what the policy would have paid on average in their contexts."""
        (policy, explored), (chosen, tried) = self.heard, self.paid
        known = policy > 0
        return float(np.sum((tried - explored * chosen / np.maximum(policy, 1))[known]))


def _drawn(p: Floats, uniform: float) -> int:
    """An action by inversion of the cumulative sums."""
    cdf = np.cumsum(p)
    return int(cdf.searchsorted(uniform * cdf[-1], side="right"))
