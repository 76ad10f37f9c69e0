"""Eight segments of customers and 25 prices: what an insured policy loses where segments drift, and where one turns on it."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import koloss as kl
from benchmarks.tables import Table
from koloss.learners.bandit.setup import points_engine
from koloss.learners.insured.forecast import Place, forecaster_for
from koloss.learners.insured.pending import Pending
from koloss.learners.insured.policies import Ucb

ROUNDS = 6000
SHARES = np.array([0.36, 0.22, 0.15, 0.11, 0.08, 0.05, 0.027, 0.003])
SEGMENTS = kl.Contexts(np.linspace(0, 1, 8)[:, None], weights=SHARES)
PRICES = kl.Points(np.linspace(0, 1, 25)[:, None])
GAME: dict[str, Any] = {"horizon": ROUNDS, "loss_range": (-0.5, 0.5), "contexts": SEGMENTS}
SMOOTH = {"kernel": kl.Gaussian(0.25), "context_kernel": kl.Gaussian(0.5)}


class Leading:
    """The product of both kernels, of which only the leading 23 directions on the pairs are kept: features without error."""

    def __init__(self) -> None:
        c, a = (X.X[:, 0] for X in (SEGMENTS, PRICES))
        gram = np.kron(
            *(np.exp(-((x[:, None] - x) ** 2) / (2 * b**2)) for x, b in ((c, 0.5), (a, 0.25)))
        )
        values, vectors = np.linalg.eigh(gram)
        self.features = vectors[:, -23:] * np.sqrt(values[-23:])

    def _of(self, X: Any) -> np.ndarray:
        c, a = np.round(np.asarray(X) * (len(SHARES) - 1, len(PRICES) - 1)).astype(int).T
        return self.features[c * len(PRICES) + a]

    def __call__(self, X: Any, Y: Any = None) -> np.ndarray:
        return self._of(X) @ self._of(X if Y is None else Y).T

    def diag(self, X: Any) -> np.ndarray:
        return np.square(self._of(X)).sum(axis=1)


LEADING = {"kernel": Leading(), "context_kernel": "pairs"}


def run(full: bool = False) -> list[Table]:
    """In full ten seeds, a quarter of an hour on one core; otherwise two."""
    return [_table(name, game, range(10 if full else 2)) for name, game in GAMES.items()]


def _table(name: str, game: Any, seeds: range) -> Table:
    table = Table(
        f"Segments: {name}, {ROUNDS:,} rounds, {len(seeds)} seeds",
        ["player", "regret", "± error", "worst", "rarest two", "handed over"],
        "Regret against the best mapping from segments to prices in hindsight; in the two rarest segments, per round. Players of "
        "one seed meet the same customers. Handed over: which segments, and after how many rounds of each seed.",
    )
    for player, make in PLAYERS.items():
        results = [play(make(seed), game, seed) for seed in seeds]
        regrets, rare, passed = zip(*results, strict=True)
        error = float(np.std(regrets, ddof=1)) / len(seeds) ** 0.5
        when = ["; ".join(f"{c} at {t}" for c, t in one) or "-" for one in passed]
        row = (float(np.mean(regrets)), error, max(regrets), float(np.mean(rare)))
        table.add(player, *row, " | ".join(when) if any(passed) else "")
    return table


# The games.


def drifting(t: int, _law: Any) -> np.ndarray:
    """The best price of every segment moves."""
    s = SEGMENTS.X[:, 0]
    best = 0.25 + 0.5 * s + 0.12 * np.sin(2 * np.pi * (t / ROUNDS + s))
    return _around(best)


def turning(t: int, law: Any) -> np.ndarray:
    """From a third of the game on, prices near the likeliest one of segment 0 lose: no kernel has such losses."""
    losses = _around(0.25 + 0.5 * SEGMENTS.X[:, 0])
    if t >= ROUNDS // 3:
        near = np.abs(PRICES.X[:, 0] - PRICES.X[law().argmax(), 0]) <= 0.1
        losses[0] = np.where(near, 0.2, -0.1)
    return losses


def _around(best: np.ndarray) -> np.ndarray:
    return 0.3 - 0.6 * np.exp(-((PRICES.X[:, 0] - best[:, None]) ** 2) / (2 * 0.3**2))


GAMES = {"the best prices drift": drifting, "segment 0 turns on the player": turning}


def play(learner: Any, game: Any, seed: int) -> tuple[float, float, list[tuple[int, int]]]:
    """Regret, regret per round in the two rarest segments, and who was handed over when."""
    rng = np.random.default_rng([seed, 25])
    contexts = rng.choice(len(SHARES), size=ROUNDS, p=SHARES)
    paid, total = np.zeros(len(SHARES)), np.zeros((len(SHARES), len(PRICES)))
    for t, c in enumerate(contexts.tolist()):
        losses = game(t, partial(learner.distribution_for, 0))
        decision = learner.ask(context=c)
        paid[c] += losses[c, decision.index]
        total[c] += losses[c]
        learner.tell(decision, float(losses[c, decision.index]))
    regret = paid - total.min(axis=1)
    rarest = np.isin(contexts, (6, 7)).sum()
    passed = []
    if isinstance(learner, kl.InsuredBandit):
        passed = [(one.context, one.round) for one in learner.diagnostics.alarms]
    return float(regret.sum()), float(regret[6:].sum() / max(rarest, 1)), passed


# The players.


class Uninsured:
    """The policy "ucb" by itself."""

    def __init__(self, seed: int) -> None:
        settings = kl.InsuredBandit.settings_type(actions=PRICES, kernel=kl.Gaussian(0.25), **GAME)
        pairs = settings.pairs
        self.forecaster = forecaster_for(pairs.kernel, points_engine(pairs))
        self.pending = Pending(self.forecaster)

    def _choice(self, c: int) -> int:
        place = Place(c, len(SHARES), len(PRICES))
        return int(Ucb(place=place).propose(self.pending, None, None))

    def distribution_for(self, c: int) -> np.ndarray:
        return np.eye(len(PRICES))[self._choice(c)]

    def ask(self, context: int) -> Any:
        self.context = context
        return kl.Decision(0, None, self._choice(context), None, 0, "")

    def tell(self, decision: Any, loss: float) -> None:
        self.forecaster.update(self.context * len(PRICES) + decision.index, loss)


class Uniform:
    """Any price."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng([seed, 1])

    def distribution_for(self, c: int) -> np.ndarray:
        return np.full(len(PRICES), 1 / len(PRICES))

    def ask(self, context: int) -> Any:
        row = int(self.rng.integers(len(PRICES)))
        return kl.Decision(0, None, row, None, 0, "")

    def tell(self, decision: Any, loss: float) -> None:
        pass


def insured(seed: int, **settings: Any) -> kl.InsuredBandit:
    return kl.InsuredBandit(PRICES, rng=seed, **{**LEADING, **GAME, **settings})


def exponential_weights(seed: int, **settings: Any) -> kl.BanditExpWeights:
    return kl.BanditExpWeights(PRICES, rng=seed, **{**LEADING, **GAME, **settings})


PLAYERS = {
    "insured": insured,
    "the same, 57 features that hold all": partial(insured, **SMOOTH),
    "exponential weights": exponential_weights,
    "exponential weights, 57 features": partial(exponential_weights, **SMOOTH),
    "ucb": Uninsured,
    "uniform": Uniform,
}
