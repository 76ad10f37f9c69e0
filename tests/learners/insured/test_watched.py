"""One watched stage: estimates by enumeration, what one round can do by brute force, the bet against the policy."""

from __future__ import annotations

import itertools
import json
import math

import numpy as np
import pytest
from scipy import stats

import koloss as kl
from koloss.designs import barycentric_spanner, john_design, uniform_design, whiten
from koloss.guarantees.insured import CEILING
from koloss.learners.insured.watched import SUSPICION, Exploration, Round, Stage, Watch

LEVEL = 1e-6
"""False-alarm level of every statistical test here; seeds are fixed."""

N, M = 14, 4
DESIGNS = {"john": john_design, "spanner": barycentric_spanner, "uniform": uniform_design}
RATES = (0.003, 0.04, 0.25, 0.5)


def raw_features(seed=0, *, correlated=False):
    """Features with a constant, whitened by nothing yet."""
    rng = np.random.default_rng(seed)
    if correlated:  # smooth bumps on a line: neighbours nearly equal
        x = np.linspace(0, 1, N)
        return kl.kernel_pca(kl.Gaussian(0.4), kl.Points(x[:, None]), rank=M).features + 1.0
    return np.column_stack([rng.normal(size=(N, M - 1)), np.ones(N)])


def make_exploration(design="john", seed=0, *, correlated=False):
    features = raw_features(seed, correlated=correlated)
    found = DESIGNS[design](features)
    white = np.asfortranarray(whiten(features, found).features)
    return Exploration(1, white, np.asarray(found.weights))


def make_stage(exploration=None, *, cap=math.inf, shield=True, trigger=0.0, fixed=0.1):
    first = exploration or make_exploration()
    return Stage(first.features, first, cap, shield, trigger, fixed)


def redesigned(seed=0, *, correlated=False):
    """An exploration with prices that differ a lot."""
    gaps = np.random.default_rng(seed).exponential(30.0, size=N)
    first = make_exploration(seed=seed, correlated=correlated)
    return first.priced(2, 1 + (gaps - gaps.min()) / 24)


EXPLORATIONS = {
    "john": make_exploration(),
    "spanner": make_exploration("spanner", 1),
    "uniform": make_exploration("uniform", 2),
    "correlated": make_exploration(correlated=True),
    "redesigned": redesigned(),
    "redesigned, correlated": redesigned(3, correlated=True),
}


@pytest.fixture(params=EXPLORATIONS)
def place(request):
    return EXPLORATIONS[request.param]


def laws(seed=0):
    rng = np.random.default_rng(seed)
    return [np.eye(N)[3], np.ones(N) / N, rng.dirichlet(np.full(N, 0.2)), rng.dirichlet(np.ones(N))]


def round_of(place, proposal, rate, prediction=None):
    """A round with this share of exploration, made by a stage that asks for no more and no less."""
    stage = make_stage(place, shield=False, fixed=rate)
    stage.exploration = place
    return stage.draw_round(
        proposal, np.zeros(N) if prediction is None else prediction, 1e9, crowded=None
    )


def by_inversion(place, p):
    """k(a, b) for all pairs, from the covariance itself."""
    W = place.features
    return W @ np.linalg.inv(W.T @ (p[:, None] * W)) @ W.T


# Estimates.


@pytest.mark.parametrize("rate", RATES)
def test_sherman_and_morrison_against_inversion(place, rate):
    for choice in range(N):
        played = round_of(place, choice, rate)
        k = by_inversion(place, played.distribution())
        found = np.stack([played.estimates(b) for b in range(N)], axis=1)
        np.testing.assert_allclose(found, k, rtol=1e-8, atol=1e-8 * np.abs(k).max())


