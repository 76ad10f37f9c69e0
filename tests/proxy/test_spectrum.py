"""Eigendecay: envelopes against a linear program, dimensions and sample sizes against the paper's formulas."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.optimize import linprog
from scipy.special import zeta

import koloss as kl
from koloss.errors import ToleranceUnreachable
from koloss.proxy import Decay

LINE = kl.Points(np.linspace(0, 1, 150)[:, None])


class Prescribed:
    """Kernel on the points 0, ..., N-1 whose eigenvalues under the uniform measure are given."""

    def __init__(self, eigenvalues, seed=0):
        mu = np.asarray(eigenvalues, dtype=float)
        basis = np.linalg.qr(np.random.default_rng(seed).normal(size=(len(mu), len(mu))))[0]
        gram = len(mu) * (basis * mu) @ basis.T
        self.gram, self.points = (gram + gram.T) / 2, kl.Points(np.arange(len(mu))[:, None])

    def __call__(self, X, Y=None):
        Y = X if Y is None else Y
        return self.gram[np.ix_(X[:, 0].astype(int), Y[:, 0].astype(int))]

    def diag(self, X):
        return self.gram.diagonal()[X[:, 0].astype(int)]


def decay_of(eigenvalues):
    kernel = Prescribed(eigenvalues)
    return kl.eigendecay(kernel, kernel.points)


def least_mean_slack(profile, mu):
    """min over lines above log μ_j of the mean distance, by a linear program in (log C, β)."""
    j = np.arange(1, len(mu) + 1)
    t = np.log(j) if profile == "polynomial" else j
    y = np.log(mu)
    above = np.column_stack([-np.ones(len(mu)), t])
    result = linprog([1.0, -t.mean()], A_ub=above, b_ub=-y, bounds=[(None, None)] * 2)
    assert result.success
    return result.fun - y.mean()


KERNELS = {
    "gaussian": kl.Gaussian(0.2),
    "matern-1/2": kl.Matern(0.5, 0.3),
    "matern-3/2": kl.Matern(1.5, 0.3),
    "polynomial": kl.Polynomial(6),
    "periodic": kl.Periodic(0.7, 1.0),
}


@pytest.fixture(scope="module", params=KERNELS)
def decay(request):
    return kl.eigendecay(KERNELS[request.param], LINE)


@pytest.mark.parametrize("profile", ["polynomial", "exponential"])
class TestEnvelope:
    """Both profiles, on spectra of all kinds."""

    def test_bounds_every_eigenvalue_and_touches_two(self, decay, profile):
        mu, fit = decay.eigenvalues, getattr(decay, profile)
        ratio = fit.envelope(np.arange(1, len(mu) + 1)) / mu
        assert np.all(ratio >= 1)
        assert np.sum(ratio < 1 + 1e-8) >= 2
        assert fit.slack == pytest.approx(np.mean(np.log(ratio)), abs=1e-9)
        assert fit.profile == profile

    @example(drops=[1e-8, 0.0])
    @given(drops=st.lists(st.floats(0.0, 3.0), min_size=2, max_size=15))
    def test_on_random_spectra(self, profile, drops):
        mu = np.exp(-np.cumsum([0.0, *drops]) * min(1.0, 20 / max(sum(drops), 1e-9)))
        decay = decay_of(mu)
        fit = getattr(decay, profile)
        ratio = fit.envelope(np.arange(1, len(mu) + 1)) / decay.eigenvalues
        assert np.all(ratio >= 1)
        assert np.sum(ratio < 1 + 1e-8) >= 2
        assert fit.slack == pytest.approx(least_mean_slack(profile, decay.eigenvalues), abs=1e-7)

    def test_bounds_eigenvalues_that_differ_by_rounding(self, profile, rng):
        for _ in range(50):
            mu = 1 - 2.0**-52 * np.cumsum(rng.integers(0, 4, size=8))
            kernel = Prescribed(mu)
            kernel.gram = len(mu) * np.diag(mu)
            decay = kl.eigendecay(kernel, kernel.points)
            envelope = getattr(decay, profile).envelope(np.arange(1, 9))
            assert np.all(envelope >= decay.eigenvalues)


POLYNOMIAL = [("polynomial", C, beta) for C, beta in [(3.0, 2.0), (0.1, 1.2), (1.0, 4.5)]]
EXPONENTIAL = [("exponential", C, beta) for C, beta in [(3.0, 0.5), (0.1, 1.0)]]


@pytest.mark.parametrize("profile, constant, rate", POLYNOMIAL + EXPONENTIAL)
def test_decay_is_recovered(profile, constant, rate):
    j = np.arange(1, 41.0 if profile == "polynomial" else 21.0)
    decay = decay_of(constant * (j**-rate if profile == "polynomial" else np.exp(-rate * j)))
    assert decay.profile == profile
    assert decay.best is getattr(decay, profile)
    room = 1e-6 if profile == "polynomial" else 1e-5
    assert decay.best.constant == pytest.approx(constant, rel=room)
    assert decay.best.rate == pytest.approx(rate, rel=room)
    assert decay.best.slack == pytest.approx(0, abs=room)


@pytest.mark.parametrize("smoothness, rate", [(0.5, 2.0), (1.5, 4.0)])
def test_matern_decays_at_its_rate(smoothness, rate):
    # On the line μ_j ~ j^-(2ν + 1); discretisation spoils the end, so look at the leading ones.
    decay = kl.eigendecay(kl.Matern(smoothness, 0.5), kl.Box([0], [1]).net(0.0025), count=60)
    mu = decay.eigenvalues
    assert np.log(mu[28] / mu[58]) / np.log(59 / 29) == pytest.approx(rate, rel=0.05)


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
@pytest.mark.parametrize("weighted", [False, True])
def test_against_dense_eigenvectors(kernel, weighted, rng):
    X = LINE.X
    w = rng.exponential(size=150) if weighted else np.ones(150)
    if weighted:
        w[20:60] = 0
    w /= w.sum()
    decay = kl.eigendecay(kernel, LINE, measure=w if weighted else None)
    mu, omega = np.linalg.eigh(np.sqrt(w)[:, None] * kernel(X) * np.sqrt(w))
    mu, omega = mu[::-1], omega[:, ::-1]
    seen = len(decay.eigenvalues)
    assert_allclose(decay.eigenvalues, mu[:seen], rtol=0, atol=1e-14 * mu[0] * 150)
    assert np.all(np.diff(decay.eigenvalues) <= 0)
    assert (decay.size, decay.sampled) == (150, False)
    assert decay.bound == pytest.approx(kernel.diag(X).max())
    assert decay.remainder == pytest.approx(w @ kernel.diag(X) - mu[:seen].sum(), abs=1e-11)
    # Eigenfunctions are ω_jk / √w_k where there is weight; those well above rounding are compared.
    clear = mu > 1e-8 * mu[0]
    phi = omega[w > 0][:, clear] / np.sqrt(w[w > 0])[:, None]
    if kernel != KERNELS["periodic"]:  # pairs of equal eigenvalues have no preferred eigenfunctions
        assert decay.eigenfunction_bound == pytest.approx(np.abs(phi).max(), rel=1e-3)


class TestDimension:
    """The paper's proposition on m, with the exponent 1/(β - 1) that its proof gives."""

    @pytest.mark.parametrize("constant", [0.5, 4.0])
    @pytest.mark.parametrize("rate", [1.3, 2.0, 4.0])
    @pytest.mark.parametrize("epsilon", [0.3, 1e-3])
    def test_polynomial(self, constant, rate, epsilon):
        B = 1.7
        decay = Decay("polynomial", constant, rate, 0.0)
        m = decay.effective_dimension(epsilon, eigenfunction_bound=B)
        formula = (4 * constant * B**2 / ((rate - 1) * epsilon)) ** (1 / (rate - 1))
        assert m == pytest.approx(max(1, math.ceil(formula)), rel=1e-12, abs=0)
        # Sufficient under the envelope: Σ_{j>m} C j^-β ≤ ε/(4ℬ²).
        assert constant * zeta(rate, m + 1) <= epsilon / (4 * B**2)

    @pytest.mark.parametrize("constant", [0.5, 4.0])
    @pytest.mark.parametrize("rate", [0.1, 1.0, 3.0])
    @pytest.mark.parametrize("epsilon", [0.3, 1e-3])
    def test_exponential(self, constant, rate, epsilon):
        B = 1.7
        decay = Decay("exponential", constant, rate, 0.0)
        m = decay.effective_dimension(epsilon, eigenfunction_bound=B)
        assert m == max(1, math.ceil(math.log(4 * constant * B**2 / (rate * epsilon)) / rate))
        tail = constant * math.exp(-rate * (m + 1)) / (1 - math.exp(-rate))
        assert tail <= epsilon / (4 * B**2)

    def test_from_the_better_envelope_or_the_one_named(self, decay):
        B = decay.eigenfunction_bound
        for profile in ("polynomial", "exponential"):
            fit = getattr(decay, profile)
            if fit.valid:
                expected = fit.effective_dimension(0.1, eigenfunction_bound=B)
                assert decay.effective_dimension(0.1, profile=profile) == expected
        best = decay.effective_dimension(0.1, profile=decay.profile)
        assert decay.effective_dimension(0.1) == best

    @pytest.mark.parametrize("epsilon", [0.5, 1e-2, 1e-6])
    def test_measured_by_brute_force(self, decay, epsilon):
        mu, limit = decay.eigenvalues, epsilon / (4 * decay.eigenfunction_bound**2)
        m = next(m for m in range(len(mu) + 1) if mu[m:].sum() + decay.remainder <= limit)
        assert decay.measured_dimension(epsilon) == m <= decay.effective_dimension(epsilon)

    def test_eigenvalues_that_are_not_listed_count(self):
        whole = kl.eigendecay(kl.Matern(0.5, 0.3), LINE)
        part = kl.eigendecay(kl.Matern(0.5, 0.3), LINE, count=20)
        assert len(part.eigenvalues) == 20
        assert part.remainder == pytest.approx(whole.eigenvalues[20:].sum(), rel=1e-6)
        epsilon = 1.1 * 4 * part.eigenfunction_bound**2 * whole.eigenvalues[15:].sum()
        tails = [whole.eigenvalues[m:].sum() for m in range(20)]
        limit = epsilon / (4 * part.eigenfunction_bound**2)
        assert part.measured_dimension(epsilon) == next(m for m in range(20) if tails[m] <= limit)
        with pytest.raises(ToleranceUnreachable, match="`epsilon` must be at least") as info:
            part.measured_dimension(1e-6)
        assert info.value.epsilon == pytest.approx(4 * part.eigenfunction_bound**2 * part.remainder)
        assert part.measured_dimension(info.value.epsilon) == 20

    @pytest.mark.parametrize("profile, slowest", [("polynomial", 1.0), ("exponential", 0.0)])
    def test_slow_decays_have_no_dimension(self, profile, slowest):
        assert Decay(profile, 1.0, slowest + 0.01, 0.0).valid
        decay = Decay(profile, 1.0, slowest, 0.0)
        assert not decay.valid
        with pytest.raises(ValueError, match=f"the {profile} rate must exceed"):
            decay.effective_dimension(0.1, eigenfunction_bound=1.0)

    def test_dimensions_beyond_all_numbers_are_refused(self):
        with pytest.raises(ValueError, match="`epsilon` must be larger"):
            Decay("polynomial", 1.0, 1.001, 0.0).effective_dimension(0.1, eigenfunction_bound=1.0)


