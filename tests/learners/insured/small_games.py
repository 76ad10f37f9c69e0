"""Small games of an account, every path with its probability (theory F5, "What is not valid, and games that show it").

Two unrelated arms, so that an estimate is x(b) = M(b) + 1{b = a} (y - M(a)) / p(a) and reaches 1 / p(b). Losses have no noise.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import math
from collections import deque
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from koloss.learners.insured.account import Account

HALF = 0.5


@dataclass(frozen=True)
class Item:
    """A round: the law of its action, the losses, and the prediction of them."""

    law: tuple[float, float]
    losses: tuple[float, float]
    prediction: tuple[float, float]

    @functools.cached_property
    def reach(self):
        return 1 / np.array(self.law)

    def estimate(self, action):
        x = np.array(self.prediction)
        x[action] += (self.losses[action] - self.prediction[action]) / self.law[action]
        return x

    def regret(self, action, against=1):
        return self.losses[action] - self.losses[against]

    def mean_regret(self, against=1):
        return sum(p * self.regret(action, against) for action, p in enumerate(self.law))


def costly(q=0.05):
    """It costs 1 - q against arm 1, and is entered there with 1 - w or, if arm 1 was drawn, w (1/q - 1)."""
    return Item((1 - q, q), (HALF, -HALF), (HALF, HALF))


def lifting(chance):
    """It raises Λ(0) by 1 if arm 1 is drawn, which has this chance, and by 0 otherwise, whatever the weight."""
    return Item((1 - chance, chance), (-HALF, HALF), (-HALF, HALF))


def account_at(total, outstanding=0):
    account = Account(len(total))
    account.total = np.array(total, dtype=float)
    account.outstanding = outstanding
    return account


def opened(account, item, action, budget, overdraft):
    """The account after an item, and its weight; the account given stays as it is."""
    after = account_at(account.total, account.outstanding)
    weight = account.weight(item.reach, budget, overdraft)
    after.enter(item.losses[action], item.estimate(action), weight)
    return after, weight


# Random games (game 1).


def chance(*what):
    """A number in [0, 1) from a hash that is the same everywhere."""
    digest = hashlib.blake2b(repr(what).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64


class RandomGame:
    """2 to 5 rounds; proposals, losses and predictions are random functions of what they may know.

    The rules: "draw" and "entry" open in any order, with a prediction at the draw or at the entry; in "order" delays are monotone
    and everybody sees pending actions; in "outcome" a loss is entered with weight 1 if it fits, else skipped.
    """

    def __init__(self, seed, rule):
        self.seed, self.rule = seed, rule
        self.rounds = 2 + int(4 * chance(seed, "rounds"))
        self.budget = 2 + 6 * chance(seed, "budget")
        self.exploration = 0.1 + 0.9 * chance(seed, "exploration")
        longest = min(self.rounds, 3) if rule == "order" else self.rounds
        self.due = [t + int(longest * chance(seed, "delay", t)) for t in range(self.rounds)]
        if rule == "order":
            self.due = list(itertools.accumulate(self.due, max))

    def prediction(self, t, seen):
        return tuple(chance(self.seed, "prediction", t, arm, seen) - HALF for arm in (0, 1))

    def item(self, t, seen):
        """The round that is proposed, and its proposal."""
        proposal = int(2 * chance(self.seed, "proposal", seen))
        law = [self.exploration / 2] * 2
        law[proposal] += 1 - self.exploration
        losses = tuple(
            HALF * (-1) ** int(2 * chance(self.seed, "loss", t, arm, seen)) for arm in (0, 1)
        )
        return Item(tuple(law), losses, self.prediction(t, seen)), proposal

    def weight(self, account, item, action):
        if self.rule != "outcome":
            return account.weight(item.reach, self.budget, 0)
        entry = item.losses[action] - item.estimate(action)
        limit = min(max(self.budget, account.used + 1), self.budget - (account.outstanding - 1))
        return float(np.max(account.total + entry) <= limit)

    def play(self, coins):
        """One path: its probability, the regret against both arms, and the account."""
        account, regret, probability = Account(2), np.zeros(2), 1.0
        pending, heard, drawn = {}, (), ()  # pending: item, proposal, action
        for t in range(self.rounds):
            proposals = tuple((s, proposal) for s, (_, proposal, _) in pending.items())
            if account.may_draw(self.budget, 0):
                item, proposal = self.item(t, drawn if self.rule == "order" else (heard, proposals))
                account.draw()
                action = coins[t]
                pending[t] = item, proposal, action
                drawn += ((t, action),)
                probability *= item.law[action]
                regret += [item.regret(action, against) for against in (0, 1)]
            else:
                probability /= 2  # the coin is not used
            for s in [s for s in pending if self.due[s] <= t]:
                item, _, action = pending[s]
                if self.rule == "entry":
                    proposals = tuple((r, proposal) for r, (_, proposal, _) in pending.items())
                    item = Item(item.law, item.losses, self.prediction(s, (heard, proposals)))
                account.enter(
                    item.losses[action], item.estimate(action), self.weight(account, item, action)
                )
                del pending[s]
                heard += ((s, action),)
        return probability, regret, account

    def excess(self):
        """The expected regret less E[Λ + O], against the worse arm, and the largest Λ + O - D of all paths."""
        excess, over, whole = np.zeros(2), -math.inf, 0.0
        for coins in itertools.product((0, 1), repeat=self.rounds):
            probability, regret, account = self.play(coins)
            excess += probability * (regret - account.total - account.outstanding)
            over = max(over, account.used + account.outstanding - self.budget)
            whole += probability
        assert math.isclose(whole, 1)
        return float(excess.max()), over


# A teller that sees the head of the queue, and an overdraft that is finite (game 6).


def waiting_teller(rng, *, cheats):
    """Costly items in draw order, with full reserve; the regret against arm 1 and Λ(1) when (i) fails and all are entered.

    The teller waits with the oldest item until the room for it is small, and longer, if it cheats, where that is arm 1's.
    """
    budget, account, item, queue, regret = 400.0, Account(2), costly(), deque(), 0.0
    while account.may_draw(budget, 0):
        account.draw()
        action = int(rng.random() >= item.law[0])
        regret += item.regret(action)
        queue.append(action)
        while queue:
            least = 10 if cheats and queue[0] else 20
            room = budget - account.outstanding - account.total[1]
            if account.may_draw(budget, 0) and room > 1 + least:
                break
            action = queue.popleft()
            weight = account.weight(item.reach, budget, 0)
            account.enter(item.losses[action], item.estimate(action), weight)
    return regret, account.total[1]


# An account over all rounds (game 3).


def regained(rng, rounds, *, every_round):
    """The regret against arm 1, over D + B, if the account is kept over every round or over the policy's alone."""
    c = 1 + (math.e**2 - 3) / 4
    bound = math.sqrt(c * 3 * rounds * math.log(3))  # B: of the robust learner, with these rates
    rate = 2 * math.sqrt(math.log(3) / (c * 3 * rounds))
    budget, reach = 1.25 * bound, 0.75 * bound
    policy = np.array([1 - 2 / reach, 1 / reach, 1 / reach])
    account, heard, regret = Account(3), np.zeros(3), 0.0
    for t in range(rounds):
        playing = account.used + 1 + reach <= budget
        if playing:
            law, losses = policy, np.array([0, -HALF, HALF])
        else:
            weights = np.exp(-rate * (heard - heard.min()))
            law = (1 - 0.75 * rate) * weights / weights.sum() + rate / 4
            losses = np.array([HALF, HALF, -HALF] if t < 0.6 * rounds else [HALF, -HALF, HALF])
        action = int(np.searchsorted(law.cumsum()[:2], rng.random()))
        regret += losses[action] - losses[1]
        estimate = np.zeros(3)
        estimate[action] = losses[action] / law[action]
        if not playing:
            heard += estimate
        if playing or every_round:
            account.draw()
            account.enter(losses[action], estimate, 1.0)
    return regret / (budget + bound)


