"""What every learner must do: ask and tell in any shape and order, errors that change nothing, a guarantee that counts."""

from __future__ import annotations

import builtins
import dataclasses
import inspect
import threading
import tracemalloc

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

import koloss as kl
from koloss.errors import NoDistribution, UnknownDecision
from koloss.games.store import FolderInUse, WorkerDiffers
from koloss.games.workers import ClusterLost
from koloss.learners.waiting import Late
from tests.support.calls import BAD_COUNTS, Calls, documented, every_form
from tests.support.cases import LEARNERS, POINTS, discovered, play, same
from tests.support.fuzz import PROFILE, Drawn, fuzzed


def test_every_learner_has_a_case():
    assert {case.kind for case in LEARNERS.values()} == set(discovered())


# Settings.


def test_constructor_and_settings_have_the_same_parameters(kind):
    parameters = dict(inspect.signature(kind).parameters)
    assert parameters.pop("rng").default is None
    fields = {field.name: field.default for field in dataclasses.fields(kind.settings_type)}
    assert set(parameters) == set(fields)
    for name, parameter in parameters.items():
        required = fields[name] is dataclasses.MISSING
        assert parameter.default == (inspect.Parameter.empty if required else fields[name]), name
        positional = parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
        assert positional is (name in ("actions", "kernel"))


def test_a_subclass_shows_all_arguments(kind):
    mine = type("Mine", (kind,), {})
    assert inspect.signature(mine) == inspect.signature(kind)
    assert "horizon" in inspect.signature(mine).parameters


def test_unknown_arguments_are_refused(kind):
    case = next(case for case in LEARNERS.values() if case.kind is kind)
    with pytest.raises(TypeError, match="color"):
        kind(case.actions, case.kernel, color="red", **case.settings)


@pytest.mark.slow
def test_text_reads_back(kind):
    for case in LEARNERS.values():
        if case.kind is not kind:
            continue
        actions = kl.Points(POINTS.X[:4]) if case.finite else case.actions
        settings = {k: v for k, v in case.settings.items() if k != "rank"}
        learner = kind(actions, case.kernel, **settings)
        again = eval(repr(learner), vars(kl) | {"array": np.array})
        assert again.settings == learner.settings
        assert repr(again) == repr(learner)


# Decisions.


def test_decision_fields(case):
    learner = case.make()
    decision = learner.ask()
    assert decision.id == 0
    assert decision.action.shape == (2,)
    batch = learner.ask(3)
    assert batch.id.tolist() == [1, 2, 3]
    assert batch.action.shape == (3, 2)
    assert [d.id for d in batch] == [1, 2, 3]
    assert (batch[-1].id, batch[1:].id.tolist()) == (3, [2, 3])
    np.testing.assert_array_equal(batch[1:].action, [batch[1].action, batch[2].action])
    if not case.finite:
        assert decision.index is decision.probability is batch.index is batch.probability is None
        assert batch[1:].index is None
        return
    np.testing.assert_array_equal(POINTS.X[decision.index], decision.action)
    assert 0 < decision.probability <= 1
    assert len(batch) == len(batch.index) == len(batch.probability) == 3
    assert batch[1:].probability.tolist() == [batch[1].probability, batch[2].probability]


def test_actions_are_in_the_set_and_drawn_by_its_own_generator(any_case):
    before = np.random.get_state()[1].tolist()  # noqa: NPY002
    assert np.all(any_case.actions.contains(np.asarray(play(any_case, any_case.make(), 20))))
    assert np.random.get_state()[1].tolist() == before  # noqa: NPY002


@pytest.mark.slow
def test_same_seed_same_game(any_case):
    learners = any_case.make(0), any_case.build(0), any_case.make(1)  # a copy, and one made anew
    first, again, other = (play(any_case, learner, 16) for learner in learners)
    assert again == first
    assert (other == first) is not any_case.coin


# What it knows of the next decision.


