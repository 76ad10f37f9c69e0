"""Algorithm 3 of the paper: the online conditional gradient method in the RKHS.

The player keeps a mean action X_t in the convex hull of the features, and a distribution over actions with that mean.
In each round it plays a draw from it, is told the loss w_t, and makes one step towards the vertex that

    F_t(Y) = η Σ_{s<t} ⟨w_s, Y⟩ + ‖Y - c‖²

asks for: v_t = argmin_a ⟨∇F_t(X_t), Φ(a)⟩, X_{t+1} = (1 - γ_t) X_t + γ_t Φ(v_t). One linear minimisation a round,
by the oracle for the losses and the actions. Losses, never rewards: smaller is better.

Departures from the box, and why:

- c = 0 in place of X₁ = Φ(a₁), with constant steps and the corrected constants of theory A4: a smaller bound, and for
  posynomials the only choice that keeps every subproblem a posynomial (theory A5). X₁ is then the end of a warm start
  that needs no data: conditional-gradient steps on ‖Y‖² until its gap is small enough. `tuning="paper"` is the box.
- The distribution is the mixture of all vertices so far, as the paper remarks; old ones whose weights are below
  rounding are dropped.
- Late losses are used in the order in which they come; each costs at most GDγ for every other one heard before it.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from koloss._arrays import as_float, as_int, as_points, to_numpy
from koloss.actions import ActionSet, Ball, Points
from koloss.guarantees import Assumption, Guarantee
from koloss.guarantees.leader import LeaderProblem, paper_steps
from koloss.kernels import Kernel, KernelLoss, Loss, PosynomialLoss
from koloss.kernels.geometry import is_signed
from koloss.learners.full.learner import (
    FullInformation,
    Game,
    Recommendation,
    as_printed,
    loss_from_dict,
    loss_to_dict,
    start,
)
from koloss.learners.full.mixture import Mixture
from koloss.oracles.base import Minimum

WARM_LIMIT = 100_000
"""Most steps of the warm start; theory A4 asks for about 1.2 (D/ϱ) √n."""


@dataclass(frozen=True)
class Steps:
    """What was chosen once."""

    tuning: str
    learning_rate: float  # η
    mixing: float  # γ, zero for min(1, 2/√t)
    reach: float  # ϱ

    def gamma(self, t: int) -> float:
        """γ_t."""
        return self.mixing or min(1.0, 2 / math.sqrt(t))

    def gammas(self, first: int, count: int) -> Any:
        """γ_t of `count` rounds."""
        return np.full(count, self.mixing) if self.mixing else paper_steps(first, count)


@dataclass(frozen=True)
class GradientDiagnostics:
    """What an operator may want to see.

    Attributes
    ----------
    rounds, heard, outstanding, late : int
        Decisions made; losses heard; decisions not heard of; losses heard after younger ones.
    learning_rate, mixing : float
        η, and γ of the next step.
    atoms : int
        Actions in the mixture.
    gap : float
        Of the last step: an upper bound on F_t(X_t) - min F_t.
    certificate : str
        What the oracle said of its last minimum.
    """

    rounds: int
    heard: int
    outstanding: int
    late: int
    learning_rate: float
    mixing: float
    atoms: int
    gap: float
    certificate: str


class ConditionalGradient(FullInformation):
    """Online conditional gradient (Frank-Wolfe) with full information (Algorithm 3).

    Parameters
    ----------
    actions : ActionSet
        Points, a ball, a box or a positive ball.
    kernel : Kernel
        Whose RKHS the losses are in.
    horizon : int
        Number n of rounds.
    loss_norm : float, optional
        Largest RKHS norm G of a loss; by default 1, or 𝒢 = sup ‖Φ(a)‖ where that is larger.
    tuning : "sharp" or "paper"
        Origin-centred with constant steps, or the paper's box: centre Φ(a₁), η = n^(-3/4)/2, γ_t = min(1, 2/√t).
    first : array of shape (d,), optional
        a₁. By default the centre of a compact set, or the point of smallest norm in the RKHS.
    learning_rate, mixing_rate : float, optional
        η, and a constant γ, in place of the tuned ones.
    rng : seed or Generator, optional

    Examples
    --------
    >>> import numpy as np
    >>> import koloss as kl
    >>> learner = kl.ConditionalGradient(kl.Ball(3), kernel=kl.Quadratic(), horizon=400, rng=0)
    >>> saddle = kl.QuadraticLoss(np.diag([1.0, 0.0, -1.0]))
    >>> for _ in range(400):
    ...     decision = learner.ask()
    ...     learner.tell(decision, saddle)
    >>> print(learner.guarantee())
    Theorem A4 (conditional gradient): R_400 ≤ ...
    >>> float(saddle(learner.ask(100).action).mean()) < -0.5
    True
    """

    def __init__(
        self,
        actions: ActionSet,
        *,
        kernel: Kernel,
        horizon: int,
        loss_norm: float | None = None,
        tuning: Literal["sharp", "paper"] = "sharp",
        first: Any = None,
        learning_rate: float | None = None,
        mixing_rate: float | None = None,
        rng: Any = None,
    ) -> None:
        if not isinstance(kernel, Kernel):
            raise TypeError(f"`kernel` must be a Kernel, got {type(kernel).__name__}")
        if tuning not in ("sharp", "paper"):
            raise ValueError(f"`tuning` must be one of 'sharp', 'paper', got {tuning!r}")
        game = Game.of(actions, kernel, as_int("horizon", horizon, minimum=1), loss_norm, None)
        self._begin(*start(game, rng))
        atom = _first(game, first)
        sharp = tuning == "sharp"
        reach = game.radius if sharp else game.diameter
        problem = LeaderProblem(horizon, game.norm, reach or 1.0, game.diameter or 1.0)
        gamma, eta, height = problem.gradient_steps()
        if not sharp:
            gamma, eta = 0.0, 0.5 * horizon**-0.75
        if learning_rate is not None:
            eta = as_float("learning_rate", learning_rate, positive=True)
        if mixing_rate is not None:
            gamma = as_float("mixing_rate", mixing_rate, positive=True)
            if gamma > 1:
                raise ValueError(f"`mixing_rate` must be at most 1, got {gamma:.6g}")
        self._body: _OnPoints | _InFamily = (
            _OnPoints(game, atom, centred=not sharp)
            if isinstance(game.actions, Points)
            else _InFamily(game, atom, centred=not sharp)
        )
        if isinstance(self._body, _InFamily):
            self._body.vertex(self._body.mean, 0)  # where there is no oracle, say so now
        h, certificate = self._body.warm_start(height, self._rng) if sharp else (0.0, "exhaustive")
        self._steps = Steps(tuning, eta, gamma, reach)
        # Of the bound: h_t now, Σ √h_s so far, and what late losses have cost.
        self._height, self._tracking, self._delay_cost = h, 0.0, 0.0
        self._gap, self._certificate = h, certificate
        self._proved = certificate != "local only"

    # Algorithm 3.

    def _draw(self, count: int) -> tuple[Any, Any, Any]:
        return self._body.draw(self._rng.random(count))

    def _understand(self, loss: Any) -> Any:
        return self._body.understand(self.game.element(loss))

    def _hear(self, loss: Any, delay: int) -> None:
        eta, gamma = self._steps.learning_rate, self._steps.gamma(self._tally.heard)
        if delay:
            first = self._steps.gamma(self._tally.heard - delay)  # steps do not grow
            self._delay_cost += self.game.width * min(delay * first, 1.0)
        vertex, gap = self._body.step(eta, gamma, self._rng)  # by the losses before this one
        self._body.add(loss)
        # The bound: what the gap proves, or what the recursion does.
        certified = vertex.certificate != "local only"
        self._proved &= certified
        h = min(self._height, gap) if certified else self._height
        self._tracking += math.sqrt(max(h, 0.0))
        error = vertex.gap if certified else 0.0
        self._height = self._problem.next_height(h, gamma, eta, error)
        self._gap, self._certificate = gap, vertex.certificate

    # What it knows.

    @property
    def mean(self) -> Loss:
        """X, the mean action as an element of the RKHS."""
        return self._body.mean_element()

    @property
    def mixture(self) -> tuple[Any, Any]:
        """The actions that may be played next, and their probabilities."""
        return self._body.actions_of(self._body.mixture.atoms), self._body.mixture.weights

    @property
    def distribution(self) -> Any:
        """Probability of every point of a finite set in the next `ask()`."""
        if not isinstance(self._body, _OnPoints):
            raise TypeError("`distribution` is for finite sets; a compact one has `mixture`")
        return self._body.p.copy()

    def recommend(self) -> Recommendation:
        """The best action so far by the losses heard."""
        return self._body.best(max(self._tally.heard, 1))

    @property
    def diagnostics(self) -> GradientDiagnostics:
        """What an operator may want to see."""
        return GradientDiagnostics(
            rounds=self._tally.made,
            heard=self._tally.heard,
            outstanding=len(self._outstanding),
            late=self._tally.late,
            learning_rate=self._steps.learning_rate,
            mixing=self._steps.gamma(self._tally.heard + 1),
            atoms=self._body.mixture.size,
            gap=self._gap,
            certificate=self._certificate,
        )

    # The bound.

    @property
    def _problem(self) -> LeaderProblem:
        game = self.game
        assert game.horizon is not None
        return LeaderProblem(
            game.horizon, game.norm, self._steps.reach or 1.0, game.diameter or 1.0
        )

    def guarantee(self, *, rounds: int | None = None, printed: bool | None = None) -> Guarantee:
        """The regret bound, term by term; rounds played count with the gaps that were measured.

        Parameters
        ----------
        rounds : int, optional
            After so many rounds; by default the horizon.
        printed : bool, optional
            With the paper's tuning: the bound as the paper prints it (the default), or what is proved for
            the same parameters.
        """
        game, tally, steps = self.game, self._tally, self._steps
        n = self._rounds(rounds)
        if as_printed(printed, steps.tuning):
            return self._as_printed(n)
        rest = steps.gammas(tally.heard + 1, max(n - tally.heard, 0))
        problem = self._problem
        tracking = self._tracking + problem.tracking(self._height, rest, steps.learning_rate)
        terms = problem.terms(steps.learning_rate, n)
        terms["tracking"] = game.norm * tracking
        terms["delay"] = self._delay_cost
        terms["unheard"] = game.width * len(self._outstanding)
        return Guarantee(
            "Theorem A4 (conditional gradient)",
            n,
            terms,
            game.width * n,
            (
                *self._assumptions(n),
                Assumption(
                    "every vertex is a global minimum",
                    True if self._proved and tally.heard else None,
                ),
            ),
            notes=self._notes(),
        )

    def _as_printed(self, n: int) -> Guarantee:
        return Guarantee(
            "The paper's Theorem 15, as printed",
            n,
            {"regret": 8 * self.game.radius**2 * n**0.75},
            self.game.width * n,
            (
                Assumption(
                    "losses have norm at most sup ‖Φ(a)‖",
                    self.game.norm <= self.game.radius * (1 + 1e-9),
                ),
                Assumption("F is 1-smooth and the features have diameter 𝒢 (false)", False),
            ),
            proved=False,
            notes=("guarantee(printed=False) gives what is proved for the same parameters",),
        )

    # Snapshots.

    def _state(self) -> dict[str, Any]:
        return {
            "steps": asdict(self._steps),
            "body": self._body.to_dict(),
            "height": self._height,
            "tracking": self._tracking,
            "delay_cost": self._delay_cost,
            "gap": self._gap,
            "certificate": self._certificate,
            "proved": self._proved,
        }

    def _load(self, data: dict[str, Any]) -> None:
        self._steps = Steps(**data["steps"])
        kind = _OnPoints if isinstance(self.game.actions, Points) else _InFamily
        self._body = kind.from_dict(self.game, data["body"])
        self._height, self._tracking = data["height"], data["tracking"]
        self._delay_cost, self._gap = data["delay_cost"], data["gap"]
        self._certificate, self._proved = data["certificate"], data["proved"]


# The mean action, its mixture and the step, on points and elsewhere.


class _OnPoints:
    """Elements of the RKHS as their values on N points: O(N) a round, one column of the kernel."""

    def __init__(self, game: Game, atom: int, *, centred: bool) -> None:
        assert isinstance(game.actions, Points)
        self.game, self.X = game, to_numpy(game.actions.X)
        self.mixture = Mixture.of(np.asarray([atom]))
        self.p = np.zeros(len(self.X))
        self.p[atom] = 1.0
        self.mean = self._column(atom)
        self.centre = self.mean.copy() if centred else np.zeros(len(self.X))
        self.cumulative = np.zeros(len(self.X))

    def _column(self, i: int) -> Any:
        return to_numpy(self.game.kernel(self.X, self.X[i : i + 1]))[:, 0]

    def understand(self, loss: Loss) -> Any:
        return to_numpy(loss(self.X))

    def add(self, values: Any) -> None:
        self.cumulative = self.cumulative + values

    def vertex(self, gradient: Any) -> Minimum:
        i = int(np.argmin(gradient))
        return Minimum(self.X[i], float(gradient[i]), 0.0, "exhaustive", index=i)

    def step(self, eta: float, gamma: float, rng: Any) -> tuple[Minimum, float]:
        gradient = eta * self.cumulative + 2 * (self.mean - self.centre)
        vertex = self.vertex(gradient)
        gap = float(self.p @ gradient) - vertex.value
        self._move(gamma, vertex.index)
        return vertex, max(gap, 0.0)

    def _move(self, gamma: float, i: Any) -> None:
        self.mean = (1 - gamma) * self.mean + gamma * self._column(i)
        self.p = (1 - gamma) * self.p
        self.p[i] += gamma
        self.mixture.mix(gamma, i)

    def warm_start(self, height: float, rng: Any) -> tuple[float, str]:
        """Steps on ‖Y‖² with exact line search, until the gap is at most h̄; the gap, and what proves it."""
        diagonal = to_numpy(self.game.kernel.diag(self.X))
        for _ in range(WARM_LIMIT):
            i = int(np.argmin(self.mean))
            square = float(self.p @ self.mean)
            gap = 2 * (square - float(self.mean[i]))
            distance = square - 2 * float(self.mean[i]) + float(diagonal[i])
            if gap <= height or distance <= 0:  # zero by rounding, where points are almost equal
                break
            self._move(min(1.0, gap / (2 * distance)), i)
        return max(gap, 0.0), "exhaustive"

    def draw(self, uniform: Any) -> tuple[Any, Any, Any]:
        index = self.mixture.atoms[self.mixture.draw(uniform)]
        return self.X[index], index, self.p[index]

    def actions_of(self, atoms: Any) -> Any:
        return self.X[atoms]

    def mean_element(self) -> Loss:
        found: Loss = self.game.kernel.embed(self.X[self.p > 0], self.p[self.p > 0])
        return found

    def best(self, heard: int) -> Recommendation:
        i = int(np.argmin(self.cumulative))
        return Recommendation(i, self.X[i], float(self.cumulative[i]) / heard, "exhaustive")

    def to_dict(self) -> dict[str, Any]:
        arrays = {
            name: getattr(self, name).copy() for name in ("p", "mean", "centre", "cumulative")
        }
        return {"mixture": self.mixture.to_dict(), **arrays}

    @classmethod
    def from_dict(cls, game: Game, data: dict[str, Any]) -> _OnPoints:
        body = cls(game, 0, centred=False)
        body.mixture = Mixture.from_dict(data["mixture"])
        for name in ("p", "mean", "centre", "cumulative"):
            setattr(body, name, np.array(data[name]))
        return body


class _InFamily:
    """Elements of the RKHS as losses of the game's family: a matrix and a vector, coefficients, an expansion."""

    def __init__(self, game: Game, atom: Any, *, centred: bool) -> None:
        self.game = game
        self.mixture = Mixture.of(np.asarray(atom)[None])
        self.mean: Loss = game.kernel.embed(atom)
        self.centre: Loss = self.mean if centred else 0.0 * self.mean
        self.cumulative: Loss | None = None
        self._program: Any = None

    def understand(self, loss: Loss) -> Loss:
        return loss

    def add(self, loss: Loss) -> None:
        self.cumulative = loss if self.cumulative is None else self.cumulative + loss

    def vertex(self, gradient: Loss, rng: Any) -> Minimum:
        from koloss.oracles import GeometricProgram, minimize

        kernel, actions = self.game.kernel, self.game.actions
        if (
            isinstance(gradient, PosynomialLoss)
            and gradient.is_posynomial
            and not is_signed(actions)
        ):
            if self._program is None:  # set up once, solved again every round
                self._program = GeometricProgram(kernel, actions)  # type: ignore[arg-type]
            found: Minimum = self._program.minimize(
                gradient.coefficients, start=self.mixture.atoms[-1]
            )
            return found
        return minimize(gradient, actions, rng=rng)

    def step(self, eta: float, gamma: float, rng: Any) -> tuple[Minimum, float]:
        gradient = 2.0 * (self.mean - self.centre)
        if self.cumulative is not None:
            gradient = gradient + eta * self.cumulative
        vertex = self.vertex(gradient, rng)
        gap = math.inf
        if vertex.certificate != "local only":
            gap = max(gradient.inner(self.mean) - vertex.lower_bound, 0.0)
        self._move(gamma, vertex.point)
        return vertex, gap

    def _move(self, gamma: float, point: Any) -> None:
        self.mean = (1 - gamma) * self.mean + gamma * self.game.kernel.embed(point)
        self.mixture.mix(gamma, point)
        if isinstance(self.mean, KernelLoss):  # its centres are the atoms: drop with them
            self.mean = self.game.kernel.embed(self.mixture.atoms, self.mixture.weights)

    def warm_start(self, height: float, rng: Any) -> tuple[float, str]:
        """Steps on ‖Y‖² with exact line search, until the gap is at most h̄; the gap, and what proves it."""
        for _ in range(WARM_LIMIT):
            square = self.mean.inner(self.mean)
            if square <= height:  # min ‖Y‖² is not negative
                return square, "dual"
            vertex = self.vertex(2.0 * self.mean, rng)
            gap = 2 * square - vertex.value
            step = self.game.kernel.embed(vertex.point) - self.mean
            distance = step.inner(step)
            if gap <= height or distance <= 0:  # zero by rounding, where features are almost equal
                break
            self._move(min(1.0, gap / (2 * distance)), vertex.point)
        error = vertex.gap if vertex.certificate != "local only" else 0.0
        return max(gap + error, 0.0), vertex.certificate

    def draw(self, uniform: Any) -> tuple[Any, None, None]:
        return self.mixture.atoms[self.mixture.draw(uniform)].copy(), None, None

    def actions_of(self, atoms: Any) -> Any:
        return atoms.copy()

    def mean_element(self) -> Loss:
        return self.mean

    def best(self, heard: int) -> Recommendation:
        if self.cumulative is None:
            return Recommendation(None, self.mixture.atoms[-1].copy(), 0.0, "exhaustive")
        found = self.vertex(self.cumulative, 0)
        return Recommendation(None, found.point, found.value / heard, found.certificate)

    def to_dict(self) -> dict[str, Any]:
        return {
            "mixture": self.mixture.to_dict(),
            "mean": loss_to_dict(self.mean),
            "centre": loss_to_dict(self.centre),
            "cumulative": loss_to_dict(self.cumulative),
        }

    @classmethod
    def from_dict(cls, game: Game, data: dict[str, Any]) -> _InFamily:
        mixture = Mixture.from_dict(data["mixture"])
        body = cls(game, mixture.atoms[0], centred=False)
        body.mixture = mixture
        body.mean, body.centre = loss_from_dict(data["mean"]), loss_from_dict(data["centre"])
        body.cumulative = loss_from_dict(data["cumulative"])
        return body


def _first(game: Game, first: Any) -> Any:
    """a₁: a row of the points, or a point of a compact set."""
    actions = game.actions
    if isinstance(actions, Points):
        X = to_numpy(actions.X)
        if first is None:
            return int(np.argmin(to_numpy(game.kernel.diag(X))))
        point = to_numpy(as_points("first", [first], dimension=actions.dimension))
        distance = np.linalg.norm(X - point, axis=1)
        if not actions.contains(point)[0]:
            raise ValueError(f"`first` must be an action, got {point[0].tolist()}")
        return int(np.argmin(distance))
    if first is None:
        if isinstance(actions, Ball):
            return np.zeros(actions.dimension)
        middle = (np.asarray(actions.lower) + np.asarray(actions.upper)) / 2  # type: ignore[attr-defined]
        return actions.project(middle[None])[0]  # type: ignore[attr-defined]
    point = to_numpy(as_points("first", [first], dimension=actions.dimension)).astype(float)
    if not actions.contains(point)[0]:
        raise ValueError(f"`first` must be an action, got {point[0].tolist()}")
    return point[0]
