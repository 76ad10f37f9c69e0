"""Players from other packages, each behind a thin adapter, with its default settings or those in its summary.

A package is imported when its player is made; `pip install --group arena` brings them. They are told 1 - loss where they
want rewards. Where a package does not say the law of its next action, it is computed from the package's own state. What a linear
model is shown of contexts and actions, names or coordinates or both, makes a difference: on three games that are not in the arena
several ways were tried, and the best one kept.
"""

from __future__ import annotations

import contextlib
import importlib
import math
import warnings
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from arena.base import Choice, ContextPlayer, Game, Player, PlayerSpec
from arena.baselines import (
    DRAWS,
    Deterministic,
    PerContext,
    Randomised,
    draw,
    exp3_exploration,
)
from koloss.core.random import LEARNERS, as_generator

WINDOW = 200
"""Observations that the Gaussian process of BoTorch keeps."""

SLOW = 1
"""Runs of those that take over ten milliseconds a round."""

REFIT = 50
"""Most rounds between two fits of its hyperparameters."""


class RiverExp3(Player):
    """EXP3 of river, with the tuning of the article that its documentation cites."""

    def __init__(self, game: Game, seed: Any) -> None:
        super().__init__(game)
        bandit = _imported("river.bandit", "river")
        self._arms = list(range(len(self.actions)))
        self._policy = bandit.Exp3(
            gamma=exp3_exploration(len(self._arms), game.rounds), seed=_integer(seed)
        )

    @property
    def distribution(self) -> Any:
        """The law that the next pull computes from the same weights."""
        gamma, weights = self._policy.gamma, self._policy._weights
        w = np.array([weights[arm] for arm in self._arms])
        return (1 - gamma) / w.sum() * w + gamma / len(w)

    def ask(self) -> Choice:
        index = self._policy.pull(self._arms)
        return Choice(index, self._policy._probabilities[index])

    def tell(self, decision: Choice, loss: Any) -> None:
        self._policy.update(decision.index, 1 - float(loss))


class RiverUCB(Deterministic):
    """UCB of river, for rewards in [0, 1], and in its own environments in their own units."""

    def __init__(self, game: Game, seed: Any) -> None:
        super().__init__(game)
        bandit = _imported("river.bandit", "river")
        self._arms, self._unit = list(range(len(self.actions))), _unit(game, "river")
        self._policy = bandit.UCB(delta=1, seed=_integer(seed))

    def best(self, _context: int | None) -> int:
        return int(self._policy.pull(self._arms))

    def learn(self, choice: Choice, loss: Any) -> None:
        self._policy.update(choice.index, self._unit * (1 - float(loss)))


class PyXABHCT(Deterministic):
    """A high-confidence tree of PyXAB on the bounding box; its points are moved to the nearest action."""

    def __init__(self, game: Game, seed: Any, *, name: str = "HCT") -> None:
        super().__init__(game)
        HCT = getattr(_imported(f"PyXAB.algos.{name}", "PyXAB"), name)
        from scipy.spatial import KDTree

        low, high = self.actions.min(axis=0), self.actions.max(axis=0)
        if game.home == "PyXAB":  # the actions are middles of cells, and the domain has whole cells
            half = (high - low) / (2 * len(np.unique(self.actions[:, 0])) - 2)
            low, high = low - half, high + half
        self._unit = _unit(game, "PyXAB")
        self._tree, self._legacy, self._time = KDTree(self.actions), _Legacy(seed), 0
        with self._legacy.swapped():
            self._algorithm = HCT(domain=np.column_stack([low, high]).tolist())

    def best(self, _context: int | None) -> int:
        return int(self._tree.query(self._algorithm.pull(self._time + 1))[1])

    def learn(self, choice: Choice, loss: Any) -> None:
        self._time += 1
        with self._legacy.swapped():  # a new node is cut along a random axis
            self._algorithm.receive_reward(self._time, self._unit * (1 - float(loss)))