def test_distribution_is_of_a_finite_set_alone(case):
    learner = case.make()
    play(case, learner, 5)
    if case.finite:
        assert learner.distribution.shape == (30,)
        assert learner.distribution.sum() == pytest.approx(1)
        np.testing.assert_allclose(learner.probability([2, 3]), learner.distribution[[2, 3]])
        return
    with pytest.raises(NoDistribution, match="`distribution` is for finite sets"):
        _ = learner.distribution
    with pytest.raises(NoDistribution, match="`distribution` is for finite sets"):
        learner.probability([[0.5, 0.5]])


@pytest.mark.slow
def test_looking_changes_nothing(case):
    learner = case.make()
    for start in (0, 12):  # before and within an epoch
        before = learner.state()
        actions, weights = learner.peek(np.random.default_rng(start), 16)
        assert actions.shape == (len(weights), 2)
        assert np.all(case.actions.contains(actions))
        assert np.all(weights >= 0)
        assert weights.sum() == pytest.approx(1)
        _ = learner.diagnostics, learner.recommend(), learner.guarantee(), repr(learner)
        if case.finite:
            _ = learner.distribution, learner.probability([0])
        elif isinstance(learner, kl.BanditExpWeights):
            _ = learner.log_density([[0.1, 0.2]]), learner.estimated_loss([[0.1, 0.2]])
        assert same(learner.state(), before)
        play(case, learner, 12, start)


# Calls in all shapes.


def learned(learner):
    """All numbers of a snapshot but those of the ledger and the coins, in order."""
    state = learner.state()["learner"]
    return numbers({name: state[name] for name in state if name not in ("ledger", "_rng")})


def numbers(data):
    if isinstance(data, dict):
        return [x for key in sorted(data) for x in numbers(data[key]) if key != "same"]
    if isinstance(data, (list, tuple)):
        return [x for part in data for x in numbers(part)]
    if isinstance(data, np.ndarray):
        return data.ravel().tolist()
    return [data] if isinstance(data, (int, float)) else []


def tell_in_some_shape(learner, case, batches, rng):
    """Tell the losses of some batches in one of the ways in which that can be said."""
    together = [d for batch in batches for d in batch]
    losses = [case.loss(d.action, d.id) for d in together]

    def some_form(part):
        forms = case.forms(part)
        return forms[rng.integers(len(forms))]

    def some_name(decision):
        return (decision, decision.id, np.int64(decision.id), [decision])[rng.integers(4)]

    way, cut = rng.integers(5), int(rng.integers(len(batches[0]) + 1))
    first, rest = batches[0], batches[1:]
    if way == 0:  # one by one
        for decision, loss in zip(together, losses, strict=True):
            learner.tell(some_name(decision), some_form([loss]))
    elif way == 1:  # a list of whatever names decisions
        learner.tell([some_name(d) for d in together], some_form(losses))
    elif way == 2:  # ids alone
        ids = [d.id for d in together]
        learner.tell((ids, tuple(ids), np.array(ids))[rng.integers(3)], some_form(losses))
    elif way == 3:  # batches among themselves
        learner.tell(batches if rest else first, some_form(losses))
    else:  # parts of a batch
        learner.tell(first[:cut], some_form(losses[:cut]))
        learner.tell([first[cut:], *rest], some_form(losses[cut:]))


@pytest.mark.slow
def test_calls_of_all_shapes_are_the_same(case):
    rng, plain, shaped = np.random.default_rng(0), case.make(), case.make()
    for _ in range(5):
        counts = [int(rng.integers(1, 5)) for _ in range(rng.integers(1, 3))]
        for decision in [d for count in counts for d in plain.ask(count)]:
            plain.tell(decision, case.loss(decision.action, decision.id))
        tell_in_some_shape(shaped, case, [shaped.ask(count) for count in counts], rng)
    assert (shaped.ledger.made, shaped.ledger.heard) == (plain.ledger.made, plain.ledger.heard)
    a, b = (learned(learner) for learner in (plain, shaped))
    np.testing.assert_allclose(b, a, rtol=1e-9, atol=1e-9)


