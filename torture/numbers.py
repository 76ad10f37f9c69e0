"""Numbers at the ends of their ranges: an error that names the argument, or a right answer.

A case goes well where the library refuses what it was given by a `ValueError`, a `TypeError` or an error of its own
whose text names an argument in backticks, or where all that it computes is finite and every distribution sums to one.
Warnings, other errors, NaN, more than 3 GB and more than 30 seconds are failures.
"""

from __future__ import annotations

import contextlib
import math
import multiprocessing
import re
import reprlib
import resource
import signal
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

import koloss as kl
from koloss.errors import KolossError
from torture.trials import Cases, trial

MEMORY = 3 * 2**30
PATIENCE = 30  # seconds
NAMED = re.compile(
    r"`\w+`| has no |^no (sampler|oracle|tractable)"
)  # an argument, or what there is not for it
NET_MEMORY = 200 * 10**6

MAGNITUDES = [10.0**k for k in (-320, -310, -300, -200, -150, -100, -60, -30, -12, -6)]
MAGNITUDES += [10.0**k for k in (6, 12, 30, 60, 100, 150, 200, 300, 308)] + [5e-324, 1.7e308]
FLOATS: list[Any] = [
    *MAGNITUDES,
    *(0.0, -0.0, -1.0, -1e-300, -1e300, math.nan, math.inf, -math.inf, 1.0, 0.5),
    *(10**400, -(10**400), 10**5000, Decimal("1e500"), Decimal("NaN"), Fraction(1, 10**400)),
    *(np.float16(1e-7), np.float32(1e-40), np.float32(3e38), np.float64(1e308), np.longdouble(1)),
    *(True, None, "1", "", 1j, [1.0], np.ones(2), object()),
]
INTS: list[Any] = [
    *(0, -1, 1, 2, 3, 10**4, 2**31, 2**53, 2**63, 10**15, 10**18, 10**25, 10**400, -(10**400)),
    *(10**5000, np.int64(2**62), np.uint8(3), 1.0, 1.5, math.nan, math.inf, True, "3", None, 1j),
]
PAIRS: list[Any] = [
    *((-1e308, 1e308), (0.0, 1e-320), (0.0, 5e-324), (-1e-300, 1e-300), (1e300, 1.0000001e300)),
    *((1.0, 1.0 + 2e-16), (1e16, 1e16 + 2), (0, 10**400), (-(10**400), 0), (1, 1), (2, 1), (0, 1)),
    *((-1e100, 1e100), (-1e150, 1e150), (math.nan, 1), (0, math.inf), (0, 1e-100), (-1e60, 0)),
    *((5.0, 6.0), (), (1,), (0, 1, 2), None, "ab", 3.0, ((0, 1), (2, 3)), (0, 1e-12), (-1e-60, 0)),
]


def _point_sets(rng: np.random.Generator) -> list[Any]:
    """Arrays of points: degenerate, huge, tiny, and none at all."""
    d = int(rng.choice([1, 2, 5, 20, 100]))
    cloud = rng.uniform(-1, 1, size=(int(rng.choice([2, 7, 30])), d))
    line = np.outer(np.linspace(-1, 1, 9), np.ones(d))
    size = float(rng.choice(MAGNITUDES))
    return [
        *(cloud, line, np.repeat(cloud, 3, axis=0), cloud[:1], np.zeros((4, d)), np.ones((3, d))),
        *(1 + 1e-16 * cloud, 1 + 1e-12 * cloud, 1e8 + cloud, cloud * 1e-9, np.eye(d), -np.eye(d)),
        *(cloud * min(size, 1e300), cloud * [size if i == 0 else 1.0 for i in range(d)]),
        *(np.vstack([cloud, cloud + 1e-15]), np.vstack([cloud, np.full(d, size)])),
        *(cloud.astype(np.float32), cloud.round().astype(int), cloud.tolist()),
        *(
            np.full((2, d), math.nan),
            np.empty((0, d)),
            [[]],
            [[10**400]],
            "points",
            np.full((2, d), 1e308),
        ),
    ]


# One case.


def _tried(label: str, act: Callable[[], Any]) -> str | None:
    """None where the case went well, otherwise what happened."""
    with _patience():
        try:
            wrong = _fault(act())
        except (ValueError, TypeError, KolossError) as error:
            if NAMED.search(str(error)):
                return None
            wrong = f"{type(error).__name__}: {error}"
        except (Exception, _TooLong) as error:
            wrong = f"{type(error).__name__}: {error}"
    return None if wrong is None else f"{label}: {wrong}"[:600]


class _TooLong(BaseException):
    """Raised by the clock."""


