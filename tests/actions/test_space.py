"""Parameters and spaces: what is encoded comes back, conditions, constraints, bad input."""

from __future__ import annotations

import copy
import itertools
import math
import pickle
import re

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import koloss as kl
from tests.support.statistics import agrees, by_counts, by_share, differs

CACHE = kl.Space(
    depth=kl.Int(1, 3, when={"method": "lru"}),
    method=kl.Choice(["lru", "lfu", "none"]),
    share=kl.Float(0.1, 0.3, step=0.1, when={"depth": [1, 2]}),
    on=kl.Choice([True, 1, None, "1"]),
)


def by_hand(params):
    """Whether params belong to CACHE, written out."""
    expected = {"method", "on"}
    if params.get("method") == "lru":
        expected.add("depth")
        if params.get("depth") in (1, 2):
            expected.add("share")
    return set(params) == expected


# Floats.

ends = st.floats(-1e9, 1e9) | st.floats(-1e-9, 1e-9) | st.floats(-1e150, 1e150)
positive = st.floats(1e-9, 1e9) | st.floats(1e-150, 1e150)


@st.composite
def floats(draw):
    """A Float without steps, and a value of it."""
    log = draw(st.booleans())
    low, high = sorted(draw(st.tuples(*[positive if log else ends] * 2)))
    return kl.Float(low, high, log=log), draw(st.floats(low, high))


def back(parameter, value):
    space = kl.Space(x=parameter)
    (params,) = space.decode(space.encode({"x": value}))
    return params["x"]


@given(floats())
@example((kl.Float(0.001, 1, log=True), 0.1))
@example((kl.Float(1e6, 1e6 + 1e-3), 1e6 + 3e-4))
def test_floats_come_back_within_rounding_and_then_exactly(case):
    parameter, value = case
    once = back(parameter, value)
    if parameter.log:  # rounding of an exponent times its derivative
        room = 4 * (1 + math.log(parameter.high / parameter.low)) * math.ulp(value)
    else:
        room = 4 * math.ulp(max(-parameter.low, parameter.high))
    assert abs(once - value) <= room
    assert parameter.low <= once <= parameter.high
    assert back(parameter, once) == once
    for end in (parameter.low, parameter.high):
        assert back(parameter, end) == end


def test_whatever_was_decoded_comes_back():
    rng = np.random.default_rng(0)
    moved = 0
    for log, (low, high) in itertools.product([False, True], np.sort(10 ** rng.uniform(-6, 6, (20, 2)))):  # fmt: skip
        parameter = kl.Float(low, high, log=log)
        values = np.array(parameter.decode(rng.random(1000)))
        assert_array_equal(parameter.decode(parameter.encode(values)), values)
        # The plain formulas would not do: there and back is another number now and then.
        u = parameter.encode(values)
        once = low * np.exp(u * math.log(high / low)) if log else low + u * (high - low)
        moved += np.sum(once != values)
    assert moved > 100


@given(floats(), st.integers(1, 12))
def test_floats_of_twelve_digits_come_back_exactly(case, digits):
    parameter, value = case
    assume(parameter.high / parameter.low < 1e40 if parameter.log else True)
    if parameter.log:
        value = float(f"{value:.{digits}g}")
    else:
        scale = math.ceil(math.log10(max(-parameter.low, parameter.high, 1e-200)))
        value = round(value, digits - scale)
    assume(parameter.low <= value <= parameter.high)
    assume(0 < parameter.encode([value])[0] < 1)  # what rounds to an end comes back as the end
    assert back(parameter, value) == value


@given(floats(), st.floats(0, 1))
def test_positions_and_values_follow_the_formula(case, u):
    parameter, value = case
    assume(parameter.low < parameter.high)
    low, high = parameter.low, parameter.high
    space = kl.Space(x=parameter)
    place, (params,) = space.encode({"x": value})[0, 0], space.decode([[u]])
    if parameter.log:
        width = math.log(high) - math.log(low)
        assume(width > 1e-3)
        assert_allclose(place, (math.log(value) - math.log(low)) / width, atol=1e-9)
        assert_allclose(math.log(params["x"]), math.log(low) + u * width, rtol=1e-9, atol=1e-9)
    else:
        assert_allclose(place, (value - low) / (high - low), atol=1e-12)
        assert_allclose(params["x"], low + u * (high - low), atol=1e-12 * max(-low, high))
    assert 0 <= place <= 1


