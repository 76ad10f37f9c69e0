"""Numbers at the ends of their ranges: an error that names the argument, or a right answer.

Here are learners, bounds, nets and kernels; `parts` has what learners are made of, `extremes` the numbers themselves.
"""

from __future__ import annotations

import itertools
import math
import re
import tracemalloc
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import koloss as kl
import torture.parts  # noqa: F401, its trials
from koloss.errors import NetTooLarge, NotPositiveDefinite
from torture.extremes import (
    FLOATS,
    INTS,
    PAIRS,
    actions_of,
    any_actions,
    any_kernel,
    called,
    kernel_of,
    light,
    pick,
    plain_game,
    point_sets,
    short,
    tried,
)
from torture.trials import Cases, trial

NET_MEMORY = 200 * 10**6

# Learners.

LEARNERS: dict[str, dict[str, list[Any]]] = {
    "BanditExpWeights": {
        "horizon": INTS,
        "loss_bound": FLOATS,
        "loss_range": [*PAIRS, "learn", "learn"],
        "loss_norm": FLOATS,
        "rank": [*INTS, "auto"],
        "batch": [*INTS, "auto"],
        "ridge": [*FLOATS, "auto", 0],
        "outside": ["raise", "clip", "widen", None],
        "goal": ["maximize", "minimize", ""],
        "regret": ["hindsight", "pseudo", True],
        "sample_error": FLOATS,
        "delay": INTS,
        "learning_rate": FLOATS,
        "exploration_rate": FLOATS,
        "spacing": FLOATS,
        "tuning": ["paper", "sharp", ""],
        "covariance": ["sampled", "exact", None],
        "bonus": [True, False, "auto", 1],
        "loss_class": ["general", "rank-one", "any", None],
        "design": ["spanner", "uniform", "john", None],
        "proxy": ["kernel_pca", "exact_features", "pivoted_cholesky", ""],
    },
    "InsuredBandit": {
        "horizon": INTS,
        "loss_range": [*PAIRS, "learn"],
        "goal": ["maximize", "minimize", ""],
        "trigger": FLOATS,
        "premium": FLOATS,
        "width": FLOATS,
        "loss_norm": FLOATS,
        "rank": [*INTS, "auto"],
        "batch": [*INTS, "auto"],
        "delay": INTS,
        "spacing": FLOATS,
        "policy": ["ucb", "greedy", ["ucb", "ucb"], [], None],
    },
    "ExpWeights": {
        "horizon": INTS,
        "loss_norm": FLOATS,
        "loss_range": PAIRS,
        "learning_rate": FLOATS,
        "delay": INTS,
        "particles": [2, 3, *INTS],
        "compression": FLOATS,
        "tuning": ["paper", "sharp"],
        "move": ["diffusion", "hit-and-run"],
    },
    "ConditionalGradient": {
        "horizon": INTS,
        "loss_norm": FLOATS,
        "learning_rate": FLOATS,
        "mixing_rate": FLOATS,
        "tuning": ["paper", "sharp"],
        "first": [[0.0], [0.0, 0.0], [1e300, 0.0], [math.nan, 0.0], "x", None],
    },
    "FollowTheRegularizedLeader": {
        "horizon": INTS,
        "loss_norm": FLOATS,
        "learning_rate": FLOATS,
        "delay": INTS,
        "tolerance": FLOATS,
        "tuning": ["paper", "sharp"],
    },
}
USUAL = {"horizon": 100, "loss_range": (0.0, 1.0)}
BIG = {"particles": 1000}  # beyond which a trial would only wait


@trial("settings of learners at their ends, five rounds, bound, state", quick=40, full=500)
def settings(rng: np.random.Generator) -> Cases:
    for _ in range(6):
        name = pick(rng, list(LEARNERS))
        table = LEARNERS[name]
        arguments = {key: value for key, value in USUAL.items() if key in table}
        if name == "ExpWeights":
            arguments["particles"] = 8
            if rng.random() < 0.5:
                del arguments["loss_range"]
        elif name == "BanditExpWeights" and rng.random() < 0.3:
            del arguments["loss_range"]
        for _ in range(int(rng.choice([1, 1, 1, 2, 3]))):
            key = pick(rng, list(table))
            arguments[key] = pick(rng, table[key])
        arguments = {k: v for k, v in arguments.items() if not _too_big(k, v)}
        arguments.setdefault("horizon", 100)
        if name == "InsuredBandit":
            arguments.setdefault("loss_range", (0.0, 1.0))
        actions, kernel = plain_game(rng)
        if "ridge" in table and rng.random() < 0.15:
            kernel = "auto"
        label = called(name, {"actions": actions, "kernel": kernel, **arguments})
        yield tried(label, _live, name, actions, kernel, arguments)


