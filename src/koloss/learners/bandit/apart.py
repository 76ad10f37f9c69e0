"""One learner per context, for contexts that come in any order (theory F6.7): nothing is shared, and nobody can exploit it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from koloss.core.snapshot import kept
from koloss.guarantees import promises
from koloss.guarantees.bandit import Rates
from koloss.learners.bandit.exp2 import Epoch, Exp2
from koloss.learners.bandit.points import PointsEngine
from koloss.learners.base import Recommendation
from koloss.learners.ledger import Drawn
from koloss.learners.waiting import Late

Floats = NDArray[np.float64]


@kept
@dataclass(slots=True)
class Turn:
    """What the decisions of one call were drawn from: an epoch of each context that came."""

    number: int
    epochs: dict[int, Epoch]

    together: ClassVar[bool] = False

    def shrink(self) -> None:
        """The epoch of a context is over when that context comes again, not before."""


@kept
class Apart:
    """Algorithm 1 once for each context: with the rates of its share of the horizon, or without a horizon.

    A decision's key is the number cK + a of its pair.
    """

    batch = 1
    each: list[Exp2]
    turns: int = 0  # calls

    def __init__(self, engines: Sequence[PointsEngine], horizon: int | None = None) -> None:
        self.each = [Exp2(engine, horizon=horizon, batch=1) for engine in engines]

    def __iter__(self) -> Iterator[Exp2]:
        return iter(self.each)

    @property
    def engine(self) -> PointsEngine:
        """That of the first context."""
        engine = self.each[0].engine
        assert isinstance(engine, PointsEngine)
        return engine

    @property
    def rates(self) -> Rates:
        """Those of the first context; without a horizon κ alone, for learning rate and exploration change with time."""
        return self.each[0].rates

    @property
    def range(self) -> Any:
        """Where losses lie."""
        return self.each[0].range

    @property
    def seen(self) -> NDArray[np.int64]:
        """Decisions in each context."""
        return np.array([exp2.made for exp2 in self.each], dtype=np.int64)

    def draw_in(self, rows: Any, rng: Any) -> tuple[Turn, Drawn]:
        """An action for a context, or one for each of several contexts."""
        K = len(self.engine.points)
        if isinstance(rows, int):
            epoch, drawn = self._draw(rows, None, rng)
            drawn = drawn._replace(keys=(rows * K + drawn.index,), contexts=(rows,))
            turn = Turn(self.turns + 1, {rows: epoch})
        else:
            index, p = np.empty(len(rows), dtype=np.int64), np.empty(len(rows))
            turn = Turn(self.turns + 1, {})
            for c in dict.fromkeys(rows.tolist()):
                here = rows == c
                turn.epochs[c], part = self._draw(c, int(here.sum()), rng)
                index[here], p[here] = part.index, part.probability
            drawn = Drawn(rows * K + index, self.engine.points[index], index, p, rows)
        self.turns += 1
        return turn, drawn

    def _draw(self, c: int, count: int | None, rng: Any) -> tuple[Epoch, Drawn]:
        exp2, before = self.each[c], self.each[c].epoch
        epoch, drawn = exp2.draw(count, rng)
        if before is not None and before is not epoch:
            before.shrink()
        return epoch, drawn

    def learn(self, turn: Turn | Late, keys: Sequence[Any], losses: Any) -> None:
        """Let the learner of each context hear its losses."""
        for key, loss in zip(keys, losses, strict=True):
            c, i = divmod(int(key), len(self.engine.points))
            exp2, latest = self.each[c], self.each[c].epochs
            if isinstance(turn, Late):
                exp2.learn(Late(turn.number, turn.numbers[1:]), [i], (loss,))
                exp2.late -= int(turn.numbers[0]) == latest  # its context has not come again
            else:
                exp2.learn(turn.epochs[c], [i], (loss,))

    def condensed(self, turn: Turn, keys: Sequence[Any]) -> list[Late] | None:
        """What is needed of a call long ago, for each decision: the number of its epoch, and what that epoch needs."""
        rows = []
        for key in keys:
            c, i = divmod(int(key), len(self.engine.points))
            small = self.each[c].condensed(turn.epochs[c], (i,))
            if small is None:
                return None
            number = [float(turn.epochs[c].number)]
            rows.append(Late(turn.number, np.concatenate([number, small[0].numbers])))
        return rows

    # What is known.

    def outlook_in(self, c: int) -> Floats:
        """Probability of every action in the next single decision, in a context."""
        return self.each[c].outlook()

    def recommend_in(self, c: int) -> Recommendation:
        """The best action by the estimates, in a context."""
        return self.each[c].recommend()

    def values(self) -> Floats:
        """Estimated mean loss of every action in every context."""
        rows = []
        for exp2 in self.each:
            assert isinstance(exp2.engine, PointsEngine)
            rows.append(exp2.engine.values(exp2.theta, max(exp2.mass, 1.0)) + exp2.engine.center)
        return np.array(rows)

    def played(self, longest_delay: int, unheard: int) -> promises.Played:
        """What the bound needs to know of the game so far."""
        made, heard, late, at_once = (
            sum(getattr(exp2, name) for exp2 in self.each)
            for name in ("made", "heard", "late", "at_once")
        )
        longest = max(exp2.longest_at_once for exp2 in self.each)
        return promises.Played(made, heard, late, longest_delay, unheard, at_once, longest)

    @property
    def is_anytime(self) -> bool:
        """Whether rates change with time."""
        return self.each[0].horizon is None

    @property
    def made(self) -> int:
        """Decisions."""
        return sum(exp2.made for exp2 in self.each)

    @property
    def heard(self) -> int:
        """Losses."""
        return sum(exp2.heard for exp2 in self.each)
