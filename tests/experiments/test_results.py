"""Every experiment at toy size, and what is said of it: curves, exponents, guarantees, results.json."""

from __future__ import annotations

import itertools
import json
import math

import numpy as np
import pytest
from scipy import stats

import koloss as kl
from koloss.experiments import bounds, catalogue, load, shipped
from koloss.experiments.results import printed_bound, summarise
from koloss.experiments.run import jobs_of
from koloss.games.trace import Trace
from tests.support.statistics import agrees, by_errors

pytestmark = pytest.mark.slow


def test_every_experiment_runs(toy):
    assert [result.experiment.name for result in toy.results] == shipped()
    assert not any(one.failures for one in (*toy.results, *toy.curves))
    for result in toy.results:
        learners = [learner.name for learner in result.experiment.learners]
        assert [curve.learner for curve in result.curves] == learners
    assert len({curve.name for curve in toy.curves}) == len(toy.curves)
    for curve in toy.curves:
        assert (curve.rounds, curve.runs, curve.at[-1]) == (30, 2, 30)
        assert curve.valid
        assert not curve.above
        assert np.all(curve.low <= curve.mean)
        assert np.all(curve.mean <= curve.high)
        assert np.all(curve.mean <= curve.bound)
        assert np.all(np.diff(curve.uniform) > -1)
        total = sum(curve.promise["terms"].values())
        assert curve.promise["total"] == pytest.approx(min(total, curve.promise["trivial"]))


def test_results_are_plain_and_whole(toy, tmp_path):
    path = toy.write(tmp_path)
    text = path.read_text(encoding="utf-8")
    assert "NaN" not in text
    plain = json.loads(text)
    assert [entry["name"] for entry in plain["experiments"]] == [c.name for c in toy.curves]
    for entry in plain["experiments"]:
        assert {"rounds", "runs", "regret", "exponent", "guarantee", "seconds"} <= set(entry)
        assert entry["regret"]["low"] <= entry["regret"]["mean"] <= entry["regret"]["high"]
        assert entry["curve"]["mean"][-1] == pytest.approx(entry["regret"]["mean"], rel=1e-5)
        assert entry["guarantee"] >= entry["regret"]["mean"]
        assert len({len(values) for values in entry["curve"].values()}) == 1


def test_bands_and_exponents_against_scipy():
    """Written by hand: three runs whose regret is a power of t."""
    game = load("posynomial")
    at, runs = np.arange(1, 101), []
    promise = {"statement": "s", "terms": {}, "total": 9.0, "trivial": 9.0, "informative": False,
               "valid": True, "assumptions": [], "notes": []}  # fmt: skip
    facts = {"promise": promise, "rank": None, "epsilon": None, "run_seconds": 1.0}
    for scale in (1.0, 2.0, 3.0):
        regret = scale * at**0.75
        trace = Trace(
            actions=np.zeros((100, 2)), losses=regret, regret=regret, bound=np.full(100, 50.0), checkpoints=at,
            running=regret, uniform=regret, best=np.zeros(2), certificate="dual", valid=True, seconds=0.5, facts=facts,
        )  # fmt: skip
        runs.append(trace.pack())
    jobs = jobs_of([game], rounds=100, runs=3)
    curve = summarise([game], jobs, runs, seed=0).curves[0]
    assert curve.exponent == pytest.approx(0.75)
    assert curve.exponent_error == pytest.approx(0, abs=1e-9)
    final = np.array([1.0, 2.0, 3.0]) * 100**0.75
    low, high = stats.t.interval(0.95, 2, loc=final.mean(), scale=stats.sem(final))
    last = [line[-1] for line in (curve.low, curve.mean, curve.high)]
    assert last == pytest.approx([low, final.mean(), high])
    assert curve.above  # 2 · 100^0.75 = 63.2 is above 50
    assert (curve.seconds, curve.learner_seconds) == (3.0, 1.5)


def test_picture_agrees_with_quadrature(toy):
    """Mean of Σ K(x, z) over the draws."""
    picture = next(r.picture for r in toy.results if r.picture is not None)
    facts = picture.facts
    off = facts["mean_loss"] - facts["mean_loss_exact"]
    assert agrees(by_errors(off / facts["error"]))
    assert facts["r_hat"] < 1.1
    assert np.all(np.linalg.norm(picture.points, axis=1) <= 10)
    # a negative control: uniform draws miss it by far
    loss = kl.KernelLoss(kl.Gaussian(1.0), picture.centers, np.ones(40))
    uniform = float(loss(kl.Ball(2, 10.0).sample(1500, 0)).mean())
    assert abs(uniform - facts["mean_loss_exact"]) > 20 * facts["error"]


def test_dimensions(toy):
    dimensions = {d.learner: d for r in toy.results for d in r.dimensions}
    kept = "leading features"
    rough, smooth = dimensions[f"Matérn 3/2, {kept}"], dimensions[f"Gaussian, {kept}"]
    # 1-D Matérn of smoothness ν: eigenvalues like j^-(2ν + 1)
    assert rough.rate == pytest.approx(4, abs=0.3)
    assert dimensions[f"Matérn 5/2, {kept}"].rate == pytest.approx(6, abs=0.3)
    assert smooth.profile == "exponential"
    assert rough.corollary == pytest.approx(rough.rate / (2 * rough.rate - 2))
    assert smooth.corollary == 0.5
    assert dimensions[f"Matérn 1/2, {kept}"].corollary is None  # β below 2
    assert all(a >= b for a, b in zip(rough.ranks, smooth.ranks, strict=True))
    assert rough.ranks == sorted(rough.ranks)
    # With a ridge: (ν + 1)/(2ν + 1) for a norm, (2ν + 1)/(4ν + 1) for rank-one losses, and fewer dimensions than features.
    ridge = dimensions["Matérn 3/2, ridge"]
    assert ridge.norm == pytest.approx(2.5 / 4, abs=0.02)
    assert ridge.hull == pytest.approx(4 / 7, abs=0.02)
    assert rough.dimensions == rough.ranks
    assert all(a < b for a, b in zip(ridge.dimensions, rough.dimensions, strict=True))
    assert all(a < b for a, b in zip(ridge.bounds, rough.bounds, strict=True))


def test_the_papers_bounds():
    """Only that of the leader is valid; it is 2nη𝒢² + 2𝒢²/η at η = 1/√n, with 𝒢² = 2 on the ball."""
    game = load("quadratic-oracles")
    said = [printed_bound(game, learner, 100) for learner in game.learners]
    assert [one["valid"] for one in said] == [False, False, True, True]
    assert [one["of_this_tuning"] for one in said] == [False, True, False, True]
    assert said[3]["total"] == pytest.approx(8 * math.sqrt(100))
    bandit = load("quadratic-bandit")
    assert printed_bound(bandit, bandit.learners[0], 100) is None


def test_bounds_are_those_of_the_learners():
    lines = bounds(load("gaussian-bandit"), rounds=2000)
    settings = {"horizon": 2000, "proxy": "kernel_pca", "loss_range": (0, 1)}
    settings |= {"ridge": 0, "bonus": False, "loss_class": "rank-one", "loss_norm": 1.0}
    learner = kl.BanditExpWeights(kl.Ball(2).net(0.1), kl.Gaussian(0.5), **settings)
    assert lines[0]["guarantee"]["total"] == pytest.approx(learner.guarantee().total)
    assert lines[0]["rank"] == learner.rank
    json.dumps(lines, allow_nan=False)


def test_catalogue_has_a_line_about_everything():
    for entry in itertools.chain(*catalogue().values()):
        assert entry["name"]
        assert entry["about"]
