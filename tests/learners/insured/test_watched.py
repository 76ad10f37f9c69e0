"""One policy under watch: estimates by enumeration, what one round can do by brute force, exploring anew."""

from __future__ import annotations

import itertools
import json
import math

import numpy as np
import pytest
from scipy import stats

from koloss.guarantees.insured import CEILING
from koloss.learners.insured.bets import Bets
from koloss.learners.insured.exploration import Exploration
from koloss.learners.insured.rounds import Round
from koloss.learners.insured.watched import SUSPICION
from koloss.learners.reading import Reader
from tests.learners.insured.games import LEVEL
from tests.learners.insured.rounds import (
    DESIGNS,
    EXPLORATIONS,
    M,
    N,
    all_estimates,
    by_inversion,
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
        stage.add(played, b, float(losses[b]), explored=False)
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
    wrong = Round(0, 5, 0.1, other, np.zeros(N), 0)
    p = played.distribution()
    mean = sum(p[b] * wrong.estimates(b) * losses[b] for b in np.flatnonzero(p))
    assert np.abs(mean - losses).max() > 0.1 * np.abs(losses).max()


def test_draws_follow_the_weights():
    place, count = EXPLORATIONS["john"], 20_000
    index = [place.draw(coin) for coin in np.random.default_rng(0).random(count)]
    counts, support = np.bincount(index, minlength=N), place.weights > 0
    assert counts[~support].sum() == 0
    assert stats.chisquare(counts[support], count * place.weights[support]).pvalue > LEVEL
    assert place.draw(0.0) == place.support[0]
    assert place.draw(np.nextafter(1.0, 0.0)) == place.support[-1]


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
        reach, exact = place.reach(choice), brute_reach(place, choice, rate)
        assert np.all(exact <= reach * (1 + 1e-9) + 1e-9)
        tightest = min(tightest, float((reach / np.maximum(exact, 1e-12)).min()))
    assert tightest < 1.001  # it is attained somewhere


def test_a_smaller_reach_would_not_do(place):
    # Negative control: divided by 1.3 it fails, for many choices.
    failures = sum(
        bool(np.any(brute_reach(place, choice, rate) > place.reach(choice) / 1.3 + 1e-9))
        for choice, rate in itertools.product(range(N), shares(4))
    )
    assert failures > 10


def test_far_reach_bounds_all_pairs_of_any_law(place, rng):
    some, far = [*laws(), *np.eye(N), *rng.dirichlet(np.full(N, 0.1), size=5)], place.far_reach()
    for law, rate in itertools.product(some, (1e-3, 0.05, 0.5)):
        assert np.all(brute_reach(place, law, rate) <= far * (1 + 1e-9))
    # Negative control: the policy may play next to nothing of what is explored.
    assert any(np.any(brute_reach(place, law, 0.001) > far / 1.3 + 1e-9) for law in some)


def test_reach_is_the_same_when_it_is_asked_for_again(place, monkeypatch):
    first = [place.reach(j).copy() for j in range(N)]
    # and when memory is short
    monkeypatch.setitem(Exploration.reach.__globals__, "KEPT", 3 * N)
    fresh = Exploration(1, place.features, place.weights)
    for j in [*range(N), *range(N)]:
        np.testing.assert_array_equal(fresh.reach(j), first[j])
        np.testing.assert_allclose(fresh.beside(j), place.features @ place.features[j])


def random_state(stage, rng, spread):
    """Some estimates, as if much had been heard."""
    stage.total = rng.normal(size=N) * spread
    stage.paid = float(stage.total.min() + rng.exponential(spread))
    stage.heard = 5


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["action", "law"])
@pytest.mark.parametrize("cap", [math.inf, 60.0, None])
def test_no_outcome_of_a_round_leaves_the_budget(place, kind, cap):
    # All actions, losses ±1/2, predictions at the corners: the estimated regret after the round, by brute force.
    rng = np.random.default_rng(1)
    ratios, smaller_fails, made = [], 0, 0
    for _ in range(60):
        stage = make_stage(place, cap=cap)
        stage.bets = Bets(explored_rounds=1, explored_mean=1.0)  # no suspicion
        random_state(stage, rng, 20.0)
        budget = stage.estimated_regret + 1 + rng.uniform(5, 120)
        choice = int(rng.integers(N))
        proposal = choice if kind == "action" else rng.dirichlet(np.full(N, 0.03))
        prediction = rng.choice([-0.5, 0.5], N)
        played = stage.next_round(proposal, prediction, budget)
        if played is None:
            continue
        made += 1
        assert 0 < played.rate <= CEILING
        leverage = np.diag(by_inversion(played.exploration, played.distribution())).max()
        assert leverage <= (budget if cap is None else cap) * (1 + 1e-9)
        p = played.distribution()
        for b, y in itertools.product(np.flatnonzero(p > 0), (-0.5, 0.5)):
            step = played.estimates(int(b)) * (y - prediction[b])
            after = stage.paid + y - np.min(stage.total + prediction + step)
            assert after <= budget + 1e-9
            ratios.append((after - stage.estimated_regret) / (budget - stage.estimated_regret))
        # A smaller share breaks the rule itself, unless it is kept up for the sake of the leverage.
        less = round_of(played.exploration, proposal, 0.9 * played.rate)
        k = np.abs(by_inversion(less.exploration, less.distribution())[:, p > 0]).max(axis=1)
        smaller_fails += stage.paid + 1 + np.max(k - stage.total) > budget
    assert made > 20
    assert max(ratios) > (0.6 if kind == "action" else 0.3)
    if kind == "action" and cap == math.inf:
        assert smaller_fails > made / 2


