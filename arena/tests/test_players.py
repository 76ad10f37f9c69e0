"""Players of the arena: one contract for all, laws against draws, EXP3 by enumeration, Gaussian processes by Gram matrices."""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys

import numpy as np
import pytest
import scipy.special

import koloss as kl
from arena import baselines
from arena.base import Choice, Game
from arena.baselines import GPUCB, Exp3, GPThompson, features
from arena.peers import PEERS
from arena.players import players
from tests.support.statistics import agrees, by_counts, differs

SPECS = {slug: spec for slug, spec in players().items() if spec.where != "contexts"}
POINTS = np.random.default_rng(5).uniform(-1, 1, size=(12, 2))

RIDGE = 0.05

peers_may_warn = pytest.mark.filterwarnings("ignore")


def marked(slugs):
    """Warnings of other packages are not ours to repair; our own are errors."""
    return [pytest.param(s, marks=peers_may_warn if SPECS[s].package else ()) for s in slugs]


def make_game(points=POINTS, kernel=None, rounds=60):
    """A valley with noise, the same for everybody."""

    def make(seed):
        noise = np.random.default_rng(seed).uniform(-0.1, 0.1, size=(rounds, len(points)))
        valley = 0.1 + 0.8 * np.clip(np.sum((points - points[3]) ** 2, axis=1) / 4, 0, 1)
        return kl.games.Replay(valley + noise)

    return Game("valley", "held-out", "kind", "", points, kernel or kl.Gaussian(0.5), rounds, make)


def make(slug, game, seed=0):
    """The player, or a skip where what it needs is not there."""
    spec = SPECS[slug]
    if spec.package and importlib.util.find_spec(spec.package) is None:
        pytest.skip(f"{spec.package} is not installed")
    return spec.make(game, seed)


def play(player, game, rounds, *, full=False, look=False):
    """Indices that were played."""
    adversary, played = game.make(1), []
    for t in range(rounds):
        if look:
            p = player.distribution
            assert p.shape == (len(game.points),)
            assert p.min() >= 0
            assert p.sum() == pytest.approx(1, abs=1e-9)
        decision = player.ask()
        if look:
            assert p[decision.index] > 0 or isinstance(player, GPThompson)
        losses = adversary(t)
        player.tell(decision, losses if full else float(losses[decision.index]))
        played.append(decision.index)
    return played


# The contract.


@pytest.mark.parametrize("slug", marked(SPECS))
def test_every_player_plays(slug):
    game, full = make_game(), SPECS[slug].full
    player = make(slug, game)
    before = np.random.get_state()  # noqa: NPY002
    played = play(player, game, 30, full=full)
    assert isinstance(player.actions, np.ndarray)
    np.testing.assert_array_equal(player.actions, POINTS)
    assert all(isinstance(index, int) and 0 <= index < len(POINTS) for index in played)
    # A seed decides everything, adversaries that look change nothing, and nothing global is touched.
    assert play(make(slug, game), game, 30, full=full, look=True) == played
    after = np.random.get_state()  # noqa: NPY002
    np.testing.assert_array_equal(before[1], after[1])
    assert before[2:] == after[2:]


@pytest.mark.parametrize("slug", ["exp3", "uniform", "gp-thompson", "exp-weights"])
def test_seeds_differ(slug):
    game = make_game()
    first, second = (play(make(slug, game, seed), game, 30) for seed in (0, 1))
    assert first != second


def test_specs():
    assert list(SPECS)[:3] == ["insured", "insured-thompson", "insured-anytime"]
    assert all(slug == spec.slug for slug, spec in SPECS.items())
    assert all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", slug) for slug in SPECS)
    assert len({spec.name for spec in SPECS.values()}) == len(SPECS)
    assert all(spec.summary for spec in SPECS.values())
    assert [slug for slug, spec in SPECS.items() if spec.full] == ["noregret-mwu"]
    assert {slug for slug, spec in SPECS.items() if spec.package} == {s.slug for s in PEERS}
    assert "latest 200 observations" in SPECS["botorch-ucb"].summary


