"""How exponential weights are kept and drawn from, by the kind of actions and losses.

An engine keeps the cumulative loss S and the prior, and draws from p ∝ prior · exp(-ηS):

- `Weights`: a finite set, one number a point;
- `OnBall`: linear and quadratic losses on the ball, exact draws;
- `OnBox`: linear losses on a box, exact draws, coordinate by coordinate;
- `ByChains`: everything else on compact sets, by a population of particles that Markov chains move.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from koloss._arrays import as_distribution, to_numpy
from koloss.actions import Ball, Box, Points
from koloss.kernels import KernelLoss, Linear, LinearLoss, Loss, Quadratic, QuadraticLoss
from koloss.learners.full.expansion import Expansion
from koloss.learners.full.learner import Game, loss_from_dict, loss_to_dict


def make(game: Game, prior: Any, particles: int, move: str) -> Any:
    """The engine for a game."""
    actions, kernel = game.actions, game.kernel
    if isinstance(actions, Points):
        return Weights(game, prior)
    if prior is not None:
        prior = _potential(game, prior)
    if isinstance(actions, Ball) and isinstance(kernel, (Linear, Quadratic)):
        return OnBall(game, prior)
    if isinstance(actions, Box) and (
        isinstance(kernel, Linear) or (isinstance(kernel, Quadratic) and actions.dimension == 1)
    ):
        return OnBox(game, prior)
    return ByChains(game, prior, particles, move)


def _potential(game: Game, prior: Any) -> Loss:
    """A prior on a compact set, as the loss whose exp(-loss) is its density."""
    if not isinstance(prior, Loss):
        raise TypeError(
            "`prior` must be a Loss on a compact set, of density exp(-prior), "
            f"got {type(prior).__name__}"
        )
    scale = max(prior.norm(), 1e-300)
    return game.element(prior * (game.norm / scale)) * (scale / game.norm)


class Weights:
    """Log-weights of the points of a finite set."""

    exact, method = True, "categorical"

    def __init__(self, game: Game, prior: Any) -> None:
        self.game = game
        N = len(game.actions)  # type: ignore[arg-type]
        if prior is None:
            self.log_prior = np.full(N, -np.log(N))
        else:
            prior = to_numpy(as_distribution("prior", prior, length=N))
            if prior.min() <= 0:
                raise ValueError(
                    f"`prior` must be positive everywhere, got {prior.min():.6g} at {prior.argmin()}"
                )
            self.log_prior = np.log(prior)
        self.cumulative = np.zeros(N)
        self._ready: tuple[float, Any, Any] | None = None  # η, p and its cumulative sums

    @property
    def prior_range(self) -> float:
        """max_a log(1/prior(a))."""
        return float(-self.log_prior.min())

    def understand(self, loss: Any) -> Any:
        return self.game.values(loss)

    def add(self, values: Any, allowance: float) -> None:
        self.cumulative = self.cumulative + values
        self._ready = None

    def distribution(self, eta: float) -> Any:
        if self._ready is None or self._ready[0] != eta:
            log_p = self.log_prior - eta * self.cumulative
            p = np.exp(log_p - log_p.max())
            p /= p.sum()
            cdf = np.cumsum(p)
            self._ready = eta, p, cdf / cdf[-1]
        return self._ready[1]

    def draw(self, eta: float, count: int, rng: Any) -> tuple[Any, Any, Any]:
        p = self.distribution(eta)
        assert self._ready is not None
        index = self._ready[2].searchsorted(rng.random(count), side="right")
        return self.game.actions.X[index], index, p[index]  # type: ignore[attr-defined]

    def log_density(self, X: Any, eta: float) -> Any:
        raise TypeError("`log_density` is for compact sets; a finite one has `distribution`")

    def best(self) -> tuple[int | None, Any, float, str]:
        i = int(np.argmin(self.cumulative))
        return i, self.game.actions.X[i], float(self.cumulative[i]), "exhaustive"  # type: ignore[attr-defined]

    def facts(self) -> dict[str, Any]:
        return {}

    def to_dict(self) -> dict[str, Any]:
        return {"cumulative": self.cumulative.copy(), "log_prior": self.log_prior.copy()}

    @classmethod
    def from_dict(cls, game: Game, data: dict[str, Any]) -> Weights:
        engine = cls(game, None)
        engine.log_prior = np.array(data["log_prior"])
        engine.cumulative = np.array(data["cumulative"])
        return engine


class _Compact:
    """What the engines on compact sets share: the potential ηS - log prior, as a loss."""

    exact, method = True, ""

    def __init__(self, game: Game, prior: Loss | None) -> None:
        self.game, self.prior = game, prior
        self.cumulative: Loss | None = None

    @property
    def prior_range(self) -> float:
        """How far the log density of the prior varies, at most."""
        return 0.0 if self.prior is None else self.prior.norm() * self.game.diameter

    def understand(self, loss: Any) -> Any:
        return self.game.element(loss)

    def add(self, loss: Loss, allowance: float) -> None:
        self.cumulative = loss if self.cumulative is None else self.cumulative + loss

    def potential(self, eta: float) -> Loss | None:
        if self.cumulative is None:
            return self.prior
        scaled = eta * self.cumulative
        return scaled if self.prior is None else scaled + self.prior

    def log_density(self, X: Any, eta: float) -> Any:
        potential = self.potential(eta)
        return np.zeros(len(X)) if potential is None else -to_numpy(potential(X))

    def best(self) -> tuple[int | None, Any, float, str]:
        from koloss.oracles import minimize

        cumulative = self.cumulative
        if cumulative is None:  # anything is as good
            return None, self.game.actions.sample(1, 0)[0], 0.0, "exhaustive"
        found = minimize(cumulative, self.game.actions, rng=0)
        return None, found.point, found.value, found.certificate

    def facts(self) -> dict[str, Any]:
        return {}

    def to_dict(self) -> dict[str, Any]:
        return {"cumulative": loss_to_dict(self.cumulative), "prior": loss_to_dict(self.prior)}

    def _load(self, data: dict[str, Any]) -> None:
        self.cumulative = loss_from_dict(data["cumulative"])


class OnBall(_Compact):
    """Linear and quadratic losses on the ball: exact draws by rejection (theory B6)."""

    method = "quadratic_ball"

    def __init__(self, game: Game, prior: Loss | None) -> None:
        from koloss.samplers.quadratic_ball import QuadraticBall

        super().__init__(game, prior)
        self.sampler = QuadraticBall()
        self.acceptance = 1.0

    def draw(self, eta: float, count: int, rng: Any) -> tuple[Any, None, None]:
        ball, potential = self.game.actions, self.potential(eta)
        assert isinstance(ball, Ball)
        if potential is None:
            return ball.sample(count, rng), None, None
        if isinstance(potential, QuadraticLoss):
            matrix, vector = to_numpy(potential.matrix), to_numpy(potential.vector)
        else:
            assert isinstance(potential, LinearLoss)
            vector = to_numpy(potential.vector)
            matrix = np.zeros((len(vector), len(vector)))
        draws = self.sampler.draw(-matrix, -vector, count, radius=ball.radius, rng=rng)
        self.acceptance = draws.acceptance
        return draws.points, None, None

    def facts(self) -> dict[str, Any]:
        return {"acceptance": self.acceptance}

    def to_dict(self) -> dict[str, Any]:
        return {
            **super().to_dict(),
            "sampler": self.sampler.to_dict(),
            "acceptance": self.acceptance,
        }

    @classmethod
    def from_dict(cls, game: Game, data: dict[str, Any]) -> OnBall:
        engine = cls(game, loss_from_dict(data["prior"]))
        engine._load(data)
        engine.sampler = type(engine.sampler).from_dict(data["sampler"])
        engine.acceptance = data["acceptance"]
        return engine


class OnBox(_Compact):
    """Losses whose coordinates are independent on a box: exact draws, one coordinate at a time."""

    method = "separable_box"

    def draw(self, eta: float, count: int, rng: Any) -> tuple[Any, None, None]:
        from koloss.samplers.box import separable_box

        box, potential = self.game.actions, self.potential(eta)
        assert isinstance(box, Box)
        if potential is None:
            return box.sample(count, rng), None, None
        slope = -to_numpy(potential.vector)  # type: ignore[attr-defined]
        curvature = 0 * slope
        if isinstance(potential, QuadraticLoss):
            curvature = -np.diagonal(to_numpy(potential.matrix))
        return separable_box(curvature, slope, box.lower, box.upper, count, rng=rng), None, None

    @classmethod
    def from_dict(cls, game: Game, data: dict[str, Any]) -> OnBox:
        engine = cls(game, loss_from_dict(data["prior"]))
        engine._load(data)
        return engine


class ByChains(_Compact):
    """Any losses on a compact set: particles that follow the density from round to round."""

    exact = False

    def __init__(self, game: Game, prior: Loss | None, particles: int, move: str) -> None:
        super().__init__(game, prior)
        self.size, self.move = particles, move
        self.method = f"particles, {move}"
        self.expansion: Expansion | None = None
        if game.family is KernelLoss:
            self.expansion = Expansion.empty(game.kernel, game.actions.dimension, size=game.radius)
        self.particles: Any = None
        self._at: tuple[float, int] | None = None  # η and losses heard, when they last moved
        self._heard = 0

    def add(self, loss: Loss, allowance: float) -> None:
        self._heard += 1
        if self.expansion is None:
            super().add(loss, allowance)
            return
        assert isinstance(loss, KernelLoss)
        self.expansion.add(loss, allowance)
        self.cumulative = self.expansion.loss

    def draw(self, eta: float, count: int, rng: Any) -> tuple[Any, None, None]:
        from koloss.samplers.particles import Particles

        if self.particles is None:
            self.particles = Particles(
                self.game.actions,  # type: ignore[arg-type]
                self.size,
                move=self.move,  # type: ignore[arg-type]
                rng=rng,
            )
        self.particles._rng = rng  # the learner's own, also after a snapshot
        potential = self.potential(eta)
        if potential is not None and self._at != (eta, self._heard):
            self.particles.follow(potential)
            self._at = eta, self._heard
        return self.particles.draw(count), None, None

    def facts(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if self.particles is not None:
            found = {
                "effective_size": self.particles.effective_size(),
                "resamplings": self.particles.resamplings,
                "restarts": self.particles.restarts,
            }
        if self.expansion is not None:
            found |= {"centers": len(self.expansion), "compression_error": self.expansion.spent}
        return found

    def to_dict(self) -> dict[str, Any]:
        return {
            **super().to_dict(),
            "cumulative": None if self.expansion is not None else loss_to_dict(self.cumulative),
            "size": self.size,
            "move": self.move,
            "expansion": None if self.expansion is None else self.expansion.to_dict(),
            "particles": None if self.particles is None else self.particles.to_dict(),
            "at": None if self._at is None else list(self._at),
            "heard": self._heard,
        }

    @classmethod
    def from_dict(cls, game: Game, data: dict[str, Any]) -> ByChains:
        from koloss.samplers.particles import Particles

        engine = cls(game, loss_from_dict(data["prior"]), data["size"], data["move"])
        engine._load(data)
        if data["expansion"] is not None:
            engine.expansion = Expansion.from_dict(game.kernel, data["expansion"])
            if len(engine.expansion):
                engine.cumulative = engine.expansion.loss
        if data["particles"] is not None:
            engine.particles = Particles.from_dict(data["particles"])
        engine._at = None if data["at"] is None else (data["at"][0], data["at"][1])
        engine._heard = data["heard"]
        return engine


ENGINES: dict[str, Any] = {engine.__name__: engine for engine in (Weights, OnBall, OnBox, ByChains)}
