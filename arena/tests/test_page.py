"""The arena's page, picture and tables: what they say is what was found, failures included, and a browser shows it."""

from __future__ import annotations

import html
import json
import re
import statistics
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

import arena
import koloss as kl
from arena import ArenaResults, Game, Player, PlayerSpec, play_run
from arena.page import page, repeat_command
from arena.ranking import (
    caption,
    headline,
    left_out,
    overview_table,
    picture_games,
    remarks,
    shown,
    standings,
    winners,
    yardstick,
)
from arena.results import Run
from koloss.core.text import duration, short_number
from tests.support.pages import HOSTILE, check_alone, check_texts, open_page, words_of

POINTS = np.linspace(0, 1, 25)[:, None]
OWN = {slug: spec for slug, spec in arena.players().items() if spec.where != "contexts"}


def valley(seed):
    noise = np.random.default_rng(seed).uniform(-0.1, 0.1, (70, 25))
    return kl.games.Replay(0.2 + 0.6 * np.abs(POINTS[:, 0] - 0.6) + noise)


def chase(seed):
    def loss(t, player):
        return 0.2 + 0.7 * np.eye(25)[np.argmax(player.distribution)]

    return kl.games.Function(loss)


def make_game(name, family, weather, make, **more):
    return Game(name, family, weather, f"About {name} & more.", POINTS, kl.Gaussian(0.3), 70, make, **more)  # fmt: skip


GAMES = (
    make_game("calm", "reported", "kind", valley),
    make_game("valley", "held-out", "kind", valley),
    make_game("chase", "held-out", "hostile", chase),
    make_game("record", "data", "kind", valley, source="a shelf <dusty>, public domain"),
)


class Stubborn(Player):
    """Always the first action; tells what is wrong in a way that a page must be careful with."""

    distribution = np.eye(25)[0]

    def __init__(self, game, seed):
        super().__init__(game)
        self.count = 0

    def ask(self):
        self.count += 1
        if self.count > 30:
            raise RuntimeError("<b>no luck</b>")
        return arena.Choice(0, 1.0)

    def tell(self, decision, loss):
        pass


class Told(Player):
    """Told all losses: plays the best of all so far."""

    feedback = "full"
    distribution = np.full(25, 1 / 25)

    def __init__(self, game, seed):
        super().__init__(game)
        self.total = np.zeros(25)

    def ask(self):
        return arena.Choice(int(np.argmin(self.total)), 1.0)

    def tell(self, decision, loss):
        self.total += loss


def absent(game, seed):
    raise ImportError("this player needs it: pip install --group arena")


SPECS = (
    *(OWN[s] for s in ("insured", "exp-weights", "exp3", "uniform", "gp-ucb")),
    PlayerSpec("Stubborn", "stubborn", Stubborn, summary="the first action"),
    PlayerSpec("Absent", "absent", absent, package="nothing-like-it", summary="not here"),
    PlayerSpec("Told all", "told-all", Told, full=True, summary="the leader"),
)


@pytest.fixture(scope="module")
def played():
    runs = [play_run(g, s, k, rounds=60) for g in GAMES for s in SPECS for k in range(3)]
    late = next(i for i, run in enumerate(runs) if (run.player, run.game) == ("exp3", "calm"))
    runs[late] = replace(runs[late], status="stopped", message="stopped after round 9 of 60 by the time limit of 1 s", played=9)  # fmt: skip
    return ArenaResults(GAMES, SPECS, tuple(runs), seed=0, limit=60.0)


@pytest.fixture(scope="module")
def written(played, tmp_path_factory):
    return arena.write_page(played, tmp_path_factory.mktemp("arena"))


# The page.