@pytest.mark.parametrize("slug", marked(slug for slug, spec in SPECS.items() if not spec.full))
def test_every_player_hears_late_losses_or_says_that_it_cannot(slug):
    """Three losses at once after every third decision, in the reverse order."""
    game, adversary = make_game(), make_game().make(1)
    player, open_ = make(slug, game), []
    if not SPECS[slug].late:
        assert slug.startswith("pyxab")
        return
    for t in range(30):
        open_.append((player.ask(), adversary(t)))
        if t % 3 == 2:
            while open_:
                decision, losses = open_.pop()
                player.tell(decision, float(losses[decision.index]))
    assert player.distribution.sum() == pytest.approx(1)


# Laws.


def p_value(counts, law):
    """Of Pearson's test, with actions expected fewer than five times put together."""
    assert counts[law == 0].sum() == 0
    expected = counts.sum() * law
    rare = expected < 5
    observed = np.append(counts[~rare], counts[rare].sum())
    expected = np.append(expected[~rare], expected[rare].sum())
    keep = expected > 0
    return by_counts(observed[keep], expected[keep])


def check_law(indices, law):
    """The draws follow the law, and would not be taken for draws from another one."""
    counts = np.bincount(indices, minlength=len(law))
    assert agrees(p_value(counts, law))
    other = 0.7 * law
    other[np.argmin(law)] += 0.3
    assert differs(p_value(counts, other))


RANDOMISED = [
    "exp-weights", "exp3", "uniform", "river-exp3", "vowpal-wabbit-squarecb", "coba-corral", "gittins", "noregret-mwu",
]  # fmt: skip


@pytest.mark.parametrize("slug", marked(RANDOMISED))
def test_draws_follow_the_stated_law(slug):
    game = make_game()
    player = make(slug, game)
    play(player, game, 40, full=SPECS[slug].full)
    law = np.array(player.distribution)
    check_law([player.ask().index for _ in range(3000)], law)


def posterior(kernel, heard, losses):
    """Mean and covariance of all losses, less 1/2, by the Gram matrix."""
    K = kernel(POINTS) + 1
    if not heard:
        return np.zeros(len(K)), K
    noisy = K[np.ix_(heard, heard)] + RIDGE * np.eye(len(heard))
    mean = K[:, heard] @ np.linalg.solve(noisy, np.array(losses) - 0.5)
    return mean, K - K[:, heard] @ np.linalg.solve(noisy, K[heard])


@pytest.mark.parametrize("scale", [1.0, 0.3])
def test_draws_of_thompson_sampling_follow_the_posterior(scale, monkeypatch):
    game = make_game()
    player, adversary = GPThompson(game, 0, scale=scale), game.make(1)
    heard = play(player, game, 8)
    losses = [adversary(t)[index] for t, index in enumerate(heard)]
    mean, covariance = posterior(game.kernel, heard, losses)
    rng = np.random.default_rng(1)
    draws = rng.multivariate_normal(mean, scale**2 * covariance, 400_000, method="eigh")
    law = np.bincount(np.argmin(draws, axis=1), minlength=len(POINTS)) + 1.0
    law /= law.sum()
    check_law([player.ask().index for _ in range(3000)], law)
    monkeypatch.setattr(baselines, "DRAWS", 3000)
    seen = np.rint(3000 * player.distribution).astype(int)
    check_law(np.repeat(np.arange(len(POINTS)), seen), law)


def test_what_adversaries_see_of_thompson_sampling():
    player = GPThompson(make_game(), 0)
    seen = player.distribution
    np.testing.assert_array_equal(seen * baselines.DRAWS, np.rint(seen * baselines.DRAWS))
    np.testing.assert_array_equal(player.distribution, seen)  # until something is heard
    player.tell(Choice(0, None), 0.0)
    assert not np.array_equal(player.distribution, seen)


# EXP3.


def test_exp3_estimates_are_unbiased_by_enumeration():
    game = make_game()
    losses, mean = np.linspace(0, 1, len(POINTS)), np.zeros(len(POINTS))
    for index in range(len(POINTS)):
        player = Exp3(game, 0)
        play(player, game, 20)
        p, before = player.distribution, player.log_weights.copy()
        player.tell(Choice(index, p[index]), losses[index])
        step = (player.log_weights - before) * len(POINTS) / player.exploration
        assert np.count_nonzero(step) <= 1
        mean += p[index] * step
    assert np.ptp(p) > 0.02  # a law that has moved
    np.testing.assert_allclose(mean, 1 - losses, atol=1e-9)