class VowpalWabbit(ContextPlayer):
    """Exploration of Vowpal Wabbit: costs regressed on coordinates of actions, or on names of contexts and actions; and on products.

    Actions are parsed once: reading 400 lines a round would take six times as long as learning from them.
    """

    def __init__(
        self, game: Game, seed: Any, *, options: str = "--squarecb --gamma_scale 100"
    ) -> None:
        super().__init__(game)
        vw, self._rng = _imported("vowpalwabbit", "vowpalwabbit"), as_generator(seed, LEARNERS)
        rows, C = self.actions.tolist(), len(self.contexts)
        self._lines = [f"|a n{k}" for k in range(len(rows))] if C else [
            "|a " + " ".join(f"x{j}:{value!r}" for j, value in enumerate(row)) for row in rows
        ]  # fmt: skip
        products = f"-q ca --random_seed {_integer(seed)}" if C else "-q aa"
        self._workspace = vw.Workspace(f"--cb_explore_adf {options} {products} --quiet")
        shared = {k: f"shared |c n{k}" for k in range(C)} or {None: "shared |"}
        self._examples = {
            c: self._workspace.parse([one, *self._lines]) for c, one in shared.items()
        }

    def distribution_for(self, context: int | None) -> Any:
        p = np.array(self._workspace.predict(self._examples[context]))
        return p / p.sum()  # a sum of single-precision numbers

    def ask(self, context: int | None = None) -> Choice:
        p = self.distribution_for(context)
        index = draw(p, self._rng)
        return Choice(index, float(p[index]), context)

    def tell(self, decision: Choice, loss: Any) -> None:
        line = f"0:{float(loss)!r}:{decision.probability!r} {self._lines[decision.index]}"
        labelled = self._workspace.parse([line])
        examples = list(self._examples[decision.context])
        examples[decision.index + 1] = labelled[0]
        self._workspace.learn(examples)
        self._workspace.finish_example(labelled)


class BoTorchUCB(Deterministic):
    """Upper confidence bounds of BoTorch's `SingleTaskGP`, whose hyperparameters are fitted now and then.

    It keeps the latest 200 observations: a model is made in every round, at the cube of their number.
    """

    def __init__(self, game: Game, seed: Any) -> None:
        super().__init__(game)
        self._botorch, self._gpytorch = (_imported(m, "botorch") for m in ("botorch", "gpytorch"))
        self._torch = _imported("torch", "botorch")
        self._X = self._torch.tensor(self.actions, dtype=self._torch.float64)
        self._bounds = self._torch.stack([self._X.min(0).values, self._X.max(0).values])
        self._first = int(as_generator(seed, LEARNERS).integers(len(self.actions)))
        self._heard: list[tuple[int, float]] = []
        self._count, self._due = 0, 1
        self._fitted: Any = None

    def best(self, _context: int | None) -> int:
        if self._count == 0:
            return self._first
        with warnings.catch_warnings():
            # Losses that are all the same cannot be standardised, it says in every round.
            warnings.simplefilter("ignore", self._botorch.exceptions.BotorchWarning)
            model = self._model()
        bound = self._botorch.acquisition.UpperConfidenceBound(model, beta=1.0, maximize=False)
        with self._torch.no_grad():
            return int(bound(self._X[:, None]).argmax())

    def learn(self, choice: Choice, loss: Any) -> None:
        self._heard = [*self._heard, (choice.index, float(loss))][-WINDOW:]
        self._count += 1

    def _model(self) -> Any:
        """The Gaussian process of the latest losses."""
        index, losses = zip(*self._heard, strict=True)
        d = self._X.shape[1]
        model = self._botorch.models.SingleTaskGP(
            self._X[list(index)],
            self._torch.tensor(losses, dtype=self._torch.float64)[:, None],
            input_transform=self._botorch.models.transforms.Normalize(d, bounds=self._bounds),
        )
        if self._fitted is not None:
            model.load_state_dict(self._fitted, strict=False)
        if self._count >= self._due:
            likelihood = self._gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model)
            self._botorch.fit_gpytorch_mll(likelihood)
            self._due = self._count + min(self._count, REFIT)
            # Its hyperparameters, not what the transforms know of these very losses.
            self._fitted = {
                name: value for name, value in model.state_dict().items() if "transform" not in name
            }
        return model.eval()


