"""The bet that exploration does better than the policy: by hand, Ville's inequality, how soon it is won."""

from __future__ import annotations

import numpy as np
import pytest

from koloss.learners.insured.evidence import Bets
from tests.support.statistics import agrees, by_share, differs


def run_bet(bets, losses, explored):
    """The largest wealth of one bet, begun at the first exploration, and the evidence after each exploration."""
    single, largest, course = 1.0, 1.0, []
    for y, e in zip(losses, explored, strict=True):
        before = bets.wealth
        bets.add(y, e)
        if e:
            if bets.wealth != before:  # a bet was made
                single *= bets.wealth / (before + 1)
                largest = max(largest, single)
            course.append(bets.evidence)
    return largest, course


def add(bets, policy, explored=()):
    """Losses of the policy, then of explored actions."""
    for y in policy:
        bets.add(y, explored=False)
    for y in explored:
        bets.add(y, explored=True)


def test_bet_by_hand():
    bets = Bets()
    add(bets, [], [0.5])  # nothing to bet against yet
    assert bets.wealth == 0
    add(bets, [0.2, 0.4])
    assert bets.policy_mean == pytest.approx(0.3)
    add(bets, [], [-0.1])
    assert bets.wealth == pytest.approx(1 + 0.9 * 0.4)
    add(bets, [], [0.5])
    assert bets.wealth == pytest.approx(1.36)  # no loss of the policy's since the last bet
    add(bets, [0.1], [0.4])
    assert bets.wealth == pytest.approx((1 + 1.36) * (1 - 0.9 * 0.3))
    add(bets, [0.4])
    assert bets.policy_mean == pytest.approx((0.2 + 0.4 + 0.1 + 0.4) / 4)
    assert bets.explored_mean == pytest.approx((0.5 - 0.1 + 0.5 + 0.4) / 4)


def test_means_are_recent():
    bets = Bets()
    ys = np.random.default_rng(0).uniform(-0.5, 0.5, 60)
    mean = 0.0
    for t, y in enumerate(ys, start=1):
        bets.add(float(y), explored=False)
        mean += (y - mean) * max(1 / t, 0.1)
    assert bets.policy_mean == pytest.approx(mean)
    assert bets.suspects(0.25)  # nothing explored
    add(bets, [], [0.3] * 200 + [-0.2] * 60)
    assert bets.explored_mean < -0.15
    add(bets, [-0.4] * 40)
    assert not bets.suspects(0.0)


def test_suspicion_is_beyond_a_deviation_of_noise():
    # Policy and exploration equally good: long means of 19 and 39 independent losses, one deviation, so in 16 of 100 rounds.
    rng, bets, rounds = np.random.default_rng(1), Bets(), 20_000
    suspected = {0.0: 0, 1 / 12: 0}
    for _ in range(rounds):
        bets.add(float(rng.uniform(-0.5, 0.5)), explored=bool(rng.random() < 0.5))
        for noise in suspected:
            suspected[noise] += bets.suspects(noise)
    assert 0.12 <= suspected[1 / 12] / rounds <= 0.2
    assert 0.45 <= suspected[0.0] / rounds <= 0.55  # negative control: without noise it is a coin


RUNS, HEARD = 1500, 160


def exceeds(policy, explore, level, *, share, make=Bets):
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


class Careless(Bets):
    """Bets against the policy's recent mean, so that losses are used in several bets."""

    def add(self, y, explored):
        mean, before = self.policy_mean, self.wealth
        super().add(y, explored)
        if explored and self.policy_rounds:
            self.wealth = (before + 1) * (1 + 0.9 * (mean - y))


@pytest.mark.slow
@pytest.mark.parametrize("level", [0.05, 0.01])
@pytest.mark.parametrize("mean, share", [(0.0, 0.25), (0.0, 0.5), (0.3, 0.25), (-0.3, 0.5)])
def test_a_fair_bet_is_rarely_won(mean, share, level):
    # Ville: policy and exploration throw the same coin; one bet ever reaches 1/level with a chance of at most `level`.
    won = exceeds(coin(mean), coin(mean), level, share=share)
    assert agrees(by_share(won, RUNS, level, "greater"))


@pytest.mark.slow
def test_what_is_no_fair_bet_is_won_more_often():
    # Negative controls: losses that are used twice; a policy that is worse by 0.2.
    careless = exceeds(coin(0.0), coin(0.0), 0.01, share=0.5, make=Careless)
    worse = exceeds(coin(0.2), coin(0.0), 0.01, share=0.5)
    assert differs(by_share(careless, RUNS, 0.01, "greater"))
    assert differs(by_share(worse, RUNS, 0.01, "greater"))


def test_false_alarms_are_rare():
    # Policy and exploration throw the same coin, 200 explorations or so. Simulated apart, 1,500 games: 9 in 100.
    rng, stopped = np.random.default_rng(2), 0
    for _ in range(200):
        explored, losses = rng.random(800) < 0.25, rng.choice([-0.5, 0.5], 800)
        stopped += max(run_bet(Bets(), losses.tolist(), explored.tolist())[1]) > 1
    assert agrees(by_share(stopped, 200, 0.1, "greater"))


def test_a_policy_that_is_much_worse_is_noticed_soon():
    # Worse by 0.6 on average, under noise: of 200 runs all are stopped within 40 explorations, half of them within 15.
    rng = np.random.default_rng(1)
    times, never = [], 0
    for _ in range(200):
        explored = np.tile([False, False, False, True], 80)
        losses = np.where(explored, -0.3, 0.3) + rng.uniform(-0.2, 0.2, 320)
        _, course = run_bet(Bets(), losses.tolist(), explored.tolist())
        times.append(1 + int(np.argmax(np.array(course) > 1)))
        assert course[times[-1] - 1] > 1
        better = np.where(explored, 0.3, -0.3) + rng.uniform(-0.2, 0.2, 320)
        never += max(run_bet(Bets(), better.tolist(), explored.tolist())[1]) <= 1
    assert max(times) <= 40
    assert np.median(times) <= 15
    assert never == 200  # negative control: a policy that is better is left alone


def test_a_change_late_in_the_game_is_noticed():
    # A thousand explorations in which the policy is better do not make the detector deaf.
    bets = Bets()
    for _ in range(1000):
        add(bets, [-0.3], [0.2])
    count = 0
    while bets.evidence <= 1:
        add(bets, [0.4] * 4, [-0.2])
        count += 1
        assert count < 25
