"""Contexts whose shares are counted, with a bonus that pays for that: Theorem F6.5, by enumeration and by a second learner written here."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest

import koloss as kl
from koloss.errors import KolossWarning, SnapshotError
from koloss.guarantees import contexts as bounds
from tests.learners.bandit.test_contexts import check_looking_changes_nothing
from tests.learners.forging import forged

LAW = np.array([0.75, 0.24, 0.01])
PRICES = kl.Points(np.linspace(0, 1, 4)[:, None])
HORIZON = 300_000


def learner_of(**settings):
    said = {
        "horizon": HORIZON,
        "loss_range": (0, 1),
        "contexts": kl.Contexts([[0.0], [0.5], [1.0]]),
        "context_kernel": kl.Gaussian(2.0),
        "order": "independent",
        "bonus": True,
        "rank": 5,
        "loss_norm": 1.0,
        "rng": 0,
    }
    return kl.BanditExpWeights(PRICES, kl.Gaussian(2.0), **said | settings)


def first_learned(learner):
    return int(np.argmax(learner.engine.counting.learns(np.arange(HORIZON))))


def after_many(law=LAW, seed=1, **settings):
    """A learner that has seen as many contexts as it takes to learn, and as many again, all at once."""
    learner = learner_of(**settings)
    count = 2 * first_learned(learner)
    rows = np.random.default_rng(seed).choice(3, p=law, size=count)
    learner.tell(learner.ask(count, context=rows), np.full(count, 0.5))
    return learner


def play(learner, rounds, seed=2):
    coins = np.random.default_rng(seed)
    for _ in range(rounds):
        c = int(coins.choice(3, p=LAW))
        decision = learner.ask(context=c)
        learner.tell(decision, 0.5 + 0.45 * math.sin(3 * decision.index + c))


# The learner of the theorem.


def test_it_is_the_learner_of_the_theorem():
    """S(c, ·), shares, bonuses and laws by dense algebra from the counts and the designs alone, round by round."""
    learner, coins = after_many(), np.random.default_rng(7)
    counts, S = learner.diagnostics.contexts.astype(float), np.zeros((3, 4))
    iota, eta, L = math.log(2 * 3 * HORIZON**2), learner.rates.learning_rate, 0.5
    eps, kappa = learner.epsilon, learner.rates.kappa
    assert np.all(learner._exp2.theta == 0)  # those rounds were not learned from
    for _ in range(40):
        N, c = counts.sum(), int(coins.choice(3, p=LAW))
        decision = learner.ask(context=c)
        design, phi = learner.engine.capped, learner.engine.features
        shares = (counts + 5 * iota) / (N + 15 * iota)
        chi = 4.11 * math.sqrt(3 * iota / N) + 5.3 * 3 * iota / N
        b = eps + L * chi
        R = kappa / (eta * (L + b))
        # The design is for these shares and this reach.
        u = design.exploration.sum(axis=1)
        assert np.all(u <= design.discounts * shares * (1 + 1e-12))
        np.testing.assert_allclose(design.shares[design.exploits], (u / shares)[design.exploits])
        assert design.largest <= R
        assert design.cost * R <= learner.engine.problem.leverage
        # The law, ...
        q = np.exp(-eta * (S - S.min(axis=1, keepdims=True)))
        q /= q.sum(axis=1, keepdims=True)
        p = (1 - design.shares)[:, None] * q + design.shares[:, None] * design.laws
        np.testing.assert_allclose(learner.ledger.current.law.p, p, rtol=1e-9)
        # ... and what is heard.
        A = phi.T @ (((design.discounts * shares)[:, None] * p).ravel()[:, None] * phi)
        k = phi @ np.linalg.inv(A) @ phi.T
        loss, z = 0.5 + 0.45 * math.sin(3 * decision.index + c), 4 * c + decision.index
        x = design.discounts[c] * k[:, z] * (loss - 0.5) - b * np.sqrt(np.diag(k))
        assert np.all(eta * np.abs(x.reshape(3, 4)[design.exploits]) <= kappa)
        S += (1 - design.shares)[:, None] * x.reshape(3, 4)
        learner.tell(decision, loss)
        counts[c] += 1
    assert np.ptp(S) > 10
    np.testing.assert_array_equal(counts, learner.diagnostics.contexts)


def one_round(learner, losses, law):
    """By enumeration: mean and mean square of the estimates without bonus, if contexts come by this law."""
    engine, current = learner.engine, learner.ledger.current.law
    K, mean, square = len(PRICES), 0.0, 0.0
    for c in range(3):
        for a in range(K):
            told = copy.deepcopy(learner)
            first = told.ledger.enter(told.ledger.current, [c * K + a], (c,))
            told._exp2.made += 1
            told.tell(first, float(losses[c, a]))
            change = told._exp2.theta - learner._exp2.theta  # of each context, by its weight
            x = np.einsum("ckm,cm->ck", engine.features.reshape(3, K, -1), change)
            x /= np.where(current.weights > 0, current.weights, np.nan)[:, None]
            paid = told._exp2.credit - learner._exp2.credit
            np.testing.assert_allclose(paid, np.repeat(current.weights, K) * current.bonus)
            mean = mean + law[c] * current.p[c, a] * x
            square = square + law[c] * current.p[c, a] * x**2
    return mean, square


def linear_losses(learner, seed):
    values = learner.engine.features @ np.random.default_rng(seed).normal(size=learner.rank)
    return 0.5 + 0.5 * (values / np.abs(values).max()).reshape(3, 4)


def test_what_theorem_f65_rests_on_by_enumeration():
    """Bias, second moment, averaged bias and exploration under the true law, by which the contexts have come."""
    learner = after_many()
    play(learner, 30)
    learner.ask(context=0)
    engine, current, N = learner.engine, learner.ledger.current.law, learner._exp2.made - 1
    (chi, zeta), b = engine.counting.deviations(N), float(engine.counting.error(N))
    g = np.sqrt(engine.leverages(current)).reshape(3, 4)
    np.testing.assert_allclose(current.bonus.reshape(3, 4), b * g)
    assert engine.capped.exploits.all()
    gamma, L, d = engine.capped.shares, 0.5, learner.rank
    q = (current.p - gamma[:, None] * engine.capped.laws) / (1 - gamma)[:, None]
    v = (LAW * (1 - gamma))[:, None] * q
    worst = 0.0
    for seed in range(3):
        losses = linear_losses(learner, seed)
        mean, square = one_round(learner, losses, LAW)
        bias = mean - (losses - 0.5)
        assert np.all(np.abs(bias) <= b * g)
        assert abs(np.sum(v * bias)) <= b * math.sqrt(zeta)
        assert np.all(square <= zeta * L**2 * g**2)
        assert np.sum(v * square) <= zeta**2 * L**2 * d
        worst = max(worst, float(np.max(np.abs(bias) / (b * g))))
    assert worst > 1e-3  # counts are not the law
    assert np.sum(v * b * g) <= b * math.sqrt(zeta * d)
    assert LAW @ gamma <= engine.capped.cost + chi * math.sqrt(engine.capped.cost)


def test_a_bonus_does_not_pay_for_contexts_of_another_law():
    """Negative control: the same enumeration where contexts stop coming as they did."""
    learner = after_many()
    learner.ask(context=0)
    bonus, other, exceeded = learner.ledger.current.law.bonus.reshape(3, 4), LAW[::-1], False
    for seed in range(3):
        losses = linear_losses(learner, seed)
        bias = one_round(learner, losses, other)[0] - (losses - 0.5)
        exceeded |= bool(np.any(np.abs(bias) > bonus))
    assert exceeded


def test_designs_are_kept_while_they_hold(monkeypatch):
    """A rare context explores always; a design serves many rounds, and never costs or reaches more than the bound says."""
    from koloss.learners.bandit import counted

    found, made = counted.find_design, []
    monkeypatch.setattr(counted, "find_design", lambda *a: made.append(1) or found(*a))
    learner = after_many(np.array([0.8, 0.2 - 1e-9, 1e-9]), learning_rate=0.02)
    for t in range(60):
        learner.tell(learner.ask(context=t % 2), 0.5)
        engine = learner.engine
        reach = engine.counting.reach(learner._exp2.made - 1)
        assert engine.capped.largest <= reach
        assert engine.capped.cost * reach <= engine.problem.leverage * (1 + 1e-9)
    assert not engine.capped.exploits[2]
    assert not engine.dear
    assert len(made) < 10


# What is printed.


def test_the_bound_is_that_of_the_function_and_names_what_it_assumes():
    learner = learner_of()
    rates, problem = learner.rates, learner.engine.problem
    for rounds in (None, 1000):
        promise = learner.guarantee(rounds=rounds)
        known = bounds.unknown_law(
            problem, rates.learning_rate, rates.kappa, rounds or HORIZON, contexts=3, width=1.0
        )
        assert promise.statement == "Theorem F6.5 (shares of contexts counted)"
        assert dict(promise.terms) == {**known.terms, "unheard": 0.0, "net": 0.0}
        assert promise.valid
        assert bounds.MAPPING in promise.notes
        assumed = [one.text for one in promise.assumptions]
        assert {bounds.UNKNOWN, bounds.BEFORE, f"at most {HORIZON} rounds"} < set(assumed)
        assert any("one by one" in text for text in assumed)
    assert learner.guarantee().informative
    assert "reward" in str(learner_of(goal="maximize").guarantee())


def test_without_the_bonus_no_number_is_printed():
    for bonus in ("auto", False):
        promise = learner_of(bonus=bonus, horizon=1000).guarantee()
        assert not promise.proved
        assert not promise.informative
        assert "`bonus` of True, would give a bound" in str(promise)


def test_what_the_theorem_does_not_cover():
    late, several, dear = learner_of(), learner_of(), learner_of()
    first, second = late.ask(context=0), late.ask(context=1)
    late.tell(second, 0.5)
    late.tell(first, 0.5)
    several.tell(several.ask(2, context=[0, 1]), [0.5, 0.5])
    for learner in (late, several):
        assert not learner.guarantee().proved
        assert "one by one" in learner.guarantee().notes[-1]
    dear._exp2.engine = copy.copy(dear.engine)
    object.__setattr__(dear._exp2.engine, "dear", True)
    assert not dear.guarantee().proved


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"horizon": None}, "`horizon` must be given where a `bonus` pays for shares"),
        ({"ridge": 0.1}, "`ridge` must be 'auto' or 0 with several contexts"),
        ({"batch": 4}, "`batch` must be 'auto' or 1 with several contexts"),
        ({"delay": 2}, "`delay` must be 0 with several contexts"),
    ],
)
def test_settings_for_which_nothing_is_proved_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        learner_of(**settings)


def test_a_horizon_that_is_too_short_is_said_to_be():
    with pytest.warns(KolossWarning, match="`horizon` is too short .* got 2000"):
        learner = learner_of(horizon=2000)
    play(learner, 5)
    assert np.all(learner._exp2.theta == 0)
    assert not learner.guarantee().informative
    one = kl.BanditExpWeights(
        PRICES, kl.Gaussian(1.0), horizon=9, loss_range=(0, 1), bonus=True, contexts=kl.Contexts(["x"]), order="independent"
    )  # fmt: skip
    assert "contexts" not in str(one.guarantee())  # one context is no context


def test_one_action_is_nothing_to_learn_and_to_warn_of():
    contexts = kl.Contexts([[0.0], [1.0]])
    learner = kl.BanditExpWeights(
        kl.Points([[0.5]]), kl.Gaussian(1.0), horizon=9, loss_range=(0, 1), bonus=True, contexts=contexts, order="independent"
    )  # fmt: skip
    learner.tell(learner.ask(context=1), 0.5)
    assert kl.BanditExpWeights.from_state(learner.state()).guarantee().total == 0


# Snapshots.


@pytest.mark.parametrize("learning", [False, True])
def test_snapshots_go_on_exactly(learning):
    learner = after_many() if learning else learner_of()
    play(learner, 12)
    waiting = [learner.ask(context=0), learner.ask(3, context=[0, 2, 0])]
    waiting += [learner.ask(context=1) for _ in range(20)]  # whose laws shrink
    again = kl.BanditExpWeights.from_state(learner.state())
    assert repr(again) == repr(learner)
    for one in (learner, again):
        for decision in reversed(waiting):
            one.tell(decision, np.full(np.shape(decision.id), 0.4))
        play(one, 10)
    assert np.any(learner._exp2.theta != 0) == learning
    assert learner.state()["digest"] == again.state()["digest"]
    assert str(learner.guarantee()) == str(again.guarantee())


def test_looking_changes_nothing():
    learner = after_many()
    play(learner, 3)
    check_looking_changes_nothing(learner)


@pytest.mark.parametrize(
    "path, value, message",
    [
        ("learner.engine.error", -1.0, "error"),
        ("learner.engine.manner", "counted", "must be one of 'paid'"),
        ("learner.engine.law_of_contexts", np.array([1.0, 0.0, 0.0]), "must be that of the contexts"),
        ("learner.engine.capped.largest", 1e-3, "must bound what estimates can be"),
    ],
)  # fmt: skip
def test_what_was_changed_and_sealed_again_is_refused(path, value, message):
    learner = after_many()
    play(learner, 2)
    with pytest.raises(SnapshotError, match=message):
        kl.BanditExpWeights.from_state(forged(learner.state(), path, value))
