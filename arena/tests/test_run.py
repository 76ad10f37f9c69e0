"""Runs of the arena: regret by a second computation, players that misbehave, the same bytes for any number of processes."""

from __future__ import annotations

import importlib
import json
import os
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import arena
import koloss as kl
from arena import Choice, Game, Player, PlayerSpec, Run, play_run
from arena.play import job_of, keyed
from koloss.games.adversaries import Adversary
from koloss.games.store import seeds_of
from tests.support.runs import contents, numbers

POINTS = np.linspace(0, 1, 30)[:, None]
KERNEL = kl.Gaussian(0.3)


class Noise(Adversary):
    """A valley under noise, drawn in advance."""

    def __init__(self, seed):
        noise = np.random.default_rng(seed).uniform(-0.2, 0.2, (80, 30))
        self.table = 0.2 + 0.5 * np.abs(POINTS[:, 0] - 0.6) + noise

    def choose(self, t, player):
        return self.table[t].copy()


class Chaser(Adversary):
    """A loss of 1 where the player is most likely, and 0.3 elsewhere but for one action."""

    oblivious = False

    def __init__(self, seed):
        self.good = int(np.random.default_rng(seed).integers(30))

    def choose(self, t, player):
        loss = np.full(30, 0.3)
        loss[self.good] = 0.1
        loss[np.argmax(player.distribution)] = 1.0
        return loss


VALLEY = Game("valley", "held-out", "kind", "A valley.", POINTS, KERNEL, 80, Noise)
CHASE = Game("chase", "reported", "hostile", "A chase.", POINTS, KERNEL, 60, Chaser)
OWN = [VALLEY, CHASE]


class Lazy(Player):
    """Plays one action for ever, unless told otherwise."""

    def __init__(self, game, seed, *, index=3, law=None, trouble="", at=10, full=False):
        super().__init__(game)
        self.feedback = "full" if full else "bandit"
        self.index, self.law = index, law
        self.trouble, self.at, self.heard = trouble, at, []

    def make_trouble(self, *kinds):
        if self.trouble in kinds and len(self.heard) == self.at:
            if self.trouble == "death":
                os._exit(1)
            raise ERRORS[self.trouble]

    @property
    def distribution(self):
        self.make_trouble("distribution")
        return np.eye(30)[3] if self.law is None else self.law

    def ask(self):
        self.make_trouble("ask", "exit", "death", "interrupt")
        return Choice(self.index if len(self.heard) >= self.at else 3)

    def tell(self, decision, loss):
        self.make_trouble("tell")
        self.heard.append(loss)


ERRORS = {
    "distribution": RuntimeError("no law"),
    "ask": ZeroDivisionError("no choice"),
    "exit": SystemExit(3),
    "interrupt": KeyboardInterrupt(),
    "tell": kl.errors.LossOutOfBounds("too much"),
}


def no_player(game, seed):
    raise OSError("nobody there")


def no_package(game, seed):
    raise ImportError("this player needs nothing-like-it: pip install --group arena")


def lazy(slug, full=False, **settings):
    return PlayerSpec(slug, slug, partial(Lazy, full=full, **settings), full=full, summary="lazy")


UNIFORM, UCB = arena.players()["uniform"], arena.players()["gp-ucb"]


# Regret by a second computation.


def by_hand(game, spec, run):
    """All losses and actions of a run, and its player, from its seeds alone."""
    player, adversary = spec.make(replace(game, rounds=run.rounds), run.seeds[0]), game.make(run.seeds[1])  # fmt: skip
    losses, actions = [], []
    for t in range(run.played):
        losses.append(adversary(t, player))
        decision = player.ask()
        actions.append(decision.index)
        player.tell(decision, losses[-1] if spec.full else losses[-1][decision.index])
    return np.array(losses), np.array(actions), player