@contextlib.contextmanager
def _patience() -> Iterator[None]:
    """An end after so many seconds, and of memory in a process of one's own."""
    if multiprocessing.parent_process() is not None:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))

    def ring(*_: Any) -> None:
        raise _TooLong(f"more than {PATIENCE} s")

    former = signal.signal(signal.SIGALRM, ring)
    signal.alarm(PATIENCE)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, former)


def _fault(value: Any) -> str | None:
    """What is wrong with a result: numbers that are not finite, somewhere in it."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, kl.Guarantee):
        if any(math.isnan(term) for term in value.terms.values()):
            return f"a term of the guarantee is NaN: {value.terms}"
        if not 0 <= value.total < math.inf:
            return f"the guarantee is {value.total}: {value}"
        return None if str(value) else "the guarantee has no text"
    if isinstance(value, (list, tuple)):
        return next((fault for fault in map(_fault, value) if fault), None)
    if isinstance(value, (float, np.floating, np.ndarray)) and not isinstance(value, str):
        numbers = np.asarray(value)
        if numbers.dtype.kind == "f" and not np.all(np.isfinite(numbers)):
            return f"not finite: {numbers.ravel()[~np.isfinite(numbers.ravel())][:3]} among {numbers.shape}"
        return None
    if isinstance(value, kl.Design):
        total = float(np.sum(value.weights))
        if not math.isclose(total, 1.0, rel_tol=1e-9) or np.min(value.weights) < 0:
            return f"the weights of a design sum to {total}"
        return _fault([value.weights, value.max_leverage])
    if isinstance(value, kl.Proxy):
        return _fault([value.features, value.epsilon, value.eigenvalues, value.residual_curve])
    if isinstance(value, kl.Points):
        return _fault([value.X, value.covering_radius])
    if is_dataclass(value) and not isinstance(value, type):
        return _fault([getattr(value, f.name) for f in fields(value)])
    return None


def _pick(rng: np.random.Generator, values: list[Any]) -> Any:
    return values[int(rng.integers(len(values)))]


def _short(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 10**30:
        return f"{'-' if value < 0 else ''}2**{value.bit_length()}"
    if isinstance(value, np.ndarray) and value.size > 6:
        return f"array{value.shape} of size {np.max(np.abs(value)):.3g}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_short, value[:4]))}{', ...' if len(value) > 4 else ''}]"
    text = reprlib.repr(value) if isinstance(value, (Decimal, Fraction)) else repr(value)
    return text if len(text) < 80 else text[:77] + "..."


def _called(name: str, arguments: dict[str, Any]) -> str:
    return f"{name}({', '.join(f'{k}={_short(v)}' for k, v in arguments.items())})"


# Learners.

LEARNERS: dict[str, dict[str, list[Any]]] = {
    "BanditExpWeights": {
        "horizon": INTS,
        "loss_bound": FLOATS,
        "loss_range": PAIRS,
        "loss_norm": FLOATS,
        "rank": [*INTS, "auto"],
        "batch": [*INTS, "auto"],
        "sample_error": FLOATS,
        "delay": INTS,
        "learning_rate": FLOATS,
        "exploration_rate": FLOATS,
        "spacing": FLOATS,
        "tuning": ["paper", "sharp", ""],
        "covariance": ["sampled", "exact", None],
        "bonus": [True, False, 1],
        "loss_class": ["general", "rank-one", None],
        "design": ["spanner", "uniform", "john", None],
        "proxy": ["kernel_pca", "exact_features", "pivoted_cholesky", ""],
    },
    "InsuredBandit": {
        "horizon": INTS,
        "loss_range": PAIRS,
        "trigger": FLOATS,
        "premium": FLOATS,
        "width": FLOATS,
        "loss_norm": FLOATS,
        "rank": [*INTS, "auto"],
        "batch": [*INTS, "auto"],
        "delay": INTS,
        "spacing": FLOATS,
        "policy": ["ucb", "greedy", ["ucb", "ucb"], [], None],
        "early": [True, False, 0],
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
BIG = {"particles": 1000, "delay": 10**7}  # sizes beyond which a trial would only wait


def _plain_actions(rng: np.random.Generator) -> Any:
    net = kl.Box([0, 0], [1, 1]).net(0.25)
    return _pick(rng, [net, net, kl.Ball(2), kl.Box([0.0], [1.0]), kl.Points([[0.3, 0.4]])])


def _plain_kernel(rng: np.random.Generator) -> Any:
    return _pick(rng, [kl.Gaussian(0.4), kl.Quadratic(), kl.Linear(), kl.Matern(1.5, 0.5)])


@trial("settings of learners at their ends, five rounds, bound, state", quick=40, full=500)
def settings(rng: np.random.Generator) -> Cases:
    for _ in range(6):
        name = _pick(rng, list(LEARNERS))
        table = LEARNERS[name]
        arguments = {key: value for key, value in USUAL.items() if key in table}
        if name == "ExpWeights":
            arguments["particles"] = 8
            if rng.random() < 0.5:
                del arguments["loss_range"]
        elif name == "BanditExpWeights" and rng.random() < 0.3:
            del arguments["loss_range"]
        for _ in range(int(rng.choice([1, 1, 1, 2, 3]))):
            key = _pick(rng, list(table))
            arguments[key] = _pick(rng, table[key])
        arguments = {k: v for k, v in arguments.items() if not _too_big(k, v)}
        arguments.setdefault("horizon", 100)
        if name == "InsuredBandit":
            arguments.setdefault("loss_range", (0.0, 1.0))
        actions, kernel = _plain_actions(rng), _plain_kernel(rng)
        label = _called(name, {"actions": actions, "kernel": kernel, **arguments})
        yield _tried(label, lambda: _live(name, actions, kernel, arguments))  # noqa: B023


@trial("actions and kernels of learners, huge, tiny and degenerate", quick=30, full=300)
def games(rng: np.random.Generator) -> Cases:
    for _ in range(6):
        name = _pick(rng, list(LEARNERS))
        arguments = {key: value for key, value in USUAL.items() if key in LEARNERS[name]}
        if name == "ExpWeights":
            arguments = {"horizon": 100, "particles": 8}
        elif name == "BanditExpWeights" and rng.random() < 0.5:
            del arguments["loss_range"]

        def act() -> Any:
            return _live(name, _actions(kinds), _kernel(parts), arguments)  # noqa: B023

        kinds, parts = _any_actions(rng), _any_kernel(rng)
        yield _tried(_called(name, {"actions": kinds, "kernel": parts, **arguments}), act)


def _too_big(key: str, value: Any) -> bool:
    number = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    return number and key in BIG and value > BIG[key] and value < 2**53


def _any_actions(rng: np.random.Generator) -> tuple[Any, ...]:
    """A constructor's name and its arguments."""
    if rng.random() < 0.5:
        return ("Points", _pick(rng, _point_sets(rng)))
    size, d = _pick(rng, FLOATS), _pick(rng, [1, 2, 3])
    return _pick(
        rng,
        [
            ("Ball", d, size),
            ("Ball", _pick(rng, INTS), 1.0),
            ("PositiveBall", d, size, 0.0),
            ("PositiveBall", d, 1.0, size),
            ("Box", [0.0] * d, [size] * d),
            ("Box", [0.0] * d, [1.0] * (d - 1) + [size]),
            ("Box", [1.0], [1.0 + 1e-15]),
            ("Box", [0.5] * d, [0.5] * d),
        ],
    )


