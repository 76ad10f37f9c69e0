"""Players from other packages in games with contexts, each behind a thin adapter, as in `peers`.

What a linear model is shown of contexts and actions, names or coordinates or both, makes a difference: on three games that are not in
the arena several ways were tried, and the best one kept.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from arena.base import ContextChoice, ContextPlayer, Game, PlayerSpec
from arena.baselines import DRAWS
from arena.context_players import DeterministicInContext, PerContext
from arena.peers import SLOW, RiverUCB, _imported, _integer, law_of_gittins
from koloss.core.random import LEARNERS, as_generator


class VowpalWabbitInContext(ContextPlayer):
    """Exploration of Vowpal Wabbit: costs regressed on the names of context and action, and on their products.

    Actions are parsed once for every context.
    """

    def __init__(self, game: Game, seed: Any, *, options: str) -> None:
        super().__init__(game)
        vw = _imported("vowpalwabbit", "vowpalwabbit")
        number = _integer(seed)
        self._rng = as_generator(seed, LEARNERS)
        self._workspace = vw.Workspace(
            f"--cb_explore_adf {options} -q ca --random_seed {number} --quiet"
        )
        self._lines = [f"|a n{k}" for k in range(len(self.actions))]
        self._examples = [
            self._workspace.parse([f"shared |c n{k}", *self._lines])
            for k in range(len(self.contexts))
        ]

    def distribution_for(self, context: int) -> Any:
        p = np.array(self._workspace.predict(self._examples[context]))
        return p / p.sum()  # a sum of single-precision numbers

    def ask(self, context: int = 0) -> ContextChoice:
        p = self.distribution_for(context)
        c = p.cumsum()
        index = int(c.searchsorted(self._rng.random() * c[-1], side="right"))
        return ContextChoice(index, float(p[index]), context)

    def tell(self, decision: ContextChoice, loss: Any) -> None:
        line = f"0:{float(loss)!r}:{decision.probability!r} {self._lines[decision.index]}"
        labelled = self._workspace.parse([line])
        examples = list(self._examples[decision.context])
        examples[decision.index + 1] = labelled[0]
        self._workspace.learn(examples)
        self._workspace.finish_example(labelled)


class MABWiserLinUCB(DeterministicInContext):
    """LinUCB of MABWiser: for every action a regression on the context's name."""

    def __init__(self, game: Game, seed: Any, *, alpha: float = 1.0) -> None:
        super().__init__(game)
        mab = _imported("mabwiser.mab", "mabwiser")
        self._shown = np.eye(len(self.contexts))
        self._mab = mab.MAB(
            list(range(len(self.actions))), self._policy(mab.LearningPolicy, alpha), seed=_integer(seed)
        )  # fmt: skip
        # It has to have heard something before it predicts: a context of zeros teaches it nothing.
        self._mab.fit([0], [0.0], np.zeros((1, self._shown.shape[1])))

    def _policy(self, policies: Any, alpha: float) -> Any:
        return policies.LinUCB(alpha=alpha)

    def best(self, context: int) -> int:
        return int(self._mab.predict(self._shown[[context]]))

    def tell(self, decision: ContextChoice, loss: Any) -> None:
        shown = self._shown[[decision.context]]
        self._mab.partial_fit([decision.index], [1 - float(loss)], shown)


class MABWiserLinTS(MABWiserLinUCB):
    """LinTS of MABWiser: the same with a draw from each posterior. Adversaries see 64 draws of its law."""

    def __init__(self, game: Game, seed: Any, *, alpha: float = 0.3) -> None:
        super().__init__(game, seed, alpha=alpha)
        self._show = as_generator(seed, LEARNERS).spawn(1)[0]

    def _policy(self, policies: Any, alpha: float) -> Any:
        return policies.LinTS(alpha=alpha)

    def distribution_for(self, context: int) -> Any:
        """Draws of the rewards, which are independent from action to action."""
        models = self._mab._imp.arm_to_model
        x, N = self._shown[context], len(self.actions)
        means = np.array([x @ models[arm].beta for arm in range(N)])
        deviations = [models[arm].alpha * math.sqrt(x @ models[arm].A_inv @ x) for arm in range(N)]
        draws = means + np.array(deviations) * self._show.standard_normal((DRAWS, N))
        return np.bincount(np.argmax(draws, axis=1), minlength=N) / DRAWS

    def ask(self, context: int = 0) -> ContextChoice:
        return ContextChoice(self.best(context), None, context)


class RiverLinUCB(DeterministicInContext):
    """LinUCB of river: for every action a Bayesian regression on the context's name and coordinates."""

    def __init__(self, game: Game, seed: Any) -> None:
        super().__init__(game)
        bandit = _imported("river.bandit", "river")
        self._arms = list(range(len(self.actions)))
        self._shown = [
            {f"n{k}": 1.0, **{f"x{j}": value for j, value in enumerate(row)}}
            for k, row in enumerate(self.contexts.tolist())
        ]
        self._policy = bandit.LinUCBDisjoint(seed=_integer(seed))
        self._next: dict[int, int] = {}  # by context: equals are drawn from

    def best(self, context: int) -> int:
        if context not in self._next:
            self._next[context] = int(self._policy.pull(self._arms, context=self._shown[context]))
        return self._next[context]

    def tell(self, decision: ContextChoice, loss: Any) -> None:
        self._policy.update(decision.index, self._shown[decision.context], 1 - float(loss))
        self._next.clear()