@trial("actions and kernels of learners, huge, tiny and degenerate", quick=30, full=300)
def games(rng: np.random.Generator) -> Cases:
    for _ in range(6):
        name = pick(rng, list(LEARNERS))
        arguments = {key: value for key, value in USUAL.items() if key in LEARNERS[name]}
        if name == "ExpWeights":
            arguments = {"horizon": 100, "particles": 8}
        elif name == "BanditExpWeights" and rng.random() < 0.5:
            del arguments["loss_range"]
        kinds, parts = any_actions(rng), any_kernel(rng)
        parts = light(kinds, parts)
        label = called(name, {"actions": kinds, "kernel": parts, **arguments})
        yield tried(label, _live_there, name, kinds, parts, arguments)


def _too_big(key: str, value: Any) -> bool:
    if key == "spacing":  # a net of several gigabytes, which is still allowed
        return isinstance(value, np.float16)
    number = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    return number and key in BIG and BIG[key] < value <= 10**9


def _live_there(name: str, actions: Any, kernel: Any, arguments: dict[str, Any]) -> Any:
    return _live(name, actions_of(actions), kernel_of(kernel), arguments)


def _live(name: str, actions: Any, kernel: Any, arguments: dict[str, Any]) -> Any:
    """Make a learner, play five rounds with it, ask it all that it knows, and make it again from its state."""
    learner = getattr(kl, name)(actions, kernel, rng=np.random.default_rng(1), **arguments)
    for t in range(5):
        decision = learner.ask()
        learner.tell(decision, _loss(learner, decision, t))
    learner.ask(3)
    best = learner.recommend()
    seen = [decision.action, best.action, best.loss]
    if isinstance(actions, kl.Points):
        p = np.asarray(learner.distribution)
        if not math.isclose(float(p.sum()), 1.0, rel_tol=1e-9) or p.min() < 0:
            return [float(p.sum()), math.nan]
    text = str(learner.diagnostics)
    if re.search(r"\bnan\b", text):
        seen.append(math.nan)
    again = type(learner).from_state(learner.state())
    if not np.array_equal(again.ask().action, learner.ask().action):
        raise RuntimeError("a learner made again from its state decides otherwise")
    return [seen, learner.guarantee(), learner.guarantee(rounds=10**9)]


def _loss(learner: Any, decision: Any, t: int) -> Any:
    if learner.feedback != "full":
        given = learner.settings.loss_range
        if given == "learn":
            given = (-1e-9, 1e9)
        low, high = given if given is not None else (0.0, 0.0)
        return (low, high, low + (high - low) / 2)[t % 3]
    game = learner.game
    if game.is_finite and t % 2:
        values = np.linspace(0.0, game.width, len(game.points)) * (1 - 1e-12)
        return values + game.low if game.low is not None else values
    return game.kernel.bump(decision.action, game.norm * (1 - 1e-12))


# Guarantees far ahead, nets that are refused, kernels that are none.


@trial("bounds of games up to 10^15 rounds", quick=4, full=30)
def horizons(rng: np.random.Generator) -> Cases:
    for name, known in LEARNERS.items():
        n = 10 ** int(rng.integers(0, 16)) * int(rng.integers(1, 10))
        actions, kernel = plain_game(rng)
        arguments: dict[str, Any] = {"horizon": n, "tuning": pick(rng, ["sharp", "paper"])}
        if "loss_range" in known and name != "ExpWeights":
            arguments["loss_range"] = (-1.0, 2.0)
        if name in ("BanditExpWeights", "InsuredBandit", "ExpWeights") and rng.random() < 0.3:
            arguments["horizon"] = None
        arguments = {k: v for k, v in arguments.items() if k in known}
        ahead = [10 ** int(k) for k in rng.integers(0, 16, size=3)]

        label = called(name, {"actions": actions, "kernel": kernel, **arguments})
        yield tried(
            f"{label}.guarantee(rounds={ahead})", _bounds, name, actions, kernel, arguments, ahead
        )


