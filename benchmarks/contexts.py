"""Contexts: single calls with 50 segments and 200 prices against the textbook way, a refresh in every round."""

from __future__ import annotations

import time
from statistics import median

import numpy as np

import koloss as kl
from benchmarks.tables import Table
from benchmarks.timing import ratio

CONTEXTS, ACTIONS, RANK, ROUNDS, LAPS = 50, 200, 100, 400, 4


def run(full: bool = False) -> list[Table]:
    table = Table(
        f"{CONTEXTS} contexts × {ACTIONS} actions, {RANK} features of pairs: milliseconds a round, single calls",
        ("player", "law of contexts", "ms", "ratio"),
        note="CPU time of one thread, ask and tell, medians of parts that take turns; a ratio is that to the textbook way.",
    )
    laws = {"even": np.full(CONTEXTS, 1 / CONTEXTS), "Zipf": _zipf(CONTEXTS)}
    for name, law in laws.items():
        start = time.process_time()
        learner = _learner(law)
        setup = time.process_time() - start
        players = {
            "the learner": _Player(learner),
            "the learner, batch=1": _Player(_learner(law, batch=1)),
            "one learner per context": _Player(_learner(None)),
            "textbook": _Textbook(learner),
        }
        laps: dict[str, list[float]] = {player: [] for player in players}
        for lap in range(LAPS + 1):
            for player, play in players.items():
                rounds = ROUNDS if player == "the learner" or full else ROUNDS // 20
                laps[player].append(_time(play, law, rounds, lap))
        own = {player: median(times[1:]) for player, times in laps.items()}
        for player, seconds in own.items():
            against = ratio(laps[player][1:], laps["textbook"][1:])
            table.add(player, name, 1e3 * seconds, against)
        table.add("set-up", name, 1e3 * setup, None)
    return [table]


def _zipf(count):
    law = 1 / np.arange(1.0, count + 1) ** 2
    return law / law.sum()


def _learner(law, **settings):
    rng = np.random.default_rng(3)
    contexts = kl.Contexts(rng.uniform(size=(CONTEXTS, 2)), law)
    prices = kl.Points(np.linspace(0, 1, ACTIONS)[:, None])
    said = {"horizon": 200_000, "loss_range": (0, 1), "context_kernel": kl.Gaussian(0.3), "rng": 0}
    if law is not None:
        said["rank"] = RANK - 1  # and the constant
    return kl.BanditExpWeights(prices, kl.Gaussian(0.1), contexts=contexts, **said, **settings)


def _time(play, law, rounds, seed):
    """Seconds a round."""
    rows = np.random.default_rng(seed).choice(len(law), size=rounds, p=law).tolist()
    start = time.process_time()
    play(rows)
    return (time.process_time() - start) / rounds


def _loss(c, index):
    return 0.5 + 0.4 * np.sin(0.03 * index + 0.1 * c)


class _Player:
    def __init__(self, learner):
        self.learner = learner

    def __call__(self, rows):
        ask, tell = self.learner.ask, self.learner.tell
        for c in rows:
            decision = ask(context=c)
            tell(decision, _loss(c, decision.index))


class _Textbook:
    """Theorem F6's learner as it reads: all weights, one covariance of all pairs and one solve per round, bonus included."""

    def __init__(self, learner):
        engine, capped = learner.engine, learner.engine.capped
        self.eta, self.center, self.epsilon = (
            learner.rates.learning_rate,
            engine.center,
            engine.problem.epsilon if engine.problem.bonus else 0.0,
        )
        self.features = np.ascontiguousarray(engine.features)
        self.shares, self.laws, self.w = capped.shares[:, None], capped.laws, capped.discounts
        self.mu, self.shape = engine.law_of_contexts, engine.shape
        self.scores, self.rng = np.zeros(self.shape), np.random.default_rng(0)

    def __call__(self, rows):
        Phi, K = self.features, self.shape[1]
        for c in rows:
            q = np.exp(-self.eta * (self.scores - self.scores.min(axis=1, keepdims=True)))
            p = (1 - self.shares) * q / q.sum(axis=1, keepdims=True) + self.shares * self.laws
            index = int(np.searchsorted(np.cumsum(p[c]), self.rng.random() * p[c].sum()))
            weights = ((self.w * self.mu)[:, None] * p).ravel()
            inverse = np.linalg.inv((Phi * weights[:, None]).T @ Phi)
            value = self.w[c] * (_loss(c, index) - self.center)
            x = Phi @ (inverse @ Phi[c * K + index]) * value
            if self.epsilon:
                x -= self.epsilon * np.sqrt(np.sum((Phi @ inverse) * Phi, axis=1))
            self.scores += x.reshape(self.shape)
