"""The insured learner with contexts: a stage for each, what is asked of policies, what is promised, and that all a stage can do goes on."""

from __future__ import annotations

import copy
import json

import numpy as np
import pytest

import koloss as kl
from koloss.errors import NoDistribution, PolicyError
from tests.learners.insured.inside import digest
from tests.support import inside
from tests.support.clauses import marks

SEGMENTS = kl.Contexts(["small", "medium", "large"])
PRICES = kl.Points(np.linspace(0, 1, 6)[:, None])
C, K = 3, 6


def make(contexts=SEGMENTS, actions=PRICES, kernel=None, **settings):
    settings = {"horizon": 3000, "loss_range": (0, 1), "rng": 0} | settings
    return kl.InsuredBandit(actions, kernel or kl.Gaussian(0.4), contexts=contexts, **settings)


def kind(t):
    """Losses of all pairs, each segment with its own best price."""
    best = np.array([0.2, 0.4, 0.8])[:, None]
    return 0.1 + 0.8 * (PRICES.X[:, 0] - best) ** 2


def contexts_of(rounds, seed=3):
    return np.random.default_rng(seed).choice(C, size=rounds, p=[0.5, 0.3, 0.2]).tolist()


def play(learner, losses, rounds, seed=3, start=0):
    names, played = SEGMENTS.labels, []
    for t, c in enumerate(contexts_of(rounds, seed), start):
        decision = learner.ask(context=names[c])
        learner.tell(decision, float(losses(t)[c, decision.index]))
        played.append((c, decision.index))
    return played


class Listens:
    """Plays one row in every context, and keeps what it is asked and told."""

    def __init__(self, row=2):
        self.row, self.asked, self.heard = row, [], []

    def propose(self, context):
        self.asked.append(context)
        return self.row

    def hear(self, index, loss, context):
        self.heard.append((index, loss, context))


class Remembers(Listens):
    """Plays through the rows, from where its snapshot was taken."""

    def propose(self, context):
        self.row = (self.row + len(context)) % K
        return self.row

    def state(self):
        return {"row": self.row}

    def restore(self, state):
        self.row = state["row"]


class Worst(Listens):
    """Looks at the losses to come, and plays the worst price."""

    def __init__(self, losses):
        super().__init__()
        self.losses, self.t = losses, 0

    def propose(self, context):
        self.t += 1
        return int(self.losses(self.t - 1)[SEGMENTS.find(context)].argmax())


# What is promised.


def test_the_promise_is_that_of_the_stages():
    """Theorem F6.11: the budgets of all stages, each for its share of the horizon, and the robust learners' bounds in any order."""
    learner = make(horizon=6000)
    promise = learner.guarantee()
    assert promise.theorems[:2] == ("F6.11 insured", "F6.11")
    plain = kl.InsuredBandit(PRICES, kl.Gaussian(0.4), horizon=2000, loss_range=(0, 1))
    alone = plain.guarantee()
    assert promise.terms["budget"] == pytest.approx(3 * alone.terms["budget"])
    engine = inside.stage(learner).robust.engine
    once = engine.problem.terms(engine.rates.learning_rate, engine.rates.kappa, rounds=6000)
    robust = once["exploration"] + once["variance"] + 3 * once["prior"]
    assert promise.terms["robust learner"] == pytest.approx(robust)
    # Where rounds are shared out evenly this is what three learners apart would have, without their taking over late.
    assert robust == pytest.approx(3 * sum(v for k, v in once.items() if k != "prior") / 3 + 3 * once["prior"] - once["bias"])  # fmt: skip
    before = promise.terms
    play(learner, kind, 50)
    assert learner.guarantee().terms == before
    assert learner.guarantee().valid


def test_shares_are_not_needed():
    """With the same coins a learner that is told them plays and promises the same."""
    known = make(kl.Contexts(SEGMENTS.labels, weights=[0.5, 0.3, 0.2]))
    left, right = play(known, kind, 80), play(make(), kind, 80)
    assert left == right
    assert known.guarantee().total == make().guarantee().total


