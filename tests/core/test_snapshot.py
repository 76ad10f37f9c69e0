"""The codec by itself: what is declared comes back with everything that it shares; learners are in tests/learners/test_snapshots.py."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import koloss as kl
from koloss.core.snapshot import (
    KEPT,
    Cached,
    Extended,
    Matrix,
    Vector,
    fill,
    kept,
    state_from_bytes,
    state_of,
    state_to_bytes,
)
from koloss.errors import SnapshotError


@dataclass(slots=True)
class Leaf:
    values: Vector
    best: Extended = math.inf
    known: Cached = None


class Tree:
    leaves: list[Leaf]
    matrix: Matrix | None
    rest: Any
    count: int = 0


@pytest.fixture(autouse=True)
def classes(monkeypatch):
    for kind in (Leaf, Tree):
        monkeypatch.setitem(KEPT, kind.__name__, kind)


def grown(rest=None):
    tree, leaf = Tree(), Leaf(np.arange(3.0), known="cached")
    tree.leaves, tree.matrix, tree.rest = [leaf, leaf], np.ones((2, 3), order="F"), rest
    return tree


def through_bytes(tree):
    return fill(Tree(), state_from_bytes(state_to_bytes(state_of(tree))))


def test_all_that_is_declared_comes_back_and_what_is_shared_is_shared():
    generator, kernel = np.random.default_rng(3), kl.Gaussian(0.5)
    inner = {(1, "a"): [None, True, 2.5], 3: deque([1, 2])}
    tree = grown([inner, inner, (kernel, kernel), generator, np.float64(0.1), object])
    tree.rest.append(tree.leaves[0].values)
    again = through_bytes(tree)
    first, second = again.leaves
    assert first is second
    assert (first.best, first.known, again.count) == (math.inf, None, 0)
    assert again.matrix.flags.f_contiguous
    np.testing.assert_array_equal(again.matrix, tree.matrix)
    one, other, kernels, coins, number, described, values = again.rest
    assert one is other
    assert one == inner
    assert kernels == (kernel, kernel)
    assert kernels[0] is kernels[1]
    assert coins.random() == generator.random()
    assert number == 0.1
    assert repr(described) == repr(object)
    assert values is first.values


@pytest.mark.parametrize(
    "rest, message",
    [
        ({"same": 99}, "must be what has come before"),
        ({"Leaf": {"values": np.ones(2)}}, "`learner.rest.best` in `state` must be there"),
        ({"Leaf": {"values": np.ones((2, 2)), "best": 0.0}}, "must be of type Vector"),
        ({"Leaf": {"values": np.ones(2), "best": math.nan}}, "must be a number that is finite"),
        ({"Leaf": {"values": np.ones(2), "best": "0"}}, "must be of type Extended"),
        ({"Leaf": {"values": np.ones(2), "best": 0, "known": 1}}, "no other keys .*'known'"),
        ({"dict": [[[], 1]]}, "unhashable"),
        ({"Stem": {}}, "must be of a class that is kept, got 'Stem'"),
        (math.inf, "must be a number that is finite"),
        (np.array([1.0, math.inf]), "must hold numbers that are finite"),
        (np.array(["text"]), "must hold numbers"),
    ],
)
def test_anything_else_is_refused(rest, message):
    state = state_of(grown()) | {"rest": rest}
    with pytest.raises(SnapshotError, match=message):
        fill(Tree(), state)


def test_two_classes_cannot_have_one_name():
    with pytest.raises(TypeError, match="there are two classes of the name Ledger"):
        kept(type("Ledger", (), {"__module__": "elsewhere"}))
