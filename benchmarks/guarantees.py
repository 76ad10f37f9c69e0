"""Guarantees beside what is measured: bound, what was seen in the game, regret and random play; writes the table of docs/guarantees.md.

python -m benchmarks.guarantees             three games of each setting, about ten minutes
python -m benchmarks.guarantees --seeds 1 --only "40 prices"
"""

from __future__ import annotations

import argparse
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import koloss as kl
from koloss.errors import KolossWarning

PAGE = Path(__file__).parents[1] / "docs" / "guarantees.md"
BEGIN, END = "<!-- table: python -m benchmarks.guarantees -->", "<!-- end of table -->"
COLUMNS = (
    "setting",
    "rounds",
    "bound before",
    "bound",
    "seen in the game",
    "regret",
    "random play",
)
SMOOTH = kl.Gaussian(0.25)
SHARE = 0.3
"""Of the traffic that the lower half of the prices must get, where there are shares."""


def market(x):
    """Mean loss 1 - revenue/3 at a price of 1 + 2x, at which exp(-(price/2)²) of the visitors buy."""
    price = 1 + 2 * x
    return 1 - price * np.exp(-((price / 2) ** 2)) / 3


@dataclass(frozen=True)
class Game:
    """Mean losses of a market: Bernoulli losses are drawn with these means."""

    means: Callable[[Any, Any], float]  # of a decision, and of the row of a context
    best: Any  # of each context
    random: float  # what playing at random loses in a round, against the best
    weights: Any = None  # shares of the contexts


PRICES, FEW = np.linspace(0, 1, 40), np.linspace(0, 1, 20)
LAW = np.array([0.4, 0.25, 0.2, 0.1, 0.05])
SEGMENTS = np.array([market(np.clip(FEW + 0.1 * c - 0.2, 0, 1)) for c in range(5)])


def prices() -> Game:
    values = market(PRICES)
    best = values.min()
    return Game(lambda decision, _: values[decision.index], [best], float(values.mean() - best))


def shared() -> Game:
    """Against the best law within the shares."""
    values = market(PRICES)
    best = SHARE * values[:20].min() + (1 - SHARE) * values.min()
    return Game(lambda decision, _: values[decision.index], [best], float(values.mean() - best))


def segments() -> Game:
    best = SEGMENTS.min(axis=1)
    random = float(LAW @ (SEGMENTS.mean(axis=1) - best))
    return Game(lambda decision, c: SEGMENTS[c, decision.index], best, random, LAW)


def bowl(centre: Any, scale: float, sample: Any) -> Game:
    """|x - centre|²/scale; random play is uniform on the set, of which there is a sample."""
    centre = np.array(centre)

    def loss(x):
        return float(np.sum((x - centre) ** 2)) / scale

    return Game(
        lambda decision, _: loss(decision.action), [0.0], float(np.mean([*map(loss, sample)]))
    )


def square() -> Game:
    sample = np.random.default_rng(0).random((20_000, 2))
    return bowl([0.3, 0.6], 0.85, sample)


def ball() -> Game:
    rng = np.random.default_rng(0)
    sample = rng.standard_normal((20_000, 3))
    sample *= rng.random((20_000, 1)) ** (1 / 3) / np.linalg.norm(sample, axis=1, keepdims=True)
    return bowl([0.3, -0.2, 0.4], 4.0, sample)


@dataclass(frozen=True)
class Row:
    """A setting, its game, and the bound that was printed for it before."""

    name: str
    kind: type[kl.Learner]
    before: float
    rounds: int = 4000
    said: dict[str, Any] = field(default_factory=dict)
    game: Callable[[], Game] = prices
    actions: Any = None
    kernel: Any = SMOOTH

    def make(self, seed: int) -> kl.Learner:
        said = {"horizon": self.rounds, "loss_range": (0, 1), **self.said}
        actions = kl.Points(PRICES[:, None]) if self.actions is None else self.actions
        return self.kind(actions, self.kernel, rng=seed, **said)  # type: ignore[call-arg]


