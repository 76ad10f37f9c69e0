"""The insured learner with contexts: who plays where, what is asked of policies, what is promised, and what is refused."""

from __future__ import annotations

import copy
import json

import numpy as np
import pytest

import koloss as kl
from koloss.errors import NoDistribution, PolicyError
from koloss.learners.insured.bets import Bets
from koloss.learners.insured.in_turn import InTurn
from koloss.learners.insured.segments import OneByOne, Together
from tests.learners.insured.inside import digest
from tests.support import inside
from tests.support.clauses import remarks

SEGMENTS = kl.Contexts(["small", "medium", "large"], weights=[0.5, 0.3, 0.2])
PRICES = kl.Points(np.linspace(0, 1, 6)[:, None])
C, K = 3, 6

ONE_BY_ONE = {"premium": 4.0}  # with few actions one budget for all would cost less
TOGETHER = {"premium": 0.75}
ANY_ORDER = kl.Contexts(SEGMENTS.labels)
IN_TURN = {"contexts": ANY_ORDER}
MANNERS = {"one by one": ONE_BY_ONE, "together": TOGETHER, "in turn": IN_TURN}
KINDS = {"one by one": OneByOne, "together": Together, "in turn": InTurn}


@pytest.fixture(params=list(MANNERS))
def manner(request):
    return request.param


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


# Which theorem, and what it promises.


def test_the_theorem_is_decided_before_play(manner):
    learner = make(**MANNERS[manner])
    assert isinstance(inside.game_of_contexts(learner).play.watch, KINDS[manner])
    names = {"one by one": "F6.6c", "together": "F6.6", "in turn": "F6.7 insured"}
    assert learner.guarantee().theorems[0] == names[manner]
    before = learner.guarantee().terms
    play(learner, kind, 50)
    assert learner.guarantee().terms == before
    assert learner.guarantee().valid


def test_the_bound_that_is_printed_is_the_smaller_one():
    """With more premium one budget for all would cost more, and segments are handed over one at a time."""
    bounds = {}
    for premium in (0.2, 0.75, 4.0):
        learner = make(premium=premium, horizon=20_000)
        numbers = inside.game_of_contexts(learner).plan.numbers
        one = numbers.largest + (numbers.exploiting + 1) / 2
        together = premium * numbers.scale
        assert (numbers.kind == "together") == (together < one)
        terms = learner.guarantee().terms
        bounds[premium] = terms["budget"] + terms.get("jumps", 0.0) - 0.5 * numbers.scale
        assert bounds[premium] == pytest.approx(min(one, together))
    assert bounds[0.2] < bounds[0.75] < bounds[4.0]


def test_the_promise_adds_up_to_the_theorem():
    """Theorem F6.6c: (1 + β + 2/log K)B + (|S| + 1)/2 at most, but for the error of the features and of the design."""
    learner = make(**ONE_BY_ONE, horizon=50_000, trigger=0.7)
    n = inside.game_of_contexts(learner).plan.numbers
    terms = dict(learner.guarantee().terms)
    bias = terms.pop("bias")
    most = (1 + 0.7 + 2 / np.log(K)) * n.scale + (n.exploiting + 1) / 2
    assert sum(terms.values()) <= most * 1.005
    m, eps = learner.rank, learner.epsilon
    assert bias <= eps * 50_000 * (1 + np.sqrt(1.005 * m) + 3 + np.sqrt(m))
    assert bias >= eps * 50_000 * (3 + np.sqrt(m))


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
    law = np.array(SEGMENTS.weights)
    drawn = contexts_of(rounds) if order == "independent" else [t % C for t in range(rounds)]
    for t, c in enumerate(drawn):
        if order == "any":
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


GAMES = [(hostile, "ucb"), (switching, "ucb"), (switching, Worst), (extreme, Worst)]


@pytest.mark.usefixtures("patient")
@pytest.mark.slow
@pytest.mark.parametrize("game, policy", GAMES)
def test_the_regret_is_within_the_bound(manner, game, policy):
    """Tabular features, so that any losses are of the class. Uninsured, the worst policy loses more than the bound."""
    rounds = 700
    settings = {"horizon": rounds, "kernel": kl.White()}
    settings |= {"context_kernel": kl.White(), **MANNERS[manner]}
    learner = make(**settings)
    losses = game(learner)
    if policy is Worst:
        learner = make(**settings, policy=Worst(losses))
    regret = exact_regret(learner, losses, rounds, learner.settings.ordered)
    most = sum(learner.guarantee().terms.values())
    assert regret <= most < rounds
    if policy is Worst:
        assert learner.diagnostics.alarms
    if game is extreme:  # each round that the policy plays costs 1
        assert most < rounds


