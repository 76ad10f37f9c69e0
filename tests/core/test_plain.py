"""Plain data of kernels, losses and action sets: kinds as users write them, and errors that name kind and parameter.

That everything survives a round trip is part of each contract suite.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import koloss as kl
from koloss.core.plain import Plain

FAMILIES = [kl.Kernel, kl.Loss, kl.ActionSet]


@pytest.mark.parametrize(
    "family, data, expected",
    [
        (kl.Kernel, {"kind": "gaussian", "bandwidth": 0.3}, kl.Gaussian(0.3)),
        (kl.Kernel, {"kind": "GAUSSIAN", "bandwidth": 0.3}, kl.Gaussian(0.3)),
        (kl.Kernel, {"kind": "polynomial", "degree": 2}, kl.Polynomial(2)),
        (kl.Kernel, {"kind": "scaled", "scale": 2, "kernel": {"kind": "linear"}}, 2.0 * kl.Linear()),
        (kl.ActionSet, {"kind": "ball", "dimension": 2}, kl.Ball(2)),
        (kl.ActionSet, {"kind": "positive-ball", "dimension": 2}, kl.PositiveBall(2)),
        (kl.ActionSet, {"kind": "positive_ball", "dimension": 2}, kl.PositiveBall(2)),
        (kl.ActionSet, {"kind": "points", "X": [[1.0]]}, kl.Points([[1.0]])),
        (kl.Loss, {"kind": "linear-loss", "vector": [1.0]}, kl.LinearLoss([1.0])),
        (kl.Loss, {"kind": "KernelLoss", "kernel": {"kind": "linear"}, "centers": [[1.0]], "coefficients": [2]},
         kl.KernelLoss(kl.Linear(), [[1.0]], [2.0])),
    ],
)  # fmt: skip
def test_kinds_as_they_are_written(family, data, expected):
    before = dict(data)
    assert family.from_dict(data) == expected
    assert data == before
    assert type(expected).from_dict(data) == expected


def test_arrays_are_kept_where_that_is_asked_for():
    loss = kl.KernelLoss(kl.Gaussian(1.0), [[1.0, 2.0]], [3.0])
    plain, arrays = loss.to_dict(), loss.to_dict(arrays=True)
    assert plain["centers"] == [[1.0, 2.0]]
    assert list(plain) == list(arrays) == ["kind", "kernel", "centers", "coefficients"]
    assert isinstance(arrays["centers"], np.ndarray)
    assert_array_equal(arrays["centers"], plain["centers"])
    assert arrays["kernel"] == plain["kernel"] == {"kind": "Gaussian", "bandwidth": 1.0}
    assert kl.Loss.from_dict(arrays) == loss
    assert kl.Box([0], [1]).to_dict(arrays=True) == {"kind": "Box", "lower": [0.0], "upper": [1.0]}


def test_a_class_is_known_by_being_derived():
    @dataclass(frozen=True)
    class Shifted(kl.Linear):
        shift: float = 0.0

    assert kl.Kernel.kinds()["Shifted"] is Shifted
    assert kl.Kernel.from_dict({"kind": "shifted", "shift": 1.0}) == Shifted(1.0)
    kinds = [set(family.kinds()) for family in FAMILIES]
    assert not set.intersection(*kinds)
    assert set.union(*kinds) <= set(Plain.kinds())
    assert {"Kernel", "DotProduct", "Stationary", "Loss", "ActionSet"}.isdisjoint(Plain.kinds())


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(
    "data", [{"kind": "Gauss"}, {}, "Gaussian", None, {"kind": []}, 3, {"kind": "Kernel"}]
)
def test_unknown_kinds(family, data):
    kind = data.get("kind") if isinstance(data, dict) else data
    known = ", ".join(sorted(family.kinds()))
    message = rf"`kind` must be one of {known}, got {re.escape(repr(kind))}$"
    with pytest.raises(ValueError, match=message):
        family.from_dict(data)


@pytest.mark.parametrize(
    "family, data, message",
    [
        (kl.Kernel, {"kind": "Gaussian"}, "`bandwidth` is missing among the parameters of Gaussian, which takes bandwidth"),
        (kl.Kernel, {"kind": "Gaussian", "sigma": 1}, "`sigma` is not a parameter of Gaussian, which takes bandwidth"),
        (kl.Kernel, {"kind": "matern", "nu": 1}, "`nu` is not a parameter of Matern, which takes smoothness, lengthscale"),
        (kl.Kernel, {"kind": "Linear", "c": 1}, "`c` is not a parameter of Linear, which takes none"),
        (kl.Kernel, {"kind": "Gaussian", "bandwidth": -1}, "`bandwidth` must be positive, got -1, in Gaussian"),
        (kl.Kernel, {"kind": "Sum", "left": {"kind": "Linear"}, "right": 3}, "`right` must be a Kernel, got 3, in Sum"),
        (kl.Kernel, {"kind": "Sum", "left": {"kind": "Ball", "dimension": 1}, "right": 3}, "`left` must be a Kernel, got Ball("),
        (kl.Kernel, {"kind": "Scaled", "scale": 2, "kernel": {"kind": "Nope"}}, "got 'Nope'"),
        (kl.Loss, {"kind": "LinearLoss"}, "`vector` is missing among the parameters of LinearLoss, which takes vector"),
        (kl.Loss, {"kind": "LinearLoss", "vector": [[1.0]]}, "`vector` must be 1-D, got ndim=2"),
        (kl.Loss, {"kind": "KernelLoss", "kernel": {"kind": "?"}, "centers": [[1]], "coefficients": [1]}, "got '?'"),
        (kl.ActionSet, {"kind": "Ball", "size": 2}, "`size` is not a parameter of Ball, which takes dimension, radius"),
        (kl.ActionSet, {"kind": "Ball", "dimension": 0}, "`dimension` must be at least 1, got 0, in Ball"),
    ],
)  # fmt: skip
def test_bad_parameters(family, data, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        family.from_dict(data)
