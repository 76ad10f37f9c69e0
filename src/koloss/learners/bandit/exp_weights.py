"""`BanditExpWeights`: Algorithm 1 of the paper as a learner that is asked and told. `exp2` has the algorithm itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from koloss.actions import ActionSet, Points
from koloss.designs import Design
from koloss.errors import NoDistribution
from koloss.guarantees import Guarantee, paper
from koloss.guarantees.bandit import Rates
from koloss.kernels.base import KernelLike
from koloss.learners.bandit.diagnostics import BanditDiagnostics, diagnose
from koloss.learners.bandit.exp2 import Epoch, Exp2, prove
from koloss.learners.bandit.points import PointsEngine, points_engine
from koloss.learners.bandit.settings import BanditSettings
from koloss.learners.bandit.tuning import choose_batch, choose_rates
from koloss.learners.base import Learner, Recommendation
from koloss.learners.ledger import Drawn, Entry, Late, keys_of
from koloss.learners.losses import read_losses
from koloss.learners.reading import Reader
from koloss.learners.sharing import locked
from koloss.proxy import Proxy

if TYPE_CHECKING:
    from koloss.learners.bandit.ball import BallEngine

    Engine: TypeAlias = PointsEngine | BallEngine

Floats = NDArray[np.float64]


def engine_for(settings: BanditSettings) -> Engine:
    """The ball's engine where the moments of its laws are known and no net is asked for, otherwise that of points."""
    if plays_ball(settings):
        from koloss.learners.bandit.ball import ball_engine

        return ball_engine(settings)
    return points_engine(settings)


def plays_ball(settings: BanditSettings) -> bool:
    """Whether a whole ball is played, and not points."""
    if settings.spacing is not None or isinstance(settings.actions, Points):
        return False
    from koloss.samplers.lookup import moments_for

    return moments_for(settings.kernel, settings.actions) is not None