def test_rate_needed_by_hand():
    stage, capped, uncapped = (make_stage(cap=cap) for cap in (math.inf, 10.0, None))
    for one in (stage, capped, uncapped):
        one.total, one.paid = np.linspace(0, 26, N), 2.0
    reach, largest = stage.exploration.reach(3), stage.exploration.largest
    assert stage.rate_needed(3, 50.0) == pytest.approx(np.max(reach / (50 - 2 - 1 + stage.total)))
    assert stage.rate_needed(3, 3.0) == math.inf  # no room at all
    assert capped.rate_needed(3, 1e9) == pytest.approx(largest / 10)
    room = 1e9 - 3 + stage.total
    assert uncapped.rate_needed(3, 1e9) == pytest.approx(max(np.max(reach / room), largest / 1e9))


def test_suspicion_explores_more_and_a_ceiling_stops():
    stage = make_stage()
    zero = np.zeros(N)
    assert stage.next_round(0, zero, 1e6).rate == SUSPICION  # nothing is known yet
    stage.bets.add(-0.4, explored=False)
    stage.bets.add(0.3, explored=True)
    assert stage.next_round(0, zero, 1e6).rate < 0.01
    for _ in range(5):
        stage.bets.add(0.5, explored=False)
    assert stage.next_round(0, zero, 1e6).rate == SUSPICION
    # The ceiling: just enough room, and just not enough.
    enough = 1 + float(np.max(stage.exploration.reach(0))) / CEILING
    assert stage.next_round(0, zero, enough * 1.0001).rate == pytest.approx(CEILING, rel=1e-3)
    assert stage.next_round(0, zero, enough * 0.9) is None
    # Where losses are outstanding, the round may add less.
    wide, narrow = (stage.next_round(0, zero, 2.2 * enough, c) for c in (None, enough * 1.5))
    assert narrow.rate > wide.rate
    assert stage.next_round(0, zero, 1.2 * enough, crowded=enough * 0.9) is None


def test_fits_by_brute_force():
    # A late loss is heard only if no outcome of its round leaves the budget as things are now.
    rng = np.random.default_rng(2)
    verdicts = []
    for _ in range(200):
        stage = make_stage()
        played = round_of(stage.exploration, int(rng.integers(N)), rng.uniform(0.05, 0.5))
        random_state(stage, rng, 20.0)
        budget = stage.estimated_regret + rng.uniform(1, 60)
        worst = stage.paid + 1 + np.max(played.reach() - stage.total)
        assert stage.fits(played, budget) == (worst <= budget)
        verdicts.append(stage.fits(played, budget))
        exact = np.abs(by_inversion(played.exploration, played.distribution()))
        for b in np.flatnonzero(played.distribution()):
            low = stage.paid + 1 + np.max(exact[:, b] - stage.total)
            assert low <= budget + 1e-9 or not verdicts[-1]
    assert 20 < sum(verdicts) < 180
    assert stage.fits(stage.trial(3, np.zeros(N)), -1.0)  # on trust, whatever the state


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


