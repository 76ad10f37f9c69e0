"""One policy under watch: it plays, explores a little, and its own regret is estimated without bias.

Losses are in units of their range here, y in [-1/2, 1/2]. In a round the action is drawn from p = (1 - γ)q + γπ, where q is
the policy's and π explores, and with any prediction M of the round

    x(a) = M(a) + k(a, a_t)(y - M(a_t)),   k(a, b) = φ(a)'Σ⁻¹φ(b),   Σ = E_p φφ',

is an unbiased estimate of the loss of every action a. The account adds up what the policy's losses exceed these by, and keeps
within its budget by the weight with which each is entered.

The share γ of exploration has to keep the account within the budget whatever the next loss is: γ ≥ `rate_needed`. More than that
is explored so that a usual loss uses no more than a part of the room that is left (`jump`); less is needed where losses need not
be counted in full (`thrift`). The design is made anew as the forecast tells actions apart: the leverage of each is to be in
proportion to the noise it can bear. Where the largest share would not do, the stage ends.
"""

from __future__ import annotations

import math
from copy import copy
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from koloss.core import linalg
from koloss.core.snapshot import Matrix, kept
from koloss.guarantees import insured
from koloss.learners.insured.account import Account, Allowance
from koloss.learners.insured.evidence import SUSPICION, Bets, residual_variance
from koloss.learners.insured.exploration import (
    Exploration,
    Floats,
    Round,
    largest,
    lowest,
    smallest,
    within,
)
from koloss.learners.insured.forecast import Forecaster, Local
from koloss.learners.insured.pending import Pending
from koloss.learners.insured.policies import BuiltIn, Thompson, UserPolicy
from koloss.learners.ledger import Drawn

DEAREST = 5.0
"""Largest ratio of prices."""

JUMP = 0.3
"""Share of the room that is left which one loss may use, if that can be had by exploring: ..."""

USUAL = 3.0
"""... one that is within so many deviations of its prediction."""

SPARED, LEAST = 0.5, 1 / 3
"""Share of the room that is left which may go, by the forecast, to losses that are not counted in full; and how much of each is."""


ALIKE = 1e-7
"""Relative difference of the costs of two designs below which they cost the same but for rounding."""

REDESIGN = 16
"""Losses between two looks at whether the exploration should be designed anew."""


