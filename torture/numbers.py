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
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

import koloss as kl
from koloss.errors import KolossError, NetTooLarge, NotPositiveDefinite
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
    if re.search(r"\bnan\b", text):
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


# What learners are made of.


@trial("kernels and losses: values, gradients, norms, sums", quick=30, full=250)
def kernels(rng: np.random.Generator) -> Cases:
    for _ in range(10):
        parts, X, factor = _any_kernel(rng), _pick(rng, _point_sets(rng)), _pick(rng, FLOATS)

        def act() -> Any:
            kernel = _kernel(parts)  # noqa: B023
            gram, diagonal = kernel(X), kernel.diag(X)  # noqa: B023
            center = np.asarray(X, dtype=float)[0]  # noqa: B023
            loss = kernel.embed(center) * factor  # noqa: B023
            ball = kl.Ball(len(center), 2.0)
            seen = [gram, diagonal, loss(X), loss.norm(), (loss + loss - loss).norm()]  # noqa: B023
            if "Posynomial" not in parts[0]:  # noqa: B023
                seen += [kernel.bound(ball), kernel.modulus(0.5, ball)]
            return [*seen, loss.gradient(X) if parts[0] != "Matern" else 0.0]  # noqa: B023

        label = f"{_short(parts)} on {_short(X)} times {_short(factor)}"
        yield _tried(label, act)


@trial("action sets: nets, projections, samples, membership", quick=30, full=250)
def action_sets(rng: np.random.Generator) -> Cases:
    for _ in range(10):
        kinds, spacing = _any_actions(rng), _pick(rng, FLOATS)
        size, far = _pick(rng, [v for v in INTS if not _waits(v)]), float(rng.choice(MAGNITUDES))

        def act() -> Any:
            actions = _actions(kinds)  # noqa: B023
            d = actions.dimension
            low, high = actions.bounds()
            inside = actions.contains(np.full((2, d), far)), actions.contains(low[None])  # noqa: B023
            seen = [low, high, actions.diameter(), actions.norm_bound(), *inside]
            if hasattr(actions, "project"):
                seen.append(actions.project(np.full((1, d), far)))  # noqa: B023
            if d < 10**4:
                seen.append(actions.sample(size, rng=np.random.default_rng(0)))  # noqa: B023
            return [*seen, actions.net(spacing, max_bytes=10**6)]  # noqa: B023

        yield _tried(f"{_short(kinds)}, spacing {_short(spacing)}, size {_short(size)}, {far}", act)


def _waits(value: Any) -> bool:
    """Whether so many draws are only a matter of time and memory."""
    return (
        isinstance(value, (int, np.integer))
        and not isinstance(value, bool)
        and 10**4 < value <= 10**9
    )


@trial("proxies, spectra and designs", quick=30, full=250)
def proxies(rng: np.random.Generator) -> Cases:
    functions = [
        "kernel_pca",
        "pivoted_cholesky",
        "exact_features",
        "mercer_features",
        "eigendecay",
    ]
    designs = [kl.john_design, kl.barycentric_spanner, kl.uniform_design]
    for _ in range(6):
        kinds, parts, name = _any_actions(rng), _any_kernel(rng), _pick(rng, functions)
        if rng.random() < 0.3:
            parts = ("Gaussian", float(10 ** rng.uniform(-3, 3)))
        options = {"rank": INTS, "tolerance": FLOATS, "samples": INTS, "spacing": FLOATS}
        options |= {"count": INTS, "scale": FLOATS, "center": FLOATS, "max_bytes": INTS}
        known = {
            "kernel_pca": ("rank", "tolerance", "samples", "spacing", "max_bytes"),
            "pivoted_cholesky": ("rank", "tolerance", "spacing", "max_bytes"),
            "exact_features": ("spacing", "max_bytes"),
            "mercer_features": ("rank", "tolerance", "scale", "center", "spacing", "max_bytes"),
            "eigendecay": ("samples", "count", "spacing"),
        }[name]
        given = {}
        if rng.random() < 0.7:
            key = _pick(rng, list(known))
            given[key] = _pick(rng, options[key])
        given = {k: v for k, v in given.items() if k == "max_bytes" or not _waits(v)}
        design = _pick(rng, designs)

        def act() -> Any:
            made = getattr(kl, name)(_kernel(parts), _actions(kinds), **given)  # noqa: B023
            if not isinstance(made, kl.Proxy):
                return [made, made.describe(1, 0.1) and 0.0]
            found = design(made)  # noqa: B023
            white = kl.whiten(made, found)
            return [made, made(made.points.X[:2]), found, white.features]

        label = _called(name, {"kernel": parts, "actions": kinds, **given})
        yield _tried(f"{label}, {design.__name__}", act)


