"""Losses that are not where they were said to be, or of which nothing was said: Σ p·ℓ against the best action, and the bound."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest

import koloss as kl
from koloss.errors import LossOutOfBounds
from koloss.learners.bandit.loss_range import LossRange
from tests.support import inside

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
        rates.append(inside.exp2(learner).epoch.eta)
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
    assert not inside.exp2(learner).theta.any()
    assert inside.exp2(learner).range.center == 5.0
    learner.tell(learner.ask(), 5.0)
    assert not inside.exp2(learner).theta.any()
    learner.tell(learner.ask(), 7.0)  # the first that differs counts with its full size
    assert inside.exp2(learner).theta.any()
    assert inside.exp2(learner).range.factor == 2.0


def test_the_estimate_is_the_loss_less_the_middle_of_what_was_heard_before():
    learner = make()
    for loss in (1.0, 3.0):
        learner.tell(learner.ask(), loss)
    before = inside.exp2(learner).theta.copy()
    decision = learner.ask()
    law = inside.exp2(learner).epoch.law
    learner.tell(decision, 100.0)
    expected = learner.engine.estimate(law, decision.index, 98.0)
    np.testing.assert_allclose(inside.exp2(learner).theta - before, expected)
    assert inside.exp2(learner).range.heard_high == 100.0


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


@pytest.mark.parametrize("regret", ["pseudo", "hindsight"])
def test_a_range_that_was_right_is_played_the_same_whatever_the_rule(regret):
    said = {"loss_range": (0, 1), "batch": "auto", "regret": regret}
    learners = [make(outside=rule, **said) for rule in ("raise", "widen", "clip")]
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
    assert inside.exp2(told).range.limits == inside.exp2(heard).range.limits
    assert (inside.exp2(told).range.heard_low, inside.exp2(told).range.heard_high) == (0.0, 3.0)
    assert (
        inside.exp2(told).rates_now()[0]
        == inside.exp2(heard).rates_now()[0]
        < inside.exp2(never).rates_now()[0]
    )
    assert told.guarantee().total > never.guarantee().total
    again = kl.BanditExpWeights.from_state(told.state())
    assert again.ask().index == told.ask().index
    with pytest.raises(ValueError, match="must hold what it was"):
        told.widen(1, 3)
    with pytest.raises(ValueError, match="whose `outside` is 'widen', got 'raise'"):
        make(loss_range=(0, 1)).widen(0, 3)


def test_a_wider_range_is_charged():
    learner = make(loss_range=(0, 1), outside="widen")
    calm = learner.guarantee()
    for k in range(40):
        learner.tell(learner.ask(), 3.0 if k % 10 == 9 else 0.5)
    seen, promise = inside.exp2(learner).range, learner.guarantee()
    assert (seen.heard_low, seen.heard_high) == (0.0, 3.0)
    assert promise.terms["prior"] == pytest.approx(3 * calm.terms["prior"])
    learner = make()
    learner.tell(learner.ask(4), [0.5, -1.0, 2.0, 0.2])
    assert inside.exp2(learner).range.factor == 3.0


# A ceiling: what is above counts as it, what is below is an error.

ALIKE = {
    "single": {},
    "epochs": {"batch": "auto"},
    "no horizon": {"horizon": None},
    "any": {"loss_class": "any"},
    "hindsight": {"regret": "hindsight"},
    "shares": {"shares": {0: (0.1, 0.4)}},
    "held back": {"hold": 3},
}


@pytest.mark.parametrize("goal", ["minimize", "maximize"])
@pytest.mark.parametrize("name", ALIKE)
@pytest.mark.parametrize("kind", [kl.BanditExpWeights, kl.InsuredBandit])
def test_a_loss_above_counts_as_the_high_end(kind, name, goal):
    """The same decisions and the same bound as a learner that is told min(loss, high): of rewards max(reward, low)."""
    if kind is kl.InsuredBandit and name in ("any", "hindsight"):
        pytest.skip("refused with a policy")
    said = {"horizon": ROUNDS, "loss_range": (0, 1), "goal": goal, "rng": 4} | ALIKE[name]
    learner, plain = (
        kind(LINE, kl.Gaussian(0.4), outside=rule, **said) for rule in ("clip", "raise")
    )
    coins, excess = np.random.default_rng(2), 0.0
    for _ in range(60):
        decision, other = learner.ask(), plain.ask()
        assert (decision.index, decision.probability) == (other.index, other.probability)
        loss = float(coins.pareto(1.5))
        excess += max(loss - 1, 0.0)
        if goal == "minimize":
            learner.tell(decision, loss)
            plain.tell(other, min(loss, 1.0))
        else:
            learner.tell(decision, 1 - loss)
            plain.tell(other, max(1 - loss, 0.0))
    batch, other = learner.ask(5), plain.ask(5)
    learner.tell(batch, [0.5, 1.0, 0.25, 2.0 if goal == "minimize" else -1.0, 0.0])
    plain.tell(other, [0.5, 1.0, 0.25, float(goal == "minimize"), 0.0])
    excess += 1.0
    np.testing.assert_array_equal(learner.distribution, plain.distribution)
    promise, known = learner.guarantee(), plain.guarantee()
    assert (promise.terms, promise.trivial) == (known.terms, known.trivial)
    assert promise.valid == known.valid
    again = kind.from_state(learner.state())
    assert (again.guarantee(), again.ask().index) == (promise, learner.ask().index)
    words = ("Losses above 1 count as 1", "min(loss, 1)", "losses exceeded 1 by")
    if goal == "maximize":
        words = ("Rewards below 0 count as 0", "max(reward, 0)", "rewards fell short of 0 by")
    (note,) = (one for one in promise.notes if " count as " in one)
    assert note.startswith(words[0])
    assert words[2] in note
    if name != "held back":  # where some are not used yet
        assert float(note.rsplit(": ", 1)[1].rstrip(".")) == pytest.approx(excess, rel=1e-4)
    of_class = [one for one in promise.assumptions if words[1] in one.text]
    assert len(of_class) == (name != "any")
    assert not any("every loss is in" in one.text for one in promise.assumptions)


@pytest.mark.parametrize("kind", [kl.BanditExpWeights, kl.InsuredBandit])
@pytest.mark.parametrize("goal, wrong", [("minimize", -0.001), ("maximize", 1.001)])
def test_a_loss_below_is_refused_and_changes_nothing(kind, goal, wrong):
    said = {"horizon": 99, "loss_range": (0, 1), "outside": "clip", "goal": goal, "rng": 0}
    learner = kind(LINE, kl.Gaussian(0.4), **said)
    decision, batch = learner.ask(), learner.ask(3)
    before = learner.state()["digest"]
    with pytest.raises(LossOutOfBounds, match=f"`loss` must be at .* got {wrong}"):
        learner.tell(decision, wrong)
    with pytest.raises(LossOutOfBounds, match="`loss` must be at"):
        learner.tell(batch, [0.5, wrong, 0.5])
    with pytest.raises(ValueError, match="`loss` must be finite"):
        learner.tell(decision, math.inf)
    assert learner.state()["digest"] == before


def test_the_regret_is_at_most_that_of_clipped_losses_and_the_own_excess(rng):
    """On every path, whatever is played; from below there is no such bound."""
    for _ in range(200):
        losses, played = rng.pareto(1.2, size=(30, 5)), rng.integers(5, size=30)

        def regret(values, played=played):
            return values[np.arange(30), played].sum() - values.sum(axis=0).min()

        own = np.maximum(losses - 1, 0)[np.arange(30), played].sum()
        assert regret(losses) <= regret(np.minimum(losses, 1)) + own + 1e-9
    below, idle = np.array([[0.0, -9.0]]), np.array([0])  # the comparator gains what nobody sees
    assert below[0, idle[0]] - below.min() > np.maximum(-below[0, idle[0]], 0.0) + 1


def test_a_measured_regret_of_clipped_losses_is_not_called_covered():
    learner = make(loss_range=(0, 1), outside="clip")
    learner.tell(learner.ask(), 0.5)
    assert learner.guarantee().against(oblivious=True).valid
    learner.tell(learner.ask(), 1.5)
    assert learner.guarantee().valid
    assert not learner.guarantee().against(oblivious=True).valid


@pytest.mark.slow
@pytest.mark.parametrize("name", ["jump 10", "hidden 10", "new lows"])
def test_a_range_that_was_wrong_keeps_its_bound(name):
    learner = make(loss_range=(0, 1), outside="widen")
    regret, width, _ = play(learner, GAMES[name])
    promise = sum(learner.guarantee().terms.values())
    seen = inside.exp2(
        learner
    ).range  # of the losses that were heard; what was not may have been wider
    assert regret <= promise * width / (seen.heard_high - seen.heard_low)


# Settings and snapshots.


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, "1", True, None])
def test_bad_losses_are_refused_without_a_range_too(value):
    learner = make()
    with pytest.raises((TypeError, ValueError), match="`loss` must be"):
        learner.tell(learner.ask(), value)


def test_estimates_are_in_the_units_of_the_losses():
    learner = make(horizon=3000)
    for _ in range(1500):
        decision = learner.ask()
        learner.tell(decision, 1000.0 + 50 * float(smooth(0.4)[decision.index]))
    assert 990 < learner.recommend().loss < 1025
    assert learner.diagnostics.estimated_losses.min() == pytest.approx(learner.recommend().loss)


@pytest.mark.parametrize("kind", [kl.BanditExpWeights, kl.InsuredBandit])
def test_of_one_loss_nobody_knows_the_range(kind):
    """Nor, then, what playing at random would lose."""
    learner = kind(LINE, kl.Quadratic(), horizon=1000, loss_range="learn", rng=0)
    for loss in (5.0, 5.0, 7.0):
        words, random = learner.guarantee().in_words(), learner.guarantee().random
        assert "no two that differ were received yet" in words
        assert random is None
        learner.tell(learner.ask(), loss)
    assert "so far it is 2, and the bound" in learner.guarantee().in_words()
    assert learner.guarantee().random is not None


def test_one_loss_has_no_width():
    seen = LossRange(-0.5, 0.5, learned=True)
    assert not seen.known
    seen.hear([3.0])
    assert (seen.center, seen.factor) == (3.0, 0.0)
