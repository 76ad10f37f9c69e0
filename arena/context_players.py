"""Who plays games with contexts: the library's learners, contextual GP-UCB, and one plain player for each context."""

from __future__ import annotations

import abc
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from arena.base import ContextChoice, ContextPlayer, Game, PlayerSpec
from arena.baselines import CENTRE, Exp3
from koloss.actions import Contexts, Points
from koloss.core.random import LEARNERS, as_generator
from koloss.kernels import Kernel
from koloss.learners import BanditExpWeights, InsuredBandit
from koloss.learners.insured.regression import Regression

TOLERANCE = 1e-4
"""Features of pairs with a smaller eigenvalue are left out, relative to the largest: far below the noise of GP-UCB."""


class DeterministicInContext(ContextPlayer):
    """A player whose next action follows from the context and what it has heard."""

    @abc.abstractmethod
    def best(self, context: int) -> int:
        """The action to play in a context, from all that was heard; the same until something is."""

    def distribution_for(self, context: int) -> Any:
        return np.eye(len(self.actions))[self.best(context)]

    def ask(self, context: int = 0) -> ContextChoice:
        return ContextChoice(self.best(context), 1.0, context)


class ContextGPUCB(DeterministicInContext):
    """Contextual GP-UCB: the smallest lower confidence bound of the loss in the context at hand.

    The prior is that of the product of the two kernels plus a constant, noise and width as in `GPUCB`. Krause and Ong (2011) with a
    fixed width.
    """

    def __init__(
        self, game: Game, _seed: Any = None, *, discount: float = 1.0, width: float = 1.0
    ) -> None:
        super().__init__(game)
        self.width = width
        self.forecaster = Regression(pair_features(game), discount=discount)

    def best(self, context: int) -> int:
        N, f = len(self.actions), self.forecaster
        here = slice(context * N, (context + 1) * N)
        return int(np.argmin(f.mean[here] - self.width * f.deviation[here]))

    def tell(self, decision: ContextChoice, loss: Any) -> None:
        pair = decision.context * len(self.actions) + decision.index
        self.forecaster.update(pair, float(loss) - CENTRE)


def pair_features(game: Game) -> Any:
    """Features of pairs: the product of the kernels plus 1, an array of shape (C N, m), the actions of the first context first.

    Eigenvectors of a product of Gram matrices are products of theirs; those of small eigenvalues are left out.

    Examples
    --------
    >>> from arena.games import games
    >>> Phi = pair_features(games()["weekdays"])
    >>> Phi.shape[0], 40 < Phi.shape[1] < 70
    (175, True)
    """
    assert game.contexts is not None
    roots = [_root(game.contexts.kernel, game.contexts.X), _root(game.kernel, game.points)]
    (U, u), (V, v) = roots
    sizes = np.outer(u, v).ravel()
    kept = sizes > TOLERANCE * sizes.max()
    Phi = np.kron(U, V)[:, kept] * np.sqrt(sizes[kept])
    return np.column_stack([Phi, np.ones(len(Phi))])


def _root(kernel: Kernel, X: Any) -> tuple[Any, Any]:
    """Eigenvectors of a Gram matrix, and its eigenvalues."""
    values, vectors = np.linalg.eigh(kernel(np.asarray(X, dtype=float)))
    return vectors, np.maximum(values, 0)


class PerContext(ContextPlayer):
    """One plain player for each context, which hears of the rounds of its own alone."""

    def __init__(self, game: Game, seed: Any, *, kind: Callable[[Game, Any], Any]) -> None:
        super().__init__(game)
        assert game.contexts is not None
        C = len(self.contexts)
        law = np.full(C, 1 / C) if game.contexts.weights is None else game.contexts.weights
        rounds = np.maximum(np.rint(game.rounds * law), 1).astype(int)
        self.players = [
            kind(replace(game, contexts=None, rounds=int(n)), rng)
            for n, rng in zip(rounds, as_generator(seed, LEARNERS).spawn(C), strict=True)
        ]

    def distribution_for(self, context: int) -> Any:
        return self.players[context].distribution

    def ask(self, context: int = 0) -> ContextChoice:
        choice = self.players[context].ask()
        return ContextChoice(choice.index, choice.probability, context, choice)

    def tell(self, decision: ContextChoice, loss: Any) -> None:
        self.players[decision.context].tell(decision.memory, loss)


def _learner(kind: type[Any], **settings: Any) -> Callable[[Game, Any], Any]:
    """How to make a learner of the library, told of the contexts what the game tells.

    Contexts share what is learned where their law is known; elsewhere they may come in any order.
    """

    def make(game: Game, seed: Any) -> Any:
        told = game.contexts
        assert told is not None
        options = {
            "horizon": game.rounds,
            "loss_range": game.loss_range,
            "contexts": Contexts(told.X, told.weights),
            "context_kernel": told.kernel,
            "rng": seed,
            **settings,
        }
        return kind(Points(np.asarray(game.points, dtype=float)), game.kernel, **options)

    return make


CONTEXT_LEARNERS = (
    PlayerSpec(
        "Insured, contexts", "insured-contexts", _learner(InsuredBandit), needs=(), where="contexts",
        summary="kl.InsuredBandit with contexts: lower confidence bounds for the context at hand, insured one context at a time",
    ),
    PlayerSpec(
        "Insured, Thompson, contexts", "insured-thompson-contexts", _learner(InsuredBandit, policy="thompson"), needs=(),
        where="contexts", summary="kl.InsuredBandit with contexts and Thompson sampling",
    ),
    PlayerSpec(
        "Exponential weights, contexts", "exp-weights-contexts", _learner(BanditExpWeights), needs=(), where="contexts",
        summary="kl.BanditExpWeights with contexts: features of pairs where the law of contexts is known, otherwise one for each",
    ),
)  # fmt: skip

CONTEXT_BASELINES = (
    PlayerSpec(
        "GP-UCB, contexts", "gp-ucb-contexts", ContextGPUCB, where="contexts",
        summary="NumPy, contextual GP-UCB: the product of the game's kernels plus a constant, noise 0.05, width 1",
    ),
    PlayerSpec(
        "GP-UCB, discounted, contexts", "gp-ucb-discounted-contexts", partial(ContextGPUCB, discount=0.99, width=0.3),
        where="contexts", summary="contextual GP-UCB that weighs a loss heard k rounds ago by 0.99^k, width 0.3",
    ),
    PlayerSpec(
        "EXP3, one per context", "exp3-contexts", partial(PerContext, kind=Exp3), needs=("range",), where="contexts",
        summary="NumPy, an EXP3 for each context, with the γ of its expected number of rounds",
    ),
)  # fmt: skip