# Exact values: policy, adversary and teller are one opponent that looks for the largest expected excess.


class Excess(NamedTuple):
    """Expected regret against arm 1 less a bound: Λ_n(1) + O_n, or D + min(C, O_T - 1)."""

    ledger: float
    promise: float


@dataclass(frozen=True)
class Opponent:
    """In every state it stops, opens an outstanding item, or draws a kind of item.

    `sees`: it knows the actions of outstanding items; `in_order`: it opens the oldest; `tells_all`: it stops only when nothing
    is outstanding.
    """

    kinds: tuple[Item, ...]
    budget: float
    overdraft: float
    start: tuple[float, float]
    sees: bool = False
    in_order: bool = False
    tells_all: bool = False

    def value(self, draws):
        return self._value(account_at(self.start), (), draws, 0)

    def _value(self, account, queue, draws, at_last_draw):
        """The largest excess from here on; the regret of an item counts when it is opened, or when the game stops."""
        options = [] if self.tells_all and queue else [self._stop(account, queue, at_last_draw)]
        places = range(len(queue))
        if not self.sees:  # items of one kind are alike
            places = [i for i in places if queue[i] not in queue[:i]]
        for i in places[:1] if self.in_order else places:
            options.append(self._open(account, queue, i, draws, at_last_draw))
        if draws and account.may_draw(self.budget, self.overdraft):
            drawn = account_at(account.total, account.outstanding)
            drawn.draw()
            for kind in self.kinds:
                options.append(self._draw(drawn, queue, kind, draws - 1))
        return Excess(*map(max, zip(*options, strict=True)))

    def _stop(self, account, queue, at_last_draw):
        regret = sum(
            item.mean_regret() if action is None else item.regret(action) for item, action in queue
        )
        ledger = account.total[1] - self.start[1] + account.outstanding
        promise = (
            self.budget + min(self.overdraft, at_last_draw - 1) - self.start[1]
            if at_last_draw
            else math.inf
        )
        return Excess(regret - ledger, regret - promise)

    def _draw(self, drawn, queue, kind, draws):
        if not self.sees:
            return self._value(drawn, (*queue, (kind, None)), draws, drawn.outstanding)
        return mean(
            (p, self._value(drawn, (*queue, (kind, action)), draws, drawn.outstanding))
            for action, p in enumerate(kind.law)
        )

    def _open(self, account, queue, i, draws, at_last_draw):
        item, action = queue[i]
        rest = (*queue[:i], *queue[i + 1 :])
        outcomes = enumerate(item.law) if action is None else [(action, 1.0)]
        cases = []
        for a, p in outcomes:
            after, _ = opened(account, item, a, self.budget, self.overdraft)
            value = self._value(after, rest, draws, at_last_draw)
            cases.append((p, Excess(*(item.regret(a) + v for v in value))))
        return mean(cases)


def mean(cases):
    """The mean of values with their probabilities."""
    ledger = promise = 0.0
    for p, value in cases:
        ledger += p * value.ledger
        promise += p * value.promise
    return Excess(ledger, promise)


def random_opponent(seed, overdraft, *, kinds=1, **knows):
    """A state near the limit; one costly kind of item, and so many random ones."""
    rng = np.random.default_rng([24, seed])
    budget = rng.uniform(2, 8)
    start = (budget - rng.uniform(1, 3), budget - rng.uniform(1, budget + 4))
    items = [costly(rng.uniform(0.025, 0.15))]
    for _ in range(kinds):
        law = [rng.uniform(0.05, 1) / 2] * 2
        law[rng.integers(2)] = 1 - law[0]
        losses, prediction = rng.choice([-HALF, HALF], (2, 2)).tolist()
        items.append(Item(tuple(law), tuple(losses), tuple(prediction)))
    return Opponent(tuple(items), budget, overdraft, start, **knows)
