"""Finitely many points of a space: all of them, Sobol' sets, grids, lists of the user's; as data in snapshots."""

from __future__ import annotations

import itertools
import json
import math
import pickle
import re

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.distance import cdist
from scipy.stats import qmc

import koloss as kl
from koloss.core.random import as_generator
from koloss.errors import NetTooLarge

MIXED = kl.Space(
    method=kl.Choice(["lru", "lfu", "none"]),
    rate=kl.Float(1e-3, 1.0, log=True),
    depth=kl.Int(1, 64, log=True, when={"method": ["lru", "lfu"]}),
    weight=kl.Float(-1.0, 2.0, when={"depth": 1}),
)


def sobol(dimension, seed):
    """SciPy's sequence, whose generator has had two names."""
    rng = as_generator(seed)
    try:
        return qmc.Sobol(dimension, rng=rng)
    except TypeError:
        return qmc.Sobol(dimension, seed=rng)


def test_few_combinations_are_all_there_in_order():
    space = kl.Space(a=kl.Int(1, 3), b=kl.Choice("xy"[i] for i in range(2)))
    points = space.points()
    assert [tuple(p.values()) for p in points.params] == list(itertools.product([1, 2, 3], "xy"))
    assert points.covering_radius == 0
    assert points.space is space
    assert len(space.points(6)) == 6
    assert len(space.points(5)) == 5
    constrained = kl.Space(space.parameters, where=lambda p: p["a"] + (p["b"] == "x") < 3)
    assert constrained.points().params == [{"a": 1, "b": "x"}, {"a": 1, "b": "y"}, {"a": 2, "b": "y"}]  # fmt: skip