SPECS = [*(arena.players()[s] for s in ("insured", "exp-weights", "exp3", "uniform", "gp-ucb", "gp-thompson")), lazy("lazy", full=True)]  # fmt: skip


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.slug)
@pytest.mark.parametrize("game", OWN, ids=lambda game: game.name)
def test_regret_by_brute_force(game, spec):
    run = play_run(game, spec, 2, seed=7)
    assert (run.status, run.message, run.played) == ("done", "", game.rounds)
    losses, actions, _ = by_hand(game, spec, run)
    paid = np.array([loss[a] for loss, a in zip(losses, actions, strict=True)])
    totals = [sum(loss[i] for loss in losses) for i in range(30)]
    assert run.regret == pytest.approx(paid.sum() - min(totals), abs=1e-9)
    assert totals[run.best] == pytest.approx(min(totals), abs=1e-9)
    assert run.loss == pytest.approx(paid.sum())
    assert run.best_loss == pytest.approx(min(totals))
    assert run.at[-1] == game.rounds
    assert len(run.at) == len(run.curve) > 25
    for t, regret in zip(run.at, run.curve, strict=True):
        assert regret == pytest.approx(sum(paid[:t]) - sum(losses[:t, run.best]), abs=1e-9)
    assert run.seconds > 0


def test_kind_games_have_the_same_losses_for_all():
    heard = {}
    for slug in ("one", "two"):
        made = []
        maker = lambda game, seed, kept=made: kept.append(Lazy(game, seed, full=True)) or kept[0]  # noqa: E731
        run = play_run(VALLEY, PlayerSpec(slug, slug, maker, full=True), 1)
        heard[slug] = np.array(made[0].heard), run.seeds
    np.testing.assert_array_equal(heard["one"][0], heard["two"][0])
    assert heard["one"][0].shape == (80, 30)
    assert heard["one"][1][0] != heard["two"][1][0]  # but each has its own coin
    assert heard["one"][1][1] == heard["two"][1][1]
    best = {play_run(VALLEY, spec, 1).best_loss for spec in SPECS}
    assert len(best) == 1
    assert play_run(VALLEY, UNIFORM, 2).best_loss not in best


def test_players_hear_their_own_loss_alone():
    made = []
    maker = lambda game, seed: made.append(Lazy(game, seed)) or made[0]  # noqa: E731
    play_run(VALLEY, PlayerSpec("x", "x", maker))
    table = Noise(seeds_of(job(VALLEY, UNIFORM))[1]).table
    assert made[0].heard == table[:, 3].tolist()
    assert all(type(loss) is float for loss in made[0].heard)


