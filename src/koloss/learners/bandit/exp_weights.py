"""`BanditExpWeights`: Algorithm 1 of the paper as a learner that is asked and told. `exp2` has the algorithm itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from koloss.actions import ActionSet, Contexts
from koloss.core.arrays import as_flag, as_int, as_interval
from koloss.core.snapshot import kept
from koloss.designs import Design
from koloss.errors import NoDistribution
from koloss.guarantees import Guarantee, promises
from koloss.guarantees.bandit import Rates
from koloss.kernels.base import KernelLike
from koloss.learners.bandit.diagnostics import BanditDiagnostics, diagnose
from koloss.learners.bandit.engine import Engine
from koloss.learners.bandit.exp2 import Epoch, Exp2, Other
from koloss.learners.bandit.on_ball import OnBall
from koloss.learners.bandit.per_context import PerContext
from koloss.learners.bandit.points import PointsEngine
from koloss.learners.bandit.promised import (
    checked_confidence,
    for_other_losses,
    printed_by,
)
from koloss.learners.bandit.realised import realise
from koloss.learners.bandit.settings import BanditSettings
from koloss.learners.bandit.setup import player_for
from koloss.learners.bandit.subsets import Bools, Roster, as_rows
from koloss.learners.base import Recommendation, refuse_extras
from koloss.learners.ledger import Drawn
from koloss.learners.losses import read_losses
from koloss.learners.sharing import locked
from koloss.learners.waiting import Entry, Late, keys_of
from koloss.proxy import Proxy

Floats = NDArray[np.float64]


@kept
class BanditExpWeights(OnBall):
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
        with bandwidths of 1/2, 1/4, 1/8, ... of the range of each coordinate: no narrower than the actions are
        apart, each with a bound below half of the trivial one, and together with at most half of that of a `loss_class`
        of "any". The guarantee names the norm that it allows at each bandwidth, half as large from one
        to the next in two dimensions. It is no better than the smallest bandwidth needs: name one where it is known.
    horizon : int or None
        Number n of rounds; None for rates that need no horizon (√2 times the bound).
    loss_bound : float, optional
        L ≥ |loss|; by default 𝒢 times `loss_norm`, 𝒢² = sup K(a, a): 1 for a Gaussian kernel.
    loss_range : (float, float) or "learn", optional
        One interval that holds all losses of all rounds. Then a constant feature is added and losses are
        centred, which halves the bound for losses in [0, L]. "learn": neither range nor location is known, the rates go
        by what was heard before, and the bound is a multiple of the range ρ (theory F3).
    outside : "raise", "widen" or "clip"
        What becomes of a loss outside the interval stated: an error; a wider interval, for which the guarantee charges; or one
        above counts as the high end (of rewards, one below as the low end), and only one on the other side is an error. The
        guarantee is then for losses as they count, and says what it is for losses as they are.
    loss_norm : float, optional
        W: bound on the RKHS norm of losses up to a constant, or on Σ|c_i| for "rank-one" losses, in the units of the losses;
        in units of their range where that is learned. Nothing is assumed of it by default where the kernel has up to 500
        features: losses are anything in their span, and units of coordinates do not matter (theory B6); nor on a ball where there
        is a `loss_bound` or `loss_range`. Otherwise, or with a `ridge` or a smaller `rank`, twice the least with which a loss can
        fill the range (theory F2); without a range 1, or 𝒢 where that is larger and losses are not "rank-one". A norm that is
        stated is that of the kernel in your own coordinates.
    tuning : "sharp" or "paper"
        Rates that minimise the proved bound, or those of the paper's Corollary.
    proxy : str or Proxy, optional
        "pivoted_cholesky", "kernel_pca", "exact_features", or one ready made. By default exact features
        where the kernel has up to 500, otherwise pivoted Cholesky.
    rank : int or "auto"
        Number of features; by default all where no norm is assumed, all that matter to the bound with a ridge, and without one as many as minimise it, but
        never so many that a refresh takes much more than a tenth of a second: 366 for 3,721 points. A number lifts that limit.
    design : "john", "spanner", "uniform" or Design
        Where to explore.
    batch : int or "auto"
        Most rounds in an epoch of single decisions: by default one where a new law costs little (N m² up to 500,000, for N
        actions and m features), otherwise a quarter of the (effective) dimension. Such an epoch ends early once weights have
        moved too far (theory B3′). `ask(count)` makes an epoch of its own.
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
        mapping from contexts to actions. Where they have `weights` and there is a horizon, contexts are drawn independently by
        these weights, and all of them learn from every loss; the ridge is then on features of pairs, chosen for the weights.
        Otherwise contexts may come in any order, and each has a learner of its own that does all that one without contexts does.
        A context may allow some of the actions (`kl.Contexts(allowed=...)`). One context is no context.
    context_kernel : Kernel or "pairs", optional
        On contexts, to be multiplied by `kernel`: how much they have in common. "pairs": `kernel` itself takes rows that hold the
        coordinates of a context and then those of an action. By default two labels have a half in common, coordinates get
        a Gaussian kernel with bandwidths of half their ranges, and every context has a level of its own.
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

    settings: BanditSettings
    _exp2: Exp2 | PerContext  # who plays: Algorithm 1 once, on pairs, or once per context
    _roster: Roster

    def __init__(
        self,
        actions: ActionSet,
        kernel: KernelLike | Literal["auto"],
        *,
        horizon: int | None,
        loss_bound: float | None = None,
        loss_range: tuple[float, float] | Literal["learn"] | None = None,
        outside: Literal["raise", "clip", "widen"] = "raise",
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
        rng: Any = None,
    ) -> None:
        settings = BanditSettings.of(locals())
        self._play(player_for(settings))
        self._begin(settings, rng)

    def _play(self, player: Exp2 | PerContext) -> None:
        self._exp2, self._roster = player, Roster(player.engine.rows or 0)

    def __repr__(self) -> str:
        return f"{super().__repr__()}  # {self.engine.size}"

    @locked
    def replicate(self, rng: Any = None) -> BanditExpWeights:
        """Another learner with the same settings and features, which has not begun to play; nothing is prepared twice."""
        other = object.__new__(type(self))
        other._play(self._exp2.fresh())
        other._begin(self.settings, rng)
        return other

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

    def _draw(self, count: int | None, context: Any, allowed: Any) -> tuple[Any, Drawn]:
        rows = self._row(context, count)
        if allowed is not None:
            self._check_own("`allowed` must be left out")
            allowed = self._allowed(allowed)
        return self._exp2.draw(count, self._rng, self._roster.among(allowed), rows)

    def _row(self, context: Any, count: int | None = None) -> Any:
        """Row of a context, or those of several; None where there are none."""
        contexts = self.settings.contexts
        if contexts is None:
            return None if context is None else refuse_extras(context, None)
        return contexts.find(context) if count is None else contexts.find_all(context, count)

    def _check_own(self, refusal: str) -> None:
        """Refuse what one learner for all pairs does not do."""
        if self.settings.shared:
            why = "contexts share what they learn: without `weights` each has a learner of its own"
            raise ValueError(f"{refusal} where {why}")

    def _limits(self) -> tuple[float, float]:
        return self._exp2.range.limits

    def _read(self, entries: Sequence[Entry[Epoch]], loss: Any) -> Sequence[Any]:
        low, high = self._exp2.range.limits
        return read_losses(loss, len(entries), low, high, self._exp2.engine.sign)

    def _learn(
        self,
        law: Any,
        entries: Sequence[Entry[Epoch]],
        losses: Sequence[Any],
    ) -> None:
        assert law is not None
        self._exp2.learn(law, keys_of(entries), losses)

    @locked
    def widen(self, low: float, high: float) -> None:
        """Go by a wider interval of losses from now on (of rewards, where those are told), before one outside is heard.

        For `outside="widen"`, where a loss outside would do the same; the guarantee charges it alike.
        """
        low, high = as_interval("loss_range", (low, high))
        if self.settings.outside != "widen":
            raise ValueError(
                "`widen` is for learners whose `outside` is 'widen', got "
                f"{self.settings.outside!r}: the rates and the guarantee are for the interval stated"
            )
        exp2 = self._exp2
        ends = (low, high) if exp2.engine.sign > 0 else (-high, -low)
        before = exp2.range.heard_low, exp2.range.heard_high
        if ends[0] > before[0] or ends[1] < before[1]:
            raise ValueError(
                f"`loss_range` must hold what it was, {before}, where losses count, got {ends}"
            )
        if exp2.range.hear(ends):
            exp2.stop()

    def _condensed(self, law: Any, keys: Sequence[Any]) -> list[Late] | None:
        return self._exp2.condensed(law, keys)

    # What it knows.

    @property
    @locked
    def distribution(self) -> Floats:
        if self.settings.contexts is not None:
            raise NoDistribution(
                "`distribution` is for learners without contexts; with them there is `distribution_for(context)`"
            )
        if not isinstance(self.engine, PointsEngine):
            raise NoDistribution(
                "`distribution` is for finite sets; on a ball there is `log_density`"
            )
        return self._exp2.outlook(self._roster.among(None))

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
        if self.settings.contexts is None:
            raise NoDistribution(
                "`distribution_for` is for learners with contexts; without there is `distribution`"
            )
        if not isinstance(self.engine, PointsEngine):
            raise NoDistribution("`distribution_for` is for finite sets of actions")
        return self._exp2.outlook(self._roster.among(None), self._row(context))

    @locked
    def recommend(self, context: Any = None) -> Recommendation:
        """The best action so far by the estimates, in a context where there are contexts; on a ball the global minimum of a quadratic."""
        row = self._row(context)
        return self._named(self._exp2.recommend(self._roster.among(None), row))

    @property
    @locked
    def diagnostics(self) -> BanditDiagnostics:
        """What an operator may want to see."""
        seen = diagnose(self._exp2, self.ledger.awaited, self._roster.among(None))
        if seen.contexts is None and self.settings.contexts is not None:  # there is one
            return replace(seen, contexts=np.array([seen.rounds]))
        return seen

    # Actions that come and go.

    @property
    @locked
    def available(self) -> Bools:
        """Which actions are on offer now."""
        return self._roster.offered.copy()

    @locked
    def withdraw(self, rows: Any) -> None:
        """Offer some actions no more, by their rows, or the params of a `Space`. Losses of decisions for them that are still open are used as always.

        Before the first decision: actions that are not on offer yet. The guarantee against an action counts the rounds in which it could be
        chosen, if when it is withdrawn does not depend on actions or losses not yet received.
        """
        gone = self._rows("rows", rows)
        if len(gone):
            offered, contexts = self._roster.without(gone), self.settings.contexts
            masks = None if contexts is None else contexts.allowed
            if masks is not None and not (masks & offered).any(axis=1).all():
                rule = "must leave an action in every context"
                raise ValueError(f"`rows` {rule}, got {gone.tolist()}")
            self._roster.offer(offered)

    @locked
    def add(self, rows: Any) -> None:
        """Offer actions that are not, by their rows, or the params of a `Space`.

        An action begins with the share of the weight that its prior has. One that was offered before begins anew.

        Examples
        --------
        >>> import koloss as kl
        >>> prices = kl.Points([[0.0], [0.5], [1.0]])
        >>> learner = kl.BanditExpWeights(
        ...     prices, kl.Gaussian(0.5), horizon=100, loss_range=(0, 1), rng=0
        ... )
        >>> learner.withdraw(2)
        >>> learner.distribution[2].item(), learner.available.tolist()
        (0.0, [True, True, False])
        >>> learner.add(2)
        >>> learner.distribution[2] > 0.2
        np.True_
        """
        new = self._rows("rows", rows)
        if len(new):
            offered = self._roster.including(new)
            self._exp2.add(new)
            self._roster.offer(offered)

    def _rows(self, name: str, rows: Any) -> NDArray[np.int64]:
        """Rows of actions that come or go."""
        if not isinstance(self.engine, PointsEngine):
            raise ValueError(
                f"to add or withdraw actions is for finitely many, got {self.actions!r}: `spacing` plays a net"
            )
        self._check_own("actions do not come and go")
        return as_rows(name, rows, len(self.engine.points), self.settings.actions)

    # The bound.

    def guarantee(
        self,
        *,
        rounds: int | None = None,
        printed: bool | None = None,
        loss_norm: float | None = None,
        misfit: float | None = None,
        confidence: float | None = None,
        realised: bool = False,
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
        realised : bool, default False
            Of the rounds played so far: the estimated regret, one draw of what bounds the regret on average (theory R). With a
            `confidence`, where `regret` is "hindsight", a bound for this game.
        """
        if as_flag("realised", realised):
            said = {"rounds": rounds, "printed": printed, "loss_norm": loss_norm, "misfit": misfit}
            for name, value in said.items():
                if value is not None:
                    raise ValueError(
                        f"`{name}` must be left out where `realised` is True, got {value!r}"
                    )
            return self._realised(confidence)
        if confidence is not None:
            confidence = checked_confidence(confidence, self._exp2, self.settings)
            promise = self.guarantee(
                rounds=rounds, printed=printed, loss_norm=loss_norm, misfit=misfit
            )
            return promises.with_confidence(promise, self.engine.problem, self.rates, confidence)
        for name, value in (("loss_norm", loss_norm), ("misfit", misfit)):
            if value is not None:
                self._check_own(f"`{name}` must be left out")
        if loss_norm is None and misfit is None:
            return super().guarantee(rounds=rounds, printed=printed)
        if printed:
            raise ValueError("`printed` must be left out beside `loss_norm` or `misfit`")
        n = self.settings.horizon or max(self.ledger.made, 1)
        n = n if rounds is None else as_int("rounds", rounds, minimum=1)
        other = partial(
            for_other_losses, settings=self.settings, loss_norm=loss_norm, misfit=misfit
        )
        return self._beside_random(self._proved(n, other))

    @locked
    def _realised(self, confidence: float | None) -> Guarantee:
        if confidence is not None:
            confidence = checked_confidence(confidence, self._exp2, self.settings, realised=True)
        promise = self._proved(max(self.ledger.made, 1))
        return self._beside_random(realise(self._exp2.each, promise, confidence))

    @locked
    def _proved(self, rounds: int, other: Other = None) -> Guarantee:
        played = self._exp2.played(self.ledger.longest_wait, self.ledger.unheard)
        return self._exp2.proved(rounds, played, self._roster.among(None), other)

    def _printed(self, rounds: int) -> Guarantee | None:
        return printed_by(self._exp2, self.settings, self.ledger)

    @classmethod
    def _know_all(cls) -> None:
        from koloss.learners.bandit import ball  # noqa: F401