def _bounds(
    name: str, actions: Any, kernel: Any, arguments: dict[str, Any], ahead: list[int]
) -> Any:
    learner = getattr(kl, name)(actions, kernel, rng=1, **arguments)
    bounds = [learner.guarantee(rounds=t) for t in sorted(ahead)]
    totals = [bound.total for bound in bounds]
    if any(a > b * (1 + 1e-9) for a, b in itertools.pairwise(totals)):
        raise RuntimeError(f"bounds fall with the rounds: {totals} at {sorted(ahead)}")
    return bounds


@trial("nets refused before they are laid, within 200 MB", quick=8, full=60)
def nets(rng: np.random.Generator) -> Cases:
    for _ in range(4):
        d = int(rng.choice([1, 2, 3, 4, 5, 6, 8, 10, 12, 20, 50]))
        points = 10.0 ** rng.uniform(
            8.2, 12
        )  # of a unit cube: too many for 1 GiB, or for 4 of features
        spacing = points ** (-1 / d)
        actions = pick(
            rng,
            [
                kl.Ball(d, 2.0),
                kl.PositiveBall(d, 4.0),
                kl.PositiveBall(d, 4.0, 0.1 / d),
                kl.Box([0.0] * d, [1.0] * d),
            ],
        )
        make = pick(rng, list(MAKERS))

        yield tried(
            f"{make} of {actions!r} at {spacing:.4g}", _refused, MAKERS[make], actions, spacing
        )


def _refused(make: Callable[..., Any], actions: Any, spacing: float) -> None:
    tracemalloc.start()
    try:
        make(actions, spacing)
        raise RuntimeError("not refused")
    except NetTooLarge as error:
        used = tracemalloc.get_traced_memory()[1]
        if used > NET_MEMORY:
            raise RuntimeError(f"refused after {used / 1e6:.0f} MB") from error
    finally:
        tracemalloc.stop()


MAKERS: dict[str, Callable[..., Any]] = {
    "net": lambda actions, spacing: actions.net(spacing),
    "exact_features": lambda a, s: kl.exact_features(kl.Quadratic(), a, spacing=s),
    "pivoted_cholesky": lambda a, s: kl.pivoted_cholesky(kl.Gaussian(1.0), a, rank=50, spacing=s),
    "kernel_pca": lambda a, s: kl.kernel_pca(kl.Gaussian(1.0), a, spacing=s),
    "BanditExpWeights": lambda a, s: kl.BanditExpWeights(
        a, kl.Gaussian(1.0), horizon=100, spacing=s
    ),
}


@trial("kernels that are not positive semidefinite are noticed", quick=10, full=80)
def indefinite(rng: np.random.Generator) -> Cases:
    d = int(rng.choice([1, 2, 3]))
    X = rng.uniform(-1, 1, size=(int(rng.choice([8, 40, 150])), d))
    scale = float(10 ** rng.uniform(-6, 6))
    for name in INDEFINITE:
        kernel = _Own(name, scale)
        gram = kernel(X)
        smallest = float(np.linalg.eigvalsh(gram)[0])
        kind = pick(
            rng, list(LEARNERS)[:2] + list(LEARNERS)[3:] + ["kernel_pca", "pivoted_cholesky"]
        )
        # Learners with features look at few columns of the Gram matrix, where few are enough for their bound.
        share = 0.3 if "Bandit" in kind else 1e-3
        if smallest > -share * np.abs(gram).max():
            continue  # semidefinite on these points, or nearly so
        yield _noticed(kind, kernel, X, smallest)


