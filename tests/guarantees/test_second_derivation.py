"""Parts of the bandit bound derived a second time: a sampled covariance, delay with bonuses, the net."""

from __future__ import annotations

import math

import numpy as np
import pytest

import koloss as kl
from koloss.guarantees.bandit import BanditProblem, psi
from tests.support.clauses import clause_of

L, M, N = 0.7, 4, 12


def spectral(rng, s):
    """A symmetric matrix with eigenvalues from -s to s, both ends among them."""
    Q, _ = np.linalg.qr(rng.normal(size=(M, M)))
    values = np.concatenate([[-s, s], rng.uniform(-s, s, M - 2)])
    return (Q * values) @ Q.T


@pytest.mark.parametrize("seed", range(30))
def test_sampled_covariance_by_enumeration(seed):
    """Σ̂ within (1 ± s)Σ: bias at most s/(1-s)·L·√(φ'Σ⁻¹φ) beside the features' error, second moments at most 1/(1-s)² larger."""
    rng = np.random.default_rng(seed)
    s, gamma, eps = rng.uniform(0.05, 0.6), rng.uniform(0.05, 0.5), rng.choice([0.0, 0.05])
    phi, q = rng.normal(size=(N, M)), rng.dirichlet(np.full(N, 0.3))
    p = (1 - gamma) * q + gamma / N
    cov = phi.T @ (p[:, None] * phi)
    values, vectors = np.linalg.eigh(cov)
    root = (vectors * np.sqrt(values)) @ vectors.T
    sampled = root @ (np.eye(M) + spectral(rng, s)) @ root
    w = phi @ rng.normal(size=M)
    r = rng.uniform(-1, 1, N)
    loss = w + eps / (1 + eps) * np.abs(w).max() * r  # the class and a residual
    scale = L / np.abs(loss).max()
    loss, error = loss * scale, float(np.abs(loss - w).max()) * scale
    inverse = np.linalg.inv(sampled)
    x = (phi @ inverse @ phi.T) * loss[None]  # x[a, b]: the estimate for a where b is played
    mean = x @ p
    g = np.sqrt(np.einsum("ij,ji->i", phi, np.linalg.solve(cov, phi.T)))
    assert np.all(np.abs(mean - loss) <= s / (1 - s) * L * g + error * (1 + g) + 1e-12)
    assert abs((1 - gamma) * q @ (mean - loss)) <= s / (1 - s) * L + 2 * error + 1e-12
    assert (1 - gamma) * q @ (x**2 @ p) <= L**2 * M / (1 - s) ** 2 + 1e-12
    assert (1 - gamma) * q @ mean**2 <= L**2 / (1 - s) ** 2 + 1e-12
    R = float(np.max(g**2))
    assert np.abs(x).max() <= L * R / (1 - s) + 1e-12
    assert np.max(x**2 @ p) <= L**2 * R / (1 - s) ** 2 + 1e-12


