"""Decisions that wait: records of many come apart when a part is told, and nobody can tell the difference."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import koloss as kl
from koloss.errors import LossOutOfBounds
from koloss.learners.losses import read_losses
from koloss.learners.waiting import Batch, Entry, Waiting


class Plain:
    """The same as a dictionary of entries, one for each decision."""

    def __init__(self):
        self.entries = {}

    def add(self, record):
        some = [record] if isinstance(record, Entry) else list(record)
        self.entries.update({entry.id: entry for entry in some})


def both(made, sizes):
    """Records of such sizes, in both forms; ids have gaps, as after a snapshot."""
    waiting, plain = Waiting(), Plain()
    for size in sizes:
        keys = np.arange(made, made + size) % 7
        contexts = keys + 1 if made % 2 else None
        record = Batch(made, None, keys, made // 2, contexts)
        for one in (waiting, plain):
            one.add(record[0] if size == 1 else record)
        made += size + made % 3
    return waiting, plain, made


@given(st.lists(st.integers(1, 6), min_size=1, max_size=6), st.data())
@settings(max_examples=60, deadline=None)
def test_records_are_what_a_dictionary_of_entries_would_be(sizes, data):
    waiting, plain, made = both(data.draw(st.integers(0, 3)), sizes)
    for _ in range(data.draw(st.integers(0, 12))):
        if not plain.entries:
            break
        i = data.draw(st.sampled_from(sorted(plain.entries)))
        if data.draw(st.booleans()):
            waiting.remove(i)
            del plain.entries[i]
        else:
            changed = plain.entries[i]._replace(heard=100 + i)
            waiting.change(changed)
            plain.entries[i] = changed
        assert len(waiting) == len(plain.entries)
    assert list(waiting) == list(plain.entries.values())
    for i in range(-1, made + 1):
        assert (i in waiting) == (np.int64(i) in waiting) == (i in plain.entries)
        if i in plain.entries:
            assert waiting.entry(i) == plain.entries[i]
        else:
            with pytest.raises(KeyError):
                waiting.entry(i)
    assert waiting.between(0, made) == list(plain.entries.values())
    for i in [*plain.entries]:
        waiting.remove(i)
    assert (len(waiting), list(waiting), waiting._records, waiting._firsts) == (0, [], {}, [])


def learner(**settings):
    points = kl.Points(np.linspace(0, 1, 7)[:, None])
    said = {"horizon": 500, "loss_range": (0, 1)} | settings
    return kl.BanditExpWeights(points, kl.Gaussian(0.3), rng=0, **said)


def calls(action):
    """How many calls of functions, Python's and C's, it takes."""
    count = 0

    def note(frame, event, argument):
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        action()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("settings", [{}, {"bonus": True}, {"outside": "clip"}], ids=str)
def test_a_batch_takes_no_call_for_each_decision(settings):
    taken = {}
    for count in (20, 2000, 20_000):
        player = learner(horizon=10**6, **settings)
        player.tell(player.ask(count), np.full(count, 0.5))
        batches = []
        asked = calls(lambda player=player, count=count, to=batches: to.append(player.ask(count)))
        losses = np.full(count, 0.25)
        told = calls(lambda player=player, to=batches, y=losses: player.tell(to[0], y))
        taken[count] = asked + told
    assert max(taken.values()) <= min(taken.values()) + 30, taken
    # Negative control: told in the order of a list, it is a call for each.
    batch = player.ask(2000)
    some = [*range(batch.id[0] + 1, batch.id[-1] + 1), batch.id.item(0)]
    assert calls(lambda: player.tell(some, np.full(2000, 0.25))) > 2000


# Losses of a batch as an array, read by two comparisons.


def test_arrays_of_losses_are_within_the_interval_or_refused():
    good = np.array([0.0, 0.5, 1.0])
    assert read_losses(good, 3, 0.0, 1.0) is good
    np.testing.assert_array_equal(read_losses(good, 3, -1.0, 0.0, sign=-1), -good)
    rounded = np.array([0.5, 1 + 1e-12])  # beyond the ends by rounding
    np.testing.assert_array_equal(read_losses(rounded, 2, 0.0, 1.0), rounded)
    for place in range(3):
        for wrong in (np.nan, np.inf, -np.inf):
            bad = good.copy()
            bad[place] = wrong
            with pytest.raises(ValueError, match="`loss` must be finite"):
                read_losses(bad, 3, 0.0, 1.0)
        for wrong in (-0.5, 1.5):
            bad = good.copy()
            bad[place] = wrong
            with pytest.raises(LossOutOfBounds, match=f"got {wrong}"):
                read_losses(bad, 3, 0.0, 1.0)
    for shape in ((3, 1), (1, 3)):
        with pytest.raises(ValueError, match="must have 3 entries"):
            read_losses(good.reshape(shape), 3, 0.0, 1.0)
    with pytest.raises(TypeError, match="must be a number"):
        read_losses(np.ma.masked_array(good, [0, 1, 0]), 3, 0.0, 1.0)
