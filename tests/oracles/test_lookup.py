"""One lookup for every pair of loss family and action set."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import koloss as kl
from koloss.oracles import GeometricProgram, Minimum, minimize, minimize_quadratic_ball

SETS = {
    "ball": kl.Ball(2),
    "box": kl.Box([0.2, 0.5], [1.5, 2.0]),
    "positive": kl.PositiveBall(2, 1.5, 0.3),
    "points": kl.Points(np.random.default_rng(0).uniform(0.1, 1, (500, 2))),
}
LOSSES = {
    "linear": kl.LinearLoss([1.0, -0.5]),
    "convex": kl.QuadraticLoss([[1.0, 0.2], [0.2, 1.0]], [-1.3, 0.4]),
    "saddle": kl.QuadraticLoss([[1.0, 0.2], [0.2, -1.0]], [0.3, 0.0]),
    "kernel": kl.KernelLoss(kl.Gaussian(0.5), [[0.6, 0.5], [-0.3, 0.9]], [1.0, -1.0]),
    "posynomial": kl.PosynomialLoss(kl.Posynomial([[1, -1], [-0.5, 2]]), [1.0, 0.3]),
    "signomial": kl.PosynomialLoss(kl.Posynomial([[1, -1], [-0.5, 2]]), [1.0, -0.3]),
}
PROVED = {
    *((name, "points") for name in LOSSES),
    *(("linear", actions) for actions in SETS),
    *(("convex", actions) for actions in SETS),
    ("saddle", "ball"),
    ("posynomial", "box"),
    ("posynomial", "positive"),
}
PAIRS = [(n, a) for n in LOSSES for a in SETS if not ("omial" in n and a == "ball")]


@pytest.mark.parametrize("name, where", PAIRS)
def test_every_pair_by_brute_force(name, where):
    loss, actions = LOSSES[name], SETS[where]
    best = minimize(loss, actions, rng=0)
    assert isinstance(best, Minimum)
    assert actions.contains(best.point[None])[0]
    assert best.value == pytest.approx(loss(best.point[None])[0], abs=1e-12)
    net = actions if where == "points" else actions.net(0.01)
    lowest = loss(net.X).min()
    assert best.value <= lowest + 1e-9
    assert best.lower_bound <= lowest
    steep = np.linalg.norm(loss.gradient(net.X), axis=1).max()
    assert best.value >= lowest - 2 * steep * net.covering_radius
    proved = (name, where) in PROVED
    certificate = "exhaustive" if where == "points" else "dual" if proved else "local only"
    assert best.certificate == certificate
    assert (best.gap < 1e-6) == proved


@pytest.mark.parametrize("where", ["ball", "box", "positive"])
@pytest.mark.parametrize("kernel", [kl.Linear(), kl.Quadratic()], ids=repr)
def test_expansions_in_kernels_of_other_families_are_proved_too(kernel, where, rng):
    centers, coefficients = rng.standard_normal((7, 2)), rng.standard_normal(7)
    if where != "ball" and kernel == kl.Quadratic():
        coefficients = np.abs(coefficients)  # convex
    loss = kl.KernelLoss(kernel, centers, coefficients)
    best = minimize(loss, SETS[where])
    assert best.certificate == "dual"
    assert best.value == pytest.approx(loss(best.point[None])[0], rel=1e-9)
    assert best.lower_bound <= loss(SETS[where].net(0.02).X).min()


def test_expansions_of_posynomial_kernels_are_geometric_programs(rng):
    loss = kl.KernelLoss(
        kl.Posynomial([[1, -1], [-2, 1]]), rng.uniform(0.5, 1, (3, 2)), [1.0, 2.0, 0.5]
    )
    best = minimize(loss, SETS["positive"])
    assert best.certificate == "dual"
    assert best.value <= loss(SETS["positive"].net(0.01).X).min() + 1e-12


def test_the_same_as_the_engines_themselves():
    saddle, ball = LOSSES["saddle"], kl.Ball(2, 0.7)
    direct = minimize_quadratic_ball(saddle.matrix, saddle.vector, radius=0.7)
    assert minimize(saddle, ball).value == direct.value
    posynomial, positive = LOSSES["posynomial"], SETS["positive"]
    program = GeometricProgram(posynomial.kernel, positive).minimize(posynomial.coefficients)
    assert minimize(posynomial, positive).value == program.value
    started = minimize(posynomial, positive, starts=program.point[None])
    assert started.value == pytest.approx(program.value, rel=1e-12)
    guessed = minimize(posynomial, positive, near=program.point)
    assert (guessed.value, guessed.gap) == (started.value, started.gap)


def test_posynomials_of_negative_numbers_are_searched():
    # whole powers on a box around zero: no geometric program, and nothing proved
    loss = kl.PosynomialLoss(kl.Posynomial([[2, 0], [1, 1], [0, 2]]), [1.0, 1.0, 1.0])
    best = minimize(loss, kl.Box([-1, -1], [1, 1]), rng=0)
    assert best.certificate == "local only"
    assert best.value == pytest.approx(0.0, abs=1e-12)


def test_losses_of_other_libraries(xp):
    box, matrix = SETS["box"], xp.asarray([[1.0, 0.2], [0.2, 1.0]])
    best = minimize(kl.QuadraticLoss(matrix, xp.asarray([-1.3, 0.4])), box)
    assert_allclose(best.point, minimize(LOSSES["convex"], box).point)
    assert isinstance(minimize(kl.LinearLoss(xp.asarray([1.0, 2.0])), box).point, np.ndarray)


def test_a_pair_without_oracle_lists_those_there_are():
    message = "no oracle for PosynomialLoss on Ball; there are: Loss on Points, LinearLoss on Ball"
    with pytest.raises(TypeError, match=message):
        minimize(LOSSES["posynomial"], SETS["ball"])
    with pytest.raises(TypeError, match="no oracle for int on Ball"):
        minimize(3, SETS["ball"])


@pytest.mark.parametrize("where", SETS)
def test_dimensions_must_agree(where):
    with pytest.raises(ValueError, match="`loss` must have the dimension of the actions, 2, got 1"):
        minimize(kl.LinearLoss([1.0]), SETS[where])


def test_it_loads_when_it_is_first_used():
    assert kl.oracles.minimize is minimize
    assert "oracles" in dir(kl)
