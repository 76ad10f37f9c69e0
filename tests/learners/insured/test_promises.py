"""What the insured guarantee promises while batches are asked for, and whenever the robust learner takes over."""

from __future__ import annotations

import numpy as np
import pytest

import koloss as kl
from koloss.guarantees import Guarantee, insured
from koloss.guarantees.promises import Played
from koloss.learners.bandit.exp2 import prove
from tests.learners.insured.games import kind, make, play
from tests.learners.insured.inside import resumed
from tests.support.clauses import clause_of, marks, remarks

LINE = kl.Points(np.linspace(0, 1, 12)[:, None])


def batches(learner, size, count):
    for _ in range(count):
        decisions = learner.ask(size)
        learner.tell(decisions, kind(0)[decisions.index])


@pytest.mark.usefixtures("patient")
def test_batches_are_priced_from_the_first_on():
    learner = make(horizon=2000)
    before = learner.guarantee()
    assert marks(before)["one by one"] is None
    batches(learner, 40, 1)
    first = learner.guarantee()
    assert first.theorems == ("I1", "B3w")
    assert clause_of(first, "whole epochs to come").numbers == {"longest": 40}
    assert first.total > before.total
    batches(learner, 40, 24)
    learner.hand_over()
    batches(learner, 40, 25)
    last = learner.guarantee()
    assert last.terms["robust learner"] == pytest.approx(first.terms["robust learner"])
    assert last.total == pytest.approx(first.total)
    assert marks(last)["whole"] is None
    assert not {"whole epochs to come", "one by one", "no longer epoch"} & set(marks(last))


@pytest.mark.usefixtures("patient")
def test_longer_batches_after_a_hand_over_count():
    learner = make(horizon=2000)
    batches(learner, 10, 3)
    learner.hand_over()
    batches(learner, 30, 2)
    play(learner, kind, 1)
    assert clause_of(learner.guarantee(), "no longer epoch").numbers == {"longest": 30}
    again = resumed(learner.state(), seed=1)
    assert again.guarantee() == learner.guarantee()


@pytest.mark.usefixtures("patient")
def test_fewer_rounds_left_may_cost_more():
    # Whole epochs of 250: tuned to 10,000 rounds the bound is more than for 20,000, and what can be lost is less than that.
    settings = {"horizon": 20_000, "ridge": 0}
    learner = make(LINE, kl.Gaussian(0.3), **settings)
    decisions = learner.ask(250)
    learner.tell(decisions, np.full(250, 0.5))
    promise, played = learner.guarantee(), Played(250, 250, at_once=250, longest_at_once=250)

    def bound(tuned, rounds):
        engine = learner.robust if tuned == 20_000 else learner.robust.retuned(tuned)
        return prove(engine, engine.rates, learner.batch, rounds, 20_000, played).total

    assert bound(10_000, 10_000) == 10_000 > bound(20_000, 20_000)
    robust = promise.total - promise.terms["budget"] - promise.terms["unheard"]
    robust -= insured.bias(learner.engine.problem, 1.25 * insured.scale(learner.engine.problem, 20_000), 20_000, 20_000)  # fmt: skip
    assert robust == pytest.approx(10_000)
    assert remarks(promise)["takes over"] == {"left": 10_000}
    # whenever it takes over
    for left in (20_000, 17_003, 10_001, 10_000, 9_990, 5_001, 4_000, 300):
        tuned = next(n for n in (1250, 2500, 5000, 10_000, 20_000) if n >= left)
        assert bound(tuned, left) <= robust * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(20))
def test_the_largest_bound_by_looking_at_every_round(seed):
    rng = np.random.default_rng(seed)
    H = int(rng.integers(1, 200))
    n = int(rng.integers(1, H + 1))
    slopes, starts = rng.uniform(0, 1.5, 9), rng.uniform(0, 60, 9)

    def bound(k, rounds):
        return Guarantee(("A3",), rounds, {"exploration": starts[k] + slopes[k] * rounds}, rounds)

    worst = 0.0
    for made in range(n):  # the robust learner takes over after so many
        k = max(k for k in range(9) if insured.halved(H, k) >= H - made)
        worst = max(worst, bound(k, n - made).total)
    found = insured.largest(bound, n, H)
    assert found.total >= worst
    tight = max(
        bound(k, insured.halved(H, k) - (H - n)).total
        for k in range(9)
        if insured.halved(H, k) > H - n
    )
    assert found.total == pytest.approx(max(tight, worst))
    assert insured.largest(bound, n, None) == bound(0, n)
