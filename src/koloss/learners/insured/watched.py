"""One policy under watch: it plays, explores a little, and its own regret is estimated without bias.

Losses are in units of their range here, y in [-1/2, 1/2]. In a round the action is drawn from p = (1 - γ)q + γπ, where q is
the policy's and π explores, and with any prediction M of the round

    x(a) = M(a) + k(a, a_t)(y - M(a_t)),   k(a, b) = φ(a)'Σ⁻¹φ(b),   Σ = E_p φφ',

is an unbiased estimate of the loss of every action a. The account adds up what the policy's losses exceed these by, and keeps
within its budget by the weight with which each is entered. The share γ of exploration is such that a loss that comes at once
uses no more than a part of the room that is left, and such that noise alone is unlikely to use it all. Where the largest share
would not do, the stage ends.
"""

from __future__ import annotations

import math
from copy import copy
from typing import Any, Protocol

import numpy as np

from koloss.core import linalg
from koloss.core.snapshot import Matrix, kept
from koloss.guarantees import insured
from koloss.learners.insured.account import Account
from koloss.learners.insured.allowance import Allowance
from koloss.learners.insured.bets import SUSPICION, Bets
from koloss.learners.insured.exploration import Exploration, Floats, lowest, within
from koloss.learners.insured.explorer import Explorer
from koloss.learners.insured.forecast import Forecaster, Local
from koloss.learners.insured.pending import Pending
from koloss.learners.insured.policies import BuiltIn, Thompson, UserPolicy
from koloss.learners.insured.rounds import Round
from koloss.learners.ledger import Drawn

REDESIGN = 16
"""Losses between two looks at whether the exploration should be designed anew."""


class Clock(Protocol):
    """What a stage knows of time."""

    @property
    def made(self) -> int:
        """Decisions made in its context."""