def rows() -> list[Row]:
    """The settings of the table."""
    weights, insured = kl.BanditExpWeights, kl.InsuredBandit
    groups, few = np.arange(5)[:, None] / 4.0, kl.Points(FEW[:, None])
    known, any_order = kl.Contexts(groups, weights=LAW), kl.Contexts(groups)
    long = 20_000
    return [
        Row("40 prices", weights, 830),
        Row("epochs of one round", weights, 531, said={"batch": 1}),
        Row("range learned", weights, 1096, said={"loss_range": "learn"}),
        Row("no horizon", weights, 800, said={"horizon": None}),
        Row("in hindsight", weights, 1232, said={"regret": "hindsight"}),
        Row("delay of 10", weights, 1758, said={"delay": 10}),
        Row("any losses", weights, 1651, said={"loss_class": "any"}),
        Row('kernel "auto"', weights, 1651, kernel="auto"),
        Row("shares", weights, 2028, said={"shares": {tuple(range(20)): (SHARE, 1)}}, game=shared),
        Row("5 contexts, shares known", weights, 3200, long, {"contexts": known}, segments, few),
        Row("5 contexts, any order", weights, 3967, long, {"contexts": any_order}, segments, few),
        Row("square", weights, 1978, 4000, {}, square, kl.Box([0, 0], [1, 1]), kl.Gaussian(0.5)),
        Row("ball in 3 dimensions", weights, 3008, 10_000, {}, ball, kl.Ball(3), kl.Quadratic()),
        Row("insured", insured, 2686, 10_000),
        Row("insured, range learned", insured, 3897, 10_000, {"loss_range": "learn"}),
        Row("insured, delay of 10", insured, 4131, 10_000, {"delay": 10}),
        Row("insured, 5 contexts", insured, 5926, long, {"contexts": known}, segments, few),
    ]  # fmt: skip


@dataclass(frozen=True)
class Measured:
    """A line of the table, in losses."""

    bound: float
    unit: str
    seen: float  # nan where there is none
    regret: float
    random: float


def measure(row: Row, seeds: int) -> Measured:
    """Play a setting. Losses come as late as was declared."""
    game, n = row.game(), row.rounds
    regrets, seen = [], []
    for seed in range(seeds):
        learner, rng = row.make(seed), np.random.default_rng([77, seed])
        lost, waiting, late = 0.0, [], row.said.get("delay", 0)
        for _ in range(n):
            c, asked = 0, {}
            if game.weights is not None:
                c = int(rng.choice(len(game.weights), p=game.weights))
                asked = {"context": row.said["contexts"].X[c]}
            decision = learner.ask(**asked)
            mean = game.means(decision, c)
            lost += mean - game.best[c]
            waiting.append((decision, float(rng.random() < mean)))
            if len(waiting) > late:
                learner.tell(*waiting.pop(0))
        for told in waiting:
            learner.tell(*told)
        regrets.append(lost)
        seen.append(_seen(learner))
    promise = learner.guarantee(rounds=n)
    total = sum(promise.terms.values())
    return Measured(
        total, promise.unit, float(np.mean(seen)), float(np.mean(regrets)), n * game.random
    )


def _seen(learner: Any) -> float:
    """The estimated regret of the game that was played, where there is one."""
    try:
        return float(learner.guarantee(realised=True).total)
    except ValueError:
        return math.nan


def line(row: Row, found: Measured) -> str:
    """The row of a table in Markdown."""
    unit = f" {found.unit}" if found.unit else ""
    seen = "–" if math.isnan(found.seen) else f"{found.seen:,.0f}"
    cells = [
        row.name,
        f"{row.rounds:,}",
        f"{row.before:,.0f}{unit}",
        f"{found.bound:,.0f}{unit}",
        seen,
    ]
    return _cells([*cells, f"{found.regret:,.0f}", f"{found.random:,.0f}"])


def _cells(cells: Any) -> str:
    return f"| {' | '.join(cells)} |"


def head() -> list[str]:
    """The first lines of the table."""
    return [_cells(COLUMNS), _cells(["---", *["---:"] * (len(COLUMNS) - 1)])]


def write(lines: list[str]) -> None:
    """Put a table in place of the one on the page."""
    text = PAGE.read_text("utf-8")
    before, rest = text.split(BEGIN)
    table = "\n".join(lines)
    PAGE.write_text(f"{before}{BEGIN}\n\n{table}\n\n{END}{rest.split(END)[1]}", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.guarantees", description=__doc__)
    parser.add_argument("--seeds", type=int, default=3, help="games of each setting")
    parser.add_argument("--only", help="one setting, without writing the page")
    options = parser.parse_args()
    warnings.simplefilter("ignore", KolossWarning)
    lines = head()
    for row in rows():
        if options.only in (None, row.name):
            lines.append(line(row, measure(row, options.seeds)))
            print(lines[-1], flush=True)
    if options.only is None:
        write(lines)
        print(f"wrote {PAGE}")


if __name__ == "__main__":
    main()
