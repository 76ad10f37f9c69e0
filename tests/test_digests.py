"""What every kind of learner decides and promises is what the record says."""

import copy

import pytest

from tests.support import digest_setups  # noqa: F401  registers the set-ups
from tests.support.digests import SETUPS, SLOW, compare, is_exact, masked, read, report

RECORD = read()


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in SETUPS]
)
def test_nothing_moved(name):
    moved = report([name], record=RECORD)
    assert not moved, "\n".join(moved)


def test_the_record_has_these_set_ups_and_no_others():
    assert set(RECORD["setups"]) == set(SETUPS)


@pytest.fixture
def entry():
    return copy.deepcopy(RECORD["setups"]["bandit: gaussian"])


KEPT = RECORD["setups"]["bandit: gaussian"]


def test_an_equal_entry_is_not_reported(entry):
    assert compare("x", entry, KEPT, exact=True) == []


def test_a_changed_number_is_reported_by_its_name(entry):
    entry["numbers"]["regret"] *= 1 + 1e-7
    (line,) = compare("x", entry, KEPT, exact=True)
    assert "regret" in line
    assert compare("x", entry, KEPT, exact=False) == []
    entry["early"]["guarantee: total"] *= 1 + 1e-4
    (line,) = compare("x", entry, KEPT, exact=False)
    assert "before the game 'guarantee: total'" in line


def test_a_changed_decision_is_reported_by_its_place(entry):
    entry["decisions"]["first"][3] += 1
    (line,) = compare("x", entry, KEPT, exact=True)
    assert "decision 3" in line


def test_a_decision_after_the_first_ones_is_reported_on_the_same_processor_alone(entry):
    entry["decisions"]["hash"] = "another"
    (line,) = compare("x", entry, KEPT, exact=True)
    assert "decisions differ" in line
    entry["numbers"]["regret"] += 1  # which then differs, too
    assert compare("x", entry, KEPT, exact=False) == []


def test_a_changed_text_is_reported_with_its_line(entry):
    text = entry["texts"]["guarantee"]
    text["text"], text["hash"] = text["text"].replace("learner", "player"), "another"
    (line,) = compare("x", entry, KEPT, exact=True)
    assert "player" in line


def test_a_term_that_is_new_or_gone_is_reported(entry):
    entry["numbers"]["guarantee: tax"] = 1.0
    del entry["numbers"]["guarantee: total"]
    gone, new = compare("x", entry, KEPT, exact=True)
    assert "guarantee: total" in gone
    assert "guarantee: tax" in new


def test_numbers_are_masked_and_names_of_theorems_are_not():
    said = "F3 and B3′: R_200 ≤ 1,234.5 (all) + 2e-05 in [0, 1], -0.5"
    assert masked(said) == "F3 and B3′: R_200 ≤ # (all) + # in [#, #], #"


def test_another_processor_is_not_exact():
    assert not is_exact({"machine": {"blas": "none"}})
