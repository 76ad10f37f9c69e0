"""The contract of every action set."""

from __future__ import annotations

import json
import math
import re

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.distance import cdist

import koloss as kl
from koloss import actions
from koloss.core.arrays import to_numpy

TREE = kl.Space(
    depth=kl.Int(1, 100, log=True, when={"method": ["lru", "lfu"]}),
    share=kl.Float(0.0, 0.5, when={"depth": 1, "threads": [7, 8]}),
    method=kl.Choice(["lru", "lfu", "none"]),
    threads=kl.Int(1, 8),
)

SETS = [
    kl.Ball(1),
    kl.Ball(2, 0.3),
    kl.Ball(3, 10.0),
    kl.Ball(5, 2.0),
    kl.Box([0], [1]),
    kl.Box([-1, 2], [1, 5]),
    kl.Box([-1, 2, 0], [1, 2, 0]),  # sides of length zero
    kl.Box([1, 1], [1, 1]),  # a single point
    kl.PositiveBall(1),
    kl.PositiveBall(2, 0.3),
    kl.PositiveBall(3, 2.0, [0.5, 0.0, 1.0]),
    kl.PositiveBall(5, 10.0, 3.0),
    kl.PositiveBall(2, 1.0, [0.6, 0.8]),  # a single point
    kl.Points([[0.5, 1.0]]),
    kl.Points([[0.0], [1.0], [1.0], [-3.0]]),
    kl.Points(np.random.default_rng(3).standard_normal((60, 3))),
    kl.Space(rate=kl.Float(1e-4, 1.0, log=True)),
    kl.Space({"where": kl.Int(-3, 12), "größe": kl.Float(0, 1, step=0.3)}, on=kl.Choice([True, 1])),
    TREE,
    kl.SpacePoints(TREE, X=TREE.sample(40, 1)),
    TREE.points([{"method": "none", "threads": 3}, {"method": "lru", "threads": 8, "depth": 1, "share": 0.25}]),
]  # fmt: skip

every = pytest.mark.parametrize("actions", SETS, ids=repr)
CONVEX = [s for s in SETS if not isinstance(s, (kl.Points, kl.Space))]
convex = pytest.mark.parametrize("actions", CONVEX, ids=repr)


def test_every_action_set_of_the_library_is_among_these():
    kinds = kl.ActionSet.kinds()
    concrete = {kind for kind in kinds.values() if kind.__module__.startswith("koloss.")}
    assert concrete == {type(s) for s in SETS}
    assert concrete == {kind for name, kind in kinds.items() if name in actions.__all__}


@every
def test_survives_json(actions):
    twin = kl.ActionSet.from_dict(json.loads(json.dumps(actions.to_dict())))
    assert twin == actions
    assert type(twin) is type(actions)


@convex
def test_is_a_frozen_value(actions):
    twin = eval(repr(actions), vars(kl).copy())
    assert twin == actions
    assert len({twin, actions}) == 1
    assert sum(actions == other for other in SETS) == 1
    for name in ("radius", "lower", "dimension"):
        with pytest.raises(AttributeError):
            setattr(actions, name, 3.0)


@every
def test_bounds_are_attained(actions, rng):
    lower, upper = actions.bounds()
    X = to_numpy(actions.sample(3000, rng))
    room = 1e-12 * actions.norm_bound()
    assert np.all(lower - room <= X)
    assert np.all(upper + room >= X)
    if isinstance(actions, kl.Space):
        assert_array_equal(X.min(axis=0).round(2), lower)
        assert_array_equal(X.max(axis=0).round(2), upper)
    elif not isinstance(actions, kl.Points):  # the ends of every side, moved into the set, stay
        inner = np.zeros_like(lower) if isinstance(actions, kl.Ball) else lower
        for i in range(len(lower)):
            for end in (lower[i], upper[i]):
                x = np.where(np.arange(len(lower)) == i, end, inner)
                assert actions.contains([x])[0], x


@every
def test_draws_are_members(actions, rng):
    X = actions.sample(300, rng)
    assert X.shape == (300, actions.dimension)
    assert np.all(actions.contains(X))
    assert actions.contains(X).dtype == bool
    assert actions.contains(X).shape == (300,)


@every
def test_draws_are_reproducible(actions):
    for make in (int, np.random.default_rng):
        assert_array_equal(actions.sample(5, make(11)), actions.sample(5, make(11)))
    generator = np.random.default_rng(11)
    first, second = actions.sample(50, generator), actions.sample(50, generator)
    if actions.diameter() > 0:
        assert not np.array_equal(first, second)
        assert not np.array_equal(actions.sample(50, 11), actions.sample(50, 12))


@every
def test_diameter_and_norm_bound_hold_for_draws(actions, rng):
    X = actions.sample(400, rng)
    assert cdist(X, X).max() <= actions.diameter() * (1 + 1e-12)
    assert np.linalg.norm(X, axis=1).max() <= actions.norm_bound() * (1 + 1e-12)


@every
def test_single_precision_members_are_members_and_far_points_are_not(actions, rng):
    assert np.all(actions.contains(actions.sample(200, rng).astype(np.float32)))
    assert not np.any(actions.contains(actions.sample(20, rng) + 3 * actions.norm_bound() + 1))


@every
def test_members_of_other_libraries(actions, xp, rng):
    X = actions.sample(10, rng)
    contains = actions.contains(xp.asarray(X))
    assert isinstance(contains, np.ndarray)
    assert np.all(contains)
    assert not np.any(actions.contains(xp.asarray(X + 100)))