class CobaLinUCB(ContextPlayer):
    """LinUCB of coba on the coordinates, and in up to five dimensions on their products of two and three.

    With contexts also on their names, and on products of names with all those.
    """

    def __init__(self, game: Game, seed: Any) -> None:
        super().__init__(game)
        learners = _imported("coba.learners", "coba")
        self._tuples = [tuple(row) for row in self.actions.tolist()]
        self._index = {id(action): i for i, action in enumerate(self._tuples)}
        names = np.eye(len(self.contexts)).tolist()
        self._shown: dict[int | None, Any] = {
            None: None,
            **{k: tuple(x) for k, x in enumerate(names)},
        }
        self._learner = self._make(learners, game, _integer(seed))

    def _make(self, learners: Any, game: Game, seed: int) -> Any:
        powers = ["aa", "aaa"] if self.actions.shape[1] <= 5 or len(self.contexts) else []
        products = ["x", *(f"x{one}" for one in ("a", *powers))] if len(self.contexts) else []
        return learners.LinUCBLearner(features=[1, "a", *powers, *products], seed=seed)

    def distribution_for(self, context: int | None) -> Any:
        """The law that `predict` draws from: ties are broken at random."""
        return np.array(self._learner._pmf(self._shown[context], self._tuples))

    def ask(self, context: int | None = None) -> Choice:
        action, probability, *memory = self._learner.predict(self._shown[context], self._tuples)
        return Choice(self._index[id(action)], probability, context, (memory or [{}])[0])

    def tell(self, decision: Choice, loss: Any) -> None:
        action, shown = self._tuples[decision.index], self._shown[decision.context]
        self._learner.learn(shown, action, 1 - float(loss), decision.probability, **decision.memory)


class CobaCorral(CobaLinUCB):
    """Corral of coba over LinUCB and an ε-greedy bandit."""

    def _make(self, learners: Any, game: Game, seed: int) -> Any:
        self._band = [
            super()._make(learners, game, seed),
            learners.BanditEpsilonLearner(0.05, seed=seed + 1),
        ]
        return learners.CorralLearner(self._band, T=game.rounds, mode="off-policy", seed=seed + 2)

    def distribution_for(self, context: int | None) -> Any:
        """The learners' own laws, mixed as Corral mixes their draws."""
        laws = [learner._pmf(None, self._tuples) for learner in self._band]
        p = np.asarray(self._learner._p_bars)
        return (p / p.sum()) @ np.array(laws)  # it solves for a sum of one to four digits


class Gittins(ContextPlayer):
    """The engine of gittins with its defaults: greedy but for a share ε; on names alone, with which it did better."""

    def __init__(self, game: Game, seed: Any) -> None:
        super().__init__(game)
        self._gittins = _imported("gittins", "gittins")
        size = len(self.actions) * (1 + len(self.contexts))
        bits = max(12, math.ceil(math.log2(8 * size)))  # of its table, for few collisions
        self._state = self._gittins.create(bits=bits, horizon=2.0 * game.rounds)
        self._salt, self._time = str(_integer(seed)), 0
        self._candidates: list[Any] = [(str(k), {}) for k in range(len(self.actions))]

    def distribution_for(self, context: int | None) -> Any:
        """1 - ε on the best estimate, shared by equals, and ε on all: a copy decides by what it is shown."""
        law: Any = None

        def explore(estimates: list[float], epsilon: float) -> Any:
            nonlocal law
            values = np.array(estimates)
            best = values == values.max()
            law = (1 - epsilon) / best.sum() * best + epsilon / len(best)
            return law.tolist()

        copy = self._gittins.deserialize(self._gittins.serialize(self._state))
        self._decide(copy, context, explore=explore)
        return law

    def _decide(self, state: Any, context: int | None, **options: Any) -> Any:
        told = {} if context is None else {"context": f"c{context}"}
        return self._gittins.decide(state, told, self._candidates, float(self._time), self._salt, **options)  # fmt: skip

    def ask(self, context: int | None = None) -> Choice:
        self._time += 1
        record = self._decide(self._state, context)
        return Choice(record.chosen, record.propensity, context, record.decision_id)

    def tell(self, decision: Choice, loss: Any) -> None:
        self._gittins.learn(self._state, decision.memory, 1 - float(loss), float(self._time))


