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
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from koloss.guarantees import Guarantee, bandit
from koloss.guarantees.bandit import Rates
from koloss.learners.bandit.points import PointsEngine
from koloss.learners.base import Recommendation
from koloss.learners.ledger import Drawn, Late
from koloss.learners.reading import SMALLEST, Reader

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
        if engine.problem.bonus:
            self.credit = np.zeros(len(engine.actions))  # type: ignore[arg-type]
        self.epoch: Epoch | None = None
        self.made = 0  # decisions
        self.heard = 0  # losses
        self.late = 0  # losses heard after their epoch was over
        self.mass = 0.0  # Σ of the weights of all estimates
        self.epochs = 0
        self.at_once = 0  # decisions made in epochs that were drawn at once
        self.longest_at_once = 0

    def rates_now(self) -> tuple[float, float]:
        """η and γ of an epoch that begins now."""
        engine, rates = self.engine, self.rates
        if self.horizon is not None:
            return rates.learning_rate, rates.exploration
        if engine.problem.log_prior == 0:
            return 1.0, 1.0
        t = self.made + 1
        eta = bandit.anytime_rate(engine.problem_at(t), rates.kappa, t)
        return eta, min(1.0, engine.problem.exploration(eta, rates.kappa))

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
        law = self.engine.law(self.theta, self.credit, eta, gamma, rng)  # type: ignore[arg-type]
        weight = 1.0 if self.horizon is not None else 1 - gamma
        zero = np.zeros_like(self.theta)
        return Epoch(law, self.epochs + 1, eta, gamma, weight, at_once, zero, zero)

    def learn(self, epoch: Epoch | Late, keys: Sequence[Any], losses: Any) -> None:
        """Add ŵ = Σ⁻¹φ(a)·loss, with the Σ of the epoch in which the actions were drawn (line 8)."""
        engine, count = self.engine, len(keys)
        if isinstance(epoch, Late):
            self._learn_late(epoch, losses[0])
            return
        if epoch.together:
            values = (np.asarray(losses) - engine.center) * epoch.weight
            estimate = engine.estimate(epoch.law, keys, values)
        else:
            value = (losses[0] - engine.center) * epoch.weight
            estimate = engine.estimate(epoch.law, keys[0], value)
        self.theta += estimate
        if self.credit is not None:
            self.credit += count * epoch.weight * epoch.law.bonus
        self.mass += count * epoch.weight
        self.heard += count
        if epoch.over:
            self.late += count
            return
        epoch.heard += count
        epoch.gain = epoch.gain + estimate
        if not epoch.at_once and self.batch > 1 and self._has_drifted(epoch):
            epoch.shrink()

    def condensed(self, epoch: Epoch, keys: Sequence[Any]) -> list[Late] | None:
        """What is needed of an epoch that is over: its weight, Σ⁻¹φ(a) of each action, the bonus where there is one.

        None where more actions wait than Σ has rows, so that Σ takes less room.
        """
        if len(keys) > len(self.theta):
            return None
        law, ends = epoch.law, [] if self.credit is None else [epoch.law.bonus]
        directions = [self.engine.estimate(law, key, 1.0) for key in keys]
        rows = [np.concatenate([[epoch.weight], v, *ends]) for v in directions]
        return [Late(epoch.number, row) for row in rows]

    @property
    def late_length(self) -> int:
        """How many numbers are needed of an epoch that is over, for one decision."""
        return 1 + len(self.theta) + (0 if self.credit is None else len(self.credit))

    def _learn_late(self, late: Late, loss: float) -> None:
        m = len(self.theta)
        weight, direction, bonus = late.numbers[0], late.numbers[1 : m + 1], late.numbers[m + 1 :]
        self.theta += direction * ((loss - self.engine.center) * weight)
        if self.credit is not None:
            self.credit += weight * bonus
        self.mass += float(weight)
        self.heard += 1
        self.late += 1

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
        rise = self.engine.rise(epoch.law, epoch.gain, epoch.heard * epoch.weight)
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
        return Recommendation(index, action, value + self.engine.center, "estimated")

    def played(self, longest_delay: int, unheard: int) -> bandit.Played:
        """What the bound needs to know of the game so far."""
        return bandit.Played(
            made=self.made,
            late=self.late,
            longest_delay=longest_delay,
            unheard=unheard,
            at_once=self.at_once,
            longest_at_once=self.longest_at_once,
        )

    # Snapshots.

    _NUMBERS: ClassVar = (
        *("horizon", "batch", "made", "heard", "late", "mass", "epochs"),
        *("at_once", "longest_at_once"),
    )

    def to_dict(self) -> dict[str, Any]:
        """Plain data for a snapshot; the engine and the epochs are kept elsewhere."""
        return {
            **{name: getattr(self, name) for name in self._NUMBERS},
            "rates": asdict(self.rates),
            "theta": self.theta.copy(),
            "credit": None if self.credit is None else self.credit.copy(),
            "sampler": self.engine.save(),
        }

    @classmethod
    def from_dict(cls, engine: Engine, data: Reader, horizon: int | None) -> Exp2:
        """The state in a snapshot of a game with this horizon; its current epoch is set once the ledger has been read."""
        m = engine.problem.rank
        if horizon is None:
            data.nothing("horizon")
        else:
            horizon = data.count("horizon", 1, horizon)
        rates = rates_from_dict(data.part("rates"), horizon)
        exp2 = cls(engine, rates, horizon=horizon, batch=data.count("batch", 1))
        exp2.made = made = data.count("made")
        exp2.heard = heard = data.count("heard", 0, made)
        exp2.late = data.count("late", 0, heard)
        exp2.mass = data.number("mass", 0, heard * (1 + 1e-9))
        exp2.epochs = data.count("epochs", min(made, 1), made)
        exp2.at_once = data.count("at_once", 0, made)
        exp2.longest_at_once = data.count("longest_at_once", 0, exp2.at_once)
        exp2.theta = data.array("theta", (m,))
        if engine.problem.bonus:
            exp2.credit = data.array("credit", (len(engine.actions),), 0)  # type: ignore[arg-type]
        else:
            data.nothing("credit")
        engine.load(data, "sampler")
        return exp2

    def epoch_from_dict(self, data: Reader) -> Epoch:
        """An epoch that `to_dict` has made plain."""
        m, over, draws = self.engine.problem.rank, data.flag("over"), data.count("draws", 1)
        sums: list[Any] = [None, None]
        for k, name in enumerate(("gain", "anchor")):
            if over:
                data.nothing(name)
            else:
                sums[k] = data.array(name, (m,))
        return Epoch(
            law=self.engine.law_from_dict(data.part("law"), over),
            number=data.count("number", 1, self.epochs),
            eta=data.number("eta", positive=True),
            gamma=data.number("gamma", 0, 1, positive=True),
            weight=data.number("weight", 0, 1),
            at_once=data.flag("at_once"),
            gain=sums[0],
            anchor=sums[1],
            anchor_drift=data.number("anchor_drift", 0),
            draws=draws,
            heard=data.count("heard", 0, draws),
            over=over,
        )

    def check(self, data: Reader) -> None:
        """Refuse a state with which the next decision could not be made."""
        with np.errstate(all="ignore"):
            good = self.engine.can_play(self.theta, self.credit, *self.rates_now())  # type: ignore[arg-type]
        if not good:
            data.refuse("learner.exp2.theta", "must give probabilities", self.theta)


