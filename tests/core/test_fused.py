"""The kernels of the refresh against the same in double precision: on a GPU where there is one, otherwise by Triton's interpreter."""

from __future__ import annotations

import numpy as np
import pytest

import koloss as kl

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.xp  # with the tests over array libraries
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"

with pytest.MonkeyPatch.context() as patch:
    if DEVICE == "cpu":  # the interpreter has to be chosen before Triton is first imported
        patch.setenv("TRITON_INTERPRET", "1")
    triton = pytest.importorskip("triton")
    triton.language.sum  # noqa: B018 - imports the rest of it


@pytest.fixture(scope="module", autouse=True)
def interpreter():
    """Kernels run as Python where there is no GPU, in these tests alone."""
    before = triton.knobs.runtime.interpret
    triton.knobs.runtime.interpret = DEVICE == "cpu"
    yield
    triton.knobs.runtime.interpret = before


@pytest.fixture(params=["highest", "high"])
def precision(request):
    """What torch is told of products of float32, and the relative error that is allowed then."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(request.param)
    yield 2e-6 if request.param == "highest" else 2e-3
    torch.set_float32_matmul_precision(before)


def fused(features, **settings):
    from koloss.core.fused import Fused

    return Fused(torch.asarray(features, device=DEVICE), **settings)


def exact(features, slope, offset, design, gamma):
    """p and E_q φφ' in double precision."""
    F = features.astype(float)
    logits = F @ slope + offset
    q = np.exp(logits - logits.max())
    q /= q.sum()
    return (1 - gamma) * q + gamma * design, F.T @ (q[:, None] * F)


def game(rng, N, m, size=1.0):
    features = (size * rng.normal(size=(N, m))).astype(np.float32)
    return features, rng.normal(size=m) / size, rng.normal(size=N), rng.dirichlet(np.ones(N))


@pytest.mark.parametrize(
    "N, m, size",  # of which the last is beyond the range of numbers of 16 bits
    [(1, 1, 1.0), (15, 3, 1.0), (1025, 16, 1.0), (40, 70, 1.0), (150, 20, 1e6)],
)
def test_a_refresh_is_that_of_double_precision(rng, precision, N, m, size):
    features, slope, offset, design = game(rng, N, m, size)
    kernels = fused(features, programs=5)
    assert kernels.halves == (size == 1.0)
    made = kernels.refresh(
        kernels.direction(slope), kernels.single(offset), kernels.single(design), 0.1
    )
    p, sigma = exact(features, slope, offset, design, 0.1)
    assert np.allclose(made.p.cpu().numpy(), p, rtol=1e-4, atol=1e-7)
    assert np.linalg.norm(kernels.sigma(made) - sigma) <= precision * np.linalg.norm(sigma)
    blocks = [p[k : k + 1024].sum() for k in range(0, N, 1024)]
    assert np.allclose(made.cumulative.cpu().numpy(), np.cumsum(blocks), rtol=1e-5)


def test_logits_of_any_size_make_no_infinities(rng):
    features, slope, _, design = game(rng, 600, 4)
    kernels = fused(features, programs=3)
    for offset in (np.full(600, 1e4), np.where(np.arange(600) == 599, 0.0, -1e4), np.linspace(-3e3, 0, 600)):  # fmt: skip
        made = kernels.refresh(
            kernels.direction(slope), kernels.single(offset), kernels.single(design), 0.2
        )
        p, sigma = exact(features, slope, offset, design, 0.2)
        assert np.allclose(made.p.cpu().numpy(), p, rtol=2e-3, atol=1e-6)
        assert np.allclose(kernels.sigma(made), sigma, rtol=5e-3, atol=1e-5)


def test_draws_invert_the_cumulative_sums(rng):
    features, slope, offset, design = game(rng, 3000, 5)
    kernels = fused(features, programs=9)
    made = kernels.refresh(
        kernels.direction(slope), kernels.single(offset), kernels.single(design), 0.5
    )
    p = made.p.cpu().numpy().astype(float)
    uniforms = np.concatenate([rng.random(30), [0.0, 1 - 2**-53]])
    drawn = kernels.draw(made, uniforms, features=True)
    index = drawn[:, 0].astype(int)
    wanted = np.searchsorted(np.cumsum(p) / p.sum(), uniforms, side="right")
    assert np.array_equal(index, np.minimum(wanted, 2999))
    assert np.array_equal(drawn[:, 1], p[index])
    assert np.array_equal(drawn[:, 2:], features[index])
    assert kernels.draw(made, uniforms, features=False).shape == (32, 2)
    again = kernels.law(made.p)
    assert np.array_equal(kernels.draw(again, uniforms, features=True), drawn)


