"""A trace compares its regret with what a guarantee says of it, and with nothing else."""

from __future__ import annotations

import numpy as np
import pytest

import koloss as kl
from koloss.guarantees import Guarantee
from koloss.guarantees.base import clause

POINTS = kl.Points(np.linspace(0, 1, 7)[:, None])
LOSSES = np.random.default_rng(4).uniform(2, 5, size=(40, 7))


class Reacting(kl.games.Adversary):
    """The same losses, but it looks."""

    oblivious = False

    def choose(self, t, player):
        return LOSSES[t % 40]


def bandit(**settings):
    settings = {"horizon": 200, "loss_range": (2, 5), "rng": 0, **settings}
    return kl.BanditExpWeights(POINTS, kl.Gaussian(0.3), **settings)


def full():
    return kl.ExpWeights(POINTS, kl.Gaussian(0.3), horizon=200, loss_range=(2, 5), rng=0)


@pytest.mark.parametrize(
    "make, oblivious, valid",
    [
        (bandit, True, True),
        (bandit, False, False),  # pseudo-regret; what is measured is in hindsight
        (lambda: bandit(regret="hindsight"), False, True),
        (full, False, True),  # on every path in the comparator
        (full, True, True),
    ],
)
def test_valid_looks_at_the_adversary(make, oblivious, valid):
    learner = make()
    adversary = kl.games.Replay(LOSSES) if oblivious else Reacting()
    trace = kl.play(learner, adversary, 200)
    assert learner.guarantee().valid  # it can only list what it needs
    assert trace.valid is valid
    assert trace.facts["promise"]["valid"] is valid
    assert trace.facts["promise"]["regret"] == learner.guarantee().regret
    failing = [a["key"] for a in trace.facts["promise"]["assumptions"] if a["holds"] is False]
    assert failing == ([] if valid else ["hindsight"])


def test_obliviousness_that_is_listed_is_settled():
    for learner, settings in ((bandit(delay=2), {"delay": 2}), (bandit(batch=1), {"delay": 3})):
        listed = [a for a in learner.guarantee().assumptions if a.oblivious]
        trace = kl.play(learner, kl.games.Replay(LOSSES), 200, **settings)
        needed = [a for a in learner.guarantee().assumptions if a.oblivious]
        assert len(needed) >= max(len(listed), 1)
        assert all(a.holds is None for a in needed)
        told = {a["key"]: a["holds"] for a in trace.facts["promise"]["assumptions"]}
        assert all(told[a.key] is True for a in needed)
        foe = kl.play(bandit(delay=2, regret="pseudo"), Reacting(), 200, delay=2)
        told = {a["key"]: a["holds"] for a in foe.facts["promise"]["assumptions"]}
        assert told["oblivious"] is False


def test_a_bound_in_hindsight_needs_obliviousness_where_it_says_so():
    listed = (clause("coin"), clause("oblivious"))
    promise = Guarantee(("A3",), 5, {"all": 1.0}, 5.0, listed, regret="hindsight")
    settled = (clause("coin"), clause("oblivious", True))
    assert promise.against(oblivious=True).assumptions == settled
    assert not promise.against(oblivious=False).valid
    bare = Guarantee(("A3",), 5, {"all": 1.0}, 5.0, regret="hindsight")
    assert bare.against(oblivious=False) == bare


def test_units_of_the_range_become_losses():
    learner = bandit(loss_range="learn")
    trace = kl.play(learner, kl.games.Replay(LOSSES), 200, checkpoints=8)
    width = LOSSES.max() - LOSSES.min()
    promise = learner.guarantee()
    assert promise.unit == "ρ"
    assert trace.bound[-1] == pytest.approx(promise.total * width)
    kept = trace.facts["promise"]
    assert kept["unit"] == ""
    assert kept["total"] == pytest.approx(promise.total * width)
    assert kept["trivial"] == pytest.approx(200 * width)
    assert any(f"ρ = {width:.6g}" in note for note in kept["notes"])
    # At a checkpoint, by the losses so far.
    t = int(trace.checkpoints[2])
    part = LOSSES[np.arange(t) % 40]
    early = bandit(loss_range="learn").guarantee(rounds=t).total
    assert trace.bound[t - 1] == pytest.approx(early * (part.max() - part.min()))


def test_units_of_the_range_where_it_is_not_known():
    ball, kernel = kl.Ball(2), kl.Quadratic()
    learner = kl.BanditExpWeights(ball, kernel, horizon=40, loss_range="learn", rng=0)
    trace = kl.play(learner, kl.games.Random(kernel, ball, rng=1), 40)
    assert np.isnan(trace.bound[-1])
    assert any("ρ is not known" in note for note in trace.facts["promise"]["notes"])