@pytest.mark.parametrize("rate", RATES)
def test_factor_of_a_law_against_inversion(place, rate):
    for law in laws():
        played = round_of(place, law, rate)
        k = by_inversion(place, played.distribution())
        found = np.stack([played.estimates(b) for b in range(N)], axis=1)
        np.testing.assert_allclose(found, k, rtol=1e-8, atol=1e-8 * np.abs(k).max())


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("proposal", [5, *laws()], ids=["action", "point", "flat", "skew", "any"])
def test_unbiased_by_enumeration(place, rate, proposal, rng):
    # Every action with its probability; any prediction in the span; losses in the span.
    W = place.features
    prediction = W @ rng.normal(size=M) / 50
    played = round_of(place, proposal, rate, prediction)
    losses = W @ rng.normal(size=M) / 10
    mean, p = np.zeros(N), played.distribution()
    for b in range(N):
        stage = make_stage(place)
        stage.hear(played, b, float(losses[b]), explored=False)
        mean += p[b] * stage.total
    np.testing.assert_allclose(mean, losses, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("rate", RATES)
def test_bias_outside_the_span_is_at_most_epsilon_root_leverage(place, rate, rng):
    # |E x(a) - φ'θ| ≤ ε √k(a, a) for a remainder of size ε, and a remainder that attains it.
    W, eps = place.features, 0.01
    theta = rng.normal(size=M) / 10
    for proposal in (2, laws()[2]):
        played = round_of(place, proposal, rate)
        p = played.distribution()
        k = by_inversion(place, p)
        largest = 0.0
        remainders = [eps * rng.choice([-1.0, 1.0], N) for _ in range(20)]
        remainders += [eps * np.sign(row) for row in k]  # the worst for one action each
        for r in remainders:
            mean = np.zeros(N)
            for b in range(N):
                stage = make_stage(place)
                stage.hear(played, b, float(W[b] @ theta + r[b]), explored=False)
                mean += p[b] * stage.total
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
    mean = sum(
        q * wrong.estimates(b) * losses[b] for b, q in enumerate(played.distribution()) if q > 0
    )
    assert np.abs(mean - losses).max() > 0.1 * np.abs(losses).max()


def test_draws_follow_the_weights():
    place, count = EXPLORATIONS["john"], 20_000
    index = place.draw(np.random.default_rng(0).random(count))
    found = np.bincount(index, minlength=N)
    support = place.weights > 0
    assert found[~support].sum() == 0
    p = stats.chisquare(found[support], count * place.weights[support]).pvalue
    assert p > LEVEL
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
        found, exact = place.reach(choice), brute_reach(place, choice, rate)
        assert np.all(exact <= found * (1 + 1e-9) + 1e-9)
        tightest = min(tightest, float((found / np.maximum(exact, 1e-12)).min()))
    assert tightest < 1.001  # it is attained somewhere


def test_a_smaller_reach_would_not_do(place):
    # Negative control: divided by 1.3 it fails, for many choices.
    failures = sum(
        bool(np.any(brute_reach(place, choice, rate) > place.reach(choice) / 1.3 + 1e-9))
        for choice, rate in itertools.product(range(N), shares(4))
    )
    assert failures > 10


def test_far_reach_bounds_all_pairs_of_any_law(place, rng):
    some = [*laws(), *np.eye(N), *rng.dirichlet(np.full(N, 0.1), size=5)]
    for law, rate in itertools.product(some, (1e-3, 0.05, 0.5)):
        assert np.all(brute_reach(place, law, rate) <= place.far_reach() * (1 + 1e-9))
    # Negative control: the policy may play next to nothing of what is explored.
    assert any(
        np.any(brute_reach(place, law, 0.001) > place.far_reach() / 1.3 + 1e-9) for law in some
    )


def test_reach_is_the_same_when_it_is_asked_for_again(place, monkeypatch):
    first = [place.reach(j).copy() for j in range(N)]
    monkeypatch.setattr("koloss.learners.insured.watched.KEPT", 3 * N)  # and when memory is short
    fresh = Exploration(1, place.features, place.weights)
    for j in [*range(N), *range(N)]:
        np.testing.assert_array_equal(fresh.reach(j), first[j])
        np.testing.assert_allclose(fresh.beside(j), place.features @ place.features[j])


def random_state(stage, rng, spread):
    """Some estimates, as if much had been heard."""
    stage.total = rng.normal(size=N) * spread
    stage.paid = float(stage.total.min() + rng.exponential(spread))
    stage.heard = 5


@pytest.mark.parametrize("kind", ["action", "law"])
@pytest.mark.parametrize("cap", [math.inf, 60.0, None])
def test_no_outcome_of_a_round_leaves_the_budget(place, kind, cap):
    # All actions, losses ±1/2, predictions at the corners: the estimated regret after the round, by brute force.
    rng = np.random.default_rng(1)
    ratios, smaller_fails, made = [], 0, 0
    for _ in range(60):
        stage = make_stage(place, cap=cap)
        stage.watch.explored_rounds, stage.watch.explored_mean = 1, 1.0  # no suspicion
        random_state(stage, rng, 20.0)
        budget = stage.estimated_regret + 1 + rng.uniform(5, 120)
        choice = int(rng.integers(N))
        proposal = choice if kind == "action" else rng.dirichlet(np.full(N, 0.03))
        prediction = rng.choice([-0.5, 0.5], N)
        played = stage.draw_round(proposal, prediction, budget, crowded=None)
        if played is None:
            continue
        made += 1
        assert 0 < played.rate <= CEILING
        leverage = np.diag(by_inversion(played.exploration, played.distribution())).max()
        assert leverage <= (budget if cap is None else cap) * (1 + 1e-9)
        p = played.distribution()
        for b, y in itertools.product(np.flatnonzero(p > 0), (-0.5, 0.5)):
            after = (
                stage.paid
                + y
                - np.min(
                    stage.total + prediction + played.estimates(int(b)) * (y - prediction[int(b)])
                )
            )
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
    stage = make_stage()
    stage.total = np.linspace(0, 26, N)
    stage.paid = 2.0
    reach = stage.exploration.reach(3)
    assert stage.rate_needed(3, 50.0) == pytest.approx(np.max(reach / (50 - 2 - 1 + stage.total)))
    assert stage.rate_needed(3, 3.0) == math.inf  # no room at all
    stage.cap = 10.0
    assert stage.rate_needed(3, 1e9) == pytest.approx(stage.exploration.largest / 10)
    stage.cap = None
    room = 1e9 - 3 + stage.total
    assert stage.rate_needed(3, 1e9) == pytest.approx(
        max(np.max(reach / room), stage.exploration.largest / 1e9)
    )
    fixed = make_stage(shield=False, fixed=0.07)
    assert fixed.rate_needed(3, 1.0) == 0.07


def test_suspicion_explores_more_and_a_ceiling_stops():
    stage = make_stage()
    zero = np.zeros(N)
    assert stage.draw_round(0, zero, 1e6, None).rate == SUSPICION  # nothing is known yet
    stage.watch.hear(-0.4, explored=False)
    stage.watch.hear(0.3, explored=True)
    assert stage.draw_round(0, zero, 1e6, None).rate < 0.01
    for _ in range(5):
        stage.watch.hear(0.5, explored=False)
    assert stage.draw_round(0, zero, 1e6, None).rate == SUSPICION
    # The ceiling: just enough room, and just not enough.
    enough = 1 + float(np.max(stage.exploration.reach(0))) / CEILING
    assert stage.draw_round(0, zero, enough * 1.0001, None).rate == pytest.approx(CEILING, rel=1e-3)
    assert stage.draw_round(0, zero, enough * 0.9, None) is None
    # Where losses are outstanding, the round may add less.
    wide, narrow = (
        stage.draw_round(0, zero, 2.2 * enough, crowded) for crowded in (None, enough * 1.5)
    )
    assert narrow.rate > wide.rate
    assert stage.draw_round(0, zero, 1.2 * enough, crowded=enough * 0.9) is None


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
    unshielded = make_stage(shield=False)
    unshielded.heard = 9
    assert unshielded.fits(played, -1.0)  # there no state matters


# Exploring anew.


def test_a_new_design_is_one_and_spans_the_same_space():
    base = EXPLORATIONS["john"]
    for seed in range(5):
        found = redesigned(seed)
        assert found.weights.min() >= 0
        assert found.weights.sum() == pytest.approx(1)
        W = found.features
        np.testing.assert_allclose(W.T @ (found.weights[:, None] * W), np.eye(M), atol=1e-9)
        first = make_exploration(seed=seed).features
        T, _, rank, _ = np.linalg.lstsq(first, W, rcond=None)
        assert rank == M
        assert np.abs(first @ T - W).max() < 1e-9
    assert found.number != base.number


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
    assert not make_stage(shield=False).redesign(50.0, now=True)


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
        step = by_inversion(played.exploration, played.distribution())[:, index] * (
            y - prediction[index]
        )
        stage.hear(played, index, y, explored)
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
        stage.hear(played, 3, 0.5, explored=False)
    assert stage.heard == stage.paid == 0
    assert not stage.total.any()
    assert stage.watch.policy_rounds == 2


def test_unshielded_ends_above_the_trigger_only():
    stage = make_stage(shield=False, trigger=3.0)
    stage.paid = 3.0
    assert not stage.is_over()
    stage.paid = 3.0001
    assert stage.is_over()
    shielded = make_stage(trigger=3.0)
    shielded.paid = 100.0
    assert not shielded.is_over()


def test_what_was_kept_comes_back(rng):
    stage = make_stage()
    zero = np.zeros(N)
    rounds = [stage.draw_round(3, zero, 1e3, None), stage.draw_round(laws()[2], zero, 1e3, None)]
    for played in rounds:
        stage.hear(played, 5, 0.4, explored=True)
    stage.total = np.linspace(0, 300, N)
    stage.redesign(60.0, now=True)
    rounds.append(stage.draw_round(2, zero, 1e3, None))
    places = {1: stage.first, stage.exploration.number: stage.exploration}
    kept = [place.to_dict() for place in places.values()]
    again = {k: Exploration.from_dict(data) for k, data in zip(places, kept, strict=True)}
    for played in rounds:
        found = Round.from_dict(played.to_dict(), again)
        np.testing.assert_array_equal(found.distribution(), played.distribution())
        for b in range(N):
            np.testing.assert_array_equal(found.estimates(b), played.estimates(b))
        np.testing.assert_array_equal(found.reach(), played.reach())
    other = make_stage()
    data = stage.to_dict()
    other.load(data, again)
    np.testing.assert_array_equal(other.total, stage.total)
    assert other.watch == stage.watch
    assert json.dumps(other.to_dict(), default=np.ndarray.tolist) == json.dumps(
        stage.to_dict(), default=np.ndarray.tolist
    )
    other.total += 1
    other.watch.hear(0.5, explored=False)
    assert stage.watch.policy_rounds == 0
    np.testing.assert_array_equal(data["total"], stage.total)


# The bet.


def run_bet(watch, losses, explored):
    """The largest wealth of one bet, begun at the first exploration, and the evidence after each exploration."""
    single, largest, course = 1.0, 1.0, []
    for y, e in zip(losses, explored, strict=True):
        before = watch.wealth
        watch.hear(y, e)
        if e:
            if watch.wealth != before:  # a bet was made
                single *= watch.wealth / (before + 1)
                largest = max(largest, single)
            course.append(watch.evidence)
    return largest, course


def test_bet_by_hand():
    watch = Watch()
    watch.hear(0.5, explored=True)  # nothing to bet against yet
    assert watch.wealth == 0
    for y in (0.2, 0.4):
        watch.hear(y, explored=False)
    assert watch.policy_mean == pytest.approx(0.3)
    watch.hear(-0.1, explored=True)
    assert watch.wealth == pytest.approx(1 + 0.9 * 0.4)
    watch.hear(0.5, explored=True)
    assert watch.wealth == pytest.approx(1.36)  # no loss of the policy's since the last bet
    watch.hear(0.1, explored=False)
    watch.hear(0.4, explored=True)
    assert watch.wealth == pytest.approx((1 + 1.36) * (1 - 0.9 * 0.3))
    watch.hear(0.4, explored=False)
    assert watch.policy_mean == pytest.approx((0.2 + 0.4 + 0.1 + 0.4) / 4)
    assert watch.explored_mean == pytest.approx((0.5 - 0.1 + 0.5 + 0.4) / 4)


def test_means_are_recent():
    watch = Watch()
    ys = np.random.default_rng(0).uniform(-0.5, 0.5, 60)
    mean = 0.0
    for t, y in enumerate(ys, start=1):
        watch.hear(float(y), explored=False)
        mean += (y - mean) * max(1 / t, 0.1)
    assert watch.policy_mean == pytest.approx(mean)
    assert watch.suspicious  # nothing explored
    for _ in range(200):
        watch.hear(0.3, explored=True)
    for _ in range(60):
        watch.hear(-0.2, explored=True)  # of late
    assert watch.explored_mean < -0.15
    for _ in range(40):
        watch.hear(-0.4, explored=False)
    assert not watch.suspicious


def test_wealth_stays_positive_and_finite():
    # Losses at the ends of the range, all against the bet, then all for it.
    watch = Watch()
    for _ in range(2000):
        watch.hear(-0.5, explored=False)
        watch.hear(0.5, explored=True)
    assert 0 < watch.wealth < 1
    for _ in range(20):
        watch.hear(0.5, explored=False)
        watch.hear(-0.5, explored=True)
    assert watch.evidence > 1
    assert math.isfinite(watch.wealth)


RUNS, HEARD = 3000, 160


def exceeds(policy, explore, level, *, share, make=Watch):
    """How many of RUNS single bets ever reach 1/level."""
    rng = np.random.default_rng(0)
    count = 0
    for _ in range(RUNS):
        explored = rng.random(HEARD) < share
        losses = np.where(explored, explore(rng), policy(rng))
        count += run_bet(make(), losses.tolist(), explored.tolist())[0] >= 1 / level
    return count


def coin(mean):
    """Losses ±1/2."""
    return lambda rng: np.where(rng.random(HEARD) < mean + 0.5, 0.5, -0.5)


class Careless(Watch):
    """Bets against the policy's recent mean, so that losses are used in several bets."""

    def hear(self, y, explored):
        mean, before = self.policy_mean, self.wealth
        super().hear(y, explored)
        if explored and self.policy_rounds:
            self.wealth = (before + 1) * (1 + 0.9 * (mean - y))


@pytest.mark.parametrize("level", [0.05, 0.01])
@pytest.mark.parametrize("mean, share", [(0.0, 0.25), (0.0, 0.5), (0.3, 0.25), (-0.3, 0.5)])
def test_a_fair_bet_is_rarely_won(mean, share, level):
    # Ville: policy and exploration throw the same coin; one bet ever reaches 1/level with a chance of at most `level`.
    most = stats.binom(RUNS, level).isf(LEVEL)
    assert exceeds(coin(mean), coin(mean), level, share=share) <= most


def test_what_is_no_fair_bet_is_won_more_often():
    # Negative controls: losses that are used twice; a policy that is worse by 0.2.
    most = stats.binom(RUNS, 0.01).isf(LEVEL)
    assert exceeds(coin(0.0), coin(0.0), 0.01, share=0.5, make=Careless) > most
    assert exceeds(coin(0.2), coin(0.0), 0.01, share=0.5) > most


def test_false_alarms_are_rare():
    # Policy and exploration throw the same coin, 200 explorations or so. Simulated apart, 1,500 games: 9 in 100.
    rng, stopped = np.random.default_rng(2), 0
    for _ in range(200):
        explored, losses = rng.random(800) < 0.25, rng.choice([-0.5, 0.5], 800)
        stopped += max(run_bet(Watch(), losses.tolist(), explored.tolist())[1]) > 1
    assert stopped <= stats.binom(200, 0.1).isf(LEVEL)


def test_a_policy_that_is_much_worse_is_noticed_soon():
    # Worse by 0.6 on average, under noise: of 200 runs all are stopped within 40 explorations, half of them within 15.
    rng = np.random.default_rng(1)
    times, never = [], 0
    for _ in range(200):
        explored = np.tile([False, False, False, True], 80)
        losses = np.where(explored, -0.3, 0.3) + rng.uniform(-0.2, 0.2, 320)
        _, course = run_bet(Watch(), losses.tolist(), explored.tolist())
        times.append(1 + int(np.argmax(np.array(course) > 1)))
        assert course[times[-1] - 1] > 1
        better = np.where(explored, 0.3, -0.3) + rng.uniform(-0.2, 0.2, 320)
        never += max(run_bet(Watch(), better.tolist(), explored.tolist())[1]) <= 1
    assert max(times) <= 40
    assert np.median(times) <= 15
    assert never == 200  # negative control: a policy that is better is left alone


def test_a_change_late_in_the_game_is_noticed():
    # A thousand explorations in which the policy is better do not make the detector deaf.
    watch = Watch()
    for _ in range(1000):
        watch.hear(-0.3, explored=False)
        watch.hear(0.2, explored=True)
    count = 0
    while watch.evidence <= 1:
        for _ in range(4):
            watch.hear(0.4, explored=False)
        watch.hear(-0.2, explored=True)
        count += 1
        assert count < 25
