"""The bandit learner with contexts: estimates by enumeration, laws and drifts, one context, late losses."""

from __future__ import annotations

import copy
import subprocess
import sys

import numpy as np
import pytest

import koloss as kl
from koloss.errors import NoDistribution
from koloss.learners.bandit.pairs import in_context
from koloss.learners.bandit.settings import BanditSettings
from tests.support import inside
from tests.support.statistics import agrees, by_counts, differs

PRICES = kl.Points(np.linspace(0, 1, 5)[:, None])
LAWS = {
    "even": [0.25, 0.25, 0.25, 0.25],
    "skew": [0.9, 0.07, 0.02, 0.01],
    "one in a million": [0.6, 0.3, 0.099999, 0.000001],
}


def segments(law="skew"):
    return kl.Contexts([[0.0], [0.3], [0.6], [1.0]], LAWS[law])


def learner_of(contexts="skew", horizon=3000, **settings):
    contexts = segments(contexts) if isinstance(contexts, str) else contexts
    chosen = {"contexts": contexts, "context_kernel": kl.Gaussian(0.5)}
    chosen |= {"horizon": horizon, "loss_range": (0, 1), "rng": 0}
    return kl.BanditExpWeights(PRICES, kl.Gaussian(0.5), **(chosen | settings))


def play(learner, rounds, seed=1):
    """A game whose losses differ between contexts."""
    coins, contexts = np.random.default_rng(seed), learner.settings.contexts
    C = len(contexts)
    for t in range(rounds):
        c = int(coins.choice(C, p=contexts.weights)) if contexts.weights is not None else t % C
        context = c if contexts.labels is None else contexts.labels[c]
        decision = learner.ask(context=context)
        learner.tell(decision, float(0.5 + 0.5 * np.sin(3 * decision.action[0] + c)))


# Estimates, by enumeration of all contexts and actions through the learner itself.


