"""The loop: regrets known by hand, both kinds of feedback, late losses, and the same result however it is run."""

from __future__ import annotations

import functools
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest

import koloss as kl
from koloss.games.play import milestones

POINTS = kl.Points([[0.0], [0.5], [1.0]])
GRID = kl.Points(np.random.default_rng(0).random((20, 2)))
GAUSS = kl.Gaussian(0.5)


def table_player(rounds, **settings):
    options = {"horizon": rounds, "loss_range": (0, 1), "rng": 0} | settings
    return kl.ExpWeights(POINTS, kernel=kl.Linear(), **options)


def test_replayed_game_has_the_regret_by_hand():
    table = np.array([[1.0, 0.0, 0.5], [0.0, 1.0, 0.5], [1.0, 0.25, 0.5], [1.0, 0.0, 0.0]])
    trace = kl.play(table_player(4), kl.games.Replay(table), 4)
    paid = table[np.arange(4), trace.index]
    np.testing.assert_array_equal(trace.losses, paid)
    # columns sum to 3, 1.25 and 1.5: the second point is best
    np.testing.assert_array_equal(trace.best, [0.5])
    np.testing.assert_allclose(trace.regret, np.cumsum(paid - table[:, 1]))
    assert trace.certificate == "exhaustive"
    np.testing.assert_array_equal(trace.actions[:, 0], POINTS.X[trace.index, 0])


LEARNERS = [kl.BanditExpWeights, kl.ExpWeights, kl.ConditionalGradient, kl.FollowTheRegularizedLeader]  # fmt: skip


