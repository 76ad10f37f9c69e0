"""What a study promises to one caller: its decisions, values, leases, subjects and requests."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest

import koloss as kl
from koloss.errors import (
    LossOutOfBounds,
    PolicyError,
    RequestConflict,
    StudyExists,
    StudyNotFound,
    UnknownDecision,
)
from tests.support import inside
from tests.support.clauses import clause_of, marks
from tests.support.memory import MemoryStore
from tests.support.studies import Clock, Deaf, bandit, created, insured, kinds, loss_of, same

SEGMENTS = ["new", "old"]


# It is the learner.


def test_the_learner_that_was_given_is_left_alone() -> None:
    learner = bandit()
    before = learner.state()["digest"]
    study, _, _ = created(learner)
    study.tell(study.ask(3), [0.1, 0.2, 0.3])
    assert learner.state()["digest"] == before


def test_decisions_have_what_a_learner_gives_them() -> None:
    space = kl.Space(price=kl.Float(1, 2, step=0.25), colour=kl.Choice(["red", "blue"]))

    def make() -> Any:
        return kl.BanditExpWeights(space, kl.Mixed(space), horizon=100, loss_range=(0, 1), rng=0)

    study, _, _ = created(make())
    one, other = study.ask(), make().ask()
    assert one.params == other.params
    assert one.params is not None
    study.tell(one.params, 0.5)
    assert study.status().waiting == 0


def test_contexts_and_choices_are_written_down_as_they_were_given() -> None:
    study, _, _ = created(bandit(contexts=kl.Contexts(SEGMENTS, weights=[0.5, 0.5])))
    study.ask(context=np.str_("old"))
    study.ask(2, context=["new", "old"])
    said = [event.data["context"] for event in study.events() if "context" in event.data]
    assert said == ["old", ["new", "old"]]
    study, _, _ = created()
    assert study.ask(allowed=np.array([False, True, False, True, False, False])).index in (1, 3)
    assert list(study.events())[-1].data["allowed"] == [1, 3]
    with pytest.raises(ValueError, match="6 truth values"):
        study.ask(allowed=[True, False])
    with pytest.raises(TypeError, match="`context` must be numbers"):
        study.ask(context=object())
    assert kinds(study) == ["created", "asked"]


def test_events_are_plain_data_without_secrets() -> None:
    study, store, _ = created(unit="EUR", labels={"team": "shop"})
    study.tell(study.ask(), 0.5)
    first, asked, told = study.events()
    assert [event.seq for event in (first, asked, told)] == [1, 2, 3]
    assert (asked.decision, told.decision, told.data) == (0, 0, {"value": 0.5})
    assert asked.at == datetime.fromtimestamp(1e9, UTC)
    text = json.dumps([event.to_dict() for event in study.events()])
    key = store.events("prices")[0].data["settings"]["key"]
    assert key not in text
    assert "state" not in first.data
    assert first.data["settings"]["unit"] == "EUR"
    assert [event.seq for event in study.events(after=1)] == [2, 3]


def test_the_log_is_read_in_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    study, store, _ = created()
    study.ask(2500)
    sizes, read = [], store.events

    def counted(*args: Any) -> Any:
        page = read(*args)
        sizes.append(len(page))
        return page

    monkeypatch.setattr(store, "events", counted)
    assert len(list(study.events())) == 2501
    assert max(sizes) == 1000


@pytest.mark.slow
def test_a_set_that_grows_gives_the_same_answers_after_it_has_grown() -> None:
    space = kl.Space(price=kl.Float(1, 2), size=kl.Float(0, 5))
    said = {"horizon": 400, "loss_range": (0, 1), "grow": 24, "rng": 0}
    study, store, _ = created(kl.InsuredBandit(space, "auto", **said))
    first, seen = study.learner.available.sum(), []
    for k in range(80):
        seen.append(study.ask(request=f"{k}"))
        study.tell(seen[-1], abs(seen[-1].params["price"] - 1.3))
    assert max(one.index for one in seen) >= first  # points that were not there at the beginning
    other = kl.Study.open(store, "prices")
    for k, one in enumerate(seen):
        assert same(other.ask(request=f"{k}"), one)
    actions = [event.data["action"] for event in study.events() if event.kind == "asked"]
    assert actions == [one.action.tolist() for one in seen]  # which the first event does not have
    assert kl.studies.verify(store, "prices").ok


# Goals and units.


@pytest.mark.parametrize(
    "settings, goal, turned",
    [
        ({"loss_range": (0, 2)}, "maximize", lambda reward: 2 - reward),  # low + high - reward
        ({"loss_range": None, "loss_bound": 3.0}, "maximize", lambda reward: -reward),
        ({"loss_range": (0, 2), "goal": "maximize"}, None, lambda reward: reward),
    ],
)
def test_rewards_are_told_to_a_learner_in_its_way(settings: Any, goal: Any, turned: Any) -> None:
    study, _, _ = created(bandit(**settings), **({"goal": goal} if goal else {}))
    learner, rewards = bandit(**settings), [2.0, 0.5, 0.0]
    for reward in rewards:
        study.tell(study.ask(), reward)
        learner.tell(learner.ask(), turned(reward))
    assert study.settings.goal == "maximize"
    assert np.array_equal(study.learner.distribution, learner.distribution)
    told = [event.data["value"] for event in study.events() if event.kind == "told"]
    assert told == rewards
    assert study.recommend().loss == pytest.approx(turned(learner.recommend().loss))
    assert study.status().best["value"] == study.recommend().loss


def test_a_goal_is_that_of_the_learner() -> None:
    with pytest.raises(ValueError, match="`goal` must be 'maximize'"):
        created(bandit(goal="maximize"), goal="minimize")


def test_bounds_are_said_in_the_units_of_the_values() -> None:
    study, _, _ = created(bandit(loss_range=(0, 3)), goal="maximize")
    decision = study.ask()
    with pytest.raises(LossOutOfBounds, match=r"`value` must be in \[0, 3\], got 3.5"):
        study.tell(decision, 3.5)
    study, _, _ = created(bandit(loss_range=(-1, 3)), goal="maximize")
    decision = study.ask()
    study.tell(decision, -1.0)
    with pytest.raises(LossOutOfBounds, match=r"`default` must be in \[0, 1\], got 2"):
        created(lease=1.0, default=2.0)


# What is refused, and changes nothing.


@pytest.mark.parametrize(
    "said, error",
    [
        ({"goal": "win"}, "`goal` must be"),
        ({"unit": 3}, "`unit` must be text"),
        ({"lease": 0}, "`lease` must be positive"),
        ({"lease": 1e12}, "`lease` must be from a microsecond to 100 years"),
        ({"default": 0.0}, "`default` must come with a `lease`"),
        ({"release": "window"}, "`release` must come with a `lease`"),
        ({"release": "never", "lease": 1}, "`release` must be"),
        ({"labels": {"team": 3}}, "`labels` must be a mapping"),
        ({"subjects": "secret"}, "`subjects` must be"),
        ({"name": "a/b"}, "`name` must have"),
    ],
)
def test_bad_settings_are_refused(said: dict[str, Any], error: str, tmp_path: Any) -> None:
    store = kl.studies.open_store(f"sqlite:///{tmp_path}/shop.db")
    with pytest.raises((ValueError, TypeError), match=error):
        kl.Study.create(store, learner=bandit(), **{"name": "prices", **said})
    assert store.names() == []


def test_full_information_is_refused_with_a_word() -> None:
    points = kl.Points([[0.0], [1.0]])
    learner = kl.ExpWeights(points, kernel=kl.Gaussian(0.5), horizon=100)
    with pytest.raises(
        TypeError, match=r"`learner` must be one of BanditExpWeights, Insured.*numbers"
    ):
        created(learner)
    with pytest.raises(TypeError, match="`learner` must be a bandit learner, got str"):
        created("exp3")


def test_a_name_is_taken_once() -> None:
    _, store, _ = created()
    with pytest.raises(StudyExists):
        kl.Study.create(store, "prices", learner=bandit())
    with pytest.raises(StudyNotFound):
        kl.Study.open(store, "prises")


def test_what_is_refused_leaves_no_trace() -> None:
    study, _, _ = created()
    decision = study.ask()
    before = study.learner.state()["digest"]
    for wrong in (float("nan"), 2.0, "much", None, [0.1, 0.2], True):
        with pytest.raises((ValueError, TypeError)):
            study.tell(decision, wrong)
    with pytest.raises(UnknownDecision, match="never made"):
        study.tell(5, 0.5)
    with pytest.raises(UnknownDecision, match="another learner"):
        study.tell(bandit().ask(), 0.5)
    with pytest.raises(UnknownDecision, match="twice"):
        study.tell([0, 0], [0.5, 0.5])
    with pytest.raises(ValueError, match="`count`"):
        study.ask(0)
    with pytest.raises(ValueError, match="`count` must be left out beside a `subject`"):
        study.ask(2, subject="ann")
    with pytest.raises(ValueError, match="`context` must be left out"):
        study.ask(context="new")
    with pytest.raises(ValueError, match="`request` must have 1 to 200"):
        study.ask(request="")
    assert kinds(study) == ["created", "asked"]
    assert study.learner.state()["digest"] == before
    study.tell(decision, 0.5)


# Once.


def test_a_request_with_other_arguments_is_a_conflict() -> None:
    study, _, _ = created()
    one = study.ask(request="a", allowed=[0, 1])
    two = study.ask(2, request="b")
    study.tell(two, [0.1, 0.2], request="c")
    for other in (
        lambda: study.ask(request="a"),
        lambda: study.ask(request="a", allowed=[0, 2]),
        lambda: study.ask(2, request="a", allowed=[0, 1]),
        lambda: study.ask(3, request="b"),
        lambda: study.ask(request="c"),
        lambda: study.tell(one, 0.1, request="a"),
        lambda: study.tell(two, [0.1, 0.3], request="c"),
        lambda: study.tell(two[0], 0.1, request="c"),
        lambda: study.tell(two, "ab", request="c"),
        lambda: study.pause(request="a"),
    ):
        with pytest.raises(RequestConflict, match="`request` must be a new key"):
            other()
    study.tell([0, 1][:0] or two.id.tolist(), [0.1, 0.2], request="c")  # the same by ids


# Leases.


def test_what_became_of_decisions_is_counted() -> None:
    """Laws and refusals are for the machine (`test_machine.py`)."""
    study, _, clock = created(lease=timedelta(seconds=10), default=1.0)
    silent, heard = study.ask(2)
    clock.now += 9.999
    study.tell(heard, 0.5)
    assert "expired" not in kinds(study)
    clock.now += 0.001
    study.ask()
    assert kinds(study)[-2:] == ["expired", "asked"]
    study.tell(silent, 0.25)  # recorded, not used
    last = list(study.events())[-1]
    assert (last.kind, last.data) == ("told", {"value": 0.25, "used": False})
    status = study.status()
    assert (status.expired, status.defaulted, status.unused) == (1, 1, 1)
    assert (status.told, status.waiting) == (2, 1)


def test_a_default_is_a_reward_where_rewards_are_told() -> None:
    study, _, clock = created(goal="maximize", lease=10.0, default=0.0)
    study.ask()
    clock.now += 10
    study.ask()
    learner = bandit()
    learner.tell(learner.ask(), 1.0)
    learner.ask()
    assert np.array_equal(study.learner.distribution, learner.distribution)


def test_held_values_are_not_meant_by_params_again() -> None:
    space = kl.Space(colour=kl.Choice(["red"]))
    learner = kl.BanditExpWeights(space, kl.Mixed(space), horizon=50, loss_range=(0, 1), rng=0)
    study, _, _ = created(learner, lease=10.0, release="window")
    study.ask(2)
    study.tell({"colour": "red"}, 0.1)
    study.tell({"colour": "red"}, 0.2)
    told = [event.decision for event in study.events() if event.kind == "told"]
    assert told == [0, 1]


def test_the_guarantee_lists_that_delays_tell_nothing_where_no_window_makes_it_so() -> None:
    def is_listed(study: kl.Study) -> bool:
        return "told by value" in marks(study.guarantee())

    plain, _, _ = created()
    window, _, clock = created(lease=5.0, release="window")
    assert is_listed(plain)
    assert not is_listed(window)
    decision = window.ask()
    clock.now += 5
    window.tell(decision, 0.5)  # after its window, and used
    assert is_listed(window)
    assert plain.guarantee().total == bandit().guarantee().total
    assert plain.guarantee(rounds=100).rounds == 100
    rewards, _, _ = created(goal="maximize")
    assert clause_of(rewards.guarantee(), "range").text.startswith("every reward is in")


def test_a_clock_that_is_far_behind_is_worth_a_word(caplog: pytest.LogCaptureFixture) -> None:
    study, _, clock = created()
    study.ask()
    clock.now -= 2 * 86_400.0
    with caplog.at_level(logging.WARNING, "koloss.studies"):
        study.tell(study.ask(), 0.5)
    assert "172800 s behind the newest event" in caplog.text
    assert len({event.micros for event in study.events()}) == 1


# Subjects.


def test_nothing_is_kept_of_a_subject_for_longer_than_its_decision_waits() -> None:
    study, store, clock = created(lease=10.0)
    mine = study.ask(subject="ann")
    assert same(kl.Study.open(store, "prices", clock=clock).ask(subject="ann"), mine)
    assert study.ask(subject="bob").id == 1
    assert sorted(store.studies["prices"].subjects.values()) == [0, 1]
    study.tell(mine, 0.5)
    assert list(store.studies["prices"].subjects.values()) == [1]
    clock.now += 10
    study.ask()
    assert store.studies["prices"].subjects == {}


def test_subjects_are_hashed_unless_asked_otherwise_and_forgotten_on_demand() -> None:
    study, store, _ = created()
    mine = study.ask(subject="ann@example.org")
    kept = list(store.studies["prices"].subjects)
    assert len(kept) == 1
    assert "ann" not in repr(store.studies["prices"].events) + repr(kept)
    other, _, _ = created()
    other.ask(subject="ann@example.org")
    assert list(other.store.studies["prices"].subjects) != kept  # another study, another key
    assert study.forget_subject("ann@example.org") == 1
    assert study.forget_subject("ann@example.org") == 0
    assert store.studies["prices"].subjects == {}
    assert study.ask(subject="ann@example.org").id != mine.id
    study.tell(mine, 0.5)
    assert kl.studies.verify(store, "prices").ok
    plain, store, _ = created(subjects="plain")
    plain.ask(subject="visit 7")
    assert store.studies["prices"].subjects == {"visit 7": 0}
    with pytest.raises(TypeError, match="`subject` must be text"):
        plain.ask(subject=7)
    with pytest.raises(ValueError, match="`subject` must have 1 to 500 characters"):
        plain.ask(subject="")


# Operators.


def test_the_buttons_of_an_insured_learner_are_events() -> None:
    study, store, _ = created(insured(horizon=100_000))
    learner = insured(horizon=100_000)
    for step in ("hand_over", None, "re_arm", None):
        for _ in range(5):
            one, other = study.ask(), learner.ask()
            assert (one.index, one.probability) == (other.index, other.probability)
            study.tell(one, 0.5)
            learner.tell(other, 0.5)
        if step:
            getattr(study, step)()
            getattr(learner, step)()
    assert {"handed over", "re-armed"} <= set(kinds(study))
    assert learner.alarms == study.learner.alarms
    assert len(learner.alarms) == 2
    assert kl.studies.verify(store, "prices").ok
    with pytest.raises(TypeError, match="is for studies of an InsuredBandit, got one of a Bandit"):
        created()[0].hand_over()


def test_actions_come_and_go_by_events_with_an_author() -> None:
    study, store, _ = created(insured())
    study.change("withdraw", [0, 3], author="ana", reason="sold out")
    rows = study.ask(40).index
    assert not {0, 3} & set(rows.tolist())
    study.change("add", np.array([3]), author="ana", reason="back in stock")
    assert study.learner.available.tolist() == [False, True, True, True, True, True]
    changed = [event.data for event in study.events() if event.kind == "changed"]
    assert changed[0] == {
        "author": "ana",
        "reason": "sold out",
        "setting": "withdraw",
        "value": [0, 3],
    }
    assert kl.studies.verify(store, "prices").ok


def test_a_range_is_widened_where_the_learner_can() -> None:
    study, store, _ = created(bandit(outside="widen"))
    learner = bandit(outside="widen")
    study.change("loss_range", (-1, 2), author="ana", reason="new prices")
    learner.widen(-1, 2)
    for value in (1.8, -0.5, 0.3):
        one, other = study.ask(), learner.ask()
        assert one.probability == other.probability
        study.tell(one, value)
        learner.tell(other, value)
    assert np.array_equal(study.learner.distribution, learner.distribution)
    assert not np.array_equal(bandit(outside="widen").distribution, learner.distribution)
    with pytest.raises(ValueError, match="`loss_range` must hold what it was"):
        study.change("loss_range", (0, 1), author="ana", reason="back")
    assert kl.studies.verify(store, "prices").ok


def test_a_range_of_rewards_is_widened_in_rewards() -> None:
    study, _, _ = created(bandit(outside="widen"), goal="maximize")
    study.change("loss_range", (0, 3), author="ana", reason="new prices")
    assert inside.exp2(study.learner).range.heard_low == -2.0  # 0 + 1 - 3
    own, _, _ = created(bandit(outside="widen", goal="maximize"))
    own.change("loss_range", (0, 3), author="ana", reason="new prices")
    assert inside.exp2(own.learner).range.heard_low == -3.0


def test_leases_and_labels_may_change_for_what_is_to_come() -> None:
    study, _, clock = created(lease=100.0)
    study.ask()
    study.change("lease", 1.0, author="ana", reason="faster")
    study.change("labels", {"team": "shop"}, author="ana", reason="moved")
    study.ask()
    clock.now += 1
    study.ask()
    expired = [event.decision for event in study.events() if event.kind == "expired"]
    assert expired == [1]
    assert study.status().labels == {"team": "shop"}
    assert study.status().lease == 1.0


@pytest.mark.parametrize(
    "setting, value, why",
    [
        ("goal", "maximize", "would mean the opposite"),
        ("unit", "USD", "have the unit"),
        ("default", 0.5, "was promised"),
        ("shares", {}, "exploration was designed"),
        ("horizon", 10, "tuned"),
        ("colour", "red", "must be one of withdraw, add"),
        ("loss_range", [0, 2], "`outside` is 'widen', got 'raise'"),
        ("withdraw", [0], "InsuredBandit"),
        ("lease", None, "must stay"),
    ],
)
def test_what_may_not_change_is_refused_with_an_explanation(
    setting: str, value: Any, why: str
) -> None:
    study, _, _ = created(lease=1.0, default=0.0)
    before = study.learner.state()["digest"]
    with pytest.raises((ValueError, TypeError), match=why):
        study.change(setting, value, author="ana", reason="wish")
    assert kinds(study) == ["created"]
    assert study.learner.state()["digest"] == before
    with pytest.raises(ValueError, match="`author` must have"):
        study.change("labels", {}, author="", reason="wish")


def test_the_insured_range_is_refused_with_its_own_reason() -> None:
    study, _, _ = created(insured())
    with pytest.raises(ValueError, match="budget of its policies"):
        study.change("loss_range", (0, 2), author="ana", reason="wish")


# Policies of one's own.


class Cautious:
    """Plays the row with the least mean, and can say what it has heard."""

    def __init__(self) -> None:
        self.sums, self.counts = [0.0] * 6, [0] * 6

    def propose(self) -> int:
        means = [s / c if c else -1.0 for s, c in zip(self.sums, self.counts, strict=True)]
        return int(np.argmin(means))

    def hear(self, index: int, loss: float) -> None:
        self.sums[index] += loss
        self.counts[index] += 1


class Restorable(Cautious):
    """The same with a state."""

    def state(self) -> dict[str, Any]:
        return {"sums": list(self.sums), "counts": list(self.counts)}

    def restore(self, state: dict[str, Any]) -> None:
        self.sums, self.counts = list(state["sums"]), list(state["counts"])


@pytest.mark.parametrize("policy", [Cautious, Restorable])
def test_a_policy_of_ones_own_is_given_again(policy: Any) -> None:
    study, store, clock = created(insured(policy=policy()))
    alone = insured(policy=policy())
    given = policy()
    others = kl.Study.open(store, "prices", policy=given, clock=clock)
    for k in range(40):
        one, other = (study, others)[k % 2].ask(), alone.ask()
        assert (one.index, one.probability) == (other.index, other.probability)
        (others, study)[k % 2].tell(one, loss_of(one.action))
        alone.tell(other, loss_of(one.action))
    assert given.counts == [0] * 6  # a copy of it plays
    assert kl.studies.verify(store, "prices", policy=policy()).ok
    with pytest.raises(TypeError, match="`policy` must be given"):
        kl.Study.open(store, "prices")


def test_what_its_first_learner_does_later_is_nothing_to_a_study() -> None:
    learner = insured(policy=Cautious())
    study, store, _ = created(learner)
    for _ in range(8):
        learner.tell(learner.ask(), 1.0)
    alone = insured(policy=Cautious())
    for _ in range(8):
        one, other = study.ask(), alone.ask()
        assert one.index == other.index
        study.tell(one, loss_of(one.action))
        alone.tell(other, loss_of(one.action))
    assert kl.studies.verify(store, "prices", policy=Cautious()).ok


def test_a_policy_that_fails_leaves_no_trace() -> None:
    study, store, _ = created(insured(policy=Deaf()))
    made = study.ask(3)
    before = study.learner.state()["digest"]
    with pytest.raises(PolicyError, match="no connection"):
        study.tell(made, [0.1, 0.95, 0.2])  # of which the first was heard
    assert study.learner.state()["digest"] == before
    study.tell(made, [0.1, 0.5, 0.2])
    assert kinds(study).count("told") == 3
    assert kl.studies.verify(store, "prices", policy=Deaf()).ok


# The object.


def test_status_says_where_it_stands_and_is_fit_for_json() -> None:
    study, _, _ = created(unit="EUR", labels={"team": "shop"}, lease=60.0)
    study.tell(study.ask(4)[:3], [0.1, 0.2, 0.3])
    status = study.status()
    assert (status.asked, status.told, status.waiting, status.events) == (4, 3, 1, 8)
    data = json.loads(json.dumps(status.to_dict()))
    assert (data["unit"], data["lease"], data["goal"]) == ("EUR", 60.0, "minimize")
    assert data["created"] == "2001-09-09T01:46:40+00:00"
    assert data["facts"]["warnings"] == []


def test_reading_changes_nothing() -> None:
    class Curious(Cautious):
        def propose(self) -> int:
            return (super().propose() + sum(self.counts)) % 6  # other proposals after each loss

    study, store, _ = created(insured(policy=Curious()))
    first = study.ask()
    study.learner.distribution  # noqa: B018  (asks a copy of the policy)
    study.status(), study.recommend(), study.guarantee(), study.probabilities()
    study.tell(first, 0.5)
    study.ask()
    assert kl.studies.verify(store, "prices", policy=Curious()).ok


def test_a_study_is_a_context_manager_that_closes_what_it_opened(tmp_path: Any) -> None:
    url = f"sqlite:///{tmp_path}/shop.db"
    with kl.Study.create(url, "prices", learner=bandit(), clock=Clock()) as study:
        decision = study.ask()
    with kl.Study.open(url, "prices") as study:
        study.tell(decision, 0.5)
        assert repr(study) == f"Study('sqlite:///{tmp_path}/shop.db', 'prices')"
        study.backup(tmp_path / "copy.db")
    with kl.Study.open(f"sqlite:///{tmp_path}/copy.db", "prices") as study:
        assert kinds(study) == ["created", "asked", "told"]
    closed = []
    store = MemoryStore()
    store.close = lambda: closed.append(True)  # type: ignore[method-assign]
    with kl.Study.create(store, "prices", learner=bandit()):
        pass
    assert closed == []  # whoever opened it closes it
