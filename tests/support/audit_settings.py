"""Learners with settings at random, in all kinds of units."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import koloss as kl
from koloss.errors import KolossWarning
from tests.support.audit_losses import degree_of

GRADIENT = (kl.ConditionalGradient, kl.FollowTheRegularizedLeader)


@dataclass(frozen=True)
class Setting:
    """A learner with its settings, and the manner of its game."""

    kind: type[kl.Learner]
    actions: Any
    kernel: Any
    said: dict[str, Any]  # other settings
    rounds: int
    low: float = 0.0  # interval of the losses that are played
    high: float = 1.0
    lag: int = 0  # further decisions made before a loss is told
    at_once: int = 1  # decisions asked for at once
    forgotten: float = 0.0  # share of losses that are never told
    excess: float = 0.0  # share of losses that are far above the interval

    def make(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", KolossWarning)
            return self.kind(self.actions, self.kernel, rng=0, **self.said)

    @property
    def contexts(self):
        return self.said.get("contexts")

    @property
    def sign(self):
        return -1 if self.said.get("goal") == "maximize" else 1

    def __str__(self):
        said = ", ".join(f"{name}={value!r}" for name, value in self.said.items())
        manner = ", ".join(
            f"{name} {getattr(self, name)!r}"
            for name in ("low", "high", "lag", "at_once", "forgotten", "excess")
        )
        return f"{self.kind.__name__}({self.actions!r}, {self.kernel!r}, {said}), {self.rounds} rounds, {manner}"


def pick(rng, *options):
    return options[int(rng.integers(len(options)))]


def draw_points(rng):
    """Coordinates in all kinds of units."""
    N = int(rng.integers(2, 13))
    made = pick(rng, "unit", "years", "prices", "tiny", "money", "random", "repeated")
    if made == "years":
        X = np.arange(2000.0, 2027.0)[:: int(rng.integers(2, 5))][:, None]
    elif made == "prices":
        X = np.linspace(3, 4, N)[:, None]
    elif made == "tiny":
        X = 5e-6 + 1e-6 * np.linspace(0, 1, N)[:, None]
    elif made == "money":
        X = np.array([(m, d) for m in (1e4, 5e4, 1e5) for d in (0.0, 0.1, 0.25, 0.5)])
    elif made == "random":
        X = rng.random((N, 2))
    elif made == "repeated":
        X = np.repeat(np.linspace(0, 1, (N + 1) // 2), 2)[:, None]
    else:
        X = np.linspace(0, 1, N)[:, None]
    return kl.Points(X)


def draw_kernel(rng, actions, *, plain=False):
    """A kernel whose lengths fit the actions."""
    low, high = actions.bounds()
    width = np.where(high > low, high - low, 1.0)
    lengths = tuple((width * rng.uniform(0.15, 1.0)).tolist())
    kernels = [
        kl.Linear(),
        kl.Quadratic(),
        kl.Polynomial(3),
        kl.Gaussian(lengths),
        kl.Gaussian(lengths),
    ]
    if len(lengths) == 1 or width.max() < 10 * width.min():
        kernels.append(kl.Matern(pick(rng, 0.5, 1.5, 2.5), max(lengths)))
    if not plain and isinstance(actions, kl.Points):
        kernels += [kl.White(), "auto"]
    return pick(rng, *kernels)


def draw_range(rng, said):
    low, high = pick(rng, (0, 1), (0, 1), (-3, 7), (0, 1e6), (-2e-6, 1e-6))
    said["loss_range"] = (low, high)
    return {"low": float(low), "high": float(high)}


def draw(rng, longest=400):
    """A setting at random."""
    which = pick(rng, "bandit", "bandit", "bandit", "insured", "insured", "contexts", "full")
    makers = {
        "bandit": draw_bandit,
        "insured": draw_insured,
        "contexts": draw_contexts,
        "full": draw_full,
    }
    return makers[which](rng, longest)


def draw_bandit(rng, longest):
    place = pick(rng, "points", "points", "points", "points", "box", "ball")
    n = int(rng.integers(100, longest + 1))
    said: dict[str, Any] = {"horizon": None if rng.random() < 0.2 else n}
    manner = draw_range(rng, said)
    if place == "ball":
        d, n = int(rng.integers(1, 4)), min(n, 150)
        said["horizon"] = said["horizon"] and n
        actions, kernel = (
            kl.Ball(d, pick(rng, 1.0, 1.0, 20.0)),
            pick(rng, kl.Linear(), kl.Quadratic()),
        )
        extra = pick(rng, "none", "learn", "batch")
    elif place == "box":
        actions = pick(rng, kl.Box([0], [1]), kl.Box([2000], [2026]), kl.Box([0, 0], [1, 1]))
        kernel = draw_kernel(rng, actions, plain=True)
        extra = pick(rng, "none", "rank-one", "delay")
        if isinstance(kernel, kl.Matern):
            kernel = kl.Gaussian(tuple(0.5 * (np.ravel(actions.bounds()[1] - actions.bounds()[0]))))
        said["spacing"] = float(np.max(actions.bounds()[1] - actions.bounds()[0])) / 8
    else:
        actions = draw_points(rng)
        kernel = draw_kernel(rng, actions)
        extra = pick(rng, "none", "none", "rank-one", "any", "norm", "delay", "hold", "shares", "widen", "clip",
                     "learn", "hindsight", "batch", "forgotten", "whole", "maximize", "bound")  # fmt: skip
    if extra in ("delay", "hold", "shares", "whole"):
        said["horizon"] = n
    return with_extra(rng, Setting(kl.BanditExpWeights, actions, kernel, said, n, **manner), extra)


def with_extra(rng, setting, extra):
    """The setting with one thing more."""
    said, N = dict(setting.said), len(getattr(setting.actions, "X", ()))
    more: dict[str, Any] = {}
    low, high = setting.low, setting.high
    if extra in ("rank-one", "any"):
        said["loss_class"] = extra
        if setting.kernel == "auto":
            more["kernel"] = kl.Gaussian(1.0)
    elif extra == "norm":
        said["loss_norm"] = (high - low) * float(rng.uniform(0.5, 3.0))
    elif extra == "delay":
        said["delay"] = more["lag"] = int(rng.integers(1, 5))
    elif extra == "hold":
        said["hold"] = int(rng.integers(1, 5))
        more["lag"] = int(rng.integers(0, said["hold"] + 1))
    elif extra == "shares":
        group = tuple(range(max(1, N // 3)))
        said["shares"] = {group: (float(rng.uniform(0, 0.4)), float(rng.uniform(0.5, 1.0)))}
    elif extra == "widen":
        said["outside"] = "widen"
        said["loss_range"] = (low + 0.2 * (high - low), high - 0.3 * (high - low))
    elif extra == "clip":
        said["outside"], more["excess"] = "clip", float(rng.uniform(0.005, 0.03))
    elif extra == "learn":
        said["loss_range"] = "learn"
    elif extra == "hindsight":
        said["regret"] = "hindsight"
    elif extra == "batch":
        said["batch"] = 1
    elif extra == "forgotten":
        more["forgotten"] = 0.02
    elif extra == "whole":
        more["at_once"] = int(rng.integers(2, 9))
    elif extra == "bound":
        del said["loss_range"]
        said["loss_bound"] = more["high"] = max(abs(low), abs(high))
        more["low"] = -more["high"]
    elif extra == "maximize":
        said["goal"], said["loss_range"] = "maximize", (-high, -low)
    return replace(setting, said=said, **more)


class Stubborn:
    """A policy that always plays the first action."""

    def __repr__(self):
        return "Stubborn()"

    def propose(self, *context):
        return 0

    def hear(self, *heard):
        """It does not listen."""


def draw_insured(rng, longest):
    n = int(rng.integers(longest // 2, longest + 1))
    said: dict[str, Any] = {"horizon": None if rng.random() < 0.15 else n}
    manner, actions = draw_range(rng, said), draw_points(rng)
    if rng.random() < 0.15:
        actions, said["spacing"] = kl.Box([2000], [2026]), 26 / 8
    kernel = draw_kernel(rng, actions, plain=isinstance(actions, kl.Box))
    said["policy"] = pick(rng, "ucb", "thompson", Stubborn())
    extra = pick(
        rng, "none", "none", "rank-one", "norm", "delay", "shares", "learn", "maximize", "robust"
    )
    if isinstance(actions, kl.Box):
        kernel = kl.Gaussian(13.0) if isinstance(kernel, kl.Matern) else kernel
        extra = pick(rng, "none", "learn", "delay")
    if extra == "robust":
        said["robust_kernel"], extra = "any", "none"
    if extra in ("delay", "shares"):
        said["horizon"] = n
    return with_extra(rng, Setting(kl.InsuredBandit, actions, kernel, said, n, **manner), extra)


def draw_contexts(rng, longest):
    kind = pick(rng, kl.BanditExpWeights, kl.InsuredBandit)
    n = int(rng.integers(longest // 2, longest + 1))
    C, actions = int(rng.integers(2, 4)), draw_points(rng)
    if not actions.X.any():  # a product of kernels that vanishes on all pairs is refused
        actions = kl.Points(actions.X + 1)
    kernel = draw_kernel(rng, actions, plain=True)
    weights = rng.dirichlet(np.full(C, 3.0)) if rng.random() < 0.5 else None
    said: dict[str, Any] = {"horizon": n, "contexts": kl.Contexts(list("abc"[:C]), weights=weights)}
    if weights is not None and degree_of(kernel) is not None:  # whose norm would be in other units
        said["contexts"] = kl.Contexts(np.array([[10.0], [30.0], [90.0]])[:C], weights=weights)
        said["context_kernel"] = "pairs"
    setting = Setting(kind, actions, kernel, said, n, **draw_range(rng, said))
    extra = pick(rng, "none", "delay", "shares", "learn", "clip", "maximize", "forgotten")
    return setting if weights is not None else with_extra(rng, setting, extra)


def draw_full(rng, longest):
    kind = pick(rng, kl.ExpWeights, kl.ExpWeights, *GRADIENT)
    n = int(rng.integers(100, longest + 1))
    actions = (
        kl.Ball(2) if rng.random() < 0.3 else kl.Points(rng.random((int(rng.integers(2, 13)), 2)))
    )
    kernel = pick(rng, kl.Linear(), kl.Quadratic())
    said: dict[str, Any] = {"horizon": n}
    manner: dict[str, float] = {}
    if isinstance(actions, kl.Points):
        kernel = kl.Gaussian(float(rng.uniform(0.2, 1.0)))
        if kind is kl.ExpWeights:
            manner = draw_range(rng, said)
            if rng.random() < 0.3:
                said["loss_range"] = "learn"
            if rng.random() < 0.3:
                said["horizon"] = None
    else:
        n = said["horizon"] = min(n, 150)
    if rng.random() < 0.3 and "loss_range" not in said:
        said["loss_norm"] = 2.5
    return Setting(kind, actions, kernel, said, n, **manner)
