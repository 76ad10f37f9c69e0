"""Nets, by brute force: every point of the set is near the net, and the net stays inside."""

from __future__ import annotations

import itertools
import math
import re

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial import KDTree
from scipy.spatial.distance import pdist

import koloss as kl
from koloss.errors import NetTooLarge

ROUNDING = 1 + 1e-9


def witnesses(actions, rng):
    """Points of the set where a net is most likely to leave a gap."""
    d, inside = actions.dimension, actions.sample(3000, rng)
    if isinstance(actions, kl.Ball):
        edge = actions.project(1e3 * actions.radius * rng.standard_normal((3000, d)))
        return np.concatenate(
            [inside, edge, actions.radius * np.eye(d), -actions.radius * np.eye(d)]
        )
    # Onto the faces: one coordinate of each point is moved to an end of its range, or below it.
    faces, axis = actions.sample(2000, rng), rng.integers(d, size=2000)
    if isinstance(actions, kl.PositiveBall):
        far = np.abs(rng.standard_normal((3000, d))) * (rng.random((3000, d)) < 0.7)
        edge = actions.project(1e3 * actions.radius * far)
        faces[np.arange(2000), axis] = 0.0
        return np.concatenate([inside, edge, [actions.lower], actions.project(faces)])
    sides = list(zip(actions.lower, actions.upper, strict=True))
    faces[np.arange(2000), axis] = np.array(sides)[axis, rng.integers(2, size=2000)]
    return np.concatenate([inside, list(itertools.product(*sides)), faces])


def check(actions, spacing, rng):
    d = actions.dimension
    net = actions.net(spacing)
    X = net.X
    # inside, and without duplicates
    assert np.all(actions.contains(X))
    if len(X) > 1:
        assert KDTree(X).query(X, k=2)[0][:, 1].min() > 1e-9 * actions.norm_bound()
    # near everything
    gaps, _ = KDTree(X).query(witnesses(actions, rng))
    assert gaps.max() <= net.covering_radius * ROUNDING
    # both promises about the covering radius
    assert net.covering_radius <= spacing * ROUNDING
    assert net.covering_radius <= spacing * math.sqrt(d) / 2 * ROUNDING
    return net, gaps.max()


@pytest.mark.parametrize(
    "d, spacings",
    [
        (1, [0.01, 0.3, 0.5, 2 / 3, 1.0, 5.0]),
        (2, [0.05, 0.31, 0.5, 1.0, 3.0]),
        (3, [0.2, 0.5, 1.0, 2.0]),
        (4, [0.5, 0.7, 1.0, 2.0]),
        (5, [0.8, 1.0, 1.7]),
    ],
)
@pytest.mark.parametrize("radius", [0.1, 30.0])
def test_ball(d, spacings, radius, rng):
    for spacing in spacings:
        check(kl.Ball(d, radius), spacing * radius, rng)


@pytest.mark.parametrize(
    "lower, upper",
    [
        ([0], [1]),
        ([-3], [0.7]),
        ([0, 0], [1, 1]),
        ([-1, 5], [2, 5.5]),
        ([0, 0, 0], [1, 2, 0.5]),
        ([0, 1, 0], [1, 1, 2]),  # a side of length zero
        ([0, 1, 2], [0, 1, 2]),  # a point
        ([0] * 4, [1] * 4),
        ([0] * 5, [1, 1, 0, 1, 0.3]),
        ([1e6, 0], [1e6 + 1, 1]),
    ],
)
@pytest.mark.parametrize("spacing", [0.25, 0.37, 4.0])
def test_box(lower, upper, spacing, rng):
    box = kl.Box(lower, upper)
    net, _ = check(box, spacing, rng)
    # neighbours along an axis are at most one spacing apart, and the ends are in
    for i, (a, b) in enumerate(zip(box.lower, box.upper, strict=True)):
        axis = np.unique(net.X[:, i])
        assert axis[0] == a
        assert axis[-1] == b
        assert np.all(np.diff(axis) <= spacing * ROUNDING)


