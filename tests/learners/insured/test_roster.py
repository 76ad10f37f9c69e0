"""Actions that are added and withdrawn in the middle of a game (theory F5, Section 8)."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp

import koloss as kl
from koloss.errors import PolicyError
from koloss.learners.bandit.subsets import Totals, subset_of
from koloss.learners.insured.account import Account
from tests.learners.insured.games import Always, Calls, make
from tests.learners.insured.inside import digest, is_robust, resumed
from tests.learners.insured.test_account import HOSTILE, TELLING, HostilePath
from tests.support import inside
from tests.support.clauses import marks, remarks
from tests.support.copies import fresh_copy

ROUNDING = 1e-9
POINTS = kl.Points(np.random.default_rng(5).random((12, 2)))
N = len(POINTS)


PLAIN = (int, float, str, type(None))
BUILT = {}


def game(**settings):
    """A learner that has played nothing yet; built once where its settings are plain."""
    settings = {"horizon": 2000, "rng": 0, **settings}
    if not all(isinstance(value, PLAIN) for value in settings.values()):
        return make(POINTS, kl.Gaussian(0.5), **settings)
    key = repr(sorted(settings.items()))
    if key not in BUILT:
        BUILT[key] = make(POINTS, kl.Gaussian(0.5), **settings)
    return fresh_copy(BUILT[key])


def shuffled(rng, rows, least=1, most=None):
    """Some of the rows."""
    most = len(rows) if most is None else most
    return rng.permutation(rows)[: rng.integers(least, most + 1)]


def change(learner, rng):
    """Add or withdraw something at random."""
    there, gone = np.flatnonzero(learner.available), np.flatnonzero(~learner.available)
    if len(there) > 1 and (not len(gone) or rng.random() < 0.5):
        learner.withdraw(shuffled(rng, there, most=len(there) - 1))
    else:
        learner.add(shuffled(rng, gone))


# The account: the promise on every path, whatever comes and goes.


class Comings(HostilePath):
    """A path on which actions come and go."""

    def change(self):
        if self.rng.random() < 0.8:
            return
        there, absent = np.flatnonzero(self.there), np.flatnonzero(~self.there)
        added = shuffled(self.rng, absent, 0)
        gone = shuffled(self.rng, there, 0, len(there) - 1 + (len(added) > 0))
        for mask in (self.there, *(counted for *_, counted in self.pending)):
            mask[gone] = False  # one that comes back is another
        self.there[added], self.total[added] = True, 0.0
        self.era += 1
        self.account.offer(self.there.copy(), added, self.era)
        self.check()

    def weight(self, k, era, counted):
        weight = super().weight(k, era, counted)
        limit = self.budget + self.overdraft - (self.outstanding() - 1)
        room = np.minimum(np.maximum(self.budget, self.total + 1), limit) - 1 - self.total
        fits = weight * self.reach(k) <= np.maximum(room, 0) + 1e-7
        assert fits[counted].all()  # (ii), asked of those it counts for
        return weight


@settings(max_examples=50)
@given(telling=st.sampled_from(sorted(TELLING)), **HOSTILE)
def test_the_promise_is_kept_whatever_comes_and_goes(telling, seed, budget, overdraft, kind):
    path = Comings(seed, budget, overdraft, telling, "together", rounds=25, actions=4)
    assert path.play(kind) >= -ROUNDING


class OneCount(Account):
    """Wrong: an action that is added begins at zero, and all rounds that are open count for it."""

    def offer(self, offered, added, era):
        self.offered = offered
        self.total[added] = 0.0


def low_state(account_type):
    """Much was gained, and as many rounds are open as that allows: Λ = -500, C = 0, O = D + 400."""
    account, budget = account_type(2), 30.0
    account.offer(np.array([True, False]), np.zeros(0, dtype=int), 1)
    account.total[0] = -500.0
    account.draw(int(budget) + 400)
    assert account.holds(budget, 0)
    assert account.may_draw(budget, 0)
    account.offer(np.array([True, True]), np.array([1]), 2)
    return account, budget


def test_an_action_that_is_added_does_not_count_the_rounds_that_are_open():
    account, budget = low_state(Account)
    assert account.holds(budget, 0)
    assert account.reserved == 0  # of the action that is new; that of the other is -500 + 430
    assert account.may_draw(budget, 0)
    account.enter(0.5, None, 0.0, era=1)
    assert account.total.tolist() == [-499, 0]
    account.draw()
    assert account.reserved == 1


def test_one_count_for_all_breaks_the_promise():
    account, budget = low_state(OneCount)
    assert account.reserved == budget + 400
    assert not account.holds(budget, 0)


class CountsAll(Account):
    """Wrong: rounds drawn before an action was added are entered for it as well."""

    def counted(self, era):
        return self.there


def expected_account(account_type, order, q):
    """E[Λ(1) + O(1)] where arm 1 is added after the first of two rounds, over the coin of the second, which costs 1 - q."""
    expectation = 0.0
    for action, chance in enumerate((1 - q, q)):
        account, y = account_type(2), (0.5, -0.5)[action]
        account.offer(np.array([True, False]), np.zeros(0, dtype=int), 1)
        account.draw()
        account.offer(np.array([True, True]), np.array([1]), 2)
        account.draw()
        second = np.zeros(2)
        second[action] = y / (1 - q, q)[action]
        # Nothing was known of arm 1 in the first round, in which arm 0 lost -1/2, but a prediction of 1/2.
        items = {1: (-0.5, np.array([-0.5, 0.5]), 1.0), 2: (y, second, 1.0)}
        for era in order:
            account.enter(*items[era], era=era)
        expectation += chance * (account.total[1] + account.outstanding - account.before[1])
    return expectation


@pytest.mark.parametrize("order", [(1, 2), (2, 1), (2,), (1,)])
@pytest.mark.parametrize("q", [0.05, 0.5])
def test_the_account_of_an_action_is_its_regret_from_when_it_was_added(order, q):
    expected = expected_account(Account, order, q)
    assert expected == pytest.approx(1 - q if 2 in order else 1)  # what is open counts 1
    assert expected >= 1 - q - ROUNDING
    if order == (1, 2):
        assert expected_account(CountsAll, order, q) < 1 - q - 0.9


# The robust learner: a dense computation with the mix losses of all.


class Dense:
    """Exponential weights over specialists, from all of their losses: N sums, pseudo-inverses, a mix loss for every item."""

    def __init__(self, learner):
        self.learner, self.engine = learner, learner.robust
        self.sums = np.zeros(N)
        self.there = learner.available
        self.born, self.era = np.zeros(N, dtype=int), 0
        self.items, self.eta = {}, None

    def change(self):
        before, self.there = self.there, self.learner.available
        self.era += 1
        added = self.there & ~before
        eta = inside.robust(self.learner).exp2.rates_now()[0] if self.eta is None else self.eta
        begin = -(logsumexp(-eta * self.sums) - math.log(N)) / eta
        self.born[added], self.sums[added] = self.era, begin

    def expected(self):
        exp2 = inside.robust(self.learner).exp2
        eta, _ = exp2.rates_now()
        engine = exp2.engine if self.there.all() else subset_of(exp2.engine, self.there).engine
        gamma = engine.rates.exploration or engine.rates_at(exp2.made + 1)[1]
        logs = np.where(self.there, -eta * self.sums, -np.inf)
        return (1 - gamma) * np.exp(logs - logsumexp(logs)) + gamma * engine.weights

    def drawn(self, decision):
        epoch = inside.robust(self.learner).exp2.epoch
        self.eta = epoch.eta
        self.items[decision.id] = (epoch.law.p.copy(), epoch.weight, self.there.copy(), self.era)

    def estimates(self, p, there, index, loss):
        """x - β of those that were there, and NaN elsewhere."""
        phi, columns = self.engine.features[there], self.engine.columns
        penalty = 0.0 if columns is None else columns @ columns.T
        covariance = phi.T * p[there] @ phi
        inverse = np.linalg.pinv(covariance + penalty, rcond=1e-13, hermitian=True)
        x = np.full(N, np.nan)
        x[there] = phi @ inverse @ self.engine.features[index] * (loss - self.engine.center)
        problem = self.engine.problem
        if problem.bonus:
            s, e = (
                np.sqrt(np.einsum("ij,jk,ik->i", phi @ inverse, middle, phi @ inverse).clip(0))
                for middle in (covariance, penalty)
            )
            x[there] -= problem.bias * e + problem.epsilon * s
        return x

    def hear(self, decision, loss, eta):
        p, weight, there, era = self.items.pop(decision.id)
        x = weight * self.estimates(p, there, decision.index, loss)
        awake = there & (self.born <= era)
        mixed = 0.0
        if awake.any():
            logs = -eta * self.sums[awake]
            mixed = -(logsumexp(logs - eta * x[awake]) - logsumexp(logs)) / eta
        self.sums = np.where(awake, self.sums + np.nan_to_num(x), self.sums + mixed)


def robust_game(**settings):
    learner = game(batch=1, **settings)
    learner.pause()
    return learner


def difference_to_dense(learner, seed, latest=12, rounds=60):
    """Largest error of the law that is played, with changes and late losses at random; losses heard across a change."""
    rng, dense, pending, worst, across = np.random.default_rng(seed), Dense(learner), [], 0.0, 0
    for t in range(rounds):
        if rng.random() < 0.2:
            change(learner, rng)
            dense.change()
        law = learner.distribution
        worst = max(worst, np.abs(law - dense.expected()).max())
        assert not law[~learner.available].any()
        decision = learner.ask()
        dense.drawn(decision)
        pending.append((t + int(rng.integers(latest)), decision))
        for item in [item for item in pending if item[0] <= t]:
            loss = float(rng.random() * (item[1].index % 3) / 2)
            exp2 = inside.robust(learner).exp2
            eta = exp2.rates_now()[0] if exp2.epoch is None else exp2.epoch.eta
            across += dense.items[item[1].id][-1] < dense.era
            dense.hear(item[1], loss, eta)
            learner.tell(item[1], loss)
            pending.remove(item)
    assert is_robust(learner)
    return worst, across


@pytest.mark.parametrize("absent", [(), (0, 3, 4, 11)], ids=["all there", "some absent"])
@pytest.mark.parametrize("horizon", [200, None], ids=["horizon", "anytime"])
@pytest.mark.parametrize("ridge", [0.0, 0.01])
def test_specialists_are_the_dense_computation(ridge, horizon, absent):
    worst, across = difference_to_dense(robust_game(ridge=ridge, horizon=horizon, absent=absent), 1)
    assert worst < 1e-7
    assert across > 3


@pytest.mark.parametrize("wrong", ["begins at zero", "is awake before it is added"])
def test_other_beginnings_are_not_the_dense_computation(wrong, monkeypatch):
    if wrong == "begins at zero":
        true = Totals.begin_anew

        def begin_anew(self, rows, *rest):
            true(self, rows, *rest)
            self.lost[rows] = 0.0

        monkeypatch.setattr(Totals, "begin_anew", begin_anew)
    else:  # then late losses of its former life count
        monkeypatch.setattr(Totals, "counted", lambda self, awake, number: awake)
    learner = robust_game(ridge=0.0, horizon=200)
    worst, _ = difference_to_dense(learner, 1)
    assert worst > 1e-4


@pytest.mark.parametrize("batch", [1, 5])
@pytest.mark.parametrize("robust", [False, True], ids=["policy", "robust"])
def test_a_loss_that_comes_after_a_change_is_as_good_as_one_before(robust, batch):
    before, after = (game(batch=batch, absent=[3, 8], ridge=0.0) for _ in range(2))
    changes = [("withdraw", [0, 1]), ("add", 3), ("withdraw", [3, 5]), ("add", [0, 1, 5])]
    for k, (method, rows) in enumerate(changes * 3):
        for learner in (before, after):
            if robust:
                learner.pause()
            decision = learner.ask()
            if learner is before:
                learner.tell(decision, (k % 3) / 2)
            getattr(learner, method)(rows)
            if learner is after:
                learner.tell(decision, (k % 3) / 2)
        np.testing.assert_allclose(after.distribution, before.distribution, atol=1e-9)
        there = before.available
        np.testing.assert_allclose(
            inside.account(after).total[there], inside.account(before).total[there], atol=1e-9
        )
    assert is_robust(after) == robust
    assert after.guarantee().proved
    assert after.guarantee().terms == before.guarantee().terms


@pytest.mark.parametrize("spoilt", ["nothing", "another decision", "the action came back"])
def test_when_a_loss_across_a_change_is_late(spoilt):
    learner = game(absent=[3])
    learner.pause()
    learner.tell(learner.ask(), 0.5)
    decision = learner.ask()
    learner.withdraw(1)
    if spoilt == "another decision":
        learner.ask()
    if spoilt == "the action came back":
        learner.add(1)
    assert learner.guarantee().proved == (spoilt == "nothing")
    learner.tell(decision, 0.5)
    assert learner.guarantee().proved == (spoilt == "nothing")


@pytest.mark.parametrize("ridge", [0.0, 0.01])
@pytest.mark.parametrize("there", [(4,), (1, 2), (0, 2, 3, 5, 8), range(11)])
def test_exploration_of_an_era_keeps_the_leverage_of_its_rate(there, ridge):
    # γ = ηLG'/κ for the design's own G': then no estimate moves a log-weight by more than κ.
    absent = [a for a in range(N) if a not in there]
    learner = robust_game(ridge=ridge, absent=absent)
    engine = subset_of(inside.robust(learner).exp2.engine, learner.available).engine
    rates = engine.rates
    phi, w = learner.robust.features[list(there)], engine.weights[list(there)]
    columns = learner.robust.columns
    penalty = 0.0 if columns is None else columns @ columns.T
    inverse = np.linalg.pinv(rates.exploration * (phi.T * w) @ phi + penalty, rcond=1e-13)
    cap = learner.robust.problem.largest_leverage(rates.learning_rate, rates.kappa)
    assert np.einsum("ij,jk,ik->i", phi, inverse, phi).max() <= 1.001 * cap
    assert rates.learning_rate == learner.robust.rates.learning_rate
    assert rates.exploration <= 1.001 * learner.robust.rates.exploration
    assert w.sum() == pytest.approx(1)


# The learner.


SETTINGS = {
    "ucb": {},
    "anytime": {"horizon": None},
    "thompson": {"policy": "thompson"},
    "uniform design": {"design": "uniform", "ridge": 0.0},
    "spanner": {"policy": "thompson", "design": "spanner", "delay": 3},
    "rough insurance": {"robust_kernel": "any"},
}


def comings(learner, seed, rounds, each=lambda learner: None, pending=None):
    """Play with changes, stops and late losses at random; what was played, and what is open."""
    rng, played = np.random.default_rng(seed), []
    pending = [] if pending is None else pending
    for t in range(rounds):
        if rng.random() < 0.1:
            change(learner, rng)
        if rng.random() < 0.05:
            rng.choice([learner.hand_over, learner.pause, learner.re_arm, learner.re_arm])()
        law = learner.distribution
        assert not law[~learner.available].any()
        assert law.sum() == pytest.approx(1)
        decisions = learner.ask(int(rng.integers(1, 4)))
        assert learner.available[decisions.index].all()
        assert learner.available[learner.recommend().index]
        str(learner.diagnostics)
        played += decisions.index.tolist()
        pending += [(t + int(rng.choice([0, 0, 1, 9, 40])), d) for d in decisions]
        for item in [item for item in pending if item[0] <= t]:
            learner.tell(item[1].id, float(0.5 + 0.5 * rng.choice([-1, 1, 0])))
            pending.remove(item)
            each(learner)
    return played, pending


@pytest.mark.slow
@pytest.mark.parametrize("seed, said", list(enumerate(SETTINGS)))
def test_only_what_is_offered_is_played_and_the_promise_is_kept(said, seed):
    def promise(learner):
        allowance, made = inside.latest_stage(learner).allowance, learner.ledger.made
        assert inside.account(learner).holds(allowance.budget(made), allowance.debt(made))

    absent = np.random.default_rng(seed).permutation(N)[: 4 * (seed % 3)].tolist()
    learner = game(absent=absent, rng=seed, **SETTINGS[said])
    comings(learner, seed, 150, promise)
    assert inside.roster(learner).changes > 5
    assert inside.robust(learner).exp2.late > 0


def test_a_learner_that_changes_nothing_plays_as_ever():
    rows = [game(absent=absent).ask(50).index.tolist() for absent in ((), [], np.zeros(0))]
    assert rows[0] == rows[1] == rows[2]
    learner, other = game(), game()
    learner.withdraw([])
    learner.add([])
    for _ in range(60):
        decision, same = learner.ask(), other.ask()
        assert decision.index == same.index
        learner.tell(decision, 0.5)
        other.tell(same, 0.5)
    assert inside.roster(learner).changes == 0
    assert inside.account(learner).offered is None
    assert learner.available.all()


def test_what_is_available():
    learner = game(absent=[3, 1])
    assert np.flatnonzero(~learner.available).tolist() == [1, 3]
    learner.available[:] = True  # a copy
    learner.add(3)
    learner.withdraw(np.array([0, 2]))
    assert np.flatnonzero(~learner.available).tolist() == [0, 1, 2]
    learner.withdraw(range(4, N))
    assert np.flatnonzero(learner.available).tolist() == [3]
    assert learner.ask().probability == pytest.approx(1)
    assert learner.recommend().index == 3
    assert set(learner.ask(20).index.tolist()) == {3}
    learner.hand_over()
    assert set(learner.ask(20).index.tolist()) == {3}


def test_late_losses_of_actions_that_are_gone_are_used():
    learner, silent = game(), game()
    for one in (learner, silent):
        decision = one.ask()
        one.withdraw(decision.index)
    before = inside.account(learner).total.copy(), inside.forecaster(learner).mean.copy()
    learner.tell(decision.id, 1.0)
    there = learner.available
    assert (inside.account(learner).total != before[0])[there].any()
    assert inside.account(learner).total[decision.index] == before[0][decision.index]
    assert (inside.forecaster(learner).mean != before[1]).any()
    assert inside.account(learner).outstanding == inside.account(silent).outstanding - 1 == 0


def test_an_action_that_comes_back_begins_anew():
    learner = game(rng=3)
    for _ in range(30):
        decision = learner.ask()
        learner.tell(decision, 0.2 + 0.05 * (decision.index % 5))
    late = learner.ask()
    assert inside.account(learner).total[4] != 0
    learner.withdraw(4)
    learner.add(4)
    assert inside.account(learner).total[4] == 0
    learner.tell(late, 0.9)  # drawn in its former life
    assert inside.account(learner).total[4] == 0
    decision = learner.ask()
    learner.tell(decision, 0.9)
    assert inside.account(learner).total[4] != 0


def test_what_the_guarantee_says():
    plain, learner = game(), game(absent=[1])
    terms = plain.guarantee().terms
    promise = learner.guarantee()
    assert promise.terms == terms
    assert marks(promise)["offered"] is None
    assert "offered" in remarks(promise)
    assert "offered" not in remarks(plain.guarantee())
    learner.add(1)
    assert learner.guarantee().terms == terms
    learner.withdraw(1)
    learner.add(1)  # nobody has played it yet
    assert learner.guarantee().terms == terms
    learner.pause()
    learner.tell(learner.ask(), 0.5)
    before = learner.guarantee().terms
    learner.withdraw(1)
    learner.add(1)  # one more to be compared with, whose weight is 1/N of all
    again = learner.guarantee().terms
    more = 1 / N / learner.robust.rates.learning_rate
    assert again["robust learner"] == pytest.approx(before["robust learner"] + more)
    assert {**again, "robust learner": 0} == {**before, "robust learner": 0}


# Bad input changes nothing.


@pytest.mark.parametrize(
    "method, rows, error, message",
    [
        ("withdraw", 12, ValueError, "rows from 0 to 11, got 12"),
        ("withdraw", [2, -1], ValueError, "rows from 0 to 11, got -1"),
        ("withdraw", [2, 2], ValueError, "must not repeat a row"),
        ("withdraw", [2, 0], ValueError, "must be available to be withdrawn, got 0, which is not"),
        ("withdraw", range(1, 12), ValueError, "must leave an action, got all 11"),
        ("withdraw", 1.5, TypeError, "must be a row or a sequence of rows, got 1.5"),
        ("withdraw", [True] * 12, TypeError, "must be a row or a sequence of rows"),
        ("withdraw", None, TypeError, "must be a row or a sequence of rows, got None"),
        ("add", 3, ValueError, "must not be available yet to be added, got 3, which is"),
        ("add", [0, 3], ValueError, "must not be available yet to be added, got 3, which is"),
        ("add", "0", TypeError, "must be a row or a sequence of rows, got '0'"),
        ("add", [[0]], TypeError, "must be a row or a sequence of rows"),
    ],
)
def test_bad_rows_change_nothing(method, rows, error, message):
    learner = game(absent=[0])
    learner.ask(3)
    before = digest(learner)
    with pytest.raises(error, match=message):
        getattr(learner, method)(rows)
    assert digest(learner) == before


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"absent": [12]}, "`absent` must be rows from 0 to 11, got 12"),
        ({"absent": [1, 1]}, "`absent` must not repeat a row"),
        ({"absent": range(12)}, "`absent` must leave an action, got all 12"),
        ({"absent": [1], "loss_range": "learn"}, "`loss_range` must be known where actions come"),
        ({"absent": [1], "shares": {0: (0.1, 1)}}, "`shares` must be left out where actions come"),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises(ValueError, match=message):
        game(**settings)


def test_where_actions_cannot_come_and_go():
    box = kl.Box([0.0], [1.0])
    with pytest.raises(
        ValueError, match="`actions` must be Points where some come and go, got a Box"
    ):
        make(box, kl.Gaussian(0.5), absent=[0])
    with pytest.raises(ValueError, match="`actions` must be Points"):
        make(box, kl.Gaussian(0.5)).withdraw(0)
    with pytest.raises(ValueError, match="`loss_range` must be known"):
        game(loss_range="learn").withdraw(0)


# A policy of the user's.


class Told(Always):
    """Is told what there is, and proposes the last of these, or fails."""

    def __init__(self, fails=False):
        super().__init__(0)
        self.masks, self.fails = [], fails

    def offered(self, mask):
        if self.fails:
            raise RuntimeError("not now")
        self.masks.append(mask.tolist())
        self.proposal = int(np.flatnonzero(mask)[-1])


def test_a_policy_is_told_what_there_is():
    policy = Told()
    learner = game(policy=policy, absent=[N - 1])
    learner.withdraw([0, 10])
    assert [np.flatnonzero(np.logical_not(mask)).tolist() for mask in policy.masks] == [
        [11],
        [0, 10, 11],
    ]
    assert learner.distribution.argmax() == 9
    again = Told()
    assert resumed(learner.state(), policy=again).distribution.argmax() == 9
    assert again.masks == policy.masks[-1:]


def test_a_policy_that_fails_to_be_told_changes_nothing():
    policy = Told()
    learner = game(policy=policy)
    before, policy.fails = digest(learner), True
    with pytest.raises(PolicyError, match="failed: Told raised RuntimeError: not now"):
        learner.withdraw(0)
    assert learner.available.all()
    assert digest(learner) == before


@pytest.mark.parametrize("proposal", [3, np.full(N, 1 / N)], ids=["a row", "a law"])
def test_a_policy_may_propose_only_what_is_offered(proposal):
    learner = game(policy=Always(proposal), absent=[3])
    with pytest.raises(PolicyError, match="must be offered, got row 3, which is not available"):
        learner.ask()
    with pytest.raises(PolicyError, match="must be offered"):
        _ = learner.distribution
    learner.add(3)
    assert learner.ask().index is not None


def test_a_proposal_that_was_looked_at_is_made_anew_if_its_action_is_gone():
    policy = Calls(lambda count: count)
    learner = game(policy=policy)
    assert learner.distribution.argmax() == 1
    learner.withdraw(5)
    assert (learner.distribution.argmax(), policy.count) == (1, 1)
    learner.withdraw(1)
    assert (learner.distribution.argmax(), policy.count) == (2, 2)


# Damaged snapshots.


# Regret against an action that was added.


def regret_from_birth(seed, begins=None, insured=False, born=1500, rounds=3000):
    """Of the robust learner against an action that is the best one from its birth on, while the others are predicted."""
    arms = kl.Points(np.arange(4.0)[:, None])
    learner = make(arms, kl.White(), horizon=rounds, absent=[3], ridge=0.0, batch=1, rng=seed)
    if not insured:
        learner.pause()
    regret = 0.0
    for t in range(rounds):
        if t == born:
            learner.add(3)
            if begins is not None:
                inside.robust(learner).exp2.totals.lost[3] = begins
        losses = np.full(4, 0.2)
        losses[np.argmax(learner.distribution[:3])] = 0.4
        losses[3] = 0.0
        decision = learner.ask()
        loss = float(losses[decision.index])
        learner.tell(decision, loss)
        if t >= born:
            regret += loss - losses[3]
    promise = learner.guarantee()
    return regret, promise.total if insured else promise.terms["robust learner"]


@pytest.mark.slow
def test_regret_against_an_action_that_was_added():
    # Over twelve seeds the regret is 99 with a deviation of 17, five of these below the bound of 187: false-alarm level 10⁻⁶.
    for insured in (False, True):
        regret, bound = regret_from_birth(0, insured=insured)
        assert regret <= bound


@pytest.mark.slow
def test_an_action_that_begins_at_zero_would_come_too_late():
    regret, bound = regret_from_birth(0, begins=0.0)
    assert regret > bound