@pytest.mark.slow
def test_files(written):
    names = sorted(path.name for path in written)
    stems = ["arena-summary", "arena-summary-narrow"]
    assert names == sorted(["arena.html", *(f"{s}.{e}" for s in stems for e in ("png", "svg"))])
    assert all(path.stat().st_size > 1000 for path in written)
    assert {path.parent for path in written} == {written[0].parent}
    picture = written[2].read_text("utf-8")
    assert ">Insured</text>" in picture
    assert ">GP-UCB</text>" in picture


def test_page_says_everything_and_needs_nothing_but_itself(written, played):
    check_alone(written[0], images=1)
    text = words_of(written[0]).replace("\u00a0", " ")
    for game in GAMES:
        assert all(part in text for part in (game.name, game.summary, repr(game.kernel), game.source))  # fmt: skip
    for spec in SPECS:
        assert all(part in text for part in (spec.name, spec.slug, spec.summary))
    assert "nothing-like-it not installed" in text
    assert "Absent: not installed: pip install --group arena" in " ".join(text.split())
    for entry in played.entries.values():
        if entry.finished:
            digits = 0 if abs(entry.mean) >= 9.95 else 1
            assert f"{entry.mean:.{digits}f} ±{entry.error:.{digits}f} ({entry.worst:.{digits}f})" in text  # fmt: skip
    failed = [run for run in played.runs if run.status in ("failed", "stopped")]
    assert len(failed) == 13
    tail = text.split("What failed")[1]
    for run in failed:
        assert run.message in tail
        partial = rf"run {run.number} \(partial regret {short_number(run.regret)}\)"
        assert re.search(rf"{run.game}: [^;]*{partial}", tail)
    assert tail.count("failed in round 31 of 60: RuntimeError: <b>no luck</b>") == 1  # told once
    assert caption(played, GAMES[1:]) in text
    assert left_out(played, GAMES[1:]) in text
    assert "nan" not in text.lower().split()


def test_command_repeats_the_arena(played):
    assert repeat_command(played) == (
        "python -m arena --out DIR --runs 3 --seed 0 --limit 60 --rounds 60 --games calm valley chase record "
        "--players insured exp-weights exp3 uniform gp-ucb stubborn absent told-all"
    )
    library = tuple(arena.games().values())
    own = tuple(spec for spec in arena.players().values() if not spec.package)
    runs = [Run(g.name, s.slug, 0, g.rounds) for g in library for s in own if s.plays(g)]
    results = ArenaResults(library, own, tuple(runs))
    assert repeat_command(results) == "python -m arena --out DIR --runs 1 --seed 0 --no-peers"


@pytest.mark.slow
def test_same_results_same_files(played, written, tmp_path):
    for one, two in zip(written, arena.write_page(played, tmp_path), strict=True):
        assert one.read_bytes() == two.read_bytes()


def page_text(results):
    """The page without its pictures."""
    return page(results, ("", ""))


@pytest.mark.slow
def test_names_are_escaped(played, tmp_path):
    """Every string that a user may give, in the text, in addresses, in file names and in figures."""
    about = {"summary": HOSTILE, "source": HOSTILE}
    games = tuple(replace(game, name=f"{HOSTILE}{k}", **about) for k, game in enumerate(GAMES))
    about = {"summary": HOSTILE, "package": HOSTILE}
    specs = tuple(replace(s, name=f"{HOSTILE} {s.slug}", slug=f"{HOSTILE}{s.slug}", **about) for s in SPECS)  # fmt: skip
    names = {old.name: new.name for old, new in zip(GAMES, games, strict=True)}
    runs = [replace(r, game=names[r.game], player=f"{HOSTILE}{r.player}", message=HOSTILE) for r in played.runs]  # fmt: skip
    results = ArenaResults(games, specs, tuple(runs), machine={**played.machine, "system": HOSTILE})
    files = arena.write_page(results, tmp_path)
    check_alone(files[0], images=1)
    assert {path.parent for path in files} == {tmp_path}
    text = words_of(files[0])
    for part in (*names.values(), *(spec.name for spec in specs)):
        assert part in text


