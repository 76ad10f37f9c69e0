"""Specs: what they say, and errors that point at the line and the key."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import numpy as np
import pytest

import koloss as kl
from koloss.experiments import SpecError, load, parse, shipped, spec_text
from koloss.experiments.run import adversary_of, check
from koloss.experiments.specs import ADVERSARIES, LEARNERS, actions_of, kernel_of, learner_of

GOOD = """\
title = "A game"
text = \"\"\"
kind = "not a key"
\"\"\"

[game]
kernel = {kind = "Quadratic"}
actions = {kind = "Ball", dimension = 2}
rounds = 40
runs = 3

[adversary]
kind = "biased"
noise = 2.0

[[learner]]
kind = "ExpWeights"
loss_norm = 1.0

[[learner]]
name = "second"
kind = "ConditionalGradient"
play = {delay = 2}
"""


def test_a_spec_says_what_it_says():
    game = parse(GOOD, name="My game")
    assert (game.name, game.title, game.rounds, game.runs) == ("my-game", "A game", 40, 3)
    assert game.full == (40, 3)
    assert [learner.name for learner in game.learners] == ["ExpWeights", "second"]
    assert game.learners[1].play.delay == 2
    assert kernel_of(game) == kl.Quadratic()
    assert actions_of(game) == kl.Ball(2)
    learner = learner_of(game, game.learners[0], 40, np.random.default_rng(0))
    assert isinstance(learner, kl.ExpWeights)
    assert learner.settings.horizon == 40
    foe = adversary_of(game, game.learners[0], 40, np.random.default_rng(0))
    assert isinstance(foe, kl.games.Biased)
    assert foe.noise == 2.0
    check(game, 40)


def change(old, new):
    assert GOOD.count(old) == 1
    return GOOD.replace(old, new)


MISTAKES = [
    ('title = "A game"', "title = A game", 1, "", "invalid value"),
    ("rounds = 40", "rounds = 40 runs", 9, "", "expected newline"),
    ('title = "A game"', 'titel = "A game"', 1, "titel", "did you mean title?"),
    ('title = "A game"', "title = 3", 1, "title", "must be a string, got 3"),
    ("rounds = 40", "rounds = 0", 9, "game.rounds", "must be at least 1, got 0"),
    ("rounds = 40", 'rounds = "40"', 9, "game.rounds", "must be a whole number, got '40'"),
    ("rounds = 40", "rounds = true", 9, "game.rounds", "must be a whole number, got True"),
    ("rounds = 40", "", 6, "game", "`rounds` is missing in [game]"),
    ("rounds = 40", "round = 40\nrounds = 40", 9, "game.round", "did you mean rounds?"),
    ('kind = "Quadratic"', 'kind = "Cubic"', 7, "game.kernel.kind", "must be one of"),
    ('kind = "Quadratic"', 'kind = "Gaussian", bandwidth = -1', 7, "game.kernel.bandwidth", "must be positive, got -1"),
    ('kind = "Quadratic"', 'kind = "Gaussian", width = 1', 7, "game.kernel.width", "is not a parameter of Gaussian"),
    ('{kind = "Quadratic"}', "3", 7, "game.kernel", "must be a table, got 3"),
    ("dimension = 2", "dimension = 0", 8, "game.actions.dimension", "must be at least 1, got 0"),
    ("dimension = 2", "dimension = 2, net = -1", 8, "game.actions.net", "must be positive, got -1"),
    ("dimension = 2", "dimension = 2, size = 1", 8, "game.actions.size", "is not a parameter of Ball"),
    ('kind = "biased"', 'kind = "evil"', 13, "adversary.kind", "must be one of random, biased"),
    ("noise = 2.0", "noise = -2.0", 14, "adversary.noise", "must be at least 0, got -2"),
    ("noise = 2.0", "nois = 2.0", 14, "adversary.nois", "did you mean noise?"),
    ("[adversary]\n", "[foe]\n", 12, "foe", "is not a key of a spec"),
    ('[adversary]\nkind = "biased"\nnoise = 2.0\n', "", 1, "", "`adversary` is missing in the file"),
    ('kind = "biased"', 'kind = "replay"', 14, "adversary.noise", "is not a key of the replay adversary"),
    ('kind = "biased"\nnoise = 2.0', 'kind = "replay"', 12, "adversary", "`table` is missing in [adversary]"),
    ("runs = 3", "runs = 3\n[dimension]\nhorizons = [9, 1]", 12, "dimension.horizons[2]", "must be at least 2, got 1"),
    ('kind = "ExpWeights"', 'kind = "Exp3"', 17, "learner[1].kind", "must be one of BanditExpWeights"),
    ("loss_norm = 1.0", "loss_norm = -1.0", 18, "learner[1].loss_norm", "must be positive, got -1"),
    ("loss_norm = 1.0", "loss_nrom = 1.0", 18, "learner[1].loss_nrom", "did you mean loss_norm?"),
    ("loss_norm = 1.0", 'name = "second"', 21, "learner[2].name", "must differ"),
    ("{delay = 2}", "{delay = -2}", 23, "learner[2].play.delay", "must be at least 0, got -2"),
    ("{delay = 2}", '{batch = "all"}', 23, "learner[2].play.batch", "positive whole number"),
    ("{delay = 2}", '{batch = "rank"}', 23, "learner[2].play.batch", "must be a number for Cond"),
    ("{delay = 2}", "{speed = 2}", 23, "learner[2].play.speed", "is not a key"),
    ("rounds = 40", "rounds = 10_000_000_000", 9, "game.rounds", "must be at most 1,000,000,000, got"),
    ("runs = 3", "runs = 10_000_000", 10, "game.runs", "must be at most 1,000,000, got"),
    ("noise = 2.0", "noise = nan", 14, "adversary.noise", "must be finite, got nan"),
    ('"Quadratic"', '"Gaussian", bandwidth = 2024-02-29T10:00:00Z', 7, "game.kernel.bandwidth", "must be"),
    ("rounds = 40", f"rounds = '{'x' * 10**6}'", 9, "game.rounds", "must be a whole number, got 'xxx"),
    ('"second"', f"'{'x' * 10**4}'", 21, "learner[2].name", "must have 1 to 200 characters, got 10,000"),
    ("A game", "x" * 10**4, 1, "title", "must have 1 to 300 characters, got 10,000"),
    ('"second"', '"  "', 21, "learner[2].name", "must have 1 to 200 characters, got 0"),
    ('kind = "ExpWeights"', "", 16, "learner[1]", "`kind` is missing"),
]  # fmt: skip


@pytest.mark.parametrize("old, new, line, key, message", MISTAKES)
def test_errors_point_at_the_line_and_the_key(old, new, line, key, message):
    with pytest.raises(SpecError) as caught:
        check(parse(change(old, new), name="game", path="game.toml"), 40)
    error = caught.value
    assert (error.path, error.line, error.key) == ("game.toml", line, key)
    assert message in str(error)
    assert str(error).startswith(f"game.toml, line {line}: ")
    assert len(str(error)) < 1000


@pytest.mark.parametrize("text", ["", "\n", "\ufeff", "#"])
def test_hardly_any_text(text):
    with pytest.raises(SpecError, match=r"^spec, line \d: "):
        parse(text, name="game")


def test_batches_need_an_oblivious_adversary():
    text = change('kind = "biased"\nnoise = 2.0', 'kind = "predictive"')
    text = text.replace("{delay = 2}", "{batch = 4}")
    with pytest.raises(SpecError, match=r"line 22: .*batch: must be 1 against predictive"):
        check(parse(text, name="game"), 40)


def test_pictures_have_no_game():
    text = """
