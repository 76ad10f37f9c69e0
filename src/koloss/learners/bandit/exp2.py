"""Algorithm 1 of the paper: exponential weights under bandit feedback, in epochs, with late feedback.

In each round the player draws an action from p = (1 - γ)q + γπ, where π is an exploration design and

    q(a) ∝ prior(a) exp(-η θ'φ(a)),

hears the loss of that action alone, and adds to θ the estimate ŵ = Σ⁻¹φ(a)·loss with Σ = E_p φφ'. Losses,
never rewards: smaller is better.

`Exp2` is the box. What a set of actions makes of its lines is the engine's: `points` for finitely many actions, `ball` for
linear and quadratic losses on a ball. `exp_weights` has the learner around it.

Departures from the box, and why:

- Line 2, q₁ = ν_J: exponential weights never leave the support of q₁, so q₁ is the prior, uniform by default.
- ν_J: the G-optimal design around the origin; centring the features would bias ŵ.
- γ = ηLG/κ with the design's certified leverage G, in place of 4η𝒢⁴m.
- Lines 4 to 8 are done for an epoch at a time: p, Σ and its inverse stay fixed, so that actions can be drawn and
  losses used in bulk, and a late loss is used with the Σ of the epoch in which its action was drawn.
- Features are whitened once, Σ(π) = I. Then Σ ⪰ γI, and the leverage of an action is a squared norm.
- The state is θ, not N weights; weights are made from it in log space.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from koloss.guarantees import Guarantee, bandit
from koloss.guarantees.bandit import Rates
from koloss.learners.bandit.loss_range import LossRange
from koloss.learners.bandit.points import PointsEngine
from koloss.learners.base import Drawn, Recommendation

if TYPE_CHECKING:
    from koloss.learners.bandit.ball import BallEngine

    Engine: TypeAlias = PointsEngine | BallEngine

Floats = NDArray[np.float64]


@dataclass(slots=True)
class Epoch:
    """Rounds with one law, and the sum of the estimates from their losses."""

    law: Any  # what the engine draws from
    number: int
    eta: float
    gamma: float
    weight: float  # of its estimates: 1, or 1 - γ without a horizon
    center: float  # subtracted from its losses before they are used
    scale: float  # of its bonuses
    half: float  # farthest from the centre that a loss enters its estimate
    at_once: bool  # whether all its actions were drawn at once
    gain: Any  # Σ of the estimates heard before it was over
    anchor: Any  # gain at the last exact test of the drift, and the drift then
    anchor_drift: float = 0.0
    draws: int = 0
    heard: int = 0  # losses heard before it was over
    over: bool = False

    @property
    def together(self) -> bool:
        """Whether losses told at once make one matrix product."""
        return self.at_once and not self.over

    def centred(self, losses: Any) -> Any:
        """Losses as they enter the estimates."""
        values = losses - self.center
        return values if math.isinf(self.half) else np.clip(values, -self.half, self.half)

    def shrink(self) -> None:
        """The epoch is over: keep only what late losses need."""
        self.over = True
        self.gain = self.anchor = None
        self.law.shrink()

    def to_dict(self) -> dict[str, Any]:
        """Plain data for a snapshot."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {**values, "law": self.law.to_dict()}


