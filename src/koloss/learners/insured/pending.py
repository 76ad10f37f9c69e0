"""What is in flight: the forecast with the deviations that it will have once all losses have been told (theory F5, section 5).

The mean is that of the losses heard. The deviation is as if the losses of pending *proposals* had been told at once: whoever
proposes by it does not sweep the same action again while its loss is late. With C the covariance of the forecast, λ its ridge,

    C⁺ = (C⁻¹ + Σ w_s φ(j_s)φ(j_s)'/λ)⁻¹,        w_s = discount^(losses heard since),

and where a whole law is in flight, as in rounds of the robust learner, its mean φφ' stands in for that of a proposal. Coins do not
matter: which action was explored is not known before its loss is opened, or the account would not be valid. When a loss is opened
that of the action takes the place of the proposal. Both are steps of rank one, and where the action is the proposal and nothing
is discounted they cancel.
"""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np
from scipy.linalg.blas import ddot, dsymv, dsyr

from koloss.core import linalg
from koloss.core.snapshot import Matrix, Vector, kept
from koloss.learners.insured.bandwidths import CONSTANT
from koloss.learners.insured.exploration import Floats
from koloss.learners.insured.forecast import Forecaster
from koloss.learners.losses import ROUNDING

RENEWED = 256
"""Steps of rank one after which the covariance is computed from scratch."""

CENTRAL = 2
"""Power of what its loss says of all others by which an action is preferred as long as nothing has been heard."""

FAINT = 1e-12
"""Weights in flight that are nothing but rounding."""


