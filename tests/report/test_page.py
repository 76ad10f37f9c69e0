"""The report: what it says, that it needs nothing but itself, and that a browser shows it without trouble."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from koloss.experiments import load
from koloss.experiments.runs import plan, work
from koloss.experiments.summary import summarise
from koloss.report import show_bounds, show_catalogue, show_results, write_page
from koloss.report.page import sublinear
from koloss.report.regret import dimension_figure, picture_figure, regret_figure
from tests.pages import check_alone, open_page, read_page

NAMES = ["quadratic-oracles", "mcmc-picture", "eigendecay", "posynomial"]


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs")
    chosen = [load(name) for name in NAMES]
    jobs = plan(chosen, out, rounds=30, runs=2)
    for job in jobs:
        job.path.parent.mkdir(parents=True, exist_ok=True)
        assert work(job)[1] == ""
    return summarise(chosen, jobs, seed=0)


@pytest.fixture(scope="module")
def written(found, tmp_path_factory):
    out = tmp_path_factory.mktemp("report")
    return write_page(found, out)


@pytest.fixture(scope="module")
def read(written):
    return read_page(written[0])


def test_files(written):
    names = sorted(path.name for path in written)
    stems = [*NAMES, "eigendecay-dimension"]
    assert names == sorted(["report.html", *(f"{s}.{e}" for s in stems for e in ("png", "svg"))])
    assert all(path.stat().st_size > 1000 for path in written)


def test_page_needs_nothing_but_itself(written):
    check_alone(written[0], images=5)


def test_page_says_what_was_found(read, found):
    text = " ".join(" ".join(read.text).split())
    for result in found.results:
        assert result.experiment.title in text
        assert " ".join(result.experiment.text.split()) in text
    for curve in found.curves:
        assert curve.learner in text
        assert curve.promise["statement"] in text
    facts = found.results[1].picture.facts
    assert f"R-hat {facts['r_hat']:.3f}" in text
    assert "What it shows" in text
    assert "the experiment is made for 1,000" in text  # these were toys
    assert "Koloss " in text
    assert "Seed 0" in text
    assert "nan" not in text.lower().split()


def test_page_tells_bad_news(found, tmp_path):
    """A curve above its guarantee, one without a valid guarantee, an exponent of one, and a failed run."""
    result = found.results[3]
    curve = result.curves[0]
    bad = replace(
        curve,
        mean=2 * curve.bound,
        low=2 * curve.bound,
        high=2 * curve.bound,
        exponent=1.01,
        exponent_error=0.01,
        failures={7: "RuntimeError: <no luck>"},
    )
    assert bad.above
    assert not sublinear(bad)
    weak = replace(bad, valid=False)
    assert not weak.above
    for one, words in (
        (bad, ["Above a valid guarantee: posynomial", "was above it", "not clearly below 1"]),
        (
            weak,
            ["It is not valid here", "(not valid)", "Run 7 failed: RuntimeError: &lt;no luck&gt;"],
        ),
    ):
        results = replace(found, results=(replace(result, curves=(one,)),))
        text = write_page(results, tmp_path)[0].read_text(encoding="utf-8")
        for word in words:
            assert word in text


def test_same_results_same_files(found, written, tmp_path):
    again = write_page(found, tmp_path)
    for one, two in zip(written, again, strict=True):
        assert one.read_bytes() == two.read_bytes()


# Figures.


def test_curves_are_drawn_as_they_are(found):
    result = found.results[0]
    figure = regret_figure(result)
    (ax,) = figure.axes
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    assert ax.get_xlabel()
    assert ax.get_ylabel()
    lines, seen = {line.get_label(): line for line in ax.lines}, []
    for curve in result.curves:
        label = next(label for label in lines if label.startswith(f"{curve.learner}: t^"))
        np.testing.assert_array_equal(lines[label].get_xdata(), curve.at)
        shown = lines[label].get_ydata()
        np.testing.assert_array_equal(shown[curve.mean > 0], curve.mean[curve.mean > 0])
        marks = [line.get_marker() for line in ax.lines if line.get_label() == label]
        assert marks[0] not in seen  # told apart in grey
        seen += marks


FIGURES = {"regret": (regret_figure, 0), "eigen": (regret_figure, 2), "dimension": (dimension_figure, 2),
           "picture": (picture_figure, 1), "single": (regret_figure, 3)}  # fmt: skip


@pytest.mark.parametrize("name", FIGURES)
def test_no_text_overlaps_or_is_cut(found, name):
    draw, k = FIGURES[name]
    figure = draw(found.results[k])
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    renderer = canvas.get_renderer()
    size = figure.bbox
    texts = []
    for ax in figure.axes:
        shown = [ax.title, ax._left_title, ax.xaxis.label, ax.yaxis.label, *ax.texts]
        for axis in (ax.xaxis, ax.yaxis):
            low, high = sorted(axis.get_view_interval())
            ticks = [tick for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]
            shown += [label for tick in ticks for label in (tick.label1, tick.label2)]
        texts += [
            (text.get_text(), text.get_window_extent(renderer))
            for text in shown
            if text.get_text() and text.get_visible()
        ]
    for legend in figure.legends:
        texts += [(t.get_text(), t.get_window_extent(renderer)) for t in legend.get_texts()]
    assert len(texts) > 8
    for text, box in texts:
        assert box.x0 >= size.x0 - 1, text
        assert box.x1 <= size.x1 + 1, text
        assert box.y0 >= size.y0 - 1, text
        assert box.y1 <= size.y1 + 1, text
    for i, (one, a) in enumerate(texts):
        for two, b in texts[i + 1 :]:
            apart = a.x1 <= b.x0 + 1 or b.x1 <= a.x0 + 1 or a.y1 <= b.y0 + 1 or b.y1 <= a.y0 + 1
            assert apart, (one, two)


# Tables.


def test_tables(found, capsys):
    show_results(found, [Path("report.html")])
    text = capsys.readouterr().out
    assert max(len(line) for line in text.splitlines()) <= 80
    for curve in found.curves:
        assert all(word in text for word in curve.learner.split()) or curve.name in text
        assert f"{curve.bound[-1]:,.0f}" in text
    assert "wrote report.html" in text
    from koloss.experiments import bounds, catalogue

    show_bounds(bounds(load("gaussian-bandit"), rounds=500))
    text = capsys.readouterr().out
    for word in ("exploration", "variance", "prior", "bias", "sum", "the paper prints (not valid)"):
        assert word in text
    show_catalogue(catalogue())
    assert "posynomial" in capsys.readouterr().out


# A browser.


@pytest.mark.parametrize("width", [360, 1200])
def test_in_a_browser(written, tmp_path, width):
    """No console message, no broken picture, nothing wider than the screen."""
    facts, said = open_page(written[0], width, tmp_path)
    assert "CONSOLE" not in said
    facts.pop("first")
    assert facts == {"width": width, "scroll": width, "wide": 0, "images": 5, "broken": 0}


def test_the_browser_test_can_fail(tmp_path):
    """A page that is too wide, with a broken picture and a script that throws."""
    page = tmp_path / "page.html"
    page.write_text(
        '<p style="width:900px">wide</p><img src="data:image/png;base64,xx"><script>nonsense()</script>',
        encoding="utf-8",
    )
    facts, said = open_page(page, 360, tmp_path)
    assert "CONSOLE" in said
    assert facts["broken"] == 1
    assert facts["scroll"] > 360