def test_exp3_follows_the_box():
    game = make_game()
    player = Exp3(game, 0)
    N, n = len(POINTS), game.rounds
    gamma = np.sqrt(N * np.log(N) / ((np.e - 1) * n))
    assert gamma < 1
    weights, adversary = np.ones(N), game.make(0)
    for t in range(n):
        p = (1 - gamma) * weights / weights.sum() + gamma / N
        np.testing.assert_allclose(player.distribution, p, rtol=1e-10)
        decision = player.ask()
        loss = adversary(t)[decision.index]
        weights[decision.index] *= np.exp(gamma * (1 - loss) / p[decision.index] / N)
        player.tell(decision, loss)
    assert Exp3(make_game(rounds=3), 0).exploration == 1


def test_exp3_does_not_overflow():
    player = Exp3(make_game(rounds=10_000), 0)
    player.log_weights[4] = 1e6
    gamma, N = player.exploration, len(POINTS)
    expected = np.full(N, gamma / N)
    expected[4] += 1 - gamma
    np.testing.assert_allclose(player.distribution, expected, rtol=1e-12)


# Gaussian processes.

KERNELS = [kl.Gaussian(0.5), kl.Matern(1.5, 0.5), kl.Quadratic(), kl.Polynomial(9), kl.Linear()]


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_features_have_the_kernel_plus_one(kernel):
    Phi = features(make_game(kernel=kernel))
    gram = kernel(POINTS)
    np.testing.assert_allclose(Phi @ Phi.T - 1, gram, atol=2e-6 * gram.max())


@pytest.mark.parametrize("kernel", [kl.Gaussian(0.5), kl.Quadratic()], ids=repr)
def test_gp_ucb_has_the_posterior_of_the_gram_matrix(kernel):
    game = make_game(kernel=kernel)
    player, adversary = GPUCB(game), game.make(0)
    heard, losses = [], []
    for t in range(40):
        mean, covariance = posterior(kernel, heard, losses)
        deviation = np.sqrt(np.diag(covariance))
        np.testing.assert_allclose(player.forecaster.mean, mean, atol=1e-4)
        np.testing.assert_allclose(player.forecaster.deviation, deviation, atol=1e-4)
        decision, bound = player.ask(), mean - deviation
        assert bound[decision.index] <= bound.min() + 2e-4
        assert player.distribution[decision.index] == 1
        losses.append(adversary(t)[decision.index])
        heard.append(decision.index)
        player.tell(decision, losses[-1])
    assert len(set(heard)) > 3


def test_discounts():
    game = make_game()
    for slug in ("gp-ucb", "gp-thompson"):
        assert SPECS[slug].make(game, 0).forecaster.discount == 1.0
        assert SPECS[f"{slug}-discounted"].make(game, 0).forecaster.discount == 0.98
    # Where a deviation never shrinks, a smaller part of it explores enough.
    assert SPECS["gp-ucb"].make(game, 0).width == SPECS["gp-thompson"].make(game, 0).scale == 1
    assert SPECS["gp-ucb-discounted"].make(game, 0).width == 0.3
    assert SPECS["gp-thompson-discounted"].make(game, 0).scale == 0.3


@pytest.mark.parametrize("slug", [slug for slug in SPECS if slug.startswith("gp-")])
def test_gaussian_processes_find_the_valley(slug):
    game = make_game(rounds=200)
    paid = {
        name: np.mean([game.make(1)(t)[i] for t, i in enumerate(play(make(name, game), game, 200))])
        for name in (slug, "uniform")
    }
    assert paid[slug] < 0.6 * paid["uniform"]


# Peers.


@pytest.mark.parametrize("spec", PEERS, ids=lambda spec: spec.slug)
def test_a_missing_package_is_named(spec, monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == spec.package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, spec.package, None)
    expected = f"this player needs {spec.package}: pip install --group arena"
    with pytest.raises(ImportError, match=re.escape(expected)):
        spec.make(make_game(), 0)


def test_a_broken_package_says_why(tmp_path, monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == "river"]:
        monkeypatch.delitem(sys.modules, name)
    folder = tmp_path / "river"
    folder.mkdir()
    (folder / "__init__.py").write_text("from scipy.special import what_is_gone")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ImportError, match=r"river, which cannot be imported.*what_is_gone"):
        SPECS["river-exp3"].make(make_game(), 0)


