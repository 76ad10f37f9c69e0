"""A population carried from round to round: sequential Monte Carlo for exp(-Σ_t η ℓ_t) on a ball or a box.

From round to round the density changes little, so the population of the last round is almost one of the next:

1. Reweight every particle by exp(-η ℓ_t).
2. Where the effective sample size (Σw)² / Σw² has fallen below half the population, resample it
   (systematically) and move every particle by a few Markov steps that leave the current density invariant:
   hit-and-run along chords, and a choice among independent uniform points, which lets particles change modes.

A loss so large that the effective size would fall at once far below half is taken in parts exp(-φ η ℓ_t), 0 < φ < 1,
each as large as keeps it at a third, with step 2 after each (adaptive tempering).

The weights cannot see a mode that appears where no particle is: all of them stay equal. So every round as many
fresh uniform points, the scouts, estimate the normaliser Z = mean of exp(-Σ η ℓ) over the actions too, and where
their estimate exceeds the population's by more than three of their standard errors, the population begins again
from uniform points, tempered to the current density. In low dimension this finds every mode of which a scout
is likely to touch the slope; in high dimension nothing of the kind can be promised.

Del Moral, Doucet and Jasra (2006), Sequential Monte Carlo samplers, JRSS B 68.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Literal, Self

import numpy as np

from koloss.actions import ActionSet
from koloss.core.arrays import as_count, as_float, as_int, as_points, as_vector, one_of, to_numpy
from koloss.core.random import as_generator
from koloss.core.snapshot import FORMS
from koloss.errors import SnapshotError
from koloss.kernels import Loss
from koloss.samplers.base import Sampler
from koloss.samplers.categorical import categorical, systematic
from koloss.samplers.chains import Compact, Target, as_actions, as_target
from koloss.samplers.hit_and_run import Move as HitAndRun
from koloss.samplers.langevin import ACCEPTANCE, first_step_size
from koloss.samplers.langevin import Move as Langevin

VERSION = 2
MOVES = 5
"""Markov steps of every particle after a resampling, unless others are asked for."""

STAGES = 1000
"""Parts of one loss after which something must be wrong with it."""


class Particles(Sampler):
    """Weighted population that follows the density ∝ exp(-Σ_t learning_rate_t · loss_t).

    It has no generator of its own: every call that draws takes one, and the first such call draws the population.

    Parameters
    ----------
    actions : Ball, Box or PositiveBall
    size : int
        Number of particles; at first uniform draws, all of one weight.
    learning_rate : float
        η, the factor of every loss; small losses are likely.
    moves : int
        Markov steps of every particle after a resampling.
    move : "hit-and-run" or "diffusion"
        Which steps: along random chords, or Langevin proposals with the Metropolis rule. The size of these follows the
        share that was accepted by the population's last step.

    Attributes
    ----------
    points : array of shape (size, d)
        None before the first call.
    log_weights : array of shape (size,)
        The largest is zero.
    rounds, resamplings, restarts : int
        Losses taken in; how often the population was resampled and moved; how often the scouts found mass that it had
        missed, and it began again.
    log_normalizer : float
        Estimate of log of the mean of exp(-Σ_t learning_rate_t · loss_t) over the actions.

    Examples
    --------
    >>> import numpy as np
    >>> import koloss as kl
    >>> rng, particles = np.random.default_rng(0), Particles(kl.Ball(2), 500, learning_rate=1.0)
    >>> for _ in range(20):
    ...     particles.update(kl.LinearLoss([1.0, 0.0]), rng=rng)
    >>> particles.draw(3, rng=rng).shape, particles.resamplings > 0
    ((3, 2), True)
    >>> bool(-1 < particles.mean()[0] < -0.85), particles.effective_size() > 250
    (True, True)
    """

    exact = False

    def __init__(
        self,
        actions: Compact,
        size: int,
        *,
        learning_rate: float = 1.0,
        moves: int = MOVES,
        move: Literal["hit-and-run", "diffusion"] = "hit-and-run",
    ) -> None:
        self.actions = as_actions(actions)
        one_of("move", move, ("hit-and-run", "diffusion"))
        self.move, self.method = move, f"particles, {move}"
        self._step_size = first_step_size(self.actions)
        self.learning_rate = as_float("learning_rate", learning_rate, minimum=0.0)
        self.moves = as_int("moves", moves, minimum=1)
        self.points: Any = None
        self.log_weights = np.zeros(as_count("size", size, minimum=2))
        self.rounds = self.resamplings = self.restarts = 0
        self.log_normalizer = 0.0
        self._potential: Loss | None = None  # Σ η ℓ: the density is exp(-potential)
        self._jumps_accepted = self._jumps_proposed = 0

    def __len__(self) -> int:
        return len(self.log_weights)

    @property
    def potential(self) -> Loss | None:
        """Σ_t learning_rate_t · loss_t: the density is exp(-potential)."""
        return self._potential

    def __repr__(self) -> str:
        return f"Particles({self.actions!r}, {len(self)}, rounds={self.rounds})"

    @property
    def weights(self) -> Any:
        """Probabilities of the particles."""
        weights = np.exp(self.log_weights)
        return weights / weights.sum()

    @property
    def jump_acceptance(self) -> float | None:
        """Share of jumps to uniform points that left their place, in all moves so far; None before the first."""
        return self._jumps_accepted / self._jumps_proposed if self._jumps_proposed else None

    def effective_size(self) -> float:
        """(Σw)² / Σw²: so many particles of equal weight would be as good."""
        return _effective_size(self.log_weights)

    def mean(self) -> Any:
        """Weighted mean of the particles, an array of shape (d,)."""
        return self.weights @ self.points

    def draw(self, size: int = 1, rng: Any = None) -> Any:
        """Particles drawn by their weights, with replacement: an array of shape (size, d)."""
        rng = as_generator(rng)
        self._populate(rng)
        return self.points[categorical(self.log_weights, size, rng=rng)]

    def update(self, loss: Loss, *, learning_rate: float | None = None, rng: Any = None) -> None:
        """Take in the newest loss: reweight, and resample and move where that is due.

        The loss is of the family of all before it, and `learning_rate` its factor; the population's own where it is
        missing. Where the loss has another dimension, or is not finite at a particle, nothing changes.
        """
        self._check("loss", loss)
        rate = self.learning_rate if learning_rate is None else learning_rate
        increment = as_float("learning_rate", rate, minimum=0.0) * loss
        before = 0.0 * increment if self._potential is None else self._potential
        # The sum refuses another family before anything has changed.
        self._advance(before, before + increment, increment, as_generator(rng))

    def follow(self, potential: Loss | None, rng: Any = None) -> None:
        """Go over to the density ∝ exp(-potential), whatever it was: for rates that change with time."""
        if potential is None:
            return
        self._check("potential", potential)
        before = 0.0 * potential if self._potential is None else self._potential
        before._check_family(potential)
        change = lambda X: potential(X) - before(X)  # noqa: E731
        self._advance(before, potential, change, as_generator(rng))

    def _check(self, name: str, loss: Any) -> None:
        if not isinstance(loss, Loss):
            raise TypeError(f"`{name}` must be a Loss, got {type(loss).__name__}")
        d = self.actions.dimension
        if loss.dimension != d:
            raise ValueError(f"`{name}` must have dimension {d}, got {loss.dimension}")

    def _populate(self, rng: np.random.Generator) -> None:
        if self.points is None:
            self.points = self.actions.sample(len(self), rng)

    def _advance(
        self, before: Loss, after: Loss, increment: Callable[[Any], Any], rng: np.random.Generator
    ) -> None:
        kept, bits = dict(vars(self)), rng.bit_generator.state  # arrays are replaced, never written
        try:
            self._populate(rng)
            self._temper(before, after, increment, rng)
            if self._scouts_find_more(after, rng):  # begin again
                self.points = self.actions.sample(len(self), rng)
                self.log_weights, self.log_normalizer = np.zeros(len(self)), 0.0
                self.restarts += 1
                self._temper(0.0 * after, after, after, rng)
        except Exception:
            vars(self).update(kept)
            rng.bit_generator.state = bits
            raise
        self._potential = after
        self.rounds += 1

    def _temper(
        self, before: Loss, after: Loss, increment: Callable[[Any], Any], rng: np.random.Generator
    ) -> None:
        """From the density exp(-before) to exp(-after), in as many parts as it takes."""
        change, done = self._change(increment), 0.0
        for _ in range(STAGES):
            part = _largest_part(self.log_weights, change, 1.0 - done)
            done = 1.0 if part >= 1.0 - done else done + part
            weights = self.log_weights + part * change
            self.log_normalizer += _log_sum(weights) - _log_sum(self.log_weights)
            self.log_weights = weights - weights.max()
            if self.effective_size() < len(self) / 2 or done < 1.0:
                part_way = after if done == 1.0 else (1 - done) * before + done * after
                self._resample_and_move(part_way, rng)
            if done == 1.0:
                return
            change = self._change(increment)
        raise ValueError(f"`loss` is too large to be taken in within {STAGES} parts")

    def _scouts_find_more(self, potential: Loss, rng: np.random.Generator) -> bool:
        """Whether fresh uniform points see mass that the population has missed."""
        values = -to_numpy(potential(self.actions.sample(len(self), rng)))
        estimate = _log_sum(values) - math.log(len(self))
        error = 1 / math.sqrt(_effective_size(values))  # relative, of the scouts' estimate
        return estimate - self.log_normalizer > math.log1p(3 * error)

    def _change(self, increment: Callable[[Any], Any]) -> Any:
        """Log weight that all of an increment adds to each particle."""
        change = -np.asarray(to_numpy(increment(self.points)), dtype=np.float64)
        if not np.all(np.isfinite(change)):
            i = int(np.argmin(np.isfinite(change)))
            where = self.points[i].tolist()
            raise ValueError(f"`loss` must be finite, got {-change[i]} at {where}")
        return change

    def _resample_and_move(self, potential: Loss, rng: np.random.Generator) -> None:
        self.points = self.points[systematic(self.log_weights, len(self), rng=rng)]
        self.log_weights = np.zeros(len(self))
        self.resamplings += 1
        target = as_target(potential, 1.0, self.actions.dimension)
        if self.move == "diffusion":
            walk = Langevin(target, self.actions, self.points)
            for _ in range(self.moves):
                accepted = walk.diffuse(self._step_size, rng)
                self._step_size *= math.exp(accepted - ACCEPTANCE)
            self.points = walk.X
        else:
            along_chords = HitAndRun(target, self.actions)
            for _ in range(self.moves):
                self.points = along_chords(self.points, rng)
        jumps = Langevin(Target(target.log_density), self.actions, self.points)
        jumps.jump(1.0, rng)
        self.points = jumps.X
        self._jumps_accepted += jumps.jumps_accepted
        self._jumps_proposed += jumps.jumps_proposed

    def facts(self) -> dict[str, Any]:
        """Effective size, and how often it was resampled and began again, once there are points."""
        if self.points is None:
            return {}
        counts = {"resamplings": self.resamplings, "restarts": self.restarts}
        return {"effective_size": self.effective_size(), **counts}

    # State as plain data.

    def to_dict(self) -> dict[str, Any]:
        """Plain data from which `Particles.from_dict` continues exactly."""
        return {
            "kind": "Particles",
            "version": VERSION,
            "actions": self.actions.to_dict(),
            "points": None if self.points is None else self.points.tolist(),
            "log_weights": self.log_weights.tolist(),
            "step_size": self._step_size,
            "jumps": [self._jumps_accepted, self._jumps_proposed],
            "potential": None if self._potential is None else self._potential.to_dict(),
            **{name: getattr(self, name) for name in ("learning_rate", "moves", "move", *COUNTS)},
            "log_normalizer": self.log_normalizer,
        }

    @classmethod
    def from_dict(cls, data: Any) -> Self:
        """Population described by plain data; SnapshotError for another kind or version, or damage."""
        if not isinstance(data, Mapping) or data.get("kind") != "Particles":
            raise SnapshotError("`data` must be a snapshot of Particles")
        if data.get("version") != VERSION:
            raise SnapshotError(f"`version` must be {VERSION}, got {data.get('version')!r}")
        try:
            given = {name: data[name] for name in ("learning_rate", "moves", "move")}
            actions: Any = ActionSet.from_dict(data["actions"])
            self = cls(actions, len(data["log_weights"]), **given)
            self._restore(data)
        except (KeyError, TypeError, ValueError) as error:
            raise SnapshotError(f"the snapshot is damaged: {error}") from error
        return self

    def _restore(self, data: Mapping[str, Any]) -> None:
        """Everything that changes from round to round, as it was when `to_dict` was called."""
        if data["points"] is not None:
            points = as_points("points", data["points"], dimension=self.actions.dimension)
            self.points = to_numpy(points)
            if len(self.points) != len(self) or not np.all(self.actions.contains(self.points)):
                raise ValueError(f"`points` must be {len(self)} actions")
        self.log_weights = to_numpy(as_vector("log_weights", data["log_weights"]))
        for name in COUNTS:
            setattr(self, name, as_int(name, data[name], minimum=0))
        self.log_normalizer = as_float("log_normalizer", data["log_normalizer"])
        self._jumps_accepted, self._jumps_proposed = (
            as_int("jumps", count, minimum=0) for count in data["jumps"]
        )
        self._step_size = as_float("step_size", data["step_size"], positive=True)
        if data["potential"] is not None:
            self._potential = Loss.from_dict(data["potential"])
            self._check("potential", self._potential)
            if self.points is None:
                raise ValueError("`points` must be there where there is a potential, got None")


COUNTS = ("rounds", "resamplings", "restarts")


def _of_learner(data: Any) -> Particles:
    """The population of a learner in a snapshot."""
    particles = Particles.from_dict(data)
    if particles.moves != MOVES:  # which might never end
        raise SnapshotError(f"`moves` must be {MOVES}, got {particles.moves}")
    particles.stale = bool(data["stale"])
    return particles


FORMS["particles"] = (Particles, lambda one: {**one.to_dict(), "stale": one.stale}, _of_learner)


def _effective_size(log_weights: Any) -> float:
    weights = np.exp(log_weights - log_weights.max())
    return float(weights.sum() ** 2 / (weights**2).sum())


def _log_sum(logs: Any) -> float:
    top = float(np.max(logs))
    return top + math.log(float(np.sum(np.exp(logs - top))))


def _largest_part(log_weights: Any, change: Any, rest: float) -> float:
    """Largest part of a change, up to `rest`, after which a third of the population or more is effective.

    A third, not half: one half decides when to resample, and what falls a little below it in one round is
    resampled as it is. Bisection on the part; the effective size is continuous in it.
    """
    least = len(log_weights) / 3
    if _effective_size(log_weights + rest * change) >= least:
        return rest
    low, high = 0.0, rest
    for _ in range(60):
        middle = (low + high) / 2
        if _effective_size(log_weights + middle * change) >= least:
            low = middle
        else:
            high = middle
    return max(low, rest * 1e-12)
