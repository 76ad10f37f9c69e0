"""The net that is laid on a compact set where no spacing is given: as coarse as the kernel allows."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import koloss as kl
from koloss.errors import KolossWarning, NetTooLarge
from koloss.proxy.base import DEFAULT_NET, discretise, step_beyond

SETS = [kl.Box([0], [1]), kl.Box([3, 0], [4, 2]), kl.Ball(2, 0.5), kl.PositiveBall(2)]
KERNELS = [
    kl.Gaussian(0.5),
    kl.Gaussian(4.0),
    kl.Matern(2.5, 0.6),
    3.0 * kl.Gaussian(0.5) + kl.Quadratic(),
    kl.Linear(),
    kl.Periodic(0.8, 2.0),
]


def farthest(kernel, actions, net):
    """Largest ‖Φ(a) - Φ(nearest point of the net)‖ over random actions, by the Gram matrix."""
    X = actions.sample(500, 1)
    squares = kernel.diag(X)[:, None] + kernel.diag(net.X)[None, :] - 2 * kernel(X, net.X)
    return math.sqrt(max(float(squares.min(axis=1).max()), 0.0))


def spread(kernel, actions):
    """min(sup ‖Φ‖, largest ‖Φ(x) - Φ(y)‖) over random actions: never above the true one."""
    X = np.concatenate([actions.sample(300, 2), actions.net(actions.diameter()).X])
    squares = kernel.diag(X)[:, None] + kernel.diag(X)[None, :] - 2 * kernel(X)
    return min(math.sqrt(kernel.diag(X).max()), math.sqrt(squares.max()))


@pytest.mark.parametrize(
    "kernel", [kl.Gaussian(0.5), kl.Gaussian(4.0), kl.Matern(0.5, 1.0)], ids=repr
)
@pytest.mark.parametrize("actions", [kl.Box([0], [1]), kl.Ball(1, 2.0)], ids=repr)
def test_is_the_coarsest_of_its_ladder(kernel, actions):
    # ‖Φ(x) - Φ(y)‖ by the formula; the largest is that of the ends.
    def apart(r):
        return math.sqrt(2 - 2 * float(kernel([[0.0]], [[r]])[0, 0]))

    for rounds in (100, 400, 1600):
        net = discretise(kernel, actions, None, rounds=rounds)
        allowed = min(0.05, rounds**-0.5) * min(1.0, apart(actions.diameter()))
        if len(net) < 3000:
            assert apart(net.covering_radius) <= allowed < apart(net.covering_radius / 0.8)
        else:
            assert apart(net.covering_radius) > allowed


@pytest.mark.slow
@pytest.mark.parametrize("actions", SETS, ids=repr)
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_is_as_fine_as_asked_or_as_allowed(kernel, actions):
    for rounds, share in ((50, 0.05), (2500, 0.02), (10**8, 1e-4)):
        net = discretise(kernel, actions, None, rounds=rounds)
        assert len(net) <= DEFAULT_NET
        assert bool(np.all(actions.contains(net.X)))
        step = step_beyond(kernel, actions, net)
        assert farthest(kernel, actions, net) <= step * (1 + 1e-9)
        if (
            step > share * spread(kernel, actions) * 2.1
        ):  # 2.1: the diameter known may be twice the true one
            assert len(net) > 3000  # as fine as is allowed
        coarser = discretise(kernel, actions, None, rounds=max(rounds // 4, 1))
        assert len(coarser) <= len(net)


def test_scaling_kernel_or_coordinates_changes_nothing():
    box, wide = kl.Box([0, 0], [1, 1]), kl.Box([0, 0], [1024, 1 / 8])
    plain = discretise(kl.Gaussian([0.3, 0.6]), box, None, rounds=1000)
    assert_array_equal(discretise(7.0 * kl.Gaussian([0.3, 0.6]), box, None, rounds=1000).X, plain.X)
    scaled = discretise(kl.Gaussian([0.3 * 1024, 0.6 / 8]), wide, None, rounds=1000)
    assert_array_equal(scaled.X, plain.X * [1024, 1 / 8])


def test_units_of_a_box_are_the_kernels():
    box, kernel = kl.Box([64, 1], [4096, 200]), kl.Gaussian([1600, 80])
    net = discretise(kernel, box, None, rounds=400)
    assert net.covering_widths is not None
    counts = [len(np.unique(column)) for column in net.X.T]
    assert abs(counts[0] - counts[1]) <= 2  # 2.52 and 2.49 bandwidths long
    step = step_beyond(kernel, box, net)
    assert farthest(kernel, box, net) <= step <= 0.05
    assert step == pytest.approx(kernel.cell_modulus(net.covering_widths, box))
    # A net of one spacing, with more points, is worse.
    raw = box.net(25.0)
    assert len(raw) > len(net)
    assert kernel.modulus(raw.covering_radius, box) > 3 * step


def test_a_certificate_on_a_net_of_cells_holds_between_its_points():
    box, kernel = (
        kl.Box([0, 0], [1000, 1]),
        kl.Gaussian([300, 0.5]) + 0.2 * kl.Matern(1.5, [500, 1.0]),
    )
    proxy = kl.pivoted_cholesky(kernel, box, tolerance=0.02)
    X = box.sample(500, 3)
    assert np.abs(kernel(X) - proxy(X) @ proxy(X).T).max() <= proxy.epsilon <= 0.02
    assert proxy.points.covering_widths is not None
    given = kl.pivoted_cholesky(kernel, box, tolerance=0.02, spacing=proxy.points)
    assert given.points is proxy.points
    assert given.epsilon == proxy.epsilon


def test_tolerance_takes_a_finer_net():
    box, kernel = kl.Box([0], [1]), kl.Gaussian(0.5)
    sizes = [len(kl.pivoted_cholesky(kernel, box, tolerance=t).points) for t in (0.1, 1e-3, 1e-5)]
    assert sizes[0] < sizes[1] < sizes[2]
    for construct in (kl.kernel_pca, kl.pivoted_cholesky, kl.mercer_features):
        assert construct(kernel, box, tolerance=1e-5).epsilon <= 1e-5
    assert (
        kl.pivoted_cholesky(kernel, box).epsilon < 2 * 1e-3
    )  # the default: 1.56 times what the points have


def test_sizes_at_the_ends():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for actions in (kl.Box([0, 0, 0], [1, 2, 3]), kl.Ball(4)):
            proxy = kl.pivoted_cholesky(kl.Gaussian(1.0), actions, rank=2)
            assert 1000 < len(proxy.points) <= DEFAULT_NET
        proxy = kl.pivoted_cholesky(kl.Gaussian(1.0), kl.Box([2, 3], [2, 3]))
        assert (len(proxy.points), proxy.rank) == (1, 1)
        assert proxy.epsilon < 1e-13
        flat = kl.pivoted_cholesky(kl.Gaussian([1.0, 2.0]), kl.Box([2, 3], [2, 4]))
        assert len(np.unique(flat.points.X[:, 0])) == 1
    with pytest.raises(NetTooLarge, match=r"`actions` is too large .* pass a `spacing` or Points"):
        kl.pivoted_cholesky(kl.Gaussian(1.0), kl.Box(np.zeros(20), np.ones(20)))


@pytest.mark.slow
def test_raw_units_are_noticed_and_cheap():
    box = kl.Box([64, 1], [4096, 200])
    said = r"`bandwidth` is small against the sides \(4032, 199\).* one bandwidth for each coordinate, such as"
    arms = r"`kernel` makes unrelated arms of the actions.* One bandwidth per coordinate is allowed"
    with pytest.warns(KolossWarning, match=arms), pytest.warns(UserWarning, match=said):
        learner = kl.BanditExpWeights(box, kl.Gaussian(0.5), horizon=1000, loss_range=(0, 1), rng=0)
    assert len(learner.actions) <= 256
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kl.pivoted_cholesky(kl.Gaussian([806.0, 40.0]), box, rank=5)
        kl.pivoted_cholesky(kl.Gaussian(0.5), box, rank=5, spacing=200.0)  # who says it, means it
        kl.pivoted_cholesky(kl.Gaussian(0.05), kl.Box([0, 0], [1, 1]), rank=5)


def test_a_kernel_that_says_nothing_has_the_finest_net():
    class Silent(kl.Kernel):
        def _gram(self, X, Y, xp):
            return X @ Y.T

        def _diagonal(self, X, xp):
            return xp.sum(X * X, axis=1)

        def _features(self, X, xp):
            return X

        def feature_dimension(self, dimension):
            return dimension

    assert len(kl.exact_features(Silent(), kl.Box([0, 0], [1, 1])).points) > 3000


def test_a_net_without_its_covering_radius_is_refused():
    box = kl.Box([0], [1])
    with pytest.raises(
        ValueError, match="`spacing` must be a number, or a net with its covering radius"
    ):
        kl.pivoted_cholesky(kl.Gaussian(0.3), box, spacing=kl.Points(box.net(0.1).X))


def test_learner_plays_on_the_net_of_its_horizon():
    box = kl.Box([0], [1])
    sizes = []
    for horizon in (100, 10_000, None):
        learner = kl.BanditExpWeights(
            box, kl.Gaussian(0.3), horizon=horizon, loss_range=(0, 1), rng=0
        )
        sizes.append(len(learner.actions))
        net = discretise(kl.Gaussian(0.3), box, None, rounds=horizon or 10_000)
        assert_allclose(learner.actions, net.X)
    assert sizes[0] < sizes[1] == sizes[2] < 500
