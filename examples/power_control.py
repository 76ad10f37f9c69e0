"""Power control: transmit powers of users who disturb each other, while their channels fade.

User i sends with power p_i. The inverse of its signal-to-noise ratio, noise and interference over signal, is

    (σ + Σ_{j≠i} g_ij p_j) / (g_ii p_i),

a posynomial in the powers; so is the sum over the users, plus the price of the power. Every round has channel gains g of
its own, which the player learns after it has sent. The conditional gradient needs one geometric program a round, and
is compared with the best fixed powers in hindsight (one geometric program on the sum of all losses), and with users who
all send with one power: full power, or whatever common power would have been best.

Run it with `python examples/power_control.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import koloss as kl


@dataclass(frozen=True)
class Row:
    """One player: mean loss, and regret against the best fixed powers."""

    name: str
    mean_loss: float
    regret: float


@dataclass(frozen=True)
class Result:
    """What was played, the best fixed powers, and the learner at the end of the game."""

    rows: list[Row]
    best: np.ndarray
    learner: kl.ConditionalGradient


def monomials(users: int) -> kl.Posynomial:
    """The terms p_j/p_i for i ≠ j, then 1/p_i, then p_i."""
    one = np.eye(users)
    ratios = [one[j] - one[i] for i in range(users) for j in range(users) if i != j]
    return kl.Posynomial([*ratios, *-one, *one])


NOISE, PRICE = 0.08, 0.3


def coefficients(gains: np.ndarray) -> np.ndarray:
    """Of the monomials above, for one round's gains: row i is what user i hears."""
    own, off = np.diagonal(gains), ~np.eye(len(gains), dtype=bool)
    interference = (gains / own[:, None])[off]
    return np.concatenate([interference, NOISE / own, np.full(len(gains), PRICE)])


def channels(users: int, rounds: int, rng: np.random.Generator):
    """Gains that fade slowly (their logarithms are autoregressive) around fixed means."""
    mean = rng.uniform(0.02, 0.15, size=(users, users))
    np.fill_diagonal(mean, np.linspace(1.0, 0.25, users))  # the last user is far away
    fade = np.zeros((users, users))
    for _ in range(rounds):
        fade = 0.9 * fade + 0.13 * rng.normal(size=fade.shape)
        yield mean * np.exp(np.clip(fade, -0.7, 0.7))


def main(rounds: int = 1000, users: int = 3, seed: int = 0) -> Result:
    """Play a game; powers between 0.2 and 1."""
    kernel, powers = monomials(users), kl.Box(np.full(users, 0.2), np.ones(users))
    C = np.stack([coefficients(g) for g in channels(users, rounds, np.random.default_rng(seed))])
    largest = float(np.linalg.norm(C, axis=1).max())  # what an operator knows of its channels
    learner = kl.ConditionalGradient(
        powers, kernel=kernel, horizon=rounds, loss_norm=largest, rng=seed
    )
    paid = 0.0
    for c in C:
        decision, loss = learner.ask(), kl.PosynomialLoss(kernel, c)
        paid += float(loss(decision.action[None])[0])
        learner.tell(decision, loss)
    total = kl.PosynomialLoss(kernel, C.sum(axis=0))
    best = kl.oracles.minimize(total, powers)
    common = np.linspace(0.2, 1.0, 801)[:, None] * np.ones(users)
    totals = {
        "best fixed powers": best.value,
        "conditional gradient": paid,
        "best common power": float(total(common).min()),
        "full power": float(total(np.ones((1, users)))[0]),
    }
    rows = [Row(name, value / rounds, value - best.value) for name, value in totals.items()]
    return Result(rows, best.point, learner)


def show(result: Result) -> None:
    """A table on the terminal."""
    print(f"{'player':22}{'mean loss':>10}{'regret':>10}")
    for row in result.rows:
        print(f"{row.name:22}{row.mean_loss:10.3f}{row.regret:10.1f}")
    print(f"bound on the regret: {result.learner.guarantee().total:.0f}")
    print(f"best fixed powers: {result.best.round(2).tolist()}")


if __name__ == "__main__":
    show(main())
