"""Calls in every shape, good and bad, and what must come of each.

A learner is called in some shape, and beside it a second one, the same to the last bit, with plain calls alone. Whatever is
called, both must have the same state afterwards. A call that is refused raises what the guide's page on errors lists for it,
names an argument, and changes nothing.
"""

from __future__ import annotations

import copy
import pickle
import re
from collections import deque
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

import koloss as kl
from tests.support import inside
from tests.support.cases import LEARNERS, Case, play

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "errors.md"


@cache
def documented() -> dict[str, frozenset[str]]:
    """What each call may raise, by the table of the guide."""
    text = PAGE.read_text(encoding="utf-8").partition("## Which call raises what")[2]
    _, _, *rows = (line.split("|")[1:3] for line in text.splitlines() if line.startswith("|"))
    names = re.compile(r"`([A-Za-z_.]+)`")
    listed: dict[str, frozenset[str]] = {}
    calls: list[str] = []
    for call, raises in rows:
        if call.strip():  # otherwise more of the call above
            calls = names.findall(call) or [call.strip()]
        for one in calls:
            listed[one] = listed.get(one, frozenset()).union(names.findall(raises))
    return listed


@cache
def starts(name: str) -> tuple[Any, ...]:
    """States in which sequences of calls begin: a new game, and one in which some losses are late."""
    case = LEARNERS[name]
    learner = case.make()
    fresh = learner.state()
    play(case, learner, 4 if name == "gradient, gaussian" else 12)
    learner.forget(before=learner.ledger.made)
    return fresh, learner.state()


@cache
def stranger(kind: type[kl.Learner]) -> tuple[Any, Any]:
    """Decisions of another learner."""
    learner = next(case for case in LEARNERS.values() if case.kind is kind).make()
    return learner.ask(), learner.ask(2)


# What may be given.


def names_of(some: list[Any], batch: Any) -> dict[str, Any]:
    """Some decisions, named in all ways; `batch` is that of which they are the whole or a part, if there is one."""
    ids = [d.id for d in some]
    boxed = np.empty(len(some), dtype=object)
    boxed[:] = some
    ways = {
        "decisions": some,
        "a tuple": tuple(some),
        "ids": ids,
        "a generator": (d for d in some),
        "an iterator of ids": iter(ids),
        "a deque": deque(some),
        "an array of ids": np.array(ids, dtype=np.int64),
        "small integers": np.array(ids, dtype=np.int16),
        "unsigned integers": np.array(ids, dtype=np.uint64),
        "NumPy scalars": [np.int32(i) for i in ids],
        "an array of decisions": boxed,
        "lists within lists": [[[d]] for d in some],
        "a mixture": [(d, d.id, [d], np.int64(d.id))[k % 4] for k, d in enumerate(some)],
        "two parts": [some[:1], tuple(ids[1:])],
    }
    if batch is not None:
        ways |= {"a batch": batch, "a batch in a list": [batch]}
        ways["parts of it"] = [batch[:1], batch[1:]]
    if ids == [*range(min(ids), max(ids) + 1)]:
        ways["a range"] = range(min(ids), max(ids) + 1)
    if len(some) == 1:
        ways |= {"a decision": some[0], "an id": ids[0], "a NumPy id": np.int64(ids[0])}
    return ways


def losses_as(case: Case, losses: list[Any]) -> dict[str, Any]:
    """Losses, one per decision, in all ways."""
    ways: dict[str, Any] = {
        "a list": list(losses),
        "a tuple": tuple(losses),
        "a generator": (x for x in losses),
        "a deque": deque(losses),
    }
    if case.kind.feedback == "bandit":
        ways |= {
            f"an array of {dtype}": np.array(losses, dtype=dtype)
            for dtype in ("f2", "f4", "f8", ">f8", "longdouble", "O")
        }
        ways |= {
            "NumPy scalars": [np.float64(x) for x in losses],
            "arrays of one number": [np.array(x) for x in losses],
            "fractions": [Fraction(x) for x in losses],
            "decimals": [Decimal(x) for x in losses],
            "every second entry": np.repeat(losses, 2)[::2],
        }
        if set(losses) <= {0.0, 1.0}:
            ways |= {"integers": [int(x) for x in losses], "bytes": np.array(losses, dtype="u1")}
    elif case.finite and case.kind is kl.ExpWeights:
        values = [loss(case.actions.X) for loss in losses]
        ways |= {"values": values, "a table": np.array(values).reshape(-1, len(case.actions))}
    if len(losses) == 1:
        for way in [way for way, form in ways.items() if not isinstance(form, Iterator)]:
            ways[f"{way}, its member"] = ways[way][0]
    return ways


