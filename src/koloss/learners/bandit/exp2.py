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

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from koloss.core.arrays import to_numpy
from koloss.core.snapshot import Cached, Vector, kept
from koloss.guarantees import Guarantee, bandit, promises
from koloss.guarantees.bandit import Rates
from koloss.learners.bandit.engine import Engine
from koloss.learners.bandit.loss_range import WIDEST, LossRange, centred
from koloss.learners.bandit.points import PointsEngine, Remains
from koloss.learners.bandit.realised import Tally
from koloss.learners.bandit.subsets import Bools, Rows, Totals, subset_of
from koloss.learners.base import Recommendation
from koloss.learners.ledger import Drawn
from koloss.learners.waiting import Late

Floats = NDArray[np.float64]

Other: TypeAlias = Callable[[Any], Any] | None
"""What makes of an engine the same play against other losses, where a bound for those is asked for."""


@kept
@dataclass(slots=True)
class Epoch:
    """Rounds with one law, and the sum of the estimates from their losses."""

    law: Any  # what the engine draws from
    whole: Engine  # of all actions
    awake: Bools | None  # which of these are; None: all
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
    beside: float = (
        0.0  # most that late losses heard during it add to its drift beside its gain, over η
    )
    engine: Cached = None  # of the actions that are awake

    def __post_init__(self) -> None:
        self.engine = self.whole
        if self.awake is not None:
            self.engine = subset_of(finite(self.whole), self.awake).engine

    def _restored(self) -> None:
        self.__post_init__()
        self.engine.settle(self.law)

    @property
    def together(self) -> bool:
        """Whether losses told at once make one matrix product."""
        return self.at_once and not self.over

    def shrink(self) -> None:
        """The epoch is over: keep only what late losses need."""
        self.over = True
        self.gain = self.anchor = None
        self.law.shrink()