class Exp2:
    """Algorithm 1 without bookkeeping: what to draw from, and what a loss does to the weights."""

    def __init__(self, engine: Engine, rates: Rates, *, horizon: int | None, batch: int) -> None:
        self.engine, self.rates, self.horizon, self.batch = engine, rates, horizon, batch
        self.theta: Floats = np.zeros(engine.problem.rank)  # Σ of all estimates
        self.credit: Floats | None = None  # Σ of all bonuses
        if engine.problem.bonus or engine.problem.hindsight:
            self.credit = np.zeros(len(engine.actions))  # type: ignore[arg-type]
        self.range = engine.loss_range()
        self.epoch: Epoch | None = None
        self.made = 0  # decisions
        self.heard = 0  # losses
        self.late = 0  # losses heard after their epoch was over
        self.mass = 0.0  # Σ of the weights of all estimates
        self.level = 0.0  # and of these times the centres
        self.epochs = 0
        self.at_once = 0  # decisions made in epochs that were drawn at once
        self.longest_at_once = 0

    def rates_now(self) -> tuple[float, float]:
        """η and γ of an epoch that begins now."""
        eta, gamma = self._tuned_rates()
        if self.range.moves:
            factor = self.range.factor
            eta = eta / factor if factor > 0 else 0.0  # nothing has been learned then
        return eta, gamma if self.range.known else 1.0

    def _tuned_rates(self) -> tuple[float, float]:
        """Rates for losses in the interval that the engine is tuned to."""
        rates = self.rates
        if self.horizon is not None:
            return rates.learning_rate, rates.exploration
        t = self.made + 1
        engine = self.engine = self.engine.at(t)
        if engine.problem.log_prior == 0:
            return 1.0, 1.0
        return engine.rates_at(t)

    def is_over(self) -> bool:
        """Whether the next single decision needs a new epoch."""
        epoch = self.epoch
        return epoch is None or epoch.over or epoch.at_once or epoch.draws >= self.batch

    def draw(self, count: int | None, rng: Any, ledger: Any = None) -> tuple[Epoch, Drawn]:
        """An action of the current epoch, or of a new one (lines 4, 5 and 7); several are an epoch of their own."""
        epoch = self.epoch
        if count is not None or self.is_over():
            epoch = self._new_epoch(rng, at_once=count is not None and count > 1)
        assert epoch is not None
        drawn = self.engine.draw(epoch.law, count, rng, self.batch - epoch.draws)
        self.epoch, self.epochs = epoch, epoch.number  # now that drawing has not failed
        size = len(drawn.keys)
        epoch.draws += size
        self.made += size
        if epoch.at_once:
            self.at_once += size
            self.longest_at_once = max(self.longest_at_once, size)
        return epoch, drawn

    def _new_epoch(self, rng: Any, *, at_once: bool) -> Epoch:
        eta, gamma = self.rates_now()
        weight = 1.0 if self.horizon is not None else 1 - gamma
        problem, center, scale, half, nu = (
            self.engine.problem,
            self.engine.center,
            1.0,
            math.inf,
            0.0,
        )
        if self.range.moves:
            center = self.range.center
            scale = self.range.factor if self.range.learned else 1.0
        if problem.hindsight:
            factor = self.range.factor if self.range.moves else 1.0
            nu = problem.variance_bonus(eta * factor, self.rates.kappa)
            nu *= 1.0 if self.range.learned else factor  # it has the scale of the epoch, too
            if self.range.moves:
                half = factor * problem.loss_bound
        law = self.engine.law(self.theta, self.credit, eta, gamma, rng, nu)  # type: ignore[arg-type]
        if not self.range.known:
            weight = 0.0  # only to be listened to
        zero = np.zeros_like(self.theta)
        number = self.epochs + 1
        return Epoch(law, number, eta, gamma, weight, center, scale, half, at_once, zero, zero)

    def learn(self, epoch: Epoch, keys: Sequence[Any], losses: Any) -> None:
        """Add ŵ = Σ⁻¹φ(a)·loss, with the Σ of the epoch in which the actions were drawn (line 8)."""
        engine, count = self.engine, len(keys)
        admitted = self.range.admitted(losses)
        if epoch.together:
            values = epoch.centred(np.asarray(admitted)) * epoch.weight
            estimate = engine.estimate(epoch.law, keys, values)
        else:
            value = epoch.centred(admitted[0]) * epoch.weight
            estimate = engine.estimate(epoch.law, keys[0], value)
        self.theta += estimate
        if self.credit is not None:
            self.credit += count * epoch.weight * epoch.scale * epoch.law.bonus
        self.mass += count * epoch.weight
        self.level += count * epoch.weight * epoch.center
        self.heard += count
        moved = self.range.hear(losses)
        if epoch.over:
            self.late += count
            return
        epoch.heard += count
        epoch.gain = epoch.gain + estimate
        if moved or (not epoch.at_once and self.batch > 1 and self._has_drifted(epoch)):
            epoch.shrink()

    def _has_drifted(self, epoch: Epoch) -> bool:
        """Whether some log-weight has risen by more than h since the epoch began (theory B3).

        Most of the time a norm shows that it has not; where it does not, the exact test is made.
        """
        reach = self.engine.reach(epoch.law, epoch.gain - epoch.anchor)
        if epoch.anchor_drift + epoch.eta * reach <= bandit.DRIFT:
            return False
        epoch.anchor, epoch.anchor_drift = epoch.gain, self.drift(epoch)
        return epoch.anchor_drift > bandit.DRIFT

    def drift(self, epoch: Epoch) -> float:
        """Largest rise of a log-weight since the epoch began."""
        rise = self.engine.rise(epoch.law, epoch.gain, epoch.heard * epoch.weight * epoch.scale)
        return max(0.0, epoch.eta * rise)

    # What is known.

    def next_law(self) -> Any:
        """What the next single decision is drawn from, without opening an epoch."""
        if not self.is_over():
            assert self.epoch is not None
            return self.epoch.law
        eta, gamma = self.rates_now()
        return self.engine.law(self.theta, self.credit, eta, gamma, None)  # type: ignore[arg-type]

    def outlook(self) -> Floats:
        """Probability of every action of a finite set in the next single decision."""
        engine = self.engine
        assert isinstance(engine, PointsEngine)
        if not self.is_over():
            assert self.epoch is not None
            p: Floats = self.epoch.law.p.copy()
            return p
        return engine.mixture(self.theta, self.credit, *self.rates_now())

    def recommend(self) -> Recommendation:
        """The best action by the estimates."""
        index, action, value = self.engine.best(self.theta, max(self.mass, 1.0))
        value += self.mean_center
        return Recommendation(index, action, self.engine.sign * value, "estimated")

    @property
    def mean_center(self) -> float:
        """What was subtracted from losses, on average."""
        return self.level / self.mass if self.range.moves and self.mass > 0 else self.engine.center

    def played(self, longest_delay: int, unheard: int) -> bandit.Played:
        """What the bound needs to know of the game so far."""
        return bandit.Played(
            made=self.made,
            heard=self.heard,
            late=self.late,
            longest_delay=longest_delay,
            unheard=unheard,
            at_once=self.at_once,
            longest_at_once=self.longest_at_once,
        )

    # Snapshots.

    _NUMBERS: ClassVar = (
        *("horizon", "batch", "made", "heard", "late", "mass", "level", "epochs"),
        *("at_once", "longest_at_once"),
    )

    def to_dict(self) -> dict[str, Any]:
        """Plain data for a snapshot; the engine and the epochs are kept elsewhere."""
        return {
            **{name: getattr(self, name) for name in self._NUMBERS},
            "rates": asdict(self.rates),
            "theta": self.theta.copy(),
            "credit": None if self.credit is None else self.credit.copy(),
            "range": self.range.to_dict(),
            "sampler": self.engine.save(),
        }

    @classmethod
    def from_dict(cls, engine: Engine, data: Mapping[str, Any]) -> Exp2:
        """The state in a snapshot; its current epoch is set once the ledger has been read."""
        exp2 = cls(engine, Rates(**data["rates"]), horizon=data["horizon"], batch=data["batch"])
        for name in cls._NUMBERS:
            setattr(exp2, name, data[name])
        exp2.theta = np.array(data["theta"])
        exp2.credit = None if data["credit"] is None else np.array(data["credit"])
        exp2.range = LossRange.from_dict(data["range"])
        engine.load(data["sampler"])
        return exp2

    def epoch_from_dict(self, data: Mapping[str, Any]) -> Epoch:
        """An epoch that `to_dict` has made plain."""
        return Epoch(**{**data, "law": self.engine.law_from_dict(data["law"])})


