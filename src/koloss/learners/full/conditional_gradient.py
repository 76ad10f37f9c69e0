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
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from koloss.actions import ActionSet
from koloss.core.snapshot import Extended, kept
from koloss.guarantees import Guarantee, leader, paper
from koloss.kernels import Kernel, Loss
from koloss.learners.base import Recommendation, refuse_extras
from koloss.learners.full.learner import FullDiagnostics, FullInformation, drawn
from koloss.learners.full.mixture import MeanAction, MeanOnPoints
from koloss.learners.full.settings import GradientSettings
from koloss.learners.ledger import Drawn
from koloss.learners.sharing import locked


@kept
class ConditionalGradient(FullInformation[GradientSettings]):
    """Online conditional gradient (Frank-Wolfe) with full information (Algorithm 3).

    Parameters
    ----------
    actions, kernel, horizon, loss_norm, rng
        As for `ExpWeights`; the horizon is needed.
    tuning : "sharp" or "paper"
        Origin-centred with constant steps, or the paper's box: centre Φ(a₁), η = n^(-3/4)/2, γ_t = min(1, 2/√t).
    first : array of shape (d,), optional
        a₁. By default the centre of a compact set, or the point of smallest norm in the RKHS.
    learning_rate, mixing_rate : float, optional
        η, and a constant γ, in place of the tuned ones.

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
    _eta: float
    _gamma: float
    _mean: MeanAction
    # What the bound needs to know of the steps so far.
    _height: float  # h_t: F_t(X_t) - min F_t is at most this
    _gap: Extended  # of the last step
    _certificate: str  # of the last vertex
    _certified: bool  # whether all vertices were global minima
    _tracking: float = 0.0  # Σ √h_s

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
        settings, game = self._start(locals())
        sharp = settings.tuning == "sharp"
        reach = game.radius if sharp else game.diameter
        self.problem = leader.LeaderProblem(
            settings.horizon, game.norm, reach or 1.0, game.diameter or 1.0
        )
        gamma, eta, height = self.problem.gradient_steps()
        if not sharp:
            gamma, eta = 0.0, paper.gradient_rate(settings.horizon)
        self._eta = settings.learning_rate or eta
        self._gamma = settings.mixing_rate or gamma  # zero for the paper's, which fall
        kind = MeanOnPoints if game.is_finite else MeanAction
        X = self._mean = kind(game, settings.first, centred=not sharp)
        if not game.is_finite:
            X.vertex(X.mean, 0)  # where there is no oracle, say so now
        start = X.warm_start(height, self._rng) if sharp else (0.0, "exhaustive")
        self._height, self._certificate = start
        self._gap, self._certified = self._height, self._certificate != "local only"

    # Algorithm 3.

    def _steps(self, first: int, count: int) -> Any:
        """γ_t of `count` rounds from the given one."""
        return np.full(count, self._gamma) if self._gamma else paper.gradient_steps(first, count)

    def _step(self, t: int) -> float:
        return float(self._steps(t, 1)[0])

    def _draw(self, count: int | None, context: Any, allowed: Any) -> tuple[None, Drawn]:
        refuse_extras(context, allowed)
        return drawn(count, *self._mean.draw(self._rng.random(count or 1)))

    def _learn_from(self, loss: Any, delay: int) -> None:
        X, t = self._mean, self.ledger.heard
        eta, gamma = self._eta, self._step(t)
        if delay:  # steps do not grow
            self._delay_cost += self.game.width * min(delay * self._step(t - delay), 1.0)
        # The step is by the losses before this one.
        gradient = X.gradient(eta, self._total)
        vertex = X.vertex(gradient, self._rng)
        gap = X.gap(gradient, vertex)
        X.move(gamma, vertex)
        self._add(loss)
        # The bound: what the gap proves, or what the recursion does.
        certified = vertex.certificate != "local only"
        h = min(self._height, gap) if certified else self._height
        error = vertex.gap if certified else 0.0
        self._tracking += math.sqrt(max(h, 0.0))
        self._height = self.problem.next_height(h, gamma, eta, error)
        self._gap, self._certificate = gap, vertex.certificate
        self._certified &= certified

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
        latest = self._mean.mixture.atoms[-1]
        return self._named(self.game.best(self._total, self.ledger.heard, near=latest))

    @property
    @locked
    def diagnostics(self) -> FullDiagnostics:
        return self._diagnosed(
            self._eta,
            mixing=self._step(self.ledger.heard + 1),
            atoms=self._mean.mixture.size,
            gap=self._gap,
            height=self._height,
            certificate=self._certificate,
        )

    # The bound: rounds played count with the gaps that were measured.

    def _proved(self, rounds: int) -> Guarantee:
        played = self._played()
        first, rest = played.heard + 1, max(rounds - played.heard, 0)
        ahead = self.problem.tracking(self._height, self._steps, first, rest, self._eta)
        return leader.proved(
            self.problem,
            self._eta,
            rounds,
            width=self.game.width,
            played=played,
            tracking=self._tracking + ahead,
            delay_cost=self._delay_cost,
            certified=self._certified,
            eigenvalue=self.game.eigenvalue,
        )

    def _printed(self, rounds: int) -> Guarantee | None:
        if self.settings.tuning == "sharp":
            return None
        norm, radius, width = self.game.norm, self.game.radius, self.game.width
        return paper.conditional_gradient(rounds, norm=norm, radius=radius, width=width)