class Clock:
    """A clock that goes on when it is told to."""

    now = 0.0

    def perf_counter(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    ticking = Clock()
    for module in ("play", "store"):
        monkeypatch.setattr(importlib.import_module(f"koloss.games.{module}"), "time", ticking)
    return ticking


class Busy(Lazy):
    """Takes 3 seconds to be made, 1 to ask, 2 to tell, 100 for its law."""

    def __init__(self, game, seed, clock):
        super().__init__(game, seed)
        self.clock = clock
        clock.now += 3

    @property
    def distribution(self):
        self.clock.now += 100
        return super().distribution

    def ask(self):
        self.clock.now += 1
        return super().ask()

    def tell(self, decision, loss):
        self.clock.now += 2
        super().tell(decision, loss)


def test_time_is_that_of_asking_and_telling(clock):
    class Pondering(Chaser):
        def choose(self, t, player):
            clock.now += 1000
            return super().choose(t, player)

    game = replace(CHASE, make=Pondering, rounds=10)
    run = play_run(game, PlayerSpec("busy", "busy", partial(Busy, clock=clock)))
    assert (run.seconds, run.making) == (30, 3)
    assert clock.now == 3 + 10 * 1103


def test_the_time_limit(clock):
    spec = PlayerSpec("busy", "busy", partial(Busy, clock=clock))
    run = play_run(VALLEY, spec, limit=10)  # 3 a round: 12 > 10 after the fourth
    assert run.status == "stopped"
    assert run.message == "stopped after round 4 of 80 by the time limit of 10 s"
    assert (run.played, run.seconds) == (4, 12)
    losses, _, _ = by_hand(VALLEY, lazy("lazy"), run)
    assert run.regret == pytest.approx(losses[:, 3].sum() - losses.sum(axis=0).min())
    assert run.at[-1] == 4
    assert play_run(VALLEY, spec, rounds=4, limit=10).status == "done"


# What is kept of the library's learners.


def test_guarantees_and_alarms_are_kept():
    spec = arena.players()["insured"]
    run = play_run(CHASE, spec, 1)
    _, _, player = by_hand(CHASE, spec, run)
    promise, seen = player.guarantee(rounds=60), player.diagnostics
    expected = {"total": promise.total, "regret": "pseudo", "rank": player.rank, "epsilon": player.epsilon}  # fmt: skip
    assert expected.items() <= run.guarantee.items()
    # The learner knows of nothing that fails; but it was chased, and the regret here is in hindsight.
    assert promise.valid
    assert run.guarantee["valid"] is False
    assert run.guarantee["exceeded"] is False
    assert play_run(VALLEY, spec).guarantee["valid"] is True
    (alarm,), (told,) = seen.alarms, run.insured["alarms"]  # chased, it was stopped
    assert (told["round"], told["reason"]) == (alarm.round, alarm.reason)
    assert (run.insured["explored"], run.insured["premium"]) == (seen.explored, seen.premium)
    assert play_run(VALLEY, spec).insured["alarms"] == []
    assert play_run(VALLEY, UNIFORM).guarantee is None
    assert play_run(VALLEY, arena.players()["exp-weights"]).insured is None


class Promising(Lazy):
    """Promises what it cannot keep."""

    def guarantee(self, *, rounds=None, printed=None):
        return kl.Guarantee(("A3",), 80, {"all": 0.5}, 80.0)


def test_a_bound_that_is_exceeded():
    spec = PlayerSpec("promising", "promising", Promising)
    run = play_run(VALLEY, spec)
    assert run.regret > 5
    assert run.guarantee["exceeded"] is True
    assert run.guarantee["rank"] is None
    bound = arena.ArenaResults((VALLEY,), (spec,), (run,)).entry("valley", "promising").bound()
    assert bound["above"] is True
    assert bound["exceeded"] == 1
    chased = play_run(CHASE, spec).guarantee  # a bound on the pseudo-regret says nothing of this
    assert (chased["valid"], chased["exceeded"]) == (False, False)


# Players that misbehave.

TROUBLE = [
    (CHASE, {"trouble": "distribution"}, "failed in round 11 of 60: RuntimeError: no law"),
    (VALLEY, {"trouble": "ask"}, "failed in round 11 of 80: ZeroDivisionError: no choice"),
    (VALLEY, {"trouble": "tell"}, "failed in round 11 of 80: LossOutOfBounds: too much"),
    (VALLEY, {"trouble": "exit"}, "failed in round 11 of 80: SystemExit: 3"),
    (VALLEY, {"index": float("nan")}, "`index` must be a whole number from 0 to 29, got nan"),
    (VALLEY, {"index": 30}, "`index` must be a whole number from 0 to 29, got 30"),
    (VALLEY, {"index": -1}, "`index` must be a whole number from 0 to 29, got -1"),
    (VALLEY, {"index": None}, "`index` must be a whole number from 0 to 29, got None"),
    (CHASE, {"law": np.full(30, np.nan)}, "`distribution` must be non-negative and sum to 1, got nan"),
    (CHASE, {"law": np.full(30, 0.1)}, "`distribution` must be non-negative and sum to 1"),
    (CHASE, {"law": np.full(3, 1 / 3)}, "`distribution` must have shape (30,), got (3,)"),
]  # fmt: skip


@pytest.mark.parametrize("game, settings, message", TROUBLE)
def test_trouble_is_a_result(game, settings, message):
    run = play_run(game, lazy("lazy", **settings))
    assert run.status == "failed"
    assert message in run.message
    assert run.played == (0 if "law" in settings else 10)
    if run.played:
        losses, actions, _ = by_hand(game, lazy("lazy"), run)
        regret = losses[np.arange(10), actions].sum() - losses.sum(axis=0).min()
        assert run.regret == pytest.approx(regret)  # of the rounds that were played
        assert run.at[-1] == 10
        assert run.curve[-1] == run.regret
    assert run.guarantee is None


@pytest.mark.parametrize(
    "make, package, status, message",
    [
        (no_player, "", "failed", "failed before the first round: OSError: nobody there"),
        (no_package, "nothing-like-it", "missing", "not installed: pip install --group arena"),
        (no_package, "numpy", "failed", "failed before the first round: ImportError: this player needs nothing"),
    ],
)  # fmt: skip
def test_trouble_before_the_first_round(make, package, status, message):
    run = play_run(VALLEY, PlayerSpec("nobody", "nobody", make, package=package))
    assert (run.status, run.played) == (status, 0)
    assert run.message.startswith(message)


def test_an_interrupt_is_not_the_players():
    with pytest.raises(KeyboardInterrupt):
        play_run(VALLEY, lazy("lazy", trouble="interrupt"))


@pytest.mark.parametrize(
    "loss, message",
    [
        (np.full(30, 1.5), "the losses of bad must be in [0, 1], got 1.5 to 1.5"),
        (np.full(30, np.nan), "the losses of bad must be in [0, 1], got nan"),
        (np.zeros(7), "the losses of bad must have shape (30,), got (7,)"),
    ],
)
def test_a_game_that_breaks_its_word(loss, message):
    game = replace(VALLEY, name="bad", make=lambda seed: kl.games.Function(lambda t, p: loss, oblivious=True))  # fmt: skip
    run = play_run(game, UNIFORM)
    assert run.status == "failed"
    assert message in run.message


# Names.


@pytest.mark.slow
def test_no_name_leaves_the_folder_or_shares_a_file(tmp_path):
    """Names that climb, that differ in case or in letters of another script, that are markup: all are told apart."""
    names = [
        "../../../up",
        "/etc",
        "日本",
        "中国",
        "a/b",
        "a-b",
        "A-B",
        "con",
        "..",
        "[red]<script>",
    ]
    games = [replace(VALLEY, name=name) for name in names]
    squad = [lazy(name) for name in ("../x", "日本", "中国")]
    out = tmp_path / "a" / "b"
    results = arena.run(games, squad, out=out, jobs=1, runs=1, rounds=2)
    assert {path for path in tmp_path.rglob("*") if path.is_file() and out not in path.parents} == set()  # fmt: skip
    assert len([*out.glob("runs/*/*/0.npz")]) == len(names) * len(squad)
    assert {run.game for run in results.runs} == set(names)
    told = []
    arena.run(games, squad, out=out, jobs=1, runs=1, rounds=2, progress=told.append)
    assert [one.done for one in told] == [len(names) * len(squad)]  # nothing is played twice


@pytest.mark.parametrize("name", ["", "\x1b[31m", "a\nb", "\u202ex", "x" * 201])
def test_names_that_cannot_be_shown_are_refused(tmp_path, name):
    with pytest.raises(ValueError, match="`games` must have names of 1 to 200 characters"):
        arena.run([replace(VALLEY, name=name)], [UNIFORM], out=tmp_path)
    with pytest.raises(ValueError, match="`players` must have names of 1 to 200 characters"):
        arena.run([VALLEY], [replace(UNIFORM, slug=name or " ", name=name)], out=tmp_path)
    assert not [*tmp_path.iterdir()]


# All runs.

SQUAD = [UNIFORM, UCB, lazy("broken", trouble="ask")]
SIZE = {"runs": 2, "rounds": 50}


@pytest.fixture(scope="module")
def complete(tmp_path_factory):
    """An uninterrupted arena with one process."""
    out = tmp_path_factory.mktemp("complete")
    return out, arena.run(OWN, SQUAD, out=out, jobs=1, **SIZE)


@pytest.mark.slow
def test_same_bytes_for_any_number_of_processes(complete, tmp_path):
    out, _ = complete
    arena.run(OWN, SQUAD, out=tmp_path, jobs=2, **SIZE)
    assert contents(tmp_path) == contents(out)
    assert len(contents(out)) == 12
    assert numbers(tmp_path / "arena.json") == numbers(out / "arena.json")


@pytest.mark.slow
def test_going_on_after_an_interruption(complete, tmp_path):
    """An interrupt, a torn file, other players before: the rest is played, what is there is not."""

    def interrupt(progress):
        if progress.done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        arena.run(OWN[:1], SQUAD, out=tmp_path, jobs=1, progress=interrupt, **SIZE)
    assert not (tmp_path / "arena.json").exists()
    kept = sorted(tmp_path.glob("runs/**/*.npz"))
    assert len(kept) >= 3
    torn = kept[0]
    torn.write_bytes(torn.read_bytes()[:100])
    stamps = {path: path.stat().st_mtime_ns for path in kept}
    seen = []
    arena.run(OWN, SQUAD, out=tmp_path, jobs=1, progress=seen.append, **SIZE)
    assert (seen[0].done, seen[0].total) == (len(kept) - 1, 12)
    assert [p.done for p in seen] == list(range(len(kept) - 1, 13))
    changed = [path for path in kept if path.stat().st_mtime_ns != stamps[path]]
    assert changed == [torn]
    assert contents(tmp_path) == contents(complete[0])
    assert numbers(tmp_path / "arena.json") == numbers(complete[0] / "arena.json")
    seen.clear()
    arena.run(OWN, SQUAD, out=tmp_path, jobs=1, progress=seen.append, **SIZE)
    # Nothing was played but what had failed.
    assert [p.done for p in seen] == list(range(8, 13))
    assert {p.job.player for p in seen[1:]} == {"broken"}


@pytest.mark.slow
def test_a_process_that_dies_takes_nobody_with_it(tmp_path):
    squad = [UNIFORM, lazy("deadly", trouble="death"), lazy("lazy")]
    seen = []
    results = arena.run([VALLEY], squad, out=tmp_path, jobs=2, progress=seen.append, **SIZE)
    assert results.entry("valley", "uniform").finished
    assert results.entry("valley", "lazy").finished
    dead = results.entry("valley", "deadly")
    assert [run.status for run in dead.runs] == ["died", "died"]
    assert {run.message for run in dead.runs} == {"failed: its process ended without a word"}
    assert [p.done for p in seen] == list(range(7))
    assert len(contents(tmp_path)) == 4  # it leaves no file, and is tried again next time
    json.dumps(results.to_dict(), allow_nan=False)


def job(game, spec, number=0, *, rounds=None, seed=0):
    return keyed(job_of(game, spec, number, rounds=rounds, seed=seed, limit=9.0))


def test_keys_know_what_a_run_depends_on():
    first = job(VALLEY, UNIFORM).key
    assert job(replace(VALLEY, summary="other", source="x"), UNIFORM).key == first
    others = [
        job(VALLEY, UNIFORM, rounds=79),
        job(VALLEY, UNIFORM, seed=1),
        job(VALLEY, UNIFORM, 1),
        job(VALLEY, UCB),
        job(CHASE, UNIFORM),
        job(replace(VALLEY, points=POINTS / 2), UNIFORM),
        job(replace(VALLEY, kernel=kl.Gaussian(0.4)), UNIFORM),
        job(replace(VALLEY, make=Chaser), UNIFORM),
        job(VALLEY, replace(UNIFORM, package="numpy")),
        job(VALLEY, lazy("uniform")),
        job(VALLEY, lazy("uniform", index=4)),
    ]
    assert len({first, *(other.key for other in others)}) == 12
    assert job(VALLEY, lazy("uniform")).key == others[-2].key
    recorded = job(arena.games()["compressor"], UNIFORM)
    assert [Path(path).name for path in recorded.files] == ["flights.npz", "compressions.npz"]
    assert replace(recorded, files=()).key != recorded.key


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"games": ["valey"]}, r"`games` must be among stationary, .*, got 'valey'"),
        ({"players": ["gp"]}, r"`players` must be among insured, .*, got 'gp'"),
        ({"games": [VALLEY, VALLEY]}, "different names, got 'valley' twice"),
        ({"players": []}, "`players` must have at least one"),
        ({"players": [PlayerSpec("a", "a", lambda game, seed: None)]}, "another process can find, got 'a'"),
        ({"runs": 0}, "`runs` must be at least 1"),
        ({"rounds": 0}, "`rounds` must be at least 1"),
        ({"seed": -1}, "`seed` must be at least 0"),
        ({"jobs": 0}, "`jobs` must be at least 1"),
        ({"limit": 0}, "`limit` must be positive"),
    ],
)  # fmt: skip
def test_bad_input(tmp_path, arguments, message):
    with pytest.raises(ValueError, match=message):
        arena.run(**{"games": ["stationary"], "players": ["uniform"], "out": tmp_path, **arguments})
    assert list(tmp_path.iterdir()) == []


