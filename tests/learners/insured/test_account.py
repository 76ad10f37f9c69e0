"""The account of a policy: entries, weights, and its promise on every path (theory F5)."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from koloss.learners.insured.account import Account
from tests.learners.insured.small_games import HALF, account_at

ROUNDING = 1e-9

# Entries and weights.


def kernel(rng, actions, exploration):
    """k(a, b) of random features and a law that explores: the estimate of a when b was drawn, per residual."""
    features = rng.normal(size=(actions, int(rng.integers(1, actions + 1))))
    law = np.full(actions, exploration / actions)
    law[rng.integers(actions)] += 1 - exploration
    return features @ np.linalg.pinv(features.T * law @ features) @ features.T


def brute_force_weight(account, reach, budget, overdraft):
    """The largest weight of Theorem F5.4 (ii), by bisection."""
    largest = max(account.total)
    limit = min(max(budget, largest + 1), budget + overdraft - (account.outstanding - 1))

    def fits(w):
        return all(
            total + 1 + w * r <= limit for total, r in zip(account.total, reach, strict=True)
        )

    low, high = 0.0, 1.0
    if fits(high) or not fits(low):
        return high if fits(high) else low
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


@given(
    seed=st.integers(0, 10**6),
    overdraft=st.sampled_from([0.0, 0.5, 3.0, math.inf]),
    crowd=st.integers(0, 9),
)
def test_weight_is_the_largest_that_fits(seed, overdraft, crowd):
    rng = np.random.default_rng(seed)
    budget = rng.uniform(1, 40)
    reach = np.abs(kernel(rng, 4, rng.uniform(0.01, 1))).max(axis=1)
    used = budget + rng.choice([rng.uniform(-30, 3), -1.0, 0.0])
    account = account_at(used - rng.choice([0, 1, 30], 4) * rng.random(4), 1 + crowd)
    account.total[0] = budget - 50
    reach[0] *= rng.integers(2)  # an action with room that no estimate reaches
    weight = account.weight(reach, budget, overdraft)
    assert weight == pytest.approx(brute_force_weight(account, reach, budget, overdraft), abs=1e-9)
    assert 0 <= weight <= 1


def test_weights_by_hand():
    account, reach = account_at([7.0, 0.0], 3), np.array([4.0, 1.0])
    assert account.weight(reach, 20, math.inf) == 1
    assert account.weight(reach, 10, math.inf) == 0.5
    assert account.weight(reach, 10, 1) == 0.25  # two others are out: it must end at 9
    assert account.weight(reach, 10, 0) == 0
    assert account.weight(reach, 8, math.inf) == 0


@given(seed=st.integers(0, 10**6), y=st.floats(-0.5, 0.5), weight=st.floats(0, 1))
def test_an_entry_raises_the_account_by_what_it_may(seed, y, weight):
    # Lemma F5.2, and the sum itself.
    rng = np.random.default_rng(seed)
    k, prediction, action = (
        kernel(rng, 3, rng.uniform(0.01, 1)),
        rng.uniform(-0.5, 0.5, 3),
        rng.integers(3),
    )
    estimate = prediction + k[:, action] * (y - prediction[action])
    account = account_at([1.0, -2.0, 0.0], 2)
    account.enter(y, estimate, weight)
    raised = account.total - [1, -2, 0]
    assert account.outstanding == 1
    for a in range(3):
        assert raised[a] == pytest.approx(y - weight * estimate[a] + (1 - weight) / 2, abs=1e-9)
        assert raised[a] <= 1 + weight * np.abs(k[a]).max() + ROUNDING


@pytest.mark.parametrize("weight", [0.0, 0.3, 1.0])
def test_an_entry_can_raise_the_account_by_all_it_may(weight):
    # The largest loss where the least was predicted, with k(0, a) = -4 for the action drawn.
    account, reach = account_at([0.0], 1), 4.0
    account.enter(HALF, np.array([-HALF - reach * (HALF - -HALF)]), weight)
    assert account.used == pytest.approx(1 + weight * reach)


@pytest.mark.parametrize("y", [-0.5, 0.1, 0.5])
def test_a_skipped_loss_needs_no_estimate(y):
    without, ignored = account_at([1.0, 2.0], 1), account_at([1.0, 2.0], 1)
    without.enter(y, None, 0.0)
    ignored.enter(y, np.array([9.0, -9.0]), 0.0)
    assert without.total.tolist() == ignored.total.tolist() == pytest.approx([1.5 + y, 2.5 + y])
    assert without.outstanding == ignored.outstanding == 0


@given(
    used=st.floats(-5, 5),
    out=st.integers(0, 5),
    budget=st.floats(0, 8),
    overdraft=st.sampled_from([0.0, 2.5, math.inf]),
    count=st.integers(1, 6),
)
def test_rounds_drawn_together_are_rounds_drawn_one_by_one(used, out, budget, overdraft, count):
    together, singly = account_at([used, used - 1], out), account_at([used, used - 1], out)
    allowed = True
    for _ in range(count):
        allowed = allowed and singly.may_draw(budget, overdraft)
        singly.draw()
    assert together.may_draw(budget, overdraft, count) == allowed
    together.draw(count)
    assert together.outstanding == singly.outstanding == out + count


# The promise on every path (Theorem F5.4).


TELLING = {
    "at once": lambda rng, t: t,
    "fixed": lambda rng, t: t + 5,
    "random": lambda rng, t: t + rng.integers(12),
    "bursts": lambda rng, t: t - t % 10 + 9,
    "some never": lambda rng, t: t + rng.integers(4) if rng.random() < 0.8 else math.inf,
    "silence": lambda rng, t: t if t < 10 else math.inf,
}


class HostilePath:
    """Whatever is proposed, lost and predicted; after every event, by how much Λ + O is below D + min(C, O_T - 1).

    Three forms of (i): rounds "one by one", some "together", and "counted", which asks for O ≤ C instead and then for weights that
    do not look at O. The account is kept beside, action by action; in test_roster.py actions come and go.
    """

    def __init__(self, seed, budget, overdraft, telling, form, rounds=60, actions=3):
        self.rng = np.random.default_rng(seed)
        self.budget, self.overdraft, self.telling, self.form = budget, overdraft, telling, form
        self.account, self.rounds, self.era = Account(actions), rounds, 0
        self.total, self.there = np.zeros(actions), np.ones(actions, dtype=bool)
        self.pending = []  # when it is told, k, the era, and for whom it counts
        self.at_last_draw, self.slacks, self.weights = 0, [], []

    def outstanding(self):
        return sum((counted for *_, counted in self.pending), np.zeros(len(self.total)))

    def check(self):
        there = self.there
        np.testing.assert_allclose(self.account.total[there], self.total[there], atol=1e-7)
        reserved = np.max((self.total + self.outstanding())[there])
        assert self.account.reserved == pytest.approx(reserved, abs=1e-7)
        if self.at_last_draw:
            promise = self.budget + min(self.overdraft, self.at_last_draw - 1)
            self.slacks.append(promise - reserved)

    def may_draw(self, count):
        if self.form == "counted":
            return self.account.outstanding <= self.overdraft and self.account.may_draw(
                self.budget, math.inf
            )
        return self.account.may_draw(self.budget, self.overdraft, count)

    def reach(self, k):
        return np.abs(k).max(axis=1)

    def weight(self, k, era, counted):
        looked_at = math.inf if self.form == "counted" else self.overdraft
        return self.account.weight(self.reach(k), self.budget, looked_at, era)

    def enter(self, kind, k, era, counted):
        """A loss that is as bad as can be, or not; the prediction is chosen at the entry."""
        weight, actions = self.weight(k, era, counted), len(self.total)
        predictions = self.rng.choice([-0.5, 0.5], (3, actions))
        choices = []
        for prediction, action, y in itertools.product(predictions, range(actions), (-0.5, 0.5)):
            estimate = prediction + k[:, action] * (y - prediction[action])
            choices.append((y - weight * estimate + (1 - weight) / 2, y, estimate))
        worst = max(choices, key=lambda choice: max((self.total + choice[0])[counted], default=0))
        entry, y, estimate = worst if kind == "worst" else choices[self.rng.integers(len(choices))]
        self.account.enter(y, estimate, weight, era=era)
        self.total[counted] += entry[counted]
        self.weights.append(weight)

    def change(self):
        """Actions may come and go."""

    def play(self, kind):
        """The least slack."""
        for t in range(self.rounds):
            self.change()
            count = int(self.rng.integers(1, 5)) if self.form == "together" else 1
            if self.may_draw(count):
                self.account.draw(count)
                for _ in range(count):
                    k = kernel(self.rng, len(self.total), self.rng.choice([1, 0.3, 0.05]))
                    due = TELLING[self.telling](self.rng, t)
                    self.pending.append((due, k, self.era, self.there.copy()))
                self.at_last_draw = len(self.pending)
                self.check()
            self.rng.shuffle(self.pending)
            for item in [item for item in self.pending if item[0] <= t]:
                self.enter(kind, *item[1:])
                self.pending.remove(item)
                self.check()
            assert self.account.outstanding == len(self.pending)
        return min(self.slacks, default=math.inf)


FORMS = ["one by one", "together", "counted"]


HOSTILE = {
    "seed": st.integers(0, 10**6),
    "budget": st.floats(1, 40),
    "overdraft": st.sampled_from([0, 1, 2.5, 8, math.inf]),
    "kind": st.sampled_from(["worst", "any"]),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("telling", TELLING)
@settings(max_examples=15)
@given(**HOSTILE)
def test_the_promise_is_kept_on_every_path(telling, form, seed, budget, overdraft, kind):
    assert HostilePath(seed, budget, overdraft, telling, form, rounds=40).play(kind) >= -ROUNDING


def test_weights_of_all_sizes_occur_on_these_paths():
    paths = [
        HostilePath(seed, 12, 2.5, telling, "one by one")
        for seed in range(3)
        for telling in TELLING
    ]
    assert min(path.play("worst") for path in paths) < 0.5
    weights = np.concatenate([path.weights for path in paths])
    assert (weights == 0).any()
    assert (weights == 1).any()
    assert ((weights > 0) & (weights < 1)).any()


@pytest.mark.parametrize(
    "start, overdraft, count, promise",
    [(7.0, 0, 3, 10), (7.5, 2.5, 5, 12.5), (9.0, math.inf, 4, 13)],
)
def test_the_promise_is_attained(start, overdraft, count, promise):
    account, budget = account_at([start, -40.0]), 10.0
    assert account.may_draw(budget, overdraft, count)
    assert not account.may_draw(budget, overdraft, count + 1) or math.isinf(overdraft)
    account.draw(count)
    sums = []
    for _ in range(count):  # the largest loss, where the least was predicted; the worst estimate
        reach = np.array([4.0, 1.0])
        weight = account.weight(reach, budget, overdraft)
        account.enter(HALF, -HALF - reach, weight)
        sums.append(account.used + account.outstanding)
    assert max(sums) == pytest.approx(promise)
    assert sums[-1] == account.used == pytest.approx(promise)


class Uncrowded(HostilePath):
    """Weights that ignore what else is outstanding, with draws that do not."""

    def weight(self, k, era, counted):
        return self.account.weight(self.reach(k), self.budget, math.inf)


class ShortSighted(HostilePath):
    """Estimates that reach farther than is thought."""

    def reach(self, k):
        return np.abs(k).max(axis=1) / 2


class Careless(HostilePath):
    """Rounds drawn whatever Λ is."""

    def may_draw(self, count):
        return self.account.outstanding < 6


CONTROLS = [
    (Uncrowded, 0, "random"),
    (Uncrowded, 2.5, "bursts"),
    (ShortSighted, 0, "fixed"),
    (ShortSighted, math.inf, "at once"),
    (Careless, 8, "fixed"),
    (Careless, math.inf, "random"),
]


@pytest.mark.parametrize("path, overdraft, telling", CONTROLS)
def test_negative_control_other_rules_break_the_promise(path, overdraft, telling):
    paths = [path(seed, 30, overdraft, telling, "one by one") for seed in range(5)]
    assert min(path.play("worst") for path in paths) < -0.5


# Plain data.


def test_holds_says_whether_the_promise_is_kept():
    account = account_at([7.0, 9.0], 2)
    assert account.holds(11.0, 0)
    assert account.holds(9.0, 2)
    assert account.holds(0.0, math.inf)
    assert not account.holds(10.9, 0)
    assert not account.holds(9.0, 1.9)


def test_room_and_rescale():
    account = account_at([1.0, -2.0])
    account.rescale(0.5)
    assert account.used == 0.5
    assert account.room(10).tolist() == [8.5, 10]