def test_page_without_any_failure():
    assert "all players finished all runs of all games" in page_text(synthetic())


@pytest.mark.slow
def test_page_where_nobody_finished(tmp_path):
    runs = [play_run(g, SPECS[5], k) for g in GAMES for k in range(2)]
    results = ArenaResults(GAMES, SPECS[5:6], tuple(runs))
    text = arena.write_page(results, tmp_path)[0].read_text("utf-8")
    assert "No player finished every game. Mean regret of 2 runs" in text
    assert "Did not finish every game, so not shown: Stubborn." in text


def test_a_mean_above_its_bound_is_said():
    promise = {"total": 3.0, "statement": "s", "valid": True, "informative": True, "rank": 7,
               "epsilon": 0.01, "exceeded": True}  # fmt: skip
    results = synthetic({"insured": REGRETS["insured"]})

    def text(**facts):
        return page_text(replace(results, runs=tuple(replace(r, **facts) for r in results.runs)))

    said = "insured in valley: mean regret 10.0 is above its guarantee, 3.00"
    assert said in text(guarantee=promise)
    assert said not in text(guarantee={**promise, "valid": False})
    assert said not in text()


# The ranking, and what is said of it.

REGRETS = {
    "insured": {"calm": 50.0, "valley": 10.0, "chase": 20.0, "record": 5.0},
    "gp-ucb": {"calm": 1.0, "valley": 4.0, "chase": 130.0, "record": -8.0},
    "exp3": {"calm": 60.0, "valley": 38.0, "chase": 45.0, "record": 19.0},
    "uniform": {"calm": 60.0, "valley": 40.0, "chase": 50.0, "record": 20.0},
}


MANY = {slug: {g.name: 9.0 + k for g in GAMES} for k, slug in enumerate(OWN)}


def synthetic(regrets=REGRETS):
    """Results with given means: three runs each, the mean and a half to either side."""
    runs = [
        Run(game, slug, k, 70, played=70, regret=end, at=(35, 70), curve=(mean / 2, end), seconds=0.01)
        for slug, row in regrets.items()
        for game, mean in row.items()
        for k, end in enumerate((mean - 0.5, mean, mean + 0.5))
    ]  # fmt: skip
    return ArenaResults(GAMES, tuple(OWN[slug] for slug in regrets), tuple(runs))


def test_shares_by_hand():
    results = synthetic()
    games = picture_games(results)
    assert [game.name for game in games] == ["valley", "chase", "record"]  # nothing was tuned there
    compared = {s.player.slug: s for s in standings(results, games)}
    assert list(compared) == ["insured", "exp3", "uniform", "gp-ucb"]
    shares = {"valley": 0.25, "chase": 0.4, "record": 0.25}
    assert compared["insured"].shares == pytest.approx(shares)
    ucb = compared["gp-ucb"]
    assert (ucb.worst, ucb.worst_game) == (pytest.approx(2.6), "chase")
    assert compared["gp-ucb"].shares["record"] == pytest.approx(-0.4)
    assert [game.name for game in picture_games(results, all_games=True)] == [g.name for g in GAMES]
    everywhere = standings(results, GAMES)
    assert next(s for s in everywhere if s.player.slug == "insured").worst == pytest.approx(50 / 60)
    rows = {row[0]: row for row in overview_table(results).rows}
    middle = statistics.median([1 / 60, 0.1, 2.6, -0.4])
    assert next(s for s in everywhere if s.player.slug == "gp-ucb").median() == pytest.approx(middle)  # fmt: skip
    assert rows["GP-UCB"][1:6] == ("4 of 4", "3", f"{middle:.2f}", "2.60", "chase")
    assert rows["EXP3"][6] == duration(0.01 / 70)


