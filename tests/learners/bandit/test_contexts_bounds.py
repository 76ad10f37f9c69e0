"""What is proved with contexts, against games that try to exceed it; and what is not proved, and fails."""

from __future__ import annotations

import numpy as np
import pytest

import koloss as kl
from tests.support import inside
from tests.support.clauses import marks
from tests.support.copies import fresh_copy

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


def pseudo_regret(learner, law, world, rounds, seed):
    """Of the exact conditional laws, against the best mapping in hindsight of the losses."""
    rng, C = np.random.default_rng(seed), len(law)
    suffered, total = 0.0, np.zeros((C, K))
    weights = learner.settings.contexts.weights
    for t in range(rounds):
        p = inside.exp2(learner).outlook()
        losses = world(t, p)
        suffered += float(np.sum(weights[:, None] * p * losses))
        total += weights[:, None] * losses
        c = int(rng.choice(C, p=law))
        decision = learner.ask(context=c)
        learner.tell(decision, float(losses[c, decision.index]))
    return suffered - float(total.min(axis=1).sum())


@pytest.mark.slow
@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("kernel", KERNELS)
def test_the_bound_holds_for_rare_contexts(law, kernel):
    n, worst = 100, 0.0
    for ridge in (0, 0.03):
        made = kl.BanditExpWeights(
            ACTIONS,
            kl.White(),
            horizon=n,
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
    said = {"context_kernel": CONSTANT, "loss_range": (0, 1), "horizon": 600, "rng": 0} | settings
    return kl.BanditExpWeights(TWO, kl.White(), **said)


@pytest.mark.slow
def test_sharing_fails_where_contexts_come_in_turn_and_learners_apart_do_not():
    half = kl.Contexts([[0.0], [1.0]], [0.5, 0.5])
    shared, apart = in_turn_learner(contexts=half), in_turn_learner(contexts=kl.Contexts(half.X))
    assert right_for_each(600, shared) >= 0.95 * 300  # linear: half of all rounds
    promise = shared.guarantee()
    assert promise.theorems[0] == "F6"
    assert promise.total < 200  # so it was not for this order, ...
    assert marks(promise)["drawn"] is None  # ... as it says
    regret, other = right_for_each(600, apart), apart.guarantee()
    assert other.theorems == ("F6.11",)
    assert other.valid
    assert "drawn" not in marks(other)
    assert regret <= other.total < 300


# What is printed (F6.10).


def test_one_learner_per_context_adds_up_its_bounds():
    """The bound of F6.7 (1) is at least the sum of the bounds of the learners, however rounds fall on the contexts.

    With rates of the horizon every split of the rounds costs the same.
    """
    n = 600
    for horizon in (n, None):
        apart = in_turn_learner(
            contexts=kl.Contexts([[0.0], [1.0]]), context_kernel=None, horizon=horizon
        )
        own = {"horizon": None, "ridge": 0} if horizon is None else {"horizon": n // 2, "batch": 1}
        single = kl.BanditExpWeights(TWO, kl.White(), loss_range=(0, 1), rng=0, **own)
        both = sum(apart.guarantee(rounds=n).terms.values())
        totals = [
            sum(sum(single.guarantee(rounds=k).terms.values()) for k in (share, n - share))
            for share in (1, 60, 150, 300)
        ]
        assert both >= max(totals) * (1 - 1e-9)
        assert both == pytest.approx(totals[-1], rel=1e-6)
        assert (totals[0] == pytest.approx(both)) == (horizon is not None)
