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

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from koloss.core.arrays import to_numpy
from koloss.guarantees import Guarantee, bandit, promises
from koloss.guarantees.bandit import Rates
from koloss.learners.bandit.loss_range import WIDEST, LossRange, centred
from koloss.learners.bandit.masks import Masked, Masks, Part
from koloss.learners.bandit.points import PointsEngine
from koloss.learners.bandit.realised import Tally
from koloss.learners.bandit.restoring import rates_from_dict
from koloss.learners.base import Recommendation
from koloss.learners.ledger import Drawn
from koloss.learners.reading import Reader, plain
from koloss.learners.waiting import Late

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
    anchor_heard: int = 0  # losses heard then
    draws: int = 0
    heard: int = 0  # losses heard before it was over
    over: bool = False
    beside: float = 0.0  # most that bonuses of late losses heard during it add to its drift, over η

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
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {**values, "law": self.law.to_dict()}


class Exp2:
    """Algorithm 1 without bookkeeping: what to draw from, and what a loss does to the weights."""

    def __init__(self, engine: Engine, rates: Rates, *, horizon: int | None, batch: int) -> None:
        self.engine, self.rates, self.horizon, self.batch = engine, rates, horizon, batch
        self.theta: Floats = np.zeros(engine.problem.rank)  # Σ of all estimates
        self.credit: Floats | None = None  # Σ of all bonuses
        if engine.problem.bonus or engine.problem.hindsight:
            self.credit = engine.no_credit()  # type: ignore[union-attr]
        self.range = engine.loss_range()
        self.masks: Masks | None = None  # what requests among some of the actions have taught
        self.epoch: Epoch | None = None
        self.made = 0  # decisions
        self.heard = 0  # losses
        self.late = 0  # losses heard after their epoch was over
        self.mass = 0.0  # Σ of the weights of all estimates
        self.level = 0.0  # and of these times the centres
        self.tally: Any = Tally(
            horizon is None, self.theta, self.credit
        )  # for the estimated regret
        self.epochs = 0
        self.at_once = 0  # decisions made in epochs that were drawn at once
        self.longest_at_once = 0

    def rates_now(self) -> tuple[float, float]:
        """η and γ of an epoch that begins now."""
        eta, gamma = self._tuned_rates()
        if self.range.moves:
            factor = self.range.factor
            eta = eta / factor if factor > 0 else 0.0  # nothing has been learned then
            gamma = gamma if self.range.known else 1.0
        return eta, gamma

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
            epoch = self.new_epoch(rng, at_once=count is not None and count > 1)
        assert epoch is not None
        drawn = self.engine.draw(epoch.law, count, rng, self.batch - epoch.draws)
        self._take(epoch, len(drawn.keys))
        return epoch, drawn

    def _take(self, epoch: Epoch, size: int) -> None:
        """So many actions of an epoch have been drawn."""
        self.epoch, self.epochs = epoch, epoch.number  # now that drawing has not failed
        if self.range.learned and not self.range.known:
            self.range.listened += size
        epoch.draws += size
        self.made += size
        if epoch.at_once:
            self.at_once += size
            self.longest_at_once = max(self.longest_at_once, size)

    def new_epoch(self, rng: Any, *, at_once: bool, part: Part | None = None) -> Epoch:
        """An epoch that begins now, of all actions or of a part of them."""
        eta, gamma = self.rates_now()
        weight = 1.0 if self.horizon is not None else 1 - gamma
        engine, nu = self.engine, 0.0
        center, scale, half, problem = engine.center, 1.0, WIDEST, engine.problem
        if self.range.moves:
            center = self.range.center
            scale = self.range.factor if self.range.learned else 1.0
            if problem.hindsight:  # clip what is new, then widen
                half = self.range.factor * problem.loss_bound
        if problem.hindsight:
            nu = self._variance_bonus(eta)
        law = (
            self._law(eta, gamma, rng, nu)
            if part is None
            else part.law(self.sums(), eta, gamma, rng, nu)
        )
        if self.range.learned and not self.range.known:
            weight = 0.0  # only to be listened to
        zero = np.zeros(self.theta.shape[-1])
        number = self.epochs + 1
        return Epoch(law, number, eta, gamma, weight, center, scale, half, at_once, zero, zero)

    def _variance_bonus(self, eta: float) -> float:
        """ν = ψηh², with h the half-width of the interval; bonuses are times the scale later."""
        factor = self.range.factor
        nu: float = self.engine.problem.variance_bonus(eta * factor, self.rates.kappa)
        return nu * (1.0 if self.range.learned else factor)

    def _law(self, eta: float, gamma: float, rng: Any, nu: float = 0.0) -> Any:
        return self.engine.law(self.theta, self.credited, eta, gamma, rng, nu)  # type: ignore[arg-type]

    def learn(self, epoch: Epoch | Late, keys: Sequence[Any], losses: Any) -> None:
        """Add ŵ = Σ⁻¹φ(a)·loss, with the Σ of the epoch in which the actions were drawn (line 8)."""
        engine, count = self.engine, len(keys)
        if isinstance(epoch, Late):
            self._learn_late(epoch, losses[0])
            return
        admitted = self.range.admitted(losses)
        if epoch.together:
            values = centred(np.asarray(admitted), epoch.center, epoch.half)
            paid = float(values.sum())
            if epoch.weight != 1.0:
                values *= epoch.weight
            estimate = engine.estimate(epoch.law, keys, values)
        else:
            paid = centred(admitted[0], epoch.center, epoch.half)
            estimate = engine.estimate(epoch.law, keys[0], paid * epoch.weight)
        self._add(epoch, estimate, count)
        bonus = None if self.credit is None else (count * epoch.scale, epoch.law.bonus)
        if self.tally is not None:
            self.tally.add(paid, count, epoch.weight, estimate, bonus)
        self.mass += count * epoch.weight
        self.level += count * epoch.weight * epoch.center
        self.heard += count
        moved = self.range.hear(losses)
        if epoch.over:
            self.late += count
            largest = 0.0
            if self.credit is not None:
                largest = float(to_numpy(epoch.law.bonus).max())
            self._include(estimate, count * epoch.weight * epoch.scale * largest, moved)
            return
        epoch.heard += count
        epoch.gain = epoch.gain + estimate
        if moved or (not epoch.at_once and self.batch > 1 and self._has_drifted(epoch)):
            epoch.shrink()

    def _include(self, estimate: Floats, bonus: float, moved: bool) -> None:
        """Count a late estimate, with bonuses of at most so much, in the drift of the epoch during which it is heard."""
        epoch = self.epoch
        if epoch is None or epoch.over or epoch.at_once:
            return
        if epoch.heard == epoch.draws >= self.batch:  # nobody waits for it
            return
        epoch.gain = epoch.gain + estimate
        epoch.beside += bonus
        epoch.anchor_drift += epoch.eta * bonus
        if moved or self._has_drifted(epoch):
            epoch.shrink()

    def _add(self, epoch: Epoch, estimate: Floats, count: int) -> None:
        """Take an estimate, and the bonuses of as many rounds, into the weights."""
        self.theta += estimate
        if self.credit is not None:
            self.credit += count * epoch.weight * epoch.scale * epoch.law.bonus

    def reward(self, bonuses: Floats) -> None:
        """Take bonuses of all actions that are on the host into the weights."""
        assert self.credit is not None
        self.credit += self.engine.as_credit(bonuses)  # type: ignore[union-attr]

    def condensed(self, epoch: Epoch, keys: Sequence[Any]) -> list[Late] | None:
        """What is needed of an epoch that is over: four numbers, Σ⁻¹φ(a) of each action, the bonus where there is one.

        None where more actions wait than Σ has rows, so that Σ takes less room.
        """
        engine = self.engine_of(epoch.number)
        if len(keys) > engine.problem.rank:
            return None
        law, ends = epoch.law, [] if self.credit is None else [to_numpy(epoch.law.bonus)]
        directions = [engine.estimate(law, key, 1.0) for key in keys]
        numbers = [epoch.weight, epoch.center, epoch.scale, epoch.half]
        rows = [np.concatenate([numbers, v, *ends]) for v in directions]
        return [Late(epoch.number, row) for row in rows]

    def engine_of(self, number: int) -> Engine:
        """The engine with whose features an epoch was played."""
        return self.engine

    @property
    def late_lengths(self) -> tuple[int, ...]:
        """How many numbers there may be in what is left of an epoch."""
        return (self.late_length,)

    @property
    def late_length(self) -> int:
        """How many numbers are needed of an epoch that is over, for one decision."""
        return 4 + len(self.theta) + (0 if self.credit is None else self.credit.shape[0])

    def _learn_late(self, late: Late, loss: float) -> None:
        m, admitted = len(self.theta), self.range.admitted((loss,))[0]
        weight, center, scale, half = late.numbers[:4].tolist()
        direction, bonus = late.numbers[4 : m + 4], late.numbers[m + 4 :]
        paid = centred(admitted, center, half)
        estimate = direction * (paid * weight)
        self.theta += estimate
        largest, rewarded = 0.0, None
        if self.credit is not None:
            self.reward(weight * scale * bonus)
            largest = weight * scale * float(bonus.max())
            rewarded = (scale, self.engine.as_credit(bonus))  # type: ignore[union-attr]
        if self.tally is not None:
            self.tally.add(paid, 1, weight, estimate, rewarded)
        self.mass += weight
        self.level += weight * center
        self.heard += 1
        self.late += 1
        self._include(estimate, largest, self.range.hear((loss,)))

    def _has_drifted(self, epoch: Epoch) -> bool:
        """Whether η(q·X - X(a)) is above h for some action, with X the sum of the epoch's estimates and bonuses (theory B3′).

        Then no weight has been more than e^h times as large since the epoch began. Most of the time a norm shows it; where it does
        not, the exact test is made.
        """
        # With X₀ the sum at the anchor, the last exact test, max_a (q·X - X(a)) ≤ max_a (q·X₀ - X₀(a)) + max_a (q·Y - Y(a)) for
        # Y = X - X₀, since a maximum of sums is at most the sum of the maxima. `reach` bounds the last term. So where this is at
        # most h, the exact test would find no drift either: but for rounding, epochs end as if it were made always.
        most = bandit.most_drift(self.batch)
        mass = (epoch.heard - epoch.anchor_heard) * epoch.weight * epoch.scale
        reach = self.engine.reach(epoch.law, epoch.gamma, epoch.gain - epoch.anchor, mass)
        if epoch.anchor_drift + epoch.eta * reach <= most:
            return False
        epoch.anchor, epoch.anchor_drift = epoch.gain, self.drift(epoch)
        epoch.anchor_heard = epoch.heard
        return epoch.anchor_drift > most

    def drift(self, epoch: Epoch) -> float:
        """Largest η(q·X - X(a)) since the epoch began: at least the rise of any log-weight."""
        mass = epoch.heard * epoch.weight * epoch.scale
        rise = self.engine.rise(epoch.law, epoch.gamma, epoch.gain, mass)
        return epoch.eta * (max(0.0, rise) + epoch.beside)

    # Requests among some of the actions.

    @property
    def credited(self) -> Floats | None:
        """What is subtracted from θ'φ(a): bonuses, and what was learned of an action by itself."""
        masks, credit = self.masks, self.credit
        if masks is None:
            return credit
        own = -masks.told - masks.slept
        return own if credit is None else own + to_numpy(credit)

    def sums(self) -> Floats:
        """S: what each action has lost by the estimates."""
        sums: Floats = self.engine.scores(self.theta)  # type: ignore[union-attr]
        return sums if self.credited is None else sums - to_numpy(self.credited)

    # What is known.

    def next_law(self) -> Any:
        """What the next single decision is drawn from, without opening an epoch."""
        if not self.is_over():
            assert self.epoch is not None
            return self.epoch.law
        eta, gamma = self.rates_now()
        return self._law(eta, gamma, None)

    def outlook(self) -> Floats:
        """Probability of every action of a finite set in the next single decision."""
        if not self.is_over():
            assert self.epoch is not None
            return np.array(to_numpy(self.epoch.law.p), dtype=np.float64)
        rates = self.rates_now()  # which moves on to the engine of the next round
        assert isinstance(self.engine, PointsEngine)
        return self.engine.mixture(self.theta, self.credited, *rates)

    def recommend(self) -> Recommendation:
        """The best action by the estimates."""
        if self.masks is not None:
            assert isinstance(self.engine, PointsEngine)
            values = np.where(np.isfinite(self.engine.log_prior), self.values(), np.inf)
            best = int(np.argmin(values))
            loss = self.engine.sign * float(values[best])
            return Recommendation(best, self.engine.points[best], loss, "estimated")
        index, action, value = self.engine.best(self.theta, max(self.mass, 1.0))
        value += self.mean_center
        return Recommendation(index, action, self.engine.sign * value, "estimated")

    def values(self) -> Floats:
        """Estimated mean loss of every action of a finite set, over the rounds in which it could be chosen."""
        engine, masks = self.engine, self.masks
        assert isinstance(engine, PointsEngine)
        if masks is not None:
            return masks.values(self)
        values: Floats = engine.values(self.theta, max(self.mass, 1.0)) + self.mean_center
        return values

    @property
    def mean_center(self) -> float:
        """What was subtracted from losses, on average."""
        return self.level / self.mass if self.range.moves and self.mass > 0 else self.engine.center

    def played(self, longest_delay: int, unheard: int) -> promises.Played:
        """What the bound needs to know of the game so far."""
        return promises.Played(
            made=self.made,
            heard=self.heard,
            late=self.late,
            longest_delay=longest_delay,
            unheard=unheard,
            at_once=self.at_once,
            longest_at_once=self.longest_at_once,
            outside=self.range.has_been_left,
        )

    # Snapshots.

    _NUMBERS: ClassVar = (
        *("made", "heard", "late", "mass", "level", "epochs"),
        *("at_once", "longest_at_once"),
    )

    def to_dict(self) -> dict[str, Any]:
        """Plain data for a snapshot; the engine and the epochs are kept elsewhere."""
        masks = {} if self.masks is None else {"masks": self.masks.to_dict()}
        return masks | {
            **plain(self, "horizon", "batch", "theta", *self._NUMBERS),
            "rates": asdict(self.rates),
            "credit": None if self.credit is None else np.array(to_numpy(self.credit)),
            "range": self.range.to_dict(),
            "tally": None if self.tally is None else self.tally.to_dict(),
            "sampler": self.engine.save(),
        }

    @classmethod
    def from_dict(cls, engine: Engine, data: Reader, horizon: int | None) -> Exp2:
        """The state in a snapshot of a game with this horizon; its current epoch is set once the ledger has been read."""
        if horizon is None:
            data.nothing("horizon")
        else:
            horizon = data.count("horizon", 1, horizon)
        rates = rates_from_dict(data.part("rates"), horizon)
        exp2 = cls(engine, rates, horizon=horizon, batch=data.count("batch", 1))
        data.fill(exp2, *cls._NUMBERS, "theta")
        if exp2.credit is not None:
            credit = data.array("credit", tuple(exp2.credit.shape), 0)
            exp2.credit = engine.as_credit(credit)  # type: ignore[union-attr]
        else:
            data.nothing("credit")
        exp2.range = LossRange.from_dict(data.part("range"), exp2.range)
        if data.has("tally"):
            exp2.tally.load(data.part("tally"), getattr(engine, "as_credit", None))
        else:
            exp2.tally = None
        if data.has_key("masks"):
            exp2.masks = Masks.from_dict(data.part("masks"), len(engine.actions))  # type: ignore[arg-type]
        engine.load(data, "sampler")
        return exp2

    def law_from_dict(self, data: Reader) -> Epoch | Masked:
        """An epoch that `to_dict` has made plain, or the law of a request among some of the actions."""
        if data.has_key("allowed"):
            actions, bonus = len(self.engine.actions), self.credit is not None  # type: ignore[arg-type]
            return Masked.from_dict(data, actions, self.epochs, bonus)
        return self.epoch_from_dict(data)

    def keys(self, data: Reader, name: str, count: int) -> Sequence[Any]:
        """What was drawn for decisions that wait for their losses."""
        return self.engine.keys(data, name, count)

    def epoch_from_dict(self, data: Reader) -> Epoch:
        """An epoch that `to_dict` has made plain."""
        number, over = data.count("number", 1, self.epochs), data.flag("over")
        engine = self.engine_of(number)
        m = engine.problem.rank
        sums: list[Any] = [None, None]
        for k, name in enumerate(("gain", "anchor")):
            if over:
                data.nothing(name)
            else:
                sums[k] = data.array(name, (m,))
        return data.record(
            Epoch,
            law=engine.law_from_dict(data.part("law"), over),
            number=number,
            gamma=data.number("gamma", 0, 1, positive=True),
            gain=sums[0],
            anchor=sums[1],
        )

    def check(self, data: Reader) -> None:
        """Refuse a state with which the next decision could not be made."""
        engine = self.engine  # an epoch that goes on keeps its own
        with np.errstate(all="ignore"):
            rates = self.rates_now()
            good = self.engine.can_play(self.theta, self.credited, *rates)  # type: ignore[arg-type]
        self.engine = engine
        if not good:
            data.refuse("learner.exp2.theta", "must give probabilities", self.theta)