def test_caption_is_true(played):
    """All its numbers again, and those of the title, from arena.json alone."""
    plain = json.loads(json.dumps(played.to_dict()))
    games = {g["name"]: g for g in plain["games"] if g["family"] != "reported"}
    means = {
        (e["player"], e["game"]): statistics.fmean(run["regret"] for run in e["runs"])
        for e in plain["results"]
        if all(run["status"] == "done" for run in e["runs"])
    }
    names = {p["slug"]: p["name"] for p in plain["players"] if not p["full"]}
    shares = {
        slug: {g: means[slug, g] / means["uniform", g] for g in games}
        for slug in names
        if all((slug, g) in means for g in games)
    }
    assert set(shares) == {"insured", "exp-weights", "exp3", "uniform", "gp-ucb"}
    worst = sorted((max(row.values()), max(row, key=row.get), slug) for slug, row in shares.items())
    kind = [g for g, facts in games.items() if facts["weather"] == "kind"]
    middle = sorted((statistics.median(row[g] for g in kind), slug) for slug, row in shares.items())
    said = caption(played, picture_games(played))
    worsts, medians = {s: value for value, _, s in worst}, {s: value for value, s in middle}
    order = ("insured", "exp-weights", "gp-ucb", "exp3")
    missed = left_out(played, picture_games(played))
    for part in (
        "Mean regret of 3 runs as a share of uniform play's regret in the same game",
        "2 kind and 1 hostile games.",
        f"Worst game: {', '.join(f'{names[s]} {worsts[s]:.2f}' for s in order)}.",
        f"Median of the kind games: {', '.join(f'{names[s]} {medians[s]:.2f}' for s in order)}.",
        "Games were shortened to 60 rounds at most.",
        "Not installed: Absent.",
        "Told the losses of all actions, so not compared: Told all.",
        "Did not finish every game, so not shown: Stubborn.",
    ):
        assert part in f"{said} {missed}"
    (value, _, first), (following, *_) = worst[:2]
    share = next(v for v, slug in middle if slug == first)
    assert headline(played, picture_games(played)) == (
        f"{names[first]}: {share:.2f} of uniform play's regret in the median kind game, {value:.2f} in its worst game; "
        f"the next smallest worst case shown is {following:.2f}"
    )


def changed(slug, game, value):
    return {**REGRETS, slug: {**REGRETS[slug], game: value}}


@pytest.mark.parametrize(
    "results, games, said",
    [
        (synthetic(), GAMES[1:], "Insured: 0.25 of uniform play's regret in the median kind game, 0.40 in its worst game; the next smallest worst case shown is 0.95"),
        # Somebody else is better.
        (synthetic(changed("insured", "chase", 200.0)), GAMES[1:], "EXP3: 0.95 of uniform play's regret in the median kind game, 0.95 in its worst game; the next smallest worst case shown is 1.00"),
        (synthetic(), GAMES[2:3], "Insured: 0.40 of uniform play's regret in its worst game; the next smallest worst case shown is 0.90"),
        (synthetic({"insured": REGRETS["insured"]}), GAMES[1:2], "Insured: 0.14 of the number of rounds in the median kind game, 0.14 in its worst game"),
    ],
    ids=["insured", "another", "hostile", "alone"],
)  # fmt: skip
def test_headline(results, games, said):
    assert headline(results, games) == said


def test_rounds_are_the_yardstick_where_uniform_play_is_none():
    for results in (
        synthetic(changed("uniform", "record", -1.0)),
        synthetic({slug: row for slug, row in REGRETS.items() if slug != "uniform"}),
    ):
        assert yardstick(results, GAMES[1:])[0] == "the number of rounds"
        first = standings(results, GAMES[1:])[0]
        assert first.shares == pytest.approx({"valley": 10 / 70, "chase": 20 / 70, "record": 5 / 70})  # fmt: skip
        assert "as a share of the number of rounds" in caption(results, GAMES[1:])