def test_processes_that_cannot_find_a_game(tmp_path, monkeypatch):
    monkeypatch.setattr(Noise, "__module__", "not_a_module")  # the other process will not find it
    monkeypatch.setitem(sys.modules, "not_a_module", SimpleNamespace(Noise=Noise))
    with pytest.raises(RuntimeError, match="end before they play"):
        arena.run([VALLEY], [UNIFORM], out=tmp_path, runs=1, jobs=1)


def test_a_player_that_hears_what_its_spec_does_not_say():
    run = play_run(VALLEY, replace(lazy("x", full=True), full=False))
    assert run.message.endswith("`feedback` of x must be 'bandit', got 'full'")


# Results.


def test_means_errors_and_worst_runs(complete):
    results = complete[1]
    entry = results.entry("valley", "uniform")
    regrets = [play_run(VALLEY, UNIFORM, k, rounds=50).regret for k in range(2)]
    assert [run.regret for run in entry.runs] == regrets
    assert entry.mean == pytest.approx(sum(regrets) / 2)
    assert entry.error == pytest.approx(abs(regrets[0] - regrets[1]) / 2)  # √(Σ(x - x̄)²/2)
    assert entry.worst == max(regrets)
    broken = results.entry("valley", "broken")
    assert not broken.finished
    assert np.isnan(broken.mean)
    assert results.best("valley") == min(("uniform", "gp-ucb"), key=lambda s: results.entry("valley", s).mean)  # fmt: skip
    assert results.shortened == 50
    single = arena.ArenaResults(OWN[:1], (UNIFORM,), entry.runs[:1])
    assert np.isnan(single.entry("valley", "uniform").error)
    assert single.to_dict()["results"][0]["regret"]["error"] is None


