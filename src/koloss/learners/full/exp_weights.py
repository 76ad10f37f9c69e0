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

import math
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np

from koloss._arrays import as_float, as_int, as_points, to_numpy
from koloss.actions import ActionSet, Box, Points
from koloss.guarantees import Assumption, Guarantee
from koloss.guarantees.full import FullProblem, best_shrink, printed_theorem, tune
from koloss.kernels import Linear
from koloss.kernels.base import KernelLike
from koloss.learners.full import engines
from koloss.learners.full.learner import (
    FullInformation,
    Game,
    Recommendation,
    as_printed,
    start,
)


@dataclass(frozen=True)
class Settings:
    """What was chosen once, beside the game."""

    tuning: str
    learning_rate: float  # η; zero without a horizon, where it changes with time
    delay: int
    compression: float
    log_prior: float
    allowance: float  # error that compression may make of a loss; zero without a horizon
    printed: dict[str, float]  # of the paper's tuning, what its theorem says


@dataclass(frozen=True)
class ExpWeightsDiagnostics:
    """What an operator may want to see.

    Attributes
    ----------
    rounds, heard, outstanding, late : int
        Decisions made; losses heard; decisions not heard of; losses heard after younger ones.
    learning_rate : float
        η of the next decision.
    sampler : str
        How actions are drawn.
    entropy : float or None
        Of the next decision's distribution on a finite set, in nats.
    sampling : dict
        What the sampler says of itself: the acceptance rate of exact draws; effective size, resamplings and
        restarts of particles; centres kept and the error of compression for kernel expansions.
    """

    rounds: int
    heard: int
    outstanding: int
    late: int
    learning_rate: float
    sampler: str
    entropy: float | None
    sampling: dict[str, Any]


