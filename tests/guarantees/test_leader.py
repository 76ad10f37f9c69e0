"""Bounds and step sizes of the regularised leader and the conditional gradient: the constants of theory A4 and A5."""

from __future__ import annotations

import math

import numpy as np
import pytest

from koloss.guarantees import leader
from koloss.guarantees.leader import LeaderProblem
from koloss.guarantees.paper import gradient_steps

GAMES = [
    LeaderProblem(10_000, norm=1.0, reach=1.0, diameter=2.0),
    LeaderProblem(500, norm=3.0, reach=0.5, diameter=0.7),
    LeaderProblem(40, norm=0.1, reach=20.0, diameter=30.0),
]


def constant(gamma):
    return lambda first, count: np.full(count, gamma)


@pytest.mark.parametrize("game", GAMES)
@pytest.mark.parametrize("delay", [0, 1, 7])
def test_leader_rate_is_the_best(game, delay):
    """ϱ²/η + ηG²n/4 + n d ηG²/2 is least at this rate, and √(1 + 2d) ϱG√n there."""
    eta, n = game.leader_rate(delay), game.rounds

    def bound(eta):
        return sum(game.terms(eta, n).values()) + n * delay * eta * game.norm**2 / 2

    assert bound(eta) == pytest.approx(game.reach * game.norm * math.sqrt(n * (1 + 2 * delay)))
    assert min(bound(eta * f) for f in np.exp(np.linspace(-2, 2, 41))) >= bound(eta) * (1 - 1e-12)


@pytest.mark.parametrize("game", GAMES)
def test_heights_stay_where_they_start(game):
    """γh̄ = γ²D² + ηG√h̄: the recursion has h̄ for its fixed point, and does not leave [0, h̄]."""
    gamma, eta, height = game.gradient_steps()
    pull = eta * game.norm * math.sqrt(height)
    assert gamma * height == pytest.approx(gamma**2 * game.diameter**2 + pull)
    assert game.next_height(height, gamma, eta) == pytest.approx(height)
    for h in np.linspace(0, height, 11):
        assert h <= game.next_height(h, gamma, eta) <= height * (1 + 1e-12)


@pytest.mark.parametrize("game", GAMES)
def test_next_height_is_the_largest_that_is_allowed(game):
    """h' = (1 - γ)h + γ²D² + γe + ηG√h' holds with equality, and fails for anything larger."""
    for h, gamma, eta, error in ((0.3, 0.2, 0.05, 0.0), (2.0, 1.0, 0.5, 0.1), (0.0, 0.01, 1e-4, 0)):
        base = (1 - gamma) * h + gamma**2 * game.diameter**2 + gamma * error
        largest = game.next_height(h, gamma, eta, error)
        assert largest == pytest.approx(base + eta * game.norm * math.sqrt(largest))
        larger = 1.01 * largest
        assert larger > base + eta * game.norm * math.sqrt(larger)


@pytest.mark.parametrize("game", GAMES)
def test_constant_steps_are_theorem_a4(game):
    """Started at h̄ the bound is 4/3 · 12^¼ G√(ϱD) n^¾ + (3^¾ 4^(-¼)/4) G ϱ^(3/2) D^(-1/2) n^¼."""
    n, G, reach, D = game.rounds, game.norm, game.reach, game.diameter
    stated = 4 / 3 * 12**0.25 * G * math.sqrt(reach * D) * n**0.75
    stated += 3**0.75 * 4**-0.25 / 4 * G * reach**1.5 * D**-0.5 * n**0.25
    gamma, eta, height = game.gradient_steps()
    tracking = game.tracking(height, constant(gamma), 1, n, eta)
    assert sum(game.terms(eta, n).values()) + G * tracking == pytest.approx(stated)


@pytest.mark.parametrize("game", GAMES[:2])
def test_constant_steps_are_the_best_constant_steps(game):
    """No other (γ, η), each from the start that its own fixed point allows, has a smaller leading term."""
    n, G, D = game.rounds, game.norm, game.diameter
    gamma, eta, height = game.gradient_steps()

    def leading(gamma, eta):
        # √h solves γ h = γ²D² + ηG√h
        root = (eta * G + math.sqrt((eta * G) ** 2 + 4 * gamma**3 * D**2)) / (2 * gamma)
        return G * n * root + game.reach**2 / eta

    best = leading(gamma, eta)
    assert best == pytest.approx(G * n * math.sqrt(height) + game.reach**2 / eta)
    factors = np.exp(np.linspace(-1.5, 1.5, 31))
    grid = [leading(gamma * f, eta * g) for f in factors for g in factors]
    assert min(grid) >= best * (1 - 1e-9)


