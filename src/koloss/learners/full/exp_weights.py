"""Algorithm 2 of the paper: exponential weights with full information.

In each round the player draws an action from

    p_t(a) ∝ p₁(a) exp(-η S_{t-1}(a)),   S_{t-1} = Σ_{s<t} ℓ_s,

and is then told the whole loss function ℓ_t. Losses, never rewards: smaller is better.

Departures from the box, and why:

- The state is the cumulative loss S in the losses' own form (a vector, a matrix, an expansion), not a density.
- η = √(8E/n)/ρ with E = log N on N points and about d log n on a compact set, in place of the paper's
  √(log vol/(e - 2))/(𝒢²√n): the volume depends on the unit of length, and where it is at most one the paper's
  statement is false (theory A2). ρ is the range of a loss.
- Draws are exact on points, for linear and quadratic losses on the ball and for linear losses on a box, where the
  paper's sampler is wrong (theory A1, B6); by a population of particles elsewhere.
- Losses may come late and in any order; each costs ηρ²/4 for every other loss heard before it.
"""

from __future__ import annotations

import copy
import math
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from koloss.actions import ActionSet, Box, Points
from koloss.core.arrays import as_points, to_numpy
from koloss.core.snapshot import kept
from koloss.guarantees import Guarantee, paper, promises
from koloss.guarantees.full import Compression, FullProblem, equally_good, exp_weights, tune
from koloss.kernels import KernelLike, Loss
from koloss.learners.base import Recommendation, refuse_extras
from koloss.learners.full.expansion import Expansion
from koloss.learners.full.learner import (
    FullDiagnostics,
    FullInformation,
    Game,
    drawn,
)
from koloss.learners.full.settings import ExpWeightsSettings
from koloss.learners.ledger import Drawn
from koloss.learners.sharing import locked