@given(
    st.integers(-(10**6), 10**6), st.integers(1, 10**5), st.integers(0, 10**5), st.integers(0, 6)
)
def test_steps_are_decimal(start, step, last, decimals):
    low, step = start / 10**decimals, step / 10**decimals
    parameter = kl.Float(low, low + (last + 0.4) * step, step=step)
    assert parameter.count == last + 1
    number = last // 2 + last % 3
    number = min(number, last)
    value = round(start / 10**decimals + number * step, decimals)
    assert back(parameter, value) == value
    assert back(parameter, low + number * step) == value  # with the rounding of the sum
    assert parameter.high == round(low + last * step, decimals)
    with pytest.raises(ValueError, match="in steps of"):
        kl.Space(x=parameter).encode({"x": low + (number + 0.5) * step})


def test_a_step_of_a_tenth():
    space = kl.Space(x=kl.Float(0, 1, step=0.1))
    assert [p["x"] for p in space.points().params] == [k / 10 for k in range(11)]
    assert kl.Float(0, 1, step=0.3).high == 0.9
    assert kl.Float(0, 1, step=2).count == 1


# Whole numbers.


@given(st.integers(-(2**70), 2**70), st.integers(0, 2**50 - 1), st.data())
def test_whole_numbers_come_back_exactly(low, width, data):
    parameter = kl.Int(low, low + width)
    for value in (low, low + width, data.draw(st.integers(low, low + width))):
        assert back(parameter, value) == value


@given(st.integers(1, 2**40), st.integers(1, 2**40), st.data())
@example(1, 2**40, None)
def test_whole_numbers_on_a_log_scale_come_back_exactly(one, other, data):
    low, high = sorted((one, other))
    middle = [] if data is None else [data.draw(st.integers(low, high))]
    for value in {low, high, max(high - 1, low), min(low + 1, high), *middle}:
        assert back(kl.Int(low, high, log=True), value) == value


def test_ends_and_neighbours_at_the_limits():
    top = kl.Int(1, 2**40, log=True)
    values = list(range(2**40 - 1000, 2**40 + 1))
    places = top.encode(values)
    assert np.all(np.diff(places) > 0)
    assert top.decode(places) == values
    wide = kl.Int(-(2**49), 2**49 - 1)
    values = [-(2**49), -(2**49) + 1, 0, 2**49 - 2, 2**49 - 1]
    assert wide.decode(wide.encode(values)) == values


# Spaces.


def test_params_are_refused_exactly_where_they_are_not_written_out():
    grid = {"depth": [1, 3, None], "method": ["lru", "none"], "share": [0.2, None], "on": [1]}
    accepted = 0
    for values in itertools.product(*grid.values()):
        params = {n: v for n, v in zip(grid, values, strict=True) if v is not None}
        if by_hand(params):
            accepted += 1
            CACHE.encode(params)
        else:
            with pytest.raises(ValueError, match=r"`params` must (not )?have"):
                CACHE.encode(params)
    assert accepted == 3  # lru with depth 1 and share, lru with depth 3, none


def test_columns_are_in_the_order_declared():
    X = CACHE.encode([{"method": "lru", "depth": 2, "share": 0.3, "on": None}, {"method": "none", "on": "1"}])  # fmt: skip
    assert_allclose(X, [[0.5, 0, 1, 2 / 3], [-1, 1, -1, 1]])
    assert list(CACHE.decode(X)[0]) == list(CACHE.names) == ["depth", "method", "share", "on"]


def test_rows_decode_to_the_nearest_values():
    space = kl.Space(a=kl.Int(0, 10), b=kl.Ordinal(["small", "medium", "large"]))
    assert space.decode([[0.14, 0.7], [0.99, 0.2]]) == [{"a": 1, "b": "medium"}, {"a": 10, "b": "small"}]  # fmt: skip
    with pytest.raises(ValueError, match=r"`X` must be from 0 to 1 .* got 1.2 for 'a' in row 1"):
        space.decode([[0.5, 0.5], [1.2, 0.5]])
    with pytest.raises(ValueError, match=r"got -1 for 'depth' in row 0"):
        CACHE.decode([[-1, 0, -1, 0]])


