"""From contexts and actions to the engine of their pairs: rules for what is said, kernels on pairs, designs (theory F6)."""

from __future__ import annotations

import math
import reprlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from koloss._arrays import one_of, to_numpy
from koloss._threads import threads_for
from koloss.actions import Contexts, Points
from koloss.kernels import Gaussian, Kernel

if TYPE_CHECKING:
    from koloss.learners.bandit.contexts import PairsEngine
    from koloss.learners.bandit.points import PointsEngine
    from koloss.learners.bandit.settings import BanditSettings

Floats = NDArray[np.float64]

HALF = 1 / math.sqrt(math.log(2))
"""Bandwidth with which two labels have a half in common."""

MOST_PAIRS = 1_000_000

# What may be said.


def manner_of(settings: BanditSettings) -> str:
    """How contexts are played: "alone", where there is one; sharing, their law "known", "counted", of a "reservoir", or "in turn"; or "apart"."""
    contexts = settings.contexts
    assert contexts is not None
    if contexts.space is not None:
        return "reservoir"
    if len(contexts) == 1:
        return "alone"
    if settings.order == "any":
        return "apart"
    if contexts.period is not None:
        return "in turn"
    if contexts.weights is None:
        return "counted" if settings.order == "independent" else "apart"
    return "known"


def check_contexts(settings: BanditSettings) -> None:
    """Refuse what contexts cannot be played with."""
    contexts, kernel = settings.contexts, settings.context_kernel
    if contexts is None:
        for name in ("context_kernel", "order"):
            if getattr(settings, name) is not None:
                value = reprlib.repr(getattr(settings, name))
                raise ValueError(f"`{name}` must be left out without `contexts`, got {value}")
        return
    if not isinstance(contexts, Contexts):
        raise TypeError(f"`contexts` must be Contexts, got {type(contexts).__name__}")
    if settings.order is not None:
        one_of("order", settings.order, ("independent", "any"))
    if settings.order == "independent" and contexts.period is not None:
        raise ValueError("`order` must be 'any' or left out where contexts have a period")
    if settings.order == "any" and contexts.space is not None:
        raise ValueError(
            "`order` must be 'independent' or left out where any point of a Space may come, got 'any'"
        )
    fits = kernel is None or kernel == "pairs" or (callable(kernel) and hasattr(kernel, "diag"))
    if not fits and not _is_described(kernel):
        rule = "must be a Kernel, or have k(X, Y) and k.diag(X), or be 'pairs'"
        raise TypeError(f"`context_kernel` {rule}, got {reprlib.repr(kernel)}")
    manner = manner_of(settings)
    if contexts.allowed is not None:
        _check_allowed(settings, contexts.allowed, manner)
    if manner != "alone":
        _check_shared(settings, manner)


def _check_allowed(settings: BanditSettings, allowed: NDArray[np.bool_], manner: str) -> None:
    """Whether actions can be allowed context by context."""
    actions = settings.actions
    if manner in ("alone", "apart"):
        why = {"alone": "one context is given", "apart": "each context has a learner of its own"}
        raise ValueError(f"`allowed` of `contexts` must be left out where {why[manner]}")
    if not isinstance(actions, Points):
        raise ValueError(
            f"`actions` must be Points where `contexts` allow some of them, got {actions!r}"
        )
    if allowed.shape[1] != len(actions):
        rule = f"must have {len(actions)} columns, one for each action"
        raise ValueError(f"`allowed` of `contexts` {rule}, got {allowed.shape[1]}")


def _is_described(value: Any) -> bool:
    return type(value).__name__ == "Described"  # in a snapshot, for a kernel that it could not hold


PLAYED: dict[str, tuple[Any, ...]] = {
    "tuning": ("sharp",),
    "covariance": ("exact",),
    "regret": ("pseudo",),
    "outside": ("raise",),
    "shares": (None,),
    "prior": (None,),
    "design": ("john",),
    "exploration_rate": (None,),
    "proxy": (None, "pivoted_cholesky", "kernel_pca"),
}
"""What settings may be with several contexts: nothing is proved for others."""


