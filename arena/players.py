"""Who plays in the arena: the library's own learners, classical baselines, and peers from other packages."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from arena.base import Game, PlayerSpec
from arena.baselines import GPUCB, Exp3, GPThompson, Uniform
from arena.context_peers import CONTEXT_PEERS
from arena.context_players import CONTEXT_BASELINES, CONTEXT_LEARNERS
from arena.peers import PEERS
from koloss.actions import Points
from koloss.learners import BanditExpWeights, InsuredBandit


def players() -> dict[str, PlayerSpec]:
    """All players by their slugs, in the order of the table.

    Examples
    --------
    >>> import numpy as np
    >>> import koloss as kl
    >>> from arena.base import Game
    >>> points = np.linspace(0, 1, 5)[:, None]
    >>> losses = kl.games.Replay([np.abs(points[:, 0] - 0.5)])
    >>> game = Game(
    ...     "valley", "held-out", "kind", "", points, kl.Gaussian(0.3), 50, lambda seed: losses
    ... )
    >>> player, adversary = players()["gp-ucb"].make(game, 0), game.make(0)
    >>> for t in range(game.rounds):
    ...     decision = player.ask()
    ...     player.tell(decision, adversary(t)[decision.index])
    >>> int(np.argmax(player.distribution))
    2
    """
    plain, contexts = (*LEARNERS, *BASELINES, *PEERS), (*CONTEXT_LEARNERS, *CONTEXT_BASELINES, *CONTEXT_PEERS)  # fmt: skip
    return {spec.slug: spec for spec in (*plain, *contexts)}


def _learner(kind: type[Any], **settings: Any) -> Callable[[Game, Any], Any]:
    """How to make a learner of the library: with the game's horizon unless there is another.

    What is unknown of a game it learns, except with the tuning of the paper, which has no way to.
    """

    def make(game: Game, seed: Any) -> Any:
        unknown = () if settings.get("tuning") == "paper" else game.unknown
        loss_range = "learn" if "range" in unknown else game.loss_range
        kernel = "auto" if "kernel" in unknown else game.kernel
        options = {"horizon": game.rounds, "loss_range": loss_range, "rng": seed, **settings}
        return kind(Points(np.asarray(game.points, dtype=float)), kernel, **options)

    return make


LEARNERS = (
    PlayerSpec(
        "Insured", "insured", _learner(InsuredBandit), where="both",
        needs=(), summary="kl.InsuredBandit: lower confidence bounds of forecasts, insured by exponential weights",
    ),
    PlayerSpec(
        "Insured, Thompson", "insured-thompson", _learner(InsuredBandit, policy="thompson"),
        needs=(), summary="kl.InsuredBandit with Thompson sampling in place of confidence bounds",
    ),
    PlayerSpec(
        "Insured, no horizon", "insured-anytime", _learner(InsuredBandit, horizon=None),
        needs=(), summary="kl.InsuredBandit that is not told the number of rounds",
    ),
    PlayerSpec(
        "Exponential weights", "exp-weights", _learner(BanditExpWeights), where="both",
        needs=(), summary="kl.BanditExpWeights: EXP2 with a G-optimal design, rates that minimise the proved bound",
    ),
    PlayerSpec(
        "Exponential weights, paper", "exp-weights-paper", _learner(BanditExpWeights, tuning="paper"),
        summary="kl.BanditExpWeights with the rates of the paper's Corollary",
    ),
    PlayerSpec(
        "Exponential weights, no horizon", "exp-weights-anytime", _learner(BanditExpWeights, horizon=None, batch=1),
        needs=(), summary="kl.BanditExpWeights that is not told the number of rounds, in epochs of one round",
    ),
)  # fmt: skip

BASELINES = (
    PlayerSpec(
        "EXP3", "exp3", Exp3, needs=("range",),
        summary="NumPy, weights in log space, γ = √(N log N / ((e - 1)n)); does not use the kernel",
    ),
    PlayerSpec("Uniform", "uniform", Uniform, needs=(), where="both", summary="every action with the same probability"),
    PlayerSpec(
        "GP-UCB", "gp-ucb", GPUCB,
        summary="NumPy, the game's kernel plus a constant, noise 0.05, width 1",
    ),
    PlayerSpec(
        "GP-UCB, discounted", "gp-ucb-discounted", partial(GPUCB, discount=0.98, width=0.3),
        summary="GP-UCB that weighs a loss heard k rounds ago by 0.98^k, width 0.3",
    ),
    PlayerSpec(
        "GP Thompson sampling", "gp-thompson", GPThompson,
        summary="NumPy, draws from the posterior of GP-UCB; adversaries see 64 draws of its law",
    ),
    PlayerSpec(
        "GP Thompson sampling, discounted", "gp-thompson-discounted", partial(GPThompson, discount=0.98, scale=0.3),
        summary="Thompson sampling that weighs a loss heard k rounds ago by 0.98^k, deviation times 0.3",
    ),
)  # fmt: skip