@pytest.mark.parametrize(
    "d, lower, spacings",
    [
        (1, 0.0, [0.01, 0.3, 5.0]),
        (1, 0.3, [0.01, 0.3, 5.0]),
        (2, 0.0, [0.05, 0.31, 1.0]),
        (2, 0.25, [0.05, 0.31, 1.0]),
        (2, [0.05, 0.9], [0.02, 0.1, 0.5]),
        (3, 0.0, [0.1, 0.37, 2.0]),
        (3, [0.1, 0.8, 0.3], [0.05, 0.2, 0.7]),
        (4, 0.2, [0.25, 0.6]),
        (5, [0.0, 0.0, 0.9, 0.0, 0.1], [0.2, 0.6]),
    ],
    ids=str,
)
def test_positive_ball(d, lower, spacings, rng):
    for spacing in spacings:
        check(kl.PositiveBall(d, 30.0, 30.0 * np.asarray(lower)), 30.0 * spacing, rng)


def test_covering_radius_of_a_box_is_exact():
    # The centre of a cell is the farthest point, at half the diagonal.
    net = kl.Box([0, 0], [1, 3]).net(0.5)
    assert_allclose(net.covering_radius, math.hypot(0.5, 0.5) / 2)
    assert_allclose(np.linalg.norm(net.X - [0.25, 0.25], axis=1).min(), net.covering_radius)


@pytest.mark.parametrize("d, spacing", [(2, 0.1), (3, 0.25)])
def test_covering_radius_of_a_ball_is_nearly_attained(d, spacing, rng):
    net, gap = check(kl.Ball(d), spacing, rng)
    assert gap >= 0.8 * net.covering_radius


def test_exact_division_adds_no_cell():
    # 1 / 0.1 is not 10 in floating point, yet eleven points are enough.
    assert len(kl.Box([0], [1]).net(0.1)) == 11
    assert len(kl.Box([0], [0.3]).net(0.1)) == 4
    assert len(kl.Box([0, 0], [1, 0]).net(0.1)) == 11
    # Nor is the difference of ends far from zero, where they are rounded.
    rng = np.random.default_rng(0)
    for low in 1e5 * rng.random(200):
        assert len(kl.Box([low], [low + 0.7]).net(0.07)) == 11


def test_no_duplicates():
    # A single point is its own net.
    net = kl.Box([2, 3], [2, 3]).net(0.1)
    assert_array_equal(net.X, [[2, 3]])
    assert net.covering_radius == 0.0
    # The spacing is below rounding.
    assert_array_equal(kl.Box([1e16], [1e16 + 4]).net(0.1).X[:, 0], 1e16 + np.array([0, 2, 4]))
    # In four dimensions the shell that is projected is a step thick: two points may share a ray.
    for spacing in (0.5, 1.0):
        assert pdist(kl.Ball(4).net(spacing).X).min() > 1e-3


@pytest.mark.parametrize("d", [1, 3, 4, 6])
def test_spacing_far_above_the_size(d):
    for actions in (kl.Ball(d, 1e-100), kl.Box([0] * d, [1e-100] * d)):
        net = actions.net(1e100)
        assert np.all(actions.contains(net.X))
        assert len(net) <= 2**d


def test_points_net_against_brute_force(rng):
    X = np.concatenate([rng.uniform(size=(200, 2)), np.full((5, 2), 0.5)])
    actions = kl.Points(X, covering_radius=0.01)
    for spacing in (1e-6, 0.05, 0.3, 5.0):
        net = actions.net(spacing)
        gaps = np.linalg.norm(X[:, None] - net.X[None], axis=2).min(axis=1)
        assert gaps.max() <= spacing
        assert_allclose(net.covering_radius, gaps.max() + 0.01)
        assert len(np.unique(net.X, axis=0)) == len(net)  # the five twins are one
        assert len(net) == 1 or pdist(net.X).min() > spacing  # nothing superfluous
        assert np.all(actions.contains(net.X))
    assert len(actions.net(1e-6)) == 201
    assert len(actions.net(5.0)) == 1