def test_dear_actions_are_explored_less():
    # Leverages over prices are level where it explores; without prices they are level themselves.
    stage = make_stage(make_exploration("uniform", seed=4))
    gaps = np.linspace(0, 200, N)
    stage.total = gaps.copy()
    budget = 41.0
    before = stage.exploration.leverages.copy()
    assert stage.redesign(budget)
    price = 1 + gaps / (budget - 1)
    explored = stage.exploration.weights > 1e-3
    ratio = stage.exploration.leverages[explored] / price[explored]
    assert ratio.max() / ratio.min() < 3
    assert (before / price).max() / (before / price).min() > 3  # negative control
    dear, cheap = gaps > 100, gaps < 100
    weights = stage.exploration.weights
    assert weights[dear].sum() < 0.5 * weights[cheap].sum()


def test_when_a_design_is_made_anew():
    stage = make_stage()
    assert not stage.redesign(50.0)  # no gaps
    stage.total = np.linspace(0, 300, N)
    assert stage.redesign(50.0)
    number = stage.exploration.number
    assert not stage.redesign(50.0)  # nothing has changed since
    stage.total *= 10
    assert stage.redesign(50.0)
    assert stage.exploration.number == number + 1
    assert not stage.redesign(1.0, now=True)  # no room


@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("widest", [200.0, 2000.0])
def test_a_new_design_makes_exploring_cheaper(design, widest):
    # By the estimates themselves: the share that is needed times the mean gap of what is explored.
    for seed in range(4):
        stage = make_stage(make_exploration(design, seed=seed))
        gaps = np.random.default_rng(seed).permutation(np.linspace(0, widest, N))
        stage.total, best = gaps.copy(), int(gaps.argmin())

        def cost(stage=stage, gaps=gaps, best=best):
            return stage.rate_needed(best, 60.0) * float(stage.exploration.weights @ gaps)

        before = cost()
        assert stage.redesign(60.0)
        assert cost() < before


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
        stage.add(played, index, y, explored)
        total, variance = total + prediction + step, variance + step**2
        paid, noise = paid + y, noise + (y - prediction[index]) ** 2
        explored_paid += y * explored
    np.testing.assert_allclose(stage.total, total, rtol=1e-9)
    np.testing.assert_allclose(stage.variance, variance, rtol=1e-9)
    assert stage.paid == pytest.approx(paid)
    assert stage.noise == pytest.approx(noise)
    assert (stage.heard, stage.explored) == (12, 4)
    assert stage.explored_paid == pytest.approx(explored_paid)
    assert stage.estimated_regret == pytest.approx(paid - total.min())


def test_rounds_on_trust_leave_the_estimates_alone():
    stage = make_stage()
    for proposal in (3, np.ones(N) / N):
        played = stage.trial(proposal, np.zeros(N))
        assert (played.rate, played.counted) == (SUSPICION, False)
        assert played.distribution().sum() == pytest.approx(1)
        stage.add(played, 3, 0.5, explored=False)
    assert stage.heard == stage.paid == 0
    assert not stage.total.any()
    assert stage.bets.policy_rounds == 2


def test_what_was_kept_comes_back(rng):
    stage = make_stage()
    zero = np.zeros(N)
    rounds = [stage.next_round(3, zero, 1e3), stage.next_round(laws()[2], zero, 1e3)]
    for played in rounds:
        stage.add(played, 5, 0.4, explored=True)
    stage.total = np.linspace(0, 300, N)
    stage.redesign(60.0, now=True)
    rounds.append(stage.next_round(2, zero, 1e3))
    places = {1: stage.first, stage.exploration.number: stage.exploration}
    kept = [place.to_dict() for place in places.values()]
    size = stage.first.features.shape
    again = {k: Exploration.from_dict(Reader(d), *size) for k, d in zip(places, kept, strict=True)}
    for played in rounds:
        copy = Round.from_dict(Reader(played.to_dict()), again, stage.number)
        np.testing.assert_array_equal(copy.distribution(), played.distribution())
        np.testing.assert_array_equal(all_estimates(copy), all_estimates(played))
        np.testing.assert_array_equal(copy.reach(), played.reach())
    other = make_stage()
    data = stage.to_dict()
    other.load(Reader(data), again)
    np.testing.assert_array_equal(other.total, stage.total)
    assert other.bets == stage.bets
    first, second = (json.dumps(s.to_dict(), default=np.ndarray.tolist) for s in (stage, other))
    assert first == second
    other.total += 1
    other.bets.add(0.5, explored=False)
    assert stage.bets.policy_rounds == 0
    np.testing.assert_array_equal(data["total"], stage.total)