def test_who_is_shown():
    results = synthetic({**MANY, "botorch-ucb": {game.name: 1.0 for game in GAMES}})
    seen = [s.player.slug for s in shown(results, GAMES)]
    assert len(seen) == 9
    assert seen[0] == "botorch-ucb"  # the best is never left out
    assert {"uniform", "insured", "exp-weights", "gp-ucb", "exp3", "vowpal-wabbit-squarecb"} <= set(seen)  # fmt: skip
    named = {s.player.name for s in shown(results, GAMES)}
    said = left_out(results, GAMES)
    assert all(spec.full or spec.name in named or spec.name in said for spec in results.players)


def words_in(text):
    return html.unescape(re.sub(r"<[^>]*>", " ", text))


def partial_results():
    """A late game that one cannot play, and a family that is won by one who did not finish another."""
    late = replace(
        GAMES[2], name="late", family="field", weather="kind", delays=lambda seed, n: np.zeros(n)
    )
    odd = replace(GAMES[0], name="odd", family="field", unknown=("range",), loss_range=(0.0, 9.0))
    row = {"late": 3.0, "odd": 3.0}
    regrets = {slug: {**REGRETS[slug], **row} for slug in REGRETS}
    regrets |= {slug: {**REGRETS["uniform"], **row} for slug in ("gp-ucb-discounted", "pyxab-hct")}
    regrets["gp-ucb-discounted"] |= {"odd": 1.0, "late": 1.0}
    made = synthetic(regrets)
    changes = {("pyxab-hct", "late"): "cannot", ("gp-ucb-discounted", "chase"): "stopped"}
    runs = [replace(r, status=changes.get((r.player, r.game), "done")) for r in made.runs]
    return replace(made, games=(*GAMES, late, odd), runs=tuple(runs))


def test_whoever_wins_a_family_is_shown():
    results = partial_results()
    games = picture_games(results)
    assert winners(results) == {
        "held-out": ["gp-ucb", "insured"], "data": ["gp-ucb"], "field": ["gp-ucb-discounted"], "peers": [], "contexts": [],
        "reported": ["gp-ucb"],
    }  # fmt: skip
    rows = shown(results, games)
    assert [s.player.slug for s in rows] == ["insured", "exp3", "uniform", "gp-ucb", "pyxab-hct", "gp-ucb-discounted"]  # fmt: skip
    assert [s.label(games) for s in rows[-2:]] == ["PyXAB HCT (4 of 5 games)", "GP-UCB, discounted (4 of 5 games)"]  # fmt: skip
    assert rows[-1].shares == {"valley": 1.0, "record": 1.0, "late": pytest.approx(1 / 3), "odd": pytest.approx(1 / 3)}  # fmt: skip
    said = caption(results, games)
    assert "field GP-UCB, discounted (2 of 2)" in said
    assert "held-out GP-UCB and Insured (1 of 2 each)" in said
    assert "so not shown" not in left_out(results, games)
    assert headline(results, games).startswith("Insured: ")
    labels = [label.get_text() for label in arena.summary_figure(results).axes[0].get_yticklabels()]
    assert len(labels) == 6
    assert "(4 of 5 games)" in labels[-1].replace("\n", " ")
    # Without a win and without having finished it is not.
    runs = [replace(r, regret=r.regret + 5.0 * (r.player == "gp-ucb-discounted")) for r in results.runs]  # fmt: skip
    beaten = replace(results, runs=tuple(runs))
    assert "gp-ucb-discounted" not in [s.player.slug for s in shown(beaten, games)]
    assert "so not shown: GP-UCB, discounted." in left_out(beaten, games)


def test_winners_beyond_nine_are_shown():
    row = {game.name: 1.0 for game in GAMES}
    results = synthetic({**MANY, "insured": row, "exp-weights-paper": {**row, "calm": 0.5}})
    assert [s.player.slug for s in shown(results, GAMES)].count("exp-weights-paper") == 1
    assert len(shown(results, GAMES)) == 10
    without = synthetic({**MANY, "insured": row, "exp-weights-paper": row})
    assert len(shown(without, GAMES)) == 9


