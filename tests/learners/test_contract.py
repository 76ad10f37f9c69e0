"""What every learner must do: ask and tell, errors that change nothing, snapshots that go on exactly.

A new learner joins by adding makers to `LEARNERS`; everything below then runs over it.
"""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import koloss as kl
from koloss.errors import LossOutOfBounds, SnapshotError, UnknownDecision
from koloss.learners import _former as base

POINTS = kl.Points(np.random.default_rng(5).random((30, 2)))


@dataclass(frozen=True)
class Case:
    """A learner to put through the suite.

    `make(rng)` makes it; `loss(action, t)` is what to tell of a decision in round t; `bad` are losses that it must
    refuse, each with the error and its message; `other` is a maker of the same kind, for foreign decisions.
    """

    make: Any
    loss: Any
    bad: dict[str, tuple[Any, Any, str]]
    finite: bool = True
    coin: bool = True  # False where one action is played for sure in this game


# Bandit feedback: numbers.


def bandit(**settings):
    def make(rng=0):
        options = {"horizon": 400, "loss_range": (0, 1)} | settings
        return kl.BanditExpWeights(POINTS, kl.Gaussian(0.4), rng=rng, **options)

    return make


def bandit_on_ball(**settings):
    def make(rng=0):
        options = {"horizon": 400, "loss_range": (0, 1)} | settings
        return kl.BanditExpWeights(kl.Ball(2), kl.Quadratic(), rng=rng, **options)

    return make


def insured(**settings):
    def make(rng=0):
        options = {"horizon": 400, "loss_range": (0, 1)} | settings
        return kl.InsuredBandit(POINTS, kl.Gaussian(0.4), rng=rng, **options)

    return make


def number(action, t):
    return float((np.floor(50 * action[0]) + 3 * t) % 11) / 10


BAD_NUMBERS = {
    "nan": (float("nan"), ValueError, "`loss` must be finite"),
    "infinite": (float("inf"), ValueError, "`loss` must be finite"),
    "above": (1.5, LossOutOfBounds, r"`loss` must be in \[0, 1\], got 1.5"),
    "below": (-0.5, LossOutOfBounds, "got -0.5"),
    "text": ("much", TypeError, "`loss` must be a number"),
    "nothing": (None, (TypeError, ValueError), "`loss` must be"),
    "two losses": ([0.1, 0.2], ValueError, "`loss` must have 1 entries"),
}


# Full information: functions.


def exp_weights(actions=POINTS, kernel=None, **settings):
    def make(rng=0):
        options = {"horizon": 400} | settings
        return kl.ExpWeights(actions, kernel=kernel or kl.Gaussian(0.4), rng=rng, **options)

    return make


def gradient(actions=POINTS, kernel=None, **settings):
    def make(rng=0):
        options = {"horizon": 400} | settings
        kind = kernel or kl.Gaussian(0.4)
        return kl.ConditionalGradient(actions, kernel=kind, rng=rng, **options)

    return make


def leader(actions=POINTS, kernel=None, **settings):
    def make(rng=0):
        options = {"horizon": 400} | settings
        kind = kernel or kl.Gaussian(0.4)
        return kl.FollowTheRegularizedLeader(actions, kernel=kind, rng=rng, **options)

    return make


def bump(action, t):
    center = np.random.default_rng(t).random((1, 2))
    return kl.KernelLoss(kl.Gaussian(0.4), center, [(-1.0) ** (t % 3)])


def linear(action, t):
    return kl.LinearLoss(np.random.default_rng(t).normal(size=2) / 5)


def quadratic(action, t):
    rng = np.random.default_rng(t)
    A, b = rng.normal(size=(2, 2)), rng.normal(size=2)
    return kl.QuadraticLoss((A + A.T) / 20, b / 10)


MONOMIALS = kl.Posynomial([[1, 0], [-1, 2]])


def posynomial(action, t):
    return kl.PosynomialLoss(MONOMIALS, np.random.default_rng(t).random(2))


HUGE = {
    linear: kl.LinearLoss([1e6, 0.0]),
    quadratic: kl.QuadraticLoss([[1e6, 0.0], [0.0, 0.0]]),
    bump: kl.KernelLoss(kl.Gaussian(0.4), [[0.0, 0.0], [1.0, 1.0]], [1e6, 0.0]),
    posynomial: kl.PosynomialLoss(MONOMIALS, [1e6, 0.0]),
}


