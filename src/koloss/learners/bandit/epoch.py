"""One epoch of the bandit learner: the distribution its actions are drawn from, and how their losses are used."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from scipy.linalg.blas import dsyrk, dtrsm
from scipy.linalg.lapack import dpotrf, dpotrs

from koloss.guarantees import bandit
from koloss.learners.bandit.setup import Setup


@dataclass(slots=True)
class Epoch:
    """An epoch: p, the Cholesky factor of Σ and the sum of its estimates.

    Once it is over and losses are still to come, only what these need is kept: the factor and a few numbers.
    """

    number: int
    eta: float
    gamma: float
    weight: float  # of its estimates: 1, or 1 - γ without a horizon
    whole: bool  # all its actions were drawn at once
    factor: Any  # lower triangular, Fortran order; Σ = factor factor'
    p: Any = None
    cdf: Any = None
    draws: int = 0
    waiting: int = 0  # decisions not heard of
    heard: int = 0  # losses heard before it was over
    over: bool = False
    gain: Any = None  # Σ of the estimates heard before it was over
    anchor: Any = None  # gain at the last exact test of the drift, and the drift then
    anchor_drift: float = 0.0
    bonus: Any = None  # β(a) = ε √(φ(a)'Σ⁻¹φ(a))

    @classmethod
    def open(
        cls,
        number: int,
        setup: Setup,
        p: Any,
        eta: float,
        gamma: float,
        *,
        whole: bool,
        rng: Any,
        buffer: Any,
    ) -> Epoch:
        """Begin an epoch: cumulative sums of p, Σ and its factor (Algorithm 1, lines 4 and 7)."""
        cdf = np.cumsum(p)
        cdf /= cdf[-1]
        factor = (
            _factor(setup.features, _sampled(setup, p, eta, rng), buffer) if setup.sampled else None
        )
        if factor is None:  # exact, also where a sample fails to span the space
            factor = _factor(setup.features, p, buffer)
        epoch = cls(
            number,
            eta,
            gamma,
            1.0 if setup.horizon is not None else 1 - gamma,
            whole,
            factor,
            p,
            cdf,
        )
        epoch.gain = epoch.anchor = np.zeros(setup.features.shape[1])
        if setup.problem.bonus:
            epoch.bonus = setup.problem.epsilon * np.sqrt(epoch.leverages(setup.features))
        return epoch

    def leverages(self, features: Any) -> Any:
        """φ(a)'Σ⁻¹φ(a) of every action."""
        white = dtrsm(1.0, self.factor, features.T, lower=1)
        return np.einsum("ij,ij->j", white, white)

    def estimate(self, rows: Any, losses: Any) -> Any:
        """Σ_s Σ⁻¹ φ(a_s) loss_s (line 8), of one action or several."""
        found, _ = dpotrs(self.factor, np.dot(losses, rows), lower=1)
        return found

    def draw(self, uniform: Any) -> Any:
        """Actions by inversion of the cumulative sums (line 5)."""
        return self.cdf.searchsorted(uniform, side="right")

    def end(self) -> None:
        """Keep only what late losses need."""
        self.over = True
        self.p = self.cdf = self.gain = self.anchor = None

    def drift(self, setup: Setup) -> float:
        """max_a (-η X(a)) for the sum X of the epoch's estimated losses."""
        rise = -(setup.features @ self.gain)
        if self.bonus is not None:
            rise += self.heard * self.weight * self.bonus
        return max(0.0, self.eta * float(np.max(rise)))

    def has_drifted(self, setup: Setup) -> bool:
        """Whether some log-weight has risen by more than h since the epoch began (theory B3).

        Most of the time a norm shows that it has not; where it does not, the exact test is made.
        """
        if self.anchor_drift + self.eta * self.reach(setup) <= bandit.DRIFT:
            return False
        self.anchor, self.anchor_drift = self.gain, self.drift(setup)
        return self.anchor_drift > bandit.DRIFT

    def reach(self, setup: Setup) -> float:
        """Upper bound on |X(a)| for the sum X of the estimates since the last exact test."""
        if self.bonus is not None:
            return math.inf  # the bonuses rise every time
        moved = self.gain - self.anchor
        return math.sqrt(float(moved @ moved) * setup.problem.leverage)  # |φ(a)|² ≤ G: whitened

    def to_dict(self) -> dict[str, Any]:
        """Plain data for a snapshot."""
        return {entry.name: getattr(self, entry.name) for entry in fields(self)}


def _factor(features: Any, p: Any, buffer: Any) -> Any:
    """Cholesky factor of Σ = E_p φφ', or None where it is singular.

    The buffer has the shape of the features, and saves its allocation.
    """
    np.multiply(features.T, np.sqrt(p), out=buffer.T)
    factor, failed = dpotrf(dsyrk(1.0, buffer, trans=1, lower=1), lower=1, overwrite_a=1)
    return None if failed else factor


def _sampled(setup: Setup, p: Any, eta: float, rng: Any) -> Any:
    """Frequencies of fresh draws from p, as many as theory A4 asks for."""
    failure = 1.0 / (setup.horizon or 10_000) ** 2
    size = bandit.sample_count(setup.problem, eta, setup.rates.kappa, failure)
    return rng.multinomial(size, p / p.sum()) / size
