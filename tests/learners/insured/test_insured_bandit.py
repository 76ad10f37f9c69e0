"""The insured learner: estimates by enumeration, the budget on every path, alarms, policies of the user's, late losses."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest
from scipy import stats

import koloss as kl
from koloss.errors import LossOutOfBounds, PolicyError, SnapshotError, UnknownDecision
from koloss.experiments.arena.games import games
from koloss.guarantees import insured
from koloss.learners import _former as base
from koloss.learners.insured.watched import Stage

LEVEL = 1e-6
"""False-alarm level of every statistical test here; seeds are fixed."""

POINTS = kl.Points(np.random.default_rng(5).random((30, 2)))
POLICIES = ("ucb", "thompson", "optimistic")


def make(actions=POINTS, kernel=None, **settings):
    settings = {"horizon": 1000, "loss_range": (0, 1), "rng": 0} | settings
    return kl.InsuredBandit(actions, kernel or kl.Gaussian(0.4), **settings)


class Always:
    """One proposal, whatever happens; counts what it hears."""

    def __init__(self, proposal):
        self.proposal, self.heard = proposal, []

    def propose(self):
        return self.proposal

    def hear(self, index, loss):
        self.heard.append((index, loss))


class Calls:
    """Proposals made by a function of how many there were before."""

    def __init__(self, function):
        self.function, self.count = function, 0

    def propose(self):
        self.count += 1
        return self.function(self.count)

    def hear(self, index, loss):
        pass


class Remembers:
    """Plays through the rows, from where its snapshot was taken."""

    def __init__(self):
        self.at = 0

    def propose(self):
        self.at += 1
        return self.at % 30

    def hear(self, index, loss):
        self.at += index

    def state(self):
        return {"at": self.at}

    def restore(self, state):
        self.at = state["at"]


def valley(points=POINTS):
    """A smooth loss within [0.1, 0.9]."""
    X = np.asarray(points.X)
    return 0.1 + 0.8 * np.clip(np.sum((X - X[7]) ** 2, axis=1), 0, 1)


def play(learner, losses, rounds, start=0):
    """Indices that were played against losses(t), told at once."""
    played = []
    for t in range(start, start + rounds):
        decision = learner.ask()
        learner.tell(decision, float(losses(t)[decision.index]))
        played.append(decision.index)
    return played


def kind(t):
    return valley()


def worst_loss(learner, decision):
    """The loss, at an end of the range, that raises the estimated regret most."""
    low, high = learner.setup.low, learner.setup.high
    entry = learner._outstanding.get(decision.id)
    if entry is None or learner._robust is not None or entry[3] != learner._number:
        return high
    index, _, played, _ = entry
    if not played.counted:
        return high
    stage, M, k = learner._stage, played.prediction, played.estimates(index)
    after = [stage.paid + y - np.min(stage.total + M + k * (y - M[index])) for y in (-0.5, 0.5)]
    return low if after[0] > after[1] else high


# Estimates through the learner.


@pytest.mark.parametrize("policy", [*POLICIES, "own action", "own law"])
@pytest.mark.parametrize("rounds", [0, 25, 250])
def test_unbiased_by_enumeration(policy, rounds, rng):
    # Every action that the next round may draw, with its probability (with Thompson sampling: after its draw).
    own = {"own action": Always(3), "own law": Always(np.arange(30) / 435)}.get(policy, policy)
    learner = make(policy=own, early=False)
    play(learner, kind, rounds)
    decision = learner.ask()
    book = learner._outstanding[decision.id]
    p = book[2].distribution()
    assert decision.probability == pytest.approx(p[decision.index])
    losses = learner.setup.features @ rng.normal(size=learner.setup.problem.rank)
    losses = 0.5 + 0.5 * losses / np.abs(losses).max()
    state, before = learner.state(), learner._stage.total
    mean = np.zeros(30)
    for index in np.flatnonzero(p > 0):
        again = kl.InsuredBandit.from_state(state, policy=own)
        again._outstanding[decision.id] = (int(index), False, book[2], 0)
        again.tell(decision.id, float(losses[index]))
        mean += p[index] * (again._stage.total - before)
    np.testing.assert_allclose(mean, losses - 0.5, rtol=1e-7, atol=1e-8)
    if rounds == 250 and policy == "ucb":
        assert book[2].exploration.number > 1  # exploration has been designed anew


@pytest.mark.parametrize("policy", ["ucb", "optimistic", "own law"])
def test_draws_follow_the_law_that_is_announced(policy):
    own = Always(np.arange(30) / 435) if policy == "own law" else policy
    learner = make(policy=own)
    play(learner, kind, 60)
    announced = learner.distribution
    single = learner.ask()
    assert single.probability == pytest.approx(announced[single.index], rel=1e-12)
    learner.tell(single, 0.5)
    count = 20_000
    batch = learner.ask(count)
    p = learner._outstanding[int(batch.id[0])][2].distribution()
    assert p.sum() == pytest.approx(1)
    np.testing.assert_allclose(batch.probability, p[batch.index])
    found, expected = np.bincount(batch.index, minlength=30), count * p
    assert found[p == 0].sum() == 0
    rare = expected < 5
    if rare.any():
        found = np.append(found[~rare], found[rare].sum())
        expected = np.append(expected[~rare], expected[rare].sum())
    keep = expected > 0
    assert stats.chisquare(found[keep], expected[keep]).pvalue > LEVEL
    assert stats.chisquare(found[keep], np.roll(expected[keep], 1)).pvalue < LEVEL  # control


def test_the_law_of_thompson_sampling_is_near_its_draws():
    learner = make(policy="thompson", width=1.0)
    play(learner, kind, 12)
    p, state, count = learner.distribution, learner.state(), 600
    assert p.sum() == pytest.approx(1)
    found = np.zeros(30)
    for seed in range(count):
        again = kl.InsuredBandit.from_state(state)
        again._rng = np.random.default_rng(seed)
        found[again.ask().index] += 1 / count
    # 256 draws against 600: total variation of equal laws on some ten actions stays below 0.25
    assert np.abs(found - p).sum() / 2 < 0.25
    assert np.abs(np.roll(found, 3) - p).sum() / 2 > 0.25


@pytest.mark.parametrize("policy", ["ucb", "optimistic"])
def test_diagnostics_against_a_log_of_the_game(policy):
    learner = make(policy=policy, early=False, loss_range=(-1, 3))
    Phi, rho, center = learner.setup.features, 4.0, 1.0
    S, A, variance = np.zeros(30), 0.0, np.zeros(30)
    own, explored = [], []
    rng = np.random.default_rng(3)
    for _ in range(120):
        p, M = learner.distribution, (learner.diagnostics.estimated_losses - center) / rho
        M = M / max(1.0, 2 * np.abs(M).max())
        decision = learner.ask()
        (explored if learner._outstanding[decision.id][1] else own).append(decision.id)
        loss = float(-1 + 4 * valley()[decision.index] + rng.uniform(-0.3, 0.3))
        learner.tell(decision, loss)
        y = (loss - center) / rho
        k = Phi @ np.linalg.solve(Phi.T @ (p[:, None] * Phi), Phi[decision.index])
        S, A = S + M + k * (y - M[decision.index]), A + y
        variance += (k * (y - M[decision.index])) ** 2
        (explored if decision.id in explored else own)[-1] = (decision.id, loss)
    seen, best = learner.diagnostics, int(S.argmin())
    assert (seen.playing, seen.rounds, seen.heard, seen.outstanding) == (policy, 120, 120, 0)
    regret = rho * (A - S.min())
    assert seen.estimated_regret == pytest.approx(regret, rel=1e-7)
    spread = 2 * rho * math.sqrt(variance[best])
    assert seen.band == pytest.approx((regret - spread, regret + spread), rel=1e-6)
    budget = 1.25 * rho * insured.scale(learner.setup.problem, 1000)
    assert seen.budget == pytest.approx(budget)
    assert seen.distance == pytest.approx(budget - regret)
    assert seen.explored == len(explored)
    mean = np.mean([loss for _, loss in own])
    assert seen.premium == pytest.approx(sum(loss - mean for _, loss in explored))
    assert seen.alarms == ()
    assert seen.robust is None
    found = learner.recommend()
    assert found.index == np.argmin(seen.estimated_losses)
    assert found.estimated_loss == pytest.approx(seen.estimated_losses.min())


def test_exploration_is_the_smallest_that_the_rule_allows():
    # Bisection on the rule itself, with exact kernels, against the share that is played.
    learner = make(early=False)
    play(learner, kind, 200)
    stage, budget = learner._stage, learner._budget()
    assert not stage.watch.suspicious
    place, choice = stage.exploration, int(np.argmax(learner.distribution))

    def fits(gamma):
        p = gamma * place.weights
        p[choice] += 1 - gamma
        W = place.features
        k = np.abs(W @ np.linalg.inv(W.T @ (p[:, None] * W)) @ W[p > 0].T).max(axis=1)
        return stage.paid + 1 + np.max(k - stage.total) <= budget

    low, high = 1e-9, 0.5
    assert fits(high)
    for _ in range(50):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if fits(middle) else (middle, high)
    cap = place.largest / stage.cap_at(budget)
    played = learner._outstanding[learner.ask().id][2].rate
    assert max(high, cap) * (1 - 1e-6) <= played <= 1.02 * max(high, cap)


def test_diagnostics_read_like_a_report():
    learner = make(early=False)
    assert "suspicious" in str(learner.diagnostics)
    play(learner, kind, 100)
    text = str(learner.diagnostics)
    assert text.startswith("ucb plays, 100 rounds, 0 losses outstanding")
    assert "below its budget of" in text
    assert "actions at a premium of" in text
    learner.hand_over()
    play(learner, kind, 5)
    text = str(learner.diagnostics)
    assert text.startswith("robust plays, 105 rounds")
    assert "after 100 rounds the policy 'ucb' was stopped: it was told to hand over; robust" in text
    seen = learner.diagnostics
    assert seen.estimated_regret is seen.band is seen.budget is seen.distance is None
    assert seen.robust.rounds == 5
    assert not seen.suspicious


# The budget on every path.


SETTINGS = {
    "ucb": {},
    "thompson": {"policy": "thompson"},
    "optimistic": {"policy": "optimistic"},
    "anytime": {"horizon": None},
    "unshielded": {"shield": False},
    "two stages": {"policy": ["ucb", "optimistic"], "trigger": [0.5, 0.3], "premium": 0.5},
    "low rank": {"rank": 5},
    "uniform": {"exploration": "uniform"},
    "spanner": {"exploration": "spanner"},
    "thrifty": {"trigger": 0.2, "premium": 0.3},
    "short": {"horizon": 60},
}
WAYS = {
    "at once": (1, 0, False),
    "late": (1, 3, False),
    "shuffled": (1, 6, True),
    "batches": (5, 0, False),
    "batches, shuffled": (4, 6, True),
}


def hostile_game(learner, rounds, way, *, losses="worst", seed=0):
    """The largest estimated regret over the budget, and the largest rise of it over all tells."""
    count, late, shuffled = WAYS[way]
    rng, waiting, largest = np.random.default_rng(seed), [], 0.0
    for _ in range(rounds // count):
        waiting.extend([learner.ask()] if count == 1 else learner.ask(count))
        while len(waiting) > late and learner._robust is None:
            decision = waiting.pop(int(rng.integers(len(waiting))) if shuffled else 0)
            low, high = learner.setup.low, learner.setup.high
            loss = float(rng.choice([low, high]))
            if losses == "worst":
                loss = worst_loss(learner, decision)
            budget, alarms = learner.diagnostics.budget, len(learner.diagnostics.alarms)
            learner.tell(decision, loss)
            seen = learner.diagnostics
            for alarm in seen.alarms[alarms:]:
                largest = max(largest, alarm.estimated_regret / budget)
            if seen.budget is not None:
                largest = max(largest, seen.estimated_regret / seen.budget)
        if learner._robust is not None:
            break
    return largest


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("losses", ["worst", "random"])
def test_estimated_regret_never_exceeds_the_budget(name, way, losses):
    found = [
        hostile_game(
            make(early=False, loss_range=(-1, 3), rng=seed, **SETTINGS[name]),
            120,
            way,
            losses=losses,
            seed=seed,
        )
        for seed in range(2)
    ]
    assert max(found) <= 1 + 1e-9


def test_the_budget_is_nearly_used_up_somewhere():
    # So that the test above can fail: losses that are the worst, told at once.
    found = [hostile_game(make(early=False, rng=seed), 1000, "at once") for seed in range(3)]
    assert 0.9 < max(found) <= 1 + 1e-9


def test_negative_control_too_small_a_reach_exceeds_the_budget(monkeypatch):
    from koloss.learners.insured.watched import Exploration

    right = Exploration.reach
    monkeypatch.setattr(Exploration, "reach", lambda self, choice: right(self, choice) / 3)
    for seed in range(3):
        exact = make(kernel=kl.Polynomial(2), horizon=200, early=False, rng=seed)
        assert hostile_game(exact, 200, "at once") > 1


# Alarms.


@functools.cache
def arena(name):
    return games()[name]


@functools.cache
def fresh(name, **settings):
    """A snapshot of a learner for a game, so that its design is made once."""
    game = arena(name)
    points = kl.Points(np.asarray(game.points, dtype=float))
    return make(points, game.kernel, horizon=game.rounds, **settings).state()


def arena_game(name, seed, rounds=None, **settings):
    """The learner after a game of the arena, and its regret."""
    game = arena(name)
    learner = kl.InsuredBandit.from_state(fresh(name, **settings))
    learner._rng = np.random.default_rng(seed)
    adversary, paid, total = game.make(seed), 0.0, 0.0
    for t in range(rounds or game.rounds):
        losses = adversary(t, learner)
        decision = learner.ask()
        learner.tell(decision, float(losses[decision.index]))
        paid, total = paid + losses[decision.index], total + losses
    return learner, paid - total.min()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["stationary", "switch", "abrupt"])
def test_no_alarm_in_kind_weather(name):
    for seed in range(20):
        learner, _ = arena_game(name, seed)
        assert learner.diagnostics.alarms == (), seed
        assert learner.diagnostics.playing == "ucb"


def test_a_predicting_adversary_is_found_out():
    for seed in range(20):
        learner, regret = arena_game("predictive", seed, 700)
        (alarm,) = learner.diagnostics.alarms
        assert alarm.round < 600
        assert alarm.reason in ("evidence", "budget")
        assert regret <= learner.guarantee(rounds=700).total
        assert regret < 300  # four fifths of 700 for GP-UCB alone


@pytest.mark.parametrize("early", [True, False])
def test_a_terrible_policy_is_stopped(early):
    # Always the worst of four unrelated actions; the bound is informative here.
    arms = kl.Points(np.eye(4))
    losses = np.array([0.0, 0.5, 0.5, 1.0])
    regrets = []
    for seed in range(5):
        learner = make(
            arms, kl.Linear(), horizon=3000, policy=Always(3), early=early, rng=seed, batch=1
        )
        played = play(learner, lambda t: losses, 3000)
        (alarm,) = learner.diagnostics.alarms
        assert alarm.policy == "own"
        assert alarm.reason == ("evidence" if early else "budget")
        regrets.append(losses[played].sum())
        assert regrets[-1] <= learner.guarantee().total
    assert learner.guarantee().informative
    # Negative control: without insurance it would have been 3,000.
    assert max(regrets) < 1000


def test_evidence_can_be_left_out():
    arms, losses = kl.Points(np.eye(4)), np.array([0.0, 0.5, 0.5, 1.0])
    rounds = {}
    for early in (True, False):
        learner = make(arms, kl.Linear(), horizon=3000, policy=Always(3), early=early)
        play(learner, lambda t: losses, 3000)
        rounds[early] = learner.diagnostics.alarms[0].round
    assert rounds[True] < rounds[False]


def test_stages_follow_each_other():
    bad, worse = Always(3), Always(2)
    arms, losses = kl.Points(np.eye(4)), np.array([0.0, 0.2, 0.9, 1.0])
    learner = make(
        arms, kl.Linear(), horizon=4000, policy=[bad, "optimistic", worse], trigger=[0.2, 0.2, 0.3]
    )
    play(learner, lambda t: losses, 300)
    assert learner.diagnostics.playing == "optimistic"
    assert learner.diagnostics.alarms[0].successor == "optimistic"
    learner.hand_over()
    play(learner, lambda t: losses, 1000)
    alarms = learner.diagnostics.alarms
    assert [alarm.policy for alarm in alarms] == ["own", "optimistic", "own"]
    assert alarms[1].reason == "operator"
    assert alarms[-1].successor == "robust"
    assert len(worse.heard) > 0
    assert learner.guarantee().terms["budget"] == pytest.approx(
        (0.95 + 0.95 + 1.05) * insured.scale(learner.setup.problem, 4000)
    )


# The worst case.


def colluding(t):
    """The best action for a while, then the worst one: estimates look good for long."""
    return 0 if t <= 150 else 1


WORST = {
    "fixed": lambda t, player: 1,
    "switch": lambda t, player: 0 if t < 150 else 1,
    "alternating": lambda t, player: t % 2,
    "predictive": lambda t, player: int(np.argmax(player.distribution)),
    "lure": lambda t, player: -1 - int(np.argmin(player.distribution)),
}
"""Where the loss is 1, the others being 0; of lure: where it is 0, the others being 1."""

PLAYERS = {
    "ucb": lambda N: "ucb",
    "thompson": lambda N: "thompson",
    "optimistic": lambda N: "optimistic",
    "worst": lambda N: Always(1),
    "colluding": lambda N: Calls(colluding),
    "uniform": lambda N: Always(np.ones(N) / N),
}
TERMS = {
    "default": {},
    "patient": {"early": False},
    "unshielded": {"early": False, "shield": False},
    "generous": {"early": False, "trigger": 1.0, "premium": 1.0},
    "anytime": {"early": False, "horizon": None},
}
CASES = [(player, "patient") for player in PLAYERS] + [
    (player, terms) for player in ("ucb", "colluding") for terms in TERMS if terms != "patient"
]
ROUNDS, SEEDS = 250, 3


def regrets_of_game(learner, place, rounds=ROUNDS):
    """Against every action."""
    N, paid, total = len(learner.actions), 0.0, 0.0
    for t in range(rounds):
        at = place(t, learner)
        losses = np.eye(N)[at] if at >= 0 else 1 - np.eye(N)[-1 - at]
        decision = learner.ask()
        learner.tell(decision, float(losses[decision.index]))
        paid, total = paid + losses[decision.index], total + losses
    return paid - total


def mean_regret(player, terms, game, arms):
    """Of a few games, against the best fixed action, its standard error, and the bound."""
    settings = {"horizon": ROUNDS, "batch": 1} | TERMS[terms]
    state = make(
        kl.Points(np.eye(arms)), kl.Linear(), policy=PLAYERS[player](arms), **settings
    ).state()
    found = []
    for seed in range(SEEDS):
        learner = kl.InsuredBandit.from_state(state, policy=PLAYERS[player](arms))
        learner._rng = np.random.default_rng(seed)
        found.append(regrets_of_game(learner, WORST[game]))
    mean, error = np.mean(found, axis=0), np.std(found, axis=0, ddof=1) / math.sqrt(SEEDS)
    best = int(mean.argmax())
    return mean[best], error[best], learner.guarantee(rounds=ROUNDS)


@pytest.mark.parametrize("arms", [2, 4])
@pytest.mark.parametrize("player, terms", CASES)
def test_bound_holds_in_the_worst_case(player, terms, arms):
    # Arms that have nothing in common, so that the bound is informative. It is about the regret in the mean: means of
    # 3 games. With 12 games each of 300 rounds, the largest ratio was 0.77 ± 0.03 (the worst action, a fixed loss, two arms).
    for game in WORST if terms == "patient" else ("fixed", "predictive", "lure"):
        mean, error, promise = mean_regret(player, terms, game, arms)
        assert promise.valid
        assert promise.informative or terms in ("generous", "anytime")
        assert mean <= promise.total, game
        assert error <= promise.total / 3, game


def test_the_worst_case_is_not_far_from_the_bound():
    mean, _, promise = mean_regret("worst", "patient", "fixed", 2)
    assert mean > 0.6 * promise.total


def test_negative_control_a_policy_without_insurance_exceeds_the_bound(monkeypatch):
    monkeypatch.setattr(Stage, "rate_needed", lambda self, choice, budget, place=None: 0.01)
    learner = make(kl.Points(np.eye(2)), kl.Linear(), horizon=ROUNDS, policy=Always(1), early=False)
    assert regrets_of_game(learner, WORST["fixed"]).max() > learner.guarantee().total


# Policies of the user's.


def broken(method):
    class Broken(Always):
        pass

    def fail(self, *arguments):
        raise KeyError("nobody is at home")

    setattr(Broken, method, fail)
    return Broken(3)


PROPOSALS = {
    "nan": float("nan"),
    "infinite": float("inf"),
    "below": -1,
    "above": 30,
    "between": 1.5,
    "nothing": None,
    "text": "3",
    "bytes": b"3",
    "truth": True,
    "complex": 1 + 2j,
    "huge": 10**30,
    "beyond floats": 10**400,
    "mapping": {"row": 3},
    "object": object(),
    "short law": [0.5, 0.5],
    "long law": np.full(31, 1 / 31),
    "column": np.full((30, 1), 1 / 30),
    "ragged": [[1, 2], [3]],
    "law of nan": np.full(30, np.nan),
    "law of nothing": [None] * 30,
    "law of text": ["a"] * 30,
    "law of huge integers": [10**400] * 30,
    "negative law": np.append(np.full(29, 1.1 / 29), -0.1),
    "law above one": np.full(30, 1 / 29),
    "law below one": np.full(30, 1 / 31),
    "law of ones": np.ones(30, dtype=int),
    "law of zeros": np.zeros(30),
}


@pytest.mark.parametrize("name", PROPOSALS)
def test_bad_proposals_change_nothing(name):
    policy = Calls(lambda count: 4 if count <= 20 else PROPOSALS[name])
    learner = make(policy=policy, early=False)
    play(learner, kind, 20)
    before = learner.state()["digest"]
    for look in (learner.ask, lambda: learner.ask(3), lambda: learner.distribution):
        with pytest.raises(PolicyError, match="polic"):
            look()
        assert learner.state()["digest"] == before
    learner.hand_over()
    assert len(play(learner, kind, 30)) == 30
    assert learner.diagnostics.playing == "robust"
    assert learner.guarantee().valid


GOOD = {
    "integer": 4,
    "numpy integer": np.int64(4),
    "small integer": np.uint8(4),
    "no dimensions": np.array(4),
    "whole float": 4.0,
    "law": np.eye(30)[4],
    "list": np.eye(30)[4].tolist(),
    "tuple": tuple(np.eye(30)[4].tolist()),
    "law of integers": np.eye(30, dtype=int)[4],
    "single precision": np.eye(30, dtype=np.float32)[4],
    "read-only": np.broadcast_to(1 / 30, (30,)),
}


@pytest.mark.parametrize("name", GOOD)
def test_good_proposals(name):
    policy = Always(GOOD[name])
    learner = make(policy=policy, early=False)
    p = learner.distribution
    assert p.sum() == pytest.approx(1)
    assert p[4] > (0.5 if name != "read-only" else 0.01)
    played = play(learner, kind, 40)
    assert [index for index, _ in policy.heard] == played
    assert policy.heard[0][1] == valley()[played[0]]
    assert all(type(index) is int and type(loss) is float for index, loss in policy.heard)


@pytest.mark.parametrize("method", ["propose", "hear"])
def test_a_policy_that_fails_can_be_done_without(method):
    learner = make(policy=broken(method))
    message = rf"the policy's {method}\(\) failed: Broken raised KeyError"
    before = learner.state()["digest"]
    if method == "propose":
        for call in (learner.ask, lambda: learner.distribution):
            with pytest.raises(PolicyError, match=message) as failure:
                call()
            assert isinstance(failure.value.__cause__, KeyError)
        assert learner.state()["digest"] == before
        waiting = []
    else:
        waiting = [learner.ask(), learner.ask()]
        before = learner.state()["digest"]
        with pytest.raises(PolicyError, match=message):
            learner.tell(waiting[0], 0.5)
        with pytest.raises(PolicyError, match=message):
            learner.tell(waiting, [0.5, 0.5])
        assert learner.state()["digest"] == before
    learner.hand_over()
    for decision in waiting:
        learner.tell(decision, 0.5)
    play(learner, kind, 20)
    assert learner.diagnostics.outstanding == 0


def test_losses_before_the_one_that_failed_have_been_told():
    class Fussy(Always):
        def hear(self, index, loss):
            if loss > 0.8:
                raise ValueError("too much")
            super().hear(index, loss)

    policy = Fussy(3)
    learner = make(policy=policy)
    batch = learner.ask(4)
    with pytest.raises(PolicyError, match="too much"):
        learner.tell(batch, [0.1, 0.9, 0.2, 0.3])
    assert learner.diagnostics.heard == 1
    assert learner.diagnostics.outstanding == 3
    learner.tell(batch[2], 0.2)
    with pytest.raises(UnknownDecision, match="told already"):
        learner.tell(batch[0], 0.1)


@pytest.mark.parametrize(
    "policy, got",
    [
        (3, "int without propose"),
        (None, "NoneType without propose"),
        (object(), "object without propose"),
        (type("Half", (), {"propose": lambda self: 0})(), "Half without hear"),
        (["ucb", 7], "int without propose"),
    ],
)
def test_what_is_no_policy_is_refused(policy, got):
    with pytest.raises(TypeError, match=f"`policy` must be .*{got}"):
        make(policy=policy)


def test_a_law_cannot_be_changed_afterwards():
    law = np.eye(30)[4].copy()
    learner = make(policy=Always(law), early=False)
    decision = learner.ask()
    law[:] = np.nan
    assert np.isfinite(learner._outstanding[decision.id][2].distribution()).all()
    learner.tell(decision, 0.5)
    assert np.isfinite(learner.diagnostics.estimated_regret)


def test_looking_at_the_distribution_asks_a_policy_once():
    policy = Calls(lambda count: count % 30)
    learner = make(policy=policy)
    first, again = learner.distribution, learner.distribution
    np.testing.assert_array_equal(first, again)
    learner.ask()
    assert policy.count == 1
    learner.ask()
    assert policy.count == 2


def test_a_policy_hears_late_losses_and_those_explored():
    policy = Always(3)
    learner = make(policy=policy, early=False)
    decisions = [learner.ask() for _ in range(40)]
    for decision in reversed(decisions):
        learner.tell(decision, 0.25)
    assert policy.heard == [(decision.index, 0.25) for decision in reversed(decisions)]
    assert len({index for index, _ in policy.heard}) > 1


# Snapshots of policies.


def test_a_policy_with_a_state_goes_on_exactly(tmp_path):
    through, halves = make(policy=Remembers(), rng=4), make(policy=Remembers(), rng=4)
    expected = play(through, kind, 80)
    found = play(halves, kind, 30)
    _ = halves.distribution  # a proposal that was looked at goes into the snapshot, too
    base.save_state(tmp_path / "half.npz", halves.state())
    again = kl.InsuredBandit.from_state(
        base.load_state(tmp_path / "half.npz"), policy=(policy := Remembers())
    )
    assert again.state()["digest"] == halves.state()["digest"]
    assert policy.at == halves._policies[0].policy.at
    assert found + play(again, kind, 50) == expected


def test_a_policy_without_restore_is_taken_as_it_is():
    class Plain(Remembers):
        restore = None

    learner = make(policy=Remembers())
    play(learner, kind, 10)
    other = Plain()
    again = kl.InsuredBandit.from_state(learner.state(), policy=other)
    assert other.at == 0
    play(again, kind, 5)


def test_a_law_that_was_looked_at_is_kept(tmp_path):
    laws = [np.eye(30)[4], np.ones(30) / 30]
    learner = make(policy=Calls(lambda count: laws[count % 2]))
    p = learner.distribution
    base.save_state(tmp_path / "state.npz", learner.state())
    state = base.load_state(tmp_path / "state.npz")
    again = kl.InsuredBandit.from_state(state, policy=Always(9))
    np.testing.assert_array_equal(again.distribution, p)
    again.ask()
    assert again.distribution[9] > 0.5


def test_a_missing_policy_is_missed_when_it_is_needed():
    learner = make(policy=Always(3))
    waiting = [learner.ask(), learner.ask()]
    learner.tell(waiting[0], 0.5)
    again = kl.InsuredBandit.from_state(learner.state())
    before = again.state()["digest"]
    assert before == learner.state()["digest"]
    message = r"from_state\(state, policy=...\) was not given the policy"
    with pytest.raises(PolicyError, match=message):
        again.ask()
    with pytest.raises(PolicyError, match=message):
        again.tell(waiting[1], 0.5)
    _ = again.diagnostics, again.guarantee(), again.recommend()
    assert again.state()["digest"] == before
    again.hand_over()
    again.tell(waiting[1], 0.5)
    play(again, kind, 10)


def test_a_snapshot_without_its_policy_keeps_the_policys_state():
    # Read and written again, say by a tool that moves snapshots: nothing of the policy's may get lost.
    learner = make(policy=Remembers())
    play(learner, kind, 10)
    state = learner.state()
    again = kl.InsuredBandit.from_state(state)
    assert again.state()["digest"] == state["digest"]


def test_a_snapshot_is_a_copy_of_the_policys_state():
    class Keeps(Always):
        def state(self):
            return self.heard  # its own list, to which it goes on adding

    learner = make(policy=Keeps(3))
    play(learner, kind, 3)
    state = learner.state()
    play(learner, kind, 3)
    assert len(state["policies"][0]["own"]) == 3
    kl.InsuredBandit.from_state(state, policy=Always(3))  # not damaged


def test_no_policy_is_needed_where_the_robust_learner_plays():
    learner = make(policy=Always(3))
    play(learner, kind, 5)
    learner.hand_over()
    play(learner, kind, 5)
    again = kl.InsuredBandit.from_state(learner.state())
    assert play(again, kind, 20) == play(learner, kind, 20)


def test_several_policies_come_back_in_their_places():
    one, two = Remembers(), Always(5)
    learner = make(policy=[one, "ucb", two], trigger=0.5, premium=0.5)
    play(learner, kind, 5)
    learner.hand_over()
    play(learner, kind, 5)
    state = learner.state()
    other = Remembers()
    again = kl.InsuredBandit.from_state(state, policy=[other, None, Always(5)])
    assert other.at == one.at
    learner.hand_over()
    again.hand_over()
    assert play(again, kind, 10) == play(learner, kind, 10)
    with pytest.raises(TypeError, match="`policy` must be"):
        kl.InsuredBandit.from_state(state, policy=[Remembers()])


def test_a_policy_whose_state_fails():
    learner = make(policy=broken("state"))
    with pytest.raises(PolicyError, match=r"the policy's state\(\) failed"):
        learner.state()
    state = make(policy=Remembers()).state()
    with pytest.raises(PolicyError, match=r"the policy's restore\(\) failed"):
        kl.InsuredBandit.from_state(state, policy=broken("restore"))


# Late losses, batches, handing over.


@pytest.mark.parametrize("policy", POLICIES)
def test_order_of_late_losses_does_not_matter_for_the_estimate(policy, rng):
    losses = rng.random(12)
    learners = [make(policy=policy, early=False, rng=8) for _ in range(2)]
    decisions = [[learner.ask() for _ in range(12)] for learner in learners]
    for k in range(12):
        learners[0].tell(decisions[0][k], float(losses[k]))
    for k in rng.permutation(12):
        learners[1].tell(decisions[1][k], float(losses[k]))
    assert learners[0].diagnostics.alarms == learners[1].diagnostics.alarms == ()
    found = [learner._stage.total for learner in learners]
    np.testing.assert_allclose(found[0], found[1], rtol=1e-9, atol=1e-9)


def test_told_at_once_is_told_one_by_one(rng):
    losses = rng.random(5)
    at_once, parts = make(rng=2, early=False), make(rng=2, early=False)
    at_once.tell(at_once.ask(5), losses)
    for decision, loss in zip(parts.ask(5), losses, strict=True):
        parts.tell(decision.id, float(loss))
    at_once._mark = parts._mark
    assert at_once.state()["digest"] == parts.state()["digest"]


def test_a_batch_is_drawn_from_one_law():
    learner = make(policy="thompson", width=2.0)
    play(learner, kind, 5)
    batch = learner.ask(200)
    rounds = {id(learner._outstanding[i][2]) for i in batch.id.tolist()}
    assert len(rounds) == 1
    assert batch.epoch.tolist() == [0] * 200


@pytest.mark.parametrize("count", [2, 5, 20])
def test_batches_do_not_stop_a_good_policy(count):
    # The stationary game of the arena: told one by one there is no alarm in 20 seeds.
    game = arena("stationary")
    stopped = 0
    for seed in range(4):
        learner = kl.InsuredBandit.from_state(fresh("stationary"))
        learner._rng = np.random.default_rng(seed)
        losses = game.make(seed)(0)
        for _ in range(1000 // count):
            batch = learner.ask(count)
            learner.tell(batch, losses[batch.index])
        stopped += bool(learner.diagnostics.alarms)
    assert stopped == 0


def test_late_losses_do_not_stop_a_good_policy():
    game = arena("stationary")
    for seed in range(3):
        learner = kl.InsuredBandit.from_state(fresh("stationary"))
        learner._rng = np.random.default_rng(seed)
        losses, waiting = game.make(seed)(0), []
        for _ in range(1000):
            waiting.append(learner.ask())
            if len(waiting) > 5:
                decision = waiting.pop(0)
                learner.tell(decision, float(losses[decision.index]))
        assert learner.diagnostics.alarms == ()


def test_one_outstanding_loss_does_not_stop_a_policy():
    # A small premium beside a large trigger: one budget, which has not been touched yet.
    learner = make(horizon=2000, trigger=1.2, premium=0.05)
    learner.ask()
    learner.ask()
    assert learner.diagnostics.alarms == ()


def test_losses_after_the_stage_are_counted_and_ignored():
    learner = make()
    waiting = [learner.ask() for _ in range(6)]
    learner.tell(waiting[0], 0.3)
    learner.hand_over()
    inner = learner.ask()
    theta, total = learner._robust._theta.copy(), learner._stage.total.copy()
    for decision in waiting[1:]:
        learner.tell(decision, 1.0)
    np.testing.assert_array_equal(learner._robust._theta, theta)
    np.testing.assert_array_equal(learner._stage.total, total)
    assert learner.diagnostics.heard == 6
    assert learner.diagnostics.outstanding == 1
    assert learner.guarantee().terms["unheard"] >= 5
    learner.tell(inner, 0.2)
    assert learner.diagnostics.outstanding == 0


def test_losses_of_an_earlier_stage_still_teach_the_forecaster():
    learner = make(policy=["ucb", "thompson"], trigger=0.5, premium=0.5)
    waiting = [learner.ask() for _ in range(5)]
    learner.hand_over()
    before = learner.diagnostics.estimated_losses.copy()
    learner.tell(waiting[0], 0.9)
    assert learner.diagnostics.estimated_losses[waiting[0].index] > before[waiting[0].index]
    assert learner.diagnostics.estimated_regret == 0  # of the new stage


def test_unheard_losses_are_charged_after_a_hand_over():
    learner = make(loss_range=(0, 2))
    for _ in range(7):
        learner.ask()
    assert learner.guarantee().terms["unheard"] == pytest.approx(7 * 2)
    learner.hand_over()
    assert learner.guarantee().terms["unheard"] >= 7 * 2


def test_a_late_loss_that_does_not_fit_is_charged_too(monkeypatch):
    learner = make()
    first, second = learner.ask(), learner.ask()
    learner.tell(second, 0.5)
    learner.ask()
    monkeypatch.setattr(Stage, "fits", lambda self, played, budget: False)
    learner.tell(first, 0.5)
    (alarm,) = learner.diagnostics.alarms
    assert alarm.reason == "late loss"
    # Of the stage's three decisions one has been heard.
    assert learner.guarantee().terms["unheard"] >= 2


def test_a_late_loss_that_does_not_fit_leaves_the_estimates_alone(monkeypatch):
    learner = make()
    first, second = learner.ask(), learner.ask()
    learner.tell(second, 0.5)
    before = learner._stage.total.copy()
    monkeypatch.setattr(Stage, "fits", lambda self, played, budget: False)
    learner.tell(first, 0.5)
    np.testing.assert_array_equal(learner._stage.total, before)
    assert learner.diagnostics.playing == "robust"
    assert "a late loss did not fit into the budget" in str(learner.diagnostics)


def test_ids_go_on_across_the_hand_over():
    learner = make()
    before = [learner.ask().id for _ in range(3)]
    learner.hand_over()
    single, batch = learner.ask(), learner.ask(4)
    assert before == [0, 1, 2]
    assert single.id == 3
    assert batch.id.tolist() == [4, 5, 6, 7]
    assert learner.diagnostics.rounds == 8
    assert learner.diagnostics.outstanding == 8


def test_mixed_tells_across_the_hand_over():
    learner = make(early=False)
    old = [learner.ask() for _ in range(3)]
    learner.hand_over()
    new = [learner.ask() for _ in range(3)]
    other = kl.InsuredBandit.from_state(learner.state())
    learner.tell([new[0], old[1], new[2], old[0]], [0.1, 0.2, 0.3, 0.4])
    for decision, loss in ((new[0], 0.1), (new[2], 0.3), (old[1], 0.2), (old[0], 0.4)):
        other.tell(decision, loss)
    np.testing.assert_allclose(learner._robust._theta, other._robust._theta)
    assert learner.diagnostics.outstanding == 2
    before = learner.state()["digest"]
    bad = [
        ([new[1], old[0]], [0.1, 0.2], UnknownDecision, "got 0, which was told already"),
        ([new[0], old[2]], [0.1, 0.2], UnknownDecision, "got 3, which was told already"),
        ([new[1], new[1]], [0.1, 0.2], UnknownDecision, "repeat"),
        ([old[2], old[2]], [0.1, 0.2], UnknownDecision, "repeat"),
        ([new[1], 99], [0.1, 0.2], UnknownDecision, "got 99, which was never made"),
        ([new[1], -1], [0.1, 0.2], UnknownDecision, "got -1, which was never made"),
        ([new[1], old[2]], [0.1, 1.2], LossOutOfBounds, "got 1.2"),
        ([old[2], new[1]], [0.1, -0.2], LossOutOfBounds, "got -0.2"),
        ([new[1], old[2]], [0.1], ValueError, "`loss` must have 2 entries"),
        ([new[1], old[2]], [0.1, float("nan")], ValueError, "`loss` must be finite"),
    ]
    for decisions, losses, error, message in bad:
        with pytest.raises(error, match=message):
            learner.tell(decisions, losses)
        assert learner.state()["digest"] == before
    learner.tell([old[2], new[1]], [0.0, 1.0])
    assert learner.diagnostics.outstanding == 0


def test_handing_over_twice_is_handing_over_once():
    learner = make()
    learner.hand_over()
    before = learner.state()["digest"]
    learner.hand_over()
    assert learner.state()["digest"] == before
    assert len(learner.diagnostics.alarms) == 1


def test_the_robust_learner_is_tuned_to_the_rounds_that_remain():
    learner = make(batch=1)
    play(learner, kind, 400)
    learner.hand_over()
    inner = learner._robust.setup
    alone = kl.BanditExpWeights(
        POINTS,
        kl.Gaussian(0.4),
        horizon=600,
        loss_range=(0, 1),
        rank=learner.setup.problem.rank - 1,
        batch=1,
    )
    assert inner.horizon == inner.problem.rounds == 600
    assert inner.rates.learning_rate == pytest.approx(alone.setup.rates.learning_rate, rel=1e-6)
    np.testing.assert_allclose(learner.distribution, alone.distribution, rtol=1e-5)
    assert make(horizon=None)._robust is None


def test_beyond_the_horizon_it_plays_on():
    learner = make(horizon=60)
    play(learner, kind, 70)
    learner.hand_over()
    play(learner, kind, 10)
    assert not learner.guarantee().valid


@pytest.mark.parametrize("policy", [*POLICIES, ["ucb", "optimistic"]], ids=str)
@pytest.mark.parametrize("when", ["before", "between", "after"])
def test_resume_is_exact_around_an_alarm(policy, when, tmp_path):
    settings = {"policy": policy, "early": False, "horizon": 400, "premium": 0.3, "trigger": 0.3}

    def hostile(learner, rounds):
        waiting, played = [], []
        for _ in range(rounds):
            decision = learner.ask()
            played.append(decision.index)
            waiting.append(decision)
            if len(waiting) > 2:
                first = waiting.pop(0)
                learner.tell(first, worst_loss(learner, first))
        return played

    learner = make(rng=3, **settings)
    hostile(learner, 20 if when == "before" else 50)
    if when != "before":
        learner.hand_over()
        hostile(learner, 10)
    if when == "after":
        while learner._robust is None:
            learner.hand_over()
        hostile(learner, 10)
    base.save_state(tmp_path / "state.npz", learner.state())
    again = kl.InsuredBandit.from_state(base.load_state(tmp_path / "state.npz"))
    assert again.state()["digest"] == learner.state()["digest"]
    assert hostile(again, 150) == hostile(learner, 150)
    assert again.state()["digest"] == learner.state()["digest"]
    assert again.diagnostics.alarms == learner.diagnostics.alarms


def test_rounds_of_two_stages_do_not_take_each_others_designs():
    # Both stages have redesigned, and decisions of both are outstanding.
    learner = make(policy=["ucb", "ucb"], early=False, trigger=0.5, premium=0.5)
    play(learner, kind, 120)
    first = learner.ask()
    learner.hand_over()
    play(learner, kind, 120)
    stage = learner._stage
    stage.designs += 1
    stage.exploration = stage.first.priced(stage.designs, np.linspace(1, 3, len(stage.total)))
    second = learner.ask()
    numbers = [learner._outstanding[d.id][2].exploration.number for d in (first, second)]
    assert 1 < numbers[0] < numbers[1]
    again = kl.InsuredBandit.from_state(learner.state())
    for one in (learner, again):
        one.tell(second, 0.3)
        one.tell(first, 0.9)
    np.testing.assert_array_equal(again._stage.total, learner._stage.total)
    assert again.state()["digest"] == learner.state()["digest"]


# Looking.


def look_at(learner):
    _ = learner.distribution, learner.diagnostics, learner.recommend()
    _ = learner.guarantee(), learner.probability([3])


@pytest.mark.parametrize("policy", POLICIES)
def test_looking_changes_no_game(policy):
    games = []
    for look in (False, True):
        learner = make(policy=policy, rng=3)
        played = []
        for t in range(150):
            if look and t % 3 == 0:
                look_at(learner)
            played += play(learner, kind, 1)
        games.append(played)
    assert games[0] == games[1]


@pytest.mark.parametrize("policy", POLICIES)
def test_looking_leaves_the_stage_alone(policy):
    # In the harshest of games, where exploration is designed anew time and again.
    for seed in range(3):
        learner = make(policy=policy, early=False, horizon=400, rng=seed)
        for _ in range(200):
            if learner._robust is not None:
                break
            before = learner._stage.exploration.number
            look_at(learner)
            assert learner._stage.exploration.number == before
            decision = learner.ask()
            learner.tell(decision, worst_loss(learner, decision))


def test_the_law_before_an_alarm_is_that_of_the_successor():
    found = 0
    for seed in range(6):
        learner = make(early=False, horizon=400, rng=seed, trigger=0.3, premium=0.3)
        while learner._robust is None and learner.diagnostics.rounds < 380:
            p = learner.distribution
            alarms = len(learner.diagnostics.alarms)
            decision = learner.ask()
            if len(learner.diagnostics.alarms) > alarms:
                np.testing.assert_allclose(p, learner._robust.distribution)
                assert decision.probability == pytest.approx(p[decision.index])
                assert learner.diagnostics.alarms[-1].reason == "budget"
                found += 1
                break
            learner.tell(decision, worst_loss(learner, decision))
    assert found > 0


def test_probability_of_actions():
    learner = make()
    play(learner, kind, 20)
    p = learner.distribution
    np.testing.assert_array_equal(learner.probability([3, 5]), p[[3, 5]])
    np.testing.assert_allclose(learner.probability(POINTS.X[[3]]), p[3])
    with pytest.raises(ValueError, match="`actions` must be actions in play"):
        learner.probability([[7.0, 7.0]])


def test_actions_cannot_be_changed_through_a_decision():
    for learner in (make(), kl.InsuredBandit.from_state(make().state())):
        with pytest.raises(ValueError, match="read-only"):
            learner.ask().action[0] = 7.0


# What it says of its regret.


def hold(promise):
    return {assumption.text: assumption.holds for assumption in promise.assumptions}


def test_terms_add_up_and_read_well():
    learner = make()
    promise = learner.guarantee()
    assert promise.total == pytest.approx(min(sum(promise.terms.values()), promise.trivial))
    assert promise.trivial == 1000
    assert promise.statement.startswith("Theorem I1 (shielded), then Theorem B3")
    assert {"budget", "bias", "unheard", "warm-up", "robust learner", "net"} <= set(promise.terms)
    assert promise.terms["unheard"] == promise.terms["warm-up"] == 0
    text = str(promise)
    assert text.startswith("Theorem I1 (shielded), then Theorem B3")
    assert "(budget)" in text
    assert "(robust learner)" in text
    assert "note: stopping on evidence is a heuristic" in text
    assert promise.valid
    plain = make(early=False, shield=False).guarantee()
    assert plain.statement.startswith("Theorem I1 (unshielded)")
    assert not any("heuristic" in note for note in plain.notes)


@pytest.mark.parametrize(
    "terms",
    [{}, {"trigger": 1.0, "premium": 1.0}, {"trigger": 0.25, "premium": 0.5}],
)
def test_bound_in_the_exact_case(terms):
    # ε = 0, τ ≈ 0, epochs of one round: (1 + trigger + premium) B, the robust learner's being B with κ = 2.
    points = kl.Points(np.random.default_rng(2).normal(size=(50, 3)))
    learner = make(points, kl.Linear(), horizon=20_000, batch=1, loss_range=(-1, 2), **terms)
    promise = learner.guarantee()
    m = learner.setup.problem.rank
    c = 1 + (math.e**2 - 3) / 4
    B = 3 * math.sqrt(c * m * 20_000 * math.log(50))
    share = terms.get("trigger", 0.5) + terms.get("premium", 0.75)
    assert learner.setup.problem.epsilon == 0
    assert promise.terms["bias"] == promise.terms["net"] == 0
    assert promise.terms["budget"] == pytest.approx(share * B, rel=1e-3)
    assert promise.terms["robust learner"] == pytest.approx(B, rel=2e-3)
    assert promise.total == pytest.approx((1 + share) * B, rel=2e-3)
    assert promise.informative
    assert promise.valid


def test_rounds_of_the_guarantee():
    learner = make(horizon=2000)
    whole, half = learner.guarantee(), learner.guarantee(rounds=1000)
    assert (whole.rounds, half.rounds) == (2000, 1000)
    assert half.terms["budget"] == whole.terms["budget"]  # it may be used at any time
    assert half.terms["bias"] < whole.terms["bias"]
    assert half.trivial == 1000
    assert not learner.guarantee(rounds=2001).valid
    for bad in (0, -3, 1.5, "all", True):
        with pytest.raises((TypeError, ValueError), match="`rounds` must be"):
            learner.guarantee(rounds=bad)


def test_bias_of_the_features():
    learner = make(rank=5, early=False)
    problem = learner.setup.problem
    B = insured.scale(problem, 1000)
    R = max(1.25 * B, (0.05 * B / (problem.epsilon * 1000)) ** 2)
    robust = kl.BanditExpWeights(
        POINTS, kl.Gaussian(0.4), horizon=1000, loss_range=(0, 1), rank=5
    ).guarantee()
    expected = problem.epsilon * 1000 * (1 + math.sqrt(R)) + robust.terms["bias"]
    assert learner.guarantee().terms["bias"] == pytest.approx(expected)
    # and R bounds every leverage that is played
    for _ in range(200):
        decision = learner.ask()
        if learner._robust is not None:
            break
        place = learner._outstanding[decision.id][2]
        p, W = place.distribution(), place.exploration.features
        k = np.einsum("ij,ji->i", W, np.linalg.solve(W.T @ (p[:, None] * W), W.T))
        assert k.max() <= R * (1 + 1e-9)
        learner.tell(decision, worst_loss(learner, decision))


def test_anytime_bound():
    learner = make(horizon=None)
    t0 = learner._warm_up
    assert insured.scale(learner.setup.problem, t0) * 1.25 >= 1 + 4 * learner.setup.problem.leverage
    play(learner, kind, 300)
    promise = learner.guarantee()
    assert promise.rounds == 300
    assert promise.statement == "Theorem I1 (shielded), then Theorem B4 (anytime)"
    assert promise.terms["warm-up"] == t0
    assert promise.terms["budget"] == pytest.approx(
        1.25 * insured.scale(learner.setup.problem, 300)
    )
    assert promise.valid
    assert learner.guarantee(rounds=10_000).terms["budget"] == pytest.approx(
        1.25 * insured.scale(learner.setup.problem, 10_000)
    )
    longer = make(horizon=None, batch=4).guarantee()
    assert not longer.proved


def test_rounds_on_trust_are_no_more_than_are_charged():
    learner = make(horizon=None)
    trusted = 0
    for _ in range(4 * learner._warm_up):
        decision = learner.ask()
        trusted += not learner._outstanding[decision.id][2].counted
        learner.tell(decision, 0.4)
    assert trusted == learner._warm_up == learner.guarantee().terms["warm-up"]
    assert learner.diagnostics.budget == pytest.approx(
        1.25 * insured.scale(learner.setup.problem, 4 * learner._warm_up + 1)
    )


def test_late_losses_of_rounds_on_trust_do_no_harm():
    learner = make(horizon=None, early=False)
    waiting = [learner.ask() for _ in range(learner._warm_up)]
    for t in range(10):  # heard before any of those
        play(learner, kind, 1, start=t)
    before = learner._stage.total.copy()
    for decision in waiting:
        learner.tell(decision, 1.0)
    assert learner.diagnostics.alarms == ()
    np.testing.assert_array_equal(learner._stage.total, before)
    assert learner.guarantee().terms["unheard"] >= len(waiting)


def test_delay_is_charged_and_assumed():
    learner = make(delay=3)
    promise = learner.guarantee()
    assert promise.terms["unheard"] == 3
    text = "neither losses nor when they are heard depend on actions not yet heard of"
    assert text in hold(promise)
    assert text not in hold(make().guarantee())
    assert "Theorem B3-delay" in promise.statement
    decisions = [learner.ask() for _ in range(9)]
    assert learner.guarantee().terms["unheard"] == 9
    learner.tell(decisions[0], 0.5)
    assert learner.guarantee().terms["unheard"] >= 8
    own = make(policy=Always(3), delay=2).guarantee()
    assert "the policy does not depend on actions not yet heard of" in hold(own)


def test_notes_of_the_guarantee_name_the_alarms():
    learner = make()
    play(learner, kind, 10)
    learner.hand_over()
    assert (
        "after 10 rounds the policy 'ucb' was stopped: it was told to hand over; robust plays on"
        in learner.guarantee().notes
    )


def test_more_rounds_than_the_horizon_fail():
    for hand_over in (False, True):
        learner = make(horizon=100)
        play(learner, kind, 60)
        if hand_over:
            learner.hand_over()
        play(learner, kind, 40)
        assert learner.guarantee().valid
        assert hold(learner.guarantee())["at most 100 rounds"] is True
        play(learner, kind, 1)
        assert hold(learner.guarantee())["at most 100 rounds"] is False
        assert not learner.guarantee().valid


def test_losses_that_were_checked_are_said_to_hold():
    learner = make()
    assert hold(learner.guarantee())["every loss is in [0, 1]"] is None
    play(learner, kind, 3)
    assert hold(learner.guarantee())["every loss is in [0, 1]"] is True


# Extremes and bad settings.


def test_one_action():
    for horizon in (10, None):
        learner = make(kl.Points([[1.0, 2.0]]), horizon=horizon)
        for _ in range(10):
            decision = learner.ask()
            assert (decision.index, decision.probability) == (0, 1.0)
            learner.tell(decision, 0.3)
        assert learner.guarantee().total == 0
        again = kl.InsuredBandit.from_state(learner.state())
        assert again.ask().index == 0


def test_two_actions():
    learner = make(kl.Points([[0.0], [1.0]]), horizon=500)
    losses = np.array([0.2, 0.6])
    played = play(learner, lambda t: losses, 500)
    assert np.mean(np.array(played) == 0) > 0.85


@pytest.mark.parametrize(
    "points",
    [
        [[0.0], [1.0], [1.0], [1.0]],
        [[0.3, 0.3]] * 5 + [[0.7, 0.1]],
        np.linspace(0, 1, 12)[:, None] * np.array([1.0, 2.0]),
    ],
    ids=["duplicates", "nearly one action", "collinear"],
)
@pytest.mark.parametrize("kernel", [kl.Linear(), kl.Polynomial(2), kl.Gaussian(0.5)], ids=repr)
def test_points_without_full_rank(points, kernel):
    points = kl.Points(points)
    losses = 0.1 + 0.5 * np.abs(np.asarray(points.X)[:, 0] - 0.3)
    for policy in POLICIES:
        learner = make(points, kernel, horizon=400, policy=policy)
        play(learner, lambda t: losses, 120)
        p = learner.distribution
        assert np.isfinite(p).all()
        assert p.sum() == pytest.approx(1)
        assert np.isfinite(learner.guarantee().total)
        again = kl.InsuredBandit.from_state(learner.state())
        assert play(again, lambda t: losses, 30) == play(learner, lambda t: losses, 30)


def test_duplicates_count_together():
    learner = make(kl.Points([[0.0], [1.0], [1.0]]), horizon=500)
    p = learner.distribution
    np.testing.assert_allclose(learner.probability([[1.0]]), p[1] + p[2])


def test_a_horizon_that_is_too_short_is_played_robustly():
    learner = make(horizon=5, rank=20)
    (alarm,) = learner.diagnostics.alarms
    assert (alarm.round, alarm.reason, alarm.successor) == (0, "short", "robust")
    assert "before the first round the policy 'ucb' was stopped" in str(alarm)
    assert learner.diagnostics.playing == "robust"
    robust = kl.BanditExpWeights(
        POINTS, kl.Gaussian(0.4), horizon=5, rank=20, loss_range=(0, 1)
    ).guarantee()
    assert learner.guarantee().terms == pytest.approx(dict(robust.terms))
    play(learner, kind, 5)
    # Where it ends: the budget, less 1, must exceed twice the leverage.
    for n in range(6, 12):
        learner = make(horizon=n, rank=20)
        problem = learner.setup.problem
        enough = 1.25 * insured.scale(problem, n) - 1 > 2 * problem.leverage
        assert (learner.diagnostics.playing == "ucb") == enough
    assert learner.diagnostics.playing == "ucb"


def test_losses_at_the_ends_of_their_range():
    for loss in (-1.0, 3.0):
        learner = make(loss_range=(-1, 3), early=False)
        play(learner, lambda t, loss=loss: np.full(30, loss), 150)
        assert np.isfinite(learner.diagnostics.estimated_regret)
        assert learner.diagnostics.alarms == ()


def test_units_do_not_matter():
    # Losses 4y - 2 in place of y, which is exact: the same game, all regrets four times as large.
    losses = np.round(valley() * 2**20) / 2**20
    plain, scaled = (
        make(kernel=kl.Polynomial(2), rng=6, loss_range=ends) for ends in ((0, 1), (-2, 2))
    )
    a = play(plain, lambda t: losses, 150)
    b = play(scaled, lambda t: 4 * losses - 2, 150)
    assert a == b
    one, other = plain.diagnostics, scaled.diagnostics
    assert other.estimated_regret == pytest.approx(4 * one.estimated_regret, rel=1e-6)
    assert other.budget == pytest.approx(4 * one.budget)
    assert other.premium == pytest.approx(4 * one.premium, rel=1e-6)
    np.testing.assert_allclose(other.estimated_losses, 4 * one.estimated_losses - 2, atol=1e-12)


@pytest.mark.parametrize("actions", [kl.Box([0, 0], [1, 1]), kl.Ball(2)], ids=repr)
def test_compact_sets_are_played_on_a_net(actions):
    learner = make(actions, kl.Gaussian(0.7), spacing=0.25, horizon=800)
    assert len(learner.actions) == len(actions.net(0.25))
    decision = learner.ask()
    assert np.all(actions.contains(decision.action[None]))
    learner.tell(decision, 0.5)
    assert learner.guarantee().terms["net"] > 0
    play(learner, lambda t: np.full(len(learner.actions), 0.4), 20)


def test_quadratic_losses_on_a_ball_are_played_on_a_net_too():
    learner = make(kl.Ball(2), kl.Quadratic(), horizon=2000, spacing=0.3)
    losses = 0.5 + 0.2 * np.asarray(learner.actions)[:, 0]
    play(learner, lambda t: losses, 60)
    learner.hand_over()
    play(learner, lambda t: losses, 60)
    again = kl.InsuredBandit.from_state(learner.state())
    assert play(again, lambda t: losses, 20) == play(learner, lambda t: losses, 20)


BAD = {
    "no range": ({"loss_range": None}, "`loss_range` must be .*got None"),
    "reversed range": ({"loss_range": (1, 0)}, r"`loss_range` must be .*got \(1, 0\)"),
    "empty range": ({"loss_range": (1, 1)}, "`loss_range` must be"),
    "three ends": ({"loss_range": (0, 1, 2)}, "`loss_range` must have length 2, got 3"),
    "range NaN": ({"loss_range": (0, float("nan"))}, "`loss_range` must be finite"),
    "trigger": ({"trigger": 0.0}, "`trigger` must be positive, got 0"),
    "trigger NaN": ({"trigger": float("nan")}, "`trigger` must be finite, got nan"),
    "trigger text": ({"trigger": "much"}, "`trigger` must"),
    "trigger truth": ({"trigger": True}, "`trigger` must be a number, got True"),
    "trigger nothing": ({"trigger": None}, "`trigger` must be a number, got None"),
    "trigger without dimensions": ({"trigger": np.array(-1.0)}, "`trigger` must be positive"),
    "triggers": ({"trigger": [0.5, 0.5]}, "`trigger` must have one number for each of 1 policies"),
    "premium": ({"premium": -1}, "`premium` must be positive, got -1"),
    "premiums": (
        {"policy": ["ucb", "thompson"], "premium": [0.5]},
        r"`premium` must have one number for each of 2 policies, got \[0.5\]",
    ),
    "width": ({"width": -0.1}, "`width` must be at least 0, got -0.1"),
    "width text": ({"width": "wide"}, "`width` must be a number, got 'wide'"),
    "policy": ({"policy": "greedy"}, "`policy` must be one of 'ucb', .* got 'greedy'"),
    "policies": ({"policy": []}, "`policy` must have at least one policy"),
    "policy in a list": ({"policy": ["ucb", "greedy"]}, "got 'greedy'"),
    "shield": ({"shield": 1}, "`shield` must be True or False, got 1"),
    "early": ({"early": "yes"}, "`early` must be True or False, got 'yes'"),
    "unshielded anytime": ({"shield": False, "horizon": None}, "`shield` must be True without"),
    "horizon": ({"horizon": 0}, "`horizon` must be at least 1, got 0"),
    "horizon text": ({"horizon": "long"}, "`horizon` must be an integer, got 'long'"),
    "proxy": ({"proxy": "magic"}, "`proxy` must be one of"),
    "rank": ({"rank": 0}, "`rank` must be at least 1"),
    "exploration": ({"exploration": "greedy"}, "`exploration` must be one of"),
    "batch": ({"batch": 0}, "`batch` must be at least 1"),
    "delay": ({"delay": -1}, "`delay` must be at least 0"),
    "adversary": ({"adversary": "evil"}, "`adversary` must be one of"),
    "spacing": ({"spacing": 0.1}, "`spacing` must be left out for a finite set"),
    "norm": ({"loss_norm": 0.0}, "`loss_norm` must be positive"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_settings(name):
    settings, message = BAD[name]
    with pytest.raises((TypeError, ValueError), match=message):
        make(**settings)


def test_the_range_of_losses_must_be_given():
    with pytest.raises(TypeError, match="loss_range"):
        kl.InsuredBandit(POINTS, kl.Gaussian(0.4), horizon=100)


def test_snapshots_of_other_learners_are_refused():
    other = kl.BanditExpWeights(POINTS, kl.Gaussian(0.4), horizon=100, rng=0)
    with pytest.raises(SnapshotError, match="must be a snapshot of InsuredBandit"):
        kl.InsuredBandit.from_state(other.state())
    with pytest.raises(SnapshotError, match="must be a snapshot of"):
        kl.BanditExpWeights.from_state(make().state())


def test_the_forecast_has_the_prior_of_the_kernel():
    # Features of prior covariance I: their Gram matrix is the kernel's, scaled to 1, plus a constant.
    learner = make(kl.Points(np.random.default_rng(1).random((20, 2))), kl.Polynomial(2))
    X = learner.actions
    K = kl.Polynomial(2)(X)
    F = learner._forecaster.features
    np.testing.assert_allclose(F @ F.T, K / np.diag(K).max() + 1, rtol=1e-8, atol=1e-8)