@pytest.mark.parametrize("n", [3, 4, 5, 10, 100, 3000])
@pytest.mark.parametrize("reach, diameter, norm", [(2.0, 2.0, 1.0), (1.0, 2.0, 0.3), (3.0, 4.0, 5)])
def test_decreasing_steps_are_theorem_a4(n, reach, diameter, norm):
    """γ_t = min(1, 2/√t) with η = 3/2 D/G n^(-3/4), from anywhere: h_t ≤ 2D²γ_t, and theory's closed form."""
    game = LeaderProblem(n, norm, reach, diameter)
    eta = 1.5 * diameter / norm * n**-0.75
    gammas, h = gradient_steps(1, n), diameter**2
    for t, gamma in enumerate(gammas, 1):
        if t >= 2:
            assert h <= 2 * diameter**2 * gamma * (1 + 1e-12)
        h = game.next_height(h, gamma, eta)
    total_bound = norm * game.tracking(diameter**2, gradient_steps, 1, n, eta)
    total_bound += sum(game.terms(eta, n).values())
    stated = 8 / 3 * norm * diameter * n**0.75 + 2 / 3 * reach**2 / diameter * norm * n**0.75
    assert total_bound <= stated + 3 / 8 * norm * diameter * n**0.25


def test_the_papers_rate_does_not_give_the_papers_bound():
    """With η = n^(-3/4)/2 and diameter 2𝒢 the first term alone is 8𝒢²n^¾, the whole of the printed bound."""
    n = 1000
    game = LeaderProblem(n, 1.0, 2.0, 2.0)
    terms = game.terms(0.5 * n**-0.75, n)
    assert terms["regulariser"] == pytest.approx(8 * n**0.75)
    # With theory's rate 7.5 would do.
    repaired = sum(game.terms(3 * n**-0.75, n).values())
    repaired += game.tracking(4.0, gradient_steps, 1, n, 3 * n**-0.75)
    assert repaired <= 7.5 * n**0.75


def test_errors_of_the_oracle_add_up():
    """An oracle off by e in every round adds at most 4e/3 to the height of a game in balance."""
    game = LeaderProblem(1000, 1.0, 1.0, 2.0)
    gamma, eta, height = game.gradient_steps()
    for error in (1e-6, 0.01):
        h = height
        for _ in range(5000):
            h = game.next_height(h, gamma, eta, error)
        assert h > height
        # γh = γ²D² + γe + ηG√h
        balance = gamma**2 * game.diameter**2 + gamma * error + eta * math.sqrt(h)
        assert gamma * h == pytest.approx(balance)
        assert height + 0.9 * error < h <= height + 4 / 3 * error


def test_steps():
    steps = [1, 1, 1, 1, 2 / math.sqrt(5), 2 / math.sqrt(6)]
    np.testing.assert_allclose(gradient_steps(1, 6), steps)
    np.testing.assert_allclose(gradient_steps(9, 1), [2 / 3])
    assert len(gradient_steps(9, 0)) == 0
    game = LeaderProblem(2, 1.0, 3.0, 1.0)  # √3 ϱ/D/√n is above 1
    assert game.gradient_steps()[0] == 1.0
    assert game.tracking(4.0, constant(0.5), 1, 0, 0.1) == 0.0
    assert game.tracking(4.0, constant(0.5), 1, 1, 0.1) == 2.0


# Sums over more rounds than can be gone through.


def one_by_one(game, h, steps, first, count, eta):
    total = 0.0
    for gamma in steps(first, count):
        total += math.sqrt(h)
        h = game.next_height(h, float(gamma), eta)
    return total


@pytest.mark.parametrize("steps", [constant(0.03), constant(1.0), constant(1e-7), gradient_steps])
@pytest.mark.parametrize("start", [0.0, 1e-4, 0.02, 0.3, 5.0])
@pytest.mark.parametrize("direct", [0, 1, 500])
def test_blocks_bound_the_sum_closely(monkeypatch, steps, start, direct):
    """From above, whatever the start; within a tenth once there is something to be close to."""
    monkeypatch.setattr(leader, "ONE_BY_ONE", direct)
    game, eta = LeaderProblem(10_000, norm=1.0, reach=1.0, diameter=2.0), 1e-3
    for count in (1, 2, 700, 5000):
        exact = one_by_one(game, start, steps, 1, count, eta)
        bound = game.tracking(start, steps, 1, count, eta)
        assert bound >= exact * (1 - 1e-9)
        if direct == 500:
            assert bound <= exact * 1.1


def test_up_to_a_million_rounds_the_sum_is_exact():
    game = GAMES[0]
    gamma, eta, height = game.gradient_steps()
    exact = one_by_one(game, height / 3, constant(gamma), 7, 10_000, eta)
    assert game.tracking(height / 3, constant(gamma), 7, 10_000, eta) == exact


@pytest.mark.parametrize("n", [10**9, 10**12, 10**15, 2**53])
def test_long_games_keep_their_rate(monkeypatch, n):
    """With tuned steps the sum is n√h̄ at most, from a start at h̄ or below."""
    monkeypatch.setattr(leader, "ONE_BY_ONE", 1000)
    game = LeaderProblem(n, norm=1.0, reach=1.0, diameter=2.0)
    gamma, eta, height = game.gradient_steps()
    total = game.tracking(height, constant(gamma), 1, n, eta)
    assert total == pytest.approx(n * math.sqrt(height), rel=1e-6)
    assert game.tracking(height / 4, constant(gamma), 1, n, eta) < total
