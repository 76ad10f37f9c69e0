"""What is proved of Algorithms 3 and 4 alike: regret, and late losses.

Regret here has no randomness: the loss of a round is ⟨w_t, X_t⟩, the mean over the player's coin.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

import koloss as kl
from tests.support.streams import GAMES, bump, coefficients, on_sphere, quadratics, regret

GRADIENT, LEADER = kl.ConditionalGradient, kl.FollowTheRegularizedLeader
each = pytest.mark.parametrize("kind", [GRADIENT, LEADER], ids=lambda kind: kind.__name__)


@each
@pytest.mark.parametrize("bandwidth", [0.1, 1.0, 30.0])
def test_gaussians_on_points_stay_within_the_bound(kind, bandwidth):
    kernel, rng, n = kl.Gaussian(bandwidth), np.random.default_rng(0), 200
    points = kl.Points(np.vstack([rng.random((30, 2)), np.full((3, 2), 0.5)]))
    learner = kind(points, kernel, horizon=n, rng=0)
    assert regret(learner, [bump(rng, kernel) for _ in range(n)]) <= learner.guarantee().total
    if kind is LEADER:  # approximate projections cost a thousandth, as the tolerance has it
        assert learner.guarantee().terms["projection"] <= 1.001e-3 * math.sqrt(n)


@pytest.mark.slow
@pytest.mark.parametrize("game", GAMES)
@pytest.mark.parametrize(
    "d, r, n", [(1, 1.0, 60), (2, 1.0, 60), (2, 0.3, 60), (5, 2.0, 60), (3, 1e3, 2), (1, 1e-3, 5)]
)
@pytest.mark.parametrize("kind, tuning", [(GRADIENT, "sharp"), (GRADIENT, "paper"), (LEADER, "sharp")])  # fmt: skip
def test_quadratics_on_the_ball_stay_within_the_bound(kind, tuning, d, r, n, game):
    """Also in games so short that the share of a new atom is capped at 1."""
    learner = kind(kl.Ball(d, r), kl.Quadratic(), horizon=n, loss_norm=1.0, tuning=tuning, rng=0)
    suffered, promise = regret(learner, quadratics(game, n, d)), learner.guarantee(printed=False)
    assert promise.valid
    assert suffered <= promise.total * (1 + 1e-12)
    if kind is LEADER:
        assert promise.total <= math.sqrt((r**4 + r**2) * n) * 1.001


@each
@pytest.mark.parametrize("late", [1, 5, 40])
@pytest.mark.parametrize("delay", [0, 5])
def test_late_losses_stay_within_the_bound(kind, late, delay):
    n, said = 100, {"delay": delay} if kind is LEADER else {}
    for game in (*GAMES, "constant"):
        learner = kind(kl.Ball(2), kl.Quadratic(), horizon=n, loss_norm=1.0, rng=0, **said)
        suffered, promise = regret(learner, quadratics(game, n, 2), late), learner.guarantee()
        assert promise.terms["delay"] > 0
        assert suffered <= promise.total
        assert learner.diagnostics.late == n - 1


@pytest.mark.parametrize(
    "kind, actions, n, first",
    [(GRADIENT, kl.Points([[-1.0], [1.0]]), 3000, 900), (LEADER, kl.Ball(1), 400, 20)],
)
def test_an_adversary_that_is_late_on_purpose_needs_the_delay_term(kind, actions, n, first):
    """Losses e₁ send the player to one end; then -e₁, told only at the end, where the player is at its worst."""
    learner = kind(actions, kl.Linear(), horizon=n, loss_norm=1.0, rng=0)
    up, down, paid = kl.LinearLoss([1.0]), kl.LinearLoss([-1.0]), 0.0
    for _ in range(first):
        paid += up.inner(learner.mean)
        learner.tell(learner.ask(), up)
    held = learner.ask(n - first)
    paid += (n - first) * down.inner(learner.mean)
    assert learner.guarantee().terms["unheard"] == pytest.approx(2 * (n - first))
    learner.tell(held, [down] * (n - first))
    suffered, terms = paid + n - 2 * first, learner.guarantee().terms
    without = sum(terms.values()) - terms["delay"]
    assert without < suffered <= sum(terms.values())
    if kind is LEADER:
        assert 10 * without < suffered
        assert sum(terms.values()) < 1.02 * suffered


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind, actions, game, least, most",
    [
        (GRADIENT, kl.Points([[-1.0], [1.0]]), "constant", 0.7, 0.75),
        (GRADIENT, kl.Ball(100), "random", 0.4, 0.75),
        (LEADER, on_sphere(12, 4), "constant", 0.4, 0.5),
        (LEADER, on_sphere(12, 4), "alternating", 0.4, 0.5),
        (LEADER, kl.Ball(100), "random", 0.4, 0.5),
    ],
)
def test_regret_grows_no_faster_than_theory(kind, actions, game, least, most):
    """Exponents of the regret between 100 and 2,000 rounds, by least squares: at most 3/4 and 1/2.

    The slack is three standard errors of the fit. Constant and alternating losses on points leave no room for chance;
    random ones are played in many dimensions, where there is little. The games of the conditional gradient are chosen:
    with a constant loss on two points the leader arrives at the better one in all of them. Where it does not arrive,
    such horizons show the exponent of a beginning, which is larger: 0.78 to 0.83 were seen with constant, biased and
    switching losses on 12 and 30 points, and 0.75 to 0.77 between 30,000 and 100,000 rounds, all within the bound.
    """
    horizons, suffered = [100, 450, 2000], []
    for n in horizons:
        rng, m = np.random.default_rng(n), actions.dimension
        learner = kind(actions, kl.Linear(), horizon=n, loss_norm=1.0, rng=0)
        losses = [kl.LinearLoss(coefficients(game, t, n, m, rng)) for t in range(n)]
        suffered.append(regret(learner, losses))
        assert suffered[-1] <= learner.guarantee().total * (1 + 1e-9)
    fit = stats.linregress(np.log(horizons), np.log(suffered))
    assert least < fit.slope <= most + 3 * fit.stderr + 1e-6
    assert fit.stderr < 0.05


@pytest.mark.parametrize(
    "kind, rate", [(GRADIENT, {"mixing_rate": 0.5}), (LEADER, {"learning_rate": 1.0})]
)
def test_a_loss_can_be_late_by_the_whole_diameter_at_most(kind, rate):
    learner = kind(kl.Ball(1), kl.Linear(), horizon=100, loss_norm=1.0, **rate)
    first = learner.ask()
    for _ in range(50):
        learner.tell(learner.ask(), kl.LinearLoss([1.0]))
    learner.tell(first, kl.LinearLoss([-1.0]))
    assert learner.guarantee().terms["delay"] == pytest.approx(2.0)  # the leader: not 50 η G²/2