@trial("designs of features that are huge, tiny or dependent", quick=20, full=150)
def designs(rng: np.random.Generator) -> Cases:
    for _ in range(8):
        features = _pick(rng, _point_sets(rng))
        moderate = isinstance(features, np.ndarray) and features.size > 0
        if moderate and float(np.abs(features).max()) < 1e300:
            features = features * rng.choice([1e-6, 1.0, 1e6], size=features.shape[1])
        make = _pick(rng, [kl.john_design, kl.barycentric_spanner, kl.uniform_design])
        options: dict[str, Any] = {}
        if rng.random() < 0.4 and make is kl.john_design:
            key = _pick(rng, ["tolerance", "max_rounds"])
            options[key] = _pick(rng, FLOATS if key == "tolerance" else INTS)
        elif rng.random() < 0.4 and make is kl.barycentric_spanner:
            options["approximation"] = _pick(rng, FLOATS)
        options = {k: v for k, v in options.items() if not _waits(v)}

        def act() -> Any:
            design = make(features, **options)  # noqa: B023
            return [design, kl.whiten(features, design).features]  # noqa: B023

        yield _tried(f"{make.__name__}({_short(features)}, {_called('', options)})", act)


@trial("samplers and oracles", quick=30, full=250)
def samplers(rng: np.random.Generator) -> Cases:
    for _ in range(8):
        d = int(rng.choice([1, 2, 5]))
        size, second = _pick(rng, FLOATS), _pick(rng, FLOATS)
        A = rng.standard_normal((d, d))
        A, b = (A + A.T) / 2, rng.standard_normal(d)
        name = _pick(rng, list(PARTS))
        count = _pick(rng, [1, 2, 5, *(v for v in INTS if not _waits(v))])
        which = int(rng.integers(3))

        factor = size if isinstance(size, float) and abs(size) < 1e307 else 1.0
        matrix, vector = (A * factor if which == 1 else A), (b * factor if which == 2 else b)

        def act() -> Any:
            return PARTS[name](matrix, vector, second, count, d)  # noqa: B023

        label = f"{name}, d {d}, size {_short(size)} ({which}), second {_short(second)}, {_short(count)}"
        yield _tried(label, act)


def _draw_loss(matrix: Any, vector: Any, second: Any, count: Any, d: int) -> Any:
    box = kl.Box([0.0] * d, [1.0] * d)
    return kl.samplers.sample(kl.LinearLoss(vector), box, second, count, rng=1)


def _draw_quadratic(matrix: Any, vector: Any, second: Any, count: Any, d: int) -> Any:
    ball = kl.Ball(d, second)
    return kl.samplers.sample(kl.QuadraticLoss(matrix, vector), ball, 1.0, count, rng=1)


def _chains(function: Callable[..., Any]) -> Callable[..., Any]:
    def act(matrix: Any, vector: Any, second: Any, count: Any, d: int) -> Any:
        short = {"chains": 4, "steps": 2, "warmup": 5, "rng": 1, "learning_rate": second}
        count = min(count, 50) if isinstance(count, int) else count
        return function(kl.QuadraticLoss(matrix, vector), kl.Ball(d), count, **short).points

    return act


def _minimum(loss: Any, actions: Any) -> Any:
    least = kl.oracles.minimize(loss, actions, rng=1)
    return [least.point, least.value]


