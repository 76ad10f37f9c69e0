"""Players from other packages, each behind a thin adapter, with its default settings or those in its summary.

A package is imported when its player is made; `pip install 'koloss[arena]'` brings them. They are told 1 - loss where they
want rewards. Where a package does not say the law of its next action, it is computed from the package's own state.
"""

from __future__ import annotations

import contextlib
import importlib
import math
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from koloss._random import LEARNERS, as_generator
from koloss.experiments.arena.base import Choice, Game, Player, PlayerSpec
from koloss.experiments.arena.baselines import Deterministic, Randomised, exp3_exploration

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


class PyXABHCT(Deterministic):
    """High-confidence tree of PyXAB on the bounding box; its points are moved to the nearest action."""

    def __init__(self, game: Game, seed: Any) -> None:
        super().__init__(game)
        HCT = _imported("PyXAB.algos.HCT", "PyXAB").HCT
        from scipy.spatial import KDTree

        low, high = self.actions.min(axis=0), self.actions.max(axis=0)
        self._tree, self._legacy, self._time = KDTree(self.actions), _Legacy(seed), 0
        with self._legacy.swapped():
            self._algorithm = HCT(domain=np.column_stack([low, high]).tolist())

    def best(self) -> int:
        return int(self._tree.query(self._algorithm.pull(self._time + 1))[1])

    def learn(self, choice: Choice, loss: Any) -> None:
        self._time += 1
        with self._legacy.swapped():  # a new node is cut along a random axis
            self._algorithm.receive_reward(self._time, 1 - float(loss))


class VowpalWabbit(Randomised):
    """SquareCB of Vowpal Wabbit: costs regressed on the coordinates and their products.

    Actions are parsed once: reading 400 lines a round would take six times as long as learning from them.
    """

    def __init__(self, game: Game, seed: Any) -> None:
        super().__init__(game, seed)
        vw = _imported("vowpalwabbit", "vowpalwabbit")
        self._workspace = vw.Workspace(
            "--cb_explore_adf --squarecb --gamma_scale 100 -q aa --quiet"
        )
        self._lines = [
            "|a " + " ".join(f"x{j}:{value!r}" for j, value in enumerate(row))
            for row in self.actions.tolist()
        ]
        self._examples = self._workspace.parse(["shared |", *self._lines])

    def law(self) -> Any:
        p = np.array(self._workspace.predict(self._examples))
        return p / p.sum()  # a sum of single-precision numbers

    def learn(self, choice: Choice, loss: Any) -> None:
        line = f"0:{float(loss)!r}:{choice.probability!r} {self._lines[choice.index]}"
        labelled = self._workspace.parse([line])
        examples = list(self._examples)
        examples[choice.index + 1] = labelled[0]
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

    def best(self) -> int:
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


class CobaLinUCB(Player):
    """LinUCB of coba on the coordinates and their products of two and three."""

    def __init__(self, game: Game, seed: Any) -> None:
        super().__init__(game)
        learners = _imported("coba.learners", "coba")
        self._tuples = [tuple(row) for row in self.actions.tolist()]
        self._index = {id(action): i for i, action in enumerate(self._tuples)}
        self._learner = self._make(learners, game, _integer(seed))
        self._asked: Any = None

    def _make(self, learners: Any, game: Game, seed: int) -> Any:
        return learners.LinUCBLearner(features=[1, "a", "aa", "aaa"], seed=seed)

    @property
    def distribution(self) -> Any:
        """The law that `predict` draws from: ties are broken at random."""
        return np.array(self._learner._pmf(None, self._tuples))

    def ask(self) -> Choice:
        self._asked = self._learner.predict(None, self._tuples)
        action, probability, *_ = self._asked
        return Choice(self._index[id(action)], probability)

    def tell(self, decision: Choice, loss: Any) -> None:
        action, probability, *memory = self._asked
        self._learner.learn(None, action, 1 - float(loss), probability, **(memory or [{}])[0])


class CobaCorral(CobaLinUCB):
    """Corral of coba over LinUCB and an ε-greedy bandit."""

    def _make(self, learners: Any, game: Game, seed: int) -> Any:
        self._band = [
            super()._make(learners, game, seed),
            learners.BanditEpsilonLearner(0.05, seed=seed + 1),
        ]
        return learners.CorralLearner(self._band, T=game.rounds, mode="off-policy", seed=seed + 2)

    @property
    def distribution(self) -> Any:
        """The learners' own laws, mixed as Corral mixes their draws."""
        laws = [learner._pmf(None, self._tuples) for learner in self._band]
        p = np.asarray(self._learner._p_bars)
        return (p / p.sum()) @ np.array(laws)  # it solves for a sum of one to four digits


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
            message = f"this player needs {package}: pip install 'koloss[arena]'"
        else:
            message = f"this player needs {package}, which cannot be imported: {error}"
        raise ImportError(message) from error


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
        "river EXP3", "river-exp3", RiverExp3, package="river",
        summary="bandit.Exp3, γ = √(N log N / ((e - 1)n))",
    ),
    PlayerSpec(
        "PyXAB HCT", "pyxab-hct", PyXABHCT, package="PyXAB",
        summary="HCT on the bounding box with its default settings, moved to the nearest action",
    ),
    PlayerSpec(
        "Vowpal Wabbit SquareCB", "vowpal-wabbit-squarecb", VowpalWabbit, package="vowpalwabbit",
        summary="--cb_explore_adf --squarecb --gamma_scale 100 -q aa, coordinates as features",
    ),
    PlayerSpec(
        "BoTorch UCB", "botorch-ucb", BoTorchUCB, package="botorch", most_runs=SLOW,
        summary=f"SingleTaskGP with its default kernel, fitted at most every {REFIT} rounds, UCB with β = 1; "
        f"keeps the latest {WINDOW} observations only",
    ),
    PlayerSpec(
        "coba LinUCB", "coba-linucb", CobaLinUCB, package="coba", most_runs=SLOW,
        summary="LinUCBLearner with features 1, a, aa, aaa and α = 1",
    ),
    PlayerSpec(
        "coba Corral", "coba-corral", CobaCorral, package="coba", most_runs=SLOW,
        summary="CorralLearner (off-policy) over LinUCB as above and ε-greedy with ε = 0.05",
    ),
    PlayerSpec(
        "noregret multiplicative weights", "noregret-mwu", NoRegretMWU, package="noregret", full=True,
        summary="MultiplicativeWeightsUpdate, rate √(8 log N / n), told all losses: a reference, not a rival",
    ),
)  # fmt: skip