@pytest.mark.slow
def test_a_segment_that_turns_is_handed_over_alone():
    """From round 500 on the likeliest price of "medium" loses; the others stay with the policy."""
    learner = make(**ONE_BY_ONE)

    def turning(t):
        losses = kind(t)
        if t >= 500:
            law = learner.distribution_for("medium")
            losses[1] = np.where(np.arange(K) == law.argmax(), 1.0, 0.0)
        return losses

    play(learner, turning, 1500)
    seen = learner.diagnostics
    assert [one.playing for one in seen.segments] == ["ucb", "robust", "ucb"]
    (alarm,) = seen.alarms
    assert alarm.context == 1
    assert alarm.round > 500
    assert "medium was handed over" in str(learner.guarantee())
    assert "medium: robust plays" in str(seen)
    assert learner.guarantee().valid


# Policies.


def test_policies_are_asked_once_a_round_for_the_context_at_hand(manner):
    policy = Listens()
    learner = make(policy=policy, **MANNERS[manner])
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
    learner = make(policy=policy, **ONE_BY_ONE)
    learner.hand_over(context="small")
    play(learner, kind, 100)
    assert set(policy.asked) == {"medium", "large"}
    assert len(policy.heard) == 100  # it hears all of them
    learner.hand_over()
    play(learner, kind, 10)
    assert len(policy.heard) == 100  # it plays nowhere


def test_coordinates_are_shown_where_there_are_no_labels():
    policy = Listens()
    learner = make(kl.Contexts([[0.0, 1.0], [1.0, 0.5]], weights=[0.5, 0.5]), policy=policy)
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


@pytest.mark.usefixtures("patient")
def test_laws_of_a_policy_are_played():
    law = np.array([0.0, 0.5, 0.5, 0.0, 0.0, 0.0])
    learner = make(policy=Listens(law), **ONE_BY_ONE)
    rate = inside.game_of_contexts(learner).play.watch.rate(0)
    p = learner.distribution_for("small")
    assert np.all(p[1:3] >= 0.5 * (1 - rate))
    assert p.sum() == pytest.approx(1)
    decision = learner.ask(context="small")
    assert decision.probability == p[decision.index]


def test_rewards_are_losses_turned_around(manner):
    settings = MANNERS[manner]
    left, right = make(**settings), make(**settings, goal="maximize", loss_range=(-1, 0))
    for t, c in enumerate(contexts_of(200)):
        name = SEGMENTS.labels[c]
        one, other = left.ask(context=name), right.ask(context=name)
        assert one.index == other.index
        left.tell(one, float(kind(t)[c, one.index]))
        right.tell(other, -float(kind(t)[c, other.index]))
    assert left.recommend("small").loss == pytest.approx(-right.recommend("small").loss)
    assert "reward" in str(right.guarantee())


def test_a_policy_in_doubt_explores_more_where_it_is():
    """Where it does worse than exploration; what is explored beyond its due is the policy's own for the estimates."""
    worse = Bets(policy_mean=0.4, explored_mean=-0.1, policy_rounds=40, explored_rounds=40)
    better = Bets(policy_mean=-0.4, explored_mean=0.1, policy_rounds=40, explored_rounds=40)
    learner = make(policy=Listens(3), **ONE_BY_ONE)
    footing = inside.game_of_contexts(learner).play.watch.footing
    inside.game_of_contexts(learner).play.bets = [worse, better, better]
    rates = np.array([0.25, *footing.rates[1:]])
    laws = [learner.distribution_for(name)[3] for name in SEGMENTS.labels]
    assert laws == pytest.approx(1 - rates + rates * footing.weights[:, 3])
    watched = inside.game_of_contexts(make(policy=Listens(3), **ONE_BY_ONE)).play
    assert watched.strays(0) > 0  # before anything was explored
    keys = [watched._one(0, 3, coin, True)[::2] for coin in (0.001, 0.2, 0.9)]
    assert [(key < 0, strayed) for key, strayed in keys] == [
        (True, False),
        (False, True),
        (False, False),
    ]


# By hand.


def test_second_chances_are_counted():
    learner = make(**ONE_BY_ONE)
    before = learner.guarantee()
    learner.hand_over(context="large")
    play(learner, kind, 50)
    learner.re_arm(context="large")
    learner.re_arm(context="large")  # it plays already
    play(learner, kind, 50)
    assert [one.playing for one in learner.diagnostics.segments] == ["ucb"] * 3
    n, watch = (
        inside.game_of_contexts(learner).plan.numbers,
        inside.game_of_contexts(learner).play.watch,
    )
    more = watch.budgets[2] + 0.6 + 0.2 * n.largest
    assert learner.guarantee().terms["second chances"] == pytest.approx(more)
    assert sum(learner.guarantee().terms.values()) == pytest.approx(
        sum(before.terms.values()) + more
    )


def test_rows_sleep_while_the_policy_plays():
    learner = make(**ONE_BY_ONE)
    learner.hand_over(context="large")
    play(learner, kind, 50)
    learner.re_arm(context="large")
    sums = inside.game_of_contexts(learner).play.robust.sums.copy()
    play(learner, kind, 50)
    assert np.array_equal(inside.game_of_contexts(learner).play.robust.sums, sums)


