"""Policies of the user's: what they may propose, how they may fail, and their snapshots."""

from __future__ import annotations

import numpy as np
import pytest

import koloss as kl
from koloss.errors import PolicyError, UnknownDecision
from tests.learners.insured.games import Always, Calls, Remembers, goes_on, kind, make, play
from tests.learners.insured.inside import digest, law_of, resumed

# What they do.


def broken(method):
    class Broken(Always):
        pass

    def fail(self, *arguments):
        raise KeyError("nobody is at home")

    setattr(Broken, method, fail)
    return Broken(3)


NO_ROWS = (float("nan"), float("inf"), -1, 30, 1.5, 10**30, 10**400)
NO_NUMBERS = (None, "3", b"3", True, 1 + 2j, {"row": 3}, object(), [[1, 2], [3]])
NO_LAWS = (
    *([0.5, 0.5], np.full(31, 1 / 31), np.full((30, 1), 1 / 30)),  # of another shape
    *(np.full(30, np.nan), [None] * 30, ["a"] * 30, [10**400] * 30),
    *(np.append(np.full(29, 1.1 / 29), -0.1), np.ones(30, dtype=int), np.zeros(30)),
    *(np.full(30, 1 / 29), np.full(30, 1 / 31)),  # whose sum is not 1
)


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("proposal", [*NO_ROWS, *NO_NUMBERS, *NO_LAWS])
def test_bad_proposals_change_nothing(proposal):
    policy = Calls(lambda count: 4 if count <= 20 else proposal)
    learner = make(policy=policy)
    play(learner, kind, 20)
    before = digest(learner)
    for look in (learner.ask, lambda: learner.ask(3), lambda: learner.distribution):
        with pytest.raises(PolicyError, match="polic"):
            look()
        assert digest(learner) == before
    learner.hand_over()
    assert len(play(learner, kind, 5)) == 5
    assert learner.diagnostics.playing == "robust"
    assert learner.guarantee().valid


ROWS = (4, np.int64(4), np.uint8(4), np.array(4), 4.0)
LAW = np.eye(30)[4]
LAWS = (LAW, LAW.tolist(), tuple(LAW.tolist()), LAW.astype(int), LAW.astype(np.float32))
READ_ONLY = np.broadcast_to(1 / 30, (30,))


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("proposal", [*ROWS, *LAWS, READ_ONLY])
def test_good_proposals(proposal):
    policy = Always(proposal)
    learner = make(policy=policy)
    p = learner.distribution
    assert p.sum() == pytest.approx(1)
    assert p[4] > (0.01 if proposal is READ_ONLY else 0.5)
    played = play(learner, kind, 40)
    assert [index for index, _ in policy.heard] == played
    assert policy.heard[0][1] == kind(0)[played[0]]
    assert all(type(index) is int and type(loss) is float for index, loss in policy.heard)


@pytest.mark.parametrize("method", ["propose", "hear"])
def test_a_policy_that_fails_can_be_done_without(method):
    learner = make(policy=broken(method))
    message, waiting = rf"the policy's {method}\(\) failed: Broken raised KeyError", []
    before = digest(learner)
    if method == "propose":
        for call in (learner.ask, lambda: learner.distribution):
            with pytest.raises(PolicyError, match=message) as failure:
                call()
            assert isinstance(failure.value.__cause__, KeyError)
    else:
        waiting = [learner.ask(), learner.ask()]
        before = digest(learner)
        with pytest.raises(PolicyError, match=message):
            learner.tell(waiting[0], 0.5)
        with pytest.raises(PolicyError, match=message):
            learner.tell(waiting, [0.5, 0.5])
    assert digest(learner) == before
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

    learner = make(policy=Fussy(3))
    batch = learner.ask(4)
    with pytest.raises(PolicyError, match="too much"):
        learner.tell(batch, [0.1, 0.9, 0.2, 0.3])
    assert learner.diagnostics.heard == 1
    assert learner.diagnostics.outstanding == 3
    learner.tell(batch[2], 0.2)
    with pytest.raises(UnknownDecision, match="told already"):
        learner.tell(batch[0], 0.1)


def test_what_is_no_policy_is_refused():
    for policy, got in ((3, "int"), (None, "NoneType"), (object(), "object"), (["ucb"], "tuple")):
        with pytest.raises(TypeError, match=f"`policy` must be .*{got} without propose"):
            make(policy=policy)
    with pytest.raises(TypeError, match=r"`policy` must be .*Half without hear"):
        make(policy=type("Half", (), {"propose": lambda self: 0})())


