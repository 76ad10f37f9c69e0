r"""What contexts make of Algorithm 1: pairs of a context and an action share their features (theory F6).

Contexts c come with the law μ, and a pair (c, a) has features φ(c, a). In each round a context is seen and an action drawn from

    p(a|c) = (1 - γ_c) q(a|c) + γ_c π(a|c),    q(a|c) ∝ exp(-η S(c, a)),

and one loss teaches all contexts: S(c, a) += w φ(c, a)'A⁻¹φ(z)·loss, with z the pair that was played, w the discount of its context
and A = Σ_c w_c μ_c Σ_a p(a|c) φφ' + Λ, where Λ is the penalty of a ridge. Contexts that are too rare to exploit explore always (γ_c = 1), at a discount w_c < 1, so that
they cannot upset the others (Lemma F6.2). A decision's key is the number cK + a of its pair.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dtrmv

from koloss import _linalg
from koloss._arrays import equal
from koloss._inversion import invert
from koloss.actions import Points
from koloss.designs.contexts import CappedDesign
from koloss.guarantees import bandit
from koloss.learners.bandit.context_designs import (
    BlockSchedule,
    capped_from_dict,
    find_design,
    first_of_block,
    is_dear,
)
from koloss.learners.bandit.points import PointsEngine
from koloss.learners.bandit.restoring import (
    interval_from_dict,
    problem_from_dict,
    rates_from_dict,
)
from koloss.learners.bandit.settings import BanditSettings
from koloss.learners.ledger import Drawn
from koloss.learners.reading import FARTHEST, ROUNDING, Reader

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]


@dataclass(slots=True)
class PairsLaw:
    """p(·|c) of an epoch for every context, and the Cholesky factor of A."""

    factor: Any  # lower triangular, Fortran order
    discounts: Any  # (C,), w
    weights: Any  # (C,), of its estimates in each context: 1, or 1 - γ_c without a horizon
    p: Any  # (C, K)
    cdf: Any  # (C, K)
    bonus: Any = None  # (C K,), b e(z) + ε s(z), without a penalty ε √(φ'A⁻¹φ)
    largest: float | None = None  # the largest where contexts exploit, once it has been asked for

    def shrink(self) -> None:
        """Keep what late losses need."""
        self.p = self.cdf = None

    def to_dict(self) -> dict[str, Any]:
        """Plain data for a snapshot."""
        return {name: getattr(self, name) for name in self.__slots__ if name != "largest"}


@dataclass(frozen=True, kw_only=True, eq=False)
class PairsEngine(PointsEngine):
    """Fixed arrays and numbers of a game on C contexts and K actions with m features of pairs.

    `points` are the actions, `features` and `weights` those of the C K pairs; the latter are the best design without contexts, and
    `leverage` is its own. Coordinates are those of `whitened`; with a ridge A(u) = I in them, for the first design.
    """

    law_of_contexts: Floats  # (C,), μ that the design is for
    capped: CappedDesign  # where to explore, in each context
    manner: str = (
        "known"  # the law of contexts: "known", "counted", "paid", or contexts come "in turn"
    )
    first: int = 1  # round in which this design began, where it changes
    dear: bool = False  # whether a design was dearer than anytime rates allow for
    slots: Rows | None = None  # (C, K), the actions that pairs stand for, where not all are allowed

    # Algorithm 1.

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of contexts and actions."""
        return len(self.law_of_contexts), len(self.points)

    def scores(self, theta: Floats) -> Floats:
        """S(c, a) but for bonuses; without a horizon every context has a θ of its own."""
        if theta.ndim == 1:
            return self.features @ theta
        C, K = self.shape
        stacked: Floats = self.features.reshape(C, K, -1) @ theta[:, :, None]
        return stacked.ravel()

    def mixture(self, theta: Floats, credit: Floats | None, eta: float, gamma: float) -> Floats:
        """p(·|c) = (1 - γ_c) q(·|c) + γ_c π(·|c) for all contexts, an array of shape (C, K)."""
        score = self.scores(theta)
        if credit is not None:
            score = score - credit
        return self.conditional(-eta * score.reshape(self.shape))

    def conditional(self, log_q: Floats) -> Floats:
        """The laws of all contexts, for weights up to a factor."""
        shares = self.capped.shares[:, None]
        q = np.exp(log_q - log_q.max(axis=1, keepdims=True))
        p: Floats = (1 - shares) / q.sum(axis=1, keepdims=True) * q + shares * self.capped.laws
        return p

    def law(
        self, theta: Floats, credit: Floats | None, eta: float, gamma: float, rng: Any, nu: float = 0.0,
        mu: Floats | None = None,
    ) -> Any:  # fmt: skip
        """p(·|c), its cumulative sums, and the factor of A; μ is that of the engine unless told."""
        p = self.mixture(theta, credit, eta, gamma)
        cdf = np.cumsum(p, axis=1)
        cdf /= cdf[:, -1:]
        mu = self.law_of_contexts if mu is None else mu
        discounts = self.capped.discounts
        joint = (discounts * mu)[:, None] * p
        weights = 1 - self.capped.shares if self.changes else np.ones(len(mu))
        law = PairsLaw(self._factor(joint.ravel(), eta, rng), discounts, weights, p, cdf)
        if self.problem.bonus:
            law.bonus = self._bonus(law, nu)
        return law

    def draw_in(self, law: PairsLaw, rows: Any, rng: Any) -> Drawn:
        """Actions by inversion of the cumulative sums of their contexts: of one, or one for each of several."""
        K = len(self.points)
        if isinstance(rows, int):
            i = int(law.cdf[rows].searchsorted(rng.random(), side="right"))
            if self.slots is None:
                return Drawn((rows * K + i,), self.points[i], i, law.p.item(rows, i), (rows,))
            a, key = self.slots.item(rows, i), rows * K + i
            own = float(law.p[rows, self.slots[rows] == a].sum())
            return Drawn((key,), self.points[a], a, own, (rows,))
        coins, index = rng.random(len(rows)), np.empty(len(rows), dtype=np.int64)
        for c in np.unique(rows):
            here = rows == c
            index[here] = invert(law.cdf[c], coins[here])
        keys, p = rows * K + index, self.by_action(law.p)
        if self.slots is not None:
            index = self.slots[rows, index]
        return Drawn(keys, self.points[index], index, p[rows, index], rows)

    def by_action(self, p: Floats) -> Floats:
        """Probabilities of actions, for those of pairs: in the place of an action that is not allowed stands one that is."""
        if self.slots is None:
            return p
        merged = np.zeros_like(p)
        np.add.at(merged, (np.arange(len(p))[:, None], self.slots), p)
        return merged

    def estimate(self, law: Any, rows: Any, losses: Any) -> Any:
        """Σ_s A⁻¹ φ(z_s) w loss_s, of one pair or several."""
        values = losses * law.discounts[np.floor_divide(rows, len(self.points))]
        return _linalg.solve(law.factor, np.dot(values, self.features[rows]))

    def rise(self, law: Any, gain: Floats, mass: float) -> float:
        """Largest -X(z) at a pair whose context exploits, for the sum X of the epoch's estimates."""
        rises = -(self.features @ gain)
        if law.bonus is not None:
            rises += mass * law.bonus
        if self.capped.exploits.all():
            return float(rises.max())
        exploiting = rises.reshape(self.shape)[self.capped.exploits]
        return float(np.max(exploiting, initial=0.0))

    def reach(self, law: Any, moved: Floats, mass: float = 0.0) -> float:
        """The same where contexts exploit: |φ(z)'moved| is at most what Cauchy and Schwarz say in the norm of A."""
        capped, epsilon = self.capped, self.problem.epsilon
        largest = math.sqrt(capped.largest_exploiting)  # √(φ'A⁻¹φ), since A ⪰ Σ(u)
        if law.bonus is not None and epsilon > 0 and self.columns is None:
            largest = self.largest_bonus(law) / epsilon
        farthest = largest * float(np.linalg.norm(dtrmv(law.factor, moved, lower=1, trans=1)))
        return farthest + mass * self.largest_bonus(law)

    def largest_bonus(self, law: Any) -> float:
        """Of all actions where contexts exploit, computed once for a law; zero without bonuses."""
        if law.bonus is None:
            return 0.0
        if law.largest is None:
            each: Floats = law.bonus.reshape(self.shape).max(axis=1)
            law.largest = float(np.max(each[self.capped.exploits], initial=0.0))
        largest: float = law.largest
        return largest

    def leverages(self, law: Any) -> Any:
        """φ'A⁻¹φ of every pair."""
        return _linalg.row_leverages(law.factor, self.features)

    # What is known.

    @property
    def size(self) -> str:
        C, K = self.shape
        return f"{C:,} contexts, {super().size.replace(f'{C * K:,} points', f'{K:,} points')}"

    # Without a horizon: a design serves until the number of the round has doubled.

    @property
    def is_anytime(self) -> bool:
        """Whether rates change with time."""
        return self.rates.learning_rate == 0

    @property
    def changes(self) -> bool:
        """Whether designs change, so that every context takes part in an estimate by its own share 1 - γ_c."""
        return self.is_anytime

    def at(self, t: int) -> PairsEngine:
        """The engine of round t."""
        first = first_of_block(t)
        if first == self.first or self.manner == "counted":
            return self
        return self.redesigned(self.law_of_contexts, first)

    def redesigned(self, mu: Floats, first: int) -> PairsEngine:
        """The same with the penalty of a round, and the design for it and for a law of contexts."""
        problem, columns, level, kappa = self.problem, self.columns, self.level, self.rates.kappa
        if self.schedule is not None and columns is not None:
            level = self.schedule.level(first)
            problem = self.schedule.problem(problem, kappa, level)
            columns = columns * 2.0 ** (self.level - level)
        eta = self.rates.learning_rate or bandit.anytime_rate(problem, kappa, first)
        reach = float(problem.largest_leverage(eta, kappa))
        least = float(problem.dimension) if self.is_anytime else 0.0
        capped = find_design(self.features, self.weights, self.leverage, mu, reach, columns, least)
        dear = self.dear or is_dear(problem, capped, reach)
        moved = replace(self, problem=problem, columns=columns, level=level)
        return replace(moved, law_of_contexts=mu, capped=capped, first=first, dear=dear)

    def rates_at(self, t: int) -> tuple[float, float]:
        """η and γ of round t."""
        eta = self.rates.learning_rate or bandit.anytime_rate(self.problem, self.rates.kappa, t)
        return eta, self.capped.cost

    # Snapshots.

    def to_dict(self) -> dict[str, Any]:
        capped = {
            name: value.astype(np.int64) if name == "exploits" else value
            for name, value in asdict(self.capped).items()
        }
        return {**super().to_dict(), "capped": capped}

    @classmethod
    def from_dict(cls, data: Reader, settings: BanditSettings) -> PairsEngine:
        known = settings.contexts
        assert known is not None
        points = data.array("points", (None, settings.actions.dimension), -FARTHEST, FARTHEST)
        C, K = len(known), len(points)
        if isinstance(settings.actions, Points) and not equal(points, settings.actions.X):
            data.refuse("points", "must be those of the settings", points)
        features = data.array("features", (C * K, None), order="F")
        data.nothing("design")
        data.number("samples", 0, 0)
        if data.raw("printed") != {}:
            data.refuse("printed", "must be empty with contexts", data.raw("printed"))
        problem = problem_from_dict(data.part("problem"), cls.rank_of(features), settings)
        columns = None
        if problem.ridge is None:
            data.nothing("columns")
        else:
            columns = data.array("columns", (features.shape[1], None))
        schedule, level = None, data.count("level")
        if columns is not None and settings.horizon is None:
            schedule = BlockSchedule.from_dict(data.part("schedule"))
        else:
            data.nothing("schedule")
            data.number("level", 0, 0)
        low, high, center = interval_from_dict(data, settings)
        mu = data.distribution("law_of_contexts", C)
        manner = data.word("manner", (settings.manner,))
        given = manner not in ("counted", "paid")
        if mu.min() <= 0 or (given and not equal(mu, known.weights)):
            data.refuse("law_of_contexts", "must be that of the contexts", mu)
        return cls(
            points=points,
            features=features,
            columns=columns,
            weights=data.distribution("weights", C * K),
            log_prior=data.array("log_prior", (K,), most=0),
            problem=problem,
            rates=rates_from_dict(data.part("rates"), settings.horizon),
            low=low,
            high=high,
            center=center,
            outside=settings.outside,
            learned=False,
            sign=settings.sign,
            norm=data.number("norm", positive=True),
            net=data.number("net", 0),
            samples=0.0,
            proxy=data.word("proxy"),
            losses=data.word("losses"),
            eigenvalue=data.number("eigenvalue", most=0),
            printed={},
            schedule=schedule,
            level=level,
            leverage=data.number("leverage", positive=True),
            law_of_contexts=mu,
            capped=capped_from_dict(data.part("capped"), features, columns, mu, K),
            manner=manner,
            first=data.count("first", 1),
            dear=data.flag("dear"),
            slots=known.slots(K),
        )

    def law_from_dict(self, data: Reader, over: bool) -> Any:
        C, K = self.shape
        law = PairsLaw(
            factor=self._factor_from_dict(data),
            discounts=data.array("discounts", (C,), 0, 1),
            weights=data.array("weights", (C,), 0, 1),
            p=None,
            cdf=None,
        )
        if self.problem.bonus:
            law.bonus = data.array("bonus", (C * K,), 0)
        else:
            data.nothing("bonus")
        if over:
            data.nothing("p", "cdf")
            return law
        law.p, law.cdf = data.array("p", (C, K), 0, 1), data.array("cdf", (C, K), 0, 1)
        sums = np.cumsum(law.p, axis=1)
        if np.any(law.cdf[:, -1] != 1) or np.any(np.abs(law.cdf - sums) > ROUNDING):
            data.refuse("cdf", "must be the cumulative sums of p", law.cdf)
        return law

    def keys(self, data: Reader, name: str, count: int) -> list[int]:
        """Numbers of the pairs that wait for their losses."""
        most = len(self.features) - 1
        rows: list[int] = data.array(name, (count,), 0, most, whole=True).tolist()
        return rows
