"""What the user says to a learner with full information, checked once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from koloss.actions import Ball, Box, Points, PositiveBall, SpacePoints
from koloss.core.arrays import (
    as_count,
    as_distribution,
    as_float,
    as_int,
    as_interval,
    as_points,
    as_size,
    one_of,
    to_numpy,
)
from koloss.core.snapshot import kept
from koloss.kernels import Kernel, Loss
from koloss.learners.settings import Settings


@dataclass(frozen=True, kw_only=True)
class FullSettings(Settings):
    """What all these learners share."""

    loss_norm: float | None = None
    tuning: Literal["sharp", "paper"] = "sharp"
    learning_rate: float | None = None

    projects: ClassVar[bool] = False
    """Whether the bound needs the geometry of the RKHS, not ranges alone; and a horizon."""

    def __post_init__(self) -> None:
        if self.projects:
            as_int("horizon", self.horizon, minimum=1)
        super().__post_init__()
        actions = self.actions
        if not isinstance(actions, (Points, Ball, Box, PositiveBall)):
            kind = type(actions).__name__
            raise TypeError(
                f"`actions` must be Points, a Space, a Ball, a Box or a PositiveBall, got {kind}"
            )
        if isinstance(actions, Points) and not isinstance(actions, SpacePoints):
            X = to_numpy(actions.X).astype(float)
            self._set("actions", Points(X, covering_radius=actions.covering_radius))
        needed = self.projects or not isinstance(actions, Points)
        if needed and not isinstance(self.kernel, Kernel):
            raise TypeError(f"`kernel` must be a Kernel, got {type(self.kernel).__name__}")
        one_of("tuning", self.tuning, ("sharp", "paper"))
        for name in ("loss_norm", "learning_rate"):
            if getattr(self, name) is not None:
                self._set(name, as_size(name, getattr(self, name)))
        if hasattr(self, "delay"):
            self._set("delay", as_int("delay", self.delay, minimum=0, maximum=10**6))


@kept
@dataclass(frozen=True, kw_only=True)
class ExpWeightsSettings(FullSettings):
    """Of Algorithm 2."""

    loss_range: tuple[float, float] | Literal["learn"] | None = None
    prior: Any = None
    delay: int = 0
    particles: int = 256
    move: Literal["hit-and-run", "diffusion"] = "hit-and-run"
    compression: float = 0.01

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set("particles", as_count("particles", self.particles, minimum=2))
        self._set("compression", as_float("compression", self.compression, minimum=0.0))
        one_of("move", self.move, ("hit-and-run", "diffusion"))
        if isinstance(self.loss_range, str) and self.loss_range == "learn":
            self._check_learned()
        elif self.loss_range is not None:
            self._set("loss_range", as_interval("loss_range", self.loss_range))
        if self.horizon is None and (
            self.tuning == "paper" or self.learning_rate is not None or self.delay
        ):
            named = "`tuning` of 'paper', `learning_rate` and `delay`"
            raise ValueError(f"{named} must be left out without a horizon")
        if self.prior is not None:
            self._check_prior()

    def _check_learned(self) -> None:
        if not isinstance(self.actions, Points):
            kind = type(self.actions).__name__
            raise ValueError(f"`loss_range` of 'learn' must come with Points, got a {kind}")
        for name in ("loss_norm", "tuning", "learning_rate", "delay"):
            if not self.is_default(name):
                value = getattr(self, name)
                raise ValueError(
                    f"`{name}` must be left out with a `loss_range` of 'learn', got {value!r}"
                )

    def _check_prior(self) -> None:
        if not isinstance(self.actions, Points):
            if not isinstance(self.prior, Loss):
                rule = "must be a Loss on a compact set, of density exp(-prior)"
                raise TypeError(f"`prior` {rule}, got {type(self.prior).__name__}")
            return
        p = to_numpy(as_distribution("prior", self.prior, length=len(self.actions)))
        if p.min() <= 0:
            raise ValueError(
                f"`prior` must be positive everywhere, got {p.min():.6g} at {p.argmin()}"
            )
        self._set("prior", p)


@kept
@dataclass(frozen=True, kw_only=True)
class GradientSettings(FullSettings):
    """Of Algorithm 3."""

    horizon: int
    first: Any = None
    mixing_rate: float | None = None

    projects: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.mixing_rate is not None:
            gamma = as_float("mixing_rate", self.mixing_rate, positive=True)
            if gamma > 1:
                raise ValueError(f"`mixing_rate` must be at most 1, got {gamma:.6g}")
            self._set("mixing_rate", gamma)
        if self.first is not None:
            point = to_numpy(as_points("first", [self.first], dimension=self.actions.dimension))
            if not self.actions.contains(point)[0]:
                raise ValueError(f"`first` must be an action, got {point[0].tolist()}")
            self._set("first", point[0].astype(float))


@kept
@dataclass(frozen=True, kw_only=True)
class LeaderSettings(FullSettings):
    """Of Algorithm 4."""

    horizon: int
    delay: int = 0
    tolerance: float | None = None

    projects: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.tolerance is not None:
            self._set("tolerance", as_float("tolerance", self.tolerance, minimum=0.0))
