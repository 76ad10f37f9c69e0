"""What the README and the guide say of the arena is what its regrets, kept beside them, say."""

from __future__ import annotations

import html
import json
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest

from arena import publish
from arena.figures import OURS
from arena.ranking import headline, picture_games, shown

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def published():
    return publish


@pytest.fixture(scope="module")
def results(published):
    return published.load()


@pytest.mark.parametrize("name", ["picture", "caption", "figure", "results"])
def test_pages_say_what_was_measured(published, results, name):
    page = published.PAGES[name].read_text("utf-8")
    assert published.between(page, name) == published.texts(results)[name]


def test_negative_control_another_regret_gives_another_caption(published, results):
    runs = [replace(run, regret=run.regret + 1e4 * (run.player == "insured")) for run in results.runs]  # fmt: skip
    told, true = published.texts(replace(results, runs=tuple(runs))), published.texts(results)
    assert all(told[name] != true[name] for name in ("caption", "results"))


def test_every_game_and_player_was_played(published, results):
    assert {game.name for game in results.games} == set(published.arena.games())
    assert {spec.slug for spec in results.players} == set(published.arena.players())
    for entry in results.entries.values():
        assert entry.runs


def test_what_the_guide_makes_of_contexts(published, results):
    field = [game.name for game in results.games if game.family == "contexts"]

    def mean(game, player):
        runs = results.entry(game, player).runs
        return sum(run.regret for run in runs) / len(runs)

    def shares(player):
        return sorted(mean(game, player) / mean(game, "uniform") for game in field)

    guide = (DOCS / "guide" / "arena.md").read_text("utf-8")
    ours, theirs = shares("insured-contexts"), shares("gp-ucb-contexts")
    assert (
        f"at most {ours[-1]:.2f} of uniform play's regret, and {(ours[2] + ours[3]) / 2:.2f} in"
        in guide
    )
    assert f"median of {(theirs[2] + theirs[3]) / 2:.2f}, and loses {theirs[-1]:.2f} times" in guide
    better = [
        game for game in field if mean(game, "gp-ucb-contexts") < mean(game, "insured-contexts")
    ]
    assert len(better) == 4
    turned = mean("segment-turns", "insured-contexts"), mean("segment-turns", "gp-ucb-contexts")
    assert "pays {:.0f} where GP-UCB pays {:.0f}".format(*turned) in guide
    worse = [g for g in field if mean(g, "exp-weights-contexts") > mean(g, "exp-weights")]
    assert len(worse) == 5


def test_what_the_guide_makes_of_it(published, results):
    def mean(game, player):
        runs = results.entry(game.name, player).runs
        return sum(run.regret for run in runs) / len(runs)

    kind = [g for g in results.games if g.weather == "kind" and g.family != "contexts"]
    hostile = [g for g in results.games if g.weather == "hostile" and g.family != "contexts"]
    worst = max(mean(g, "insured") / mean(g, "uniform") for g in kind)
    ratios = [mean(g, "insured") / mean(g, "exp-weights") for g in hostile]
    guide = (DOCS / "guide" / "arena.md").read_text("utf-8")
    assert f"pays at most {worst:.2f} of uniform play's regret in any kind game" in guide
    assert f"at most {max(ratios):.2f} times what exponential weights pay" in guide
    less = sum(ratio < 1 for ratio in ratios)
    assert (less, len(ratios)) == (8, 13)
    assert "less than these in eight of thirteen" in guide


def test_the_guide_begins_with_the_losses(published, results):
    """Who of the others is best, where that is better than the insured learner."""
    best = []
    for game in results.games:
        insured = "insured-contexts" if game.contexts else "insured"
        entries = [
            e for (name, _), e in results.entries.items() if name == game.name and e.finished
        ]
        full = {spec.slug for spec in results.players if spec.full}
        ours = tuple(slug for slug in published.arena.players() if slug.startswith(OURS))
        means = {e.player: e.mean for e in entries if e.player not in {*ours, *full} - {insured}}
        best.append(min(means, key=means.get).removesuffix("-contexts"))
    ahead = [slug for slug in best if slug != "insured"]
    guide = (DOCS / "guide" / "arena.md").read_text("utf-8")
    assert f"In {len(ahead)} of the {len(best)} games some player that is not ours" in guide
    assert f"a Gaussian process in {sum(slug.startswith('gp-') for slug in ahead)} (" in guide
    counts = [sum(slug.startswith(one) for slug in ahead) for one in ("botorch", "pyxab", "vowpal")]
    assert counts == [5, 2, 1]


def test_the_picture_names_its_players(published, results):
    picture = (DOCS / "assets" / "arena-summary.svg").read_text("utf-8")
    drawn = shown(results, picture_games(results))
    assert f"regret of {len(drawn)} players" in picture
    title = headline(results, picture_games(results))
    assert all(line in html.unescape(picture) for line in textwrap.wrap(title, 66))
    for standing in drawn:
        assert standing.player.name in picture


def arena_file(folder, entries):
    """An arena.json with given regrets, of one run each."""
    folder.mkdir()
    results = [
        {"game": game, "player": player, "rounds": 9, "runs": [{"number": 0, "status": "done", "message": "", "played": 9, "regret": regret, "seconds": 0.1}]}
        for (game, player), regret in entries.items()
    ]  # fmt: skip
    text = json.dumps({"machine": {"koloss": folder.name}, "results": results})
    (folder / "arena.json").write_text(text, "utf-8")
    return folder


def test_folders_are_put_together(published, tmp_path):
    """The last counts; what is in none stays; what is no longer there goes."""
    path = tmp_path / "kept.json"
    first = arena_file(tmp_path / "first", {("drift", "uniform"): 1.0, ("drift", "exp3"): 2.0, ("switch", "exp3"): 3.0, ("no-such-game", "exp3"): 4.0})  # fmt: skip
    published.keep(first, path=path)
    peers = arena_file(tmp_path / "peers", {("drift", "uniform"): 5.0, ("drift", "gittins"): 6.0})
    own = arena_file(tmp_path / "own", {("drift", "uniform"): 7.0, ("switch", "uniform"): 8.0, ("switch", "gittins"): 9.0})  # fmt: skip
    published.keep(peers, own, path=path)
    results = published.load(path)
    regrets = {(run.game, run.player): run.regret for run in results.runs}
    assert regrets == {
        ("drift", "uniform"): 7.0, ("drift", "exp3"): 2.0, ("drift", "gittins"): 6.0,
        ("switch", "uniform"): 8.0, ("switch", "exp3"): 3.0, ("switch", "gittins"): 9.0,
    }  # fmt: skip
    assert results.machine == {"koloss": "own"}
    later = arena_file(tmp_path / "later", {("segments", "uniform"): 10.0})
    published.keep(later, path=path)  # those before stay as they were
    assert len(published.load(path).runs) == 7
