"""A proxy: the RKHS made finite by an orthogonal projection, with a certified error.

Let P be the orthogonal projection on an m-dimensional subspace of the RKHS and φ(a) = PΦ(a) ∈ ℝ^m. Then
K - K̂ with K̂(x, y) = φ(x)'φ(y) is positive semidefinite, so |K - K̂|(x, y) ≤ √(r(x) r(y)) where

    r(a) = K(a, a) - |φ(a)|²

is the residual diagonal, and the largest error over all pairs of actions *equals* the largest r(a). That
number is computed, not estimated: it is the proxy's `epsilon`.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from koloss.actions import ActionSet, Box, Points
from koloss.core import text
from koloss.core.arrays import (
    Array,
    as_float,
    as_int,
    as_points,
    matching,
    namespace,
    roundoff,
    shown,
)
from koloss.core.linalg import SHARE, as_float64, each_share, gram, slices
from koloss.core.threads import single
from koloss.errors import (
    NetTooLarge,
    NotPositiveDefinite,
    RankUnreachable,
    ToleranceUnreachable,
)
from koloss.kernels.base import Kernel, KernelLike
from koloss.kernels.geometry import feature_diameter, feature_radius

DEFAULT_TOLERANCE = 1e-3
"""Certified error on the points, relative to sup K(a, a), of a proxy asked for without rank and tolerance."""

DEFAULT_NET = 4096
"""Largest net laid on a compact set where no spacing is given."""

BLIND_NET = 256
"""Largest net that is laid where even the largest has no two neighbours."""

MAX_BYTES = 2**32
"""Largest table of features that is made without being asked twice: 4 GiB."""

LARGEST_ADVICE = 2**40
"""Bytes up to which an error says how many are needed: no machine has more."""

FeatureMap = Callable[[Array], Array]


@dataclass(eq=False, repr=False)
class Proxy:
    """A finite feature map φ of a kernel on an action set, with its certified error.

    Made by `kernel_pca`, `pivoted_cholesky`, `mercer_features` or `exact_features`. Its `epsilon` bounds the error
    of a loss Φ(y), y an action; see `epsilon_general` and `epsilon_against` for other losses.
    """

    kernel: KernelLike
    actions: ActionSet  # the set on which `epsilon` is certified
    points: Points  # the actions themselves where they are finite, otherwise the net
    _: KW_ONLY
    features: Array  # φ of the points, of shape (len(points), rank)
    feature_map: FeatureMap  # φ of a block of any points
    eigenvalues: Array  # Mercer eigenvalues that belong to the features, largest first
    method: str
    pivots: NDArray[np.intp] | None = None  # the points that span the subspace, in order, if any
    step: float = 0.0  # how far Φ can be from its value at the nearest point
    cut: bool = False  # whether features that the method would have kept were left out
    negative_eigenvalue: float = (
        0.0  # of the Gram matrix, where one was seen: then nothing is certified
    )
    residual: Array = field(init=False)  # r(a) of the points, with an allowance for rounding
    # Errors of 0, 1, ..., rank features on the points; and certified on all actions.
    point_curve: NDArray[np.float64] = field(init=False)
    residual_curve: NDArray[np.float64] = field(init=False)
    epsilon: float = field(init=False)  # bound on |K(x, y) - φ(x)'φ(y)| over all pairs of actions

    def __post_init__(self) -> None:
        """Certify every leading part of the features."""
        phi, xp, diagonal = self.features, namespace(self.features), self.kernel.diag(self.points.X)
        left, largest = residuals(phi, diagonal)
        margins = [allowance(j, phi) * largest[0] for j in range(self.rank + 1)]
        self.point_curve = np.asarray(largest) + np.asarray(margins)
        left = xp.astype(xp.clip(left, 0.0, None), diagonal.dtype, copy=False)
        self.residual = left + allowance(self.rank, phi) * diagonal
        self.residual_curve = (np.sqrt(self.point_curve) + self.step) ** 2
        if self.step > 0 and hasattr(self.kernel, "bound"):  # r(a) ≤ K(a, a) everywhere
            self.residual_curve = np.minimum(self.residual_curve, self.kernel.bound(self.actions))
        self.epsilon = float(self.residual_curve[-1]) if self.is_certified else math.inf

    @property
    def rank(self) -> int:
        """Number m of features."""
        return int(self.features.shape[1])

    @property
    def is_certified(self) -> bool:
        """Whether the kernel is positive semidefinite as far as was seen, so that r(a) bounds the error."""
        return self.negative_eigenvalue == 0

    def __repr__(self) -> str:
        numbers = f"rank {self.rank}, epsilon {self.epsilon:.3g}"
        if not self.is_certified:
            numbers += f", not positive semidefinite: eigenvalue {self.negative_eigenvalue:.3g}"
        return f"<Proxy by {self.method}: {self.kernel!r} on {self.actions!r}, {numbers}>"

    def _repr_html_(self) -> str:
        facts = {
            "kernel": repr(self.kernel),
            "actions": repr(self.actions),
            "rank": f"{self.rank:,}",
            "certified error": f"{self.epsilon:.3g}",
        }
        if not self.is_certified:
            facts["not positive semidefinite"] = f"eigenvalue {self.negative_eigenvalue:.3g}"
        return text.card(f"Proxy by {self.method}", text.facts_table(facts))

    def __call__(self, X: Array) -> Array:
        """Features φ(x) of any points, in rows."""
        return in_blocks(self.feature_map, as_points("X", X, dimension=self.points.dimension))

    def residual_at(self, X: Array) -> Array:
        """r(x) = K(x, x) - |φ(x)|² of any points, with the allowance for rounding."""
        X = as_points("X", X, dimension=self.points.dimension)
        xp, features, diagonal = namespace(X), self(X), self.kernel.diag(X)
        left = xp.clip(diagonal - xp.sum(features * features, axis=1), 0.0, None)
        return left + allowance(self.rank, features) * diagonal

    def epsilon_against(self, X: Array) -> float:
        """Certified error for losses Φ(y) with y among the rows of X, actions or not: √(max r · max r_X)."""
        if not self.is_certified:
            return math.inf
        residual = self.residual_at(X)
        return math.sqrt(self.epsilon * float(namespace(residual).max(residual)))

    def epsilon_general(self, norm: float) -> float:
        """Certified error for every loss with RKHS norm at most `norm`: norm · max √r."""
        return as_float("norm", norm, positive=True) * math.sqrt(self.epsilon)

    def truncate(self, rank: int) -> Proxy:
        """The proxy of the first `rank` features; its epsilon is `residual_curve[rank]`."""
        rank = as_int("rank", rank, minimum=1)
        if rank > self.rank:
            raise RankUnreachable(f"`rank` must be at most {self.rank}, got {rank}", rank=self.rank)
        features, pivots, mu = self.features[:, :rank], self.pivots, self.eigenvalues[:rank]
        if pivots is not None:  # in no eigenvector's order: their eigenvalues change with every one
            pivots, mu = pivots[:rank], leading_eigenvalues(features)
        parts: dict[str, Any] = {"features": features, "eigenvalues": mu, "pivots": pivots}
        parts["cut"] = self.cut or rank < self.rank
        return replace(self, feature_map=lambda X: self.feature_map(X)[:, :rank], **parts)

    def rank_for(self, tolerance: float) -> int:
        """Smallest rank whose certified error is at most `tolerance`."""
        tolerance = as_float("tolerance", tolerance, positive=True)
        if not self.is_certified:
            raise not_certified(self.negative_eigenvalue)
        rank = _first_below(self.residual_curve, tolerance)
        if rank is None:
            raise unreachable(tolerance, float(self.residual_curve.min()), self.step)
        return rank


class Problem:
    """What every construction starts from: checked arguments, and the points that stand for the actions.

    A table of features has as many columns as `size` says, which are at most the rank where it is not given.
    """

    def __init__(
        self,
        kernel: KernelLike,
        actions: ActionSet,
        spacing: float | Points | None,
        max_bytes: int,
        *,
        rank: int | None = None,
        tolerance: float | None = None,
        size: int | None = None,
    ) -> None:
        if rank is not None and tolerance is not None:
            raise ValueError(f"give `rank` or `tolerance`, not both, got {rank} and {tolerance}")
        self.kernel, self.actions = kernel, actions
        self.rank = None if rank is None else as_int("rank", rank, minimum=1)
        if tolerance is not None:
            tolerance = as_float("tolerance", tolerance, positive=True)
        self.tolerance = tolerance
        room: Any = {"rank": self.rank} if size is None else {"features": size}
        self.points = discretise(
            kernel, actions, spacing, tolerance=tolerance, max_bytes=max_bytes, **room
        )

    @cached_property
    def step(self) -> float:
        """How far Φ can be from its value at the nearest point."""
        return step_beyond(self.kernel, self.actions, self.points)

    def proxy(
        self, method: str, features: Array, feature_map: FeatureMap, mu: Array, **more: Any
    ) -> Proxy:
        """The certified proxy of these features and their eigenvalues."""
        parts = {"features": features, "feature_map": feature_map, "eigenvalues": mu}
        parts |= {"method": method, "step": self.step, **more}
        return Proxy(self.kernel, self.actions, self.points, **parts)

    def wanted(self, proxy: Proxy) -> int | None:
        """Smallest rank within the tolerance, by default 10⁻³ sup K(a, a) on the points; None where there is none."""
        if self.tolerance is not None:
            return _first_below(proxy.residual_curve, self.tolerance)
        return _first_below(proxy.point_curve, DEFAULT_TOLERANCE * proxy.point_curve[0])

    def cut(self, proxy: Proxy, source: str) -> Proxy:
        """The features that were asked for, of a proxy of the largest rank that can be had."""
        if self.rank is not None:
            check_reached(self.rank, proxy.rank, source)
            rank = self.rank
        elif self.tolerance is not None:
            rank = proxy.rank_for(self.tolerance)
        else:
            rank = self.wanted(proxy) or proxy.rank
        return proxy if rank == proxy.rank else proxy.truncate(rank)


def allowance(rank: int, like: Array) -> float:
    """Relative room for rounding in r(a): max(100, 10 m) unit roundoffs."""
    return max(100, 10 * rank) * roundoff(like)


def residuals(features: Array, diagonal: Array) -> tuple[Array, list[float]]:
    """K(a, a) - |φ(a)|² of every point, and the largest for 0, 1, ... features: in float64, whatever the features are."""
    xp, rank = namespace(features), int(features.shape[1])

    def part(share: slice) -> tuple[Array, list[float]]:
        left, largest = as_float64(diagonal[share]), []
        for j in range(rank):
            column = as_float64(features[share, j])
            left = left - column * column
            largest.append(max(float(xp.max(left)), 0.0))
        return left, largest

    parts = each_share(part, int(features.shape[0]), features)
    curve = np.max([largest for _, largest in parts], axis=0).tolist() if rank else []
    return xp.concat([left for left, _ in parts]), [float(xp.max(diagonal)), *curve]


def in_blocks(function: FeatureMap, X: Array, rows: int = 16384) -> Array:
    """`function` of the rows of X, a block at a time where there are many, to save memory."""
    if X.shape[0] <= rows:
        with single:
            return function(X)
    return namespace(X).concat([function(X[b, :]) for b in slices(X.shape[0], rows)], axis=0)


def check_game(kernel: Any, actions: Any) -> None:
    """Refuse what is no kernel, and what is no set of actions."""
    if not isinstance(kernel, KernelLike):
        raise TypeError(f"`kernel` must have `k(X, Y)` and `k.diag(X)`, got {kernel!r}")
    if not isinstance(actions, ActionSet):
        raise TypeError(f"`actions` must be Points, a Ball or a Box, got {type(actions).__name__}")
    if isinstance(kernel, Kernel):
        kernel._check_actions(actions)


def discretise(
    kernel: KernelLike,
    actions: ActionSet,
    spacing: float | Points | None,
    *,
    tolerance: float | None = None,
    rounds: int | None = None,
    features: int = 1,
    rank: int | None = None,
    max_bytes: int = MAX_BYTES,
) -> Points:
    """The points on which a proxy is built: the actions themselves, or a net of a compact set.

    Without a spacing it is the coarsest net from which Φ is never farther than `_largest_step` allows, with at most
    4,096 points. `rounds` are those of a learner that plays on the net. A net already laid is taken as it is.

    Each point will have this many `features` or, where they are as many as there are points at most, `rank` of them. A
    table that needs more than `max_bytes` is refused before a net is laid; so is a net of more than a quarter of that.
    """
    check_game(kernel, actions)
    max_bytes = as_int("max_bytes", max_bytes, minimum=1)
    if rank is not None:  # points × min(rank, points) numbers fit exactly if points × features do
        features = min(rank, math.isqrt(max_bytes // 8))
    if isinstance(actions, Points):
        if spacing is not None and spacing is not actions:
            raise ValueError(f"`spacing` must be left out for a finite set, got {shown(spacing)}")
        points = actions
        check_table("actions", points, features, max_bytes)
    elif spacing is None:
        points = _default_net(kernel, actions, _largest_step(kernel, actions, tolerance, rounds))
    elif isinstance(spacing, Points):
        points = spacing
        if points.covering_radius == 0 < actions.diameter():
            rule = "a number, or a net with its covering radius"
            raise ValueError(f"`spacing` must be {rule}, got {points!r}")
        check_table("spacing", points, features, max_bytes)
    else:
        most = max_bytes // (8 * max(features, 4 * actions.dimension))
        try:
            points = actions.net(spacing, max_bytes=most * actions.dimension * 8)
        except NetTooLarge as error:
            raise _table_too_large("spacing", error.points, features, max_bytes) from error
    feature_radius(kernel, points)  # refuses values that are too large or too small
    return points


def _largest_step(
    kernel: KernelLike, actions: ActionSet, tolerance: float | None, rounds: int | None
) -> float:
    """How far Φ may be from the net; zero where nothing is known of the kernel.

    For a proxy a quarter of √tolerance, which leaves (1 - 1/4)² of the tolerance to the features. For n rounds 1/√n, at most
    5 %, of what losses of norm 1 can differ by: all rounds together then lose √n of that to the net, a small part of
    the bound.
    """
    if tolerance is not None:
        return math.sqrt(tolerance) / 4
    if not isinstance(kernel, Kernel):
        return 0.0
    try:
        scale = min(feature_radius(kernel, actions), feature_diameter(kernel, actions))
        kernel.modulus(actions.diameter(), actions)
    except (TypeError, ValueError):  # no bound or no modulus on this set
        return 0.0
    share = math.sqrt(DEFAULT_TOLERANCE) / 4 if rounds is None else min(0.05, rounds**-0.5)
    return share * scale


def _default_net(kernel: KernelLike, actions: ActionSet, largest_step: float) -> Points:
    """The coarsest net from which Φ is nowhere farther than a given step, or that of the most points allowed."""
    lower, upper = actions.bounds()
    units, sides = _units(kernel, actions), upper - lower
    alike = np.ndim(units) == 0
    spacing = actions.diameter() if alike else float(np.linalg.norm(sides / units))
    spacing = max(spacing, 1e-300)

    def lay(spacing: float) -> Points:
        grid = spacing if alike else spacing * units
        return actions.net(grid, max_bytes=DEFAULT_NET * actions.dimension * 8)

    def farther(net: Points) -> bool:
        if largest_step == 0 or net.covering_radius == 0:
            return net.covering_radius > 0
        # Rounding, also that of coordinates far from zero, does not choose between two nets.
        return not step_beyond(kernel, actions, net) <= largest_step * (1 + 1e-8)

    try:
        net = lay(spacing)
    except NetTooLarge as error:
        message = (
            f"`actions` is too large for a net of {DEFAULT_NET} points; pass a `spacing` or Points"
        )
        raise NetTooLarge(message, points=error.points) from error
    fewest = net
    while farther(net):
        spacing *= 0.9
        try:
            net = lay(spacing)
        except NetTooLarge:
            break
        if len(net) <= BLIND_NET:
            fewest = net
    if largest_step > 0 and farther(net) and _sees_nothing(kernel, actions, net):
        net = fewest
        shown, fifths = (", ".join(f"{s:.4g}" for s in sides / parts) for parts in (1, 5))
        message = (
            f"{kernel!r} takes no two of {DEFAULT_NET} points of {actions!r} for neighbours: its `bandwidth` is small "
            f"against the sides ({shown}), and a net of {len(net)} points stands for nothing between them. Give one "
            f"bandwidth for each coordinate, such as [{fifths}], or pass a `spacing` or Points"
        )
        warnings.warn(message, UserWarning, stacklevel=5)
    return net


def _units(kernel: KernelLike, actions: ActionSet) -> Any:
    """Units in which a net is laid: the kernel's lengths on a box, where they differ; otherwise 1."""
    if not isinstance(kernel, Kernel) or not isinstance(actions, Box):
        return 1.0
    scales = kernel.length_scales(actions.dimension)
    return 1.0 if scales is None or len(set(scales)) == 1 else np.asarray(scales)


