"""Spaces that Hypothesis makes up: kinds, conditions and constraints of all sorts, against the definition written out."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

import koloss as kl

pytestmark = pytest.mark.slow

texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=4)
scalars = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([0.5, 2.25]) | texts
values = st.lists(
    scalars | st.tuples(scalars), min_size=1, max_size=4, unique_by=lambda v: (str(type(v)), v)
)


@st.composite
def parameters(draw, earlier):
    """A parameter with a condition on earlier ones, or none."""
    when = None
    parents = [name for name, p in earlier.items() if p.count is not None]
    if parents and draw(st.integers(0, 3)):
        when = {}
        for parent in draw(st.lists(st.sampled_from(parents), min_size=1, max_size=2, unique=True)):
            p = earlier[parent]
            numbers = draw(st.sets(st.integers(0, p.count - 1), min_size=1, max_size=3))
            when[parent] = [p.value(k) for k in sorted(numbers)]
    kinds = ["int", "choice", "step", "log int", "ordinal", "float", "log"]
    kind = draw(st.sampled_from(kinds))
    low = draw(st.integers(1, 5))
    width = draw(st.integers(0, 4))
    if kind in ("float", "log"):
        return kl.Float(low / 7, (low + width) / 7, log=kind == "log", when=when)
    if kind == "step":
        return kl.Float(low / 10, (low + width) / 10, step=0.1, when=when)
    if kind in ("int", "log int"):
        return kl.Int(low, low + width, log=kind == "log int", when=when)
    return (kl.Choice if kind == "choice" else kl.Ordinal)(draw(values), when=when)


@st.composite
def spaces(draw):
    names = draw(st.lists(texts, min_size=1, max_size=6, unique=True))
    made = {}
    for name in names:
        made[name] = draw(parameters(made))
        try:
            kl.Space(made)
        except ValueError:  # the conditions of its conditions contradict each other
            made[name] = kl.Int(1, 3)
    order = draw(st.permutations(names))  # conditions may be on later ones
    return kl.Space({name: made[name] for name in order})


def told_apart(value):
    """Text by which plain values differ: True from 1, not 1 from 1.0."""
    if isinstance(value, tuple):
        return f"({''.join(map(told_apart, value))})"
    return f"{type(value).__name__ if not isinstance(value, float) else 'int'} {value};"


def matters(space, name, params):
    """The definition of `when`, by recursion."""
    condition = space.parameters[name].when or {}
    return all(
        matters(space, parent, params)
        and any(told_apart(params[parent]) == told_apart(v) for v in allowed)
        for parent, allowed in condition.items()
    )


@given(spaces())
def test_what_is_drawn_comes_back_and_has_what_matters(space):
    X = space.sample(20, 1)
    params = space.decode(X)
    assert_array_equal(space.encode(params), X)
    assert np.all(space.contains(X))
    for row, p in zip(X, params, strict=True):
        full = {name: p.get(name) for name in space.names}
        expected = [name for name in space.names if matters(space, name, full)]
        assert list(p) == expected
        assert [name for name, x in zip(space.names, row, strict=True) if x >= 0] == expected
        assert all(x == -1 for name, x in zip(space.names, row, strict=True) if name not in p)


@given(spaces(), st.integers(0, 3))
def test_all_combinations(space, residue):
    finite = all(p.count is not None for p in space.parameters.values())
    if not finite or math.prod(p.count for p in space.parameters.values()) > 600:
        return

    def where(p):
        return len(told_apart(tuple(p.values()))) % 4 != residue

    grid = [[p.value(k) for k in range(p.count)] for p in space.parameters.values()]
    expected = {}
    for combination in itertools.product(*grid):
        full = dict(zip(space.names, combination, strict=True))
        params = {name: v for name, v in full.items() if matters(space, name, full)}
        if where(params):
            expected[told_apart(tuple(itertools.chain(*params.items())))] = params
    constrained = kl.Space(space.parameters, where=where)
    if not expected:
        with pytest.raises(ValueError, match="`where` must hold somewhere"):
            constrained.points()
        return
    found = constrained.points().params
    assert {told_apart(tuple(itertools.chain(*p.items()))) for p in found} == set(expected)
    assert len(found) == len(expected)
