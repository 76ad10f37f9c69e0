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

from dataclasses import asdict
from typing import Any, Literal, Self

import numpy as np

from koloss._arrays import as_int, as_points, to_numpy
from koloss.actions import ActionSet
from koloss.designs import Design
from koloss.errors import LossOutOfBounds, UnknownDecision
from koloss.guarantees import Guarantee, bandit
from koloss.kernels.base import KernelLike
from koloss.learners.bandit_epoch import Epoch
from koloss.learners.bandit_guarantee import guarantee
from koloss.learners.bandit_records import BanditDiagnostics, Recommendation, Tally
from koloss.learners.bandit_setup import Adversary, Setup, Tuning, prepare
from koloss.learners.base import (
    Decision,
    Decisions,
    as_losses,
    decision_ids,
    generator_of,
    generator_state,
    new_mark,
    seal,
    unseal,
)
from koloss.proxy import Proxy


class BanditExpWeights:
    """Exponential weights under bandit feedback (Algorithm 1), EXP2 with a G-optimal design in an RKHS.

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
        setup = prepare(
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

    def _start(self, setup: Setup, rng: np.random.Generator, mark: str) -> None:
        self.setup, self._rng, self._mark = setup, rng, mark
        self._theta = np.zeros(setup.features.shape[1])  # Σ of all estimates
        self._bonus = np.zeros(len(setup.points)) if setup.problem.bonus else None
        self._buffer = np.empty_like(setup.features)
        self._tally = Tally()
        # id: index, epoch, losses heard by then
        self._outstanding: dict[int, tuple[int, int, int]] = {}
        self._epochs: dict[int, Epoch] = {}  # the current one, and those with losses to come
        self._epoch: Epoch | None = None

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
        points, tally = self.setup.points, self._tally
        if count is None:
            epoch = self._open(whole=False) if self._is_over() else self._epoch
            assert epoch is not None
            index = int(epoch.draw(self._rng.random()))
            first = self._book(epoch, (index,))
            return Decision(
                first, points[index], index, float(epoch.p[index]), epoch.number, self._mark
            )
        count = as_int("count", count, minimum=1)
        epoch = self._open(whole=count > 1)
        index = epoch.draw(self._rng.random(count))
        first = self._book(epoch, index.tolist())
        if epoch.whole:
            tally.whole += count
            tally.longest_whole = max(tally.longest_whole, count)
        return Decisions(
            np.arange(first, first + count),
            points[index],
            index,
            epoch.p[index],
            np.full(count, epoch.number),
            self._mark,
        )

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
        for k, (index, number, before) in enumerate(known):
            self._tally.longest_delay = max(self._tally.longest_delay, self._tally.heard - before)
            self._hear(self._epochs[number], index, losses[k])

    def _hear(self, epoch: Epoch, index: Any, loss: Any) -> None:
        """Add ŵ = Σ⁻¹φ(a)·loss, with the Σ of the epoch in which the actions were drawn (line 8)."""
        count = np.size(loss)
        estimate = epoch.estimate(
            self.setup.features[index], (loss - self.setup.center) * epoch.weight
        )
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
        eta, gamma = self._rates()
        self._tally.epochs += 1
        epoch = Epoch.open(
            self._tally.epochs,
            self.setup,
            self._mixture(eta, gamma),
            eta,
            gamma,
            whole=whole,
            rng=self._rng,
            buffer=self._buffer,
        )
        self._epoch = self._epochs[epoch.number] = epoch
        return epoch

    def _rates(self) -> tuple[float, float]:
        """η and γ of an epoch that begins now."""
        setup = self.setup
        if setup.horizon is not None:
            return setup.rates.learning_rate, setup.rates.exploration
        if setup.problem.log_prior == 0:
            return 1.0, 1.0
        eta = bandit.anytime_rate(setup.problem, setup.rates.kappa, self._tally.made + 1)
        return eta, min(1.0, setup.problem.exploration(eta, setup.rates.kappa))

    def _book(self, epoch: Epoch, indices: Any) -> int:
        """Enter decisions into the book; the id of the first."""
        first, heard = self._tally.made, self._tally.heard
        for i, index in enumerate(indices, start=first):
            self._outstanding[i] = (index, epoch.number, heard)
        self._tally.made += len(indices)
        epoch.draws += len(indices)
        epoch.waiting += len(indices)
        return first

    def _check(self, ids: list[int], losses: Any) -> list[tuple[int, int, int]]:
        """What the book says of some decisions, if all may be told these losses."""
        try:
            known = [self._outstanding[i] for i in ids]
        except KeyError as error:
            i = error.args[0]
            what = "told already" if 0 <= i < self._tally.made else "never made"
            message = f"`decision` must be outstanding, got {i}, which was {what}"
            raise UnknownDecision(message) from None
        if len(ids) > 1 and len(set(ids)) < len(ids):
            raise UnknownDecision("`decision` must not repeat an id, got one twice")
        low, high = self.setup.low, self.setup.high
        slack = 1e-9 * (high - low)
        for value in (losses.min(), losses.max()) if len(losses) > 1 else losses:
            if not low - slack <= value <= high + slack:
                raise LossOutOfBounds(f"`loss` must be in [{low:.6g}, {high:.6g}], got {value:.6g}")
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
        p = self.distribution
        if np.ndim(actions) <= 1 and np.issubdtype(np.asarray(actions).dtype, np.integer):
            return p[actions]
        X = to_numpy(as_points("actions", actions, dimension=self.setup.points.shape[1]))
        same = np.all(
            np.isclose(X[:, None, :], self.setup.points[None], rtol=1e-12, atol=1e-12), axis=2
        )
        if not same.any(axis=1).all():
            raise ValueError(
                f"`actions` must be actions in play, got {X[np.argmin(same.any(axis=1))]}"
            )
        return same @ p

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
        p, epoch, tally = self.distribution, self._epoch, self._tally
        eta, gamma = self._rates() if epoch is None else (epoch.eta, epoch.gamma)
        features, drift = self.setup.features, 0.0
        if epoch is not None:
            drift = epoch.anchor_drift if epoch.over else epoch.drift(features)
        return BanditDiagnostics(
            epoch=tally.epochs,
            rounds=tally.made,
            heard=tally.heard,
            outstanding=len(self._outstanding),
            late=tally.late,
            learning_rate=eta,
            exploration=gamma,
            drift=drift,
            entropy=float(-np.sum(p[p > 0] * np.log(p[p > 0]))),
            max_leverage=0.0 if epoch is None else float(np.max(epoch.leverages(features))),
            estimated_losses=self._estimates(),
        )

    # Snapshots.

    def state(self) -> dict[str, Any]:
        """A snapshot: arrays, numbers and strings, with the generator's state."""
        book = [(i, *entry) for i, entry in self._outstanding.items()]
        return seal(
            type(self).__name__,
            {
                "setup": self.setup.to_dict(),
                "mark": self._mark,
                "rng": generator_state(self._rng),
                "theta": self._theta.copy(),
                "bonus": None if self._bonus is None else self._bonus.copy(),
                "tally": asdict(self._tally),
                "outstanding": np.asarray(book, dtype=np.int64).reshape(-1, 4),
                "epochs": [epoch.to_dict() for epoch in self._epochs.values()],
                "epoch": None if self._epoch is None else self._epoch.number,
            },
        )

    @classmethod
    def from_state(cls, state: Any) -> Self:
        """The learner of a snapshot, which goes on exactly where it was taken.

        Raises
        ------
        SnapshotError
            Where the snapshot is damaged, of another kind, or from a newer version.
        """
        data = unseal(cls.__name__, state)
        learner = cls.__new__(cls)
        learner._start(Setup.from_dict(data["setup"]), generator_of(data["rng"]), data["mark"])
        learner._theta = np.array(data["theta"])
        learner._bonus = None if data["bonus"] is None else np.array(data["bonus"])
        learner._tally = Tally(**data["tally"])
        learner._outstanding = {
            i: (a, e, h) for i, a, e, h in np.asarray(data["outstanding"]).tolist()
        }
        learner._epochs = {e["number"]: Epoch(**e) for e in data["epochs"]}
        learner._epoch = None if data["epoch"] is None else learner._epochs[data["epoch"]]
        return learner