class BanditExpWeights(Learner[BanditSettings, Epoch]):
    """Exponential weights under bandit feedback (Algorithm 1), EXP2 with a G-optimal design in an RKHS.

    On a ball with linear or quadratic losses the whole ball is played: decisions have neither an index nor a probability,
    there is `log_density` in the place of `distribution`, and the bound has the term "neighbourhood". `spacing` asks for a net
    there, too.

    Parameters
    ----------
    actions : ActionSet
        Finite, or compact: then a net is played.
    kernel : Kernel
        Or any object with `k(X, Y)` and `k.diag(X)`.
    horizon : int or None
        Number n of rounds; None for rates that need no horizon (√2 times the bound).
    loss_bound : float, optional
        L ≥ |loss|; by default 𝒢 times `loss_norm`, 𝒢² = sup K(a, a): 1 for a Gaussian kernel.
    loss_range : (float, float), optional
        One interval that holds all losses of all rounds. Then a constant feature is added and losses are
        centred, which halves the bound for losses in [0, L].
    loss_norm : float, optional
        Bound on the RKHS norm of losses; by default 1, or 𝒢 where that is larger (which is enough for every
        Φ(y), y an action). On a ball nothing is assumed of it where there is a `loss_bound` or `loss_range`.
    tuning : "sharp" or "paper"
        Rates that minimise the proved bound, or those of the paper's Corollary.
    proxy : str or Proxy, optional
        "pivoted_cholesky", "kernel_pca", "exact_features", or one ready made. By default exact features
        where the kernel has up to 500, otherwise pivoted Cholesky.
    rank : int or "auto"
        Number of features; by default the one that minimises the bound.
    design : "john", "spanner", "uniform" or Design
        Where to explore.
    batch : int or "auto"
        Most rounds in an epoch of single decisions, a quarter of the rank by default. Such an epoch ends
        early once a log-weight has risen by more than a half. `ask(count)` makes an epoch of its own.
    covariance : "exact" or "sampled"
        Whether Σ is computed, or estimated from draws (Appendix D of the paper).
    sample_error : float
        s of the sampled covariance: (1 - s)Σ ⪯ Σ̂ ⪯ (1 + s)Σ.
    bonus : bool
        Give actions a bonus for the error their estimates may have: a better bound where ε matters.
    prior : array of shape (N,), optional
        First distribution over the actions; uniform by default.
    loss_class : "rank-one" or "general"
        Losses Φ(y) with y an action (and mixtures of these), or any element of norm at most `loss_norm`.
    delay : int
        Tune for losses that come after up to so many others; needs epochs of one round. Losses may come late
        without it, too, but then no useful bound is proved.
    learning_rate, exploration_rate : float, optional
        η and γ, in place of the tuned ones; the guarantee takes them as they are.
    spacing : float, optional
        Spacing of the net on a compact set.
    rng : seed or Generator, optional

    Examples
    --------
    >>> import koloss as kl
    >>> prices = kl.Points([[0.0], [0.25], [0.5], [0.75], [1.0]])
    >>> learner = kl.BanditExpWeights(
    ...     prices, kl.Gaussian(0.3), horizon=2000, loss_range=(0, 1), rng=0
    ... )
    >>> for _ in range(2000):
    ...     decision = learner.ask()
    ...     learner.tell(decision, loss=float((decision.action[0] - 0.5) ** 2))
    >>> learner.recommend().action.tolist()
    [0.5]

    On a ball, without a net:

    >>> import numpy as np
    >>> best = np.array([0.3, -0.2, 0.1, 0.4, -0.5])
    >>> learner = kl.BanditExpWeights(
    ...     kl.Ball(5), kl.Quadratic(), horizon=20_000, loss_range=(0, 4), rng=0
    ... )
    >>> for _ in range(400):
    ...     batch = learner.ask(50)
    ...     learner.tell(batch, np.sum((batch.action - best) ** 2, axis=1))
    >>> bool(np.linalg.norm(learner.recommend().action - best) < 0.3)
    True
    """

    feedback = "bandit"
    settings_type = BanditSettings

    def __init__(
        self,
        actions: ActionSet,
        kernel: KernelLike,
        *,
        horizon: int | None,
        loss_bound: float | None = None,
        loss_range: tuple[float, float] | None = None,
        loss_norm: float | None = None,
        tuning: Literal["sharp", "paper"] = "sharp",
        proxy: str | Proxy | None = None,
        rank: int | Literal["auto"] = "auto",
        design: str | Design = "john",
        batch: int | Literal["auto"] = "auto",
        covariance: Literal["exact", "sampled"] = "exact",
        sample_error: float = 0.1,
        bonus: bool = False,
        prior: Any = None,
        loss_class: Literal["rank-one", "general"] = "rank-one",
        delay: int = 0,
        learning_rate: float | None = None,
        exploration_rate: float | None = None,
        spacing: float | None = None,
        rng: Any = None,
        **former: Any,
    ) -> None:
        settings = BanditSettings.of(locals())
        engine = engine_for(settings)
        rates = choose_rates(settings, engine.problem, engine.printed)
        batch = choose_batch(settings, engine.problem)
        self._exp2 = Exp2(engine, rates, horizon=settings.horizon, batch=batch)
        self._begin(settings, rng)

    @property
    def engine(self) -> Engine:
        """Features, design, the numbers of the bound: what stays fixed."""
        return self._exp2.engine

    @property
    def rates(self) -> Rates:
        """η, γ and κ; with a horizon they stay fixed."""
        return self._exp2.rates

    @property
    def batch(self) -> int:
        """Most rounds in an epoch of single decisions."""
        return self._exp2.batch

    @property
    def rank(self) -> int:  # type: ignore[override]
        """Number of features."""
        return self.engine.problem.rank

    @property
    def epsilon(self) -> float:  # type: ignore[override]
        """Error of the features."""
        return self.engine.problem.epsilon

    @property
    def actions(self) -> Any:
        return self.engine.actions

    # Ask and tell.

    def _draw(self, count: int | None) -> tuple[Epoch, Drawn]:
        return self._exp2.draw(count, self._rng)

    def _drop_ahead(self) -> None:
        epoch = self._exp2.epoch
        if epoch is not None and not isinstance(self.engine, PointsEngine):
            epoch.law.ahead = None

    def _read(self, entries: Sequence[Entry[Epoch]], loss: Any) -> Sequence[Any]:
        engine = self._exp2.engine
        return read_losses(loss, len(entries), engine.low, engine.high)

    def _learn(
        self, law: Epoch | None, entries: Sequence[Entry[Epoch]], losses: Sequence[Any]
    ) -> None:
        assert law is not None
        self._exp2.learn(law, keys_of(entries), losses)

    def _late_lengths(self) -> tuple[int, ...]:
        return (self._exp2.late_length,)

    def _condensed(self, law: Epoch, keys: Sequence[Any]) -> list[Late] | None:
        return self._exp2.condensed(law, keys)

    # What it knows.

    @property
    @locked
    def distribution(self) -> Floats:
        if not isinstance(self.engine, PointsEngine):
            raise NoDistribution(
                "`distribution` is for finite sets; on a ball there is `log_density`"
            )
        return self._exp2.outlook()

    @locked
    def log_density(self, X: Any) -> Floats:
        """Logarithm of the density on a ball of the exponential weights q in the next `ask()`; -∞ outside the ball.

        The next action is drawn from q with probability 1 - γ, and otherwise from the sphere (or at 0), where it has
        no density.

        Parameters
        ----------
        X : array of shape (n, d)

        Examples
        --------
        >>> import koloss as kl
        >>> learner = kl.BanditExpWeights(kl.Ball(2), kl.Quadratic(), horizon=100, rng=0)
        >>> log_density = learner.log_density([[0.5, 0.5], [1.0, 1.0]])
        >>> log_density.round(6).tolist()  # -log π: uniform on the disc
        [-1.14473, -inf]
        """
        return self._ball("log_density").log_density(self._exp2.next_law(), X)

    @locked
    def estimated_loss(self, X: Any) -> Floats:
        """Estimated mean loss on a ball of some actions, the rows of X."""
        engine = self._ball("estimated_loss")
        exp2 = self._exp2
        return engine.values_at(exp2.theta, max(exp2.mass, 1.0), X) + engine.center

    def _ball(self, name: str) -> BallEngine:
        engine = self.engine
        if isinstance(engine, PointsEngine):
            raise AttributeError(f"`{name}` is for a ball; a finite set has `distribution`")
        return engine

    def _peek(self, rng: np.random.Generator, count: int) -> tuple[NDArray[Any], NDArray[Any]]:
        engine = self.engine
        if isinstance(engine, PointsEngine):
            return super()._peek(rng, count)
        exp2 = self._exp2
        law = engine.law(exp2.theta, None, *exp2.rates_now(), rng)
        return engine.copy().draw(law, count, rng).action, np.full(count, 1 / count)

    @locked
    def recommend(self) -> Recommendation:
        """The best action so far by the estimates; on a ball the global minimum of a quadratic."""
        return self._exp2.recommend()

    @property
    @locked
    def diagnostics(self) -> BanditDiagnostics:
        """What an operator may want to see."""
        return diagnose(self._exp2, len(self.ledger))

    # The bound.

    def _proved(self, rounds: int) -> Guarantee:
        played = self._exp2.played(self.ledger.longest_delay, self.ledger.unheard)
        horizon = self.settings.horizon
        return prove(self.engine, self.rates, self.batch, rounds, horizon, played)

    def _printed(self, rounds: int) -> Guarantee | None:
        if self.settings.tuning != "paper" or self.engine.problem.log_prior == 0:
            return None
        at_once = self._exp2.late == self._exp2.at_once == self.ledger.unheard == 0
        n, width = self.settings.horizon, self.engine.high - self.engine.low
        assert n is not None
        return paper.bandit_guarantee(self.engine.printed, n, width * n, at_once)

    # Snapshots.

    def _save(self) -> dict[str, Any]:
        engine = self.engine
        kind = "points" if isinstance(engine, PointsEngine) else "ball"
        return {"kind": kind, "engine": engine.to_dict(), "exp2": self._exp2.to_dict()}

    def _load(self, data: Reader) -> None:
        settings = self.settings
        kind = data.word("kind", ("points", "ball"))
        if (kind == "ball") != plays_ball(settings):
            data.refuse("kind", "must be that of the actions", kind)
        engine: Engine
        if kind == "points":
            engine = PointsEngine.from_dict(data.part("engine"), settings)
        else:
            from koloss.learners.bandit.ball import BallEngine

            engine = BallEngine.from_dict(data.part("engine"), settings)
        self._exp2 = Exp2.from_dict(engine, data.part("exp2"), settings.horizon)

    def _law_from_dict(self, data: Reader) -> Epoch:
        return self._exp2.epoch_from_dict(data)

    def _keys(self, data: Reader, name: str, count: int) -> Sequence[Any]:
        return self.engine.keys(data, name, count)

    def _check(self, data: Reader) -> None:
        exp2, ledger = self._exp2, self.ledger
        exp2.epoch = ledger.current
        if (exp2.made, exp2.heard) != (ledger.made, ledger.heard) or exp2.horizon != (
            self.settings.horizon
        ):
            counts = [exp2.made, exp2.heard, exp2.horizon]
            data.refuse("learner.exp2", "must have the counts of the ledger", counts)
        exp2.check(data)
        super()._check(data)
