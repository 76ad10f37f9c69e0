"""Algorithm 3 of the paper: the online conditional gradient method in the RKHS.

The player keeps a mean action X_t in the convex hull of the features, and a distribution over actions with that mean.
In each round it plays a draw from it, is told the loss w_t, and makes one step towards the vertex that

    F_t(Y) = η Σ_{s<t} ⟨w_s, Y⟩ + ‖Y - c‖²

asks for: v_t = argmin_a ⟨∇F_t(X_t), Φ(a)⟩, X_{t+1} = (1 - γ_t) X_t + γ_t Φ(v_t). One linear minimisation per round,
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
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from koloss.actions import ActionSet
from koloss.core.snapshot import Extended, kept
from koloss.guarantees import Guarantee, leader, paper
from koloss.kernels import Kernel, Loss
from koloss.learners.base import Recommendation, refuse_extras
from koloss.learners.full.learner import FullDiagnostics, FullInformation, Game, drawn
from koloss.learners.full.mixture import InFamily, MeanOnPoints
from koloss.learners.full.settings import GradientSettings
from koloss.learners.ledger import Drawn
from koloss.learners.sharing import locked


@dataclass(frozen=True)
class GradientDiagnostics(FullDiagnostics):
    """What an operator may want to see."""

    mixing: float  # γ of the next step
    atoms: int  # actions in the mixture
    gap: Extended  # of the last step: an upper bound on F_t(X_t) - min F_t
    height: float  # what the bound allows of the next one
    certificate: str  # what the oracle said of its last minimum


@kept
@dataclass
class Progress:
    """What the bound needs to know of the steps so far."""

    height: float  # h_t: F_t(X_t) - min F_t is at most this
    gap: Extended  # of the last step
    certificate: str  # of the last vertex
    certified: bool  # whether all vertices were global minima
    tracking: float = 0.0  # Σ √h_s
    delay_cost: float = 0.0  # what late losses have cost


@kept
class ConditionalGradient(FullInformation[GradientSettings]):
    """Online conditional gradient (Frank-Wolfe) with full information (Algorithm 3).

    Parameters
    ----------
    actions : ActionSet
        Points, a `Space`, of which `points()` are played, a ball, a box or a positive ball.
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
    >>> learner = kl.ConditionalGradient(kl.Ball(3), kl.Quadratic(), horizon=400, rng=0)
    >>> saddle = kl.QuadraticLoss(np.diag([1.0, 0.0, -1.0]))
    >>> for _ in range(400):
    ...     decision = learner.ask()
    ...     learner.tell(decision, saddle)
    >>> print(learner.guarantee())
    Over 400 rounds the learner loses on average at most ...
    Theorem A4 (conditional gradient): E H_400 ≤ ...
    >>> float(saddle(learner.ask(100).action).mean()) < -0.5
    True
    """

    settings_type = GradientSettings

    settings: GradientSettings
    problem: leader.LeaderProblem
    _sharp: bool
    _height: float
    _eta: float
    _gamma: float
    _mean: MeanOnPoints | InFamily
    _progress: Progress

    def __init__(
        self,
        actions: ActionSet,
        kernel: Kernel,
        *,
        horizon: int,
        loss_norm: float | None = None,
        tuning: Literal["sharp", "paper"] = "sharp",
        first: Any = None,
        learning_rate: float | None = None,
        mixing_rate: float | None = None,
        rng: Any = None,
    ) -> None:
        self._start(locals())
        mean, height, certificate = self._mean, 0.0, "exhaustive"
        if not self.game.is_finite:
            mean.vertex(mean.mean, 0)  # where there is no oracle, say so now
        if self._sharp:
            height, certificate = mean.warm_start(self._height, self._rng)
        self._progress = Progress(height, height, certificate, certificate != "local only")

    def _prepare(self, game: Game) -> None:
        settings, self.game = self.settings, game
        n = settings.horizon
        assert n is not None
        self._sharp = settings.tuning == "sharp"
        reach = game.radius if self._sharp else game.diameter
        self.problem = leader.LeaderProblem(n, game.norm, reach or 1.0, game.diameter or 1.0)
        gamma, eta, self._height = self.problem.gradient_steps()
        if not self._sharp:
            gamma, eta = 0.0, paper.gradient_rate(n)
        self._eta = settings.learning_rate or eta
        self._gamma = settings.mixing_rate or gamma  # zero for the paper's, which fall
        kind = MeanOnPoints if game.is_finite else InFamily
        self._mean = kind(game, settings.first, centred=not self._sharp)

    # Algorithm 3.

    def _steps(self, first: int, count: int) -> Any:
        """γ_t of `count` rounds from the given one."""
        return np.full(count, self._gamma) if self._gamma else paper.gradient_steps(first, count)

    def _step(self, t: int) -> float:
        return float(self._steps(t, 1)[0])

    def _draw(self, count: int | None, context: Any, allowed: Any) -> tuple[None, Drawn]:
        refuse_extras(context, allowed)
        return drawn(count, *self._mean.draw(self._rng.random(count or 1)))

    def _read_one(self, loss: Any) -> Any:
        return self._mean.read(self.game.element(loss))

    def _learn_from(self, loss: Any, delay: int) -> None:
        X, progress, t = self._mean, self._progress, self.ledger.heard
        eta, gamma = self._eta, self._step(t)
        if delay:  # steps do not grow
            progress.delay_cost += self.game.width * min(delay * self._step(t - delay), 1.0)
        # The step is by the losses before this one.
        gradient = X.gradient(eta)
        vertex = X.vertex(gradient, self._rng)
        gap = X.gap(gradient, vertex)
        X.move(gamma, vertex)
        X.add(loss)
        # The bound: what the gap proves, or what the recursion does.
        certified = vertex.certificate != "local only"
        h = min(progress.height, gap) if certified else progress.height
        error = vertex.gap if certified else 0.0
        progress.tracking += math.sqrt(max(h, 0.0))
        progress.height = self.problem.next_height(h, gamma, eta, error)
        progress.gap, progress.certificate = gap, vertex.certificate
        progress.certified &= certified

    # What it knows.

    @property
    @locked
    def mean(self) -> Loss:
        """X, the mean action as an element of the RKHS."""
        return self._mean.element()

    @property
    @locked
    def mixture(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The actions that may be played next, and their probabilities."""
        return self._mean.atoms(), self._mean.mixture.weights

    @property
    @locked
    def distribution(self) -> NDArray[np.float64]:
        return (
            np.array(self._mean.p) if isinstance(self._mean, MeanOnPoints) else super().distribution
        )

    def _peek(self, rng: np.random.Generator, count: int) -> tuple[NDArray[Any], NDArray[Any]]:
        return self.mixture

    @locked
    def recommend(self) -> Recommendation:
        return self._named(self._mean.best(self.ledger.heard))

    @property
    @locked
    def diagnostics(self) -> GradientDiagnostics:
        return GradientDiagnostics(
            **self._counts(),
            learning_rate=self._eta,
            mixing=self._step(self.ledger.heard + 1),
            atoms=self._mean.mixture.size,
            gap=self._progress.gap,
            height=self._progress.height,
            certificate=self._progress.certificate,
        )

    # The bound: rounds played count with the gaps that were measured.

    def _proved(self, rounds: int) -> Guarantee:
        played, progress = self._played(), self._progress
        first, rest = played.heard + 1, max(rounds - played.heard, 0)
        ahead = self.problem.tracking(progress.height, self._steps, first, rest, self._eta)
        return leader.proved(
            self.problem,
            self._eta,
            rounds,
            width=self.game.width,
            played=played,
            tracking=progress.tracking + ahead,
            delay_cost=progress.delay_cost,
            certified=progress.certified,
            eigenvalue=self.game.eigenvalue,
        )

    def _printed(self, rounds: int) -> Guarantee | None:
        if self._sharp:
            return None
        norm, radius, width = self.game.norm, self.game.radius, self.game.width
        return paper.conditional_gradient(rounds, norm=norm, radius=radius, width=width)