OF_EVERY_KIND = [
    *("bandit", "bandit, one round", "bandit, delay", "bandit, shares", "bandit, ball", "insured"),
    *("insured, held", "insured, too short", "exp weights, points", "exp weights, ball"),
    *("exp weights, gaussian", "gradient, ball", "leader, points", "leader, ball, linear"),
]
"""Ways to keep decisions and to read losses; the profile `torture` has all settings."""


@pytest.mark.slow
@pytest.mark.fuzz
@pytest.mark.parametrize("name", LEARNERS if PROFILE == "torture" else OF_EVERY_KIND)
def test_every_form_of_a_call_is_heard_or_refused(name):
    assert [wrong for wrong in every_form(name) if wrong is not None] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", LEARNERS)
@fuzzed(few=3, cases=500)
@given(start=st.integers(0, 1), steps=st.integers(3, 10), data=st.data())
def test_sequences_of_calls(name, start, steps, data):
    assert Calls(name, start, Drawn(data)).play(steps) is None


def test_the_guide_lists_what_calls_raise():
    listed = documented()
    assert {"ask", "tell", "forget", "peek", "recommend", "guarantee", "distribution"} <= set(
        listed
    )
    assert listed["recommend"] == frozenset()
    assert {"UnknownDecision", "LossOutOfBounds"} <= listed["tell"]
    assert "NotPositiveDefinite" in listed["a learner's constructor"]
    assert "SnapshotInUse" in listed["save_state"]
    own = (FolderInUse, ClusterLost, WorkerDiffers)
    known = vars(kl.errors) | vars(builtins) | {error.__name__: error for error in own}
    for name in frozenset().union(*listed.values()):
        assert issubclass(known[name], Exception), name


# Errors change nothing.

BAD_DECISIONS = {
    "twice": (lambda case, told, out: told, UnknownDecision, "told already"),
    "never made": (lambda case, told, out: 10**6, UnknownDecision, "never made"),
    "negative id": (lambda case, told, out: -1, UnknownDecision, "never made"),
    "foreign": (lambda case, told, out: case.make().ask(), UnknownDecision, "another learner"),
    "no decision": (lambda case, told, out: None, TypeError, "`decision` must be a Decision"),
    "a float": (lambda case, told, out: 1.0, TypeError, "`decision` must be a Decision"),
    "a flag": (lambda case, told, out: True, TypeError, "`decision` must be a Decision"),
    "a name": (lambda case, told, out: "0", TypeError, "`decision` must be a Decision"),
}


def test_bad_decisions_change_nothing(case):
    learner = case.make()
    told, out = learner.ask(), learner.ask()
    loss = case.loss(told.action, 0)
    learner.tell(told, loss)
    before = learner.state()
    for decision, error, message in BAD_DECISIONS.values():
        with pytest.raises(error, match=message):
            learner.tell(decision(case, told, out), loss)
    with pytest.raises(UnknownDecision, match="must not repeat"):
        learner.tell([out, out], [loss, loss])
    with pytest.raises(UnknownDecision, match="told already"):
        learner.tell([out, told], [loss, loss])
    assert same(learner.state(), before)
    learner.tell(out, loss)


def test_bad_losses_change_nothing(case):
    learner = case.make()
    out, batch = learner.ask(), learner.ask(3)
    before = learner.state()
    good = [case.loss(action, 1) for action in batch.action]
    for loss, error, message in case.bad.values():
        with pytest.raises(error, match=message):
            learner.tell(out, loss)
        with pytest.raises((TypeError, ValueError), match="`loss`"):
            learner.tell(batch, [good[0], loss, good[2]])
        assert same(learner.state(), before)
    for wrong in (good[:2], [*good, good[0]], []):
        with pytest.raises(ValueError, match="`loss` must have 3 entries"):
            learner.tell(batch, wrong)
    assert same(learner.state(), before)
    learner.tell(batch, good)
    learner.tell(out, good[0])


def test_bad_counts_change_nothing(case):
    learner = case.make()
    before = learner.state()
    for count in BAD_COUNTS:
        with pytest.raises((TypeError, ValueError), match="`count` must be"):
            learner.ask(count)
    assert same(learner.state(), before)
    assert learner.ledger.made == 0


