"""One policy under watch: estimates by enumeration, what one round can do by brute force, exploring anew."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from koloss.guarantees.insured import CEILING
from koloss.learners.insured.evidence import SUSPICION, Bets
from koloss.learners.insured.exploration import Round
from koloss.learners.insured.watched import DEAREST, JUMP, LEAST, SPARED
from tests.learners.insured.rounds import (
    DESIGNS,
    EXPLORATIONS,
    Known,
    M,
    N,
    all_estimates,
    by_inversion,
    hear,
    laws,
    make_exploration,
    make_stage,
    raw_features,
    redesigned,
    round_of,
)

RATES = (0.003, 0.04, 0.25, 0.5)


@pytest.fixture(params=EXPLORATIONS)
def place(request):
    return EXPLORATIONS[request.param]


# Estimates.


@pytest.mark.parametrize("rate", RATES)
def test_estimates_against_inversion(place, rate):
    # Actions by Sherman and Morrison, laws by a factor.
    for proposal in (*range(N), *laws()):
        played = round_of(place, proposal, rate)
        k = by_inversion(place, played.distribution())
        np.testing.assert_allclose(all_estimates(played), k, rtol=1e-8, atol=1e-8 * np.abs(k).max())


def mean_total(place, played, losses):
    """What the sum of estimates is on average, by enumeration."""
    mean = np.zeros(N)
    for b, q in enumerate(played.distribution()):
        stage = make_stage(place)
        hear(stage, played, b, float(losses[b]))
        mean += q * stage.total
    return mean


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("proposal", [5, *laws()], ids=["action", "point", "flat", "skew", "any"])
def test_unbiased_by_enumeration(place, rate, proposal, rng):
    # Every action with its probability; any prediction in the span; losses in the span.
    W = place.features
    prediction = W @ rng.normal(size=M) / 50
    played = round_of(place, proposal, rate, prediction)
    losses = W @ rng.normal(size=M) / 10
    np.testing.assert_allclose(mean_total(place, played, losses), losses, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("rate", RATES)
def test_bias_outside_the_span_is_at_most_epsilon_root_leverage(place, rate, rng):
    # |E x(a) - φ'θ| ≤ ε √k(a, a) for a remainder of size ε, and a remainder that attains it.
    W, eps = place.features, 0.01
    theta = rng.normal(size=M) / 10
    for proposal in (2, laws()[2]):
        played = round_of(place, proposal, rate)
        k = by_inversion(place, played.distribution())
        largest = 0.0
        remainders = [eps * rng.choice([-1.0, 1.0], N) for _ in range(20)]
        remainders += [eps * np.sign(row) for row in k]  # the worst for one action each
        for r in remainders:
            mean = mean_total(place, played, W @ theta + r)
            off = np.abs(mean - W @ theta) / (eps * np.sqrt(np.diag(k)))
            largest = max(largest, float(off.max()))
        assert largest <= 1 + 1e-9
        assert largest > 0.5  # the bound is not empty


def test_estimates_of_the_wrong_design_are_biased(rng):
    # Negative control for the enumerations above.
    place, other = EXPLORATIONS["john"], EXPLORATIONS["redesigned"]
    losses = raw_features() @ rng.normal(size=M) / 10
    played = round_of(place, 5, 0.1)
    wrong = Round(5, 0.1, other, np.zeros(N), 0)
    p = played.distribution()
    mean = sum(p[b] * wrong.estimates(b) * losses[b] for b in np.flatnonzero(p))
    assert np.abs(mean - losses).max() > 0.1 * np.abs(losses).max()


@pytest.mark.parametrize("rate", [1e-9, 0.03, 0.5, 1.0])
def test_draws_of_many_coins_are_those_of_each(place, rate, rng):
    law = np.append(rng.dirichlet(np.ones(N - 1)), 0.0)
    coins = np.concatenate(
        [rng.random(200), [0.0, np.nextafter(rate, 0), rate, np.nextafter(1, 0)]]
    )
    coins = coins[coins < 1]
    for choice, proposal in ((3, None), (None, law)):
        played = Round(choice, rate, place, np.zeros(N), 0, law=proposal)
        keys = played.draw_many(coins)
        assert keys.tolist() == [played.draw(coin) for coin in coins.tolist()]
        assert ((keys < 0) == (coins < rate)).all()


# What one round can do.


def brute_reach(place, proposal, rate):
    """γ max_b |k(a, b)| over the support of p."""
    played = round_of(place, proposal, rate)
    p = played.distribution()
    return rate * np.abs(by_inversion(place, p)[:, p > 0]).max(axis=1)


def shares(count=12):
    return np.concatenate([np.geomspace(1e-4, 0.5, count), [0.1, 0.49999]])


def test_reach_bounds_all_pairs(place):
    tightest = np.inf
    for choice, rate in itertools.product(range(N), shares()):
        reach, exact = place.about(choice)[1], brute_reach(place, choice, rate)
        assert np.all(exact <= reach * (1 + 1e-9) + 1e-9)
        tightest = min(tightest, float((reach / np.maximum(exact, 1e-12)).min()))
    assert tightest < 1.001  # it is attained somewhere


def test_a_smaller_reach_would_not_do(place):
    # Negative control: divided by 1.3 it fails, for many choices.
    failures = sum(
        bool(np.any(brute_reach(place, choice, rate) > place.about(choice)[1] / 1.3 + 1e-9))
        for choice, rate in itertools.product(range(N), shares(4))
    )
    assert failures > 10


def test_far_reach_bounds_all_pairs_of_any_law(place, rng):
    some, far = [*laws(), *np.eye(N), *rng.dirichlet(np.full(N, 0.1), size=5)], place.far_reach()
    for law, rate in itertools.product(some, (1e-3, 0.05, 0.5)):
        assert np.all(brute_reach(place, law, rate) <= far * (1 + 1e-9))
    # Negative control: the policy may play next to nothing of what is explored.
    assert any(np.any(brute_reach(place, law, 0.001) > far / 1.3 + 1e-9) for law in some)


def random_state(stage, rng, spread):
    """Some estimates, as if much had been heard."""
    stage.account.total = rng.normal(size=N) * spread


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["action", "law"])
@pytest.mark.parametrize("cap", [math.inf, 60.0, None])
def test_no_outcome_of_a_round_leaves_the_budget(place, kind, cap):
    # All actions, losses ±1/2, predictions at the corners: the account after the round, by brute force.
    rng = np.random.default_rng(1)
    used, less_fails, made = [], 0, 0
    for _ in range(60):
        stage = make_stage(place, cap=cap)
        stage.bets = Bets(explored_rounds=1, explored_mean=1.0)  # no suspicion
        random_state(stage, rng, 20.0)
        before = stage.account.total
        budget = before.max() + 1 + rng.uniform(5, 120)
        choice = int(rng.integers(N))
        proposal = choice if kind == "action" else rng.dirichlet(np.full(N, 0.03))
        prediction = rng.choice([-0.5, 0.5], N)
        played = stage.next_round(proposal, prediction, budget)
        if played == "budget":
            continue
        made += 1
        assert 0 < played.rate <= CEILING
        p, room = played.distribution(), budget - 1 - before
        k = by_inversion(played.exploration, p)[:, p > 0]
        leverage = np.diag(by_inversion(played.exploration, p)).max()
        assert leverage <= (budget if cap is None else cap) * (1 + 1e-9)
        # A part of the room where that can be had by exploring, and never more than all of it.
        part = JUMP if played.rate < CEILING else 1.0
        assert np.all(np.abs(k) <= part * room[:, None] * (1 + 1e-9))
        for b, y in itertools.product(np.flatnonzero(p > 0), (-0.5, 0.5)):
            step = played.estimates(int(b)) * (y - prediction[b])
            after = before + y - prediction - step
            assert after.max() <= budget + 1e-9
            used.append(np.max((after - before - 1) / room) / part)
        # Less exploration would use more, unless it is kept up for the sake of the leverage.
        less = round_of(played.exploration, proposal, 0.9 * played.rate)
        k = by_inversion(less.exploration, less.distribution())[:, p > 0]
        less_fails += bool(np.any(np.abs(k) > part * room[:, None]))
    assert made > 20
    assert max(used) > (0.5 if kind == "action" else 0.3)
    if kind == "action" and cap == math.inf:
        assert less_fails > made / 2


def test_rate_needed_by_hand():
    stage, capped, uncapped = (make_stage(cap=cap) for cap in (math.inf, 10.0, None))
    for one in (stage, capped, uncapped):
        one.account.total = np.linspace(-24, 2, N)
    reach, largest = stage.exploration.about(3)[1], stage.exploration.largest
    room = 49 - np.linspace(-24, 2, N)
    assert stage.rate_needed(3, 50.0) == pytest.approx(np.max(reach / room))
    assert stage.rate_needed(3, 3.0) == math.inf  # no room at all
    assert capped.rate_needed(3, 1e9) == pytest.approx(largest / 10)
    assert uncapped.rate_needed(3, 1e9) == pytest.approx(max(np.max(reach / 1e9), largest / 1e9))


def test_suspicion_explores_more_and_a_ceiling_stops():
    stage = make_stage()
    zero = np.zeros(N)
    assert stage.next_round(0, zero, 1e6).rate == SUSPICION  # nothing is known yet
    stage.bets.add(-0.4, explored=False)
    for _ in range(10):
        stage.bets.add(0.3, explored=True)
    assert stage.next_round(0, zero, 1e6).rate < 0.01
    stage.heard, stage.noise = 1000, 50.0  # deviations of about 0.2
    for _ in range(5):
        stage.bets.add(0.45, explored=False)
    assert stage.next_round(0, zero, 1e6).rate < 0.01  # worse than exploring, but not by much
    for _ in range(40):
        stage.bets.add(0.5, explored=False)
    assert stage.next_round(0, zero, 1e6).rate == SUSPICION
    # The ceiling: just enough room, and just not enough.
    enough = 1 + float(np.max(stage.exploration.about(0)[1])) / CEILING
    assert stage.next_round(0, zero, enough * 1.0001).rate == pytest.approx(CEILING, rel=1e-3)
    assert stage.next_round(0, zero, enough * 0.9) == "budget"


def test_a_loss_is_entered_with_the_weight_that_fits():
    # Whatever was drawn and lost: the same weight, the account within the budget, and by hand.
    rng = np.random.default_rng(2)
    weights = []
    for _ in range(200):
        stage = make_stage(budget=60.0)
        prediction = rng.uniform(-0.5, 0.5, N)
        played = round_of(
            stage.exploration, int(rng.integers(N)), rng.uniform(0.05, 0.5), prediction
        )
        random_state(stage, rng, 20.0)
        before = stage.account.total + 59 - stage.account.used - rng.uniform(0, 40)
        room, reach = 59 - before, played.reach()
        weight = min(1.0, np.min(room / reach))
        weights.append(weight)
        exact = by_inversion(played.exploration, played.distribution())
        for b, y in itertools.product(np.flatnonzero(played.distribution()), (-0.5, 0.5)):
            stage.account.total, skipped = before.copy(), stage.skipped
            hear(stage, played, int(b), y)
            x = prediction + exact[:, b] * (y - prediction[b])
            expected = before + y - weight * x + (1 - weight) / 2
            np.testing.assert_allclose(stage.account.total, expected, rtol=1e-7, atol=1e-7)
            assert stage.account.used <= 60 + 1e-9
            assert stage.skipped - skipped == pytest.approx(1 - weight)
    assert 20 < sum(weight == 1 for weight in weights) < 180
    assert min(weights) < 0.1


# Exploring anew.


def test_a_new_design_is_one_and_spans_the_same_space():
    for seed in range(5):
        place = redesigned(seed)
        assert place.weights.min() >= 0
        assert place.weights.sum() == pytest.approx(1)
        W = place.features
        np.testing.assert_allclose(W.T @ (place.weights[:, None] * W), np.eye(M), atol=1e-9)
        first = make_exploration(seed=seed).features
        T, _, rank, _ = np.linalg.lstsq(first, W, rcond=None)
        assert rank == M
        assert np.abs(first @ T - W).max() < 1e-9
    assert place.number != EXPLORATIONS["john"].number


def bearable(room, gap, left):
    """The least variance per round that uses up the room in some number of rounds, by looking at many."""
    rounds = np.minimum(np.geomspace(1e-3, 1e9, 200_001), left)
    return np.array(
        [np.min((r + g * rounds) ** 2 / rounds) for r, g in zip(room, gap, strict=True)]
    )


def test_variance_that_an_account_can_bear_by_search():
    stage = make_stage()
    stage.account.total = np.linspace(-60, 30, N)
    gaps = np.linspace(0, 0.9, N)
    stage.forecaster = Known(-0.4 + gaps)
    stage.forecaster.deviation = np.linspace(0, 0.05, N)
    room = np.maximum(49 - stage.account.total, 25)  # never less than half of the budget
    for left in (1.0, 30.0, 1000.0):
        expected = bearable(room, np.maximum(gaps - 2 * stage.forecaster.deviation, 1e-12), left)
        np.testing.assert_allclose(stage.spare(50.0, left), expected, rtol=1e-4)


def test_dear_actions_are_explored_less():
    # Leverages over prices are level where it explores; without prices they are level themselves.
    stage = make_stage(make_exploration("uniform", seed=4))
    stage.forecaster = Known(np.linspace(-0.4, 0.4, N))
    before = stage.exploration.leverages.copy()
    assert stage.redesign(41.0, 100.0)
    price = stage.spare(41.0, 100.0)
    price = np.minimum(price / price.min(), DEAREST)
    assert price.max() > 3
    explored = stage.exploration.weights > 1e-3
    ratio = stage.exploration.leverages[explored] / price[explored]
    assert ratio.max() / ratio.min() < 3
    assert (before / price).max() / (before / price).min() > 3  # negative control
    dear, cheap = price > np.median(price), price < np.median(price)
    weights = stage.exploration.weights
    assert weights[dear].sum() < 0.5 * weights[cheap].sum()


@pytest.mark.parametrize(
    "paid, left", [(-0.3, 50), (-0.3, 1000), (-0.5, 1000), (0.1, 400), (0.4, 300)]
)
def test_losses_are_counted_no_more_than_the_rounds_left_ask_for(paid, left):
    stage, budget, losses = make_stage(), 200.0, np.linspace(-0.35, 0.45, N)
    stage.forecaster = Known(losses)
    stage.bets.policy_mean = paid
    room = budget - 1 - stage.account.total

    def is_within(weight):
        rises = paid - weight * losses + (1 - weight) / 2  # of the accounts, in a round
        return np.all(left * rises <= SPARED * room)

    weights = np.linspace(LEAST, 1, 20_001)
    least = next((w for w in weights if is_within(w)), 1.0)
    assert stage.enough(budget, left) == pytest.approx(least, abs=1e-4)


def test_with_a_smaller_weight_less_is_explored_and_the_account_stays_within_the_budget():
    full, thrifty = make_stage(), make_stage()
    thrifty.thrift = 0.5
    for stage in (full, thrifty):
        stage.bets.explored_rounds, stage.bets.explored_mean, stage.noise = 50, 1.0, 0.0
        stage.heard = 10_000
    budget = 300.0
    rounds = [stage.next_round(3, np.zeros(N), budget) for stage in (full, thrifty)]
    assert rounds[1].rate == pytest.approx(rounds[0].rate / 2)
    reach = np.abs(np.stack([rounds[1].estimates(b) for b in range(N)])).max(axis=0)
    thrifty.account.draw()
    weight = thrifty.account.weight(rounds[1].reach(), budget, 100.0)
    assert 0.49 < weight < 1
    assert np.all(1 + weight * reach <= budget - thrifty.account.total + 1e-9)


def known_for_long(stage, gaps, rounds):
    """How much worse every action is, for so many rounds in which the best one was played."""
    stage.forecaster = Known(gaps - 0.4)
    stage.account.total = -rounds * gaps


@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("widest", [0.2, 0.8])
def test_a_new_design_is_used_where_it_makes_exploring_cheaper(design, widest):
    # By the forecast itself: the share that is needed times the mean gap of what is explored.
    ratios = []
    for seed in range(4):
        stage = make_stage(make_exploration(design, seed=seed))
        gaps = np.random.default_rng(seed).permutation(np.linspace(0, widest, N))
        known_for_long(stage, gaps, 100 / widest)
        best = int(gaps.argmin())

        def cost(stage=stage, gaps=gaps, best=best):
            return stage.rate_needed(best, 60.0) * float(stage.exploration.weights @ gaps)

        before = cost()
        assert stage.redesign(60.0, 10.0) == (cost() < before)
        ratios.append(cost() / before)
    assert max(ratios) <= 1
    assert min(ratios) < 0.9


# Bookkeeping.


def test_sums_by_hand(rng):
    stage = make_stage()
    total, variance, paid, noise = np.zeros(N), np.zeros(N), 0.0, 0.0
    explored_paid = 0.0
    for t in range(12):
        prediction = rng.uniform(-0.5, 0.5, N)
        played = round_of(stage.exploration, int(rng.integers(N)), 0.2, prediction)
        index, y, explored = int(rng.integers(N)), float(rng.uniform(-0.5, 0.5)), t % 3 == 0
        k = by_inversion(played.exploration, played.distribution())
        step = k[:, index] * (y - prediction[index])
        hear(stage, played, index, y, explored=explored)
        total, variance = total + prediction + step, variance + step**2
        paid, noise = paid + y, noise + (y - prediction[index]) ** 2
        explored_paid += y * explored
    np.testing.assert_allclose(stage.total, total, rtol=1e-9)
    np.testing.assert_allclose(stage.account.variance, variance, rtol=1e-9)
    assert stage.paid == pytest.approx(paid)
    assert stage.noise == pytest.approx(noise)
    assert (stage.heard, stage.explored) == (12, 4)
    assert stage.explored_paid == pytest.approx(explored_paid)
    assert stage.account.used == pytest.approx(paid - total.min())
