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


@pytest.fixture(params=CASES)
def inspection(request):
    kernel, actions, options = CASES[request.param]
    return inspect(kernel, actions, **options)


@pytest.fixture(scope="module")
def square():
    return inspect(*CASES["square"][:2])


def test_three_labelled_panels(inspection):
    axes = inspection_figure(inspection).axes
    titles = [ax.get_title(loc="left") for ax in axes]
    assert titles == ["Spectrum", "Certified error", "G-optimal design"]
    assert all(ax.get_xlabel() and ax.get_ylabel() and ax.get_legend() for ax in axes)


def test_what_is_drawn_is_what_was_found(square):
    proxy, decay, best = square.proxy, square.decay, square.design
    spectrum, certified, design = inspection_figure(square).axes
    assert spectrum.get_yscale() == certified.get_yscale() == "log"
    np.testing.assert_array_equal(spectrum.lines[0].get_ydata(), decay.eigenvalues)
    for line, fit in zip(spectrum.lines[1:], (decay.exponential, decay.polynomial), strict=True):
        np.testing.assert_allclose(line.get_ydata(), fit.envelope(line.get_xdata()))
    chosen = certified.lines[-1]
    assert (chosen.get_xdata()[0], chosen.get_ydata()[0]) == (proxy.rank, proxy.epsilon)
    actions, discs = design.collections
    assert len(actions.get_offsets()) == len(square.actions)
    np.testing.assert_array_equal(discs.get_offsets(), square.actions.X[best.support])
    areas = discs.get_sizes()
    np.testing.assert_allclose(areas / areas.sum(), best.weights[best.support], rtol=1e-9)


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


def test_same_figure_same_file_with_text_as_text(square, tmp_path):
    first, second = (save(inspection_figure(square), tmp_path, name) for name in ("a", "b"))
    for one, two in zip(first, second, strict=True):
        assert one.read_bytes() == two.read_bytes()
    text = first[1].read_text(encoding="utf-8")
    assert ">Certified error</text>" in text
    assert "<dc:date>" not in text
