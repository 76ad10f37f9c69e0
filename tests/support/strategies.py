"""Strategies for numbers at the ends of their ranges and for games made of them, and what counts as a good end.

A call ends well where the library refuses what it was given by an error that the guide lists and whose text names an argument in
backticks, or where all that it computes is finite and every distribution sums to one.
"""

from __future__ import annotations

import math
import re
import reprlib
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import hypothesis.strategies as st
import numpy as np

import koloss as kl
from koloss.errors import KolossError
from koloss.kernels import Scaled
from tests.support.calls import documented
from tests.support.fuzz import TooLong, patience

# An argument, or what there is not for it.
NAMED = re.compile(r"`[\w-]+`| has no |^no (sampler|oracle|tractable)")
LISTED = frozenset().union(*documented().values())

MAGNITUDES = [10.0**k for k in (-320, -310, -300, -200, -150, -100, -60, -30, -12, -6)]
MAGNITUDES += [10.0**k for k in (6, 12, 30, 60, 100, 150, 200, 300, 308)] + [5e-324, 1.7e308]
FLOATS: list[Any] = [
    *(1.0, 0.5, 0.0, -0.0, -1.0, -1e-300, -1e300, math.nan, math.inf, -math.inf, *MAGNITUDES),
    *(10**400, -(10**400), 10**5000, Decimal("1e500"), Decimal("NaN"), Fraction(1, 10**400)),
    *(np.float16(1e-7), np.float32(1e-40), np.float32(3e38), np.float64(1e308), np.longdouble(1)),
    *(True, None, "1", "", 1j, [1.0], np.ones(2), object()),
]
INTS: list[Any] = [
    *(1, 0, -1, 2, 3, 10**4, 2**31, 2**53, 2**63, 10**15, 10**18, 10**25, 10**400, -(10**400)),
    *(10**5000, np.int64(2**62), np.uint8(3), 1.0, 1.5, math.nan, math.inf, True, "3", None, 1j),
]
PAIRS: list[Any] = [
    *((0, 1), (-1e308, 1e308), (0.0, 1e-320), (0.0, 5e-324), (-1e-300, 1e-300), (1e300, 1.0000001e300)),
    *((1.0, 1.0 + 2e-16), (1e16, 1e16 + 2), (0, 10**400), (-(10**400), 0), (1, 1), (2, 1)),
    *((-1e100, 1e100), (-1e150, 1e150), (math.nan, 1), (0, math.inf), (0, 1e-100), (-1e60, 0)),
    *((5.0, 6.0), (), (1,), (0, 1, 2), None, "ab", 3.0, ((0, 1), (2, 3)), (0, 1e-12), (-1e-60, 0)),
]  # fmt: skip

floats = st.integers(0, len(FLOATS) - 1).map(FLOATS.__getitem__)  # so that no text of them is made
ints = st.integers(0, len(INTS) - 1).map(INTS.__getitem__)


def waits(value: Any) -> bool:
    """Whether so many draws are only a matter of time and memory."""
    number = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    return number and 10**4 < value <= 10**9


FEW = [value for value in INTS if not waits(value)]
few = st.integers(0, len(FEW) - 1).map(FEW.__getitem__)


class Call:
    """A constructor or function by name, with what it is given, a tuple or a dict; its text is short."""

    def __init__(self, name: str, given: Any) -> None:
        self.name, self.given = name, given

    def __repr__(self) -> str:
        if isinstance(self.given, dict):
            return f"{self.name}({', '.join(f'{k}={short(v)}' for k, v in self.given.items())})"
        return f"{self.name}({', '.join(map(short, self.given))})"

    def make(self, *more: Any, owner: Any = kl, **options: Any) -> Any:
        function = getattr(owner, self.name)
        if isinstance(self.given, dict):
            return function(*more, **options, **self.given)
        return function(*more, *self.given, **options)


def shown(values: Any) -> Any:
    """The same values, each wrapped into what has a short text."""
    return values.map(lambda value: Call("", (value,)))