@pytest.mark.parametrize("manner", ["together", "in turn"])
def test_all_are_handed_over_at_once_and_stay_so(manner):
    learner = make(**MANNERS[manner])
    with pytest.raises(ValueError, match="`context` must be left out: these contexts are watched"):
        learner.hand_over(context="small")
    learner.hand_over()
    assert {one.playing for one in learner.diagnostics.segments} == {"robust"}
    with pytest.raises(ValueError, match="and stay handed over"):
        learner.re_arm()
    play(learner, kind, 30)
    assert learner.guarantee().valid


def test_a_game_too_short_to_insure_is_played_robustly(manner):
    learner = make(**MANNERS[manner], horizon=1)
    assert {one.playing for one in learner.diagnostics.segments} <= {"robust", "exploration"}
    assert {one.reason for one in learner.diagnostics.alarms} <= {"short"}
    assert "budget" not in learner.guarantee().terms
    play(learner, kind, 1)
    assert learner.guarantee().valid


# Snapshots.


@pytest.mark.parametrize(
    "manner, policy", [("one by one", "own"), ("together", "thompson"), ("in turn", "ucb")]
)
def test_snapshots_go_on_exactly(manner, policy):
    own = Remembers() if policy == "own" else None
    learner = make(policy=own or policy, **MANNERS[manner])
    play(learner, kind, 40)
    learner.hand_over(context="small" if manner == "one by one" else None)
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


# What is not proved, and what is refused.


def late(learner):
    first, second = learner.ask(context="small"), learner.ask(context="large")
    learner.tell(second, 0.2)
    learner.tell(first, 0.3)


def at_once(learner):
    batch = learner.ask(4, context=["small", "large", "small", "medium"])
    assert batch.index.shape == batch.probability.shape == (4,)
    learner.tell(batch, [0.1, 0.2, 0.3, 0.4])


def never_told(learner):
    assert learner.forget(learner.ask(context="small")) == 1


@pytest.mark.parametrize(
    "how, remark, count",
    [
        (late, "contexts after", 1),
        (at_once, "contexts at once", 4),
        (never_told, "contexts missing", 1),
    ],
)
def test_what_is_not_proved_is_played_and_named(how, remark, count):
    learner = make()
    how(learner)
    play(learner, kind, 20)
    assert remarks(learner.guarantee())[remark] == {"count": count}
    assert not learner.guarantee().proved


def test_what_is_for_learners_without_contexts_is_refused():
    learner = make()
    with pytest.raises(NoDistribution, match="distribution_for"):
        _ = learner.distribution
    with pytest.raises(ValueError, match="`allowed` must be left out"):
        learner.ask(context="small", allowed=[0, 1])
    with pytest.raises(ValueError, match="`contexts` must be left out where actions come and go"):
        learner.withdraw(2)
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
        ({"horizon": None}, "`horizon` must be a number of rounds with several contexts, got None"),
        ({"delay": 3}, "`delay` must be 0 with several contexts, got 3"),
        ({"hold": 3}, "`hold` must be 0 with several contexts, got 3"),
        ({"absent": [1]}, "`contexts` must be left out where actions come and go"),
        ({"batch": 4}, "`batch` must be 'auto' or 1 with several contexts, got 4"),
        ({"robust_kernel": "any"}, "`robust_kernel` must be None with several contexts"),
        ({"shares": {0: (0.1, 0.5)}}, "`shares` must be None"),
        ({"loss_range": "learn"}, "`loss_range` must be an interval"),
        ({"ridge": 0.1}, "`ridge` must be 'auto' or 0 with several contexts, got 0.1"),
        ({"contexts": ["a", "b"]}, "`contexts` must be Contexts, got"),
        ({"actions": kl.Box([0.0], [1.0])}, "`actions` must be Points with several contexts"),
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


@pytest.mark.parametrize("contexts", [SEGMENTS, ANY_ORDER])
def test_one_action_costs_nothing(contexts):
    learner = make(contexts, actions=kl.Points([[0.5]]))
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
    learner = make(**ONE_BY_ONE)
    play(learner, kind, 200)
    seen = learner.diagnostics
    assert sum(one.rounds for one in seen.segments) == seen.rounds == seen.heard == 200
    assert sum(one.budget for one in seen.segments) == pytest.approx(seen.budget)
    assert seen.estimated_losses.shape == (C, K)
    text = str(seen)
    assert text.startswith("3 contexts, 0 of them handed over; 200 rounds, 0 losses outstanding")
    assert "small: ucb plays" in text
    assert json.dumps(text)


@pytest.mark.parametrize("share", [1e-4, 1e-9])
def test_rare_contexts_explore_for_ever(share):
    rare = kl.Contexts(["often", "never"], weights=[1 - share, share])
    learner = make(rare, premium=4.0, horizon=5000, context_kernel=kl.White())
    seen = learner.diagnostics.segments
    assert [one.playing for one in seen] == ["ucb", "exploration"]
    assert seen[1].exploration == 1.0
    p = learner.distribution_for("never")
    assert p.max() < 0.9
    for _ in range(30):
        learner.tell(learner.ask(context="never"), 1.0)
    assert learner.diagnostics.alarms == ()
