"""`ask(allowed=...)`: a request among some of the actions, by a law of its own.

A request among the actions A is drawn from

    p = (1 - γ) q + γ π,   q(a) ∝ prior(a) exp(-η S(a)) for a in A, zero elsewhere,

where S is what each action has lost by the estimates, and π a design of A alone, in coordinates of the space that Φ(A) spans. With the Σ of
this p the estimate x(a) = φ(a)'Σ⁻¹φ(b) loss, b being drawn, has the loss of a as its mean for every a in A: without a penalty whatever A
is, and with one up to the bias of all rounds. The largest leverage in A is that of other rounds or less.

Of the others it says nothing: Φ(A) may hardly reach them, so that estimates of theirs would have any variance. They sleep, and lose what those in
A lose together, the mix loss -(1/η) log Σ q(a) exp(-η x(a)), which leaves their share of the weight as it is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from koloss.core.arrays import to_numpy
from koloss.designs import Design, whiten
from koloss.designs.base import orthonormal
from koloss.designs.ridge import whiten_ridge
from koloss.guarantees import bandit
from koloss.learners.bandit.arms import ArmsEngine
from koloss.learners.bandit.loss_range import centred
from koloss.learners.bandit.points import PointsEngine
from koloss.learners.bandit.ridge import choose_ridge_design
from koloss.learners.bandit.sampled import SampledEngine
from koloss.learners.bandit.tuning import choose_design
from koloss.learners.ledger import Drawn, Ledger
from koloss.learners.reading import Reader, plain

if TYPE_CHECKING:
    from koloss.learners.bandit.exp2 import Exp2

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

KEPT = 2**24
"""Most numbers of the features of masks that are kept for when they come again."""


@dataclass(slots=True, eq=False)
class Masked:
    """What is needed of the law of a request among some actions: the estimates that each action drawn makes."""

    number: int  # of the epoch
    weight: float  # of its estimates, as in `Epoch`
    center: float
    scale: float
    half: float
    allowed: Bools
    rows: tuple[int, ...]  # actions drawn, each once
    directions: Floats  # (len(rows), N): x(a) of a loss of 1
    bonus: Any = None  # (N,)

    together: ClassVar[bool] = False
    over: ClassVar[bool] = True

    def direction(self, row: int) -> Floats:
        """x(a) of a loss of 1 of the action in a row."""
        one: Floats = self.directions[self.rows.index(row)]
        return one

    def shrink(self) -> None:
        """There is no less."""

    def to_dict(self) -> dict[str, Any]:
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        rows = np.array(self.rows, dtype=np.int64)
        return {**values, "allowed": self.allowed.astype(np.int64), "rows": rows}

    @classmethod
    def from_dict(cls, data: Reader, actions: int, epochs: int, bonus: bool) -> Masked:
        """The law in a snapshot of a game with so many actions and epochs."""
        allowed = data.flags("allowed", actions)
        rows = tuple(data.array("rows", (None,), 0, actions - 1, whole=True).tolist())
        if not rows or not allowed[list(rows)].all():
            data.refuse("rows", "must be actions that are allowed", rows)
        if not bonus:
            data.nothing("bonus")
        return data.record(
            cls,
            number=data.count("number", 1, epochs),
            allowed=allowed,
            rows=rows,
            directions=data.array("directions", (len(rows), actions)),
            bonus=data.array("bonus", (actions,), 0) if bonus else None,
        )


class Part(NamedTuple):
    """Some of the actions, as an engine of their own."""

    engine: PointsEngine  # prior, features and design are zero elsewhere
    price: float  # how many times the exploration of all actions it needs

    def law(self, sums: Floats, eta: float, gamma: float, rng: Any, nu: float) -> Any:
        """p among these, where actions have lost so much."""
        zero = np.zeros(self.engine.problem.rank)
        with np.errstate(divide="ignore", invalid="ignore"):  # leverages of those not allowed
            law = self.engine.law(zero, -sums, eta, min(1.0, gamma * self.price), rng, nu)
        if law.bonus is not None:
            law.bonus = np.where(np.isfinite(self.engine.log_prior), law.bonus, 0.0)
        return law

    def directions(self, law: Any, rows: Sequence[int]) -> Floats:
        """x(a) of a loss of 1, for each action drawn."""
        engine = self.engine
        return np.stack([engine.scores(engine.estimate(law, row, 1.0)) for row in rows])


class Masks:
    """What was learned in requests among some of the actions: of each action by itself."""

    _SUMS: ClassVar = ("told", "slept", "mass", "level")

    def __init__(self, actions: int) -> None:
        self.made = 0  # decisions among some of the actions
        self.told, self.slept = np.zeros(actions), np.zeros(actions)  # Σ x, and Σ of mix losses
        self.mass, self.level = np.zeros(actions), np.zeros(actions)  # Σ weights, and times centres
        self._parts: dict[Any, Part] = {}

    def part(self, engine: PointsEngine, allowed: Bools, design: Any, cap: float) -> Part:
        """These actions as an engine; one that was made of late is kept."""
        key = (engine, allowed.tobytes())
        part = self._parts.pop(key, None) or restricted(engine, allowed, design, cap)
        most = max(KEPT // max(part.engine.features.size, 1), 1)
        for old in list(self._parts)[: max(len(self._parts) + 1 - most, 0)]:
            del self._parts[old]
        self._parts[key] = part
        return part

    def values(self, exp2: Exp2) -> Floats:
        """Estimated mean loss of every action, over the rounds in which it could be chosen."""
        engine, mass = exp2.engine, exp2.mass + self.mass
        assert isinstance(engine, PointsEngine)
        center: Any = engine.center
        if exp2.range.moves:
            mean = (exp2.level + self.level) / np.maximum(mass, 1e-300)
            center = np.where(mass > 0, mean, center)
        values: Floats = (engine.scores(exp2.theta) + self.told) / np.maximum(mass, 1.0) + center
        return values

    def begin_anew(self, added: Any) -> None:
        """Forget what was learned of actions that are added again."""
        for name in self._SUMS:
            getattr(self, name)[added] = 0.0

    def to_dict(self) -> dict[str, Any]:
        return plain(self, "made", *self._SUMS)

    @classmethod
    def from_dict(cls, data: Reader, actions: int) -> Masks:
        """The same in a snapshot of a game with so many actions."""
        masks = cls(actions)
        data.fill(masks, "made", *cls._SUMS)
        return masks

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_parts": {}}  # which can be made again


def draw_among(
    exp2: Exp2,
    allowed: Bools,
    count: int | None,
    rng: Any,
    design: Any,
    recorded: Sequence[Any] = (),
) -> tuple[Masked, Drawn, Floats]:
    """An action among those allowed, or several, by a law p of its own; the epoch before is over.

    `recorded` are rows that will take the place of those drawn.
    """
    exp2.rates_now()  # which moves on to the engine of this round
    engine, masks = exp2.engine, exp2.masks or Masks(len(allowed))
    assert isinstance(engine, PointsEngine)
    part = masks.part(engine, allowed, design, _cap(exp2, engine))
    epoch = exp2.new_epoch(rng, at_once=False, part=part)
    drawn = part.engine.draw(epoch.law, count, rng)
    rows = sorted({int(key) for keys in (drawn.keys, recorded) for key in keys})
    directions = part.directions(epoch.law, rows)
    # Now that nothing has failed.
    size = len(drawn.keys)
    exp2.masks, exp2.epoch, exp2.epochs = masks, None, epoch.number
    masks.made += size
    exp2.made += size
    if not exp2.range.known:
        exp2.range.listened += size
    numbers = epoch.weight, epoch.center, epoch.scale, epoch.half
    law = Masked(epoch.number, *numbers, allowed, tuple(rows), directions, epoch.law.bonus)
    return law, drawn, epoch.law.p


def _cap(exp2: Exp2, engine: PointsEngine) -> float:
    """The largest leverage that exploration may leave: that of the first round of a level, where there are levels."""
    eta, kappa = exp2.rates.learning_rate, exp2.rates.kappa
    if exp2.horizon is None:
        schedule, first = engine.schedule, 1
        if schedule is not None and engine.level > schedule.level(1):
            first = schedule.first_round(engine.level)
        eta = bandit.anytime_rate(engine.problem, kappa, first)
    cap: float = engine.problem.largest_leverage(eta, kappa)
    return cap


def learn_among(exp2: Exp2, law: Masked, keys: Sequence[int], losses: Sequence[Any]) -> float:
    """Add the estimates of those that were allowed; the others lose what these lose together, which is given back."""
    masks, allowed, lost = exp2.masks, law.allowed, 0.0
    assert masks is not None
    for key, loss in zip(keys, losses, strict=True):
        admitted = exp2.range.admitted((loss,))[0]
        value = centred(admitted, law.center, law.half) * law.weight
        before = exp2.sums()[allowed]
        masks.told[allowed] += value * law.direction(key)[allowed]
        if exp2.credit is not None:
            exp2.reward(law.weight * law.scale * np.where(allowed, law.bonus, 0.0))
        mixed = _mix_loss(exp2, allowed, before)
        masks.slept[~allowed] += mixed
        lost += mixed
        masks.mass[allowed] += law.weight
        masks.level[allowed] += law.weight * law.center
        exp2.heard += 1
        exp2.late += law.number < exp2.epochs
        epoch = exp2.epoch
        if exp2.range.hear((loss,)) and epoch is not None and not epoch.over:
            epoch.shrink()
    return lost


def _mix_loss(exp2: Exp2, awake: Bools, before: Floats) -> float:
    """What some actions have lost together since their sums were these."""
    eta = exp2.rates_now()[0] if exp2.epoch is None else exp2.epoch.eta
    after, prior = exp2.sums()[awake], exp2.engine.log_prior[awake]  # type: ignore[union-attr]
    first, last = prior - eta * before, prior - eta * after
    if not np.isfinite(prior).any():  # all of them were withdrawn since
        return 0.0
    if eta == 0:
        weights = np.exp(first - first.max())
        return float(weights @ (after - before) / weights.sum())
    return float((np.logaddexp.reduce(first) - np.logaddexp.reduce(last)) / eta)


def restricted(engine: PointsEngine, allowed: Bools, design: str | Design, cap: float) -> Part:
    """Some of the actions as an engine: features in coordinates of the space that they span, and their own design.

    With a penalty the design is for leverages of up to `cap`.
    """
    N, weights, columns = len(allowed), np.zeros(len(allowed)), None
    design = "john" if isinstance(design, Design) else design
    rows = engine.features[allowed]
    if isinstance(engine, ArmsEngine):
        features, rank = engine.features, engine.problem.rank
        weights[allowed], leverage = 1 / allowed.sum(), float(allowed.sum())
    elif not rows.any():  # whatever is played, the loss is known
        features, rank, leverage = np.zeros((N, 1), order="F"), 1, 0.0
        weights[allowed], columns = 1 / allowed.sum(), np.ones((1, 1))
    else:
        if engine.columns is None:
            chosen = choose_design(rows, design)
            white, largest = whiten(rows, chosen).features, chosen.max_leverage
            weights[allowed], leverage = to_numpy(chosen.weights), float(largest)
        else:
            # Directions that neither an action has nor the penalty are left out: no estimate depends on them.
            both, _ = orthonormal(np.vstack([rows, engine.columns.T]))
            rows, columns = np.ascontiguousarray(both[: len(rows)]), both[len(rows) :].T
            best = choose_ridge_design(rows, columns, cap, design)
            white, columns = whiten_ridge(rows, columns, best)
            weights[allowed], leverage = best.weights, best.exploration * best.largest
        rank = white.shape[1]
        features = np.zeros((N, rank), order="F")
        features[allowed] = white
    log_prior = np.where(allowed, engine.log_prior, -math.inf)
    problem = replace(engine.problem, rank=rank)
    values = {k: v for k, v in engine.__dict__.items() if k[0] != "_"}
    values |= {"features": features, "columns": columns, "weights": weights}
    kind = type(engine) if isinstance(engine, (ArmsEngine, SampledEngine)) else PointsEngine
    part = kind(**_fields_of(kind, values) | {"log_prior": log_prior, "problem": problem})
    return Part(part, max(1.0, leverage / (engine.leverage or engine.problem.leverage)))


def _fields_of(kind: type[PointsEngine], values: dict[str, Any]) -> dict[str, Any]:
    """Those that an engine of this kind has: that of an era has more."""
    return {field.name: values[field.name] for field in fields(kind)}


def check_rows(data: Reader, ledger: Ledger[Any]) -> None:
    """Refuse decisions in a snapshot for actions that their laws did not draw."""
    for entry in ledger:
        if isinstance(entry.law, Masked) and entry.key not in entry.law.rows:
            data.refuse("ledger.keys", "must be rows that were drawn", entry.key)
