"""Classical players in NumPy, and what they share with adapters of other packages."""

from __future__ import annotations

import abc
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from arena.base import Choice, ContextPlayer, Game, Player
from koloss.actions import Points
from koloss.core.random import LEARNERS, as_generator
from koloss.kernels import Kernel
from koloss.learners.insured.regression import Regression
from koloss.proxy import exact_features, pivoted_cholesky

CENTRE = 0.5
"""Of losses in [0, 1]: what a Gaussian process expects before it has heard anything."""

TOLERANCE, PAIRS = 1e-6, 1e-4
"""Error of the features of a Gaussian process, relative to the largest K(a, a); and the smallest eigenvalue of pairs, relative to
the largest: far below the noise of GP-UCB."""

DRAWS = 64
"""Posterior draws from which the law of Thompson sampling is estimated."""


class Randomised(Player):
    """A player that knows its law, computed once from all that was heard, and draws from it."""

    def __init__(self, game: Game, seed: Any) -> None:
        super().__init__(game)
        self._rng = as_generator(seed, LEARNERS)
        self._next: Any = None  # the law, once it is known

    @abc.abstractmethod
    def law(self) -> Any:
        """Probability of every action, from all that was heard."""

    @property
    def distribution(self) -> Any:
        if self._next is None:
            self._next = self.law()
        return self._next

    def ask(self) -> Choice:
        p = self.distribution
        index = draw(p, self._rng)
        return Choice(index, float(p[index]))

    @abc.abstractmethod
    def learn(self, choice: Choice, loss: Any) -> None:
        """Take in the loss of a choice."""

    def tell(self, decision: Choice, loss: Any) -> None:
        self.learn(decision, loss)
        self._next = None


def draw(p: Any, rng: np.random.Generator) -> int:
    """An action with these probabilities."""
    c = p.cumsum()
    return int(c.searchsorted(rng.random() * c[-1], side="right"))


class Deterministic(ContextPlayer):
    """A player whose next action follows from the context, where there are any, and what it has heard."""

    def __init__(self, game: Game) -> None:
        super().__init__(game)
        self._next: dict[int | None, int] = {}  # by context

    @abc.abstractmethod
    def best(self, context: int | None) -> int:
        """The action to play in a context, from all that was heard."""

    @abc.abstractmethod
    def learn(self, choice: Choice, loss: Any) -> None:
        """Take in the loss of a choice."""

    def distribution_for(self, context: int | None) -> Any:
        """All mass on the action of the next `ask`."""
        return np.eye(len(self.actions))[self.ask(context).index]

    def ask(self, context: int | None = None) -> Choice:
        if context not in self._next:
            self._next[context] = self.best(context)
        return Choice(self._next[context], 1.0, context)

    def tell(self, decision: Choice, loss: Any) -> None:
        self.learn(decision, loss)
        self._next.clear()


# Baselines.


class Uniform(Randomised):
    """Every action with the same probability, whatever happens."""

    def law(self) -> Any:
        return np.full(len(self.actions), 1 / len(self.actions))

    def learn(self, choice: Choice, loss: Any) -> None:
        pass


class Exp3(Randomised):
    """Exponential weights for adversarial bandits, with gains 1 - loss and weights in log space.

    p = (1 - γ)w/Σw + γ/N, and the weight of the action that was played is multiplied by exp(γ gain/(pN)).
    Auer, Cesa-Bianchi, Freund and Schapire (2002), Corollary 3.2: γ = min(1, √(N log N / ((e - 1)n))).
    """

    def __init__(self, game: Game, seed: Any) -> None:
        super().__init__(game, seed)
        self.exploration = exp3_exploration(len(self.actions), game.rounds)
        self.log_weights = np.zeros(len(self.actions))

    def law(self) -> Any:
        w, gamma = np.exp(self.log_weights - self.log_weights.max()), self.exploration
        return (1 - gamma) / w.sum() * w + gamma / len(w)

    def learn(self, choice: Choice, loss: Any) -> None:
        # The probability is the one of the draw, so that a late loss counts as it should.
        assert choice.probability is not None
        estimate = (1 - float(loss)) / choice.probability
        self.log_weights[choice.index] += self.exploration / len(self.actions) * estimate


def exp3_exploration(actions: int, rounds: int) -> float:
    """γ of EXP3 for so many actions and rounds, whose best gain is at most the number of rounds."""
    return min(1.0, math.sqrt(actions * math.log(actions) / ((math.e - 1) * rounds)))