def test_conditions_and_constraints_meet_in_contains():
    space = kl.Space(CACHE.parameters, where=lambda p: p.get("depth") != 2)
    assert CACHE.contains([[0.5, 0, 1, 0], [1, 0, -1, 0], [1, 0, 0.5, 0], [-1, 1, -1, 0.3]]).tolist() == [True, True, False, False]  # fmt: skip
    assert space.contains([[0.5, 0, 1, 0], [1, 0, -1, 0]]).tolist() == [False, True]
    with pytest.raises(ValueError, match="`params` must be allowed by `where`"):
        space.encode({"method": "lru", "depth": 2, "share": 0.1, "on": 1})


def test_draws_are_even_along_each_scale():
    space = kl.Space(a=kl.Int(1, 5), b=kl.Choice(list("xyz")), c=kl.Float(1, 100, log=True))
    drawn = space.decode(space.sample(20_000, 5))

    def counts(name, values):
        return [sum(p[name] == v for p in drawn) for v in values]

    assert agrees(by_counts(counts("a", range(1, 6))))
    assert agrees(by_counts(counts("b", "xyz")))
    assert agrees(by_share(sum(p["c"] > 10 for p in drawn), 20_000, 0.5))
    assert differs(by_share(sum(p["c"] > 50.5 for p in drawn), 20_000, 0.5))  # were it linear


def test_log_draws_of_whole_numbers_follow_the_logarithm():
    drawn = kl.Space(n=kl.Int(1, 100, log=True)).sample(20_000, 3)[:, 0]
    values = np.array(kl.Int(1, 100, log=True).decode(drawn))
    k = np.array([1, 2, 10, 100])
    shares = np.log((k + 0.5) / (k - 0.5)) / math.log(100.5 / 0.5)
    assert agrees(by_share(np.sum(values[:, None] == k, axis=0), 20_000, shares))


def test_equality_hash_text_and_copies():
    assert kl.Choice([True]) != kl.Choice([1])
    assert kl.Choice([1]) == kl.Choice([1.0])
    assert kl.Choice([1, 2]) != kl.Ordinal([1, 2])
    assert kl.Space(a=kl.Int(1, 2), b=kl.Int(1, 3)) != kl.Space(b=kl.Int(1, 3), a=kl.Int(1, 2))
    names = {name: getattr(kl, name) for name in ("Space", "Float", "Int", "Choice", "Ordinal")}
    odd = kl.Space({"where": kl.Int(1, 2), "größe in µm": kl.Float(1, 2, log=True), "class": kl.Choice([(1, "a"), None]), "b": kl.Int(1, 2, when={"class": [(1, "a")]})})  # fmt: skip
    for space in (CACHE, odd):
        twins = [eval(repr(space), names), copy.deepcopy(space), pickle.loads(pickle.dumps(space))]
        assert all(twin == space and hash(twin) == hash(space) for twin in twins)
    with pytest.raises(AttributeError, match=r"`low` of Int\(1, 2\) cannot be changed"):
        kl.Int(1, 2).low = 3
    assert repr(kl.Space(a=kl.Int(1, 2), where=bool)) == "Space(a=Int(1, 2), where=...)"
    assert repr(CACHE.parameters["share"]) == "Float(0.1, 0.3, step=0.1, when={'depth': [1, 2]})"


def test_numpy_values_become_plain():
    space = kl.Space(a=kl.Int(1, 5), b=kl.Choice(np.array(["x", "y"])), c=kl.Float(0, 1))
    p = {"a": np.int64(3), "b": np.str_("y"), "c": np.float32(0.5)}
    (plain,) = space.check(p)
    assert plain == {"a": 3, "b": "y", "c": 0.5}
    assert [type(v) for v in plain.values()] == [int, str, float]
    tuples = kl.Space(layers=kl.Choice([[64], [64, 64]]), x=kl.Int(1, 2, when={"layers": [[64]]}))
    assert tuples.decode(tuples.encode({"layers": [64, 64]})) == [{"layers": (64, 64)}]
    assert tuples.decode(tuples.encode({"layers": (64,), "x": 2})) == [{"layers": (64,), "x": 2}]