PARTS: dict[str, Callable[..., Any]] = {
    "quadratic_ball": lambda A, b, s, n, d: kl.samplers.quadratic_ball(A, b, n, radius=s, rng=1),
    "quadratic_moments": lambda A, b, s, n, d: list(
        vars(kl.samplers.quadratic_moments(A, b, radius=s)).values()
    ),
    "minimize_quadratic_ball": lambda A, b, s, n, d: [
        (m := kl.oracles.minimize_quadratic_ball(A, b, radius=s)).point,
        m.value,
    ],
    "sample, linear on a box": _draw_loss,
    "sample, quadratic on a ball": _draw_quadratic,
    "hit_and_run": _chains(kl.samplers.hit_and_run),
    "langevin": _chains(kl.samplers.langevin),
    "categorical": lambda A, b, s, n, d: kl.samplers.categorical(b, n, rng=1),
    "separable_box": lambda A, b, s, n, d: kl.samplers.separable_box(
        np.diag(A), b, [0.0] * d, [s] * d, n, rng=1
    ),
    "minimize, linear on a ball": lambda A, b, s, n, d: _minimum(kl.LinearLoss(b), kl.Ball(d, s)),
    "minimize, quadratic on a box": lambda A, b, s, n, d: _minimum(
        kl.QuadraticLoss(A @ A.T, b), kl.Box([0.0] * d, [s] * d)
    ),
    "minimize, Gaussian on a ball": lambda A, b, s, n, d: _minimum(
        kl.Gaussian(s).embed(A, b), kl.Ball(d)
    ),
    "minimize, posynomial": lambda A, b, s, n, d: _minimum(
        kl.PosynomialLoss(kl.Posynomial(A), np.abs(b)), kl.PositiveBall(d, s, 0.1)
    ),
}


# Guarantees far ahead, nets that are refused, kernels that are none.


@trial("bounds of games up to 10^15 rounds", quick=10, full=40)
def horizons(rng: np.random.Generator) -> Cases:
    for name in LEARNERS:
        n = 10 ** int(rng.integers(0, 16)) * int(rng.integers(1, 10))
        actions, kernel = _plain_actions(rng), _plain_kernel(rng)
        known = LEARNERS[name]
        arguments: dict[str, Any] = {"horizon": n, "tuning": _pick(rng, ["sharp", "paper"])}
        if "loss_range" in known and name != "ExpWeights":
            arguments["loss_range"] = (-1.0, 2.0)
        if name in ("BanditExpWeights", "InsuredBandit", "ExpWeights") and rng.random() < 0.3:
            arguments["horizon"] = None
        arguments = {k: v for k, v in arguments.items() if k in known}
        ahead = [10 ** int(k) for k in rng.integers(0, 16, size=3)]

        def act() -> Any:
            learner = getattr(kl, name)(actions, kernel, rng=1, **arguments)  # noqa: B023
            bounds = [learner.guarantee(rounds=t) for t in sorted(ahead)]  # noqa: B023
            totals = [bound.total for bound in bounds]
            if any(a > b * (1 + 1e-9) for a, b in zip(totals, totals[1:], strict=False)):
                raise RuntimeError(f"bounds fall with the rounds: {totals} at {sorted(ahead)}")  # noqa: B023
            return bounds

        label = _called(name, {"actions": actions, "kernel": kernel, **arguments})
        yield _tried(f"{label}.guarantee(rounds={ahead})", act)


