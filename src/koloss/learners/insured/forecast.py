"""Predicting the next loss of every action: which regression to trust, at which bandwidth, with how much noise.

The bandwidth of the kernel, that is the prior P of a regression, and the noise λ are those of the largest evidence (marginal
likelihood), looked at now and then. Of the regressions, which differ in how fast they forget, the one is trusted whose predictions
were likeliest of late.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np

from koloss.actions import Contexts
from koloss.core import linalg
from koloss.core.snapshot import Extended, kept
from koloss.learners.bandit.points import PointsEngine
from koloss.learners.insured.bandwidths import Key, Priors, forecast_space, narrower
from koloss.learners.insured.regression import UNIFORM, Regression
from koloss.learners.ledger import Drawn
from koloss.learners.losses import SMALLEST

DISCOUNTS = (1.0, 0.98)
"""Of the regressions that the insured learner compares."""

NOISES = 10.0 ** np.arange(-4, 1.1, 0.5)
"""Values of λ, the noise over the signal. Signals that are smaller yet are not looked for: they would be taken for noise too soon."""

USUAL, UNUSUAL = 0.1, 0.5
"""The likeliest λ beforehand, and the logarithm of the odds against one ten times as large or small."""

MARGIN = 1.0
"""The smallest λ is taken whose evidence is within this of the largest: a signal is overestimated rather than overlooked."""

REFIT, CALM, OFTEN = 0.3, 0.7, 64
"""Bandwidth and noise are looked at again after so many times as many losses, or so many if nothing had changed; where losses are
forgotten, after so many at most."""

MANY = 64
"""More features than these make that dear: it is done less often."""

MEMORY = 0.99
"""How fast old predictions are forgotten when regressions are compared."""

HANDICAP = 3.0
"""A regression is trusted only if its predictions are likelier by this, in logarithms, than those of the one before it."""

TAILS = 4.0
"""Degrees of freedom of Student's law by which predictions are judged."""


class Trusted(NamedTuple):
    """What is believed of the losses at the moment."""

    discount: float  # by which the past is forgotten per loss
    bandwidth: tuple[float, ...]  # of each coordinate, over the kernel's
    noise: float  # deviation of a loss from its mean, in units of the range
    lead: float  # how much likelier it made recent losses than the next best regression, in logarithms

    def __str__(self) -> str:
        bandwidth = " × ".join(f"{factor:g}" for factor in self.bandwidth)
        believed = f"discount {self.discount:g}, bandwidth times {bandwidth}, noise {self.noise:.2g} of the range"
        if self.lead == 0:
            return believed
        if self.lead < 0:  # it has the benefit of the doubt
            return f"{believed}, though another has predicted better of late, by {-self.lead:.2g} in log-likelihood"
        return f"{believed}; it has predicted best of late, by {self.lead:.2g} in log-likelihood"