class CobaInContext(ContextPlayer):
    """LinUCB of coba on the context's name, the action's coordinates and their products of two and three, and all products."""

    def __init__(self, game: Game, seed: Any) -> None:
        super().__init__(game)
        learners = _imported("coba.learners", "coba")
        self._tuples = [tuple(row) for row in self.actions.tolist()]
        self._index = {id(action): i for i, action in enumerate(self._tuples)}
        self._shown = [tuple(row) for row in np.eye(len(self.contexts)).tolist()]
        features = [1, "a", "aa", "aaa", "x", "xa", "xaa", "xaaa"]
        self._learner = learners.LinUCBLearner(features=features, seed=_integer(seed))

    def distribution_for(self, context: int) -> Any:
        """The law that `predict` draws from: ties are broken at random."""
        return np.array(self._learner._pmf(self._shown[context], self._tuples))

    def ask(self, context: int = 0) -> ContextChoice:
        action, probability, *_ = self._learner.predict(self._shown[context], self._tuples)
        return ContextChoice(self._index[id(action)], probability, context)

    def tell(self, decision: ContextChoice, loss: Any) -> None:
        action, shown = self._tuples[decision.index], self._shown[decision.context]
        self._learner.learn(shown, action, 1 - float(loss), decision.probability)


class GittinsInContext(ContextPlayer):
    """The engine of gittins with its defaults, on names of contexts and actions."""

    def __init__(self, game: Game, seed: Any) -> None:
        super().__init__(game)
        self._gittins = _imported("gittins", "gittins")
        size = len(self.actions) * (1 + len(self.contexts))
        bits = max(12, math.ceil(math.log2(8 * size)))  # of its table, for few collisions
        self._state = self._gittins.create(bits=bits, horizon=2.0 * game.rounds)
        self._salt, self._time = str(_integer(seed)), 0
        self._candidates: list[Any] = [(str(k), {}) for k in range(len(self.actions))]

    def distribution_for(self, context: int) -> Any:
        decide = partial(self._decide, context=context)
        return law_of_gittins(self._gittins, self._state, decide)

    def _decide(self, state: Any, context: int, **options: Any) -> Any:
        told = {"context": f"c{context}"}
        return self._gittins.decide(state, told, self._candidates, float(self._time), self._salt, **options)  # fmt: skip

    def ask(self, context: int = 0) -> ContextChoice:
        self._time += 1
        record = self._decide(self._state, context)
        return ContextChoice(record.chosen, record.propensity, context, record.decision_id)

    def tell(self, decision: ContextChoice, loss: Any) -> None:
        self._gittins.learn(self._state, decision.memory, 1 - float(loss), float(self._time))


CONTEXT_PEERS = (
    PlayerSpec(
        "Vowpal Wabbit SquareCB, contexts", "vowpal-wabbit-squarecb-contexts",
        partial(VowpalWabbitInContext, options="--squarecb --gamma_scale 100"), package="vowpalwabbit", needs=("range",),
        where="contexts", summary="--cb_explore_adf --squarecb --gamma_scale 100 -q ca, on names of contexts and actions",
    ),
    PlayerSpec(
        "Vowpal Wabbit cover, contexts", "vowpal-wabbit-cover-contexts",
        partial(VowpalWabbitInContext, options="--cover 3"), package="vowpalwabbit", needs=("range",),
        where="contexts", summary="--cb_explore_adf --cover 3 -q ca, likewise",
    ),
    PlayerSpec(
        "Vowpal Wabbit RND, contexts", "vowpal-wabbit-rnd-contexts",
        partial(VowpalWabbitInContext, options="--rnd 3"), package="vowpalwabbit", needs=("range",),
        where="contexts", summary="--cb_explore_adf --rnd 3 -q ca, likewise",
    ),
    PlayerSpec(
        "MABWiser LinUCB", "mabwiser-linucb", MABWiserLinUCB, package="mabwiser", needs=("range",), where="contexts",
        summary="LearningPolicy.LinUCB, α = 1: for each action a regression on names of contexts",
    ),
    PlayerSpec(
        "MABWiser LinTS", "mabwiser-lints", MABWiserLinTS, package="mabwiser", needs=("range",), where="contexts",
        most_runs=SLOW, summary="LearningPolicy.LinTS, α = 0.3, likewise",
    ),
    PlayerSpec(
        "coba LinUCB, contexts", "coba-linucb-contexts", CobaInContext, package="coba", needs=("range",), where="contexts",
        most_runs=SLOW, summary="LinUCBLearner, α = 1, features 1, a, aa, aaa, and their products with x: names of contexts",
    ),
    PlayerSpec(
        "river LinUCB", "river-linucb", RiverLinUCB, package="river", needs=("range",), where="contexts",
        most_runs=SLOW, summary="bandit.LinUCBDisjoint with its defaults, on names and coordinates of contexts",
    ),
    PlayerSpec(
        "river UCB, one per context", "river-ucb-contexts", partial(PerContext, kind=RiverUCB), package="river",
        needs=("range",), where="contexts", summary="bandit.UCB with δ = 1 for each context",
    ),
    PlayerSpec(
        "gittins, contexts", "gittins-contexts", GittinsInContext, package="gittins", needs=("range",), where="contexts",
        summary="create and decide with their defaults, on names of contexts and actions",
    ),
)  # fmt: skip
