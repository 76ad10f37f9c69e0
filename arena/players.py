"""Who plays in the arena: the library's own learners, classical baselines, and peers from other packages."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from arena.base import Game, PlayerSpec
from arena.baselines import GPUCB, Exp3, GPThompson, PerContext, Uniform
from arena.peers import CONTEXT_PEERS, PEERS
from koloss.actions import Contexts, Points
from koloss.learners import BanditExpWeights, InsuredBandit


def players() -> dict[str, PlayerSpec]:
    """All players by their slugs, in the order of the table."""
    plain, contexts = (*LEARNERS, *BASELINES, *PEERS), (*CONTEXT_LEARNERS, *CONTEXT_BASELINES, *CONTEXT_PEERS)  # fmt: skip
    return {spec.slug: spec for spec in (*plain, *contexts)}


def _learner(kind: type[Any], *, contexts: bool = False, **settings: Any) -> Callable[[Game, Any], Any]:  # fmt: skip
    """How to make a learner of the library: with the game's horizon unless there is another, and with contexts if so said.

    What is unknown of a game it learns, except with the tuning of the paper, which has no way to. Contexts share what is learned
    where their law is known; elsewhere they may come in any order.
    """

    def make(game: Game, seed: Any) -> Any:
        unknown = () if settings.get("tuning") == "paper" else game.unknown
        loss_range = "learn" if "range" in unknown else game.loss_range
        kernel = "auto" if "kernel" in unknown else game.kernel
        options: dict[str, Any] = {"horizon": game.rounds, "loss_range": loss_range, "rng": seed}
        if contexts and (told := game.contexts) is not None:
            options["contexts"] = Contexts(told.X, told.weights)
            options["context_kernel"] = told.kernel
        options |= settings
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

CONTEXT_LEARNERS = (
    PlayerSpec(
        "Insured, contexts", "insured-contexts", _learner(InsuredBandit, contexts=True), needs=(), where="contexts",
        summary="kl.InsuredBandit with contexts: lower confidence bounds for the context at hand, insured one context at a time",
    ),
    PlayerSpec(
        "Insured, Thompson, contexts", "insured-thompson-contexts", _learner(InsuredBandit, contexts=True, policy="thompson"), needs=(),
        where="contexts", summary="kl.InsuredBandit with contexts and Thompson sampling",
    ),
    PlayerSpec(
        "Exponential weights, contexts", "exp-weights-contexts", _learner(BanditExpWeights, contexts=True), needs=(), where="contexts",
        summary="kl.BanditExpWeights with contexts: features of pairs where the law of contexts is known, otherwise one for each",
    ),
)  # fmt: skip

CONTEXT_BASELINES = (
    PlayerSpec(
        "GP-UCB, contexts", "gp-ucb-contexts", GPUCB, where="contexts",
        summary="NumPy, contextual GP-UCB: the product of the game's kernels plus a constant, noise 0.05, width 1",
    ),
    PlayerSpec(
        "GP-UCB, discounted, contexts", "gp-ucb-discounted-contexts", partial(GPUCB, discount=0.99, width=0.3),
        where="contexts", summary="contextual GP-UCB that weighs a loss heard k rounds ago by 0.99^k, width 0.3",
    ),
    PlayerSpec(
        "EXP3, one per context", "exp3-contexts", partial(PerContext, kind=Exp3), needs=("range",), where="contexts",
        summary="NumPy, an EXP3 for each context, with the γ of its expected number of rounds",
    ),
)  # fmt: skip
