"""Algorithm 1 of the paper: exponential weights under bandit feedback, in epochs, with late feedback.

In each round the player draws an action from p = (1 - γ)q + γπ, where π is an exploration design and

    q(a) ∝ prior(a) exp(-η θ'φ(a)),

hears the loss of that action alone, and adds to θ the estimate ŵ = Σ⁻¹φ(a)·loss with Σ = E_p φφ'. Losses,
never rewards: smaller is better.

Departures from the box, and why:

- Line 2, q₁ = ν_J: exponential weights never leave the support of q₁, so q₁ is the prior, uniform by default.
- ν_J: the G-optimal design around the origin; centring the features would bias ŵ.
- γ = ηLG/κ with the design's certified leverage G, in place of 4η𝒢⁴m.
- Lines 4 to 8 are done for an epoch at a time: p, Σ and its inverse stay fixed, so that actions can be drawn and
  losses used in bulk, and a late loss is used with the Σ of the epoch in which its action was drawn.
- Features are whitened once, Σ(π) = I. Then Σ ⪰ γI, and the leverage of an action is a squared norm.
- The state is θ, not N weights; weights are made from it in log space.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Literal, Self

import numpy as np

from koloss._arrays import as_int
from koloss.actions import ActionSet
from koloss.designs import Design
from koloss.guarantees import Guarantee, bandit
from koloss.kernels.base import KernelLike
from koloss.learners._former import (
    Decision,
    Decisions,
    as_losses,
    check_range,
    decision_ids,
    find_outstanding,
    generator_of,
    generator_state,
    new_mark,
    seal,
    unseal,
)
from koloss.learners.bandit.epoch import Epoch
from koloss.learners.bandit.guarantee import guarantee
from koloss.learners.bandit.records import BanditDiagnostics, Recommendation, Tally
from koloss.learners.bandit.setup import (
    Adversary,
    Setup,
    Tuning,
    needs_no_net,
    prepare,
    probability_of,
)
from koloss.proxy import Proxy

BALL = "BallBandit"
"""Kind of the snapshots of the learner on a ball, which is imported only where it is needed."""


class BanditExpWeights:
    """Exponential weights under bandit feedback (Algorithm 1), EXP2 with a G-optimal design in an RKHS.

    On a ball with linear or quadratic losses it plays the ball itself, and is a `BallBandit`; see there for what
    differs. With any of `proxy`, `rank`, `exploration`, `spacing` or `tuning` it plays a net there, too.

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
        Φ(y), y an action).
    tuning : "sharp" or "paper"
        Rates that minimise the proved bound, or those of the paper's Corollary.
    proxy : str or Proxy, optional
        "pivoted_cholesky", "kernel_pca", "exact_features", or one ready made. By default exact features
        where the kernel has up to 500, otherwise pivoted Cholesky.
    rank : int or "auto"
        Number of features; by default the one that minimises the bound.
    exploration : "john", "spanner", "uniform" or Design
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
    adversary : "rank-one" or "general"
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
    """

    _prepare = staticmethod(prepare)
    _setup_type: Any = Setup
    _epoch_type: Any = Epoch

    def __new__(cls, actions: Any = None, kernel: Any = None, **settings: Any) -> Self:
        """The learner for these actions and this kernel: this one, or `BallBandit`."""
        if cls is BanditExpWeights and needs_no_net(actions, kernel, settings):
            from koloss.learners.bandit.ball import BallBandit

            return object.__new__(BallBandit)  # type: ignore[return-value]
        return object.__new__(cls)

    def __init__(
        self,
        actions: ActionSet,
        kernel: KernelLike,
        *,
        horizon: int | None,
        loss_bound: float | None = None,
        loss_range: tuple[float, float] | None = None,
        loss_norm: float | None = None,
        tuning: Tuning = "sharp",
        proxy: str | Proxy | None = None,
        rank: int | Literal["auto"] = "auto",
        exploration: str | Design = "john",
        batch: int | Literal["auto"] = "auto",
        covariance: Literal["exact", "sampled"] = "exact",
        sample_error: float = 0.1,
        bonus: bool = False,
        prior: Any = None,
        adversary: Adversary = "rank-one",
        delay: int = 0,
        learning_rate: float | None = None,
        exploration_rate: float | None = None,
        spacing: float | None = None,
        rng: Any = None,
    ) -> None:
        setup = self._prepare(
            actions,
            kernel,
            horizon=horizon,
            loss_bound=loss_bound,
            loss_range=loss_range,
            loss_norm=loss_norm,
            tuning=tuning,
            proxy=proxy,
            rank=rank,
            exploration=exploration,
            batch=batch,
            covariance=covariance,
            sample_error=sample_error,
            bonus=bonus,
            prior=prior,
            adversary=adversary,
            delay=delay,
            learning_rate=learning_rate,
            exploration_rate=exploration_rate,
            spacing=spacing,
        )
        self._start(setup, np.random.default_rng(rng), new_mark())

    def _start(self, setup: Any, rng: np.random.Generator, mark: str) -> None:
        self.setup, self._rng, self._mark = setup, rng, mark
        self._theta = np.zeros(setup.problem.rank)  # Σ of all estimates
        self._bonus = np.zeros(len(setup.points)) if setup.problem.bonus else None
        self._tally = Tally()
        # id: what was drawn (an index here), epoch, losses heard by then
        self._outstanding: dict[int, tuple[Any, int, int]] = {}
        self._epochs: dict[int, Epoch] = {}  # the current one, and those with losses to come
        self._epoch: Epoch | None = None
        self._ready()

    def _ready(self) -> None:
        """What else these actions need to play."""
        self._buffer = np.empty_like(self.setup.features)

    # Algorithm 1.

    @property
    def actions(self) -> Any:
        """The actions in play, an array of shape (N, d)."""
        return self.setup.points

    def ask(self, count: int | None = None) -> Any:
        """Draw an action (lines 4 and 5), or `count` of them as one epoch.

        Parameters
        ----------
        count : int, optional

        Returns
        -------
        Decision, or Decisions where there is a count
        """
        if count is None:
            epoch = self._open(whole=False) if self._is_over() else self._epoch
            assert epoch is not None
            drawn, action, index, probability = self._draw_one(epoch)
            first = self._book(epoch, (drawn,))
            return Decision(first, action, index, probability, epoch.number, self._mark)
        count, tally = as_int("count", count, minimum=1), self._tally
        epoch = self._open(whole=count > 1)
        drawn, action, index, probability = self._draw(epoch, count)
        first = self._book(epoch, drawn)
        if epoch.whole:
            tally.whole += count
            tally.longest_whole = max(tally.longest_whole, count)
        ids, epochs = np.arange(first, first + count), np.full(count, epoch.number)
        return Decisions(ids, action, index, probability, epochs, self._mark)

    def _draw_one(self, epoch: Epoch) -> tuple[Any, Any, int | None, float | None]:
        """What is drawn, for the book, and the action, index and probability of a decision (line 5)."""
        index = int(epoch.draw(self._rng.random()))
        return index, self.setup.points[index], index, float(epoch.p[index])

    def _draw(self, epoch: Epoch, count: int) -> tuple[Any, Any, Any, Any]:
        """The same for several."""
        index = epoch.draw(self._rng.random(count))
        return index.tolist(), self.setup.points[index], index, epoch.p[index]

    def tell(self, decision: Any, loss: Any) -> None:
        """Hear the loss of a decision, or the losses of several, in any order and at any time.

        Parameters
        ----------
        decision : Decision, Decisions, id, or a sequence of these
        loss : float or array
            Smaller is better.

        Raises
        ------
        UnknownDecision
            Told already, never made, or made by another learner.
        LossOutOfBounds
            Outside the interval that was promised.
        """
        ids = decision_ids(decision, self._mark)
        losses = as_losses(loss, len(ids))
        known = self._check(ids, losses)
        # Nothing can go wrong from here on.
        for i in ids:
            del self._outstanding[i]
        epoch = self._epoch
        if epoch is not None and epoch.whole and all(entry[1] == epoch.number for entry in known):
            self._hear(epoch, [entry[0] for entry in known], losses)
            return
        for k, (drawn, number, before) in enumerate(known):
            self._tally.longest_delay = max(self._tally.longest_delay, self._tally.heard - before)
            self._hear(self._epochs[number], drawn, losses[k])

    def _hear(self, epoch: Epoch, drawn: Any, loss: Any) -> None:
        """Add ŵ = Σ⁻¹φ(a)·loss, with the Σ of the epoch in which the actions were drawn (line 8)."""
        count = np.size(loss)
        estimate = self._estimate(epoch, drawn, (loss - self.setup.center) * epoch.weight)
        self._theta += estimate
        if self._bonus is not None:
            self._bonus += count * epoch.weight * epoch.bonus
        self._tally.mass += count * epoch.weight
        self._tally.heard += count
        epoch.waiting -= count
        if epoch.over:
            self._tally.late += count
            if epoch.waiting == 0 and epoch is not self._epoch:
                del self._epochs[epoch.number]
            return
        epoch.heard += count
        epoch.gain = epoch.gain + estimate
        if not epoch.whole and self.setup.batch > 1 and epoch.has_drifted(self.setup):
            epoch.end()

    def _estimate(self, epoch: Epoch, drawn: Any, losses: Any) -> Any:
        return epoch.estimate(self.setup.features[drawn], losses)

    def _mixture(self, eta: float, gamma: float) -> Any:
        """p = (1 - γ)q + γπ with q ∝ prior exp(-η θ'φ), in log space (lines 4 and 9)."""
        score = self.setup.features @ self._theta
        if self._bonus is not None:
            score -= self._bonus
        log_q = self.setup.log_prior - eta * score
        q = np.exp(log_q - log_q.max())
        return (1 - gamma) / q.sum() * q + gamma * self.setup.design

    # Epochs and the book of decisions.

    def _is_over(self) -> bool:
        """Whether the next single decision needs a new epoch."""
        epoch = self._epoch
        return epoch is None or epoch.over or epoch.whole or epoch.draws >= self.setup.batch

    def _open(self, *, whole: bool) -> Epoch:
        """Begin a new epoch."""
        if self._epoch is not None:
            self._epoch.end()
            if self._epoch.waiting == 0:
                del self._epochs[self._epoch.number]
        self._tally.epochs += 1
        epoch = self._new_epoch(*self._rates(), whole)
        self._epoch = self._epochs[epoch.number] = epoch
        return epoch

    def _new_epoch(self, eta: float, gamma: float, whole: bool) -> Epoch:
        return Epoch.open(
            self._tally.epochs,
            self.setup,
            self._mixture(eta, gamma),
            eta,
            gamma,
            whole=whole,
            rng=self._rng,
            buffer=self._buffer,
        )

    def _rates(self) -> tuple[float, float]:
        """η and γ of an epoch that begins now."""
        setup = self.setup
        if setup.horizon is not None:
            return setup.rates.learning_rate, setup.rates.exploration
        if setup.problem.log_prior == 0:
            return 1.0, 1.0
        t = self._tally.made + 1
        eta = bandit.anytime_rate(setup.problem_at(t), setup.rates.kappa, t)
        return eta, min(1.0, setup.problem.exploration(eta, setup.rates.kappa))

    def _book(self, epoch: Epoch, drawn: Any) -> int:
        """Enter decisions into the book; the id of the first."""
        first, heard = self._tally.made, self._tally.heard
        for i, entry in enumerate(drawn, start=first):
            self._outstanding[i] = (entry, epoch.number, heard)
        self._tally.made += len(drawn)
        epoch.draws += len(drawn)
        epoch.waiting += len(drawn)
        return first

    def _check(self, ids: list[int], losses: Any) -> list[tuple[Any, int, int]]:
        """What the book says of some decisions, if all may be told these losses."""
        known = find_outstanding(self._outstanding, ids, self._tally.made)
        check_range(losses, self.setup.low, self.setup.high)
        return known

    # What it knows.

    @property
    def distribution(self) -> Any:
        """Probability of every action in the next `ask()`."""
        if self._epoch is not None and not self._is_over():
            return self._epoch.p.copy()
        return self._mixture(*self._rates())

    def probability(self, actions: Any) -> Any:
        """Probability of some actions in the next `ask()`: rows of coordinates, or indices.

        Equal points count together.
        """
        return probability_of(self.setup.points, self.distribution, actions)

    def recommend(self) -> Recommendation:
        """The best action so far by the estimates."""
        estimates = self._estimates()
        index = int(np.argmin(estimates))
        return Recommendation(index, self.setup.points[index], float(estimates[index]))

    def _estimates(self) -> Any:
        """Estimated mean loss of every action."""
        return self.setup.features @ self._theta / max(self._tally.mass, 1.0) + self.setup.center

    def guarantee(self, *, rounds: int | None = None, printed: bool | None = None) -> Guarantee:
        """The regret bound, term by term.

        Parameters
        ----------
        rounds : int, optional
            After so many rounds; by default the horizon, or the rounds played where there is none.
        printed : bool, optional
            With the paper's tuning: the bound as the paper prints it (the default), or what is proved for
            the same parameters.
        """
        rounds = None if rounds is None else as_int("rounds", rounds, minimum=1)
        return guarantee(self.setup, self._tally, len(self._outstanding), rounds, printed)

    @property
    def diagnostics(self) -> BanditDiagnostics:
        """What an operator may want to see."""
        epoch, tally = self._epoch, self._tally
        eta, gamma = self._rates() if epoch is None else (epoch.eta, epoch.gamma)
        drift = 0.0
        if epoch is not None:
            drift = epoch.anchor_drift if epoch.over else epoch.drift(self.setup)
        return BanditDiagnostics(
            epoch=tally.epochs,
            rounds=tally.made,
            heard=tally.heard,
            outstanding=len(self._outstanding),
            late=tally.late,
            learning_rate=eta,
            exploration=gamma,
            drift=drift,
            **self._insight(),
        )

    def _insight(self) -> dict[str, Any]:
        """The rest of the diagnostics."""
        p, epoch = self.distribution, self._epoch
        leverages = [0.0] if epoch is None else epoch.leverages(self.setup.features)
        return {
            "entropy": float(-np.sum(p[p > 0] * np.log(p[p > 0]))),
            "max_leverage": float(np.max(leverages)),
            "estimated_losses": self._estimates(),
        }

    # Snapshots.

    def state(self) -> dict[str, Any]:
        """A snapshot: arrays, numbers and strings, with the generator's state."""
        return seal(
            type(self).__name__,
            {
                "setup": self.setup.to_dict(),
                "mark": self._mark,
                "rng": generator_state(self._rng),
                "theta": self._theta.copy(),
                "bonus": None if self._bonus is None else self._bonus.copy(),
                "tally": asdict(self._tally),
                "epochs": [epoch.to_dict() for epoch in self._epochs.values()],
                "epoch": None if self._epoch is None else self._epoch.number,
                **self._own_state(),
            },
        )

    def _own_state(self) -> dict[str, Any]:
        """The book of decisions, and what else depends on the kind of actions."""
        book = [(i, *entry) for i, entry in self._outstanding.items()]
        return {"outstanding": np.asarray(book, dtype=np.int64).reshape(-1, 4)}

    def _restore(self, data: Mapping[str, Any]) -> None:
        """Take back what `_own_state` gave."""
        book = np.asarray(data["outstanding"]).tolist()
        self._outstanding = {i: (index, epoch, heard) for i, index, epoch, heard in book}

    @classmethod
    def from_state(cls, state: Any) -> Self:
        """The learner of a snapshot, which goes on exactly where it was taken.

        Raises
        ------
        SnapshotError
            Where the snapshot is damaged, of another kind, or from a newer version.
        """
        if cls is BanditExpWeights and isinstance(state, Mapping) and state.get("kind") == BALL:
            from koloss.learners.bandit.ball import BallBandit

            return BallBandit.from_state(state)  # type: ignore[return-value]
        data = unseal(cls.__name__, state)
        learner = cls.__new__(cls)
        setup = cls._setup_type.from_dict(data["setup"])
        learner._start(setup, generator_of(data["rng"]), data["mark"])
        learner._theta = np.array(data["theta"])
        learner._bonus = None if data["bonus"] is None else np.array(data["bonus"])
        learner._tally = Tally(**data["tally"])
        learner._epochs = {e["number"]: cls._epoch_type(**e) for e in data["epochs"]}
        learner._epoch = None if data["epoch"] is None else learner._epochs[data["epoch"]]
        learner._restore(data)
        return learner