class MABWiserLinUCB(Deterministic):
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

    def best(self, context: int | None) -> int:
        return int(self._mab.predict(self._shown[[context]]))

    def learn(self, choice: Choice, loss: Any) -> None:
        shown = self._shown[[choice.context]]
        self._mab.partial_fit([choice.index], [1 - float(loss)], shown)


class MABWiserLinTS(MABWiserLinUCB):
    """LinTS of MABWiser: the same with a draw from each posterior. Adversaries see 64 draws of its law."""

    def __init__(self, game: Game, seed: Any, *, alpha: float = 0.3) -> None:
        super().__init__(game, seed, alpha=alpha)
        self._show = as_generator(seed, LEARNERS).spawn(1)[0]

    def _policy(self, policies: Any, alpha: float) -> Any:
        return policies.LinTS(alpha=alpha)

    def distribution_for(self, context: int | None) -> Any:
        """Draws of the rewards, which are independent from action to action."""
        models = self._mab._imp.arm_to_model
        x, N = self._shown[context], len(self.actions)
        means = np.array([x @ models[arm].beta for arm in range(N)])
        deviations = [models[arm].alpha * math.sqrt(x @ models[arm].A_inv @ x) for arm in range(N)]
        draws = means + np.array(deviations) * self._show.standard_normal((DRAWS, N))
        return np.bincount(np.argmax(draws, axis=1), minlength=N) / DRAWS

    def ask(self, context: int | None = None) -> Choice:
        return Choice(self.best(context), None, context)


class RiverLinUCB(Deterministic):
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

    def best(self, context: int | None) -> int:
        return int(self._policy.pull(self._arms, context=self._shown[context or 0]))

    def learn(self, choice: Choice, loss: Any) -> None:
        self._policy.update(choice.index, self._shown[choice.context or 0], 1 - float(loss))


class NoRegretMWU(Randomised):
    """Multiplicative weights of noregret, told the losses of all actions, with the rate √(8 log N / n)."""

    feedback = "full"

    def __init__(self, game: Game, seed: Any) -> None:
        super().__init__(game, seed)
        minimizers = _imported("noregret.regret_minimizers", "noregret")
        N = len(self.actions)
        self._minimizer = minimizers.MultiplicativeWeightsUpdate(
            N,
            math.sqrt(8 * math.log(N) / game.rounds),
            is_time_symmetric=True,  # keeps no list of all strategies
        )

    def law(self) -> Any:
        return self._minimizer.next_strategy()

    def learn(self, choice: Choice, loss: Any) -> None:
        self._minimizer.observe_utility(1 - np.asarray(loss, dtype=float))


# Helpers.


def _imported(module: str, package: str) -> Any:
    """A module of another package, or an error that says what to do."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        if isinstance(error, ModuleNotFoundError) and module.startswith(error.name or module):
            message = f"this player needs {package}: pip install --group arena"
        else:
            message = f"this player needs {package}, which cannot be imported: {error}"
        raise ImportError(message) from error


def _unit(game: Game, package: str) -> float:
    """What losses are to be multiplied by: their range where the environment is the package's own, whose settings are for it."""
    low, high = game.loss_range
    return high - low if game.home == package else 1.0


def _integer(seed: Any) -> int:
    """A seed for packages that want an integer."""
    return int(as_generator(seed, LEARNERS).integers(2**30))


class _Legacy:
    """A stream of its own for packages that draw from NumPy's global generator, which is left as it was."""

    def __init__(self, seed: Any) -> None:
        self._state: Any = np.random.RandomState(_integer(seed)).get_state()

    @contextlib.contextmanager
    def swapped(self) -> Iterator[None]:
        """The global generator is this stream."""
        others = np.random.get_state()  # noqa: NPY002
        np.random.set_state(self._state)  # noqa: NPY002
        try:
            yield
        finally:
            self._state = np.random.get_state()  # noqa: NPY002
            np.random.set_state(others)  # noqa: NPY002


