"""Shares of traffic of the insured learner: kept by every law, whoever plays, and by the account (theory F5.8)."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import koloss as kl
from koloss.learners.bandit.shares import Shares
from koloss.learners.insured.account import Account
from koloss.learners.insured.exploration import Round
from tests.learners.insured.games import POINTS, Always, Calls, make
from tests.learners.insured.inside import is_robust, law_of, stage_of
from tests.learners.insured.small_games import chance
from tests.support import inside
from tests.support.hostile import game

LIMITS = {0: (0.1, 1.0), (1, 2, 3): (0.0, 0.05), tuple(range(20, 30)): (0.05, 0.4)}
SHARES = Shares.of(LIMITS, 30)
ROUNDING = 1e-12


def kind(t):
    """The best action, row 25, is in a group with a limit."""
    X = np.asarray(POINTS.X)
    return 0.1 + 0.8 * np.clip(np.sum((X - X[25]) ** 2, axis=1), 0, 1)


def law_played(learner, decision):
    """p of the round of a decision."""
    law = law_of(learner, decision)
    return law.distribution() if isinstance(law, Round) else law.law.p


def misses(law, shares=SHARES):
    """By how much a law misses the shares."""
    masses = np.bincount(shares.group, law, minlength=len(shares.low))
    off = max(np.max(shares.low - masses), np.max(masses - shares.high), -law.min())
    return max(off, abs(law.sum() - 1))


# Whole games.


class Wild(Calls):
    """Proposes a row, or a law that knows nothing of shares."""

    def __init__(self):
        super().__init__(lambda count: count % 30 if count % 3 else np.eye(30)[count % 30])


GAMES = {
    "ucb": {},
    "thompson": {"policy": "thompson"},
    "own": {"policy": "own"},
    "anytime": {"horizon": None},
    "learned": {"loss_range": "learn"},
    "plain": {"ridge": 0.0},
    "any": {"robust_kernel": "any"},
    "short": {"horizon": 20},
}


def play_all_ways(learner, rounds, seed, losses=kind):
    """Single decisions and batches, some told late, handed over and re-armed; the laws of all."""
    rng, laws, waiting = np.random.default_rng(seed), [], []
    for t in range(rounds):
        if t == rounds // 2:
            learner.hand_over()
        if t == 2 * rounds // 3:
            learner.re_arm()
        count = int(rng.integers(2, 6)) if rng.random() < 0.1 and learner.settings.loss_range != "learn" else None  # fmt: skip
        decision = learner.ask(count)
        law = learner.ledger.current
        laws.append(law.distribution() if isinstance(law, Round) else law.law.p)
        waiting.append((t, decision))
        late = rng.random() < 0.2 and learner.settings.loss_range != "learn"
        while waiting and not (late and len(waiting) < 5):
            s, one = waiting.pop(0)
            learner.tell(one, losses(s)[one.index])
    return laws


@pytest.mark.slow
@pytest.mark.parametrize("game", GAMES)
def test_every_law_is_within_the_shares(game):
    said = dict(GAMES[game])
    if said.get("policy") == "own":
        said["policy"] = Wild()
    learner = make(shares=LIMITS, **said)
    laws = play_all_ways(learner, 240, 1)
    assert max(map(misses, laws)) <= ROUNDING


@pytest.mark.slow
def test_rounds_of_all_kinds_occur_in_these_games():
    learner = make(shares=LIMITS, horizon=None)
    played = set()
    for t in range(400):
        if t == 300:
            learner.hand_over()
        decision = learner.ask()
        law = law_of(learner, decision)
        played.add(law.counted if isinstance(law, Round) else "robust")
        assert misses(law_played(learner, decision)) <= ROUNDING
        assert misses(learner.distribution) <= ROUNDING
        learner.tell(decision, kind(t)[decision.index])
    assert played == {True, False, "robust"}  # in the account, on trust, robust


@pytest.mark.slow
def test_what_is_played_is_what_the_shares_allow_of_the_best():
    learner = make(shares=LIMITS, rng=3)
    for t in range(600):
        decision = learner.ask()
        learner.tell(decision, kind(t)[decision.index])
    law, best = law_of(learner, learner.ask()), -SHARES.best(-kind(0))
    assert not is_robust(learner)
    assert law.law[25] == pytest.approx(0.4)  # all that its group may have
    assert best <= law.law @ kind(0) < best + 0.005
    assert kind(0).min() < best - 0.02


@pytest.mark.slow
def test_exploration_priced_anew_stays_within_the_shares():
    learner = make(shares=LIMITS)
    prices = np.random.default_rng(0).uniform(1, 5, 30)
    priced = inside.first_exploration(learner).priced(2, prices)
    assert misses(priced.weights) <= ROUNDING
    assert np.abs(priced.weights - inside.first_exploration(learner).weights).max() > 0.01
    W, weights = priced.features, priced.weights
    np.testing.assert_allclose(W.T @ (weights[:, None] * W), np.eye(W.shape[1]), atol=1e-8)
    free = inside.first_exploration(make()).priced(2, prices)
    assert misses(free.weights) > 0.01
    learner = make(kl.Points(np.linspace(0, 1, 30)[:, None]), kl.Gaussian(0.3), shares=LIMITS)
    for t in range(400):
        decision = learner.ask()
        learner.tell(decision, kind(t)[decision.index])
    stage = stage_of(learner)
    assert stage.designs > 1  # it has happened in a game, too
    assert misses(stage.exploration.weights) <= ROUNDING


def test_a_group_that_is_not_explored_may_be_priced():
    points = kl.Points(np.linspace(0, 1, 30)[:, None])
    free = inside.first_exploration(make(points, kl.Gaussian(0.5)))
    rows = tuple(np.flatnonzero(free.weights == 0)[:3].tolist())
    learner = make(points, kl.Gaussian(0.5), shares={rows: (0.0, 0.5)})
    np.testing.assert_array_equal(inside.first_exploration(learner).weights, free.weights)
    priced = inside.first_exploration(learner).priced(2, np.linspace(1, 5, 30))
    np.testing.assert_allclose(priced.weights, free.priced(2, np.linspace(1, 5, 30)).weights)


def test_negative_control_projecting_the_policy_alone_breaks_the_shares():
    limits = {(1, 2, 3): (0.0, 0.01)}
    learner, shares = make(shares=limits), Shares.of(limits, 30)
    stage = stage_of(learner)
    stage.exploration = inside.first_exploration(make())
    law = law_of(learner, learner.ask())
    assert misses(law.law, shares) <= ROUNDING  # the policy's own part
    assert misses(law.distribution(), shares) > 0.01


def test_negative_control_projecting_the_exploration_alone_breaks_the_shares():
    found = []
    for row in range(0, 30, 6):
        learner = make(policy=Always(row), shares=LIMITS)
        stage_of(learner).account.shares = None
        law = law_of(learner, learner.ask())
        assert misses(law.exploration.weights) <= ROUNDING
        found.append(misses(law.distribution()))
    assert max(found) > 0.05


def test_without_shares_a_single_proposal_is_played_as_before():
    decision = (learner := make(policy=Always(7))).ask()
    assert law_of(learner, decision).choice == 7
    decision = (learner := make(policy=Always(7), shares={0: (0.0, 1.0)})).ask()
    assert law_of(learner, decision).choice is None


# The account.


def vertices(shares):
    """All vertices of Π, by brute force: an action in each group, and masses of which all but one are at a limit."""
    K, members = (
        len(shares.low),
        [np.flatnonzero(shares.group == i) for i in range(len(shares.low))],
    )
    found = []
    for free in range(K):
        others = [i for i in range(K) if i != free]
        for ends in itertools.product((0, 1), repeat=K - 1):
            masses = np.zeros(K)
            masses[others] = [(shares.low, shares.high)[e][i] for e, i in zip(ends, others, strict=True)]  # fmt: skip
            masses[free] = 1 - masses.sum()
            if shares.low[free] - 1e-12 <= masses[free] <= shares.high[free] + 1e-12:
                for rows in itertools.product(*members):
                    law = np.zeros(len(shares.group))
                    law[list(rows)] = masses
                    found.append(law)
    return np.array(found)


SMALL = Shares.of({0: (0.3, 0.5), (1, 2): (0.1, 0.4)}, 5)
CORNERS = vertices(SMALL)


def filled(total, outstanding=0, shares=SMALL):
    account = Account(len(total), shares)
    account.total, account.outstanding = np.array(total, dtype=float), outstanding
    return account


@given(st.integers(0, 10**6))
def test_the_account_looks_at_every_law_within_the_shares(seed):
    rng = np.random.default_rng(seed)
    account = filled(rng.normal(size=5) * 8, int(rng.integers(1, 4)))
    assert account.used == pytest.approx(np.max(CORNERS @ account.total))
    budget, overdraft = rng.uniform(2, 20), rng.choice([0, 2, math.inf])
    reach = rng.uniform(1, 30, 5)
    weight = account.weight(reach, budget, overdraft)
    limit = min(budget, budget + overdraft - (account.outstanding - 1)) - 1
    ends = CORNERS @ account.total + weight * (CORNERS @ reach)
    assert 0 <= weight <= 1
    if weight > 0:
        assert np.max(ends) <= limit + 1e-9
    if weight < 1:
        assert np.max(ends) >= limit - 1e-9  # and no larger weight fits
    rate = account.rate(reach, budget)
    if account.used < budget - 1:
        needed = np.max(CORNERS @ account.total + CORNERS @ reach / rate)
        assert needed == pytest.approx(budget - 1, abs=1e-8)
    else:
        assert rate == math.inf


class SmallGame:
    """Three arms and a few rounds, told in some order; every path, with its probability.

    Losses, predictions and proposals are random functions of what has been opened.
    """

    SHARES = Shares.of({0: (0.2, 1.0), 2: (0.0, 0.3)}, 3)

    def __init__(self, seed, reach=1.0):
        self.seed, self.reach = seed, reach
        self.rounds, self.budget = 2 + int(2 * chance(seed, "rounds")), 2 + 6 * chance(seed, "D")
        self.overdraft = int(3 * chance(seed, "C"))
        self.due = [t + int(3 * chance(seed, "delay", t)) for t in range(self.rounds)]
        self.corners = vertices(self.SHARES)
        self.explores = self.SHARES.project(np.zeros(3))

    def random(self, *what):
        return np.array([chance(self.seed, arm, *what) - 0.5 for arm in range(3)])

    def play(self, coins):
        account, regret, probability, over = Account(3, self.SHARES), np.zeros(3), 1.0, -math.inf
        pending, heard, drawn = {}, (), 0
        for t in range(self.rounds):
            if account.may_draw(self.budget, self.overdraft):
                account.draw()
                drawn = account.outstanding
                rate = 0.2 + 0.8 * chance(self.seed, "rate", heard)
                proposal = self.SHARES.admit(int(3 * chance(self.seed, "j", heard)), np.zeros(3))
                law = (1 - rate) * proposal + rate * self.explores
                losses = np.sign(self.random("loss", t, heard)) / 2
                pending[t] = law, losses, coins[t]
                probability *= law[coins[t]]
                regret += losses[coins[t]] - losses
            else:
                probability /= 3  # the coin is not used
            over = max(over, self._over(account, drawn))
            for s in [s for s in pending if self.due[s] <= t]:
                law, losses, action = pending.pop(s)
                weight = account.weight(self.reach / law, self.budget, self.overdraft)
                x = np.sign(self.random("prediction", s, heard)) / 2
                x[action] += (losses[action] - x[action]) / law[action]
                account.enter(losses[action], x, weight)
                heard += ((s, action),)
                over = max(over, self._over(account, drawn))
        return probability, regret, account, over

    def _over(self, account, drawn):
        """Λ + O less what is promised."""
        if not drawn:
            return -math.inf
        largest = np.max(self.corners @ account.total) + account.outstanding
        return largest - self.budget - min(self.overdraft, drawn - 1)

    def values(self):
        """The largest expected excess of regret over Λ(r) + O, and the largest excess of Λ + O on any path."""
        excess, worst, whole = np.zeros(3), -math.inf, 0.0
        for coins in itertools.product(range(3), repeat=self.rounds):
            probability, regret, account, over = self.play(coins)
            excess += probability * (regret - account.total - account.outstanding)
            worst, whole = max(worst, over), whole + probability
        assert math.isclose(whole, 1)
        return np.max(self.corners @ excess), worst


@pytest.mark.slow
def test_small_games_are_valid_against_every_law_within_the_shares():
    values = [SmallGame(seed).values() for seed in range(150)]
    assert max(excess for excess, _ in values) <= 1e-9
    assert max(over for _, over in values) <= 1e-9
    assert max(over for _, over in values) > -0.5  # and the promise is nearly attained


@pytest.mark.slow
def test_negative_control_estimates_that_reach_farther_break_the_promise():
    assert max(SmallGame(seed, reach=0.3).values()[1] for seed in range(150)) > 0.1


def test_an_action_that_cannot_be_played_alone_does_not_stop_a_policy():
    account = filled([-20.0, 30.0, 0.0, -20.0, -20.0])
    assert Account(5).used == 0
    assert account.total.max() == 30
    assert account.used == pytest.approx(0.3 * -20 + 0.4 * 30 + 0.3 * -20)
    assert account.may_draw(5.0, 0)
    account.shares = None
    assert not account.may_draw(5.0, 0)


# What is promised.


def test_the_budget_pays_for_the_leverage_of_the_design():
    learner, free = make(shares=LIMITS, ridge=0.0), make(ridge=0.0)
    psi2 = (math.exp(2) - 3) / 4
    for one in (learner, free):
        leverage = inside.first_exploration(one).largest
        B = math.sqrt((leverage + psi2 * one.rank) * 1000 * math.log(30))
        assert one.guarantee().terms["budget"] == pytest.approx(1.25 * B)
    assert inside.first_exploration(learner).largest > 1.5 * inside.first_exploration(free).largest


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["ucb", "stubborn"])
def test_regret_against_the_best_law_is_within_the_bound(policy, request):
    """The adversary predicts: the loss is largest where the law is most likely to go, as far as the shares let it."""
    points, kernel, n = kl.Points(np.linspace(0, 1, 30)[:, None]), kl.Gaussian(0.3), 1500
    K = kernel(points.X, points.X)
    own = policy == "stubborn"
    if own:
        request.getfixturevalue("patient")
    said = {"policy": Always(25)} if own else {}
    learner = make(points, kernel, horizon=n, shares=LIMITS, **said)
    played, promise = game(learner, lambda t, p: K[np.argmax(p)], n), learner.guarantee()
    inside, best = sum(promise.terms.values()), -SHARES.best(-played.total)
    assert played.mean - best <= inside
    assert best > played.total.min() + 10  # against one action the shares cost more
    assert played.regrets.max() <= inside + promise.price