def bad_functions(family, finite, values):
    found = {
        "too large": (HUGE[family], LossOutOfBounds, "`loss` must have"),
        "wrong dimension": (
            kl.LinearLoss([1.0]),
            ValueError,
            "`loss` must have dimension 2, got 1",
        ),
        "text": ("much", TypeError, "`loss` must be a Loss"),
        "nothing": (None, TypeError, "`loss` must be a Loss"),
        "number": (0.5, TypeError, "`loss` must be a Loss"),
    }
    if values:
        found["nan"] = (np.full(30, np.nan), ValueError, "`loss` must be finite")
        found["short"] = (np.zeros(3), ValueError, "`loss` must have length 30, got 3")
    else:
        other = quadratic if family is linear else linear
        found["other family"] = (other(None, 0), TypeError, "`loss` must be a")
    return found


def full(make, family, *, finite=False, values=False, coin=True):
    """`values`: losses may be given as arrays of their values on the points."""
    return Case(make, family, bad_functions(family, finite, values), finite, coin)


BANDIT = {
    "bandit": bandit(),
    "bandit, one round": bandit(batch=1),
    "bandit, bonus": bandit(bonus=True, rank=4),
    "bandit, sampled": bandit(covariance="sampled", sample_error=0.5, rank=4),
    "bandit, anytime": bandit(horizon=None),
    "bandit, anytime, bonus": bandit(horizon=None, bonus=True, rank=4, batch=1),
    "bandit, delay": bandit(delay=3),
    "bandit, paper": bandit(tuning="paper"),
    "insured": insured(),
    "insured, patient": insured(early=False),
    "insured, thompson": insured(policy="thompson"),
    "insured, optimistic": insured(policy="optimistic"),
    "insured, anytime": insured(horizon=None),
    "insured, unshielded": insured(shield=False),
    "insured, two stages": insured(policy=["ucb", "optimistic"], trigger=[0.5, 0.25], premium=0.5),
    "insured, delay": insured(delay=3),
    "insured, too short": insured(horizon=5, rank=20),
}
SQUARE, DISC = kl.Box([0.5, 0.5], [1.0, 1.5]), kl.Ball(2)
LEARNERS = {name: Case(make, number, BAD_NUMBERS) for name, make in BANDIT.items()} | {
    "bandit, ball": Case(bandit_on_ball(), number, BAD_NUMBERS, finite=False),
    "bandit, ball, anytime": Case(bandit_on_ball(horizon=None), number, BAD_NUMBERS, finite=False),
    "exp weights, points": full(exp_weights(), bump, finite=True, values=True),
    "exp weights, points, anytime": full(exp_weights(horizon=None), bump, finite=True, values=True),
    "exp weights, points, paper": full(exp_weights(tuning="paper"), bump, finite=True, values=True),
    "exp weights, ball": full(exp_weights(DISC, kl.Quadratic()), quadratic),
    "exp weights, ball, linear": full(exp_weights(DISC, kl.Linear(), horizon=None), linear),
    "exp weights, box, linear": full(exp_weights(SQUARE, kl.Linear()), linear),
    "exp weights, box": full(exp_weights(SQUARE, kl.Quadratic(), particles=32), quadratic),
    "exp weights, gaussian": full(exp_weights(DISC, particles=32), bump),
    "exp weights, diffusion": full(exp_weights(DISC, particles=32, move="diffusion"), bump),
    "exp weights, gaussian, anytime": full(exp_weights(SQUARE, particles=32, horizon=None), bump),
    "gradient, points": full(gradient(), bump, finite=True),
    "gradient, points, paper": full(gradient(tuning="paper"), bump, finite=True),
    "gradient, ball": full(gradient(DISC, kl.Quadratic()), quadratic),
    "gradient, ball, paper": full(gradient(DISC, kl.Quadratic(), tuning="paper"), quadratic),
    "gradient, box": full(gradient(SQUARE, kl.Quadratic()), quadratic, coin=False),
    "gradient, gaussian": full(gradient(DISC, horizon=40), bump),
    "gradient, posynomial": full(gradient(SQUARE, MONOMIALS), posynomial),
    "leader, points": full(leader(), bump, finite=True),
    "leader, points, paper": full(leader(tuning="paper"), bump, finite=True),
    "leader, ball": full(leader(DISC, kl.Quadratic()), quadratic),
    "leader, ball, linear": full(leader(DISC, kl.Linear(), delay=2), linear, coin=False),
    "leader, box, linear": full(leader(SQUARE, kl.Linear()), linear, coin=False),
    "exp weights, posynomial": full(exp_weights(SQUARE, MONOMIALS, particles=32), posynomial),
}
FINITE = [name for name, case in LEARNERS.items() if case.finite]