@pytest.mark.parametrize("s", [0.1, 0.5])
def test_terms_with_a_sampled_covariance(s):
    n, eta, kappa, eps, failure = 5000, 0.003, 1.3, 0.002, 1e-4
    game = BanditProblem(n, M, 1.1 * M, L, eps, math.log(N), shrink=s)
    R = kappa * (1 - s) / (eta * L)
    expected = {
        "exploration": 2 * L * n * 1.1 * M / R,
        "variance": eta * n * psi(kappa) * L**2 * M / (1 - s) ** 2,
        "prior": math.log(N) / eta,
        "sampling": n * s / (1 - s) * L * (1 + math.sqrt(R)) + 2 * L * n * failure,
    }
    terms = game.terms(eta, kappa, failure=failure)
    for name, value in expected.items():
        assert terms[name] == pytest.approx(value, rel=1e-12)
    assert terms["bias"] >= n * eps * (3 + math.sqrt(R))
    # Whole epochs: each of the three squares is divided by (1 - s)².
    b = 6
    mean = L + eps + (eps + s / (1 - s) * L) * math.sqrt(R)
    square = L**2 * R / (1 - s) ** 2
    rise = b * eta * mean + b * psi(kappa) * eta**2 * square
    side = L / (1 - s) + psi(kappa) * eta * math.sqrt(square) * L * math.sqrt(M) / (1 - s)
    whole = psi(kappa) * L**2 * M / (1 - s) ** 2 + psi(rise) * b * side**2
    printed = game.terms(eta, kappa, b=b, whole=True)["variance"]
    assert printed >= eta * n * whole * (1 - 1e-12)
    assert printed <= eta * n * whole * 1.5
    # Late losses.
    late = BanditProblem(n, M, 1.1 * M, L, eps, math.log(N), shrink=s, delay=2)
    gamma = 1.1 * M / R
    grow = math.exp(4 * kappa) / (1 - gamma)
    second = math.exp(2 * kappa) * grow * mean * eta * L**2 * M / (1 - s) ** 2
    printed = late.terms(eta, kappa)["delay"]
    assert printed >= 2 * eta * n * (mean**2 + second) * (1 - 1e-12)


def test_delay_with_bonuses():
    n, eta, kappa, eps, d = 5000, 0.003, 0.4, 0.05, 3
    game = BanditProblem(n, M, 1.0 * M, L, eps, math.log(N), bonus=True, delay=d)
    # η(L g² + ε g) = κ
    g = (-eps + math.sqrt(eps**2 + 4 * L * kappa / eta)) / (2 * L)
    gamma = M / g**2
    mean = L + eps + 2 * eps * g
    grow = math.exp(2 * kappa * d) / (1 - gamma)
    S2 = (L + eps) ** 2 * M  # not L² m: the bonus enters the estimate
    terms = game.terms(eta, kappa)
    expected = eta * n * d * (mean**2 + math.exp(2 * kappa) * grow * mean * eta * S2)
    assert terms["delay"] == pytest.approx(expected, rel=1e-9)
    assert terms["variance"] == pytest.approx(eta * n * psi(kappa) * S2 * grow, rel=1e-9)


@pytest.mark.parametrize("loss_class", ["rank-one", "general"])
def test_what_the_net_may_miss(loss_class):
    """Losses of the class on a fine grid: the best action beats the best point of the net by no more."""
    rng, kernel, box = np.random.default_rng(3), 9 * kl.Gaussian(0.4), kl.Box([0.0], [1.0])
    settings = {"horizon": 500, "loss_range": (-0.5, 0.5), "loss_norm": 1.5, "spacing": 0.2}
    learner = kl.BanditExpWeights(box, kernel, loss_class=loss_class, rng=0, **settings)
    per_round = learner.guarantee().terms["net"] / 500
    net, fine = np.asarray(learner.actions), np.linspace(0, 1, 801)[:, None]
    worst = 0.0
    for _ in range(300):
        c = rng.normal(size=len(net)) * (rng.random(len(net)) < 0.4)
        K = np.asarray(kernel(net, net))
        size = np.abs(c).sum() if loss_class == "rank-one" else math.sqrt(max(c @ K @ c, 0.0))
        if size == 0:
            continue
        c *= 1.5 / size
        worst = max(worst, float((K @ c).min() - (np.asarray(kernel(fine, net)) @ c).min()))
    assert 0 < worst <= per_round
    of_losses = clause_of(learner.guarantee(), "hull" if loss_class == "rank-one" else "norm")
    assert of_losses.numbers["norm"] == 1.5
    assert ("points y_i of the net" in of_losses.text) is (loss_class == "rank-one")
    # In units of the kernel: coefficients of 9K stand for nine times as much, norms for three times.
    plain = kl.BanditExpWeights(box, kl.Gaussian(0.4), loss_class=loss_class, rng=0, **settings)
    ratio = per_round / (plain.guarantee().terms["net"] / 500)
    assert ratio == pytest.approx(9 if loss_class == "rank-one" else 3)