def bad_names(waiting: list[Any], told: list[Any], made: int, kind: Any) -> dict[str, Any]:
    """What names no decision that waits."""
    one, several = stranger(kind)
    deep: Any = waiting[:1]
    for _ in range(50):
        deep = [deep]
    itself: list[Any] = []
    itself.append(itself)
    bad: dict[str, Any] = {repr(x): x for x in ("0", b"0", "", True, np.True_, None, 1.0, 1j)}
    bad |= {
        "NaN": float("nan"),
        "infinity": np.inf,
        "never made": made,
        "far beyond": 10**18,
        "beyond 64 bits": 10**400,
        "negative": -1,
        "very negative": -(10**400),
        "foreign": one,
        "a foreign batch": several,
        "an object": object(),
        "a type": int,
        "a slice": slice(0, 1),
        "floats": np.array([0.0]),
        "no number": np.array(float("nan")),
        "a date": np.datetime64("2020"),
        "masked": np.ma.masked,
        "in itself": itself,
        "text in a list": ["0"],
        "nothing in a list": [None],
    }
    if told:
        bad |= {"told": told[-1], "told, by its id": told[-1].id, "told, in a list": told[-1:]}
    if waiting:
        d = waiting[0]
        bad |= {
            "twice": [d, d.id],
            "too deep": deep,
            "a dict": {d.id: 0.5},
            "a set": {d.id},
            "a float": float(d.id),
            "a NumPy float": np.float64(d.id),
            "one of two": [d, made],
            "with a foreign one": [d, one],
            "with nothing": [d, None],
            "a table of twice the same": np.full((2, 2), d.id),
        }
        bad |= {"with one told": [d, told[-1]]} if told else {}
    return bad


def bad_losses(case: Case, losses: list[Any]) -> dict[str, Any]:
    """What is no loss for each of these decisions."""
    count = len(losses)
    bad: dict[str, Any] = {
        "too many": [*losses, *losses, losses[0]],
        "too few": losses[1:],
        "a generator of too few": (x for x in losses[1:]),
        "a dict": dict.fromkeys(range(count), losses[0]),
        "an object": object(),
        "a type": float,
        "text": "0.5" * count,
        "nested": [[[x]] for x in losses],
        "ragged": [losses, [losses]],
    }
    for what, (value, *_) in case.bad.items():
        bad[f"{what} among good ones"] = [*losses[1:], value]
        bad[f"a generator that ends in {what}"] = (x for x in [*losses[1:], value])
        if count == 1:
            bad[what] = value
    if case.kind.feedback == "bandit":
        table = np.zeros((count, count)) if count > 1 else np.zeros((1, 1))
        bad |= {
            "a matrix": table,
            "flags": np.ones(count, dtype=bool),
            "flags in a deque": deque([*losses[1:], True]),
            "a flag in an array": [*losses[1:], np.array(True)],
            "texts": np.array(["0.5"] * count),
            "masked": np.ma.array([0.5] * count, mask=[True] * count),
            "complex": np.full(count, 0.5 + 0j),
            "not a number": np.full(count, np.nan),
            "objects": np.array([*losses[1:], None], dtype=object),
            "dates": np.full(count, np.datetime64("2020")),
            "a decimal that is none": [*losses[1:], Decimal("NaN")],
        }
    return bad


BAD_COUNTS: list[Any] = [0, -1, 1.0, True, np.True_, "3", b"3", [3], np.float64(3)]
BAD_COUNTS.append(np.array([3, 3]))
BAD_COUNTS += [float("nan"), 1j, object(), slice(3), 10**12, 2**63, 10**400, -(10**400)]

BAD_ROUNDS: list[Any] = [0, -1, 1.5, True, "3", float("nan"), [3], 1j]