@convex
def test_projection_is_the_nearest_point(actions, rng):
    X = 3 * rng.standard_normal((50, actions.dimension)) * actions.norm_bound()
    P = actions.project(X)
    assert np.all(actions.contains(P))
    # (x - Px)'(a - Px) <= 0 for every member a: the obtuse angle of a projection on a convex set
    A = np.concatenate([actions.sample(200, rng), P])
    angles = np.einsum("id,ijd->ij", X - P, A[None] - P[:, None])
    assert angles.max() <= 1e-9 * actions.norm_bound() ** 2
    inside = actions.sample(50, rng)
    assert_allclose(actions.project(inside), inside, rtol=1e-12)
    assert np.all(actions.contains(actions.project(np.zeros((1, actions.dimension)))))


@pytest.mark.parametrize("actions", [s for s in CONVEX if not isinstance(s, kl.PositiveBall)])
def test_volume(actions):
    d = actions.dimension
    if isinstance(actions, kl.Ball):
        unit = {1: 2, 2: math.pi, 3: 4 / 3 * math.pi, 5: 8 / 15 * math.pi**2}[d]
        expected = unit * actions.radius**d
    else:
        expected = math.prod(b - a for a, b in zip(actions.lower, actions.upper, strict=True))
    assert_allclose(actions.volume(), expected)


@every
def test_bad_points(actions):
    d = actions.dimension
    for X, error, message in [
        (np.ones(d), ValueError, "must be 2-D, got ndim=1; for scalar points pass a column"),
        (np.ones((2, d + 1)), ValueError, f"must have {d} columns, got {d + 1}"),
        (np.full((2, d), np.nan), ValueError, "must be finite, got NaN or infinity"),
    ]:
        with pytest.raises(error, match=re.escape("`X` " + message)):
            actions.contains(X)


@every
def test_bad_sizes_and_spacings(actions):
    for call, value, error, message in [
        (actions.sample, 0, ValueError, "`size` must be at least 1, got 0"),
        (actions.sample, 2.0, TypeError, "`size` must be an integer, got 2.0"),
        (actions.net, 0, ValueError, "`spacing` must be positive, got 0"),
        (actions.net, math.nan, ValueError, "`spacing` must be finite, got nan"),
        (actions.net, "fine", TypeError, "`spacing` must be a number, got 'fine'"),
    ]:
        with pytest.raises(error, match=message):
            call(value)


@every
def test_nets_cover(actions, rng):
    for spacing in (0.4 * actions.norm_bound(), 1.3 * actions.norm_bound()):
        net = actions.net(spacing)
        assert isinstance(net, kl.Points)
        X = actions.sample(500, rng)
        assert cdist(X, to_numpy(net.X)).min(axis=1).max() <= net.covering_radius * (1 + 1e-12)
        assert net.covering_radius <= spacing * (1 + 1e-9)
        assert np.all(actions.contains(net.X))


@pytest.mark.parametrize(
    "make, arguments, error, message",
    [
        (kl.Ball, (0,), ValueError, "`dimension` must be at least 1, got 0"),
        (kl.Ball, (2, -1), ValueError, "`radius` must be positive, got -1"),
        (kl.Box, ([0, 2], [1, 1]), ValueError, "`lower` must not exceed `upper`, got 2 > 1 at 1"),
        (kl.Box, ([0, 0], [1]), ValueError, "`upper` must have length 2, got 1"),
        (kl.Box, ([], []), ValueError, "`lower` must not be empty, got length 0"),
        (kl.Box, (0.0, 1.0), ValueError, "`lower` must be 1-D, got ndim=0"),
        (kl.Box, ([0], [math.inf]), ValueError, "`upper` must be finite, got NaN or infinity"),
        (kl.Box, (None, [1]), TypeError, "`lower` must be an array of numbers, got None"),
        (kl.Box.from_bounds, ([[0, 1], [1, 0]],), ValueError, "`bounds` must be pairs (low, high) with low <= high, got (1, 0) at 1"),
        (kl.Box.from_bounds, ([[0, 1, 2]],), ValueError, "`bounds` must have 2 columns, got 3"),
        (kl.PositiveBall, (2, math.inf), ValueError, "`radius` must be finite, got inf"),
        (kl.PositiveBall, (2, 1.0, -0.1), ValueError, "`lower` must be non-negative, got -0.1 at 0"),
        (kl.PositiveBall, (2, 1.0, [0.1]), ValueError, "`lower` must have length 2, got 1"),
        (kl.PositiveBall, (2, 1.0, [[0.1, 0.1]]), ValueError, "`lower` must be 1-D, got ndim=2"),
        (kl.PositiveBall, (2, 1.0, math.nan), ValueError, "`lower` must be finite, got nan"),
        (kl.PositiveBall, (2, 1.0, 0.8), ValueError, "`lower` must have a norm of at most the radius, 1, got 1.13137: the set is empty"),
        (lambda r: kl.Points([[1.0]], covering_radius=r), (-0.1,), ValueError, "`covering_radius` must be at least 0, got -0.1"),
        (lambda r: kl.Points([[1.0]], covering_radius=r), (math.nan,), ValueError, "`covering_radius` must be finite, got nan"),
    ],
)  # fmt: skip
def test_bad_arguments(make, arguments, error, message):
    with pytest.raises(error, match=re.escape(message)):
        make(*arguments)