@pytest.fixture(params=LEARNERS)
def case(request):
    return LEARNERS[request.param]


@pytest.fixture
def make(case):
    return case.make


def play(case, learner, rounds, start=0):
    """A game that mixes single, late and whole decisions; the actions played."""
    played, waiting = [], []
    for t in range(start, start + rounds):
        if t % 10 == 9:
            batch = learner.ask(4)
            learner.tell(batch, [case.loss(action, t) for action in batch.action])
            played.extend(batch.action.tolist())
        decision = learner.ask()
        played.append(decision.action.tolist())
        if t % 5 == 0:
            waiting.append((decision, case.loss(decision.action, t)))
        else:
            learner.tell(decision, case.loss(decision.action, t))
        if len(waiting) > 3:
            learner.tell(*waiting.pop(0))
    return played


def same(a, b):
    """Whether two snapshots are equal to the last bit."""
    return a["digest"] == b["digest"]


def test_decision_fields(case):
    learner = case.make()
    decision = learner.ask()
    assert decision.id == 0
    assert decision.action.shape == (2,)
    batch = learner.ask(3)
    assert batch.id.tolist() == [1, 2, 3]
    assert batch.action.shape == (3, 2)
    assert [d.id for d in batch] == [1, 2, 3]
    if not case.finite:
        assert decision.index is decision.probability is batch.index is batch.probability is None
        return
    np.testing.assert_array_equal(POINTS.X[decision.index], decision.action)
    assert 0 < decision.probability <= 1
    assert len(batch) == len(batch.index) == len(batch.probability) == 3
    assert learner.distribution.shape == (30,)
    assert learner.distribution.sum() == pytest.approx(1)


def test_actions_are_in_the_set(case):
    learner = case.make()
    box = getattr(getattr(learner, "game", None), "actions", None)
    actions = DISC if box is None else box
    if case.finite:
        actions = POINTS
    assert np.all(actions.contains(np.asarray(play(case, learner, 20))))


def test_same_seed_same_game(case):
    assert play(case, case.make(rng=3), 40) == play(case, case.make(rng=3), 40)
    same_again = play(case, case.make(rng=3), 40) == play(case, case.make(rng=4), 40)
    assert same_again is not case.coin


def test_no_global_randomness(case):
    np.random.seed(0)  # noqa: NPY002
    before = np.random.get_state()[1].tolist()  # noqa: NPY002
    play(case, case.make(), 20)
    assert np.random.get_state()[1].tolist() == before  # noqa: NPY002


def test_resume_is_exact(case, tmp_path):
    halves = case.make(rng=7)
    play(case, halves, 40)
    base.save_state(tmp_path / "state.npz", halves.state())
    again = type(halves).from_state(base.load_state(tmp_path / "state.npz"))
    assert same(again.state(), halves.state())
    rest, expected = play(case, again, 50, start=40), play(case, halves, 50, start=40)
    assert rest == expected
    assert same(again.state(), halves.state())


def test_snapshot_is_plain_data(case):
    learner = case.make()
    play(case, learner, 15)

    def check(value):
        if isinstance(value, dict):
            assert all(isinstance(key, str) for key in value)
            for inner in value.values():
                check(inner)
        elif isinstance(value, (list, tuple)):
            for inner in value:
                check(inner)
        else:
            assert value is None or isinstance(value, (str, int, float, bool, np.ndarray)), type(
                value
            )
            assert not isinstance(value, np.ndarray) or value.dtype.kind in "fiub"

    state = learner.state()
    check(state)
    json.dumps(base._split(state, {}))


def test_snapshot_is_a_copy(case):
    learner = case.make()
    play(case, learner, 10)
    state = learner.state()
    kept = copy.deepcopy(state)
    play(case, learner, 10, start=10)
    assert same(state, kept)
    assert base._digest({k: v for k, v in state.items() if k != "digest"}) == state["digest"]
    again = type(learner).from_state(state)
    play(case, again, 10, start=10)
    assert base._digest({k: v for k, v in state.items() if k != "digest"}) == state["digest"]


@pytest.mark.parametrize(
    "damage, message",
    [
        (lambda s: {**s, "version": 99}, "newer koloss"),
        (lambda s: {**s, "kind": "Something"}, "must be a snapshot of"),
        (lambda s: {k: v for k, v in s.items() if k != "digest"}, "damaged"),
        (lambda s: {**s, "tally": {**s["tally"], "made": 10**6}}, "damaged"),
        (lambda s: {**s, "mark": "x"}, "damaged"),
        (lambda s: "text", "must be a snapshot of"),
        (lambda s: {}, "must be a snapshot of"),
    ],
)
def test_bad_snapshots_are_refused(make, damage, message):
    learner = make()
    with pytest.raises(SnapshotError, match=message):
        type(learner).from_state(damage(learner.state()))