def _check_shared(settings: BanditSettings, manner: str) -> None:
    rules = dict(PLAYED)
    if manner != "apart":
        rules["loss_class"] = ("general", "rank-one")
    if manner in ("counted", "reservoir"):
        rules["bonus"] = ("auto", False)
    if manner in ("apart", "in turn"):
        period = settings.contexts.period if manner == "in turn" else 1  # type: ignore[union-attr]
        rules |= {"delay": (0,), "hold": (0,), "batch": ("auto", period)}
    if manner == "apart":
        rules["learning_rate"] = (None,)
    if manner in ("apart", "reservoir"):
        rules["ridge"] = ("auto", 0)
    for name, allowed in rules.items():
        value = getattr(settings, name)
        if isinstance(value, np.ndarray) or not any(value is a or value == a for a in allowed):
            rule = " or ".join(map(repr, allowed))
            unless = (
                " that do not share, or of which a few stand for others" if name == "ridge" else ""
            )
            raise ValueError(
                f"`{name}` must be {rule} with several contexts{unless}, got {reprlib.repr(value)}"
            )
    if manner == "in turn" and settings.horizon is None:
        raise ValueError(
            "`horizon` must be given where contexts have a period; `order` of 'any' needs none"
        )
    if settings.learns_range:
        raise ValueError("`loss_range` must be an interval with several contexts, got 'learn'")
    if settings.context_kernel == "pairs" and not isinstance(settings.actions, Points):
        raise ValueError(
            f"`actions` must be Points where `context_kernel` is 'pairs', got {settings.actions!r}"
        )


# Kernels.


class PairKernel:
    """K((c, a), (c', a')) = K_C(c, c') K_A(a, a') on rows that hold a context and then an action; or one kernel for such rows."""

    def __init__(self, contexts: Any, actions: Any, split: int) -> None:
        self.contexts, self.actions, self.split = contexts, actions, split

    def __repr__(self) -> str:
        return f"{self.contexts!r} of contexts × {self.actions!r}"

    def __call__(self, X: Any, Y: Any = None) -> Floats:
        X = to_numpy(X)
        Y, k = X if Y is None else to_numpy(Y), self.split
        left = to_numpy(self.contexts(X[:, :k], Y[:, :k]))
        gram: Floats = left * to_numpy(self.actions(X[:, k:], Y[:, k:]))
        return gram

    def diag(self, X: Any) -> Floats:
        """K(z, z) of every row."""
        X, k = to_numpy(X), self.split
        values: Floats = to_numpy(self.contexts.diag(X[:, :k])) * to_numpy(
            self.actions.diag(X[:, k:])
        )
        return values


class Within:
    """A kernel on pairs as one on actions, in one context."""

    def __init__(self, kernel: Any, context: Floats) -> None:
        self.kernel, self.context = kernel, context

    def __repr__(self) -> str:
        return f"{self.kernel!r} in context {self.context.tolist()}"

    def _pairs(self, X: Any) -> Floats:
        X = to_numpy(X)
        return np.column_stack([np.tile(self.context, (len(X), 1)), X])

    def __call__(self, X: Any, Y: Any = None) -> Any:
        return self.kernel(self._pairs(X), self._pairs(X if Y is None else Y))

    def diag(self, X: Any) -> Any:
        """K(z, z) of every row."""
        return self.kernel.diag(self._pairs(X))


def context_kernel(settings: BanditSettings) -> Any:
    """The kernel on contexts: by default half of what is learned is common to two labels, and lengths are half the ranges."""
    contexts = settings.contexts
    assert contexts is not None
    if settings.context_kernel is not None:
        return settings.context_kernel
    if contexts.labels is not None:
        return Gaussian(HALF)
    width = contexts.X.max(axis=0) - contexts.X.min(axis=0)
    return Gaussian(tuple(np.where(width > 0, width / 2, 1.0).tolist()))


def pair_kernel(settings: BanditSettings) -> Any:
    """The kernel on pairs."""
    assert settings.contexts is not None
    if settings.context_kernel == "pairs":
        return settings.kernel
    return PairKernel(context_kernel(settings), settings.kernel, settings.contexts.dimension)


def pairs_of(contexts: Contexts, points: Points) -> Points:
    """All pairs, those of a context one after the other."""
    X = to_numpy(points.X)
    C, K = len(contexts), len(X)
    if C * K > MOST_PAIRS:
        raise ValueError(
            f"`contexts` must make at most {MOST_PAIRS:,} pairs with the actions, got {C} × {K}"
        )
    slots = contexts.slots(K)
    actions = np.tile(X, (C, 1)) if slots is None else X[slots.ravel()]
    return Points(np.column_stack([np.repeat(contexts.X, K, axis=0), actions]))


def without_contexts(settings: BanditSettings, **others: Any) -> BanditSettings:
    """The same settings for somebody who knows no contexts."""
    return replace(settings, contexts=None, context_kernel=None, order=None, **others)


