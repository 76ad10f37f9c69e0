"""The figure of an inspection: what it shows, and that it is the same file every time."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

import koloss as kl
from koloss.report import inspect
from koloss.report.figures import save
from koloss.report.inspection import inspection_figure

CASES = {
    "line": (kl.Matern(1.5, 0.3), kl.Box([0], [1]).net(0.05), {"rank": 5}),
    "square": (kl.Gaussian(0.5), kl.Box([0, 0], [1, 1]).net(0.2), {}),
    "ball": (kl.Polynomial(2), kl.Ball(3).net(0.5), {"method": "exact"}),
    "point": (kl.Gaussian(0.5), kl.Points([[0.0, 0.0]]), {}),
}


def look_at(case):
    kernel, actions, options = CASES[case]
    return inspect(kernel, actions, **options)


@pytest.fixture(params=CASES)
def inspection(request):
    return look_at(request.param)


def test_three_labelled_panels(inspection):
    figure = inspection_figure(inspection)
    assert [ax.get_title(loc="left") for ax in figure.axes] == [
        "Spectrum",
        "Certified error",
        "G-optimal design",
    ]
    for ax in figure.axes:
        assert ax.get_xlabel()
        assert ax.get_ylabel()
        assert ax.get_legend() is not None


def test_what_is_drawn_is_what_was_found():
    inspection = look_at("square")
    spectrum, certified, design = inspection_figure(inspection).axes
    assert spectrum.get_yscale() == certified.get_yscale() == "log"
    np.testing.assert_array_equal(spectrum.lines[0].get_ydata(), inspection.decay.eigenvalues)
    for line, fit in zip(
        spectrum.lines[1:], (inspection.decay.exponential, inspection.decay.polynomial), strict=True
    ):
        np.testing.assert_allclose(line.get_ydata(), fit.envelope(line.get_xdata()))
    chosen = certified.lines[-1]
    assert (chosen.get_xdata()[0], chosen.get_ydata()[0]) == (
        inspection.proxy.rank,
        inspection.proxy.epsilon,
    )
    actions, discs = design.collections
    assert len(actions.get_offsets()) == len(inspection.actions)
    np.testing.assert_array_equal(
        discs.get_offsets(), inspection.actions.X[inspection.design.support]
    )
    areas = discs.get_sizes()
    np.testing.assert_allclose(
        areas / areas.sum(), inspection.design.weights[inspection.design.support], rtol=1e-9
    )


def test_nothing_overlaps(inspection):
    figure = inspection_figure(inspection)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    renderer = canvas.get_renderer()
    boxes = [ax.get_tightbbox(renderer) for ax in figure.axes]
    for left, right in pairwise(boxes):
        assert left.x1 <= right.x0
    for ax in figure.axes:
        legend = ax.get_legend().get_window_extent(renderer)
        assert legend.y1 <= ax.xaxis.label.get_window_extent(renderer).y0 + 1
        assert legend.y0 >= 0


def test_same_figure_same_file(tmp_path):
    inspection = look_at("square")
    first, second = tmp_path / "first", tmp_path / "second"
    for directory in (first, second):
        directory.mkdir()
        save(inspection_figure(inspection), directory, "figure")
    for name in ("figure.png", "figure.svg"):
        assert (first / name).read_bytes() == (second / name).read_bytes()


def test_text_in_svg_is_text(tmp_path):
    _, svg = save(inspection_figure(look_at("square")), tmp_path, "figure")
    text = svg.read_text(encoding="utf-8")
    assert ">Certified error</text>" in text
    assert "<dc:date>" not in text