def prove(
    engine: Engine,
    rates: Rates,
    batch: int,
    rounds: int,
    horizon: int | None,
    played: promises.Played,
    heard: LossRange | None = None,
) -> Guarantee:
    """What is proved for so many rounds of play with these rates."""
    if engine.problem.log_prior == 0:
        return promises.one_action(rounds)
    heard = engine.loss_range() if heard is None else heard
    low, high = sorted((engine.sign * engine.low, engine.sign * engine.high))
    if heard.outside == "widen":
        low, high = sorted((engine.sign * heard.heard_low, engine.sign * heard.heard_high))
    game = promises.Game(
        low,
        high,
        engine.losses,
        engine.place,
        sampled=engine.is_sampled,
        eigenvalue=engine.eigenvalue,
        rounded=engine.rounded,
        ceiling=engine.sign * engine.high if heard.outside == "clip" else None,
    )
    if horizon is None:
        levels = engine.levels(rounds)
        eta = bandit.anytime_rate(levels[-1][1], rates.kappa, rounds)
        comparator = engine.comparator(rounds, eta)
        promise = promises.anytime(levels, rates, rounds, batch, comparator, game, played)
    else:
        problem, eta = engine.problem, rates.learning_rate
        comparator = engine.comparator(rounds, eta)
        promise = promises.fixed(problem, rates, rounds, horizon, batch, comparator, game, played)
    last = engine.problem if horizon is not None else levels[-1][1]
    R = last.largest_leverage(eta, rates.kappa)
    if heard.learned:
        seen = heard.heard_high - heard.heard_low if heard.known else None
        promise = promises.in_units_of_the_range(promise, last, played, seen, heard.listened)
    elif heard.outside == "widen":
        promise = promises.widened(promise, last, R, heard.factor, played.longest_at_once)
    elif game.ceiling is not None:
        promise = promises.clipped(promise, game.ceiling, heard.beyond)
    return promise.of_rewards() if engine.sign < 0 else promise


def within_shares(promise: Guarantee, engine: Engine) -> Guarantee:
    """The same where laws are projected onto shares of traffic."""
    if not isinstance(engine, PointsEngine) or engine.shares is None:
        return promise
    largest = float(engine.shares.reachable.min())
    return promises.within_shares(promise, largest, engine.problem.delay)