@trial("nets refused before they are laid, within 200 MB", quick=8, full=60)
def nets(rng: np.random.Generator) -> Cases:
    for _ in range(4):
        d = int(rng.choice([1, 2, 3, 4, 5, 6, 8, 10, 12, 20, 50]))
        points = 10.0 ** rng.uniform(
            8.2, 12
        )  # of a unit cube: too many for 1 GiB, or for 4 of features
        spacing = points ** (-1 / d)
        actions = _pick(
            rng,
            [
                kl.Ball(d, 2.0),
                kl.PositiveBall(d, 4.0),
                kl.PositiveBall(d, 4.0, 0.1 / d),
                kl.Box([0.0] * d, [1.0] * d),
            ],
        )
        make = _pick(rng, list(MAKERS))

        def act() -> None:
            tracemalloc.start()
            try:
                MAKERS[make](actions, spacing)  # noqa: B023
                raise RuntimeError("not refused")
            except NetTooLarge as error:
                used = tracemalloc.get_traced_memory()[1]
                if used > NET_MEMORY:
                    raise RuntimeError(f"refused after {used / 1e6:.0f} MB") from error
            finally:
                tracemalloc.stop()

        yield _tried(f"{make} of {actions!r} at {spacing:.4g}", act)


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
        if smallest > -1e-3 * np.abs(gram).max():
            continue  # semidefinite on these points
        kind = _pick(
            rng, list(LEARNERS)[:2] + list(LEARNERS)[3:] + ["kernel_pca", "pivoted_cholesky"]
        )
        yield _noticed(kind, kernel, X, smallest)


@trial("kernels that are positive semidefinite are not accused", quick=10, full=80)
def definite(rng: np.random.Generator) -> Cases:
    for _ in range(4):
        X = _pick(rng, _point_sets(rng)[:14])
        kernel = _pick(
            rng,
            [
                kl.Gaussian(float(10 ** rng.uniform(-2, 3))),
                kl.Matern(float(rng.uniform(0.1, 20)), float(10 ** rng.uniform(-2, 2))),
                kl.Polynomial(int(rng.integers(1, 9)), float(rng.uniform(0, 2))),
                kl.Periodic(float(rng.uniform(0.1, 5))),
                kl.Gaussian(1.0) * kl.Linear() + 1e-6 * kl.Quadratic(),
            ],
        )

        def act() -> None:
            for make in (kl.kernel_pca, kl.pivoted_cholesky):
                proxy = make(kernel, kl.Points(X))  # noqa: B023
                if not proxy.is_certified:
                    raise RuntimeError(f"{proxy!r} is accused")

        yield _tried(f"{kernel!r} on {_short(X)}", act)


class _Own:
    """A kernel of a user's own, which is none."""

    def __init__(self, name: str, scale: float) -> None:
        self.name, self.scale = name, scale

    def __call__(self, X: Any, Y: Any = None) -> Any:
        Y = X if Y is None else Y
        distance = np.sqrt(np.sum((X[:, None] - Y[None]) ** 2, axis=2))
        return self.scale * INDEFINITE[self.name](distance, X @ Y.T, X[:, :1] @ Y[:, :1].T)

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


INDEFINITE: dict[str, Callable[[Any, Any, Any], Any]] = {
    "tanh(2x'y - 1)": lambda r, t, _: np.tanh(2 * t - 1),
    "tanh(x'y + 1)": lambda r, t, _: np.tanh(t + 1),
    "-|x - y|": lambda r, t, _: -r,
    "difference of Gaussians": lambda r, t, _: np.exp(-(r**2) / 2) - 0.5 * np.exp(-50 * r**2),
    "difference of Gaussians, wide": lambda r, t, _: np.exp(-50 * r**2) - 0.7 * np.exp(-(r**2) / 2),
    "thin plate": lambda r, t, _: r**2 * np.log(np.maximum(r, 1e-300)),
    "2x₁y₁ - x'y": lambda r, t, first: 2 * first - t,
    "multiquadric": lambda r, t, _: np.sqrt(1 + r**2),
    "1 if |x - y| < 1/2": lambda r, t, _: np.where(r < 0.5, 1.0, 0.0),
    "exp(-|x - y|⁴)": lambda r, t, _: np.exp(-((r / 0.4) ** 4)),
    "-exp(-|x - y|²)": lambda r, t, _: -np.exp(-(r**2)),
}


def _noticed(kind: str, kernel: _Own, X: Any, smallest: float) -> str | None:
    label, points = f"{kind} of {kernel!r} on {_short(X)}, eigenvalue {smallest:.3g}", kl.Points(X)
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