@pytest.mark.usefixtures("patient")
def test_a_law_cannot_be_changed_afterwards():
    law = np.eye(30)[4].copy()
    learner = make(policy=Always(law))
    decision = learner.ask()
    law[:] = np.nan
    assert np.isfinite(law_of(learner, decision).distribution()).all()
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


@pytest.mark.usefixtures("patient")
def test_a_policy_hears_late_losses_and_those_explored():
    policy = Always(3)
    learner = make(policy=policy)
    decisions = [learner.ask() for _ in range(40)]
    for decision in reversed(decisions):
        learner.tell(decision, 0.25)
    assert policy.heard == [(decision.index, 0.25) for decision in reversed(decisions)]
    assert len({index for index, _ in policy.heard}) > 1


# Their snapshots.


def test_a_policy_with_a_state_goes_on_exactly(tmp_path):
    through, halves = (make(policy=Remembers(), rng=4) for _ in range(2))
    expected, played = play(through, kind, 80), play(halves, kind, 30)
    _ = halves.distribution  # a proposal that was looked at goes into the snapshot, too
    kl.save_state(tmp_path / "half.npz", halves.state())
    again = resumed(kl.load_state(tmp_path / "half.npz"), policy=(policy := Remembers()))
    assert digest(again) == digest(halves)
    assert policy.at == halves.settings.policy.at
    assert played + play(again, kind, 50) == expected


def test_a_policy_without_restore_is_taken_as_it_is():
    class Plain(Remembers):
        restore = None

    learner = make(policy=Remembers())
    play(learner, kind, 10)
    other = Plain()
    again = resumed(learner.state(), policy=other)
    assert other.at == 0
    play(again, kind, 5)


def test_a_law_that_was_looked_at_is_kept(tmp_path):
    laws = [np.eye(30)[4], np.ones(30) / 30]
    learner = make(policy=Calls(lambda count: laws[count % 2]))
    p = learner.distribution
    kl.save_state(tmp_path / "state.npz", learner.state())
    state = kl.load_state(tmp_path / "state.npz")
    again = resumed(state, policy=Always(9))
    np.testing.assert_array_equal(again.distribution, p)
    again.ask()
    assert again.distribution[9] > 0.5


def test_a_missing_policy_is_missed_when_it_is_needed():
    learner = make(policy=Always(3))
    waiting = [learner.ask(), learner.ask()]
    learner.tell(waiting[0], 0.5)
    again = resumed(learner.state())
    before = digest(again)
    assert before == digest(learner)
    message = r"from_state\(state, policy=...\) was not given the policy"
    with pytest.raises(PolicyError, match=message):
        again.ask()
    with pytest.raises(PolicyError, match=message):
        again.tell(waiting[1], 0.5)
    _ = again.diagnostics, again.guarantee(), again.recommend()
    assert digest(again) == before
    again.hand_over()
    again.tell(waiting[1], 0.5)
    play(again, kind, 10)


def test_what_is_given_for_a_policy_must_be_one():
    for bad in ([Remembers()], 3, "ucb"):
        with pytest.raises(TypeError, match="`policy` must be"):
            resumed(make(policy=Remembers()).state(), policy=bad)
    with pytest.raises(ValueError, match="`policy` must be left out for the library's 'ucb'"):
        resumed(make().state(), policy=Remembers())


def test_a_snapshot_without_its_policy_keeps_the_policys_state():
    # Read and written again, say by a tool that moves snapshots: nothing of the policy's may get lost.
    learner = make(policy=Remembers())
    play(learner, kind, 10)
    assert digest(resumed(learner.state())) == digest(learner)


def test_a_snapshot_is_a_copy_of_the_policys_state():
    class Keeps(Always):
        def state(self):
            return self.heard  # its own list, to which it goes on adding

    learner = make(policy=Keeps(3))
    play(learner, kind, 3)
    state = learner.state()
    play(learner, kind, 3)
    assert len(state["learner"]["_policy"]["UserPolicy"]["_own"]["own"]) == 3
    resumed(state, policy=Always(3))  # not damaged


def test_no_policy_is_needed_where_the_robust_learner_plays():
    learner = make(policy=Always(3))
    play(learner, kind, 5)
    learner.hand_over()
    play(learner, kind, 5)
    assert goes_on(learner)


def test_a_policy_whose_state_fails():
    learner = make(policy=broken("state"))
    with pytest.raises(PolicyError, match=r"the policy's state\(\) failed"):
        learner.state()
    state = make(policy=Remembers()).state()
    with pytest.raises(PolicyError, match=r"the policy's restore\(\) failed"):
        resumed(state, policy=broken("restore"))