# Losses that never come.


def charged(promise):
    """What a guarantee charges for losses that are not heard; rounds on trust cost all that they can anyway."""
    terms = promise.terms
    return terms.get("unheard", 1.0) + terms.get("warm-up", 0.0)  # the paper prints no such term


def test_forgotten_decisions_are_unheard(case):
    learner = case.make()
    batch = learner.ask(6)
    loss = case.loss(batch.action[0], 0)
    before, promise = learner.state(), learner.guarantee()
    for wrong in ({}, {"ids": 1, "before": 3}, {"before": -1}, {"ids": 17}, {"ids": [1, 1]}):
        with pytest.raises(ValueError, match=r"`(ids|before|decision)`"):
            learner.forget(**wrong)
    assert same(learner.state(), before)
    assert learner.forget(batch[0]) == 1
    assert learner.forget([batch[1], 2]) == 2
    assert learner.forget(before=4) == 1
    assert learner.forget(before=4) == 0
    after = learner.guarantee()
    assert after.terms == promise.terms
    assert len(after.assumptions) >= len(promise.assumptions)
    assert (learner.ledger.unheard, learner.ledger.forgotten, len(learner.ledger)) == (6, 4, 2)
    assert learner.diagnostics.outstanding == 2
    for gone in (batch[0], 1, batch):
        with pytest.raises(UnknownDecision, match="told already or forgotten"):
            learner.tell(gone, loss if gone is not batch else [loss] * 6)
    learner.tell(batch[4:], [loss, loss])
    assert learner.ledger.unheard - len(learner.ledger.held) == 4
    again = type(learner).from_state(learner.state())
    assert again.guarantee() == learner.guarantee()
    assert charged(learner.guarantee()) > 0


def test_a_guarantee_counts_what_is_waited_for_and_what_is_forgotten_alike(case):
    learner, waiting = case.make(), case.make()
    costs = []
    for t in range(6):
        for one in (learner, waiting):
            one.ask()
        learner.forget(t)
        promise, same_promise = (one.guarantee(printed=False) for one in (learner, waiting))
        assert promise.terms == same_promise.terms
        costs.append(charged(promise))
    assert costs == sorted(costs)
    if case.kind is kl.InsuredBandit:  # a budget has room for some
        assert costs[-1] > 0
    else:
        assert costs[-1] > costs[0] > 0
    if case.settings.get("tuning") == "paper":
        as_printed = learner.guarantee()
        assert not as_printed.valid or as_printed.terms["unheard"] == costs[-1]


# Memory.


def bytes_kept(learner, rounds, tell=lambda t, decision: None):
    """Memory that a learner takes for each of so many decisions, and what they cost before."""
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for t in range(rounds):
            tell(t, learner.ask())
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return (after - before) / rounds


@pytest.mark.slow
def test_decisions_never_told_take_little_memory(case, monkeypatch):
    kept, rounds = 16, 40 if case.kind is kl.ConditionalGradient else 80
    monkeypatch.setattr("koloss.learners.base.MOST_WHOLE", kept)
    learner = case.make()
    m, N = learner.rank or 0, len(POINTS)

    def tell_some(t, decision):  # so that no two laws are the same
        if t % 8 == 0:
            learner.tell(decision, case.loss(decision.action, t))

    if case.kind.feedback == "full":
        assert bytes_kept(learner, rounds, tell_some) < 4000
        return
    whole = 8 * (m * m + 2 * N) * kept / rounds  # laws that are kept as they are
    one = 8 * (m + 1 + (N if case.settings.get("bonus") else 0))
    if case.kind is kl.InsuredBandit:
        one += 8 * (m + N)  # what was predicted of every action
    assert bytes_kept(learner, rounds, tell_some) < whole + one + 1000


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["bandit, one round", "bandit, anytime, bonus", "bandit, delay", "insured, shares"]
)
def test_a_loss_that_comes_very_late_is_used_as_if_its_law_had_been_kept(name, monkeypatch):
    case, learners = LEARNERS[name], []
    for most in (10_000, 1):  # laws kept whole
        for limit in ("FEWEST_WHOLE", "MOST_WHOLE"):
            monkeypatch.setattr(f"koloss.learners.base.{limit}", most)
        learner = case.make()
        batch, first = learner.ask(3), [learner.ask() for _ in range(30)]
        for decision in (*first[::2], batch[1]):
            learner.tell(decision, case.loss(decision.action, decision.id))
        learners.append(type(learner).from_state(learner.state()))
        learners[-1].tell(first[1], case.loss(first[1].action, 1))
    whole, small = learners
    kept = [
        type(entry.law) is Late or getattr(entry.law, "towards", None) is not None
        for entry in small.ledger
    ]
    assert any(kept)
    a, b = (learned(learner) for learner in (whole, small))
    np.testing.assert_allclose(b, a, rtol=1e-9, atol=1e-9)