BAD_ACTIONS: list[Any] = [-1, 30, [0, 30], [-1], "x", None, [[9.0, 9.0]], [[np.nan, 0.0]], [[0.5]]]
BAD_ACTIONS += [[0.5], True, [True], 10**400, [[1], [2, 3]], np.zeros((0, 2)), [[[0.5]]], object()]
BAD_ACTIONS += [np.uint64(2**63), {0: 1}, 1j]


# A game of such calls.


class Calls:
    """A learner that is called in all shapes, and one that is called plainly."""

    def __init__(self, name: str, start: int, rng: np.random.Generator) -> None:
        self.begin(LEARNERS[name], starts(name)[start], rng)

    def begin(self, case: Case, state: Any, rng: np.random.Generator) -> None:
        """Two learners of one state."""
        self.case, self.rng = case, rng
        self.shaped, self.plain = (self.case.kind.from_state(state) for _ in range(2))
        self.waiting: dict[int, Any] = {}
        self.batches: list[Any] = []
        self.told: list[Any] = []
        self.digest = state["digest"]
        self.history: list[str] = []

    def play(self, steps: int) -> str | None:
        """Some steps; what went wrong, if anything did."""
        moves: list[Callable[[], str | None]] = [*[self.ask] * 2, *[self.tell] * 3]
        moves += [self.forget, self.look, self.restore]
        moves += [self.bad_ask, self.bad_tell, self.bad_tell, self.bad_forget, self.bad_look]
        for _ in range(steps):
            wrong = moves[self.rng.integers(len(moves))]()
            if wrong is not None:
                return f"{' > '.join(self.history)}: {wrong}"
        return None

    def _one_of(self, ways: dict[str, Any], step: str) -> Any:
        way = list(ways)[self.rng.integers(len(ways))]
        self.history.append(f"{step} {way}")
        return ways[way]

    def _some(self) -> tuple[list[Any], Any]:
        """Decisions that wait, in some order, and the batch that they are."""
        whole = [b for b in self.batches if all(i in self.waiting for i in b.id.tolist())]
        if whole and self.rng.random() < 0.4:
            batch = whole[self.rng.integers(len(whole))]
            if self.rng.random() < 0.5:
                batch = batch[int(self.rng.integers(len(batch))) :]
            return list(batch), batch
        ids = self.rng.permutation(list(self.waiting))[: int(self.rng.integers(1, 5))]
        return [self.waiting[int(i)] for i in ids], None

    def losses(self, some: list[Any]) -> list[Any]:
        return [self.case.loss(d.action, d.id) for d in some]

    def agree(self) -> str | None:
        """Whether both learners have the same state, or will have once a level that is due has begun in both."""
        self.digest = self.shaped.state()["digest"]
        same = self.digest == self.plain.state()["digest"] or self.settled() == self.settled(False)
        return None if same else "the state is not that after plain calls"

    def settled(self, shaped: bool = True) -> str:
        """The state of a learner after a snapshot and a look, either of which begins a level that is due."""
        again = self.case.kind.from_state((self.shaped if shaped else self.plain).state())
        if "contexts" not in self.case.settings:
            again.peek(np.random.default_rng(0), 1)
        return str(again.state()["digest"])

    def is_unchanged(self) -> bool:
        return self.shaped.state()["digest"] == self.digest or self.agree() is None

    def refused(self, call: str, function: Callable[[], Any]) -> str | None:
        try:
            function()
        except Exception as error:
            kind = type(error).__name__
            if kind not in documented()[call]:
                return f"{kind} is not listed for `{call}`: {error}"
            if "`" not in str(error):
                return f"{kind} names no argument: {error}"
        else:
            return "was not refused"
        return None if self.is_unchanged() else "was refused, and the state has changed"

    def both_ask(self, count: int | None) -> tuple[list[Any], Any]:
        """Decisions of both learners, and the batch that they are."""
        got = self.shaped.ask(count)
        self.plain.ask(count)
        return ([got], None) if count is None else (list(got), got)

    # Good calls.

    def ask(self) -> str | None:
        count = int(self.rng.integers(0, 5)) or None
        forms: dict[str, Any] = {f"{count or ''}": count}
        if count is not None:
            forms |= {f"np {count}": np.int64(count), f"array {count}": np.array(count)}
        got = self.shaped.ask(self._one_of(forms, "ask"))
        return self.asked(got, self.plain.ask(count), count)

    def asked(self, got: Any, expected: Any, count: int | None) -> str | None:
        """Whether both have answered alike."""
        fields = ("id", "action", "index", "probability", "epoch", "learner")
        for field in fields:
            if not np.array_equal(getattr(got, field), getattr(expected, field)):
                return f"another {field}"
        if count is not None:
            self.batches.append(got)
        self.waiting |= {d.id: d for d in ([got] if count is None else got)}
        return self.agree()

    def tell(self) -> str | None:
        if not self.waiting:
            self.history.append("tell []")
            self.shaped.tell([], [])
            return self.agree()
        some, batch = self._some()
        losses = self.losses(some)
        name = self._one_of(names_of(some, batch), "tell")
        form = self._one_of(losses_as(self.case, losses), "of")
        at_once = self._is_latest(some)
        self.shaped.tell(name, form)
        if at_once:  # one matrix product
            self.plain.tell(some, losses)
        else:
            for decision, loss in zip(some, losses, strict=True):
                self.plain.tell(decision, loss)
        for decision in some:
            del self.waiting[decision.id]
        self.told += some
        return self.agree()

    def _is_latest(self, some: list[Any]) -> bool:
        """Whether these are of the batch asked for last, so that their losses may be used together."""
        made = self.plain.ledger.made
        last = self.batches[-1].id.tolist() if self.batches else [-1]
        return last[-1] == made - 1 and all(d.id in last for d in some)

    def forget(self) -> str | None:
        if self.waiting and self.rng.random() < 0.5:
            some, batch = self._some()
            count = self.shaped.forget(self._one_of(names_of(some, batch), "forget"))
            self.plain.forget([d.id for d in some])
            gone = [d.id for d in some]
        else:
            before = int(self.rng.integers(0, self.shaped.ledger.made + 2))
            self.history.append(f"forget before={before}")
            count = self.shaped.forget(before=np.int64(before))
            self.plain.forget(before=before)
            gone = [i for i in self.waiting if i < before]
        for i in gone:
            del self.waiting[i]
        return self.agree() if count == len(gone) else f"{count} forgotten, not {len(gone)}"

    def look(self) -> str | None:
        learner, rng = self.shaped, np.random.default_rng(0)
        looks: dict[str, Callable[[], Any]] = {
            "peek": lambda: learner.peek(rng, np.int64(3)),
            "guarantee": learner.guarantee,
            "guarantee(rounds)": lambda: learner.guarantee(rounds=int(self.rng.integers(1, 10**6))),
            "diagnostics": lambda: str(learner.diagnostics),
            "repr": lambda: repr(learner) + inside.html(learner),
        }
        if self.case.kernel != kl.Gaussian(0.4) or self.case.finite or self.rng.random() < 0.1:
            looks["recommend"] = learner.recommend  # some tenths of a second on a ball
        if self.case.finite:
            looks["distribution"] = lambda: learner.distribution
            looks["probability"] = lambda: learner.probability([0, 3])
        self._one_of(looks, "look at")()
        return None if self.is_unchanged() else "looking has changed the state"

    def restore(self) -> str | None:
        learner, kind = self.shaped, self.case.kind
        ways = {
            "a snapshot": lambda: kind.from_state(learner.state()),
            "a copy": lambda: copy.deepcopy(learner),
            "a pickle": lambda: pickle.loads(pickle.dumps(learner)),
        }
        self.shaped = self._one_of(ways, "go on with")()
        return self.agree()

    # Bad calls.

    def bad_ask(self) -> str | None:
        count = self._one_of({_short(x): x for x in BAD_COUNTS}, "bad ask")
        return self.refused("ask", lambda: self.shaped.ask(count))

    def bad_tell(self) -> str | None:
        waiting = list(self.waiting.values())
        if waiting and self.rng.random() < 0.6:
            some, batch = self._some()
            name = self._one_of(names_of(some, batch), "bad tell")
            loss = self._one_of(bad_losses(self.case, self.losses(some)), "of")
        else:
            made, kind = self.shaped.ledger.made, self.case.kind
            name = self._one_of(bad_names(waiting, self.told, made, kind), "bad tell")
            loss = self.losses((waiting or [stranger(kind)[0]])[:1])
        return self.refused("tell", lambda: self.shaped.tell(name, loss))

    def bad_forget(self) -> str | None:
        waiting, made = list(self.waiting.values()), self.shaped.ledger.made
        bad = bad_names(waiting, self.told, made, self.case.kind)
        calls: dict[str, dict[str, Any]] = {way: {"ids": x} for way, x in bad.items()}
        calls["None"] = {}
        calls["both"] = {"ids": [], "before": 0}
        calls |= {f"before {x!r}": {"before": x} for x in (-1, 1.0, True, "3", [], float("nan"))}
        arguments = self._one_of(calls, "bad forget")
        return self.refused("forget", lambda: self.shaped.forget(**arguments))

    def bad_look(self) -> str | None:
        learner, rng = self.shaped, np.random.default_rng(0)
        bad: list[tuple[str, Callable[[Any], Any], list[Any]]] = [
            ("guarantee", lambda x: learner.guarantee(rounds=x), BAD_ROUNDS),
            ("peek", lambda x: learner.peek(rng, x), BAD_COUNTS),
            ("peek", learner.peek, [None, 3, np.random]),
            ("probability", learner.probability, BAD_ACTIONS),
        ]
        looks: dict[str, tuple[str, Callable[[], Any]]] = {}
        for call, look, values in bad:
            looks |= {
                f"{call} {_short(x)}, {k}": (call, partial(look, x)) for k, x in enumerate(values)
            }
        if not self.case.finite:
            looks["distribution"] = ("distribution", lambda: learner.distribution)
        if getattr(learner.settings, "tuning", None) != "paper":
            looks["guarantee printed"] = ("guarantee", lambda: learner.guarantee(printed=True))
        call, function = self._one_of(looks, "bad")
        return self.refused(call, function)


