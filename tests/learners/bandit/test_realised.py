"""The estimated regret: by enumeration its mean is what is claimed, round by round."""

import copy
import math

import numpy as np
import pytest

import koloss as kl
from koloss.learners.bandit.realised import estimated_regrets
from tests.support import inside

POINTS = kl.Points(np.linspace(0, 1, 5)[:, None])
SETTINGS = {
    "any losses": {"loss_class": "any"},
    "quadratic": {"kernel": kl.Quadratic()},
    "no horizon": {"kernel": kl.Quadratic(), "horizon": None},
    "epochs": {"kernel": kl.Quadratic(), "batch": 3},
    "ridge": {},
    "ridge, no horizon": {"horizon": None},
    "rewards": {"kernel": kl.Quadratic(), "goal": "maximize"},
    "widened": {"kernel": kl.Quadratic(), "outside": "widen"},
}


def make(kernel=kl.Gaussian(0.5), **settings):  # noqa: B008
    settings = {"horizon": 200, "loss_range": (0, 1), "rng": 0} | settings
    return kl.BanditExpWeights(POINTS, kernel, **settings)


def losses_of(rng):
    """In the span of the features of a quadratic kernel, within the range."""
    x = POINTS.X[:, 0]
    values = rng.normal() * x**2 + rng.normal() * x
    values -= values.min()
    return values / max(values.max(), 1e-9) * 0.9


def smooth_losses(rng):
    """Of norm at most 2 in the space of the Gaussian kernel, up to a constant, within the range."""
    K = kl.Gaussian(0.5)(POINTS.X, POINTS.X)
    c = rng.normal(size=5)
    values, norm = K @ c, math.sqrt(c @ K @ c)
    scale = min(1.9 / norm, 0.9 / np.ptp(values))
    return (values - values.min()) * scale


def drawn(learner, index):
    """A copy of the learner that has drawn this action, by trying seeds."""
    for seed in range(10_000):
        again = copy.deepcopy(learner)
        again.reseed(seed)
        decision = again.ask()
        if decision.index == index:
            return again, decision
    raise AssertionError(f"action {index} is not drawn")


@pytest.mark.slow
@pytest.mark.parametrize("name", SETTINGS)
def test_the_mean_of_a_round_is_its_regret(name):
    """E ΔĈ(b) = p·ℓ - ℓ(b) exactly without a ridge; with one Ĉ may only be too large, by less than the bonuses and ε."""
    learner, rng = make(**SETTINGS[name]), np.random.default_rng(1)
    sign = -1 if learner.settings.goal == "maximize" else 1
    for t in range(12):
        losses = smooth_losses(rng) if "ridge" in name else losses_of(rng)
        p, before = learner.distribution, estimated_regrets(inside.exp2(learner))
        assert p.sum() == pytest.approx(1)
        mean = np.zeros(5)
        for index in range(5):
            again, decision = drawn(learner, index)
            assert decision.probability == pytest.approx(p[index], rel=1e-12)
            again.tell(decision, float(losses[index]))
            mean += p[index] * (estimated_regrets(inside.exp2(again)) - before)
        expected = sign * (p @ losses - losses)
        if "ridge" in name:
            assert (mean >= expected - learner.epsilon - 1e-9).all()
        else:
            np.testing.assert_allclose(mean, expected, atol=1e-9)
            # A control: without what was paid it is off by the mean loss.
            assert np.abs(mean - expected + p @ losses - 0.5).max() > 1e-3
        decision = learner.ask()
        learner.tell(decision, float(losses[decision.index]) + (0.3 if name == "widened" and t == 5 else 0))  # fmt: skip


def test_what_is_not_received_costs_the_range():
    learner = make(kl.Quadratic(), loss_range=(0, 3))
    first, second = learner.ask(), learner.ask()
    learner.tell(first, 1.0)
    found = learner.guarantee(realised=True)
    assert found.terms["unheard"] == 3.0
    learner.forget([second.id])
    assert learner.guarantee(realised=True).terms["unheard"] == 3.0
    assert learner.diagnostics.estimated_regret == pytest.approx(found.total)


LEARNERS = {"bandit": kl.BanditExpWeights, "insured": kl.InsuredBandit}


