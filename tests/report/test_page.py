"""The report: what it says, that it needs nothing but itself, and that a browser shows it without trouble."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from koloss.experiments import bounds, catalogue, load, run
from koloss.guarantees.base import MARKS
from koloss.report import show_bounds, show_catalogue, show_results, write_page
from koloss.report.figures import dimension_figure, overview_figure, picture_figure, regret_figure
from koloss.report.page import page, sublinear
from tests.support.pages import HOSTILE, check_alone, check_texts, open_page, words_of

pytestmark = pytest.mark.slow

NAMES = ["quadratic-oracles", "mcmc-picture", "eigendecay", "posynomial"]


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    results = run(NAMES, out=tmp_path_factory.mktemp("runs"), rounds=30, runs=2, jobs=1)
    assert not any(result.failures for result in results.results)
    return results


@pytest.fixture(scope="module")
def written(played, tmp_path_factory):
    return write_page(played, tmp_path_factory.mktemp("report"))


def test_files(written):
    names = sorted(path.name for path in written)
    stems = [*NAMES, "eigendecay-dimension", "overview"]
    assert names == sorted(["report.html", *(f"{s}.{e}" for s in stems for e in ("png", "svg"))])
    assert all(path.stat().st_size > 1000 for path in written)


def test_page_says_what_was_found_and_needs_nothing_but_itself(written, played):
    check_alone(written[0], images=6)
    text = words_of(written[0])
    for result in played.results:
        assert result.experiment.title in text
        assert " ".join(result.experiment.text.split()) in text
    for curve in played.curves:
        assert curve.learner in text
        assert curve.promise["statement"] in text
    facts = played.results[1].picture.facts
    toys = "the experiment is made for 1,000"
    for part in (f"R-hat {facts['r_hat']:.3f}", "What it shows", toys, "Koloss ", "Seed 0"):
        assert part in text
    assert "the same:" not in text
    assert "nan" not in text.lower().split()


def page_text(results):
    """The page without its pictures."""
    return page(results, {})


def test_page_tells_bad_news(played):
    """A curve above its guarantee, one without a valid guarantee, an exponent of one, and a failed run."""
    result = played.results[3]
    curve = result.curves[0]
    lines = dict.fromkeys(("mean", "low", "high"), 2 * curve.bound)
    bad = replace(curve, **lines, exponent=1.01, exponent_error=0.01, failures={7: "RuntimeError: <no luck>"})  # fmt: skip
    weak = replace(bad, valid=False)
    assert (bad.above, sublinear(bad), weak.above) == (True, False, False)
    for one, words in (
        (bad, ["Above a valid guarantee: posynomial", "was above it", "not clearly below 1"]),
        (weak, ["It is not valid here", "(not valid)", "Run 7 failed: RuntimeError: &lt;no luck&gt;"]),
    ):  # fmt: skip
        text = page_text(replace(played, results=(replace(result, curves=(one,)),)))
        assert all(word in text for word in words)


def test_every_mark_of_an_assumption_is_shown(played, capsys):
    """As a program finds them in a file: true, false, null, or "so far"."""
    marks = {True: "checked, holds", False: "fails", "so far": "held so far", None: "not checked"}
    listed = [
        {"key": "coin", "text": f"assumed {k}", "holds": mark} for k, mark in enumerate(MARKS)
    ]
    result = played.results[3]
    curve = result.curves[0]
    seen = replace(curve, promise={**curve.promise, "assumptions": listed})
    text = page_text(replace(played, results=(replace(result, curves=(seen,)),)))
    (entry,) = bounds(load("posynomial"), rounds=50)
    show_bounds([{**entry, "guarantee": {**entry["guarantee"], "assumptions": listed}}])
    shown = capsys.readouterr().out
    for k, mark in enumerate(MARKS):
        assert f"<li>assumed {k}: {marks[mark]}</li>" in text
        assert f"  assumes: assumed {k} [{MARKS[mark]}]" in shown


def test_names_are_escaped(played, tmp_path):
    """Every string that a user may give, in the text, in addresses, in file names and in figures."""
    results = []
    for k, result in enumerate(played.results[2:]):
        name = f"{HOSTILE}{k}"
        experiment = replace(result.experiment, name=name, title=f"{HOSTILE} {k}", text=HOSTILE, shows=HOSTILE, paper=HOSTILE)  # fmt: skip
        curves = tuple(
            replace(curve, name=HOSTILE, learner=f"{HOSTILE} {i}", failures={1: HOSTILE},
                    promise={**curve.promise, "statement": HOSTILE, "terms": {HOSTILE: 1.0}})
            for i, curve in enumerate(result.curves)
        )  # fmt: skip
        dimensions = tuple(replace(d, learner=HOSTILE) for d in result.dimensions)
        results.append(replace(result, experiment=experiment, curves=curves, dimensions=dimensions, failures={HOSTILE: HOSTILE}))  # fmt: skip
    files = write_page(replace(played, results=tuple(results)), tmp_path)
    check_alone(files[0], images=4)
    assert {path.parent for path in files} == {tmp_path, tmp_path / "figures"}
    text = words_of(files[0])
    for result in results:
        for name in (result.experiment.title, *(curve.learner for curve in result.curves)):
            assert name in text
        assert not result.curves or result.experiment.name in text


@pytest.fixture(scope="module")
def own(played):
    """A game of a user's own, whose regret is negative."""
    result = played.results[3]
    (curve,) = result.curves
    gain = 2 * np.abs(curve.mean) + 1
    lines = {name: getattr(curve, name) - gain for name in ("mean", "low", "high")}
    curve = replace(curve, exponent=np.nan, exponent_error=np.nan, **lines)
    experiment = replace(result.experiment, title="Prices of my shop", paper="", text="")
    return replace(played, results=(replace(result, experiment=experiment, curves=(curve,)),))


