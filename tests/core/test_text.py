"""Tables: well formed, escaped, and nothing that is not a number; what objects look like in a notebook."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

import koloss as kl
from koloss.core import text as html
from koloss.guarantees import Guarantee, wording
from koloss.guarantees.base import clause, note
from tests.support import inside
from tests.support.pages import HOSTILE, read_html


def check(text):
    """Read HTML, with matching tags, no script and no number that is none; its words."""
    words = "".join(read_html(text).text)
    assert "<script" not in text
    assert not re.search(r"\b(nan|inf)\b", words)
    return words


# Numbers.


@pytest.mark.parametrize(
    "value, text",
    [(0.0, "0.00"), (9.876, "9.88"), (-31.26, "-31.3"), (99999.5, "100,000"), (4e-7, "4e-07"),
     (math.nan, "–"), (math.inf, "∞"), (-math.inf, "-∞"), (np.float64(3), "3.00")],
)  # fmt: skip
def test_short_numbers(value, text):
    assert html.short_number(value) == text


@pytest.mark.parametrize("seconds", [1e-9, 3e-6, 0.5, 90.0, math.nan, math.inf])
def test_durations(seconds):
    text = html.duration(seconds)
    assert text == "–" if not math.isfinite(seconds) else re.fullmatch(r"\d+(\.\d)? (µs|ms|s)", text)  # fmt: skip


# Tables.


def test_table_escapes_all_but_what_is_safe():
    rows = [[HOSTILE], [HOSTILE, "2"], [html.Safe("<b>x</b>"), "3"]]
    text = html.Table([HOSTILE, "number"], rows).__html__()
    words = check(text)
    assert words.count(HOSTILE) == 3
    assert "<b>x</b>" in text
    assert text.count("<td") == 4
    assert '<th class="group" colspan="2">' in text
    with pytest.raises(ValueError, match="zip"):
        html.Table(["a", "b"], [["1", "2", "3"]]).__html__()


def test_cards_escape():
    words = check(html.card(HOSTILE, html.facts_table({HOSTILE: HOSTILE}), HOSTILE))
    assert words.count(HOSTILE) == 4


# Objects.

NET = kl.Box([0, 0], [1, 1]).net(0.25)


def make_learner():
    return kl.BanditExpWeights(NET, kl.Gaussian(0.5), horizon=50, loss_range=(0, 1), rng=0)


def test_proxy_and_design():
    proxy = kl.pivoted_cholesky(kl.Gaussian(0.5), NET)
    words = check(inside.html(proxy))
    assert f"rank{proxy.rank}" in words
    assert f"{proxy.epsilon:.3g}" in words
    design = kl.john_design(proxy)
    words = check(inside.html(design))
    assert f"{len(design.support)} of {len(NET)} actions" in words
    assert f"{design.max_leverage:.6g}" in words


def test_trace():
    table = np.random.default_rng(0).random((50, len(NET)))
    trace = kl.play(make_learner(), kl.games.Replay(table), 50)
    for one in (trace, trace.thin()):
        words = check(inside.html(one))
        assert "Game of 50 rounds" in words
        assert f"regret{html.short_number(trace.regret[-1])}" in words


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
    words = check(inside.html(learner))
    for part in (type(learner).__name__, "1 made, the losses of 0 heard", learner.guarantee().statement):  # fmt: skip
        assert part in words
    assert ("50 rounds" in words) == (name != "anytime")
    assert (f"features{learner.rank}," in words) == (learner.rank is not None)
    np.testing.assert_equal(learner.state(), before)  # looking changes nothing


def test_a_kernel_may_be_called_anything(monkeypatch):
    monkeypatch.setattr(kl.Gaussian, "__repr__", lambda self: HOSTILE)
    for thing in (make_learner(), LEARNERS["insured"](), kl.pivoted_cholesky(kl.Gaussian(0.5), NET)):  # fmt: skip
        words = check(inside.html(thing))
        assert HOSTILE in words


def test_guarantee(monkeypatch):
    monkeypatch.setitem(wording.THEOREMS, "A3", HOSTILE)
    terms = {"variance": 123.4, HOSTILE: 1.5, "delay": 0.0}
    form = {"form": HOSTILE}
    assumptions = (clause("form", True, **form), clause("mixed", False), clause("late order"), clause("span", "so far", up_to=", up to a constant"))  # fmt: skip
    guarantee = Guarantee(("A3",), 1000, terms, 100.0, assumptions, remarks=(note("alarm", alarm=HOSTILE),))  # fmt: skip
    words = check(inside.html(guarantee))
    assert words.count(HOSTILE) == 4
    assert guarantee.in_words() in words
    for part in ("regret of 1,000 rounds, not valid", "123", "1.50", "sum125", "exceeds100", "holds",
                 "densityfails", "not yet receivedyours to know", "constantheld so far"):  # fmt: skip
        assert part in words
    assert "delay" not in words
    check(inside.html(Guarantee(("A3",), 1, {"x": math.inf}, math.inf, proved=False)))