PEERS = (
    PlayerSpec(
        "river EXP3", "river-exp3", RiverExp3, package="river", needs=("range",),
        summary="bandit.Exp3, γ = √(N log N / ((e - 1)n)); divides a late loss by the latest probability",
    ),
    PlayerSpec(
        "river UCB", "river-ucb", RiverUCB, package="river", needs=("range",),
        summary="bandit.UCB with δ = 1, at home in its own units; does not use coordinates",
    ),
    PlayerSpec(
        "PyXAB HCT", "pyxab-hct", PyXABHCT, package="PyXAB", needs=("range",), late=False,
        summary="HCT on the bounding box with its default settings (at home in its own units), moved to the nearest action",
    ),
    PlayerSpec(
        "PyXAB VHCT", "pyxab-vhct", partial(PyXABHCT, name="VHCT"), package="PyXAB", needs=("range",), late=False,
        most_runs=2, summary="VHCT, which knows variances, on the bounding box with its default settings, likewise",
    ),
    PlayerSpec(
        "Vowpal Wabbit SquareCB", "vowpal-wabbit-squarecb", VowpalWabbit, package="vowpalwabbit", needs=("range",),
        summary="--cb_explore_adf --squarecb --gamma_scale 100 -q aa, coordinates as features",
    ),
    PlayerSpec(
        "BoTorch UCB", "botorch-ucb", BoTorchUCB, package="botorch", most_runs=SLOW, needs=(),
        summary=f"SingleTaskGP with its default kernel, fitted at most every {REFIT} rounds, UCB with β = 1; "
        f"keeps the latest {WINDOW} observations only",
    ),
    PlayerSpec(
        "coba LinUCB", "coba-linucb", CobaLinUCB, package="coba", most_runs=SLOW, needs=("range",),
        summary="LinUCBLearner with features 1, a, aa, aaa (1, a in more than five dimensions) and α = 1",
    ),
    PlayerSpec(
        "coba Corral", "coba-corral", CobaCorral, package="coba", most_runs=SLOW, needs=("range",),
        summary="CorralLearner (off-policy) over LinUCB as above and ε-greedy with ε = 0.05",
    ),
    PlayerSpec(
        "gittins", "gittins", Gittins, package="gittins", needs=("range",),
        summary="create and decide with their defaults, on names of actions; does not use coordinates, which made it worse",
    ),
    PlayerSpec(
        "noregret multiplicative weights", "noregret-mwu", NoRegretMWU, package="noregret", full=True, needs=("range",), late=False,
        summary="MultiplicativeWeightsUpdate, rate √(8 log N / n), told all losses: a reference, not a rival",
    ),
)  # fmt: skip

CONTEXT_PEERS = (
    PlayerSpec(
        "Vowpal Wabbit SquareCB, contexts", "vowpal-wabbit-squarecb-contexts",
        partial(VowpalWabbit, options="--squarecb --gamma_scale 100"), package="vowpalwabbit", needs=("range",),
        where="contexts", summary="--cb_explore_adf --squarecb --gamma_scale 100 -q ca, on names of contexts and actions",
    ),
    PlayerSpec(
        "Vowpal Wabbit cover, contexts", "vowpal-wabbit-cover-contexts",
        partial(VowpalWabbit, options="--cover 3"), package="vowpalwabbit", needs=("range",),
        where="contexts", summary="--cb_explore_adf --cover 3 -q ca, likewise",
    ),
    PlayerSpec(
        "Vowpal Wabbit RND, contexts", "vowpal-wabbit-rnd-contexts",
        partial(VowpalWabbit, options="--rnd 3"), package="vowpalwabbit", needs=("range",),
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
        "coba LinUCB, contexts", "coba-linucb-contexts", CobaLinUCB, package="coba", needs=("range",), where="contexts",
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
        "gittins, contexts", "gittins-contexts", Gittins, package="gittins", needs=("range",), where="contexts",
        summary="create and decide with their defaults, on names of contexts and actions",
    ),
)  # fmt: skip