def hostile(learner):
    """Losses that punish the likeliest price of every segment."""

    def losses(t):
        laws = np.array([learner.distribution_for(name) for name in SEGMENTS.labels])
        return np.where(laws >= laws.max(axis=1, keepdims=True), 1.0, 0.0)

    return losses


def switching(learner):
    return lambda t: kind(t)[:, :: 1 if (t // 150) % 2 else -1]


def exact_regret(learner, losses, rounds, order):
    """Pseudo-regret by the laws of every round, against the best mapping; contexts in turn, or by their weights."""
    names, lost, total = SEGMENTS.labels, 0.0, np.zeros((C, K))
    for t, c in enumerate(ORDERS[order](rounds)):
        law = np.eye(C)[c]
        each = losses(t)
        chances = np.array([learner.distribution_for(name) for name in names])
        lost += law @ np.sum(chances * each, axis=1)
        total += law[:, None] * each
        decision = learner.ask(context=names[c])
        learner.tell(decision, float(each[c, decision.index]))
    return lost - total.min(axis=1).sum()


def extreme(learner):
    """Whoever plays the first price loses all there is."""
    return lambda t: np.tile(np.eye(K)[0], (C, 1))


ORDERS = {
    "drawn": contexts_of,
    "in turn": lambda rounds: [t % C for t in range(rounds)],
    "late": lambda rounds: [0 if t < rounds // 2 else 1 + t % 2 for t in range(rounds)],
    "one": lambda rounds: [1] * rounds,
}
GAMES = [(hostile, "ucb"), (switching, "ucb"), (switching, Worst), (extreme, Worst)]


@pytest.mark.usefixtures("patient")
@pytest.mark.slow
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("game, policy", GAMES)
def test_the_regret_is_within_the_bound(order, game, policy):
    """Tabular features, so that any losses are of the class. Uninsured, the worst policy loses more than the bound."""
    rounds = 900
    settings = {"horizon": rounds, "kernel": kl.White(), "context_kernel": kl.White()}
    settings |= {"trigger": 0.25, "premium": 0.75}
    learner = make(**settings)
    losses = game(learner)
    if policy is Worst:
        learner = make(**settings, policy=Worst(losses))
    regret = exact_regret(learner, losses, rounds, order)
    assert regret <= sum(learner.guarantee().terms.values())
    if game is extreme:  # each round that the policy plays costs 1
        assert learner.diagnostics.alarms
    for stage in inside.stages(learner):
        assert stage.account.holds(stage.budget, 0.0)


@pytest.mark.slow
def test_a_segment_that_turns_is_handed_over_alone():
    """From round 500 on the likeliest price of "medium" loses; the others stay with the policy."""
    learner = make()

    def turning(t):
        losses = kind(t)
        if t >= 500:
            law = learner.distribution_for("medium")
            losses[1] = np.where(np.arange(K) == law.argmax(), 1.0, 0.0)
        return losses

    play(learner, turning, 1500)
    seen = learner.diagnostics
    assert [one.playing for one in seen.segments] == ["ucb", "robust", "ucb"]
    assert {alarm.context for alarm in seen.alarms} == {1}
    assert seen.alarms[0].round > 500
    assert "in context medium the policy 'ucb' was stopped" in str(learner.guarantee())
    assert "medium: robust plays" in str(seen)
    assert learner.guarantee().valid


@pytest.mark.slow
def test_estimates_of_a_context_do_not_move_by_losses_of_others():
    learner = make(trigger=0.1, premium=0.2)
    learner.hand_over(context="large")
    play(learner, kind, 60)
    before = [stage.account.total.copy() for stage in inside.stages(learner)]
    sums = inside.stage(learner, 2).robust.exp2.theta.copy()
    for t in range(30):
        decision = learner.ask(context="medium")
        learner.tell(decision, float(kind(t)[1, decision.index]))
    assert np.array_equal(before[0], inside.stage(learner, 0).account.total)
    assert not np.array_equal(before[1], inside.stage(learner, 1).account.total)
    assert np.array_equal(sums, inside.stage(learner, 2).robust.exp2.theta)


# Policies.


def test_policies_are_asked_once_a_round_for_the_context_at_hand():
    policy = Listens()
    learner = make(policy=policy)
    played = play(learner, kind, 60)
    names = SEGMENTS.labels
    assert policy.asked == [names[c] for c, _ in played]
    assert policy.heard == [(a, pytest.approx(kind(0)[c, a]), names[c]) for c, a in played]


def test_looking_asks_the_policy_once_and_keeps_the_proposal():
    policy = Listens()
    learner = make(policy=policy)
    laws = [learner.distribution_for("large") for _ in range(3)]
    assert policy.asked == ["large"]
    assert np.array_equal(laws[0], laws[1])
    assert laws[0].argmax() == 2
    learner.ask(context="large")
    assert policy.asked == ["large"]


def test_whoever_was_handed_over_is_not_asked():
    policy = Listens()
    learner = make(policy=policy)
    learner.hand_over(context="small")
    play(learner, kind, 100)
    assert set(policy.asked) == {"medium", "large"}
    assert len(policy.heard) == 100  # it hears all of them
    learner.hand_over()
    play(learner, kind, 10)
    assert len(policy.heard) == 100  # it plays nowhere


def test_coordinates_are_shown_where_there_are_no_labels():
    policy = Listens()
    learner = make(kl.Contexts([[0.0, 1.0], [1.0, 0.5]]), policy=policy)
    learner.ask(context=1)
    assert policy.asked[0].tolist() == [1.0, 0.5]


def test_params_are_shown_where_contexts_are_those_of_a_space():
    policy = Listens()
    days = kl.Space(day=kl.Choice(["work", "rest"]), hour=kl.Int(0, 3))
    learner = make(kl.Contexts(days), policy=policy)
    learner.ask(context={"day": "rest", "hour": 2})
    assert policy.asked == [{"day": "rest", "hour": 2}]
    again = kl.InsuredBandit.from_state(learner.state(), policy=Listens())
    assert digest(again) == digest(learner)


@pytest.mark.parametrize("bad", [None, "2", K, -1, np.nan, np.ones(K), np.full(C * K, 1 / (C * K))])
def test_bad_proposals_change_nothing(bad):
    policy = Listens()
    learner = make(policy=policy)
    play(learner, kind, 20)
    learner.distribution_for("small")  # a proposal that is kept
    before = digest(learner)
    policy.row = bad
    looks = [
        lambda: learner.ask(context="large"),
        lambda: learner.ask(2, context=["small", "large"]),
        lambda: learner.distribution_for("large"),
    ]
    for look in looks:
        with pytest.raises(PolicyError, match="polic"):
            look()
        assert digest(learner) == before
    policy.row = 1
    play(learner, kind, 20)


@pytest.mark.parametrize("policy", ["ucb", "thompson"])
def test_the_library_s_policies_find_the_best_price_of_every_segment(policy):
    learner = make(policy=policy, horizon=6000)
    play(learner, kind, 600)
    found = [learner.recommend(name).index for name in SEGMENTS.labels]
    assert found == kind(0).argmin(axis=1).tolist()
    laws = np.array([learner.distribution_for(name) for name in SEGMENTS.labels])
    assert np.allclose(laws.sum(axis=1), 1)
    assert laws.argmax(axis=1).tolist() == found


def test_laws_of_a_policy_are_played():
    law = np.array([0.0, 0.5, 0.5, 0.0, 0.0, 0.0])
    learner = make(policy=Listens(law))
    p = learner.distribution_for("small")
    weights = inside.first_exploration(learner).weights
    rate = (p[0] / weights[0]).item()
    assert 0 < rate < 0.5
    assert p == pytest.approx(rate * weights + (1 - rate) * law)
    decision = learner.ask(context="small")
    assert decision.probability == pytest.approx(p[decision.index])


def test_rewards_are_losses_turned_around():
    left, right = make(), make(goal="maximize", loss_range=(-1, 0))
    for t, c in enumerate(contexts_of(200)):
        name = SEGMENTS.labels[c]
        one, other = left.ask(context=name), right.ask(context=name)
        assert one.index == other.index
        left.tell(one, float(kind(t)[c, one.index]))
        right.tell(other, -float(kind(t)[c, other.index]))
    assert left.recommend("small").loss == pytest.approx(-right.recommend("small").loss)
    assert "reward" in str(right.guarantee())


# By hand.


def test_hand_over_and_second_chances_by_hand():
    learner = make()
    learner.hand_over(context="large")
    assert [one.playing for one in learner.diagnostics.segments] == ["ucb", "ucb", "robust"]
    play(learner, kind, 40)
    learner.re_arm(context="large")
    learner.re_arm(context="large")  # it plays already
    before = learner.guarantee().total
    assert [one.playing for one in learner.diagnostics.segments] == ["ucb"] * 3
    assert [(one.context, one.reason) for one in learner.diagnostics.alarms] == [
        (2, "operator")
    ] * 2
    learner.pause()
    assert {one.playing for one in learner.diagnostics.segments} == {"robust"}
    play(learner, kind, 20)
    learner.re_arm()
    assert [one.playing for one in learner.diagnostics.segments] == ["ucb"] * 3
    assert learner.guarantee().total == before  # budgets are those of the whole game
    with pytest.raises(ValueError, match="`context` must be one of"):
        learner.hand_over(context="huge")


def test_a_policy_comes_back_on_evidence_where_it_was_stopped():
    learner = make(trigger=2.0)
    stage = inside.stage(learner, 1)
    stage.take_over("evidence", 0)
    assert stage.may_return
    assert not inside.stage(learner, 0).may_return
    decision = learner.ask(context="medium")
    assert set(stage.chances.chosen) == {decision.id}
    learner.tell(decision, 0.5)
    stage.chances.since = -1000
    stage.chances.gain, stage.chances.spread = 1000.0, 1.0
    learner.tell(learner.ask(context="medium"), 0.5)
    assert stage.is_watched
    assert learner.alarms[-1].reason == "forecast"


def test_a_game_too_short_to_insure_is_played_robustly():
    learner = make(horizon=3)
    assert {one.playing for one in learner.diagnostics.segments} == {"robust"}
    assert {one.reason for one in learner.diagnostics.alarms} == {"short"}
    assert "budget" not in learner.guarantee().terms
    play(learner, kind, 3)
    assert learner.guarantee().is_trivial


# All that a stage can do.

COMBINATIONS = {
    "no horizon": {"horizon": None},
    "no horizon, thompson": {"horizon": None, "policy": "thompson"},
    "delay": {"delay": 4},
    "hold": {"hold": 3},
    "shares": {"shares": {0: (0.1, 0.5)}},
    "learned range": {"loss_range": "learn"},
    "learned range, no horizon": {"loss_range": "learn", "horizon": None},
    "clipped": {"loss_range": (0, 0.3), "outside": "clip"},
    "another kernel for the insurance": {"robust_kernel": kl.Quadratic()},
    "any losses": {"robust_kernel": "any"},
    "ridge": {"ridge": 0.1},
    "epochs": {"batch": 4},
    "absent": {"absent": [1]},
    "rewards": {"goal": "maximize"},
    "auto": {"kernel": "auto"},
    "one kernel on pairs": {"kernel": kl.Gaussian(0.5), "context_kernel": "pairs"},
    "a kernel on contexts": {"context_kernel": kl.Gaussian(2.0)},
    "contexts of different size": {
        "contexts": kl.Contexts([[1.0], [2.0], [3.0]]),
        "kernel": kl.Gaussian(0.4),
        "context_kernel": kl.Linear(),
    },
    "allowed": {"contexts": kl.Contexts(SEGMENTS.labels, allowed=np.arange(6) < [[6], [3], [4]])},
}


@pytest.mark.parametrize("name", COMBINATIONS)
def test_what_a_stage_can_do_works_with_contexts(name):
    """Played by the policy and by the robust learner, stopped and started, promised and resumed exactly."""
    learner = make(**COMBINATIONS[name])
    contexts = learner.settings.contexts
    names = contexts.labels or contexts.X
    high = 0.3 if name == "clipped" else 1.0

    def rounds(one, start):
        for t in range(start, start + 25):
            decision = one.ask(context=names[(t * t) % C])
            one.tell(decision, min(high, float(kind(t)[(t * t) % C, decision.index])))

    rounds(learner, 0)
    learner.hand_over(context=names[1])
    rounds(learner, 25)
    waiting = learner.ask(context=names[1])
    again = kl.InsuredBandit.from_state(learner.state())
    assert digest(again) == digest(learner)
    for one in (learner, again):
        one.tell(waiting.id, 0.2)
        one.re_arm(context=names[1])
        rounds(one, 50)
    assert digest(again) == digest(learner)
    promise = learner.guarantee()
    assert promise.valid
    assert "F6.11 insured" in promise.theorems
    assert learner.diagnostics.rounds == 76
    for one in names:
        assert learner.distribution_for(one).sum() == pytest.approx(1)
        assert learner.recommend(one).index is not None


def test_contexts_that_are_alike_share_an_engine():
    stages = inside.stages(make())
    assert stages[0].engine is stages[1].engine is stages[2].engine
    different = inside.stages(make(**COMBINATIONS["contexts of different size"]))
    assert different[0].engine is not different[1].engine
    assert different[0].robust.horizon + different[1].robust.horizon < 3000


def test_late_losses_of_several_contexts():
    """They are told in any order; contexts must not depend on what was not received, and the promise says so."""
    learner = make()
    waiting = []
    for t in range(60):
        waiting.append((learner.ask(context=SEGMENTS.labels[t % C]), t % C))
        if len(waiting) == 9:
            for decision, c in waiting[::-1]:
                learner.tell(decision, float(kind(t)[c, decision.index]))
            waiting.clear()
    promise = learner.guarantee()
    assert promise.valid
    assert marks(promise)["late order"] is marks(promise)["unopened"] is None
    assert promise.terms["unheard"] == C * 2
    assert marks(make().guarantee())["any order"] is None


def test_batches_have_a_law_for_each_context():
    learner = make()
    batch = learner.ask(6, context=["small", "large", "small", "medium", "large", "small"])
    assert batch.index.shape == batch.probability.shape == (6,)
    laws = [learner.ledger.entry(i).law.epochs for i in batch.id]
    assert [sorted(one) for one in laws] == [[0, 1, 2]] * 6
    learner.tell(batch[2], 0.3)
    learner.tell([batch[0], batch[1]], [0.1, 0.2])
    assert learner.forget(batch[3]) == 1
    assert [stage.made for stage in inside.stages(learner)] == [3, 1, 2]
    assert [stage.heard for stage in inside.stages(learner)] == [2, 0, 1]
    play(learner, kind, 20)
    assert learner.guarantee().valid


def test_a_late_loss_is_learned_from_with_the_law_of_its_context():
    """Long after, when only what the loss needs was kept, as in a learner that hears it at once."""
    pair = [make(policy=Listens(np.full(K, 1 / K))) for _ in range(2)]
    for learner in pair:
        learner.hand_over(context="large")
    for learner in pair:
        learner.waiting = [learner.ask(context=name) for name in SEGMENTS.labels]
        for t in range(1200 if learner is pair[0] else 30):
            learner.ask(context=SEGMENTS.labels[t % C])
    for k, stage in enumerate(inside.stages(pair[0])):
        other = inside.stages(pair[1])[k]
        for learner in pair:
            learner.tell(learner.waiting[k], 0.7)
        assert np.allclose(stage.account.total, other.account.total, atol=1e-12)
        if stage.robust.exp2 is not None:
            assert np.allclose(stage.robust.exp2.theta, other.robust.exp2.theta, atol=1e-12)


def test_requests_among_some_of_the_actions():
    """Nothing is proved of them, unless the pair of context and mask is made the context."""
    learner = make()
    play(learner, kind, 20)
    for t in range(20):
        decision = learner.ask(context="small", allowed=[1, 4])
        assert decision.index in (1, 4)
        learner.tell(decision, float(kind(t)[0, decision.index]))
    assert not learner.guarantee().proved
    allowed = np.ones((C, K), dtype=bool)
    allowed[0] = np.isin(range(K), (1, 4))
    learner = make(kl.Contexts(SEGMENTS.labels, allowed=allowed))
    assert all(a in (1, 4) for c, a in play(learner, kind, 60) if c == 0)
    assert learner.guarantee().valid
    assert "offered" in marks(learner.guarantee())
    with pytest.raises(ValueError, match="`allowed` of `contexts` must have 6 columns"):
        make(kl.Contexts(SEGMENTS.labels, allowed=allowed[:, :4]))


def test_actions_come_and_go_in_all_contexts():
    allowed = np.ones((C, K), dtype=bool)
    allowed[2, 5] = False
    learner = make(kl.Contexts(SEGMENTS.labels, allowed=allowed))
    learner.hand_over(context="medium")
    learner.withdraw([4, 5])
    assert learner.available.tolist() == [True] * 4 + [False] * 2
    assert all(a < 4 for _, a in play(learner, kind, 40))
    learner.add(5)
    assert [stage.roster.offered[5] for stage in inside.stages(learner)] == [True, True, False]
    with pytest.raises(ValueError, match="must be available to be withdrawn, got 4"):
        learner.withdraw([0, 4])
    assert [stage.roster.offered.sum() for stage in inside.stages(learner)] == [5, 5, 4]
    play(learner, kind, 40)
    assert learner.guarantee().valid


def test_one_range_is_learned_in_all_contexts():
    learner = make(loss_range="learn")
    learner.hand_over(context="large")
    for t, scale in enumerate([1.0, 1.0, 1.0, 5.0] + [1.0] * 30):
        c = t % C
        decision = learner.ask(context=SEGMENTS.labels[c])
        learner.tell(decision, scale * float(kind(t)[c, decision.index]))
    hulls = {id(stage.robust.hull) for stage in inside.stages(learner)}
    assert len(hulls) == 1
    lows = {(stage.last.low, stage.last.high) for stage in inside.stages(learner)}
    assert len(lows) == 1
    promise = learner.guarantee()
    assert promise.valid
    assert promise.unit == "ρ"
    engine = inside.stage(learner).robust.engine
    g = engine.problem.largest_leverage(engine.rates.learning_rate, engine.rates.kappa) ** 0.5
    robust = engine.problem.range_cost(g)
    allowance = inside.stages(learner)[0].last.allowance
    own = 1 + 0.75 * allowance.budget(1) / allowance.share
    assert promise.terms["range"] == pytest.approx(own + robust)


def test_what_was_estimated_is_the_sum_over_contexts():
    learner = make()
    learner.hand_over(context="large")
    play(learner, kind, 100)
    estimate = learner.guarantee(realised=True)
    assert estimate.is_estimate
    assert estimate.comparator == "mapping"
    first, second, third = inside.stages(learner)
    exp2 = third.robust.exp2
    last = third.account.total + (exp2.tally.paid - exp2.engine.scores(exp2.theta) + exp2.credit)
    total = first.account.used + second.account.used + float(last.max())
    assert estimate.terms["estimated regret"] == pytest.approx(total)
    assert "only" not in estimate.in_words()


# Snapshots.


@pytest.mark.parametrize("policy", ["own", "thompson", "ucb"])
def test_snapshots_go_on_exactly(policy):
    own = Remembers() if policy == "own" else None
    learner = make(policy=own or policy)
    play(learner, kind, 40)
    learner.hand_over(context="small")
    waiting = [learner.ask(context="small"), learner.ask(context="medium")]
    batch = learner.ask(3, context=["large", "small", "large"])
    state = learner.state()
    again = kl.InsuredBandit.from_state(copy.deepcopy(state), policy=copy.deepcopy(own))
    assert digest(again) == state["digest"]
    for one in (learner, again):
        one.tell(batch.id, [0.1, 0.2, 0.3])
        one.tell([d.id for d in waiting], [0.5, 0.6])
    assert play(learner, kind, 40) == play(again, kind, 40)
    assert digest(learner) == digest(again)


# What is refused.


def test_what_is_for_learners_without_contexts_is_refused():
    learner = make()
    with pytest.raises(NoDistribution, match="distribution_for"):
        _ = learner.distribution
    plain = kl.InsuredBandit(PRICES, kl.Gaussian(0.4), horizon=900, loss_range=(0, 1), rng=0)
    with pytest.raises(NoDistribution, match="is for learners with contexts"):
        plain.distribution_for("small")
    for call in (
        plain.recommend,
        lambda c: plain.ask(context=c),
        lambda c: plain.hand_over(context=c),
    ):
        with pytest.raises(ValueError, match="`context` must be left out"):
            call("small")


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"contexts": ["a", "b"]}, "`contexts` must be Contexts, got"),
        ({"actions": kl.Box([0.0], [1.0])}, "`actions` must be Points with several contexts"),
        ({"proxy": kl.pivoted_cholesky(kl.Gaussian(0.4), PRICES, rank=3)}, "`proxy` must be named"),
        ({"context_kernel": "both"}, "`context_kernel` must be a Kernel"),
        ({"grow": True, "actions": kl.Box([0.0], [1.0])}, "must be"),
    ],
)
def test_settings_that_mean_nothing_with_contexts(settings, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make(**settings)


@pytest.mark.parametrize(
    "settings", [{}, {"policy": "thompson"}, {"context_kernel": kl.Gaussian(2.0)}]
)
def test_one_context_is_none(settings):
    """To the last bit."""
    alone = make(kl.Contexts(["all"]), horizon=900, **settings)
    settings.pop("context_kernel", None)
    plain = kl.InsuredBandit(
        PRICES, kl.Gaussian(0.4), horizon=900, loss_range=(0, 1), rng=0, **settings
    )
    for t in range(60):
        one, other = alone.ask(context="all"), plain.ask()
        assert one.index == other.index
        alone.tell(one, float(kind(t)[0, one.index]))
        plain.tell(other, float(kind(t)[0, other.index]))
    assert np.array_equal(alone.distribution_for("all"), plain.distribution)
    assert str(alone.guarantee()) == str(plain.guarantee())
    again = kl.InsuredBandit.from_state(alone.state())
    assert digest(again) == digest(alone)
    with pytest.raises(ValueError, match="`context` must be"):
        alone.ask(context="some")
    with pytest.raises(ValueError, match="`context` must be"):
        alone.ask()


def test_one_action_costs_nothing():
    learner = make(actions=kl.Points([[0.5]]))
    decision = learner.ask(context="small")
    learner.tell(decision, 0.3)
    assert decision.probability == 1.0
    assert learner.guarantee().total == 0


def test_actions_of_a_space_have_params():
    space = kl.Space(price=kl.Float(0, 1), plan=kl.Choice(["basic", "full"]))
    learner = make(actions=space.points(12), kernel=kl.Gaussian(0.5))
    decision = learner.ask(context="small")
    assert set(decision.params) == {"price", "plan"}
    learner.tell(decision, 0.3)
    assert set(learner.recommend("small").params) == {"price", "plan"}


def test_the_report_is_text_and_data():
    learner = make()
    play(learner, kind, 200)
    seen = learner.diagnostics
    assert sum(one.rounds for one in seen.segments) == seen.rounds == seen.heard == 200
    assert sum(one.budget for one in seen.segments) == pytest.approx(seen.budget)
    assert sum(one.explored for one in seen.segments) == seen.explored
    assert seen.contexts.tolist() == [one.rounds for one in seen.segments]
    assert seen.estimated_losses.shape == (C, K)
    text = str(seen)
    assert text.startswith("3 contexts, 0 of them handed over; 200 rounds, 0 losses outstanding")
    assert "small: ucb plays" in text
    assert json.dumps(text)
    assert "ucb plays" in str(seen.segments[0])