def test_full_information_is_no_rival():
    oracle = replace(UCB, slug="oracle", full=True)
    runs = [
        Run("valley", slug, 0, 9, played=9, regret=r, at=(9,), curve=(r,))
        for slug, r in (("oracle", 1.0), ("uniform", 5.0))
    ]
    results = arena.ArenaResults((VALLEY,), (oracle, UNIFORM), tuple(runs))
    assert results.best("valley") == "uniform"


def test_arena_json_is_plain_and_whole(tmp_path):
    specs = [*SPECS, lazy("broken", trouble="ask"), PlayerSpec("p", "p", no_package, package="none-such")]  # fmt: skip
    runs = [play_run(game, spec, k) for game in OWN for spec in specs for k in range(2)]
    results = arena.ArenaResults(tuple(OWN), tuple(specs), tuple(runs), limit=9.0)
    text = results.write(tmp_path).read_text("utf-8")
    assert "NaN" not in text
    plain = json.loads(text)
    assert plain == results.to_dict()
    assert len(plain["results"]) == 2 * len(specs)
    assert {run["status"] for e in plain["results"] for run in e["runs"]} == {"done", "failed", "missing"}  # fmt: skip
    first = plain["results"][0]
    assert set(first["runs"][0]["insured"]) == {"alarms", "explored", "premium"}
    assert set(first["runs"][0]) == {
        "number", "status", "message", "played", "regret", "loss", "best", "best_loss", "seconds", "making", "limit", "seeds",
        "guarantee", "insured",
    }  # fmt: skip
    assert set(first) == {
        "game", "player", "rounds", "finished", "regret", "round_seconds", "guarantee", "curve", "runs",
    }  # fmt: skip
    for entry in plain["results"]:
        assert set(entry["curve"]) == {"rounds", "mean", "low", "high", "running"}
        assert len({len(line) for line in entry["curve"].values()}) == 1
    assert set(plain["games"][0]) == {
        "name", "family", "weather", "summary", "actions", "dimension", "kernel", "full_rounds", "source", "best", "loss_range",
        "unknown", "late", "contexts",
    }  # fmt: skip
    assert set(plain["players"][0]) == {
        "name", "slug", "summary", "package", "package_version", "full", "needs", "late", "where",
    }  # fmt: skip
