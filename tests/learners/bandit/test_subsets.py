"""A law among some of the actions: by requests, by what is on offer; and actions that come and go."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.special import logsumexp

import koloss as kl
from koloss.learners.bandit.exp2 import Exp2
from koloss.learners.bandit.subsets import subset_of
from tests.support import inside
from tests.support.clauses import marks, remarks
from tests.support.copies import fresh_copy

X = np.random.default_rng(4).random((10, 2))
N = len(X)
KINDS = {
    "plain": {"ridge": 0, "bonus": False},
    "bonus": {"ridge": 0, "bonus": True},
    "ridge": {},
    "anytime": {"horizon": None},
    "hindsight": {"regret": "hindsight"},
    "learned": {"loss_range": "learn"},
    "arms": {"loss_class": "any"},
    "shares": {"shares": {0: (0.1, 0.5), (1, 2, 3): (0.0, 0.6)}},
    "epochs": {"batch": 6},
    "sampled": {"covariance": "sampled", "sample_error": 0.5},
    "prior": {"prior": np.arange(1, N + 1) / (N * (N + 1) / 2)},
}
BUILT = {}


def make(kind="plain", rng=0, **said):
    said = {"horizon": 4000, "loss_range": (0, 1)} | KINDS[kind] | said
    key = kind, repr(sorted(said.items()))
    if key not in BUILT:
        BUILT[key] = kl.BanditExpWeights(kl.Points(X), kl.Gaussian(0.5), rng=0, **said)
    return fresh_copy(BUILT[key], rng)


def loss_of(decision, t=0):
    return float((np.floor(50 * decision.action[0]) + 3 * t) % 9) / 8


def play(learner, rounds, allowed=None, first=0):
    """Play rounds among some actions; the rows that were played."""
    rows = []
    for t in range(first, first + rounds):
        decision = learner.ask(allowed=allowed)
        learner.tell(decision, loss_of(decision, t))
        rows.append(decision.index)
    return rows


masks = st.lists(st.booleans(), min_size=N, max_size=N).filter(any).map(np.array)
kinds = st.sampled_from(sorted(KINDS))


def weights(learner):
    """exp(-η S) times the prior, as shares of the total."""
    exp2 = inside.exp2(learner)
    logs = exp2.engine.log_prior - exp2._eta * exp2.sums()
    return np.exp(logs - logsumexp(logs))


# Those asleep, and those awake.


@settings(max_examples=40, deadline=None)
@given(kinds.filter(lambda kind: kind != "learned"), masks, st.integers(0, 99))
def test_those_asleep_keep_their_share_of_the_weight(kind, awake, seed):
    if awake.all():
        return
    learner = make(kind, seed, horizon=4000)
    play(learner, 5)
    before = weights(learner)
    play(learner, 4, awake)
    after = weights(learner)
    assert_allclose(after[~awake], before[~awake], rtol=1e-6)
    assert_allclose(after[awake].sum(), before[awake].sum(), rtol=1e-6)


@pytest.mark.parametrize("kind", ["plain", "bonus", "ridge", "anytime", "arms", "prior"])
def test_those_awake_learn_as_a_learner_of_these_alone(kind):
    """The same rates, design and coins: then the game is the same, whatever was learned of the others."""
    learner, rows = make(kind, 1), np.array([0, 2, 3, 7, 9])
    awake = np.isin(np.arange(N), rows)
    alone = Exp2(
        subset_of(inside.exp2(learner).engine, awake).engine,
        horizon=learner.settings.horizon,
        batch=1,
    )
    coins = copy.deepcopy(learner._rng)
    for t in range(60):
        decision = learner.ask(allowed=rows)
        epoch, drawn = alone.draw(None, coins)
        assert drawn.index == decision.index
        assert drawn.probability == pytest.approx(decision.probability, rel=1e-9)
        learner.tell(decision, loss_of(decision, t))
        alone.learn(epoch, drawn.keys, (loss_of(decision, t),))
    assert len(set(alone.sums()[rows])) > 1


def test_requests_that_come_in_turn_are_as_good_as_the_losses_that_came_first():
    """Losses are learned from in the order in which they come, whatever their masks: here against sums written out."""
    learner, S, rng = make("arms", batch=1), np.zeros(N), np.random.default_rng(5)
    eta, gamma, waiting = learner.rates.learning_rate, learner.rates.exploration, []
    for t in range(60):
        mask = np.ones(N, dtype=bool) if t % 3 == 0 else rng.random(N) < 0.5
        mask[t % N] = True
        q = np.where(mask, np.exp(-eta * (S - S.min())), 0.0)
        share = gamma * mask.sum() / N
        p = (1 - share) * q / q.sum() + share * mask / mask.sum()
        decision = learner.ask(allowed=mask)
        assert decision.probability == pytest.approx(p[decision.index], rel=1e-9)
        waiting.append((decision, mask, p))
        while waiting and rng.random() < 0.6:
            one, awake, law = waiting.pop(int(rng.integers(len(waiting))))
            loss = float(rng.random())
            learner.tell(one, loss)
            x = np.zeros(N)
            x[one.index] = (loss - 0.5) / law[one.index]
            q = np.where(awake, np.exp(-eta * (S - S.min())), 0.0)
            mix = -math.log(float(q[awake] @ np.exp(-eta * x[awake])) / q.sum()) / eta
            S += np.where(awake, x, mix)
        if t % 20 == 19:
            learner = kl.BanditExpWeights.from_state(learner.state())
    assert inside.exp2(learner).late > 0


@settings(max_examples=25, deadline=None)
@given(st.sampled_from(["plain", "bonus", "arms", "epochs"]), masks, st.integers(0, 9))
def test_estimates_of_those_awake_are_unbiased(kind, awake, seed):
    """By enumeration of all draws: the mean of the estimates is the loss, of every action that is awake."""
    learner = make(kind, seed)
    play(learner, 4, ~awake if not awake.all() else None)
    engine = learner.engine
    values = np.random.default_rng(seed).random(N)
    if kind != "arms":  # a function of the features
        values = engine.features @ np.random.default_rng(seed).normal(size=engine.features.shape[1])
        values = 0.5 + 0.4 * values / np.abs(values).max()
    before, mean, total = inside.estimated_sums(learner), np.zeros(N), 0.0
    everyone, naive = learner.distribution, np.zeros(N)
    law = inside.exp2(learner).outlook(None if awake.all() else awake)
    for row in np.flatnonzero(awake):
        one = copy.deepcopy(learner)
        one.replay([int(row)], allowed=awake)
        one.tell(one.ledger.made - 1, values[row])
        mean += law[row] * (inside.estimated_sums(one) - before)
        total += law[row]
        if kind == "arms":  # wrong: as if it had been drawn from the law of all
            naive[row] = law[row] * (values[row] - engine.center) / everyone[row]
    assert total == pytest.approx(1)
    assert_allclose(mean[awake], values[awake] - engine.center, atol=1e-8)
    assert_allclose(mean[~awake], 0, atol=1e-12)
    if kind == "arms" and not awake.all():
        assert np.abs(naive - mean)[awake].max() > 1e-3


# What a subset needs to explore.


@settings(max_examples=25, deadline=None)
@given(st.sampled_from(["plain", "ridge", "arms", "shares"]), masks)
def test_the_leverage_among_some_is_that_of_all_or_less(kind, awake):
    engine = inside.exp2(make(kind)).engine
    if awake.all():
        return
    part = subset_of(engine, awake).engine
    gamma = part.rates.exploration
    phi = np.eye(N)[awake] if kind == "arms" else part.features[awake]
    penalty = 0.0 if part.columns is None else part.columns @ part.columns.T
    sigma = gamma * (phi.T * part.weights[awake]) @ phi + penalty
    reached = np.einsum("ij,jk,ik->i", phi, np.linalg.pinv(sigma, rcond=1e-13), phi).max()
    cap = engine.problem.largest_leverage(engine.rates.learning_rate, engine.rates.kappa)
    assert reached <= 1.01 * cap or gamma == 1
    assert not part.weights[~awake].any()
    assert part.weights.sum() == pytest.approx(1)


def test_a_subset_whose_design_is_worse_explores_more_and_its_price_is_in_the_guarantee():
    cluster = np.linspace(0, 0.001, 150)
    far = kl.Points(np.concatenate([cluster, np.linspace(0.5, 1, 50)])[:, None])
    said = {"horizon": 20_000, "loss_range": (0, 1), "design": "uniform", "ridge": 0, "rng": 0}
    learner = kl.BanditExpWeights(far, kl.Gaussian(0.5), **said)
    few = np.arange(200) < 151  # all but one of which are alike
    before = learner.guarantee().terms["exploration"]
    learner.ask(allowed=few)
    price = subset_of(learner.engine, few).price
    assert price > 1.1
    assert learner.guarantee().terms["exploration"] == pytest.approx(price * before)


def test_shares_among_some_of_the_actions():
    learner = make("shares")
    batch = learner.ask(4000, allowed=[0, 4, 5])
    share = float(np.mean(batch.index == 0))
    assert 0.08 < share <= 0.52
    learner.ask(allowed=[0])  # which may have no more than a half of all traffic
    assert inside.exp2(learner).epoch.law.p[0] == pytest.approx(1)


# Actions that come and go.


@settings(max_examples=20, deadline=None)
@given(kinds, st.integers(0, 99))
def test_an_action_that_is_added_begins_with_the_share_of_its_prior(kind, seed):
    learner = make(kind, seed)
    learner.withdraw([3, 4])
    play(learner, 6)
    exp2 = inside.exp2(learner)
    before = exp2.sums()
    learner.add([4])
    begun, eta, prior = exp2.totals.lost[4], exp2._eta, exp2.engine.log_prior
    assert begun == pytest.approx(-logsumexp(prior - eta * before) / eta, rel=1e-6, abs=1e-9)
    if kind in ("anytime", "learned"):  # rates that change leave those asleep with more or less
        assert begun >= before[4] - 1e-9 or kind == "learned"
        return
    # With one rate that is the share of all others together.
    others = np.arange(N) != 4
    expected = (
        -(logsumexp(prior[others] - eta * exp2.sums()[others]) - np.log1p(-np.exp(prior[4]))) / eta
    )
    assert begun == pytest.approx(expected, rel=1e-6, abs=1e-9)


def test_what_is_withdrawn_before_the_first_round_was_never_there():
    learner, absent = make("ridge", 3), make("ridge", 3)
    absent.withdraw([1, 5])
    assert absent.available.tolist() == [k not in (1, 5) for k in range(N)]
    assert play(absent, 40) == play(learner, 40, allowed=absent.available)
    assert not absent.distribution[[1, 5]].any()
    assert absent.recommend().index not in (1, 5)
    assert "offered" in marks(absent.guarantee())


@settings(max_examples=15, deadline=None)
@given(kinds, st.integers(0, 99))
def test_games_with_comings_and_goings_resume_to_the_last_bit(kind, seed):
    rng, learner, waiting = np.random.default_rng(seed), make(kind, seed), []
    for t in range(40):
        there, gone = np.flatnonzero(learner.available), np.flatnonzero(~learner.available)
        if rng.random() < 0.2 and len(there) > 2:
            learner.withdraw(rng.permutation(there)[:2])
        if rng.random() < 0.2 and len(gone):
            learner.add(rng.permutation(gone)[:1])
        there = np.flatnonzero(learner.available)
        allowed = rng.permutation(there)[: rng.integers(1, len(there) + 1)]
        said = {"allowed": allowed} if rng.random() < 0.3 else {}
        waiting.append(learner.ask(**said))
        assert learner.available[waiting[-1].index]
        while waiting and rng.random() < 0.6:
            decision = waiting.pop(int(rng.integers(len(waiting))))
            learner.tell(decision.id, loss_of(decision, t))
        if t == 25:
            other = kl.BanditExpWeights.from_state(learner.state())
            assert other.state()["digest"] == learner.state()["digest"]
            learner = other
    assert np.isfinite(learner.guarantee().total)


def test_a_loss_of_a_former_life_does_not_count():
    learner = make("arms")
    late = learner.ask()
    while late.index != 2:
        late = learner.ask()
    learner.withdraw(2)
    learner.add(2)
    before = inside.estimated_sums(learner)[2]
    learner.tell(late, 1.0)
    assert inside.estimated_sums(learner)[2] == pytest.approx(before)
    assert inside.exp2(learner).totals.revived == 1


def test_what_comes_back_is_one_more_to_be_compared_with():
    learner = make("plain")
    play(learner, 3)
    learner.withdraw(2)
    before = learner.guarantee().terms["prior"]
    learner.add(2)
    after = learner.guarantee()
    assert after.terms["prior"] == pytest.approx(before + 1 / N / learner.rates.learning_rate)
    assert after.proved
    assert "offered" in remarks(after)
    with pytest.raises(ValueError, match="must not be available yet to be added, got 2, which is"):
        learner.add(2)
    with pytest.raises(ValueError, match="must not repeat a row"):
        learner.withdraw([1, 1])
    learner.withdraw(range(1, N))
    with pytest.raises(ValueError, match="must leave an action, got all 1"):
        learner.withdraw(0)


def test_on_a_ball_nothing_comes_or_goes():
    ball = kl.BanditExpWeights(kl.Ball(2), kl.Quadratic(), horizon=100, rng=0)
    with pytest.raises(ValueError, match="to add or withdraw actions is for finitely many"):
        ball.withdraw(0)


# The regret against an action, over the rounds in which it could be chosen.


def regrets(seed, rounds=3000):
    """Of one game on four arms: against each over the rounds in which it was awake, while losses go for the likeliest."""
    arms, rng = kl.Points(np.arange(4.0)[:, None]), np.random.default_rng(seed)
    learner = kl.BanditExpWeights(
        arms, kl.White(), horizon=rounds, loss_range=(0, 1), ridge=0, batch=1, rng=seed
    )
    regret, paid = np.zeros(4), np.array([0.3, 0.5, 0.5, 0.25])
    for t in range(rounds):
        mask = rng.random(4) < [0.9, 0.7, 0.7, 0.3]
        mask[3] &= t > rounds / 2
        if not mask.any():
            mask[1] = True
        losses = paid + 0.3 * (rng.random(4) < 0.5)
        losses[np.argmax(np.where(mask, learner.distribution, 0))] += 0.1
        decision = learner.ask(allowed=mask)
        loss = float(losses[decision.index])
        learner.tell(decision, loss)
        regret[mask] += loss - losses[mask]
    return regret, learner.guarantee()


@pytest.mark.slow
def test_the_guarantee_is_kept_against_every_action_that_sleeps_at_times():
    games = [regrets(seed) for seed in range(3)]
    promise = games[0][1]
    assert promise.proved
    mean = np.mean([one for one, _ in games], axis=0)
    assert mean.max() <= promise.total
    assert mean[3] < promise.total / 2  # that awoke late, and is the best