@kept
@dataclass(eq=False)
class Watched:
    """A stage: one policy, its estimated regret and budget, and the bets against it."""

    points: Matrix  # the actions, of shape (N, d)
    policy: BuiltIn | UserPolicy
    forecaster: Forecaster | Local  # of all losses here
    first: Exploration  # by the robust learner's design
    allowance: Allowance
    account: Account
    pending: Pending  # what is in flight
    exploration: Exploration = field(init=False)
    designs: int = 1  # explorations designed so far
    priced: float = 0.0  # largest ratio of prices at the last design
    thrift: float = 1.0  # weight that is aimed at, and with it the exploration that is needed
    bets: Bets = field(default_factory=Bets)  # against the policy
    heard: int = 0
    paid: float = 0.0  # A
    noise: float = 0.0  # Σ of squared residuals
    skipped: float = 0.0  # Σ of 1 - w
    explored: int = 0
    explored_paid: float = 0.0
    low: float = -0.5  # where losses and predictions are; learned: what was heard
    high: float = 0.5

    def __post_init__(self) -> None:
        self.exploration = self.first

    def rescale(self, factor: float) -> None:
        """All that was heard in another unit, where the range is learned and has widened."""
        self.account.rescale(factor)
        self.paid, self.explored_paid = self.paid * factor, self.explored_paid * factor
        self.noise *= factor**2

    def _predicted(self) -> Floats:
        """The forecast, brought into the interval of the losses without leaving the span of the features."""
        if not self.allowance.learned:
            return within(self.forecaster.inside)
        middle, half = (self.low + self.high) / 2, (self.high - self.low) / 2
        return within(self.forecaster.inside - middle, half) + middle

    # Its share.

    def rate_needed(
        self,
        choice: int | None,
        budget: float,
        exploration: Exploration | None = None,
        weight: float = 1.0,
    ) -> float:
        """The smallest γ that keeps the account within the budget after one more round of this weight; may be above 1."""
        explore = exploration or self.exploration
        spread = choice is None or self.account.shares is not None
        reach = explore.far_reach() if spread else explore.about(choice)[1]  # type: ignore[arg-type]
        return weight * max(self.account.rate(reach, budget), explore.largest / self.cap(budget))

    def cap(self, budget: float) -> float:
        """R: the largest leverage that exploration may leave."""
        allowance = self.allowance
        cap = budget if allowance.cap is None else allowance.cap
        if not allowance.learned:
            return cap
        # One loss outside of all that was heard costs as much as it is, times this.
        return min(cap, budget * allowance.premium / allowance.share)

    def spare(self, budget: float, left: float) -> Floats:
        """u(a): the variance per round that the account of an action can bear, over so many rounds.

        Where the forecast is sure that an action is worse than the best by g, its account falls by g in every round: noise uses up
        room r + g s in s rounds, at worst after r/g of them.
        """
        room = np.maximum(self.account.room(budget), budget / 2)
        forecaster = self.forecaster
        sure = forecaster.mean - 2 * forecaster.deviation
        mean, offered = forecaster.mean, self.offered
        gap = np.maximum(sure - mean[lowest(mean, offered)], 1e-12)
        s = np.minimum(room / gap, left)
        spare: Floats = np.square(room + gap * s) / s
        if offered is not None:
            spare[~offered] = smallest(spare[offered])
        return spare

    def left(self, made: int) -> float:
        """Rounds to come, or as many as there were where there is no horizon; of a context that has had its share of it one."""
        horizon = self.allowance.horizon
        return max(made if horizon is None else horizon - made, 1.0)

    @property
    def jump(self) -> float:
        """How many times the exploration that the worst loss needs, so that a usual one uses no more than its share of the room."""
        return min(1.0, USUAL * math.sqrt(residual_variance(self.noise, self.heard))) / JUMP

    def exploration_now(self, made: int) -> float:
        """Share of exploration if the best action by the forecast were proposed."""
        if made < self.allowance.warm_up:
            return SUSPICION
        choice = lowest(self.forecaster.mean, self.offered)
        budget = self.allowance.budget(made + 1)
        needed = self.rate_needed(choice, budget, weight=self.thrift)
        needed = max(needed, min(needed * self.jump, insured.CEILING))
        return min(max(needed, SUSPICION) if self.suspicious else needed, 1.0)

    # Its design.

    def redesign(self, budget: float, left: float = math.inf, *, now: bool = False) -> bool:
        """Look at the room that is left, and make a new design once gaps have changed, or `now`; whether there is a new one.

        The leverage of an action is to be in proportion to the variance that its account can bear.
        """
        used = self.account.used
        if budget - 1 - used <= 0:
            return False
        spare = self.spare(budget, left)
        ratios = spare / smallest(spare)
        widest = largest(ratios)
        changed = now or not 0.7 * self.priced <= widest <= 1.4 * self.priced
        made = changed and self._reprice(budget, np.minimum(ratios, DEAREST), now)
        if changed:
            self.priced = widest
        if now:  # nothing else, as nothing more was heard
            return made
        self.thrift = 1.0 if self.allowance.learned else self.enough(budget, left)
        return made

    def enough(self, budget: float, left: float) -> float:
        """The smallest weight of losses with which the account stays well within the budget for so many rounds, by the forecast.

        With a weight w the account of an action of loss l rises by y - w l + (1 - w)/2 in a round, whatever is explored; and the
        exploration that is needed is in proportion to w.
        """
        losses = np.clip(self.forecaster.mean, -0.5, 0.5) + 0.5
        slack = SPARED * self.account.room(budget) / left
        weights = (self.bets.policy_mean + 0.5 - slack) / np.maximum(losses, 1e-12)
        if self.offered is not None:
            weights = weights[self.offered]
        return min(max(largest(weights), LEAST), 1.0)

    def _reprice(self, budget: float, prices: Floats, now: bool) -> bool:
        """Explore by these prices, if that costs less and not by rounding alone."""
        candidate = self.first.priced(self.designs + 1, prices)
        mean = self.forecaster.mean
        choice = lowest(mean, self.offered)
        costs = mean - mean[choice]
        if now:
            costs = np.ones_like(costs)
        old, new = (
            self.rate_needed(choice, budget, one) * float(costs @ one.weights)
            for one in (self.exploration, candidate)
        )
        if new >= old * (1 - ALIKE):
            return False
        self.designs += 1
        self.exploration = candidate
        return True

    # What it goes by.

    @property
    def suspicious(self) -> bool:
        """Whether the policy has done worse than exploration of late."""
        return self.bets.suspects(residual_variance(self.noise, self.heard))

    @property
    def offered(self) -> Any:
        """Which actions are offered; None where all are."""
        return self.account.offered

    # A round.

    def draw(
        self,
        count: int | None,
        rng: Any,
        made: int,
        among: Exploration | None = None,
    ) -> tuple[Round, Drawn] | str:
        """Actions from one law, or why there are none: "open" for now, "budget" for good.

        A request among some of the actions has an exploration of its own.
        """
        size = 1 if count is None else count
        if among is None:
            proposal = self.policy.propose(self.pending, self.offered, rng)
            played = self.prepare(proposal, size, made)
        else:
            played = self.prepare_among(among, size, made, rng)
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

    def prepare_among(self, among: Exploration, count: int, made: int, rng: Any) -> Round | str:
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
            played = self.prepare(proposal, count, made)
        finally:
            self.exploration = usual
        goes_on = self.account.used + 1 <= self.allowance.budget(made + 1)
        return "open" if played == "budget" and goes_on else played

    def prepare(self, proposal: Any, count: int, made: int, *, look: bool = False) -> Round | str:
        """The round of a proposal, for so many actions: how much is explored, what is predicted; or why there is none."""
        prediction = self._predicted()
        allowance = self.allowance
        if self.account.shares is not None:
            proposal = self.account.shares.admit(proposal, -self.forecaster.mean)
        if made + count <= allowance.warm_up:
            choice = proposal if isinstance(proposal, int) else None
            explore = self.first if self.exploration.among is None else self.exploration
            law = proposal if choice is None else None  # on trust
            return Round(choice, SUSPICION, explore, prediction, self.heard, False, law)
        budget = allowance.budget(made + 1)
        if not self.account.may_draw(budget, allowance.debt(made + 1), count):
            return "open" if self.account.used + 1 <= budget else "budget"
        return self.next_round(proposal, prediction, budget, look=look)

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

    def learn(self, played: Round, key: int, y: float, made: int) -> str | None:
        """Learn from a loss; why the stage ends, if it does."""
        explored = key < 0
        weight = 1.0
        if played.counted and not self.allowance.learned:
            budget = self.allowance.budget(made)
            debt = self.allowance.debt(made)
            fits = self.account.weight(played.reach(), budget, debt, played.era)
            weight = min(fits, played.weight)
        index = ~key if explored else key
        if played.counted:
            residual = y - played.prediction.item(index)
            step = played.estimates(index)
            step *= residual
            among = played.exploration.among
            self.account.enter(y, played.prediction + step, weight, step, played.era, among)
            self.paid += y
            self.heard += 1
            self.skipped += 1 - weight
            self.noise += residual * residual
            if explored:
                self.explored += 1
                self.explored_paid += y
        if self.allowance.learned:
            y = min(max(y - (self.low + self.high) / 2, -0.5), 0.5)
        self.bets.add(y, explored)
        if explored and self.bets.evidence > 1:
            return "evidence"
        if self.heard % REDESIGN == 0:
            self.redesign(self.allowance.budget(made + 1), self.left(made))
        return None

    # What is known.

    @property
    def total(self) -> Floats:
        """Estimated losses of every action, summed; infinite where it is not offered."""
        total: Floats = self.paid - self.account.total
        return total if self.offered is None else np.where(self.offered, total, np.inf)

    def offer(self, first: Exploration) -> None:
        """Other actions are offered from now on; explore them by their own design."""
        self.first = self.exploration = first
        self.designs, self.priced = first.number, 0.0

    def outlook(self, made: int) -> Floats | str:
        """Probability of every action in the next single decision, or why the policy will not make it."""
        law = self.policy.law(self.pending.glance(), self.offered)
        if isinstance(self.policy, Thompson):
            played = self.prepare(int(law.argmax()), 1, made, look=True)
            if isinstance(played, str):
                return played
            shares = self.account.shares
            if shares is not None:  # each draw is projected by itself
                values, rows = -self.forecaster.mean, np.flatnonzero(law).tolist()
                law = sum(law[row] * shares.admit(row, values) for row in rows)
            p: Floats = played.rate * played.exploration.weights + (1 - played.rate) * law
            return p
        played = self.prepare(law, 1, made, look=True)
        return played if isinstance(played, str) else played.distribution()

    @property
    def premium_paid(self) -> float:
        """Losses of explored actions less what the policy would have paid on average."""
        policy_rounds = self.heard - self.explored
        if not policy_rounds:
            return 0.0
        mean = (self.paid - self.explored_paid) / policy_rounds
        return self.explored_paid - self.explored * mean