@trial("kernels that are positive semidefinite are not accused", quick=10, full=80)
def definite(rng: np.random.Generator) -> Cases:
    for _ in range(4):
        X = pick(rng, point_sets(rng)[:14])
        kernel = pick(
            rng,
            [
                kl.Gaussian(float(10 ** rng.uniform(-2, 3))),
                kl.Matern(float(rng.uniform(0.1, 20)), float(10 ** rng.uniform(-2, 2))),
                kl.Polynomial(int(rng.integers(1, 9)), float(rng.uniform(0, 2))),
                kl.Periodic(float(rng.uniform(0.1, 5))),
                kl.Gaussian(1.0) * kl.Linear() + 1e-6 * kl.Quadratic(),
            ],
        )

        yield tried(f"{kernel!r} on {short(X)}", _not_accused, kernel, X)


def _not_accused(kernel: Any, X: Any) -> None:
    for make in (kl.kernel_pca, kl.pivoted_cholesky):
        proxy = make(kernel, kl.Points(X))
        if not proxy.is_certified:
            raise RuntimeError(f"{proxy!r} is accused")


class _Own:
    """A kernel of a user's own, which is none."""

    def __init__(self, name: str, scale: float) -> None:
        self.name, self.scale = name, scale

    def __call__(self, X: Any, Y: Any = None) -> Any:
        Y = X if Y is None else Y
        distance = np.sqrt(np.sum((X[:, None] - Y[None]) ** 2, axis=2))
        pairs = _Pairs(distance, X @ Y.T, X[:, :1] @ Y[:, :1].T)
        return self.scale * INDEFINITE[self.name](pairs)

    def diag(self, X: Any) -> Any:
        return np.array([self(x[None])[0, 0] for x in X])

    def __repr__(self) -> str:
        return f"{self.scale:.3g} times {self.name}"


class _OwnKernel(kl.Kernel):
    """The same with the base class, for learners that need it."""

    def __init__(self, own: _Own) -> None:
        self.own = own

    def _gram(self, X: Any, Y: Any, xp: Any) -> Any:
        return self.own(X, Y)

    def _diagonal(self, X: Any, xp: Any) -> Any:
        return self.own.diag(X)

    def __repr__(self) -> str:
        return repr(self.own)


class _Pairs(NamedTuple):
    r: Any  # |x - y|
    t: Any  # x'y
    first: Any  # x₁y₁


INDEFINITE: dict[str, Callable[[_Pairs], Any]] = {
    "tanh(2x'y - 1)": lambda p: np.tanh(2 * p.t - 1),
    "tanh(x'y + 1)": lambda p: np.tanh(p.t + 1),
    "-|x - y|": lambda p: -p.r,
    "difference of Gaussians": lambda p: np.exp(-(p.r**2) / 2) - 0.5 * np.exp(-50 * p.r**2),
    "another difference": lambda p: np.exp(-50 * p.r**2) - 0.7 * np.exp(-(p.r**2) / 2),
    "thin plate": lambda p: p.r**2 * np.log(np.maximum(p.r, 1e-300)),
    "2x₁y₁ - x'y": lambda p: 2 * p.first - p.t,
    "multiquadric": lambda p: np.sqrt(1 + p.r**2),
    "1 if |x - y| < 1/2": lambda p: np.where(p.r < 0.5, 1.0, 0.0),
    "exp(-|x - y|⁴)": lambda p: np.exp(-((p.r / 0.4) ** 4)),
    "-exp(-|x - y|²)": lambda p: -np.exp(-(p.r**2)),
}


def _noticed(kind: str, kernel: _Own, X: Any, smallest: float) -> str | None:
    label, points = f"{kind} of {kernel!r} on {short(X)}, eigenvalue {smallest:.3g}", kl.Points(X)
    try:
        if hasattr(kl, kind) and kind.islower():
            proxy = getattr(kl, kind)(kernel, points)
            good = proxy.negative_eigenvalue < 0 and math.isinf(proxy.epsilon)
        else:
            own: Any = kernel if "Bandit" in kind else _OwnKernel(kernel)
            options = {"loss_range": (0, 1)} if "Bandit" in kind else {}
            good = not getattr(kl, kind)(points, own, horizon=1000, **options).guarantee().valid
    except NotPositiveDefinite:
        good = True
    except Exception as error:
        return f"{label}: {type(error).__name__}: {error}"
    return None if good else f"{label}: not noticed"