def _sees_nothing(kernel: KernelLike, actions: ActionSet, net: Points) -> bool:
    """Whether between two points of a net Φ can be almost as far from both as actions can be apart."""
    if not isinstance(kernel, Kernel):
        return False
    step = step_beyond(kernel, actions, net)
    return math.isfinite(step) and step > 0.9 * feature_diameter(kernel, actions) > 0


def check_table(name: str, points: Points, features: int, max_bytes: int) -> None:
    """Refuse a table of features that needs too many bytes: eight for each number, four where the points are float32."""
    number = int(namespace(points.X).finfo(points.X.dtype).bits) // 8
    if len(points) * features * number > max_bytes:
        raise _table_too_large(name, len(points), features, max_bytes, number)


def _table_too_large(
    name: str, points: float, features: int, max_bytes: int, number: int = 8
) -> NetTooLarge:
    size = f"{points:.15g} points or more with {features} features or more each"
    needed = points * features * number
    advice = "take fewer, or make a proxy with a larger `max_bytes`"
    if needed <= LARGEST_ADVICE:
        half = "; points in float32 need half" if number == 8 else ""
        advice += f", {needed:.15g} or more{half}"
    message = f"`{name}` must need at most {max_bytes} bytes, got {size}; {advice}"
    return NetTooLarge(message, points=float(points))


