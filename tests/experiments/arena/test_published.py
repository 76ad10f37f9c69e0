"""What the README and the guide say of the arena is what its regrets, kept beside them, say."""

from __future__ import annotations

import html
import importlib.util
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest

from koloss.experiments.arena.ranking import headline, picture_games, shown

DOCS = Path(__file__).parents[3] / "docs"


@pytest.fixture(scope="module")
def published():
    spec = importlib.util.spec_from_file_location("publish", DOCS / "figures" / "arena.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def results(published):
    return published.load()


@pytest.mark.parametrize("name", ["picture", "caption", "figure", "results"])
def test_pages_say_what_was_measured(published, results, name):
    page = published.PAGES[name].read_text("utf-8")
    assert published.between(page, name) == published.texts(results, published.former())[name]


def test_negative_control_another_regret_gives_another_caption(published, results):
    runs = [replace(run, regret=run.regret + 1e4 * (run.player == "insured")) for run in results.runs]  # fmt: skip
    told, true = published.texts(replace(results, runs=tuple(runs))), published.texts(results)
    assert all(told[name] != true[name] for name in ("caption", "results"))


def test_every_game_and_player_was_played(published, results):
    assert {game.name for game in results.games} == set(published.arena.games())
    assert {spec.slug for spec in results.players} == set(published.arena.players())
    for entry in results.entries.values():
        assert entry.runs


def test_the_picture_names_its_players(published, results):
    picture = (DOCS / "assets" / "arena-summary.svg").read_text("utf-8")
    drawn = shown(results, picture_games(results))
    assert f"regret of {len(drawn)} players" in picture
    title = headline(results, picture_games(results))
    assert all(line in html.unescape(picture) for line in textwrap.wrap(title, 66))
    for standing in drawn:
        assert standing.player.name in picture
