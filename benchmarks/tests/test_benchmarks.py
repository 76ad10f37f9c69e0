"""The page of benchmarks is what was measured and kept beside it; the measuring itself is right."""

from __future__ import annotations

import copy
import json
from dataclasses import replace

import numpy as np
import pytest

import koloss as kl
from benchmarks import GROUPS, NAMES, guarantees, page, timing
from benchmarks.__main__ import keep, show_kept
from benchmarks.aims import AIMS
from benchmarks.tables import Spread, Table, escaped, markdown, text


@pytest.fixture(scope="module")
def results():
    return page.load()


def test_the_page_says_what_was_measured(results):
    assert page.PAGE.read_text("utf-8") == page.render(results)


@pytest.mark.parametrize("aim", AIMS, ids=lambda aim: aim.figure)
def test_negative_control_another_number_gives_another_page(results, aim):
    """The number of an aim, changed by a tenth."""
    told = copy.deepcopy(results)
    tables = [t for t in told[aim.benchmark]["tables"] if t["title"].startswith(aim.table)]
    rows = [row for table in tables for row in table["rows"]]
    row = next(row for row in rows if all(row.get(k) == v for k, v in aim.row.items()))
    cell = row[aim.column]
    changed = 1.1 * aim.find(results).median if isinstance(cell, dict) else 1.1 * cell
    row[aim.column] = cell | {"median": changed} if isinstance(cell, dict) else changed
    assert page.render(told) != page.render(results)


def test_all_tables_that_are_kept_can_be_shown(results, capsys):
    for group, parts in GROUPS.items():
        show_kept(page.KEPT, parts)
        shown = capsys.readouterr().out
        for part in parts:
            for table in results[part]["tables"]:
                assert table["title"][:40] in " ".join(shown.split()), group


def test_every_benchmark_was_measured_and_says_how(results):
    assert list(results) == list(NAMES)
    for name, found in results.items():
        assert found["command"].startswith(f"python -m benchmarks {name}")
        assert found["tables"]
        assert {"processor", "cores", "load before", "load after"} <= set(found["machine"])


@pytest.mark.parametrize("aim", AIMS, ids=lambda aim: aim.figure)
def test_every_aim_is_measured_and_has_a_reason(results, aim):
    assert aim.find(results) is not None
    assert (aim.least is None) != (aim.most is None)
    assert aim.reason


def beyond_reach(aim, far):
    """An aim that nobody misses, or one that nobody meets."""
    if aim.least is not None:
        return replace(aim, least=1e300 if far else -1e300)
    return replace(aim, most=-1e300 if far else 1e300)


@pytest.mark.parametrize("missed", ["as measured", "none", "every second", "all"])
def test_what_falls_short_is_named_with_its_reason(results, missed, monkeypatch):
    aims = list(AIMS)
    if missed != "as measured":
        far = {"none": lambda _: False, "every second": lambda k: k % 2 == 0, "all": lambda _: True}
        aims = [beyond_reach(aim, far[missed](k)) for k, aim in enumerate(AIMS)]
    monkeypatch.setattr(page, "AIMS", aims)
    short = [aim for aim in aims if not aim.is_met(aim.find(results))]
    assert missed == "as measured" or len(short) in (0, len(aims), (len(aims) + 1) // 2)
    rendered = page.render(results)
    named = rendered.partition("## What falls short, and why\n")[2].partition("\n## ")[0]
    for aim in aims:
        line = f"- **{escaped(aim.figure)}**"
        assert (line in named) == (aim in short)
        assert aim not in short or aim.reason in named


def test_an_aim_is_met_or_not():
    aim = AIMS[0]
    assert aim.least == 150
    assert aim.is_met(150.0)
    assert not aim.is_met(Spread(149.0, 100.0, 200.0))
    assert aim.find({}) is None


def test_a_busy_machine_is_named(results):
    told = copy.deepcopy(results)
    for found in told.values():
        found["machine"] |= {"cores": 2, "load before": 1.0, "load after": 1.2}
    assert "other work while these ran" not in page.render(told)
    told["designs"]["machine"]["load after"] = 8.0
    assert "other work while these ran: designs." in page.render(told)


def test_a_table_survives_the_file(tmp_path):
    table = Table("A|b", ["who", "time", "exponent"], "A note.")
    table.add("one", 1234, Spread(1.0, 0.5, 1.5))
    table.add("two_", 0.125, None)
    keep(tmp_path / "kept.json", "designs", {"tables": [table.to_dict()]})
    keep(tmp_path / "kept.json", "bandit", {"tables": []})
    kept = json.loads((tmp_path / "kept.json").read_text("utf-8"))
    assert list(kept) == ["bandit", "designs"]  # in the order of the page
    again = Table.from_dict(kept["designs"]["tables"][0])
    assert [tuple(row) for row in again.rows] == table.rows
    assert markdown(again).splitlines() == [
        "| who | time | exponent |",
        "| --- | ---: | ---: |",
        "| one | 1,234 | 1 (0.5 to 1.5) |",
        "| two\\_ | 0.125 |  |",
    ]
    with pytest.raises(ValueError, match="a row must have 3 cells, got 1"):
        table.add("three")


def test_text_of_numbers():
    assert text(12345.6) == "12,346"
    assert text(0.000123456) == "0.000123"
    assert text(True) == "True"


def test_a_ratio_is_that_of_laps_that_met_the_same_machine():
    """Every second lap is ten times slower for both: the ratio does not move, that of medians of a shifted list would."""
    noise = np.array([1.0, 10.0, 1.0, 10.0, 1.0])
    found = timing.ratio(list(3 * noise), list(noise))
    assert found == Spread(3.0, 3.0, 3.0)
    apart = timing.ratio(list(3 * noise), list(np.roll(noise, 1)))
    assert apart.high > 2 * apart.low


def test_exponents_are_found_with_their_spread():
    sizes = [10, 100, 1000]
    seconds = [[scale * size**1.5 for scale in (1.0, 2.0, 5.0)] for size in sizes]
    found = timing.exponent(sizes, seconds)
    assert np.allclose((found.low, found.median, found.high), 1.5)
    seconds[2][0] *= 2  # one lap of the largest size was slow
    assert timing.exponent(sizes, seconds).high > 1.55


def test_races_take_turns(monkeypatch):
    monkeypatch.setattr(timing.gc, "collect", lambda: 0)  # which takes long beside other tests
    order = []
    laps = timing.race({name: lambda name=name: order.append(name) for name in "ab"}, repeats=2)
    assert order == list("ababab")
    assert [len(lap.runs) for lap in laps.values()] == [2, 2]


def test_the_page_of_guarantees_has_a_row_for_every_setting():
    text = guarantees.PAGE.read_text("utf-8")
    table = text.partition(guarantees.BEGIN)[2].partition(guarantees.END)[0].strip().splitlines()
    assert table[:2] == guarantees.head()
    assert [line.split(" | ")[0] for line in table[2:]] == [
        f"| {row.name}" for row in guarantees.rows()
    ]


def test_a_row_of_guarantees_is_measured():
    """A game of a few rounds: random play loses the mean of the market less its least loss."""
    row = guarantees.Row("40 prices", kl.BanditExpWeights, 830, rounds=50)
    found, values = guarantees.measure(row, 2), guarantees.market(guarantees.PRICES)
    assert found.random == pytest.approx(50 * (values.mean() - values.min()))
    assert 0 < found.regret < 50 * np.ptp(values)
    assert guarantees.line(row, found).startswith("| 40 prices | 50 | 830 | ")
