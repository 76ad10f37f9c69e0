"""The kernel on mixed spaces: positive semidefinite on all rows, with an explicit embedding as a second computation."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import koloss as kl
from koloss.kernels.mixed import KINDS


def rows(kinds, size, rng):
    """Encoded rows: numbers in the unit interval, some of them at its ends, choices of up to five, a third of conditional ones inactive."""
    columns = []
    for kind in kinds:
        if kind.endswith("choice"):
            column = rng.integers(5, size=size) / 4
        else:
            column = np.clip(rng.uniform(-0.2, 1.2, size), 0, 1)
        if kind.startswith("conditional"):
            column = np.where(rng.random(size) < 1 / 3, -1.0, column)
        columns.append(column)
    return np.stack(columns, axis=1)


def least_eigenvalue(gram):
    spectrum = np.linalg.eigvalsh(gram)
    return spectrum[0] / spectrum[-1]


lengths = st.floats(0.02, 20.0)


@pytest.mark.slow
@given(
    kinds=st.lists(st.sampled_from(KINDS), min_size=1, max_size=6),
    length=lengths,
    hamming=st.floats(1e-3, 50.0),
    shared=st.floats(0.0, 1.0),
    smoothness=st.sampled_from([None, 0.5, 2.5]),
    seed=st.integers(0, 2**32),
)
def test_is_positive_semidefinite_on_all_rows(kinds, length, hamming, shared, smoothness, seed):
    kernel = kl.Mixed(kinds, length, hamming, shared, smoothness)
    X = rows(kinds, 60, np.random.default_rng(seed))
    gram = kernel(X)
    assert least_eigenvalue(gram) >= -1e-13 * len(X)
    assert_allclose(np.diag(gram), 1.0)
    assert gram.min() >= 0
    assert gram.max() <= 1


def test_with_the_kernel_itself_for_active_values_it_would_not_be():
    """The negative control: 1 where both are inactive, a constant where one is, the Gaussian kernel where none is."""
    x = np.concatenate([[-1.0], np.linspace(0, 1, 60)])
    for constant in (0.3, 0.5, math.exp(-0.1)):
        naive = np.exp(-((x[:, None] - x) ** 2) / (2 * 0.02**2))
        naive[0, 1:] = naive[1:, 0] = constant
        # Twenty actions that have nothing to do with each other cannot all be near to one.
        assert least_eigenvalue(naive) < -0.01
        sound = kl.Mixed(["conditional number"], 0.02, shared=constant**2)(x[:, None])
        assert_allclose(sound[0, 1:], constant)
        assert least_eigenvalue(sound) >= -1e-14


def embedded(kinds, X, shared, bandwidth, hamming):
    """Φ of choices alone, written out: indicators, and one coordinate in common."""
    phi = np.ones((len(X), 1))
    e = math.exp(-hamming)
    for i, kind in enumerate(kinds):
        same = np.eye(5)[np.rint(4 * np.abs(X[:, i])).astype(int)]
        psi = np.column_stack([np.full(len(X), math.sqrt(e)), math.sqrt(1 - e) * same])
        if kind.startswith("conditional"):
            active = X[:, i] >= 0
            apart = np.where(active, math.sqrt(shared), 1.0)
            own = np.where(active, math.sqrt(1 - shared), 0.0)
            psi = np.column_stack([apart, own[:, None] * psi])
        phi = (phi[:, :, None] * psi[:, None, :]).reshape(len(X), -1)
    return phi


@pytest.mark.parametrize("kinds", [k for n in (1, 2, 3) for k in itertools.product(KINDS[1::2], repeat=n)])  # fmt: skip
def test_choices_have_the_features_of_the_docstring(kinds, rng):
    X, Y = rows(kinds, 20, rng), rows(kinds, 15, rng)
    for shared, hamming in ((0.0, 0.5), (0.3, 2.0), (1.0, 0.1)):
        kernel = kl.Mixed(kinds, hamming=hamming, shared=shared)
        phi, psi = (embedded(kinds, Z, shared, 0.5, hamming) for Z in (X, Y))
        assert_allclose(kernel(X, Y), phi @ psi.T, rtol=1e-12)


def test_numbers_alone_are_a_gaussian_kernel(rng):
    X = rng.random((20, 3))
    kernel = kl.Mixed(("number",) * 3, lengths=(0.2, 0.5, 2.0))
    twin = kl.Gaussian((0.2, 0.5, 2.0))
    assert_allclose(kernel(X), twin(X), rtol=1e-13)
    points = kl.Points(X)
    assert kernel.lipschitz(points) == twin.lipschitz(points)
    assert kernel.modulus(0.3, points) == pytest.approx(twin.modulus(0.3, points), rel=1e-13)
    widths = (0.1, 0.0, 0.3)
    cell = twin.cell_modulus(widths, points)
    assert kernel.cell_modulus(widths, points) == pytest.approx(cell, rel=1e-13)


def test_one_matern_coordinate_is_a_matern_kernel(rng):
    X = rng.random((20, 1))
    kernel = kl.Mixed(["number"], 0.3, smoothness=1.5)
    assert_allclose(kernel(X), kl.Matern(1.5, 0.3)(X), rtol=1e-13)
    points = kl.Points(X)
    assert kernel.lipschitz(points) == kl.Matern(1.5, 0.3).lipschitz(points)


def test_each_number_and_each_choice_has_a_scale_of_its_own():
    kinds = ("choice", "number", "conditional choice", "number")
    kernel = kl.Mixed(kinds, lengths=(0.5, 2.0), hamming=(1.0, 3.0), shared=0.0)
    x = np.zeros((1, 4))
    steps = kernel(x, np.eye(4))[0]
    expected = [math.exp(-1), math.exp(-2), math.exp(-3), math.exp(-1 / 8)]
    assert_allclose(steps, expected, rtol=1e-14)
    wider = kernel.rescaled((1.0, 2.0, 2.0, 0.5))
    expected = [math.exp(-1), math.exp(-1 / 2), math.exp(-3 / 4), math.exp(-1 / 2)]
    assert_allclose(wider(x, np.eye(4))[0], expected, rtol=1e-14)
    assert wider.rescaled((1.0, 0.5, 0.5, 2.0)) == kernel


def test_cells_are_never_exceeded(rng):
    kinds = ("number", "choice", "conditional number")
    kernel = kl.Mixed(kinds, lengths=0.3, hamming=0.5, shared=0.6)
    X, Y = rows(kinds, 200, rng), rows(kinds, 200, rng)
    apart = np.sqrt(2 - 2 * np.diag(kernel(X, Y)))
    for widths in ((0.4, 0.0, 2.0), (1.0, 1.0, 0.0), (0.1, 1.0, 2.0)):
        inside = (np.abs(X - Y) <= widths).all(axis=1)
        assert inside.sum() > 5
        limit = kernel.cell_modulus(widths, kl.Points(X))
        assert apart[inside].max() <= limit * (1 + 1e-12)
    assert kernel.cell_modulus((0.0, 0.0, 0.0), kl.Points(X)) == 0.0
    # Two choices, and one active against one inactive: attained.
    x, y = [[0.0, 0.0, -1.0]], [[0.0, 1.0, 0.5]]
    far = math.sqrt(2 - 2 * float(kernel(x, y)[0, 0]))
    assert kernel.cell_modulus((0.0, 1.0, 0.1), kl.Points(X)) == pytest.approx(far, rel=1e-13)


def test_a_space_says_which_values_are_near(rng):
    space = kl.Space(
        x=kl.Float(0, 1), kind=kl.Choice(["a", "b", "c"]), depth=kl.Int(1, 9, when={"kind": "a"})
    )
    kernel = kl.Mixed(space, lengths=0.4)
    assert kernel.space == ("number", "choice", "conditional number")
    points, plain = space.points(300), kl.Points(space.points(300).X)
    X = np.asarray(points.X)
    gram, apart = kernel(X), np.abs(X[:, None] - X[None])
    far, distance = np.sqrt(np.maximum(2 - 2 * gram, 0)), np.sqrt(np.sum(apart**2, axis=2))
    for r in (0.05, 0.2, 0.49, 0.5, 1.0, 1.5):
        near = distance <= r
        limit = kernel.modulus(r, points)
        assert far[near].max() <= limit * (1 + 1e-7) + 1e-9
        assert limit == kernel.modulus(r, space)
        assert limit <= kernel.modulus(r, plain)
    # Choices are 1/2 apart: below that two points of the space have the same.
    number, depth = math.exp(-(0.2**2) / 0.32), 0.5 + 0.5 * math.exp(-(0.2**2) / 0.32)
    assert kernel.modulus(0.2, points) == pytest.approx(math.sqrt(2 - 2 * number * depth))
    assert kernel.modulus(0.2, plain) > 1


def test_of_a_space_it_is_positive_semidefinite_and_by_name_the_same(rng):
    space = kl.Space(
        {"a": kl.Choice([1, 2]), "b": kl.Ordinal(["x", "z"], when={"a": 1})},
        c=kl.Choice([True, None], when={"b": "x"}),
        d=kl.Float(1, 9, log=True),
    )
    kinds = ("choice", "conditional number", "conditional choice", "number")
    kernel = kl.Mixed(space, smoothness=1.5)
    assert kernel == kl.Mixed(kinds, smoothness=1.5)
    assert kl.Mixed([space, "choice"]).space == (*kinds, "choice")
    assert kl.Kernel.from_dict({"kind": "mixed", "space": space.to_dict()}) == kl.Mixed(space)
    assert least_eigenvalue(kernel(space.points(200).X)) >= -1e-13


def test_spaces_in_a_row_are_one(rng):
    both = kl.Mixed((("number", "choice"), "number"))
    assert both == kl.Mixed(["number", "choice", "number"])
    parts = kl.Mixed(("number", "choice")), kl.Mixed("number")
    X = rows(both.space, 12, rng)
    assert_allclose(both(X), parts[0](X[:, :2]) * parts[1](X[:, 2:]), rtol=1e-14)


@pytest.mark.parametrize(
    "make, kind, message",
    [
        (lambda: kl.Mixed(3), TypeError, "`space` must be a Space, or kinds, got int"),
        (lambda: kl.Mixed(()), ValueError, "`space` must have a parameter, got none"),
        (lambda: kl.Mixed(("colour",)), ValueError, "got 'colour'"),
        (lambda: kl.Mixed("number", 0.0), ValueError, "`lengths` must be positive, got 0"),
        (lambda: kl.Mixed("number", (0.1, 0.2)), ValueError, "each number among the parameters, which are 1, got 2"),
        (lambda: kl.Mixed("number", hamming=(1.0,)), ValueError, "each choice among the parameters, which are 0, got 1"),
        (lambda: kl.Mixed("choice", hamming=-1.0), ValueError, "`hamming` must be"),
        (lambda: kl.Mixed("number", shared=1.5), ValueError, "`shared` must be at most 1, got 1.5"),
        (lambda: kl.Mixed("number", smoothness=0), ValueError, "`smoothness` must be positive, got 0"),
        (lambda: kl.Mixed("number")([[1.0, 2.0]]), ValueError, "`X` must have a column for each of the 1 parameters"),
        (lambda: kl.Mixed("number").bound(kl.Ball(2)), ValueError, "`actions` must have a column for each"),
    ],
)  # fmt: skip
def test_bad_input(make, kind, message):
    with pytest.raises(kind, match=message.replace("(", r"\(")):
        make()


def test_far_apart_is_zero_and_nothing_overflows():
    kernel = kl.Mixed(("number", "choice"), lengths=1e-150, hamming=1e150)
    assert kernel([[0.0, 0.0]], [[1.0, 0.0], [0.0, 1.0]]).tolist() == [[0.0, 0.0]]