class GPUCB(Deterministic):
    """GP-UCB: the smallest lower confidence bound of the loss, mean - width * deviation.

    The prior is that of the game's kernel plus a constant of variance 1, around `CENTRE`; losses are heard with
    a noise of variance 0.05. Srinivas, Krause, Kakade and Seeger (2010), with contexts Krause and Ong (2011), with a fixed width;
    with a discount below 1, a loss heard k rounds ago has its noise multiplied by discount^-k.
    """

    def __init__(
        self, game: Game, _seed: Any = None, *, discount: float = 1.0, width: float = 1.0
    ) -> None:
        super().__init__(game)
        self.width = width
        Phi = features(game) if game.contexts is None else pair_features(game)
        self.forecaster = Regression(Phi, discount=discount)

    def best(self, context: int | None) -> int:
        N, f = len(self.actions), self.forecaster
        here = slice((context or 0) * N, ((context or 0) + 1) * N)
        return int(np.argmin(f.mean[here] - self.width * f.deviation[here]))

    def learn(self, choice: Choice, loss: Any) -> None:
        pair = (choice.context or 0) * len(self.actions) + choice.index
        self.forecaster.update(pair, float(loss) - CENTRE)


class GPThompson(Player):
    """Thompson sampling: the smallest loss of a draw from the posterior of `GPUCB`, its deviation times `scale`.

    Its law has no formula. What adversaries see is the share of each action in 64 draws that are made for them, with
    random numbers of their own.
    """

    def __init__(self, game: Game, seed: Any, *, discount: float = 1.0, scale: float = 1.0) -> None:
        super().__init__(game)
        self.scale = scale
        self.forecaster = Regression(features(game), discount=discount)
        self._rng = as_generator(seed, LEARNERS)
        self._show = self._rng.spawn(1)[0]
        self._root: Any = None
        self._law: Any = None

    @property
    def distribution(self) -> Any:
        """An estimate of the probability of every action in the next `ask`."""
        if self._law is None:
            best = self._draw(DRAWS, self._show)
            self._law = np.bincount(best, minlength=len(self.actions)) / DRAWS
        return self._law

    def ask(self) -> Choice:
        """The best action of a draw."""
        return Choice(int(self._draw(1, self._rng)[0]), None)

    def tell(self, decision: Choice, loss: Any) -> None:
        self.forecaster.update(decision.index, float(loss) - CENTRE)
        self._root = self._law = None

    def _draw(self, count: int, rng: np.random.Generator) -> Any:
        """The best actions of some draws from the posterior."""
        f = self.forecaster
        if self._root is None:
            self._root = self.scale * np.linalg.cholesky(f.covariance)
        z = rng.standard_normal((len(self._root), count))
        return np.argmin(f.features @ (f.weights[:, None] + self._root @ z), axis=0)


def features(game: Game) -> Any:
    """Features of the prior of a Gaussian process: the game's kernel plus 1, an array of shape (N, m).

    Exact where the kernel has at most as many features as there are points, otherwise up to `TOLERANCE`.
    """
    X = np.asarray(game.points, dtype=float)
    actions, size = Points(X), game.kernel.feature_dimension(X.shape[1])
    if size is not None and size <= len(X):
        proxy = exact_features(game.kernel, actions)
    else:
        top = float(np.max(game.kernel.diag(X)))
        proxy = pivoted_cholesky(game.kernel, actions, tolerance=TOLERANCE * top)
    return np.column_stack([proxy.features, np.ones(len(X))])


def pair_features(game: Game) -> Any:
    """Features of pairs: the product of the kernels plus 1, an array of shape (C N, m), the actions of the first context first.

    Eigenvectors of a product of Gram matrices are products of theirs; those of small eigenvalues are left out.
    """
    assert game.contexts is not None
    roots = [_root(game.contexts.kernel, game.contexts.X), _root(game.kernel, game.points)]
    (U, u), (V, v) = roots
    sizes = np.outer(u, v).ravel()
    kept = sizes > PAIRS * sizes.max()
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

    def ask(self, context: int = 0) -> Choice:
        choice = self.players[context].ask()
        return Choice(choice.index, choice.probability, context, choice)

    def tell(self, decision: Choice, loss: Any) -> None:
        self.players[decision.context].tell(decision.memory, loss)
