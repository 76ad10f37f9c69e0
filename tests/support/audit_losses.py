"""Losses of the class that a guarantee prints, by a computation of their own, and adversaries that choose among them."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg

import koloss as kl
from koloss.learners.bandit.pairs import pair_kernel


class Losses:
    """Losses of a class in an interval: table @ θ at all places, of which the first are those in play.

    The class is that of the clauses of a guarantee. `like(v)` is the member most like the direction v.
    """

    def __init__(self, setting, promise, places, kernel, nodes):
        self.places, self.kernel = places, kernel
        self.low, self.high = setting.low, setting.high
        clauses = {one.key: one.numbers for one in promise.assumptions}
        named = {"span", "norm", "hull", "form", "form and norm"} & set(clauses)
        self.kind = named.pop() if named else "any"
        numbers = clauses.get(self.kind, {})
        self.constant = "up_to" not in numbers or numbers["up_to"] != ""
        if "form" in numbers:
            self.constant = str(numbers["form"]).endswith("+ c")
        unit = setting.high - setting.low if numbers.get("unit") else 1.0
        self.norm = float(numbers["norm"]) * unit if "norm" in numbers else math.inf
        if self.kind == "form and norm":
            self.norm = math.sqrt(float(numbers["square"]))
        self.nodes = nodes  # places where y_i may be
        if self.kind == "any":
            self.table = np.eye(len(places))
        elif self.kind in ("form", "form and norm") or (
            self.kind == "span" and degree_of(kernel) is not None
        ):
            self.table = self.monomials(places, kernel)
        else:
            gram = np.asarray(kernel(places, places))
            values, vectors = linalg.eigh((gram + gram.T) / 2)
            kept = values > 1e-12 * values[-1]
            self.table = vectors[:, kept] * np.sqrt(values[kept])
        if self.kind in ("span", "form"):
            columns = [self.table, np.ones((len(places), int(self.constant)))]
            self.fit = linalg.pinv(np.column_stack(columns), rtol=1e-10)[: self.table.shape[1]]

    def monomials(self, X, kernel):
        """All that a polynomial kernel has but the constant, in coordinates from -1 to 1 where there is no norm to be kept."""
        X = np.asarray(X, dtype=np.longdouble)
        if self.kind == "span" and self.constant:
            if not hasattr(self, "box"):
                self.box = X.min(axis=0), X.max(axis=0)
            low, high = self.box
            X = (2 * X - low - high) / np.where(high > low, high - low, 1)
        columns = []
        for degree in range(1, degree_of(kernel) + 1):
            for names in itertools.combinations_with_replacement(range(X.shape[1]), degree):
                # of x'Ax the norm is that of A, in which a product of two stands twice
                twice = math.sqrt(2) if degree == 2 and len(set(names)) == 2 else 1.0
                columns.append(twice * np.prod(X[:, list(names)], axis=1))
        return np.column_stack(columns).astype(float)

    def row(self, action):
        """The row of an action that is none of the places, on a ball."""
        return self.monomials(np.atleast_2d(action), self.kernel)[0]

    def like(self, direction, place=0.5, depth=1.0):
        """θ, and a constant, of the member most like a direction; `place` and `depth` say where in the interval, and how much of it."""
        table, direction = self.table, np.asarray(direction, dtype=float)
        if self.kind == "any":
            theta = direction.copy()
        elif self.kind in ("span", "form"):
            theta = self.fit @ direction
        elif self.kind == "hull":
            gains = table[self.nodes] @ (table.T @ direction)
            y = self.nodes[int(np.argmax(np.abs(gains)))]
            theta = self.norm * np.sign(table[y] @ (table.T @ direction)) * table[y]
        else:
            theta = table.T @ (direction - direction.mean())
            theta *= self.norm / max(float(np.linalg.norm(theta)), 1e-300)
        values = table @ theta
        fills = self.kind in ("any", "span", "form")
        if not self.constant:  # then the interval is [-L, L]
            scale = depth * self.high / max(np.abs(values).max(), 1e-300)
            return Loss(theta * (scale if fills else min(1.0, scale)), 0.0)
        width = max(float(np.ptp(values)), 1e-300)
        scale = depth * (self.high - self.low) / width
        scale = scale if fills else min(1.0, scale)
        slack = max(self.high - self.low - scale * width, 0.0)
        return Loss(scale * theta, self.low - scale * float(values.min()) + place * slack)

    def values(self, loss):
        values = self.table @ loss.theta + loss.constant
        return np.clip(values, self.low, self.high)  # which undoes rounding


@dataclass(frozen=True)
class Loss:
    """A member of a class."""

    theta: Any
    constant: float


def degree_of(kernel):
    """Of the polynomials that a kernel spans, up to a constant; None for other kernels."""
    if isinstance(kernel, kl.Linear):
        return 1
    if isinstance(kernel, kl.Quadratic):
        return 2
    return kernel.degree if isinstance(kernel, kl.Polynomial) and kernel.offset > 0 else None


class ByContext:
    """One class per context, where each has a learner of its own: values of all pairs, those of a context together."""

    def __init__(self, each):
        self.each, self.low, self.high = each, each[0].low, each[0].high
        self.places = np.arange(sum(len(one.places) for one in each))
        self.kind, self.nodes = each[0].kind, self.places

    def like(self, direction, place=0.5, depth=1.0):
        parts = np.split(np.asarray(direction, dtype=float), len(self.each))
        return [one.like(v, place, depth) for one, v in zip(self.each, parts, strict=True)]

    def values(self, loss):
        return np.concatenate([one.values(x) for one, x in zip(self.each, loss, strict=True)])


def losses_of(setting, learner, promise):
    """What may be played in a setting by the clauses of its guarantee."""
    actions, kernel = setting.actions, setting.kernel
    if setting.said.get("robust_kernel") == "any":
        kernel = kl.White()
    if setting.contexts is not None:
        X, C = actions.X, setting.contexts.X
        if setting.contexts.weights is None or setting.said["horizon"] is None:
            # what is assumed of the first holds for all, whose kernels differ by a factor that is 1 here
            one = Losses(setting, promise, X, kernel, np.arange(len(X)))
            return ByContext([one] * len(C))
        pairs = np.column_stack([np.repeat(C, len(X), axis=0), np.tile(X, (len(C), 1))])
        if setting.said.get("context_kernel") != "pairs":
            kernel = pair_kernel(learner.settings)
        return Losses(setting, promise, pairs, kernel, np.arange(len(pairs)))
    if isinstance(actions, kl.Points):
        places, played = actions.X, len(actions)
    elif isinstance(actions, kl.Ball):
        directions = np.random.default_rng(0).standard_normal((400, actions.dimension))
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        places = actions.radius * np.concatenate(
            [directions, 0.5 * directions[:80], 0 * directions[:1]]
        )
        played = 0
    else:  # the net, and what lies between its points
        net = np.asarray(learner.engine.actions)
        low, high = actions.bounds()
        between = low + (high - low) * np.random.default_rng(0).random((60, actions.dimension))
        places, played = np.concatenate([net, between]), len(net)
    if kernel == "auto":
        kernel = learner.settings.kernel
    return Losses(setting, promise, places, kernel, np.arange(played or len(places)))


class Functions:
    """Losses with full information: of the norm that is printed, or of the range."""

    def __init__(self, setting, promise):
        kernel, X = setting.kernel, places_of(setting)
        clauses = {one.key: one.numbers for one in promise.assumptions}
        self.kernel, self.places, self.nodes = kernel, X, np.arange(len(X))
        self.low, self.high = setting.low, setting.high
        self.arrays = "norm of losses" not in clauses  # then values are all that matters
        self.norm = 0.0 if self.arrays else float(clauses["norm of losses"]["norm"])
        self.gram = np.asarray(kernel(X, X))
        self.kind = "any" if self.arrays else "norm of losses"

    def like(self, direction, place=0.5, depth=1.0):
        v = np.asarray(direction, dtype=float)
        if self.arrays:
            width = max(float(np.ptp(v)), 1e-300)
            scaled = depth * (self.high - self.low) * (v - v.min()) / width
            return self.low + scaled + place * (1 - depth) * (self.high - self.low)
        v = v - v.mean()
        norm = math.sqrt(max(float(v @ self.gram @ v), 1e-300))
        return self.kernel.embed(self.places, depth * self.norm * (1 - 1e-10) / norm * v)

    def values(self, loss):
        return loss if self.arrays else np.asarray(loss(self.places))


def places_of(setting):
    """Actions that losses are made of, and that the player is compared with."""
    actions = setting.actions
    if isinstance(actions, kl.Points):
        return actions.X
    directions = np.random.default_rng(0).standard_normal((60, actions.dimension))
    return actions.radius * directions / np.linalg.norm(directions, axis=1, keepdims=True)


# Adversaries: `next(t, seen)` is the loss of round t, `seen` what an adversary that reacts may see: how likely each place is.


def constant(losses, n, rng):
    """One action is best, all game long."""
    one = losses.like(-spike(losses, rng))
    return lambda t, seen: one


def edge(losses, n, rng):
    """The same at one end of the actions, the loss as large as it can be elsewhere."""
    v = np.zeros(len(losses.places))
    v[0 if rng.random() < 0.5 else len(losses.nodes) - 1] = -1.0
    one = losses.like(v, place=1.0)
    return lambda t, seen: one


def middle(losses, n, rng):
    """The same in the middle."""
    v = np.zeros(len(losses.places))
    v[len(losses.nodes) // 2] = -1.0
    one = losses.like(v)
    return lambda t, seen: one


def zigzag(losses, n, rng):
    """Good and bad actions take turns."""
    one = losses.like((-1.0) ** np.arange(len(losses.places)))
    return lambda t, seen: one


def switch(losses, n, rng):
    """One action is best until the middle, then another, by more."""
    first, second = losses.like(-spike(losses, rng), depth=0.5), losses.like(-spike(losses, rng))
    return lambda t, seen: first if 2 * t < n else second


def trap(losses, n, rng):
    """An action that was among the worst is the best one in the last third."""
    v = spike(losses, rng)
    first, last = losses.like(v, depth=0.5), losses.like(-v)
    return lambda t, seen: first if 3 * t < 2 * n else last


def moving(losses, n, rng):
    """Something else in every round, with one action that is better on average."""
    home = spike(losses, rng)
    some = [losses.like(rng.standard_normal(len(home)) * home.std() - home) for _ in range(16)]
    order = rng.integers(16, size=n)
    return lambda t, seen: some[order[t]]


def narrow(losses, n, rng):
    """Differences that can just be told from noise."""
    depth = min(1.0, 2 * math.sqrt(min(len(losses.nodes), 8) / n))
    one = losses.like(-spike(losses, rng), depth=depth)
    return lambda t, seen: one


def against(losses, n, rng):
    """The loss is where the player is."""
    return lambda t, seen: losses.like(seen)


def lure(losses, n, rng):
    """Where the player hardly ever is, is the best."""
    return lambda t, seen: losses.like(-(seen == seen[losses.nodes].min()).astype(float))


def bait(losses, n, rng):
    """One action is the best one while the player is elsewhere."""
    home = spike(losses, rng)
    good, dull = losses.like(-home), losses.like(home, depth=0.25)
    top = int(np.argmax(home))
    return lambda t, seen: good if seen[top] < 2 / len(losses.nodes) else dull


OBLIVIOUS = (constant, edge, middle, zigzag, switch, trap, moving, narrow)
REACTING = (against, lure, bait)


def spike(losses, rng):
    v = np.zeros(len(losses.places))
    v[rng.choice(losses.nodes)] = 1.0
    return v
