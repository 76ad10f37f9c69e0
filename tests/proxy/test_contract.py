"""What holds for every proxy, whichever construction, kernel and point set it comes from."""

from __future__ import annotations

import functools
import importlib
import inspect
import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import koloss as kl
import koloss.proxy
from koloss.errors import RankUnreachable, ToleranceUnreachable
from tests.support import inside

UNIT = np.finfo(float).eps / 2

INFINITE = {
    "gaussian": kl.Gaussian(0.6),
    "matern-1/2": kl.Matern(0.5, 0.7),
    "periodic": kl.Periodic(1.2),
    "scaled sum": 30.0 * kl.Gaussian(0.8) + kl.Linear(),
}
FINITE = {
    "linear": kl.Linear(),
    "quadratic": kl.Quadratic(),
    "polynomial": kl.Polynomial(3, offset=0.5),
}


def _weights(n):
    weights = np.random.default_rng(5).exponential(size=n)
    weights[1 : n // 3] = 0
    return weights / weights.sum()


def _dense(kernel, actions, **options):
    """Kernel PCA by the Function box itself, which small sets do not take by themselves."""
    module = importlib.import_module("koloss.proxy.kernel_pca")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "SMOOTH_RANK", 1)
        patch.setattr(module, "greedy", inside.given_up(module.greedy))
        return kl.kernel_pca(kernel, actions, **options)


def _sampled(kernel, actions, **options):
    return kl.kernel_pca(kernel, actions, samples=30, rng=3, **options)


def _weighted(kernel, actions, **options):
    return kl.kernel_pca(kernel, actions, measure=_weights(len(actions)), **options)


GENERAL = INFINITE | {"polynomial": FINITE["polynomial"]}
TYPICAL = {name: GENERAL[name] for name in ("gaussian", "matern-1/2", "polynomial")}
CONSTRUCTIONS = {
    "kernel_pca": (kl.kernel_pca, GENERAL),
    "kernel_pca, dense": (_dense, TYPICAL),
    "kernel_pca, samples": (_sampled, TYPICAL),
    "kernel_pca, measure": (_weighted, TYPICAL),
    "pivoted_cholesky": (kl.pivoted_cholesky, GENERAL),
    "mercer_features": (kl.mercer_features, {k: INFINITE[k] for k in ("gaussian", "periodic")}),
    "exact_features": (kl.exact_features, FINITE),
}
# On these the subspace is found from all the points, so every tolerance above rounding can be met.
COMPLETE = ("kernel_pca", "kernel_pca, dense", "pivoted_cholesky", "mercer_features")


def _point_sets():
    rng = np.random.default_rng(11)
    cloud = rng.uniform(-1, 1, size=(40, 2))
    line = np.linspace(-1, 1.5, 24)[:, None] * np.array([[0.6, -0.8]])
    return {
        "cloud": cloud,
        "duplicates": cloud[rng.integers(0, 12, size=36)],
        "collinear": line,
        "scalars": np.linspace(-2, 2, 30)[:, None],
        "single": np.array([[0.3, 0.4]]),
    }


POINTS = _point_sets()
CASES = {
    f"{name}-{kernel}-{points}": (name, kernel, points)
    for name, (_, kernels) in CONSTRUCTIONS.items()
    for kernel in kernels
    for points in POINTS
}


def over(*names):
    """The test for the cases of these constructions."""
    cases = {case: parts for case, parts in CASES.items() if parts[0] in names}
    return pytest.mark.parametrize("name, kernel, points", cases.values(), ids=cases)


@functools.cache
def build(name, kernel, points):
    """The proxy of a case by default settings, made once."""
    construct, kernels = CONSTRUCTIONS[name]
    return construct(kernels[kernel], kl.Points(POINTS[points]))


@pytest.fixture(params=CASES)
def proxy(request):
    return build(*CASES[request.param])


def _room(proxy, gram):
    """The allowance for rounding that the theory asks for: max(100, 10 m) u sup K(a, a)."""
    return max(100, 10 * proxy.rank) * UNIT * gram.diagonal().max()


def test_every_construction_is_here():
    public = {
        name
        for name, function in inspect.getmembers(koloss.proxy, inspect.isfunction)
        if inspect.signature(function).return_annotation == "Proxy"
    }
    assert public == {name.split(",")[0] for name in CONSTRUCTIONS}


def test_epsilon_is_the_largest_error_over_all_pairs(proxy):
    gram = proxy.kernel(proxy.points.X)
    brute = np.abs(gram - proxy.features @ proxy.features.T).max()
    assert brute <= proxy.epsilon
    assert proxy.epsilon <= brute + 3 * _room(proxy, gram)


