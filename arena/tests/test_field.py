"""Games of the field: how late losses are, and that they are told then; units; turns of the adversary."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

import arena
from arena import Choice, Player, PlayerSpec, play_run
from arena.games import RANGE, fixed, games, heavy_tailed, sometimes_never
from arena.tests.test_games import bump, mass, player
from tests.support.statistics import agrees, by_errors, by_share, differs

FIELD = games("field")
LATE = [name for name, game in FIELD.items() if game.delays is not None]


class Diary(Player):
    """Plays every action in turn, and writes down when it hears what."""

    def __init__(self, game, seed, *, diary):
        super().__init__(game)
        self.diary, self.now = diary, 0

    @property
    def distribution(self):
        return np.eye(len(self.actions))[self.now % len(self.actions)]

    def ask(self):
        self.now += 1
        return Choice((self.now - 1) % len(self.actions), 1.0)

    def tell(self, decision, loss):
        self.diary.append((self.now - 1, decision.index, loss))


def spec_of(diary, **fields):
    return PlayerSpec("Diary", "diary", partial(Diary, diary=diary), **fields)


# How late.


@pytest.mark.parametrize("name", LATE)
def test_delays_follow_from_the_seed_alone(name):
    game = FIELD[name]
    delays = game.delays(5, game.rounds)
    assert delays.shape == (game.rounds,)
    assert delays.dtype.kind == "i"
    assert delays.min() >= -1
    assert delays.max() > 0
    np.testing.assert_array_equal(delays, game.delays(5, game.rounds))
    same = np.array_equal(delays, game.delays(6, game.rounds))
    assert same == (game.delays.func is fixed)


def test_laws_of_delays():
    """100,000 delays against their laws, and against other ones."""
    n = 100_000
    heavy = heavy_tailed(0, n, least=10, index=1.0)
    for k in (20, 100, 1000):
        assert agrees(by_share(np.sum(heavy >= k), n, 10 / k))
        assert differs(by_share(np.sum(heavy >= k), n, (10 / k) ** 1.2))
    some = sometimes_never(0, n, mean=50, never=0.1)
    assert agrees(by_share(np.sum(some == -1), n, 0.1))
    told = some[some >= 0]
    assert agrees(by_errors((told.mean() - 50) / math.sqrt(50 * 51 / len(told))))
    assert agrees(by_share(np.sum(told == 0), len(told), 1 / 51))
    assert set(fixed(0, 9, by=4).tolist()) == {4}


def test_delays_have_a_stream_of_their_own():
    """Correlation of a delay's rank with the loss of the same round: none beyond luck."""
    game = FIELD["late-heavy"]
    delays = game.delays(3, game.rounds)
    adversary = game.make(3)
    losses = np.array([adversary(t)[7] for t in range(game.rounds)])
    ranks = np.argsort(np.argsort(delays))
    assert agrees(by_errors(np.corrcoef(ranks, losses)[0, 1] * math.sqrt(game.rounds)))


@pytest.mark.parametrize("name", LATE)
def test_losses_are_told_when_they_are_due(name):
    """And all of them count, told or not."""
    game, diary = replace(FIELD[name], rounds=400), []
    run = play_run(game, spec_of(diary), 1)
    assert run.status == "done", run.message
    delays = game.delays(run.seeds[1], 400)
    adversary = game.make(run.seeds[1])
    losses = []
    for t in range(400):
        losses.append(adversary(t, mass(game, t % len(game.points))))
    paid = [losses[t][t % len(game.points)] for t in range(400)]
    due = sorted((t + d, t) for t, d in enumerate(delays) if d >= 0)
    expected = [(min(when, 399), t % len(game.points), paid[t]) for when, t in due]
    assert diary == expected
    assert len(expected) < 400 or name != "late-never"
    assert max(delays) > 0
    assert run.regret == pytest.approx(sum(paid) - np.sum(losses, axis=0).min())
    # The same player hears all at once where nothing is late.
    diary.clear()
    play_run(replace(game, delays=None), spec_of(diary), 1)
    assert [when for when, *_ in diary] == list(range(400))


def test_who_cannot_hear_late_losses_cannot_play():
    diary = []
    spec = spec_of(diary, late=False)
    run = play_run(FIELD["late-fixed"], spec)
    assert (run.status, run.played, run.regret) == ("cannot", 0, 0.0)
    assert run.message == "its interface takes a loss only before the next decision"
    assert diary == []
    assert play_run(FIELD["coins"], spec, rounds=20).status == "done"
    entry = arena.Entry("late-fixed", "diary", (run,))
    assert entry.cannot
    assert not entry.finished


