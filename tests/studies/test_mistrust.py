"""What somebody would try who does not trust a study: odd text, decisions of others, histories that were exchanged, policies that fail."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import koloss as kl
from koloss.errors import AlreadyTold, PolicyError, StoreError, StudyNotFound, UnknownDecision
from koloss.studies import open_store
from tests.support.memory import MemoryStore
from tests.support.studies import Deaf, bandit, created, insured, kinds

ODD = ["a\0b", "half \ud800 of a pair"]


# Text that not every store can hold.


@pytest.mark.parametrize("text", ODD)
def test_text_that_a_store_may_refuse_in_the_middle_is_refused_before(text: str) -> None:
    study, _, _ = created(subjects="plain")
    calls: list[Any] = [
        lambda: study.ask(request=text),
        lambda: study.ask(subject=text),
        lambda: study.forget_subject(text),
        lambda: study.pause(author=text),
        lambda: study.change("lease", 5, author="ann", reason=text),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="must be without NUL"):
            call()
    assert kinds(study) == ["created"]


@pytest.mark.parametrize("said", [{"author": 7}, {"reason": b"why"}, {"author": object()}])
def test_whoever_presses_a_button_says_so_in_words(said: dict[str, Any]) -> None:
    study, _, _ = created()
    with pytest.raises(TypeError, match="must be text"):
        study.pause(**said)
    assert not study.status().paused


@pytest.mark.parametrize("text", ["", "a b", "é" * 3, *ODD])
def test_a_study_that_cannot_be_is_not_found(text: str, tmp_path: Any) -> None:
    store = f"sqlite:///{tmp_path}/shop.db"
    kl.Study.create(store, "prices", learner=bandit()).close()
    for look in (kl.Study.open, kl.studies.verify):
        with pytest.raises(StudyNotFound, match="there is no study"):
            look(store, text)
        with pytest.raises(TypeError, match="`name` must be a string"):
            look(store, 5)  # type: ignore[arg-type]


def test_the_longest_subject_fits_into_any_store(postgres_url: str) -> None:
    """Characters of four bytes each, which cannot be compressed."""
    study = kl.Study.create(postgres_url, "prices", learner=bandit(), subjects="plain")
    signs = np.random.default_rng(0).integers(0x10000, 0x1FFFF, size=500)
    subject = "".join(map(chr, signs))
    assert study.ask(subject=subject).id == study.ask(subject=subject).id
    study.close()


# Secrets.


def test_the_key_of_the_subjects_is_not_shown() -> None:
    study, _, _ = created()
    assert len(study.settings.key) == 32
    assert study.settings.key not in repr(study.settings)


# Decisions of others.


def test_studies_of_one_learner_know_their_decisions_apart() -> None:
    learner = bandit()
    one, _, _ = created(learner)
    other, _, _ = created(learner)
    foreign = [one.ask(), learner.ask()]
    other.ask()
    for decision in foreign:
        with pytest.raises(UnknownDecision, match="another learner"):
            other.tell(decision, 0.5)
    assert other.status().told == 0
    one.tell(foreign[0], 0.5)


def test_decisions_from_before_the_study_may_be_told_to_it() -> None:
    learner = bandit()
    early = learner.ask()
    study, store, _ = created(learner)
    study.tell(early, 0.5)
    assert kl.studies.verify(store, "prices").ok


# Values that come after a default, where the learner itself holds values back.


@pytest.mark.parametrize("make", [bandit, insured])
@pytest.mark.parametrize("release", [None, "window"])
def test_what_comes_after_a_default_is_written_down_while_the_learner_holds_it(
    make: Any, release: str | None
) -> None:
    study, store, clock = created(make(hold=5), lease=10, default=0.5, release=release)
    silent = study.ask()
    clock.now += 11
    study.ask()
    assert silent.id in study.learner.ledger.held  # the default, not used yet
    study.tell(silent, 0.25)
    status = study.status()
    assert (status.defaulted, status.unused, status.told) == (1, 1, 1)
    with pytest.raises(AlreadyTold):
        study.tell(silent, 0.25)
    assert kl.studies.verify(store, "prices").ok
    for _ in range(6):
        study.ask()
    assert silent.id not in study.learner.ledger
    with pytest.raises(AlreadyTold):
        study.tell(silent, 0.25)


# Histories that were exchanged for others.


@pytest.mark.parametrize("extra", [0, 1, 3])
def test_a_history_that_was_exchanged_for_one_as_long_is_noticed(extra: int) -> None:
    """A server that lost what it had acknowledged, and others who have gone on from there."""
    study, store, clock = created()
    study.ask()
    former = store.studies["prices"].copy()
    clock.now += 1
    study.ask()
    store.studies["prices"] = former
    other = kl.Study.open(store, "prices", clock=clock)
    clock.now += 1
    other.tell(0, 0.5)
    for _ in range(extra):
        other.ask()
    with pytest.raises(StoreError, match="other events than before"):
        study.ask()
    assert study.ask().id == 1 + extra  # by what is there now
    assert kl.studies.verify(store, "prices").ok


def test_whoever_only_looks_notices_too(tmp_path: Any) -> None:
    """The file was replaced; the store notices once, and a second object of this process has to notice by itself."""
    path = tmp_path / "shop.db"
    store = open_store(f"sqlite:///{path}")
    study = kl.Study.create(store, "prices", learner=bandit())
    second = kl.Study.open(store, "prices")
    study.ask()
    study.backup(tmp_path / "copy.db")
    study.ask(2)
    second.status()
    store.close()
    for end in ("", "-wal", "-shm"):
        (tmp_path / f"shop.db{end}").unlink(missing_ok=True)
    (tmp_path / "copy.db").rename(path)
    with pytest.raises(StoreError):
        study.ask()
    with pytest.raises(StoreError, match="fewer events than before"):
        second.status()
    assert second.status().asked == 1
    store.close()


# A policy that fails.


def test_a_policy_that_cannot_hear_a_default_can_be_stopped() -> None:
    study, store, clock = created(insured(policy=Deaf(0.0)), lease=10, default=0.5)
    study.ask()
    clock.now += 11
    with pytest.raises(PolicyError, match="no connection"):
        study.ask()
    study.hand_over(author="ann", reason="it is deaf")
    study.ask()
    assert kinds(study) == ["created", "asked", "handed over", "expired", "asked"]
    assert study.status().defaulted == 1
    assert kl.studies.verify(store, "prices", policy=Deaf(0.0)).ok


def test_a_policy_that_was_not_given_is_no_fault_of_the_history() -> None:
    study, store, _ = created(insured(policy=Deaf(0.0)))
    study.ask()
    with pytest.raises(TypeError, match="`policy` must be given"):
        kl.studies.verify(store, "prices")
    assert kl.studies.verify(store, "prices", policy=Deaf(0.0)).ok


def test_a_policy_that_cannot_be_copied_is_refused_before_there_is_a_study() -> None:
    store, policy = MemoryStore(), Deaf()
    policy.lock = threading.Lock()  # type: ignore[attr-defined]
    with pytest.raises(TypeError, match=r"`policy` must be one that copy.deepcopy can copy, got a"):
        kl.Study.create(store, "prices", learner=insured(policy=policy))
    assert store.names() == []


# Events of a later version.


def test_events_of_an_unknown_kind_are_refused_and_not_passed_over() -> None:
    study, store, _ = created()
    study.pause()
    store.damage("prices", 2, kind="shifted")
    with pytest.raises(StoreError, match="'shifted', which this version"):
        kl.Study.open(store, "prices")
    assert any("'shifted'" in problem for problem in kl.studies.verify(store, "prices").problems)
