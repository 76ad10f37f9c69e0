"""Games with contexts: what they promise, regret against the best mapping by brute force, and those who play them."""

from __future__ import annotations

import importlib.util
import itertools
import json
import math
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

import arena
import koloss as kl
from arena import Game, PlayerSpec, data, peers, play_run, publish
from arena.base import Choice, ContextPlayer, GameContexts
from arena.baselines import GPUCB, Exp3, PerContext, pair_features
from arena.contexts import CACHE, Pairs, cache_points, in_turn, independent
from arena.games import games
from arena.players import players
from arena.ranking import picture_games, remarks, standings
from arena.tests.test_players import check_law
from koloss.games.adversaries import Adversary
from koloss.learners.insured.regression import Regression
from tests.support.statistics import agrees, by_counts, by_share, differs

CONTEXTS = games("contexts")
LISTENERS = {slug: spec for slug, spec in players().items() if spec.where == "contexts"}
KIND = [name for name, game in CONTEXTS.items() if game.weather == "kind"]
RIDGE = 0.05


def shown(game, p=None):
    law = np.full(len(game.points), 1 / len(game.points)) if p is None else p
    return SimpleNamespace(peek=lambda rng, count=64: (game.points, law))


def mass(game, i):
    return shown(game, np.eye(len(game.points))[i])


# How contexts come.


@pytest.mark.parametrize("name", CONTEXTS)
def test_contexts_follow_from_the_seed_alone(name):
    game = CONTEXTS[name]
    told = game.contexts
    rows = told.draw(5, game.rounds)
    assert rows.shape == (game.rounds,)
    assert rows.dtype.kind == "i"
    assert 0 <= rows.min() < rows.max() < len(told.X)
    np.testing.assert_array_equal(rows, told.draw(5, game.rounds))
    np.testing.assert_array_equal(rows[:100], told.draw(5, 100))  # of a shorter game
    assert np.array_equal(rows, told.draw(6, game.rounds)) == (name == "weekdays")