class ExpWeights(FullInformation):
    """Exponential weights with full information (Algorithm 2): the loss told is the whole function.

    Parameters
    ----------
    actions : ActionSet
        Points, a ball or a box.
    kernel : Kernel
        Whose RKHS the losses are in: `Linear` with `LinearLoss`, `Quadratic` with `QuadraticLoss`, `Posynomial`
        with `PosynomialLoss`, any other with `KernelLoss`. On points any object with `k(X, Y)` and
        `k.diag(X)`.
    horizon : int or None
        Number n of rounds; None for rates that need no horizon (√2 times the bound).
    loss_norm : float, optional
        Largest RKHS norm of a loss; by default 1, or 𝒢 = sup ‖Φ(a)‖ where that is larger.
    loss_range : (float, float), optional
        One interval that holds all losses of all rounds. By default the range ρ of a loss follows from its
        norm.
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
    >>> learner = kl.ExpWeights(kl.Ball(3), kernel=kl.Quadratic(), horizon=500, rng=0)
    >>> saddle = kl.QuadraticLoss(np.diag([1.0, 0.0, -1.0]) / 2)
    >>> for _ in range(500):
    ...     decision = learner.ask()
    ...     learner.tell(decision, saddle)
    >>> np.abs(learner.recommend().action).round(6).tolist()
    [0.0, 0.0, 1.0]
    >>> print(learner.guarantee())
    Theorem A2(ii) (compact set): R_500 ≤ ...
    """

    def __init__(
        self,
        actions: ActionSet,
        *,
        kernel: KernelLike,
        horizon: int | None,
        loss_norm: float | None = None,
        loss_range: tuple[float, float] | None = None,
        prior: Any = None,
        tuning: Literal["sharp", "paper"] = "sharp",
        delay: int = 0,
        learning_rate: float | None = None,
        particles: int = 256,
        move: Literal["hit-and-run", "diffusion"] = "hit-and-run",
        compression: float = 0.01,
        rng: Any = None,
    ) -> None:
        game = Game.of(actions, kernel, horizon, loss_norm, loss_range)
        if tuning not in ("sharp", "paper"):
            raise ValueError(f"`tuning` must be one of 'sharp', 'paper', got {tuning!r}")
        delay = as_int("delay", delay, minimum=0)
        compression = as_float("compression", compression, minimum=0.0)
        if game.horizon is None and (tuning == "paper" or learning_rate is not None or delay):
            what = "`tuning` of 'paper', `learning_rate` and `delay`"
            raise ValueError(f"{what} must be left out without a horizon")
        if move not in ("hit-and-run", "diffusion"):
            raise ValueError(f"`move` must be 'hit-and-run' or 'diffusion', got {move!r}")
        engine = engines.make(game, prior, as_int("particles", particles, minimum=2), move)
        self._begin(*start(game, rng))
        self._engine = engine
        self._delay_cost = 0.0
        self._settings = Settings(tuning, 0.0, delay, compression, engine.prior_range, 0.0, {})
        if game.horizon is None:
            return
        printed: dict[str, float] = {}
        if tuning == "paper":
            printed = printed_theorem(game.horizon, _log_volume(game.actions), game.radius**2)
        if learning_rate is not None:
            eta = as_float("learning_rate", learning_rate, positive=True)
        elif printed:
            eta = printed["learning_rate"]
        elif self._is_trivial:
            eta = 1.0
        else:
            eta = tune(self._problem, self._excess)
        allowance = 0.0
        if compression > 0 and getattr(engine, "expansion", None) is not None:
            base = sum(self._terms(game.horizon, eta).values())
            allowance = compression * min(base, game.width * game.horizon) / (2 * game.horizon)
        self._settings = replace(
            self._settings, learning_rate=eta, allowance=allowance, printed=printed
        )

    # Algorithm 2.

    @property
    def learning_rate(self) -> float:
        """η of the next decision."""
        if self.game.horizon is not None:
            return self._settings.learning_rate
        return 1.0 if self._is_trivial else self._problem.anytime_rate(self._tally.heard + 1)

    def _draw(self, count: int) -> tuple[Any, Any, Any]:
        found: tuple[Any, Any, Any] = self._engine.draw(self.learning_rate, count, self._rng)
        return found

    def _understand(self, loss: Any) -> Any:
        return self._engine.understand(loss)

    def _hear(self, loss: Any, delay: int) -> None:
        # The tally counts this loss already: η was the rate before it.
        if delay:
            self._delay_cost += delay * self._late_rate(self._tally.heard - delay)
        self._engine.add(loss, self._allowance(self._tally.heard))

    def _late_rate(self, t: int) -> float:
        """What a loss costs for every other one heard before it, since the t-th (theory A2d)."""
        width = self.game.width
        if self.game.horizon is not None:
            return self._settings.learning_rate * width**2 / 4
        return 0.0 if self._is_trivial else 3 * self._problem.anytime_rate(t) * width**2 / 8

    def _allowance(self, t: int) -> float:
        """Error that compression may make of the t-th loss."""
        if self.game.horizon is not None or getattr(self._engine, "expansion", None) is None:
            return self._settings.allowance
        E = self._problem.complexity(1 / (t + 1))
        return self._settings.compression * self.game.width * math.sqrt(E / t) / 4

    # What it knows.

    @property
    def distribution(self) -> Any:
        """Probability of every point of a finite set in the next `ask()`."""
        if not isinstance(self.game.actions, Points):
            raise TypeError("`distribution` is for finite sets; a compact one has `log_density`")
        return self._engine.distribution(self.learning_rate).copy()

    def log_density(self, X: Any) -> Any:
        """Logarithm of the next decision's density on a compact set, up to a constant: -ηS + log prior.

        Parameters
        ----------
        X : array of shape (k, d)

        Returns
        -------
        array of shape (k,)
        """
        X = to_numpy(as_points("X", X, dimension=self.game.actions.dimension))
        return self._engine.log_density(X, self.learning_rate)

    def recommend(self) -> Recommendation:
        """The best action so far by the losses heard."""
        index, action, value, certificate = self._engine.best()
        return Recommendation(index, action, value / max(self._tally.heard, 1), certificate)

    @property
    def diagnostics(self) -> ExpWeightsDiagnostics:
        """What an operator may want to see."""
        entropy = None
        if isinstance(self.game.actions, Points):
            p = self.distribution
            entropy = float(-np.sum(p[p > 0] * np.log(p[p > 0])))
        return ExpWeightsDiagnostics(
            rounds=self._tally.made,
            heard=self._tally.heard,
            outstanding=len(self._outstanding),
            late=self._tally.late,
            learning_rate=self.learning_rate,
            sampler=self._engine.method,
            entropy=entropy,
            sampling=self._engine.facts(),
        )

    # The bound.

    @property
    def _problem(self) -> FullProblem:
        game = self.game
        return FullProblem(
            rounds=game.horizon or 1,
            width=game.width,
            log_prior=self._settings.log_prior,
            dimension=_dimension(game.actions),
            delay=self._settings.delay,
        )

    @property
    def _is_trivial(self) -> bool:
        """Whether all actions are equally good in every round."""
        problem = self._problem
        return problem.width == 0 or (problem.dimension == 0 and problem.log_prior == 0)

    def _excess(self, delta: float) -> float:
        """How much worse than the best action those of A_δ can be, a round (theory A2)."""
        game = self.game
        if isinstance(game.actions, Points):
            return 0.0
        moved = game.norm * float(
            game.kernel.modulus(delta * game.actions.diameter(), game.actions)
        )
        return min(moved, delta * game.width) if isinstance(game.kernel, Linear) else moved

    def _terms(self, n: int, eta: float) -> dict[str, float]:
        problem, excess = self._problem, self._excess

        def bound(delta: float) -> dict[str, float]:
            if self.game.horizon is None:
                return problem.anytime_terms(delta, excess, n)
            return problem.terms(eta, delta, excess, n)

        return bound(best_shrink(lambda delta: sum(bound(delta).values()), problem.dimension))

    def guarantee(self, *, rounds: int | None = None, printed: bool | None = None) -> Guarantee:
        """The regret bound, term by term. It holds for adversaries that react to past actions, too.

        Parameters
        ----------
        rounds : int, optional
            After so many rounds; by default the horizon, or the rounds played where there is none.
        printed : bool, optional
            With the paper's tuning: the bound as the paper prints it (the default), or what is proved for
            the same learning rate.
        """
        game, tally, settings = self.game, self._tally, self._settings
        n, printed = self._rounds(rounds), as_printed(printed, settings.tuning)
        if self._is_trivial:
            return Guarantee("All actions are equally good", n, {"regret": 0.0}, 0.0)
        if printed:
            return self._as_printed(n)
        terms = self._terms(n, settings.learning_rate)
        base = sum(terms.values())
        if not settings.delay or tally.longest_delay > settings.delay:
            terms["delay"] = max(terms["delay"], self._delay_cost)
        terms["compression"] = self._compression(n, min(base, game.width * n))
        terms["unheard"] = game.width * len(self._outstanding)
        return Guarantee(
            self._statement(),
            n,
            terms,
            game.width * n,
            tuple(self._assumptions(n, delay=settings.delay)),
            notes=self._notes(),
        )

    def _compression(self, n: int, base: float) -> float:
        """Twice the error of the cumulative loss: made, and still allowed."""
        expansion = getattr(self._engine, "expansion", None)
        if expansion is None or self._settings.compression == 0:
            return 0.0
        done = self._tally.heard - expansion.pending
        if self.game.horizon is None:
            return float(2 * expansion.spent + self._settings.compression * base)
        return float(2 * expansion.spent + 2 * self._settings.allowance * max(n - done, 0))

    def _statement(self) -> str:
        kind = "finite set" if isinstance(self.game.actions, Points) else "compact set"
        if self.game.horizon is None:
            return f"Theorem A2(iii) ({kind}, anytime)"
        return f"Theorem A2(i) ({kind})" if kind == "finite set" else f"Theorem A2(ii) ({kind})"

    def _assumptions(self, n: int, *, delay: int = 0) -> list[Assumption]:
        game, found = self.game, super()._assumptions(n, delay=delay)
        in_range = f"every loss has a range of at most {game.width:.6g}"
        if isinstance(game.actions, Points):  # nothing is needed of the norm
            found[1] = Assumption(in_range, found[1].holds)
        elif game.low is not None:
            found.append(Assumption(in_range))
        if not self._engine.exact:
            found.append(Assumption("the Markov chains have mixed: draws follow the density"))
        return found

    def _as_printed(self, n: int) -> Guarantee:
        said = self._settings.printed
        return Guarantee(
            "The paper's Theorem 14, as printed",
            n,
            {"regret": said["bound"]},
            self.game.width * n,
            (
                Assumption("the volume of the actions is above 1", said["log_volume"] > 0),
                Assumption("n is so large that η𝒢² is at most 1", said["small"] <= 1),
                Assumption("two terms of equal size add up to one of them (false)", False),
            ),
            proved=False,
            notes=("guarantee(printed=False) gives what is proved for the same learning rate",),
        )

    # Snapshots.

    def _state(self) -> dict[str, Any]:
        return {
            "settings": asdict(self._settings),
            "engine": type(self._engine).__name__,
            "sums": self._engine.to_dict(),
            "delay_cost": self._delay_cost,
        }

    def _load(self, data: dict[str, Any]) -> None:
        self._settings = Settings(**data["settings"])
        self._engine = engines.ENGINES[data["engine"]].from_dict(self.game, data["sums"])
        self._delay_cost = data["delay_cost"]


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
