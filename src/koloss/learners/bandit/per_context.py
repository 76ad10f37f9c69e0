"""A player per context, for contexts that come in any order (theory F6.7, F6.11): `Exp2`, as many times as there are contexts.

They share the range of the losses and nothing else, so that nobody who orders the contexts can exploit what one learns from another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from koloss.core.snapshot import Bools, kept
from koloss.guarantees import Guarantee, contexts, promises
from koloss.guarantees.bandit import Rates
from koloss.guarantees.base import clause, note
from koloss.learners.bandit.exp2 import Epoch, Exp2, Other, among_some, prove, within_shares
from koloss.learners.bandit.loss_range import LossRange
from koloss.learners.bandit.pairs import in_context, scale_in
from koloss.learners.bandit.points import PointsEngine
from koloss.learners.bandit.subsets import own_engine
from koloss.learners.base import Recommendation
from koloss.learners.ledger import Drawn
from koloss.learners.waiting import Late

if TYPE_CHECKING:
    from koloss.learners.bandit.settings import BanditSettings

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
class PerContext:
    """Algorithm 1 for each context: a dictionary of players, each made when its context first comes.

    It is asked what an `Exp2` is asked, for a context. A decision's key is the number cK + a of its pair.
    """

    engines: list[PointsEngine]  # of every context; those alike have the same
    horizon: int | None
    batch: int
    masks: Bools | None  # (C, K), what contexts allow; None: everything
    range: LossRange  # of the losses in all contexts
    players: dict[int, Exp2]
    epochs: int = 0  # calls

    def __init__(
        self,
        engines: Sequence[PointsEngine],
        *,
        horizon: int | None,
        batch: int = 1,
        masks: Bools | None = None,
    ) -> None:
        self.engines, self.horizon, self.batch, self.masks = list(engines), horizon, batch, masks
        self.range, self.players = self.engine.loss_range(), {}

    def __getitem__(self, c: int) -> Exp2:
        """The player of a context; of one that has not come, as it would begin."""
        player = self.players.get(c)
        if player is None:
            player = Exp2(self.engines[c], horizon=self.horizon, batch=self.batch)
            player.range = self.range
        return player

    def fresh(self) -> PerContext:
        """The same that has not begun to play."""
        return PerContext(self.engines, horizon=self.horizon, batch=self.batch, masks=self.masks)

    @property
    def each(self) -> list[Exp2]:
        """The players of all contexts."""
        return [self[c] for c in range(len(self.engines))]

    @property
    def engine(self) -> PointsEngine:
        """That of the first context."""
        return self.engines[0]

    @property
    def rates(self) -> Rates:
        """Those of the first context; without a horizon κ alone, for learning rate and exploration change with time."""
        return self.engine.rates

    def rates_now(self) -> tuple[float, float]:
        """η and γ where η is largest."""
        return max(player.rates_now() for player in self.each)

    # Draw and learn.

    def draw(
        self, count: int | None, rng: Any, awake: Bools | None = None, rows: Any = None
    ) -> tuple[Turn, Drawn]:
        """An action for a context, or one for each of several contexts, of those that are awake."""
        K, number = len(self.engine.points), self.epochs + 1
        if count is None:
            epoch, drawn = self._draw(rows, None, rng, self._within(rows, awake))
            turn = Turn(number, {rows: epoch})
            drawn = drawn._replace(keys=(rows * K + drawn.index,), contexts=(rows,))
        else:
            index, p = np.empty(count, dtype=np.int64), np.empty(count)
            among = {c: self._within(c, awake) for c in dict.fromkeys(rows.tolist())}
            turn = Turn(number, {})
            for c, mask in among.items():
                here = rows == c
                turn.epochs[c], part = self._draw(c, int(here.sum()), rng, mask)
                index[here], p[here] = part.index, part.probability
            drawn = Drawn(rows * K + index, self.engine.points[index], index, p, rows)
        self.epochs = number
        return turn, drawn

    def _draw(
        self, c: int, count: int | None, rng: Any, awake: Bools | None
    ) -> tuple[Epoch, Drawn]:
        player = self[c]
        before = player.epoch
        epoch, drawn = player.draw(count, rng, awake)
        self.players[c] = player
        if before is not None and before is not epoch:
            before.shrink()
        return epoch, drawn

    def _within(self, c: int, awake: Bools | None) -> Bools | None:
        """Which of those awake a context allows; None: all that it allows."""
        if awake is None or self.masks is None:
            return awake
        both: Bools = awake & self.masks[c]
        if not both.any():
            raise ValueError("`allowed` must leave an action that the context allows, got none")
        return None if np.array_equal(both, self.masks[c]) else both

    def learn(self, turn: Turn | Late, keys: Sequence[Any], losses: Any) -> None:
        """Let the player of each context hear its losses."""
        for key, loss in zip(keys, losses, strict=True):
            c, i = divmod(int(key), len(self.engine.points))
            player, before = self.players[c], (self.range.heard_low, self.range.heard_high)
            if isinstance(turn, Late):
                number, epoch = int(turn.numbers[0]), player.epoch
                # Its context has not come again.
                in_time = epoch is not None and epoch.number == number and not epoch.over
                player.learn(Late(number, turn.numbers[1:]), [i], (loss,))
                player.late -= in_time
            else:
                player.learn(turn.epochs[c], [i], (loss,))
            if (self.range.heard_low, self.range.heard_high) != before:
                self.stop()

    def stop(self) -> None:
        """End all epochs of which something could still be drawn."""
        for player in self.players.values():
            if player.epoch is not None and player.epoch.draws < self.batch:
                player.stop()

    def condensed(self, turn: Turn, keys: Sequence[Any]) -> list[Late] | None:
        """What is needed of a call long ago, for each decision: the number of its epoch, and what that epoch needs."""
        rows = []
        for key in keys:
            c, i = divmod(int(key), len(self.engine.points))
            small = self.players[c].condensed(turn.epochs[c], (i,))
            if small is None:
                return None
            number = [float(turn.epochs[c].number)]
            rows.append(Late(turn.number, np.concatenate([number, small[0].numbers])))
        return rows

    def add(self, rows: Any) -> None:
        """Let some actions begin, or begin anew, in every context."""
        for player in self.players.values():
            player.add(rows)

    # What is known.

    def outlook(self, awake: Bools | None = None, row: int | None = None) -> Floats:
        """Probability of every action in the next single decision, in a context; without one in all, (C, K)."""
        if row is None:
            return np.array([self.outlook(awake, c) for c in range(len(self.engines))])
        return self[row].outlook(self._within(row, awake))

    def recommend(self, awake: Bools | None = None, row: int = 0) -> Recommendation:
        """The best action by the estimates, in a context."""
        among = self._within(row, awake)
        if among is None and self.masks is not None:
            among = self.masks[row]
        return self[row].recommend(among)

    def values(self) -> Floats:
        """Estimated mean loss of every action in every context; of one that a context does not allow the mean of the others."""
        values = np.array([player.values() for player in self.each])
        if self.masks is not None:
            means = values.mean(axis=1, where=self.masks, keepdims=True)
            values = np.where(self.masks, values, means)
        return values

    @property
    def counts(self) -> NDArray[np.int64]:
        """Decisions in each context."""
        made = np.zeros(len(self.engines), dtype=np.int64)
        for c, player in self.players.items():
            made[c] = player.made
        return made

    @property
    def frequencies(self) -> Floats:
        """How often each context has come, as a column."""
        return self.counts[:, None] / max(self.made, 1)

    @property
    def epoch(self) -> None:
        """There is not one for all."""
        return

    @property
    def made(self) -> int:
        """Decisions."""
        return sum(player.made for player in self.players.values())

    @property
    def heard(self) -> int:
        """Losses."""
        return sum(player.heard for player in self.players.values())

    @property
    def late(self) -> int:
        """Losses heard after their context had come again."""
        return sum(player.late for player in self.players.values())

    def played(self, longest_delay: int, unheard: int) -> promises.Played:
        """What the bound needs to know of the game so far."""
        players = self.players.values()
        return promises.Played(
            made=self.made,
            heard=self.heard,
            late=self.late,
            longest_delay=longest_delay,
            unheard=unheard,
            at_once=sum(player.at_once for player in players),
            longest_at_once=max((player.longest_at_once for player in players), default=0),
            outside=self.range.has_been_left,
        )

    # What is proved.

    def proved(
        self, rounds: int, played: promises.Played, awake: Bools | None = None, other: Other = None
    ) -> Guarantee:
        """In any order (theory F6.7, 1), with fixed rates where there is a horizon (theory F6.11); a note says what is not covered.

        The words, and what a loss that is not heard or a net costs, are those of one player; the numbers add up.
        """
        made = {id(one): one if other is None else other(one) for one in self.engines}
        engines = [made[id(one)] for one in self.engines if one.problem.log_prior > 0]
        if not engines:
            return promises.one_action(rounds)
        first = max(engines, key=lambda engine: engine.rates.exploration)
        words = prove(first, first.rates, self.batch, rounds, self.horizon, played, self.range)
        promise = contexts.separate(
            [engine.problem for engine in engines],
            [engine.rates.kappa for engine in engines],
            rounds,
            words.trivial,
            None if self.horizon is None else [engine.rates.learning_rate for engine in engines],
            self.batch,
        )
        net = max(engine.comparator(rounds, 1.0)[1]["net"] for engine in engines)
        terms = {**promise.terms, "unheard": words.terms["unheard"], "net": net}
        if words.unit:
            terms["range"] = words.terms["range"]
        totals = [one.totals for one in self.players.values() if one.totals is not None]
        offered = awake is not None or bool(totals)
        planned = first.problem.delay
        in_time = not played.late or 0 < played.longest_delay <= planned
        doubts = [
            (note("contexts one by one"), self.horizon and (played.at_once or not in_time)),
            (note("contexts hindsight"), first.problem.hindsight),
            (note("contexts range"), self.range.learned or played.outside),
            (note("contexts sampled"), first.is_sampled),
            (note("contexts penalties"), first.schedule is not None),
            (note("contexts offered"), offered),
        ]
        notes = [one for one, doubted in doubts if doubted]
        promise = replace(
            words,
            theorems=promise.theorems,
            terms=terms,
            details=("epochs",) if self.batch > 1 else (),
            comparator="mapping",
            assumptions=(*words.assumptions, clause("late order" if planned else "any order")),
            proved=words.proved and not notes,
            remarks=(*words.remarks, *notes),
        )
        if offered:
            dearest = max(totals, key=lambda one: one.price, default=None)
            promise = among_some(promise, first, dearest, awake)
        promise = within_shares(promise, first)
        return replace(promise, comparator="mapping law") if promise.price else promise


def engines_of(settings: BanditSettings) -> list[PointsEngine]:
    """An engine for each context; those that are alike have the same.

    Where a horizon is stated each is tuned for its share of it (theory F6.11), otherwise it has none, and no ridge unless one is stated.
    """
    from koloss.guarantees.contexts import horizons
    from koloss.learners.bandit.setup import points_engine

    assert settings.contexts is not None
    engines: dict[Any, PointsEngine] = {}
    made, n, C = [], settings.horizon, len(settings.contexts)
    batch = 1 if settings.batch == "auto" else settings.batch
    said: dict[str, Any] = {"horizon": None, "ridge": 0.0, "batch": batch}
    if settings.ridge != "auto":
        said["ridge"] = settings.ridge
    if n is not None:
        said = {"horizon": max(1, round(n / C)), "batch": batch}
    for c in range(C):
        scale = scale_in(settings, c)
        alike: Any = c if scale is None else (scale,)
        if alike not in engines:
            engines[alike] = points_engine(in_context(settings, c, **said), trial=c > 0)
        engine = engines[alike]
        if settings.contexts.allowed is not None:
            mask = settings.contexts.allowed[c]
            alike = (alike, mask.tobytes())
            if alike not in engines:
                engines[alike] = own_engine(engine, mask)
            engine = engines[alike]
        made.append(engine)
    if n is None or settings.learning_rate is not None or settings.exploration_rate is not None:
        return made
    rounds = horizons([one.problem for one in made], [one.rates.kappa for one in made], n)
    tuned: dict[int, PointsEngine] = {}
    for engine, own in zip(made, rounds, strict=True):
        if id(engine) not in tuned:
            same = own == engine.problem.rounds and settings.contexts.allowed is None
            tuned[id(engine)] = engine if same else engine.retuned(own, batch)
    return [tuned[id(engine)] for engine in made]
