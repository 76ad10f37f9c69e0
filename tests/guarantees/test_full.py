"""The bounds of full information: constants of theory A2, and that the tuned parameters are the best ones."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import koloss as kl
from koloss.guarantees.full import FullProblem, best_shrink, tune
from koloss.guarantees.paper import exp_weights_theorem
from tests.support.clauses import marks
from tests.support.statistics import agrees, by_excess, by_mean, differs


def nothing(delta):
    return 0.0


@pytest.mark.parametrize("N, n, width", [(2, 10, 1.0), (1000, 10_000, 0.5), (50, 7, 3.0)])
def test_finite_set_is_theorem_a2(N, n, width):
    game = FullProblem(n, width, math.log(N))
    eta = tune(game, nothing)
    assert eta == pytest.approx(math.sqrt(8 * math.log(N) / n) / width)
    total = sum(game.terms(eta, 1.0, nothing, n).values())
    assert total == pytest.approx(width * math.sqrt(n / 2 * math.log(N)))


@pytest.mark.parametrize("d, n", [(1, 100), (2, 1000), (10, 10**5)])
def test_compact_set_is_no_worse_than_theorem_a2(d, n):
    """δ = 1/n gives the printed form ρ√(nd log n/2) + ΛD; ours minimises over δ."""
    rho, slope = 1.7, 4.0
    game = FullProblem(n, rho, 0.0, dimension=d)

    def bound(eta, delta):
        return sum(game.terms(eta, delta, lambda x: slope * x, n).values())

    eta = tune(game, lambda delta: slope * delta)
    total = bound(eta, best_shrink(lambda delta: bound(eta, delta), d))
    assert total <= rho * math.sqrt(n * d * math.log(n) / 2) + slope + 1e-9
    # and no pair (η, δ) of a grid does better
    etas, deltas = eta * np.exp(np.linspace(-2, 2, 81)), np.exp(np.linspace(-20, 0, 201))
    assert min(bound(e, x) for e in etas for x in deltas) >= total * (1 - 1e-6)


def test_quadratics_on_the_ball_have_the_constants_of_theory():
    """R_n ≤ 1.5 G √(nd log n) + 2√5 G for ‖A‖² + |b|² ≤ G²."""
    for d, n in itertools.product((2, 5, 20), (100, 10_000)):
        promise = kl.ExpWeights(kl.Ball(d), kl.Quadratic(), horizon=n, loss_norm=2.0).guarantee()
        assert promise.total <= 1.5 * 2 * math.sqrt(n * d * math.log(n)) + 2 * math.sqrt(5) * 2
        assert promise.valid


def test_delay_is_a_factor():
    """Losses that come after d others: η smaller and the bound larger by √(1 + 2d)."""
    now, late = (FullProblem(1000, 1.0, 3.0, delay=d) for d in (0, 4))
    total = [sum(g.terms(tune(g, nothing), 1.0, nothing, 1000).values()) for g in (now, late)]
    assert total[1] / total[0] == pytest.approx(3.0)


@pytest.mark.parametrize("d", [0, 3])
def test_anytime_bound_covers_its_own_rates(d):
    """ρ²/8 Σ η_t + E/η_n, summed one by one, is below the closed form; η_t falls."""
    game = FullProblem(1, 1.3, 2.0, dimension=d)
    for n in (1, 2, 10, 1000):
        rates = [game.anytime_rate(t) for t in range(1, n + 1)]
        assert all(a >= b for a, b in itertools.pairwise(rates))
        # what late losses need
        assert all((t - 1) * (rates[t - 1] - rates[t]) <= rates[t - 1] / 2 for t in range(1, n))
        terms = game.terms(None, 1 / (n + 1), nothing, n)
        assert 1.3**2 / 8 * sum(rates) <= terms["variance"] * (1 + 1e-12)
        assert terms["prior"] == pytest.approx(game.complexity(1 / (n + 1)) / rates[-1])


def test_anytime_is_root_two_times_the_horizon():
    game = FullProblem(500, 1.0, 3.0)
    fixed = sum(game.terms(tune(game, nothing), 1.0, nothing, 500).values())
    anytime = sum(game.terms(None, 1.0, nothing, 500).values())
    assert anytime / fixed == pytest.approx(math.sqrt(2))


def test_the_papers_theorem_is_false_where_the_volume_is_small():
    """Theory A2: on [0, 1] with ℓ = ±a the theorem sets η = 0 and claims that there is no regret."""
    said = exp_weights_theorem(1000, 0.0, 1.0)
    assert said["learning_rate"] == said["bound"] == 0
    learner = kl.ExpWeights(kl.Box([0.0], [1.0]), kl.Linear(), horizon=1000, tuning="paper")
    printed = learner.guarantee()
    assert printed.total == 0
    assert not printed.valid
    assert marks(printed)["volume"] is False
    rng, regret = np.random.default_rng(1), []
    for _ in range(40):
        w = rng.choice([-1.0, 1.0], size=1000)
        regret.append(0.5 * w.sum() - min(w.sum(), 0.0))  # η = 0 plays uniformly: mean action 1/2
    assert agrees(by_mean(regret, math.sqrt(1000 / (2 * math.pi))))
    assert differs(by_excess(regret, 0.0))
    assert learner.guarantee(printed=False).total == 1000 * learner.game.width


def test_the_papers_theorem_where_it_says_something():
    learner = kl.ExpWeights(kl.Ball(2, 3.0), kl.Gaussian(1.0), horizon=400, tuning="paper")
    volume, c = 9 * math.pi, math.e - 2
    assert learner.learning_rate == pytest.approx(math.sqrt(math.log(volume) / c / 400))
    stated = math.sqrt(c * math.log(volume) * 400)
    assert learner.guarantee().terms["regret"] == pytest.approx(stated)
    assert not learner.guarantee().proved
    assert learner.guarantee(printed=False).proved
    with pytest.raises(ValueError, match="`printed` must be left out"):
        kl.ExpWeights(kl.Ball(1), kernel=kl.Linear(), horizon=3).guarantee(printed=True)
