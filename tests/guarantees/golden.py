"""Every kind of guarantee that learners print, from public names alone: what the texts in `assets/golden.txt` are made from.

Run `python -m tests.guarantees.golden` to write them anew after a change that was meant, and read what has changed.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import koloss as kl

GOLDEN = Path(__file__).parent / "assets" / "golden.txt"

PRICES = kl.Points(np.linspace(0, 1, 12)[:, None])
SMOOTH = kl.Gaussian(0.25)
RANGE = {"horizon": 300, "loss_range": (0.0, 1.0)}
SEGMENTS = kl.Contexts(["new", "old"])
SHARED = kl.Contexts(["new", "old"], weights=[0.7, 0.3])


def bandit(actions: Any = PRICES, kernel: Any = SMOOTH, **settings: Any) -> Any:
    return kl.BanditExpWeights(actions, kernel, rng=0, **{**RANGE, **settings})


def insured(actions: Any = PRICES, kernel: Any = SMOOTH, **settings: Any) -> Any:
    return kl.InsuredBandit(actions, kernel, rng=0, **{**RANGE, **settings})


def loss_of(decision: Any, t: int) -> float:
    return float(np.clip(0.3 + 0.4 * np.sin(float(np.sum(decision.action)) * 3 + t / 9), 0, 1))


def one_by_one(learner: Any, rounds: int = 40, **asked: Any) -> None:
    for t in range(rounds):
        decision = learner.ask(**asked)
        learner.tell(decision, loss_of(decision, t))


def in_contexts(learner: Any, rounds: int = 40) -> None:
    for t in range(rounds):
        decision = learner.ask(context=("new", "old")[t % 3 == 0])
        learner.tell(decision, loss_of(decision, t))


def in_batches(learner: Any) -> None:
    for _ in range(5):
        batch = learner.ask(8)
        learner.tell(batch, np.full(8, 0.25))


def late(learner: Any, behind: int = 5) -> None:
    waiting = []
    for t in range(40):
        waiting.append(learner.ask())
        if len(waiting) > behind:
            learner.tell(waiting.pop(0), (t % 7) / 7)


def forgetful(learner: Any) -> None:
    for t in range(40):
        decision = learner.ask()
        if t % 4:
            learner.tell(decision, (t % 7) / 7)
        else:
            learner.forget([decision.id])


def beyond(learner: Any) -> None:
    one_by_one(learner, 20)
    learner.tell(learner.ask(), 1.5)


def full(learner: Any, loss: Any) -> None:
    for _ in range(10):
        learner.tell(learner.ask(), loss)


def masked(learner: Any) -> None:
    one_by_one(learner, 10, allowed=[0, 3, 5])


def grown(learner: Any) -> None:
    one_by_one(learner, 10)
    learner.withdraw([2])
    one_by_one(learner, 10)


def handed_over(learner: Any) -> None:
    one_by_one(learner, 20)
    learner.hand_over()
    one_by_one(learner, 20)


BOX = kl.Box([0.0], [1.0])
LINE = kl.Points([[0.0], [0.5], [1.0]])
QUADRATIC = kl.QuadraticLoss(np.eye(2) / 4, np.array([0.1, 0.2]))
KERNEL_LOSS = kl.KernelLoss(SMOOTH, np.array([[0.3]]), np.array([0.5]))

LEARNERS: dict[str, Callable[[], Any]] = {
    "bandit": bandit,
    "bandit, epochs": lambda: bandit(batch=4),
    "bandit, rounds of one": lambda: bandit(batch=1),
    "bandit, rank-one": lambda: bandit(loss_class="rank-one"),
    "bandit, any losses": lambda: bandit(loss_class="any"),
    "bandit, auto": lambda: bandit(kernel="auto"),
    "bandit, quadratic": lambda: bandit(kernel=kl.Quadratic()),
    "bandit, stated norm": lambda: bandit(kernel=kl.Quadratic(), loss_norm=0.5),
    "bandit, no horizon": lambda: bandit(horizon=None),
    "bandit, range learned": lambda: bandit(loss_range="learn"),
    "bandit, hindsight": lambda: bandit(regret="hindsight"),
    "bandit, delay": lambda: bandit(delay=3),
    "bandit, hold": lambda: bandit(hold=3),
    "bandit, widen": lambda: bandit(outside="widen"),
    "bandit, clip": lambda: bandit(outside="clip"),
    "bandit, rewards": lambda: bandit(goal="maximize"),
    "bandit, shares": lambda: bandit(shares={(0, 1, 2): (0.2, 1.0)}),
    "bandit, box": lambda: bandit(BOX),
    "bandit, ball": lambda: bandit(kl.Ball(2), kl.Quadratic()),
    "bandit, sampled": lambda: bandit(covariance="sampled"),
    "bandit, paper": lambda: bandit(
        loss_range=None, loss_norm=1.0, loss_class="rank-one", tuning="paper"
    ),
    "bandit, one action": lambda: bandit(kl.Points([[0.0]])),
    "bandit, contexts": lambda: bandit(contexts=SEGMENTS),
    "bandit, contexts of known shares": lambda: bandit(contexts=SHARED),
    "insured": insured,
    "insured, no horizon": lambda: insured(horizon=None),
    "insured, range learned": lambda: insured(horizon=3000, loss_range="learn"),
    "insured, rewards": lambda: insured(goal="maximize"),
    "insured, delay": lambda: insured(horizon=20_000, delay=5),
    "insured, hold": lambda: insured(horizon=20_000, hold=5),
    "insured, shares": lambda: insured(shares={(0, 1, 2): (0.2, 1.0)}),
    "insured, contexts": lambda: insured(horizon=4000, contexts=SEGMENTS),
    "insured, contexts of known shares": lambda: insured(horizon=4000, contexts=SHARED),
    "insured, long": lambda: insured(horizon=20_000),
}

PLAYS: dict[str, list[Callable[[Any], None]]] = {
    "bandit, epochs": [one_by_one, in_batches, late, forgetful],
    "bandit, rounds of one": [one_by_one, masked],
    "bandit, no horizon": [one_by_one, late],
    "bandit, range learned": [one_by_one],
    "bandit, hindsight": [one_by_one],
    "bandit, delay": [lambda one: late(one, 3), late],
    "bandit, widen": [beyond],
    "bandit, clip": [beyond],
    "bandit, rewards": [one_by_one, in_batches],
    "bandit, ball": [one_by_one],
    "bandit, contexts": [in_contexts],
    "bandit, contexts of known shares": [in_contexts],
    "insured": [one_by_one, forgetful, masked],
    "insured, range learned": [one_by_one],
    "insured, rewards": [one_by_one],
    "insured, long": [one_by_one, handed_over, late, grown, in_batches],
    "insured, delay": [late],
    "insured, hold": [late],
    "insured, contexts": [in_contexts],
    "insured, contexts of known shares": [in_contexts],
}

INFORMED: dict[str, Callable[[], tuple[Any, Any]]] = {
    "full, points": lambda: (kl.ExpWeights(LINE, SMOOTH, horizon=50, rng=0), KERNEL_LOSS),
    "full, no horizon": lambda: (kl.ExpWeights(LINE, SMOOTH, horizon=None, rng=0), KERNEL_LOSS),
    "full, ball": lambda: (
        kl.ExpWeights(kl.Ball(2), kl.Quadratic(), horizon=50, rng=0),
        QUADRATIC,
    ),
    "conditional gradient": lambda: (
        kl.ConditionalGradient(kl.Ball(2), kl.Quadratic(), horizon=50, rng=0),
        QUADRATIC,
    ),
    "leader": lambda: (
        kl.FollowTheRegularizedLeader(LINE, SMOOTH, horizon=50, rng=0),
        KERNEL_LOSS,
    ),
}


def texts() -> Iterator[tuple[str, str]]:
    """Name and text of every guarantee, before play and after it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, make in LEARNERS.items():
            rounds = {} if make().settings.horizon else {"rounds": 500}
            yield name, str(make().guarantee(**rounds))
            for k, play in enumerate(PLAYS.get(name, ())):
                learner = make()
                play(learner)
                yield f"{name}, after play {k + 1}", str(learner.guarantee(**rounds))
        for name, both in INFORMED.items():
            learner, loss = both()
            rounds = {} if learner.settings.horizon else {"rounds": 500}
            yield name, str(learner.guarantee(**rounds))
            full(learner, loss)
            yield f"{name}, after play", str(learner.guarantee(**rounds))


def as_text(pairs: Iterator[tuple[str, str]]) -> str:
    """As they are in the file."""
    return "\n\n".join(f"[{name}]\n{text}" for name, text in pairs) + "\n"


if __name__ == "__main__":
    GOLDEN.parent.mkdir(exist_ok=True)
    GOLDEN.write_text(as_text(texts()), encoding="utf-8")
