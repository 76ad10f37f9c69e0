"""Tables and small pictures: well formed, escaped, and nothing that is not a number; what objects look like in a notebook."""

from __future__ import annotations

import math
import re
import subprocess
import sys
import xml.etree.ElementTree as ET

import numpy as np
import pytest

import koloss as kl
from koloss import _html
from koloss.guarantees import Guarantee, wording
from koloss.guarantees.base import clause, note
from tests.pages import HOSTILE, read_html

SVG = "{http://www.w3.org/2000/svg}"


def check(text):
    """Read HTML, with matching tags, no script and no number that is none; its words, and its pictures as XML."""
    words = "".join(read_html(text).text)
    assert "<script" not in text
    assert not re.search(r"\b(nan|inf)\b", words)
    pictures = [ET.fromstring(svg) for svg in re.findall(r"<svg.*?</svg>", text, re.S)]
    for picture in pictures:
        for element in picture.iter():
            assert not re.search(r"nan|inf", " ".join(v for k, v in element.items() if k != "aria-label"))  # fmt: skip
    return words, pictures


def corners(picture, tag):
    """The points of every polyline or polygon of a picture."""
    lines = [element.get("points").split() for element in picture.iter(f"{SVG}{tag}")]
    return [[tuple(map(float, point.split(","))) for point in line] for line in lines]


# Numbers.


@pytest.mark.parametrize(
    "value, text",
    [(0.0, "0.00"), (9.876, "9.88"), (-31.26, "-31.3"), (99999.5, "100,000"), (4e-7, "4e-07"),
     (math.nan, "–"), (math.inf, "∞"), (-math.inf, "-∞"), (np.float64(3), "3.00")],
)  # fmt: skip
def test_short_numbers(value, text):
    assert _html.short_number(value) == text


@pytest.mark.parametrize("seconds", [1e-9, 3e-6, 0.5, 90.0, math.nan, math.inf])
def test_durations(seconds):
    text = _html.duration(seconds)
    assert text == "–" if not math.isfinite(seconds) else re.fullmatch(r"\d+(\.\d)? (µs|ms|s)", text)  # fmt: skip


# Tables.


def test_table_escapes_all_but_what_is_safe():
    rows = [[HOSTILE], [HOSTILE, "2"], [_html.Safe("<b>x</b>"), "3"]]
    text = _html.Table([HOSTILE, "number"], rows).__html__()
    words, _ = check(text)
    assert words.count(HOSTILE) == 3
    assert "<b>x</b>" in text
    assert text.count("<td") == 4
    assert '<th class="group" colspan="2">' in text
    with pytest.raises(ValueError, match="zip"):
        _html.Table(["a", "b"], [["1", "2", "3"]]).__html__()


def test_cards_escape():
    names = {"title": HOSTILE, "below": HOSTILE}
    facts, bars = _html.facts_table({HOSTILE: HOSTILE}), _html.bar_picture([1, 2], **names)
    lines = _html.line_picture([1, 2], [_html.Line(HOSTILE, [1, 2])], **names)
    words, pictures = check(_html.card(HOSTILE, facts, HOSTILE, lines, bars))
    assert words.count(HOSTILE) == 4 + 3 + 2
    assert [picture.get("aria-label") for picture in pictures] == [HOSTILE, HOSTILE]


# Pictures.


def test_lines_are_where_the_numbers_are():
    at, up = [0.0, 1.0, 4.0], [0.0, 5.0, 10.0]
    line = _html.Line("x", up, low=[-1.0, 4.0, 9.0], high=[1.0, 6.0, 11.0])
    _, (picture,) = check(_html.line_picture(at, [line], title="t", below="b"))
    ((first, middle, last),) = corners(picture, "polyline")
    assert (middle[0] - first[0]) / (last[0] - first[0]) == pytest.approx(0.25, abs=1e-3)
    assert (middle[1] - first[1]) / (last[1] - first[1]) == pytest.approx(0.5, abs=5e-3)
    assert last[1] < first[1]  # up is up
    assert len(corners(picture, "polygon")[0]) == 6
    log = _html.line_picture([1, 2, 3], [_html.Line("x", [1, 10, 100])], title="t", below="b", log=True)  # fmt: skip
    (line,) = corners(check(log)[1][0], "polyline")
    assert line[0][1] - line[1][1] == pytest.approx(line[1][1] - line[2][1], abs=0.2)


@pytest.mark.parametrize(
    "values, log, pieces",
    [([1, math.nan, 3, 4], False, [1, 2]), ([math.inf, 2, 3, 4], False, [3]), ([-1, 2, 0, 4], True, [1, 1]),
     ([math.nan] * 4, False, []), ([5, 5, 5, 5], False, [4]), ([0, 0, 0, 0], True, [])],
)  # fmt: skip
def test_what_cannot_be_drawn_leaves_a_gap(values, log, pieces):
    line = _html.Line("x", values, low=values, high=values)
    _, (picture,) = check(_html.line_picture(range(4), [line], title="t", below="b", log=log))
    assert [len(line) for line in corners(picture, "polyline")] == pieces


