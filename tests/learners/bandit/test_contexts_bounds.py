"""What is proved with contexts, against games that try to exceed it; and what is not proved, and fails."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import koloss as kl
from koloss.guarantees.contexts import DRAWN
from koloss.learners.bandit import context_designs as designs
from koloss.learners.bandit import contexts
from tests.learners.copies import fresh_copy

K = 4
ACTIONS = kl.Points(np.linspace(0, 1, K)[:, None])
LAWS = {
    "uniform": np.full(4, 0.25),
    "tiny": np.array([0.5, 0.3, 0.199999, 0.000001]),
    "geometric": np.array([27, 9, 3, 1]) / 40,
    "one large": np.array([0.997, 0.001, 0.001, 0.001]),
}
CONSTANT = kl.Gaussian(1e6)  # contexts that share everything
KERNELS = {"own": kl.White(), "blind": CONSTANT, "product": kl.Gaussian(0.4)}


def places(law):
    return kl.Contexts(np.linspace(0, 1, 4)[:, None], law)


class World:
    """Losses of all pairs in each round, in [0, 1]; some look at the laws that actions will be drawn from."""

    def __init__(self, kind, engine, rounds, seed):
        self.kind, self.rounds, self.rng = kind, rounds, np.random.default_rng(seed)
        self.features = engine.features.reshape(*engine.shape, -1)
        self.target = self._scaled(self.rng.normal(size=self.features.shape[2]))

    def _scaled(self, w):
        values = self.features @ w
        return 0.5 + 0.5 * values / max(np.abs(values).max(), 1e-12)

    def losses(self, t, p):
        if self.kind == "constant":
            return self.target
        if self.kind == "switching":
            return self.target if t < self.rounds / 2 else 1 - self.target
        # Hostile: what is likely costs, as far as the features can tell.
        white = self.features.reshape(-1, self.features.shape[2])
        w = np.linalg.lstsq(white, (p - p.mean()).ravel(), rcond=None)[0]
        return self._scaled(w)


def pseudo_regret(learner, law, world, rounds, seed, turns=None):
    """Of the exact conditional laws, against the best mapping in hindsight of the losses; contexts by the law, or in turn."""
    rng, C = np.random.default_rng(seed), len(law)
    suffered, total = 0.0, np.zeros((C, K))
    weights = learner.settings.contexts.weights
    for t in range(rounds):
        p = learner._exp2.outlook()
        losses = world(t, p)
        suffered += float(np.sum(weights[:, None] * p * losses))
        total += weights[:, None] * losses
        c = int(rng.choice(C, p=law)) if turns is None else turns[t % len(turns)]
        decision = learner.ask(context=c)
        learner.tell(decision, float(losses[c, decision.index]))
    return suffered - float(total.min(axis=1).sum())


@pytest.mark.slow
@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("kernel", KERNELS)
def test_the_bound_holds_for_rare_contexts(law, kernel):
    n, worst = 150, 0.0
    for horizon, ridge in ((n, 0), (n, 0.03), (None, 0), (None, 0.03)):
        made = kl.BanditExpWeights(
            ACTIONS,
            kl.White(),
            horizon=horizon,
            loss_range=(0, 1),
            contexts=places(LAWS[law]),
            context_kernel=KERNELS[kernel],
            ridge=ridge,
        )
        assert (made.engine.problem.ridge is not None) == (ridge > 0)
        for k, kind in enumerate(("constant", "switching", "hostile")):
            learner = fresh_copy(made, k)
            world = World(kind, learner.engine, n, seed=k)
            regret = pseudo_regret(learner, LAWS[law], world.losses, n, seed=10 + k)
            promise = learner.guarantee(rounds=n)
            assert promise.valid
            worst = max(worst, regret / sum(promise.terms.values()))
    assert 0 < worst <= 1


@pytest.mark.slow
def test_a_rare_context_costs_nothing_beyond():
    """Lemma F6.2: R times the cost of exploring is at most that of the design without contexts, whatever the law."""
    for law in LAWS.values():
        for kernel in KERNELS.values():
            learner = kl.BanditExpWeights(
                ACTIONS,
                kl.White(),
                horizon=2000,
                loss_range=(0, 1),
                contexts=places(law),
                context_kernel=kernel,
                rng=0,
            )
            engine, capped = learner.engine, learner.engine.capped
            assert capped.cost * capped.largest <= 1.01 * engine.leverage
            u = capped.exploration.sum(axis=1)
            assert np.all(u <= capped.discounts * law * (1 + 1e-6))


@pytest.mark.parametrize("factor", [1.0, 1.5])
def test_without_a_horizon_every_design_is_checked(monkeypatch, factor):
    """Rates allow for designs of a certain cost beforehand; where one costs more nothing is proved, for good."""
    find = designs.find_design

    def dearer(*arguments):
        found = find(*arguments)
        return replace(found, cost=min(1.0, factor * found.cost))

    monkeypatch.setattr(contexts, "find_design", dearer)
    learner = kl.BanditExpWeights(
        ACTIONS,
        kl.White(),
        horizon=None,
        loss_range=(0, 1),
        contexts=places(LAWS["uniform"]),
        context_kernel=kl.Gaussian(0.4),
        rng=0,
    )
    for _ in range(600):
        learner.tell(learner.ask(context=0), 0.5)
    again = kl.BanditExpWeights.from_state(learner.state())
    for one in (learner, again):
        promise = one.guarantee(rounds=10_000)
        assert promise.proved == (factor == 1.0)
        assert any("more than the rates" in note for note in promise.notes) == (factor > 1.0)


# Contexts in turn (F6.7): the counterexample.


def right_for_each(rounds, learner):
    """Σ of expected losses where the action must be that of the context, and contexts come 0, 1, 0, 1, ..."""
    suffered = 0.0
    for t in range(rounds):
        c = t % 2
        suffered += 1 - float(learner.distribution_for(c)[c])
        decision = learner.ask(context=c)
        learner.tell(decision, float(decision.index != c))
    return suffered  # the mapping c -> c loses nothing


TWO = kl.Points([[0.0], [1.0]])


def in_turn_learner(**settings):
    said = {"context_kernel": CONSTANT, "loss_range": (0, 1), "rng": 0} | settings
    return kl.BanditExpWeights(TWO, kl.White(), horizon=600, **said)


@pytest.mark.slow
def test_sharing_fails_where_contexts_come_in_turn_and_learners_apart_do_not():
    half = kl.Contexts([[0.0], [1.0]], [0.5, 0.5])
    shared, apart = in_turn_learner(contexts=half), in_turn_learner(contexts=half, order="any")
    assert right_for_each(600, shared) >= 0.95 * 300  # linear: half of all rounds
    promise = shared.guarantee()
    assert "F6" in promise.statement
    assert promise.total < 200  # so it was not for this order, ...
    assert any(a.text == DRAWN and a.holds is None for a in promise.assumptions)  # ... as it says
    regret, other = right_for_each(600, apart), apart.guarantee()
    assert other.statement == "Theorem F6.7 (one learner per context)"
    assert other.valid
    assert not any(a.text == DRAWN for a in other.assumptions)
    assert regret <= other.total < 300


@pytest.mark.slow
def test_whole_periods_share_what_stays_the_same():
    """F6.7 (2): losses that do not know the weekday, but change from week to week."""
    n, e = 700, 7
    learner = kl.BanditExpWeights(
        ACTIONS,
        kl.White(),
        horizon=n,
        loss_range=(0, 1),
        contexts=kl.Contexts(np.arange(7.0)[:, None], period=e),
        context_kernel=CONSTANT,
        rng=0,
    )
    rng, state = np.random.default_rng(4), {}

    def week(t, p):
        if t % e == 0:
            state["losses"] = np.tile(0.4 * rng.random(K) + 0.5 * (np.arange(K) != 2), (7, 1))
        return state["losses"]

    regret = pseudo_regret(learner, np.full(7, 1 / 7), week, n, 0, turns=range(7))
    promise = learner.guarantee()
    assert promise.statement.startswith("Theorem F6.7 (whole periods)")
    assert promise.valid
    assert 0.01 * promise.total < regret <= promise.total < 0.9 * promise.trivial
    apart = kl.BanditExpWeights(
        ACTIONS,
        kl.White(),
        horizon=n,
        loss_range=(0, 1),
        contexts=kl.Contexts(np.arange(7.0)[:, None]),
        rng=0,
    )
    assert promise.total < apart.guarantee().total  # what sharing is for


def test_periods_that_are_not_whole_are_noticed():
    def learner():
        week = kl.Contexts(list("abc"), period=3)
        return in_turn_learner(contexts=week, context_kernel=None)

    kept, broken, cut = learner(), learner(), learner()
    for context in "abcbca":
        kept.tell(kept.ask(context=context), 0.5)
    assert kept.guarantee().valid
    for context in "aabc":
        broken.tell(broken.ask(context=context), 0.5)
    assert not broken.guarantee().valid
    cut.tell(cut.ask(2, context=["a", "b"]), [0.5, 0.5])
    cut.tell(cut.ask(3, context=list("abc")), [0.5] * 3)
    assert not cut.guarantee().valid
    assert kept.guarantee(rounds=601).terms["last period"] == 1.0


# What is printed (F6.10).


def test_what_is_proved_in_which_case():
    half = kl.Contexts([[0.0], [1.0]], [0.5, 0.5])
    unknown = kl.Contexts([[0.0], [1.0]])
    drawn = in_turn_learner(contexts=half).guarantee()
    assert drawn.proved
    assert drawn.statement.startswith("Theorem F6")
    counted = in_turn_learner(contexts=unknown, order="independent").guarantee()
    assert not counted.proved
    assert not counted.informative
    assert "the law of contexts is not known" in str(counted)
    apart = in_turn_learner(contexts=unknown, context_kernel=None).guarantee()
    assert apart.proved
    assert apart.statement == "Theorem F6.7 (one learner per context)"
    rewards = in_turn_learner(contexts=half, goal="maximize").guarantee()
    assert "every reward is in [0, 1]" in str(rewards)


def test_late_losses_need_a_declared_delay():
    half = kl.Contexts([[0.0], [1.0]], [0.5, 0.5])
    late, planned = in_turn_learner(contexts=half, batch=1), in_turn_learner(contexts=half, delay=2)
    for learner in (late, planned):
        waiting = [learner.ask(context=0)]
        for c in (1, 0, 1, 0):
            waiting.append(learner.ask(context=c))
            learner.tell(waiting.pop(0), 0.5)
    assert late.diagnostics.late > 0
    assert not late.guarantee().proved
    assert planned.guarantee().proved
    assert any("contexts not yet heard of" in str(a) for a in planned.guarantee().assumptions)


def test_many_batches_are_whole_epochs():
    half = kl.Contexts([[0.0], [1.0]], [0.5, 0.5])
    learner = in_turn_learner(contexts=half)
    batch = learner.ask(20, context=np.tile([0, 1], 10))
    learner.tell(batch, np.full(20, 0.5))
    promise = learner.guarantee()
    assert promise.proved
    assert "whole epochs" in promise.statement
    assert learner.diagnostics.contexts.tolist() == [10, 10]


def test_one_learner_per_context_adds_up_its_bounds():
    """The bound of F6.7 (1) is at least the sum of the bounds of the learners, however rounds fall on the contexts."""
    apart = in_turn_learner(contexts=kl.Contexts([[0.0], [1.0]]), context_kernel=None)
    single = kl.BanditExpWeights(TWO, kl.White(), horizon=None, loss_range=(0, 1), ridge=0, rng=0)
    n = 600
    both = sum(apart.guarantee(rounds=n).terms.values())
    for share in (1, 60, 150, 300):
        parts = (single.guarantee(rounds=k).terms for k in (share, n - share))
        assert both >= sum(sum(terms.values()) for terms in parts) * (1 - 1e-9)
    even = sum(single.guarantee(rounds=n // 2).terms.values())
    assert both == pytest.approx(2 * even, rel=1e-6)