def test_tables_say_who_was_told_and_who_cannot():
    results = partial_results()
    lines = remarks(results, "field")
    assert lines == [
        "The range of losses is not known in odd; who needs it is told: GP-UCB; EXP3; GP-UCB, discounted; PyXAB HCT.",
        "Losses come late in late; who takes a loss only before the next decision cannot play: PyXAB HCT.",
    ]
    assert remarks(results, "held-out") == []
    text = " ".join(words_in(page_text(results)).split())
    assert all(line in text for line in lines)
    assert re.search(r"<td[^>]*>cannot</td>", page_text(results))


# Figures.


def test_dots_are_where_the_numbers_are():
    results = synthetic()
    figure = arena.summary_figure(results)
    kind, hostile = figure.axes
    order = [label.get_text() for label in kind.get_yticklabels()]
    assert order == ["Insured", "EXP3", "Uniform", "GP-UCB"]
    for ax, names in ((kind, ["valley", "record"]), (hostile, ["chase"])):
        dots = [line for line in ax.lines if line.get_marker() == "o"]
        for k, slug in enumerate(["insured", "exp3", "uniform", "gp-ucb"]):
            expected = [REGRETS[slug][g] / REGRETS["uniform"][g] for g in names]
            np.testing.assert_allclose(dots[k].get_xdata(), expected)
            assert set(dots[k].get_ydata()) == {k}
        worst = [line.get_xdata()[0] for line in ax.lines if line.get_marker() == "D"]
        assert worst[3] == pytest.approx(max(expected))
        low, high = ax.get_xlim()
        assert low <= min(0, *expected)  # negative regret is not cut
        assert high >= max(1, *expected)
    # A unit is as long in one panel as in the other.
    FigureCanvasAgg(figure).draw()
    units = [ax.bbox.width / np.ptp(ax.get_xlim()) for ax in (kind, hostile)]
    assert units[0] == pytest.approx(units[1], rel=0.1)
    kind = arena.summary_figure(results, all_games=True).axes[0]
    assert len(next(line for line in kind.lines if line.get_marker() == "o").get_xdata()) == 3


FIGURES = {
    "wide": arena.summary_figure,
    "narrow": lambda played: arena.summary_figure(played, narrow=True),
    "all games": lambda _: arena.summary_figure(synthetic(), all_games=True),
    "many": lambda _: arena.summary_figure(synthetic(MANY)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FIGURES)
def test_no_text_overlaps_or_is_cut(played, name):
    check_texts(FIGURES[name](played))


# Tables.


@pytest.mark.parametrize("columns", ["80", "160"])
def test_what_is_printed(played, capsys, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", columns)
    arena.show_arena(played, [Path("arena.html")])
    text = capsys.readouterr().out
    table = text.split("EXP3: ")[0]
    assert all(len(line) <= int(columns) for line in table.splitlines()), table
    for spec in SPECS:
        assert (spec.name.split()[0] in table) == (spec.slug != "absent")
    assert "Absent: not installed: pip install --group arena: all games" in text
    assert (
        "EXP3: stopped after round 9 of 60 by the time limit of 1 s: calm: run 0 (partial" in text
    )
    words = "Stubborn: failed in round 31 of 60: RuntimeError: <b>no luck</b>: calm: run 0 (partial"
    assert words in text
    assert "wrote arena.html" in text
    assert "…" not in text


# A browser.


@pytest.mark.slow
@pytest.mark.parametrize("width, picture", [(360, "narrow"), (1200, "wide")])
def test_in_a_browser(written, tmp_path, width, picture):
    """No console message, no broken picture, nothing wider than the screen, and the picture that fits it."""
    facts, said = open_page(written[0], width, tmp_path)
    assert "CONSOLE" not in said
    assert facts == {"width": width, "scroll": width, "wide": 0, "images": 1, "broken": 0, "first": picture}  # fmt: skip
