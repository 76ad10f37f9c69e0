"""What every learner must do: ask and tell, errors that change nothing, snapshots that go on exactly.

A new learner joins by adding makers to `LEARNERS`; everything below then runs over it.
"""

from __future__ import annotations

import copy
import json

import numpy as np
import pytest

import koloss as kl
from koloss.errors import LossOutOfBounds, SnapshotError, UnknownDecision
from koloss.learners import base

POINTS = kl.Points(np.random.default_rng(5).random((30, 2)))


def bandit(**settings):
    def make(rng=0):
        options = {"horizon": 400, "loss_range": (0, 1)} | settings
        return kl.BanditExpWeights(POINTS, kl.Gaussian(0.4), rng=rng, **options)

    return make


LEARNERS = {
    "bandit": bandit(),
    "bandit, one round": bandit(batch=1),
    "bandit, bonus": bandit(bonus=True, rank=4),
    "bandit, sampled": bandit(covariance="sampled", sample_error=0.5, rank=4),
    "bandit, anytime": bandit(horizon=None),
    "bandit, anytime, bonus": bandit(horizon=None, bonus=True, rank=4, batch=1),
    "bandit, delay": bandit(delay=3),
    "bandit, paper": bandit(tuning="paper"),
}


@pytest.fixture(params=LEARNERS)
def make(request):
    return LEARNERS[request.param]


def loss_of(index, t):
    return float((index * 7 + t * 3) % 11) / 10


def play(learner, rounds, start=0):
    """A game that mixes single, late and whole decisions; the indices played."""
    played, waiting = [], []
    for t in range(start, start + rounds):
        if t % 10 == 9:
            batch = learner.ask(4)
            learner.tell(batch, [loss_of(int(i), t) for i in batch.index])
            played.extend(batch.index.tolist())
        decision = learner.ask()
        played.append(decision.index)
        if t % 5 == 0:
            waiting.append((decision, loss_of(decision.index, t)))
        else:
            learner.tell(decision, loss_of(decision.index, t))
        if len(waiting) > 3:
            learner.tell(*waiting.pop(0))
    return played


def same(a, b):
    """Whether two snapshots are equal to the last bit."""
    return a["digest"] == b["digest"]


def test_decision_fields(make):
    learner = make()
    decision = learner.ask()
    assert decision.id == 0
    assert POINTS.contains(decision.action[None])[0]
    np.testing.assert_array_equal(POINTS.X[decision.index], decision.action)
    assert 0 < decision.probability <= 1
    batch = learner.ask(3)
    assert batch.id.tolist() == [1, 2, 3]
    assert batch.action.shape == (3, 2)
    assert len(batch) == len(batch.index) == len(batch.probability) == 3
    assert [d.id for d in batch] == [1, 2, 3]
    assert learner.distribution.shape == (30,)


def test_same_seed_same_game(make):
    assert play(make(rng=3), 60) == play(make(rng=3), 60)
    assert play(make(rng=3), 60) != play(make(rng=4), 60)


def test_no_global_randomness(make):
    np.random.seed(0)  # noqa: NPY002
    before = np.random.get_state()[1].tolist()  # noqa: NPY002
    play(make(), 20)
    assert np.random.get_state()[1].tolist() == before  # noqa: NPY002


def test_resume_is_exact(make, tmp_path):
    through = make(rng=7)
    first = play(through, 90)
    halves = make(rng=7)
    assert play(halves, 40) == first[: len(play(make(rng=7), 40))]
    base.save_state(tmp_path / "state.npz", halves.state())
    again = type(halves).from_state(base.load_state(tmp_path / "state.npz"))
    assert same(again.state(), halves.state())
    rest, expected = play(again, 50, start=40), play(halves, 50, start=40)
    assert rest == expected
    assert same(again.state(), halves.state())


def test_snapshot_is_plain_data(make):
    learner = make()
    play(learner, 15)

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


def test_snapshot_is_a_copy(make):
    learner = make()
    play(learner, 10)
    state = learner.state()
    kept = copy.deepcopy(state)
    play(learner, 10, start=10)
    assert same(state, kept)
    assert base._digest({k: v for k, v in state.items() if k != "digest"}) == state["digest"]
    again = type(learner).from_state(state)
    play(again, 10, start=10)
    assert base._digest({k: v for k, v in state.items() if k != "digest"}) == state["digest"]