def short(value: Any) -> str:
    """A text also of what has none, or one of megabytes."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 10**30:
        return f"{'-' if value < 0 else ''}2**{value.bit_length()}"
    if isinstance(value, np.ndarray) and value.size > 6:
        return f"array{value.shape} of size {np.max(np.abs(value)):.3g}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(short, value[:4]))}{', ...' if len(value) > 4 else ''}]"
    text = reprlib.repr(value) if isinstance(value, (Decimal, Fraction)) else repr(value)
    return text if len(text) < 80 else text[:77] + "..."


# Good ends.


def ends_well(act: Callable[..., Any], *arguments: Any) -> None:
    """Make a call; whatever it raises that it should not, and whatever is wrong with its result, fails."""
    with patience():
        try:
            wrong = fault(act(*arguments))
        except (ValueError, TypeError, KolossError) as error:
            if NAMED.search(str(error)) and type(error).__name__ in LISTED:
                return
            raise
        except TooLong as error:
            wrong = str(error)
    assert wrong is None, wrong


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
        return next((wrong for wrong in map(fault, value) if wrong), None)
    if isinstance(value, (float, np.floating, np.ndarray)):
        numbers = np.asarray(value)
        if numbers.dtype.kind == "f" and not np.all(np.isfinite(numbers)):
            return f"not finite: {numbers[~np.isfinite(numbers)][:3]} among {numbers.shape}"
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
        return fault([getattr(value, field.name) for field in fields(value)])
    return None


# Games.


@st.composite
def point_sets(draw: Any, *, sound: bool = False) -> Any:
    """Arrays of points: degenerate, huge, tiny, and unless they are to be sound none at all."""
    d, n = draw(st.sampled_from([1, 2, 5, 20, 100])), draw(st.sampled_from([2, 7, 30]))
    cloud = np.random.default_rng(draw(st.integers(0, 9))).uniform(-1, 1, (n, d))
    size, line = draw(st.sampled_from(MAGNITUDES)), np.linspace(-1, 1, 9)
    sets = [
        *(cloud, np.outer(line, np.ones(d)), np.repeat(cloud, 3, axis=0), cloud[:1]),
        *(np.zeros((4, d)), np.ones((3, d)), 1 + 1e-16 * cloud, 1 + 1e-12 * cloud, 1e8 + cloud),
        *(cloud * 1e-9, np.eye(d), -np.eye(d)),
    ]
    if not sound:
        sets += [
            *(cloud * min(size, 1e300), cloud * [size if i == 0 else 1.0 for i in range(d)]),
            *(np.vstack([cloud, cloud + 1e-15]), np.vstack([cloud, np.full(d, size)])),
            *(cloud.astype(np.float32), cloud.round().astype(int), cloud.tolist()),
            *(np.full((2, d), math.nan), np.full((2, d), 1e308), np.empty((0, d))),
            *([[]], [[10**400]], "points"),
        ]
    return sets[draw(st.integers(0, len(sets) - 1))]  # fmt: skip


@st.composite
def action_sets(draw: Any) -> Call:
    """A set of actions, which may be one that cannot be made."""
    if draw(st.booleans()):
        return Call("Points", (draw(point_sets()),))
    size, d = draw(floats), draw(st.sampled_from([1, 2, 3]))
    sets = [
        ("Ball", d, size),
        ("Ball", draw(ints.map(lambda count: 2 if count == 10**4 else count)), 1.0),
        ("PositiveBall", d, size, 0.0),
        ("PositiveBall", d, 1.0, size),
        ("Box", [0.0] * d, [size] * d),
        ("Box", [0.0] * d, [1.0] * (d - 1) + [size]),
        ("Box", [1.0], [1.0 + 1e-15]),
        ("Box", [0.5] * d, [0.5] * d),
    ]
    name, *given = sets[draw(st.integers(0, len(sets) - 1))]
    return Call(name, tuple(given))


@st.composite
def kernels(draw: Any, actions: Call | None = None) -> Call:
    """A kernel; a linear one where a net of the actions would be so fine that a test would only wait."""
    size = draw(floats)
    some = [
        *(("Linear",), ("Quadratic",), ("Gaussian", size), ("Gaussian", 0.5)),
        *(("Matern", 1.5, size), ("Matern", size, 1.0), ("Matern", 0.5, 0.3)),
        *(("Periodic", size), ("Periodic", 1.0, size), ("Polynomial", draw(ints), 1.0)),
        *(("Polynomial", 2, size), ("Polynomial", 10**6, 0.0), ("Scaled", size)),
        *(("Posynomial", [[size, 1.0]]), ("Posynomial", [[1.0], [0.5]])),
    ]
    name, *given = some[draw(st.integers(0, len(some) - 1))]
    if actions is not None and actions.name != "Points" and name not in ("Linear", "Quadratic"):
        parts = [x for part in actions.given for x in (part if isinstance(part, list) else [part])]
        least = min((size for size in map(_number, given) if size > 0), default=1.0)
        if max(map(_number, parts)) > 4 * least:
            name, given = "Linear", []
    return Call(name, tuple(given))


def _number(value: Any) -> Any:
    value = value.item() if isinstance(value, np.floating) else value
    return value if isinstance(value, (int, float)) else 0.0


def kernel_of(call: Call) -> Any:
    return Scaled(call.given[0], kl.Gaussian(0.5)) if call.name == "Scaled" else call.make()


@st.composite
def plain_games(draw: Any) -> tuple[Any, Any]:
    """Actions and a kernel with nothing strange about them."""
    net = kl.Box([0, 0], [1, 1]).net(0.25)
    places = [net, kl.Points([[0.3, 0.4]]), kl.Ball(2), kl.Box([0.0], [1.0])]
    actions = draw(st.sampled_from(places))
    smooth = [kl.Linear(), kl.Quadratic(), kl.Gaussian(0.4), kl.Matern(1.5, 0.5)]
    return actions, draw(st.sampled_from(smooth[: 4 if isinstance(actions, kl.Points) else 2]))


# Settings of learners.

SETTINGS: dict[str, list[Any]] = {
    "horizon": INTS,
    "loss_bound": FLOATS,
    "loss_range": [*PAIRS, "learn"],
    "loss_norm": FLOATS,
    "rank": [*INTS, "auto"],
    "batch": [*INTS, "auto"],
    "ridge": [*FLOATS, "auto", 0],
    "outside": ["raise", "clip", "widen", "keep", None],
    "goal": ["maximize", "minimize", ""],
    "regret": ["hindsight", "pseudo", True],
    "sample_error": FLOATS,
    "delay": INTS,
    "learning_rate": FLOATS,
    "exploration_rate": FLOATS,
    "mixing_rate": FLOATS,
    "spacing": [one for one in FLOATS if not isinstance(one, np.float16)],  # gigabytes, still allowed
    "tuning": ["paper", "sharp", ""],
    "covariance": ["sampled", "exact", None],
    "bonus": [True, False, "auto", 1],
    "loss_class": ["general", "rank-one", "any", None],
    "design": ["spanner", "uniform", "john", None],
    "proxy": ["kernel_pca", "exact_features", "pivoted_cholesky", ""],
    "trigger": FLOATS,
    "premium": FLOATS,
    "width": FLOATS,
    "policy": ["ucb", "greedy", ["ucb", "ucb"], [], None],
    "early": [True, False, 0],
    "particles": [2, 3, *(count for count in INTS if not waits(count) and count != 10**4)],
    "compression": FLOATS,
    "move": ["diffusion", "hit-and-run"],
    "first": [[0.0], [0.0, 0.0], [1e300, 0.0], [math.nan, 0.0], "x", None],
    "tolerance": FLOATS,
}  # fmt: skip
"""Values of settings by name; each learner takes those that it has."""

LEARNERS = (
    *("BanditExpWeights", "InsuredBandit", "ExpWeights", "ConditionalGradient"),
    "FollowTheRegularizedLeader",
)


def known(name: str) -> list[str]:
    """The settings of a learner that have values here."""
    taken = {field.name for field in fields(getattr(kl, name).settings_type)}
    return [key for key in SETTINGS if key in taken]


@st.composite
def learners(draw: Any, most: int = 3) -> Call:
    """A learner with usual settings, of which at most so many are at the end of their range."""
    name = draw(st.sampled_from(LEARNERS))
    given: dict[str, Any] = {"horizon": 100}
    if name == "InsuredBandit" or (name == "BanditExpWeights" and draw(st.booleans())):
        given["loss_range"] = (0.0, 1.0)
    if name == "ExpWeights":
        given["particles"] = 8
    for key in draw(st.lists(st.sampled_from(known(name)), max_size=most, unique=True)):
        given[key] = draw(st.sampled_from(SETTINGS[key]))
    return Call(name, given)