def test_page_of_a_users_own_game(own, tmp_path):
    path = write_page(own, tmp_path)[0]
    check_alone(path, images=1)
    text = words_of(path)
    assert text.startswith("Prices of my shop")
    assert text.count("Prices of my shop") == 2  # the window's title, and the page's
    assert "the paper" not in text.lower()
    assert "koloss run FILE.toml --out DIR --seed 0" in text
    assert "the vertical one is linear about zero" in text


def test_negative_regret_is_drawn(own):
    (ax,) = regret_figure(own.results[0]).axes
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "symlog")
    (curve,) = own.curves
    line = next(line for line in ax.lines if line.get_label().startswith("mean regret"))
    np.testing.assert_array_equal(line.get_ydata(), curve.mean)
    low, high = ax.get_ylim()
    assert low < curve.mean.min()
    assert high > curve.bound.max()
    check_texts(regret_figure(own.results[0]))
    assert np.isfinite(overview_figure(own).axes[0].get_xlim()).all()


def test_same_results_same_files(played, tmp_path):
    some = replace(played, results=played.results[:1])
    for one, two in zip(*(write_page(some, tmp_path / name) for name in "ab"), strict=True):
        assert one.read_bytes() == two.read_bytes()
        if one.suffix == ".svg":
            text = one.read_text("utf-8")
            assert ">rounds t</text>" in text  # as text
            assert "<dc:date>" not in text


# Figures.


def test_curves_are_drawn_as_they_are(played):
    result = played.results[0]
    (ax,) = regret_figure(result).axes
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
           "picture": (picture_figure, 1), "single": (regret_figure, 3), "overview": (overview_figure, None)}  # fmt: skip


@pytest.mark.parametrize("name", FIGURES)
def test_no_text_overlaps_or_is_cut(played, name):
    draw, k = FIGURES[name]
    check_texts(draw(played if k is None else played.results[k]))


# Tables.


def test_tables(played, capsys):
    show_results(played, [Path("report.html")])
    text = capsys.readouterr().out
    assert max(len(line) for line in text.splitlines()) <= 80
    for curve in played.curves:
        assert all(word in text for word in curve.learner.split()) or curve.name in text
        assert f"{curve.bound[-1]:,.0f}" in text
    assert "wrote report.html" in text
    show_bounds(bounds(load("gaussian-bandit"), rounds=500))
    text = capsys.readouterr().out
    for word in ("exploration", "variance", "prior", "bias", "sum", "the paper prints (not valid)"):
        assert word in text
    show_catalogue(catalogue())
    assert "posynomial" in capsys.readouterr().out


# A browser.


@pytest.mark.parametrize("width", [360, 800, 1200])
def test_in_a_browser(written, tmp_path, width):
    """No console message, no broken picture, nothing wider than the screen."""
    facts, said = open_page(written[0], width, tmp_path)
    assert "CONSOLE" not in said
    facts.pop("first")
    assert facts == {"width": width, "scroll": width, "wide": 0, "images": 6, "broken": 0}


@pytest.mark.process
def test_the_browser_test_can_fail(tmp_path):
    """A page that is too wide, with a broken picture and a script that throws."""
    page = tmp_path / "page.html"
    parts = '<p style="width:900px">wide</p>', '<img src="data:image/png;base64,xx">', "<script>nonsense()</script>"  # fmt: skip
    page.write_text("".join(parts), encoding="utf-8")
    facts, said = open_page(page, 360, tmp_path)
    assert "CONSOLE" in said
    assert facts["broken"] == 1
    assert facts["scroll"] > 360