def _short(value: Any) -> str:
    """A label, also of numbers with hundreds of digits."""
    if isinstance(value, int) and abs(value) > 10**20:
        return f"{'-' if value < 0 else ''}beyond 64 bits"
    return repr(value)


def every_form(name: str) -> Iterator[str | None]:
    """Each form of decisions, of losses, and of what is neither, once for one decision and once for several."""
    for count in (None, 3):
        game = Calls(name, 0, np.random.default_rng(0))
        some, batch = game.both_ask(count)
        ways, forms = names_of(some, batch), losses_as(game.case, game.losses(some))
        for way, form in [*((way, "a list") for way in ways), *(("ids", form) for form in forms)]:
            some, batch = game.both_ask(count)
            losses = game.losses(some)
            told_as = losses_as(game.case, losses)
            try:
                # Losses may be whole numbers in one round and not in another.
                game.shaped.tell(names_of(some, batch)[way], told_as.get(form, losses))
                wrong = None
            except Exception as error:
                wrong = f"{type(error).__name__}: {error}"
            game.plain.tell(some, losses)
            wrong = wrong or game.agree()
            yield None if wrong is None else f"{name}: tell {way} of {form}: {wrong}"
            if wrong is not None:
                game = Calls(name, 0, np.random.default_rng(0))
        told, _ = game.both_ask(count)
        game.shaped.tell(told, game.losses(told))
        some, batch = game.both_ask(count)
        game.digest = game.shaped.state()["digest"]
        losses, made = game.losses(some), game.shaped.ledger.made
        tells = {what: (some, loss) for what, loss in bad_losses(game.case, losses).items()}
        bad = bad_names(some, told, made, game.case.kind)
        tells |= {f"of {what}": (target, losses[:1]) for what, target in bad.items()}
        calls = {
            f"tell {len(some)}, {what}": ("tell", partial(game.shaped.tell, *said))
            for what, said in tells.items()
        }
        asks = {_short(count): ("ask", partial(game.shaped.ask, count)) for count in BAD_COUNTS}
        for what, (call, function) in (calls | asks).items():
            wrong = game.refused(call, function)
            yield None if wrong is None else f"{name}: {what}: {wrong}"
            if wrong is not None:
                game.digest = game.shaped.state()["digest"]  # or all that follow would fail, too