def test_what_is_missed_is_positive_semidefinite_also_off_the_actions(proxy):
    # K - K̂ is the Gram matrix of (I - P)Φ exactly if P is an orthogonal projection.
    X = proxy.points.X
    both = np.vstack([X, np.random.default_rng(2).uniform(-1.5, 1.5, size=(15, X.shape[1]))])
    gram, features = proxy.kernel(both), proxy(both)
    missed = np.linalg.eigvalsh(gram - features @ features.T)
    assert missed[0] >= -len(both) * 100 * UNIT * gram.diagonal().max()


def test_called_on_the_actions_gives_the_features(proxy):
    X = proxy.points.X
    scale = math.sqrt(proxy.kernel.diag(X).max())
    assert_allclose(proxy(X), proxy.features, rtol=0, atol=1e-9 * scale)
    assert proxy.features.shape == (len(X), proxy.rank)


def test_residual_curve(proxy):
    gram = proxy.kernel(proxy.points.X)
    curve, top = proxy.residual_curve, gram.diagonal().max()
    assert curve.shape == (proxy.rank + 1,)
    assert curve[0] == pytest.approx(top, rel=1e-12)
    assert curve[-1] == proxy.epsilon
    assert np.all(np.diff(curve) <= 12 * UNIT * top)  # the allowance grows with the rank
    for j in range(1, proxy.rank + 1):
        part = proxy.truncate(j)
        assert (part.rank, part.epsilon) == (j, curve[j])
        first = proxy.features[:, :j]
        brute = np.abs(gram - first @ first.T).max()
        assert curve[j] == pytest.approx(brute, rel=1e-9, abs=3 * _room(proxy, gram))


def test_truncate(proxy):
    X, j = proxy.points.X, (proxy.rank + 1) // 2
    part = proxy.truncate(j)
    assert_array_equal(part.features, proxy.features[:, :j])
    assert_array_equal(part(X + 0.1), proxy(X + 0.1)[:, :j])
    assert part.eigenvalues.shape == (j,)
    assert len(part.residual_curve) == j + 1
    with pytest.raises(RankUnreachable, match=rf"`rank` must be at most {j}, got {j + 1}") as info:
        part.truncate(j + 1)
    assert info.value.rank == j


def test_residuals(proxy):
    X = proxy.points.X
    Y = np.random.default_rng(8).uniform(-1.5, 1.5, size=(25, X.shape[1]))
    features = proxy(Y)
    brute = proxy.kernel(Y).diagonal() - np.sum(features**2, axis=1)
    room = max(100, 10 * proxy.rank) * UNIT * proxy.kernel(Y).diagonal()
    at = proxy.residual_at(Y)
    assert_allclose(at, np.maximum(brute, 0) + room, rtol=1e-9, atol=room.max() / 10)
    room = 1e-9 * proxy.residual_curve[0]
    assert_allclose(proxy.residual_at(X), proxy.residual, rtol=1e-7, atol=room)
    assert proxy.residual.max() == pytest.approx(proxy.epsilon, rel=1e-9)
    # Losses Φ(y), y among the rows of Y: √(max r · max r_Y) bounds the error over all pairs.
    error = np.abs(proxy.kernel(X, Y) - proxy.features @ features.T).max()
    assert error <= proxy.epsilon_against(Y)
    assert proxy.epsilon_against(Y) == pytest.approx(math.sqrt(proxy.epsilon * at.max()))
    assert proxy.epsilon_against(X) == pytest.approx(proxy.epsilon, rel=1e-6, abs=1e-12)


def test_epsilon_general_bounds_every_loss_of_that_norm(proxy):
    # w = Σ c_i Φ(z_i) scaled to norm G: its values are K c, those of its projection φ φ(z)'c.
    X, G = proxy.points.X, 2.5
    rng = np.random.default_rng(9)
    Z = np.vstack([X, rng.uniform(-2, 2, size=(10, X.shape[1]))])
    gram = proxy.kernel(Z)
    C = rng.normal(size=(len(Z), 50)) * (rng.uniform(size=(len(Z), 50)) < 0.3)
    norms = np.sqrt(np.sum(C * (gram @ C), axis=0))
    C = C[:, norms > 1e-3] * (G / norms[norms > 1e-3])
    error = proxy.kernel(X, Z) @ C - proxy.features @ (proxy(Z).T @ C)
    assert np.abs(error).max() <= proxy.epsilon_general(G) * (1 + 1e-9) + 1e-9