def test_conditions_on_steps_hold_by_value():
    space = kl.Space(x=kl.Float(0, 1, step=0.1), y=kl.Int(1, 2, when={"x": 0.1 + 0.2}))
    assert_allclose(space.encode({"x": 0.3, "y": 2}), [[0.3, 1]])


# Bad input.

BAD = [
    (lambda: kl.Float(1, 0), ValueError, "`low` must not exceed `high`, got 1.0 > 0.0"),
    (lambda: kl.Float(math.nan, 1), ValueError, "`low` must be finite, got nan"),
    (lambda: kl.Float(0, 1e200), ValueError, "`high` must be at most 1e+152 in size, got 1e+200"),
    (lambda: kl.Float(0, 1, log=True), ValueError, "`low` must be positive on a log scale, got 0"),
    (lambda: kl.Float(1e-200, 1, log=True), ValueError, "`low` must be at least 1e-152 on a log scale, got 1e-200"),
    (lambda: kl.Float(0, 1, log=1), TypeError, "`log` must be True or False, got 1"),
    (lambda: kl.Float(0, 1, step=0), ValueError, "`step` must be positive, got 0"),
    (lambda: kl.Float(1, 2, step=0.1, log=True), ValueError, "`step` must be None on a log scale, got 0.1"),
    (lambda: kl.Float(1e9, 1e9 + 1, step=1e-7), ValueError, "`step` must leave values apart, got 1e-07"),
    (lambda: kl.Float(0, 1, step=1e-16), ValueError, "`step` must leave values apart"),
    (lambda: kl.Int(3, 1), ValueError, "`low` must not exceed `high`, got 3 > 1"),
    (lambda: kl.Int(1.0, 3), TypeError, "`low` must be an integer, got 1.0"),
    (lambda: kl.Int(0, 3, log=True), ValueError, "`low` must be at least 1 on a log scale, got 0"),
    (lambda: kl.Int(0, 2**60), ValueError, "`high` must be less than 2**50 above `low`"),
    (lambda: kl.Int(1, 2**60, log=True), ValueError, "`high` must be at most 2**40 on a log scale"),
    (lambda: kl.Choice([]), ValueError, "`values` must not be empty"),
    (lambda: kl.Choice("abc"), TypeError, "`values` must be a list of values, got 'abc'"),
    (lambda: kl.Choice(["a", "b", "a"]), ValueError, "`values` must be different, got 'a' twice"),
    (lambda: kl.Choice([1, 1.0]), ValueError, "`values` must be different, got 1"),
    (lambda: kl.Choice([math.nan]), ValueError, "`values` must be finite, got nan"),
    (lambda: kl.Choice([{}]), TypeError, "`values` must be None, True, False, numbers, text or tuples of these, got {}"),
    (lambda: kl.Ordinal(["\ud800"]), ValueError, "`values` must be text that can be written"),
    (lambda: kl.Int(1, 2, when={}), ValueError, "`when` must name a parameter, got none"),
    (lambda: kl.Int(1, 2, when="a"), TypeError, "`when` must map names to values, got 'a'"),
    (lambda: kl.Int(1, 2, when={"a": []}), ValueError, "`when` must not be empty"),
    (lambda: kl.Int(1, 2, when={3: 1}), TypeError, "`when` must be text, got 3"),
    (kl.Space, ValueError, "`parameters` must not be empty"),
    (lambda: kl.Space([kl.Int(1, 2)]), TypeError, "`parameters` must map names to parameters"),
    (lambda: kl.Space({"": kl.Int(1, 2)}), ValueError, "`parameters` must have names that are not empty"),
    (lambda: kl.Space({3: kl.Int(1, 2)}), TypeError, "`parameters` must be text, got 3"),
    (lambda: kl.Space(a=3), TypeError, "`a` must be a Float, Int, Choice or Ordinal, got 3"),
    (lambda: kl.Space({"a": kl.Int(1, 2)}, a=kl.Int(1, 2)), ValueError, "`a` must be given once, got it twice"),
    (lambda: kl.Space(where=kl.Int(1, 2)), TypeError, "`where` must be a function of params: a parameter of that name goes into a dict"),
    (lambda: kl.Space(a=kl.Int(1, 2), where=3), TypeError, "`where` must be a function of params, got 3"),
    (lambda: kl.Space(a=kl.Int(1, 2, when={"b": 1})), ValueError, "`when` of 'a' must name one of a, got 'b'"),
    (lambda: kl.Space(a=kl.Int(1, 2, when={"a": 1})), ValueError, "`when` must not lead back to where it began, as among 'a'"),
    (lambda: kl.Space(a=kl.Int(1, 2, when={"b": 1}), b=kl.Int(1, 2, when={"a": 1}), c=kl.Int(1, 2)), ValueError, "as among 'a', 'b'"),
    (lambda: kl.Space(a=kl.Int(1, 2, when={"b": 3}), b=kl.Int(1, 2)), ValueError, "`when` of 'a' can never hold: `b` must be at most 2, got 3"),
    (lambda: kl.Space(a=kl.Int(1, 2, when={"b": True}), b=kl.Choice([1, 0])), ValueError, "`when` of 'a' can never hold: `b` must be one of 1, 0, got True"),
    (lambda: kl.Space(a=kl.Int(1, 2, when={"b": 0.5}), b=kl.Float(0, 1)), ValueError, "`when` of 'a' must be on a parameter with finitely many values, got 'b'"),
    (lambda: kl.Space(a=kl.Int(1, 2, when={"b": 1, "c": 2}), b=kl.Int(1, 2, when={"c": 1}), c=kl.Int(1, 2)), ValueError, "`when` of 'a' can never hold: no value of 'c' is left"),
]  # fmt: skip


