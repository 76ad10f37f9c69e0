"""Predicting the next loss of every action: Gaussian-process regressions that forget, and the choice between them.

A regression takes the losses for θ'φ with θ ~ N(0, s²P), heard with noise of variance s²λ, and weighs a loss heard k rounds ago by
discount^k. The scale s² is estimated in closed form, so that nothing depends on the units of the losses. The bandwidth of the
kernel, that is P, and the noise λ are those of the largest evidence (marginal likelihood), looked at now and then. Of the
regressions, which differ in how fast they forget, the one is trusted whose predictions were likeliest of late.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from scipy.linalg.blas import daxpy, ddot, dgemv, dsymm, dsymv, dsyr
from scipy.linalg.lapack import dpotrf, dtrtri

from koloss.learners.bandit.points import PointsEngine
from koloss.learners.insured.bandwidths import NARROWEST, Key, Priors, forecast_space, narrower
from koloss.learners.reading import LARGEST, SMALLEST, Reader

UNIFORM = 1 / 12
"""Variance of a uniform law on an interval of length 1."""

FADED = 2.0
"""A discount makes the prior fade with the data; the prior is restored when it has lost this factor."""

GROWN = 1e9
"""Weights of losses grow in place of shrinking those of the past, up to this."""

DISCOUNTS = (1.0, 0.98)
"""Of the regressions that the insured learner compares."""

NOISES = 10.0 ** np.arange(-4, 1.1, 0.5)
"""Values of λ, the noise over the signal. Signals that are smaller yet are not looked for: they would be taken for noise too soon."""

GUESSED = 2.0
"""Losses in whose place their variance is guessed: that of a uniform law, from the least to the largest heard."""

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


class Regression:
    """One regression with a prior, noise and discount; each loss is a step of rank one: O(m²), and O(Nm) for the actions.

    Examples
    --------
    >>> import numpy as np
    >>> regression = Regression(np.eye(2), ridge=0.25)
    >>> regression.update(0, 1.0)
    >>> regression.mean.tolist(), regression.deviation.round(3).tolist()
    ([0.8, 0.0], [0.447, 1.0])
    """

    def __init__(
        self, features: Any, *, discount: float = 1.0, ridge: float = 0.05, root: Any = None
    ) -> None:
        self.features = np.asfortranarray(features)  # (N, m)
        self.discount, self.ridge = discount, ridge  # λ
        m = self.features.shape[1]
        self.root = np.eye(m, order="F") if root is None else root  # R of the prior P = RR'
        # Σ of φφ' (lower triangle), φy, y² and 1, all over `grown`.
        self.gram, self.moment = np.zeros((m, m), order="F"), np.zeros(m)
        self.squares = self.weight = 0.0
        self.grown = 1.0
        self.heard = 0
        self.guess = UNIFORM  # of the variance of a loss
        self.looks = 0  # how often predictions of all actions were made from scratch
        self._fit()

    def _fit(self) -> None:
        """The posterior of all that was heard: C = R(I + R'AR/λ)⁻¹R', θ = Cb/λ, of which a lower triangle is kept."""
        m, grown, R = len(self.moment), self.grown, self.root
        self.scale = 1.0  # how far the prior has faded; the covariance is C times this
        if self.heard:
            inner = R.T @ dsymm(1 / (grown * self.ridge), self.gram, R, lower=1)
            inner.ravel(order="K")[:: m + 1] += 1
            factor, _ = dpotrf(inner, lower=1)
            half, _ = dtrtri(factor, lower=1)
            half = np.tril(half) @ R.T
            self.C = np.asfortranarray(half.T @ half)
        else:
            self.C = np.asfortranarray(R @ R.T)
        self.theta = self.C @ self.moment / (grown * self.ridge)
        self.misfit = max(
            (self.squares / grown - ddot(self.moment, self.theta) / grown) / self.ridge, 0.0
        )
        self._mean: Any = None
        self._variance: Any = None

    def fit(self, root: Any, ridge: float) -> None:
        """Another prior and noise, as if they had been the ones from the start."""
        self.root, self.ridge = root, ridge
        self._fit()

    def update(self, index: int, value: float) -> None:
        """Learn from the loss of an action."""
        self.step(self.features[index].copy(), value)

    def step(self, phi: Any, value: float) -> tuple[float, float]:
        """The same; the error of the prediction, and its variance in units of s²."""
        grown = self.grown
        dsyr(grown, phi, lower=1, a=self.gram, overwrite_a=1)
        daxpy(phi, self.moment, a=grown * value)
        self.squares += grown * value * value
        self.weight += grown
        self.heard += 1
        scale, theta, discount = self.scale, self.theta, self.discount
        u = dsymv(1.0, self.C, phi, lower=1)
        error = value - ddot(theta, phi)
        spread = self.ridge + scale * ddot(u, phi)
        gain = scale / spread
        dsyr(-gain, u, lower=1, a=self.C, overwrite_a=1)
        daxpy(u, theta, a=gain * error)
        self.misfit = discount * (self.misfit + error * error / spread)
        if self._mean is not None or self._variance is not None:
            moved = dgemv(1.0, self.features, u)
            if self._mean is not None:
                self._mean = self._mean + gain * error * moved
            if self._variance is not None:
                moved *= moved
                moved *= gain
                self._variance -= moved
        if discount < 1:
            self.scale, self.grown = scale / discount, grown / discount
            if self.grown > GROWN:
                self._shrink()
            if self.scale > FADED:
                kept = self._mean is not None
                self._fit()
                if kept:
                    self.look()
        return error, spread

    def _shrink(self) -> None:
        self.gram /= self.grown
        self.moment /= self.grown
        self.squares /= self.grown
        self.weight /= self.grown
        self.grown = 1.0

    def rescale(self, factor: float) -> None:
        """As if all losses had been so many times as large."""
        self.moment, self.theta = self.moment * factor, self.theta * factor
        self.squares, self.misfit = self.squares * factor**2, self.misfit * factor**2
        if self.heard:
            self.guess *= factor**2
        if self._mean is not None:
            self._mean = self._mean * factor

    def evidence(self, root: Any, ridges: Any) -> Any:
        """Logarithm of the marginal likelihood with another prior, for each λ, up to a constant: s² is integrated out.

        With R'AR = V diag(g) V' and β = V'R'b: Σ log(1 + gᵢ/λ) is a determinant, Σy² - Σ βᵢ²/(gᵢ + λ) over λ the misfit.
        """
        A = root.T @ dsymm(1 / self.grown, self.gram, root, lower=1)
        g, V = np.linalg.eigh(A)
        g = np.maximum(g, 0.0)[:, None]
        beta = np.square(V.T @ (root.T @ self.moment) / self.grown)[:, None]
        misfit = np.maximum(
            (self.squares / self.grown - (beta / (g + ridges)).sum(axis=0)) / ridges, 0.0
        )
        weight = self.weight / self.grown
        return (
            -0.5 * np.log1p(g / ridges).sum(axis=0)
            - 0.5 * weight * np.log(ridges)
            - 0.5 * (GUESSED + max(weight - 1, 0.0)) * np.log(self.guessed(ridges) + misfit)
        )

    @property
    def signal(self) -> float:
        """The estimate of s²; the constant in the losses takes one of them."""
        weight = self.weight / self.grown
        return float(self.guessed(self.ridge) + self.misfit) / (GUESSED + max(weight - 1, 0.0))

    def guessed(self, ridge: Any) -> Any:
        """What the guess adds to the misfit."""
        return GUESSED * self.guess / (1 + ridge)

    # Of all actions.

    def look(self) -> None:
        """Begin to keep predictions of all actions up to date."""
        self._mean, self._variance = self.features @ self.theta, None
        self.looks += 1

    def look_away(self) -> None:
        """And stop."""
        self._mean = self._variance = None

    @property
    def covariance(self) -> Any:
        """Posterior covariance of θ, in units of s²."""
        lower = np.tril(self.C) * self.scale
        return lower + np.tril(lower, -1).T

    @property
    def weights(self) -> Any:
        """θ, its posterior mean."""
        return self.theta

    @property
    def mean(self) -> Any:
        """Predicted loss of every action."""
        if self._mean is None:
            self._mean = self.features @ self.theta
        return self._mean

    @property
    def deviation(self) -> Any:
        """Its standard deviation under the posterior, in units of s."""
        if self._variance is None:
            half = dsymm(1.0, self.C, self.features, side=1, lower=1)
            self._variance = np.einsum("ij,ij->i", half, self.features)
        deviation = np.maximum(self._variance, 0.0)
        deviation *= self.scale
        return np.sqrt(deviation, out=deviation)

    # Snapshots.

    _ARRAYS: ClassVar = ("gram", "C", "root")
    _NUMBERS: ClassVar = ("squares", "weight", "misfit")

    def state(self) -> dict[str, Any]:
        """Plain data for a snapshot, without the features."""
        names = (*self._ARRAYS, *self._NUMBERS, "guess", "moment", "theta", "discount", "ridge")
        kept = {name: getattr(self, name) for name in (*names, "grown", "heard", "scale")}
        return copy.deepcopy({**kept, "mean": self._mean, "variance": self._variance})

    @classmethod
    def from_state(cls, features: Any, data: Reader) -> Self:
        """The regression of a snapshot."""
        N, m = features.shape
        discount, ridge = data.number("discount", 1e-3, 1), data.number("ridge", positive=True)
        root = data.array("root", (m, m), order="F")
        regression = cls(features, discount=discount, ridge=ridge, root=root)
        for name in ("gram", "C"):
            setattr(regression, name, data.array(name, (m, m), order="F"))
        for name in ("moment", "theta"):
            setattr(regression, name, data.array(name, (m,)))
        for name in cls._NUMBERS:
            setattr(regression, name, data.number(name, 0, LARGEST))
        regression.guess = data.number("guess", SMALLEST, LARGEST)
        regression.grown = data.number("grown", 1, GROWN / discount)
        regression.heard = data.count("heard")
        regression.scale = data.number("scale", 1, FADED)
        if data.has("mean"):
            regression._mean = data.array("mean", (N,))
        if data.has("variance"):
            regression._variance = data.array("variance", (N,))
        return regression


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

    def __init__(
        self,
        features: Any,  # (N, m)
        priors: Priors | None = None,  # by default N(0, I) alone
        *,
        discounts: Sequence[float] = DISCOUNTS,
        span: int
        | None = None,  # how many of the features, the first, are the game's own; all by default
    ) -> None:
        self.features = np.asfortranarray(features)
        self.span = span or self.features.shape[1]
        priors = self.priors = priors or Priors.identity(self.features.shape[1])
        root = priors.root(priors.start)
        self.regressions = [
            Regression(self.features, discount=d, ridge=USUAL, root=root) for d in discounts
        ]
        K = len(self.regressions)
        self.keys: list[Key] = [priors.start] * K
        self.due = [1] * K  # losses at which bandwidth and noise are looked at
        self.scores = [0.0] * K  # recent log-likelihood
        self.low, self.high = math.inf, -math.inf  # least and largest loss heard
        self.trusted = 0
        self.regression.look()

    @property
    def regression(self) -> Regression:
        """The one that is trusted."""
        return self.regressions[self.trusted]

    def update(self, index: int, value: float) -> None:
        """Learn from the loss of an action."""
        scores, best, most = self.scores, 0, -math.inf
        phi, heard = self.features[index].copy(), []
        for regression in self.regressions:
            signal = regression.signal
            error, spread = regression.step(phi, value)
            heard.append((error * error, spread * signal))
        # One noise for all: who forgets knows that of the latest actions best, and may know nothing else.
        noise = TAILS * max(min(spread for _, spread in heard), SMALLEST)
        for k, (square, _) in enumerate(heard):
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
        for k, regression in enumerate(self.regressions):
            if regression.heard >= self.due[k]:
                self._refit(k)

    def _widen(self, value: float) -> None:
        """Losses guide the guess of their variance as soon as they differ."""
        self.low, self.high = min(self.low, value), max(self.high, value)
        if self.high > self.low:
            for regression in self.regressions:
                regression.guess = max(UNIFORM * (self.high - self.low) ** 2, SMALLEST)

    def _refit(self, k: int) -> None:
        """Bandwidth and noise of the largest evidence, with prior odds."""
        regression, priors = self.regressions[k], self.priors
        keys = priors.keys(self.keys[k])
        table = np.stack([regression.evidence(priors.root(key), NOISES) for key in keys])
        table -= UNUSUAL * np.abs(np.log10(NOISES / USUAL))
        table -= np.array([[priors.odds(key)] for key in keys])
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
    def weights(self) -> Any:
        """θ, its posterior mean."""
        return self.regression.theta

    @property
    def mean(self) -> Any:
        """Predicted loss of every action."""
        return self.regression.mean

    @property
    def inside(self) -> Any:
        """The same in the span of the game's own features."""
        if self.span == self.features.shape[1]:
            return self.mean
        return self.features[:, : self.span] @ self.weights[: self.span]

    @property
    def deviation(self) -> Any:
        """Its standard deviation under the posterior."""
        deviation = self.regression.deviation
        deviation *= math.sqrt(self.regression.signal)
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
        drawn = self.features @ (self.weights[:, None] + vectors @ (root * normal))
        return drawn[:, 0] if count is None else drawn

    def __copy__(self) -> Self:
        """One that can be looked at without a trace."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other.regressions = [copy.copy(one) for one in self.regressions]
        return other

    def state(self) -> dict[str, Any]:
        """Plain data for a snapshot, without features and priors."""
        return {
            "regressions": [one.state() for one in self.regressions],
            "keys": np.array(self.keys),
            "due": list(self.due),
            "scores": list(self.scores),
            "heard": None if self.low > self.high else [self.low, self.high],
            "trusted": self.trusted,
            "narrower": self._narrower(),
        }

    def _narrower(self) -> dict[str, Any] | None:
        """Features beside the game's own: on another machine they might not come out alike."""
        if self.span == self.features.shape[1]:
            return None
        extra = np.asfortranarray(self.features[:, self.span :])
        return {"features": extra, "halved": self.priors.halved}

    @classmethod
    def from_state(
        cls, features: Any, data: Reader, priors: Priors | None = None, span: int | None = None
    ) -> Self:
        """The forecaster of a snapshot."""
        priors = priors or Priors.identity(features.shape[1])
        parts = data.parts("regressions")
        K, keys = (
            len(parts),
            data.array("keys", (len(parts), priors.dimension), -64, 64, whole=True),
        )
        regressions = [Regression.from_state(features, part) for part in parts]
        forecaster = cls.__new__(cls)
        forecaster.features, forecaster.priors = regressions[0].features, priors
        forecaster.span = span or features.shape[1]
        forecaster.regressions = regressions
        forecaster.keys = [tuple(int(k) for k in key) for key in keys]
        for key, one in zip(forecaster.keys, regressions, strict=True):
            priors.keep(key, one.root)
        due, scores = data.items("due", K), data.items("scores", K)
        forecaster.due = [due.count(str(k)) for k in range(K)]
        forecaster.scores = [scores.number(str(k)) for k in range(K)]
        forecaster.low, forecaster.high = math.inf, -math.inf
        if data.has("heard"):
            heard = data.items("heard", 2)
            forecaster.low, forecaster.high = heard.number("0"), heard.number("1")
        forecaster.trusted = data.count("trusted", 0, K - 1)
        return forecaster


def forecaster_for(kernel: Any, engine: PointsEngine) -> Forecaster:
    """With the prior of the kernel."""
    features, priors = forecast_space(kernel, engine, narrower(kernel, engine))
    return Forecaster(features, priors, span=engine.features.shape[1])


def forecaster_from(kernel: Any, engine: PointsEngine, data: Reader) -> Forecaster:
    """The same in a snapshot."""
    more, (N, m) = None, engine.features.shape
    if data.has("narrower"):
        said = data.part("narrower")
        more = said.array("features", (N, None), order="F"), said.count("halved", 1, NARROWEST)
    features, priors = forecast_space(kernel, engine, more)
    return Forecaster.from_state(features, data, priors, m)