@pytest.mark.parametrize("name", LEARNERS)
def test_losses_in_other_units_have_an_estimate_in_these_units(name):
    """Also the bias: the features of a net of a Gaussian kernel have an error."""

    def total(unit):
        learner = LEARNERS[name](
            POINTS, kl.Gaussian(0.5), horizon=200, loss_range="learn", rank=3, rng=0
        )
        for t in range(60):
            decision = learner.ask()
            learner.tell(decision, unit * (decision.index + t % 3) / 7)
        found = learner.guarantee(realised=True)
        assert found.terms["bias"] > 0
        return found

    one, thousand = total(1.0), total(1000.0)
    for term, value in one.terms.items():
        assert thousand.terms[term] == pytest.approx(1000 * value, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("name", LEARNERS)
def test_what_losses_are_above_a_ceiling_is_added(name):
    """Arms that lose 0.85, 0.9 or 10 count as 0.85, 0.9 and 1: the best arm as they are is not what the counted losses show."""
    settings = {"loss_class": "any"} if name == "bandit" else {"robust_kernel": "any"}
    kernel = kl.White() if name == "insured" else kl.Gaussian(0.5)
    learner = LEARNERS[name](
        POINTS, kernel, horizon=400, loss_range=(0, 1), outside="clip", rng=0, **settings
    )
    own = 0.0
    for _ in range(400):
        decision = learner.ask()
        loss = (0.85, 0.9, 0.9, 10.0, 10.0)[decision.index]
        own += loss
        learner.tell(decision, loss)
    found = learner.guarantee(realised=True)
    regret, excess = own - 400 * 0.85, found.terms["excess"]
    assert excess == pytest.approx(9 * (own - 400 * 0.85) / 9.15, rel=0.2)
    assert found.total - excess < regret < 1.1 * found.total + 10
    learner.tell(learner.ask(), 0.9)
    learner.ask()
    assert any(
        "not received is in [0, 1]" in str(one)
        for one in learner.guarantee(realised=True).assumptions
    )


def test_losses_that_were_not_received_are_taken_to_be_like_the_others():
    learner = make(kl.Quadratic(), loss_range="learn", goal="maximize")
    for t in range(20):
        decision = learner.ask()
        if t % 2:
            learner.tell(decision, 2.0 + t % 5)
    (said,) = (one for one in learner.guarantee(realised=True).assumptions if one.key == "unseen")
    assert said.holds is None
    assert "every reward that was not received is in [2, 6]" in str(said)


def test_it_is_no_bound_and_says_so():
    learner = make(kl.Quadratic())
    for _ in range(20):
        learner.tell(learner.ask(), 0.4)
    found = learner.guarantee(realised=True)
    assert found.is_estimate
    assert found.trivial == math.inf  # never the smaller of two
    assert "not a bound for this game" in found.in_words()
    assert "one draw" in str(learner.diagnostics)


@pytest.mark.parametrize("name", LEARNERS)
def test_where_there_is_one_action_nothing_is_estimated_to_be_lost(name):
    learner = LEARNERS[name](
        kl.Points([[1.0]]), kl.Quadratic(), horizon=9, loss_range=(0, 1), rng=0
    )
    for _ in range(3):
        found = learner.guarantee(realised=True)
        assert found.total == pytest.approx(0, abs=1e-12)
        learner.tell(learner.ask(), 0.7)


def test_with_confidence_by_hand():
    learner = make(regret="hindsight")
    for t in range(30):
        learner.tell(learner.ask(), (t % 4) / 4)
    plain, sure = learner.guarantee(realised=True), learner.guarantee(realised=True, confidence=0.9)
    eta = learner.rates.learning_rate
    assert plain.terms["hindsight"] == pytest.approx(math.log(5) / eta)
    assert sure.terms["confidence"] == pytest.approx(math.log(5 / 0.1) / eta)
    assert "hindsight" not in sure.terms
    assert sure.terms["estimated regret"] == plain.terms["estimated regret"]
    assert (sure.confidence, sure.is_estimate) == (0.9, False)


def test_contexts_add_up():
    learner = make(kl.Quadratic(), contexts=kl.Contexts(["a", "b"]))
    for t in range(30):
        learner.tell(learner.ask(context="ab"[t % 3 == 0]), (t % 5) / 5)
    parts = [float(estimated_regrets(one).max()) for one in inside.exp2(learner).each]
    assert learner.guarantee(realised=True).total == pytest.approx(sum(parts))


def test_refused_where_it_would_be_biased():
    learner = make(kl.Quadratic())
    assert learner.guarantee(realised=True).rounds == 0
    with pytest.raises(TypeError, match="`realised` must be True or False, got 'yes'"):
        learner.guarantee(realised="yes")
    with pytest.raises(
        ValueError, match="`rounds` must be left out where `realised` is True, got 7"
    ):
        learner.guarantee(realised=True, rounds=7)
    learner.tell(learner.ask(allowed=[0, 2]), 0.5)
    with pytest.raises(ValueError, match="`realised` must be False where not all actions"):
        learner.guarantee(realised=True)
    assert learner.diagnostics.estimated_regret is None
    shared = make(kl.Quadratic(), contexts=kl.Contexts(["a", "b"], weights=[0.5, 0.5]))
    with pytest.raises(ValueError, match="several contexts share"):
        shared.guarantee(realised=True)
    with pytest.raises(ValueError, match="`confidence` must be left out without"):
        make().guarantee(realised=True, confidence=0.9)


def test_on_a_ball_it_is_the_largest_over_all_actions():
    learner = kl.BanditExpWeights(kl.Ball(2), kl.Quadratic(), horizon=200, loss_range=(0, 1), rng=0)
    rng, told = np.random.default_rng(0), 0.0
    for _ in range(50):
        decision = learner.ask()
        loss = 0.2 + 0.1 * float(decision.action @ decision.action)
        learner.tell(decision, loss)
        told += loss
    X = kl.Ball(2).sample(2000, rng)
    at = inside.exp2(learner).engine.values_at(inside.exp2(learner).theta, 1.0, X) + 50 * 0.5
    found = learner.guarantee(realised=True).total
    assert found >= told - at.min() - 1e-9
    assert found == pytest.approx(told - at.min(), abs=0.05 * abs(told - at.min()) + 0.5)


def test_insured_learners_add_their_account_and_what_the_robust_learner_estimates():
    learner = kl.InsuredBandit(POINTS, kl.Quadratic(), horizon=3000, loss_range=(0, 2), rng=0)
    for t in range(60):
        if t == 30:
            learner.hand_over()
        learner.tell(learner.ask(), (t % 5) / 5)
    found = learner.guarantee(realised=True)
    robust = inside.robust(learner).exp2
    total = 2 * inside.account(learner).total + estimated_regrets(robust)
    assert found.terms["estimated regret"] == pytest.approx(float(total.max()))
    assert found.terms["unheard"] == 0
    learner.withdraw([0])
    with pytest.raises(ValueError, match="added or withdrawn"):
        learner.guarantee(realised=True)
