"""Learners on a `Space`: params of decisions, telling by params, snapshots, kernels chosen for it, and bad params."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import koloss as kl
from koloss.errors import UnknownDecision
from koloss.kernels import Sum
from koloss.learners.insured.bandwidths import Priors, at_bandwidth, ladder
from tests.support import inside

SPACE = kl.Space(
    method=kl.Choice(["lru", "random"]),
    threads=kl.Int(1, 3),
    depth=kl.Ordinal(["shallow", "deep"], when={"method": "lru"}),
)
POINTS = SPACE.points()
KERNEL = kl.Mixed(SPACE, lengths=0.4)
N = len(POINTS)


def bandit(actions=SPACE, **settings):
    settings = {"horizon": 200, "loss_range": (0, 1), "rng": 0} | settings
    return kl.BanditExpWeights(actions, KERNEL, **settings)


def insured(actions=SPACE, **settings):
    settings = {"horizon": 200, "loss_range": (0, 1), "rng": 0} | settings
    return kl.InsuredBandit(actions, KERNEL, **settings)


def full(kind):
    return lambda actions=SPACE, **more: kind(actions, kernel=KERNEL, horizon=200, rng=0, **more)


MAKERS = {
    "bandit": bandit,
    "arms": lambda actions=SPACE, **more: bandit(actions, loss_class="any", **more),
    "insured": insured,
    "exp-weights": full(kl.ExpWeights),
    "gradient": full(kl.ConditionalGradient),
    "leader": full(kl.FollowTheRegularizedLeader),
}
every = pytest.mark.parametrize("name", MAKERS)


def loss_of(learner, t):
    if learner.feedback == "bandit":
        return t % 7 / 7
    return kl.KernelLoss(KERNEL, POINTS.X[t % N : t % N + 1], [0.9])


@every
def test_decisions_have_params(name):
    learner = MAKERS[name]()
    for t in range(5):
        decision = learner.ask()
        assert decision.params == POINTS.params[decision.index]
        assert_array_equal(SPACE.encode(decision.params)[0], decision.action)
        decision.params.clear()  # it is the caller's own
        learner.tell(decision, loss_of(learner, t))
    batch = learner.ask(6)
    assert batch.params == [POINTS.params[i] for i in batch.index]
    assert batch[2].params == batch.params[2]
    assert batch[1:4].params == batch.params[1:4]
    assert [one.params for one in batch] == batch.params
    best = learner.recommend()
    assert best.params == POINTS.params[best.index]
    assert "all_params" not in repr(batch)


def test_without_a_space_there_are_none():
    learner = kl.BanditExpWeights(kl.Points(POINTS.X), KERNEL, horizon=200, rng=0)
    assert learner.ask().params is None
    assert learner.ask(2).params is None
    assert learner.ask(2)[0].params is None
    assert learner.recommend().params is None
    with pytest.raises(TypeError, match="`decision` must be a Decision or its id, got dict"):
        learner.tell({"threads": 1}, 0.5)


@every
def test_a_space_its_points_and_their_rows_play_alike(name):
    make = MAKERS[name]
    learners = [make(SPACE), make(POINTS), make(kl.Points(POINTS.X))]
    for t in range(12):
        decisions = [learner.ask() for learner in learners]
        assert len({(d.index, d.probability) for d in decisions}) == 1
        for learner, decision in zip(learners, decisions, strict=True):
            learner.tell(decision, loss_of(learner, t))


@every
def test_params_of_several_mean_the_oldest(name):
    learner = MAKERS[name]()
    batch = learner.ask(60)
    params = batch.params[0]
    ids = [int(i) for i, p in zip(batch.id, batch.params, strict=True) if p == params]
    assert len(ids) >= 2
    learner.tell(params, loss_of(learner, 1))
    waiting = [entry.id for entry in learner.ledger]
    assert waiting == [i for i in range(60) if i != ids[0]]
    # In one call each dict means another decision.
    rest = [params] * (len(ids) - 1)
    learner.tell(rest, [loss_of(learner, t) for t in range(len(rest))])
    assert not {entry.id for entry in learner.ledger} & set(ids)
    with pytest.raises(UnknownDecision, match="`decision` must be outstanding, or the params of"):
        learner.tell(params, loss_of(learner, 2))
    left = [entry.id for entry in learner.ledger]
    other = batch.params[left[0]]
    assert learner.forget([other]) == 1
    assert [entry.id for entry in learner.ledger] == left[1:]


BAD = {
    "unknown name": ({"method": "random", "threads": 1, "colour": 3}, ValueError, "got 'colour'"),
    "missing": ({"method": "random"}, ValueError, "`params` must have 'threads'"),
    "empty": ({}, ValueError, "`params` must have 'method'"),
    "inactive": (
        {"method": "random", "threads": 1, "depth": "deep"},
        ValueError,
        "`params` must not have 'depth'",
    ),
    "not active": ({"method": "lru", "threads": 1}, ValueError, "`params` must have 'depth'"),
    "another value": ({"method": "fifo", "threads": 1}, ValueError, "`method` must be"),
    "outside": ({"method": "random", "threads": 9}, ValueError, "`threads` must be"),
    "nan": ({"method": "random", "threads": math.nan}, (TypeError, ValueError), "`threads` must"),
    "text": ({"method": "random", "threads": "1"}, TypeError, "`threads` must"),
    "an array": ({"method": "random", "threads": np.ones(2)}, TypeError, "`threads` must"),
    "numbers as names": ({1: 2}, ValueError, "`params` must have names among"),
}


@every
def test_bad_params_change_nothing(name):
    learner = MAKERS[name]()
    learner.ask(3)
    before = learner.state()["digest"]
    for params, error, message in BAD.values():
        with pytest.raises(error, match=message):
            learner.tell(params, loss_of(learner, 0))
        with pytest.raises(error, match=message):
            learner.forget([params])
        if learner.feedback == "bandit" or name == "exp-weights":
            with pytest.raises(error, match=message):
                learner.ask(allowed=[params])
        with pytest.raises(error, match=message):
            learner.probability([params])
    with pytest.raises(UnknownDecision, match="which none has"):
        learner.tell(next(p for p in POINTS.params if p not in _waiting(learner)), 0.5)
    assert learner.state()["digest"] == before


def _waiting(learner):
    return [POINTS.params[e.key if e.key >= 0 else ~e.key] for e in learner.ledger]


def test_a_constraint_is_lost_in_a_snapshot_but_not_the_actions():
    space = kl.Space(a=kl.Int(0, 3), b=kl.Int(0, 3), where=lambda p: p["a"] <= p["b"])
    learner = kl.BanditExpWeights(space, kl.Mixed(space), horizon=100, loss_range=(0, 1), rng=0)
    twin = kl.BanditExpWeights.from_state(learner.state())
    for _ in range(5):
        first, second = learner.ask(), twin.ask()
        assert first.params == second.params
        assert first.params["a"] <= first.params["b"]
        twin.tell(second.params, 0.5)
        learner.tell(first.params, 0.5)


@every
def test_it_is_shown(name):
    learner = MAKERS[name]()
    assert "of Space(method=Choice(['lru', 'random'])" in repr(learner)
    assert "Space(method=" in inside.html(learner)


def test_losses_that_are_held_are_told_already():
    learner = bandit(hold=3)
    decision = learner.ask()
    learner.tell(decision.params, 0.5)
    assert len(learner.ledger.held) == 1
    same = [d for d in learner.ask(3) if d.params == decision.params]
    for _ in same:
        learner.tell(decision.params, 0.5)
    with pytest.raises(UnknownDecision, match="which none has"):
        learner.tell(decision.params, 0.5)


def test_probability_by_params():
    learner = bandit()
    assert_array_equal(learner.probability(POINTS.params), learner.distribution)
    assert learner.probability(POINTS.params[3]).tolist() == [learner.distribution[3]]


def test_actions_come_and_go_by_params():
    learner = insured(absent=[POINTS.params[0], POINTS.params[5]])
    assert learner.settings.absent == (0, 5)
    learner.withdraw(POINTS.params[2])
    learner.add([POINTS.params[5]])
    assert np.flatnonzero(~learner.available).tolist() == [0, 2]
    before = learner.state()["digest"]
    for bad, message in (
        ({"method": "fifo"}, "`method` must be"),
        (POINTS.params[2], "`rows` must be available to be withdrawn, got 2"),
        ([POINTS.params[3]] * 2, "`rows` must not repeat a row"),
    ):
        with pytest.raises(ValueError, match=message):
            learner.withdraw(bad)
    assert learner.state()["digest"] == before
    plain = insured(kl.Points(POINTS.X))
    with pytest.raises(TypeError, match="`rows` must be rows where the actions are not those of a"):
        plain.withdraw(POINTS.params[2])


# Kernels that are chosen.


@pytest.mark.slow
def test_auto_is_a_sum_of_mixed_kernels():
    space = kl.Space(x=kl.Float(0, 1), kind=kl.Choice(["a", "b"]))
    settings = {"horizon": 1500, "loss_range": (0, 1), "rng": 0}
    chosen = kernel = kl.BanditExpWeights(space.points(120), "auto", **settings).settings.kernel
    parts = []
    while isinstance(kernel, Sum):
        parts, kernel = [kernel.right, *parts], kernel.left
    parts = [kernel, *parts]
    assert len(parts) > 1
    weights = np.array([part.scale for part in parts])
    assert_allclose(weights[1:] / weights[:-1], 0.5)  # one number varies
    assert weights.sum() == pytest.approx(1)
    kinds = ("number", "choice")
    assert [part.kernel for part in parts] == [
        kl.Mixed(kinds, lengths=2.0**-j / 2, hamming=2.0 * 4**j) for j in range(len(parts))
    ]
    first, halved = ladder(chosen)
    assert first == parts[0].kernel
    assert halved >= len(parts)


def test_auto_on_choices_alone_and_on_one_action():
    space = kl.Space(a=kl.Choice(list("abc")), b=kl.Choice(list("xy")))
    learner = kl.BanditExpWeights(space, "auto", horizon=500, loss_range=(0, 1), rng=0)
    assert learner.ask().params["a"] in "abc"
    one = kl.BanditExpWeights(kl.Space(a=kl.Int(1, 1)), "auto", horizon=5, loss_range=(0, 1))
    assert one.ask().params == {"a": 1}
    assert one.guarantee().total == 0


def test_bandwidths_of_mixed_kernels_are_learned():
    kernel = kl.Mixed(("number", "choice"), lengths=0.5, hamming=2.0)
    assert at_bandwidth(kernel, (0.5, 2.0)) == kl.Mixed(kernel.space, (0.25,), (0.5,))
    scaled = 0.5 * kernel + kl.White()
    assert (
        at_bandwidth(scaled, (1.0, 1.0))
        == 0.5 * kl.Mixed(kernel.space, (0.5,), (2.0,)) + kl.White()
    )

    # The prior of a forecast at that bandwidth: the kernel itself, and a constant.
    X = np.array([[0.0, 0.0], [0.5, 0.0], [1.0, 1.0]])
    root = Priors(kernel, X, np.eye(3)).root((-1, 1))
    far = [[1, math.exp(-2), math.exp(-8.5)], [math.exp(-2), 1, math.exp(-2.5)]]
    expected = np.array([*far, [math.exp(-8.5), math.exp(-2.5), 1]]) + 100
    assert_allclose(root @ root.T, expected, rtol=1e-9)