@kept
class ExpWeights(FullInformation[ExpWeightsSettings]):
    """Exponential weights with full information (Algorithm 2): the loss told is the whole function.

    Parameters
    ----------
    actions : ActionSet
        Points, a `Space`, of which `points()` are played, a ball, a box or a positive ball.
    kernel : Kernel
        Whose RKHS the losses are in: `Linear` with `LinearLoss`, `Quadratic` with `QuadraticLoss`, `Posynomial`
        with `PosynomialLoss`, any other with `KernelLoss`. On points any object with `k(X, Y)` and
        `k.diag(X)`.
    horizon : int or None
        Number n of rounds; None for rates that need no horizon (√2 times the bound).
    loss_norm : float, optional
        Largest RKHS norm of a loss; by default 1, or 𝒢 = sup ‖Φ(a)‖ where that is larger.
    loss_range : (float, float) or "learn", optional
        One interval that holds all losses of all rounds. By default the range ρ of a loss follows from its
        norm. With "learn", on points, nothing is said of the size of losses: the largest range of a loss heard so far takes the
        place of ρ, and the guarantee is a multiple of the largest of all.
    prior : array of shape (N,) or Loss, optional
        First distribution: probabilities on points; on a compact set a loss of the game's family, of density
        ∝ exp(-prior). Uniform by default.
    tuning : "sharp" or "paper"
        The rate that minimises the proved bound, or the one of the paper's theorem.
    delay : int
        Tune for losses that come after up to so many others.
    learning_rate : float, optional
        η, in place of the tuned one.
    particles : int
        Size of the population where draws are not exact.
    move : "hit-and-run" or "diffusion"
        How Markov chains move that population: along random chords, or by the paper's diffusion (Langevin steps
        with the Metropolis rule), which needs losses with a gradient.
    compression : float
        Share of the bound that may be spent on keeping sums of kernel expansions short on a compact set; zero
        keeps every centre.
    rng : seed or Generator, optional

    Examples
    --------
    >>> import numpy as np
    >>> import koloss as kl
    >>> learner = kl.ExpWeights(kl.Ball(3), kl.Quadratic(), horizon=500, rng=0)
    >>> saddle = kl.QuadraticLoss(np.diag([1.0, 0.0, -1.0]) / 2)
    >>> for _ in range(500):
    ...     decision = learner.ask()
    ...     learner.tell(decision, saddle)
    >>> np.abs(learner.recommend().action).round(6).tolist()
    [0.0, 0.0, 1.0]
    >>> print(learner.guarantee())
    Over 500 rounds the learner loses on average at most ...
    Theorem A2(ii) (compact set): E H_500 ≤ ...
    """

    settings_type = ExpWeightsSettings

    settings: ExpWeightsSettings
    problem: FullProblem
    _prior: Any  # -log p₁
    _expansion: Expansion | None  # S, where it is compressed
    _sampler: Any
    _said: dict[str, float]  # by the paper's theorem
    _eta: float | None  # None without a horizon, where it changes with time
    _allowance: float = 0.0  # error that compression may make of a loss
    _heard_width: float = 0.0  # largest range of a loss heard
    _masked: int = 0  # decisions made among some of the actions

    def __init__(
        self,
        actions: ActionSet,
        kernel: KernelLike,
        *,
        horizon: int | None,
        loss_norm: float | None = None,
        loss_range: tuple[float, float] | Literal["learn"] | None = None,
        prior: Any = None,
        tuning: Literal["sharp", "paper"] = "sharp",
        delay: int = 0,
        learning_rate: float | None = None,
        particles: int = 256,
        move: Literal["hit-and-run", "diffusion"] = "hit-and-run",
        compression: float = 0.01,
        rng: Any = None,
    ) -> None:
        settings, game = self._start(locals())
        from koloss.samplers.lookup import sampler_for  # which takes its time to load

        n, dimension = settings.horizon, _dimension(game.actions)
        self._prior, varies = _prior(game, settings.prior)
        size, move = settings.particles, settings.move
        self._sampler = sampler_for(game.kernel, game.actions, particles=size, move=move)
        self._expansion = None
        if not self._sampler.exact and game.kernel.loss_family.is_expansion:
            self._expansion = Expansion.empty(game.kernel, game.actions.dimension, size=game.radius)
        self.problem = FullProblem(n or 1, game.width, varies, dimension, settings.delay)
        self._said, self._eta = {}, None
        if n is not None:
            self._tune(n)

    def _tune(self, n: int) -> None:
        settings, problem = self.settings, self.problem
        if settings.tuning == "paper":
            volume = _log_volume(self.game.actions)
            self._said = paper.exp_weights_theorem(n, volume, self.game.radius**2)
        eta = settings.learning_rate or self._said.get("learning_rate")
        if eta is None:
            eta = 1.0 if problem.is_trivial else tune(problem, self._excess)
        self._eta = eta
        if settings.compression > 0 and self._expansion is not None:
            base = sum(problem.best_terms(eta, self._excess, n).values())
            self._allowance = settings.compression * min(base, self.game.width * n) / (2 * n)

    # Algorithm 2.

    @property
    def learning_rate(self) -> float:
        """η of the next decision."""
        problem, eta = self.problem, self._eta
        if eta is None:
            eta = 1.0 if problem.is_trivial else problem.anytime_rate(self.ledger.heard + 1)
        if not self.game.learned:
            return eta
        return eta / self._heard_width if self._heard_width > 0 else 1.0  # all were equally good

    @property
    def _losses(self) -> Any:
        """S."""
        expansion = self._expansion
        if expansion is None:
            return self._total
        return expansion.loss if len(expansion) else None

    def _potential(self) -> Any:
        """ηS - log p₁: the density of the next action is exp(-potential). None for zero."""
        total = self._losses
        if total is None:
            return self._prior
        scaled = self.learning_rate * total
        return scaled if self._prior is None else scaled + self._prior

    def _current_sampler(self) -> Any:
        """The sampler, after it has heard of the newest losses."""
        if self._sampler.stale:
            self._sampler.follow(self._potential(), self._rng)
            self._sampler.stale = False
        return self._sampler

    def _draw(self, count: int | None, context: Any, allowed: Any) -> tuple[None, Drawn]:
        refuse_extras(context, None)
        mask = None if allowed is None else self._allowed(allowed)
        if mask is not None:
            return self._draw_among(mask, count)
        sampler = self._current_sampler()
        draws = sampler.draw(count or 1, self._rng)
        if self.game.is_finite:
            return drawn(count, self.game.points[draws], draws, sampler.p[draws])
        return drawn(count, draws)

    def _draw_among(self, mask: Any, count: int | None) -> tuple[None, Drawn]:
        """The same weights, of the actions that are allowed."""
        potential = self._potential()
        from koloss.samplers.categorical import categorical

        logs = np.where(mask, 0.0 if potential is None else -potential, -np.inf)
        draws = categorical(logs, count or 1, rng=self._rng)
        weights = np.exp(logs - logs.max())
        self._masked += count or 1
        return drawn(count, self.game.points[draws], draws, (weights / weights.sum())[draws])

    def _read_one(self, loss: Any) -> Any:
        return self.game.values(loss) if self.game.is_finite else self.game.element(loss)

    def _learn_from(self, loss: Any, delay: int) -> None:
        t = self.ledger.heard  # this loss included: η was the rate before it
        if delay:
            self._delay_cost += delay * self.problem.late_rate(self._eta, t - delay)
        if self._expansion is not None:
            self._expansion.add(loss, self._error_allowed(t))
        else:
            self._add(loss)
        if self.game.learned:
            self._heard_width = max(self._heard_width, float(np.ptp(loss)))
        self._sampler.stale = True

    def _error_allowed(self, t: int) -> float:
        """What compression may change the t-th loss by."""
        if self._eta is not None:
            return self._allowance
        E = self.problem.complexity(1 / (t + 1))
        return self.settings.compression * self.game.width * math.sqrt(E / t) / 4

    # What it knows.

    @property
    @locked
    def distribution(self) -> NDArray[np.float64]:
        if not self.game.is_finite:
            return super().distribution
        p: NDArray[np.float64] = self._current_sampler().p.copy()
        return p

    @locked
    def log_density(self, X: Any) -> NDArray[np.float64]:
        """Logarithm of the next decision's density at rows of a compact set, up to a constant: -ηS + log prior."""
        if self.game.is_finite:
            raise TypeError("`log_density` is for compact sets; a finite one has `distribution`")
        X = to_numpy(as_points("X", X, dimension=self.game.actions.dimension))
        potential = self._potential()
        return np.zeros(len(X)) if potential is None else -to_numpy(potential(X))

    def _peek(self, rng: np.random.Generator, count: int) -> tuple[NDArray[Any], NDArray[Any]]:
        if self.game.is_finite:
            return self.actions, self.distribution
        sampler = copy.deepcopy(self._sampler)
        if sampler.stale:
            sampler.follow(self._potential(), rng)
        return sampler.draw(count, rng), np.full(count, 1 / count)

    @locked
    def recommend(self) -> Recommendation:
        return self._named(self.game.best(self._losses, self.ledger.heard))

    @property
    @locked
    def diagnostics(self) -> FullDiagnostics:
        entropy = None
        if self.game.is_finite:
            p = self.distribution
            entropy = float(-np.sum(p[p > 0] * np.log(p[p > 0])))
        sampling = self._sampler.facts()
        expansion = self._expansion
        if expansion is not None:
            sampling |= {"centers": len(expansion), "compression_error": expansion.spent}
        return self._diagnosed(
            self.learning_rate,
            sampler=self._sampler.method,
            entropy=entropy,
            sampling=sampling,
        )

    # The bound.

    def _excess(self, delta: float) -> float:
        """How much worse than the best action those of A_δ can be, per round (theory A2)."""
        game = self.game
        if game.is_finite:
            return 0.0
        length = delta * game.actions.diameter()
        moved = game.norm * float(game.kernel.modulus(length, game.actions))
        return min(moved, delta * game.width) if game.kernel.loss_family.is_convex else moved

    def _proved(self, rounds: int) -> Guarantee:
        game, settings = self.game, self.settings
        promise = exp_weights(
            self.problem,
            self._excess,
            rounds,
            eta=self._eta,
            norm=game.norm,
            horizon=settings.horizon,
            played=self._played(),
            delay_cost=self._delay_cost,
            compression=self._compression(),
            finite=game.is_finite,
            promised=game.low is not None,
            exact=self._sampler.exact,
            heard_width=self._heard_width if game.learned else None,
        )
        return promises.masked(promise, self._masked) if self._masked else promise

    def _compression(self) -> Compression:
        expansion, share = self._expansion, self.settings.compression
        if expansion is None or share == 0:
            return Compression()
        done = self.ledger.heard - expansion.pending
        return Compression(expansion.spent, self._allowance, share, done)

    def _printed(self, rounds: int) -> Guarantee | None:
        if not self._said:
            return None
        if self.problem.is_trivial:
            return equally_good(rounds)
        return paper.exp_weights(self._said, rounds, self.game.width)

    @classmethod
    def _know_all(cls) -> None:
        from koloss.samplers import lookup  # noqa: F401


def _prior(game: Game, prior: Any) -> tuple[Any, float]:
    """-log p₁, None where it is uniform on a compact set, and log(1/p₁) or how far that varies, at most."""
    if game.is_finite:
        N = len(game.points)
        potential = np.full(N, np.log(N)) if prior is None else -np.log(prior)
        return potential, float(potential.max())
    if prior is None:
        return None, 0.0
    scale = max(prior.norm(), 1e-300)
    loss: Loss = game.element(prior * (game.norm / scale)) * (scale / game.norm)
    return loss, loss.norm() * game.diameter


def _dimension(actions: ActionSet) -> int:
    """Of the affine hull of a compact set; zero for a finite one."""
    if isinstance(actions, Points):
        return 0
    if isinstance(actions, Box):
        return int(np.sum(np.asarray(actions.upper) > np.asarray(actions.lower)))
    return actions.dimension


def _log_volume(actions: ActionSet) -> float:
    """log vol(A), counting points."""
    if isinstance(actions, Points):
        return math.log(len(actions))
    volume = float(actions.volume())  # type: ignore[attr-defined]
    return math.log(volume) if volume > 0 else -math.inf