@peers_may_warn
def test_vowpal_wabbit_as_its_documentation_calls_it():
    # One text a round, where the adapter parses the actions once.
    game = make_game()
    player = make("vowpal-wabbit-squarecb", game)
    vw = pytest.importorskip("vowpalwabbit")
    plain = vw.Workspace("--cb_explore_adf --squarecb --gamma_scale 100 -q aa --quiet")
    lines = ["|a " + " ".join(f"x{j}:{x!r}" for j, x in enumerate(row)) for row in POINTS.tolist()]
    adversary = game.make(0)
    for t in range(30):
        p = np.array(plain.predict(["shared |", *lines]))
        np.testing.assert_allclose(player.distribution, p / p.sum(), rtol=1e-12)
        decision = player.ask()
        loss = float(adversary(t)[decision.index])
        told = list(lines)
        told[decision.index] = f"0:{loss!r}:{decision.probability!r} {told[decision.index]}"
        plain.learn(["shared |", *told])
        player.tell(decision, loss)
    assert np.ptp(player.distribution) > 0.05


@peers_may_warn
def test_hct_plays_the_action_nearest_to_its_point():
    game = make_game()
    player = make("pyxab-hct", game)
    play(player, game, 30)
    point = np.array(player._algorithm.pull(31))
    nearest = np.argmin(np.sum((POINTS - point) ** 2, axis=1))
    assert player.ask().index == nearest
    assert (POINTS.min(axis=0) <= point).all()
    assert (point <= POINTS.max(axis=0)).all()


@peers_may_warn
def test_multiplicative_weights_of_all_losses():
    game = make_game()
    player, adversary = make("noregret-mwu", game), game.make(0)
    total, rate = np.zeros(len(POINTS)), np.sqrt(8 * np.log(len(POINTS)) / game.rounds)
    for t in range(30):
        law = scipy.special.softmax(-rate * total)
        np.testing.assert_allclose(player.distribution, law, rtol=1e-9)
        player.tell(player.ask(), adversary(t))
        total += adversary(t)


@peers_may_warn
def test_botorch_keeps_the_latest_observations(monkeypatch):
    from arena import peers

    game = make_game()
    player = make("botorch-ucb", game)
    monkeypatch.setattr(peers, "WINDOW", 10)
    played = play(player, game, 25)
    assert [index for index, _ in player._heard] == played[-10:]
    assert player._due == 32  # fitted after 1, 2, 4, 8 and 16 rounds


@peers_may_warn
def test_late_losses_are_of_the_decision_they_belong_to():
    """LinUCB that is told two losses in either order has learned the same weights."""
    game, weights = make_game(), []
    for order in ((0, 1), (1, 0)):
        player = make("coba-linucb", game)
        decisions = [player.ask(), player.ask()]
        for k in order:
            player.tell(decisions[k], (0.2, 0.9)[k])
        weights.append(player._learner._theta)
    np.testing.assert_allclose(weights[0], weights[1], atol=1e-9)
    assert np.abs(weights[0]).max() > 0.01


@peers_may_warn
def test_propensities_of_gittins_are_its_law():
    game = make_game()
    player = make("gittins", game)
    play(player, game, 40)
    for _ in range(50):
        law = player.distribution
        decision = player.ask()
        assert decision.probability == pytest.approx(law[decision.index], abs=1e-12)
        player.tell(decision, 0.5)
    assert law.max() > 0.9


@peers_may_warn
def test_vhct_is_another_tree():
    game = make_game()
    trees = [make(f"pyxab-{name}", game)._algorithm for name in ("hct", "vhct")]
    assert [type(tree).__name__ for tree in trees] == ["HCT", "VHCT"]


@peers_may_warn
def test_river_ucb_by_hand():
    """Every arm once, then the largest mean reward plus √(2 log n / count)."""
    game = make_game()
    player, adversary = make("river-ucb", game), game.make(1)
    sums, counts = np.zeros(len(POINTS)), np.zeros(len(POINTS))
    for t in range(60):
        index = player.ask().index
        if t < len(POINTS):
            assert counts[index] == 0
        else:
            bound = sums / counts + np.sqrt(2 * np.log(t) / counts)
            assert bound[index] == pytest.approx(bound.max())
        loss = float(adversary(t)[index])
        sums[index] += 1 - loss
        counts[index] += 1
        player.tell(Choice(index, 1.0), loss)
