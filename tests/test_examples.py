"""The examples run, at a small size, and show what they say."""

from __future__ import annotations

import importlib.util
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


def load(name):
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its dataclasses look themselves up
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_online_pca(capsys):
    pytest.importorskip("sklearn")
    example = load("online_pca")
    X = example.stream(150)
    assert X.shape == (150, 64)
    np.testing.assert_allclose(np.linalg.norm(X, axis=1), 1)
    rows = {row.name: row for row in example.main(rounds=150)}
    best = np.linalg.svd(X, compute_uv=False)[0] ** 2
    assert rows["best direction"].captured == pytest.approx(best)
    uniform = rows["random directions, mean"].captured
    for name in example.LEARNERS:
        row = rows[name]
        assert row.regret == pytest.approx(best - row.captured)
        assert row.regret <= row.bound
    assert rows["follow the leader"].captured > 5 * uniform  # it learns
    assert rows["conditional gradient"].captured > 2 * uniform
    example.show(list(rows.values()))
    assert capsys.readouterr().out.count("\n") == 1 + len(rows)


def test_power_control(capsys):
    example = load("power_control")
    result = example.main(rounds=120)
    loss = {row.name: row.mean_loss for row in result.rows}
    assert loss["best fixed powers"] < loss["conditional gradient"] < loss["best common power"]
    assert loss["best common power"] <= loss["full power"]
    assert result.rows[1].regret <= result.learner.guarantee().total
    assert result.learner.guarantee().valid
    assert result.learner.diagnostics.certificate == "dual"  # a posynomial in every round
    # The best fixed powers against a search of the box that knows nothing of posynomials.
    C = [example.coefficients(g) for g in example.channels(3, 120, np.random.default_rng(0))]
    axis = np.linspace(0.2, 1.0, 33)
    grid = np.stack(np.meshgrid(axis, axis, axis), axis=-1).reshape(-1, 3)
    found = example.monomials(3).features(grid) @ np.mean(C, axis=0)
    assert loss["best fixed powers"] <= found.min() <= 1.001 * loss["best fixed powers"]
    example.show(result)
    assert "best fixed powers" in capsys.readouterr().out


def test_losses_are_inverse_ratios():
    """The coefficients against the formula with powers and gains, one user after the other."""
    example = load("power_control")
    rng = np.random.default_rng(0)
    gains, p = rng.random((3, 3)), rng.random(3) + 0.2
    direct = example.PRICE * p.sum()
    for i in range(3):
        heard = sum(gains[i, j] * p[j] for j in range(3) if j != i)
        direct += (example.NOISE + heard) / (gains[i, i] * p[i])
    features = example.monomials(3).features(p[None])[0]
    assert features @ example.coefficients(gains) == pytest.approx(direct)


@pytest.mark.slow
def test_a_sweep_on_a_cluster(monkeypatch):
    """The program of the guide, on two processes and small; the same numbers as in this process."""
    distributed = pytest.importorskip("distributed")
    size = {"widths": [0.4], "noises": [1, 2], "rounds": 20, "runs": 3}
    monkeypatch.setenv("PYTHONPATH", f"{EXAMPLES}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    monkeypatch.syspath_prepend(EXAMPLES)
    example = importlib.import_module("sweep")  # which the workers find, too
    cluster = distributed.LocalCluster(2, threads_per_worker=1, dashboard_address=None)
    with cluster, distributed.Client(cluster) as client:
        there = list(example.sweep(client.get_executor(), **size))
    with ThreadPoolExecutor(1) as pool:
        assert there == list(example.sweep(pool, **size))
    assert [row[3] for row in there] == [{}, {}]
    guide = (EXAMPLES.parent / "docs/guide/reproduce.md").read_text("utf-8")
    assert Path(example.__file__).read_text("utf-8") in guide