def test_laws_of_contexts():
    """100,000 draws against their law, and against another one."""
    n, law = 100_000, np.array([0.6, 0.3, 0.09, 0.01])
    rows = independent(1, n, law=law)
    counts = np.bincount(rows, minlength=4)
    assert agrees(by_counts(counts, law))
    assert differs(by_counts(counts, law[::-1]))
    pairs = rows[: 2 * (n // 2)].reshape(-1, 2)  # one after the other: independent
    assert agrees(by_share(np.sum((pairs == 0).all(axis=1)), n // 2, 0.36))
    assert in_turn(1, 9, count=7).tolist() == [0, 1, 2, 3, 4, 5, 6, 0, 1]


@pytest.mark.parametrize("name", CONTEXTS)
def test_what_is_told_is_true(name):
    told = CONTEXTS[name].contexts
    if told.weights is not None:
        assert told.weights.sum() == pytest.approx(1)
        np.testing.assert_array_equal(told.weights, told.draw.keywords["law"])
        assert told.order == "independent"
        kl.Contexts(told.X, told.weights)
    assert (told.draw.func is in_turn) == (told.order == "any") == (name == "weekdays")
    assert (told.weights is None) == (name in ("weekdays", "many-segments"))


# Losses.


@pytest.mark.parametrize("name", CONTEXTS)
def test_a_game_says_what_it_is(name):
    game = CONTEXTS[name]
    assert game.summary.endswith(".")
    assert bool(game.source) == (name == "flight-delays")
    assert "CC0" in game.source or name != "flight-delays"
    assert len(np.unique(game.points, axis=0)) == len(game.points)
    assert len(np.unique(game.contexts.X, axis=0)) == len(game.contexts.X)
    adversary = game.make(0)
    for t in [*range(200), game.rounds - 1]:
        loss = adversary(t, shown(game))
        assert loss.shape == (len(game.points),)
        assert 0 <= loss.min() < loss.max() <= 1
    loss[:] = 1e6  # a fresh array
    assert game.make(0)(t, shown(game)).max() <= 1


@pytest.mark.parametrize("name", KIND)
def test_kind_losses_are_the_same_whatever_the_player(name):
    game = CONTEXTS[name]
    one, two = game.make(5), game.make(5)
    assert one.oblivious
    rounds = [0, 1, 77, game.rounds // 2, game.rounds - 1]
    for t in reversed(rounds):
        one(t)
    for t in rounds:
        np.testing.assert_array_equal(one(t), two(t, mass(game, 3)))
    assert not all(np.array_equal(game.make(6)(t), two(t)) for t in rounds)


@pytest.mark.parametrize("name", ["segments", "weekdays", "cache"])
def test_losses_are_a_constant_and_bumps_of_pairs(name):
    """By the product of both kernels at the pairs of one round's context, and by those of another they are not."""
    game = CONTEXTS[name]
    rows, adversary = game.contexts.draw(2, game.rounds), game.make(2)
    contexts, actions = game.contexts.kernel(game.contexts.X), game.kernel(game.points)
    for t in (0, 500):
        pairs = adversary.pairs(t).reshape(len(contexts), -1)
        np.testing.assert_array_equal(adversary(t), pairs[rows[t]])
        A = np.column_stack([np.ones(pairs.size), np.kron(contexts, actions)])
        fit = A @ np.linalg.lstsq(A, pairs.ravel(), rcond=1e-12)[0]
        assert np.abs(fit - pairs.ravel()).max() < 1e-6
    assert np.ptp(pairs, axis=1).min() > 0.05  # some action is better than others in every context
    assert np.abs(pairs - pairs[0]).max() > 0.1  # and not the same ones in all


def test_a_rough_function_of_pairs_is_no_landscape():
    game = CONTEXTS["weekdays"]
    A = np.kron(game.contexts.kernel(game.contexts.X), game.kernel(game.points))
    rough = np.random.default_rng(0).random(len(A))
    values = np.linalg.eigvalsh(A)
    assert values[0] < 1e-9 * values[-1]
    U = np.linalg.eigh(A)[1][:, values > 1e-6 * values[-1]]
    assert np.abs(U @ (U.T @ rough) - rough).max() > 0.1


def test_segments_drift():
    """The dips travel 30 % of the prices in all, one way."""
    game = CONTEXTS["segments"]
    for seed in range(4):
        adversary = game.make(seed)
        ends = [adversary.pairs.weights[t] @ adversary.pairs.landscapes for t in (0, -1)]
        places = [end.reshape(8, 25)[[0, 4, 7]].argmin(axis=1) for end in ends]
        moved = (places[1] - places[0]) / 24
        assert np.abs(np.abs(moved) - 0.3).max() < 0.1
        assert len(set(np.sign(moved))) == 1


def test_the_largest_segment_turns():
    game = CONTEXTS["segment-turns"]
    rows, adversary = game.contexts.draw(3, game.rounds), game.make(3)
    assert not adversary.oblivious
    heights = game.kernel(game.points)
    turned = np.flatnonzero((rows == 0) & (np.arange(game.rounds) >= 1500))[:5]
    for t in turned:
        for i in (3, 20):
            np.testing.assert_allclose(adversary(t, mass(game, i)), heights[i], atol=1e-14)
    others = np.flatnonzero((rows != 0) | (np.arange(game.rounds) < 1500))
    for t in [0, 1499, *others[others >= 1500][:5]]:
        if t in others:
            np.testing.assert_array_equal(adversary(t, mass(game, 3)), adversary(t, mass(game, 20)))
    with pytest.raises(ValueError, match="`player` must be a learner"):
        adversary(turned[0])


def test_settings_of_the_cache():
    X = cache_points()
    assert X.shape == (70, 3)
    params = CACHE.decode(X)
    assert {p["method"] for p in params} == {"lru", "lfu", "random"}
    assert all(("decay" in p) == (p["method"] == "lfu") for p in params)
    np.testing.assert_array_equal(CACHE.encode(params), X)


# Recorded delays.


def test_delays_by_hand():
    counts, hours = data.delay_counts(), data.delay_hours()
    assert counts.shape == (19, 301)
    assert hours.tolist() == list(range(5, 24))
    losses = data.delay_losses([0, 7, 300], data.BUFFERS)
    assert losses.shape == (3, 31)
    assert losses[1, 1] == pytest.approx((5 + 20 * 2) / 1000)
    assert losses[1, 2] == pytest.approx(10 / 1000)
    assert losses[2, 0] == 1
    # Late flights are late: more minutes are needed in the evening.
    means = counts / counts.sum(axis=1, keepdims=True) @ data.delay_losses(range(301), data.BUFFERS)
    best = data.BUFFERS[means.argmin(axis=1)]
    assert best[1] < 40 < 70 < best[15]


def test_flights_are_drawn_from_what_was_recorded():
    """Shares of 4,000 draws in two hours are those recorded, and not each other's."""
    game = CONTEXTS["flight-delays"]
    adversary = game.make(1)
    adversary.pairs.coins = np.random.default_rng(0).random(4000)
    drawn = np.array([adversary.pairs(t) for t in range(4000)])
    in_time = drawn[:, :, 0] == 0
    counts = data.delay_counts()
    share = counts[:, 0] / counts.sum(axis=1)
    assert agrees(by_share(in_time.sum(axis=0), 4000, share))
    assert differs(by_share(in_time[:, 1].sum(), 4000, share[15]))


# The loop.


class Table(Adversary):
    """Losses of pairs, and the rows that come."""

    def __init__(self, table, rows):
        self.table, self.rows = table, rows

    def choose(self, t, player):
        return self.table[t, self.rows[t]].copy()


class Diary(ContextPlayer):
    """Plays actions in turn, and writes down what it is asked with and what it hears."""

    def __init__(self, game, seed, *, diary):
        super().__init__(game)
        self.diary, self.now = diary, 0

    def distribution_for(self, context):
        return np.eye(len(self.actions))[self.now % len(self.actions)]

    def ask(self, context=0):
        self.now += 1
        return Choice((self.now - 1) % len(self.actions), 1.0, context)

    def tell(self, decision, loss):
        self.diary.append((decision.context, decision.index, loss))


def draw_rows(seed, rounds):
    return np.random.default_rng(3).integers(3, size=40)[:rounds]


def small_losses(seed):
    return Table(np.random.default_rng(4).random((40, 3, 4)), draw_rows(seed, 40))


SMALL = Game(
    "small", "contexts", "kind", "Small.", np.arange(4.0)[:, None], kl.Gaussian(1.0), 40, small_losses,
    contexts=GameContexts(np.arange(3.0)[:, None], kl.Gaussian(1.0), draw_rows),
)  # fmt: skip


def test_regret_is_against_the_best_mapping_by_brute_force():
    """Over all 4³ mappings, at the end and along the way."""
    diary = []
    run = play_run(SMALL, PlayerSpec("d", "d", partial(Diary, diary=diary), where="contexts"))
    rows, table = draw_rows(0, 40), small_losses(0).table
    assert [context for context, *_ in diary] == rows.tolist()
    paid = np.array([loss for *_, loss in diary])
    np.testing.assert_array_equal(paid, table[np.arange(40), rows, np.arange(40) % 4])
    mappings = list(itertools.product(range(4), repeat=3))
    sums = {f: np.cumsum([table[t, rows[t], f[rows[t]]] for t in range(40)]) for f in mappings}
    best = min(sums, key=lambda f: sums[f][-1])
    assert run.best_loss == pytest.approx(sums[best][-1])
    assert run.regret == pytest.approx(paid.sum() - sums[best][-1])
    assert run.best is None
    for t, regret, running in zip(run.at, run.curve, run.running, strict=True):
        assert regret == pytest.approx(paid[:t].sum() - sums[best][t - 1])
        assert running == pytest.approx(paid[:t].sum() - min(s[t - 1] for s in sums.values()))
    fixed = min(sum(table[t, rows[t], a] for t in range(40)) for a in range(4))
    assert run.best_loss < fixed - 0.1  # a single action does worse


def test_the_best_mapping_of_a_trace():
    learner = kl.BanditExpWeights(
        kl.Points(SMALL.points), SMALL.kernel, horizon=40, loss_range=(0, 1), rng=0,
        contexts=kl.Contexts(SMALL.contexts.X, [0.5, 0.25, 0.25]), context_kernel=SMALL.contexts.kernel,
    )  # fmt: skip
    rows, table = draw_rows(0, 40), small_losses(0).table
    trace = kl.play(learner, small_losses(0), 40, contexts=rows)
    best = [table[rows == c, c].sum(axis=0).argmin() for c in range(3)]
    np.testing.assert_array_equal(trace.best, SMALL.points[best])
    again = kl.BanditExpWeights(
        kl.Points(SMALL.points), SMALL.kernel, horizon=40, loss_range=(0, 1), rng=0, batch=4,
        contexts=kl.Contexts(SMALL.contexts.X, [0.5, 0.25, 0.25]), context_kernel=SMALL.contexts.kernel,
    )  # fmt: skip
    several = kl.play(again, small_losses(0), 40, batch=4, contexts=rows)
    saved = sum(table[t, rows[t], best[rows[t]]] for t in range(40))
    assert several.losses.sum() - several.regret[-1] == pytest.approx(saved)


@pytest.mark.parametrize(
    "contexts, message",
    [
        ([0] * 39, "40, one for each round, got 39"),
        (7, "40, one for each round, got 7"),
        ("a" * 40, "40, one for each round"),
        ([-1] * 40, "rows from 0, got -1"),
        (np.zeros((40, 2, 2)), "rows, coordinates, labels or params"),
        ([None] * 40, "rows, coordinates, labels or params"),
    ],
)
def test_bad_contexts_of_a_game(contexts, message):
    learner = kl.BanditExpWeights(kl.Points(SMALL.points), SMALL.kernel, horizon=40)
    with pytest.raises(ValueError, match=f"`contexts` must be .*{message}"):
        kl.play(learner, small_losses(0), 40, contexts=contexts)


def test_contexts_are_for_points():
    learner = kl.ExpWeights(kl.Ball(2), kernel=kl.Linear(), horizon=4, rng=0)
    adversary = kl.games.Random(kl.Linear(), kl.Ball(2), rng=0)
    with pytest.raises(ValueError, match="`contexts` must be left out where the actions are no points"):  # fmt: skip
        kl.play(learner, adversary, 4, contexts=[0] * 4)


# Who plays where.


def test_players_have_their_place():
    plain, other = games()["stationary"], CONTEXTS["weekdays"]
    both = {slug for slug, spec in players().items() if spec.where == "both"}
    assert both == {"insured", "exp-weights", "uniform"}
    assert not any(spec.plays(plain) for spec in LISTENERS.values())
    run = play_run(plain, LISTENERS["gp-ucb-contexts"])
    assert (run.status, run.message) == ("cannot", "it plays games with contexts")
    run = play_run(other, players()["gp-ucb"])
    assert (run.status, run.message) == ("cannot", "it plays games without contexts")


def test_who_is_not_told_of_contexts_plays_without():
    """As it would play the same losses in a game without contexts; but its regret is against the best mapping."""
    game = replace(CONTEXTS["weekdays"], rounds=60)
    blind = replace(game, contexts=None)
    for slug in ("uniform", "exp-weights", "insured"):
        one, two = (play_run(g, players()[slug]) for g in (game, blind))
        assert one.status == two.status == "done", one.message
        assert one.loss == two.loss
        assert one.best_loss < two.best_loss


def test_only_those_who_meet_play(tmp_path):
    names = ["stationary", "weekdays", "segment-turns"]
    slugs = ["uniform", "exp3", "gp-ucb", "gp-ucb-contexts", "exp3-contexts"]
    results = arena.run(names, slugs, out=tmp_path, rounds=40, runs=2, jobs=1)
    assert len(results.runs) == 2 * (3 + 3 + 3)
    assert {entry.player for entry in results.entries.values() if entry.game == "weekdays"} == {"uniform", "gp-ucb-contexts", "exp3-contexts"}  # fmt: skip
    plain, contexts = results.parts
    assert [game.name for game in plain.games] == names[:1]
    assert [spec.name for spec in contexts.players] == ["Uniform, without contexts", "GP-UCB, contexts", "EXP3, one per context"]  # fmt: skip
    assert [game.name for game in picture_games(results)] == names[:1]
    ranked = standings(results, list(contexts.games))
    assert {s.player.slug for s in ranked} == {"uniform", "gp-ucb-contexts", "exp3-contexts"}
    assert all(set(s.shares) == set(names[1:]) for s in ranked)
    written = json.loads((tmp_path / "arena.json").read_text("utf-8"))
    assert [game["contexts"] for game in written["games"]] == [None, 7, 8]
    assert [spec["where"] for spec in written["players"]] == ["both", "plain", "plain", "contexts", "contexts"]  # fmt: skip
    tables = publish.texts(results)["results"]
    assert "| Uniform, without contexts |" in tables.split("### In games with contexts\n")[1]
    assert remarks(results, "contexts") == [
        "The law of contexts is not told in weekdays.",
        "Contexts come in an order of their own in weekdays.",
    ]
    assert remarks(results, "reported") == []
    alone = arena.run(names[1:], slugs, out=tmp_path, rounds=40, runs=2, jobs=1)
    assert [spec.slug for spec in alone.players] == ["uniform", "gp-ucb-contexts", "exp3-contexts"]
    assert len(alone.parts) == 1
    with pytest.raises(ValueError, match="`players` must have one for these games"):
        arena.run(["weekdays"], ["exp3"], out=tmp_path, rounds=40)


@pytest.mark.slow
def test_the_page_has_both_parts(tmp_path):
    names, slugs = ["stationary", "weekdays"], ["uniform", "exp3", "gp-ucb-contexts"]
    results = arena.run(names, slugs, out=tmp_path, rounds=40, runs=1, jobs=1)
    page = arena.write_page(results, tmp_path)[0].read_text("utf-8")
    assert "7 contexts</td>" in page
    assert "contexts Periodic" in page
    assert "Uniform, without contexts" in page
    assert page.count("<th") > 20
    alone = arena.run(names[1:], slugs, out=tmp_path, rounds=40, runs=1, jobs=1)
    assert "EXP3" not in arena.write_page(alone, tmp_path)[0].read_text("utf-8")


# Players.

MARKS = {
    slug: [pytest.mark.slow] if slug.startswith(("mabwiser", "river", "coba", "insured", "exp-weights")) else []
    for slug in LISTENERS
}  # fmt: skip


def make(slug, game, seed=0):
    spec = LISTENERS[slug]
    if spec.package and importlib.util.find_spec(spec.package) is None:
        pytest.skip(f"{spec.package} is not installed")
    return spec.make(game, seed)


def play(player, game, rounds, *, look=False):
    adversary, rows, played = game.make(1), game.contexts.draw(1, game.rounds).tolist(), []
    for t in range(rounds):
        if look:
            p = player.distribution_for(rows[t])
            assert p.shape == (len(game.points),)
            assert p.min() >= 0
            assert p.sum() == pytest.approx(1, abs=1e-9)
        decision = player.ask(context=rows[t])
        assert not look or p[decision.index] > 0 or decision.probability is None
        player.tell(decision, float(adversary(t)[decision.index]))
        played.append(decision.index)
    return played


@pytest.mark.filterwarnings("ignore")  # of other packages
@pytest.mark.parametrize("slug", [pytest.param(slug, marks=MARKS[slug]) for slug in LISTENERS])
def test_every_player_plays(slug):
    """A seed decides everything, and adversaries that look change nothing."""
    game = replace(CONTEXTS["weekdays"], rounds=30)
    player = make(slug, game)
    np.testing.assert_array_equal(player.actions, game.points)
    before = np.random.get_state()  # noqa: NPY002
    played = play(player, game, 30)
    assert len(set(played)) > 1
    assert play(make(slug, game), game, 30, look=True) == played
    np.testing.assert_array_equal(before[1], np.random.get_state()[1])  # noqa: NPY002


@pytest.mark.parametrize("slug", [slug for slug, spec in LISTENERS.items() if spec.package])
def test_summaries_say_what_a_peer_is_shown(slug):
    assert any(word in LISTENERS[slug].summary for word in ("context", "likewise"))
    assert LISTENERS[slug].needs == ("range",)


def test_pair_features_have_the_product_of_the_kernels_plus_one():
    game = CONTEXTS["weekdays"]
    Phi = pair_features(game)
    gram = np.kron(game.contexts.kernel(game.contexts.X), game.kernel(game.points))
    missed = np.abs(Phi @ Phi.T - 1 - gram)
    assert missed.max() < 1e-2
    assert np.linalg.eigvalsh(gram)[-1] * 1e-4 > missed.max()
    pairs = Pairs(game.contexts.X, game.contexts.kernel, game.points, game.kernel)
    np.testing.assert_allclose(pairs.bumps, gram, atol=1e-12)
    assert pairs.points.shape == (175, 2)
    np.testing.assert_array_equal(pairs.points[26], [1.0, game.points[1, 0]])


def test_contextual_gp_ucb_has_the_posterior_of_the_gram_matrix():
    game = CONTEXTS["weekdays"]
    player, adversary = GPUCB(game), game.make(1)
    rows = game.contexts.draw(1, 40).tolist()
    N, K = len(game.points), pair_features(game)
    K = K @ K.T
    heard, losses = [], []
    for t, c in enumerate(rows):
        here = slice(N * c, N * (c + 1))
        mean, covariance = np.zeros(len(K)), K
        if heard:
            noisy = K[np.ix_(heard, heard)] + RIDGE * np.eye(len(heard))
            mean = K[:, heard] @ np.linalg.solve(noisy, np.array(losses) - 0.5)
            covariance = K - K[:, heard] @ np.linalg.solve(noisy, K[heard])
        bound = (mean - np.sqrt(np.diag(covariance)))[here]
        decision = player.ask(context=c)
        assert bound[decision.index] <= bound.min() + 1e-6
        assert decision.context == c
        losses.append(float(adversary(t)[decision.index]))
        heard.append(N * c + decision.index)
        player.tell(decision, losses[-1])
    assert len({pair // N for pair in heard}) == 7
    assert isinstance(player.forecaster, Regression)


def test_one_player_for_each_context():
    """Each hears of its own rounds alone, and is tuned for so many as are to be expected."""
    game = CONTEXTS["segments"]
    player = PerContext(game, 0, kind=Exp3)
    assert len(player.players) == 8
    rounds = np.rint(3000 * game.contexts.weights)
    for one, n in zip(player.players, rounds, strict=True):
        N = len(game.points)
        assert one.exploration == pytest.approx(min(1, math.sqrt(N * math.log(N) / ((math.e - 1) * n))))  # fmt: skip
    before = [one.log_weights.copy() for one in player.players]
    player.tell(player.ask(context=2), 0.1)
    changed = [not np.array_equal(one.log_weights, old) for one, old in zip(player.players, before, strict=True)]  # fmt: skip
    assert changed == [k == 2 for k in range(8)]
    assert player.distribution.sum() == pytest.approx(1)


@pytest.mark.parametrize("slug", ["gp-ucb-contexts", "gp-ucb-discounted-contexts"])
def test_who_hears_of_contexts_does_better(slug):
    game = replace(CONTEXTS["segments"], rounds=400)
    heard, blind = (play_run(game, players()[one]) for one in (slug, "uniform"))
    assert heard.regret < 0.5 * blind.regret


@pytest.mark.filterwarnings("ignore")
def test_vowpal_wabbit_as_its_documentation_calls_it():
    """One text a round, where the adapter parses the actions once for each context."""
    vw = pytest.importorskip("vowpalwabbit")
    game = replace(CONTEXTS["weekdays"], rounds=30)
    player = make("vowpal-wabbit-squarecb-contexts", game)
    plain = vw.Workspace("--cb_explore_adf --squarecb --gamma_scale 100 -q ca --quiet")
    rows, adversary = game.contexts.draw(1, 30).tolist(), game.make(1)
    lines = [f"|a n{k}" for k in range(len(game.points))]
    for t, c in enumerate(rows):
        p = np.array(plain.predict([f"shared |c n{c}", *lines]))
        np.testing.assert_allclose(player.distribution_for(c), p / p.sum(), rtol=1e-6)
        decision = player.ask(context=c)
        loss = float(adversary(t)[decision.index])
        told = list(lines)
        told[decision.index] = f"0:{loss!r}:{decision.probability!r} {told[decision.index]}"
        plain.learn([f"shared |c n{c}", *told])
        player.tell(decision, loss)
    assert np.ptp(player.distribution_for(c)) > 0.01


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_mabwisers_linucb_by_hand():
    """A ridge regression for each action, and the largest mean plus √(x'A⁻¹x)."""
    pytest.importorskip("mabwiser")
    game = replace(CONTEXTS["weekdays"], rounds=60)
    player, adversary = make("mabwiser-linucb", game), game.make(1)
    C, N = len(game.contexts.X), len(game.points)
    A, b = np.tile(np.eye(C), (N, 1, 1)), np.zeros((N, C))
    for t, c in enumerate(game.contexts.draw(1, 60).tolist()):
        x = np.eye(C)[c]
        bound = [x @ np.linalg.solve(A[a], b[a]) + math.sqrt(x @ np.linalg.solve(A[a], x)) for a in range(N)]  # fmt: skip
        decision = player.ask(context=c)
        assert bound[decision.index] == pytest.approx(max(bound))
        loss = float(adversary(t)[decision.index])
        A[decision.index] += np.outer(x, x)
        b[decision.index] += (1 - loss) * x
        player.tell(decision, loss)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_what_adversaries_see_of_mabwisers_lints(monkeypatch):
    """Draws of the player follow the law that is computed from its state, and not another one."""
    pytest.importorskip("mabwiser")
    game = replace(SMALL, rounds=60)
    player = make("mabwiser-lints", game)
    play(player, game, 40)
    monkeypatch.setattr(peers, "DRAWS", 200_000)
    law = player.distribution_for(1)
    assert law.max() > 1.5 / 4
    check_law([player.ask(context=1).index for _ in range(1500)], law)
