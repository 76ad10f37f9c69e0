"""Losses that are not where they were said to be, or of which nothing was said: Σ p·ℓ against the best action, and the bound."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest

import koloss as kl
from koloss.learners.bandit.loss_range import LossRange
from koloss.learners.reading import Reader
from tests.learners.bandit.inside import algorithm

LINE = kl.Points(np.linspace(0, 1, 24)[:, None])
X = LINE.X[:, 0]
ROUNDS = 600


def make(actions=LINE, kernel=None, **settings):
    said = {"horizon": ROUNDS, "loss_range": "learn", "batch": 1, "rng": 4}
    return kl.BanditExpWeights(actions, kernel or kl.Gaussian(0.4), **said | settings)


def smooth(center):
    return 1 - np.exp(-((X - center) ** 2) / (2 * 0.4**2))


def jump(size, at):
    return lambda t, p: smooth(0.3) * (size if t >= at * ROUNDS else 1.0)


def hidden(size):
    """From a third on, one action is better by so much, in the function of the class that is heard most rarely."""

    def losses(t, p):
        base = smooth(0.7)
        if t < ROUNDS / 3:
            return base
        dip = np.exp(-((X - 0.05) ** 2) / (2 * 0.4**2))
        return base - size * dip * (t % 7 == 0)

    return losses


def lows(t, p):
    return smooth(0.5) - 0.5 * t / ROUNDS * np.exp(-((X - 0.1) ** 2) / (2 * 0.4**2))


def offset(t, p):
    return smooth(0.2) + (1000.0 if t > ROUNDS / 2 else 0.0)


def predictive(t, p):
    return 10 * np.exp(-((X - X[int(np.argmax(p))]) ** 2) / (2 * 0.4**2))


def silent(t, p):
    return smooth(0.3) if t > 3 * ROUNDS / 4 else np.zeros(len(X))


GAMES = {
    "jump 10": jump(10.0, 0.5),
    "jump 1000": jump(1000.0, 0.5),
    "early jump": jump(1000.0, 0.125),
    "hidden 10": hidden(10.0),
    "hidden 1000": hidden(1000.0),
    "new lows": lows,
    "offset": offset,
    "predictive": predictive,
    "silent": silent,
}


def play(learner, losses, rounds=ROUNDS):
    """Regret, the range of all losses, and the rates of every round."""
    paid, total, low, high, rates = 0.0, np.zeros(len(learner.actions)), math.inf, -math.inf, []
    for t in range(rounds):
        p = learner.distribution
        loss = np.asarray(losses(t, p), dtype=float)
        low, high = min(low, loss.min()), max(high, loss.max())
        paid += float(p @ loss)
        total += loss
        decision = learner.ask()
        rates.append(algorithm(learner).epoch.eta)
        learner.tell(decision, float(loss[decision.index]))
    return paid - total.min(), high - low, rates


@pytest.mark.slow
@pytest.mark.parametrize("horizon", [ROUNDS, None])
@pytest.mark.parametrize("name", GAMES)
def test_no_game_exceeds_the_bound(name, horizon):
    learner = make(horizon=horizon)
    regret, width, rates = play(learner, GAMES[name])
    promise = learner.guarantee(rounds=ROUNDS)
    assert promise.unit == "ρ"
    assert regret <= sum(promise.terms.values()) * width
    known = [eta for eta in rates if eta > 0]
    assert all(a >= b for a, b in pairwise(known))


def test_the_first_decision_is_drawn_from_the_design_and_only_listened_to():
    learner = make()
    np.testing.assert_allclose(learner.distribution, learner.engine.weights)
    learner.tell(learner.ask(), 5.0)
    assert not algorithm(learner).theta.any()
    assert algorithm(learner).range.center == 5.0
    learner.tell(learner.ask(), 5.0)
    assert not algorithm(learner).theta.any()
    learner.tell(learner.ask(), 7.0)  # the first that differs counts with its full size
    assert algorithm(learner).theta.any()
    assert algorithm(learner).range.factor == 2.0


def test_the_estimate_is_the_loss_less_the_middle_of_what_was_heard_before():
    learner = make()
    for loss in (1.0, 3.0):
        learner.tell(learner.ask(), loss)
    before = algorithm(learner).theta.copy()
    decision = learner.ask()
    law = algorithm(learner).epoch.law
    learner.tell(decision, 100.0)
    expected = learner.engine.estimate(law, decision.index, 98.0)
    np.testing.assert_allclose(algorithm(learner).theta - before, expected)
    assert algorithm(learner).range.heard_high == 100.0


def test_an_epoch_ends_at_an_excess():
    learner = make(batch=8)
    for loss in (0.0, 1.0):
        learner.tell(learner.ask(), loss)
    first, second = learner.ask(), learner.ask()
    assert first.epoch == second.epoch
    learner.tell(first, 2.0)
    assert learner.ask().epoch > second.epoch
    learner.tell(second, 0.5)  # late, with the centre of its own epoch


def test_discarding_what_is_outside_has_linear_regret():
    # Negative control: three arms, each look at the best of which is a new low.
    def losses(t):
        return np.array([0.0, 1.0, -0.2 - 0.6 * t / 3000])

    rng, low, high, total = np.random.default_rng(0), 0.0, 1.0, np.zeros(3)
    eta, gamma, paid, best = 0.02, 0.06, 0.0, np.zeros(3)
    for t in range(3000):
        q = np.exp(-eta * (total - total.min()))
        p = (1 - gamma) * q / q.sum() + gamma / 3
        a, loss = rng.choice(3, p=p), losses(t)
        paid, best = paid + p @ loss, best + loss
        if low <= loss[a] <= high:
            total[a] += (loss[a] - 0.5) / p[a]
        low, high = min(low, loss[a]), max(high, loss[a])
    discarding = paid - best.min()
    arms = kl.Points(np.eye(3))
    learner = make(arms, kl.Linear(), horizon=3000, loss_class="any")
    regret, _, _ = play(learner, lambda t, p: losses(t), 3000)
    assert discarding > 0.3 * 3000
    assert regret < 0.1 * 3000


# A range that was stated.


def test_a_range_that_was_right_is_played_the_same_whatever_the_rule():
    said = {"loss_range": (0, 1), "batch": "auto"}
    learners = [make(outside=rule, **said) for rule in ("raise", "widen", "clip", "keep")]
    for _ in range(80):
        decisions = [learner.ask() for learner in learners]
        assert len({(d.index, d.probability) for d in decisions}) == 1
        for learner, decision in zip(learners, decisions, strict=True):
            learner.tell(decision, float(smooth(0.4)[decision.index]))
    assert len({learner.guarantee().total for learner in learners}) == 1


def test_a_range_can_be_widened_before_a_loss_outside_is_heard():
    said = {"loss_range": (0, 1), "outside": "widen"}
    told, heard, never = make(**said), make(**said), make(**said)
    for learner in (told, heard, never):
        learner.tell(learner.ask(), 0.5)
    told.widen(0, 3)
    heard.tell(heard.ask(), 3.0)
    assert told._exp2.range.limits == heard._exp2.range.limits
    assert (told._exp2.range.heard_low, told._exp2.range.heard_high) == (0.0, 3.0)
    assert told._exp2.rates_now()[0] == heard._exp2.rates_now()[0] < never._exp2.rates_now()[0]
    assert told.guarantee().total > never.guarantee().total
    again = kl.BanditExpWeights.from_state(told.state())
    assert again.ask().index == told.ask().index
    with pytest.raises(ValueError, match="must hold what it was"):
        told.widen(1, 3)
    with pytest.raises(ValueError, match="whose `outside` is 'widen', got 'raise'"):
        make(loss_range=(0, 1)).widen(0, 3)


@pytest.mark.parametrize("rule", ["widen", "clip", "keep"])
def test_what_is_outside_is_counted(rule):
    learner = make(loss_range=(0, 1), outside=rule)
    calm = learner.guarantee()
    for k in range(40):
        decision = learner.ask()
        learner.tell(decision, 3.0 if k % 10 == 9 else 0.5)
    seen, promise = algorithm(learner).range, learner.guarantee()
    assert sum(promise.terms.values()) > sum(calm.terms.values())
    if rule == "widen":
        assert (seen.heard_low, seen.heard_high) == (0.0, 3.0)
        assert promise.terms["prior"] == pytest.approx(3 * calm.terms["prior"])
        return
    assert (seen.beyond, seen.squares) == (8.0, 16.0)
    R = learner.engine.problem.largest_leverage(learner.rates.learning_rate, learner.rates.kappa)
    if rule == "keep":
        assert promise.terms["outside"] == pytest.approx(8 * (R + math.sqrt(R)))
    assert not math.isfinite(promise.trivial)


def test_a_batch_may_be_outside_too():
    learner = make(loss_range=(0, 1), outside="clip")
    learner.tell(learner.ask(4), [0.5, -1.0, 2.0, 0.2])
    assert algorithm(learner).range.beyond == 2.0
    learner = make()
    learner.tell(learner.ask(4), [0.5, -1.0, 2.0, 0.2])
    assert algorithm(learner).range.factor == 3.0


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["widen", "clip", "keep"])
@pytest.mark.parametrize("name", ["jump 10", "hidden 10", "new lows"])
def test_a_range_that_was_wrong_keeps_its_bound(name, rule):
    learner = make(loss_range=(0, 1), outside=rule)
    regret, width, _ = play(learner, GAMES[name])
    promise = sum(learner.guarantee().terms.values())
    if rule != "widen":
        assert regret <= promise
    else:  # for the losses that were heard; what was not may have been wider
        seen = algorithm(learner).range
        assert regret <= promise * width / (seen.heard_high - seen.heard_low)


# Settings and snapshots.


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"loss_range": "guess"}, "`loss_range` must be .low, high. or 'learn'"),
        ({"outside": "clip"}, "`outside` must be 'raise' unless"),
        ({"loss_range": (0, 1), "outside": "drop"}, "`outside` must be one of"),
        ({"loss_bound": 1.0}, "give `loss_bound` or `loss_range`"),
        ({"tuning": "paper"}, "`loss_range` must be an interval"),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises(ValueError, match=message):
        make(**settings)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, "1", True, None])
def test_bad_losses_are_refused_without_a_range_too(value):
    learner = make()
    with pytest.raises((TypeError, ValueError), match="`loss` must be"):
        learner.tell(learner.ask(), value)


@pytest.mark.parametrize(
    "settings", [{}, {"horizon": None}, {"loss_range": (0, 1), "outside": "widen"}]
)
def test_a_game_goes_on_after_a_snapshot(settings):
    learner = make(**settings)
    for t in range(30):
        decision = learner.ask()
        learner.tell(decision, 2.0 * float(smooth(0.4)[decision.index]) * (1 + t))
    again = kl.BanditExpWeights.from_state(learner.state())
    for t in range(30):
        a, b = learner.ask(), again.ask()
        assert (a.index, a.probability) == (b.index, b.probability)
        loss = float(smooth(0.4)[a.index]) * (50 + t)
        learner.tell(a, loss)
        again.tell(b, loss)
    assert again.guarantee() == learner.guarantee()


def test_estimates_are_in_the_units_of_the_losses():
    learner = make(horizon=3000)
    for _ in range(1500):
        decision = learner.ask()
        learner.tell(decision, 1000.0 + 50 * float(smooth(0.4)[decision.index]))
    assert 990 < learner.recommend().loss < 1025
    assert learner.diagnostics.estimated_losses.min() == pytest.approx(learner.recommend().loss)


def test_interval_as_data():
    seen = LossRange(-0.5, 0.5, learned=True)
    assert not seen.known
    seen.hear([3.0])
    assert (seen.center, seen.factor) == (3.0, 0.0)
    stated = LossRange(-0.5, 0.5, learned=True)
    assert LossRange.from_dict(Reader(seen.to_dict()), stated) == seen
