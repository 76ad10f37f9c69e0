"""What can be said to the bandit learner, and the rules for it."""

from __future__ import annotations

import reprlib
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from koloss.actions import Contexts
from koloss.core.arrays import as_flag, as_float, as_int, as_interval, as_size, one_of
from koloss.core.snapshot import Described, kept
from koloss.designs import Design
from koloss.learners.bandit.loss_range import OUTSIDE
from koloss.learners.bandit.pairs import check_contexts, without_contexts
from koloss.learners.bandit.shares import Shares, as_shares
from koloss.learners.settings import Settings
from koloss.proxy import Proxy

PROXIES = ("pivoted_cholesky", "kernel_pca", "exact_features")
DESIGNS = ("john", "spanner", "uniform")


DEFAULT_NORM = 2.0
"""Norm of the losses, in units of the least norm with which a loss can fill their range."""


def _as_range(value: Any) -> tuple[float, float]:
    if isinstance(value, str):
        raise ValueError(f"`loss_range` must be (low, high) or 'learn', got {value!r}")
    return as_interval("loss_range", value)


def _is_auto(value: Any) -> bool:
    return isinstance(value, str) and value == "auto"


@kept
@dataclass(frozen=True, kw_only=True)
class BanditSettings(Settings):
    """Settings of `BanditExpWeights`, which describes them."""

    loss_bound: float | None = None
    loss_range: tuple[float, float] | Literal["learn"] | None = None
    outside: Literal["raise", "clip", "widen"] = "raise"
    loss_norm: float | None = None
    tuning: Literal["sharp", "paper"] = "sharp"
    proxy: str | Proxy | None = None
    rank: int | Literal["auto"] = "auto"
    design: str | Design = "john"
    batch: int | Literal["auto"] = "auto"
    covariance: Literal["exact", "sampled"] = "exact"
    sample_error: float = 0.1
    ridge: float | Literal["auto"] = "auto"
    bonus: bool | Literal["auto"] = "auto"
    prior: Any = None
    loss_class: Literal["rank-one", "general", "any"] = "general"
    delay: int = 0
    hold: int = 0
    learning_rate: float | None = None
    exploration_rate: float | None = None
    spacing: float | None = None
    goal: Literal["minimize", "maximize"] = "minimize"
    regret: Literal["pseudo", "hindsight"] = "pseudo"
    shares: Any = None
    contexts: Contexts | None = None
    context_kernel: Any = None

    named_kernels: ClassVar[tuple[str, ...]] = ("auto",)

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of("tuning", self.tuning, ("sharp", "paper"))
        one_of("goal", self.goal, ("minimize", "maximize"))
        one_of("regret", self.regret, ("pseudo", "hindsight"))
        one_of("covariance", self.covariance, ("exact", "sampled"))
        one_of("loss_class", self.loss_class, ("rank-one", "general", "any"))
        if not _is_auto(self.bonus):
            as_flag("bonus", self.bonus, "'auto'")
        if not _is_auto(self.ridge):
            penalty = as_float("ridge", self.ridge, minimum=0.0)
            self._set("ridge", as_size("ridge", penalty) if penalty else 0.0)
        self._set("delay", as_int("delay", self.delay, minimum=0, maximum=10**6))
        self._set("hold", as_int("hold", self.hold, minimum=0, maximum=10**6))
        self._check_losses()
        self._check_any()
        self._check_features()
        self._check_rates()
        sampled = self.covariance == "sampled"
        penalised = not isinstance(self.ridge, str) and self.ridge > 0
        if sampled and (self.bonus is True or penalised):
            name, value = ("bonus", True) if self.bonus is True else ("ridge", self.ridge)
            raise ValueError(f"`{name}` must be left out with the sampled covariance, got {value}")
        if self.regret == "hindsight":
            self._check_hindsight()
        if self.shares is not None:
            self._check_shares()
        extras = self.bonus is True or penalised or self.planned_delay or sampled
        if self.tuning == "paper" and (self.horizon is None or extras):
            raise ValueError(
                "`tuning` of 'paper' must have a horizon, no ridge, no bonus, no delay and the exact covariance, got "
                f"{self.horizon}, {self.ridge}, {self.bonus}, {self.planned_delay} and {self.covariance!r}"
            )
        check_contexts(self)
        if _is_auto(self.kernel):
            self._choose_kernel()

    def _choose_kernel(self) -> None:
        """Put a kernel in the place of "auto"; its guarantee is for norms, at each of its bandwidths."""
        given = (("loss_class", "rank-one"), ("tuning", "paper"), ("proxy", "exact_features"))
        for name, value in given:
            if getattr(self, name) == value:
                raise ValueError(f"`kernel` must not be 'auto' where `{name}` is {value!r}")
        if isinstance(self.proxy, Proxy):
            raise ValueError("`kernel` must be that of the `proxy`, got 'auto'")
        from koloss.learners.bandit.auto import auto_kernel

        self._set("kernel", auto_kernel(without_contexts(self) if self.contexts else self))

    def _check_losses(self) -> None:
        if self.loss_range is not None:
            if self.loss_bound is not None:
                raise ValueError("give `loss_bound` or `loss_range`, not both")
            if not self.learns_range:
                self._set("loss_range", _as_range(self.loss_range))
        one_of("outside", self.outside, OUTSIDE)
        if self.outside != "raise" and (self.loss_range is None or self.learns_range):
            raise ValueError(
                f"`outside` must be 'raise' unless `loss_range` is an interval, got {self.outside!r}"
            )
        if self.learns_range and self.tuning == "paper":
            raise ValueError(
                "`loss_range` must be an interval with the paper's tuning, got 'learn'"
            )
        for name in ("loss_bound", "loss_norm"):
            if getattr(self, name) is not None:
                self._set(name, as_size(name, getattr(self, name)))

    def _check_hindsight(self) -> None:
        """Settings for which no bound on the regret in hindsight is proved."""
        rules = {"tuning": "'sharp'", "covariance": "'exact'", "delay": "0", "hold": "0"}
        for name, rule in rules.items():
            if not self.is_default(name):
                value = getattr(self, name)
                raise ValueError(
                    f"`{name}` must be {rule} where `regret` is 'hindsight', got {value!r}"
                )

    def _check_shares(self) -> None:
        """Shares, and settings with which nothing is proved of them."""
        self._set("shares", as_shares(self.shares, self.actions))
        rules = {"regret": ("pseudo",), "tuning": ("sharp",)}
        for name, allowed in rules.items():
            value = getattr(self, name)
            if value not in allowed:
                rule = " or ".join(map(repr, allowed))
                raise ValueError(f"`{name}` must be {rule} where there are `shares`, got {value!r}")
        if self.horizon is None and self.ridge not in ("auto", 0):
            rule = "must be 0 where there are `shares` and no horizon"
            raise ValueError(f"`ridge` {rule}, got {self.ridge:.6g}")

    @property
    def several(self) -> bool:
        """Whether a context says anything: there is more than one, or it allows some of the actions."""
        contexts = self.contexts
        return contexts is not None and (len(contexts) > 1 or contexts.allowed is not None)

    @property
    def shared(self) -> bool:
        """Whether all contexts learn from every loss: where the law that they are drawn by is known, and the horizon."""
        contexts = self.contexts
        known = contexts is not None and len(contexts) > 1 and contexts.weights is not None
        return known and self.horizon is not None

    def laws(self, count: int) -> Shares | None:
        """The laws over so many actions that may be played; None where all may."""
        return None if self.shares is None else Shares.of(self.shares, count)

    def _check_any(self) -> None:
        """Where nothing is assumed of losses, features and their errors have no say."""
        if self.loss_class != "any":
            return
        if self.loss_range is None and self.loss_bound is None:
            raise ValueError("`loss_class` of 'any' must have a `loss_range` or `loss_bound`")
        if self.tuning == "paper":
            raise ValueError("`tuning` must be 'sharp' where `loss_class` is 'any', got 'paper'")
        for name in ("loss_norm", "proxy", "rank", "design", "covariance", "ridge", "bonus"):
            if not self.is_default(name) and getattr(self, name) != 0:
                value = reprlib.repr(getattr(self, name))
                raise ValueError(
                    f"`{name}` must be left out where `loss_class` is 'any', got {value}"
                )

    def _check_features(self) -> None:
        if not (isinstance(self.rank, str) and self.rank == "auto"):
            self._set("rank", as_int("rank", self.rank, minimum=1))
        if isinstance(self.proxy, Proxy):
            theirs = self.proxy.actions
            if theirs is not self.actions and theirs != self.actions:
                raise ValueError(
                    f"`proxy` must be one of the actions {self.actions!r}, got one of {theirs!r}"
                )
        elif self.proxy is not None and not isinstance(self.proxy, Described):
            one_of("proxy", self.proxy, PROXIES)
        if not isinstance(self.design, (Design, Described)):
            one_of("design", self.design, DESIGNS)
        error = as_float("sample_error", self.sample_error, minimum=1e-3)
        if error >= 1:
            raise ValueError(f"`sample_error` must be below 1, got {error:.6g}")
        self._set("sample_error", error)
        if self.spacing is not None:
            self._set("spacing", as_float("spacing", self.spacing, positive=True))

    def _check_rates(self) -> None:
        if not (isinstance(self.batch, str) and self.batch == "auto"):
            self._set("batch", as_int("batch", self.batch, minimum=1))
            if self.planned_delay > 0 and self.batch > 1:
                name = "delay" if self.delay else "hold"
                raise ValueError(f"`batch` must be 1 where `{name}` is positive, got {self.batch}")
        given = [n for n in ("learning_rate", "exploration_rate") if getattr(self, n) is not None]
        if given and self.horizon is None:
            raise ValueError(
                "`learning_rate` and `exploration_rate` must be left out without a horizon"
            )
        for name in given:
            self._set(name, as_size(name, getattr(self, name)))
        if self.exploration_rate is not None and self.exploration_rate > 1:
            raise ValueError(
                f"`exploration_rate` must be at most 1, got {self.exploration_rate:.6g}"
            )

    @property
    def planned_delay(self) -> int:
        """The delay that rates are for: what was declared, or as many decisions as losses are held back for."""
        return max(self.delay, self.hold)

    @property
    def learns_range(self) -> bool:
        """Whether the range of losses is learned from what is heard; everything is in units of it then."""
        return isinstance(self.loss_range, str) and self.loss_range == "learn"

    @property
    def sign(self) -> int:
        """What a loss is times, to be told: -1 where rewards are told."""
        return -1 if self.goal == "maximize" else 1

    @property
    def wants_no_ridge(self) -> bool:
        """Whether the estimator has to be the paper's: without a penalty, and without a bonus unless one is asked for."""
        return self.tuning == "paper" or self.covariance == "sampled"

    def interval(self, size: float, distance: float | None = None) -> tuple[float, float, float]:
        """Interval of the losses, and W: the norm they may have, or Σ|c_i| where they are Σ c_i Φ(y_i).

        `size` is 𝒢 = sup √K(a, a), `distance` how far Φ(a) may be from Φ of one action, where features are chosen.
        """
        norm, hull = self.loss_norm, self.loss_class == "rank-one" and distance is not None
        if self.loss_range is not None:
            ends = (-0.5, 0.5) if isinstance(self.loss_range, str) else self.loss_range
            low, high = sorted(self.sign * end for end in ends)
            if norm is None:  # twice what a function needs to fill the range (theory F2)
                near = min(size, distance or size)
                reach = min(size**2, (distance or 2 * size) ** 2 / 2) if hull else near
                norm = DEFAULT_NORM * (high - low) / reach if reach > 0 else 1.0
            return low, high, norm
        wide = max(1.0, size) if norm is None else norm
        L = size * wide if self.loss_bound is None else self.loss_bound
        return -L, L, 1.0 if hull and norm is None else wide