class TestSampleSize:
    """p = 16 𝒢⁶ (1 + √(α/2))² / (δ² min(ε, δ²)), δ = (μ_m - μ_{m+1})/2 (theory A6)."""

    @pytest.mark.parametrize("rank", [1, 4])
    @pytest.mark.parametrize("epsilon", [1e-6, 0.1])
    @pytest.mark.parametrize("alpha", [3.0, 0.5])
    def test_by_hand(self, rank, epsilon, alpha):
        kernel = 2.5 * kl.Gaussian(0.3)
        decay = kl.eigendecay(kernel, LINE)
        mu = np.linalg.eigvalsh(kernel(LINE.X) / 150)[::-1]
        delta, G = (mu[rank - 1] - mu[rank]) / 2, math.sqrt(2.5)
        B = 2 * G**2 / delta * (1 + math.sqrt(alpha / 2))
        p = 4 * B**2 * G**2 / min(math.sqrt(epsilon), delta) ** 2
        assert decay.sample_size(rank, epsilon, alpha=alpha) == pytest.approx(p, rel=1e-6)

    def test_behind_the_last_eigenvalue_listed(self):
        whole = kl.eigendecay(kl.Gaussian(0.3), LINE)
        part = kl.eigendecay(kl.Gaussian(0.3), LINE, count=4)
        # The gap can only be underestimated, so the size is not too small.
        assert part.sample_size(4, 0.1) > whole.sample_size(4, 0.1)
        assert part.sample_size(3, 0.1) == pytest.approx(whole.sample_size(3, 0.1), rel=1e-6)

    def test_without_a_gap_no_number_is_enough(self):
        assert decay_of([1.0, 0.5, 0.25]).sample_size(2, 0.1) < math.inf
        pair = kl.eigendecay(kl.Gaussian(1.0), kl.Points([[0.0], [1e4]]))  # K = I
        assert pair.sample_size(1, 0.1) == math.inf

    def test_describe_says_the_number(self):
        decay = kl.eigendecay(kl.Gaussian(0.3), LINE)
        text = decay.describe(5, 1e-3)
        assert f"p = {decay.sample_size(5, 1e-3):.2g} samples" in text
        assert "rank 5" in text
        assert "150 points" in text
        sampled = kl.eigendecay(kl.Gaussian(0.3), LINE, samples=40, rng=0)
        assert "40 draws" in sampled.describe(2, 0.1)