@pytest.mark.parametrize("make, error, message", BAD)
def test_bad_declarations(make, error, message):
    with pytest.raises(error, match=re.escape(message)):
        make()


GOOD = {"method": "lru", "depth": 2, "share": 0.1, "on": 1}


@pytest.mark.parametrize(
    "params, error, message",
    [
        (3, TypeError, "`params` must be a dict or a list of dicts, got 3"),
        ([], ValueError, "`params` must not be empty"),
        ([GOOD, 3], TypeError, "`params` must be a dict or a list of dicts, got 3"),
        ({"method": "none"}, ValueError, "`params` must have 'on', got {'method': 'none'}"),
        (GOOD | {"mode": 1}, ValueError, "`params` must have names among depth, method, share, on, got 'mode'"),
        (GOOD | {"method": "none"}, ValueError, "`params` must not have 'depth', which matters only when 'method' is 'lru'"),
        (GOOD | {"depth": 3}, ValueError, "`params` must not have 'share', which matters only when 'depth' is 1 or 2"),
        (GOOD | {"depth": 2.0}, TypeError, "`depth` must be an integer, got 2.0"),
        (GOOD | {"depth": 4}, ValueError, "`depth` must be at most 3, got 4"),
        (GOOD | {"share": 0.15}, ValueError, "`share` must be from 0.1 to 0.3 in steps of 0.1, got 0.15"),
        (GOOD | {"share": math.nan}, ValueError, "`share` must be finite, got nan"),
        (GOOD | {"on": False}, ValueError, "`on` must be one of True, 1, None, '1', got False"),
        (GOOD | {"on": math.nan}, ValueError, "`on` must be finite, got nan"),
    ],
)  # fmt: skip
def test_bad_params(params, error, message):
    with pytest.raises(error, match=re.escape(message)):
        CACHE.encode(params)


def test_what_where_may_return_and_raise():
    for returned in (None, 1, "yes"):
        space = kl.Space(a=kl.Int(1, 3), where=lambda p, r=returned: r)
        with pytest.raises(TypeError, match="`where` must return True or False, got"):
            space.encode({"a": 1})
    space = kl.Space(a=kl.Int(1, 3), where=lambda p: p["b"])
    with pytest.raises(KeyError) as caught:
        space.encode({"a": 1})
    assert caught.value.__notes__ == ["in `where` of a Space, for {'a': 1}"]
    space = kl.Space(a=kl.Int(1, 3), where=lambda p: p.clear() is None)
    assert space.decode(space.encode({"a": 2})) == [{"a": 2}]  # it is given a copy
    assert kl.Space(a=kl.Int(1, 3), where=lambda p: np.True_).sample(3, 0).shape == (3, 1)
