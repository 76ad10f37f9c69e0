"""Studies over several databases, with the code that the guide shows: who has a name, and how a study moves."""

from __future__ import annotations

import doctest
from pathlib import Path
from types import SimpleNamespace

import pytest

import koloss as kl
from koloss.errors import StudyPaused
from koloss.studies import open_store, verify
from tests.support.statistics import agrees, by_counts
from tests.support.studies import bandit

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "postgresql.md"
NAMES = [f"study-{k}" for k in range(10_000)]
STORES = [f"database-{k}" for k in range(5)]


def shown(*functions):
    """Functions as the guide defines them."""
    scope: dict[str, object] = {}
    for example in doctest.DocTestParser().get_examples(GUIDE.read_text("utf-8")):
        if example.source.startswith(("from hashlib", *(f"def {name}(" for name in functions))):
            exec(example.source, scope)
    return SimpleNamespace(**{name: scope[name] for name in functions})


guide = shown("home", "copy_study")


def by_remainder(name, stores):
    """What must not be done: nearly every name moves with the number of stores."""
    return stores[sum(name.encode()) % len(stores)]


def moves(home, before, after):
    """(old, new) of every name that gets another home."""
    pairs = ((home(name, before), home(name, after)) for name in NAMES)
    return [pair for pair in pairs if pair[0] != pair[1]]


def test_names_are_spread_evenly():
    homes = [guide.home(name, STORES) for name in NAMES]
    counts = [homes.count(store) for store in STORES]
    assert agrees(by_counts(counts))
    assert 1900 <= min(counts) <= max(counts) <= 2100  # as the guide says


def test_a_home_depends_on_no_order():
    assert all(guide.home(name, STORES) == guide.home(name, STORES[::-1]) for name in NAMES[:200])


def test_a_new_database_takes_its_share_and_no_other_name_moves():
    moved = moves(guide.home, STORES[:4], STORES)
    assert {new for _, new in moved} == {STORES[4]}
    # A share of 1/5 of 10,000 has a deviation of 40; four of these are exceeded once in 16,000 maps.
    assert abs(len(moved) - 2000) < 160
    assert len(moves(by_remainder, STORES[:4], STORES)) > 7000


def test_a_lost_database_leaves_all_other_names_where_they_are():
    moved = moves(guide.home, STORES, STORES[1:])
    assert {old for old, _ in moved} == {STORES[0]}
    assert {new for _, new in moved} == set(STORES[1:])


@pytest.fixture
def stores(tmp_path):
    made = [open_store(f"sqlite:///{tmp_path / f'{k}.db'}") for k in range(2)]
    yield made
    for store in made:
        store.close()


def steps(study, count):
    played = []
    for _ in range(count):
        decision = study.ask()
        study.tell(decision, float(decision.action[0]) ** 2)
        played.append((decision.id, decision.index, decision.probability))
    return played


def test_a_study_that_moved_goes_on_as_one_that_stayed(stores):
    old, new = stores
    study = kl.Study.create(old, "prices", learner=bandit())
    steps(study, 20)
    waiting, told = study.ask(), study.ask(request="once")
    study.tell(told, 0.5, request="told")
    study.pause()
    last = guide.copy_study("prices", old, new)
    assert old.events("prices", last) == []
    moved = kl.Study.open(new, "prices")
    with pytest.raises(StudyPaused):
        moved.ask()
    for one in (study, moved):  # in the place that it left, only to compare
        one.resume()
        one.tell(told, 0.5, request="told")  # sent again, counted once
        one.tell(waiting, 0.25)
    assert steps(moved, 60) == steps(study, 60)
    assert verify(new, "prices").ok


def test_a_subject_of_a_study_that_moved_gets_another_decision(stores):
    old, new = stores
    study = kl.Study.create(old, "prices", learner=bandit())
    first = study.ask(subject="ann")
    assert study.ask(subject="ann").id == first.id
    guide.copy_study("prices", old, new)
    assert kl.Study.open(new, "prices").ask(subject="ann").id == first.id + 1