@kept
class Pending:
    """A forecast, what is in flight beside it, and the deviation of both together.

    Examples
    --------
    >>> import numpy as np
    >>> forecaster = Forecaster(np.eye(2), discounts=(1.0,))
    >>> pending = Pending(forecaster)
    >>> pending.draw(0)
    >>> pending.mean.tolist(), pending.deviation.round(3).tolist()
    ([0.0, 0.0], [0.083, 0.275])
    """

    forecaster: Forecaster
    features: Any
    discounts: Vector
    count: int = 0  # decisions in flight
    heard: int = 0  # losses opened
    # Of every discount: Σ w_s of the proposals in flight by action, Σ w_s p_s of the laws in flight, and Σ w_s of these.
    proposed: Matrix
    laws: Matrix
    mass: Vector
    _covariance: Any  # C⁺ in units of the forecast's signal, the lower triangle
    _variance: Any  # φ(a)'C⁺φ(a)
    _steps: int
    _version: Any  # of the forecast that it was made from
    _shares = None

    def __init__(self, forecaster: Forecaster) -> None:
        self.follow(forecaster)
        N = len(self.features)
        self.discounts = np.unique([one.discount for one in forecaster.regressions])
        self.proposed, self.laws = np.zeros((2, len(self.discounts), N))
        self.mass = np.zeros(len(self.discounts))

    def follow(self, forecaster: Forecaster) -> None:
        """Go by this forecast from now on."""
        self.forecaster, self.features = forecaster, forecaster.features
        self._forget()

    def _forget(self) -> None:
        """Compute the covariance from scratch when it is needed next."""
        self._covariance = self._variance = self._version = None
        self._steps = 0

    # What is in flight.

    def draw(self, proposal: Any, count: int = 1) -> None:
        """So many decisions are made: of a proposal, the row of an action, or from a law over all."""
        self.count += count
        if isinstance(proposal, int):
            self.proposed[:, proposal] += count
            if self._is_fresh:
                self._step(proposal, count)
        else:
            self.laws += count * proposal
            self.mass += count
            self._forget()

    def open(self, choice: int | None, index: int, before: int) -> None:
        """The loss of an action has been learned from; `before` losses had been heard when its proposal, or a law, was made."""
        weights = self._settle(choice, before)
        self.heard += 1
        if not self.count:
            return
        if choice is None or not self._is_fresh:
            self._forget()
        else:
            k = self._trusted
            weight = weights.item(k)
            if index == choice:
                self._step(index, 1 - weight)
            else:
                self._step(index, 1.0)
                self._step(choice, -weight)
            if self.discounts[k] < 1 and self._is_fresh:
                self._covariance /= self.discounts[k]
                self._variance /= self.discounts[k]
        self.proposed *= self.discounts[:, None]
        if self.mass[-1] > 0:
            self.laws *= self.discounts[:, None]
            self.mass *= self.discounts

    def drop(self, choice: int | None, before: int) -> None:
        """The loss of a decision is not waited for any more."""
        self._settle(choice, before)
        self._forget()

    def _settle(self, choice: int | None, before: int) -> Floats:
        """Take a decision out; its weights, unless it was the last. Of laws the mean one goes, as the law itself is not kept."""
        self.count -= 1
        if not self.count:
            self.proposed.fill(0)
            self.laws.fill(0)
            self.mass.fill(0)
            self._forget()
            return self.mass
        weights: Floats = self.discounts ** max(self.heard - before, 0)
        if choice is None:
            left = np.maximum(1 - weights / np.maximum(self.mass, weights), 0)
            self.laws *= left[:, None]
            self.mass *= left
        else:
            column = self.proposed[:, choice]
            np.maximum(column - weights, 0, out=column)
        return weights

    # The forecast.

    @property
    def mean(self) -> Any:
        """Predicted loss of every action."""
        return self.forecaster.mean

    @property
    def deviation(self) -> Any:
        """Its standard deviation once all that is in flight has been told."""
        if not self.count:
            return self.forecaster.deviation
        self._renew()
        return np.sqrt(self.forecaster.regression.signal * np.maximum(self._variance, 0.0))

    def sample(self, rng: np.random.Generator, scale: float = 1.0, count: int | None = None) -> Any:
        """A draw of all losses with this deviation times `scale`; or several, in columns."""
        covariance = None
        if self.count:
            self._renew()
            covariance = np.tril(self._covariance) * self.forecaster.regression.signal
            covariance += np.tril(covariance, -1).T
        return self.forecaster.sample(rng, scale, count, covariance)

    @property
    def is_blind(self) -> bool:
        """Whether nothing has been heard, and what is in flight says as much of every action as one loss of its own would."""
        return self.heard == 0 < self.count and bool(
            self.deviation.max() ** 2 <= self.forecaster.ridge
        )

    def most_wanting(self, offered: Any = None) -> int:
        """The action on offer that is in flight least, for its share of rounds in which nobody knows anything.

        Nothing is learned then by sweeping the ends of a line. The shares go by how much the loss of an action says of those
        of all the others, so that the middle has most: where losses are convex it is better than the average.
        """
        if self._shares is None:
            # Σ_b k(a, b)²/k(a, a), the variance that the loss of a would explain; k is the prior without its constant.
            level = 0.0 if self.forecaster.priors.kernel is None else CONSTANT
            rows = self.features @ self.forecaster.regression.root
            squares = np.einsum("ij,ij->i", rows @ (rows.T @ rows), rows)
            squares += level * (len(rows) * level - 2 * (rows @ rows.sum(axis=0)))
            own = np.einsum("ij,ij->i", rows, rows) - level
            self._shares = np.maximum(squares / np.maximum(own, FAINT), FAINT) ** CENTRAL
        flights = (self.proposed[-1] + self.laws[-1] + 1) / self._shares
        return int(np.where(True if offered is None else offered, flights, np.inf).argmin())

    def glance(self) -> Pending:
        """The same, to look at: it leaves nothing in the memory of this one."""
        twin = copy(self)
        twin.forecaster = copy(self.forecaster)
        return twin

    @property
    def _trusted(self) -> int:
        return int(self.discounts.searchsorted(self.forecaster.regression.discount))

    @property
    def _is_fresh(self) -> bool:
        """Whether the covariance is that of what is known."""
        return self._covariance is not None and self._version == self.forecaster.version

    def _renew(self) -> None:
        """Make the covariance anew, in new arrays, where it is not that of what is known."""
        if self._is_fresh and self._steps < RENEWED:
            return
        regression, k = self.forecaster.regression, self._trusted
        C = np.asfortranarray(regression.covariance)
        self._covariance, self._variance = C, np.square(regression.deviation)
        self._steps, self._version = 0, self.forecaster.version
        weights = self.proposed[k] + self.laws[k]
        rows = np.flatnonzero(weights > FAINT)
        if 2 * len(rows) <= len(C):
            for row in rows.tolist():
                self._step(row, weights.item(row))
            return
        F = self.features[rows]
        B = F.T @ (weights[rows, None] * F) / regression.ridge
        C = np.linalg.solve(np.eye(len(C)) + C @ B, C)  # no inverse of C, which may be tiny
        self._covariance = np.asfortranarray((C + C.T) / 2)
        features, C = self.features, self._covariance
        if isinstance(features, np.ndarray):
            self._variance = np.einsum("ij,ij->i", features @ C, features)
        else:
            self._variance = features.quadratic(C)

    def _step(self, index: int, amount: float) -> None:
        """As if so many more losses of an action were known."""
        if amount == 0 or self._covariance is None:
            return
        C, phi = self._covariance, self.features[index].copy()
        u = dsymv(1.0, C, phi, lower=1)
        ridge = self.forecaster.regression.ridge
        noise = ridge + amount * ddot(u, phi)
        if noise <= ROUNDING * ridge:  # what is taken away was nearly all that is known
            self._forget()
            return
        gain = amount / noise
        dsyr(-gain, u, lower=1, a=C, overwrite_a=1)
        moved = linalg.times(self.features, u)
        moved *= moved
        moved *= gain
        self._variance -= moved
        self._steps += 1
