"""What can be said to the bandit learner, and the rules for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from koloss._arrays import as_flag, as_float, as_int, as_interval, as_size, one_of
from koloss.designs import Design
from koloss.learners.settings import Described, Settings
from koloss.proxy import Proxy

PROXIES = ("pivoted_cholesky", "kernel_pca", "exact_features")
DESIGNS = ("john", "spanner", "uniform")


@dataclass(frozen=True, kw_only=True)
class BanditSettings(Settings):
    """Settings of `BanditExpWeights`, which describes them."""

    loss_bound: float | None = None
    loss_range: tuple[float, float] | None = None
    loss_norm: float | None = None
    tuning: Literal["sharp", "paper"] = "sharp"
    proxy: str | Proxy | None = None
    rank: int | Literal["auto"] = "auto"
    design: str | Design = "john"
    batch: int | Literal["auto"] = "auto"
    covariance: Literal["exact", "sampled"] = "exact"
    sample_error: float = 0.1
    bonus: bool = False
    prior: Any = None
    loss_class: Literal["rank-one", "general"] = "rank-one"
    delay: int = 0
    learning_rate: float | None = None
    exploration_rate: float | None = None
    spacing: float | None = None

    former: ClassVar[Mapping[str, str]] = {"adversary": "loss_class", "exploration": "design"}

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of("tuning", self.tuning, ("sharp", "paper"))
        one_of("covariance", self.covariance, ("exact", "sampled"))
        one_of("loss_class", self.loss_class, ("rank-one", "general"))
        as_flag("bonus", self.bonus)
        self._set("delay", as_int("delay", self.delay, minimum=0, maximum=10**6))
        self._check_losses()
        self._check_features()
        self._check_rates()
        sampled = self.covariance == "sampled"
        if sampled and self.bonus:
            raise ValueError("`bonus` must be False with the sampled covariance, got True")
        if self.tuning == "paper" and (self.horizon is None or self.bonus or self.delay or sampled):
            raise ValueError(
                "`tuning` of 'paper' must have a horizon, no bonus, no delay and the exact covariance"
            )

    def _check_losses(self) -> None:
        if self.loss_range is not None:
            if self.loss_bound is not None:
                raise ValueError("give `loss_bound` or `loss_range`, not both")
            self._set("loss_range", as_interval("loss_range", self.loss_range))
        for name in ("loss_bound", "loss_norm"):
            if getattr(self, name) is not None:
                self._set(name, as_size(name, getattr(self, name)))

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
            if self.delay > 0 and self.batch > 1:
                raise ValueError(f"`batch` must be 1 where `delay` is positive, got {self.batch}")
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

    def interval(self, size: float) -> tuple[float, float, float]:
        """Interval of the losses, and the RKHS norm they may have; `size` is 𝒢 = sup √K(a, a)."""
        norm = max(1.0, size) if self.loss_norm is None else self.loss_norm
        if self.loss_range is not None:
            return (*self.loss_range, norm)
        L = size * norm if self.loss_bound is None else self.loss_bound
        return -L, L, norm
