r"""`ReservoirExp2`: contexts from a Space of many, or continuously many, points.

Finitely many *members* stand for all contexts, and every context is played as the nearest member, by the distance
|Φ(x) - Φ(c)| of the context kernel. The alternative, the features of the very context, was not taken for this reason: the estimator
needs the law of what is played, A = E Σ_a p(a|c) φφ'. With members the context is one of C cells, whose frequencies are counted and
converge, as with finitely many contexts (theory F6.5); what is lost is how far losses differ within a cell. With the features of
contexts themselves A would have to be estimated from a sample, whose error has no such limit: χ² between a continuous law
and a sample is infinite, and estimates of what the sample has missed are off by any factor.

Half of the members are a Sobol' set of the space. Whenever the number of the round has doubled some of the contexts seen join them,
those farthest from all members (Gonzalez' traversal, whose covering radius is at most twice the best), until there are as many as was
said. They come from a uniform sample of all contexts seen (algorithm R of Vitter), by which the frequencies are counted anew.
Features stay those of the first members, at new places, and no member leaves: what was learned keeps its meaning, and late losses
find the pair that they belong to. Nothing is proved of this, and so rates are those for features without error: with the error of
cells the bound would be trivial, and its best rates those of somebody who never exploits. All weights of estimates are 1, also without
a horizon.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from koloss._arrays import to_numpy
from koloss.actions import Contexts, Points
from koloss.designs import john_design
from koloss.designs.contexts import CappedDesign
from koloss.kernels import Mixed
from koloss.learners.bandit.context_designs import find_design, first_design
from koloss.learners.bandit.contexts import PairsEngine
from koloss.learners.bandit.exp2 import Epoch
from koloss.learners.bandit.pairs import (
    action_points,
    pair_kernel,
    pairs_engine,
    pairs_of,
    without_contexts,
)
from koloss.learners.bandit.settings import BanditSettings
from koloss.learners.bandit.shared import SharedExp2
from koloss.learners.bandit.tuning import choose_batch, choose_proxy, choose_rates
from koloss.learners.base import Recommendation
from koloss.learners.ledger import Drawn
from koloss.learners.reading import Reader
from koloss.learners.waiting import Late
from koloss.proxy import pivoted_cholesky

Floats = NDArray[np.float64]

SAMPLE = 16
"""Contexts seen that are kept, for each member."""

NEAR = 1e-4
"""Squared distance from a member, in units of the largest K(c, c), within which a context does not join."""

EVERYWHERE = 1024
"""Contexts of the whole space, at which one looks how far the nearest member is."""

LEAST = 1e-6
"""Least error at which features are cut off."""


class ReservoirEngine(PairsEngine):
    """The engine of pairs where contexts join."""

    changes = False  # one weight for all contexts, with a horizon or without

    def law_from_dict(self, data: Reader, over: bool) -> Any:
        known = len(data.array("discounts", (None,), 0, 1))
        if known > len(self.law_of_contexts):
            data.refuse("discounts", "must be of contexts in play", known)
        earlier = replace(self, law_of_contexts=self.law_of_contexts[:known])
        return PairsEngine.law_from_dict(earlier, data, over)


class ReservoirExp2(SharedExp2):
    """Algorithm 1 where every context is played as the nearest member, and contexts seen become members."""

    settings: BanditSettings
    kernel: Any  # of contexts, or "pairs"
    members: Floats  # (C, d), that stand for all contexts
    counts: Floats  # (C,), contexts nearest to each
    sample: Floats  # of contexts seen, while members can still join

    def frequencies(self) -> Floats:
        law: Floats = (self.counts + 1) / (self.counts + 1).sum()
        return law

    # Members.

    @property
    def _first(self) -> int:
        contexts = self.settings.contexts
        assert contexts is not None
        return len(contexts)

    @property
    def room(self) -> int:
        """How many contexts can still join."""
        contexts = self.settings.contexts
        assert contexts is not None
        assert contexts.reservoir is not None
        return contexts.reservoir - len(self.members)

    def nearest(self, X: Floats) -> Any:
        """Row of the member nearest to a context, or of those nearest to several."""
        rows = distances(self.kernel, np.atleast_2d(X), self.members).argmin(axis=1)
        return int(rows[0]) if X.ndim == 1 else rows

    def _redesign(self) -> None:
        t = self.made + 1
        if t >= 2 * self.engine.first and t > self._first and self.room:
            self._join(1 << (t.bit_length() - 1))
        super()._redesign()

    def _join(self, first: int) -> None:
        """Half of those for whom there is room become members, and the design is one for all."""
        new = farthest(self.kernel, self.sample, self.members, -(-self.room // 2))
        if len(new) == 0:
            return
        members, more = np.vstack([self.members, new]), (0, len(new))
        features = np.vstack([self.engine.features, self._lifted(new)])
        design = john_design(features)
        cells = distances(self.kernel, self.sample, members).argmin(axis=1)
        counts = np.bincount(cells, minlength=len(members)).astype(np.float64)
        counts *= self.made / len(self.sample)
        law = (counts + 1) / (counts + 1).sum()
        weights, largest = np.array(to_numpy(design.weights)), float(design.max_leverage)
        wider = replace(
            self.engine, features=np.asfortranarray(features), weights=weights, leverage=largest
        )
        self.engine = wider.redesigned(law, first)
        self.members, self.counts = members, counts
        self.seen, self.turn = np.pad(self.seen, more), np.pad(self.turn, more)
        self.masses = np.pad(self.masses, more)
        if not self.room:
            self.sample = self.sample[:0]

    def _lifted(self, new: Floats) -> Floats:
        """Features of the pairs of new members, by the map that made those of the first ones."""
        engine, K = self.engine, len(self.engine.points)
        framed = among(self.settings, self.members[: self._first])
        assert framed.contexts is not None
        points, kernel = Points(engine.points), pair_kernel(framed)
        pairs = pairs_of(framed.contexts, points)
        rank = engine.problem.rank - int(framed.loss_range is not None)  # the constant
        plain = without_contexts(
            framed, actions=pairs, kernel=kernel, ridge=0.0, spacing=None, rank=rank
        )
        proxy = choose_proxy(plain, pairs, engine.problem, lambda *_: 0.0, {})
        others = to_numpy(proxy(pairs_of(Contexts(new), points).X))
        old = np.column_stack([to_numpy(proxy.features), np.ones(len(pairs))])
        transform = np.linalg.lstsq(old, engine.features[: self._first * K], rcond=None)[0]
        lifted: Floats = np.column_stack([others, np.ones(len(others))]) @ transform
        return lifted

    def _remember(self, X: Floats, rng: Any) -> None:
        """Algorithm R: every context seen is in the sample with the same probability."""
        if not self.room:
            return
        assert self.settings.contexts is not None
        assert self.settings.contexts.reservoir is not None
        size = SAMPLE * self.settings.contexts.reservoir
        before, X = self.made - len(np.atleast_2d(X)), np.atleast_2d(X)
        free = max(0, size - before)
        if free:
            self.sample = np.vstack([self.sample, X[:free]])
        for k in range(free, len(X)):
            place = int(rng.integers(before + k + 1))
            if place < size:
                self.sample[place] = X[k]

    # Play.

    def draw_in(self, rows: Any, rng: Any) -> tuple[Epoch, Drawn]:
        """An action for a context, of the coordinates `rows`, or one for each of several."""
        X: Floats = rows
        if X.ndim == 2 or self.is_over():
            self._redesign()  # before one looks for the nearest
        nearest = self.nearest(X)
        drawn = super().draw_in(nearest, rng)
        np.add.at(self.counts, nearest, 1.0)
        self._remember(X, rng)
        return drawn

    def outlook_in(self, c: Any) -> Floats:
        player = self.ahead()  # members may have joined
        p: Floats = player.outlook()[player.nearest(c)]
        return p

    def recommend_in(self, c: Any) -> Recommendation:
        return super().recommend_in(self.nearest(c))

    # Snapshots.

    def to_dict(self) -> dict[str, Any]:
        kept = {name: getattr(self, name).copy() for name in ("members", "counts", "sample")}
        return {**super().to_dict(), **kept}

    def knew(self, law: Any, c: int) -> bool:
        """Whether a context was a member when a law was made."""
        return isinstance(law, Late) or c < len(law.law.discounts)


# Distances.


def distances(kernel: Any, X: Floats, members: Floats) -> Floats:
    """|Φ(x) - Φ(c)|² of contexts and members; for one kernel on pairs the squared distance of coordinates."""
    if kernel == "pairs":
        squared: Floats = np.sum((X[:, None] - members) ** 2, axis=2)
        return squared
    squared = to_numpy(kernel.diag(X))[:, None] + to_numpy(kernel.diag(members))
    squared -= 2 * to_numpy(kernel(X, members))
    return squared


def farthest(kernel: Any, sample: Floats, members: Floats, count: int) -> Floats:
    """Up to so many of a sample, each the farthest from all before it and from the members."""
    left = distances(kernel, sample, members).min(axis=1)
    near = NEAR * (1.0 if kernel == "pairs" else float(np.max(to_numpy(kernel.diag(members)))))
    chosen: list[int] = []
    while len(chosen) < count and left.max() > near:
        chosen.append(int(left.argmax()))
        left = np.minimum(left, distances(kernel, sample, sample[chosen[-1:]])[:, 0])
    return sample[chosen]


# Players.


def among(settings: BanditSettings, members: Floats) -> BanditSettings:
    """The settings of a game with finitely many contexts that are counted: these."""
    said = {"context_kernel": kernel_for(settings), "order": "independent", "bonus": False}
    return replace(settings, contexts=Contexts(members), ridge=0.0, **said)


def kernel_for(settings: BanditSettings) -> Any:
    """The kernel on contexts, by default with lengths of half the ranges."""
    assert settings.contexts is not None
    kernel = settings.context_kernel
    return Mixed(settings.contexts.space) if kernel is None else kernel


def worthwhile_rank(settings: BanditSettings, framed: BanditSettings) -> int:
    """As many features as leave out no more than what is lost by playing the nearest member, on average."""
    contexts, known = settings.contexts, framed.contexts
    assert contexts is not None
    assert contexts.space is not None
    assert known is not None
    points, kernel = action_points(settings), pair_kernel(framed)
    everywhere = pairs_of(Contexts(contexts.space.points(EVERYWHERE)), Points(points.X[:1])).X
    there = pairs_of(known, Points(points.X[:1])).X
    error = distances(kernel, to_numpy(everywhere), to_numpy(there)).min(axis=1).mean()
    proxy = pivoted_cholesky(kernel, pairs_of(known, points), tolerance=max(float(error), LEAST))
    return max(proxy.rank, 1)


def reservoir_player(settings: BanditSettings) -> ReservoirExp2:
    """Whoever plays contexts from a Space of many."""
    contexts = settings.contexts
    assert contexts is not None
    framed = among(settings, contexts.X)
    if settings.rank == "auto":
        framed = replace(framed, rank=worthwhile_rank(settings, framed))
    made = pairs_engine(framed)
    problem = replace(made.problem, epsilon=0.0, leverage=made.leverage)
    rates, mu = choose_rates(framed, problem), made.law_of_contexts

    def found(reach: float) -> CappedDesign:
        return find_design(made.features, made.weights, made.leverage, mu, reach)

    problem, rates, capped = first_design(framed, problem, rates, found)
    parts = {part.name: getattr(made, part.name) for part in fields(made)}
    engine = ReservoirEngine(**parts | {"problem": problem, "rates": rates, "capped": capped})
    batch = choose_batch(settings, engine.problem)
    player = ReservoirExp2(engine, engine.rates, horizon=settings.horizon, batch=batch)
    player.settings, player.members, player.kernel = settings, contexts.X, kernel_for(settings)
    player.counts, player.sample = np.zeros(len(contexts)), np.zeros((0, contexts.dimension))
    return player


def load_reservoir(data: Reader, settings: BanditSettings) -> ReservoirExp2:
    """The player in a snapshot."""
    contexts, saved = settings.contexts, data.part("exp2")
    assert contexts is not None
    assert contexts.reservoir is not None
    d = contexts.dimension
    members = saved.array("members", (None, d), -1, 1)
    if not len(contexts) <= len(members) <= contexts.reservoir:
        saved.refuse("members", "must be as many as the reservoir can hold", len(members))
    engine = ReservoirEngine.from_dict(data.part("engine"), among(settings, members))
    player = ReservoirExp2.from_dict(engine, saved, settings.horizon)
    assert isinstance(player, ReservoirExp2)
    player.settings, player.members, player.kernel = settings, members, kernel_for(settings)
    player.counts = saved.array("counts", (len(members),), 0)
    size = min(player.made, SAMPLE * contexts.reservoir) if player.room else 0
    player.sample = saved.array("sample", (size, d), -1, 1)
    return player