def told(learner, key, loss):
    """A copy that has drawn this pair from the current law and heard its loss."""
    again = copy.deepcopy(learner)
    K = len(again.actions)
    first = again.ledger.enter(again.ledger.current, [key], (key // K,))
    inside.exp2(again).made += 1
    again.tell(first, loss)
    return again


def scores(learner):
    return learner.engine.scores(inside.exp2(learner).theta)


def mean_change(learner, losses, law):
    """E of what one round adds to the estimate of every pair, if contexts come by this law."""
    K = len(learner.actions)
    p = learner.ledger.current.law.p
    changes = np.zeros(losses.shape[0] * K)
    for c in range(len(law)):
        for a in range(K):
            after = scores(told(learner, c * K + a, float(losses[c, a])))
            changes += law[c] * p[c, a] * (after - scores(learner))
    return changes.reshape(losses.shape)


def linear_losses(learner, seed=3):
    """Losses in [0.1, 0.9] that are linear in the features: what F6 says is estimated without bias."""
    engine = learner.engine
    values = engine.features @ np.random.default_rng(seed).normal(size=engine.features.shape[1])
    values = 0.4 * values / np.abs(values).max()
    return values.reshape(engine.shape) + engine.center


@pytest.mark.slow
@pytest.mark.parametrize("law", LAWS)
def test_estimates_are_unbiased_whatever_the_law(law):
    learner = learner_of(segments(law), bonus=False)
    play(learner, 40)
    learner.ask(context=0)  # opens a law
    capped, losses = learner.engine.capped, linear_losses(learner)
    expected = losses - learner.engine.center
    change = mean_change(learner, losses, np.array(LAWS[law]))
    np.testing.assert_allclose(change, expected, atol=1e-9)
    if law == "one in a million":
        assert not capped.exploits[3]  # it is discounted, and the estimate is still exact
        assert capped.discounts[3] < 0.01


def test_a_wrong_law_is_not_harmless():
    learner = learner_of(segments("skew"), bonus=False)
    play(learner, 40)
    learner.ask(context=0)
    losses = linear_losses(learner)
    change = mean_change(learner, losses, np.array(LAWS["even"]))
    assert np.abs(change - (losses - learner.engine.center)).max() > 0.1


def test_what_can_be_estimated_is_within_the_reach_of_the_design():
    learner = learner_of(segments("one in a million"), bonus=False)
    play(learner, 60)
    learner.ask(context=0)
    engine, K = learner.engine, len(learner.actions)
    S = np.repeat(engine.capped.exploits, K)
    for key in range(len(S)):
        change = scores(told(learner, key, 1.0)) - scores(learner)  # half the range from its centre
        assert np.abs(change[S]).max() <= 0.5 * engine.capped.largest * (1 + 1e-9)
    eta, kappa = learner.rates.learning_rate, learner.rates.kappa
    assert eta * 0.5 * engine.capped.largest <= kappa * (1 + 1e-9)


def brute_rise(engine, epoch):
    """The largest q(·|c)·X - X(c, a), context by context and action by action."""
    C, K = engine.shape
    largest = 0.0
    for c in range(C):
        if not engine.capped.exploits[c]:
            continue
        share, law = engine.capped.shares[c], engine.capped.laws[c]
        q = [(epoch.law.p[c, a] - share * law[a]) / (1 - share) for a in range(K)]
        X = [float(engine.features[c * K + a] @ epoch.gain) for a in range(K)]
        if epoch.law.bonus is not None:
            X = [x - epoch.heard * epoch.law.bonus[c * K + a] for a, x in enumerate(X)]
        mean = sum(w * x for w, x in zip(q, X, strict=True))
        largest = max(largest, *(mean - x for x in X))
    return largest


@pytest.mark.parametrize("settings", [{}, {"bonus": True, "rank": 6}, {"ridge": 0.01}], ids=str)
def test_the_quick_test_of_the_drift_is_an_upper_bound(settings):
    learner = learner_of("one in a million", batch=50, **settings)
    exp2, engine, coins = inside.exp2(learner), learner.engine, np.random.default_rng(0)
    for k in range(60):
        learner.tell(learner.ask(context=int(coins.integers(4))), float(k % 2))
        epoch = exp2.epoch
        if not epoch.over:
            law, gamma = epoch.law, epoch.gamma
            quick = engine.reach(law, gamma, epoch.gain, epoch.heard)
            assert engine.rise(law, gamma, epoch.gain, epoch.heard) <= quick * (1 + 1e-9)
            assert exp2.drift(epoch) == pytest.approx(epoch.eta * brute_rise(engine, epoch))
            assert exp2.drift(epoch) <= 0.2  # or it would be over
    assert 1 < exp2.epochs < 60


def test_laws_are_the_weights_and_the_design():
    learner = learner_of(segments("skew"))
    play(learner, 200)
    exp2, engine = inside.exp2(learner), learner.engine
    while not exp2.is_over():
        learner.tell(learner.ask(context=0), 0.5)
    S = (scores(learner) - exp2.credit if exp2.credit is not None else scores(learner)).reshape(
        4, 5
    )
    for c in range(4):
        q = np.exp(-learner.rates.learning_rate * (S[c] - S[c].min()))
        gamma = engine.capped.shares[c]
        expected = (1 - gamma) * q / q.sum() + gamma * engine.capped.laws[c]
        np.testing.assert_allclose(learner.distribution_for(c), expected, rtol=1e-12)


def test_draws_follow_the_laws():
    learner = learner_of(segments("even"))
    play(learner, 100)
    rows = np.repeat(np.arange(4), 5_000)
    batch = learner.ask(len(rows), context=rows)
    p = np.array([learner.distribution_for(c) for c in range(4)])
    np.testing.assert_array_equal(batch.probability, p[rows, batch.index])
    np.testing.assert_array_equal(batch.action, np.asarray(PRICES.X)[batch.index])
    counts = [np.bincount(batch.index[rows == c], minlength=5) for c in range(4)]
    assert agrees([by_counts(counts[c], p[c]) for c in range(4)])
    assert differs(by_counts(counts[0], p[3]))


# One context is no context.


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"ridge": 0.0},
        {"horizon": None},
        {"ridge": 0.0, "horizon": None},
        {"loss_range": "learn"},
    ],
    ids=str,
)
def test_one_context_is_no_context_bit_for_bit(settings):
    chosen = {"horizon": 500, "loss_range": (0, 1), "rng": 0} | settings
    plain = kl.BanditExpWeights(PRICES, kl.Gaussian(0.5), **chosen)
    one = kl.Contexts(["all"], [1.0])
    learner = kl.BanditExpWeights(PRICES, kl.Gaussian(0.5), contexts=one, **chosen)
    for k in range(60):
        left, right = plain.ask(), learner.ask(context="all")
        assert (left.index, left.probability, left.epoch) == (
            right.index,
            right.probability,
            right.epoch,
        )
        for player, decision in ((plain, left), (learner, right)):
            player.tell(decision, 0.5 + 0.4 * np.sin(k + decision.index))
    batches = plain.ask(7), learner.ask(7, context=["all"] * 7)
    np.testing.assert_array_equal(batches[0].index, batches[1].index)
    np.testing.assert_array_equal(inside.exp2(plain).theta, inside.exp2(learner).theta)
    np.testing.assert_array_equal(plain.distribution, learner.distribution_for("all"))
    assert str(plain.guarantee()) == str(learner.guarantee())
    assert plain.recommend().index == learner.recommend("all").index
    again = kl.BanditExpWeights.from_state(learner.state())
    np.testing.assert_array_equal(again.distribution_for("all"), plain.distribution)