def rates_from_dict(data: Reader, horizon: int | None) -> Rates:
    """The rates in a snapshot; zero without a horizon, where they change with time."""
    least = 0.0 if horizon is None else SMALLEST
    return Rates(
        data.number("learning_rate", least, 0.0 if horizon is None else math.inf),
        data.number("exploration", least, 1.0),
        data.number("kappa", positive=True),
    )


def prove(
    engine: Engine,
    rates: Rates,
    batch: int,
    rounds: int,
    horizon: int | None,
    played: bandit.Played,
) -> Guarantee:
    """What is proved for so many rounds of play with these rates."""
    if engine.problem.log_prior == 0:
        return bandit.one_action(rounds)
    said = engine.low, engine.high, engine.losses, engine.place
    game = bandit.Game(*said, sampled=engine.samples > 0, eigenvalue=engine.eigenvalue)
    if horizon is None:
        problem = engine.problem_at(rounds)
        eta = bandit.anytime_rate(problem, rates.kappa, rounds)
        comparator = engine.comparator(rounds, eta)
        return bandit.anytime(problem, rates, rounds, batch, comparator, game, played)
    comparator = engine.comparator(rounds, rates.learning_rate)
    return bandit.fixed(engine.problem, rates, rounds, horizon, batch, comparator, game, played)