def in_context(settings: BanditSettings, c: int, **others: Any) -> BanditSettings:
    """The settings of a game in one context alone."""
    contexts, kernel, scale = settings.contexts, settings.kernel, scale_in(settings, c)
    assert contexts is not None
    if scale is None:
        kernel = Within(kernel, contexts.X[c])
    elif scale != 1.0:
        kernel = Within(pair_kernel(settings), contexts.X[c])
        if isinstance(settings.kernel, Kernel):
            kernel = scale * settings.kernel
    return without_contexts(settings, kernel=kernel, **others)


def scale_in(settings: BanditSettings, c: int) -> float | None:
    """K_C(c, c): the kernel in one context is that of actions but for this factor; None for one kernel on pairs."""
    assert settings.contexts is not None
    if settings.context_kernel is None:
        return 1.0
    if settings.context_kernel == "pairs":
        return None
    return float(to_numpy(settings.context_kernel.diag(settings.contexts.X[c : c + 1]))[0])


# Engines.


def engines_apart(settings: BanditSettings) -> list[PointsEngine]:
    """An engine without a horizon for each context; those with the same kernel have the same."""
    from koloss.learners.bandit.setup import points_engine

    assert settings.contexts is not None
    engines: dict[float, PointsEngine] = {}
    made = []
    for c in range(len(settings.contexts)):
        scale = scale_in(settings, c)
        if scale is None or scale not in engines:
            plain = in_context(settings, c, horizon=None, ridge=0.0)
            engine = points_engine(plain, trial=c > 0)
        if scale is not None:
            engine = engines.setdefault(scale, engine)
        made.append(engine)
    return made


def action_points(settings: BanditSettings) -> Points:
    """The actions in play, of a compact set a net."""
    from koloss.learners.bandit.tuning import least_rank
    from koloss.proxy.base import discretise

    actions = settings.actions
    if isinstance(actions, Points):
        return actions
    rank, rounds = least_rank(settings), settings.horizon or 10_000
    net: Points = discretise(settings.kernel, actions, settings.spacing, rank=rank, rounds=rounds)
    return net


def pairs_engine(settings: BanditSettings) -> PairsEngine:
    """Pairs, their features whitened by a design, and where to explore in each context."""
    from koloss.learners.bandit.assumed import assumed
    from koloss.learners.bandit.context_candidates import choose_pairs
    from koloss.learners.bandit.context_designs import first_reach, is_dear
    from koloss.learners.bandit.contexts import PairsEngine
    from koloss.learners.bandit.doubts import warn_of_cost
    from koloss.learners.bandit.setup import MANY_FEATURES, game_of, sizes
    from koloss.proxy.base import step_beyond

    contexts, actions, kernel = settings.contexts, settings.actions, pair_kernel(settings)
    assert contexts is not None
    points = action_points(settings)
    pairs = pairs_of(contexts, points)
    plain = without_contexts(settings, actions=pairs, kernel=kernel, ridge=0.0, spacing=None)
    size, distance = sizes(kernel, pairs)
    low, high, norm = plain.interval(size, distance)
    game, center = game_of(plain, math.log(len(points)), low, high)
    hull = settings.loss_class == "rank-one"
    with threads_for(len(pairs) * min(len(pairs), MANY_FEATURES) ** 2):
        C, K = len(contexts), len(points)
        mu = np.full(C, 1 / C) if contexts.weights is None else np.array(contexts.weights)
        best = choose_pairs(settings, plain, pairs, game, norm, mu)
        warn_of_cost(len(pairs), best.problem.rank)
    problem, rates, capped = best.problem, best.rates, best.capped
    step = 0.0
    if not isinstance(actions, Points):
        largest = float(np.max(to_numpy(context_kernel(settings).diag(contexts.X))))
        step = math.sqrt(largest) * step_beyond(settings.kernel, actions, points)
    return PairsEngine(
        points=np.array(to_numpy(points.X), dtype=float),
        features=best.features,
        columns=best.columns,
        weights=best.weights,
        log_prior=np.full(K, -math.log(K)),
        problem=problem,
        rates=rates,
        low=low,
        high=high,
        center=center,
        net=norm * (size if hull else 1.0) * step,
        outside=settings.outside,
        learned=False,
        sign=settings.sign,
        norm=norm,
        samples=0.0,
        proxy=best.proxy,
        losses=assumed(plain, norm, replace(problem, epsilon=best.epsilon)),
        printed={},
        eigenvalue=best.eigenvalue,
        schedule=best.schedule,
        level=best.schedule.level(1) if best.schedule else 0,
        leverage=best.leverage,
        law_of_contexts=mu,
        capped=capped,
        manner=settings.manner,
        slots=contexts.slots(K),
        dear=settings.horizon is None and is_dear(problem, capped, first_reach(problem, rates)),
    )
