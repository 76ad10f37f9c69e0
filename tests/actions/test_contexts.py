"""Contexts: which one was meant, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import koloss as kl

SHARES = kl.Contexts(["private", "business"], [0.9, 0.1])
PLACES = kl.Contexts([[0.0, 1.0], [0.5, 1.0], [1.0, 2.0]], [0.5, 0.3, 0.2])


@pytest.mark.parametrize(
    "contexts",
    [
        SHARES,
        PLACES,
        kl.Contexts([3, 1, 2]),
        kl.Contexts(["a", "b"], [2 / 3, 1 / 3]),
        kl.Contexts(np.random.default_rng(0).uniform(size=(20, 3)), np.full(20, 0.05)),
        kl.Contexts(kl.Points([[0.0], [1.0]])),
    ],
)
def test_contexts_come_back_from_plain_data(contexts):
    for arrays in (False, True):
        again = kl.Contexts.from_dict(contexts.to_dict(arrays=arrays))
        assert again == contexts
        assert repr(again) == repr(contexts)
        if contexts.weights is not None:
            assert again.weights.tobytes() == contexts.weights.tobytes()


def test_differing_contexts_are_not_equal():
    assert kl.Contexts(["a", "b"]) != kl.Contexts(["b", "a"])
    assert kl.Contexts(["a", "b"]) != kl.Contexts(["a", "b"], [0.5, 0.5])
    assert kl.Contexts([[0.0], [1.0]]) != "contexts"


def test_a_context_is_found_by_label_row_or_coordinates():
    assert SHARES.find("business") == 1
    assert kl.Contexts([3, 1, 2]).find(np.int64(1)) == 1  # a label, not a row
    assert [PLACES.find(1), PLACES.find(np.int64(2)), PLACES.find([0.5, 1.0])] == [1, 2, 1]
    assert PLACES.find(np.array([1.0, 2.0 + 1e-12])) == 2
    assert kl.Contexts([[0.0], [0.5]]).find(0.5) == 1
    assert SHARES.find_all(["business", "private"], 2).tolist() == [1, 0]
    assert PLACES.find_all(np.array([2, 0]), 2).tolist() == [2, 0]
    assert PLACES.find_all([[1.0, 2.0], 0], 2).tolist() == [2, 0]
    assert SHARES.find_all(np.array(["business"]), 1).tolist() == [1]


@pytest.mark.parametrize(
    "contexts, context, message",
    [
        (SHARES, None, "`context` must be given: this learner has contexts"),
        (SHARES, "public", "`context` must be one of 'private', 'business', got 'public'"),
        (SHARES, 1, "`context` must be one of 'private', 'business', got 1"),
        (PLACES, 3, "`context` must be a row from 0 to 2, or coordinates, got 3"),
        (PLACES, True, "`context` must be a row or 2 coordinates, got True"),
        (PLACES, {"x": 1}, "`context` must be a row or 2 coordinates, got {'x': 1}"),
        (PLACES, [0.5], r"`context` must be a row or 2 coordinates, got an array of shape \(1,\)"),
        (PLACES, [10**400, 0.5], "`context` must be a row or 2 coordinates, got"),
        (PLACES, np.ma.masked, "`context` must be a row or 2 coordinates, got"),
        (PLACES, [np.nan, 1.0], r"`context` must be finite, got \[nan"),
        (PLACES, [0.4, 1.0], "`context` must be one of the 3 contexts, got"),
    ],
)
def test_other_contexts_are_refused(contexts, context, message):
    with pytest.raises(ValueError, match=message):
        contexts.find(context)


@pytest.mark.parametrize(
    "context, message",
    [
        (None, "`context` must be given"),
        (1, "`context` must be a sequence of 2, one for each decision, got 1"),
        ([1], "`context` must be a sequence of 2, one for each decision, got 1"),
        ("ab", "`context` must be a sequence of 2, one for each decision, got 'ab'"),
        (np.array([0, 3]), "`context` must be rows from 0 to 2, or coordinates, got"),
        ([0, 7], "`context` must be a row from 0 to 2, or coordinates, got 7"),
    ],
)
def test_a_batch_needs_one_context_each(context, message):
    with pytest.raises(ValueError, match=message):
        PLACES.find_all(context, 2)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"X": ["a", "b", "a"]}, "`X` must not repeat a label, got 'a' twice"),
        ({"X": [[0.0], [1.0], [1e-12]]}, "`X` must not repeat a context"),
        ({"X": [0.1, 0.2]}, "labels that are text or whole numbers, got 0.1"),
        ({"X": [True, False]}, "labels that are text or whole numbers, got True"),
        ({"X": []}, "`X` must"),
        ({"X": ["a", "b"], "weights": [0.5, 0.6]}, "`weights` must sum to 1"),
        ({"X": ["a", "b"], "weights": [1.0, 0.0]}, "`weights` must be positive: leave out"),
    ],
)
def test_what_makes_no_contexts(arguments, message):
    with pytest.raises(ValueError, match=message):
        kl.Contexts(**arguments)


# Contexts of a Space.


WEEK = kl.Space(day=kl.Ordinal(["Mon", "Tue", "Wed"]), mobile=kl.Choice([False, True]))


def test_contexts_of_a_space_are_given_by_their_params():
    contexts = kl.Contexts(WEEK, np.full(6, 1 / 6))
    assert (len(contexts), contexts.dimension) == (6, 2)
    row = contexts.find({"day": "Tue", "mobile": True})
    assert contexts.points.params[row] == {"day": "Tue", "mobile": True}
    assert contexts.find(contexts.X[row]) == row
    assert kl.Contexts.from_dict(contexts.to_dict(arrays=True)) == contexts
    two = [{"day": "Mon", "mobile": True}, {"day": "Wed", "mobile": False}]
    some = kl.Contexts(WEEK.points(two))
    assert some.find_all(two[::-1], 2).tolist() == [1, 0]
    assert some != contexts
    for wrong in ({"day": "Sun", "mobile": True}, {"day": "Mon"}, {"day": "Tue", "mobile": True}):
        with pytest.raises(ValueError, match="`context` must be one of the 2 contexts, got"):
            some.find(wrong)


@pytest.mark.parametrize(
    "space",
    [
        kl.Space(temperature=kl.Float(-10, 30), hour=kl.Float(0, 24)),
        kl.Space(a=kl.Int(1, 100), b=kl.Int(1, 100)),
        kl.Space(device=kl.Choice(["phone", "desk"]), age=kl.Float(18, 90)),
    ],
)
def test_contexts_have_to_be_listed(space):
    """The message names the argument, the rule, the value, and what to do."""
    with pytest.raises(ValueError, match="`X` must be labels, rows of coordinates, or a Space of at most 1,024 combinations, got Space") as caught:  # fmt: skip
        kl.Contexts(space)
    assert "cut numbers into a list of cells, or play without contexts" in str(caught.value)
    cells = kl.Contexts(space.points(12))  # which are a list
    assert len(cells) == 12
    assert cells.find(cells.points.params[3]) == 3


def test_truth_values_are_no_labels():
    week = kl.Contexts(list(range(7)))
    for context in (True, False, np.True_):
        with pytest.raises(ValueError, match="`context` must be one of 0, 1, 2"):
            week.find(context)
    assert week.find(np.int64(1)) == 1
