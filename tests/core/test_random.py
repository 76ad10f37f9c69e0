"""Generators: made of whatever is given as `rng`, and kept as plain data."""

from __future__ import annotations

import json

import numpy as np
import pytest

from koloss.core.random import (
    DRAWS,
    GAMES,
    KINDS,
    LEARNERS,
    as_generator,
    generator_from_dict,
    generator_to_dict,
)

STREAMS = (LEARNERS, GAMES, DRAWS)


def test_a_generator_of_whatever_is_given():
    expected = np.random.default_rng(7).random(5).tolist()
    for rng in (np.random.SeedSequence(7), np.random.PCG64(7)):
        assert as_generator(rng).random(5).tolist() == expected
    mine = np.random.default_rng(7)
    assert as_generator(mine) is mine
    assert as_generator(None).random() != as_generator(None).random()


@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize(
    "same", [(7, np.int64(7), np.uint8(7)), ([1, 2], (1, 2), np.array([1, 2]))]
)
def test_one_seed_in_all_its_forms_is_one_stream(stream, same):
    draws = {tuple(as_generator(seed, stream).random(5)) for seed in same}
    assert len(draws) == 1


@pytest.mark.parametrize("seed", [0, 1, 2**100, [0, 1], []], ids=repr)
def test_streams_of_one_seed_differ_from_each_other_and_from_all_a_user_has(seed):
    sequence = np.random.SeedSequence(seed)
    users = [np.random.default_rng(seed), *map(np.random.default_rng, sequence.spawn(1000))]
    ours = [as_generator(seed, stream) for stream in STREAMS]
    assert len({rng.integers(2**63) for rng in users + ours}) == 1004


def test_the_streams_stay_what_they_are():
    # A change of these numbers is a change of everything that was seeded with a whole number.
    drawn = [as_generator(0, stream).integers(10**6, size=2).tolist() for stream in STREAMS]
    assert drawn == [[167465, 353908], [747681, 261069], [510421, 595691]]


@pytest.mark.parametrize(
    "rng, error, message",
    [
        (True, TypeError, "`rng` must be a seed or a Generator, got True"),
        (np.True_, TypeError, "`rng` must be a seed or a Generator, got"),
        ("seed", TypeError, "`rng` must be a seed or a Generator, got str"),
        (1.5, TypeError, "`rng` must be a seed or a Generator, got float"),
        (-1, ValueError, "`rng` must be a seed of at least 0, got -1"),
        ([1, -1], ValueError, r"`rng` must be a seed of at least 0, got \[1, -1\]"),
        ([1.5], TypeError, "`rng` must be a seed or a Generator, got list"),
    ],
)
def test_bad_seeds(rng, error, message):
    with pytest.raises(error, match=message):
        as_generator(rng)


@pytest.mark.parametrize("kind", KINDS)
def test_state_is_plain_and_goes_on(kind):
    rng = np.random.Generator(getattr(np.random, kind)(3))
    rng.random(3), rng.integers(10, size=3, dtype=np.uint32)  # half of a number is kept back
    state = generator_to_dict(rng)
    json.dumps(state, default=np.ndarray.tolist)
    again = generator_from_dict(state)
    for call in ("random", "standard_normal"):
        assert getattr(again, call)(7).tolist() == getattr(rng, call)(7).tolist()
    assert again.integers(10**6, size=3).tolist() == rng.integers(10**6, size=3).tolist()


def test_nothing_else_is_looked_up():
    with pytest.raises(ValueError, match=r"`bit_generator` must be one of MT19937, .* got 'seed'"):
        generator_from_dict({"bit_generator": "seed"})


@pytest.mark.parametrize(
    "kind, place, value, message",
    [
        ("MT19937", ("state", "pos"), 625, "`pos` must be from 0 to 624, got 625"),
        ("MT19937", ("state", "pos"), -1, "`pos` must be from 0 to 624, got -1"),
        ("MT19937", ("state", "key"), np.zeros(624, np.uint32), "must not be zero everywhere"),
        ("MT19937", ("state", "key"), np.ones(600, np.uint32), ""),
        ("MT19937", ("state", "key"), np.ones(624), "must be the state of a MT19937"),
        ("Philox", ("buffer_pos",), 9, "`buffer_pos` must be from 0 to 4, got 9"),
        ("PCG64", ("state", "inc"), 2, "`inc` must be odd, got 2"),
        ("PCG64", ("has_uint32",), 5, "`has_uint32` must be 0 or 1, got 5"),
        ("PCG64", ("uinteger",), 1.0, "must be the state of a PCG64"),
        ("PCG64", ("state", "state"), 2**200, ""),
        ("SFC64", ("state", "state"), np.ones(3, np.uint64), ""),
        ("SFC64", ("more",), 1, "must be the state of a SFC64"),
    ],
)
def test_states_that_no_generator_can_have(kind, place, value, message):
    state = generator_to_dict(np.random.Generator(getattr(np.random, kind)(3)))
    holder = state["state"] if len(place) == 2 else state
    holder[place[-1]] = value
    with pytest.raises((ValueError, OverflowError, TypeError, IndexError), match=message or None):
        generator_from_dict(state)
