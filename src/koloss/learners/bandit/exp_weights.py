"""`BanditExpWeights`: Algorithm 1 of the paper as a learner that is asked and told. `exp2` has the algorithm itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from koloss._arrays import as_float, as_int, as_interval
from koloss.actions import ActionSet, Contexts, Points
from koloss.designs import Design
from koloss.errors import NoDistribution
from koloss.guarantees import Guarantee, hindsight, paper, promises
from koloss.guarantees.bandit import Rates
from koloss.kernels.base import KernelLike
from koloss.learners.bandit.apart import Apart
from koloss.learners.bandit.arms import ArmsEngine
from koloss.learners.bandit.contextual import (
    Player,
    check_player,
    diagnose_with_contexts,
    load_player,
    player_for,
    prove_with_contexts,
    save_player,
)
from koloss.learners.bandit.diagnostics import BanditDiagnostics, diagnose
from koloss.learners.bandit.exp2 import Epoch, Exp2, prove, within_shares
from koloss.learners.bandit.masks import Masked, check_rows, draw_among, learn_among
from koloss.learners.bandit.pairs import in_context
from koloss.learners.bandit.points import PointsEngine
from koloss.learners.bandit.settings import BanditSettings
from koloss.learners.bandit.setup import points_engine
from koloss.learners.bandit.shared import Alone, SharedExp2
from koloss.learners.bandit.tuning import choose_batch
from koloss.learners.base import Learner, Recommendation, refuse_extras
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


class BanditExpWeights(Learner[BanditSettings, Epoch | Masked]):
    """Exponential weights under bandit feedback (Algorithm 1), EXP2 with a ridge, bonuses and an optimal design in an RKHS.

    On a ball with linear or quadratic losses the whole ball is played: decisions have neither an index nor a probability,
    there is `log_density` in the place of `distribution`, and the bound has the term "neighbourhood". `spacing` asks for a net
    there, too.

    Parameters
    ----------
    actions : ActionSet
        Finite, or compact: then a net is played. Of a `Space` its `points()` are, and decisions have `params`.
    kernel : Kernel or "auto"
        Or any object with `k(X, Y)` and `k.diag(X)`. "auto" is for losses of unknown smoothness: a sum of Gaussian kernels
        with bandwidths of 1/2, 1/4, 1/8, ... of the range of each coordinate, down to where the bound with that one alone
        is half of the trivial one. The guarantee names the norm that it allows at each bandwidth, half as large from one
        to the next in two dimensions. It is no better than the smallest bandwidth needs: name one where it is known.
    horizon : int or None
        Number n of rounds; None for rates that need no horizon (√2 times the bound).
    loss_bound : float, optional
        L ≥ |loss|; by default 𝒢 times `loss_norm`, 𝒢² = sup K(a, a): 1 for a Gaussian kernel.
    loss_range : (float, float) or "learn", optional
        One interval that holds all losses of all rounds. Then a constant feature is added and losses are
        centred, which halves the bound for losses in [0, L]. "learn": neither range nor location is known, the rates go
        by what was heard before, and the bound is a multiple of the range ρ (theory F3).
    outside : "raise", "widen", "clip" or "keep"
        What becomes of a loss outside the interval stated: an error; a wider interval; the end that it is beyond; or it is
        used as it is, and nothing else changes. The guarantee charges what was heard outside.
    loss_norm : float, optional
        W: bound on the RKHS norm of losses up to a constant, or on Σ|c_i| for "rank-one" losses, in the units of the losses;
        in units of their range where that is learned. By default twice the least with which a loss can fill the range
        (theory F2); without a range 1, or 𝒢 where that is larger and losses are not "rank-one". On a ball nothing is assumed
        of it where there is a `loss_bound` or `loss_range`.
    tuning : "sharp" or "paper"
        Rates that minimise the proved bound, or those of the paper's Corollary.
    proxy : str or Proxy, optional
        "pivoted_cholesky", "kernel_pca", "exact_features", or one ready made. By default exact features
        where the kernel has up to 500, otherwise pivoted Cholesky.
    rank : int or "auto"
        Number of features; by default all that matter to the bound with a ridge, and without one as many as minimise it, but
        never so many that a refresh takes much more than a tenth of a second: 366 for 3,721 points. A number lifts that limit.
    design : "john", "spanner", "uniform" or Design
        Where to explore.
    batch : int or "auto"
        Most rounds in an epoch of single decisions, a quarter of the (effective) dimension by default. Such an epoch ends
        early once a log-weight has risen by more than a half. `ask(count)` makes an epoch of its own.
    covariance : "exact" or "sampled"
        Whether Σ is computed, or estimated from draws (Appendix D of the paper).
    sample_error : float
        s of the sampled covariance: (1 - s)Σ ⪯ Σ̂ ⪯ (1 + s)Σ.
    ridge : float or "auto"
        λ: penalty on the features beyond a head, in units of the kernel; the constant never has one. By default the one of
        least bound, together with the head, and none where that is better; without a horizon it falls with time. 0: features
        are cut off, none is penalised. There is none with the sampled covariance and with the paper's tuning (theory F1).
    bonus : bool or "auto"
        Whether actions get a bonus for the bias that their estimates may have, by the penalty and by what the features miss.
        By default with a ridge, and without one where the bound is smaller with it.
    prior : array of shape (N,), optional
        First distribution over the actions; uniform by default.
    loss_class : "general", "rank-one" or "any"
        What the mean of a loss given the past is, up to a constant: any element of norm at most `loss_norm`; Σ c_i Φ(y_i) with
        actions y_i and Σ|c_i| at most `loss_norm`; or anything in the range. Then every action is learned by itself, as by EXP3,
        and the kernel has no say (theory F8).
    delay : int
        Tune for losses that come after up to so many others; needs epochs of one round. Losses may come late
        without it, too, but then no useful bound is proved.
    hold : int
        Use no loss before so many further decisions were made, in whichever order and however early it is told: for worlds in
        which the loss decides when it is told (a sale at once, no sale at the time-out). Rates are for that delay, or for `delay`
        if that is more.
    learning_rate, exploration_rate : float, optional
        η and γ, in place of the tuned ones; the guarantee takes them as they are.
    spacing : float, optional
        Spacing of the net on a compact set.
    goal : "minimize" or "maximize"
        Whether losses are told, or rewards: then `loss_range` is that of the rewards, and estimates are rewards, too.
    regret : "pseudo" or "hindsight"
        Which regret to bound: against the action that is best on average, or against the one that was best in the end, which
        matters where losses answer to what was played. The latter gives actions a bonus for the variance of their estimates, at
        1.7 times the bound. For finite sets.
    shares : dict, optional
        Least and largest share of traffic, {row or tuple of rows: (low, high)}, for groups that do not overlap, of a finite set.
        Every law that decisions are drawn from has them exactly; what that may cost is a term of the guarantee.
    contexts : Contexts, optional
        What is known of a round before an action is chosen: `ask(context=...)` (theory F6). The regret is then against the best
        mapping from contexts to actions. The ridge is then on features of pairs, chosen for the shares of the contexts; there is none
        where each context has a learner of its own. Of a Space of many contexts a few stand for all others, and nothing is proved.
    context_kernel : Kernel or "pairs", optional
        On contexts, to be multiplied by `kernel`: how much they have in common. "pairs": `kernel` itself takes rows that hold the
        coordinates of a context and then those of an action. By default two labels have a half in common, and coordinates get
        a Gaussian kernel with bandwidths of half their ranges.
    order : "independent" or "any", optional
        How contexts come: drawn independently of losses, so that all contexts learn from every loss; or in any order, in turn or
        as an adversary likes: then each context has a learner of its own. By default "independent" where contexts have weights,
        and otherwise "any"; contexts with a period come in turn and share what is the same from period to period.
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
        kernel: KernelLike | Literal["auto"],
        *,
        horizon: int | None,
        loss_bound: float | None = None,
        loss_range: tuple[float, float] | Literal["learn"] | None = None,
        outside: Literal["raise", "clip", "widen", "keep"] = "raise",
        loss_norm: float | None = None,
        tuning: Literal["sharp", "paper"] = "sharp",
        proxy: str | Proxy | None = None,
        rank: int | Literal["auto"] = "auto",
        design: str | Design = "john",
        batch: int | Literal["auto"] = "auto",
        covariance: Literal["exact", "sampled"] = "exact",
        sample_error: float = 0.1,
        ridge: float | Literal["auto"] = "auto",
        bonus: bool | Literal["auto"] = "auto",
        prior: Any = None,
        loss_class: Literal["rank-one", "general", "any"] = "general",
        delay: int = 0,
        hold: int = 0,
        learning_rate: float | None = None,
        exploration_rate: float | None = None,
        spacing: float | None = None,
        goal: Literal["minimize", "maximize"] = "minimize",
        regret: Literal["pseudo", "hindsight"] = "pseudo",
        shares: Any = None,
        contexts: Contexts | None = None,
        context_kernel: KernelLike | Literal["pairs"] | None = None,
        order: Literal["independent", "any"] | None = None,
        rng: Any = None,
        **former: Any,
    ) -> None:
        settings = BanditSettings.of(locals())
        if settings.contexts is not None:
            self._play_contexts(player_for(settings, engine_for))
            self._begin(settings, rng)
            return
        engine = engine_for(settings)
        batch = choose_batch(settings, engine.problem)
        self._exp2 = Exp2(engine, engine.rates, horizon=settings.horizon, batch=batch)
        self._begin(settings, rng)

    _player: Player | None = None  # whoever plays where there are contexts

    def _play_contexts(self, player: Player) -> None:
        self._player = player
        self._exp2 = cast(
            Exp2, player
        )  # with one learner per context it has what is asked of it here

    def __repr__(self) -> str:
        return f"{super().__repr__()}  # {self.engine.size}"

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
    def dimension(self) -> float:
        """Effective number of features: d* with a penalty, otherwise all of them."""
        return float(self.engine.problem.dimension)

    @property
    def epsilon(self) -> float:  # type: ignore[override]
        """Error of the features."""
        return self.engine.problem.epsilon

    @property
    def actions(self) -> Any:
        return self.engine.actions

    # Ask and tell.

    def _draw(self, count: int | None, context: Any, allowed: Any) -> tuple[Epoch | Masked, Drawn]:
        if self._player is not None:
            refuse_extras(None, allowed)
            rows = self._rows(context, count)
            return self._player.draw_in(rows, self._rng)  # type: ignore[return-value]
        if context is not None or allowed is not None:
            refuse_extras(context, None)
            mask = self._allowed(allowed)
            if mask is not None:
                design, recorded = self.settings.design, self._recorded
                return draw_among(self._exp2, mask, count, self._rng, design, recorded)[:2]
        return self._exp2.draw(count, self._rng)

    def _rows(self, context: Any, count: int | None) -> Any:
        """Row of a context, or those of several; coordinates where any point of a Space may come."""
        contexts = self.settings.contexts
        assert contexts is not None
        if contexts.space is not None:
            return contexts.place(context) if count is None else contexts.place_all(context, count)
        return contexts.find(context) if count is None else contexts.find_all(context, count)

    def _drop_ahead(self) -> None:
        if isinstance(self.engine, PointsEngine):
            return
        epoch = self._exp2.epoch
        if epoch is not None:
            epoch.law.ahead = None

    def _limits(self) -> tuple[float, float]:
        return self._exp2.range.limits

    def _read(self, entries: Sequence[Entry[Epoch | Masked]], loss: Any) -> Sequence[Any]:
        low, high = self._exp2.range.limits
        return read_losses(loss, len(entries), low, high, self._exp2.engine.sign)

    def _learn(
        self,
        law: Epoch | Masked | None,
        entries: Sequence[Entry[Epoch | Masked]],
        losses: Sequence[Any],
    ) -> None:
        assert law is not None
        if isinstance(law, Masked):
            learn_among(self._exp2, law, keys_of(entries), losses)
            return
        self._exp2.learn(law, keys_of(entries), losses)

    @locked
    def widen(self, low: float, high: float) -> None:
        """Go by a wider interval of losses from now on (of rewards, where those are told), before one outside is heard.

        For `outside="widen"`, where a loss outside would do the same; the guarantee charges it alike.
        """
        low, high = as_interval("loss_range", (low, high))
        if self.settings.outside != "widen":
            raise ValueError(
                "`loss_range` can be widened where `outside` is 'widen', got "
                f"{self.settings.outside!r}: the rates and the guarantee are for the interval stated"
            )
        exp2, epoch = self._exp2, self._exp2.epoch
        ends = (low, high) if exp2.engine.sign > 0 else (-high, -low)
        before = exp2.range.heard_low, exp2.range.heard_high
        if ends[0] > before[0] or ends[1] < before[1]:
            raise ValueError(
                f"`loss_range` must hold what it was, {before}, where losses count, got {ends}"
            )
        if exp2.range.hear(ends) and epoch is not None and not epoch.over:
            epoch.shrink()

    def _late_lengths(self) -> tuple[int, ...]:
        if isinstance(self._player, Apart):
            return self._player.late_lengths
        return (self._exp2.late_length,)

    def _condensed(self, law: Epoch | Masked, keys: Sequence[Any]) -> list[Late] | None:
        return None if isinstance(law, Masked) else self._exp2.condensed(law, keys)

    # What it knows.

    @property
    @locked
    def distribution(self) -> Floats:
        if self._player is not None:
            raise NoDistribution(
                "`distribution` is for learners without contexts; with them there is `distribution_for(context)`"
            )
        if not isinstance(self.engine, PointsEngine):
            raise NoDistribution(
                "`distribution` is for finite sets; on a ball there is `log_density`"
            )
        return self._exp2.outlook()

    @locked
    def distribution_for(self, context: Any) -> Floats:
        """Probability of every action in the next `ask(context=context)`.

        Examples
        --------
        >>> import koloss as kl
        >>> segments = kl.Contexts(["private", "business"], weights=[0.9, 0.1])
        >>> prices = kl.Points([[0.0], [0.5], [1.0]])
        >>> learner = kl.BanditExpWeights(
        ...     prices, kl.Gaussian(0.5), horizon=100, loss_range=(0, 1), contexts=segments, rng=0
        ... )
        >>> learner.distribution_for("business").shape
        (3,)
        """
        if self._player is None:
            raise NoDistribution(
                "`distribution_for` is for learners with contexts; without there is `distribution`"
            )
        if not isinstance(self.engine, PointsEngine):
            raise NoDistribution("`distribution_for` is for finite sets of actions")
        row: int = self._rows(context, None)
        return self._player.outlook_in(row)

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
        values = engine.values_at(exp2.theta, max(exp2.mass, 1.0), X) + exp2.mean_center
        return engine.sign * values

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
    def recommend(self, context: Any = None) -> Recommendation:
        """The best action so far by the estimates, in a context where there are contexts; on a ball the global minimum of a quadratic."""
        if self._player is not None:
            row: int = self._rows(context, None)
            return self._named(self._player.recommend_in(row))
        refuse_extras(context, None)
        return self._named(self._exp2.recommend())

    @property
    @locked
    def diagnostics(self) -> BanditDiagnostics:
        """What an operator may want to see."""
        if self._player is not None:
            return diagnose_with_contexts(self._player, self.ledger.awaited)
        return diagnose(self._exp2, self.ledger.awaited)

    # The bound.

    def guarantee(
        self,
        *,
        rounds: int | None = None,
        printed: bool | None = None,
        loss_norm: float | None = None,
        misfit: float | None = None,
        confidence: float | None = None,
    ) -> Guarantee:
        """The regret bound, term by term.

        Parameters
        ----------
        rounds : int, optional
            After so many rounds; by default the horizon, or the rounds played where there is none.
        printed : bool, optional
            With the paper's tuning: the bound as the paper prints it (the default), or what is proved for the same
            parameters.
        loss_norm : float, optional
            For losses of another norm than the learner plays for (theory F2).
        misfit : float, optional
            For losses that miss the class by so much at any action (theory F8). Like the norm, it is in units of the range
            where that is learned.
        confidence : float, optional
            For the regret in hindsight: a bound that holds with at least this probability, not in expectation (theory F7).
        """
        if confidence is not None:
            confidence = self._checked_confidence(confidence)
            norm = {"loss_norm": loss_norm, "misfit": misfit}
            promise = self.guarantee(rounds=rounds, printed=printed, **norm)
            return hindsight.with_confidence(promise, self.engine.problem, self.rates, confidence)
        several = self._player is not None and not isinstance(self._player, Alone)
        for name, value in (("loss_norm", loss_norm), ("misfit", misfit)):
            if several and value is not None:
                raise ValueError(f"`{name}` must be left out with several contexts, got {value!r}")
        if loss_norm is None and misfit is None:
            return super().guarantee(rounds=rounds, printed=printed)
        if printed:
            raise ValueError("`printed` must be left out beside `loss_norm` or `misfit`")
        n = self.settings.horizon or max(self.ledger.made, 1)
        n = n if rounds is None else as_int("rounds", rounds, minimum=1)
        engine = self.engine
        if loss_norm is not None:
            loss_norm = as_float("loss_norm", loss_norm, positive=True)
            engine = engine.for_norm(loss_norm, self.settings)
        if misfit is not None:
            engine = engine.for_misfit(as_float("misfit", misfit, minimum=0.0))
        return self._proved_by(engine, n)

    def _checked_confidence(self, confidence: Any) -> float:
        value = as_float("confidence", confidence, positive=True)
        if value >= 1:
            raise ValueError(f"`confidence` must be below 1, got {value:.6g}")
        exp2, problem = self._exp2, self.engine.problem
        lacking = {
            "`regret` of 'hindsight'": problem.hindsight,
            "a horizon": self.settings.horizon is not None,
            "a stated interval that holds all losses": problem.constant
            and not exp2.range.moves
            and not exp2.range.beyond,
            "epochs of one round (batch=1)": self.batch == 1 and not exp2.at_once,
            "every loss in its epoch": not exp2.late,
            "all actions allowed in every round": exp2.masks is None,
        }
        for rule, met in lacking.items():
            if not met:
                raise ValueError(f"`confidence` must be left out without {rule}, got {value:.6g}")
        return value

    def _proved(self, rounds: int) -> Guarantee:
        if self._player is not None and not isinstance(self._player, Alone):
            return prove_with_contexts(self._player, self.settings, rounds, self.ledger)
        return self._proved_by(self.engine, rounds)

    def _proved_by(self, engine: Engine, rounds: int) -> Guarantee:
        played = self._exp2.played(self.ledger.longest_delay, self.ledger.unheard)
        horizon = self.settings.horizon
        heard = self._exp2.range
        promise = prove(engine, self.rates, self.batch, rounds, horizon, played, heard)
        if self._exp2.masks is not None:
            promise = promises.masked(promise, self._exp2.masks.made)
        return within_shares(promise, engine)

    def _printed(self, rounds: int) -> Guarantee | None:
        if self.settings.tuning != "paper" or self.engine.problem.log_prior == 0:
            return None
        at_once = self._exp2.late == self._exp2.at_once == self.ledger.unheard == 0
        at_once &= self._exp2.masks is None
        n, width = self.settings.horizon, self.engine.high - self.engine.low
        assert n is not None
        return paper.bandit_guarantee(self.engine.printed, n, width * n, at_once)

    # Snapshots.

    def _save(self) -> dict[str, Any]:
        if isinstance(self._player, (SharedExp2, Apart)):
            return save_player(self._player)
        engine = self.engine
        kind = "points" if isinstance(engine, PointsEngine) else "ball"
        if isinstance(engine, ArmsEngine):
            kind = "arms"
        return {"kind": kind, "engine": engine.to_dict(), "exp2": self._exp2.to_dict()}

    def _load(self, data: Reader) -> None:
        settings = self.settings
        if settings.contexts is not None:
            if settings.manner != "alone":
                self._play_contexts(load_player(data, settings))
                return
            settings = in_context(settings, 0)
        kind = data.word("kind", ("points", "arms", "ball"))
        if (kind == "arms") != (settings.loss_class == "any"):
            data.refuse("kind", "must be that of the losses", kind)
        if (kind == "ball") != plays_ball(settings):
            data.refuse("kind", "must be that of the actions", kind)
        engine: Engine
        if kind in ("points", "arms"):
            made = PointsEngine if kind == "points" else ArmsEngine
            engine = made.from_dict(data.part("engine"), settings)
        else:
            from koloss.learners.bandit.ball import BallEngine

            engine = BallEngine.from_dict(data.part("engine"), settings)
        made_of = Exp2 if self.settings.contexts is None else Alone
        self._exp2 = made_of.from_dict(engine, data.part("exp2"), settings.horizon)
        if isinstance(self._exp2, Alone):
            self._player = self._exp2

    def _law_from_dict(self, data: Reader) -> Epoch | Masked:
        if isinstance(self._player, Apart):
            return self._player.turn_from_dict(data)  # type: ignore[return-value]
        return self._exp2.law_from_dict(data)

    def _keys(self, data: Reader, name: str, count: int) -> Sequence[Any]:
        if isinstance(self._player, Apart):
            return self._player.keys(data, name, count)
        return self.engine.keys(data, name, count)

    def _check(self, data: Reader) -> None:
        exp2, ledger = self._exp2, self.ledger
        if self._player is not None:
            check_player(self._player, ledger, data)
        if not isinstance(self._player, Apart):
            exp2.epoch = ledger.current if isinstance(ledger.current, Epoch) else None
        check_rows(data, ledger)
        horizon = self.settings.horizon
        own = horizon if isinstance(self._player, Apart) else exp2.horizon
        if (exp2.made, exp2.heard, own) != (ledger.made, ledger.heard, horizon):
            counts = [exp2.made, exp2.heard, own]
            data.refuse("learner.exp2", "must have the counts of the ledger", counts)
        exp2.check(data)
        super()._check(data)