def not_certified(eigenvalue: float) -> NotPositiveDefinite:
    """The error for an accuracy that cannot be promised."""
    rule = "must be positive semidefinite on the actions"
    message = f"`kernel` {rule}, got an eigenvalue of {eigenvalue:.6g}"
    return NotPositiveDefinite(message, eigenvalue=eigenvalue)


def check_reached(rank: int | None, most: int, source: str, negative: float = 0.0) -> None:
    """Refuse a kernel that vanishes, and a rank above what there is."""
    if most == 0 and negative < 0:
        raise not_certified(negative)
    if most == 0:
        message = "`kernel` must not vanish on the actions, got K(a, a) = 0 everywhere"
        raise RankUnreachable(message, rank=0)
    if rank is not None and rank > most:
        message = f"`rank` must be at most {most}, the numerical rank of {source}, got {rank}"
        raise RankUnreachable(message, rank=most)


def _first_below(curve: NDArray[np.float64], limit: float) -> int | None:
    """Smallest rank, from 1 on, at which a curve over ranks 0, 1, ... is at most the limit."""
    good = np.flatnonzero(curve <= limit)
    return max(int(good[0]), 1) if len(good) else None


def step_beyond(kernel: KernelLike, actions: ActionSet, points: Points) -> float:
    """How far Φ can be from its value at the nearest point of the net; zero where the points are all.

    √r(a) is the distance of Φ(a) from the proxy's subspace, so over the whole set it exceeds its maximum on
    the net by at most this.
    """
    if points is actions or points.covering_radius == 0:
        return 0.0
    if not hasattr(kernel, "modulus"):
        rule = "must have a method `modulus` for a compact set"
        raise TypeError(f"`kernel` {rule}, got {kernel!r}; use Points")
    if isinstance(kernel, Kernel) and points.covering_widths is not None:
        return kernel.cell_modulus(points.covering_widths, actions)
    return float(kernel.modulus(points.covering_radius, actions))