@kept
class Forecaster:
    """Regressions of different discounts, each with the bandwidth and noise that its losses speak for.

    Examples
    --------
    >>> import numpy as np
    >>> forecaster, coins = Forecaster(np.eye(2)), np.random.default_rng(1).random((500, 2))
    >>> for t, coin in enumerate(coins < [0.5, 0.1]):
    ...     forecaster.update(t % 2, float(coin[t % 2]) - 0.5)
    >>> forecaster.mean.round(1).tolist(), round(forecaster.noise, 2)  # (1/4 + 0.09)/2 is 0.17
    ([0.0, -0.4], 0.17)
    """

    features: Any  # (N, m)
    span: int  # how many of the features, the first, are the game's own
    priors: Priors
    regressions: list[Regression]
    keys: list[Key]
    due: list[int]  # losses at which bandwidth and noise are looked at
    scores: list[float]  # recent log-likelihood
    low: Extended = math.inf  # least and largest loss heard
    high: Extended = -math.inf
    trusted: int = 0

    def __init__(
        self,
        features: Any,  # (N, m)
        priors: Priors | None = None,  # by default N(0, I) alone
        *,
        discounts: Sequence[float] = DISCOUNTS,
        span: int
        | None = None,  # how many of the features, the first, are the game's own; all by default
    ) -> None:
        self.features = linalg.in_columns(features)
        self.span = span or self.features.shape[1]
        priors = self.priors = priors or Priors.identity(self.features.shape[1])
        root = priors.root(priors.start)
        self.regressions = [
            Regression(self.features, discount=d, ridge=USUAL, root=root) for d in discounts
        ]
        K = len(self.regressions)
        self.keys, self.due, self.scores = [priors.start] * K, [1] * K, [0.0] * K
        self.regression.look()

    def _restored(self) -> None:
        for key, one in zip(self.keys, self.regressions, strict=True):
            self.priors.keep(key, one.root)

    @property
    def regression(self) -> Regression:
        """The one that is trusted."""
        return self.regressions[self.trusted]

    def update(self, index: int, value: float) -> None:
        """Learn from the loss of an action."""
        scores, best, most, least = self.scores, 0, -math.inf, math.inf
        phi, squares = self.features[index].copy(), []
        for regression in self.regressions:
            signal = regression.signal
            error, spread = regression.step(phi, value)
            squares.append(error * error)
            spread *= signal
            least = min(least, spread)
        # One noise for all: who forgets knows that of the latest actions best, and may know nothing else.
        noise = TAILS * max(least, SMALLEST)
        for k, square in enumerate(squares):
            scores[k] = MEMORY * scores[k] - 0.5 * (TAILS + 1) * math.log1p(square / noise)
            if scores[k] - k * HANDICAP > most:
                best, most = k, scores[k] - k * HANDICAP
        if not self.low <= value <= self.high:
            self._widen(value)
        if best != self.trusted:
            self.regression.look_away()
            self.trusted = best
            fresh = self.regression
            self.due[best] = min(self.due[best], fresh.heard + OFTEN // 4)
            fresh.look()
        for k, due in enumerate(self.due):
            if self.regressions[k].heard >= due:
                self._refit(k)

    def _widen(self, value: float) -> None:
        """Losses guide the guess of their variance as soon as they differ."""
        self.low, self.high = min(self.low, value), max(self.high, value)
        if self.high > self.low:
            for regression in self.regressions:
                regression.guess = max(UNIFORM * (self.high - self.low) ** 2, SMALLEST)

    def _refit(self, k: int) -> None:
        """Bandwidth and noise of the largest evidence, with prior odds.

        A regression that forgets has too few losses to tell bandwidths apart: it begins with the one that all losses speak for.
        """
        regression, priors = self.regressions[k], self.priors
        keys, likeliest = priors.keys(self.keys[0]), self.keys[0] if k else priors.start
        table = np.stack([regression.evidence(priors.root(key), NOISES) for key in keys])
        table -= UNUSUAL * np.abs(np.log10(NOISES / USUAL))
        table -= np.array([[priors.odds(key, likeliest)] for key in keys])
        row = int(table.max(axis=1).argmax())
        column = int(np.argmax(table[row] >= table[row].max() - MARGIN))
        ridge = float(NOISES[column])
        calm = (keys[row], ridge) == (self.keys[k], regression.ridge)
        self.keys[k] = keys[row]
        regression.fit(priors.root(keys[row]), ridge)
        step = float(regression.heard)
        if k == self.trusted:
            regression.look()
            dear = max(1.0, self.features.shape[1] / MANY) ** 2
            step *= (CALM if calm else REFIT) * dear
            if regression.discount < 1:
                step = min(step, OFTEN * dear)
        self.due[k] = regression.heard + max(1, int(step))

    def rescale(self, factor: float) -> None:
        """As if all losses had been so many times as large."""
        self.low, self.high = self.low * factor, self.high * factor
        for regression in self.regressions:
            regression.rescale(factor)

    @property
    def ridge(self) -> float:
        """Variance of the noise."""
        return self.regression.ridge * self.regression.signal

    noise = ridge

    @property
    def chosen(self) -> Trusted:
        """Discount, bandwidth and noise of the regression that is trusted."""
        factors = tuple(2.0**k for k in self.keys[self.trusted])
        others = [score for k, score in enumerate(self.scores) if k != self.trusted]
        lead = self.scores[self.trusted] - max(others, default=self.scores[self.trusted])
        return Trusted(self.regression.discount, factors, math.sqrt(self.ridge), lead)

    @property
    def covariance(self) -> Any:
        """Posterior covariance of θ."""
        return self.regression.covariance * self.regression.signal

    @property
    def mean(self) -> Any:
        """Predicted loss of every action."""
        return self.regression.mean

    @property
    def inside(self) -> Any:
        """The same in the span of the game's own features."""
        if self.span == self.features.shape[1]:
            return self.mean
        return self.features[:, : self.span] @ self.regression.theta[: self.span]

    @property
    def deviation(self) -> Any:
        """Its standard deviation under the posterior."""
        regression = self.regression
        deviation = regression.deviation
        deviation *= math.sqrt(regression.signal)
        return deviation

    @property
    def version(self) -> tuple[int, int]:
        """Changes with the regression that is trusted, but for its updates."""
        return self.trusted, self.regression.looks

    def sample(
        self,
        rng: np.random.Generator,
        scale: float = 1.0,
        count: int | None = None,
        covariance: Any = None,
    ) -> Any:
        """A draw of all losses from the posterior, its deviation times `scale`; or several, in columns.

        With the covariance of θ under the posterior, or with another one.
        """
        eigenvalues, vectors = np.linalg.eigh(self.covariance if covariance is None else covariance)
        normal = rng.standard_normal((len(eigenvalues), 1 if count is None else count))
        root = scale * np.sqrt(np.maximum(eigenvalues, 0.0))[:, None]
        # A symmetric root, which is the same whatever vectors belong to an eigenvalue that comes several times.
        drawn = self.features @ (
            self.regression.theta[:, None] + vectors @ (root * (vectors.T @ normal))
        )
        return drawn[:, 0] if count is None else drawn

    def __copy__(self) -> Self:
        """One that can be looked at without a trace."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other.regressions = [copy.copy(one) for one in self.regressions]
        return other


@kept
@dataclass(frozen=True)
class Place:
    """The row of a context, and how many there are of contexts and actions; without contexts pairs are actions.

    Examples
    --------
    >>> place = Place(context=1, contexts=3, actions=10)
    >>> place.pair(4), place.local(14), place.local(~14) == ~4
    (14, 4, True)
    """

    context: int
    contexts: int
    actions: int
    shown: Any = None  # the context as it was given

    @classmethod
    def of(cls, contexts: Contexts | None, context: int, count: int, actions: int) -> Place:
        """That of a context, which is shown as it was given: by its label, its params or its coordinates."""
        if contexts is None or count == 1:
            return cls(context, count, actions)
        if contexts.points is not None:
            return cls(context, count, actions, dict(contexts.points.params[context]))
        given = contexts.X if contexts.labels is None else contexts.labels
        return cls(context, count, actions, given[context])

    @cached_property
    def alone(self) -> bool:
        """Whether there is no other context."""
        return self.contexts == 1

    @property
    def rows(self) -> slice:
        """Those of its pairs."""
        return slice(self.context * self.actions, (self.context + 1) * self.actions)

    def pair(self, row: int) -> int:
        """The row of a pair."""
        return self.context * self.actions + row

    def local(self, key: int) -> int:
        """The row of an action, or its complement, from that of a pair."""
        start = self.context * self.actions
        return key - start if key >= 0 else key + start

    def locals(self, keys: Sequence[int]) -> Sequence[int]:
        """The same for several."""
        return keys if self.context == 0 else [self.local(key) for key in keys]

    def among_pairs(self, played: Any) -> Any:
        """A row, a law or a mask of actions as one of pairs; where there is none, none."""
        if self.alone or played is None:
            return played
        if isinstance(played, int):
            return self.pair(played)
        spread = np.zeros(self.contexts * self.actions, dtype=played.dtype)
        spread[self.rows] = played
        return spread

    def offered(self, mask: Any) -> Any:
        """The pairs that a policy may propose here, given the actions on offer, or None where all are."""
        if self.alone:
            return mask
        return self.among_pairs(np.ones(self.actions, dtype=bool) if mask is None else mask)

    def proposed(self, proposal: Any) -> Any:
        """A row or a law of pairs as one of actions."""
        if self.alone:
            return proposal
        return proposal - self.rows.start if isinstance(proposal, int) else proposal[self.rows]

    def drawn(self, drawn: Drawn) -> Drawn:
        """Actions with the keys of their pairs."""
        start = self.rows.start
        keys = [key + start if key >= 0 else key - start for key in drawn.keys]
        return drawn._replace(keys=keys, contexts=[self.context] * len(keys))


@kept
@dataclass(eq=False)
class Local:
    """The forecast of all pairs as one context sees it: of its own actions."""

    forecaster: Forecaster
    place: Place
    engine: PointsEngine  # of the context

    @property
    def mean(self) -> Any:
        """Predicted loss of every action."""
        return self.forecaster.mean[self.place.rows]

    @property
    def deviation(self) -> Any:
        """Its standard deviation under the posterior."""
        return self.forecaster.deviation[self.place.rows]

    @property
    def inside(self) -> Any:
        """The same in the span of the context's own features: nearest to it by the design in which these are white."""
        W = np.asarray(self.engine.features)
        return W @ (W.T @ (self.engine.weights * self.mean))

    def __copy__(self) -> Self:
        """One that can be looked at without a trace."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__, forecaster=copy.copy(self.forecaster))
        return other


def forecaster_for(kernel: Any, engine: PointsEngine) -> Forecaster:
    """With the prior of the kernel."""
    features, priors = forecast_space(kernel, engine, narrower(kernel, engine))
    return Forecaster(features, priors, span=engine.features.shape[1])