def test_damaged_file_is_refused(tmp_path):
    path = tmp_path / "state.npz"
    base.save_state(path, LEARNERS["bandit"].make().state())
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(SnapshotError, match="`path` must be a snapshot"):
        base.load_state(path)
    path.write_bytes(whole[:-2000] + bytes(1000) + whole[-1000:])
    with pytest.raises(SnapshotError):
        kl.BanditExpWeights.from_state(base.load_state(path))
    with pytest.raises(FileNotFoundError):
        base.load_state(tmp_path / "nothing.npz")


def test_saving_replaces_whole_files_only(tmp_path, monkeypatch):
    path = tmp_path / "state.npz"
    learner = LEARNERS["bandit"].make()
    base.save_state(path, learner.state())
    before = path.read_bytes()
    monkeypatch.setattr(base.os, "replace", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        base.save_state(path, learner.state())
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["state.npz"]


BAD_DECISIONS = {
    "twice": (lambda case, told, out: told, UnknownDecision, "told already"),
    "never made": (lambda case, told, out: 10**6, UnknownDecision, "never made"),
    "negative id": (lambda case, told, out: -1, UnknownDecision, "never made"),
    "foreign": (lambda case, told, out: case.make().ask(), UnknownDecision, "another learner"),
    "no decision": (lambda case, told, out: None, TypeError, "`decision` must be a Decision"),
    "a float": (lambda case, told, out: 1.0, TypeError, "`decision` must be a Decision"),
}


@pytest.mark.parametrize("name", BAD_DECISIONS)
def test_bad_decisions_change_nothing(case, name):
    learner = case.make()
    told, out = learner.ask(), learner.ask()
    loss = case.loss(told.action, 0)
    learner.tell(told, loss)
    before = learner.state()
    decision, error, message = BAD_DECISIONS[name]
    with pytest.raises(error, match=message):
        learner.tell(decision(case, told, out), loss)
    assert same(learner.state(), before)
    learner.tell(out, loss)


def test_repeated_decisions_change_nothing(case):
    learner = case.make()
    told, out = learner.ask(), learner.ask()
    loss = case.loss(told.action, 0)
    learner.tell(told, loss)
    before = learner.state()
    with pytest.raises(UnknownDecision, match="must not repeat"):
        learner.tell([out, out], [loss, loss])
    with pytest.raises(UnknownDecision, match="told already"):
        learner.tell([out, told], [loss, loss])
    assert same(learner.state(), before)


BAD_LOSSES = [(name, bad) for name, case in LEARNERS.items() for bad in case.bad]


@pytest.mark.parametrize("name, bad", BAD_LOSSES)
def test_bad_losses_change_nothing(name, bad):
    case = LEARNERS[name]
    learner = case.make()
    out, batch = learner.ask(), learner.ask(3)
    before = learner.state()
    loss, error, message = case.bad[bad]
    with pytest.raises(error, match=message):
        learner.tell(out, loss)
    good = [case.loss(action, 1) for action in batch.action]
    with pytest.raises((TypeError, ValueError), match="`loss`"):
        learner.tell(batch, [good[0], loss, good[2]])
    with pytest.raises(ValueError, match="`loss` must have 3 entries"):
        learner.tell(batch, good[:2])
    assert same(learner.state(), before)
    learner.tell(batch, good)
    learner.tell(out, good[0])


@pytest.mark.parametrize("count", [0, -1, 1.5, True, "3"])
def test_bad_counts_change_nothing(make, count):
    learner = make()
    before = learner.state()
    with pytest.raises((TypeError, ValueError), match="`count` must be"):
        learner.ask(count)
    assert same(learner.state(), before)


def test_never_told_goes_on(case):
    learner = case.make()
    for t in range(20):
        learner.ask()
        decision = learner.ask()
        learner.tell(decision, case.loss(decision.action, t))
    assert learner.diagnostics.outstanding == 20
    assert learner.guarantee().terms.get("unheard", 1.0) > 0  # the paper prints no such term


def test_guarantee_is_complete(case):
    learner = case.make()
    play(case, learner, 20)
    promise = learner.guarantee()
    assert promise.total <= promise.trivial
    assert all(value >= 0 for value in promise.terms.values())
    assert promise.assumptions
    assert str(promise).startswith(promise.statement)
    assert learner.recommend().action.shape == (2,)


BAD_SETTINGS = {
    "horizon": ({"horizon": 0}, "`horizon` must be at least 1, got 0"),
    "horizon text": ({"horizon": "long"}, "`horizon` must be an integer, got 'long'"),
    "tuning": ({"tuning": "best"}, "`tuning` must be one of 'sharp', 'paper', got 'best'"),
    "proxy": ({"proxy": "magic"}, "`proxy` must be one of"),
    "rank": ({"rank": 0}, "`rank` must be at least 1"),
    "rank too large": ({"rank": 31}, "`rank` must be at most"),
    "exploration": ({"exploration": "greedy"}, "`exploration` must be one of"),
    "batch": ({"batch": 0}, "`batch` must be at least 1"),
    "covariance": ({"covariance": "guess"}, "`covariance` must be one of"),
    "sample error": (
        {"covariance": "sampled", "sample_error": 1.0},
        "`sample_error` must be below 1",
    ),
    "bonus": ({"bonus": "yes"}, "`bonus` must be True or False"),
    "adversary": ({"adversary": "evil"}, "`adversary` must be one of"),
    "range": ({"loss_range": (1, 0)}, "`loss_range` must be"),
    "range NaN": ({"loss_range": (0, float("nan"))}, "`loss_range` must be finite"),
    "bound": ({"loss_range": None, "loss_bound": -1}, "`loss_bound` must be positive"),
    "both": ({"loss_bound": 1.0}, "`loss_bound` or `loss_range`, not both"),
    "norm": ({"loss_norm": 0.0}, "`loss_norm` must be positive"),
    "prior length": ({"prior": np.ones(3) / 3}, "`prior` must have length 30"),
    "prior zero": ({"prior": np.eye(30)[0]}, "`prior` must be positive everywhere"),
    "prior sum": ({"prior": np.ones(30)}, "`prior` must sum to 1"),
    "delay": ({"delay": -1}, "`delay` must be at least 0"),
    "delay and batch": ({"delay": 2, "batch": 3}, "`batch` must be 1"),
    "rate": ({"learning_rate": 0.0}, "`learning_rate` must be positive"),
    "exploration rate": ({"exploration_rate": 1.5}, "`exploration_rate` must be at most 1"),
    "anytime rate": ({"horizon": None, "learning_rate": 0.1}, "must be left out without a horizon"),
    "spacing": ({"spacing": 0.1}, "`spacing` must be left out for a finite set"),
    "paper anytime": (
        {"tuning": "paper", "horizon": None},
        "`tuning` of 'paper' must have a horizon",
    ),
}


@pytest.mark.parametrize("name", BAD_SETTINGS)
def test_bad_settings(name):
    settings, message = BAD_SETTINGS[name]
    with pytest.raises((TypeError, ValueError), match=message):
        bandit(**settings)()


def test_foreign_proxy_and_design_are_refused():
    other = kl.Points(np.random.default_rng(1).random((10, 2)))
    with pytest.raises(ValueError, match="`proxy` must be one of the actions"):
        bandit(proxy=kl.pivoted_cholesky(kl.Gaussian(0.4), other, rank=3))()
    design = kl.uniform_design(np.eye(3))
    with pytest.raises(ValueError, match="`exploration` must weigh 30 actions"):
        bandit(design=design)()


def test_ready_proxy_and_design_are_used():
    proxy = kl.kernel_pca(kl.Gaussian(0.4), POINTS, rank=6)
    design = kl.uniform_design(proxy)
    learner = bandit(proxy=proxy, rank=6, design=design, loss_range=None)()
    np.testing.assert_allclose(learner.engine.weights, 1 / 30)
    assert learner.rank == 6
    assert learner.engine.proxy == "kernel PCA"


@pytest.mark.slow
def test_five_thousand_and_five_thousand_are_ten_thousand(tmp_path):
    def rounds(learner, count):
        played = []
        for _ in range(count):
            decision = learner.ask()
            learner.tell(decision, number(decision.action, decision.id))
            played.append(decision.index)
        return played

    through = LEARNERS["bandit, anytime"].make(rng=1)
    first = LEARNERS["bandit, anytime"].make(rng=1)
    expected = rounds(through, 10_000)
    found = rounds(first, 5000)
    base.save_state(tmp_path / "half.npz", first.state())
    found += rounds(kl.BanditExpWeights.from_state(base.load_state(tmp_path / "half.npz")), 5000)
    assert found == expected