def test_constraints_count_before_the_number_does():
    space = kl.Space(a=kl.Int(1, 200), b=kl.Int(1, 200), where=lambda p: p["a"] * p["b"] == 36)
    expected = [{"a": a, "b": 36 // a} for a in range(1, 37) if 36 % a == 0]
    assert space.points(100).params == expected
    some = space.points(5)
    assert len(some) == 5
    assert all(p in expected for p in some.params)


def test_many_combinations_are_a_sobol_set():
    space = kl.Space(a=kl.Float(0, 1), b=kl.Int(0, 999))
    points = space.points(256, rng=7)
    expected = sobol(2, 7).random(256)
    assert_allclose(points.X[:, 0], expected[:, 0], atol=1e-15)
    assert_array_equal([p["b"] for p in points.params], np.floor(1000 * expected[:, 1]))
    # Balanced as a net is: in each of 16 × 16 cells one point (t = 0 in two dimensions); draws are not.
    cells = {(math.floor(16 * a), math.floor(16 * b)) for a, b in expected}
    assert len(cells) == 256
    assert len({(math.floor(16 * a), math.floor(16 * b)) for a, b in space.sample(256, 7)}) < 200
    assert space.points(256, rng=7) == points
    assert space.points(256, rng=8) != points
    assert space.points() == space.points()
    assert len(space.points()) == 1024


def test_a_constraint_goes_on_in_the_sequence():
    parameters = {"a": kl.Float(0, 1), "b": kl.Float(0, 1)}
    space = kl.Space(parameters, where=lambda p: p["a"] < p["b"] / 2)
    points = space.points(100, rng=3)
    longer = kl.Space(parameters).points(1024, rng=3)
    kept = [p for p in longer.params if p["a"] < p["b"] / 2]
    assert points.params == kept[:100]


def test_points_are_different_and_belong():
    points = MIXED.points(300)
    assert len({row.tobytes() for row in points.X}) == len(points) == 300
    assert np.all(MIXED.contains(points.X))
    assert MIXED.decode(points.X) == points.params
    assert_array_equal(MIXED.encode(points.params), points.X)
    skewed = kl.Space(a=kl.Int(1, 1000, log=True), b=kl.Choice([0, 1]))
    many = skewed.points(1999)  # all but one: the last are hardly ever met by the sequence
    assert len({row.tobytes() for row in many.X}) == 1999


@pytest.mark.parametrize("space", [
    kl.Space(a=kl.Float(0, 1), b=kl.Float(0, 1)),
    kl.Space(a=kl.Float(0, 1), b=kl.Float(0, 1), where=lambda p: p["a"] < 0.2),
    kl.Space({f"x{i}": kl.Float(0, 1) for i in range(6)}),
    MIXED,
], ids=["square", "strip", "six", "mixed"])  # fmt: skip
def test_the_covering_radius_is_a_bound(space):
    points = space.points(64)
    X = space.sample(3000, 1)
    reached = cdist(X, points.X).min(axis=1).max()
    assert reached <= points.covering_radius <= space.diameter()
    if space.where is None:  # and not an idle one
        assert points.covering_radius < 3 * reached


@pytest.mark.parametrize("space", [
    kl.Space(a=kl.Float(0, 1), b=kl.Choice([1, 2, 3])),
    kl.Space(a=kl.Float(0, 1), b=kl.Float(0, 1), where=lambda p: p["a"] < 0.2),
    MIXED,
], ids=["choice", "strip", "mixed"])  # fmt: skip
@pytest.mark.parametrize("kernel", [lambda space: kl.Gaussian(0.5), lambda space: kl.Mixed(space, lengths=0.6, hamming=1.5)], ids=["Gaussian", "Mixed"])  # fmt: skip
def test_discretisation_is_a_bound(space, kernel):
    kernel, points = kernel(space), space.points(100)
    X = space.sample(2000, 1)
    reached = np.sqrt((2 - 2 * kernel(X, points.X)).min(axis=1).max())  # K(x, x) = 1
    bound = points.discretisation(kernel)
    assert reached <= bound
    if space.where is None:
        assert bound < 2.5 * reached


def test_discretisation_where_no_grid_fits():
    space = kl.Space({f"x{i}": kl.Choice(range(4)) for i in range(9)})
    points = space.points(64)
    assert points.covering_radius == space.diameter()
    assert points.discretisation(kl.Gaussian(1.0)) == 2
    with pytest.raises(TypeError, match="`kernel` must be a Kernel, got 'auto'"):
        points.discretisation("auto")
    assert kl.Space(a=kl.Int(1, 9)).points().discretisation(kl.Gaussian(1)) == 0


def test_a_list_of_ones_own():
    params = [{"method": "none", "rate": 0.123}, {"rate": 1, "method": "lru", "depth": 1, "weight": 0}]  # fmt: skip
    points = MIXED.points(params)
    assert points.params == params
    assert list(points.params[1]) == ["method", "rate", "depth", "weight"]
    assert [points.find(p) for p in params] == [0, 1]
    assert points.covering_radius == 0
    with pytest.raises(ValueError, match=r"`params` must be one of the 2 actions, got \{'method'"):
        points.find({"method": "none", "rate": 0.124})
    for bad, error, message in [
        ([*params, params[0]], ValueError, "`params` must be different, got those of row 0 in row 2"),
        ([], ValueError, "`params` must not be empty"),
        ([{"method": "none"}], ValueError, "`params` must have 'rate'"),
        ("none", TypeError, "`count` must be a whole number or a list of params, got 'none'"),
        (3.0, TypeError, "`count` must be a whole number or a list of params, got 3.0"),
        (True, TypeError, "`count` must be an integer, got True"),
        (0, ValueError, "`count` must be at least 1, got 0"),
    ]:  # fmt: skip
        with pytest.raises(error, match=re.escape(message)):
            MIXED.points(bad)


def test_constraints_that_hardly_ever_hold_are_refused():
    narrow = kl.Space(a=kl.Float(0, 1), b=kl.Float(0, 1), where=lambda p: p["a"] < 1e-4)
    message = r"`where` must hold for more than 0.1% of the space, got \d of 16,\d\d\d draws"
    for call in (narrow.points, lambda: narrow.sample(10, 0)):
        with pytest.raises(ValueError, match=message):
            call()
    never = kl.Space(a=kl.Int(1, 20), b=kl.Int(1, 20), where=lambda p: p["a"] > 20)
    with pytest.raises(ValueError, match="`where` must hold somewhere, got none of all 400"):
        never.points()
    rare = kl.Space(a=kl.Float(0, 1), b=kl.Float(0, 1), where=lambda p: p["a"] < 0.01)
    assert len(rare.points(50)) == len(rare.sample(50)) == 50
    few = kl.Space(a=kl.Float(1.0, math.nextafter(1.0, 2.0)))
    with pytest.raises(ValueError, match="`count` must be no more than different points are found"):
        few.points(16)


# Nets: that they cover is in the contract.


def test_nets_have_what_cannot_be_left_out():
    net = MIXED.net(0.25)
    assert {(p["method"], p.get("depth")) for p in net.params} == {
        *itertools.product(["lru", "lfu"], range(1, 65)), ("none", None)
    }  # fmt: skip
    space = kl.Space(a=kl.Int(0, 1000), b=kl.Ordinal(range(7)), c=kl.Int(1, 2**30, log=True))
    net = space.net(0.1)
    X = space.sample(3000, 0)
    assert cdist(X, net.X).min(axis=1).max() <= net.covering_radius <= 0.1
    assert len(net) < 20_000
    apart = np.abs(X[:, None] - net.X[None]) <= np.array(net.covering_widths) * (1 + 1e-9)
    assert np.all(np.any(np.all(apart, axis=2), axis=1))
    assert kl.ActionSet.from_dict(json.loads(json.dumps(net.net(0.5).to_dict()))) == net.net(0.5)


def test_nets_of_constraints():
    space = kl.Space(a=kl.Int(0, 100), b=kl.Int(0, 100), where=lambda p: p["a"] <= p["b"])
    net = space.net(0.2)
    assert all(p["a"] <= p["b"] for p in net.params)
    assert cdist(space.points(10**4).X, net.X).min(axis=1).max() <= net.covering_radius <= 0.2
    with pytest.raises(ValueError, match="`where` must be None for a net"):
        kl.Space(a=kl.Float(0, 1), where=lambda p: True).net(0.1)


def test_nets_that_are_too_large():
    for space in (
        kl.Space({f"x{i}": kl.Float(0, 1) for i in range(9)}),
        kl.Space(a=kl.Int(0, 2**40)),
        kl.Space(a=kl.Int(1, 2**40, log=True)),
        kl.Space(a=kl.Choice(range(300)), b=kl.Choice(range(300)), c=kl.Choice(range(3000))),
    ):
        with pytest.raises(NetTooLarge):
            space.net(1e-9 if space.dimension == 1 else 0.1)


# Snapshots.


def told(learner, rounds, rng):
    for _ in range(rounds):
        decision = learner.ask()
        learner.tell(decision, float(rng.random()))
    return learner


@pytest.mark.parametrize("where", [None, lambda p: p["rate"] < 0.5])
@pytest.mark.parametrize("learner", [kl.BanditExpWeights, kl.InsuredBandit])
def test_a_learner_on_points_of_a_space_goes_on_exactly(learner, where, tmp_path, rng):
    points = kl.Space(MIXED.parameters, where=where).points(30)
    first = learner(points, kl.Gaussian(0.5), horizon=200, loss_range=(0, 1), rng=1)
    told(first, 20, rng)
    kl.save_state(tmp_path / "state.npz", first.state())
    second = learner.from_state(kl.load_state(tmp_path / "state.npz"))
    kept = second.settings.actions
    assert isinstance(kept, kl.SpacePoints)
    assert kept.params == points.params
    assert_array_equal(kept.X, points.X)
    assert [first.ask().index for _ in range(30)] == [second.ask().index for _ in range(30)]


def test_a_constraint_is_not_kept_and_that_is_known():
    space = kl.Space(MIXED.parameters, where=lambda p: p["rate"] < 0.5)
    twin = kl.ActionSet.from_dict(json.loads(json.dumps(space.to_dict())))
    assert twin.parameters == space.parameters
    assert twin != space
    assert twin != MIXED
    params = {"method": "none", "rate": 0.1}
    assert twin.decode(twin.encode(params)) == [params]
    for call in (twin.points, lambda: twin.sample(3), lambda: twin.contains(twin.encode(params))):
        with pytest.raises(ValueError, match="`where` is a function, which snapshots do not keep"):
            call()
    again = kl.ActionSet.from_dict(twin.to_dict())
    assert again == twin


def test_points_as_data():
    odd = kl.Space({"__array__": kl.Choice([None, (1, "a"), True, 1]), "µ": kl.Float(0, 1, when={"__array__": [True, 1]})})  # fmt: skip
    points = odd.points([{"__array__": None}, {"__array__": True, "µ": 0.1 + 0.2}, {"__array__": (1, "a")}])  # fmt: skip
    data = json.loads(json.dumps(points.to_dict(), sort_keys=True))
    twin = kl.ActionSet.from_dict(data)
    assert twin == points
    assert repr(twin.params) == repr(points.params)  # True is not 1
    assert pickle.loads(pickle.dumps(points)) == points
    assert points != kl.Points(points.X)
    for change, message in [
        ({"params": data["params"][:2]}, "`params` must be those that matter in each row of `X`"),
        ({"params": [[None], [True, 0.7], [[1, "a"]]]}, "`X` must be what `space` encodes `params` to"),
        ({"X": [[0.0, -1.0], [0.9, 0.3], [0.3, -1.0]]}, "`X` must be what `space` encodes"),
        ({"X": [[0.0]]}, "`X` must have 2 columns, got 1"),
        ({"space": {"kind": "Ball", "dimension": 2}}, "in SpacePoints"),
    ]:  # fmt: skip
        with pytest.raises(ValueError, match=re.escape(message)):
            kl.ActionSet.from_dict(data | change)


@pytest.mark.parametrize(
    "data, message",
    [
        ({}, "a Space has `parameters` and `constrained`, got []"),
        ({"parameters": [], "more": 1}, "a Space has `parameters` and `constrained`, got ['more', 'parameters']"),
        ({"parameters": []}, "`parameters` must not be empty, in Space"),
        ({"parameters": 3}, "in Space"),
        ({"parameters": [["a", {"kind": "Ball", "dimension": 2}]]}, "`kind` must be one of Choice, Float, Int, Ordinal, got 'Ball'"),
        ({"parameters": [["a", {"kind": "Int", "low": 3, "high": 1}]]}, "`low` must not exceed `high`, got 3 > 1, in Int"),
        ({"parameters": [["a", {"kind": "Int", "low": 1}]]}, "`high` is missing among the parameters of Int"),
        ({"parameters": [["a", {"kind": "Int", "low": 1, "high": 2}]], "constrained": 1}, "`constrained` must be True or False, got 1"),
    ],
)  # fmt: skip
def test_bad_data(data, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        kl.ActionSet.from_dict({"kind": "Space", **data})


def test_subsets_keep_their_params():
    points = MIXED.points(200)
    some = points.net(1.0)
    assert isinstance(some, kl.SpacePoints)
    assert len(some) < 100
    assert some.params == MIXED.decode(some.X)
    with pytest.raises(TypeError, match="`space` must be a Space, got 3"):
        kl.SpacePoints(3)
    with pytest.raises(TypeError, match="`params` must be given where `X` is not"):
        kl.SpacePoints(MIXED)
