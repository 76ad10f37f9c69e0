"""What can be said to the insured learner, and the rules for it."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Literal

import numpy as np

from koloss.actions import ActionSet, Ball, Box, Contexts, Points, Space, SpacePoints
from koloss.core.arrays import SIZES, as_float, as_int, as_size, one_of, to_numpy
from koloss.core.snapshot import Described, kept
from koloss.designs import Design
from koloss.kernels import Linear, Mixed, Quadratic, White
from koloss.learners.bandit.auto import widest
from koloss.learners.bandit.coordinates import has_units, mapped
from koloss.learners.bandit.pairs import (
    Ground,
    check_columns,
    check_kinds,
    kernel_in,
    pair_kernel,
    pairs_of,
)
from koloss.learners.bandit.settings import DESIGNS, BanditSettings
from koloss.learners.bandit.subsets import as_rows
from koloss.learners.insured.policies import check_named
from koloss.learners.settings import Settings
from koloss.proxy import Proxy

GROWN: dict[str, tuple[Any, ...]] = {
    "ridge": ("auto", 0),
    "loss_class": ("general",),
    "design": DESIGNS,
}
"""What they may be where a set grows."""

FLAT = 3
"""Dimensions up to which `grow="auto"` leaves a set as it is: nets are small."""

CURVED = 7
"""Dimensions up to which the insurance of a set that grows is for quadratic losses, of 36 features at most; for linear ones beyond."""

FEWEST, IN_PLAY, MOST = 16, 1024, 100_000
"""Points in play where a set grows: at least, by default, and at most."""


@kept
@dataclass(frozen=True, kw_only=True)
class InsuredSettings(Settings):
    """Settings of `InsuredBandit`, which describes them."""

    loss_range: tuple[float, float] | Literal["learn"]
    outside: Literal["raise", "clip"] = "raise"
    policy: Any = "ucb"
    trigger: float = 0.5
    premium: float = 0.75
    width: float | Literal["auto"] = "auto"
    robust_kernel: Any = None
    loss_norm: float | None = None
    proxy: str | Proxy | None = None
    rank: int | Literal["auto"] = "auto"
    design: str | Design = "john"
    batch: int | Literal["auto"] = "auto"
    ridge: float | Literal["auto"] = "auto"
    loss_class: Literal["rank-one", "general"] = "general"
    delay: int = 0
    hold: int = 0
    absent: tuple[int, ...] = ()
    spacing: float | None = None
    goal: Literal["minimize", "maximize"] = "minimize"
    regret: Literal["pseudo", "hindsight"] = "pseudo"
    shares: Any = None
    contexts: Contexts | None = None
    context_kernel: Any = None
    grow: bool | int | Literal["auto"] = False

    named_kernels: ClassVar[tuple[str, ...]] = ("auto",)

    def __post_init__(self) -> None:
        if isinstance(self.actions, Space) and self.grow:
            most = self.grow if type(self.grow) is int and self.grow >= FEWEST else IN_PLAY
            self._set("actions", self.actions.points(most // 2))
        super().__post_init__()
        if self.loss_range is None:
            raise ValueError(
                "`loss_range` must be (low, high), an interval for all losses, or 'learn', got None"
            )
        one_of("regret", self.regret, ("pseudo", "hindsight"))
        if self.regret == "hindsight":
            raise ValueError(
                "`regret` must be 'pseudo' with a policy, got 'hindsight': to insure it would cost as much as the bound of the "
                "robust learner, BanditExpWeights, which has it"
            )
        one_of("outside", self.outside, ("raise", "clip"))
        if self.width != "auto":
            width = as_float("width", self.width, minimum=0.0)
            if width > SIZES[1]:
                raise ValueError(f"`width` must be at most {SIZES[1]:g}, got {width:.6g}")
            self._set("width", width)
        check_named(self.policy)
        check_kinds(self.ground)
        if self.contexts is not None:
            self._check_contexts(self.contexts)
        for name in ("trigger", "premium"):
            self._set(name, as_size(name, getattr(self, name)))
        if str(self.loss_class) == "any":
            raise ValueError("`loss_class` must not be 'any' where policies are watched, got 'any'")
        self._check_grow()
        self._set("kernel", self._stated(self.kernel).kernel)
        if self.robust_kernel is not None:
            self._set("robust_kernel", self._stated(self._checked_robust_kernel()).kernel)
        robust = self.robust_in(0)
        self._set("loss_range", robust.loss_range)
        self._set("hold", robust.hold)
        self._set("shares", robust.shares)
        self._check_absent()
        if robust.learns_range and robust.planned_delay:
            name = "hold" if self.hold else "delay"
            raise ValueError(
                f"`{name}` must be 0 with a `loss_range` of 'learn' and a policy, got {getattr(self, name)}"
            )

    def check_roster(self) -> None:
        """Refuse actions that come and go where they cannot."""
        if not isinstance(self.actions, Points):
            kind = type(self.actions).__name__
            raise ValueError(f"`actions` must be Points where some come and go, got a {kind}")
        if self.loss_range == "learn":
            raise ValueError("`loss_range` must be known where actions come and go, got 'learn'")
        if self.shares is not None:
            raise ValueError(
                f"`shares` must be left out where actions come and go, got {self.shares!r}"
            )

    def _check_contexts(self, contexts: Contexts) -> None:
        """What cannot be played with contexts."""
        if self.has_contexts and not isinstance(self.actions, Points):
            rule = (
                "must be Points with several contexts and a policy; a compact set has .net(spacing)"
            )
            raise ValueError(f"`actions` {rule}, got {self.actions!r}")
        if self.has_contexts and isinstance(self.proxy, Proxy):
            rule = "must be named with several contexts, each of which has features of its own"
            raise ValueError(f"`proxy` {rule}, got a Proxy")
        if contexts.allowed is not None:
            self.check_roster()
            assert isinstance(self.actions, Points)
            check_columns(self.actions, contexts.allowed)

    @property
    def has_contexts(self) -> bool:
        """Whether there are several; one is none."""
        return self.stages > 1

    @property
    def ground(self) -> Ground:
        """What kernels on pairs of a context and an action are made of."""
        return Ground(self.actions, self.kernel, self.contexts, self.context_kernel)

    @property
    def stages(self) -> int:
        """One for each context, and one where there are none."""
        return 1 if self.contexts is None else len(self.contexts)

    def _check_grow(self) -> None:
        """Refuse a set that grows where it cannot; the kernel of "auto" is the widest, whose bandwidths are learned."""
        if not isinstance(self.grow, (bool, np.bool_)) and self.grow != "auto":
            self._set("grow", as_int("grow", self.grow, minimum=FEWEST, maximum=MOST))
        if not self.in_play:
            return
        if not self._stands_for_more:
            rule = "must be a Box, a Ball, or a Space with more actions than are played"
            raise ValueError(f"`actions` {rule} where the set grows, got {self.actions!r}")
        if isinstance(self.region, Space) and self.region.where is not None:
            rule = (
                "must be a Space without `where` where the set grows, which snapshots cannot keep"
            )
            raise ValueError(f"`actions` {rule}, got {self.region!r}")
        if isinstance(self.actions, Points) and self.in_play < len(self.actions) + 8:
            least = len(self.actions) + 8
            raise ValueError(f"`grow` must be at least {least} with these points, got {self.grow}")
        if self.horizon is None:
            raise ValueError("`horizon` must be known where the set grows, got None")
        if isinstance(self.loss_range, str):
            raise ValueError(
                f"`loss_range` must be known where the set grows, got {self.loss_range!r}"
            )
        for name in ("proxy", "spacing", "shares", "absent", "contexts"):
            if not self.is_default(name):
                value = getattr(self, name)
                raise ValueError(f"`{name}` must be left out where the set grows, got {value!r}")
        for name, allowed in GROWN.items():
            value = getattr(self, name)
            if not any(value is one or value == one for one in allowed):
                rule = " or ".join(map(repr, allowed))
                raise ValueError(f"`{name}` must be {rule} where the set grows, got {value!r}")
        if not isinstance(self.policy, str):
            name = type(self.policy).__name__
            raise ValueError(f"`policy` must be the library's where the set grows, got a {name}")
        for name in ("kernel", "robust_kernel"):
            if isinstance(getattr(self, name), str) and getattr(self, name) == "auto":
                space = isinstance(self.region, Space)
                self._set(name, Mixed(self.region) if space else widest(self.actions))
        if self.robust_kernel is None:  # the kernel's own features are too many to be insured
            few = self.actions.dimension <= CURVED
            self._set("robust_kernel", Quadratic() if few else Linear())

    @property
    def _stands_for_more(self) -> bool:
        """Whether a set of points is only a part of the actions."""
        if isinstance(self.actions, SpacePoints):
            return self.actions.covering_radius > 0
        return isinstance(self.actions, (Box, Ball))

    @property
    def region(self) -> ActionSet:
        """Where new points lie if the set grows."""
        return self.actions.space if isinstance(self.actions, SpacePoints) else self.actions

    @property
    def in_play(self) -> int | None:
        """Most points in play where the set grows; None where it does not."""
        if isinstance(self.grow, str):
            if not (self._stands_for_more and self.actions.dimension > FLAT):
                return None
        elif not self.grow:
            return None
        elif self.grow is not True:
            return self.grow
        return 2 * len(self.actions) if isinstance(self.actions, SpacePoints) else IN_PLAY

    def _check_absent(self) -> None:
        if np.size(self.absent):
            self.check_roster()
            count = len(self.actions.X)  # type: ignore[attr-defined]
            rows = as_rows("absent", self.absent, count, self.actions)
            if len(rows) == count:
                raise ValueError(f"`absent` must leave an action, got all {count}")
            self._set("absent", tuple(rows.tolist()))
        else:
            self._set("absent", ())

    def _checked_robust_kernel(self) -> Any:
        kernel = self.robust_kernel
        if isinstance(kernel, str):
            one_of("robust_kernel", kernel, ("any", "auto"))
            return White() if kernel == "any" else kernel
        if not (callable(kernel) and hasattr(kernel, "diag")) and not isinstance(kernel, Described):
            rule = "must be a Kernel, or have k(X, Y) and k.diag(X), or 'any' or 'auto'"
            raise TypeError(f"`robust_kernel` {rule}, got {type(kernel).__name__}")
        return kernel

    def _with(self, kernel: Any, context: int = 0) -> BanditSettings:
        """Settings of exponential weights in one context, or without any, of coordinates without units."""
        stated, ground = self.grounded(kernel)
        own = ground.kernel if self.contexts is None else kernel_in(ground, context)
        return stated if own is stated.kernel else replace(stated, kernel=own)

    def grounded(self, kernel: Any) -> tuple[BanditSettings, Ground]:
        """Settings that know no contexts, and what kernels in contexts are made of, of coordinates without units."""
        stated = self._stated(kernel)
        ground = self.ground._replace(kernel=stated.kernel)
        if not has_units(stated):
            ground = mapped(ground, constant=stated.loss_range is not None)
        return stated, ground

    def _stated(self, kernel: Any) -> BanditSettings:
        """The same as they were stated, but for contexts."""
        shared = {
            f.name: getattr(self, f.name) for f in fields(BanditSettings) if hasattr(self, f.name)
        }
        if self.horizon is None and self.batch == "auto":
            shared["batch"] = 1
        if self.in_play:
            shared["ridge"] = 0.0
        if self.ridge == 0 or self.in_play:
            shared["bonus"] = False
        none = {"contexts": None, "context_kernel": None}
        return BanditSettings(**{**shared, **none, "kernel": kernel})

    @property
    def forecast_kernel(self) -> Any:
        """That of the policies' forecasts, on actions; with several contexts on pairs."""
        return self.pairs.kernel if self.has_contexts else self._with(self.kernel).kernel

    @property
    def pairs(self) -> BanditSettings:
        """Settings for the features of all pairs of a context and an action, by which policies forecast."""
        assert self.contexts is not None
        assert isinstance(self.actions, Points)
        stated, ground = self.grounded(self.kernel)
        plain: dict[str, Any] = {"shares": None, "delay": 0, "hold": 0, "batch": 1}
        return replace(
            stated,
            actions=pairs_of(Contexts(self.contexts.X), self.actions),
            kernel=pair_kernel(ground),
            rank="auto",
            design="john",
            ridge=0.0,
            bonus=True,
            **plain,
        )

    @property
    def deviations(self) -> float | Literal["auto"]:
        """The width of the policies; where a set grows, one deviation: two would visit every corner of it."""
        return 1.0 if self.in_play and self.width == "auto" else self.width

    def robust_in(self, context: int) -> BanditSettings:
        """Settings of the robust learner behind the policies, in a context; without contexts there is one."""
        kernel = self.kernel if self.robust_kernel is None else self.robust_kernel
        settings = self._with(kernel, context)
        if isinstance(self.robust_kernel, White) and self.loss_norm is None:
            return replace(settings, loss_norm=self._norm_of_all(settings))
        return settings

    def _norm_of_all(self, settings: BanditSettings) -> float | None:
        """The norm of White's kernel that every loss within the range has at most, up to a constant: ρ√N/2."""
        if not isinstance(settings.actions, Points) or settings.loss_range is None:
            return None
        low, high, _ = settings.interval(1.0)
        size = float(to_numpy(settings.kernel.diag(settings.actions.X[:1, :]))[0])
        return (high - low) / 2 * math.sqrt(len(settings.actions) / size)

    def watched_in(self, context: int) -> BanditSettings:
        """Settings of the features with which policies are watched in a context: no ridge, whose bonus would sound false alarms.

        Nor do they depend on a delay, which has a price of its own.
        """
        return replace(self.robust_in(context), ridge=0.0, bonus=False, delay=0, hold=0)

    @property
    def planned_delay(self) -> int:
        """That of the robust learner."""
        return max(self.delay, self.hold)

    @property
    def shares_engine(self) -> bool:
        """Whether the robust learner has the features, and the rates, with which policies are watched."""
        return (self.ridge == 0 or bool(self.in_play)) and self.planned_delay == 0

    @property
    def policy_name(self) -> str:
        """The name of the policy; a user's is "own"."""
        return self.policy if isinstance(self.policy, str) else "own"

    @property
    def budget(self) -> float:
        """Estimated regret that the policy may reach, in units of B(n)."""
        return float(self.trigger + self.premium)
