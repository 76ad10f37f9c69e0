"""Algorithm 4 of the paper: follow the regularised leader in the RKHS.

In each round the player draws an action from a distribution with mean

    X_t = argmin { η Σ_{s<t} ⟨w_s, Y⟩ + ‖Y‖² : Y in the convex hull of the features },

which is the projection of -(η/2) Σ_{s<t} w_s onto the hull, and is then told the loss w_t. Losses, never rewards:
smaller is better.

The paper has it for its proofs, as intractable in general. It is tractable, and to rounding, on points, for quadratics
on the ball and for linear losses on convex sets; elsewhere there is an error that says so. Departures:

- η = 2ϱ/(G√n) with the corrected constants of theory A4: R_n ≤ ϱG√n, an eighth of the paper's term in ηn.
- A projection comes with a certified gap h, and its mean is within √h of the leader; the guarantee adds G√h a round.
- Late losses are used in the order in which they come; each costs at most ηG²/2 for every other one heard before it.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from koloss._arrays import as_float, as_int, to_numpy
from koloss.actions import ActionSet, Ball, Points
from koloss.guarantees import Assumption, Guarantee
from koloss.guarantees.leader import LeaderProblem
from koloss.kernels import Kernel, Linear, Loss, Quadratic
from koloss.learners.full.learner import (
    FullInformation,
    Game,
    Recommendation,
    as_printed,
    loss_from_dict,
    loss_to_dict,
    start,
)
from koloss.oracles.hull import BallHull, ConvexHull, PointsHull, Projection

SHARE = 1e-3
"""Of the bound, that approximate projections may add."""


@dataclass(frozen=True)
class LeaderSettings:
    """What was chosen once."""

    tuning: str
    learning_rate: float
    delay: int
    tolerance: float  # gap that a projection may have


@dataclass(frozen=True)
class LeaderDiagnostics:
    """What an operator may want to see.

    Attributes
    ----------
    rounds, heard, outstanding, late : int
        Decisions made; losses heard; decisions not heard of; losses heard after younger ones.
    learning_rate : float
        η.
    atoms : int
        Actions in the distribution of the next decision.
    gap : float
        Of its projection: the mean is at most √gap from the leader.
    """

    rounds: int
    heard: int
    outstanding: int
    late: int
    learning_rate: float
    atoms: int
    gap: float


class FollowTheRegularizedLeader(FullInformation):
    """Follow the regularised leader with full information (Algorithm 4).

    Parameters
    ----------
    actions : ActionSet
        Points; a ball, with `Quadratic` or `Linear`; a box or a positive ball, with `Linear`.
    kernel : Kernel
        Whose RKHS the losses are in.
    horizon : int
        Number n of rounds.
    loss_norm : float, optional
        Largest RKHS norm G of a loss; by default 1, or 𝒢 = sup ‖Φ(a)‖ where that is larger.
    tuning : "sharp" or "paper"
        η = 2𝒢/(G√n), or 1/√n, which minimises the bound that the paper prints.
    delay : int
        Tune for losses that come after up to so many others.
    learning_rate : float, optional
        η, in place of the tuned one.
    tolerance : float, optional
        Gap that a projection on points may have; by default so small that it adds a thousandth to the bound.
    rng : seed or Generator, optional

    Examples
    --------
    >>> import numpy as np
    >>> import koloss as kl
    >>> points = kl.Points(np.linspace(0, 1, 50)[:, None])
    >>> learner = kl.FollowTheRegularizedLeader(points, kernel=kl.Gaussian(0.2), horizon=500, rng=0)
    >>> for t in range(500):
    ...     decision = learner.ask()
    ...     learner.tell(decision, kl.KernelLoss(kl.Gaussian(0.2), [[0.7]], [-1.0]))
    >>> bool(abs(learner.ask().action[0] - 0.7) < 0.05), learner.guarantee().total < 24
    (True, True)
    """

    def __init__(
        self,
        actions: ActionSet,
        *,
        kernel: Kernel,
        horizon: int,
        loss_norm: float | None = None,
        tuning: Literal["sharp", "paper"] = "sharp",
        delay: int = 0,
        learning_rate: float | None = None,
        tolerance: float | None = None,
        rng: Any = None,
    ) -> None:
        if not isinstance(kernel, Kernel):
            raise TypeError(f"`kernel` must be a Kernel, got {type(kernel).__name__}")
        if tuning not in ("sharp", "paper"):
            raise ValueError(f"`tuning` must be one of 'sharp', 'paper', got {tuning!r}")
        horizon, delay = as_int("horizon", horizon, minimum=1), as_int("delay", delay, minimum=0)
        game = Game.of(actions, kernel, horizon, loss_norm, None)
        hull = _hull(game)
        self._begin(*start(game, rng))
        problem = self._problem
        eta = problem.leader_rate(delay) if tuning == "sharp" else 1 / math.sqrt(horizon)
        if learning_rate is not None:
            eta = as_float("learning_rate", learning_rate, positive=True)
        if tolerance is None:  # n G √h ≤ a share of ϱ G √n
            tolerance = (SHARE * problem.reach) ** 2 / horizon
        tolerance = as_float("tolerance", tolerance, minimum=0.0)
        self._settings = LeaderSettings(tuning, eta, delay, tolerance)
        self._hull = hull
        self._cumulative: Any = None  # Σ w_s: values on points, or a loss
        self._found: Projection | None = None  # where the leader is
        self._last: Projection | None = None  # where it was at the last draw
        self._tracking, self._delay_cost = 0.0, 0.0

    # Algorithm 4.

    def _leader(self) -> Projection:
        """The projection of -(η/2) Σ w_s onto the hull."""
        if self._found is None:
            scale = -self._settings.learning_rate / 2
            target = self._zero() if self._cumulative is None else scale * self._cumulative
            self._found = self._hull.project(target, self._settings.tolerance, self._last)
        return self._found

    def _draw(self, count: int) -> tuple[Any, Any, Any]:
        leader = self._last = self._leader()
        self._tracking += count * math.sqrt(leader.gap)
        sums = np.cumsum(leader.weights)
        k = (sums / sums[-1]).searchsorted(self._rng.random(count), side="right")
        if leader.index is None:
            return leader.atoms[k], None, None
        return leader.atoms[k], leader.index[k], leader.weights[k]

    def _understand(self, loss: Any) -> Any:
        loss = self.game.element(loss)
        actions = self.game.actions
        return to_numpy(loss(actions.X)) if isinstance(actions, Points) else loss

    def _hear(self, loss: Any, delay: int) -> None:
        game, moved = self.game, delay * self._settings.learning_rate * self.game.norm / 2
        self._delay_cost += game.norm * min(moved, game.diameter)
        self._cumulative = loss if self._cumulative is None else self._cumulative + loss
        self._found = None

    def _zero(self) -> Any:
        actions = self.game.actions
        if isinstance(actions, Points):
            return np.zeros(len(actions))
        return 0.0 * self.game.kernel.embed(np.zeros(actions.dimension))

    # What it knows.

    @property
    def mean(self) -> Loss:
        """X, the mean action as an element of the RKHS."""
        found: Loss = self.game.kernel.embed(*self.mixture)
        return found

    @property
    def mixture(self) -> tuple[Any, Any]:
        """The actions that may be played next, and their probabilities."""
        leader = self._leader()
        return leader.atoms.copy(), leader.weights.copy()

    @property
    def distribution(self) -> Any:
        """Probability of every point of a finite set in the next `ask()`."""
        actions, leader = self.game.actions, self._leader()
        if not isinstance(actions, Points):
            raise TypeError("`distribution` is for finite sets; a compact one has `mixture`")
        p = np.zeros(len(actions))
        p[leader.index] = leader.weights
        return p

    def recommend(self) -> Recommendation:
        """The best action so far by the losses heard."""
        actions, total, heard = self.game.actions, self._cumulative, max(self._tally.heard, 1)
        if isinstance(actions, Points):
            values = self._zero() if total is None else total
            i = int(np.argmin(values))
            return Recommendation(i, to_numpy(actions.X)[i], float(values[i]) / heard, "exhaustive")
        from koloss.oracles import minimize

        found = minimize(self._zero() if total is None else total, actions)
        return Recommendation(None, found.point, found.value / heard, found.certificate)

    @property
    def diagnostics(self) -> LeaderDiagnostics:
        """What an operator may want to see."""
        leader = self._leader()
        return LeaderDiagnostics(
            rounds=self._tally.made,
            heard=self._tally.heard,
            outstanding=len(self._outstanding),
            late=self._tally.late,
            learning_rate=self._settings.learning_rate,
            atoms=len(leader.weights),
            gap=leader.gap,
        )

    # The bound.

    @property
    def _problem(self) -> LeaderProblem:
        game = self.game
        assert game.horizon is not None
        return LeaderProblem(game.horizon, game.norm, game.radius or 1.0, game.diameter or 1.0)

    def guarantee(self, *, rounds: int | None = None, printed: bool | None = None) -> Guarantee:
        """The regret bound, term by term.

        Parameters
        ----------
        rounds : int, optional
            After so many rounds; by default the horizon.
        printed : bool, optional
            With the paper's tuning: the bound as the paper prints it (the default), or the sharper one for
            the same learning rate.
        """
        game, tally, settings = self.game, self._tally, self._settings
        n, eta = self._rounds(rounds), settings.learning_rate
        assumptions = self._assumptions(n, delay=settings.delay)
        if as_printed(printed, settings.tuning):
            small = game.norm <= game.radius * (1 + 1e-9)
            assumptions.append(Assumption("losses have norm at most sup ‖Φ(a)‖", small))
            terms = {
                "stability": 2 * n * eta * game.radius**2,
                "regulariser": 2 * game.radius**2 / eta,
            }
            statement = "The paper's bound for Algorithm 4, as printed"
        else:
            terms = self._problem.terms(eta, n)
            statement = "Theorem A4 (regularised leader)"
        rest = 0.0  # of exact projections rounding remains, and is measured as they are played
        if isinstance(self._hull, PointsHull):
            rounding = self._hull.rounding(eta / 2 * n * game.norm * game.radius)
            rest = math.sqrt(max(settings.tolerance, 2 * rounding))
        terms["projection"] = game.norm * (self._tracking + max(n - tally.made, 0) * rest)
        terms["delay"] = max(self._delay_cost, settings.delay * eta * game.norm**2 / 2 * n)
        terms["unheard"] = game.width * len(self._outstanding)
        return Guarantee(
            statement, n, terms, game.width * n, tuple(assumptions), notes=self._notes()
        )

    # Snapshots.

    def _state(self) -> dict[str, Any]:
        total = self._cumulative
        return {
            "settings": asdict(self._settings),
            "values": total.copy() if isinstance(total, np.ndarray) else None,
            "loss": loss_to_dict(total) if isinstance(total, Loss) else None,
            "found": None if self._found is None else asdict(self._found),
            "last": None if self._last is None else asdict(self._last),
            "tracking": self._tracking,
            "delay_cost": self._delay_cost,
        }

    def _load(self, data: dict[str, Any]) -> None:
        self._settings = LeaderSettings(**data["settings"])
        self._hull = _hull(self.game)
        values = data["values"]
        self._cumulative = loss_from_dict(data["loss"]) if values is None else np.array(values)
        self._found = None if data["found"] is None else Projection(**data["found"])
        self._last = None if data["last"] is None else Projection(**data["last"])
        self._tracking, self._delay_cost = data["tracking"], data["delay_cost"]


def _hull(game: Game) -> PointsHull | BallHull | ConvexHull:
    """The projection for a pair, or an error that says why there is none."""
    actions, kernel = game.actions, game.kernel
    if isinstance(actions, Points):
        return PointsHull(kernel, actions)
    if isinstance(kernel, Linear):
        return ConvexHull(actions)
    if isinstance(kernel, Quadratic) and isinstance(actions, Ball):
        return BallHull(actions.dimension, actions.radius)
    raise TypeError(
        f"no tractable projection onto the hull of the features of {kernel!r} on {actions!r}: there are any kernel on "
        "Points, Quadratic on a Ball and Linear on convex sets; use actions.net(spacing) for points, or "
        "ConditionalGradient, which needs no projection"
    )