class TestSamples:
    """Draws in place of the whole set."""

    def test_on_a_compact_set(self):
        decay = kl.eigendecay(kl.Gaussian(0.3), kl.Ball(2), samples=100, rng=0, spacing=0.5)
        assert decay.size == 100
        assert decay.bound == 1.0


@pytest.mark.parametrize("kernel", [kl.Linear(), kl.Quadratic(), kl.Polynomial(4)])
def test_finite_dimensional_kernels_leave_nothing(kernel, rng):
    decay = kl.eigendecay(kernel, kl.Points(rng.normal(size=(300, 2))))
    assert decay.remainder == 0
    assert len(decay.eigenvalues) == kernel.feature_dimension(2)
    assert decay.measured_dimension(1e-30) == kernel.feature_dimension(2)


def test_one_eigenvalue_gets_the_mildest_valid_decay():
    decay = kl.eigendecay(kl.Linear(), kl.Points([[2.0], [-1.0]]))
    assert decay.eigenvalues == pytest.approx([2.5])
    for fit in (decay.polynomial, decay.exponential):
        assert fit.valid
        assert fit.envelope(1) == pytest.approx(2.5)


def test_many_points_list_512_eigenvalues(rng):
    X = np.linspace(0, 1, 520)[rng.permutation(2049) % 520, None]
    decay = kl.eigendecay(kl.Matern(0.5, 0.1), kl.Points(X))
    assert len(decay.eigenvalues) == 512 < len(np.unique(X))
    assert decay.size == 2049
    with pytest.raises(ToleranceUnreachable):
        decay.measured_dimension(1e-12)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda d: d.effective_dimension(0.0), "`epsilon` must be positive, got 0"),
        (lambda d: d.sample_size(0, 0.1), "`rank` must be at least 1, got 0"),
        (lambda d: d.sample_size(10_000, 0.1), r"`rank` must be at most \d+, got 10000"),
        (lambda d: d.sample_size(1, 0.1, alpha=0), "`alpha` must be positive, got 0"),
        (lambda d: d.polynomial.effective_dimension(0.1, eigenfunction_bound=0.0), "`eigenfunction_bound` must be positive, got 0"),
        (lambda d: kl.eigendecay(kl.Gaussian(1.0), LINE, samples=1), "`samples` must be at least 2"),
        (lambda d: kl.eigendecay(kl.Gaussian(1.0), LINE, count=1), "`count` must be at least 2"),
        (lambda d: kl.eigendecay(kl.Linear(), kl.Points([[0.0], [0.0]])), "`kernel` must not vanish on the actions"),
    ],
)  # fmt: skip
def test_bad_arguments(call, message):
    decay = kl.eigendecay(kl.Gaussian(0.3), LINE)
    with pytest.raises(ValueError, match=message):
        call(decay)


def test_a_decay_unpacks_to_its_constants_and_compares_by_identity():
    decay, other = (kl.eigendecay(kl.Gaussian(0.3), LINE) for _ in range(2))
    C, beta = decay.exponential
    assert (C, beta) == (decay.exponential.constant, decay.exponential.rate)
    assert decay == decay != other
