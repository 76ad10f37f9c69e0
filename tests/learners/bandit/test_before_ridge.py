"""Without a ridge, and with everything else said, the learner plays as it did before there was one."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

import koloss as kl
from koloss.learners.bandit.exp2 import Exp2

KEPT = Path(__file__).parent / "data" / "before_ridge.json"
DESIGNS = Path(__file__).parent / "data" / "before_ridge_designs.json"
LINE = kl.Points(np.linspace(0, 1, 30)[:, None])
SQUARE = kl.Points(np.random.default_rng(2).random((50, 2)))
RATES = {"learning_rate": 0.05, "exploration_rate": 0.1}
GAMES = {
    "gaussian": (LINE, kl.Gaussian(0.3), {"rank": 8, "bonus": False}),
    "bonus": (LINE, kl.Gaussian(0.3), {"rank": 6, "bonus": True}),
    "single rounds": (SQUARE, kl.Gaussian(0.5), {"rank": 12, "bonus": False, "batch": 1}),
    "general": (SQUARE, kl.Matern(1.5, 0.4), {"rank": 20, "bonus": True, "loss_class": "general"}),
    "linear": (SQUARE, kl.Linear(), {"rank": 2, "bonus": False}),
    "quadratic": (SQUARE, kl.Quadratic(), {"rank": 5, "bonus": False, "batch": 7}),
    "no range": (LINE, kl.Gaussian(0.3), {"rank": 8, "bonus": False, "loss_range": None}),
    "kernel pca": (LINE, kl.Gaussian(0.2), {"rank": 9, "bonus": False, "proxy": "kernel_pca"}),
    "uniform design": (LINE, kl.Gaussian(0.2), {"rank": 9, "bonus": False, "design": "uniform"}),
}


def play(name, **ridge):
    """Indices and probabilities of 200 decisions, some of them made at once and told late."""
    actions, kernel, settings = GAMES[name]
    said = {"horizon": 2000, "loss_range": (0, 1), "loss_class": "rank-one", "loss_norm": 1.0}
    # The designs of that time: their solver left off at a gap of 10⁻⁸, and another one does elsewhere.
    designs = json.loads(DESIGNS.read_text(encoding="utf-8"))
    if name in designs:
        weights = np.asarray(designs[name]["weights"])
        design = kl.Design(weights, designs[name]["rank"], designs[name]["max_leverage"], "kept")
        settings = settings | {"design": design}
    settings = said | RATES | settings | ridge
    if "batch" not in settings:  # epochs of that time
        learner = kl.BanditExpWeights(actions, kernel, rng=0, **settings)
        settings["batch"] = math.ceil(learner.dimension / 4)
    learner = kl.BanditExpWeights(actions, kernel, rng=np.random.default_rng(5), **settings)
    index, probability, waiting = [], [], []
    for t in range(100):
        decision = learner.ask()
        index.append(decision.index)
        probability.append(decision.probability)
        waiting.append(decision)
        if t % 10 == 9:
            batch = learner.ask(10)
            index += batch.index.tolist()
            probability += batch.probability.tolist()
            learner.tell(batch, (batch.action[:, 0] - 0.4) ** 2)
        if t % 3 == 2:
            for one in waiting:
                learner.tell(one, float((one.action[0] - 0.4) ** 2))
            waiting.clear()
    return {"index": index, "probability": probability}


def had_drifted(exp2, epoch):
    """The end of an epoch at that time."""
    rises = -(exp2.engine.features @ epoch.gain)
    if epoch.law.bonus is not None:
        rises = rises + epoch.heard * epoch.law.bonus
    return epoch.eta * rises.max() > 0.5


@pytest.mark.parametrize("name", GAMES)
def test_plays_as_before(name, monkeypatch):
    monkeypatch.setattr(Exp2, "_has_drifted", had_drifted)
    monkeypatch.setattr(Exp2, "_include", lambda *_: None)
    now, before = play(name, ridge=0), json.loads(KEPT.read_text(encoding="utf-8"))[name]
    assert now["index"] == before["index"]
    # Bit for bit where they were kept; another BLAS adds in another order.
    np.testing.assert_allclose(now["probability"], before["probability"], rtol=1e-9)