def test_bars_are_as_high_as_their_values():
    _, (picture,) = check(_html.bar_picture([0.5, 0.0, 0.25, math.nan], title="t", below="b"))
    bars = list(picture.iter(f"{SVG}rect"))
    assert len(bars) == 2
    assert float(bars[0].get("height")) == pytest.approx(2 * float(bars[1].get("height")), abs=0.2)
    check(_html.bar_picture([], title="t", below="b"))


# Objects.

NET = kl.Box([0, 0], [1, 1]).net(0.25)


def make_learner():
    return kl.BanditExpWeights(NET, kl.Gaussian(0.5), horizon=50, loss_range=(0, 1), rng=0)


def test_proxy_and_design():
    proxy = kl.pivoted_cholesky(kl.Gaussian(0.5), NET)
    words, (picture,) = check(proxy._repr_html_())
    assert f"rank{proxy.rank}" in words
    assert f"{proxy.epsilon:.3g}" in words
    assert len(corners(picture, "polyline")[0]) == proxy.rank + 1
    design = kl.john_design(proxy)
    words, (picture,) = check(design._repr_html_())
    assert f"{len(design.support)} of {len(NET)} actions" in words
    assert f"{design.max_leverage:.6g}" in words
    assert len(list(picture.iter(f"{SVG}rect"))) == len(design.support)


def test_trace():
    table = np.random.default_rng(0).random((50, len(NET)))
    trace = kl.play(make_learner(), kl.games.Replay(table), 50)
    for one in (trace, trace.thin()):
        words, (picture,) = check(one._repr_html_())
        assert "Game of 50 rounds" in words
        assert f"regret{_html.short_number(trace.regret[-1])}" in words
        assert len(corners(picture, "polyline")) == 2


LEARNERS = {
    "full": lambda: kl.ExpWeights(kl.Ball(2), kl.Quadratic(), horizon=50, rng=0),
    "gradient": lambda: kl.ConditionalGradient(kl.Ball(2), kl.Quadratic(), horizon=50, rng=0),
    "leader": lambda: kl.FollowTheRegularizedLeader(kl.Ball(2), kl.Quadratic(), horizon=50, rng=0),
    "ball": lambda: kl.BanditExpWeights(kl.Ball(2), kl.Quadratic(), horizon=50, rng=0),
    "points": make_learner,
    "anytime": lambda: kl.BanditExpWeights(NET, kl.Gaussian(0.5), horizon=None, loss_range=(0, 1), rng=0),
    "insured": lambda: kl.InsuredBandit(NET, kl.Gaussian(0.5), horizon=50, loss_range=(0, 1), rng=0),
}  # fmt: skip


@pytest.mark.parametrize("name", LEARNERS)
def test_learner(name):
    learner = LEARNERS[name]()
    learner.ask()
    before = learner.state()
    words, _ = check(learner._repr_html_())
    for part in (type(learner).__name__, "1 made, the losses of 0 heard", learner.guarantee().statement):  # fmt: skip
        assert part in words
    assert ("50 rounds" in words) == (name != "anytime")
    assert (f"features{learner.rank}," in words) == (learner.rank is not None)
    np.testing.assert_equal(learner.state(), before)  # looking changes nothing


def test_a_kernel_may_be_called_anything(monkeypatch):
    monkeypatch.setattr(kl.Gaussian, "__repr__", lambda self: HOSTILE)
    for thing in (make_learner(), LEARNERS["insured"](), kl.pivoted_cholesky(kl.Gaussian(0.5), NET)):  # fmt: skip
        words, _ = check(thing._repr_html_())
        assert HOSTILE in words


def test_guarantee(monkeypatch):
    monkeypatch.setitem(wording.THEOREMS, "A3", HOSTILE)
    terms = {"variance": 123.4, HOSTILE: 1.5, "delay": 0.0}
    form = {"form": HOSTILE}
    assumptions = (clause("form", True, **form), clause("mixed", False), clause("unmoved"), clause("span", "so far", up_to=", up to a constant"))  # fmt: skip
    guarantee = Guarantee(("A3",), 1000, terms, 100.0, assumptions, remarks=(note("alarm", alarm=HOSTILE),))  # fmt: skip
    words, _ = check(guarantee._repr_html_())
    assert words.count(HOSTILE) == 4
    assert guarantee.in_words() in words
    for part in ("regret of 1,000 rounds, not valid", "123", "1.50", "sum125", "exceeds100", "holds",
                 "densityfails", "would doyours to know", "constantheld so far"):  # fmt: skip
        assert part in words
    assert "delay" not in words
    check(Guarantee(("A3",), 1, {"x": math.inf}, math.inf, proved=False)._repr_html_())


def test_needs_nothing_of_others():
    code = "import sys\nsys.modules.update(dict.fromkeys(('jinja2', 'matplotlib', 'msgspec', 'rich')))\nimport koloss._html, koloss"  # fmt: skip
    subprocess.run([sys.executable, "-c", code], check=True)
