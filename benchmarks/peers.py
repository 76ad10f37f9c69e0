"""Rounds per second of the bandit learners against the packages that a user would pick, in single calls and on one game."""

from __future__ import annotations

import importlib.util
import time
from functools import partial

import numpy as np

import arena
import koloss as kl
from arena.base import Game
from benchmarks.tables import Table
from benchmarks.timing import ratio, spread

KERNEL = kl.Gaussian(0.5)
PEERS = {  # and in how many rounds their time is measured
    "exp-weights": 2000,
    "insured": 2000,
    "exp3": 2000,
    "gp-ucb": 1000,
    "river-exp3": 1000,
    "river-ucb": 1000,
    "pyxab-hct": 1000,
    "vowpal-wabbit-squarecb": 50,
    "coba-linucb": 30,
}
PACKAGES = {
    "river": "river",
    "pyxab": "PyXAB",
    "vowpal": "vowpalwabbit",
    "coba": "coba",
}


def run(full: bool = False) -> list[Table]:
    return [_rounds(7 if full else 5)]


def _game() -> Game:
    X = np.random.default_rng(0).uniform(-1, 1, (1600, 2))
    X = X[np.sum(X**2, axis=1) <= 1][:400]
    return Game("disc", "held-out", "kind", "", X, KERNEL, 20_000, kl.games.Adversary)


def _rounds(repeats: int) -> Table:
    table = Table(
        "Peers: 400 points of the unit disc, a fixed loss, single calls",
        ["player", "rounds per second", "µs per round", "over exponential weights"],
        "CPU time of ask and tell, players in turn; median and quartiles of the laps. Each player as the arena makes it. EXP3 and "
        "river know no neighbours, PyXAB and GP-UCB no adversary: the arena compares what they lose.",
    )
    game = _game()
    K = KERNEL(game.points, game.points)
    losses = (0.8 - 0.5 * K[7] + 0.2 * K[123]).tolist()
    specs, players = arena.players(), {}
    for slug, rounds in PEERS.items():
        package = PACKAGES.get(slug.partition("-")[0])
        if package is None or importlib.util.find_spec(package):
            players[slug] = partial(_one_by_one, specs[slug].make(game, 0), losses, rounds)
    seconds: dict[str, list[float]] = {slug: [] for slug in players}
    for lap in range(-1, repeats):
        for slug, play in players.items():
            taken = play()
            if lap >= 0:  # the first one warms up
                seconds[slug].append(taken)
    for slug, runs in seconds.items():
        rate, cost = spread(1 / np.array(runs)), spread(1e6 * np.array(runs))
        table.add(specs[slug].name, rate, cost.median, ratio(runs, seconds["exp-weights"]))
    missing = [specs[slug].name for slug in PEERS if slug not in players]
    if missing:
        table.note += f" Not installed here: {', '.join(missing)}."
    return table


def _one_by_one(player, losses, rounds) -> float:
    """CPU seconds per round."""
    start = time.process_time()
    for _ in range(rounds):
        decision = player.ask()
        player.tell(decision, losses[decision.index])
    return (time.process_time() - start) / rounds