@pytest.mark.parametrize("kind", LEARNERS)
def test_every_learner_on_points(kind):
    learner = kind(GRID, kernel=GAUSS, horizon=60, rng=0)
    trace = kl.play(learner, kl.games.Switching(GAUSS, GRID, length=20, rng=1), 60)
    # a second computation: the same adversary again, loss by loss
    again = kl.games.Switching(GAUSS, GRID, length=20, rng=1)
    values = np.stack([again(t)(GRID.X) for t in range(60)])
    np.testing.assert_allclose(trace.losses, values[np.arange(60), trace.index])
    best = int(np.argmin(values.sum(axis=0)))
    np.testing.assert_allclose(trace.regret, np.cumsum(trace.losses - values[:, best]))
    assert trace.bound.shape == (60,)
    assert np.all(np.diff(trace.bound) >= -1e-9)
    # regret against the best of the rounds so far, by brute force
    t = trace.checkpoints
    sums = np.cumsum(values, axis=0)[t - 1]
    lowest = sums.min(axis=1)
    np.testing.assert_allclose(trace.running, np.cumsum(trace.losses)[t - 1] - lowest)
    np.testing.assert_allclose(trace.uniform, sums.mean(axis=1) - lowest, atol=1e-9)
    assert trace.running[-1] == pytest.approx(trace.regret[-1])
    assert np.all(trace.running >= trace.regret[t - 1] - 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("kind", LEARNERS)
def test_every_learner_on_the_ball(kind):
    ball, kernel = kl.Ball(2), kl.Quadratic()
    learner = kind(ball, kernel=kernel, horizon=80, rng=0)
    trace = kl.play(learner, kl.games.Biased(kernel, ball, rng=1), 80)
    again = kl.games.Biased(kernel, ball, rng=1)
    losses = [again(t) for t in range(80)]
    paid = [float(w(a[None])[0]) for w, a in zip(losses, trace.actions, strict=True)]
    np.testing.assert_allclose(trace.losses, paid)
    X = ball.net(0.04).X
    net = sum(w(X) for w in losses)
    assert trace.certificate == "dual"
    assert np.sum(paid) - trace.regret[-1] <= net.min() + 1e-9  # a* is better than all of the net
    for t, regret in zip(trace.checkpoints, trace.running, strict=True):
        lowest = np.sum(paid[:t]) - regret
        net = sum(w(X) for w in losses[:t]).min()
        assert net - 0.05 * t < lowest <= net + 1e-9  # as good as the net, and not much better
    assert trace.index is trace.probability is None
    # E xx' = I/(d + 2) and E x = 0 under the uniform distribution; 1,024 points stand for it
    means = np.cumsum([np.trace(w.matrix) / 4 for w in losses])[trace.checkpoints - 1]
    lowest = np.cumsum(paid)[trace.checkpoints - 1] - trace.running
    np.testing.assert_allclose(trace.uniform, means - lowest, atol=0.05 * 80)


def test_running_regret_without_a_certificate():
    """Gaussian losses on a disc: the search from the best of a pool is as good as a fine net."""
    ball = kl.Ball(2)
    make = functools.partial(kl.games.Biased, GAUSS, ball, rng=1)
    learner = kl.ExpWeights(ball, kernel=GAUSS, horizon=60, particles=32, rng=0)
    trace, again = kl.play(learner, make(), 60), make()
    sums = np.cumsum([again(t)(ball.net(0.02).X) for t in range(60)], axis=0)
    t = trace.checkpoints
    lowest = np.cumsum(trace.losses)[t - 1] - trace.running
    assert trace.certificate == "local only"
    assert np.all(lowest <= sums[t - 1].min(axis=1) + 1e-6)
    np.testing.assert_allclose(lowest, sums[t - 1].min(axis=1), atol=1e-3 * 60)


@pytest.mark.parametrize("rounds, count, step", [(1, 50, 1), (7, 50, 1), (1000, 50, 1), (101, 9, 8)])  # fmt: skip
def test_milestones(rounds, count, step):
    at = milestones(rounds, count, step)
    assert at[-1] == rounds
    assert np.all(np.diff(at) > 0)
    assert at[0] == min(step, rounds)
    assert np.all(at[:-1] % step == 0)
    assert len(at) <= count + 2


def test_bound_of_the_papers_tuning_is_what_is_proved():
    ball, kernel = kl.Ball(2), kl.Quadratic()
    learner = kl.ConditionalGradient(ball, kernel=kernel, horizon=40, tuning="paper", rng=0)
    assert not learner.guarantee().valid
    assert kl.play(learner, kl.games.Random(kernel, ball, rng=0), 40).valid


def test_batches_are_epochs():
    learner = kl.BanditExpWeights(GRID, GAUSS, horizon=64, rng=0)
    trace = kl.play(learner, kl.games.Random(GAUSS, GRID, rng=0), 60, batch=8)
    assert len(trace) == 60
    assert learner.diagnostics.epoch == 8
    with pytest.raises(ValueError, match="`batch` must be 1 against Predictive"):
        kl.play(learner, kl.games.Predictive(GAUSS, GRID), 4, batch=2)


def test_delay_is_the_learners_delay():
    learner = table_player(30)
    kl.play(learner, kl.games.Replay([[0.0, 1.0, 0.5]]), 30, delay=3)
    assert learner.ledger.longest_delay == 3
    assert learner.ledger.heard == 30
    assert learner.guarantee().terms["delay"] > 0


class Diary:
    """Plays the first of three actions, and writes down after which decision it hears of which."""

    feedback, rank, epsilon = "bandit", None, None
    actions = np.zeros((3, 1))

    def __init__(self):
        self.asked, self.heard = 0, []

    def ask(self):
        self.asked += 1
        return SimpleNamespace(index=0, probability=None, number=self.asked - 1)

    def tell(self, decision, loss):
        self.heard.append((self.asked - 1, decision.number, loss))

    def guarantee(self, **options):
        return None


def test_every_loss_has_a_delay_of_its_own():
    learner, n = Diary(), 40
    delays = np.random.default_rng(0).integers(-1, 12, n)
    delays[5] = 10**6
    table = np.random.default_rng(1).random((n, 3))
    trace = kl.play(learner, kl.games.Replay(table), n, delay=delays)
    due = sorted((t + d, t) for t, d in enumerate(delays) if d >= 0)
    assert learner.heard == [(min(when, n - 1), t, table[t, 0]) for when, t in due]
    assert {t for _, t, _ in learner.heard}.isdisjoint(np.flatnonzero(delays == -1))
    assert (delays == -1).sum() >= 2
    assert trace.losses.tolist() == table[:, 0].tolist()  # what is never told is paid, too
    one, many = Diary(), Diary()
    kl.play(one, kl.games.Replay(table), n, delay=3)
    kl.play(many, kl.games.Replay(table), n, delay=np.full(n, 3))
    assert one.heard == many.heard


@pytest.mark.parametrize(
    "delay, batch, message",
    [
        ([1, 2], 1, r"`delay` must be one whole number, or 3 of them, got shape \(2,\)"),
        ([0.5, 1.0, 2.0], 1, "got shape .* of float64"),
        ([0, -2, 1], 1, "`delay` must be at least -1, which is never, got -2"),
        ([0, 1, 2], 2, "`batch` must be 1 where `delay` is one for each round, got 2"),
        (-1, 1, "`delay` must be at least 0, got -1"),
    ],
)
def test_bad_delays(delay, batch, message):
    learner = Diary()
    with pytest.raises(ValueError, match=message):
        kl.play(learner, kl.games.Replay([[0.0, 1.0, 0.5]]), 3, delay=delay, batch=batch)
    assert learner.asked == 0


def test_adversaries_that_look_are_told_what_was_played():
    class Grudge(kl.games.Adversary):
        oblivious = False

        def __init__(self):
            self.seen = []

        def choose(self, t, player):
            return np.eye(3)[len(self.seen) % 3]

        def saw(self, t, action):
            self.seen.append((t, action))

    grudge = Grudge()
    trace = kl.play(table_player(20), grudge, 20)
    assert grudge.seen == list(enumerate(trace.index.tolist()))
    assert trace.losses.tolist() == [float(i == t % 3) for t, i in grudge.seen]


def test_progress_is_called():
    seen = []
    replay = kl.games.Replay([[0.0, 1.0, 0.5]])
    kl.play(table_player(10), replay, 10, progress=lambda *counts: seen.append(counts))
    assert seen == [(t, 10) for t in range(1, 11)]


def test_oblivious_adversaries_are_not_changed_by_asking_ahead():
    """A game of 600 rounds, more than one block, is the same as one that is asked for round by round."""
    adversary = kl.games.Random(GAUSS, GRID, rng=3)
    trace = kl.play(kl.ExpWeights(GRID, kernel=GAUSS, horizon=600, rng=1), adversary, 600)
    single = kl.games.Function(kl.games.Random(GAUSS, GRID, rng=3).choose)  # looks at the player
    again = kl.play(kl.ExpWeights(GRID, kernel=GAUSS, horizon=600, rng=1), single, 600)
    np.testing.assert_array_equal(trace.index, again.index)
    np.testing.assert_allclose(trace.regret, again.regret)


def make_learner(seed):
    return kl.ExpWeights(GRID, kernel=GAUSS, horizon=40, rng=seed)


def make_adversary(seed):
    return kl.games.Random(GAUSS, GRID, rng=seed)


def make_trouble(seed):
    if int(np.random.default_rng(seed).integers(3)) == 0:
        raise RuntimeError("no luck")
    return make_adversary(seed)


def same(a, b):
    return all(
        np.array_equal(x.losses, y.losses) and np.array_equal(x.regret, y.regret)
        for x, y in zip(a.traces, b.traces, strict=True)
    )


@pytest.mark.slow
def test_same_seed_same_result_whatever_the_processes():
    runs = functools.partial(kl.replicate, make_learner, make_adversary, 40, 4)
    one = runs(rng=5, jobs=1)
    assert same(one, runs(rng=5, jobs=2))
    with ThreadPoolExecutor(3) as pool:
        assert same(one, runs(rng=5, executor=pool))
    assert not same(one, runs(rng=6, jobs=1))
    assert len({tuple(t.losses.tolist()) for t in one.traces}) == 4  # runs differ


def test_failed_runs_are_reported_and_the_others_kept():
    runs = kl.replicate(make_learner, make_trouble, 10, 12, rng=1, jobs=1)
    assert 0 < len(runs.failures) < 12
    assert set(runs.failures.values()) == {"RuntimeError: no luck"}
    assert sorted([*runs.seeds, *runs.failures]) == list(range(12))


def test_settings_reach_play():
    runs = kl.replicate(make_learner, make_adversary, 30, 2, jobs=1, delay=2)
    assert "came after others" in runs.traces[0].facts["guarantee"]


def test_bad_input():
    with pytest.raises(TypeError, match="`adversary` must be an Adversary"):
        kl.play(table_player(3), lambda t: None, 3)
    with pytest.raises(ValueError, match="`rounds` must be at least 1"):
        kl.play(table_player(3), kl.games.Replay([[0.0, 1.0, 0.5]]), 0)
    with pytest.raises(ValueError, match="`runs` must be at least 1"):
        kl.replicate(make_learner, make_adversary, 10, 0)


@pytest.mark.parametrize("actions", [GRID, kl.Ball(2)], ids=["points", "ball"])
def test_a_failure_can_be_kept(actions):
    """The trace of the rounds that were played is that of a shorter game."""

    def weary(t, player):
        if t == 7:
            raise RuntimeError("enough")
        return kl.LinearLoss([0.5, -0.1 * t])

    def play(rounds, **settings):
        learner = kl.ExpWeights(actions, kernel=kl.Linear(), horizon=20, rng=0)
        return kl.play(learner, kl.games.Function(weary), rounds, **settings)

    with pytest.raises(RuntimeError, match="enough"):
        play(20)
    kept, short = play(20, failures="keep"), play(7)
    assert (kept.ended, kept.message) == ("failed", "failed in round 8 of 20: RuntimeError: enough")
    np.testing.assert_array_equal(kept.regret, short.regret)
    assert kept.running[-1] == short.running[-1]
    assert kept.facts["promise"] is None
    assert not kept.valid
    stopped = play(20, limit=0.0)
    assert (stopped.ended, len(stopped)) == ("stopped", 1)


@pytest.mark.process
def test_games_need_nothing_optional():
    code = "import sys\nfor name in ('msgspec', 'jinja2', 'matplotlib', 'typer', 'rich'): sys.modules[name] = None\n"
    code += "import koloss as kl\nA, k = kl.Points([[0.0], [1.0]]), kl.Linear()\n"
    code += "learner = kl.ExpWeights(A, kernel=k, horizon=5, rng=0)\n"
    code += "print(len(kl.play(learner, kl.games.Random(k, A, rng=0), 5)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "5\n", done.stderr