@pytest.mark.parametrize(
    "actions, spacing",
    [
        (kl.Box([0, 0], [1, 2]), 0.1),
        (kl.Ball(2), 0.1),
        (kl.Ball(1, 3.0), 0.1),
        (kl.Ball(3), 0.4),
        (kl.PositiveBall(2), 0.1),
        (kl.PositiveBall(3, 2.0, 0.5), 0.2),
        (kl.Points(np.arange(20.0)[:, None]), 1.5),
    ],
    ids=repr,
)
def test_max_bytes_is_honoured_to_the_byte(actions, spacing):
    net = actions.net(spacing)
    size = net.X.nbytes
    assert actions.net(spacing, max_bytes=size) == net
    with pytest.raises(NetTooLarge) as caught:
        actions.net(spacing, max_bytes=size - 1)
    # the number of points (for a ball, a lower bound) is carried and printed
    assert len(net) / (1 if isinstance(actions, kl.Box) else 4) <= caught.value.points <= len(net)
    message, count = str(caught.value), f"{caught.value.points:.15g} points"
    assert message.startswith(f"`spacing` of {spacing:.6g} gives a net of {count}")
    assert f"more than {size - 1} bytes; use a larger spacing or raise `max_bytes`" in message


@pytest.mark.parametrize(
    "actions, spacing",
    [
        (kl.Ball(3), 1e-5),
        (kl.Ball(500), 0.1),
        (kl.Ball(2, 1e150), 1e-150),
        (kl.Ball(1), 5e-324),
        (kl.PositiveBall(3), 1e-5),
        (kl.PositiveBall(300, 1.0, 0.01), 0.01),
        (kl.PositiveBall(1, 1.0, 0.5), 5e-324),
        (kl.PositiveBall(2, 1.0, [0.0, 1 - 1e-12]), 1e-20),
        (kl.Box([0] * 3, [1] * 3), 1e-5),
        (kl.Box([0] * 400, [1] * 400), 0.1),
        (kl.Box([0], [1]), 5e-324),
    ],
    ids=lambda v: re.sub(r"(.{20}).*", r"\1", repr(v)),
)
def test_hopeless_nets_are_refused_at_once(actions, spacing):
    with pytest.raises(NetTooLarge, match=r"`spacing` of .* gives a net of .* points") as caught:
        actions.net(spacing)
    assert caught.value.points > 1e14
    assert isinstance(caught.value, ValueError)


def test_a_box_takes_one_spacing_for_each_coordinate():
    box = kl.Box([0, 20, 3], [1, 80, 3])
    net = box.net([0.25, 15.0, 1.0])
    assert [np.unique(c).tolist() for c in net.X.T] == [
        [0, 0.25, 0.5, 0.75, 1],
        [20, 35, 50, 65, 80],
        [3],
    ]
    assert net.covering_widths == (0.125, 7.5, 0.0)
    assert net.covering_radius == pytest.approx(np.hypot(0.125, 7.5))
    # Every action is in the cell of a point, and some action is at its corner.
    X = np.concatenate([box.sample(500, 0), [[0.125, 27.5, 3.0]]])
    far = np.abs(X[:, None, :] - net.X[None]) / np.array([0.125, 7.5, 1.0])
    assert far.max(axis=2).min(axis=1).max() == pytest.approx(1.0)
    assert box.net(0.5).covering_widths is None
    for bad, message in [
        ([0.1, 0.1], "`spacing` must have length 3, got 2"),
        ([0.1, 0.0, 1.0], "`spacing` must be positive, got 0"),
    ]:
        with pytest.raises(ValueError, match=message):
            box.net(bad)
    with pytest.raises(NetTooLarge, match=r"`spacing` of \(1e-05, 1e-05, 1\) gives a net of"):
        box.net([1e-5, 1e-5, 1.0])


def test_cells_of_a_net_survive_plain_data_and_repr():
    net = kl.Box([0], [1]).net([0.5])
    twin = kl.Points.from_dict(net.to_dict())
    assert twin == net
    assert twin.covering_widths == (0.25,)
    assert eval(repr(net), {"Points": kl.Points}) == net
    assert kl.Points(net.X, covering_radius=0.25) != net
    assert "covering_widths" not in kl.Points(net.X).to_dict()
    with pytest.raises(ValueError, match="`covering_widths` must be at least 0, got -1"):
        kl.Points(net.X, covering_widths=[-1.0])
    with pytest.raises(ValueError, match="`covering_widths` must have length 1, got 2"):
        kl.Points(net.X, covering_widths=[1.0, 2.0])
