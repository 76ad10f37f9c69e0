"""Traces: files, bands and growth exponents."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import koloss as kl
from koloss.games import Replicates
from koloss.games.trace import exponent
from tests.support.statistics import agrees, by_share, differs

POINTS = kl.Points([[0.0, 1.0], [0.5, 0.0]])


def game(seed=0, rounds=20):
    learner = kl.ExpWeights(POINTS, kernel=kl.Linear(), horizon=rounds, rng=seed)
    adversary = kl.games.Random(kl.Linear(), POINTS, rng=seed)
    return kl.play(learner, adversary, rounds, facts={"note": "hello"})


def ball_game():
    learner = kl.ExpWeights(kl.Ball(2), kernel=kl.Linear(), horizon=9, rng=0)
    return kl.play(learner, kl.games.Random(kl.Linear(), kl.Ball(2), rng=0), 9)


@pytest.mark.parametrize("make", [game, ball_game])
def test_files_bring_everything_back(tmp_path, make):
    trace = make()
    trace.save(tmp_path / "trace.npz")
    again = kl.Trace.load(tmp_path / "trace.npz")
    for name in ("actions", "losses", "regret", "bound", "checkpoints", "running", "uniform", "best"):  # fmt: skip
        np.testing.assert_array_equal(getattr(trace, name), getattr(again, name))
    assert (trace.index is None) == (again.index is None)
    for name in ("certificate", "valid", "seconds", "facts"):
        assert getattr(trace, name) == getattr(again, name)
    assert [p.name for p in tmp_path.iterdir()] == ["trace.npz"]


def test_thin_keeps_the_checkpoints():
    trace = game(rounds=500)
    thin = trace.thin()
    np.testing.assert_array_equal(thin.regret, trace.regret[trace.checkpoints - 1])
    np.testing.assert_array_equal(thin.actions, trace.actions[trace.checkpoints - 1])
    assert thin.running is trace.running
    assert len(thin) == len(trace.checkpoints) < 60


def test_unknown_file():
    with pytest.raises(ValueError, match=r"`path` must end in .npz, got trace.txt"):
        game().save("trace.txt")


def fake(regret):
    regret, n = np.asarray(regret), len(regret)
    return kl.Trace(
        np.zeros((n, 1)), np.zeros(n), regret, bound=np.ones(n), checkpoints=np.arange(1, n + 1), running=regret,
        uniform=regret, best=np.zeros(1), certificate="exhaustive", valid=True, seconds=0.0,
    )  # fmt: skip


def test_band_is_students():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(6, 30))
    mean, low, high = Replicates([fake(r) for r in rows], list(range(6))).band()
    expected = stats.t.interval(0.95, 5, loc=rows[:, 7].mean(), scale=stats.sem(rows[:, 7]))
    np.testing.assert_allclose((low[7], high[7]), expected)
    np.testing.assert_allclose(mean, rows.mean(axis=0))


def test_band_covers_the_mean():
    """1,000 sets of 8 runs: 5 % of the bands miss."""
    rng = np.random.default_rng(1)
    missed = 0
    for _ in range(1000):
        _, low, high = Replicates([fake(r) for r in rng.normal(size=(8, 1))], []).band()
        missed += not low[0] <= 0 <= high[0]
    assert agrees(by_share(missed, 1000, 0.05))
    assert differs(by_share(missed, 1000, 0.1))


def test_exponent_of_a_power():
    t = np.arange(1, 2001)
    rng = np.random.default_rng(0)
    runs = [fake(3 * t**0.6 * (1 + 0.05 * rng.normal())) for _ in range(10)]
    slope, error = Replicates(runs, list(range(10))).exponent()
    assert slope == pytest.approx(0.6, abs=1e-3)
    assert 0 <= error < 0.01
    linear, _ = Replicates([fake(2.0 * t)], [0]).exponent()
    assert linear == pytest.approx(1.0)
    negative, _ = Replicates([fake(-1.0 * t)], [0]).exponent()
    assert np.isnan(negative)


def test_random_losses_make_the_regret_against_the_final_best_linear():
    """Coin flips: against the best of the rounds so far √t, against that of the whole game t, for any player."""
    flips = np.cumsum(np.random.default_rng(0).choice([-1.0, 1.0], (2000, 400)), axis=1)
    t = np.arange(1, 401)
    running = np.abs(flips)  # the player gets 0, the better of two sides the absolute value
    final = flips * np.sign(flips[:, -1:])
    assert exponent(t, running)[0] == pytest.approx(0.5, abs=0.03)
    assert exponent(t, final)[0] == pytest.approx(1.0, abs=0.05)


def test_exponent_knows_its_error():
    """Slopes of 200 sets of random walks around t^0.5: about two thirds within one standard error."""
    t, rng, inside = np.arange(1, 401), np.random.default_rng(2), 0
    for _ in range(200):
        walks = [fake(5 * t**0.5 + np.cumsum(rng.normal(size=400)) * 0.2) for _ in range(20)]
        slope, error = Replicates(walks, list(range(20))).exponent()
        inside += abs(slope - 0.5) <= error
    assert 0.55 < inside / 200 < 0.80
