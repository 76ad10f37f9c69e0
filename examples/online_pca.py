"""Online principal components: follow the direction of most variance while images stream by.

Every round shows one image of a handwritten digit, a vector x of 64 pixels, after the player has chosen a direction a.
The loss is -(a'x)², so that the cumulative loss is minus the variance captured so far, and the best fixed direction in
hindsight is the top eigenvector. The losses are concave quadratics on the ball, and three learners play the same stream:

- conditional gradient: one eigenvalue problem a round,
- follow the regularised leader: one projection onto a spectrahedron,
- exponential weights: one exact draw from exp(a'Ba).

The rows are centred by the mean of the first hundred images, which are then left out, and scaled to length one.
Run it with `python examples/online_pca.py`; the images come with scikit-learn.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

import koloss as kl

LEARNERS = {
    "follow the leader": kl.FollowTheRegularizedLeader,
    "conditional gradient": kl.ConditionalGradient,
    "exponential weights": kl.ExpWeights,
}


@dataclass(frozen=True)
class Row:
    """One player: variance captured in total, regret against the best direction, its bound where it has one."""

    name: str
    captured: float
    regret: float
    bound: float | None = None
    seconds: float | None = None


def stream(rounds: int | None = None, held_out: int = 100):
    """Images as rows of length one."""
    from sklearn.datasets import load_digits

    X = load_digits().data
    X = X[held_out:] - X[:held_out].mean(axis=0)
    return (X / np.linalg.norm(X, axis=1, keepdims=True))[:rounds]


def main(rounds: int | None = None, seed: int = 0) -> list[Row]:
    """Play the stream, all of its 1,697 images unless told otherwise."""
    X = stream(rounds)
    n, d = X.shape
    best = float(np.linalg.eigvalsh(X.T @ X)[-1])
    rows = [Row("best direction", best, 0.0), Row("random directions, mean", n / d, best - n / d)]
    for name, kind in LEARNERS.items():
        learner = kind(kl.Ball(d), kernel=kl.Quadratic(), horizon=n, loss_norm=1.0, rng=seed)
        captured, start = 0.0, time.perf_counter()
        for x in X:
            decision = learner.ask()
            captured += float(decision.action @ x) ** 2
            learner.tell(decision, kl.QuadraticLoss(-np.outer(x, x)))
        seconds = time.perf_counter() - start
        rows.append(Row(name, captured, best - captured, learner.guarantee().total, seconds))
    return rows


def show(rows: list[Row]) -> None:
    """A table on the terminal."""
    print(f"{'player':24}{'captured':>10}{'regret':>10}{'bound':>10}{'seconds':>10}")
    for row in rows:
        rest = [f"{x:10.1f}" if x is not None else " " * 10 for x in (row.bound, row.seconds)]
        print(f"{row.name:24}{row.captured:10.1f}{row.regret:10.1f}{''.join(rest)}".rstrip())


if __name__ == "__main__":
    show(main())