def leading_eigenvalues(features: Array) -> Array:
    """Eigenvalues of E φφ' under the uniform measure on the points, largest first."""
    xp, N = namespace(features), int(features.shape[0])
    if N <= SHARE:
        with single:
            covariance = features.T @ features / N
            return xp.flip(xp.clip(xp.linalg.eigvalsh(covariance), 0.0, None))
    covariance = matching(gram(lambda block: features[block, :], N, features) / N, features)
    return xp.flip(xp.clip(xp.linalg.eigvalsh(covariance), 0.0, None))


def unreachable(tolerance: float, epsilon: float, step: float) -> ToleranceUnreachable:
    """The error for a tolerance that no rank certifies."""
    message = f"`tolerance` must be at least {epsilon:.6g} here, got {tolerance:.6g}"
    if step > 0:
        message += f"; {step**2:.3g} is due to the net alone: use a smaller `spacing`"
    return ToleranceUnreachable(message, epsilon=epsilon)


@dataclass(frozen=True)
class Columns:
    """The function i ↦ K(·, x_i): the Gram matrix one column at a time, or some rows of one."""

    kernel: KernelLike
    X: Array

    def __call__(self, i: int, rows: slice = slice(None)) -> Array:
        return self.kernel(self.X[rows, :], self.X[i : i + 1, :])[:, 0]
