"""What the guide says of 1,000 random games is what their regrets, kept beside it, say; and these are of the sweep that it shows."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from docs.figures import where
from koloss import experiments
from koloss.experiments import load_sweep, parse_sweep

FIGURES = Path(__file__).parents[3] / "docs" / "figures"


@pytest.fixture(scope="module")
def table():
    return where.where_table


@pytest.fixture(scope="module")
def rows(table):
    return table.contested(table.load())


@pytest.fixture(scope="module")
def guide():
    return where.GUIDE.read_text("utf-8")


def test_the_guide_says_what_was_found(rows, guide):
    for name, text in where.where_texts.texts(rows).items():
        assert where.between(guide, name) == text, name


def test_negative_control_another_regret_gives_another_text(rows):
    worse = [
        replace(row, regrets={**row.regrets, "insured": row.regrets["insured"] + 100 * (not row.settings["hostility"])})
        for row in rows
    ]  # fmt: skip
    said, true = where.where_texts.texts(worse), where.where_texts.texts(rows)
    changed = {name for name in true if said[name] != true[name]}
    assert changed == set(true) - {"spec"}


def test_the_table_is_of_the_sweep_that_the_guide_shows(table, guide):
    rows = table.load()
    spec = load_sweep(where.where_texts.SPEC)
    points = [point.settings for point in spec.points(0)]
    assert [{f"game.{n}": v for n, v in row.settings.items()} for row in rows] == points
    late = [row.settings["delay"] != "none" for row in rows]
    assert [set(spec.players) - set(row.regrets) for row in rows] == [{"pyxab-hct"} if x else set() for x in late]  # fmt: skip
    flat = [row for row in rows if row not in table.contested(rows)]
    assert all(set(row.regrets.values()) == {0.0} for row in flat)
    assert f"In {['no', 'one', 'two', 'three'][len(flat)]} of the games a dip and a bump" in guide


def test_games_of_the_table_are_played_again(table, tmp_path):
    """Two of them, by players whose choices no rounding decides."""
    text = where.where_texts.SPEC.read_text("utf-8").replace("points = 1000", "points = 2")
    begin, end = text.index("players"), text.index("method")
    text = text[:begin] + 'players = ["exp3", "uniform"]\n' + text[end:]
    with ThreadPoolExecutor(1) as pool:
        found = experiments.sweep(parse_sweep(text, name="again"), out=tmp_path, executor=pool)
    assert len(found.rows) == 4
    rows = table.load()
    for row in found.rows:
        assert rows[row["point"]].regrets[row["player"]] == pytest.approx(row["regret"], abs=0.006)


def test_who_is_behind_by_a_second_computation(table, rows, guide):
    """From the file, as an array."""
    lines = [line.split(",") for line in table.KEPT.read_text("utf-8").splitlines()]
    head, body = lines[0], lines[1:]
    columns = {name: [line[k] for line in body] for k, name in enumerate(head)}
    rivals = ["gp-ucb", "gp-ucb-discounted", "gp-thompson", "exp3", "uniform", "river-ucb", "pyxab-hct", "vowpal-wabbit-squarecb"]  # fmt: skip
    regrets = np.array([[float(text or "inf") for text in columns[slug]] for slug in rivals])
    behind = (np.array(columns["insured"], dtype=float) - regrets.min(axis=0)) / 1000
    contested = np.array(columns["uniform"], dtype=float) > 0
    behind = behind[contested]
    np.testing.assert_allclose([row.behind() for row in rows], behind)
    hostile = np.array(columns["hostility"], dtype=float)[contested] > 0
    said = f"{(behind > 0).sum()} games: {(behind[~hostile] > 0).sum()} of the {(~hostile).sum()} kind ones"
    assert where.between(guide, "losses").startswith(f"- **Insured** is behind in {said}")
    assert len(head) == 13 + 11 + 1


@pytest.mark.slow
def test_pictures_can_be_drawn_again(rows, tmp_path):
    drawn, kept = where.where_pictures.draw(rows, tmp_path), FIGURES.parent / "assets"
    assert {path.name for path in drawn} == {path.name for path in kept.glob("where-*.svg")}
    for path in drawn:  # a drawing differs from one matplotlib to the next; what is written in it, beside ticks, does not
        ticks = "[−0-9.]+" if path.stem != "where-players-win" else ""
        words, before = (
            [text for text in re.findall(r">([^<>]+)</text>", file.read_text("utf-8")) if not re.fullmatch(ticks, text)]
            for file in (path, kept / path.name)
        )  # fmt: skip
        assert len(words) > 20
        assert words == before


def test_words_beside_the_numbers(table, rows):
    """What the lists say without a number."""
    kind, hostile = (table.chosen(rows, test) for test in (table.KIND, table.HOSTILE))
    soft, middle, hard = (table.chosen(rows, test) for test in table.BINS["hostility"].values())

    def behind(games):
        return np.mean([row.behind() > 0 for row in games])

    def over(games):
        return np.mean([row.handed_over is not None for row in games])

    assert over(hard) > 0.9 > over(middle) - 0.1 > 0.5 > over(soft)
    assert behind(table.chosen(kind, table.having("stretch", 4))) > 1.5 * behind(kind)
    assert behind(table.chosen(kind, lambda s: s["stretch"] < 1)) < 1.2 * behind(kind)
    most = [slug for slug, _ in table.won(hostile).most_common(2)]
    assert most == ["insured-thompson", "exp-weights"]
    assert {slug for slug, _ in table.won(middle).most_common(2)} == {"exp-weights", "gp-thompson"}
    assert [slug for slug, _ in table.won(hard).most_common(2)] == most

    def changes(player, setting, one, other):
        first, second = (table.chosen(kind, table.BINS[setting][label]) for label in (one, other))
        return table.median_share(second, player) - table.median_share(first, player)

    assert changes("gp-ucb", "delay", "none", "fixed") > 0.3
    for slug in ("insured", "insured-thompson", "exp-weights", "gp-thompson"):
        assert abs(changes(slug, "delay", "none", "fixed")) < 0.1, slug
    for slug in ("insured", "insured-thompson", "gp-ucb"):
        assert changes(slug, "noise", "below 0.07", "to 0.2") > 0.02, slug
    trees = [row.settings["noise"] for row in kind if row.winner == "pyxab-hct"]
    assert min(trees) > 0.13