@pytest.mark.slow
@pytest.mark.parametrize("slug", ["uniform", "exp3", "exp-weights", "exp-weights-anytime", "gp-ucb", "gp-thompson"])  # fmt: skip
@pytest.mark.parametrize("name", ["late-never", "late-heavy", "late-trap"])
def test_players_hear_late_losses(slug, name):
    run = play_run(FIELD[name], arena.players()[slug], rounds=150)
    assert run.status == "done", run.message


# Units.


def test_who_needs_a_range_is_told_it():
    game, heard = FIELD["odd-units"], {}
    for needs in ((), ("range",)):
        diary = []
        run = play_run(game, spec_of(diary, needs=needs), 2, rounds=200)
        heard[needs] = np.array([loss for *_, loss in diary])
    low, high = RANGE
    np.testing.assert_allclose(low + (high - low) * heard["range",], heard[()], rtol=1e-12)
    assert 0 <= heard["range",].min() < heard["range",].max() <= 1
    assert np.abs(heard[()]).max() > 100
    adversary = game.make(run.seeds[1])
    expected = [adversary(t)[t % len(game.points)] for t in range(200)]
    np.testing.assert_array_equal(heard[()], expected)  # regret, too, is in units of the game
    totals = np.sum([adversary(t) for t in range(200)], axis=0)
    assert run.regret == pytest.approx(sum(expected) - totals.min())


@pytest.mark.slow
def test_the_librarys_learners_learn_what_is_unknown():
    learner = arena.players()["exp-weights"].make(FIELD["odd-units"], 0)
    assert learner.settings.learns_range
    paper = arena.players()["exp-weights-paper"]
    assert paper.make(FIELD["odd-units"], 0).settings.loss_range == RANGE
    assert paper.needs == ("range", "kernel")
    smooth = games("peers")["garland"]
    assert "bandwidth=0.2)" not in repr(arena.players()["exp-weights"].make(smooth, 0).settings.kernel)  # fmt: skip
    assert paper.make(smooth, 0).settings.kernel == smooth.kernel
    known = arena.players()["exp-weights"].make(FIELD["coins"], 0)
    assert known.settings.loss_range == (0, 1)
    assert known.settings.kernel == FIELD["coins"].kernel


def test_coins_are_coins():
    adversary = FIELD["coins"].make(0)
    assert {float(x) for t in range(50) for x in adversary(t)} == {0.0, 1.0}


# Turns.


def test_again_is_hostile_twice():
    game = FIELD["again"]
    adversary = game.make(4)
    shapes = {}
    for t in (0, 599, 600, 999, 1000, 1599, 1600, 1999):
        two = [adversary(t, mass(game, i)) for i in (3, 7)]
        kind = t < 600 or 1000 <= t < 1600
        assert np.array_equal(*two) == kind
        if kind:
            shapes[t] = two[0]
        else:
            np.testing.assert_allclose(two[1], bump(game, 7), atol=1e-14)
    np.testing.assert_array_equal(shapes[0], shapes[599])
    np.testing.assert_array_equal(shapes[1000], shapes[1599])
    assert np.abs(shapes[0] - shapes[1000]).max() > 0.1


def test_an_ambush_waits_until_the_player_is_sure_and_ends_when_it_is_not():
    game = FIELD["ambush"]
    adversary, unsure = game.make(0), player(game)
    kind = adversary(0, unsure)
    half = np.zeros(len(game.points))
    half[[3, 7]] = 0.5
    for t in range(1, 300):  # one half is not more than one half
        np.testing.assert_array_equal(adversary(t, player(game, half)), kind)
    for turn in range(2):
        for _ in range(250):
            np.testing.assert_array_equal(adversary(300, mass(game, 3 + turn)), kind)
        for i in (3, 9):
            np.testing.assert_allclose(adversary(600, mass(game, i)), bump(game, i), atol=1e-14)
        np.testing.assert_array_equal(adversary(900, unsure), kind)  # and then it waits again


def test_games_of_the_field_are_short():
    assert all(game.rounds == 2000 and len(game.points) <= 200 for game in FIELD.values())
    assert len(LATE) == 4
    assert {game.weather for game in FIELD.values()} == {"kind", "hostile"}
