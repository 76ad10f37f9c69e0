"""Arguments that cannot be right: the message names the argument, the rule and the value."""

from __future__ import annotations

import numpy as np
import pytest

import koloss as kl
from koloss.errors import RankUnreachable

POINTS = kl.Points(np.linspace(0, 1, 12)[:, None])
BOX = kl.Box([0], [1])
GENERAL = {
    "kernel_pca": kl.kernel_pca,
    "pivoted_cholesky": kl.pivoted_cholesky,
    "mercer_features": kl.mercer_features,
}


@pytest.mark.parametrize("construct", GENERAL.values(), ids=GENERAL)
@pytest.mark.parametrize(
    "options, error, message",
    [
        ({"rank": 0}, ValueError, "`rank` must be at least 1, got 0"),
        ({"rank": 2.5}, TypeError, "`rank` must be an integer, got 2.5"),
        ({"tolerance": 0}, ValueError, "`tolerance` must be positive, got 0"),
        ({"tolerance": "small"}, TypeError, "`tolerance` must be a number, got 'small'"),
        ({"rank": 2, "tolerance": 0.1}, ValueError, "give `rank` or `tolerance`, not both"),
        ({"spacing": 0.1}, ValueError, "`spacing` must be left out for a finite set, got 0.1"),
    ],
)
def test_options(construct, options, error, message):
    with pytest.raises(error, match=message):
        construct(kl.Gaussian(0.5), POINTS, **options)


@pytest.mark.parametrize("construct", [*GENERAL.values(), kl.exact_features, kl.eigendecay])
def test_kernel_actions_and_spacing(construct):
    with pytest.raises(TypeError, match=r"`kernel` must .*'rbf'"):
        construct("rbf", kl.Ball(2))
    with pytest.raises(TypeError, match="`actions` must be Points, a Ball or a Box, got ndarray"):
        construct(kl.Linear(), np.zeros((3, 1)))
    for spacing in (0.0, -1.0):
        with pytest.raises(ValueError, match=f"`spacing` must be positive, got {spacing:.6g}"):
            construct(kl.Gaussian(0.5), BOX, spacing=spacing)


@pytest.mark.parametrize("construct", [kl.kernel_pca, kl.pivoted_cholesky, kl.exact_features])
@pytest.mark.parametrize("actions", [kl.Points(np.zeros((4, 2))), kl.Box([0, 0], [0, 0])])
def test_kernel_that_vanishes_on_the_actions(construct, actions):
    with pytest.raises(RankUnreachable, match="`kernel` must not vanish on the actions") as info:
        construct(kl.Linear(), actions)
    assert info.value.rank == 0


def pca(actions=POINTS, **options):
    return kl.kernel_pca(kl.Gaussian(0.5), actions, rank=2, **options)


def mercer(kernel, **options):
    return kl.mercer_features(kernel, POINTS, rank=3, **options)


PROXY = kl.pivoted_cholesky(kl.Gaussian(0.5), POINTS, rank=4)


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda: pca(measure=np.ones(12)), ValueError, "`measure` must sum to 1, got a sum of 12"),
        (lambda: pca(measure=np.full(11, 1 / 11)), ValueError, "`measure` must have length 12, got 11"),
        (lambda: pca(BOX, measure=np.ones(3) / 3), ValueError, "`measure` must be left out for a compact set; lay the net"),
        (lambda: pca(samples=0), ValueError, "`samples` must be at least 1, got 0"),
        (lambda: mercer(kl.Matern(0.5, 1.0)), TypeError, "`kernel` must be Gaussian or Periodic .* got Matern"),
        (lambda: mercer(kl.Periodic(1.0), scale=1.0), ValueError, "`center` and `scale` must be left out"),
        (lambda: mercer(kl.Gaussian(1.0), scale=0.0), ValueError, "`scale` must be positive, got 0"),
        (lambda: mercer(kl.Gaussian(1.0), center=[0, 0]), ValueError, "`center` must have length 1, got 2"),
        (lambda: PROXY([1.0, 2.0]), ValueError, "`X` must be 2-D, got ndim=1; .* pass a column"),
        (lambda: PROXY(np.zeros((2, 3))), ValueError, "`X` must have 1 columns, got 3"),
        (lambda: PROXY.residual_at([[np.inf]]), ValueError, "`X` must be finite"),
        (lambda: PROXY.epsilon_against(np.zeros((2, 3))), ValueError, "`X` must have 1 columns"),
        (lambda: PROXY.epsilon_general(0.0), ValueError, "`norm` must be positive, got 0"),
        (lambda: PROXY.truncate(0), ValueError, "`rank` must be at least 1, got 0"),
        (lambda: PROXY.truncate(5), RankUnreachable, "`rank` must be at most 4, got 5"),
        (lambda: PROXY.rank_for(0.0), ValueError, "`tolerance` must be positive, got 0"),
    ],
)  # fmt: skip
def test_arguments(call, error, message):
    with pytest.raises(error, match=message):
        call()