@kept
class Exp2:
    """Algorithm 1 without bookkeeping: what to draw from, and what a loss does to the weights.

    Every draw is told which actions are awake, None meaning all. What has been learned since the latest law was made is θ, in the
    coordinates of its engine; it enters S when a law among other actions is made.
    """

    engine: Engine
    horizon: int | None
    batch: int
    awake: Bools | None  # the actions of the latest law, ...
    theta: Vector  # Σ of estimates that are not in S
    credit: Floats | None  # Σ of such bonuses
    totals: Totals | None  # S; None until a law has been among some of the actions
    range: LossRange
    epoch: Epoch | None
    made: int = 0  # decisions
    heard: int = 0  # losses
    late: int = 0  # losses heard after their epoch was over
    mass: float = 0.0  # Σ of the weights of all estimates
    level: float = 0.0  # and of these times the centres
    tally: Tally  # for the estimated regret
    epochs: int = 0
    at_once: int = 0  # decisions made in epochs that were drawn at once
    longest_at_once: int = 0

    def __init__(self, engine: Engine, *, horizon: int | None, batch: int) -> None:
        self.engine, self.horizon, self.batch = engine, horizon, batch
        self.awake, self.totals, self.epoch, self.credit = None, None, None, None
        self.at_play = engine  # ... and their engine
        self.theta = np.zeros(engine.coordinates)
        if engine.problem.bonus or engine.problem.hindsight:
            self.credit = engine.no_credit()
        self.range = engine.loss_range()
        self.tally = Tally(horizon is None, self.theta, self.credit)

    def fresh(self) -> Exp2:
        """The same that has not begun to play."""
        return type(self)(self.engine.at(1), horizon=self.horizon, batch=self.batch)

    @property
    def each(self) -> Sequence[Exp2]:
        """The players of all contexts, where there are contexts (`per_context`)."""
        return (self,)

    # Rates.

    @property
    def rates(self) -> Rates:
        """η, γ and κ of a game with a horizon; without one κ alone."""
        return self.engine.rates

    def rates_now(self) -> tuple[float, float]:
        """η and γ of an epoch of all actions that begins now."""
        return self._rates(self._engine_now())

    def _engine_now(self) -> Engine:
        """That of the next round: without a horizon penalties fall."""
        if self.horizon is None:
            self.engine = self.engine.at(self.made + 1)
        return self.engine

    def _rates(self, engine: Engine) -> tuple[float, float]:
        """η and γ of an epoch that begins now, with the actions of an engine."""
        if self.horizon is not None:
            eta, gamma = engine.rates.learning_rate, engine.rates.exploration
        elif engine.problem.log_prior == 0:
            eta, gamma = 1.0, 1.0
        else:
            eta, gamma = engine.rates_at(self.made + 1)
        if self.range.moves:
            factor = self.range.factor
            eta = eta / factor if factor > 0 else 0.0  # nothing has been learned then
            gamma = gamma if self.range.known else 1.0
        return eta, gamma

    # Lines 4, 5 and 7: laws and draws.

    def is_over(self, awake: Bools | None = None) -> bool:
        """Whether the next single decision needs a new epoch."""
        epoch = self.epoch
        if epoch is None or epoch.over or epoch.at_once or epoch.draws >= self.batch:
            return True
        return epoch.awake is not awake and not _are_same(epoch.awake, awake)

    def draw(
        self, count: int | None, rng: Any, awake: Bools | None = None, rows: Any = None
    ) -> tuple[Epoch, Drawn]:
        """An action of the current epoch, or of a new one; several are an epoch of their own. One context is no context."""
        epoch = self.epoch
        if count is not None or self.is_over(awake):
            epoch = self._new_epoch(rng, awake, at_once=count is not None and count > 1)
        assert epoch is not None
        drawn = epoch.engine.draw(epoch.law, count, rng, self.batch - epoch.draws)
        self._take(epoch, len(drawn.keys))
        return epoch, drawn

    def stop(self) -> None:
        """End the epoch."""
        if self.epoch is not None and not self.epoch.over:
            self.epoch.shrink()

    def _take(self, epoch: Epoch, size: int) -> None:
        """So many actions of an epoch have been drawn."""
        if epoch is not self.epoch:
            self._enter(epoch)  # now that drawing has not failed
        if self.range.learned and not self.range.known:
            self.range.listened += size
        epoch.draws += size
        self.made += size
        if epoch.at_once:
            self.at_once += size
            self.longest_at_once = max(self.longest_at_once, size)

    def _enter(self, epoch: Epoch) -> None:
        """An epoch begins: unless all actions were and are awake, what has been learned enters S."""
        if not self._goes_on(epoch.awake):
            self.totals = self._folded()
            self._clear(epoch.engine)
        self.epoch, self.epochs = epoch, epoch.number
        self.awake, self.at_play = epoch.awake, epoch.engine
        if epoch.awake is not None and self.totals is not None:
            self.totals.met |= epoch.awake
            self.totals.price = max(
                self.totals.price, subset_of(finite(self.engine), epoch.awake).price
            )
        elif self.totals is not None:
            self.totals.met[:] = True

    def _goes_on(self, awake: Bools | None) -> bool:
        """Whether a law may be made of θ, as it is: its coordinates are those of all actions."""
        return awake is None and self.awake is None

    def _folded(self) -> Totals:
        """S with all that has been learned."""
        engine, totals = finite(self.engine), self.totals
        if totals is None:
            totals = Totals.of(engine.rows, met=self.epochs > 0)
        lost = finite(self.at_play).scores(self.theta)
        bonus = None if self.credit is None else to_numpy(self.credit)
        return totals.after(lost, bonus, self.awake, engine.log_prior, self._eta)

    @property
    def _eta(self) -> float:
        """η of now."""
        return self.rates_now()[0] if self.epoch is None else self.epoch.eta

    def _recent(self) -> Floats:
        """What each action has lost that is not in S yet."""
        lost = finite(self.at_play).scores(self.theta)
        return lost if self.credit is None else lost - to_numpy(self.credit)

    def _clear(self, engine: Engine) -> None:
        """All that has been learned is in S; what comes is in the coordinates of an engine."""
        self.theta = np.zeros(engine.coordinates)
        if self.credit is not None:
            self.credit = engine.no_credit()

    def _weights(self, awake: Bools | None) -> tuple[Engine, Floats | None, Floats | None]:
        """What a law among some actions is made of: their engine, θ in its coordinates, and what to subtract from its scores."""
        engine = self._engine_now()
        if self._goes_on(awake):
            credit = self.credit
            if self.totals is not None:
                credit = (
                    -self.totals.lost if credit is None else to_numpy(credit) - self.totals.lost
                )
            return engine, self.theta, credit
        if awake is not None:
            engine = subset_of(finite(engine), awake).engine
        return engine, None, -self._folded().lost

    def _new_epoch(self, rng: Any, awake: Bools | None, *, at_once: bool) -> Epoch:
        """An epoch that begins now."""
        engine, theta, credit = self._weights(awake)
        eta, gamma = self._rates(engine)
        weight = 1.0 if self.horizon is not None else 1 - gamma
        nu, center, scale, half, problem = 0.0, engine.center, 1.0, WIDEST, engine.problem
        if self.range.moves:
            center = self.range.center
            scale = self.range.factor if self.range.learned else 1.0
            if problem.hindsight:  # clip what is new, then widen
                half = self.range.factor * problem.loss_bound
        if problem.hindsight:
            nu = self._variance_bonus(eta)
        law = engine.law(theta, credit, eta, gamma, rng, nu)
        if self.range.learned and not self.range.known:
            weight = 0.0  # only to be listened to
        zero = np.zeros(engine.coordinates)
        number = self.epochs + 1
        return Epoch(
            law,
            self.engine,
            awake,
            number,
            eta,
            gamma,
            weight,
            center,
            scale,
            half,
            at_once,
            zero,
            zero,
        )

    def _variance_bonus(self, eta: float) -> float:
        """ν = ψηh², with h the half-width of the interval; bonuses are times the scale later."""
        factor = self.range.factor
        nu: float = self.engine.problem.variance_bonus(eta * factor, self.rates.kappa)
        return nu * (1.0 if self.range.learned else factor)

    # Line 8: estimates.

    def learn(self, epoch: Epoch | Late, keys: Sequence[Any], losses: Any) -> None:
        """Add ŵ = Σ⁻¹φ(a)·loss, with the Σ of the epoch in which the actions were drawn."""
        count, bonus, admitted = len(keys), None, self.range.admitted(losses)
        if isinstance(epoch, Late):
            epoch, direction = self._revived(epoch)
            paid = centred(admitted[0], epoch.center, epoch.half)
            estimate = direction * (paid * epoch.weight)
        elif epoch.together:
            values = centred(np.asarray(admitted), epoch.center, epoch.half)
            paid = float(values.sum())
            if epoch.weight != 1.0:
                values *= epoch.weight
            estimate = epoch.engine.estimate(epoch.law, keys, values)
        else:
            paid = centred(admitted[0], epoch.center, epoch.half)
            estimate = epoch.engine.estimate(epoch.law, keys[0], paid * epoch.weight)
        if self.credit is not None:
            bonus = count * epoch.weight * epoch.scale * epoch.law.bonus
        mass, beside = count * epoch.weight, None
        if self.totals is None:
            rewarded = None if bonus is None else (count * epoch.scale, epoch.law.bonus)
            self.tally.add(paid, count, epoch.weight, estimate, rewarded)
            self._add(estimate, bonus)
        else:
            beside = self._add_among(epoch, estimate, bonus, mass, count)
        self.mass += mass
        self.level += mass * epoch.center
        self.heard += count
        moved = self.range.hear(losses)
        if epoch.over or beside is not None:
            self.late += count
            if beside is not None:
                self._include(None, beside, moved)
            else:
                largest = 0.0 if bonus is None else float(to_numpy(bonus).max())
                self._include(estimate, largest, moved)
            return
        epoch.heard += count
        epoch.gain = epoch.gain + estimate
        if moved or (not epoch.at_once and self.batch > 1 and self._has_drifted(epoch)):
            epoch.shrink()

    def _add(self, estimate: Floats, bonus: Any) -> None:
        """Take an estimate and bonuses, in the coordinates of the latest law."""
        self.theta += estimate
        if bonus is not None:
            self.credit += bonus

    def _add_among(
        self, epoch: Epoch, estimate: Floats, bonus: Any, mass: float, count: int
    ) -> float | None:
        """The same where not all actions have been awake all the time.

        What cannot enter θ enters S at once, with the mix loss of those asleep; then the range of these losses is returned.
        """
        totals = self.totals
        assert totals is not None
        counted = totals.counted(epoch.awake, epoch.number)
        totals.miss(counted, mass, mass * epoch.center)
        revived = counted is not epoch.awake
        if not revived and (epoch is self.epoch or self._goes_on(epoch.awake)):
            self._add(estimate, bonus)
            return None
        if self.awake is not None:  # what came first enters first
            self.totals = totals = self._folded()
            self._clear(self.at_play)
        totals.revived += revived * count
        x, given = epoch.engine.scores(estimate), None if bonus is None else to_numpy(bonus)
        log_prior, recent = finite(self.engine).log_prior, self._recent()
        self.totals = totals.after(x, given, counted, log_prior, self._eta, recent)
        lost = x if given is None else x - given
        lost = lost if counted is None else lost[counted]
        return float(lost.max() - lost.min()) if len(lost) else 0.0

    def add(self, rows: Rows) -> None:
        """Let some actions begin, or begin anew, with the share of all weights that their prior has."""
        if self.epochs == 0:
            return
        self.totals = totals = self._folded()
        self._clear(self.at_play)
        done = (self.epochs, self.mass, self.level)
        totals.begin_anew(rows, finite(self.engine).log_prior, self._eta, *done)

    def _include(self, estimate: Floats | None, beside: float, moved: bool) -> None:
        """Count a late estimate, or losses in a range and bonuses of at most so much, in the drift of the epoch during which they are heard."""
        epoch = self.epoch
        if epoch is None or epoch.over or epoch.at_once:
            return
        if epoch.heard == epoch.draws >= self.batch:  # nobody waits for it
            return
        if estimate is not None:
            epoch.gain = epoch.gain + estimate
        epoch.beside += beside
        epoch.anchor_drift += epoch.eta * beside
        if moved or self._has_drifted(epoch):
            epoch.shrink()

    # Losses that come long after.

    def condensed(self, epoch: Epoch, keys: Sequence[Any]) -> list[Late] | None:
        """What is needed of an epoch that is over: four numbers, Σ⁻¹φ(a) of each action, the bonus where there is one.

        None where more actions wait than Σ has rows, so that Σ takes less room, and where not all actions were awake.
        """
        engine = epoch.engine
        if epoch.awake is not None or len(keys) > engine.problem.rank:
            return None
        law, ends = epoch.law, [] if self.credit is None else [to_numpy(epoch.law.bonus)]
        directions = [engine.estimate(law, key, 1.0) for key in keys]
        numbers = [epoch.weight, epoch.center, epoch.scale, epoch.half]
        rows = [np.concatenate([numbers, v, *ends]) for v in directions]
        return [Late(epoch.number, row) for row in rows]

    def _revived(self, late: Late) -> tuple[Epoch, Floats]:
        """What is left of an epoch, as one, and the estimate of a loss of 1."""
        m, engine = self.engine.coordinates, self.engine
        weight, center, scale, half = late.numbers[:4].tolist()
        bonus = None if self.credit is None else finite(engine).as_credit(late.numbers[m + 4 :])
        law = Remains(bonus)
        epoch = Epoch(
            law, engine, None, late.number, 0.0, 0.0, weight, center, scale, half, False, None, None
        )
        epoch.over = True
        return epoch, late.numbers[4 : m + 4]

    # The end of an epoch (theory B3′).

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
        reach = epoch.engine.reach(epoch.law, epoch.gamma, epoch.gain - epoch.anchor, mass)
        if epoch.anchor_drift + epoch.eta * reach <= most:
            return False
        epoch.anchor, epoch.anchor_drift = epoch.gain, self.drift(epoch)
        epoch.anchor_heard = epoch.heard
        return epoch.anchor_drift > most

    def drift(self, epoch: Epoch) -> float:
        """Largest η(q·X - X(a)) since the epoch began: at least the rise of any log-weight."""
        mass = epoch.heard * epoch.weight * epoch.scale
        rise = epoch.engine.rise(epoch.law, epoch.gamma, epoch.gain, mass)
        drift: float = epoch.eta * (max(0.0, rise) + epoch.beside)
        return drift

    def is_late(self, law: Epoch | Late) -> bool:
        """Whether a loss comes after its epoch, or after an action of it has been added again."""
        over = isinstance(law, Late) or law.over
        if over and (law.number < self.epochs or self.batch > 1):
            return True
        awake = None if isinstance(law, Late) else law.awake
        return self.totals is not None and self.totals.counted(awake, law.number) is not awake

    # What is known.

    def sums(self) -> Floats:
        """S: what each action has lost by the estimates and bonuses."""
        return self._recent() if self.totals is None else self._folded().lost

    def next_law(self) -> Any:
        """What the next single decision is drawn from, without opening an epoch."""
        if not self.is_over():
            assert self.epoch is not None
            return self.epoch.law
        engine, theta, credit = self._weights(None)
        return engine.law(theta, credit, *self._rates(engine), None)

    def outlook(self, awake: Bools | None = None, row: int | None = None) -> Floats:
        """Probability of every action of a finite set in the next single decision, some of them being awake."""
        if not self.is_over(awake):
            assert self.epoch is not None
            return np.array(to_numpy(self.epoch.law.p), dtype=np.float64)
        engine, theta, credit = self._weights(awake)
        return finite(engine).mixture(theta, credit, *self._rates(engine))

    def recommend(self, awake: Bools | None = None, row: int | None = None) -> Recommendation:
        """The best action by the estimates, of those awake."""
        engine = self.engine
        if self.totals is None and awake is None:
            index, action, value = engine.best(self.theta, max(self.mass, 1.0))
            value += self.mean_center
            return Recommendation(index, action, engine.sign * value, "estimated")
        values = self.values()
        if awake is not None:
            values = np.where(awake, values, np.inf)
        best = int(np.argmin(values))
        loss = engine.sign * float(values[best])
        return Recommendation(best, finite(engine).points[best], loss, "estimated")

    def values(self) -> Floats:
        """Estimated mean loss of every action of a finite set, over the rounds in which it could be chosen."""
        engine = finite(self.engine)
        if self.totals is None:
            values: Floats = engine.values(self.theta, max(self.mass, 1.0)) + self.mean_center
            return values
        totals = self._folded()
        mass, center = self.mass - totals.mass, np.full(len(totals.lost), engine.center)
        if self.range.moves:
            mean = (self.level - totals.level) / np.maximum(mass, 1e-300)
            center = np.where(mass > 0, mean, center)
        own = totals.lost - totals.slept + totals.bonus
        means: Floats = own / np.maximum(mass, 1.0) + center
        return means

    @property
    def counts(self) -> NDArray[np.int64] | None:
        """Decisions in each context, where there are contexts."""
        return None

    @property
    def frequencies(self) -> Any:
        """How often each law of the outlook is drawn from."""
        return 1.0

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

    def proved(
        self, rounds: int, played: promises.Played, awake: Bools | None = None, other: Other = None
    ) -> Guarantee:
        """The statement for what is played; `awake` are on offer now."""
        engine = self.engine if other is None else other(self.engine)
        promise = prove(engine, self.rates, self.batch, rounds, self.horizon, played, self.range)
        if self.totals is not None or awake is not None:
            promise = among_some(promise, engine, self.totals, awake)
        return within_shares(promise, engine)

    def _restored(self) -> None:
        """Make again what a snapshot leaves out; what is learned must be as long as its engine says, which bounds the work."""
        self.at_play = self.engine if self.epoch is None else self.epoch.engine
        if len(self.theta) != self.at_play.coordinates:
            raise ValueError(
                f"θ must have {self.at_play.coordinates} numbers, got {len(self.theta)}"
            )
        if self.credit is not None:
            self.credit = finite(self.at_play).as_credit(to_numpy(self.credit))
        if self.tally.credit is not None:
            self.tally.credit = finite(self.engine).as_credit(to_numpy(self.tally.credit))


def finite(engine: Engine) -> PointsEngine:
    """An engine that is known to be one of finitely many actions."""
    assert isinstance(engine, PointsEngine)
    return engine


def _are_same(awake: Bools | None, other: Bools | None) -> bool:
    """Whether two masks are equal."""
    if awake is None or other is None:
        return awake is other
    return np.array_equal(awake, other)


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


def among_some(
    promise: Guarantee, engine: Engine, totals: Totals | None, awake: Bools | None
) -> Guarantee:
    """The statement where not all actions are awake all the time: by what has been learned so far, and for those on offer now."""
    price, renewed, revived = 1.0, 0.0, 0
    if totals is not None:
        price, renewed, revived = totals.price, totals.renewed, totals.revived
    if awake is not None:
        price = max(price, subset_of(finite(engine), awake).price)
    numbers = {"price": price, "renewed": renewed, "revived": revived}
    return promises.among_some(promise, engine.problem, engine.rates, **numbers)
