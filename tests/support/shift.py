"""A shop whose customers come to pay less in the middle of the game."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import koloss as kl


@dataclass(frozen=True)
class Shop:
    """One price is set for each customer; what half of the customers would pay drops by 30 % in the middle.

    Sales are coins whose chance is logistic in the price. What is told is the price, or nothing.
    """

    rounds: int = 3000
    typical: float = 60.0  # what half of the customers would pay at first
    spread: float = 7.0
    drop: float = 0.3
    prices: tuple[float, ...] = tuple(range(10, 101, 3))

    def means(self):
        """Expected earnings from a customer at each price, before the drop and after it, in columns."""
        prices = np.array(self.prices, dtype=float)[:, None]
        paid = prices / [1.0, 1 - self.drop]  # in units of the money of the first half
        return prices / (1 + np.exp((paid - self.typical) / self.spread))

    def learner(self, kernel, seed, **settings):
        """An insured learner of this game."""
        stated = {"horizon": self.rounds, "loss_range": (0, 150), "goal": "maximize", "rng": seed}
        points = kl.Points([[price] for price in self.prices])
        return kl.InsuredBandit(points, kernel, **stated | settings)

    def play(self, learner, seed):
        """Expected earnings over those of the best prices, before the drop and after it."""
        means, coins = self.means(), np.random.default_rng([seed, 1]).random(self.rounds)
        earned = np.zeros(2)
        for t, coin in enumerate(coins):
            after = int(t >= self.rounds // 2)
            decision = learner.ask()
            price, mean = float(self.prices[decision.index]), means[decision.index, after]
            learner.tell(decision, price if coin < mean / price else 0.0)
            earned[after] += mean
        rounds = np.array([self.rounds // 2, self.rounds - self.rounds // 2])
        return earned / (rounds * means.max(axis=0))