def _actions(kind: tuple[Any, ...]) -> Any:
    return getattr(kl, kind[0])(*kind[1:])


def _any_kernel(rng: np.random.Generator) -> tuple[Any, ...]:
    size = _pick(rng, FLOATS)
    return _pick(
        rng,
        [
            ("Linear",),
            ("Quadratic",),
            ("Gaussian", size),
            ("Gaussian", 0.5),
            ("Matern", 1.5, size),
            ("Matern", size, 1.0),
            ("Matern", 0.5, 0.3),
            ("Periodic", size),
            ("Periodic", 1.0, size),
            ("Polynomial", _pick(rng, INTS), 1.0),
            ("Polynomial", 2, size),
            ("Polynomial", 10**6, 0.0),
            ("Scaled", size),
            ("Posynomial", [[size, 1.0]]),
            ("Posynomial", [[1.0], [0.5]]),
        ],
    )


def _kernel(kind: tuple[Any, ...]) -> Any:
    if kind[0] == "Scaled":
        from koloss.kernels import Scaled

        return Scaled(kind[1], kl.Gaussian(0.5))
    return getattr(kl, kind[0])(*kind[1:])


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
    if re.search(r"\bnan\b|\binf\b", text):
        seen.append(math.nan)
    again = type(learner).from_state(learner.state())
    if not np.array_equal(again.ask().action, learner.ask().action):
        raise RuntimeError("a learner made again from its state decides otherwise")
    return [seen, learner.guarantee(), learner.guarantee(rounds=10**9)]


def _loss(learner: Any, decision: Any, t: int) -> Any:
    if learner.feedback != "full":
        given = learner.settings.loss_range
        low, high = given if given is not None else (0.0, 0.0)
        return (low, high, low + (high - low) / 2)[t % 3]
    game = learner.game
    if game.is_finite and t % 2:
        values = np.linspace(0.0, game.width, len(game.points)) * (1 - 1e-12)
        return values + game.low if game.low is not None else values
    return game.kernel.bump(decision.action, game.norm * (1 - 1e-12))
