"""The covariance estimated from draws, where Algorithm 1 computes it (Appendix D of the paper, theory A4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from koloss.core import linalg
from koloss.core.snapshot import kept
from koloss.guarantees import bandit
from koloss.learners.bandit.points import PointsEngine

Floats = NDArray[np.float64]


@kept
@dataclass(frozen=True, kw_only=True, eq=False)
class SampledEngine(PointsEngine):
    """The engine of points with Σ̂, the covariance of fresh draws from p, in place of Σ; its features are on the host."""

    kappa: float  # on which depends how many draws there are

    is_sampled: ClassVar[bool] = True

    def _factor(self, p: Floats, eta: float, rng: Any) -> Any:
        """The factor of Σ̂; of Σ where the draws fail to span the space."""
        drawn, buffer = self.frequencies(p, eta, rng), linalg.work_space(self.features)
        factor = linalg.covariance_factor(self.features, drawn, buffer)
        return super()._factor(p, eta, rng) if factor is None else factor

    def frequencies(self, p: Floats, eta: float, rng: Any) -> Floats:
        """Shares of as many draws from p as theory A4 asks for."""
        failure = 1.0 / self.problem.rounds**2
        size = bandit.sample_count(self.problem, eta, self.kappa, failure)
        shares: Floats = rng.multinomial(size, p / p.sum()) / size
        return shares