def test_a_kernel_on_pairs_is_a_product_if_it_is_one():
    class OnPairs:
        def __call__(self, X, Y):
            return kl.Gaussian(0.5)(X[:, :1], Y[:, :1]) * kl.Gaussian(0.5)(X[:, 1:], Y[:, 1:])

        def diag(self, X):
            return np.ones(len(X))

    said = {"horizon": 300, "loss_range": (0, 1), "contexts": segments(), "rng": 0}
    product = kl.BanditExpWeights(PRICES, kl.Gaussian(0.5), context_kernel=kl.Gaussian(0.5), **said)
    pairs = kl.BanditExpWeights(PRICES, OnPairs(), context_kernel="pairs", **said)
    np.testing.assert_array_equal(product.engine.features, pairs.engine.features)
    said["contexts"] = kl.Contexts(segments().X)
    apart = kl.BanditExpWeights(PRICES, OnPairs(), context_kernel="pairs", **said)
    alone = kl.BanditExpWeights(
        PRICES, kl.Gaussian(0.5), horizon=100, loss_range=(0, 1), proxy="pivoted_cholesky"
    )
    np.testing.assert_allclose(apart.engine.features, alone.engine.features, atol=1e-12)


def test_a_context_kernel_scales_the_kernel_of_actions():
    one = kl.Contexts([[2.0]], [1.0])
    settings = BanditSettings(
        actions=PRICES, kernel=kl.Linear(), contexts=one, context_kernel=kl.Linear(), horizon=9
    )
    assert in_context(settings, 0).kernel == 4.0 * kl.Linear()


# Losses that come late, and in any order.


@pytest.mark.parametrize("between", [0, 3, 60])
def test_a_late_loss_is_used_with_the_law_of_its_draw(between):
    learner = learner_of(segments("one in a million"), batch=1)
    play(learner, 10)
    decision = learner.ask(context=3)
    law, engine = learner.ledger.current.law, learner.engine
    key = 3 * 5 + decision.index
    w = law.discounts[3]
    factor, bonus = np.tril(law.factor), None if law.bonus is None else law.bonus.copy()
    A = factor @ factor.T
    play(learner, between, seed=2)  # 60 laws later little is left of this one
    before, credit = inside.exp2(learner).theta.copy(), copy.copy(inside.exp2(learner).credit)
    learner.tell(decision, 0.9)
    expected = np.linalg.solve(A, engine.features[key]) * w * (0.9 - 0.5)
    np.testing.assert_allclose(inside.exp2(learner).theta - before, expected, rtol=1e-6, atol=1e-9)
    if bonus is not None:
        np.testing.assert_allclose(inside.exp2(learner).credit - credit, bonus, rtol=1e-9)
    assert learner.diagnostics.late == (between > 0)


def test_with_one_learner_per_context_only_that_context_makes_a_loss_late():
    learner = learner_of(kl.Contexts(["a", "b"]))
    first, second = learner.ask(context="a"), learner.ask(context="b")
    for _ in range(40):  # long enough for the law of "a" to shrink to what its loss needs
        learner.tell(learner.ask(context="b"), 0.5)
    learner.tell(first, 0.2)
    assert learner.diagnostics.late == 0
    learner.tell(second, 0.2)
    assert learner.diagnostics.late == 1