def prove(
    engine: Engine,
    rates: Rates,
    batch: int,
    rounds: int,
    horizon: int | None,
    played: bandit.Played,
    heard: LossRange | None = None,
) -> Guarantee:
    """What is proved for so many rounds of play with these rates."""
    if engine.problem.log_prior == 0:
        return bandit.one_action(rounds)
    heard = engine.loss_range() if heard is None else heard
    low, high = sorted((engine.sign * engine.low, engine.sign * engine.high))
    if heard.outside == "widen":
        low, high = sorted((engine.sign * heard.heard_low, engine.sign * heard.heard_high))
    what = "reward" if engine.sign < 0 else "loss"
    game = bandit.Game(low, high, engine.losses, engine.place, engine.samples > 0, what)
    if horizon is None:
        levels = engine.levels(rounds)
        eta = bandit.anytime_rate(levels[-1][1], rates.kappa, rounds)
        comparator = engine.comparator(rounds, eta)
        promise = bandit.anytime(levels, rates, rounds, batch, comparator, game, played)
    else:
        problem, eta = engine.problem, rates.learning_rate
        comparator = engine.comparator(rounds, eta)
        promise = bandit.fixed(problem, rates, rounds, horizon, batch, comparator, game, played)
    R = engine.problem.largest_leverage(eta, rates.kappa)
    if heard.learned:
        seen = f"{heard.heard_high - heard.heard_low:.6g}" if heard.known else "nothing"
        return bandit.in_units_of_the_range(promise, seen)
    if heard.outside == "widen":
        return bandit.widened(promise, engine.problem, R, heard.factor)
    if heard.beyond:
        rule, sums = heard.outside, (heard.beyond, heard.squares)
        return bandit.outside(promise, engine.problem, rule, *sums, R=R, n=rounds)
    return promise
