"""What the account of a policy is worth in expectation: small games in which it is valid, and some in which it is not (theory F5)."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.learners.insured.small_games import (
    HALF,
    Item,
    RandomGame,
    account_at,
    costly,
    lifting,
    opened,
    random_opponent,
    regained,
    waiting_teller,
)
from tests.support.statistics import by_excess, differs

ROUNDING = 1e-9

# Validity in expectation (Lemma F5.1), every path of random games.


@pytest.mark.parametrize("rule", ["draw", "entry", "order"])
def test_regret_is_within_the_account_in_random_games(rule):
    for seed in range(150):
        excess, over = RandomGame(seed, rule).excess()
        assert excess <= ROUNDING, seed
        assert over <= ROUNDING, seed


def test_negative_control_a_weight_that_looks_at_its_outcome():
    excesses = [RandomGame(seed, "outcome").excess()[0] for seed in range(150)]
    assert max(excesses) > 0.5
    assert sum(excess > 0.01 for excess in excesses) >= 3


# Small games that are not valid, with numbers by hand.


BUDGET = 30.0
NEAR = (BUDGET - 2.1, BUDGET - 25)


def entry_after_a_lift(lift, action):
    """The expected entry against arm 1 of the costly item of an action, if an item that lifts is opened before; its weights."""
    total, weights = 0.0, []
    for other, p in enumerate(lift.law):
        state, _ = opened(account_at(NEAR, 2), lift, other, BUDGET, math.inf)
        after, weight = opened(state, costly(), action, BUDGET, math.inf)
        total += p * (after.total[1] - state.total[1])
        weights.append(weight)
    return total, weights


def test_negative_control_proposals_that_see_pending_actions():
    rare = 1e-6
    zero, one = entry_after_a_lift(lifting(rare), 0), entry_after_a_lift(lifting(1 - rare), 1)
    # The item that lifts does as the costly one did, but for its exploration.
    assert zero[1][0] == 1
    assert one[1][1] == pytest.approx(0.095)
    assert (zero[0], one[0]) == pytest.approx((0, 1.805), abs=1e-4)
    assert 0.95 * zero[0] + 0.05 * one[0] == pytest.approx(0.09, abs=0.001)
    assert costly().mean_regret() == pytest.approx(0.95)


@pytest.mark.parametrize("chance", [1e-6, 0.3, 1 - 1e-6])
def test_proposals_that_see_no_pending_action_do_no_harm(chance):
    entries = [entry_after_a_lift(lifting(chance), action)[0] for action in (0, 1)]
    assert 0.95 * entries[0] + 0.05 * entries[1] >= 0.95 - ROUNDING


def test_negative_control_time_of_telling_that_depends_on_the_outcome():
    # Arm 0 is told at once, arm 1 after an item has lifted the account.
    before = account_at(NEAR, 1)
    after, weight = opened(before, costly(), 0, BUDGET, math.inf)
    late, weights = entry_after_a_lift(lifting(1 - 1e-6), 1)
    assert weight == 1
    assert weights[1] == pytest.approx(0.095)
    assert 0.95 * (after.total[1] - before.total[1]) + 0.05 * late == pytest.approx(0.09, abs=0.001)


@pytest.mark.parametrize("exploration", [0.05, 0.3, 0.4, 1.0])
def test_negative_control_told_only_if_arm_0_was_drawn(exploration):
    item = Item((1 - exploration, exploration), (HALF, -HALF), (0.0, 0.0))
    expected = 0.0
    for action, p in enumerate(item.law):
        account = account_at([0.0, 0.0], 1)
        if p and action == 0:
            account, weight = opened(account, item, action, 1 + 1 / exploration, math.inf)
            assert weight == 1
        expected += p * (account.total[1] + account.outstanding)
    assert expected == pytest.approx((1 - exploration) / 2 + exploration)
    assert (expected < item.mean_regret()) == (exploration < 1 / 3)


@pytest.mark.slow
@pytest.mark.parametrize("cheats", [False, True])
def test_negative_control_a_teller_that_sees_the_oldest_action(cheats):
    # 400 are promised.
    runs = np.array(
        [waiting_teller(np.random.default_rng(seed), cheats=cheats) for seed in range(200)]
    )
    regret, account = runs.T
    assert cheats == differs(by_excess(regret, 400))
    assert account.max() <= 400 + ROUNDING


@pytest.mark.slow
def test_negative_control_an_account_over_all_rounds():
    def mean(rounds, *, every_round):
        return np.mean(
            [
                regained(np.random.default_rng(seed), rounds, every_round=every_round)
                for seed in range(4)
            ]
        )

    assert mean(4000, every_round=True) > 2  # of what is promised; it grows as √n
    assert mean(4000, every_round=True) > 1.5 * mean(1000, every_round=True)
    assert mean(4000, every_round=False) < 1


# Exact values: the best that policy, adversary and teller together can do.


def values(overdraft, games, draws, kinds, **knows):
    """Of every game the excess over Λ + O, and that over what is promised."""
    found = [
        random_opponent(seed, overdraft, kinds=kinds, **knows).value(draws) for seed in range(games)
    ]
    return np.array(found).T


SIZES = [
    pytest.param(100, 2, 2, id="2 draws"),
    pytest.param(20, 3, 2, id="3 draws", marks=pytest.mark.slow),
]


@pytest.mark.parametrize("games, draws, kinds", SIZES)
@pytest.mark.parametrize("overdraft", [0, 1, math.inf])
def test_nothing_exceeds_the_account_in_any_order_if_pending_actions_are_unseen(
    overdraft, games, draws, kinds
):
    account, promise = values(overdraft, games, draws, kinds)
    assert account.max() <= ROUNDING
    assert promise.max() <= ROUNDING


@pytest.mark.parametrize("overdraft", [1, math.inf])
def test_negative_control_pending_actions_seen_by_all(overdraft):
    account, _ = values(overdraft, 100, 2, 2, sees=True)
    assert (account > 0.001).mean() > 0.95
    assert account.max() > 1


@pytest.mark.parametrize("in_order", [False, True])
def test_draw_order_makes_it_safe_to_see_pending_actions_if_all_are_told(in_order):
    account, _ = values(math.inf, 100, 2, 2, sees=True, in_order=in_order, tells_all=True)
    assert in_order == (account.max() <= ROUNDING)
    assert in_order or (account > 0.001).mean() > 0.95


def test_negative_control_draw_order_with_losses_held_back():
    account, promise = values(math.inf, 100, 2, 2, sees=True, in_order=True)
    assert (account > 0.001).mean() > 0.7
    assert promise.max() <= ROUNDING  # D - 1 + O_T holds all the same