@pytest.mark.parametrize(
    "damage, message",
    [
        (lambda s: {**s, "version": 99}, "newer koloss"),
        (lambda s: {**s, "kind": "Something"}, "must be a snapshot of"),
        (lambda s: {k: v for k, v in s.items() if k != "digest"}, "damaged"),
        (lambda s: {**s, "theta": s["theta"] + 1e-9}, "damaged"),
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
    base.save_state(path, LEARNERS["bandit"]().state())
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
    learner = LEARNERS["bandit"]()
    base.save_state(path, learner.state())
    before = path.read_bytes()
    monkeypatch.setattr(base.os, "replace", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        base.save_state(path, learner.state())
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["state.npz"]


BAD_TELLS = {
    "twice": (lambda told, out: (told, 0.5), UnknownDecision, "told already"),
    "never made": (lambda told, out: (10**6, 0.5), UnknownDecision, "never made"),
    "negative id": (lambda told, out: (-1, 0.5), UnknownDecision, "never made"),
    "foreign": (
        lambda told, out: (LEARNERS["bandit"]().ask(), 0.5),
        UnknownDecision,
        "another learner",
    ),
    "repeated": (lambda told, out: ([out, out], [0.5, 0.5]), UnknownDecision, "must not repeat"),
    "one of two told": (
        lambda told, out: ([out, told], [0.5, 0.5]),
        UnknownDecision,
        "told already",
    ),
    "nan": (lambda told, out: (out, float("nan")), ValueError, "`loss` must be finite"),
    "infinite": (lambda told, out: (out, float("inf")), ValueError, "`loss` must be finite"),
    "above": (
        lambda told, out: (out, 1.5),
        LossOutOfBounds,
        r"`loss` must be in \[0, 1\], got 1.5",
    ),
    "below": (lambda told, out: (out, -0.5), LossOutOfBounds, "got -0.5"),
    "text": (lambda told, out: (out, "much"), TypeError, "`loss` must be a number"),
    "nothing": (lambda told, out: (out, None), (TypeError, ValueError), "`loss` must be"),
    "two losses": (
        lambda told, out: (out, [0.1, 0.2]),
        ValueError,
        "`loss` must have 1 entries",
    ),
    "no decision": (lambda told, out: (None, 0.5), TypeError, "`decision` must be a Decision"),
    "a float": (lambda told, out: (1.0, 0.5), TypeError, "`decision` must be a Decision"),
}


@pytest.mark.parametrize("name", BAD_TELLS)
def test_bad_tells_change_nothing(make, name):
    learner = make()
    told, out = learner.ask(), learner.ask()
    learner.tell(told, 0.25)
    before = learner.state()
    call, error, message = BAD_TELLS[name]
    with pytest.raises(error, match=message):
        learner.tell(*call(told, out))
    assert same(learner.state(), before)
    learner.tell(out, 0.5)


@pytest.mark.parametrize("count", [0, -1, 1.5, True, "3"])
def test_bad_counts_change_nothing(make, count):
    learner = make()
    before = learner.state()
    with pytest.raises((TypeError, ValueError), match="`count` must be"):
        learner.ask(count)
    assert same(learner.state(), before)


def test_batch_with_one_bad_loss_changes_nothing(make):
    learner = make()
    batch = learner.ask(5)
    before = learner.state()
    with pytest.raises(LossOutOfBounds, match="got 7"):
        learner.tell(batch, [0.1, 0.2, 7.0, 0.3, 0.4])
    with pytest.raises(ValueError, match="`loss` must have 5 entries"):
        learner.tell(batch, [0.1, 0.2])
    assert same(learner.state(), before)
    learner.tell(batch, np.linspace(0, 1, 5))


def test_never_told_goes_on(make):
    learner = make()
    for t in range(30):
        learner.ask()
        learner.tell(learner.ask(), loss_of(0, t))
    assert len(learner._outstanding) == 30
    np.testing.assert_allclose(learner.distribution.sum(), 1)


def test_guarantee_is_complete(make):
    learner = make()
    play(learner, 20)
    promise = learner.guarantee()
    assert promise.total <= promise.trivial
    assert all(value >= 0 for value in promise.terms.values())
    assert promise.assumptions
    assert str(promise).startswith(promise.statement)


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
        bandit(exploration=design)()


def test_ready_proxy_and_design_are_used():
    proxy = kl.kernel_pca(kl.Gaussian(0.4), POINTS, rank=6)
    design = kl.uniform_design(proxy)
    learner = bandit(proxy=proxy, rank=6, exploration=design, loss_range=None)()
    np.testing.assert_allclose(learner.setup.design, 1 / 30)
    assert learner.setup.problem.rank == 6
    assert learner.setup.names["proxy"] == "kernel PCA"


@pytest.mark.slow
def test_five_thousand_and_five_thousand_are_ten_thousand(tmp_path):
    def rounds(learner, count):
        played = []
        for _ in range(count):
            decision = learner.ask()
            learner.tell(decision, loss_of(decision.index, decision.id))
            played.append(decision.index)
        return played

    through = LEARNERS["bandit, anytime"](rng=1)
    first = LEARNERS["bandit, anytime"](rng=1)
    expected = rounds(through, 10_000)
    found = rounds(first, 5000)
    base.save_state(tmp_path / "half.npz", first.state())
    found += rounds(kl.BanditExpWeights.from_state(base.load_state(tmp_path / "half.npz")), 5000)
    assert found == expected
