r"""`CountedExp2`: the law of contexts is not known, and a bonus pays for the error of counting it (Theorem F6.5).

In round t, after N = t - 1 contexts, with ι = log(2Cn²),

    μ̂_c = (N_c + 5ι)/(N + 5Cι),    A = Σ_c w_c μ̂_c Σ_a p(a|c) φφ',    x' = x - b_t √(φ'A⁻¹φ),    b_t = ε + Lχ̄_t,

the design is one for μ̂ and R_t = κ/(η(L + b_t)), and S(c, ·) += (1 - γ_c) x'(c, ·). Rounds in which R_t is too small, or that the bound
would charge with more than 2L, are not learned from: then everybody explores, γ_c = 1. `guarantees.contexts.Counting` has the numbers.

A design is kept as long as it keeps what it is for: under the new μ̂ too its reach is at most R_t, and its cost at most what the bound
charges.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from koloss.designs.contexts import under_law
from koloss.errors import KolossWarning
from koloss.guarantees.contexts import Counting
from koloss.learners.bandit.context_designs import find_design
from koloss.learners.bandit.contexts import PairsEngine
from koloss.learners.bandit.pairs import pairs_engine
from koloss.learners.bandit.settings import BanditSettings
from koloss.learners.bandit.shared import SharedExp2
from koloss.learners.reading import ROUNDING, Reader

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class CountedEngine(PairsEngine):
    """The engine of pairs in a round of Theorem F6.5: `law_of_contexts` is μ̂."""

    error: float = 0.0  # b_t

    changes = True

    @property
    def counting(self) -> Counting:
        """The numbers of the theorem."""
        eta, kappa = self.rates.learning_rate, self.rates.kappa
        width = self.high - self.low
        return Counting(self.problem, eta, kappa, len(self.law_of_contexts), width)

    def after(self, mu: Floats, count: int) -> CountedEngine:
        """The engine of the round that follows so many contexts, whose counted shares are μ̂."""
        reach, most = float(self.counting.reach(count)), self.problem.leverage
        capped = under_law(self.capped, mu)
        if capped is None or capped.largest > reach or capped.cost * reach > most:
            capped = find_design(self.features, self.weights, self.leverage, mu, reach)
        dear = self.dear or capped.cost * reach > most * (1 + ROUNDING)
        error = float(self.counting.error(count))
        return replace(self, law_of_contexts=mu, capped=capped, error=error, dear=dear)

    def _bonus(self, law: Any, nu: float) -> Any:
        return self.error * np.sqrt(self.leverages(law))

    @classmethod
    def from_dict(cls, data: Reader, settings: BanditSettings) -> CountedEngine:
        engine = super().from_dict(data, settings)
        assert isinstance(engine, CountedEngine)
        return replace(engine, error=data.number("error", 0))


class CountedExp2(SharedExp2):
    """Algorithm 1 on pairs with counted shares, in epochs of one round."""

    engine: CountedEngine

    def frequencies(self) -> Floats:
        """μ̂: how often each context has come, as if it had come 5ι times before."""
        counts = self.seen + self.engine.counting.prior
        law: Floats = counts / counts.sum()
        return law

    def _redesign(self) -> None:
        # What a round costs falls with every context: once one is learned from, all are.
        if self.engine.error > 0 or self.engine.counting.learns(self.made):
            self.engine = self.engine.after(self.frequencies(), self.made)

    def _tuned_rates(self) -> tuple[float, float]:
        return self.rates.learning_rate, self.engine.capped.cost


def counted_player(settings: BanditSettings) -> CountedExp2:
    """Whoever plays contexts whose shares are counted, with a bonus for that."""
    made = pairs_engine(settings)
    engine = CountedEngine(**{part.name: getattr(made, part.name) for part in fields(made)})
    assert settings.horizon is not None
    if engine.problem.log_prior > 0 and not engine.counting.learns(settings.horizon - 1):
        warnings.warn(
            "`horizon` is too short for a bonus that pays for counted shares: nothing would be learned in it, "
            f"got {settings.horizon}; `bonus` of 'auto' learns without a bound, and `order` of 'any' has one",
            KolossWarning,
            stacklevel=4,
        )
    return CountedExp2(engine, engine.rates, horizon=settings.horizon, batch=1)