@kept
class Watched(Explorer):
    """A stage: one policy, its estimated regret and budget, and the bets against it."""

    points: Matrix  # the actions, of shape (N, d)
    policy: BuiltIn | UserPolicy
    pending: Pending
    paid: float = 0.0  # A
    skipped: float = 0.0  # Σ of 1 - w
    explored: int = 0
    explored_paid: float = 0.0
    low: float = -0.5  # where losses and predictions are; learned: what was heard
    high: float = 0.5

    def __init__(
        self,
        points: Floats,  # the actions, of shape (N, d)
        policy: BuiltIn | UserPolicy,
        forecaster: Forecaster | Local,  # of all losses here
        first: Exploration,  # by the robust learner's design
        allowance: Allowance,
        account: Account,
        pending: Pending,  # what is in flight
    ) -> None:
        super().__init__(first, allowance, account, forecaster)
        self.points, self.policy = points, policy
        self.pending = pending
        self.begin()

    def begin(self) -> None:
        """Play, for the first time or again: evidence against the policy is gathered anew."""
        self.bets = Bets()

    def rescale(self, factor: float) -> None:
        """All that was heard in another unit, where the range is learned and has widened."""
        self.paid, self.explored_paid = self.paid * factor, self.explored_paid * factor
        self.noise *= factor**2

    def _predicted(self) -> Floats:
        """The forecast, brought into the interval of the losses without leaving the span of the features."""
        if not self.allowance.learned:
            return within(self.forecaster.inside)
        middle, half = (self.low + self.high) / 2, (self.high - self.low) / 2
        return within(self.forecaster.inside - middle, half) + middle

    # A round.

    def draw(
        self,
        count: int | None,
        rng: Any,
        clock: Clock,
        among: Exploration | None = None,
    ) -> tuple[Round, Drawn] | str:
        """Actions from one law, or why there are none: "open" for now, "budget" for good.

        A request among some of the actions has an exploration of its own.
        """
        size = 1 if count is None else count
        if among is None:
            proposal = self.policy.propose(self.pending, self.offered, rng)
            played = self.prepare(proposal, size, clock)
        else:
            played = self.prepare_among(among, size, clock, rng)
        if isinstance(played, str):
            return played
        if played.counted:
            self.account.draw(size)
        points = self.points
        if count is None:
            key = played.draw(rng.random())
            index = key if key >= 0 else ~key
            return played, Drawn((key,), points[index], index, played.probability(index))
        keys = played.draw_many(rng.random(size))
        rows = np.where(keys < 0, ~keys, keys)
        return played, Drawn(keys.tolist(), points[rows], rows, played.distribution()[rows])

    def prepare_among(self, among: Exploration, count: int, clock: Clock, rng: Any) -> Round | str:
        """The round of a request among some of the actions; where too much would have to be explored, there is none for now."""
        allowed, mean = among.among, self.forecaster.mean
        proposal = self.policy.propose(self.pending, allowed, rng)
        if not isinstance(proposal, int):
            proposal = np.where(allowed, proposal, 0.0)
            mass = float(proposal.sum())
            proposal = proposal / mass if mass > 0 else lowest(mean, allowed)
        elif not allowed[proposal]:  # the best of those allowed, by the forecast
            proposal = lowest(mean, allowed)
        usual, self.exploration = self.exploration, among
        try:
            played = self.prepare(proposal, count, clock)
        finally:
            self.exploration = usual
        return (
            "open"
            if played == "budget" and self.account.used + 1 <= self.allowance.budget(clock.made + 1)
            else played
        )

    def prepare(
        self, proposal: Any, count: int, clock: Clock, *, look: bool = False
    ) -> Round | str:
        """The round of a proposal, for so many actions: how much is explored, what is predicted; or why there is none."""
        prediction = self._predicted()
        allowance, made = self.allowance, clock.made
        if self.account.shares is not None:
            proposal = self.account.shares.admit(proposal, -self.forecaster.mean)
        if made + count <= allowance.warm_up:
            return self.trial(proposal, prediction)
        budget = allowance.budget(made + 1)
        if not self.account.may_draw(budget, allowance.debt(made + 1), count):
            return "open" if self.account.used + 1 <= budget else "budget"
        return self.next_round(proposal, prediction, budget, look=look)

    def trial(self, proposal: Any, prediction: Floats) -> Round:
        """A round that is played on trust."""
        choice = proposal if isinstance(proposal, int) else None
        law = proposal if choice is None else None
        explore = self.first if self.exploration.among is None else self.exploration
        return Round(choice, SUSPICION, explore, prediction, self.heard, False, law)

    def next_round(
        self,
        proposal: Any,
        prediction: Floats,
        budget: float,
        *,
        look: bool = False,
    ) -> Round | str:
        """Prepare a round for a policy's action or law; or why there is none: too much exploration.

        With `look` nothing of the stage changes.
        """
        choice = proposal if isinstance(proposal, int) else None
        rate, explore = self.rate_needed(choice, budget), self.exploration
        if rate > insured.CEILING:
            before = self.exploration, self.designs, self.priced, self.forecaster
            if look:
                self.forecaster = copy(self.forecaster)  # which remembers what it was asked for
            if explore.among is None and self.redesign(budget, now=True):
                rate, explore = self.rate_needed(choice, budget), self.exploration
            if look:
                self.exploration, self.designs, self.priced, self.forecaster = before
            if rate > insured.CEILING:
                return "budget"
        rate *= self.thrift
        wanted = max(rate, min(rate * self.jump, insured.CEILING))
        if self.suspicious:
            wanted = max(wanted, SUSPICION)
        played = Round(choice, wanted, explore, prediction, self.heard)
        # An error of the features costs ε w(1 + √leverage), and is to cost ε(1 + √R) at most.
        played.weight = min(1.0, math.sqrt(wanted * self.cap(budget) / explore.largest))
        if choice is None:
            played.law = proposal
            law = (1 - wanted) * proposal
            played.factor = linalg.mixed_factor(explore.features, law, wanted)
        return played

    # Its loss.

    def learn(self, played: Round, key: int, y: float, clock: Clock) -> str | None:
        """Learn from a loss; why the stage ends, if it does."""
        explored = key < 0
        weight = 1.0
        if played.counted and not self.allowance.learned:
            budget = self.allowance.budget(clock.made)
            debt = self.allowance.debt(clock.made)
            fits = self.account.weight(played.reach(), budget, debt, played.era)
            weight = min(fits, played.weight)
        index = ~key if explored else key
        if played.counted:
            residual = y - played.prediction.item(index)
            step = played.estimates(index)
            step *= residual
            among = played.exploration.among
            self.account.enter(y, played.prediction + step, weight, step, played.era, among)
            self.note(y, residual, explored, weight)
        if self.allowance.learned:
            y = min(max(y - (self.low + self.high) / 2, -0.5), 0.5)
        self.bets.add(y, explored)
        if explored and self.bets.evidence > 1:
            return "evidence"
        if self.heard % REDESIGN == 0:
            self.redesign(self.allowance.budget(clock.made + 1), self.left(clock.made))
        return None

    def note(self, y: float, residual: float, explored: bool, weight: float) -> None:
        """Take note of a loss of the policy's that has been entered."""
        self.paid += y
        self.heard += 1
        self.skipped += 1 - weight
        self.noise += residual * residual
        if explored:
            self.explored += 1
            self.explored_paid += y

    # What is known.

    @property
    def estimated_regret(self) -> float:
        """The largest of the account."""
        return self.account.used

    @property
    def total(self) -> Floats:
        """Estimated losses of every action, summed; infinite where it is not offered."""
        total: Floats = self.paid - self.account.total
        return total if self.offered is None else np.where(self.offered, total, np.inf)

    def offer(self, first: Exploration) -> None:
        """Other actions are offered from now on; explore them by their own design."""
        self.first = self.exploration = first
        self.designs, self.priced = first.number, 0.0

    def outlook(self, clock: Clock) -> Floats | str:
        """Probability of every action in the next single decision, or why the policy will not make it."""
        law = self.policy.law(self.pending.glance(), self.offered)
        if isinstance(self.policy, Thompson):
            played = self.prepare(int(law.argmax()), 1, clock, look=True)
            if isinstance(played, str):
                return played
            shares = self.account.shares
            if shares is not None:  # each draw is projected by itself
                values, rows = -self.forecaster.mean, np.flatnonzero(law).tolist()
                law = sum(law[row] * shares.admit(row, values) for row in rows)
            p: Floats = played.rate * played.exploration.weights + (1 - played.rate) * law
            return p
        played = self.prepare(law, 1, clock, look=True)
        return played if isinstance(played, str) else played.distribution()

    @property
    def premium_paid(self) -> float:
        """Losses of explored actions less what the policy would have paid on average."""
        policy_rounds = self.heard - self.explored
        if not policy_rounds:
            return 0.0
        mean = (self.paid - self.explored_paid) / policy_rounds
        return self.explored_paid - self.explored * mean