@pytest.mark.slow
def test_guarantee_is_complete(case):
    learner = case.make()
    play(case, learner, 20)
    promise = learner.guarantee()
    assert promise.total <= promise.trivial
    assert all(value >= 0 for value in promise.terms.values())
    assert promise.assumptions
    words, line = str(promise).splitlines()[:2]
    assert words == promise.in_words()
    assert line.startswith(promise.statement)
    best = learner.recommend()
    assert best.action.shape == (2,)
    assert np.isfinite(best.loss)
    assert best.certificate in ("estimated", "exhaustive", "dual", "local only")


def test_diagnostics_are_a_short_report(case):
    learner = case.make()
    for t in (0, 30):
        report = str(learner.diagnostics)
        assert 0 < len(report.splitlines()) <= 25
        assert max(map(len, report.splitlines())) < 250
        assert "array(" not in report
        play(case, learner, 8, t)


# Threads.


class CountingLock:
    """In the place of a learner's lock: how often it was taken."""

    def __init__(self):
        self.taken = 0

    def __enter__(self):
        self.taken += 1

    def __exit__(self, *error):
        pass

    def acquire(self, *, blocking):
        self.taken += blocking
        return True

    def release(self):
        pass


FIXED = {
    *("actions", "batch", "dimension", "engine", "epsilon", "learning_rate", "rank", "rates"),
    "from_state",
}
"""What does not change during a game, or is one number."""


def test_whatever_is_read_takes_the_lock(case):
    learner = case.make()
    play(case, learner, 3)
    decision = learner.ask()
    lock = learner._lock = CountingLock()
    arguments = {
        "tell": (decision.id, case.loss(decision.action, 0)),
        "check": (decision.id, case.loss(decision.action, 0)),
        "replay": ([learner.ledger.entry(decision.id).key],),
        "widen": (-1e3, 1e3),
        "forget": ([],),
        "peek": (np.random.default_rng(0), 2),
        "probability": ([0],),
        "log_density": ([[0.5, 0.5]],),
        "estimated_loss": ([[0.5, 0.5]],),
        "add": ([],),
        "withdraw": ([],),
        "distribution_for": (0,),
    }
    public = {name for name in dir(type(learner)) if not name.startswith("_")} - FIXED
    for name in sorted(public - {"feedback", "settings_type"}):
        before, refusal = lock.taken, "is for"
        try:
            value = getattr(learner, name)
            if inspect.ismethod(value):
                value(*arguments.get(name, ()))
        except (AttributeError, TypeError, ValueError) as error:  # not for such a set
            refusal = str(error)
        assert "is for" in refusal or "must be left out" in refusal
        assert lock.taken > before, name


@pytest.mark.slow
def test_threads_lose_nothing(kind):
    case = next(case for case in LEARNERS.values() if case.kind is kind)
    learner, ids = case.make(), [[] for _ in range(4)]

    def work(mine):
        for t in range(50):
            decision = learner.ask()
            mine.append(decision.id)
            learner.tell(decision, case.loss(decision.action, t))

    threads = [threading.Thread(target=work, args=(mine,)) for mine in ids]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(i for mine in ids for i in mine) == list(range(200))
    assert (learner.ledger.made, learner.ledger.heard, len(learner.ledger)) == (200, 200, 0)