[game]
kernel = {kind = "Gaussian", bandwidth = 1.0}
actions = {kind = "Ball", dimension = 2}
[picture]
centers = 3
learning_rate = 2
"""
    picture = parse(text, name="p").picture
    assert (picture.centers, picture.learning_rate) == (3, 2.0)
    with pytest.raises(SpecError, match=r"line 7: picture.learning_rate: must be positive, got -2"):
        parse(text.replace("= 2\n", "= -2\n").replace("dimension = -2", "dimension = 2"), name="p")
    with pytest.raises(SpecError, match=r"line 4: game.actions: must be a Ball or a Box of two"):
        check(parse(text.replace("dimension = 2", "dimension = 3"), name="p"), 1)


def test_names_of_the_spec_are_those_of_the_library():
    assert {kind.__name__ for kind in LEARNERS.values()} == set(LEARNERS)
    own = {name for name in kl.games.__all__ if isinstance(getattr(kl.games, name), type)}
    own -= {"Adversary", "Function", "Replicates", "Stalker", "Trace"}
    assert {kind.__name__ for kind in ADVERSARIES.values()} == own


@pytest.mark.parametrize("kind", [kind for kind in ADVERSARIES if kind != "replay"])
def test_every_adversary_can_be_asked_for(kind):
    text = f"""
[game]
kernel = {{kind = "Gaussian", bandwidth = 0.5}}
actions = {{kind = "Points", X = [[0.0], [0.5], [1.0]]}}
rounds = 5
[adversary]
kind = "{kind}"
[[learner]]
kind = "ExpWeights"
"""
    game = parse(text, name="game")
    foe = adversary_of(game, game.learners[0], 5, np.random.default_rng(0))
    player = learner_of(game, game.learners[0], 5, np.random.default_rng(0))
    assert foe(0, player).norm() <= 1 + 1e-9


def test_shipped_specs():
    names = shipped()
    assert len(names) == 9
    for name in names:
        game = load(name)
        assert game.name == name
        assert all((game.title, game.paper, game.text, game.shows))
        assert tomllib.loads(spec_text(name))["title"] == game.title
        if game.picture is None:
            assert game.full[1] == 60
            assert game.full[0] > game.rounds
    with pytest.raises(ValueError, match="did you mean posynomial"):
        load("posynomials")


def test_a_file_is_read_by_its_name(tmp_path):
    path = tmp_path / "Own game.toml"
    path.write_text(GOOD, encoding="utf-8")
    assert load(path).name == "own-game"
    path.write_text(GOOD.replace("rounds = 40", "rounds = -1"), encoding="utf-8")
    with pytest.raises(SpecError) as caught:
        load(str(path))
    assert caught.value.path == str(path)


def test_specs_and_the_error_in_the_guide(tmp_path):
    guide = (Path(__file__).parents[2] / "docs" / "guide" / "own_game.md").read_text("utf-8")
    first, second = (text for text in re.findall(r"```toml\n(.*?)```", guide, re.DOTALL))
    np.savetxt(tmp_path / "losses.csv", [[0.0, 0.5, 1.0]], delimiter=",")
    for text in (first, second):
        (tmp_path / "mine.toml").write_text(text, encoding="utf-8")
        game = load(tmp_path / "mine.toml")
        check(game, game.rounds)
    with pytest.raises(SpecError) as caught:
        parse(first.replace("length", "lenght"), name="mine", path="mine.toml")
    assert f"error: {caught.value}\n" in guide
