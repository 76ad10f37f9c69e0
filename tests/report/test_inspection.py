"""What an inspection finds, against the library called by hand, and its figure."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

import koloss as kl
from koloss.report import inspect
from koloss.report import inspection as module
from koloss.report.inspection import inspection_figure, milestones

SQUARE = kl.Box([0, 0], [1, 1]).net(0.2)
LINE = kl.Box([0], [1]).net(0.05)


@pytest.fixture(scope="module")
def inspection():
    return inspect(kl.Gaussian(0.5), SQUARE)


def test_numbers_are_those_of_the_library(inspection):
    proxy = kl.pivoted_cholesky(kl.Gaussian(0.5), SQUARE)
    decay = kl.eigendecay(kl.Gaussian(0.5), SQUARE)
    assert (inspection.proxy.rank, inspection.proxy.epsilon) == (proxy.rank, proxy.epsilon)
    np.testing.assert_array_equal(inspection.decay.eigenvalues, decay.eigenvalues)
    assert inspection.design.max_leverage == kl.john_design(proxy).max_leverage
    assert inspection.sample_size == decay.sample_size(proxy.rank, 1e-3)
    assert inspection.statement() == decay.describe(proxy.rank, 1e-3)
    assert inspection.effective_dimension(decay.best) == decay.effective_dimension(1e-3)


def test_designs_are_in_order_and_the_first_is_best(inspection):
    methods = [d.method for d in inspection.designs]
    assert methods == ["G-optimal design", "barycentric spanner", "uniform"]
    assert inspection.design.max_leverage == min(d.max_leverage for d in inspection.designs)


@pytest.mark.parametrize("method", ["pivoted-cholesky", "kernel-pca", "mercer"])
def test_certified_error_goes_on_beyond_the_rank(method):
    inspection = inspect(kl.Gaussian(0.5), SQUARE, method=method, rank=6)
    assert len(inspection.certified) == 13
    assert inspection.certified[6] == pytest.approx(inspection.proxy.epsilon, rel=1e-9)
    assert inspection.certified[12] < inspection.certified[6]


def test_certified_error_ends_at_the_numerical_rank_or_beyond_memory(monkeypatch):
    inspection = inspect(kl.Gaussian(5.0), SQUARE, tolerance=1e-10)
    assert inspection.proxy.rank < len(inspection.certified) < 2 * inspection.proxy.rank + 1
    monkeypatch.setattr(module, "CURVE_BYTES", 0)
    assert len(inspect(kl.Gaussian(0.5), SQUARE, rank=6).certified) == 7


def test_error_asked_for():
    assert inspect(kl.Gaussian(0.5), LINE).epsilon == 1e-3
    assert inspect(3.0 * kl.Gaussian(0.5), LINE).epsilon == pytest.approx(3e-3)
    assert inspect(kl.Gaussian(0.5), LINE, tolerance=0.02).epsilon == 0.02
    by_rank = inspect(kl.Gaussian(0.5), LINE, rank=3)
    assert by_rank.epsilon == by_rank.proxy.epsilon


def test_large_sets_have_their_spectrum_from_draws(monkeypatch):
    monkeypatch.setattr(module, "SPECTRUM_POINTS", 20)
    inspection = inspect(kl.Gaussian(0.5), SQUARE)
    assert (inspection.decay.size, inspection.decay.sampled) == (20, True)
    assert inspection.to_dict()["spectrum"]["sampled"] is True


def test_plain_data_is_strict_json(inspection):
    data = json.loads(json.dumps(inspection.to_dict(), allow_nan=False))
    weights = np.asarray(data["design"]["weights"])
    assert weights.sum() == pytest.approx(1)
    np.testing.assert_array_equal(SQUARE.X[data["design"]["support"]], data["design"]["actions"])
    assert kl.Kernel.from_dict(data["kernel"]) == kl.Gaussian(0.5)
    assert set(data["seconds"]) == {
        *("proxy", "spectrum", "design", "spanner", "uniform", "dimensions")
    }


@pytest.mark.parametrize("kernel", [kl.Gaussian(0.5), kl.Matern(0.5, 0.3), 3.0 * kl.Linear()])
@pytest.mark.parametrize("room", [2e8, 1500], ids=["all features", "few"])
def test_dimensions_are_those_of_the_worst_law_nearly(kernel, room, monkeypatch):
    monkeypatch.setattr(module, "REFRESH", room)
    found = inspect(kernel, LINE, tolerance=0.1 * kernel.bound(LINE)).dimensions
    K, rng = kernel(LINE.X), np.random.default_rng(0)
    assert len(found) > (1 if room < 1e6 else 8)
    assert found[0].penalty == pytest.approx(np.diag(K).max())
    laws = [np.full(len(K), 1 / len(K)), *rng.dirichlet(np.full(len(K), 0.3), size=30)]
    for j, d in enumerate(found):
        assert d.penalty == pytest.approx(found[0].penalty / 4**j)
        sizes = []
        for p in laws:
            root = np.sqrt(p)
            h = np.clip(np.linalg.eigvalsh(root[:, None] * K * root), 0, None)
            h = h / (h + d.penalty)
            assert d.dimension >= h.sum() - 1e-9
            assert d.spread >= (h * (1 - h)).sum() - 1e-9
            sizes.append(h.sum())
        assert d.dimension <= 1.6 * max(sizes)


def test_no_gap_means_no_sample_size():
    # The rows of the identity have equal eigenvalues: an eigengap of zero, or of rounding.
    inspection = inspect(kl.Linear(), kl.Points(np.eye(3)), rank=2)
    data = inspection.to_dict()
    samples = data["sample_size"]["samples"]
    assert samples is None or samples > 1e30
    json.dumps(data, allow_nan=False)


def test_rank_beyond_the_spectrum():
    inspection = inspect(kl.Gaussian(1.0), LINE, method="mercer", rank=20)
    assert inspection.sample_size is None
    assert "stand out from rounding" in inspection.statement()
    assert inspection.to_dict()["sample_size"]["samples"] is None


@pytest.mark.parametrize(
    "options, message",
    [
        ({"method": "magic"}, "must be one of pivoted-cholesky, kernel-pca, mercer, exact, got"),
        ({"method": "exact", "rank": 2}, "`rank` must be left out for exact features, got 2"),
        ({"rank": 2, "tolerance": 0.1}, "not both"),
    ],
)
def test_bad_arguments(options, message):
    with pytest.raises(ValueError, match=message):
        inspect(kl.Linear(), LINE, **options)


@pytest.mark.parametrize("last", [1, 2, 8, 9, 50, 1000])
def test_milestones(last):
    chosen = milestones(last)
    assert (chosen[0], chosen[-1]) == (1, last)
    assert chosen == sorted(set(chosen))
    assert len(chosen) <= 8


def test_errors_below_rounding_have_no_dimension():
    square = kl.Box([0, 0], [1, 1]).net(0.05)
    inspection = inspect(kl.Gaussian(0.3), square, tolerance=1e-11)
    assert inspection.measured_dimension is None
    assert inspection.to_dict()["spectrum"]["measured_dimension"] is None
    assert inspect(kl.Gaussian(0.3), square, tolerance=1e-4).measured_dimension > 10


# The figure.

CASES = {
    "line": (kl.Matern(1.5, 0.3), LINE, {"rank": 5}),
    "square": (kl.Gaussian(0.5), SQUARE, {}),
    "ball": (kl.Polynomial(2), kl.Ball(3).net(0.5), {"method": "exact"}),
    "point": (kl.Gaussian(0.5), kl.Points([[0.0, 0.0]]), {}),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_three_labelled_panels_and_nothing_overlaps(case):
    kernel, actions, options = CASES[case]
    figure = inspection_figure(inspect(kernel, actions, **options))
    titles = [ax.get_title(loc="left") for ax in figure.axes]
    assert titles == ["Spectrum", "Certified error", "G-optimal design"]
    assert all(ax.get_xlabel() and ax.get_ylabel() for ax in figure.axes)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    renderer = canvas.get_renderer()
    for left, right in pairwise(ax.get_tightbbox(renderer) for ax in figure.axes):
        assert left.x1 <= right.x0
    for ax in figure.axes:
        legend = ax.get_legend().get_window_extent(renderer)
        assert legend.y1 <= ax.xaxis.label.get_window_extent(renderer).y0 + 1
        assert legend.y0 >= 0


def test_what_is_drawn_is_what_was_found(inspection):
    proxy, decay, best = inspection.proxy, inspection.decay, inspection.design
    spectrum, certified, design = inspection_figure(inspection).axes
    assert spectrum.get_yscale() == certified.get_yscale() == "log"
    np.testing.assert_array_equal(spectrum.lines[0].get_ydata(), decay.eigenvalues)
    for line, fit in zip(spectrum.lines[1:], (decay.exponential, decay.polynomial), strict=True):
        np.testing.assert_allclose(line.get_ydata(), fit.envelope(line.get_xdata()))
    chosen = certified.lines[-1]
    assert (chosen.get_xdata()[0], chosen.get_ydata()[0]) == (proxy.rank, proxy.epsilon)
    actions, discs = design.collections
    assert len(actions.get_offsets()) == len(inspection.actions)
    np.testing.assert_array_equal(discs.get_offsets(), inspection.actions.X[best.support])
    areas = discs.get_sizes()
    np.testing.assert_allclose(areas / areas.sum(), best.weights[best.support], rtol=1e-9)