def test_an_action_without_weight_is_never_drawn(rng):
    features, slope, offset, design = game(rng, 2048, 3)
    design[:] = 0
    design[1024] = 1.0
    offset[:] = -np.inf
    offset[[0, 2047]] = 0.0
    kernels = fused(features, programs=9)
    made = kernels.refresh(kernels.direction(0 * slope), kernels.single(offset), kernels.single(design), 0.5)  # fmt: skip
    drawn = kernels.draw(made, rng.random(50), features=False)[:, 0]
    assert set(drawn.tolist()) == {0.0, 1024.0, 2047.0}


@pytest.mark.parametrize("m", [6, 70])
@pytest.mark.parametrize("largest", [1.0, 1e5])
def test_bonuses_are_those_of_double_precision(rng, precision, m, largest):
    features = rng.normal(size=(300, m)).astype(np.float32)
    whole, penalty = largest * rng.normal(size=(m, m)), 0.1 * largest * rng.normal(size=(m, 3))
    kernels, F = fused(features), features.astype(float)
    s2 = np.einsum("ij,ij->i", F @ whole, F @ whole)
    e2 = np.einsum("ij,ij->i", F @ penalty, F @ penalty)
    found = kernels.bonus(kernels.square(whole), None, 0.5, 0.2, 0.1).cpu().numpy()
    assert np.allclose(found, 0.2 * np.sqrt(s2) + 0.1 * s2, rtol=10 * precision)
    left = np.maximum(s2 - e2, 0.0)
    wanted = 0.5 * np.sqrt(e2) + 0.2 * np.sqrt(left) + 0.1 * left
    found = kernels.bonus(kernels.square(whole), kernels.square(penalty), 0.5, 0.2, 0.1)
    assert np.allclose(found.cpu().numpy(), wanted, rtol=10 * precision)


def test_coarse_products_are_coarse(rng):
    """The control: what the other tests allow at full precision, 11 bits do not reach."""
    features, slope, offset, design = game(rng, 40, 16)
    _, sigma = exact(features, slope, offset, design, 0.1)
    torch.set_float32_matmul_precision("high")
    try:
        kernels = fused(features)
        made = kernels.refresh(kernels.direction(slope), kernels.single(offset), kernels.single(design), 0.1)  # fmt: skip
        off = np.linalg.norm(kernels.sigma(made) - sigma) / np.linalg.norm(sigma)
    finally:
        torch.set_float32_matmul_precision("highest")
    assert 2e-6 < off < 2e-3


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [{}, {"ridge": 0, "bonus": False}, {"regret": "hindsight"}, {"shares": {0: (0.1, 1.0)}}],
)
def test_learners_play_by_the_kernels(settings):
    X = np.random.default_rng(3).random((60, 2)).astype(np.float32)
    games = []
    for points in (torch.asarray(X, device=DEVICE), X.astype(float)):
        said = {"horizon": 3000, "loss_range": (0, 1), "rng": 5} | settings
        player, rows = kl.BanditExpWeights(kl.Points(points), kl.Gaussian(0.4), **said), []
        for count in (None, 12, None, 4):
            decisions = player.ask(count)
            rows += np.atleast_1d(decisions.index).tolist()
            player.tell(decisions, 0.5 + 0.5 * np.sin(decisions.action[..., 0]))
            if count == 12:  # the epoch is not over
                player.ask()
                player = kl.BanditExpWeights.from_state(player.state())
        games.append((rows, player))
    (rows, there), (others, here) = games
    assert there.engine.features.fused is not None
    assert rows == others
    assert np.allclose(there.distribution, here.distribution, rtol=1e-4)
    assert "sums of single precision on the device" in str(there.guarantee())
    assert "sums of single precision" not in str(here.guarantee())