@pytest.mark.parametrize("points", ["cloud", "duplicates", "collinear", "scalars"])
@pytest.mark.parametrize("kernel", ["gaussian", "matern-1/2", "periodic"])
def test_epsilon_general_is_attained(kernel, points):
    # By w = (I - P)Φ(a), a the action with the largest residual; PΦ(a) = Σ_i α_i Φ(pivot_i).
    X = POINTS[points]
    proxy = kl.pivoted_cholesky(INFINITE[kernel], kl.Points(X), rank=4)
    a = int(np.argmax(proxy.residual))
    pivots = X[proxy.pivots]
    alpha = np.linalg.solve(proxy.kernel(pivots), proxy.kernel(pivots, X[a : a + 1])[:, 0])
    centers, c = np.vstack([X[a], pivots]), np.append(1.0, -alpha)
    G = math.sqrt(c @ proxy.kernel(centers) @ c)
    error = proxy.kernel(X, centers) @ c - proxy.features @ (proxy(centers).T @ c)
    assert np.abs(error).max() == pytest.approx(proxy.epsilon_general(G), rel=1e-6)


@over(*COMPLETE)
def test_tolerance_gives_the_smallest_rank_that_certifies(name, kernel, points):
    construct, kernels = CONSTRUCTIONS[name]
    actions = kl.Points(POINTS[points])
    for tolerance in (0.3, 1e-2, 1e-7):
        proxy = construct(kernels[kernel], actions, tolerance=tolerance)
        assert proxy.epsilon <= tolerance
        assert proxy.rank_for(tolerance) == proxy.rank
        if proxy.rank > 1:
            smaller = construct(kernels[kernel], actions, rank=proxy.rank - 1)
            assert smaller.rank == proxy.rank - 1
            assert smaller.epsilon > tolerance


@over(*COMPLETE)
def test_neither_rank_nor_tolerance_is_a_thousandth(name, kernel, points):
    proxy = build(name, kernel, points)
    limit = 1e-3 * proxy.kernel.diag(POINTS[points]).max()
    assert proxy.epsilon <= limit * (1 + 1e-9)
    assert proxy.rank == 1 or proxy.residual_curve[-2] > limit


def test_rank_for(proxy):
    for j in range(1, proxy.rank + 1):
        tolerance = float(proxy.residual_curve[j])
        smallest = min(i for i in range(1, proxy.rank + 1) if proxy.residual_curve[i] <= tolerance)
        assert proxy.rank_for(tolerance) == smallest
    assert proxy.rank_for(2 * proxy.residual_curve[0]) == 1
    least = proxy.residual_curve.min()
    with pytest.raises(ToleranceUnreachable, match="`tolerance` must be at least") as info:
        proxy.rank_for(least / 2)
    assert info.value.epsilon == least


@over(*(name for name in CONSTRUCTIONS if name not in ("exact_features", "mercer_features")))
def test_rank_above_what_there_is(name, kernel, points):
    construct, kernels = CONSTRUCTIONS[name]
    actions = kl.Points(POINTS[points])
    with pytest.raises(RankUnreachable, match=r"`rank` must be at most \d+, .* got 100000") as info:
        construct(kernels[kernel], actions, rank=100_000)
    most, gram = info.value.rank, kernels[kernel](POINTS[points])
    assert 1 <= most <= np.linalg.matrix_rank(gram, tol=50 * UNIT * gram.diagonal().max())
    assert construct(kernels[kernel], actions, rank=most).rank == most


@over(*COMPLETE)
def test_tolerance_below_what_there_is(name, kernel, points):
    construct, kernels = CONSTRUCTIONS[name]
    actions = kl.Points(POINTS[points])
    with pytest.raises(ToleranceUnreachable, match=r"must be at least .* got 1e-30") as info:
        construct(kernels[kernel], actions, tolerance=1e-30)
    again = construct(kernels[kernel], actions, tolerance=info.value.epsilon * (1 + 1e-12))
    assert again.epsilon <= info.value.epsilon * (1 + 1e-12)


def test_eigenvalues(proxy):
    eigenvalues = proxy.eigenvalues
    assert eigenvalues.shape == (proxy.rank,)
    assert np.all(eigenvalues > 0)
    assert np.all(np.diff(eigenvalues) <= 1e-12 * eigenvalues[0])


def test_repr_names_the_parts():
    text = repr(build("pivoted_cholesky", "gaussian", "cloud"))
    assert "pivoted Cholesky" in text
    assert "Gaussian(bandwidth=0.6)" in text
    assert "Points(40 in dimension 2)" in text


def test_many_points_are_mapped_in_blocks():
    proxy = build("pivoted_cholesky", "gaussian", "cloud")
    X = np.random.default_rng(0).uniform(size=(16384 + 5, 2))
    features = proxy(X)
    assert_allclose(features[-7:], proxy(X[-7:]), rtol=0, atol=1e-13)
    assert_allclose(features[:7], proxy(X[:7]), rtol=0, atol=1e-13)
