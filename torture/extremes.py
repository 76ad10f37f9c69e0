"""Numbers at the ends of their ranges, games made of them, and what counts as a good end.

A case goes well where the library refuses what it was given by a `ValueError`, a `TypeError` or an error of its own
that the guide lists and whose text names an argument in backticks, or where all that it computes is finite and every distribution sums to one.
Warnings but `KolossWarning`, which says that a game is an odd one, other errors, NaN, more than 3 GB and more than 30 seconds are failures.
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
from tests.support.calls import documented

MEMORY = 3 * 2**30
PATIENCE = 30  # seconds of computing
NAMED = re.compile(
    r"`[\w-]+`| has no |^no (sampler|oracle|tractable)"
)  # an argument, or what there is not for it
LISTED = frozenset().union(*documented().values())  # what some call raises, by the guide

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


def point_sets(rng: np.random.Generator) -> list[Any]:
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


def tried(label: str, act: Callable[..., Any], *arguments: Any) -> str | None:
    """None where the call went well, otherwise what happened."""
    with patience():
        try:
            wrong = fault(act(*arguments))
        except (ValueError, TypeError, KolossError) as error:
            if NAMED.search(str(error)) and type(error).__name__ in LISTED:
                return None
            wrong = f"{type(error).__name__}: {error}"
        except (Exception, TooLong) as error:
            wrong = f"{type(error).__name__}: {error}"
    return None if wrong is None else f"{label}: {wrong}"[:600]


class TooLong(BaseException):
    """Raised by the clock."""


@contextlib.contextmanager
def patience() -> Iterator[None]:
    """An end after so many seconds, and of memory in a process of one's own."""
    if multiprocessing.parent_process() is not None:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))

    def ring(*_: Any) -> None:
        raise TooLong(f"more than {PATIENCE} s")

    former = signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, PATIENCE)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, former)


def fault(value: Any) -> str | None:
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
        return next((fault for fault in map(fault, value) if fault), None)
    if isinstance(value, (float, np.floating, np.ndarray)) and not isinstance(value, str):
        numbers = np.asarray(value)
        if numbers.dtype.kind == "f" and not np.all(np.isfinite(numbers)):
            return f"not finite: {numbers.ravel()[~np.isfinite(numbers.ravel())][:3]} among {numbers.shape}"
        return None
    if isinstance(value, kl.Design):
        total = float(np.sum(value.weights))
        rounding = 1e-9 if value.weights.dtype == np.float64 else 1e-5
        if not math.isclose(total, 1.0, rel_tol=rounding) or np.min(value.weights) < 0:
            return f"the weights of a design sum to {total}"
        return fault([value.weights, value.max_leverage])
    if isinstance(value, kl.Proxy):
        return fault([value.features, value.epsilon, value.eigenvalues, value.residual_curve])
    if isinstance(value, kl.Points):
        return fault([value.X, value.covering_radius])
    if is_dataclass(value) and not isinstance(value, type):
        return fault([getattr(value, f.name) for f in fields(value)])
    return None


def pick(rng: np.random.Generator, values: list[Any]) -> Any:
    return values[int(rng.integers(len(values)))]


def short(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 10**30:
        return f"{'-' if value < 0 else ''}2**{value.bit_length()}"
    if isinstance(value, np.ndarray) and value.size > 6:
        return f"array{value.shape} of size {np.max(np.abs(value)):.3g}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(short, value[:4]))}{', ...' if len(value) > 4 else ''}]"
    text = reprlib.repr(value) if isinstance(value, (Decimal, Fraction)) else repr(value)
    return text if len(text) < 80 else text[:77] + "..."


def called(name: str, arguments: dict[str, Any]) -> str:
    return f"{name}({', '.join(f'{k}={short(v)}' for k, v in arguments.items())})"


# Games.


def plain_game(rng: np.random.Generator) -> tuple[Any, Any]:
    """Actions and a kernel with nothing strange about them."""
    net = kl.Box([0, 0], [1, 1]).net(0.25)
    smooth = [kl.Gaussian(0.4), kl.Quadratic(), kl.Linear(), kl.Matern(1.5, 0.5)]
    places = [net, net, net, kl.Points([[0.3, 0.4]]), kl.Ball(2), kl.Box([0.0], [1.0])]
    actions = pick(rng, places)
    return actions, pick(rng, smooth if isinstance(actions, kl.Points) else smooth[1:3])


def any_actions(rng: np.random.Generator) -> tuple[Any, ...]:
    """A constructor's name and its arguments."""
    if rng.random() < 0.5:
        return ("Points", pick(rng, point_sets(rng)))
    size, d = pick(rng, FLOATS), pick(rng, [1, 2, 3])
    return pick(
        rng,
        [
            ("Ball", d, size),
            ("Ball", pick(rng, [d for d in INTS if d != 10**4]), 1.0),
            ("PositiveBall", d, size, 0.0),
            ("PositiveBall", d, 1.0, size),
            ("Box", [0.0] * d, [size] * d),
            ("Box", [0.0] * d, [1.0] * (d - 1) + [size]),
            ("Box", [1.0], [1.0 + 1e-15]),
            ("Box", [0.5] * d, [0.5] * d),
        ],
    )


def actions_of(kind: tuple[Any, ...]) -> Any:
    return getattr(kl, kind[0])(*kind[1:])


def any_kernel(rng: np.random.Generator) -> tuple[Any, ...]:
    size = pick(rng, FLOATS)
    return pick(
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
            ("Polynomial", pick(rng, INTS), 1.0),
            ("Polynomial", 2, size),
            ("Polynomial", 10**6, 0.0),
            ("Scaled", size),
            ("Posynomial", [[size, 1.0]]),
            ("Posynomial", [[1.0], [0.5]]),
        ],
    )


def light(actions: tuple[Any, ...], kernel: tuple[Any, ...]) -> tuple[Any, ...]:
    """The kernel, or a linear one where a net would be so fine or in so many dimensions that a trial would only wait."""
    if actions[0] == "Points" or kernel[0] in ("Linear", "Quadratic"):
        return kernel
    parts = [one for part in actions[1:] for one in (part if isinstance(part, list) else [part])]
    least = min((size for size in map(_number, kernel[1:]) if size > 0), default=1.0)
    return ("Linear",) if max(map(_number, parts)) > 4 * least else kernel


def _number(value: Any) -> Any:
    value = value.item() if isinstance(value, np.floating) else value
    return value if isinstance(value, (int, float)) else 0.0


def kernel_of(kind: tuple[Any, ...]) -> Any:
    if kind[0] == "Scaled":
        from koloss.kernels import Scaled

        return Scaled(kind[1], kl.Gaussian(0.5))
    return getattr(kl, kind[0])(*kind[1:])


def waits(value: Any) -> bool:
    """Whether so many draws are only a matter of time and memory."""
    return (
        isinstance(value, (int, np.integer))
        and not isinstance(value, bool)
        and 10**4 < value <= 10**9
    )