@pytest.mark.parametrize("said", [{}, {"horizon": None}, {"weights": [0.5, 0.5], "horizon": None}])
def test_one_learner_per_context_is_the_learner_of_its_share(said):
    """So it is without `weights`, and without a horizon."""
    contexts, horizon = kl.Contexts(["a", "b"], said.get("weights")), said.get("horizon", 3000)
    learner = learner_of(contexts, horizon, rng=np.random.default_rng(3))
    said = {"horizon": 1500, "loss_range": (0, 1), "batch": 1}
    if horizon is None:
        said |= {"horizon": None, "ridge": 0.0}
    plain = kl.BanditExpWeights(PRICES, kl.Gaussian(0.5), rng=np.random.default_rng(3), **said)
    for k in range(50):  # as if the other context were not there
        left, right = learner.ask(context="a"), plain.ask()
        assert (left.index, left.probability) == (right.index, right.probability)
        learner.tell(left, 0.5 + 0.4 * np.sin(k))
        plain.tell(right, 0.5 + 0.4 * np.sin(k))
    np.testing.assert_array_equal(learner.distribution_for("a"), plain.distribution)
    np.testing.assert_allclose(learner.distribution_for("b"), 0.2, atol=0.2)
    assert learner.recommend("a").loss == plain.recommend().loss
    assert learner.diagnostics.contexts.tolist() == [50, 0]


def test_contexts_and_actions_of_spaces():
    week = kl.Space(day=kl.Ordinal(["Mon", "Tue"]), mobile=kl.Choice([False, True]))
    page = kl.Space(size=kl.Int(1, 3), font=kl.Choice(["serif", "sans"]))
    contexts = kl.Contexts(week, np.full(4, 0.25))
    learner = kl.BanditExpWeights(
        page, kl.Gaussian(0.5), horizon=100, loss_range=(0, 1), contexts=contexts, rng=0
    )
    today = {"day": "Tue", "mobile": True}
    decision = learner.ask(context=today)
    assert decision.params == learner.settings.actions.params[decision.index]
    learner.tell(decision.params, 0.5)  # by what was shown, whatever the context
    assert learner.diagnostics.outstanding == 0
    assert learner.recommend(today).params in learner.settings.actions.params
    again = kl.BanditExpWeights.from_state(learner.state())
    assert again.ask(context=today).params == learner.ask(context=today).params


# What is refused, and changes nothing.


def test_a_context_is_needed_to_know_a_law_or_the_best_action():
    learner = learner_of()
    with pytest.raises(NoDistribution, match="distribution_for"):
        _ = learner.distribution
    with pytest.raises(ValueError, match="`context` must be given"):
        learner.recommend()
    with pytest.raises(ValueError, match="`loss_norm` must be left out where contexts share"):
        learner.guarantee(loss_norm=2.0)
    plain = kl.BanditExpWeights(PRICES, kl.Gaussian(0.5), horizon=9, rng=0)
    with pytest.raises(NoDistribution, match="without there is `distribution`"):
        plain.distribution_for(0)
    with pytest.raises(ValueError, match="`context` must be left out by a learner without"):
        plain.recommend(0)


@pytest.mark.parametrize(
    "call",
    [
        lambda learner: learner.ask(context=0, allowed=[0]),
        lambda learner: learner.withdraw(0),
        lambda learner: learner.guarantee(loss_norm=2.0),
        lambda learner: learner.guarantee(misfit=0.1),
    ],
)
def test_one_learner_for_all_pairs_says_what_it_does_not_do(call):
    with pytest.raises(ValueError, match="where contexts share what they learn: without `weights`"):
        call(learner_of())


@pytest.mark.process
@pytest.mark.parametrize("law", [LAWS["skew"], None])
def test_a_process_that_has_loaded_nothing_reads_a_snapshot(law, tmp_path):
    learner = learner_of(kl.Contexts(segments().X, law))
    learner.ask(context=1)
    kl.save_state(tmp_path / "state.npz", learner.state())
    read = "kl.BanditExpWeights.from_state(kl.load_state('state.npz')).ask(context=0)"
    subprocess.run([sys.executable, "-c", f"import koloss as kl; {read}"], cwd=tmp_path, check=True)
